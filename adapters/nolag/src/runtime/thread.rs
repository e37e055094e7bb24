//! Work that blocks, on a thread of its own.

use std::{
    future::poll_fn,
    io,
    sync::{Arc, Mutex},
    task::{Poll, Waker},
    thread,
};

use crate::engine::lock;

/// Does the work on a thread of this name. The future may be dropped at any time; the thread then ends by itself when
/// the work is done. It fails when there is no thread, and when the work panics.
pub(crate) async fn run<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let result = Arc::new(Mutex::new(Handover { value: None, waker: None }));
    let theirs = Giver(result.clone());
    thread::Builder::new().name(name.into()).spawn(move || theirs.give(Ok(work())))?;
    poll_fn(|cx| {
        let mut result = lock(&result);
        match result.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                result.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}

struct Handover<T> {
    value: Option<io::Result<T>>,
    waker: Option<Waker>,
}

/// Hands a result over. One that is dropped says that there will be none.
struct Giver<T>(Arc<Mutex<Handover<T>>>);

impl<T> Giver<T> {
    fn give(&self, value: io::Result<T>) {
        let mut handover = lock(&self.0);
        handover.value = Some(value);
        let waker = handover.waker.take();
        drop(handover);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        // Nothing but a panic comes here without a result.
        if thread::panicking() {
            self.give(Err(io::Error::other("its thread panicked")));
        }
    }
}

#[cfg(all(test, feature = "blocking"))]
mod tests {
    use super::*;
    use crate::runtime::blocking::block_on;

    #[test]
    fn the_result_of_the_work_comes_back() {
        assert_eq!(block_on(run("test", || 3), None).unwrap().unwrap(), 3);
    }

    #[test]
    fn work_that_panics_is_an_error() {
        let panics: fn() = || panic!("as the test wants it");
        let error = block_on(run("test", panics), None).unwrap().unwrap_err();
        assert_eq!(error.to_string(), "its thread panicked");
    }
}
