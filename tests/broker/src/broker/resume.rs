//! Subscriptions remembered for a reconnect, from 0.9 on.

use std::{collections::BTreeMap, time::Duration};

use bytes::{Bytes, BytesMut};
use nolag_core::{
    Instant,
    wire::{Key, RawValue, write},
};

/// How long a memory outlives its last connection.
const LIFETIME: Duration = Duration::from_secs(3600);

/// Bytes of one memory; further subscriptions are not remembered.
const MAX_MEMORY_BYTES: usize = 8 << 20;

/// Bytes of memories that nobody holds; above it those that would expire first go.
const MAX_IDLE_BYTES: usize = 64 << 20;

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
    bytes: usize,
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
            *memory = Memory::default();
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
        let idle = |memory: &&Memory| memory.expires.is_some();
        let mut bytes: usize = self.memories.values().filter(idle).map(Memory::size).sum();
        while bytes > MAX_IDLE_BYTES {
            let idle = self.memories.iter().filter_map(|(key, memory)| Some((memory.expires?, key)));
            let Some(first) = idle.min().map(|(_, key)| key.clone()) else { break };
            bytes -= self.memories.remove(&first).map_or(0, |memory| memory.size());
        }
    }

    pub(super) fn expire(&mut self, now: Instant) {
        self.memories.retain(|_, memory| memory.expires.is_none_or(|expires| expires > now));
    }

    /// Notes a subscription.
    pub(super) fn remember(&mut self, key: &ResumeKey, topic: &str, subscription: Remembered) {
        if let Some(memory) = self.memories.get_mut(key) {
            memory.put(topic, subscription);
        }
    }

    /// Notes the new filters of a subscription.
    pub(super) fn remember_filters(&mut self, key: &ResumeKey, topic: &str, filters: Bytes) {
        let Some(memory) = self.memories.get_mut(key) else { return };
        if let Some(mut subscription) = memory.take(topic) {
            subscription.options.insert(Key::Filters.as_str(), filters);
            memory.put(topic, subscription);
        }
    }

    /// Forgets a subscription.
    pub(super) fn forget(&mut self, key: &ResumeKey, topic: &str) {
        if let Some(memory) = self.memories.get_mut(key) {
            memory.take(topic);
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

impl Memory {
    fn put(&mut self, topic: &str, subscription: Remembered) {
        self.take(topic);
        let size = subscription.size(topic);
        if self.bytes + size <= MAX_MEMORY_BYTES {
            self.bytes += size;
            self.topics.insert(topic.into(), subscription);
        }
    }

    fn take(&mut self, topic: &str) -> Option<Remembered> {
        let subscription = self.topics.remove(topic)?;
        self.bytes -= subscription.size(topic);
        Some(subscription)
    }

    fn size(&self) -> usize {
        256 + self.bytes
    }
}

impl Remembered {
    fn size(&self, topic: &str) -> usize {
        128 + topic.len() + self.options.values().map(|value| 64 + value.len()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(memory: &mut ResumeMemory, key: &ResumeKey, count: usize) {
        for n in 0..count {
            let filters = Bytes::from(vec![0xa1; 900_000]);
            let options = BTreeMap::from([(Key::Filters.as_str(), filters)]);
            memory.remember(key, &format!("topic {n}"), Remembered { options });
        }
    }

    #[test]
    fn client_ids_are_cleaned() {
        assert_eq!(clean_client_id("lap top_1-é!").as_deref(), Some("laptop_1-"));
        assert_eq!(clean_client_id(&"x".repeat(99)).map(|id| id.len()), Some(64));
        assert_eq!(clean_client_id("é !"), None);
    }

    #[test]
    fn one_memory_and_all_idle_ones_together_are_bounded() {
        let mut memory = ResumeMemory::default();
        for n in 0..20 {
            let key = (format!("actor {n}"), None);
            memory.hold(&key, false, Instant::ZERO);
            fill(&mut memory, &key, 20);
            memory.release(&key, Instant::from_micros(n));
        }
        let sizes: Vec<_> = memory.memories.values().map(Memory::size).collect();
        assert!(sizes.iter().all(|size| *size <= MAX_MEMORY_BYTES + 256));
        assert!(sizes.iter().sum::<usize>() <= MAX_IDLE_BYTES);
        assert!(memory.memories.contains_key(&("actor 19".into(), None)), "the newest stays");
        assert!(!memory.memories.contains_key(&("actor 0".into(), None)), "the oldest goes");
    }
}
