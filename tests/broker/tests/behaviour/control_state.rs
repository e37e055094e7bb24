//! What the control plane knows outlives the broker.

use std::time::Duration;

use nolag_broker::{AuthConfig, BrokerConfig};
use nolag_core::rest::{
    ActorCreate, AppCreate, ListParams, RoomAccessCreate, RoomCreate, ScopeCreate, actors, apps, rooms,
    scopes,
};
use serde_json::{Value, json};

use crate::world::World;

fn load(json: &str) -> Result<World, String> {
    let mut world = World::managed(BrokerConfig::default());
    world.broker.load_control(world.now, json).map_err(|error| error.to_string())?;
    Ok(world)
}

/// A world with one of each, and the actor's token.
fn full() -> (World, String) {
    let mut world = World::managed(BrokerConfig::default());
    let create =
        AppCreate::new("chat").topics(["messages"]).config(json!({"a": [1, null]})).blueprint_id("b");
    let app = world.call(apps::create(&create)).unwrap().app_id;
    let room =
        world.call(rooms::create(&app, &RoomCreate::new("general").enable_webrtc(true))).unwrap().room_id;
    let scope = world.call(scopes::create(&ScopeCreate::new("acme", "Acme"))).unwrap().access_scope_id;
    let create = ActorCreate::new("a", "user").access_scope_id(scope);
    let created = world.call(actors::create(&create.expires_at("2030-01-01"))).unwrap();
    let access = RoomAccessCreate::to_actor(created.actor.actor_token_id, "publish").topics(["messages"]);
    world.call(rooms::grant_access(&app, &room, &access)).unwrap();
    (world, created.access_token.expose().into())
}

#[test]
fn everything_comes_back_and_tokens_still_work() {
    let (mut world, token) = full();
    let saved = world.broker.saved_control();
    assert!(!saved.contains(&token) && !saved.contains("nlg_live"), "{saved}");
    let mut loaded = load(&saved).unwrap();
    assert_eq!(loaded.broker.saved_control(), saved);
    for path in ["/apps", "/actors", "/scopes"] {
        assert_eq!(loaded.api("GET", path, Value::Null), world.api("GET", path, Value::Null));
    }
    let slug = loaded.call(apps::list(&ListParams::new())).unwrap().data[0].slug.clone();
    let conn = loaded.connect_with(&token);
    let publish =
        json!({"type": "publish", "topic": format!("{slug}/general/messages"), "data": 1, "msgRef": "r"});
    assert_eq!(loaded.ask(conn, publish)[0]["type"], "published");
    // The same seed makes no id and no token a second time.
    let again = loaded.call(actors::create(&ActorCreate::new("a", "user"))).unwrap();
    assert!(!saved.contains(&again.actor.actor_token_id) && again.access_token.expose() != token);
}

#[test]
fn it_outlives_a_restart_of_the_broker() {
    let (mut world, token) = full();
    let conn = world.connect_with(&token);
    world.broker.restart(world.now);
    assert_eq!(world.end(conn).as_deref(), Some("cut"));
    world.connect_with(&token);
}

#[test]
fn what_is_not_a_saved_state_is_refused_and_changes_nothing() {
    let (mut world, _) = full();
    let saved = world.broker.saved_control();
    let good: Value = serde_json::from_str(&saved).unwrap();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut state = good.clone();
        change(&mut state);
        state.to_string()
    };
    let cases = [
        (String::new(), "not valid JSON"),
        ("{".into(), "not valid JSON"),
        (saved.clone() + "x", "not valid JSON"),
        ("[]".into(), "not what belongs there"),
        (with(&|state| state["version"] = 0.into()), "version 0 is not known"),
        (with(&|state| state["version"] = 2.into()), "version 2 was written by a newer program"),
        (r#"{"version": 3, "things": {"new": "hush"}}"#.into(), "version 3 was written by a newer program"),
        (with(&|state| state["revision"] = u64::MAX.into()), "revision 18446744073709551615 is too large"),
        (with(&|state| state["apps"][0]["settings"]["topics"] = "hush".into()), "apps[0].settings.topics"),
        (with(&|state| state["actors"][0]["createdAt"] = "hush".into()), "actors[0].createdAt"),
        (with(&|state| state["other"] = "hush".into()), "not what belongs there"),
        (
            with(&|state| state["scopes"] = json!([state["scopes"][0], state["scopes"][0]])),
            "stands there twice",
        ),
    ];
    for (text, expected) in cases {
        let error = load(&text).err().unwrap();
        assert!(error.contains(expected) && !error.contains("hush"), "{error}");
        assert!(world.broker.load_control(world.now, &text).is_err());
        assert_eq!(world.broker.saved_control(), saved);
    }
}

#[test]
fn the_largest_revision_still_counts_on() {
    let (world, _) = full();
    let mut state: Value = serde_json::from_str(&world.broker.saved_control()).unwrap();
    state["revision"] = (1_u64 << 53).into();
    let mut world = load(&state.to_string()).unwrap();
    world.call(apps::create(&AppCreate::new("one more"))).unwrap();
}

#[test]
fn what_was_deleted_takes_little_room_and_not_for_ever() {
    let (mut world, _) = full();
    // An app and an actor that are created and deleted: the app's id and the actor's token.
    let come_and_go = |world: &mut World, size: usize| {
        let text = "x".repeat(size);
        let create = AppCreate::new("a").config(json!({"text": text})).blueprint_id("b");
        let app = world.call(apps::create(&create)).unwrap().app_id;
        world.call(rooms::create(&app, &RoomCreate::new("r").description(text.clone()))).unwrap();
        world.call(apps::delete(&app)).unwrap();
        let create = ActorCreate::new("a", "user").metadata(json!({"text": text}));
        let created = world.call(actors::create(&create)).unwrap();
        world.call(actors::delete(&created.actor.actor_token_id)).unwrap();
        world.pass(Duration::from_millis(1));
        (app, created.access_token.expose().to_owned())
    };
    let is_refused = |world: &mut World, token: &str| {
        let conn = world.open();
        let auth = json!({"type": "auth", "token": token, "protocolVersion": 2});
        world.ask(conn, auth)[0]["success"] == false
    };
    let before = world.broker.saved_control().len();
    let (first_app, first_token) = come_and_go(&mut world, 100_000);
    let one = world.broker.saved_control().len() - before;
    assert!(one < 4000, "{one}");
    let (second_app, second_token) = come_and_go(&mut world, 1);
    (0..999).for_each(|_| drop(come_and_go(&mut world, 1)));
    let saved = world.broker.saved_control();
    assert!(saved.len() < before + 1001 * one);
    assert!(!saved.contains(&first_app) && saved.contains(&second_app), "the longest deleted goes first");
    assert!(!is_refused(&mut world, &first_token), "it is any token, and every token is welcome here");
    assert!(is_refused(&mut world, &second_token));
}

#[test]
fn the_seed_world_is_added_once_and_stays_deleted() {
    let seeded = || BrokerConfig { auth: AuthConfig::seed_world(), ..BrokerConfig::default() };
    let mut world = World::managed(seeded());
    let app = world.call(apps::list(&ListParams::new())).unwrap().data[0].app_id.clone();
    world.call(apps::delete(&app)).unwrap();
    let mut later = World::managed(seeded());
    for n in 0..1001 {
        let app = world.call(apps::create(&AppCreate::new(format!("a{n}")))).unwrap().app_id;
        world.call(apps::delete(&app)).unwrap();
    }
    later.broker.load_control(later.now, &world.broker.saved_control()).unwrap();
    assert!(later.call(apps::list(&ListParams::new())).unwrap().data.is_empty());
    later.broker.load_control(later.now, &full().0.broker.saved_control()).unwrap();
    assert_eq!(later.call(apps::list(&ListParams::new())).unwrap().data.len(), 2);
}
