//! Tokens never reach logs, errors or `Debug`.

use alloc::{boxed::Box, string::String};
use core::fmt;

/// A token, owned. Its `Debug` says only that there is one.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Box<str>);

impl Token {
    /// Takes a token as it was issued.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into().into_boxed_str())
    }

    /// The token itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(redacted)")
    }
}

impl From<&str> for Token {
    fn from(token: &str) -> Self {
        Self::new(token)
    }
}

impl From<String> for Token {
    fn from(token: String) -> Self {
        Self::new(token)
    }
}

/// A token inside a frame, borrowed. Its `Debug` says only that there is one.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SecretStr<'a>(&'a str);

impl<'a> SecretStr<'a> {
    /// Marks text as secret.
    pub fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// The text itself.
    pub fn expose(self) -> &'a str {
        self.0
    }
}

impl fmt::Debug for SecretStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretStr(redacted)")
    }
}
