//! The queue of everything that handlers must be told, in order, and the runner that calls them one after the other.

use std::{
    any::Any,
    collections::VecDeque,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use super::{
    Delivery, Shared,
    handlers::{Entry, List},
    lock,
};
use crate::{
    event::{Disconnected, ErrorEvent, Reconnected},
    handler::Work,
    message::Message,
    runtime::BoxFuture,
    trace,
};

/// Messages that may wait for handlers before the client stops taking more from the core.
const MAX_MESSAGES: usize = 256;

/// Bytes that those messages may hold together; a single message may be larger.
const MAX_BYTES: usize = 4 << 20;

/// Error events that may wait for handlers; a broker could send them without end.
const MAX_ERRORS: usize = 1024;

/// Jobs done before the runner lets other tasks have the thread.
const JOBS_PER_TURN: u32 = 64;

/// One thing to tell handlers.
pub(crate) enum Job {
    Message(Arc<Delivery>),
    Connect,
    Reconnect(Reconnected),
    Disconnect(Disconnected),
    Error(Arc<ErrorEvent>),
    Call(Box<dyn FnOnce() + Send>),
}

/// The queue. Only messages are subject to its bounds: outcomes and connection events always get in.
#[derive(Default)]
pub(crate) struct Dispatch(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    queue: VecDeque<Job>,
    messages: usize,
    bytes: usize,
    errors: usize,
    errors_dropped: u64,
    /// A message waits for room.
    blocked: bool,
    running: bool,
    waker: Option<Waker>,
}

impl Dispatch {
    pub(super) fn push(&self, job: Job) {
        let mut inner = lock(&self.0);
        match &job {
            Job::Message(delivery) => {
                inner.messages += 1;
                inner.bytes += delivery.bytes();
            }
            Job::Error(_) if inner.errors >= MAX_ERRORS => {
                inner.errors_dropped += 1;
                return;
            }
            Job::Error(_) => inner.errors += 1,
            Job::Connect | Job::Reconnect(_) | Job::Disconnect(_) | Job::Call(_) => {}
        }
        inner.queue.push_back(job);
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether one more message fits; if not, the runner will turn the state once there is room.
    pub(super) fn has_room(&self) -> bool {
        let mut inner = lock(&self.0);
        let room = inner.messages < MAX_MESSAGES && inner.bytes < MAX_BYTES;
        inner.blocked = !room;
        room
    }

    pub(super) fn wants_runner(&self) -> bool {
        let inner = lock(&self.0);
        !inner.running && !inner.queue.is_empty()
    }

    pub(super) fn wake(&self) {
        let waker = lock(&self.0).waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Error events that were dropped because handlers were too slow.
    pub(crate) fn errors_dropped(&self) -> u64 {
        lock(&self.0).errors_dropped
    }

    /// The runner, unless there is one.
    pub(super) fn claim_runner(&self, shared: &Arc<Shared>) -> Option<BoxFuture<()>> {
        let mut inner = lock(&self.0);
        if inner.running {
            return None;
        }
        inner.running = true;
        let claim = Claim { shared: shared.clone(), held: true };
        Some(Box::pin(run(claim)))
    }

    fn poll_next(&self, claim: &mut Claim, cx: &mut Context<'_>) -> Poll<Option<Job>> {
        let mut inner = lock(&self.0);
        let Some(job) = inner.queue.pop_front() else {
            if claim.shared.is_over() {
                inner.running = false;
                claim.held = false;
                return Poll::Ready(None);
            }
            inner.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        match &job {
            Job::Message(delivery) => {
                inner.messages -= 1;
                inner.bytes -= delivery.bytes();
            }
            Job::Error(_) => inner.errors -= 1,
            Job::Connect | Job::Reconnect(_) | Job::Disconnect(_) | Job::Call(_) => {}
        }
        let unblocked = inner.blocked && inner.messages <= MAX_MESSAGES / 2 && inner.bytes <= MAX_BYTES / 2;
        if unblocked {
            inner.blocked = false;
        }
        drop(inner);
        if unblocked {
            claim.shared.enter(|_, _| ());
        }
        Poll::Ready(Some(job))
    }
}

/// The right to be the runner. Given back when the runner's task is dropped, as when a runtime shuts down.
struct Claim {
    shared: Arc<Shared>,
    held: bool,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.held {
            lock(&self.shared.dispatch.0).running = false;
        }
    }
}

async fn run(mut claim: Claim) {
    let shared = claim.shared.clone();
    let mut jobs = 0;
    while let Some(job) = poll_fn(|cx| shared.dispatch.poll_next(&mut claim, cx)).await {
        run_job(&shared, job).await;
        jobs += 1;
        if jobs % JOBS_PER_TURN == 0 {
            yield_now().await;
        }
    }
}

async fn run_job(shared: &Arc<Shared>, job: Job) {
    match job {
        Job::Message(delivery) => {
            let (topic, any) = {
                let handlers = lock(&shared.handlers);
                (handlers.topics.get(&delivery.message.topic).cloned(), handlers.any.clone())
            };
            let message = Message::new(delivery);
            if let Some(list) = topic {
                call_all(shared, &list, &message).await;
            }
            call_all(shared, &any, &message).await;
        }
        Job::Connect => {
            let list = lock(&shared.handlers).connect.clone();
            call_all(shared, &list, &()).await;
        }
        Job::Reconnect(event) => {
            let list = lock(&shared.handlers).reconnect.clone();
            call_all(shared, &list, &event).await;
        }
        Job::Disconnect(event) => {
            let list = lock(&shared.handlers).disconnect.clone();
            call_all(shared, &list, &event).await;
        }
        Job::Error(event) => {
            trace::debug!(error = %event, "error event");
            let list = lock(&shared.handlers).error.clone();
            for entry in list.iter() {
                // Reporting this panic would call the same handler again.
                let _ = call(entry, (*event).clone()).await;
            }
        }
        Job::Call(callback) => {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(callback)) {
                report_panic(shared, panic);
            }
        }
    }
}

async fn call_all<E: Clone>(shared: &Arc<Shared>, list: &List<E>, event: &E) {
    for entry in list.iter() {
        if let Err(panic) = call(entry, event.clone()).await {
            report_panic(shared, panic);
        }
    }
}

type Panic = Box<dyn Any + Send>;

async fn call<E>(entry: &Entry<E>, event: E) -> Result<(), Panic> {
    if !entry.is_live() {
        return Ok(());
    }
    let called = catch_unwind(AssertUnwindSafe(|| {
        let mut call = lock(&entry.call);
        (*call)(event)
    }));
    finish(called?).await
}

async fn finish(work: Work) -> Result<(), Panic> {
    let Some(mut work) = work else { return Ok(()) };
    poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

fn report_panic(shared: &Arc<Shared>, panic: Panic) {
    let message = match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().map_or_else(String::new, |text| (*text).to_owned()),
    };
    shared.push_job(Job::Error(Arc::new(ErrorEvent::HandlerPanicked { message })));
}

/// Lets other tasks have the thread once.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
