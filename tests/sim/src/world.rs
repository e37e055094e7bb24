//! Clients, a broker and the network between them.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use bytes::BytesMut;
use nolag_broker::{BrokerConfig, BrokerCore, ConnectionId, Output};
use nolag_core::{
    Action, ClientCore, Config, Disconnect, Event, Instant, Message, OpId, Outcome, Publish, Refused,
    Subscribe, TransportError, TransportErrorKind, TransportEvent, TransportEventKind,
};

use crate::{
    Ledger,
    link::{Cut, Link, LinkConfig, Parcel},
};

/// Steps after which a run counts as stuck.
const MAX_STEPS: u64 = 1_000_000;

/// Virtual time after which a run counts as stuck.
const MAX_TIME: Duration = Duration::from_secs(24 * 3600);

/// One client of a [`World`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(usize);

struct Client {
    core: ClientCore,
    ledger: Ledger,
    events: Vec<Event>,
    messages: Vec<Message>,
}

/// Clients and a broker in virtual time. See the crate's front page.
pub struct World {
    now: Instant,
    rng: fastrand::Rng,
    link_config: LinkConfig,
    clients: Vec<Client>,
    broker: BrokerCore,
    broker_up: bool,
    links: Vec<Link>,
    /// What is under way, by arrival and then by the order of sending.
    parcels: BTreeMap<(Instant, u64), (usize, Parcel)>,
    sent: u64,
    delivered: u64,
    /// A cut to make just before this parcel arrives.
    planned_cut: Option<(u64, ClientId, Cut)>,
    history: String,
}

impl World {
    /// A world with a broker and no clients. `seed` decides jitter and every client's own choices.
    pub fn new(seed: u64, broker: BrokerConfig) -> Self {
        Self {
            now: Instant::ZERO,
            rng: fastrand::Rng::with_seed(seed),
            link_config: LinkConfig::default(),
            clients: Vec::new(),
            broker: BrokerCore::new(broker, Instant::ZERO),
            broker_up: true,
            links: Vec::new(),
            parcels: BTreeMap::new(),
            sent: 0,
            delivered: 0,
            planned_cut: None,
            history: String::new(),
        }
    }

    /// The same world with other links.
    pub fn with_links(mut self, config: LinkConfig) -> Self {
        self.link_config = config;
        self
    }

    /// Adds a client that does nothing yet.
    ///
    /// # Panics
    /// When the configuration is invalid.
    pub fn add_client(&mut self, config: Config) -> ClientId {
        let seed = self.rng.u64(..);
        let core = ClientCore::new(config, seed, self.now).expect("the test gives a valid configuration");
        let (ledger, events, messages) = (Ledger::default(), Vec::new(), Vec::new());
        self.clients.push(Client { core, ledger, events, messages });
        ClientId(self.clients.len() - 1)
    }

    // ---- commands, noted in the ledger ----

    /// Starts connecting.
    ///
    /// # Panics
    /// When the client refuses, which only happens while it is leaving.
    pub fn connect(&mut self, client: ClientId) -> OpId {
        let now = self.now;
        let op = self.clients[client.0].core.connect(now).expect("not leaving");
        self.accepted(client, op)
    }

    /// Subscribes.
    ///
    /// # Errors
    /// As [`ClientCore::subscribe`].
    pub fn subscribe(&mut self, client: ClientId, subscribe: Subscribe) -> Result<OpId, Refused<Subscribe>> {
        let now = self.now;
        let op = self.clients[client.0].core.subscribe(now, subscribe)?;
        Ok(self.accepted(client, op))
    }

    /// Unsubscribes.
    ///
    /// # Errors
    /// As [`ClientCore::unsubscribe`].
    pub fn unsubscribe(&mut self, client: ClientId, topic: &str) -> Result<OpId, nolag_core::Error> {
        let now = self.now;
        let op = self.clients[client.0].core.unsubscribe(now, topic)?;
        Ok(self.accepted(client, op))
    }

    /// Publishes.
    ///
    /// # Errors
    /// As [`ClientCore::publish`].
    pub fn publish(&mut self, client: ClientId, publish: Publish) -> Result<OpId, Refused<Publish>> {
        let now = self.now;
        let op = self.clients[client.0].core.publish(now, publish)?;
        Ok(self.accepted(client, op))
    }

    /// Leaves.
    pub fn disconnect(&mut self, client: ClientId, mode: Disconnect) -> OpId {
        let now = self.now;
        let op = self.clients[client.0].core.disconnect(now, mode);
        self.accepted(client, op)
    }

    fn accepted(&mut self, client: ClientId, op: OpId) -> OpId {
        self.clients[client.0].ledger.accept(op);
        self.pump();
        op
    }

    // ---- what happened ----

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What a client accepted and how it ended.
    pub fn ledger(&self, client: ClientId) -> &Ledger {
        &self.clients[client.0].ledger
    }

    /// A client's core, to look at.
    pub fn core(&self, client: ClientId) -> &ClientCore {
        &self.clients[client.0].core
    }

    /// The broker, to look at.
    pub fn broker(&self) -> &BrokerCore {
        &self.broker
    }

    /// What a client was told since the last call, outcomes included.
    pub fn take_events(&mut self, client: ClientId) -> Vec<Event> {
        std::mem::take(&mut self.clients[client.0].events)
    }

    /// What a client received since the last call. Messages are acked as they come.
    pub fn take_messages(&mut self, client: ClientId) -> Vec<Message> {
        std::mem::take(&mut self.clients[client.0].messages)
    }

    /// Parcels delivered so far: the steps at which [`cut_at`](Self::cut_at) can strike.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Everything that happened, one line each: two runs are the same when their histories are.
    pub fn history(&self) -> &str {
        &self.history
    }

    // ---- faults ----

    /// Cuts a client's link just before the `step`-th parcel of the world (counted from 0) arrives; if it travels on
    /// that link, it is lost.
    pub fn cut_at(&mut self, step: u64, client: ClientId, cut: Cut) {
        self.planned_cut = Some((step, client, cut));
    }

    /// Cuts a client's current link now.
    pub fn cut(&mut self, client: ClientId, cut: Cut) {
        self.cut_current_link(client, cut);
        self.pump();
    }

    /// Stops the broker: its connections break and new ones are refused.
    pub fn stop_broker(&mut self) {
        self.broker_up = false;
        for link in 0..self.links.len() {
            if !self.links[link].dead {
                self.cut_link(link, Cut::Noticed);
            }
        }
        self.pump();
    }

    /// Starts the broker again; what it holds in memory is as it was.
    pub fn start_broker(&mut self) {
        self.broker_up = true;
    }

    // ---- time ----

    /// Runs until `done`.
    ///
    /// # Panics
    /// When nothing is left to happen, or far too much has.
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

    /// Runs for a span of virtual time.
    pub fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        while self.next_event().is_some_and(|at| at <= end) {
            self.step();
        }
        self.now = end;
    }

    /// Lets the next thing happen; `false` when nothing ever will.
    pub fn step(&mut self) -> bool {
        let Some(at) = self.next_event() else { return false };
        self.now = self.now.max(at);
        match self.parcels.first_key_value() {
            Some((&key, _)) if key.0 <= self.now => {
                if let Some((link, parcel)) = self.parcels.remove(&key) {
                    self.arrive(link, parcel);
                }
            }
            _ => {
                for client in &mut self.clients {
                    client.core.handle_timeout(self.now);
                }
                self.broker.handle_timeout(self.now);
            }
        }
        self.pump();
        true
    }

    fn next_event(&self) -> Option<Instant> {
        let parcel = self.parcels.first_key_value().map(|((at, _), _)| *at);
        let clients = self.clients.iter().filter_map(|client| client.core.poll_timeout());
        clients.chain(parcel).chain(self.broker.poll_timeout()).min()
    }

    /// Where every client stands, and the last lines of the history: what a failing test prints.
    pub fn explain(&self) -> String {
        let mut text = String::new();
        for (index, client) in self.clients.iter().enumerate() {
            let open: Vec<_> = client.ledger.open().collect();
            let _ = writeln!(text, "client {index}: {}; open {open:?}", client.core.explain());
        }
        let tail = self.history.lines().rev().take(30).collect::<Vec<_>>();
        for line in tail.iter().rev() {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    fn note(&mut self, what: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.history, "{:?} {what}", self.now);
    }

    // ---- the network ----

    fn send(&mut self, link: usize, parcel: Parcel) {
        if self.links[link].dead {
            return;
        }
        let jitter = self.link_config.jitter.as_micros() as u64;
        let travel = self.link_config.latency + Duration::from_micros(self.rng.u64(0..=jitter));
        let at = self.links[link].arrival(self.now, travel, parcel.is_to_broker());
        self.parcels.insert((at, self.sent), (link, parcel));
        self.sent += 1;
    }

    fn arrive(&mut self, link: usize, parcel: Parcel) {
        if self.links[link].dead {
            return;
        }
        let step = self.delivered;
        self.delivered += 1;
        if let Some((_, client, cut)) = self.planned_cut.filter(|(planned, ..)| *planned == step) {
            self.note(format_args!("step {step}: client {} is cut, {cut:?}", client.0));
            self.cut_current_link(client, cut);
            if self.links[link].dead {
                return;
            }
        }
        self.note(format_args!("step {step}: link {link} {}", describe(&parcel)));
        match parcel {
            Parcel::Open if self.broker_up => {
                self.links[link].conn = Some(self.broker.open(self.now));
                self.send(link, Parcel::Opened);
            }
            Parcel::Open => self.refuse(link),
            Parcel::Opened => self.tell_client(link, TransportEventKind::Opened),
            Parcel::ToBroker(frame) => {
                if let Some(conn) = self.links[link].conn {
                    self.broker.handle_binary(self.now, conn, &frame);
                }
            }
            Parcel::ToClient(frame) => self.tell_client(link, TransportEventKind::Message(frame)),
            Parcel::ClientClosed => {
                self.tell_broker_closed(link);
                self.links[link].dead = true;
            }
            Parcel::BrokerClosed { code, reason } => {
                self.tell_client(
                    link,
                    TransportEventKind::Closed { code: Some(code), reason: reason.into() },
                );
                self.links[link].dead = true;
            }
            Parcel::BrokerCut => {
                self.tell_client(link, TransportEventKind::Closed { code: None, reason: String::new() });
                self.links[link].dead = true;
            }
        }
    }

    fn refuse(&mut self, link: usize) {
        let error = TransportError::new(TransportErrorKind::Connect, "refused");
        self.tell_client(link, TransportEventKind::Failed(error));
        self.links[link].dead = true;
    }

    fn cut_current_link(&mut self, client: ClientId, cut: Cut) {
        if let Some(link) = self.links.iter().rposition(|link| link.client == client && !link.dead) {
            self.cut_link(link, cut);
        }
    }

    fn cut_link(&mut self, link: usize, cut: Cut) {
        self.links[link].dead = true;
        if cut != Cut::ClientBlind {
            self.tell_client(link, TransportEventKind::Closed { code: None, reason: String::new() });
        }
        if cut != Cut::BrokerBlind {
            self.tell_broker_closed(link);
        }
    }

    fn tell_client(&mut self, link: usize, kind: TransportEventKind) {
        let Link { client, transport: id, .. } = self.links[link];
        self.clients[client.0].core.handle_transport(self.now, TransportEvent { id, kind });
    }

    fn tell_broker_closed(&mut self, link: usize) {
        if let Some(conn) = self.links[link].conn {
            self.broker.handle_close(self.now, conn);
        }
    }

    fn link_of(&self, conn: ConnectionId) -> Option<usize> {
        self.links.iter().rposition(|link| link.conn == Some(conn))
    }

    /// Carries out what clients and broker want, until they want nothing more.
    fn pump(&mut self) {
        for index in 0..self.clients.len() {
            self.pump_client(ClientId(index));
        }
        while let Some(output) = self.broker.poll_output() {
            let Some(link) = self.link_of(output.conn()) else { continue };
            match output {
                Output::Send { frame, .. } => self.send(link, Parcel::ToClient(frame)),
                Output::Close { code, reason, .. } => self.send(link, Parcel::BrokerClosed { code, reason }),
                Output::Cut { .. } => self.send(link, Parcel::BrokerCut),
            }
        }
    }

    fn pump_client(&mut self, id: ClientId) {
        let now = self.now;
        let mut out = BytesMut::new();
        loop {
            let core = &mut self.clients[id.0].core;
            if let Some(transmit) = core.poll_transmit(now, &mut out) {
                let frame = out.split_to(transmit.len).freeze();
                let link =
                    self.links.iter().rposition(|l| l.client == id && l.transport == transmit.transport);
                if let Some(link) = link {
                    self.send(link, Parcel::ToBroker(frame));
                }
            } else if let Some(action) = core.poll_action() {
                self.act(id, &action);
            } else if let Some(event) = core.poll_event() {
                self.note(format_args!("client {} {event:?}", id.0));
                let client = &mut self.clients[id.0];
                if let Event::Done { op, outcome } = &event {
                    client.ledger.settle(*op, Outcome::clone(outcome));
                }
                client.events.push(event);
            } else if let Some(message) = core.poll_message() {
                if let Some(msg_id) = message.meta.ack_id() {
                    core.ack(now, msg_id);
                }
                self.clients[id.0].messages.push(message);
            } else {
                return;
            }
        }
    }

    fn act(&mut self, client: ClientId, action: &Action) {
        match action {
            Action::OpenTransport { id } => {
                self.links.push(Link::new(client, *id));
                self.send(self.links.len() - 1, Parcel::Open);
            }
            Action::CloseTransport { id, .. } => {
                if let Some(link) = self.links.iter().rposition(|l| l.client == client && l.transport == *id)
                {
                    self.send(link, Parcel::ClientClosed);
                }
            }
            _ => {}
        }
    }
}

/// A parcel without its contents, which may be secret.
fn describe(parcel: &Parcel) -> String {
    use nolag_core::wire::{ClientFrame, ServerFrame};
    match parcel {
        Parcel::ToBroker(frame) => match ClientFrame::decode(frame) {
            Ok(decoded) => format!("→ {} ({} bytes)", decoded.type_name(), frame.len()),
            Err(error) => format!("→ {error}"),
        },
        Parcel::ToClient(frame) => match ServerFrame::decode(frame) {
            Ok(decoded) => format!("← {} ({} bytes)", decoded.type_name(), frame.len()),
            Err(error) => format!("← {error}"),
        },
        Parcel::Open => "→ open".into(),
        Parcel::Opened => "← opened".into(),
        Parcel::ClientClosed => "→ closed".into(),
        Parcel::BrokerClosed { code, .. } => format!("← closed {code}"),
        Parcel::BrokerCut => "← cut".into(),
    }
}
