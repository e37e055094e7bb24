//! Clients, a broker and the network between them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write as _,
    time::Duration,
};

use bytes::BytesMut;
use nolag_broker::{AuthConfig, BrokerConfig, BrokerCore, Output};
use nolag_core::{
    Action, ClientCore, Config, Disconnect, Event, Instant, Message, OpId, Publish, Refused, Subscribe,
    TransportError, TransportErrorKind, TransportEvent, TransportEventKind, TransportId,
};

use crate::{
    Application, Client, Cut, Fault, Ledger, LinkConfig, Moment, Observation, Observer, Violation, Way,
    network::{Network, Parcel},
    observer::History,
    seat::{Seat, Told},
};

mod clients;
mod network;

/// Steps after which a run counts as stuck.
const MAX_STEPS: u64 = 1_000_000;

/// Virtual time after which a run counts as stuck.
const MAX_TIME: Duration = Duration::from_secs(24 * 3600);

/// One client of a [`World`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(usize);

impl ClientId {
    /// Counts from 0 in the order in which clients were added.
    pub const fn index(self) -> usize {
        self.0
    }

    pub(crate) const fn new(index: usize) -> Self {
        Self(index)
    }
}

impl std::fmt::Display for ClientId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Clients and a broker in virtual time. See the crate's front page.
pub struct World {
    now: Instant,
    rng: fastrand::Rng,
    seats: Vec<Seat>,
    broker: BrokerCore,
    broker_up: bool,
    network: Network,
    delivered: u64,
    /// A cut to make just before this parcel arrives.
    planned_cut: Option<(u64, ClientId, Cut)>,
    /// What happens by itself, by time and then by the order of planning.
    calendar: BTreeMap<(Instant, u64), Planned>,
    planned: u64,
    /// The tokens that are accepted, given whose are revoked.
    auth: Option<Tokens>,
    revoked: BTreeSet<ClientId>,
    /// Draws how outputs are polled, if not in a fixed order.
    polls: Option<fastrand::Rng>,
    observers: Vec<Box<dyn Observer>>,
    violation: Option<Violation>,
    history: History,
    words: String,
    #[cfg(feature = "planted")]
    planted: Option<crate::Planted>,
}

/// Makes the tokens that are accepted, given whose are revoked.
type Tokens = Box<dyn Fn(&BTreeSet<ClientId>) -> AuthConfig>;

/// Something on the calendar.
enum Planned {
    Inflict(Fault),
    StartBroker,
    Reinstate(ClientId),
}

impl World {
    /// A world with a broker and no clients. `seed` decides every link and every client's own choices.
    pub fn new(seed: u64, broker: BrokerConfig) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        Self {
            now: Instant::ZERO,
            network: Network::new(rng.u64(..), LinkConfig::default()),
            rng,
            seats: Vec::new(),
            broker: BrokerCore::new(broker, Instant::ZERO),
            broker_up: true,
            delivered: 0,
            planned_cut: None,
            calendar: BTreeMap::new(),
            planned: 0,
            auth: None,
            revoked: BTreeSet::new(),
            polls: None,
            observers: Vec::new(),
            violation: None,
            history: History::in_words(),
            words: String::new(),
            #[cfg(feature = "planted")]
            planted: None,
        }
    }

    /// The same world, with a fault in the clients that are added from now on.
    #[cfg(feature = "planted")]
    #[must_use]
    pub fn with_planted(mut self, planted: crate::Planted) -> Self {
        self.planted = Some(planted);
        self
    }

    /// The same world with other links.
    #[must_use]
    pub fn with_links(mut self, config: LinkConfig) -> Self {
        self.network.config = config;
        self
    }

    /// The same world without a [`history`](Self::history) in words: long runs then need little memory.
    #[must_use]
    pub fn without_words(mut self) -> Self {
        self.history = History::default();
        self
    }

    /// The same world with tokens that can be revoked: `accepted` makes the broker's tokens, given whose are revoked.
    #[must_use]
    pub fn with_tokens(mut self, accepted: impl Fn(&BTreeSet<ClientId>) -> AuthConfig + 'static) -> Self {
        self.broker.set_auth(self.now, accepted(&self.revoked));
        self.auth = Some(Box::new(accepted));
        self
    }

    /// The same world, polling clients in random order, with polls and timeouts that nothing asks for. To a client this
    /// makes no difference.
    #[must_use]
    pub fn with_random_polls(mut self, seed: u64) -> Self {
        self.polls = Some(fastrand::Rng::with_seed(seed));
        self
    }

    /// Lets an observer watch from now on.
    pub fn watch(&mut self, observer: impl Observer + 'static) {
        self.observers.push(Box::new(observer));
    }

    /// Adds a client that does nothing yet; its events and messages are collected.
    ///
    /// # Panics
    /// When the configuration is invalid.
    pub fn add_client(&mut self, config: Config) -> ClientId {
        self.add(config, None)
    }

    /// Adds a client with an application. The application's clock is the world's; the client has its own.
    ///
    /// # Panics
    /// When the configuration is invalid.
    pub fn add_application(&mut self, config: Config, application: impl Application + 'static) -> ClientId {
        self.add(config, Some(Box::new(application)))
    }

    fn add(&mut self, config: Config, application: Option<Box<dyn Application>>) -> ClientId {
        let id = ClientId(self.seats.len());
        #[cfg(feature = "planted")]
        let config = self.planted.map_or_else(|| config.clone(), |planted| planted.spoil(config.clone()));
        self.seats.push(Seat::new(id, config, self.rng.u64(..), self.now, application));
        #[cfg(feature = "planted")]
        self.seats[id.0].core.plant(self.planted);
        id
    }

    // ---- commands ----

    /// Runs commands of a client.
    pub fn with<R>(&mut self, client: ClientId, run: impl FnOnce(&mut Client<'_>) -> R) -> R {
        let result = self.command(client, run);
        self.settle(client);
        self.carry_out();
        result
    }

    fn command<R>(&mut self, client: ClientId, run: impl FnOnce(&mut Client<'_>) -> R) -> R {
        let mut handle = self.seats[client.0].client(self.now);
        let result = run(&mut handle);
        let accepted = std::mem::take(&mut handle.accepted);
        self.note_accepted(client, accepted);
        result
    }

    fn note_accepted(&mut self, client: ClientId, accepted: Vec<(OpId, crate::Command)>) {
        for (op, command) in accepted {
            let noted = self.seats[client.0].ledger.accept(op);
            self.check_ledger(client, noted);
            self.observe(client, &Observation::Accepted(op, &command));
        }
    }

    /// Starts connecting.
    ///
    /// # Panics
    /// When the client refuses, which only happens while it is leaving.
    pub fn connect(&mut self, client: ClientId) -> OpId {
        self.with(client, |client| client.connect()).expect("not leaving")
    }

    /// Subscribes.
    ///
    /// # Errors
    /// As [`ClientCore::subscribe`].
    pub fn subscribe(&mut self, client: ClientId, subscribe: Subscribe) -> Result<OpId, Refused<Subscribe>> {
        self.with(client, |client| client.subscribe(subscribe))
    }

    /// Unsubscribes.
    ///
    /// # Errors
    /// As [`ClientCore::unsubscribe`].
    pub fn unsubscribe(&mut self, client: ClientId, topic: &str) -> Result<OpId, nolag_core::Error> {
        self.with(client, |client| client.unsubscribe(topic))
    }

    /// Publishes.
    ///
    /// # Errors
    /// As [`ClientCore::publish`].
    pub fn publish(&mut self, client: ClientId, publish: Publish) -> Result<OpId, Refused<Publish>> {
        self.with(client, |client| client.publish(publish))
    }

    /// Leaves.
    pub fn disconnect(&mut self, client: ClientId, mode: Disconnect) -> OpId {
        self.with(client, |client| client.disconnect(mode))
    }

    // ---- what happened ----

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The clients, in the order of adding.
    pub fn clients(&self) -> impl ExactSizeIterator<Item = ClientId> + use<> {
        (0..self.seats.len()).map(ClientId)
    }

    /// What a client accepted, and how it ended. For clients with an application only what is open.
    pub fn ledger(&self, client: ClientId) -> &Ledger {
        &self.seats[client.0].ledger
    }

    /// A client's core, to look at.
    pub fn core(&self, client: ClientId) -> &ClientCore {
        &self.seats[client.0].core
    }

    /// The broker, to look at.
    pub fn broker(&self) -> &BrokerCore {
        &self.broker
    }

    /// What a client without an application was told since the last call, outcomes included.
    pub fn take_events(&mut self, client: ClientId) -> Vec<Event> {
        std::mem::take(&mut self.seats[client.0].events)
    }

    /// What a client without an application received since the last call. Messages are acked as they come.
    pub fn take_messages(&mut self, client: ClientId) -> Vec<Message> {
        std::mem::take(&mut self.seats[client.0].messages)
    }

    /// Parcels delivered so far: the steps at which [`cut_at`](Self::cut_at) can strike.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Everything that happened, one line each: two runs are the same when their histories are.
    pub fn history(&self) -> &str {
        self.history.text()
    }

    /// A digest of everything that came out of the clients, in order and with its time.
    pub fn digest(&self) -> u64 {
        self.history.sum()
    }

    /// The first invariant that did not hold. Nothing happens after it.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    // ---- faults ----

    /// Lets something go wrong at a time.
    pub fn plan(&mut self, at: Instant, fault: Fault) {
        self.put_on_calendar(at, Planned::Inflict(fault));
    }

    fn put_on_calendar(&mut self, at: Instant, planned: Planned) {
        self.calendar.insert((at, self.planned), planned);
        self.planned += 1;
    }

    /// Lets something go wrong now.
    pub fn inflict(&mut self, fault: &Fault) {
        if let Some(client) = fault.client() {
            self.observe(client, &Observation::Fault(fault));
        } else {
            for client in self.clients() {
                self.observe(client, &Observation::Fault(fault));
            }
        }
        self.history.line(self.now, format_args!("{fault}"));
        match *fault {
            Fault::Cut { client, cut, keep } => {
                if let Some(link) = self.seats[client.0].link {
                    self.network.cut(self.now, link, cut, keep);
                }
            }
            Fault::Silence { client, way, span } => {
                if let Some(link) = self.seats[client.0].link {
                    let until = span.map(|span| self.now + span);
                    for each in [Way::ToBroker, Way::ToClient] {
                        if way.is_none_or(|way| way == each) {
                            self.network.silence(link, each, until);
                        }
                    }
                }
            }
            Fault::Refuse { client, span } => self.seats[client.0].refused_until = self.now + span,
            Fault::Ignore { client, span } => self.seats[client.0].ignored_until = self.now + span,
            Fault::Restart { span, forget } => {
                self.stop_broker();
                if forget {
                    self.broker.restart(self.now);
                }
                self.put_on_calendar(self.now + span, Planned::StartBroker);
            }
            Fault::Stop { client, span } => self.seats[client.0].stop_until(self.now + span),
            Fault::Slow { client, gap, span } => {
                self.seats[client.0].slow = Some((gap, self.now + span));
            }
            Fault::Freeze { client, span } => self.seats[client.0].freeze_until(self.now + span),
            Fault::Clock { client, by } => self.seats[client.0].shift_clock(self.now, by),
            Fault::ExpireToken { client } => {
                if let Some(conn) = self.conn_of(client) {
                    self.broker.expire_token(self.now, conn);
                }
            }
            Fault::Revoke { client, span } => {
                self.revoked.insert(client);
                self.renew_tokens();
                if let Some(conn) = self.conn_of(client) {
                    self.broker.close(self.now, conn, 4001, "token_revoked");
                }
                self.put_on_calendar(self.now + span, Planned::Reinstate(client));
            }
        }
        if let Some(client) = fault.client() {
            self.seats[client.0].schedule(self.now);
        }
        self.carry_out();
    }

    fn renew_tokens(&mut self) {
        if let Some(auth) = &self.auth {
            self.broker.set_auth(self.now, auth(&self.revoked));
        }
    }

    fn conn_of(&self, client: ClientId) -> Option<nolag_broker::ConnectionId> {
        self.network.get(self.seats[client.0].link?).conn
    }

    /// Cuts a client's link just before the `step`-th parcel of the world (counted from 0) arrives. What travels on that
    /// link is lost.
    pub fn cut_at(&mut self, step: u64, client: ClientId, cut: Cut) {
        self.planned_cut = Some((step, client, cut));
    }

    /// Cuts a client's current link now. What was under way is lost in both directions.
    pub fn cut(&mut self, client: ClientId, cut: Cut) {
        self.cut_current_link(client, cut);
        self.settle(client);
        self.carry_out();
    }

    fn cut_current_link(&mut self, client: ClientId, cut: Cut) {
        if let Some(link) = self.seats[client.0].link {
            self.cut_link(link, cut);
        }
    }

    fn cut_link(&mut self, link: usize, cut: Cut) {
        self.network.end(link);
        if cut != Cut::ClientBlind {
            self.tell_client(link, TransportEventKind::Closed { code: None, reason: String::new() });
        }
        if cut != Cut::BrokerBlind {
            self.tell_broker_closed(link);
        }
    }

    /// Stops the broker: its connections break and new ones are refused.
    pub fn stop_broker(&mut self) {
        self.broker_up = false;
        for client in self.clients() {
            let Some(link) = self.seats[client.0].link else { continue };
            if self.network.get(link).conn.is_some() {
                self.network.cut(self.now, link, Cut::BrokerBlind, [0, 1000]);
                self.tell_broker_closed(link);
            }
        }
        self.carry_out();
    }

    /// Starts the broker again; what it holds in memory is as it was.
    pub fn start_broker(&mut self) {
        self.broker_up = true;
    }

    // ---- time ----

    /// Runs until `done`.
    ///
    /// # Panics
    /// When nothing is left to happen, or far too much has, or an invariant does not hold.
    pub fn run_until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        let end = self.now + MAX_TIME;
        for _ in 0..MAX_STEPS {
            if done(self) {
                return;
            }
            assert!(self.step(), "nothing is left to happen:\n{}", self.explain());
            assert!(self.now < end, "still not done after a day:\n{}", self.explain());
        }
        panic!("still not done after {MAX_STEPS} steps:\n{}", self.explain());
    }

    /// Runs for a span of virtual time, or until an invariant does not hold.
    pub fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        while self.next_event().is_some_and(|at| at <= end) && self.step() {}
        if self.violation.is_none() {
            self.now = end;
        }
    }

    /// Lets the next thing happen; `false` when nothing ever will.
    pub fn step(&mut self) -> bool {
        if self.violation.is_some() {
            return false;
        }
        let Some(at) = self.next_event() else { return false };
        self.now = self.now.max(at);
        if let Some(entry) = self.calendar.first_entry().filter(|entry| entry.key().0 <= self.now) {
            match entry.remove() {
                Planned::Inflict(fault) => self.inflict(&fault),
                Planned::StartBroker => self.start_broker(),
                Planned::Reinstate(client) => {
                    self.revoked.remove(&client);
                    self.renew_tokens();
                }
            }
        } else if let Some((link, parcel)) = self.network.pop_due(self.now) {
            self.arrive(link, parcel);
        } else {
            for client in self.clients() {
                if self.seats[client.0].is_due(self.now) {
                    self.wake(client);
                }
            }
            self.broker.handle_timeout(self.now);
        }
        self.carry_out();
        true
    }

    fn next_event(&self) -> Option<Instant> {
        let seats = self.seats.iter().filter_map(|seat| seat.next);
        let planned = self.calendar.first_key_value().map(|((at, _), _)| *at);
        let rest = [planned, self.network.next_arrival(), self.broker.poll_timeout()];
        seats.chain(rest.into_iter().flatten()).min()
    }

    /// The time of a client has come: a timer of its own, of its application, or the end of a fault.
    fn wake(&mut self, client: ClientId) {
        let seat = &mut self.seats[client.0];
        if seat.is_frozen(self.now) {
            seat.schedule(self.now);
            return;
        }
        self.read_backlog(client);
        let seat = &mut self.seats[client.0];
        seat.core.handle_timeout(seat.clock(self.now));
        self.settle(client);
    }

    /// Lets a client have what arrived while it was not reading.
    fn read_backlog(&mut self, client: ClientId) {
        while self.seats[client.0].reads(self.now) {
            let Some((link, kind)) = self.seats[client.0].backlog.pop_front() else { return };
            self.hand_over(link, kind);
            self.settle(client);
        }
    }

    /// Where every client stands, and the last lines of the history: what a failing test prints.
    pub fn explain(&self) -> String {
        let mut text = String::new();
        for (index, seat) in self.seats.iter().enumerate() {
            let open: Vec<_> = seat.ledger.open().collect();
            let _ = writeln!(text, "client {index}: {}; open {open:?}", seat.core.explain());
        }
        let tail = self.history.text().lines().rev().take(30).collect::<Vec<_>>();
        for line in tail.iter().rev() {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    // ---- watching ----

    fn observe(&mut self, client: ClientId, what: &Observation<'_>) {
        let seat = &self.seats[client.0];
        let moment = Moment { now: self.now, clock: seat.clock(self.now), client, core: &seat.core };
        for observer in &mut self.observers {
            if let Err(violation) = observer.observe(&moment, what) {
                self.violation.get_or_insert(violation);
            }
        }
    }

    fn check_ledger(&mut self, client: ClientId, noted: Result<(), String>) {
        if let Err(detail) = noted {
            let invariant = "one_outcome_per_command";
            self.violation.get_or_insert(Violation { invariant, client, at: self.now, detail });
        }
    }
}
