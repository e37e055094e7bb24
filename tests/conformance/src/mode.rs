//! What can be checked about a recording.

use std::fmt;

use crate::{
    broker, client, decode, encode,
    trace::{Peer, Trace},
    value::Values,
};

/// A way of checking a recording. Each looks at the whole recording, so one that replays a session fits here as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Our broker answers as the recorded one did.
    Broker,
    /// Our client sends what the recorded clients sent, and reports what the recorded broker said.
    Client,
    /// Broker messages are read without losing anything.
    Decode,
    /// Client messages are what our encoder sends for the same intent.
    Encode,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Broker => "broker",
            Self::Client => "client",
            Self::Decode => "decode",
            Self::Encode => "encode",
        })
    }
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Messages that were looked at.
    pub frames: usize,
    /// In the order of the file.
    pub findings: Vec<Finding>,
}

impl Outcome {
    /// Whether nothing failed.
    pub fn passed(&self) -> bool {
        self.findings.iter().all(|finding| !finding.failed)
    }
}

/// A remark about one line of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line, counted from 1; 0 means the file as a whole.
    pub line: usize,
    /// What there is to say.
    pub text: String,
    /// Whether it is a failure.
    pub failed: bool,
}

impl Mode {
    /// Checks a recording. Whatever is wrong with the recording itself is a failure too.
    pub fn check(self, trace: &Trace) -> Outcome {
        let problems = trace.problems.iter();
        let mut findings: Vec<Finding> = problems
            .map(|problem| Finding { line: problem.line, text: problem.reason.clone(), failed: true })
            .collect();
        let (peer, check_message): (_, fn(&_) -> _) = match self {
            Self::Broker => {
                let replayed = broker::replay(trace).outcome;
                findings.extend(replayed.findings);
                return Outcome { frames: replayed.frames, findings };
            }
            Self::Client => {
                let lived = client::live(trace).outcome;
                findings.extend(lived.findings);
                return Outcome { frames: lived.frames, findings };
            }
            Self::Decode => (Peer::Broker, decode::check_message),
            Self::Encode => (Peer::Client, encode::check_message),
        };
        let mut frames = 0;
        for (line, message) in trace.messages_from(peer) {
            frames += 1;
            match check_message(message) {
                Ok(()) => {}
                Err(Verdict::NotOurs(reason)) => {
                    findings.push(Finding { line, text: format!("not ours: {reason}"), failed: false });
                }
                Err(Verdict::Wrong(reasons)) => {
                    findings.extend(reasons.into_iter().map(|text| Finding { line, text, failed: true }));
                }
            }
        }
        findings.sort_by_key(|finding| finding.line);
        Outcome { frames, findings }
    }
}

/// Why a message is not simply right.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It asks nothing of our codec.
    NotOurs(String),
    /// Our codec fails it.
    Wrong(Vec<String>),
}

impl Verdict {
    pub(crate) fn wrong(reason: String) -> Self {
        Self::Wrong(vec![reason])
    }
}

/// Judges what the codec made of a message that the recording declares undecodable.
pub(crate) fn malformed<T>(bytes: &[u8], decoded: Result<T, impl fmt::Display>) -> Verdict {
    let mut values = Values::default();
    match (decoded, values.read(bytes)) {
        (Err(refusal), _) => Verdict::NotOurs(format!("malformed, and refused: {refusal}")),
        (Ok(_), Ok(id)) if values.has_bad_text(id) => Verdict::NotOurs(
            "malformed only by text that is not UTF-8 where it is passed on unread".to_owned(),
        ),
        (Ok(_), _) => Verdict::wrong("marked malformed, but decoded".to_owned()),
    }
}
