//! What actors may do, by what is known of them here.

use std::sync::Arc;

use super::{
    ControlPlane, Time,
    actors::ActorToken,
    apps::{AccessMode, App},
    check::Status,
    mint::sha256,
    publish::BatchMessage,
    rooms::Room,
    scopes::Scope,
};
use crate::auth::{Access, Actor, Grants, Resolved};

/// The topics that calls over WebRTC need.
const WEBRTC_TOPICS: [&str; 4] = ["webrtc:offer", "webrtc:answer", "webrtc:candidate", "webrtc:state"];

/// An actor that was created here; the error says why it may not connect, as a close with 4001 does.
type Found = Result<Arc<Actor>, &'static str>;

impl ControlPlane {
    /// The actor of a token that was made here.
    pub(crate) fn actor_of_token(&self, token: &str, now: Time) -> Option<Found> {
        if self.state.actors.is_empty() {
            return None;
        }
        let hash = sha256(token);
        let actor = self.state.actors.iter().find(|actor| actor.token_sha256 == hash)?;
        Some(self.found(actor, now))
    }

    /// The actor that a client token names: by its id, or by the key id of its own token.
    pub(crate) fn actor_of_claim(&self, sub: &str, now: Time) -> Option<Found> {
        let named = |actor: &&Arc<ActorToken>| actor.actor_token_id == sub || actor.key_id == sub;
        Some(self.found(self.state.actors.iter().find(named)?, now))
    }

    fn found(&self, actor: &ActorToken, now: Time) -> Found {
        if actor.deleted_at.is_some() {
            return Err("token_not_found");
        }
        if actor.status != Status::Active {
            return Err("token_revoked");
        }
        if actor.expires_at.is_some_and(|expires| expires <= now) {
            return Err("token_expired");
        }
        let scope = actor.access_scope_id.as_deref().and_then(|id| self.active_scope(id));
        Ok(Arc::new(Actor {
            project_id: Some(self.project.project_id.into()),
            organization_id: Some(self.project.organization_id.into()),
            actor_type: actor.actor_type.clone(),
            scope_slug: scope.map(|scope| scope.slug.clone()),
            grants: Grants::ControlPlane,
            ..Actor::with_every_grant(actor.actor_token_id.clone())
        }))
    }

    /// The internal topic behind what an actor that was created here wrote, if it may use it.
    ///
    /// A scoped actor may leave out its scope, which then stands after the app.
    pub(crate) fn resolve(
        &self,
        actor: &Actor,
        pattern: &str,
        access: Access,
        now: Time,
    ) -> Option<Resolved> {
        let segments: Vec<&str> = pattern.split('/').collect();
        let scope = actor.scope_slug.as_deref();
        let (app, room, topic) = match (segments.as_slice(), scope) {
            ([app, room, topic], _) => (*app, *room, *topic),
            ([app, named, room, topic], Some(scope)) if *named == scope => (*app, *room, *topic),
            _ => return None,
        };
        let scope = match scope {
            Some(slug) => Some(self.scope_named(slug)?),
            None => None,
        };
        let app = self.app_named(app)?;
        let room = app.rooms.iter().find(|known| known.slug == room)?;
        permits(app, room, topic, actor, access, now).then(|| resolved(app, room, scope, topic))
    }

    /// The internal topic behind what somebody wrote who may do everything, if it is in an app that there is here. The room
    /// need not be there, and wildcards are welcome. A scope has to be named.
    pub(crate) fn resolve_freely(&self, pattern: &str) -> Option<Resolved> {
        let segments: Vec<&str> = pattern.split('/').collect();
        let app = self.app_named(segments.first()?)?;
        let scoped = match segments.as_slice() {
            [_, scope, room, topic] => self.scope_named(scope).map(|scope| (scope, *room, *topic)),
            _ => None,
        };
        let (base, slug) = match scoped {
            Some((scope, room, topic)) => (internal(app, Some(scope), room, topic), room),
            None => (format!("{}/{pattern}", app.app_id), segments.get(1).copied().unwrap_or_default()),
        };
        let room = app.rooms.iter().find(|room| room.slug == slug);
        let room_id = room.map_or(slug, |room| room.room_id.as_str()).into();
        Some(Resolved { base, app_id: app.app_id.clone(), room_id: Some(room_id), since: 0 })
    }

    /// The internal topic that a message published over HTTP is for.
    pub(crate) fn target(&self, message: &BatchMessage) -> Option<Resolved> {
        let app = self.app(&message.app_id).ok()?;
        let room = app.room(&message.room_id).ok()?;
        let scope = match &message.scope_id {
            Some(id) => Some(self.active_scope(id)?),
            None => None,
        };
        let known = is_open(app, room) && has_topic(app, room, &message.topic);
        known.then(|| resolved(app, room, scope, &message.topic))
    }

    /// The room that an actor means by a slug, for presence: the first one that it may use in some way.
    pub(crate) fn room_id<'a>(&'a self, actor: &Actor, slug: &'a str, now: Time) -> Option<&'a str> {
        let rooms = self.named_rooms(slug);
        let room = rooms.filter(|(app, room)| may_enter(app, room, actor, now)).map(|(_, room)| room).next();
        room.map(|room| room.room_id.as_str())
    }

    /// The first room of a slug.
    pub(crate) fn first_room_id<'a>(&'a self, slug: &'a str) -> Option<&'a str> {
        self.named_rooms(slug).map(|(_, room)| room.room_id.as_str()).next()
    }

    /// The slug of a room.
    pub(crate) fn room_slug(&self, room_id: &str) -> Option<&str> {
        let mut rooms = self.state.apps.iter().flat_map(|app| &app.rooms);
        rooms.find(|room| room.room_id == room_id).map(|room| room.slug.as_str())
    }

    /// When something ends by itself that has not ended yet.
    pub(crate) fn next_end(&self, now: Time) -> Option<Time> {
        let rooms = self.state.apps.iter().flat_map(|app| &app.rooms);
        let grants = rooms.flat_map(|room| &room.grants).filter_map(|grant| grant.expires_at);
        grants
            .chain(self.state.live_actors().filter_map(|actor| actor.expires_at))
            .filter(|end| *end > now)
            .min()
    }

    fn app_named(&self, slug: &str) -> Option<&App> {
        self.state.live_apps().find(|app| app.slug == slug)
    }

    fn active_scope(&self, id: &str) -> Option<&Scope> {
        self.scope(id).ok().filter(|scope| scope.is_active)
    }

    fn scope_named(&self, slug: &str) -> Option<&Scope> {
        self.state.scopes.iter().map(Arc::as_ref).find(|scope| scope.slug == slug)
    }

    fn named_rooms<'a>(&'a self, slug: &'a str) -> impl Iterator<Item = (&'a App, &'a Room)> {
        let rooms = self.state.live_apps().flat_map(|app| app.rooms.iter().map(move |room| (app, room)));
        rooms.filter(move |(_, room)| room.slug == slug)
    }
}

/// A topic as it is known inside. The scope has a place of its own: were it a segment like others, a topic in a scope would
/// be the same as one with a filter in a room that has the scope's slug.
fn internal(app: &App, scope: Option<&Scope>, room: &str, topic: &str) -> String {
    let (id, slug) = (&app.app_id, &app.slug);
    match scope {
        Some(scope) => format!("{id}@{}/{slug}/{room}/{topic}", scope.access_scope_id),
        None => format!("{id}/{slug}/{room}/{topic}"),
    }
}

fn resolved(app: &App, room: &Room, scope: Option<&Scope>, topic: &str) -> Resolved {
    let base = internal(app, scope, &room.slug, topic);
    Resolved { base, app_id: app.app_id.clone(), room_id: Some(room.room_id.clone()), since: room.since }
}

fn is_open(app: &App, room: &Room) -> bool {
    app.deleted_at.is_none() && app.status == Status::Active && room.status == Status::Active
}

/// A room's own list of topics says nothing about what may be used.
fn has_topic(app: &App, room: &Room, topic: &str) -> bool {
    app.settings.topics.iter().any(|known| known == topic)
        || (room.enable_webrtc && WEBRTC_TOPICS.contains(&topic))
}

fn permits(app: &App, room: &Room, topic: &str, actor: &Actor, access: Access, now: Time) -> bool {
    if !is_open(app, room) {
        return false;
    }
    if room.grants.is_empty() {
        return app.access_mode == AccessMode::Open && has_topic(app, room, topic);
    }
    let mut grants = room.grants.iter().filter(|grant| grant.admits(actor, now));
    grants.any(|grant| {
        let covers = match &grant.topics {
            Some(topics) => topics.iter().any(|known| known == topic),
            None => has_topic(app, room, topic),
        };
        covers && grant.permission.allows(access)
    })
}

/// Whether an actor may use a room in any way.
fn may_enter(app: &App, room: &Room, actor: &Actor, now: Time) -> bool {
    let admitted = match room.grants.as_slice() {
        [] => app.access_mode == AccessMode::Open,
        grants => grants.iter().any(|grant| grant.admits(actor, now)),
    };
    is_open(app, room) && admitted
}
