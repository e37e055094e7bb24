//! Actors: who may connect, and the tokens they connect with.

use alloc::{format, string::String};

use serde::Serialize;

use super::{
    ApiError, Call, Json, ListParams, Method, Page, Path, ResourceStatus, check,
    json::{self, Fields, Resource},
};
use crate::Token;

pub use crate::ActorType;

/// Lists the project's actors.
///
/// # Errors
/// [`ApiError::Misuse`] for page 0.
pub fn list(params: &ListParams) -> Result<Call<Page<Actor>>, ApiError> {
    Call::new(Method::Get, all(), json::page).query(params)
}

/// Reads one actor.
///
/// # Errors
/// [`ApiError::Misuse`] for an id that cannot be one.
pub fn get(actor_id: &str) -> Result<Call<Actor>, ApiError> {
    Ok(Call::new(Method::Get, one(actor_id)?, json::one))
}

/// Creates an actor. The answer, and no other one ever, has its token: keep it.
///
/// # Errors
/// [`ApiError::Misuse`] for a name or a scope that no server takes.
pub fn create(actor: &ActorCreate) -> Result<Call<ActorWithToken>, ApiError> {
    check::name(&actor.name)?;
    check::object("metadata", actor.metadata.as_ref())?;
    actor.access_scope_id.as_deref().map_or(Ok(()), |id| check::id("scope id", id))?;
    Call::new(Method::Post, all(), json::one).body(actor)
}

/// Changes an actor.
///
/// # Errors
/// [`ApiError::Misuse`] for an id, a name or a scope that no server takes.
pub fn update(actor_id: &str, actor: &ActorUpdate) -> Result<Call<Actor>, ApiError> {
    actor.name.as_deref().map_or(Ok(()), check::name)?;
    check::object("metadata", actor.metadata.as_ref())?;
    actor.access_scope_id.value().map_or(Ok(()), |id| check::id("scope id", id))?;
    Call::new(Method::Patch, one(actor_id)?, json::one).body(actor)
}

/// Deletes an actor; its connections are closed.
///
/// # Errors
/// [`ApiError::Misuse`] for an id that cannot be one.
pub fn delete(actor_id: &str) -> Result<Call<()>, ApiError> {
    Ok(Call::new(Method::Delete, one(actor_id)?, json::nothing))
}

fn all() -> Path {
    Path::new("/actors")
}

fn one(actor_id: &str) -> Result<Path, ApiError> {
    all().id("actor id", actor_id)
}

body! {
    /// What to create an actor with.
    ActorCreate(name: String, actor_type: ActorType) {
        /// For people.
        description: text,
        /// What your own system calls it.
        external_id: text,
        /// Free-form data, an object.
        metadata: json,
        /// The scope that it is confined to.
        access_scope_id: text,
        /// When its token ends, in ISO 8601; never by default.
        expires_at: text,
    }
}

impl ActorCreate {
    /// An actor of this name, of 1 to 255 characters, and type: an [`ActorType`] or its name, as in `"device"`.
    pub fn new(name: impl Into<String>, actor_type: impl Into<ActorType>) -> Self {
        Self::with(name.into(), actor_type.into())
    }
}

body! {
    /// What to change of an actor. Its type cannot be changed.
    #[derive(Default)]
    ActorUpdate() {
        /// The name: 1 to 255 characters.
        name: text,
        /// For people.
        description: patch(String),
        /// What your own system calls it.
        external_id: patch(String),
        /// Free-form data, an object; `null` empties it.
        metadata: json,
        /// Whether it may connect.
        status: value(ResourceStatus),
        /// Whether it may connect, as the official client has it.
        is_active: flag,
        /// When its token ends, in ISO 8601; `null` is never.
        expires_at: patch(String),
        /// The scope that it is confined to; `null` sets it free.
        access_scope_id: patch(String),
    }
}

impl ActorUpdate {
    /// Changes nothing yet.
    pub fn new() -> Self {
        Self::with()
    }
}

/// An actor.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Actor {
    /// Its id.
    pub actor_token_id: String,
    /// The project that it belongs to.
    pub project_id: String,
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_type: Option<ActorType>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the caller's own system calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// Free-form data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    /// Whether it may connect; see [`may_be_used`](Self::may_be_used).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ResourceStatus>,
    /// What the official client reads instead of `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_active: Option<bool>,
    /// The scope that it is confined to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_scope_id: Option<String>,
    /// When its token ends, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it last connected, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_connected_at: Option<String>,
    /// When it was created, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// When it last changed, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
    /// What else the server said, except for a token: an object.
    #[serde(flatten)]
    pub extra: Json,
}

impl Actor {
    /// Whether it may connect, by whichever field the server says so. True if it says nothing.
    pub fn may_be_used(&self) -> bool {
        json::may_be_used(self.status.as_ref(), self.is_active)
    }
}

impl Resource for Actor {
    const ID: &'static str = "actorTokenId";

    fn read(mut fields: Fields) -> Result<Self, String> {
        fields.discard(ACCESS_TOKEN);
        Ok(Self {
            actor_token_id: fields.id(Self::ID)?,
            project_id: fields.text("projectId"),
            name: fields.text("name"),
            actor_type: fields.take("actorType"),
            description: fields.take("description"),
            external_id: fields.take("externalId"),
            metadata: fields.take("metadata"),
            status: fields.take("status"),
            is_active: fields.take("isActive"),
            access_scope_id: fields.take("accessScopeId"),
            expires_at: fields.take("expiresAt"),
            last_connected_at: fields.take("lastConnectedAt"),
            created_at: fields.take("createdAt"),
            updated_at: fields.take("updatedAt"),
            extra: fields.extra(),
        })
    }
}

const ACCESS_TOKEN: &str = "accessToken";

/// A new actor and its token. It cannot be serialised, so that the token goes nowhere by accident; the actor in it can.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ActorWithToken {
    /// The actor.
    pub actor: Actor,
    /// What it connects with. No other answer has it.
    pub access_token: Token,
}

impl Resource for ActorWithToken {
    const ID: &'static str = Actor::ID;

    fn read(mut fields: Fields) -> Result<Self, String> {
        let access_token = Token::new(fields.text(ACCESS_TOKEN));
        let actor = Actor::read(fields)?;
        if access_token.expose().is_empty() {
            return Err(format!("actor {} comes without its accessToken", actor.actor_token_id));
        }
        Ok(Self { actor, access_token })
    }
}
