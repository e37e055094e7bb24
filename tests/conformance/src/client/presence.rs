//! What a client must make of presence and lobby frames.

use std::collections::BTreeMap;

use super::{
    Different,
    happening::{Draft, map},
};
use crate::{
    leniency::presence_entry,
    value::{Fields, Id, Value, Values},
};

/// What is expected about the room where a client is present.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Where events belong, once the client's own presence showed it.
    room: Option<String>,
    /// Who the application knows to be there, by actor.
    known: BTreeMap<String, Known>,
    /// Where they are or were.
    known_in: Option<String>,
    /// What the last event said, if it was the client's own `join`.
    joined: Option<Id>,
    /// Whether the client may ask the room who is there.
    pub(super) refetch_due: bool,
    /// Since when the application waits to hear of a leave.
    pub(super) deferred: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    presence: Id,
    /// Persistent presence outlives its connections.
    online: bool,
}

/// A presence event of the broker.
pub(super) struct PresenceEvent {
    pub(super) kind: String,
    pub(super) actor: String,
    pub(super) presence: Option<Id>,
    status: Option<Id>,
}

impl PresenceEvent {
    pub(super) fn read(values: &Values, frame: &Fields) -> Option<Self> {
        let data = values.fields(*frame.get("data")?)?;
        let text = |fields: &Fields, name: &str| {
            fields.get(name).and_then(|id| values.as_text(*id)).map(str::to_owned)
        };
        Some(Self {
            kind: text(frame, "event")?,
            actor: text(&data, "actor_token_id")?,
            presence: data.get("presence").copied(),
            status: data.get("status").copied(),
        })
    }
}

/// What the application hears of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// This, now or after asking the room.
    Later(Fields),
    /// This.
    Now(Fields),
    /// Nothing.
    Nothing,
}

impl Room {
    /// Where events belong.
    pub(super) fn room(&self) -> Option<&str> {
        self.room.as_deref()
    }

    /// The client's own presence came back, set by a command that named `room`, if one waits. Returns whether it answers
    /// that command.
    pub(super) fn saw_ourselves(&mut self, event: &PresenceEvent, room: Option<&str>) -> bool {
        let joined = event.kind == "join";
        if let Some(room) = room.filter(|_| joined || self.room.is_none()) {
            if self.known_in.as_deref() != Some(room) {
                self.known.clear();
                self.known_in = Some(room.to_owned());
            }
            self.room = Some(room.to_owned());
        }
        // The `update` that follows a `join` says nothing new.
        let repeated = !joined && self.joined.is_some() && self.joined == event.presence;
        self.joined = event.presence.filter(|_| joined);
        !repeated
    }

    /// The client left for another room, which must still show it.
    pub(super) fn left(&mut self, values: &mut Values, event: &PresenceEvent) -> Fields {
        self.known.clear();
        let room = self.room.take();
        told(values, room.as_deref(), event)
    }

    /// An event came. `remains`: whether its actor is in the room all the same; `moving`: where the client wants to be.
    pub(super) fn event(
        &mut self,
        values: &mut Values,
        event: &PresenceEvent,
        remains: bool,
        moving: Option<&str>,
    ) -> Told {
        let shown = told(values, self.room.as_deref().or(moving), event);
        if event.kind == "leave" {
            self.refetch_due = true;
            return if remains { Told::Nothing } else { Told::Later(shown) };
        }
        let before = self.known.get(&event.actor).map(|known| known.presence);
        let presence = event.presence.or(before).unwrap_or_else(|| values.add(Value::Nil));
        self.known.insert(event.actor.clone(), Known { presence, online: true });
        Told::Now(shown)
    }

    /// The application heard that somebody left.
    pub(super) fn heard_of_leave(&mut self, actor: &str) {
        self.known.remove(actor);
    }

    /// A list of who is in `room` came. Returns the changes that the application must be told.
    pub(super) fn list(&mut self, values: &mut Values, room: &str, list: Id) -> Vec<Fields> {
        if self.room.as_deref() != Some(room) {
            return Vec::new();
        }
        self.deferred = None;
        let mut listed: BTreeMap<String, (Known, Option<Id>)> = BTreeMap::new();
        for entry in entries(values, list) {
            let Some(actor) = entry.get("actorTokenId").and_then(|id| values.as_text(*id)).map(str::to_owned)
            else {
                continue;
            };
            let presence = entry.get("presence").copied().unwrap_or_else(|| values.add(Value::Nil));
            let before = listed.get(&actor).is_some_and(|(known, _)| known.online);
            let online = before || entry.contains_key("joinedAt");
            listed.insert(actor, (Known { presence, online }, entry.get("status").copied()));
        }
        let mut changes = Vec::new();
        for actor in self.known.keys().filter(|actor| !listed.contains_key(*actor)) {
            changes.push(change("leave", actor, None, None));
        }
        for (actor, (now, status)) in &listed {
            let before = self.known.get(actor);
            let presence = Some(now.presence);
            match (before.is_some_and(|before| before.online), now.online) {
                (false, true) => changes.push(change("join", actor, presence, *status)),
                (true, false) => changes.push(change("leave", actor, None, *status)),
                _ if before.map(|before| before.presence) == presence => {}
                _ => changes.push(change("update", actor, presence, *status)),
            }
        }
        self.known = listed.into_iter().map(|(actor, (known, _))| (actor, known)).collect();
        changes.iter().map(|change| told(values, Some(room), change)).collect()
    }
}

fn change(kind: &str, actor: &str, presence: Option<Id>, status: Option<Id>) -> PresenceEvent {
    PresenceEvent { kind: kind.to_owned(), actor: actor.to_owned(), presence, status }
}

/// Whether a list of members shows a connection of an actor.
pub(super) fn shows_online(values: &mut Values, list: Id, actor: &str) -> bool {
    let entries = entries(values, list);
    entries.iter().any(|entry| {
        let is_it = entry.get("actorTokenId").and_then(|id| values.as_text(*id)) == Some(actor);
        is_it && entry.contains_key("joinedAt")
    })
}

fn told(values: &mut Values, room: Option<&str>, event: &PresenceEvent) -> Fields {
    Draft::new(values, "presence")
        .text("room", room)
        .text("kind", Some(&event.kind))
        .text("actor", Some(&event.actor))
        .value("presence", event.presence)
        .value("status", event.status)
        .finish()
}

/// The entries of a list or map of members.
fn entries(values: &mut Values, members: Id) -> Vec<Fields> {
    let ids: Vec<Id> = match values.get(members) {
        Value::List(items) => items.clone(),
        Value::Map(pairs) => pairs.iter().map(|(_, entry)| *entry).collect(),
        _ => Vec::new(),
    };
    let entries = ids.into_iter().filter_map(|id| values.fields(id)).collect::<Vec<_>>();
    entries.into_iter().map(|entry| presence_entry(values, entry)).collect()
}

/// A recorded list of members as the client must show it.
pub(super) fn shown_list(values: &mut Values, list: Id) -> Id {
    let entries = entries(values, list).into_iter().map(|entry| map(values, entry)).collect();
    values.add(Value::List(entries))
}

/// What is expected about the lobbies that a client watches.
#[derive(Debug, Default)]
pub(super) struct Lobbies(BTreeMap<String, Lobby>);

#[derive(Debug, Default)]
pub(super) struct Lobby {
    pub(super) confirmed: bool,
    /// Members by room and actor.
    rooms: BTreeMap<String, BTreeMap<String, Fields>>,
}

impl Lobbies {
    /// The client watches a lobby. Returns what it must know about it if it watched it already.
    pub(super) fn watch(&mut self, values: &mut Values, slug: &str) -> Option<Id> {
        let lobby = self.0.entry(slug.to_owned()).or_default();
        lobby.confirmed.then(|| lobby.shown(values))
    }

    pub(super) fn forget(&mut self, slug: &str) -> Option<Lobby> {
        self.0.remove(slug)
    }

    pub(super) fn is_watched(&self, slug: &str) -> bool {
        self.0.get(slug).is_some_and(|lobby| lobby.confirmed)
    }

    /// The lobbies that a broker confirmed.
    pub(super) fn watched(&self) -> impl Iterator<Item = &String> {
        self.0.iter().filter(|(_, lobby)| lobby.confirmed).map(|(slug, _)| slug)
    }

    /// A subscription was confirmed; an empty snapshot changes nothing yet.
    pub(super) fn confirm(&mut self, values: &mut Values, slug: &str, rooms: Id) {
        if let Some(lobby) = self.0.get_mut(slug) {
            lobby.confirmed = true;
            let rooms = read_rooms(values, rooms);
            if !rooms.is_empty() {
                lobby.rooms = rooms;
            }
        }
    }

    /// A snapshot was fetched.
    pub(super) fn refresh(&mut self, values: &mut Values, slug: &str, rooms: Id) {
        if let Some(lobby) = self.0.get_mut(slug) {
            lobby.rooms = read_rooms(values, rooms);
        }
    }

    /// An event came. Returns what the application must be told.
    pub(super) fn event(&mut self, values: &mut Values, frame: &Fields) -> Option<Fields> {
        let text = |values: &Values, name: &str| {
            frame.get(name).and_then(|id| values.as_text(*id)).map(str::to_owned)
        };
        let (kind, actor) = (text(values, "event")?, text(values, "actorId")?);
        let (room, lobby_id) = (text(values, "roomId"), text(values, "lobbyId"));
        let data = frame.get("data").copied();
        // The recordings watch one lobby at a time, so an event is its, whatever id it carries.
        let slug = match self.0.len() {
            1 => self.0.keys().next().cloned(),
            _ => lobby_id.clone().filter(|id| self.0.contains_key(id)),
        };
        if let (Some(lobby), Some(room)) = (slug.as_ref().and_then(|slug| self.0.get_mut(slug)), &room) {
            let members = lobby.rooms.entry(room.clone()).or_default();
            if kind == "leave" {
                members.remove(&actor);
            } else {
                let id = values.text(&actor);
                let member = members.entry(actor.clone()).or_default();
                member.insert("actorTokenId".to_owned(), id);
                member.extend(data.map(|data| ("presence".to_owned(), data)));
            }
        }
        let told = Draft::new(values, "lobby")
            .text("lobby", slug.as_deref())
            .text("lobbyId", lobby_id.as_deref())
            .text("room", room.as_deref())
            .text("kind", Some(&kind))
            .text("actor", Some(&actor))
            .value("data", data);
        Some(told.finish())
    }
}

impl Lobby {
    fn shown(&self, values: &mut Values) -> Id {
        show_rooms(values, &self.rooms)
    }
}

/// A recorded snapshot as the client must show it.
pub(super) fn shown_rooms(values: &mut Values, rooms: Id) -> Id {
    let rooms = read_rooms(values, rooms);
    show_rooms(values, &rooms)
}

fn read_rooms(values: &mut Values, rooms: Id) -> BTreeMap<String, BTreeMap<String, Fields>> {
    let rooms = values.fields(rooms).unwrap_or_default();
    let mut read = BTreeMap::new();
    for (room, members) in rooms {
        let mut there = BTreeMap::new();
        for entry in entries(values, members) {
            let actor = entry.get("actorTokenId").and_then(|id| values.as_text(*id)).map(str::to_owned);
            there.extend(actor.map(|actor| (actor, entry)));
        }
        read.insert(room, there);
    }
    read
}

fn show_rooms(values: &mut Values, rooms: &BTreeMap<String, BTreeMap<String, Fields>>) -> Id {
    let mut shown = Fields::new();
    for (room, members) in rooms {
        let list = members.values().map(|entry| map(values, entry.clone())).collect();
        shown.insert(room.clone(), values.add(Value::List(list)));
    }
    map(values, shown)
}

/// The difference that a change found in a list is.
pub(super) fn rule_of_list(asked_by_application: bool) -> Different {
    if asked_by_application { Different::ListedPresence } else { Different::PresenceRefetch }
}
