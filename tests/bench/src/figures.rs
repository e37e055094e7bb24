//! What was measured.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::{Error, Result, Work};

/// What one case did in one round.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurement {
    /// What was done.
    pub work: Work,
    /// By whom, or how: names are unique within a work.
    pub case: &'static str,
    /// In which round, from 1.
    pub round: usize,
    /// What came out.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What came out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Figures {
    /// How long it was measured.
    #[serde(skip_serializing_if = "is_zero")]
    pub seconds: f64,
    /// Messages, or whatever the work is about, that arrived, were confirmed or were done in that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The same per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// Messages of the whole case, also outside the time, that never arrived.
    pub lost: u64,
    /// Messages that arrived twice or out of order.
    pub duplicates: u64,
    /// Messages that were not confirmed.
    pub failed: u64,
    /// How long each took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// How much memory each takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

impl Figures {
    pub(crate) fn rate(count: u64, time: Duration) -> Self {
        let seconds = time.as_secs_f64();
        let per_second = (seconds > 0.0).then(|| count as f64 / seconds);
        Self { seconds, count: Some(count), per_second, ..Self::default() }
    }

    pub(crate) fn memory(bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..Self::default() }
    }

    /// Whether something went wrong that a benchmark must not hide.
    pub fn is_clean(&self) -> bool {
        self.lost == 0 && self.duplicates == 0 && self.failed == 0
    }
}

/// Percentiles of times, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// Half took no longer.
    pub p50_us: f64,
    /// 90 %.
    pub p90_us: f64,
    /// 99 %.
    pub p99_us: f64,
    /// 99.9 %.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// Gathers times.
pub(crate) struct Times(Histogram<u64>);

impl Times {
    /// Three digits of precision, in nanoseconds.
    pub(crate) fn new() -> Result<Self> {
        let histogram = Histogram::new(3).map_err(|error| Error::other(error.to_string()))?;
        Ok(Self(histogram))
    }

    pub(crate) fn record(&mut self, time: Duration) {
        // It grows with what is recorded; a time of centuries is not.
        let _ = self.0.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn latency(&self) -> Latency {
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let at = |quantile| micros(self.0.value_at_quantile(quantile));
        Latency {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: micros(self.0.max()),
        }
    }
}
