//! The same test on every runtime that the crate has.

#[cfg(feature = "tokio")]
use std::sync::OnceLock;
use std::{sync::mpsc, thread};

use nolag::{NoLagApiError, Runtime, api::ApiCall};

use crate::PATIENCE;

/// Does the test on all runtimes at the same time.
pub(crate) fn on_every_runtime(test: impl Fn(Runtime) + Sync) {
    let runtimes = [
        #[cfg(feature = "tokio")]
        Runtime::Tokio,
        #[cfg(feature = "async-std")]
        Runtime::AsyncStd,
        #[cfg(feature = "smol")]
        Runtime::Smol,
        #[cfg(feature = "blocking")]
        Runtime::Blocking,
    ];
    let test = &test;
    thread::scope(|scope| {
        for runtime in runtimes {
            let name = format!("{runtime:?}");
            thread::Builder::new().name(name).spawn_scoped(scope, move || test(runtime)).unwrap();
        }
    });
}

/// The outcome of a call.
pub(crate) fn run<T: Send + 'static>(runtime: Runtime, call: ApiCall<T>) -> Result<T, NoLagApiError> {
    soon(move || match runtime {
        #[cfg(feature = "blocking")]
        Runtime::Blocking => call.wait(),
        _ => drive(runtime, call),
    })
}

/// The output of a future that calls of this runtime are awaited in.
pub(crate) fn drive<F: Future>(runtime: Runtime, future: F) -> F::Output {
    match runtime {
        #[cfg(feature = "tokio")]
        Runtime::Tokio => tokio().block_on(future),
        #[cfg(feature = "async-std")]
        Runtime::AsyncStd => async_std::task::block_on(future),
        // The others need nothing around them.
        _ => smol::block_on(future),
    }
}

/// Fails the test instead of hanging.
pub(crate) fn soon<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = mpsc::channel();
    thread::spawn(move || done.send(what()));
    outcome.recv_timeout(2 * PATIENCE).expect("it took too long")
}

#[cfg(feature = "tokio")]
fn tokio() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    })
}
