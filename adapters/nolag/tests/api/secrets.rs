//! The key and what else is secret show nowhere.

use nolag::{
    ApiOptions, NoLagApi, NoLagApiError, Runtime,
    api::{ActorCreate, ListParams},
};

use crate::{KEY, Server, Step, api, on_every_runtime, options, run};

/// What must not be shown, in any part.
const SECRETS: [&str; 3] = ["sesame", "hunter2", "tulip"];

fn check(shown: &str) {
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{secret} is in {shown}");
    }
}

#[test]
fn debug_output_has_no_secrets() {
    let options = ApiOptions::new("https://u:hunter2@example.com/v1?key=sesame")
        .broker_url("wss://u:hunter2@example.com/ws")
        .header("X-Gateway-Key", "tulip")
        .proxy("http://u:hunter2@proxy:1");
    check(&format!("{options:?}"));
    assert!(format!("{options:?}").contains("X-Gateway-Key"));
    let api = NoLagApi::new(KEY, options);
    let params = ListParams::new();
    check(&format!("{api:?} {:?} {:?}", api.apps(), api.apps().list(&params)));
    check(&format!("{:?}", api.apps().pages(params)));
}

fn check_error(runtime: Runtime, error: &NoLagApiError) {
    check(&format!("{runtime:?}: {error} {error:?}"));
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        check(&format!("{runtime:?}: {cause} {cause:?}"));
        next = cause.source();
    }
}

#[test]
fn errors_have_no_secrets_even_if_the_server_repeats_them() {
    on_every_runtime(|runtime| {
        let server = Server::start([
            Step::json(401, format!(r#"{{"message":"bad key {KEY}"}}"#)),
            Step::json(400, format!("<p>Authorization: Bearer {KEY}</p>")),
            Step::json(200, format!("<p>Authorization: Bearer {KEY}</p>")),
            Step::CloseInBody(201),
            Step::Close,
        ]);
        let api = NoLagApi::new(KEY, options(&server, runtime).header("X-Gateway-Key", "tulip").retries(0));
        let actor = ActorCreate::new("x", "device");
        for _ in 0..5 {
            check_error(runtime, &run(runtime, api.actors().create(&actor)).unwrap_err());
        }
        assert_eq!(server.heard().len(), 5);
        for bad in ["http://u:hunter2@example.com", "http://example.com/?key=sesame", "u:hunter2@example.com"]
        {
            let api = NoLagApi::new(KEY, ApiOptions::new(bad).runtime(runtime).broker_url(bad));
            check_error(runtime, &run(runtime, api.actors().create(&actor)).unwrap_err());
            let api = NoLagApi::new("sesame\n", options(&server, runtime).proxy(bad).header("x", "tulip\n"));
            check_error(runtime, &run(runtime, api.actors().create(&actor)).unwrap_err());
        }
    });
}

#[test]
fn errors_have_no_key_and_no_header_in_whatever_form_the_server_repeats_them() {
    on_every_runtime(|runtime| {
        let key = "house.sesame+sesame/sesame";
        let repeated =
            ["sesame+sesame/sesame", "Bearer house%2esesame%2Bsesame%2Fsesame", "of hunter2 tulip,"];
        for said in repeated {
            let bodies = [
                format!(r#"{{"message":"bad: {said}","id":"{said}"}}"#),
                format!(r#"{{"error":{{"message":["{said}"]}}}}"#),
                format!("<p>{said}</p>"),
            ];
            for body in bodies {
                let server = Server::start([Step::json(401, body.as_str()), Step::json(200, body)]);
                let options = options(&server, runtime).header("X-Gateway-Key", "hunter2 tulip");
                let api = NoLagApi::new(key, options);
                for _ in 0..2 {
                    let error = run(runtime, api.apps().get("a1")).unwrap_err();
                    check_error(runtime, &error);
                    assert_eq!(
                        error.message().is_some(),
                        error.status() == Some(401) && error.body().is_none()
                    );
                }
                assert_eq!(server.heard().len(), 2);
            }
        }
    });
}

#[test]
fn a_token_that_was_taken_for_an_id_is_not_shown() {
    on_every_runtime(|runtime| {
        let server = Server::start([Step::json(404, "{}"), Step::Close, Step::json(200, "[")]);
        let api = NoLagApi::new(KEY, options(&server, runtime).retries(0));
        for _ in 0..3 {
            let call = api.rooms().get("at_live_0123456789ab.tulip", KEY);
            check(&format!("{call:?}"));
            let error = run(runtime, call).unwrap_err();
            check_error(runtime, &error);
            assert!(error.to_string().starts_with("GET /apps/(redacted)/rooms/(redacted)"), "{error}");
        }
        assert_eq!(server.heard().len(), 3);
    });
}

#[test]
fn a_new_token_is_given_and_not_shown() {
    on_every_runtime(|runtime| {
        let body = r#"{"actorTokenId":"t1","accessToken":"at_live_0123456789ab.tulip"}"#;
        let server = Server::start([Step::json(201, body)]);
        let created =
            run(runtime, api(&server, runtime).actors().create(&ActorCreate::new("x", "device"))).unwrap();
        assert_eq!(created.access_token.expose(), "at_live_0123456789ab.tulip");
        check(&format!("{created:?}"));
    });
}

/// The tokio runtime polls on the thread of the test, so that its subscriber sees everything.
#[cfg(all(feature = "tracing", feature = "tokio"))]
#[tokio::test]
async fn traces_have_requests_and_no_secrets() {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let output = Output::default();
    let writer = output.clone();
    // While there is only one subscriber in the process, what other tests reach first on their threads, which have none,
    // counts as switched off for all.
    let _second = tracing::Dispatch::new(tracing_subscriber::fmt().with_writer(io::sink).finish());
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let body = r#"{"actorTokenId":"t1","accessToken":"at_live_0123456789ab.tulip"}"#;
    let busy = Step::json(429, format!(r#"{{"message":"{KEY}"}}"#));
    let server = Server::start([busy, Step::json(201, body)]);
    let api = NoLagApi::new(KEY, options(&server, Runtime::Tokio).header("X-Gateway-Key", "hunter2"));
    api.actors().create(&ActorCreate::new("x", "device")).await.unwrap();
    let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
    for expected in ["request=POST /actors", "attempt=0", "attempt=1", "request failed", "HTTP 429"] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    check(&text);
}
