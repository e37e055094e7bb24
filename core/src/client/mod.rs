//! The client as a state machine without I/O.

mod by_op;
mod config;
mod delivery;
mod event;
mod explain;
mod filters;
mod inbox;
mod lobbies;
mod message;
mod outbound;
mod presence;
mod publishes;
mod reconnect;
mod requests;
mod session;
mod subscriptions;
mod timers;
mod tokens;
mod usage;

use alloc::{boxed::Box, collections::VecDeque, string::String, sync::Arc};

use core::time::Duration;

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

pub use config::{
    AckPolicy, Config, Limits, OfflinePolicy, OverflowPolicy, ReconnectPolicy, ResendPolicy, TokenSource,
};
pub use event::{
    Action, Disconnect, Event, FilterChange, LobbyChange, LobbySnapshot, OpId, Outcome, PresenceChange,
    PresenceKind, PresenceMember, Publish, Session, Stats, Status, Subscribe, SubscribeOptions,
    SubscriptionId, Transmit, TransportEvent, TransportEventKind, TransportId,
};
pub use message::Message;
pub use subscriptions::SubscriptionInfo;
pub use usage::Usage;

use crate::{
    Instant,
    chunk::Chunk,
    error::{Error, Op, ProtocolError, Rejection, ServerError, clean},
    payload::Payload,
    rng::Rng,
    wire::{ClientFrame, ErrorFrame, ServerFrame, Text},
};
use by_op::ByOp;
use delivery::{Replay, Seen};
use inbox::{ActiveTime, Inbox};
use lobbies::Lobbies;
use outbound::{Outbound, Sender};
use presence::Presence;
use publishes::Publishes;
use requests::{Request, RequestKind};
use session::Link;
use subscriptions::Registry;
use timers::{Timer, TimerTable};
use tokens::Tokens;

/// Reports that belong to no command and are kept until polled; more are counted and dropped, because a broker could
/// send them without end.
const MAX_UNSOLICITED: usize = 1024;

/// Payload bytes that such reports may hold.
const MAX_UNSOLICITED_BYTES: usize = 8 << 20;

/// A NoLag client without I/O: bytes and ticks in, frames and events out.
///
/// The core decides everything that can go wrong, and does nothing: it opens no socket, reads no clock, draws no
/// randomness but from the seed it was given. An adapter, a simulator or your own loop moves bytes for it. The crate's
/// front page shows a complete loop.
///
/// # Calling contract
///
/// | family | methods | rule |
/// |---|---|---|
/// | inputs | [`handle_transport`](Self::handle_transport), [`handle_timeout`](Self::handle_timeout) | never fail; spurious calls do nothing; time that goes backwards is clamped; any bytes are survived |
/// | commands | [`connect`](Self::connect), [`disconnect`](Self::disconnect), [`subscribe`](Self::subscribe), [`unsubscribe`](Self::unsubscribe), [`publish`](Self::publish), [`abandon`](Self::abandon), [`ack`](Self::ack) | refused with a typed error that gives the value back, or accepted; an accepted command has an [`OpId`] and ends in exactly one [`Event::Done`] |
/// | outputs | [`poll_transmit`](Self::poll_transmit), [`poll_action`](Self::poll_action), [`poll_event`](Self::poll_event), [`poll_message`](Self::poll_message), [`poll_timeout`](Self::poll_timeout), [`wants_input`](Self::wants_input) | independent of one another, in any order, as often as you like; after any input or command, poll them until they are empty |
/// | getters | [`status`](Self::status), [`session`](Self::session), [`subscriptions`](Self::subscriptions), [`stats`](Self::stats), [`explain`](Self::explain) | change nothing |
///
/// The same configuration, seed and calls give the same outputs, byte for byte.
#[derive(Debug)]
pub struct ClientCore {
    config: Config,
    rng: Rng,
    now: Instant,
    link: Link,
    next_id: u64,
    /// Accepted commands without an outcome.
    ops: ByOp<Pending>,
    /// Commands that wait for a session, and for its end.
    connecting: SmallVec<[OpId; 1]>,
    disconnecting: SmallVec<[OpId; 1]>,
    /// Why the client stopped for good, until the next `connect`.
    gave_up: Option<Error>,
    session: Option<Arc<Session>>,
    tokens: Tokens,
    /// Why the broker said that it is about to close.
    goodbye: Option<String>,
    /// How long there was no session, while subscriptions are being restored.
    restoring: Option<Duration>,
    /// When the last session was lost, once there was one since `connect`.
    lost_at: Option<Instant>,
    /// Attempts to reconnect since the last session that lasted.
    attempts: u32,
    /// Restored subscriptions in a row that the broker did not confirm in time.
    unanswered_restores: u32,
    timers: TimerTable,
    /// When an echo must have come.
    liveness: Option<ActiveTime>,
    outbound: Outbound,
    registry: Registry,
    presence: Presence,
    lobbies: Lobbies,
    /// Requests without a reference that the broker answers, in sending order.
    requests: VecDeque<Request>,
    publishes: Publishes,
    /// When the answers to what was sent must have come, in sending order.
    deadlines: VecDeque<(ActiveTime, Waiting)>,
    /// Where small frames are kept, received and to be sent.
    chunk: Chunk,
    inbox: Inbox,
    /// Subscriptions removed before the oldest message in the inbox came.
    removals_seen: u64,
    replay: Replay,
    acks: VecDeque<Box<str>>,
    /// What the application has acknowledged last.
    acked: Seen,
    actions: VecDeque<Action>,
    events: VecDeque<Event>,
    unsolicited: usize,
    unsolicited_bytes: usize,
    stats: Stats,
}

/// A command without an outcome.
#[derive(Debug, Clone, Copy)]
struct Pending {
    kind: Op,
    /// Whether a frame for it was ever handed to a transport.
    sent: bool,
}

/// What waits for an answer by a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// With the number of the attempt.
    Publish(OpId, u32),
    Request(u64),
}

impl ClientCore {
    /// A client that does nothing until told to [`connect`](Self::connect).
    ///
    /// `seed` decides every random choice; give different clients different seeds, or they will reconnect in step.
    ///
    /// # Errors
    /// As [`Config::check`].
    pub fn new(config: Config, seed: u64, now: Instant) -> Result<Self, Error> {
        config.check()?;
        Ok(Self {
            config,
            rng: Rng::new(seed),
            now,
            link: Link::Idle,
            next_id: 1,
            ops: ByOp::default(),
            connecting: SmallVec::new(),
            disconnecting: SmallVec::new(),
            gave_up: None,
            session: None,
            tokens: Tokens::default(),
            goodbye: None,
            restoring: None,
            lost_at: None,
            attempts: 0,
            unanswered_restores: 0,
            timers: TimerTable::default(),
            liveness: None,
            outbound: Outbound::default(),
            registry: Registry::new(seed),
            presence: Presence::default(),
            lobbies: Lobbies::default(),
            requests: VecDeque::new(),
            publishes: Publishes::default(),
            deadlines: VecDeque::new(),
            chunk: Chunk::default(),
            inbox: Inbox::new(),
            removals_seen: 0,
            replay: Replay::default(),
            acks: VecDeque::new(),
            acked: Seen::default(),
            actions: VecDeque::new(),
            events: VecDeque::new(),
            unsolicited: 0,
            unsolicited_bytes: 0,
            stats: Stats::default(),
        })
    }

    // ---- inputs ----

    /// Takes in what happened to a transport.
    pub fn handle_transport(&mut self, now: Instant, event: TransportEvent) {
        self.observe(now);
        if self.link.transport() != Some(event.id) {
            self.stats.stale_transport_events += 1;
            return;
        }
        match event.kind {
            TransportEventKind::Opened => self.transport_opened(),
            TransportEventKind::Progress => self.liveness = None,
            TransportEventKind::Message(frame) => {
                self.liveness = None;
                self.stats.frames_received += 1;
                self.handle_frame(&frame);
            }
            TransportEventKind::Closed { code, reason } => self.transport_closed(code, reason),
            TransportEventKind::Failed(error) => self.connection_lost(error.into(), None),
        }
        self.finish_drain();
    }

    /// Takes in that time has passed. Call it when [`poll_timeout`](Self::poll_timeout)'s instant has come; calling it
    /// at any other time is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.observe(now);
        // Each at most once: a delay of zero must not keep us here.
        for _ in Timer::ALL {
            let Some(timer) = self.timers.pop_due(self.now) else { break };
            match timer {
                Timer::AckFlush => self.flush_acks(),
                Timer::Drain => self.leave(),
                Timer::Handshake => self.handshake_timed_out(),
                Timer::Heartbeat => self.send_heartbeat(),
                Timer::LobbyKeepAlive => self.keep_lobbies_alive(),
                Timer::MaxPause => self.inbox.overflow(self.now),
                // What may be sent now is asked for with the next poll.
                Timer::Pacing => {}
                Timer::PresenceRefetch => self.refetch_presence(),
                Timer::PublishExpiry => self.expire_publishes(),
                Timer::Reconnect => self.start_attempt(),
                Timer::TokenRefresh => self.refresh_token(),
            }
        }
        self.check_liveness();
        self.check_deadlines();
        self.finish_drain();
    }

    // ---- outputs ----

    /// Appends the next WebSocket message to `out`, which may already hold others, and says where it goes.
    ///
    /// Always a binary message; length 0 is the heartbeat. Once handed out a message counts as sent.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Instant, out: &mut BytesMut) -> Option<Transmit> {
        self.observe(now);
        let transport = self.link.open_transport()?;
        let len = match self.next_publish() {
            Some(op) if !self.outbound.precedes(op.0) => self.send_publish(op, out),
            _ => {
                let (len, sender) = self.outbound.pop(out)?;
                if len == 0 {
                    self.publishes.heartbeat_sent();
                }
                match sender {
                    Sender::Nobody => {}
                    Sender::Request(seq) => self.request_sent(seq),
                    Sender::Unanswered(op) => self.settle(op, Outcome::Sent),
                }
                len
            }
        };
        self.stats.frames_sent += 1;
        self.finish_drain();
        Some(Transmit { transport, len })
    }

    /// The next thing the adapter must do.
    #[must_use]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next thing to tell the application.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            if let Some(bytes) = unsolicited_bytes(&event) {
                self.unsolicited -= 1;
                self.unsolicited_bytes -= bytes;
            }
            return Some(event);
        }
        let (subscription, count) = self.inbox.pop_lagged()?;
        Some(Event::Lagged { subscription, count })
    }

    /// The next message for the application. Taking none makes [`wants_input`](Self::wants_input) false in time.
    #[must_use]
    pub fn poll_message(&mut self) -> Option<Message> {
        let mut message = self.inbox.pop(&self.config.limits)?;
        if self.registry.removals() != self.removals_seen {
            // Its subscription may have ended while it waited.
            message.subscription = message.subscription.filter(|id| self.registry.by_id.contains_key(id));
        }
        Some(message)
    }

    /// When [`handle_timeout`](Self::handle_timeout) should be called next; `None`: only after something else happens.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timer = self.timers.next().map(|(at, _)| at);
        let waiting = self.deadlines.front().map(|(deadline, _)| *deadline);
        let frozen = waiting.into_iter().chain(self.liveness).min();
        let earliest = timer.into_iter().chain(frozen.and_then(|deadline| self.inbox.wall(deadline))).min();
        earliest.map(|at| at.max(self.now))
    }

    /// Whether the adapter should read from the transport. `false` while the application is behind; TCP then holds the
    /// sender back. Heartbeats still leave meanwhile, and the deadlines of answers stand still.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.inbox.wants_input()
    }

    // ---- getters ----

    /// Where the client stands.
    pub fn status(&self) -> Status {
        match self.link {
            Link::Idle => Status::Disconnected,
            Link::Ready { .. } => Status::Connected,
            _ if self.lost_at.is_some() => Status::Reconnecting,
            _ => Status::Connecting,
        }
    }

    /// Who we are to the broker: of the session that stands, else of the last one.
    pub fn session(&self) -> Option<&Arc<Session>> {
        self.session.as_ref()
    }

    /// Which attempt to connect in a row is under way or was the last, from 1, as
    /// [`Event::AttemptFailed`] counts them; 0 before the first one and after leaving.
    pub fn attempt(&self) -> u32 {
        if self.link == Link::Idle {
            return 0;
        }
        self.attempts + u32::from(self.lost_at.is_none())
    }

    /// What the client was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        Stats { messages_dropped: self.inbox.dropped(), ..self.stats }
    }

    // ---- shared by the concerns ----

    fn observe(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.inbox.observe(self.now);
        match self.inbox.paused_since() {
            Some(since) if !self.timers.is_armed(Timer::MaxPause) => {
                self.timers.set(Timer::MaxPause, since + self.config.limits.max_pause);
            }
            None => self.timers.stop(Timer::MaxPause),
            Some(_) => {}
        }
    }

    fn id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    fn accept(&mut self, kind: Op) -> OpId {
        let op = OpId(self.id());
        self.ops.insert(op, Pending { kind, sent: false });
        op
    }

    /// The one place where commands end.
    fn settle(&mut self, op: OpId, outcome: Outcome) {
        let live = self.ops.remove(op);
        debug_assert!(live.is_some(), "{op:?} ends twice: {outcome:?}");
        if live.is_some() {
            self.events.push_back(Event::Done { op, outcome });
        }
    }

    fn settle_all(&mut self, ops: impl IntoIterator<Item = OpId>, outcome: &Outcome) {
        for op in ops {
            self.settle(op, outcome.clone());
        }
    }

    /// Settles commands that will not be answered any more: those that were sent may have been done.
    fn settle_undone(&mut self, ops: impl IntoIterator<Item = OpId>, cause: &Error) {
        for op in ops {
            let sent = self.ops.get(op).is_some_and(|pending| pending.sent);
            let outcome = if sent { Outcome::Unknown } else { Outcome::NotSent };
            self.settle(op, outcome(cause.clone()));
        }
    }

    fn mark_sent(&mut self, op: OpId) {
        if let Some(pending) = self.ops.get_mut(op) {
            pending.sent = true;
        }
    }

    /// Whether a command that needs the broker can be accepted now or as soon as the session stands.
    fn check_open(&self) -> Result<(), Error> {
        match self.link {
            Link::Idle => Err(self.gave_up.clone().unwrap_or_else(|| Rejection::NotConnected.into())),
            Link::Ready { draining: true, .. } => Err(Rejection::Closing.into()),
            _ => Ok(()),
        }
    }

    /// Whether a command that only makes sense now can be accepted.
    fn check_ready(&self, bytes: usize) -> Result<(), Error> {
        self.check_open()?;
        if !self.link_is_ready() {
            return Err(Rejection::NotConnected.into());
        }
        self.check_room(bytes)
    }

    fn check_room(&self, bytes: usize) -> Result<(), Error> {
        // Requests outlive their commands when they are overdue, and the core makes some of its own.
        let pending = self.ops.len().max(self.requests.len());
        let held = self.outbound.bytes() + self.publishes.bytes();
        let limits = &self.config.limits;
        if pending >= limits.max_pending || held + bytes > limits.max_outbound_bytes {
            return Err(Rejection::Full { pending, bytes: held }.into());
        }
        Ok(())
    }

    fn send(&mut self, frame: &ClientFrame<'_>, sender: Sender) {
        let place = match sender {
            Sender::Request(place) => place,
            Sender::Unanswered(op) => op.0,
            Sender::Nobody => self.next_id,
        };
        self.outbound.push(place, encode(frame), sender);
    }

    fn report(&mut self, event: Event) {
        let bytes = unsolicited_bytes(&event).unwrap_or(0);
        if self.unsolicited >= MAX_UNSOLICITED || self.unsolicited_bytes + bytes > MAX_UNSOLICITED_BYTES {
            self.stats.events_dropped += 1;
            return;
        }
        self.unsolicited += 1;
        self.unsolicited_bytes += bytes;
        self.events.push_back(event);
    }

    fn handle_frame(&mut self, bytes: &Bytes) {
        let frame = match ServerFrame::decode(bytes) {
            Ok(frame) => frame,
            Err(error) => {
                self.stats.frames_undecodable += 1;
                return self.report(Event::ProtocolError(ProtocolError::Undecodable(error)));
            }
        };
        let ready = matches!(self.link, Link::Ready { .. });
        match frame {
            ServerFrame::Heartbeat => self.heartbeat_answered(),
            ServerFrame::Auth(reply) if !ready => self.handle_auth(&reply),
            ServerFrame::Error(error) => self.handle_error(&error),
            ServerFrame::Message(message) if ready => self.handle_message(bytes, &message),
            ServerFrame::FiltersUpdated { topic, .. } if ready => self.handle_filters_updated(topic),
            ServerFrame::Hydration { topic, data } if ready => {
                let topic = topic.as_str().unwrap_or_default().into();
                self.report(Event::Hydration { topic, data: Payload::from_frame(bytes, data) });
            }
            ServerFrame::LobbyPresence(event) if ready => self.handle_lobby_event(bytes, &event),
            ServerFrame::LobbyPresenceList { lobby_id, presence } if ready => {
                self.handle_lobby_list(bytes, lobby_id, presence);
            }
            ServerFrame::LobbySubscribed { lobby_id, presence } if ready => {
                self.handle_lobby_subscribed(bytes, lobby_id, presence);
            }
            ServerFrame::LobbyUnsubscribed { lobby_id } if ready => self.handle_lobby_unsubscribed(lobby_id),
            ServerFrame::Presence(event) if ready => self.handle_presence(bytes, &event),
            ServerFrame::PresenceList { room_id, data } if ready => {
                self.handle_presence_list(bytes, room_id, data);
            }
            ServerFrame::Reauth { success, error, .. } if ready => self.handle_reauth(success, error),
            ServerFrame::ReplayEnd { replayed } if ready => self.handle_replay_end(replayed),
            ServerFrame::ReplayStart { count, .. } if ready => self.handle_replay_start(count),
            ServerFrame::Published { msg_ref, .. } if ready => self.handle_published(msg_ref),
            ServerFrame::Subscribed { topic, load_balance } if ready => {
                self.handle_subscribed(topic, load_balance)
            }
            ServerFrame::Unsubscribed { topic } if ready => self.handle_unsubscribed(topic),
            ServerFrame::Disconnect { reason } => self.goodbye = reason.map(clean),
            _ => self.stats.frames_unexpected += 1,
        }
    }

    fn handle_error(&mut self, frame: &ErrorFrame<'_>) {
        if let Some(msg_ref) = frame.msg_ref {
            if self.publish_refused(msg_ref, frame) {
                return;
            }
        } else if let Some(topic) = frame.topic.and_then(Text::as_str) {
            if !concerns_publishes(frame)
                && (self.request_refused(topic, frame) || self.access_denied(topic, frame))
            {
                return;
            }
        } else if let Some(lobby) = frame.lobby_id.and_then(Text::as_str) {
            if let Some(request) = self.take_refused(lobby, RequestKind::asks_for_lobby) {
                let error = ServerError::from_frame(frame, Some(request.kind.op()));
                return self.lobby_refused(&request.key, &request.kind, request.ops, error);
            }
        }
        let error = ServerError::from_frame(frame, None);
        self.report(Event::ServerError(Box::new(error)));
    }

    /// Settles the oldest request that an error with only a topic can be for; `false` when there is none. An unsubscribe
    /// is never refused, and only a change of filters needs a subscription to stand.
    fn request_refused(&mut self, topic: &str, frame: &ErrorFrame<'_>) -> bool {
        let not_subscribed = frame.error == "not_subscribed";
        let denied = denies_access(frame);
        let refusable = |kind: &RequestKind| match kind {
            RequestKind::SetFilters(..) => !denied,
            RequestKind::Subscribe(..) => !not_subscribed,
            _ => false,
        };
        let Some(request) = self.take_refused(topic, refusable) else { return false };
        let error = ServerError::from_frame(frame, Some(request.kind.op()));
        match request.kind {
            RequestKind::Subscribe(id, options) => {
                self.subscribe_refused(id, &options, request.ops, error);
                self.advance_filters(id);
            }
            RequestKind::SetFilters(id, _) => self.filters_refused(id, request.ops, error),
            _ => {}
        }
        true
    }

    fn check_deadlines(&mut self) {
        while let Some((deadline, waiting)) = self.deadlines.front().copied() {
            if deadline > self.inbox.active(self.now) {
                break;
            }
            self.deadlines.pop_front();
            match waiting {
                Waiting::Publish(op, attempt) => self.publish_timed_out(op, attempt),
                Waiting::Request(seq) => self.request_timed_out(seq),
            }
        }
    }

    fn expect_answer(&mut self, waiting: Waiting) {
        let deadline = self.inbox.active(self.now) + self.config.operation_timeout;
        self.deadlines.push_back((deadline, waiting));
    }

    /// Removes what was answered from the front, so that the queue stays short and nothing wakes up for it. What was
    /// answered out of order is skipped when its time comes.
    fn forget_answered(&mut self) {
        while let Some((_, front)) = self.deadlines.front() {
            let answered = match front {
                Waiting::Publish(op, attempt) => self.publishes.is_answered(*op, *attempt),
                Waiting::Request(seq) => self.request_index(*seq).is_none(),
            };
            if !answered {
                break;
            }
            self.deadlines.pop_front();
        }
    }
}

/// The payload bytes of a report that a broker can cause at will; `None` for what is bounded by the application's own
/// commands.
fn unsolicited_bytes(event: &Event) -> Option<usize> {
    match event {
        Event::Hydration { data, .. } => Some(data.packed_len()),
        Event::Lobby(change) => Some(change.data.packed_len()),
        Event::Presence(change) => {
            let payloads = [&change.presence, &change.capabilities, &change.advertisement_version];
            Some(payloads.into_iter().flatten().map(Payload::packed_len).sum())
        }
        Event::ProtocolError(_)
        | Event::ReplayEnded { .. }
        | Event::ReplayProgress { .. }
        | Event::ReplayStarted { .. }
        | Event::ServerError(_)
        | Event::TokenRefreshFailed { .. } => Some(0),
        _ => None,
    }
}

fn encode(frame: &ClientFrame<'_>) -> Bytes {
    let mut out = BytesMut::new();
    frame.encode(&mut out);
    out.freeze()
}

/// Whether the broker says that the actor may not use a topic: in these words it never answers a change of filters
/// (protocol-facts §5).
fn denies_access(frame: &ErrorFrame<'_>) -> bool {
    frame.code == Some(42940) || frame.error == "unknown_topic" || frame.error == "not_authorized"
}

/// Whether an error without a reference can only be about an untracked publish (protocol-facts §5).
fn concerns_publishes(frame: &ErrorFrame<'_>) -> bool {
    matches!(frame.code, Some(42910 | 42920 | 42930 | 42960))
}
