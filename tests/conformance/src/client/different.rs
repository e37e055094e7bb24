//! What our client does otherwise than the recorded ones.

use crate::leniency::Rule;

/// A difference that is meant. `docs/broker-differences.md` lists them for readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Different {
    /// The fields of `auth` that are about the client and not the actor.
    AuthFields,
    /// Messages that come a second time.
    Duplicates,
    /// What is not fit to be shown in an error.
    ErrorText,
    /// The filter `#`.
    FilterHash,
    /// When heartbeats leave.
    Heartbeats,
    /// The presence of others that a list shows.
    ListedPresence,
    /// A lobby that is watched already.
    LobbyJoined,
    /// Subscribing again to a lobby.
    LobbyKeepAlive,
    /// Asking again after an empty snapshot.
    LobbyRefetch,
    /// Asking the room after an ambiguous leave.
    PresenceRefetch,
    /// A publish that came too soon.
    PublishRetry,
}

impl Different {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::AuthFields,
        Self::Duplicates,
        Self::ErrorText,
        Self::FilterHash,
        Self::Heartbeats,
        Self::ListedPresence,
        Self::LobbyJoined,
        Self::LobbyKeepAlive,
        Self::LobbyRefetch,
        Self::PresenceRefetch,
        Self::PublishRetry,
    ];

    /// The short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::AuthFields => "auth-fields",
            Self::Duplicates => "duplicates",
            Self::FilterHash => "filter-hash",
            Self::Heartbeats => "heartbeats",
            Self::ErrorText => "error-text",
            Self::ListedPresence => "listed-presence",
            Self::LobbyJoined => "lobby-joined",
            Self::LobbyKeepAlive => "lobby-keep-alive",
            Self::LobbyRefetch => "lobby-refetch",
            Self::PresenceRefetch => "presence-refetch",
            Self::PublishRetry => "publish-retry",
        }
    }

    /// What is different, and why.
    pub fn rule(self) -> Rule {
        let (what, why) = match self {
            Self::AuthFields => (
                "auth-fields: protocolVersion is 2, reconnect is not asked for, loadBalance is not sent",
                "there is one version to speak; subscriptions are the client's to restore; brokers ignore the rest",
            ),
            Self::Duplicates => (
                "duplicates: a message id that came since the last subscribe to its topic is not delivered again",
                "replays repeat what was delivered",
            ),
            Self::FilterHash => {
                ("filter-hash: the filter \"#\" is none", "Kraken 0.4 writes it where there is none")
            }
            Self::Heartbeats => (
                "heartbeats: ours leave every 30 s, whenever theirs did, and are echoed at once",
                "they carry nothing",
            ),
            Self::ErrorText => (
                "error-text: in errors control characters are shown as dashes, and what should be text and is not is left \
                 out",
                "Kraken 0.4 has one where a dash was meant; it echoes numbers only to frames that are not ours",
            ),
            Self::ListedPresence => (
                "listed-presence: an answered presence fetch is also reported as the joins, updates and leaves that it \
                 shows of the room where the client is",
                "brokers send no list on joining, so this is how an application learns who was there",
            ),
            Self::LobbyJoined => (
                "lobby-joined: watching a lobby that is watched already needs no frame",
                "there is one subscription per lobby",
            ),
            Self::LobbyKeepAlive => (
                "lobby-keep-alive: every lobby is subscribed again after 240 s",
                "Kraken stops sending events after 300 s",
            ),
            Self::LobbyRefetch => (
                "lobby-refetch: an empty first snapshot is asked for once more before it is believed",
                "Kraken's first snapshot is usually empty although somebody is present",
            ),
            Self::PresenceRefetch => (
                "presence-refetch: a leave that may not be the actor's last is reported after asking the room, and only \
                 if the actor is gone",
                "each connection of an actor has a leave of its own",
            ),
            Self::PublishRetry => (
                "publish-retry: a publish that is refused with 42910 is tried again a second later, and later ones wait \
                 behind it",
                "the broker will take it then; pacing, which avoids it, is off here so that frames leave when theirs did",
            ),
        };
        Rule { mode: "client", what, why }
    }
}
