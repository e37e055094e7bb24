//! What is dropped, what crashes, and that nothing does worse.

use std::time::Duration;

use bytes::BytesMut;
use nolag_broker::{BrokerConfig, BrokerCore, Effect, Fault, Output, Profile};
use nolag_core::{
    Instant,
    wire::{ClientFrame, Publish, RawValue, ServerFrame},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{MESSAGES, World};

fn crashes(profile: Profile, frame: &[u8]) -> bool {
    let mut world = World::new(profile);
    let ann = world.connect("ann");
    world.send_bytes(ann, frame);
    assert!(world.take(ann).iter().all(|frame| frame["type"] != "error"));
    world.end(ann).as_deref() == Some("1011")
}

fn packed(frame: Value) -> Vec<u8> {
    rmp_serde::to_vec(&frame).unwrap()
}

#[test]
fn wrong_types_crash_the_connection() {
    let frames = [
        json!({"type": "subscribe", "topic": 7}),
        json!({"type": "subscribe", "topic": ["a"]}),
        json!({"type": "subscribe", "topic": MESSAGES, "loadBalance": true, "loadBalanceGroup": 9}),
        json!({"type": "publish", "topic": null, "data": 1}),
        json!({"type": "batchAck", "msgIds": "m"}),
    ];
    for frame in frames {
        assert!(crashes(Profile::Kraken04, &packed(frame.clone())), "{frame}");
    }
}

#[test]
fn a_retain_of_another_type_crashes_0_4_only() {
    let frame = packed(json!({"type": "publish", "topic": MESSAGES, "data": 1, "retain": "yes"}));
    assert!(crashes(Profile::Kraken04, &frame));
    assert!(!crashes(Profile::Kraken010, &frame));
}

#[test]
fn binary_that_is_not_text_crashes_0_4_and_is_delivered_later() {
    let mut frame = BytesMut::new();
    ClientFrame::Publish(Publish::new(MESSAGES, RawValue::parse(b"\xc4\x02\xff\x00").unwrap()))
        .encode(&mut frame);
    assert!(crashes(Profile::Kraken04, &frame));

    let mut world = World::new(Profile::Kraken010);
    let ann = world.subscriber("ann", MESSAGES);
    world.send_bytes(ann, &frame);
    let Some(Output::Send { frame, .. }) = world.broker.poll_output() else { panic!("no delivery") };
    let Ok(ServerFrame::Message(message)) = ServerFrame::decode(&frame) else { panic!("{frame:?}") };
    assert_eq!(message.data.as_bytes(), b"\xc4\x02\xff\x00");
}

#[test]
fn a_crash_is_everyone_elses_quiet() {
    let mut world = World::new(Profile::Kraken04);
    let (ann, ben) = (world.connect("ann"), world.subscriber("ben", MESSAGES));
    world.send(ann, json!({"type": "subscribe", "topic": 7}));
    assert_eq!(world.end(ben), None);
    world.publish(ben, MESSAGES, json!(1));
    assert_eq!(world.payloads(ben), [1]);
}

#[test]
fn unknown_and_incomplete_frames_are_dropped() {
    let mut world = World::new(Profile::Kraken04);
    let ann = world.connect("ann");
    let frames = [
        json!({"type": "teleport"}),
        json!({"type": 7}),
        json!({"hello": "world"}),
        json!([]),
        json!(5),
        json!({"type": "SUBSCRIBE", "topic": MESSAGES}),
        json!({"type": "publish", "topic": MESSAGES, "msgRef": "no data"}),
        json!({"type": "publish", "data": 1, "msgRef": "no topic"}),
        json!({"type": "subscribe"}),
        json!({"type": "unsubscribe"}),
        json!({"type": "setFilters", "topic": MESSAGES}),
    ];
    for frame in frames {
        assert!(world.ask(ann, frame.clone()).is_empty(), "{frame}");
    }
    assert_eq!(world.end(ann), None);
}

#[test]
fn undecodable_frames_are_dropped_before_and_after_auth() {
    let mut world = World::new(Profile::Kraken04);
    let (early, ann) = (world.open(), world.connect("ann"));
    let trailing = [packed(json!({"type": "subscribe", "topic": MESSAGES})), vec![0]].concat();
    let extension = b"\x83\xa4type\xa7publish\xa5topic\xb3port/north/messages\xa4data\xd4\x05a";
    for frame in [b"\xc1".as_slice(), b"\x82\xa4type", b"\xdf\xff\xff\xff\xff", &trailing, extension] {
        for conn in [early, ann] {
            world.send_bytes(conn, frame);
            assert!(world.take(conn).is_empty() && world.end(conn).is_none());
        }
    }
}

#[test]
fn binary_keys_and_texts_are_understood() {
    let mut world = World::new(Profile::Kraken04);
    let conn = world.open();
    world.send_bytes(conn, b"\x82\xc4\x04type\xc4\x04auth\xc4\x05token\xc4\x05t-ann");
    assert_eq!(world.take(conn)[0]["success"], true);
}

#[test]
fn json_text_is_understood_and_answered_in_messagepack() {
    let mut world = World::new(Profile::Kraken04);
    let conn = world.open();
    let mut say = |text: &str| {
        world.broker.handle_text(world.now, conn, text);
        world.take(conn)
    };
    assert_eq!(say(r#"{"type": "auth", "token": "t-ann"}"#)[0]["success"], true);
    assert_eq!(say(&format!(r#"{{"type": "subscribe", "topic": "{MESSAGES}", "filters": null}}"#)).len(), 1);
    let data = r#"{"text": "přístav", "n": 1.5, "big": 12345678901, "nil": null, "list": [true, {}, -7]}"#;
    let frames =
        say(&format!(r#"{{"type": "publish", "topic": "{MESSAGES}", "data": {data}, "msgRef": "j"}}"#));
    assert_eq!(frames[1]["data"], serde_json::from_str::<Value>(data).unwrap());
    assert!(say("[1,2]").is_empty() && say("5").is_empty());
}

#[test]
fn text_that_is_not_json_crashes() {
    for text in ["not json", "{\"type\":", "{} trailing", ""] {
        let mut world = World::new(Profile::Kraken010);
        let (early, ann) = (world.open(), world.connect("ann"));
        for conn in [early, ann] {
            world.broker.handle_text(world.now, conn, text);
            assert_eq!(world.end(conn).as_deref(), Some("1011"), "{text:?}");
        }
    }
}

#[test]
fn calls_for_connections_that_are_gone_do_nothing() {
    let mut world = World::new(Profile::Kraken010);
    let ann = world.connect("ann");
    world.close(ann);
    world.send(ann, json!({"type": "subscribe", "topic": MESSAGES}));
    world.broker.handle_text(world.now, ann, "x");
    world.broker.handle_ping(world.now, ann);
    world.broker.hold(world.now, ann);
    world.broker.release(world.now, ann);
    world.broker.cut(world.now, ann);
    world.broker.close(world.now, ann, 1000, "");
    world.close(ann);
    assert_eq!(world.broker.poll_output(), None);
}

fn field() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z/#+|]{0,8}".prop_map(Value::from),
        prop_oneof![
            Just(MESSAGES),
            Just("t-ann"),
            Just("yard/gate/+"),
            Just("t-wild"),
            Just("north"),
            Just("ops")
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Value::from))
}

fn frame() -> impl Strategy<Value = Value> {
    let types = [
        "auth",
        "subscribe",
        "unsubscribe",
        "setFilters",
        "publish",
        "presence",
        "getPresence",
        "lobbySubscribe",
        "lobbyUnsubscribe",
        "getLobbyPresence",
        "ack",
        "batchAck",
        "reauth",
        "x",
    ];
    let keys = [
        "token",
        "topic",
        "data",
        "filters",
        "filter",
        "qos",
        "loadBalance",
        "loadBalanceGroup",
        "retain",
        "echo",
        "msgRef",
        "msgIds",
        "reconnect",
        "clientId",
        "protocolVersion",
        "roomId",
        "lobbyId",
    ];
    let fields = prop::collection::btree_map(prop::sample::select(keys.to_vec()), field(), 0..8);
    (prop::sample::select(types.to_vec()), fields).prop_map(|(frame_type, fields)| {
        let mut frame = json!(fields);
        frame["type"] = json!(frame_type);
        frame
    })
}

fn fault() -> impl Strategy<Value = Fault> {
    let effects = [
        Effect::Cut,
        Effect::Delay(Duration::from_millis(1500)),
        Effect::Drop,
        Effect::ExpireToken,
        Effect::Hold,
        Effect::Refuse("unknown_topic".into()),
        Effect::Restart,
        Effect::Silence,
    ];
    let occasions = [
        |fault: Fault| fault.on("subscribe"),
        |fault: Fault| fault.on_any_reply(),
        |fault: Fault| fault.on_reply("presence"),
        |fault: Fault| fault.on_open(),
        |fault: Fault| fault.actor("ann"),
    ];
    let (effects, occasions) =
        (prop::sample::select(effects.to_vec()), prop::sample::select(occasions.to_vec()));
    (effects, occasions, 0..4u32, prop::option::of(0..4u32)).prop_map(|(effect, occasion, skip, times)| {
        let fault = occasion(Fault::new(effect)).skip(skip);
        times.into_iter().fold(fault, Fault::times)
    })
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), text in ".{0,32}") {
        for profile in Profile::ALL {
            let mut broker = BrokerCore::new(BrokerConfig { profile, ..BrokerConfig::default() }, Instant::ZERO);
            let conn = broker.open(Instant::ZERO);
            broker.handle_binary(Instant::ZERO, conn, &bytes);
            broker.handle_text(Instant::ZERO, conn, r#"{"type": "auth", "token": "t"}"#);
            broker.handle_binary(Instant::ZERO, conn, &bytes);
            broker.handle_text(Instant::ZERO, conn, &text);
            while broker.poll_output().is_some() {}
        }
    }

    #[test]
    fn no_frames_make_it_panic(frames in prop::collection::vec((0..3usize, frame()), 0..40), profile in 0..3usize) {
        let mut world = World::new(Profile::ALL[profile]);
        let conns = [world.connect("ann"), world.connect("wild"), world.open()];
        for (conn, frame) in frames {
            world.send(conns[conn], frame);
        }
        for conn in conns {
            world.take(conn);
            world.close(conn);
        }
        prop_assert_eq!(world.broker.poll_timeout(), None);
    }

    #[test]
    fn no_faults_make_it_panic(
        frames in prop::collection::vec((0..3usize, frame(), 0..3u64), 0..40),
        faults in prop::collection::vec(fault(), 0..5),
        profile in 0..3usize,
    ) {
        let config = BrokerConfig {
            profile: Profile::ALL[profile],
            durable_delivery: true,
            delivery_lag: Duration::from_millis(700),
            record_frames: true,
            ..BrokerConfig::default()
        };
        let mut world = World::with(config);
        let ids: Vec<_> = faults.into_iter().map(|fault| world.broker.add_fault(world.now, fault)).collect();
        let conns = [world.open(), world.open(), world.open()];
        for conn in conns {
            world.send(conn, json!({"type": "auth", "token": "t-ann"}));
        }
        for (conn, frame, seconds) in frames {
            world.send(conns[conn], frame);
            world.pass(Duration::from_secs(seconds));
            world.take(conns[conn]);
        }
        ids.into_iter().for_each(|id| _ = world.broker.remove_fault(world.now, id));
        for conn in conns {
            world.take(conn);
            world.close(conn);
        }
        world.pass(Duration::from_secs(120));
        prop_assert_eq!(world.broker.poll_timeout(), None);
        prop_assert_eq!(world.broker.connections().count(), 0);
    }
}
