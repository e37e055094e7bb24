//! What handlers of connection events are told.

use std::{fmt, sync::Arc, time::Duration};

use nolag_core::{DecodeError, Error, Op, Payload, ProtocolError, ServerError};

/// The session was lost, or ended as asked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Disconnected {
    /// Why. [`Rejection::Disconnected`](crate::Rejection::Disconnected) when the application asked for it, and
    /// [`TransportErrorKind::Io`](crate::TransportErrorKind::Io) when the runtime has shut down.
    pub cause: Error,
    /// When the next attempt to connect comes; `None` if none does.
    pub retry_in: Option<Duration>,
}

/// Shows the cause.
impl fmt::Display for Disconnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

/// A session stands again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reconnected {
    /// How long there was none. Messages of that time may have been missed.
    pub downtime: Duration,
}

/// Everything stands again after a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// How long something was missing: without a session, and of connections that were lost again at once until now.
    pub downtime: Duration,
    /// Whether something was subscribed, so that messages may have been missed meanwhile.
    pub possible_gap: bool,
}

/// The state that an app's webhook gives for a topic that was just subscribed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Hydration {
    /// The name of the topic within its room: brokers say no more.
    pub topic: Box<str>,
    /// The webhook's answer.
    pub data: Payload,
}

/// Messages that a load-balanced group missed come after all.
///
/// Brokers do not say which subscription it is about, and several replays can run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayEvent {
    /// One has ended, and its messages were handed out to streams and handlers.
    Ended {
        /// How many messages, as the broker says.
        replayed: u64,
    },
    /// Some of the messages have come. Several at once are told as one.
    Progress {
        /// How many so far.
        received: u64,
        /// How many are announced, by all replays together.
        announced: u64,
    },
    /// One begins.
    Started {
        /// How many messages will come, as the broker says.
        count: u64,
    },
}

/// Something that went wrong and that no call reports, for
/// [`Client::on_error`](crate::Client::on_error).
#[doc(alias("NoLagServerError", "NoLagEncodeError"))]
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ErrorEvent {
    /// An attempt to connect failed, and another will follow.
    AttemptFailed {
        /// Which attempt in a row, from 1.
        attempt: u32,
        /// Why.
        cause: Error,
        /// When the next one comes.
        retry_in: Duration,
    },
    /// The token of the session that stands could not be replaced ahead of its end. The provider is asked again.
    TokenRefresh {
        /// Why.
        cause: Error,
    },
    /// The payload of a message is not of the type that a handler of a typed topic expects.
    Decode {
        /// The message's topic.
        topic: Arc<str>,
        /// What does not fit.
        error: DecodeError,
    },
    /// A payload could not be encoded. The call that was given the payload reports it too.
    Encode {
        /// What it was for.
        op: Op,
        /// Where it was to go: a topic, or a room's slug.
        topic: Arc<str>,
        /// Why not.
        error: Error,
    },
    /// The client will not connect by itself any more; [`connect`](crate::Client::connect) may start again.
    ///
    /// Not told when there was no session yet and a call of `connect` returns the failure itself.
    GaveUp {
        /// Why.
        cause: Error,
    },
    /// A handler or callback panicked. It stays registered.
    HandlerPanicked {
        /// The panic's text, if it had one.
        message: String,
    },
    /// Messages were dropped because the application stayed behind for too long. Told at most once a second for each
    /// topic, and at the end for what is left.
    Lagged {
        /// Their topic; `None` for messages of no known subscription.
        topic: Option<Arc<str>>,
        /// How many since the last report.
        count: u64,
    },
    /// A lobby is no longer watched without having been asked for, because the broker refused to restore it.
    LobbyEnded {
        /// Its slug.
        lobby: Arc<str>,
        /// Why.
        cause: Error,
    },
    /// An operation that nobody waits for failed, for example one started with
    /// [`Emit::send`](crate::Emit::send).
    Operation {
        /// What it was.
        op: Op,
        /// Its topic; of presence the room's slug, of lobbies the lobby's, and empty where there is none.
        topic: Arc<str>,
        /// Why it failed.
        error: Error,
    },
    /// The broker sent something that is not a protocol frame; it was skipped. Told at most once a second, and at the
    /// end for what is left.
    Protocol {
        /// What was wrong with the last one.
        error: ProtocolError,
        /// How many since the last report.
        count: u64,
    },
    /// The broker reported an error that belongs to no operation, for example about a message sent
    /// [`untracked`](crate::Emit::untracked).
    Server(Box<ServerError>),
    /// A subscription is gone without having been asked for: the broker refused to restore it, or withdrew the actor's
    /// access. Its streams end.
    SubscriptionEnded {
        /// Its topic.
        topic: Arc<str>,
        /// Why.
        cause: Error,
    },
}

impl ErrorEvent {
    /// The broker's own words, if it refused something.
    pub fn server_error(&self) -> Option<&ServerError> {
        match self {
            Self::Server(error) => Some(error),
            _ => match self.error()? {
                Error::Server(error) => Some(error),
                _ => None,
            },
        }
    }

    /// What was being done, where that is known.
    pub fn op(&self) -> Option<Op> {
        match self {
            Self::AttemptFailed { .. } | Self::GaveUp { .. } => Some(Op::Connect),
            Self::TokenRefresh { .. } => Some(Op::Reauth),
            Self::Encode { op, .. } | Self::Operation { op, .. } => Some(*op),
            Self::LobbyEnded { .. } => Some(Op::LobbySubscribe),
            Self::Server(error) => error.op,
            Self::SubscriptionEnded { .. } => Some(Op::Subscribe),
            Self::Decode { .. }
            | Self::HandlerPanicked { .. }
            | Self::Lagged { .. }
            | Self::Protocol { .. } => None,
        }
    }

    /// The topic that it is about, where that is known.
    pub fn topic(&self) -> Option<&str> {
        match self {
            Self::Decode { topic, .. }
            | Self::Encode { topic, .. }
            | Self::Operation { topic, .. }
            | Self::SubscriptionEnded { topic, .. } => Some(topic),
            Self::Lagged { topic, .. } => topic.as_deref(),
            Self::Server(error) => error.topic.as_deref(),
            Self::AttemptFailed { .. }
            | Self::TokenRefresh { .. }
            | Self::GaveUp { .. }
            | Self::HandlerPanicked { .. }
            | Self::LobbyEnded { .. }
            | Self::Protocol { .. } => None,
        }
    }

    fn error(&self) -> Option<&Error> {
        match self {
            Self::AttemptFailed { cause, .. }
            | Self::TokenRefresh { cause }
            | Self::GaveUp { cause }
            | Self::LobbyEnded { cause, .. }
            | Self::SubscriptionEnded { cause, .. } => Some(cause),
            Self::Encode { error, .. } | Self::Operation { error, .. } => Some(error),
            Self::Decode { .. }
            | Self::HandlerPanicked { .. }
            | Self::Lagged { .. }
            | Self::Protocol { .. }
            | Self::Server(_) => None,
        }
    }
}

impl fmt::Display for ErrorEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TokenRefresh { cause } => write!(f, "the token could not be replaced: {cause}"),
            Self::AttemptFailed { attempt, cause, retry_in } => {
                let delay = retry_in.as_secs_f32();
                write!(f, "attempt {attempt} to connect failed: {cause}; next in {delay:.1} s")
            }
            Self::Decode { topic, error } => write!(f, "message on {topic}: {error}"),
            Self::Encode { op, topic, error } => failed(f, *op, topic, error),
            Self::GaveUp { cause } => write!(f, "will not connect again by itself: {cause}"),
            Self::HandlerPanicked { message } => write!(f, "a handler panicked: {message}"),
            Self::Lagged { topic: Some(topic), count } => {
                write!(f, "{count} messages on {topic} dropped: the application is too slow")
            }
            Self::Lagged { topic: None, count } => {
                write!(f, "{count} messages dropped: the application is too slow")
            }
            Self::LobbyEnded { lobby, cause } => write!(f, "lobby {lobby} is no longer watched: {cause}"),
            // The broker's refusal names the operation and the topic itself.
            Self::Operation { error: error @ Error::Server(_), .. } => error.fmt(f),
            Self::Operation { op, topic, error } => failed(f, *op, topic, error),
            Self::Protocol { error, count: 1 } => error.fmt(f),
            Self::Protocol { error, count } => write!(f, "{error} ({count} times)"),
            Self::Server(error) => error.fmt(f),
            Self::SubscriptionEnded { topic, cause } => write!(f, "subscription to {topic} ended: {cause}"),
        }
    }
}

fn failed(f: &mut fmt::Formatter<'_>, op: Op, topic: &str, error: &Error) -> fmt::Result {
    match topic {
        "" => write!(f, "{op}: {error}"),
        topic => write!(f, "{op} on {topic}: {error}"),
    }
}

impl std::error::Error for ErrorEvent {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Decode { error, .. } => Some(error),
            Self::Protocol { error, .. } => Some(error),
            Self::Server(error) => Some(&**error),
            _ => self.error().map(|error| error as _),
        }
    }
}
