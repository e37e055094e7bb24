//! What an actor is.

use std::fmt;

/// The type of an actor. Brokers may know more types than this crate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ActorType {
    /// An AI agent; the broker keeps a session for it while it is away.
    Agent,
    /// A device.
    Device,
    /// Somebody who only watches.
    Observer,
    /// Steers agents; the broker keeps a session for it while it is away.
    Orchestrator,
    /// A service.
    Service,
    /// A session.
    Session,
    /// A person.
    User,
    /// A type that this crate does not know, as the broker wrote it.
    Other(Box<str>),
}

impl ActorType {
    /// The name on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Agent => "agent",
            Self::Device => "device",
            Self::Observer => "observer",
            Self::Orchestrator => "orchestrator",
            Self::Service => "service",
            Self::Session => "session",
            Self::User => "user",
            Self::Other(name) => name,
        }
    }
}

impl From<&str> for ActorType {
    fn from(name: &str) -> Self {
        match name {
            "agent" => Self::Agent,
            "device" => Self::Device,
            "observer" => Self::Observer,
            "orchestrator" => Self::Orchestrator,
            "service" => Self::Service,
            "session" => Self::Session,
            "user" => Self::User,
            other => Self::Other(other.into()),
        }
    }
}

impl fmt::Display for ActorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
