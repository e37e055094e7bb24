//! Mode `broker`: our broker answers a recorded client as the recorded broker did.
//!
//! A [`BrokerCore`](nolag_broker::BrokerCore) that imitates Kraken 0.4 is fed everything that the recorded clients did,
//! at the recorded times, in virtual time. Every recorded answer must be among its answers, in the recorded order, and
//! nothing else. What may differ is listed in [`Allowed`] and nowhere else.

mod actors;
mod allowed;
mod answers;
mod same;
mod session;

use std::collections::BTreeSet;

pub use allowed::Allowed;

use crate::{
    mode::{Finding, Outcome},
    trace::{Trace, What},
};
pub(crate) use session::Session;

/// What came of replaying a recording against the broker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replay {
    /// The verdict.
    pub outcome: Outcome,
    /// The differences that had to be allowed.
    pub allowed: BTreeSet<Allowed>,
}

/// Replays a recording. One that could not be read completely is not replayed.
pub fn replay(trace: &Trace) -> Replay {
    if !trace.problems.is_empty() {
        return Replay::default();
    }
    let mut session = match Session::new(trace) {
        Ok(session) => session,
        Err(reason) => {
            let findings = vec![Finding { line: 1, text: reason, failed: true }];
            return Replay { outcome: Outcome { frames: 0, findings }, ..Replay::default() };
        }
    };
    let mut findings = Vec::new();
    for line in &trace.lines {
        let failures = session.step(line);
        findings.extend(failures.into_iter().map(|text| Finding { line: line.number, text, failed: true }));
    }
    let unexpected = session.unexpected();
    findings.extend(unexpected.into_iter().map(|(line, text)| Finding { line, text, failed: true }));
    findings.sort_by_key(|finding| finding.line);
    let frames = trace.lines.iter().filter(|line| matches!(line.what, What::Message(_))).count();
    Replay { outcome: Outcome { frames, findings }, allowed: session.allowed() }
}
