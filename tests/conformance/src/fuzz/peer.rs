//! One client and its links.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};
use nolag_broker::{BrokerCore, ConnectionId, Instant, Output};
use nolag_core::{
    Action, ClientCore, Config, Event, OpId, Outcome, Status, SubscriptionId, TransportEvent,
    TransportEventKind, TransportId,
};

use super::{
    commands::{self, Command},
    witness::number_of,
};

/// Who notices that a link is cut. What was under way is lost, whoever does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    BrokerBlind,
    ClientBlind,
    Noticed,
}

/// What goes to the broker.
pub(super) enum Up {
    Open,
    Frame(Bytes),
    Close,
}

/// What comes from it.
enum Down {
    Opened,
    Frame(Bytes),
    Closed(Option<u16>),
}

struct Link {
    transport: TransportId,
    conn: Option<ConnectionId>,
    up: VecDeque<Up>,
    down: VecDeque<Down>,
    /// Nothing arrives any more, and the client does not know.
    cut: bool,
}

/// A message with a number, as it reached the application.
pub(super) struct Heard {
    pub(super) number: u32,
    pub(super) subscription: Option<SubscriptionId>,
}

/// A client, its links, and what it was told.
pub(super) struct Peer {
    pub(super) core: ClientCore,
    /// The oldest first; only the last can be in use.
    links: Vec<Link>,
    /// Connections that the broker does not know to be over.
    orphans: Vec<ConnectionId>,
    open: BTreeSet<OpId>,
    outcomes: BTreeMap<OpId, Outcome>,
    /// The last command about each topic, and whether it subscribes.
    last: BTreeMap<String, (OpId, bool)>,
    pub(super) heard: Vec<Heard>,
}

impl Peer {
    pub(super) fn new(config: Config, seed: u64, now: Instant) -> Self {
        Self {
            core: ClientCore::new(config, seed, now).expect("a valid configuration"),
            links: Vec::new(),
            orphans: Vec::new(),
            open: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            last: BTreeMap::new(),
            heard: Vec::new(),
        }
    }

    pub(super) fn give(&mut self, now: Instant, command: Command) -> Option<OpId> {
        let about = match &command {
            Command::Subscribe(subscribe) => Some((subscribe.topic.clone(), true)),
            Command::Unsubscribe(topic) => Some(((*topic).to_owned(), false)),
            _ => None,
        };
        let leaves = matches!(command, Command::Disconnect(_));
        let op = commands::give(&mut self.core, now, command).ok()?;
        assert!(self.open.insert(op) && !self.outcomes.contains_key(&op), "{op:?} was given out twice");
        if let Some((topic, subscribes)) = about {
            self.last.insert(topic, (op, subscribes));
        }
        if leaves {
            self.last.clear();
        }
        Some(op)
    }

    /// Commands without an outcome.
    pub(super) fn open(&self) -> &BTreeSet<OpId> {
        &self.open
    }

    pub(super) fn outcome(&self, op: OpId) -> Option<&Outcome> {
        self.outcomes.get(&op)
    }

    /// The topics whose last command succeeded, and whether they are subscribed since.
    pub(super) fn told(&self) -> impl Iterator<Item = (&str, bool)> {
        self.last.iter().filter_map(|(topic, (op, subscribes))| match self.outcomes.get(op)? {
            Outcome::Subscribed { .. } | Outcome::Unsubscribed => Some((topic.as_str(), *subscribes)),
            _ => None,
        })
    }

    /// Whether every command has ended and everything that is wanted stands.
    pub(super) fn is_settled(&self) -> bool {
        let stands = matches!(self.core.status(), Status::Connected | Status::Disconnected);
        stands && self.open.is_empty() && self.core.subscriptions().all(|info| info.live)
    }

    // ---- links ----

    /// The broker's end of the link in use.
    pub(super) fn conn(&self) -> Option<ConnectionId> {
        self.links.last()?.conn
    }

    pub(super) fn has(&self, conn: ConnectionId) -> bool {
        self.links.iter().any(|link| link.conn == Some(conn))
    }

    /// What the broker wants of one of its connections with this client.
    pub(super) fn receive(&mut self, output: Output) {
        let conn = output.conn();
        let Some(link) = self.links.iter_mut().find(|link| link.conn == Some(conn) && !link.cut) else {
            return;
        };
        link.down.push_back(match output {
            Output::Send { frame, .. } => Down::Frame(frame),
            Output::Close { code, .. } => Down::Closed(Some(code)),
            Output::Cut { .. } => Down::Closed(None),
        });
    }

    /// Lets the next thing arrive at the broker; opening a link is done here.
    pub(super) fn next_up(
        &mut self,
        now: Instant,
        broker: &mut BrokerCore,
    ) -> Option<(Option<ConnectionId>, Up)> {
        let at = self.links.iter().position(|link| !link.up.is_empty())?;
        let link = &mut self.links[at];
        let up = link.up.pop_front()?;
        match up {
            Up::Open => {
                link.conn = Some(broker.open(now));
                link.down.push_back(Down::Opened);
                Some((None, Up::Open))
            }
            Up::Frame(frame) => Some((link.conn, Up::Frame(frame))),
            Up::Close => Some((self.links.remove(at).conn, Up::Close)),
        }
    }

    /// Lets the next thing arrive at the client.
    pub(super) fn take_down(&mut self, now: Instant) -> bool {
        let Some(at) = self.links.iter().position(|link| !link.down.is_empty()) else { return false };
        let link = &mut self.links[at];
        let id = link.transport;
        let kind = match link.down.pop_front() {
            None => return false,
            Some(Down::Opened) => TransportEventKind::Opened,
            Some(Down::Frame(frame)) => TransportEventKind::Message(frame),
            Some(Down::Closed(code)) => {
                self.links.remove(at);
                TransportEventKind::Closed { code, reason: String::new() }
            }
        };
        self.core.handle_transport(now, TransportEvent { id, kind });
        true
    }

    pub(super) fn cut(&mut self, now: Instant, broker: &mut BrokerCore, cut: Cut) {
        let Some(link) = self.links.last_mut() else { return };
        link.up.clear();
        link.down.clear();
        link.cut = true;
        match (link.conn, cut) {
            (Some(conn), Cut::BrokerBlind) => self.orphans.push(conn),
            (Some(conn), _) => broker.handle_close(now, conn),
            (None, _) => {}
        }
        if cut != Cut::ClientBlind {
            self.notice_cut(now);
        }
    }

    /// Everybody learns of every cut.
    pub(super) fn notice_cuts(&mut self, now: Instant, broker: &mut BrokerCore) {
        self.orphans.drain(..).for_each(|conn| broker.handle_close(now, conn));
        if self.links.last().is_some_and(|link| link.cut) {
            self.notice_cut(now);
        }
        self.links.retain(|link| !link.cut);
    }

    fn notice_cut(&mut self, now: Instant) {
        if let Some(Link { transport: id, .. }) = self.links.pop() {
            let kind = TransportEventKind::Closed { code: None, reason: String::new() };
            self.core.handle_transport(now, TransportEvent { id, kind });
        }
    }

    /// Carries out what the client wants.
    pub(super) fn pump(&mut self, now: Instant) {
        let mut out = BytesMut::new();
        loop {
            if let Some(transmit) = self.core.poll_transmit(now, &mut out) {
                let frame = out.split_to(transmit.len).freeze();
                self.send(transmit.transport, Up::Frame(frame));
            } else if let Some(action) = self.core.poll_action() {
                match action {
                    Action::OpenTransport { id } => {
                        let (up, down) = (VecDeque::from([Up::Open]), VecDeque::new());
                        self.links.push(Link { transport: id, conn: None, up, down, cut: false });
                    }
                    Action::CloseTransport { id, .. } => self.close(id),
                    _ => {}
                }
            } else if let Some(event) = self.core.poll_event() {
                self.take_event(event);
            } else if let Some(message) = self.core.poll_message() {
                if let Some(msg_id) = message.ack_id() {
                    self.core.ack(now, msg_id);
                }
                if let Some(number) = number_of(message.payload().as_msgpack()) {
                    self.heard.push(Heard { number, subscription: message.subscription() });
                }
            } else {
                return;
            }
        }
    }

    fn send(&mut self, transport: TransportId, up: Up) {
        let link = self.links.iter_mut().find(|link| link.transport == transport);
        if let Some(link) = link.filter(|link| !link.cut) {
            link.up.push_back(up);
        }
    }

    fn close(&mut self, transport: TransportId) {
        self.send(transport, Up::Close);
        // The broker will never know of a close on a link that is cut.
        self.links.retain(|link| link.transport != transport || !link.cut);
        if let Some(link) = self.links.iter_mut().find(|link| link.transport == transport) {
            link.down.clear();
        }
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Done { op, outcome } => {
                assert!(self.open.remove(&op), "{op:?} was not accepted, or ends twice: {outcome:?}");
                self.outcomes.insert(op, outcome);
            }
            Event::SubscriptionEnded { topic, .. } => _ = self.last.remove(&*topic),
            Event::GaveUp { .. } => self.last.clear(),
            _ => {}
        }
    }
}
