//! Filters, presence and lobbies, as an application asks for them and a broker answers.

use bytes::BytesMut;
use nolag_core::{
    Event, FilterChange, LobbySnapshot, OpId, Payload, PresenceChange, PresenceMember, Refused,
    wire::{ErrorFrame, Filter, LobbyEvent, PresenceEvent, RawValue, ServerFrame, Text, write},
};

use super::{Peer, filter_list, payload};

pub(crate) const ROOM: &str = "general";
pub(crate) const LOBBY: &str = "operations";
/// What Kraken writes in events where everything else has the slug.
pub(crate) const LOBBY_ID: &str = "5d0e0000-0000-4000-8000-0000000000c1";

/// A member as a broker lists it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed<'a> {
    pub(crate) actor: &'a str,
    pub(crate) text: &'a str,
    pub(crate) joined_at: Option<u64>,
    pub(crate) status: Option<&'a str>,
}

pub(crate) fn online<'a>(actor: &'a str, text: &'a str) -> Listed<'a> {
    Listed { actor, text, joined_at: Some(1_796_063_522), status: Some("online") }
}

/// A persistent entry whose actor is gone.
pub(crate) fn offline<'a>(actor: &'a str, text: &'a str) -> Listed<'a> {
    Listed { actor, text, joined_at: None, status: Some("offline") }
}

/// Rooms with their members, as in a lobby snapshot.
pub(crate) type Rooms<'a> = &'a [(&'a str, &'a [(&'a str, &'a str)])];

impl Peer {
    // ---- filters ----

    pub(crate) fn set_filters(&mut self, filters: &[&str]) -> OpId {
        self.accepted(|peer| peer.core.set_filters(peer.now, super::TOPIC, filter_list(filters)))
    }

    pub(crate) fn add_filters(&mut self, filters: &[&str]) -> OpId {
        self.accepted(|peer| peer.core.add_filters(peer.now, super::TOPIC, filter_list(filters)))
    }

    pub(crate) fn remove_filters(&mut self, filters: &[&str]) -> OpId {
        self.accepted(|peer| peer.core.remove_filters(peer.now, super::TOPIC, filter_list(filters)))
    }

    fn accepted(&mut self, change: impl FnOnce(&mut Self) -> Result<OpId, Refused<FilterChange>>) -> OpId {
        let op = change(self).expect("the change is accepted");
        self.pump();
        op
    }

    /// A subscription with these filters that the broker has confirmed; what happened until then is forgotten.
    pub(crate) fn filtered_subscription(&mut self, topic: &str, filters: &[&str]) {
        self.filtered(topic, filters);
        self.subscribed(topic);
        self.forget();
    }

    /// Confirms a change of filters. The list in the frame is not what the core goes by.
    pub(crate) fn filters_updated(&mut self, topic: &str) {
        self.answer(&ServerFrame::FiltersUpdated { topic: Text::Str(topic), filters: RawValue::EMPTY_LIST });
    }

    /// The filters that the client keeps for a topic.
    pub(crate) fn filters_of(&self, topic: &str) -> Vec<String> {
        let info = self.core.subscriptions().find(|info| &*info.topic == topic).expect("a subscription");
        info.options.filters.iter().map(Filter::canonical).collect()
    }

    // ---- presence ----

    pub(crate) fn set_presence(&mut self, room: &str, text: &str) -> OpId {
        let op = self.core.set_presence(self.now, room, payload(text)).expect("presence is accepted");
        self.pump();
        op
    }

    pub(crate) fn clear_presence(&mut self) -> OpId {
        let op = self.core.clear_presence(self.now).expect("clearing is accepted");
        self.pump();
        op
    }

    pub(crate) fn fetch_presence(&mut self, room: &str) -> OpId {
        let op = self.core.fetch_presence(self.now, room).expect("a fetch is accepted");
        self.pump();
        op
    }

    pub(crate) fn presence_event(&mut self, event: &str, actor: &str, text: Option<&str>) {
        let payload = text.map(payload);
        self.presence_value(event, actor, payload.as_ref().map(Payload::raw), None);
    }

    pub(crate) fn presence_value(
        &mut self,
        event: &str,
        actor: &str,
        presence: Option<RawValue<'_>>,
        status: Option<&str>,
    ) {
        self.answer(&ServerFrame::Presence(PresenceEvent {
            event,
            actor_token_id: Some(actor),
            presence,
            status,
            capabilities: None,
            advertisement_version: None,
        }));
    }

    /// What members see of the first set in a room.
    pub(crate) fn joins(&mut self, actor: &str, text: &str) {
        self.presence_event("join", actor, Some(text));
        self.presence_event("update", actor, Some(text));
    }

    pub(crate) fn updates(&mut self, actor: &str, text: &str) {
        self.presence_event("update", actor, Some(text));
    }

    pub(crate) fn leaves(&mut self, actor: &str) {
        self.presence_event("leave", actor, None);
    }

    /// Is present in a room, as the broker has confirmed; what happened until then is forgotten.
    pub(crate) fn present_in(&mut self, room: &str) {
        self.set_presence(room, "me");
        self.joins(super::ACTOR, "me");
        self.forget();
    }

    pub(crate) fn presence_list(&mut self, room: &str, members: &[Listed<'_>]) {
        let data = presence_list(members);
        let data = RawValue::parse(&data).expect("a list");
        self.answer(&ServerFrame::PresenceList { room_id: Some(Text::Str(room)), data });
    }

    /// Who is known to be in the room, in words.
    pub(crate) fn members(&self) -> Vec<String> {
        self.core.presence().map(|member| shown(&member)).collect()
    }

    // ---- lobbies ----

    pub(crate) fn lobby_subscribe(&mut self, lobby: &str) -> OpId {
        let op = self.core.lobby_subscribe(self.now, lobby).expect("lobby subscribe is accepted");
        self.pump();
        op
    }

    pub(crate) fn lobby_unsubscribe(&mut self, lobby: &str) -> OpId {
        let op = self.core.lobby_unsubscribe(self.now, lobby).expect("lobby unsubscribe is accepted");
        self.pump();
        op
    }

    pub(crate) fn fetch_lobby(&mut self, lobby: &str) -> OpId {
        let op = self.core.fetch_lobby(self.now, lobby).expect("a fetch is accepted");
        self.pump();
        op
    }

    /// A watched lobby; what happened until then is forgotten.
    pub(crate) fn watching(&mut self, lobby: &str, rooms: Rooms<'_>) {
        self.lobby_subscribe(lobby);
        self.lobby_subscribed(lobby, rooms);
        self.forget();
    }

    pub(crate) fn lobby_subscribed(&mut self, lobby: &str, rooms: Rooms<'_>) {
        let presence = lobby_snapshot(rooms);
        let presence = RawValue::parse(&presence).expect("a map");
        self.answer(&ServerFrame::LobbySubscribed { lobby_id: Text::Str(lobby), presence });
    }

    pub(crate) fn lobby_list(&mut self, lobby: &str, rooms: Rooms<'_>) {
        let presence = lobby_snapshot(rooms);
        let presence = RawValue::parse(&presence).expect("a map");
        self.answer(&ServerFrame::LobbyPresenceList { lobby_id: Text::Str(lobby), presence });
    }

    pub(crate) fn lobby_unsubscribed(&mut self, lobby: &str) {
        self.answer(&ServerFrame::LobbyUnsubscribed { lobby_id: Text::Str(lobby) });
    }

    pub(crate) fn lobby_denied(&mut self, lobby: &str) {
        let lobby_id = Some(Text::Str(lobby));
        self.answer(&ServerFrame::Error(ErrorFrame {
            error: "not_authorized",
            lobby_id,
            ..ErrorFrame::default()
        }));
    }

    pub(crate) fn lobby_event(&mut self, event: &str, lobby_id: &str, room: &str, actor: &str, text: &str) {
        let payload = payload(text);
        self.answer(&ServerFrame::LobbyPresence(LobbyEvent {
            event,
            lobby_id: Some(Text::Str(lobby_id)),
            room_id: Some(Text::Str(room)),
            actor_id: Some(actor),
            data: if event == "leave" { RawValue::EMPTY_MAP } else { payload.raw() },
        }));
    }

    /// What is known of a watched lobby, in words.
    pub(crate) fn lobby(&self, lobby: &str) -> Option<String> {
        self.core.lobby(lobby).map(|snapshot| in_words(&snapshot))
    }

    /// Presence and lobby events since last asked, in words; no others are expected.
    #[track_caller]
    pub(crate) fn changes(&mut self) -> Vec<String> {
        let words = |event| match event {
            Event::Presence(change) => change_in_words(&change),
            Event::Lobby(change) => {
                let lobby = change.lobby.as_deref().unwrap_or("?");
                let room = change.room.as_deref().unwrap_or("?");
                format!("{lobby}/{room}: {:?} {}", change.kind, change.actor_id)
            }
            other => panic!("not a change: {other:?}"),
        };
        self.events().into_iter().map(words).collect()
    }
}

pub(crate) fn presence_list(members: &[Listed<'_>]) -> Vec<u8> {
    let mut out = BytesMut::new();
    write::list_header(&mut out, members.len());
    for member in members {
        let optional = usize::from(member.joined_at.is_some()) + usize::from(member.status.is_some());
        write::map_header(&mut out, 2 + optional);
        write::str(&mut out, "actorTokenId");
        write::str(&mut out, member.actor);
        write::str(&mut out, "presence");
        write::str(&mut out, member.text);
        if let Some(joined_at) = member.joined_at {
            write::str(&mut out, "joinedAt");
            write::uint(&mut out, joined_at);
        }
        if let Some(status) = member.status {
            write::str(&mut out, "status");
            write::str(&mut out, status);
        }
    }
    out.to_vec()
}

pub(crate) fn lobby_snapshot(rooms: Rooms<'_>) -> Vec<u8> {
    let mut out = BytesMut::new();
    write::map_header(&mut out, rooms.len());
    for (room, members) in rooms {
        write::str(&mut out, room);
        write::map_header(&mut out, members.len());
        for (actor, text) in *members {
            write::str(&mut out, actor);
            write::map_header(&mut out, 3);
            for (key, value) in [("actorTokenId", actor), ("presence", text)] {
                write::str(&mut out, key);
                write::str(&mut out, value);
            }
            write::str(&mut out, "joinedAt");
            write::uint(&mut out, 1_796_063_522);
        }
    }
    out.to_vec()
}

/// A snapshot in words: `room: actor=presence …; room: …`.
pub(crate) fn in_words(snapshot: &LobbySnapshot) -> String {
    let room = |(room, members): (&String, &Vec<PresenceMember>)| {
        let members: Vec<_> = members.iter().map(shown).collect();
        format!("{room}: {}", members.join(" "))
    };
    snapshot.iter().map(room).collect::<Vec<_>>().join("; ")
}

pub(crate) fn shown(member: &PresenceMember) -> String {
    let offline = member.status.as_deref().filter(|status| *status != "online");
    let offline = offline.map(|status| format!(" ({status})")).unwrap_or_default();
    format!("{}={}{offline}", member.actor_id, value_in_words(member.presence.raw()))
}

fn change_in_words(change: &PresenceChange) -> String {
    let room = change.room.as_deref().unwrap_or("?");
    let presence = change.presence.as_ref().map(|presence| format!("={}", value_in_words(presence.raw())));
    let status = change.status.as_deref().filter(|status| *status != "online");
    let status = status.map(|status| format!(" ({status})")).unwrap_or_default();
    format!("{room}: {:?} {}{}{status}", change.kind, change.actor_id, presence.unwrap_or_default())
}

pub(crate) fn value_in_words(value: RawValue<'_>) -> String {
    match value.as_str() {
        Some(text) => text.into(),
        None if value.is_nil() => "nil".into(),
        None => format!("{:?}", value.kind()),
    }
}
