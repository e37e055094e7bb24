//! Futures of coming and going.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use nolag_core::{Error, Instant, OpId, Outcome};

use crate::{
    engine::{Command, Handle, Operation, Waiter, Waiting},
    runtime::Timer,
};

/// The future of [`Client::connect`](crate::Client::connect).
#[must_use = "futures do nothing unless awaited"]
pub struct ConnectFuture(Command<()>);

impl ConnectFuture {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self(Command::Ready(handle, ()))
    }
}

impl Future for ConnectFuture {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(self.0.poll_with(cx, |handle, ()| handle.connect()));
        Poll::Ready(outcome.and_then(|outcome| outcome.error().map_or(Ok(()), Err)))
    }
}

/// The future of [`Client::close`](crate::Client::close).
#[must_use = "futures do nothing unless awaited"]
pub struct CloseFuture {
    handle: Arc<Handle>,
    stage: CloseStage,
}

enum CloseStage {
    Ready,
    Leaving(Operation),
    /// The client is idle; its connection may not have said goodbye yet, and handlers may not have heard of it all.
    Closing(Closing),
    Closed,
}

struct Closing {
    timer: Box<dyn Timer>,
    /// From then on handlers are not waited for.
    patience: Instant,
    /// For the connection, and for the handlers.
    closed: Waiting,
    idle: Waiting,
}

impl CloseFuture {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self { handle, stage: CloseStage::Ready }
    }
}

impl Future for CloseFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Self { handle, stage } = &mut *self;
            match stage {
                CloseStage::Ready => {
                    let op = handle.leave(Waiter::Future(None));
                    *stage = CloseStage::Leaving(Operation::new(handle.clone(), op));
                }
                CloseStage::Leaving(operation) => {
                    let _: Outcome = ready!(operation.poll(cx));
                    let shared = &handle.shared;
                    let (timer, patience) = shared.patience();
                    let (closed, idle) = (shared.wait_closed(), shared.dispatch.wait_idle());
                    *stage = CloseStage::Closing(Closing { timer, patience, closed, idle });
                }
                CloseStage::Closing(closing) => {
                    let shared = &handle.shared;
                    let closed = shared.poll_closed(&closing.closed, cx.waker()).is_ready();
                    // A handler that waits here would wait for its own end.
                    let handled = shared.is_in_handler()
                        || shared.dispatch.poll_idle(&closing.idle, cx.waker()).is_ready()
                        || closing.timer.poll_at(closing.patience, cx).is_ready();
                    if !closed || !handled {
                        return Poll::Pending;
                    }
                    *stage = CloseStage::Closed;
                }
                CloseStage::Closed => return Poll::Ready(()),
            }
        }
    }
}

/// The future of [`Client::flush`](crate::Client::flush).
#[must_use = "futures do nothing unless awaited"]
pub struct FlushFuture {
    handle: Arc<Handle>,
    /// What it waits for, once polled.
    waiting: Option<Waiting<OpId>>,
}

impl FlushFuture {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self { handle, waiting: None }
    }
}

impl Future for FlushFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { handle, waiting } = &mut *self;
        if waiting.is_none() {
            *waiting = handle.shared.wait_flushed();
        }
        match waiting {
            Some(waiting) => handle.shared.poll_flushed(waiting, cx.waker()),
            None => Poll::Ready(()),
        }
    }
}

macro_rules! opaque_debug {
    ($($name:ident),*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

opaque_debug!(ConnectFuture, CloseFuture, FlushFuture);
pub(crate) use opaque_debug;
