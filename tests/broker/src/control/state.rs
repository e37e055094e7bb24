//! What is kept, and its form in a file.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

use super::{Time, actors::ActorToken, apps::App, rooms::Room, scopes::Scope};

/// The version of the form.
const VERSION: u32 = 1;

/// Everything but the API key. Tokens are kept as SHA-256 hashes; webhooks may hold credentials as they are.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct State {
    version: u32,
    /// Counts the changes.
    pub(super) revision: u64,
    /// With their rooms, and these with their grants; each list is in the order of creation.
    pub(super) apps: Vec<App>,
    pub(super) actors: Vec<ActorToken>,
    pub(super) scopes: Vec<Scope>,
}

impl Default for State {
    fn default() -> Self {
        Self { version: VERSION, revision: 0, apps: Vec::new(), actors: Vec::new(), scopes: Vec::new() }
    }
}

impl State {
    /// Reads what [`to_json`](Self::to_json) wrote.
    pub(crate) fn from_json(text: &str) -> Result<Self, StateError> {
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

    /// The form in a file.
    pub(crate) fn to_json(&self) -> String {
        // Nothing in it can fail: there are only values, and maps with text for keys.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The app and the room of the seed world, unless they are there or were deleted.
    pub(crate) fn add_seed_world(&mut self, now: Time) {
        let app = App::of_seed_world(now, Room::of_seed_world(now));
        if self.apps.iter().all(|known| known.app_id != app.app_id) {
            self.apps.push(app);
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("version {} is not known, only {VERSION}", self.version));
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
