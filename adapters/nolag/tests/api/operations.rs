//! Each operation: what is on the wire, and what comes back.

use nolag::{
    NoLagApi, NoLagApiError, Runtime,
    api::{
        AccessPermission, ActorCreate, ActorUpdate, AppCreate, AppUpdate, BatchMessage, ListParams, Patch,
        RoomAccessCreate, RoomCreate, RoomUpdate, ScopeCreate, ScopeUpdate, Value, json,
    },
};

use crate::{KEY, Server, Step, api, on_every_runtime, run};

/// An operation with the answer to it.
struct Operation {
    /// What is expected on the wire.
    line: &'static str,
    body: Value,
    /// What the server says.
    status: u16,
    answer: &'static str,
    /// What is expected of the result: its `Debug` has this.
    result: &'static str,
    call: fn(&NoLagApi, Runtime) -> Result<String, NoLagApiError>,
}

/// `line`, `body` => `status`, `answer` => `result`, `call`.
macro_rules! operations {
    ($($line:literal, $body:expr => $status:literal, $answer:literal => $result:literal, |$api:ident| $call:expr;)*) => {
        vec![$(Operation {
            line: $line,
            body: $body,
            status: $status,
            answer: $answer,
            result: $result,
            call: |$api, runtime| run(runtime, $call).map(|result| format!("{result:?}")),
        },)*]
    };
}

const NONE: Value = Value::Null;

fn operations() -> Vec<Operation> {
    let mut all = apps_and_rooms();
    all.extend(the_rest());
    all
}

fn apps_and_rooms() -> Vec<Operation> {
    operations! {
        "GET /v1/apps?page=2&limit=20&orderBy=name%3AASC&name=my%20app%26", NONE
            => 200, r#"{"data":[{"appId":"a1"}],"pagination":{"total":21,"page":2,"pageCount":2}}"#
            => "total: 21", |api| api.apps().list(
                &ListParams::new().page(2).limit(20)
                    .order_by("name", nolag::api::SortOrder::Asc).name("my app&"));
        "GET /v1/apps/a%2F1", NONE
            => 200, r#"{"appId":"a/1","slug":"chat-a3f9"}"# => "chat-a3f9", |api| api.apps().get("a/1");
        "POST /v1/apps", json!({"name": "chat", "topics": ["messages"], "config": {"autoProvisionRooms": true}})
            => 201, r#"{"appId":"a1","slug":"chat-a3f9"}"# => "chat-a3f9", |api| api.apps().create(
                &AppCreate::new("chat").topics(["messages"]).config(json!({"autoProvisionRooms": true})));
        "PATCH /v1/apps/a1", json!({"name": "talk", "description": null})
            => 200, r#"{"appId":"a1","name":"talk"}"# => "talk", |api| api.apps().update(
                "a1", &AppUpdate::new().name("talk").description(Patch::Null));
        "DELETE /v1/apps/a1", NONE => 200, r#"{"success":true}"# => "()", |api| api.apps().delete("a1");
        "POST /v1/apps/a1/reset-to-blueprint", NONE
            => 200, r#"{"appId":"a1","blueprintId":"b7"}"# => "b7", |api| api.apps().reset_to_blueprint("a1");

        "GET /v1/apps/a1/rooms", NONE
            => 200, r#"[{"roomId":"r1"},{"roomId":"r2"}]"# => "r2", |api| api.rooms().list("a1", &ListParams::new());
        "GET /v1/apps/a1/rooms/r1", NONE
            => 200, r#"{"roomId":"r1","roomType":"static"}"# => "Static", |api| api.rooms().get("a1", "r1");
        "POST /v1/apps/a1/rooms", json!({"name": "General", "slug": "general", "enableWebRTC": true})
            => 201, r#"{"roomId":"r1","slug":"general"}"# => "general", |api| api.rooms().create(
                "a1", &RoomCreate::new("General").slug("general").enable_webrtc(true));
        "POST /v1/apps/a1/rooms/ensure", json!({"name": "General"})
            => 200, r#"{"roomId":"r1"}"# => "r1", |api| api.rooms().ensure("a1", &RoomCreate::new("General"));
        "PATCH /v1/apps/a1/rooms/r1", json!({"isEnabled": false})
            => 200, r#"{"roomId":"r1","isEnabled":false}"# => "Some(false)", |api| api.rooms().update(
                "a1", "r1", &RoomUpdate::new().is_enabled(false));
        "DELETE /v1/apps/a1/rooms/r1", NONE => 204, "" => "()", |api| api.rooms().delete("a1", "r1");
        "POST /v1/apps/a1/rooms/r1/actors", json!({"permission": "pubSub", "actorTokenId": "t1"})
            => 201, r#"{"roomActorAccessId":"x1","permission":"pubSub"}"# => "PubSub", |api| api.rooms().grant_access(
                "a1", "r1", &RoomAccessCreate::to_actor("t1", AccessPermission::PubSub));
        "GET /v1/apps/a1/rooms/r1/actors", NONE
            => 200, r#"[{"roomActorAccessId":"x1"}]"# => "x1", |api| api.rooms().list_access(
                "a1", "r1", &ListParams::new());
        "DELETE /v1/apps/a1/rooms/r1/actors/x1", NONE
            => 204, "" => "()", |api| api.rooms().revoke_access("a1", "r1", "x1");
    }
}

fn the_rest() -> Vec<Operation> {
    operations! {
        "GET /v1/actors?limit=5", NONE
            => 200, r#"[{"actorTokenId":"t1"}]"# => "t1", |api| api.actors().list(&ListParams::new().limit(5));
        "GET /v1/actors/t1", NONE
            => 200, r#"{"actorTokenId":"t1","actorType":"robot"}"# => "robot", |api| api.actors().get("t1");
        "POST /v1/actors", json!({"name": "web", "actorType": "device", "metadata": {"platform": "web"}})
            => 201, r#"{"actorTokenId":"t1","accessToken":"at_live_0123456789ab.secret"}"#
            => "Token(redacted)", |api| api.actors().create(
                &ActorCreate::new("web", "device").metadata(json!({"platform": "web"})));
        "PATCH /v1/actors/t1", json!({"accessScopeId": "s1", "expiresAt": null})
            => 200, r#"{"actorTokenId":"t1","accessScopeId":"s1"}"# => "s1", |api| api.actors().update(
                "t1", &ActorUpdate::new().access_scope_id("s1").expires_at(Patch::Null));
        "DELETE /v1/actors/t1", NONE => 200, r#"{"success":true}"# => "()", |api| api.actors().delete("t1");

        "GET /v1/scopes", NONE
            => 200, r#"{"data":[{"accessScopeId":"s1"}],"pagination":{"total":1,"page":1,"pageCount":1}}"#
            => "s1", |api| api.scopes().list(&ListParams::new());
        "GET /v1/scopes/s1", NONE
            => 200, r#"{"accessScopeId":"s1","slug":"acme"}"# => "acme", |api| api.scopes().get("s1");
        "POST /v1/scopes", json!({"slug": "acme", "name": "Acme"})
            => 201, r#"{"accessScopeId":"s1"}"# => "s1", |api| api.scopes().create(&ScopeCreate::new("acme", "Acme"));
        "PATCH /v1/scopes/s1", json!({"name": "Acme Inc"})
            => 200, r#"{"accessScopeId":"s1","name":"Acme Inc"}"# => "Acme Inc", |api| api.scopes().update(
                "s1", &ScopeUpdate::new().name("Acme Inc"));
        "DELETE /v1/scopes/s1", NONE => 204, "" => "()", |api| api.scopes().delete("s1");
        "GET /v1/scopes/s1/actors", NONE
            => 200, r#"[{"actorTokenId":"t1"}]"# => "t1", |api| api.scopes().list_actors("s1", &ListParams::new());
        "PATCH /v1/actors/t1", json!({"accessScopeId": "s1"})
            => 200, r#"{"actorTokenId":"t1"}"# => "t1", |api| api.scopes().add_actor("s1", "t1");
        "PATCH /v1/actors/t1", json!({"accessScopeId": null})
            => 200, r#"{"actorTokenId":"t1"}"# => "t1", |api| api.scopes().remove_actor("t1");

        // Of the broker: without /v1 of the control plane and /ws of its WebSocket.
        "POST /v1/publish", json!({"messages": [{"appId": "a1", "roomId": "r1", "topic": "messages", "data": {"n": 1}}]})
            => 202, r#"{"messages":[{"id":"m1"}]}"# => "m1", |api| api.publish(
                &[BatchMessage::new("a1", "r1", "messages", json!({"n": 1}))]);
    }
}

#[test]
fn every_operation_sends_its_request_and_reads_its_answer() {
    on_every_runtime(|runtime| {
        let operations = operations();
        let server = Server::start(operations.iter().map(|op| Step::json(op.status, op.answer)));
        let api = api(&server, runtime);
        for op in &operations {
            let result = (op.call)(&api, runtime).unwrap_or_else(|error| panic!("{runtime:?}: {error}"));
            assert!(result.contains(op.result), "{runtime:?}: {}: {result}", op.line);
        }
        let heard = server.heard();
        assert_eq!(heard.len(), operations.len());
        for (op, heard) in operations.iter().zip(&heard) {
            assert_eq!((heard.line.as_str(), heard.json()), (op.line, op.body.clone()), "{runtime:?}");
        }
        // Connections are kept. One may not be back yet when the next request wants it.
        assert!(server.connections() <= operations.len() / 2, "{runtime:?}: {}", server.connections());
    });
}

#[test]
fn every_request_has_the_same_headers_everywhere() {
    on_every_runtime(|runtime| {
        let server = Server::start([
            Step::json(200, "[]"),
            Step::json(201, r#"{"appId":"a1"}"#),
            Step::json(200, r#"{"appId":"a1"}"#),
        ]);
        let options =
            crate::options(&server, runtime).header("X-Gateway", "north").header("X-Gateway-Key", "k");
        let api = NoLagApi::new(KEY, options);
        run(runtime, api.apps().list(&ListParams::new())).unwrap();
        run(runtime, api.apps().create(&AppCreate::new("chat"))).unwrap();
        run(runtime, api.apps().reset_to_blueprint("a1")).unwrap();
        let host = server.address().to_string();
        let bearer = format!("Bearer {KEY}");
        let agent = concat!("nolag-rust/", env!("CARGO_PKG_VERSION"));
        let common = [
            ("accept", "application/json"),
            ("authorization", bearer.as_str()),
            ("host", host.as_str()),
            ("user-agent", agent),
            ("x-gateway", "north"),
            ("x-gateway-key", "k"),
        ];
        let with = |more: &[(&'static str, &'static str)]| {
            let mut all: Vec<(&str, &str)> = common.iter().chain(more).copied().collect();
            all.sort_unstable();
            all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>()
        };
        let heard = server.heard();
        assert_eq!(heard[0].headers, with(&[]), "{runtime:?}");
        let body = [("content-length", "15"), ("content-type", "application/json")];
        assert_eq!(heard[1].headers, with(&body), "{runtime:?}");
        assert_eq!(heard[2].headers, with(&[("content-length", "0")]), "{runtime:?}");
    });
}

#[test]
fn a_gateway_may_want_another_user_agent() {
    on_every_runtime(|runtime| {
        let server = Server::start([Step::json(200, "[]")]);
        let options = crate::options(&server, runtime).header("User-Agent", "mine/1").header("accept", "*/*");
        run(runtime, NoLagApi::new(KEY, options).apps().list(&ListParams::new())).unwrap();
        let heard = &server.heard()[0];
        assert_eq!((heard.header("user-agent"), heard.header("accept")), (Some("mine/1"), Some("*/*")));
    });
}

#[test]
fn a_header_that_is_given_twice_is_sent_twice() {
    on_every_runtime(|runtime| {
        let server = Server::start([Step::json(200, "[]")]);
        let options = crate::options(&server, runtime)
            .header("X-Tag", "one")
            .header("Accept", "text/plain")
            .header("x-tag", "two")
            .header("accept", "*/*");
        run(runtime, NoLagApi::new(KEY, options).apps().list(&ListParams::new())).unwrap();
        let heard = &server.heard()[0];
        let values = |name: &str| -> Vec<&str> {
            heard.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect()
        };
        assert_eq!(values("x-tag"), ["one", "two"], "{runtime:?}");
        assert_eq!(values("accept"), ["*/*", "text/plain"], "{runtime:?}");
        assert_eq!(values("authorization").len(), 1, "{runtime:?}");
    });
}

#[test]
fn what_a_server_says_before_its_answer_is_skipped() {
    on_every_runtime(|runtime| {
        let create = |first| {
            let created = Step::json(201, r#"{"appId":"a1"}"#);
            let server = Server::start([Step::First(first, created.into())]);
            run(runtime, api(&server, runtime).apps().create(&AppCreate::new("x"))).map(|app| app.app_id)
        };
        for first in [
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n",
        ] {
            assert_eq!(create(first).as_deref(), Ok("a1"), "{runtime:?}: {first:?}");
        }
        // As docs/rest.md says: ureq takes no `100 Continue` with headers.
        let outcome = create("HTTP/1.1 100 Continue\r\nx-gateway: north\r\n\r\n");
        match runtime {
            #[cfg(feature = "tokio")]
            Runtime::Tokio => assert_eq!(outcome.as_deref(), Ok("a1")),
            _ => assert!(
                matches!(&outcome, Err(NoLagApiError::Transport { error, .. }) if error.detail.contains("100-continue")),
                "{runtime:?}: {outcome:?}"
            ),
        }
    });
}

#[test]
fn a_proxy_on_the_way_to_a_plain_server_is_asked_as_documented() {
    on_every_runtime(|runtime| {
        let expected: &[&str] = match runtime {
            #[cfg(feature = "tokio")]
            Runtime::Tokio => &["GET http://127.0.0.1:9/v1/apps"],
            _ => &["CONNECT 127.0.0.1:9", "GET /v1/apps"],
        };
        let opened = Step::json(200, "");
        let steps = expected.iter().skip(1).map(|_| opened.clone()).chain([Step::json(200, "[]")]);
        // The proxy is the server, too.
        let server = Server::start(steps);
        let options = nolag::ApiOptions::new("http://127.0.0.1:9/v1").runtime(runtime).proxy(server.url(""));
        run(runtime, NoLagApi::new(KEY, options).apps().list(&ListParams::new())).unwrap();
        assert_eq!(server.lines(), expected, "{runtime:?}");
    });
}

#[cfg(feature = "tokio")]
#[test]
fn one_client_serves_several_tokio_runtimes() {
    let app = Step::json(200, r#"{"appId":"a1"}"#);
    let server = Server::start(std::iter::repeat_n(app, 20));
    let api = api(&server, Runtime::Tokio);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let connections = crate::runtimes::soon(move || {
        // It keeps a connection, which stands still while nobody is in this runtime.
        let mut calls = 0;
        loop {
            first.block_on(api.apps().get("a1")).unwrap();
            calls += 1;
            if server.connections() < calls {
                break;
            }
        }
        second.block_on(api.apps().get("a1")).unwrap();
        first.block_on(api.apps().get("a1")).unwrap();
        server.connections()
    });
    assert!(connections >= 3, "{connections}");
}

#[test]
fn every_operation_is_in_the_document_for_users_of_the_python_client() {
    const DOCUMENT: &str = include_str!("../../../../docs/from-python.md");
    const GROUPS: &str = include_str!("../../src/api/groups.rs");

    let (mut group, mut operations) = (String::new(), 0);
    for line in GROUPS.lines() {
        if let Some(name) = line.strip_prefix("impl ") {
            group = name.trim_end_matches(" {").to_lowercase();
        } else if let Some(operation) = line.trim().strip_prefix("pub fn ") {
            let name = operation.split('(').next().unwrap();
            let call = format!("`api.{group}().{name}(");
            assert!(DOCUMENT.contains(&call), "{call} is not in docs/from-python.md");
            operations += 1;
        }
    }
    assert!(operations >= 30, "{operations}");
}
