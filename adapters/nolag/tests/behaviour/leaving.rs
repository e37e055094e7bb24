//! Leaving, and leaving nothing behind.

use nolag::{Client, EmitError, Rejection, Status};
use nolag_core::wire::ClientFrame;

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
    log.wait_for("disconnect").await;
    assert_eq!(log.entries(), ["connect", "disconnect: the client was disconnected by the application"]);
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
    let options = options(&server.url()).drain_timeout(std::time::Duration::from_millis(50));
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

#[test]
fn a_client_survives_its_runtime() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first = runtime();
    let server = first.block_on(ScriptedServer::start());
    let client = Client::new("token", options(&server.url()));
    let (mut stream, _peer) = first.block_on(async {
        let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
        connected.unwrap();
        let (stream, _) = tokio::join!(soon(client.subscribe("a/b/c").messages()), peer.confirm_subscribe());
        (stream.unwrap(), peer)
    });
    drop(server);
    drop(first);
    assert_eq!(client.status(), Status::Disconnected);
    runtime().block_on(async {
        assert!(soon(stream.next()).await.is_none());
        let server = ScriptedServer::start().await;
        let client = Client::new("token", options(&server.url()));
        let (connected, _peer) = tokio::join!(soon(client.connect()), server.session());
        connected.unwrap();
    });
}

#[test]
#[should_panic(expected = "inside a tokio runtime")]
fn connecting_outside_a_runtime_says_what_is_missing() {
    let client = Client::new("token", options("ws://127.0.0.1:9/ws"));
    let mut connect = Box::pin(client.connect());
    let waker = std::task::Waker::noop();
    let _ = connect.as_mut().poll(&mut std::task::Context::from_waker(waker));
}
