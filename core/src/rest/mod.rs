//! The REST control plane as plain values: apps, rooms, actors, access scopes, and publishing over HTTP.
//!
//! Nothing here does I/O. A function such as [`apps::create`] gives a [`Call`]: the [`Request`] to send and the knowledge
//! of how to read its answer. Whatever HTTP client moves the bytes, the steps are the same:
//!
//! 1. make the call; what can never work is refused here, before anything is sent;
//! 2. send [`Call::request`] to [`Request::url`] with `Authorization: Bearer <API key>` and, if there is a body,
//!    `Content-Type: application/json`;
//! 3. give the status and the body to [`Call::parse`], or the fault of the network to [`Request::failed`];
//! 4. on an error, ask [`Request::may_retry`].
//!
//! ```
//! use nolag_core::rest::{self, ActorCreate, AppCreate, ListParams, Method, RoomCreate, json};
//!
//! // List apps.
//! let call = rest::apps::list(&ListParams::new().limit(20))?;
//! assert_eq!(call.request().url(rest::CLOUD_URL), "https://api.nolag.app/v1/apps?limit=20");
//! # let answer = br#"{"data":[{"appId":"a1"}],"pagination":{"total":1,"page":1,"pageCount":1}}"#;
//! let apps = call.parse(200, answer)?;
//! println!("{} of {} apps", apps.data.len(), apps.pagination.total);
//!
//! // Create an app. Without topics nobody can subscribe to anything in it.
//! let create = AppCreate::new("my-chat-app").description("A chat").topics(["messages"]);
//! let call = rest::apps::create(&create)?;
//! assert_eq!((call.request().method, call.request().target()), (Method::Post, "/apps".into()));
//! # let answer = br#"{"appId":"a1","slug":"my-chat-app-a3f9"}"#;
//! let app = call.parse(201, answer)?;
//! assert_eq!(app.slug, "my-chat-app-a3f9"); // the first name in topics
//!
//! // A room in it, and an actor to connect as.
//! let call = rest::rooms::create(&app.app_id, &RoomCreate::new("general").slug("general"))?;
//! # let answer = br#"{"roomId":"r1","slug":"general"}"#;
//! let room = call.parse(201, answer)?;
//! let create = ActorCreate::new("web-client", "device").metadata(json!({ "platform": "web" }));
//! let call = rest::actors::create(&create)?;
//! # let answer = br#"{"actorTokenId":"t1","accessToken":"at_live_0123456789ab.secret"}"#;
//! let created = call.parse(201, answer)?;
//! assert_eq!(created.access_token.expose(), "at_live_0123456789ab.secret"); // shown this once
//! # assert_eq!((room.slug.as_str(), created.actor.actor_token_id.as_str()), ("general", "t1"));
//! # Ok::<(), rest::ApiError>(())
//! ```
//!
//! # What is read, and how strictly
//!
//! Control planes differ and grow. Only the id of an object is essential. A field that is missing, `null` or of another
//! type than expected is absent here, and everything that this crate does not know, or could not read, is in `extra`. A
//! list may come as a page or plain; both are a [`Page`].
//!
//! # What is sent
//!
//! What was not set is not sent. In updates, a field that can be emptied takes [`Patch::Null`]: absent leaves it alone,
//! `null` empties it. Ids are percent-encoded.
//!
//! # Secrets
//!
//! A token is a [`Token`] from the moment it is read. `Debug` shows neither tokens nor the contents of
//! bodies, free-form JSON and webhooks. Errors lose everything that looks like an API key or an access token, in texts of
//! servers and in ids that were none, and what was given to [`Call::hiding`].

#[macro_use]
mod body;

pub mod actors;
pub mod apps;
mod check;
mod error;
mod json;
mod list;
mod patch;
pub mod publish;
mod redact;
mod retry_after;
pub mod rooms;
pub mod scopes;

use alloc::{boxed::Box, format, string::String, vec::Vec};
use core::fmt;

use serde::Serialize;

pub use actors::{Actor, ActorCreate, ActorType, ActorUpdate, ActorWithToken};
pub use apps::{AccessMode, App, AppCreate, AppUpdate, Webhook};
pub use error::{ApiError, StatusError};
pub use json::{Json, ResourceStatus};
pub use list::{ListParams, Page, PageWalk, Pagination, SortOrder};
pub use patch::Patch;
pub use publish::BatchMessage;
pub use rooms::{AccessPermission, Room, RoomAccess, RoomAccessCreate, RoomCreate, RoomType, RoomUpdate};
pub use scopes::{Scope, ScopeCreate, ScopeUpdate};
#[doc(no_inline)]
pub use serde_json::{Map, Value, json};

use redact::Redactor;

use crate::{Token, TransportError, TransportErrorKind};

/// Where the cloud's control plane is.
pub const CLOUD_URL: &str = "https://api.nolag.app/v1";

/// The broker's code for a project that has used up its month: waiting does not help.
const QUOTA_EXCEEDED: u32 = 42920;

/// An HTTP request, except for the server's address and the API key.
///
/// Its `Debug` shows the size of the body only.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// Who answers it.
    pub service: Service,
    /// The method.
    pub method: Method,
    /// The path below the service's base URL. It starts with `/` and is percent-encoded.
    pub path: String,
    /// The query, not encoded yet.
    pub query: Vec<(String, String)>,
    /// The body, as JSON.
    pub body: Option<String>,
    idempotent: bool,
    /// What errors do not show.
    secrets: Vec<Token>,
}

/// Who answers a [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Service {
    /// The broker. Its base URL is where its WebSocket is, with the scheme `http` or `https` and without the path `/ws`.
    Broker,
    /// The control plane. Its base URL is [`CLOUD_URL`] or one's own.
    ControlPlane,
}

/// An HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// `DELETE`
    Delete,
    /// `GET`
    Get,
    /// `PATCH`
    Patch,
    /// `POST`
    Post,
}

impl Method {
    /// The name in HTTP.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "DELETE",
            Self::Get => "GET",
            Self::Patch => "PATCH",
            Self::Post => "POST",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Request {
    /// The path and the query, encoded.
    pub fn target(&self) -> String {
        let mut target = self.path.clone();
        for (index, (name, value)) in self.query.iter().enumerate() {
            target.push(if index == 0 { '?' } else { '&' });
            percent_encode(name, &mut target);
            target.push('=');
            percent_encode(value, &mut target);
        }
        target
    }

    /// The whole address, below the service's base URL.
    pub fn url(&self, base_url: &str) -> String {
        format!("{}{}", base_url.trim_end_matches('/'), self.target())
    }

    /// Whether sending it twice leaves the server as sending it once does.
    ///
    /// True for reads, for deletes, for updates, since they name the values that shall be, and for
    /// [`rooms::ensure`] and [`apps::reset_to_blueprint`]. A repeated delete may be answered with 404. False for what
    /// creates, grants or publishes: a repeat would do it again.
    pub fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// Whether sending it again after this error is safe and may help.
    ///
    /// Where the server did not act, any request may be: the connection could not be opened, or 429, unless the month's
    /// quota is used up. Where it may have acted, only an idempotent one: the connection failed, or 408, 502, 503 or
    /// 504. Everything else would only fail again. None may be if the server said when and that cannot be read: it would be
    /// too early.
    pub fn may_retry(&self, error: &ApiError) -> bool {
        match error {
            ApiError::Status(error) if error.unread_retry_after.is_some() => false,
            ApiError::Status(error) => match error.status {
                429 => error.code != Some(QUOTA_EXCEEDED),
                408 | 502..=504 => self.idempotent,
                _ => false,
            },
            ApiError::Transport { error, .. } => match error.kind {
                TransportErrorKind::Connect | TransportErrorKind::Resolve => true,
                TransportErrorKind::Proxy(_) | TransportErrorKind::Tls => false,
                _ => self.idempotent,
            },
            ApiError::Decode { .. } | ApiError::Misuse { .. } => false,
        }
    }

    /// The error of this request when the network failed it.
    pub fn failed(&self, error: TransportError) -> ApiError {
        ApiError::Transport { request: self.name(), error }
    }

    /// What errors call it: `POST /apps`. A key or a token in the place of an id is not shown.
    pub fn name(&self) -> Box<str> {
        let path: Vec<String> = self.path.split('/').map(|id| self.redactor().id(id)).collect();
        format!("{} {}", self.method, path.join("/")).into()
    }

    fn redactor(&self) -> Redactor<'_> {
        Redactor(&self.secrets)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.target();
        f.write_str(&self.name())?;
        f.write_str(&self.redactor().text(target.get(self.path.len()..).unwrap_or_default()))?;
        self.body.as_ref().map_or(Ok(()), |body| write!(f, " ({} bytes)", body.len()))
    }
}

/// A request and how its answer is read.
#[derive(Debug, Clone)]
#[must_use = "a call does nothing until its request is sent"]
pub struct Call<T> {
    request: Request,
    read: fn(&[u8]) -> Result<T, String>,
}

impl<T> Call<T> {
    /// What to send.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// * [`ApiError::Status`] for any status but 200 to 299, whatever the body is;
    /// * [`ApiError::Decode`] if the server did it and the body does not say what was done.
    pub fn parse(&self, status: u16, body: &[u8]) -> Result<T, ApiError> {
        let (name, redactor) = (|| self.request.name(), self.request.redactor());
        if !(200..300).contains(&status) {
            return Err(error::refused(name(), status, body, redactor));
        }
        (self.read)(body).map_err(|reason| error::unreadable(name(), status, &reason, body, redactor))
    }

    /// Keeps this out of errors, also where a server repeats it: the API key that the request is sent with, for example.
    ///
    /// It is recognised percent-encoded too, and of a key of two parts, as in `nlg_live_0123456789ab.secret`, the secret
    /// one by itself. What is shorter than 6 characters is not: it would be found in any text.
    pub fn hiding(mut self, secret: impl Into<Token>) -> Self {
        self.request.secrets.push(secret.into());
        self
    }

    fn new(method: Method, path: Path, read: fn(&[u8]) -> Result<T, String>) -> Self {
        let request = Request {
            service: Service::ControlPlane,
            method,
            path: path.0,
            query: Vec::new(),
            body: None,
            idempotent: method != Method::Post,
            secrets: Vec::new(),
        };
        Self { request, read }
    }

    /// A `POST` that may be repeated.
    fn idempotent(mut self) -> Self {
        self.request.idempotent = true;
        self
    }

    fn query(mut self, params: &ListParams) -> Result<Self, ApiError> {
        self.request.query = params.query()?;
        Ok(self)
    }

    fn body(mut self, body: &impl Serialize) -> Result<Self, ApiError> {
        let text = serde_json::to_string(body).map_err(|error| error::misuse("body", format!("{error}")))?;
        self.request.body = Some(text);
        Ok(self)
    }
}

/// A path in the making.
struct Path(String);

impl Path {
    fn new(root: &str) -> Self {
        Self(root.into())
    }

    /// Appends an id as one segment.
    fn id(mut self, what: &'static str, id: &str) -> Result<Self, ApiError> {
        check::id(what, id)?;
        self.0.push('/');
        percent_encode(id, &mut self.0);
        Ok(self)
    }

    /// Appends a segment that needs no encoding.
    fn then(mut self, segment: &str) -> Self {
        self.0.push('/');
        self.0.push_str(segment);
        self
    }
}

/// Appends every byte outside RFC 3986's unreserved set as `%XX`.
fn percent_encode(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}
