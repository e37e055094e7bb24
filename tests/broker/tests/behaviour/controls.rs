//! What tests can do to connections.

use std::time::Duration;

use nolag_broker::Profile;
use serde_json::json;

use crate::world::{MESSAGES, World};

#[test]
fn a_cut_connection_ends_without_a_close_frame() {
    let mut world = World::new(Profile::Kraken010);
    let ann = world.subscriber("ann", MESSAGES);
    world.broker.cut(world.now, ann);
    assert_eq!(world.end(ann).as_deref(), Some("cut"));
    assert_eq!(world.broker.connections().count(), 0);
}

#[test]
fn a_held_connection_is_read_but_receives_nothing_until_released() {
    let mut world = World::new(Profile::Kraken010);
    let (ann, ben) = (world.subscriber("ann", MESSAGES), world.connect("ben"));
    world.broker.hold(world.now, ann);
    world.send(ann, json!({"type": "publish", "topic": MESSAGES, "data": 1, "msgRef": "r"}));
    world.publish(ben, MESSAGES, json!(2));
    assert!(world.take(ann).is_empty());
    assert!(world.broker.connections().next().unwrap().held);
    world.broker.release(world.now, ann);
    world.publish(ben, MESSAGES, json!(3));
    let frames = world.take(ann);
    assert_eq!(frames[0]["type"], "published");
    assert_eq!(frames[1..].iter().map(|frame| &frame["data"]).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn a_close_waits_behind_what_is_held() {
    let mut world = World::new(Profile::Kraken010);
    let ann = world.connect("ann");
    world.broker.hold(world.now, ann);
    world.send_bytes(ann, &[]);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.end(ann), None);
    world.broker.release(world.now, ann);
    assert_eq!(world.end(ann).as_deref(), Some("1000"));
    assert_eq!(world.take(ann), ["heartbeat"]);
}

#[test]
fn a_held_connection_that_piles_up_too_much_is_cut() {
    let mut world = World::new(Profile::Kraken010);
    let (ann, ben) = (world.subscriber("ann", MESSAGES), world.connect("ben"));
    world.broker.hold(world.now, ann);
    for _ in 0..20 {
        world.publish(ben, MESSAGES, json!("x".repeat(900_000)));
    }
    assert_eq!(world.end(ann).as_deref(), Some("cut"));
}

#[test]
fn a_restart_forgets_everything_and_cuts_everyone() {
    let mut world = World::new(Profile::Kraken010);
    let (ann, held) = (world.subscriber("ann", MESSAGES), world.connect("ben"));
    world.send(ann, json!({"type": "publish", "topic": MESSAGES, "data": 1, "retain": true}));
    world.broker.hold(world.now, held);
    world.broker.restart(world.now);
    assert_eq!((world.end(ann).as_deref(), world.end(held).as_deref()), (Some("cut"), Some("cut")));
    let again = world.open();
    assert!(again > held, "ids go on");
    let auth = json!({"type": "auth", "token": "t-ann", "reconnect": true});
    assert_eq!(world.ask(again, auth)[0]["restoredSubscriptions"], json!([]));
    world.send(again, json!({"type": "subscribe", "topic": MESSAGES}));
    assert!(world.payloads(again).is_empty());
}

#[test]
fn connections_are_listed_with_actor_and_subscriptions() {
    let mut world = World::new(Profile::Kraken010);
    let (ann, early) = (world.subscriber("ann", MESSAGES), world.open());
    let list: Vec<_> = world.broker.connections().collect();
    assert_eq!((list[0].id, list[0].actor_id.as_deref()), (ann, Some("ann")));
    assert_eq!(list[0].subscriptions, [MESSAGES]);
    assert_eq!((list[1].id, list[1].actor_id.as_deref()), (early, None));
}

#[test]
fn debug_output_holds_no_token() {
    let mut world = World::new(Profile::Kraken010);
    world.connect("ann");
    assert!(!format!("{:?}", world.broker).contains("t-ann"));
}
