//! Futures of coming and going.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use nolag_core::{Error, Instant, OpId, Outcome};

use crate::{
    engine::{Command, Handle, Operation, Waiter},
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
    Closing(Box<dyn Timer>, Instant),
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
                    let (timer, patience) = handle.shared.patience();
                    *stage = CloseStage::Closing(timer, patience);
                }
                CloseStage::Closing(timer, patience) => {
                    let shared = &handle.shared;
                    let closed = shared.poll_closed(cx.waker()).is_ready();
                    // A handler that waits here would wait for its own end.
                    let handled = shared.is_in_handler()
                        || shared.dispatch.poll_idle(cx.waker()).is_ready()
                        || timer.poll_at(*patience, cx).is_ready();
                    return if closed && handled { Poll::Ready(()) } else { Poll::Pending };
                }
            }
        }
    }
}

/// The future of [`Client::flush`](crate::Client::flush).
#[must_use = "futures do nothing unless awaited"]
pub struct FlushFuture {
    handle: Arc<Handle>,
    /// The last operation to wait for, once polled.
    last: Option<OpId>,
}

impl FlushFuture {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self { handle, last: None }
    }
}

impl Future for FlushFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let shared = &self.handle.shared;
        let Some(last) = self.last.or_else(|| shared.latest_operation()) else { return Poll::Ready(()) };
        let flushed = shared.poll_flushed(last, cx.waker());
        self.last = Some(last);
        flushed
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
