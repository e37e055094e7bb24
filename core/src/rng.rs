//! The core's own randomness: reproducible from the caller's seed.

use core::time::Duration;

/// SplitMix64. Spreads reconnects and nothing else; it is no source of secrets.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..=max`, to the microsecond. The modulo bias over 64 bits is far below a microsecond.
    pub(crate) fn up_to(&mut self, max: Duration) -> Duration {
        let micros = u64::try_from(max.as_micros()).unwrap_or(u64::MAX).min(u64::MAX - 1);
        Duration::from_micros(self.next() % (micros + 1))
    }
}
