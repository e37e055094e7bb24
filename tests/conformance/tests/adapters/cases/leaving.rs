//! Leaving, and leaving nothing behind.

use std::{sync::Arc, time::Duration};

use nolag::{Client, EmitError, Emitted, Error, ProtocolError, Rejection, Status};
use nolag_broker::{Expected, Fault};
use tokio::sync::Semaphore;

use super::{Case, case};
use crate::{
    fixtures::Link,
    world::{Log, TOPIC, World, channel},
};

pub(super) const CASES: &[Case] = &[
    case!(Every, closing_finishes_what_was_accepted),
    case!(One, closing_waits_for_the_handlers_of_what_was_received),
    case!(One, closing_does_not_wait_for_ever),
    case!(One, a_client_may_leave_and_come_back),
    case!(One, disconnecting_is_never_followed_by_a_reconnect),
    case!(One, dropping_everything_finishes_and_says_goodbye),
    case!(One, dropping_everything_during_an_outage_leaves_nothing_behind),
    case!(One, a_client_that_never_connected_leaves_nothing_behind),
];

fn closing_finishes_what_was_accepted(w: &World) {
    const MESSAGES: usize = 40;
    let broker = w.broker();
    let (client, log) = w.watched(&broker, "alice");
    let (tell, told) = channel();
    for n in 0..MESSAGES {
        let tell = tell.clone();
        client.emit(TOPIC, &n).callback(move |outcome| tell.send(outcome)).unwrap();
    }
    w.wait(client.close());
    assert_eq!(told.try_iter().collect::<Vec<_>>(), vec![Ok(Emitted::Acked); MESSAGES]);
    assert_eq!(w.frames(&broker, &Expected::from_client("publish"), MESSAGES).len(), MESSAGES);
    assert_eq!(client.emit(TOPIC, &1).send(), Err(Rejection::NotConnected.into()));
    assert_eq!(log.entries(), ["connect", "disconnect: the client was disconnected by the application"]);
    w.connections(&broker, 0);
}

fn closing_waits_for_the_handlers_of_what_was_received(w: &World) {
    const MESSAGES: u32 = 10;
    let broker = w.broker();
    let hour = Duration::from_secs(3600);
    let client = w.connect_with(&broker, "alice", |options| options.drain_timeout(hour));
    let publisher = w.connect(&broker, "bob");
    let log = Log::default();
    let gate = Arc::new(Semaphore::new(0));
    let (seen, handler_gate) = (log.clone(), gate.clone());
    client.on(TOPIC, move |message| {
        let (seen, gate) = (seen.clone(), handler_gate.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            seen.add(message.data::<u32>().unwrap().to_string());
        }
    });
    w.wait(client.subscribe(TOPIC)).unwrap();
    for n in 0..MESSAGES {
        w.wait(publisher.emit(TOPIC, &n)).unwrap();
    }
    w.until("all arrive", || client.stats().core.messages_received == u64::from(MESSAGES));
    let (tell, told) = channel();
    w.start(client.close(), tell);
    w.connections(&broker, 1);
    assert!(told.try_recv().is_err(), "it does not wait");
    gate.add_permits(MESSAGES as usize);
    w.receive(&told);
    assert_eq!(log.entries(), (0..MESSAGES).map(|n| n.to_string()).collect::<Vec<_>>());
}

fn closing_does_not_wait_for_ever(w: &World) {
    let broker = w.broker_with(|broker| broker.fault(Fault::drop().on("publish")));
    let short = Duration::from_millis(50);
    let client = w.connect_with(&broker, "alice", |options| options.drain_timeout(short));
    let (tell, told) = channel();
    w.start(client.emit(TOPIC, "never confirmed"), tell);
    w.frames(&broker, &Expected::from_client("publish"), 1);
    // Nor does it wait for a handler that hangs.
    client.on_disconnect(|_| std::future::pending());
    w.wait(client.close());
    assert_eq!(client.status(), Status::Disconnected);
    assert!(matches!(w.receive(&told), Err(EmitError::Unknown(_))));
    w.connections(&broker, 0);
}

fn a_client_may_leave_and_come_back(w: &World) {
    let broker = w.broker();
    let client = w.client(&broker, "alice");
    for round in 1..=3 {
        w.wait(client.connect()).unwrap();
        let mut messages = w.wait(client.subscribe(TOPIC).messages()).unwrap();
        w.wait(client.emit(TOPIC, &round)).unwrap();
        assert_eq!(w.message(&mut messages).data(), Ok(round));
        w.wait(client.close());
        assert!(w.wait(messages.next()).is_none());
        assert!(client.subscriptions().is_empty());
    }
    assert_eq!(client.stats().core.sessions, 3);
    // Without a connection it is done at once.
    w.wait(client.close());
    client.disconnect();
}

fn disconnecting_is_never_followed_by_a_reconnect(w: &World) {
    let broker = w.broker();
    let mut link = Link::to(&broker);
    let options = w.options(&link.url());
    let witness = w.connect(&broker, "witness");

    // With a session.
    let client = Client::new(broker.token("alice"), options.clone());
    let log = Log::watch(&client);
    w.wait(client.connect()).unwrap();
    client.disconnect();
    w.connections(&broker, 1);
    w.heard(&log, "disconnect");
    // While it tries to reconnect, again and again.
    w.wait(client.connect()).unwrap();
    link.close();
    w.heard(&log, "error: attempt 1 to connect failed");
    client.disconnect();
    assert_eq!(client.status(), Status::Disconnected);
    // While it connects, and the broker does not answer.
    link.open();
    let refusal = broker.block_on(broker.fault(Fault::drop().on("auth")));
    let connects = link.count();
    let (tell, told) = channel();
    w.start(client.connect(), tell);
    w.until("it connects", || link.count() > connects);
    client.disconnect();
    assert_eq!(w.receive(&told), Err(Rejection::Disconnected.into()));
    broker.block_on(broker.remove_fault(refusal));

    // Whatever would follow has had its time when others have done a lot.
    let connects = link.count();
    for n in 0..50 {
        w.wait(witness.emit(TOPIC, &n)).unwrap();
    }
    assert_eq!((link.count(), client.status()), (connects, Status::Disconnected));
    assert_eq!(log.count("reconnect"), 0, "{:?}", log.entries());
    w.connections(&broker, 1);
}

/// Something that lives as long as the client's handlers: its tasks or threads hold them.
fn hold(client: &Client) -> std::sync::Weak<()> {
    let held = Arc::new(());
    let witness = Arc::downgrade(&held);
    client.on_any(move |_| {
        let _held = &held;
    });
    witness
}

fn dropping_everything_finishes_and_says_goodbye(w: &World) {
    let broker = w.broker();
    let link = Link::to(&broker);
    let client = Client::new(broker.token("alice"), w.options(&link.url()));
    let (witness, weak) = (hold(&client), client.downgrade());
    w.wait(client.connect()).unwrap();
    let messages = w.wait(client.subscribe(TOPIC).messages()).unwrap();
    let room = client.app("demo").room("general");
    drop((client, messages));
    // The room still holds it.
    room.emit("messages", "last words").send().unwrap();
    drop(room);
    w.all_is_over(&witness);
    assert!(weak.upgrade().is_none());
    w.until("it says goodbye", || link.goodbye(0) == Some(1000));
    w.connections(&broker, 0);
    w.frames(&broker, &Expected::to_client("published"), 1);
}

fn dropping_everything_during_an_outage_leaves_nothing_behind(w: &World) {
    let broker = w.broker();
    let mut link = Link::to(&broker);
    let client = Client::new(broker.token("alice"), w.options(&link.url()));
    let witness = hold(&client);
    let log = Log::watch(&client);
    w.wait(client.connect()).unwrap();
    link.close();
    w.heard(&log, "error: attempt 1 to connect failed");
    drop(client);
    w.all_is_over(&witness);
    link.open();
    let connects = link.count();
    w.wait(Client::new(broker.token("bob"), w.options(&link.url())).connect()).unwrap();
    assert_eq!(link.count(), connects + 1);
}

fn a_client_that_never_connected_leaves_nothing_behind(w: &World) {
    let broker = w.broker();
    let client = w.client(&broker, "alice");
    let witness = hold(&client);
    drop(client);
    assert_eq!(witness.strong_count(), 0, "there never was anything");
    // Nor does one whose first attempt was given up, by the caller or by the broker.
    broker.block_on(broker.fault(Fault::drop().on("auth")));
    let short = Duration::from_millis(50);
    let client = Client::new(broker.token("alice"), w.options(&broker.url()).operation_timeout(short));
    let witness = hold(&client);
    let error = w.wait(client.connect()).unwrap_err();
    assert!(matches!(error, Error::Protocol(ProtocolError::Timeout { .. })), "{error:?}");
    let refused = w.wait(client.emit(TOPIC, &1)).unwrap_err();
    assert!(matches!(refused, EmitError::NotSent(_)), "{refused:?}");
    drop(client);
    w.all_is_over(&witness);
    w.connections(&broker, 0);
}
