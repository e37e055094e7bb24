//! The queue of everything that handlers must be told, in order, and the runner that calls them one after the other.

use std::{
    cell::Cell,
    collections::VecDeque,
    future::poll_fn,
    mem, ptr,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use nolag_core::{LobbyChange, Payload, PresenceChange};

use super::{
    Shared,
    caught::{Panic, catch, dispose, message},
    handlers::{Entry, List},
    lane, lock,
    wakers::{Waiting, Wakers},
};
use crate::{
    event::{Disconnected, ErrorEvent, Hydration, Reconnected, ReplayEvent, Restored},
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

/// Events of presence, lobbies, hydration and replay that may wait for handlers; so could these.
const MAX_EVENTS: usize = 4096;

/// Bytes of payload that those events may hold together.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// Jobs done before the runner lets other tasks have the thread.
const JOBS_PER_TURN: u32 = 64;

/// One thing to tell handlers.
pub(crate) enum Job {
    Message(Message),
    Connect,
    Reconnect(Reconnected),
    Disconnect(Disconnected),
    Error(Arc<ErrorEvent>),
    Hydration(Hydration),
    Lobby(LobbyChange),
    Presence(PresenceChange),
    Replay(ReplayEvent),
    Restored(Restored),
    Call(Box<dyn FnOnce() + Send>),
}

/// The queue. It holds messages back and drops other events of brokers beyond its bounds; outcomes and connection
/// events always get in.
#[derive(Default)]
pub(crate) struct Dispatch {
    inner: Mutex<Inner>,
    /// Who waits until everything is done.
    idle: Wakers,
}

#[derive(Default)]
struct Inner {
    queue: VecDeque<Job>,
    messages: Load,
    errors: Load,
    events: Load,
    /// A message waits for room.
    blocked: bool,
    running: bool,
    /// A job was taken out and is not done.
    busy: bool,
    /// Handlers with a task of their own that have something to do.
    lanes: usize,
    waker: Option<Waker>,
}

/// How much of one kind waits.
#[derive(Default)]
struct Load {
    count: usize,
    bytes: usize,
    dropped: u64,
}

impl Load {
    fn is_below(&self, count: usize, bytes: usize) -> bool {
        self.count < count && self.bytes < bytes
    }
}

impl Inner {
    /// Whether there is nothing to do, or nobody who does it.
    fn is_idle(&self) -> bool {
        let done = self.queue.is_empty() && !self.busy;
        (done || !self.running) && self.lanes == 0
    }

    /// The bounds that a job is subject to, and what it weighs there.
    fn load_of(&mut self, job: &Job) -> Option<(&mut Load, usize)> {
        let size = |payload: Option<&Payload>| payload.map_or(0, Payload::packed_len);
        match job {
            Job::Message(message) => Some((&mut self.messages, message.bytes())),
            Job::Error(_) => Some((&mut self.errors, 0)),
            Job::Hydration(event) => Some((&mut self.events, size(Some(&event.data)))),
            Job::Lobby(event) => Some((&mut self.events, size(Some(&event.data)))),
            Job::Presence(event) => Some((&mut self.events, size(event.presence.as_ref()))),
            Job::Replay(_) => Some((&mut self.events, 0)),
            Job::Connect | Job::Reconnect(_) | Job::Restored(_) | Job::Disconnect(_) | Job::Call(_) => None,
        }
    }

    /// Whether a job would be one too many. Messages are asked about before, by [`Dispatch::has_room`].
    fn refuses(&self, job: &Job) -> bool {
        match job {
            Job::Error(_) => self.errors.count >= MAX_ERRORS,
            Job::Hydration(_) | Job::Lobby(_) | Job::Presence(_) | Job::Replay(_) => {
                !self.events.is_below(MAX_EVENTS, MAX_EVENT_BYTES)
            }
            _ => false,
        }
    }
}

impl Dispatch {
    pub(super) fn push(&self, job: Job) {
        let mut inner = lock(&self.inner);
        let refused = inner.refuses(&job);
        if let Some((load, bytes)) = inner.load_of(&job) {
            if refused {
                load.dropped += 1;
                return;
            }
            load.count += 1;
            load.bytes += bytes;
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
        let mut inner = lock(&self.inner);
        let room = inner.messages.is_below(MAX_MESSAGES, MAX_BYTES);
        inner.blocked = !room;
        room
    }

    pub(super) fn wants_runner(&self) -> bool {
        let inner = lock(&self.inner);
        !inner.running && !inner.queue.is_empty()
    }

    pub(super) fn wake(&self) {
        let waker = lock(&self.inner).waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Error events that were dropped because handlers were too slow.
    pub(crate) fn errors_dropped(&self) -> u64 {
        lock(&self.inner).errors.dropped
    }

    /// Other events that were dropped because handlers were too slow.
    pub(crate) fn events_dropped(&self) -> u64 {
        lock(&self.inner).events.dropped
    }

    /// For [`poll_idle`](Self::poll_idle): one who waits.
    pub(crate) fn wait_idle(&self) -> Waiting {
        self.idle.wait(())
    }

    /// Waits until everything in the queue is done. `Ready` where nobody does it.
    pub(crate) fn poll_idle(&self, waiting: &Waiting, waker: &Waker) -> Poll<()> {
        waiting.register(waker);
        if !lock(&self.inner).is_idle() {
            return Poll::Pending;
        }
        waiting.forget();
        Poll::Ready(())
    }

    pub(super) fn lane_begins(&self) {
        lock(&self.inner).lanes += 1;
    }

    pub(super) fn lane_ends(&self) {
        lock(&self.inner).lanes -= 1;
        self.idle.wake();
    }

    /// The runner, unless there is one.
    pub(super) fn claim_runner(&self, shared: &Arc<Shared>) -> Option<BoxFuture<()>> {
        let mut inner = lock(&self.inner);
        if inner.running {
            return None;
        }
        inner.running = true;
        let claim = Claim { shared: shared.clone(), held: true };
        Some(Box::pin(run(claim)))
    }

    fn poll_next(&self, claim: &mut Claim, cx: &mut Context<'_>) -> Poll<Option<Job>> {
        let mut inner = lock(&self.inner);
        let Some(job) = inner.queue.pop_front() else {
            inner.busy = false;
            let over = claim.shared.is_over();
            if over {
                inner.running = false;
                claim.held = false;
            } else {
                inner.waker = Some(cx.waker().clone());
            }
            drop(inner);
            self.idle.wake();
            return if over { Poll::Ready(None) } else { Poll::Pending };
        };
        inner.busy = true;
        if let Some((load, bytes)) = inner.load_of(&job) {
            load.count -= 1;
            load.bytes -= bytes;
        }
        let (count, bytes) = (inner.messages.count, inner.messages.bytes);
        let unblocked = inner.blocked && count <= MAX_MESSAGES / 2 && bytes <= MAX_BYTES / 2;
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
            let dispatch = &self.shared.dispatch;
            let mut inner = lock(&dispatch.inner);
            (inner.running, inner.busy) = (false, false);
            drop(inner);
            dispatch.idle.wake();
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
        Job::Message(message) => {
            let (topic, any) = {
                let handlers = lock(&shared.handlers);
                (handlers.topics.get(message.topic()).cloned(), handlers.any.clone())
            };
            if let Some(list) = topic {
                call_all(shared, list, &message).await;
            }
            call_all(shared, any, &message).await;
        }
        Job::Connect => {
            let list = lock(&shared.handlers).connect.clone();
            call_all(shared, list, &()).await;
        }
        Job::Reconnect(event) => {
            let list = lock(&shared.handlers).reconnect.clone();
            call_all(shared, list, &event).await;
        }
        Job::Disconnect(event) => {
            let list = lock(&shared.handlers).disconnect.clone();
            call_all(shared, list, &event).await;
        }
        Job::Error(event) => {
            trace::debug!(error = %event, "error event");
            let list = lock(&shared.handlers).error.clone();
            // Reporting a panic here would call the same handler again.
            call_each(shared, list, &*event, |_, panic| dispose(panic)).await;
        }
        Job::Hydration(event) => {
            let list = lock(&shared.handlers).hydration.clone();
            call_all(shared, list, &event).await;
        }
        Job::Lobby(event) => {
            let list = lock(&shared.handlers).lobby.clone();
            call_all(shared, list, &event).await;
        }
        Job::Presence(event) => {
            let list = lock(&shared.handlers).presence.clone();
            call_all(shared, list, &event).await;
        }
        Job::Replay(event) => {
            let list = lock(&shared.handlers).replay.clone();
            call_all(shared, list, &event).await;
        }
        Job::Restored(event) => {
            let list = lock(&shared.handlers).restored.clone();
            call_all(shared, list, &event).await;
        }
        Job::Call(callback) => {
            if let Err(panic) = calling(shared, callback) {
                report_panic(shared, panic);
            }
        }
    }
}

async fn call_all<E: Clone + Send + 'static>(shared: &Arc<Shared>, list: List<E>, event: &E) {
    call_each(shared, list, event, report_panic).await;
}

async fn call_each<E: Clone + Send + 'static>(
    shared: &Arc<Shared>,
    list: List<E>,
    event: &E,
    on_panic: OnPanic,
) {
    for entry in list.iter() {
        if let Some(lane) = &entry.lane {
            lane::push(shared, entry, lane, event.clone(), on_panic).await;
        } else if let Err(panic) = run_handler(shared, entry, event.clone()).await {
            on_panic(shared, panic);
        }
    }
    drop_handlers(shared, list, on_panic);
}

/// What was removed meanwhile goes here, and its destructors are the application's.
pub(super) fn drop_handlers<T>(shared: &Arc<Shared>, handlers: T, on_panic: OnPanic) {
    if let Err(panic) = calling(shared, || drop(handlers)) {
        on_panic(shared, panic);
    }
}

/// What becomes of a handler's panic.
pub(super) type OnPanic = fn(&Arc<Shared>, Panic);

/// Calls a handler, unless it was removed, and sees it to its end.
pub(super) async fn run_handler<E>(shared: &Arc<Shared>, entry: &Entry<E>, event: E) -> Result<(), Panic> {
    if !entry.is_live() {
        return Ok(());
    }
    let called = calling(shared, || {
        let mut call = lock(&entry.call);
        (*call)(event)
    });
    finish(shared, called?).await
}

async fn finish(shared: &Arc<Shared>, work: Work) -> Result<(), Panic> {
    let Some(mut work) = work else { return Ok(()) };
    let done = poll_fn(|cx| match calling(shared, || work.as_mut().poll(cx)) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await;
    // Its destructor is the application's as well.
    let dropped = calling(shared, || drop(work));
    match (done, dropped) {
        (Err(panic), Err(second)) => {
            dispose(second);
            Err(panic)
        }
        (done, dropped) => done.and(dropped),
    }
}

thread_local! {
    /// Whose handler this thread is in.
    static CALLING: Cell<*const Shared> = const { Cell::new(ptr::null()) };
}

/// Runs code of the application, so that what it calls can tell that a handler called it.
pub(super) fn calling<R>(shared: &Shared, call: impl FnOnce() -> R) -> Result<R, Panic> {
    let outer = CALLING.replace(shared);
    let called = catch(call);
    CALLING.set(outer);
    called
}

/// Whether this thread is in a handler of this client.
pub(super) fn is_calling(shared: &Shared) -> bool {
    ptr::eq(CALLING.get(), shared)
}

pub(super) fn report_panic(shared: &Arc<Shared>, panic: Panic) {
    let message = message(panic);
    shared.push_job(Job::Error(Arc::new(ErrorEvent::HandlerPanicked { message })));
}

/// Lets other tasks have the thread once.
pub(super) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
