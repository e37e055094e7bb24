//! The handshake, identities, and what a token allows.

use std::time::Duration;

use nolag_broker::Profile;
use serde_json::json;

use crate::world::{JOBS, MESSAGES, World};

#[test]
fn auth_succeeds_with_identity_and_version() {
    let mut world = World::new(Profile::Kraken04);
    let conn = world.open();
    let reply = world.ask(conn, json!({"type": "auth", "token": "t-ann", "protocolVersion": 9}));
    let expected = json!({"type": "auth", "success": true, "actorTokenId": "ann", "projectId": "p",
        "actorType": "user", "protocolVersion": 2, "restoredSubscriptions": []});
    assert_eq!(reply, [expected]);
}

#[test]
fn odd_versions_count_as_one() {
    for version in [json!(0), json!(-3), json!("2"), json!(null), json!(1.5)] {
        let mut world = World::new(Profile::Kraken04);
        let conn = world.open();
        let reply = world.ask(conn, json!({"type": "auth", "token": "t-ann", "protocolVersion": version}));
        assert_eq!(reply[0]["protocolVersion"], 1, "{version}");
    }
}

#[test]
fn a_refused_token_leaves_the_socket_open() {
    let mut world = World::new(Profile::Kraken04);
    let conn = world.open();
    for token in [json!("nobody"), json!(""), json!(7), json!(null)] {
        let reply = world.ask(conn, json!({"type": "auth", "token": token}));
        assert_eq!(reply, [json!({"type": "auth", "success": false, "error": "access_denied"})]);
    }
    assert_eq!(world.ask(conn, json!({"type": "auth", "token": "t-ann"}))[0]["success"], true);
}

#[test]
fn frames_before_auth_are_not_authenticated() {
    let mut world = World::new(Profile::Kraken04);
    let conn = world.open();
    let refused = [json!({"type": "error", "error": "not_authenticated"})];
    let early = [
        json!({"type": "subscribe", "topic": MESSAGES}),
        json!({"type": "auth", "protocolVersion": 2}),
        json!({"type": "whatever"}),
        json!({"no": "type"}),
        json!([1, 2]),
    ];
    for frame in early {
        assert_eq!(world.ask(conn, frame), refused);
    }
    world.send_bytes(conn, &[]);
    assert!(world.take(conn).is_empty(), "an early heartbeat is ignored");
}

#[test]
fn heartbeats_are_echoed_after_auth() {
    let mut world = World::new(Profile::Kraken04);
    let conn = world.connect("ann");
    world.send_bytes(conn, &[]);
    assert_eq!(world.take(conn), ["heartbeat"]);
}

#[test]
fn a_second_auth_replaces_the_identity_and_keeps_subscriptions() {
    let mut world = World::new(Profile::Kraken04);
    let conn = world.subscriber("ann", MESSAGES);
    assert_eq!(world.ask(conn, json!({"type": "auth", "token": "t-eye"}))[0]["actorTokenId"], "eye");
    let ben = world.connect("ben");
    world.publish(ben, MESSAGES, json!(1));
    assert_eq!(world.payloads(conn), [1]);
    assert_eq!(world.ask(conn, json!({"type": "subscribe", "topic": JOBS}))[0]["type"], "error");
}

#[test]
fn a_full_organization_refuses_until_a_place_is_free() {
    let mut world = World::new(Profile::Kraken04);
    let first = world.connect("only");
    let second = world.open();
    let auth = json!({"type": "auth", "token": "t-only"});
    assert_eq!(world.ask(second, auth.clone())[0]["error"], "connection_limit_reached");
    assert_eq!(
        world.ask(second, json!({"type": "subscribe", "topic": MESSAGES}))[0]["error"],
        "not_authenticated"
    );
    assert_eq!(world.ask(first, auth.clone())[0]["success"], true, "a second auth does not count twice");
    world.close(first);
    assert_eq!(world.ask(second, auth)[0]["success"], true);
}

#[test]
fn permissions_are_per_direction() {
    let mut world = World::new(Profile::Kraken010);
    let (eye, mouth) = (world.connect("eye"), world.connect("mouth"));
    assert_eq!(world.ask(eye, json!({"type": "subscribe", "topic": MESSAGES}))[0]["type"], "subscribed");
    assert_eq!(world.ask(mouth, json!({"type": "subscribe", "topic": MESSAGES}))[0]["code"], 42940);
    assert_eq!(world.ask(eye, json!({"type": "publish", "topic": MESSAGES, "data": 1}))[0]["code"], 42940);
    world.publish(mouth, MESSAGES, json!(2));
    assert_eq!(world.payloads(eye), [2]);
}

#[test]
fn unknown_topics_are_named_by_version() {
    let mut world = World::new(Profile::Kraken04);
    let (old, new) = (world.open(), world.connect("ann"));
    world.ask(old, json!({"type": "auth", "token": "t-ann"}));
    let publish = json!({"type": "publish", "topic": "port/west/x", "data": 1, "msgRef": "r"});
    let plain = json!({"type": "error", "error": "not_authorized", "topic": "port/west/x", "msgRef": "r"});
    assert_eq!(world.ask(old, publish.clone()), [plain]);
    let hint = "room is not configured \u{14} provision it via the control-plane rooms API before use";
    let coded = json!({"type": "error", "error": "unknown_topic", "code": 42940, "hint": hint,
        "topic": "port/west/x", "msgRef": "r"});
    assert_eq!(world.ask(new, publish), [coded]);
}

#[test]
fn a_scope_may_be_left_out() {
    let mut world = World::new(Profile::Kraken04);
    let scoped = world.subscriber("scoped", "port/berth/messages");
    world.publish(scoped, "port/pier/berth/messages", json!("long form"));
    let message = &world.take(scoped)[0];
    assert_eq!((&message["topic"], &message["data"]), (&json!("port/berth/messages"), &json!("long form")));
}

#[test]
fn ten_minutes_after_auth_a_heartbeat_revalidates() {
    let mut world = World::new(Profile::Kraken010);
    let (ann, ben) = (world.connect("ann"), world.connect("ben"));
    world.broker.set_auth(world.now, World::auth_without("t-ann"));
    for _ in 0..20 {
        world.pass(Duration::from_secs(30));
        world.send_bytes(ann, &[]);
        world.send_bytes(ben, &[]);
    }
    assert_eq!(world.end(ann).as_deref(), Some("4001 token_revoked"));
    assert_eq!(world.end(ben), None);
    assert_eq!(world.take(ann).len(), 20, "the last heartbeat is still answered");
}

#[test]
fn an_organization_at_its_limit_fails_revalidation_on_0_4_only() {
    for (profile, end) in
        [(Profile::Kraken04, Some("4002 connection_limit_reached")), (Profile::Kraken010, None)]
    {
        let mut world = World::new(profile);
        let only = world.connect("only");
        for _ in 0..20 {
            world.pass(Duration::from_secs(30));
            world.send_bytes(only, &[]);
        }
        assert_eq!(world.end(only).as_deref(), end);
    }
}

#[test]
fn reauth_refreshes_the_same_actor_from_0_10_on() {
    let mut world = World::new(Profile::Kraken010);
    let ann = world.connect("ann");
    let reply = |error: &str| [json!({"type": "reauth", "success": false, "error": error})];
    assert_eq!(world.ask(ann, json!({"type": "reauth", "token": "t-ben"})), reply("actor_mismatch"));
    assert_eq!(world.ask(ann, json!({"type": "reauth", "token": "nobody"})), reply("access_denied"));
    let accepted = [json!({"type": "reauth", "success": true})];
    assert_eq!(world.ask(ann, json!({"type": "reauth", "token": "t-ann"})), accepted);

    let mut old = World::new(Profile::Kraken04);
    let ann = old.connect("ann");
    assert!(old.ask(ann, json!({"type": "reauth", "token": "t-ann"})).is_empty());
}
