//! The command line.

pub(crate) mod api;
pub(crate) mod bench;
pub(crate) mod trace;

use std::{num::NonZeroU64, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use nolag::{CLOUD_URL, Error, Filter, Misuse, QoS, Token, check_pattern, check_topic};
use nolag_broker::{Fault, Profile};
use nolag_core::wire::MAX_FILTERS;

use crate::exit::{self, Failure};

/// Publish and subscribe from the command line, and run a development broker, for the NoLag realtime protocol.
#[derive(Debug, Parser)]
#[command(name = "nolag", version, after_help = exit::HELP, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Manages apps, rooms, actors and access scopes over REST, and publishes without a connection
    ///
    /// It prints tables for people, or with --json what scripts want. The API key is the project's, not an actor's token.
    #[command(after_help = help(api::EXAMPLES))]
    Api(api::ApiArgs),
    /// Measures speed and memory of client and broker, and what becomes of them beside bare WebSockets
    ///
    /// Without WORK everything is measured. Servers run in processes of their own, on loopback; --url takes a broker that
    /// runs already. What counts are the ratios within one run: --baseline adds what they compare with. A goal that is
    /// missed is shown and is no failure; messages that get lost, double or unconfirmed are, with code 8.
    #[command(after_help = help(bench::EXAMPLES))]
    Bench(bench::BenchArgs),
    /// What `bench` measures against
    #[command(hide = true)]
    BenchPeer(bench::BenchPeerArgs),
    /// Shows what the client does: two actors talk, one loses its connection, comes back, and they talk on
    ///
    /// Everything happens inside this process, broker included. It ends after a few seconds, with 0 only if every
    /// message and every confirmation was observed.
    #[command(after_help = exit::HELP)]
    Demo(DemoArgs),
    /// Runs a development broker until Ctrl-C
    ///
    /// Without options it is the world of the examples: port 8080, the tokens dev-token-alice and dev-token-bob, app
    /// demo, room general, lobby online; other tokens are refused. The REST API is beside it,
    /// at /v1. Everything is kept in memory, but for what --state keeps. In production use Kraken or the NoLag cloud.
    #[command(after_help = exit::HELP)]
    Dev(DevArgs),
    /// Publishes one message, or one per line with --lines; prints the broker's confirmation
    ///
    /// DATA is JSON unless --string is given. What JSON lacks is written as {"$bin":"base64"},
    /// {"$map":[[key,value],…]} and {"$float":"nan"|"inf"|"-inf"}, the notation that `nolag sub` prints.
    ///
    /// With DATA, standard input is not touched. With - it is read whatever it is. Without either it is read if it is
    /// a pipe or a file.
    #[command(after_help = help(PUB_EXAMPLES))]
    Pub(PubArgs),
    /// Prints the messages of topics; ends by --count, --timeout, --idle, or a signal
    ///
    /// Each message is a line: topic as subscribed, and data as JSON. Bytes, and other things that JSON lacks, are written as
    /// {"$bin":"base64"}, {"$map":[[key,value],…]}, {"$ext":[type,"base64"]} and {"$float":"nan"}.
    #[command(after_help = help(SUB_EXAMPLES))]
    Sub(SubArgs),
    /// Records what clients and a broker say, shows it, and replays it with our client
    #[command(after_help = help(trace::EXAMPLES))]
    Trace(trace::TraceArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Prints one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Where to listen; anything but loopback lets others in
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// The port; 0 picks a free one
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,
    /// A Kraken auth.json with the tokens to accept; it is read again when it changes
    #[arg(long, value_name = "FILE", conflicts_with = "allow_all")]
    pub(crate) auth: Option<PathBuf>,
    /// Accepts every token, each an actor of its own with all grants
    #[arg(long)]
    pub(crate) allow_all: bool,
    /// Keeps the apps, rooms, actors and scopes made over REST in this file, as JSON; without, they are gone at the end
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// The key of the REST API. Other users of this machine can see it in the process list: better use the environment
    /// [default: nlg_live_dev.secret; beyond loopback a new one for each run, which is shown]
    #[arg(long, value_name = "KEY", env = "NOLAG_DEV_API_KEY", hide_env_values = true, value_parser = token)]
    pub(crate) api_key: Option<Token>,
    /// The broker to imitate
    #[arg(long, value_enum, default_value_t = Broker::Kraken010)]
    pub(crate) broker: Broker,
    /// Lifts all limits: rate, sizes, idle time, and what may wait for a client that reads too slowly
    #[arg(long)]
    pub(crate) no_limits: bool,
    /// Something that goes wrong on purpose, for example 'refuse=broker_unavailable on=auth times=2', 'cut on=publish',
    /// or 'delay=500ms reply=published actor=alice'. Can be given several times
    #[arg(long, value_name = "FAULT")]
    pub(crate) fault: Vec<Fault>,
    /// Prints one JSON object per line, first {"event":"ready",…}
    #[arg(long)]
    pub(crate) json: bool,
    /// Writes the address to this file once clients can connect
    #[arg(long, value_name = "PATH")]
    pub(crate) ready_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Broker {
    #[value(name = "kraken-0.10")]
    Kraken010,
    #[value(name = "kraken-0.4")]
    Kraken04,
    Cloud,
}

impl From<Broker> for Profile {
    fn from(broker: Broker) -> Self {
        match broker {
            Broker::Kraken010 => Self::Kraken010,
            Broker::Kraken04 => Self::Kraken04,
            Broker::Cloud => Self::Cloud,
        }
    }
}

/// Where to connect, and as whom. Options win over the environment.
#[derive(Debug, Args)]
pub(crate) struct ConnectionArgs {
    /// The broker's address, ws:// or wss:// [default: the NoLag cloud, wss://broker.nolag.app/ws]
    #[arg(long, env = "NOLAG_URL", hide_env_values = true, default_value = CLOUD_URL, hide_default_value = true)]
    pub(crate) url: String,
    /// A file that holds the token and nothing else [env: NOLAG_TOKEN, the token itself]
    #[arg(long, value_name = "PATH", conflicts_with_all = ["token", "token_cmd"])]
    pub(crate) token_file: Option<PathBuf>,
    /// A shell command that prints the token and nothing else; it runs whenever a token is needed, so also to reconnect
    #[arg(long, value_name = "COMMAND", conflicts_with = "token")]
    pub(crate) token_cmd: Option<String>,
    /// The token, or - to be asked for it. Other users of this machine can see a token in the process list: better use
    /// NOLAG_TOKEN, --token-file or --token-cmd
    #[arg(long, value_parser = token)]
    pub(crate) token: Option<Token>,
}

#[derive(Debug, Args)]
pub(crate) struct PubArgs {
    /// Where to publish: app/room/topic
    pub(crate) topic: String,
    /// The data as JSON, or - for standard input
    #[arg(allow_negative_numbers = true, conflicts_with = "file")]
    pub(crate) data: Option<String>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// The data is text, not JSON
    #[arg(long)]
    pub(crate) string: bool,
    /// Reads the data from a file
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// Each line of the input is a message; without --string empty lines are skipped. At most 50 leave in a second, and
    /// the times that are printed include the wait for that
    #[arg(long)]
    pub(crate) lines: bool,
    /// With --lines, goes on after a message that failed; the exit code is then 8
    #[arg(long, requires = "lines")]
    pub(crate) keep_going: bool,
    /// Empty input is no error: null, or empty text with --string, is published; nothing with --lines
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Keeps the message for later subscribers
    #[arg(long)]
    pub(crate) retain: bool,
    /// QoS on the broker's inner hop: 0, 1 or 2
    #[arg(long, value_name = "LEVEL", value_parser = qos)]
    pub(crate) qos: Option<QoS>,
    /// Routes to subscribers of this filter; a+b routes to subscribers of the group a+b
    #[arg(long)]
    pub(crate) filter: Option<String>,
    /// Spares this connection its own copy
    #[arg(long)]
    pub(crate) no_echo: bool,
    /// Asks for no confirmation; a refusal may then go unnoticed
    #[arg(long)]
    pub(crate) no_ack: bool,
    /// Prints one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SubArgs {
    /// What to subscribe to: app/room/topic, with + for any one of the parts
    #[arg(required = true, value_name = "TOPIC")]
    pub(crate) topics: Vec<String>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// Ends after this many messages; fewer is exit code 6
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<NonZeroU64>,
    /// Ends after this long in all, for example 30s
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Ends after this long without a message, for example 5s
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) idle: Option<Duration>,
    /// Only messages sent with this filter; a+b wants the group a+b. Can be given several times: any may match
    #[arg(long)]
    pub(crate) filter: Vec<String>,
    /// Shares the messages with the other members of this group: each goes to one of them
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// QoS on the broker's inner hop: 0, 1 or 2
    #[arg(long, value_name = "LEVEL", value_parser = qos)]
    pub(crate) qos: Option<QoS>,
    /// Prints the data alone: text and bytes as they are, anything else as JSON
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
    /// With --raw, what follows each message instead of a line feed; it can be empty
    #[arg(long, value_name = "TEXT", requires = "raw")]
    pub(crate) delimiter: Option<String>,
    /// With --raw, a NUL byte follows each message, as xargs -0 wants it
    #[arg(short = '0', requires = "raw", conflicts_with = "delimiter")]
    pub(crate) null: bool,
    /// Prints JSON for people, over several lines
    #[arg(long)]
    pub(crate) pretty: bool,
    /// Prints one JSON object per line: messages, and what happens to the connection
    #[arg(long)]
    pub(crate) json: bool,
}

impl PubArgs {
    /// What can be wrong whatever a broker says.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        check_topic(&self.topic).map_err(misuse)?;
        let filter = self.filter.as_deref().map(filter);
        let values = match &filter {
            Some(Filter::All(values)) => values.len(),
            _ => 0,
        };
        check_filters(filter.as_slice(), values)
    }
}

impl SubArgs {
    /// What can be wrong whatever a broker says.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.topics.iter().try_for_each(|topic| check_pattern(topic)).map_err(misuse)?;
        let filters: Vec<Filter> = self.filters().collect();
        check_filters(&filters, filters.len())
    }

    pub(crate) fn filters(&self) -> impl Iterator<Item = Filter> {
        self.filter.iter().map(|text| filter(text))
    }
}

/// A filter on the command line: `a+b` is a group.
pub(crate) fn filter(text: &str) -> Filter {
    match text.contains('+') {
        true => Filter::All(text.split('+').map(Into::into).collect()),
        false => Filter::Value(text.into()),
    }
}

fn check_filters(filters: &[Filter], count: usize) -> Result<(), Failure> {
    if let Some(bad) = filters.iter().find_map(Filter::invalid_value) {
        return Err(misuse(Misuse::InvalidFilter(bad.into())));
    }
    if count > MAX_FILTERS {
        return Err(misuse(Misuse::TooManyFilters(count)));
    }
    Ok(())
}

fn misuse(misuse: Misuse) -> Failure {
    Failure::client(&Error::Misuse(misuse))
}

/// Never fails, so that no message repeats the token.
#[expect(clippy::unnecessary_wraps, reason = "what clap wants of a parser")]
fn token(text: &str) -> Result<Token, std::convert::Infallible> {
    Ok(Token::new(text))
}

fn qos(text: &str) -> Result<QoS, String> {
    let level = text.parse::<u8>().ok().and_then(|level| QoS::try_from(level).ok());
    level.ok_or_else(|| "it is 0, 1 or 2".into())
}

const PUB_EXAMPLES: &str = "\
Examples:
  nolag pub demo/general/messages '{\"text\":\"hello\"}'
  nolag pub demo/general/messages --string hello --retain
  tail -f app.log | nolag pub demo/general/messages --string --lines";

const SUB_EXAMPLES: &str = "\
Examples:
  nolag sub demo/general/messages
  nolag sub demo/general/messages --count 1 --timeout 30s --raw
  nolag sub 'demo/general/+' --json | jq 'select(.event == \"message\").data'

Without --count the goal is one message: --timeout or --idle without any is exit code 6. A signal ends it with 0, or \
with 130 if --count or --timeout was given and has not been reached.";

fn help(examples: &str) -> String {
    format!("{examples}\n\n{}", exit::HELP)
}
