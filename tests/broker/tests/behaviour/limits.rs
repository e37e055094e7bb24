//! Limits, their order, and that they can be lifted.

use std::time::Duration;

use nolag_broker::{BrokerConfig, Limits, Profile};
use nolag_core::wire::{MAX_DATA_BYTES, MAX_FRAME_BYTES};
use serde_json::{Value, json};

use crate::world::{MESSAGES, World};

/// A publish whose packed data has exactly this many bytes.
fn publish_of(bytes: usize) -> Value {
    json!({"type": "publish", "topic": MESSAGES, "data": "x".repeat(bytes - 5), "msgRef": "r"})
}

#[test]
fn fifty_publishes_fit_one_wall_clock_second() {
    let config = BrokerConfig { wall_clock: Duration::from_millis(10_400), ..BrokerConfig::default() };
    let mut world = World::with(config);
    let (ann, ben) = (world.connect("ann"), world.connect("ben"));
    let publish = json!({"type": "publish", "topic": MESSAGES, "data": 1, "msgRef": "r"});
    for n in 0..60 {
        let reply = world.ask(ann, publish.clone()).remove(0);
        let refused = json!({"type": "error", "error": "rate_limit_exceeded", "code": 42910, "topic": MESSAGES,
            "msgRef": "r"});
        assert_eq!(reply == refused, n >= 50, "{n}: {reply}");
    }
    assert_eq!(world.ask(ben, publish.clone())[0]["type"], "published", "each connection has its own");
    assert_eq!(world.ask(ann, json!({"type": "subscribe", "topic": MESSAGES}))[0]["type"], "subscribed");
    world.pass(Duration::from_millis(599));
    assert_eq!(world.ask(ann, publish.clone())[0]["code"], 42910);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.ask(ann, publish)[0]["type"], "published");
}

#[test]
fn data_may_have_921600_bytes() {
    let mut world = World::new(Profile::Kraken04);
    let ann = world.connect("ann");
    assert_eq!(world.ask(ann, publish_of(MAX_DATA_BYTES))[0]["type"], "published");
    let refused = json!({"type": "error", "error": "message_too_large", "code": 42930, "topic": MESSAGES,
        "msgRef": "r", "maxSizeBytes": 921_600});
    assert_eq!(world.ask(ann, publish_of(MAX_DATA_BYTES + 1)), [refused]);
}

#[test]
fn the_order_of_the_checks_depends_on_the_version() {
    for (profile, code) in [(Profile::Kraken04, 42930), (Profile::Kraken010, 42940)] {
        let mut world = World::new(profile);
        let ann = world.connect("ann");
        let mut publish = publish_of(MAX_DATA_BYTES + 1);
        publish["topic"] = json!("no/such/room");
        assert_eq!(world.ask(ann, publish)[0]["code"], code);
    }
}

#[test]
fn a_message_over_1_mib_closes_with_1009() {
    let mut world = World::new(Profile::Kraken04);
    let (ann, ben) = (world.connect("ann"), world.connect("ben"));
    world.send_bytes(ann, &vec![0xc0; MAX_FRAME_BYTES]);
    assert_eq!(world.end(ann), None);
    world.send_bytes(ann, &vec![0xc0; MAX_FRAME_BYTES + 1]);
    assert_eq!(world.end(ann).as_deref(), Some("1009"));
    world.broker.handle_text(world.now, ben, &"1".repeat(MAX_FRAME_BYTES + 1));
    assert_eq!(world.end(ben).as_deref(), Some("1009"));
}

#[test]
fn silence_of_60_seconds_closes_with_1000() {
    let mut world = World::new(Profile::Kraken04);
    let (silent, beating, pinging, early) =
        (world.connect("ann"), world.connect("ann"), world.connect("ben"), world.open());
    for _ in 0..2 {
        world.pass(Duration::from_millis(29_999));
        world.send_bytes(beating, &[]);
        world.broker.handle_ping(world.now, pinging);
    }
    assert_eq!(world.end(silent), None);
    world.pass(Duration::from_millis(2));
    assert_eq!(world.end(silent).as_deref(), Some("1000"));
    assert_eq!(world.end(early).as_deref(), Some("1000"), "also without auth");
    assert_eq!((world.end(beating), world.end(pinging)), (None, None));
}

#[test]
fn receiving_does_not_count_as_life() {
    let mut world = World::new(Profile::Kraken04);
    let (listener, talker) = (world.subscriber("ann", MESSAGES), world.connect("ben"));
    for _ in 0..3 {
        world.pass(Duration::from_secs(20));
        world.publish(talker, MESSAGES, json!(1));
    }
    assert_eq!(world.end(listener).as_deref(), Some("1000"));
}

#[test]
fn every_limit_can_be_lifted() {
    let mut world = World::with(BrokerConfig { limits: Limits::NONE, ..BrokerConfig::default() });
    let ann = world.connect("ann");
    for _ in 0..60 {
        world.publish(ann, MESSAGES, json!(1));
    }
    assert!(world.take(ann).is_empty());
    assert_eq!(world.ask(ann, publish_of(2 * MAX_FRAME_BYTES))[0]["type"], "published");
    assert_eq!(world.broker.poll_timeout(), None);
    world.pass(Duration::from_secs(100_000));
    assert_eq!(world.end(ann), None);
}

#[test]
fn a_used_up_quota_refuses_every_publish_after_the_size_check() {
    for profile in Profile::ALL {
        let mut world = World::new(profile);
        let ann = world.connect("ann");
        world.broker.set_quota_exceeded(world.now, true);
        let refused = json!({"type": "error", "error": "monthly_quota_exceeded", "code": 42920, "topic": MESSAGES,
            "msgRef": "r"});
        assert_eq!(world.ask(ann, publish_of(100)), [refused]);
        assert_eq!(world.ask(ann, publish_of(MAX_DATA_BYTES + 1))[0]["code"], 42930);
        let mut unknown = publish_of(100);
        unknown["topic"] = json!("no/such/room");
        let code = if profile == Profile::Kraken04 { 42920 } else { 42940 };
        assert_eq!(world.ask(ann, unknown)[0]["code"], code);
        world.broker.set_quota_exceeded(world.now, false);
        assert_eq!(world.ask(ann, publish_of(100))[0]["type"], "published");
    }
}
