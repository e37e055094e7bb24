//! Messages without their tokens.

use std::{borrow::Cow, ops::Range};

use rmp::Marker;
use serde_json::{Map, Value as Json};

/// The key under which tokens stand, in frames and in what applications send.
const TOKEN: &str = "token";

/// What stands for a token that is not counted.
const HIDDEN: &str = "redacted";

/// Shorter tokens are hidden where they are tokens, but not looked for elsewhere: they could be any word.
const SHORTEST: usize = 8;

/// Most tokens that are told apart, and looked for.
const MOST: usize = 256;

/// Nesting that is understood. Nothing that applications read goes deeper.
const DEEPEST: usize = 10_000;

/// A byte that MessagePack never uses.
const NEVER: u8 = 0xc1;

/// Replaces tokens: what stands under any key `token`, and the same words wherever else they stand.
///
/// Each token gets a name, `redacted-1` and so on, so that the same token can be told from another.
#[derive(Debug, Default)]
pub(crate) struct Redactor {
    known: Vec<String>,
}

/// A message as it may be seen.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Redacted<T> {
    pub(crate) content: T,
    /// Whether it is not one complete value that a strict decoder takes.
    pub(crate) malformed: bool,
    /// Whether it could not be understood and may have held a token, so that nothing of it is left.
    pub(crate) blank: bool,
}

impl Redactor {
    /// A binary message: MessagePack.
    pub(crate) fn binary<'m>(&mut self, message: &'m [u8]) -> Redacted<Cow<'m, [u8]>> {
        let (content, malformed) = match self.replacements(message) {
            _ if message.is_empty() => (Cow::Borrowed(message), false),
            Ok(found) if found.is_empty() => (Cow::Borrowed(message), false),
            Ok(found) => (Cow::Owned(splice(message, &found)), false),
            Err(Broken) => (Cow::Borrowed(message), true),
        };
        let blank = (malformed && may_hold_a_token(&content)) || self.is_known(&content);
        let content = if blank { Cow::Owned(vec![NEVER; message.len()]) } else { content };
        Redacted { content, malformed: malformed || blank, blank }
    }

    /// A text message: JSON.
    pub(crate) fn text<'m>(&mut self, message: &'m str) -> Redacted<Cow<'m, str>> {
        let mut json = serde_json::from_str::<Json>(message).ok();
        let malformed = json.is_none();
        let hidden = json.as_mut().is_some_and(|json| self.hide_in_json(json));
        let content = match json {
            Some(json) if hidden => Cow::Owned(json.to_string()),
            _ => Cow::Borrowed(message),
        };
        let blank = (malformed && may_hold_a_token(content.as_bytes())) || self.is_known(content.as_bytes());
        let content = if blank { Cow::Borrowed("(redacted)") } else { content };
        Redacted { content, malformed: malformed || blank, blank }
    }

    /// Words in which a token may have been repeated.
    pub(crate) fn words<'w>(&self, words: &'w str) -> Cow<'w, str> {
        let mut hidden = Cow::Borrowed(words);
        for (n, token) in self.known.iter().enumerate() {
            if token.len() >= SHORTEST && hidden.contains(token) {
                hidden = Cow::Owned(hidden.replace(token, &name(n)));
            }
        }
        hidden
    }

    /// What a line of a recording says besides messages.
    pub(crate) fn keys(&mut self, keys: &Map<String, Json>) -> Map<String, Json> {
        let mut keys = Json::Object(keys.clone());
        self.hide_in_json(&mut keys);
        match keys {
            Json::Object(keys) => keys,
            _ => Map::new(),
        }
    }

    /// What stands for a token.
    pub(crate) fn token(&mut self, token: &str) -> String {
        if let Some(n) = self.known.iter().position(|known| known == token) {
            return name(n);
        }
        // What was hidden before stays as it is.
        if token.is_empty() || token == HIDDEN || token.strip_prefix("redacted-").is_some_and(is_number) {
            return token.into();
        }
        if self.known.len() == MOST {
            return HIDDEN.into();
        }
        self.known.push(token.into());
        name(self.known.len() - 1)
    }

    fn is_known(&self, bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes);
        matches!(self.words(&text), Cow::Owned(_))
    }

    /// Hides tokens in JSON, which serde_json has read and so nests little. Returns whether there were any.
    fn hide_in_json(&mut self, json: &mut Json) -> bool {
        match json {
            Json::Array(items) => {
                let hidden = items.iter_mut().filter_map(|item| self.hide_in_json(item).then_some(()));
                hidden.count() > 0
            }
            Json::Object(fields) => {
                let mut hidden = false;
                for (key, value) in fields {
                    hidden |= match (key.as_str(), &mut *value) {
                        (TOKEN, Json::Null) => false,
                        (TOKEN, value) => {
                            let name = value.as_str().map(|token| self.token(token));
                            *value = Json::String(name.unwrap_or_else(|| HIDDEN.into()));
                            true
                        }
                        (_, value) => self.hide_in_json(value),
                    };
                }
                hidden
            }
            Json::String(text) => match self.words(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(words) => {
                    *text = words;
                    true
                }
            },
            _ => false,
        }
    }

    /// What must be replaced in MessagePack, in its order.
    fn replacements(&mut self, message: &[u8]) -> Result<Vec<Replacement>, Broken> {
        let mut input = Input { bytes: message, at: 0 };
        let mut found = Vec::new();
        let mut open: Vec<Open> = Vec::new();
        // A container under the key: where it starts, and how many are open around it.
        let mut hiding: Option<(usize, usize)> = None;
        loop {
            let start = input.at;
            let token = input.token()?;
            let is_key = open.last().is_some_and(Open::is_at_key);
            let is_secret = hiding.is_none() && open.last().is_some_and(|map| map.holds_token);
            match token {
                Read::Opens { is_map, values } => {
                    if open.len() == DEEPEST {
                        return Err(Broken);
                    }
                    if is_secret {
                        hiding = Some((start, open.len()));
                    }
                    open.push(Open { is_map, missing: values, holds_token: false });
                }
                Read::Bytes(bytes) => {
                    let text = str::from_utf8(bytes).ok();
                    if is_secret {
                        let name = text.map_or_else(|| HIDDEN.into(), |token| self.token(token));
                        found.push((start..input.at, packed(&name)));
                    } else if hiding.is_none()
                        && let Some(Cow::Owned(words)) = text.map(|text| self.words(text))
                    {
                        found.push((start..input.at, packed(&words)));
                    }
                    if let Some(map) = open.last_mut() {
                        map.holds_token = is_key && text == Some(TOKEN);
                    }
                }
                Read::Other => {
                    if is_secret && message[start] != Marker::Null.to_u8() {
                        found.push((start..input.at, packed(HIDDEN)));
                    }
                    if let Some(map) = open.last_mut() {
                        map.holds_token = false;
                    }
                }
            }
            if !matches!(token, Read::Opens { .. })
                && let Some(parent) = open.last_mut()
            {
                parent.missing -= 1;
            }
            // Closes every container that is complete.
            while open.last().is_some_and(|container| container.missing == 0) {
                open.pop();
                if let Some((start, depth)) = hiding
                    && depth == open.len()
                {
                    found.push((start..input.at, packed(HIDDEN)));
                    hiding = None;
                }
                if let Some(parent) = open.last_mut() {
                    parent.missing -= 1;
                    parent.holds_token = false;
                }
            }
            if open.is_empty() {
                return if input.at == message.len() { Ok(found) } else { Err(Broken) };
            }
        }
    }
}

/// What stands where, and what comes there instead.
type Replacement = (Range<usize>, Vec<u8>);

/// Not one MessagePack value with texts in UTF-8.
#[derive(Debug, PartialEq, Eq)]
struct Broken;

struct Open {
    is_map: bool,
    /// Values that have not been read yet: of a map keys and values.
    missing: u64,
    /// Whether the last key is that of tokens.
    holds_token: bool,
}

impl Open {
    fn is_at_key(&self) -> bool {
        self.is_map && self.missing.is_multiple_of(2)
    }
}

#[derive(Clone, Copy)]
enum Read<'m> {
    /// Text, or bytes that may be text.
    Bytes(&'m [u8]),
    Opens {
        is_map: bool,
        values: u64,
    },
    Other,
}

struct Input<'m> {
    bytes: &'m [u8],
    at: usize,
}

impl<'m> Input<'m> {
    fn take(&mut self, len: u64) -> Result<&'m [u8], Broken> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len)).ok_or(Broken)?;
        let taken = self.bytes.get(self.at..end).ok_or(Broken)?;
        self.at = end;
        Ok(taken)
    }

    /// A length of `width` bytes.
    fn len(&mut self, width: u64) -> Result<u64, Broken> {
        Ok(self.take(width)?.iter().fold(0, |len, byte| len << 8 | u64::from(*byte)))
    }

    fn token(&mut self) -> Result<Read<'m>, Broken> {
        let marker = Marker::from_u8(self.take(1)?[0]);
        let (list, map) = (
            |values| Ok(Read::Opens { is_map: false, values }),
            |pairs: u64| Ok(Read::Opens { is_map: true, values: pairs * 2 }),
        );
        let len = match marker {
            Marker::FixArray(len) => return list(len.into()),
            Marker::Array16 => return list(self.len(2)?),
            Marker::Array32 => return list(self.len(4)?),
            Marker::FixMap(len) => return map(len.into()),
            Marker::Map16 => return map(self.len(2)?),
            Marker::Map32 => return map(self.len(4)?),
            Marker::Bin8 => self.len(1)?,
            Marker::Bin16 => self.len(2)?,
            Marker::Bin32 => self.len(4)?,
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
                let len = match marker {
                    Marker::FixStr(len) => len.into(),
                    Marker::Str8 => self.len(1)?,
                    Marker::Str16 => self.len(2)?,
                    _ => self.len(4)?,
                };
                let bytes = self.take(len)?;
                return str::from_utf8(bytes).map(|_| Read::Bytes(bytes)).map_err(|_| Broken);
            }
            other => {
                let rest = match other {
                    Marker::Reserved => return Err(Broken),
                    Marker::U8 | Marker::I8 => 1,
                    Marker::U16 | Marker::I16 | Marker::FixExt1 => 2,
                    Marker::FixExt2 => 3,
                    Marker::U32 | Marker::I32 | Marker::F32 => 4,
                    Marker::FixExt4 => 5,
                    Marker::U64 | Marker::I64 | Marker::F64 => 8,
                    Marker::FixExt8 => 9,
                    Marker::FixExt16 => 17,
                    Marker::Ext8 => self.len(1)? + 1,
                    Marker::Ext16 => self.len(2)? + 1,
                    Marker::Ext32 => self.len(4)? + 1,
                    _ => 0,
                };
                self.take(rest)?;
                return Ok(Read::Other);
            }
        };
        self.take(len).map(Read::Bytes)
    }
}

fn name(n: usize) -> String {
    format!("{HIDDEN}-{}", n + 1)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn may_hold_a_token(bytes: &[u8]) -> bool {
    bytes.windows(TOKEN.len()).any(|window| window.eq_ignore_ascii_case(TOKEN.as_bytes()))
}

fn packed(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    // Writing to a vector cannot fail.
    let _ = rmp::encode::write_str(&mut out, text);
    out
}

fn splice(message: &[u8], replacements: &[Replacement]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len());
    let mut at = 0;
    for (range, replacement) in replacements {
        out.extend_from_slice(&message[at..range.start]);
        out.extend_from_slice(replacement);
        at = range.end;
    }
    out.extend_from_slice(&message[at..]);
    out
}

#[cfg(test)]
mod tests {
    use nolag_core::wire::RawValue;
    use proptest::prelude::*;

    use super::*;
    use crate::payload::{self, Json as Shown};

    const SECRET: &str = "planted-secret";

    fn redacted(redactor: &mut Redactor, json: &str) -> String {
        let message = payload::parse(json).unwrap();
        let redacted = redactor.binary(&message);
        assert!(!redacted.malformed && !redacted.blank, "{json}");
        Shown::from_msgpack(&redacted.content).to_string()
    }

    #[test]
    fn tokens_are_replaced_at_any_depth_and_told_apart() {
        let redactor = &mut Redactor::default();
        assert_eq!(
            redacted(
                redactor,
                r#"{"type":"auth","token":"planted-secret","x":{"y":[{"token":"other-one"}]}}"#
            ),
            r#"{"type":"auth","token":"redacted-1","x":{"y":[{"token":"redacted-2"}]}}"#
        );
        assert_eq!(redacted(redactor, r#"{"token":"planted-secret"}"#), r#"{"token":"redacted-1"}"#);
        assert_eq!(
            redacted(redactor, r#"[{"token":5},{"token":null},{"token":{"a":["b"]},"z":1},{"token":""}]"#),
            r#"[{"token":"redacted"},{"token":null},{"token":"redacted","z":1},{"token":""}]"#
        );
        assert_eq!(redacted(redactor, r#"{"token":{"$bin":"b3RoZXItb25l"}}"#), r#"{"token":"redacted-2"}"#);
        // The value of another key, and a value that is the word.
        let same = r#"{"tokens":"abc","a":"token","b":"c","list":["token","d"]}"#;
        assert_eq!(redacted(redactor, same), same);
    }

    #[test]
    fn a_known_token_is_hidden_wherever_it_is_repeated() {
        let redactor = &mut Redactor::default();
        redacted(redactor, r#"{"token":"planted-secret"}"#);
        assert_eq!(
            redacted(redactor, r#"{"error":"no such token: planted-secret!","planted-secret":1}"#),
            r#"{"error":"no such token: redacted-1!","redacted-1":1}"#
        );
        assert_eq!(redactor.words("bye planted-secret"), "bye redacted-1");
        // In what is no text at all.
        let extension = [&[0xc7, 14, 1][..], SECRET.as_bytes()].concat();
        assert!(redactor.binary(&extension).blank);
    }

    #[test]
    fn what_cannot_be_understood_and_may_hold_a_token_is_blanked() {
        let redactor = &mut Redactor::default();
        let whole = payload::parse(r#"{"type":"auth","token":"planted-secret"}"#).unwrap();
        let cut = redactor.binary(&whole[..whole.len() - 1]);
        assert_eq!(
            cut,
            Redacted { content: vec![NEVER; whole.len() - 1].into(), malformed: true, blank: true }
        );
        let harmless = redactor.binary(&[0x91, NEVER]);
        assert_eq!(harmless, Redacted { content: vec![0x91, NEVER].into(), malformed: true, blank: false });
        let deep = vec![0x91; DEEPEST * 10];
        assert!(redactor.binary(&deep).malformed);
        assert_eq!(redactor.binary(b""), Redacted { content: b"".into(), malformed: false, blank: false });
    }

    #[test]
    fn json_texts_are_treated_alike() {
        let redactor = &mut Redactor::default();
        let escaped = r#"{"type": "auth", "tok\u0065n": "planted-secret"}"#;
        assert_eq!(redactor.text(escaped).content, r#"{"token":"redacted-1","type":"auth"}"#);
        let same = r#"{"type": "ack",  "msgId": "1"}"#;
        assert_eq!(redactor.text(same).content, same);
        let cut = redactor.text(r#"{"token": "abc"#);
        assert_eq!(cut, Redacted { content: "(redacted)".into(), malformed: true, blank: true });
        assert!(redactor.text("oops").malformed);
    }

    #[test]
    fn what_was_hidden_before_stays() {
        let redactor = &mut Redactor::default();
        assert_eq!(redacted(redactor, r#"{"token":"redacted-7"}"#), r#"{"token":"redacted-7"}"#);
        assert!(redactor.known.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived_and_judged_as_the_codec_does(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let message = Redactor::default().binary(&bytes);
            if !message.malformed && !bytes.is_empty() {
                prop_assert!(RawValue::parse(&bytes).is_ok());
                prop_assert!(RawValue::parse(&message.content).is_ok());
            }
        }
    }
}
