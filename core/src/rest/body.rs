//! Request bodies: structs that send what was set, and their setters.

use super::Patch;

/// A field that may be left out of a body.
pub(super) trait Absent {
    /// Whether it is left out.
    fn is_absent(&self) -> bool;
}

impl<T> Absent for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T> Absent for Patch<T> {
    fn is_absent(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

/// Declares a body: fields that are always sent, in parentheses, and optional ones with a setter each. JSON names are the
/// fields' in camel case, unless `as` gives another.
///
/// The kind of an optional field says what it holds and what its setter takes: `text`, `texts`, `flag`, `json` (any
/// value), `value(T)`, or `patch(T)` for what can also be emptied.
macro_rules! body {
    (@type text) => { Option<alloc::string::String> };
    (@type texts) => { Option<alloc::vec::Vec<alloc::string::String>> };
    (@type flag) => { Option<bool> };
    (@type json) => { Option<$crate::rest::Json> };
    (@type value($type:ty)) => { Option<$type> };
    (@type patch($type:ty)) => { $crate::rest::Patch<$type> };

    (@setter [$(#[$doc:meta])*] $field:ident text) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: impl Into<alloc::string::String>) -> Self {
            self.$field = Some($field.into());
            self
        }
    };
    (@setter [$(#[$doc:meta])*] $field:ident texts) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: impl IntoIterator<Item = impl Into<alloc::string::String>>) -> Self {
            self.$field = Some($field.into_iter().map(Into::into).collect());
            self
        }
    };
    (@setter [$(#[$doc:meta])*] $field:ident flag) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: bool) -> Self {
            self.$field = Some($field);
            self
        }
    };
    (@setter [$(#[$doc:meta])*] $field:ident json) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: impl Into<$crate::rest::Value>) -> Self {
            self.$field = Some($crate::rest::Json($field.into()));
            self
        }
    };
    (@setter [$(#[$doc:meta])*] $field:ident value($type:ty)) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: impl Into<$type>) -> Self {
            self.$field = Some($field.into());
            self
        }
    };
    (@setter [$(#[$doc:meta])*] $field:ident patch($type:ty)) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: impl Into<$crate::rest::Patch<$type>>) -> Self {
            self.$field = $field.into();
            self
        }
    };

    (
        $(#[$meta:meta])*
        $name:ident ($($(#[$attribute:meta])* $required:ident: $required_type:ty),*) {
            $($(#[$doc:meta])* $field:ident: $kind:ident $(($type:ty))? $(as $json:literal)?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$attribute])* $required: $required_type,)*
            $(
                #[serde($(rename = $json,)? skip_serializing_if = "crate::rest::body::Absent::is_absent")]
                $field: body!(@type $kind $(($type))?),
            )*
        }

        impl $name {
            fn with($($required: $required_type),*) -> Self {
                Self { $($required,)* $($field: Default::default(),)* }
            }

            $(body!(@setter [$(#[$doc])*] $field $kind $(($type))?);)*
        }
    };
}
