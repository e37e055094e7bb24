//! What an application sees of the client, over real sockets on the loopback interface: against a scripted server
//! where the server's part matters to the byte, else against the development broker.

mod backpressure;
#[cfg(feature = "blocking")]
mod blocking;
mod broker;
mod connecting;
mod events;
mod filters;
mod from_python;
mod futures;
mod handlers;
mod leaving;
mod lobbies;
mod presence;
mod publishing;
mod reconnecting;
mod server;
mod subscribing;
#[cfg(feature = "tls")]
mod tls;
mod tokens;
#[cfg(feature = "tracing")]
mod traces;

use std::{
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use nolag::{Client, Options};
use nolag_broker::TestBroker;

/// Far more than anything here takes; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Fails the test instead of hanging.
async fn soon<F: IntoFuture>(what: F) -> F::Output {
    tokio::time::timeout(PATIENCE, what).await.expect("it took too long")
}

/// Waits for a condition that nothing announces.
async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Polls once.
async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_pending())).await
}

/// Reconnects at once.
fn options(url: &str) -> Options {
    Options::new(url).reconnect_interval(Duration::from_millis(1)).reconnect_stable_after(Duration::ZERO)
}

/// An actor's client, connected.
async fn connect(broker: &TestBroker, actor: &str) -> Client {
    let client = Client::new(broker.token(actor), options(&broker.url()));
    soon(client.connect()).await.unwrap();
    client
}

/// What handlers have seen, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, entry: impl Into<String>) {
        self.0.lock().unwrap().push(entry.into());
    }

    fn entries(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn has(&self, part: &str) -> bool {
        self.entries().iter().any(|entry| entry.contains(part))
    }

    async fn wait_for(&self, part: &str) {
        until(part, || self.has(part)).await;
    }

    /// Writes down everything that a client tells about its connection.
    fn watch(&self, client: &Client) {
        let log = self.clone();
        client.on_connect(move || log.add("connect"));
        let log = self.clone();
        client.on_reconnect(move |_| log.add("reconnect"));
        let log = self.clone();
        client.on_disconnect(move |reason| log.add(format!("disconnect: {reason}")));
        let log = self.clone();
        client.on_error(move |error| log.add(format!("error: {error}")));
    }
}
