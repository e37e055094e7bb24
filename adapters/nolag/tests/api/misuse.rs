//! What can never work is told before anything is sent.

#[cfg(feature = "tokio")]
use nolag::Runtime;
use nolag::{
    ApiOptions, NoLagApi, NoLagApiError,
    api::{AppCreate, BatchMessage, ListParams, json},
};

use crate::{KEY, Server, Step, api, on_every_runtime, options, run};

fn misuse<T>(outcome: Result<T, NoLagApiError>) -> (&'static str, String) {
    match outcome.err() {
        Some(NoLagApiError::Misuse { what, reason }) => (what, reason.into()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn arguments_that_no_server_takes_are_refused_here() {
    on_every_runtime(|runtime| {
        let server = Server::start([]);
        let api = api(&server, runtime);
        assert_eq!(misuse(run(runtime, api.apps().get(""))).0, "app id");
        assert_eq!(misuse(run(runtime, api.apps().delete(".."))).0, "app id");
        assert_eq!(misuse(run(runtime, api.apps().create(&AppCreate::new("x".repeat(256))))).0, "name");
        assert_eq!(misuse(run(runtime, api.apps().create(&AppCreate::new("x").slug("Bad Slug")))).0, "slug");
        assert_eq!(misuse(run(runtime, api.publish(&[]))).0, "messages");
        assert_eq!(server.connections(), 0);
    });
}

#[test]
fn options_that_cannot_be_used_are_refused_by_every_call() {
    on_every_runtime(|runtime| {
        let server = Server::start([]);
        let with = |key: &str, options: ApiOptions| {
            misuse(run(runtime, NoLagApi::new(key, options).apps().list(&ListParams::new())))
        };
        let good = || options(&server, runtime);
        for url in [
            "",
            "localhost:1/v1",
            "ws://localhost/v1",
            "http://",
            "http://h/v1?a=b",
            "http://h/v1#x",
            "http://u@h/v1",
            "http://h/v1/../admin",
            "http://h/./v1",
            "http://h/%2e%2E/v1",
            "http://h/..",
            "http://h\\v1",
            "http://h/v1\\..",
            "http://bücher.example/v1",
            "http://h/vé",
            "http://[::1]junk/v1",
            "http://[::1]junk:80/v1",
            "http://[::1].h/v1",
            "http://[::zz]/v1",
            "http://[127.0.0.1]/v1",
            "http://h:99999/v1",
            "http://127.1/v1",
            "http://0x7f.1/v1",
            "http://256.0.0.1/v1",
            "http://h%2e/v1",
            "http://h;x/v1",
            "http://h /v1",
        ] {
            let (what, reason) = with(KEY, ApiOptions::new(url).runtime(runtime));
            assert_eq!(what, "base_url", "{url}: {reason}");
            if url.starts_with("ws") {
                continue;
            }
            let broker = good().broker_url(url.replace("http://", "ws://"));
            let publish = NoLagApi::new(KEY, broker).publish(&[BatchMessage::new("a1", "r1", "t", json!(1))]);
            assert_eq!(misuse(run(runtime, publish)).0, "broker_url", "{url}");
        }
        assert_eq!(
            misuse(run(runtime, NoLagApi::new(KEY, good()).apps().list(&ListParams::new().page(0)))).0,
            "page"
        );
        assert_eq!(with("", good()).0, "api_key");
        assert_eq!(with("two\nlines", good()).0, "api_key");
        assert_eq!(with(KEY, good().proxy("proxy:3128")).0, "proxy");
        for header in ["Authorization", "content-length", "Host", "no name", "transfer-encoding"] {
            assert_eq!(with(KEY, good().header(header, "x")).0, "header", "{header}");
        }
        assert_eq!(server.connections(), 0);
    });
}

#[test]
fn addresses_of_every_kind_are_taken() {
    on_every_runtime(|runtime| {
        for url in
            ["http://127.0.0.1:9/v1", "http://[::1]:9/v1/", "http://my_host-1.4d.example.:9/a%20b/v1..2/..."]
        {
            // Nothing is sent: there is no time for it.
            let options = ApiOptions::new(url).runtime(runtime).timeout(std::time::Duration::ZERO).retries(0);
            let outcome = run(runtime, NoLagApi::new(KEY, options).apps().get("a1"));
            assert!(
                matches!(outcome, Err(NoLagApiError::Transport { .. })),
                "{runtime:?} {url}: {outcome:?}"
            );
        }
    });
}

#[test]
fn a_bad_broker_address_spoils_only_publishing() {
    on_every_runtime(|runtime| {
        let server = Server::start([Step::json(200, "[]")]);
        let api = NoLagApi::new(KEY, options(&server, runtime).broker_url("localhost"));
        let messages = [BatchMessage::new("a1", "r1", "t", json!(1))];
        assert_eq!(misuse(run(runtime, api.publish(&messages))).0, "broker_url");
        run(runtime, api.apps().list(&ListParams::new())).unwrap();
    });
}

#[test]
fn a_call_that_is_dropped_before_it_is_awaited_sends_nothing() {
    on_every_runtime(|runtime| {
        let server = Server::start([]);
        let api = api(&server, runtime);
        drop(api.apps().create(&AppCreate::new("x")));
        drop(api.apps().pages(ListParams::new()));
        assert_eq!(server.connections(), 0, "{runtime:?}");
    });
}

#[cfg(all(feature = "tokio", feature = "blocking"))]
#[test]
fn a_call_on_tokio_outside_of_it_is_refused() {
    let server = Server::start([]);
    let (what, reason) = misuse(api(&server, Runtime::Tokio).apps().get("a1").wait());
    assert_eq!(what, "runtime");
    assert!(reason.contains("ApiOptions::runtime()"), "{reason}");
    assert_eq!(server.connections(), 0);
}

#[cfg(feature = "tokio")]
#[test]
fn a_tokio_runtime_without_io_or_timers_is_told_about() {
    use tokio::runtime::Builder;

    let server = Server::start([]);
    let runtimes = [
        Builder::new_current_thread().build(),
        Builder::new_current_thread().enable_io().build(),
        Builder::new_current_thread().enable_time().build(),
        Builder::new_multi_thread().worker_threads(1).build(),
    ];
    for runtime in runtimes {
        let api = api(&server, Runtime::Tokio);
        let app = crate::runtimes::soon(move || runtime.unwrap().block_on(api.apps().get("a1")));
        let (what, reason) = misuse(app);
        assert_eq!(what, "runtime");
        assert!(reason.contains("build it with enable_all()"), "{reason}");
    }
    assert_eq!(server.heard().len(), 0);
}

#[cfg(all(feature = "tokio", feature = "blocking"))]
#[test]
fn calls_on_threads_do_not_block_who_awaits_them() {
    let server = Server::start([Step::Silence, Step::json(200, r#"{"appId":"a1"}"#)]);
    let api = api(&server, Runtime::Blocking);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let app = crate::runtimes::soon(move || {
        runtime.block_on(async {
            let mut silent = api.apps().get("a1");
            let pending = std::future::poll_fn(|cx| {
                std::task::Poll::Ready(Future::poll(std::pin::Pin::new(&mut silent), cx).is_pending())
            });
            assert!(pending.await);
            // Which of the two is answered is a matter of who comes first.
            tokio::select! {
                app = silent => app,
                app = api.apps().get("a1") => app,
            }
        })
    });
    assert_eq!(app.unwrap().app_id, "a1");
}
