//! What a case has at hand.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak, mpsc},
    time::{Duration, Instant},
};

use nolag::{
    ApiOptions, Client, Error, HandlerId, Message, Messages, NoLagApi, Options, TransportError, TypedMessages,
};
use nolag_broker::{BlockingTestBroker, Expected, Profile, RecordedFrame, TestBroker, TestBrokerBuilder};

use crate::adapter::{Adapter, Data, Driver, PATIENCE, Wait};

/// A topic of the room in which most cases play.
pub(crate) const TOPIC: &str = "demo/general/messages";

/// One adapter and one kind of broker.
pub(crate) struct World {
    pub(crate) adapter: Adapter,
    pub(crate) profile: Profile,
    driver: Driver,
}

impl World {
    pub(crate) fn new(adapter: Adapter, profile: Profile) -> Self {
        Self { adapter, profile, driver: adapter.driver() }
    }

    pub(crate) fn run(&self, case: fn(&Self)) {
        self.driver.inside(|| case(self));
    }

    // ---- brokers and clients ----

    /// A broker of the world's kind.
    pub(crate) fn broker(&self) -> BlockingTestBroker {
        self.broker_with(|broker| broker)
    }

    /// The same with something changed.
    pub(crate) fn broker_with(
        &self,
        change: impl FnOnce(TestBrokerBuilder) -> TestBrokerBuilder,
    ) -> BlockingTestBroker {
        BlockingTestBroker::start_with(change(TestBroker::builder().profile(self.profile)))
    }

    /// The adapter's options for an address: like a user's, but reconnecting at once.
    pub(crate) fn options(&self, url: &str) -> Options {
        let quick = Duration::from_millis(1);
        let options = Options::new(url).reconnect_interval(quick).reconnect_stable_after(Duration::ZERO);
        self.adapter.choose(options)
    }

    /// An actor's client, not connected.
    pub(crate) fn client(&self, broker: &TestBroker, actor: &str) -> Client {
        Client::new(broker.token(actor), self.options(&broker.url()))
    }

    /// An actor's client, connected.
    #[track_caller]
    pub(crate) fn connect(&self, broker: &TestBroker, actor: &str) -> Client {
        self.connect_with(broker, actor, |options| options)
    }

    /// An actor's client, connected, and what it tells about its connection from the start on.
    #[track_caller]
    pub(crate) fn watched(&self, broker: &TestBroker, actor: &str) -> (Client, Log) {
        let client = self.client(broker, actor);
        let log = Log::watch(&client);
        self.wait(client.connect()).expect("the broker takes everybody");
        (client, log)
    }

    /// An actor's client with other options, connected.
    #[track_caller]
    pub(crate) fn connect_with(
        &self,
        broker: &TestBroker,
        actor: &str,
        change: impl FnOnce(Options) -> Options,
    ) -> Client {
        let client = Client::new(broker.token(actor), change(self.options(&broker.url())));
        self.wait(client.connect()).expect("the broker takes everybody");
        client
    }

    /// A client of a broker's control plane.
    pub(crate) fn api(&self, broker: &TestBroker) -> NoLagApi {
        NoLagApi::new(broker.api_key(), self.api_options(&broker.api_url(), &broker.url()))
    }

    /// The adapter's options for a control plane and its broker: like a user's, but trying again at once.
    pub(crate) fn api_options(&self, api_url: &str, broker_url: &str) -> ApiOptions {
        let options =
            ApiOptions::new(api_url).broker_url(broker_url).retry_interval(Duration::from_millis(1));
        self.adapter.choose_for_api(options)
    }

    // ---- waiting ----

    /// Waits as users of the adapter do.
    #[track_caller]
    pub(crate) fn wait<W: Wait>(&self, what: W) -> W::Output {
        self.driver.wait(what)
    }

    /// Begins to wait for something while the case goes on; what comes of it is sent.
    pub(crate) fn start<W>(&self, what: W, tell: Tell<W::Output>)
    where
        W: Wait<IntoFuture: Send + 'static, Output: Send + 'static> + Send + 'static,
    {
        self.driver.start(what, tell);
    }

    /// A handler that makes a call and waits for it inside itself, as users of the adapter do; what comes of it is sent.
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
        self.driver.on_waiting(client, topic, make, tell)
    }

    /// Waits for a condition that nothing announces.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !condition() {
            assert!(Instant::now() < deadline, "not in time: {what}");
            self.driver.pause();
        }
    }

    /// Waits for what a handler or callback sends.
    #[track_caller]
    pub(crate) fn receive<T>(&self, receiver: &mpsc::Receiver<T>) -> T {
        let mut received = None;
        self.until("something is sent", || {
            received = receiver.try_recv().ok();
            received.is_some()
        });
        received.expect("it was seen")
    }

    /// The next message.
    #[track_caller]
    pub(crate) fn message(&self, stream: &mut Messages) -> Message {
        self.wait(stream.next()).expect("the stream goes on")
    }

    /// The data of the next message.
    #[track_caller]
    pub(crate) fn data<T: Data>(&self, stream: &mut TypedMessages<T>) -> T {
        let message = self.wait(stream.next()).expect("the stream goes on");
        message.expect("it is of the expected type").into_data()
    }

    /// The data of the next so many messages, read as a stream or iterator.
    #[track_caller]
    pub(crate) fn take<T: Data>(&self, stream: &mut TypedMessages<T>, count: usize) -> Vec<T> {
        self.driver.take(stream, count)
    }

    /// The data of all messages to the end of a stream.
    #[track_caller]
    pub(crate) fn rest<T: Data>(&self, stream: TypedMessages<T>) -> Vec<T> {
        self.driver.rest(stream)
    }

    /// Waits until at least so many of these frames went through the broker, and returns all of them.
    #[track_caller]
    pub(crate) fn frames(
        &self,
        broker: &BlockingTestBroker,
        expected: &Expected,
        at_least: usize,
    ) -> Vec<RecordedFrame> {
        let mut frames = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        loop {
            frames.clear();
            frames.extend(broker.block_on(broker.recorder().matching(expected)));
            if frames.len() >= at_least {
                return frames;
            }
            if Instant::now() >= deadline {
                let all = broker.block_on(broker.recorder().frames());
                panic!("not in time: {at_least} of {expected}, but {all:#?}");
            }
            self.driver.pause();
        }
    }

    /// Waits until so many connections are open.
    #[track_caller]
    pub(crate) fn connections(&self, broker: &BlockingTestBroker, count: usize) {
        self.until(&format!("{count} connections"), || broker.block_on(broker.connections()).len() == count);
    }

    /// Waits until nothing is left of a client that was just dropped and whose handlers held this.
    #[track_caller]
    pub(crate) fn all_is_over(&self, held: &Weak<()>) {
        self.until("nothing of it is left", || self.driver.is_over(held));
    }

    /// Waits for an entry that holds this text.
    #[track_caller]
    pub(crate) fn heard(&self, log: &Log, part: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !log.has(part) {
            assert!(Instant::now() < deadline, "not in time: {part:?} in {:#?}", log.entries());
            self.driver.pause();
        }
    }
}

/// The network's fault with which an attempt to connect ended.
#[track_caller]
pub(crate) fn transport_error(outcome: Result<(), Error>) -> TransportError {
    match outcome {
        Err(Error::Transport(error)) => error,
        other => panic!("no fault of the network: {other:?}"),
    }
}

/// Brings what handlers and callbacks are told to the case.
pub(crate) fn channel<T>() -> (Tell<T>, mpsc::Receiver<T>) {
    let (tell, told) = mpsc::channel();
    (Tell(tell), told)
}

/// The handlers' end of a [`channel`].
pub(crate) struct Tell<T>(mpsc::Sender<T>);

impl<T> Tell<T> {
    /// The case may be over, and what happens at its end interests nobody.
    pub(crate) fn send(&self, value: T) {
        let _ = self.0.send(value);
    }
}

impl<T> Clone for Tell<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// What handlers have told, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, entry: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(entry.into());
    }

    pub(crate) fn entries(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn has(&self, part: &str) -> bool {
        self.entries().iter().any(|entry| entry.contains(part))
    }

    /// How many entries begin with this text.
    pub(crate) fn count(&self, start: &str) -> usize {
        self.entries().iter().filter(|entry| entry.starts_with(start)).count()
    }

    /// Writes down everything that a client tells about its connection.
    pub(crate) fn watch(client: &Client) -> Self {
        let log = Self::default();
        let seen = log.clone();
        client.on_connect(move || seen.add("connect"));
        let seen = log.clone();
        client.on_reconnect(move |_| seen.add("reconnect"));
        let seen = log.clone();
        client.on_restored(move |event| seen.add(format!("restored, gap {}", event.possible_gap)));
        let seen = log.clone();
        client.on_disconnect(move |reason| seen.add(format!("disconnect: {reason}")));
        let seen = log.clone();
        client.on_error(move |error| seen.add(format!("error: {error}")));
        log
    }
}
