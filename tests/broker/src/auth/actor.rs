//! One identity and its grants.

use bytes::Bytes;
use serde::Deserialize;

use crate::topic;

/// The identity behind a token.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    pub(crate) actor_id: String,
    pub(crate) project_id: Option<String>,
    pub(crate) organization_id: Option<String>,
    pub(crate) actor_type: String,
    pub(crate) max_connections: Option<u32>,
    pub(crate) scope_slug: Option<String>,
    pub(crate) grants: Grants,
    #[expect(dead_code, reason = "lobbies are checked when the file is read, and not served yet")]
    pub(crate) lobbies: Vec<LobbyGrant>,
    /// A packed list, as the file has it.
    pub(crate) active_subscriptions: Option<Bytes>,
}

/// What an actor may use.
#[derive(Debug, Clone)]
pub(crate) enum Grants {
    Everything,
    Topics(Vec<TopicGrant>),
}

/// One entry of `allowedTopics`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TopicGrant {
    pub(crate) pattern: String,
    /// The broker's internal topic of an exact pattern.
    #[serde(default)]
    pub(crate) topic: Option<String>,
    #[serde(default)]
    pub(crate) permission: Permission,
    #[serde(default)]
    pub(crate) app_id: Option<String>,
    #[expect(dead_code, reason = "for presence, which is not served yet")]
    #[serde(default)]
    pub(crate) room_id: Option<String>,
    #[expect(dead_code, reason = "for presence, which is not served yet")]
    #[serde(default)]
    pub(crate) room_slug: Option<String>,
}

/// One entry of `allowedLobbies`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LobbyGrant {
    #[expect(dead_code, reason = "as `Actor::lobbies`")]
    #[serde(rename = "lobby_slug")]
    pub(crate) slug: String,
    #[expect(dead_code, reason = "as `Actor::lobbies`")]
    #[serde(rename = "lobby_id")]
    pub(crate) id: String,
}

/// What a grant allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Permission {
    #[default]
    PubSub,
    Publish,
    Subscribe,
}

/// What a client wants to do with a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Publish,
    Subscribe,
}

/// A topic as the broker knows it inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) base: String,
    pub(crate) app_id: String,
}

impl Actor {
    pub(crate) fn with_every_grant(actor_id: String) -> Self {
        Self {
            actor_id,
            project_id: Some("dev-project".into()),
            organization_id: Some("dev-org".into()),
            actor_type: "user".into(),
            max_connections: None,
            scope_slug: None,
            grants: Grants::Everything,
            lobbies: Vec::new(),
            active_subscriptions: None,
        }
    }

    /// The internal topic behind what the client wrote, if a grant allows it.
    ///
    /// A scoped actor may leave out its scope, which then stands after the app.
    pub(crate) fn resolve(&self, pattern: &str, access: Access) -> Option<Resolved> {
        let grants = match &self.grants {
            Grants::Everything => return Some(unlisted(pattern, None)),
            Grants::Topics(grants) => grants,
        };
        let scoped = self.scope_slug.as_deref().zip(pattern.split_once('/'));
        let scoped = scoped.map(|(scope, (app, rest))| format!("{app}/{scope}/{rest}"));
        [Some(pattern), scoped.as_deref()].into_iter().flatten().find_map(|pattern| {
            let allowed = || grants.iter().filter(|grant| grant.permission.allows(access));
            let exact = allowed().find(|grant| grant.pattern == pattern);
            let grant = exact.or_else(|| allowed().find(|grant| topic::matches(&grant.pattern, pattern)))?;
            let resolved = unlisted(pattern, grant.app_id.as_deref());
            Some(match (&grant.topic, exact) {
                (Some(topic), Some(_)) => Resolved { base: topic.clone(), ..resolved },
                _ => resolved,
            })
        })
    }
}

/// The internal topic of a pattern that no grant names exactly. Apps without an id are known by their slug.
fn unlisted(pattern: &str, app_id: Option<&str>) -> Resolved {
    let app_id = app_id.or_else(|| pattern.split('/').next()).unwrap_or_default();
    Resolved { base: format!("{app_id}/{pattern}"), app_id: app_id.into() }
}

impl Permission {
    fn allows(self, access: Access) -> bool {
        match self {
            Self::PubSub => true,
            Self::Publish => access == Access::Publish,
            Self::Subscribe => access == Access::Subscribe,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(grants: &[(&str, Option<&str>, Permission)], scope: Option<&str>) -> Actor {
        let grants = grants.iter().map(|(pattern, topic, permission)| TopicGrant {
            pattern: (*pattern).into(),
            topic: topic.map(Into::into),
            permission: *permission,
            app_id: Some("app-1".into()),
            room_id: None,
            room_slug: None,
        });
        Actor {
            grants: Grants::Topics(grants.collect()),
            scope_slug: scope.map(Into::into),
            ..Actor::with_every_grant("someone".into())
        }
    }

    fn base(actor: &Actor, pattern: &str, access: Access) -> Option<String> {
        actor.resolve(pattern, access).map(|resolved| resolved.base)
    }

    #[test]
    fn exact_grants_lead_to_their_topic_and_wildcards_to_the_app() {
        let actor =
            actor(&[("a/r/#", None, Permission::PubSub), ("a/r/t", Some("r1/t"), Permission::PubSub)], None);
        assert_eq!(base(&actor, "a/r/t", Access::Publish).as_deref(), Some("r1/t"));
        assert_eq!(base(&actor, "a/r/u", Access::Publish).as_deref(), Some("app-1/a/r/u"));
        assert_eq!(base(&actor, "a/r/+", Access::Subscribe).as_deref(), Some("app-1/a/r/+"));
        assert_eq!(base(&actor, "a/other/u", Access::Publish), None);
    }

    #[test]
    fn permissions_are_per_direction() {
        let actor =
            actor(&[("a/r/p", None, Permission::Publish), ("a/r/s", None, Permission::Subscribe)], None);
        assert!(base(&actor, "a/r/p", Access::Publish).is_some());
        assert!(base(&actor, "a/r/p", Access::Subscribe).is_none());
        assert!(base(&actor, "a/r/s", Access::Subscribe).is_some());
        assert!(base(&actor, "a/r/s", Access::Publish).is_none());
    }

    #[test]
    fn a_scope_may_be_left_out() {
        let actor = actor(&[("a/pier/r/t", Some("r5/t"), Permission::PubSub)], Some("pier"));
        assert_eq!(base(&actor, "a/r/t", Access::Publish).as_deref(), Some("r5/t"));
        assert_eq!(base(&actor, "a/pier/r/t", Access::Publish).as_deref(), Some("r5/t"));
    }
}
