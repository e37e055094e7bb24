//! Topics as paths of segments, with the MQTT wildcards `+` (one segment) and `#` (the rest).

/// Whether `topic` falls under `pattern`. A `#` also matches no segment at all.
pub(crate) fn matches(pattern: &str, topic: &str) -> bool {
    if let Some(parent) = pattern.strip_suffix("/#") {
        return remainder(parent, topic).is_some();
    }
    pattern == "#" || remainder(pattern, topic) == Some(None)
}

/// What is left of `topic` after the segments of `base`: `None` when they differ, `Some(None)` when nothing is left.
///
/// A `#` inside `base` matches nothing: the broker appends its own `#`, and two of them are no valid pattern.
pub(crate) fn remainder<'t>(base: &str, topic: &'t str) -> Option<Option<&'t str>> {
    let mut left = Some(topic);
    for wanted in base.split('/') {
        let (segment, rest) = match left?.split_once('/') {
            Some((segment, rest)) => (segment, Some(rest)),
            None => (left?, None),
        };
        if wanted == "#" || (wanted != "+" && wanted != segment) {
            return None;
        }
        left = rest;
    }
    Some(left)
}

/// Whether a topic contains a wildcard segment.
pub(crate) fn has_wildcard(topic: &str) -> bool {
    topic.split('/').any(|segment| segment == "+" || segment == "#")
}

/// The topic and each of its ancestors, longest first.
pub(crate) fn prefixes(topic: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(topic), |topic| topic.rsplit_once('/').map(|(parent, _)| parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_as_in_mqtt() {
        assert!(matches("a/b/#", "a/b/c/d"));
        assert!(matches("a/b/#", "a/b"));
        assert!(!matches("a/b/#", "a"));
        assert!(matches("a/+/c", "a/b/c"));
        assert!(!matches("a/+", "a/b/c"));
        assert!(matches("#", "anything/at/all"));
        assert!(matches("a/b/#", "a/b/+"));
        assert!(!matches("a/#/c", "a/b/c"));
    }

    #[test]
    fn remainders() {
        assert_eq!(remainder("a/b", "a/b"), Some(None));
        assert_eq!(remainder("a/b", "a/b/x/y"), Some(Some("x/y")));
        assert_eq!(remainder("a/+", "a/b/x"), Some(Some("x")));
        assert_eq!(remainder("a/b", "a/bc"), None);
        assert_eq!(remainder("a/#", "a/b"), None);
        assert_eq!(remainder("a/b", "a/b/"), Some(Some("")));
    }

    #[test]
    fn prefixes_are_ancestors() {
        assert_eq!(prefixes("a/b/c").collect::<Vec<_>>(), ["a/b/c", "a/b", "a"]);
    }
}
