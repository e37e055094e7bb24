//! Filters of subscriptions and publishes.

use nolag_broker::Profile;
use nolag_core::wire::MAX_FILTERS;
use serde_json::{Value, json};

use crate::world::{MESSAGES, World};

fn publish(extra: Value) -> Value {
    let mut frame = json!({"type": "publish", "topic": MESSAGES, "data": extra});
    frame.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    frame
}

fn filtered(world: &mut World, filters: Value) -> nolag_broker::ConnectionId {
    let conn = world.connect("ann");
    let reply = world.ask(conn, json!({"type": "subscribe", "topic": MESSAGES, "filters": filters}));
    assert_eq!(reply[0]["type"], "subscribed", "{reply:?}");
    conn
}

#[test]
fn a_filter_matches_exactly_and_nothing_unfiltered() {
    let mut world = World::new(Profile::Kraken04);
    let conn = filtered(&mut world, json!(["vip", "two words:x"]));
    let ben = world.connect("ben");
    for extra in
        [json!({"filter": "vip"}), json!({"filter": "VIP"}), json!({}), json!({"filter": "two words:x"})]
    {
        world.send(ben, publish(extra));
    }
    let shown: Vec<_> = world.take(conn).into_iter().map(|mut frame| frame["filter"].take()).collect();
    assert_eq!(shown, ["vip", "two words:x"]);
}

#[test]
fn an_and_group_matches_the_same_set_only() {
    let mut world = World::new(Profile::Kraken04);
    let conn = filtered(&mut world, json!([["B", "a"]]));
    let ben = world.connect("ben");
    let publishes = [
        json!({"filters": ["A", "b"]}),
        json!({"filters": ["a", "b", "c"]}),
        json!({"filters": ["a"]}),
        json!({"filter": "a", "filters": ["a", "b"]}),
        json!({"filter": "a|b"}),
    ];
    for extra in publishes {
        world.send(ben, publish(extra));
    }
    let messages = world.take(conn);
    assert_eq!(messages.len(), 2, "the set itself, and on 0.4 the text that looks like it");
    assert!(messages.iter().all(|message| message["filter"] == "a|b"));
}

#[test]
fn one_element_filters_are_lower_cased() {
    let mut world = World::new(Profile::Kraken04);
    let conn = filtered(&mut world, json!(["vip"]));
    let ben = world.connect("ben");
    world.send(ben, publish(json!({"filters": ["VIP"]})));
    assert_eq!(world.take(conn)[0]["filter"], "vip");
}

#[test]
fn unfiltered_subscriptions_receive_everything() {
    for (profile, shown) in
        [(Profile::Kraken04, [json!("#"), json!("#")]), (Profile::Kraken010, [json!(null), json!("vip")])]
    {
        let mut world = World::new(profile);
        let conn = world.subscriber("ann", MESSAGES);
        let ben = world.connect("ben");
        world.send(ben, publish(json!({})));
        world.send(ben, publish(json!({"filter": "vip"})));
        let seen: Vec<_> = world.take(conn).into_iter().map(|frame| frame["filter"].clone()).collect();
        assert_eq!(seen, shown);
    }
}

#[test]
fn set_filters_replaces_and_echoes_the_list_as_sent() {
    let mut world = World::new(Profile::Kraken04);
    let conn = world.subscriber("ann", MESSAGES);
    let list = json!(["bulk", ["Night", "OOG"]]);
    let reply = world.ask(conn, json!({"type": "setFilters", "topic": MESSAGES, "filters": list}));
    assert_eq!(reply, [json!({"type": "filtersUpdated", "topic": MESSAGES, "filters": list})]);
    let ben = world.connect("ben");
    for extra in [json!({}), json!({"filter": "bulk"}), json!({"filters": ["oog", "night"]})] {
        world.send(ben, publish(extra));
    }
    assert_eq!(world.payloads(conn).len(), 2);
    let reply = world.ask(conn, json!({"type": "setFilters", "topic": MESSAGES, "filters": "none"}));
    assert_eq!(reply[0]["filters"], json!([]));
    world.send(ben, publish(json!({})));
    assert_eq!(world.payloads(conn).len(), 1);
}

#[test]
fn set_filters_needs_a_subscription() {
    let mut world = World::new(Profile::Kraken04);
    let conn = world.connect("ann");
    for topic in [json!(MESSAGES), json!(7)] {
        let reply = world.ask(conn, json!({"type": "setFilters", "topic": topic, "filters": []}));
        assert_eq!(reply, [json!({"type": "error", "error": "not_subscribed", "topic": topic})]);
    }
}

#[test]
fn bad_filters_are_refused() {
    let mut world = World::new(Profile::Kraken04);
    let conn = world.subscriber("ann", MESSAGES);
    let chars = "invalid_filter_chars (/, #, +, | not allowed)";
    let many: Vec<_> = (0..=MAX_FILTERS).map(|n| format!("f{n}")).collect();
    let cases = [
        (json!(["a/b"]), chars),
        (json!(["#"]), chars),
        (json!([""]), chars),
        (json!([7]), chars),
        (json!([["solo"]]), chars),
        (json!([["ok", "no|good"]]), chars),
        (json!(many), "too_many_filters (max 100)"),
    ];
    for (filters, error) in cases {
        for frame_type in ["setFilters", "subscribe"] {
            let reply = world.ask(conn, json!({"type": frame_type, "topic": MESSAGES, "filters": filters}));
            assert_eq!(reply, [json!({"type": "error", "error": error, "topic": MESSAGES})]);
        }
    }
    let full = json!({"type": "setFilters", "topic": MESSAGES, "filters": many[1..]});
    assert_eq!(world.ask(conn, full)[0]["type"], "filtersUpdated");
}

#[test]
fn a_refused_resubscribe_ends_the_deliveries() {
    let mut world = World::new(Profile::Kraken04);
    let conn = world.subscriber("ann", MESSAGES);
    world.ask(conn, json!({"type": "subscribe", "topic": MESSAGES, "filters": ["no#good"]}));
    let ben = world.connect("ben");
    world.send(ben, publish(json!({})));
    assert!(world.payloads(conn).is_empty());
    let reply = world.ask(conn, json!({"type": "setFilters", "topic": MESSAGES, "filters": []}));
    assert_eq!(reply[0]["type"], "filtersUpdated");
    world.send(ben, publish(json!({})));
    assert!(world.payloads(conn).is_empty(), "the same filters again do not revive it");
    world.ask(conn, json!({"type": "subscribe", "topic": MESSAGES}));
    world.send(ben, publish(json!({})));
    assert_eq!(world.payloads(conn).len(), 1);
}

#[test]
fn publish_filters_are_checked_from_0_10_on() {
    let many: Vec<_> = (0..=MAX_FILTERS).map(|n| format!("f{n}")).collect();
    for extra in [
        json!({"filter": "a/b"}),
        json!({"filter": 4}),
        json!({"filters": ["a", ""]}),
        json!({"filters": many}),
    ] {
        let mut new = World::new(Profile::Kraken010);
        let ann = new.connect("ann");
        let reply = new.ask(ann, publish(extra.clone()));
        assert_eq!(
            (&reply[0]["error"], &reply[0]["code"]),
            (&json!("invalid_filter"), &json!(42960)),
            "{extra}"
        );
        assert!(reply[0]["detail"].is_string());

        let mut old = World::new(Profile::Kraken04);
        let ann = old.subscriber("ann", MESSAGES);
        old.send(ann, publish(extra));
        assert_eq!(old.payloads(ann).len(), 1);
    }
}
