//! Messages that come late or twice: replays, duplicates, and what a webhook says about a new subscription.

mod support;

use nolag_core::{
    Event, TransportErrorKind,
    wire::{RawValue, ServerFrame, Text},
};
use support::*;

const OTHER: &str = "demo/general/+";

/// A message that the broker recorded.
fn recorded(peer: &mut Peer, topic: &str, msg_id: &str) {
    deliver(peer, topic, msg_id, None);
}

fn replayed(peer: &mut Peer, topic: &str, msg_id: &str) {
    deliver(peer, topic, msg_id, Some(true));
}

fn deliver(peer: &mut Peer, topic: &str, msg_id: &str, is_replay: Option<bool>) {
    let payload = payload(msg_id);
    let message = nolag_core::wire::Message {
        msg_id: Some(msg_id),
        requires_ack: Some(true),
        is_replay,
        ..message(topic, payload.raw())
    };
    peer.answer(&ServerFrame::Message(message));
}

fn replay_start(peer: &mut Peer, count: u64) {
    peer.answer(&ServerFrame::ReplayStart { count, oldest_timestamp: None, newest_timestamp: None });
}

fn replay_end(peer: &mut Peer, replayed: u64) {
    peer.answer(&ServerFrame::ReplayEnd { replayed });
}

fn ids(peer: &mut Peer) -> Vec<String> {
    let id = |message: nolag_core::Message| message.msg_id().unwrap_or("-").to_owned();
    peer.messages().into_iter().map(id).collect()
}

/// Events in words: `start 3`, `2 of 3`, `end 3`.
fn progress(peer: &mut Peer) -> Vec<String> {
    let words = |event| match event {
        Event::ReplayStarted { count } => format!("start {count}"),
        Event::ReplayProgress { received, announced } => format!("{received} of {announced}"),
        Event::ReplayEnded { replayed } => format!("end {replayed}"),
        other => panic!("not about a replay: {other:?}"),
    };
    peer.events().into_iter().map(words).collect()
}

fn subscribed_to(topic: &str) -> Peer {
    let mut peer = Peer::default_connected();
    peer.subscription(topic);
    peer
}

// ---- replay ----

#[test]
fn a_replay_is_told_from_start_to_end() {
    let mut peer = subscribed_to(TOPIC);
    replay_start(&mut peer, 3);
    for id in ["m1", "m2", "m3"] {
        replayed(&mut peer, TOPIC, id);
    }
    replay_end(&mut peer, 3);
    recorded(&mut peer, TOPIC, "m4");
    assert_eq!(progress(&mut peer), ["start 3", "1 of 3", "2 of 3", "3 of 3", "end 3"]);
    let messages = peer.messages();
    let replays: Vec<_> = messages.iter().map(|message| message.is_replay()).collect();
    assert_eq!(replays, [true, true, true, false]);
    assert!(messages.iter().all(|message| message.ack_id().is_some()));
}

#[test]
fn progress_that_nobody_has_taken_yet_is_summed_up() {
    let mut core = subscribed_to(TOPIC);
    replay_start(&mut core, 1_000);
    let payload = payload("x");
    for n in 0..1_000 {
        let msg_id = format!("m{n}");
        let mut message = message(TOPIC, payload.raw());
        message.msg_id = Some(&msg_id);
        message.is_replay = Some(true);
        let kind = nolag_core::TransportEventKind::Message(encode(&ServerFrame::Message(message)));
        let id = core.transport.expect("a transport");
        core.core.handle_transport(core.now, nolag_core::TransportEvent { id, kind });
    }
    core.pump();
    assert_eq!(progress(&mut core), ["start 1000", "1000 of 1000"]);
    assert_eq!(core.core.stats().events_dropped, 0);
}

#[test]
fn an_empty_replay_is_told_too() {
    let mut peer = subscribed_to(TOPIC);
    replay_start(&mut peer, 0);
    replay_end(&mut peer, 0);
    assert_eq!(progress(&mut peer), ["start 0", "end 0"]);
}

#[test]
fn overlapping_replays_are_counted_together() {
    let mut peer = subscribed_to(TOPIC);
    peer.subscription(OTHER);
    replay_start(&mut peer, 2);
    replayed(&mut peer, TOPIC, "a1");
    replay_start(&mut peer, 1);
    replayed(&mut peer, OTHER, "b1");
    replay_end(&mut peer, 1);
    replayed(&mut peer, TOPIC, "a2");
    replay_end(&mut peer, 2);
    let expected = ["start 2", "1 of 2", "start 1", "2 of 3", "end 1", "3 of 3", "end 2"];
    assert_eq!(progress(&mut peer), expected);
    replay_start(&mut peer, 1);
    replayed(&mut peer, TOPIC, "a3");
    replay_end(&mut peer, 1);
    assert_eq!(progress(&mut peer), ["start 1", "1 of 1", "end 1"], "and the next starts anew");
}

#[test]
fn a_replay_that_the_loss_cut_short_does_not_count_in_the_next_session() {
    let mut peer = subscribed_to(TOPIC);
    replay_start(&mut peer, 5);
    replayed(&mut peer, TOPIC, "m1");
    peer.fail(TransportErrorKind::Io);
    peer.reconnect();
    peer.subscribed(TOPIC);
    peer.forget();
    replay_start(&mut peer, 1);
    replayed(&mut peer, TOPIC, "m2");
    replay_end(&mut peer, 1);
    assert_eq!(progress(&mut peer), ["start 1", "1 of 1", "end 1"]);
}

#[test]
fn replay_frames_that_do_not_fit_together_are_survived() {
    let mut peer = subscribed_to(TOPIC);
    replay_end(&mut peer, 7);
    replayed(&mut peer, TOPIC, "m1");
    replay_start(&mut peer, u64::MAX);
    replay_start(&mut peer, u64::MAX);
    replayed(&mut peer, TOPIC, "m2");
    let max = u64::MAX;
    let expected = [
        "end 7".to_owned(),
        "1 of 0".to_owned(),
        format!("start {max}"),
        format!("start {max}"),
        format!("1 of {max}"),
    ];
    assert_eq!(progress(&mut peer), expected);
    let mut early = Peer::new(config());
    early.connect();
    early.open();
    replay_start(&mut early, 1);
    replay_end(&mut early, 1);
    assert_eq!(early.core.stats().frames_unexpected, 2, "before the session they are nothing");
    assert!(early.events().is_empty());
}

// ---- duplicates ----

#[test]
fn a_message_that_comes_twice_is_delivered_once() {
    let mut peer = subscribed_to(TOPIC);
    recorded(&mut peer, TOPIC, "m1");
    recorded(&mut peer, TOPIC, "m2");
    recorded(&mut peer, TOPIC, "m1");
    assert_eq!(ids(&mut peer), ["m1", "m2"]);
    let stats = peer.core.stats();
    assert_eq!((stats.messages_duplicate, stats.messages_dropped), (1, 0));
    assert!(peer.events().is_empty());
}

#[test]
fn a_duplicate_is_acknowledged_again_once_the_first_was_and_not_before() {
    let mut peer = subscribed_to(TOPIC);
    recorded(&mut peer, TOPIC, "m1");
    recorded(&mut peer, TOPIC, "m1");
    peer.advance(secs(1));
    assert!(peer.sent().is_empty(), "the application has not said that it is done");
    peer.core.ack(peer.now, "m1");
    peer.advance(secs(1));
    assert_eq!(peer.sent(), ["ack m1"]);
    recorded(&mut peer, TOPIC, "m1");
    peer.advance(secs(1));
    assert_eq!(peer.sent(), ["ack m1"], "the broker did not see it");
}

#[test]
fn a_replay_of_what_was_delivered_live_is_a_duplicate() {
    let mut peer = subscribed_to(TOPIC);
    recorded(&mut peer, TOPIC, "m1");
    replay_start(&mut peer, 2);
    replayed(&mut peer, TOPIC, "m1");
    replayed(&mut peer, TOPIC, "m2");
    replay_end(&mut peer, 2);
    assert_eq!(ids(&mut peer), ["m1", "m2"]);
    assert_eq!(progress(&mut peer), ["start 2", "1 of 2", "2 of 2", "end 2"], "but it did come");
}

#[test]
fn messages_without_a_name_are_never_duplicates() {
    let mut peer = subscribed_to(TOPIC);
    peer.deliver(TOPIC, "same");
    peer.deliver(TOPIC, "same");
    assert_eq!(ids(&mut peer), ["-", "-"]);
    assert_eq!(peer.core.stats().messages_duplicate, 0);
}

#[test]
fn messages_of_no_subscription_are_never_duplicates() {
    let mut peer = subscribed_to(TOPIC);
    recorded(&mut peer, "6f1c/messages/#", "m1");
    recorded(&mut peer, "6f1c/messages/#", "m1");
    assert_eq!(ids(&mut peer), ["m1", "m1"]);
}

#[test]
fn overlapping_subscriptions_each_get_their_copy() {
    let mut peer = subscribed_to(TOPIC);
    peer.subscription(OTHER);
    recorded(&mut peer, TOPIC, "m1");
    recorded(&mut peer, OTHER, "m1");
    let topics: Vec<_> = peer.messages().into_iter().map(|message| message.topic().to_string()).collect();
    assert_eq!(topics, [TOPIC, OTHER]);
    recorded(&mut peer, OTHER, "m1");
    assert!(peer.messages().is_empty());
}

#[test]
fn subscribing_again_starts_anew_so_that_retained_messages_come_again() {
    let mut peer = subscribed_to(TOPIC);
    recorded(&mut peer, TOPIC, "retained");
    peer.subscribe_as(TOPIC, |subscribe| subscribe.refresh = true);
    recorded(&mut peer, TOPIC, "retained");
    assert_eq!(ids(&mut peer), ["retained"], "not before the broker has answered");
    peer.subscribed(TOPIC);
    recorded(&mut peer, TOPIC, "retained");
    recorded(&mut peer, TOPIC, "retained");
    assert_eq!(ids(&mut peer), ["retained"]);
    peer.filtered(TOPIC, &["a"]);
    peer.subscribed(TOPIC);
    recorded(&mut peer, TOPIC, "retained");
    assert_eq!(ids(&mut peer), ["retained"], "other options are a new subscription too");
}

#[test]
fn joining_a_subscription_that_stands_does_not_start_anew() {
    let mut peer = subscribed_to(TOPIC);
    recorded(&mut peer, TOPIC, "m1");
    peer.subscribe(TOPIC);
    recorded(&mut peer, TOPIC, "m1");
    assert_eq!(ids(&mut peer), ["m1"]);
}

#[test]
fn unsubscribing_and_subscribing_again_starts_anew() {
    let mut peer = subscribed_to(TOPIC);
    recorded(&mut peer, TOPIC, "m1");
    peer.unsubscribe(TOPIC);
    peer.subscribe(TOPIC);
    peer.unsubscribed(TOPIC);
    peer.subscribed(TOPIC);
    recorded(&mut peer, TOPIC, "m1");
    assert_eq!(ids(&mut peer), ["m1", "m1"]);
}

#[test]
fn a_subscription_restored_after_a_loss_does_not_start_anew() {
    let mut peer = subscribed_to(TOPIC);
    recorded(&mut peer, TOPIC, "m1");
    peer.fail(TransportErrorKind::Io);
    peer.reconnect();
    recorded(&mut peer, TOPIC, "m1");
    peer.subscribed(TOPIC);
    recorded(&mut peer, TOPIC, "m1");
    recorded(&mut peer, TOPIC, "m2");
    assert_eq!(ids(&mut peer), ["m1", "m2"]);
}

#[test]
fn a_subscription_restored_by_the_broker_does_not_start_anew() {
    let mut peer = Peer::connected(named());
    peer.subscription(TOPIC);
    recorded(&mut peer, TOPIC, "m1");
    peer.fail(TransportErrorKind::Io);
    peer.reopen();
    let list = restored(&[&[("topic", Field::Text(TOPIC))]]);
    peer.accept_with(|reply| reply.restored_subscriptions = Some(RawValue::parse(&list).expect("a list")));
    recorded(&mut peer, TOPIC, "m1");
    assert_eq!(ids(&mut peer), ["m1"]);
}

#[test]
fn a_subscribe_asked_for_during_a_loss_starts_anew() {
    let mut peer = subscribed_to(TOPIC);
    recorded(&mut peer, TOPIC, "retained");
    peer.fail(TransportErrorKind::Io);
    peer.subscribe_as(TOPIC, |subscribe| subscribe.refresh = true);
    peer.reconnect();
    peer.subscribed(TOPIC);
    recorded(&mut peer, TOPIC, "retained");
    assert_eq!(ids(&mut peer), ["retained", "retained"]);
}

#[test]
fn options_put_back_after_a_refusal_do_not_start_anew() {
    let mut peer = subscribed_to(TOPIC);
    recorded(&mut peer, TOPIC, "m1");
    peer.filtered(TOPIC, &["a"]);
    peer.refuse(TOPIC, "too_many_filters (max 100)", None);
    peer.subscribed(TOPIC);
    recorded(&mut peer, TOPIC, "m1");
    assert_eq!(ids(&mut peer), ["m1"]);
}

#[test]
fn changed_filters_do_not_start_anew() {
    let mut peer = Peer::default_connected();
    peer.filtered_subscription(TOPIC, &["a"]);
    recorded(&mut peer, TOPIC, "m1");
    peer.add_filters(&["b"]);
    peer.filters_updated(TOPIC);
    recorded(&mut peer, TOPIC, "m1");
    assert_eq!(ids(&mut peer), ["m1"]);
}

#[test]
fn the_last_1024_messages_of_each_subscription_are_recognised() {
    let mut peer = subscribed_to(TOPIC);
    peer.subscription(OTHER);
    recorded(&mut peer, OTHER, "other");
    for n in 0..1_025 {
        recorded(&mut peer, TOPIC, &format!("m{n}"));
    }
    assert_eq!(ids(&mut peer).len(), 1_026);
    recorded(&mut peer, TOPIC, "m1");
    recorded(&mut peer, TOPIC, "m1024");
    recorded(&mut peer, OTHER, "other");
    assert!(ids(&mut peer).is_empty());
    recorded(&mut peer, TOPIC, "m0");
    assert_eq!(ids(&mut peer), ["m0"], "the oldest was forgotten");
}

#[test]
fn a_duplicate_says_nothing_about_a_message_that_was_dropped() {
    let mut peer = Peer::connected(with(|config| config.limits.max_inbound_messages = 2));
    peer.subscription(TOPIC);
    for n in 0..8 {
        recorded(&mut peer, TOPIC, &format!("m{n}"));
        recorded(&mut peer, TOPIC, &format!("m{n}"));
    }
    let stats = peer.core.stats();
    assert_eq!(stats.messages_duplicate, 8, "duplicates take no room and are not counted as dropped");
    assert_eq!(stats.messages_dropped as usize + peer.messages().len(), 8);
}

// ---- hydration ----

#[test]
fn hydration_is_told_with_the_bare_topic() {
    let mut peer = subscribed_to(TOPIC);
    let payload = payload("state");
    peer.answer(&ServerFrame::Hydration { topic: Text::Str("messages"), data: payload.raw() });
    assert_eq!(peer.event(), Event::Hydration { topic: "messages".into(), data: payload });
    assert_eq!(peer.message(), None, "it is no message");
}

#[test]
fn hydration_of_any_shape_is_survived_and_before_the_session_it_is_nothing() {
    let mut peer = subscribed_to(TOPIC);
    let nil = RawValue::NIL;
    peer.answer(&ServerFrame::Hydration { topic: Text::Other(nil), data: nil });
    let Event::Hydration { topic, data } = peer.event() else { panic!("no hydration") };
    assert_eq!((&*topic, data.raw()), ("", nil));
    let mut early = Peer::new(config());
    early.connect();
    early.open();
    early.answer(&ServerFrame::Hydration { topic: Text::Str("messages"), data: nil });
    assert!(early.events().is_empty());
    assert_eq!(early.core.stats().frames_unexpected, 1);
}
