//! Futures that are polled by hand.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake},
};

use tokio::{runtime::Handle, sync::Notify};

use crate::soon;

/// Polls in a row under [`Plan::Often`].
const OFTEN: usize = 100;

/// Wakers that a future and what it waits for may hold; far fewer than [`OFTEN`].
const FEW: usize = 10;

/// What is done with a future. It is polled anew only after it was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Polled so often and then dropped: right after the last poll, or once it was woken for the next.
    Drop { polls: usize, woken: bool },
    /// Polled to its end, by two new wakers at a time. It is the second that must be woken.
    NewWakers,
    /// Polled to its end, each time on a new thread.
    NewThreads,
    /// Polled to its end, many times in a row by the same waker. It must not be kept as many times.
    Often,
}

/// What became of a future.
#[derive(Debug, PartialEq)]
pub(crate) enum End<T> {
    Done(T),
    /// Dropped after so many polls.
    Dropped(usize),
}

impl<T> End<T> {
    /// Whether it never began.
    pub(crate) fn is_unpolled(&self) -> bool {
        matches!(self, Self::Dropped(0))
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    pub(crate) fn done(self) -> Option<T> {
        match self {
            Self::Done(output) => Some(output),
            Self::Dropped(_) => None,
        }
    }
}

impl Plan {
    /// Takes a future as far as planned.
    pub(crate) async fn follow<F: Future<Output: Send> + Send>(
        self,
        future: impl IntoFuture<IntoFuture = F, Output = F::Output>,
    ) -> End<F::Output> {
        let mut future = ByHand::new(future.into_future());
        let mut polls = 0;
        loop {
            if self == (Self::Drop { polls, woken: false }) {
                return End::Dropped(polls);
            }
            let polled = match self {
                Self::Drop { .. } => future.poll(),
                Self::NewWakers => future.poll_by_new_wakers(),
                Self::NewThreads => future.poll_on_new_thread(),
                Self::Often => future.poll_often(),
            };
            if let Poll::Ready(output) = polled {
                return End::Done(output);
            }
            polls += 1;
            if self == (Self::Drop { polls, woken: false }) {
                return End::Dropped(polls);
            }
            future.woken().await;
            if self == (Self::Drop { polls, woken: true }) {
                return End::Dropped(polls);
            }
        }
    }
}

/// A future that is polled by hand, and what its waker does.
pub(crate) struct ByHand<F> {
    future: Pin<Box<F>>,
    alarm: Arc<Alarm>,
}

impl<F: Future> ByHand<F> {
    pub(crate) fn new(future: F) -> Self {
        Self { future: Box::pin(future), alarm: Arc::default() }
    }

    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        self.alarm.rung.store(false, Ordering::Release);
        self.future.as_mut().poll(&mut Context::from_waker(&self.alarm.clone().into()))
    }

    fn poll_by_new_wakers(&mut self) -> Poll<F::Output> {
        for _ in 0..2 {
            self.alarm = Arc::default();
            let polled = self.poll();
            if polled.is_ready() {
                return polled;
            }
        }
        Poll::Pending
    }

    fn poll_often(&mut self) -> Poll<F::Output> {
        for _ in 0..OFTEN {
            let polled = self.poll();
            if polled.is_ready() {
                return polled;
            }
        }
        let kept = Arc::strong_count(&self.alarm) - 1;
        assert!(kept < FEW, "after {OFTEN} polls {kept} wakers are kept");
        Poll::Pending
    }

    /// Waits until it is woken, and polls it for the last time.
    pub(crate) async fn end(mut self) -> F::Output {
        self.woken().await;
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it was woken for nothing"),
        }
    }

    /// Waits until it asks for a poll.
    pub(crate) async fn woken(&mut self) {
        soon(self.alarm.wait()).await;
    }
}

impl<F: Future<Output: Send> + Send> ByHand<F> {
    fn poll_on_new_thread(&mut self) -> Poll<F::Output> {
        let runtime = Handle::current();
        let poll = || {
            let _entered = runtime.enter();
            self.poll_by_new_wakers()
        };
        std::thread::scope(|scope| scope.spawn(poll).join().unwrap())
    }
}

/// A waker that can be waited for.
#[derive(Default)]
struct Alarm {
    rung: AtomicBool,
    notify: Notify,
}

impl Alarm {
    async fn wait(&self) {
        while !self.rung.load(Ordering::Acquire) {
            self.notify.notified().await;
        }
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        self.notify.notify_one();
    }
}
