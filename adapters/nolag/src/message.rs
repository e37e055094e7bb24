//! Received messages.

use std::{fmt, ops::Deref, sync::Arc};

use nolag_core::{DecodeError, Payload};
use serde::de::DeserializeOwned;

use crate::engine::{Ack, Receipt};

/// A received message. Cheap to clone.
///
/// # Acknowledgement
/// Some brokers record messages and want to hear that they were processed. The client says so when the last clone of
/// the message is dropped, so a handler that returns or a loop that goes on has acknowledged it. A message dropped by
/// a panic is not acknowledged. [`ack_manually`](Self::ack_manually) takes the matter into your own hands.
#[doc(alias = "MessageMeta")]
#[derive(Clone)]
pub struct Message {
    message: nolag_core::Message,
    receipt: Option<Arc<Receipt>>,
}

impl Message {
    pub(crate) fn new(message: nolag_core::Message, receipt: Option<Arc<Receipt>>) -> Self {
        Self { message, receipt }
    }

    /// What it counts for where memory is bounded, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.payload().packed_len()
    }

    /// The topic as subscribed: a pattern if the subscription has wildcards.
    pub fn topic(&self) -> &str {
        self.message.topic()
    }

    /// The data as a type of yours. Decoded anew by each call; structs are read from maps by field name.
    ///
    /// # Errors
    /// [`DecodeError`] when the data is not of that type.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        self.payload().decode()
    }

    /// The data as it came.
    pub fn payload(&self) -> &Payload {
        self.message.payload()
    }

    /// The filter with which it was sent.
    pub fn filter(&self) -> Option<&str> {
        self.message.filter()
    }

    /// The id under which a broker recorded it.
    pub fn msg_id(&self) -> Option<&str> {
        self.message.msg_id()
    }

    /// Who sent it, on brokers that say so.
    pub fn sender(&self) -> Option<&str> {
        self.message.sender()
    }

    /// `actor`, or `server` for what came over the REST API; on brokers that say so.
    pub fn sender_type(&self) -> Option<&str> {
        self.message.sender_type()
    }

    /// Whether it was missed earlier and comes again.
    pub fn is_replay(&self) -> bool {
        self.message.is_replay()
    }

    /// Whether the broker wants to hear that it was processed.
    pub fn requires_ack(&self) -> bool {
        self.receipt.is_some()
    }

    /// Dropping this message and its clones acknowledges nothing from now on; the returned handle does, once told to.
    ///
    /// `None` when the broker does not want to hear about this message.
    pub fn ack_manually(&self) -> Option<AckHandle> {
        self.receipt.as_ref().map(|receipt| AckHandle(receipt.ack_manually()))
    }
}

/// Shows topic, kind and size of the data, never the data itself.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.as_ref().filter(|_| std::thread::panicking()) {
            receipt.keep_unacknowledged();
        }
    }
}

/// Acknowledges one message, see [`Message::ack_manually`]. Dropping it acknowledges nothing.
#[must_use = "dropping it leaves the message unacknowledged"]
#[derive(Debug)]
pub struct AckHandle(Ack);

impl AckHandle {
    /// Tells the broker that the message was processed.
    pub fn ack(self) {
        self.0.send();
    }
}

/// A message whose data was decoded. Everything else is that of the [`Message`] to which it derefs.
#[derive(Debug, Clone)]
pub struct TypedMessage<T> {
    message: Message,
    data: T,
}

impl<T: DeserializeOwned> TypedMessage<T> {
    /// Decodes the message's data.
    ///
    /// # Errors
    /// [`DecodeError`] when the data is not of that type.
    pub fn decode(message: Message) -> Result<Self, DecodeError> {
        let data = message.data()?;
        Ok(Self { message, data })
    }
}

impl<T> TypedMessage<T> {
    /// The data.
    pub fn data(&self) -> &T {
        &self.data
    }

    /// Takes the data out.
    pub fn into_data(self) -> T {
        self.data
    }
}

impl<T> Deref for TypedMessage<T> {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.message
    }
}
