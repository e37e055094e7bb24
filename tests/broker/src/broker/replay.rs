//! Durable delivery: messages that a load-balanced group missed.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use nolag_core::{Instant, wire::ServerFrame};

use super::{BrokerCore, ConnectionId, connection::Connection, encode, publish::Published};

/// How long a message can be replayed.
const LIFETIME: Duration = Duration::from_secs(3600);

/// Most messages that are kept.
const MAX_MESSAGES: usize = 10_000;

/// Bytes of kept messages; above it the oldest go first.
const MAX_BYTES: usize = 64 << 20;

/// Groups whose position is kept; above it the one that is furthest behind is forgotten.
const MAX_GROUPS: usize = 10_000;

/// What was published, and how far each group has got.
///
/// At most 10,000 messages and 64 MiB, none older than an hour, and the positions of 10,000 groups.
#[derive(Debug, Default)]
pub(super) struct History {
    messages: VecDeque<Kept>,
    bytes: usize,
    /// Number of the next message; they count from 1.
    next: u64,
    /// Group → number of the last message that it does not need.
    positions: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    expires: Instant,
    room_id: String,
    message: Arc<Published>,
    /// Groups in which somebody took it.
    taken_by: BTreeSet<String>,
}

impl History {
    /// Keeps a message. Returns its number.
    pub(super) fn keep(&mut self, room_id: String, message: Arc<Published>, now: Instant) -> u64 {
        self.expire(now);
        self.next += 1;
        self.bytes += message.size() + room_id.len();
        let (number, expires) = (self.next, now + LIFETIME);
        self.messages.push_back(Kept { number, expires, room_id, message, taken_by: BTreeSet::new() });
        while self.messages.len() > MAX_MESSAGES || self.bytes > MAX_BYTES {
            self.drop_oldest();
        }
        number
    }

    /// A member of the group got the message.
    pub(super) fn take(&mut self, number: u64, group: &str) {
        let first = self.messages.front().map_or(u64::MAX, |kept| kept.number);
        let index = number.checked_sub(first).and_then(|index| usize::try_from(index).ok());
        let kept = index.and_then(|index| self.messages.get_mut(index));
        if kept.is_some_and(|kept| kept.taken_by.insert(group.into())) {
            self.bytes += taken_size(group);
        }
    }

    /// The group needs nothing of what was published so far.
    fn catch_up(&mut self, group: &str) {
        self.positions.insert(group.into(), self.next);
        if self.positions.len() > MAX_GROUPS {
            let behind = self.positions.iter().min_by_key(|(_, position)| **position);
            if let Some(behind) = behind.map(|(group, _)| group.clone()) {
                self.positions.remove(&behind);
            }
        }
    }

    /// What the group missed in a room, oldest first, at most `limit`. The group is then past it. A group that is seen
    /// for the first time has missed nothing.
    fn missed(&mut self, group: &str, room_id: &str, limit: usize, now: Instant) -> Vec<Arc<Published>> {
        self.expire(now);
        let Some(position) = self.positions.get(group).copied() else {
            self.catch_up(group);
            return Vec::new();
        };
        let start = self.messages.partition_point(|kept| kept.number <= position);
        let candidates = self.messages.range(start..).filter(|kept| kept.room_id == room_id).take(limit);
        let mut past = position;
        let mut missed = Vec::new();
        for kept in candidates {
            past = kept.number;
            if !kept.taken_by.contains(group) {
                missed.push(kept.message.clone());
            }
        }
        self.positions.insert(group.into(), past);
        missed
    }

    fn expire(&mut self, now: Instant) {
        while self.messages.front().is_some_and(|kept| kept.expires <= now) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(kept) = self.messages.pop_front() {
            let taken: usize = kept.taken_by.iter().map(|group| taken_size(group)).sum();
            self.bytes -= kept.message.size() + kept.room_id.len() + taken;
        }
    }
}

fn taken_size(group: &str) -> usize {
    64 + group.len()
}

/// The groups of a connection that can be replayed: topic, group and room of each subscription.
fn durable(connection: &Connection) -> impl Iterator<Item = (&Arc<str>, &str, &str)> {
    connection.subscriptions.iter().filter_map(|(topic, subscription)| {
        Some((topic, subscription.group.as_deref()?, subscription.room_id.as_deref()?))
    })
}

impl BrokerCore {
    /// An actor says that it is there to stay: each of its load-balanced groups is offered once per connection what it
    /// missed in the room, whatever the topic was.
    pub(super) fn replay_missed(&mut self, conn: ConnectionId) {
        if !self.durable_delivery {
            return;
        }
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let groups: Vec<(Arc<str>, String, String)> = durable(connection)
            .map(|(topic, group, room)| (topic.clone(), group.into(), room.into()))
            .collect();
        for (topic, group, room_id) in groups {
            let Some(connection) = self.connections.get_mut(&conn) else { return };
            if !connection.replayed_groups.insert(group.clone()) {
                continue;
            }
            let missed = self.history.missed(&group, &room_id, self.rules.replay_limit, self.now);
            let count = missed.len() as u64;
            let start = ServerFrame::ReplayStart { count, oldest_timestamp: None, newest_timestamp: None };
            self.send_frame(conn, &start);
            for message in &missed {
                let frame = encode(&self.message(message, &topic, None, Some(true)));
                self.send(conn, frame);
            }
            self.send_frame(conn, &ServerFrame::ReplayEnd { replayed: count });
            self.in_flight.after_replay(conn, &missed);
        }
    }

    /// A member of durable groups is gone: what is published from now on is what they miss.
    pub(super) fn note_absence(&mut self, connection: &Connection) {
        if self.durable_delivery {
            durable(connection).for_each(|(_, group, _)| self.history.catch_up(group));
        }
    }
}
