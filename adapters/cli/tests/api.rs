//! `nolag api`, against the control plane of `nolag dev`.

mod common;

use std::fs;

use common::{API_KEY, BOB, Broker, Ran, nolag, run, run_with_input, start};
use serde_json::{Value, json};

/// The text of a field.
#[track_caller]
fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_else(|| panic!("no {field} in {object}"))
}

/// What stands behind a key in lines for people.
#[track_caller]
fn field<'a>(ran: &'a Ran, key: &str) -> &'a str {
    let value = ran.stdout.lines().find_map(|line| line.split_once(' ').filter(|(name, _)| *name == key));
    value.unwrap_or_else(|| panic!("no {key} in {ran:#?}")).1.trim()
}

#[test]
fn an_app_a_room_and_an_actor_are_created_talk_and_are_deleted() {
    let broker = Broker::start();
    let people = |args: &[&str]| run(&mut broker.api(args)).expect(0);

    let app = people(&["apps", "create", "--name", "Chat", "--topic", "messages", "--topic", "alerts"]);
    let (app_id, app_slug) = (field(&app, "appId"), field(&app, "slug"));
    assert_eq!((field(&app, "name"), field(&app, "topics")), ("Chat", "messages, alerts"));
    let room = people(&["rooms", "create", app_id, "--name", "General", "--slug", "general"]);
    let room_id = field(&room, "roomId");

    let created = people(&["actors", "create", "--name", "web", "--type", "device"]);
    let (actor_id, token) = (field(&created, "actorTokenId"), field(&created, "accessToken"));
    assert!(created.stderr.contains("not shown again") && !created.stderr.contains(token), "{created:?}");

    let topic = format!("{app_slug}/general/messages");
    let mut sub = start(&mut broker.nolag(token, &["sub", &topic, "--count", "2"]));
    sub.hears("subscribed to");
    let peer = broker.api_json(&["actors", "create", "--name", "peer", "--type", "user"]);
    run(&mut broker.nolag(text(&peer, "accessToken"), &["pub", &topic, r#"{"text":"hello"}"#])).expect(0);
    assert_eq!(sub.line(), format!("{topic} {{\"text\":\"hello\"}}"));
    let published = people(&["publish", &format!("{app_id}/{room_id}/messages"), "7"]);
    assert!(published.stdout.starts_with("published "), "{published:?}");
    assert_eq!(sub.line(), format!("{topic} 7"));
    sub.end().expect(0);

    for (what, args) in [
        (room_id, &["rooms", "delete", app_id, room_id][..]),
        (actor_id, &["actors", "delete", actor_id]),
        (app_id, &["apps", "delete", app_id]),
    ] {
        assert_eq!(people(args).stdout, format!("deleted {what}\n"));
    }
    run(&mut broker.nolag(token, &["pub", &topic, "1"])).expect(4);
    run(&mut broker.api(&["apps", "get", app_id])).expect(5).one_error(&["404", "not found"]);
}

#[test]
fn tables_are_aligned_and_lists_are_arrays_as_long_as_asked_for() {
    let broker = Broker::start();
    let none = run(&mut broker.api(&["scopes", "list"])).expect(0);
    assert_eq!((none.stdout.as_str(), none.stderr.as_str()), ("", "there are none\n"));
    assert_eq!(broker.api_json(&["scopes", "list"]), json!([]));

    // More than a page of the server.
    for n in 0..12 {
        let slug = format!("s-{n:02}");
        broker.api_json(&["scopes", "create", "--slug", &slug, "--name", &format!("Tenant {n}")]);
    }
    let table = run(&mut broker.api(&["scopes", "list"])).expect(0).stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 13, "{table}");
    let column = lines[0].find("SLUG").unwrap();
    assert!(lines[1..].iter().all(|line| line[column..].starts_with("s-")), "{table}");

    let slugs = |args: &[&str]| -> Vec<String> {
        let list = broker.api_json(&[&["scopes", "list", "--order-by", "slug"], args].concat());
        list.as_array().unwrap().iter().map(|scope| text(scope, "slug").into()).collect()
    };
    assert_eq!(slugs(&[]).len(), 12);
    assert_eq!(slugs(&["--limit", "2"]), ["s-00", "s-01"]);
    assert_eq!(slugs(&["--limit", "5", "--page", "3"]), ["s-10", "s-11"]);
    assert_eq!(slugs(&["--where", "slug=s-03"]), ["s-03"]);
    assert_eq!(slugs(&["--name", "tenant 1", "--limit", "9"]), ["s-01", "s-10", "s-11"]);
    let some = run(&mut broker.api(&["scopes", "list", "--limit", "2"])).expect(0);
    assert!(some.stderr.contains("2 of 12"), "{some:?}");
}

#[test]
fn a_list_that_the_server_does_not_page_is_paged_all_the_same() {
    let broker = Broker::start();
    for name in ["a", "b", "c"] {
        broker.api_json(&["rooms", "create", "demo-app", "--name", name]);
    }
    let all = broker.api_json(&["rooms", "list", "demo-app"]);
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 4);
    for (page, rest) in [("1", &all[..3]), ("2", &all[3..]), ("3", &[])] {
        let listed = broker.api_json(&["rooms", "list", "demo-app", "--limit", "3", "--page", page]);
        assert_eq!(listed, json!(rest), "page {page}");
    }
}

#[test]
fn every_field_that_was_given_arrives_and_updates_change_or_empty_it() {
    let broker = Broker::start();
    let dir = tempfile::tempdir().unwrap();
    let webhook = dir.path().join("webhook.json");
    fs::write(&webhook, r#"{"url":"http://127.0.0.1:1/","headers":{"authorization":"planted"}}"#).unwrap();
    let webhook = format!("@{}", webhook.display());

    let app = broker.api_json(&[
        "apps",
        "create",
        "--name",
        "A",
        "--slug",
        "a-b",
        "--description",
        "about",
        "--topic",
        "t",
        "--access-mode",
        "open",
        "--config",
        r#"{"autoProvisionRooms":true}"#,
        "--trigger-webhook",
        &webhook,
    ]);
    assert!(text(&app, "slug").starts_with("a-b"), "{app}");
    assert_eq!(app["description"], "about");
    assert_eq!(app["triggerWebhook"]["headers"]["authorization"], "planted");
    let app_id = text(&app, "appId");
    let shown = run(&mut broker.api(&["apps", "get", app_id])).expect(0);
    assert!(shown.stdout.contains("headers: 1") && !shown.stdout.contains("planted"), "{shown:?}");
    let app = broker.api_json(&[
        "apps",
        "update",
        app_id,
        "--name",
        "B",
        "--status",
        "disabled",
        "--topic",
        "u",
        "--clear",
        "description",
        "--clear",
        "trigger-webhook",
        "--topic-configs",
        r#"{"u":{}}"#,
    ]);
    assert_eq!(
        (&app["name"], &app["status"], &app["topics"]),
        (&json!("B"), &json!("disabled"), &json!(["u"]))
    );
    assert_eq!((&app["description"], &app["triggerWebhook"]), (&Value::Null, &Value::Null));

    let args = ["--name", "R", "--slug", "r", "--metadata", r#"{"k":1}"#, "--enable-webrtc"];
    let room = broker.api_json(&[&["rooms", "ensure", app_id], &args[..]].concat());
    let again = broker.api_json(&["rooms", "ensure", app_id, "--name", "Other", "--slug", "r"]);
    assert_eq!((&again["roomId"], &again["name"]), (&room["roomId"], &json!("R")));
    assert_eq!(room["metadata"], json!({"k": 1}));
    assert_eq!(room["enableWebRTC"], true);
    let room_id = text(&room, "roomId");
    let room = broker.api_json(&["rooms", "update", app_id, room_id, "--status", "disabled", "--name", "S"]);
    assert_eq!((&room["name"], &room["status"]), (&json!("S"), &json!("disabled")));
    assert_eq!(broker.api_json(&["rooms", "get", app_id, room_id]), room);

    let scope =
        broker.api_json(&["scopes", "create", "--slug", "acme", "--name", "Acme", "--description", "d"]);
    let scope_id = text(&scope, "accessScopeId");
    let change = ["scopes", "update", scope_id, "--active", "false", "--clear", "description"];
    let scope = broker.api_json(&change);
    assert_eq!((&scope["isActive"], &scope["description"]), (&json!(false), &Value::Null));
    assert_eq!(broker.api_json(&["scopes", "get", scope_id]), scope);

    let actor = broker.api_json(&[
        "actors",
        "create",
        "--name",
        "N",
        "--type",
        "device",
        "--external-id",
        "e",
        "--scope",
        scope_id,
        "--expires-at",
        "2090-01-01T00:00:00.000Z",
        "--metadata",
        "{}",
    ]);
    assert_eq!((&actor["externalId"], &actor["accessScopeId"]), (&json!("e"), &json!(scope_id)));
    assert_eq!(actor["expiresAt"], "2090-01-01T00:00:00.000Z");
    let actor_id = text(&actor, "actorTokenId");
    assert_eq!(broker.api_json(&["scopes", "actors", scope_id])[0]["actorTokenId"], actor_id);
    let free = broker.api_json(&["scopes", "remove-actor", actor_id]);
    assert_eq!((&free["accessScopeId"], &free["accessToken"]), (&Value::Null, &Value::Null));
    let confined = broker.api_json(&["scopes", "add-actor", scope_id, actor_id]);
    assert_eq!(confined["accessScopeId"], scope_id);
    let clear =
        ["--clear", "scope", "--clear", "external-id", "--clear", "expires-at", "--clear", "metadata"];
    let actor =
        broker.api_json(&[&["actors", "update", actor_id, "--status", "disabled"], &clear[..]].concat());
    assert_eq!(actor["status"], "disabled");
    for field in ["accessScopeId", "externalId", "expiresAt"] {
        assert_eq!(actor[field], Value::Null, "{field}");
    }
    assert_eq!(broker.api_json(&["scopes", "delete", scope_id]), json!({"deleted": scope_id}));
}

#[test]
fn grants_close_a_room_and_revoking_the_last_opens_it() {
    let broker = Broker::start();
    let app = broker.api_json(&["apps", "create", "--name", "A", "--topic", "t"]);
    let room = broker.api_json(&["rooms", "create", text(&app, "appId"), "--name", "r"]);
    let place = [text(&app, "appId"), text(&room, "roomId")];
    let actor = |name| broker.api_json(&["actors", "create", "--type", "user", "--name", name]);
    let (friend, stranger) = (actor("friend"), actor("stranger"));
    let topic = format!("{}/r/t", text(&app, "slug"));
    let publishes = |actor: &Value, code| {
        run(&mut broker.nolag(text(actor, "accessToken"), &["pub", &topic, "1"])).expect(code);
    };
    publishes(&stranger, 0);

    let to = ["--actor", text(&friend, "actorTokenId"), "--permission", "pubSub", "--role", "owner"];
    let grant = broker.api_json(&[&["rooms", "grant"], &place[..], &to].concat());
    assert_eq!((&grant["permission"], &grant["role"]), (&json!("pubSub"), &json!("owner")));
    publishes(&friend, 0);
    publishes(&stranger, 5);
    assert_eq!(broker.api_json(&[&["rooms", "access"], &place[..]].concat())[0], grant);
    let table = run(&mut broker.api(&[&["rooms", "access"], &place[..]].concat())).expect(0).stdout;
    assert!(table.contains("PERMISSION") && table.contains("pubSub"), "{table}");

    let access_id = text(&grant, "roomActorAccessId");
    let revoked = broker.api_json(&[&["rooms", "revoke"], &place[..], &[access_id]].concat());
    assert_eq!(revoked, json!({"deleted": access_id}));
    publishes(&stranger, 0);

    let to = ["--type", "user", "--permission", "publish", "--inactive", "--topic", "t"];
    let grant = broker.api_json(&[&["rooms", "grant"], &place[..], &to].concat());
    assert_eq!((&grant["actorType"], &grant["isActive"]), (&json!("user"), &json!(false)));
    let both = [&["rooms", "grant"], &place[..], &to, &["--actor", "x"]].concat();
    run(&mut broker.api(&both)).expect(2);
}

#[test]
fn a_batch_is_published_in_order_or_not_at_all() {
    let broker = Broker::start();
    let args = ["sub", common::TOPIC, "--count", "4", "--filter", "vip"];
    let mut sub = start(&mut broker.nolag(BOB, &args));
    sub.hears("subscribed to");
    let place = "demo-app/room-general/messages";
    let ids = broker.api_json(&["publish", place, "1", r#""two""#, r#"{"n":3}"#, "--filter", "vip"]);
    assert_eq!(ids.as_array().unwrap().len(), 3, "{ids}");
    run_with_input(&mut broker.api(&["publish", place, "-", "--filter", "vip"]), b"[4]\n").expect(0);
    for data in ["1", r#""two""#, r#"{"n":3}"#, "[4]"] {
        assert_eq!(sub.line(), format!("{} {data}", common::TOPIC));
    }
    sub.end().expect(0);

    let ran = run(&mut broker.api(&["publish", place, "1", "two"])).expect(7);
    ran.one_error(&["message 2", "not valid JSON"]);
    run(&mut broker.api(&["publish", "demo/general/messages", "1"])).expect(5).one_error(&["ids", "slugs"]);
    run(&mut broker.api(&["publish", "demo-app/messages", "1"]))
        .expect(2)
        .one_error(&["APP_ID/ROOM_ID/TOPIC"]);
    // A key for one's own server does not go to the cloud.
    let mut elsewhere = broker.api(&["publish", place, "1"]);
    run(elsewhere.env_remove("NOLAG_URL")).expect(2).one_error(&["NOLAG_URL"]);
}

#[test]
fn what_is_missing_or_wrong_is_named_by_whose_fault_it_is() {
    let broker = Broker::start();
    let fails = |args: &[&str], code| run(&mut broker.api(args)).expect(code);
    for (args, code, words) in [
        (&["apps", "create"][..], 2, "--name"),
        (&["rooms", "get", "demo-app"], 2, "<ROOM_ID>"),
        (&["actors", "create", "--name", "x"], 2, "--type"),
        (&["actors", "update", "x"], 2, "--external-id"),
        (&["apps", "update", "demo-app"], 2, "--description"),
        (&["rooms", "update", "demo-app", "room-general"], 2, "--topic"),
        (&["scopes", "update", "x"], 2, "--active"),
        (&["rooms", "grant", "a", "b", "--permission", "publish"], 2, "--actor"),
        (&["apps", "update", "x", "--description", "y", "--clear", "description"], 2, "contradict"),
        (&["apps", "get", ""], 2, "app id: is empty"),
        (&["apps", "create", "--name", "x", "--slug", "No Slug"], 2, "slug"),
        (&["apps", "list", "--order-by", "name:up"], 2, ":desc"),
        (&["apps", "list", "--where", "name"], 2, "FIELD=VALUE"),
        (&["apps", "create", "--name", "x", "--config", "{"], 7, "--config: not valid JSON"),
        (&["apps", "create", "--name", "x", "--config", "[]"], 7, "config: is not a JSON object"),
        (&["apps", "create", "--name", "x", "--config", "@/nonexistent"], 7, "/nonexistent"),
        (&["actors", "create", "--name", "x", "--type", "nonsense"], 5, "HTTP 400"),
        (&["rooms", "ensure", "demo-app", "--name", "x"], 5, "HTTP 403"),
        (&["apps", "reset-to-blueprint", "demo-app"], 5, "blueprint"),
        (&["apps", "list", "--api-url", "http://127.0.0.1:1/v1"], 3, "nolag dev"),
        (&["apps", "list", "--api-url", "ftp://127.0.0.1/v1"], 2, "--api-url"),
        (&["apps", "list", "--api-url", &broker.url.replace("ws", "http")], 5, "HTTP 404"),
    ] {
        let ran = fails(args, code);
        assert!(ran.stderr.contains(words) && ran.stdout.is_empty(), "{args:?}: {words:?}: {ran:#?}");
    }
    let mut keyless = broker.api(&["apps", "list"]);
    run(keyless.env_remove("NOLAG_API_KEY")).expect(2).one_error(&["NOLAG_API_KEY", "--key-file", API_KEY]);
    let mut stranger = broker.api(&["apps", "list"]);
    run(stranger.env("NOLAG_API_KEY", "wrong")).expect(4).one_error(&["401", "check the API key"]);
}

#[test]
fn the_key_of_a_file_wins_and_no_output_has_a_key() {
    const PLANTED: &str = "nlg_live_planted.7f3a";
    let broker = Broker::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, format!("{API_KEY}\n")).unwrap();
    let path = file.path().to_str().unwrap();
    let mut listed = broker.api(&["apps", "list", "--key-file", path]);
    run(listed.env("NOLAG_API_KEY", PLANTED)).expect(0);

    fs::write(&file, format!("{PLANTED} {PLANTED}")).unwrap();
    let query = format!("http://127.0.0.1:1/v1?key={PLANTED}");
    let user = format!("http://user:{PLANTED}@127.0.0.1:1/v1");
    for (code, args) in [
        (0, &["--help"][..]),
        (0, &["apps", "--help"]),
        (0, &["apps", "create", "--help"]),
        (0, &["publish", "--help"]),
        (4, &["apps", "list"]),
        (4, &["actors", "create", "--name", "x", "--type", "user", "--json"]),
        (4, &["publish", "a/b/c", "1"]),
        (2, &["apps", "list", "--key-file", path]),
        (2, &["apps", "list", "--key-file", "/nonexistent"]),
        (2, &["apps", "list", "--api-url", &query]),
        (2, &["apps", "list", "--api-url", &user]),
        (2, &["publish", "a/b/c", "1", "--url", &user]),
    ] {
        let ran = run(broker.api(args).env("NOLAG_API_KEY", PLANTED)).expect(code);
        for secret in [PLANTED, "7f3a", API_KEY.split_once('.').unwrap().1] {
            let said = ran.stdout.contains(secret) || ran.stderr.contains(secret);
            // The dev key is public, and the examples of the help have it.
            assert!(!said || (code == 0 && secret == "secret"), "{args:?}: {ran:#?}");
        }
    }
}

#[test]
fn nothing_is_logged_whatever_the_environment_asks_for() {
    const PLANTED: &str = "nlg_live_dev.planted-7f3a";

    let broker = Broker::start();
    for (code, key, args) in [
        (4, PLANTED, &["actors", "create", "--name", "x", "--type", "user"][..]),
        (5, API_KEY, &["apps", "get", PLANTED]),
        (0, API_KEY, &["actors", "create", "--name", "x", "--type", "user", "--json"]),
    ] {
        let ran = run(broker.api(args).env("NOLAG_API_KEY", key).env("RUST_LOG", "trace")).expect(code);
        let secrets = [PLANTED, "7f3a", API_KEY, "Bearer", "authorization"];
        let leak =
            secrets.iter().find(|secret| ran.stdout.contains(**secret) || ran.stderr.contains(**secret));
        assert_eq!(leak, None, "{args:?}: {ran:#?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{args:?}: {ran:#?}");
    }
}

/// The commands of the chapter about REST, with what they need from earlier answers.
#[test]
fn the_commands_of_the_readme_work() {
    const README: &str = include_str!("../../../README.md");

    let broker = Broker::start();
    let chapter =
        README.split("\n## ").find(|chapter| chapter.starts_with("Manage it")).expect("the chapter");
    assert!(chapter.contains(&format!("NOLAG_API_KEY={API_KEY}\n")), "{chapter}");
    let commands = chapter.lines().filter_map(|line| line.strip_prefix("$ cargo run -p nolag-cli -- api "));
    let (mut app_id, mut answers) = ("APP_ID".to_owned(), Vec::new());
    for command in commands {
        let command = command.replace("APP_ID", &app_id);
        let ran = run(&mut broker.api(&command.split(' ').collect::<Vec<_>>())).expect(0);
        if command.starts_with("apps create") {
            app_id = field(&ran, "appId").into();
        }
        answers.push(ran);
    }
    let [app, _room, actor] = answers.as_slice() else { panic!("{answers:#?}") };
    let topic = format!("{}/general/messages", field(app, "slug"));
    run(&mut broker.nolag(field(actor, "accessToken"), &["pub", &topic, "1"])).expect(0);
}

#[test]
fn the_token_of_an_actor_is_shown_when_it_is_created_and_never_again() {
    let broker = Broker::start();
    let ran =
        run(&mut broker.api(&["actors", "create", "--name", "x", "--type", "user", "--json"])).expect(0);
    let actor: Value = serde_json::from_str(&ran.stdout).unwrap();
    let (id, token) = (text(&actor, "actorTokenId"), text(&actor, "accessToken"));
    assert!(ran.stderr.contains("not shown again") && !ran.stderr.contains(token), "{ran:?}");
    for args in [
        &["actors", "get", id][..],
        &["actors", "get", id, "--json"],
        &["actors", "list", "--json"],
        &["actors", "update", id, "--name", "y", "--json"],
        &["actors", "delete", id, "--json"],
    ] {
        let ran = run(&mut broker.api(args)).expect(0);
        assert!(!ran.stdout.contains(token) && !ran.stderr.contains(token), "{args:?}: {ran:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_token_that_cannot_be_written_is_a_failure_that_names_the_actor() {
    let broker = Broker::start();
    let mut create = broker.api(&["actors", "create", "--name", "x", "--type", "user"]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = create.stdout(full).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let actors = broker.api_json(&["actors", "list", "--name", "x"]);
    assert!(said.contains(text(&actors[0], "actorTokenId")) && said.contains("delete it"), "{said}");
}

#[test]
fn help_has_examples_and_exit_codes() {
    let help = run(&mut nolag(["api", "--help"])).expect(0).stdout;
    for words in
        ["Examples:", "nolag api apps create", "Exit codes:", "NOLAG_API_URL", "NOLAG_API_KEY", "--key-file"]
    {
        assert!(help.contains(words), "{words:?} is not in {help}");
    }
    run(&mut nolag(["api"])).expect(2);
}
