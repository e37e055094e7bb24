//! The grammar of topics and names, against a recogniser written from the protocol's words alone.

#[path = "support/cases.rs"]
mod cases;

use cases::cases;
use nolag_core::{Misuse, check_pattern, check_segment, check_topic};
use proptest::{collection::vec, prelude::*, sample::select};

/// A name: 1 to 100 of `a-z A-Z 0-9 _ : -` (protocol-facts §7).
fn is_name(text: &str) -> bool {
    let mut length = 0;
    for c in text.chars() {
        length += 1;
        if !matches!(c, 'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | ':' | '-') {
            return false;
        }
    }
    (1..=100).contains(&length)
}

/// Where the recogniser stands in a topic, reading from left to right.
#[derive(Clone, Copy, PartialEq)]
enum At {
    /// After so many whole segments, of which the last was or was not a `#`.
    Boundary {
        segments: usize,
        open_end: bool,
    },
    Error,
}

/// Reads a topic segment by segment: three or four names, and in a pattern `+` for any name and `#` for the rest, which
/// may stand for the third already.
fn is_topic(text: &str, wildcards: bool) -> bool {
    let mut at = At::Boundary { segments: 0, open_end: false };
    let mut rest = Some(text);
    while let Some(left) = rest {
        let (segment, after) = match left.find('/') {
            Some(slash) => (&left[..slash], Some(&left[slash + 1..])),
            None => (left, None),
        };
        rest = after;
        at = match at {
            At::Boundary { segments, open_end: false } if wildcards && segment == "#" => {
                At::Boundary { segments: segments + 1, open_end: true }
            }
            At::Boundary { segments, open_end: false }
                if is_name(segment) || (wildcards && segment == "+") =>
            {
                At::Boundary { segments: segments + 1, open_end: false }
            }
            _ => At::Error,
        };
    }
    matches!(at, At::Boundary { segments: 3 | 4, .. } | At::Boundary { segments: 2, open_end: true })
}

/// Mostly names, and what is nearly one.
fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-zA-Z0-9_:-]{1,6}",
        1 => "[a-zA-Z0-9_:-]{99,102}",
        2 => select(vec!["+", "#"]).prop_map(String::from),
        1 => Just(String::new()),
        1 => select(vec!["a+", "#a", "a b", "ü", "a.b", "a|b", "\0", "é:x"]).prop_map(String::from),
        1 => any::<String>(),
    ]
}

fn topic() -> impl Strategy<Value = String> {
    prop_oneof![8 => vec(segment(), 0..7).prop_map(|segments| segments.join("/")), 1 => any::<String>()]
}

proptest! {
    #![proptest_config(cases(1_000))]

    /// A name is accepted exactly when the grammar has it.
    #[test]
    fn names_are_those_of_the_grammar(text in segment()) {
        prop_assert_eq!(check_segment(&text).is_ok(), is_name(&text), "{:?}", text);
    }

    /// A topic to publish to, and a pattern to subscribe to, are accepted exactly when the grammar has them; a refusal
    /// says what was given.
    #[test]
    fn topics_and_patterns_are_those_of_the_grammar(text in topic()) {
        let (published, subscribed) = (check_topic(&text), check_pattern(&text));
        prop_assert_eq!(published.is_ok(), is_topic(&text, false), "{:?}: {:?}", text, published);
        prop_assert_eq!(subscribed.is_ok(), is_topic(&text, true), "{:?}: {:?}", text, subscribed);
        // Whatever can be published to can be subscribed to.
        prop_assert!(published.is_err() || subscribed.is_ok());
        for refused in [published, subscribed].into_iter().filter_map(Result::err) {
            let Misuse::InvalidTopic { topic, reason } = refused else { panic!("{refused:?}") };
            prop_assert_eq!(&*topic, text.as_str());
            prop_assert!(!reason.is_empty());
        }
    }
}
