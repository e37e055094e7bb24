//! The REST control plane without HTTP: apps, rooms, actors and access scopes, and what actors may do because of them.
//!
//! Requests go in and answers come out; time comes from the caller, ids and tokens from its seed. Errors have the cloud's
//! shape, `{id, message, timestamp}`. Publishing over HTTP is the broker's own, so it is answered there; only reading
//! such a batch is in [`publish`].
//!
//! # Who decides what
//!
//! Actors that were created here are governed by what is here, at once: a deleted actor is cut, a grant that has ended
//! ends subscriptions. Actors of an auth file keep to their file, and where every token is welcome those that nobody
//! created may do everything, in the apps here too. All meet on the same topics: inside, the topic of a room is
//! `APP_ID/app/room/topic`, and in an access scope `APP_ID@SCOPE_ID/app/room/topic`.

mod access;
mod actors;
mod api;
mod apps;
mod check;
mod grants;
mod list;
mod mint;
mod publish;
mod rooms;
mod scopes;
mod state;
mod time;

pub use api::{ApiRequest, ApiResponse};
pub(crate) use publish::{BatchMessage, PublishRefusal, read_batch};
pub use state::StateError;
pub(crate) use state::{LostRoom, State};
pub(crate) use time::Time;

use std::fmt;

use nolag_core::Token;
use percent_encoding::percent_decode_str;
use serde_json::json;

use api::Refusal;
use check::Fields;
use list::ListQuery;
use mint::Mint;

/// The API key that a broker accepts unless it is given another: a convention for development, no secret.
pub(crate) const DEV_API_KEY: &str = "nlg_live_dev.secret";

/// Longest body of a request. More is refused with 413.
pub(crate) const MAX_BODY_BYTES: usize = 2 << 20;

/// What may be kept, as JSON. More is refused with 507.
const MAX_STATE_BYTES: usize = 64 << 20;

/// The answer to one request.
type Answer = Result<ApiResponse, Refusal>;

/// Everything that the control plane knows.
#[derive(Clone)]
pub(crate) struct ControlPlane {
    api_key: Token,
    project: Project,
    state: State,
    mint: Mint,
    /// At least the size of the state, but for what requests do not say.
    bytes: usize,
    /// The change after which the size was measured.
    measured: Option<u64>,
}

/// What everything belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Project {
    pub(crate) project_id: &'static str,
    pub(crate) organization_id: &'static str,
}

impl ControlPlane {
    /// An empty one.
    pub(crate) fn new(api_key: Token, project: Project, seed: u64) -> Self {
        Self {
            api_key,
            project,
            state: State::default(),
            mint: Mint::new(seed, b""),
            bytes: 0,
            measured: None,
        }
    }

    /// Counts the changes.
    pub(crate) fn revision(&self) -> u64 {
        self.state.revision
    }

    /// All that it knows, except for the API key. Tokens are in it as hashes only.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Replaces all that it knows.
    pub(crate) fn set_state(&mut self, state: State) {
        // What was handed out before must not be handed out again.
        let json = state.to_json();
        self.mint = self.mint.beside(json.as_bytes());
        (self.state, self.bytes, self.measured) = (state, json.len(), None);
    }

    /// Goes back to an earlier state, which is a change of its own.
    pub(crate) fn roll_back(&mut self, state: State) {
        let revision = self.state.revision + 1;
        self.state = state;
        self.state.revision = revision;
    }

    /// Answers a request.
    pub(crate) fn handle(&mut self, now: Time, request: &ApiRequest<'_>) -> ApiResponse {
        self.answer(now, request).unwrap_or_else(|refusal| self.refuse(now, &refusal))
    }

    /// The answer that says why not, in the cloud's shape.
    fn refuse(&mut self, now: Time, refusal: &Refusal) -> ApiResponse {
        let body = json!({"id": self.mint.uuid(), "message": refusal.message, "timestamp": now});
        let response = ApiResponse::json(refusal.status, &body);
        refusal.headers.iter().fold(response, |response, (name, value)| response.header(name, value))
    }

    /// The answer to a change that could not be saved, and was taken back.
    pub(crate) fn refuse_unsaved(&mut self, now: Time) -> ApiResponse {
        self.refuse(now, &Refusal::new(500, "the change could not be saved, and was taken back"))
    }

    /// Whether the API key is the right one.
    pub(crate) fn check_key(&self, request: &ApiRequest<'_>) -> Result<(), KeyFault> {
        match request.key() {
            None => Err(KeyFault::Missing),
            // Hashes, so that the time it takes says nothing about the key.
            Some(key) if mint::sha256(key) == mint::sha256(self.api_key.expose()) => Ok(()),
            Some(_) => Err(KeyFault::Invalid),
        }
    }

    /// What stands before the dot of the API key: it names the key and is no secret.
    pub(crate) fn api_key_id(&self) -> &str {
        self.api_key.expose().split_once('.').map_or("server", |(id, _)| id)
    }

    fn answer(&mut self, now: Time, request: &ApiRequest<'_>) -> Answer {
        let segments: Option<Vec<String>> = request.path.strip_prefix("/v1/").and_then(|path| {
            path.split('/')
                .map(|segment| Some(percent_decode_str(segment).decode_utf8().ok()?.into_owned()))
                .collect()
        });
        let segments: Vec<&str> = segments.iter().flatten().map(String::as_str).collect();
        let Some((route, methods)) = Route::find(&segments) else {
            return Err(Refusal::new(404, format!("cannot {} {}", request.method, request.path)));
        };
        if !methods.split(", ").any(|method| method == request.method) {
            let message = format!("cannot {} {}, only {methods}", request.method, request.path);
            return Err(Refusal::new(405, message).header("allow", methods));
        }
        self.check_key(request).map_err(|fault| {
            let message = match fault {
                KeyFault::Invalid => "invalid API key",
                KeyFault::Missing => "missing API key: send Authorization: Bearer KEY",
            };
            Refusal::new(401, message).header("www-authenticate", "Bearer")
        })?;
        if request.body.len() > MAX_BODY_BYTES {
            return Err(Refusal::new(413, format!("the body has more than {MAX_BODY_BYTES} bytes")));
        }
        match request.method {
            "GET" => self.read(&route, &ListQuery::read(request.query)?),
            "DELETE" => self.delete(now, &route),
            _ => {
                // What the answer adds to a body: ids, dates, names of fields.
                let more = request.body.len() + 1024;
                self.check_room(more)?;
                let answer = self.write(now, &route, request)?;
                self.bytes += more;
                Ok(answer)
            }
        }
    }

    fn read(&self, route: &Route<'_>, query: &ListQuery) -> Answer {
        match *route {
            Route::Actor(id) => self.actor_view(id),
            Route::Actors => Ok(self.list_actors(query, None)),
            Route::App(id) => Ok(ApiResponse::json(200, &self.app(id)?.view(self.project))),
            Route::Apps => Ok(self.list_apps(query)),
            Route::Grants(app, room) => Ok(self.app(app)?.room(room)?.list_grants(query)),
            Route::Room(app, room) => Ok(ApiResponse::json(200, &self.app(app)?.room(room)?.view(app))),
            Route::Rooms(app) => Ok(self.app(app)?.list_rooms(query)),
            Route::Scope(id) => Ok(ApiResponse::json(200, &self.scope(id)?.view(self.project))),
            Route::ScopeActors(id) => {
                self.scope(id)?;
                Ok(self.list_actors(query, Some(id)))
            }
            Route::Scopes => Ok(self.list_scopes(query)),
            Route::Ensure(_) | Route::Grant(..) | Route::Reset(_) => no_such_operation(),
        }
    }

    fn write(&mut self, now: Time, route: &Route<'_>, request: &ApiRequest<'_>) -> Answer {
        let create = || Fields::of_creation(request.body);
        let update = || Fields::of_update(request.body);
        let answer = match *route {
            Route::Actor(id) => self.update_actor(now, id, update()?),
            Route::Actors => self.create_actor(now, create()?),
            Route::App(id) => self.update_app(now, id, update()?),
            Route::Apps => self.create_app(now, create()?),
            Route::Ensure(app) => self.create_room(now, app, create()?, true),
            Route::Grants(app, room) => self.grant(now, app, room, create()?),
            Route::Reset(app) => self.reset_app(now, app),
            Route::Room(app, room) => self.update_room(now, app, room, update()?),
            Route::Rooms(app) => self.create_room(now, app, create()?, false),
            Route::Scope(id) => self.update_scope(now, id, update()?),
            Route::Scopes => self.create_scope(now, create()?),
            Route::Grant(..) | Route::ScopeActors(_) => no_such_operation(),
        }?;
        self.state.revision += 1;
        Ok(answer)
    }

    fn delete(&mut self, now: Time, route: &Route<'_>) -> Answer {
        let answer = match *route {
            Route::Actor(id) => self.delete_actor(now, id),
            Route::App(id) => self.delete_app(now, id),
            Route::Grant(app, room, grant) => self.revoke(app, room, grant),
            Route::Room(app, room) => self.delete_room(app, room),
            Route::Scope(id) => self.delete_scope(id),
            _ => no_such_operation(),
        }?;
        self.state.revision += 1;
        Ok(answer)
    }

    /// Sees that what is kept stays bounded.
    fn check_room(&mut self, more: usize) -> Result<(), Refusal> {
        // Measuring takes long, so it is done once for each state at most.
        if self.bytes + more > MAX_STATE_BYTES && self.measured != Some(self.state.revision) {
            self.bytes = self.state.to_json().len();
            self.measured = Some(self.state.revision);
        }
        if self.bytes + more > MAX_STATE_BYTES {
            return Err(Refusal::new(507, format!("there is no room: at most {MAX_STATE_BYTES} bytes")));
        }
        Ok(())
    }
}

/// [`Route::find`] lists the methods of each route, so nothing else comes this far.
fn no_such_operation() -> Answer {
    Err(Refusal::new(405, "there is no such operation"))
}

/// What is wrong with an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyFault {
    Invalid,
    Missing,
}

/// Says how much there is, and nothing of it.
impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { revision, apps, actors, scopes, .. } = &self.state;
        let (apps, actors, scopes) = (apps.len(), actors.len(), scopes.len());
        write!(
            f,
            "ControlPlane({apps} apps, {actors} actors, {scopes} access scopes, after {revision} changes)"
        )
    }
}

/// What a path names.
#[derive(Debug, Clone, Copy)]
enum Route<'p> {
    Actor(&'p str),
    Actors,
    App(&'p str),
    Apps,
    Ensure(&'p str),
    Grant(&'p str, &'p str, &'p str),
    Grants(&'p str, &'p str),
    Reset(&'p str),
    Room(&'p str, &'p str),
    Rooms(&'p str),
    Scope(&'p str),
    ScopeActors(&'p str),
    Scopes,
}

impl<'p> Route<'p> {
    /// The route of a path below `/v1/`, and its methods.
    fn find(segments: &[&'p str]) -> Option<(Self, &'static str)> {
        const COLLECTION: &str = "GET, POST";
        const RESOURCE: &str = "GET, PATCH, DELETE";
        Some(match *segments {
            ["actors"] => (Self::Actors, COLLECTION),
            ["actors", id] => (Self::Actor(id), RESOURCE),
            ["apps"] => (Self::Apps, COLLECTION),
            ["apps", id] => (Self::App(id), RESOURCE),
            ["apps", id, "reset-to-blueprint"] => (Self::Reset(id), "POST"),
            ["apps", app, "rooms"] => (Self::Rooms(app), COLLECTION),
            ["apps", app, "rooms", "ensure"] => (Self::Ensure(app), "POST"),
            ["apps", app, "rooms", room] => (Self::Room(app, room), RESOURCE),
            ["apps", app, "rooms", room, "actors"] => (Self::Grants(app, room), COLLECTION),
            ["apps", app, "rooms", room, "actors", grant] => (Self::Grant(app, room, grant), "DELETE"),
            ["scopes"] => (Self::Scopes, COLLECTION),
            ["scopes", id] => (Self::Scope(id), RESOURCE),
            ["scopes", id, "actors"] => (Self::ScopeActors(id), "GET"),
            _ => return None,
        })
    }
}
