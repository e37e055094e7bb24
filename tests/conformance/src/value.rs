//! MessagePack read a second time, independently of the codec under test.
//!
//! Values are interned: equal values have the same [`Id`], whatever integer width, float width or order of map keys
//! their bytes had. Nothing here recurses over the nesting of a message, so any recorded depth can be compared.

use std::{collections::BTreeMap, fmt::Write as _};

use indexmap::IndexSet;
use rmp::Marker;

/// Names a value of one [`Values`]; equal ids mean equal values.
pub type Id = usize;

/// A value without its encoding. Text is kept as bytes, because recorded text need not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// `bin`.
    Binary(Vec<u8>),
    /// `true` or `false`.
    Bool(bool),
    /// `ext` with its type.
    Extension(i8, Vec<u8>),
    /// The bits of a float as `float64`. Every NaN has the same bits; `0.0` and `-0.0` differ.
    Float(u64),
    /// An integer of any width.
    Integer(i128),
    /// `array`.
    List(Vec<Id>),
    /// `map`, ordered by key.
    Map(Vec<(Id, Id)>),
    /// `nil`.
    Nil,
    /// `str`.
    Text(Vec<u8>),
}

/// The fields of a map by name.
pub type Fields = BTreeMap<String, Id>;

/// All values of a comparison.
#[derive(Debug, Default)]
pub struct Values(IndexSet<Value>);

impl Values {
    /// The id of `value`.
    pub fn add(&mut self, value: Value) -> Id {
        self.0.insert_full(value).0
    }

    /// The id of a text.
    pub fn text(&mut self, text: &str) -> Id {
        self.add(Value::Text(text.into()))
    }

    /// The value of `id`, which must come from this `Values`.
    pub fn get(&self, id: Id) -> &Value {
        &self.0[id]
    }

    /// The text of a `str`, or of a `bin` that holds UTF-8.
    pub fn as_text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Value::Text(bytes) | Value::Binary(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self, id: Id) -> Option<bool> {
        match self.get(id) {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The integer, if it is one.
    pub fn as_integer(&self, id: Id) -> Option<i128> {
        match self.get(id) {
            Value::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The items of a list.
    pub fn items(&self, id: Id) -> Option<&[Id]> {
        match self.get(id) {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// The pairs of a map.
    pub fn pairs(&self, id: Id) -> Option<&[(Id, Id)]> {
        match self.get(id) {
            Value::Map(pairs) => Some(pairs),
            _ => None,
        }
    }

    /// A map by key, the last of repeated keys counting. A key that is not text goes by how it is shown.
    pub fn fields(&self, id: Id) -> Option<Fields> {
        let name = |key| self.as_text(key).map_or_else(|| self.show(key), str::to_owned);
        Some(self.pairs(id)?.iter().map(|(key, value)| (name(*key), *value)).collect())
    }

    /// Whether the value or anything in it is text that is not UTF-8.
    pub fn has_bad_text(&self, id: Id) -> bool {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            match self.get(id) {
                Value::Text(bytes) if std::str::from_utf8(bytes).is_err() => return true,
                Value::List(items) => open.extend(items),
                Value::Map(pairs) => open.extend(pairs.iter().flat_map(|(key, value)| [*key, *value])),
                _ => {}
            }
        }
        false
    }

    /// The value for people, on one line and of bounded length. What stands under the key `token` is not shown.
    pub fn show(&self, id: Id) -> String {
        let mut out = String::new();
        self.show_into(id, 0, &mut out);
        out
    }

    fn show_into(&self, id: Id, depth: usize, out: &mut String) {
        const LONGEST: usize = 160;
        const DEEPEST: usize = 6;
        if out.len() > LONGEST || depth > DEEPEST {
            return out.push('…');
        }
        match self.get(id) {
            Value::Nil => out.push_str("nil"),
            Value::Bool(value) => _ = write!(out, "{value}"),
            Value::Integer(value) => _ = write!(out, "{value}"),
            // `{:?}` keeps the point of whole floats, which tells them from integers.
            Value::Float(bits) => _ = write!(out, "{:?}", f64::from_bits(*bits)),
            Value::Text(bytes) => {
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]);
                _ = write!(out, "{text:?}");
                out.push_str(if bytes.len() > LONGEST { "…" } else { "" });
            }
            Value::Binary(bytes) => show_bytes("bin", bytes, out),
            Value::Extension(kind, bytes) => show_bytes(&format!("ext {kind}"), bytes, out),
            Value::List(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push_str(", ");
                    }
                    if out.len() > LONGEST {
                        out.push('…');
                        break;
                    }
                    self.show_into(*item, depth + 1, out);
                }
                out.push(']');
            }
            Value::Map(pairs) => {
                out.push('{');
                for (n, (key, value)) in pairs.iter().enumerate() {
                    if n > 0 {
                        out.push_str(", ");
                    }
                    if out.len() > LONGEST {
                        out.push('…');
                        break;
                    }
                    self.show_into(*key, depth + 1, out);
                    out.push_str(": ");
                    match self.as_text(*key) {
                        Some("token") if *self.get(*value) != Value::Nil => out.push_str("(a token)"),
                        _ => self.show_into(*value, depth + 1, out),
                    }
                }
                out.push('}');
            }
        }
    }

    /// Reads exactly one value.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Id, Broken> {
        let mut input = Input { bytes, at: 0 };
        let mut open: Vec<Open> = Vec::new();
        loop {
            let mut value = match input.token()? {
                Token::Opens { is_map, values } if values > 0 => {
                    open.push(Open { is_map, missing: values, children: Vec::new() });
                    continue;
                }
                Token::Opens { is_map: true, .. } => Value::Map(Vec::new()),
                Token::Opens { is_map: false, .. } => Value::List(Vec::new()),
                Token::Leaf(value) => value,
            };
            // Closes every container that this value completes.
            loop {
                let id = self.add(value);
                let Some(parent) = open.last_mut() else {
                    let rest = bytes.len() - input.at;
                    return if rest == 0 { Ok(id) } else { Err(Broken::Trailing(rest)) };
                };
                parent.children.push(id);
                parent.missing -= 1;
                if parent.missing > 0 {
                    break;
                }
                let Some(done) = open.pop() else { break };
                value = done.close();
            }
        }
    }
}

fn show_bytes(kind: &str, bytes: &[u8], out: &mut String) {
    const LONGEST: usize = 32;
    _ = write!(out, "{kind}(");
    for byte in bytes.iter().take(LONGEST) {
        _ = write!(out, "{byte:02x}");
    }
    out.push_str(if bytes.len() > LONGEST { "…)" } else { ")" });
}

/// Why bytes are not exactly one MessagePack value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The byte `0xc1`.
    Reserved,
    /// So many bytes after the value.
    Trailing(usize),
    /// The value ends too early.
    Truncated,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reserved => f.write_str("not MessagePack: byte 0xc1"),
            Self::Trailing(n) => write!(f, "not one MessagePack value: {n} bytes follow it"),
            Self::Truncated => f.write_str("not MessagePack: cut short"),
        }
    }
}

impl std::error::Error for Broken {}

/// A container whose children are still being read.
struct Open {
    is_map: bool,
    missing: u64,
    children: Vec<Id>,
}

impl Open {
    fn close(self) -> Value {
        if !self.is_map {
            return Value::List(self.children);
        }
        let mut pairs: Vec<(Id, Id)> = self.children.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        // Stable, so that the last of repeated keys stays the last.
        pairs.sort_by_key(|(key, _)| *key);
        Value::Map(pairs)
    }
}

enum Token {
    Leaf(Value),
    Opens { is_map: bool, values: u64 },
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Broken> {
        let end = self.at.checked_add(len).ok_or(Broken::Truncated)?;
        let taken = self.bytes.get(self.at..end).ok_or(Broken::Truncated)?;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// A big-endian number of `width` bytes.
    fn number(&mut self, width: usize) -> Result<u64, Broken> {
        Ok(self.take(width)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Bytes after their length of `width` bytes.
    fn sized(&mut self, width: usize) -> Result<Vec<u8>, Broken> {
        let len = self.number(width)?;
        Ok(self.take(usize::try_from(len).map_err(|_| Broken::Truncated)?)?.to_vec())
    }

    fn token(&mut self) -> Result<Token, Broken> {
        let marker = Marker::from_u8(self.array::<1>()?[0]);
        let opens =
            |is_map: bool, len: u64| Token::Opens { is_map, values: if is_map { len * 2 } else { len } };
        Ok(Token::Leaf(match marker {
            Marker::FixArray(len) => return Ok(opens(false, len.into())),
            Marker::Array16 => return Ok(opens(false, self.number(2)?)),
            Marker::Array32 => return Ok(opens(false, self.number(4)?)),
            Marker::FixMap(len) => return Ok(opens(true, len.into())),
            Marker::Map16 => return Ok(opens(true, self.number(2)?)),
            Marker::Map32 => return Ok(opens(true, self.number(4)?)),
            Marker::Null => Value::Nil,
            Marker::True => Value::Bool(true),
            Marker::False => Value::Bool(false),
            Marker::FixPos(n) => Value::Integer(n.into()),
            Marker::FixNeg(n) => Value::Integer(n.into()),
            Marker::U8 => Value::Integer(self.number(1)?.into()),
            Marker::U16 => Value::Integer(self.number(2)?.into()),
            Marker::U32 => Value::Integer(self.number(4)?.into()),
            Marker::U64 => Value::Integer(self.number(8)?.into()),
            Marker::I8 => Value::Integer(i8::from_be_bytes(self.array()?).into()),
            Marker::I16 => Value::Integer(i16::from_be_bytes(self.array()?).into()),
            Marker::I32 => Value::Integer(i32::from_be_bytes(self.array()?).into()),
            Marker::I64 => Value::Integer(i64::from_be_bytes(self.array()?).into()),
            Marker::F32 => float(f32::from_be_bytes(self.array()?).into()),
            Marker::F64 => float(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(len) => Value::Text(self.take(len.into())?.to_vec()),
            Marker::Str8 => Value::Text(self.sized(1)?),
            Marker::Str16 => Value::Text(self.sized(2)?),
            Marker::Str32 => Value::Text(self.sized(4)?),
            Marker::Bin8 => Value::Binary(self.sized(1)?),
            Marker::Bin16 => Value::Binary(self.sized(2)?),
            Marker::Bin32 => Value::Binary(self.sized(4)?),
            Marker::FixExt1 => self.extension(1)?,
            Marker::FixExt2 => self.extension(2)?,
            Marker::FixExt4 => self.extension(4)?,
            Marker::FixExt8 => self.extension(8)?,
            Marker::FixExt16 => self.extension(16)?,
            Marker::Ext8 => self.sized_extension(1)?,
            Marker::Ext16 => self.sized_extension(2)?,
            Marker::Ext32 => self.sized_extension(4)?,
            Marker::Reserved => return Err(Broken::Reserved),
        }))
    }

    fn sized_extension(&mut self, width: usize) -> Result<Value, Broken> {
        let len = self.number(width)?;
        self.extension(usize::try_from(len).map_err(|_| Broken::Truncated)?)
    }

    fn extension(&mut self, len: usize) -> Result<Value, Broken> {
        let kind = i8::from_be_bytes(self.array()?);
        Ok(Value::Extension(kind, self.take(len)?.to_vec()))
    }
}

fn float(value: f64) -> Value {
    Value::Float(if value.is_nan() { f64::NAN } else { value }.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &mut Values, bytes: &[u8]) -> Id {
        values.read(bytes).expect("one value")
    }

    #[test]
    fn widths_and_key_order_do_not_matter() {
        let values = &mut Values::default();
        assert_eq!(read(values, &[0x05]), read(values, &[0xd3, 0, 0, 0, 0, 0, 0, 0, 5]));
        assert_eq!(read(values, &[0xca, 0x3f, 0, 0, 0]), read(values, &[0xcb, 0x3f, 0xe0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(read(values, b"\x82\xa1a\x01\xa1b\x02"), read(values, b"\x82\xa1b\x02\xa1a\x01"));
        assert_eq!(
            read(values, &[0xca, 0x7f, 0xc0, 0, 1]),
            read(values, &[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0])
        );
    }

    #[test]
    fn kinds_matter() {
        let values = &mut Values::default();
        let one: Vec<Id> = [
            &[0x01][..],
            &[0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0],
            &[0xc3],
            b"\xa11",
            b"\xc4\x011",
            &[0x91, 0x01],
            &[0xc0],
        ]
        .into_iter()
        .map(|bytes| read(values, bytes))
        .collect();
        let mut distinct = one.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), one.len());
    }

    #[test]
    fn tokens_are_not_shown_at_any_depth() {
        let values = &mut Values::default();
        let id = read(values, b"\x82\xa1a\x91\x81\xa5token\xa6secret\xa5token\x93\x01\xa6secret\x02");
        let shown = values.show(id);
        assert!(shown.contains("\"token\": (a token)") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn broken_bytes_are_refused() {
        let values = &mut Values::default();
        assert_eq!(values.read(&[]), Err(Broken::Truncated));
        assert_eq!(values.read(&[0xdf, 0xff, 0xff, 0xff, 0xff]), Err(Broken::Truncated));
        assert_eq!(values.read(&[0xc6, 0xff, 0xff, 0xff, 0xff]), Err(Broken::Truncated));
        assert_eq!(values.read(&[0x91, 0xc1]), Err(Broken::Reserved));
        assert_eq!(values.read(&[0x80, 0x80]), Err(Broken::Trailing(1)));
    }

    #[test]
    fn deep_values_are_read_and_shown() {
        let values = &mut Values::default();
        let mut bytes = vec![0x91; 200_000];
        bytes.push(0xc0);
        let id = read(values, &bytes);
        assert!(values.show(id).len() < 100);
        assert!(!values.has_bad_text(id));
    }
}
