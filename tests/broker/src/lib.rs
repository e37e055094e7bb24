//! A broker for the NoLag realtime protocol, for development and tests.
//!
//! * [`BrokerCore`] is the broker without I/O: bytes, time and a seed go in, frames come out.
//!
//! It imitates real brokers closely, limits and quirks included; [`Profile`] says which one. It is not for
//! production: use Kraken, self-hosted, or the NoLag cloud there.

mod auth;
mod broker;
mod config;
mod payload;
mod profile;
mod random;
mod topic;

pub use auth::{AuthConfig, AuthError};
pub use broker::{BrokerCore, ConnectionId, ConnectionInfo, Output};
pub use config::{BrokerConfig, Limits};
pub use profile::{Profile, PublishCheck, Rules};
