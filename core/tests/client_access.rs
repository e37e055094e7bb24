//! The actor may not use a topic any more: the broker says so unasked, in the words with which it also refuses an
//! untracked publish.

mod support;

use nolag_core::{Error, Event, Outcome};
use support::{Peer, TOPIC, secs, unpaced};

const OTHER: &str = "demo/general/other";

fn subscribed_peer() -> Peer {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    peer
}

fn deny(peer: &mut Peer) {
    peer.refuse(TOPIC, "unknown_topic", Some(42940));
}

fn untracked(peer: &mut Peer, topic: &str) {
    peer.publish_as(topic, |publish| publish.tracked = false);
    peer.forget();
}

/// The subscription has ended with this error, and nothing was sent for it.
fn ended(peer: &mut Peer, error: &str) {
    let event = peer.event();
    let Event::SubscriptionEnded { topic, cause: Error::Server(cause), .. } = event else {
        panic!("{event:?}")
    };
    assert_eq!((&*topic, &*cause.error), (TOPIC, error));
    assert!(peer.topics().is_empty() && peer.sent().is_empty());
}

/// The error was reported, and the subscription stands.
fn stands(peer: &mut Peer) {
    let event = peer.event();
    assert!(matches!(event, Event::ServerError(_)), "{event:?}");
    assert!(peer.core.subscriptions().any(|subscription| &*subscription.topic == TOPIC && subscription.live));
}

#[test]
fn a_subscription_whose_access_is_withdrawn_ends() {
    for (error, code) in [("unknown_topic", Some(42940)), ("not_authorized", None)] {
        let mut peer = subscribed_peer();
        peer.refuse(TOPIC, error, code);
        ended(&mut peer, error);
        peer.subscribe(TOPIC);
        assert_eq!(peer.sent(), [format!("subscribe {TOPIC}")], "who subscribes again asks the broker");
    }
}

#[test]
fn a_subscription_whose_access_was_withdrawn_is_not_restored() {
    let mut peer = subscribed_peer();
    deny(&mut peer);
    ended(&mut peer, "unknown_topic");
    peer.close(1006);
    peer.reconnect();
    assert!(peer.sent().iter().all(|frame| !frame.contains(TOPIC)));
}

#[test]
fn changes_of_filters_end_with_a_subscription_whose_access_is_withdrawn() {
    let mut peer = Peer::default_connected();
    let op = peer.filtered(TOPIC, &["a"]);
    peer.subscribed(TOPIC);
    peer.outcome(op);
    let change = peer.set_filters(&["b"]);
    peer.forget();
    deny(&mut peer);
    ended(&mut peer, "unknown_topic");
    peer.refuse(TOPIC, "not_subscribed", None);
    assert!(matches!(peer.outcome(change), Outcome::Refused(_)));
    assert!(peer.topics().is_empty());
}

#[test]
fn other_errors_about_a_topic_leave_its_subscription() {
    let mut peer = subscribed_peer();
    for (error, code) in
        [("rate_limit_exceeded", Some(42910)), ("message_too_large", Some(42930)), ("odd", None)]
    {
        peer.refuse(TOPIC, error, code);
        stands(&mut peer);
    }
}

#[test]
fn a_refusal_that_an_untracked_publish_may_have_had_leaves_the_subscription() {
    let mut peer = subscribed_peer();
    untracked(&mut peer, TOPIC);
    deny(&mut peer);
    stands(&mut peer);
}

#[test]
fn an_untracked_publish_to_another_topic_does_not_hide_the_end() {
    let mut peer = subscribed_peer();
    untracked(&mut peer, OTHER);
    deny(&mut peer);
    ended(&mut peer, "unknown_topic");
}

#[test]
fn a_later_confirmation_shows_that_an_untracked_publish_was_not_refused() {
    let mut peer = subscribed_peer();
    untracked(&mut peer, TOPIC);
    peer.publish(OTHER);
    let msg_ref = peer.last_ref();
    peer.published(&msg_ref);
    peer.forget();
    deny(&mut peer);
    ended(&mut peer, "unknown_topic");
}

#[test]
fn an_earlier_confirmation_shows_nothing_about_an_untracked_publish() {
    let mut peer = subscribed_peer();
    peer.publish(OTHER);
    let msg_ref = peer.last_ref();
    untracked(&mut peer, TOPIC);
    peer.published(&msg_ref);
    peer.forget();
    deny(&mut peer);
    stands(&mut peer);
}

#[test]
fn the_echo_of_a_heartbeat_shows_that_an_untracked_publish_was_not_refused() {
    let mut peer = subscribed_peer();
    untracked(&mut peer, TOPIC);
    peer.advance(secs(30));
    assert_eq!(peer.heartbeats, 1);
    peer.forget();
    deny(&mut peer);
    ended(&mut peer, "unknown_topic");
}

#[test]
fn a_new_connection_owes_no_refusals() {
    let mut peer = subscribed_peer();
    untracked(&mut peer, TOPIC);
    peer.close(1006);
    peer.reconnect();
    peer.subscribed(TOPIC);
    peer.forget();
    deny(&mut peer);
    ended(&mut peer, "unknown_topic");
}

#[test]
fn when_more_were_published_than_are_remembered_any_may_have_been_refused() {
    let mut peer = Peer::connected(unpaced());
    peer.subscription(TOPIC);
    for _ in 0..1025 {
        untracked(&mut peer, OTHER);
    }
    deny(&mut peer);
    stands(&mut peer);
    peer.publish(OTHER);
    let msg_ref = peer.last_ref();
    peer.published(&msg_ref);
    peer.forget();
    deny(&mut peer);
    ended(&mut peer, "unknown_topic");
}
