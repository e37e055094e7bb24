//! A broker for the NoLag realtime protocol, for development and tests.
//!
//! * [`BrokerCore`] is the broker without I/O: bytes, time and a seed go in, frames come out.
//! * [`Server`] puts it behind a WebSocket server, with the REST control plane beside it.
//! * [`TestBroker`] is a server for one test, with a recorder of frames and [`Fault`]s on demand.
//!
//! It imitates real brokers closely, limits and quirks included; [`Profile`] says which one. It is not for
//! production: use Kraken, self-hosted, or the NoLag cloud there.

mod auth;
mod banner;
mod blocking;
mod broker;
mod config;
mod control;
mod fault;
mod files;
mod payload;
mod profile;
mod random;
mod recorder;
mod server;
mod test_broker;
mod topic;

pub use auth::{AuthConfig, AuthError, NewActor};
pub use banner::{fault_banner, startup_banner};
pub use blocking::BlockingTestBroker;
pub use broker::{BrokerCore, ConnectionId, ConnectionInfo, FaultId, Output, SubscribedTopic};
pub use config::{BrokerConfig, Limits};
pub use control::{ApiRequest, ApiResponse, StateError};
pub use fault::{Direction, Effect, Fault, FaultError};
/// The time that [`BrokerCore`] is told.
pub use nolag_core::Instant;
pub use profile::{Profile, PublishCheck, Rules};
pub use recorder::{Expected, RecordedFrame};
pub use server::{Server, ServerError, ServerOptions, Stopped};
pub use test_broker::{Recorder, TestBroker, TestBrokerBuilder};
