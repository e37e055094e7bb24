//! Which broker is imitated, as a table of what differs.

use std::time::Duration;

/// The broker that a [`BrokerCore`](crate::BrokerCore) behaves like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Kraken 0.4.0, quirks included.
    Kraken04,
    /// Kraken 0.10.0.
    #[default]
    Kraken010,
    /// The NoLag cloud as its newest documents describe it: as Kraken 0.10, but nobody receives own messages. That
    /// lobbies work as documented there, without Kraken's quirks, is an assumption.
    Cloud,
}

impl Profile {
    /// All profiles, oldest first.
    pub const ALL: [Self; 3] = [Self::Kraken04, Self::Kraken010, Self::Cloud];

    /// The short name, for command lines and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kraken04 => "kraken-0.4",
            Self::Kraken010 => "kraken-0.10",
            Self::Cloud => "cloud",
        }
    }

    /// The table behind the profile.
    pub fn rules(self) -> &'static Rules {
        match self {
            Self::Kraken04 => &KRAKEN_0_4,
            Self::Kraken010 => &KRAKEN_0_10,
            Self::Cloud => &CLOUD,
        }
    }
}

/// What differs between brokers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The checks of a publish in their order.
    pub publish_checks: [PublishCheck; 3],
    /// The `hint` of error 42940.
    pub unknown_topic_hint: &'static str,
    /// Live messages of unfiltered, not load-balanced subscriptions carry this instead of their own filter.
    pub unfiltered_filter: Option<&'static str>,
    /// Messages carry `from` and `fromType`.
    pub stamps_sender: bool,
    /// No connection receives what its own actor published, whatever `echo` says.
    pub hides_own_messages: bool,
    /// A `retain` that is not a boolean crashes the connection instead of counting as `false`.
    pub crashes_on_retain: bool,
    /// Text or binary that is not UTF-8 crashes the connection instead of being delivered as binary.
    pub only_utf8: bool,
    /// Payload maps shaped like the broker's internal envelopes are unwrapped on delivery.
    pub unwraps_envelopes: bool,
    /// The filters of a publish are checked (error 42960).
    pub checks_publish_filters: bool,
    /// `clientId` is read, and subscriptions are remembered for a reconnect.
    pub remembers_subscriptions: bool,
    /// `restoredSubscriptions` also lists the entries that the actor may not subscribe to.
    pub lists_refused_restores: bool,
    /// `reauth` is understood.
    pub reauth: bool,
    /// Client tokens are understood.
    pub client_tokens: bool,
    /// Load-balanced `+` subscriptions and messages in flight at an unsubscribe deliver under the broker's internal
    /// topic, not the one that was subscribed.
    pub leaks_internal_topics: bool,
    /// How long after the last `lobbySubscribe` a broker knows which rooms a lobby has. It fills this memory only after
    /// it has taken the snapshot, and remembers one set of lobbies per room. `None`: it always knows.
    pub lobby_memory: Option<Duration>,
    /// `lobbyPresence` carries the lobby's slug, as every other lobby frame does, instead of its id.
    pub lobby_events_carry_slug: bool,
    /// Actors of different access scopes do not see each other's presence, even in one room.
    pub presence_by_scope: bool,
    /// A load-balanced live delivery counts as taken, so that no replay repeats it.
    pub claims_live_deliveries: bool,
    /// Messages can be published over HTTP.
    pub publishes_over_http: bool,
    /// Most messages of one replay.
    pub replay_limit: usize,
    /// Revalidation already closes a connection of an organization that is at its limit, not only over it.
    pub revalidation_refuses_at_limit: bool,
}

/// One check of a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishCheck {
    /// Publishes per second: error 42910.
    Rate,
    /// Size of the packed data, error 42930, and right after it the monthly quota, error 42920.
    Size,
    /// The actor's grants: error 42940.
    Access,
}

const LOBBY_MEMORY: Duration = Duration::from_secs(300);

const KRAKEN_0_4: Rules = Rules {
    publish_checks: [PublishCheck::Rate, PublishCheck::Size, PublishCheck::Access],
    unknown_topic_hint: "room is not configured \u{14} provision it via the control-plane rooms API before use",
    unfiltered_filter: Some("#"),
    stamps_sender: false,
    hides_own_messages: false,
    crashes_on_retain: true,
    only_utf8: true,
    unwraps_envelopes: true,
    checks_publish_filters: false,
    remembers_subscriptions: false,
    lists_refused_restores: true,
    reauth: false,
    client_tokens: false,
    leaks_internal_topics: true,
    lobby_memory: Some(LOBBY_MEMORY),
    lobby_events_carry_slug: false,
    presence_by_scope: false,
    claims_live_deliveries: false,
    publishes_over_http: false,
    replay_limit: 100,
    revalidation_refuses_at_limit: true,
};

const KRAKEN_0_10: Rules = Rules {
    publish_checks: [PublishCheck::Rate, PublishCheck::Access, PublishCheck::Size],
    unknown_topic_hint: "room is not configured \u{2014} provision it via the control-plane rooms API before use",
    unfiltered_filter: None,
    stamps_sender: true,
    hides_own_messages: false,
    crashes_on_retain: false,
    only_utf8: false,
    unwraps_envelopes: false,
    checks_publish_filters: true,
    remembers_subscriptions: true,
    lists_refused_restores: false,
    reauth: true,
    client_tokens: true,
    leaks_internal_topics: false,
    lobby_memory: Some(LOBBY_MEMORY),
    lobby_events_carry_slug: false,
    presence_by_scope: true,
    claims_live_deliveries: true,
    publishes_over_http: true,
    replay_limit: 1100,
    revalidation_refuses_at_limit: false,
};

const CLOUD: Rules =
    Rules { hides_own_messages: true, lobby_memory: None, lobby_events_carry_slug: true, ..KRAKEN_0_10 };
