//! Errors in all the shapes that servers have, what they say, and what they never say.

use std::{error::Error as _, io, time::Duration};

use nolag_core::{
    TransportError, TransportErrorKind,
    rest::{
        ActorCreate, ApiError, AppCreate, AppUpdate, BatchMessage, ListParams, Request, RoomCreate,
        StatusError, Webhook, actors, apps, json, publish, rooms,
    },
};

const SECRET: &str = "5ecret5ecret5ecret";

fn error(status: u16, body: &str) -> ApiError {
    apps::get("a1").unwrap().parse(status, body.as_bytes()).expect_err("not a success")
}

fn refusal(status: u16, body: &str) -> StatusError {
    match error(status, body) {
        ApiError::Status(error) => *error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_control_planes_own_shape() {
    let body = r#"{"id":"0198-77","message":"App not found","timestamp":"2026-08-01T10:00:00.000Z"}"#;
    let refusal = refusal(404, body);
    assert_eq!((refusal.status, &*refusal.message), (404, "App not found"));
    assert_eq!(refusal.id.as_deref(), Some("0198-77"));
    assert_eq!((error(404, body).id(), error(404, "{}").id()), (Some("0198-77"), None));
    assert_eq!(refusal.timestamp.as_deref(), Some("2026-08-01T10:00:00.000Z"));
    assert_eq!(refusal.body, None);
    assert_eq!(error(404, body).to_string(), "GET /apps/a1: HTTP 404 Not Found: App not found (id 0198-77)");
}

#[test]
fn failed_validation_has_one_message_or_several() {
    let several =
        r#"{"statusCode":400,"message":["name must be a string","slug is bad"],"error":"Bad Request"}"#;
    let words = "GET /apps/a1: HTTP 400 Bad Request: name must be a string; slug is bad";
    assert_eq!(error(400, several).to_string(), words);
    let one = r#"{"statusCode":403,"message":"Forbidden resource","error":"Forbidden"}"#;
    assert_eq!(&*refusal(403, one).message, "Forbidden resource");
    let odd = r#"{"message":[{"property":"name"},7,null]}"#;
    assert_eq!(&*refusal(400, odd).message, r#"{"property":"name"}; 7; "#.trim());
}

#[test]
fn the_brokers_shape_has_a_code_and_the_index_of_a_message() {
    let call = publish::batch(&[BatchMessage::new("a1", "r1", "messages", 1)]).unwrap();
    let body = br#"{"error":{"code":42960,"message":"invalid_filter","index":3}}"#;
    let error = call.parse(400, body).unwrap_err();
    let words = "POST /v1/publish: HTTP 400 Bad Request (42960): invalid_filter, message 3 of the batch";
    assert_eq!(error.to_string(), words);
    let ApiError::Status(refusal) = error else { panic!("{error:?}") };
    assert_eq!((refusal.code, refusal.index), (Some(42960), Some(3)));
    assert_eq!(&*self::refusal(500, r#"{"error":"oops"}"#).message, "oops");
    assert_eq!(&*self::refusal(500, r#""plain words""#).message, "plain words");
}

#[test]
fn a_body_without_a_message_is_shown_as_it_is() {
    let html = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n\x1b[31m<body>\0</body>\n</html>\n";
    let refusal = refusal(502, html);
    assert_eq!((&*refusal.message, refusal.status), ("", 502));
    let line = "<html> <head><title>502 Bad Gateway</title></head> [31m<body> </body> </html>";
    assert_eq!(refusal.body.as_deref(), Some(line));
    assert_eq!(refusal.to_string(), format!("GET /apps/a1: HTTP 502 Bad Gateway: {line}"));
    for (body, kept) in [("", None), (" \n", None), ("[1]", Some("[1]")), (r#"{"a":1}"#, Some(r#"{"a":1}"#))]
    {
        assert_eq!(self::refusal(418, body).body.as_deref(), kept);
    }
    assert_eq!(error(418, "").to_string(), "GET /apps/a1: HTTP 418");
    assert_eq!(error(302, "").to_string(), "GET /apps/a1: HTTP 302 (a redirect)");
    assert_eq!(error(401, "").to_string(), "GET /apps/a1: HTTP 401 Unauthorized; check the API key");
}

#[test]
fn long_texts_are_cut() {
    let page = "<p>ü</p>\n".repeat(1_000_000);
    let refusal = refusal(500, &page);
    assert_eq!(refusal.body.as_deref().map(|body| body.chars().count()), Some(2048));
    assert!(refusal.to_string().chars().count() < 300);
    let message = json!({"message": "word ".repeat(100_000), "id": "i".repeat(100_000)}).to_string();
    let refusal = self::refusal(400, &message);
    assert!(refusal.message.len() <= 512 && refusal.id.unwrap().len() <= 512);
}

#[test]
fn a_success_that_cannot_be_read_says_that_it_was_done() {
    let call = apps::create(&AppCreate::new("n")).unwrap();
    let words = |body: &str| call.parse(201, body.as_bytes()).unwrap_err().to_string();
    let done = "POST /apps succeeded (HTTP 201), but its answer cannot be read: ";
    assert_eq!(words(""), format!("{done}the body is empty"));
    assert_eq!(words("{}"), format!("{done}there is no appId"));
    assert_eq!(
        words(r#"{"appId":"a"#),
        format!("{done}not JSON: EOF while parsing a string at line 1 column 11")
    );
    assert_eq!(
        words("<h1>Welcome</h1>"),
        format!(
            "{done}not JSON: expected value at line 1 column 1: <h1>Welcome</h1>; is this the right base URL?"
        )
    );
    assert_eq!(call.parse(201, b"").unwrap_err().status(), Some(201));
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    let deep = "[".repeat(1_000_000);
    assert!(matches!(apps::get("a1").unwrap().parse(200, deep.as_bytes()), Err(ApiError::Decode { .. })));
    assert_eq!(refusal(500, &deep).body.map(|body| body.len()), Some(2048));
}

#[test]
fn retry_after_is_read_in_seconds() {
    let after = |header: &str| error(429, "").with_retry_after(header).retry_after();
    let secs = |secs| Some(Duration::from_secs(secs));
    assert_eq!(after(" 7 "), secs(7));
    assert_eq!((after("0"), after("0.0")), (secs(0), secs(0)));
    assert_eq!((after("1.5"), after("0.001")), (secs(2), secs(1)), "never too early");
    assert_eq!(after("4294967296"), secs(1 << 32));
    assert_eq!(after("99999999999999999999"), secs(u64::MAX), "longer than anybody waits");
    for unread in ["", "-1", "1.", ".5", "1e3", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"] {
        assert_eq!(after(unread), None, "{unread}");
    }
    let misuse = apps::get("").unwrap_err();
    assert_eq!(misuse.clone().with_retry_after("7"), misuse);
    assert_eq!((misuse.retry_after(), misuse.status()), (None, None));
}

#[test]
fn retry_after_is_read_as_a_date_by_who_knows_the_time() {
    // Tue, 20 Oct 2026 07:28:00 GMT
    let now = Duration::from_secs(1_792_481_280);
    let after = |header: &str| error(503, "").with_retry_after_at(header, now).retry_after();
    assert_eq!(after("Wed, 21 Oct 2026 07:28:00 GMT"), Some(Duration::from_secs(24 * 3600)));
    assert_eq!(after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO), "it is over");
    assert_eq!(after("7"), Some(Duration::from_secs(7)));
    assert_eq!(after("tomorrow"), None);
}

#[test]
fn a_retry_after_that_cannot_be_read_is_told_and_allows_no_retry() {
    let request = apps::get("a1").unwrap().request().clone();
    for status in [429, 503] {
        assert!(request.may_retry(&error(status, "").with_retry_after("7")));
        let unread = error(status, "").with_retry_after(" Wed, 21 Oct\t2026 ");
        let ApiError::Status(refusal) = &unread else { panic!("{unread:?}") };
        assert_eq!(refusal.unread_retry_after.as_deref(), Some("Wed, 21 Oct 2026"));
        assert!(!request.may_retry(&unread));
        assert!(request.may_retry(&unread.with_retry_after("7")));
    }
}

#[test]
fn a_retry_is_allowed_where_nothing_can_happen_twice() {
    let read = apps::list(&ListParams::new()).unwrap().request().clone();
    let create = apps::create(&AppCreate::new("n")).unwrap().request().clone();
    let ensure = rooms::ensure("a1", &RoomCreate::new("n")).unwrap().request().clone();
    let answers = |status, body: &str, request: &Request| request.may_retry(&error(status, body));
    for request in [&read, &create, &ensure] {
        assert!(answers(429, "", request), "{request:?}");
        assert!(!answers(429, r#"{"error":{"code":42920}}"#, request), "{request:?}");
        for status in [301, 400, 401, 403, 404, 409, 422, 500, 501] {
            assert!(!answers(status, "", request), "{status} {request:?}");
        }
        for status in [408, 502, 503, 504] {
            assert_eq!(answers(status, "", request), request.is_idempotent(), "{status} {request:?}");
        }
        let fails = |kind| request.may_retry(&request.failed(TransportError::new(kind, "")));
        assert!(fails(TransportErrorKind::Connect) && fails(TransportErrorKind::Resolve));
        assert!(!fails(TransportErrorKind::Tls) && !fails(TransportErrorKind::Proxy(Some(407))));
        for kind in [TransportErrorKind::Io, TransportErrorKind::Timeout, TransportErrorKind::Closed(None)] {
            assert_eq!(fails(kind), request.is_idempotent(), "{kind:?} {request:?}");
        }
        assert!(!request.may_retry(&apps::get("a1").unwrap().parse(200, b"").unwrap_err()));
        assert!(!request.may_retry(&apps::get("").unwrap_err()));
    }
}

#[test]
fn a_fault_of_the_network_names_the_request_and_its_cause() {
    let cause = io::Error::new(io::ErrorKind::ConnectionRefused, "port 1 refuses");
    let fault = TransportError::new(TransportErrorKind::Connect, cause.to_string()).with_cause(cause);
    let error = apps::delete("a1").unwrap().request().failed(fault);
    assert_eq!(error.to_string(), "DELETE /apps/a1: cannot connect: port 1 refuses");
    assert!(error.source().is_some_and(|cause| cause.is::<io::Error>()));
    assert_eq!(error.status(), None);
    assert!(self::error(500, "").source().is_none());
}

#[test]
fn secrets_are_in_no_error() {
    let token = format!("at_live_0123456789ab.{SECRET}");
    let key = format!("nlg_sandbox_0123456789ab.{SECRET}-_{SECRET}");
    let shapes = [
        format!(r#"{{"message":"key {key} is wrong","id":"{key}","timestamp":"{token}"}}"#),
        format!(r#"{{"message":["token '{token}'",{{"token":"{token}"}}]}}"#),
        format!(r#"{{"error":{{"message":"Bearer {key}"}}}}"#),
        format!("<p>Authorization: Bearer {key}</p><p>{token}"),
        format!(r#"{{"accessToken":"{token}""#),
    ];
    for body in shapes {
        let refused = error(401, &body);
        assert!(!format!("{refused} {refused:?}").contains(SECRET), "{refused:?}");
        let create = actors::create(&ActorCreate::new("n", "user")).unwrap();
        let unreadable = create.parse(201, body.as_bytes()).expect_err("no actor");
        assert!(!format!("{unreadable} {unreadable:?}").contains(SECRET), "{unreadable:?}");
    }
    assert_eq!(
        &*refusal(400, r#""room_live_stream of v1.2 is not unique.""#).message,
        "room_live_stream of v1.2 is not unique."
    );
    assert_eq!(
        &*refusal(401, &format!(r#""key '{key}', token={token}.""#)).message,
        "key '(redacted)', token=(redacted)"
    );
}

/// What a server may make of a key that it was sent, on top of repeating it.
fn forms(key: &str) -> Vec<String> {
    let all = |byte: u8| format!("%{byte:02x}");
    vec![
        key.to_owned(),
        format!("Bearer {key}"),
        key.split_once('.').unwrap().1.to_owned(),
        key.replace('.', "%2E"),
        key.replace('.', "%2e"),
        key.replace('+', "%2B").replace('/', "%2F").replace('=', "%3d"),
        key.replace('/', "\\/"),
        key.bytes().map(all).collect(),
    ]
}

#[test]
fn the_own_key_is_in_no_error_in_whatever_form_the_server_repeats_it() {
    let key = "house-key.5ecret+sesame/tulip=";
    let parts = ["5ecret", "sesame", "tulip", "%73%65%73%61%6d%65", "%74%75%6c%69%70"];
    for form in forms(key) {
        let bodies = [
            json!({"message": format!("the key {form}, was wrong"), "id": form, "timestamp": form})
                .to_string(),
            json!({"message": [form], "error": "Bad Request"}).to_string(),
            json!({"error": {"code": 40100, "message": {"key": form}}}).to_string(),
            json!(form).to_string(),
            format!("<p>Authorization: {form}</p>"),
            format!("{}{form}", "<p></p>\n".repeat(2047)),
        ];
        for body in bodies {
            for status in [401, 200] {
                let call = apps::get("a1").unwrap().hiding(key);
                let error = call.parse(status, body.as_bytes()).expect_err("no app");
                let shown = format!("{error} {error:?}");
                let leak = parts.iter().find(|part| shown.contains(*part));
                assert_eq!(leak, None, "{form}: {shown}");
            }
        }
    }
    let call = apps::get("a1").unwrap().hiding(key);
    let error = call.parse(401, format!("the key {key}, was wrong").as_bytes()).unwrap_err();
    assert_eq!(error.body(), Some("the key (redacted), was wrong"));
    assert!(!format!("{call:?}").contains("5ecret"));
}

#[test]
fn what_is_too_short_to_be_a_secret_leaves_texts_readable() {
    let call = apps::get("a1").unwrap().hiding("a.b").hiding("").hiding("é.ключ");
    let error = call.parse(400, r#""a bad app: é.ключ""#.as_bytes()).unwrap_err();
    assert_eq!(error.message(), Some("a bad app: (redacted)"));
}

#[test]
fn a_key_or_a_token_in_the_place_of_an_id_is_not_shown() {
    let secrets = [
        format!("at_live_0123456789ab.{SECRET}"),
        format!("at_{SECRET}"),
        format!("nlg_live_0123456789ab.{SECRET}"),
        format!("nlg_sandbox_{SECRET}"),
        format!("other_live_0123456789ab.{SECRET}"),
        format!("at_live_{SECRET} x"),
        format!("key.{SECRET}"),
    ];
    for secret in &secrets {
        let call = rooms::get("a1", secret).unwrap().hiding(format!("key.{SECRET}"));
        let request = call.request();
        assert!(request.path.contains(SECRET), "it is sent as it was given");
        let errors = [
            call.parse(404, b"{}").unwrap_err(),
            call.parse(200, b"{}").unwrap_err(),
            request.failed(TransportError::new(TransportErrorKind::Io, "")),
        ];
        let shown = format!("{errors:?} {} {} {} {request:?} {call:?}", errors[0], errors[1], errors[2]);
        assert!(!shown.contains(SECRET), "{secret}: {shown}");
        assert!(errors[0].to_string().starts_with("GET /apps/a1/rooms/"), "{}", errors[0]);
    }
    let name = actors::get(&secrets[0]).unwrap().request().name();
    assert_eq!(&*name, "GET /actors/(redacted)");
    let found = apps::list(&ListParams::new().search(&secrets[0])).unwrap();
    assert_eq!(format!("{:?}", found.request()), "GET /apps?search=(redacted)");
    let plain = rooms::get("0198f3c1-7a52-7c40-9d2e-3f1a5b6c7d8e", "a/b c").unwrap();
    assert_eq!(&*plain.request().name(), "GET /apps/0198f3c1-7a52-7c40-9d2e-3f1a5b6c7d8e/rooms/a%2Fb%20c");
}

#[test]
fn a_webhook_shows_its_host_and_nothing_that_may_be_a_credential() {
    let shown = |url: &str| format!("{:?}", Webhook::new(url));
    assert_eq!(shown("https://example.org"), r#"Webhook { url: "https://example.org", headers: [] }"#);
    for (url, host) in [
        ("https://example.org:8443/", "https://example.org:8443/"),
        ("https://user:5ecret@example.org", "https://example.org"),
        ("https://hooks.example.org/T01/5ecret", "https://hooks.example.org/…"),
        ("https://example.org?key=5ecret", "https://example.org/…"),
        ("https://example.org#5ecret", "https://example.org/…"),
        ("https://user:5/ecret@example.org/", "…"),
        ("https://example.org/x@5ecret", "…"),
        ("5ecret.x://example.org", "…"),
        ("5ecret", "…"),
    ] {
        assert!(shown(url).contains(&format!("{host:?}")), "{url}: {}", shown(url));
        assert!(!shown(url).contains("5ecret") && !shown(url).contains("user"), "{url}: {}", shown(url));
    }
}

#[test]
fn a_cut_answer_to_a_new_actor_does_not_show_its_beginning() {
    let create = actors::create(&ActorCreate::new("n", "user")).unwrap();
    // The token is of a kind that nothing here would know by its looks.
    let body = format!(r#"{{"actorTokenId":"t1","accessToken":"{SECRET}"#);
    let error = create.parse(201, body.as_bytes()).unwrap_err();
    assert!(matches!(error, ApiError::Decode { body: None, .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains(SECRET));
}

#[test]
fn debug_shows_no_token_no_body_and_no_settings() {
    let answer = json!({
        "actorTokenId": "t1", "accessToken": SECRET, "metadata": {"pin": SECRET}, "secretHash": SECRET,
    });
    let call = actors::create(&ActorCreate::new("n", "user").metadata(json!({"pin": SECRET}))).unwrap();
    let created = call.parse(201, answer.to_string().as_bytes()).unwrap();
    let shown = format!("{created:?}");
    assert!(!shown.contains(SECRET) && shown.contains("redacted") && shown.contains("secretHash"), "{shown}");

    let webhook =
        Webhook::new(format!("https://u:{SECRET}@example.org/{SECRET}")).header("Authorization", SECRET);
    let settings = json!({"messages": {"webhooks": {"onPublish": {"headers": {"Authorization": SECRET}}}}});
    let create = AppCreate::new("n").trigger_webhook(webhook.clone()).topic_configs(settings.clone());
    let update = AppUpdate::new().hydration_webhook(webhook.clone()).config(json!([SECRET])).files(SECRET);
    let message = BatchMessage::new("a1", "r1", "messages", SECRET);
    let call = apps::create(&create).unwrap();
    let app = json!({"appId": "a1", "triggerWebhook": webhook, "topicConfigs": settings, "key": SECRET});
    let app = call.parse(201, app.to_string().as_bytes()).unwrap();
    let batch = publish::batch(std::slice::from_ref(&message)).unwrap();
    for shown in [
        format!("{create:?}"),
        format!("{update:?}"),
        format!("{message:?}"),
        format!("{app:?}"),
        format!("{call:?}"),
        format!("{batch:?}"),
    ] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
    assert!(format!("{app:?}").contains("Authorization"), "the names of headers help");
    let shown = format!("{:?}", batch.request());
    assert!(shown.starts_with("POST /v1/publish (") && shown.ends_with(" bytes)"), "{shown}");
}
