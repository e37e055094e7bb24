//! Waiting on a thread instead of awaiting: everything that can be awaited has a `wait` with a limit.

use std::{
    future::IntoFuture,
    time::{Duration, Instant},
};

use futures_core::Stream;
use nolag_core::{Error, Rejection};
#[cfg(feature = "rest")]
use nolag_core::{TransportError, TransportErrorKind, rest::ApiError};
use serde::de::DeserializeOwned;

#[cfg(feature = "rest")]
use crate::api::{ApiCall, Pages};
use crate::{
    connect::{CloseFuture, ConnectFuture, FlushFuture},
    emit::{Emit, EmitError, EmitFuture, EmitMany, Emitted},
    request::{Request, RequestFuture},
    runtime::blocking::block_on,
    status::{StatusWatch, WaitFor},
    stream::{Messages, Next, TypedMessages},
    subscribe::{StreamFuture, Subscribe, SubscribeFuture, Subscribed},
};

/// The output; `None` when the time is over.
fn wait<F: IntoFuture>(future: F, timeout: Duration) -> Option<F::Output> {
    // A limit beyond what the clock can tell is none.
    block_on(future.into_future(), Instant::now().checked_add(timeout))
}

/// Nobody waits any more.
fn abandoned() -> Error {
    Rejection::Abandoned.into()
}

fn unknown() -> EmitError {
    EmitError::Unknown(abandoned())
}

/// Writes the `wait` of types whose output is a result already.
macro_rules! wait_for_result {
    ($([$($generics:tt)*] $type:ty, $output:ty, $error:ty, $over:expr, $what:literal;)*) => {$(
        impl<$($generics)*> $type {
            #[doc = concat!("Waits on this thread, for at most `timeout`, ", $what, ". Otherwise as `.await`.")]
            ///
            /// # Errors
            /// As of the awaited result. When the time is over it is
            /// [`Rejection::Abandoned`](crate::Rejection::Abandoned), and what was asked goes on or is taken back as
            /// when a future is dropped.
            pub fn wait(self, timeout: Duration) -> Result<$output, $error> {
                wait(self, timeout).unwrap_or_else(|| Err($over))
            }
        }
    )*};
}

wait_for_result! {
    [] ConnectFuture, (), Error, abandoned(), "for the session to stand";
    [] Emit, Emitted, EmitError, unknown(), "for the message's outcome";
    [] EmitFuture, Emitted, EmitError, unknown(), "for the message's outcome";
    [T: 'static] Request<T>, T, Error, abandoned(), "for the answer";
    [T: 'static] RequestFuture<T>, T, Error, abandoned(), "for the answer";
    [] Subscribe, Subscribed, Error, abandoned(), "for the broker to confirm";
    [] SubscribeFuture, Subscribed, Error, abandoned(), "for the broker to confirm";
    [S: From<Messages>] StreamFuture<S>, S, Error, abandoned(), "for the broker to confirm";
}

/// Writes the `wait` of types whose output is no result.
macro_rules! wait_for_output {
    ($([$($generics:tt)*] $type:ty, $output:ty, $what:literal;)*) => {$(
        impl<$($generics)*> $type {
            #[doc = concat!("Waits on this thread, for at most `timeout`, ", $what, ". Otherwise as `.await`.")]
            ///
            /// # Errors
            /// [`Rejection::Abandoned`](crate::Rejection::Abandoned) when the time is over; then it is as when a future
            /// is dropped.
            pub fn wait(self, timeout: Duration) -> Result<$output, Error> {
                wait(self, timeout).ok_or_else(abandoned)
            }
        }
    )*};
}

wait_for_output! {
    [] CloseFuture, (), "until the client has left";
    [] FlushFuture, (), "until everything accepted has its outcome";
    [S: Stream + Unpin] Next<'_, S>, Option<S::Item>, "for the next one";
    [] WaitFor<'_>, bool, "for the status";
}

impl EmitMany {
    /// Waits on this thread, for at most `timeout`, for the outcomes of all messages. Those that have none by then are
    /// [`EmitError::Unknown`] with [`Rejection::Abandoned`](crate::Rejection::Abandoned).
    pub fn wait(mut self, timeout: Duration) -> Vec<Result<Emitted, EmitError>> {
        wait(&mut self, timeout).unwrap_or_else(|| self.outcomes_so_far(unknown))
    }
}

#[cfg(feature = "rest")]
impl<T> ApiCall<T> {
    /// Waits on this thread for the answer, which comes within the
    /// [timeout](crate::ApiOptions::timeout) of the options. Otherwise as `.await`.
    ///
    /// # Errors
    /// As of the awaited result.
    pub fn wait(self) -> Result<T, ApiError> {
        let (request, limit) = (self.request.clone(), self.limit);
        // A runtime that has ended meanwhile would never wake this thread.
        wait(self, limit).unwrap_or_else(|| {
            let error = TransportError::new(TransportErrorKind::Timeout, "the runtime does not run any more");
            Err(ApiError::Transport { request, error })
        })
    }
}

#[cfg(feature = "rest")]
impl<T: Send + 'static> Pages<T> {
    /// The pages one after the other: each step blocks this thread until the next one is there.
    pub fn iter(&mut self) -> Iter<'_, Self> {
        Iter(self)
    }
}

/// A blocking iterator, from [`Messages::iter`], [`TypedMessages::iter`] and [`StatusWatch::iter`]. It ends when what it
/// comes from ends.
#[derive(Debug)]
pub struct Iter<'a, S>(&'a mut S);

impl<S: Stream + Unpin> Iterator for Iter<'_, S> {
    type Item = S::Item;

    fn next(&mut self) -> Option<S::Item> {
        block_on(Next::new(self.0), None).flatten()
    }
}

impl Messages {
    /// The messages one after the other: each step blocks this thread until the next one is there, and the iterator ends
    /// with the stream. [`next`](Self::next) with its `wait` has a limit for each.
    pub fn iter(&mut self) -> Iter<'_, Self> {
        Iter(self)
    }
}

impl<T: DeserializeOwned> TypedMessages<T> {
    /// As [`Messages::iter`].
    pub fn iter(&mut self) -> Iter<'_, Self> {
        Iter(self)
    }
}

impl StatusWatch {
    /// The changes one after the other: each step blocks this thread until the next one.
    pub fn iter(&mut self) -> Iter<'_, Self> {
        Iter(self)
    }
}
