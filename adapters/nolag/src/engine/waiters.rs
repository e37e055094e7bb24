//! Who waits for which operation.

use std::{
    collections::BTreeMap,
    mem,
    sync::Arc,
    task::{Poll, Waker},
};

use nolag_core::{Op, OpId, Outcome};

use super::{
    Job,
    wakers::{Waiting, Wakers},
};
use crate::event::ErrorEvent;

/// Who waits for the outcome of one accepted command.
pub(crate) enum Waiter {
    /// A future, with its waker once it was polled.
    Future(Option<Waker>),
    /// A function to call.
    Callback(Box<dyn FnOnce(Outcome) + Send>),
    /// Only failures matter, as error events.
    Report(Op, Arc<str>),
    /// Nobody.
    Nobody,
}

/// An entry per accepted command.
#[derive(Default)]
pub(crate) struct Waiters {
    /// Without an outcome.
    pending: BTreeMap<OpId, Waiter>,
    /// With an outcome that a future will find when it is polled next.
    settled: BTreeMap<OpId, Outcome>,
    /// Who waits until everything up to an operation is settled.
    flushes: Wakers<OpId>,
    /// Wakers that are not needed any more. They are the application's, so they are dropped where no lock is held.
    pub(super) former: Vec<Waker>,
}

impl Waiters {
    pub(crate) fn insert(&mut self, op: OpId, waiter: Waiter) {
        self.pending.insert(op, waiter);
    }

    /// Takes in an outcome: what it makes the runner do. Whom it wakes is added to `wakers`.
    pub(super) fn settle(&mut self, op: OpId, outcome: Outcome, wakers: &mut Vec<Waker>) -> Option<Job> {
        let job = match self.pending.remove(&op) {
            Some(Waiter::Future(waker)) => {
                self.settled.insert(op, outcome);
                wakers.extend(waker);
                None
            }
            Some(Waiter::Callback(callback)) => Some(Job::Call(Box::new(move || callback(outcome)))),
            Some(Waiter::Report(op, topic)) => {
                outcome.error().map(|error| Job::Error(Arc::new(ErrorEvent::Operation { op, topic, error })))
            }
            Some(Waiter::Nobody) | None => None,
        };
        match self.pending.first_key_value() {
            Some((oldest, _)) => wakers.extend(self.flushes.take_before(*oldest)),
            None => wakers.extend(self.flushes.take()),
        }
        job
    }

    /// The outcome for a future; its entry goes with it.
    pub(super) fn poll(&mut self, op: OpId, waker: &Waker) -> Poll<Option<Outcome>> {
        if let Some(Waiter::Future(known)) = self.pending.get_mut(&op) {
            if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
                self.former.extend(known.replace(waker.clone()));
            }
            return Poll::Pending;
        }
        Poll::Ready(self.settled.remove(&op))
    }

    /// One who waits for everything up to the latest operation; `None` where all are settled.
    pub(super) fn wait_flushed(&self) -> Option<Waiting<OpId>> {
        self.pending.last_key_value().map(|(latest, _)| self.flushes.wait(*latest))
    }

    /// Whether everything up to `op` is settled.
    pub(super) fn is_flushed(&self, op: OpId) -> bool {
        self.pending.first_key_value().is_none_or(|(oldest, _)| *oldest > op)
    }

    /// Whether a future waits for it.
    pub(super) fn is_awaited(&self, op: OpId) -> bool {
        matches!(self.pending.get(&op), Some(Waiter::Future(_)))
    }

    /// Whether a future waits for anything, and so hears of it when nothing more can come.
    pub(super) fn has_future(&self) -> bool {
        self.pending.values().any(|waiter| matches!(waiter, Waiter::Future(_)))
    }

    /// Forgets a future that was dropped; gives the outcome that it did not take.
    pub(super) fn abandon(&mut self, op: OpId) -> Option<Outcome> {
        if let Some(waiter) = self.pending.get_mut(&op) {
            if let Waiter::Future(waker) = mem::replace(waiter, Waiter::Nobody) {
                self.former.extend(waker);
            }
        }
        self.settled.remove(&op)
    }
}
