//! The header `Retry-After`: a number of seconds or a date.

use core::time::Duration;

/// Reads seconds. A part of one counts as a whole one; more than there can be is the most there can be.
pub(super) fn seconds(header: &str) -> Option<Duration> {
    let header = header.trim();
    let (whole, part) = header.split_once('.').unwrap_or((header, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let more = u64::from(part.bytes().any(|digit| digit != b'0'));
    Some(Duration::from_secs(whole.parse::<u64>().unwrap_or(u64::MAX).saturating_add(more)))
}

/// Reads a date as servers write it, `Sun, 06 Nov 1994 08:49:37 GMT`: the time since the beginning of 1970.
pub(super) fn date(header: &str) -> Option<Duration> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

    let (_, date) = header.trim().split_once(", ")?;
    let mut parts = date.split(' ');
    let mut part = || parts.next();
    let (day, month, year) = (number(part()?, 2)?, part()?, number(part()?, 4)?);
    let month = MONTHS.iter().zip(1..).find_map(|(name, number)| (*name == month).then_some(number))?;
    let mut time = part()?.split(':').map(|text| number(text, 2));
    let mut unit = || time.next().flatten();
    let (hours, minutes, seconds) = (unit()?, unit()?, unit()?);
    // 60 is a leap second.
    let fits = (1..=31).contains(&day) && hours < 24 && minutes < 60 && seconds <= 60;
    if !fits || part() != Some("GMT") || part().is_some() || year < 1970 {
        return None;
    }
    Some(Duration::from_secs((days(year, month, day) * 24 + hours) * 3600 + minutes * 60 + seconds))
}

fn number(text: &str, digits: usize) -> Option<u64> {
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// From the beginning of 1970 to a day of the Gregorian calendar that is not before it.
fn days(year: u64, month: u64, day: u64) -> u64 {
    // Years that begin with March have their leap day at the end.
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let before_year = year * 365 + year / 4 - year / 100 + year / 400;
    // From the 1st of March of the year 0 to 1970.
    before_year + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_the_form_that_servers_write() {
        let secs = |text| date(text).map(|date| date.as_secs());
        assert_eq!(secs("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(secs("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(secs(" Thu, 29 Feb 2024 23:59:59 GMT "), Some(1_709_251_199));
        assert_eq!(secs("Fri, 01 Mar 2024 00:00:00 GMT"), Some(1_709_251_200));
        assert_eq!(secs("Fri, 31 Dec 9999 23:59:60 GMT"), Some(253_402_300_800));
        for bad in [
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT x",
            "",
        ] {
            assert_eq!(secs(bad), None, "{bad}");
        }
    }
}
