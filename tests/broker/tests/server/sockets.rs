//! Connections, limits, the auth file, and how it all ends.

use std::{fs, time::Duration};

use futures_util::SinkExt;
use nolag_broker::{
    AuthConfig, BrokerConfig, Limits, Profile, Server, ServerError, ServerOptions, TestBroker, startup_banner,
};
use nolag_core::wire::MAX_FRAME_BYTES;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time,
};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, protocol::frame::coding::CloseCode},
};

use crate::{Client, PATIENCE, TOPIC, until};

#[tokio::test]
async fn clients_exchange_messages() {
    let broker = TestBroker::start().await;
    let mut alice = Client::subscriber(&broker.url(), &broker.token("alice")).await;
    let mut bob = Client::connect(&broker.url(), &broker.token("bob")).await;
    bob.send(json!({"type": "publish", "topic": TOPIC, "data": {"text": "hi"}, "msgRef": "r"})).await;
    assert_eq!(bob.next().await["type"], "published");
    let message = alice.next().await;
    assert_eq!((&message["data"]["text"], &message["from"]), (&json!("hi"), &json!("bob")));

    let actors: Vec<_> = broker.connections().await.into_iter().map(|conn| conn.actor_id.unwrap()).collect();
    assert_eq!(actors, ["alice", "bob"]);
    alice.0.close(None).await.unwrap();
    until(|| async { broker.connections().await.len() == 1 }).await;
}

#[tokio::test]
async fn heartbeats_text_and_pings_work_over_the_socket() {
    let broker = TestBroker::start().await;
    let mut client = Client::open(&broker.url()).await;
    let auth = json!({"type": "auth", "token": broker.token("alice")}).to_string();
    client.0.send(Message::Text(auth.into())).await.unwrap();
    assert_eq!(client.next().await["success"], true);
    client.0.send(Message::Ping("p".into())).await.unwrap();
    assert_eq!(client.message().await.unwrap().unwrap(), Message::Pong("p".into()));
    client.send_heartbeat().await;
    assert_eq!(client.message().await.unwrap().unwrap(), Message::Binary([].as_slice().into()));
}

#[tokio::test]
async fn a_message_over_1_mib_closes_with_1009() {
    let broker = TestBroker::start().await;
    let mut client = Client::connect(&broker.url(), &broker.token("alice")).await;
    client.0.send(Message::Binary(vec![0xc0; MAX_FRAME_BYTES].into())).await.unwrap();
    client.send_heartbeat().await;
    assert!(matches!(client.message().await, Some(Ok(Message::Binary(_)))), "exactly 1 MiB is allowed");
    client.0.send(Message::Binary(vec![0xc0; MAX_FRAME_BYTES + 1].into())).await.unwrap();
    assert_eq!(client.closed().await, Some(CloseCode::Size));
    until(|| async { broker.connections().await.is_empty() }).await;
}

#[tokio::test]
async fn a_crash_closes_with_1011() {
    let broker = TestBroker::builder().profile(Profile::Kraken04).start().await;
    let mut client = Client::connect(&broker.url(), &broker.token("alice")).await;
    client.0.send(Message::Text("not json".into())).await.unwrap();
    assert_eq!(client.closed().await, Some(CloseCode::Error));
}

#[tokio::test]
async fn a_silent_client_is_closed_and_a_pinging_one_is_not() {
    let limits = Limits { idle_timeout: Some(Duration::from_millis(1500)), ..Limits::default() };
    let broker = TestBroker::builder().limits(limits).start().await;
    let mut silent = Client::open(&broker.url()).await;
    let mut pinging = Client::open(&broker.url()).await;
    let pings = async {
        loop {
            pinging.0.send(Message::Ping("p".into())).await.unwrap();
            pinging.message().await.unwrap().unwrap();
            time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        code = silent.closed() => assert_eq!(code, Some(CloseCode::Normal)),
        () = pings => {}
    }
    assert_eq!(broker.connections().await.len(), 1);
}

#[tokio::test]
async fn a_cut_connection_ends_without_a_close_frame() {
    let broker = TestBroker::start().await;
    let mut alice = Client::connect(&broker.url(), &broker.token("alice")).await;
    let mut bob = Client::connect(&broker.url(), &broker.token("bob")).await;
    let first = broker.connections().await[0].id;
    broker.cut(first).await;
    assert_eq!(alice.closed().await, None);
    assert_eq!(broker.connections().await.len(), 1);
    broker.cut_all().await;
    assert_eq!(bob.closed().await, None);
}

#[tokio::test]
async fn a_held_connection_receives_after_release() {
    let broker = TestBroker::start().await;
    let mut alice = Client::subscriber(&broker.url(), &broker.token("alice")).await;
    let mut bob = Client::connect(&broker.url(), &broker.token("bob")).await;
    let held = broker.connections().await[0].id;
    broker.hold(held).await;
    bob.send(json!({"type": "publish", "topic": TOPIC, "data": 1, "msgRef": "r"})).await;
    assert_eq!(bob.next().await["type"], "published");
    assert!(broker.connections().await[0].held);
    broker.release(held).await;
    assert_eq!(alice.next().await["data"], 1);
}

#[tokio::test]
async fn a_restart_keeps_the_port_and_forgets_the_rest() {
    let broker = TestBroker::start().await;
    let mut alice = Client::connect(&broker.url(), &broker.token("alice")).await;
    alice.send(json!({"type": "publish", "topic": TOPIC, "data": 1, "retain": true, "msgRef": "r"})).await;
    alice.next().await;
    broker.restart().await;
    assert_eq!(alice.closed().await, None);
    let mut bob = Client::subscriber(&broker.url(), &broker.token("bob")).await;
    bob.send(json!({"type": "publish", "topic": TOPIC, "data": 2})).await;
    assert_eq!(bob.next().await["data"], 2, "the retained message of before is gone");
}

#[tokio::test]
async fn shutdown_closes_with_1001_and_frees_the_port() {
    let broker = TestBroker::start().await;
    let mut alice = Client::connect(&broker.url(), &broker.token("alice")).await;
    let url = broker.url();
    let ((), code) = tokio::join!(broker.shutdown(), alice.closed());
    assert_eq!(code, Some(CloseCode::Away));
    assert!(connect_async(url).await.is_err());
}

#[tokio::test]
async fn shutdown_does_not_wait_for_ever() {
    let broker = TestBroker::start().await;
    // Reads nothing, so it never answers the close frame.
    let _silent = Client::connect(&broker.url(), &broker.token("alice")).await;
    time::timeout(PATIENCE, broker.shutdown()).await.unwrap();
}

#[tokio::test]
async fn dropping_the_broker_cuts_everyone() {
    let broker = TestBroker::start().await;
    let mut alice = Client::connect(&broker.url(), &broker.token("alice")).await;
    drop(broker);
    assert_eq!(alice.closed().await, None);
}

#[tokio::test]
async fn brokers_share_nothing() {
    let mut brokers = Vec::new();
    for _ in 0..50 {
        brokers.push(TestBroker::start().await);
    }
    let mut alice = Client::subscriber(&brokers[0].url(), "t").await;
    for broker in &brokers[1..] {
        let mut other = Client::connect(&broker.url(), "t").await;
        other.send(json!({"type": "publish", "topic": TOPIC, "data": "elsewhere", "msgRef": "r"})).await;
        assert_eq!(other.next().await["type"], "published");
        assert_eq!(broker.connections().await.len(), 1);
    }
    alice.send(json!({"type": "publish", "topic": TOPIC, "data": "here"})).await;
    assert_eq!(alice.next().await["data"], "here");
}

#[tokio::test]
async fn a_client_that_reads_too_slowly_is_told_so_before_what_waits_for_it() {
    let limits = Limits { publishes_per_second: None, max_queued_bytes: Some(3 << 20), ..Limits::default() };
    let broker = TestBroker::builder().limits(limits).start().await;
    let mut slow = Client::subscriber(&broker.url(), &broker.token("alice")).await;
    let mut bob = Client::connect(&broker.url(), &broker.token("bob")).await;
    let data = "x".repeat(900_000);
    let mut published = 0;
    let flood = async {
        while broker.connections().await.len() == 2 {
            bob.send(json!({"type": "publish", "topic": TOPIC, "data": data, "msgRef": "r"})).await;
            bob.next().await;
            published += 1;
        }
    };
    time::timeout(PATIENCE, flood).await.unwrap();
    let left = broker.connections().await;
    assert_eq!(left[0].actor_id.as_deref(), Some("bob"));
    let mut received = 0;
    let close = loop {
        match slow.message().await.unwrap().unwrap() {
            Message::Close(frame) => break frame.unwrap(),
            _ => received += 1,
        }
    };
    assert_eq!((close.code, close.reason.as_str()), (CloseCode::Again, "reads too slowly"));
    assert!(received < published, "{received} of {published}");
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_without_a_close_frame() {
    let stalled_reader_timeout = Some(Duration::from_millis(200));
    let limits = Limits { stalled_reader_timeout, ..Limits::NONE };
    let broker = TestBroker::builder().limits(limits).start().await;
    let mut stalled = Client::subscriber(&broker.url(), &broker.token("alice")).await;
    let mut bob = Client::connect(&broker.url(), &broker.token("bob")).await;
    // Far more than the socket buffers hold.
    bob.send(json!({"type": "publish", "topic": TOPIC, "data": "x".repeat(40 << 20), "msgRef": "r"})).await;
    assert_eq!(bob.next().await["type"], "published");
    until(|| async { broker.connections().await.len() == 1 }).await;
    assert_eq!(stalled.closed().await, None);
}

#[tokio::test]
async fn without_limits_everything_waits_for_a_client_that_reads_too_slowly() {
    let broker = TestBroker::builder().limits(Limits::NONE).start().await;
    let mut slow = Client::subscriber(&broker.url(), &broker.token("alice")).await;
    let mut bob = Client::connect(&broker.url(), &broker.token("bob")).await;
    let data = "x".repeat(1 << 20);
    for _ in 0..40 {
        bob.send(json!({"type": "publish", "topic": TOPIC, "data": data, "msgRef": "r"})).await;
        assert_eq!(bob.next().await["type"], "published");
    }
    for _ in 0..40 {
        assert_eq!(slow.next().await["data"].as_str().map(str::len), Some(1 << 20));
    }
}

#[tokio::test]
async fn health_is_ok() {
    let server =
        Server::bind(ServerOptions { addr: ([127, 0, 0, 1], 0).into(), ..ServerOptions::default() }).await;
    let server = server.unwrap();
    let mut stream = TcpStream::connect(server.local_addr()).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.ends_with(r#"{"status":"ok"}"#), "{answer}");
    let banner = startup_banner(&server, Profile::Kraken010);
    assert!(banner.contains(&server.url()) && banner.contains("Kraken") && banner.contains("cloud"));
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let broker = TestBroker::start().await;
    let addr = broker.url()[5..].trim_end_matches("/ws").parse().unwrap();
    let error = Server::bind(ServerOptions { addr, ..ServerOptions::default() }).await.unwrap_err();
    assert!(matches!(error, ServerError::Bind { .. }));
    assert!(error.to_string().contains(&addr.to_string()) && error.to_string().contains("port 0"));
}

#[tokio::test]
async fn the_auth_file_is_reloaded_when_it_changes() {
    let entry = |actor: &str| format!(r#"{{"tokens": {{"t-{actor}": {{"actorTokenId": "{actor}"}}}}}}"#);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("auth.json");
    fs::write(&path, "{").unwrap();
    let options = ServerOptions {
        addr: ([127, 0, 0, 1], 0).into(),
        config: BrokerConfig { auth: AuthConfig::allow_all(), ..BrokerConfig::default() },
        auth_file: Some(path.clone()),
    };
    let error = Server::bind(options.clone()).await.unwrap_err();
    assert!(error.to_string().contains("auth.json"), "{error}");

    fs::write(&path, entry("first")).unwrap();
    let server = Server::bind(options).await.unwrap();
    let url = server.url();
    let accepts = async |token: &str| {
        let mut client = Client::open(&url).await;
        client.send(json!({"type": "auth", "token": token})).await;
        client.next().await["success"] == true
    };
    assert!(accepts("t-first").await && !accepts("t-the-second").await);
    fs::write(&path, entry("the-second")).unwrap();
    until(|| accepts("t-the-second")).await;
    assert!(!accepts("t-first").await);
}
