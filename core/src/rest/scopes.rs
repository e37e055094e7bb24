//! Access scopes: tenants that are kept apart within a project.

use alloc::string::String;

use serde::Serialize;

use super::{
    Actor, ActorUpdate, ApiError, Call, Json, ListParams, Method, Page, Patch, Path, actors, check,
    json::{self, Fields, Resource},
};

/// Most characters of a scope's description.
const MAX_DESCRIPTION: usize = 500;

/// Lists the project's scopes.
///
/// # Errors
/// [`ApiError::Misuse`] for page 0.
pub fn list(params: &ListParams) -> Result<Call<Page<Scope>>, ApiError> {
    Call::new(Method::Get, all(), json::page).query(params)
}

/// Reads one scope.
///
/// # Errors
/// [`ApiError::Misuse`] for an id that cannot be one.
pub fn get(scope_id: &str) -> Result<Call<Scope>, ApiError> {
    Ok(Call::new(Method::Get, one(scope_id)?, json::one))
}

/// Creates a scope.
///
/// # Errors
/// [`ApiError::Misuse`] for a name, a slug or a description that no server takes.
pub fn create(scope: &ScopeCreate) -> Result<Call<Scope>, ApiError> {
    check::scope_slug(&scope.slug)?;
    check::name(&scope.name)?;
    check::length("description", scope.description.as_deref(), MAX_DESCRIPTION)?;
    check::object("metadata", scope.metadata.as_ref())?;
    Call::new(Method::Post, all(), json::one).body(scope)
}

/// Changes a scope.
///
/// # Errors
/// [`ApiError::Misuse`] for an id, a name or a description that no server takes.
pub fn update(scope_id: &str, scope: &ScopeUpdate) -> Result<Call<Scope>, ApiError> {
    scope.name.as_deref().map_or(Ok(()), check::name)?;
    check::length("description", scope.description.value().map(String::as_str), MAX_DESCRIPTION)?;
    check::object("metadata", scope.metadata.as_ref())?;
    Call::new(Method::Patch, one(scope_id)?, json::one).body(scope)
}

/// Deletes a scope. Servers may refuse while it has actors: deleting it would set them free.
///
/// # Errors
/// [`ApiError::Misuse`] for an id that cannot be one.
pub fn delete(scope_id: &str) -> Result<Call<()>, ApiError> {
    Ok(Call::new(Method::Delete, one(scope_id)?, json::nothing))
}

/// Lists a scope's actors.
///
/// # Errors
/// [`ApiError::Misuse`] for an id that cannot be one, and for page 0.
pub fn list_actors(scope_id: &str, params: &ListParams) -> Result<Call<Page<Actor>>, ApiError> {
    Call::new(Method::Get, one(scope_id)?.then("actors"), json::page).query(params)
}

/// Confines an actor to a scope, and to no other: an update of the actor.
///
/// # Errors
/// [`ApiError::Misuse`] for an id that cannot be one.
pub fn add_actor(scope_id: &str, actor_id: &str) -> Result<Call<Actor>, ApiError> {
    actors::update(actor_id, &ActorUpdate::new().access_scope_id(scope_id))
}

/// Sets an actor free from its scope: an update of the actor.
///
/// # Errors
/// [`ApiError::Misuse`] for an id that cannot be one.
pub fn remove_actor(actor_id: &str) -> Result<Call<Actor>, ApiError> {
    actors::update(actor_id, &ActorUpdate::new().access_scope_id(Patch::Null))
}

fn all() -> Path {
    Path::new("/scopes")
}

fn one(scope_id: &str) -> Result<Path, ApiError> {
    all().id("scope id", scope_id)
}

body! {
    /// What to create a scope with.
    ScopeCreate(slug: String, name: String) {
        /// For people, at most 500 characters.
        description: text,
        /// Free-form data, an object.
        metadata: json,
    }
}

impl ScopeCreate {
    /// A scope of this slug, of 1 to 100 of `a-z 0-9 -` with no `-` at its ends, and name, of 1 to 255 characters.
    pub fn new(slug: impl Into<String>, name: impl Into<String>) -> Self {
        Self::with(slug.into(), name.into())
    }
}

body! {
    /// What to change of a scope. Its slug cannot be changed.
    #[derive(Default)]
    ScopeUpdate() {
        /// The name: 1 to 255 characters.
        name: text,
        /// For people, at most 500 characters.
        description: patch(String),
        /// Free-form data, an object; `null` empties it.
        metadata: json,
        /// Whether it confines. An inactive scope leaves its actors as if they had none.
        is_active: flag,
    }
}

impl ScopeUpdate {
    /// Changes nothing yet.
    pub fn new() -> Self {
        Self::with()
    }
}

/// A scope.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Scope {
    /// Its id.
    pub access_scope_id: String,
    /// The project that it belongs to.
    pub project_id: String,
    /// Its name in addresses. Empty if the server does not say.
    pub slug: String,
    /// Its name.
    pub name: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Free-form data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    /// Whether it confines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_active: Option<bool>,
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

impl Resource for Scope {
    const ID: &'static str = "accessScopeId";

    fn read(mut fields: Fields) -> Result<Self, String> {
        Ok(Self {
            access_scope_id: fields.id(Self::ID)?,
            project_id: fields.text("projectId"),
            slug: fields.text("slug"),
            name: fields.text("name"),
            description: fields.take("description"),
            metadata: fields.take("metadata"),
            is_active: fields.take("isActive"),
            created_at: fields.take("createdAt"),
            updated_at: fields.take("updatedAt"),
            extra: fields.extra(),
        })
    }
}
