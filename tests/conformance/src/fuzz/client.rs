//! One client, told anything in any order.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use nolag_core::{
    Action, ClientCore, Config, Disconnect, Event, Instant, OfflinePolicy, OpId, OverflowPolicy,
    ResendPolicy, Status, TransportError, TransportErrorKind, TransportEvent, TransportEventKind,
    TransportId, wire::ClientFrame,
};

use super::{
    commands::{self, Command},
    frames,
    input::Input,
};

/// Steps of one script.
const MAX_STEPS: usize = 400;

/// Frames that repetition may add to one script.
const MAX_REPEATED: usize = 4096;

/// Reports that no command asked for and that are kept, as the front page of `nolag-core` has it.
const MAX_UNSOLICITED: usize = 1024;

/// Wake-ups that a script's end waits for.
const MAX_WAKE_UPS: usize = 200;

/// The token, which must show nowhere.
const TOKEN: &str = "token-that-must-not-show";

/// What a script can do, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A [`Command`] of the application.
    Command,
    Abandon,
    Ack,
    ProvideToken,
    TokenUnavailable,
    Opened,
    Progress,
    Closed,
    Failed,
    /// Something happens to an earlier transport.
    Stale,
    /// A message of any bytes.
    Bytes,
    /// A message of the small grammar in [`frames`].
    Frame,
    /// The last message again, several times.
    Again,
    /// The broker answers what was sent.
    Serve,
    Pass,
    GoBack,
    /// Until the client wants to wake up.
    Due,
    PollTransmit,
    PollAction,
    PollEvent,
    PollMessage,
    PollAll,
}

impl Step {
    const ALL: [Self; 22] = [
        Self::Command,
        Self::Abandon,
        Self::Ack,
        Self::ProvideToken,
        Self::TokenUnavailable,
        Self::Opened,
        Self::Progress,
        Self::Closed,
        Self::Failed,
        Self::Stale,
        Self::Bytes,
        Self::Frame,
        Self::Again,
        Self::Serve,
        Self::Pass,
        Self::GoBack,
        Self::Due,
        Self::PollTransmit,
        Self::PollAction,
        Self::PollEvent,
        Self::PollMessage,
        Self::PollAll,
    ];
}

/// Drives one client by a script: commands, what happens to its transports, frames of a small grammar and of any bytes,
/// time, also backwards, and polls, in any order.
///
/// The first two bytes choose the configuration and the third the seed; then each step is a byte and its arguments.
///
/// # Panics
/// When one of these does not hold:
///
/// * every accepted command has an id of its own and ends exactly once, and nothing else ends;
/// * a message leaves only on the transport that was opened last and is still open, and is a frame; the first is `auth`,
///   unless the broker spoke before that;
/// * commands, received messages and reports wait within their bounds;
/// * the client asks to be woken at no time that has passed, and waking it up leads somewhere;
/// * after leaving, every command has ended, nothing is subscribed and nothing is waited for;
/// * the token shows nowhere.
pub fn client_ops(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let config = configuration(&mut input);
    let mut driver = Driver::new(config, input.byte().into());
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        let step = input.pick(&Step::ALL);
        driver.take(step, &mut input);
        driver.check();
    }
    driver.let_time_pass();
    driver.leave();
}

fn configuration(input: &mut Input<'_>) -> Config {
    let (how, limits) = (input.byte(), input.byte());
    let on = |bit: u8| how >> bit & 1 == 1;
    let mut config = if on(0) { Config::with_token_provider() } else { Config::new(TOKEN) };
    config.client_id = on(1).then(|| "kiosk-7".into());
    config.retry_first_connect = on(2);
    config.reconnect.max_attempts = if on(3) { None } else { Some(2) };
    config.overflow = if on(4) { OverflowPolicy::DropNewest } else { OverflowPolicy::DropOldest };
    config.resend = if on(5) { ResendPolicy::AtLeastOnce } else { ResendPolicy::ReportUnknown };
    if on(6) {
        let max_age = on(7).then(|| Duration::from_secs(20));
        config.offline = OfflinePolicy::Queue { max_messages: 5, max_bytes: 10_000, max_age };
    }
    let on = |bit: u8| limits >> bit & 1 == 1;
    config.publish_rate = [Some(50), None, Some(1), Some(2)][usize::from(limits & 3)];
    if on(2) {
        config.limits.max_pending = 6;
        config.limits.max_outbound_bytes = 600;
    }
    if on(3) {
        config.limits.max_inbound_messages = 3;
        config.limits.max_inbound_bytes = 4_000;
    }
    if on(4) {
        config.heartbeat_interval = None;
    }
    if on(5) {
        config.acks.max_batch = 1;
    }
    if on(6) {
        config.acks.max_delay = Duration::ZERO;
        config.reconnect.first = Duration::ZERO;
        config.reconnect.interval = Duration::ZERO;
    }
    config.load_balance = on(7);
    config
}

struct Driver {
    core: ClientCore,
    now: Instant,
    /// Those that the client asked for; only the last can be open.
    transports: Vec<TransportId>,
    is_open: bool,
    closed: BTreeSet<TransportId>,
    /// Whether the current transport has carried `auth`, or a broker has spoken on it unasked.
    greeted: bool,
    /// What was sent and not served, oldest first.
    sent: Vec<Bytes>,
    refs: Vec<String>,
    accepted: BTreeSet<OpId>,
    /// Without an outcome, with whether they count against the bound.
    open: BTreeMap<OpId, bool>,
    last: Bytes,
    repeated: usize,
    unsolicited: usize,
}

impl Driver {
    fn new(config: Config, seed: u64) -> Self {
        let now = Instant::from_micros(5_000_000);
        Self {
            core: ClientCore::new(config, seed, now).expect("a valid configuration"),
            now,
            transports: Vec::new(),
            is_open: false,
            closed: BTreeSet::new(),
            greeted: false,
            sent: Vec::new(),
            refs: Vec::new(),
            accepted: BTreeSet::new(),
            open: BTreeMap::new(),
            last: Bytes::new(),
            repeated: 0,
            unsolicited: 0,
        }
    }

    fn take(&mut self, step: Step, input: &mut Input<'_>) {
        match step {
            Step::Command => self.command(input),
            Step::Abandon => {
                let back = input.below(8);
                if let Some(op) = self.accepted.iter().rev().nth(back).copied() {
                    self.core.abandon(self.now, op);
                }
            }
            Step::Ack => self.core.ack(self.now, input.pick(&frames::MSG_IDS)),
            Step::ProvideToken => {
                let valid_for = input.flag().then(|| input.span());
                self.core.provide_token(self.now, TOKEN, valid_for);
            }
            Step::TokenUnavailable => self.core.token_unavailable(self.now, "so"),
            Step::Opened => {
                self.is_open = self.transports.last().is_some_and(|last| !self.closed.contains(last));
                self.happens(TransportEventKind::Opened);
            }
            Step::Progress => self.happens(TransportEventKind::Progress),
            Step::Closed => {
                let code = input.pick(&frames::CLOSE_CODES);
                self.ends(TransportEventKind::Closed { code, reason: "so".into() });
            }
            Step::Failed => {
                let kind = input.pick(&[
                    TransportErrorKind::Connect,
                    TransportErrorKind::Io,
                    TransportErrorKind::Resolve,
                    TransportErrorKind::Tls,
                    TransportErrorKind::Timeout,
                ]);
                self.ends(TransportEventKind::Failed(TransportError::new(kind, "broken")));
            }
            Step::Stale => self.stale(input),
            Step::Bytes => self.message(Bytes::copy_from_slice(input.long_block())),
            Step::Frame => {
                let reference = self.reference(input.below(8));
                let frame = frames::any(input, &reference);
                self.message(frame);
            }
            Step::Again => {
                for _ in 0..1_usize << input.below(13) {
                    self.repeated += 1;
                    if self.repeated > MAX_REPEATED {
                        break;
                    }
                    self.message(self.last.clone());
                }
            }
            Step::Serve => {
                for frame in std::mem::take(&mut self.sent) {
                    frames::answers(&frame).into_iter().for_each(|answer| self.message(answer));
                }
            }
            Step::Pass => {
                self.now = self.now + input.span();
                self.core.handle_timeout(self.now);
            }
            Step::GoBack => {
                let before = self.now - input.span();
                self.core.handle_timeout(before);
                let _ = self.core.poll_timeout();
            }
            Step::Due => _ = self.wake_up(),
            Step::PollTransmit => (0..=input.below(8)).for_each(|_| _ = self.poll_transmit()),
            Step::PollAction => _ = self.poll_action(),
            Step::PollEvent => (0..=input.below(8)).for_each(|_| _ = self.poll_event()),
            Step::PollMessage => (0..=input.below(8)).for_each(|_| _ = self.core.poll_message()),
            Step::PollAll => self.poll_all(),
        }
    }

    fn command(&mut self, input: &mut Input<'_>) {
        let command = commands::any(input);
        let counts = !matches!(command, Command::Connect | Command::Disconnect(_));
        if let Ok(op) = commands::give(&mut self.core, self.now, command) {
            self.accept(op, counts);
        }
    }

    fn accept(&mut self, op: OpId, counts: bool) {
        assert!(self.accepted.insert(op), "{op:?} was given out twice");
        self.open.insert(op, counts);
    }

    fn happens(&mut self, kind: TransportEventKind) {
        if let Some(id) = self.transports.last().copied() {
            self.core.handle_transport(self.now, TransportEvent { id, kind });
        }
    }

    fn ends(&mut self, kind: TransportEventKind) {
        self.is_open = false;
        self.happens(kind);
    }

    fn stale(&mut self, input: &mut Input<'_>) {
        let kind = match input.below(3) {
            0 => TransportEventKind::Opened,
            1 => TransportEventKind::Closed { code: Some(4001), reason: String::new() },
            _ => TransportEventKind::Message(self.last.clone()),
        };
        let earlier = self.transports.len().saturating_sub(1);
        if let Some(id) = self.transports[..earlier].get(input.below(earlier.max(1))).copied() {
            let before = self.core.stats().stale_transport_events;
            self.core.handle_transport(self.now, TransportEvent { id, kind });
            assert_eq!(self.core.stats().stale_transport_events, before + 1);
        }
    }

    fn message(&mut self, frame: Bytes) {
        self.last = frame.clone();
        self.happens(TransportEventKind::Message(frame));
    }

    /// A `msgRef` that was sent, the last one first.
    fn reference(&self, back: usize) -> String {
        let sent = self.refs.len().checked_sub(back + 1).map(|at| self.refs[at].clone());
        sent.unwrap_or_else(|| format!("{back:x}"))
    }

    fn poll_transmit(&mut self) -> Option<()> {
        let mut out = BytesMut::from(&b"before"[..]);
        let transmit = self.core.poll_transmit(self.now, &mut out)?;
        assert_eq!(out.len(), b"before".len() + transmit.len);
        assert!(out.starts_with(b"before"), "what was there is gone");
        assert!(self.is_open, "sent on a transport that is not open");
        assert_eq!(Some(&transmit.transport), self.transports.last(), "sent on an earlier transport");
        assert!(!self.closed.contains(&transmit.transport), "sent on a transport that was closed");
        let frame = out.split_off(b"before".len()).freeze();
        let decoded = ClientFrame::decode(&frame).expect("what is sent is a frame");
        assert!(self.greeted || matches!(decoded, ClientFrame::Auth(_)), "{decoded:?} before auth");
        self.greeted = true;
        if let ClientFrame::Publish(publish) = decoded {
            self.refs.extend(publish.msg_ref.map(String::from));
        }
        self.sent.push(frame);
        Some(())
    }

    fn poll_action(&mut self) -> Option<()> {
        match self.core.poll_action()? {
            Action::OpenTransport { id } => {
                assert!(self.transports.last().is_none_or(|last| *last < id), "{id:?} is not new");
                self.transports.push(id);
                self.is_open = false;
                self.greeted = false;
                self.sent.clear();
            }
            Action::CloseTransport { id, .. } => {
                assert!(self.transports.contains(&id), "{id:?} was never opened");
                assert!(self.closed.insert(id), "{id:?} was closed twice");
                self.is_open &= self.transports.last() != Some(&id);
            }
            _ => {}
        }
        Some(())
    }

    fn poll_event(&mut self) -> Option<()> {
        let event = self.core.poll_event()?;
        match &event {
            Event::Done { op, .. } => {
                assert!(self.open.remove(op).is_some(), "{op:?} was not accepted, or ends twice: {event:?}");
            }
            Event::Hydration { .. }
            | Event::Lobby(_)
            | Event::Presence(_)
            | Event::ProtocolError(_)
            | Event::ReplayEnded { .. }
            | Event::ReplayProgress { .. }
            | Event::ReplayStarted { .. }
            | Event::ServerError(_)
            | Event::TokenRefreshFailed { .. } => self.unsolicited += 1,
            _ => {}
        }
        Some(())
    }

    fn poll_all(&mut self) {
        loop {
            let mut any = false;
            while self.poll_transmit().is_some() || self.poll_action().is_some() {
                any = true;
            }
            self.unsolicited = 0;
            while self.poll_event().is_some() {
                any = true;
            }
            assert!(self.unsolicited <= MAX_UNSOLICITED, "{} reports were waiting", self.unsolicited);
            let waiting = self.open.values().filter(|counts| **counts).count();
            assert!(waiting <= self.core.config().limits.max_pending, "{waiting} commands wait");
            let mut messages = 0;
            while self.core.poll_message().is_some() {
                any = true;
                messages += 1;
            }
            let limit = self.core.config().limits.max_inbound_messages * 2;
            assert!(messages <= limit, "{messages} messages were waiting");
            if !any {
                return;
            }
        }
    }

    /// What holds after every step.
    fn check(&self) {
        if let Some(at) = self.core.poll_timeout() {
            assert!(at >= self.now, "{at:?} has passed: {}", self.core.explain());
            assert_ne!(self.core.status(), Status::Disconnected, "wakes up for nothing");
        }
    }

    /// Lets the time come that the client waits for; `false` when it waits for none.
    fn wake_up(&mut self) -> bool {
        let Some(at) = self.core.poll_timeout() else { return false };
        self.now = self.now.max(at);
        self.core.handle_timeout(self.now);
        true
    }

    /// Wakes the client whenever it wants, with nobody at the other end.
    fn let_time_pass(&mut self) {
        let (mut before, mut at_once) = (self.now, 0);
        for _ in 0..MAX_WAKE_UPS {
            self.poll_all();
            if !self.wake_up() {
                break;
            }
            at_once = if self.now == before { at_once + 1 } else { 0 };
            // Delays of zero are configured, and then the handshake's deadline comes between two attempts.
            assert!(at_once < 20, "no progress at {:?}: {}", self.now, self.core.explain());
            before = self.now;
        }
        self.poll_all();
    }

    /// Leaves, and checks that nothing is left.
    fn leave(&mut self) {
        let op = self.core.disconnect(self.now, Disconnect::Now);
        self.accept(op, false);
        self.poll_all();
        assert_eq!(self.core.status(), Status::Disconnected);
        assert_eq!(self.core.poll_timeout(), None, "{}", self.core.explain());
        assert_eq!(self.core.subscriptions().count(), 0);
        assert!(self.core.wants_input());
        assert!(self.open.is_empty(), "without an outcome: {:?}", self.open);
        let words = format!("{:?} {}", self.core, self.core.explain());
        assert!(!words.contains(TOKEN), "the token shows");
        // Whatever comes now is for nobody.
        self.message(self.last.clone());
        self.happens(TransportEventKind::Opened);
        self.core.handle_timeout(self.now);
        assert!(self.core.poll_transmit(self.now, &mut BytesMut::new()).is_none());
        assert!(self.core.poll_action().is_none() && self.core.poll_event().is_none());
        assert_eq!(self.core.poll_timeout(), None);
    }
}
