//! Things that go wrong on purpose, and what is recorded of it.

use std::time::Duration;

use nolag_broker::{BrokerConfig, Direction, Effect, Fault, Profile, fault_banner};
use serde_json::{Value, json};

use crate::world::{MESSAGES, World};

fn world() -> World {
    World::with(BrokerConfig { profile: Profile::Kraken010, record_frames: true, ..BrokerConfig::default() })
}

fn add(world: &mut World, fault: Fault) -> nolag_broker::FaultId {
    world.broker.add_fault(world.now, fault)
}

fn publish(reference: &str) -> Value {
    json!({"type": "publish", "topic": MESSAGES, "data": 1, "msgRef": reference})
}

fn references(frames: &[Value]) -> Vec<&str> {
    frames.iter().filter_map(|frame| frame["msgRef"].as_str()).collect()
}

#[test]
fn a_dropped_frame_is_not_acted_upon_and_a_dropped_reply_not_sent() {
    let mut world = world();
    let (ann, ben) = (world.subscriber("ann", MESSAGES), world.connect("ben"));
    add(&mut world, Fault::drop().on("publish").nth(2));
    add(&mut world, Fault::drop().on_reply("published").times(1));
    for reference in ["a", "b", "c"] {
        world.send(ben, publish(reference));
    }
    assert_eq!(references(&world.take(ben)), ["c"]);
    assert_eq!(world.payloads(ann).len(), 2);
    assert_eq!(world.broker.faults().count(), 0, "both are over");
}

#[test]
fn a_fault_can_be_for_one_connection_or_one_actor() {
    let mut world = world();
    let (ann, ben) = (world.connect("ann"), world.connect("ben"));
    let of_ann = add(&mut world, Fault::drop().on("publish").connection(ann));
    assert_eq!(references(&world.ask(ben, publish("b"))), ["b"]);
    assert!(world.ask(ann, publish("a")).is_empty());
    world.broker.remove_fault(world.now, of_ann);
    add(&mut world, Fault::drop().on("publish").actor("ben"));
    assert_eq!(references(&world.ask(ann, publish("a"))), ["a"]);
    assert!(world.ask(ben, publish("b")).is_empty());
    let later = world.connect("ben");
    assert!(world.ask(later, publish("b")).is_empty(), "also on connections that open later");
    world.broker.clear_faults(world.now);
    assert_eq!(references(&world.ask(ben, publish("b"))), ["b"]);
}

#[test]
fn a_cut_takes_the_frame_with_it() {
    let mut world = world();
    let ann = world.connect("ann");
    add(&mut world, Fault::cut().on_reply("published"));
    assert!(world.ask(ann, publish("a")).is_empty());
    assert_eq!(world.end(ann).as_deref(), Some("cut"));
    let ben = world.connect("ben");
    add(&mut world, Fault::cut().on("publish"));
    assert!(world.ask(ben, publish("b")).is_empty());
    assert_eq!(world.end(ben).as_deref(), Some("cut"));
}

#[test]
fn a_new_connection_can_be_cut_or_silenced() {
    let mut world = world();
    add(&mut world, Fault::cut().on_open().times(1));
    add(&mut world, Fault::silence().on_open().nth(2));
    let (first, second, third) = (world.open(), world.open(), world.open());
    assert_eq!(world.end(first).as_deref(), Some("cut"));
    for conn in [first, second] {
        assert!(world.ask(conn, json!({"type": "auth", "token": "t-ann"})).is_empty());
    }
    assert_eq!(world.ask(third, json!({"type": "auth", "token": "t-ann"})).len(), 1);
}

#[test]
fn frames_are_delayed_in_both_directions() {
    let mut world = world();
    let ann = world.connect("ann");
    add(&mut world, Fault::delay(Duration::from_secs(2)).on("publish").times(1));
    add(&mut world, Fault::delay(Duration::from_secs(3)).on_reply("published").times(1));
    world.send(ann, publish("slow"));
    assert!(world.take(ann).is_empty());
    world.pass(Duration::from_secs(2));
    assert!(world.take(ann).is_empty(), "acted upon, but the reply is slow too");
    assert_eq!(references(&world.ask(ann, publish("quick"))), ["quick"]);
    world.pass(Duration::from_millis(2999));
    assert!(world.take(ann).is_empty());
    world.pass(Duration::from_millis(1));
    assert_eq!(references(&world.take(ann)), ["slow"]);
}

#[test]
fn frames_with_the_same_delay_keep_their_order() {
    let mut world = world();
    let ann = world.connect("ann");
    add(&mut world, Fault::delay(Duration::from_secs(1)).on_any_reply());
    ["a", "b", "c"].iter().for_each(|reference| world.send(ann, publish(reference)));
    world.pass(Duration::from_secs(1));
    assert_eq!(references(&world.take(ann)), ["a", "b", "c"]);
}

#[test]
fn what_is_held_goes_on_in_order_when_the_fault_is_removed() {
    let mut world = world();
    let ann = world.connect("ann");
    let hold = add(&mut world, Fault::hold().on("publish").times(2));
    for reference in ["a", "b", "c"] {
        world.send(ann, publish(reference));
    }
    assert_eq!(references(&world.take(ann)), ["c"]);
    assert_eq!(world.broker.faults().map(|(id, _, struck)| (id, struck)).collect::<Vec<_>>(), [(hold, 2)]);
    assert!(world.broker.remove_fault(world.now, hold));
    assert_eq!(references(&world.take(ann)), ["a", "b"]);
    assert!(!world.broker.remove_fault(world.now, hold));
}

#[test]
fn a_hold_that_keeps_too_much_cuts_the_connection() {
    let mut world = world();
    let ann = world.connect("ann");
    add(&mut world, Fault::hold().on("publish"));
    let large = json!({"type": "publish", "topic": MESSAGES, "data": "x".repeat(900_000)});
    for _ in 0..20 {
        world.send(ann, large.clone());
    }
    assert_eq!(world.end(ann).as_deref(), Some("cut"));
}

#[test]
fn a_refused_frame_gets_the_error_that_belongs_to_it() {
    let mut world = world();
    let ann = world.connect("ann");
    let cases = [
        (
            publish("r"),
            "unknown_topic",
            json!({"type": "error", "error": "unknown_topic", "code": 42940, "topic": MESSAGES, "msgRef": "r"}),
        ),
        (
            json!({"type": "subscribe", "topic": MESSAGES}),
            "no_luck",
            json!({"type": "error", "error": "no_luck", "topic": MESSAGES}),
        ),
        (
            json!({"type": "lobbySubscribe", "lobbyId": "l"}),
            "not_authorized",
            json!({"type": "error", "error": "not_authorized", "lobbyId": "l"}),
        ),
        (
            json!({"type": "reauth", "token": "t-ann"}),
            "actor_mismatch",
            json!({"type": "reauth", "success": false, "error": "actor_mismatch"}),
        ),
    ];
    for (frame, error, reply) in cases {
        let frame_type = frame["type"].as_str().unwrap().to_owned();
        add(&mut world, Fault::refuse(error).on(&frame_type).times(1));
        assert_eq!(world.ask(ann, frame), [reply]);
    }
}

#[test]
fn a_silent_link_neither_hears_nor_speaks_and_is_not_closed() {
    let mut world = world();
    let (ann, ben) = (world.subscriber("ann", MESSAGES), world.connect("ben"));
    add(&mut world, Fault::silence().on("heartbeat").connection(ann).times(1));
    world.send_bytes(ann, &[]);
    world.publish(ben, MESSAGES, json!(1));
    assert!(world.ask(ann, publish("a")).is_empty());
    world.pass(Duration::from_secs(120));
    assert_eq!(world.end(ann), None, "not even the idle timeout gets through");
    world.broker.cut(world.now, ann);
    assert_eq!(world.end(ann).as_deref(), Some("cut"));
}

#[test]
fn a_restart_and_an_expired_token_can_be_set_off_by_frames() {
    let mut world = world();
    let (ann, ben) = (world.subscriber("ann", MESSAGES), world.connect("ben"));
    add(&mut world, Fault::expire_token().on("publish").actor("ben").times(1));
    assert_eq!(references(&world.ask(ben, publish("b"))), ["b"]);
    world.send_bytes(ben, &[]);
    assert_eq!(world.end(ben).as_deref(), Some("4003 token_expired"));
    add(&mut world, Fault::restart().on_reply("published").times(1));
    assert!(world.ask(ann, publish("a")).is_empty());
    assert_eq!(world.end(ann).as_deref(), Some("cut"));
    let ann = world.connect("ann");
    assert_eq!(references(&world.ask(ann, publish("a"))), ["a"]);
}

#[test]
fn every_frame_is_recorded_with_its_fault() {
    let mut world = world();
    let ann = world.connect("ann");
    add(&mut world, Fault::drop().on_reply("published"));
    world.ask(ann, publish("a"));
    world.send_bytes(ann, &[]);
    let shown: Vec<_> = world
        .broker
        .recorded()
        .map(|frame| (frame.direction, frame.frame_type.as_str(), frame.fault.as_deref()))
        .collect();
    let (from, to) = (Direction::FromClient, Direction::ToClient);
    let expected = [
        (from, "auth", None),
        (to, "auth", None),
        (from, "publish", None),
        (to, "published", Some("drop")),
        (from, "heartbeat", None),
        (to, "heartbeat", None),
    ];
    assert_eq!(shown, expected);
    assert_eq!(world.broker.recorded_in_all(), 6);
    assert!(!format!("{:?}", world.broker).contains("t-ann"));
}

#[test]
fn nothing_is_recorded_unless_asked_for() {
    let mut world = World::new(Profile::Kraken010);
    world.connect("ann");
    assert_eq!((world.broker.recorded().count(), world.broker.recorded_in_all()), (0, 0));
}

#[test]
fn delays_are_bounded() {
    let mut world =
        World::with(BrokerConfig { limits: nolag_broker::Limits::NONE, ..BrokerConfig::default() });
    let ann = world.subscriber("ann", MESSAGES);
    add(&mut world, Fault::new(Effect::Delay(Duration::from_secs(9))).on("publish"));
    for n in 0..10 {
        world.publish(ann, MESSAGES, json!([n, "x".repeat(10_000_000)]));
    }
    assert_eq!(world.payloads(ann).len(), 3, "what there is no room for goes on early");
    world.pass(Duration::from_secs(9));
    assert_eq!(world.payloads(ann).len(), 7);
}

#[test]
fn a_banner_says_which_faults_are_on() {
    let mut world = world();
    assert_eq!(fault_banner(&world.broker), None);
    let ann = world.connect("ann");
    let id = add(&mut world, Fault::drop().on("publish"));
    world.ask(ann, publish("a"));
    assert_eq!(
        fault_banner(&world.broker).as_deref(),
        Some("Faults are on:\n  drop on=publish (struck 1 times)")
    );
    world.broker.remove_fault(world.now, id);
    assert_eq!(fault_banner(&world.broker), None);
}
