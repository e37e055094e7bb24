//! From a published topic to the subscriptions that may want it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    ConnectionId,
    connection::{Selector, Subscription},
};
use crate::topic;

/// A subscription: whose, and under which topic of theirs.
pub(super) type Route = (ConnectionId, Arc<str>);

/// All subscriptions by their internal topic.
#[derive(Debug, Default)]
pub(super) struct Routes {
    plain: BTreeMap<String, BTreeSet<Route>>,
    wild: BTreeMap<String, BTreeSet<Route>>,
}

impl Routes {
    pub(super) fn insert(&mut self, base: &str, conn: ConnectionId, topic: Arc<str>) {
        self.table(base).entry(base.into()).or_default().insert((conn, topic));
    }

    pub(super) fn remove(&mut self, base: &str, conn: ConnectionId, topic: &Arc<str>) {
        let table = self.table(base);
        if let Some(routes) = table.get_mut(base) {
            routes.remove(&(conn, topic.clone()));
            if routes.is_empty() {
                table.remove(base);
            }
        }
    }

    /// Subscriptions whose topic is the published one or above it, oldest connection first.
    pub(super) fn candidates(&self, published: &str) -> Vec<Route> {
        let plain = topic::prefixes(published).filter_map(|prefix| self.plain.get(prefix));
        let wild = self.wild.iter().filter(|(base, _)| topic::remainder(base, published).is_some());
        let mut routes: Vec<Route> =
            plain.chain(wild.map(|(_, routes)| routes)).flat_map(|routes| routes.iter().cloned()).collect();
        routes.sort_unstable();
        routes
    }

    fn table(&mut self, base: &str) -> &mut BTreeMap<String, BTreeSet<Route>> {
        if topic::has_wildcard(base) { &mut self.wild } else { &mut self.plain }
    }
}

/// A load-balance group shares the messages of one subscribed topic with one filter.
pub(super) type GroupKey = (String, String, Selector);

/// Whose turn it is in each load-balance group.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: BTreeMap<GroupKey, Group>,
}

#[derive(Debug, Default)]
struct Group {
    members: usize,
    last_served: Option<Route>,
}

impl Groups {
    pub(super) fn join(&mut self, subscription: &Subscription) {
        for key in keys(subscription) {
            self.groups.entry(key).or_default().members += 1;
        }
    }

    pub(super) fn leave(&mut self, subscription: &Subscription) {
        for key in keys(subscription) {
            if let Some(group) = self.groups.get_mut(&key) {
                group.members -= 1;
                if group.members == 0 {
                    self.groups.remove(&key);
                }
            }
        }
    }

    /// The next of `members`, which are sorted, round robin.
    pub(super) fn choose(&mut self, key: &GroupKey, members: Vec<Route>) -> Option<Route> {
        let group = self.groups.get_mut(key)?;
        let next = members.iter().find(|member| Some(*member) > group.last_served.as_ref());
        let chosen = next.or_else(|| members.first()).cloned();
        group.last_served.clone_from(&chosen);
        chosen
    }
}

fn keys(subscription: &Subscription) -> impl Iterator<Item = GroupKey> {
    let live =
        subscription.group.iter().flat_map(|group| subscription.live.iter().map(move |live| (group, live)));
    live.map(|(group, selector)| (group.clone(), subscription.base.clone(), selector.clone()))
}
