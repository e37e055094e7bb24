//! Requests that carry no message: ending subscriptions, filters, presence, lobbies.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use nolag_core::{Error, Instant, Misuse, Op, OpId, Outcome, Payload, Rejection, wire::Filter};

use crate::{
    engine::{Command, Handle, Job, State, Waiter, with_callback},
    event::ErrorEvent,
};

/// Something to ask of the broker; `T` is the answer. The method that makes it says what it does.
///
/// Nothing happens before it is awaited, or given to [`send`](Self::send) or [`callback`](Self::callback).
///
/// # Outcome of `.await`
/// The answer. Otherwise [`Error::Misuse`] when the request can never work like this, [`Error::Rejected`] when it
/// cannot be made now, [`Error::Server`] when the broker refused, and [`Error::Protocol`] or [`Error::Transport`] when
/// no answer came: then it may have been done or not.
///
/// # Cancel safety
/// Dropping the future before its first poll does nothing. Dropping it later withdraws nothing; only the outcome is
/// lost.
#[must_use = "nothing happens before this is awaited or sent"]
pub struct Request<T> {
    handle: Arc<Handle>,
    ask: Result<Ask, Error>,
    answer: fn(Outcome) -> Option<T>,
}

/// The future of a [`Request`].
#[must_use = "futures do nothing unless awaited"]
pub struct RequestFuture<T> {
    command: Command<Result<Ask, Error>>,
    answer: fn(Outcome) -> Option<T>,
}

/// What can be asked.
pub(crate) enum Ask {
    AddFilters(String, Vec<Filter>),
    ClearPresence,
    FetchLobby(String),
    FetchPresence(String),
    LobbySubscribe(String),
    LobbyUnsubscribe(String),
    RemoveFilters(String, Vec<Filter>),
    SetFilters(String, Vec<Filter>),
    /// Without a room nobody is told.
    SetPresence(Option<String>, Result<Payload, Misuse>),
    Unsubscribe(String),
}

impl<T> Request<T> {
    pub(crate) fn new(
        handle: Arc<Handle>,
        ask: Result<Ask, Misuse>,
        answer: fn(Outcome) -> Option<T>,
    ) -> Self {
        Self { handle, ask: ask.map_err(Error::from), answer }
    }

    /// Asks without waiting. What fails later is told to [`on_error`](crate::Client::on_error).
    ///
    /// # Errors
    /// [`Error::Misuse`] when the request can never work like this, [`Error::Rejected`] when it cannot be made now. Then
    /// nothing is asked.
    pub fn send(self) -> Result<(), Error> {
        let waiter = match &self.ask {
            Ok(ask) => Waiter::Report(ask.op(), ask.subject().into()),
            Err(_) => Waiter::Nobody,
        };
        issue(&self.handle, self.ask, waiter).map(drop)
    }
}

impl<T: 'static> Request<T> {
    /// Asks without waiting, and calls `callback` with the outcome, whatever it is. It is called like a handler: after
    /// those of earlier events, and never under a lock.
    ///
    /// # Errors
    /// As [`send`](Self::send); then the callback is not called. A callback counts as an operation of the
    /// [`outbound_limits`](crate::Options::outbound_limits) until it has been called.
    pub fn callback(self, callback: impl FnOnce(Result<T, Error>) + Send + 'static) -> Result<(), Error> {
        let answer = self.answer;
        let convert = move |outcome| result(outcome, answer);
        with_callback(&self.handle, callback, convert, |waiter| issue(&self.handle, self.ask, waiter))
    }
}

impl<T> IntoFuture for Request<T> {
    type Output = Result<T, Error>;
    type IntoFuture = RequestFuture<T>;

    fn into_future(self) -> RequestFuture<T> {
        RequestFuture { command: Command::Ready(self.handle, self.ask), answer: self.answer }
    }
}

impl<T> Future for RequestFuture<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let issue = |handle: &Handle, ask| issue(handle, ask, Waiter::Future(None));
        let outcome = ready!(self.command.poll_with(cx, issue));
        Poll::Ready(result(outcome, self.answer))
    }
}

impl Ask {
    fn op(&self) -> Op {
        match self {
            Self::AddFilters(..) | Self::RemoveFilters(..) | Self::SetFilters(..) => Op::SetFilters,
            Self::ClearPresence | Self::SetPresence(..) => Op::SetPresence,
            Self::FetchLobby(_) => Op::FetchLobby,
            Self::FetchPresence(_) => Op::FetchPresence,
            Self::LobbySubscribe(_) => Op::LobbySubscribe,
            Self::LobbyUnsubscribe(_) => Op::LobbyUnsubscribe,
            Self::Unsubscribe(_) => Op::Unsubscribe,
        }
    }

    /// The topic, room or lobby that it names; empty if it names none.
    fn subject(&self) -> &str {
        match self {
            Self::AddFilters(topic, _) | Self::RemoveFilters(topic, _) | Self::SetFilters(topic, _) => topic,
            Self::ClearPresence => "",
            Self::SetPresence(room, _) => room.as_deref().unwrap_or_default(),
            Self::FetchPresence(room) => room,
            Self::FetchLobby(lobby) | Self::LobbySubscribe(lobby) | Self::LobbyUnsubscribe(lobby) => lobby,
            Self::Unsubscribe(topic) => topic,
        }
    }

    fn issue(self, state: &mut State, now: Instant) -> Result<OpId, Error> {
        let core = &mut state.core;
        match self {
            Self::AddFilters(topic, filters) => Ok(core.add_filters(now, &topic, filters)?),
            Self::ClearPresence => core.clear_presence(now),
            Self::FetchLobby(lobby) => core.fetch_lobby(now, &lobby),
            Self::FetchPresence(room) => core.fetch_presence(now, &room),
            Self::LobbySubscribe(lobby) => core.lobby_subscribe(now, &lobby),
            Self::LobbyUnsubscribe(lobby) => core.lobby_unsubscribe(now, &lobby),
            Self::RemoveFilters(topic, filters) => Ok(core.remove_filters(now, &topic, filters)?),
            Self::SetFilters(topic, filters) => Ok(core.set_filters(now, &topic, filters)?),
            Self::SetPresence(Some(room), data) => Ok(core.set_presence(now, &room, data?)?),
            #[allow(deprecated, reason = "our own method for it is deprecated too")]
            Self::SetPresence(None, data) => Ok(core.set_presence_without_room(now, data?)?),
            Self::Unsubscribe(topic) => state.unsubscribe(now, &topic),
        }
    }
}

fn issue(handle: &Handle, ask: Result<Ask, Error>, waiter: Waiter) -> Result<OpId, Error> {
    let ask = ask?;
    if let Ask::SetPresence(_, Err(error)) = &ask {
        let (op, topic, error) = (ask.op(), ask.subject().into(), error.clone().into());
        handle.shared.push_job(Job::Error(Arc::new(ErrorEvent::Encode { op, topic, error })));
    }
    handle.command(waiter, |state, now| ask.issue(state, now))
}

fn result<T>(outcome: Result<Outcome, Error>, answer: fn(Outcome) -> Option<T>) -> Result<T, Error> {
    let outcome = outcome?;
    match outcome.error() {
        Some(error) => Err(error),
        // Every answer that the core gives is one that was asked for.
        None => answer(outcome).ok_or_else(|| Rejection::Abandoned.into()),
    }
}

/// For requests whose answer says no more than that it was done.
pub(crate) fn done(_: Outcome) -> Option<()> {
    Some(())
}

impl<T> fmt::Debug for Request<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for RequestFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestFuture").finish_non_exhaustive()
    }
}
