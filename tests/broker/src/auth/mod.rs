//! Who may connect and what they may do.

mod actor;
mod client_token;
mod file;
mod new_actor;
mod settings;

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc, time::Duration};

pub use file::AuthError;
pub use new_actor::NewActor;

pub(crate) use actor::{Access, Actor, Grants, Permission, Resolved};
pub(crate) use client_token::Refused;

use actor::{LobbyGrant, TopicGrant};
use client_token::SigningKey;
use nolag_core::Token;
use settings::DevSettings;

/// Tokens of the form `dev-token-NAME` name their actor: a convention for development, no secret.
const DEV_TOKEN_PREFIX: &str = "dev-token-";

/// The tokens that a broker accepts. Cheap to clone.
#[derive(Clone)]
pub struct AuthConfig {
    tokens: Arc<BTreeMap<String, Arc<Actor>>>,
    /// Tokens that are not listed are welcome too.
    allow_all: bool,
    is_seed_world: bool,
    dev: Option<Arc<serde_json::Value>>,
    settings: Arc<DevSettings>,
}

/// An accepted token.
#[derive(Debug, Clone)]
pub(crate) struct Validated {
    pub(crate) actor: Arc<Actor>,
    /// When a client token expires, in Unix seconds.
    pub(crate) expires_at: Option<u64>,
}

impl AuthConfig {
    /// Accepts every token that is not empty, with every grant.
    ///
    /// Each token is an actor of its own: `dev-token-NAME` is the actor `NAME`, any other token is `actor-` and a
    /// short hash, which is the same in every run and does not give the token away.
    pub fn allow_all() -> Self {
        Self { allow_all: true, ..Self::of_tokens([]) }
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
        Self { is_seed_world: true, ..Self::of_tokens(["alice", "bob"].map(actor)) }
    }

    /// Reads the text of a Kraken `auth.json`. Keys that this broker does not know are ignored.
    ///
    /// Under the top-level key `dev`, which Kraken ignores, it may have what signs client tokens and what topics are
    /// hydrated with after a subscribe:
    ///
    /// ```json
    /// {"tokens": {},
    ///  "dev": {"signingKeys": [{"id": "sk_live_1", "secret": "…", "projectId": "only for actors of this project"}],
    ///          "hydration": {"APP": {"TOPIC": "any JSON", "#": "for every other topic of the app"}}}}
    /// ```
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
        let listed = self.tokens.iter().find(|(_, actor)| actor.actor_id == actor_id);
        let made_up = || self.allow_all.then(|| format!("{DEV_TOKEN_PREFIX}{actor_id}"));
        listed.map(|(token, _)| token.clone()).or_else(made_up)
    }

    /// Adds an actor. An actor of the same id made before is replaced.
    #[must_use]
    pub fn with_actor(mut self, actor: NewActor) -> Self {
        let (token, actor) = actor.into_entry();
        Arc::make_mut(&mut self.tokens).insert(token, Arc::new(actor));
        self
    }

    /// Accepts client tokens that are signed with this key, besides the tokens that it accepts already.
    #[must_use]
    pub fn with_signing_key(mut self, id: &str, secret: &str) -> Self {
        let key = SigningKey { id: id.into(), secret: Token::new(secret), project_id: None };
        Arc::make_mut(&mut self.settings).signing_keys.push(key);
        self
    }

    /// Signs a client token of the actor `actor_id`, as an application's server would, that expires at a Unix time.
    /// `None` when there is no signing key.
    ///
    /// Brokers refuse client tokens that live longer than an hour.
    pub fn client_token(&self, actor_id: &str, expires_at: Duration) -> Option<String> {
        client_token::sign(self.settings.signing_keys.first()?, actor_id, expires_at.as_secs())
    }

    fn from_actors(
        actors: impl IntoIterator<Item = (String, Actor)>,
        dev: Option<serde_json::Value>,
    ) -> Result<Self, String> {
        let settings = dev.as_ref().map(DevSettings::read).transpose()?.unwrap_or_default();
        Ok(Self { dev: dev.map(Arc::new), settings: Arc::new(settings), ..Self::of_tokens(actors) })
    }

    fn of_tokens(actors: impl IntoIterator<Item = (String, Actor)>) -> Self {
        let tokens = actors.into_iter().map(|(token, actor)| (token, Arc::new(actor))).collect();
        Self {
            tokens: Arc::new(tokens),
            allow_all: false,
            is_seed_world: false,
            dev: None,
            settings: Arc::default(),
        }
    }

    /// Whether it has what the examples use, so that the control plane should show it.
    pub(crate) fn is_seed_world(&self) -> bool {
        self.is_seed_world
    }

    /// The actor of a token, at a Unix time. `managed` is asked first for the actor that a client token names.
    pub(crate) fn validate(
        &self,
        token: &str,
        unix_now: u64,
        client_tokens: bool,
        managed: impl FnOnce(&str) -> Option<Result<Arc<Actor>, Refused>>,
    ) -> Result<Validated, Refused> {
        if let Some(actor) = self.tokens.get(token) {
            return Ok(Validated { actor: actor.clone(), expires_at: None });
        }
        if client_tokens && client_token::has_form(token) && !self.settings.signing_keys.is_empty() {
            let (claims, key) = client_token::verify(token, &self.settings.signing_keys, unix_now)?;
            let actor = match managed(&claims.sub) {
                Some(actor) => actor?,
                None => self.actor_of_claim(&claims.sub).ok_or(Refused::Denied)?,
            };
            if key.project_id.is_some() && key.project_id != actor.project_id {
                return Err(Refused::Denied);
            }
            return Ok(Validated { actor, expires_at: Some(claims.exp) });
        }
        if !self.allow_all || token.is_empty() {
            return Err(Refused::Denied);
        }
        Ok(Validated { actor: Arc::new(Actor::with_every_grant(actor_id_for(token))), expires_at: None })
    }

    /// What a topic is hydrated with after a subscribe.
    pub(crate) fn hydration(&self, app: &str, topic: &str) -> Option<&serde_json::Value> {
        self.settings.hydration(app, topic)
    }

    /// The actor that a client token names: by its id, or by the key id of its own token.
    fn actor_of_claim(&self, sub: &str) -> Option<Arc<Actor>> {
        let by_key_id = |token: &str| token.split_once('.').is_some_and(|(key_id, _)| key_id == sub);
        let named =
            self.tokens.iter().find(|(token, actor)| actor.actor_id == sub || by_key_id(token.as_str()));
        let made_up =
            || (self.allow_all && !sub.is_empty()).then(|| Arc::new(Actor::with_every_grant(sub.into())));
        named.map(|(_, actor)| actor.clone()).or_else(made_up)
    }
}

/// Says how many tokens there are, never which.
impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.allow_all {
            true => f.write_str("AuthConfig(every token)"),
            false => write!(f, "AuthConfig({} tokens)", self.tokens.len()),
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

    fn actor(auth: &AuthConfig, token: &str) -> Option<Arc<Actor>> {
        auth.validate(token, 0, true, |_| None).ok().map(|validated| validated.actor)
    }

    #[test]
    fn allow_all_names_actors_without_leaking_tokens() {
        let auth = AuthConfig::allow_all();
        assert_eq!(actor(&auth, "dev-token-zoe").unwrap().actor_id, "zoe");
        let id = actor(&auth, "at_live_secret").unwrap().actor_id.clone();
        assert!(id.starts_with("actor-") && !id.contains("secret"));
        assert_eq!(id, actor(&auth, "at_live_secret").unwrap().actor_id);
        assert!(actor(&auth, "").is_none());
    }

    #[test]
    fn the_seed_world_refuses_strangers() {
        let auth = AuthConfig::seed_world();
        let alice = actor(&auth, "dev-token-alice").unwrap();
        assert!(alice.resolve("demo/general/messages", Access::Publish).is_some());
        assert!(alice.resolve("demo/other/messages", Access::Subscribe).is_none());
        assert!(actor(&auth, "dev-token-carol").is_none());
        assert_eq!(auth.token_of("bob").as_deref(), Some("dev-token-bob"));
    }

    #[test]
    fn client_tokens_name_an_actor_by_id_or_key_id() {
        let file = r#"{"tokens": {"at_live_1.secret": {"actorTokenId": "ann", "projectId": "p"}},
            "dev": {"signingKeys": [{"id": "k", "secret": "s", "projectId": "p"}]}}"#;
        let auth = AuthConfig::from_json(file).unwrap();
        let accepted = |sub: &str, client_tokens| {
            let token = auth.client_token(sub, Duration::from_secs(600)).unwrap();
            auth.validate(&token, 0, client_tokens, |_| None)
                .ok()
                .map(|found| (found.actor.actor_id.clone(), found.expires_at))
        };
        assert_eq!(accepted("ann", true), Some(("ann".into(), Some(600))));
        assert_eq!(accepted("at_live_1", true), Some(("ann".into(), Some(600))));
        assert_eq!(accepted("ben", true), None);
        assert_eq!(accepted("ann", false), None, "old brokers know no client tokens");
    }

    #[test]
    fn a_signing_key_serves_one_project() {
        let file = r#"{"tokens": {"t": {"actorTokenId": "ann", "projectId": "p"}},
            "dev": {"signingKeys": [{"id": "k", "secret": "s", "projectId": "other"}]}}"#;
        let auth = AuthConfig::from_json(file).unwrap();
        let token = auth.client_token("ann", Duration::from_secs(600)).unwrap();
        assert_eq!(auth.validate(&token, 0, true, |_| None).err(), Some(Refused::Denied));
    }
}
