//! The command `nolag`.

mod args;
mod commands;
mod connection;
mod exit;
mod input;
mod output;
mod payload;
mod secrets;
mod signals;
mod table;

use std::{io, process::ExitCode};

use clap::Parser as _;

use crate::{
    args::{Arguments, Command},
    exit::{Exit, Failure, Outcome},
    output::say,
};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help goes to standard output and usage errors to standard error; nobody may be reading either.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done }.into();
        }
    };
    match run(arguments.command) {
        Ok(exit) => exit.into(),
        Err(Failure { exit, message }) => {
            if let Some(message) = message {
                say(format_args!("error: {message}"));
            }
            exit.into()
        }
    }
}

fn run(command: Command) -> Outcome {
    // Workers of their own: a full pipe may block the command in a write, and signals must still be heard.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Internal, format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(async {
        match command {
            Command::Api(args) => commands::api::run(args).await,
            Command::Bench(args) => commands::bench::run(args).await,
            Command::BenchPeer(args) => commands::bench::peer(args).await,
            Command::Demo(args) => commands::demo::run(args).await,
            Command::Dev(args) => {
                tell_what_the_broker_logs();
                commands::dev::run(args).await
            }
            Command::Pub(args) => commands::publish::run(args).await,
            Command::Sub(args) => commands::sub::run(args).await,
            Command::Trace(args) => commands::trace::run(args.command).await,
        }
    });
    // Nothing is left to wait for.
    runtime.shutdown_background();
    outcome
}

/// The broker says through `tracing` when it reads its auth file again.
fn tell_what_the_broker_logs() {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .init();
}
