//! Why something could not be measured.

use std::{fmt, io};

use nolag::EmitError;
use tokio_tungstenite::tungstenite;

/// Why something could not be measured.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The client reports it.
    Client(nolag::Error),
    /// The client could not connect.
    Connect(nolag::Error),
    /// Anything else, in words.
    Other(String),
}

/// What was measured, or why it was not.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn other(words: impl Into<String>) -> Self {
        Self::Other(words.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Connect(error) => write!(f, "cannot connect: {error}"),
            Self::Other(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for Error {}

impl From<EmitError> for Error {
    fn from(error: EmitError) -> Self {
        Self::Client(error.into())
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<nolag::Error> for Error {
    fn from(error: nolag::Error) -> Self {
        Self::Client(error)
    }
}

impl From<tungstenite::Error> for Error {
    fn from(error: tungstenite::Error) -> Self {
        Self::Other(format!("WebSocket: {error}"))
    }
}
