//! The status for those who watch it.

use std::{
    sync::Mutex,
    task::{Poll, Waker},
};

use nolag_core::Status;

use super::{
    lock,
    wakers::{Waiting, Wakers},
};

/// The present status, how often it has changed, and who wants to know.
#[derive(Debug, Default)]
pub(crate) struct StatusCell {
    inner: Mutex<Inner>,
    watches: Wakers,
}

#[derive(Debug, Default)]
struct Inner {
    status: Status,
    version: u64,
    closed: bool,
}

impl StatusCell {
    /// Takes in the status; returns whom to wake.
    pub(super) fn set(&self, status: Status) -> impl Iterator<Item = Waker> + use<> {
        let mut inner = lock(&self.inner);
        // Who watched was told that there is no more.
        let changes = inner.status != status && !inner.closed;
        if changes {
            inner.status = status;
            inner.version += 1;
        }
        drop(inner);
        changes.then(|| self.watches.take()).into_iter().flatten()
    }

    /// No more changes: the last handle is gone.
    pub(super) fn close(&self) {
        lock(&self.inner).closed = true;
        self.watches.wake();
    }

    pub(crate) fn get(&self) -> Status {
        lock(&self.inner).status
    }

    /// For [`poll`](Self::poll): one who watches.
    pub(crate) fn watch(&self) -> Waiting {
        self.watches.wait(())
    }

    pub(crate) fn poll(
        &self,
        watch: &Waiting,
        seen: &mut Option<u64>,
        waker: &Waker,
    ) -> Poll<Option<Status>> {
        watch.register(waker);
        let inner = lock(&self.inner);
        let polled = if *seen != Some(inner.version) {
            *seen = Some(inner.version);
            Poll::Ready(Some(inner.status))
        } else if inner.closed {
            Poll::Ready(None)
        } else {
            Poll::Pending
        };
        drop(inner);
        if polled.is_ready() {
            watch.forget();
        }
        polled
    }
}
