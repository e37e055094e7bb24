//! The command line of `nolag trace`.

use std::{net::SocketAddr, num::NonZeroU64, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};

pub(crate) const EXAMPLES: &str = "\
Examples:
  nolag trace record --url ws://127.0.0.1:8080/ws -o session.jsonl
  nolag trace show session.jsonl --type publish --direction out
  nolag trace replay session.jsonl -v";

const REPLAY_CODES: &str = "\
Exit codes:
    0  the client did what was recorded, but for what it is known to do otherwise
    1  it did something else
    2  usage, or the file cannot be read
    7  the file has lines that are no trace; the rest was replayed, and is the same";

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Stands between clients and a broker, and writes what they say to a file
    ///
    /// Clients in any language connect to the printed address instead of the broker's. Every WebSocket message goes
    /// through unchanged; in the file tokens are replaced. It ends by Ctrl-C, or by --connections.
    #[command(after_help = super::exit::HELP)]
    Record(RecordArgs),
    /// Lives a recording again with our client, and prints its decisions step by step
    ///
    /// What the recorded client sent is what the application wants; what the recorded broker said is what arrives. Each
    /// line of the recording is followed by what our client sends and tells, and by where that is not what was recorded.
    #[command(after_help = REPLAY_CODES)]
    Replay(ReplayArgs),
    /// Prints a line for each message of a recording
    ///
    /// The line has time, connection, direction (-> from the client, <- to it), type, fields and size. Tokens never
    /// show, and payloads only with their kind and size, unless --json or --raw ask for them.
    #[command(after_help = super::exit::HELP)]
    Show(ShowArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Where to listen; port 0 picks a free one, and anything but loopback lets others in
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// The broker's address, ws:// or wss://
    #[arg(long, env = "NOLAG_URL", hide_env_values = true)]
    pub(crate) url: String,
    /// The file to write; what is in it is replaced
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Ends when so many connections have ended
    #[arg(long, value_name = "N")]
    pub(crate) connections: Option<NonZeroU64>,
    /// Prints one JSON object per line, first {"event":"ready",…}
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The recording
    pub(crate) file: PathBuf,
    /// Prints one JSON object per line, with the message's content
    #[arg(long)]
    pub(crate) json: bool,
    /// Only messages of this type, for example publish, heartbeat or undecodable; or events, for example close. Can be
    /// given several times
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) types: Vec<String>,
    /// Only messages that come in to the client, or that it sends out
    #[arg(long, value_enum)]
    pub(crate) direction: Option<Direction>,
    /// Shows the bytes, too
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The recording
    pub(crate) file: PathBuf,
    /// Says after each step what the client waits for
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// As the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Direction {
    In,
    Out,
}
