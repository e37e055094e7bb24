//! The heads of HTTP answers: where they end, and which of them are not yet the answer.

use tungstenite::http::StatusCode;

/// Where the head that these bytes begin with ends, if it does. Some servers end lines without a carriage return.
pub(super) fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let mut line_is_empty = false;
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b'\n' if line_is_empty => return Some(index + 1),
            b'\n' => line_is_empty = true,
            b'\r' => {}
            _ => line_is_empty = false,
        }
    }
    None
}

/// The status in a head, if it is one of HTTP/1.
pub(super) fn status_of(head: &[u8]) -> Option<StatusCode> {
    let line = head.split(|byte| matches!(byte, b'\r' | b'\n')).next()?;
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let version = words.next()?;
    let status = words.next()?;
    matches!(version, b"HTTP/1.1" | b"HTTP/1.0").then(|| StatusCode::from_bytes(status).ok())?
}

/// Whether another answer follows: servers may say that they have begun (`100`, `102`, `103`).
pub(super) fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_with_an_empty_line() {
        for (text, end) in [
            ("HTTP/1.1 200 OK\r\nVia: x\r\n\r\nrest", Some(27)),
            ("HTTP/1.1 200 OK\n\nrest", Some(17)),
            ("HTTP/1.1 200 OK\r\n\nrest", Some(18)),
            ("HTTP/1.1 200 OK\r\n", None),
            ("HTTP/1.1 200 OK\r\n\r", None),
            ("", None),
        ] {
            assert_eq!(end_of_head(text.as_bytes()), end, "{text:?}");
        }
    }

    #[test]
    fn a_status_has_three_digits_behind_a_version() {
        for (text, status) in [
            ("HTTP/1.1 200 OK\r\n\r\n", Some(200)),
            ("HTTP/1.0 407\r\n\r\n", Some(407)),
            ("HTTP/1.1 101 Switching Protocols\n\n", Some(101)),
            ("HTTP/junk 200 OK\r\n\r\n", None),
            ("HTTP/2 200\r\n\r\n", None),
            ("HTTP/1.1 20 OK\r\n\r\n", None),
            ("HTTP/1.1 2000 OK\r\n\r\n", None),
            ("HTTP/1.1  200 OK\r\n\r\n", None),
            ("HTTP/1.1\r\n\r\n", None),
            ("200 OK\r\n\r\n", None),
        ] {
            assert_eq!(status_of(text.as_bytes()).map(|status| status.as_u16()), status, "{text:?}");
        }
    }

    #[test]
    fn only_some_informational_answers_are_followed_by_another() {
        let interim = |status| is_interim(StatusCode::from_u16(status).unwrap());
        assert!(interim(100) && interim(103) && !interim(101) && !interim(200));
    }
}
