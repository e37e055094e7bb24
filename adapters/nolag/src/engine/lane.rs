//! Handlers with a task of their own.

use std::{
    collections::VecDeque,
    future::poll_fn,
    mem,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
};

use super::{
    Shared,
    dispatch::{OnPanic, drop_handlers, run_handler, yield_now},
    handlers::Entry,
    lock,
};

/// Events that may wait for one handler before it holds back the others after all.
const DEPTH: usize = 64;

/// Events in a row before other tasks get the thread.
const EVENTS_PER_TURN: u32 = 64;

/// What waits for one handler.
pub(super) struct Lane<E>(Mutex<Inner<E>>);

struct Inner<E> {
    queue: VecDeque<E>,
    running: bool,
    /// Who waits for room.
    waker: Option<Waker>,
}

impl<E> Default for Lane<E> {
    fn default() -> Self {
        Self(Mutex::new(Inner { queue: VecDeque::new(), running: false, waker: None }))
    }
}

/// Queues an event for a handler, once there is room, and sees that its task runs.
pub(super) async fn push<E: Send + 'static>(
    shared: &Arc<Shared>,
    entry: &Arc<Entry<E>>,
    lane: &Arc<Lane<E>>,
    event: E,
    on_panic: OnPanic,
) {
    let mut event = Some(event);
    poll_fn(|cx| {
        let mut inner = lock(&lane.0);
        let full = inner.queue.len() >= DEPTH;
        if full {
            inner.waker = Some(cx.waker().clone());
        } else {
            inner.queue.extend(event.take());
        }
        let start = !mem::replace(&mut inner.running, true);
        drop(inner);
        if start {
            shared.dispatch.lane_begins();
            let claim = Claim { shared: shared.clone(), lane: lane.clone(), held: true };
            shared.driver.spawn(Box::pin(run(claim, entry.clone(), on_panic)));
        }
        if full { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

/// The right to be a lane's task. Given back when the task is dropped, as when a runtime shuts down.
struct Claim<E> {
    shared: Arc<Shared>,
    lane: Arc<Lane<E>>,
    held: bool,
}

impl<E> Claim<E> {
    /// The next event; without one the claim is given back.
    fn next(&mut self) -> Option<E> {
        let mut inner = lock(&self.lane.0);
        let event = inner.queue.pop_front();
        if event.is_none() {
            inner.running = false;
            self.held = false;
        }
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
        event
    }
}

impl<E> Drop for Claim<E> {
    fn drop(&mut self) {
        if self.held {
            lock(&self.lane.0).running = false;
        }
        self.shared.dispatch.lane_ends();
    }
}

async fn run<E>(mut claim: Claim<E>, entry: Arc<Entry<E>>, on_panic: OnPanic) {
    let shared = claim.shared.clone();
    let mut events = 0;
    while let Some(event) = claim.next() {
        if let Err(panic) = run_handler(&shared, &entry, event).await {
            on_panic(&shared, panic);
        }
        events += 1;
        if events % EVENTS_PER_TURN == 0 {
            yield_now().await;
        }
    }
    drop_handlers(&shared, entry, on_panic);
}
