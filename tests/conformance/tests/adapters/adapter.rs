//! What differs between adapters: how a client is told where to run, and how its user waits.

use std::{fmt::Debug, future::IntoFuture, sync::Weak, thread, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _};
use nolag::{
    ApiOptions, Client, CloseFuture, ConnectFuture, DecodeError, Emit, EmitMany, FlushFuture, HandlerId,
    Messages, Next, Options, Request, Runtime, StreamFuture, Subscribe, TypedMessage, TypedMessages, WaitFor,
    api::ApiCall,
};
use serde::de::DeserializeOwned;
use tokio::runtime;

use crate::world::Tell;

/// Far more than anything here takes; only a failure waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How long a look at a condition that nothing announces is away.
const PAUSE: Duration = Duration::from_millis(1);

/// One way to use the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adapter {
    /// tokio with two workers.
    Tokio,
    /// tokio on one thread, which is the case's own: the client gets nothing done unless the case waits.
    TokioCurrentThread,
    /// async-std, on its global executor.
    AsyncStd,
    /// smol, on its global executor.
    Smol,
    /// Threads, without any async runtime.
    Blocking,
}

/// What runs a case.
pub(crate) enum Driver {
    Tokio(runtime::Runtime),
    AsyncStd,
    Smol,
    Blocking,
}

/// What a case can wait for: everything that the client gives out to be awaited.
pub(crate) trait Wait: IntoFuture + Sized {
    /// Waits on this thread, without any async runtime.
    #[track_caller]
    fn wait_here(self) -> Self::Output;
}

impl Adapter {
    pub(crate) const ALL: [Self; 5] =
        [Self::Tokio, Self::TokioCurrentThread, Self::AsyncStd, Self::Smol, Self::Blocking];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio",
            Self::TokioCurrentThread => "tokio-current-thread",
            Self::AsyncStd => "async-std",
            Self::Smol => "smol",
            Self::Blocking => "blocking",
        }
    }

    /// Says where the client runs.
    pub(crate) fn choose(self, options: Options) -> Options {
        self.runtime().into_iter().fold(options, Options::runtime)
    }

    /// Says where the client of the control plane runs.
    pub(crate) fn choose_for_api(self, options: ApiOptions) -> ApiOptions {
        self.runtime().into_iter().fold(options, ApiOptions::runtime)
    }

    /// What options are told, if anything.
    fn runtime(self) -> Option<Runtime> {
        match self {
            // The default.
            Self::Tokio => None,
            Self::TokioCurrentThread => Some(Runtime::Tokio),
            Self::AsyncStd => Some(Runtime::AsyncStd),
            Self::Smol => Some(Runtime::Smol),
            Self::Blocking => Some(Runtime::Blocking),
        }
    }

    /// Clients that are many for it: each blocking one has threads of its own.
    pub(crate) fn many_clients(self) -> usize {
        if self == Self::Blocking { 100 } else { 1000 }
    }

    pub(crate) fn driver(self) -> Driver {
        let mut builder = match self {
            Self::Tokio => runtime::Builder::new_multi_thread(),
            Self::TokioCurrentThread => runtime::Builder::new_current_thread(),
            Self::AsyncStd => return Driver::AsyncStd,
            Self::Smol => return Driver::Smol,
            Self::Blocking => return Driver::Blocking,
        };
        Driver::Tokio(builder.worker_threads(2).enable_all().build().expect("a runtime starts"))
    }
}

impl Driver {
    /// Runs something where a user of the adapter would call the client from.
    pub(crate) fn inside<R>(&self, what: impl FnOnce() -> R) -> R {
        let _guard = match self {
            Self::Tokio(runtime) => Some(runtime.enter()),
            Self::AsyncStd | Self::Smol | Self::Blocking => None,
        };
        what()
    }

    /// Waits, but not for ever.
    #[track_caller]
    pub(crate) fn wait<W: Wait>(&self, what: W) -> W::Output {
        match self {
            Self::Blocking => what.wait_here(),
            _ => self.block_on(what),
        }
    }

    /// Waits for something that was begun elsewhere, on its own.
    pub(crate) fn start<W>(&self, what: W, tell: Tell<W::Output>)
    where
        W: Wait<IntoFuture: Send + 'static, Output: Send + 'static> + Send + 'static,
    {
        if matches!(self, Self::Blocking) {
            thread::spawn(move || tell.send(what.wait_here()));
            return;
        }
        let task = what.into_future().map(move |done| tell.send(done));
        match self {
            Self::Tokio(runtime) => drop(runtime.spawn(task)),
            Self::AsyncStd => drop(async_std::task::spawn(task)),
            Self::Smol => smol::spawn(task).detach(),
            Self::Blocking => {}
        }
    }

    /// A handler that makes a call, waits for it and tells its outcome.
    pub(crate) fn on_waiting<W>(
        &self,
        client: &Client,
        topic: &str,
        make: impl Fn() -> W + Send + 'static,
        tell: Tell<W::Output>,
    ) -> HandlerId
    where
        W: Wait<IntoFuture: Send + 'static, Output: Send + 'static> + 'static,
    {
        match self {
            Self::Blocking => client.on(topic, move |_| tell.send(make().wait_here())),
            _ => client.on(topic, move |_| {
                let tell = tell.clone();
                make().into_future().map(move |done| tell.send(done))
            }),
        }
    }

    /// The data of so many messages.
    #[track_caller]
    pub(crate) fn take<T: Data>(&self, stream: &mut TypedMessages<T>, count: usize) -> Vec<T> {
        match self {
            Self::Blocking => stream.iter().take(count).map(data).collect(),
            _ => self.block_on(stream.take(count).map(data).collect::<Vec<_>>()),
        }
    }

    /// The data of all messages to the end of the stream.
    #[track_caller]
    pub(crate) fn rest<T: Data>(&self, mut stream: TypedMessages<T>) -> Vec<T> {
        match self {
            Self::Blocking => {
                let mut rest = Vec::new();
                for message in stream.iter() {
                    rest.push(data(message));
                }
                rest
            }
            _ => self.block_on(stream.map(data).collect::<Vec<_>>()),
        }
    }

    /// Lets the client have a moment.
    pub(crate) fn pause(&self) {
        match self {
            Self::Tokio(runtime) => runtime.block_on(tokio::time::sleep(PAUSE)),
            Self::AsyncStd | Self::Smol | Self::Blocking => thread::sleep(PAUSE),
        }
    }

    /// Whether nothing is left of a client that was just dropped and whose handlers held this. A runtime ends its tasks
    /// in its own time, but threads are waited for by the drop.
    #[track_caller]
    pub(crate) fn is_over(&self, held: &Weak<()>) -> bool {
        let released = held.strong_count() == 0;
        match self {
            Self::Tokio(runtime) => released && runtime.metrics().num_alive_tasks() == 0,
            // They do not tell how many tasks they have.
            Self::AsyncStd | Self::Smol => released,
            Self::Blocking => {
                assert!(released, "a thread still has it");
                true
            }
        }
    }

    #[track_caller]
    fn block_on<F: IntoFuture>(&self, what: F) -> F::Output {
        let what = what.into_future();
        let done = match self {
            Self::Tokio(runtime) => {
                runtime.block_on(async { tokio::time::timeout(PATIENCE, what).await.ok() })
            }
            Self::AsyncStd => async_std::task::block_on(async_std::future::timeout(PATIENCE, what)).ok(),
            Self::Smol => {
                let over = async {
                    smol::Timer::after(PATIENCE).await;
                    None
                };
                smol::block_on(smol::future::or(what.map(Some), over))
            }
            Self::Blocking => unreachable!("it waits for nothing but what the client gives out"),
        };
        done.expect("it took too long")
    }
}

/// What streams of a case are made of.
pub(crate) trait Data: DeserializeOwned + Debug {}

impl<T: DeserializeOwned + Debug> Data for T {}

fn data<T: Data>(message: Result<TypedMessage<T>, DecodeError>) -> T {
    message.expect("it is of the expected type").into_data()
}

/// What ends as a result, which also says that it took too long.
macro_rules! wait_for_result {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<$($generics)*> Wait for $type {
            fn wait_here(self) -> Self::Output {
                self.wait(PATIENCE)
            }
        }
    )*};
}

wait_for_result! {
    [] ConnectFuture;
    [] Emit;
    [] EmitMany;
    [T: 'static] Request<T>;
    [] Subscribe;
    [S: From<Messages>] StreamFuture<S>;
}

/// It has a limit of its own.
impl<T> Wait for ApiCall<T> {
    fn wait_here(self) -> Self::Output {
        self.wait()
    }
}

macro_rules! wait_for_output {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<$($generics)*> Wait for $type {
            fn wait_here(self) -> Self::Output {
                self.wait(PATIENCE).expect("it took too long")
            }
        }
    )*};
}

wait_for_output! {
    [] CloseFuture;
    [] FlushFuture;
    [S: futures_util::Stream + Unpin] Next<'_, S>;
    [] WaitFor<'_>;
}
