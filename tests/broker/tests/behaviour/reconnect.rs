//! What a client finds again when it comes back.

use std::time::Duration;

use nolag_broker::{ConnectionId, Profile};
use serde_json::{Value, json};

use crate::world::{JOBS, MESSAGES, World};

/// Connects with `reconnect` and gives the connection and what was restored.
fn reconnect(world: &mut World, name: &str, client_id: Value, reconnect: Value) -> (ConnectionId, Value) {
    let conn = world.open();
    let auth = json!({"type": "auth", "token": format!("t-{name}"), "clientId": client_id, "reconnect": reconnect,
        "protocolVersion": 2});
    let mut reply = world.ask(conn, auth).remove(0);
    assert_eq!(reply["success"], true);
    (conn, reply["restoredSubscriptions"].take())
}

#[test]
fn presets_of_the_auth_file_come_verbatim_and_are_really_subscribed() {
    let preset = json!({"pattern": JOBS, "topic": "r1/jobs", "load_balance": false, "filters": ["night"]});
    let locked = json!({"name": "port/locked/messages", "loadBalance": false});
    let lists = [
        (Profile::Kraken04, json!([MESSAGES, preset, locked])),
        (Profile::Kraken010, json!([MESSAGES, preset])),
    ];
    for (profile, list) in lists {
        let mut world = World::new(profile);
        assert_eq!(reconnect(&mut world, "preset", json!(null), json!(false)).1, json!([]));
        assert_eq!(reconnect(&mut world, "preset", json!(null), json!("true")).1, json!([]));
        let (conn, restored) = reconnect(&mut world, "preset", json!(null), json!(true));
        assert_eq!(restored, list);
        let ben = world.connect("ben");
        world.publish(ben, MESSAGES, json!(1));
        world.send(ben, json!({"type": "publish", "topic": JOBS, "data": 2, "filter": "night"}));
        world.publish(ben, JOBS, json!(3));
        assert_eq!(world.payloads(conn), [1, 2]);
        let sub = world.ask(conn, json!({"type": "unsubscribe", "topic": MESSAGES}));
        assert_eq!(sub[0]["type"], "unsubscribed");
        world.publish(ben, MESSAGES, json!(4));
        assert!(world.payloads(conn).is_empty());
    }
}

#[test]
fn retained_messages_follow_the_auth_reply() {
    let mut world = World::new(Profile::Kraken010);
    let ben = world.connect("ben");
    world.send(ben, json!({"type": "publish", "topic": MESSAGES, "data": 1, "retain": true}));
    let conn = world.open();
    let frames = world.ask(conn, json!({"type": "auth", "token": "t-preset", "reconnect": true}));
    assert_eq!((&frames[0]["type"], &frames[1]["data"]), (&json!("auth"), &json!(1)));
}

#[test]
fn subscriptions_are_remembered_with_their_options_from_0_9_on() {
    let mut world = World::new(Profile::Kraken010);
    let (first, _) = reconnect(&mut world, "ann", json!("laptop"), json!(false));
    let sent = json!({"type": "subscribe", "topic": JOBS, "filters": ["a"], "qos": 2, "loadBalance": true,
        "loadBalanceGroup": "g"});
    world.send(first, sent);
    world.send(first, json!({"type": "setFilters", "topic": JOBS, "filters": ["b"]}));
    world.send(first, json!({"type": "subscribe", "topic": MESSAGES}));
    world.close(first);
    world.pass(Duration::from_secs(3599));
    let (second, restored) = reconnect(&mut world, "ann", json!("lap top!"), json!(true));
    let remembered = json!([
        {"topic": JOBS, "filters": ["b"], "qos": 2, "loadBalance": true, "loadBalanceGroup": "g"},
        {"topic": MESSAGES}
    ]);
    assert_eq!(restored, remembered);
    let ben = world.connect("ben");
    world.publish(ben, MESSAGES, json!(1));
    world.send(ben, json!({"type": "publish", "topic": JOBS, "data": 2, "filter": "b"}));
    assert_eq!(world.payloads(second), [1, 2]);
}

#[test]
fn nothing_is_remembered_by_0_4() {
    let mut world = World::new(Profile::Kraken04);
    let (first, _) = reconnect(&mut world, "ann", json!("laptop"), json!(false));
    world.send(first, json!({"type": "subscribe", "topic": MESSAGES}));
    world.close(first);
    assert_eq!(reconnect(&mut world, "ann", json!("laptop"), json!(true)).1, json!([]));
}

#[test]
fn the_memory_ends_an_hour_after_the_last_connection() {
    let mut world = World::new(Profile::Kraken010);
    let (first, _) = reconnect(&mut world, "ann", json!("laptop"), json!(false));
    world.send(first, json!({"type": "subscribe", "topic": MESSAGES}));
    world.close(first);
    world.pass(Duration::from_secs(3600));
    assert_eq!(reconnect(&mut world, "ann", json!("laptop"), json!(true)).1, json!([]));
}

#[test]
fn without_client_id_all_connections_of_an_actor_share_one_memory() {
    let mut world = World::new(Profile::Kraken010);
    let (one, two) = (world.subscriber("ann", MESSAGES), world.subscriber("ann", JOBS));
    world.close(one);
    let (three, restored) = reconnect(&mut world, "ann", json!(null), json!(true));
    assert_eq!(restored, json!([{"topic": JOBS}, {"topic": MESSAGES}]));
    assert_eq!(
        reconnect(&mut world, "ann", json!("own"), json!(true)).1,
        json!([]),
        "a client id has its own"
    );
    world.close(two);
    world.close(three);
}

#[test]
fn a_fresh_connect_clears_the_memory_unless_somebody_holds_it() {
    let mut world = World::new(Profile::Kraken010);
    let holder = world.subscriber("ann", MESSAGES);
    let (fresh, _) = reconnect(&mut world, "ann", json!(null), json!(false));
    assert_eq!(reconnect(&mut world, "ann", json!(null), json!(true)).1, json!([{"topic": MESSAGES}]));
    let everyone: Vec<_> = world.broker.connections().map(|connection| connection.id).collect();
    assert!(everyone.contains(&holder) && everyone.contains(&fresh));
    everyone.into_iter().for_each(|conn| world.close(conn));
    reconnect(&mut world, "ann", json!(null), json!(false));
    assert_eq!(reconnect(&mut world, "ann", json!(null), json!(true)).1, json!([]));
}

#[test]
fn unsubscribed_topics_are_not_remembered() {
    let mut world = World::new(Profile::Kraken010);
    let ann = world.subscriber("ann", MESSAGES);
    world.send(ann, json!({"type": "unsubscribe", "topic": MESSAGES}));
    world.close(ann);
    assert_eq!(reconnect(&mut world, "ann", json!(null), json!(true)).1, json!([]));
}
