//! Presence: the one room where this connection is present, and who else is there.

use alloc::{boxed::Box, collections::BTreeMap, format, string::String, sync::Arc, vec::Vec};
use core::{mem, time::Duration};

use bytes::Bytes;

use super::{
    ClientCore, Event, OpId, Outcome, PresenceChange, PresenceKind, PresenceMember, Timer,
    requests::{Ops, RequestKind},
};
use crate::{
    Instant,
    error::{Error, Op, Refused, Rejection, ServerError, TransportErrorKind},
    payload::Payload,
    topic,
    wire::{ClientFrame, PresenceEntry, PresenceEvent, RawValue, Text},
};

/// How long an ambiguous event waits for others before the room is asked.
const REFETCH_DELAY: Duration = Duration::from_millis(250);

/// How soon after its `join` the `update` comes that says the same.
const DUPLICATE_WITHIN: Duration = Duration::from_millis(250);

/// Members remembered per room and per lobby; more are reported, counted and not remembered.
pub(super) const MAX_MEMBERS: usize = 16_384;

/// Presence of at most this size is always remembered.
const SMALL: usize = 1024;

/// Bytes of larger presence remembered per room and per lobby.
const MAX_LARGE_BYTES: usize = 16 << 20;

/// Whether `presence` may be remembered beside the others.
pub(super) fn may_remember<'p>(presence: &Payload, others: impl Iterator<Item = &'p Payload>) -> bool {
    let len = presence.packed_len();
    len <= SMALL
        || others.map(Payload::packed_len).filter(|len| *len > SMALL).sum::<usize>() + len <= MAX_LARGE_BYTES
}

#[derive(Debug, Default)]
pub(super) struct Presence {
    /// What the application set last; restored in every session.
    wanted: Option<(Arc<str>, Payload)>,
    /// Whether the broker closed a connection on it, as it does when a frame breaks it.
    suspect: bool,
    /// Commands that wait for a session, or for the end of the move before theirs.
    waiters: Ops,
    /// The room set on this connection and not yet confirmed by an event. One at a time: an event does not say which
    /// room it confirms, and brokers are silent about rooms that they do not know.
    moving: Option<Arc<str>>,
    /// Our room was mistaken: what is known of its members is to be asked for.
    astray: bool,
    /// The room that events belong to: events do not say, but a connection is in one room at a time.
    room: Option<Arc<str>>,
    /// The first set in a room is answered by `join` and then `update`, which says nothing new. Here is what the `join`
    /// said, and when.
    joined: Option<(Option<Payload>, Instant)>,
    members: BTreeMap<String, Member>,
    /// Where the members are or, after a loss, were.
    members_of: Option<Arc<str>>,
    /// Whether all members are known: the room was asked since we entered it.
    listed: bool,
}

#[derive(Debug, Clone)]
struct Member {
    presence: Payload,
    joined_at: Option<u64>,
    status: Option<Box<str>>,
    /// Connections of this actor in the room, if we know: each has an entry of its own, and one `leave` is not the end
    /// of the actor while there is another. None at all: the entry outlives its connections.
    connections: Option<u32>,
}

impl Presence {
    pub(super) fn known(&self) -> usize {
        self.members.len()
    }

    fn may_remember(&self, presence: &Payload) -> bool {
        may_remember(presence, self.members.values().map(|member| &member.presence))
    }

    /// The members stay until the room is seen again; what happened meanwhile is then found by asking.
    pub(super) fn connection_lost(&mut self) {
        self.moving = None;
        self.astray = false;
        self.room = None;
        self.joined = None;
        self.listed = false;
        for member in self.members.values_mut().filter(|member| !member.is_offline()) {
            member.connections = None;
        }
    }

    fn wanted_room(&self) -> Option<&Arc<str>> {
        self.wanted.as_ref().map(|(room, _)| room)
    }

    /// The room that the next event belongs to.
    fn attributed_room(&self) -> Option<&Arc<str>> {
        self.room.as_ref().or(self.moving.as_ref()).or_else(|| self.wanted_room())
    }

    fn enter(&mut self, room: Arc<str>) {
        if self.members_of.as_ref() != Some(&room) {
            self.members.clear();
        }
        self.listed = false;
        self.members_of = Some(room.clone());
        self.room = Some(room);
    }
}

impl ClientCore {
    /// Makes this client present in `room` (a slug) with `data`, normally a map. Setting presence in another room moves:
    /// a connection is present in one room at a time. The last one is set again after every reconnect.
    ///
    /// While there is no session the command waits for it, and while another move is unanswered it waits for that; of
    /// several that wait only the last is made, and all end with it. The outcome is [`Outcome::PresenceSet`] when the
    /// broker shows us our own presence, [`Outcome::NotSent`], [`Outcome::Refused`] when the broker twice closed the
    /// connection on it (1009, 1011), or [`Outcome::Unknown`]: brokers say nothing at all about a
    /// room that they do not know.
    ///
    /// # Errors
    /// The data comes back with [`Error::Misuse`] for a bad room or data, and with [`Error::Rejected`] when the client is
    /// idle or leaving, or too much is waiting.
    pub fn set_presence(
        &mut self,
        now: Instant,
        room: &str,
        data: Payload,
    ) -> Result<OpId, Refused<Payload>> {
        self.observe(now);
        if let Err(error) = self.check_presence(room, &data) {
            return Err(Refused { error, value: data });
        }
        let op = self.accept(Op::SetPresence);
        self.presence.wanted = Some((room.into(), data));
        self.presence.suspect = false;
        self.presence.waiters.push(op);
        self.advance_presence();
        Ok(op)
    }

    /// Sets presence without a room. Brokers keep it for themselves: nobody is told and nothing is answered, so the
    /// outcome is [`Outcome::Sent`]. It is not restored.
    ///
    /// # Errors
    /// As [`set_presence`](Self::set_presence), and [`Rejection::NotConnected`] without a session.
    #[deprecated = "brokers tell nobody about presence without a room; use `set_presence` with one"]
    pub fn set_presence_without_room(
        &mut self,
        now: Instant,
        data: Payload,
    ) -> Result<OpId, Refused<Payload>> {
        self.observe(now);
        let checked =
            data.check_sendable().map_err(Error::from).and_then(|()| self.check_ready(data.packed_len()));
        if let Err(error) = checked {
            return Err(Refused { error, value: data });
        }
        let op = self.accept(Op::SetPresence);
        let frame = ClientFrame::Presence { room_id: None, data: data.raw() };
        self.send(&frame, super::Sender::Unanswered(op));
        Ok(op)
    }

    /// Stops restoring presence and sets it to `nil` where it is set. Brokers know no leaving: the others see an update
    /// to `nil`, and a leave when this client moves or disconnects.
    ///
    /// The outcome is [`Outcome::PresenceSet`], at once if no presence was set, or [`Outcome::NotSent`] or
    /// [`Outcome::Unknown`]; [`Outcome::Refused`] where it joined a presence that the broker closes connections on.
    ///
    /// # Errors
    /// [`Error::Rejected`] when the client is idle or leaving, or too much is waiting.
    pub fn clear_presence(&mut self, now: Instant) -> Result<OpId, Error> {
        self.observe(now);
        self.check_open()?;
        self.check_room(0)?;
        let op = self.accept(Op::SetPresence);
        let wanted = self.presence.wanted.take();
        let superseded = mem::take(&mut self.presence.waiters);
        self.settle_undone(superseded, &Rejection::Superseded.into());
        let presence = &self.presence;
        let here = presence.moving.as_ref().or(presence.room.as_ref()).cloned();
        match wanted.map(|(room, _)| here.unwrap_or(room)) {
            Some(room) if self.link_is_ready() => {
                let frame = ClientFrame::Presence { room_id: Some(&room), data: RawValue::NIL };
                self.push_request(room.clone(), RequestKind::SetPresence, Ops::from_elem(op, 1), &frame);
            }
            _ => self.settle(op, Outcome::PresenceSet),
        }
        Ok(op)
    }

    /// Asks who is present in `room` (a slug); being there oneself is not needed. The answer also refreshes what
    /// [`presence`](Self::presence) knows, if it is the room where we are.
    ///
    /// The outcome is [`Outcome::Presence`], empty for a room that the broker does not know, [`Outcome::NotSent`] or
    /// [`Outcome::Unknown`].
    ///
    /// # Errors
    /// [`Error::Misuse`] for a bad room, [`Error::Rejected`] without a session, while leaving, or when too much is
    /// waiting.
    pub fn fetch_presence(&mut self, now: Instant, room: &str) -> Result<OpId, Error> {
        self.observe(now);
        topic::check_segment(room)?;
        self.check_ready(room.len())?;
        let op = self.accept(Op::FetchPresence);
        self.send_fetch(room.into(), Ops::from_elem(op, 1));
        Ok(op)
    }

    /// The room where this client wants to be present.
    pub fn presence_room(&self) -> Option<&str> {
        self.presence.wanted.as_ref().map(|(room, _)| &**room)
    }

    /// Who is known to be present in our room, ourselves included, by actor. Known are those that were seen in an event
    /// or in the answer to a [`fetch_presence`](Self::fetch_presence) of this room: brokers send no list on joining.
    pub fn presence(&self) -> impl Iterator<Item = PresenceMember> {
        self.presence.members.iter().map(|(actor_id, member)| member.shown(actor_id))
    }

    /// One member of [`presence`](Self::presence).
    pub fn presence_of(&self, actor_id: &str) -> Option<PresenceMember> {
        self.presence.members.get(actor_id).map(|member| member.shown(actor_id))
    }

    fn check_presence(&self, room: &str, data: &Payload) -> Result<(), Error> {
        topic::check_segment(room)?;
        data.check_sendable()?;
        self.check_open()?;
        self.check_room(data.packed_len())
    }

    /// Sends what waits, unless a move to another room is under way.
    fn advance_presence(&mut self) {
        let elsewhere =
            self.presence.moving.as_ref().is_some_and(|to| Some(to) != self.presence.wanted_room());
        if !self.presence.waiters.is_empty() && self.link_is_ready() && !elsewhere {
            self.send_presence();
        }
    }

    fn send_presence(&mut self) {
        let Some((room, data)) = self.presence.wanted.clone() else { return };
        let ops = mem::take(&mut self.presence.waiters);
        if self.presence.room.as_ref() != Some(&room) {
            self.presence.moving = Some(room.clone());
        }
        let frame = ClientFrame::Presence { room_id: Some(&room), data: data.raw() };
        self.push_request(room.clone(), RequestKind::SetPresence, ops, &frame);
    }

    fn send_fetch(&mut self, room: Arc<str>, ops: Ops) {
        let frame = ClientFrame::GetPresence { room_id: Some(&room) };
        self.push_request(room.clone(), RequestKind::FetchPresence, ops, &frame);
    }

    /// Asks the room again after an event that can be read in two ways.
    pub(super) fn refetch_presence(&mut self) {
        let Some(room) = self.presence.room.clone().filter(|_| self.link_is_ready()) else { return };
        // An answer that is still to come is young enough.
        let asked = self.waiting_requests().iter().any(|request| {
            !request.expired && request.key == room && matches!(request.kind, RequestKind::FetchPresence)
        });
        if !asked {
            self.send_fetch(room, Ops::new());
        }
    }

    pub(super) fn restore_presence(&mut self) {
        if self.presence.wanted.is_none() {
            self.presence.members.clear();
        }
        self.send_presence();
    }

    /// Nobody answers for a room that the broker does not know. A later event must not be taken for the answer.
    pub(super) fn presence_timed_out(&mut self, room: &Arc<str>) {
        let sets = |request: &super::Request| {
            request.key == *room && matches!(request.kind, RequestKind::SetPresence)
        };
        if self.presence.moving.as_ref() == Some(room) && !self.waiting_requests().iter().any(sets) {
            self.presence.moving = None;
        }
        self.advance_presence();
    }

    /// After a close that the broker makes when a frame breaks it: presence that was sent and not shown is suspected, and
    /// set no more when that happens again. What is wanted by now may be another one, which is not to blame.
    pub(super) fn suspect_presence(&mut self, cause: &Error, sets: &mut [Ops]) {
        let Error::Transport(error) = cause else { return };
        let TransportErrorKind::Closed(Some(code @ (1009 | 1011))) = error.kind else { return };
        let presence = &mut self.presence;
        if presence.wanted.is_none() || !presence.waiters.is_empty() {
            return;
        }
        if !mem::replace(&mut presence.suspect, true) {
            return;
        }
        presence.suspect = false;
        presence.wanted = None;
        let mut error = ServerError::named("connection_closed", Op::SetPresence);
        error.detail = Some(format!("the broker closed the connection ({code}) twice on this presence"));
        let error = Box::new(error);
        let waited = sets.iter_mut().flat_map(mem::take).collect::<Vec<_>>();
        if waited.is_empty() {
            // It was being restored.
            self.report(Event::ServerError(error));
        } else {
            self.settle_all(waited, &Outcome::Refused(error));
        }
    }

    pub(super) fn presence_lost(&mut self, ops: Ops) {
        if self.presence.wanted.is_some() {
            self.presence.waiters.extend(ops);
        } else {
            // It was to be cleared, and a lost connection is not present anywhere.
            self.settle_all(ops, &Outcome::PresenceSet);
        }
    }

    pub(super) fn end_presence(&mut self, cause: &Error) {
        let presence = mem::take(&mut self.presence);
        self.settle_undone(presence.waiters, cause);
    }

    pub(super) fn handle_presence(&mut self, frame: &Bytes, event: &PresenceEvent<'_>) {
        let Some(actor_id) = event.actor_token_id else {
            self.stats.frames_unexpected += 1;
            return;
        };
        let own = self.session.as_ref().is_some_and(|session| session.actor_id == actor_id);
        let kind = PresenceKind::from_wire(event.event);
        let presence = event.presence.map(|value| Payload::from_frame(frame, value));
        match kind {
            PresenceKind::Join | PresenceKind::Update if own => self.saw_ourselves(&kind, presence.as_ref()),
            PresenceKind::Leave if own => {
                return match self.presence.moving.is_some() && self.presence.room.is_some() {
                    true => self.left_for_another_room(),
                    // Another connection of our actor: we are still here.
                    false => self.ask_room_soon(),
                };
            }
            _ => {}
        }
        let mut kept = presence.clone();
        if kept.as_ref().is_some_and(|presence| !self.presence.may_remember(presence)) {
            self.stats.presence_dropped += 1;
            kept = Some(Payload::nil());
        }
        let listed = self.presence.listed;
        let room_for_more = self.presence.members.len() < MAX_MEMBERS;
        let known = self.presence.members.get_mut(actor_id);
        match (&kind, known) {
            (PresenceKind::Leave, Some(member)) => match member.connections {
                Some(1) => {
                    self.presence.members.remove(actor_id);
                }
                // Another connection of the actor may still be there: the room is asked before anybody is told.
                connections => {
                    member.connections = connections.map(|count| count.saturating_sub(1));
                    return self.ask_room_soon();
                }
            },
            // One that we never saw leaves: nobody here knows whether it was the last of its actor.
            (PresenceKind::Leave, None) => self.ask_room_soon(),
            (PresenceKind::Join, Some(member)) => {
                member.connections = member.connections.map(|count| count.saturating_add(1));
                member.status = None;
                member.refresh(kept, event.status);
            }
            (_, Some(member)) => member.refresh(kept, event.status),
            (PresenceKind::Join | PresenceKind::Update, None) if room_for_more => {
                // Without a list there may be others of the same actor.
                let first = listed && kind == PresenceKind::Join;
                let mut member = Member::new(if first { Some(1) } else { None });
                member.refresh(kept, event.status);
                self.presence.members.insert(actor_id.into(), member);
            }
            (PresenceKind::Join | PresenceKind::Update, None) => self.stats.presence_dropped += 1,
            (_, None) => {}
        }
        let room = self.presence.attributed_room().cloned();
        let change = PresenceChange {
            room,
            presence,
            status: event.status.map(Into::into),
            capabilities: event.capabilities.map(|value| Payload::from_frame(frame, value)),
            advertisement_version: event.advertisement_version.map(|value| Payload::from_frame(frame, value)),
            ..PresenceChange::new(kind, actor_id)
        };
        self.report(Event::Presence(change));
    }

    /// Our own presence came back: it is set, and tells where the events that follow belong.
    fn saw_ourselves(&mut self, kind: &PresenceKind, presence: Option<&Payload>) {
        let joined = *kind == PresenceKind::Join;
        let entered = match self.presence.room {
            Some(_) if joined => self.presence.moving.take(),
            Some(_) => None,
            None => self.presence.moving.take().or_else(|| self.presence.wanted_room().cloned()),
        };
        if let Some(room) = entered {
            self.presence.enter(room);
            if mem::take(&mut self.presence.astray) || !self.presence.members.is_empty() {
                // They are from before a reconnect, or of another room.
                self.ask_room_soon();
            }
        }
        let said = self.presence.joined.take();
        if joined {
            self.presence.joined = Some((presence.cloned(), self.now));
        } else if said.is_some_and(|(same, at)| {
            same.as_ref() == presence && self.now.saturating_since(at) <= DUPLICATE_WITHIN
        }) {
            return;
        }
        let is_set = |kind: &RequestKind| matches!(kind, RequestKind::SetPresence);
        let key = self.waiting_requests().iter().find(|request| request.sent && is_set(&request.kind));
        if let Some(key) = key.map(|request| request.key.clone()) {
            if let Some(request) = self.take_answered(Some(&key), is_set) {
                self.presence.suspect = false;
                self.settle_all(request.ops, &Outcome::PresenceSet);
            }
        }
        self.advance_presence();
    }

    fn left_for_another_room(&mut self) {
        let room = self.presence.room.take();
        self.presence.members.clear();
        self.presence.listed = false;
        let Some(session) = &self.session else { return };
        let change = PresenceChange { room, ..PresenceChange::new(PresenceKind::Leave, &session.actor_id) };
        self.report(Event::Presence(change));
    }

    fn ask_room_soon(&mut self) {
        if !self.timers.is_armed(Timer::PresenceRefetch) {
            self.timers.set(Timer::PresenceRefetch, self.now + REFETCH_DELAY);
        }
    }

    pub(super) fn handle_presence_list(&mut self, frame: &Bytes, room: Option<Text<'_>>, data: RawValue<'_>) {
        let is_fetch = |kind: &RequestKind| matches!(kind, RequestKind::FetchPresence);
        let Some(request) = self.take_answered(room.and_then(Text::as_str), is_fetch) else { return };
        let mut members: BTreeMap<String, Member> = BTreeMap::new();
        let mut listed = Vec::new();
        for entry in PresenceEntry::parse_list(data).take(MAX_MEMBERS) {
            let online = entry.joined_at.is_some();
            let member = members.entry(entry.actor_token_id.into()).or_insert_with(|| Member::new(Some(0)));
            member.connections = member.connections.map(|count| count + u32::from(online));
            member.refresh(Some(Payload::from_frame(frame, entry.presence)), entry.status);
            member.joined_at = entry.joined_at;
            listed.push(member.shown(entry.actor_token_id));
        }
        if self.presence.room.as_deref() == Some(&*request.key) {
            // Whatever was in doubt before this list came is settled by it.
            self.timers.stop(Timer::PresenceRefetch);
            let actor = self.session.as_ref().map(|session| session.actor_id.as_str());
            let own = actor.and_then(|actor| members.get(actor));
            // A list that is too long may have been cut off before us.
            let missing = own.is_none_or(Member::is_offline) && members.len() < MAX_MEMBERS;
            self.refresh_members(&request.key, members);
            if missing {
                self.find_our_room();
            }
        }
        self.settle_all(request.ops, &Outcome::Presence(listed.into()));
    }

    /// We are not in the room where we thought to be, as when a move was confirmed so late that it had been given up. The
    /// presence that is wanted is set again, unless that is on its way, and what comes back tells the room. Where none is
    /// wanted any more, the one under way names it.
    fn find_our_room(&mut self) {
        self.presence.room = None;
        self.presence.members.clear();
        self.presence.listed = false;
        self.presence.astray = true;
        let sets = |request: &super::Request| matches!(request.kind, RequestKind::SetPresence);
        let under_way = self.waiting_requests().iter().rev().find(|request| sets(request));
        match under_way.map(|request| request.key.clone()) {
            Some(room) if self.presence.wanted.is_none() => self.presence.moving = Some(room),
            None if self.presence.wanted.is_some() => self.send_presence(),
            _ => {}
        }
    }

    /// Takes a list as the truth and reports what it changes.
    fn refresh_members(&mut self, room: &Arc<str>, members: BTreeMap<String, Member>) {
        self.presence.listed = members.len() < MAX_MEMBERS;
        let before = mem::replace(&mut self.presence.members, members);
        let mut changes = Vec::new();
        for actor_id in before.keys().filter(|actor_id| !self.presence.members.contains_key(*actor_id)) {
            changes.push((PresenceKind::Leave, actor_id.clone(), None, None));
        }
        for (actor_id, member) in &self.presence.members {
            let old = before.get(actor_id);
            let was_there = old.is_some_and(|old| !old.is_offline());
            let kind = match (was_there, !member.is_offline()) {
                (false, true) => PresenceKind::Join,
                (true, false) => PresenceKind::Leave,
                _ if old.is_some_and(|old| old.presence == member.presence) => continue,
                _ => PresenceKind::Update,
            };
            let presence = (kind != PresenceKind::Leave).then(|| member.presence.clone());
            changes.push((kind, actor_id.clone(), presence, member.status.clone()));
        }
        for (kind, actor_id, presence, status) in changes {
            let room = Some(room.clone());
            let change = PresenceChange { room, presence, status, ..PresenceChange::new(kind, &actor_id) };
            self.report(Event::Presence(change));
        }
    }
}

impl Member {
    fn new(connections: Option<u32>) -> Self {
        Self { presence: Payload::nil(), joined_at: None, status: None, connections }
    }

    /// Whether only a persistent entry is left of it.
    fn is_offline(&self) -> bool {
        self.connections == Some(0)
    }

    fn refresh(&mut self, presence: Option<Payload>, status: Option<&str>) {
        if let Some(presence) = presence {
            self.presence = presence;
        }
        if let Some(status) = status {
            self.status = Some(status.into());
        }
    }

    fn shown(&self, actor_id: &str) -> PresenceMember {
        PresenceMember {
            actor_id: actor_id.into(),
            presence: self.presence.clone(),
            joined_at: self.joined_at,
            status: self.status.clone(),
        }
    }
}
