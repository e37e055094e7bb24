//! What can go wrong in a world.

use std::{fmt, time::Duration};

use crate::{ClientId, Cut, Way};

/// Something that goes wrong. What has a span ends by itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The client's link breaks in the middle of what is under way.
    Cut {
        /// Whose link.
        client: ClientId,
        /// Who learns.
        cut: Cut,
        /// Of the bytes under way so many in 1,000 still arrive: at the broker, at the client.
        keep: [u16; 2],
    },
    /// Nothing gets through on the client's link, and nobody learns: a half-open connection.
    Silence {
        /// Whose link.
        client: ClientId,
        /// In this direction only.
        way: Option<Way>,
        /// For how long; what was sent meanwhile arrives afterwards. `None`: for ever.
        span: Option<Duration>,
    },
    /// New connections of the client are refused.
    Refuse {
        /// Whose.
        client: ClientId,
        /// For how long.
        span: Duration,
    },
    /// New connections of the client get no answer at all.
    Ignore {
        /// Whose.
        client: ClientId,
        /// For how long.
        span: Duration,
    },
    /// The broker stops: connections break, new ones are refused.
    Restart {
        /// For how long.
        span: Duration,
        /// Whether it loses its memory.
        forget: bool,
    },
    /// The application takes nothing from its client and commands nothing.
    Stop {
        /// Whose.
        client: ClientId,
        /// For how long.
        span: Duration,
    },
    /// The application is slow to take messages.
    Slow {
        /// Whose.
        client: ClientId,
        /// Time between two messages.
        gap: Duration,
        /// For how long.
        span: Duration,
    },
    /// The whole process of the client stands still: no timers, no reading.
    Freeze {
        /// Whose.
        client: ClientId,
        /// For how long.
        span: Duration,
    },
    /// The client's clock jumps.
    Clock {
        /// Whose.
        client: ClientId,
        /// By so many microseconds, ahead or back.
        by: i64,
    },
    /// The token of the client's session expires.
    ExpireToken {
        /// Whose.
        client: ClientId,
    },
    /// The client's token is revoked, its session closed with 4001. Then the token is good again.
    Revoke {
        /// Whose.
        client: ClientId,
        /// For how long.
        span: Duration,
    },
}

impl Fault {
    /// Whom it concerns; `None`: everybody.
    pub fn client(&self) -> Option<ClientId> {
        match *self {
            Self::Cut { client, .. }
            | Self::Silence { client, .. }
            | Self::Refuse { client, .. }
            | Self::Ignore { client, .. }
            | Self::Stop { client, .. }
            | Self::Slow { client, .. }
            | Self::Freeze { client, .. }
            | Self::Clock { client, .. }
            | Self::ExpireToken { client }
            | Self::Revoke { client, .. } => Some(client),
            Self::Restart { .. } => None,
        }
    }

    /// Its kind, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Cut { .. } => "cut",
            Self::Silence { .. } => "silence",
            Self::Refuse { .. } => "refuse",
            Self::Ignore { .. } => "ignore",
            Self::Restart { forget: false, .. } => "restart",
            Self::Restart { forget: true, .. } => "restart-and-forget",
            Self::Stop { .. } => "stop",
            Self::Slow { .. } => "slow",
            Self::Freeze { .. } => "freeze",
            Self::Clock { .. } => "clock",
            Self::ExpireToken { .. } => "expire-token",
            Self::Revoke { .. } => "revoke",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        if let Some(client) = self.client() {
            write!(f, " client {client}")?;
        }
        match self {
            Self::Cut { cut, keep, .. } => {
                write!(f, ", {cut:?}, {} and {} of 1000 bytes arrive", keep[0], keep[1])
            }
            Self::Silence { way, span, .. } => {
                match way {
                    Some(way) => write!(f, ", {way:?}")?,
                    None => f.write_str(", both ways")?,
                }
                match span {
                    Some(span) => write!(f, ", for {span:?}"),
                    None => f.write_str(", for ever"),
                }
            }
            Self::Slow { gap, span, .. } => write!(f, ", one message in {gap:?}, for {span:?}"),
            Self::Refuse { span, .. }
            | Self::Ignore { span, .. }
            | Self::Restart { span, .. }
            | Self::Stop { span, .. }
            | Self::Freeze { span, .. }
            | Self::Revoke { span, .. } => write!(f, ", for {span:?}"),
            Self::Clock { by, .. } => write!(f, ", by {by} µs"),
            Self::ExpireToken { .. } => Ok(()),
        }
    }
}
