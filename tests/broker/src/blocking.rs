//! A broker for one test that has no async runtime.

use std::{ops::Deref, thread};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

use crate::{TestBroker, TestBrokerBuilder};

/// A [`TestBroker`] on a thread of its own, for tests without an async runtime.
///
/// It has everything that a [`TestBroker`] has; [`block_on`](Self::block_on) waits for what is asynchronous there.
///
/// ```
/// use nolag_broker::{BlockingTestBroker, Fault, TestBroker};
///
/// let broker = BlockingTestBroker::start();
/// let (url, token) = (broker.url(), broker.token("alice"));
/// broker.block_on(broker.fault(Fault::cut().on("publish").times(1)));
///
/// let other = BlockingTestBroker::start_with(TestBroker::builder().durable_delivery(true));
/// assert_ne!(url, other.url());
/// # drop(token);
/// ```
#[derive(Debug)]
pub struct BlockingTestBroker {
    broker: TestBroker,
    runtime: Handle,
    _thread: Running,
}

/// The thread that the broker runs on. It ends with its owner, and the broker's tasks with it.
#[derive(Debug)]
struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl BlockingTestBroker {
    /// Starts a broker with everything at its default. It is ready when this returns, and stops when dropped.
    ///
    /// # Panics
    /// When the system has no free port on the loopback interface, or no thread to spare; also inside an async runtime,
    /// where [`TestBroker`] belongs.
    pub fn start() -> Self {
        Self::start_with(TestBroker::builder())
    }

    /// Starts with options.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn start_with(builder: TestBrokerBuilder) -> Self {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => panic!("the test broker's runtime does not start: {error}"),
        };
        let handle = runtime.handle().clone();
        let broker = runtime.block_on(builder.start());
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            // Ends when the sender is used or gone.
            let _ = runtime.block_on(stopped);
        });
        let thread = Running { stop: Some(stop), thread: Some(thread) };
        Self { broker, runtime: handle, _thread: thread }
    }

    /// Waits for something asynchronous, for example `broker.block_on(broker.cut_all())`.
    ///
    /// # Panics
    /// Inside an async runtime.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

impl Deref for BlockingTestBroker {
    type Target = TestBroker;

    fn deref(&self) -> &TestBroker {
        &self.broker
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was already reported.
            let _ = thread.join();
        }
    }
}
