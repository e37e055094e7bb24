//! Why a call did not succeed.

use alloc::{boxed::Box, string::String, vec::Vec};
use core::{fmt, time::Duration};

use serde_json::{Map, Value};

use super::json::{number, scalar};
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

    /// The same with what the answer's `Retry-After` header says. Only its form in seconds is read, the one that brokers
    /// and control planes use.
    #[must_use]
    pub fn with_retry_after(mut self, header: &str) -> Self {
        if let Self::Status(error) = &mut self {
            error.retry_after =
                header.trim().parse::<u32>().ok().map(|secs| Duration::from_secs(secs.into()));
        }
        self
    }
}

pub(super) fn misuse(what: &'static str, reason: impl Into<Box<str>>) -> ApiError {
    ApiError::Misuse { what, reason: reason.into() }
}

/// The error of an answer with a status that is not a success.
pub(super) fn refused(request: Box<str>, status: u16, body: &[u8]) -> ApiError {
    let mut error = StatusError {
        request,
        status,
        message: "".into(),
        id: None,
        timestamp: None,
        code: None,
        index: None,
        retry_after: None,
        body: None,
    };
    match serde_json::from_slice(body) {
        Ok(Value::Object(map)) => error.read(&map),
        Ok(Value::String(text)) => error.message = clean(&text, MAX_MESSAGE),
        _ => {}
    }
    if error.message.is_empty() {
        error.body = excerpt(body);
    }
    ApiError::Status(Box::new(error))
}

/// The error of an answer that says that it was done, but not what.
pub(super) fn unreadable(request: Box<str>, status: u16, reason: &str, body: &[u8]) -> ApiError {
    let is_json = matches!(body.trim_ascii_start().first(), Some(b'{' | b'[' | b'"'));
    let body = if is_json { None } else { excerpt(body) };
    ApiError::Decode { request, status, reason: clean(reason, MAX_MESSAGE), body }
}

impl StatusError {
    /// Control planes answer `{id, message, timestamp}`, their framework `{statusCode, message, error}` with one or
    /// several messages, brokers `{error: {code, message, index}}`.
    fn read(&mut self, map: &Map<String, Value>) {
        let inner = map.get("error").and_then(Value::as_object).unwrap_or(map);
        let message = inner.get("message").map(words).filter(|message| !message.is_empty());
        self.message = message.unwrap_or_else(|| inner.get("error").map(words).unwrap_or_default());
        let text = |name| map.get(name).and_then(scalar).map(|text| clean(&text, MAX_MESSAGE));
        self.id = text("id");
        self.timestamp = text("timestamp");
        self.code = inner.get("code").and_then(number).and_then(|code| u32::try_from(code).ok());
        self.index = inner.get("index").and_then(number);
    }
}

/// A message, or a list of them.
fn words(value: &Value) -> Box<str> {
    match value {
        Value::Null => "".into(),
        Value::String(text) => clean(text, MAX_MESSAGE),
        Value::Array(items) => clean(&items.iter().map(words).collect::<Vec<_>>().join("; "), MAX_MESSAGE),
        other => clean(&alloc::format!("{other}"), MAX_MESSAGE),
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

fn excerpt(body: &[u8]) -> Option<Box<str>> {
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_READ)]);
    Some(clean(&text, MAX_BODY)).filter(|text| !text.is_empty())
}

/// A server's text, fit for terminals and for keeping: one line, at most `max` characters, without keys and tokens.
fn clean(text: &str, max: usize) -> Box<str> {
    let mut out = String::new();
    let mut length = 0;
    for word in text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty()) {
        if length >= max {
            break;
        }
        if !out.is_empty() {
            out.push(' ');
            length += 1;
        }
        let start = out.len();
        redact(word, &mut out);
        length += out[start..].chars().count();
    }
    match out.char_indices().nth(max) {
        Some((end, _)) => out[..end].trim_end().into(),
        None => out.into(),
    }
}

/// Appends a word, with `(redacted)` in the place of every key and token, such as `nlg_live_0123456789ab.secret`.
fn redact(word: &str, out: &mut String) {
    let part_of_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut rest = word;
    while let Some(start) = rest.find(part_of_token) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let (run, after) = rest.split_at(rest.find(|c| !part_of_token(c)).unwrap_or(rest.len()));
        let id = ["_live_", "_sandbox_"].iter().find_map(|kind| Some(run.split_once(kind)?.1));
        let secret = id.is_some_and(|id| id.contains('.'));
        out.push_str(if secret { "(redacted)" } else { run });
        rest = after;
    }
    out.push_str(rest);
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
        if self.status == 401 { f.write_str("; check the API key") } else { Ok(()) }
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
