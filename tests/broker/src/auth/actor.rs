//! One identity and its grants.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

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
    pub(crate) lobbies: Vec<LobbyGrant>,
    /// A packed list, as the file has it.
    pub(crate) active_subscriptions: Option<Bytes>,
}

/// What an actor may use.
#[derive(Debug, Clone)]
pub(crate) enum Grants {
    /// Whatever the control plane says, from which the actor comes. What is here says nothing.
    ControlPlane,
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
    #[serde(default)]
    pub(crate) room_id: Option<String>,
    #[serde(default)]
    pub(crate) room_slug: Option<String>,
}

/// One entry of `allowedLobbies`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LobbyGrant {
    #[serde(rename = "lobby_slug")]
    pub(crate) slug: String,
    #[serde(rename = "lobby_id")]
    pub(crate) id: String,
}

/// What a grant allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Known when a grant names the pattern exactly, and its internal topic.
    pub(crate) room_id: Option<String>,
    /// The change of the control plane that created the room; 0 if it was always there.
    pub(crate) since: u64,
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
            Grants::Everything => {
                // Rooms that no file lists are known by their slug.
                let room_id = pattern.split('/').nth(1).map(String::from);
                return Some(Resolved { room_id, ..unlisted(pattern, None) });
            }
            Grants::ControlPlane => return None,
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
                (Some(topic), Some(_)) => {
                    Resolved { base: topic.clone(), room_id: grant.room_id.clone(), ..resolved }
                }
                _ => resolved,
            })
        })
    }

    /// The scope that separates its presence from that of others, where the broker separates them.
    pub(crate) fn presence_scope(&self, by_scope: bool) -> Option<String> {
        self.scope_slug.clone().filter(|_| by_scope)
    }

    /// The room behind a slug: of several rooms with the same slug the first granted one.
    pub(crate) fn room_id<'a>(&'a self, slug: &'a str) -> Option<&'a str> {
        match &self.grants {
            Grants::ControlPlane => None,
            Grants::Everything => Some(slug),
            Grants::Topics(grants) => {
                grants.iter().find(|grant| grant.room_slug.as_deref() == Some(slug))?.room_id.as_deref()
            }
        }
    }

    /// The slug of a room, or its id when no grant names the slug.
    pub(crate) fn room_slug<'a>(&'a self, room_id: &'a str) -> &'a str {
        let Grants::Topics(grants) = &self.grants else { return room_id };
        let grant = grants.iter().find(|grant| grant.room_id.as_deref() == Some(room_id));
        grant.and_then(|grant| grant.room_slug.as_deref()).unwrap_or(room_id)
    }

    /// Every room that a grant names, each once; `None` stands for all rooms.
    pub(crate) fn room_ids(&self) -> Option<BTreeSet<String>> {
        let grants = match &self.grants {
            Grants::ControlPlane => return Some(BTreeSet::new()),
            Grants::Everything => return None,
            Grants::Topics(grants) => grants,
        };
        Some(grants.iter().filter_map(|grant| grant.room_id.clone()).collect())
    }

    /// The lobbies behind a slug; empty when the actor may not use it.
    pub(crate) fn lobby_ids(&self, slug: &str) -> Vec<String> {
        match &self.grants {
            Grants::Everything => vec![format!("lobby-{slug}")],
            // Lobbies are granted by files only: no REST operation for them is known.
            Grants::ControlPlane | Grants::Topics(_) => {
                let lobbies = self.lobbies.iter().filter(|lobby| lobby.slug == slug);
                lobbies.map(|lobby| lobby.id.clone()).collect()
            }
        }
    }
}

/// The internal topic of a pattern that no grant names exactly. Apps without an id are known by their slug.
pub(super) fn unlisted(pattern: &str, app_id: Option<&str>) -> Resolved {
    let app_id = app_id.or_else(|| pattern.split('/').next()).unwrap_or_default();
    Resolved { base: format!("{app_id}/{pattern}"), app_id: app_id.into(), room_id: None, since: 0 }
}

impl Permission {
    pub(crate) fn allows(self, access: Access) -> bool {
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
