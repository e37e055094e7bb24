//! Connections to the broker that no client of ours makes.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use nolag_broker::{BrokerCore, ConnectionId, Instant};
use nolag_core::{
    Payload, SecretStr,
    wire::{Auth, ClientFrame, Publish, ServerFrame, Subscribe},
};

/// For each of [`TOPICS`](super::commands::TOPICS), one that it covers.
pub(super) const PROBED_TOPICS: [&str; 4] = [
    "dispatch/north-quay/messages",
    "dispatch/north-quay/jobs",
    "dispatch/north-quay/telemetry",
    "yard/gate-4/trucks",
];

/// A connection.
pub(super) struct Outsider(ConnectionId);

impl Outsider {
    pub(super) fn open(broker: &mut BrokerCore, now: Instant) -> Self {
        Self(broker.open(now))
    }

    pub(super) fn conn(&self) -> ConnectionId {
        self.0
    }

    pub(super) fn says(&self, broker: &mut BrokerCore, now: Instant, frame: &[u8]) {
        broker.handle_binary(now, self.0, frame);
    }
}

/// A connection that is subscribed to everything, and so sees what the broker accepts.
pub(super) struct Witness {
    outsider: Outsider,
    /// How often each publish was accepted, by its number.
    seen: BTreeMap<u32, usize>,
}

impl Witness {
    pub(super) fn new(broker: &mut BrokerCore, now: Instant) -> Self {
        Self { outsider: connected(broker, now), seen: BTreeMap::new() }
    }

    /// The same after the broker has lost its memory.
    pub(super) fn again(&self, broker: &mut BrokerCore, now: Instant) -> Self {
        Self { outsider: connected(broker, now), seen: self.seen.clone() }
    }

    pub(super) fn conn(&self) -> ConnectionId {
        self.outsider.conn()
    }

    /// Takes in a frame; it counts if it comes from a client of ours.
    pub(super) fn hears(&mut self, frame: &Bytes, counts: bool) {
        let Ok(ServerFrame::Message(message)) = ServerFrame::decode(frame) else { return };
        if let Some(number) = number_of(message.data.as_bytes()).filter(|_| counts) {
            *self.seen.entry(number).or_default() += 1;
        }
    }

    pub(super) fn times(&self, number: u32) -> usize {
        self.seen.get(&number).copied().unwrap_or_default()
    }

    pub(super) fn publish(
        &self,
        broker: &mut BrokerCore,
        now: Instant,
        topic: &str,
        filter: Option<&str>,
        filters: &[&str],
        number: u32,
    ) {
        let data = Payload::encode(&(number, "")).expect("a number and a text");
        let filters = filters.to_vec();
        let publish = Publish { filter, filters, ..Publish::new(topic, data.raw()) };
        self.outsider.says(broker, now, &encoded(&ClientFrame::Publish(publish)));
    }
}

/// The number in the data of a publish.
pub(super) fn number_of(data: &[u8]) -> Option<u32> {
    let payload = Payload::from_msgpack(data.to_vec()).ok()?;
    Some(payload.decode::<(u32, String)>().ok()?.0)
}

fn connected(broker: &mut BrokerCore, now: Instant) -> Outsider {
    let outsider = Outsider::open(broker, now);
    let token = SecretStr::new("dev-token-witness");
    let auth = ClientFrame::Auth(Auth { token, protocol_version: Some(2), ..Auth::default() });
    outsider.says(broker, now, &encoded(&auth));
    for topic in ["dispatch/+/+", "yard/+/+"] {
        let subscribe = ClientFrame::Subscribe(Subscribe { topic, ..Subscribe::default() });
        outsider.says(broker, now, &encoded(&subscribe));
    }
    outsider
}

fn encoded(frame: &ClientFrame<'_>) -> BytesMut {
    let mut out = BytesMut::new();
    frame.encode(&mut out);
    out
}
