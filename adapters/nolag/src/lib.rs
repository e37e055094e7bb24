//! Client for the NoLag realtime protocol: publish and subscribe through a NoLag broker, in the cloud or your own.
//!
//! ```no_run
//! use nolag::{Client, Options};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Chat {
//!     text: String,
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new("dev-token-alice", Options::new("ws://localhost:8080/ws"));
//! client.on_connect(|| println!("connected"));
//! client.on_error(|error| eprintln!("{error}"));
//! client.connect().await?;
//!
//! let room = client.app("demo").room("general");
//! let mut chat = room.subscribe("messages").filters(["vip"]).stream::<Chat>().await?;
//! room.emit("messages", &Chat { text: "hello".into() }).retain().await?;
//! room.emit("messages", &Chat { text: "bye".into() }).send()?;
//! while let Some(message) = chat.next().await {
//!     println!("{}", message?.data().text);
//! }
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`Room::set_presence`] and [`Client::on_presence`] are about who is in a room, [`App::lobby`] about who is in many,
//! [`Room::set_filters`] changes what a subscription lets through, [`Client::with_token_provider`] is for tokens that
//! end, and
//! [`docs/from-python.md`](https://github.com/NoLagApp/nolag-rust/blob/main/docs/from-python.md) has the counterpart of
//! each call of the Python client.
//!
//! The client holds what was asked for, not what happens to be connected: it reconnects, subscribes anew and reports
//! what may have been missed. Every operation ends in exactly one outcome.
//!
//! # Secrets
//! Tokens and payloads are in no error, no `Debug` output and no trace of this crate. The WebSocket library below it
//! writes whole frames, tokens included, and the headers of the upgrade to the `log` crate at level `TRACE` under the
//! target `tungstenite`; keep that one off where logs are not private.
//!
//! # Runtimes
//! [`Options::runtime`] says what a client runs on: tokio (the default), smol, async-std, or threads of its own
//! without any async runtime. All of them run the same code, and everything that can be awaited can be waited for on a
//! thread instead, with a limit:
//!
//! ```no_run
//! # #[cfg(feature = "blocking")]
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use nolag::{Client, Options, Runtime};
//!
//! let limit = Duration::from_secs(10);
//! let client = Client::new("dev-token-alice", Options::new("ws://localhost:8080/ws").runtime(Runtime::Blocking));
//! client.connect().wait(limit)?;
//! let room = client.app("demo").room("general");
//! let mut chat = room.subscribe("messages").messages().wait(limit)?;
//! room.emit("messages", "hello").wait(limit)?;
//! for message in chat.iter() {
//!     println!("{}", message.data::<String>()?);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! For a new program: `tokio` if it is on tokio or you have no reason for another, `smol` for a small async runtime,
//! `blocking` for a program without async code. `async-std` is for programs that have it already; it is discontinued.
//! Where no runtime fits, as in a game loop, embed [`nolag_core::ClientCore`].
//!
//! # Crate features
//! * `tokio` (default), `smol`, `async-std`, `blocking`: what clients can run on. Several can be on at once.
//! * `ring` (default), `aws-lc-rs`: `wss://` through rustls with this crypto provider. With `tls` alone it takes the
//!   process's provider or that of `Options::crypto_provider`.
//! * `webpki-roots` (default): trusts Mozilla's root certificates. `native-roots`: can trust the operating system's,
//!   with `Options::roots`. Without either only those of `Options::root_certificates` are trusted.
//! * `rest`: `api`, the REST control plane: apps, rooms, actors, scopes, publishing over HTTP.
//! * `tracing`: a span per connection, and events of level `DEBUG` about it and its frames, without payloads and tokens.

#![forbid(unsafe_code)]

#[cfg(feature = "rest")]
pub mod api;
mod client;
mod connect;
mod context;
mod emit;
mod engine;
mod event;
mod filters;
mod handler;
mod lobby;
mod message;
mod options;
mod presence;
mod request;
mod runtime;
mod status;
mod stream;
mod subscribe;
mod token;
mod topic;
mod trace;
mod transport;
#[cfg(feature = "blocking")]
mod wait;

#[cfg(feature = "rest")]
pub use api::{ApiOptions, NoLagApi};
pub use client::{Client, Stats, WeakClient};
pub use connect::{CloseFuture, ConnectFuture, FlushFuture};
pub use context::{App, Room};
pub use emit::{Emit, EmitError, EmitFuture, EmitMany, Emitted};
pub use event::{Disconnected, ErrorEvent, Hydration, Reconnected, ReplayEvent, Restored};
pub use handler::{HandlerId, HandlerReturn};
pub use lobby::Lobby;
pub use message::{AckHandle, Message, TypedMessage};
#[cfg(feature = "rest")]
pub use nolag_core::rest::ApiError as NoLagApiError;
#[doc(no_inline)]
pub use nolag_core::{
    ActorType, DecodeError, Error, LobbyChange, LobbySnapshot, Misuse, Op, OverflowPolicy, Payload,
    PresenceChange, PresenceKind, PresenceMember, ProtocolError, Rejection, ServerError, Session, Status,
    SubscribeOptions, SubscriptionInfo, Token, TransportError, TransportErrorKind, check_pattern,
    check_segment, check_topic,
    wire::{Dump, Filter, QoS},
};
#[cfg(feature = "tls")]
pub use options::Roots;
pub use options::{CLOUD_URL, Direction, Options};
pub use request::{Request, RequestFuture};
pub use runtime::Runtime;
pub use status::{StatusWatch, WaitFor};
pub use stream::{Messages, Next, TypedMessages};
pub use subscribe::{StreamFuture, Subscribe, SubscribeFuture, Subscribed, Unsubscribe, UnsubscribeFuture};
pub use token::{FreshToken, TokenReturn};
pub use topic::Topic;
#[cfg(feature = "blocking")]
pub use wait::Iter;

/// The examples of the front page of the repository compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// And those of the page about runtimes.
#[cfg(all(doctest, feature = "blocking", feature = "tokio"))]
#[doc = include_str!("../../../docs/runtimes.md")]
struct Runtimes;
