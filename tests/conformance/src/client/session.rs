//! Living a recording with our clients.

use std::collections::{BTreeMap, BTreeSet};

use nolag_core::wire::ClientFrame;
use serde_json::{Map, Value as Json};

use super::{
    Cause, Did, Different, Step,
    connection::{Connection, Context},
};
use crate::{
    broker,
    client_fields::{Unnamed, intent},
    mode::Finding,
    trace::{Body, Line, Message, Peer, Trace, What},
    value::{Fields, Values},
};

/// The code that recordings give to a connection that ended without a close frame.
const ABNORMAL: u64 = 1006;

/// The state of a run.
pub(super) struct Session<'t> {
    trace: &'t Trace,
    broker: broker::Session,
    values: Values,
    /// Recorded connection → the client that lives it, where one can.
    connections: BTreeMap<u64, Connection>,
    findings: Vec<Finding>,
    different: BTreeSet<Different>,
    watch: Option<&'t mut dyn FnMut(&Step<'_>)>,
    /// What has been done since the last step was shown.
    did: Vec<Did>,
    /// How many findings have been shown.
    shown: usize,
}

impl<'t> Session<'t> {
    pub(super) fn new(trace: &'t Trace, watch: Option<&'t mut dyn FnMut(&Step<'_>)>) -> Result<Self, String> {
        Ok(Self {
            trace,
            broker: broker::Session::new(trace)?,
            values: Values::default(),
            connections: BTreeMap::new(),
            findings: Vec::new(),
            different: BTreeSet::new(),
            watch,
            did: Vec::new(),
            shown: 0,
        })
    }

    /// Runs the whole recording. Returns the findings and the differences that were met.
    pub(super) fn run(mut self) -> (Vec<Finding>, BTreeSet<Different>) {
        let mut last = 0;
        for line in &self.trace.lines {
            let at = (line.at.max(0.0) * 1e6).round() as u64;
            self.pass_until(at, line.number);
            // The broker lives the recording too, so that it can answer what the recorded one was never asked. Whether
            // it agrees with the recording is for another mode to say.
            self.broker.step(line);
            match &line.what {
                What::Message(message) if message.from == Peer::Client => self.sent(message, at, line.number),
                What::Message(message) => self.arrived(message, at, line.number),
                What::Event { name, conn: Some(conn), keys } => self.event(name, *conn, keys, at, line),
                What::Event { .. } => {}
            }
            let conn = match &line.what {
                What::Event { conn, .. } => *conn,
                What::Message(message) => Some(message.conn),
            };
            self.show(Cause::Line(line), at, conn);
            last = at;
        }
        for connection in self.connections.values_mut() {
            let missing = connection.missing();
            self.findings.extend(missing.into_iter().map(|(line, text)| Finding {
                line,
                text,
                failed: true,
            }));
            self.different.append(&mut connection.model.different);
        }
        self.show(Cause::End, last, None);
        self.findings.sort_by_key(|finding| finding.line);
        (self.findings, self.different)
    }

    /// Lets time pass up to a moment, with every timer in between.
    fn pass_until(&mut self, at: u64, line: usize) {
        loop {
            let due = self.connections.iter().filter_map(|(conn, client)| Some((client.timeout()?, *conn)));
            let Some((now, conn)) = due.min().filter(|(due, _)| *due <= at) else { return };
            self.with(conn, now, line, |client, cx| client.pass(cx));
            self.show(Cause::Timer { conn }, now, Some(conn));
        }
    }

    /// Shows what has been done since the last step to whoever watches.
    fn show(&mut self, cause: Cause<'_>, at: u64, conn: Option<u64>) {
        let Some(watch) = self.watch.as_mut() else { return };
        let client = conn.and_then(|conn| self.connections.get(&conn));
        watch(&Step {
            at: at as f64 / 1e6,
            cause,
            did: &std::mem::take(&mut self.did),
            findings: &self.findings[self.shown..],
            explain: client.map(Connection::explain),
        });
        self.shown = self.findings.len();
    }

    /// Does something with a connection's client, if it has one.
    fn with<R>(
        &mut self,
        conn: u64,
        now: u64,
        line: usize,
        act: impl FnOnce(&mut Connection, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let client = self.connections.get_mut(&conn)?;
        let did = self.watch.is_some().then_some(&mut self.did);
        let mut cx = Context { values: &mut self.values, broker: &mut self.broker, conn, now, line, did };
        let result = act(client, &mut cx);
        let failures = client.take_failures();
        self.findings.extend(failures.into_iter().map(|text| Finding { line, text, failed: true }));
        Some(result)
    }

    fn event(&mut self, name: &str, conn: u64, keys: &Map<String, Json>, at: u64, line: &Line) {
        let code = keys.get("code").and_then(Json::as_u64).filter(|code| *code != ABNORMAL);
        let code = code.and_then(|code| u16::try_from(code).ok());
        let reason = keys.get("reason").and_then(Json::as_str).unwrap_or_default();
        let by_client = keys.get("by").and_then(Json::as_str) == Some("client");
        match name {
            "open" => self.open(conn, at, line.number),
            // Without a close frame the connection is lost for the client, too.
            "close" if by_client && code.is_some() => {
                self.with(conn, at, line.number, |client, cx| client.leave(cx, code, reason));
            }
            "close" => {
                self.with(conn, at, line.number, |client, cx| client.lose(cx, code, reason));
            }
            _ => {}
        }
    }

    /// A connection opens: our client takes it, if there is an `auth` of ours to come on it.
    fn open(&mut self, conn: u64, at: u64, line: usize) {
        let later = self.trace.messages_from(Peer::Client);
        let later = later.filter(|(number, message)| *number > line && message.conn == conn);
        for (number, message) in later {
            if let Body::Binary(bytes) = &message.body
                && let Ok(ClientFrame::Auth(auth)) = ClientFrame::decode(bytes)
                && let Ok(client) = Connection::new(&auth, number, at)
            {
                self.connections.insert(conn, client);
                return;
            }
        }
        self.not_ours(line, "no client of ours could have authenticated on this connection");
    }

    fn sent(&mut self, message: &Message, at: u64, line: usize) {
        let conn = message.conn;
        if !self.connections.contains_key(&conn) {
            return self.not_ours(line, "the connection is not ours");
        }
        let bytes = match &message.body {
            Body::Binary(bytes) => bytes,
            Body::Text(_) => {
                return self.stranger(message, at, line, "text; our client sends binary messages");
            }
        };
        let frame = match ClientFrame::decode(bytes) {
            Ok(frame) => frame,
            Err(error) => return self.stranger(message, at, line, &error.to_string()),
        };
        let meant = match self.values.read(bytes) {
            _ if bytes.is_empty() => Ok(Fields::new()),
            Ok(id) => intent(&mut self.values, id, Unnamed::LeftOut),
            Err(broken) => Err(broken.to_string()),
        };
        let meant = match meant {
            Ok(meant) => meant,
            Err(reason) => return self.stranger(message, at, line, &reason),
        };
        if let ClientFrame::Auth(auth) = &frame {
            let client = self.connections.get(&conn);
            let again = client.is_some_and(Connection::has_ended);
            if again && let Ok(client) = Connection::new(auth, line, at) {
                self.not_ours(line, "a second auth on one socket; our client opens another one for it");
                if let Some(mut before) = self.connections.insert(conn, client) {
                    self.different.append(&mut before.model.different);
                }
            }
            let first = self.connections.get(&conn).is_some_and(|client| client.auth_line() == line);
            if first {
                self.with(conn, at, line, |client, cx| client.open(cx, meant));
                return;
            }
        }
        let client = self.connections.get(&conn);
        let reason = match client {
            Some(client) if client.has_ended() => Some("our client has left this connection"),
            Some(client) if !client.is_opened() => Some("before auth"),
            _ => None,
        };
        if let Some(reason) = reason.filter(|_| frame != ClientFrame::Heartbeat) {
            return self.stranger(message, at, line, reason);
        }
        let ours = self.with(conn, at, line, |client, cx| client.command(cx, &frame, meant));
        if let Some(Err(reason)) = ours {
            self.stranger(message, at, line, &reason);
        }
    }

    fn arrived(&mut self, message: &Message, at: u64, line: usize) {
        if self.connections.get(&message.conn).is_none_or(Connection::has_ended) {
            return;
        }
        match message.body.to_message_pack() {
            Ok(bytes) => _ = self.with(message.conn, at, line, |client, cx| client.receive(cx, &bytes)),
            Err(text) => self.findings.push(Finding { line, text, failed: true }),
        }
    }

    /// A frame goes past our client.
    fn stranger(&mut self, message: &Message, at: u64, line: usize, reason: &str) {
        self.not_ours(line, reason);
        let frame = message.body.to_message_pack().ok().and_then(|bytes| self.values.read(&bytes).ok());
        let frame = frame.and_then(|id| self.values.fields(id));
        if let (Some(frame), Some(client)) = (frame, self.connections.get_mut(&message.conn)) {
            client.stranger(&self.values, &frame, at);
        }
    }

    fn not_ours(&mut self, line: usize, reason: &str) {
        self.findings.push(Finding { line, text: format!("not ours: {reason}"), failed: false });
    }
}
