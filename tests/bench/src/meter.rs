//! Counting for a while.

use std::time::{Duration, Instant};

use crate::{
    Figures,
    frames::{FIRST, number},
};

/// The clock is read once in so many steps: reading it must not be what is measured.
const LOOK_EVERY: u64 = 64;

/// Counts what is done during the time that is measured, after the warm-up.
#[derive(Debug)]
pub(crate) struct Meter {
    warm: Instant,
    duration: Duration,
    every: u64,
    count: u64,
    /// When the measured time began, and what had been counted then.
    began: Option<(Instant, u64)>,
    ended: Option<(Instant, u64)>,
}

impl Meter {
    /// Starts now. For what takes a microsecond or so.
    pub(crate) fn start(warmup: Duration, duration: Duration) -> Self {
        Self {
            warm: Instant::now() + warmup,
            duration,
            every: LOOK_EVERY,
            count: 0,
            began: None,
            ended: None,
        }
    }

    /// Starts now, and looks at the clock each time.
    pub(crate) fn precise(warmup: Duration, duration: Duration) -> Self {
        Self { every: 1, ..Self::start(warmup, duration) }
    }

    /// Counts one. Returns whether to go on.
    pub(crate) fn step(&mut self) -> bool {
        self.count += 1;
        !self.count.is_multiple_of(self.every) || self.look()
    }

    /// Counts what was done meanwhile. Returns whether to go on.
    pub(crate) fn add(&mut self, count: u64) -> bool {
        self.count += count;
        self.look()
    }

    /// Whether what is done now counts.
    pub(crate) fn is_measuring(&self) -> bool {
        self.began.is_some() && self.ended.is_none()
    }

    fn look(&mut self) -> bool {
        let now = Instant::now();
        match self.began {
            None if now >= self.warm => self.began = Some((now, self.count)),
            Some((began, _)) if self.ended.is_none() && now - began >= self.duration => {
                self.ended = Some((now, self.count));
            }
            _ => {}
        }
        self.ended.is_none()
    }

    pub(crate) fn figures(&self) -> Figures {
        match (self.began, self.ended) {
            (Some((began, before)), Some((ended, after))) => Figures::rate(after - before, ended - began),
            _ => Figures::rate(0, Duration::ZERO),
        }
    }
}

/// Whether every message arrives, once and in order.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    next: Option<u64>,
    lost: u64,
    duplicates: u64,
}

impl Sequence {
    pub(crate) fn take(&mut self, data: &[u8]) {
        let number = number(data);
        let next = self.next.unwrap_or(FIRST);
        if number >= next {
            self.lost += number - next;
            self.next = Some(number + 1);
        } else {
            self.duplicates += 1;
        }
    }

    /// Forgets what was found, not where it is.
    pub(crate) fn forget(&mut self) {
        (self.lost, self.duplicates) = (0, 0);
    }

    /// Adds what was found.
    pub(crate) fn judge(&self, figures: Figures) -> Figures {
        Figures {
            lost: figures.lost + self.lost,
            duplicates: figures.duplicates + self.duplicates,
            ..figures
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::payload;

    #[test]
    fn only_the_time_after_the_warm_up_counts() {
        let mut meter = Meter::precise(Duration::ZERO, Duration::ZERO);
        assert_eq!(meter.figures().count, Some(0));
        assert!(meter.add(100), "this begins it");
        assert!(meter.is_measuring());
        assert!(!meter.add(7), "this ends it");
        assert_eq!(meter.figures().count, Some(7));
    }

    #[test]
    fn gaps_and_repetitions_are_noticed() {
        let mut sequence = Sequence::default();
        for n in [0, 1, 4, 4, 5] {
            sequence.take(&payload("", FIRST + n));
        }
        let figures = sequence.judge(Figures::default());
        assert_eq!((figures.lost, figures.duplicates), (2, 1));
    }
}
