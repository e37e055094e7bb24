//! What waits to be sent on the current transport.

use alloc::collections::VecDeque;
use core::fmt;

use bytes::{Bytes, BytesMut};

use super::event::OpId;

/// Whom to tell that a frame was handed to the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    Nobody,
    Request(u64),
    /// Done with being sent: nothing answers it.
    Unanswered(OpId),
}

/// Encoded frames in sending order, publishes excepted: those wait elsewhere, for their pace. Heartbeats overtake, so that
/// a full queue does not look like a dead client.
#[derive(Default)]
pub(super) struct Outbound {
    /// With the place of each in the order of everything that is sent.
    queue: VecDeque<(u64, Bytes, Sender)>,
    bytes: usize,
    heartbeat: bool,
}

/// Shows sizes only: the frames hold a token and payloads.
impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound")
            .field("frames", &self.queue.len())
            .field("bytes", &self.bytes)
            .field("heartbeat", &self.heartbeat)
            .finish()
    }
}

impl Outbound {
    pub(super) fn push(&mut self, place: u64, frame: Bytes, sender: Sender) {
        self.bytes += frame.len();
        self.queue.push_back((place, frame, sender));
    }

    /// Whether what is next here comes before `place`.
    pub(super) fn precedes(&self, place: u64) -> bool {
        self.heartbeat || self.queue.front().is_some_and(|(front, ..)| *front < place)
    }

    pub(super) fn push_heartbeat(&mut self) {
        self.heartbeat = true;
    }

    /// Appends the next message to `out`.
    pub(super) fn pop(&mut self, out: &mut BytesMut) -> Option<(usize, Sender)> {
        if core::mem::take(&mut self.heartbeat) {
            return Some((0, Sender::Nobody));
        }
        let (_, frame, sender) = self.queue.pop_front()?;
        self.bytes -= frame.len();
        out.extend_from_slice(&frame);
        Some((frame.len(), sender))
    }

    /// The commands that would end with being sent.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = OpId> {
        self.queue.iter().filter_map(|(.., sender)| match sender {
            Sender::Unanswered(op) => Some(*op),
            Sender::Nobody | Sender::Request(_) => None,
        })
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && !self.heartbeat
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Bytes waiting.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
