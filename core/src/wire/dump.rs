//! A frame as one line for people, without what must not be seen.

use core::fmt::{self, Write};

use super::{Items, Key, Kind, RawValue, WireError};

/// Most bytes that a line has.
const MAX_LINE: usize = 2048;

/// Most characters of a text that are shown.
const MAX_TEXT: usize = 64;

/// Most characters of a name that a peer made up.
const MAX_NAME: usize = 32;

/// Most fields that are shown.
const MAX_FIELDS: usize = 24;

/// Most items of a list that are shown.
const MAX_ITEMS: usize = 4;

/// Fields whose texts, numbers and booleans are shown. What is not listed here or below holds payloads, or could.
const SHOWN: &[Key] = &[
    Key::ActorId,
    Key::ActorTokenId,
    Key::ActorType,
    Key::AuthExpiresAt,
    Key::ClientId,
    Key::Code,
    Key::Count,
    Key::Detail,
    Key::Echo,
    Key::Error,
    Key::Event,
    Key::Filter,
    Key::From,
    Key::FromType,
    Key::Hint,
    Key::IsReplay,
    Key::LoadBalance,
    Key::LoadBalanceGroup,
    Key::LobbyId,
    Key::MaxSizeBytes,
    Key::MsgId,
    Key::MsgRef,
    Key::NewestTimestamp,
    Key::OldestTimestamp,
    Key::ProjectId,
    Key::ProtocolVersion,
    Key::Qos,
    Key::Reason,
    Key::Reconnect,
    Key::Replayed,
    Key::RequiresAck,
    Key::Retain,
    Key::RoomId,
    Key::Success,
    Key::Topic,
];

/// Fields that hold lists of short texts, which are shown.
const LISTS: &[Key] = &[Key::Filters, Key::MsgIds, Key::RestoredSubscriptions];

/// Says in one line what a frame of either direction is, for debugging traffic.
///
/// Tokens never show, and payloads only with their kind and their packed size, so a line may go where others read it.
/// Names of topics, rooms and actors do show. The wording may change.
///
/// Fields come as they stand in the frame. Long texts and lists are cut, and no bytes whatever make a line longer than
/// 2 KiB, or put a control character into it.
///
/// ```
/// use bytes::BytesMut;
/// use nolag_core::{
///     SecretStr,
///     wire::{Auth, ClientFrame, Dump, Publish, RawValue},
/// };
///
/// let mut frame = BytesMut::new();
/// let publish = Publish { msg_ref: Some("7"), ..Publish::new("demo/general/messages", RawValue::EMPTY_MAP) };
/// ClientFrame::Publish(publish).encode(&mut frame);
/// assert_eq!(
///     Dump::new(&frame).to_string(),
///     r#"publish topic="demo/general/messages" data=<map, 1 byte> msgRef="7""#
/// );
///
/// frame.clear();
/// ClientFrame::Auth(Auth { token: SecretStr::new("hunter2"), ..Auth::default() }).encode(&mut frame);
/// assert_eq!(Dump::new(&frame).to_string(), "auth token=<hidden>");
///
/// assert_eq!(Dump::new(b"").to_string(), "heartbeat");
/// assert_eq!(Dump::new(&[0xc0]).to_string(), "undecodable, 1 byte: the message is not a MessagePack map");
/// ```
#[derive(Clone, Copy)]
pub struct Dump<'a>(&'a [u8]);

impl<'a> Dump<'a> {
    /// Takes one WebSocket message.
    pub fn new(frame: &'a [u8]) -> Self {
        Self(frame)
    }
}

impl fmt::Display for Dump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Line { out: f, left: MAX_LINE - '…'.len_utf8() };
        match show_frame(self.0, &mut line) {
            // The line is full.
            Err(fmt::Error) if line.left == 0 => line.out.write_char('…'),
            result => result,
        }
    }
}

/// The same line.
impl fmt::Debug for Dump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A line that takes no more than so many bytes.
struct Line<'f, 'b> {
    out: &'f mut fmt::Formatter<'b>,
    left: usize,
}

impl Write for Line<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() <= self.left {
            self.left -= text.len();
            return self.out.write_str(text);
        }
        let fits = (0..=self.left).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        self.left = 0;
        self.out.write_str(&text[..fits])?;
        Err(fmt::Error)
    }
}

fn show_frame(frame: &[u8], line: &mut Line<'_, '_>) -> fmt::Result {
    if frame.is_empty() {
        return line.write_str("heartbeat");
    }
    let (frame_type, map) = match parse(frame) {
        Ok(parsed) => parsed,
        Err(error) => return write!(line, "undecodable, {}: {error}", Size(frame.len())),
    };
    show_name(frame_type, line)?;
    let mut fields = map.entries().into_iter().flatten().filter(|(key, _)| !is(*key, Key::Type));
    for (key, value) in fields.by_ref().take(MAX_FIELDS) {
        line.write_char(' ')?;
        show_name(key, line)?;
        line.write_char('=')?;
        let one_of = |keys: &[Key]| keys.iter().any(|known| is(key, *known));
        match value.items() {
            _ if is(key, Key::Token) => line.write_str("<hidden>")?,
            // Filters may be grouped.
            Some(items) if one_of(LISTS) => show_list(items, 1, line)?,
            _ if one_of(SHOWN) => show_scalar(value, line)?,
            _ => show_kind(value, line)?,
        }
    }
    match fields.count() {
        0 => Ok(()),
        more => write!(line, " … {more} more"),
    }
}

/// The type, of several the last, and the whole map: as the codec reads them.
fn parse(frame: &[u8]) -> Result<(RawValue<'_>, RawValue<'_>), WireError> {
    let map = RawValue::parse(frame)?;
    let fields = map.entries().ok_or(WireError::NotAMap)?;
    let types = fields.filter(|(key, _)| is(*key, Key::Type));
    let frame_type = types.last().map(|(_, value)| value).filter(|value| value.as_str().is_some());
    Ok((frame_type.ok_or(WireError::NoType)?, map))
}

fn is(name: RawValue<'_>, key: Key) -> bool {
    name.as_str() == Some(key.as_str())
}

/// Shows a type or a key. What is no identifier is no name of a protocol, but could be anything else that got into its
/// place.
fn show_name(name: RawValue<'_>, line: &mut Line<'_, '_>) -> fmt::Result {
    let identifier = |text: &&str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(allowed)
    };
    match name.as_str().filter(identifier) {
        Some(text) => line.write_str(text),
        None => show_kind(name, line),
    }
}

fn show_list(mut items: Items<'_>, groups: u8, line: &mut Line<'_, '_>) -> fmt::Result {
    line.write_char('[')?;
    for (n, item) in items.by_ref().take(MAX_ITEMS).enumerate() {
        line.write_str(if n == 0 { "" } else { ", " })?;
        match item.items() {
            Some(group) if groups > 0 => show_list(group, groups - 1, line)?,
            _ => show_scalar(item, line)?,
        }
    }
    match items.count() {
        0 => {}
        more => write!(line, ", … {more} more")?,
    }
    line.write_char(']')
}

fn show_scalar(value: RawValue<'_>, line: &mut Line<'_, '_>) -> fmt::Result {
    if let Some(text) = value.as_str() {
        let end = text.char_indices().nth(MAX_TEXT).map_or(text.len(), |(at, _)| at);
        // Escapes what is not printable.
        write!(line, "{:?}", &text[..end])?;
        return line.write_str(if end < text.len() { "…" } else { "" });
    }
    if let Some(number) = value.as_u64() {
        write!(line, "{number}")
    } else if let Some(number) = value.as_i64() {
        write!(line, "{number}")
    } else if let Some(number) = value.as_f64() {
        write!(line, "{number:?}")
    } else if let Some(truth) = value.as_bool() {
        write!(line, "{truth}")
    } else if value.is_nil() {
        line.write_str("nil")
    } else {
        show_kind(value, line)
    }
}

/// Shows that there is a value, and nothing of what it holds.
fn show_kind(value: RawValue<'_>, line: &mut Line<'_, '_>) -> fmt::Result {
    let kind = match value.kind() {
        Kind::Bool => "bool",
        Kind::Binary => "binary",
        Kind::Extension => "extension",
        Kind::Float => "float",
        Kind::Integer => "integer",
        Kind::List => "list",
        Kind::Map => "map",
        Kind::Nil => "nil",
        Kind::Text => "text",
    };
    write!(line, "<{kind}, {}>", Size(value.as_bytes().len()))
}

/// A number of bytes.
struct Size(usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("1 byte"),
            n => write!(f, "{n} bytes"),
        }
    }
}
