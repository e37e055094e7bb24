//! What a publish carries and a message delivers.

use alloc::boxed::Box;
use core::{fmt, ops::Range};

use bytes::Bytes;

use crate::{
    error::Misuse,
    wire::{MAX_DATA_BYTES, RawValue},
};

/// Nesting depth that [`Payload::decode`] accepts unless told otherwise: typed decoding recurses, and a hostile sender
/// must not be able to exhaust a thread's stack.
pub const DEFAULT_MAX_DEPTH: usize = 64;

/// One MessagePack value, owned. Cheap to clone.
///
/// Make one with [`encode`](Self::encode) from any serde type, or with [`from_msgpack`](Self::from_msgpack) from bytes.
/// Read it with [`decode`](Self::decode), [`text`](Self::text), [`binary`](Self::binary) or [`raw`](Self::raw).
#[derive(Clone)]
pub struct Payload {
    /// Perhaps more than the value: the frame that it came in.
    frame: Bytes,
    start: usize,
    /// An empty value is `nil`: it was not there.
    end: usize,
}

impl Payload {
    /// Takes bytes that are already MessagePack.
    ///
    /// # Errors
    /// [`Misuse::InvalidPayload`] when the bytes are not exactly one value.
    pub fn from_msgpack(bytes: impl Into<Bytes>) -> Result<Self, Misuse> {
        let bytes = bytes.into();
        RawValue::parse(&bytes).map_err(Misuse::InvalidPayload)?;
        Ok(Self::whole(bytes))
    }

    pub(crate) fn nil() -> Self {
        Self::whole(Bytes::new())
    }

    fn whole(bytes: Bytes) -> Self {
        Self { start: 0, end: bytes.len(), frame: bytes }
    }

    /// Copies or shares the bytes of a value inside `frame`: what is small is copied, so that what is kept for long does
    /// not pin a large read buffer.
    pub(crate) fn from_frame(frame: &Bytes, value: RawValue<'_>) -> Self {
        let bytes = value.as_bytes();
        let large = bytes.len() >= 4096 && bytes.len() * 2 >= frame.len();
        Self::whole(if large { frame.slice_ref(bytes) } else { Bytes::copy_from_slice(bytes) })
    }

    /// The value that stands there in `frame`, which is kept as a whole.
    pub(crate) fn within(frame: Bytes, place: Range<usize>) -> Self {
        Self { frame, start: place.start, end: place.end }
    }

    /// What holds the value.
    pub(crate) fn frame(&self) -> &Bytes {
        &self.frame
    }

    /// Encodes any serde type. Structs become maps with named fields.
    ///
    /// # Errors
    /// [`Misuse::Encode`] when the type cannot be written, [`Misuse::Extension`] when it holds a MessagePack extension.
    #[cfg(feature = "std")]
    pub fn encode<T: serde::Serialize + ?Sized>(value: &T) -> Result<Self, Misuse> {
        use alloc::string::ToString;
        let bytes =
            rmp_serde::to_vec_named(value).map_err(|error| Misuse::Encode(error.to_string().into()))?;
        let payload = Self::from_msgpack(bytes)?;
        match payload.raw().find_extension() {
            Some(_) => Err(Misuse::Extension),
            None => Ok(payload),
        }
    }

    /// Decodes into any serde type, which may borrow from the payload.
    ///
    /// Byte fields accept `bin` and `str`, because Kraken turns a `bin` that happens to be UTF-8 into `str`.
    ///
    /// # Errors
    /// [`DecodeError`] when the value is not of that type or nests deeper than [`DEFAULT_MAX_DEPTH`].
    #[cfg(feature = "std")]
    pub fn decode<'de, T: serde::Deserialize<'de>>(&'de self) -> Result<T, DecodeError> {
        self.decode_with_depth(DEFAULT_MAX_DEPTH)
    }

    /// As [`decode`](Self::decode) with a nesting limit of your own.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    #[cfg(feature = "std")]
    pub fn decode_with_depth<'de, T: serde::Deserialize<'de>>(
        &'de self,
        max_depth: usize,
    ) -> Result<T, DecodeError> {
        use alloc::string::ToString;
        let mut reader = rmp_serde::Deserializer::from_read_ref(self.as_msgpack());
        reader.set_max_depth(max_depth);
        T::deserialize(&mut reader).map_err(|error| DecodeError(error.to_string().into()))
    }

    /// The text of a `str`, or of a `bin` that holds UTF-8.
    pub fn text(&self) -> Option<&str> {
        self.raw().as_str()
    }

    /// The bytes of a `bin` or a `str`.
    pub fn binary(&self) -> Option<&[u8]> {
        self.raw().as_binary()
    }

    /// The value, for reading without serde.
    pub fn raw(&self) -> RawValue<'_> {
        RawValue::known(self.as_msgpack())
    }

    /// The encoded bytes.
    pub fn as_msgpack(&self) -> &[u8] {
        match self.frame.get(self.start..self.end) {
            Some(bytes) if !bytes.is_empty() => bytes,
            _ => RawValue::NIL.as_bytes(),
        }
    }

    /// Packed size in bytes: what the broker's limit counts.
    pub fn packed_len(&self) -> usize {
        self.as_msgpack().len()
    }

    /// Whether a broker would take this: within the size limit and without extensions.
    pub(crate) fn check_sendable(&self) -> Result<(), Misuse> {
        if self.packed_len() > MAX_DATA_BYTES {
            return Err(Misuse::DataTooLarge { len: self.packed_len() });
        }
        match self.raw().find_extension() {
            Some(_) => Err(Misuse::Extension),
            None => Ok(()),
        }
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.as_msgpack() == other.as_msgpack()
    }
}

impl Eq for Payload {}

/// Shows kind and size only.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.raw(), f)
    }
}

/// A payload that is not of the type asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError(Box<str>);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the payload is not of the expected type: {}", self.0)
    }
}

impl core::error::Error for DecodeError {}
