//! What must hold for every input, as functions of bytes: the bodies of the fuzz targets.
//!
//! `fuzz/` at the top of the repository has one shim per target that gives these functions to a fuzzer.
//! `tests/corpora.rs` runs every input of `fuzz/corpus`, and every [bomb](bombs::of), through them with each
//! `cargo test`. A function returns when its claims hold, and panics when one does not. Each may be called with
//! anything; what is no input for it is passed over.
//!
//! | target | input | claims |
//! |---|---|---|
//! | [`decode_frame`] | one WebSocket message | both directions are read without a panic, the same bytes are accepted that a second reader accepts, what is borrowed lies inside, typed payloads end at the depth limit, one line shows a frame without its secrets |
//! | [`roundtrip_frame`] | one WebSocket message | what decodes is written in one way, and read again as the same |
//! | [`client_ops`] | a script for one client | every accepted command ends once, nothing leaves on a transport that is not open, what waits is bounded, and leaving leaves nothing |
//! | [`client_vs_broker`] | a script for two clients and a broker | once the network is quiet everything is settled, the broker delivers what the clients are subscribed to, and outcomes of publishes are true |
//! | [`rest_parse`] | a status, an id and a body | every answer is a value or an error that speaks, every id stays one segment of a path |
//! | [`auth_file`] | a text | it is read as an auth file and as a state file, and no error tells a token |
//! | [`trace_reader`] | the content of a recording | every line is read or is a problem with its number |

mod client;
mod codec;
mod commands;
mod files;
mod frames;
mod input;
mod peer;
mod rest;
mod witness;
mod world;

pub mod bombs;
pub mod seeds;

pub use client::client_ops;
pub use codec::{decode_frame, roundtrip_frame};
pub use files::{auth_file, trace_reader};
pub use rest::rest_parse;
pub use world::client_vs_broker;

/// A name, and what is done with each input.
pub type Target = (&'static str, fn(&[u8]));

/// Every target by its name, which is also that of its shim and of its corpus.
pub const TARGETS: &[Target] = &[
    ("auth_file", auth_file),
    ("client_ops", client_ops),
    ("client_vs_broker", client_vs_broker),
    ("decode_frame", decode_frame),
    ("rest_parse", rest_parse),
    ("roundtrip_frame", roundtrip_frame),
    ("trace_reader", trace_reader),
];
