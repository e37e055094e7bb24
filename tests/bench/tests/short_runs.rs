//! Every work runs for a moment: counts and shapes are checked, never speed.

use std::time::Duration;

use nolag_bench::{Error, Event, Launch, Measurement, Settings, Target, Work, ratios, run};
use nolag_broker::TestBroker;

fn short(works: &[Work]) -> Settings {
    let mut settings = Settings::new(Launch::Thread);
    settings.works = works.to_vec();
    (settings.duration, settings.warmup) = (Duration::from_millis(50), Duration::from_millis(10));
    settings.rounds = 2;
    settings.baseline = true;
    settings.fanout_clients = 5;
    settings.connect_clients = 7;
    settings.idle_clients = 3;
    settings.subscriptions = 200;
    settings
}

#[track_caller]
fn measure(settings: &Settings) -> Vec<Measurement> {
    let (mut steps, mut started, mut told) = (0, 0, 0);
    let measured = run(settings, |event| match event {
        Event::Work { steps: more, .. } => steps += more,
        Event::Starting { .. } => started += 1,
        Event::Measured(_) => told += 1,
        _ => {}
    });
    let measurements = measured.unwrap();
    assert_eq!([started, told, measurements.len()], [steps; 3]);
    for measurement in &measurements {
        assert!(measurement.figures.is_clean(), "{measurement:?}");
    }
    measurements
}

/// The cases of the last round, in their order.
fn cases(measurements: &[Measurement]) -> Vec<&'static str> {
    let last = measurements.iter().map(|measurement| measurement.round).max().unwrap();
    measurements
        .iter()
        .filter(|measurement| measurement.round == last)
        .map(|measurement| measurement.case)
        .collect()
}

#[track_caller]
fn all_did_something(measurements: &[Measurement]) {
    for measurement in measurements {
        let figures = &measurement.figures;
        assert!(figures.count.unwrap() > 0 && figures.per_second.unwrap() > 0.0, "{measurement:?}");
    }
}

#[track_caller]
fn has_ratios(measurements: &[Measurement], names: &[&str]) {
    let found: Vec<_> = ratios(measurements).iter().map(|ratio| ratio.name).collect();
    assert_eq!(found, names);
}

#[test]
fn receiving_loses_nothing_on_any_runtime() {
    let measurements = measure(&short(&[Work::Receive]));
    let expected =
        ["bare", "tokio", "blocking", "async-std", "smol", "handler", "handler-100k", "handler-100k-busy"];
    assert_eq!(cases(&measurements), expected);
    all_did_something(&measurements);
    has_ratios(
        &measurements,
        &[
            "receive_tokio_vs_bare",
            "receive_handler_vs_bare",
            "receive_blocking_vs_tokio",
            "receive_async_std_vs_tokio",
            "receive_smol_vs_tokio",
            "receive_100k_subscriptions_vs_1",
            "receive_100k_topics_vs_1",
        ],
    );
}

#[test]
fn every_publish_arrives_and_is_confirmed() {
    let measurements = measure(&short(&[Work::Publish]));
    let expected = [
        "bare-window-1",
        "window-1",
        "bare-window-64",
        "window-64",
        "bare-window-1024",
        "window-1024",
        "bare-unconfirmed",
        "unconfirmed",
    ];
    assert_eq!(cases(&measurements), expected);
    all_did_something(&measurements);
    has_ratios(
        &measurements,
        &["publish_1_vs_bare", "publish_64_vs_bare", "publish_1024_vs_bare", "publish_unconfirmed_vs_bare"],
    );
}

#[test]
fn echoes_are_timed() {
    let measurements = measure(&short(&[Work::Rtt]));
    assert_eq!(cases(&measurements), ["bare", "tokio"]);
    all_did_something(&measurements);
    for measurement in &measurements {
        let latency = measurement.figures.latency.unwrap();
        let ordered = [latency.p50_us, latency.p90_us, latency.p99_us, latency.p999_us, latency.max_us];
        assert!(ordered[0] > 0.0 && ordered.is_sorted(), "{measurement:?}");
    }
    has_ratios(&measurements, &["rtt_p50_vs_bare", "rtt_p99_vs_bare"]);
}

#[test]
fn a_fan_out_reaches_every_subscriber() {
    let measurements = measure(&short(&[Work::Fanout]));
    assert_eq!(cases(&measurements), ["bare", "broker"]);
    all_did_something(&measurements);
    has_ratios(&measurements, &["fanout_200_vs_bare"]);
}

#[test]
fn all_clients_connect() {
    let measurements = measure(&short(&[Work::Connect]));
    assert_eq!(cases(&measurements), ["bare", "tokio"]);
    assert!(measurements.iter().all(|measurement| measurement.figures.count == Some(7)));
    has_ratios(&measurements, &["connect_vs_bare"]);
}

/// In the process of a test the figures mean nothing.
#[cfg(target_os = "linux")]
#[test]
fn memory_is_read_once() {
    let measurements = measure(&short(&[Work::Memory]));
    assert_eq!(cases(&measurements), ["idle-client", "idle-core", "subscription"]);
    assert!(measurements.iter().all(|measurement| measurement.figures.bytes.is_some()));
}

#[test]
fn messages_may_be_small_and_large() {
    for size in [100, 20_000] {
        let settings = Settings { size, rounds: 1, ..short(&[Work::Receive, Work::Rtt]) };
        all_did_something(&measure(&settings));
    }
}

#[test]
fn without_baseline_only_our_side_is_measured() {
    let settings =
        Settings { baseline: false, rounds: 1, ..short(&[Work::Rtt, Work::Fanout, Work::Connect]) };
    assert_eq!(cases(&measure(&settings)), ["tokio", "broker", "tokio"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_given_broker_gets_no_more_than_it_takes() {
    let broker = TestBroker::start().await;
    let target = Target {
        url: broker.url(),
        token: "dev-token-alice".into(),
        topic: "demo/general/messages".into(),
        rate: Some(40),
    };
    let mut settings = short(&Work::WITH_ANY_BROKER);
    (settings.target, settings.rounds, settings.baseline) = (Some(target), 1, false);
    let measurements = tokio::task::spawn_blocking(move || measure(&settings)).await.unwrap();
    assert_eq!(cases(&measurements), ["window-1", "window-32", "tokio", "tokio"]);
    all_did_something(&measurements);
    drop(broker);
}

#[test]
fn where_nobody_listens_the_client_says_so() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut settings = short(&[Work::Rtt]);
    settings.target = Some(Target {
        url: format!("ws://127.0.0.1:{port}/ws"),
        token: "dev-token-alice".into(),
        topic: "demo/general/messages".into(),
        rate: None,
    });
    assert!(matches!(run(&settings, |_| ()), Err(Error::Connect(_))));
}
