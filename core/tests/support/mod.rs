//! A client core under test: virtual time, and a broker that the test plays.

#![allow(dead_code, reason = "each test binary uses its own part")]

mod rooms;

use std::{collections::BTreeMap, mem, time::Duration};

use bytes::{Bytes, BytesMut};
use nolag_core::{
    Action, ClientCore, Config, Disconnect, Error, Event, Instant, Message, Op, OpId, Outcome, Payload,
    Publish, Subscribe, TransportError, TransportErrorKind, TransportEvent, TransportEventKind, TransportId,
    wire::{AuthReply, ClientFrame, ErrorFrame, Filter, QoS, RawValue, ServerFrame, Text, write},
};

#[allow(unused_imports)]
pub(crate) use rooms::*;

/// The token of every configuration made here.
pub(crate) const TOKEN: &str = "at_live_0123456789ab.tokenthatmustnotleak";
pub(crate) const ACTOR: &str = "actor-1";
pub(crate) const TOPIC: &str = "demo/general/messages";

/// More wake-ups than this in one `advance` mean that the core spins.
const MAX_WAKE_UPS: u32 = 20_000;

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn config() -> Config {
    Config::new(TOKEN)
}

pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = config();
    change(&mut config);
    config
}

/// A client that publishes as fast as it is told to.
pub(crate) fn unpaced() -> Config {
    with(|config| config.publish_rate = None)
}

pub(crate) fn named() -> Config {
    with(|config| config.client_id = Some("kiosk-7".into()))
}

pub(crate) fn encode(frame: &ServerFrame<'_>) -> Bytes {
    let mut out = BytesMut::new();
    frame.encode(&mut out);
    out.freeze()
}

/// One core, its clock, everything that came out of it, and the other end of its transport.
pub(crate) struct Peer {
    pub(crate) core: ClientCore,
    pub(crate) now: Instant,
    /// Whether heartbeats are echoed.
    pub(crate) echo: bool,
    /// Whether the transport takes nothing for now.
    pub(crate) blocked: bool,
    pub(crate) heartbeats: u32,
    /// The transport opened last.
    pub(crate) transport: Option<TransportId>,
    sent: Vec<Bytes>,
    actions: Vec<Action>,
    events: Vec<Event>,
    outcomes: BTreeMap<OpId, Outcome>,
    last_ref: Option<String>,
}

impl Peer {
    pub(crate) fn new(config: Config) -> Self {
        Self::with_seed(config, 7)
    }

    pub(crate) fn with_seed(config: Config, seed: u64) -> Self {
        let now = Instant::from_micros(1_000_000);
        Self {
            core: ClientCore::new(config, seed, now).expect("a valid configuration"),
            now,
            echo: true,
            blocked: false,
            heartbeats: 0,
            transport: None,
            sent: Vec::new(),
            actions: Vec::new(),
            events: Vec::new(),
            outcomes: BTreeMap::new(),
            last_ref: None,
        }
    }

    /// A client whose session stands; what happened until then is forgotten.
    pub(crate) fn connected(config: Config) -> Self {
        let mut peer = Self::new(config);
        peer.connect();
        peer.open();
        peer.accept();
        peer.forget();
        peer
    }

    pub(crate) fn default_connected() -> Self {
        Self::connected(config())
    }

    /// Forgets what came out so far.
    pub(crate) fn forget(&mut self) {
        self.sent.clear();
        self.actions.clear();
        self.events.clear();
        self.outcomes.clear();
    }

    // ---- the application's side ----

    pub(crate) fn connect(&mut self) -> OpId {
        let op = self.core.connect(self.now).expect("connect is accepted");
        self.pump();
        op
    }

    pub(crate) fn disconnect_now(&mut self) -> OpId {
        let op = self.core.disconnect(self.now, Disconnect::Now);
        self.pump();
        op
    }

    pub(crate) fn drain(&mut self, patience: Duration) -> OpId {
        let op = self.core.disconnect(self.now, Disconnect::Drain(patience));
        self.pump();
        op
    }

    pub(crate) fn subscribe(&mut self, topic: &str) -> OpId {
        self.subscribe_as(topic, |_| {})
    }

    pub(crate) fn subscribe_as(&mut self, topic: &str, change: impl FnOnce(&mut Subscribe)) -> OpId {
        let mut subscribe = Subscribe::new(topic);
        change(&mut subscribe);
        let op = self.core.subscribe(self.now, subscribe).expect("subscribe is accepted");
        self.pump();
        op
    }

    pub(crate) fn filtered(&mut self, topic: &str, filters: &[&str]) -> OpId {
        self.subscribe_as(topic, |subscribe| subscribe.options.filters = filter_list(filters))
    }

    /// A subscription that the broker has confirmed; what happened until then is forgotten.
    pub(crate) fn subscription(&mut self, topic: &str) {
        self.subscribe(topic);
        self.subscribed(topic);
        self.forget();
    }

    pub(crate) fn unsubscribe(&mut self, topic: &str) -> OpId {
        let op = self.core.unsubscribe(self.now, topic).expect("unsubscribe is accepted");
        self.pump();
        op
    }

    pub(crate) fn abandon(&mut self, op: OpId) {
        self.core.abandon(self.now, op);
        self.pump();
    }

    pub(crate) fn publish(&mut self, topic: &str) -> OpId {
        self.publish_as(topic, |_| {})
    }

    pub(crate) fn publish_as(&mut self, topic: &str, change: impl FnOnce(&mut Publish)) -> OpId {
        let mut publish = Publish::new(topic, payload("hello"));
        change(&mut publish);
        let op = self.core.publish(self.now, publish).expect("publish is accepted");
        self.pump();
        op
    }

    /// Publishes to `demo/general/t{n}` for each number; frames then show which is which.
    pub(crate) fn publish_each(&mut self, numbers: std::ops::Range<usize>) -> Vec<OpId> {
        numbers.map(|n| self.publish(&format!("demo/general/t{n}"))).collect()
    }

    pub(crate) fn provide(&mut self, token: &str, valid_for: impl Into<Option<Duration>>) {
        self.core.provide_token(self.now, token, valid_for.into());
        self.pump();
    }

    pub(crate) fn token_unavailable(&mut self, reason: &str) {
        self.core.token_unavailable(self.now, reason);
        self.pump();
    }

    pub(crate) fn ack(&mut self, msg_id: &str) {
        self.core.ack(self.now, msg_id);
        self.pump();
    }

    pub(crate) fn message(&mut self) -> Option<Message> {
        self.core.poll_message()
    }

    pub(crate) fn messages(&mut self) -> Vec<Message> {
        std::iter::from_fn(|| self.core.poll_message()).collect()
    }

    // ---- the broker's side ----

    pub(crate) fn transport(&mut self, kind: TransportEventKind) {
        let id = self.transport.expect("a transport was opened");
        self.core.handle_transport(self.now, TransportEvent { id, kind });
        self.pump();
    }

    pub(crate) fn open(&mut self) {
        self.transport(TransportEventKind::Opened);
    }

    pub(crate) fn answer(&mut self, frame: &ServerFrame<'_>) {
        self.bytes(encode(frame));
    }

    pub(crate) fn bytes(&mut self, bytes: impl Into<Bytes>) {
        self.transport(TransportEventKind::Message(bytes.into()));
    }

    /// Accepts the token, on version 2 and with nothing restored.
    pub(crate) fn accept(&mut self) {
        self.accept_with(|_| {});
    }

    pub(crate) fn accept_with<'a>(&mut self, change: impl FnOnce(&mut AuthReply<'a>)) {
        let mut reply = AuthReply {
            success: true,
            actor_token_id: Some(ACTOR),
            project_id: Some("project-1"),
            actor_type: Some("user"),
            protocol_version: Some(2),
            restored_subscriptions: Some(RawValue::EMPTY_LIST),
            ..AuthReply::default()
        };
        change(&mut reply);
        self.answer(&ServerFrame::Auth(reply));
    }

    pub(crate) fn deny(&mut self, error: &str) {
        self.answer(&ServerFrame::Auth(AuthReply { error: Some(error), ..AuthReply::default() }));
    }

    pub(crate) fn subscribed(&mut self, topic: &str) {
        self.answer(&ServerFrame::Subscribed { topic: Text::Str(topic), load_balance: false });
    }

    pub(crate) fn unsubscribed(&mut self, topic: &str) {
        self.answer(&ServerFrame::Unsubscribed { topic: Text::Str(topic) });
    }

    pub(crate) fn published(&mut self, msg_ref: &str) {
        self.answer(&ServerFrame::Published { topic: Text::Str(TOPIC), msg_ref: Text::Str(msg_ref) });
    }

    /// Refuses a publish because it came too soon.
    pub(crate) fn too_soon(&mut self, msg_ref: &str) {
        let (topic, msg_ref) = (Some(Text::Str(TOPIC)), Some(Text::Str(msg_ref)));
        let error = "rate_limit_exceeded";
        let refusal = ErrorFrame { error, code: Some(42910), topic, msg_ref, ..ErrorFrame::default() };
        self.answer(&ServerFrame::Error(refusal));
    }

    /// An error about a topic and nothing else.
    pub(crate) fn refuse(&mut self, topic: &str, error: &str, code: Option<u32>) {
        let topic = Some(Text::Str(topic));
        self.answer(&ServerFrame::Error(ErrorFrame { error, code, topic, ..ErrorFrame::default() }));
    }

    pub(crate) fn deliver(&mut self, topic: &str, text: &str) {
        self.deliver_with(topic, text, |_| {});
    }

    pub(crate) fn deliver_with(
        &mut self,
        topic: &str,
        text: &str,
        change: impl FnOnce(&mut nolag_core::wire::Message<'_>),
    ) {
        let payload = payload(text);
        let mut message = message(topic, payload.raw());
        change(&mut message);
        self.answer(&ServerFrame::Message(message));
    }

    pub(crate) fn close(&mut self, code: impl Into<Option<u16>>) {
        self.close_with(code, "");
    }

    pub(crate) fn close_with(&mut self, code: impl Into<Option<u16>>, reason: &str) {
        self.transport(TransportEventKind::Closed { code: code.into(), reason: reason.into() });
    }

    pub(crate) fn fail(&mut self, kind: TransportErrorKind) {
        self.transport(TransportEventKind::Failed(TransportError::new(kind, "as the test says")));
    }

    /// Lets the next attempt come, and opens it up to `auth`.
    pub(crate) fn reopen(&mut self) {
        let before = self.transport;
        let mut steps = 0;
        while self.transport == before {
            let at = self.core.poll_timeout().expect("a reconnect is due some time");
            self.advance_to(at);
            steps += 1;
            assert!(steps < 100, "no new transport: {}", self.core.explain());
        }
        self.open();
    }

    /// Lets the next attempt come, and lets it succeed.
    pub(crate) fn reconnect(&mut self) {
        self.reopen();
        self.accept();
    }

    // ---- time ----

    /// Moves the clock, waking the core at each instant that it names on the way.
    pub(crate) fn advance(&mut self, by: Duration) {
        self.advance_to(self.now + by);
    }

    pub(crate) fn advance_to(&mut self, until: Instant) {
        let mut wake_ups = 0;
        while let Some(at) = self.core.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.core.handle_timeout(self.now);
            self.pump();
            wake_ups += 1;
            assert!(wake_ups < MAX_WAKE_UPS, "the core spins at {:?}: {}", self.now, self.core.explain());
        }
        self.now = self.now.max(until);
    }

    /// Moves the clock without waking the core, as when the machine sleeps.
    pub(crate) fn sleep(&mut self, duration: Duration) {
        self.now = self.now + duration;
    }

    pub(crate) fn wake(&mut self) {
        self.core.handle_timeout(self.now);
        self.pump();
    }

    // ---- what came out ----

    /// Takes everything out of the core but messages.
    pub(crate) fn pump(&mut self) {
        let mut out = BytesMut::new();
        while !self.blocked {
            let Some(transmit) = self.core.poll_transmit(self.now, &mut out) else { break };
            assert_eq!(Some(transmit.transport), self.transport, "a frame for another transport");
            assert_eq!(transmit.len, out.len(), "exactly one message");
            let frame = out.split().freeze();
            if frame.is_empty() {
                self.heartbeats += 1;
                if self.echo {
                    let kind = TransportEventKind::Message(Bytes::new());
                    self.core.handle_transport(self.now, TransportEvent { id: transmit.transport, kind });
                }
                continue;
            }
            if let Ok(ClientFrame::Publish(publish)) = ClientFrame::decode(&frame) {
                self.last_ref = publish.msg_ref.map(String::from);
            }
            self.sent.push(frame);
        }
        while let Some(action) = self.core.poll_action() {
            if let Action::OpenTransport { id } = action {
                self.transport = Some(id);
            }
            self.actions.push(action);
        }
        while let Some(event) = self.core.poll_event() {
            match event {
                Event::Done { op, outcome } => {
                    let before = self.outcomes.insert(op, outcome);
                    assert_eq!(before, None, "{op:?} ended twice");
                }
                event => self.events.push(event),
            }
        }
    }

    /// The frames sent since last asked, in words.
    pub(crate) fn sent(&mut self) -> Vec<String> {
        mem::take(&mut self.sent).iter().map(|bytes| describe(&decode(bytes))).collect()
    }

    /// The frames sent since last asked.
    pub(crate) fn frames(&mut self) -> Vec<Bytes> {
        mem::take(&mut self.sent)
    }

    /// The references of the publishes sent since last asked, other frames being forgotten.
    pub(crate) fn refs(&mut self) -> Vec<String> {
        let reference = |frame: Bytes| match decode(&frame) {
            ClientFrame::Publish(publish) => publish.msg_ref.map(String::from),
            _ => None,
        };
        self.frames().into_iter().filter_map(reference).collect()
    }

    /// The one frame sent since last asked.
    pub(crate) fn frame(&mut self) -> Bytes {
        let mut frames = self.frames();
        assert_eq!(frames.len(), 1, "exactly one frame");
        frames.remove(0)
    }

    /// The reference of the publish sent last.
    pub(crate) fn last_ref(&self) -> String {
        self.last_ref.clone().expect("a publish with a reference was sent")
    }

    pub(crate) fn actions(&mut self) -> Vec<Action> {
        mem::take(&mut self.actions)
    }

    /// The close codes of the transports that the core ended since last asked.
    pub(crate) fn closed(&mut self) -> Vec<u16> {
        let code = |action: Action| match action {
            Action::CloseTransport { code, .. } => Some(code),
            _ => None,
        };
        self.actions().into_iter().filter_map(code).collect()
    }

    /// How many transports were asked for since last asked.
    pub(crate) fn opened(&mut self) -> usize {
        let opens = |action: &Action| matches!(action, Action::OpenTransport { .. });
        self.actions().iter().filter(|action| opens(action)).count()
    }

    /// How often a token was asked for since last asked.
    pub(crate) fn tokens_asked(&mut self) -> usize {
        self.actions().iter().filter(|action| **action == Action::NeedToken).count()
    }

    /// Everything but outcomes, since last asked.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        mem::take(&mut self.events)
    }

    /// The one event since last asked.
    pub(crate) fn event(&mut self) -> Event {
        let mut events = self.events();
        assert_eq!(events.len(), 1, "exactly one event: {events:?}");
        events.remove(0)
    }

    #[track_caller]
    pub(crate) fn outcome(&mut self, op: OpId) -> Outcome {
        let explain = || format!("{op:?} has no outcome: {}", self.core.explain());
        self.outcomes.remove(&op).unwrap_or_else(|| panic!("{}", explain()))
    }

    pub(crate) fn is_pending(&self, op: OpId) -> bool {
        !self.outcomes.contains_key(&op)
    }

    /// Topics in force, and whether each is live.
    pub(crate) fn topics(&self) -> Vec<(String, bool)> {
        self.core.subscriptions().map(|info| (info.topic.to_string(), info.live)).collect()
    }
}

pub(crate) fn decode(bytes: &[u8]) -> ClientFrame<'_> {
    ClientFrame::decode(bytes).expect("the core sends well-formed frames")
}

/// A frame in words, without what is at its default.
pub(crate) fn describe(frame: &ClientFrame<'_>) -> String {
    match frame {
        ClientFrame::Ack { msg_id } => format!("ack {msg_id}"),
        ClientFrame::Auth(auth) => {
            let reconnect = if auth.reconnect { " reconnect" } else { "" };
            let client_id = auth.client_id.map(|id| format!(" as {id}")).unwrap_or_default();
            format!("auth{reconnect}{client_id}")
        }
        ClientFrame::BatchAck { msg_ids } => format!("batchAck {}", msg_ids.join(" ")),
        ClientFrame::GetLobbyPresence { lobby_id } => format!("getLobbyPresence {lobby_id}"),
        ClientFrame::GetPresence { room_id } => format!("getPresence {}", room_id.unwrap_or("nowhere")),
        ClientFrame::LobbySubscribe { lobby_id } => format!("lobbySubscribe {lobby_id}"),
        ClientFrame::LobbyUnsubscribe { lobby_id } => format!("lobbyUnsubscribe {lobby_id}"),
        ClientFrame::Presence { room_id, data } => {
            format!("presence {}={}", room_id.unwrap_or("nowhere"), value_in_words(*data))
        }
        ClientFrame::Publish(publish) => format!("publish {}", publish.topic),
        ClientFrame::Reauth { .. } => "reauth".into(),
        ClientFrame::SetFilters { topic, filters } => {
            let names: Vec<_> = filters.iter().map(Filter::canonical).collect();
            format!("setFilters {topic} {}", names.join(","))
        }
        ClientFrame::Subscribe(subscribe) => {
            let mut text = format!("subscribe {}", subscribe.topic);
            if let Some(qos) = subscribe.qos {
                text += &format!(" qos={}", qos.as_u8());
            }
            if !subscribe.filters.is_empty() {
                let names: Vec<_> = subscribe.filters.iter().map(Filter::canonical).collect();
                text += &format!(" filters={}", names.join(","));
            }
            if subscribe.load_balance {
                text += " shared";
            }
            if let Some(group) = subscribe.load_balance_group {
                text += &format!(" group={group}");
            }
            text
        }
        ClientFrame::Unsubscribe { topic } => format!("unsubscribe {topic}"),
        other => panic!("the core does not send this yet: {other:?}"),
    }
}

pub(crate) fn payload(text: &str) -> Payload {
    let mut out = BytesMut::new();
    write::str(&mut out, text);
    Payload::from_msgpack(out).expect("one value")
}

pub(crate) fn message<'a>(topic: &'a str, data: RawValue<'a>) -> nolag_core::wire::Message<'a> {
    nolag_core::wire::Message {
        topic: Text::Str(topic),
        data,
        msg_id: None,
        requires_ack: None,
        filter: None,
        is_replay: None,
        from: None,
        from_type: None,
    }
}

pub(crate) fn filter_list(filters: &[&str]) -> Vec<Filter> {
    filters.iter().map(|filter| Filter::from(*filter)).collect()
}

/// One entry of `restoredSubscriptions` as a map of texts, booleans, numbers and filter lists.
pub(crate) enum Field<'a> {
    Text(&'a str),
    Bool(bool),
    Uint(u64),
    Filters(&'a [&'a str]),
}

pub(crate) fn restored_map(out: &mut BytesMut, fields: &[(&str, Field<'_>)]) {
    write::map_header(out, fields.len());
    for (key, value) in fields {
        write::str(out, key);
        match value {
            Field::Text(text) => write::str(out, text),
            Field::Bool(value) => write::bool(out, *value),
            Field::Uint(value) => write::uint(out, *value),
            Field::Filters(filters) => Filter::encode_list(&filter_list(filters), out),
        }
    }
}

/// A list of `restoredSubscriptions` in the shape of Kraken's memory.
pub(crate) fn restored(entries: &[&[(&str, Field<'_>)]]) -> Vec<u8> {
    let mut out = BytesMut::new();
    write::list_header(&mut out, entries.len());
    entries.iter().for_each(|fields| restored_map(&mut out, fields));
    out.to_vec()
}

pub(crate) fn is_timeout(outcome: &Outcome, of: Op) -> bool {
    match outcome {
        Outcome::Unknown(Error::Protocol(nolag_core::ProtocolError::Timeout { op, after })) => {
            *op == of && *after == secs(10)
        }
        _ => false,
    }
}

pub(crate) fn qos(level: u8) -> QoS {
    QoS::try_from(level).expect("0, 1 or 2")
}
