//! Requests that the broker answers without a reference: matched by kind and by what they name, in order.

use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use core::mem;

use smallvec::SmallVec;

use super::{ClientCore, OpId, Outcome, Sender, SubscriptionId, Waiting, subscriptions::Effective};
use crate::{
    error::{Error, Op, ProtocolError},
    wire::{ClientFrame, Filter},
};

/// Restorations in a row that may go unanswered before the connection counts as broken.
const MAX_UNANSWERED_RESTORES: u32 = 3;

/// Commands that one answer settles.
pub(super) type Ops = SmallVec<[OpId; 1]>;

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct Request {
    seq: u64,
    /// The topic, room or lobby that it names.
    pub(super) key: Arc<str>,
    pub(super) kind: RequestKind,
    /// None when the core asked by itself.
    pub(super) ops: Ops,
    /// Whether it was handed to the transport.
    pub(super) sent: bool,
    /// Whether its time has passed. It stays in the queue, because its answer may still come and must not be taken for
    /// the answer to a later request.
    pub(super) expired: bool,
    /// Whether an answer that came while it waited was taken for that to an overdue request.
    robbed: bool,
}

#[derive(Debug, Clone)]
pub(super) enum RequestKind {
    FetchLobby,
    FetchPresence,
    LobbySubscribe,
    LobbyUnsubscribe,
    Reauth,
    SetFilters(SubscriptionId, Vec<Filter>),
    SetPresence,
    Subscribe(SubscriptionId, Effective),
    Unsubscribe,
    /// Asks a lobby that was just subscribed and seemed empty.
    WarmLobby,
}

/// Requests of one scope that name the same thing are answered in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Lobby,
    /// What confirms a presence is a broadcast, so it keeps no order with other replies.
    OwnPresence,
    Reauth,
    Room,
    Topic,
}

impl RequestKind {
    fn scope(&self) -> Scope {
        match self {
            Self::FetchLobby | Self::LobbySubscribe | Self::LobbyUnsubscribe | Self::WarmLobby => {
                Scope::Lobby
            }
            Self::FetchPresence => Scope::Room,
            Self::Reauth => Scope::Reauth,
            Self::SetFilters(..) | Self::Subscribe(..) | Self::Unsubscribe => Scope::Topic,
            Self::SetPresence => Scope::OwnPresence,
        }
    }

    /// Whether an error that names only a lobby can be about it.
    pub(super) fn asks_for_lobby(&self) -> bool {
        matches!(self, Self::FetchLobby | Self::LobbySubscribe | Self::WarmLobby)
    }

    pub(super) fn op(&self) -> Op {
        match self {
            Self::FetchLobby => Op::FetchLobby,
            Self::FetchPresence => Op::FetchPresence,
            Self::LobbySubscribe | Self::WarmLobby => Op::LobbySubscribe,
            Self::LobbyUnsubscribe => Op::LobbyUnsubscribe,
            Self::Reauth => Op::Reauth,
            Self::SetFilters(..) => Op::SetFilters,
            Self::SetPresence => Op::SetPresence,
            Self::Subscribe(..) => Op::Subscribe,
            Self::Unsubscribe => Op::Unsubscribe,
        }
    }
}

impl Request {
    /// Whether its answer will say who is in this lobby that was just subscribed.
    pub(super) fn warms(&self, lobby: &str) -> bool {
        !self.expired && &*self.key == lobby && matches!(self.kind, RequestKind::WarmLobby)
    }

    /// Whether it still decides about this subscription.
    pub(super) fn is_live_subscribe(&self, id: SubscriptionId) -> bool {
        !self.expired && matches!(self.kind, RequestKind::Subscribe(of, _) if of == id)
    }
}

impl ClientCore {
    pub(super) fn push_request(
        &mut self,
        key: Arc<str>,
        kind: RequestKind,
        ops: Ops,
        frame: &ClientFrame<'_>,
    ) -> u64 {
        let seq = self.id();
        self.requests.push_back(Request { seq, key, kind, ops, sent: false, expired: false, robbed: false });
        self.send(frame, Sender::Request(seq));
        seq
    }

    pub(super) fn request_index(&self, seq: u64) -> Option<usize> {
        self.requests.binary_search_by_key(&seq, |request| request.seq).ok()
    }

    pub(super) fn request_sent(&mut self, seq: u64) {
        let Some(index) = self.request_index(seq) else { return };
        self.requests[index].sent = true;
        for op in self.requests[index].ops.clone() {
            self.mark_sent(op);
        }
        self.expect_answer(Waiting::Request(seq));
    }

    /// Removes the oldest request that such an answer can be for. Replies keep the order of requests, so what was asked
    /// before it about the same thing will not be answered any more.
    pub(super) fn take_answered(
        &mut self,
        key: Option<&str>,
        matches: impl Fn(&RequestKind) -> bool,
    ) -> Option<Request> {
        let Some(answered) = self.find_sent(key, matches) else {
            self.stats.frames_unexpected += 1;
            return None;
        };
        let request = self.requests.remove(answered)?;
        let scope = request.kind.scope();
        let mut index = 0;
        for _ in 0..answered {
            let earlier = &self.requests[index];
            if earlier.sent && earlier.key == request.key && earlier.kind.scope() == scope {
                let skipped = self.requests.remove(index).map(|request| request.ops);
                let outcome = Outcome::Unknown(ProtocolError::Unanswered.into());
                self.settle_all(skipped.unwrap_or_default(), &outcome);
            } else {
                index += 1;
            }
        }
        if request.expired {
            for later in self.requests.range_mut(index..) {
                later.robbed |= later.sent && later.key == request.key && later.kind.scope() == scope;
            }
        }
        self.forget_answered();
        Some(request)
    }

    /// Removes the oldest request that such a refusal can be for.
    pub(super) fn take_refused(
        &mut self,
        key: &str,
        matches: impl Fn(&RequestKind) -> bool,
    ) -> Option<Request> {
        let index = self.find_sent(Some(key), matches)?;
        let request = self.requests.remove(index);
        self.forget_answered();
        request
    }

    fn find_sent(&self, key: Option<&str>, matches: impl Fn(&RequestKind) -> bool) -> Option<usize> {
        let is_it = |request: &Request| request.sent && Some(&*request.key) == key && matches(&request.kind);
        self.requests.iter().position(is_it)
    }

    pub(super) fn request_timed_out(&mut self, seq: u64) {
        let Some(index) = self.request_index(seq) else { return };
        let request = &mut self.requests[index];
        request.expired = true;
        let ops = mem::take(&mut request.ops);
        let (key, kind, robbed) = (request.key.clone(), request.kind.clone(), request.robbed);
        let error = self.timeout(kind.op(), self.config.operation_timeout);
        let restore = ops.is_empty();
        if matches!(kind, RequestKind::WarmLobby) {
            return self.lobby_stays_cold(&key, ops);
        }
        // Nothing tells a late answer to a presence from the answer to a later one. And one that was robbed has had its
        // answer, if the overdue request before it never got one: waiting on would rob the next.
        if robbed || matches!(kind, RequestKind::SetPresence) {
            self.requests.remove(index);
        }
        self.settle_all(ops, &Outcome::Unknown(error.clone()));
        match kind {
            RequestKind::LobbySubscribe => self.lobby_timed_out(&key, restore, error),
            RequestKind::Reauth => self.reauth_timed_out(error),
            RequestKind::SetFilters(id, _) => self.filters_timed_out(id, restore, error),
            RequestKind::Subscribe(id, options) => self.subscribe_timed_out(id, &options, restore, error),
            RequestKind::SetPresence => self.presence_timed_out(&key),
            RequestKind::FetchLobby
            | RequestKind::FetchPresence
            | RequestKind::LobbyUnsubscribe
            | RequestKind::Unsubscribe
            | RequestKind::WarmLobby => {}
        }
    }

    /// Counts a restoration that was not answered; `true` when that was one too many and the connection was given up.
    pub(super) fn restore_unanswered(&mut self, error: Error) -> bool {
        self.unanswered_restores += 1;
        let broken = self.unanswered_restores >= MAX_UNANSWERED_RESTORES;
        if broken {
            self.connection_lost(error, Some((1000, "")));
        }
        broken
    }

    /// Requests do not outlive their connection: what makes a lasting state waits for the next, there is nothing left
    /// to unsubscribe from, and a fetch ends.
    pub(super) fn lose_requests(&mut self, cause: &Error) {
        let mut requests = mem::take(&mut self.requests);
        let set = |request: &&mut Request| request.sent && matches!(request.kind, RequestKind::SetPresence);
        let mut sets: Vec<Ops> =
            requests.iter_mut().filter(set).map(|request| mem::take(&mut request.ops)).collect();
        if !sets.is_empty() {
            self.suspect_presence(cause, &mut sets);
        }
        self.presence_lost(sets.into_iter().flatten().collect());
        for request in requests {
            match request.kind {
                RequestKind::Subscribe(id, _) => self.subscribe_lost(id, request.ops, cause),
                RequestKind::SetFilters(id, filters) => {
                    self.filters_lost(request.seq, id, filters, request.ops, cause);
                }
                RequestKind::SetPresence => self.presence_lost(request.ops),
                RequestKind::LobbySubscribe | RequestKind::WarmLobby => {
                    self.lobby_subscribe_lost(&request.key, request.ops, cause);
                }
                RequestKind::Unsubscribe => self.settle_all(request.ops, &Outcome::Unsubscribed),
                RequestKind::LobbyUnsubscribe => self.settle_all(request.ops, &Outcome::Unsubscribed),
                RequestKind::FetchLobby | RequestKind::FetchPresence | RequestKind::Reauth => {
                    self.settle_undone(request.ops, cause);
                }
            }
        }
        self.registry.connection_lost();
        self.lobbies.connection_lost();
        self.presence.connection_lost();
    }

    pub(super) fn waiting_requests(&self) -> &VecDeque<Request> {
        &self.requests
    }
}
