//! Absent is not `null`.

use serde::{Serialize, Serializer};

/// What an update does to a field that can be empty.
///
/// Setters take a value as it is: `ActorUpdate::new().access_scope_id("…")`, or
/// `ActorUpdate::new().access_scope_id(Patch::Null)`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// Leaves it as it is: the field is not sent.
    #[default]
    Keep,
    /// Empties it: sends `null`.
    Null,
    /// Sends this value.
    Set(T),
}

impl<T> Patch<T> {
    /// The value to set, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            Self::Keep | Self::Null => None,
        }
    }
}

impl<T> From<T> for Patch<T> {
    fn from(value: T) -> Self {
        Self::Set(value)
    }
}

impl From<&str> for Patch<alloc::string::String> {
    fn from(value: &str) -> Self {
        Self::Set(value.into())
    }
}

/// `Keep` is for the struct around it to leave out.
impl<T: Serialize> Serialize for Patch<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}
