//! What the engine needs from a runtime, and nothing else: the time, timers, tasks, names and TCP.

#[cfg(any(feature = "async-std", feature = "smol"))]
mod async_io;
#[cfg(feature = "blocking")]
pub(crate) mod blocking;
mod none;
#[cfg(any(feature = "async-std", feature = "smol", feature = "blocking"))]
mod resolve;
#[cfg(any(feature = "async-std", feature = "smol", feature = "blocking"))]
pub(crate) mod thread;
#[cfg(feature = "tokio")]
mod tokio;

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use nolag_core::Instant;

use crate::transport::Io;

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What a client runs on, for [`Options::runtime`](crate::Options::runtime). There is a variant for each crate feature.
///
/// All of them run the same code and behave the same; they differ in who polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Runtime {
    /// The [tokio](https://docs.rs/tokio) runtime around the calls that start something, which is
    /// [`Client::connect`](crate::Client::connect) in the first place. It needs `enable_all()`. Crate feature `tokio`.
    #[cfg(feature = "tokio")]
    Tokio,
    /// The global executor of [async-std](https://docs.rs/async-std), with the reactor of `async-io`. Crate feature
    /// `async-std`.
    ///
    /// async-std is discontinued (RUSTSEC-2025-0052) and its authors send its users to smol: this is for programs that
    /// have it already. New programs are better off with [`Smol`](Self::Smol), which runs the same code here.
    #[cfg(feature = "async-std")]
    AsyncStd,
    /// The global executor of [smol](https://docs.rs/smol), with the reactor of `async-io`. Crate feature `smol`.
    #[cfg(feature = "smol")]
    Smol,
    /// Threads of the client's own, and no async runtime at all. Calls are waited for with `wait(timeout)` instead of
    /// `await`. Crate feature `blocking`.
    ///
    /// A client has one thread for its connection, one that calls handlers, and one for each
    /// [`spawned`](crate::Client::spawned) handler that has something to do. Dropping the last handle of the client
    /// waits for them: for what was accepted to leave and handlers to return, at most twice the
    /// [`drain_timeout`](crate::Options::drain_timeout) and a few seconds. A handler that drops it, of this client or
    /// of another one, waits for nothing.
    #[cfg(feature = "blocking")]
    Blocking,
}

impl Runtime {
    /// What is used unless something else is chosen. The other features must not change it: they may be on because
    /// somebody else in the program wants them.
    pub(crate) fn default_of_crate() -> Option<Self> {
        #[cfg(feature = "tokio")]
        return Some(Self::Tokio);
        #[cfg(not(feature = "tokio"))]
        None
    }
}

/// What to do where none was chosen.
pub(crate) const NONE_CHOSEN: &str = if cfg!(feature = "blocking") {
    "none was chosen: call `Options::runtime(Runtime::Blocking)`; the default needs the crate feature `tokio`"
} else if cfg!(feature = "smol") {
    "none was chosen: call `Options::runtime(Runtime::Smol)`; the default needs the crate feature `tokio`"
} else if cfg!(feature = "async-std") {
    "none was chosen: call `Options::runtime(Runtime::AsyncStd)`; the default needs the crate feature `tokio`"
} else {
    "there is none: enable one of the crate features `tokio`, `smol` and `blocking`"
};

/// What the engine asks of a runtime.
pub(crate) trait Driver: Send + Sync + 'static {
    /// The time, monotonic, from an origin of its own.
    fn now(&self) -> Instant;

    /// A timer that is not set.
    fn timer(&self) -> Box<dyn Timer>;

    /// Starts a task. `false`, without running it, where that cannot be.
    fn spawn(&self, task: BoxFuture<()>) -> bool;

    /// The addresses of a name.
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>>;

    /// Opens a TCP connection. With `nodelay` small writes leave at once.
    fn connect(&self, address: SocketAddr, nodelay: bool) -> BoxFuture<io::Result<Box<dyn Io>>>;

    /// Why a task was dropped before its end, in words: one that had been polled, or one that never was.
    fn lost(&self, polled: bool) -> &'static str;

    /// Waits for tasks to end, unless it is one of them that calls.
    fn join(&self, patience: Duration) {
        let _ = patience;
    }
}

/// Wakes a task in time.
pub(crate) trait Timer: Send {
    /// `Ready` at or after `at`; otherwise wakes the task then.
    fn poll_at(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()>;
}

/// The driver of a runtime.
pub(crate) fn driver(runtime: Option<Runtime>) -> Arc<dyn Driver> {
    match runtime {
        #[cfg(feature = "tokio")]
        Some(Runtime::Tokio) => Arc::new(tokio::Tokio::new()),
        #[cfg(feature = "async-std")]
        Some(Runtime::AsyncStd) => Arc::new(async_io::AsyncIo::async_std()),
        #[cfg(feature = "smol")]
        Some(Runtime::Smol) => Arc::new(async_io::AsyncIo::smol()),
        #[cfg(feature = "blocking")]
        Some(Runtime::Blocking) => Arc::new(blocking::Threads::new()),
        None => Arc::new(none::NoRuntime::new()),
    }
}

/// A sleep of a runtime's own kind, for [`Alarm`].
#[cfg(any(feature = "tokio", feature = "async-std", feature = "smol"))]
trait Sleep: Send {
    /// Wakes at `at` from now on, and not at what was set before.
    fn set(&mut self, at: Instant);

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// A timer made of a sleep that is costly to set.
#[cfg(any(feature = "tokio", feature = "async-std", feature = "smol"))]
struct Alarm<S> {
    sleep: S,
    set: Option<Instant>,
}

#[cfg(any(feature = "tokio", feature = "async-std", feature = "smol"))]
impl<S: Sleep> Timer for Alarm<S> {
    fn poll_at(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            // One that is set too early costs a spurious wake-up; setting it anew each time costs more.
            if self.set.is_none_or(|set| set > at) {
                self.sleep.set(at);
                self.set = Some(at);
            }
            std::task::ready!(self.sleep.poll(cx));
            // Rung once, it is to be set before it is asked again.
            if self.set.take().is_some_and(|set| set >= at) {
                return Poll::Ready(());
            }
        }
    }
}

#[cfg(test)]
#[cfg(any(feature = "tokio", feature = "async-std", feature = "smol"))]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Rings when it was told to, however early that is.
    #[derive(Default)]
    struct Told {
        set: Vec<Instant>,
        rings: bool,
    }

    impl Sleep for Told {
        fn set(&mut self, at: Instant) {
            self.set.push(at);
        }

        fn poll(&mut self, _: &mut Context<'_>) -> Poll<()> {
            if std::mem::take(&mut self.rings) { Poll::Ready(()) } else { Poll::Pending }
        }
    }

    #[test]
    fn an_alarm_is_set_anew_only_where_it_must_be() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut alarm = Alarm { sleep: Told::default(), set: None };
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(alarm.poll_at(at(5), cx).is_pending());
        assert!(alarm.poll_at(at(9), cx).is_pending());
        assert_eq!(alarm.sleep.set, [at(5)], "it will ring early, which is cheaper than to set it");
        alarm.sleep.rings = true;
        assert!(alarm.poll_at(at(9), cx).is_pending(), "it rang early");
        assert_eq!(alarm.sleep.set, [at(5), at(9)]);
        assert!(alarm.poll_at(at(7), cx).is_pending());
        assert_eq!(alarm.sleep.set, [at(5), at(9), at(7)], "it would ring late");
        alarm.sleep.rings = true;
        assert!(alarm.poll_at(at(7), cx).is_ready());
        assert!(alarm.poll_at(at(7), cx).is_pending(), "it has rung");
        assert_eq!(alarm.sleep.set, [at(5), at(9), at(7), at(7)]);
    }
}
