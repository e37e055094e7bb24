//! Losing the connection, coming back, and putting back what stood.

mod support;

use std::time::Duration;

use bytes::BytesMut;
use nolag_core::{
    Action, Config, Error, Event, Instant, Op, Outcome, ReconnectPolicy, Rejection, Status, Subscribe,
    TransportErrorKind,
    wire::{Filter, RawValue, write},
};
use support::*;

const OTHER: &str = "demo/general/other";

/// The delay that the last event announced.
#[track_caller]
fn retry_in(peer: &mut Peer) -> Option<Duration> {
    match peer.events().pop().expect("an event") {
        Event::Disconnected { retry_in, .. } | Event::AttemptFailed { retry_in, .. } => retry_in,
        other => panic!("not a failure: {other:?}"),
    }
}

fn unlimited() -> Config {
    with(|config| config.reconnect.max_attempts = None)
}

/// A client whose attempts to reconnect have failed that often.
fn failing(config: Config, times: usize) -> Peer {
    let mut peer = Peer::connected(config);
    peer.close(1006);
    for _ in 0..times {
        peer.reopen();
        peer.close(1006);
    }
    peer
}

// ---- whether to reconnect ----

#[test]
fn a_clean_close_is_a_disconnect_and_reconnects_like_any_other() {
    for code in [Some(1000), Some(1001), Some(1006), Some(1009), Some(1011), Some(1012), Some(4999), None] {
        let mut peer = Peer::default_connected();
        peer.close(code);
        assert_eq!(peer.core.status(), Status::Reconnecting, "{code:?}");
        let Event::Disconnected { cause: Error::Transport(cause), retry_in: Some(delay) } = peer.event()
        else {
            panic!("{code:?}")
        };
        assert_eq!(cause.kind, TransportErrorKind::Closed(code));
        assert!(delay <= secs(1));
        assert!(peer.closed().is_empty(), "it is closed already");
        peer.reconnect();
        assert_eq!(peer.core.status(), Status::Connected);
    }
}

#[test]
fn a_failed_transport_reconnects() {
    for kind in [TransportErrorKind::Io, TransportErrorKind::WebSocket, TransportErrorKind::Tls] {
        let mut peer = Peer::default_connected();
        peer.fail(kind);
        assert!(retry_in(&mut peer).is_some(), "{kind:?}");
        peer.reconnect();
    }
}

#[test]
fn a_revoked_or_expired_token_is_final() {
    for code in [4001, 4003] {
        let mut peer = Peer::default_connected();
        peer.subscription(TOPIC);
        peer.close(code);
        let events = peer.events();
        let [
            Event::Disconnected { retry_in: None, .. },
            Event::SubscriptionEnded { .. },
            Event::GaveUp { cause: Error::Transport(cause) },
        ] = &events[..]
        else {
            panic!("{events:?}")
        };
        assert_eq!(cause.kind, TransportErrorKind::Closed(Some(code)));
        assert_eq!(peer.core.status(), Status::Disconnected);
        assert_eq!(peer.core.poll_timeout(), None);
    }
}

#[test]
fn an_organization_that_is_full_is_left_alone_for_long() {
    for seed in 0..20 {
        let mut peer = Peer::with_seed(config(), seed);
        peer.connect();
        peer.open();
        peer.accept();
        peer.close(4002);
        let delay = retry_in(&mut peer).expect("it may clear");
        assert!((secs(30)..=secs(60)).contains(&delay), "{delay:?}");
        peer.reopen();
        peer.deny("connection_limit_reached");
        let delay = retry_in(&mut peer).expect("it may clear");
        assert!((secs(30)..=secs(60)).contains(&delay), "{delay:?}");
        peer.reconnect();
        assert_eq!(peer.core.status(), Status::Connected);
    }
}

#[test]
fn passing_troubles_of_the_auth_backend_are_retried_and_a_denial_is_not() {
    for error in ["connection_failed", "broker_unavailable", "authentication_failed"] {
        let mut peer = Peer::default_connected();
        peer.close(1006);
        peer.reopen();
        peer.forget();
        peer.deny(error);
        assert_eq!(peer.closed(), [1000]);
        assert!(retry_in(&mut peer).is_some(), "{error}");
    }
    for error in ["access_denied", "token_expired", "something new"] {
        let mut peer = Peer::default_connected();
        peer.close(1006);
        peer.reopen();
        peer.forget();
        peer.deny(error);
        assert!(matches!(peer.events().pop(), Some(Event::GaveUp { cause: Error::Server(_) })), "{error}");
        assert_eq!(peer.core.poll_timeout(), None);
    }
}

// ---- when to reconnect ----

#[test]
fn the_first_attempt_comes_within_a_second_and_not_for_all_clients_at_once() {
    let mut delays: Vec<Duration> = (0..50)
        .map(|seed| {
            let mut peer = Peer::with_seed(config(), seed);
            peer.connect();
            peer.open();
            peer.accept();
            peer.close(1000);
            retry_in(&mut peer).expect("a retry")
        })
        .collect();
    delays.sort_unstable();
    delays.dedup();
    assert!(delays.len() > 45, "spread out");
    assert!(*delays.last().unwrap() <= secs(1));
}

#[test]
fn an_announced_delay_is_kept() {
    let mut peer = Peer::default_connected();
    peer.close(1006);
    let delay = retry_in(&mut peer).expect("a retry");
    peer.actions();
    peer.advance(delay - Duration::from_micros(1));
    assert_eq!(peer.opened(), 0);
    peer.advance(Duration::from_micros(1));
    assert_eq!(peer.opened(), 1);
}

#[test]
fn delays_grow_by_half_from_five_seconds_to_sixty() {
    let steps = [5_000, 7_500, 11_250, 16_875, 25_312, 37_968, 56_953, 60_000, 60_000, 60_000, 60_000];
    for seed in 0..10 {
        let mut peer = Peer::with_seed(unlimited(), seed);
        peer.connect();
        peer.open();
        peer.accept();
        peer.close(1006);
        for (n, step) in steps.into_iter().enumerate() {
            peer.reopen();
            peer.events();
            peer.fail(TransportErrorKind::Io);
            let delay = retry_in(&mut peer).expect("a retry").as_millis();
            assert!((step / 2..=step + 1).contains(&delay), "after failure {n}: {delay} ms of {step}");
        }
    }
}

#[test]
fn attempts_that_time_out_count_as_failures() {
    let mut peer = Peer::connected(with(|config| config.reconnect.max_attempts = Some(2)));
    peer.close(1006);
    peer.forget();
    peer.advance(secs(60));
    let attempts: Vec<u32> = peer
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::AttemptFailed { attempt, .. } => Some(attempt),
            _ => None,
        })
        .collect();
    assert_eq!(attempts, [1, 2]);
    assert_eq!(peer.core.status(), Status::Disconnected);
}

#[test]
fn after_ten_failures_in_a_row_the_client_gives_up_and_settles_everything() {
    let mut peer = failing(config(), 9);
    let connect = peer.connect();
    let subscribe = peer.subscribe(TOPIC);
    peer.ack("m1");
    peer.reopen();
    peer.forget();
    peer.close(1006);
    let events = peer.events();
    assert!(
        matches!(
            &events[..],
            [Event::AttemptFailed { attempt: 10, retry_in: None, .. }, Event::GaveUp { .. }]
        ),
        "{events:?}"
    );
    assert!(matches!(peer.outcome(connect), Outcome::Failed(Error::Transport(_))));
    assert!(matches!(peer.outcome(subscribe), Outcome::NotSent(Error::Transport(_))));
    assert_eq!(peer.core.stats().acks_dropped, 1);
    assert_eq!(peer.core.poll_timeout(), None);
    assert!(peer.core.explain().contains("gave up"), "{}", peer.core.explain());
    assert!(matches!(
        peer.core.subscribe(peer.now, Subscribe::new(TOPIC)).unwrap_err().error,
        Error::Transport(_)
    ));

    // And connect starts again, with a count and a session of its own.
    let again = peer.connect();
    peer.open();
    assert_eq!(peer.sent(), ["auth"]);
    peer.accept();
    assert!(matches!(peer.outcome(again), Outcome::Connected(_)));
    peer.events();
    peer.close(1006);
    assert!(retry_in(&mut peer).expect("a retry") <= secs(1));
}

#[test]
fn standing_subscriptions_end_when_the_client_gives_up() {
    let mut peer = Peer::connected(with(|config| config.reconnect.max_attempts = Some(1)));
    peer.subscription(TOPIC);
    peer.close(1006);
    peer.reopen();
    peer.forget();
    peer.close(1006);
    let events = peer.events();
    let [
        Event::AttemptFailed { .. },
        Event::SubscriptionEnded { topic, cause: Error::Transport(_), .. },
        Event::GaveUp { .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(&**topic, TOPIC);
    assert!(peer.topics().is_empty());
}

#[test]
fn a_subscribe_that_was_sent_before_the_loss_may_have_been_done_when_the_client_gives_up() {
    let mut peer = Peer::connected(with(|config| config.reconnect.max_attempts = Some(1)));
    let sent = peer.subscribe(TOPIC);
    peer.close(1006);
    let waiting = peer.subscribe(OTHER);
    peer.reopen();
    peer.close(1006);
    assert!(matches!(peer.outcome(sent), Outcome::Unknown(Error::Transport(_))));
    assert!(matches!(peer.outcome(waiting), Outcome::NotSent(Error::Transport(_))));
}

#[test]
fn zero_attempts_mean_never_and_none_means_for_ever() {
    let mut peer = Peer::connected(with(|config| config.reconnect = ReconnectPolicy::never()));
    peer.close(1006);
    assert!(matches!(peer.events().pop(), Some(Event::GaveUp { .. })));
    assert_eq!(peer.core.poll_timeout(), None);

    let mut peer = failing(unlimited(), 200);
    peer.reconnect();
    assert_eq!(peer.core.status(), Status::Connected);
}

#[test]
fn short_sessions_keep_the_backoff_growing() {
    let mut peer = Peer::default_connected();
    peer.close(1006);
    for at_least in [2_500, 3_750, 5_625, 8_437] {
        peer.reconnect();
        peer.advance(millis(29_999));
        peer.events();
        peer.close(1006);
        let delay = retry_in(&mut peer).expect("a retry");
        assert!(delay >= millis(at_least), "{delay:?} of {at_least} ms");
    }
}

#[test]
fn ten_short_sessions_in_a_row_end_in_giving_up() {
    let mut peer = Peer::default_connected();
    for _ in 0..10 {
        peer.close(1000);
        peer.reconnect();
    }
    peer.forget();
    peer.close(1000);
    assert!(matches!(peer.events().pop(), Some(Event::GaveUp { .. })));
}

#[test]
fn a_session_of_thirty_seconds_makes_the_count_start_anew() {
    let mut peer = failing(config(), 9);
    peer.reconnect();
    peer.advance(secs(30));
    peer.events();
    peer.close(1006);
    assert!(retry_in(&mut peer).expect("a retry") <= secs(1));
    for _ in 0..9 {
        peer.reopen();
        peer.close(1006);
    }
    assert_eq!(peer.core.status(), Status::Reconnecting);
}

#[test]
fn connecting_while_waiting_to_reconnect_starts_no_second_attempt() {
    let mut peer = Peer::default_connected();
    peer.close(1006);
    peer.forget();
    let op = peer.connect();
    assert_eq!(peer.opened(), 0);
    assert!(peer.is_pending(op));
    peer.reopen();
    let again = peer.connect();
    assert_eq!(peer.opened(), 1);
    peer.accept();
    assert!(matches!(peer.outcome(op), Outcome::Connected(_)));
    assert!(matches!(peer.outcome(again), Outcome::Connected(_)));
}

#[test]
fn delays_of_any_length_are_survived() {
    for extreme in [Duration::ZERO, Duration::from_micros(1), Duration::from_secs(u64::MAX), Duration::MAX] {
        for lost_every in [true, false] {
            let mut peer = Peer::new(with(|config| {
                config.retry_first_connect = true;
                config.connect_timeout = extreme;
                config.auth_timeout = extreme;
                config.operation_timeout = extreme;
                config.heartbeat_interval = Some(extreme);
                config.heartbeat_timeout = extreme;
                config.acks.max_delay = extreme;
                config.limits.max_pause = extreme;
                config.limits.max_inbound_messages = 1;
                config.reconnect.max_attempts = None;
                config.reconnect.first = extreme;
                config.reconnect.interval = extreme;
                config.reconnect.cap = extreme;
                config.reconnect.stable_after = extreme;
            }));
            peer.connect();
            for _ in 0..50 {
                peer.open();
                peer.accept();
                if peer.core.status() == Status::Connected {
                    peer.subscribe(TOPIC);
                    peer.publish(TOPIC);
                    peer.deliver(TOPIC, "x");
                    peer.ack("m1");
                }
                if lost_every {
                    peer.close(1006);
                }
                if let Some(at) = peer.core.poll_timeout() {
                    peer.now = peer.now.max(at);
                    peer.wake();
                }
            }
            peer.disconnect_now();
            assert_eq!(peer.core.poll_timeout(), None, "{extreme:?}");
        }
    }
}

#[test]
fn the_end_of_time_is_survived() {
    let mut peer = Peer::default_connected();
    peer.publish(TOPIC);
    peer.now = Instant::from_micros(u64::MAX);
    for _ in 0..20 {
        peer.wake();
    }
    peer.disconnect_now();
    assert_eq!(peer.core.poll_timeout(), None);
}

// ---- restoring ----

#[test]
fn without_a_name_everything_is_subscribed_again_with_its_options() {
    let mut peer = Peer::default_connected();
    peer.subscribe_as(TOPIC, |subscribe| {
        subscribe.options.qos = Some(qos(0));
        subscribe.options.filters = vec!["a".into(), Filter::All(vec!["x".into(), "y".into()])];
        subscribe.options.load_balance = Some(true);
        subscribe.options.load_balance_group = Some("workers".into());
    });
    peer.subscribed(TOPIC);
    peer.subscription(OTHER);
    peer.close(1006);
    assert_eq!(peer.topics(), [(TOPIC.to_owned(), false), (OTHER.to_owned(), false)]);
    peer.forget();
    peer.reopen();
    // What the broker may say it restored is not ours without a name.
    let list =
        restored(&[&[("topic", Field::Text(TOPIC))], &[("topic", Field::Text("demo/general/foreign"))]]);
    peer.accept_with(|reply| reply.restored_subscriptions = Some(RawValue::parse(&list).unwrap()));
    assert_eq!(
        peer.sent(),
        [
            "auth".to_owned(),
            format!("subscribe {TOPIC} qos=0 filters=a,x|y shared group=workers"),
            format!("subscribe {OTHER}")
        ]
    );
    peer.subscribed(TOPIC);
    peer.subscribed(OTHER);
    assert_eq!(peer.topics(), [(TOPIC.to_owned(), true), (OTHER.to_owned(), true)]);
    assert!(
        matches!(peer.events()[..], [Event::Connected { .. }, Event::Restored { possible_gap: true, .. }]),
        "and nothing else"
    );
}

/// A client with a name, two subscriptions and a lost connection, about to hear what was restored.
fn returning() -> Peer {
    let mut peer = Peer::connected(named());
    peer.subscription(TOPIC);
    peer.filtered(OTHER, &["a", "b"]);
    peer.subscribed(OTHER);
    peer.close(1006);
    peer.forget();
    peer.reopen();
    assert_eq!(peer.sent(), ["auth reconnect as kiosk-7"]);
    peer
}

fn accept_restored(peer: &mut Peer, list: &[u8]) -> Vec<String> {
    let list = RawValue::parse(list).expect("a list");
    peer.accept_with(|reply| reply.restored_subscriptions = Some(list));
    peer.sent()
}

#[test]
fn with_a_name_nothing_is_sent_for_what_the_broker_restored() {
    let mut peer = returning();
    let list = restored(&[
        &[("topic", Field::Text(TOPIC))],
        &[("topic", Field::Text(OTHER)), ("filters", Field::Filters(&["a", "b"]))],
    ]);
    assert!(accept_restored(&mut peer, &list).is_empty());
    assert_eq!(peer.topics(), [(TOPIC.to_owned(), true), (OTHER.to_owned(), true)]);
    peer.advance(secs(60));
    assert_eq!(peer.core.status(), Status::Connected, "no confirmation comes, and none is waited for");
}

#[test]
fn with_a_name_only_what_differs_is_sent() {
    let mut peer = returning();
    let list = restored(&[
        &[("topic", Field::Text(TOPIC))],
        &[("topic", Field::Text(OTHER)), ("filters", Field::Filters(&["a"]))],
        &[("topic", Field::Text("demo/general/extra"))],
    ]);
    assert_eq!(
        accept_restored(&mut peer, &list),
        [format!("subscribe {OTHER} filters=a,b"), "unsubscribe demo/general/extra".to_owned()]
    );
    assert_eq!(peer.topics(), [(TOPIC.to_owned(), true), (OTHER.to_owned(), false)]);
    peer.subscribed(OTHER);
    peer.unsubscribed("demo/general/extra");
    assert_eq!(peer.topics(), [(TOPIC.to_owned(), true), (OTHER.to_owned(), true)]);
    assert_eq!(peer.core.stats().frames_unexpected, 0);
}

#[test]
fn a_broker_that_restores_nothing_is_asked_for_everything() {
    for list in [None, Some(RawValue::EMPTY_LIST), Some(RawValue::NIL), Some(RawValue::EMPTY_MAP)] {
        let mut peer = returning();
        peer.accept_with(|reply| reply.restored_subscriptions = list);
        assert_eq!(
            peer.sent(),
            [format!("subscribe {TOPIC}"), format!("subscribe {OTHER} filters=a,b")],
            "{list:?}"
        );
    }
}

#[test]
fn every_difference_counts() {
    let differences: [&[(&str, Field<'_>)]; 5] = [
        &[("topic", Field::Text(TOPIC)), ("qos", Field::Uint(0))],
        &[("topic", Field::Text(TOPIC)), ("filters", Field::Filters(&["a"]))],
        &[("topic", Field::Text(TOPIC)), ("loadBalance", Field::Bool(true))],
        &[("pattern", Field::Text(TOPIC)), ("load_balance", Field::Bool(true))],
        &[("topic", Field::Text("demo/general/Messages"))],
    ];
    for (index, entry) in differences.into_iter().enumerate() {
        let mut peer = returning();
        let sent = accept_restored(&mut peer, &restored(&[entry]));
        assert!(sent.contains(&format!("subscribe {TOPIC}")), "{index}: {sent:?}");
    }
}

#[test]
fn every_shape_of_a_restored_subscription_is_understood() {
    let mut out = BytesMut::new();
    write::list_header(&mut out, 4);
    write::str(&mut out, "a/b/text");
    restored_map(&mut out, &[("topic", Field::Text("a/b/memory")), ("qos", Field::Uint(1))]);
    restored_map(
        &mut out,
        &[
            ("pattern", Field::Text("a/b/plane")),
            ("topic", Field::Text("6f1c0a/internal")),
            ("load_balance", Field::Bool(true)),
            ("load_balance_group", Field::Text("project_app_workers")),
            ("filters", Field::Filters(&[])),
        ],
    );
    restored_map(&mut out, &[("name", Field::Text("a/b/old")), ("loadBalance", Field::Bool(false))]);

    let mut peer = Peer::connected(named());
    for topic in ["a/b/text", "a/b/memory", "a/b/old"] {
        peer.subscription(topic);
    }
    peer.subscribe_as("a/b/plane", |subscribe| {
        subscribe.options.load_balance = Some(true);
        subscribe.options.load_balance_group = Some("workers".into());
    });
    peer.subscribed("a/b/plane");
    peer.close(1006);
    peer.reopen();
    peer.sent();
    // The old shapes are also copied from token files, so what came in them is asked for again.
    assert_eq!(accept_restored(&mut peer, &out), ["subscribe a/b/text", "subscribe a/b/old"]);
    let live: Vec<_> = peer.topics().into_iter().filter(|(_, live)| *live).map(|(topic, _)| topic).collect();
    assert_eq!(live, ["a/b/memory", "a/b/plane"]);
}

#[test]
fn a_group_that_the_broker_named_after_the_actor_is_the_default_group() {
    for (key, group) in [("topic", None), ("topic", Some(ACTOR)), ("pattern", Some("project_app_actor-1"))] {
        let mut peer = Peer::connected(named());
        peer.subscribe_as(TOPIC, |subscribe| subscribe.options.load_balance = Some(true));
        peer.subscribed(TOPIC);
        peer.close(1006);
        peer.reopen();
        peer.sent();
        let mut entry = vec![(key, Field::Text(TOPIC)), ("loadBalance", Field::Bool(true))];
        entry.extend(group.map(|group| ("loadBalanceGroup", Field::Text(group))));
        assert!(accept_restored(&mut peer, &restored(&[&entry])).is_empty(), "{group:?}");
    }
}

#[test]
fn another_group_is_a_difference() {
    let differences =
        [(None, Some("workers")), (Some("workers"), None), (Some("a"), Some("b")), (Some("b"), Some("a_b"))];
    for (ours, theirs) in differences {
        let mut peer = Peer::connected(named());
        peer.subscribe_as(TOPIC, |subscribe| {
            subscribe.options.load_balance = Some(true);
            subscribe.options.load_balance_group = ours.map(String::from);
        });
        peer.subscribed(TOPIC);
        peer.close(1006);
        peer.reopen();
        peer.sent();
        let mut entry = vec![("topic", Field::Text(TOPIC)), ("loadBalance", Field::Bool(true))];
        entry.extend(theirs.map(|group| ("loadBalanceGroup", Field::Text(group))));
        assert_eq!(accept_restored(&mut peer, &restored(&[&entry])).len(), 1, "{ours:?} {theirs:?}");
    }
}

#[test]
fn what_was_unsubscribed_meanwhile_is_not_restored() {
    let mut peer = returning();
    let op = peer.unsubscribe(TOPIC);
    assert_eq!(peer.outcome(op), Outcome::Unsubscribed, "the next session starts without it");
    let list = restored(&[&[("topic", Field::Text(TOPIC))], &[("topic", Field::Text(OTHER))]]);
    assert_eq!(
        accept_restored(&mut peer, &list),
        [format!("subscribe {OTHER} filters=a,b"), format!("unsubscribe {TOPIC}")]
    );
}

#[test]
fn an_unsubscribe_that_the_loss_left_unanswered_is_done_all_the_same() {
    let mut peer = Peer::connected(named());
    peer.subscription(TOPIC);
    let op = peer.unsubscribe(TOPIC);
    peer.close(1006);
    assert_eq!(peer.outcome(op), Outcome::Unsubscribed);
    peer.reopen();
    peer.sent();
    let list = restored(&[&[("topic", Field::Text(TOPIC))]]);
    assert_eq!(accept_restored(&mut peer, &list), [format!("unsubscribe {TOPIC}")]);
}

#[test]
fn options_that_changed_meanwhile_are_sent() {
    let mut peer = returning();
    let op = peer.filtered(TOPIC, &["new"]);
    let list = restored(&[
        &[("topic", Field::Text(TOPIC))],
        &[("topic", Field::Text(OTHER)), ("filters", Field::Filters(&["a", "b"]))],
    ]);
    assert_eq!(accept_restored(&mut peer, &list), [format!("subscribe {TOPIC} filters=new")]);
    assert!(peer.is_pending(op));
    peer.subscribed(TOPIC);
    assert!(matches!(peer.outcome(op), Outcome::Subscribed { .. }));
}

#[test]
fn a_change_that_is_refused_after_a_reconnect_puts_the_old_options_back() {
    let mut peer = Peer::default_connected();
    peer.filtered(TOPIC, &["a"]);
    peer.subscribed(TOPIC);
    peer.close(1006);
    let op = peer.filtered(TOPIC, &["b"]);
    peer.reconnect();
    peer.sent();
    peer.refuse(TOPIC, "unknown_topic", Some(42940));
    assert!(matches!(peer.outcome(op), Outcome::Refused(_)));
    assert_eq!(peer.sent(), [format!("subscribe {TOPIC} filters=a")]);
}

#[test]
fn a_subscribe_under_way_at_the_loss_is_answered_in_the_next_session() {
    let mut peer = Peer::default_connected();
    let op = peer.subscribe(TOPIC);
    peer.close(1006);
    assert!(peer.is_pending(op));
    peer.forget();
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth".to_owned(), format!("subscribe {TOPIC}")]);
    assert!(peer.is_pending(op));
    peer.advance(millis(9_999));
    assert!(peer.is_pending(op), "its time counts from the new frame");
    peer.subscribed(TOPIC);
    assert!(matches!(peer.outcome(op), Outcome::Subscribed { .. }));
}

#[test]
fn a_subscribe_under_way_is_answered_by_what_the_broker_restored() {
    let mut peer = Peer::connected(named());
    let op = peer.subscribe(TOPIC);
    peer.close(1006);
    peer.reopen();
    peer.sent();
    let list = restored(&[&[("topic", Field::Text(TOPIC))]]);
    assert!(accept_restored(&mut peer, &list).is_empty());
    assert!(matches!(peer.outcome(op), Outcome::Subscribed { .. }));
}

#[test]
fn replies_of_the_old_session_do_not_count_in_the_new_one() {
    let mut peer = Peer::default_connected();
    let old = peer.transport;
    let op = peer.subscribe(TOPIC);
    peer.close(1006);
    peer.reconnect();
    let new = peer.transport;
    peer.transport = old;
    peer.subscribed(TOPIC);
    peer.close(4001);
    assert!(peer.is_pending(op));
    assert_eq!(peer.core.stats().stale_transport_events, 2);
    peer.transport = new;
    peer.subscribed(TOPIC);
    assert!(matches!(peer.outcome(op), Outcome::Subscribed { .. }));
}

#[test]
fn overdue_requests_are_forgotten_with_their_session() {
    let mut peer = Peer::default_connected();
    peer.subscribe(TOPIC);
    peer.advance(secs(10));
    peer.close(1006);
    peer.reconnect();
    let op = peer.subscribe(TOPIC);
    peer.subscribed(TOPIC);
    assert!(matches!(peer.outcome(op), Outcome::Subscribed { .. }), "the first reply is for it");
}

#[test]
fn a_restored_subscription_that_the_broker_now_refuses_ends() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    peer.close(1006);
    peer.reconnect();
    peer.forget();
    peer.refuse(TOPIC, "unknown_topic", Some(42940));
    assert!(matches!(
        peer.events()[..],
        [
            Event::SubscriptionEnded { cause: Error::Server(_), .. },
            Event::Restored { possible_gap: false, .. }
        ]
    ));
    assert!(peer.topics().is_empty() && peer.sent().is_empty());
}

#[test]
fn three_restored_subscriptions_without_an_answer_mean_a_broken_connection() {
    let mut peer = Peer::default_connected();
    for topic in ["a/b/one", "a/b/two", "a/b/three"] {
        peer.subscription(topic);
    }
    peer.close(1006);
    peer.reconnect();
    peer.forget();
    peer.advance(secs(10));
    assert_eq!(peer.closed(), [1000]);
    let Event::Disconnected { cause: Error::Protocol(cause), .. } = peer.event() else { panic!() };
    assert_eq!(cause, nolag_core::ProtocolError::Timeout { op: Op::Subscribe, after: secs(10) });
    peer.reconnect();
    assert_eq!(peer.sent().iter().filter(|frame| frame.starts_with("subscribe")).count(), 3);
}

#[test]
fn connected_says_how_long_there_was_no_session() {
    let mut peer = Peer::default_connected();
    peer.close(1006);
    peer.forget();
    let lost_at = peer.now;
    peer.reopen();
    peer.close(1006);
    peer.reopen();
    peer.advance(millis(1_234));
    let downtime = peer.now.saturating_since(lost_at);
    peer.accept();
    let connected = peer.events().into_iter().find_map(|event| match event {
        Event::Connected { downtime, .. } => downtime,
        _ => None,
    });
    assert_eq!(connected, Some(downtime));
}

#[test]
fn a_session_that_times_out_while_restoring_is_closed_only_once() {
    let mut peer = Peer::default_connected();
    peer.close(1006);
    peer.reopen();
    peer.forget();
    peer.advance(secs(10));
    let closes: Vec<_> =
        peer.actions().into_iter().filter(|action| matches!(action, Action::CloseTransport { .. })).collect();
    assert_eq!(closes.len(), 1);
}

#[test]
fn abandoning_what_waits_for_the_next_session_keeps_what_stood() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    peer.close(1006);
    let joined = peer.subscribe(TOPIC);
    let fresh = peer.subscribe(OTHER);
    peer.abandon(joined);
    peer.abandon(fresh);
    let abandoned = Outcome::NotSent(Rejection::Abandoned.into());
    assert_eq!(peer.outcome(joined), abandoned);
    assert_eq!(peer.outcome(fresh), abandoned);
    peer.forget();
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth".to_owned(), format!("subscribe {TOPIC}")]);
}

#[test]
fn an_abandoned_change_that_was_not_sent_does_not_happen() {
    let mut peer = Peer::default_connected();
    peer.filtered(TOPIC, &["a"]);
    peer.subscribed(TOPIC);
    peer.close(1006);
    let change = peer.filtered(TOPIC, &["b"]);
    peer.abandon(change);
    peer.forget();
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth".to_owned(), format!("subscribe {TOPIC} filters=a")]);
}
