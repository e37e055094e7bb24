//! Losing the connection in every way, and getting everything back.

use std::time::{Duration, Instant};

use nolag::{Client, EmitError, Emitted, Error, ErrorEvent, Rejection, Status, TransportErrorKind};
use nolag_broker::{Expected, Fault};

use super::{Case, case};
use crate::{
    fixtures::Link,
    world::{Log, TOPIC, World, channel},
};

pub(super) const CASES: &[Case] = &[
    case!(Every, a_cut_connection_comes_back_with_everything),
    case!(Every, a_restarted_broker_is_given_everything_anew),
    case!(Every, a_named_client_is_restored_by_the_broker_where_it_can),
    case!(One, a_port_that_was_closed_and_opens_again_is_found),
    case!(One, a_clean_close_is_a_loss_too),
    case!(One, a_half_open_connection_is_noticed_by_its_heartbeat, slow),
    case!(One, it_gives_up_after_as_many_attempts_as_told),
    case!(One, without_reconnect_a_loss_is_final),
    case!(One, messages_wait_for_a_session_when_asked),
    case!(One, messages_wait_no_longer_than_asked),
    case!(One, unconfirmed_messages_are_unknown_and_sent_again_when_asked),
    case!(One, a_subscription_that_is_not_given_back_ends),
];

fn a_cut_connection_comes_back_with_everything(w: &World) {
    let broker = w.broker();
    let alice = w.connect(&broker, "alice");
    let (bob, log) = w.watched(&broker, "bob");
    let mut vip = w.wait(bob.subscribe(TOPIC).filters(["vip"]).stream::<String>()).unwrap();
    let bobs =
        broker.block_on(broker.connections()).into_iter().find(|it| it.actor_id.as_deref() == Some("bob"));
    broker.block_on(broker.cut(bobs.unwrap().id));
    w.heard(&log, "restored");
    let lost = "disconnect: connection ended without a goodbye";
    assert_eq!(log.entries(), ["connect", lost, "connect", "reconnect", "restored, gap true"]);
    w.wait(alice.emit(TOPIC, "for all")).unwrap();
    w.wait(alice.emit(TOPIC, "for few").filter("vip")).unwrap();
    assert_eq!(w.data(&mut vip), "for few");
    assert_eq!(bob.stats().core.sessions, 2);
}

fn a_restarted_broker_is_given_everything_anew(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    let logs = [Log::watch(&alice), Log::watch(&bob)];
    let mut messages = w.wait(bob.subscribe(TOPIC).stream::<String>()).unwrap();
    w.wait(bob.set_presence_in("general", "here")).unwrap();
    for round in 1..=2 {
        broker.block_on(broker.restart());
        for log in &logs {
            w.until("everything stands again", || log.count("restored") == round);
        }
        let said = format!("round {round}");
        w.wait(alice.emit(TOPIC, &said)).unwrap();
        assert_eq!(w.data(&mut messages), said);
        w.until("bob is there again", || w.wait(alice.fetch_presence("general")).unwrap().len() == 1);
    }
}

fn a_named_client_is_restored_by_the_broker_where_it_can(w: &World) {
    let broker = w.broker();
    let client = w.connect_with(&broker, "alice", |options| options.client_id("laptop"));
    let log = Log::watch(&client);
    let mut messages = w.wait(client.subscribe(TOPIC).stream::<String>()).unwrap();
    broker.block_on(broker.cut_all());
    w.heard(&log, "restored");
    let subscribes = w.frames(&broker, &Expected::from_client("subscribe"), 1).len();
    // It asks only for what the broker did not remember.
    assert_eq!(subscribes, if w.profile.rules().remembers_subscriptions { 1 } else { 2 });
    let bob = w.connect(&broker, "bob");
    w.wait(bob.emit(TOPIC, "welcome back")).unwrap();
    assert_eq!(w.data(&mut messages), "welcome back");
}

fn a_port_that_was_closed_and_opens_again_is_found(w: &World) {
    let broker = w.broker();
    let mut link = Link::to(&broker);
    let client = Client::new(broker.token("alice"), w.options(&link.url()).max_reconnect_attempts(None));
    let log = Log::watch(&client);
    let mut watch = client.watch_status();
    w.wait(client.connect()).unwrap();
    let mut messages = w.wait(client.subscribe(TOPIC).stream::<String>()).unwrap();
    link.close();
    assert!(w.wait(watch.wait_for(Status::Reconnecting)));
    w.heard(&log, "error: attempt 2 to connect failed: cannot connect");
    assert_eq!(client.emit(TOPIC, "nobody hears").send(), Err(Rejection::NotConnected.into()));
    link.open();
    w.heard(&log, "restored, gap true");
    assert!(w.wait(watch.wait_for(Status::Connected)));
    w.wait(client.emit(TOPIC, "back")).unwrap();
    assert_eq!(w.data(&mut messages), "back");
}

fn a_clean_close_is_a_loss_too(w: &World) {
    let broker = w.broker();
    let client = w.connect(&broker, "alice");
    for (round, code) in [1000, 1001, 1011, 1012].into_iter().enumerate() {
        let log = Log::watch(&client);
        let conn = broker.block_on(broker.connections())[0].id;
        broker.block_on(broker.with_core(move |core, now| core.close(now, conn, code, ""))).unwrap();
        w.heard(&log, &format!("disconnect: connection closed by the peer ({code})"));
        w.heard(&log, "reconnect");
        assert_eq!(client.stats().core.sessions, round as u64 + 2);
        w.connections(&broker, 1);
    }
}

fn a_half_open_connection_is_noticed_by_its_heartbeat(w: &World) {
    let (interval, timeout) = (Duration::from_millis(200), Duration::from_secs(1));
    let broker = w.broker();
    let link = Link::to(&broker);
    let options = w.options(&link.url()).heartbeat_interval(interval).heartbeat_timeout(timeout);
    let client = Client::new(broker.token("alice"), options.websocket_ping_interval(Duration::ZERO));
    let log = Log::watch(&client);
    w.wait(client.connect()).unwrap();
    let mut messages = w.wait(client.subscribe(TOPIC).stream::<String>()).unwrap();
    let (tell, told) = channel();
    // From here on nothing gets through, and nobody says so.
    let frozen = Instant::now();
    link.freeze();
    client.emit(TOPIC, "into the void").callback(move |outcome| tell.send(outcome)).unwrap();
    w.heard(&log, "disconnect: the broker stopped answering heartbeats");
    let noticed = frozen.elapsed();
    // Generous: other cases take the processor at the same time.
    assert!(noticed < interval + timeout + Duration::from_secs(5), "only after {noticed:?}");
    assert!(matches!(w.receive(&told), Err(EmitError::Unknown(_))));
    // A new connection works.
    w.heard(&log, "restored, gap true");
    assert_eq!(link.count(), 2);
    w.wait(client.emit(TOPIC, "back")).unwrap();
    assert_eq!(w.data(&mut messages), "back");
}

fn it_gives_up_after_as_many_attempts_as_told(w: &World) {
    let broker = w.broker();
    let mut link = Link::to(&broker);
    let client = Client::new(broker.token("alice"), w.options(&link.url()).max_reconnect_attempts(3));
    let (tell, told) = channel();
    client.on_error(move |event| tell.send(event));
    w.wait(client.connect()).unwrap();
    let mut messages = w.wait(client.subscribe(TOPIC).messages()).unwrap();
    link.close();
    assert!(w.wait(messages.next()).is_none(), "giving up ends the streams");
    // The last failure is told as the reason.
    for expected in 1..3 {
        let event = w.receive(&told);
        let ErrorEvent::AttemptFailed { attempt, cause: Error::Transport(cause), .. } = &event else {
            panic!("{event}")
        };
        assert_eq!((*attempt, cause.kind), (expected, TransportErrorKind::Connect));
    }
    let event = w.receive(&told);
    assert!(matches!(&event, ErrorEvent::GaveUp { cause: Error::Transport(_) }), "{event}");
    assert_eq!(client.status(), Status::Disconnected);
    assert!(client.explain().starts_with("gave up"), "{}", client.explain());
    // The application may start again.
    link.open();
    w.wait(client.connect()).unwrap();
}

fn without_reconnect_a_loss_is_final(w: &World) {
    let broker = w.broker();
    let client = w.connect_with(&broker, "alice", |options| options.reconnect(false));
    let log = Log::watch(&client);
    broker.block_on(broker.cut_all());
    w.heard(&log, "error: will not connect again by itself: connection ended");
    assert_eq!(client.status(), Status::Disconnected);
    w.wait(client.connect()).unwrap();
    w.wait(client.emit(TOPIC, &1)).unwrap();
}

fn messages_wait_for_a_session_when_asked(w: &World) {
    let broker = w.broker();
    let mut link = Link::to(&broker);
    let options = w.options(&link.url()).max_reconnect_attempts(None).offline_queue(3, 1000, None);
    let client = Client::new(broker.token("alice"), options);
    let reader = w.connect(&broker, "bob");
    let mut numbers = w.wait(reader.subscribe(TOPIC).stream::<u32>()).unwrap();
    let mut watch = client.watch_status();
    w.wait(client.connect()).unwrap();
    link.close();
    assert!(w.wait(watch.wait_for(Status::Reconnecting)));
    for n in 0..3 {
        client.emit(TOPIC, &n).send().unwrap();
    }
    let full = client.emit(TOPIC, &3).send();
    assert!(matches!(full, Err(Error::Rejected(Rejection::Full { pending: 3, .. }))), "{full:?}");
    link.open();
    assert_eq!(w.take(&mut numbers, 3), [0, 1, 2]);
}

fn messages_wait_no_longer_than_asked(w: &World) {
    let broker = w.broker();
    let mut link = Link::to(&broker);
    let age = Duration::from_millis(20);
    let options = w.options(&link.url()).max_reconnect_attempts(None).offline_queue(3, 1000, age);
    let client = Client::new(broker.token("alice"), options);
    let mut watch = client.watch_status();
    w.wait(client.connect()).unwrap();
    link.close();
    assert!(w.wait(watch.wait_for(Status::Reconnecting)));
    assert_eq!(w.wait(client.emit(TOPIC, &1)), Err(EmitError::Expired));
}

fn unconfirmed_messages_are_unknown_and_sent_again_when_asked(w: &World) {
    let broker = w.broker();
    for resend in [false, true] {
        let client = w.connect_with(&broker, "alice", |options| options.resend_unconfirmed(resend));
        let fault = broker.block_on(broker.fault(Fault::cut().on("publish").times(1)));
        let outcome = w.wait(client.emit(TOPIC, "once or twice"));
        match resend {
            false => assert!(matches!(&outcome, Err(EmitError::Unknown(_))), "{outcome:?}"),
            true => assert_eq!(outcome, Ok(Emitted::Acked)),
        }
        broker.block_on(broker.remove_fault(fault));
        w.wait(client.close());
    }
    assert_eq!(w.frames(&broker, &Expected::from_client("publish"), 3).len(), 3);
}

fn a_subscription_that_is_not_given_back_ends(w: &World) {
    let broker = w.broker();
    let client = w.connect(&broker, "alice");
    let log = Log::watch(&client);
    let mut messages = w.wait(client.subscribe(TOPIC).messages()).unwrap();
    broker.block_on(broker.fault(Fault::refuse("unknown_topic").on("subscribe")));
    broker.block_on(broker.cut_all());
    assert!(w.wait(messages.next()).is_none());
    w.heard(&log, &format!("error: subscription to {TOPIC} ended: subscribe refused: unknown_topic"));
    assert!(client.subscriptions().is_empty());
    // The connection itself is well.
    w.heard(&log, "restored");
    w.wait(client.emit(TOPIC, &1)).unwrap();
}
