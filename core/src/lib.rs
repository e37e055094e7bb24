//! core
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
mod secret;
mod time;
pub mod wire;
pub use secret::{SecretStr, Token};
pub use time::Instant;
