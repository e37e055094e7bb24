//! `publish` and the deliveries that follow.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use nolag_core::wire::{
    ErrorFrame, FrameMap, Key, Kind, MAX_FILTERS, Message, RawValue, ServerFrame, Text, canonical_group,
    is_valid_filter,
};

use super::{
    BrokerCore, ConnectionId, Crash, as_text, as_value,
    connection::{Selector, Subscription},
    encode,
    in_flight::Parcel,
    routes::{GroupKey, Route},
};
use crate::{
    auth::{Access, Resolved},
    profile::PublishCheck,
    topic,
};

/// A message on its way to subscribers.
#[derive(Debug)]
pub(super) struct Published {
    /// The internal topic, filter included.
    pub(super) topic: String,
    pub(super) data: Bytes,
    pub(super) msg_id: Option<String>,
    /// An actor, or what it is that published over HTTP.
    pub(super) sender: String,
    pub(super) sender_type: &'static str,
    /// Spared its own copy: the publisher with `echo: false`.
    pub(super) hidden_from: Option<ConnectionId>,
}

impl Published {
    pub(super) fn size(&self) -> usize {
        256 + 2 * self.topic.len() + self.data.len()
    }
}

/// The parts of a publish that replies repeat.
struct Reply<'a> {
    topic: Text<'a>,
    msg_ref: Option<Text<'a>>,
}

/// How a message reaches a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Broadcast,
    LoadBalanced,
    Retained,
}

/// Frames of one message, by the topic and filter that they show.
type Encoded = BTreeMap<(Arc<str>, Option<String>), Bytes>;

impl BrokerCore {
    pub(super) fn publish(&mut self, conn: ConnectionId, map: &FrameMap<'_>) -> Result<(), Crash> {
        let (Some(topic), Some(data)) = (map.get(Key::Topic), map.get(Key::Data)) else { return Ok(()) };
        let echoed_topic = self.echo(topic)?;
        // Only text that is not empty asks for an acknowledgement.
        let msg_ref = map.get(Key::MsgRef).and_then(RawValue::as_str).filter(|msg_ref| !msg_ref.is_empty());
        let reply = Reply { topic: as_text(&echoed_topic), msg_ref: msg_ref.map(Text::Str) };
        let mut data = self.echo(data)?;
        let Some(resolved) = self.check_publish(conn, topic, &data, &reply)? else { return Ok(()) };
        let filter = match self.publish_filter(map) {
            Ok(filter) => filter,
            Err(detail) => {
                let error = ErrorFrame {
                    error: "invalid_filter",
                    code: Some(42960),
                    detail: Some(Text::Str(detail)),
                    ..ErrorFrame::default()
                };
                self.refuse_publish(conn, &reply, error);
                return Ok(());
            }
        };
        let retain = match map.get(Key::Retain) {
            Some(retain) if retain.as_bool().is_none() && self.rules.crashes_on_retain => return Err(Crash),
            retain => retain.and_then(RawValue::as_bool).unwrap_or(false),
        };
        let echo = map.bool(Key::Echo) != Some(false);
        let mut msg_id = self.record_messages.then(|| self.random.uuid());
        if self.rules.unwraps_envelopes {
            let recorded = if msg_id.is_none() { unwrap_recorded(&data) } else { None };
            if let Some((id, inner)) = recorded {
                (msg_id, data) = (Some(id), inner);
            }
            if echo {
                data = unwrap_sender(&data).unwrap_or(data);
            }
        }
        let message = Published {
            topic: with_filter(resolved.base, filter),
            data,
            msg_id,
            sender: self.actor_id(conn).unwrap_or_default(),
            sender_type: "actor",
            hidden_from: (!echo).then_some(conn),
        };
        let (message, number) = self.keep(message, resolved.room_id, retain);
        if let Some(msg_ref) = reply.msg_ref {
            self.send_frame(conn, &ServerFrame::Published { topic: reply.topic, msg_ref });
        }
        self.deliver(&message, number);
        Ok(())
    }

    /// Keeps a message as long as it is needed, and wakes who is to be woken. Returns its number in the history, if it
    /// is there.
    pub(super) fn keep(
        &mut self,
        message: Published,
        room_id: Option<String>,
        retain: bool,
    ) -> (Arc<Published>, Option<u64>) {
        let message = Arc::new(message);
        if retain {
            self.retained.store(message.clone(), self.now);
        }
        let number = room_id.and_then(|room_id| {
            self.advertised.wake(&room_id);
            let durable = self.durable_delivery && message.msg_id.is_some();
            durable.then(|| self.history.keep(room_id, message.clone(), self.now))
        });
        (message, number)
    }

    /// Runs the checks in the profile's order. `None` when the publish was refused and answered.
    fn check_publish(
        &mut self,
        conn: ConnectionId,
        topic: RawValue<'_>,
        data: &Bytes,
        reply: &Reply<'_>,
    ) -> Result<Option<Resolved>, Crash> {
        let mut resolved = None;
        for check in self.rules.publish_checks {
            let error = match check {
                PublishCheck::Rate if self.is_too_fast(conn) => {
                    ErrorFrame { error: "rate_limit_exceeded", code: Some(42910), ..ErrorFrame::default() }
                }
                PublishCheck::Size if self.limits.max_data_bytes.is_some_and(|max| data.len() > max) => {
                    ErrorFrame {
                        error: "message_too_large",
                        code: Some(42930),
                        max_size_bytes: self.limits.max_data_bytes.map(|max| max as u64),
                        ..ErrorFrame::default()
                    }
                }
                PublishCheck::Size if self.quota_exceeded => {
                    ErrorFrame { error: "monthly_quota_exceeded", code: Some(42920), ..ErrorFrame::default() }
                }
                PublishCheck::Access => {
                    let topic = topic.as_str().ok_or(Crash)?;
                    let identity =
                        self.connections.get(&conn).and_then(|connection| connection.identity.as_ref());
                    resolved = identity.and_then(|identity| {
                        let resolved = self.resolve(&identity.actor, topic, Access::Publish)?;
                        (resolved.since <= identity.knows).then_some(resolved)
                    });
                    if resolved.is_none() {
                        self.refuse_topic(conn, reply.topic, reply.msg_ref);
                        return Ok(None);
                    }
                    continue;
                }
                PublishCheck::Rate | PublishCheck::Size => continue,
            };
            self.refuse_publish(conn, reply, error);
            return Ok(None);
        }
        Ok(resolved)
    }

    fn refuse_publish(&mut self, conn: ConnectionId, reply: &Reply<'_>, error: ErrorFrame<'_>) {
        self.send_error(conn, ErrorFrame { topic: Some(reply.topic), msg_ref: reply.msg_ref, ..error });
    }

    fn is_too_fast(&mut self, conn: ConnectionId) -> bool {
        let second = self.unix_now();
        let (Some(limit), Some(connection)) =
            (self.limits.publishes_per_second, self.connections.get_mut(&conn))
        else {
            return false;
        };
        !connection.publishes.count(second, limit)
    }

    /// The one filter that a publish goes to.
    pub(super) fn publish_filter(&self, map: &FrameMap<'_>) -> Result<Option<String>, &'static str> {
        const BAD: &str = "filter values are non-empty text without / # + |";
        let strict = self.rules.checks_publish_filters;
        if let Some(filter) = map.present(Key::Filter) {
            match filter.as_str() {
                Some(filter) if !strict || is_valid_filter(filter) => return Ok(Some(filter.into())),
                None if !strict => {}
                _ => return Err(BAD),
            }
        }
        let Some(items) = map.get(Key::Filters).and_then(RawValue::items) else { return Ok(None) };
        if strict && items.clone().take(MAX_FILTERS + 1).count() > MAX_FILTERS {
            return Err("at most 100 filters");
        }
        let values: Option<Vec<&str>> = items.map(RawValue::as_str).collect();
        match values {
            Some(values) if strict && !values.iter().all(|value| is_valid_filter(value)) => Err(BAD),
            Some(values) if !values.is_empty() => Ok(Some(canonical_group(values.into_iter()))),
            None if strict => Err(BAD),
            _ => Ok(None),
        }
    }

    fn actor_id(&self, conn: ConnectionId) -> Option<String> {
        Some(self.connections.get(&conn)?.identity.as_ref()?.actor.actor_id.clone())
    }

    /// Sends a live message to every subscription that wants it, and to one member of each load-balance group.
    /// `number` is the message's place in the history, if it has one.
    pub(super) fn deliver(&mut self, message: &Arc<Published>, number: Option<u64>) {
        let mut encoded = Encoded::new();
        let mut groups: BTreeMap<GroupKey, Vec<Route>> = BTreeMap::new();
        for (conn, topic) in self.routes.candidates(&message.topic) {
            let Some((subscription, rest)) = self.wanted(conn, &topic, message, None) else { continue };
            match &subscription.group {
                None => self.deliver_to((conn, topic), message, Delivery::Broadcast, &mut encoded),
                Some(group) => {
                    for selector in subscription.live.iter().filter(|selector| selector.selects(rest)) {
                        let key = (group.clone(), subscription.base.clone(), selector.clone());
                        groups.entry(key).or_default().push((conn, topic.clone()));
                    }
                }
            }
        }
        for (key, members) in groups {
            let Some(member) = self.groups.choose(&key, members) else { continue };
            if let Some(number) = number.filter(|_| self.rules.claims_live_deliveries) {
                self.history.take(number, &key.0);
            }
            self.deliver_to(member, message, Delivery::LoadBalanced, &mut encoded);
        }
    }

    fn deliver_to(
        &mut self,
        (conn, topic): Route,
        message: &Arc<Published>,
        delivery: Delivery,
        encoded: &mut Encoded,
    ) {
        let connection = self.connections.get(&conn);
        let Some(subscription) = connection.and_then(|connection| connection.subscriptions.get(&topic))
        else {
            return;
        };
        if self.delivery_lag.is_zero() {
            let (shown, filter) = self.shown(message, subscription, &topic, delivery);
            let key = (Arc::from(shown), filter.map(String::from));
            let frame = || encode(&self.message(message, shown, filter, None));
            let frame = encoded.entry(key).or_insert_with(frame).clone();
            self.send(conn, frame);
        } else {
            let parcel = Parcel::new(conn, topic, message.clone(), delivery, subscription);
            self.in_flight.push(self.now + self.delivery_lag, parcel);
            self.deliver_arrived();
        }
    }

    /// Sends the retained messages of a subscription, or of those of its filters that are new.
    pub(super) fn deliver_retained(
        &mut self,
        conn: ConnectionId,
        topic: &str,
        new: Option<&BTreeSet<Selector>>,
    ) {
        self.retained.expire(self.now);
        let found =
            self.connections.get(&conn).and_then(|connection| connection.subscriptions.get_key_value(topic));
        let Some((topic, subscription)) = found else { return };
        let topic = topic.clone();
        let selectors = new.unwrap_or(&subscription.live);
        for message in self.retained.matching(subscription, selectors.iter()) {
            let Some((subscription, _)) = self.wanted(conn, &topic, &message, new) else { continue };
            let frame = self.message_frame(&message, subscription, &topic, Delivery::Retained, None);
            self.send(conn, frame);
        }
    }

    /// The subscription, if the message is for it, and what follows its topic in the message's.
    fn wanted<'m>(
        &self,
        conn: ConnectionId,
        topic: &Arc<str>,
        message: &'m Published,
        only: Option<&BTreeSet<Selector>>,
    ) -> Option<(&Subscription, Option<&'m str>)> {
        let connection = self.connections.get(&conn)?;
        let own =
            || connection.identity.as_ref().is_some_and(|identity| identity.actor.actor_id == message.sender);
        if message.hidden_from == Some(conn) || (self.rules.hides_own_messages && own()) {
            return None;
        }
        let subscription = connection.subscriptions.get(topic)?;
        let rest = topic::remainder(&subscription.base, &message.topic)?;
        let selectors = only.unwrap_or(&subscription.live);
        selectors.iter().any(|selector| selector.selects(rest)).then_some((subscription, rest))
    }

    /// The frame of a delivery.
    pub(super) fn message_frame(
        &self,
        message: &Published,
        subscription: &Subscription,
        topic: &Arc<str>,
        delivery: Delivery,
        is_replay: Option<bool>,
    ) -> Bytes {
        let (shown, filter) = self.shown(message, subscription, topic, delivery);
        encode(&self.message(message, shown, filter, is_replay))
    }

    /// The topic and the filter that a delivery shows.
    fn shown<'m>(
        &self,
        message: &'m Published,
        subscription: &Subscription,
        topic: &'m Arc<str>,
        delivery: Delivery,
    ) -> (&'m str, Option<&'m str>) {
        let rest = topic::remainder(&subscription.base, &message.topic).flatten();
        let unfiltered = subscription.live.contains(&Selector::All);
        let leaks = self.rules.leaks_internal_topics
            && delivery == Delivery::LoadBalanced
            && topic::has_wildcard(&subscription.base);
        match self.rules.unfiltered_filter {
            _ if leaks => (message.topic.as_str(), None),
            Some(filter) if delivery == Delivery::Broadcast && unfiltered => (topic.as_ref(), Some(filter)),
            _ => (topic.as_ref(), rest),
        }
    }

    pub(super) fn message<'m>(
        &self,
        message: &'m Published,
        topic: &'m str,
        filter: Option<&'m str>,
        is_replay: Option<bool>,
    ) -> ServerFrame<'m> {
        ServerFrame::Message(Message {
            topic: Text::Str(topic),
            data: as_value(&message.data),
            msg_id: message.msg_id.as_deref(),
            requires_ack: message.msg_id.is_some().then_some(true),
            filter,
            is_replay,
            from: self.rules.stamps_sender.then_some(message.sender.as_str()),
            from_type: self.rules.stamps_sender.then_some(message.sender_type),
        })
    }
}

/// The internal topic of a message: its filter stands below its topic.
pub(super) fn with_filter(base: String, filter: Option<String>) -> String {
    match filter {
        Some(filter) => format!("{base}/{filter}"),
        None => base,
    }
}

/// Takes `{_msgId, _data}` apart: with recording off, Kraken 0.4 takes such a payload for its own record.
fn unwrap_recorded(data: &Bytes) -> Option<(String, Bytes)> {
    Some((field(data, "_msgId")?.as_str()?.into(), owned(data, field(data, "_data")?)))
}

/// Takes `{_sender, data}` apart: Kraken 0.4 takes such a payload for its own envelope.
fn unwrap_sender(data: &Bytes) -> Option<Bytes> {
    field(data, "_sender")?;
    Some(owned(data, field(data, "data")?))
}

fn field<'a>(data: &'a Bytes, name: &str) -> Option<RawValue<'a>> {
    let entries = as_value(data).entries()?;
    entries
        .filter(|(key, _)| key.kind() == Kind::Text && key.as_str() == Some(name))
        .last()
        .map(|(_, value)| value)
}

fn owned(whole: &Bytes, part: RawValue<'_>) -> Bytes {
    whole.slice_ref(part.as_bytes())
}
