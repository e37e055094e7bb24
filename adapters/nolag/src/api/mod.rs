//! The REST control plane: apps, rooms, actors, access scopes, and publishing over HTTP. Crate feature `rest`.
//!
//! ```no_run
//! use nolag::{
//!     ApiOptions, Client, NoLagApi, Options,
//!     api::{ActorCreate, AppCreate, ListParams, RoomCreate, json},
//! };
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let api = NoLagApi::new("nlg_live_xxx.secret", ApiOptions::default());
//!
//! let apps = api.apps().list(&ListParams::new().limit(20)).await?;
//! println!("{} of {} apps", apps.data.len(), apps.pagination.total);
//!
//! let app = api.apps().create(&AppCreate::new("my-chat-app").topics(["messages"])).await?;
//! let room = api.rooms().create(&app.app_id, &RoomCreate::new("general").slug("general")).await?;
//! let actor = ActorCreate::new("web-client", "device").metadata(json!({ "platform": "web" }));
//! let created = api.actors().create(&actor).await?;
//!
//! // The token is shown this once.
//! let client = Client::new(created.access_token, Options::default());
//! client.connect().await?;
//! client.app(&app.slug).room(&room.slug).emit("messages", "hello").await?;
//! # Ok(())
//! # }
//! ```
//!
//! Calls run on what [`ApiOptions::runtime`] says, with the same methods everywhere: tokio (through reqwest), smol,
//! async-std or threads (through ureq). Without async code, wait for them:
//!
//! ```no_run
//! # #[cfg(feature = "blocking")]
//! # fn example() -> Result<(), nolag::NoLagApiError> {
//! use nolag::{ApiOptions, NoLagApi, Runtime, api::ListParams};
//!
//! let api = NoLagApi::new("nlg_live_xxx.secret", ApiOptions::default().runtime(Runtime::Blocking));
//! for page in api.apps().pages(ListParams::new()).iter() {
//!     for app in page? {
//!         println!("{}: {} rooms", app.slug, api.rooms().list(&app.app_id, &ListParams::new()).wait()?.data.len());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//! [`ApiError`], also called [`NoLagApiError`](crate::NoLagApiError), says whose fault it is: the caller's, before
//! anything is sent (`Misuse`), the server's refusal (`Status`, with its [`status`](ApiError::status), its
//! [`message`](ApiError::message), its [`id`](ApiError::id), or the beginning of a [`body`](ApiError::body) that is not
//! JSON), an answer that cannot be read (`Decode`), or the network's (`Transport`).
//!
//! What is safe to repeat is [retried](ApiOptions::retries) before that; nothing is created twice.
//!
//! # Secrets
//! The key is sent to the configured addresses only: redirects are not followed. It is in no error, no `Debug` output and
//! no trace of this crate, and servers that repeat it do not get it into an error either.
//!
//! **What other crates log is another matter.** On threads, smol and async-std, HTTP is done by ureq, whose part `ureq_proto`
//! writes requests and answers to the [`log`](https://docs.rs/log) crate at the level `TRACE`, byte for byte: the key, all
//! headers, and the tokens of new actors. It has no switch for that. A program that logs at `TRACE` must leave this target
//! out, for example with `RUST_LOG=trace,ureq_proto=off`, or with the feature `max_level_debug` of `log`. Nothing else in
//! ureq, and nothing in reqwest, which does HTTP on tokio, logs any of this.

mod call;
mod groups;
mod http;
mod options;
mod pages;

use std::{fmt, sync::Arc};

#[doc(no_inline)]
pub use nolag_core::rest::{
    AccessMode, AccessPermission, Actor, ActorCreate, ActorType, ActorUpdate, ActorWithToken, ApiError, App,
    AppCreate, AppUpdate, BatchMessage, CLOUD_URL, Json, ListParams, Page, Pagination, Patch, ResourceStatus,
    Room, RoomAccess, RoomAccessCreate, RoomCreate, RoomType, RoomUpdate, Scope, ScopeCreate, ScopeUpdate,
    SortOrder, StatusError, Value, Webhook, json,
};
use nolag_core::{
    Token,
    rest::{self, Call},
};

pub use call::ApiCall;
pub use groups::{Actors, Apps, Rooms, Scopes};
pub use options::ApiOptions;
pub use pages::Pages;

use call::Shared;

/// A client of the REST control plane. Cheap to clone; all clones share their connections.
///
/// See the [module](self) for how it is used.
#[derive(Clone)]
pub struct NoLagApi {
    shared: Arc<Shared>,
}

impl NoLagApi {
    /// A client with the project's API key, such as `nlg_live_….…`. Nothing is sent yet.
    ///
    /// A key or an option that cannot be used is reported by every call, as [`ApiError::Misuse`].
    pub fn new(api_key: impl Into<Token>, options: ApiOptions) -> Self {
        Self { shared: Arc::new(Shared::new(api_key.into(), &options)) }
    }

    /// What rooms and topics belong to.
    pub fn apps(&self) -> Apps {
        Apps { api: self.clone() }
    }

    /// Rooms, and who may enter them.
    pub fn rooms(&self) -> Rooms {
        Rooms { api: self.clone() }
    }

    /// Who may connect, and the tokens they connect with.
    pub fn actors(&self) -> Actors {
        Actors { api: self.clone() }
    }

    /// Tenants that are kept apart within a project.
    pub fn scopes(&self) -> Scopes {
        Scopes { api: self.clone() }
    }

    /// Publishes 1 to 100 messages, in order, or none of them if one is refused. The answer has their ids, in order.
    ///
    /// It goes to [`ApiOptions::broker_url`] and needs no connection. The messages are shown as the server's, not as an
    /// actor's. It is not repeated where that could publish twice.
    pub fn publish(&self, messages: &[BatchMessage]) -> ApiCall<Vec<String>> {
        self.call(rest::publish::batch(messages))
    }

    fn call<T: Send + 'static>(&self, call: Result<Call<T>, ApiError>) -> ApiCall<T> {
        ApiCall::new(&self.shared, call)
    }
}

impl fmt::Debug for NoLagApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoLagApi").finish_non_exhaustive()
    }
}
