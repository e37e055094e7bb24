//! Messages that are on their way when something else happens.

use std::time::Duration;

use nolag_broker::{BrokerConfig, Limits, Profile};
use serde_json::{Value, json};

use crate::world::{MESSAGES, World};

const LAG: Duration = Duration::from_millis(5);

fn world(profile: Profile) -> World {
    World::with(BrokerConfig { profile, delivery_lag: LAG, ..BrokerConfig::default() })
}

#[test]
fn messages_arrive_in_order_after_the_lag() {
    let mut world = world(Profile::Kraken010);
    let (ann, ben) = (world.subscriber("ann", MESSAGES), world.connect("ben"));
    world.publish(ben, MESSAGES, json!(1));
    world.publish(ben, MESSAGES, json!(2));
    assert!(world.payloads(ann).is_empty());
    assert_eq!(world.broker.poll_timeout(), Some(world.now + LAG));
    world.pass(LAG);
    assert_eq!(world.payloads(ann), [1, 2]);
}

#[test]
fn what_is_in_flight_at_an_unsubscribe_still_arrives_on_old_brokers_under_the_internal_topic() {
    for profile in Profile::ALL {
        let mut world = world(profile);
        let (ann, ben) = (world.subscriber("ann", MESSAGES), world.connect("ben"));
        world.publish(ben, MESSAGES, json!(1));
        world.send(ann, json!({"type": "unsubscribe", "topic": MESSAGES}));
        world.publish(ben, MESSAGES, json!(2));
        world.pass(LAG);
        let frames = world.take(ann);
        assert_eq!((frames.len(), &frames[0]["type"]), (2, &json!("unsubscribed")));
        let shown = if profile == Profile::Kraken04 { "r1/messages/#" } else { MESSAGES };
        assert_eq!((&frames[1]["topic"], &frames[1]["data"]), (&json!(shown), &json!(1)));
        assert!(frames[1].get("filter").is_none());
    }
}

#[test]
fn what_is_in_flight_to_a_connection_that_closed_is_lost() {
    let mut world = world(Profile::Kraken04);
    let (ann, ben) = (world.subscriber("ann", MESSAGES), world.connect("ben"));
    world.publish(ben, MESSAGES, json!(1));
    world.close(ann);
    world.pass(LAG);
    assert!(world.take(ann).is_empty());
}

#[test]
fn more_in_flight_than_there_is_room_for_arrives_early() {
    let config = BrokerConfig { delivery_lag: LAG, limits: Limits::NONE, ..BrokerConfig::default() };
    let mut world = World::with(config);
    let (ann, ben) = (world.subscriber("ann", MESSAGES), world.connect("ben"));
    for n in 0..10 {
        world.publish(ben, MESSAGES, json!([n, "x".repeat(10_000_000)]));
    }
    let numbers =
        |messages: Vec<Value>| messages.iter().map(|message| message[0].clone()).collect::<Vec<_>>();
    assert_eq!(numbers(world.payloads(ann)), [0, 1, 2, 3]);
    world.pass(LAG);
    assert_eq!(numbers(world.payloads(ann)), [4, 5, 6, 7, 8, 9]);
}
