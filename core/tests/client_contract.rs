//! The contract of the core, held against whatever applications, networks and brokers may do.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use nolag_core::{
    Action, ClientCore, Config, Disconnect, Event, Instant, OpId, OverflowPolicy, Publish, Status, Subscribe,
    TransportError, TransportErrorKind, TransportEvent, TransportEventKind, TransportId,
    wire::{AuthReply, ClientFrame, ErrorFrame, RawValue, ServerFrame, Text},
};
use proptest::{collection::vec, prelude::*, test_runner::Config as Cases};
use support::*;

const TOPICS: [&str; 4] = ["a/b/one", "a/b/two", "a/b/three", "a/+/four"];
const CODES: [Option<u16>; 8] =
    [None, Some(1000), Some(1006), Some(1009), Some(1011), Some(4001), Some(4002), Some(4003)];
const ERRORS: [(&str, Option<u32>); 5] = [
    ("unknown_topic", Some(42940)),
    ("rate_limit_exceeded", Some(42910)),
    ("invalid_filter", Some(42960)),
    ("not_authorized", None),
    ("not_authenticated", None),
];
const DENIALS: [&str; 4] = ["access_denied", "broker_unavailable", "connection_limit_reached", "odd"];

/// An id that no core here ever gives out.
static UNKNOWN: LazyLock<OpId> = LazyLock::new(|| {
    let mut core = ClientCore::new(config(), 0, Instant::ZERO).expect("a valid configuration");
    (0..10_000).map(|_| core.disconnect(Instant::ZERO, Disconnect::Now)).last().expect("an id")
});

/// One thing that an application, a network, a broker or time does. Numbers choose among what there is.
#[derive(Debug, Clone)]
enum Step {
    // The application.
    Connect,
    DisconnectNow,
    Drain(u64),
    Subscribe {
        topic: usize,
        filter: usize,
        refresh: bool,
    },
    Unsubscribe(usize),
    Publish {
        topic: usize,
        tracked: bool,
    },
    Abandon(usize),
    AbandonUnknown,
    Ack,
    // The network.
    Opened,
    Progress,
    Close(usize),
    Fail,
    Stale(usize),
    Bytes(Vec<u8>),
    // The broker. `usize` chooses a topic or one of the references seen.
    Accept {
        version: Option<u32>,
        restored: usize,
    },
    Deny(usize),
    Subscribed(usize),
    Unsubscribed(usize),
    Published(usize),
    Error {
        error: usize,
        topic: Option<usize>,
        msg_ref: Option<usize>,
    },
    Message {
        topic: usize,
        len: usize,
    },
    Heartbeat,
    /// Does what a broker would do with everything sent so far.
    Serve,
    // Time.
    Pass(u64),
    GoBack(u64),
    /// The adapter is busy and does not wake the core.
    Lag(u64),
    Due,
    // The adapter.
    Transmit(usize),
    Actions(usize),
    Events(usize),
    Messages(usize),
}

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    let n = 0..4_usize;
    prop_oneof![
        2 => Just(Connect),
        1 => Just(DisconnectNow),
        1 => (0..20_000_000_u64).prop_map(Drain),
        6 => (n.clone(), 0..3_usize, any::<bool>()).prop_map(|(topic, filter, refresh)| Subscribe { topic, filter, refresh }),
        3 => n.clone().prop_map(Unsubscribe),
        5 => (n.clone(), any::<bool>()).prop_map(|(topic, tracked)| Publish { topic, tracked }),
        3 => any::<usize>().prop_map(Abandon),
        1 => Just(AbandonUnknown),
        3 => Just(Ack),
        3 => Just(Opened),
        1 => Just(Progress),
        1 => any::<usize>().prop_map(Close),
        1 => Just(Fail),
        1 => any::<usize>().prop_map(Stale),
        1 => vec(any::<u8>(), 0..40).prop_map(Bytes),
        3 => (prop_oneof![Just(None), Just(Some(1)), Just(Some(2))], 0..16_usize)
            .prop_map(|(version, restored)| Accept { version, restored }),
        1 => any::<usize>().prop_map(Deny),
        4 => n.clone().prop_map(Subscribed),
        3 => n.clone().prop_map(Unsubscribed),
        3 => any::<usize>().prop_map(Published),
        3 => (any::<usize>(), proptest::option::of(n.clone()), proptest::option::of(any::<usize>()))
            .prop_map(|(error, topic, msg_ref)| Error { error, topic, msg_ref }),
        4 => (n, 0..3_000_usize).prop_map(|(topic, len)| Message { topic, len }),
        1 => Just(Heartbeat),
        6 => Just(Serve),
        4 => prop_oneof![0..1_000_u64, 0..1_000_000_u64, 0..100_000_000_u64].prop_map(Pass),
        1 => (0..100_000_000_u64).prop_map(GoBack),
        1 => (0..100_000_000_u64).prop_map(Lag),
        5 => Just(Due),
        5 => (1..6_usize).prop_map(Transmit),
        4 => (1..4_usize).prop_map(Actions),
        3 => (1..9_usize).prop_map(Events),
        2 => (1..9_usize).prop_map(Messages),
    ]
}

/// How carefully the adapter polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Polling {
    /// Only when a step says so.
    AsTold,
    /// Everything after every step.
    Dry,
    /// Everything after every step, several times, with spurious wake-ups in between.
    Spurious,
}

/// Drives a core by steps and checks what must always hold.
struct World {
    core: ClientCore,
    now: Instant,
    polling: Polling,
    transports: Vec<TransportId>,
    accepted: BTreeSet<OpId>,
    done: BTreeMap<OpId, String>,
    /// What was sent and not yet served.
    sent: Vec<Bytes>,
    refs: Vec<String>,
    /// Everything that came out, in order.
    trace: Vec<String>,
}

impl World {
    fn new(config: Config, seed: u64, polling: Polling) -> Self {
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
                _ => {}
            }
        }
    }

    fn take(&mut self, step: &Step) {
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
            Step::Publish { topic, tracked } => {
                let mut publish = Publish::new(pick(topic), payload("hello"));
                publish.tracked = *tracked;
                if let Ok(op) = self.core.publish(self.now, publish) {
                    self.accept(op);
                }
            }
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

    fn poll_dry(&mut self) {
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
    fn let_time_pass(&mut self, wake_ups: usize) {
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
    fn leave(&mut self) {
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
            "publishes: {}",
            "deadlines: []",
            "acks: []",
            "actions: []",
            "events: []",
            "unsolicited: 0",
            "by_id: {}",
            "by_topic: {}",
            "lagged: {}",
            "queue: []",
            "bytes: 0",
            "frames: 0",
            "liveness: None",
        ] {
            assert!(debug.contains(empty), "{empty:?} is not in {debug}");
        }
    }
}

fn describe_any(frame: &[u8]) -> String {
    if frame.is_empty() { "heartbeat".into() } else { describe(&decode(frame)) }
}

fn configuration(variant: u8) -> Config {
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
    })
}

/// Mostly a session that stands, because that is where most can happen.
fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let established = || {
        use Step::{Accept, Actions, Connect, Opened, Transmit};
        vec![Connect, Actions(1), Opened, Transmit(1), Accept { version: Some(2), restored: 0 }]
    };
    (proptest::bool::weighted(0.8), vec(step(), 1..most)).prop_map(move |(ready, random)| {
        let mut steps = if ready { established() } else { Vec::new() };
        steps.extend(random);
        steps
    })
}

fn cases(cases: u32) -> Cases {
    // Cases that failed are written down as tests with a name.
    Cases { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Cases::default() }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn every_accepted_command_ends_exactly_once_and_nothing_is_left(
        steps in steps(120), variant in 0..64_u8, dry in any::<bool>(), seed in any::<u64>(),
    ) {
        let polling = if dry { Polling::Dry } else { Polling::AsTold };
        let mut world = World::new(configuration(variant), seed, polling);
        steps.iter().for_each(|step| world.take(step));
        world.leave();
    }
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn waking_up_when_asked_makes_progress(
        steps in steps(60), variant in 0..64_u8, seed in any::<u64>(),
    ) {
        let mut world = World::new(configuration(variant), seed, Polling::Dry);
        steps.iter().for_each(|step| world.take(step));
        world.let_time_pass(300);
        world.leave();
    }

    #[test]
    fn the_same_seed_and_inputs_give_the_same_outputs(
        steps in steps(80), variant in 0..64_u8, seed in any::<u64>(), dry in any::<bool>(),
    ) {
        let run = || {
            let polling = if dry { Polling::Dry } else { Polling::AsTold };
            let mut world = World::new(configuration(variant), seed, polling);
            steps.iter().for_each(|step| world.take(step));
            world.leave();
            (world.trace, format!("{:?}", world.core))
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn spurious_wake_ups_and_repeated_polls_change_nothing(
        steps in steps(80), variant in 0..64_u8, seed in any::<u64>(),
    ) {
        let run = |polling| {
            let mut world = World::new(configuration(variant), seed, polling);
            steps.iter().for_each(|step| world.take(step));
            world.leave();
            world.trace
        };
        prop_assert_eq!(run(Polling::Dry), run(Polling::Spurious));
    }

    #[test]
    fn any_bytes_at_any_time_are_survived(
        messages in vec(vec(any::<u8>(), 0..60), 1..20), stage in 0..4_usize,
    ) {
        let mut peer = Peer::new(config());
        let stages: [fn(&mut Peer); 4] =
            [|peer| { peer.connect(); }, Peer::open, Peer::accept, |peer| { peer.subscribe(TOPIC); }];
        stages[..=stage].iter().for_each(|stage| stage(&mut peer));
        for bytes in messages {
            peer.bytes(bytes);
        }
        peer.disconnect_now();
        prop_assert_eq!(peer.core.poll_timeout(), None);
    }

    #[test]
    fn damaged_frames_are_survived(
        topic in 0..4_usize, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let mut peer = Peer::default_connected();
        for topic in TOPICS {
            peer.subscribe(topic);
        }
        let topic = Text::Str(TOPICS[topic]);
        let payload = payload("hello");
        let error = ErrorFrame { error: "unknown_topic", topic: Some(topic), ..ErrorFrame::default() };
        for frame in [
            ServerFrame::Subscribed { topic, load_balance: false },
            ServerFrame::Message(message(TOPIC, payload.raw())),
            ServerFrame::Error(error),
            ServerFrame::Published { topic, msg_ref: Text::Str("1") },
        ] {
            let mut bytes = encode(&frame).to_vec();
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            peer.bytes(bytes);
        }
        peer.disconnect_now();
        prop_assert_eq!(peer.core.poll_timeout(), None);
    }
}

/// A broker that answers all and a network that holds: what is accepted succeeds.
#[test]
fn with_a_good_broker_everything_succeeds_in_order() {
    let mut world = World::new(config(), 1, Polling::Dry);
    world.take(&Step::Connect);
    world.take(&Step::Opened);
    world.take(&Step::Serve);
    for n in 0..200 {
        world.take(&Step::Subscribe { topic: n, filter: n % 3, refresh: n % 5 == 0 });
        world.take(&Step::Publish { topic: n % 3, tracked: true });
        world.take(&Step::Unsubscribe(n + 1));
        if n % 7 == 0 {
            world.take(&Step::Serve);
        }
    }
    world.take(&Step::Serve);
    assert_eq!(world.done.len(), world.accepted.len());
    for (op, outcome) in &world.done {
        let good = ["Acked", "Connected", "Subscribed", "Unsubscribed"];
        assert!(good.iter().any(|word| outcome.contains(word)), "{op:?}: {outcome}");
    }
    assert_eq!(world.core.stats().frames_unexpected, 0);
    world.leave();
}

#[test]
fn an_adapter_that_polls_nothing_for_long_loses_no_outcome() {
    let mut world = World::new(config(), 1, Polling::AsTold);
    for step in [Step::Connect, Step::Actions(1), Step::Opened, Step::Transmit(1), Step::Serve] {
        world.take(&step);
    }
    for n in 0..2_000 {
        world.take(&Step::Publish { topic: n % 3, tracked: true });
        world.take(&Step::Transmit(1));
    }
    world.take(&Step::Serve);
    world.leave();
    assert_eq!(world.done.values().filter(|outcome| outcome.contains("Acked")).count(), 2_000);
}

#[test]
fn commands_give_back_what_they_refuse() {
    let mut core = ClientCore::new(config(), 1, Instant::ZERO).expect("a valid configuration");
    let subscribe = Subscribe::new("not a topic");
    assert_eq!(core.subscribe(Instant::ZERO, subscribe.clone()).unwrap_err().value, subscribe);
    let publish = Publish::new("not a topic", payload("x"));
    assert_eq!(core.publish(Instant::ZERO, publish.clone()).unwrap_err().value, publish);
    assert_eq!(core.poll_event(), None, "and are not heard of again");
}

#[test]
fn the_token_shows_nowhere() {
    let mut peer = Peer::new(config());
    let hidden = |peer: &Peer| {
        for text in [format!("{:?}", peer.core), format!("{:#?}", peer.core), peer.core.explain()] {
            assert!(!text.contains("tokenthatmustnotleak"), "{text}");
        }
    };
    assert!(!format!("{:?}", peer.core.config()).contains("tokenthatmustnotleak"));
    hidden(&peer);
    peer.blocked = true;
    peer.connect();
    peer.open();
    hidden(&peer);
    peer.blocked = false;
    peer.pump();
    hidden(&peer);
    peer.deny("access_denied");
    hidden(&peer);
    assert!(!format!("{:?}", peer.events()).contains("tokenthatmustnotleak"));
}

#[test]
fn queued_payloads_do_not_show_in_debug() {
    let mut peer = Peer::default_connected();
    peer.blocked = true;
    peer.publish_as(TOPIC, |publish| publish.payload = payload("confidential"));
    assert!(!format!("{:?}", peer.core).contains("confidential"));
}
