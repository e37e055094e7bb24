//! Small pieces of memory, side by side.

use bytes::{Bytes, BytesMut};

/// How much is taken at once. A piece that is kept pins no more than this.
const CHUNK: usize = 4096;

/// Makes [`Bytes`] of what is small without taking memory for each: they share chunks, which are used again once nobody
/// keeps a piece of them.
#[derive(Debug, Default)]
pub(crate) struct Chunk(BytesMut);

impl Chunk {
    /// A copy of `bytes`.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> Bytes {
        self.write(bytes.len(), |out| out.extend_from_slice(bytes))
    }

    /// What `write` appends, which is at most `len` bytes, or a little more at the price of taking memory twice.
    pub(crate) fn write(&mut self, len: usize, write: impl FnOnce(&mut BytesMut)) -> Bytes {
        if len > CHUNK {
            let mut out = BytesMut::with_capacity(len);
            write(&mut out);
            return out.freeze();
        }
        if self.0.capacity() < len {
            self.0.reserve(CHUNK);
        }
        write(&mut self.0);
        self.0.split().freeze()
    }
}
