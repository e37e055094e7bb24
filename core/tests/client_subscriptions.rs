//! Subscribing and unsubscribing on a session that stands.

mod support;

use nolag_core::{
    Error, Event, Misuse, Op, Outcome, ProtocolError, Rejection, ServerError, Subscribe, SubscriptionId,
    TransportErrorKind,
    wire::{ClientFrame, ErrorFrame, Filter, RawValue, ServerFrame, Text},
};
use support::*;

const OTHER: &str = "demo/general/other";

#[track_caller]
fn subscription_id(outcome: Outcome) -> SubscriptionId {
    match outcome {
        Outcome::Subscribed { subscription, .. } => subscription,
        other => panic!("not subscribed: {other:?}"),
    }
}

#[track_caller]
fn refusal(outcome: Outcome) -> ServerError {
    match outcome {
        Outcome::Refused(error) => *error,
        other => panic!("not refused: {other:?}"),
    }
}

fn live(topics: &[&str]) -> Vec<(String, bool)> {
    topics.iter().map(|topic| ((*topic).to_owned(), true)).collect()
}

// ---- frames and outcomes ----

#[test]
fn a_subscribe_is_confirmed_by_the_broker() {
    let mut peer = Peer::default_connected();
    let op = peer.subscribe(TOPIC);
    let frame = peer.frame();
    let ClientFrame::Subscribe(subscribe) = decode(&frame) else { panic!("not a subscribe") };
    assert_eq!(subscribe, nolag_core::wire::Subscribe { topic: TOPIC, ..Default::default() });
    assert!(peer.is_pending(op), "sent is not subscribed");
    assert_eq!(peer.topics(), [(TOPIC.to_owned(), false)]);
    peer.answer(&ServerFrame::Subscribed { topic: Text::Str(TOPIC), load_balance: true });
    assert!(matches!(peer.outcome(op), Outcome::Subscribed { load_balance: true, .. }));
    assert_eq!(peer.topics(), live(&[TOPIC]));
}

#[test]
fn options_go_into_the_frame() {
    let mut peer = Peer::default_connected();
    peer.subscribe_as(TOPIC, |subscribe| {
        subscribe.options.qos = Some(qos(2));
        subscribe.options.filters = vec!["vip".into(), Filter::All(vec!["B".into(), "a".into()])];
        subscribe.options.load_balance = Some(true);
        subscribe.options.load_balance_group = Some("workers".into());
    });
    assert_eq!(peer.sent(), [format!("subscribe {TOPIC} qos=2 filters=vip,a|b shared group=workers")]);
}

#[test]
fn what_a_subscribe_leaves_out_comes_from_the_configuration() {
    let mut peer = Peer::connected(with(|config| {
        config.qos = qos(0);
        config.load_balance = true;
        config.load_balance_group = Some("workers".into());
    }));
    peer.subscribe(TOPIC);
    peer.subscribe_as(OTHER, |subscribe| {
        subscribe.options.qos = Some(qos(1));
        subscribe.options.load_balance = Some(false);
    });
    assert_eq!(
        peer.sent(),
        [format!("subscribe {TOPIC} qos=0 shared group=workers"), format!("subscribe {OTHER}")]
    );
}

#[test]
fn a_group_without_load_balancing_means_nothing() {
    let mut peer = Peer::default_connected();
    let first = peer.subscribe_as(TOPIC, |s| s.options.load_balance_group = Some("workers".into()));
    let second = peer.subscribe(TOPIC);
    assert_eq!(peer.sent(), [format!("subscribe {TOPIC}")]);
    peer.subscribed(TOPIC);
    assert_eq!(subscription_id(peer.outcome(first)), subscription_id(peer.outcome(second)));
}

#[test]
fn mistakes_are_refused_locally_and_given_back() {
    let mut peer = Peer::default_connected();
    for topic in ["", "messages", "a/b", "a/b/c/d/e", "a/#/c", "a/b c/d"] {
        let error = peer.core.subscribe(peer.now, Subscribe::new(topic)).unwrap_err().error;
        assert!(matches!(error, Error::Misuse(Misuse::InvalidTopic { .. })), "{topic}");
        assert!(matches!(
            peer.core.unsubscribe(peer.now, topic),
            Err(Error::Misuse(Misuse::InvalidTopic { .. }))
        ));
    }
    let mut refused = |change: fn(&mut Subscribe)| {
        let mut subscribe = Subscribe::new(TOPIC);
        change(&mut subscribe);
        let refused = peer.core.subscribe(peer.now, subscribe.clone()).unwrap_err();
        assert_eq!(refused.value, subscribe);
        refused.error
    };
    let bad = |error| matches!(error, Error::Misuse(Misuse::InvalidFilter(_)));
    assert!(bad(refused(|s| s.options.filters = filter_list(&["fine", ""]))));
    assert!(bad(refused(|s| s.options.filters = filter_list(&["a/b"]))));
    assert!(bad(refused(|s| s.options.filters = vec![Filter::All(vec!["alone".into()])])));
    let many = |s: &mut Subscribe| s.options.filters = (0..101).map(|n| format!("f{n}").into()).collect();
    assert_eq!(refused(many), Misuse::TooManyFilters(101).into());
    peer.pump();
    assert!(peer.sent().is_empty() && peer.topics().is_empty());
}

#[test]
fn wildcards_are_allowed() {
    let mut peer = Peer::default_connected();
    for topic in ["a/b/+", "a/+/c", "a/b/#", "a/#"] {
        let op = peer.subscribe(topic);
        peer.subscribed(topic);
        subscription_id(peer.outcome(op));
    }
}

#[test]
fn too_much_at_once_is_refused_until_outcomes_come() {
    let mut peer = Peer::connected(with(|config| config.limits.max_pending = 1));
    let op = peer.subscribe(TOPIC);
    let refused = peer.core.subscribe(peer.now, Subscribe::new(OTHER)).unwrap_err();
    assert!(matches!(refused.error, Error::Rejected(Rejection::Full { .. })));
    assert!(matches!(peer.core.unsubscribe(peer.now, OTHER), Err(Error::Rejected(Rejection::Full { .. }))));
    peer.subscribed(TOPIC);
    subscription_id(peer.outcome(op));
    peer.subscribe(OTHER);
}

#[test]
fn requests_that_are_never_answered_count_too() {
    let mut peer = Peer::connected(with(|config| config.limits.max_pending = 5));
    for n in 0..5 {
        peer.unsubscribe(&format!("demo/general/t{n}"));
    }
    peer.advance(secs(20));
    let refused = peer.core.unsubscribe(peer.now, TOPIC).unwrap_err();
    assert!(matches!(refused, Error::Rejected(Rejection::Full { pending: 5, bytes: 0 })));
}

// ---- one subscription per topic ----

#[test]
fn an_identical_subscribe_joins_one_under_way() {
    let mut peer = Peer::default_connected();
    let ops = [peer.subscribe(TOPIC), peer.subscribe(TOPIC)];
    assert_eq!(peer.sent(), [format!("subscribe {TOPIC}")]);
    peer.subscribed(TOPIC);
    let ids = ops.map(|op| subscription_id(peer.outcome(op)));
    assert_eq!(ids[0], ids[1]);
}

#[test]
fn an_identical_subscribe_joins_one_that_stands_without_a_frame() {
    let mut peer = Peer::default_connected();
    let first = peer.filtered(TOPIC, &["a"]);
    peer.subscribed(TOPIC);
    peer.sent();
    let second = peer.filtered(TOPIC, &["a"]);
    assert!(peer.sent().is_empty());
    assert_eq!(subscription_id(peer.outcome(first)), subscription_id(peer.outcome(second)));
}

#[test]
fn refresh_sends_a_frame_even_so() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    let op = peer.subscribe_as(TOPIC, |subscribe| subscribe.refresh = true);
    assert_eq!(peer.sent(), [format!("subscribe {TOPIC}")]);
    assert!(peer.is_pending(op));
    peer.subscribed(TOPIC);
    subscription_id(peer.outcome(op));
}

#[test]
fn other_options_replace_those_that_stand_for_all() {
    let mut peer = Peer::default_connected();
    let first = peer.filtered(TOPIC, &["a"]);
    peer.subscribed(TOPIC);
    let second = peer.filtered(TOPIC, &["b"]);
    peer.subscribed(TOPIC);
    assert_eq!(peer.sent(), [format!("subscribe {TOPIC} filters=a"), format!("subscribe {TOPIC} filters=b")]);
    assert_eq!(subscription_id(peer.outcome(first)), subscription_id(peer.outcome(second)));
    let info = peer.core.subscriptions().next().expect("one subscription");
    assert_eq!(info.options.filters, filter_list(&["b"]));
}

#[test]
fn subscribing_again_without_filters_drops_them() {
    let mut peer = Peer::default_connected();
    peer.filtered(TOPIC, &["a"]);
    peer.subscribed(TOPIC);
    peer.sent();
    peer.subscribe(TOPIC);
    assert_eq!(peer.sent(), [format!("subscribe {TOPIC}")]);
    peer.subscribed(TOPIC);
    let info = peer.core.subscriptions().next().expect("one subscription");
    assert!(info.options.filters.is_empty());
}

#[test]
fn replies_settle_requests_on_one_topic_in_order() {
    let mut peer = Peer::default_connected();
    let first = peer.filtered(TOPIC, &["a"]);
    let second = peer.filtered(TOPIC, &["b"]);
    peer.subscribed(TOPIC);
    subscription_id(peer.outcome(first));
    assert!(peer.is_pending(second));
    assert_eq!(peer.topics(), [(TOPIC.to_owned(), false)], "what stands is not what is wanted");
    peer.subscribed(TOPIC);
    subscription_id(peer.outcome(second));
    assert_eq!(peer.topics(), live(&[TOPIC]));
}

#[test]
fn topics_do_not_wait_for_one_another() {
    let mut peer = Peer::default_connected();
    let first = peer.subscribe(TOPIC);
    let second = peer.subscribe(OTHER);
    peer.subscribed(OTHER);
    subscription_id(peer.outcome(second));
    assert!(peer.is_pending(first));
}

#[test]
fn subscribing_while_connecting_waits_for_the_session() {
    let mut peer = Peer::new(config());
    peer.connect();
    let ops = [peer.subscribe(TOPIC), peer.subscribe(TOPIC), peer.subscribe(OTHER)];
    peer.open();
    assert_eq!(peer.sent(), ["auth"]);
    peer.accept();
    assert_eq!(peer.sent(), [format!("subscribe {TOPIC}"), format!("subscribe {OTHER}")]);
    peer.subscribed(TOPIC);
    peer.subscribed(OTHER);
    for op in ops {
        subscription_id(peer.outcome(op));
    }
}

#[test]
fn what_waits_for_a_session_that_never_comes_was_not_sent() {
    let mut peer = Peer::new(config());
    peer.connect();
    let op = peer.subscribe(TOPIC);
    peer.fail(TransportErrorKind::Connect);
    assert!(matches!(peer.outcome(op), Outcome::NotSent(Error::Transport(_))));
    assert!(peer.topics().is_empty());
}

// ---- refusals ----

#[test]
fn a_refused_subscribe_leaves_nothing_behind() {
    let mut peer = Peer::default_connected();
    let ops = [peer.subscribe(TOPIC), peer.subscribe(TOPIC)];
    peer.answer(&ServerFrame::Error(ErrorFrame {
        error: "unknown_topic",
        code: Some(42940),
        topic: Some(Text::Str(TOPIC)),
        hint: Some("create it \u{14} or ask for a grant"),
        ..ErrorFrame::default()
    }));
    for op in ops {
        let error = refusal(peer.outcome(op));
        assert_eq!(
            (&*error.error, error.code, error.op),
            ("unknown_topic", Some(42940), Some(Op::Subscribe))
        );
        assert_eq!(error.topic.as_deref(), Some(TOPIC));
        assert_eq!(error.hint.as_deref(), Some("create it - or ask for a grant"));
    }
    assert!(peer.topics().is_empty() && peer.events().is_empty());
    peer.sent();
    peer.subscribe(TOPIC);
    assert_eq!(peer.sent(), [format!("subscribe {TOPIC}")], "and may be tried again");
}

#[test]
fn every_error_that_names_only_the_topic_refuses_a_subscribe() {
    for (error, code) in [
        ("unknown_topic", Some(42940)),
        ("not_authorized", None),
        ("too_many_filters (max 100)", None),
        ("invalid_filter_chars (/, #, +, | not allowed)", None),
        ("something new", Some(49999)),
    ] {
        let mut peer = Peer::default_connected();
        let op = peer.subscribe(TOPIC);
        peer.refuse(TOPIC, error, code);
        assert_eq!(refusal(peer.outcome(op)).error, error);
    }
}

#[test]
fn a_refused_change_puts_the_old_options_back_in_force() {
    let mut peer = Peer::default_connected();
    peer.filtered(TOPIC, &["a"]);
    peer.subscribed(TOPIC);
    peer.forget();
    let change = peer.filtered(TOPIC, &["b"]);
    peer.refuse(TOPIC, "unknown_topic", Some(42940));
    refusal(peer.outcome(change));
    // Brokers end the old subscription when they refuse to change it, so that it must be asked for again.
    assert_eq!(peer.sent(), [format!("subscribe {TOPIC} filters=b"), format!("subscribe {TOPIC} filters=a")]);
    assert_eq!(peer.topics(), [(TOPIC.to_owned(), false)]);
    peer.subscribed(TOPIC);
    assert_eq!(peer.topics(), live(&[TOPIC]));
    let info = peer.core.subscriptions().next().expect("one subscription");
    assert_eq!(info.options.filters, filter_list(&["a"]));
    assert!(peer.events().is_empty());
}

#[test]
fn a_subscription_that_cannot_be_put_back_ends() {
    let mut peer = Peer::default_connected();
    let first = peer.filtered(TOPIC, &["a"]);
    peer.subscribed(TOPIC);
    let id = subscription_id(peer.outcome(first));
    peer.filtered(TOPIC, &["b"]);
    peer.refuse(TOPIC, "unknown_topic", Some(42940));
    peer.forget();
    peer.refuse(TOPIC, "not_authorized", None);
    let Event::SubscriptionEnded { subscription, topic, cause: Error::Server(cause) } = peer.event() else {
        panic!("not ended")
    };
    assert_eq!((subscription, &*topic, &*cause.error), (id, TOPIC, "not_authorized"));
    assert!(peer.topics().is_empty() && peer.sent().is_empty());
}

#[test]
fn a_refused_refresh_ends_the_subscription() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    let op = peer.subscribe_as(TOPIC, |subscribe| subscribe.refresh = true);
    peer.refuse(TOPIC, "not_authorized", None);
    refusal(peer.outcome(op));
    assert!(matches!(peer.event(), Event::SubscriptionEnded { .. }));
    assert!(peer.topics().is_empty());
}

#[test]
fn a_refused_change_is_not_put_back_when_a_later_one_decides() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    let first = peer.filtered(TOPIC, &["b"]);
    let second = peer.filtered(TOPIC, &["c"]);
    peer.sent();
    peer.refuse(TOPIC, "unknown_topic", Some(42940));
    refusal(peer.outcome(first));
    assert!(peer.sent().is_empty());
    peer.subscribed(TOPIC);
    subscription_id(peer.outcome(second));
    assert_eq!(peer.topics(), live(&[TOPIC]));
}

// ---- whose error it is ----

#[test]
fn an_error_with_a_topic_goes_to_the_oldest_subscribe_on_it() {
    let mut peer = Peer::default_connected();
    let first = peer.filtered(TOPIC, &["a"]);
    let other = peer.subscribe(OTHER);
    let second = peer.filtered(TOPIC, &["b"]);
    peer.refuse(TOPIC, "unknown_topic", Some(42940));
    refusal(peer.outcome(first));
    assert!(peer.is_pending(second) && peer.is_pending(other));
}

#[test]
fn a_publish_error_with_its_reference_does_not_fail_a_subscribe_on_the_same_topic() {
    let mut peer = Peer::default_connected();
    let subscribe = peer.subscribe(TOPIC);
    let publish = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    peer.answer(&ServerFrame::Error(ErrorFrame {
        error: "unknown_topic",
        code: Some(42940),
        topic: Some(Text::Str(TOPIC)),
        msg_ref: Some(Text::Str(&msg_ref)),
        ..ErrorFrame::default()
    }));
    assert_eq!(refusal(peer.outcome(publish)).op, Some(Op::Publish));
    peer.subscribed(TOPIC);
    subscription_id(peer.outcome(subscribe));
}

#[test]
fn an_error_with_a_reference_that_nothing_waits_for_is_reported_and_fails_nothing() {
    for msg_ref in [Text::Str("ffff"), Text::Str(""), Text::Other(RawValue::EMPTY_LIST)] {
        let mut peer = Peer::default_connected();
        let subscribe = peer.subscribe(TOPIC);
        peer.answer(&ServerFrame::Error(ErrorFrame {
            error: "unknown_topic",
            topic: Some(Text::Str(TOPIC)),
            msg_ref: Some(msg_ref),
            ..ErrorFrame::default()
        }));
        assert!(matches!(peer.event(), Event::ServerError(_)));
        assert!(peer.is_pending(subscribe));
    }
}

#[test]
fn errors_that_only_publishes_have_never_settle_a_subscribe() {
    for (error, code) in [
        ("rate_limit_exceeded", 42910),
        ("monthly_quota_exceeded", 42920),
        ("message_too_large", 42930),
        ("invalid_filter", 42960),
    ] {
        let mut peer = Peer::default_connected();
        let subscribe = peer.subscribe(TOPIC);
        peer.publish_as(TOPIC, |publish| publish.tracked = false);
        peer.refuse(TOPIC, error, Some(code));
        assert!(peer.is_pending(subscribe), "{error}");
        let Event::ServerError(reported) = peer.event() else { panic!("not reported") };
        assert_eq!((&*reported.error, reported.op), (error, None));
        peer.subscribed(TOPIC);
        subscription_id(peer.outcome(subscribe));
    }
}

#[test]
fn errors_about_topics_that_nothing_waits_on_are_reported() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    peer.refuse(TOPIC, "not_subscribed", None);
    assert!(matches!(peer.event(), Event::ServerError(_)));
    peer.refuse("demo/general/strange", "unknown_topic", None);
    assert!(matches!(peer.event(), Event::ServerError(_)));
    assert_eq!(peer.topics(), live(&[TOPIC]));
}

#[test]
fn an_unsubscribe_is_not_failed_by_an_error_about_its_topic() {
    let mut peer = Peer::default_connected();
    let op = peer.unsubscribe(TOPIC);
    peer.refuse(TOPIC, "not_subscribed", None);
    assert!(peer.is_pending(op));
    assert!(matches!(peer.event(), Event::ServerError(_)));
}

#[test]
fn replies_for_topics_never_asked_for_or_of_another_type_change_nothing() {
    let mut peer = Peer::default_connected();
    let op = peer.subscribe(TOPIC);
    peer.subscribed("demo/general/strange");
    peer.unsubscribed(TOPIC);
    peer.unsubscribed("demo/general/strange");
    peer.answer(&ServerFrame::Subscribed { topic: Text::Other(RawValue::NIL), load_balance: false });
    peer.answer(&ServerFrame::Unsubscribed { topic: Text::Other(RawValue::EMPTY_MAP) });
    assert_eq!(peer.core.stats().frames_unexpected, 5);
    assert!(peer.is_pending(op) && peer.events().is_empty());
    peer.subscribed(TOPIC);
    subscription_id(peer.outcome(op));
    peer.subscribed(TOPIC);
    assert_eq!(peer.topics(), live(&[TOPIC]), "a repeated reply changes nothing");
}

#[test]
fn a_request_that_was_not_sent_is_not_settled_by_a_reply() {
    let mut peer = Peer::default_connected();
    peer.blocked = true;
    let op = peer.subscribe(TOPIC);
    peer.subscribed(TOPIC);
    peer.refuse(TOPIC, "unknown_topic", None);
    assert!(peer.is_pending(op));
}

// ---- silence ----

#[test]
fn a_timed_out_subscribe_is_taken_back_with_unsubscribe() {
    let mut peer = Peer::default_connected();
    let op = peer.subscribe(TOPIC);
    peer.sent();
    peer.advance(millis(9_999));
    assert!(peer.is_pending(op));
    peer.advance(millis(1));
    assert!(is_timeout(&peer.outcome(op), Op::Subscribe));
    assert_eq!(peer.sent(), [format!("unsubscribe {TOPIC}")]);
    assert!(peer.topics().is_empty());

    // The answers come after all, and belong to nobody.
    peer.subscribed(TOPIC);
    peer.unsubscribed(TOPIC);
    assert!(peer.topics().is_empty() && peer.events().is_empty());
    assert_eq!(peer.core.stats().frames_unexpected, 0, "they were expected");
}

#[test]
fn the_deadline_counts_from_when_the_frame_left() {
    let mut peer = Peer::default_connected();
    peer.blocked = true;
    let op = peer.subscribe(TOPIC);
    peer.advance(secs(8));
    peer.blocked = false;
    peer.pump();
    peer.advance(secs(8));
    assert!(peer.is_pending(op));
    peer.advance(secs(2));
    assert!(is_timeout(&peer.outcome(op), Op::Subscribe));
}

#[test]
fn a_late_reply_is_not_taken_for_the_answer_to_a_later_subscribe() {
    let mut peer = Peer::default_connected();
    let first = peer.subscribe(TOPIC);
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(first), Op::Subscribe));
    let second = peer.filtered(TOPIC, &["vip"]);

    peer.subscribed(TOPIC); // to the first
    assert!(peer.is_pending(second));
    peer.unsubscribed(TOPIC); // to the compensation
    assert!(peer.is_pending(second));
    peer.refuse(TOPIC, "unknown_topic", Some(42940)); // to the second
    refusal(peer.outcome(second));
    assert!(peer.topics().is_empty());
}

#[test]
fn a_late_refusal_is_not_taken_for_the_answer_to_a_later_subscribe() {
    let mut peer = Peer::default_connected();
    peer.subscribe(TOPIC);
    peer.advance(secs(10));
    let second = peer.subscribe(TOPIC);
    peer.refuse(TOPIC, "unknown_topic", Some(42940));
    assert!(peer.is_pending(second));
    peer.unsubscribed(TOPIC);
    peer.subscribed(TOPIC);
    subscription_id(peer.outcome(second));
    assert_eq!(peer.topics(), live(&[TOPIC]));
}

#[test]
fn a_reply_shows_that_earlier_requests_on_its_topic_will_not_be_answered() {
    let mut peer = Peer::default_connected();
    let subscribe = peer.subscribe(TOPIC);
    let unsubscribe = peer.unsubscribe(TOPIC);
    peer.unsubscribed(TOPIC);
    assert_eq!(peer.outcome(subscribe), Outcome::Unknown(ProtocolError::Unanswered.into()));
    assert_eq!(peer.outcome(unsubscribe), Outcome::Unsubscribed);

    let unsubscribe = peer.unsubscribe(TOPIC);
    let subscribe = peer.subscribe(TOPIC);
    peer.subscribed(TOPIC);
    assert_eq!(peer.outcome(unsubscribe), Outcome::Unknown(ProtocolError::Unanswered.into()));
    subscription_id(peer.outcome(subscribe));
}

#[test]
fn a_timed_out_change_puts_the_old_options_back_in_force() {
    let mut peer = Peer::default_connected();
    peer.filtered(TOPIC, &["a"]);
    peer.subscribed(TOPIC);
    let change = peer.filtered(TOPIC, &["b"]);
    peer.sent();
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(change), Op::Subscribe));
    assert_eq!(peer.sent(), [format!("subscribe {TOPIC} filters=a")], "not taken back: others want it");
    peer.subscribed(TOPIC); // to the change, late
    assert_eq!(peer.topics(), [(TOPIC.to_owned(), false)]);
    peer.subscribed(TOPIC);
    assert_eq!(peer.topics(), live(&[TOPIC]));
    let info = peer.core.subscriptions().next().expect("one subscription");
    assert_eq!(info.options.filters, filter_list(&["a"]));
}

#[test]
fn a_timed_out_change_is_not_put_back_when_a_later_one_decides() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    let first = peer.filtered(TOPIC, &["b"]);
    peer.advance(secs(5));
    let second = peer.filtered(TOPIC, &["c"]);
    peer.sent();
    peer.advance(secs(5));
    assert!(is_timeout(&peer.outcome(first), Op::Subscribe));
    assert!(peer.sent().is_empty());
    peer.subscribed(TOPIC);
    assert!(peer.is_pending(second), "that was the first, late");
    peer.subscribed(TOPIC);
    subscription_id(peer.outcome(second));
    assert_eq!(peer.topics(), live(&[TOPIC]));
}

#[test]
fn a_broker_that_confirms_nothing_is_left_after_three_tries() {
    let mut peer = Peer::default_connected();
    peer.filtered(TOPIC, &["a"]);
    peer.subscribed(TOPIC);
    peer.filtered(TOPIC, &["b"]);
    peer.forget();
    peer.advance(secs(39));
    assert_eq!(peer.sent().len(), 3);
    assert!(peer.closed().is_empty());
    peer.advance(secs(1));
    assert_eq!(peer.closed(), [1000]);
    assert!(matches!(peer.event(), Event::Disconnected { retry_in: Some(_), .. }));
    assert_eq!(peer.topics(), [(TOPIC.to_owned(), false)], "what was confirmed stays wanted");
}

// ---- unsubscribing ----

#[test]
fn an_unsubscribe_is_confirmed_by_the_broker() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    let op = peer.unsubscribe(TOPIC);
    assert_eq!(peer.sent(), [format!("unsubscribe {TOPIC}")]);
    assert!(peer.is_pending(op));
    assert!(peer.topics().is_empty(), "nothing is delivered to it any more");
    peer.unsubscribed(TOPIC);
    assert_eq!(peer.outcome(op), Outcome::Unsubscribed);
}

#[test]
fn unsubscribing_from_what_was_never_subscribed_is_confirmed_too() {
    let mut peer = Peer::default_connected();
    let op = peer.unsubscribe(TOPIC);
    peer.unsubscribed(TOPIC);
    assert_eq!(peer.outcome(op), Outcome::Unsubscribed);
}

#[test]
fn an_unanswered_unsubscribe_is_unknown() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    let op = peer.unsubscribe(TOPIC);
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(op), Op::Unsubscribe));
    assert_eq!(peer.sent(), [format!("unsubscribe {TOPIC}")]);
}

#[test]
fn unsubscribing_while_connecting_takes_back_what_waits() {
    let mut peer = Peer::new(config());
    peer.connect();
    let subscribe = peer.subscribe(TOPIC);
    let unsubscribe = peer.unsubscribe(TOPIC);
    assert_eq!(peer.outcome(subscribe), Outcome::NotSent(Rejection::Superseded.into()));
    assert_eq!(peer.outcome(unsubscribe), Outcome::Unsubscribed);
    peer.open();
    peer.accept();
    assert_eq!(peer.sent(), ["auth"]);
}

#[test]
fn unsubscribing_and_subscribing_again_makes_a_new_subscription() {
    let mut peer = Peer::default_connected();
    let first = peer.subscribe(TOPIC);
    peer.subscribed(TOPIC);
    peer.sent();
    let unsubscribe = peer.unsubscribe(TOPIC);
    let again = peer.subscribe(TOPIC);
    assert_eq!(peer.sent(), [format!("unsubscribe {TOPIC}"), format!("subscribe {TOPIC}")]);
    peer.unsubscribed(TOPIC);
    assert_eq!(peer.outcome(unsubscribe), Outcome::Unsubscribed);
    peer.subscribed(TOPIC);
    assert_ne!(subscription_id(peer.outcome(first)), subscription_id(peer.outcome(again)));
}

#[test]
fn a_subscribe_that_an_unsubscribe_follows_still_has_its_own_end() {
    let mut peer = Peer::default_connected();
    let subscribe = peer.subscribe(TOPIC);
    let unsubscribe = peer.unsubscribe(TOPIC);
    peer.subscribed(TOPIC);
    subscription_id(peer.outcome(subscribe));
    assert!(peer.topics().is_empty());
    peer.unsubscribed(TOPIC);
    assert_eq!(peer.outcome(unsubscribe), Outcome::Unsubscribed);
}

#[test]
fn a_refused_subscribe_that_an_unsubscribe_follows_does_not_come_back() {
    let mut peer = Peer::default_connected();
    peer.filtered(TOPIC, &["a"]);
    peer.subscribed(TOPIC);
    let change = peer.filtered(TOPIC, &["b"]);
    peer.unsubscribe(TOPIC);
    peer.forget();
    peer.refuse(TOPIC, "unknown_topic", Some(42940));
    refusal(peer.outcome(change));
    assert!(peer.sent().is_empty() && peer.topics().is_empty());
}

#[test]
fn the_list_of_subscriptions_is_in_the_order_of_the_first_calls() {
    let mut peer = Peer::default_connected();
    for topic in ["z/z/z", "a/a/a", "m/m/m"] {
        peer.subscription(topic);
    }
    assert_eq!(peer.topics(), live(&["z/z/z", "a/a/a", "m/m/m"]));
}

#[test]
fn a_late_answer_about_one_topic_says_nothing_about_another() {
    const OTHER: &str = "demo/general/other";
    let mut peer = Peer::default_connected();
    let late = peer.subscribe(TOPIC);
    peer.advance(secs(5));
    let first = peer.subscribe(OTHER);
    peer.advance(secs(5));
    assert!(is_timeout(&peer.outcome(late), Op::Subscribe));
    peer.subscribed(TOPIC);
    peer.advance(secs(5));
    assert!(is_timeout(&peer.outcome(first), Op::Subscribe));
    let second = peer.subscribe(OTHER);
    peer.subscribed(OTHER);
    assert!(peer.is_pending(second), "the answer to the first");
    peer.unsubscribed(OTHER);
    peer.subscribed(OTHER);
    subscription_id(peer.outcome(second));
}
