//! What goes into and comes out of a [`ClientCore`](super::ClientCore).

use alloc::{boxed::Box, collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use core::time::Duration;

use bytes::Bytes;

use crate::{
    error::{Error, ServerError, TransportError},
    payload::Payload,
    wire::{Filter, QoS},
};

/// Names one accepted command until its [`Outcome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub(crate) u64);

/// Names one subscription for as long as the client keeps it, across reconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub(crate) u64);

/// Names one transport connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransportId(pub(crate) u64);

/// Something that happened to a transport.
#[derive(Debug, Clone, PartialEq)]
pub struct TransportEvent {
    /// The id from [`Action::OpenTransport`]. Events of a transport that the core has left behind are ignored.
    pub id: TransportId,
    /// What happened.
    pub kind: TransportEventKind,
}

/// See [`TransportEvent`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TransportEventKind {
    /// It ended, with the close frame's code and reason if there was one.
    Closed {
        /// The close code.
        code: Option<u16>,
        /// The close reason.
        reason: String,
    },
    /// It could not be opened, or failed later. When writing fails, read what the peer had said before: it may have told
    /// why it went, and its close is worth more than the failure of the write.
    Failed(TransportError),
    /// One whole WebSocket message.
    Message(Bytes),
    /// It is open: the WebSocket handshake is done.
    Opened,
    /// Bytes arrived that are no whole message yet, or a WebSocket ping or pong. Proof of life.
    Progress,
}

/// What the adapter must do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// End the transport. Nothing of it is wanted any more; its later events are ignored.
    CloseTransport {
        /// Which.
        id: TransportId,
        /// The close code to send.
        code: u16,
        /// The close reason to send.
        reason: &'static str,
    },
    /// Ask the token provider, and answer with [`provide_token`](super::ClientCore::provide_token) or
    /// [`token_unavailable`](super::ClientCore::token_unavailable).
    NeedToken,
    /// Open a WebSocket connection and report [`Opened`](TransportEventKind::Opened) or
    /// [`Failed`](TransportEventKind::Failed).
    OpenTransport {
        /// The id to repeat in every event.
        id: TransportId,
    },
}

/// One message for the transport, just appended to the caller's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Where it goes.
    pub transport: TransportId,
    /// Its length: the last `len` bytes of the buffer. 0 is the heartbeat, an empty binary message.
    pub len: usize,
}

/// A subscription to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribe {
    /// `app/room/topic`, wildcards allowed.
    pub topic: String,
    /// How.
    pub options: SubscribeOptions,
    /// Sends a frame even when an identical subscription stands; retained messages then come again.
    pub refresh: bool,
}

/// How to subscribe. What is left out comes from [`Config`](super::Config).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubscribeOptions {
    /// QoS on the broker's inner hop.
    pub qos: Option<QoS>,
    /// What to listen to within the topic; empty means everything.
    pub filters: Vec<Filter>,
    /// Whether one member of a group gets each message.
    pub load_balance: Option<bool>,
    /// The group; without one, the actor's id.
    pub load_balance_group: Option<String>,
}

/// A change to the filters of a subscription that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterChange {
    /// These too.
    Add(Vec<Filter>),
    /// Not these any more.
    Remove(Vec<Filter>),
    /// These and no others; none means everything.
    Set(Vec<Filter>),
}

/// A message to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    /// `app/room/topic`.
    pub topic: Arc<str>,
    /// The data.
    pub payload: Payload,
    /// QoS on the broker's inner hop; without one, [`Config::qos`](super::Config::qos).
    pub qos: Option<QoS>,
    /// Keeps the message for later subscribers.
    pub retain: bool,
    /// `false` spares this connection its own copy.
    pub echo: bool,
    /// Routes to subscribers of exactly this filter; wins over `filters`.
    pub filter: Option<String>,
    /// Routes to subscribers of the same AND group.
    pub filters: Vec<String>,
    /// How long it may wait to be sent, for pacing or for a session; then it ends as [`Outcome::Expired`].
    pub expires_in: Option<Duration>,
    /// Whether the broker is asked to confirm. Without, the outcome is [`Outcome::Sent`] and a refusal can only be
    /// reported as [`Event::ServerError`].
    pub tracked: bool,
}

/// How to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disconnect {
    /// Finish accepted work first, for at most this long.
    Drain(Duration),
    /// Leave at once.
    Now,
}

/// The one end of an accepted command.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// Publish: the broker confirmed it.
    Acked,
    /// Connect: a session stands.
    Connected(Arc<Session>),
    /// Disconnect: the client is idle.
    Disconnected,
    /// Publish: its deadline passed before it could be sent.
    Expired,
    /// Connect: it failed and is not retried.
    Failed(Error),
    /// Filter change: these are in force now.
    FiltersUpdated {
        /// In order; none means everything.
        filters: Vec<Filter>,
    },
    /// Lobby subscribe or fetch: who is present in its rooms.
    Lobby(LobbySnapshot),
    /// It never left this machine.
    NotSent(Error),
    /// Presence fetch: who is present in the room.
    Presence(Arc<[PresenceMember]>),
    /// Presence set or clear: the broker shows it.
    PresenceSet,
    /// The broker refused it.
    Refused(Box<ServerError>),
    /// Publish: it left, and no confirmation was asked for or can be had (protocol version 1).
    Sent,
    /// Subscribe: the broker confirmed it, or an identical subscription stands.
    Subscribed {
        /// The subscription, the same for all that joined it.
        subscription: SubscriptionId,
        /// Whether it shares its messages with a group.
        load_balance: bool,
    },
    /// It may or may not have been done: the answer did not come.
    Unknown(Error),
    /// Unsubscribe, lobby unsubscribe: nothing stands.
    Unsubscribed,
}

impl Outcome {
    /// The failure as an error; `None` for success.
    pub fn error(&self) -> Option<Error> {
        match self {
            Self::Failed(error) | Self::NotSent(error) | Self::Unknown(error) => Some(error.clone()),
            Self::Refused(error) => Some(Error::Server(error.clone())),
            Self::Expired => Some(Error::Rejected(crate::error::Rejection::Expired)),
            Self::Acked
            | Self::Connected(_)
            | Self::Disconnected
            | Self::FiltersUpdated { .. }
            | Self::Lobby(_)
            | Self::Presence(_)
            | Self::PresenceSet
            | Self::Sent
            | Self::Subscribed { .. }
            | Self::Unsubscribed => None,
        }
    }
}

/// Something to tell the application.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// An attempt to connect failed.
    AttemptFailed {
        /// Which attempt in a row, from 1.
        attempt: u32,
        /// Why.
        cause: Error,
        /// When the next one comes; `None` if none does.
        retry_in: Option<Duration>,
    },
    /// A session stands.
    Connected {
        /// Who we are to the broker.
        session: Arc<Session>,
        /// How long there was none, if there was one before: messages may have been missed meanwhile.
        downtime: Option<Duration>,
    },
    /// The session ended.
    Disconnected {
        /// Why.
        cause: Error,
        /// When the next attempt comes; `None` if none does.
        retry_in: Option<Duration>,
    },
    /// A command ended.
    Done {
        /// Which.
        op: OpId,
        /// How.
        outcome: Outcome,
    },
    /// The client will not reconnect by itself any more. Everything is settled; `connect` may start again.
    GaveUp {
        /// Why.
        cause: Error,
    },
    /// A webhook's answer for a topic that was just subscribed.
    Hydration {
        /// The bare topic name, without app and room.
        topic: Box<str>,
        /// What the webhook returned.
        data: Payload,
    },
    /// Messages were dropped because the application stayed behind.
    Lagged {
        /// Whose; `None` for messages of no known subscription.
        subscription: Option<SubscriptionId>,
        /// How many since the last such event.
        count: u64,
    },
    /// Somebody joined, changed or left in a watched lobby's rooms.
    Lobby(LobbyChange),
    /// A lobby is no longer watched without having been asked for.
    LobbyEnded {
        /// Its slug.
        lobby: Arc<str>,
        /// Why.
        cause: Error,
    },
    /// Somebody joined, changed or left in the room where we are present; ourselves included.
    Presence(PresenceChange),
    /// The broker sent something that is not a protocol frame; it was skipped.
    ProtocolError(crate::error::ProtocolError),
    /// Messages missed earlier have all come.
    ReplayEnded {
        /// How many, as the broker says.
        replayed: u64,
    },
    /// Some of the messages missed earlier have come. Several at once are reported as one.
    ReplayProgress {
        /// How many so far.
        received: u64,
        /// How many are announced; several replays at once are counted together.
        announced: u64,
    },
    /// Messages missed earlier will come, with `is_replay` set.
    ReplayStarted {
        /// How many, as the broker says.
        count: u64,
    },
    /// After a reconnect every subscription stands again.
    Restored {
        /// How long it was since everything stood last.
        downtime: Duration,
        /// Whether something was subscribed, so that messages may have been missed meanwhile.
        possible_gap: bool,
    },
    /// The broker reported an error that belongs to no waiting command, for example about an untracked publish.
    ServerError(Box<ServerError>),
    /// The token of the session that stands could not be replaced; the provider is asked again.
    TokenRefreshFailed {
        /// Why.
        cause: Error,
    },
    /// A subscription is gone without having been asked for: no session will follow, the broker refused to restore or to
    /// change it, or it withdrew the actor's access (`unknown_topic`, `not_authorized`).
    ///
    /// Access that is withdrawn is told in the words that refuse an untracked publish. While an untracked publish to the
    /// same topic may still be refused, it counts as refused, as an [`Event::ServerError`], and the subscription stays.
    SubscriptionEnded {
        /// Which.
        subscription: SubscriptionId,
        /// Its topic.
        topic: Arc<str>,
        /// Why.
        cause: Error,
    },
}

/// Who we are to the broker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Session {
    /// The actor's id.
    pub actor_id: String,
    /// The actor's project.
    pub project_id: Option<String>,
    /// For example `user` or `agent`; new types may appear.
    pub actor_type: Option<String>,
    /// The version in force, 1 or 2.
    pub protocol_version: u32,
}

/// What happened to somebody's presence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PresenceKind {
    /// Came.
    Join,
    /// Left; of an actor with several connections, the last one.
    Leave,
    /// Changed its presence.
    Update,
    /// Is being woken: only with persistent presence.
    Waking,
    /// Something that this version does not know, in the broker's word.
    Other(Box<str>),
}

/// See [`Event::Presence`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PresenceChange {
    /// The room's slug: the broker does not say, but it is the one that we set presence in last.
    pub room: Option<Arc<str>>,
    /// What happened.
    pub kind: PresenceKind,
    /// Whose.
    pub actor_id: Box<str>,
    /// The presence; `None` on leaving.
    pub presence: Option<Payload>,
    /// For persistent presence, for example `offline`.
    pub status: Option<Box<str>>,
    /// For persistent presence: what the actor says it can do.
    pub capabilities: Option<Payload>,
    /// For persistent presence: grows with each advertisement.
    pub advertisement_version: Option<Payload>,
}

impl PresenceChange {
    pub(super) fn new(kind: PresenceKind, actor_id: &str) -> Self {
        Self {
            room: None,
            kind,
            actor_id: actor_id.into(),
            presence: None,
            status: None,
            capabilities: None,
            advertisement_version: None,
        }
    }
}

/// See [`Event::Lobby`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LobbyChange {
    /// The lobby's slug; `None` when several are watched and the broker's id does not tell which.
    pub lobby: Option<Arc<str>>,
    /// The lobby as the broker names it.
    pub lobby_id: Option<Box<str>>,
    /// The room's slug, or its id when no grant of ours names the slug.
    pub room: Option<Box<str>>,
    /// What happened.
    pub kind: PresenceKind,
    /// Whose.
    pub actor_id: Box<str>,
    /// The presence; an empty map on leaving.
    pub data: Payload,
}

/// Somebody who is present.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PresenceMember {
    /// Who.
    pub actor_id: Box<str>,
    /// The presence.
    pub presence: Payload,
    /// Since when, in Unix seconds, where the broker said so.
    pub joined_at: Option<u64>,
    /// For example `online`, or `offline` for persistent presence.
    pub status: Option<Box<str>>,
}

/// Who is present in a lobby's rooms, by room slug.
pub type LobbySnapshot = BTreeMap<String, Vec<PresenceMember>>;

impl PresenceKind {
    pub(super) fn from_wire(event: &str) -> Self {
        match event {
            "join" => Self::Join,
            "leave" => Self::Leave,
            "update" => Self::Update,
            "waking" => Self::Waking,
            other => Self::Other(other.chars().take(64).collect::<String>().into()),
        }
    }
}

/// Where a client stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// Idle: before `connect`, after `disconnect`, after giving up.
    #[default]
    Disconnected,
    /// Opening the first connection.
    Connecting,
    /// A session stands, or accepted work is being finished before leaving.
    Connected,
    /// The session was lost; waiting for the next attempt or making it.
    Reconnecting,
}

/// Counters since the core was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Sessions that stood.
    pub sessions: u64,
    /// Messages received for the application.
    pub messages_received: u64,
    /// Messages dropped because the application stayed behind.
    pub messages_dropped: u64,
    /// Messages that came a second time on one subscription and were suppressed.
    pub messages_duplicate: u64,
    /// Presence that was reported and not remembered, because too much is known already.
    pub presence_dropped: u64,
    /// Publishes that the broker refused for coming too soon and that were tried again.
    pub publishes_retried: u64,
    /// WebSocket messages handed to the transport.
    pub frames_sent: u64,
    /// WebSocket messages received on the current transport.
    pub frames_received: u64,
    /// Messages that were no protocol frame.
    pub frames_undecodable: u64,
    /// Frames that answered nothing we asked, or that this version does not use.
    pub frames_unexpected: u64,
    /// Events of transports left behind.
    pub stale_transport_events: u64,
    /// Reports to the application that were dropped because it did not poll.
    pub events_dropped: u64,
    /// Message acks that were dropped because no session could take them.
    pub acks_dropped: u64,
}

impl Subscribe {
    /// A subscription to `topic` with every option at its default.
    pub fn new(topic: impl Into<String>) -> Self {
        Self { topic: topic.into(), options: SubscribeOptions::default(), refresh: false }
    }
}

impl Publish {
    /// A tracked publish with every option at its default.
    pub fn new(topic: impl Into<Arc<str>>, payload: Payload) -> Self {
        Self {
            topic: topic.into(),
            payload,
            qos: None,
            retain: false,
            echo: true,
            filter: None,
            filters: Vec::new(),
            expires_in: None,
            tracked: true,
        }
    }
}
