//! `presence` and `getPresence`: who is in a room.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use nolag_core::wire::{FrameMap, Key, PresenceEvent, RawValue, ServerFrame, Text, write};

use super::{BrokerCore, ConnectionId, Crash, as_value};
use crate::auth::Grants;

/// A room, or that part of it which one access scope sees.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Room {
    pub(super) id: String,
    pub(super) scope: Option<String>,
}

/// Where a connection is present.
#[derive(Debug, Clone)]
pub(super) struct Present {
    room: Room,
    /// Its last presence asked to outlive the connection.
    persistent: bool,
}

impl Present {
    pub(super) fn room(&self) -> &Room {
        &self.room
    }
}

/// The members of all rooms. A member is a connection, so one actor can be in a room twice.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    rooms: BTreeMap<Room, BTreeMap<ConnectionId, Member>>,
}

#[derive(Debug)]
pub(super) struct Member {
    /// The actor at the time of joining: a later identity of the connection does not change it.
    pub(super) actor_id: String,
    pub(super) presence: Bytes,
    /// In Unix seconds.
    pub(super) joined_at: u64,
}

impl Rooms {
    /// The members of a room, oldest connection first.
    pub(super) fn members(&self, room: &Room) -> impl Iterator<Item = (ConnectionId, &Member)> {
        self.rooms.get(room).into_iter().flatten().map(|(conn, member)| (*conn, member))
    }

    /// The members of a room that outlives the question.
    pub(super) fn members_in(&self, room: &Room) -> impl Iterator<Item = &Member> + use<'_> {
        self.rooms.get(room).into_iter().flat_map(BTreeMap::values)
    }

    /// The ids of the rooms that have members in a scope.
    pub(super) fn occupied(&self, scope: &Option<String>) -> impl Iterator<Item = String> {
        self.rooms.keys().filter(move |room| room.scope == *scope).map(|room| room.id.clone())
    }

    fn member(&mut self, room: &Room, conn: ConnectionId) -> Option<&mut Member> {
        self.rooms.get_mut(room)?.get_mut(&conn)
    }

    fn join(&mut self, room: &Room, conn: ConnectionId, member: Member) {
        self.rooms.entry(room.clone()).or_default().insert(conn, member);
    }

    fn leave(&mut self, room: &Room, conn: ConnectionId) {
        if let Some(members) = self.rooms.get_mut(room) {
            members.remove(&conn);
            if members.is_empty() {
                self.rooms.remove(room);
            }
        }
    }
}

/// Something that happened to a member of a room.
pub(super) struct Change<'a> {
    pub(super) room: &'a Room,
    pub(super) event: &'static str,
    pub(super) actor_id: &'a str,
    /// Absent on `leave`.
    pub(super) presence: Option<&'a Bytes>,
}

impl BrokerCore {
    /// Acts on `presence`. Rooms that no grant names are ignored without a word, as is a presence without a room.
    pub(super) fn set_presence(&mut self, conn: ConnectionId, map: &FrameMap<'_>) -> Result<(), Crash> {
        let (Some(room), Some(data)) = (map.get(Key::RoomId), map.get(Key::Data)) else { return Ok(()) };
        let Some(connection) = self.connections.get(&conn) else { return Ok(()) };
        let Some(actor) = connection.identity.as_ref().map(|identity| identity.actor.clone()) else {
            return Ok(());
        };
        let Some(room_id) = room.as_str().and_then(|slug| self.room_id(&actor, slug)) else { return Ok(()) };
        let room = Room { id: room_id, scope: actor.presence_scope(self.rules.presence_by_scope) };
        let presence = self.echo(data)?;
        let actor_id = actor.actor_id.as_str();
        let left =
            connection.present.as_ref().map(|present| &present.room).filter(|left| **left != room).cloned();
        if let Some(left) = left {
            self.announce(&Change { room: &left, event: "leave", actor_id, presence: None });
            self.rooms.leave(&left, conn);
        }
        let joined_at = self.unix_now();
        let mut change = Change { room: &room, event: "join", actor_id, presence: Some(&presence) };
        match self.rooms.member(&room, conn) {
            Some(member) => member.presence = presence.clone(),
            None => {
                let member = Member { actor_id: actor_id.into(), presence: presence.clone(), joined_at };
                self.rooms.join(&room, conn, member);
                self.announce(&change);
            }
        }
        change.event = "update";
        self.announce(&change);

        let persistent =
            FrameMap::from_value(data).is_some_and(|data| data.bool(Key::Persistent) == Some(true));
        if persistent {
            self.advertised.advertise(&room.id, actor_id, presence);
        }
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.present = Some(Present { room, persistent });
        }
        if persistent {
            self.replay_missed(conn);
        }
        Ok(())
    }

    /// A closed connection leaves its room. What it advertised stays known, as offline.
    pub(super) fn leave_room(&mut self, conn: ConnectionId, present: &Present, actor_id: &str) {
        let room = &present.room;
        self.rooms.leave(room, conn);
        self.announce(&Change { room, event: "leave", actor_id, presence: None });
        if present.persistent {
            self.advertised.offline(&room.id, actor_id);
        }
    }

    /// A connection leaves its room if its actor may not be there any more, or sees another part of it.
    pub(super) fn leave_if_not_allowed(&mut self, conn: ConnectionId) {
        let Some(connection) = self.connections.get(&conn) else { return };
        let (Some(identity), Some(present)) = (&connection.identity, &connection.present) else { return };
        let (actor, present) = (identity.actor.clone(), present.clone());
        let slug = self.room_slug(&actor, &present.room.id);
        let same_part = actor.presence_scope(self.rules.presence_by_scope) == present.room.scope;
        if !same_part || self.room_id(&actor, slug).as_ref() != Some(&present.room.id) {
            self.leave_room(conn, &present, &actor.actor_id);
            if let Some(connection) = self.connections.get_mut(&conn) {
                connection.present = None;
            }
        }
    }

    /// The room is no more: everybody leaves it, but for those whose auth file grants it.
    pub(super) fn clear_room(&mut self, room_id: &str) {
        let present = self.connections.iter().filter_map(|(conn, connection)| {
            let (identity, present) = (connection.identity.as_ref()?, connection.present.as_ref()?);
            let stays = matches!(identity.actor.grants, Grants::Topics(_)) || present.room.id != room_id;
            (!stays).then(|| (*conn, present.clone(), identity.actor.actor_id.clone()))
        });
        for (conn, present, actor_id) in present.collect::<Vec<_>>() {
            self.leave_room(conn, &present, &actor_id);
            if let Some(connection) = self.connections.get_mut(&conn) {
                connection.present = None;
            }
        }
        self.advertised.forget_room(room_id);
    }

    /// Tells the members of the room, and those who observe it through a lobby.
    fn announce(&mut self, change: &Change<'_>) {
        let frame = ServerFrame::Presence(PresenceEvent {
            event: change.event,
            actor_token_id: Some(change.actor_id),
            presence: change.presence.map(as_value),
            status: None,
            capabilities: None,
            advertisement_version: None,
        });
        let frame = super::encode(&frame);
        let members: Vec<ConnectionId> = self.rooms.members(change.room).map(|(conn, _)| conn).collect();
        for conn in members {
            self.send(conn, frame.clone());
        }
        self.announce_in_lobbies(change);
    }

    /// Acts on `getPresence`. A room that no grant names is looked up as if its id had been sent.
    pub(super) fn list_presence(&mut self, conn: ConnectionId, map: &FrameMap<'_>) -> Result<(), Crash> {
        let Some(room) = map.get(Key::RoomId) else {
            self.send_frame(conn, &ServerFrame::PresenceList { room_id: None, data: RawValue::EMPTY_LIST });
            return Ok(());
        };
        let echoed = self.echo(room)?;
        let identity = self.connections.get(&conn).and_then(|connection| connection.identity.as_ref());
        let named = room.as_str().zip(identity);
        let found = named.map(|(slug, identity)| Room {
            id: self.room_id(&identity.actor, slug).unwrap_or_else(|| slug.into()),
            scope: identity.actor.presence_scope(self.rules.presence_by_scope),
        });
        let list = match found {
            Some(room) => self.pack_members(&room),
            None => Bytes::from_static(RawValue::EMPTY_LIST.as_bytes()),
        };
        // `nil` is a room too, and comes back.
        let room_id = Some(Text::from(as_value(&echoed)));
        self.send_frame(conn, &ServerFrame::PresenceList { room_id, data: as_value(&list) });
        Ok(())
    }

    fn pack_members(&self, room: &Room) -> Bytes {
        let online: BTreeSet<&str> =
            self.rooms.members(room).map(|(_, member)| member.actor_id.as_str()).collect();
        let absent: Vec<_> =
            self.advertised.in_room(&room.id).filter(|(actor_id, ..)| !online.contains(actor_id)).collect();
        let mut out = BytesMut::new();
        write::list_header(&mut out, self.rooms.members(room).count() + absent.len());
        for (_, member) in self.rooms.members(room) {
            write::map_header(&mut out, 4);
            member.pack_fields(&mut out);
            put_text(&mut out, Key::Status, "online");
        }
        for (actor_id, presence, status) in absent {
            write::map_header(&mut out, 3);
            put_text(&mut out, Key::ActorTokenId, actor_id);
            write::str(&mut out, Key::Presence.as_str());
            write::value(&mut out, as_value(presence));
            put_text(&mut out, Key::Status, status);
        }
        out.freeze()
    }
}

impl Member {
    /// Appends the three fields that lists and lobby snapshots share.
    pub(super) fn pack_fields(&self, out: &mut BytesMut) {
        put_text(out, Key::ActorTokenId, &self.actor_id);
        write::str(out, Key::Presence.as_str());
        write::value(out, as_value(&self.presence));
        write::str(out, Key::JoinedAt.as_str());
        write::uint(out, self.joined_at);
    }
}

fn put_text(out: &mut BytesMut, key: Key, value: &str) {
    write::str(out, key.as_str());
    write::str(out, value);
}
