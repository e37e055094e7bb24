//! What becomes of commands that nobody waits for any more.

mod support;

use nolag_core::{OpId, Outcome, Rejection};
use support::*;

const OTHER: &str = "demo/general/other";

fn live(topics: &[&str]) -> Vec<(String, bool)> {
    topics.iter().map(|topic| ((*topic).to_owned(), true)).collect()
}

#[track_caller]
fn assert_subscribed(peer: &mut Peer, op: OpId) {
    let outcome = peer.outcome(op);
    assert!(matches!(outcome, Outcome::Subscribed { .. }), "{outcome:?}");
}

#[test]
fn an_abandoned_subscribe_that_nobody_else_wants_is_taken_back() {
    let mut peer = Peer::default_connected();
    let op = peer.subscribe(TOPIC);
    peer.sent();
    peer.abandon(op);
    assert_eq!(peer.outcome(op), Outcome::Unknown(Rejection::Abandoned.into()));
    assert_eq!(peer.sent(), [format!("unsubscribe {TOPIC}")]);
    assert!(peer.topics().is_empty());
    peer.subscribed(TOPIC);
    peer.unsubscribed(TOPIC);
    assert!(peer.topics().is_empty());
}

#[test]
fn an_abandoned_subscribe_that_others_joined_goes_on() {
    let mut peer = Peer::default_connected();
    let abandoned = peer.subscribe(TOPIC);
    let other = peer.subscribe(TOPIC);
    peer.sent();
    peer.abandon(abandoned);
    assert!(peer.sent().is_empty());
    peer.subscribed(TOPIC);
    assert_subscribed(&mut peer, other);
    assert_eq!(peer.topics(), live(&[TOPIC]));
}

#[test]
fn an_abandoned_subscribe_whose_topic_stands_keeps_it() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    let refresh = peer.subscribe_as(TOPIC, |subscribe| subscribe.refresh = true);
    peer.sent();
    peer.abandon(refresh);
    assert!(peer.sent().is_empty());
    assert_eq!(peer.topics(), live(&[TOPIC]));
}

#[test]
fn an_abandoned_subscribe_that_waits_for_a_session_leaves_no_trace() {
    let mut peer = Peer::new(config());
    peer.connect();
    let abandoned = peer.subscribe(TOPIC);
    let other = peer.subscribe(OTHER);
    peer.abandon(abandoned);
    assert_eq!(peer.outcome(abandoned), Outcome::NotSent(Rejection::Abandoned.into()));
    peer.open();
    peer.accept();
    assert_eq!(peer.sent(), ["auth".to_owned(), format!("subscribe {OTHER}")]);
    assert!(peer.is_pending(other));
}

#[test]
fn abandoning_anything_else_changes_nothing() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    let change = peer.set_filters(&["a"]);
    let publish = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    let unsubscribe = peer.unsubscribe(OTHER);
    peer.sent();
    for op in [change, publish, unsubscribe] {
        peer.abandon(op);
        peer.abandon(op);
    }
    assert!(peer.sent().is_empty());
    peer.published(&msg_ref);
    peer.unsubscribed(OTHER);
    peer.filters_updated(TOPIC);
    assert!(matches!(peer.outcome(change), Outcome::FiltersUpdated { .. }));
    assert_eq!(peer.outcome(publish), Outcome::Acked);
    assert_eq!(peer.outcome(unsubscribe), Outcome::Unsubscribed);
}

// ---- when the outcome was told and nobody took it ----

#[test]
fn an_answered_subscribe_that_nobody_else_wants_is_taken_back() {
    let mut peer = Peer::default_connected();
    let op = peer.subscribe(TOPIC);
    peer.subscribed(TOPIC);
    peer.sent();
    peer.abandon(op);
    assert_eq!(peer.sent(), [format!("unsubscribe {TOPIC}")]);
    assert!(peer.topics().is_empty());
    peer.abandon(op);
    assert!(peer.sent().is_empty(), "once");
}

#[test]
fn an_answered_subscribe_is_kept_by_who_joined_it_or_changed_its_filters() {
    let wanted: [fn(&mut Peer); 2] = [
        |peer| {
            let joined = peer.subscribe(TOPIC);
            assert_subscribed(peer, joined);
        },
        |peer| {
            peer.set_filters(&["a"]);
            peer.filters_updated(TOPIC);
        },
    ];
    for want in wanted {
        let mut peer = Peer::default_connected();
        let op = peer.subscribe(TOPIC);
        peer.subscribed(TOPIC);
        want(&mut peer);
        peer.sent();
        peer.abandon(op);
        assert!(peer.sent().is_empty());
        assert_eq!(peer.topics(), live(&[TOPIC]));
    }
}

#[test]
fn without_a_session_an_answered_subscribe_is_only_not_restored() {
    let mut peer = Peer::default_connected();
    let op = peer.subscribe(TOPIC);
    peer.subscribed(TOPIC);
    peer.close(1006);
    peer.abandon(op);
    assert!(peer.topics().is_empty());
    peer.sent();
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth"]);
}

// ---- when it replaced options that stood ----

#[test]
fn abandoned_options_give_way_to_those_that_stood() {
    for answered in [false, true] {
        let mut peer = Peer::default_connected();
        peer.subscription(TOPIC);
        let op = peer.filtered(TOPIC, &["vip"]);
        peer.sent();
        if answered {
            peer.subscribed(TOPIC);
        }
        peer.abandon(op);
        assert!(peer.filters_of(TOPIC).is_empty(), "{answered}");
        assert_eq!(peer.sent(), [format!("subscribe {TOPIC}")], "with the options that stood");
        if !answered {
            peer.subscribed(TOPIC);
        }
        peer.subscribed(TOPIC);
        assert_eq!(peer.topics(), live(&[TOPIC]));
    }
}

#[test]
fn abandoned_options_stay_when_others_want_them_too() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    let vip = |peer: &mut Peer| peer.filtered(TOPIC, &["vip"]);
    let (op, other) = (vip(&mut peer), vip(&mut peer));
    peer.sent();
    peer.abandon(op);
    peer.subscribed(TOPIC);
    assert_subscribed(&mut peer, other);
    assert!(peer.sent().is_empty());
    assert_eq!(peer.filters_of(TOPIC), ["vip"]);
}
