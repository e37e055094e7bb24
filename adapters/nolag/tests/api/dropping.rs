//! Calls that are dropped.

use std::{
    future::{IntoFuture as _, poll_fn},
    pin::pin,
    task::Poll,
};

use nolag::api::{AppCreate, ListParams};

use crate::{
    Server, Step, api, on_every_runtime,
    runtimes::{drive, run},
};

#[test]
fn a_call_that_is_never_polled_does_nothing() {
    on_every_runtime(|runtime| {
        let server = Server::start([Step::json(200, "[]")]);
        let api = api(&server, runtime);
        drop(api.apps().create(&AppCreate::new("x")));
        drop(api.apps().create(&AppCreate::new("x")).into_future());
        run(runtime, api.apps().list(&ListParams::new())).unwrap();
        let heard: Vec<String> = server.heard().into_iter().map(|heard| heard.line).collect();
        assert_eq!(heard, ["GET /v1/apps"], "{runtime:?}");
    });
}

#[test]
fn a_call_that_is_dropped_after_any_poll_is_sent_once_at_most_and_harms_no_other() {
    on_every_runtime(|runtime| {
        // A call ends by itself once it may be polled often enough.
        for polls in 1.. {
            let server = Server::start([Step::json(201, r#"{"appId":"a1"}"#), Step::json(200, "[]")]);
            let api = api(&server, runtime);
            let ended = drive(runtime, async {
                let mut call = pin!(api.apps().create(&AppCreate::new("x")).into_future());
                let mut left = polls;
                poll_fn(|cx| {
                    let polled = call.as_mut().poll(cx).map(|created| Some(created.unwrap().app_id));
                    left -= 1;
                    if left == 0 && polled.is_pending() { Poll::Ready(None) } else { polled }
                })
                .await
            });
            if let Some(app_id) = ended {
                assert_eq!(app_id, "a1");
                return;
            }
            // Whichever of the two answers it takes: where the dropped one got the first, this gets the second.
            let _ = run(runtime, api.apps().list(&ListParams::new()));
            let creates = server.heard().iter().filter(|heard| heard.line.starts_with("POST")).count();
            assert!(creates <= 1, "{runtime:?}: {creates} after {polls} polls");
        }
    });
}
