//! NoLag clients and a broker together in virtual time, over links that fail.
//!
//! A [`World`] holds any number of [`ClientCore`](nolag_core::ClientCore)s and one
//! [`BrokerCore`](nolag_broker::BrokerCore), joined by links with latency, jitter and cuts. Time jumps from one event to
//! the next, so hours pass in milliseconds, and the same seed gives the same history.
//!
//! The world keeps a [`Ledger`]: it knows every accepted command and fails at once when one ends twice.
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

mod ledger;
mod link;
mod world;

pub use ledger::Ledger;
pub use link::{Cut, LinkConfig};
pub use world::{ClientId, World};
