//! The broker as a state machine without I/O.

mod advertised;
mod connection;
mod control;
mod http_publish;
mod in_flight;
mod inspect;
mod lobbies;
mod presence;
mod publish;
mod replay;
mod resume;
mod retained;
mod routes;
mod session;
mod subscriptions;
mod switchboard;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt, mem,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use nolag_core::{
    Instant,
    wire::{ErrorFrame, FrameMap, Key, RawValue, ServerFrame, Text},
};

use crate::{
    AuthConfig, BrokerConfig, Direction, Effect, Limits, RecordedFrame,
    control::{ControlPlane, Time},
    payload,
    profile::Rules,
    random::Random,
    recorder::Recording,
};
use advertised::Advertised;
use connection::{Connection, Held, PublishWindow};
use in_flight::InFlight;
pub use inspect::SubscribedTopic;
use lobbies::Lobbies;
use presence::Rooms;
use replay::History;
use resume::ResumeMemory;
use retained::Retained;
use routes::{Groups, Routes};
pub use switchboard::FaultId;
use switchboard::Switchboard;

/// Bytes that a held connection may pile up before it is cut.
const MAX_HELD_BYTES: usize = 16 << 20;

/// One connection of a [`BrokerCore`], never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    /// Counts from 1 in the order in which connections opened.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The connection with this number, whether or not it is open.
    pub(crate) const fn from_u64(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// What the owner of a [`BrokerCore`] must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send one binary WebSocket message; an empty one answers a heartbeat.
    Send {
        /// To whom.
        conn: ConnectionId,
        /// The message.
        frame: Bytes,
    },
    /// Close with a close frame. The core has already forgotten the connection.
    Close {
        /// Which one.
        conn: ConnectionId,
        /// The WebSocket close code.
        code: u16,
        /// The reason text, often empty.
        reason: &'static str,
    },
    /// Drop the transport without a close frame, as a broken network would. The core has already forgotten the
    /// connection.
    Cut {
        /// Which one.
        conn: ConnectionId,
    },
}

impl Output {
    /// The connection that this is for.
    pub fn conn(&self) -> ConnectionId {
        match self {
            Self::Send { conn, .. } | Self::Close { conn, .. } | Self::Cut { conn } => *conn,
        }
    }
}

/// One open connection, for tests and inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Which one.
    pub id: ConnectionId,
    /// The actor, once authenticated.
    pub actor_id: Option<String>,
    /// The topics that it is subscribed to, as the client wrote them.
    pub subscriptions: Vec<String>,
    /// Whether its outputs are held back.
    pub held: bool,
}

/// A NoLag broker without I/O, clock or global randomness.
///
/// Feed it what happens (`open`, `handle_…`), then carry out everything that [`poll_output`](Self::poll_output)
/// returns, and call [`handle_timeout`](Self::handle_timeout) when [`poll_timeout`](Self::poll_timeout) says so. The
/// same configuration and inputs give the same outputs, byte for byte. Calls for connections that are gone do nothing,
/// time that goes backwards stands still, and no input can make it panic.
///
/// What it remembers is bounded, per connection: 8 MiB of subscriptions, 1,000 lobbies, one presence, and 16 MiB of
/// held output. For all connections together: 64 MiB of retained messages, 64 MiB of messages in flight, 64 MiB and
/// 10,000 messages for durable delivery, 16 MiB of persistent presence, 64 MiB of subscriptions of clients that are
/// away, 64 MiB of frames that faults delay, 16 MiB and 10,000 recorded frames, and 64 MiB of the control plane. What is over a bound is refused or
/// cut if it is a client's own, and otherwise the oldest goes first.
///
/// ```
/// use nolag_broker::{BrokerConfig, BrokerCore, Output};
/// use nolag_core::Instant;
///
/// let mut broker = BrokerCore::new(BrokerConfig::default(), Instant::ZERO);
/// let conn = broker.open(Instant::ZERO);
/// broker.handle_text(Instant::ZERO, conn, r#"{"type": "auth", "token": "dev-token-alice"}"#);
/// assert!(matches!(broker.poll_output(), Some(Output::Send { .. })));
/// ```
#[derive(Debug)]
pub struct BrokerCore {
    auth: AuthConfig,
    control: ControlPlane,
    /// When something in the control plane ends by itself.
    control_ends: Option<Instant>,
    http_publishes: PublishWindow,
    rules: &'static Rules,
    limits: Limits,
    record_messages: bool,
    durable_delivery: bool,
    delivery_lag: Duration,
    quota_exceeded: bool,
    wall_clock: Duration,
    random: Random,
    now: Instant,
    next_connection: u64,
    connections: BTreeMap<ConnectionId, Connection>,
    /// When each connection idles out; as many entries as connections while there is a limit.
    idle_deadlines: BTreeSet<(Instant, ConnectionId)>,
    routes: Routes,
    groups: Groups,
    retained: Retained,
    resume: ResumeMemory,
    rooms: Rooms,
    advertised: Advertised,
    lobbies: Lobbies,
    history: History,
    in_flight: InFlight,
    outputs: VecDeque<Output>,
    /// Closes of held connections, behind the frames that come before them.
    held_closes: BTreeMap<ConnectionId, (Held, Output)>,
    /// Connections to be cut before the next output.
    doomed: BTreeSet<ConnectionId>,
    /// A restart is to happen before the next output.
    restart_due: bool,
    /// Connections that nothing gets through to, or from.
    silent: BTreeSet<ConnectionId>,
    switchboard: Switchboard,
    recording: Recording,
}

/// The connection's handler met something that it cannot digest: the connection is closed with 1011.
struct Crash;

impl BrokerCore {
    /// A broker without connections.
    pub fn new(config: BrokerConfig, now: Instant) -> Self {
        Self {
            control: control::plane(&config, now),
            control_ends: None,
            http_publishes: PublishWindow::default(),
            auth: config.auth,
            rules: config.profile.rules(),
            limits: config.limits,
            record_messages: config.record_messages,
            durable_delivery: config.durable_delivery,
            delivery_lag: config.delivery_lag,
            quota_exceeded: false,
            wall_clock: config.wall_clock,
            random: Random::new(config.seed),
            now,
            next_connection: 1,
            connections: BTreeMap::new(),
            idle_deadlines: BTreeSet::new(),
            routes: Routes::default(),
            groups: Groups::default(),
            retained: Retained::default(),
            resume: ResumeMemory::default(),
            rooms: Rooms::default(),
            advertised: Advertised::default(),
            lobbies: Lobbies::default(),
            history: History::default(),
            in_flight: InFlight::default(),
            outputs: VecDeque::new(),
            held_closes: BTreeMap::new(),
            doomed: BTreeSet::new(),
            restart_due: false,
            silent: BTreeSet::new(),
            switchboard: Switchboard::default(),
            recording: Recording::new(config.record_frames),
        }
    }

    /// A WebSocket connection opened.
    pub fn open(&mut self, now: Instant) -> ConnectionId {
        self.advance(now);
        let conn = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.connections.insert(conn, Connection::new());
        self.touch(conn);
        self.strike_open(conn);
        conn
    }

    /// A binary message arrived.
    pub fn handle_binary(&mut self, now: Instant, conn: ConnectionId, frame: &[u8]) {
        if self.accept_message(now, conn, frame.len()) {
            self.receive(conn, frame);
        }
    }

    /// A text message arrived: JSON, answered in MessagePack.
    pub fn handle_text(&mut self, now: Instant, conn: ConnectionId, text: &str) {
        if self.accept_message(now, conn, text.len()) {
            match payload::from_json(text) {
                Ok(frame) => self.receive(conn, &frame),
                Err(_) => self.end(conn, 1011, ""),
            }
        }
    }

    /// A WebSocket ping or pong arrived. It says nothing, but the client is alive.
    pub fn handle_ping(&mut self, now: Instant, conn: ConnectionId) {
        self.advance(now);
        if !self.silent.contains(&conn) {
            self.touch(conn);
        }
    }

    /// The connection is gone, in whatever way.
    pub fn handle_close(&mut self, now: Instant, conn: ConnectionId) {
        self.advance(now);
        self.forget(conn);
        self.silent.remove(&conn);
    }

    /// Time passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        while let Some(&(deadline, conn)) = self.idle_deadlines.first() {
            if deadline > self.now {
                break;
            }
            self.end(conn, 1000, "");
        }
        self.retained.expire(self.now);
        self.resume.expire(self.now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let idle = self.idle_deadlines.first().map(|(deadline, _)| *deadline);
        idle.into_iter()
            .chain(self.control_ends)
            .chain(self.in_flight.next_arrival())
            .chain(self.switchboard.next_due())
            .min()
    }

    /// The next thing to do; `None` when everything is done.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output> {
        if mem::take(&mut self.restart_due) {
            self.restart(self.now);
        }
        while let Some(conn) = self.doomed.pop_first() {
            self.cut(self.now, conn);
        }
        loop {
            let output = self.outputs.pop_front()?;
            let gets_through = match &output {
                Output::Cut { .. } => true,
                Output::Send { conn, .. } | Output::Close { conn, .. } => !self.silent.contains(conn),
            };
            if gets_through {
                return Some(output);
            }
        }
    }

    /// Replaces the tokens. Open connections keep what they have until their next revalidation: the first heartbeat
    /// 600 seconds or more after the last one.
    pub fn set_auth(&mut self, now: Instant, auth: AuthConfig) {
        self.advance(now);
        self.auth = auth;
    }

    /// Everything that clients and broker have sent each other, oldest first, as far as it is kept; see
    /// [`BrokerConfig::record_frames`].
    pub fn recorded(&self) -> impl Iterator<Item = &RecordedFrame> {
        self.recording.frames()
    }

    /// How many frames were recorded in all, also those that are kept no longer.
    pub fn recorded_in_all(&self) -> u64 {
        self.recording.in_all()
    }

    /// The tokens that it accepts.
    pub fn auth(&self) -> &AuthConfig {
        &self.auth
    }

    /// The open connections, oldest first.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionInfo> {
        self.connections.iter().map(|(id, connection)| connection.info(*id))
    }

    /// Whether every publish is refused with 42920, as when a project's monthly quota is used up.
    pub fn set_quota_exceeded(&mut self, now: Instant, exceeded: bool) {
        self.advance(now);
        self.quota_exceeded = exceeded;
    }

    /// Lets the token of a connection expire, as if it were a client token whose time has come: its next heartbeat is
    /// answered with `disconnect` and a close with 4003, unless it sends a fresh token before.
    pub fn expire_token(&mut self, now: Instant, conn: ConnectionId) {
        self.advance(now);
        let expires_at = self.unix_now();
        if let Some(identity) =
            self.connections.get_mut(&conn).and_then(|connection| connection.identity.as_mut())
        {
            identity.expires_at = Some(expires_at);
        }
    }

    /// Drops a connection without a close frame. What was held back for it is lost.
    pub fn cut(&mut self, now: Instant, conn: ConnectionId) {
        self.advance(now);
        if self.forget(conn) | self.silent.remove(&conn) {
            self.outputs.push_back(Output::Cut { conn });
        }
    }

    /// Loses all memory and drops every connection without a close frame, as a broker that is killed and started
    /// again. Configuration, connection ids and the control plane, which is another service in production, go on.
    pub fn restart(&mut self, now: Instant) {
        self.advance(now);
        let open: BTreeSet<_> =
            self.connections.keys().chain(self.held_closes.keys()).chain(&self.silent).copied().collect();
        // Nobody is left to hear who leaves.
        self.rooms = Rooms::default();
        self.lobbies = Lobbies::default();
        open.into_iter().for_each(|conn| self.cut(now, conn));
        self.retained = Retained::default();
        self.resume = ResumeMemory::default();
        self.advertised = Advertised::default();
        self.history = History::default();
        self.in_flight = InFlight::default();
    }

    /// Closes a connection with a close frame of the caller's choice.
    pub fn close(&mut self, now: Instant, conn: ConnectionId, code: u16, reason: &'static str) {
        self.advance(now);
        self.end(conn, code, reason);
    }

    /// Holds back everything for a connection until it is released: sends pile up (above 16 MiB the connection is
    /// cut), and a close by the broker waits behind them. What the client sends is still read and acted upon.
    pub fn hold(&mut self, now: Instant, conn: ConnectionId) {
        self.advance(now);
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.held.get_or_insert_with(Held::default);
        }
    }

    /// Delivers what was held back for a connection, in order, and holds no longer.
    pub fn release(&mut self, now: Instant, conn: ConnectionId) {
        self.advance(now);
        let held = self.connections.get_mut(&conn).and_then(|connection| connection.held.take());
        let (held, close) = match self.held_closes.remove(&conn) {
            Some((held, close)) => (Some(held), Some(close)),
            None => (held, None),
        };
        let frames = held.into_iter().flat_map(|held| held.frames);
        self.outputs.extend(frames.map(|frame| Output::Send { conn, frame }));
        self.outputs.extend(close);
    }

    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.control_ends.is_some_and(|end| end <= self.now) {
            self.enforce_control();
        }
        self.deliver_arrived();
        self.resume_delayed();
    }

    /// The wall clock in whole seconds.
    fn unix_now(&self) -> u64 {
        self.time().as_duration().as_secs()
    }

    /// The wall clock.
    fn time(&self) -> Time {
        Time::since_1970(self.wall_clock.saturating_add(Duration::from_micros(self.now.as_micros())))
    }

    /// Notes that the client is alive, and whether the message may be looked at.
    fn accept_message(&mut self, now: Instant, conn: ConnectionId, len: usize) -> bool {
        self.advance(now);
        if self.silent.contains(&conn) || self.doomed.contains(&conn) {
            return false;
        }
        self.touch(conn);
        if self.limits.max_frame_bytes.is_some_and(|max| len > max) {
            self.end(conn, 1009, "");
        }
        self.connections.contains_key(&conn)
    }

    /// Restarts the idle timer.
    fn touch(&mut self, conn: ConnectionId) {
        if let (Some(connection), Some(timeout)) = (self.connections.get_mut(&conn), self.limits.idle_timeout)
        {
            self.idle_deadlines.remove(&(connection.idle_deadline, conn));
            connection.idle_deadline = self.now + timeout;
            self.idle_deadlines.insert((connection.idle_deadline, conn));
        }
    }

    /// Records a frame and acts on it, unless a fault strikes.
    fn receive(&mut self, conn: ConnectionId, frame: &[u8]) {
        let strike = self.strike_frame(conn, Direction::FromClient, frame);
        self.record(conn, Direction::FromClient, frame, strike.as_ref().map(|strike| &strike.effect));
        match strike {
            None => self.act_on(conn, frame),
            Some(strike) => self.suffer(conn, Direction::FromClient, Bytes::copy_from_slice(frame), strike),
        }
    }

    fn act_on(&mut self, conn: ConnectionId, frame: &[u8]) {
        if frame.is_empty() {
            self.heartbeat(conn);
        } else {
            self.handle_packed(conn, frame);
        }
    }

    fn record(&mut self, conn: ConnectionId, way: Direction, frame: &[u8], fault: Option<&Effect>) {
        if self.recording.is_on() {
            let identity = self.connections.get(&conn).and_then(|connection| connection.identity.as_ref());
            let actor_id = identity.map(|identity| identity.actor.actor_id.clone());
            self.recording.push(RecordedFrame::new(self.now, conn, actor_id, way, frame, fault));
        }
    }

    fn handle_packed(&mut self, conn: ConnectionId, bytes: &[u8]) {
        // Kraken cannot decode extension types, and drops the whole frame as it drops broken ones.
        let Ok(value) = RawValue::parse(bytes) else { return };
        if value.find_extension().is_some() {
            return;
        }
        let map = FrameMap::from_value(value);
        let handled = match &map {
            Some(map) => self.dispatch(conn, map),
            None if self.is_authenticated(conn) => Ok(()),
            None => self.refuse_unauthenticated(conn),
        };
        if handled.is_err() {
            self.end(conn, 1011, "");
        }
    }

    /// Acts on one frame. Frames of unknown type and frames that lack a required key are dropped, as Kraken does.
    fn dispatch(&mut self, conn: ConnectionId, map: &FrameMap<'_>) -> Result<(), Crash> {
        let frame_type = map.str(Key::Type);
        if let (Some("auth"), Some(token)) = (frame_type, map.get(Key::Token)) {
            self.authenticate(conn, map, token);
            return Ok(());
        }
        if !self.is_authenticated(conn) {
            return self.refuse_unauthenticated(conn);
        }
        match frame_type {
            Some("subscribe") => self.subscribe(conn, map),
            Some("unsubscribe") => self.unsubscribe(conn, map),
            Some("setFilters") => self.set_filters(conn, map),
            Some("publish") => self.publish(conn, map),
            Some("presence") => self.set_presence(conn, map),
            Some("getPresence") => self.list_presence(conn, map),
            Some("lobbySubscribe") => self.lobby_subscribe(conn, map),
            Some("lobbyUnsubscribe") => self.lobby_unsubscribe(conn, map),
            Some("getLobbyPresence") => self.list_lobby_presence(conn, map),
            Some("batchAck") => match map.get(Key::MsgIds) {
                Some(list) if list.items().is_none() => Err(Crash),
                _ => Ok(()),
            },
            Some("reauth") if self.rules.reauth => {
                self.reauthenticate(conn, map);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn refuse_unauthenticated(&mut self, conn: ConnectionId) -> Result<(), Crash> {
        self.send_error(conn, ErrorFrame { error: "not_authenticated", ..ErrorFrame::default() });
        Ok(())
    }

    fn is_authenticated(&self, conn: ConnectionId) -> bool {
        self.connections.get(&conn).is_some_and(|connection| connection.identity.is_some())
    }

    /// What a client sent, as it comes back: packed again.
    fn echo(&self, value: RawValue<'_>) -> Result<Bytes, Crash> {
        payload::repack(value, self.rules.only_utf8).map_err(|_| Crash)
    }

    fn send_frame(&mut self, conn: ConnectionId, frame: &ServerFrame<'_>) {
        self.send(conn, encode(frame));
    }

    fn send_error(&mut self, conn: ConnectionId, error: ErrorFrame<'_>) {
        self.send_frame(conn, &ServerFrame::Error(error));
    }

    /// Records a frame and sends it, unless a fault strikes.
    fn send(&mut self, conn: ConnectionId, frame: Bytes) {
        if self.restart_due || self.doomed.contains(&conn) || !self.connections.contains_key(&conn) {
            return;
        }
        let strike = self.strike_frame(conn, Direction::ToClient, &frame);
        self.record(conn, Direction::ToClient, &frame, strike.as_ref().map(|strike| &strike.effect));
        match strike {
            None => self.transmit(conn, frame),
            Some(strike) => self.suffer(conn, Direction::ToClient, frame, strike),
        }
    }

    fn transmit(&mut self, conn: ConnectionId, frame: Bytes) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        match &mut connection.held {
            None => self.outputs.push_back(Output::Send { conn, frame }),
            Some(held) if held.bytes.saturating_add(frame.len()) <= MAX_HELD_BYTES => held.push(frame),
            Some(_) => _ = self.doomed.insert(conn),
        }
    }

    /// Closes from the broker's side.
    fn end(&mut self, conn: ConnectionId, code: u16, reason: &'static str) {
        let held = self.connections.get_mut(&conn).and_then(|connection| connection.held.take());
        if self.forget(conn) {
            let close = Output::Close { conn, code, reason };
            match held {
                None => self.outputs.push_back(close),
                Some(held) => drop(self.held_closes.insert(conn, (held, close))),
            }
        }
    }

    /// Drops all state of a connection; false when there was none.
    fn forget(&mut self, conn: ConnectionId) -> bool {
        let Some(connection) = self.connections.remove(&conn) else {
            return self.held_closes.remove(&conn).is_some();
        };
        self.idle_deadlines.remove(&(connection.idle_deadline, conn));
        for (topic, subscription) in &connection.subscriptions {
            self.routes.remove(&subscription.base, conn, topic);
            self.groups.leave(subscription);
        }
        connection.observed.values().for_each(|observed| self.lobbies.ignore(conn, observed));
        self.note_absence(&connection);
        if let Some(identity) = connection.identity {
            if let Some(present) = &connection.present {
                self.leave_room(conn, present, &identity.actor.actor_id);
            }
            if let Some(key) = identity.resume_key {
                self.resume.release(&key, self.now);
            }
        }
        true
    }
}

fn encode(frame: &ServerFrame<'_>) -> Bytes {
    let mut out = BytesMut::new();
    frame.encode(&mut out);
    out.freeze()
}

/// One complete value, packed by us, as text or whatever it is.
fn as_text(packed: &Bytes) -> Text<'_> {
    Text::from(as_value(packed))
}

/// One complete value, packed by us.
fn as_value(packed: &Bytes) -> RawValue<'_> {
    RawValue::parse(packed).unwrap_or(RawValue::NIL)
}
