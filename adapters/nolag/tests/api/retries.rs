//! What is tried again, and what is not: nothing is created twice.

use std::time::{Duration, Instant};

use nolag::{
    NoLagApi, NoLagApiError, Runtime, TransportErrorKind,
    api::{
        ActorCreate, AppCreate, BatchMessage, ListParams, RoomAccessCreate, RoomCreate, RoomUpdate,
        ScopeCreate, json,
    },
};

use crate::{KEY, PATIENCE, Server, Step, api, on_every_runtime, options, run};

type Outcome = Result<(), NoLagApiError>;
type Try = fn(&NoLagApi, Runtime) -> Outcome;

/// What may be sent twice.
const SAFE: [Try; 5] = [
    |api, runtime| run(runtime, api.apps().list(&ListParams::new())).map(drop),
    |api, runtime| run(runtime, api.rooms().update("a1", "r1", &RoomUpdate::new().name("x"))).map(drop),
    |api, runtime| run(runtime, api.rooms().ensure("a1", &RoomCreate::new("x"))).map(drop),
    |api, runtime| run(runtime, api.apps().reset_to_blueprint("a1")).map(drop),
    |api, runtime| run(runtime, api.actors().delete("t1")),
];

/// What would happen twice.
const UNSAFE: [Try; 6] = [
    |api, runtime| run(runtime, api.apps().create(&AppCreate::new("x"))).map(drop),
    |api, runtime| run(runtime, api.rooms().create("a1", &RoomCreate::new("x"))).map(drop),
    |api, runtime| {
        run(runtime, api.rooms().grant_access("a1", "r1", &RoomAccessCreate::to_actor("t1", "publish")))
            .map(drop)
    },
    |api, runtime| run(runtime, api.actors().create(&ActorCreate::new("x", "device"))).map(drop),
    |api, runtime| run(runtime, api.scopes().create(&ScopeCreate::new("x", "x"))).map(drop),
    |api, runtime| run(runtime, api.publish(&[BatchMessage::new("a1", "r1", "t", json!(1))])).map(drop),
];

/// What may have been done although it failed.
fn doubtful() -> [Step; 7] {
    [
        Step::json(408, r#"{"message":"slow"}"#),
        Step::html(502),
        Step::html(503),
        Step::html(504),
        Step::Close,
        Step::CloseInBody(200),
        Step::CloseInBody(502),
    ]
}

/// An answer to all of [`SAFE`].
fn fine() -> Step {
    Step::json(200, r#"{"data":[],"roomId":"r1","appId":"a1"}"#)
}

#[test]
fn what_may_be_sent_twice_is_tried_again() {
    on_every_runtime(|runtime| {
        for (index, attempt) in SAFE.iter().enumerate() {
            for step in doubtful() {
                let server = Server::start([step.clone(), step.clone(), fine()]);
                let outcome = attempt(&api(&server, runtime), runtime);
                assert_eq!(outcome, Ok(()), "{runtime:?} {index} {step:?}");
                let lines = server.lines();
                assert_eq!(lines, vec![lines[0].clone(); 3], "{runtime:?}");
            }
        }
    });
}

#[test]
fn what_would_happen_twice_is_not() {
    on_every_runtime(|runtime| {
        for (index, attempt) in UNSAFE.iter().enumerate() {
            for step in doubtful() {
                let server = Server::start([step.clone()]);
                let error = attempt(&api(&server, runtime), runtime).unwrap_err();
                assert_eq!(server.heard().len(), 1, "{runtime:?} {index} {step:?}");
                match step {
                    Step::Answer { status, .. } => assert_eq!(error.status(), Some(status)),
                    _ => assert!(
                        matches!(&error, NoLagApiError::Transport { error, .. } if error.kind == TransportErrorKind::Io),
                        "{runtime:?} {index} {step:?}: {error:?}"
                    ),
                }
            }
        }
    });
}

#[test]
fn a_connection_that_the_server_closed_meanwhile_is_not_the_calls_fault() {
    on_every_runtime(|runtime| {
        // Answers, and closes the connection that the client keeps for the next call.
        let once = |body: &str| Step::json(200, body).header("connection", "close");
        let server = Server::start([once("[]"), once(r#"{"appId":"a1"}"#)]);
        let api = api(&server, runtime);
        run(runtime, api.apps().list(&ListParams::new())).unwrap();
        run(runtime, api.apps().create(&AppCreate::new("x"))).unwrap();
        assert_eq!((server.heard().len(), server.connections()), (2, 2), "{runtime:?}");
    });
}

#[test]
fn what_was_sent_on_a_kept_connection_is_not_sent_again_either() {
    on_every_runtime(|runtime| {
        let created = Step::json(201, r#"{"appId":"a1"}"#);
        let server = Server::start([Step::json(200, "[]"), Step::Close, created]);
        let api = api(&server, runtime);
        run(runtime, api.apps().list(&ListParams::new())).unwrap();
        let error = run(runtime, api.apps().create(&AppCreate::new("x"))).unwrap_err();
        assert!(matches!(&error, NoLagApiError::Transport { .. }), "{runtime:?}: {error:?}");
        assert_eq!(server.lines(), ["GET /v1/apps", "POST /v1/apps"], "{runtime:?}");
    });
}

#[test]
fn a_storm_ends_after_the_retries() {
    on_every_runtime(|runtime| {
        for (retries, attempts) in [(0, 1), (1, 2), (4, 5)] {
            let server = Server::start(std::iter::repeat_n(Step::html(503), 10));
            let api = NoLagApi::new(KEY, options(&server, runtime).retries(retries));
            let error = run(runtime, api.apps().get("a1")).unwrap_err();
            assert_eq!((error.status(), server.heard().len()), (Some(503), attempts), "{runtime:?}");
        }
    });
}

#[test]
fn a_storm_ends_when_the_time_is_over() {
    on_every_runtime(|runtime| {
        let server = Server::start(std::iter::repeat_n(Step::html(503), 1000));
        let options = options(&server, runtime).retries(u32::MAX).retry_interval(Duration::from_millis(50));
        let api = NoLagApi::new(KEY, options.timeout(Duration::from_millis(400)));
        let error = run(runtime, api.apps().get("a1")).unwrap_err();
        let attempts = server.heard().len();
        assert!(attempts <= 16, "{runtime:?}: {attempts}");
        // The pauses end before the time is over, an attempt under way is ended by it.
        assert!(error.status() == Some(503) || is_timeout(&error), "{runtime:?}: {error:?}");
    });
}

#[test]
fn too_many_requests_is_tried_again_when_the_server_says_whatever_it_is() {
    on_every_runtime(|runtime| {
        let busy = Step::json(429, r#"{"message":"slow down"}"#).header("retry-after", "1");
        let server = Server::start([busy, Step::json(201, r#"{"appId":"a1"}"#)]);
        let api = api(&server, runtime);
        let start = Instant::now();
        run(runtime, api.apps().create(&AppCreate::new("x"))).unwrap();
        assert!(start.elapsed() >= Duration::from_secs(1), "{runtime:?}: {:?}", start.elapsed());
        assert_eq!(server.lines(), ["POST /v1/apps"; 2], "{runtime:?}");
    });
}

#[test]
fn a_server_that_asks_for_more_time_than_there_is_gets_no_second_request() {
    on_every_runtime(|runtime| {
        let busy = Step::json(429, r#"{"message":"slow down"}"#).header("Retry-After", "3600");
        let server = Server::start([busy]);
        let error = run(runtime, api(&server, runtime).apps().get("a1")).unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(3600)), "{runtime:?}");
        assert_eq!((error.status(), error.message()), (Some(429), Some("slow down")));
        assert_eq!(server.heard().len(), 1);
    });
}

#[test]
fn a_time_to_come_back_is_kept_in_every_form_and_never_too_early() {
    on_every_runtime(|runtime| {
        // What is said, and whether how long that is can be known.
        for (header, known) in [
            ("Fri, 31 Dec 2999 23:59:59 GMT", true),
            ("4294967296", true),
            ("99999999999999999999", true),
            ("3600.5", true),
            ("in an hour", false),
            ("Friday, 31-Dec-99 23:59:59 GMT", false),
        ] {
            for status in [429, 503] {
                let busy = Step::json(status, r#"{"message":"slow down"}"#).header("retry-after", header);
                let server = Server::start([busy]);
                let error = run(runtime, api(&server, runtime).apps().get("a1")).unwrap_err();
                let wait = error.retry_after();
                assert_eq!(
                    wait.is_some_and(|wait| wait >= Duration::from_secs(3600)),
                    known,
                    "{header}: {wait:?}"
                );
                let NoLagApiError::Status(error) = error else { panic!("{runtime:?}: {error:?}") };
                assert_eq!(error.unread_retry_after.is_some(), !known, "{header}");
                assert_eq!(server.heard().len(), 1, "{runtime:?} {status} {header}");
            }
        }
        // It is over already.
        let busy = Step::json(429, "{}").header("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT");
        let server = Server::start([busy, Step::json(200, r#"{"appId":"a1"}"#)]);
        run(runtime, api(&server, runtime).apps().get("a1")).unwrap();
        assert_eq!(server.heard().len(), 2, "{runtime:?}");
    });
}

#[test]
fn what_would_only_fail_again_is_not_tried_again() {
    on_every_runtime(|runtime| {
        for status in [400, 401, 403, 404, 409, 413, 500, 501] {
            let server = Server::start([Step::json(status, r#"{"message":"no"}"#)]);
            let error = run(runtime, api(&server, runtime).apps().get("a1")).unwrap_err();
            assert_eq!((error.status(), server.heard().len()), (Some(status), 1), "{runtime:?}");
        }
        let spent = r#"{"error":{"code":42920,"message":"quota exceeded"}}"#;
        let server = Server::start([Step::json(429, spent)]);
        let messages = [BatchMessage::new("a1", "r1", "t", json!(1))];
        let error = run(runtime, api(&server, runtime).publish(&messages)).unwrap_err();
        assert_eq!((error.status(), server.heard().len()), (Some(429), 1), "{runtime:?}");
    });
}

#[test]
fn silence_is_a_timeout_and_ends_the_call() {
    on_every_runtime(|runtime| {
        let server = Server::start([Step::Silence]);
        let api = NoLagApi::new(KEY, options(&server, runtime).timeout(Duration::from_millis(200)));
        let start = Instant::now();
        let error = run(runtime, api.apps().get("a1")).unwrap_err();
        assert!(start.elapsed() < PATIENCE, "{runtime:?}");
        assert!(is_timeout(&error), "{runtime:?}: {error:?}");
        let words = "GET /apps/a1: it took too long: there was no answer within 200ms";
        assert_eq!(error.to_string(), words, "{runtime:?}");
        // None where even connecting took that long.
        assert!(server.heard().len() <= 1, "{runtime:?}");
    });
}

fn is_timeout(error: &NoLagApiError) -> bool {
    matches!(error, NoLagApiError::Transport { error, .. } if error.kind == TransportErrorKind::Timeout)
}
