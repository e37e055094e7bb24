//! What can never work is refused before it is sent (protocol-facts §6, §7).

use alloc::{format, string::String};

use super::{ApiError, Json, error::misuse};
use crate::{Misuse, check_segment};

/// Most characters of the name of anything.
const MAX_NAME: usize = 255;

/// Most characters of a slug.
const MAX_SLUG: usize = 100;

/// Checks an id that goes into a path. `.` and `..` would be taken for steps in it, even encoded.
pub(super) fn id(what: &'static str, id: &str) -> Result<(), ApiError> {
    match id {
        "" => Err(misuse(what, "is empty")),
        "." | ".." => Err(misuse(what, "is a step in a path, not an id")),
        _ => Ok(()),
    }
}

/// Checks a name.
pub(super) fn name(name: &str) -> Result<(), ApiError> {
    if name.is_empty() {
        return Err(misuse("name", "is empty"));
    }
    length("name", Some(name), MAX_NAME)
}

/// Checks how long a text is.
pub(super) fn length(what: &'static str, text: Option<&str>, max: usize) -> Result<(), ApiError> {
    match text.map(|text| text.chars().count()) {
        Some(count) if count > max => Err(misuse(what, format!("has {count} characters, at most {max}"))),
        _ => Ok(()),
    }
}

/// Checks the slug of an app or a room.
pub(super) fn slug(slug: Option<&String>) -> Result<(), ApiError> {
    let Some(slug) = slug else { return Ok(()) };
    if !slug.split('-').all(|word| !word.is_empty() && word.bytes().all(is_slug_byte)) {
        return Err(misuse("slug", "holds something else than words of a-z 0-9 with one - between them"));
    }
    length("slug", Some(slug), MAX_SLUG)
}

/// Checks the slug of a scope, which may hold several hyphens in a row.
pub(super) fn scope_slug(slug: &str) -> Result<(), ApiError> {
    let fine = |byte| is_slug_byte(byte) || byte == b'-';
    if slug.is_empty() || slug.starts_with('-') || slug.ends_with('-') || !slug.bytes().all(fine) {
        return Err(misuse("slug", "holds something else than a-z 0-9 and, in between, -"));
    }
    length("slug", Some(slug), MAX_SLUG)
}

fn is_slug_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Checks the names of topics.
pub(super) fn topics(topics: Option<&[String]>) -> Result<(), ApiError> {
    topics.unwrap_or_default().iter().try_for_each(|name| topic(name))
}

/// Checks the name of a topic.
pub(super) fn topic(name: &str) -> Result<(), ApiError> {
    check_segment(name).map_err(|error| match error {
        Misuse::InvalidTopic { topic, reason } => misuse("topic", format!("{topic:?}: {reason}")),
        other => misuse("topic", format!("{other}")),
    })
}

/// Checks that free-form JSON is an object, or `null`.
pub(super) fn object(what: &'static str, json: Option<&Json>) -> Result<(), ApiError> {
    match json {
        Some(json) if !json.is_object() && !json.is_null() => Err(misuse(what, "is not a JSON object")),
        _ => Ok(()),
    }
}
