//! The command `nolag-conformance`.

use std::{
    io::{self, BufWriter, ErrorKind},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand, ValueEnum};
use nolag_conformance::{
    broker::Allowed,
    client::Different,
    leniency::RULES,
    mode::Mode,
    report::{RunError, Summary, run},
};

/// Checks NoLag implementations against recorded sessions.
#[derive(Parser)]
#[command(name = "nolag-conformance", version, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Checks a directory of recordings against the codec, our client and our broker. One check is one file in one mode.
    #[command(after_long_help = leniency_help())]
    Traces {
        /// Directory with recordings (*.jsonl).
        directory: PathBuf,
        /// What to check.
        #[arg(long, value_enum, default_value_t = Modes::All)]
        mode: Modes,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Modes {
    /// Our broker answers as the recorded one did.
    Broker,
    /// Our client sends what the recorded clients sent, and reports what the recorded broker said.
    Client,
    /// Broker messages are read without losing anything.
    Decode,
    /// Client messages are what our encoder sends for the same intent.
    Encode,
    /// Every mode.
    All,
}

impl Modes {
    fn list(self) -> &'static [Mode] {
        match self {
            Self::Broker => &[Mode::Broker],
            Self::Client => &[Mode::Client],
            Self::Decode => &[Mode::Decode],
            Self::Encode => &[Mode::Encode],
            Self::All => &[Mode::Decode, Mode::Encode, Mode::Client, Mode::Broker],
        }
    }
}

fn leniency_help() -> String {
    let rules = RULES.iter().copied();
    let rules = rules.chain(Different::ALL.map(Different::rule)).chain(Allowed::ALL.map(Allowed::rule));
    let rules = rules.map(|rule| format!("  {}: {}\n      because {}\n", rule.mode, rule.what, rule.why));
    format!("What may differ:\n{}", rules.collect::<String>())
}

fn main() -> ExitCode {
    let Command::Traces { directory, mode } = Arguments::parse().command;
    match run(&directory, mode.list(), &mut BufWriter::new(io::stdout().lock())) {
        Ok(Summary { failed: 0, .. }) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        // Whoever reads the report has seen enough.
        Err(RunError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
