//! Messages: that they belong to a subscription, and that none is lost between the transport and the application.

use std::collections::{BTreeMap, BTreeSet};

use nolag_core::{
    ClientCore, Event, Message, OpId, Outcome, Status, SubscriptionId, TransportEventKind, wire::ServerFrame,
};

use crate::{Command, Moment};

/// Subscriptions and messages of one client.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    pub(super) delivered: u64,
    /// Messages that arrived in sessions.
    arrived: u64,
    /// Confirmed and not ended, with their topics.
    confirmed: BTreeMap<SubscriptionId, String>,
    subscribes: BTreeMap<OpId, String>,
    unsubscribes: BTreeMap<OpId, String>,
    /// Ended for good.
    ended: BTreeSet<SubscriptionId>,
}

impl Receiving {
    pub(super) fn accepted(&mut self, op: OpId, command: &Command) {
        match command {
            Command::Subscribe(subscribe) => _ = self.subscribes.insert(op, subscribe.topic.clone()),
            Command::Unsubscribe(topic) => _ = self.unsubscribes.insert(op, topic.clone()),
            _ => {}
        }
    }

    pub(super) fn told(&mut self, event: &Event) {
        match event {
            Event::Done { op, outcome } => {
                let (subscribed, unsubscribed) = (self.subscribes.remove(op), self.unsubscribes.remove(op));
                match (outcome, subscribed, unsubscribed) {
                    (Outcome::Subscribed { subscription, .. }, Some(topic), _) => {
                        self.confirmed.insert(*subscription, topic);
                    }
                    (Outcome::Unsubscribed, _, Some(topic)) => self.end(|_, of| *of == topic),
                    _ => {}
                }
            }
            Event::SubscriptionEnded { subscription, .. } => self.end(|id, _| id == subscription),
            Event::GaveUp { .. } => self.end(|_, _| true),
            _ => {}
        }
    }

    fn end(&mut self, ended: impl Fn(&SubscriptionId, &String) -> bool) {
        let ids: Vec<_> =
            self.confirmed.iter().filter(|(id, topic)| ended(id, topic)).map(|(id, _)| *id).collect();
        for id in ids {
            self.confirmed.remove(&id);
            self.ended.insert(id);
        }
    }

    pub(super) fn arrived(&mut self, moment: &Moment<'_>, kind: &TransportEventKind) {
        let TransportEventKind::Message(frame) = kind else { return };
        if moment.core.status() == Status::Connected
            && matches!(ServerFrame::decode(frame), Ok(ServerFrame::Message(_)))
        {
            self.arrived += 1;
        }
    }
}

/// A message comes only under a subscription that the application was told is confirmed, or that was restored, and not
/// after its end.
pub(crate) fn messages_belong_to_confirmed_subscriptions(
    receiving: &mut Receiving,
    message: &Message,
) -> Result<(), String> {
    receiving.delivered += 1;
    let Some(id) = message.subscription() else { return Ok(()) };
    if receiving.ended.contains(&id) {
        return Err(format!("a message on {} came after the end of {id:?}", message.topic()));
    }
    if !receiving.confirmed.contains_key(&id) {
        return Err(format!("a message on {} came before {id:?} was confirmed", message.topic()));
    }
    Ok(())
}

/// Each message that arrives in a session is handed to the application once, is known to be a repetition, or is counted
/// as dropped because the application was behind.
pub(crate) fn whatever_arrives_is_told(receiving: &Receiving, core: &ClientCore) -> Result<(), String> {
    let (stats, waiting) = (core.stats(), core.usage().inbound_messages as u64);
    let accounted = receiving.delivered + stats.messages_dropped + stats.messages_duplicate + waiting;
    if receiving.arrived != accounted || receiving.arrived != stats.messages_received {
        return Err(format!(
            "{} messages arrived, {} were counted; {} were told, {} dropped, {} repeated, {waiting} wait",
            receiving.arrived,
            stats.messages_received,
            receiving.delivered,
            stats.messages_dropped,
            stats.messages_duplicate
        ));
    }
    Ok(())
}
