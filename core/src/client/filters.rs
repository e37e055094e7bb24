//! Changing the filters of a subscription that stands: one change at a time per topic, confirmed or rolled back.

use alloc::{collections::BTreeSet, string::String, vec::Vec};
use core::mem;

use super::{
    ClientCore, FilterChange, OpId, Outcome, SubscriptionId,
    requests::{Ops, RequestKind},
};
use crate::{
    Instant,
    error::{Error, Misuse, Op, Refused, Rejection, ServerError},
    topic,
    wire::{ClientFrame, Filter, MAX_FILTERS, Text},
};

impl FilterChange {
    fn listed(&self) -> &[Filter] {
        match self {
            Self::Add(filters) | Self::Remove(filters) | Self::Set(filters) => filters,
        }
    }

    /// The list after this change, in order, without repetitions.
    fn apply(&self, current: &[Filter], topic: &str) -> Result<Vec<Filter>, Misuse> {
        let after: Vec<Filter> = match self {
            Self::Set(filters) => return Ok(unique(filters.iter())),
            _ if current.is_empty() => return Err(Misuse::Unfiltered(topic.into())),
            Self::Add(filters) => unique(current.iter().chain(filters)),
            Self::Remove(filters) => {
                let gone: Vec<String> = filters.iter().map(Filter::canonical).collect();
                current.iter().filter(|filter| !gone.contains(&filter.canonical())).cloned().collect()
            }
        };
        if after.is_empty() {
            return Err(Misuse::LastFilter(topic.into()));
        }
        if after.len() > MAX_FILTERS {
            return Err(Misuse::TooManyFilters(after.len()));
        }
        Ok(after)
    }
}

/// Checks a filter list before it is sent.
pub(super) fn check(filters: &[Filter]) -> Result<(), Misuse> {
    if filters.len() > MAX_FILTERS {
        return Err(Misuse::TooManyFilters(filters.len()));
    }
    filters
        .iter()
        .find_map(Filter::invalid_value)
        .map_or(Ok(()), |bad| Err(Misuse::InvalidFilter(bad.into())))
}

/// The first of each; brokers know a group whatever its case and order.
fn unique<'f>(filters: impl Iterator<Item = &'f Filter>) -> Vec<Filter> {
    let mut seen = BTreeSet::new();
    filters.filter(|filter| seen.insert(filter.canonical())).cloned().collect()
}

impl ClientCore {
    /// Replaces the filters of the subscription to `topic`; an empty list opens it for everything.
    ///
    /// Changes of one topic are made one after the other, each confirmed before the next; while there is no session
    /// they wait for it. A refused change changes nothing. The outcome is [`Outcome::FiltersUpdated`],
    /// [`Outcome::Refused`], [`Outcome::NotSent`] or [`Outcome::Unknown`]; after the latter the filters in force before
    /// are put back.
    ///
    /// # Errors
    /// The filters come back with [`Error::Misuse`] when one is invalid or nothing is subscribed, and with
    /// [`Error::Rejected`] when the client is idle or leaving, or too much is waiting.
    pub fn set_filters(
        &mut self,
        now: Instant,
        topic: &str,
        filters: Vec<Filter>,
    ) -> Result<OpId, Refused<FilterChange>> {
        self.change_filters(now, topic, FilterChange::Set(filters))
    }

    /// Adds filters to those of the subscription to `topic`, at the end; those already there stay where they are.
    ///
    /// # Errors
    /// As [`set_filters`](Self::set_filters), and [`Misuse::Unfiltered`] when the subscription has none: it receives
    /// everything, and adding one would silently narrow it.
    pub fn add_filters(
        &mut self,
        now: Instant,
        topic: &str,
        filters: Vec<Filter>,
    ) -> Result<OpId, Refused<FilterChange>> {
        self.change_filters(now, topic, FilterChange::Add(filters))
    }

    /// Removes filters from those of the subscription to `topic`; those not there are ignored.
    ///
    /// # Errors
    /// As [`set_filters`](Self::set_filters), and [`Misuse::LastFilter`] when none would be left: the subscription would
    /// silently receive everything.
    pub fn remove_filters(
        &mut self,
        now: Instant,
        topic: &str,
        filters: Vec<Filter>,
    ) -> Result<OpId, Refused<FilterChange>> {
        self.change_filters(now, topic, FilterChange::Remove(filters))
    }

    fn change_filters(
        &mut self,
        now: Instant,
        topic: &str,
        change: FilterChange,
    ) -> Result<OpId, Refused<FilterChange>> {
        self.observe(now);
        let id = match self.check_change(topic, &change) {
            Ok(id) => id,
            Err(error) => return Err(Refused { error, value: change }),
        };
        let op = self.accept(Op::SetFilters);
        if let Some(registration) = self.registry.by_id.get_mut(&id) {
            registration.undo = None;
            registration.filter_changes.push_back((Some(op), change));
        }
        self.advance_filters(id);
        Ok(op)
    }

    fn check_change(&self, topic: &str, change: &FilterChange) -> Result<SubscriptionId, Error> {
        topic::check_pattern(topic)?;
        check(change.listed())?;
        self.check_open()?;
        let Some((_, id)) = self.registry.find(topic) else {
            return Err(Misuse::NotSubscribed(topic.into()).into());
        };
        // Judged by the list that will be in force when its turn comes.
        let mut list =
            self.registry.by_id.get(&id).map(|known| known.desired.filters.clone()).unwrap_or_default();
        if let Some(filters) = self.filters_under_way(id) {
            list = filters.into();
        }
        for (_, earlier) in self.registry.by_id.get(&id).into_iter().flat_map(|known| &known.filter_changes) {
            if let Ok(after) = earlier.apply(&list, topic) {
                list = after;
            }
        }
        change.apply(&list, topic)?;
        self.check_room(topic.len())?;
        Ok(id)
    }

    /// The filters of the change that is on its way, unless a subscribe after it decides.
    fn filters_under_way(&self, id: SubscriptionId) -> Option<&[Filter]> {
        if self.subscribe_is_under_way(id) {
            return None;
        }
        self.waiting_requests().iter().find_map(|request| match &request.kind {
            RequestKind::SetFilters(of, filters) if *of == id && !request.expired => Some(&filters[..]),
            _ => None,
        })
    }

    /// Whether the filters of `id` will not stay as they are.
    pub(super) fn filters_are_changing(&self, id: SubscriptionId) -> bool {
        let waiting = self.registry.by_id.get(&id).is_some_and(|known| !known.filter_changes.is_empty());
        waiting || self.filters_under_way(id).is_some()
    }

    /// Ends the changes that wait, because a later subscribe says what the filters are.
    pub(super) fn supersede_filter_changes(&mut self, id: SubscriptionId) {
        let Some(registration) = self.registry.by_id.get_mut(&id) else { return };
        let waiting = mem::take(&mut registration.filter_changes);
        let ops = waiting.into_iter().filter_map(|(op, _)| op);
        self.settle_undone(ops, &Rejection::Superseded.into());
    }

    /// Sends the next change, if nothing else about the subscription is on its way.
    pub(super) fn advance_filters(&mut self, id: SubscriptionId) {
        let changing = |kind: &RequestKind| matches!(kind, RequestKind::SetFilters(of, _) if *of == id);
        let pending =
            self.waiting_requests().iter().any(|request| !request.expired && changing(&request.kind));
        if !self.link_is_ready() || pending || self.subscribe_is_under_way(id) {
            return;
        }
        loop {
            let Some(registration) = self.registry.by_id.get_mut(&id).filter(|known| known.live) else {
                return;
            };
            let Some((op, change)) = registration.filter_changes.pop_front() else { return };
            let topic = registration.topic.clone();
            match change.apply(&registration.desired.filters, &topic) {
                Ok(filters) => {
                    let frame = ClientFrame::SetFilters { topic: &topic, filters: filters.clone() };
                    let ops: Ops = op.into_iter().collect();
                    self.push_request(topic.clone(), RequestKind::SetFilters(id, filters), ops, &frame);
                    return;
                }
                // What it built on was refused meanwhile.
                Err(misuse) => self.settle_undone(op, &misuse.into()),
            }
        }
    }

    pub(super) fn handle_filters_updated(&mut self, topic: Text<'_>) {
        let is_change = |kind: &RequestKind| matches!(kind, RequestKind::SetFilters(..));
        let Some(request) = self.take_answered(topic.as_str(), is_change) else { return };
        let RequestKind::SetFilters(id, filters) = request.kind else { return };
        self.unanswered_restores = 0;
        let replaced = self.subscribe_is_under_way(id);
        // What is overdue is being put back.
        if let Some(registration) = self.registry.by_id.get_mut(&id).filter(|_| !request.expired) {
            if let Some(confirmed) = &mut registration.confirmed {
                confirmed.filters.clone_from(&filters);
            }
            if !replaced {
                registration.desired.filters.clone_from(&filters);
            }
        }
        self.settle_all(request.ops, &Outcome::FiltersUpdated { filters });
        self.advance_filters(id);
    }

    pub(super) fn filters_refused(&mut self, id: SubscriptionId, ops: Ops, error: ServerError) {
        let unknown_there = error.error == "not_subscribed";
        self.settle_all(ops, &Outcome::Refused(error.into()));
        if unknown_there && !self.subscribe_is_under_way(id) {
            // We are wanted there and are not: the broker lost the subscription.
            if let Some(registration) = self.registry.by_id.get_mut(&id) {
                registration.live = false;
            }
            self.send_subscribe(id, Ops::new());
        }
        self.advance_filters(id);
    }

    /// Nobody knows which filters are in force now: those from before are put back, unless a subscribe does that.
    pub(super) fn filters_timed_out(&mut self, id: SubscriptionId, restore: bool, error: Error) {
        if restore && self.restore_unanswered(error) {
            return;
        }
        let replaced = self.subscribe_is_under_way(id);
        if let Some(registration) = self.registry.by_id.get_mut(&id).filter(|_| !replaced) {
            let before = FilterChange::Set(registration.desired.filters.clone());
            registration.filter_changes.push_front((None, before));
        }
        self.advance_filters(id);
    }

    /// The change is made again on the next connection, after the subscription is restored; not if a subscribe after it
    /// took its place.
    pub(super) fn filters_lost(
        &mut self,
        seq: u64,
        id: SubscriptionId,
        filters: Vec<Filter>,
        ops: Ops,
        cause: &Error,
    ) {
        match self.registry.by_id.get_mut(&id).filter(|known| !known.was_subscribed_after(seq)) {
            Some(registration) => {
                for op in ops {
                    registration.filter_changes.push_front((Some(op), FilterChange::Set(filters.clone())));
                }
            }
            None => self.settle_undone(ops, cause),
        }
    }
}
