//! Bodies of requests, and what is wrong with them: all validation of the control plane.

use nolag_core::check_segment;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Time, api::Refusal};

/// Most characters of a name.
const MAX_NAME: usize = 255;

/// Most characters of a slug.
pub(super) const MAX_SLUG: usize = 100;

/// Most topics of an app, a room or a grant. Real control planes do not say.
const MAX_TOPICS: usize = 1000;

/// Most levels of lists and objects in one field. Readers of JSON give up at 128, and a saved state wraps each field in a
/// few levels more.
const MAX_DEPTH: usize = 64;

/// The fields of a body that nobody has read yet. All that is wrong is collected, and [`finish`](Self::finish) says it.
pub(super) struct Fields {
    map: Map<String, Value>,
    faults: Vec<String>,
}

impl Fields {
    /// The body of a creation: `null` is as good as nothing.
    pub(super) fn of_creation(body: &[u8]) -> Result<Self, Refusal> {
        let mut fields = Self::of_update(body)?;
        fields.map.retain(|_, value| !value.is_null());
        Ok(fields)
    }

    /// The body of an update: `null` empties a field.
    pub(super) fn of_update(body: &[u8]) -> Result<Self, Refusal> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(map)) => {
                let too_deep = map.iter().filter(|(_, value)| depth(value) > MAX_DEPTH);
                let fault =
                    |key: &String| format!("{} must have at most {MAX_DEPTH} levels of nesting", shown(key));
                let faults = too_deep.map(|(key, _)| fault(key)).collect();
                Ok(Self { map, faults })
            }
            Ok(_) => Err(Refusal::new(400, "the body is not a JSON object")),
            // Its words name a place in the body, and quote nothing of it.
            Err(error) => Err(Refusal::new(400, format!("the body is not JSON: {error}"))),
        }
    }

    /// A field that must be there.
    pub(super) fn required<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(Value) -> Result<T, String>,
    ) -> Option<T> {
        if !self.map.contains_key(key) {
            self.fault(format!("{key} is required"));
        }
        self.optional(key, read)
    }

    /// A field that may be absent, but not `null`.
    pub(super) fn optional<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(Value) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.nullable(key, read)?;
        if value.is_none() {
            self.fault(format!("{key} must not be null"));
        }
        value
    }

    /// A field that may be absent (the outer `None`) or `null` (the inner one).
    pub(super) fn nullable<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(Value) -> Result<T, String>,
    ) -> Option<Option<T>> {
        let value = self.map.remove(key)?;
        if value.is_null() {
            return Some(None);
        }
        match read(value) {
            Ok(value) => Some(Some(value)),
            Err(fault) => {
                self.fault(format!("{key} {fault}"));
                None
            }
        }
    }

    /// Two fields that say the same: by name, and by a flag.
    pub(super) fn on_or_off(&mut self, flag_key: &'static str) -> Option<bool> {
        let status = self.optional("status", one_of::<Status>(Status::NAMES));
        let status = status.map(|status| status == Status::Active);
        let flagged = self.optional(flag_key, flag);
        if status.is_some() && flagged.is_some() && status != flagged {
            self.fault(format!("status and {flag_key} contradict each other"));
        }
        status.or(flagged)
    }

    /// Notes something that is wrong.
    pub(super) fn fault(&mut self, fault: String) {
        self.faults.push(fault);
    }

    /// Says what is wrong, unknown fields included.
    pub(super) fn finish(mut self) -> Result<(), Refusal> {
        let unknown = self.map.keys().map(|key| format!("property {} should not exist", shown(key)));
        self.faults.extend(unknown);
        match self.faults.is_empty() {
            true => Ok(()),
            false => Err(Refusal::new(400, self.faults.join("; "))),
        }
    }
}

/// The levels of lists and objects. What was read has at most 128.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Whether something may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Status {
    #[default]
    Active,
    Disabled,
}

impl Status {
    pub(super) const NAMES: &'static [&'static str] = &["active", "disabled"];

    /// Of something that may be used or not.
    pub(super) fn of(active: bool) -> Self {
        if active { Self::Active } else { Self::Disabled }
    }
}

/// A text of any length.
pub(super) fn text(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err("must be a string".into()),
    }
}

/// A text of at most so many characters.
pub(super) fn text_up_to(max: usize) -> impl Fn(Value) -> Result<String, String> {
    move |value| {
        let text = text(value)?;
        match text.chars().count() {
            count if count > max => Err(format!("must have at most {max} characters, not {count}")),
            _ => Ok(text),
        }
    }
}

/// A text that is not empty, of at most 255 characters.
pub(super) fn name(value: Value) -> Result<String, String> {
    let name = text_up_to(MAX_NAME)(value)?;
    if name.is_empty() { Err("must not be empty".into()) } else { Ok(name) }
}

/// Words of `a-z 0-9` with one `-` between them.
pub(super) fn slug(value: Value) -> Result<String, String> {
    let slug = text_up_to(MAX_SLUG)(value)?;
    match slug.split('-').all(|word| !word.is_empty() && word.bytes().all(is_slug_byte)) {
        true => Ok(slug),
        false => Err("must be words of a-z 0-9 with one - between them".into()),
    }
}

/// `a-z 0-9` and, in between, `-`.
pub(super) fn scope_slug(value: Value) -> Result<String, String> {
    let slug = text_up_to(MAX_SLUG)(value)?;
    let inside = |byte| is_slug_byte(byte) || byte == b'-';
    match !slug.is_empty() && !slug.starts_with('-') && !slug.ends_with('-') && slug.bytes().all(inside) {
        true => Ok(slug),
        false => Err("must be a-z 0-9 and, in between, -".into()),
    }
}

fn is_slug_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// The slug that a name stands for: lower case, and one `-` for all else.
pub(super) fn slug_of(name: &str) -> Result<String, String> {
    let lower = name.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let mut slug = words.join("-");
    slug.truncate(MAX_SLUG);
    match slug.trim_end_matches('-') {
        "" => Err("cannot be made from this name; give one".into()),
        slug => Ok(slug.into()),
    }
}

/// Names of topics, each once.
pub(super) fn topics(value: Value) -> Result<Vec<String>, String> {
    const SHAPE: &str = "must be a list of strings";
    let Value::Array(items) = value else { return Err(SHAPE.into()) };
    if items.len() > MAX_TOPICS {
        return Err(format!("must be at most {MAX_TOPICS}, not {}", items.len()));
    }
    let mut topics = Vec::with_capacity(items.len());
    for item in items {
        let topic = text(item).map_err(|_| String::from(SHAPE))?;
        if check_segment(&topic).is_err() {
            return Err(format!("must each be 1 to 100 of a-z A-Z 0-9 _ : -, not {}", shown(&topic)));
        }
        if !topics.contains(&topic) {
            topics.push(topic);
        }
    }
    Ok(topics)
}

pub(super) fn flag(value: Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "must be true or false".into())
}

pub(super) fn object(value: Value) -> Result<Value, String> {
    if value.is_object() { Ok(value) } else { Err("must be an object".into()) }
}

pub(super) fn time(value: Value) -> Result<Time, String> {
    value.as_str().and_then(Time::parse).ok_or_else(|| "must be a date in ISO 8601".into())
}

/// `{url, headers?}`.
pub(super) fn webhook(value: Value) -> Result<Value, String> {
    let url = value["url"].as_str().unwrap_or_default();
    let has_host =
        ["http://", "https://"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme));
    let headers_are_fine = match &value["headers"] {
        Value::Null => true,
        Value::Object(headers) => headers.values().all(Value::is_string),
        _ => false,
    };
    match value.is_object() && has_host && headers_are_fine {
        true => Ok(value),
        false => {
            Err("must have a url, http:// or https://, and may have headers, an object of strings".into())
        }
    }
}

/// One of a few names.
pub(super) fn one_of<T: DeserializeOwned>(
    names: &'static [&'static str],
) -> impl Fn(Value) -> Result<T, String> {
    move |value| {
        let known = value.as_str().is_some_and(|name| names.contains(&name));
        let read = known.then(|| serde_json::from_value(value).ok()).flatten();
        read.ok_or_else(|| format!("must be one of {}", names.join(", ")))
    }
}

/// The beginning of what a client sent.
pub(super) fn shown(text: &str) -> String {
    const MOST: usize = 100;
    let start: String = text.chars().take(MOST).collect();
    let more = if text.chars().count() > MOST { "…" } else { "" };
    format!("{start:?}{more}")
}

/// Takes over a field that was sent.
pub(super) fn put<T>(field: &mut T, sent: Option<T>) {
    if let Some(sent) = sent {
        *field = sent;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn slugs_are_made_from_names() {
        let cases = [("General", "general"), ("  Hot -- Topics! ", "hot-topics"), ("Café 2", "caf-2")];
        for (name, expected) in cases {
            assert_eq!(slug_of(name).as_deref(), Ok(expected));
            assert!(slug(json!(expected)).is_ok());
        }
        let cut = slug_of(&"abcd ".repeat(30)).unwrap();
        assert!(cut.len() <= MAX_SLUG && slug(json!(cut)).is_ok(), "{cut}");
        assert!(slug_of("日本").is_err() && slug_of("--").is_err());
    }

    #[test]
    fn scope_slugs_may_hold_several_hyphens_in_a_row() {
        assert!(scope_slug(json!("a--b")).is_ok() && slug(json!("a--b")).is_err());
        for bad in ["", "-a", "a-", "A", "a b", "a/b"] {
            assert!(scope_slug(json!(bad)).is_err() && slug(json!(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let mut fields = Fields::of_creation(br#"{"name": 1, "colour": 2, "flag": null}"#).unwrap();
        assert_eq!(fields.required("name", name), None);
        assert_eq!(fields.required("slug", slug), None);
        assert_eq!(fields.optional("flag", flag), None);
        let refusal = fields.finish().unwrap_err();
        let expected = "name must be a string; slug is required; property \"colour\" should not exist";
        assert_eq!((refusal.status, refusal.message.as_str()), (400, expected));
    }

    #[test]
    fn null_empties_what_can_be_empty_and_nothing_else() {
        let mut fields = Fields::of_update(br#"{"a": null, "b": null}"#).unwrap();
        assert_eq!(fields.nullable("a", text), Some(None));
        assert_eq!(fields.nullable("c", text), None);
        assert_eq!(fields.optional("b", text), None);
        assert_eq!(fields.finish().unwrap_err().message, "b must not be null");
    }
}
