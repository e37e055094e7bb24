//! Received messages that the application has not taken, and the pause that follows when there are too many.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use super::{
    config::{Limits, OverflowPolicy},
    event::SubscriptionId,
    message::Message,
};
use crate::Instant;

/// Time that does not pass while reading is paused by us: replies cannot arrive then, so their deadlines wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ActiveTime(Instant);

impl core::ops::Add<Duration> for ActiveTime {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

/// Whether we read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// Reading.
    Open,
    /// Not reading since then: the budget is used up.
    Paused(Instant),
    /// Room again, seen between two calls that tell the time; the pause ends with the next.
    Resuming(Instant),
    /// Reading although the budget is used up: the application had its time, now messages are dropped.
    Overflowing,
}

#[derive(Debug)]
pub(super) struct Inbox {
    queue: VecDeque<Message>,
    bytes: usize,
    flow: Flow,
    paused_total: Duration,
    /// Drops not yet reported.
    lagged: BTreeMap<Option<SubscriptionId>, u64>,
    dropped: u64,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            bytes: 0,
            flow: Flow::Open,
            paused_total: Duration::ZERO,
            lagged: BTreeMap::new(),
            dropped: 0,
        }
    }

    /// Takes a message; makes room for it if the application has been behind for too long. What was already on its way
    /// when the budget was used up is kept, but no more than as much again.
    pub(super) fn push(&mut self, now: Instant, message: Message, limits: &Limits, policy: OverflowPolicy) {
        let budgets = if self.flow == Flow::Overflowing { 1 } else { 2 };
        while self.has_used(budgets, limits) && !self.queue.is_empty() {
            match policy {
                OverflowPolicy::DropNewest => return self.count_drop(message.subscription),
                OverflowPolicy::DropOldest => {
                    if let Some(oldest) = self.queue.pop_front() {
                        self.bytes -= oldest.retained();
                        self.count_drop(oldest.subscription);
                    }
                }
            }
        }
        self.bytes += message.retained();
        self.queue.push_back(message);
        if self.has_used(1, limits) {
            match self.flow {
                Flow::Open => self.flow = Flow::Paused(now),
                Flow::Resuming(since) => self.flow = Flow::Paused(since),
                Flow::Paused(_) | Flow::Overflowing => {}
            }
        }
    }

    pub(super) fn pop(&mut self, limits: &Limits) -> Option<Message> {
        let message = self.queue.pop_front()?;
        self.bytes -= message.retained();
        let half_empty =
            self.queue.len() * 2 <= limits.max_inbound_messages && self.bytes * 2 <= limits.max_inbound_bytes;
        if half_empty {
            match self.flow {
                Flow::Paused(since) => self.flow = Flow::Resuming(since),
                Flow::Overflowing => self.flow = Flow::Open,
                Flow::Open | Flow::Resuming(_) => {}
            }
        }
        Some(message)
    }

    /// Learns the time: a pause that ended between two calls ends here.
    pub(super) fn observe(&mut self, now: Instant) {
        if let Flow::Resuming(since) = self.flow {
            self.paused_total += now.saturating_since(since);
            self.flow = Flow::Open;
        }
    }

    /// Reads on although the application is behind.
    pub(super) fn overflow(&mut self, now: Instant) {
        if let Flow::Paused(since) = self.flow {
            self.paused_total += now.saturating_since(since);
            self.flow = Flow::Overflowing;
        }
    }

    /// A lost connection ends a pause: the next one may be read.
    pub(super) fn connection_lost(&mut self, now: Instant) {
        if let Flow::Paused(since) = self.flow {
            self.flow = Flow::Resuming(since);
        }
        self.observe(now);
    }

    pub(super) fn wants_input(&self) -> bool {
        !matches!(self.flow, Flow::Paused(_))
    }

    /// Since when reading is paused.
    pub(super) fn paused_since(&self) -> Option<Instant> {
        match self.flow {
            Flow::Paused(since) => Some(since),
            _ => None,
        }
    }

    pub(super) fn active(&self, now: Instant) -> ActiveTime {
        let current = match self.flow {
            Flow::Paused(since) | Flow::Resuming(since) => now.saturating_since(since),
            Flow::Open | Flow::Overflowing => Duration::ZERO,
        };
        ActiveTime(now - (self.paused_total + current))
    }

    /// When `deadline` comes, unless reading is paused.
    pub(super) fn wall(&self, deadline: ActiveTime) -> Option<Instant> {
        self.wants_input().then(|| deadline.0 + self.paused_total)
    }

    /// The next report of drops.
    pub(super) fn pop_lagged(&mut self) -> Option<(Option<SubscriptionId>, u64)> {
        self.lagged.pop_first()
    }

    /// Messages dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the budget is used up that many times over.
    fn has_used(&self, budgets: usize, limits: &Limits) -> bool {
        self.queue.len() >= limits.max_inbound_messages.saturating_mul(budgets)
            || self.bytes >= limits.max_inbound_bytes.saturating_mul(budgets)
    }

    fn count_drop(&mut self, subscription: Option<SubscriptionId>) {
        *self.lagged.entry(subscription).or_default() += 1;
        self.dropped += 1;
    }
}
