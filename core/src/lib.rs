//! I/O-free client state machine and wire format of the NoLag realtime protocol.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod client;
mod error;
mod payload;
mod rng;
mod secret;
mod time;
mod topic;
pub mod wire;

pub use client::*;
pub use error::*;
#[cfg(feature = "std")]
pub use payload::DecodeError;
pub use payload::{DEFAULT_MAX_DEPTH, Payload};
pub use secret::{SecretStr, Token};
pub use time::Instant;
pub use topic::{MAX_SEGMENT, check_pattern, check_segment, check_topic};
