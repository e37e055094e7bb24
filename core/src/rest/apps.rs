//! Apps: what rooms and topics belong to.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};
use core::fmt;

use serde::{Deserialize, Serialize};

use super::{
    ApiError, Call, Json, ListParams, Method, Page, Path, ResourceStatus, check,
    json::{self, Fields, Resource},
};
use crate::text_enum::text_enum;

/// Lists the project's apps.
///
/// # Errors
/// [`ApiError::Misuse`] for page 0.
pub fn list(params: &ListParams) -> Result<Call<Page<App>>, ApiError> {
    Call::new(Method::Get, all(), json::page).query(params)
}

/// Reads one app.
///
/// # Errors
/// [`ApiError::Misuse`] for an id that cannot be one.
pub fn get(app_id: &str) -> Result<Call<App>, ApiError> {
    Ok(Call::new(Method::Get, one(app_id)?, json::one))
}

/// Creates an app. Its slug gets a random suffix in the cloud: use the one in the answer.
///
/// # Errors
/// [`ApiError::Misuse`] for a name, slug or topic that no server takes.
pub fn create(app: &AppCreate) -> Result<Call<App>, ApiError> {
    check::name(&app.name)?;
    check::slug(app.slug.as_ref())?;
    check::topics(app.topics.as_deref())?;
    check::object("config", app.config.as_ref())?;
    check::object("topic_configs", app.topic_configs.as_ref())?;
    Call::new(Method::Post, all(), json::one).body(app)
}

/// Changes an app.
///
/// # Errors
/// [`ApiError::Misuse`] for an id, a name or a topic that no server takes.
pub fn update(app_id: &str, app: &AppUpdate) -> Result<Call<App>, ApiError> {
    app.name.as_deref().map_or(Ok(()), check::name)?;
    check::topics(app.topics.as_deref())?;
    check::object("config", app.config.as_ref())?;
    check::object("topic_configs", app.topic_configs.as_ref())?;
    Call::new(Method::Patch, one(app_id)?, json::one).body(app)
}

/// Deletes an app.
///
/// # Errors
/// [`ApiError::Misuse`] for an id that cannot be one.
pub fn delete(app_id: &str) -> Result<Call<()>, ApiError> {
    Ok(Call::new(Method::Delete, one(app_id)?, json::nothing))
}

/// Sets an app's configuration back to that of the blueprint it was made from.
///
/// # Errors
/// [`ApiError::Misuse`] for an id that cannot be one.
pub fn reset_to_blueprint(app_id: &str) -> Result<Call<App>, ApiError> {
    Ok(Call::new(Method::Post, one(app_id)?.then("reset-to-blueprint"), json::one).idempotent())
}

fn all() -> Path {
    Path::new("/apps")
}

/// The path of an app.
pub(super) fn one(app_id: &str) -> Result<Path, ApiError> {
    all().id("app id", app_id)
}

body! {
    /// What to create an app with. Without topics, and without a blueprint that has some, nobody can subscribe to
    /// anything in it.
    AppCreate(name: String) {
        /// What addresses begin with: words of `a-z 0-9` with one `-` between them, at most 100 characters. Made from
        /// the name by default.
        slug: text,
        /// For people.
        description: text,
        /// The blueprint to make it from.
        blueprint_id: text,
        /// Which version of the blueprint.
        blueprint_version: text,
        /// Who may use it. The default is the server's: the cloud documents restricted, self-hosted planes open.
        access_mode: value(AccessMode),
        /// Settings, an object. `{"autoProvisionRooms": true}` permits [`rooms::ensure`](crate::rest::rooms::ensure).
        config: json,
        /// The topics of its rooms.
        topics: texts,
        /// Settings by topic, an object.
        topic_configs: json,
        /// Asked for a state to send to each new subscriber.
        hydration_webhook: value(Webhook),
        /// Told of each publish.
        trigger_webhook: value(Webhook),
    }
}

impl AppCreate {
    /// An app of this name: 1 to 255 characters.
    pub fn new(name: impl Into<String>) -> Self {
        Self::with(name.into())
    }
}

body! {
    /// What to change of an app. Its slug cannot be changed.
    #[derive(Default)]
    AppUpdate() {
        /// The name: 1 to 255 characters.
        name: text,
        /// For people.
        description: patch(String),
        /// Whether it may be used.
        status: value(ResourceStatus),
        /// Who may use it. Self-hosted planes take it; the cloud does not document it for updates.
        access_mode: value(AccessMode),
        /// Settings, an object.
        config: json,
        /// The files of an app that is built from a blueprint.
        files: json,
        /// The topics of its rooms.
        topics: texts,
        /// Settings by topic, an object; `null` empties it.
        topic_configs: json,
        /// The version of the blueprint to stay at.
        pinned_blueprint_version: patch(String),
        /// Asked for a state to send to each new subscriber.
        hydration_webhook: patch(Webhook),
        /// Told of each publish.
        trigger_webhook: patch(Webhook),
    }
}

impl AppUpdate {
    /// Changes nothing yet.
    pub fn new() -> Self {
        Self::with()
    }
}

text_enum! {
    /// Who may use an app.
    AccessMode {
        /// Every actor of the project.
        Open = "open",
        /// Actors with a grant.
        Restricted = "restricted",
    }
}

/// An address that the service calls. Its `Debug` shows the host of the URL and the names of the headers only: all else may
/// carry credentials.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// The address.
    pub url: String,
    /// Headers to send along.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

impl Webhook {
    /// One without headers.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), headers: BTreeMap::new() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.keys().collect();
        f.debug_struct("Webhook").field("url", &host_of(&self.url)).field("headers", &headers).finish()
    }
}

/// Scheme and host of an address; `…` for everything else.
fn host_of(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "…".into() };
    let (authority, more) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
    // A password may hold what ends a host elsewhere: then nobody knows where the host is.
    if more.contains('@') || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return "…".into();
    }
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let more = if matches!(more, "" | "/") { more } else { "/…" };
    format!("{scheme}://{host}{more}")
}

/// An app.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct App {
    /// Its id.
    pub app_id: String,
    /// The project that it belongs to.
    pub project_id: String,
    /// Its name.
    pub name: String,
    /// What addresses in it begin with. Empty if the server does not say.
    pub slug: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ResourceStatus>,
    /// Who may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<AccessMode>,
    /// The topics of its rooms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<String>>,
    /// Settings by topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_configs: Option<Json>,
    /// Settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Json>,
    /// The blueprint that it was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blueprint_id: Option<String>,
    /// Which version of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blueprint_version: Option<String>,
    /// The version of the blueprint that it stays at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned_blueprint_version: Option<String>,
    /// Asked for a state to send to each new subscriber.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hydration_webhook: Option<Webhook>,
    /// Told of each publish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger_webhook: Option<Webhook>,
    /// When it was created, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// When it last changed, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
    /// When it was deleted, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<String>,
    /// What else the server said: an object.
    #[serde(flatten)]
    pub extra: Json,
}

impl Resource for App {
    const ID: &'static str = "appId";

    fn read(mut fields: Fields) -> Result<Self, String> {
        Ok(Self {
            app_id: fields.id(Self::ID)?,
            project_id: fields.text("projectId"),
            name: fields.text("name"),
            slug: fields.text("slug"),
            description: fields.take("description"),
            status: fields.take("status"),
            access_mode: fields.take("accessMode"),
            topics: fields.take("topics"),
            topic_configs: fields.take("topicConfigs"),
            config: fields.take("config"),
            blueprint_id: fields.take("blueprintId"),
            blueprint_version: fields.take("blueprintVersion"),
            pinned_blueprint_version: fields.take("pinnedBlueprintVersion"),
            hydration_webhook: fields.take("hydrationWebhook"),
            trigger_webhook: fields.take("triggerWebhook"),
            created_at: fields.take("createdAt"),
            updated_at: fields.take("updatedAt"),
            deleted_at: fields.take("deletedAt"),
            extra: fields.extra(),
        })
    }
}
