//! A received message on its way to everybody who listens, and its acknowledgement.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use nolag_core::Message;

use super::{Mail, Mailbox};

/// A message that streams and handlers share.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) message: Message,
    ack: Option<Arc<Mailbox>>,
    /// Set by a panic, and by whoever took over the acknowledgement.
    keep_unacknowledged: AtomicBool,
}

/// The right to acknowledge one message.
#[derive(Debug)]
pub(crate) struct Ack {
    mailbox: Arc<Mailbox>,
    msg_id: Box<str>,
}

impl Delivery {
    pub(super) fn new(message: Message, mailbox: &Arc<Mailbox>) -> Self {
        let ack = message.meta.ack_id().map(|_| mailbox.clone());
        Self { message, ack, keep_unacknowledged: AtomicBool::new(false) }
    }

    /// What it counts for where memory is bounded.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.message.payload.packed_len()
    }

    pub(crate) fn keep_unacknowledged(&self) {
        self.keep_unacknowledged.store(true, Ordering::Relaxed);
    }

    pub(crate) fn ack_manually(&self) -> Option<Ack> {
        let (mailbox, msg_id) = (self.ack.as_ref()?, self.message.meta.ack_id()?);
        self.keep_unacknowledged();
        Some(Ack { mailbox: mailbox.clone(), msg_id: msg_id.into() })
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        // `Relaxed` suffices: the last owner has seen what all others did before they let go.
        if *self.keep_unacknowledged.get_mut() {
            return;
        }
        if let (Some(mailbox), Some(msg_id)) = (&self.ack, self.message.meta.ack_id()) {
            mailbox.post(Mail::Ack(msg_id.into()));
        }
    }
}

impl Ack {
    pub(crate) fn send(self) {
        self.mailbox.post(Mail::Ack(self.msg_id));
    }
}
