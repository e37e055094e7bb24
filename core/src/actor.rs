//! What an actor is.

use crate::text_enum::text_enum;

text_enum! {
    /// The type of an actor. Servers may know more types than this crate.
    ActorType {
        /// An AI agent; the broker keeps a session for it while it is away.
        Agent = "agent",
        /// A device.
        Device = "device",
        /// Somebody who only watches.
        Observer = "observer",
        /// Steers agents; the broker keeps a session for it while it is away.
        Orchestrator = "orchestrator",
        /// A service.
        Service = "service",
        /// A session.
        Session = "session",
        /// A person.
        User = "user",
    }
}
