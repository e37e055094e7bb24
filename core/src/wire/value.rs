//! One MessagePack value, borrowed, skipped without recursion.

use core::fmt;

use rmp::Marker;

use super::WireError;

/// One complete MessagePack value, borrowed from a frame.
///
/// The bytes are known to be one structurally complete value and nothing more. Text inside is *not* known to be
/// UTF-8: accessors such as [`as_str`](Self::as_str) check that where they are used, because a broker may relay
/// what another client wrote badly.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawValue<'a>(&'a [u8]);

impl<'a> RawValue<'a> {
    /// The value `nil`.
    pub const NIL: RawValue<'static> = RawValue(&[0xc0]);
    /// The empty map `{}`.
    pub const EMPTY_MAP: RawValue<'static> = RawValue(&[0x80]);
    /// The empty list `[]`.
    pub const EMPTY_LIST: RawValue<'static> = RawValue(&[0x90]);

    /// Takes `bytes` as exactly one value.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when the value is incomplete, [`WireError::Trailing`] when bytes follow it, and
    /// [`WireError::Reserved`] for the byte `0xc1` that MessagePack never uses. Offsets count from the start of
    /// `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let len = skip(bytes, 0)?;
        if len == bytes.len() { Ok(Self(bytes)) } else { Err(WireError::Trailing { offset: len }) }
    }

    /// As [`parse`](Self::parse), and hands each entry of a map to `entry` on the way. `false`: it is no map.
    ///
    /// # Errors
    /// As [`parse`](Self::parse); then some entries may have been handed on.
    pub(crate) fn parse_map(bytes: &'a [u8], mut entry: impl FnMut(Self, Self)) -> Result<bool, WireError> {
        let head = header(bytes, 0)?;
        if !bytes.first().is_some_and(|first| matches!(first, 0x80..=0x8f | 0xde | 0xdf)) {
            return Self::parse(bytes).map(|_| false);
        }
        // Every value takes at least one byte.
        let mut at = head.len;
        if head.children > bytes.len().saturating_sub(at) as u64 {
            return Err(WireError::Truncated { offset: bytes.len() });
        }
        for _ in 0..head.children / 2 {
            let value = skip(bytes, at)?;
            let end = skip(bytes, value)?;
            entry(Self(&bytes[at..value]), Self(&bytes[value..end]));
            at = end;
        }
        if at == bytes.len() { Ok(true) } else { Err(WireError::Trailing { offset: at }) }
    }

    /// Takes bytes that were parsed before.
    pub(crate) fn known(bytes: &'a [u8]) -> Self {
        debug_assert!(Self::parse(bytes).is_ok());
        Self(bytes)
    }

    /// Takes the first value of `bytes` and returns it with what follows.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), without `Trailing`.
    pub fn split_first(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), WireError> {
        let (value, rest) = bytes.split_at(skip(bytes, 0)?);
        Ok((Self(value), rest))
    }

    /// The encoded bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// What kind of value this is.
    pub fn kind(self) -> Kind {
        match self.marker() {
            Marker::Null | Marker::Reserved => Kind::Nil,
            Marker::True | Marker::False => Kind::Bool,
            Marker::FixPos(_) | Marker::FixNeg(_) => Kind::Integer,
            Marker::U8 | Marker::U16 | Marker::U32 | Marker::U64 => Kind::Integer,
            Marker::I8 | Marker::I16 | Marker::I32 | Marker::I64 => Kind::Integer,
            Marker::F32 | Marker::F64 => Kind::Float,
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => Kind::Text,
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => Kind::Binary,
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => Kind::List,
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => Kind::Map,
            Marker::Ext8 | Marker::Ext16 | Marker::Ext32 => Kind::Extension,
            Marker::FixExt1 | Marker::FixExt2 | Marker::FixExt4 | Marker::FixExt8 | Marker::FixExt16 => {
                Kind::Extension
            }
        }
    }

    /// Whether this is `nil`.
    pub fn is_nil(self) -> bool {
        self.kind() == Kind::Nil
    }

    /// The boolean, if it is one.
    pub fn as_bool(self) -> Option<bool> {
        match self.marker() {
            Marker::True => Some(true),
            Marker::False => Some(false),
            _ => None,
        }
    }

    /// The text of a `str`, or of a `bin` that holds UTF-8: brokers treat the two alike.
    pub fn as_str(self) -> Option<&'a str> {
        core::str::from_utf8(self.as_binary()?).ok()
    }

    /// The bytes of a `bin` or a `str`: Kraken delivers a `bin` that happens to be UTF-8 as `str`.
    pub fn as_binary(self) -> Option<&'a [u8]> {
        if let [0xa0..=0xbf, text @ ..] = self.0 {
            return Some(text);
        }
        if !matches!(self.kind(), Kind::Text | Kind::Binary) {
            return None;
        }
        let head = header(self.0, 0).ok()?;
        self.0.get(head.len..)
    }

    /// The integer, if it is one that fits.
    pub fn as_u64(self) -> Option<u64> {
        u64::try_from(self.as_i128()?).ok()
    }

    /// The integer, if it is one that fits.
    pub fn as_i64(self) -> Option<i64> {
        i64::try_from(self.as_i128()?).ok()
    }

    fn as_i128(self) -> Option<i128> {
        let tail = &self.0[1..];
        Some(match self.marker() {
            Marker::FixPos(n) => i128::from(n),
            Marker::FixNeg(n) => i128::from(n),
            Marker::U8 => i128::from(*tail.first()?),
            Marker::U16 => i128::from(u16::from_be_bytes(tail.try_into().ok()?)),
            Marker::U32 => i128::from(u32::from_be_bytes(tail.try_into().ok()?)),
            Marker::U64 => i128::from(u64::from_be_bytes(tail.try_into().ok()?)),
            Marker::I8 => i128::from(i8::from_be_bytes(tail.try_into().ok()?)),
            Marker::I16 => i128::from(i16::from_be_bytes(tail.try_into().ok()?)),
            Marker::I32 => i128::from(i32::from_be_bytes(tail.try_into().ok()?)),
            Marker::I64 => i128::from(i64::from_be_bytes(tail.try_into().ok()?)),
            _ => return None,
        })
    }

    /// The number of a `float32` or `float64`.
    pub fn as_f64(self) -> Option<f64> {
        let tail = &self.0[1..];
        match self.marker() {
            Marker::F32 => Some(f64::from(f32::from_be_bytes(tail.try_into().ok()?))),
            Marker::F64 => Some(f64::from_be_bytes(tail.try_into().ok()?)),
            _ => None,
        }
    }

    /// The items of a list.
    pub fn items(self) -> Option<Items<'a>> {
        (self.kind() == Kind::List).then(|| self.children())
    }

    /// The keys and values of a map, in wire order.
    pub fn entries(self) -> Option<Entries<'a>> {
        (self.kind() == Kind::Map).then(|| Entries(self.children()))
    }

    fn children(self) -> Items<'a> {
        match header(self.0, 0) {
            Ok(head) => Items { rest: &self.0[head.len..], left: head.children },
            Err(_) => Items { rest: &[], left: 0 },
        }
    }

    /// The offset of the first MessagePack extension value, at any depth.
    ///
    /// Kraken drops a frame that contains one without any reply, so payloads are checked before they leave.
    pub fn find_extension(self) -> Option<usize> {
        let mut at = 0;
        while at < self.0.len() {
            let head = header(self.0, at).ok()?;
            if head.extension {
                return Some(at);
            }
            at += head.len + head.body;
        }
        None
    }

    fn marker(self) -> Marker {
        // Never empty: every constructor goes through `skip`, which consumes at least one byte.
        Marker::from_u8(self.0.first().copied().unwrap_or(0xc0))
    }
}

/// Shows kind and size only: a value may hold a payload or a token.
impl fmt::Debug for RawValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({} bytes)", self.kind(), self.0.len())
    }
}

/// The kinds of MessagePack value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// `bin`.
    Binary,
    /// `ext`, timestamps included.
    Extension,
    /// `float32` or `float64`.
    Float,
    /// Any integer.
    Integer,
    /// `array`.
    List,
    /// `map`.
    Map,
    /// `nil`.
    Nil,
    /// `str`.
    Text,
}

/// Iterator over the items of a list; see [`RawValue::items`].
#[derive(Debug, Clone)]
pub struct Items<'a> {
    rest: &'a [u8],
    left: u64,
}

impl<'a> Iterator for Items<'a> {
    type Item = RawValue<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (value, rest) = RawValue::split_first(self.rest).ok()?;
        self.rest = rest;
        Some(value)
    }
}

/// Iterator over the entries of a map; see [`RawValue::entries`].
#[derive(Debug, Clone)]
pub struct Entries<'a>(Items<'a>);

impl<'a> Iterator for Entries<'a> {
    type Item = (RawValue<'a>, RawValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.next()?, self.0.next()?))
    }
}

/// What the first bytes of a value say.
struct Header {
    /// Bytes of marker and length.
    len: usize,
    /// Bytes of body that are not values themselves.
    body: usize,
    /// Values that follow and belong to this one.
    children: u64,
    extension: bool,
}

fn header(bytes: &[u8], at: usize) -> Result<Header, WireError> {
    let truncated = WireError::Truncated { offset: at };
    let marker = Marker::from_u8(*bytes.get(at).ok_or(truncated)?);
    let length = |width: usize| -> Result<usize, WireError> {
        let digits = bytes.get(at + 1..at + 1 + width).ok_or(truncated)?;
        Ok(digits.iter().fold(0, |n, byte| n << 8 | usize::from(*byte)))
    };
    let plain = |len: usize, body: usize| Header { len, body, children: 0, extension: false };
    let nested = |len: usize, children: u64| Header { len, body: 0, children, extension: false };
    let extension = |len: usize, body: usize| Header { len, body, children: 0, extension: true };
    Ok(match marker {
        Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => plain(1, 0),
        Marker::U8 | Marker::I8 => plain(1, 1),
        Marker::U16 | Marker::I16 => plain(1, 2),
        Marker::U32 | Marker::I32 | Marker::F32 => plain(1, 4),
        Marker::U64 | Marker::I64 | Marker::F64 => plain(1, 8),
        Marker::FixStr(n) => plain(1, usize::from(n)),
        Marker::Str8 | Marker::Bin8 => plain(2, length(1)?),
        Marker::Str16 | Marker::Bin16 => plain(3, length(2)?),
        Marker::Str32 | Marker::Bin32 => plain(5, length(4)?),
        Marker::FixArray(n) => nested(1, u64::from(n)),
        Marker::Array16 => nested(3, length(2)? as u64),
        Marker::Array32 => nested(5, length(4)? as u64),
        Marker::FixMap(n) => nested(1, u64::from(n) * 2),
        Marker::Map16 => nested(3, length(2)? as u64 * 2),
        Marker::Map32 => nested(5, length(4)? as u64 * 2),
        Marker::FixExt1 => extension(1, 2),
        Marker::FixExt2 => extension(1, 3),
        Marker::FixExt4 => extension(1, 5),
        Marker::FixExt8 => extension(1, 9),
        Marker::FixExt16 => extension(1, 17),
        Marker::Ext8 => extension(2, length(1)? + 1),
        Marker::Ext16 => extension(3, length(2)? + 1),
        Marker::Ext32 => extension(6, length(4)?),
        Marker::Reserved => return Err(WireError::Reserved { offset: at }),
    })
}

/// The end of the value that starts at `at`. Counts the values still owed instead of recursing, so nesting depth
/// costs nothing.
fn skip(bytes: &[u8], mut at: usize) -> Result<usize, WireError> {
    // Most values are short texts.
    if let Some(first @ 0xa0..=0xbf) = bytes.get(at) {
        let end = at + 1 + usize::from(first & 0x1f);
        return if end <= bytes.len() { Ok(end) } else { Err(WireError::Truncated { offset: at }) };
    }
    let mut owed: u64 = 1;
    while owed > 0 {
        let head = header(bytes, at)?;
        let end = at.checked_add(head.len).and_then(|end| end.checked_add(head.body));
        at = end.filter(|end| *end <= bytes.len()).ok_or(WireError::Truncated { offset: at })?;
        // Every owed value takes at least one byte, so this cannot pass what the frame can still hold.
        owed = owed - 1 + head.children;
        if owed > (bytes.len() - at) as u64 {
            return Err(WireError::Truncated { offset: bytes.len() });
        }
    }
    Ok(at)
}
