//! Streams of messages.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::Stream;
use nolag_core::DecodeError;
use serde::de::DeserializeOwned;

use crate::{
    engine::{Handle, StreamBuffer},
    message::{Message, TypedMessage},
};

/// The messages of one topic, from [`Subscribe::messages`](crate::Subscribe::messages). A [`Stream`].
///
/// It outlives lost connections. It ends (`None`) when the topic is unsubscribed, when the broker refuses to restore
/// the subscription, when the client disconnects, and when it gives up reconnecting; messages received before are
/// still handed out. Why it ended is told to [`on_error`](crate::Client::on_error) and
/// [`on_disconnect`](crate::Client::on_disconnect).
///
/// A reader that is too slow makes the client stop reading from the network, for all its topics, so that memory stays
/// bounded. After [`Options::max_pause`](crate::Options::max_pause) of that it reads on and drops the oldest waiting
/// messages; how many is told to [`on_error`](crate::Client::on_error) as [`Lagged`](crate::ErrorEvent::Lagged), not
/// here.
///
/// It keeps the connection alive like a [`Client`](crate::Client). Dropping it detaches it; the subscription stands
/// until it is unsubscribed.
pub struct Messages {
    handle: Arc<Handle>,
    buffer: Arc<StreamBuffer>,
    /// Taken out of the buffer, and next to be handed on.
    taken: VecDeque<Message>,
}

impl Messages {
    pub(crate) fn new(handle: Arc<Handle>, topic: &str, buffer: usize) -> Self {
        Self { handle, buffer: StreamBuffer::new(topic, buffer), taken: VecDeque::new() }
    }

    pub(crate) fn buffer(&self) -> Arc<StreamBuffer> {
        self.buffer.clone()
    }

    /// The topic as subscribed.
    pub fn topic(&self) -> &str {
        self.buffer.topic()
    }

    /// The next message; `None` when the stream has ended.
    ///
    /// Cancel-safe: a dropped call has taken no message.
    #[allow(clippy::should_implement_trait, reason = "it is awaited; only `iter` blocks")]
    pub fn next(&mut self) -> Next<'_, Self> {
        Next::new(self)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let (polled, made_room) = self.buffer.poll(&mut self.taken, cx.waker());
        if made_room {
            self.handle.shared.enter(|_, _| ());
        }
        polled
    }
}

/// The future of [`Messages::next`], [`TypedMessages::next`] and [`StatusWatch::next`](crate::StatusWatch::next).
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct Next<'a, S>(&'a mut S);

impl<'a, S> Next<'a, S> {
    pub(crate) fn new(stream: &'a mut S) -> Self {
        Self(stream)
    }
}

impl<S: Stream + Unpin> Future for Next<'_, S> {
    type Output = Option<S::Item>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut *self.0).poll_next(cx)
    }
}

impl Stream for Messages {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.poll(cx)
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        if self.buffer.detach() {
            self.handle.shared.enter(|_, _| ());
        }
    }
}

/// The messages of one topic, each decoded into `T`, from [`Subscribe::stream`](crate::Subscribe::stream). A
/// [`Stream`].
///
/// As [`Messages`]; a message whose data is not a `T` is an `Err`, and the stream goes on after it. The `Err` converts
/// into [`Error`](crate::Error) like everything that fails here:
///
/// ```
/// # #[derive(serde::Deserialize)]
/// # struct Chat { text: String }
/// async fn first(mut chat: nolag::TypedMessages<Chat>) -> Result<Option<String>, nolag::Error> {
///     match chat.next().await {
///         Some(message) => Ok(Some(message?.into_data().text)),
///         None => Ok(None),
///     }
/// }
/// ```
pub struct TypedMessages<T> {
    messages: Messages,
    data: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> TypedMessages<T> {
    /// The topic as subscribed.
    pub fn topic(&self) -> &str {
        self.messages.topic()
    }

    /// The next message; `None` when the stream has ended.
    ///
    /// Cancel-safe: a dropped call has taken no message.
    ///
    /// # Errors
    /// [`DecodeError`] when the data is not a `T`. The message counts as processed.
    #[allow(clippy::should_implement_trait, reason = "it is awaited; only `iter` blocks")]
    pub fn next(&mut self) -> Next<'_, Self> {
        Next::new(self)
    }
}

impl<T> From<Messages> for TypedMessages<T> {
    fn from(messages: Messages) -> Self {
        Self { messages, data: PhantomData }
    }
}

impl<T: DeserializeOwned> Stream for TypedMessages<T> {
    type Item = Result<TypedMessage<T>, DecodeError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.messages.poll(cx).map(|message| message.map(TypedMessage::decode))
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages").field("topic", &self.topic()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for TypedMessages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedMessages").field("topic", &self.messages.topic()).finish_non_exhaustive()
    }
}
