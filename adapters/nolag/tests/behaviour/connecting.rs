//! The first connection and everything that can be wrong with it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nolag::{
    ActorType, Client, Error, ErrorEvent, Misuse, Options, Status, TransportError, TransportErrorKind,
};
use nolag_core::wire::{AuthReply, ClientFrame, ServerFrame};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::{Log, is_pending, options, server::ScriptedServer, soon};

fn transport(error: Error) -> TransportError {
    match error {
        Error::Transport(error) => error,
        other => panic!("no transport error: {other:?}"),
    }
}

#[tokio::test]
async fn a_session_tells_who_we_are() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()).client_id("laptop").project_id("p"));
    assert_eq!((client.status(), client.actor_id()), (Status::Disconnected, None));
    let (connected, peer) = tokio::join!(soon(client.connect()), async {
        let mut peer = server.accept().await;
        assert_eq!(client.status(), Status::Connecting);
        let frame = peer.frame().await;
        let Ok(ClientFrame::Auth(auth)) = ClientFrame::decode(&frame) else { panic!("no auth") };
        assert_eq!(auth.token.expose(), "token");
        assert_eq!((auth.client_id, auth.project_id), (Some("laptop"), Some("p")));
        assert!(!auth.reconnect);
        peer.send(&ServerFrame::Auth(AuthReply {
            success: true,
            error: None,
            actor_token_id: Some("alice"),
            project_id: Some("project"),
            actor_type: Some("astronaut"),
            protocol_version: Some(2),
            restored_subscriptions: None,
        }))
        .await;
        peer
    });
    connected.unwrap();
    assert_eq!(client.status(), Status::Connected);
    assert!(client.is_connected());
    assert_eq!(client.actor_id().as_deref(), Some("alice"));
    assert_eq!(client.project_id().as_deref(), Some("project"));
    assert_eq!(client.actor_type(), Some(ActorType::Other("astronaut".into())));
    assert_eq!(client.protocol_version(), Some(2));
    assert!(!client.load_balanced());
    // Joins the session that stands.
    soon(client.connect()).await.unwrap();
    drop(peer);
}

#[tokio::test]
async fn a_denied_token_is_told_in_the_brokers_words_and_not_retried() {
    let server = ScriptedServer::start().await;
    let client = Client::new("sesame-secret", options(&server.url()));
    let log = Log::default();
    log.watch(&client);
    let (denied, ()) = tokio::join!(soon(client.connect()), async {
        let mut peer = server.accept().await;
        peer.frame().await;
        peer.send(&ServerFrame::Auth(AuthReply {
            success: false,
            error: Some("access_denied"),
            actor_token_id: None,
            project_id: None,
            actor_type: None,
            protocol_version: None,
            restored_subscriptions: None,
        }))
        .await;
        // The server leaves the socket open; the client must not.
        peer.ended().await;
    });
    let denied = denied.unwrap_err();
    let Error::Server(error) = &denied else { panic!("{denied:?}") };
    assert_eq!(error.error, "access_denied");
    assert_eq!(client.status(), Status::Disconnected);
    // Handlers have heard of everything, and what the call has told is not told again.
    soon(client.close()).await;
    assert_eq!(log.entries(), Vec::<String>::new());
    for text in [denied.to_string(), format!("{denied:?}"), format!("{client:?}"), log.entries().concat()] {
        assert!(!text.contains("sesame"), "{text}");
    }
    // A new call starts anew.
    let (connected, _peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
}

#[tokio::test]
async fn a_failure_that_no_call_returns_is_an_error_event() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws", listener.local_addr().unwrap());
    let client = Client::new("token", options(&url));
    let log = Log::default();
    log.watch(&client);
    let mut connect = Box::pin(client.connect());
    assert!(is_pending(&mut connect).await);
    // Nobody waits any more when the server turns the client away.
    drop(connect);
    drop(soon(listener.accept()).await.unwrap());
    log.wait_for("will not connect again by itself").await;
}

#[tokio::test]
async fn giving_up_after_retries_is_told_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new("token", options(&url).retry_first_connect(true).max_reconnect_attempts(2));
    let log = Log::default();
    log.watch(&client);
    soon(client.connect()).await.unwrap_err();
    soon(client.close()).await;
    let entries = log.entries();
    assert!(!entries.is_empty() && entries.iter().all(|entry| entry.contains("next in")), "{entries:?}");
}

#[tokio::test]
async fn a_closed_port_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new("token", options(&url));
    let error = transport(soon(client.connect()).await.unwrap_err());
    assert_eq!(error.kind, TransportErrorKind::Connect);
    assert_eq!(client.status(), Status::Disconnected);
}

#[tokio::test]
async fn a_name_without_address_is_told() {
    let client = Client::new("token", options("ws://no-such-host.invalid/ws"));
    let error = transport(soon(client.connect()).await.unwrap_err());
    assert_eq!(error.kind, TransportErrorKind::Resolve);
}

async fn answer_with(response: &'static str) -> TransportError {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new("token", options(&format!("ws://{}/ws", listener.local_addr().unwrap())));
    let (error, ()) = tokio::join!(soon(client.connect()), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        let read = stream.read(&mut request).await.unwrap();
        assert!(request[..read].starts_with(b"GET /ws HTTP/1.1\r\n"));
        stream.write_all(response.as_bytes()).await.unwrap();
    });
    transport(error.unwrap_err())
}

#[tokio::test]
async fn an_http_server_without_websocket_is_told_with_its_status() {
    let error = answer_with("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
    assert_eq!(error.kind, TransportErrorKind::Upgrade(Some(200)));
}

#[tokio::test]
async fn a_forbidden_upgrade_is_told_with_its_status() {
    let error = answer_with("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").await;
    assert_eq!(error.kind, TransportErrorKind::Upgrade(Some(403)));
    assert!(error.to_string().contains("403"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_no_http_server_is_told() {
    let error = answer_with("SSH-2.0-OpenSSH_9.9\r\n").await;
    assert_eq!(error.kind, TransportErrorKind::Upgrade(None));
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws", listener.local_addr().unwrap());
    let options = options(&url).connect_timeout(Duration::from_millis(50));
    let client = Client::new("token", options);
    let error = transport(soon(client.connect()).await.unwrap_err());
    assert_eq!(error.kind, TransportErrorKind::Timeout);
    assert!(error.to_string().ends_with("while waiting for the WebSocket upgrade"), "{error}");
}

#[tokio::test]
async fn invalid_options_are_told_by_connect() {
    let shown = format!("{:?}", Options::new("ws://user:hunter2@localhost/ws?key=hunter2"));
    assert!(!shown.contains("hunter2"), "{shown}");
    for (client, expected) in [
        (Client::new("token", Options::new("localhost:8080")), "localhost:8080"),
        (Client::new("token", Options::new("ws://user:hunter2@localhost/ws")), "user name or password"),
        (Client::new("", Options::default()), "token is empty"),
        (Client::new("token", Options::default().client_id("a b")), "client id"),
    ] {
        let error = soon(client.connect()).await.unwrap_err();
        assert!(matches!(error, Error::Misuse(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"));
        assert_eq!(client.status(), Status::Disconnected);
    }
    let error = soon(Client::new("token", Options::new("")).connect()).await.unwrap_err();
    assert!(matches!(error, Error::Misuse(Misuse::InvalidUrl { .. })));
}

#[tokio::test]
async fn the_first_attempt_is_retried_when_asked() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()).retry_first_connect(true));
    let log = Log::default();
    log.watch(&client);
    let (connected, _peer) = tokio::join!(soon(client.connect()), async {
        server.accept().await.cut();
        server.session().await
    });
    connected.unwrap();
    log.wait_for("connect").await;
    assert!(log.entries()[0].contains("attempt 1 to connect failed"), "{:?}", log.entries());
}

#[tokio::test]
async fn garbage_from_the_server_is_reported_and_survived() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let skipped = Skipped::watch(&client);
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    for garbage in [&b"\xc1"[..], b"hello", b"\x81", b"\x80", b"\xdf\xff\xff\xff\xff", &[0x91; 4000]] {
        peer.send_bytes(bytes::Bytes::copy_from_slice(garbage)).await;
    }
    peer.send_raw(tungstenite::Message::text("{\"type\":\"message\"}")).await;
    let (acked, _) = tokio::join!(soon(client.emit("a/b/c", "still here")), peer.confirm_publish());
    acked.unwrap();
    crate::until("errors", || skipped.frames.load(Ordering::SeqCst) == 7).await;
    assert_eq!(client.status(), Status::Connected);
    assert_eq!(client.stats().core.frames_undecodable, 7);
}

#[tokio::test]
async fn a_flood_of_garbage_is_told_about_once_a_second() {
    const FLOOD: u64 = 20_000;
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let skipped = Skipped::watch(&client);
    let started = std::time::Instant::now();
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    for _ in 0..FLOOD {
        peer.send_bytes(bytes::Bytes::from_static(b"\xc1")).await;
    }
    crate::until("all arrived", || client.stats().core.frames_undecodable == FLOOD).await;
    let ((), ()) = tokio::join!(soon(client.close()), peer.ended());
    assert_eq!(skipped.frames.load(Ordering::SeqCst), FLOOD);
    let (events, seconds) = (skipped.events.load(Ordering::SeqCst), started.elapsed().as_secs());
    assert!(events <= seconds + 3, "{events} events in {seconds} s");
}

/// What error events tell about frames that were skipped.
#[derive(Default)]
struct Skipped {
    events: AtomicU64,
    frames: AtomicU64,
}

impl Skipped {
    fn watch(client: &Client) -> Arc<Self> {
        let skipped = Arc::<Self>::default();
        let counter = skipped.clone();
        client.on_error(move |event| {
            let ErrorEvent::Protocol { count, .. } = event else { panic!("{event}") };
            counter.events.fetch_add(1, Ordering::SeqCst);
            counter.frames.fetch_add(count, Ordering::SeqCst);
        });
        skipped
    }
}

#[tokio::test]
async fn no_duration_is_too_long() {
    let server = ScriptedServer::start().await;
    let options = options(&server.url())
        .heartbeat_interval(Duration::MAX)
        .heartbeat_timeout(Duration::MAX)
        .websocket_ping_interval(Duration::MAX)
        .connect_timeout(Duration::MAX)
        .operation_timeout(Duration::MAX)
        .drain_timeout(Duration::MAX)
        .reconnect_interval(Duration::MAX)
        .reconnect_stable_after(Duration::MAX);
    let client = Client::new("token", options);
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let (acked, _) = tokio::join!(soon(client.emit("a/b/c", &1)), peer.confirm_publish());
    acked.unwrap();
    peer.cut();
    crate::until("the loss", || client.status() == Status::Reconnecting).await;
    soon(client.close()).await;
}
