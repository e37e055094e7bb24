//! NoLag clients and a broker together in virtual time, over links that fail.
//!
//! A [`World`] holds any number of [`ClientCore`](nolag_core::ClientCore)s and one
//! [`BrokerCore`](nolag_broker::BrokerCore), joined by links with latency, jitter, bandwidth, silence and cuts. Time jumps
//! from one event to the next, so hours pass in moments, and the same seed gives the same history. There are no sockets,
//! threads or sleeps.
//!
//! ```
//! use nolag_broker::BrokerConfig;
//! use nolag_core::{Config, Event, Outcome};
//! use nolag_sim::World;
//!
//! let mut world = World::new(7, BrokerConfig::default());
//! let alice = world.add_client(Config::new("alice"));
//! let op = world.connect(alice);
//! world.run_until(|world| world.ledger(alice).outcome(op).is_some());
//! assert!(matches!(world.ledger(alice).outcome(op), Some(Outcome::Connected(_))));
//! ```
//!
//! # Your application through outages
//!
//! Write it as an [`Application`], add it with [`World::add_application`], [`plan`](World::plan) what goes wrong as
//! [`Fault`]s, and say as an [`Observer`] what must hold. `examples/outbox.rs` does that with a small application, and
//! finds a bug in it.
//!
//! # The client's own proof
//!
//! [`simulate`] runs clients of every policy through an hour of faults and checks [`invariants`]. The command does it for
//! many seeds: `cargo run --release -p nolag-sim -- --seeds 1..200 --hours 1 --profile hostile`.

mod application;
mod chatter;
mod fault;
pub mod invariants;
mod ledger;
mod network;
mod observer;
#[cfg(feature = "planted")]
mod planted;
mod profile;
mod seat;
mod simulation;
mod world;

pub use application::{Application, Client, Command};
pub use fault::Fault;
pub use ledger::Ledger;
pub use network::{Cut, LinkConfig, Way};
pub use observer::{Moment, Observation, Observer, Violation};
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use profile::Profile;
pub use simulation::{Failure, SETTLING, Settings, Summary, polling_changes_nothing, simulate};
pub use world::{ClientId, World};
