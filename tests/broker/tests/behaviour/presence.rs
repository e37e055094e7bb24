//! Who is in a room, and who hears of it.

use std::time::Duration;

use nolag_broker::{BrokerConfig, ConnectionId, Profile};
use serde_json::{Value, json};

use crate::world::{MESSAGES, World};

const AUTH: &str = r#"{"tokens": {
    "t-ann": {"actorTokenId": "ann", "allowedTopics": [
        {"pattern": "port/north/messages", "topic": "r1/messages", "room_id": "r1", "room_slug": "north"},
        {"pattern": "port/south/messages", "topic": "r2/messages", "room_id": "r2", "room_slug": "south"},
        {"pattern": "yard/south/messages", "topic": "r9/messages", "room_id": "r9", "room_slug": "south"},
        {"pattern": "port/lost/messages", "topic": "r3/messages", "room_slug": "lost"}]},
    "t-ben": {"actorTokenId": "ben", "allowedTopics": [
        {"pattern": "port/north/messages", "topic": "r1/messages", "room_id": "r1", "room_slug": "north"},
        {"pattern": "port/south/messages", "topic": "r2/messages", "room_id": "r2", "room_slug": "south"}]},
    "t-eve": {"actorTokenId": "eve", "allowedTopics": [
        {"pattern": "port/north/messages", "topic": "r1/messages", "room_id": "r1", "room_slug": "quay"}]}
}}"#;

fn world() -> World {
    let config = BrokerConfig {
        profile: Profile::Kraken04,
        wall_clock: Duration::from_millis(1_700_000_000_900),
        ..BrokerConfig::default()
    };
    World::with_auth(config, AUTH)
}

fn set(world: &mut World, conn: ConnectionId, room: &str, data: Value) {
    world.send(conn, json!({"type": "presence", "roomId": room, "data": data}));
}

/// A connection that is present in a room, with its own events taken.
fn member(world: &mut World, name: &str, room: &str, data: Value) -> ConnectionId {
    let conn = world.connect(name);
    set(world, conn, room, data);
    world.take(conn);
    conn
}

/// Events as `event actor presence`.
fn events(world: &mut World, conn: ConnectionId) -> Vec<String> {
    let shown = |frame: &Value| {
        assert_eq!(frame["type"], "presence", "{frame}");
        let data = &frame["data"];
        let presence = data.get("presence").map(|presence| format!(" {presence}")).unwrap_or_default();
        format!("{} {}{presence}", frame["event"].as_str().unwrap(), data["actor_token_id"].as_str().unwrap())
    };
    world.take(conn).iter().map(shown).collect()
}

#[test]
fn the_first_presence_in_a_room_is_a_join_and_an_update_and_later_ones_are_updates() {
    let mut world = world();
    let ann = world.connect("ann");
    set(&mut world, ann, "north", json!({"at": 1}));
    assert_eq!(events(&mut world, ann), [r#"join ann {"at":1}"#, r#"update ann {"at":1}"#]);
    set(&mut world, ann, "north", json!(null));
    assert_eq!(events(&mut world, ann), ["update ann null"]);
}

#[test]
fn only_members_hear_of_a_room() {
    let mut world = world();
    let (ben, eve) = (member(&mut world, "ben", "north", json!(1)), world.subscriber("eve", MESSAGES));
    let ann = member(&mut world, "ann", "north", json!(2));
    assert_eq!(events(&mut world, ben), ["join ann 2", "update ann 2"]);
    assert!(world.take(eve).is_empty());
    world.close(ann);
    assert_eq!(events(&mut world, ben), ["leave ann"]);
}

#[test]
fn another_room_is_entered_by_leaving_the_first() {
    let mut world = world();
    let (ben, ann) =
        (member(&mut world, "ben", "north", json!(1)), member(&mut world, "ann", "north", json!(2)));
    world.take(ben);
    set(&mut world, ann, "south", json!(3));
    assert_eq!(events(&mut world, ann), ["leave ann", "join ann 3", "update ann 3"]);
    assert_eq!(events(&mut world, ben), ["leave ann"]);
    set(&mut world, ben, "north", json!(4));
    assert!(world.take(ann).is_empty());
}

#[test]
fn a_presence_without_a_known_room_is_ignored() {
    let mut world = world();
    let ann = member(&mut world, "ann", "north", json!(1));
    for room in [json!("nowhere"), json!("lost"), json!(null), json!(7), json!(["north"])] {
        world.send(ann, json!({"type": "presence", "roomId": room, "data": 2}));
    }
    world.send(ann, json!({"type": "presence", "data": 2}));
    world.send(ann, json!({"type": "presence", "roomId": "north"}));
    assert!(world.take(ann).is_empty());
    let list = world.ask(ann, json!({"type": "getPresence", "roomId": "north"}));
    assert_eq!(list[0]["data"][0]["presence"], 1);
}

#[test]
fn the_list_shows_members_with_the_time_of_joining() {
    let mut world = world();
    let ann = member(&mut world, "ann", "north", json!({"at": 1}));
    world.pass(Duration::from_secs(10));
    set(&mut world, ann, "north", json!({"at": 2}));
    let eve = world.connect("eve");
    let list = json!({"type": "presenceList", "roomId": "quay", "data": [
        {"actorTokenId": "ann", "presence": {"at": 2}, "joinedAt": 1_700_000_000, "status": "online"}]});
    assert_eq!(world.ask(eve, json!({"type": "getPresence", "roomId": "quay"})), [list]);
}

#[test]
fn lists_of_unknown_rooms_are_empty_and_repeat_what_was_asked() {
    let mut world = world();
    let ann = member(&mut world, "ann", "north", json!(1));
    for room in [json!("nowhere"), json!(5), json!(null)] {
        let list = json!({"type": "presenceList", "roomId": room, "data": []});
        assert_eq!(world.ask(ann, json!({"type": "getPresence", "roomId": room})), [list]);
    }
    let without = json!({"type": "presenceList", "data": []});
    assert_eq!(world.ask(ann, json!({"type": "getPresence"})), [without]);
    let by_id = world.ask(ann, json!({"type": "getPresence", "roomId": "r1"}));
    assert_eq!(by_id[0]["data"][0]["actorTokenId"], "ann", "an unknown name is taken for an id");
}

#[test]
fn of_two_rooms_with_one_slug_the_first_granted_counts() {
    let mut world = world();
    let ben = member(&mut world, "ben", "south", json!(1));
    let _ann = member(&mut world, "ann", "south", json!(2));
    assert_eq!(events(&mut world, ben), ["join ann 2", "update ann 2"]);
}

#[test]
fn an_actor_with_two_connections_is_there_twice_and_leaves_twice() {
    let mut world = world();
    let ben = member(&mut world, "ben", "north", json!(0));
    let first = member(&mut world, "ann", "north", json!(1));
    let _second = member(&mut world, "ann", "north", json!(2));
    world.take(ben);
    world.close(first);
    assert_eq!(events(&mut world, ben), ["leave ann"]);
    let list = world.ask(ben, json!({"type": "getPresence", "roomId": "north"}));
    let actors: Vec<_> =
        list[0]["data"].as_array().unwrap().iter().map(|entry| &entry["actorTokenId"]).collect();
    assert_eq!(actors, ["ben", "ann"]);
}

#[test]
fn a_new_identity_shows_in_events_but_the_list_keeps_the_old_one() {
    let mut world = world();
    let ann = member(&mut world, "ann", "north", json!(1));
    assert_eq!(world.ask(ann, json!({"type": "auth", "token": "t-ben"}))[0]["success"], true);
    set(&mut world, ann, "north", json!(2));
    assert_eq!(events(&mut world, ann), ["update ben 2"]);
    let list = world.ask(ann, json!({"type": "getPresence", "roomId": "north"}));
    assert_eq!(list[0]["data"][0]["actorTokenId"], "ann");
}

#[test]
fn persistent_presence_outlives_its_connection() {
    let mut world = world();
    let ben = member(&mut world, "ben", "north", json!(1));
    let presence = json!({"persistent": true, "capabilities": ["lash"]});
    let ann = member(&mut world, "ann", "north", presence.clone());
    let list = |world: &mut World| {
        let list = world.ask(ben, json!({"type": "getPresence", "roomId": "north"})).remove(0);
        list["data"].as_array().unwrap()[1].clone()
    };
    assert_eq!(list(&mut world)["status"], "online");
    world.close(ann);
    let entry = json!({"actorTokenId": "ann", "presence": presence, "status": "offline"});
    assert_eq!(list(&mut world), entry);
    world.publish(ben, MESSAGES, json!(1));
    assert_eq!(list(&mut world)["status"], "waking");
    let _again = member(&mut world, "ann", "north", json!(2));
    assert_eq!(
        (list(&mut world)["status"].clone(), list(&mut world)["presence"].clone()),
        (json!("online"), json!(2))
    );
}

#[test]
fn a_restart_empties_all_rooms_without_a_word() {
    let mut world = world();
    let ann = member(&mut world, "ann", "north", json!({"persistent": true}));
    let ben = member(&mut world, "ben", "north", json!(2));
    world.take(ann);
    world.broker.restart(world.now);
    assert!(world.take(ann).is_empty() && world.take(ben).is_empty());
    let ben = world.connect("ben");
    assert_eq!(world.ask(ben, json!({"type": "getPresence", "roomId": "north"}))[0]["data"], json!([]));
}

#[test]
fn members_that_are_cut_for_piling_up_too_much_leave() {
    let mut world = world();
    let ben = member(&mut world, "ben", "north", json!(1));
    let held: Vec<_> = (0..3).map(|n| member(&mut world, "ann", "north", json!(n))).collect();
    held.iter().for_each(|conn| world.broker.hold(world.now, *conn));
    world.take(ben);
    for _ in 0..40 {
        set(&mut world, ben, "north", json!("x".repeat(500_000)));
    }
    assert!(held.iter().all(|conn| world.end(*conn).as_deref() == Some("cut")));
    let left = events(&mut world, ben).iter().filter(|event| *event == "leave ann").count();
    assert_eq!(left, 3);
}

#[test]
fn with_every_grant_a_slug_is_a_room() {
    let mut world = World::with(BrokerConfig::default());
    world.broker.set_auth(world.now, nolag_broker::AuthConfig::allow_all());
    let (ann, ben) = (world.connect("ann"), world.connect("ben"));
    set(&mut world, ann, "anywhere", json!(1));
    set(&mut world, ben, "anywhere", json!(2));
    assert_eq!(world.take(ann).len(), 4);
}

#[test]
fn newer_brokers_keep_the_presence_of_access_scopes_apart() {
    const SCOPED: &str = r#"{"tokens": {
        "t-ann": {"actorTokenId": "ann", "scopeSlug": "pier", "allowedTopics": [
            {"pattern": "port/pier/north/messages", "topic": "p/messages", "room_id": "r1", "room_slug": "north"}],
            "allowedLobbies": [{"lobby_slug": "ops", "lobby_id": "l-1"}]},
        "t-ben": {"actorTokenId": "ben", "scopeSlug": "dock", "allowedTopics": [
            {"pattern": "port/dock/north/messages", "topic": "d/messages", "room_id": "r1", "room_slug": "north"}]},
        "t-zoe": {"actorTokenId": "zoe", "scopeSlug": "pier", "allowedTopics": [
            {"pattern": "port/pier/north/messages", "topic": "p/messages", "room_id": "r1", "room_slug": "north"}]}}}"#;
    for (profile, separate) in
        [(Profile::Kraken04, false), (Profile::Kraken010, true), (Profile::Cloud, true)]
    {
        let mut world = World::with_auth(BrokerConfig { profile, ..BrokerConfig::default() }, SCOPED);
        let ann = member(&mut world, "ann", "north", json!(1));
        world.ask(ann, json!({"type": "lobbySubscribe", "lobbyId": "ops"}));
        let ben = member(&mut world, "ben", "north", json!(2));
        assert_eq!(world.take(ann).is_empty(), separate);
        let list = |world: &mut World, conn| {
            world.ask(conn, json!({"type": "getPresence", "roomId": "north"}))[0]["data"]
                .as_array()
                .unwrap()
                .len()
        };
        assert_eq!(list(&mut world, ben), if separate { 1 } else { 2 });
        world.take(ann);
        let _zoe = member(&mut world, "zoe", "north", json!(3));
        assert_eq!(world.take(ann).len(), 4, "the same scope, as member and through the lobby");
    }
}
