//! Publishing.

use std::{
    collections::VecDeque,
    fmt,
    future::{Future, IntoFuture},
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use nolag_core::{Error, Misuse, Op, OpId, Outcome, Payload, Publish, Rejection, ServerError, wire::QoS};

use crate::{
    connect::opaque_debug,
    engine::{Command, Handle, Job, Waiter, with_callback},
    event::ErrorEvent,
};

/// How a message left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Emitted {
    /// The broker confirmed it.
    Acked,
    /// It left, and no confirmation was asked for, or the broker is too old to give one.
    Sent,
}

/// Why a message was not delivered to the broker, or may not have been.
///
/// Converts into [`Error`] with `?`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EmitError {
    /// It was not sent in the time that it had: [`Emit::expires_in`], or the age limit of the
    /// [`offline_queue`](crate::Options::offline_queue).
    Expired,
    /// It was not sent.
    NotSent(Error),
    /// The broker refused it.
    Refused(Box<ServerError>),
    /// It was sent and no answer came: the broker may have it or not.
    Unknown(Error),
}

impl EmitError {
    /// Whether the broker may have the message all the same, so that sending it again may deliver it twice.
    pub fn may_be_delivered(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => write!(f, "not sent: {}", Rejection::Expired),
            Self::NotSent(error) => write!(f, "not sent: {error}"),
            Self::Refused(error) => error.fmt(f),
            Self::Unknown(error) => write!(f, "sent, and perhaps not delivered: {error}"),
        }
    }
}

impl std::error::Error for EmitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Expired => None,
            Self::NotSent(error) | Self::Unknown(error) => Some(error),
            Self::Refused(error) => Some(&**error),
        }
    }
}

impl From<EmitError> for Error {
    fn from(error: EmitError) -> Self {
        match error {
            EmitError::Expired => Self::Rejected(Rejection::Expired),
            EmitError::NotSent(error) | EmitError::Unknown(error) => error,
            EmitError::Refused(error) => Self::Server(error),
        }
    }
}

/// A message to publish. The data is encoded already.
///
/// Nothing happens before it is awaited, or given to [`send`](Self::send) or [`callback`](Self::callback).
///
/// # Outcome of `.await`
/// `Ok(Emitted::Acked)` when the broker confirmed it; an [`EmitError`] otherwise. Messages are accepted only while a
/// session stands, unless there is an [`offline_queue`](crate::Options::offline_queue).
///
/// # Cancel safety
/// Dropping the future before its first poll publishes nothing. Dropping it later does not withdraw the message; only
/// its outcome is lost.
#[doc(alias("publish", "EmitOptions"))]
#[must_use = "nothing is published before this is awaited or sent"]
pub struct Emit {
    handle: Arc<Handle>,
    publish: Result<Publish, Fault>,
}

/// What was wrong before anything was issued.
struct Fault {
    error: Error,
    topic: Arc<str>,
    encoding: bool,
}

impl Emit {
    pub(crate) fn new(
        handle: Arc<Handle>,
        topic: Result<Arc<str>, (Arc<str>, Misuse)>,
        payload: Result<Payload, Misuse>,
    ) -> Self {
        let publish = match (topic, payload) {
            (Ok(topic), Ok(payload)) => Ok(Publish::new(topic, payload)),
            (Err((topic, error)), _) => Err(Fault { error: error.into(), topic, encoding: false }),
            (Ok(topic), Err(error)) => Err(Fault { error: error.into(), topic, encoding: true }),
        };
        Self { handle, publish }
    }

    /// The QoS on the broker's inner hop. Default: that of the [`Options`](crate::Options::qos).
    pub fn qos(self, qos: QoS) -> Self {
        self.set(|publish| publish.qos = Some(qos))
    }

    /// Keeps the message for later subscribers. Default: no.
    pub fn retain(self) -> Self {
        self.set(|publish| publish.retain = true)
    }

    /// Whether this connection may get its own message back, if it is subscribed to the topic. Default: yes.
    ///
    /// Kraken delivers it unless told otherwise. The cloud's documents say that the cloud never delivers a message to
    /// the actor that published it, whatever is said here. Code that must work with both says `false`.
    pub fn echo(self, echo: bool) -> Self {
        self.set(|publish| publish.echo = echo)
    }

    /// Routes the message to subscribers of exactly this filter, and to those without filters.
    pub fn filter(self, filter: impl Into<String>) -> Self {
        let filter = filter.into();
        self.set(|publish| publish.filter = Some(filter))
    }

    /// Routes the message to subscribers of the same group of filters, whatever their order and case, and to those
    /// without filters. [`filter`](Self::filter) wins over it.
    pub fn filters<I>(self, filters: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let filters = filters.into_iter().map(Into::into).collect();
        self.set(|publish| publish.filters = filters)
    }

    /// How long it may wait to be sent, for its turn or for a session; after that it ends as [`EmitError::Expired`].
    /// Default: as long as it takes.
    pub fn expires_in(self, duration: Duration) -> Self {
        self.set(|publish| publish.expires_in = Some(duration))
    }

    /// Asks for no confirmation: the outcome is [`Emitted::Sent`], and a refusal can only be told to
    /// [`on_error`](crate::Client::on_error).
    pub fn untracked(self) -> Self {
        self.set(|publish| publish.tracked = false)
    }

    /// Publishes without waiting. What fails later is told to [`on_error`](crate::Client::on_error).
    ///
    /// # Errors
    /// [`Error::Misuse`] for a bad topic, filter or payload, [`Error::Rejected`] when there is no session, the client
    /// is leaving, or too much is waiting. Then nothing is published.
    pub fn send(self) -> Result<(), Error> {
        let topic = match &self.publish {
            Ok(publish) => publish.topic.clone(),
            Err(fault) => fault.topic.clone(),
        };
        issue(&self.handle, self.publish, Waiter::Report(Op::Publish, topic)).map(drop)
    }

    /// Publishes without waiting, and calls `callback` with the outcome, whatever it is. It is called like a handler:
    /// after those of earlier events, and never under a lock.
    ///
    /// # Errors
    /// As [`send`](Self::send); then the callback is not called. A callback counts as an operation of the
    /// [`outbound_limits`](crate::Options::outbound_limits) until it has been called.
    pub fn callback(
        self,
        callback: impl FnOnce(Result<Emitted, EmitError>) + Send + 'static,
    ) -> Result<(), Error> {
        with_callback(&self.handle, callback, result, |waiter| issue(&self.handle, self.publish, waiter))
    }

    fn set(mut self, change: impl FnOnce(&mut Publish)) -> Self {
        if let Ok(publish) = &mut self.publish {
            change(publish);
        }
        self
    }
}

impl IntoFuture for Emit {
    type Output = Result<Emitted, EmitError>;
    type IntoFuture = EmitFuture;

    fn into_future(self) -> EmitFuture {
        EmitFuture(Command::Ready(self.handle, self.publish))
    }
}

/// The future of [`Emit`].
#[must_use = "futures do nothing unless awaited"]
pub struct EmitFuture(Command<Result<Publish, Fault>>);

impl Future for EmitFuture {
    type Output = Result<Emitted, EmitError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let issued = self.0.poll_with(cx, |handle, publish| issue(handle, publish, Waiter::Future(None)));
        Poll::Ready(result(ready!(issued)))
    }
}

/// The future of [`Client::emit_many`](crate::Client::emit_many).
#[must_use = "futures do nothing unless awaited"]
pub struct EmitMany {
    /// Not issued yet.
    ready: Vec<Emit>,
    /// Issued, in order.
    waiting: VecDeque<EmitFuture>,
    outcomes: Vec<Result<Emitted, EmitError>>,
}

impl EmitMany {
    pub(crate) fn new(emits: impl IntoIterator<Item = Emit>) -> Self {
        Self { ready: emits.into_iter().collect(), waiting: VecDeque::new(), outcomes: Vec::new() }
    }
}

#[cfg(feature = "blocking")]
impl EmitMany {
    /// The outcomes that are there, and `missing` for all others.
    pub(crate) fn outcomes_so_far(self, missing: fn() -> EmitError) -> Vec<Result<Emitted, EmitError>> {
        let mut outcomes = self.outcomes;
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for mut emit in self.waiting {
            outcomes.push(match Pin::new(&mut emit).poll(&mut cx) {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => Err(missing()),
            });
        }
        outcomes
    }
}

impl Future for EmitMany {
    type Output = Vec<Result<Emitted, EmitError>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { ready, waiting, outcomes } = &mut *self;
        for mut emit in mem::take(ready).into_iter().map(Emit::into_future) {
            emit.0.start(|handle, publish| issue(handle, publish, Waiter::Future(None)));
            waiting.push_back(emit);
        }
        // One after the other: the outcomes of those behind are kept for them.
        while let Some(emit) = waiting.front_mut() {
            outcomes.push(ready!(Pin::new(emit).poll(cx)));
            waiting.pop_front();
        }
        Poll::Ready(mem::take(outcomes))
    }
}

fn issue(handle: &Handle, publish: Result<Publish, Fault>, waiter: Waiter) -> Result<OpId, Error> {
    match publish {
        Ok(publish) => handle.command(waiter, |state, now| Ok(state.core.publish(now, publish)?)),
        Err(fault) => {
            if fault.encoding {
                let event =
                    ErrorEvent::Encode { op: Op::Publish, topic: fault.topic, error: fault.error.clone() };
                handle.shared.push_job(Job::Error(Arc::new(event)));
            }
            Err(fault.error)
        }
    }
}

fn result(outcome: Result<Outcome, Error>) -> Result<Emitted, EmitError> {
    match outcome {
        Ok(Outcome::Acked) => Ok(Emitted::Acked),
        Ok(Outcome::Expired) => Err(EmitError::Expired),
        Ok(Outcome::Refused(error)) => Err(EmitError::Refused(error)),
        Ok(Outcome::Unknown(error)) => Err(EmitError::Unknown(error)),
        Ok(outcome) => outcome.error().map_or(Ok(Emitted::Sent), |error| Err(EmitError::NotSent(error))),
        Err(error) => Err(EmitError::NotSent(error)),
    }
}

opaque_debug!(Emit, EmitFuture, EmitMany);
