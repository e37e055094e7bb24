//! Messages from the broker to the application.

use std::{sync::mpsc, time::Duration};

use nolag::{Client, Error, Options, QoS, TypedMessages};
use nolag_core::wire::{ClientFrame, ErrorFrame, Filter, ServerFrame, Text};
use serde::Deserialize;

use crate::{
    Log, is_pending, options,
    server::{Peer, ScriptedServer},
    soon, until,
};

async fn connected_with(change: impl FnOnce(Options) -> Options) -> (ScriptedServer, Client, Peer) {
    let server = ScriptedServer::start().await;
    let client = Client::new("token", change(options(&server.url())));
    let (connected, peer) = tokio::join!(soon(client.connect()), server.session());
    connected.unwrap();
    (server, client, peer)
}

async fn connected() -> (ScriptedServer, Client, Peer) {
    connected_with(|options| options).await
}

#[tokio::test]
async fn every_option_reaches_the_broker() {
    let (_server, client, mut peer) = connected().await;
    let room = client.app("demo").room("general");
    let all = Filter::All(vec!["a".into(), "b".into()]);
    let subscribe = room
        .subscribe("messages")
        .qos(QoS::AtMostOnce)
        .filters([Filter::from("vip"), all.clone()])
        .load_balance(true)
        .group("workers");
    let (subscribed, ()) = tokio::join!(soon(subscribe), async {
        let frame = peer.frame().await;
        let Ok(ClientFrame::Subscribe(subscribe)) = ClientFrame::decode(&frame) else { panic!() };
        assert_eq!((subscribe.topic, subscribe.qos), ("demo/general/messages", Some(QoS::AtMostOnce)));
        assert_eq!(subscribe.filters, ["vip".into(), all]);
        assert_eq!((subscribe.load_balance, subscribe.load_balance_group), (true, Some("workers")));
        peer.send(&ServerFrame::Subscribed { topic: Text::Str(subscribe.topic), load_balance: true }).await;
    });
    let subscribed = subscribed.unwrap();
    assert_eq!((&*subscribed.topic, subscribed.load_balanced), ("demo/general/messages", true));
    assert_eq!(client.subscriptions().len(), 1);
}

#[tokio::test]
async fn the_clients_defaults_apply_to_its_subscriptions() {
    let defaults = |options: Options| {
        options.qos(QoS::ExactlyOnce).load_balance(true).load_balance_group("task-workers")
    };
    let (_server, client, mut peer) = connected_with(defaults).await;
    assert!(client.load_balanced());
    assert_eq!(client.load_balance_group(), Some("task-workers"));
    client.subscribe("a/b/c").send().unwrap();
    let frame = peer.frame().await;
    let Ok(ClientFrame::Subscribe(subscribe)) = ClientFrame::decode(&frame) else { panic!() };
    assert_eq!(subscribe.qos, Some(QoS::ExactlyOnce));
    assert_eq!((subscribe.load_balance, subscribe.load_balance_group), (true, Some("task-workers")));
}

#[derive(Debug, PartialEq, Deserialize)]
struct Chat {
    text: String,
}

async fn chat(client: &Client, peer: &mut Peer) -> TypedMessages<Chat> {
    let room = client.app("demo").room("general");
    let (stream, _) = tokio::join!(soon(room.subscribe("messages").stream()), peer.confirm_subscribe());
    stream.unwrap()
}

#[tokio::test]
async fn a_stream_decodes_and_goes_on_after_what_does_not_fit() {
    let (_server, client, mut peer) = connected().await;
    let mut stream = chat(&client, &mut peer).await;
    assert_eq!(stream.topic(), "demo/general/messages");
    peer.deliver(
        "demo/general/messages",
        &[("text", "hello")].into_iter().collect::<std::collections::HashMap<_, _>>(),
    )
    .await;
    peer.deliver("demo/general/messages", "no chat").await;
    peer.deliver(
        "demo/general/messages",
        &[("text", "again")].into_iter().collect::<std::collections::HashMap<_, _>>(),
    )
    .await;
    let message = soon(stream.next()).await.unwrap().unwrap();
    assert_eq!((message.data().text.as_str(), message.sender()), ("hello", Some("bob")));
    assert_eq!(message.topic(), "demo/general/messages");
    assert!(soon(stream.next()).await.unwrap().is_err());
    assert_eq!(soon(stream.next()).await.unwrap().unwrap().into_data(), Chat { text: "again".into() });
}

#[tokio::test]
async fn a_refused_subscription_is_told() {
    let (_server, client, mut peer) = connected().await;
    let (refused, ()) = tokio::join!(soon(client.subscribe("a/b/c").messages()), async {
        peer.frame().await;
        let (code, topic, hint) = (Some(42940), Some(Text::Str("a/b/c")), Some("no grant"));
        let error = ErrorFrame { error: "unknown_topic", code, topic, hint, ..ErrorFrame::default() };
        peer.send(&ServerFrame::Error(error)).await;
    });
    let Error::Server(error) = refused.unwrap_err() else { panic!() };
    assert_eq!((error.error.as_str(), error.hint.as_deref()), ("unknown_topic", Some("no grant")));
    assert!(client.subscriptions().is_empty());
}

#[tokio::test]
async fn callbacks_get_every_outcome() {
    let (_server, client, mut peer) = connected().await;
    let (tell, told) = mpsc::channel();
    let accepted = ["a/b/c", "not a topic"].map(|topic| {
        let tell = tell.clone();
        client.subscribe(topic).callback(move |outcome| tell.send((topic, outcome.is_ok())).unwrap())
    });
    assert!(matches!(accepted, [Ok(()), Err(Error::Misuse(_))]));
    peer.confirm_subscribe().await;
    let unsubscribe = client.unsubscribe("a/b/c");
    unsubscribe.callback(move |outcome| tell.send(("end", outcome.is_ok())).unwrap()).unwrap();
    peer.confirm_unsubscribe().await;
    let mut outcomes = Vec::new();
    until("two outcomes", || {
        outcomes.extend(told.try_iter());
        outcomes.len() == 2
    })
    .await;
    assert_eq!(outcomes, [("a/b/c", true), ("end", true)]);
}

#[tokio::test]
async fn unsubscribing_ends_the_stream_after_what_it_holds() {
    let (_server, client, mut peer) = connected().await;
    let mut stream = chat(&client, &mut peer).await;
    let seen = Log::default();
    let log = seen.clone();
    client.on_any(move |message| log.add(message.topic()));
    peer.deliver("demo/general/messages", "x").await;
    seen.wait_for("messages").await;
    let unsubscribe = client.app("demo").room("general").unsubscribe("messages");
    let (done, topic) = tokio::join!(soon(unsubscribe), peer.confirm_unsubscribe());
    done.unwrap();
    assert_eq!(topic, "demo/general/messages");
    assert!(soon(stream.next()).await.is_some());
    assert!(soon(stream.next()).await.is_none());
    assert!(soon(stream.next()).await.is_none());
}

#[tokio::test]
async fn a_dropped_stream_detaches_only_itself() {
    let (_server, client, mut peer) = connected().await;
    let first = chat(&client, &mut peer).await;
    // An identical subscription needs no frame.
    let room = client.app("demo").room("general");
    let mut second = soon(room.subscribe("messages").messages()).await.unwrap();
    drop(first);
    peer.deliver("demo/general/messages", &1).await;
    assert_eq!(soon(second.next()).await.unwrap().data(), Ok(1));
    drop(second);
    assert_eq!(client.subscriptions().len(), 1);
    // Nobody listens: it is acknowledged, counted and dropped.
    peer.deliver_recorded("demo/general/messages", &2, Some("m2")).await;
    assert_eq!(peer.acks().await, ["m2"]);
    assert_eq!(client.stats().messages_unheard, 1);
}

#[tokio::test]
async fn a_dropped_subscribe_is_taken_back() {
    // At once, not when its time is over.
    let patient = |options: Options| options.operation_timeout(Duration::from_secs(3600));
    let (_server, client, mut peer) = connected_with(patient).await;
    let mut subscribe = Box::pin(client.subscribe("a/b/c").messages());
    assert!(is_pending(&mut subscribe).await);
    let frame = peer.frame().await;
    assert!(matches!(ClientFrame::decode(&frame), Ok(ClientFrame::Subscribe(_))));
    drop(subscribe);
    assert_eq!(peer.confirm_unsubscribe().await, "a/b/c");
    assert!(client.subscriptions().is_empty());
}

#[tokio::test]
async fn a_message_is_acknowledged_when_its_last_clone_is_dropped() {
    let (_server, client, mut peer) = connected().await;
    let (stream, _) = tokio::join!(soon(client.subscribe("a/b/c").messages()), peer.confirm_subscribe());
    let mut stream = stream.unwrap();
    for (n, id) in [(1, "m1"), (2, "m2"), (3, "m3")] {
        peer.deliver_recorded("a/b/c", &n, Some(id)).await;
    }
    let first = soon(stream.next()).await.unwrap();
    let second = soon(stream.next()).await.unwrap();
    let third = soon(stream.next()).await.unwrap();
    assert_eq!(first.msg_id(), Some("m1"));
    let handle = first.ack_manually().unwrap();
    drop(first);
    let clone = second.clone();
    drop(second);
    drop(third);
    assert_eq!(peer.acks().await, ["m3"]);
    drop(clone);
    assert_eq!(peer.acks().await, ["m2"]);
    handle.ack();
    assert_eq!(peer.acks().await, ["m1"]);
}

#[tokio::test]
async fn acknowledgements_are_sent_together_up_to_the_number_asked_for() {
    let batch = |options: Options| options.ack_batch(3, Duration::from_secs(3600));
    let (_server, client, mut peer) = connected_with(batch).await;
    let (stream, _) = tokio::join!(soon(client.subscribe("a/b/c").messages()), peer.confirm_subscribe());
    let mut stream = stream.unwrap();
    for (n, id) in [(1, "m1"), (2, "m2"), (3, "m3")] {
        peer.deliver_recorded("a/b/c", &n, Some(id)).await;
        drop(soon(stream.next()).await.unwrap());
    }
    assert_eq!(peer.acks().await, ["m1", "m2", "m3"]);
}

#[tokio::test]
async fn a_typed_topic_publishes_streams_and_handles() {
    let (_server, client, mut peer) = connected().await;
    let log = Log::default();
    log.watch(&client);
    let numbers = client.app("demo").room("general").topic::<u32>("numbers");
    let seen = log.clone();
    numbers.on(move |message| seen.add(format!("number {}", message.data())));
    let (stream, _) = tokio::join!(soon(numbers.stream()), peer.confirm_subscribe());
    let (emitted, published) = tokio::join!(soon(numbers.emit(&5)), peer.confirm_publish());
    emitted.unwrap();
    assert_eq!(published.topic, "demo/general/numbers");
    peer.deliver("demo/general/numbers", &6).await;
    peer.deliver("demo/general/numbers", "seven").await;
    assert_eq!(soon(stream.unwrap().next()).await.unwrap().unwrap().data(), &6);
    log.wait_for("number 6").await;
    log.wait_for("error: message on demo/general/numbers: the payload is not of the expected type").await;
}
