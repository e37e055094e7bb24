//! Messages on their way: published, and not yet at the connection that they are for.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use nolag_core::Instant;

use super::{
    BrokerCore, ConnectionId,
    connection::{Selector, Subscription},
    encode,
    publish::{Delivery, Published},
};

/// Bytes of messages on their way; above it the oldest arrive early.
const MAX_BYTES: usize = 64 << 20;

/// The queues of all connections, which are empty unless deliveries take time. Bounded to 64 MiB.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// By time of arrival, then in the order of publishing.
    queue: BTreeMap<(Instant, u64), Parcel>,
    next: u64,
    bytes: usize,
}

/// One message for one subscription.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) conn: ConnectionId,
    pub(super) topic: Arc<str>,
    pub(super) message: Arc<Published>,
    pub(super) delivery: Delivery,
    /// The subscription's internal topic when the message left, wildcard or filter included.
    pub(super) internal: String,
    /// `Some(false)` when it waited behind a replay.
    pub(super) is_replay: Option<bool>,
}

impl Parcel {
    pub(super) fn new(
        conn: ConnectionId,
        topic: Arc<str>,
        message: Arc<Published>,
        delivery: Delivery,
        subscription: &Subscription,
    ) -> Self {
        let internal = match subscription.live.contains(&Selector::All) {
            true => format!("{}/#", subscription.base),
            false => message.topic.clone(),
        };
        Self { conn, topic, message, delivery, internal, is_replay: None }
    }

    fn size(&self) -> usize {
        128 + self.internal.len() + self.message.size()
    }
}

impl InFlight {
    pub(super) fn push(&mut self, arrival: Instant, parcel: Parcel) {
        self.next += 1;
        self.bytes += parcel.size();
        self.queue.insert((arrival, self.next), parcel);
    }

    /// The next message that has arrived by now, or that there is no room for.
    fn pop(&mut self, now: Instant) -> Option<Parcel> {
        let first = self.queue.first_entry()?;
        if first.key().0 > now && self.bytes <= MAX_BYTES {
            return None;
        }
        let parcel = first.remove();
        self.bytes -= parcel.size();
        Some(parcel)
    }

    /// When the next message arrives.
    pub(super) fn next_arrival(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|((arrival, _), _)| *arrival)
    }

    /// What a connection was just sent as a replay does not arrive again, and the rest says that it is no replay.
    pub(super) fn after_replay(&mut self, conn: ConnectionId, replayed: &[Arc<Published>]) {
        let ids: BTreeSet<&str> = replayed.iter().filter_map(|message| message.msg_id.as_deref()).collect();
        let mut bytes = 0;
        self.queue.retain(|_, parcel| {
            let repeated = parcel.message.msg_id.as_deref().is_some_and(|id| ids.contains(id));
            if parcel.conn == conn {
                parcel.is_replay = Some(false);
            }
            let kept = parcel.conn != conn || !repeated;
            bytes += if kept { 0 } else { parcel.size() };
            kept
        });
        self.bytes -= bytes;
    }
}

impl BrokerCore {
    /// Delivers what has arrived.
    pub(super) fn deliver_arrived(&mut self) {
        while let Some(parcel) = self.in_flight.pop(self.now) {
            let Some(connection) = self.connections.get(&parcel.conn) else { continue };
            let frame = match connection.subscriptions.get(&parcel.topic) {
                Some(subscription) => self.message_frame(
                    &parcel.message,
                    subscription,
                    &parcel.topic,
                    parcel.delivery,
                    parcel.is_replay,
                ),
                // Old brokers do not know any more what the client called the topic, newer ones find it in the grants.
                None => {
                    let leaks = self.rules.leaks_internal_topics;
                    let shown = if leaks { parcel.internal.as_str() } else { parcel.topic.as_ref() };
                    encode(&self.message(&parcel.message, shown, None, parcel.is_replay))
                }
            };
            self.send(parcel.conn, frame);
        }
    }
}
