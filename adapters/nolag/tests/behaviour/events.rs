//! Hydration, replay, and what happens to events that nobody takes.

use std::sync::Arc;

use nolag::{Client, Direction, Payload, ReplayEvent};
use nolag_broker::{AuthConfig, TestBroker};
use nolag_core::wire::{Message, PresenceEvent, RawValue, ServerFrame, Text};
use tokio::sync::{Semaphore, mpsc};

use crate::{
    Log, connect, options,
    server::{Peer, ScriptedServer},
    soon, until,
};

const HYDRATED: &str = r##"{
    "tokens": {"t": {"actorTokenId": "ann", "allowedTopics": [{"pattern": "demo/general/#"}]}},
    "dev": {"hydration": {"demo": {"messages": {"last": ["hello", "bye"]}, "#": 7}}}}"##;

#[derive(Debug, PartialEq, serde::Deserialize)]
struct History {
    last: Vec<String>,
}

#[tokio::test]
async fn a_subscribed_topic_is_hydrated() {
    let auth = AuthConfig::from_json(HYDRATED).unwrap();
    let broker = TestBroker::builder().auth(auth).start().await;
    let client = Client::new("t", options(&broker.url()));
    let (tell, mut told) = mpsc::unbounded_channel();
    let hydration = client.on_hydration(move |hydration| tell.send(hydration).unwrap());
    soon(client.connect()).await.unwrap();
    let room = client.app("demo").room("general");
    soon(room.subscribe("messages")).await.unwrap();
    let state = soon(told.recv()).await.unwrap();
    let expected = History { last: vec!["hello".into(), "bye".into()] };
    assert_eq!((&*state.topic, state.data.decode()), ("messages", Ok(expected)));
    soon(room.subscribe("numbers")).await.unwrap();
    let state = soon(told.recv()).await.unwrap();
    assert_eq!((&*state.topic, state.data.decode()), ("numbers", Ok(7)));
    assert!(client.off(hydration));
    assert_eq!(soon(told.recv()).await, None);
}

#[tokio::test]
async fn a_group_gets_what_it_missed() {
    let broker = TestBroker::builder().durable_delivery(true).start().await;
    let alice = connect(&broker, "alice").await;
    let jobs = alice.app("demo").room("general");
    for round in 0..2u32 {
        let worker = Client::new(broker.token("worker"), options(&broker.url()));
        let log = Log::default();
        let seen = log.clone();
        worker.on_replay(move |event| {
            let seen = seen.clone();
            async move { seen.add(format!("{event:?}")) }
        });
        let seen = log.clone();
        worker.on_any(move |message| {
            seen.add(format!("job {}, replay {}", message.data::<u32>().unwrap(), message.is_replay()))
        });
        soon(worker.connect()).await.unwrap();
        let room = worker.app("demo").room("general");
        soon(room.subscribe("jobs").load_balance(true).group("workers")).await.unwrap();
        // Persistent presence is what asks for a replay.
        let presence = std::collections::BTreeMap::from([("persistent", true)]);
        soon(room.set_presence(&presence)).await.unwrap();
        log.wait_for("Ended").await;
        if round == 1 {
            let entries = log.entries();
            let jobs: Vec<_> = entries.iter().filter(|entry| entry.starts_with("job")).collect();
            assert_eq!(jobs, ["job 1, replay true", "job 2, replay true"]);
            assert_eq!(entries.first().map(String::as_str), Some("Started { count: 2 }"));
            assert_eq!(entries.last().map(String::as_str), Some("Ended { replayed: 2 }"));
        }
        soon(worker.close()).await;
        if round == 0 {
            soon(jobs.emit("jobs", &1u32)).await.unwrap();
            soon(jobs.emit("jobs", &2u32)).await.unwrap();
        }
    }
}

async fn replay(peer: &mut Peer, n: u32) {
    let data = Payload::encode(&n).unwrap();
    peer.send(&ServerFrame::Message(Message {
        topic: Text::Str("a/b/c"),
        data: data.raw(),
        msg_id: None,
        requires_ack: None,
        filter: None,
        is_replay: Some(true),
        from: None,
        from_type: None,
    }))
    .await;
}

#[tokio::test]
async fn the_end_of_a_replay_comes_after_its_messages() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let log = Log::default();
    let seen = log.clone();
    client.on_replay(move |event| {
        if !matches!(event, ReplayEvent::Progress { .. }) {
            seen.add(format!("{event:?}"));
        }
    });
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let subscribe = client.subscribe("a/b/c").buffer(1).messages();
    let (stream, _) = tokio::join!(soon(subscribe), peer.confirm_subscribe());
    let mut stream = stream.unwrap();
    for round in 0..2u64 {
        let count = 3;
        peer.send(&ServerFrame::ReplayStart { count, oldest_timestamp: None, newest_timestamp: None }).await;
        for n in 0..3 {
            replay(&mut peer, n).await;
        }
        peer.send(&ServerFrame::ReplayEnd { replayed: count }).await;
        until("all", || client.stats().core.messages_received == 3 * (round + 1)).await;
    }
    log.wait_for("Started").await;
    for n in [0, 1, 2, 0, 1] {
        let message = soon(stream.next()).await.unwrap();
        assert_eq!((message.data(), message.is_replay()), (Ok(n), true));
        assert!(!log.has("Ended"), "{:?}", log.entries());
    }
    soon(stream.next()).await.unwrap();
    until("all events", || log.entries().len() == 4).await;
    let (started, ended) = ("Started { count: 3 }", "Ended { replayed: 3 }");
    assert_eq!(log.entries(), [started, ended, started, ended]);
}

#[tokio::test]
async fn events_that_nobody_takes_are_bounded_and_counted() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    client.on_presence(move |_| {
        let gate = handler_gate.clone();
        async move { gate.acquire().await.unwrap().forget() }
    });
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let data = Payload::encode(&"x".repeat(100_000)).unwrap();
    for _ in 0..100 {
        peer.send(&ServerFrame::Presence(PresenceEvent {
            event: "update",
            actor_token_id: Some("bob"),
            presence: Some(RawValue::parse(data.as_msgpack()).unwrap()),
            status: None,
            capabilities: None,
            advertisement_version: None,
        }))
        .await;
    }
    until("drops", || client.stats().events_dropped > 0).await;
    // The rest of the client goes on.
    let (acked, _) = tokio::join!(soon(client.emit("a/b/c", &1)), peer.confirm_publish());
    acked.unwrap();
    gate.add_permits(100);
    let ((), ()) = tokio::join!(soon(client.close()), peer.ended());
}

#[tokio::test]
async fn frames_are_shown_without_tokens_and_payloads_and_in_order() {
    let server = ScriptedServer::start().await;
    let (log, shown) = (Log::default(), Log::default());
    let dump = shown.clone();
    let options = options(&server.url()).frame_dump(move |direction, frame| {
        let frame = frame.to_string();
        let panics = frame.starts_with("subscribed");
        dump.add(match direction {
            Direction::Sent => format!("> {frame}"),
            Direction::Received => format!("< {frame}"),
        });
        assert!(!panics, "on purpose");
    });
    let client = Client::new("sesame", options);
    log.watch(&client);
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let (stream, _) = tokio::join!(soon(client.subscribe("a/b/c").messages()), peer.confirm_subscribe());
    let (emitted, _) = tokio::join!(soon(client.emit("a/b/c", "whisper")), peer.confirm_publish());
    emitted.unwrap();
    peer.deliver("a/b/c", "murmur").await;
    soon(stream.unwrap().next()).await.unwrap();
    log.wait_for("a handler panicked: on purpose").await;
    let ((), ()) = tokio::join!(soon(client.close()), peer.ended());
    let lines = shown.entries();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(
        kinds,
        ["auth", "auth", "subscribe", "subscribed", "publish", "published", "message"],
        "{lines:#?}"
    );
    let ways: String = lines.iter().map(|line| &line[..1]).collect();
    assert_eq!(ways, "><><><<");
    for secret in ["sesame", "whisper", "murmur"] {
        assert!(!lines.concat().contains(secret), "{lines:#?}");
    }
}
