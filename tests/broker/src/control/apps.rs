//! Apps.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Answer, ControlPlane, Project, Time,
    api::{ApiResponse, Refusal},
    check::{self, Fields, MAX_SLUG, Status, put},
    list::ListQuery,
    rooms::Room,
};

/// The id of the app of the seed world.
pub(super) const SEED_APP_ID: &str = "demo-app";

/// Digits of the suffix of a slug, and the `-` before them.
const SUFFIX: usize = 5;

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct App {
    pub(super) app_id: String,
    pub(super) name: String,
    pub(super) slug: String,
    description: Option<String>,
    pub(super) status: Status,
    pub(super) access_mode: AccessMode,
    pub(super) settings: Settings,
    files: Option<Value>,
    blueprint_id: Option<String>,
    blueprint_version: Option<String>,
    pinned_blueprint_version: Option<String>,
    /// What a reset goes back to. There are no blueprints here, so it is what the app was created with.
    blueprint: Option<Settings>,
    hydration_webhook: Option<Value>,
    trigger_webhook: Option<Value>,
    created_at: Time,
    updated_at: Time,
    /// Then little but this is left of it: no other app gets its slug.
    pub(super) deleted_at: Option<Time>,
    pub(super) rooms: Vec<Room>,
}

/// What a blueprint determines.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) topics: Vec<String>,
    topic_configs: Option<Value>,
    config: Value,
}

/// Who may use the rooms of an app that have no grants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum AccessMode {
    /// Every actor.
    #[default]
    Open,
    /// Nobody.
    Restricted,
}

impl AccessMode {
    const NAMES: &'static [&'static str] = &["open", "restricted"];
}

impl App {
    /// The app of the seed world.
    pub(super) fn of_seed_world(now: Time, room: Room) -> Self {
        Self {
            app_id: SEED_APP_ID.into(),
            name: "Demo".into(),
            slug: "demo".into(),
            description: None,
            status: Status::Active,
            access_mode: AccessMode::Open,
            settings: Settings {
                topics: ["messages", "events"].map(String::from).into(),
                topic_configs: None,
                config: json!({}),
            },
            files: None,
            blueprint_id: None,
            blueprint_version: None,
            pinned_blueprint_version: None,
            blueprint: None,
            hydration_webhook: None,
            trigger_webhook: None,
            created_at: now,
            updated_at: now,
            deleted_at: None,
            rooms: vec![room],
        }
    }

    pub(super) fn view(&self, project: Project) -> Value {
        json!({
            "appId": self.app_id,
            "projectId": project.project_id,
            "name": self.name,
            "slug": self.slug,
            "description": self.description,
            "status": self.status,
            "accessMode": self.access_mode,
            "topics": self.settings.topics,
            "topicConfigs": self.settings.topic_configs,
            "config": self.settings.config,
            "files": self.files,
            "blueprintId": self.blueprint_id,
            "blueprintVersion": self.blueprint_version,
            "pinnedBlueprintVersion": self.pinned_blueprint_version,
            "hydrationWebhook": self.hydration_webhook,
            "triggerWebhook": self.trigger_webhook,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "deletedAt": self.deleted_at,
        })
    }

    /// Whether rooms may be created by [`ensure`](ControlPlane::create_room).
    pub(super) fn provisions_rooms(&self) -> bool {
        self.settings.config["autoProvisionRooms"] == true
    }

    pub(super) fn touch(&mut self, now: Time) {
        self.updated_at = now;
    }

    fn bury(&mut self, now: Time) {
        self.deleted_at = Some(now);
        self.rooms.clear();
        self.settings = Settings { topics: Vec::new(), topic_configs: None, config: json!({}) };
        (self.description, self.files, self.blueprint) = (None, None, None);
        (self.hydration_webhook, self.trigger_webhook) = (None, None);
    }
}

impl ControlPlane {
    /// An app that was not deleted.
    pub(super) fn app(&self, id: &str) -> Result<&App, Refusal> {
        let found = self.state.live_apps().find(|app| app.app_id == id);
        found.ok_or_else(|| Refusal::missing("app"))
    }

    pub(super) fn app_mut(&mut self, id: &str) -> Result<&mut App, Refusal> {
        let found = self.state.apps.iter_mut().find(|app| app.app_id == id && app.deleted_at.is_none());
        found.map(Arc::make_mut).ok_or_else(|| Refusal::missing("app"))
    }

    pub(super) fn list_apps(&self, query: &ListQuery) -> ApiResponse {
        query.page(self.state.live_apps().map(|app| app.view(self.project)))
    }

    pub(super) fn create_app(&mut self, now: Time, mut fields: Fields) -> Answer {
        let name = fields.required("name", check::name);
        let slug = fields.optional("slug", check::slug);
        let description = fields.optional("description", check::text);
        let access_mode = fields.optional("accessMode", check::one_of(AccessMode::NAMES));
        let topics = fields.optional("topics", check::topics);
        let topic_configs = fields.optional("topicConfigs", check::object);
        let config = fields.optional("config", check::object);
        let blueprint_id = fields.optional("blueprintId", check::name);
        let blueprint_version = fields.optional("blueprintVersion", check::name);
        let hydration_webhook = fields.optional("hydrationWebhook", check::webhook);
        let trigger_webhook = fields.optional("triggerWebhook", check::webhook);
        let slug = slug.or_else(|| slug_for(name.as_deref()?, &mut fields));
        fields.finish()?;
        let mut slug = slug.unwrap_or_default();
        slug.truncate(MAX_SLUG - SUFFIX);
        let slug = self.suffixed(slug.trim_end_matches('-'));
        let settings = Settings {
            topics: topics.unwrap_or_default(),
            topic_configs,
            config: config.unwrap_or_else(|| json!({})),
        };
        let app = App {
            app_id: self.mint.uuid(),
            name: name.unwrap_or_default(),
            slug: slug.ok_or_else(|| Refusal::new(409, "too many apps have this slug; give another"))?,
            description,
            status: Status::Active,
            access_mode: access_mode.unwrap_or_default(),
            blueprint: blueprint_id.is_some().then(|| settings.clone()),
            settings,
            files: None,
            blueprint_id,
            blueprint_version,
            pinned_blueprint_version: None,
            hydration_webhook,
            trigger_webhook,
            created_at: now,
            updated_at: now,
            deleted_at: None,
            rooms: Vec::new(),
        };
        let answer = ApiResponse::json(201, &app.view(self.project));
        self.state.apps.push(app.into());
        Ok(answer)
    }

    pub(super) fn update_app(&mut self, now: Time, id: &str, mut fields: Fields) -> Answer {
        let project = self.project;
        let app = self.app_mut(id)?;
        let name = fields.optional("name", check::name);
        let description = fields.nullable("description", check::text);
        let status = fields.optional("status", check::one_of(Status::NAMES));
        let access_mode = fields.optional("accessMode", check::one_of(AccessMode::NAMES));
        let topics = fields.optional("topics", check::topics);
        let topic_configs = fields.nullable("topicConfigs", check::object);
        let config = fields.nullable("config", check::object);
        let files = fields.nullable("files", Ok);
        let pinned = fields.nullable("pinnedBlueprintVersion", check::name);
        let hydration_webhook = fields.nullable("hydrationWebhook", check::webhook);
        let trigger_webhook = fields.nullable("triggerWebhook", check::webhook);
        fields.finish()?;
        put(&mut app.name, name);
        put(&mut app.description, description);
        put(&mut app.status, status);
        put(&mut app.access_mode, access_mode);
        put(&mut app.settings.topics, topics);
        put(&mut app.settings.topic_configs, topic_configs);
        put(&mut app.settings.config, config.map(|config| config.unwrap_or_else(|| json!({}))));
        put(&mut app.files, files);
        put(&mut app.pinned_blueprint_version, pinned);
        put(&mut app.hydration_webhook, hydration_webhook);
        put(&mut app.trigger_webhook, trigger_webhook);
        app.touch(now);
        Ok(ApiResponse::json(200, &app.view(project)))
    }

    pub(super) fn reset_app(&mut self, now: Time, id: &str) -> Answer {
        let project = self.project;
        let app = self.app_mut(id)?;
        let blueprint = app.blueprint.clone();
        app.settings = blueprint.ok_or_else(|| Refusal::new(400, "the app has no blueprint"))?;
        app.touch(now);
        Ok(ApiResponse::json(200, &app.view(project)))
    }

    /// Deletes softly: the app is remembered, and seen no more.
    pub(super) fn delete_app(&mut self, now: Time, id: &str) -> Answer {
        self.app_mut(id)?.bury(now);
        self.state.forget_long_deleted();
        Ok(ApiResponse::json(200, &json!({"success": true})))
    }
}

/// The slug of something that was given none.
pub(super) fn slug_for(name: &str, fields: &mut Fields) -> Option<String> {
    check::slug_of(name).map_err(|fault| fields.fault(format!("slug {fault}"))).ok()
}
