//! The grammar of topics (protocol-facts §7).

use crate::error::Misuse;

/// Most characters of one segment.
pub const MAX_SEGMENT: usize = 100;

/// Checks a topic to publish to: `app/room/topic`, or `app/scope/room/topic`.
///
/// # Errors
/// [`Misuse::InvalidTopic`] with the reason.
pub fn check_topic(topic: &str) -> Result<(), Misuse> {
    check(topic, false)
}

/// Checks a topic to subscribe to, where `+` may stand for a segment and `#` for the rest.
///
/// # Errors
/// [`Misuse::InvalidTopic`] with the reason.
pub fn check_pattern(topic: &str) -> Result<(), Misuse> {
    check(topic, true)
}

/// Checks one segment: the name of an app, a room or a topic.
///
/// # Errors
/// [`Misuse::InvalidTopic`] with the reason.
pub fn check_segment(segment: &str) -> Result<(), Misuse> {
    segment_fault(segment).map_or(Ok(()), |reason| Err(invalid(segment, reason)))
}

fn check(topic: &str, wildcards: bool) -> Result<(), Misuse> {
    if is_plain(topic) { Ok(()) } else { check_closely(topic, wildcards) }
}

/// Whether it is a topic without wildcards: a quick look, as it is taken at each message.
fn is_plain(topic: &str) -> bool {
    let (mut separators, mut start) = (0, 0);
    for (at, byte) in topic.bytes().enumerate() {
        if byte == b'/' {
            if at == start || at - start > MAX_SEGMENT {
                return false;
            }
            (separators, start) = (separators + 1, at + 1);
        } else if !is_allowed(byte) {
            return false;
        }
    }
    let last = topic.len() - start;
    matches!(separators, 2 | 3) && (1..=MAX_SEGMENT).contains(&last)
}

/// What names are made of, by byte.
static ALLOWED: [bool; 256] = {
    let mut allowed = [false; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        allowed[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'-');
        byte += 1;
    }
    allowed
};

fn is_allowed(byte: u8) -> bool {
    ALLOWED[usize::from(byte)]
}

fn check_closely(topic: &str, wildcards: bool) -> Result<(), Misuse> {
    let segments = topic.split('/').count();
    let mut open_end = false;
    for (index, segment) in topic.split('/').enumerate() {
        let last = index + 1 == segments;
        match segment {
            "+" if wildcards => {}
            "#" if wildcards && last => open_end = true,
            "#" if wildcards => return Err(invalid(topic, "# may only stand at the end")),
            "+" | "#" => return Err(invalid(topic, "wildcards are for subscriptions only")),
            _ => {
                if let Some(reason) = segment_fault(segment) {
                    return Err(invalid(topic, reason));
                }
            }
        }
    }
    match segments {
        3 | 4 => Ok(()),
        2 if open_end => Ok(()),
        _ => Err(invalid(topic, "a topic is app/room/topic: three names with / between them")),
    }
}

fn segment_fault(segment: &str) -> Option<&'static str> {
    if segment.is_empty() {
        Some("a name is empty")
    } else if segment.len() > MAX_SEGMENT {
        Some("a name has more than 100 characters")
    } else if !segment.bytes().all(is_allowed) {
        Some("names hold only A-Z a-z 0-9 _ : -")
    } else {
        None
    }
}

fn invalid(topic: &str, reason: &'static str) -> Misuse {
    Misuse::InvalidTopic { topic: topic.into(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_three_or_four_names() {
        for good in ["demo/general/messages", "a/b/webrtc:offer", "app/scope/room/topic"] {
            assert_eq!(check_topic(good), Ok(()), "{good}");
        }
        for bad in ["", "a", "a/b", "a/b/c/d/e", "a//c", "a/b/", "/a/b", "a/b/c d", "a/b/ü", "a/b/+", "a/b/#"]
        {
            assert!(check_topic(bad).is_err(), "{bad}");
        }
        let long = "x".repeat(101);
        assert!(check_topic(&alloc::format!("a/b/{long}")).is_err());
    }

    #[test]
    fn patterns_take_wildcards_where_mqtt_does() {
        for good in ["a/b/+", "a/+/c", "a/#", "a/b/#", "+/+/+"] {
            assert_eq!(check_pattern(good), Ok(()), "{good}");
        }
        for bad in ["#", "a/#/c", "a/b+/c", "a/b/c#"] {
            assert!(check_pattern(bad).is_err(), "{bad}");
        }
    }
}
