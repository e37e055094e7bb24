//! Where the broker and the control plane meet: who may do what, and what follows from a change.

use std::sync::Arc;

use nolag_core::{Instant, wire::Text};

use super::{BrokerCore, ConnectionId};
use crate::{
    ApiRequest, ApiResponse, BrokerConfig, StateError,
    auth::{Access, Actor, Grants, Refused, Resolved, Validated},
    control::{ControlPlane, LostRoom, Project, State, Time},
};

/// The control plane that a broker starts with.
pub(super) fn plane(config: &BrokerConfig, now: Instant) -> ControlPlane {
    let is_seed_world = config.auth.is_seed_world();
    // As the actors of these have it, so that all of them share load-balance groups.
    let project = match is_seed_world {
        true => Project { project_id: "demo-project", organization_id: "demo-org" },
        false => Project { project_id: "dev-project", organization_id: "dev-org" },
    };
    let mut control = ControlPlane::new(config.api_key.clone(), project, config.seed);
    if is_seed_world {
        let mut state = State::default();
        let started = config.wall_clock.saturating_add(std::time::Duration::from_micros(now.as_micros()));
        state.add_seed_world(Time::since_1970(started));
        control.set_state(state);
    }
    control
}

impl BrokerCore {
    /// Answers a request to the control plane, or to publish over HTTP: everything under `/v1/`.
    ///
    /// A change is in force when this returns: actors that were deleted or switched off are closed with 4001, and
    /// subscriptions that are no longer permitted have ended, each with an error 42940.
    pub fn handle_api(&mut self, now: Instant, request: &ApiRequest<'_>) -> ApiResponse {
        self.advance(now);
        if self.rules.publishes_over_http && request.path == "/v1/publish" {
            return self.publish_batch(request);
        }
        let revision = self.control.revision();
        let before = (request.method == "DELETE").then(|| self.control.state().clone());
        let response = self.control.handle(self.time(), request);
        if self.control.revision() != revision {
            self.enforce_change(before.as_ref());
        }
        response
    }

    /// Counts the changes of the control plane.
    pub(crate) fn control_revision(&self) -> u64 {
        self.control.revision()
    }

    /// What the control plane knows, to be saved.
    pub(crate) fn control_state(&self) -> State {
        self.control.state().clone()
    }

    /// Takes back every change since a state. Returns the number of the last of them.
    pub(crate) fn roll_back_control(&mut self, now: Instant, state: State) -> u64 {
        self.advance(now);
        let last = self.control.revision();
        let before = self.control.state().clone();
        self.control.roll_back(state);
        self.enforce_change(Some(&before));
        last
    }

    /// The answer to a change that was taken back because it could not be saved.
    pub(crate) fn refuse_unsaved(&mut self) -> ApiResponse {
        self.control.refuse_unsaved(self.time())
    }

    /// Everything that the control plane knows, as JSON, to be given to [`load_control`](Self::load_control). Tokens are
    /// in it as hashes, the API key is not.
    pub fn saved_control(&self) -> String {
        self.control.state().to_json()
    }

    /// Replaces everything that the control plane knows, as [`handle_api`](Self::handle_api) does with what changes.
    ///
    /// # Errors
    /// A [`StateError`] for anything but what [`saved_control`](Self::saved_control) gives; nothing has changed then.
    pub fn load_control(&mut self, now: Instant, json: &str) -> Result<(), StateError> {
        self.advance(now);
        self.set_control_state(State::from_json(json)?);
        Ok(())
    }

    pub(crate) fn set_control_state(&mut self, mut state: State) {
        if self.auth.is_seed_world() {
            state.add_seed_world(self.time());
        }
        let before = self.control.state().clone();
        self.control.set_state(state);
        self.enforce_change(Some(&before));
    }

    /// The actor of a token: the control plane's, if it made it, else the auth file's.
    pub(super) fn check_token(&self, token: &str) -> Result<Validated, Refused> {
        let now = self.time();
        let denied = |_| Refused::Denied;
        if let Some(found) = self.control.actor_of_token(token, now) {
            return Ok(Validated { actor: found.map_err(denied)?, expires_at: None });
        }
        let managed = |sub: &str| Some(self.control.actor_of_claim(sub, now)?.map_err(denied));
        self.auth.validate(token, self.unix_now(), self.rules.client_tokens, managed)
    }

    /// The internal topic behind what a client wrote, if its actor may use it.
    pub(super) fn resolve(&self, actor: &Actor, pattern: &str, access: Access) -> Option<Resolved> {
        match &actor.grants {
            Grants::ControlPlane => self.control.resolve(actor, pattern, access, self.time()),
            Grants::Topics(_) => actor.resolve(pattern, access),
            Grants::Everything => {
                // In apps that the control plane knows, it meets the actors that were created there.
                self.control.resolve_freely(pattern).or_else(|| actor.resolve(pattern, access))
            }
        }
    }

    /// The room that an actor means by a slug, for presence.
    pub(super) fn room_id(&self, actor: &Actor, slug: &str) -> Option<String> {
        let room_id = match &actor.grants {
            Grants::ControlPlane => self.control.room_id(actor, slug, self.time()),
            Grants::Everything => self.control.first_room_id(slug).or_else(|| actor.room_id(slug)),
            Grants::Topics(_) => actor.room_id(slug),
        };
        room_id.map(String::from)
    }

    /// What an actor calls a room.
    pub(super) fn room_slug<'a>(&'a self, actor: &'a Actor, room_id: &'a str) -> &'a str {
        match &actor.grants {
            Grants::ControlPlane | Grants::Everything => self.control.room_slug(room_id).unwrap_or(room_id),
            Grants::Topics(_) => actor.room_slug(room_id),
        }
    }

    /// A connection finds all rooms that there are now.
    pub(super) fn learn_changes(&mut self, conn: ConnectionId) {
        let revision = self.control.revision();
        if let Some(identity) =
            self.connections.get_mut(&conn).and_then(|connection| connection.identity.as_mut())
        {
            identity.knows = revision;
        }
    }

    /// Ends what is no longer permitted, and forgets what was about rooms that were there before and are no more.
    fn enforce_change(&mut self, before: Option<&State>) {
        self.enforce_control();
        let lost = before.map(|before| before.rooms_lost_in(self.control.state())).unwrap_or_default();
        if lost.is_empty() {
            return;
        }
        self.retained.forget(|topic| lost.iter().any(|room| room.had(topic)));
        for LostRoom { room_id, .. } in &lost {
            self.clear_room(room_id);
        }
    }

    /// Ends what is no longer permitted to actors of the control plane, and what others have on topics that are known by
    /// another name inside now, where nothing would reach them.
    pub(super) fn enforce_control(&mut self) {
        let now = self.time();
        let started = u64::try_from(self.wall_clock.as_micros()).unwrap_or(u64::MAX);
        self.control_ends = self.control.next_end(now).map(|end| {
            let micros = u64::try_from(end.as_duration().as_micros()).unwrap_or(u64::MAX);
            Instant::from_micros(micros.saturating_sub(started))
        });
        let managed = self.connections.iter().filter_map(|(conn, connection)| {
            let actor = &connection.identity.as_ref()?.actor;
            (!matches!(actor.grants, Grants::Topics(_))).then(|| (*conn, actor.clone()))
        });
        let managed: Vec<(ConnectionId, Arc<Actor>)> = managed.collect();
        for (conn, actor) in managed {
            let found = match actor.grants {
                Grants::ControlPlane => {
                    self.control.actor_of_claim(&actor.actor_id, now).unwrap_or(Err("token_not_found"))
                }
                _ => Ok(actor),
            };
            match found {
                Ok(actor) => self.enforce_on(conn, actor),
                Err(reason) => self.end(conn, 4001, reason),
            }
        }
    }

    fn enforce_on(&mut self, conn: ConnectionId, actor: Arc<Actor>) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let Some(identity) = &mut connection.identity else { return };
        identity.actor = actor.clone();
        let subscriptions: Vec<(Arc<str>, String)> = connection
            .subscriptions
            .iter()
            .map(|(topic, subscription)| (topic.clone(), subscription.base.clone()))
            .collect();
        for (topic, base) in subscriptions {
            let resolved = self.resolve(&actor, &topic, Access::Subscribe);
            if resolved.is_none_or(|resolved| resolved.base != base) {
                self.drop_subscription(conn, &topic);
                self.forget_resumed(conn, &topic);
                self.refuse_topic(conn, Text::Str(&topic), None);
            }
        }
        if matches!(actor.grants, Grants::ControlPlane) {
            self.leave_if_not_allowed(conn);
        }
    }
}
