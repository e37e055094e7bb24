//! The command line of `nolag bench`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use nolag::Token;

use super::token;

pub(crate) const EXAMPLES: &str = "\
Examples:
  nolag bench --baseline
  nolag bench receive rtt --baseline --json --chart ratios.svg > run.jsonl
  nolag bench --baseline --compare run.jsonl
  NOLAG_TOKEN=dev-token-alice nolag bench --url ws://localhost:8080/ws";

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to measure [default: all, with --url: publish rtt connect]
    #[arg(value_enum, value_name = "WORK")]
    pub(crate) works: Vec<Work>,
    /// Measures a bare WebSocket client and server doing the same, in turn with ours
    #[arg(long)]
    pub(crate) baseline: bool,
    /// Measures the official Python SDK, too: with this interpreter, or else with an environment in the cache directory that
    /// python3 and pip make on first use
    #[arg(long, value_name = "PYTHON", num_args = 0..=1, require_equals = true)]
    pub(crate) official_python: Option<Option<PathBuf>>,
    /// Measures against this broker instead of servers of our own. Beyond loopback at most 40 messages leave in a second:
    /// brokers take 50
    #[arg(long, conflicts_with_all = ["baseline", "official_python"])]
    pub(crate) url: Option<String>,
    /// A file that holds the token for --url and nothing else [env: NOLAG_TOKEN, the token itself]
    #[arg(long, value_name = "PATH", requires = "url", conflicts_with = "token")]
    pub(crate) token_file: Option<PathBuf>,
    /// The token for --url, or - to be asked for it. Other users of this machine can see a token in the process list:
    /// better use NOLAG_TOKEN or --token-file
    #[arg(long, value_parser = token, requires = "url")]
    pub(crate) token: Option<Token>,
    /// Where to publish with --url
    #[arg(long, default_value = "demo/general/messages", requires = "url")]
    pub(crate) topic: String,
    /// How long each case is measured in each round
    #[arg(long, default_value = "800ms", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
    /// How long each case runs before that
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = humantime::parse_duration)]
    pub(crate) warmup: Duration,
    /// How often each case is measured, in turn with the others; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Bytes of each message as it arrives
    #[arg(long, value_name = "BYTES", default_value_t = 300, value_parser = clap::value_parser!(u32).range(100..=900_000))]
    pub(crate) size: u32,
    /// Subscribers of the fan-out, clients that connect, and idle clients [default: 200, 400 and 900]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(crate) clients: Option<u32>,
    /// What is random comes from this number: the order of the topics of `receive`
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Shows what has changed since the run whose --json output is in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
    /// Writes an SVG with a bar for each ratio
    #[arg(long, value_name = "FILE")]
    pub(crate) chart: Option<PathBuf>,
    /// Prints one JSON object per line, last {"event":"ratios","ratios":{NAME:VALUE,…}}
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    /// Messages per second of a client on each runtime, and with 100,000 subscriptions
    Receive,
    /// Messages per second with 1, 64 and 1,024 confirmations under way, and without confirmations
    Publish,
    /// Percentiles of the time from publishing a message to its echo
    Rtt,
    /// Deliveries per second of the development broker to many subscribers
    Fanout,
    /// Connections per second, with authentication
    Connect,
    /// Resident bytes of an idle client, of its core and of a subscription
    Memory,
}

impl From<Work> for nolag_bench::Work {
    fn from(work: Work) -> Self {
        match work {
            Work::Connect => Self::Connect,
            Work::Fanout => Self::Fanout,
            Work::Memory => Self::Memory,
            Work::Publish => Self::Publish,
            Work::Receive => Self::Receive,
            Work::Rtt => Self::Rtt,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct BenchPeerArgs {
    /// What it does, as `bench` says it
    pub(crate) role: String,
}
