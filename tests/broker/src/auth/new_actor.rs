//! Actors made in code.

use super::{
    DEV_TOKEN_PREFIX,
    actor::{Actor, Grants, LobbyGrant, Permission, TopicGrant, unlisted},
};
use crate::topic;

/// An actor for tests and demos, with exactly the grants that it is given.
///
/// ```
/// use nolag_broker::{AuthConfig, NewActor};
///
/// let auth = AuthConfig::allow_all()
///     .with_actor(NewActor::new("reader").can_subscribe("chat/general/#").can_watch("online"));
/// assert_eq!(auth.token_of("reader").as_deref(), Some("dev-token-reader"));
/// ```
#[derive(Debug, Clone)]
pub struct NewActor {
    actor: Actor,
    topics: Vec<TopicGrant>,
}

impl NewActor {
    /// An actor of type `user` that may do nothing. Its token is `dev-token-` and its id.
    pub fn new(actor_id: &str) -> Self {
        let actor = Actor::with_every_grant(actor_id.into());
        Self { actor, topics: Vec::new() }
    }

    /// Another type, for example `agent`.
    #[must_use]
    pub fn of_type(mut self, actor_type: &str) -> Self {
        self.actor.actor_type = actor_type.into();
        self
    }

    /// May publish to a topic, or to all under a pattern with `+` or `#`. Every topic grant also opens the presence of
    /// its room.
    #[must_use]
    pub fn can_publish(self, pattern: &str) -> Self {
        self.grant(pattern, Permission::Publish)
    }

    /// May subscribe to a topic, or to all under a pattern with `+` or `#`.
    #[must_use]
    pub fn can_subscribe(self, pattern: &str) -> Self {
        self.grant(pattern, Permission::Subscribe)
    }

    /// May publish and subscribe.
    #[must_use]
    pub fn can_use(self, pattern: &str) -> Self {
        self.grant(pattern, Permission::PubSub)
    }

    /// May observe a lobby, which has the rooms of the topic grants.
    #[must_use]
    pub fn can_watch(mut self, lobby: &str) -> Self {
        self.actor.lobbies.push(LobbyGrant { slug: lobby.into(), id: format!("lobby-{lobby}") });
        self
    }

    /// The token that it will have.
    pub fn token(&self) -> String {
        format!("{DEV_TOKEN_PREFIX}{}", self.actor.actor_id)
    }

    fn grant(mut self, pattern: &str, permission: Permission) -> Self {
        // Named exactly, so that its room is known.
        let topic = (!topic::has_wildcard(pattern)).then(|| unlisted(pattern, None).base);
        let room = pattern.split('/').nth(1).filter(|room| !matches!(*room, "+" | "#")).map(String::from);
        self.topics.push(TopicGrant {
            pattern: pattern.into(),
            topic,
            permission,
            app_id: None,
            room_id: room.clone(),
            room_slug: room,
        });
        self
    }

    /// Its token, and the actor.
    pub(super) fn into_entry(mut self) -> (String, Actor) {
        let token = self.token();
        self.actor.grants = Grants::Topics(self.topics);
        (token, self.actor)
    }
}
