//! Notes from destructors, which must not take the state's lock: they may run while it is held.

use std::{mem, sync::Mutex, task::Waker};

use nolag_core::{Message, OpId};

use super::lock;

/// What a destructor has to say.
#[derive(Debug)]
pub(crate) enum Mail {
    /// A message was processed.
    Ack(Message),
    /// Nobody waits for an operation any more.
    Abandon(OpId),
    /// The last handle is gone.
    Leave,
}

/// The notes, and the way to wake the one who reads them.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    notes: Mutex<Vec<Mail>>,
    pump: Mutex<Option<Waker>>,
}

impl Mailbox {
    pub(crate) fn post(&self, note: Mail) {
        lock(&self.notes).push(note);
        self.wake_pump();
    }

    pub(super) fn take(&self) -> Vec<Mail> {
        mem::take(&mut *lock(&self.notes))
    }

    pub(super) fn register_pump(&self, waker: &Waker) {
        let mut pump = lock(&self.pump);
        if !pump.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *pump = Some(waker.clone());
        }
    }

    pub(super) fn wake_pump(&self) {
        let waker = lock(&self.pump).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
