//! Points in time as the API writes them.

use std::{fmt, time::Duration};

use jiff::{SignedDuration, civil, fmt::temporal::Pieces};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

const EPOCH: civil::DateTime = civil::DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// A point in time, to the millisecond. In JSON it is ISO 8601, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time {
    unix_millis: u64,
}

impl Time {
    /// The time so long after the beginning of 1970.
    pub(crate) fn since_1970(time: Duration) -> Self {
        Self { unix_millis: u64::try_from(time.as_millis()).unwrap_or(u64::MAX) }
    }

    /// How long after the beginning of 1970 it is.
    pub(crate) fn as_duration(self) -> Duration {
        Duration::from_millis(self.unix_millis)
    }

    /// Reads ISO 8601. Without an offset it is in UTC, without a time it is midnight.
    ///
    /// A point in time of jiff would end a day before the end of the year 9999, which people write for "never".
    pub(super) fn parse(text: &str) -> Option<Self> {
        let pieces = Pieces::parse(text).ok()?;
        let local = pieces.date().to_datetime(pieces.time().unwrap_or_default());
        let offset = pieces.to_numeric_offset().map_or(0, |offset| offset.seconds());
        let time = local.duration_since(EPOCH) - SignedDuration::from_secs(offset.into());
        // Whatever was before 1970 is over.
        Some(Self { unix_millis: u64::try_from(time.as_millis()).unwrap_or(0) })
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = SignedDuration::from_millis(i64::try_from(self.unix_millis).unwrap_or(i64::MAX));
        write!(f, "{:.3}Z", EPOCH.saturating_add(millis))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not a date in ISO 8601"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_and_read_in_any_form_of_iso_8601() {
        let read = |text| Time::parse(text).map(|time| time.to_string());
        assert_eq!(read("2026-11-30T12:00:00.5Z").as_deref(), Some("2026-11-30T12:00:00.500Z"));
        assert_eq!(read("2026-11-30T12:00:00+02:00").as_deref(), Some("2026-11-30T10:00:00.000Z"));
        assert_eq!(read("2026-11-30T12:00:00").as_deref(), Some("2026-11-30T12:00:00.000Z"));
        assert_eq!(read("2026-11-30").as_deref(), Some("2026-11-30T00:00:00.000Z"));
        assert_eq!(read("9999-12-31T23:59:59Z").as_deref(), Some("9999-12-31T23:59:59.000Z"));
        assert_eq!(read("9999-12-31T23:59:59.999-12:00").as_deref(), Some("9999-12-31T23:59:59.999Z"));
        assert_eq!(read("1066-10-14").as_deref(), Some("1970-01-01T00:00:00.000Z"));
        for text in ["", "tomorrow", "12", "2026-13-01", "10000-01-01"] {
            assert_eq!(read(text), None, "{text}");
        }
        let far = Time::since_1970(Duration::MAX).to_string();
        assert!(far.starts_with("9999-12-31"), "{far}");
    }
}
