//! The status for those who watch it.

use std::{
    collections::BTreeMap,
    mem,
    sync::Mutex,
    task::{Poll, Waker},
};

use nolag_core::Status;

use super::lock;

/// The present status, how often it has changed, and who wants to know.
#[derive(Debug, Default)]
pub(crate) struct StatusCell(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    status: Status,
    version: u64,
    closed: bool,
    watches: BTreeMap<u64, Option<Waker>>,
    next_watch: u64,
}

impl StatusCell {
    /// Takes in the status; returns whom to wake.
    pub(super) fn set(&self, status: Status) -> Vec<Waker> {
        let mut inner = lock(&self.0);
        // Who watched was told that there is no more.
        if inner.status == status || inner.closed {
            return Vec::new();
        }
        inner.status = status;
        inner.version += 1;
        inner.take_wakers()
    }

    /// No more changes: the last handle is gone.
    pub(super) fn close(&self) {
        let mut inner = lock(&self.0);
        inner.closed = true;
        let wakers = inner.take_wakers();
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn get(&self) -> Status {
        lock(&self.0).status
    }

    pub(crate) fn add_watch(&self) -> u64 {
        let mut inner = lock(&self.0);
        let id = inner.next_watch;
        inner.next_watch += 1;
        inner.watches.insert(id, None);
        id
    }

    pub(crate) fn remove_watch(&self, id: u64) {
        // A waker is the application's, and may call the client when it is dropped.
        let former = lock(&self.0).watches.remove(&id);
        drop(former);
    }

    pub(crate) fn poll_watch(&self, id: u64, seen: &mut Option<u64>, waker: &Waker) -> Poll<Option<Status>> {
        let mut inner = lock(&self.0);
        if *seen != Some(inner.version) {
            *seen = Some(inner.version);
            return Poll::Ready(Some(inner.status));
        }
        if inner.closed {
            return Poll::Ready(None);
        }
        let former = inner.watches.insert(id, Some(waker.clone()));
        drop(inner);
        drop(former);
        Poll::Pending
    }
}

impl Inner {
    fn take_wakers(&mut self) -> Vec<Waker> {
        self.watches.values_mut().filter_map(mem::take).collect()
    }
}
