//! A broker for the NoLag realtime protocol, for development and tests.
//!
//! * [`BrokerCore`] is the broker without I/O: bytes, time and a seed go in, frames come out.
//! * [`Server`] puts it behind a WebSocket server.
//! * [`TestBroker`] is a server for one test, with cut and held connections on demand.
//!
//! It imitates real brokers closely, limits and quirks included; [`Profile`] says which one. It is not for
//! production: use Kraken, self-hosted, or the NoLag cloud there.

mod auth;
mod banner;
mod broker;
mod config;
mod payload;
mod profile;
mod random;
mod server;
mod test_broker;
mod topic;

pub use auth::{AuthConfig, AuthError};
pub use banner::startup_banner;
pub use broker::{BrokerCore, ConnectionId, ConnectionInfo, Output};
pub use config::{BrokerConfig, Limits};
/// The time that [`BrokerCore`] is told.
pub use nolag_core::Instant;
pub use profile::{Profile, PublishCheck, Rules};
pub use server::{Server, ServerError, ServerOptions, Stopped};
pub use test_broker::{TestBroker, TestBrokerBuilder};
