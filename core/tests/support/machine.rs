//! A core driven by the steps of the model, with the network and the broker that they ask for.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Debug,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use nolag_core::{
    Action, ClientCore, Config, Disconnect, Event, Instant, Message, OfflinePolicy, OpId, Outcome, Publish,
    Refused, ResendPolicy, Subscribe, TransportError, TransportErrorKind, TransportEvent, TransportEventKind,
    TransportId,
    wire::{AuthReply, ClientFrame, ErrorFrame, LobbyEvent, PresenceEvent, RawValue, ServerFrame, Text},
};

use crate::{
    model::{Cause, Change, NOISES, Setup, Step, chosen},
    support::*,
};

pub(crate) const TOPICS: [&str; 3] = ["a/b/one", "a/b/two", "a/b/three"];
pub(crate) const ROOMS: [&str; 3] = ["general", "storage", "gate"];
pub(crate) const LOBBIES: [&str; 3] = ["operations", "visitors", "night"];
const PATIENCE: Duration = Duration::from_secs(5);

/// How the adapter goes about its polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// One kind after the other, and wakes the core exactly when it asks for it.
    Orderly,
    /// In the opposite order, one at a time and again, with wake-ups too early, twice, and from before.
    Restless,
}

/// Where the transport opened last stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pipe {
    Opening(TransportId),
    Open(TransportId),
}

impl Pipe {
    fn id(self) -> TransportId {
        match self {
            Self::Opening(id) | Self::Open(id) => id,
        }
    }
}

/// Everything that came out, each kind in its order.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Trace {
    frames: Vec<(Instant, TransportId, Bytes)>,
    actions: Vec<(Instant, Action)>,
    events: Vec<Event>,
    messages: Vec<Message>,
    timeouts: Vec<Option<Instant>>,
}

pub(crate) struct Machine {
    pub(crate) core: ClientCore,
    now: Instant,
    habit: Habit,
    pipe: Option<Pipe>,
    left: Vec<TransportId>,
    /// Sent and not answered.
    unserved: VecDeque<Bytes>,
    /// Where the broker has us present.
    room: Option<String>,
    /// The accepted commands in order.
    pub(crate) ops: Vec<OpId>,
    commands: BTreeMap<OpId, Step>,
    pub(crate) done: BTreeSet<OpId>,
    pub(crate) trace: Trace,
}

/// Whether a command can end like this.
fn suits(command: &Step, outcome: &Outcome) -> bool {
    let undone = matches!(outcome, Outcome::NotSent(_) | Outcome::Unknown(_));
    let refused = matches!(outcome, Outcome::Refused(_));
    match command {
        Step::Connect => matches!(outcome, Outcome::Connected(_) | Outcome::Failed(_)),
        Step::Disconnect | Step::Drain => *outcome == Outcome::Disconnected,
        Step::Subscribe { .. } => undone || refused || matches!(outcome, Outcome::Subscribed { .. }),
        Step::Filters { .. } => undone || refused || matches!(outcome, Outcome::FiltersUpdated { .. }),
        Step::Publish { tracked: true, .. } => undone || refused || *outcome == Outcome::Acked,
        Step::Publish { tracked: false, .. } => undone || *outcome == Outcome::Sent,
        Step::Unsubscribe(_) | Step::LobbyUnsubscribe(_) => undone || *outcome == Outcome::Unsubscribed,
        // What was to be cleared and is then set again shares the fate of what is set.
        Step::SetPresence(_) | Step::ClearPresence => undone || refused || *outcome == Outcome::PresenceSet,
        Step::FetchPresence(_) => undone || matches!(outcome, Outcome::Presence(_)),
        Step::LobbySubscribe(_) | Step::FetchLobby(_) => undone || matches!(outcome, Outcome::Lobby(_)),
        _ => false,
    }
}

fn configured(setup: &Setup) -> Config {
    let mut config = if setup.provider { Config::with_token_provider() } else { config() };
    config.retry_first_connect = setup.retry_first;
    config.reconnect.max_attempts = setup.max_attempts;
    config.publish_rate = None;
    if setup.queue_offline {
        config.offline = OfflinePolicy::Queue { max_messages: 1_000, max_bytes: 1 << 20, max_age: None };
    }
    if setup.resend {
        config.resend = ResendPolicy::AtLeastOnce;
    }
    config
}

impl Machine {
    pub(crate) fn orderly(setup: &Setup) -> Self {
        Self::new(setup, Habit::Orderly)
    }

    pub(crate) fn restless(setup: &Setup) -> Self {
        Self::new(setup, Habit::Restless)
    }

    fn new(setup: &Setup, habit: Habit) -> Self {
        let now = Instant::from_micros(5_000_000);
        Self {
            core: ClientCore::new(configured(setup), setup.seed, now).expect("a valid configuration"),
            now,
            habit,
            pipe: None,
            left: Vec::new(),
            unserved: VecDeque::new(),
            room: None,
            ops: Vec::new(),
            commands: BTreeMap::new(),
            done: BTreeSet::new(),
            trace: Trace::default(),
        }
    }

    // ---- polling, and what must hold of whatever comes out ----

    fn poll(&mut self) {
        match self.habit {
            Habit::Orderly => loop {
                let before = self.outputs();
                while self.poll_action() {}
                while self.poll_transmit() {}
                while self.poll_event() {}
                while self.poll_message() {}
                if self.outputs() == before {
                    break;
                }
            },
            Habit::Restless => loop {
                let before = self.outputs();
                self.poll_message();
                self.poll_event();
                self.wake_for_nothing();
                self.poll_transmit();
                self.poll_event();
                self.poll_action();
                let _ = (self.core.explain(), self.core.wants_input(), self.core.stats());
                if self.outputs() == before {
                    break;
                }
            },
        }
        self.trace.timeouts.push(self.core.poll_timeout());
    }

    fn outputs(&self) -> usize {
        let trace = &self.trace;
        trace.frames.len() + trace.actions.len() + trace.events.len() + trace.messages.len()
    }

    /// Wakes that nobody asked for.
    fn wake_for_nothing(&mut self) {
        if self.core.poll_timeout().is_none_or(|at| at > self.now) {
            self.core.handle_timeout(self.now);
            self.core.handle_timeout(Instant::ZERO);
            self.core.handle_timeout(self.now - Duration::from_millis(7));
        }
    }

    fn poll_transmit(&mut self) -> bool {
        let mut out = BytesMut::from(&b"before"[..]);
        let Some(transmit) = self.core.poll_transmit(self.now, &mut out) else { return false };
        assert_eq!(
            self.pipe,
            Some(Pipe::Open(transmit.transport)),
            "a frame for a transport that is not open"
        );
        assert_eq!(
            (&out[..6], out.len()),
            (&b"before"[..], 6 + transmit.len),
            "exactly one message is appended"
        );
        let frame = out.split_off(6).freeze();
        self.trace.frames.push((self.now, transmit.transport, frame.clone()));
        self.unserved.push_back(frame);
        true
    }

    fn poll_action(&mut self) -> bool {
        let Some(action) = self.core.poll_action() else { return false };
        match &action {
            Action::OpenTransport { id } => {
                assert_eq!(self.pipe, None, "a second transport");
                assert!(!self.left.contains(id), "an id is used again");
                self.pipe = Some(Pipe::Opening(*id));
            }
            Action::CloseTransport { id, .. } => {
                assert_eq!(self.pipe.map(Pipe::id), Some(*id), "a transport that is not there is closed");
                self.forget_pipe();
            }
            _ => {}
        }
        self.trace.actions.push((self.now, action));
        true
    }

    fn poll_event(&mut self) -> bool {
        let Some(event) = self.core.poll_event() else { return false };
        if let Event::Done { op, outcome } = &event {
            assert!(self.done.insert(*op), "{op:?} ends twice");
            let command = self.commands.get(op).unwrap_or_else(|| panic!("{op:?} was never accepted"));
            assert!(suits(command, outcome), "{command:?} ends as {outcome:?}");
        }
        self.trace.events.push(event);
        true
    }

    fn poll_message(&mut self) -> bool {
        let message = self.core.poll_message();
        let came = message.is_some();
        self.trace.messages.extend(message);
        came
    }

    fn forget_pipe(&mut self) {
        self.left.extend(self.pipe.take().map(Pipe::id));
        self.unserved.clear();
        self.room = None;
    }

    fn event(&mut self, kind: TransportEventKind) {
        let Some(pipe) = self.pipe else { return };
        match kind {
            TransportEventKind::Opened => self.pipe = Some(Pipe::Open(pipe.id())),
            TransportEventKind::Closed { .. } | TransportEventKind::Failed(_) => self.forget_pipe(),
            _ => {}
        }
        self.core.handle_transport(self.now, TransportEvent { id: pipe.id(), kind });
        self.poll();
    }

    fn answer_auth(&mut self, reply: AuthReply<'_>) {
        self.unserved.retain(|frame| !matches!(decode(frame), ClientFrame::Auth(_)));
        self.answer(&ServerFrame::Auth(reply));
    }

    fn answer(&mut self, frame: &ServerFrame<'_>) {
        self.event(TransportEventKind::Message(encode(frame)));
    }

    // ---- time ----

    /// Wakes the core until `until` whenever it asks for it; `served`: with a broker that answers.
    fn advance_to(&mut self, until: Instant, served: bool) {
        let mut wakes = 0;
        while let Some(at) = self.core.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.wake();
            if served {
                self.serve(None);
            }
            wakes += 1;
            assert!(wakes < 1_000, "the core spins: {}", self.core.explain());
        }
        self.now = self.now.max(until);
        self.wake();
    }

    fn wake(&mut self) {
        self.core.handle_timeout(self.now);
        if self.habit == Habit::Restless {
            self.core.handle_timeout(self.now);
        }
        self.poll();
        if let Some(at) = self.core.poll_timeout() {
            // Else it would be woken again and again.
            assert!(at > self.now, "it asks to be woken for what is over: {}", self.core.explain());
        }
    }

    fn next_wake(&self) -> Instant {
        self.core.poll_timeout().expect("it waits for something")
    }

    // ---- the broker ----

    /// Answers what was sent, and what is sent because of the answers, until nothing is left.
    fn serve(&mut self, refuse: Option<usize>) {
        let refused = refuse.map(|topic| TOPICS[topic]);
        while let Some(frame) = self.unserved.pop_front() {
            match decode(&frame) {
                // This one has a step of its own.
                ClientFrame::Auth(_) => return self.unserved.push_front(frame),
                ClientFrame::Heartbeat => self.answer(&ServerFrame::Heartbeat),
                ClientFrame::Subscribe(wire) if Some(wire.topic) == refused => {
                    self.refuse(wire.topic, None, ("unknown_topic", Some(42940)));
                }
                ClientFrame::Subscribe(wire) => {
                    self.answer(&ServerFrame::Subscribed {
                        topic: Text::Str(wire.topic),
                        load_balance: false,
                    });
                }
                ClientFrame::SetFilters { topic, .. } if Some(topic) == refused => {
                    self.refuse(topic, None, ("too_many_filters (max 100)", None));
                }
                ClientFrame::SetFilters { topic, .. } => {
                    let filters = RawValue::EMPTY_LIST;
                    self.answer(&ServerFrame::FiltersUpdated { topic: Text::Str(topic), filters });
                }
                ClientFrame::Unsubscribe { topic } => {
                    self.answer(&ServerFrame::Unsubscribed { topic: Text::Str(topic) });
                }
                ClientFrame::Publish(wire) => match wire.msg_ref {
                    Some(msg_ref) if Some(wire.topic) == refused => {
                        self.refuse(wire.topic, Some(msg_ref), ("unknown_topic", Some(42940)));
                    }
                    Some(msg_ref) => {
                        let (topic, msg_ref) = (Text::Str(wire.topic), Text::Str(msg_ref));
                        self.answer(&ServerFrame::Published { topic, msg_ref });
                    }
                    None => {}
                },
                ClientFrame::Presence { room_id: Some(room), data } => self.put(room, data),
                ClientFrame::GetPresence { room_id: Some(room) } => {
                    let listed = [online(ACTOR, "me")];
                    let here = usize::from(self.room.as_deref() == Some(room));
                    let list = presence_list(&listed[..here]);
                    let data = RawValue::parse(&list).expect("a list");
                    self.answer(&ServerFrame::PresenceList { room_id: Some(Text::Str(room)), data });
                }
                ClientFrame::LobbySubscribe { lobby_id } => self.snapshot(lobby_id, true),
                ClientFrame::GetLobbyPresence { lobby_id } => self.snapshot(lobby_id, false),
                ClientFrame::LobbyUnsubscribe { lobby_id } => {
                    self.answer(&ServerFrame::LobbyUnsubscribed { lobby_id: Text::Str(lobby_id) });
                }
                ClientFrame::Ack { .. } | ClientFrame::BatchAck { .. } => {}
                other => panic!("not expected here: {other:?}"),
            }
        }
    }

    fn refuse(&mut self, topic: &str, msg_ref: Option<&str>, (error, code): (&str, Option<u32>)) {
        let frame = ErrorFrame {
            error,
            code,
            topic: Some(Text::Str(topic)),
            msg_ref: msg_ref.map(Text::Str),
            ..ErrorFrame::default()
        };
        self.answer(&ServerFrame::Error(frame));
    }

    fn put(&mut self, room: &str, data: RawValue<'_>) {
        if self.room.as_deref() != Some(room) {
            if self.room.is_some() {
                self.presence("leave", ACTOR, None);
            }
            self.room = Some(room.to_owned());
            self.presence("join", ACTOR, Some(data));
        }
        self.presence("update", ACTOR, Some(data));
    }

    fn presence(&mut self, event: &str, actor: &str, presence: Option<RawValue<'_>>) {
        self.answer(&ServerFrame::Presence(PresenceEvent {
            event,
            actor_token_id: Some(actor),
            presence,
            status: None,
            capabilities: None,
            advertisement_version: None,
        }));
    }

    fn snapshot(&mut self, lobby: &str, subscribed: bool) {
        let rooms = lobby_snapshot(&[(ROOMS[0], &[("actor-2", "a")])]);
        let (lobby_id, presence) = (Text::Str(lobby), RawValue::parse(&rooms).expect("a map"));
        self.answer(&match subscribed {
            true => ServerFrame::LobbySubscribed { lobby_id, presence },
            false => ServerFrame::LobbyPresenceList { lobby_id, presence },
        });
    }

    /// What answers nothing that was asked.
    fn noise(&mut self, n: usize) {
        let (text, other) = (payload("x"), Text::Str("no/such/topic"));
        let error = ErrorFrame { error: "odd", ..ErrorFrame::default() };
        let none = None;
        let frame = match n {
            0 => return self.event(TransportEventKind::Message(Bytes::from_static(b"\xc1"))),
            1 => return self.event(TransportEventKind::Message(Bytes::from_static(b"\x81\xa4type"))),
            2 => return self.event(TransportEventKind::Message(Bytes::from_static(b"not a frame at all"))),
            3 => return self.event(TransportEventKind::Progress),
            4 => return self.presence("join", "actor-2", Some(text.raw())),
            5 => return self.presence("leave", "actor-3", None),
            6 => ServerFrame::Heartbeat,
            7 => ServerFrame::Unknown { frame_type: "frameOfTomorrow" },
            8 => ServerFrame::Error(error),
            9 => ServerFrame::Error(ErrorFrame {
                msg_ref: Some(Text::Str("fffffff")),
                topic: Some(other),
                ..error
            }),
            10 => ServerFrame::Error(ErrorFrame { topic: Some(other), ..error }),
            11 => ServerFrame::Error(ErrorFrame { lobby_id: Some(Text::Str("nobodys")), ..error }),
            12 => ServerFrame::Published { topic: other, msg_ref: Text::Str("zz") },
            13 => ServerFrame::Subscribed { topic: other, load_balance: true },
            14 => ServerFrame::Unsubscribed { topic: other },
            15 => ServerFrame::ReplayStart { count: 3, oldest_timestamp: none, newest_timestamp: none },
            16 => ServerFrame::LobbyPresence(LobbyEvent {
                event: "join",
                lobby_id: Some(Text::Str("id-1")),
                room_id: Some(Text::Str(ROOMS[1])),
                actor_id: Some("actor-2"),
                data: text.raw(),
            }),
            17 => ServerFrame::Message(message(TOPICS[0], text.raw())),
            n => panic!("there are {NOISES} noises, not {n}"),
        };
        self.answer(&frame);
    }

    // ---- the application ----

    fn accept<E: Debug>(&mut self, step: &Step, before: &str, result: Result<OpId, E>) {
        match result {
            Ok(op) => {
                assert!(!self.ops.contains(&op), "{op:?} is given out twice");
                self.ops.push(op);
                self.commands.insert(op, step.clone());
            }
            Err(_) => assert_eq!(format!("{:?}", self.core), before, "a refusal changes nothing"),
        }
        self.poll();
    }

    /// The same for a command that carries something, which a refusal gives back.
    fn accept_or_take_back<T: Debug + PartialEq>(
        &mut self,
        step: &Step,
        before: &str,
        given: &T,
        result: Result<OpId, Refused<T>>,
    ) {
        if let Err(refused) = &result {
            assert_eq!(&refused.value, given, "a refusal gives back what it was given");
        }
        self.accept(step, before, result);
    }

    pub(crate) fn take(&mut self, step: &Step) {
        let now = self.now;
        // Only what was refused is compared with it.
        let before = format!("{:?}", self.core);
        match *step {
            Step::Connect => {
                let result = self.core.connect(now);
                self.accept(step, &before, result);
            }
            Step::Disconnect => {
                let op = self.core.disconnect(now, Disconnect::Now);
                self.accept::<()>(step, &before, Ok(op));
            }
            Step::Drain => {
                let op = self.core.disconnect(now, Disconnect::Drain(PATIENCE));
                self.accept::<()>(step, &before, Ok(op));
            }
            Step::Subscribe { topic, filters, refresh } => {
                let mut subscribe = Subscribe::new(TOPICS[topic]);
                subscribe.options.filters = filter_list(&chosen(filters));
                subscribe.refresh = refresh;
                let result = self.core.subscribe(now, subscribe.clone());
                self.accept_or_take_back(step, &before, &subscribe, result);
            }
            Step::Unsubscribe(topic) => {
                let result = self.core.unsubscribe(now, TOPICS[topic]);
                self.accept(step, &before, result);
            }
            Step::Filters { topic, change, filters } => {
                let filters = filter_list(&chosen(filters));
                let topic = TOPICS[topic];
                let (given, result) = match change {
                    Change::Add => {
                        let result = self.core.add_filters(now, topic, filters.clone());
                        (nolag_core::FilterChange::Add(filters), result)
                    }
                    Change::Remove => {
                        let result = self.core.remove_filters(now, topic, filters.clone());
                        (nolag_core::FilterChange::Remove(filters), result)
                    }
                    Change::Set => {
                        let result = self.core.set_filters(now, topic, filters.clone());
                        (nolag_core::FilterChange::Set(filters), result)
                    }
                };
                self.accept_or_take_back(step, &before, &given, result);
            }
            Step::Publish { topic, tracked } => {
                let mut publish = Publish::new(TOPICS[topic], payload("hello"));
                publish.tracked = tracked;
                let result = self.core.publish(now, publish.clone());
                self.accept_or_take_back(step, &before, &publish, result);
            }
            Step::SetPresence(room) => {
                let data = payload("me");
                let result = self.core.set_presence(now, ROOMS[room], data.clone());
                self.accept_or_take_back(step, &before, &data, result);
            }
            Step::ClearPresence => {
                let result = self.core.clear_presence(now);
                self.accept(step, &before, result);
            }
            Step::FetchPresence(room) => {
                let result = self.core.fetch_presence(now, ROOMS[room]);
                self.accept(step, &before, result);
            }
            Step::LobbySubscribe(lobby) => {
                let result = self.core.lobby_subscribe(now, LOBBIES[lobby]);
                self.accept(step, &before, result);
            }
            Step::LobbyUnsubscribe(lobby) => {
                let result = self.core.lobby_unsubscribe(now, LOBBIES[lobby]);
                self.accept(step, &before, result);
            }
            Step::FetchLobby(lobby) => {
                let result = self.core.fetch_lobby(now, LOBBIES[lobby]);
                self.accept(step, &before, result);
            }
            Step::ProvideToken => {
                self.core.provide_token(now, TOKEN, None);
                self.poll();
            }
            Step::TokenUnavailable => {
                self.core.token_unavailable(now, "so");
                self.poll();
            }
            Step::Ack => {
                self.core.ack(now, "m1");
                self.poll();
            }
            Step::Opened => {
                // Once is enough for any transport.
                if matches!(self.pipe, Some(Pipe::Opening(_))) {
                    self.event(TransportEventKind::Opened);
                }
            }
            Step::Lost(cause) => self.event(match cause {
                Cause::Passing => {
                    TransportEventKind::Failed(TransportError::new(TransportErrorKind::Io, "broken"))
                }
                Cause::Crash => TransportEventKind::Closed { code: Some(1011), reason: String::new() },
                Cause::Expired => TransportEventKind::Closed { code: Some(4003), reason: "expired".into() },
                Cause::Revoked => TransportEventKind::Closed { code: Some(4001), reason: String::new() },
            }),
            Step::Stale(n) => {
                if self.left.is_empty() {
                    return;
                }
                let id = self.left[n % self.left.len()];
                let kind = match n % 4 {
                    0 => TransportEventKind::Opened,
                    1 => TransportEventKind::Closed { code: Some(4001), reason: String::new() },
                    2 => TransportEventKind::Failed(TransportError::new(TransportErrorKind::Io, "late")),
                    _ => TransportEventKind::Message(encode(&ServerFrame::Auth(AuthReply::default()))),
                };
                let stale = self.core.stats().stale_transport_events;
                self.core.handle_transport(now, TransportEvent { id, kind });
                assert_eq!(self.core.stats().stale_transport_events, stale + 1, "it is counted");
                self.poll();
            }
            Step::Accept => self.answer_auth(AuthReply {
                success: true,
                actor_token_id: Some(ACTOR),
                protocol_version: Some(2),
                ..AuthReply::default()
            }),
            Step::Deny(cause) => {
                let error =
                    Some(if cause == Cause::Passing { "broker_unavailable" } else { "access_denied" });
                self.answer_auth(AuthReply { error, ..AuthReply::default() });
            }
            Step::Serve { refuse } => self.serve(refuse),
            Step::Noise(n) => self.noise(n),
            Step::Pass(millis) => {
                self.serve(None);
                self.advance_to(now + Duration::from_millis(millis), true);
            }
            Step::Silence => {
                // No wake-up is later than the end of the patience with which the client waits now.
                let (told, until) = (self.trace.events.len(), now + secs(31));
                let is_end =
                    |event: &Event| matches!(event, Event::AttemptFailed { .. } | Event::Disconnected { .. });
                while !self.trace.events[told..].iter().any(is_end) {
                    let at = self.next_wake();
                    assert!(at <= until, "{}", self.core.explain());
                    self.now = self.now.max(at);
                    self.wake();
                }
            }
            Step::Await => {
                self.now = self.next_wake();
                self.wake();
            }
        }
    }
}
