//! Reading answers: forgiving about everything but ids.

use alloc::{
    boxed::Box,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{
    fmt,
    ops::{Deref, DerefMut},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{Page, list};
use crate::text_enum::text_enum;

/// Free-form JSON. It is used as the [`Value`] in it.
///
/// Settings may hold credentials, so its `Debug` shows the names at its top and nothing else of it.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(pub Value);

impl Deref for Json {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl DerefMut for Json {
    fn deref_mut(&mut self) -> &mut Value {
        &mut self.0
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self(value)
    }
}

impl From<Json> for Value {
    fn from(json: Json) -> Self {
        json.0
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::Null => f.write_str("null"),
            Value::Object(map) => f.debug_set().entries(map.keys()).finish(),
            Value::Array(items) => write!(f, "[{} items]", items.len()),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => f.write_str("(a value)"),
        }
    }
}

text_enum! {
    /// Whether an app, a room or an actor may be used.
    ResourceStatus {
        /// It may.
        Active = "active",
        /// It was switched off.
        Disabled = "disabled",
        /// The operator of the service switched it off.
        Suspended = "suspended",
    }
}

/// Something that answers describe.
pub(super) trait Resource: Sized {
    /// The name of the field with its id.
    const ID: &'static str;

    /// Reads it; the error says what is wrong.
    fn read(fields: Fields) -> Result<Self, String>;
}

/// The fields of an object that nobody has taken yet.
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    fn of(value: Value) -> Result<Self, String> {
        match value {
            Value::Object(map) => Ok(Self(map)),
            _ => Err("expected an object".into()),
        }
    }

    /// Takes an id, which may be a number.
    pub(super) fn id(&mut self, name: &str) -> Result<String, String> {
        match self.0.remove(name) {
            Some(Value::String(id)) if !id.is_empty() => Ok(id),
            Some(Value::Number(id)) => Ok(id.to_string()),
            _ => Err(format!("there is no {name}")),
        }
    }

    /// Takes a text; empty if there is none.
    pub(super) fn text(&mut self, name: &str) -> String {
        self.take(name).unwrap_or_default()
    }

    /// Takes a field. One of another type stays, and so ends in `extra`.
    pub(super) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        let value = self.0.get(name)?;
        if value.is_null() {
            self.0.remove(name);
            return None;
        }
        let taken = T::deserialize(value).ok()?;
        self.0.remove(name);
        Some(taken)
    }

    /// Forgets a field.
    pub(super) fn discard(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// What is left.
    pub(super) fn extra(self) -> Json {
        Json(Value::Object(self.0))
    }
}

/// Reads an object.
pub(super) fn one<T: Resource>(body: &[u8]) -> Result<T, String> {
    T::read(Fields::of(value(body)?)?)
}

/// Reads a page, or a plain list as one.
pub(super) fn page<T: Resource>(body: &[u8]) -> Result<Page<T>, String> {
    let (items, pagination) = match value(body)? {
        Value::Array(items) => (items, None),
        Value::Object(mut page) => match page.remove("data") {
            // `pagination` is what control planes send; `meta` is in older documents.
            Some(Value::Array(items)) => (items, page.remove("pagination").or_else(|| page.remove("meta"))),
            _ => return Err("expected a list, or an object with a list named data".into()),
        },
        _ => return Err("expected a list".into()),
    };
    let pagination = list::pagination(pagination, items.len());
    let mut ids = list::Ids::default();
    let read = |(index, item)| {
        let read = Fields::of(item).and_then(|fields| {
            ids.add(fields.0.get(T::ID).and_then(scalar).as_deref().unwrap_or_default());
            T::read(fields)
        });
        read.map_err(|reason| format!("entry {index}: {reason}"))
    };
    let data = items.into_iter().enumerate().map(read).collect::<Result<Vec<T>, String>>()?;
    Ok(Page { data, pagination, ids })
}

/// Reads an answer that says only that it was done: an object, or nothing. Anything else is not from a control plane.
pub(super) fn nothing(body: &[u8]) -> Result<(), String> {
    if body.trim_ascii().is_empty() {
        return Ok(());
    }
    match value(body)? {
        Value::Object(map) if map.get("success") == Some(&Value::Bool(false)) => {
            Err("it says that it was not done".into())
        }
        Value::Object(_) => Ok(()),
        _ => Err("expected an object or nothing".into()),
    }
}

/// Reads any JSON.
pub(super) fn value(body: &[u8]) -> Result<Value, String> {
    if body.trim_ascii().is_empty() {
        return Err("the body is empty".into());
    }
    serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))
}

/// Whether something may be used: servers say so by `status` or, earlier, by a flag.
pub(super) fn may_be_used(status: Option<&ResourceStatus>, flag: Option<bool>) -> bool {
    match status {
        Some(status) => *status == ResourceStatus::Active,
        None => flag.unwrap_or(true),
    }
}

/// A number, or a text of digits.
pub(super) fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// A text, or a number as one.
pub(super) fn scalar(value: &Value) -> Option<Box<str>> {
    match value {
        Value::String(text) => Some(text.as_str().into()),
        Value::Number(number) => Some(number.to_string().into()),
        _ => None,
    }
}
