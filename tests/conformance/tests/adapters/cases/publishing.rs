//! Every way to publish, and every outcome.

use std::time::Duration;

use nolag::{EmitError, Emitted, Error, ErrorEvent, Misuse, Op, Payload, QoS, Rejection};
use nolag_broker::{AuthConfig, Expected, Fault, NewActor};
use serde::Serialize;

use super::{Case, case};
use crate::world::{Log, TOPIC, World, channel};

pub(super) const CASES: &[Case] = &[
    case!(Every, every_way_to_publish_arrives_in_order),
    case!(Every, a_refusal_is_told_in_the_brokers_words),
    case!(One, every_option_reaches_the_broker),
    case!(One, flushing_waits_for_every_outcome),
    case!(One, a_message_may_expire_before_its_turn),
    case!(One, what_is_over_the_rate_waits_for_its_turn, slow),
    case!(One, without_a_session_nothing_is_accepted),
    case!(One, what_cannot_be_sent_is_told_at_once),
    case!(One, what_waits_is_bounded),
];

fn every_way_to_publish_arrives_in_order(w: &World) {
    let broker = w.broker();
    let (alice, bob) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    let mut numbers = w.wait(bob.subscribe(TOPIC).stream::<u32>()).unwrap();
    let room = alice.app("demo").room("general");
    let (tell, told) = channel();

    assert_eq!(w.wait(room.emit("messages", &0)), Ok(Emitted::Acked));
    assert_eq!(w.wait(alice.emit(TOPIC, &1).untracked()), Ok(Emitted::Sent));
    alice.emit(TOPIC, &2).send().unwrap();
    alice.emit(TOPIC, &3).callback(move |outcome| tell.send(outcome)).unwrap();
    let many = [4, 5, 6].map(|n| room.emit("messages", &n));
    assert_eq!(w.wait(alice.emit_many(many)), [Ok(Emitted::Acked), Ok(Emitted::Acked), Ok(Emitted::Acked)]);
    let encoded = Payload::from_msgpack(&b"\x07"[..]).unwrap();
    assert_eq!(w.wait(room.emit_payload("messages", encoded)), Ok(Emitted::Acked));

    assert_eq!(w.take(&mut numbers, 8), (0..8).collect::<Vec<_>>());
    assert_eq!(w.receive(&told), Ok(Emitted::Acked));
    assert_eq!(w.wait(alice.emit_many([])), []);
}

fn a_refusal_is_told_in_the_brokers_words(w: &World) {
    let auth = AuthConfig::allow_all().with_actor(NewActor::new("carol").can_publish(TOPIC));
    let broker = w.broker_with(|broker| broker.auth(auth));
    let client = w.connect(&broker, "carol");
    let log = Log::watch(&client);
    let outcomes = w.wait(client.emit_many([
        client.emit(TOPIC, "may"),
        client.emit("demo/general/secret", "may not"),
        client.emit(TOPIC, "may again"),
    ]));
    let [Ok(Emitted::Acked), Err(EmitError::Refused(error)), Ok(Emitted::Acked)] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!((error.code, error.op), (Some(42940), Some(Op::Publish)));
    assert_eq!(error.topic.as_deref(), Some("demo/general/secret"));
    client.emit("demo/general/secret", "may not").send().unwrap();
    w.heard(&log, "error: publish refused: unknown_topic (42940)");
    client.emit("demo/general/other", "may not").untracked().send().unwrap();
    w.heard(&log, "on demo/general/other");
}

fn every_option_reaches_the_broker(w: &World) {
    let broker = w.broker();
    let client = w.connect(&broker, "alice");
    let emit = client.emit(TOPIC, &7).qos(QoS::ExactlyOnce).retain().echo(false).filter("vip");
    w.wait(emit).unwrap();
    w.wait(client.emit(TOPIC, &7).filters(["a", "b"])).unwrap();
    let frames = w.frames(&broker, &Expected::from_client("publish"), 2);
    let shown: Vec<String> = frames.iter().map(ToString::to_string).collect();
    for part in [r#""qos": 2"#, r#""retain": true"#, r#""echo": false"#, r#""filter": "vip""#] {
        assert!(shown[0].contains(part) && !shown[1].contains(part), "{shown:#?}");
    }
    assert!(shown[1].contains(r#""filters": ["a", "b"]"#), "{shown:#?}");
}

fn flushing_waits_for_every_outcome(w: &World) {
    let broker = w.broker();
    let client = w.connect(&broker, "alice");
    w.wait(client.flush());
    broker.block_on(broker.fault(Fault::delay(Duration::from_millis(50)).on_reply("published")));
    for n in 0..10 {
        client.emit(TOPIC, &n).send().unwrap();
    }
    w.wait(client.flush());
    assert_eq!(w.frames(&broker, &Expected::to_client("published"), 10).len(), 10);
    assert!(!client.explain().contains("publishes"), "{}", client.explain());
}

fn a_message_may_expire_before_its_turn(w: &World) {
    let broker = w.broker_with(|broker| broker.fault(Fault::hold().on_reply("published")));
    // The second must wait for the answer to the first, which does not come.
    let client = w.connect_with(&broker, "alice", |options| options.publish_rate(1));
    client.emit(TOPIC, "first").send().unwrap();
    let expired = w.wait(client.emit(TOPIC, "second").expires_in(Duration::from_millis(10))).unwrap_err();
    assert_eq!(expired, EmitError::Expired);
    assert!(!expired.may_be_delivered());
    broker.block_on(broker.clear_faults());
    w.wait(client.flush());
    assert_eq!(w.frames(&broker, &Expected::from_client("publish"), 1).len(), 1);
}

fn what_is_over_the_rate_waits_for_its_turn(w: &World) {
    let broker = w.broker();
    let client = w.connect(&broker, "alice");
    // More than a broker takes in a second, and it refuses none.
    let outcomes = w.wait(client.emit_many((0..60).map(|n| client.emit(TOPIC, &n))));
    assert_eq!(outcomes, vec![Ok(Emitted::Acked); 60]);
    assert_eq!(client.stats().core.publishes_retried, 0);
    // Whoever does not hold back is refused, and comes through a second later.
    let hasty = w.connect_with(&broker, "bob", |options| options.publish_rate(None));
    let outcomes = w.wait(hasty.emit_many((0..110).map(|n| hasty.emit(TOPIC, &n))));
    assert_eq!(outcomes, vec![Ok(Emitted::Acked); 110]);
    assert!(hasty.stats().core.publishes_retried > 0);
}

fn without_a_session_nothing_is_accepted(w: &World) {
    let broker = w.broker();
    let client = w.client(&broker, "alice");
    let not_connected = EmitError::NotSent(Rejection::NotConnected.into());
    assert_eq!(w.wait(client.emit(TOPIC, &1)), Err(not_connected));
    assert_eq!(client.emit(TOPIC, &1).send(), Err(Rejection::NotConnected.into()));
    let refused = client.emit(TOPIC, &1).callback(|_| panic!("it was refused"));
    assert_eq!(refused, Err(Rejection::NotConnected.into()));
    assert_eq!(w.wait(client.subscribe(TOPIC)), Err(Rejection::NotConnected.into()));
    assert_eq!(w.wait(client.fetch_presence("general")), Err(Rejection::NotConnected.into()));
    w.wait(client.flush());
}

fn what_cannot_be_sent_is_told_at_once(w: &World) {
    struct Stubborn;
    impl Serialize for Stubborn {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no way"))
        }
    }
    let broker = w.broker();
    let client = w.connect(&broker, "alice");
    let (tell, told) = channel();
    client.on_error(move |event| tell.send(event));
    let error = client.emit(TOPIC, &Stubborn).send().unwrap_err();
    assert!(matches!(&error, Error::Misuse(Misuse::Encode(_))), "{error:?}");
    assert_eq!(
        w.receive(&told),
        ErrorEvent::Encode { op: Op::Publish, topic: TOPIC.into(), error: error.clone() }
    );
    assert_eq!(w.wait(client.emit(TOPIC, &Stubborn)), Err(EmitError::NotSent(error)));
    for (topic, room) in [("a/b", "general"), ("messages", "general/secret")] {
        let emit = client.app("demo").room(room).emit(topic, &1);
        let refused = w.wait(emit);
        assert!(
            matches!(refused, Err(EmitError::NotSent(Error::Misuse(Misuse::InvalidTopic { .. })))),
            "{refused:?}"
        );
    }
    let large = w.wait(client.emit(TOPIC, &"x".repeat(1_000_000)));
    assert!(
        matches!(large, Err(EmitError::NotSent(Error::Misuse(Misuse::DataTooLarge { .. })))),
        "{large:?}"
    );
    assert!(w.frames(&broker, &Expected::from_client("publish"), 0).is_empty());
}

fn what_waits_is_bounded(w: &World) {
    let broker = w.broker_with(|broker| broker.fault(Fault::hold().on_reply("published")));
    let client = w.connect_with(&broker, "alice", |options| options.outbound_limits(10, 1 << 20));
    for n in 0..10 {
        client.emit(TOPIC, &n).send().unwrap();
    }
    let full = client.emit(TOPIC, &10).send();
    assert!(matches!(full, Err(Error::Rejected(Rejection::Full { pending: 10, .. }))), "{full:?}");
    w.frames(&broker, &Expected::to_client("published"), 10);
    broker.block_on(broker.clear_faults());
    w.wait(client.flush());
    w.wait(client.emit(TOPIC, &10)).unwrap();
}
