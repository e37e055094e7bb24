//! What is kept, and its form in a file.

use std::{collections::BTreeSet, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    Time,
    actors::ActorToken,
    apps::{App, SEED_APP_ID},
    rooms::Room,
    scopes::Scope,
};

/// The version of the form.
const VERSION: u32 = 1;

/// The largest number of changes that a file may start with, so that there are always more to come.
const MAX_REVISION: u64 = 1 << 53;

/// Deleted apps, and deleted actors, that are remembered; the longest deleted are forgotten first.
const MAX_DELETED: usize = 1000;

/// Everything but the API key. Tokens are kept as SHA-256 hashes; webhooks may hold credentials as they are.
///
/// A clone is cheap: it shares everything until it is changed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct State {
    version: u32,
    /// Counts the changes.
    pub(super) revision: u64,
    /// With their rooms, and these with their grants; each list is in the order of creation.
    pub(super) apps: Vec<Arc<App>>,
    pub(super) actors: Vec<Arc<ActorToken>>,
    pub(super) scopes: Vec<Arc<Scope>>,
}

/// The part of a file that all versions have.
#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

/// A room that there is no more, and by what it was known.
#[derive(Debug)]
pub(crate) struct LostRoom {
    app_id: String,
    app_slug: String,
    pub(crate) room_id: String,
    slug: String,
}

impl LostRoom {
    /// Whether a message was for it, in whatever scope.
    pub(crate) fn had(&self, internal_topic: &str) -> bool {
        let mut segments = internal_topic.split('/');
        let app = segments.next().map(|app| app.split_once('@').map_or(app, |(app, _)| app));
        app == Some(&self.app_id)
            && segments.next() == Some(&self.app_slug)
            && segments.next() == Some(&self.slug)
    }
}

impl Default for State {
    fn default() -> Self {
        Self { version: VERSION, revision: 0, apps: Vec::new(), actors: Vec::new(), scopes: Vec::new() }
    }
}

impl State {
    /// Reads what [`to_json`](Self::to_json) wrote.
    pub(crate) fn from_json(text: &str) -> Result<Self, StateError> {
        match serde_json::from_str(text) {
            Ok(Versioned { version }) if version > VERSION.into() => {
                return Err(StateError(format!(
                    "version {version} was written by a newer program; this one knows {VERSION}"
                )));
            }
            // What else is wrong with it is found below, with its place.
            _ => {}
        }
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let state: Self = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            let (path, error) = (error.path().to_string(), error.into_inner());
            let (line, column) = (error.line(), error.column());
            StateError(match error.classify() {
                // The words for these quote values, and credentials may stand where they do not belong.
                serde_json::error::Category::Data => {
                    format!("{path}: not what belongs there (line {line}, column {column})")
                }
                _ => format!("not valid JSON: {error}"),
            })
        })?;
        deserializer.end().map_err(|error| StateError(format!("not valid JSON: {error}")))?;
        state.check().map_err(StateError)?;
        Ok(state)
    }

    /// Counts the changes.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The form in a file.
    pub(crate) fn to_json(&self) -> String {
        // Nothing in it can fail: there are only values, and maps with text for keys.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The app and the room of the seed world, unless they are there or were deleted.
    pub(crate) fn add_seed_world(&mut self, now: Time) {
        let app = App::of_seed_world(now, Room::of_seed_world(now));
        if self.apps.iter().all(|known| known.app_id != app.app_id) {
            self.apps.push(app.into());
        }
    }

    /// The apps that were not deleted.
    pub(super) fn live_apps(&self) -> impl Iterator<Item = &App> {
        self.apps.iter().map(Arc::as_ref).filter(|app| app.deleted_at.is_none())
    }

    /// The actors that were not deleted.
    pub(super) fn live_actors(&self) -> impl Iterator<Item = &ActorToken> {
        self.actors.iter().map(Arc::as_ref).filter(|actor| actor.deleted_at.is_none())
    }

    /// Keeps the memory of what was deleted within its bound. The app of the seed world is remembered for ever, or it would
    /// come back.
    pub(super) fn forget_long_deleted(&mut self) {
        forget_first(&mut self.apps, |app| app.deleted_at.filter(|_| app.app_id != SEED_APP_ID));
        forget_first(&mut self.actors, |actor| actor.deleted_at);
    }

    /// The rooms that are here, and not in a later state.
    pub(crate) fn rooms_lost_in(&self, later: &Self) -> Vec<LostRoom> {
        let left: BTreeSet<&str> =
            later.live_apps().flat_map(|app| &app.rooms).map(|room| room.room_id.as_str()).collect();
        let rooms = self.live_apps().flat_map(|app| app.rooms.iter().map(move |room| (app, room)));
        let lost = rooms.filter(|(_, room)| !left.contains(room.room_id.as_str()));
        lost.map(|(app, room)| LostRoom {
            app_id: app.app_id.clone(),
            app_slug: app.slug.clone(),
            room_id: room.room_id.clone(),
            slug: room.slug.clone(),
        })
        .collect()
    }

    fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("version {} is not known, only {VERSION}", self.version));
        }
        if self.revision > MAX_REVISION {
            return Err(format!("revision {} is too large, at most {MAX_REVISION} is", self.revision));
        }
        let rooms = || self.apps.iter().flat_map(|app| &app.rooms);
        let ids = (self.apps.iter().map(|app| &app.app_id))
            .chain(rooms().map(|room| &room.room_id))
            .chain(rooms().flat_map(|room| &room.grants).map(|grant| &grant.room_actor_access_id))
            .chain(self.actors.iter().map(|actor| &actor.actor_token_id))
            .chain(self.scopes.iter().map(|scope| &scope.access_scope_id));
        no_repeats("id", ids)?;
        no_repeats("app slug", self.apps.iter().map(|app| &app.slug))?;
        self.apps
            .iter()
            .try_for_each(|app| no_repeats("room slug", app.rooms.iter().map(|room| &room.slug)))?;
        no_repeats("scope slug", self.scopes.iter().map(|scope| &scope.slug))?;
        no_repeats("token hash", self.actors.iter().map(|actor| &actor.token_sha256))
    }
}

/// Removes the longest deleted, as long as there are too many.
fn forget_first<T>(list: &mut Vec<Arc<T>>, deleted_at: impl Fn(&T) -> Option<Time>) {
    loop {
        let deleted = list.iter().enumerate().filter_map(|(at, entry)| Some((deleted_at(entry)?, at)));
        match deleted.clone().min() {
            Some((_, first)) if deleted.count() > MAX_DELETED => drop(list.remove(first)),
            _ => return,
        }
    }
}

fn no_repeats<'a>(what: &str, values: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for value in values {
        if !seen.insert(value) {
            return Err(format!("the {what} {value:?} stands there twice"));
        }
    }
    Ok(())
}

/// Why a saved control plane is not usable. What it says holds no token and no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateError(pub(super) String);

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StateError {}
