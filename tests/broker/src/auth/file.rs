//! Kraken's `auth.json`.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::Value as Json;

use super::{
    Actor, AuthConfig,
    actor::{Grants, LobbyGrant, TopicGrant},
};
use crate::{files, payload};

/// Why an `auth.json` is not usable. Tokens never appear in it.
#[derive(Debug)]
#[non_exhaustive]
pub enum AuthError {
    /// The file cannot be read.
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The text is not JSON, not an object with an object under `tokens`, or has something wrong under `dev`.
    Document {
        /// The file, if it was one.
        path: Option<PathBuf>,
        /// What is wrong, and where.
        problem: String,
    },
    /// One token's entry is malformed.
    Entry {
        /// The file, if it was one.
        path: Option<PathBuf>,
        /// Which entry of `tokens`, counting from 1.
        entry: usize,
        /// Its `actorTokenId`, if there is one.
        actor: Option<String>,
        /// The field, for example `allowedTopics[2].permission`.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl AuthError {
    fn in_file(mut self, file: &Path) -> Self {
        if let Self::Document { path, .. } | Self::Entry { path, .. } = &mut self {
            *path = Some(file.into());
        }
        self
    }
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Document { path: Some(path), .. } | Self::Entry { path: Some(path), .. } = self {
            write!(f, "{}: ", path.display())?;
        }
        match self {
            Self::Read { path, source } => {
                write!(f, "cannot read the auth file {}: {source}", path.display())
            }
            Self::Document { problem, .. } => f.write_str(problem),
            Self::Entry { entry, actor, field, problem, .. } => {
                write!(f, "token entry {entry}")?;
                if let Some(actor) = actor {
                    write!(f, " (actor {actor:?})")?;
                }
                write!(f, ": {field}: {problem}")
            }
        }
    }
}

impl std::error::Error for AuthError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            _ => None,
        }
    }
}

pub(super) fn read(path: &Path) -> Result<AuthConfig, AuthError> {
    let text = files::read_text(path).map_err(|source| AuthError::Read { path: path.into(), source })?;
    parse(&text).map_err(|error| error.in_file(path))
}

pub(super) fn parse(text: &str) -> Result<AuthConfig, AuthError> {
    let document: Document = serde_json::from_str(text).map_err(|error| AuthError::Document {
        path: None,
        // Data errors would quote values, and a token may stand where it does not belong.
        problem: match error.classify() {
            serde_json::error::Category::Data => {
                let (line, column) = (error.line(), error.column());
                format!("expected {SHAPE} (line {line}, column {column})")
            }
            _ => format!("not valid JSON: {error}"),
        },
    })?;
    let mut actors = Vec::with_capacity(document.tokens.0.len());
    for (index, (token, json)) in document.tokens.0.into_iter().enumerate() {
        let actor_id = json.get("actorTokenId").and_then(Json::as_str).map(String::from);
        let entry: Entry = serde_path_to_error::deserialize(json).map_err(|error| AuthError::Entry {
            path: None,
            entry: index + 1,
            actor: actor_id,
            field: error.path().to_string(),
            problem: error.into_inner().to_string(),
        })?;
        actors.push((token, entry.into_actor()));
    }
    AuthConfig::from_actors(actors, document.dev)
        .map_err(|problem| AuthError::Document { path: None, problem })
}

const SHAPE: &str = "an object like {\"tokens\": {\"TOKEN\": {\"actorTokenId\": …, \"allowedTopics\": […]}}}";

#[derive(Deserialize)]
struct Document {
    tokens: Tokens,
    dev: Option<Json>,
}

/// The entries in the order of the file, so that errors can count them.
struct Tokens(Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Tokens;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tokens")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tokens, A::Error> {
                let mut tokens = Vec::new();
                while let Some((token, entry)) = map.next_entry::<String, Json>()? {
                    if !entry.is_object() {
                        return Err(A::Error::custom("a token's entry is not an object"));
                    }
                    tokens.push((token, entry));
                }
                Ok(Tokens(tokens))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    actor_token_id: String,
    project_id: Option<String>,
    organization_id: Option<String>,
    actor_type: Option<String>,
    max_connections: Option<u32>,
    scope_slug: Option<String>,
    #[serde(default)]
    allowed_topics: Vec<TopicGrant>,
    #[serde(default)]
    allowed_lobbies: Vec<LobbyGrant>,
    #[serde(default)]
    active_subscriptions: Vec<Json>,
}

impl Entry {
    fn into_actor(self) -> Actor {
        let restored = self.active_subscriptions;
        Actor {
            actor_id: self.actor_token_id,
            project_id: self.project_id,
            organization_id: self.organization_id,
            actor_type: self.actor_type.unwrap_or_else(|| "user".into()),
            max_connections: self.max_connections,
            scope_slug: self.scope_slug,
            grants: Grants::Topics(self.allowed_topics),
            lobbies: self.allowed_lobbies,
            active_subscriptions: (!restored.is_empty()).then(|| payload::pack_json(&Json::Array(restored))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_kraken_file_is_read() {
        let auth = parse(
            r#"{"_comment": "x", "dev": {"lobbies": []}, "tokens": {"t1": {"actorTokenId": "a1", "rateLimit": 5,
                "projectId": "p", "organizationId": "o", "actorType": "agent", "maxConnections": 2,
                "allowedTopics": [{"pattern": "a/r/#", "permission": "subscribe", "app_name": "a"}],
                "allowedLobbies": [{"lobby_slug": "l", "lobby_id": "l-1"}],
                "activeSubscriptions": ["a/r/t"]}}}"#,
        )
        .unwrap();
        let actor = auth.validate("t1", 0, false, |_| None).unwrap().actor;
        assert_eq!((actor.actor_id.as_str(), actor.max_connections), ("a1", Some(2)));
        assert_eq!(actor.active_subscriptions.as_deref(), Some(b"\x91\xa5a/r/t".as_slice()));
        assert!(auth.dev().is_some());
    }

    #[test]
    fn errors_name_the_entry_and_the_field_but_not_the_token() {
        let text = r#"{"tokens": {"secret-1": {"actorTokenId": "a"}, "secret-2": {"actorTokenId": "b",
            "allowedTopics": [{"pattern": "x", "permission": "rw"}]}}}"#;
        let error = error(text);
        assert!(error.contains("token entry 2 (actor \"b\"): allowedTopics[0].permission:"), "{error}");
        assert!(error.contains("`pubSub`") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn misplaced_tokens_stay_out_of_errors() {
        for text in
            [r#"{"tokens": "secret"}"#, r#"{"tokens": {"secret": 1}}"#, r#""secret""#, r#"{"secret": 1}"#]
        {
            let error = error(text);
            assert!(error.contains("actorTokenId") && !error.contains("secret"), "{error}");
        }
        assert!(error("{\"tokens\": {").contains("line 1"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read(Path::new("/nonexistent/auth.json")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/auth.json"), "{error}");
    }
}
