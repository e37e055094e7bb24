//! What the client knows of a room, against the room itself.

#[path = "support/cases.rs"]
mod cases;
mod support;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use cases::cases;
use nolag_core::{
    Event, PresenceKind,
    wire::{ClientFrame, PresenceEvent, RawValue, ServerFrame, Text},
};
use proptest::{collection::vec, prelude::*, sample::select};
use support::*;

const ROOMS: [&str; 3] = ["general", "storage", "gate"];
/// Whose each connection is. The first is ours, and so is its twin, which is another process of the same actor.
const CONNECTIONS: [&str; 7] = [ACTOR, ACTOR, "actor-2", "actor-2", "actor-3", "actor-3", "actor-4"];
const OURS: usize = 0;
const TWIN: usize = 1;
const TEXTS: [&str; 4] = ["", "a", "b", "c"];

/// What happens in the rooms and to the client.
#[derive(Debug, Clone)]
enum Step {
    /// A connection sets its presence, and with it comes, changes or moves.
    Put {
        connection: usize,
        room: usize,
        text: usize,
    },
    /// A connection ends.
    Drop(usize),
    /// We set our presence.
    Set {
        room: usize,
        text: usize,
    },
    Clear,
    Fetch(usize),
    /// So many of the frames on their way to us arrive.
    Deliver(usize),
    /// All arrives, and what the client asks by itself is answered.
    Settle,
    /// Our connection is lost, and made again.
    Cut,
}

fn step(twin: bool) -> impl Strategy<Value = Step> {
    let others = if twin { TWIN } else { TWIN + 1 }..CONNECTIONS.len();
    let (room, text) = (0..ROOMS.len(), 0..TEXTS.len());
    prop_oneof![
        8 => (others.clone(), room.clone(), text.clone())
            .prop_map(|(connection, room, text)| Step::Put { connection, room, text }),
        4 => others.prop_map(Step::Drop),
        4 => (room.clone(), text).prop_map(|(room, text)| Step::Set { room, text }),
        1 => Just(Step::Clear),
        2 => room.prop_map(Step::Fetch),
        6 => (1..6_usize).prop_map(Step::Deliver),
        3 => Just(Step::Settle),
        1 => Just(Step::Cut),
    ]
}

/// A broker as the facts describe it (§10): presence is per connection, a connection is in one room, events go to
/// those in the room and name no room, and the first set is a `join` and an `update`.
#[derive(Default)]
struct Broker {
    /// The presence in each room, in the order of joining; nothing is `nil`.
    rooms: [Vec<(usize, Option<&'static str>)>; ROOMS.len()],
    /// What is on its way to us, and the room that it is about.
    to_us: VecDeque<(Bytes, usize)>,
    /// The actors that we could see in the room where we are.
    seen: BTreeSet<&'static str>,
}

impl Broker {
    fn room_of(&self, connection: usize) -> Option<usize> {
        self.rooms.iter().position(|members| members.iter().any(|(member, _)| *member == connection))
    }

    fn tell(&mut self, room: usize, event: &str, connection: usize, text: Option<&str>) {
        if self.room_of(OURS) != Some(room) {
            return;
        }
        let payload = text.map(payload);
        let presence = payload.as_ref().map_or(RawValue::NIL, |payload| payload.raw());
        let frame = encode(&ServerFrame::Presence(PresenceEvent {
            event,
            actor_token_id: Some(CONNECTIONS[connection]),
            presence: Some(presence).filter(|_| event != "leave"),
            status: None,
            capabilities: None,
            advertisement_version: None,
        }));
        self.to_us.push_back((frame, room));
        if event != "leave" {
            self.seen.insert(CONNECTIONS[connection]);
        }
    }

    fn put(&mut self, connection: usize, room: usize, text: Option<&'static str>) {
        match self.room_of(connection) {
            Some(here) if here == room => {
                let member = self.rooms[room].iter_mut().find(|(member, _)| *member == connection);
                member.expect("it is here").1 = text;
            }
            before => {
                if before.is_some() {
                    self.leave(connection);
                }
                if connection == OURS {
                    self.seen.clear();
                }
                self.rooms[room].push((connection, text));
                self.tell(room, "join", connection, text);
            }
        }
        self.tell(room, "update", connection, text);
    }

    /// Who leaves is told, too.
    fn leave(&mut self, connection: usize) {
        if let Some(room) = self.room_of(connection) {
            self.tell(room, "leave", connection, None);
            self.rooms[room].retain(|(member, _)| *member != connection);
        }
    }

    fn list(&mut self, room: usize) {
        let listed: Vec<_> = self.rooms[room]
            .iter()
            .map(|(member, text)| online(CONNECTIONS[*member], text.unwrap_or("nil")))
            .collect();
        let list = presence_list(&listed);
        let data = RawValue::parse(&list).expect("a list");
        let frame = ServerFrame::PresenceList { room_id: Some(Text::Str(ROOMS[room])), data };
        self.to_us.push_back((encode(&frame), room));
        if self.room_of(OURS) == Some(room) {
            self.seen.extend(self.rooms[room].iter().map(|(member, _)| CONNECTIONS[*member]));
        }
    }

    /// Who is in a room, and what each may be seen as: an actor with several connections as any of them.
    fn truth(&self, room: usize) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
        let mut truth: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (member, text) in &self.rooms[room] {
            truth.entry(CONNECTIONS[*member]).or_default().insert(text.unwrap_or("nil"));
        }
        truth
    }
}

struct World {
    peer: Peer,
    broker: Broker,
    /// Whether events can be told apart for certain: our actor has no other connection.
    alone: bool,
    /// The room as an application sees it that only listens to what it is told.
    told_room: Option<String>,
    told: BTreeMap<String, String>,
}

impl World {
    fn take(&mut self, step: &Step) {
        match *step {
            Step::Put { connection, room, text } => self.broker.put(connection, room, Some(TEXTS[text])),
            Step::Drop(connection) => self.broker.leave(connection),
            Step::Set { room, text } => _ = self.peer.set_presence(ROOMS[room], TEXTS[text]),
            Step::Clear => _ = self.peer.clear_presence(),
            Step::Fetch(room) => _ = self.peer.fetch_presence(ROOMS[room]),
            Step::Deliver(most) => self.deliver(most),
            Step::Settle => self.settle(),
            Step::Cut => {
                self.broker.to_us.clear();
                self.broker.seen.clear();
                for room in &mut self.broker.rooms {
                    room.retain(|(member, _)| *member != OURS);
                }
                self.peer.close(1006);
                self.peer.forget();
                self.peer.reconnect();
                if self.peer.core.presence_room().is_none() {
                    self.told.clear();
                }
                self.listen(None);
            }
        }
        self.serve();
    }

    fn serve(&mut self) {
        for frame in self.peer.frames() {
            let index = |slug: &str| ROOMS.iter().position(|room| *room == slug).expect("a room");
            match decode(&frame) {
                ClientFrame::Presence { room_id: Some(room), data } => {
                    let text = data.as_str().and_then(|text| TEXTS.into_iter().find(|known| *known == text));
                    self.broker.put(OURS, index(room), text);
                }
                ClientFrame::GetPresence { room_id: Some(room) } => self.broker.list(index(room)),
                _ => {}
            }
        }
    }

    fn deliver(&mut self, most: usize) {
        for _ in 0..most {
            let Some((frame, room)) = self.broker.to_us.pop_front() else { return };
            self.peer.bytes(frame);
            self.listen(Some(room));
            self.compare();
            self.serve();
        }
    }

    /// Takes what is told, and checks that it names the right room.
    fn listen(&mut self, room: Option<usize>) {
        for event in self.peer.events() {
            let Event::Presence(change) = event else { continue };
            if self.alone {
                assert_eq!(change.room.as_deref(), room.map(|room| ROOMS[room]), "{change:?}");
            }
            let here = change.room.as_deref().map(String::from);
            if here != self.told_room {
                self.told.clear();
                self.told_room = here;
            }
            let actor = change.actor_id.to_string();
            match change.kind {
                PresenceKind::Leave if actor == ACTOR => self.told.clear(),
                PresenceKind::Leave => _ = self.told.remove(&actor),
                _ => {
                    let presence = change.presence.expect("what it is");
                    self.told.insert(actor, value_in_words(presence.raw()));
                }
            }
        }
    }

    /// What is known, which is what was told: at every moment, if no event can be taken for another.
    fn compare(&self) -> BTreeMap<String, String> {
        let member = |member: nolag_core::PresenceMember| {
            (member.actor_id.to_string(), value_in_words(member.presence.raw()))
        };
        let known = self.peer.core.presence().map(member).collect();
        if self.alone {
            assert_eq!(known, self.told, "what is known is what was told");
        }
        known
    }

    /// Lets everything arrive, and checks what is then known.
    fn settle(&mut self) {
        self.serve();
        loop {
            self.deliver(usize::MAX);
            self.peer.advance(millis(300));
            self.listen(None);
            self.serve();
            if self.broker.to_us.is_empty() {
                break;
            }
        }
        let known = self.compare();
        let Some(room) = self.broker.room_of(OURS) else {
            return assert!(known.is_empty(), "{known:?}");
        };
        let truth = self.broker.truth(room);
        for (actor, text) in &known {
            let there = truth.get(actor.as_str());
            assert!(there.is_some_and(|texts| texts.contains(text.as_str())), "{actor}={text} of {truth:?}");
        }
        for actor in self.broker.seen.iter().filter(|actor| truth.contains_key(*actor)) {
            assert!(known.contains_key(*actor), "{actor} is there and was seen: {known:?}");
        }
    }
}

fn run(steps: &[Step], alone: bool) {
    let mut world = World {
        peer: Peer::connected(config()),
        broker: Broker::default(),
        alone,
        told_room: None,
        told: BTreeMap::new(),
    };
    steps.iter().for_each(|step| world.take(step));
    world.settle();
    // Asked, the client knows the whole room.
    if let Some(room) = world.broker.room_of(OURS) {
        world.take(&Step::Fetch(room));
        world.settle();
        let truth: Vec<_> = world.broker.truth(room).into_keys().collect();
        let known: Vec<_> = world.peer.core.presence().map(|member| member.actor_id).collect();
        assert_eq!(known.iter().map(|actor| &**actor).collect::<Vec<_>>(), truth);
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// Whoever comes, changes, moves and leaves, over however many connections, and wherever we move meanwhile: once all
    /// has arrived and the client's own questions are answered, what it knows is true and is what it told, every actor
    /// that could be seen is known, every event named its room, and after a fetch the whole room is known.
    #[test]
    fn what_is_known_of_a_room_is_true(steps in vec(step(false), 1..60)) {
        run(&steps, true);
    }

    /// The same with another connection of our own actor, whose events look like ours: in the end all is true again,
    /// although an event meanwhile may have been taken for our own.
    #[test]
    fn another_connection_of_our_actor_confuses_for_a_moment_only(steps in vec(step(true), 1..60)) {
        run(&steps, false);
    }
}

proptest! {
    #![proptest_config(cases(64))]

    /// However often connections crash: presence that was shown since the crash before is not to blame, and presence that
    /// was not is given up with the second.
    #[test]
    fn only_presence_that_was_not_shown_between_two_crashes_is_given_up(
        sessions in vec((any::<bool>(), select(vec![1006, 1009, 1011])), 1..12),
    ) {
        let mut peer = Peer::connected(with(|config| config.reconnect.max_attempts = None));
        peer.set_presence(ROOMS[0], "a");
        let mut suspected = false;
        let mut wanted = true;
        for (is_shown, code) in sessions {
            if is_shown && wanted {
                peer.presence_event("join", ACTOR, Some("a"));
                peer.presence_event("update", ACTOR, Some("a"));
                suspected = false;
            }
            peer.close(code);
            if code != 1006 && wanted && !is_shown {
                wanted = !suspected;
                suspected = !suspected;
            }
            prop_assert_eq!(peer.core.presence_room().is_some(), wanted);
            peer.forget();
            peer.reconnect();
            let is_set = peer.frames().iter().any(|frame| matches!(decode(frame), ClientFrame::Presence { .. }));
            prop_assert_eq!(is_set, wanted);
        }
    }
}
