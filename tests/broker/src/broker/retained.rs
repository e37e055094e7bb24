//! Messages kept for later subscribers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use nolag_core::Instant;

use super::{
    connection::{Selector, Subscription},
    publish::Published,
};
use crate::topic;

/// How long a retained message lives.
const LIFETIME: Duration = Duration::from_secs(3600);

/// Bytes of retained messages; above it the oldest go first.
const MAX_BYTES: usize = 64 << 20;

/// The last retained message of each internal topic, filter included.
#[derive(Debug, Default)]
pub(super) struct Retained {
    messages: BTreeMap<String, (u64, Arc<Published>)>,
    /// By age: number of the message → when it expires, and its topic.
    ages: BTreeMap<u64, (Instant, String)>,
    stored: u64,
    bytes: usize,
}

impl Retained {
    pub(super) fn store(&mut self, message: Arc<Published>, now: Instant) {
        self.remove(&message.topic.clone());
        self.expire(now);
        self.stored += 1;
        self.bytes += message.size();
        self.ages.insert(self.stored, (now + LIFETIME, message.topic.clone()));
        self.messages.insert(message.topic.clone(), (self.stored, message));
        while self.bytes > MAX_BYTES {
            let Some((_, (_, topic))) = self.ages.first_key_value() else { break };
            self.remove(&topic.clone());
        }
    }

    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((_, (expiry, topic))) = self.ages.first_key_value() {
            if *expiry > now {
                break;
            }
            self.remove(&topic.clone());
        }
    }

    /// Drops the messages of some internal topics.
    pub(super) fn forget(&mut self, is_meant: impl Fn(&str) -> bool) {
        let meant: Vec<String> = self.messages.keys().filter(|topic| is_meant(topic)).cloned().collect();
        meant.iter().for_each(|topic| self.remove(topic));
    }

    /// The messages for these selectors of a subscription, in the order of their topics.
    pub(super) fn matching<'s>(
        &self,
        subscription: &Subscription,
        selectors: impl Iterator<Item = &'s Selector> + Clone,
    ) -> Vec<Arc<Published>> {
        let base = &subscription.base;
        // Everything below a plain topic is one stretch of the map; wildcards have to look at all.
        let start = if topic::has_wildcard(base) { String::new() } else { base.clone() };
        let stretch = self.messages.range(start.clone()..).take_while(|(topic, _)| topic.starts_with(&start));
        let wanted = stretch.filter(|(topic, _)| {
            let rest = topic::remainder(base, topic);
            rest.is_some_and(|rest| selectors.clone().any(|selector| selector.selects(rest)))
        });
        wanted.map(|(_, (_, message))| message.clone()).collect()
    }

    fn remove(&mut self, topic: &str) {
        if let Some((number, message)) = self.messages.remove(topic) {
            self.ages.remove(&number);
            self.bytes -= message.size();
        }
    }
}
