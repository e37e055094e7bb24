//! `nolag bench`: speed and memory as ratios within one run.

mod report;

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use nolag::check_topic;
use nolag_bench::{Environment, Error, Event, Launch, Measurement, PYTHON_SDK, Settings, Target, Work};
use tokio::{sync::mpsc, task::spawn_blocking};

use crate::{
    args::{
        ConnectionArgs,
        bench::{BenchArgs, BenchPeerArgs},
    },
    connection::interrupted,
    exit::{Exit, Failure, Outcome},
    output::{Output, say},
    secrets::{self, Source},
    signals::Interrupts,
};
use report::{Progress, Report};

/// Messages that leave in a second to a broker that may be somebody else's: it takes 50.
const CAREFUL_RATE: u32 = 40;

/// What comes before each role on the command line of a peer.
const PEER: &str = "bench-peer";

/// What the thread that measures tells.
enum Told {
    Measured(Measurement),
    Starting { work: Work, case: &'static str, round: usize },
    Work { work: Work, steps: usize },
}

pub(crate) async fn run(args: BenchArgs) -> Outcome {
    let mut interrupts = Interrupts::listen(|| "left at once".into())?;
    let earlier = args.compare.as_deref().map(report::earlier).transpose()?;
    let settings = settings(&args).await?;
    // Before minutes are spent on what cannot be written.
    if let Some(path) = &args.chart {
        write(path, "")?;
    }
    let mut report = Report::new(Output::new(args.json), earlier);
    report.environment(&Environment::here(), &settings)?;

    let (tell, mut told) = mpsc::unbounded_channel();
    let measuring = spawn_blocking(move || {
        nolag_bench::run(&settings, |event| {
            // Nobody listens any more after an interrupt, which ends the process.
            let _ = tell.send(match event {
                Event::Measured(measurement) => Told::Measured(measurement.clone()),
                Event::Starting { work, case, round } => Told::Starting { work, case, round },
                Event::Work { work, steps } => Told::Work { work, steps },
                _ => return,
            });
        })
    });
    let mut progress = Progress::new();
    loop {
        let next = tokio::select! {
            biased;
            () = interrupts.first() => return Err(interrupted("interrupted: nothing to compare")),
            next = told.recv() => next,
        };
        match next {
            Some(Told::Work { work, steps }) => {
                // Nothing is printed while there is a bar.
                progress.end();
                report.begin(work)?;
                progress.begin(work, steps);
            }
            Some(Told::Starting { work, case, round }) => progress.starting(work, case, round),
            Some(Told::Measured(measurement)) => {
                progress.step();
                report.measured(measurement)?;
            }
            None => break,
        }
    }
    progress.end();
    let measured = measuring.await.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    let measurements = measured.map_err(|error| failure(error, args.url.as_deref()))?;
    report.end()?;
    let ratios = nolag_bench::ratios(&measurements);
    if let Some(path) = &args.chart {
        write(path, &nolag_bench::chart(&ratios))?;
    }
    report.ratios(&ratios)?;
    let unclean = measurements.iter().filter(|measurement| !measurement.figures.is_clean()).count();
    if unclean > 0 {
        say(format_args!("error: messages were lost, double or unconfirmed in {unclean} measurements"));
        return Ok(Exit::SomeFailed);
    }
    Ok(Exit::Done)
}

/// Serves, or measures in a process of its own, for `nolag bench`.
pub(crate) async fn peer(args: BenchPeerArgs) -> Outcome {
    // It brings a runtime of its own.
    let performed = spawn_blocking(move || nolag_bench::peer::run(&args.role)).await;
    let performed = performed.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    performed.map_err(|error| failure(error, None))?;
    Ok(Exit::Done)
}

async fn settings(args: &BenchArgs) -> Result<Settings, Failure> {
    let launch = Launch::this_program([PEER.into()]);
    let launch = launch.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    let mut settings = Settings::new(launch);
    if args.duration.is_zero() {
        return Err(Failure::usage("--duration 0 measures nothing"));
    }
    (settings.duration, settings.warmup) = (args.duration, args.warmup);
    (settings.rounds, settings.size, settings.seed) = (args.rounds as usize, args.size as usize, args.seed);
    settings.baseline = args.baseline;
    if let Some(clients) = args.clients.map(|clients| clients as usize) {
        settings.fanout_clients = clients;
        settings.connect_clients = clients;
        settings.idle_clients = clients;
    }
    settings.target = args.url.as_deref().map(|url| target(args, url)).transpose()?;
    settings.works = args.works.iter().copied().map(Work::from).collect();
    if settings.target.is_some() {
        let impossible = settings.works.iter().find(|work| !Work::WITH_ANY_BROKER.contains(work));
        if let Some(work) = impossible {
            return Err(Failure::usage(format!(
                "{} needs servers of its own: leave --url out, or choose of {}",
                work.name(),
                Work::WITH_ANY_BROKER.map(Work::name).join(", ")
            )));
        }
    }
    if settings.works.is_empty() {
        settings.works = match settings.target {
            Some(_) => Work::WITH_ANY_BROKER.to_vec(),
            None => Work::ALL.to_vec(),
        };
    }
    settings.python = match &args.official_python {
        Some(Some(interpreter)) if !nolag_bench::has_python_sdk(interpreter) => {
            return Err(Failure::usage(format!(
                "{} cannot `import nolag`: pip install nolag=={PYTHON_SDK}",
                interpreter.display()
            )));
        }
        Some(Some(interpreter)) => Some(interpreter.clone()),
        Some(None) => Some(made_interpreter().await?),
        None => None,
    };
    Ok(settings)
}

async fn made_interpreter() -> Result<PathBuf, Failure> {
    let made = spawn_blocking(nolag_bench::python_with_sdk).await;
    let made = made.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
    made.map_err(|error| {
        Failure::usage(format!(
            "cannot make an environment with the official Python SDK: {error}; --official-python=PYTHON takes one that \
             has it"
        ))
    })
}

fn target(args: &BenchArgs, url: &str) -> Result<Target, Failure> {
    check_topic(&args.topic).map_err(|error| Failure::usage(format!("--topic: {error}")))?;
    let connection = ConnectionArgs {
        url: url.into(),
        token_file: args.token_file.clone(),
        token_cmd: None,
        token: args.token.clone(),
    };
    let Source::Token(token) = secrets::token(&connection)? else {
        return Err(Failure::usage("a token is needed"));
    };
    let rate = (!is_loopback(url)).then_some(CAREFUL_RATE);
    if let Some(rate) = rate {
        say(format_args!(
            "{url} is not on this machine: at most {rate} messages leave in a second, so this shows how long it takes, not how \
             much goes"
        ));
    } else {
        say("as much as goes: the broker must not limit it, as `nolag dev --no-limits`");
    }
    Ok(Target { url: url.into(), token, topic: args.topic.clone(), rate })
}

fn is_loopback(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))
}

fn failure(error: Error, url: Option<&str>) -> Failure {
    match error {
        Error::Client(error) => Failure::client(&error),
        Error::Connect(error) => Failure::connect(&error, url.map_or("bench", crate::connection::shown)),
        error => Failure::new(Exit::Internal, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        for url in ["ws://localhost:8080/ws", "ws://127.0.0.1/ws", "ws://127.9.9.9:1", "ws://[::1]:8080/ws"] {
            assert!(is_loopback(url), "{url}");
        }
        for url in [
            "wss://broker.nolag.app/ws",
            "ws://10.0.0.1/ws",
            "ws://localhost.example/ws",
            "ws://127.0.0.1.example/ws",
            "ws://user@127.0.0.1/ws", // No address of ours at all, and refused later.
            "",
        ] {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
