//! Playing the recorded clients against our broker.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use nolag_broker::{AuthConfig, BrokerConfig, BrokerCore, ConnectionId, Instant, Output, Profile};
use serde_json::{Map, Value as Json, json};

use super::{
    Allowed,
    actors::Actors,
    answers::{Answer, Answers},
    same::text,
};
use crate::{
    trace::{Body, Line, Message, Peer, Trace, What},
    value::{Id, Value, Values},
};

/// A message stays this long in a connection's queue, so that messages in flight are in flight. Recorded times are
/// whole milliseconds, so it has arrived at the next one.
const DELIVERY_LAG: Duration = Duration::from_micros(500);

/// The code that recordings give to a connection that ended without a close frame.
const ABNORMAL: u64 = 1006;

/// How far a clock event may be from the clock that was set by the first one.
const CLOCK_TOLERANCE: f64 = 0.02;

/// The state of a replay.
pub(crate) struct Session {
    broker: BrokerCore,
    /// The auth file; nil if there is none.
    tokens: Json,
    actors: Actors,
    /// Recorded connection → ours, and back.
    conns: BTreeMap<u64, ConnectionId>,
    numbers: BTreeMap<ConnectionId, u64>,
    now: u64,
    /// Fraction of a second that the wall clock shows at the start.
    fraction: Option<f64>,
    /// Size of the last client message.
    last_size: usize,
    values: Values,
    answers: Answers,
}

impl Session {
    pub(crate) fn new(trace: &Trace) -> Result<Self, String> {
        let keys = &trace.header.keys;
        let (tokens, auth) = match keys.get("auth") {
            // Tokens are not in every recording; who they stand for is.
            None => (Json::Null, AuthConfig::allow_all()),
            Some(name) => {
                let name = name.as_str().ok_or("key \"auth\" is not a string")?;
                let path = trace.directory.join(name);
                let content = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                let tokens: Json = serde_json::from_slice(&content)
                    .map_err(|error| format!("{}: not JSON: {error}", path.display()))?;
                let auth = AuthConfig::from_json(&tokens.to_string()).map_err(|error| error.to_string())?;
                (tokens, auth)
            }
        };
        let actors = if tokens.is_null() { Actors::of(trace, &auth) } else { Actors::default() };
        let record_messages = keys.get("record_messages").and_then(Json::as_bool).unwrap_or(true);
        let fraction = trace.lines.iter().find_map(clock_start);
        let config = BrokerConfig {
            profile: Profile::Kraken04,
            auth,
            record_messages,
            durable_delivery: true,
            delivery_lag: DELIVERY_LAG,
            wall_clock: Duration::from_secs_f64(fraction.unwrap_or_default()),
            ..BrokerConfig::default()
        };
        let varies = keys.get("varies").and_then(Json::as_array).into_iter().flatten();
        let mut answers = Answers::default();
        answers.varies = varies.filter_map(Json::as_str).map(str::to_owned).collect();
        answers.correspondence.random_ids = record_messages;
        Ok(Self {
            broker: BrokerCore::new(config, Instant::ZERO),
            tokens,
            actors,
            conns: BTreeMap::new(),
            numbers: BTreeMap::new(),
            now: 0,
            fraction,
            last_size: 0,
            values: Values::default(),
            answers,
        })
    }

    /// Takes one line: lets clients act, or accounts for an answer. Returns what is wrong.
    pub(crate) fn step(&mut self, line: &Line) -> Vec<String> {
        let at = (line.at.max(0.0) * 1e6).round() as u64;
        match &line.what {
            What::Message(message) if message.from == Peer::Client => {
                self.pass_until(at, line.number);
                self.send(message, line.number);
            }
            What::Message(message) => {
                self.settle(at, line.number);
                return self.expect_message(message, at);
            }
            What::Event { name, conn, keys } => match (name.as_str(), conn) {
                ("open", Some(conn)) => {
                    self.pass_until(at, line.number);
                    let id = self.broker.open(self.instant());
                    self.conns.insert(*conn, id);
                    self.numbers.insert(id, *conn);
                }
                ("close", Some(conn)) if keys.get("by").and_then(Json::as_str) == Some("broker") => {
                    self.settle(at, line.number);
                    let code = keys.get("code").and_then(Json::as_u64).unwrap_or(ABNORMAL);
                    let reason = keys.get("reason").and_then(Json::as_str).unwrap_or_default().to_owned();
                    return self.answers.expect(&mut self.values, *conn, at, &Answer::Close { code, reason });
                }
                ("close", Some(conn)) => {
                    self.pass_until(at, line.number);
                    if let Some(id) = self.conns.get(conn) {
                        self.broker.handle_close(self.instant(), *id);
                    }
                }
                ("broker-killed", _) => {
                    self.pass_until(at, line.number);
                    self.broker.restart(self.instant());
                }
                ("auth-file-changed", _) => {
                    self.pass_until(at, line.number);
                    return self.change_tokens(keys).err().into_iter().collect();
                }
                ("clock", _) => return self.check_clock(line).err().into_iter().collect(),
                ("broker-started", _) => {}
                (other, _) => return vec![format!("unknown event {other:?}")],
            },
        }
        self.collect(line.number);
        Vec::new()
    }

    /// What our broker answers on `conn` to a frame that is not in the recording.
    pub(crate) fn ask(&mut self, conn: u64, at: u64, frame: &[u8]) -> Vec<Vec<u8>> {
        self.pass_until(at, 0);
        let Some(id) = self.conns.get(&conn).copied() else { return Vec::new() };
        self.broker.handle_binary(self.instant(), id, frame);
        let mut replies = Vec::new();
        while let Some(output) = self.broker.poll_output() {
            match output {
                Output::Send { conn, frame } if conn == id => replies.push(frame.to_vec()),
                _ => {}
            }
        }
        replies
    }

    /// What our broker said that was never recorded.
    pub(super) fn unexpected(&self) -> Vec<(usize, String)> {
        self.answers.unexpected(&self.values)
    }

    /// The differences that had to be allowed.
    pub(super) fn allowed(&self) -> BTreeSet<Allowed> {
        self.answers.allowed.clone()
    }

    fn instant(&self) -> Instant {
        Instant::from_micros(self.now)
    }

    /// Lets time pass up to a moment, with every timer in between.
    fn pass_until(&mut self, at: u64, line: usize) {
        self.run_timers(at, line);
        self.now = self.now.max(at);
    }

    fn run_timers(&mut self, at: u64, line: usize) {
        while let Some(due) = self.broker.poll_timeout().filter(|due| due.as_micros() <= at) {
            self.now = self.now.max(due.as_micros());
            self.broker.handle_timeout(self.instant());
            self.collect(line);
        }
    }

    /// Lets everything arrive that has arrived in the millisecond of a recorded answer.
    fn settle(&mut self, at: u64, line: usize) {
        self.run_timers(self.now.max(at) + 999, line);
    }

    /// Takes the broker's answers.
    fn collect(&mut self, line: usize) {
        while let Some(output) = self.broker.poll_output() {
            let conn = self.numbers.get(&output.conn()).copied().unwrap_or_default();
            let answer = match output {
                Output::Send { frame, .. } if frame.is_empty() => Answer::Heartbeat,
                Output::Send { frame, .. } => {
                    let id = self.values.read(&frame);
                    Answer::Frame(id.unwrap_or_else(|_| self.values.add(Value::Binary(frame.to_vec()))))
                }
                Output::Close { code, reason, .. } => {
                    Answer::Close { code: code.into(), reason: reason.into() }
                }
                Output::Cut { .. } => Answer::Close { code: ABNORMAL, reason: String::new() },
            };
            self.answers.give(conn, self.now, line, self.last_size, answer);
        }
    }

    fn send(&mut self, message: &Message, line: usize) {
        let Some(id) = self.conns.get(&message.conn).copied() else { return };
        let now = self.instant();
        match &message.body {
            Body::Text(text) => {
                self.last_size = text.len();
                self.broker.handle_text(now, id, text);
            }
            Body::Binary(bytes) => {
                self.last_size = bytes.len();
                let frame = self.values.read(bytes).ok();
                if let Some(frame) = frame {
                    self.note_publisher(message.conn, frame);
                }
                let ours = self.actors.with_our_token(line, bytes);
                match ours.or_else(|| frame.and_then(|frame| self.with_our_ids(frame))) {
                    Some(bytes) => self.broker.handle_binary(now, id, &bytes),
                    None => self.broker.handle_binary(now, id, bytes),
                }
            }
        }
    }

    fn note_publisher(&mut self, conn: u64, frame: Id) {
        let Some(fields) = self.values.fields(frame) else { return };
        let is_publish = text(&self.values, &fields, "type").as_deref() == Some("publish");
        if let Some(data) = fields.get("data").filter(|_| is_publish) {
            let publisher = self.answers.publishers.entry(*data).or_insert(Some(conn));
            *publisher = publisher.filter(|known| *known == conn);
        }
    }

    /// An acknowledgement that names our message ids instead of the recorded ones; `None` for any other frame.
    fn with_our_ids(&self, frame: Id) -> Option<Vec<u8>> {
        let fields = self.values.fields(frame)?;
        let ours = |id: &Id| {
            let id = self.answers.correspondence.our_id(*id).unwrap_or(*id);
            self.values.as_text(id).map(str::to_owned)
        };
        let ack = match text(&self.values, &fields, "type")?.as_str() {
            "ack" => json!({"type": "ack", "msgId": ours(fields.get("msgId")?)?}),
            "batchAck" => {
                let ids: Option<Vec<String>> =
                    self.values.items(*fields.get("msgIds")?)?.iter().map(ours).collect();
                json!({"type": "batchAck", "msgIds": ids?})
            }
            _ => return None,
        };
        rmp_serde::to_vec(&ack).ok()
    }

    fn expect_message(&mut self, message: &Message, at: u64) -> Vec<String> {
        let answer = match message.body.to_message_pack() {
            Ok(bytes) if bytes.is_empty() => Answer::Heartbeat,
            Ok(bytes) => match self.values.read(&bytes) {
                Ok(id) => Answer::Frame(id),
                Err(broken) => return vec![format!("the recorded message is {broken}")],
            },
            Err(reason) => return vec![reason],
        };
        self.answers.expect(&mut self.values, message.conn, at, &answer)
    }

    fn change_tokens(&mut self, keys: &Map<String, Json>) -> Result<(), String> {
        let removed = keys.get("removed").and_then(Json::as_array).into_iter().flatten();
        for token in removed.filter_map(Json::as_str) {
            let tokens = self.tokens.get_mut("tokens").and_then(Json::as_object_mut);
            if tokens.and_then(|tokens| tokens.remove(token)).is_none() {
                return Err("a removed token is not in the auth file".to_owned());
            }
        }
        let auth = AuthConfig::from_json(&self.tokens.to_string()).map_err(|error| error.to_string())?;
        self.broker.set_auth(self.instant(), auth);
        Ok(())
    }

    /// The clock was set by the first clock event; the others must agree.
    fn check_clock(&self, line: &Line) -> Result<(), String> {
        let (Some(start), Some(here)) = (self.fraction, clock_start(line)) else {
            return Err("key \"fraction\" is missing or no number".to_owned());
        };
        let apart = (start - here).abs();
        match apart.min(1.0 - apart) <= CLOCK_TOLERANCE {
            true => Ok(()),
            false => Err("the clock does not agree with the clock events before".to_owned()),
        }
    }
}

/// The fraction of a second that the wall clock showed at the start, going by a clock event.
fn clock_start(line: &Line) -> Option<f64> {
    let What::Event { name, keys, .. } = &line.what else { return None };
    let fraction = keys.get("fraction").and_then(Json::as_f64).filter(|_| name == "clock")?;
    Some((fraction - line.at).rem_euclid(1.0))
}
