//! `subscribe`, `unsubscribe` and `setFilters`.

use std::{collections::BTreeSet, sync::Arc};

use nolag_core::wire::{ErrorFrame, Filter, FrameMap, Key, MAX_FILTERS, RawValue, ServerFrame, Text};

use super::{
    BrokerCore, ConnectionId, Crash, as_text, as_value,
    connection::{Selector, Subscription},
    resume::Remembered,
};
use crate::{auth::Access, payload};

/// Bytes of subscriptions per connection. Real brokers have no such limit.
const MAX_SUBSCRIPTION_BYTES: usize = 8 << 20;

/// What a client wants to subscribe to, apart from filters.
pub(super) struct Request<'a> {
    pub(super) topic: &'a str,
    pub(super) group: Option<Group<'a>>,
}

/// The load-balance group that a client asks for.
pub(super) enum Group<'a> {
    /// No name: the actor's own.
    OfActor,
    Named(&'a str),
}

/// Why a subscription is refused.
pub(super) enum Refusal {
    UnknownTopic,
    Filters(&'static str),
    TooMany,
}

const BAD_FILTER: &str = "invalid_filter_chars (/, #, +, | not allowed)";
pub(super) const TOO_MANY: &str = "too_many_subscriptions";
const TOO_MANY_FILTERS: &str = "too_many_filters (max 100)";

impl BrokerCore {
    pub(super) fn subscribe(&mut self, conn: ConnectionId, map: &FrameMap<'_>) -> Result<(), Crash> {
        let Some(topic) = map.get(Key::Topic) else { return Ok(()) };
        let topic = topic.as_str().ok_or(Crash)?;
        let load_balance = map.bool(Key::LoadBalance) == Some(true);
        let group = match map.present(Key::LoadBalanceGroup) {
            _ if !load_balance => None,
            None => Some(Group::OfActor),
            Some(name) => Some(Group::Named(name.as_str().ok_or(Crash)?)),
        };
        let outcome = match read_filters(map.get(Key::Filters)) {
            Ok(filters) => self.establish(conn, &Request { topic, group }, &filters),
            Err(error) => self.refuse_filters(conn, topic, error),
        };
        match outcome {
            Ok(()) => {
                self.remember(conn, topic, map)?;
                self.send_frame(conn, &ServerFrame::Subscribed { topic: Text::Str(topic), load_balance });
                self.deliver_retained(conn, topic, None);
                self.hydrate(conn, topic);
            }
            Err(Refusal::UnknownTopic) => self.refuse_topic(conn, Text::Str(topic), None),
            Err(Refusal::Filters(error)) => self.send_topic_error(conn, topic, error),
            Err(Refusal::TooMany) => self.send_topic_error(conn, topic, TOO_MANY),
        }
        Ok(())
    }

    pub(super) fn unsubscribe(&mut self, conn: ConnectionId, map: &FrameMap<'_>) -> Result<(), Crash> {
        let Some(topic) = map.get(Key::Topic) else { return Ok(()) };
        let echoed = self.echo(topic)?;
        if let Some(topic) = topic.as_str() {
            self.drop_subscription(conn, topic);
            self.forget_resumed(conn, topic);
        }
        self.send_frame(conn, &ServerFrame::Unsubscribed { topic: as_text(&echoed) });
        Ok(())
    }

    pub(super) fn set_filters(&mut self, conn: ConnectionId, map: &FrameMap<'_>) -> Result<(), Crash> {
        let (Some(topic), Some(filters)) = (map.get(Key::Topic), map.get(Key::Filters)) else {
            return Ok(());
        };
        let echoed_topic = self.echo(topic)?;
        let found = topic.as_str().and_then(|topic| {
            self.connections
                .get(&conn)?
                .subscriptions
                .get_key_value(topic)
                .map(|(topic, found)| (topic.clone(), found.clone()))
        });
        let Some((topic, subscription)) = found else {
            let error = ErrorFrame {
                error: "not_subscribed",
                topic: Some(as_text(&echoed_topic)),
                ..ErrorFrame::default()
            };
            self.send_error(conn, error);
            return Ok(());
        };
        let wanted = match read_filters(Some(filters)) {
            Ok(filters) => selectors(&filters),
            Err(error) => {
                self.send_topic_error(conn, &topic, error);
                return Ok(());
            }
        };
        let listed = if filters.items().is_some() { filters } else { RawValue::EMPTY_LIST };
        let echoed_filters = self.echo(listed)?;
        let added: BTreeSet<Selector> = wanted.difference(&subscription.confirmed).cloned().collect();
        let mut updated = subscription.clone();
        updated
            .live
            .retain(|selector| wanted.contains(selector) || !subscription.confirmed.contains(selector));
        updated.live.extend(added.iter().cloned());
        updated.confirmed = wanted;
        if !self.has_room(conn, updated.size(&topic), subscription.size(&topic)) {
            self.send_topic_error(conn, &topic, TOO_MANY);
            return Ok(());
        }
        self.groups.leave(&subscription);
        self.groups.join(&updated);
        self.put_subscription(conn, topic.clone(), updated);
        if let Some(key) = self.resume_key(conn) {
            self.resume.remember_filters(&key, &topic, echoed_filters.clone());
        }
        let reply =
            ServerFrame::FiltersUpdated { topic: Text::Str(&topic), filters: as_value(&echoed_filters) };
        self.send_frame(conn, &reply);
        self.deliver_retained(conn, &topic, Some(&added));
        Ok(())
    }

    /// Sends what the auth file says a topic is hydrated with. Real brokers ask a webhook, so it always follows
    /// `subscribed`, and the messages that were retained.
    pub(super) fn hydrate(&mut self, conn: ConnectionId, topic: &str) {
        let (app, name) =
            (topic.split('/').next().unwrap_or(topic), topic.rsplit('/').next().unwrap_or(topic));
        let Some(body) = self.auth.hydration(app, name).map(payload::pack_json) else { return };
        self.send_frame(conn, &ServerFrame::Hydration { topic: Text::Str(name), data: as_value(&body) });
    }

    /// Makes a subscription, or replaces the one of the same topic.
    pub(super) fn establish(
        &mut self,
        conn: ConnectionId,
        request: &Request<'_>,
        filters: &[Filter],
    ) -> Result<(), Refusal> {
        let Some(connection) = self.connections.get(&conn) else { return Err(Refusal::UnknownTopic) };
        let Some(identity) = &connection.identity else { return Err(Refusal::UnknownTopic) };
        let actor = &identity.actor;
        let resolved = self.resolve(actor, request.topic, Access::Subscribe).ok_or(Refusal::UnknownTopic)?;
        let is_news = resolved.since > identity.knows;
        let group = request.group.as_ref().map(|group| {
            let prefix = format!("{}_{}_", actor.project_id.as_deref().unwrap_or_default(), resolved.app_id);
            match group {
                Group::OfActor => prefix + &actor.actor_id,
                // Control planes store the name with its prefix.
                Group::Named(name) if name.starts_with(&prefix) => String::from(*name),
                Group::Named(name) => prefix + name,
            }
        });
        let selectors = selectors(filters);
        let subscription = Subscription {
            base: resolved.base,
            room_id: resolved.room_id,
            group,
            confirmed: selectors.clone(),
            live: selectors,
        };
        let replaced = connection.subscriptions.get(request.topic).map_or(0, |old| old.size(request.topic));
        if !self.has_room(conn, subscription.size(request.topic), replaced) {
            return Err(Refusal::TooMany);
        }
        self.drop_subscription(conn, request.topic);
        self.groups.join(&subscription);
        let topic: Arc<str> = request.topic.into();
        self.routes.insert(&subscription.base, conn, topic.clone());
        self.put_subscription(conn, topic, subscription);
        if is_news {
            self.learn_changes(conn);
        }
        Ok(())
    }

    /// A refused re-subscribe has already ended the deliveries of the old subscription, as in Kraken. A topic outside
    /// the grants is refused for that instead, and ends nothing.
    fn refuse_filters(
        &mut self,
        conn: ConnectionId,
        topic: &str,
        error: &'static str,
    ) -> Result<(), Refusal> {
        let identity = self.connections.get(&conn).and_then(|connection| connection.identity.as_ref());
        let resolved = identity.and_then(|identity| self.resolve(&identity.actor, topic, Access::Subscribe));
        if resolved.is_none() {
            return Err(Refusal::UnknownTopic);
        }
        let connection = self.connections.get_mut(&conn);
        if let Some(subscription) = connection.and_then(|connection| connection.subscriptions.get_mut(topic))
        {
            self.groups.leave(subscription);
            subscription.live.clear();
        }
        Err(Refusal::Filters(error))
    }

    fn has_room(&self, conn: ConnectionId, more: usize, less: usize) -> bool {
        let now = self.connections.get(&conn).map_or(0, |connection| connection.subscription_bytes);
        now.saturating_sub(less).saturating_add(more) <= MAX_SUBSCRIPTION_BYTES
    }

    pub(super) fn drop_subscription(&mut self, conn: ConnectionId, topic: &str) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let Some((topic, subscription)) = connection.subscriptions.remove_entry(topic) else { return };
        connection.subscription_bytes -= subscription.size(&topic);
        self.routes.remove(&subscription.base, conn, &topic);
        self.groups.leave(&subscription);
    }

    fn put_subscription(&mut self, conn: ConnectionId, topic: Arc<str>, subscription: Subscription) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        connection.subscription_bytes += subscription.size(&topic);
        if let Some(previous) = connection.subscriptions.insert(topic.clone(), subscription) {
            connection.subscription_bytes -= previous.size(&topic);
        }
    }

    /// Remembers the subscription for a reconnect, with exactly the options that the client sent.
    fn remember(&mut self, conn: ConnectionId, topic: &str, map: &FrameMap<'_>) -> Result<(), Crash> {
        let Some(key) = self.resume_key(conn) else { return Ok(()) };
        let mut remembered = Remembered::default();
        for option in [Key::Filters, Key::Qos, Key::LoadBalance, Key::LoadBalanceGroup] {
            if let Some(value) = map.present(option) {
                remembered.options.insert(option.as_str(), self.echo(value)?);
            }
        }
        self.resume.remember(&key, topic, remembered);
        Ok(())
    }

    pub(super) fn forget_resumed(&mut self, conn: ConnectionId, topic: &str) {
        if let Some(key) = self.resume_key(conn) {
            self.resume.forget(&key, topic);
        }
    }

    fn resume_key(&self, conn: ConnectionId) -> Option<super::resume::ResumeKey> {
        self.connections.get(&conn)?.identity.as_ref()?.resume_key.clone()
    }

    fn send_topic_error(&mut self, conn: ConnectionId, topic: &str, error: &str) {
        let topic = Some(Text::Str(topic));
        self.send_error(conn, ErrorFrame { error, topic, ..ErrorFrame::default() });
    }

    /// The answer to a topic outside the grants, in the words of the negotiated version.
    pub(super) fn refuse_topic(&mut self, conn: ConnectionId, topic: Text<'_>, msg_ref: Option<Text<'_>>) {
        let identity = self.connections.get(&conn).and_then(|connection| connection.identity.as_ref());
        let error = if identity.is_some_and(|identity| identity.protocol >= 2) {
            ErrorFrame {
                error: "unknown_topic",
                code: Some(42940),
                hint: Some(self.rules.unknown_topic_hint),
                ..ErrorFrame::default()
            }
        } else {
            ErrorFrame { error: "not_authorized", ..ErrorFrame::default() }
        };
        self.send_error(conn, ErrorFrame { topic: Some(topic), msg_ref, ..error });
    }
}

/// Reads filters; absent, `nil`, other kinds than a list, and the empty list all mean unfiltered.
fn read_filters(value: Option<RawValue<'_>>) -> Result<Vec<Filter>, &'static str> {
    let Some((value, items)) = value.and_then(|value| Some((value, value.items()?))) else {
        return Ok(Vec::new());
    };
    if items.take(MAX_FILTERS + 1).count() > MAX_FILTERS {
        return Err(TOO_MANY_FILTERS);
    }
    let filters = Filter::parse_list(value).ok_or(BAD_FILTER)?;
    match filters.iter().any(|filter| filter.invalid_value().is_some()) {
        true => Err(BAD_FILTER),
        false => Ok(filters),
    }
}

fn selectors(filters: &[Filter]) -> BTreeSet<Selector> {
    match filters {
        [] => BTreeSet::from([Selector::All]),
        filters => filters.iter().map(|filter| Selector::Filter(filter.canonical())).collect(),
    }
}
