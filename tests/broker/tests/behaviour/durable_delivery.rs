//! What load-balanced groups get that they missed.

use std::time::Duration;

use nolag_broker::{BrokerConfig, ConnectionId, Profile};
use serde_json::{Value, json};

use crate::world::{JOBS, MESSAGES, World};

fn world(profile: Profile) -> World {
    World::with(BrokerConfig { profile, durable_delivery: true, ..BrokerConfig::default() })
}

fn worker(world: &mut World, name: &str, group: &str) -> ConnectionId {
    let conn = world.connect(name);
    join(world, conn, JOBS, group);
    conn
}

fn join(world: &mut World, conn: ConnectionId, topic: &str, group: &str) {
    world.send(
        conn,
        json!({"type": "subscribe", "topic": topic, "loadBalance": true, "loadBalanceGroup": group}),
    );
    world.take(conn);
}

/// Advertises, and returns everything but the presence events.
fn advertise(world: &mut World, conn: ConnectionId) -> Vec<Value> {
    let presence = json!({"type": "presence", "roomId": "north", "data": {"persistent": true}});
    let mut frames = world.ask(conn, presence);
    frames.retain(|frame| frame["type"] != "presence");
    frames
}

/// The payloads of a replay, which must be framed.
fn replayed(frames: &[Value]) -> Vec<Value> {
    let [start, messages @ .., end] = frames else { panic!("no replay: {frames:?}") };
    assert_eq!(start, &json!({"type": "replayStart", "count": messages.len()}));
    assert_eq!(end, &json!({"type": "replayEnd", "replayed": messages.len()}));
    for message in messages {
        assert_eq!((&message["isReplay"], &message["requiresAck"]), (&json!(true), &json!(true)));
        assert!(message["msgId"].is_string() && message.get("filter").is_none());
    }
    messages.iter().map(|message| message["data"].clone()).collect()
}

#[test]
fn a_group_that_is_new_has_missed_nothing() {
    let mut world = world(Profile::Kraken04);
    let ben = world.connect("ben");
    world.publish(ben, JOBS, json!("before"));
    let ann = worker(&mut world, "ann", "g");
    assert!(replayed(&advertise(&mut world, ann)).is_empty());
    assert!(advertise(&mut world, ann).is_empty(), "once per connection");
}

#[test]
fn a_group_that_was_away_gets_what_it_missed_in_order() {
    for profile in Profile::ALL {
        let mut world = world(profile);
        let ben = world.connect("ben");
        let ann = worker(&mut world, "ann", "g");
        advertise(&mut world, ann);
        world.publish(ben, JOBS, json!("live"));
        world.close(ann);
        for n in 0..3 {
            world.publish(ben, JOBS, json!(n));
        }
        let ann = worker(&mut world, "ann", "g");
        assert_eq!(replayed(&advertise(&mut world, ann)), [0, 1, 2]);
        world.publish(ben, JOBS, json!("live again"));
        assert_eq!(world.payloads(ann), ["live again"]);
        let ben = worker(&mut world, "ben", "g");
        let again = if profile == Profile::Kraken04 { vec![json!("live again")] } else { vec![] };
        assert_eq!(replayed(&advertise(&mut world, ben)), again, "another member has the rest");
    }
}

#[test]
fn what_was_delivered_before_advertising_is_repeated_by_old_brokers_only() {
    for (profile, expected) in [(Profile::Kraken04, json!([1, 2])), (Profile::Kraken010, json!([1]))] {
        let mut world = world(profile);
        let ben = world.connect("ben");
        let ann = worker(&mut world, "ann", "g");
        advertise(&mut world, ann);
        world.close(ann);
        world.publish(ben, JOBS, json!(1));
        let ann = worker(&mut world, "ann", "g");
        world.publish(ben, JOBS, json!(2));
        assert_eq!(world.payloads(ann), [2]);
        assert_eq!(json!(replayed(&advertise(&mut world, ann))), expected);
    }
}

#[test]
fn a_replay_shows_the_subscribed_topic_whatever_the_topic_was() {
    let mut world = world(Profile::Kraken04);
    let ben = world.connect("ben");
    let ann = worker(&mut world, "ann", "g");
    advertise(&mut world, ann);
    world.close(ann);
    world.publish(ben, MESSAGES, json!("other topic, same room"));
    let ann = worker(&mut world, "ann", "g");
    let frames = advertise(&mut world, ann);
    assert_eq!(frames[1]["topic"], JOBS);
}

#[test]
fn each_group_of_a_connection_is_replayed() {
    let mut world = world(Profile::Kraken04);
    let ben = world.connect("ben");
    let ann = worker(&mut world, "ann", "g");
    join(&mut world, ann, MESSAGES, "h");
    assert_eq!(advertise(&mut world, ann).len(), 4);
    world.close(ann);
    world.publish(ben, JOBS, json!(1));
    let ann = worker(&mut world, "ann", "g");
    join(&mut world, ann, MESSAGES, "h");
    assert_eq!(advertise(&mut world, ann).len(), 6);
}

#[test]
fn one_replay_has_at_most_as_many_messages_as_the_broker_allows() {
    for (profile, limit) in [(Profile::Kraken04, 100), (Profile::Kraken010, 1100)] {
        let mut world = world(profile);
        let ben = world.connect("ben");
        let ann = worker(&mut world, "ann", "g");
        advertise(&mut world, ann);
        world.close(ann);
        for second in 0..24 {
            for n in 0..50 {
                world.publish(ben, JOBS, json!(second * 50 + n));
            }
            world.pass(Duration::from_secs(1));
        }
        let ann = worker(&mut world, "ann", "g");
        assert_eq!(replayed(&advertise(&mut world, ann)).len(), limit);
        world.close(ann);
        let ann = worker(&mut world, "ann", "g");
        assert!(replayed(&advertise(&mut world, ann)).is_empty(), "leaving again skips the rest");
    }
}

#[test]
fn messages_are_replayed_for_an_hour() {
    let mut world = world(Profile::Kraken04);
    let ben = world.connect("ben");
    let ann = worker(&mut world, "ann", "g");
    advertise(&mut world, ann);
    world.close(ann);
    world.publish(ben, JOBS, json!("early"));
    world.pass(Duration::from_secs(1));
    let ben = world.connect("ben");
    world.publish(ben, JOBS, json!("late"));
    world.pass(Duration::from_secs(3599));
    let ann = worker(&mut world, "ann", "g");
    assert_eq!(replayed(&advertise(&mut world, ann)), ["late"]);
}

#[test]
fn nothing_is_replayed_unless_switched_on_and_recorded() {
    for (durable_delivery, record_messages) in [(false, true), (true, false)] {
        let mut world =
            World::with(BrokerConfig { durable_delivery, record_messages, ..BrokerConfig::default() });
        let ben = world.connect("ben");
        let ann = worker(&mut world, "ann", "g");
        let first = advertise(&mut world, ann);
        assert_eq!(first.is_empty(), !durable_delivery);
        world.close(ann);
        world.publish(ben, JOBS, json!(1));
        let ann = worker(&mut world, "ann", "g");
        assert_eq!(advertise(&mut world, ann).len(), first.len());
    }
}

#[test]
fn messages_on_their_way_wait_behind_the_replay_and_come_once() {
    let config = BrokerConfig {
        profile: Profile::Kraken04,
        durable_delivery: true,
        delivery_lag: Duration::from_millis(5),
        ..BrokerConfig::default()
    };
    let mut world = World::with(config);
    let ben = world.connect("ben");
    let ann = worker(&mut world, "ann", "g");
    advertise(&mut world, ann);
    world.close(ann);
    let ann = worker(&mut world, "ann", "g");
    world.send(ann, json!({"type": "subscribe", "topic": MESSAGES}));
    world.take(ann);
    world.publish(ben, JOBS, json!("job"));
    assert_eq!(replayed(&advertise(&mut world, ann)), ["job"]);
    world.publish(ben, MESSAGES, json!("message"));
    world.pass(Duration::from_millis(5));
    let rest = world.take(ann);
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["data"], "message");
}
