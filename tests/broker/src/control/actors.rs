//! Actors, and the tokens that they connect with.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Answer, ControlPlane, Project, Time,
    api::{ApiResponse, Refusal},
    check::{self, Fields, Status, put},
    list::ListQuery,
    mint::sha256,
};

pub(super) const ACTOR_TYPES: &[&str] =
    &["device", "user", "service", "session", "agent", "orchestrator", "observer"];

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ActorToken {
    pub(super) actor_token_id: String,
    /// What stands before the dot of its token.
    pub(super) key_id: String,
    /// The token is a random text of 256 bits, so a plain hash keeps it.
    pub(super) token_sha256: String,
    pub(super) name: String,
    pub(super) actor_type: String,
    description: Option<String>,
    external_id: Option<String>,
    metadata: Option<Value>,
    pub(super) status: Status,
    pub(super) access_scope_id: Option<String>,
    pub(super) expires_at: Option<Time>,
    pub(super) last_connected_at: Option<Time>,
    created_at: Time,
    updated_at: Time,
    /// Then nothing but this is left of it: its token is known, and refused.
    pub(super) deleted_at: Option<Time>,
}

impl ActorToken {
    fn view(&self, project: Project) -> Value {
        json!({
            "actorTokenId": self.actor_token_id,
            "projectId": project.project_id,
            "name": self.name,
            "actorType": self.actor_type,
            "description": self.description,
            "externalId": self.external_id,
            "metadata": self.metadata,
            "status": self.status,
            "isActive": self.status == Status::Active,
            "accessScopeId": self.access_scope_id,
            "expiresAt": self.expires_at,
            "lastConnectedAt": self.last_connected_at,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        })
    }
}

impl ControlPlane {
    /// An actor that was not deleted.
    pub(super) fn actor_token(&self, id: &str) -> Result<&ActorToken, Refusal> {
        let found = self.state.live_actors().find(|actor| actor.actor_token_id == id);
        found.ok_or_else(|| Refusal::missing("actor"))
    }

    fn actor_token_mut(&mut self, id: &str) -> Result<&mut ActorToken, Refusal> {
        let mut actors = self.state.actors.iter_mut();
        let found = actors.find(|actor| actor.actor_token_id == id && actor.deleted_at.is_none());
        found.map(Arc::make_mut).ok_or_else(|| Refusal::missing("actor"))
    }

    pub(super) fn actor_view(&self, id: &str) -> Answer {
        Ok(ApiResponse::json(200, &self.actor_token(id)?.view(self.project)))
    }

    /// Lists all actors, or those of a scope.
    pub(super) fn list_actors(&self, query: &ListQuery, scope_id: Option<&str>) -> ApiResponse {
        let actors = self.state.live_actors();
        let actors =
            actors.filter(|actor| scope_id.is_none() || actor.access_scope_id.as_deref() == scope_id);
        query.plain(actors.map(|actor| actor.view(self.project)))
    }

    /// Creates an actor. No other answer has its token.
    pub(super) fn create_actor(&mut self, now: Time, mut fields: Fields) -> Answer {
        let name = fields.required("name", check::name);
        let actor_type = fields.required("actorType", check::one_of::<String>(ACTOR_TYPES));
        let description = fields.optional("description", check::text);
        let external_id = fields.optional("externalId", check::name);
        let metadata = fields.optional("metadata", check::object);
        let access_scope_id = fields.optional("accessScopeId", check::text);
        let expires_at = fields.optional("expiresAt", check::time);
        fields.finish()?;
        if let Some(id) = &access_scope_id {
            self.scope(id)?;
        }
        let actor_token_id = self.mint.uuid();
        let (key_id, token) = self.mint.token();
        let actor = ActorToken {
            actor_token_id,
            key_id,
            token_sha256: sha256(&token),
            name: name.unwrap_or_default(),
            actor_type: actor_type.unwrap_or_default(),
            description,
            external_id,
            metadata,
            status: Status::Active,
            access_scope_id,
            expires_at,
            last_connected_at: None,
            created_at: now,
            updated_at: now,
            deleted_at: None,
        };
        let mut view = actor.view(self.project);
        view["accessToken"] = token.into();
        self.state.actors.push(actor.into());
        Ok(ApiResponse::json(201, &view))
    }

    pub(super) fn update_actor(&mut self, now: Time, id: &str, mut fields: Fields) -> Answer {
        self.actor_token(id)?;
        let name = fields.optional("name", check::name);
        let description = fields.nullable("description", check::text);
        let external_id = fields.nullable("externalId", check::name);
        let metadata = fields.nullable("metadata", check::object);
        let active = fields.on_or_off("isActive");
        let access_scope_id = fields.nullable("accessScopeId", check::text);
        let expires_at = fields.nullable("expiresAt", check::time);
        fields.finish()?;
        if let Some(id) = access_scope_id.iter().flatten().next() {
            self.scope(id)?;
        }
        let project = self.project;
        let actor = self.actor_token_mut(id)?;
        put(&mut actor.name, name);
        put(&mut actor.description, description);
        put(&mut actor.external_id, external_id);
        put(&mut actor.metadata, metadata);
        put(&mut actor.status, active.map(Status::of));
        put(&mut actor.access_scope_id, access_scope_id);
        put(&mut actor.expires_at, expires_at);
        actor.updated_at = now;
        Ok(ApiResponse::json(200, &actor.view(project)))
    }

    /// Deletes an actor. Its grants stay, so that no private room opens because of it.
    pub(super) fn delete_actor(&mut self, now: Time, id: &str) -> Answer {
        let actor = self.actor_token_mut(id)?;
        actor.deleted_at = Some(now);
        actor.access_scope_id = None;
        (actor.description, actor.external_id, actor.metadata) = (None, None, None);
        self.state.forget_long_deleted();
        Ok(ApiResponse::done())
    }

    /// Notes that an actor has connected. It is saved with the next change.
    pub(crate) fn note_connected(&mut self, id: &str, now: Time) {
        if let Ok(actor) = self.actor_token_mut(id) {
            actor.last_connected_at = Some(now);
        }
    }
}
