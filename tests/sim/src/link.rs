//! One connection between a client and the broker, and how it fails.

use std::time::Duration;

use bytes::Bytes;
use nolag_broker::ConnectionId;
use nolag_core::{Instant, TransportId};

use crate::ClientId;

/// How long frames travel. Frames never overtake each other.
#[derive(Debug, Clone, Copy)]
pub struct LinkConfig {
    /// Shortest time in one direction.
    pub latency: Duration,
    /// Random time on top, uniform from zero.
    pub jitter: Duration,
}

/// 5 ms each way with up to 2 ms of jitter.
impl Default for LinkConfig {
    fn default() -> Self {
        Self { latency: Duration::from_millis(5), jitter: Duration::from_millis(2) }
    }
}

/// Who learns that a link was cut. What was under way is lost in both directions, whoever learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Only the client does; to the broker the connection looks silent.
    BrokerBlind,
    /// Only the broker does; to the client the connection looks silent, as behind a dead router.
    ClientBlind,
    /// Both do, at once.
    Noticed,
}

/// What travels.
#[derive(Debug, Clone)]
pub(crate) enum Parcel {
    /// Client to broker: open the connection.
    Open,
    /// Broker to client: it is open.
    Opened,
    /// Client to broker.
    ToBroker(Bytes),
    /// Broker to client.
    ToClient(Bytes),
    /// Client to broker: it is over.
    ClientClosed,
    /// Broker to client: it is over, with a close frame.
    BrokerClosed { code: u16, reason: &'static str },
    /// Broker to client: it is over, without one.
    BrokerCut,
}

impl Parcel {
    pub(crate) fn is_to_broker(&self) -> bool {
        matches!(self, Self::Open | Self::ToBroker(_) | Self::ClientClosed)
    }
}

/// A link between one transport of a client and one connection of the broker.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) client: ClientId,
    pub(crate) transport: TransportId,
    pub(crate) conn: Option<ConnectionId>,
    /// Nothing travels any more.
    pub(crate) dead: bool,
    /// When the last parcel arrives, per direction (to the broker, to the client).
    arrivals: [Instant; 2],
}

impl Link {
    pub(crate) fn new(client: ClientId, transport: TransportId) -> Self {
        Self { client, transport, conn: None, dead: false, arrivals: [Instant::ZERO; 2] }
    }

    /// When a parcel sent now arrives: never before the one sent before it.
    pub(crate) fn arrival(&mut self, now: Instant, travel: Duration, to_broker: bool) -> Instant {
        let last = &mut self.arrivals[usize::from(!to_broker)];
        *last = (now + travel).max(*last);
        *last
    }
}
