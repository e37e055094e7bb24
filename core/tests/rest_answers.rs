//! How answers are read: forgiving about everything but ids.

use nolag_core::rest::{
    AccessMode, AccessPermission, ActorCreate, ActorType, ApiError, App, AppCreate, BatchMessage, Call,
    ListParams, Page, PageWalk, ResourceStatus, RoomAccessCreate, RoomType, ScopeCreate, Value, actors, apps,
    json, publish, rooms, scopes,
};

fn read<T>(call: Result<Call<T>, ApiError>, answer: &Value) -> T {
    let call = call.expect("a call that can work");
    call.parse(200, answer.to_string().as_bytes()).expect("a readable answer")
}

fn unreadable<T: std::fmt::Debug>(call: Result<Call<T>, ApiError>, body: &str) -> String {
    match call.expect("a call that can work").parse(201, body.as_bytes()) {
        Err(ApiError::Decode { reason, status: 201, .. }) => reason.into(),
        other => panic!("{other:?}"),
    }
}

fn every() -> ListParams {
    ListParams::new()
}

fn full_app() -> Value {
    json!({
        "appId": "0198f3c1-7a52-7c40-9d2e-3f1a5b6c7d8e", "projectId": "p1", "name": "my-chat-app",
        "slug": "my-chat-app-a3f9", "description": "A chat", "status": "active", "accessMode": "restricted",
        "topics": ["messages"], "topicConfigs": {"messages": {"logging": true}},
        "config": {"autoProvisionRooms": true}, "blueprintId": "b1", "blueprintVersion": "1",
        "pinnedBlueprintVersion": "1", "hydrationWebhook": {"url": "https://example.org", "headers": {"a": "b"}},
        "triggerWebhook": {"url": "https://example.org"}, "createdAt": "2026-08-01T10:00:00.000Z",
        "updatedAt": "2026-08-01T10:00:00.000Z", "deletedAt": "2026-08-02T10:00:00.000Z",
        "framework": "react", "limits": {"rooms": 5},
    })
}

#[test]
fn an_app_has_what_the_server_said_and_keeps_what_is_unknown() {
    let app = read(apps::get("a1"), &full_app());
    assert_eq!(app.app_id, "0198f3c1-7a52-7c40-9d2e-3f1a5b6c7d8e");
    assert_eq!((app.name.as_str(), app.slug.as_str()), ("my-chat-app", "my-chat-app-a3f9"));
    assert_eq!(app.status, Some(ResourceStatus::Active));
    assert_eq!(app.access_mode, Some(AccessMode::Restricted));
    assert_eq!(app.topics, Some(vec!["messages".to_owned()]));
    assert_eq!(app.config.as_ref().unwrap()["autoProvisionRooms"], true);
    assert_eq!(app.topic_configs.as_ref().unwrap()["messages"]["logging"], true);
    assert_eq!(app.hydration_webhook.as_ref().unwrap().headers["a"], "b");
    assert_eq!(app.deleted_at.as_deref(), Some("2026-08-02T10:00:00.000Z"));
    assert_eq!(app.extra.0, json!({"framework": "react", "limits": {"rooms": 5}}));
}

#[test]
fn what_is_read_can_be_written_as_it_came() {
    let app = full_app();
    assert_eq!(serde_json::to_value(read(apps::get("a1"), &app)).unwrap(), app);
    let room = json!({
        "roomId": "r1", "appId": "a1", "name": "General", "slug": "general", "description": "d",
        "roomType": "static", "status": "disabled", "isEnabled": false, "topics": ["t"], "metadata": {"a": 1},
        "config": {}, "createdAt": "c", "updatedAt": "u", "new": [1],
    });
    assert_eq!(serde_json::to_value(read(rooms::get("a1", "r1"), &room)).unwrap(), room);
    let actor = json!({
        "actorTokenId": "t1", "projectId": "p1", "name": "n", "actorType": "agent", "description": "d",
        "externalId": "7", "metadata": {}, "status": "active", "isActive": true, "accessScopeId": "s1",
        "expiresAt": "e", "lastConnectedAt": "l", "createdAt": "c", "updatedAt": "u", "keyId": "at_live_0123",
    });
    assert_eq!(serde_json::to_value(read(actors::get("t1"), &actor)).unwrap(), actor);
    let access = json!({
        "roomActorAccessId": "g1", "roomId": "r1", "actorTokenId": "t1", "actorType": "user",
        "permission": "pubSub", "topics": [], "isActive": true, "expiresAt": "e", "role": "r", "metadata": {},
        "createdAt": "c", "updatedAt": "u", "new": null,
    });
    let grant = rooms::grant_access("a1", "r1", &RoomAccessCreate::to_actor("t1", "pubSub"));
    assert_eq!(serde_json::to_value(read(grant, &access)).unwrap(), access);
    let scope = json!({
        "accessScopeId": "s1", "projectId": "p1", "slug": "acme", "name": "Acme", "description": "d",
        "metadata": {"a": 1}, "isActive": true, "createdAt": "c", "updatedAt": "u", "new": 1,
    });
    assert_eq!(serde_json::to_value(read(scopes::get("s1"), &scope)).unwrap(), scope);
    let page = json!({"data": [scope], "pagination": {"total": 1, "page": 1, "pageCount": 1}});
    assert_eq!(serde_json::to_value(read(scopes::list(&every()), &page)).unwrap(), page);
}

#[test]
fn an_id_is_enough() {
    let app = read(apps::create(&AppCreate::new("n")), &json!({"appId": "a1"}));
    assert_eq!((app.app_id.as_str(), app.slug.as_str(), app.topics, app.status), ("a1", "", None, None));
    let room = read(rooms::get("a1", "r1"), &json!({"roomId": 7}));
    assert_eq!((room.room_id.as_str(), room.may_be_used()), ("7", true));
    let actor = read(actors::get("t1"), &json!({"actorTokenId": "t1"}));
    assert_eq!((actor.actor_token_id.as_str(), actor.may_be_used()), ("t1", true));
    let scope = read(scopes::create(&ScopeCreate::new("s", "n")), &json!({"accessScopeId": "s1"}));
    assert_eq!(scope.access_scope_id, "s1");
}

#[test]
fn a_field_of_another_type_is_absent_and_kept_as_it_came() {
    let answer = json!({
        "appId": "a1", "name": 5, "slug": null, "topics": "messages", "status": 1, "config": null,
        "hydrationWebhook": "https://example.org", "createdAt": 1_760_000_000,
    });
    let app = read(apps::get("a1"), &answer);
    assert_eq!((app.name.as_str(), app.slug.as_str(), app.topics, app.config), ("", "", None, None));
    let kept = json!({
        "name": 5, "topics": "messages", "status": 1, "hydrationWebhook": "https://example.org",
        "createdAt": 1_760_000_000,
    });
    assert_eq!(app.extra.0, kept);
}

#[test]
fn without_its_id_an_object_is_unreadable() {
    assert_eq!(unreadable(apps::get("a1"), "{}"), "there is no appId");
    assert_eq!(unreadable(apps::get("a1"), r#"{"appId":""}"#), "there is no appId");
    assert_eq!(unreadable(rooms::get("a1", "r1"), r#"{"roomId":null}"#), "there is no roomId");
    assert_eq!(unreadable(actors::get("t1"), r#"{"actorTokenId":[]}"#), "there is no actorTokenId");
    assert_eq!(unreadable(scopes::get("s1"), "{}"), "there is no accessScopeId");
    assert_eq!(
        unreadable(rooms::list_access("a1", "r1", &every()), r#"[{"roomActorAccessId":"g"},{}]"#),
        "entry 1: there is no roomActorAccessId"
    );
    assert_eq!(unreadable(apps::get("a1"), "[]"), "expected an object");
    assert_eq!(unreadable(apps::get("a1"), " \n"), "the body is empty");
}

#[test]
fn a_name_that_this_crate_does_not_know_is_kept() {
    let actor =
        read(actors::get("t1"), &json!({"actorTokenId": "t1", "actorType": "robot", "status": "asleep"}));
    assert_eq!(actor.actor_type, Some(ActorType::Other("robot".into())));
    assert_eq!(actor.status.as_ref().map(ResourceStatus::as_str), Some("asleep"));
    assert!(!actor.may_be_used());
    let types = ["agent", "device", "observer", "orchestrator", "service", "session", "user", "robot"];
    assert!(types.iter().all(|name| ActorType::from(*name).to_string() == *name));
    let room = read(rooms::get("a1", "r1"), &json!({"roomId": "r1", "roomType": "dynamic"}));
    assert_eq!(room.room_type, Some(RoomType::Dynamic));
    assert_eq!(AccessPermission::from("pubSub"), AccessPermission::PubSub);
}

#[test]
fn older_and_newer_servers_say_differently_what_may_be_used() {
    let room = |answer: Value| read(rooms::get("a1", "r1"), &answer).may_be_used();
    assert!(!room(json!({"roomId": "r1", "isEnabled": false})));
    assert!(!room(json!({"roomId": "r1", "status": "disabled"})));
    assert!(room(json!({"roomId": "r1", "status": "active", "isEnabled": false})));
    let actor = |answer: Value| read(actors::get("t1"), &answer).may_be_used();
    assert!(!actor(json!({"actorTokenId": "t1", "isActive": false})));
    assert!(!actor(json!({"actorTokenId": "t1", "status": "suspended"})));
}

#[test]
fn a_new_actor_comes_with_its_token_once() {
    let create = || actors::create(&ActorCreate::new("web-client", "device"));
    let answer = json!({"actorTokenId": "t1", "name": "web-client", "accessToken": "at_live_0123456789ab.5ecret", "a": 1});
    let created = read(create(), &answer);
    assert_eq!(created.access_token.expose(), "at_live_0123456789ab.5ecret");
    assert_eq!(created.actor.extra.0, json!({"a": 1}));
    // Elsewhere nobody expects a token, so it is dropped rather than kept among the unknown.
    let actor = read(actors::get("t1"), &answer);
    assert_eq!(actor, created.actor);
    assert!(!serde_json::to_string(&actor).unwrap().contains("5ecret"));
    let reason = unreadable(create(), r#"{"actorTokenId":"t1"}"#);
    assert_eq!(reason, "actor t1 comes without its accessToken");
}

#[test]
fn lists_come_as_pages_or_plain() {
    let data = json!([{"appId": "a1"}, {"appId": "a2"}]);
    let pages = [
        json!({"data": data, "pagination": {"total": 12, "page": 2, "pageCount": 6}}),
        json!({"data": data, "pagination": {"total": "12", "page": "2", "pageCount": "6"}}),
        json!({"data": data, "meta": {"total": 12, "page": 2, "limit": 2, "totalPages": 6}}),
    ];
    for answer in pages {
        let page = read(apps::list(&every()), &answer);
        let ids: Vec<_> = page.data.iter().map(|app| app.app_id.as_str()).collect();
        assert_eq!(ids, ["a1", "a2"]);
        let pagination = page.pagination;
        assert_eq!((pagination.total, pagination.page, pagination.page_count), (12, 2, 6));
    }
    for whole in [data.clone(), json!({"data": data}), json!({"data": data, "pagination": null})] {
        let pagination = read(apps::list(&every()), &whole).pagination;
        assert_eq!((pagination.total, pagination.page, pagination.page_count), (2, 1, 1));
    }

    let rooms = json!({"data": [{"roomId": "r1"}], "pagination": {"total": 1, "page": 1, "pageCount": 1}});
    assert_eq!(read(rooms::list("a1", &every()), &rooms).data[0].room_id, "r1");
    let names: Vec<_> =
        read(rooms::list("a1", &every()), &rooms["data"]).into_iter().map(|r| r.room_id).collect();
    assert_eq!(names, ["r1"]);
    let actors = json!([{"actorTokenId": "t1", "actorType": "user"}]);
    assert_eq!(read(actors::list(&every()), &actors).data[0].actor_type, Some(ActorType::User));
    assert_eq!((&read(scopes::list_actors("s1", &every()), &actors)).into_iter().count(), 1);
    let grants = json!([{"roomActorAccessId": "g1", "permission": "publish", "expiresAt": null}]);
    let grant = &read(rooms::list_access("a1", "r1", &every()), &grants).data[0];
    assert_eq!((grant.permission.as_ref(), &grant.expires_at), (Some(&AccessPermission::Publish), &None));

    for bad in ["{}", r#"{"data":{}}"#, r#"{"data":null}"#] {
        assert_eq!(
            unreadable(apps::list(&every()), bad),
            "expected a list, or an object with a list named data"
        );
    }
    assert_eq!(unreadable(apps::list(&every()), "3"), "expected a list");
}

#[test]
fn pages_follow_one_another_to_the_last() {
    let page = |entries: usize, count: u64| -> Page<_> {
        let entry = json!({"appId": "a1"});
        let answer = json!({"data": vec![entry; entries], "pagination": {"pageCount": count}});
        read(apps::list(&every()), &answer)
    };
    let first = every().limit(2).name("chat");
    let second = first.after(&page(2, 3)).expect("there are three");
    assert_eq!(second, every().limit(2).name("chat").page(2));
    let third = second.after(&page(2, 3)).expect("there are three");
    assert_eq!(third.after(&page(1, 3)), None);
    assert_eq!(first.after(&page(0, 3)), None, "an empty page is the last, whatever the server counts");
    assert_eq!(every().page(u64::MAX).after(&page(1, u64::MAX)), None);
    assert_eq!(first.after(&read(apps::list(&every()), &json!([{"appId": "a1"}]))), None);
}

/// A page of apps with these ids; its `pagination` is as given.
fn page_of(ids: impl IntoIterator<Item = u64>, pagination: &Value) -> Page<App> {
    let data: Vec<Value> = ids.into_iter().map(|id| json!({"appId": id.to_string()})).collect();
    read(apps::list(&every()), &json!({"data": data, "pagination": pagination}))
}

/// What a walk gives, at most `most` pages, when a server answers page n with this.
fn walk(
    first: ListParams,
    most: usize,
    server: impl Fn(u64) -> Page<App>,
) -> Vec<Result<Vec<String>, String>> {
    let mut walk = PageWalk::new(first);
    let mut given = Vec::new();
    let mut asked = 0;
    while let Some(params) = walk.params() {
        asked += 1;
        assert!(asked <= most, "the walk goes on: {given:?}");
        let call = apps::list(params).expect("a call that can work");
        let number = call.request().query.iter().find(|(name, _)| name == "page");
        let number = number.map_or(1, |(_, number)| number.parse().unwrap());
        match walk.take(&call.request().name(), Ok(server(number))) {
            Some(Ok(page)) => given.push(Ok(page.into_iter().map(|app| app.app_id).collect())),
            Some(Err(error)) => given.push(Err(error.to_string())),
            None => assert!(walk.params().is_none()),
        }
    }
    assert!(walk.take("", Ok(server(1))).is_none(), "the end is the end");
    given
}

fn ids(pages: Vec<Result<Vec<String>, String>>) -> Vec<String> {
    pages.into_iter().flat_map(|page| page.expect("a page")).collect()
}

#[test]
fn a_walk_gives_every_page_and_ends() {
    let counted = |page: u64| page_of(page * 2..page * 2 + 2, &json!({"page": page, "pageCount": 3}));
    assert_eq!(ids(walk(every(), 3, counted)), ["2", "3", "4", "5", "6", "7"]);
    assert_eq!(ids(walk(every().page(3), 1, counted)), ["6", "7"]);
    // What is created meanwhile may make it longer.
    let grows = |page: u64| page_of([page], &json!({"pageCount": (1 + page).min(4)}));
    assert_eq!(ids(walk(every(), 4, grows)), ["1", "2", "3", "4"]);
}

#[test]
fn a_server_that_gives_one_page_again_and_again_is_an_error() {
    let stuck = |_| page_of([1, 2], &json!({"total": 6, "page": 1, "pageCount": 3}));
    let pages = walk(every(), 2, stuck);
    assert_eq!(pages[0], Ok(vec!["1".to_owned(), "2".to_owned()]));
    let words = "GET /apps succeeded (HTTP 200), but its answer cannot be read: \
                 page 2 of 3 has the entries of the page before";
    assert_eq!(pages[1..], [Err(words.to_owned())]);
}

#[test]
fn a_list_that_grows_for_ever_is_an_error() {
    let pages = walk(every(), 200, |page| page_of([page], &json!({"pageCount": page + 1})));
    assert_eq!(pages.len(), 105, "twice the two pages of the beginning, and 100");
    let error = pages.last().unwrap().as_ref().unwrap_err();
    assert!(error.ends_with("the list has grown without an end, to 106 pages"), "{error}");
}

#[test]
fn a_server_that_does_not_count_pages_is_read_to_a_page_that_is_short_empty_or_the_same() {
    let of = |entries: u64| {
        move |page: u64| {
            page_of((page - 1) * 2..entries.min(page * 2).max((page - 1) * 2), &json!({"total": entries}))
        }
    };
    let all = ["0", "1", "2", "3", "4"];
    assert_eq!(ids(walk(every().limit(2), 3, of(5))), all, "short");
    assert_eq!(ids(walk(every().limit(2), 3, of(4))), all[..4], "empty");
    assert_eq!(ids(walk(every(), 4, of(5))), all, "nobody knows how long pages are");
    assert_eq!(ids(walk(every(), 2, |_| page_of([0, 1], &json!({"total": 2})))), all[..2], "the same");
    assert_eq!(
        ids(walk(every().limit(500), 2, |page| page_of(page * 100..page * 100 + 100 / page, &json!({}))))
            .len(),
        150
    );
}

#[test]
fn a_failure_ends_a_walk() {
    let mut walk = PageWalk::new(every());
    let error = apps::list(&every()).unwrap().parse(500, b"").unwrap_err();
    assert_eq!(walk.take::<App>("GET /apps", Err(error.clone())), Some(Err(error)));
    assert_eq!(walk.params(), None);
}

#[test]
fn pages_are_counted_from_one() {
    for params in [every().page(0), every().set("page", "0"), every().set("page", "00")] {
        let refused = [
            apps::list(&params).unwrap_err(),
            rooms::list("a1", &params).unwrap_err(),
            rooms::list_access("a1", "r1", &params).unwrap_err(),
            actors::list(&params).unwrap_err(),
            scopes::list(&params).unwrap_err(),
            scopes::list_actors("s1", &params).unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.to_string(), "page: is 0; pages are counted from 1");
        }
    }
}

#[test]
fn what_is_deleted_is_answered_with_an_object_or_with_nothing() {
    for body in ["", " \r\n", r#"{"success":true}"#, r#"{"appId":"a1"}"#, "{}"] {
        assert_eq!(apps::delete("a1").unwrap().parse(200, body.as_bytes()), Ok(()), "{body}");
        assert_eq!(rooms::delete("a1", "r1").unwrap().parse(204, body.as_bytes()), Ok(()), "{body}");
        assert_eq!(rooms::revoke_access("a1", "r1", "g1").unwrap().parse(204, body.as_bytes()), Ok(()));
        assert_eq!(actors::delete("t1").unwrap().parse(200, body.as_bytes()), Ok(()), "{body}");
        assert_eq!(scopes::delete("s1").unwrap().parse(202, body.as_bytes()), Ok(()), "{body}");
    }
    assert_eq!(unreadable(apps::delete("a1"), r#"{"success":false}"#), "it says that it was not done");
    for body in ["null", "true", "[]", r#""OK""#] {
        assert_eq!(unreadable(apps::delete("a1"), body), "expected an object or nothing", "{body}");
    }
    // A login page of a gateway, for example: nothing was deleted.
    for body in ["<html><h1>Log in</h1></html>", "OK", "{"] {
        assert!(unreadable(actors::delete("t1"), body).starts_with("not JSON: "), "{body}");
    }
}

#[test]
fn deep_nesting_is_read_or_an_error_and_never_a_crash() {
    let nested = |depth: usize| {
        let config = format!("{}{}", r#"{"a":["#.repeat(depth), "]}".repeat(depth));
        [format!(r#"{{"appId":"a1","config":{config}}}"#), format!(r#"{{"message":{config}}}"#)]
    };
    let [fine, message] = nested(60);
    let app = apps::get("a1").unwrap().parse(200, fine.as_bytes()).expect("a readable answer");
    assert!(serde_json::to_string(&app).unwrap().contains(r#"{"a":[{"a":["#));
    assert_eq!(apps::delete("a1").unwrap().parse(200, fine.as_bytes()), Ok(()));
    let refused = apps::get("a1").unwrap().parse(400, message.as_bytes()).unwrap_err();
    assert!(refused.message().is_some_and(|message| message.starts_with(r#"{"a":["#)));
    for depth in [64, 100, 1_000, 100_000] {
        let [deep, message] = nested(depth);
        let page = format!(r#"{{"data":[{deep}]}}"#);
        let reasons = [
            unreadable(apps::get("a1"), &deep),
            unreadable(apps::delete("a1"), &deep),
            unreadable(apps::list(&every()), &page),
            unreadable(actors::create(&ActorCreate::new("n", "user")), &deep),
            unreadable(publish::batch(&[BatchMessage::new("a1", "r1", "t", 1)]), &deep),
        ];
        assert!(reasons.iter().all(|reason| reason.contains("recursion limit")), "{depth}: {reasons:?}");
        let refused = apps::get("a1").unwrap().parse(400, message.as_bytes()).unwrap_err();
        assert!(matches!(&refused, ApiError::Status(error) if error.body.is_some()), "{depth}: {refused:?}");
    }
}

#[test]
fn a_batch_is_answered_with_the_ids_in_order() {
    let batch = || publish::batch(&[BatchMessage::new("a1", "r1", "messages", 1)]);
    assert_eq!(read(batch(), &json!({"messages": [{"id": "m1"}, {"id": 2}]})), ["m1", "2"]);
    assert_eq!(unreadable(batch(), "{}"), "there are no messages");
    assert_eq!(unreadable(batch(), r#"{"messages":[{"id":"m1"},{}]}"#), "a message has no id");
}
