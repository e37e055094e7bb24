//! Losing the connection and getting it back.

use std::time::Duration;

use nolag::{Client, ErrorEvent, Rejection, Status, TransportErrorKind};
use nolag_core::wire::ClientFrame;

use crate::{Log, options, server::ScriptedServer, soon};

#[tokio::test]
async fn a_cut_connection_comes_back_with_its_subscriptions_and_streams() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let log = Log::default();
    log.watch(&client);
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let subscribe = client.subscribe("a/b/c").filters(["vip"]).messages();
    let (stream, _) = tokio::join!(soon(subscribe), peer.confirm_subscribe());
    let mut stream = stream.unwrap();
    peer.cut();

    let mut peer = server.session().await;
    let frame = peer.frame().await;
    let Ok(ClientFrame::Subscribe(subscribe)) = ClientFrame::decode(&frame) else { panic!() };
    assert_eq!((subscribe.topic, subscribe.filters.len()), ("a/b/c", 1));
    peer.deliver("a/b/c", "hello again").await;
    assert_eq!(soon(stream.next()).await.unwrap().payload().text(), Some("hello again"));
    log.wait_for("reconnect").await;
    let disconnect = "disconnect: connection ended without a goodbye";
    assert_eq!(log.entries(), ["connect", disconnect, "connect", "reconnect"]);
}

#[tokio::test]
async fn what_stands_again_is_told_after_the_reconnect() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let log = Log::default();
    log.watch(&client);
    let seen = log.clone();
    let handler = client.on_restored(move |event| seen.add(format!("restored, gap {}", event.possible_gap)));
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    // With nothing subscribed nothing can be missed.
    peer.cut();
    let mut peer = server.session().await;
    log.wait_for("restored").await;
    let (subscribed, _) = tokio::join!(soon(client.subscribe("a/b/c")), peer.confirm_subscribe());
    subscribed.unwrap();
    peer.cut();
    let peer = server.session().await;
    crate::until("the reconnect", || log.entries().len() == 8).await;
    // Lost again before the subscription stood: told once, when it does.
    peer.cut();
    let mut peer = server.session().await;
    crate::until("the reconnect", || log.entries().len() == 11).await;
    peer.confirm_subscribe().await;
    log.wait_for("gap true").await;
    let again = ["disconnect", "connect", "reconnect"];
    let expected =
        [&["connect"], &again[..], &["restored, gap false"], &again, &again, &["restored, gap true"]];
    let entries = log.entries();
    let seen: Vec<_> = entries.iter().filter_map(|entry| entry.split(": ").next()).collect();
    assert_eq!(seen, expected.concat());
    assert!(client.off(handler));
}

#[tokio::test]
async fn a_clean_close_is_a_loss_too() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let log = Log::default();
    log.watch(&client);
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    peer.close(1000).await;
    let _peer = server.session().await;
    log.wait_for("reconnect").await;
    assert!(log.has("disconnect: connection closed by the peer (1000)"), "{:?}", log.entries());
}

#[tokio::test]
async fn a_revoked_token_ends_everything() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let log = Log::default();
    log.watch(&client);
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let (stream, _) = tokio::join!(soon(client.subscribe("a/b/c").messages()), peer.confirm_subscribe());
    peer.close(4001).await;
    assert!(soon(stream.unwrap().next()).await.is_none());
    log.wait_for("will not connect again").await;
    assert_eq!(client.status(), Status::Disconnected);
    let error = client.emit("a/b/c", &1).send().unwrap_err();
    assert!(
        matches!(&error, nolag::Error::Transport(error) if error.kind == TransportErrorKind::Closed(Some(4001)))
    );
}

#[tokio::test]
async fn it_gives_up_after_as_many_attempts_as_told() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()).max_reconnect_attempts(2));
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    client.on_error(move |event| tell.send(event).unwrap());
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let (stream, _) = tokio::join!(soon(client.subscribe("a/b/c").messages()), peer.confirm_subscribe());
    drop(server);
    peer.cut();
    assert!(soon(stream.unwrap().next()).await.is_none());
    assert!(matches!(soon(told.recv()).await, Some(ErrorEvent::AttemptFailed { attempt: 1, .. })));
    assert!(matches!(soon(told.recv()).await, Some(ErrorEvent::GaveUp { .. })));
    assert_eq!(client.status(), Status::Disconnected);
}

#[tokio::test]
async fn without_reconnect_a_loss_is_final() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()).reconnect(false));
    let log = Log::default();
    log.watch(&client);
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    peer.cut();
    log.wait_for("error: will not connect again by itself: connection ended").await;
    assert_eq!(client.status(), Status::Disconnected);
    // The application may connect again by itself.
    let (connected, _peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
}

#[tokio::test]
async fn disconnecting_is_never_followed_by_a_reconnect() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()).reconnect_interval(Duration::from_secs(3600)));
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let mut watch = client.watch_status();
    drop(server);
    peer.cut();
    // In the middle of a reconnect that would come.
    assert!(soon(watch.wait_for(Status::Reconnecting)).await);
    client.disconnect();
    assert_eq!(client.status(), Status::Disconnected);
    assert!(soon(watch.wait_for(Status::Disconnected)).await);
    assert!(client.explain().starts_with("idle"), "{}", client.explain());
    assert_eq!(client.emit("a/b/c", &1).send(), Err(Rejection::NotConnected.into()));
}

#[tokio::test]
async fn a_silent_connection_is_found_dead_by_its_heartbeat() {
    let server = ScriptedServer::start().await;
    let options = options(&server.url())
        .heartbeat_interval(Duration::from_millis(20))
        .heartbeat_timeout(Duration::from_millis(100))
        .websocket_ping_interval(Duration::ZERO);
    let client = Client::new("token", options);
    let log = Log::default();
    log.watch(&client);
    let (connected, silent) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let _peer = server.session().await;
    log.wait_for("disconnect: the broker stopped answering heartbeats").await;
    drop(silent);
}

#[tokio::test]
async fn a_message_that_trickles_in_is_proof_of_life() {
    let timeout = Duration::from_millis(400);
    let server = ScriptedServer::start().await;
    let options = options(&server.url())
        .heartbeat_interval(Duration::from_millis(20))
        .heartbeat_timeout(timeout)
        .websocket_ping_interval(Duration::ZERO);
    let client = Client::new("token", options);
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let (stream, _) = tokio::join!(soon(client.subscribe("a/b/c").messages()), peer.confirm_subscribe());
    let started = std::time::Instant::now();
    // Nothing answers the heartbeats but the next byte of one long message.
    let text = "x".repeat(1000);
    peer.trickle("a/b/c", &text, || started.elapsed() < timeout * 3).await;
    assert_eq!(soon(stream.unwrap().next()).await.unwrap().payload().text(), Some(&*text));
    assert_eq!(client.stats().core.sessions, 1);
}

#[tokio::test]
async fn pings_are_proof_of_life_where_heartbeats_are_off() {
    let server = ScriptedServer::start().await;
    let options = options(&server.url())
        .heartbeat_interval(Duration::ZERO)
        .websocket_ping_interval(Duration::from_millis(5));
    let client = Client::new("token", options);
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    peer.ping_received().await;
    peer.ping_received().await;
    assert_eq!(client.status(), Status::Connected);
}

#[tokio::test]
async fn the_status_can_be_watched() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let mut watch = client.watch_status();
    assert_eq!(soon(watch.next()).await, Some(Status::Disconnected));
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    assert_eq!(soon(watch.next()).await, Some(Status::Connected));
    let watcher = tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Some(status) = watch.next().await {
            seen.push(status);
        }
        seen
    });
    peer.cut();
    let peer = server.session().await;
    crate::until("connected", || client.is_connected()).await;
    drop(client);
    let seen = soon(watcher).await.unwrap();
    assert!(seen.contains(&Status::Reconnecting), "{seen:?}");
    drop(peer);
}
