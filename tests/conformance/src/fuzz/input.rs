//! Choices, one after the other, out of the bytes of an input.

use std::time::Duration;

/// What is left of an input. Once it is used up every choice is the first one, so a script ends by itself.
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `limit`, which is not 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    pub(super) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Those of `choices` whose bits are set in the next byte.
    pub(super) fn some_of<T: Copy>(&mut self, choices: &[T]) -> Vec<T> {
        let bits = self.byte();
        choices.iter().enumerate().filter(|(n, _)| bits >> n & 1 == 1).map(|(_, choice)| *choice).collect()
    }

    /// Bytes after their length in one byte; all that is left if that is less.
    pub(super) fn block(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte());
        self.bytes(len)
    }

    /// Bytes after their length in two bytes, the high one first; all that is left if that is less, or the length is the
    /// highest that there is.
    pub(super) fn long_block(&mut self) -> &'a [u8] {
        let len = u16::from(self.byte()) << 8 | u16::from(self.byte());
        self.bytes(if len == u16::MAX { usize::MAX } else { len.into() })
    }

    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (block, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        block
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }

    /// A span of time around those that the protocol knows.
    pub(super) fn span(&mut self) -> Duration {
        const MILLIS: [u64; 16] = [
            0, 1, 20, 50, 500, 1_000, 1_001, 2_000, 5_000, 9_999, 10_000, 30_001, 60_000, 300_000, 3_600_000,
            86_400_000,
        ];
        Duration::from_millis(self.pick(&MILLIS))
    }
}
