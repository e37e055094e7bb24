//! The runtime-neutral half of the client: one lock around the core, everything that waits for it, and one
//! synchronous [`State::turn`] that moves things between them.
//!
//! Three parties share it: calls of the application, the pump that moves bytes (see [`pump`]), and the runner that
//! calls handlers (see [`dispatch`]). Each takes the lock, changes the core, and turns before it lets go, so the lock
//! is only ever seen open in a settled state. No code of the application runs under the lock: handlers, callbacks and
//! destructors of what was registered run after it was released, and everything in this crate that has a `Drop`
//! only leaves a note in the [`mailbox`] or takes its waker back (see [`wakers`]).

mod acks;
mod caught;
mod connection;
mod dispatch;
mod gather;
mod handlers;
mod lane;
mod mailbox;
mod operation;
mod pump;
mod state;
mod status;
mod streams;
mod tokens;
mod waiters;
mod wakers;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
};

use nolag_core::{ClientCore, Disconnect, Error, Instant, OpId, Outcome};

pub(crate) use acks::{Ack, Receipt};
#[cfg(feature = "blocking")]
pub(crate) use caught::{catch, dispose};
pub(crate) use dispatch::Job;
pub(crate) use handlers::{HandlerFn, Handlers, List, remove_from};
pub(crate) use mailbox::{Mail, Mailbox};
pub(crate) use operation::{CallbackSlot, Command, Operation, with_callback};
pub(crate) use state::State;
pub(crate) use streams::StreamBuffer;
pub(crate) use tokens::Tokens;
pub(crate) use waiters::Waiter;
pub(crate) use wakers::Waiting;

use crate::{
    options::Options,
    runtime::{Driver, Timer},
    transport::Dial,
};
use dispatch::Dispatch;
use pump::Pump;
use status::StatusCell;

/// Everything that handles, tasks, streams and futures share.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) handlers: Mutex<Handlers>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) dispatch: Dispatch,
    pub(crate) status: StatusCell,
    tokens: Tokens,
    driver: Arc<dyn Driver>,
    /// How to connect; `None` when the options are invalid, and then nothing does.
    dial: Option<Arc<Dial>>,
    pub(crate) options: Options,
    /// Callbacks that have not been called.
    callbacks: Arc<AtomicUsize>,
    /// Whether the last handle is gone.
    abandoned: AtomicBool,
    /// Whether there is a pump. Changed only under the state's lock.
    pump_runs: AtomicBool,
}

/// Keeps the connection alive. When the last clone of its `Arc` is dropped the client leaves.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Shared {
    pub(crate) fn new(
        state: State,
        dial: Option<Dial>,
        options: Options,
        tokens: Tokens,
        driver: Arc<dyn Driver>,
    ) -> Arc<Self> {
        Arc::new(Self {
            mailbox: state.mailbox(),
            state: Mutex::new(state),
            handlers: Mutex::default(),
            dispatch: Dispatch::default(),
            status: StatusCell::default(),
            tokens,
            driver,
            dial: dial.map(Arc::new),
            options,
            callbacks: Arc::default(),
            abandoned: AtomicBool::new(false),
            pump_runs: AtomicBool::new(false),
        })
    }

    /// Runs `action` on the state, turns, and wakes whom that concerns.
    pub(crate) fn enter<R>(self: &Arc<Self>, action: impl FnOnce(&mut State, Instant) -> R) -> R {
        let result = self.enter_quietly(action);
        self.mailbox.wake_pump();
        result
    }

    /// As [`enter`](Self::enter), without waking the pump: the pump itself comes in here.
    fn enter_quietly<R>(self: &Arc<Self>, action: impl FnOnce(&mut State, Instant) -> R) -> R {
        let now = self.driver.now();
        let mut state = self.lock();
        let result = action(&mut state, now);
        // Settles what `action` has done, and sees that time has passed.
        state.turn(self, now);
        let wakers = state.take_wakers();
        let former = state.take_former_wakers();
        drop(state);
        drop(former);
        wakers.into_iter().for_each(Waker::wake);
        if self.dispatch.wants_runner() {
            self.start_runner();
        }
        result
    }

    /// The outcome of an operation, for its future.
    fn poll_operation(&self, op: OpId, waker: &Waker) -> Poll<Option<Outcome>> {
        let mut state = self.lock();
        let outcome = state.poll_operation(op, waker);
        let former = state.take_former_wakers();
        drop(state);
        drop(former);
        if let Poll::Ready(Some(Outcome::Failed(_))) = outcome {
            // It may have waited for this.
            self.mailbox.wake_pump();
        }
        outcome
    }

    /// A place for one more callback.
    fn callback_slot(&self) -> Result<CallbackSlot, Error> {
        CallbackSlot::take(&self.callbacks, self.options.config.limits.max_pending)
    }

    /// For [`poll_flushed`](Self::poll_flushed): one who waits for everything accepted so far; `None` where everything
    /// has its outcome.
    pub(crate) fn wait_flushed(&self) -> Option<Waiting<OpId>> {
        self.lock().waiters.wait_flushed()
    }

    /// Waits until everything up to the point has its outcome.
    pub(crate) fn poll_flushed(&self, waiting: &Waiting<OpId>, waker: &Waker) -> Poll<()> {
        waiting.register(waker);
        if !self.lock().waiters.is_flushed(waiting.point()) {
            return Poll::Pending;
        }
        waiting.forget();
        Poll::Ready(())
    }

    /// For [`poll_closed`](Self::poll_closed): one who waits.
    pub(crate) fn wait_closed(&self) -> Waiting {
        self.lock().wait_closed()
    }

    /// Waits until every connection that is to be closed is closed.
    pub(crate) fn poll_closed(&self, waiting: &Waiting, waker: &Waker) -> Poll<()> {
        waiting.register(waker);
        if !self.lock().is_closed() {
            return Poll::Pending;
        }
        waiting.forget();
        Poll::Ready(())
    }

    /// Whether this is called from inside one of our handlers.
    pub(crate) fn is_in_handler(&self) -> bool {
        dispatch::is_calling(self)
    }

    /// A timer, and the instant from which on handlers are not waited for.
    pub(crate) fn patience(&self) -> (Box<dyn Timer>, Instant) {
        (self.driver.timer(), self.driver.now() + self.options.drain_timeout)
    }

    /// Looks at the state without changing it.
    pub(crate) fn peek<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        look(&self.lock())
    }

    /// Asks the core something.
    pub(crate) fn ask<R>(&self, question: impl FnOnce(&ClientCore) -> R) -> R {
        self.peek(|state| question(&state.core))
    }

    /// Queues something for the runner, from outside the state's lock.
    pub(crate) fn push_job(self: &Arc<Self>, job: Job) {
        self.dispatch.push(job);
        if self.dispatch.wants_runner() {
            self.start_runner();
        }
    }

    /// Starts the runner unless it runs already or nothing here can run it.
    fn start_runner(self: &Arc<Self>) {
        if let Some(run) = self.dispatch.claim_runner(self) {
            let _ = self.driver.spawn(run);
        }
    }

    /// Whether nothing will happen any more.
    fn is_over(&self) -> bool {
        self.abandoned.load(Ordering::Acquire) && !self.pump_runs.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Handle {
    /// Issues a command whose outcome `waiter` waits for.
    pub(crate) fn command(
        &self,
        waiter: Waiter,
        command: impl FnOnce(&mut State, Instant) -> Result<OpId, Error>,
    ) -> Result<OpId, Error> {
        self.shared.enter(|state, now| {
            let op = command(state, now)?;
            state.waiters.insert(op, waiter);
            Ok(op)
        })
    }

    /// Starts connecting, and the pump if it does not run.
    pub(crate) fn connect(&self) -> Result<OpId, Error> {
        let mut start = false;
        let op = self.command(Waiter::Future(None), |state, now| {
            let op = state.connect(now)?;
            start = !self.shared.pump_runs.swap(true, Ordering::AcqRel);
            Ok(op)
        })?;
        if start {
            let pump = Pump::new(self.shared.clone());
            // Where it cannot run it is dropped, and its end is the outcome.
            self.shared.driver.spawn(Box::pin(pump));
        }
        Ok(op)
    }

    /// Starts to leave: accepted work is finished first.
    pub(crate) fn leave(&self, waiter: Waiter) -> OpId {
        self.shared.enter(|state, now| {
            let op = state.core.disconnect(now, Disconnect::Drain(self.shared.options.drain_timeout));
            state.waiters.insert(op, waiter);
            op
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.abandoned.store(true, Ordering::Release);
        self.shared.mailbox.post(Mail::Leave);
        self.shared.dispatch.wake();
        self.shared.status.close();
        let patience = self.shared.options.drain_timeout.saturating_mul(2);
        self.shared.driver.join(patience.saturating_add(connection::LINGER));
    }
}

/// A panic under one of our locks is a bug of ours, and no reason to take the application down with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}
