//! Groups in which one member gets each message.

use nolag_broker::{ConnectionId, Profile};
use serde_json::{Value, json};

use crate::world::{JOBS, World};

fn member(world: &mut World, name: &str, group: Value) -> ConnectionId {
    let conn = world.connect(name);
    join(world, conn, group);
    conn
}

fn join(world: &mut World, conn: ConnectionId, group: Value) {
    let frame = json!({"type": "subscribe", "topic": JOBS, "loadBalance": true, "loadBalanceGroup": group});
    let reply = world.ask(conn, frame);
    assert_eq!(reply, [json!({"type": "subscribed", "topic": JOBS, "loadBalance": true})]);
}

fn jobs(world: &mut World, conn: ConnectionId, range: std::ops::Range<u32>) {
    for n in range {
        world.publish(conn, JOBS, json!(n));
    }
}

#[test]
fn members_take_turns_and_broadcast_subscribers_get_all() {
    let mut world = World::new(Profile::Kraken04);
    let (a, b) = (member(&mut world, "ann", json!("g")), member(&mut world, "ben", json!("g")));
    let all = world.subscriber("ann", JOBS);
    let publisher = world.connect("ben");
    jobs(&mut world, publisher, 0..5);
    assert_eq!(world.payloads(a), [0, 2, 4]);
    assert_eq!(world.payloads(b), [1, 3]);
    assert_eq!(world.payloads(all).len(), 5);
    world.close(a);
    jobs(&mut world, publisher, 5..7);
    assert_eq!(world.payloads(b), [5, 6]);
}

#[test]
fn every_group_gets_every_message() {
    let mut world = World::new(Profile::Kraken04);
    let (a, b) = (member(&mut world, "ann", json!("day")), member(&mut world, "ben", json!("night")));
    let publisher = world.connect("ben");
    jobs(&mut world, publisher, 0..2);
    assert_eq!((world.payloads(a).len(), world.payloads(b).len()), (2, 2));
}

#[test]
fn the_group_defaults_to_the_actor() {
    let mut world = World::new(Profile::Kraken04);
    let (a, b) = (member(&mut world, "ann", json!(null)), member(&mut world, "ben", json!("ann")));
    let publisher = world.connect("ben");
    jobs(&mut world, publisher, 0..4);
    assert_eq!((world.payloads(a).len(), world.payloads(b).len()), (2, 2));
}

#[test]
fn subscribing_again_switches_the_mode() {
    let mut world = World::new(Profile::Kraken04);
    let (a, b) = (member(&mut world, "ann", json!("g")), member(&mut world, "ben", json!("g")));
    assert_eq!(world.ask(a, json!({"type": "subscribe", "topic": JOBS}))[0]["loadBalance"], false);
    let publisher = world.connect("ben");
    jobs(&mut world, publisher, 0..2);
    assert_eq!((world.payloads(a).len(), world.payloads(b).len()), (2, 2));
    join(&mut world, a, json!("g"));
    jobs(&mut world, publisher, 2..4);
    assert_eq!((world.payloads(a).len(), world.payloads(b).len()), (1, 1));
}

#[test]
fn their_messages_show_the_real_filter() {
    let mut world = World::new(Profile::Kraken04);
    let a = member(&mut world, "ann", json!("g"));
    let publisher = world.connect("ben");
    world.publish(publisher, JOBS, json!(1));
    world.send(publisher, json!({"type": "publish", "topic": JOBS, "data": 2, "filter": "urgent"}));
    let messages = world.take(a);
    assert!(messages[0].get("filter").is_none());
    assert_eq!(messages[1]["filter"], "urgent");
}

#[test]
fn a_plus_group_shows_the_internal_topic_on_0_4() {
    for (profile, topic) in
        [(Profile::Kraken04, "app-2/yard/gate/seals"), (Profile::Kraken010, "yard/gate/+")]
    {
        let mut world = World::new(profile);
        let wild = world.connect("wild");
        world.ask(wild, json!({"type": "subscribe", "topic": "yard/gate/+", "loadBalance": true}));
        world.publish(wild, "yard/gate/seals", json!(1));
        assert_eq!(world.take(wild)[0]["topic"], topic);
    }
}

#[test]
fn a_publisher_that_wants_no_copy_takes_no_turn() {
    let mut world = World::new(Profile::Kraken04);
    let (a, b) = (member(&mut world, "ann", json!("g")), member(&mut world, "ben", json!("g")));
    for n in 0..2 {
        world.send(a, json!({"type": "publish", "topic": JOBS, "data": n, "echo": false}));
    }
    assert_eq!(world.payloads(b), [0, 1]);
}
