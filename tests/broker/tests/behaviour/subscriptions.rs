//! `subscribe` and `unsubscribe`, wildcards and overlaps.

use nolag_broker::Profile;
use serde_json::json;

use crate::world::{JOBS, MESSAGES, World};

#[test]
fn subscribing_is_confirmed_whatever_the_qos() {
    let mut world = World::new(Profile::Kraken04);
    let ann = world.connect("ann");
    for qos in [json!(0), json!(2), json!(7), json!("high"), json!(null)] {
        let reply =
            world.ask(ann, json!({"type": "subscribe", "topic": MESSAGES, "qos": qos, "loadBalance": "yes"}));
        assert_eq!(reply, [json!({"type": "subscribed", "topic": MESSAGES, "loadBalance": false})]);
    }
}

#[test]
fn subscribing_twice_delivers_once() {
    let mut world = World::new(Profile::Kraken04);
    let ann = world.subscriber("ann", MESSAGES);
    world.send(ann, json!({"type": "subscribe", "topic": MESSAGES}));
    let ben = world.connect("ben");
    world.publish(ben, MESSAGES, json!(1));
    assert_eq!(world.payloads(ann), [1]);
    world.send(ann, json!({"type": "unsubscribe", "topic": MESSAGES}));
    world.publish(ben, MESSAGES, json!(2));
    assert!(world.payloads(ann).is_empty());
}

#[test]
fn unsubscribe_is_always_confirmed() {
    let mut world = World::new(Profile::Kraken04);
    let ann = world.connect("ann");
    for topic in [json!(MESSAGES), json!("no/such/room"), json!(7), json!(null), json!([1])] {
        let reply = world.ask(ann, json!({"type": "unsubscribe", "topic": topic}));
        assert_eq!(reply, [json!({"type": "unsubscribed", "topic": topic})]);
    }
}

#[test]
fn plus_delivers_under_the_pattern_and_hash_nothing() {
    let mut world = World::new(Profile::Kraken04);
    let plus = world.subscriber("wild", "yard/gate/+");
    let hash = world.subscriber("wild", "yard/gate/#");
    let publisher = world.connect("wild");
    world.publish(publisher, "yard/gate/trucks", json!(1));
    let message = &world.take(plus)[0];
    assert_eq!((&message["topic"], &message["filter"]), (&json!("yard/gate/+"), &json!("#")));
    assert!(world.take(hash).is_empty());
}

#[test]
fn overlapping_subscriptions_each_deliver_the_same_message() {
    let mut world = World::new(Profile::Kraken04);
    let both = world.subscriber("wild", "yard/gate/+");
    world.ask(both, json!({"type": "subscribe", "topic": "yard/gate/trucks"}));
    world.publish(both, "yard/gate/trucks", json!(1));
    let copies = world.take(both);
    assert_eq!(copies.len(), 2);
    assert_eq!(copies[0]["msgId"], copies[1]["msgId"]);
    world.send(both, json!({"type": "publish", "topic": "yard/gate/trucks", "data": 1, "echo": false}));
    assert!(world.take(both).is_empty());
}

#[test]
fn one_client_cannot_subscribe_without_end() {
    let mut world = World::new(Profile::Kraken010);
    let wild = world.connect("wild");
    let refused = (0..20).find_map(|n| {
        let topic = format!("yard/gate/{n}{}", "x".repeat(900_000));
        let reply = world.ask(wild, json!({"type": "subscribe", "topic": topic})).remove(0);
        (reply["type"] == "error").then_some(reply)
    });
    assert_eq!(refused.unwrap()["error"], "too_many_subscriptions");
    assert_eq!(
        world.ask(wild, json!({"type": "subscribe", "topic": "yard/gate/t"}))[0]["type"],
        "subscribed"
    );
}

#[test]
fn a_closed_connection_receives_nothing_more() {
    let mut world = World::new(Profile::Kraken010);
    let ann = world.subscriber("ann", JOBS);
    world.close(ann);
    let ben = world.connect("ben");
    world.publish(ben, JOBS, json!(1));
    assert!(world.take(ann).is_empty());
    assert_eq!(world.broker.connections().count(), 1);
}
