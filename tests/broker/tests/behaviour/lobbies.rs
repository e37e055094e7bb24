//! Watching the presence of many rooms.

use std::time::Duration;

use nolag_broker::{AuthConfig, BrokerConfig, ConnectionId, Profile};
use serde_json::{Value, json};

use crate::world::World;

const AUTH: &str = r#"{"tokens": {
    "t-eye": {"actorTokenId": "eye", "allowedTopics": [
        {"pattern": "port/north/messages", "topic": "r1/messages", "room_id": "r1", "room_slug": "north"},
        {"pattern": "port/south/messages", "topic": "r2/messages", "room_id": "r2", "room_slug": "south"}],
        "allowedLobbies": [{"lobby_slug": "ops", "lobby_id": "l-1"}]},
    "t-other": {"actorTokenId": "other", "allowedTopics": [
        {"pattern": "port/north/messages", "topic": "r1/messages", "room_id": "r1", "room_slug": "north"}],
        "allowedLobbies": [{"lobby_slug": "yard", "lobby_id": "l-2"}]},
    "t-blind": {"actorTokenId": "blind", "allowedTopics": [],
        "allowedLobbies": [{"lobby_slug": "ops", "lobby_id": "l-1"}]},
    "t-ann": {"actorTokenId": "ann", "allowedTopics": [
        {"pattern": "port/north/messages", "topic": "r1/messages", "room_id": "r1", "room_slug": "north"},
        {"pattern": "port/south/messages", "topic": "r2/messages", "room_id": "r2", "room_slug": "south"}]}
}}"#;

fn world(profile: Profile) -> World {
    World::with_auth(BrokerConfig { profile, ..BrokerConfig::default() }, AUTH)
}

fn ask(world: &mut World, conn: ConnectionId, frame_type: &str, lobby: &str) -> Value {
    let mut frames = world.ask(conn, json!({"type": frame_type, "lobbyId": lobby}));
    assert_eq!(frames.len(), 1, "{frames:?}");
    frames.remove(0)
}

fn set(world: &mut World, conn: ConnectionId, room: &str, data: Value) {
    world.send(conn, json!({"type": "presence", "roomId": room, "data": data}));
}

/// Events as `event room actor data`.
fn events(world: &mut World, conn: ConnectionId, lobby: &str) -> Vec<String> {
    let shown = |frame: &Value| {
        assert_eq!((&frame["type"], &frame["lobbyId"]), (&json!("lobbyPresence"), &json!(lobby)), "{frame}");
        let text = |name: &str| frame[name].as_str().unwrap();
        format!("{} {} {} {}", text("event"), text("roomId"), text("actorId"), frame["data"])
    };
    world.take(conn).iter().map(shown).collect()
}

#[test]
fn the_first_snapshot_is_empty_and_the_next_one_is_not() {
    let mut world = world(Profile::Kraken04);
    let (eye, ann) = (world.connect("eye"), world.connect("ann"));
    set(&mut world, ann, "north", json!({"at": 1}));
    let cold = ask(&mut world, eye, "lobbySubscribe", "ops");
    assert_eq!(cold, json!({"type": "lobbySubscribed", "lobbyId": "ops", "presence": {}}));
    let rooms = json!({
        "north": {"ann": {"actorTokenId": "ann", "presence": {"at": 1}, "joinedAt": 0}}, "south": {}});
    let list = ask(&mut world, eye, "getLobbyPresence", "ops");
    assert_eq!(list, json!({"type": "lobbyPresenceList", "lobbyId": "ops", "presence": rooms}));
    assert_eq!(ask(&mut world, eye, "lobbySubscribe", "ops")["presence"], rooms);
}

#[test]
fn observers_hear_of_every_room_with_the_lobbys_id() {
    let mut world = world(Profile::Kraken04);
    let (eye, ann) = (world.connect("eye"), world.connect("ann"));
    ask(&mut world, eye, "lobbySubscribe", "ops");
    set(&mut world, ann, "north", json!(1));
    set(&mut world, ann, "south", json!(2));
    world.close(ann);
    let heard = events(&mut world, eye, "l-1");
    let expected = [
        "join north ann 1",
        "update north ann 1",
        "leave north ann {}",
        "join south ann 2",
        "update south ann 2",
        "leave south ann {}",
    ];
    assert_eq!(heard, expected);
}

#[test]
fn an_observer_that_leaves_hears_no_more() {
    let mut world = world(Profile::Kraken04);
    let (eye, ann) = (world.connect("eye"), world.connect("ann"));
    ask(&mut world, eye, "lobbySubscribe", "ops");
    let confirmed = json!({"type": "lobbyUnsubscribed", "lobbyId": "ops"});
    assert_eq!(ask(&mut world, eye, "lobbyUnsubscribe", "ops"), confirmed);
    set(&mut world, ann, "north", json!(1));
    assert!(world.take(eye).is_empty());
    ask(&mut world, eye, "lobbyUnsubscribe", "never heard of");
    ask(&mut world, eye, "lobbySubscribe", "ops");
    world.close(eye);
    set(&mut world, ann, "north", json!(2));
    assert_eq!(world.take(eye), Vec::<Value>::new());
}

#[test]
fn lobbies_are_refused_without_a_grant_and_by_id() {
    let mut world = world(Profile::Kraken04);
    let (eye, ann) = (world.connect("eye"), world.connect("ann"));
    for (conn, lobby) in [(ann, "ops"), (eye, "l-1"), (eye, "unknown")] {
        let refused = json!({"type": "error", "error": "not_authorized", "lobbyId": lobby});
        assert_eq!(ask(&mut world, conn, "lobbySubscribe", lobby), refused);
        assert_eq!(ask(&mut world, conn, "getLobbyPresence", lobby), refused);
    }
}

#[test]
fn kraken_forgets_a_lobbys_rooms_after_five_minutes() {
    for profile in [Profile::Kraken04, Profile::Kraken010] {
        let mut world = world(profile);
        let (eye, ann) = (world.connect("eye"), world.connect("ann"));
        ask(&mut world, eye, "lobbySubscribe", "ops");
        for n in 0..7 {
            world.pass(Duration::from_secs(50));
            world.send_bytes(eye, &[]);
            world.take(eye);
            set(&mut world, ann, "north", json!(n));
            assert_eq!(!events(&mut world, eye, "l-1").is_empty(), n < 5, "after {} s", 50 * (n + 1));
        }
        assert_eq!(ask(&mut world, eye, "getLobbyPresence", "ops")["presence"], json!({}));
        ask(&mut world, eye, "lobbySubscribe", "ops");
        set(&mut world, ann, "north", json!("back"));
        assert_eq!(events(&mut world, eye, "l-1"), [r#"update north ann "back""#]);
    }
}

#[test]
fn kraken_knows_only_the_last_lobbies_of_a_room() {
    let mut world = world(Profile::Kraken010);
    let (eye, other, ann) = (world.connect("eye"), world.connect("other"), world.connect("ann"));
    ask(&mut world, eye, "lobbySubscribe", "ops");
    ask(&mut world, other, "lobbySubscribe", "yard");
    set(&mut world, ann, "north", json!(1));
    assert!(world.take(eye).is_empty());
    assert_eq!(events(&mut world, other, "l-2").len(), 2);
}

#[test]
fn the_cloud_never_forgets_and_speaks_of_slugs() {
    let mut world = world(Profile::Cloud);
    let (eye, other, ann) = (world.connect("eye"), world.connect("other"), world.connect("ann"));
    set(&mut world, ann, "north", json!(1));
    let first = ask(&mut world, eye, "lobbySubscribe", "ops");
    assert_eq!(first["presence"]["north"]["ann"]["presence"], 1);
    ask(&mut world, other, "lobbySubscribe", "yard");
    for _ in 0..8 {
        world.pass(Duration::from_secs(50));
        [eye, other, ann].iter().for_each(|conn| world.send_bytes(*conn, &[]));
    }
    [eye, other].iter().for_each(|conn| _ = world.take(*conn));
    set(&mut world, ann, "north", json!(2));
    assert_eq!(events(&mut world, eye, "ops"), ["update north ann 2"]);
    assert_eq!(events(&mut world, other, "yard"), ["update north ann 2"]);
}

#[test]
fn a_room_that_the_observer_cannot_name_is_shown_by_id() {
    let mut world = world(Profile::Kraken010);
    let (eye, blind, ann) = (world.connect("eye"), world.connect("blind"), world.connect("ann"));
    ask(&mut world, eye, "lobbySubscribe", "ops");
    ask(&mut world, blind, "lobbySubscribe", "ops");
    set(&mut world, ann, "north", json!(1));
    assert_eq!(events(&mut world, blind, "l-1"), ["join r1 ann 1", "update r1 ann 1"]);
}

#[test]
fn one_connection_observes_at_most_a_thousand_lobbies() {
    let mut world = world(Profile::Kraken010);
    world.broker.set_auth(world.now, AuthConfig::allow_all());
    let (eye, ann) = (world.connect("eye"), world.connect("ann"));
    for n in 0..1000 {
        assert_eq!(ask(&mut world, eye, "lobbySubscribe", &format!("lobby {n}"))["type"], "lobbySubscribed");
    }
    assert_eq!(ask(&mut world, eye, "lobbySubscribe", "one more")["error"], "too_many_subscriptions");
    assert_eq!(ask(&mut world, eye, "lobbySubscribe", "lobby 0")["type"], "lobbySubscribed");
    set(&mut world, ann, "any room", json!(1));
    assert_eq!(world.take(eye).len(), 2000, "without an auth file, lobbies have every room");
}
