//! Values as they leave a broker: decoded and packed again, which changes some of them.

use bytes::{BufMut, Bytes, BytesMut};
use nolag_core::wire::{Kind, RawValue, write};
use rmp::Marker;
use serde_json::Value as Json;

/// A text or binary value that is not UTF-8 and that this broker cannot pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotUtf8;

/// Packs a value again the way Kraken does: `bin` that holds UTF-8 becomes `str`, floats become float64, and the
/// floats that are no numbers become text.
///
/// Walks the bytes from front to back, so nesting depth costs nothing.
pub(crate) fn repack(value: RawValue<'_>, only_utf8: bool) -> Result<Bytes, NotUtf8> {
    let mut input = value.as_bytes();
    let mut out = BytesMut::with_capacity(input.len());
    while let Some(&first) = input.first() {
        let marker = Marker::from_u8(first);
        if let Some((header, children)) = container(marker, &input[1..]) {
            match marker {
                Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => {
                    write::list_header(&mut out, children)
                }
                _ => write::map_header(&mut out, children),
            }
            input = &input[1 + header..];
            continue;
        }
        // A `RawValue` is complete, so its parts are.
        let Ok((leaf, rest)) = RawValue::split_first(input) else { break };
        input = rest;
        match (leaf.kind(), leaf.as_binary(), leaf.as_f64()) {
            (Kind::Text | Kind::Binary, Some(bytes), _) => match std::str::from_utf8(bytes) {
                Ok(text) => write::str(&mut out, text),
                Err(_) if only_utf8 => return Err(NotUtf8),
                Err(_) => put_binary(&mut out, bytes),
            },
            (Kind::Float, _, Some(number)) => put_float(&mut out, number),
            _ => write::value(&mut out, leaf),
        }
    }
    Ok(out.freeze())
}

/// For a list or map: bytes of its length field and number of children (pairs, in a map).
fn container(marker: Marker, rest: &[u8]) -> Option<(usize, usize)> {
    let length = |width: usize| {
        let digits = rest.get(..width)?;
        Some((width, digits.iter().fold(0, |n, byte| n << 8 | usize::from(*byte))))
    };
    match marker {
        Marker::FixArray(n) | Marker::FixMap(n) => Some((0, usize::from(n))),
        Marker::Array16 | Marker::Map16 => length(2),
        Marker::Array32 | Marker::Map32 => length(4),
        _ => None,
    }
}

fn put_float(out: &mut BytesMut, number: f64) {
    if number.is_nan() {
        write::str(out, "nan");
    } else if number.is_infinite() {
        write::str(out, if number > 0.0 { "positive_infinity" } else { "negative_infinity" });
    } else {
        out.put_u8(Marker::F64.to_u8());
        out.put_f64(number);
    }
}

fn put_binary(out: &mut BytesMut, bytes: &[u8]) {
    match (u8::try_from(bytes.len()), u16::try_from(bytes.len())) {
        (Ok(len), _) => {
            out.put_u8(Marker::Bin8.to_u8());
            out.put_u8(len);
        }
        (_, Ok(len)) => {
            out.put_u8(Marker::Bin16.to_u8());
            out.put_u16(len);
        }
        _ => {
            out.put_u8(Marker::Bin32.to_u8());
            // A frame is far below 4 GiB.
            out.put_u32(bytes.len() as u32);
        }
    }
    out.put_slice(bytes);
}

/// Reads JSON as the MessagePack value that it stands for. Nesting deeper than 128 levels is refused.
pub(crate) fn from_json(text: &str) -> Result<Bytes, serde_json::Error> {
    Ok(pack_json(&serde_json::from_str(text)?))
}

/// The MessagePack form of a JSON value.
pub(crate) fn pack_json(json: &Json) -> Bytes {
    let mut out = BytesMut::new();
    put_json(&mut out, json);
    out.freeze()
}

/// Recursive, but `serde_json` builds no value deeper than 128 levels.
fn put_json(out: &mut BytesMut, json: &Json) {
    match json {
        Json::Null => write::nil(out),
        Json::Bool(value) => write::bool(out, *value),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => write::uint(out, number),
            (None, Some(number)) => {
                out.put_u8(Marker::I64.to_u8());
                out.put_i64(number);
            }
            (None, None) => put_float(out, number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => write::str(out, text),
        Json::Array(items) => {
            write::list_header(out, items.len());
            items.iter().for_each(|item| put_json(out, item));
        }
        Json::Object(entries) => {
            write::map_header(out, entries.len());
            for (key, value) in entries {
                write::str(out, key);
                put_json(out, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repacked(bytes: &[u8], only_utf8: bool) -> Result<Bytes, NotUtf8> {
        repack(RawValue::parse(bytes).unwrap(), only_utf8)
    }

    #[test]
    fn binary_that_is_text_becomes_text() {
        assert_eq!(repacked(b"\xc4\x02hi", true).unwrap(), b"\xa2hi".as_slice());
    }

    #[test]
    fn other_binary_is_refused_or_kept() {
        assert_eq!(repacked(b"\xc4\x01\xff", true), Err(NotUtf8));
        assert_eq!(repacked(b"\xc4\x01\xff", false).unwrap(), b"\xc4\x01\xff".as_slice());
        // Text that lies about being UTF-8 leaves as binary.
        assert_eq!(repacked(b"\xa1\xff", false).unwrap(), b"\xc4\x01\xff".as_slice());
    }

    #[test]
    fn odd_floats_become_text() {
        let mut nan = vec![0xcb];
        nan.extend(f64::NAN.to_be_bytes());
        assert_eq!(repacked(&nan, true).unwrap(), b"\xa3nan".as_slice());
        assert_eq!(repacked(b"\xca\xff\x80\0\0", true).unwrap(), b"\xb1negative_infinity".as_slice());
        assert_eq!(repacked(b"\xca\x3f\xc0\0\0", true).unwrap(), b"\xcb\x3f\xf8\0\0\0\0\0\0".as_slice());
    }

    #[test]
    fn containers_keep_their_shape() {
        let value = b"\xdc\0\x02\xdf\0\0\0\x01\x01\xc4\x01a\x90";
        assert_eq!(repacked(value, true).unwrap(), b"\x92\x81\x01\xa1a\x90".as_slice());
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = [vec![0x91; 1_000_000], vec![0xc0]].concat();
        assert_eq!(repacked(&deep, true).unwrap(), deep);
    }

    #[test]
    fn json_is_packed() {
        let packed = from_json(r#"{"a":[null,true,-5,1.5,7,"x"]}"#).unwrap();
        let expected =
            b"\x81\xa1a\x96\xc0\xc3\xd3\xff\xff\xff\xff\xff\xff\xff\xfb\xcb\x3f\xf8\0\0\0\0\0\0\x07\xa1x";
        assert_eq!(packed, expected.as_slice());
    }
}
