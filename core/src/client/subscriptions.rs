//! Subscriptions: one per topic, kept across reconnects, confirmed by the broker.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use core::{hash::BuildHasher, mem};

use super::{
    ClientCore, Config, Event, FilterChange, Link, OpId, Outcome, Subscribe, SubscribeOptions,
    SubscriptionId,
    delivery::Seen,
    denies_access, filters,
    requests::{Ops, Request, RequestKind},
};
use crate::{
    Instant,
    error::{Error, Op, Refused, Rejection, ServerError},
    topic,
    wire::{self, ClientFrame, ErrorFrame, Filter, QoS, RawValue, RestoredFrom, RestoredSubscription, Text},
};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Refused topics remembered, in case the broker confirms one after all.
const MAX_REFUSED: usize = 64;

/// The options in force, with nothing left to defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Effective {
    qos: QoS,
    pub(super) filters: Vec<Filter>,
    load_balance: bool,
    /// `None`: the actor's id.
    group: Option<String>,
}

/// One subscription that the application wants.
#[derive(Debug)]
pub(super) struct Registration {
    pub(super) topic: Arc<str>,
    pub(super) desired: Effective,
    /// What the broker confirmed last, in whatever session: what to go back to when a change is refused.
    pub(super) confirmed: Option<Effective>,
    /// Whether the broker confirmed it in this session.
    pub(super) live: bool,
    /// Commands that wait for the next session.
    waiters: Ops,
    /// The request whose answer will decide, if one is on its way.
    latest: Option<u64>,
    /// The command that alone wants what is desired, and what was desired before it; nothing: no subscription.
    pub(super) undo: Option<(OpId, Option<Box<Effective>>)>,
    /// Filter changes not yet sent, in order.
    pub(super) filter_changes: VecDeque<(Option<OpId>, FilterChange)>,
    /// Messages delivered since the application subscribed last.
    pub(super) seen: Seen,
}

/// What the client is subscribed to, by id and by topic.
#[derive(Debug)]
pub(super) struct Registry {
    // Boxed: a map makes room for eleven entries at once.
    pub(super) by_id: BTreeMap<SubscriptionId, Box<Registration>>,
    by_topic: HashMap<Arc<str>, Entry, FixedState>,
    removals: u64,
    /// Topics refused last on this connection.
    refused: VecDeque<Arc<str>>,
    /// Those that stood before the connection was lost and do not stand again yet.
    unrestored: BTreeSet<SubscriptionId>,
}

/// What is asked for at each message.
#[derive(Debug, Clone, Copy)]
struct Entry {
    id: SubscriptionId,
    /// Whether the broker has ever confirmed it.
    confirmed: bool,
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
        let same_group = match (restored.load_balance_group, restored.origin) {
            (None, _) => self.group.is_none(),
            (Some(name), RestoredFrom::Pattern) => {
                // A control plane names the group with project and app in front.
                name == group || name.strip_suffix(group).is_some_and(|rest| rest.ends_with('_'))
            }
            (Some(name), _) => name == group,
        };
        restored.load_balance == self.load_balance
            && restored.qos.unwrap_or_default() == self.qos
            && restored.filters == self.filters
            && (!self.load_balance || same_group)
    }
}

impl Registry {
    pub(super) fn new(seed: u64) -> Self {
        let by_topic = HashMap::with_hasher(FixedState::with_seed(seed));
        Self {
            by_id: BTreeMap::new(),
            by_topic,
            removals: 0,
            refused: VecDeque::new(),
            unrestored: BTreeSet::new(),
        }
    }

    pub(super) fn find(&self, topic: &str) -> Option<(Arc<str>, SubscriptionId)> {
        self.by_topic.get_key_value(topic).map(|(topic, entry)| (topic.clone(), entry.id))
    }

    /// The subscription to a topic, if the broker has ever confirmed it.
    pub(super) fn confirmed_id(&self, topic: &str) -> Option<SubscriptionId> {
        self.by_topic.get(topic).filter(|entry| entry.confirmed).map(|entry| entry.id)
    }

    /// How many were removed so far.
    pub(super) fn removals(&self) -> u64 {
        self.removals
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// A keyed hash, as the index of topics uses it.
    pub(super) fn hash(&self, text: &str) -> u64 {
        self.by_topic.hasher().hash_one(text)
    }

    fn insert(&mut self, id: SubscriptionId, topic: Arc<str>, desired: Effective, op: OpId) {
        self.by_topic.insert(topic.clone(), Entry { id, confirmed: false });
        let registration = Registration {
            topic,
            desired,
            confirmed: None,
            live: false,
            waiters: Ops::new(),
            latest: None,
            undo: Some((op, None)),
            filter_changes: VecDeque::new(),
            seen: Seen::default(),
        };
        self.by_id.insert(id, Box::new(registration));
    }

    pub(super) fn connection_lost(&mut self) {
        self.refused.clear();
        for (id, registration) in &mut self.by_id {
            registration.live = false;
            if registration.confirmed.is_some() {
                self.unrestored.insert(*id);
            }
        }
    }

    pub(super) fn confirm(&mut self, id: SubscriptionId, options: Effective) {
        let Some(registration) = self.by_id.get_mut(&id) else { return };
        registration.live = registration.desired == options;
        registration.confirmed = Some(options);
        if let Some(entry) = self.by_topic.get_mut(&registration.topic) {
            entry.confirmed = true;
        }
        self.unrestored.remove(&id);
    }

    fn remove(&mut self, id: SubscriptionId) -> Option<Registration> {
        let registration = self.by_id.remove(&id)?;
        self.unrestored.remove(&id);
        self.by_topic.remove(&registration.topic);
        self.removals += 1;
        Some(*registration)
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
            self.registry.insert(id, subscribe.topic.into(), desired, op);
            self.request_or_wait(id, op);
            return Ok(op);
        };
        let changing = self.filters_are_changing(id);
        self.supersede_filter_changes(id);
        let Some(registration) = self.registry.by_id.get_mut(&id) else { return Ok(op) };
        let same = registration.desired == desired && !changing;
        let before = mem::replace(&mut registration.desired, desired);
        registration.undo = if same { None } else { Some((op, Some(Box::new(before)))) };
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
                if let Some(registration) = self.registry.remove(id) {
                    self.settle_undone(registration.into_ops(), &Rejection::Superseded.into());
                }
                self.check_restored();
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
    /// A subscribe that nobody else wants is taken back, also when its outcome was told and nobody took it; where it
    /// replaced options that stood, they are put back. Any other command goes on. Unknown ids are ignored.
    pub fn abandon(&mut self, now: Instant, op: OpId) {
        self.observe(now);
        match self.ops.get(op) {
            None => self.undo_subscribe(op),
            Some(pending) if pending.kind == Op::Subscribe => self.abandon_subscribe(op),
            Some(_) => return,
        }
        self.finish_drain();
    }

    fn abandon_subscribe(&mut self, op: OpId) {
        let abandoned = Error::Rejected(Rejection::Abandoned);
        let waiting =
            self.registry.by_id.iter_mut().find(|(_, registration)| registration.waiters.contains(&op));
        if let Some((&id, registration)) = waiting {
            registration.waiters.retain(|waiter| *waiter != op);
            if registration.waiters.is_empty() {
                match registration.confirmed.clone() {
                    Some(before) => registration.desired = before,
                    None => {
                        let removed = self.registry.remove(id).map(Registration::into_ops);
                        self.settle_undone(removed.into_iter().flatten(), &Rejection::Superseded.into());
                    }
                }
            }
            self.settle_undone([op], &abandoned);
        } else if let Some(request) = self.requests.iter_mut().find(|request| request.ops.contains(&op)) {
            request.ops.retain(|waiter| *waiter != op);
            let RequestKind::Subscribe(id, _) = request.kind else { return };
            self.settle(op, Outcome::Unknown(abandoned));
            let joined = |request: &Request| request.is_live_subscribe(id) && !request.ops.is_empty();
            if !self.requests.iter().any(joined) {
                self.compensate_unwanted(id);
                self.undo_subscribe(op);
            }
        }
    }

    /// Makes undone what only `op` wanted.
    fn undo_subscribe(&mut self, op: OpId) {
        let wanted_by_it =
            |registration: &Registration| matches!(registration.undo, Some((by, _)) if by == op);
        let found = self.registry.by_id.iter_mut().find(|(_, registration)| wanted_by_it(registration));
        let Some((&id, registration)) = found else { return };
        match registration.undo.take() {
            Some((_, Some(before))) if *before != registration.desired => {
                registration.live = false;
                registration.desired = *before;
                if self.link_is_ready() {
                    self.send_subscribe(id, Ops::new());
                }
            }
            Some((_, None)) => self.take_back(id),
            _ => {}
        }
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
        filters::check(&subscribe.options.filters)?;
        self.check_open()?;
        self.check_room(subscribe.topic.len())
    }

    /// The request whose answer will decide about `id`, if one is on its way.
    fn latest_subscribe(&mut self, id: SubscriptionId) -> Option<&mut Request> {
        let index = self.latest_index(id)?;
        self.requests.get_mut(index)
    }

    pub(super) fn subscribe_is_under_way(&self, id: SubscriptionId) -> bool {
        self.latest_index(id).is_some()
    }

    fn latest_index(&self, id: SubscriptionId) -> Option<usize> {
        let index = self.request_index(self.registry.by_id.get(&id)?.latest?)?;
        self.requests.get(index).is_some_and(|request| request.is_live_subscribe(id)).then_some(index)
    }

    fn request_or_wait(&mut self, id: SubscriptionId, op: OpId) {
        if self.link_is_ready() {
            self.send_subscribe(id, Ops::from_elem(op, 1));
        } else if let Some(registration) = self.registry.by_id.get_mut(&id) {
            registration.waiters.push(op);
        }
    }

    pub(super) fn send_subscribe(&mut self, id: SubscriptionId, ops: Ops) {
        let Some(registration) = self.registry.by_id.get(&id) else { return };
        let topic = registration.topic.clone();
        let options = registration.desired.clone();
        let kind = RequestKind::Subscribe(id, options.clone());
        let seq = self.push_request(topic.clone(), kind, ops, &options.frame(&topic));
        if let Some(registration) = self.registry.by_id.get_mut(&id) {
            registration.latest = Some(seq);
        }
    }

    fn send_unsubscribe(&mut self, topic: Arc<str>, ops: Ops) {
        let frame = ClientFrame::Unsubscribe { topic: &topic };
        self.push_request(topic.clone(), RequestKind::Unsubscribe, ops, &frame);
    }

    pub(super) fn handle_subscribed(&mut self, topic: Text<'_>, load_balance: bool) {
        let is_subscribe = |kind: &RequestKind| matches!(kind, RequestKind::Subscribe(..));
        let Some(request) = self.take_answered(topic.as_str(), is_subscribe) else {
            return self.take_back_refused(topic);
        };
        let RequestKind::Subscribe(id, options) = request.kind else { return };
        self.unanswered_restores = 0;
        self.registry.confirm(id, options);
        if let Some(registration) = self.registry.by_id.get_mut(&id).filter(|_| !request.ops.is_empty()) {
            registration.seen.clear();
        }
        self.settle_all(request.ops, &Outcome::Subscribed { subscription: id, load_balance });
        self.advance_filters(id);
        self.check_restored();
    }

    /// The broker confirms what it had refused: its refusal of an untracked publish was taken for the refusal of the
    /// subscribe that came after it. What nobody waits for is taken back.
    fn take_back_refused(&mut self, topic: Text<'_>) {
        let doubtful = &mut self.registry.refused;
        let Some(index) = doubtful.iter().position(|refused| Some(&**refused) == topic.as_str()) else {
            return;
        };
        if let Some(topic) = doubtful.remove(index).filter(|topic| self.registry.find(topic).is_none()) {
            self.send_unsubscribe(topic, Ops::new());
        }
    }

    pub(super) fn handle_unsubscribed(&mut self, topic: Text<'_>) {
        let is_unsubscribe = |kind: &RequestKind| matches!(kind, RequestKind::Unsubscribe);
        if let Some(request) = self.take_answered(topic.as_str(), is_unsubscribe) {
            self.settle_all(request.ops, &Outcome::Unsubscribed);
        }
    }

    pub(super) fn subscribe_refused(
        &mut self,
        id: SubscriptionId,
        options: &Effective,
        ops: Ops,
        error: ServerError,
    ) {
        self.settle_all(ops, &Outcome::Refused(error.clone().into()));
        if self.subscribe_is_under_way(id) {
            // A later request decides.
            return;
        }
        let Some(registration) = self.registry.by_id.get_mut(&id) else { return };
        registration.live = false;
        match registration.confirmed.clone() {
            // Kraken has already ended the old subscription when it refuses to change it.
            Some(before) if before != *options => {
                registration.desired = before;
                self.send_subscribe(id, Ops::new());
            }
            _ => {
                if self.registry.refused.len() >= MAX_REFUSED {
                    self.registry.refused.pop_front();
                }
                let topic = registration.topic.clone();
                self.registry.refused.push_back(topic);
                self.end_subscription(id, error.into());
            }
        }
    }

    /// Ends the subscription that stood until a broker said, unasked, that the actor may not use its topic; `false` when
    /// the error can be for something else.
    pub(super) fn access_denied(&mut self, topic: &str, frame: &ErrorFrame<'_>) -> bool {
        let Some((topic, id)) = self.registry.find(topic).filter(|_| denies_access(frame)) else {
            return false;
        };
        let stands = self.registry.by_id.get(&id).is_some_and(|registration| registration.live);
        let asked =
            self.subscribe_is_under_way(id) || self.publishes.may_be_refused(self.registry.hash(&topic));
        let ends = stands && !asked;
        if ends {
            self.end_subscription(id, ServerError::from_frame(frame, None).into());
        }
        ends
    }

    fn end_subscription(&mut self, subscription: SubscriptionId, cause: Error) {
        let Some(mut registration) = self.registry.remove(subscription) else { return };
        let topic = registration.topic.clone();
        let confirmed = registration.confirmed.take().is_some();
        self.settle_undone(registration.into_ops(), &cause);
        if confirmed {
            self.events.push_back(Event::SubscriptionEnded { subscription, topic, cause });
        }
        self.check_restored();
    }

    pub(super) fn subscribe_timed_out(
        &mut self,
        id: SubscriptionId,
        options: &Effective,
        restore: bool,
        error: Error,
    ) {
        if self.subscribe_is_under_way(id) {
            return;
        }
        let Some(registration) = self.registry.by_id.get(&id) else { return };
        let Some(before) = registration.confirmed.clone() else { return self.compensate_unwanted(id) };
        if restore && self.restore_unanswered(error) {
            return;
        }
        if let Some(registration) = self.registry.by_id.get_mut(&id) {
            registration.live &= before == *options;
            registration.desired = before;
        }
        self.send_subscribe(id, Ops::new());
    }

    pub(super) fn subscribe_lost(&mut self, id: SubscriptionId, ops: Ops, cause: &Error) {
        match self.registry.by_id.get_mut(&id) {
            Some(registration) => registration.waiters.extend(ops),
            None => self.settle_undone(ops, cause),
        }
    }

    /// Takes back a subscription that was asked for, never confirmed, and that nobody waits for: the broker may have
    /// made it all the same.
    fn compensate_unwanted(&mut self, id: SubscriptionId) {
        let Some(registration) = self.registry.by_id.get(&id) else { return };
        if registration.confirmed.is_some() || !registration.waiters.is_empty() {
            return;
        }
        self.take_back(id);
    }

    /// Ends a subscription that nobody wants.
    fn take_back(&mut self, id: SubscriptionId) {
        let Some(registration) = self.registry.remove(id) else { return };
        let topic = registration.topic.clone();
        self.settle_undone(registration.into_ops(), &Rejection::Superseded.into());
        self.check_restored();
        if self.link_is_ready() {
            self.send_unsubscribe(topic, Ops::new());
        }
    }

    /// Makes the new session's subscriptions those that are wanted. What the broker says it restored is believed when
    /// we have a name of our own, otherwise it may be another connection's, and when it is in a form that brokers use
    /// for what they did restore: the older forms also list what the actor may not subscribe to.
    pub(super) fn restore_subscriptions(&mut self, restored: Option<RawValue<'_>>) {
        let ours = self.config.client_id.is_some() && self.lost_at.is_some();
        let restored: Vec<_> =
            restored.filter(|_| ours).into_iter().flat_map(RestoredSubscription::parse_list).collect();
        let actor_id = self.session.as_ref().map(|session| session.actor_id.clone()).unwrap_or_default();
        let ids: Vec<SubscriptionId> = self.registry.by_id.keys().copied().collect();
        for id in ids {
            let Some(registration) = self.registry.by_id.get_mut(&id) else { continue };
            let waiters = mem::take(&mut registration.waiters);
            let mut found =
                restored.iter().filter(|entry| entry.topic == &*registration.topic && entry.is_certain());
            if found.any(|entry| registration.desired.is_restored_as(entry, &actor_id)) {
                let load_balance = registration.desired.load_balance;
                let options = registration.desired.clone();
                self.registry.confirm(id, options);
                self.settle_all(waiters, &Outcome::Subscribed { subscription: id, load_balance });
                self.advance_filters(id);
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

    /// Reports when the last subscription stands again after a reconnect.
    pub(super) fn check_restored(&mut self) {
        let restored = self.link_is_ready() && self.registry.unrestored.is_empty();
        if let Some(downtime) = self.restoring.filter(|_| restored) {
            self.restoring = None;
            let possible_gap =
                self.registry.by_id.values().any(|registration| registration.confirmed.is_some());
            self.events.push_back(Event::Restored { downtime, possible_gap });
        }
    }

    /// Ends every subscription, because no session will follow.
    pub(super) fn end_subscriptions(&mut self, cause: &Error) {
        debug_assert!(self.link == Link::Idle && self.requests.is_empty());
        let ids: Vec<SubscriptionId> = self.registry.by_id.keys().copied().collect();
        for id in ids {
            self.end_subscription(id, cause.clone());
        }
    }
}

impl Registration {
    /// Whether a subscribe was sent after the request numbered `seq`.
    pub(super) fn was_subscribed_after(&self, seq: u64) -> bool {
        self.latest > Some(seq)
    }

    /// The commands that wait for something that will not come.
    fn into_ops(self) -> impl Iterator<Item = OpId> {
        self.waiters.into_iter().chain(self.filter_changes.into_iter().filter_map(|(op, _)| op))
    }
}
