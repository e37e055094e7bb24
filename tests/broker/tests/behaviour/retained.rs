//! Retained messages.

use std::time::Duration;

use nolag_broker::{BrokerConfig, Limits, Profile};
use serde_json::{Value, json};

use crate::world::{MESSAGES, World};

fn retain(data: Value, filter: Value) -> Value {
    json!({"type": "publish", "topic": MESSAGES, "data": data, "filter": filter, "retain": true})
}

#[test]
fn late_subscribers_get_the_newest_with_its_id_on_every_subscribe() {
    let mut world = World::new(Profile::Kraken04);
    let (early, ben) = (world.subscriber("ann", MESSAGES), world.connect("ben"));
    world.send(ben, retain(json!(1), json!(null)));
    world.send(ben, retain(json!(2), json!(null)));
    world.publish(ben, MESSAGES, json!("not retained"));
    let live = world.take(early);
    let late = world.connect("ann");
    for _ in 0..2 {
        let frames = world.ask(late, json!({"type": "subscribe", "topic": MESSAGES}));
        assert_eq!(frames.len(), 2);
        assert_eq!((&frames[0]["type"], &frames[1]["data"]), (&json!("subscribed"), &json!(2)));
        assert_eq!(frames[1]["msgId"], live[1]["msgId"]);
        assert!(frames[1].get("filter").is_none(), "not the # of live messages");
    }
}

#[test]
fn they_are_kept_per_filter() {
    let mut world = World::new(Profile::Kraken04);
    let ben = world.connect("ben");
    for (data, filter) in [(0, json!(null)), (7, json!("crane-7")), (8, json!("crane-8"))] {
        world.send(ben, retain(json!(data), filter));
    }
    let ann = world.connect("ann");
    world.send(ann, json!({"type": "subscribe", "topic": MESSAGES, "filters": ["crane-7"]}));
    assert_eq!(world.payloads(ann), [7]);
    world.send(ann, json!({"type": "setFilters", "topic": MESSAGES, "filters": ["crane-7", "crane-8"]}));
    assert_eq!(world.payloads(ann), [8], "only those of new filters");
    world.send(ann, json!({"type": "setFilters", "topic": MESSAGES, "filters": []}));
    assert_eq!(world.payloads(ann), [0, 7, 8]);
}

#[test]
fn nil_does_not_clear_but_is_retained() {
    let mut world = World::new(Profile::Kraken04);
    let ben = world.connect("ben");
    world.send(ben, retain(json!(1), json!(null)));
    world.send(ben, retain(json!(null), json!(null)));
    let ann = world.subscriber("ann", MESSAGES);
    world.send(ann, json!({"type": "subscribe", "topic": MESSAGES}));
    assert_eq!(world.payloads(ann), [json!(null)]);
}

#[test]
fn echo_false_hides_them_from_their_own_connection() {
    let mut world = World::new(Profile::Kraken04);
    let ben = world.connect("ben");
    world.send(ben, json!({"type": "publish", "topic": MESSAGES, "data": 1, "retain": true, "echo": false}));
    world.send(ben, json!({"type": "subscribe", "topic": MESSAGES}));
    assert!(world.payloads(ben).is_empty());
    let ann = world.connect("ann");
    world.send(ann, json!({"type": "subscribe", "topic": MESSAGES}));
    assert_eq!(world.payloads(ann), [1]);
}

#[test]
fn they_expire_after_an_hour() {
    let mut world = World::new(Profile::Kraken04);
    let ben = world.connect("ben");
    world.send(ben, retain(json!(1), json!(null)));
    world.pass(Duration::from_secs(3599));
    let ann = world.connect("ann");
    world.send(ann, json!({"type": "subscribe", "topic": MESSAGES}));
    assert_eq!(world.payloads(ann), [1]);
    world.pass(Duration::from_secs(1));
    world.send(ann, json!({"type": "subscribe", "topic": MESSAGES}));
    assert!(world.payloads(ann).is_empty());
}

#[test]
fn every_member_of_a_group_gets_them() {
    let mut world = World::new(Profile::Kraken04);
    let ben = world.connect("ben");
    world.send(ben, retain(json!(1), json!(null)));
    for name in ["ann", "ben"] {
        let conn = world.connect(name);
        let frame =
            json!({"type": "subscribe", "topic": MESSAGES, "loadBalance": true, "loadBalanceGroup": "g"});
        world.send(conn, frame);
        assert_eq!(world.payloads(conn), [1]);
    }
}

#[test]
fn the_oldest_go_when_too_much_is_kept() {
    let limits = Limits { publishes_per_second: None, ..Limits::default() };
    let mut world = World::with(BrokerConfig { limits, ..BrokerConfig::default() });
    let ben = world.connect("ben");
    for n in 0..80 {
        world.send(ben, retain(json!("x".repeat(900_000)), json!(format!("{n:02}"))));
    }
    let ann = world.connect("ann");
    let kept = world.ask(ann, json!({"type": "subscribe", "topic": MESSAGES})).len() - 1;
    assert!((60..80).contains(&kept), "{kept}");
    world.send(ann, json!({"type": "setFilters", "topic": MESSAGES, "filters": ["00", "79"]}));
    assert_eq!(world.payloads(ann).len(), 1, "the newest, not the oldest");
}
