//! What public futures are made of: a command to issue, then an operation to wait for.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use nolag_core::{Error, OpId, Outcome, Rejection};

use super::{Handle, Mail, Waiter};

/// An accepted command that somebody waits for. Dropping it tells the core that nobody does any more.
#[derive(Debug)]
pub(crate) struct Operation {
    handle: Arc<Handle>,
    op: OpId,
    finished: bool,
}

impl Operation {
    pub(crate) fn new(handle: Arc<Handle>, op: OpId) -> Self {
        Self { handle, op, finished: false }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = self.handle.shared.poll_operation(self.op, cx.waker());
        outcome.map(|outcome| {
            self.finished = true;
            // Only a future polled after its end finds nothing.
            outcome.unwrap_or(Outcome::Unknown(Error::Rejected(Rejection::Abandoned)))
        })
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if !self.finished {
            self.handle.shared.mailbox.post(Mail::Abandon(self.op));
        }
    }
}

/// A command with the future of its outcome: it is issued by the first poll.
pub(crate) enum Command<C> {
    /// Not polled yet.
    Ready(Arc<Handle>, C),
    /// Issued.
    Waiting(Operation),
    /// Issued and refused.
    Refused(Error),
    /// Over.
    Finished,
}

impl<C> Command<C> {
    /// Issues the command unless that was done before.
    pub(crate) fn start(&mut self, issue: impl FnOnce(&Handle, C) -> Result<OpId, Error>) {
        if let Self::Ready(..) = self {
            if let Self::Ready(handle, command) = mem::replace(self, Self::Finished) {
                *self = match issue(&handle, command) {
                    Ok(op) => Self::Waiting(Operation::new(handle, op)),
                    Err(error) => Self::Refused(error),
                };
            }
        }
    }

    /// Drives the command: `issue` runs once. `Err` is a refusal, `Ok` the outcome.
    pub(crate) fn poll_with(
        &mut self,
        cx: &mut Context<'_>,
        issue: impl FnOnce(&Handle, C) -> Result<OpId, Error>,
    ) -> Poll<Result<Outcome, Error>> {
        self.start(issue);
        let outcome = match self {
            Self::Waiting(operation) => Ok(std::task::ready!(operation.poll(cx))),
            _ => match mem::replace(self, Self::Finished) {
                Self::Refused(error) => Err(error),
                _ => panic!("a future was polled after its end"),
            },
        };
        *self = Self::Finished;
        Poll::Ready(outcome)
    }
}

/// Issues a command whose outcome goes to `callback`, which counts as an operation until it was called.
pub(crate) fn with_callback<T: 'static>(
    handle: &Handle,
    callback: impl FnOnce(T) + Send + 'static,
    convert: impl FnOnce(Result<Outcome, Error>) -> T + Send + 'static,
    issue: impl FnOnce(Waiter) -> Result<OpId, Error>,
) -> Result<(), Error> {
    let slot = handle.shared.callback_slot()?;
    let callback = move |outcome| {
        // Given back when the callback has returned or panicked.
        let _slot = slot;
        callback(convert(Ok(outcome)));
    };
    issue(Waiter::Callback(Box::new(callback))).map(drop)
}

/// The place of one callback among those that have not been called.
#[derive(Debug)]
pub(crate) struct CallbackSlot(Arc<AtomicUsize>);

impl CallbackSlot {
    /// A place, unless `limit` are taken.
    pub(super) fn take(taken: &Arc<AtomicUsize>, limit: usize) -> Result<Self, Error> {
        let slot = Self(taken.clone());
        let before = slot.0.fetch_add(1, Ordering::Relaxed);
        if before < limit { Ok(slot) } else { Err(Rejection::Full { pending: before, bytes: 0 }.into()) }
    }
}

impl Drop for CallbackSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
