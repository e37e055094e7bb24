//! Grants: who may enter a private room, and what for.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Answer, ControlPlane, Time,
    actors::ACTOR_TYPES,
    api::{ApiResponse, Refusal},
    check::{self, Fields},
    list::ListQuery,
    rooms::Room,
};
use crate::auth::{Actor, Permission};

/// Most characters of a role.
const MAX_ROLE: usize = 100;

const PERMISSIONS: &[&str] = &["subscribe", "publish", "pubSub"];

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Grant {
    pub(super) room_actor_access_id: String,
    /// Either this or `actor_type` is there. The actor may have been deleted since: the room stays private.
    actor_token_id: Option<String>,
    actor_type: Option<String>,
    pub(super) permission: Permission,
    /// Without, those of the app.
    pub(super) topics: Option<Vec<String>>,
    is_active: bool,
    pub(super) expires_at: Option<Time>,
    role: Option<String>,
    metadata: Option<Value>,
    created_at: Time,
    updated_at: Time,
}

impl Grant {
    /// Whether it is this actor's, and in force.
    pub(super) fn admits(&self, actor: &Actor, now: Time) -> bool {
        let is_meant = self.actor_token_id.as_ref().is_some_and(|id| *id == actor.actor_id)
            || self.actor_type.as_ref().is_some_and(|actor_type| *actor_type == actor.actor_type);
        is_meant && self.is_active && !self.has_expired(now)
    }

    fn has_expired(&self, now: Time) -> bool {
        self.expires_at.is_some_and(|expires| expires <= now)
    }

    fn view(&self, room_id: &str) -> Value {
        json!({
            "roomActorAccessId": self.room_actor_access_id,
            "roomId": room_id,
            "actorTokenId": self.actor_token_id,
            "actorType": self.actor_type,
            "permission": self.permission,
            "topics": self.topics,
            "isActive": self.is_active,
            "expiresAt": self.expires_at,
            "role": self.role,
            "metadata": self.metadata,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        })
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.actor_token_id, &self.actor_type, self.permission, &self.topics)
            == (&other.actor_token_id, &other.actor_type, other.permission, &other.topics)
    }
}

impl Room {
    pub(super) fn list_grants(&self, query: &ListQuery) -> ApiResponse {
        query.plain(self.grants.iter().map(|grant| grant.view(&self.room_id)))
    }
}

impl ControlPlane {
    pub(super) fn grant(&mut self, now: Time, app_id: &str, room_id: &str, mut fields: Fields) -> Answer {
        self.app(app_id)?.room(room_id)?;
        let permission = fields.required("permission", check::one_of(PERMISSIONS));
        let actor_token_id = fields.optional("actorTokenId", check::text);
        let actor_type = fields.optional("actorType", check::one_of::<String>(ACTOR_TYPES));
        let topics = fields.optional("topics", check::topics);
        let is_active = fields.optional("isActive", check::flag);
        let expires_at = fields.optional("expiresAt", check::time);
        let role = fields.optional("role", check::text_up_to(MAX_ROLE));
        let metadata = fields.optional("metadata", check::object);
        if actor_token_id.is_some() == actor_type.is_some() {
            fields.fault("exactly one of actorTokenId and actorType is required".into());
        }
        fields.finish()?;
        if let Some(id) = &actor_token_id {
            self.actor_token(id)?;
        }
        let grant = Grant {
            room_actor_access_id: self.mint.uuid(),
            actor_token_id,
            actor_type,
            permission: permission.unwrap_or_default(),
            topics,
            is_active: is_active.unwrap_or(true),
            expires_at,
            role,
            metadata,
            created_at: now,
            updated_at: now,
        };
        let room = self.app_mut(app_id)?.room_mut(room_id)?;
        if room.grants.iter().any(|known| known.is_same(&grant) && !known.has_expired(now)) {
            return Err(Refusal::new(409, "the room has this grant already; revoke it first"));
        }
        // One that has expired gives way.
        room.grants.retain(|known| !known.is_same(&grant));
        let answer = ApiResponse::json(201, &grant.view(room_id));
        room.grants.push(grant);
        Ok(answer)
    }

    pub(super) fn revoke(&mut self, app_id: &str, room_id: &str, id: &str) -> Answer {
        let grants = &mut self.app_mut(app_id)?.room_mut(room_id)?.grants;
        let found = grants.iter().position(|grant| grant.room_actor_access_id == id);
        grants.remove(found.ok_or_else(|| Refusal::missing("grant"))?);
        Ok(ApiResponse::done())
    }
}
