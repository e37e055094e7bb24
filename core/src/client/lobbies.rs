//! Lobbies: watching who is present in many rooms.

use alloc::{
    collections::{BTreeMap, VecDeque},
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::{mem, time::Duration};

use bytes::Bytes;

use super::{
    ClientCore, Event, LobbyChange, LobbySnapshot, OpId, Outcome, PresenceKind, PresenceMember, Timer,
    presence::{MAX_MEMBERS, may_remember},
    requests::{Ops, RequestKind},
};
use crate::{
    Instant,
    error::{Error, Op, Rejection, ServerError},
    payload::Payload,
    topic,
    wire::{ClientFrame, LobbyEvent, LobbyMembers, RawValue, Text},
};

/// Kraken forgets a lobby's rooms 300 s after the last subscribe and then sends nothing more.
const KEEP_ALIVE: Duration = Duration::from_secs(240);

#[derive(Debug, Default)]
pub(super) struct Lobbies {
    by_slug: BTreeMap<Arc<str>, Lobby>,
    /// Those that were left on this connection, with their ids if we had seen them: their events may still come.
    left: VecDeque<(Arc<str>, Option<String>)>,
}

/// Lobbies that were left and are remembered.
const MAX_LEFT: usize = 64;

#[derive(Debug, Default)]
struct Lobby {
    /// Whether the broker confirmed it in any session.
    confirmed: bool,
    /// Whether the broker confirmed it in this session.
    live: bool,
    /// Commands that wait for the next session.
    waiters: Ops,
    /// The broker's id, once an event showed it.
    id: Option<String>,
    rooms: BTreeMap<String, BTreeMap<String, PresenceMember>>,
}

impl Lobbies {
    pub(super) fn watched(&self) -> usize {
        self.by_slug.len()
    }

    pub(super) fn connection_lost(&mut self) {
        self.left.clear();
        for lobby in self.by_slug.values_mut() {
            lobby.live = false;
            // Learned anew, in case it was learned wrongly.
            lobby.id = None;
        }
    }

    /// The lobby to watch; one that was left before is that one again, id included.
    fn enter(&mut self, slug: &Arc<str>) -> &mut Lobby {
        let before = self.left.iter().position(|(left, _)| left == slug);
        let id = before.and_then(|index| self.left.remove(index)).and_then(|(_, id)| id);
        let lobby = self.by_slug.entry(slug.clone()).or_default();
        lobby.id = lobby.id.take().or(id);
        lobby
    }

    fn remove(&mut self, slug: &str) -> Option<Lobby> {
        let (slug, mut lobby) = self.by_slug.remove_entry(slug)?;
        if self.left.len() >= MAX_LEFT {
            self.left.pop_front();
        }
        self.left.push_back((slug, lobby.id.take()));
        Some(lobby)
    }
}

impl ClientCore {
    /// Watches a lobby: from now on the broker tells who joins, changes and leaves in its rooms. Restored after every
    /// reconnect; a lobby that is watched already is joined without a frame.
    ///
    /// While there is no session the command waits for it. The outcome is [`Outcome::Lobby`] with who is present,
    /// [`Outcome::Refused`], [`Outcome::NotSent`] or [`Outcome::Unknown`].
    ///
    /// # Errors
    /// [`Error::Misuse`] for a bad name, [`Error::Rejected`] when the client is idle or leaving, or too much is waiting.
    pub fn lobby_subscribe(&mut self, now: Instant, lobby: &str) -> Result<OpId, Error> {
        self.observe(now);
        topic::check_segment(lobby)?;
        self.check_open()?;
        self.check_room(lobby.len())?;
        let op = self.accept(Op::LobbySubscribe);
        let slug: Arc<str> = match self.lobbies.by_slug.get_key_value(lobby) {
            Some((slug, _)) => slug.clone(),
            None => lobby.into(),
        };
        let ready = self.link_is_ready();
        let entry = self.lobbies.enter(&slug);
        if !ready {
            entry.waiters.push(op);
        } else if entry.live {
            let snapshot = entry.snapshot();
            match self.requests.iter_mut().find(|request| request.warms(&slug)) {
                Some(request) => request.ops.push(op),
                None => self.settle(op, Outcome::Lobby(snapshot)),
            }
        } else {
            self.send_lobby_subscribe(slug, Ops::from_elem(op, 1));
        }
        Ok(op)
    }

    /// Stops watching a lobby. Brokers confirm this even where nothing was watched.
    ///
    /// The outcome is [`Outcome::Unsubscribed`], or [`Outcome::Unknown`] without an answer.
    ///
    /// # Errors
    /// As [`lobby_subscribe`](Self::lobby_subscribe).
    pub fn lobby_unsubscribe(&mut self, now: Instant, lobby: &str) -> Result<OpId, Error> {
        self.observe(now);
        topic::check_segment(lobby)?;
        self.check_open()?;
        self.check_room(lobby.len())?;
        let op = self.accept(Op::LobbyUnsubscribe);
        if let Some(removed) = self.lobbies.remove(lobby) {
            self.settle_undone(removed.waiters, &Rejection::Superseded.into());
        }
        if self.link_is_ready() {
            self.send_lobby_unsubscribe(lobby.into(), Ops::from_elem(op, 1));
        } else {
            self.settle(op, Outcome::Unsubscribed);
        }
        Ok(op)
    }

    /// Asks who is present in a lobby's rooms; watching it is not needed.
    ///
    /// The outcome is [`Outcome::Lobby`], [`Outcome::Refused`], [`Outcome::NotSent`] or [`Outcome::Unknown`].
    ///
    /// # Errors
    /// [`Error::Misuse`] for a bad name, [`Error::Rejected`] without a session, while leaving, or when too much is
    /// waiting.
    pub fn fetch_lobby(&mut self, now: Instant, lobby: &str) -> Result<OpId, Error> {
        self.observe(now);
        topic::check_segment(lobby)?;
        self.check_ready(lobby.len())?;
        let op = self.accept(Op::FetchLobby);
        self.send_fetch_lobby(lobby.into(), Ops::from_elem(op, 1));
        Ok(op)
    }

    /// Who is known to be present in a watched lobby's rooms.
    pub fn lobby(&self, lobby: &str) -> Option<LobbySnapshot> {
        self.lobbies.by_slug.get(lobby).filter(|lobby| lobby.confirmed).map(Lobby::snapshot)
    }

    fn send_lobby_subscribe(&mut self, slug: Arc<str>, ops: Ops) {
        let frame = ClientFrame::LobbySubscribe { lobby_id: &slug };
        self.push_request(slug.clone(), RequestKind::LobbySubscribe, ops, &frame);
    }

    fn send_lobby_unsubscribe(&mut self, slug: Arc<str>, ops: Ops) {
        let frame = ClientFrame::LobbyUnsubscribe { lobby_id: &slug };
        self.push_request(slug.clone(), RequestKind::LobbyUnsubscribe, ops, &frame);
    }

    fn send_fetch_lobby(&mut self, slug: Arc<str>, ops: Ops) {
        let frame = ClientFrame::GetLobbyPresence { lobby_id: &slug };
        self.push_request(slug.clone(), RequestKind::FetchLobby, ops, &frame);
    }

    pub(super) fn restore_lobbies(&mut self) {
        let slugs: Vec<Arc<str>> = self.lobbies.by_slug.keys().cloned().collect();
        for slug in slugs {
            let waiters = self.lobbies.by_slug.get_mut(&slug).map(|lobby| mem::take(&mut lobby.waiters));
            self.send_lobby_subscribe(slug, waiters.unwrap_or_default());
        }
    }

    /// Subscribes again to what is live, so that the broker goes on sending events.
    pub(super) fn keep_lobbies_alive(&mut self) {
        let live = self.lobbies.by_slug.iter().filter(|(_, lobby)| lobby.live);
        let slugs: Vec<Arc<str>> = live.map(|(slug, _)| slug.clone()).collect();
        for slug in slugs {
            self.send_lobby_subscribe(slug, Ops::new());
        }
    }

    pub(super) fn handle_lobby_subscribed(&mut self, frame: &Bytes, slug: Text<'_>, presence: RawValue<'_>) {
        let is_subscribe = |kind: &RequestKind| matches!(kind, RequestKind::LobbySubscribe);
        let Some(request) = self.take_answered(slug.as_str(), is_subscribe) else { return };
        self.unanswered_restores = 0;
        let rooms = members(frame, presence);
        let snapshot = shown(&rooms);
        let cold = rooms.is_empty();
        if let Some(lobby) = self.lobbies.by_slug.get_mut(&request.key) {
            lobby.live = true;
            lobby.confirmed = true;
            if !cold {
                lobby.rooms = rooms;
            }
            if !self.timers.is_armed(Timer::LobbyKeepAlive) {
                self.timers.set(Timer::LobbyKeepAlive, self.now + KEEP_ALIVE);
            }
        }
        if cold {
            // A node that has not warmed up its map answers with nothing although there are members; asking at once
            // shows them.
            let frame = ClientFrame::GetLobbyPresence { lobby_id: &request.key };
            self.push_request(request.key.clone(), RequestKind::WarmLobby, request.ops, &frame);
        } else {
            self.settle_all(request.ops, &Outcome::Lobby(snapshot));
        }
    }

    /// The lobby is subscribed, only nobody says who is there: what is known must do.
    pub(super) fn lobby_stays_cold(&mut self, slug: &Arc<str>, ops: Ops) {
        let snapshot = self.lobbies.by_slug.get(slug).map(Lobby::snapshot).unwrap_or_default();
        self.settle_all(ops, &Outcome::Lobby(snapshot));
    }

    pub(super) fn handle_lobby_list(&mut self, frame: &Bytes, slug: Text<'_>, presence: RawValue<'_>) {
        let is_fetch = |kind: &RequestKind| matches!(kind, RequestKind::FetchLobby | RequestKind::WarmLobby);
        let Some(request) = self.take_answered(slug.as_str(), is_fetch) else { return };
        let rooms = members(frame, presence);
        let snapshot = shown(&rooms);
        if let Some(lobby) = self.lobbies.by_slug.get_mut(&request.key) {
            lobby.rooms = rooms;
        }
        self.settle_all(request.ops, &Outcome::Lobby(snapshot));
    }

    pub(super) fn handle_lobby_unsubscribed(&mut self, slug: Text<'_>) {
        let is_unsubscribe = |kind: &RequestKind| matches!(kind, RequestKind::LobbyUnsubscribe);
        if let Some(request) = self.take_answered(slug.as_str(), is_unsubscribe) {
            self.settle_all(request.ops, &Outcome::Unsubscribed);
        }
    }

    pub(super) fn lobby_refused(
        &mut self,
        slug: &Arc<str>,
        kind: &RequestKind,
        ops: Ops,
        error: ServerError,
    ) {
        self.settle_all(ops, &Outcome::Refused(error.clone().into()));
        let decides = matches!(kind, RequestKind::LobbySubscribe | RequestKind::WarmLobby);
        if decides && !self.lobby_is_under_way(slug) {
            self.end_lobby(slug, &error.into());
        }
    }

    /// Whether the answer to a subscribe will decide.
    fn lobby_is_under_way(&self, slug: &Arc<str>) -> bool {
        self.waiting_requests().iter().any(|request| {
            !request.expired && request.key == *slug && matches!(request.kind, RequestKind::LobbySubscribe)
        })
    }

    fn end_lobby(&mut self, slug: &Arc<str>, cause: &Error) {
        let Some(lobby) = self.lobbies.remove(slug) else { return };
        self.settle_undone(lobby.waiters, cause);
        if lobby.confirmed {
            self.events.push_back(Event::LobbyEnded { lobby: slug.clone(), cause: cause.clone() });
        }
    }

    pub(super) fn lobby_timed_out(&mut self, slug: &Arc<str>, restore: bool, error: Error) {
        if self.lobby_is_under_way(slug) {
            return;
        }
        let Some(lobby) = self.lobbies.by_slug.get(slug) else { return };
        if !lobby.confirmed {
            // Nobody waits any more, but the broker may have done it all the same.
            self.lobbies.remove(slug);
            return self.send_lobby_unsubscribe(slug.clone(), Ops::new());
        }
        if restore && self.restore_unanswered(error) {
            return;
        }
        self.send_lobby_subscribe(slug.clone(), Ops::new());
    }

    pub(super) fn lobby_subscribe_lost(&mut self, slug: &Arc<str>, ops: Ops, cause: &Error) {
        match self.lobbies.by_slug.get_mut(slug) {
            Some(lobby) => lobby.waiters.extend(ops),
            None => self.settle_undone(ops, cause),
        }
    }

    pub(super) fn end_lobbies(&mut self, cause: &Error) {
        let slugs: Vec<Arc<str>> = self.lobbies.by_slug.keys().cloned().collect();
        for slug in slugs {
            self.end_lobby(&slug, cause);
        }
    }

    pub(super) fn handle_lobby_event(&mut self, frame: &Bytes, event: &LobbyEvent<'_>) {
        let Some(actor_id) = event.actor_id else {
            self.stats.frames_unexpected += 1;
            return;
        };
        let room = event.room_id.and_then(Text::as_str);
        let lobby_id = event.lobby_id.and_then(Text::as_str);
        let kind = PresenceKind::from_wire(event.event);
        let data = Payload::from_frame(frame, event.data);
        let slug = self.attribute(lobby_id, room);
        if let (Some(lobby), Some(room)) =
            (slug.as_ref().and_then(|slug| self.lobbies.by_slug.get_mut(slug)), room)
        {
            if !lobby.apply(&kind, room, actor_id, &data) {
                self.stats.presence_dropped += 1;
            }
        }
        self.report(Event::Lobby(LobbyChange {
            lobby: slug,
            lobby_id: lobby_id.map(Into::into),
            room: room.map(Into::into),
            kind,
            actor_id: actor_id.into(),
            data,
        }));
    }

    /// Whose event it is. Kraken writes the lobby's id where everything else has its slug.
    fn attribute(&mut self, lobby_id: Option<&str>, room: Option<&str>) -> Option<Arc<str>> {
        let left = self.lobbies.left.iter();
        let from_left = left
            .clone()
            .any(|(slug, id)| lobby_id.is_some() && [Some(&**slug), id.as_deref()].contains(&lobby_id));
        let nameless_left = left.into_iter().any(|(_, id)| id.is_none());
        let lobbies = &mut self.lobbies.by_slug;
        if let Some(id) = lobby_id {
            if let Some((slug, _)) = lobbies.get_key_value(id) {
                return Some(slug.clone());
            }
            if let Some((slug, _)) = lobbies.iter().find(|(_, lobby)| lobby.id.as_deref() == Some(id)) {
                return Some(slug.clone());
            }
        }
        if from_left {
            // On its way when we stopped watching.
            return None;
        }
        if lobbies.len() == 1 && !nameless_left {
            let (slug, lobby) = lobbies.iter_mut().next()?;
            if lobby.id.is_none() {
                lobby.id = lobby_id.map(Into::into);
            }
            return Some(slug.clone());
        }
        // Those whose id is known would have been found by it.
        let room = room?;
        let mut holding = lobbies.iter().filter(|(_, lobby)| {
            (lobby.id.is_none() || lobby_id.is_none()) && lobby.rooms.contains_key(room)
        });
        let (slug, _) = holding.next()?;
        holding.next().is_none().then(|| slug.clone())
    }
}

impl Lobby {
    fn snapshot(&self) -> LobbySnapshot {
        shown(&self.rooms)
    }

    fn known(&self) -> usize {
        self.rooms.len() + self.rooms.values().map(BTreeMap::len).sum::<usize>()
    }

    /// `false` when the change is not remembered, because too much is known already.
    fn apply(&mut self, kind: &PresenceKind, room: &str, actor_id: &str, data: &Payload) -> bool {
        let known = self.rooms.values().flat_map(|members| members.values()).map(|member| &member.presence);
        let fits = may_remember(data, known);
        let data = if fits { data.clone() } else { Payload::nil() };
        if *kind == PresenceKind::Leave {
            self.rooms.get_mut(room).and_then(|members| members.remove(actor_id));
        } else if !matches!(kind, PresenceKind::Join | PresenceKind::Update) {
            // Waking and what is yet to be invented do not say what the presence is.
        } else if let Some(member) = self.rooms.get_mut(room).and_then(|members| members.get_mut(actor_id)) {
            member.presence = data;
        } else if self.known() < MAX_MEMBERS {
            let members = self.rooms.entry(room.into()).or_default();
            let member =
                PresenceMember { actor_id: actor_id.into(), presence: data, joined_at: None, status: None };
            members.insert(actor_id.into(), member);
        } else {
            return false;
        }
        fits
    }
}

fn members(frame: &Bytes, presence: RawValue<'_>) -> BTreeMap<String, BTreeMap<String, PresenceMember>> {
    let mut left = MAX_MEMBERS;
    let mut rooms = BTreeMap::new();
    for (room, entries) in LobbyMembers(presence).rooms().take(MAX_MEMBERS) {
        let members: &mut BTreeMap<String, PresenceMember> = rooms.entry(room.into()).or_default();
        for entry in entries.into_iter().take(left) {
            left -= 1;
            let member = PresenceMember {
                actor_id: entry.actor_token_id.into(),
                presence: Payload::from_frame(frame, entry.presence),
                joined_at: entry.joined_at,
                status: entry.status.map(Into::into),
            };
            members.insert(entry.actor_token_id.into(), member);
        }
    }
    rooms
}

fn shown(rooms: &BTreeMap<String, BTreeMap<String, PresenceMember>>) -> LobbySnapshot {
    rooms.iter().map(|(room, members)| (room.clone(), members.values().cloned().collect())).collect()
}
