//! Why a call did not succeed.

use alloc::{boxed::Box, string::String, vec::Vec};
use core::{fmt, time::Duration};

use serde_json::{Map, Value};

use super::{
    Redactor,
    json::{number, scalar},
    retry_after,
};
use crate::TransportError;

/// Why a call did not succeed. The variants say whose fault it is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ApiError {
    /// The server did it, and its answer cannot be read.
    Decode {
        /// What was asked, as in `POST /apps`.
        request: Box<str>,
        /// The HTTP status.
        status: u16,
        /// What is wrong with the answer.
        reason: Box<str>,
        /// The beginning of a body that does not even look like JSON, fit for terminals. One that does is not kept: it
        /// may hold a token.
        body: Option<Box<str>>,
    },
    /// The caller's: the call can never work like this, and nothing was sent.
    Misuse {
        /// Which argument or field.
        what: &'static str,
        /// What is wrong with it.
        reason: Box<str>,
    },
    /// The server refused.
    Status(Box<StatusError>),
    /// The network's: there is no answer.
    Transport {
        /// What was asked, as in `POST /apps`.
        request: Box<str>,
        /// What happened.
        error: TransportError,
    },
}

/// A server's refusal.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StatusError {
    /// What was asked, as in `POST /apps`.
    pub request: Box<str>,
    /// The HTTP status.
    pub status: u16,
    /// The server's words; several are joined with `; `. Empty if it has none.
    pub message: Box<str>,
    /// The server's id of this error, for its operators.
    pub id: Option<Box<str>>,
    /// When the server says it happened.
    pub timestamp: Option<Box<str>>,
    /// The broker's code, for example 42910.
    pub code: Option<u32>,
    /// Which message of a batch it is about, from 0.
    pub index: Option<u64>,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
    /// The server's `Retry-After` if it cannot be read.
    pub unread_retry_after: Option<Box<str>>,
    /// What may be wrong, from whoever sent the request.
    pub hint: Option<Box<str>>,
    /// The beginning of a body that has no message to read: an HTML page, for example. Runs of white space and control
    /// characters are one space, and secrets are cut.
    pub body: Option<Box<str>>,
}

impl ApiError {
    /// The HTTP status, if the server answered.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Decode { status, .. } => Some(*status),
            Self::Status(error) => Some(error.status),
            Self::Misuse { .. } | Self::Transport { .. } => None,
        }
    }

    /// The server's words, if it refused with any.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Status(error) if !error.message.is_empty() => Some(&error.message),
            _ => None,
        }
    }

    /// The server's id of this error, for its operators.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Status(error) => error.id.as_deref(),
            _ => None,
        }
    }

    /// The beginning of a body that is not the JSON that was expected, an HTML page for example.
    pub fn body(&self) -> Option<&str> {
        match self {
            Self::Decode { body, .. } => body.as_deref(),
            Self::Status(error) => error.body.as_deref(),
            Self::Misuse { .. } | Self::Transport { .. } => None,
        }
    }

    /// How long the server asks to wait before another attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status(error) => error.retry_after,
            _ => None,
        }
    }

    /// The same with what the answer's `Retry-After` header says in seconds, the form that brokers and control planes use.
    /// Anything else is [unread](StatusError::unread_retry_after).
    #[must_use]
    pub fn with_retry_after(self, header: &str) -> Self {
        self.with_retry(header, retry_after::seconds(header))
    }

    /// The same for who knows what time it is, in UTC since the beginning of 1970: reads dates too.
    #[must_use]
    pub fn with_retry_after_at(self, header: &str, since_1970: Duration) -> Self {
        let date = || Some(retry_after::date(header)?.saturating_sub(since_1970));
        self.with_retry(header, retry_after::seconds(header).or_else(date))
    }

    fn with_retry(mut self, header: &str, wait: Option<Duration>) -> Self {
        if let Self::Status(error) = &mut self {
            error.retry_after = wait;
            error.unread_retry_after = match wait {
                Some(_) => None,
                None => Some(Redactor(&[]).line(header, MAX_MESSAGE)),
            };
        }
        self
    }
}

pub(super) fn misuse(what: &'static str, reason: impl Into<Box<str>>) -> ApiError {
    ApiError::Misuse { what, reason: reason.into() }
}

/// The error of an answer with a status that is not a success.
pub(super) fn refused(request: Box<str>, status: u16, body: &[u8], redactor: Redactor<'_>) -> ApiError {
    let mut error = StatusError {
        request,
        status,
        message: "".into(),
        id: None,
        timestamp: None,
        code: None,
        index: None,
        retry_after: None,
        unread_retry_after: None,
        hint: None,
        body: None,
    };
    match serde_json::from_slice(body) {
        Ok(Value::Object(map)) => error.read(&map, redactor),
        Ok(Value::String(text)) => error.message = redactor.line(&text, MAX_MESSAGE),
        _ => {}
    }
    if error.message.is_empty() {
        error.body = excerpt(body, redactor);
    }
    ApiError::Status(Box::new(error))
}

/// The error of an answer that says that it was done, but not what.
pub(super) fn unreadable(
    request: Box<str>,
    status: u16,
    reason: &str,
    body: &[u8],
    redactor: Redactor<'_>,
) -> ApiError {
    let is_json = matches!(body.trim_ascii_start().first(), Some(b'{' | b'[' | b'"'));
    let body = if is_json { None } else { excerpt(body, redactor) };
    ApiError::Decode { request, status, reason: redactor.line(reason, MAX_MESSAGE), body }
}

impl StatusError {
    /// Control planes answer `{id, message, timestamp}`, their framework `{statusCode, message, error}` with one or
    /// several messages, brokers `{error: {code, message, index}}`.
    fn read(&mut self, map: &Map<String, Value>, redactor: Redactor<'_>) {
        let words = |value| words(value, redactor);
        let inner = map.get("error").and_then(Value::as_object).unwrap_or(map);
        let message = inner.get("message").map(words).filter(|message| !message.is_empty());
        self.message = message.unwrap_or_else(|| inner.get("error").map(words).unwrap_or_default());
        let text = |name| map.get(name).and_then(scalar).map(|text| redactor.line(&text, MAX_MESSAGE));
        self.id = text("id");
        self.timestamp = text("timestamp");
        self.code = inner.get("code").and_then(number).and_then(|code| u32::try_from(code).ok());
        self.index = inner.get("index").and_then(number);
    }
}

/// A message, or a list of them.
fn words(value: &Value, redactor: Redactor<'_>) -> Box<str> {
    let line = |text: &str| redactor.line(text, MAX_MESSAGE);
    match value {
        Value::Null => "".into(),
        Value::String(text) => line(text),
        Value::Array(items) => {
            line(&items.iter().map(|item| words(item, redactor)).collect::<Vec<_>>().join("; "))
        }
        other => line(&alloc::format!("{other}")),
    }
}

/// Longest message that is kept, in characters.
const MAX_MESSAGE: usize = 512;

/// Longest beginning of a body that is kept, in characters.
const MAX_BODY: usize = 2048;

/// Longest beginning of a body that an error shows, in characters.
const MAX_SHOWN: usize = 200;

/// Bytes of a body that are looked at for an excerpt.
const MAX_READ: usize = 16 * 1024;

fn excerpt(body: &[u8], redactor: Redactor<'_>) -> Option<Box<str>> {
    let mut begin = &body[..body.len().min(MAX_READ)];
    if begin.len() < body.len() {
        // Half a secret would not be recognised.
        let end = begin.iter().rposition(u8::is_ascii_whitespace);
        begin = &begin[..end.unwrap_or(begin.len())];
    }
    Some(redactor.line(&String::from_utf8_lossy(begin), MAX_BODY)).filter(|text| !text.is_empty())
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode { request, status, reason, body } => {
                write!(f, "{request} succeeded (HTTP {status}), but its answer cannot be read: {reason}")?;
                match body {
                    Some(body) => write!(f, ": {}; is this the right base URL?", shown(body)),
                    None => Ok(()),
                }
            }
            Self::Misuse { what, reason } => write!(f, "{what}: {reason}"),
            Self::Status(error) => error.fmt(f),
            Self::Transport { request, error } => write!(f, "{request}: {error}"),
        }
    }
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: HTTP {}{}", self.request, self.status, phrase(self.status))?;
        if let Some(code) = self.code {
            write!(f, " ({code})")?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        } else if let Some(body) = &self.body {
            write!(f, ": {}", shown(body))?;
        }
        if let Some(index) = self.index {
            write!(f, ", message {index} of the batch")?;
        }
        if let Some(id) = &self.id {
            write!(f, " (id {id})")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None if self.status == 401 => f.write_str("; check the API key"),
            None => Ok(()),
        }
    }
}

/// As much of a body as an error shows.
fn shown(body: &str) -> String {
    body.chars().take(MAX_SHOWN).collect()
}

/// What a status means, with a space before.
fn phrase(status: u16) -> &'static str {
    match status {
        300..=399 => " (a redirect)",
        400 => " Bad Request",
        401 => " Unauthorized",
        403 => " Forbidden",
        404 => " Not Found",
        405 => " Method Not Allowed",
        409 => " Conflict",
        413 => " Content Too Large",
        429 => " Too Many Requests",
        500 => " Internal Server Error",
        502 => " Bad Gateway",
        503 => " Service Unavailable",
        504 => " Gateway Timeout",
        _ => "",
    }
}

impl core::error::Error for ApiError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            // It speaks for itself in `Display`, so its own cause comes next.
            Self::Transport { error, .. } => error.source(),
            Self::Decode { .. } | Self::Misuse { .. } | Self::Status(_) => None,
        }
    }
}

impl core::error::Error for StatusError {}
