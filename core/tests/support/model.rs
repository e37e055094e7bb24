//! A small model of a client: where it stands, which commands are open, what it wants.
//!
//! It knows nothing of frames, timers and replies. Its broker answers everything when told to, so that for each step
//! there is one right answer to "which commands have ended now".

use std::collections::{BTreeMap, BTreeSet};

use proptest::{prelude::*, sample::select};
use proptest_state_machine::ReferenceStateMachine;

/// How a session must have lasted for the failures before it to be forgotten, in milliseconds.
const STABLE: u64 = 30_000;

/// Where the connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Idle,
    /// The application is asked for a token.
    Token,
    Opening,
    Authenticating,
    Ready,
    Draining,
    Backoff,
}

/// How the client is configured.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// Whether tokens are asked for.
    pub(crate) provider: bool,
    pub(crate) retry_first: bool,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) queue_offline: bool,
    pub(crate) resend: bool,
    pub(crate) seed: u64,
}

/// What a failure means for the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The network, or a broker that will be better.
    Passing,
    /// The broker closes with 1011, as when a frame breaks it.
    Crash,
    /// The token has expired.
    Expired,
    /// The token is not accepted.
    Revoked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Add,
    Remove,
    Set,
}

/// One thing that happens. Numbers choose a topic, a room, a lobby; masks choose filters.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    // The application.
    Connect,
    Disconnect,
    Drain,
    Subscribe {
        topic: usize,
        filters: u8,
        refresh: bool,
    },
    Unsubscribe(usize),
    Filters {
        topic: usize,
        change: Change,
        filters: u8,
    },
    Publish {
        topic: usize,
        tracked: bool,
    },
    SetPresence(usize),
    ClearPresence,
    FetchPresence(usize),
    LobbySubscribe(usize),
    LobbyUnsubscribe(usize),
    FetchLobby(usize),
    ProvideToken,
    TokenUnavailable,
    Ack,
    // The network.
    Opened,
    Lost(Cause),
    Stale(usize),
    // The broker.
    Accept,
    Deny(Cause),
    /// Everything sent so far, and what that leads to, is answered; all about one topic is refused.
    Serve {
        refuse: Option<usize>,
    },
    /// Something that answers nothing.
    Noise(usize),
    // Time.
    /// Milliseconds with a broker that answers.
    Pass(u64),
    /// The patience that the client has now ends.
    Silence,
    /// The next attempt comes.
    Await,
}

pub(crate) const FILTERS: [&str; 3] = ["x", "y", "z"];

pub(crate) fn chosen(mask: u8) -> Vec<&'static str> {
    FILTERS.iter().enumerate().filter(|(n, _)| mask & (1 << n) != 0).map(|(_, filter)| *filter).collect()
}

type Filters = Vec<&'static str>;

/// An accepted command without an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    Connect,
    Disconnect,
    /// For the subscription of that number.
    Subscribe(usize),
    /// Of the subscription of that number.
    Filters(usize),
    Unsubscribe,
    Publish {
        in_flight: bool,
        tracked: bool,
    },
    Presence {
        waiting: bool,
    },
    FetchPresence,
    LobbySubscribe {
        lobby: usize,
        waiting: bool,
    },
    LobbyUnsubscribe,
    FetchLobby,
}

/// One subscription that is wanted.
#[derive(Debug, Clone)]
struct Sub {
    number: usize,
    desired: Filters,
    /// Whether the broker ever confirmed it, and whether it did in this session.
    confirmed: bool,
    live: bool,
    /// Whether a subscribe is on its way.
    asked: bool,
    /// The change on its way, what it makes of the filters, and whether a subscribe went after it.
    in_flight: Option<(usize, Filters, bool)>,
    waiting: Vec<(usize, Change, Filters)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) setup: Setup,
    pub(crate) link: Link,
    /// Whether a session was lost since `connect`.
    had_session: bool,
    attempts: u32,
    /// How long the session has stood, in milliseconds.
    stood: u64,
    /// Whether there is a token that no attempt was made with.
    fresh_token: bool,
    /// How many commands were accepted; they are numbered in this order.
    pub(crate) accepted: usize,
    pub(crate) open: BTreeMap<usize, Open>,
    subs: BTreeMap<usize, Sub>,
    numbers: usize,
    pub(crate) wanted_room: Option<usize>,
    room: Option<usize>,
    moving: Option<usize>,
    /// Where the presence sent last was set.
    set_in: Option<usize>,
    /// Whether a presence on its way is not shown yet, and whether a connection crashed on it.
    unseen: bool,
    suspect_presence: bool,
    /// The publish on which a connection crashed; it is sent again alone.
    suspect: Option<usize>,
    /// Those that are watched, and whether the broker confirmed it in this session.
    lobbies: BTreeMap<usize, bool>,
}

/// What the change makes of the filters; nothing where it is a misuse.
fn applied(current: &[&'static str], change: Change, listed: &[&'static str]) -> Option<Filters> {
    let mut after = match change {
        Change::Set => return Some(listed.to_vec()),
        _ if current.is_empty() => return None,
        _ => current.to_vec(),
    };
    match change {
        Change::Remove => after.retain(|filter| !listed.contains(filter)),
        _ => listed.iter().for_each(|filter| {
            if !after.contains(filter) {
                after.push(filter);
            }
        }),
    }
    (!after.is_empty()).then_some(after)
}

impl Model {
    fn new(setup: Setup) -> Self {
        Self {
            setup,
            link: Link::Idle,
            had_session: false,
            attempts: 0,
            stood: 0,
            fresh_token: false,
            accepted: 0,
            open: BTreeMap::new(),
            subs: BTreeMap::new(),
            numbers: 0,
            wanted_room: None,
            room: None,
            moving: None,
            set_in: None,
            unseen: false,
            suspect_presence: false,
            suspect: None,
            lobbies: BTreeMap::new(),
        }
    }

    /// Topics and filters that are wanted, in the order of the topics.
    pub(crate) fn desired(&self) -> Vec<(usize, Filters)> {
        self.subs.iter().map(|(topic, sub)| (*topic, sub.desired.clone())).collect()
    }

    pub(crate) fn is_reconnecting(&self) -> bool {
        self.had_session
    }

    fn has_transport(&self) -> bool {
        !matches!(self.link, Link::Idle | Link::Token | Link::Backoff)
    }

    fn ready(&self) -> bool {
        matches!(self.link, Link::Ready | Link::Draining)
    }

    /// Whether commands are taken.
    fn takes(&self) -> bool {
        !matches!(self.link, Link::Idle | Link::Draining)
    }

    fn accept(&mut self, open: Open) -> usize {
        let number = self.accepted;
        self.accepted += 1;
        self.open.insert(number, open);
        number
    }

    fn accept_and_end(&mut self) {
        self.accepted += 1;
    }

    fn end(&mut self, ends: impl Fn(&Open) -> bool) {
        self.open.retain(|_, open| !ends(open));
    }

    fn become_idle(&mut self) {
        self.open.clear();
        self.subs.clear();
        self.lobbies.clear();
        (self.wanted_room, self.room, self.moving, self.set_in) = (None, None, None, None);
        (self.unseen, self.suspect_presence, self.suspect) = (false, false, None);
        self.link = Link::Idle;
    }

    fn end_drain(&mut self) {
        let left = self.open.values().any(|open| *open != Open::Disconnect);
        if self.link == Link::Draining && !left {
            self.become_idle();
        }
    }

    fn start_attempt(&mut self) {
        if self.had_session || self.link == Link::Backoff {
            self.attempts += 1;
        }
        if self.setup.provider && !self.fresh_token {
            self.link = Link::Token;
        } else {
            self.open_transport();
        }
    }

    fn open_transport(&mut self) {
        self.fresh_token = false;
        self.link = Link::Opening;
    }

    fn lost(&mut self, cause: Cause) {
        if self.link == Link::Draining {
            return self.become_idle();
        }
        if self.link == Link::Ready {
            self.had_session = true;
            if self.stood >= STABLE {
                self.attempts = 0;
            }
        }
        let token_is_bad = matches!(cause, Cause::Expired | Cause::Revoked);
        if self.setup.provider && token_is_bad {
            self.fresh_token = false;
        }
        let terminal = token_is_bad && !self.setup.provider;
        let first = !self.had_session && !self.setup.retry_first;
        if terminal || first || self.setup.max_attempts.is_some_and(|most| self.attempts >= most) {
            return self.become_idle();
        }
        self.link = Link::Backoff;
        if cause == Cause::Crash {
            self.suspect();
        }
        let (resend, queue) = (self.setup.resend, self.setup.queue_offline);
        let numbers: BTreeSet<usize> = self.subs.values().map(|sub| sub.number).collect();
        let mut changes = BTreeSet::new();
        for sub in self.subs.values_mut() {
            (sub.live, sub.asked) = (false, false);
            if let Some((op, filters, false)) = sub.in_flight.take() {
                sub.waiting.insert(0, (op, Change::Set, filters));
            }
            changes.extend(sub.waiting.iter().map(|(op, ..)| *op));
        }
        let (wanted, lobbies) = (self.wanted_room.is_some(), &mut self.lobbies);
        lobbies.values_mut().for_each(|live| *live = false);
        self.open.retain(|op, open| match open {
            Open::Connect | Open::Disconnect => true,
            Open::Subscribe(number) => numbers.contains(number),
            Open::Filters(_) => changes.contains(op),
            Open::Publish { in_flight: true, .. } => resend,
            Open::Publish { in_flight: false, .. } => resend || queue,
            Open::Presence { .. } => wanted,
            Open::LobbySubscribe { lobby, .. } => lobbies.contains_key(lobby),
            Open::Unsubscribe | Open::FetchPresence | Open::LobbyUnsubscribe | Open::FetchLobby => false,
        });
        for open in self.open.values_mut() {
            match open {
                Open::Publish { in_flight, .. } => *in_flight = false,
                Open::Presence { waiting } | Open::LobbySubscribe { waiting, .. } => *waiting = true,
                _ => {}
            }
        }
        (self.room, self.moving, self.set_in, self.unseen) = (None, None, None, false);
    }

    /// The first unanswered publish and the presence that was not shown are to blame; the second time they end.
    fn suspect(&mut self) {
        let is_under_way = |open: &Open| matches!(open, Open::Publish { in_flight: true, .. });
        let first = self.open.iter().find(|(_, open)| is_under_way(open)).map(|(op, _)| *op);
        if let Some(op) = first.filter(|_| self.setup.resend) {
            if self.suspect.replace(op) == Some(op) {
                (self.suspect, _) = (None, self.open.remove(&op));
            }
        }
        // One that waits is another.
        let waits = self.open.values().any(|open| *open == Open::Presence { waiting: true });
        if self.unseen && self.wanted_room.is_some() && !waits {
            self.suspect_presence = !self.suspect_presence;
            if !self.suspect_presence {
                self.wanted_room = None;
            }
        }
    }

    /// Sends the suspect, once all that stood before stands again.
    fn send_suspect(&mut self) {
        let restored = self.ready() && self.subs.values().all(|sub| !sub.confirmed || sub.live);
        let suspect = self.suspect.filter(|_| restored).and_then(|op| self.open.get_mut(&op));
        if let Some(Open::Publish { in_flight, .. }) = suspect {
            *in_flight = true;
        }
    }

    fn session(&mut self) {
        self.link = Link::Ready;
        self.stood = 0;
        self.end(|open| *open == Open::Connect);
        let alone = self.suspect.is_some();
        self.end(|open| matches!(open, Open::Publish { tracked: false, .. } if !alone));
        self.subs.values_mut().for_each(|sub| sub.asked = true);
        for open in self.open.values_mut() {
            match open {
                Open::Publish { in_flight, .. } => *in_flight = !alone,
                Open::LobbySubscribe { waiting, .. } => *waiting = false,
                _ => {}
            }
        }
        self.send_presence();
        self.send_suspect();
    }

    fn send_presence(&mut self) {
        self.open.values_mut().for_each(|open| {
            if let Open::Presence { waiting } = open {
                *waiting = false;
            }
        });
        if let Some(room) = self.wanted_room {
            if self.room != Some(room) {
                self.moving = Some(room);
            }
            (self.set_in, self.unseen) = (Some(room), true);
        }
    }

    fn subscribe(&mut self, topic: usize, filters: Filters, refresh: bool) {
        let ready = self.ready();
        let Some(sub) = self.subs.get_mut(&topic) else {
            let number = self.numbers;
            self.numbers += 1;
            let sub = Sub {
                number,
                desired: filters,
                confirmed: false,
                live: false,
                asked: ready,
                in_flight: None,
                waiting: Vec::new(),
            };
            self.subs.insert(topic, sub);
            self.accept(Open::Subscribe(number));
            return;
        };
        let changing = !sub.waiting.is_empty() || sub.in_flight.is_some() && !sub.asked;
        let same = sub.desired == filters && !changing;
        sub.desired = filters;
        // What waited is superseded.
        let superseded = std::mem::take(&mut sub.waiting);
        let joins_live = same && ready && !refresh && !sub.asked && sub.live;
        if ready && (!same || refresh) {
            sub.asked = true;
            if let Some((.., replaced)) = &mut sub.in_flight {
                *replaced = true;
            }
        }
        let number = sub.number;
        superseded.iter().for_each(|(op, ..)| _ = self.open.remove(op));
        if joins_live {
            self.accept_and_end();
        } else {
            self.accept(Open::Subscribe(number));
        }
    }

    fn unsubscribe(&mut self, topic: usize) {
        let ready = self.ready();
        if let Some(sub) = self.subs.remove(&topic) {
            sub.waiting.iter().for_each(|(op, ..)| _ = self.open.remove(op));
            if !ready {
                self.end(|open| *open == Open::Subscribe(sub.number));
            }
        }
        if ready {
            self.accept(Open::Unsubscribe);
        } else {
            self.accept_and_end();
        }
        self.send_suspect();
    }

    fn change_filters(&mut self, topic: usize, change: Change, listed: Filters) {
        let Some(sub) = self.subs.get(&topic) else { return };
        let under_way = sub.in_flight.as_ref().filter(|_| !sub.asked).map(|(_, filters, _)| filters);
        let mut foreseen = under_way.unwrap_or(&sub.desired).clone();
        for (_, change, listed) in &sub.waiting {
            foreseen = applied(&foreseen, *change, listed).unwrap_or(foreseen);
        }
        if applied(&foreseen, change, &listed).is_none() {
            return;
        }
        let op = self.accept(Open::Filters(sub.number));
        if let Some(sub) = self.subs.get_mut(&topic) {
            sub.waiting.push((op, change, listed));
        }
        self.advance_filters(topic);
    }

    /// Sends the next change, if nothing else about the subscription is on its way.
    fn advance_filters(&mut self, topic: usize) {
        let ready = self.ready();
        let Some(sub) = self.subs.get_mut(&topic) else { return };
        while ready && sub.live && !sub.asked && sub.in_flight.is_none() && !sub.waiting.is_empty() {
            let (op, change, listed) = sub.waiting.remove(0);
            match applied(&sub.desired, change, &listed) {
                Some(filters) => sub.in_flight = Some((op, filters, false)),
                None => _ = self.open.remove(&op),
            }
        }
    }

    fn set_presence(&mut self, room: usize) {
        self.wanted_room = Some(room);
        self.suspect_presence = false;
        self.accept(Open::Presence { waiting: true });
        if self.ready() && self.moving.is_none_or(|to| to == room) {
            self.send_presence();
        }
    }

    fn clear_presence(&mut self) {
        let wanted = self.wanted_room.take();
        self.end(|open| *open == Open::Presence { waiting: true });
        match wanted.map(|room| self.moving.or(self.room).unwrap_or(room)) {
            Some(here) if self.ready() => {
                (self.set_in, self.unseen) = (Some(here), true);
                self.accept(Open::Presence { waiting: false });
            }
            _ => self.accept_and_end(),
        }
    }

    fn watch(&mut self, lobby: usize) {
        let live = *self.lobbies.entry(lobby).or_default();
        if self.ready() && live {
            self.accept_and_end();
        } else {
            let waiting = !self.ready();
            self.accept(Open::LobbySubscribe { lobby, waiting });
        }
    }

    fn unwatch(&mut self, lobby: usize) {
        self.lobbies.remove(&lobby);
        self.end(|open| *open == Open::LobbySubscribe { lobby, waiting: true });
        if self.ready() {
            self.accept(Open::LobbyUnsubscribe);
        } else {
            self.accept_and_end();
        }
    }

    /// The broker answers until nothing is left to answer.
    fn serve(&mut self, refuse: Option<usize>) {
        if !self.ready() {
            return;
        }
        for topic in self.subs.keys().copied().collect::<Vec<_>>() {
            let Some(sub) = self.subs.get_mut(&topic) else { continue };
            let refused = refuse == Some(topic);
            if sub.asked && refused {
                // Neither what is wanted nor what stood before is allowed any more.
                self.subs.remove(&topic);
                continue;
            }
            match sub.in_flight.take() {
                Some((_, filters, false)) if !refused => sub.desired = filters,
                _ => {}
            }
            (sub.asked, sub.live, sub.confirmed) = (false, true, true);
            for (_, change, listed) in std::mem::take(&mut sub.waiting) {
                if let Some(filters) = applied(&sub.desired, change, &listed).filter(|_| !refused) {
                    sub.desired = filters;
                }
            }
        }
        if self.open.values().any(|open| *open == Open::Presence { waiting: true }) {
            self.send_presence();
        }
        if self.unseen {
            (self.unseen, self.suspect_presence) = (false, false);
        }
        (self.room, self.moving, self.suspect) = (self.set_in.or(self.room), None, None);
        self.lobbies.values_mut().for_each(|live| *live = true);
        self.end(|open| *open != Open::Disconnect);
        self.end_drain();
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Connect => match self.link {
                Link::Draining => {}
                Link::Ready => self.accept_and_end(),
                Link::Idle => {
                    self.accept(Open::Connect);
                    (self.had_session, self.attempts) = (false, 0);
                    self.start_attempt();
                }
                _ => _ = self.accept(Open::Connect),
            },
            Step::Disconnect => {
                self.accept_and_end();
                self.become_idle();
            }
            Step::Drain => {
                self.accept(Open::Disconnect);
                if self.ready() {
                    self.link = Link::Draining;
                    self.end_drain();
                } else {
                    self.become_idle();
                }
            }
            Step::ProvideToken if self.setup.provider => match self.link {
                Link::Token => self.open_transport(),
                _ => self.fresh_token = true,
            },
            Step::TokenUnavailable if self.link == Link::Token => self.lost(Cause::Passing),
            Step::Opened if self.link == Link::Opening => self.link = Link::Authenticating,
            Step::Lost(cause) if self.has_transport() => self.lost(cause),
            Step::Accept if self.link == Link::Authenticating => self.session(),
            Step::Deny(cause) if self.link == Link::Authenticating => self.lost(cause),
            Step::Serve { refuse } => self.serve(refuse),
            Step::Pass(millis) => {
                self.serve(None);
                self.stood += millis;
            }
            Step::Silence if self.link == Link::Draining => self.become_idle(),
            Step::Silence => self.lost(Cause::Passing),
            Step::Await => self.start_attempt(),
            Step::Subscribe { topic, filters, refresh } if self.takes() => {
                self.subscribe(topic, chosen(filters), refresh);
            }
            Step::Unsubscribe(topic) if self.takes() => self.unsubscribe(topic),
            Step::Filters { topic, change, filters } if self.takes() => {
                self.change_filters(topic, change, chosen(filters));
            }
            Step::Publish { tracked, .. } if self.link == Link::Ready => match tracked {
                false if self.suspect.is_none() => self.accept_and_end(),
                _ => _ = self.accept(Open::Publish { in_flight: self.suspect.is_none(), tracked }),
            },
            Step::Publish { tracked, .. } if self.takes() && self.setup.queue_offline => {
                self.accept(Open::Publish { in_flight: false, tracked });
            }
            Step::SetPresence(room) if self.takes() => self.set_presence(room),
            Step::ClearPresence if self.takes() => self.clear_presence(),
            Step::FetchPresence(_) if self.link == Link::Ready => _ = self.accept(Open::FetchPresence),
            Step::LobbySubscribe(lobby) if self.takes() => self.watch(lobby),
            Step::LobbyUnsubscribe(lobby) if self.takes() => self.unwatch(lobby),
            Step::FetchLobby(_) if self.link == Link::Ready => _ = self.accept(Open::FetchLobby),
            // The rest is refused, or says nothing new.
            _ => {}
        }
    }
}

impl ReferenceStateMachine for Model {
    type State = Self;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Self> {
        let attempts = select(vec![None, None, Some(0), Some(1), Some(3)]);
        (any::<bool>(), any::<bool>(), attempts, any::<bool>(), any::<bool>(), any::<u64>())
            .prop_map(|(provider, retry_first, max_attempts, queue_offline, resend, seed)| {
                Self::new(Setup { provider, retry_first, max_attempts, queue_offline, resend, seed })
            })
            .boxed()
    }

    fn transitions(model: &Self) -> BoxedStrategy<Step> {
        let causes = [Cause::Passing, Cause::Expired, Cause::Revoked, Cause::Crash, Cause::Crash];
        let cause = || select(causes.to_vec());
        let denial = select(causes[..3].to_vec());
        let change = select(vec![Change::Add, Change::Remove, Change::Set]);
        let (topic, filters) = (0..3_usize, 0..8_u8);
        let commands = prop_oneof![
            6 => (topic.clone(), filters.clone(), any::<bool>())
                .prop_map(|(topic, filters, refresh)| Step::Subscribe { topic, filters, refresh }),
            3 => topic.clone().prop_map(Step::Unsubscribe),
            8 => (topic.clone(), change, filters)
                .prop_map(|(topic, change, filters)| Step::Filters { topic, change, filters }),
            5 => (topic.clone(), any::<bool>()).prop_map(|(topic, tracked)| Step::Publish { topic, tracked }),
            4 => topic.clone().prop_map(Step::SetPresence),
            2 => Just(Step::ClearPresence),
            2 => topic.clone().prop_map(Step::FetchPresence),
            3 => topic.clone().prop_map(Step::LobbySubscribe),
            2 => topic.clone().prop_map(Step::LobbyUnsubscribe),
            2 => topic.clone().prop_map(Step::FetchLobby),
            1 => Just(Step::Ack),
        ];
        let anytime = prop_oneof![
            4 => (0..NOISES).prop_map(Step::Noise),
            2 => (0..8_usize).prop_map(Step::Stale),
            1 => Just(Step::Connect),
            1 => Just(Step::ProvideToken),
            1 => Just(Step::Accept),
            1 => Just(Step::Opened),
            1 => Just(Step::TokenUnavailable),
        ];
        let leaving = prop_oneof![Just(Step::Disconnect), Just(Step::Drain)];
        // One crash is told from another by the second.
        let suspicious = model.suspect.is_some() || model.suspect_presence;
        let is_under_way = |open: &Open| matches!(open, Open::Publish { in_flight: true, .. });
        let under_way = model.unseen || model.setup.resend && model.open.values().any(is_under_way);
        let crash = if suspicious || under_way { 9 } else { 1 };
        let forward = match model.link {
            Link::Idle => Just(Step::Connect).boxed(),
            Link::Token => prop_oneof![6 => Just(Step::ProvideToken), 1 => Just(Step::Silence)].boxed(),
            Link::Opening => {
                prop_oneof![6 => Just(Step::Opened), 1 => Just(Step::Silence), 1 => cause().prop_map(Step::Lost)]
                    .boxed()
            }
            Link::Authenticating => prop_oneof![
                8 => Just(Step::Accept),
                1 => denial.prop_map(Step::Deny),
                1 => Just(Step::Silence),
                1 => cause().prop_map(Step::Lost),
            ]
            .boxed(),
            Link::Ready => prop_oneof![
                6 => proptest::option::weighted(0.3, topic).prop_map(|refuse| Step::Serve { refuse }),
                3 => cause().prop_map(Step::Lost),
                crash => Just(Step::Lost(Cause::Crash)),
                1 => (0..45_000_u64).prop_map(Step::Pass),
            ]
            .boxed(),
            Link::Draining => prop_oneof![
                4 => Just(Step::Serve { refuse: None }),
                1 => Just(Step::Silence),
                1 => cause().prop_map(Step::Lost),
            ]
            .boxed(),
            Link::Backoff => Just(Step::Await).boxed(),
        };
        // What brings the connection on comes first, so that most happens in a session, and so does a second crash.
        let urgent = match model.link {
            _ if suspicious => 60,
            Link::Ready => 5,
            _ => 20,
        };
        prop_oneof![20 => commands, 4 => anytime, 1 => leaving, urgent => forward].boxed()
    }

    fn preconditions(model: &Self, step: &Step) -> bool {
        match step {
            Step::Lost(_) => model.has_transport(),
            Step::Deny(_) => model.link == Link::Authenticating,
            Step::Pass(_) => model.link == Link::Ready,
            Step::Await => model.link == Link::Backoff,
            // It would put off the end by the time that it may wait for others.
            Step::Ack => model.link != Link::Draining,
            Step::Silence => {
                matches!(model.link, Link::Token | Link::Opening | Link::Authenticating | Link::Draining)
            }
            _ => true,
        }
    }

    fn apply(mut model: Self, step: &Step) -> Self {
        model.take(step);
        model
    }
}

/// How many kinds of noise there are.
pub(crate) const NOISES: usize = 18;
