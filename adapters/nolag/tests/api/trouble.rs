//! Servers that refuse, and answers that are none.

use std::{error::Error as _, net::TcpListener};

use nolag::{
    ApiOptions, NoLagApi, NoLagApiError, TransportErrorKind,
    api::{AppCreate, ListParams, StatusError},
};

use crate::{KEY, Server, Step, api, on_every_runtime, options, run};

#[test]
fn a_wrong_key_is_told_with_the_servers_words_and_id() {
    on_every_runtime(|runtime| {
        let body = r#"{"id":"e-1","message":"Invalid API key","timestamp":"2026-01-01T00:00:00Z"}"#;
        let server = Server::start([Step::json(401, body)]);
        let error = run(runtime, api(&server, runtime).apps().list(&ListParams::new())).unwrap_err();
        assert_eq!(
            (error.status(), error.message(), error.id()),
            (Some(401), Some("Invalid API key"), Some("e-1"))
        );
        assert_eq!((error.body(), error.source().is_none()), (None, true));
        let words = "GET /apps: HTTP 401 Unauthorized: Invalid API key (id e-1); check the API key";
        assert_eq!(error.to_string(), words, "{runtime:?}");
    });
}

#[test]
fn an_html_page_is_an_error_with_its_beginning() {
    on_every_runtime(|runtime| {
        let page = "<html> <h1>200</h1> <p>This is the gateway.</p></html>";
        let server = Server::start([Step::html(200)]);
        let error = run(runtime, api(&server, runtime).apps().create(&AppCreate::new("x"))).unwrap_err();
        assert!(matches!(&error, NoLagApiError::Decode { .. }), "{runtime:?}: {error:?}");
        assert_eq!((error.status(), error.message(), error.body()), (Some(200), None, Some(page)));

        let server = Server::start([Step::html(403)]);
        let error = run(runtime, api(&server, runtime).apps().get("a1")).unwrap_err();
        assert!(matches!(&error, NoLagApiError::Status(error) if is_bare(error)), "{runtime:?}: {error:?}");
        assert_eq!(error.body(), Some(page.replace("200", "403").as_str()));
    });
}

#[test]
fn a_page_in_the_place_of_a_delete_is_an_error() {
    on_every_runtime(|runtime| {
        let server =
            Server::start([Step::html(200), Step::json(204, ""), Step::json(200, r#"{"success":true}"#)]);
        let api = api(&server, runtime);
        let error = run(runtime, api.apps().delete("a1")).unwrap_err();
        assert!(matches!(&error, NoLagApiError::Decode { status: 200, .. }), "{runtime:?}: {error:?}");
        assert!(error.to_string().contains("is this the right base URL?"), "{error}");
        assert_eq!(run(runtime, api.apps().delete("a1")), Ok(()), "{runtime:?}");
        assert_eq!(run(runtime, api.apps().delete("a1")), Ok(()), "{runtime:?}");
    });
}

#[test]
fn a_base_url_without_its_version_is_told_where_nothing_is_found() {
    on_every_runtime(|runtime| {
        let nobody =
            Step::json(404, r#"{"message":"Cannot GET /apps","error":"Not Found","statusCode":404}"#);
        let control_plane = Step::json(404, r#"{"id":"e-1","message":"App not found"}"#);
        let ask = |path: &str, step: &Step| {
            let server = Server::start([step.clone()]);
            let api = NoLagApi::new(KEY, ApiOptions::new(server.url(path)).runtime(runtime));
            let words = run(runtime, api.apps().list(&ListParams::new())).unwrap_err().to_string();
            words.replace(&server.url(""), "http://h")
        };
        let words = "GET /apps: HTTP 404 Not Found: Cannot GET /apps";
        for path in ["", "/"] {
            assert_eq!(ask(path, &nobody), format!("{words}; is the base URL http://h/v1?"), "{runtime:?}");
        }
        assert_eq!(
            ask("/api/", &nobody),
            format!("{words}; is the base URL http://h/api/v1?"),
            "{runtime:?}"
        );
        assert_eq!(ask("/v1", &nobody), words, "{runtime:?}");
        assert_eq!(ask("/v1/", &nobody), words, "{runtime:?}");
        assert!(!ask("/", &control_plane).contains("base URL"), "{runtime:?}");
    });
}

fn is_bare(error: &StatusError) -> bool {
    error.status == 403 && error.message.is_empty() && error.id.is_none()
}

#[test]
fn answers_over_the_limit_are_not_read() {
    on_every_runtime(|runtime| {
        let long = |length: usize| format!(r#"{{"appId":"a1","name":"{}"}}"#, "x".repeat(length - 24));
        let server = Server::start([
            Step::json(200, long(1000)),
            Step::json(200, long(1001)),
            Step::json(200, long(2_000_000)),
            Step::json(403, long(2_000_000)),
        ]);
        let api = NoLagApi::new(KEY, options(&server, runtime).max_inbound_size(1000));
        assert_eq!(run(runtime, api.apps().get("a1")).unwrap().app_id, "a1");
        for _ in 0..2 {
            let error = run(runtime, api.apps().get("a1")).unwrap_err();
            let words = "GET /apps/a1 succeeded (HTTP 200), but its answer cannot be read: it has more than 1000 bytes";
            assert_eq!(error.to_string(), words, "{runtime:?}");
        }
        assert_eq!(run(runtime, api.apps().get("a1")).unwrap_err().status(), Some(403), "{runtime:?}");
        assert_eq!(server.heard().len(), 4);
    });
}

#[test]
fn redirects_are_not_followed() {
    on_every_runtime(|runtime| {
        let elsewhere = Server::start([]);
        for status in [301, 302, 303, 307, 308] {
            let away = Step::json(status, "").header("location", elsewhere.url("/v1/apps"));
            let server = Server::start([away.clone(), away]);
            let api = api(&server, runtime);
            let read = run(runtime, api.apps().list(&ListParams::new())).unwrap_err();
            let created = run(runtime, api.apps().create(&AppCreate::new("x"))).unwrap_err();
            assert_eq!((read.status(), created.status()), (Some(status), Some(status)), "{runtime:?}");
            assert!(read.to_string().contains("a redirect"), "{read}");
            assert_eq!(server.heard().len(), 2);
        }
        assert_eq!(elsewhere.connections(), 0, "{runtime:?}");
    });
}

#[test]
fn a_server_that_is_not_there_is_told_with_its_cause() {
    // Bound and not listened on by anybody else while this test runs.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    drop(taken);
    on_every_runtime(|runtime| {
        let options = ApiOptions::new(format!("http://127.0.0.1:{port}/v1")).runtime(runtime).retries(0);
        let error =
            run(runtime, NoLagApi::new(KEY, options).apps().create(&AppCreate::new("x"))).unwrap_err();
        let NoLagApiError::Transport { error: fault, .. } = &error else { panic!("{runtime:?}: {error:?}") };
        assert_eq!(fault.kind, TransportErrorKind::Connect, "{runtime:?}: {error}");
        assert!(error.to_string().starts_with("POST /apps: cannot connect: "), "{error}");
        assert!(error.source().is_some(), "{runtime:?}");
    });
}

#[test]
fn a_host_without_an_address_is_told() {
    on_every_runtime(|runtime| {
        // No name has parts this long, so that nobody has to be asked.
        let url = format!("http://{}.invalid/v1", "x".repeat(64));
        let options = ApiOptions::new(url).runtime(runtime).retries(0);
        let error = run(runtime, NoLagApi::new(KEY, options).apps().get("a1")).unwrap_err();
        let NoLagApiError::Transport { error, .. } = &error else { panic!("{runtime:?}: {error:?}") };
        assert_eq!(error.kind, TransportErrorKind::Resolve, "{runtime:?}: {error}");
    });
}

#[test]
fn what_is_not_http_is_an_error() {
    on_every_runtime(|runtime| {
        let server = Server::behind([], |mut stream| {
            use std::io::{Read as _, Write as _};
            // Reads what comes first, so that the answer is not lost to a reset.
            let _ = stream.read(&mut [0; 4096]);
            stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n\r\n").unwrap();
            None
        });
        let error = run(runtime, api(&server, runtime).apps().create(&AppCreate::new("x"))).unwrap_err();
        assert!(matches!(&error, NoLagApiError::Transport { .. }), "{runtime:?}: {error:?}");
        assert_eq!(server.connections(), 1, "{runtime:?}");
    });
}
