//! The wire format: one MessagePack map per binary WebSocket message.
//!
//! [`ServerFrame`] and [`ClientFrame`] are read with `decode` and written with `encode`, both in both directions, so
//! that clients, brokers, recorders and tests share one codec. Decoding borrows from the message; payloads are
//! skipped at any nesting depth without recursion and never copied. Encoding appends to the caller's buffer.
//!
//! A message of length 0 is the heartbeat, in both directions.
//!
//! ```
//! use bytes::BytesMut;
//! use nolag_core::wire::{ClientFrame, ServerFrame, Text};
//!
//! let mut out = BytesMut::new();
//! ClientFrame::Unsubscribe { topic: "demo/general/messages" }.encode(&mut out);
//! assert_eq!(ClientFrame::decode(&out), Ok(ClientFrame::Unsubscribe { topic: "demo/general/messages" }));
//!
//! out.clear();
//! ServerFrame::Unsubscribed { topic: Text::Str("demo/general/messages") }.encode(&mut out);
//! assert!(matches!(ServerFrame::decode(&out), Ok(ServerFrame::Unsubscribed { .. })));
//! ```

mod client_frame;
mod dump;
mod filter;
mod map;
mod server_frame;
mod value;
pub mod write;

use core::{fmt, ops::Range};

pub use client_frame::{Auth, ClientFrame, FrameError, Publish, Subscribe};
pub use dump::Dump;
pub use filter::{Filter, MAX_FILTERS, canonical_group, is_valid_filter};
pub use map::{FrameMap, Key};
pub use server_frame::{
    AuthReply, ErrorFrame, LobbyEvent, LobbyMembers, Message, PresenceEntry, PresenceEvent, RestoredFrom,
    RestoredSubscription, ServerFrame,
};
pub use value::{Entries, Items, Kind, RawValue};

/// Where `part` stands in `frame`; `None` when it is no part of it.
pub(crate) fn place_in(frame: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(frame.as_ptr().addr())?;
    let end = start.checked_add(part.len())?;
    (end <= frame.len()).then_some(start..end)
}

/// The newest protocol version that this crate speaks.
pub const PROTOCOL_VERSION: u32 = 2;

/// Most bytes of packed `data` that a broker accepts in one publish (protocol-facts §6).
pub const MAX_DATA_BYTES: usize = 921_600;

/// Most bytes of one WebSocket message that a broker accepts; more closes the connection with 1009.
pub const MAX_FRAME_BYTES: usize = 1_048_576;

/// MQTT quality of service on the broker's inner hop. It promises nothing on the WebSocket leg.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "std",
    derive(serde::Serialize, serde::Deserialize),
    serde(into = "u8", try_from = "u8")
)]
pub enum QoS {
    /// 0: fire and forget.
    AtMostOnce,
    /// 1: acknowledged. What brokers assume when a frame names none.
    #[default]
    AtLeastOnce,
    /// 2: deduplicated.
    ExactlyOnce,
}

impl QoS {
    /// The number on the wire.
    pub fn as_u8(self) -> u8 {
        match self {
            Self::AtMostOnce => 0,
            Self::AtLeastOnce => 1,
            Self::ExactlyOnce => 2,
        }
    }
}

impl From<QoS> for u8 {
    fn from(qos: QoS) -> Self {
        qos.as_u8()
    }
}

impl TryFrom<u8> for QoS {
    type Error = InvalidQoS;

    fn try_from(level: u8) -> Result<Self, InvalidQoS> {
        match level {
            0 => Ok(Self::AtMostOnce),
            1 => Ok(Self::AtLeastOnce),
            2 => Ok(Self::ExactlyOnce),
            _ => Err(InvalidQoS(level)),
        }
    }
}

/// A quality of service other than 0, 1 or 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidQoS(pub u8);

impl fmt::Display for InvalidQoS {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QoS {} does not exist; use 0, 1 or 2", self.0)
    }
}

impl core::error::Error for InvalidQoS {}

/// A name that a peer sends back.
///
/// Normally text. Kraken echoes whatever it was sent, so a topic can come back as an integer; such a value is kept
/// as it is instead of failing the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Text<'a> {
    /// UTF-8 text.
    Str(&'a str),
    /// Anything else.
    Other(RawValue<'a>),
}

impl<'a> Text<'a> {
    /// The text, also of a `bin` that holds UTF-8.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            Self::Str(text) => Some(text),
            Self::Other(value) => value.as_str(),
        }
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::Str(text)
    }
}

/// Bytes that are not one complete MessagePack map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// A complete value, but not a map.
    NotAMap,
    /// The map has no text under `type`.
    NoType,
    /// The byte `0xc1`, which MessagePack never uses.
    Reserved {
        /// Where it stands.
        offset: usize,
    },
    /// More bytes after the value.
    Trailing {
        /// Where the value ends.
        offset: usize,
    },
    /// The value is incomplete.
    Truncated {
        /// Start of the part that is incomplete, or the end of the input.
        offset: usize,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAMap => f.write_str("the message is not a MessagePack map"),
            Self::NoType => f.write_str("the message has no text under \"type\""),
            Self::Reserved { offset } => write!(f, "byte 0xc1 at offset {offset} is not MessagePack"),
            Self::Trailing { offset } => write!(f, "bytes after the end of the message at offset {offset}"),
            Self::Truncated { offset } => write!(f, "the message is cut short at offset {offset}"),
        }
    }
}

impl core::error::Error for WireError {}
