//! The HTTP clients below the REST client of the `nolag` crate.
//!
//! `nolag` with its features `rest` and `tokio` needs reqwest, and with `rest` and any other runtime ureq. A manifest
//! cannot name a dependency for two features together, but it can turn on a feature of a dependency that may be there:
//! so `rest` brings this crate, and each runtime, if it is there, what belongs to it. There is nothing else here, and no
//! reason to use it by itself.

#![forbid(unsafe_code)]

#[cfg(feature = "reqwest")]
pub use reqwest;
#[cfg(feature = "ureq")]
pub use ureq;
