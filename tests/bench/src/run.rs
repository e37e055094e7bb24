//! The course of a benchmark.

use std::{sync::mpsc, thread, time::Duration};

use crate::{Error, Figures, Measurement, Result, Settings, Work, works};

/// What one case may take beyond its time: for connecting, subscribing, and starting processes.
const PATIENCE: Duration = Duration::from_secs(100);

/// What happens meanwhile.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A case was measured.
    Measured(&'a Measurement),
    /// A case is about to be measured.
    Starting {
        /// Of what.
        work: Work,
        /// Which.
        case: &'static str,
        /// In which round, from 1.
        round: usize,
    },
    /// A work begins.
    Work {
        /// Which.
        work: Work,
        /// Cases that will be measured, in all rounds.
        steps: usize,
    },
}

/// Does what `settings` say, and tells `observer`. This blocks the thread, and takes about as many times warm-up and
/// duration as there are cases and rounds.
///
/// # Errors
/// When something cannot be measured. Then nothing else is.
pub fn run(settings: &Settings, mut observer: impl FnMut(Event<'_>)) -> Result<Vec<Measurement>> {
    let mut measurements = Vec::new();
    for work in settings.works.iter().copied() {
        let prepared = works::prepare(work, settings)?;
        let rounds = if prepared.once { 1 } else { settings.rounds };
        observer(Event::Work { work, steps: rounds * prepared.cases.len() });
        for round in 1..=rounds {
            for case in &prepared.cases {
                observer(Event::Starting { work, case: case.name, round });
                let patience = settings.warmup + settings.duration + PATIENCE;
                let figures = on_a_thread(case, patience).map_err(|error| within(error, work, case.name))?;
                let measurement = Measurement { work, case: case.name, round, figures };
                observer(Event::Measured(&measurement));
                measurements.push(measurement);
            }
        }
    }
    Ok(measurements)
}

/// A fresh thread for each, and an end to what hangs.
fn on_a_thread(case: &works::Case, patience: Duration) -> Result<Figures> {
    let (done, figures) = mpsc::sync_channel(1);
    let run = case.run.clone();
    thread::spawn(move || drop(done.send(run())));
    match figures.recv_timeout(patience) {
        Ok(figures) => figures,
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(Error::other("it panicked")),
        Err(mpsc::RecvTimeoutError::Timeout) => Err(Error::other("it takes too long")),
    }
}

fn within(error: Error, work: Work, case: &str) -> Error {
    match error {
        Error::Other(words) => Error::Other(format!("{} {case}: {words}", work.name())),
        error => error,
    }
}
