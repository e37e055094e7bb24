//! Watching where the client stands.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use nolag_core::Status;

use crate::{
    engine::{Shared, Waiting},
    stream::Next,
};

/// Tells where the client stands, each time that changes. From [`Client::watch_status`](crate::Client::watch_status).
///
/// The first call tells the present status. A watcher that is slow sees the latest status, not each one between. It
/// does not keep the connection alive, and ends when the client is gone.
///
/// It is a [`Stream`] as well.
#[derive(Debug)]
pub struct StatusWatch {
    shared: Arc<Shared>,
    watch: Waiting,
    seen: Option<u64>,
}

impl StatusWatch {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let watch = shared.status.watch();
        Self { shared, watch, seen: None }
    }

    /// The status, once it has changed since the last call; `None` when the client is gone. Where it has changed more than
    /// once it is the latest one, which may be the one that was told last.
    ///
    /// Cancel-safe: a dropped call has told nothing.
    #[allow(clippy::should_implement_trait, reason = "it is awaited; only `iter` blocks")]
    pub fn next(&mut self) -> Next<'_, Self> {
        Next::new(self)
    }

    /// Waits until the client stands there, which it may do already; `false` when the client is gone before.
    ///
    /// Cancel-safe.
    pub fn wait_for(&mut self, status: Status) -> WaitFor<'_> {
        WaitFor { watch: self, status }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Status>> {
        self.shared.status.poll(&self.watch, &mut self.seen, cx.waker())
    }
}

/// The future of [`StatusWatch::wait_for`].
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct WaitFor<'a> {
    watch: &'a mut StatusWatch,
    status: Status,
}

impl Future for WaitFor<'_> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        // It may stand there since a call that has told it already.
        if self.watch.shared.status.get() == self.status {
            return Poll::Ready(true);
        }
        while let Some(current) = ready!(self.watch.poll(cx)) {
            if current == self.status {
                return Poll::Ready(true);
            }
        }
        Poll::Ready(false)
    }
}

impl Stream for StatusWatch {
    type Item = Status;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Status>> {
        self.poll(cx)
    }
}
