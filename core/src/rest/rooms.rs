//! Rooms, and who may enter them.

use alloc::{string::String, vec::Vec};

use serde::Serialize;

use super::{
    ActorType, ApiError, Call, Json, ListParams, Method, Page, Path, ResourceStatus, apps, check,
    json::{self, Fields, Resource},
};
use crate::text_enum::text_enum;

/// Most characters of a grant's role.
const MAX_ROLE: usize = 100;

/// Lists an app's rooms.
///
/// # Errors
/// [`ApiError::Misuse`] for an id that cannot be one, and for page 0.
pub fn list(app_id: &str, params: &ListParams) -> Result<Call<Page<Room>>, ApiError> {
    Call::new(Method::Get, all(app_id)?, json::page).query(params)
}

/// Reads one room.
///
/// # Errors
/// [`ApiError::Misuse`] for an id that cannot be one.
pub fn get(app_id: &str, room_id: &str) -> Result<Call<Room>, ApiError> {
    Ok(Call::new(Method::Get, one(app_id, room_id)?, json::one))
}

/// Creates a room. Rooms never come to be by themselves: until this, its topics are unknown.
///
/// # Errors
/// [`ApiError::Misuse`] for an id, a name, a slug or a topic that no server takes.
pub fn create(app_id: &str, room: &RoomCreate) -> Result<Call<Room>, ApiError> {
    room.check()?;
    Call::new(Method::Post, all(app_id)?, json::one).body(room)
}

/// Creates a room unless there is one of that slug, which is then given unchanged.
///
/// The server refuses with 403 unless the app's `config.autoProvisionRooms` is true.
///
/// # Errors
/// [`ApiError::Misuse`] for an id, a name, a slug or a topic that no server takes.
pub fn ensure(app_id: &str, room: &RoomCreate) -> Result<Call<Room>, ApiError> {
    room.check()?;
    Call::new(Method::Post, all(app_id)?.then("ensure"), json::one).idempotent().body(room)
}

/// Changes a room.
///
/// # Errors
/// [`ApiError::Misuse`] for an id, a name or a topic that no server takes.
pub fn update(app_id: &str, room_id: &str, room: &RoomUpdate) -> Result<Call<Room>, ApiError> {
    room.name.as_deref().map_or(Ok(()), check::name)?;
    check::topics(room.topics.as_deref())?;
    check::object("metadata", room.metadata.as_ref())?;
    check::object("config", room.config.as_ref())?;
    Call::new(Method::Patch, one(app_id, room_id)?, json::one).body(room)
}

/// Deletes a room. Static rooms, which come from a blueprint, cannot be deleted.
///
/// # Errors
/// [`ApiError::Misuse`] for an id that cannot be one.
pub fn delete(app_id: &str, room_id: &str) -> Result<Call<()>, ApiError> {
    Ok(Call::new(Method::Delete, one(app_id, room_id)?, json::nothing))
}

/// Grants access to a room. The first grant makes the room private: from then on only actors with a grant may enter.
///
/// # Errors
/// [`ApiError::Misuse`] for an id, a topic or a role that no server takes.
pub fn grant_access(
    app_id: &str,
    room_id: &str,
    access: &RoomAccessCreate,
) -> Result<Call<RoomAccess>, ApiError> {
    if let Grantee::ActorTokenId(id) = &access.to {
        check::id("actor id", id)?;
    }
    check::topics(access.topics.as_deref())?;
    check::length("role", access.role.as_deref(), MAX_ROLE)?;
    check::object("metadata", access.metadata.as_ref())?;
    Call::new(Method::Post, access_of(app_id, room_id)?, json::one).body(access)
}

/// Lists the grants of a room.
///
/// # Errors
/// [`ApiError::Misuse`] for an id that cannot be one, and for page 0.
pub fn list_access(
    app_id: &str,
    room_id: &str,
    params: &ListParams,
) -> Result<Call<Page<RoomAccess>>, ApiError> {
    Call::new(Method::Get, access_of(app_id, room_id)?, json::page).query(params)
}

/// Takes a grant back. Without its last grant the room is open to all again.
///
/// # Errors
/// [`ApiError::Misuse`] for an id that cannot be one.
pub fn revoke_access(app_id: &str, room_id: &str, access_id: &str) -> Result<Call<()>, ApiError> {
    let path = access_of(app_id, room_id)?.id("access id", access_id)?;
    Ok(Call::new(Method::Delete, path, json::nothing))
}

fn all(app_id: &str) -> Result<Path, ApiError> {
    Ok(apps::one(app_id)?.then("rooms"))
}

fn one(app_id: &str, room_id: &str) -> Result<Path, ApiError> {
    all(app_id)?.id("room id", room_id)
}

fn access_of(app_id: &str, room_id: &str) -> Result<Path, ApiError> {
    Ok(one(app_id, room_id)?.then("actors"))
}

body! {
    /// What to create a room with.
    RoomCreate(name: String) {
        /// Its name in addresses: words of `a-z 0-9` with one `-` between them, at most 100 characters. Made from the
        /// name by default.
        slug: text,
        /// For people.
        description: text,
        /// Its topics; those of the app by default. What actors may do depends on the app's list, or their grant's.
        topics: texts,
        /// Free-form data, an object.
        metadata: json,
        /// Settings, an object: what the official client sends for `metadata`.
        config: json,
        /// Adds the topics that WebRTC calls need.
        enable_webrtc: flag as "enableWebRTC",
    }
}

impl RoomCreate {
    /// A room of this name: 1 to 255 characters.
    pub fn new(name: impl Into<String>) -> Self {
        Self::with(name.into())
    }

    fn check(&self) -> Result<(), ApiError> {
        check::name(&self.name)?;
        check::slug(self.slug.as_ref())?;
        check::topics(self.topics.as_deref())?;
        check::object("metadata", self.metadata.as_ref())?;
        check::object("config", self.config.as_ref())
    }
}

body! {
    /// What to change of a room. Its slug cannot be changed.
    #[derive(Default)]
    RoomUpdate() {
        /// The name: 1 to 255 characters.
        name: text,
        /// For people.
        description: patch(String),
        /// Whether it may be used.
        status: value(ResourceStatus),
        /// Whether it may be used, as older control planes and the official client have it.
        is_enabled: flag,
        /// Its topics.
        topics: texts,
        /// Free-form data, an object.
        metadata: json,
        /// Settings, an object: what the official client sends for `metadata`.
        config: json,
    }
}

impl RoomUpdate {
    /// Changes nothing yet.
    pub fn new() -> Self {
        Self::with()
    }
}

body! {
    /// What to grant, and to whom.
    #[doc(alias = "RoomActorAccessCreate")]
    RoomAccessCreate(permission: AccessPermission, #[serde(flatten)] to: Grantee) {
        /// Only these topics; all of the app's by default.
        topics: texts,
        /// `false` grants nothing yet.
        is_active: flag,
        /// When it ends, in ISO 8601; never by default.
        expires_at: text,
        /// A label for people, at most 100 characters.
        role: text,
        /// Free-form data, an object.
        metadata: json,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Grantee {
    ActorTokenId(String),
    ActorType(ActorType),
}

impl RoomAccessCreate {
    /// A grant to one actor.
    pub fn to_actor(actor_id: impl Into<String>, permission: impl Into<AccessPermission>) -> Self {
        Self::with(permission.into(), Grantee::ActorTokenId(actor_id.into()))
    }

    /// A grant to all actors of a type.
    pub fn to_type(actor_type: impl Into<ActorType>, permission: impl Into<AccessPermission>) -> Self {
        Self::with(permission.into(), Grantee::ActorType(actor_type.into()))
    }
}

text_enum! {
    /// What a grant permits.
    AccessPermission {
        /// Publishing.
        Publish = "publish",
        /// Both.
        PubSub = "pubSub",
        /// Subscribing.
        Subscribe = "subscribe",
    }
}

text_enum! {
    /// Where a room comes from.
    RoomType {
        /// Somebody created it.
        Dynamic = "dynamic",
        /// It belongs to the app's blueprint.
        Static = "static",
    }
}

/// A room.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Room {
    /// Its id.
    pub room_id: String,
    /// The app that it belongs to.
    pub app_id: String,
    /// Its name.
    pub name: String,
    /// Its name in addresses. Empty if the server does not say.
    pub slug: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room_type: Option<RoomType>,
    /// Whether it may be used; see [`may_be_used`](Self::may_be_used).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ResourceStatus>,
    /// What older control planes have for `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_enabled: Option<bool>,
    /// Its topics; without, those of the app.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<String>>,
    /// Free-form data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    /// Settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Json>,
    /// When it was created, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// When it last changed, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
    /// What else the server said: an object.
    #[serde(flatten)]
    pub extra: Json,
}

impl Room {
    /// Whether it may be used, by whichever field the server says so. True if it says nothing.
    pub fn may_be_used(&self) -> bool {
        json::may_be_used(self.status.as_ref(), self.is_enabled)
    }
}

impl Resource for Room {
    const ID: &'static str = "roomId";

    fn read(mut fields: Fields) -> Result<Self, String> {
        Ok(Self {
            room_id: fields.id(Self::ID)?,
            app_id: fields.text("appId"),
            name: fields.text("name"),
            slug: fields.text("slug"),
            description: fields.take("description"),
            room_type: fields.take("roomType"),
            status: fields.take("status"),
            is_enabled: fields.take("isEnabled"),
            topics: fields.take("topics"),
            metadata: fields.take("metadata"),
            config: fields.take("config"),
            created_at: fields.take("createdAt"),
            updated_at: fields.take("updatedAt"),
            extra: fields.extra(),
        })
    }
}

/// A grant: who may do what in a room.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[doc(alias = "RoomActorAccess")]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RoomAccess {
    /// The grant's id, to revoke it by.
    #[serde(rename = "roomActorAccessId")]
    pub access_id: String,
    /// The room.
    pub room_id: String,
    /// The actor that has it, if it is one actor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_token_id: Option<String>,
    /// The actors that have it, if it is a type's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_type: Option<ActorType>,
    /// What it permits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<AccessPermission>,
    /// The topics that it is for; without, all of the app's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<String>>,
    /// Whether it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_active: Option<bool>,
    /// When it ends, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// A label for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Free-form data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    /// When it was created, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// When it last changed, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
    /// What else the server said: an object.
    #[serde(flatten)]
    pub extra: Json,
}

impl Resource for RoomAccess {
    const ID: &'static str = "roomActorAccessId";

    fn read(mut fields: Fields) -> Result<Self, String> {
        Ok(Self {
            access_id: fields.id(Self::ID)?,
            room_id: fields.text("roomId"),
            actor_token_id: fields.take("actorTokenId"),
            actor_type: fields.take("actorType"),
            permission: fields.take("permission"),
            topics: fields.take("topics"),
            is_active: fields.take("isActive"),
            expires_at: fields.take("expiresAt"),
            role: fields.take("role"),
            metadata: fields.take("metadata"),
            created_at: fields.take("createdAt"),
            updated_at: fields.take("updatedAt"),
            extra: fields.extra(),
        })
    }
}
