//! Lobbies: watching the presence of many rooms at once.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use nolag_core::{
    Instant,
    wire::{ErrorFrame, FrameMap, Key, LobbyEvent, RawValue, ServerFrame, Text, write},
};

use super::{
    BrokerCore, ConnectionId, Crash, as_text, as_value,
    presence::{Change, Room},
    subscriptions::TOO_MANY,
};

/// Lobbies that one connection can observe. Real brokers have no such limit.
const MAX_OBSERVED: usize = 1000;

/// A lobby that a connection observes: the ids behind the slug, and the access scope whose presence it sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observed {
    ids: Vec<String>,
    scope: Option<String>,
}

/// Who observes which lobby, and which rooms it has as far as the broker knows.
///
/// Observers are bounded per connection. Rooms are those that grants name, so they are bounded by the auth file.
/// Without one, lobbies have all rooms and only their ids are kept; those that nobody observes go first.
#[derive(Debug, Default)]
pub(super) struct Lobbies {
    /// Lobby id → who observes it, under which slug, and in which scope.
    observers: BTreeMap<String, BTreeMap<ConnectionId, (String, Option<String>)>>,
    /// Lobby id → its rooms.
    rooms: BTreeMap<String, Known<Scope>>,
    /// Room id → its lobbies.
    lobbies: BTreeMap<String, Known<BTreeSet<String>>>,
}

/// Something known until a time; `None` is for good.
#[derive(Debug, Clone)]
struct Known<T> {
    value: T,
    until: Option<Instant>,
}

/// The rooms of a lobby.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    All,
    Rooms(BTreeSet<String>),
}

impl<T> Known<T> {
    fn at(&self, now: Instant) -> Option<&T> {
        self.until.is_none_or(|until| now < until).then_some(&self.value)
    }
}

impl Lobbies {
    fn observe(&mut self, conn: ConnectionId, slug: &str, observed: &Observed) {
        for id in &observed.ids {
            let observer = (slug.into(), observed.scope.clone());
            self.observers.entry(id.clone()).or_default().insert(conn, observer);
        }
    }

    /// A connection no longer observes some lobbies.
    pub(super) fn ignore(&mut self, conn: ConnectionId, observed: &Observed) {
        for id in &observed.ids {
            if let Some(observers) = self.observers.get_mut(id) {
                observers.remove(&conn);
                if observers.is_empty() {
                    self.observers.remove(id);
                }
            }
        }
    }

    /// Learns which rooms lobbies have. A broker that forgets also remembers only the last lobbies of each room.
    fn learn(&mut self, ids: &[String], rooms: Option<&BTreeSet<String>>, until: Option<Instant>) {
        let scope = rooms.map_or(Scope::All, |rooms| Scope::Rooms(rooms.clone()));
        if scope == Scope::Rooms(BTreeSet::new()) {
            return;
        }
        if self.rooms.len() >= MAX_OBSERVED {
            let observers = &self.observers;
            self.rooms.retain(|id, _| observers.contains_key(id));
        }
        for id in ids {
            let before = self.rooms.remove(id).filter(|_| until.is_none());
            let value = match (before.map(|known| known.value), &scope) {
                (Some(Scope::Rooms(before)), Scope::Rooms(rooms)) => Scope::Rooms(&before | rooms),
                (Some(Scope::All), _) => Scope::All,
                _ => scope.clone(),
            };
            self.rooms.insert(id.clone(), Known { value, until });
        }
        for room in rooms.into_iter().flatten() {
            let before = self.lobbies.remove(room).filter(|_| until.is_none());
            let mut value: BTreeSet<String> = ids.iter().cloned().collect();
            value.extend(before.into_iter().flat_map(|known| known.value));
            self.lobbies.insert(room.clone(), Known { value, until });
        }
    }

    fn rooms_of(&self, id: &str, now: Instant) -> Option<&Scope> {
        self.rooms.get(id)?.at(now)
    }

    /// Who hears of a change in a room: connection, lobby id, and the slug that it was subscribed with.
    fn audience(&self, room: &Room, now: Instant) -> Vec<(ConnectionId, String, String)> {
        let mut ids = self.lobbies.get(&room.id).and_then(|known| known.at(now)).cloned().unwrap_or_default();
        let everywhere = self.rooms.iter().filter(|(_, known)| known.at(now) == Some(&Scope::All));
        ids.extend(everywhere.map(|(id, _)| id.clone()));
        let mut audience = Vec::new();
        for id in ids {
            let observers = self.observers.get(&id).into_iter().flatten();
            let same_scope = observers.filter(|(_, (_, scope))| *scope == room.scope);
            audience.extend(same_scope.map(|(conn, (slug, _))| (*conn, id.clone(), slug.clone())));
        }
        audience
    }
}

impl BrokerCore {
    pub(super) fn lobby_subscribe(&mut self, conn: ConnectionId, map: &FrameMap<'_>) -> Result<(), Crash> {
        let Some(lobby) = map.get(Key::LobbyId) else { return Ok(()) };
        let echoed = self.echo(lobby)?;
        let Some((slug, ids)) = self.allowed_lobby(conn, lobby) else {
            return self.refuse_lobby(conn, &echoed, "not_authorized");
        };
        let Some(connection) = self.connections.get_mut(&conn) else { return Ok(()) };
        if connection.observed.len() >= MAX_OBSERVED && !connection.observed.contains_key(slug) {
            return self.refuse_lobby(conn, &echoed, TOO_MANY);
        }
        let Some(actor) = connection.identity.as_ref().map(|identity| &identity.actor) else { return Ok(()) };
        let rooms = actor.room_ids();
        let scope = actor.presence_scope(self.rules.presence_by_scope);
        let observed = Observed { ids: ids.clone(), scope };
        if let Some(before) = connection.observed.insert(slug.into(), observed.clone()) {
            self.lobbies.ignore(conn, &before);
        }
        self.lobbies.observe(conn, slug, &observed);
        // A broker that forgets learns after it has looked, so its first snapshot is empty.
        let snapshot = match self.rules.lobby_memory {
            Some(memory) => {
                let snapshot = self.pack_lobbies(conn, &ids);
                self.lobbies.learn(&ids, rooms.as_ref(), Some(self.now + memory));
                snapshot
            }
            None => {
                self.lobbies.learn(&ids, rooms.as_ref(), None);
                self.pack_lobbies(conn, &ids)
            }
        };
        let (lobby_id, presence) = (as_text(&echoed), as_value(&snapshot));
        self.send_frame(conn, &ServerFrame::LobbySubscribed { lobby_id, presence });
        Ok(())
    }

    /// Acts on `lobbyUnsubscribe`, which is confirmed whatever it names.
    pub(super) fn lobby_unsubscribe(&mut self, conn: ConnectionId, map: &FrameMap<'_>) -> Result<(), Crash> {
        let Some(lobby) = map.get(Key::LobbyId) else { return Ok(()) };
        let echoed = self.echo(lobby)?;
        let observed = lobby.as_str().zip(self.connections.get_mut(&conn));
        if let Some(observed) = observed.and_then(|(slug, connection)| connection.observed.remove(slug)) {
            self.lobbies.ignore(conn, &observed);
        }
        self.send_frame(conn, &ServerFrame::LobbyUnsubscribed { lobby_id: as_text(&echoed) });
        Ok(())
    }

    pub(super) fn list_lobby_presence(
        &mut self,
        conn: ConnectionId,
        map: &FrameMap<'_>,
    ) -> Result<(), Crash> {
        let Some(lobby) = map.get(Key::LobbyId) else { return Ok(()) };
        let echoed = self.echo(lobby)?;
        let Some((_, ids)) = self.allowed_lobby(conn, lobby) else {
            return self.refuse_lobby(conn, &echoed, "not_authorized");
        };
        let snapshot = self.pack_lobbies(conn, &ids);
        let (lobby_id, presence) = (as_text(&echoed), as_value(&snapshot));
        self.send_frame(conn, &ServerFrame::LobbyPresenceList { lobby_id, presence });
        Ok(())
    }

    /// Tells those who observe a room through a lobby.
    pub(super) fn announce_in_lobbies(&mut self, change: &Change<'_>) {
        for (conn, id, slug) in self.lobbies.audience(change.room, self.now) {
            let Some(connection) = self.connections.get(&conn) else { continue };
            let Some(identity) = &connection.identity else { continue };
            let frame = super::encode(&ServerFrame::LobbyPresence(LobbyEvent {
                event: change.event,
                lobby_id: Some(Text::Str(if self.rules.lobby_events_carry_slug { &slug } else { &id })),
                room_id: Some(Text::Str(self.room_slug(&identity.actor, &change.room.id))),
                actor_id: Some(change.actor_id),
                data: change.presence.map_or(RawValue::EMPTY_MAP, as_value),
            }));
            self.send(conn, frame);
        }
    }

    fn allowed_lobby<'m>(&self, conn: ConnectionId, lobby: RawValue<'m>) -> Option<(&'m str, Vec<String>)> {
        let slug = lobby.as_str()?;
        let ids = self.connections.get(&conn)?.identity.as_ref()?.actor.lobby_ids(slug);
        (!ids.is_empty()).then_some((slug, ids))
    }

    fn refuse_lobby(&mut self, conn: ConnectionId, lobby: &Bytes, error: &str) -> Result<(), Crash> {
        let lobby_id = Some(as_text(lobby));
        self.send_error(conn, ErrorFrame { error, lobby_id, ..ErrorFrame::default() });
        Ok(())
    }

    /// Room → actor → entry, for every room that the lobbies have as far as the broker knows. Of an actor's several
    /// connections the newest counts.
    fn pack_lobbies(&self, conn: ConnectionId, ids: &[String]) -> Bytes {
        let actor = self.connections.get(&conn).and_then(|connection| connection.identity.as_ref());
        let scope = actor.and_then(|identity| identity.actor.presence_scope(self.rules.presence_by_scope));
        let mut rooms = BTreeSet::new();
        for id in ids {
            match self.lobbies.rooms_of(id, self.now) {
                Some(Scope::Rooms(known)) => rooms.extend(known.iter().cloned()),
                Some(Scope::All) => rooms.extend(self.rooms.occupied(&scope)),
                None => {}
            }
        }
        let slug = |room_id| actor.map_or(room_id, |identity| self.room_slug(&identity.actor, room_id));
        // Two rooms with one slug are one room to the client.
        let rooms: BTreeMap<&str, &String> =
            rooms.iter().map(|room_id| (slug(room_id.as_str()), room_id)).collect();
        let mut out = BytesMut::new();
        write::map_header(&mut out, rooms.len());
        for (slug, room_id) in rooms {
            write::str(&mut out, slug);
            let room = Room { id: room_id.clone(), scope: scope.clone() };
            let members: BTreeMap<&str, _> =
                self.rooms.members(&room).map(|(_, member)| (member.actor_id.as_str(), member)).collect();
            write::map_header(&mut out, members.len());
            for (actor_id, member) in members {
                write::str(&mut out, actor_id);
                write::map_header(&mut out, 3);
                member.pack_fields(&mut out);
            }
        }
        out.freeze()
    }
}
