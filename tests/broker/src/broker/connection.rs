//! What the broker knows about one connection.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use nolag_core::{Instant, Token};

use super::{ConnectionId, ConnectionInfo, lobbies::Observed, presence::Present, resume::ResumeKey};
use crate::auth::Actor;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) identity: Option<Identity>,
    pub(super) idle_deadline: Instant,
    pub(super) subscriptions: BTreeMap<Arc<str>, Subscription>,
    /// Size of the subscriptions, so that one client cannot take all memory.
    pub(super) subscription_bytes: usize,
    pub(super) publishes: PublishWindow,
    /// Where it is present.
    pub(super) present: Option<Present>,
    /// The lobbies that it observes, by slug.
    pub(super) observed: BTreeMap<String, Observed>,
    /// Load-balance groups whose missed messages it was offered.
    pub(super) replayed_groups: BTreeSet<String>,
    pub(super) held: Option<Held>,
}

impl Connection {
    pub(super) fn new() -> Self {
        Self {
            identity: None,
            idle_deadline: Instant::ZERO,
            subscriptions: BTreeMap::new(),
            subscription_bytes: 0,
            publishes: PublishWindow::default(),
            present: None,
            observed: BTreeMap::new(),
            replayed_groups: BTreeSet::new(),
            held: None,
        }
    }

    pub(super) fn info(&self, id: ConnectionId) -> ConnectionInfo {
        ConnectionInfo {
            id,
            actor_id: self.identity.as_ref().map(|identity| identity.actor.actor_id.clone()),
            subscriptions: self.subscriptions.keys().map(|topic| topic.as_ref().into()).collect(),
            held: self.held.is_some(),
        }
    }
}

/// Who a connection is.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) actor: Arc<Actor>,
    pub(super) token: Token,
    pub(super) protocol: u32,
    pub(super) validated: Instant,
    /// When the client token expires, in Unix seconds.
    pub(super) expires_at: Option<u64>,
    pub(super) resume_key: Option<ResumeKey>,
    /// The last change of the control plane that it knows of: publishes do not find rooms that are newer.
    pub(super) knows: u64,
}

/// Counts the publishes of one wall-clock second.
#[derive(Debug, Default)]
pub(super) struct PublishWindow {
    second: u64,
    count: u32,
}

impl PublishWindow {
    /// Counts one more; false when the limit is passed.
    pub(super) fn count(&mut self, second: u64, limit: u32) -> bool {
        if self.second != second {
            *self = Self { second, count: 0 };
        }
        self.count = self.count.saturating_add(1);
        self.count <= limit
    }

    /// Counts so many more if they stay within the limit; false when they do not.
    pub(super) fn count_all(&mut self, second: u64, count: u32, limit: u32) -> bool {
        let before = if self.second == second { self.count } else { 0 };
        let fits = before.saturating_add(count) <= limit;
        if fits {
            *self = Self { second, count: before + count };
        }
        fits
    }
}

/// Frames that wait for a release.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) frames: VecDeque<Bytes>,
    pub(super) bytes: usize,
}

impl Held {
    pub(super) fn push(&mut self, frame: Bytes) {
        self.bytes += frame.len();
        self.frames.push_back(frame);
    }
}

/// One subscription, under the topic that the client wrote.
#[derive(Debug, Clone)]
pub(super) struct Subscription {
    /// The internal topic.
    pub(super) base: String,
    /// The room, when it is known.
    pub(super) room_id: Option<String>,
    /// The full name of the load-balance group.
    pub(super) group: Option<String>,
    /// The filters that the client was told are in force.
    pub(super) confirmed: BTreeSet<Selector>,
    /// The filters that really deliver. A refused re-subscribe leaves none, and `setFilters` only adds the difference
    /// to what was confirmed, as in Kraken.
    pub(super) live: BTreeSet<Selector>,
}

/// What a subscription listens to below its topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Selector {
    /// Everything: the subscription is unfiltered.
    All,
    /// Messages with exactly this filter.
    Filter(String),
}

impl Selector {
    /// Whether a message is meant whose topic continues with `rest` after the subscription's.
    pub(super) fn selects(&self, rest: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Filter(filter) => rest == Some(filter),
        }
    }
}

impl Subscription {
    pub(super) fn size(&self, topic: &str) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let filters: usize = self.confirmed.iter().map(Selector::size).sum();
        128 + 2 * topic.len() + self.base.len() + text(&self.room_id) + text(&self.group) + 2 * filters
    }
}

impl Selector {
    fn size(&self) -> usize {
        match self {
            Self::All => 32,
            Self::Filter(filter) => 32 + filter.len(),
        }
    }
}
