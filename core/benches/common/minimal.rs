//! The least that reading and writing the two frames of interest takes, by hand: what everything else is measured
//! against.

use bytes::{BufMut, BytesMut};

/// A `message` frame, borrowed.
#[derive(Debug, Default)]
pub(crate) struct Message<'a> {
    pub(crate) topic: &'a str,
    pub(crate) data: &'a [u8],
    pub(crate) msg_id: Option<&'a str>,
    pub(crate) requires_ack: bool,
    pub(crate) filter: Option<&'a str>,
    pub(crate) is_replay: bool,
    pub(crate) from: Option<&'a str>,
    pub(crate) from_type: Option<&'a str>,
}

/// Reads a `message` frame: every field that it can have, its data skipped and known to be whole.
pub(crate) fn decode(frame: &[u8]) -> Option<Message<'_>> {
    let (&first, mut rest) = frame.split_first()?;
    let fields = match first {
        0x80..=0x8f => usize::from(first & 0x0f),
        _ => return None,
    };
    let mut message = Message::default();
    for _ in 0..fields {
        let key = text(&mut rest)?;
        match key {
            "type" if text(&mut rest)? != "message" => return None,
            "type" => {}
            "topic" => message.topic = text(&mut rest)?,
            "data" => message.data = skip(&mut rest)?,
            "msgId" => message.msg_id = Some(text(&mut rest)?),
            "requiresAck" => message.requires_ack = skip(&mut rest)? == [0xc3],
            "filter" => message.filter = Some(text(&mut rest)?),
            "isReplay" => message.is_replay = skip(&mut rest)? == [0xc3],
            "from" => message.from = Some(text(&mut rest)?),
            "fromType" => message.from_type = Some(text(&mut rest)?),
            _ => drop(skip(&mut rest)?),
        }
    }
    rest.is_empty().then_some(message)
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let (head, len) = match *rest {
        [first @ 0xa0..=0xbf, ..] => (1, usize::from(first & 0x1f)),
        [0xd9, len, ..] => (2, usize::from(*len)),
        [0xda, high, low, ..] => (3, usize::from(u16::from_be_bytes([*high, *low]))),
        _ => return None,
    };
    let bytes = rest.get(head..head + len)?;
    *rest = &rest[head + len..];
    std::str::from_utf8(bytes).ok()
}

/// The bytes of one value, whatever it holds.
fn skip<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let bytes = *rest;
    let (mut at, mut owed) = (0, 1_usize);
    while owed > 0 {
        let byte = |offset: usize| bytes.get(at + offset).copied().map(usize::from);
        let (len, children) = match *bytes.get(at)? {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => (1, 0),
            first @ 0x80..=0x8f => (1, usize::from(first & 0x0f) * 2),
            first @ 0x90..=0x9f => (1, usize::from(first & 0x0f)),
            first @ 0xa0..=0xbf => (1 + usize::from(first & 0x1f), 0),
            0xc4 | 0xd9 => (2 + byte(1)?, 0),
            0xc5 | 0xda => (3 + (byte(1)? << 8 | byte(2)?), 0),
            0xcc | 0xd0 => (2, 0),
            0xcd | 0xd1 => (3, 0),
            0xce | 0xd2 | 0xca => (5, 0),
            0xcf | 0xd3 | 0xcb => (9, 0),
            0xdc => (3, byte(1)? << 8 | byte(2)?),
            0xde => (3, (byte(1)? << 8 | byte(2)?) * 2),
            _ => return None,
        };
        at += len;
        owed = owed - 1 + children;
    }
    *rest = bytes.get(at..)?;
    Some(&bytes[..at])
}

/// Writes an untracked `publish` frame over what `out` held.
pub(crate) fn encode_publish(out: &mut BytesMut, topic: &str, data: &[u8], msg_ref: Option<&str>) {
    out.clear();
    out.put_u8(0x83 + u8::from(msg_ref.is_some()));
    put(out, "type");
    put(out, "publish");
    put(out, "topic");
    put(out, topic);
    put(out, "data");
    out.put_slice(data);
    if let Some(msg_ref) = msg_ref {
        put(out, "msgRef");
        put(out, msg_ref);
    }
}

fn put(out: &mut BytesMut, text: &str) {
    match text.len() {
        len @ 0..=31 => out.put_u8(0xa0 | len as u8),
        len => out.put_slice(&[0xd9, len as u8]),
    }
    out.put_slice(text.as_bytes());
}
