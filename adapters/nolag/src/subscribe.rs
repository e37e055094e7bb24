//! Subscribing.

use std::{
    future::{Future, IntoFuture},
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use nolag_core::{
    Error, Misuse, Op, OpId, Outcome,
    wire::{Filter, QoS},
};
use serde::de::DeserializeOwned;

use crate::{
    connect::opaque_debug,
    engine::{Command, Handle, Waiter, with_callback},
    request::{Request, RequestFuture},
    stream::{Messages, TypedMessages},
};

/// Messages that a stream holds unless told otherwise.
const DEFAULT_BUFFER: usize = 256;

/// A subscription that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subscribed {
    /// The topic as subscribed.
    pub topic: Arc<str>,
    /// Whether it shares its messages with a group.
    pub load_balanced: bool,
}

/// A subscription to make.
///
/// Nothing happens before it is awaited, turned into a stream, or given to [`send`](Self::send) or
/// [`callback`](Self::callback).
///
/// There is one subscription per topic, and it outlives lost connections. An identical one is joined without asking
/// the broker; other options replace those that stand, for all that listen. To change filters only,
/// [`set_filters`](crate::Client::set_filters) is better: nothing is missed meanwhile.
///
/// # Outcome of `.await`
/// [`Subscribed`] once the broker confirmed it. It only registers: messages go to handlers
/// ([`Client::on`](crate::Client::on)) and to streams. [`Error::Server`] when the broker refused, [`Error::Rejected`]
/// when the client is neither connected nor about to be.
///
/// # Cancel safety
/// Dropping the future takes the subscription back, unless somebody else wants it.
#[doc(alias = "SubscribeOptions")]
#[must_use = "nothing is subscribed before this is awaited or sent"]
pub struct Subscribe {
    handle: Arc<Handle>,
    command: Result<nolag_core::Subscribe, Error>,
    buffer: usize,
}

impl Subscribe {
    pub(crate) fn new(handle: Arc<Handle>, topic: Result<String, Misuse>) -> Self {
        let command = topic.map(nolag_core::Subscribe::new).map_err(Error::from);
        Self { handle, command, buffer: DEFAULT_BUFFER }
    }

    /// The QoS on the broker's inner hop. Default: that of the [`Options`](crate::Options::qos).
    pub fn qos(self, qos: QoS) -> Self {
        self.set(|command| command.options.qos = Some(qos))
    }

    /// Listens only to messages sent with one of these filters. Default: to all messages, whatever their filter.
    ///
    /// Texts are filters; [`Filter::All`] is a group of which all must match. At most 100.
    pub fn filters<I>(self, filters: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<Filter>,
    {
        let filters = filters.into_iter().map(Into::into).collect();
        self.set(|command| command.options.filters = filters)
    }

    /// Whether each message goes to one member of a group only. Default: that of the
    /// [`Options`](crate::Options::load_balance).
    pub fn load_balance(self, load_balance: bool) -> Self {
        self.set(|command| command.options.load_balance = Some(load_balance))
    }

    /// The group to share messages with. Default: that of the [`Options`](crate::Options::load_balance_group), else
    /// the actor's id. It means nothing without load balancing.
    #[doc(alias = "load_balance_group")]
    pub fn group(self, group: impl Into<String>) -> Self {
        let group = group.into();
        self.set(|command| command.options.load_balance_group = Some(group))
    }

    /// Asks the broker even if an identical subscription stands; retained messages then come again.
    pub fn refresh(self) -> Self {
        self.set(|command| command.refresh = true)
    }

    /// How many messages the stream holds for a slow reader before the client stops reading. Default: 256, and never
    /// more than 4 MiB.
    pub fn buffer(mut self, messages: usize) -> Self {
        self.buffer = messages;
        self
    }

    /// Subscribes and opens a stream of the messages, each decoded into `T`. The future is done once the broker
    /// confirmed; nothing that arrives after that is missed.
    ///
    /// # Cancel safety
    /// As of the subscription itself.
    pub fn stream<T: DeserializeOwned>(self) -> StreamFuture<TypedMessages<T>> {
        self.open()
    }

    /// As [`stream`](Self::stream), with the data left as it came.
    pub fn messages(self) -> StreamFuture<Messages> {
        self.open()
    }

    /// Subscribes without waiting. What fails later is told to [`on_error`](crate::Client::on_error).
    ///
    /// # Errors
    /// [`Error::Misuse`] for a bad topic or filter, [`Error::Rejected`] when the client is neither connected nor about
    /// to be, or too much is waiting.
    pub fn send(self) -> Result<(), Error> {
        let command = self.command?;
        let waiter = Waiter::Report(Op::Subscribe, command.topic.as_str().into());
        issue(&self.handle, Ok(command), waiter).map(drop)
    }

    /// Subscribes without waiting, and calls `callback` with the outcome, whatever it is. It is called like a handler:
    /// after those of earlier events, and never under a lock.
    ///
    /// # Errors
    /// As [`send`](Self::send); then the callback is not called. A callback counts as an operation of the
    /// [`outbound_limits`](crate::Options::outbound_limits) until it has been called.
    pub fn callback(
        self,
        callback: impl FnOnce(Result<Subscribed, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let topic = topic_of(&self.command);
        let convert = move |outcome| result(outcome, topic);
        with_callback(&self.handle, callback, convert, |waiter| issue(&self.handle, self.command, waiter))
    }

    fn open<S: From<Messages>>(self) -> StreamFuture<S> {
        let topic = topic_of(&self.command);
        let messages = Messages::new(self.handle.clone(), &topic, self.buffer);
        let command = Command::Ready(self.handle, self.command);
        StreamFuture { command, messages: Some(messages), topic, stream: PhantomData }
    }

    fn set(mut self, change: impl FnOnce(&mut nolag_core::Subscribe)) -> Self {
        if let Ok(command) = &mut self.command {
            change(command);
        }
        self
    }
}

impl IntoFuture for Subscribe {
    type Output = Result<Subscribed, Error>;
    type IntoFuture = SubscribeFuture;

    fn into_future(self) -> SubscribeFuture {
        let topic = topic_of(&self.command);
        SubscribeFuture { command: Command::Ready(self.handle, self.command), topic }
    }
}

/// The future of [`Subscribe`].
#[must_use = "futures do nothing unless awaited"]
pub struct SubscribeFuture {
    command: Command<Result<nolag_core::Subscribe, Error>>,
    topic: Arc<str>,
}

impl Future for SubscribeFuture {
    type Output = Result<Subscribed, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let issue = |handle: &Handle, command| issue(handle, command, Waiter::Future(None));
        let outcome = ready!(self.command.poll_with(cx, issue));
        Poll::Ready(result(outcome, self.topic.clone()))
    }
}

/// The future of [`Subscribe::stream`] and [`Subscribe::messages`].
#[must_use = "futures do nothing unless awaited"]
pub struct StreamFuture<S> {
    command: Command<Result<nolag_core::Subscribe, Error>>,
    /// Attached together with the command, so that it misses nothing; detached by its own drop.
    messages: Option<Messages>,
    topic: Arc<str>,
    stream: PhantomData<fn() -> S>,
}

impl<S: From<Messages>> Future for StreamFuture<S> {
    type Output = Result<S, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { command, messages, .. } = &mut *self;
        let outcome = ready!(command.poll_with(cx, |handle, command| {
            let command = command?;
            handle.command(Waiter::Future(None), |state, now| {
                let op = state.core.subscribe(now, command)?;
                messages.iter().for_each(|messages| state.streams.attach(messages.buffer()));
                Ok(op)
            })
        }));
        let messages = messages.take();
        let subscribed = result(outcome, self.topic.clone());
        Poll::Ready(subscribed.and_then(|_| match messages {
            Some(messages) => Ok(messages.into()),
            // Only a future polled after its end has none.
            None => Err(nolag_core::Rejection::Abandoned.into()),
        }))
    }
}

/// A subscription to end, from [`Client::unsubscribe`](crate::Client::unsubscribe).
pub type Unsubscribe = Request<()>;

/// The future of [`Unsubscribe`].
pub type UnsubscribeFuture = RequestFuture<()>;

fn issue(
    handle: &Handle,
    command: Result<nolag_core::Subscribe, Error>,
    waiter: Waiter,
) -> Result<OpId, Error> {
    let command = command?;
    handle.command(waiter, |state, now| Ok(state.core.subscribe(now, command)?))
}

fn topic_of(command: &Result<nolag_core::Subscribe, Error>) -> Arc<str> {
    command.as_ref().map_or("", |command| command.topic.as_str()).into()
}

fn result(outcome: Result<Outcome, Error>, topic: Arc<str>) -> Result<Subscribed, Error> {
    match outcome? {
        Outcome::Subscribed { load_balance, .. } => Ok(Subscribed { topic, load_balanced: load_balance }),
        outcome => Err(outcome.error().unwrap_or_else(|| nolag_core::Rejection::Abandoned.into())),
    }
}

opaque_debug!(Subscribe, SubscribeFuture);

impl<S> std::fmt::Debug for StreamFuture<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamFuture").finish_non_exhaustive()
    }
}
