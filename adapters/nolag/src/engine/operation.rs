//! What public futures are made of: a command to issue, then an operation to wait for.

use std::{
    mem,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use nolag_core::{Error, OpId, Outcome, Rejection};

use super::{Handle, Job, Mail, Waiter, lock};

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
        let outcome = self.handle.shared.lock().waiters.poll(self.op, cx.waker());
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
    /// Over.
    Finished,
}

impl<C> Command<C> {
    /// Drives the command: `issue` runs once. `Err` is a refusal, `Ok` the outcome.
    pub(crate) fn poll_with(
        &mut self,
        cx: &mut Context<'_>,
        issue: impl FnOnce(&Handle, C) -> Result<OpId, Error>,
    ) -> Poll<Result<Outcome, Error>> {
        if let Self::Ready(..) = self {
            let Self::Ready(handle, command) = mem::replace(self, Self::Finished) else {
                return Poll::Pending;
            };
            match issue(&handle, command) {
                Ok(op) => *self = Self::Waiting(Operation::new(handle, op)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let Self::Waiting(operation) = self else { panic!("a future was polled after its end") };
        let outcome = std::task::ready!(operation.poll(cx));
        *self = Self::Finished;
        Poll::Ready(Ok(outcome))
    }
}

/// Issues a command whose outcome, or refusal, goes to `callback`.
pub(crate) fn with_callback<T: 'static>(
    handle: &Handle,
    callback: impl FnOnce(T) + Send + 'static,
    convert: impl FnOnce(Result<Outcome, Error>) -> T + Send + 'static,
    issue: impl FnOnce(Waiter) -> Result<OpId, Error>,
) {
    // A refusal comes before the callback is registered, so both ways share it.
    let once = Arc::new(Mutex::new(Some(move |outcome| callback(convert(outcome)))));
    let registered = once.clone();
    let waiter = Waiter::Callback(Box::new(move |outcome| {
        let call = lock(&registered).take();
        if let Some(call) = call {
            call(Ok(outcome));
        }
    }));
    if let Err(error) = issue(waiter) {
        handle.shared.push_job(Job::Call(Box::new(move || {
            let call = lock(&once).take();
            if let Some(call) = call {
                call(Err(error));
            }
        })));
    }
}
