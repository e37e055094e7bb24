//! `nolag trace`: recordings of what clients and brokers say.

mod file;
mod record;
mod redact;
mod relay;
mod replay;
mod show;
mod upstream;

use std::path::Path;

use crate::{
    args::trace::TraceCommand,
    exit::{Failure, Outcome},
};

pub(crate) async fn run(command: TraceCommand) -> Outcome {
    match command {
        TraceCommand::Record(args) => record::run(args).await,
        TraceCommand::Replay(args) => replay::run(args),
        TraceCommand::Show(args) => show::run(args),
    }
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot read {}: {error}", path.display()))
}
