//! Short-lived tokens that an application's server signs.

use std::time::Duration;

use nolag_broker::{AuthConfig, BrokerConfig, Profile};
use serde_json::{Value, json};

use crate::world::{MESSAGES, World};

const AUTH: &str = r#"{"tokens": {
    "t-ann": {"actorTokenId": "ann", "projectId": "p", "allowedTopics": [
        {"pattern": "port/north/messages", "topic": "r1/messages"}]},
    "t-ben": {"actorTokenId": "ben", "projectId": "p", "allowedTopics": []}},
    "dev": {"signingKeys": [{"id": "sk_live_1", "secret": "hush"}]}}"#;

fn token(actor: &str, expires: u64) -> String {
    let auth = AuthConfig::from_json(AUTH).unwrap();
    auth.client_token(actor, Duration::from_secs(expires)).unwrap()
}

fn world(profile: Profile) -> World {
    let wall_clock = Duration::from_secs(10_000);
    World::with_auth(BrokerConfig { profile, wall_clock, ..BrokerConfig::default() }, AUTH)
}

fn auth(token: &str) -> Value {
    json!({"type": "auth", "token": token, "protocolVersion": 2})
}

fn reauth(token: &str) -> Value {
    json!({"type": "reauth", "token": token})
}

#[test]
fn a_client_token_is_its_actor_until_the_first_heartbeat_after_its_end() {
    let mut world = world(Profile::Kraken010);
    let conn = world.open();
    let reply = world.ask(conn, auth(&token("ann", 10_090)));
    assert_eq!((&reply[0]["success"], &reply[0]["actorTokenId"]), (&json!(true), &json!("ann")));
    world.pass(Duration::from_secs(50));
    world.send_bytes(conn, &[]);
    assert_eq!(world.take(conn), ["heartbeat"]);
    world.pass(Duration::from_secs(50));
    assert_eq!(world.ask(conn, json!({"type": "subscribe", "topic": MESSAGES}))[0]["type"], "subscribed");
    world.send_bytes(conn, &[]);
    assert_eq!(world.take(conn), [json!({"type": "disconnect", "reason": "token_expired"})]);
    assert_eq!(world.end(conn).as_deref(), Some("4003 token_expired"));
}

#[test]
fn a_fresh_token_for_the_same_actor_keeps_the_connection() {
    let mut world = world(Profile::Kraken010);
    let conn = world.open();
    world.ask(conn, auth(&token("ann", 10_050)));
    let refused = |error: &str| vec![json!({"type": "reauth", "success": false, "error": error})];
    assert_eq!(world.ask(conn, reauth(&token("ben", 10_100))), refused("actor_mismatch"));
    assert_eq!(world.ask(conn, reauth(&token("ann", 9_000))), refused("token_expired"));
    assert_eq!(world.ask(conn, reauth("nonsense")), refused("access_denied"));
    let accepted = json!({"type": "reauth", "success": true, "authExpiresAt": 10_100});
    assert_eq!(world.ask(conn, reauth(&token("ann", 10_100))), [accepted]);
    world.pass(Duration::from_secs(55));
    world.send_bytes(conn, &[]);
    assert_eq!(world.take(conn), ["heartbeat"]);
    let accepted = json!({"type": "reauth", "success": true});
    assert_eq!(world.ask(conn, reauth("t-ann")), [accepted], "a token without an end");
}

#[test]
fn an_expired_or_foreign_client_token_is_refused() {
    let mut world = world(Profile::Kraken010);
    let conn = world.open();
    let forged = AuthConfig::allow_all().with_signing_key("sk_live_1", "other");
    let forged = forged.client_token("ann", Duration::from_secs(10_100)).unwrap();
    let cases = [
        (token("ann", 10_000), "token_expired"),
        (token("ann", 13_661), "access_denied"),
        (token("nobody", 10_100), "access_denied"),
        (forged, "access_denied"),
    ];
    for (token, error) in cases {
        assert_eq!(
            world.ask(conn, auth(&token)),
            [json!({"type": "auth", "success": false, "error": error})]
        );
    }
}

#[test]
fn old_brokers_know_neither_client_tokens_nor_reauth() {
    let mut world = world(Profile::Kraken04);
    let conn = world.open();
    assert_eq!(world.ask(conn, auth(&token("ann", 10_090)))[0]["error"], "access_denied");
    world.ask(conn, auth("t-ann"));
    assert!(world.ask(conn, reauth("t-ann")).is_empty());
}

#[test]
fn any_token_can_be_made_to_expire() {
    let mut world = world(Profile::Kraken010);
    let conn = world.connect("ann");
    world.broker.expire_token(world.now, conn);
    assert_eq!(world.ask(conn, reauth("t-ann"))[0]["success"], true);
    world.send_bytes(conn, &[]);
    assert_eq!(world.take(conn), ["heartbeat"]);
    world.broker.expire_token(world.now, conn);
    world.send_bytes(conn, &[]);
    assert_eq!(world.end(conn).as_deref(), Some("4003 token_expired"));
}

#[test]
fn without_an_auth_file_a_signing_key_makes_any_actor() {
    let auth_config = AuthConfig::allow_all().with_signing_key("k", "hush");
    let mut world = world(Profile::Kraken010);
    world.broker.set_auth(world.now, auth_config.clone());
    let conn = world.open();
    let token = auth_config.client_token("zoe", Duration::from_secs(10_100)).unwrap();
    assert_eq!(world.ask(conn, auth(&token))[0]["actorTokenId"], "zoe");
    assert!(!format!("{auth_config:?}{:?}", world.broker).contains("hush"));
}
