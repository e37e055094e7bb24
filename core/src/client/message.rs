//! A received message: a frame, and where in it the texts and the data stand.

use core::fmt;

use bytes::Bytes;

use super::SubscriptionId;
use crate::{chunk::Chunk, payload::Payload, wire};

/// Frames of this size and more are kept as they came; smaller ones are copied, so that a message which is kept does not
/// pin a large read buffer.
const LARGE: usize = 4096;

/// A message for the application. Cheap to clone.
///
/// Its texts and its data are read where they stand in the frame, so nothing is copied or allocated for them.
#[derive(Clone)]
pub struct Message {
    payload: Payload,
    pub(super) subscription: Option<SubscriptionId>,
    topic: Span,
    msg_id: Span,
    filter: Span,
    from: Span,
    from_type: Span,
    requires_ack: bool,
    is_replay: bool,
}

impl Message {
    /// The topic as the broker wrote it: the pattern as subscribed.
    pub fn topic(&self) -> &str {
        self.text(self.topic).unwrap_or_default()
    }

    /// Whose it is; `None` when its topic is not subscribed here, for example in the moments after an unsubscribe.
    pub fn subscription(&self) -> Option<SubscriptionId> {
        self.subscription
    }

    /// The data.
    pub fn payload(&self) -> &Payload {
        &self.payload
    }

    /// Takes the data out.
    pub fn into_payload(self) -> Payload {
        self.payload
    }

    /// Names the message on brokers that record messages.
    pub fn msg_id(&self) -> Option<&str> {
        self.text(self.msg_id)
    }

    /// The name to [`ack`](super::ClientCore::ack), if the broker wants to hear that the message was processed.
    pub fn ack_id(&self) -> Option<&str> {
        self.msg_id().filter(|_| self.requires_ack)
    }

    /// The filter it was published with.
    pub fn filter(&self) -> Option<&str> {
        self.text(self.filter)
    }

    /// Whether it was missed earlier and comes again.
    pub fn is_replay(&self) -> bool {
        self.is_replay
    }

    /// Who sent it, on brokers that say so.
    pub fn sender(&self) -> Option<&str> {
        self.text(self.from)
    }

    /// `actor` or `server`, on brokers that say so.
    pub fn sender_type(&self) -> Option<&str> {
        self.text(self.from_type)
    }

    /// What it keeps alive, in bytes.
    pub(super) fn retained(&self) -> usize {
        size_of::<Self>() + self.payload.frame().len()
    }

    fn text(&self, span: Span) -> Option<&str> {
        // Nothing of a frame stands at its very start.
        let bytes = self.payload.frame().get(span.start as usize..span.end as usize);
        bytes.filter(|_| span.start > 0).and_then(|bytes| core::str::from_utf8(bytes).ok())
    }
}

/// Two messages that say the same, wherever it stands in their frames.
impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        let texts =
            |message: &Self| [message.topic, message.msg_id, message.filter, message.from, message.from_type];
        let same_texts = texts(self)
            .into_iter()
            .zip(texts(other))
            .all(|(ours, theirs)| self.text(ours) == other.text(theirs));
        same_texts
            && self.payload == other.payload
            && self.subscription == other.subscription
            && (self.requires_ack, self.is_replay) == (other.requires_ack, other.is_replay)
    }
}

impl Eq for Message {}

/// Shows kind and size of the data, never the data itself.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("topic", &self.topic())
            .field("subscription", &self.subscription)
            .field("payload", &self.payload)
            .field("msg_id", &self.msg_id())
            .field("requires_ack", &self.requires_ack)
            .field("filter", &self.filter())
            .field("is_replay", &self.is_replay)
            .field("sender", &self.sender())
            .field("sender_type", &self.sender_type())
            .finish()
    }
}

/// Where a text stands in a frame; at its start, where none can: nowhere.
#[derive(Clone, Copy, Default)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn of(frame: &[u8], text: Option<&str>) -> Self {
        let place = text.and_then(|text| wire::place_in(frame, text.as_bytes()));
        let place = place.and_then(|place| Some((place.start.try_into().ok()?, place.end.try_into().ok()?)));
        place.map(|(start, end)| Self { start, end }).unwrap_or_default()
    }
}

impl Message {
    /// The message that `parts` of `frame` make.
    pub(super) fn new(
        chunk: &mut Chunk,
        frame: &Bytes,
        parts: &wire::Message<'_>,
        subscription: Option<SubscriptionId>,
    ) -> Self {
        let kept = if frame.len() >= LARGE { frame.clone() } else { chunk.copy(frame) };
        let text = |text| Span::of(frame, text);
        Self {
            // What does not stand in the frame is the `nil` of one without data.
            payload: Payload::within(kept, wire::place_in(frame, parts.data.as_bytes()).unwrap_or_default()),
            subscription,
            topic: text(parts.topic.as_str()),
            msg_id: text(parts.msg_id),
            // Old brokers write "#" where there is no filter.
            filter: text(parts.filter.filter(|filter| *filter != "#")),
            from: text(parts.from),
            from_type: text(parts.from_type),
            requires_ack: parts.requires_ack == Some(true) && parts.msg_id.is_some(),
            is_replay: parts.is_replay == Some(true),
        }
    }
}
