//! Errors, by whose fault it is.

use alloc::{boxed::Box, string::String, sync::Arc};
use core::{fmt, time::Duration};

use crate::{
    payload::DecodeError,
    wire::{ErrorFrame, MAX_DATA_BYTES, MAX_FILTERS, WireError},
};

/// Why something did not happen. The variants say whose fault it is and so who can mend it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The sender's: what it published is not of the type that was asked for.
    Decode(DecodeError),
    /// The caller's: the call can never work like this.
    Misuse(Misuse),
    /// The broker's: it broke the protocol or fell silent.
    Protocol(ProtocolError),
    /// Nobody's: the call is fine and cannot be done now.
    Rejected(Rejection),
    /// The broker refused, in its own words.
    Server(Box<ServerError>),
    /// The network's.
    Transport(TransportError),
}

/// What the caller did wrong.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Misuse {
    /// The packed payload is over the broker's limit.
    DataTooLarge {
        /// Its packed size in bytes.
        len: usize,
    },
    /// The payload cannot be written as MessagePack.
    Encode(Box<str>),
    /// The payload holds a MessagePack extension, for example a timestamp: brokers drop such frames silently.
    Extension,
    /// The client id is empty or holds something else than `A–Z a–z 0–9 _ -`, or has more than 64 bytes.
    InvalidClientId(Box<str>),
    /// A filter value is empty, holds one of `/ # + |`, or an AND group has fewer than two.
    InvalidFilter(Box<str>),
    /// An option of the client cannot be used.
    InvalidOption {
        /// The name of the method that sets it.
        option: &'static str,
        /// What is wrong with it.
        reason: Box<str>,
    },
    /// The payload's bytes are not exactly one MessagePack value.
    InvalidPayload(WireError),
    /// The topic is not `app/room/topic`.
    InvalidTopic {
        /// The topic as given.
        topic: Box<str>,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The address to connect to cannot be used.
    InvalidUrl {
        /// The address as given, without credentials.
        url: Box<str>,
        /// What is wrong with it.
        reason: Box<str>,
    },
    /// Removing the last filter of this topic's subscription would silently open it for everything.
    LastFilter(Box<str>),
    /// There is no subscription to this topic.
    NotSubscribed(Box<str>),
    /// More filters than a broker accepts.
    TooManyFilters(usize),
    /// This topic's subscription has no filters: it receives everything, and adding one would silently narrow it.
    Unfiltered(Box<str>),
    /// An empty token.
    NoToken,
}

/// Why a fine call cannot be done now.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Rejection {
    /// Nobody waits for the result any more.
    Abandoned,
    /// The client is leaving.
    Closing,
    /// The application disconnected.
    Disconnected,
    /// Its deadline passed before it could be sent.
    Expired,
    /// A bounded queue is full; wait for outcomes.
    Full {
        /// Operations without an outcome; of a full offline queue, the publishes that wait.
        pending: usize,
        /// Bytes held for them: waiting to be sent, or of publishes that were sent and not answered.
        bytes: usize,
    },
    /// There is no session.
    NotConnected,
    /// A later call on the same topic took its place.
    Superseded,
    /// The token provider had none.
    TokenUnavailable(Box<str>),
}

/// How the broker failed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// No echo to a heartbeat in time: the connection is dead.
    HeartbeatLost,
    /// No answer in time.
    Timeout {
        /// What was waiting.
        op: Op,
        /// How long it waited.
        after: Duration,
    },
    /// The broker answered a later request on the same topic, so this one will not be answered any more.
    Unanswered,
    /// A message that is not a protocol frame.
    Undecodable(WireError),
}

/// A broker's refusal (protocol-facts §5).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ServerError {
    /// The number, for example 42940; several errors have none.
    pub code: Option<u32>,
    /// The machine name, for example `unknown_topic`.
    pub error: String,
    /// The topic that it is about.
    pub topic: Option<String>,
    /// The broker's advice.
    pub hint: Option<String>,
    /// The reference of the publish that it is about.
    pub msg_ref: Option<String>,
    /// The limit that was passed, in bytes.
    pub max_size_bytes: Option<u64>,
    /// More about the fault.
    pub detail: Option<String>,
    /// The lobby that it is about.
    pub lobby_id: Option<String>,
    /// What was asked, where that is known.
    pub op: Option<Op>,
}

/// A fault of the network, as an adapter saw it.
///
/// Two are equal when their kinds and words are; the cause itself cannot be compared.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TransportError {
    /// What kind of fault.
    pub kind: TransportErrorKind,
    /// The underlying fault in words.
    pub detail: Box<str>,
    /// The underlying fault itself, for [`source`](core::error::Error::source).
    cause: Option<Arc<dyn core::error::Error + Send + Sync>>,
}

/// Kinds of [`TransportError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportErrorKind {
    /// The connection ended, with this close code if there was a close frame.
    Closed(Option<u16>),
    /// The peer's address does not accept connections.
    Connect,
    /// Reading or writing failed.
    Io,
    /// The proxy did not open a way to the broker; its HTTP status if it answered with HTTP.
    Proxy(Option<u16>),
    /// The host name has no address.
    Resolve,
    /// It took too long: opening the connection, or a request over HTTP.
    Timeout,
    /// The TLS handshake failed, for example because a certificate does not verify.
    Tls,
    /// The HTTP server did not switch to WebSocket; its status if it answered with HTTP.
    Upgrade(Option<u16>),
    /// The peer broke the WebSocket protocol or sent a message over the inbound limit.
    WebSocket,
}

/// The operations that a broker answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Opening the connection and authenticating.
    Connect,
    /// Leaving.
    Disconnect,
    /// Asking who is present in a lobby's rooms.
    FetchLobby,
    /// Asking who is present in a room.
    FetchPresence,
    /// Watching a lobby.
    LobbySubscribe,
    /// No longer watching a lobby.
    LobbyUnsubscribe,
    /// Publishing.
    Publish,
    /// Changing filters.
    SetFilters,
    /// Replacing the token of a session.
    Reauth,
    /// Setting presence.
    SetPresence,
    /// Subscribing.
    Subscribe,
    /// Unsubscribing.
    Unsubscribe,
}

/// A command that was refused, with what it carried.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused<T> {
    /// Why.
    pub error: Error,
    /// What the caller gave, untouched.
    pub value: T,
}

impl ServerError {
    /// The error of an operation that was refused by name only.
    pub fn named(error: impl Into<String>, op: Op) -> Self {
        Self { error: error.into(), op: Some(op), ..Self::default() }
    }

    pub(crate) fn from_frame(frame: &ErrorFrame<'_>, op: Option<Op>) -> Self {
        let owned = |text: Option<crate::wire::Text<'_>>| text.and_then(|text| text.as_str()).map(clean);
        Self {
            code: frame.code,
            error: clean(frame.error),
            topic: owned(frame.topic),
            hint: frame.hint.map(clean),
            msg_ref: owned(frame.msg_ref),
            max_size_bytes: frame.max_size_bytes,
            detail: owned(frame.detail),
            lobby_id: owned(frame.lobby_id),
            op,
        }
    }
}

/// Longest text of a broker that is kept, in characters.
const MAX_TEXT: usize = 512;

/// A broker's text, fit for terminals and for keeping: Kraken 0.4 has a control byte where a dash was meant, and nothing
/// limits its length.
pub(crate) fn clean(text: &str) -> String {
    text.chars().take(MAX_TEXT).map(|c| if c.is_control() { '-' } else { c }).collect()
}

impl TransportError {
    /// A fault of `kind` with the cause in words.
    pub fn new(kind: TransportErrorKind, detail: impl Into<Box<str>>) -> Self {
        Self { kind, detail: detail.into(), cause: None }
    }

    /// The same with the cause itself, which [`source`](core::error::Error::source) then gives.
    #[must_use]
    pub fn with_cause(self, cause: impl core::error::Error + Send + Sync + 'static) -> Self {
        Self { cause: Some(Arc::new(cause)), ..self }
    }
}

impl PartialEq for TransportError {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.detail) == (other.kind, &other.detail)
    }
}

impl Op {
    /// The name for people, as in `subscribe`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Disconnect => "disconnect",
            Self::FetchLobby => "fetch lobby",
            Self::FetchPresence => "fetch presence",
            Self::LobbySubscribe => "subscribe to lobby",
            Self::LobbyUnsubscribe => "unsubscribe from lobby",
            Self::Publish => "publish",
            Self::Reauth => "reauthenticate",
            Self::SetFilters => "set filters",
            Self::SetPresence => "set presence",
            Self::Subscribe => "subscribe",
            Self::Unsubscribe => "unsubscribe",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => error.fmt(f),
            Self::Misuse(error) => error.fmt(f),
            Self::Protocol(error) => error.fmt(f),
            Self::Rejected(error) => error.fmt(f),
            Self::Server(error) => error.fmt(f),
            Self::Transport(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataTooLarge { len } => {
                write!(f, "the payload has {len} bytes packed, the broker takes {MAX_DATA_BYTES}; split it")
            }
            Self::Encode(reason) => write!(f, "the payload cannot be written as MessagePack: {reason}"),
            Self::Extension => f.write_str(
                "the payload holds a MessagePack extension value, which brokers drop silently; send text or a number",
            ),
            Self::InvalidClientId(id) => {
                write!(f, "client id {id:?} is not 1 to 64 of the characters A-Z a-z 0-9 _ -")
            }
            Self::InvalidFilter(value) => write!(
                f,
                "filter {value:?} is not valid: not empty, none of / # + |, and at least two values in a group"
            ),
            Self::InvalidOption { option, reason } => write!(f, "option {option}: {reason}"),
            Self::InvalidPayload(error) => write!(f, "the payload is not one MessagePack value: {error}"),
            Self::InvalidTopic { topic, reason } => write!(f, "topic {topic:?}: {reason}"),
            Self::InvalidUrl { url, reason } => write!(f, "address {url:?}: {reason}"),
            Self::LastFilter(topic) => write!(
                f,
                "no filter would be left on {topic:?}, which would then receive everything; set an empty list if you mean that"
            ),
            Self::NotSubscribed(topic) => write!(f, "not subscribed to {topic:?}; subscribe first"),
            Self::Unfiltered(topic) => write!(
                f,
                "{topic:?} has no filters and receives everything; set filters if you mean to narrow it"
            ),
            Self::TooManyFilters(count) => write!(f, "{count} filters, the broker takes {MAX_FILTERS} per topic"),
            Self::NoToken => f.write_str("the token is empty"),
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abandoned => f.write_str("the caller stopped waiting"),
            Self::Closing => f.write_str("the client is disconnecting"),
            Self::Disconnected => f.write_str("the client was disconnected by the application"),
            Self::Expired => f.write_str("the deadline passed before it could be sent"),
            Self::Full { pending, bytes } => write!(
                f,
                "too much is waiting ({pending} operations, {bytes} bytes); wait for outcomes before sending more"
            ),
            Self::NotConnected => f.write_str("not connected"),
            Self::TokenUnavailable(reason) => write!(f, "no token could be had: {reason}"),
            Self::Superseded => f.write_str("a later call on the same topic took its place"),
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeartbeatLost => f.write_str("the broker stopped answering heartbeats"),
            Self::Timeout { op, after } => {
                write!(f, "the broker did not answer {op} within {:.1} s", after.as_secs_f32())
            }
            Self::Unanswered => f.write_str("the broker answered a later request on this topic instead"),
            Self::Undecodable(error) => write!(f, "the broker sent something undecodable: {error}"),
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(op) = self.op {
            write!(f, "{op} refused: ")?;
        }
        f.write_str(&self.error)?;
        if let Some(code) = self.code {
            write!(f, " ({code})")?;
        }
        if let Some(topic) = &self.topic {
            write!(f, " on {topic}")?;
        }
        if let Some(limit) = self.max_size_bytes {
            write!(f, ", at most {limit} bytes")?;
        }
        for more in [&self.detail, &self.hint].into_iter().flatten() {
            write!(f, ": {more}")?;
        }
        Ok(())
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TransportErrorKind::Closed(Some(code)) => write!(f, "connection closed by the peer ({code})")?,
            TransportErrorKind::Closed(None) => f.write_str("connection ended without a goodbye")?,
            TransportErrorKind::Connect => f.write_str("cannot connect")?,
            TransportErrorKind::Io => f.write_str("the connection failed")?,
            TransportErrorKind::Proxy(Some(status)) => {
                write!(f, "the proxy does not connect to the broker, HTTP {status}")?;
            }
            TransportErrorKind::Proxy(None) => f.write_str("the proxy does not connect to the broker")?,
            TransportErrorKind::Resolve => f.write_str("cannot resolve the host name")?,
            TransportErrorKind::Timeout => f.write_str("it took too long")?,
            TransportErrorKind::Tls => f.write_str("TLS failed")?,
            TransportErrorKind::Upgrade(Some(status)) => write!(f, "no WebSocket there, HTTP {status}")?,
            TransportErrorKind::Upgrade(None) => f.write_str("no WebSocket there")?,
            TransportErrorKind::WebSocket => f.write_str("the peer broke the WebSocket protocol")?,
        }
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        // Each kind speaks for itself in `Display`, so its own cause comes next.
        match self {
            Self::Misuse(error) => error.source(),
            Self::Protocol(error) => error.source(),
            Self::Transport(error) => error.source(),
            Self::Decode(_) | Self::Rejected(_) | Self::Server(_) => None,
        }
    }
}

impl core::error::Error for ProtocolError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Undecodable(error) => Some(error),
            _ => None,
        }
    }
}

impl core::error::Error for Misuse {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::InvalidPayload(error) => Some(error),
            _ => None,
        }
    }
}

impl core::error::Error for Rejection {}
impl core::error::Error for ServerError {}
impl core::error::Error for TransportError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &self.cause {
            Some(cause) => Some(&**cause),
            None => None,
        }
    }
}
impl<T: fmt::Debug> core::error::Error for Refused<T> {}

macro_rules! into_error {
    ($($kind:ident => $variant:ident),*) => {$(
        impl From<$kind> for Error {
            fn from(error: $kind) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}

into_error!(
    DecodeError => Decode,
    Misuse => Misuse, ProtocolError => Protocol, Rejection => Rejected, TransportError => Transport);

impl From<ServerError> for Error {
    fn from(error: ServerError) -> Self {
        Self::Server(Box::new(error))
    }
}

impl<T> From<Refused<T>> for Error {
    fn from(refused: Refused<T>) -> Self {
        refused.error
    }
}
