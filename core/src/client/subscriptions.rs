//! Subscriptions: one per topic, kept across reconnects, confirmed by the broker.

use alloc::{
    collections::{BTreeMap, VecDeque},
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use core::mem;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{
    ClientCore, Config, Event, Link, OpId, Outcome, Sender, Subscribe, SubscribeOptions, SubscriptionId,
    Waiting,
};
use crate::{
    Instant,
    error::{Error, Misuse, Op, ProtocolError, Refused, Rejection, ServerError},
    topic,
    wire::{self, ClientFrame, ErrorFrame, Filter, MAX_FILTERS, QoS, RawValue, RestoredSubscription, Text},
};

/// Restored subscriptions in a row that may go unanswered before the connection counts as broken.
const MAX_UNANSWERED_RESTORES: u32 = 3;

type Ops = SmallVec<[OpId; 1]>;

/// The options in force, with nothing left to defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Effective {
    qos: QoS,
    filters: Vec<Filter>,
    load_balance: bool,
    /// `None`: the actor's id.
    group: Option<String>,
}

/// One subscription that the application wants.
#[derive(Debug)]
struct Registration {
    topic: Arc<str>,
    desired: Effective,
    /// What the broker confirmed last, in whatever session: what to go back to when a change is refused.
    confirmed: Option<Effective>,
    /// Whether the broker confirmed it in this session.
    live: bool,
    /// Commands that wait for the next session.
    waiters: Ops,
}

/// What the client is subscribed to, by id and by topic.
#[derive(Debug)]
pub(super) struct Registry {
    by_id: BTreeMap<SubscriptionId, Registration>,
    by_topic: HashMap<Arc<str>, SubscriptionId, FixedState>,
}

/// A request that the broker answers by topic.
#[derive(Debug)]
pub(super) struct Request {
    seq: u64,
    topic: Arc<str>,
    kind: RequestKind,
    /// Commands that the answer settles; none when the core asked by itself.
    ops: Ops,
    /// Whether it was handed to the transport.
    sent: bool,
    /// Whether its time has passed. It stays in the queue, because its answer may still come and must not be taken for
    /// the answer to a later request.
    expired: bool,
}

#[derive(Debug)]
enum RequestKind {
    Subscribe(SubscriptionId, Effective),
    Unsubscribe,
}

/// A subscription, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionInfo {
    /// Its id.
    pub id: SubscriptionId,
    /// Its topic.
    pub topic: Arc<str>,
    /// Its options, with nothing left to defaults.
    pub options: SubscribeOptions,
    /// Whether the broker confirmed it in this session.
    pub live: bool,
}

impl Effective {
    fn resolve(options: &SubscribeOptions, config: &Config) -> Self {
        let load_balance = options.load_balance.unwrap_or(config.load_balance);
        let group = options.load_balance_group.as_ref().or(config.load_balance_group.as_ref());
        Self {
            qos: options.qos.unwrap_or(config.qos),
            filters: options.filters.clone(),
            load_balance,
            // Without load balancing a group means nothing.
            group: group.filter(|_| load_balance).cloned(),
        }
    }

    fn frame<'a>(&'a self, topic: &'a str) -> ClientFrame<'a> {
        ClientFrame::Subscribe(wire::Subscribe {
            topic,
            qos: Some(self.qos).filter(|qos| *qos != QoS::default()),
            filters: self.filters.clone(),
            load_balance: self.load_balance,
            load_balance_group: self.group.as_deref(),
        })
    }

    /// Whether a broker restored just this.
    fn is_restored_as(&self, restored: &RestoredSubscription<'_>, actor_id: &str) -> bool {
        let group = self.group.as_deref().unwrap_or(actor_id);
        let same_group = match restored.load_balance_group {
            None => self.group.is_none(),
            // A control plane names the group with project and app in front.
            Some(name) => name == group || name.strip_suffix(group).is_some_and(|rest| rest.ends_with('_')),
        };
        restored.load_balance == self.load_balance
            && restored.qos.unwrap_or_default() == self.qos
            && restored.filters == self.filters
            && (!self.load_balance || same_group)
    }
}

impl Registry {
    pub(super) fn new(seed: u64) -> Self {
        Self { by_id: BTreeMap::new(), by_topic: HashMap::with_hasher(FixedState::with_seed(seed)) }
    }

    pub(super) fn find(&self, topic: &str) -> Option<(Arc<str>, SubscriptionId)> {
        self.by_topic.get_key_value(topic).map(|(topic, id)| (topic.clone(), *id))
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    fn insert(&mut self, id: SubscriptionId, topic: Arc<str>, desired: Effective) {
        self.by_topic.insert(topic.clone(), id);
        let waiters = Ops::new();
        self.by_id.insert(id, Registration { topic, desired, confirmed: None, live: false, waiters });
    }

    fn remove(&mut self, id: SubscriptionId) -> Option<Registration> {
        let registration = self.by_id.remove(&id)?;
        self.by_topic.remove(&registration.topic);
        Some(registration)
    }
}

impl ClientCore {
    /// Subscribes. There is one subscription per topic: an identical one is joined without a frame (unless
    /// [`refresh`](Subscribe::refresh) is set), other options replace those that stand, for all.
    ///
    /// Accepted as soon as the client is connecting; what cannot be sent yet waits for the session. The outcome is
    /// [`Outcome::Subscribed`], [`Outcome::Refused`], [`Outcome::NotSent`] or [`Outcome::Unknown`]. When a change of
    /// options is refused or unanswered, the old options are put back in force.
    ///
    /// # Errors
    /// The command comes back with [`Error::Misuse`] for a bad topic or filter, and with [`Error::Rejected`] when the
    /// client is idle or leaving, or too much is waiting.
    pub fn subscribe(&mut self, now: Instant, subscribe: Subscribe) -> Result<OpId, Refused<Subscribe>> {
        self.observe(now);
        if let Err(error) = self.check_subscribe(&subscribe) {
            return Err(Refused { error, value: subscribe });
        }
        let desired = Effective::resolve(&subscribe.options, &self.config);
        let op = self.accept(Op::Subscribe);
        let ready = self.link_is_ready();
        let Some((_, id)) = self.registry.find(&subscribe.topic) else {
            let id = SubscriptionId(self.id());
            self.registry.insert(id, subscribe.topic.into(), desired);
            self.request_or_wait(id, op);
            return Ok(op);
        };
        let Some(registration) = self.registry.by_id.get_mut(&id) else { return Ok(op) };
        let same = registration.desired == desired;
        registration.desired = desired;
        if !ready || !same || subscribe.refresh {
            self.request_or_wait(id, op);
            return Ok(op);
        }
        let load_balance = registration.desired.load_balance;
        let live = registration.live;
        match self.latest_subscribe(id) {
            Some(request) => {
                request.ops.push(op);
                if request.sent {
                    self.mark_sent(op);
                }
            }
            None if live => self.settle(op, Outcome::Subscribed { subscription: id, load_balance }),
            None => self.request_or_wait(id, op),
        }
        Ok(op)
    }

    /// Ends the subscription to `topic`, for all that joined it.
    ///
    /// Brokers confirm this even where nothing was subscribed. The outcome is [`Outcome::Unsubscribed`], or
    /// [`Outcome::Unknown`] without an answer. Messages already on their way can still arrive.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a bad topic, [`Error::Rejected`] when the client is idle or leaving, or too much is
    /// waiting.
    pub fn unsubscribe(&mut self, now: Instant, topic: &str) -> Result<OpId, Error> {
        self.observe(now);
        topic::check_pattern(topic)?;
        self.check_open()?;
        self.check_room(topic.len())?;
        let op = self.accept(Op::Unsubscribe);
        let topic = match self.registry.find(topic) {
            Some((topic, id)) => {
                let waiters = self.registry.remove(id).map(|registration| registration.waiters);
                self.settle_undone(waiters.unwrap_or_default(), &Rejection::Superseded.into());
                topic
            }
            None => Arc::from(topic),
        };
        if self.link_is_ready() {
            self.send_unsubscribe(topic, Ops::from_elem(op, 1));
        } else {
            // The next session starts without it.
            self.settle(op, Outcome::Unsubscribed);
        }
        Ok(op)
    }

    /// Tells the core that nobody waits for `op` any more, as when a future is dropped.
    ///
    /// A subscribe that nobody else wants is taken back; any other command goes on. Unknown ids are ignored.
    pub fn abandon(&mut self, now: Instant, op: OpId) {
        self.observe(now);
        if self.ops.get(&op).is_none_or(|pending| pending.kind != Op::Subscribe) {
            return;
        }
        let abandoned = Error::Rejected(Rejection::Abandoned);
        let waiting =
            self.registry.by_id.iter_mut().find(|(_, registration)| registration.waiters.contains(&op));
        if let Some((&id, registration)) = waiting {
            registration.waiters.retain(|waiter| *waiter != op);
            if registration.waiters.is_empty() {
                match registration.confirmed.clone() {
                    Some(before) => registration.desired = before,
                    None => drop(self.registry.remove(id)),
                }
            }
            self.settle_undone([op], &abandoned);
        } else if let Some(request) = self.requests.iter_mut().find(|request| request.ops.contains(&op)) {
            request.ops.retain(|waiter| *waiter != op);
            let RequestKind::Subscribe(id, _) = request.kind else { return };
            self.settle(op, Outcome::Unknown(abandoned));
            self.compensate_unwanted(id);
        }
        self.finish_drain();
    }

    /// What the client is subscribed to, in the order of the first calls.
    pub fn subscriptions(&self) -> impl Iterator<Item = SubscriptionInfo> {
        self.registry.by_id.iter().map(|(id, registration)| SubscriptionInfo {
            id: *id,
            topic: registration.topic.clone(),
            options: SubscribeOptions {
                qos: Some(registration.desired.qos),
                filters: registration.desired.filters.clone(),
                load_balance: Some(registration.desired.load_balance),
                load_balance_group: registration.desired.group.clone(),
            },
            live: registration.live,
        })
    }

    fn check_subscribe(&self, subscribe: &Subscribe) -> Result<(), Error> {
        topic::check_pattern(&subscribe.topic)?;
        let filters = &subscribe.options.filters;
        if filters.len() > MAX_FILTERS {
            return Err(Misuse::TooManyFilters(filters.len()).into());
        }
        if let Some(bad) = filters.iter().find_map(Filter::invalid_value) {
            return Err(Misuse::InvalidFilter(bad.into()).into());
        }
        self.check_open()?;
        self.check_room(subscribe.topic.len())
    }

    /// The request whose answer will decide about `id`, if one is on its way.
    fn latest_subscribe(&mut self, id: SubscriptionId) -> Option<&mut Request> {
        self.requests.iter_mut().rev().find(|request| request.is_live_subscribe(id))
    }

    fn request_or_wait(&mut self, id: SubscriptionId, op: OpId) {
        if self.link_is_ready() {
            self.send_subscribe(id, Ops::from_elem(op, 1));
        } else if let Some(registration) = self.registry.by_id.get_mut(&id) {
            registration.waiters.push(op);
        }
    }

    fn send_subscribe(&mut self, id: SubscriptionId, ops: Ops) {
        let Some(registration) = self.registry.by_id.get(&id) else { return };
        let topic = registration.topic.clone();
        let options = registration.desired.clone();
        let frame = super::encode(&options.frame(&topic));
        self.push_request(topic, RequestKind::Subscribe(id, options), ops, frame);
    }

    fn send_unsubscribe(&mut self, topic: Arc<str>, ops: Ops) {
        let frame = super::encode(&ClientFrame::Unsubscribe { topic: &topic });
        self.push_request(topic, RequestKind::Unsubscribe, ops, frame);
    }

    fn push_request(&mut self, topic: Arc<str>, kind: RequestKind, ops: Ops, frame: bytes::Bytes) {
        let seq = self.id();
        self.requests.push_back(Request { seq, topic, kind, ops, sent: false, expired: false });
        self.outbound.push(frame, Sender::Request(seq));
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

    pub(super) fn handle_subscribed(&mut self, topic: Text<'_>, load_balance: bool) {
        let Some(request) = self.take_answered(topic.as_str(), Request::is_subscribe) else { return };
        let RequestKind::Subscribe(id, options) = request.kind else { return };
        self.unanswered_restores = 0;
        if let Some(registration) = self.registry.by_id.get_mut(&id) {
            registration.live = registration.desired == options;
            registration.confirmed = Some(options);
        }
        self.settle_all(request.ops, &Outcome::Subscribed { subscription: id, load_balance });
    }

    pub(super) fn handle_unsubscribed(&mut self, topic: Text<'_>) {
        if let Some(request) = self.take_answered(topic.as_str(), |request| !request.is_subscribe()) {
            self.settle_all(request.ops, &Outcome::Unsubscribed);
        }
    }

    /// Removes the oldest request on `topic` that such an answer can be for. Replies keep the order of requests, so
    /// what was asked before it on the same topic will not be answered any more.
    fn take_answered(&mut self, topic: Option<&str>, matches: impl Fn(&Request) -> bool) -> Option<Request> {
        let same_topic = |request: &Request| request.sent && Some(&*request.topic) == topic;
        let Some(answered) = self.requests.iter().position(|request| same_topic(request) && matches(request))
        else {
            self.stats.frames_unexpected += 1;
            return None;
        };
        let request = self.requests.remove(answered);
        let mut index = 0;
        for _ in 0..answered {
            if same_topic(&self.requests[index]) {
                let skipped = self.requests.remove(index).map(|request| request.ops);
                let outcome = Outcome::Unknown(ProtocolError::Unanswered.into());
                self.settle_all(skipped.unwrap_or_default(), &outcome);
            } else {
                index += 1;
            }
        }
        self.forget_answered();
        request
    }

    /// Settles the oldest request that an error with only a topic can be for; `false` when there is none.
    pub(super) fn request_refused(&mut self, topic: &str, frame: &ErrorFrame<'_>) -> bool {
        let is_it = |request: &Request| request.sent && request.is_subscribe() && &*request.topic == topic;
        let Some(request) =
            self.requests.iter().position(is_it).and_then(|index| self.requests.remove(index))
        else {
            return false;
        };
        let RequestKind::Subscribe(id, options) = request.kind else { return false };
        self.forget_answered();
        let error = ServerError::from_frame(frame, Some(Op::Subscribe));
        self.settle_all(request.ops, &Outcome::Refused(error.clone().into()));
        if self.latest_subscribe(id).is_some() {
            // A later request decides.
            return true;
        }
        let Some(registration) = self.registry.by_id.get_mut(&id) else { return true };
        registration.live = false;
        match registration.confirmed.clone() {
            // Kraken has already ended the old subscription when it refuses to change it.
            Some(before) if before != options => {
                registration.desired = before;
                self.send_subscribe(id, Ops::new());
            }
            confirmed => {
                let topic = registration.topic.clone();
                self.registry.remove(id);
                if confirmed.is_some() {
                    let cause = error.into();
                    self.events.push_back(Event::SubscriptionEnded { subscription: id, topic, cause });
                }
            }
        }
        true
    }

    pub(super) fn request_timed_out(&mut self, seq: u64) {
        let Some(index) = self.request_index(seq) else { return };
        let request = &mut self.requests[index];
        request.expired = true;
        let ops = mem::take(&mut request.ops);
        let subscription = match &request.kind {
            RequestKind::Subscribe(id, options) => Some((*id, options.clone())),
            RequestKind::Unsubscribe => None,
        };
        let after = self.config.operation_timeout;
        let Some((id, options)) = subscription else {
            let outcome = Outcome::Unknown(self.timeout(Op::Unsubscribe, after));
            return self.settle_all(ops, &outcome);
        };
        let error = self.timeout(Op::Subscribe, after);
        let restore = ops.is_empty();
        self.settle_all(ops, &Outcome::Unknown(error.clone()));
        if self.latest_subscribe(id).is_some() {
            return;
        }
        let Some(registration) = self.registry.by_id.get_mut(&id) else { return };
        let Some(before) = registration.confirmed.clone() else { return self.compensate_unwanted(id) };
        if restore {
            self.unanswered_restores += 1;
            if self.unanswered_restores >= MAX_UNANSWERED_RESTORES {
                return self.connection_lost(error, Some((1000, "")));
            }
        }
        if let Some(registration) = self.registry.by_id.get_mut(&id) {
            registration.live &= before == options;
            registration.desired = before;
        }
        self.send_subscribe(id, Ops::new());
    }

    /// Takes back a subscription that was asked for, never confirmed, and that nobody waits for: the broker may have
    /// made it all the same.
    fn compensate_unwanted(&mut self, id: SubscriptionId) {
        let Some(registration) = self.registry.by_id.get(&id) else { return };
        let wanted = registration.confirmed.is_some()
            || !registration.waiters.is_empty()
            || self.requests.iter().any(|request| request.is_live_subscribe(id) && !request.ops.is_empty());
        if wanted {
            return;
        }
        let topic = registration.topic.clone();
        self.registry.remove(id);
        self.send_unsubscribe(topic, Ops::new());
    }

    /// Makes the new session's subscriptions those that are wanted. What the broker says it restored is believed when
    /// we have a name of our own; otherwise it may be another connection's.
    pub(super) fn restore_subscriptions(&mut self, restored: Option<RawValue<'_>>) {
        let ours = self.config.client_id.is_some() && self.lost_at.is_some();
        let restored: Vec<_> =
            restored.filter(|_| ours).into_iter().flat_map(RestoredSubscription::parse_list).collect();
        let actor_id = self.session.as_ref().map(|session| session.actor_id.clone()).unwrap_or_default();
        let ids: Vec<SubscriptionId> = self.registry.by_id.keys().copied().collect();
        for id in ids {
            let Some(registration) = self.registry.by_id.get_mut(&id) else { continue };
            let waiters = mem::take(&mut registration.waiters);
            let mut found = restored.iter().filter(|entry| entry.topic == &*registration.topic);
            if found.any(|entry| registration.desired.is_restored_as(entry, &actor_id)) {
                registration.live = true;
                registration.confirmed = Some(registration.desired.clone());
                let load_balance = registration.desired.load_balance;
                self.settle_all(waiters, &Outcome::Subscribed { subscription: id, load_balance });
            } else {
                self.send_subscribe(id, waiters);
            }
        }
        for entry in &restored {
            if self.registry.find(entry.topic).is_none() {
                self.send_unsubscribe(entry.topic.to_string().into(), Ops::new());
            }
        }
    }

    /// Requests do not outlive their connection: subscribes wait for the next, and there is nothing left to
    /// unsubscribe from.
    pub(super) fn lose_requests(&mut self, cause: &Error) {
        for request in mem::take(&mut self.requests) {
            match request.kind {
                RequestKind::Unsubscribe => self.settle_all(request.ops, &Outcome::Unsubscribed),
                RequestKind::Subscribe(id, _) => match self.registry.by_id.get_mut(&id) {
                    Some(registration) => registration.waiters.extend(request.ops),
                    None => self.settle_undone(request.ops, cause),
                },
            }
        }
        for registration in self.registry.by_id.values_mut() {
            registration.live = false;
        }
    }

    /// Ends every subscription, because no session will follow.
    pub(super) fn end_subscriptions(&mut self, cause: &Error) {
        debug_assert!(self.link == Link::Idle && self.requests.is_empty());
        self.registry.by_topic.clear();
        for (subscription, registration) in mem::take(&mut self.registry.by_id) {
            self.settle_undone(registration.waiters, cause);
            if registration.confirmed.is_some() {
                let topic = registration.topic;
                self.events.push_back(Event::SubscriptionEnded { subscription, topic, cause: cause.clone() });
            }
        }
    }

    pub(super) fn waiting_requests(&self) -> &VecDeque<Request> {
        &self.requests
    }
}

impl Request {
    fn is_subscribe(&self) -> bool {
        matches!(self.kind, RequestKind::Subscribe(..))
    }

    fn is_live_subscribe(&self, id: SubscriptionId) -> bool {
        !self.expired && matches!(self.kind, RequestKind::Subscribe(of, _) if of == id)
    }

    pub(super) fn is_expired(&self) -> bool {
        self.expired
    }
}
