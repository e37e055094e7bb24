//! Mode `client`: our client understands a recorded broker, and says what a recorded client said.
//!
//! A [`ClientCore`](nolag_core::ClientCore) takes the place of every recorded client, in virtual time. The recorded
//! client messages are what its application wants, the recorded broker messages are what it receives. It must send what
//! the recorded client sent, and tell its application exactly what the recorded broker said. What it does otherwise is
//! listed in [`Different`] and nowhere else; the answers to what the recorded broker was never asked come from our
//! broker, which lives the same recording.
//!
//! Messages that no client of ours would send are left out and listed as `not ours` with the reason.

mod connection;
mod different;
mod happening;
mod model;
mod presence;
mod session;
mod step;

use std::collections::BTreeSet;

pub use different::Different;
pub use step::{Cause, Did, Step};

use crate::{
    mode::{Finding, Outcome},
    trace::{Trace, What},
};
use session::Session;

/// What came of living a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Life {
    /// The verdict.
    pub outcome: Outcome,
    /// What was done otherwise than recorded.
    pub different: BTreeSet<Different>,
}

/// Lives a recording. One that could not be read completely is left alone.
pub fn live(trace: &Trace) -> Life {
    if !trace.problems.is_empty() {
        return Life::default();
    }
    run(trace, None)
}

/// Lives what could be read of a recording, and shows every step to `watch` as it is made.
pub fn live_with<'t>(trace: &'t Trace, watch: &'t mut dyn FnMut(&Step<'_>)) -> Life {
    run(trace, Some(watch))
}

fn run<'t>(trace: &'t Trace, watch: Option<&'t mut dyn FnMut(&Step<'_>)>) -> Life {
    let (findings, different) = match Session::new(trace, watch) {
        Ok(session) => session.run(),
        Err(text) => (vec![Finding { line: 1, text, failed: true }], BTreeSet::new()),
    };
    let frames = trace.lines.iter().filter(|line| matches!(line.what, What::Message(_))).count();
    Life { outcome: Outcome { frames, findings }, different }
}
