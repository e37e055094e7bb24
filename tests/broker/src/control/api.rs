//! Requests and answers.

use std::fmt;

use serde::Serialize;

/// A request to the control plane, or to publish over HTTP: what of HTTP matters to a
/// [`BrokerCore`](crate::BrokerCore).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ApiRequest<'a> {
    /// The method, in upper case.
    pub method: &'a str,
    /// The path, percent-encoded as it came, for example `/v1/apps`.
    pub path: &'a str,
    /// What follows the `?`, encoded as it came; empty if nothing does.
    pub query: &'a str,
    /// The header `Authorization`.
    pub authorization: Option<&'a str>,
    /// The body; empty if there is none.
    pub body: &'a [u8],
}

impl ApiRequest<'_> {
    /// The API key. The name of the scheme may be in any case.
    pub(super) fn key(&self) -> Option<&str> {
        let (scheme, key) = self.authorization?.trim().split_once(' ')?;
        let key = key.trim();
        (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
    }
}

/// Shows neither the API key nor the body.
impl fmt::Debug for ApiRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({} bytes)", self.method, self.path, self.body.len())
    }
}

/// The answer to an [`ApiRequest`].
#[derive(Clone, PartialEq, Eq)]
pub struct ApiResponse {
    /// The HTTP status.
    pub status: u16,
    /// Headers besides `Content-Type`, with names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body, as JSON; empty if there is none.
    pub body: String,
}

impl ApiResponse {
    pub(crate) fn json(status: u16, body: &impl Serialize) -> Self {
        // What is answered are values, and maps with text for keys.
        let body = serde_json::to_string(body).unwrap_or_default();
        Self { status, headers: Vec::new(), body }
    }

    /// Done, and there is nothing to say.
    pub(super) fn done() -> Self {
        Self { status: 204, headers: Vec::new(), body: String::new() }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// Shows the size of the body only: it may hold a token.
impl fmt::Debug for ApiResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.status, self.body.len())
    }
}

/// Why a request is refused.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) message: String,
    pub(super) headers: Vec<(&'static str, &'static str)>,
}

impl Refusal {
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), headers: Vec::new() }
    }

    /// There is no such thing.
    pub(super) fn missing(what: &str) -> Self {
        Self::new(404, format!("{what} not found"))
    }

    pub(super) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }
}
