//! Links between clients and the broker: how long frames travel, and how links fail.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    ops::RangeInclusive,
    time::Duration,
};

use bytes::Bytes;
use nolag_broker::ConnectionId;
use nolag_core::{Instant, TransportId};

use crate::ClientId;

/// Bytes that a WebSocket message has besides its payload, about.
const FRAME_HEADER: u64 = 6;

/// An instant that never comes.
const NEVER: Instant = Instant::from_micros(u64::MAX);

/// How long frames travel. Frames of one direction never overtake each other.
#[derive(Debug, Clone)]
pub struct LinkConfig {
    /// Shortest time in one direction; each new link has its own out of this range.
    pub latency: RangeInclusive<Duration>,
    /// Longest random time on top of it, anew for each frame.
    pub jitter: Duration,
    /// Bytes per second in one direction; each new link has its own out of this range. `None`: frames take no time to
    /// be sent.
    pub bandwidth: Option<RangeInclusive<u64>>,
}

/// 5 ms each way with up to 2 ms of jitter.
impl Default for LinkConfig {
    fn default() -> Self {
        let latency = Duration::from_millis(5);
        Self { latency: latency..=latency, jitter: Duration::from_millis(2), bandwidth: None }
    }
}

/// Who learns that a link was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Only the client does; to the broker the connection looks silent.
    BrokerBlind,
    /// Only the broker does; to the client the connection looks silent, as behind a dead router.
    ClientBlind,
    /// Both do.
    Noticed,
}

/// One direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client to the broker.
    ToBroker,
    /// From the broker to the client.
    ToClient,
}

/// What travels.
#[derive(Debug, Clone)]
pub(crate) enum Parcel {
    /// Client to broker: open the connection.
    Open,
    /// Broker to client: it is open.
    Opened,
    /// Broker to client: there is nobody.
    Refused,
    /// Client to broker.
    ToBroker(Bytes),
    /// Broker to client.
    ToClient(Bytes),
    /// Broker to client: the first bytes of a frame whose rest is lost.
    Part,
    /// Client to broker: it is over.
    ClientClosed,
    /// Broker to client: it is over, with a close frame.
    BrokerClosed { code: u16, reason: &'static str },
    /// Either way: it is over, without a close frame.
    Lost(Way),
}

impl Parcel {
    pub(crate) fn way(&self) -> Way {
        match self {
            Self::Open | Self::ToBroker(_) | Self::ClientClosed => Way::ToBroker,
            Self::Opened | Self::Refused | Self::ToClient(_) | Self::Part | Self::BrokerClosed { .. } => {
                Way::ToClient
            }
            Self::Lost(way) => *way,
        }
    }

    fn size(&self) -> u64 {
        match self {
            Self::ToBroker(frame) | Self::ToClient(frame) => frame.len() as u64 + FRAME_HEADER,
            _ => FRAME_HEADER,
        }
    }
}

/// A link between one transport of a client and one connection of the broker.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) client: ClientId,
    pub(crate) transport: TransportId,
    pub(crate) conn: Option<ConnectionId>,
    rng: fastrand::Rng,
    latency: Duration,
    jitter: u64,
    bandwidth: Option<u64>,
    ways: [Lane; 2],
}

#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    /// When the last parcel arrives.
    last: Instant,
    /// When the last parcel has been sent, at the link's bandwidth.
    busy: Instant,
    /// Nothing arrives before.
    silent: Instant,
    /// Nothing is sent any more.
    ended: bool,
}

/// All links, and what is under way on them.
#[derive(Debug)]
pub(crate) struct Network {
    seed: u64,
    pub(crate) config: LinkConfig,
    links: Vec<Link>,
    /// By arrival and then by the order of sending.
    parcels: BTreeMap<(Instant, u64), (usize, Parcel)>,
    sent: u64,
    /// Connection number → link.
    by_conn: Vec<usize>,
}

impl Network {
    pub(crate) fn new(seed: u64, config: LinkConfig) -> Self {
        Self { seed, config, links: Vec::new(), parcels: BTreeMap::new(), sent: 0, by_conn: Vec::new() }
    }

    /// A new link, the client's `number`-th, on which nothing travels yet. What it is like does not depend on when others
    /// got theirs.
    pub(crate) fn link(&mut self, client: ClientId, number: u64, transport: TransportId) -> usize {
        let mut hasher = DefaultHasher::new();
        (self.seed, client.index(), number).hash(&mut hasher);
        let mut rng = fastrand::Rng::with_seed(hasher.finish());
        let config = &self.config;
        let latency = between(&mut rng, &config.latency);
        let bandwidth = config.bandwidth.as_ref().map(|range| rng.u64(range.clone()).max(1));
        let jitter = micros(config.jitter);
        let ways = [Lane::default(); 2];
        self.links.push(Link { client, transport, conn: None, rng, latency, jitter, bandwidth, ways });
        self.links.len() - 1
    }

    pub(crate) fn get(&self, link: usize) -> &Link {
        &self.links[link]
    }

    pub(crate) fn connect(&mut self, link: usize, conn: ConnectionId) {
        self.links[link].conn = Some(conn);
        let number = conn.as_u64() as usize;
        if self.by_conn.len() <= number {
            self.by_conn.resize(number + 1, usize::MAX);
        }
        self.by_conn[number] = link;
    }

    pub(crate) fn of_conn(&self, conn: ConnectionId) -> Option<usize> {
        self.by_conn.get(conn.as_u64() as usize).copied().filter(|link| *link != usize::MAX)
    }

    pub(crate) fn send(&mut self, now: Instant, link: usize, parcel: Parcel) {
        let Link { rng, latency, jitter, bandwidth, ways, .. } = &mut self.links[link];
        let lane = &mut ways[parcel.way() as usize];
        if lane.ended {
            return;
        }
        lane.busy = lane.busy.max(now);
        if let Some(bandwidth) = bandwidth {
            lane.busy = lane.busy + Duration::from_micros(parcel.size() * 1_000_000 / *bandwidth);
        }
        let travel = *latency + Duration::from_micros(rng.u64(0..=*jitter));
        lane.last = (lane.busy + travel).max(lane.last).max(lane.silent);
        if lane.silent == NEVER {
            return;
        }
        let at = lane.last;
        self.put(at, link, parcel);
    }

    fn put(&mut self, at: Instant, link: usize, parcel: Parcel) {
        self.parcels.insert((at, self.sent), (link, parcel));
        self.sent += 1;
    }

    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        self.parcels.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next parcel, if it has arrived.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(usize, Parcel)> {
        let entry = self.parcels.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// Nothing travels on this link any more.
    pub(crate) fn end(&mut self, link: usize) {
        for lane in &mut self.links[link].ways {
            lane.ended = true;
        }
        self.parcels.retain(|_, (of, _)| *of != link);
    }

    /// One side has gone: nothing is sent in this direction any more, what is under way arrives.
    pub(crate) fn end_way(&mut self, link: usize, way: Way) {
        self.links[link].ways[way as usize].ended = true;
    }

    pub(crate) fn has_ended(&self, link: usize, way: Way) -> bool {
        self.links[link].ways[way as usize].ended
    }

    /// Cuts a link in the middle of what is under way: of its bytes the first `keep` of 1,000 arrive in each direction
    /// (to the broker, to the client), the rest of them never. Afterwards those learn that `cut` names.
    pub(crate) fn cut(&mut self, now: Instant, link: usize, cut: Cut, keep: [u16; 2]) {
        for way in [Way::ToBroker, Way::ToClient] {
            let flying: Vec<(Instant, u64)> = self.flying(link, way);
            let size = |key: &(Instant, u64)| self.parcels[key].1.size();
            let total: u64 = flying.iter().map(size).sum();
            let kept = total * u64::from(keep[way as usize].min(1000)) / 1000;
            let mut before = 0;
            let mut torn = Vec::new();
            for key in flying {
                let after = before + size(&key);
                if after > kept {
                    torn.push((key, before < kept));
                }
                before = after;
            }
            for (key, partly) in torn {
                match way {
                    Way::ToClient if partly => _ = self.parcels.insert(key, (link, Parcel::Part)),
                    _ => _ = self.parcels.remove(&key),
                }
            }
            let last = self.flying(link, way).last().map_or(now, |(at, _)| *at);
            self.links[link].ways[way as usize].ended = true;
            let blind = match way {
                Way::ToBroker => Cut::BrokerBlind,
                Way::ToClient => Cut::ClientBlind,
            };
            if cut != blind {
                self.put(last, link, Parcel::Lost(way));
            }
        }
    }

    /// Lets nothing arrive in one direction before `until`; `None`: never again. What was under way arrives then.
    pub(crate) fn silence(&mut self, link: usize, way: Way, until: Option<Instant>) {
        let until = until.unwrap_or(NEVER);
        let lane = &mut self.links[link].ways[way as usize];
        lane.silent = lane.silent.max(until);
        let until = lane.silent;
        lane.last = lane.last.max(until);
        for key in self.flying(link, way) {
            if key.0 < until
                && let Some(parcel) = self.parcels.remove(&key)
                && until != NEVER
            {
                // In the order of sending, as before.
                self.parcels.insert((until, key.1), parcel);
            }
        }
    }

    /// What is under way on a link in one direction, in the order of arrival.
    fn flying(&self, link: usize, way: Way) -> Vec<(Instant, u64)> {
        let on_it = |(_, (of, parcel)): &(_, &(usize, Parcel))| *of == link && parcel.way() == way;
        self.parcels.iter().filter(on_it).map(|(key, _)| *key).collect()
    }
}

/// A random span out of a range, both ends included.
pub(crate) fn between(rng: &mut fastrand::Rng, range: &RangeInclusive<Duration>) -> Duration {
    Duration::from_micros(rng.u64(micros(*range.start())..=micros(*range.end())))
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
