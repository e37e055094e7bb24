//! Received messages and their acks.

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashSet;

use super::{ClientCore, Event, Link, Message, Sender, Timer};
use crate::{
    Instant,
    wire::{self, ClientFrame},
};

/// Acks kept for the next session; brokers redeliver nothing for a missing one.
const MAX_ACKS: usize = 4096;

impl ClientCore {
    /// Tells the broker that the message named `msg_id` was processed.
    ///
    /// Call it for messages whose [`ack_id`](super::Message::ack_id) names one. Acks are gathered by
    /// [`Config::acks`](super::Config::acks) and survive a reconnect. Nothing is answered.
    pub fn ack(&mut self, now: Instant, msg_id: &str) {
        self.observe(now);
        self.acked.insert(self.registry.hash(msg_id));
        self.queue_ack(msg_id);
    }

    fn queue_ack(&mut self, msg_id: &str) {
        if self.link == Link::Idle {
            self.stats.acks_dropped += 1;
            return;
        }
        if self.acks.len() >= MAX_ACKS {
            self.acks.pop_front();
            self.stats.acks_dropped += 1;
        }
        self.acks.push_back(msg_id.into());
        if self.acks.len() >= self.config.acks.max_batch {
            self.flush_acks();
        } else if !self.timers.is_armed(Timer::AckFlush) && self.link_is_ready() {
            self.timers.set(Timer::AckFlush, self.now + self.config.acks.max_delay);
        }
    }

    pub(super) fn flush_acks(&mut self) {
        if !self.link_is_ready() {
            return;
        }
        self.timers.stop(Timer::AckFlush);
        // Publishes stop at the limit; acks, which the application cannot hold back, at twice as much.
        if self.outbound.bytes() / 2 >= self.config.limits.max_outbound_bytes {
            return self.drop_acks();
        }
        let batch = self.config.acks.max_batch.max(1);
        while !self.acks.is_empty() {
            let ids: Vec<_> = self.acks.drain(..batch.min(self.acks.len())).collect();
            let frame = match ids.as_slice() {
                [msg_id] => ClientFrame::Ack { msg_id },
                _ => ClientFrame::BatchAck { msg_ids: ids.iter().map(|id| &**id).collect() },
            };
            self.send(&frame, Sender::Nobody);
        }
    }

    pub(super) fn drop_acks(&mut self) {
        self.stats.acks_dropped += self.acks.len() as u64;
        self.acks.clear();
    }

    pub(super) fn handle_message(&mut self, frame: &Bytes, message: &wire::Message<'_>) {
        let Some(topic) = message.topic.as_str() else {
            self.stats.frames_unexpected += 1;
            return;
        };
        // Before its confirmation it can only be that of an earlier subscription to the topic.
        let subscription = self.registry.confirmed_id(topic);
        self.stats.messages_received += 1;
        if message.is_replay == Some(true) {
            self.count_replayed();
        }
        if let (Some(id), Some(msg_id)) = (subscription, message.msg_id) {
            let hash = self.registry.hash(msg_id);
            let seen = self.registry.by_id.get_mut(&id).map(|registration| &mut registration.seen);
            if seen.is_some_and(|seen| !seen.insert(hash)) {
                self.stats.messages_duplicate += 1;
                // It comes again because the broker never saw the ack that the application gave.
                if message.requires_ack == Some(true) && self.acked.contains(hash) {
                    self.queue_ack(msg_id);
                }
                return;
            }
        }
        let message = Message::new(&mut self.chunk, frame, message, subscription);
        if self.inbox.len() == 0 {
            self.removals_seen = self.registry.removals();
        }
        self.inbox.push(self.now, message, &self.config.limits, self.config.overflow);
        self.observe(self.now);
    }

    pub(super) fn link_is_ready(&self) -> bool {
        matches!(self.link, Link::Ready { .. })
    }
}

/// Ids remembered per subscription to recognise duplicates.
const SEEN: usize = 1024;

/// The messages that a subscription has seen, or the application has acknowledged, last; as keyed hashes.
///
/// Boxed, because most brokers name no messages.
#[derive(Debug, Default)]
pub(super) struct Seen(Option<Box<Hashes>>);

#[derive(Debug, Default)]
struct Hashes {
    order: VecDeque<u64>,
    known: HashSet<u64, FixedState>,
}

impl Seen {
    /// `false` when it was there already.
    fn insert(&mut self, hash: u64) -> bool {
        let Hashes { order, known } = &mut **self.0.get_or_insert_default();
        if !known.insert(hash) {
            return false;
        }
        if order.len() >= SEEN {
            if let Some(oldest) = order.pop_front() {
                known.remove(&oldest);
            }
        }
        order.push_back(hash);
        true
    }

    fn contains(&self, hash: u64) -> bool {
        self.0.as_ref().is_some_and(|hashes| hashes.known.contains(&hash))
    }

    pub(super) fn clear(&mut self) {
        self.0 = None;
    }
}

/// The replays under way on this connection; the broker does not say which message belongs to which.
#[derive(Debug, Default)]
pub(super) struct Replay {
    running: u32,
    announced: u64,
    received: u64,
}

impl ClientCore {
    pub(super) fn handle_replay_start(&mut self, count: u64) {
        if self.replay.running == 0 {
            self.replay = Replay::default();
        }
        self.replay.running = self.replay.running.saturating_add(1);
        self.replay.announced = self.replay.announced.saturating_add(count);
        self.report(Event::ReplayStarted { count });
    }

    pub(super) fn handle_replay_end(&mut self, replayed: u64) {
        self.replay.running = self.replay.running.saturating_sub(1);
        self.report(Event::ReplayEnded { replayed });
    }

    fn count_replayed(&mut self) {
        self.replay.received += 1;
        let progress =
            Event::ReplayProgress { received: self.replay.received, announced: self.replay.announced };
        match self.events.back_mut() {
            Some(last @ Event::ReplayProgress { .. }) => *last = progress,
            _ => self.report(progress),
        }
    }
}
