//! Appending MessagePack to a caller's buffer.
//!
//! These are the primitives that the frame encoders use; they are public for those who build a
//! [`RawValue`] by hand where serde is not at hand.

use bytes::{BufMut, BytesMut};
use rmp::Marker;

use super::RawValue;

/// Appends `nil`.
pub fn nil(out: &mut BytesMut) {
    out.put_u8(Marker::Null.to_u8());
}

/// Appends a boolean.
pub fn bool(out: &mut BytesMut, value: bool) {
    out.put_u8(if value { Marker::True } else { Marker::False }.to_u8());
}

/// Appends a non-negative integer in its shortest form.
pub fn uint(out: &mut BytesMut, value: u64) {
    if value < 0x80 {
        out.put_u8(Marker::FixPos(value as u8).to_u8());
    } else if let Ok(value) = u8::try_from(value) {
        out.put_u8(Marker::U8.to_u8());
        out.put_u8(value);
    } else if let Ok(value) = u16::try_from(value) {
        out.put_u8(Marker::U16.to_u8());
        out.put_u16(value);
    } else if let Ok(value) = u32::try_from(value) {
        out.put_u8(Marker::U32.to_u8());
        out.put_u32(value);
    } else {
        out.put_u8(Marker::U64.to_u8());
        out.put_u64(value);
    }
}

/// Appends text. Text of 4 GiB or more does not fit MessagePack and is cut there; no frame comes near that.
pub fn str(out: &mut BytesMut, value: &str) {
    let bytes = value.as_bytes();
    match bytes.len() {
        len @ 0..=31 => out.put_u8(Marker::FixStr(len as u8).to_u8()),
        len @ 32..=0xff => {
            out.put_u8(Marker::Str8.to_u8());
            out.put_u8(len as u8);
        }
        len @ 0x100..=0xffff => {
            out.put_u8(Marker::Str16.to_u8());
            out.put_u16(len as u16);
        }
        len => {
            out.put_u8(Marker::Str32.to_u8());
            out.put_u32(len as u32);
        }
    }
    out.put_slice(bytes);
}

/// Appends the header of a list; `len` values must follow.
pub fn list_header(out: &mut BytesMut, len: usize) {
    match len {
        0..=15 => out.put_u8(Marker::FixArray(len as u8).to_u8()),
        16..=0xffff => {
            out.put_u8(Marker::Array16.to_u8());
            out.put_u16(len as u16);
        }
        _ => {
            out.put_u8(Marker::Array32.to_u8());
            out.put_u32(len as u32);
        }
    }
}

/// Appends the header of a map; `len` pairs of key and value must follow.
pub fn map_header(out: &mut BytesMut, len: usize) {
    match len {
        0..=15 => out.put_u8(Marker::FixMap(len as u8).to_u8()),
        16..=0xffff => {
            out.put_u8(Marker::Map16.to_u8());
            out.put_u16(len as u16);
        }
        _ => {
            out.put_u8(Marker::Map32.to_u8());
            out.put_u32(len as u32);
        }
    }
}

/// Appends an already encoded value.
pub fn value(out: &mut BytesMut, value: RawValue<'_>) {
    out.put_slice(value.as_bytes());
}
