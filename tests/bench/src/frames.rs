//! Frames written and read by hand: the least that a client of the protocol can do, and all that a bare client and the
//! servers of this crate do.

use rmp::encode;

/// Bytes of the number at the end of each payload.
const NUMBER: usize = 8;

/// Numbers start here, so that each takes its full width.
pub(crate) const FIRST: u64 = 1 << 32;

/// Bytes that a payload takes at least: a map of an empty text and a number.
pub(crate) const SMALLEST_PAYLOAD: usize = 1 + 5 + 1 + 4 + 1 + NUMBER;

/// What a frame says, borrowed from it. What is absent is empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields<'a> {
    pub(crate) kind: &'a [u8],
    pub(crate) topic: &'a [u8],
    pub(crate) data: &'a [u8],
    pub(crate) msg_ref: &'a [u8],
    pub(crate) no_echo: bool,
    pub(crate) refused: bool,
}

/// Walks over the map once. `None` for what is no such map.
pub(crate) fn read(frame: &[u8]) -> Option<Fields<'_>> {
    let mut walk = Walk { frame, at: 0 };
    let entries = match walk.byte()? {
        byte @ 0x80..=0x8f => usize::from(byte & 0x0f),
        0xde => walk.length(2)?,
        _ => return None,
    };
    let mut fields = Fields::default();
    for _ in 0..entries {
        let key = walk.text()?;
        let start = walk.at;
        match key {
            b"data" => {
                walk.skip()?;
                fields.data = &frame[start..walk.at];
            }
            b"echo" => fields.no_echo = walk.byte()? == 0xc2,
            b"msgRef" => fields.msg_ref = walk.text()?,
            b"success" => fields.refused = walk.byte()? == 0xc2,
            b"topic" => fields.topic = walk.text()?,
            b"type" => fields.kind = walk.text()?,
            _ => walk.skip()?,
        }
    }
    Some(fields)
}

struct Walk<'a> {
    frame: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.frame.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.frame.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    /// A length of so many bytes.
    fn length(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let len = match self.byte()? {
            byte @ 0xa0..=0xbf => usize::from(byte & 0x1f),
            0xd9 => self.length(1)?,
            0xda => self.length(2)?,
            0xdb => self.length(4)?,
            _ => return None,
        };
        self.take(len)
    }

    fn skip(&mut self) -> Option<()> {
        let mut left = 1_usize;
        while left > 0 {
            left -= 1;
            let (bytes, items) = match self.byte()? {
                0x00..=0x7f | 0xc0..=0xc3 | 0xe0..=0xff => (0, 0),
                byte @ 0x80..=0x8f => (0, 2 * usize::from(byte & 0x0f)),
                byte @ 0x90..=0x9f => (0, usize::from(byte & 0x0f)),
                byte @ 0xa0..=0xbf => (usize::from(byte & 0x1f), 0),
                0xc4 | 0xd9 => (self.length(1)?, 0),
                0xc5 | 0xda => (self.length(2)?, 0),
                0xc6 | 0xdb => (self.length(4)?, 0),
                0xc7 => (self.length(1)? + 1, 0),
                0xc8 => (self.length(2)? + 1, 0),
                0xc9 => (self.length(4)? + 1, 0),
                0xcc | 0xd0 => (1, 0),
                0xcd | 0xd1 | 0xd4 => (2, 0),
                0xd5 => (3, 0),
                0xca | 0xce | 0xd2 => (4, 0),
                0xd6 => (5, 0),
                0xcb | 0xcf | 0xd3 => (8, 0),
                0xd7 => (9, 0),
                0xd8 => (17, 0),
                0xdc => (0, self.length(2)?),
                0xdd => (0, self.length(4)?),
                0xde => (0, 2 * self.length(2)?),
                0xdf => (0, self.length(4)?.checked_mul(2)?),
            };
            self.take(bytes)?;
            left = left.checked_add(items)?;
        }
        Some(())
    }
}

/// The number at the end of a payload; 0 for other payloads.
pub(crate) fn number(data: &[u8]) -> u64 {
    data.last_chunk::<NUMBER>().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Writes another number to the end of a payload.
pub(crate) fn renumber(data: &mut [u8], number: u64) {
    if let Some(last) = data.last_chunk_mut::<NUMBER>() {
        *last = number.to_be_bytes();
    }
}

/// Text for a payload of so many bytes.
pub(crate) fn padding(payload: usize) -> String {
    let free = payload.saturating_sub(SMALLEST_PAYLOAD);
    // A longer text has a longer head.
    let head = match free {
        0..=31 => 0,
        32..=256 => 1,
        257..=65_537 => 2,
        _ => 4,
    };
    "x".repeat(free - head)
}

/// A map of a text and a number.
pub(crate) fn payload(text: &str, number: u64) -> Vec<u8> {
    let mut data = Vec::with_capacity(text.len() + SMALLEST_PAYLOAD + 4);
    Writer(&mut data).map(2).text("text", text).key("seq").number(number);
    data
}

pub(crate) fn auth(out: &mut Vec<u8>, token: &str) {
    Writer(out).map(3).text("type", "auth").text("token", token).key("protocolVersion").number(2);
}

pub(crate) fn auth_reply(out: &mut Vec<u8>) {
    let writer = Writer(out).map(7).text("type", "auth").key("success").flag(true);
    let writer = writer.text("actorTokenId", "bench").text("projectId", "bench").text("actorType", "device");
    writer.key("protocolVersion").number(2).key("restoredSubscriptions").raw(&[0x90]);
}

pub(crate) fn subscribe(out: &mut Vec<u8>, topic: &str) {
    Writer(out).map(2).text("type", "subscribe").text("topic", topic);
}

pub(crate) fn subscribed(out: &mut Vec<u8>, topic: &str) {
    Writer(out).map(3).text("type", "subscribed").text("topic", topic).key("loadBalance").flag(false);
}

/// A publish; `msg_ref` asks for a confirmation.
pub(crate) fn publish(out: &mut Vec<u8>, topic: &str, data: &[u8], msg_ref: Option<&str>, echo: bool) {
    let entries = 3 + u8::from(msg_ref.is_some()) + u8::from(!echo);
    let mut writer = Writer(out).map(entries).text("type", "publish").text("topic", topic);
    writer = writer.key("data").raw(data);
    if !echo {
        writer = writer.key("echo").flag(false);
    }
    if let Some(msg_ref) = msg_ref {
        writer.text("msgRef", msg_ref);
    }
}

pub(crate) fn published(out: &mut Vec<u8>, topic: &str, msg_ref: &str) {
    Writer(out).map(3).text("type", "published").text("topic", topic).text("msgRef", msg_ref);
}

pub(crate) fn message(out: &mut Vec<u8>, topic: &str, data: &[u8]) {
    let writer = Writer(out).map(5).text("type", "message").text("topic", topic).key("data").raw(data);
    writer.text("from", "bench").text("fromType", "actor");
}

/// The payload that makes a `message` of this topic so many bytes long, if there is one.
pub(crate) fn payload_for(frame: usize, topic: &str) -> usize {
    let mut empty = Vec::new();
    message(&mut empty, topic, &[]);
    frame.saturating_sub(empty.len()).max(SMALLEST_PAYLOAD)
}

struct Writer<'a>(&'a mut Vec<u8>);

/// Writing to a vector cannot fail.
impl Writer<'_> {
    fn map(self, entries: u8) -> Self {
        self.0.push(0x80 | entries);
        self
    }

    fn key(self, key: &str) -> Self {
        let _ = encode::write_str(self.0, key);
        self
    }

    fn text(self, key: &str, value: &str) -> Self {
        let this = self.key(key);
        let _ = encode::write_str(this.0, value);
        this
    }

    fn number(self, value: u64) -> Self {
        let _ = encode::write_uint(self.0, value);
        self
    }

    fn flag(self, value: bool) -> Self {
        self.0.push(if value { 0xc3 } else { 0xc2 });
        self
    }

    fn raw(self, value: &[u8]) -> Self {
        self.0.extend_from_slice(value);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_the_size_asked_for_and_end_with_their_number() {
        for size in [20, 51, 52, 53, 54, 280, 300, 70_000].into_iter().chain(60..200) {
            let mut data = payload(&padding(size), FIRST + 5);
            // One size in a few has no text whose head and bytes fill it.
            assert!(data.len().abs_diff(size) <= 2, "{} for {size}", data.len());
            assert_eq!(number(&data), FIRST + 5);
            renumber(&mut data, u64::MAX);
            assert_eq!(number(&data), u64::MAX);
        }
        let mut frame = Vec::new();
        message(
            &mut frame,
            "bench/room/topic",
            &payload(&padding(payload_for(300, "bench/room/topic")), FIRST),
        );
        assert_eq!(frame.len(), 300);
    }

    #[test]
    fn what_is_written_is_read() {
        let data = payload("hello", FIRST);
        let mut out = Vec::new();
        publish(&mut out, "a/b/c", &data, Some("7"), false);
        let expected = Fields {
            kind: b"publish",
            topic: b"a/b/c",
            data: &data,
            msg_ref: b"7",
            no_echo: true,
            refused: false,
        };
        assert_eq!(read(&out), Some(expected));
        out.clear();
        message(&mut out, "a/b/c", &data);
        let fields = read(&out).unwrap();
        assert_eq!((fields.kind, fields.topic, fields.data), (&b"message"[..], &b"a/b/c"[..], &data[..]));
        out.clear();
        auth_reply(&mut out);
        assert!(read(&out).is_some_and(|fields| fields.kind == b"auth" && !fields.refused));
        for len in 0..out.len() {
            assert_eq!(read(&out[..len]), None, "{len}");
        }
    }
}
