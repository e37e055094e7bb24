//! Which broker is imitated, as a table of what differs.

/// The broker that a [`BrokerCore`](crate::BrokerCore) behaves like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Kraken 0.4.0, quirks included.
    Kraken04,
    /// Kraken 0.10.0.
    #[default]
    Kraken010,
    /// The NoLag cloud as its newest documents describe it: as Kraken 0.10, but nobody receives own messages.
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
    /// Load-balanced `+` subscriptions deliver under the broker's internal topic.
    pub leaks_internal_topics: bool,
    /// Revalidation already closes a connection of an organization that is at its limit, not only over it.
    pub revalidation_refuses_at_limit: bool,
}

/// One check of a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishCheck {
    /// Publishes per second: error 42910.
    Rate,
    /// Size of the packed data: error 42930.
    Size,
    /// The actor's grants: error 42940.
    Access,
}

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
    leaks_internal_topics: true,
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
    leaks_internal_topics: false,
    revalidation_refuses_at_limit: false,
};

const CLOUD: Rules = Rules { hides_own_messages: true, ..KRAKEN_0_10 };
