//! A driver of one core that does anything in any order and checks what must always hold.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use nolag_core::{
    Action, ClientCore, Config, Disconnect, Event, Instant, OfflinePolicy, OpId, OverflowPolicy, Publish,
    ResendPolicy, Status, Subscribe, TokenSource, TransportError, TransportErrorKind, TransportEvent,
    TransportEventKind, TransportId,
    wire::{AuthReply, ClientFrame, ErrorFrame, RawValue, ServerFrame, Text},
};

use crate::{
    steps::Step,
    support::{self, *},
};

pub(crate) const TOPICS: [&str; 4] = ["a/b/one", "a/b/two", "a/b/three", "a/+/four"];
const CODES: [Option<u16>; 8] =
    [None, Some(1000), Some(1006), Some(1009), Some(1011), Some(4001), Some(4002), Some(4003)];
const ERRORS: [(&str, Option<u32>); 5] = [
    ("unknown_topic", Some(42940)),
    ("rate_limit_exceeded", Some(42910)),
    ("invalid_filter", Some(42960)),
    ("not_authorized", None),
    ("not_authenticated", None),
];
const ROOMS: [&str; 4] = ["general", "storage", "gate", UNKNOWN_ROOM];
/// About this room the broker is silent.
const UNKNOWN_ROOM: &str = "nowhere";
const LOBBIES: [&str; 4] = ["operations", "visitors", "night", "denied"];
const ACTORS: [&str; 3] = [ACTOR, "actor-2", "actor-3"];
const EVENTS: [&str; 5] = ["join", "update", "leave", "waking", "teleport"];
const TEXTS: [&str; 4] = ["", "a", "b", "a"];
const FILTERS: [&str; 3] = ["x", "y", "z"];
const DENIALS: [&str; 4] = ["access_denied", "broker_unavailable", "connection_limit_reached", "odd"];

/// An id that no core here ever gives out.
static UNKNOWN: LazyLock<OpId> = LazyLock::new(|| {
    let mut core = ClientCore::new(config(), 0, Instant::ZERO).expect("a valid configuration");
    (0..10_000).map(|_| core.disconnect(Instant::ZERO, Disconnect::Now)).last().expect("an id")
});

/// How many configurations there are.
pub(crate) const VARIANTS: u16 = 1 << 11;

/// How carefully the adapter polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Polling {
    /// Only when a step says so.
    AsTold,
    /// Everything after every step.
    Dry,
    /// Everything after every step, several times, with spurious wake-ups in between.
    Spurious,
}

/// Drives a core by steps and checks what must always hold.
pub(crate) struct World {
    pub(crate) core: ClientCore,
    now: Instant,
    polling: Polling,
    transports: Vec<TransportId>,
    pub(crate) accepted: BTreeSet<OpId>,
    pub(crate) done: BTreeMap<OpId, String>,
    /// What was sent and not yet served.
    sent: Vec<Bytes>,
    refs: Vec<String>,
    /// Where the broker has us present, and the lobbies that it has warmed up.
    room: Option<String>,
    warm: BTreeSet<String>,
    /// Everything that came out, in order.
    pub(crate) trace: Vec<String>,
}

impl World {
    pub(crate) fn new(config: Config, seed: u64, polling: Polling) -> Self {
        let now = Instant::from_micros(5_000_000);
        Self {
            core: ClientCore::new(config, seed, now).expect("a valid configuration"),
            now,
            polling,
            transports: Vec::new(),
            accepted: BTreeSet::new(),
            done: BTreeMap::new(),
            sent: Vec::new(),
            refs: Vec::new(),
            room: None,
            warm: BTreeSet::new(),
            trace: Vec::new(),
        }
    }

    fn accept(&mut self, op: OpId) {
        assert!(self.accepted.insert(op), "{op:?} was given out twice");
    }

    fn event(&mut self, kind: TransportEventKind) {
        if let Some(id) = self.transports.last().copied() {
            self.core.handle_transport(self.now, TransportEvent { id, kind });
        }
    }

    fn answer(&mut self, frame: &ServerFrame<'_>) {
        self.event(TransportEventKind::Message(encode(frame)));
    }

    fn answer_auth(&mut self, version: Option<u32>, restored: usize) {
        let topics: Vec<_> = TOPICS.iter().enumerate().filter(|(n, _)| restored & (1 << n) != 0).collect();
        let entries: Vec<Vec<_>> =
            topics.iter().map(|(_, topic)| vec![("topic", Field::Text(topic))]).collect();
        let entries: Vec<&[_]> = entries.iter().map(Vec::as_slice).collect();
        let list = support::restored(&entries);
        self.answer(&ServerFrame::Auth(AuthReply {
            success: true,
            actor_token_id: Some(ACTOR),
            protocol_version: version,
            restored_subscriptions: Some(RawValue::parse(&list).expect("a list")),
            ..AuthReply::default()
        }));
    }

    fn serve(&mut self) {
        for frame in std::mem::take(&mut self.sent) {
            match decode(&frame) {
                ClientFrame::Auth(_) => self.answer_auth(Some(2), 0),
                ClientFrame::Subscribe(subscribe) => {
                    let topic = Text::Str(subscribe.topic);
                    self.answer(&ServerFrame::Subscribed { topic, load_balance: false });
                }
                ClientFrame::Unsubscribe { topic } => {
                    self.answer(&ServerFrame::Unsubscribed { topic: Text::Str(topic) });
                }
                ClientFrame::Publish(publish) => {
                    if let Some(msg_ref) = publish.msg_ref {
                        let (topic, msg_ref) = (Text::Str(publish.topic), Text::Str(msg_ref));
                        self.answer(&ServerFrame::Published { topic, msg_ref });
                    }
                }
                ClientFrame::Heartbeat => self.answer(&ServerFrame::Heartbeat),
                ClientFrame::Reauth { .. } => self.answer_reauth(true),
                ClientFrame::SetFilters { topic, .. } => self.answer_filters(topic),
                ClientFrame::Presence { room_id: Some(room), data } if room != UNKNOWN_ROOM => {
                    if self.room.as_deref() != Some(room) {
                        if self.room.is_some() {
                            self.answer_presence("leave", ACTOR, RawValue::NIL);
                        }
                        self.answer_presence("join", ACTOR, data);
                    }
                    self.room = Some(room.to_owned());
                    self.answer_presence("update", ACTOR, data);
                }
                ClientFrame::GetPresence { room_id: Some(room) } => {
                    let there = self.room.as_deref() == Some(room);
                    let listed = [online(ACTOR, "a"), online(ACTORS[1], "a")];
                    self.answer_presence_list(room, &listed[usize::from(!there)..]);
                }
                ClientFrame::LobbySubscribe { lobby_id } | ClientFrame::GetLobbyPresence { lobby_id }
                    if lobby_id == LOBBIES[3] =>
                {
                    self.deny_lobby(lobby_id);
                }
                ClientFrame::LobbySubscribe { lobby_id } => {
                    let cold = self.warm.insert(lobby_id.to_owned());
                    self.answer_lobby(lobby_id, if cold { 0 } else { 3 }, true);
                }
                ClientFrame::GetLobbyPresence { lobby_id } => self.answer_lobby(lobby_id, 3, false),
                ClientFrame::LobbyUnsubscribe { lobby_id } => {
                    self.answer(&ServerFrame::LobbyUnsubscribed { lobby_id: Text::Str(lobby_id) });
                }
                _ => {}
            }
        }
    }

    fn answer_reauth(&mut self, success: bool) {
        let error = (!success).then_some("actor_mismatch");
        self.answer(&ServerFrame::Reauth { success, error, auth_expires_at: None });
    }

    fn answer_filters(&mut self, topic: &str) {
        let filters = RawValue::EMPTY_LIST;
        self.answer(&ServerFrame::FiltersUpdated { topic: Text::Str(topic), filters });
    }

    fn answer_presence(&mut self, event: &str, actor: &str, presence: RawValue<'_>) {
        self.answer(&ServerFrame::Presence(nolag_core::wire::PresenceEvent {
            event,
            actor_token_id: Some(actor),
            presence: Some(presence).filter(|_| event != "leave"),
            status: None,
            capabilities: None,
            advertisement_version: None,
        }));
    }

    fn answer_presence_list(&mut self, room: &str, members: &[Listed<'_>]) {
        let list = presence_list(members);
        let data = RawValue::parse(&list).expect("a list");
        self.answer(&ServerFrame::PresenceList { room_id: Some(Text::Str(room)), data });
    }

    fn answer_lobby(&mut self, lobby: &str, rooms: usize, subscribed: bool) {
        let members = &[(ACTORS[1], "a")][..];
        let rooms: Vec<_> = (0..4).filter(|n| rooms & (1 << n) != 0).map(|n| (ROOMS[n], members)).collect();
        let snapshot = lobby_snapshot(&rooms);
        let presence = RawValue::parse(&snapshot).expect("a map");
        let lobby_id = Text::Str(lobby);
        self.answer(&match subscribed {
            true => ServerFrame::LobbySubscribed { lobby_id, presence },
            false => ServerFrame::LobbyPresenceList { lobby_id, presence },
        });
    }

    fn deny_lobby(&mut self, lobby: &str) {
        let lobby_id = Some(Text::Str(lobby));
        let error = "not_authorized";
        self.answer(&ServerFrame::Error(ErrorFrame { error, lobby_id, ..ErrorFrame::default() }));
    }

    fn accept_if(&mut self, op: Option<OpId>) {
        if let Some(op) = op {
            self.accept(op);
        }
    }

    pub(crate) fn take(&mut self, step: &Step) {
        let pick = |n: &usize| TOPICS[n % TOPICS.len()];
        match step {
            Step::Connect => {
                if let Ok(op) = self.core.connect(self.now) {
                    self.accept(op);
                }
            }
            Step::DisconnectNow => {
                let op = self.core.disconnect(self.now, Disconnect::Now);
                self.accept(op);
            }
            Step::Drain(micros) => {
                let patience = Duration::from_micros(*micros);
                let op = self.core.disconnect(self.now, Disconnect::Drain(patience));
                self.accept(op);
            }
            Step::Subscribe { topic, filter, refresh } => {
                let mut subscribe = Subscribe::new(pick(topic));
                subscribe.options.filters = filter_list(&["x", "y"][..*filter]);
                subscribe.refresh = *refresh;
                if let Ok(op) = self.core.subscribe(self.now, subscribe) {
                    self.accept(op);
                }
            }
            Step::Unsubscribe(topic) => {
                if let Ok(op) = self.core.unsubscribe(self.now, pick(topic)) {
                    self.accept(op);
                }
            }
            Step::ChangeFilters { topic, how, filters } => {
                let chosen = FILTERS.iter().enumerate().filter(|(n, _)| filters & (1 << n) != 0);
                let chosen = filter_list(&chosen.map(|(_, filter)| *filter).collect::<Vec<_>>());
                let change = match how {
                    0 => self.core.add_filters(self.now, pick(topic), chosen),
                    1 => self.core.remove_filters(self.now, pick(topic), chosen),
                    _ => self.core.set_filters(self.now, pick(topic), chosen),
                };
                self.accept_if(change.ok());
            }
            Step::SetPresence { room, text } => {
                let set = self.core.set_presence(self.now, ROOMS[*room], payload(TEXTS[*text]));
                self.accept_if(set.ok());
            }
            Step::SetPresenceNowhere => {
                #[expect(deprecated, reason = "it is there, so it must hold the contract")]
                let set = self.core.set_presence_without_room(self.now, payload("x"));
                self.accept_if(set.ok());
            }
            Step::ClearPresence => {
                let cleared = self.core.clear_presence(self.now);
                self.accept_if(cleared.ok());
            }
            Step::FetchPresence(room) => {
                let fetched = self.core.fetch_presence(self.now, ROOMS[*room]);
                self.accept_if(fetched.ok());
            }
            Step::LobbySubscribe(lobby) => {
                let subscribed = self.core.lobby_subscribe(self.now, LOBBIES[*lobby]);
                self.accept_if(subscribed.ok());
            }
            Step::LobbyUnsubscribe(lobby) => {
                let unsubscribed = self.core.lobby_unsubscribe(self.now, LOBBIES[*lobby]);
                self.accept_if(unsubscribed.ok());
            }
            Step::FetchLobby(lobby) => {
                let fetched = self.core.fetch_lobby(self.now, LOBBIES[*lobby]);
                self.accept_if(fetched.ok());
            }
            Step::Publish { topic, tracked } => {
                let mut publish = Publish::new(pick(topic), payload("hello"));
                publish.tracked = *tracked;
                if let Ok(op) = self.core.publish(self.now, publish) {
                    self.accept(op);
                }
            }
            Step::PublishWithin(micros) => {
                let mut publish = Publish::new(TOPICS[0], payload("hello"));
                publish.expires_in = Some(Duration::from_micros(*micros));
                let published = self.core.publish(self.now, publish);
                self.accept_if(published.ok());
            }
            Step::ProvideToken(valid_for) => {
                self.core.provide_token(self.now, TOKEN, valid_for.map(Duration::from_secs));
            }
            Step::TokenUnavailable => self.core.token_unavailable(self.now, "so"),
            Step::Abandon(n) => {
                if let Some(op) = self.accepted.iter().rev().nth(n % 8).copied() {
                    self.core.abandon(self.now, op);
                }
            }
            Step::AbandonUnknown => self.core.abandon(self.now, *UNKNOWN),
            Step::Ack => self.core.ack(self.now, "m1"),
            Step::Opened => self.event(TransportEventKind::Opened),
            Step::Progress => self.event(TransportEventKind::Progress),
            Step::Close(n) => {
                let code = CODES[n % CODES.len()];
                self.event(TransportEventKind::Closed { code, reason: "so".into() });
            }
            Step::Fail => {
                let error = TransportError::new(TransportErrorKind::Io, "broken");
                self.event(TransportEventKind::Failed(error));
            }
            Step::Stale(n) => {
                let earlier = self.transports.len().saturating_sub(1);
                if let Some(id) = self.transports[..earlier].get(n % earlier.max(1)).copied() {
                    let kind = TransportEventKind::Closed { code: Some(4001), reason: String::new() };
                    self.core.handle_transport(self.now, TransportEvent { id, kind });
                }
            }
            Step::Bytes(bytes) => self.event(TransportEventKind::Message(bytes.clone().into())),
            Step::Accept { version, restored } => self.answer_auth(*version, *restored),
            Step::Deny(n) => {
                let error = Some(DENIALS[n % DENIALS.len()]);
                self.answer(&ServerFrame::Auth(AuthReply { error, ..AuthReply::default() }));
            }
            Step::Subscribed(n) => {
                self.answer(&ServerFrame::Subscribed { topic: Text::Str(pick(n)), load_balance: true });
            }
            Step::Unsubscribed(n) => self.answer(&ServerFrame::Unsubscribed { topic: Text::Str(pick(n)) }),
            Step::Published(n) => {
                let msg_ref = self.reference(*n);
                self.answer(&ServerFrame::Published { topic: Text::Str("t"), msg_ref: Text::Str(&msg_ref) });
            }
            Step::Error { error, topic, msg_ref } => {
                let (error, code) = ERRORS[error % ERRORS.len()];
                let msg_ref = msg_ref.map(|n| self.reference(n));
                self.answer(&ServerFrame::Error(ErrorFrame {
                    error,
                    code,
                    topic: topic.as_ref().map(|n| Text::Str(pick(n))),
                    msg_ref: msg_ref.as_deref().map(Text::Str),
                    ..ErrorFrame::default()
                }));
            }
            Step::Message { topic, len } => {
                let payload = payload(&"x".repeat(*len));
                self.answer(&ServerFrame::Message(message(pick(topic), payload.raw())));
            }
            Step::Recorded { topic, msg_id, is_replay } => {
                let (payload, msg_id) = (payload("x"), format!("m{msg_id}"));
                self.answer(&ServerFrame::Message(nolag_core::wire::Message {
                    msg_id: Some(&msg_id),
                    is_replay: *is_replay,
                    ..message(pick(topic), payload.raw())
                }));
            }
            Step::FiltersUpdated(n) => self.answer_filters(pick(n)),
            Step::PresenceEvent { event, actor, text } => {
                self.answer_presence(EVENTS[*event], ACTORS[*actor], payload(TEXTS[*text]).raw());
            }
            Step::PresenceList { room, members } => {
                let listed: Vec<_> = (0..6)
                    .filter(|n| members & (1 << n) != 0)
                    .map(|n| if n < 5 { online(ACTORS[n % 3], "a") } else { offline(ACTORS[1], "b") })
                    .collect();
                self.answer_presence_list(ROOMS[*room], &listed);
            }
            Step::LobbySubscribed { lobby, rooms } => self.answer_lobby(LOBBIES[*lobby], *rooms, true),
            Step::LobbyList { lobby, rooms } => self.answer_lobby(LOBBIES[*lobby], *rooms, false),
            Step::LobbyUnsubscribed(n) => {
                self.answer(&ServerFrame::LobbyUnsubscribed { lobby_id: Text::Str(LOBBIES[*n]) });
            }
            Step::LobbyEvent { event, lobby, room, actor } => {
                let ids = [LOBBIES[0], LOBBIES[1], LOBBIES[2], LOBBIES[3], "id-1", "id-2"];
                let payload = payload("x");
                self.answer(&ServerFrame::LobbyPresence(nolag_core::wire::LobbyEvent {
                    event: EVENTS[*event],
                    lobby_id: Some(Text::Str(ids[*lobby])),
                    room_id: Some(Text::Str(ROOMS[*room])),
                    actor_id: Some(ACTORS[*actor]),
                    data: payload.raw(),
                }));
            }
            Step::LobbyError(n) => self.deny_lobby(LOBBIES[*n]),
            Step::ReplayStart(count) => {
                let (count, none) = (*count, None);
                let frame =
                    ServerFrame::ReplayStart { count, oldest_timestamp: none, newest_timestamp: none };
                self.answer(&frame);
            }
            Step::ReplayEnd(replayed) => self.answer(&ServerFrame::ReplayEnd { replayed: *replayed }),
            Step::Hydration(n) => {
                let payload = payload("x");
                self.answer(&ServerFrame::Hydration { topic: Text::Str(pick(n)), data: payload.raw() });
            }
            Step::Goodbye => self.answer(&ServerFrame::Disconnect { reason: Some("token_expired") }),
            Step::Reauth(success) => self.answer_reauth(*success),
            Step::Heartbeat => self.answer(&ServerFrame::Heartbeat),
            Step::Serve => self.serve(),
            Step::Pass(micros) => {
                self.now = self.now + Duration::from_micros(*micros);
                self.core.handle_timeout(self.now);
            }
            Step::GoBack(micros) => {
                self.core.handle_timeout(Instant::from_micros(self.now.as_micros().saturating_sub(*micros)));
            }
            Step::Lag(micros) => {
                self.now = self.now + Duration::from_micros(*micros);
                self.poll_transmit();
            }
            Step::Due => {
                if let Some(at) = self.core.poll_timeout() {
                    self.now = self.now.max(at);
                    self.core.handle_timeout(self.now);
                }
            }
            Step::Transmit(n) => (0..*n).for_each(|_| _ = self.poll_transmit()),
            Step::Actions(n) => (0..*n).for_each(|_| _ = self.poll_action()),
            Step::Events(n) => (0..*n).for_each(|_| _ = self.poll_event()),
            Step::Messages(n) => (0..*n).for_each(|_| _ = self.poll_message()),
        }
        match self.polling {
            Polling::AsTold => {}
            Polling::Dry => self.poll_dry(),
            Polling::Spurious => {
                self.poll_dry();
                for _ in 0..3 {
                    let _ = (self.core.poll_timeout(), self.core.wants_input(), self.core.explain());
                    // A wake-up before anything is due.
                    if self.core.poll_timeout().is_none_or(|at| at > self.now) {
                        self.core.handle_timeout(self.now);
                        self.core.handle_timeout(Instant::ZERO);
                    }
                    self.poll_dry();
                }
            }
        }
        self.check();
    }

    fn reference(&self, n: usize) -> String {
        match self.refs.len() {
            0 => format!("{n:x}"),
            len => self.refs[len - 1 - n % len.min(6)].clone(),
        }
    }

    fn poll_transmit(&mut self) -> Option<()> {
        let mut out = BytesMut::new();
        let transmit = self.core.poll_transmit(self.now, &mut out)?;
        assert_eq!(transmit.len, out.len());
        assert_eq!(Some(&transmit.transport), self.transports.last(), "a transport not opened last");
        let frame = out.freeze();
        self.trace.push(format!("{} {}", self.now.as_micros(), describe_any(&frame)));
        if let Ok(ClientFrame::Publish(publish)) = ClientFrame::decode(&frame) {
            self.refs.extend(publish.msg_ref.map(String::from));
        }
        self.sent.push(frame);
        Some(())
    }

    fn poll_action(&mut self) -> Option<()> {
        let action = self.core.poll_action()?;
        self.trace.push(format!("{} {action:?}", self.now.as_micros()));
        if let Action::OpenTransport { id } = action {
            assert!(!self.transports.contains(&id), "a transport opened twice");
            self.transports.push(id);
            self.sent.clear();
            self.room = None;
        }
        Some(())
    }

    fn poll_event(&mut self) -> Option<()> {
        let event = self.core.poll_event()?;
        let text = format!("{event:?}");
        assert!(!text.contains("tokenthatmustnotleak"));
        if let Event::Done { op, .. } = event {
            assert!(self.accepted.contains(&op), "{op:?} was never accepted: {text}");
            let before = self.done.insert(op, text.clone());
            assert_eq!(before, None, "{text}");
        }
        self.trace.push(text);
        Some(())
    }

    fn poll_message(&mut self) -> Option<()> {
        let message = self.core.poll_message()?;
        self.trace.push(format!("{message:?}"));
        Some(())
    }

    pub(crate) fn poll_dry(&mut self) {
        while self.poll_action().is_some() {}
        while self.poll_transmit().is_some() {}
        while self.poll_action().is_some() {}
        while self.poll_event().is_some() {}
        while self.poll_message().is_some() {}
        assert!(self.core.poll_action().is_none() && self.core.poll_event().is_none());
    }

    /// What holds after every step.
    fn check(&mut self) {
        if let Some(at) = self.core.poll_timeout() {
            assert!(at >= self.now, "{at:?} is past: {}", self.core.explain());
            assert_ne!(self.core.status(), Status::Disconnected, "wakes up for nothing");
        }
        let explained = self.core.explain();
        assert!(!explained.contains("tokenthatmustnotleak"), "{explained}");
        if self.core.status() == Status::Connecting {
            let debug = format!("{:?}", self.core);
            assert!(!debug.contains("tokenthatmustnotleak"), "{debug}");
        }
    }

    /// Wakes the core whenever it wants, with nobody at the other end.
    pub(crate) fn let_time_pass(&mut self, wake_ups: usize) {
        let mut at_this_instant = 0;
        for _ in 0..wake_ups {
            let Some(at) = self.core.poll_timeout() else { break };
            at_this_instant = if at <= self.now { at_this_instant + 1 } else { 0 };
            assert!(at_this_instant < 20, "no progress at {:?}: {}", self.now, self.core.explain());
            self.now = self.now.max(at);
            self.core.handle_timeout(self.now);
            self.poll_dry();
        }
    }

    /// Leaves, and checks that nothing is left.
    pub(crate) fn leave(&mut self) {
        let op = self.core.disconnect(self.now, Disconnect::Now);
        self.accept(op);
        self.poll_dry();
        assert_eq!(self.core.poll_timeout(), None, "{}", self.core.explain());
        assert_eq!(self.core.status(), Status::Disconnected);
        assert_eq!(self.core.subscriptions().count(), 0);
        let open: Vec<_> = self.accepted.iter().filter(|op| !self.done.contains_key(op)).collect();
        assert!(open.is_empty(), "without an outcome: {open:?}");
        assert_eq!(self.done.len(), self.accepted.len());
        let debug = format!("{:?}", self.core);
        assert!(!debug.contains("tokenthatmustnotleak"), "{debug}");
        for empty in [
            "ops: {}",
            "connecting: []",
            "disconnecting: []",
            "requests: []",
            "publishes: Publishes { pending: 0, waiting: 0, bytes: 0, in_flight: 0",
            "deadlines: []",
            "acks: []",
            "actions: []",
            "events: []",
            "unsolicited: 0",
            "by_id: {}",
            "by_topic: {}",
            "by_slug: {}",
            "members: {}",
            "wanted: None",
            "moving: None",
            "waiters: []",
            "unsolicited_bytes: 0",
            "lagged: {}",
            "queue: []",
            "bytes: 0",
            "frames: 0",
            "liveness: None",
            "restoring: None",
        ] {
            assert!(debug.contains(empty), "{empty:?} is not in {debug}");
        }
    }
}

fn describe_any(frame: &[u8]) -> String {
    if frame.is_empty() { "heartbeat".into() } else { describe(&decode(frame)) }
}

/// One of [`VARIANTS`] configurations.
pub(crate) fn configuration(variant: u16) -> Config {
    with(|config| {
        config.client_id = (variant & 1 != 0).then(|| "kiosk-7".into());
        config.retry_first_connect = variant & 2 != 0;
        config.reconnect.max_attempts = if variant & 4 != 0 { None } else { Some(2) };
        config.overflow =
            if variant & 8 != 0 { OverflowPolicy::DropNewest } else { OverflowPolicy::DropOldest };
        if variant & 16 != 0 {
            config.limits.max_pending = 6;
            config.limits.max_outbound_bytes = 300;
            config.limits.max_inbound_messages = 3;
            config.limits.max_inbound_bytes = 4_000;
        }
        if variant & 32 != 0 {
            config.acks.max_batch = 1;
            config.heartbeat_interval = None;
        }
        if variant & 64 != 0 {
            config.token = TokenSource::Provider;
        }
        if variant & 128 != 0 {
            let max_age = Some(Duration::from_secs(20));
            config.offline = OfflinePolicy::Queue { max_messages: 5, max_bytes: 10_000, max_age };
        }
        if variant & 256 != 0 {
            config.resend = ResendPolicy::AtLeastOnce;
        }
        config.publish_rate = [Some(50), None, Some(1), Some(2)][usize::from(variant >> 9)];
    })
}
