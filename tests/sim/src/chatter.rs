//! The application that a [`simulation`](crate::simulate) runs: it talks, listens, moves about and changes its mind.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use nolag_broker::AuthConfig;
use nolag_core::{
    Disconnect, Event, FilterChange, Instant, Message, OpId, Outcome, Payload, Publish, Subscribe,
    SubscribeOptions, wire::Filter,
};

use crate::{Application, Client};

/// Members of a room, at most.
pub(crate) const ROOM: usize = 5;

const FILTERS: [&str; 4] = ["a", "b", "c", "d"];

/// What an application asked for last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// Topic → filters (none: everything), and whether it shares its messages with a group.
    pub(crate) topics: BTreeMap<String, (BTreeSet<String>, bool)>,
    /// Room and presence.
    pub(crate) presence: Option<(String, Payload)>,
    pub(crate) lobby: Option<String>,
    /// Whether it has asked to be connected since it last left.
    pub(crate) connected: bool,
}

/// When an application does what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// It changes its mind no more.
    pub(crate) settles: Instant,
    /// It publishes no more, and does not connect again.
    pub(crate) ends: Instant,
}

/// How it publishes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manners {
    pub(crate) tracked: bool,
    /// Publishes in one burst, at most.
    pub(crate) burst: u64,
}

/// Where a token provider has its tokens from.
pub(crate) struct Issuer {
    pub(crate) auth: AuthConfig,
    pub(crate) actor: String,
    /// Unix time at the world's origin.
    pub(crate) wall_clock: Duration,
}

/// What can be asked for again when it failed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Connection,
    Topic(String),
    Presence,
    Members,
    Lobby,
}

pub(crate) struct Chatter {
    number: usize,
    rng: fastrand::Rng,
    times: Times,
    manners: Manners,
    issuer: Option<Issuer>,
    wanted: Rc<RefCell<Wanted>>,
    published: u64,
    next_burst: Instant,
    next_change: Instant,
    token_at: Option<Instant>,
    /// What must be asked for, and when.
    agenda: BTreeMap<Thing, Instant>,
    /// What was asked for and not answered.
    pending: BTreeMap<OpId, Thing>,
}

impl Chatter {
    pub(crate) fn new(
        number: usize,
        seed: u64,
        times: Times,
        manners: Manners,
        issuer: Option<Issuer>,
        wanted: Rc<RefCell<Wanted>>,
    ) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let start = Instant::from_micros(rng.u64(0..=5_000_000));
        let group = number / ROOM;
        {
            let mut wanted = wanted.borrow_mut();
            wanted.topics.insert(topic(group, "chat"), (BTreeSet::new(), false));
            wanted.topics.insert(topic(group, "tagged"), (BTreeSet::from(["a".into(), "b".into()]), false));
            wanted.topics.insert(topic(group, "work"), (BTreeSet::new(), true));
            wanted.presence = Some((hall(group, 0), presence(0)));
            wanted.lobby = Some(lobby(group));
        }
        Self {
            number,
            rng,
            times,
            manners,
            issuer,
            wanted,
            published: 0,
            next_burst: start,
            next_change: start + Duration::from_secs(30),
            token_at: None,
            agenda: BTreeMap::from([(Thing::Connection, start)]),
            pending: BTreeMap::new(),
        }
    }

    fn group(&self) -> usize {
        self.number / ROOM
    }

    /// A random span, both ends included.
    fn span(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.rng.u64(from..=to))
    }

    fn soon(&mut self, now: Instant, thing: Thing) {
        let at = now + self.span(500, 5_000);
        self.agenda.entry(thing).or_insert(at);
    }

    fn is_pending(&self, thing: &Thing) -> bool {
        self.pending.values().any(|pending| pending == thing)
    }

    /// Asks for what is wanted of one thing. One question at a time: a change waits for the answer to the last.
    fn ask(&mut self, client: &mut Client<'_>, thing: Thing) {
        if self.is_pending(&thing) {
            return self.soon(client.now(), thing);
        }
        let wanted = self.wanted.borrow().clone();
        let asked = match &thing {
            Thing::Connection => client.connect().ok(),
            Thing::Topic(topic) => match wanted.topics.get(topic) {
                Some((filters, shared)) => {
                    let options = SubscribeOptions {
                        filters: filters.iter().cloned().map(Filter::Value).collect(),
                        load_balance: Some(*shared),
                        load_balance_group: shared.then(|| "workers".into()),
                        ..SubscribeOptions::default()
                    };
                    client.subscribe(Subscribe { topic: topic.clone(), options, refresh: false }).ok()
                }
                None => client.unsubscribe(topic).ok(),
            },
            Thing::Presence => match wanted.presence {
                Some((room, data)) => client.set_presence(&room, data).ok(),
                None => client.clear_presence().ok(),
            },
            Thing::Members => match client.core().presence_room().map(String::from) {
                Some(room) => client.fetch_presence(&room).ok(),
                None => return,
            },
            Thing::Lobby => match &wanted.lobby {
                Some(lobby) => client.lobby_subscribe(lobby).ok(),
                None => client.lobby_unsubscribe(&lobby(self.group())).ok(),
            },
        };
        match asked {
            Some(op) => _ = self.pending.insert(op, thing),
            // Refused for now: not connected, or leaving.
            None => self.soon(client.now(), thing),
        }
    }

    /// Asks for everything, as after a start from nothing.
    fn ask_for_all(&mut self, client: &mut Client<'_>) {
        self.wanted.borrow_mut().connected = true;
        self.ask(client, Thing::Connection);
        let topics: Vec<String> = self.wanted.borrow().topics.keys().cloned().collect();
        for topic in topics {
            self.ask(client, Thing::Topic(topic));
        }
        self.ask(client, Thing::Presence);
        self.ask(client, Thing::Lobby);
    }

    fn change_mind(&mut self, client: &mut Client<'_>) {
        let group = self.group();
        match self.rng.u8(0..10) {
            0 | 1 => {
                let name = *self.rng.choice(&["chat", "tagged", "work"]).unwrap_or(&"chat");
                let topic = topic(group, name);
                let mut wanted = self.wanted.borrow_mut();
                if wanted.topics.remove(&topic).is_none() {
                    let filters =
                        if name == "tagged" { BTreeSet::from(["c".into()]) } else { BTreeSet::new() };
                    wanted.topics.insert(topic.clone(), (filters, name == "work"));
                }
                drop(wanted);
                self.ask(client, Thing::Topic(topic));
            }
            2..=4 => self.change_filters(client),
            5 | 6 => {
                let (hall_number, mood) = (self.rng.usize(0..2), self.rng.u64(0..1000));
                self.wanted.borrow_mut().presence = Some((hall(group, hall_number), presence(mood)));
                self.ask(client, Thing::Presence);
            }
            7 => {
                self.wanted.borrow_mut().presence = None;
                self.ask(client, Thing::Presence);
            }
            8 => {
                let wanted = self.wanted.borrow().lobby.is_none().then(|| lobby(group));
                self.wanted.borrow_mut().lobby = wanted;
                self.ask(client, Thing::Lobby);
            }
            _ => {
                // Leaves, and comes back.
                let mode = match self.rng.bool() {
                    true => Disconnect::Now,
                    false => Disconnect::Drain(self.span(0, 10_000)),
                };
                self.wanted.borrow_mut().connected = false;
                client.disconnect(mode);
                let at = client.now() + self.span(0, 20_000);
                self.agenda.insert(Thing::Connection, at);
            }
        }
    }

    fn change_filters(&mut self, client: &mut Client<'_>) {
        let topic = topic(self.group(), "tagged");
        let thing = Thing::Topic(topic.clone());
        let before = self.wanted.borrow().topics.get(&topic).map(|(filters, _)| filters.clone());
        let Some(before) = before.filter(|_| !self.is_pending(&thing)) else { return };
        let filter = String::from(*self.rng.choice(&FILTERS).unwrap_or(&"a"));
        let mut after = before.clone();
        let change = match self.rng.u8(0..3) {
            0 if !before.is_empty() => {
                after.insert(filter.clone());
                FilterChange::Add(vec![Filter::Value(filter)])
            }
            1 if before.contains(&filter) && before.len() > 1 => {
                after.remove(&filter);
                FilterChange::Remove(vec![Filter::Value(filter)])
            }
            _ => {
                after = if self.rng.u8(0..8) == 0 { BTreeSet::new() } else { BTreeSet::from([filter]) };
                FilterChange::Set(after.iter().cloned().map(Filter::Value).collect())
            }
        };
        if let Some(entry) = self.wanted.borrow_mut().topics.get_mut(&topic) {
            entry.0 = after;
        }
        match client.change_filters(&topic, change) {
            Ok(op) => _ = self.pending.insert(op, thing),
            Err(_) => self.soon(client.now(), thing),
        }
    }

    fn publish_burst(&mut self, client: &mut Client<'_>) {
        let group = self.group();
        let count = self.rng.u64(1..=self.manners.burst);
        for _ in 0..count {
            let (kind, filter) = (self.rng.u8(0..10), *self.rng.choice(&FILTERS).unwrap_or(&"a"));
            let padding = vec![b'.'; self.rng.usize(0..=400)];
            let number = self.published;
            let payload = encode(self.number, number, &padding);
            let mut publish = match kind {
                0..=5 => Publish::new(topic(group, "chat"), payload),
                6..=8 => {
                    Publish { filter: Some(filter.into()), ..Publish::new(topic(group, "tagged"), payload) }
                }
                _ => Publish::new(topic(group, "work"), payload),
            };
            publish.retain = self.rng.u8(0..50) == 0;
            publish.echo = self.rng.u8(0..10) != 0;
            publish.tracked = self.manners.tracked || self.rng.bool();
            if self.rng.u8(0..20) == 0 {
                publish.expires_in = Some(self.span(0, 30_000));
            }
            if client.publish(publish).is_ok() {
                self.published += 1;
            }
        }
        // About one in a second.
        self.next_burst = client.now() + self.span(0, 2_000 * count);
    }

    fn issue_token(&mut self, client: &mut Client<'_>) {
        let Some(issuer) = &self.issuer else { return };
        if self.rng.u8(0..20) == 0 {
            return client.token_unavailable("the issuer is away");
        }
        let life = Duration::from_secs(self.rng.u64(40..=900));
        let since_origin = Duration::from_micros(client.now().as_micros());
        let token = issuer.auth.client_token(&issuer.actor, issuer.wall_clock + since_origin + life);
        if let Some(token) = token {
            client.provide_token(token, Some(life));
        }
    }
}

impl Application for Chatter {
    fn on_event(&mut self, client: &mut Client<'_>, event: &Event) {
        let now = client.now();
        match event {
            Event::Done { op, outcome } => {
                let Some(thing) = self.pending.remove(op) else { return };
                match (&thing, outcome) {
                    (Thing::Connection, _) => {}
                    (Thing::Members, _) => {}
                    (Thing::Presence, Outcome::PresenceSet) => self.soon(now, Thing::Members),
                    _ if outcome.error().is_some() => self.soon(now, thing),
                    _ => {}
                }
            }
            Event::GaveUp { .. } => {
                self.wanted.borrow_mut().connected = false;
                let at = now + self.span(1_000, 10_000);
                self.agenda.insert(Thing::Connection, at);
            }
            Event::SubscriptionEnded { topic, .. } => self.soon(now, Thing::Topic(topic.to_string())),
            Event::LobbyEnded { .. } => self.soon(now, Thing::Lobby),
            _ => {}
        }
    }

    fn on_message(&mut self, client: &mut Client<'_>, message: Message) {
        let _ = (client, message);
    }

    fn on_token_needed(&mut self, client: &mut Client<'_>) {
        let at = client.now() + if self.rng.bool() { Duration::ZERO } else { self.span(0, 5_000) };
        self.token_at = Some(at);
    }

    fn next_wake(&self) -> Option<Instant> {
        let busy = [self.next_burst, self.next_change].into_iter().filter(|at| *at < self.times.ends);
        busy.chain(self.agenda.values().copied()).chain(self.token_at).min()
    }

    fn on_wake(&mut self, client: &mut Client<'_>) {
        let now = client.now();
        if self.token_at.is_some_and(|at| at <= now) {
            self.token_at = None;
            self.issue_token(client);
        }
        let due: Vec<Thing> =
            self.agenda.iter().filter(|(_, at)| **at <= now).map(|(thing, _)| thing.clone()).collect();
        for thing in due {
            self.agenda.remove(&thing);
            if thing != Thing::Connection {
                self.ask(client, thing);
            } else if now < self.times.ends {
                self.ask_for_all(client);
            }
        }
        if self.next_change <= now {
            self.next_change = now + self.span(0, 60_000);
            if now < self.times.settles && self.wanted.borrow().connected {
                self.change_mind(client);
            }
        }
        if self.next_burst <= now && now < self.times.ends {
            self.publish_burst(client);
        }
    }
}

/// What an application publishes: who it is, and which publish.
fn encode(client: usize, number: u64, padding: &[u8]) -> Payload {
    Payload::encode(&(client, number, std::str::from_utf8(padding).unwrap_or_default()))
        .expect("numbers and text")
}

/// Who published, and which publish, out of packed data.
pub(crate) fn decode(data: nolag_core::wire::RawValue<'_>) -> Option<(usize, u64)> {
    let mut items = data.items()?;
    let client = items.next()?.as_u64()?;
    Some((usize::try_from(client).ok()?, items.next()?.as_u64()?))
}

pub(crate) fn topic(group: usize, name: &str) -> String {
    format!("sim/r{group}/{name}")
}

pub(crate) fn hall(group: usize, number: usize) -> String {
    format!("hall-{group}-{number}")
}

pub(crate) fn lobby(group: usize) -> String {
    format!("floor-{group}")
}

fn presence(mood: u64) -> Payload {
    Payload::encode(&BTreeMap::from([("mood", mood)])).expect("a map of a number")
}
