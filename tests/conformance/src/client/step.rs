//! What a client does, one step at a time, for people who watch.

use bytes::Bytes;

use crate::{
    mode::Finding,
    trace::Line,
    value::{Fields, Values},
};

/// Everything that comes of one cause.
#[derive(Debug, Clone)]
pub struct Step<'s> {
    /// When, in seconds since the first connection opened.
    pub at: f64,
    /// Why something happens.
    pub cause: Cause<'s>,
    /// What the client does, in its order.
    pub did: &'s [Did],
    /// What is remarkable about it. Those that failed are differences from the recording.
    pub findings: &'s [Finding],
    /// What the client waits for afterwards, in words; `None` where no client is concerned.
    pub explain: Option<String>,
}

/// Why a client does something.
#[derive(Debug, Clone, Copy)]
pub enum Cause<'s> {
    /// The recording is over.
    End,
    /// A line of the recording: an event, a command of the application, or a message of the broker.
    Line(&'s Line),
    /// The time of the client of this connection has come.
    Timer {
        /// The connection.
        conn: u64,
    },
}

/// One thing that a client does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Did {
    /// It closes the connection.
    Closed {
        /// The code of the close frame.
        code: u16,
        /// Its reason.
        reason: &'static str,
    },
    /// It sends this message.
    Sent(Bytes),
    /// It tells its application something. Tokens do not show.
    Told(String),
}

/// What the application is told, as a line: the name, and the fields in the order of their names.
pub(super) fn told(values: &Values, fields: &Fields) -> String {
    let name = fields.get("event").and_then(|id| values.as_text(*id)).unwrap_or_default();
    let rest = fields.iter().filter(|(field, _)| *field != "event");
    let rest = rest.map(|(field, id)| match field.as_str() {
        "command" => format!(" line={}", values.show(*id)),
        _ => format!(" {field}={}", values.show(*id)),
    });
    std::iter::once(name.to_owned()).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        client::{live, live_with},
        trace::Trace,
    };

    #[test]
    fn every_line_is_a_step_and_every_finding_is_shown_once() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
        for name in ["presence-two-actors", "text-json", "idle-close"] {
            let trace = Trace::load(&directory.join(format!("{name}.jsonl")));
            let (mut lines, mut timers, mut findings) = (Vec::new(), 0, Vec::new());
            let (mut sent, mut told) = (0, Vec::new());
            let life = live_with(&trace, &mut |step| {
                match step.cause {
                    Cause::End => {}
                    Cause::Line(line) => lines.push(line.number),
                    Cause::Timer { .. } => timers += 1,
                }
                findings.extend_from_slice(step.findings);
                for did in step.did {
                    match did {
                        Did::Closed { .. } => {}
                        Did::Sent(_) => sent += 1,
                        Did::Told(text) => told.push(text.clone()),
                    }
                }
            });
            assert_eq!(life, live(&trace), "{name}");
            assert_eq!(lines, trace.lines.iter().map(|line| line.number).collect::<Vec<_>>(), "{name}");
            findings.sort_by_key(|finding| finding.line);
            assert_eq!(findings, life.outcome.findings, "{name}");
            match name {
                "idle-close" => assert!(timers > 0 && sent > 0, "heartbeats leave by themselves"),
                "text-json" => assert!(!findings.is_empty(), "texts are not ours"),
                _ => assert!(told.iter().any(|text| text.starts_with("presence actor=")), "{told:?}"),
            }
        }
    }
}
