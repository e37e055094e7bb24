//! The acknowledgement of a received message.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{Mail, Mailbox};

/// What the clones of a message that is to be acknowledged share: the last one to go tells that it was processed.
#[derive(Debug)]
pub(crate) struct Receipt {
    mailbox: Arc<Mailbox>,
    message: nolag_core::Message,
    /// Set by a panic, and by whoever took over the acknowledgement.
    keep_unacknowledged: AtomicBool,
}

/// The right to acknowledge one message.
#[derive(Debug)]
pub(crate) struct Ack {
    mailbox: Arc<Mailbox>,
    message: nolag_core::Message,
}

impl Receipt {
    /// `None` when the broker does not want to hear about this message.
    pub(super) fn of(message: &nolag_core::Message, mailbox: &Arc<Mailbox>) -> Option<Arc<Self>> {
        message.ack_id()?;
        let (mailbox, message) = (mailbox.clone(), message.clone());
        Some(Arc::new(Self { mailbox, message, keep_unacknowledged: AtomicBool::new(false) }))
    }

    pub(crate) fn keep_unacknowledged(&self) {
        self.keep_unacknowledged.store(true, Ordering::Relaxed);
    }

    pub(crate) fn ack_manually(&self) -> Ack {
        self.keep_unacknowledged();
        Ack { mailbox: self.mailbox.clone(), message: self.message.clone() }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        // `Relaxed` suffices: the last owner has seen what all others did before they let go.
        if !*self.keep_unacknowledged.get_mut() {
            self.mailbox.post(Mail::Ack(self.message.clone()));
        }
    }
}

impl Ack {
    pub(crate) fn send(self) {
        self.mailbox.post(Mail::Ack(self.message));
    }
}
