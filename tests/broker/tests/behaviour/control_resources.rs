//! The REST control plane: apps, rooms, actors, scopes and grants, and what is refused. Requests are made, and answers
//! read, by our own client.

use nolag_broker::{AuthConfig, BrokerConfig};
use nolag_core::rest::{
    ActorCreate, ActorUpdate, ApiError, AppCreate, AppUpdate, ListParams, Patch, ResourceStatus,
    RoomAccessCreate, RoomCreate, RoomType, RoomUpdate, ScopeCreate, ScopeUpdate, SortOrder, Webhook, actors,
    apps, rooms, scopes,
};
use serde_json::{Value, json};

use crate::world::World;

fn world() -> World {
    World::managed(BrokerConfig::default())
}

fn status<T>(result: Result<T, ApiError>) -> Option<u16> {
    result.err().and_then(|error| error.status())
}

#[test]
fn an_app_is_created_read_changed_and_deleted() {
    let mut world = world();
    let create = AppCreate::new("My Chat").description("talk").topics(["messages", "messages", "typing"]);
    let app = world.call(apps::create(&create.trigger_webhook(Webhook::new("https://x.example")))).unwrap();
    let suffix = app.slug.strip_prefix("my-chat-").unwrap();
    assert!(suffix.len() == 4 && suffix.bytes().all(|byte| byte.is_ascii_hexdigit()), "{}", app.slug);
    assert_eq!(app.topics.as_deref(), Some(["messages".into(), "typing".into()].as_slice()));
    assert_eq!((app.name.as_str(), app.status.clone()), ("My Chat", Some(ResourceStatus::Active)));
    assert_eq!(app.created_at.as_deref(), Some("1970-01-01T00:00:00.000Z"));
    assert_eq!(world.call(apps::get(&app.app_id)).unwrap(), app);

    let change = AppUpdate::new().name("Other").description(Patch::Null).trigger_webhook(Patch::Null);
    let changed = world.call(apps::update(&app.app_id, &change)).unwrap();
    assert_eq!((changed.name.as_str(), &changed.description, &changed.slug), ("Other", &None, &app.slug));
    assert_eq!((changed.trigger_webhook, changed.topics), (None, app.topics), "what is absent stays");

    world.call(apps::delete(&app.app_id)).unwrap();
    assert_eq!(status(world.call(apps::get(&app.app_id))), Some(404));
    assert_eq!(status(world.call(apps::delete(&app.app_id))), Some(404));
    assert!(world.call(apps::list(&ListParams::new())).unwrap().data.is_empty());
    assert!(world.broker.saved_control().contains(&app.app_id), "the delete is soft");
}

#[test]
fn a_reset_goes_back_to_what_the_blueprint_gave() {
    let mut world = world();
    let create = AppCreate::new("b").blueprint_id("chat").topics(["messages"]).config(json!({"a": 1}));
    let app = world.call(apps::create(&create)).unwrap();
    let change = AppUpdate::new().topics(["other"]).config(json!({}));
    world.call(apps::update(&app.app_id, &change)).unwrap();
    let reset = world.call(apps::reset_to_blueprint(&app.app_id)).unwrap();
    assert_eq!((reset.topics, reset.config), (app.topics, app.config));
    let plain = world.call(apps::create(&AppCreate::new("plain"))).unwrap();
    assert_eq!(status(world.call(apps::reset_to_blueprint(&plain.app_id))), Some(400));
}

#[test]
fn lists_of_apps_and_scopes_are_pages_and_all_others_are_plain() {
    let mut world = world();
    for n in 0..12 {
        world.call(apps::create(&AppCreate::new(format!("app {n:02}")))).unwrap();
        world.call(scopes::create(&ScopeCreate::new(format!("s{n:02}"), "scope"))).unwrap();
        world.call(actors::create(&ActorCreate::new(format!("actor {n:02}"), "user"))).unwrap();
    }
    let params = ListParams::new().limit(5).order_by("name", SortOrder::Desc);
    let first = world.call(apps::list(&params)).unwrap();
    assert_eq!((first.data[0].name.as_str(), first.pagination.page_count), ("app 11", 3));
    let next = params.after(&first).unwrap();
    assert_eq!(world.call(apps::list(&next)).unwrap().data[0].name, "app 06");
    assert_eq!(world.call(scopes::list(&ListParams::new())).unwrap().data.len(), 10);
    let official = "/scopes?page=1&limit=2&sortBy=slug&sortOrder=desc&search=scope";
    assert_eq!(world.api("GET", official, Value::Null).1["data"][0]["slug"], "s11");
    let (_, plain) = world.api("GET", "/actors", Value::Null);
    assert_eq!(plain.as_array().map(Vec::len), Some(12));
    let found = world.call(actors::list(&ListParams::new().name("ACTOR 03"))).unwrap();
    assert_eq!(found.data.len(), 1);
    assert_eq!(world.api("GET", "/apps?colour=red", Value::Null).0, 400);
}

#[test]
fn a_room_is_created_read_changed_and_deleted() {
    let mut world = world();
    let app = world.call(apps::create(&AppCreate::new("a"))).unwrap().app_id;
    let create = RoomCreate::new("Hot Topics!").metadata(json!({"k": 1})).config(json!({"c": 2}));
    let room = world.call(rooms::create(&app, &create)).unwrap();
    assert_eq!((room.slug.as_str(), room.app_id.as_str()), ("hot-topics", app.as_str()));
    assert_eq!((&room.room_type, room.is_enabled), (&Some(RoomType::Dynamic), Some(true)));
    assert_eq!(world.call(rooms::get(&app, &room.room_id)).unwrap(), room);
    assert_eq!(world.call(rooms::list(&app, &ListParams::new())).unwrap().data, std::slice::from_ref(&room));
    assert_eq!(status(world.call(rooms::create(&app, &create))), Some(409));

    let change = RoomUpdate::new().name("Cold").is_enabled(false);
    let changed = world.call(rooms::update(&app, &room.room_id, &change)).unwrap();
    assert_eq!((changed.status, changed.is_enabled), (Some(ResourceStatus::Disabled), Some(false)));
    assert_eq!((changed.slug, changed.metadata), (room.slug, room.metadata));
    let path = format!("/apps/{app}/rooms/{}", room.room_id);
    let (code, error) = world.api("PATCH", &path, json!({"slug": "new"}));
    assert_eq!((code, &error["message"]), (400, &json!("property \"slug\" should not exist")));
    let both = json!({"status": "active", "isEnabled": false});
    assert_eq!(world.api("PATCH", &path, both).0, 400);

    world.call(rooms::delete(&app, &room.room_id)).unwrap();
    assert_eq!(status(world.call(rooms::get(&app, &room.room_id))), Some(404));
    assert_eq!(status(world.call(rooms::delete(&app, &room.room_id))), Some(404));
}

#[test]
fn ensure_creates_a_room_once_and_only_where_the_app_permits_it() {
    let mut world = world();
    let app = world.call(apps::create(&AppCreate::new("a"))).unwrap().app_id;
    let create = RoomCreate::new("Lounge").description("first");
    assert_eq!(status(world.call(rooms::ensure(&app, &create))), Some(403));
    let permit = AppUpdate::new().config(json!({"autoProvisionRooms": true}));
    world.call(apps::update(&app, &permit)).unwrap();
    let first = world.call(rooms::ensure(&app, &create)).unwrap();
    let again = RoomCreate::new("Other").slug("lounge");
    assert_eq!(world.call(rooms::ensure(&app, &again)).unwrap(), first);
    assert_eq!(world.call(rooms::list(&app, &ListParams::new())).unwrap().data.len(), 1);
    for n in 1..1000 {
        world.call(rooms::ensure(&app, &RoomCreate::new(format!("r{n}")))).unwrap();
    }
    assert_eq!(status(world.call(rooms::ensure(&app, &RoomCreate::new("one more")))), Some(403));
    assert!(world.call(rooms::create(&app, &RoomCreate::new("one more"))).is_ok());
}

#[test]
fn an_actor_is_created_read_changed_and_deleted_and_its_token_shown_once() {
    let mut world = world();
    let scope = world.call(scopes::create(&ScopeCreate::new("acme", "Acme"))).unwrap().access_scope_id;
    let create = ActorCreate::new("web", "device").metadata(json!({"k": 1})).external_id("x-1");
    let created = world.call(actors::create(&create.access_scope_id(&scope))).unwrap();
    let (actor, token) = (created.actor, created.access_token.expose().to_owned());
    assert!(token.starts_with("at_live_"));
    let id = actor.actor_token_id.as_str();
    assert_eq!((actor.is_active, actor.access_scope_id.as_deref()), (Some(true), Some(scope.as_str())));
    assert_eq!(world.call(actors::get(id)).unwrap(), actor);
    for path in [format!("/actors/{id}"), "/actors".into(), format!("/scopes/{scope}/actors")] {
        let text = world.api("GET", &path, Value::Null).1.to_string();
        assert!(
            !text.contains("accessToken") && !text.contains(&token) && !text.contains("sha256"),
            "{text}"
        );
    }
    assert!(
        !format!("{:?}", world.broker).contains(&token) && !world.broker.saved_control().contains(&token)
    );

    let change = ActorUpdate::new().name("Web").external_id(Patch::Null).access_scope_id(Patch::Null);
    let changed = world.call(actors::update(id, &change)).unwrap();
    assert_eq!((changed.external_id, changed.access_scope_id), (None, None));
    assert_eq!((changed.name.as_str(), changed.metadata), ("Web", actor.metadata.clone()));
    assert_eq!(world.api("PATCH", &format!("/actors/{id}"), json!({"actorType": "user"})).0, 400);
    assert_eq!(
        status(world.call(actors::update(id, &ActorUpdate::new().access_scope_id("none")))),
        Some(404)
    );
    world.call(actors::delete(id)).unwrap();
    assert_eq!(status(world.call(actors::get(id))), Some(404));
    assert_eq!(status(world.call(actors::delete(id))), Some(404));
}

#[test]
fn a_scope_is_created_read_changed_and_deleted_once_it_has_no_actors() {
    let mut world = world();
    let create = ScopeCreate::new("acme--eu", "Acme").description("d");
    let scope = world.call(scopes::create(&create)).unwrap();
    let id = scope.access_scope_id.as_str();
    assert_eq!(status(world.call(scopes::create(&create))), Some(409));
    assert_eq!(world.call(scopes::get(id)).unwrap(), scope);
    let change = ScopeUpdate::new().is_active(false).description(Patch::Null);
    let changed = world.call(scopes::update(id, &change)).unwrap();
    assert_eq!(
        (changed.is_active, changed.description, changed.slug),
        (Some(false), None, scope.slug.clone())
    );

    let actor = world.call(actors::create(&ActorCreate::new("a", "user"))).unwrap().actor.actor_token_id;
    assert!(world.call(scopes::list_actors(id, &ListParams::new())).unwrap().data.is_empty());
    world.call(scopes::add_actor(id, &actor)).unwrap();
    assert_eq!(world.call(scopes::list_actors(id, &ListParams::new())).unwrap().data.len(), 1);
    assert_eq!(status(world.call(scopes::delete(id))), Some(409));
    world.call(scopes::remove_actor(&actor)).unwrap();
    world.call(scopes::delete(id)).unwrap();
    assert_eq!(status(world.call(scopes::get(id))), Some(404));
    assert_eq!(status(world.call(scopes::list_actors(id, &ListParams::new()))), Some(404));
}

#[test]
fn a_grant_is_made_listed_and_revoked() {
    let mut world = world();
    let app = world.call(apps::create(&AppCreate::new("a"))).unwrap().app_id;
    let room = world.call(rooms::create(&app, &RoomCreate::new("r"))).unwrap().room_id;
    let actor = world.call(actors::create(&ActorCreate::new("a", "user"))).unwrap().actor.actor_token_id;
    let access = RoomAccessCreate::to_actor(&actor, "subscribe").expires_at("2030-01-01T00:00:00Z").role("r");
    let grant = world.call(rooms::grant_access(&app, &room, &access)).unwrap();
    assert_eq!(grant.expires_at.as_deref(), Some("2030-01-01T00:00:00.000Z"));
    assert_eq!((grant.actor_token_id.as_deref(), grant.is_active), (Some(actor.as_str()), Some(true)));
    assert_eq!(
        status(world.call(rooms::grant_access(&app, &room, &access))),
        Some(409),
        "it is there already"
    );
    let of_type = RoomAccessCreate::to_type("agent", "pubSub").topics(["jobs"]);
    let expired = world.call(rooms::grant_access(&app, &room, &of_type.clone().expires_at("1970-01-01")));
    let renewed = world.call(rooms::grant_access(&app, &room, &of_type)).unwrap();
    assert_ne!(expired.unwrap().access_id, renewed.access_id, "an expired one is replaced");
    world.call(rooms::revoke_access(&app, &room, &renewed.access_id)).unwrap();
    world.call(rooms::grant_access(&app, &room, &of_type)).unwrap();
    assert_eq!(world.call(rooms::list_access(&app, &room, &ListParams::new())).unwrap().data.len(), 2);
    let unknown = RoomAccessCreate::to_actor("nobody", "publish");
    assert_eq!(status(world.call(rooms::grant_access(&app, &room, &unknown))), Some(404));

    world.call(rooms::revoke_access(&app, &room, &grant.access_id)).unwrap();
    assert_eq!(status(world.call(rooms::revoke_access(&app, &room, &grant.access_id))), Some(404));
    assert_eq!(world.call(rooms::list_access(&app, &room, &ListParams::new())).unwrap().data.len(), 1);
}

#[test]
fn what_is_wrong_with_a_body_is_said_and_nothing_is_created() {
    let mut world = world();
    let app = world.call(apps::create(&AppCreate::new("a"))).unwrap().app_id;
    let room = world.call(rooms::create(&app, &RoomCreate::new("r"))).unwrap().room_id;
    let actor = world.call(actors::create(&ActorCreate::new("a", "user"))).unwrap().actor.actor_token_id;
    let before = world.broker.saved_control();
    let long = |n| "x".repeat(n);
    let rooms = format!("/apps/{app}/rooms");
    let grants = format!("/apps/{app}/rooms/{room}/actors");
    let cases = [
        ("/apps", json!({}), "name is required"),
        ("/apps", json!([]), "the body is not a JSON object"),
        ("/apps", json!({"name": ""}), "name must not be empty"),
        ("/apps", json!({"name": 1}), "name must be a string"),
        ("/apps", json!({"name": long(256)}), "name must have at most 255 characters, not 256"),
        ("/apps", json!({"name": "日本"}), "slug cannot be made from this name; give one"),
        ("/apps", json!({"name": "a", "slug": "A b"}), "slug must be words of a-z 0-9"),
        ("/apps", json!({"name": "a", "slug": long(101)}), "slug must have at most 100 characters"),
        ("/apps", json!({"name": "a", "topics": "t"}), "topics must be a list of strings"),
        ("/apps", json!({"name": "a", "topics": ["a/b"]}), "topics must each be 1 to 100 of"),
        ("/apps", json!({"name": "a", "topics": [long(101)]}), "topics must each be 1 to 100 of"),
        ("/apps", json!({"name": "a", "accessMode": "closed"}), "accessMode must be one of open, restricted"),
        ("/apps", json!({"name": "a", "config": []}), "config must be an object"),
        (
            "/apps",
            json!({"name": "a", "triggerWebhook": {"url": "ftp://x"}}),
            "triggerWebhook must have a url",
        ),
        ("/apps", json!({"name": "a", "colour": 1}), "property \"colour\" should not exist"),
        (&rooms, json!({"name": "a", "enableWebRTC": "yes"}), "enableWebRTC must be true or false"),
        (&rooms, json!({"name": "a", "slug": "-a"}), "slug must be words of a-z 0-9"),
        ("/actors", json!({"name": "a"}), "actorType is required"),
        ("/actors", json!({"name": "a", "actorType": "cat"}), "actorType must be one of device, user"),
        (
            "/actors",
            json!({"name": "a", "actorType": "user", "expiresAt": "soon"}),
            "expiresAt must be a date",
        ),
        ("/scopes", json!({"name": "a"}), "slug is required"),
        ("/scopes", json!({"name": "a", "slug": "A"}), "slug must be a-z 0-9 and, in between, -"),
        (
            "/scopes",
            json!({"name": "a", "slug": "a", "description": long(501)}),
            "description must have at most 500 characters",
        ),
        (&grants, json!({"actorType": "user"}), "permission is required"),
        (&grants, json!({"permission": "all", "actorType": "user"}), "permission must be one of subscribe"),
        (&grants, json!({"permission": "publish"}), "exactly one of actorTokenId and actorType"),
        (
            &grants,
            json!({"permission": "publish", "actorType": "user", "actorTokenId": actor}),
            "exactly one of actorTokenId and actorType",
        ),
        (
            &grants,
            json!({"permission": "publish", "actorType": "user", "role": long(101)}),
            "role must have at most 100 characters",
        ),
    ];
    for (path, body, message) in cases {
        let (code, error) = world.api("POST", path, body);
        let text = error["message"].as_str().unwrap();
        assert!(code == 400 && text.contains(message), "{path}: {code} {text}, expected {message}");
        assert!(error["id"].is_string() && error["timestamp"] == "1970-01-01T00:00:00.000Z", "{error}");
    }
    for path in [format!("/apps/{app}"), format!("{rooms}/{room}"), format!("/actors/{actor}")] {
        for body in [json!({"name": null}), json!({"name": ""}), json!({"status": "on"})] {
            assert_eq!(world.api("PATCH", &path, body).0, 400);
        }
    }
    for body in ["", "{", "<html>", "\u{0}", "null"] {
        let answer = world.api_with(Some("Bearer nlg_live_dev.secret"), "POST", "/v1/apps", body.as_bytes());
        assert_eq!(answer.0, 400, "{body}");
    }
    assert_eq!(world.broker.saved_control(), before);
}

#[test]
fn what_is_nested_too_deep_to_be_saved_is_refused() {
    let mut world = world();
    let app = world.call(apps::create(&AppCreate::new("a"))).unwrap().app_id;
    let rooms = format!("/apps/{app}/rooms");
    let room = world.call(rooms::create(&app, &RoomCreate::new("r"))).unwrap().room_id;
    let actor = world.call(actors::create(&ActorCreate::new("a", "user"))).unwrap().actor.actor_token_id;
    let scope = world.call(scopes::create(&ScopeCreate::new("s", "s"))).unwrap().access_scope_id;
    let webhook = |value: Value| json!({"url": "https://x.example", "more": value});
    let same = |value: Value| value;
    type Wrap<'a> = &'a dyn Fn(Value) -> Value;
    let fields: [(&str, String, Value, &str, Wrap<'_>, usize); 15] = [
        ("POST", "/apps".into(), json!({"name": "b", "blueprintId": "b"}), "config", &same, 0),
        ("POST", "/apps".into(), json!({"name": "b"}), "topicConfigs", &same, 0),
        ("POST", "/apps".into(), json!({"name": "b"}), "triggerWebhook", &webhook, 1),
        ("PATCH", format!("/apps/{app}"), json!({}), "config", &same, 0),
        ("PATCH", format!("/apps/{app}"), json!({}), "topicConfigs", &same, 0),
        ("PATCH", format!("/apps/{app}"), json!({}), "files", &same, 0),
        ("PATCH", format!("/apps/{app}"), json!({}), "hydrationWebhook", &webhook, 1),
        ("POST", rooms.clone(), json!({"name": "b"}), "metadata", &same, 0),
        ("PATCH", format!("{rooms}/{room}"), json!({}), "metadata", &same, 0),
        ("PATCH", format!("{rooms}/{room}"), json!({}), "config", &same, 0),
        (
            "POST",
            format!("{rooms}/{room}/actors"),
            json!({"permission": "publish", "actorType": "user"}),
            "metadata",
            &same,
            0,
        ),
        ("POST", "/actors".into(), json!({"name": "b", "actorType": "user"}), "metadata", &same, 0),
        ("PATCH", format!("/actors/{actor}"), json!({}), "metadata", &same, 0),
        ("POST", "/scopes".into(), json!({"name": "b", "slug": "b"}), "metadata", &same, 0),
        ("PATCH", format!("/scopes/{scope}"), json!({}), "metadata", &same, 0),
    ];
    for (method, path, body, field, wrap, levels) in fields {
        let with = |depth: usize| {
            let nested = (1..depth - levels)
                .fold(json!({}), |inner, n| if n % 2 == 0 { json!([inner]) } else { json!({"in": inner}) });
            let mut body = body.clone();
            body[field] = wrap(nested);
            body
        };
        let before = world.broker.saved_control();
        for depth in [66, 120, 126] {
            let (code, error) = world.api(method, &path, with(depth));
            let text = error["message"].as_str().unwrap();
            assert!(
                code == 400 && text.contains(field) && text.contains("64"),
                "{path} {field}: {code} {text}"
            );
        }
        assert_eq!(world.broker.saved_control(), before);
        let (code, answer) = world.api(method, &path, with(64));
        assert!(matches!(code, 200 | 201), "{path} {field}: {code} {answer}");
        let saved = world.broker.saved_control();
        world.broker.load_control(world.now, &saved).unwrap();
    }
}

#[test]
fn longest_names_and_slugs_are_taken() {
    let mut world = world();
    let (name, slug) = ("é".repeat(255), "s".repeat(100));
    let app = world.call(apps::create(&AppCreate::new(name.as_str()).slug(slug.as_str()))).unwrap();
    assert_eq!((app.slug.len(), app.name), (100, name));
    assert!(world.call(rooms::create(&app.app_id, &RoomCreate::new("r").slug(slug))).is_ok());
}

#[test]
fn without_the_right_key_nothing_is_said_or_done() {
    let mut world = world();
    let body = br#"{"name": "a"}"#;
    for key in [
        None,
        Some(""),
        Some("Bearer"),
        Some("Bearer "),
        Some("Bearer wrong"),
        Some("Basic x"),
        Some("nlg_live_dev.secret"),
        Some("Bearer nlg_live_dev.secret2"),
    ] {
        let (code, error) = world.api_with(key, "POST", "/v1/apps", body);
        assert_eq!(code, 401, "{key:?}");
        assert!(error["message"].as_str().unwrap().contains("API key"), "{error}");
    }
    assert_eq!(world.api("GET", "/apps", Value::Null).1["pagination"]["total"], 0);
    let mut other = World::managed(BrokerConfig { api_key: "k.s".into(), ..BrokerConfig::default() });
    assert_eq!(other.api("GET", "/apps", Value::Null).0, 401);
    assert_eq!(other.api_with(Some("BEARER k.s"), "GET", "/v1/apps", b"").0, 200);
    assert!(
        !format!("{:?}", BrokerConfig { api_key: "hush".into(), ..BrokerConfig::default() }).contains("hush")
    );
}

#[test]
fn unknown_paths_ids_and_methods_are_refused_in_the_same_shape() {
    let mut world = world();
    let app = world.call(apps::create(&AppCreate::new("a"))).unwrap().app_id;
    let missing = [
        "/",
        "/nothing",
        "/apps/",
        "/apps/none",
        "/apps/none/rooms",
        "/actors/none",
        "/scopes/%00",
        "/apps/a%2Frooms",
        "/apps/%ff",
        "/scopes/none/actors",
    ];
    let rooms = format!("/apps/{app}/rooms/none");
    for path in missing.into_iter().chain([rooms.as_str(), &format!("{rooms}/actors")]) {
        let (code, error) = world.api("GET", path, Value::Null);
        assert!(
            code == 404 && error["message"].is_string() && error["id"].is_string(),
            "{path}: {code} {error}"
        );
    }
    for (method, path) in [
        ("PUT", "/apps"),
        ("DELETE", "/apps"),
        ("POST", "/apps/x"),
        ("HEAD", "/actors"),
        ("GET", "/apps/x/reset-to-blueprint"),
        ("GET", "/apps/x/rooms/ensure"),
        ("get", "/apps"),
    ] {
        let (code, error) = world.api(method, path, Value::Null);
        assert!(code == 405 && error["message"].is_string(), "{method} {path}: {code} {error}");
    }
    let large = vec![b' '; (2 << 20) + 1];
    let answer = world.api_with(Some("Bearer nlg_live_dev.secret"), "POST", "/v1/apps", &large);
    assert_eq!(answer.0, 413);
}

#[test]
fn ids_and_suffixes_come_from_the_seed() {
    let create = |seed| {
        let mut world = World::managed(BrokerConfig { seed, ..BrokerConfig::default() });
        let app = world.call(apps::create(&AppCreate::new("a"))).unwrap();
        let actor = world.call(actors::create(&ActorCreate::new("a", "user"))).unwrap();
        (app.app_id, app.slug, actor.access_token.expose().to_owned())
    };
    assert_eq!(create(1), create(1));
    assert_ne!(create(1), create(2));
}

#[test]
fn the_seed_world_is_there_and_its_room_is_static() {
    let mut world =
        World::managed(BrokerConfig { auth: AuthConfig::seed_world(), ..BrokerConfig::default() });
    let apps = world.call(apps::list(&ListParams::new())).unwrap().data;
    assert_eq!((apps.len(), apps[0].slug.as_str()), (1, "demo"));
    let app = apps[0].app_id.as_str();
    let rooms = world.call(rooms::list(app, &ListParams::new())).unwrap().data;
    assert_eq!((rooms[0].slug.as_str(), &rooms[0].room_type), ("general", &Some(RoomType::Static)));
    assert_eq!(status(world.call(rooms::delete(app, &rooms[0].room_id))), Some(403));
    world.call(rooms::create(app, &RoomCreate::new("side"))).unwrap();
}
