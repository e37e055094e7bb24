//! An application that is slower than the broker.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nolag::{Client, ErrorEvent, Options};
use tokio::sync::Semaphore;

use crate::{Log, is_pending, options, server::ScriptedServer, soon};

/// Far more than all buffers between the server and the application hold.
const MESSAGES: u32 = 3000;
const SIZE: usize = 10_000;

fn small(url: &str) -> Options {
    options(url).inbound_limits(64, 1 << 20)
}

#[tokio::test]
async fn a_slow_stream_stops_the_server_and_loses_nothing() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", small(&server.url()));
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let subscribe = client.subscribe("a/b/c").buffer(8).messages();
    let (stream, _) = tokio::join!(soon(subscribe), peer.confirm_subscribe());
    let mut stream = stream.unwrap();
    let (progress, sent) = tokio::sync::watch::channel(0);
    let sender = tokio::spawn(async move {
        for n in 0..MESSAGES {
            peer.deliver("a/b/c", &(n, "x".repeat(SIZE))).await;
            progress.send_replace(n + 1);
        }
        peer
    });
    // The server gets stuck long before the end, and the client stays within its bounds.
    crate::until("reading stops", || client.explain().contains("not reading")).await;
    let received = client.stats().core.messages_received;
    assert!(received < 64 + 8 + 64, "{received} messages held");
    assert!(*sent.borrow() < MESSAGES);
    for n in 0..MESSAGES {
        let message = soon(stream.next()).await.unwrap();
        let (number, _): (u32, String) = message.data().unwrap();
        assert_eq!(number, n);
    }
    soon(sender).await.unwrap();
    assert_eq!(client.stats().core.messages_dropped, 0);
}

#[tokio::test]
async fn a_slow_handler_stops_the_server_and_loses_nothing() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", small(&server.url()));
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let handler_gate = gate.clone();
    client.on("a/b/c", move |message| {
        let (gate, tell) = (handler_gate.clone(), tell.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            tell.send(message.data::<(u32, String)>().unwrap().0).unwrap();
        }
    });
    let (subscribed, _) = tokio::join!(soon(client.subscribe("a/b/c")), peer.confirm_subscribe());
    subscribed.unwrap();
    let sender = tokio::spawn(async move {
        for n in 0..MESSAGES {
            peer.deliver("a/b/c", &(n, "x".repeat(SIZE))).await;
        }
        peer
    });
    crate::until("reading stops", || client.explain().contains("not reading")).await;
    assert!(client.stats().core.messages_received < 600);
    gate.add_permits(MESSAGES as usize);
    for n in 0..MESSAGES {
        assert_eq!(soon(told.recv()).await, Some(n));
    }
    soon(sender).await.unwrap();
}

#[tokio::test]
async fn who_stays_behind_for_too_long_is_told_what_was_lost() {
    let server = ScriptedServer::start().await;
    let options = small(&server.url()).max_pause(Duration::from_millis(20));
    let client = Client::new("token", options);
    let lost = Arc::new(AtomicU64::new(0));
    let reports = Arc::new(AtomicU64::new(0));
    let (counter, report) = (lost.clone(), reports.clone());
    let started = std::time::Instant::now();
    client.on_error(move |event| match event {
        ErrorEvent::Lagged { topic, count } => {
            assert_eq!(topic.as_deref(), Some("a/b/c"));
            counter.fetch_add(count, Ordering::SeqCst);
            report.fetch_add(1, Ordering::SeqCst);
        }
        other => panic!("{other}"),
    });
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let subscribe = client.subscribe("a/b/c").buffer(8).messages();
    let (stream, _) = tokio::join!(soon(subscribe), peer.confirm_subscribe());
    let mut stream = stream.unwrap();
    for n in 0..MESSAGES {
        peer.deliver("a/b/c", &n).await;
    }
    crate::until("all arrived", || client.stats().core.messages_received == u64::from(MESSAGES)).await;
    let (mut received, mut last) = (0, None);
    while last != Some(MESSAGES - 1) {
        let n: u32 = soon(stream.next()).await.unwrap().data().unwrap();
        assert!(last < Some(n), "in order");
        last = Some(n);
        received += 1;
    }
    let expected = u64::from(MESSAGES) - received;
    // What is kept back for the next report is told at the end.
    let ((), ()) = tokio::join!(soon(client.close()), peer.ended());
    assert_eq!(lost.load(Ordering::SeqCst), expected);
    let (reports, seconds) = (reports.load(Ordering::SeqCst), started.elapsed().as_secs());
    assert!(reports <= seconds + 3, "{reports} reports in {seconds} s");
    assert_eq!(client.stats().core.messages_dropped, expected);
}

#[tokio::test]
async fn outcomes_arrive_while_the_application_is_behind() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let subscribe = client.subscribe("a/b/c").buffer(1).messages();
    let (stream, _) = tokio::join!(soon(subscribe), peer.confirm_subscribe());
    for n in 0..100 {
        peer.deliver("a/b/c", &n).await;
    }
    let (acked, _) = tokio::join!(soon(client.emit("a/b/d", &1)), peer.confirm_publish());
    acked.unwrap();
    drop(stream);
}

#[tokio::test]
async fn a_dropped_stream_does_not_hold_back_the_others() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let (slow, _) =
        tokio::join!(soon(client.subscribe("a/b/slow").buffer(1).messages()), peer.confirm_subscribe());
    let (quick, _) = tokio::join!(soon(client.subscribe("a/b/quick").messages()), peer.confirm_subscribe());
    let mut quick = quick.unwrap();
    for n in 0..3 {
        peer.deliver("a/b/slow", &n).await;
    }
    peer.deliver("a/b/quick", &7).await;
    // The quick one waits behind the slow one, until that is gone.
    crate::until("all arrived", || client.stats().core.messages_received == 4).await;
    assert!(is_pending(&mut Box::pin(quick.next())).await);
    drop(slow);
    assert_eq!(soon(quick.next()).await.unwrap().data(), Ok(7));
}

#[tokio::test]
async fn messages_received_before_the_end_are_handed_out() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()).reconnect(false));
    let log = Log::default();
    log.watch(&client);
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let (stream, _) =
        tokio::join!(soon(client.subscribe("a/b/c").buffer(2).messages()), peer.confirm_subscribe());
    let mut stream = stream.unwrap();
    for n in 0..50 {
        peer.deliver("a/b/c", &n).await;
    }
    crate::until("all arrived", || client.stats().core.messages_received == 50).await;
    peer.close(1001).await;
    log.wait_for("will not connect again").await;
    for n in 0..50 {
        assert_eq!(soon(stream.next()).await.unwrap().data(), Ok(n));
    }
    assert!(soon(stream.next()).await.is_none());
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_connection() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()).max_inbound_size(1000).reconnect(false));
    let log = Log::default();
    log.watch(&client);
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    peer.deliver("a/b/c", &vec![0u8; 2000]).await;
    log.wait_for("disconnect: the peer broke the WebSocket protocol").await;
}
