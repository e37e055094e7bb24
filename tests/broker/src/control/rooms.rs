//! Rooms.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Answer, ControlPlane, Time,
    api::{ApiResponse, Refusal},
    apps::{App, slug_for},
    check::{self, Fields, Status, put},
    grants::Grant,
    list::ListQuery,
};

/// Most rooms that `ensure` creates in an app, as in Kraken.
const MAX_AUTO_ROOMS: usize = 1000;

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Room {
    pub(super) room_id: String,
    pub(super) name: String,
    pub(super) slug: String,
    description: Option<String>,
    room_type: RoomType,
    pub(super) status: Status,
    topics: Option<Vec<String>>,
    #[serde(rename = "enableWebRTC")]
    pub(super) enable_webrtc: bool,
    metadata: Option<Value>,
    config: Option<Value>,
    /// `ensure` created it.
    auto_provisioned: bool,
    created_at: Time,
    updated_at: Time,
    /// As long as there is one, even one that does not count, the room is private.
    pub(super) grants: Vec<Grant>,
    /// The change that created it, in this run.
    #[serde(skip)]
    pub(super) since: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RoomType {
    Dynamic,
    /// It comes with its app.
    Static,
}

impl Room {
    /// The room of the seed world.
    pub(super) fn of_seed_world(now: Time) -> Self {
        Self {
            room_id: "room-general".into(),
            name: "General".into(),
            slug: "general".into(),
            description: None,
            room_type: RoomType::Static,
            status: Status::Active,
            topics: None,
            enable_webrtc: false,
            metadata: None,
            config: None,
            auto_provisioned: false,
            created_at: now,
            updated_at: now,
            grants: Vec::new(),
            since: 0,
        }
    }

    pub(super) fn view(&self, app_id: &str) -> Value {
        json!({
            "roomId": self.room_id,
            "appId": app_id,
            "name": self.name,
            "slug": self.slug,
            "description": self.description,
            "roomType": self.room_type,
            "status": self.status,
            "isEnabled": self.status == Status::Active,
            "topics": self.topics,
            "enableWebRTC": self.enable_webrtc,
            "metadata": self.metadata,
            "config": self.config,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        })
    }
}

impl App {
    pub(super) fn room(&self, id: &str) -> Result<&Room, Refusal> {
        self.rooms.iter().find(|room| room.room_id == id).ok_or_else(|| Refusal::missing("room"))
    }

    pub(super) fn room_mut(&mut self, id: &str) -> Result<&mut Room, Refusal> {
        self.rooms.iter_mut().find(|room| room.room_id == id).ok_or_else(|| Refusal::missing("room"))
    }

    pub(super) fn list_rooms(&self, query: &ListQuery) -> ApiResponse {
        query.plain(self.rooms.iter().map(|room| room.view(&self.app_id)))
    }
}

impl ControlPlane {
    /// Creates a room; with `ensure` only if there is none of its slug, which is then given unchanged.
    pub(super) fn create_room(
        &mut self,
        now: Time,
        app_id: &str,
        mut fields: Fields,
        ensure: bool,
    ) -> Answer {
        let app = self.app(app_id)?;
        if ensure && !app.provisions_rooms() {
            return Err(Refusal::new(403, "the app's config.autoProvisionRooms is not true"));
        }
        let name = fields.required("name", check::name);
        let slug = fields.optional("slug", check::slug);
        let description = fields.optional("description", check::text);
        let topics = fields.optional("topics", check::topics);
        let metadata = fields.optional("metadata", check::object);
        let config = fields.optional("config", check::object);
        let enable_webrtc = fields.optional("enableWebRTC", check::flag);
        let slug = slug.or_else(|| slug_for(name.as_deref()?, &mut fields));
        fields.finish()?;
        let slug = slug.unwrap_or_default();
        if let Some(room) = app.rooms.iter().find(|room| room.slug == slug) {
            return match ensure {
                true => Ok(ApiResponse::json(200, &room.view(app_id))),
                false => Err(Refusal::new(409, format!("the app has a room {slug:?} already"))),
            };
        }
        let auto_rooms = app.rooms.iter().filter(|room| room.auto_provisioned).count();
        if ensure && auto_rooms >= MAX_AUTO_ROOMS {
            let message =
                format!("the app has {MAX_AUTO_ROOMS} rooms of this kind already, the most there may be");
            return Err(Refusal::new(403, message));
        }
        let room = Room {
            room_id: self.mint.uuid(),
            name: name.unwrap_or_default(),
            slug,
            description,
            room_type: RoomType::Dynamic,
            status: Status::Active,
            topics,
            enable_webrtc: enable_webrtc.unwrap_or(false),
            metadata,
            config,
            auto_provisioned: ensure,
            created_at: now,
            updated_at: now,
            grants: Vec::new(),
            since: self.state.revision + 1,
        };
        let answer = ApiResponse::json(201, &room.view(app_id));
        self.app_mut(app_id)?.rooms.push(room);
        Ok(answer)
    }

    pub(super) fn update_room(&mut self, now: Time, app_id: &str, id: &str, mut fields: Fields) -> Answer {
        let room = self.app_mut(app_id)?.room_mut(id)?;
        let name = fields.optional("name", check::name);
        let description = fields.nullable("description", check::text);
        let active = fields.on_or_off("isEnabled");
        let topics = fields.nullable("topics", check::topics);
        let metadata = fields.nullable("metadata", check::object);
        let config = fields.nullable("config", check::object);
        fields.finish()?;
        put(&mut room.name, name);
        put(&mut room.description, description);
        put(&mut room.status, active.map(Status::of));
        put(&mut room.topics, topics);
        put(&mut room.metadata, metadata);
        put(&mut room.config, config);
        room.updated_at = now;
        Ok(ApiResponse::json(200, &room.view(app_id)))
    }

    pub(super) fn delete_room(&mut self, app_id: &str, id: &str) -> Answer {
        let app = self.app_mut(app_id)?;
        if app.room(id)?.room_type == RoomType::Static {
            return Err(Refusal::new(403, "static rooms cannot be deleted"));
        }
        app.rooms.retain(|room| room.room_id != id);
        Ok(ApiResponse::done())
    }
}
