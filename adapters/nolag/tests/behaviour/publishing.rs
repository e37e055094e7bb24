//! Messages from the application to the broker.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use nolag::{Client, EmitError, Emitted, Error, ErrorEvent, Misuse, Op, Payload, QoS, Rejection, Status};
use nolag_core::wire::{ClientFrame, ErrorFrame, ServerFrame, Text};
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::{
    Log, is_pending, options,
    server::{Peer, ScriptedServer},
    soon, until,
};

async fn connected() -> (ScriptedServer, Client, Peer) {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()));
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    (server, client, peer)
}

#[tokio::test]
async fn every_option_reaches_the_broker() {
    let (_server, client, mut peer) = connected().await;
    let room = client.app("demo").room("general");
    assert_eq!(room.prefix(), "demo/general");
    let emit = room.emit("messages", &7).qos(QoS::ExactlyOnce).retain().echo(false).filter("vip");
    let (outcome, published) = tokio::join!(soon(emit), peer.confirm_publish());
    assert_eq!(outcome, Ok(Emitted::Acked));
    let Ok(ClientFrame::Publish(publish)) = ClientFrame::decode(&published.frame) else { panic!() };
    assert_eq!((publish.topic, publish.qos), ("demo/general/messages", Some(QoS::ExactlyOnce)));
    assert_eq!((publish.retain, publish.echo, publish.filter), (true, false, Some("vip")));

    let (outcome, published) =
        tokio::join!(soon(room.emit("messages", &7).filters(["a", "b"])), peer.confirm_publish());
    assert_eq!(outcome, Ok(Emitted::Acked));
    let Ok(ClientFrame::Publish(publish)) = ClientFrame::decode(&published.frame) else { panic!() };
    assert_eq!((publish.filters, publish.retain, publish.echo), (vec!["a", "b"], false, true));
}

#[tokio::test]
async fn structs_leave_as_maps() {
    #[derive(Serialize)]
    struct Chat {
        text: &'static str,
    }
    let (_server, client, mut peer) = connected().await;
    let (outcome, published) =
        tokio::join!(soon(client.emit("a/b/c", &Chat { text: "hello" })), peer.confirm_publish());
    outcome.unwrap();
    assert_eq!(&published.data[..], b"\x81\xa4text\xa5hello");
}

#[tokio::test]
async fn an_untracked_message_is_sent_without_reference() {
    let (_server, client, mut peer) = connected().await;
    assert_eq!(soon(client.emit("a/b/c", &1).untracked()).await, Ok(Emitted::Sent));
    assert_eq!(peer.published().await.msg_ref, None);
}

#[tokio::test]
async fn a_refusal_is_told_to_its_message_only() {
    let (_server, client, mut peer) = connected().await;
    let (refused, acked, ()) =
        tokio::join!(soon(client.emit("a/b/c", "first")), soon(client.emit("a/b/c", "second")), async {
            let first = peer.published().await;
            let second = peer.published().await;
            peer.ack(&second).await;
            let msg_ref = first.msg_ref.as_deref().map(Text::Str);
            let (code, topic) = (Some(42940), Some(Text::Str("a/b/c")));
            let error = ErrorFrame { error: "unknown_topic", code, topic, msg_ref, ..ErrorFrame::default() };
            peer.send(&ServerFrame::Error(error)).await;
        });
    assert_eq!(acked, Ok(Emitted::Acked));
    let refused = refused.unwrap_err();
    let EmitError::Refused(error) = &refused else { panic!("{refused:?}") };
    assert_eq!((error.code, error.op), (Some(42940), Some(Op::Publish)));
    assert!(!refused.may_be_delivered());
    assert!(matches!(Error::from(refused), Error::Server(_)));
}

#[tokio::test]
async fn a_lost_connection_leaves_the_outcome_unknown() {
    let (_server, client, mut peer) = connected().await;
    let (outcome, ()) = tokio::join!(soon(client.emit("a/b/c", &1)), async {
        peer.published().await;
        peer.cut();
    });
    assert!(outcome.unwrap_err().may_be_delivered());
}

#[tokio::test]
async fn without_a_session_nothing_is_accepted() {
    let client = Client::new("token", options("ws://127.0.0.1:9/ws"));
    let not_connected = EmitError::NotSent(Rejection::NotConnected.into());
    assert_eq!(soon(client.emit("a/b/c", &1)).await, Err(not_connected));
    assert_eq!(client.emit("a/b/c", &1).send(), Err(Rejection::NotConnected.into()));
    let refused = client.emit("a/b/c", &1).callback(|_| panic!("it was refused"));
    assert_eq!(refused, Err(Rejection::NotConnected.into()));
}

#[tokio::test]
async fn callbacks_get_every_outcome() {
    let (_server, client, mut peer) = connected().await;
    let (tell, told) = mpsc::channel();
    let accepted = ["a/b/c", "not a topic"].map(|topic| {
        let tell = tell.clone();
        client.emit(topic, &1).callback(move |outcome| tell.send((topic, outcome)).unwrap())
    });
    assert!(matches!(accepted, [Ok(()), Err(Error::Misuse(_))]));
    peer.confirm_publish().await;
    let mut outcomes = Vec::new();
    until("an outcome", || {
        outcomes.extend(told.try_iter());
        !outcomes.is_empty()
    })
    .await;
    assert_eq!(outcomes, [("a/b/c", Ok(Emitted::Acked))]);
}

#[tokio::test]
async fn callbacks_behind_a_stuck_handler_are_bounded() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()).outbound_limits(10, 1 << 20));
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    client.on_connect(move || {
        let gate = handler_gate.clone();
        async move { gate.acquire().await.unwrap().forget() }
    });
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let (tell, told) = mpsc::channel();
    let emit = || {
        let tell = tell.clone();
        client.emit("a/b/c", &1).callback(move |outcome| tell.send(outcome).unwrap())
    };
    for _ in 0..10 {
        emit().unwrap();
        peer.confirm_publish().await;
    }
    // All have their outcomes, and no callback could be called.
    soon(client.flush()).await;
    assert_eq!(emit(), Err(Rejection::Full { pending: 10, bytes: 0 }.into()));
    // What needs no callback goes on.
    let (acked, _) = tokio::join!(soon(client.emit("a/b/c", &1)), peer.confirm_publish());
    acked.unwrap();
    gate.add_permits(1);
    for _ in 0..10 {
        until("a callback", || told.try_recv() == Ok(Ok(Emitted::Acked))).await;
    }
    until("room", || emit().is_ok()).await;
}

#[tokio::test]
async fn many_at_once_have_one_outcome_each_in_order() {
    let (_server, client, mut peer) = connected().await;
    let topics = ["a/b/c", "not a topic", "a/b/d", "a/b/e"];
    let emits = client.emit_many(topics.map(|topic| client.emit(topic, topic)));
    let (outcomes, ()) = tokio::join!(soon(emits), async {
        let (first, second) = (peer.published().await, peer.published().await);
        let third = peer.published().await;
        assert_eq!([&*first.topic, &*second.topic, &*third.topic], ["a/b/c", "a/b/d", "a/b/e"]);
        // The broker may answer in any order, and not at all.
        peer.ack(&second).await;
        peer.ack(&first).await;
        peer.cut();
    });
    assert_eq!(outcomes.len(), 4);
    assert_eq!((&outcomes[0], &outcomes[2]), (&Ok(Emitted::Acked), &Ok(Emitted::Acked)));
    assert!(matches!(&outcomes[1], Err(EmitError::NotSent(Error::Misuse(_)))));
    assert!(matches!(&outcomes[3], Err(EmitError::Unknown(_))));
    assert_eq!(soon(client.emit_many([])).await, []);
}

#[tokio::test]
async fn a_message_may_expire_before_its_turn() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()).publish_rate(1));
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    client.emit("a/b/c", "first").send().unwrap();
    let first = peer.published().await;
    let waiting = client.emit("a/b/c", "second").expires_in(Duration::from_millis(10));
    let expired = soon(waiting).await.unwrap_err();
    assert_eq!(expired, EmitError::Expired);
    assert!(!expired.may_be_delivered());
    assert_eq!(Error::from(expired), Rejection::Expired.into());
    peer.ack(&first).await;
}

#[tokio::test]
async fn messages_wait_for_a_session_when_asked() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()).offline_queue(2, 1000, None));
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    peer.cut();
    until("the loss", || client.status() == Status::Reconnecting).await;
    client.emit("a/b/c", "first").send().unwrap();
    client.emit("a/b/c", "second").send().unwrap();
    let full = client.emit("a/b/c", "third").send();
    assert!(matches!(full, Err(Error::Rejected(Rejection::Full { pending: 2, .. }))), "{full:?}");
    let mut peer = server.session().await;
    assert_eq!(&peer.confirm_publish().await.data[..], b"\xa5first");
    assert_eq!(&peer.confirm_publish().await.data[..], b"\xa6second");
}

#[tokio::test]
async fn messages_do_not_wait_for_a_session_for_longer_than_asked() {
    let server = ScriptedServer::start().await;
    let options = options(&server.url()).reconnect_interval(Duration::from_secs(3600)).offline_queue(
        2,
        1000,
        Duration::from_millis(10),
    );
    let client = Client::new("token", options);
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    drop(server);
    peer.cut();
    until("the loss", || client.status() == Status::Reconnecting).await;
    assert_eq!(soon(client.emit("a/b/c", &1)).await, Err(EmitError::Expired));
}

#[tokio::test]
async fn unconfirmed_messages_are_sent_again_when_asked() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()).resend_unconfirmed(true));
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let (outcome, ()) = tokio::join!(soon(client.emit("a/b/c", "twice")), async {
        let first = peer.published().await;
        peer.cut();
        let again = server.session().await.confirm_publish().await;
        assert_eq!(first.frame, again.frame);
    });
    assert_eq!(outcome, Ok(Emitted::Acked));
}

#[tokio::test]
async fn a_payload_that_cannot_be_encoded_is_returned_and_reported() {
    struct Stubborn;
    impl Serialize for Stubborn {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no way"))
        }
    }
    let (_server, client, _peer) = connected().await;
    let (tell, told) = mpsc::channel();
    client.on_error(move |event| tell.send(event).unwrap());
    let error = client.app("a").room("b").emit("c", &Stubborn).send().unwrap_err();
    assert!(matches!(&error, Error::Misuse(Misuse::Encode(_))), "{error:?}");
    let mut seen = None;
    until("the event", || {
        seen = told.try_recv().ok();
        seen.is_some()
    })
    .await;
    let event = seen.unwrap();
    assert_eq!((event.op(), event.topic()), (Some(Op::Publish), Some("a/b/c")));
    assert_eq!(event, ErrorEvent::Encode { op: Op::Publish, topic: "a/b/c".into(), error: error.clone() });
    assert_eq!(soon(client.emit("a/b/c", &Stubborn)).await, Err(EmitError::NotSent(error)));
}

#[tokio::test]
async fn a_failed_fire_and_forget_is_reported() {
    let (_server, client, mut peer) = connected().await;
    let log = Log::default();
    log.watch(&client);
    client.emit("a/b/c", &1).send().unwrap();
    let published = peer.published().await;
    let msg_ref = published.msg_ref.as_deref().map(Text::Str);
    let error = ErrorFrame { error: "rate_limit_exceeded", msg_ref, ..ErrorFrame::default() };
    peer.send(&ServerFrame::Error(error)).await;
    log.wait_for("error: publish refused: rate_limit_exceeded").await;
}

#[tokio::test]
async fn names_with_slashes_do_not_lead_to_other_rooms() {
    let (_server, client, _peer) = connected().await;
    let emit = client.app("demo").room("general/secret").emit("messages", &1);
    assert!(matches!(soon(emit).await, Err(EmitError::NotSent(Error::Misuse(Misuse::InvalidTopic { .. })))));
    let emit = client.app("demo").room("general").emit("a/b", &1);
    assert!(matches!(soon(emit).await, Err(EmitError::NotSent(Error::Misuse(Misuse::InvalidTopic { .. })))));
    let room = client.app("demo/x").room("general");
    assert!(matches!(soon(room.subscribe("messages")).await, Err(Error::Misuse(_))));
}

#[tokio::test]
async fn a_payload_may_come_encoded() {
    let (_server, client, mut peer) = connected().await;
    let payload = Payload::from_msgpack(&b"\xc4\x02\x00\xff"[..]).unwrap();
    let (outcome, published) =
        tokio::join!(soon(client.emit_payload("a/b/c", payload)), peer.confirm_publish());
    outcome.unwrap();
    assert_eq!(&published.data[..], b"\xc4\x02\x00\xff");
}

#[tokio::test]
async fn a_thousand_messages_leave_in_order() {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", options(&server.url()).publish_rate(None));
    let (connected, mut peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    let room = client.app("demo").room("general");
    let publisher = tokio::spawn(async move {
        let emits: Vec<_> = (0..1000).map(|n: u32| room.emit("messages", &n).into_future()).collect();
        futures_util::future::join_all(emits).await
    });
    for n in 0..1000u32 {
        let published = peer.confirm_publish().await;
        assert_eq!(Payload::from_msgpack(published.data).unwrap().decode(), Ok(n));
    }
    let outcomes = soon(publisher).await.unwrap();
    assert!(outcomes.iter().all(|outcome| *outcome == Ok(Emitted::Acked)));
}

#[tokio::test]
async fn a_dropped_future_does_not_withdraw_its_message() {
    let (_server, client, mut peer) = connected().await;
    let mut emit = Box::pin(client.emit("a/b/c", "kept").into_future());
    assert!(is_pending(&mut emit).await);
    drop(emit);
    // Never polled, so never published.
    drop(client.emit("a/b/c", "dropped").into_future());
    client.emit("a/b/c", "last").send().unwrap();
    assert_eq!(&peer.confirm_publish().await.data[..], b"\xa4kept");
    assert_eq!(&peer.confirm_publish().await.data[..], b"\xa4last");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_threads_publish_and_subscribe_at_once() {
    const EACH: u32 = 300;
    let broker = nolag_broker::TestBroker::builder().limits(nolag_broker::Limits::NONE).start().await;
    let client = Client::new(broker.token("alice"), options(&broker.url()).publish_rate(None));
    soon(client.connect()).await.unwrap();
    let tasks = (0..8).map(|task: u32| {
        let room = client.app("demo").room(format!("room-{task}"));
        tokio::spawn(async move {
            let mut stream = room.subscribe("messages").stream::<u32>().await.unwrap();
            for n in 0..EACH {
                room.emit("messages", &n).send().unwrap();
            }
            for n in 0..EACH {
                assert_eq!(stream.next().await.unwrap().unwrap().data(), &n);
            }
            room.unsubscribe("messages").await.unwrap();
            assert!(stream.next().await.is_none());
        })
    });
    for done in soon(futures_util::future::join_all(tasks)).await {
        done.unwrap();
    }
    soon(client.close()).await;
}
