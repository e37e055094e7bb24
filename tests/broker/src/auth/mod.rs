//! Who may connect and what they may do.

mod actor;
mod file;

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};

pub use file::AuthError;

pub(crate) use actor::{Access, Actor, Resolved};
use actor::{Grants, LobbyGrant, Permission, TopicGrant};

/// Tokens of the form `dev-token-NAME` name their actor: a convention for development, no secret.
const DEV_TOKEN_PREFIX: &str = "dev-token-";

/// The tokens that a broker accepts. Cheap to clone.
#[derive(Clone)]
pub struct AuthConfig {
    source: Source,
    dev: Option<Arc<serde_json::Value>>,
}

#[derive(Clone)]
enum Source {
    AllowAll,
    Tokens(Arc<BTreeMap<String, Arc<Actor>>>),
}

impl AuthConfig {
    /// Accepts every token that is not empty, with every grant.
    ///
    /// Each token is an actor of its own: `dev-token-NAME` is the actor `NAME`, any other token is `actor-` and a
    /// short hash, which is the same in every run and does not give the token away.
    pub fn allow_all() -> Self {
        Self { source: Source::AllowAll, dev: None }
    }

    /// The small world of the examples: `dev-token-alice` and `dev-token-bob` are the actors `alice` and `bob`, who
    /// may do everything in app `demo`, room `general`, and see the lobby `online`. Other tokens are refused.
    pub fn seed_world() -> Self {
        let actor = |name: &str| {
            let actor = Actor {
                actor_id: name.into(),
                project_id: Some("demo-project".into()),
                organization_id: Some("demo-org".into()),
                actor_type: "user".into(),
                max_connections: None,
                scope_slug: None,
                grants: Grants::Topics(vec![TopicGrant {
                    pattern: "demo/general/#".into(),
                    topic: None,
                    permission: Permission::PubSub,
                    app_id: Some("demo-app".into()),
                    room_id: Some("room-general".into()),
                    room_slug: Some("general".into()),
                }]),
                lobbies: vec![LobbyGrant { slug: "online".into(), id: "lobby-online".into() }],
                active_subscriptions: None,
            };
            (format!("{DEV_TOKEN_PREFIX}{name}"), actor)
        };
        Self::from_actors(["alice", "bob"].map(actor), None)
    }

    /// Reads the text of a Kraken `auth.json`. Keys that this broker does not know are ignored.
    ///
    /// # Errors
    /// An [`AuthError`] that names the entry and the field, never the token.
    pub fn from_json(text: &str) -> Result<Self, AuthError> {
        file::parse(text)
    }

    /// Reads a Kraken `auth.json` from disk.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json), with the path; also when the file cannot be read.
    pub fn from_file(path: &Path) -> Result<Self, AuthError> {
        file::read(path)
    }

    /// What stands under the top-level key `dev` of the file, which is kept for settings that Kraken's file lacks.
    pub fn dev(&self) -> Option<&serde_json::Value> {
        self.dev.as_deref()
    }

    /// A token of the actor `actor_id`, for tests and examples. `None` when no entry has that actor.
    pub fn token_of(&self, actor_id: &str) -> Option<String> {
        match &self.source {
            Source::AllowAll => Some(format!("{DEV_TOKEN_PREFIX}{actor_id}")),
            Source::Tokens(tokens) => {
                tokens.iter().find(|(_, actor)| actor.actor_id == actor_id).map(|(token, _)| token.clone())
            }
        }
    }

    fn from_actors(
        actors: impl IntoIterator<Item = (String, Actor)>,
        dev: Option<serde_json::Value>,
    ) -> Self {
        let tokens = actors.into_iter().map(|(token, actor)| (token, Arc::new(actor))).collect();
        Self { source: Source::Tokens(Arc::new(tokens)), dev: dev.map(Arc::new) }
    }

    /// The actor of a token; `None` when the token is refused.
    pub(crate) fn actor(&self, token: &str) -> Option<Arc<Actor>> {
        match &self.source {
            Source::AllowAll if token.is_empty() => None,
            Source::AllowAll => Some(Arc::new(Actor::with_every_grant(actor_id_for(token)))),
            Source::Tokens(tokens) => tokens.get(token).cloned(),
        }
    }
}

/// Says how many tokens there are, never which.
impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::AllowAll => f.write_str("AuthConfig(every token)"),
            Source::Tokens(tokens) => write!(f, "AuthConfig({} tokens)", tokens.len()),
        }
    }
}

fn actor_id_for(token: &str) -> String {
    match token.strip_prefix(DEV_TOKEN_PREFIX) {
        Some(name) if !name.is_empty() => name.into(),
        _ => {
            // FNV-1a, folded to 48 bits.
            let hash = token.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
            format!("actor-{:012x}", (hash ^ hash >> 48) & 0xffff_ffff_ffff)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allow_all_names_actors_without_leaking_tokens() {
        let auth = AuthConfig::allow_all();
        assert_eq!(auth.actor("dev-token-zoe").unwrap().actor_id, "zoe");
        let id = auth.actor("at_live_secret").unwrap().actor_id.clone();
        assert!(id.starts_with("actor-") && !id.contains("secret"));
        assert_eq!(id, auth.actor("at_live_secret").unwrap().actor_id);
        assert!(auth.actor("").is_none());
    }

    #[test]
    fn the_seed_world_refuses_strangers() {
        let auth = AuthConfig::seed_world();
        let alice = auth.actor("dev-token-alice").unwrap();
        assert!(alice.resolve("demo/general/messages", Access::Publish).is_some());
        assert!(alice.resolve("demo/other/messages", Access::Subscribe).is_none());
        assert!(auth.actor("dev-token-carol").is_none());
        assert_eq!(auth.token_of("bob").as_deref(), Some("dev-token-bob"));
    }
}
