//! Writing recordings, in the format of `tests/conformance/traces/README.md`.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use jiff::Timestamp;
use nolag_conformance::trace::Peer;
use serde::Serialize;

use super::redact::Redactor;

/// A run of one byte that is worth writing as such.
const LONG_RUN: usize = 1024;

/// A recording that is being made. Every line is written at once, so a kill loses at most the one under way.
pub(super) struct Recording(Mutex<State>);

struct State {
    file: File,
    redactor: Redactor,
    /// When the first connection opened.
    started: Option<Instant>,
    connections: u64,
    messages: u64,
}

/// What a recording holds by now.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Totals {
    pub(super) connections: u64,
    pub(super) messages: u64,
}

#[derive(Serialize)]
struct Header<'a> {
    scenario: &'a str,
    about: &'a str,
    url: &'a str,
    recorder: &'a str,
    started: String,
}

#[derive(Serialize)]
struct Line<T> {
    t: f64,
    conn: u64,
    #[serde(flatten)]
    what: T,
}

#[derive(Serialize)]
struct Event<'a> {
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

#[derive(Serialize)]
struct Message<'a> {
    dir: &'a str,
    #[serde(flatten)]
    body: Body<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    malformed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Hex { hex: String },
    Run { len: usize, head: String, repeat: String, times: usize, tail: String },
    Text { text: &'a str },
}

impl Recording {
    /// Starts a recording of what is said to the broker at `url`, which holds no secret. Only the user can read it.
    pub(super) fn create(path: &Path, url: &str) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        let mut state =
            State { file, redactor: Redactor::default(), started: None, connections: 0, messages: 0 };
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        state.line(&Header {
            scenario: &name,
            about: "recorded by nolag trace record; tokens are replaced",
            url,
            recorder: concat!("nolag ", env!("CARGO_PKG_VERSION")),
            started: format!("{:.3}", Timestamp::now()),
        })?;
        Ok(Self(Mutex::new(state)))
    }

    /// A connection is open. Returns its number.
    pub(super) fn open(&self) -> io::Result<u64> {
        let mut state = self.lock();
        state.started.get_or_insert_with(Instant::now);
        state.connections += 1;
        let conn = state.connections;
        let event = Event { event: "open", by: None, code: None, reason: None, note: None };
        state.at_now(conn, event)?;
        Ok(conn)
    }

    /// A connection was closed by `peer`; without a close frame, `code` is 1006.
    pub(super) fn close(
        &self,
        conn: u64,
        peer: Peer,
        code: u16,
        reason: &str,
        note: Option<&str>,
    ) -> io::Result<()> {
        let mut state = self.lock();
        let by = match peer {
            Peer::Broker => "broker",
            Peer::Client => "client",
        };
        let reason = state.redactor.words(reason).into_owned();
        let event = Event { event: "close", by: Some(by), code: Some(code), reason: Some(&reason), note };
        state.at_now(conn, event)
    }

    /// `peer` sent a binary message.
    pub(super) fn binary(&self, conn: u64, peer: Peer, message: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        let redacted = state.redactor.binary(message);
        let (body, malformed) = (body(&redacted.content), redacted.malformed);
        state.message(conn, peer, body, malformed, redacted.blank)
    }

    /// `peer` sent a text message.
    pub(super) fn text(&self, conn: u64, peer: Peer, message: &str) -> io::Result<()> {
        let mut state = self.lock();
        let redacted = state.redactor.text(message);
        state.message(conn, peer, Body::Text { text: &redacted.content }, redacted.malformed, redacted.blank)
    }

    pub(super) fn totals(&self) -> Totals {
        let state = self.lock();
        Totals { connections: state.connections, messages: state.messages }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every line is whole, whatever panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn message(
        &mut self,
        conn: u64,
        peer: Peer,
        body: Body<'_>,
        malformed: bool,
        blank: bool,
    ) -> io::Result<()> {
        self.messages += 1;
        let dir = match peer {
            Peer::Broker => "s2c",
            Peer::Client => "c2s",
        };
        let note = blank.then_some("not recorded: it is not understood, and may hold a token");
        self.at_now(conn, Message { dir, body, malformed, note })
    }

    fn at_now(&mut self, conn: u64, what: impl Serialize) -> io::Result<()> {
        let since = self.started.map(|started| started.elapsed()).unwrap_or_default();
        let t = since.as_millis() as f64 / 1e3;
        self.line(&Line { t, conn, what })
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line).map_err(io::Error::from)?;
        text.push(b'\n');
        self.file.write_all(&text)
    }
}

/// The content of a line: as it is, or shorter if it is mostly one byte.
fn body(message: &[u8]) -> Body<'static> {
    let mut longest = 0..0;
    let mut start = 0;
    for run in message.chunk_by(|a, b| a == b) {
        if run.len() > longest.len() {
            longest = start..start + run.len();
        }
        start += run.len();
    }
    if longest.len() < LONG_RUN || longest.len() < message.len() / 2 {
        return Body::Hex { hex: hex(message) };
    }
    Body::Run {
        len: message.len(),
        head: hex(&message[..longest.start]),
        repeat: hex(&message[longest.start..=longest.start]),
        times: longest.len(),
        tail: hex(&message[longest.end..]),
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)]));
    bytes.iter().flat_map(digits).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nolag_conformance::trace::{Body as Read, Trace, What};

    use super::*;

    #[test]
    fn a_recording_is_read_as_it_was_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.jsonl");
        let recording = Recording::create(&path, "ws://host/ws").unwrap();
        let conn = recording.open().unwrap();
        let large = [&[1, 2][..], &[7; 5000], &[3]].concat();
        recording.binary(conn, Peer::Client, &large).unwrap();
        recording.binary(conn, Peer::Broker, b"").unwrap();
        recording.text(conn, Peer::Client, "{\"type\":\"ack\"}").unwrap();
        recording.close(conn, Peer::Broker, 4001, "bye\n", None).unwrap();
        let totals = recording.totals();
        assert_eq!((totals.connections, totals.messages), (1, 3));

        assert!(fs::metadata(&path).unwrap().len() < 1000, "the large message is written short");
        let trace = Trace::load(&path);
        assert_eq!(trace.problems, []);
        assert_eq!(trace.header.scenario, "session");
        assert_eq!(trace.header.keys["url"], "ws://host/ws");
        let messages: Vec<_> = trace
            .lines
            .iter()
            .filter_map(|line| match &line.what {
                What::Message(message) => {
                    Some((message.conn, message.from, message.body.clone(), message.malformed))
                }
                What::Event { .. } => None,
            })
            .collect();
        let expected = [
            (1, Peer::Client, Read::Binary(large), true),
            (1, Peer::Broker, Read::Binary(Vec::new()), false),
            (1, Peer::Client, Read::Text("{\"type\":\"ack\"}".into()), false),
        ];
        assert_eq!(messages, expected);
        let What::Event { name, keys, .. } = &trace.lines.last().unwrap().what else { panic!("no event") };
        assert_eq!(
            (name.as_str(), keys["by"].as_str(), keys["code"].as_u64()),
            ("close", Some("broker"), Some(4001))
        );
    }

    #[cfg(unix)]
    #[test]
    fn only_the_user_can_read_a_recording() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session.jsonl");
        Recording::create(&path, "").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
