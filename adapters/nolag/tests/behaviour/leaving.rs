//! Leaving, and leaving nothing behind.

use std::{sync::Arc, time::Duration};

use nolag::{Client, EmitError, Error, Rejection, Status, TransportErrorKind};
use nolag_core::wire::ClientFrame;
use tokio::sync::Semaphore;

use crate::{Log, is_pending, options, server::ScriptedServer, soon, until};

#[tokio::test]
async fn closing_finishes_what_was_accepted() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let log = Log::default();
    log.watch(&client);
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    for n in 0..100 {
        client.emit("a/b/c", &n).send().unwrap();
    }
    let mut closing = Box::pin(client.close());
    assert!(is_pending(&mut closing).await);
    assert_eq!(client.emit("a/b/c", &1).send(), Err(Rejection::Closing.into()));
    let ((), ()) = tokio::join!(soon(closing), async {
        for _ in 0..100 {
            peer.confirm_publish().await;
        }
        peer.ended().await;
    });
    assert_eq!(client.status(), Status::Disconnected);
    assert_eq!(log.entries(), ["connect", "disconnect: the client was disconnected by the application"]);
}

#[tokio::test]
async fn closing_waits_for_the_handlers_of_what_was_received() {
    const MESSAGES: u32 = 1000;
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()).drain_timeout(Duration::from_secs(3600)));
    let log = Log::default();
    log.watch(&client);
    let gate = Arc::new(Semaphore::new(0));
    let (seen, handler_gate) = (log.clone(), gate.clone());
    client.on("a/b/c", move |message| {
        let (seen, gate) = (seen.clone(), handler_gate.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            seen.add(message.data::<u32>().unwrap().to_string());
        }
    });
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let (subscribed, _) = tokio::join!(soon(client.subscribe("a/b/c")), peer.confirm_subscribe());
    subscribed.unwrap();
    // More than the queue of the handlers holds.
    for n in 0..MESSAGES {
        peer.deliver("a/b/c", &n).await;
    }
    until("all arrived", || client.stats().core.messages_received == u64::from(MESSAGES)).await;
    let mut closing = Box::pin(client.close());
    let waiting = tokio::select! {
        () = &mut closing => false,
        () = peer.ended() => true,
    };
    assert!(waiting && is_pending(&mut closing).await);
    gate.add_permits(MESSAGES as usize);
    soon(closing).await;
    // The connection's end overtakes the messages that did not fit into the queue.
    assert_eq!(log.entries().len(), 1 + MESSAGES as usize + 1);
    assert!(log.has("disconnect"));
}

#[tokio::test]
async fn closing_does_not_wait_for_a_handler_that_hangs() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()).drain_timeout(Duration::from_millis(20)));
    client.on_connect(std::future::pending);
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let ((), ()) = tokio::join!(soon(client.close()), peer.ended());
    // Nor for a stream that nobody reads.
    let client = Client::new("token", options(&server.url()).drain_timeout(Duration::from_secs(3600)));
    client.on("a/b/d", |_| ());
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let subscribe = client.subscribe("a/b/c").buffer(1).messages();
    let (stream, _) = tokio::join!(soon(subscribe), peer.confirm_subscribe());
    for n in 0..3 {
        peer.deliver("a/b/c", &n).await;
    }
    until("all arrived", || client.stats().core.messages_received == 3).await;
    let ((), ()) = tokio::join!(soon(client.close()), peer.ended());
    drop(stream);
}

#[tokio::test]
async fn a_dropped_close_leaves_no_waker_with_a_connection_that_is_not_closed() {
    struct Kept;
    impl std::task::Wake for Kept {
        fn wake(self: Arc<Self>) {}
    }
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    // The peer reads nothing more, and so does not answer our goodbye.
    let (connected, _peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    client.disconnect();
    until("it has left", || client.status() == Status::Disconnected).await;
    let kept = Arc::new(Kept);
    let waker = kept.clone().into();
    let mut close = Box::pin(client.close());
    assert!(close.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    drop((close, waker));
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[tokio::test]
async fn a_handler_may_close_the_client_that_called_it() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()).drain_timeout(Duration::from_secs(3600)));
    let log = Log::default();
    log.watch(&client);
    let (weak, seen) = (client.downgrade(), log.clone());
    client.on_any(move |_| {
        let (client, seen) = (weak.upgrade().unwrap(), seen.clone());
        async move {
            client.close().await;
            seen.add("closed from inside");
        }
    });
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    peer.deliver("a/b/c", &1).await;
    peer.ended().await;
    log.wait_for("disconnect").await;
    assert_eq!(log.entries()[1], "closed from inside");
}

#[tokio::test]
async fn flushing_waits_for_every_outcome() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    soon(client.flush()).await;
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    for n in 0..10 {
        client.emit("a/b/c", &n).send().unwrap();
    }
    let mut flush = client.flush();
    for _ in 0..10 {
        assert!(is_pending(&mut flush).await);
        // What comes later is not waited for.
        client.emit("a/b/c", "later").send().unwrap();
        peer.confirm_publish().await;
    }
    soon(flush).await;
}

#[tokio::test]
async fn a_peer_that_does_not_answer_is_left_in_time() {
    let server = ScriptedServer::start().await;
    let options = options(&server.url()).drain_timeout(Duration::from_millis(50));
    let client = Client::new("token", options);
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let (outcome, (), _) =
        tokio::join!(soon(client.emit("a/b/c", &1)), soon(client.close()), peer.published());
    assert!(matches!(outcome, Err(EmitError::Unknown(_))), "{outcome:?}");
}

#[tokio::test]
async fn a_client_may_leave_and_come_back() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    for _ in 0..3 {
        let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
        connected.unwrap();
        let (stream, _) = tokio::join!(soon(client.subscribe("a/b/c").messages()), peer.confirm_subscribe());
        let ((), ()) = tokio::join!(soon(client.close()), peer.ended());
        assert!(soon(stream.unwrap().next()).await.is_none());
    }
    assert_eq!(client.stats().core.sessions, 3);
}

#[tokio::test]
async fn closing_without_a_connection_is_done_at_once() {
    let client = Client::new("token", options("ws://127.0.0.1:9/ws"));
    soon(client.close()).await;
    client.disconnect();
}

#[tokio::test]
async fn the_last_handle_ends_connection_and_tasks() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let log = Log::default();
    log.watch(&client);
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let tasks = tokio::runtime::Handle::current().metrics();
    assert_eq!(tasks.num_alive_tasks(), 2);
    let room = client.app("demo").room("general");
    let weak = client.downgrade();
    drop(client);
    // The room still holds it.
    room.emit("messages", "last words").send().unwrap();
    drop(room);
    assert!(weak.upgrade().is_none());
    let frame = peer.frame().await;
    let last = ClientFrame::decode(&frame);
    assert!(matches!(last, Ok(ClientFrame::Publish(_))), "{last:?}");
    drop(peer);
    log.wait_for("disconnect").await;
    until("the tasks end", || tasks.num_alive_tasks() == 0).await;
}

#[tokio::test]
async fn a_client_that_never_connects_leaves_nothing() {
    let client = Client::new("token", options("ws://127.0.0.1:9/ws"));
    client.on_any(|_| ());
    let tasks = tokio::runtime::Handle::current().metrics();
    drop(client);
    assert_eq!(tasks.num_alive_tasks(), 0);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_client_survives_its_runtime() {
    let first = runtime();
    let server = first.block_on(ScriptedServer::start());
    let client = Client::new("token", options(&server.url()));
    let (mut stream, mut emit, _peer) = first.block_on(async {
        let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
        connected.unwrap();
        let (stream, _) = tokio::join!(soon(client.subscribe("a/b/c").messages()), peer.confirm_subscribe());
        let mut emit = client.emit("a/b/c", &1).into_future();
        assert!(is_pending(&mut emit).await);
        peer.published().await;
        (stream.unwrap(), emit, peer)
    });
    drop(server);
    drop(first);
    assert_eq!(client.status(), Status::Disconnected);
    let log = Log::default();
    log.watch(&client);
    runtime().block_on(async {
        assert!(soon(stream.next()).await.is_none());
        let unknown = soon(&mut emit).await.unwrap_err();
        assert!(unknown.to_string().contains("the tokio runtime that ran it has shut down"), "{unknown}");
        let refused = client.connect().await.unwrap_err();
        assert!(matches!(refused, Error::Transport(_)), "{refused}");
        // The handlers run again, and hear what has happened meanwhile.
        log.wait_for("error: will not connect again by itself: the connection failed: the tokio runtime")
            .await;
        assert!(log.has("disconnect: the connection failed: the tokio runtime"), "{:?}", log.entries());
        let server = ScriptedServer::start().await;
        let client = Client::new("token", options(&server.url()));
        let (connected, _peer) = tokio::join!(soon(client.connect()), server.session());
        connected.unwrap();
    });
}

/// Connects without a server: what is missing is found out before.
fn missing(connect: impl FnOnce(Client) -> Result<(), Error>) -> String {
    let client = Client::new("token", options("ws://127.0.0.1:9/ws"));
    let error = connect(client.clone()).unwrap_err();
    let Error::Transport(transport) = &error else { panic!("{error:?}") };
    assert_eq!((transport.kind, client.status()), (TransportErrorKind::Io, Status::Disconnected));
    // What went wrong is told once.
    assert_eq!(client.emit("a/b/c", &1).send(), Err(Rejection::NotConnected.into()));
    error.to_string()
}

#[test]
fn connecting_outside_a_runtime_says_what_is_missing() {
    let error = missing(|client| {
        let mut connect = Box::pin(client.connect());
        let waker = std::task::Waker::noop();
        match connect.as_mut().poll(&mut std::task::Context::from_waker(waker)) {
            std::task::Poll::Ready(connected) => connected,
            std::task::Poll::Pending => panic!("nobody will end this"),
        }
    });
    assert!(error.contains("there is no tokio runtime"), "{error}");
}

#[test]
fn connecting_in_a_runtime_without_io_says_what_is_missing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let error = missing(|client| runtime.block_on(async { soon(client.connect()).await }));
    assert!(error.contains("enable_all()"), "{error}");
}
