//! Subscriptions remembered for a reconnect, from 0.9 on.

use std::{collections::BTreeMap, time::Duration};

use bytes::{Bytes, BytesMut};
use nolag_core::{
    Instant,
    wire::{Key, RawValue, write},
};

/// How long a memory outlives its last connection.
const LIFETIME: Duration = Duration::from_secs(3600);

/// Memories kept; above it the one that would expire first goes.
const MAX_MEMORIES: usize = 10_000;

/// Names a client instance: its actor, and the cleaned `clientId` if it sent one.
pub(super) type ResumeKey = (String, Option<String>);

/// Reads a `clientId`: other characters than `[A-Za-z0-9_-]` are dropped, at most 64 remain, none is no id.
pub(super) fn clean_client_id(text: &str) -> Option<String> {
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    Some(text.chars().filter(allowed).take(64).collect()).filter(|id: &String| !id.is_empty())
}

/// The options of one subscription as the client sent them, packed.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    pub(super) options: BTreeMap<&'static str, Bytes>,
}

#[derive(Debug, Default)]
struct Memory {
    topics: BTreeMap<String, Remembered>,
    connections: usize,
    expires: Option<Instant>,
}

/// What each client instance was subscribed to.
#[derive(Debug, Default)]
pub(super) struct ResumeMemory {
    memories: BTreeMap<ResumeKey, Memory>,
}

impl ResumeMemory {
    /// A connection takes hold of a memory. Unless it reconnects, it starts afresh, if nobody else holds it.
    pub(super) fn hold(&mut self, key: &ResumeKey, reconnect: bool, now: Instant) {
        self.expire(now);
        let memory = self.memories.entry(key.clone()).or_default();
        if !reconnect && memory.connections == 0 {
            memory.topics.clear();
        }
        memory.connections += 1;
        memory.expires = None;
    }

    /// A connection lets go.
    pub(super) fn release(&mut self, key: &ResumeKey, now: Instant) {
        let Some(memory) = self.memories.get_mut(key) else { return };
        memory.connections = memory.connections.saturating_sub(1);
        if memory.connections > 0 {
            return;
        }
        if memory.topics.is_empty() {
            self.memories.remove(key);
            return;
        }
        memory.expires = Some(now + LIFETIME);
        let expiring = self.memories.iter().filter_map(|(key, memory)| Some((memory.expires?, key)));
        if expiring.clone().count() > MAX_MEMORIES {
            if let Some(oldest) = expiring.min().map(|(_, key)| key.clone()) {
                self.memories.remove(&oldest);
            }
        }
    }

    pub(super) fn expire(&mut self, now: Instant) {
        self.memories.retain(|_, memory| memory.expires.is_none_or(|expires| expires > now));
    }

    /// Notes a subscription.
    pub(super) fn remember(&mut self, key: &ResumeKey, topic: &str, subscription: Remembered) {
        if let Some(memory) = self.memories.get_mut(key) {
            memory.topics.insert(topic.into(), subscription);
        }
    }

    /// Notes the new filters of a subscription.
    pub(super) fn remember_filters(&mut self, key: &ResumeKey, topic: &str, filters: Bytes) {
        let memory = self.memories.get_mut(key);
        if let Some(subscription) = memory.and_then(|memory| memory.topics.get_mut(topic)) {
            subscription.options.insert(Key::Filters.as_str(), filters);
        }
    }

    /// Forgets a subscription.
    pub(super) fn forget(&mut self, key: &ResumeKey, topic: &str) {
        if let Some(memory) = self.memories.get_mut(key) {
            memory.topics.remove(topic);
        }
    }

    /// The remembered subscriptions as a packed list.
    pub(super) fn list(&self, key: &ResumeKey) -> Bytes {
        let mut out = BytesMut::new();
        let topics = self.memories.get(key).map(|memory| &memory.topics);
        write::list_header(&mut out, topics.map_or(0, BTreeMap::len));
        for (topic, subscription) in topics.into_iter().flatten() {
            write::map_header(&mut out, 1 + subscription.options.len());
            write::str(&mut out, Key::Topic.as_str());
            write::str(&mut out, topic);
            for (key, value) in &subscription.options {
                write::str(&mut out, key);
                write::value(&mut out, RawValue::parse(value).unwrap_or(RawValue::NIL));
            }
        }
        out.freeze()
    }
}
