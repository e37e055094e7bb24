//! How much a client holds.

use super::ClientCore;

/// How much a client holds at this moment. Every number has a bound, so that neither a broker nor an application can
/// make it grow without end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Commands without an outcome. At most [`Limits::max_pending`](super::Limits::max_pending), with connects and
    /// disconnects on top.
    pub operations: usize,
    /// Requests without an answer, overdue ones included. At most [`Limits::max_pending`](super::Limits::max_pending),
    /// with those on top that restore subscriptions, presence and lobbies.
    pub requests: usize,
    /// Bytes of frames to be sent and of publishes without an outcome. At most
    /// [`Limits::max_outbound_bytes`](super::Limits::max_outbound_bytes) by commands, and as much again by acks.
    pub outbound_bytes: usize,
    /// Received messages that the application has not taken. At most twice
    /// [`Limits::max_inbound_messages`](super::Limits::max_inbound_messages).
    pub inbound_messages: usize,
    /// Their bytes. At most twice [`Limits::max_inbound_bytes`](super::Limits::max_inbound_bytes) and one message.
    pub inbound_bytes: usize,
    /// Message acks to be sent. At most 4,096.
    pub acks: usize,
    /// Events to be polled. At most 1,024 that the broker caused, with the outcomes of commands and the changes of the
    /// connection on top.
    pub events: usize,
    /// Subscriptions, as many as the application made.
    pub subscriptions: usize,
    /// Members known of the room where this client is present. At most 16,384.
    pub members: usize,
    /// Lobbies watched, as many as the application watches.
    pub lobbies: usize,
}

impl ClientCore {
    /// How much it holds at this moment.
    pub fn usage(&self) -> Usage {
        Usage {
            operations: self.ops.len(),
            requests: self.requests.len(),
            outbound_bytes: self.outbound.bytes() + self.publishes.bytes(),
            inbound_messages: self.inbox.len(),
            inbound_bytes: self.inbox.bytes(),
            acks: self.acks.len(),
            events: self.events.len(),
            subscriptions: self.registry.len(),
            members: self.presence.known(),
            lobbies: self.lobbies.watched(),
        }
    }
}
