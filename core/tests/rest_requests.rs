//! What each operation sends, and what is refused before it is sent.

use nolag_core::{
    rest::{
        AccessMode, AccessPermission, ActorCreate, ActorType, ActorUpdate, ApiError, AppCreate, AppUpdate,
        BatchMessage, CLOUD_URL, Call, ListParams, Method, Patch, Request, ResourceStatus, RoomAccessCreate,
        RoomCreate, RoomUpdate, ScopeCreate, ScopeUpdate, Service, SortOrder, Value, Webhook, actors, apps,
        json, publish, rooms, scopes,
    },
    wire::QoS,
};

fn sent<T>(call: Result<Call<T>, ApiError>) -> Request {
    call.expect("a call that can work").request().clone()
}

fn body(request: &Request) -> Option<Value> {
    request.body.as_deref().map(|text| text.parse().expect("bodies are JSON"))
}

fn every() -> ListParams {
    ListParams::new()
}

/// What is wrong with a call, as `field: reason`.
fn fault<T>(call: Result<Call<T>, ApiError>) -> String {
    match call.map(|call| call.request().clone()) {
        Err(error @ ApiError::Misuse { .. }) => error.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn every_operation_has_its_method_target_and_body() {
    let none = None::<Value>;
    let table = [
        (sent(apps::list(&every())), "GET /apps", none.clone()),
        (sent(apps::get("a1")), "GET /apps/a1", none.clone()),
        (sent(apps::create(&AppCreate::new("Chat"))), "POST /apps", Some(json!({"name": "Chat"}))),
        (sent(apps::update("a1", &AppUpdate::new().name("C"))), "PATCH /apps/a1", Some(json!({"name": "C"}))),
        (sent(apps::delete("a1")), "DELETE /apps/a1", none.clone()),
        (sent(apps::reset_to_blueprint("a1")), "POST /apps/a1/reset-to-blueprint", none.clone()),
        (sent(rooms::list("a1", &every())), "GET /apps/a1/rooms", none.clone()),
        (sent(rooms::get("a1", "r1")), "GET /apps/a1/rooms/r1", none.clone()),
        (
            sent(rooms::create("a1", &RoomCreate::new("General").slug("general"))),
            "POST /apps/a1/rooms",
            Some(json!({"name": "General", "slug": "general"})),
        ),
        (
            sent(rooms::ensure("a1", &RoomCreate::new("General"))),
            "POST /apps/a1/rooms/ensure",
            Some(json!({"name": "General"})),
        ),
        (
            sent(rooms::update("a1", "r1", &RoomUpdate::new().is_enabled(false))),
            "PATCH /apps/a1/rooms/r1",
            Some(json!({"isEnabled": false})),
        ),
        (sent(rooms::delete("a1", "r1")), "DELETE /apps/a1/rooms/r1", none.clone()),
        (
            sent(rooms::grant_access("a1", "r1", &RoomAccessCreate::to_actor("t1", "pubSub"))),
            "POST /apps/a1/rooms/r1/actors",
            Some(json!({"actorTokenId": "t1", "permission": "pubSub"})),
        ),
        (sent(rooms::list_access("a1", "r1", &every())), "GET /apps/a1/rooms/r1/actors", none.clone()),
        (sent(rooms::revoke_access("a1", "r1", "g1")), "DELETE /apps/a1/rooms/r1/actors/g1", none.clone()),
        (sent(actors::list(&every())), "GET /actors", none.clone()),
        (sent(actors::get("t1")), "GET /actors/t1", none.clone()),
        (
            sent(actors::create(&ActorCreate::new("web-client", "device"))),
            "POST /actors",
            Some(json!({"name": "web-client", "actorType": "device"})),
        ),
        (
            sent(actors::update("t1", &ActorUpdate::new().is_active(false))),
            "PATCH /actors/t1",
            Some(json!({"isActive": false})),
        ),
        (sent(actors::delete("t1")), "DELETE /actors/t1", none.clone()),
        (sent(scopes::list(&every())), "GET /scopes", none.clone()),
        (sent(scopes::get("s1")), "GET /scopes/s1", none.clone()),
        (
            sent(scopes::create(&ScopeCreate::new("acme", "Acme"))),
            "POST /scopes",
            Some(json!({"slug": "acme", "name": "Acme"})),
        ),
        (
            sent(scopes::update("s1", &ScopeUpdate::new().is_active(true))),
            "PATCH /scopes/s1",
            Some(json!({"isActive": true})),
        ),
        (sent(scopes::delete("s1")), "DELETE /scopes/s1", none.clone()),
        (sent(scopes::list_actors("s1", &every())), "GET /scopes/s1/actors", none),
        (sent(scopes::add_actor("s1", "t1")), "PATCH /actors/t1", Some(json!({"accessScopeId": "s1"}))),
        (sent(scopes::remove_actor("t1")), "PATCH /actors/t1", Some(json!({"accessScopeId": null}))),
        (
            sent(publish::batch(&[BatchMessage::new("a1", "r1", "messages", "hi")])),
            "POST /v1/publish",
            Some(json!({"messages": [{"appId": "a1", "roomId": "r1", "topic": "messages", "data": "hi"}]})),
        ),
    ];
    for (request, line, expected) in table {
        assert_eq!(format!("{} {}", request.method, request.target()), line);
        assert_eq!(body(&request), expected, "{line}");
        let service = if line.ends_with("publish") { Service::Broker } else { Service::ControlPlane };
        assert_eq!(request.service, service, "{line}");
    }
}

#[test]
fn a_new_app_sends_all_that_was_set() {
    let app = AppCreate::new("Chat")
        .slug("chat")
        .description("A chat")
        .blueprint_id("b1")
        .blueprint_version("2")
        .access_mode(AccessMode::Restricted)
        .config(json!({"autoProvisionRooms": true}))
        .topics(["messages", "typing"])
        .topic_configs(json!({"messages": {"logging": true}}))
        .hydration_webhook(Webhook::new("https://example.org/state").header("X-Key", "k"))
        .trigger_webhook(Webhook::new("https://example.org/told"));
    let expected = json!({
        "name": "Chat", "slug": "chat", "description": "A chat", "blueprintId": "b1", "blueprintVersion": "2",
        "accessMode": "restricted", "config": {"autoProvisionRooms": true}, "topics": ["messages", "typing"],
        "topicConfigs": {"messages": {"logging": true}},
        "hydrationWebhook": {"url": "https://example.org/state", "headers": {"X-Key": "k"}},
        "triggerWebhook": {"url": "https://example.org/told"},
    });
    assert_eq!(body(&sent(apps::create(&app))), Some(expected));
}

#[test]
fn an_update_of_an_app_sends_all_that_was_set() {
    let app = AppUpdate::new()
        .name("Chat")
        .description("A chat")
        .status(ResourceStatus::Disabled)
        .access_mode("open")
        .config(json!({}))
        .files(json!(["index.html"]))
        .topics(Vec::<String>::new())
        .topic_configs(Value::Null)
        .pinned_blueprint_version("3")
        .hydration_webhook(Webhook::new("https://example.org/state"))
        .trigger_webhook(Patch::Null);
    let expected = json!({
        "name": "Chat", "description": "A chat", "status": "disabled", "accessMode": "open", "config": {},
        "files": ["index.html"], "topics": [], "topicConfigs": null, "pinnedBlueprintVersion": "3",
        "hydrationWebhook": {"url": "https://example.org/state"}, "triggerWebhook": null,
    });
    assert_eq!(body(&sent(apps::update("a1", &app))), Some(expected));
}

#[test]
fn rooms_send_all_that_was_set() {
    let create = RoomCreate::new("General")
        .slug("general")
        .description("Everything")
        .topics(["messages"])
        .metadata(json!({"maxMembers": 100}))
        .config(json!({"a": 1}))
        .enable_webrtc(true);
    let expected = json!({
        "name": "General", "slug": "general", "description": "Everything", "topics": ["messages"],
        "metadata": {"maxMembers": 100}, "config": {"a": 1}, "enableWebRTC": true,
    });
    assert_eq!(body(&sent(rooms::create("a1", &create))), Some(expected.clone()));
    assert_eq!(body(&sent(rooms::ensure("a1", &create))), Some(expected));

    let update = RoomUpdate::new()
        .name("General")
        .description(Patch::Null)
        .status("active")
        .is_enabled(true)
        .topics(["messages"])
        .metadata(json!({}))
        .config(json!({}));
    let expected = json!({
        "name": "General", "description": null, "status": "active", "isEnabled": true, "topics": ["messages"],
        "metadata": {}, "config": {},
    });
    assert_eq!(body(&sent(rooms::update("a1", "r1", &update))), Some(expected));
}

#[test]
fn a_grant_is_to_one_actor_or_to_a_type() {
    let access = RoomAccessCreate::to_type(ActorType::Agent, AccessPermission::Subscribe)
        .topics(["tasks"])
        .is_active(false)
        .expires_at("2030-01-01T00:00:00Z")
        .role("worker")
        .metadata(json!({"a": 1}));
    let expected = json!({
        "permission": "subscribe", "actorType": "agent", "topics": ["tasks"], "isActive": false,
        "expiresAt": "2030-01-01T00:00:00Z", "role": "worker", "metadata": {"a": 1},
    });
    assert_eq!(body(&sent(rooms::grant_access("a1", "r1", &access))), Some(expected));
}

#[test]
fn actors_and_scopes_send_all_that_was_set() {
    let create = ActorCreate::new("crane", ActorType::Other("robot".into()))
        .description("Lifts")
        .external_id("7")
        .metadata(json!({"site": "north"}))
        .access_scope_id("s1")
        .expires_at("2030-01-01T00:00:00Z");
    let expected = json!({
        "name": "crane", "actorType": "robot", "description": "Lifts", "externalId": "7",
        "metadata": {"site": "north"}, "accessScopeId": "s1", "expiresAt": "2030-01-01T00:00:00Z",
    });
    assert_eq!(body(&sent(actors::create(&create))), Some(expected));

    let create = ScopeCreate::new("acme--north", "Acme").description("North").metadata(json!({"tenant": 1}));
    let expected =
        json!({"slug": "acme--north", "name": "Acme", "description": "North", "metadata": {"tenant": 1}});
    assert_eq!(body(&sent(scopes::create(&create))), Some(expected));

    let update = ScopeUpdate::new().name("A").description("B").metadata(Value::Null).is_active(false);
    let expected = json!({"name": "A", "description": "B", "metadata": null, "isActive": false});
    assert_eq!(body(&sent(scopes::update("s1", &update))), Some(expected));
}

#[test]
fn absent_keeps_null_empties_and_a_value_sets() {
    let sent = |update| body(&sent(actors::update("t1", &update)));
    assert_eq!(sent(ActorUpdate::new()), Some(json!({})));
    let emptied = ActorUpdate::new()
        .description(Patch::Null)
        .external_id(Patch::Null)
        .expires_at(Patch::Null)
        .access_scope_id(Patch::Null)
        .metadata(Value::Null);
    let nulls = json!({"description": null, "externalId": null, "expiresAt": null, "accessScopeId": null, "metadata": null});
    assert_eq!(sent(emptied.clone()), Some(nulls));
    let kept = emptied.description(Patch::Keep).external_id("7").expires_at("2030").access_scope_id("s1");
    let some = json!({"externalId": "7", "expiresAt": "2030", "accessScopeId": "s1", "metadata": {"a": 1}});
    assert_eq!(sent(kept.metadata(json!({"a": 1}))), Some(some));
    let renamed = ActorUpdate::new().name("n").status(ResourceStatus::Active);
    assert_eq!(sent(renamed), Some(json!({"name": "n", "status": "active"})));
}

#[test]
fn a_batch_sends_all_that_was_set_and_always_data() {
    let messages = [
        BatchMessage::new("a1", "r1", "messages", Value::Null),
        BatchMessage::new("a1", "r1", "messages", json!({"text": "hi"}))
            .scope_id("s1")
            .filter("vip")
            .qos(QoS::ExactlyOnce)
            .retain(true),
        BatchMessage::new("a1", "r2", "webrtc:offer", 7).filters(["b", "a"]).qos(0),
    ];
    let expected = json!({"messages": [
        {"appId": "a1", "roomId": "r1", "topic": "messages", "data": null},
        {"appId": "a1", "roomId": "r1", "topic": "messages", "data": {"text": "hi"}, "scopeId": "s1",
         "filter": "vip", "qos": 2, "retain": true},
        {"appId": "a1", "roomId": "r2", "topic": "webrtc:offer", "data": 7, "filters": ["b", "a"], "qos": 0},
    ]});
    assert_eq!(body(&sent(publish::batch(&messages))), Some(expected));
}

#[test]
fn lists_take_the_documented_parameters_and_those_of_the_official_client() {
    let params = ListParams::new()
        .page(2)
        .limit(20)
        .order_by("name", SortOrder::Asc)
        .order_by("createdAt", SortOrder::Desc)
        .name("chat")
        .blueprint_id("b1")
        .status(ResourceStatus::Active);
    let query =
        "page=2&limit=20&orderBy=name%3AASC&orderBy=createdAt%3ADESC&name=chat&blueprintId=b1&status=active";
    assert_eq!(sent(apps::list(&params)).target(), format!("/apps?{query}"));

    let official = ListParams::new().sort_by("name", SortOrder::Desc).search("a b&c").set("isActive", "true");
    let target = "/scopes?sortBy=name&sortOrder=desc&search=a%20b%26c&isActive=true";
    assert_eq!(sent(scopes::list(&official)).target(), target);

    let twice = ListParams::new().page(1).limit(5).page(3);
    for target in [
        sent(rooms::list("a1", &twice)).target(),
        sent(rooms::list_access("a1", "r1", &twice)).target(),
        sent(actors::list(&twice)).target(),
        sent(scopes::list_actors("s1", &twice)).target(),
    ] {
        assert!(target.ends_with("?limit=5&page=3"), "{target}");
    }
}

#[test]
fn ids_are_one_segment_whatever_they_hold() {
    let hostile = "a/b?c#d e%2F..ü\0";
    let quoted = "a%2Fb%3Fc%23d%20e%252F..%C3%BC%00";
    assert_eq!(sent(apps::get(hostile)).path, format!("/apps/{quoted}"));
    assert_eq!(sent(rooms::get("a1", hostile)).path, format!("/apps/a1/rooms/{quoted}"));
    assert_eq!(
        sent(rooms::revoke_access(hostile, "r1", hostile)).path,
        format!("/apps/{quoted}/rooms/r1/actors/{quoted}")
    );
    let plain = "0190-A_z.9~";
    assert_eq!(sent(actors::get(plain)).path, format!("/actors/{plain}"));
}

#[test]
fn an_address_is_the_base_url_and_the_target() {
    let request = sent(apps::list(&ListParams::new().page(2)));
    assert_eq!(request.url(CLOUD_URL), "https://api.nolag.app/v1/apps?page=2");
    assert_eq!(request.url("http://127.0.0.1:8080/v1//"), "http://127.0.0.1:8080/v1/apps?page=2");
}

#[test]
fn what_creates_or_publishes_is_not_repeatable_and_all_else_is() {
    let room = RoomCreate::new("n");
    let once = [
        sent(apps::create(&AppCreate::new("n"))),
        sent(rooms::create("a1", &room)),
        sent(rooms::grant_access("a1", "r1", &RoomAccessCreate::to_type("agent", "publish"))),
        sent(actors::create(&ActorCreate::new("n", "user"))),
        sent(scopes::create(&ScopeCreate::new("s", "n"))),
        sent(publish::batch(&[BatchMessage::new("a1", "r1", "t", 1)])),
    ];
    assert!(
        once.iter().all(|request| request.method == Method::Post && !request.is_idempotent()),
        "{once:?}"
    );
    let often = [
        sent(apps::list(&every())),
        sent(apps::update("a1", &AppUpdate::new())),
        sent(apps::delete("a1")),
        sent(apps::reset_to_blueprint("a1")),
        sent(rooms::ensure("a1", &room)),
        sent(scopes::add_actor("s1", "t1")),
    ];
    assert!(often.iter().all(Request::is_idempotent), "{often:?}");
}

#[test]
fn ids_that_would_name_something_else_are_refused() {
    for (id, reason) in
        [("", "is empty"), (".", "is a step in a path, not an id"), ("..", "is a step in a path, not an id")]
    {
        assert_eq!(fault(apps::get(id)), format!("app id: {reason}"));
        assert_eq!(fault(apps::update(id, &AppUpdate::new())), format!("app id: {reason}"));
        assert_eq!(fault(apps::delete(id)), format!("app id: {reason}"));
        assert_eq!(fault(apps::reset_to_blueprint(id)), format!("app id: {reason}"));
        assert_eq!(fault(rooms::list(id, &every())), format!("app id: {reason}"));
        assert_eq!(fault(rooms::delete("a1", id)), format!("room id: {reason}"));
        assert_eq!(fault(rooms::revoke_access("a1", "r1", id)), format!("access id: {reason}"));
        let access = RoomAccessCreate::to_actor(id, AccessPermission::Publish);
        assert_eq!(fault(rooms::grant_access("a1", "r1", &access)), format!("actor id: {reason}"));
        assert_eq!(fault(actors::get(id)), format!("actor id: {reason}"));
        let scoped = ActorCreate::new("n", "user").access_scope_id(id);
        assert_eq!(fault(actors::create(&scoped)), format!("scope id: {reason}"));
        assert_eq!(fault(scopes::get(id)), format!("scope id: {reason}"));
        assert_eq!(fault(scopes::list_actors(id, &every())), format!("scope id: {reason}"));
        assert_eq!(fault(scopes::add_actor(id, "t1")), format!("scope id: {reason}"));
        assert_eq!(fault(scopes::add_actor("s1", id)), format!("actor id: {reason}"));
        assert_eq!(fault(scopes::remove_actor(id)), format!("actor id: {reason}"));
        assert_eq!(
            fault(publish::batch(&[BatchMessage::new(id, "r1", "t", 1)])),
            format!("app id: {reason}")
        );
        assert_eq!(
            fault(publish::batch(&[BatchMessage::new("a1", id, "t", 1)])),
            format!("room id: {reason}")
        );
        let scoped = BatchMessage::new("a1", "r1", "t", 1).scope_id(id);
        assert_eq!(fault(publish::batch(&[scoped])), format!("scope id: {reason}"));
    }
}

#[test]
fn names_have_1_to_255_characters() {
    let (fits, long) = ("ü".repeat(255), "ü".repeat(256));
    let faults = |name: &str| {
        [
            fault(apps::create(&AppCreate::new(name))),
            fault(apps::update("a1", &AppUpdate::new().name(name))),
            fault(rooms::create("a1", &RoomCreate::new(name))),
            fault(rooms::ensure("a1", &RoomCreate::new(name))),
            fault(rooms::update("a1", "r1", &RoomUpdate::new().name(name))),
            fault(actors::create(&ActorCreate::new(name, "user"))),
            fault(actors::update("t1", &ActorUpdate::new().name(name))),
            fault(scopes::create(&ScopeCreate::new("s", name))),
            fault(scopes::update("s1", &ScopeUpdate::new().name(name))),
        ]
    };
    assert!(apps::create(&AppCreate::new(fits)).is_ok());
    assert!(faults(&long).iter().all(|fault| fault == "name: has 256 characters, at most 255"));
    assert!(faults("").iter().all(|fault| fault == "name: is empty"));
}

#[test]
fn other_texts_have_their_lengths_too() {
    let (role, description) = ("r".repeat(101), "d".repeat(501));
    let access = RoomAccessCreate::to_type("agent", "publish").role(role);
    assert_eq!(fault(rooms::grant_access("a1", "r1", &access)), "role: has 101 characters, at most 100");
    let create = ScopeCreate::new("s", "n").description(&description);
    assert_eq!(fault(scopes::create(&create)), "description: has 501 characters, at most 500");
    let update = ScopeUpdate::new().description(description);
    assert_eq!(fault(scopes::update("s1", &update)), "description: has 501 characters, at most 500");
}

#[test]
fn slugs_are_words_with_hyphens_between() {
    for good in ["a", "chat", "my-chat-2", &"x".repeat(100)] {
        assert!(apps::create(&AppCreate::new("n").slug(good)).is_ok(), "{good}");
        assert!(rooms::create("a1", &RoomCreate::new("n").slug(good)).is_ok(), "{good}");
        assert!(scopes::create(&ScopeCreate::new(good, "n")).is_ok(), "{good}");
    }
    for bad in ["", "-a", "a-", "Chat", "a b", "a_b", "a/b", "ü", &"x".repeat(101)] {
        assert!(fault(apps::create(&AppCreate::new("n").slug(bad))).starts_with("slug: "), "{bad}");
        assert!(fault(rooms::ensure("a1", &RoomCreate::new("n").slug(bad))).starts_with("slug: "), "{bad}");
        assert!(fault(scopes::create(&ScopeCreate::new(bad, "n"))).starts_with("slug: "), "{bad}");
    }
    assert!(fault(apps::create(&AppCreate::new("n").slug("a--b"))).starts_with("slug: "));
    assert!(scopes::create(&ScopeCreate::new("a--b", "n")).is_ok());
}

#[test]
fn topics_are_names_without_slashes() {
    for bad in ["", "a/b", "a b", "+", "ü"] {
        let faults = [
            fault(apps::create(&AppCreate::new("n").topics(["fine", bad]))),
            fault(apps::update("a1", &AppUpdate::new().topics([bad]))),
            fault(rooms::create("a1", &RoomCreate::new("n").topics([bad]))),
            fault(rooms::update("a1", "r1", &RoomUpdate::new().topics([bad]))),
            fault(rooms::grant_access(
                "a1",
                "r1",
                &RoomAccessCreate::to_type("user", "publish").topics([bad]),
            )),
            fault(publish::batch(&[BatchMessage::new("a1", "r1", bad, 1)])),
        ];
        assert!(faults.iter().all(|fault| fault.starts_with(&format!("topic: {bad:?}: "))), "{faults:?}");
    }
}

#[test]
fn free_form_data_is_an_object() {
    for bad in [json!([1]), json!("text"), json!(1), json!(true)] {
        let data = || bad.clone();
        let faults = [
            fault(apps::create(&AppCreate::new("n").config(data()))),
            fault(apps::create(&AppCreate::new("n").topic_configs(data()))),
            fault(apps::update("a1", &AppUpdate::new().config(data()))),
            fault(apps::update("a1", &AppUpdate::new().topic_configs(data()))),
            fault(rooms::create("a1", &RoomCreate::new("n").metadata(data()))),
            fault(rooms::create("a1", &RoomCreate::new("n").config(data()))),
            fault(rooms::update("a1", "r1", &RoomUpdate::new().metadata(data()))),
            fault(rooms::update("a1", "r1", &RoomUpdate::new().config(data()))),
            fault(rooms::grant_access(
                "a1",
                "r1",
                &RoomAccessCreate::to_type("user", "publish").metadata(data()),
            )),
            fault(actors::create(&ActorCreate::new("n", "user").metadata(data()))),
            fault(actors::update("t1", &ActorUpdate::new().metadata(data()))),
            fault(scopes::create(&ScopeCreate::new("s", "n").metadata(data()))),
            fault(scopes::update("s1", &ScopeUpdate::new().metadata(data()))),
        ];
        assert!(faults.iter().all(|fault| fault.ends_with(": is not a JSON object")), "{faults:?}");
    }
}

#[test]
fn a_batch_is_within_the_brokers_limits() {
    let message = || BatchMessage::new("a1", "r1", "messages", 1);
    assert_eq!(fault(publish::batch(&[])), "messages: has 0, a batch takes 1 to 100");
    assert!(publish::batch(&vec![message(); 100]).is_ok());
    assert_eq!(fault(publish::batch(&vec![message(); 101])), "messages: has 101, a batch takes 1 to 100");

    let large = BatchMessage::new("a1", "r1", "messages", "x".repeat(publish::MAX_BATCH_BYTES));
    assert!(fault(publish::batch(&[large])).starts_with("messages: has 20972"));

    assert_eq!(fault(publish::batch(&[message().qos(3)])), "qos: is 3, at most 2");
    for bad in ["", "a/b", "#", "a|b"] {
        let expected = format!("filter: {bad:?} is empty or holds one of / # + |");
        assert_eq!(fault(publish::batch(&[message().filter(bad)])), expected);
        assert_eq!(fault(publish::batch(&[message().filters(["a", bad])])), expected);
    }
    let many = message().filters((0..101).map(|n| n.to_string()));
    assert_eq!(fault(publish::batch(&[many])), "filters: are 101, at most 100");
    let both = message().filter("a").filters(["b"]);
    assert_eq!(fault(publish::batch(&[both])), "filters: stand beside a filter; a message has either");
}
