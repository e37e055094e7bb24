//! Asking the application for tokens: on a task of its own, so that a slow provider holds up nothing.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use super::{
    Shared,
    caught::{catch, dispose},
    lock,
};
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
    /// Whether a task is in the provider's code. Others would only collect behind it, so it goes on with the last question.
    calling: bool,
    waker: Option<Waker>,
}

impl Tokens {
    pub(crate) fn new(provider: Option<Provider>) -> Self {
        Self { provider: provider.map(Mutex::new), open: Mutex::default() }
    }

    /// Nobody wants an answer any more: what the provider was doing is dropped.
    pub(super) fn cancel(&self) {
        self.change(|open| open.wanted = false);
    }

    /// Opens a question in place of an earlier one: its number, if it takes a new task to ask it.
    fn begin(&self) -> Option<u64> {
        self.change(|open| {
            open.last += 1;
            open.wanted = true;
            (!open.calling).then_some(open.last)
        })
    }

    /// Changes what is asked, and lets the task that asks know.
    fn change<R>(&self, change: impl FnOnce(&mut Open) -> R) -> R {
        let mut open = lock(&self.open);
        let result = change(&mut open);
        let waker = open.waker.take();
        drop(open);
        if let Some(waker) = waker {
            waker.wake();
        }
        result
    }

    /// A task goes into the provider's code, if an answer to its question is still wanted; it is woken once none is.
    fn enter(&self, question: u64, waker: &Waker) -> bool {
        let mut open = lock(&self.open);
        let wanted = open.wanted && open.last == question;
        if wanted {
            open.calling = true;
            open.waker = Some(waker.clone());
        }
        wanted
    }

    /// It comes back without an answer, and has this question from now on.
    fn leave(&self) -> u64 {
        let mut open = lock(&self.open);
        open.calling = false;
        open.last
    }

    /// It comes back with an answer, which closes the question that is open now: it is as fresh as can be had. `false` if
    /// none is wanted.
    fn close(&self) -> bool {
        let mut open = lock(&self.open);
        open.calling = false;
        mem::take(&mut open.wanted)
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
    let Some(question) = shared.tokens.begin() else { return };
    let asking = Asking { shared: shared.clone(), question, future: None };
    if !shared.driver.spawn(Box::pin(asking)) {
        answer(shared, Err("there is no runtime to ask its provider on".into()));
    }
}

fn answer(shared: &Arc<Shared>, provided: Provided) {
    if !shared.tokens.close() {
        return;
    }
    shared.enter(|state, now| match provided {
        Ok(token) => {
            let (token, valid_for) = token.into_parts();
            state.core.provide_token(now, token, valid_for);
        }
        Err(reason) => state.core.token_unavailable(now, &reason),
    });
}

/// Asks the provider.
struct Asking {
    shared: Arc<Shared>,
    question: u64,
    future: Option<BoxFuture<Provided>>,
}

impl Future for Asking {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { shared, question, future } = &mut *self;
        while shared.tokens.enter(*question, cx.waker()) {
            let polled = catch(|| {
                if future.is_none() {
                    *future = shared.tokens.call();
                }
                match future {
                    Some(future) => future.as_mut().poll(cx),
                    None => Poll::Ready(Err("there is no provider".into())),
                }
            });
            let provided = match polled {
                Ok(Poll::Ready(provided)) => provided,
                Ok(Poll::Pending) => {
                    let latest = shared.tokens.leave();
                    if latest == *question {
                        return Poll::Pending;
                    }
                    // Asked anew, it is called anew.
                    *question = latest;
                    dispose(future.take());
                    continue;
                }
                Err(panic) => {
                    // Its text is the application's, and may hold what must not be shown.
                    dispose(panic);
                    Err("its provider panicked".into())
                }
            };
            dispose(future.take());
            answer(shared, provided);
            return Poll::Ready(());
        }
        dispose(future.take());
        Poll::Ready(())
    }
}
