//! Asking the application for tokens: on a task of its own, so that a slow provider holds up nothing.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use super::{Shared, lock};
use crate::{
    runtime::BoxFuture,
    token::{Provided, Provider},
    trace,
};

/// The provider, if there is one, and the question that is open.
#[derive(Default)]
pub(crate) struct Tokens {
    provider: Option<Mutex<Provider>>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// Numbers the questions.
    last: u64,
    /// Whether an answer to the last one is still wanted.
    wanted: bool,
    waker: Option<Waker>,
}

impl Tokens {
    pub(crate) fn new(provider: Option<Provider>) -> Self {
        Self { provider: provider.map(Mutex::new), open: Mutex::default() }
    }

    /// Nobody wants an answer any more: what the provider was doing is dropped.
    pub(super) fn cancel(&self) {
        let mut open = lock(&self.open);
        open.wanted = false;
        let waker = open.waker.take();
        drop(open);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Opens a question in place of an earlier one.
    fn begin(&self) -> u64 {
        self.cancel();
        let mut open = lock(&self.open);
        open.last += 1;
        open.wanted = true;
        open.last
    }

    /// Whether an answer is still wanted; if so, the task is woken once it is not.
    fn is_wanted(&self, question: u64, waker: &Waker) -> bool {
        let mut open = lock(&self.open);
        let wanted = open.wanted && open.last == question;
        if wanted {
            open.waker = Some(waker.clone());
        }
        wanted
    }

    /// Closes a question; `false` if its answer is not wanted any more.
    fn finish(&self, question: u64) -> bool {
        let mut open = lock(&self.open);
        let wanted = open.wanted && open.last == question;
        open.wanted &= !wanted;
        wanted
    }

    /// Calls the provider.
    fn call(&self) -> Option<BoxFuture<Provided>> {
        let provider = self.provider.as_ref()?;
        let mut provider = lock(provider);
        Some((*provider)())
    }
}

/// Asks the provider, and tells the core what came of it.
pub(super) fn ask(shared: &Arc<Shared>) {
    trace::debug!("asking for a token");
    let question = shared.tokens.begin();
    let asking = Asking { shared: shared.clone(), question, future: None };
    if !shared.driver.spawn(Box::pin(asking)) {
        answer(shared, Err("there is no runtime to ask its provider on".into()));
    }
}

fn answer(shared: &Arc<Shared>, provided: Provided) {
    shared.enter(|state, now| match provided {
        Ok(token) => {
            let (token, valid_for) = token.into_parts();
            state.core.provide_token(now, token, valid_for);
        }
        Err(reason) => state.core.token_unavailable(now, &reason),
    });
}

/// One question to the provider.
struct Asking {
    shared: Arc<Shared>,
    question: u64,
    future: Option<BoxFuture<Provided>>,
}

impl Future for Asking {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { shared, question, future } = &mut *self;
        if !shared.tokens.is_wanted(*question, cx.waker()) {
            return Poll::Ready(());
        }
        let polled = catch_unwind(AssertUnwindSafe(|| {
            if future.is_none() {
                *future = shared.tokens.call();
            }
            match future {
                Some(future) => future.as_mut().poll(cx),
                None => Poll::Ready(Err("there is no provider".into())),
            }
        }));
        // The panic's text is the application's, and may hold what must not be shown.
        let provided = polled.unwrap_or_else(|_| Poll::Ready(Err("its provider panicked".into())));
        provided.map(|provided| {
            if shared.tokens.finish(*question) {
                answer(shared, provided);
            }
        })
    }
}
