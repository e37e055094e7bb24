//! What is measured, and how.

use std::{path::PathBuf, str::FromStr, time::Duration};

use nolag::Token;
use serde::Serialize;

use crate::Launch;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Connecting and authenticating, so many clients one behind the other.
    Connect,
    /// One publisher and many subscribers, through the broker.
    Fanout,
    /// What an idle client, the core of one, and a subscription take.
    Memory,
    /// Publishing with so many confirmations under way, and without confirmations.
    Publish,
    /// Receiving as fast as it goes, on each runtime, and with many subscriptions.
    Receive,
    /// From publishing a message to receiving its echo.
    Rtt,
}

impl Work {
    /// All of them, in the order in which they are done.
    pub const ALL: [Self; 6] =
        [Self::Receive, Self::Publish, Self::Rtt, Self::Fanout, Self::Connect, Self::Memory];

    /// Those that can be done with any broker.
    pub const WITH_ANY_BROKER: [Self; 3] = [Self::Publish, Self::Rtt, Self::Connect];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Fanout => "fanout",
            Self::Memory => "memory",
            Self::Publish => "publish",
            Self::Receive => "receive",
            Self::Rtt => "rtt",
        }
    }
}

impl FromStr for Work {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|work| work.name() == name);
        found.ok_or_else(|| {
            format!("there is no {name:?}; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// What is measured, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What to do, in this order.
    pub works: Vec<Work>,
    /// How long each case is measured in each round.
    pub duration: Duration,
    /// How long each case runs before that.
    pub warmup: Duration,
    /// How often each case is measured. Memory is measured once.
    pub rounds: usize,
    /// Bytes of each message as it arrives. Small ones are rounded up to what a frame needs.
    pub size: usize,
    /// Subscribers of the fan-out; default 200.
    pub fanout_clients: usize,
    /// Clients that connect in each round.
    pub connect_clients: usize,
    /// Idle clients whose memory is measured.
    pub idle_clients: usize,
    /// Subscriptions of the case with many.
    pub subscriptions: usize,
    /// What is random comes from here: the order of the topics of the case with many.
    pub seed: u64,
    /// Measures the bare WebSocket library beside ours.
    pub baseline: bool,
    /// Measures the official Python SDK beside ours, with this interpreter; see
    /// [`python_with_sdk`](crate::python_with_sdk).
    pub python: Option<PathBuf>,
    /// A broker that runs somewhere, in place of our own; for [`Work::WITH_ANY_BROKER`].
    pub target: Option<Target>,
    /// How the processes are started that clients and brokers are measured against.
    pub launch: Launch,
}

/// A broker that runs somewhere.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its address.
    pub url: String,
    /// Who connects.
    pub token: Token,
    /// Where to publish.
    pub topic: String,
    /// Messages that leave in a second at most. `None`: as many as go.
    pub rate: Option<u32>,
}

impl Settings {
    /// Everything at its default, without baseline.
    pub fn new(launch: Launch) -> Self {
        Self {
            works: Work::ALL.to_vec(),
            duration: Duration::from_millis(800),
            warmup: Duration::from_millis(200),
            rounds: 5,
            size: 300,
            fanout_clients: 200,
            connect_clients: 400,
            idle_clients: 900,
            subscriptions: 100_000,
            seed: 1,
            baseline: false,
            python: None,
            target: None,
            launch,
        }
    }
}
