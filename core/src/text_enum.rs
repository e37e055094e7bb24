//! Enums of known texts, open for what servers will add.

/// Declares an enum of known texts that keeps those it does not know.
macro_rules! text_enum {
    (
        $(#[$meta:meta])*
        $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[cfg_attr(
            feature = "rest",
            derive(serde::Serialize, serde::Deserialize),
            serde(from = "alloc::string::String", into = "alloc::string::String")
        )]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant,)*
            /// One that this crate does not know, as the server wrote it.
            Other(alloc::boxed::Box<str>),
        }

        impl $name {
            /// The name on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(name) => name,
                }
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                match name {
                    $($text => Self::$variant,)*
                    other => Self::Other(other.into()),
                }
            }
        }

        impl From<alloc::string::String> for $name {
            fn from(name: alloc::string::String) -> Self {
                Self::from(name.as_str())
            }
        }

        impl From<$name> for alloc::string::String {
            fn from(value: $name) -> Self {
                value.as_str().into()
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use text_enum;
