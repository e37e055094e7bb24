//! Access scopes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Answer, ControlPlane, Project, Time,
    api::{ApiResponse, Refusal},
    check::{self, Fields, put},
    list::ListQuery,
};

/// Most characters of a description.
const MAX_DESCRIPTION: usize = 500;

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Scope {
    pub(super) access_scope_id: String,
    pub(super) slug: String,
    name: String,
    description: Option<String>,
    metadata: Option<Value>,
    /// The actors of an inactive scope are as if they had none, as in `@nolag/core`.
    pub(super) is_active: bool,
    created_at: Time,
    updated_at: Time,
}

impl Scope {
    pub(super) fn view(&self, project: Project) -> Value {
        json!({
            "accessScopeId": self.access_scope_id,
            "projectId": project.project_id,
            "slug": self.slug,
            "name": self.name,
            "description": self.description,
            "metadata": self.metadata,
            "isActive": self.is_active,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        })
    }
}

impl ControlPlane {
    pub(super) fn scope(&self, id: &str) -> Result<&Scope, Refusal> {
        let found = self.state.scopes.iter().find(|scope| scope.access_scope_id == id);
        found.map(Arc::as_ref).ok_or_else(|| Refusal::missing("scope"))
    }

    pub(super) fn list_scopes(&self, query: &ListQuery) -> ApiResponse {
        query.page(self.state.scopes.iter().map(|scope| scope.view(self.project)))
    }

    pub(super) fn create_scope(&mut self, now: Time, mut fields: Fields) -> Answer {
        let slug = fields.required("slug", check::scope_slug);
        let name = fields.required("name", check::name);
        let description = fields.optional("description", check::text_up_to(MAX_DESCRIPTION));
        let metadata = fields.optional("metadata", check::object);
        fields.finish()?;
        let slug = slug.unwrap_or_default();
        if self.state.scopes.iter().any(|scope| scope.slug == slug) {
            return Err(Refusal::new(409, format!("there is a scope {slug:?} already")));
        }
        let scope = Scope {
            access_scope_id: self.mint.uuid(),
            slug,
            name: name.unwrap_or_default(),
            description,
            metadata,
            is_active: true,
            created_at: now,
            updated_at: now,
        };
        let answer = ApiResponse::json(201, &scope.view(self.project));
        self.state.scopes.push(scope.into());
        Ok(answer)
    }

    pub(super) fn update_scope(&mut self, now: Time, id: &str, mut fields: Fields) -> Answer {
        self.scope(id)?;
        let name = fields.optional("name", check::name);
        let description = fields.nullable("description", check::text_up_to(MAX_DESCRIPTION));
        let metadata = fields.nullable("metadata", check::object);
        let is_active = fields.optional("isActive", check::flag);
        fields.finish()?;
        let project = self.project;
        let found = self.state.scopes.iter_mut().find(|scope| scope.access_scope_id == id);
        let scope = found.map(Arc::make_mut).ok_or_else(|| Refusal::missing("scope"))?;
        put(&mut scope.name, name);
        put(&mut scope.description, description);
        put(&mut scope.metadata, metadata);
        put(&mut scope.is_active, is_active);
        scope.updated_at = now;
        Ok(ApiResponse::json(200, &scope.view(project)))
    }

    /// Deletes a scope that has no actors: others would be set free by it.
    pub(super) fn delete_scope(&mut self, id: &str) -> Answer {
        self.scope(id)?;
        let actors = self.state.actors.iter();
        let confined = actors.filter(|actor| actor.access_scope_id.as_deref() == Some(id)).count();
        if confined > 0 {
            let message = format!("the scope has {confined} actors; move or delete them first");
            return Err(Refusal::new(409, message));
        }
        self.state.scopes.retain(|scope| scope.access_scope_id != id);
        Ok(ApiResponse::done())
    }
}
