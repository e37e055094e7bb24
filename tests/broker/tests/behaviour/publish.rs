//! `publish`, acknowledgements, echo, ids and sender.

use nolag_broker::{BrokerConfig, Profile};
use serde_json::json;

use crate::world::{MESSAGES, World};

#[test]
fn the_acknowledgement_comes_before_the_own_copy() {
    let mut world = World::new(Profile::Kraken04);
    let ann = world.subscriber("ann", MESSAGES);
    let frames =
        world.ask(ann, json!({"type": "publish", "topic": MESSAGES, "data": {"n": 1}, "msgRef": "r1"}));
    assert_eq!(frames[0], json!({"type": "published", "topic": MESSAGES, "msgRef": "r1"}));
    let id = frames[1]["msgId"].as_str().unwrap();
    let message = json!({"type": "message", "topic": MESSAGES, "data": {"n": 1}, "filter": "#", "msgId": id,
        "requiresAck": true});
    assert_eq!((id.len(), &frames[1]), (36, &message));
}

#[test]
fn only_text_that_is_not_empty_asks_for_an_acknowledgement() {
    let mut world = World::new(Profile::Kraken04);
    let ann = world.connect("ann");
    for msg_ref in [json!(17), json!(2.5), json!(null), json!(""), json!(true), json!([1]), json!({"a": 1})] {
        let frames =
            world.ask(ann, json!({"type": "publish", "topic": MESSAGES, "data": 1, "msgRef": msg_ref}));
        assert!(frames.is_empty(), "{msg_ref}");
        let refused =
            world.ask(ann, json!({"type": "publish", "topic": "x/y/z", "data": 1, "msgRef": msg_ref}));
        assert!(refused[0].get("msgRef").is_none());
    }
}

#[test]
fn version_1_clients_are_acknowledged_too() {
    let mut world = World::new(Profile::Kraken04);
    let conn = world.open();
    world.ask(conn, json!({"type": "auth", "token": "t-ann"}));
    let frames = world.ask(conn, json!({"type": "publish", "topic": MESSAGES, "data": 1, "msgRef": "r"}));
    assert_eq!(frames[0]["type"], "published");
}

#[test]
fn echo_false_spares_the_publishing_connection_only() {
    let mut world = World::new(Profile::Kraken04);
    let (one, two) = (world.subscriber("ann", MESSAGES), world.subscriber("ann", MESSAGES));
    let other = world.subscriber("ben", MESSAGES);
    world.send(one, json!({"type": "publish", "topic": MESSAGES, "data": 1, "echo": false}));
    assert!(world.payloads(one).is_empty());
    assert_eq!((world.payloads(two), world.payloads(other)), (vec![json!(1)], vec![json!(1)]));
    world.send(one, json!({"type": "publish", "topic": MESSAGES, "data": 2, "echo": "no"}));
    assert_eq!(world.payloads(one), [2], "only the literal false counts");
}

#[test]
fn the_cloud_sends_nobody_their_own_messages() {
    let mut world = World::new(Profile::Cloud);
    let (one, two) = (world.subscriber("ann", MESSAGES), world.subscriber("ann", MESSAGES));
    let other = world.subscriber("ben", MESSAGES);
    world.send(one, json!({"type": "publish", "topic": MESSAGES, "data": 1, "echo": true}));
    assert!(world.payloads(one).is_empty() && world.payloads(two).is_empty());
    assert_eq!(world.payloads(other), [1]);
}

#[test]
fn the_sender_is_stamped_from_0_10_on() {
    let mut world = World::new(Profile::Kraken010);
    let ann = world.subscriber("ann", MESSAGES);
    world.send(ann, json!({"type": "publish", "topic": MESSAGES, "data": 1, "from": "forged"}));
    let message = &world.take(ann)[0];
    assert_eq!((&message["from"], &message["fromType"]), (&json!("ann"), &json!("actor")));
    assert!(message.get("filter").is_none());

    let mut old = World::new(Profile::Kraken04);
    let ann = old.subscriber("ann", MESSAGES);
    old.publish(ann, MESSAGES, json!(1));
    assert!(old.take(ann)[0].get("from").is_none());
}

#[test]
fn without_recording_messages_carry_no_id() {
    let config =
        BrokerConfig { profile: Profile::Kraken04, record_messages: false, ..BrokerConfig::default() };
    let mut world = World::with(config);
    let ann = world.subscriber("ann", MESSAGES);
    world.publish(ann, MESSAGES, json!({"_msgId": "mine", "_data": 5}));
    world.publish(ann, MESSAGES, json!({"_sender": "x", "data": [1]}));
    let messages = world.take(ann);
    let unwrapped = json!({"type": "message", "topic": MESSAGES, "data": 5, "filter": "#", "msgId": "mine",
        "requiresAck": true});
    let plain = json!({"type": "message", "topic": MESSAGES, "data": [1], "filter": "#"});
    assert_eq!(messages, [unwrapped, plain]);
}

#[test]
fn internal_envelopes_are_unwrapped_by_0_4_only() {
    let envelope = json!({"_sender": "x", "data": "inner"});
    for (profile, delivered) in [(Profile::Kraken04, json!("inner")), (Profile::Kraken010, envelope.clone())]
    {
        let mut world = World::new(profile);
        let (ann, ben) = (world.subscriber("ann", MESSAGES), world.connect("ben"));
        world.publish(ben, MESSAGES, envelope.clone());
        world.send(ben, json!({"type": "publish", "topic": MESSAGES, "data": envelope, "echo": false}));
        assert_eq!(world.payloads(ann), [delivered, envelope.clone()]);
    }
}

#[test]
fn acks_are_never_answered() {
    let mut world = World::new(Profile::Kraken04);
    let ann = world.connect("ann");
    let acks = [
        json!({"type": "ack", "msgId": "m"}),
        json!({"type": "ack", "msgId": [1]}),
        json!({"type": "ack"}),
        json!({"type": "batchAck", "msgIds": ["a", 1]}),
        json!({"type": "batchAck"}),
    ];
    for ack in acks {
        assert!(world.ask(ann, ack).is_empty());
    }
    world.send(ann, json!({"type": "batchAck", "msgIds": "a"}));
    assert_eq!(world.end(ann).as_deref(), Some("1011"));
}

#[test]
fn the_same_seed_gives_the_same_ids() {
    let ids = |seed| {
        let mut world = World::with(BrokerConfig { seed, ..BrokerConfig::default() });
        let ann = world.subscriber("ann", MESSAGES);
        world.publish(ann, MESSAGES, json!(1));
        world.take(ann)[0]["msgId"].clone()
    };
    assert_eq!(ids(1), ids(1));
    assert_ne!(ids(1), ids(2));
}
