//! The client side of the NoLag realtime protocol as a deterministic state machine without I/O.
//!
//! [`ClientCore`] holds everything that can go wrong with a realtime connection: the handshake, reconnecting,
//! resubscribing, matching replies, acks, limits, back-pressure, leaving. It opens no socket, reads no clock and starts
//! no thread, so it runs in any event loop, in a simulator at thousands of times real speed, and in a fuzzer. Most users
//! want the `nolag` crate, which moves its bytes with tokio, smol, async-std or threads. This crate is for those who embed, simulate or inspect.
//!
//! # The loop
//!
//! A WebSocket message is the boundary. Whatever your loop looks like, each turn does the same five things:
//!
//! 1. tell the core what happened: [`handle_transport`](ClientCore::handle_transport) and, when
//!    [`poll_timeout`](ClientCore::poll_timeout)'s instant has come, [`handle_timeout`](ClientCore::handle_timeout);
//! 2. send what [`poll_transmit`](ClientCore::poll_transmit) appends to your buffer;
//! 3. do what [`poll_action`](ClientCore::poll_action) asks: open or close a transport;
//! 4. take [`poll_event`](ClientCore::poll_event) and [`poll_message`](ClientCore::poll_message);
//! 5. unless one of these gave something, wait until something happens or `poll_timeout` comes, reading only while
//!    [`wants_input`](ClientCore::wants_input) says so.
//!
//! The order does not matter and nothing breaks when a step is repeated. What is sent or taken can make the core want
//! something more, which is why a turn that gave something is followed by another. `core/examples` holds two complete
//! programs with real sockets, `embed_core_poll` for a readiness loop and `embed_core_ticks` for a game loop. Here is a whole client, with a stand-in for the
//! broker where a socket would be:
//!
//! ```
//! use std::{collections::VecDeque, time::Duration};
//!
//! use bytes::{Bytes, BytesMut};
//! use nolag_core::{
//!     Action, ClientCore, Config, Disconnect, Event, Instant, Outcome, Payload, Publish, Subscribe, TransportEvent,
//!     TransportEventKind,
//! };
//!
//! # // What a broker would answer, in a few lines.
//! # fn broker(frame: &[u8]) -> Vec<Bytes> {
//! #     use nolag_core::wire::{AuthReply, ClientFrame, Message, ServerFrame, Text};
//! #     let replies = match ClientFrame::decode(frame).unwrap() {
//! #         ClientFrame::Auth(_) => vec![ServerFrame::Auth(AuthReply {
//! #             success: true, actor_token_id: Some("alice"), protocol_version: Some(2), ..AuthReply::default()
//! #         })],
//! #         ClientFrame::Subscribe(s) => vec![ServerFrame::Subscribed { topic: Text::Str(s.topic), load_balance: false }],
//! #         ClientFrame::Publish(p) => vec![
//! #             ServerFrame::Published { topic: Text::Str(p.topic), msg_ref: Text::Str(p.msg_ref.unwrap()) },
//! #             ServerFrame::Message(Message {
//! #                 topic: Text::Str(p.topic), data: p.data, msg_id: None, requires_ack: None, filter: None,
//! #                 is_replay: None, from: None, from_type: None,
//! #             }),
//! #         ],
//! #         _ => vec![],
//! #     };
//! #     replies.iter().map(|reply| { let mut out = BytesMut::new(); reply.encode(&mut out); out.freeze() }).collect()
//! # }
//! let mut now = Instant::ZERO; // yours would come from a monotonic clock
//! let mut core = ClientCore::new(Config::new("dev-token-alice"), 42, now)?;
//! let mut inbound: VecDeque<TransportEvent> = VecDeque::new(); // yours would be a socket
//!
//! core.connect(now)?;
//! core.subscribe(now, Subscribe::new("demo/general/messages"))?;
//! let mut heard = Vec::new();
//!
//! while heard.is_empty() {
//!     // 1. What happened.
//!     for event in inbound.drain(..) {
//!         core.handle_transport(now, event);
//!     }
//!     if core.poll_timeout().is_some_and(|at| at <= now) {
//!         core.handle_timeout(now);
//!     }
//!     // 2. What to send: one WebSocket message at a time.
//!     let mut out = BytesMut::new();
//!     while let Some(transmit) = core.poll_transmit(now, &mut out) {
//!         let frame = out.split_off(out.len() - transmit.len);
//!         for reply in broker(&frame) {
//!             let kind = TransportEventKind::Message(reply);
//!             inbound.push_back(TransportEvent { id: transmit.transport, kind });
//!         }
//!     }
//!     // 3. What to do.
//!     while let Some(action) = core.poll_action() {
//!         match action {
//!             Action::OpenTransport { id } => {
//!                 inbound.push_back(TransportEvent { id, kind: TransportEventKind::Opened });
//!             }
//!             _ => inbound.clear(),
//!         }
//!     }
//!     // 4. What to tell the application.
//!     while let Some(event) = core.poll_event() {
//!         match event {
//!             Event::Done { outcome: Outcome::Subscribed { .. }, .. } => {
//!                 let hello = Payload::encode("hello")?;
//!                 core.publish(now, Publish::new("demo/general/messages", hello))?;
//!             }
//!             Event::Done { outcome, .. } => assert_eq!(outcome.error(), None),
//!             _ => {}
//!         }
//!     }
//!     while let Some(message) = core.poll_message() {
//!         heard.push(message.payload().decode::<String>()?);
//!     }
//!     // 5. Wait. Here time simply passes.
//!     now = now + Duration::from_millis(1);
//! }
//! assert_eq!(heard, ["hello"]);
//!
//! core.disconnect(now, Disconnect::Now);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised
//!
//! * Every accepted command ends in exactly one [`Event::Done`], whatever the network does.
//! * Any bytes from the network are survived, and no peer can make memory grow without bound: [`Limits`] bounds what
//!   waits, and reports that nobody polls are counted and dropped.
//! * The same configuration, seed and calls give the same outputs, byte for byte.
//! * Nothing is done behind your back: a subscription that the broker ends, a message that is dropped, an error that
//!   belongs to no command each have an [`Event`].
//! * A panic is a bug.
//!
//! # Bounds
//!
//! Nothing that a peer sends, and nothing that an application leaves untouched, grows without bound:
//!
//! | what | bound | what tells |
//! |---|---|---|
//! | commands without an outcome, bytes to send | [`Limits::max_pending`], [`Limits::max_outbound_bytes`] | [`Rejection::Full`] |
//! | received messages | twice [`Limits::max_inbound_messages`] and [`Limits::max_inbound_bytes`]: what is on its way when reading stops is kept | [`ClientCore::wants_input`], [`Event::Lagged`] |
//! | reports that no command asked for | 1,024 and 8 MiB of payload until polled | [`Stats::events_dropped`] |
//! | message acks waiting for a session | 4,096 | [`Stats::acks_dropped`] |
//! | messages remembered to recognise duplicates | 1,024 hashes per subscription | – |
//! | members of the room and of each lobby | 16,384, and 16 MiB of presence larger than 1 KiB | [`Stats::presence_dropped`] |
//! | a broker's texts in errors | 512 characters | – |
//! | nesting of a payload | none: it is skipped without recursion; [`Payload::decode`] stops at [`DEFAULT_MAX_DEPTH`] | [`DecodeError`] |
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `std` | yes | typed payloads through serde: [`Payload::encode`] and [`Payload::decode`] |
//! | `rest` | no | `rest`: the REST control plane as plain request and response values |
//!
//! Without `std` the crate is `no_std` and needs `alloc`; payloads are then made and read as MessagePack.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

mod actor;
mod chunk;
mod client;
mod error;
mod payload;
#[cfg(feature = "rest")]
pub mod rest;
mod rng;
mod secret;
mod text_enum;
mod time;
mod topic;
pub mod wire;

pub use actor::ActorType;
pub use client::{
    AckPolicy, Action, ClientCore, Config, Disconnect, Event, FilterChange, Limits, LobbyChange,
    LobbySnapshot, Message, OfflinePolicy, OpId, Outcome, OverflowPolicy, PresenceChange, PresenceKind,
    PresenceMember, Publish, ReconnectPolicy, ResendPolicy, Session, Stats, Status, Subscribe,
    SubscribeOptions, SubscriptionId, SubscriptionInfo, TokenSource, Transmit, TransportEvent,
    TransportEventKind, TransportId, Usage,
};
pub use error::{
    Error, Misuse, Op, ProtocolError, Refused, Rejection, ServerError, TransportError, TransportErrorKind,
};
pub use payload::{DEFAULT_MAX_DEPTH, DecodeError, Payload};
pub use secret::{SecretStr, Token};
pub use time::Instant;
pub use topic::{MAX_SEGMENT, check_pattern, check_segment, check_topic};
