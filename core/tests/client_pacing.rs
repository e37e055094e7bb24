//! Publishing no faster than the broker takes it, and trying again what came too soon.

mod support;

use std::{collections::BTreeMap, time::Duration};

use nolag_core::{Error, Event, Instant, OpId, Outcome, Publish, Rejection};
use proptest::{collection::vec, prelude::*};
use support::*;

/// What the broker takes per second.
const RATE: usize = 50;

fn paced(rate: u32) -> Peer {
    Peer::connected(with(|config| {
        config.publish_rate = Some(rate);
        // Nothing but pacing and answers arms a timer then.
        config.heartbeat_interval = None;
    }))
}

fn topics(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|n| format!("publish demo/general/t{n}")).collect()
}

fn is_refused_as_too_soon(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused(error) if error.code == Some(42910))
}

fn has_publish_timer(peer: &Peer) -> bool {
    peer.core.explain().contains("to publish more")
}

// ---- pacing ----

#[test]
fn no_more_leave_at_once_than_the_broker_takes_and_a_slot_is_free_a_second_after_its_reply() {
    let mut peer = Peer::default_connected();
    peer.publish_each(0..RATE + 10);
    let refs = peer.refs();
    assert_eq!(refs.len(), RATE);
    peer.advance(secs(5));
    assert!(peer.sent().is_empty(), "without a reply nobody knows when they were counted");
    peer.published(&refs[0]);
    peer.advance(millis(500));
    peer.published(&refs[1]);
    peer.advance(millis(499));
    assert!(peer.sent().is_empty());
    peer.advance(millis(1));
    assert_eq!(peer.sent(), topics([RATE]), "one reply, one slot");
    peer.advance(millis(499));
    assert!(peer.sent().is_empty());
    peer.advance(millis(1));
    assert_eq!(peer.sent(), topics([RATE + 1]));
}

#[test]
fn a_refusal_frees_a_slot_like_a_confirmation() {
    let mut peer = paced(1);
    peer.publish_each(0..2);
    let msg_ref = peer.last_ref();
    peer.sent();
    let error = nolag_core::wire::ErrorFrame {
        error: "unknown_topic",
        code: Some(42940),
        msg_ref: Some(nolag_core::wire::Text::Str(&msg_ref)),
        ..Default::default()
    };
    peer.answer(&nolag_core::wire::ServerFrame::Error(error));
    peer.advance(millis(999));
    assert!(peer.sent().is_empty());
    peer.advance(millis(1));
    assert_eq!(peer.sent(), topics([1]));
}

#[test]
fn what_is_held_back_leaves_in_the_order_of_the_calls() {
    let mut peer = Peer::default_connected();
    peer.publish_each(0..4 * RATE);
    let mut sent = Vec::new();
    for _ in 0..4 {
        let frames = peer.frames();
        assert_eq!(frames.len(), RATE);
        for frame in &frames {
            let nolag_core::wire::ClientFrame::Publish(publish) = decode(frame) else { panic!() };
            peer.published(publish.msg_ref.expect("tracked"));
        }
        sent.extend(frames.iter().map(|frame| describe(&decode(frame))));
        peer.advance(secs(1));
    }
    assert_eq!(sent, topics(0..4 * RATE));
}

#[test]
fn a_timer_is_armed_only_when_time_holds_something_back() {
    let mut peer = paced(2);
    let ops = peer.publish_each(0..1);
    let msg_ref = peer.last_ref();
    peer.published(&msg_ref);
    assert_eq!(peer.outcome(ops[0]), Outcome::Acked);
    assert_eq!(peer.core.poll_timeout(), None, "a slot that nobody wants");

    peer.advance(secs(2));
    peer.publish_each(0..3);
    let refs = peer.refs();
    assert!(!has_publish_timer(&peer), "only a reply can help: {}", peer.core.explain());
    peer.published(&refs[1]);
    assert_eq!(peer.core.poll_timeout(), Some(peer.now + secs(1)));
    assert!(has_publish_timer(&peer), "{}", peer.core.explain());
    peer.advance(secs(1));
    assert_eq!(peer.sent(), topics([2]));
    assert!(!has_publish_timer(&peer), "{}", peer.core.explain());
}

#[test]
fn the_timer_goes_with_the_last_that_was_held_back() {
    let mut peer = paced(1);
    let first = peer.publish(TOPIC);
    let late = peer.publish_as(TOPIC, |publish| publish.expires_in = Some(millis(400)));
    let msg_ref = peer.last_ref();
    peer.published(&msg_ref);
    assert_eq!(peer.outcome(first), Outcome::Acked);
    peer.advance(millis(400));
    assert_eq!(peer.outcome(late), Outcome::Expired);
    assert_eq!(peer.core.poll_timeout(), None, "{}", peer.core.explain());
}

#[test]
fn publishes_keep_their_place_between_subscribes_and_unsubscribes() {
    let mut peer = Peer::default_connected();
    peer.blocked = true;
    peer.publish("demo/general/t0");
    peer.subscribe("demo/general/a");
    peer.publish("demo/general/t1");
    peer.unsubscribe("demo/general/a");
    peer.publish_as("demo/general/t2", |publish| publish.tracked = false);
    peer.subscribe("demo/general/b");
    peer.blocked = false;
    peer.pump();
    let expected = [
        "publish demo/general/t0",
        "subscribe demo/general/a",
        "publish demo/general/t1",
        "unsubscribe demo/general/a",
        "publish demo/general/t2",
        "subscribe demo/general/b",
    ];
    assert_eq!(peer.sent(), expected);
}

#[test]
fn other_frames_overtake_a_publish_that_is_held_back() {
    let mut peer = paced(1);
    peer.publish_each(0..2);
    let msg_ref = peer.last_ref();
    peer.subscribe(TOPIC);
    peer.unsubscribe(TOPIC);
    let overtaken =
        ["publish demo/general/t0", &format!("subscribe {TOPIC}"), &format!("unsubscribe {TOPIC}")];
    assert_eq!(peer.sent(), overtaken);
    peer.published(&msg_ref);
    peer.advance(secs(1));
    assert_eq!(peer.sent(), topics([1]));
}

#[test]
fn heartbeats_leave_while_publishes_are_held_back() {
    let mut peer = Peer::connected(with(|config| config.publish_rate = Some(1)));
    peer.publish_each(0..2);
    peer.blocked = true;
    peer.advance(secs(9));
    peer.blocked = false;
    peer.advance(secs(21));
    assert_eq!(peer.heartbeats, 1);
}

#[test]
fn pacing_can_be_turned_off() {
    let mut peer = Peer::connected(unpaced());
    peer.publish_each(0..1_000);
    assert_eq!(peer.sent(), topics(0..1_000));
    assert!(!has_publish_timer(&peer));
}

#[test]
fn untracked_publishes_use_a_slot_until_a_second_after_they_left() {
    let mut peer = Peer::default_connected();
    let untracked = |publish: &mut Publish| publish.tracked = false;
    for _ in 0..RATE + 1 {
        peer.publish_as(TOPIC, untracked);
    }
    let tracked = peer.publish(TOPIC);
    assert_eq!(peer.sent().len(), RATE, "they are held back as well");
    peer.advance(millis(999));
    assert!(peer.sent().is_empty());
    peer.advance(millis(1));
    assert_eq!(peer.sent().len(), 2);
    assert!(peer.is_pending(tracked));
}

#[test]
fn a_rate_of_one_sends_one_at_a_time_and_zero_means_one() {
    for rate in [1, 0] {
        let mut peer = paced(rate);
        peer.publish_each(0..3);
        for n in 0..3 {
            assert_eq!(peer.sent(), topics([n]));
            let msg_ref = peer.last_ref();
            peer.advance(millis(300));
            peer.published(&msg_ref);
            peer.advance(secs(1));
        }
        assert!(peer.sent().is_empty());
    }
}

#[test]
fn a_new_connection_starts_with_all_its_slots() {
    let mut peer = Peer::default_connected();
    peer.publish_each(0..RATE);
    let refs = peer.refs();
    refs[..20].iter().for_each(|msg_ref| peer.published(msg_ref));
    peer.close(1006);
    peer.reconnect();
    peer.forget();
    peer.publish_each(0..RATE + 1);
    assert_eq!(peer.sent(), topics(0..RATE));
}

#[test]
fn a_publish_that_timed_out_frees_its_slot_a_second_later() {
    let mut peer = paced(1);
    let ops = peer.publish_each(0..2);
    peer.sent();
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(ops[0]), nolag_core::Op::Publish));
    peer.advance(millis(999));
    assert!(peer.sent().is_empty());
    peer.advance(millis(1));
    assert_eq!(peer.sent(), topics([1]));
}

#[test]
fn what_is_held_back_is_bounded() {
    let mut peer = Peer::connected(with(|config| {
        config.publish_rate = Some(1);
        config.limits.max_pending = 10;
    }));
    peer.publish_each(0..10);
    let refused = peer.core.publish(peer.now, Publish::new(TOPIC, payload("x"))).unwrap_err();
    assert!(matches!(refused.error, Error::Rejected(Rejection::Full { pending: 10, .. })));
}

/// A broker behind a line of changing length: counts publishes by the seconds of its own clock.
fn busiest_second(offset: u64, travel: &[(u64, u64)]) -> usize {
    let mut peer = paced(5);
    let ops = peer.publish_each(0..travel.len());
    let mut counted: BTreeMap<u64, usize> = BTreeMap::new();
    let mut replies: BTreeMap<(Instant, usize), String> = BTreeMap::new();
    let (mut sent, mut at_broker, mut at_client) = (0, Instant::ZERO, Instant::ZERO);
    while peer.is_pending(*ops.last().expect("some")) {
        for msg_ref in peer.refs() {
            let (there, back) = travel[sent];
            // Frames do not overtake each other.
            at_broker = at_broker.max(peer.now + Duration::from_micros(there));
            at_client = at_client.max(at_broker + Duration::from_micros(back));
            *counted.entry((at_broker.as_micros() + offset) / 1_000_000).or_default() += 1;
            replies.insert((at_client, sent), msg_ref);
            sent += 1;
        }
        let reply = replies.first_key_value().map(|((at, _), _)| *at);
        match (reply, peer.core.poll_timeout()) {
            (Some(at), due) if due.is_none_or(|due| at <= due) => {
                peer.now = peer.now.max(at);
                let (_, msg_ref) = replies.pop_first().expect("there is one");
                peer.published(&msg_ref);
            }
            (_, due) => peer.advance_to(due.expect("something happens")),
        }
    }
    assert!(ops.into_iter().all(|op| peer.outcome(op) == Outcome::Acked));
    counted.into_values().max().unwrap_or(0)
}

proptest! {
    #[test]
    fn in_no_second_of_the_brokers_clock_are_there_more_than_it_takes(
        offset in 0..1_000_000_u64,
        travel in vec((0..1_500_000_u64, 0..1_500_000_u64), 1..40),
    ) {
        prop_assert!(busiest_second(offset, &travel) <= 5);
    }
}

// ---- publishes that came too soon ----

#[test]
fn a_publish_that_came_too_soon_is_sent_again_after_a_second() {
    let mut peer = Peer::default_connected();
    let op = peer.publish(TOPIC);
    let refs = peer.refs();
    peer.too_soon(&refs[0]);
    assert!(peer.is_pending(op));
    peer.advance(millis(999));
    assert!(peer.sent().is_empty());
    peer.advance(millis(1));
    assert_eq!(peer.refs(), refs, "the same publish");
    peer.published(&refs[0]);
    assert_eq!(peer.outcome(op), Outcome::Acked);
    assert!(peer.events().is_empty(), "the application hears nothing of it");
    assert_eq!(peer.core.stats().publishes_retried, 1);
}

#[test]
fn it_is_sent_again_with_pacing_off_too() {
    let mut peer = Peer::connected(unpaced());
    let ops = peer.publish_each(0..60);
    let refs = peer.refs();
    refs[..50].iter().for_each(|msg_ref| peer.published(msg_ref));
    refs[50..].iter().for_each(|msg_ref| peer.too_soon(msg_ref));
    peer.advance(millis(999));
    assert!(peer.sent().is_empty());
    peer.advance(millis(1));
    assert_eq!(peer.sent(), topics(50..60));
    refs[50..].iter().for_each(|msg_ref| peer.published(msg_ref));
    assert!(ops.into_iter().all(|op| peer.outcome(op) == Outcome::Acked));
    assert_eq!(peer.core.stats().publishes_retried, 10);
}

#[test]
fn what_is_sent_again_keeps_its_order_and_goes_before_what_is_newer() {
    let mut peer = Peer::connected(unpaced());
    peer.publish_each(0..5);
    let refs = peer.refs();
    peer.too_soon(&refs[1]);
    peer.too_soon(&refs[3]);
    peer.publish_each(5..7);
    assert!(peer.sent().is_empty(), "what is newer waits as well");
    peer.too_soon(&refs[4]);
    peer.advance(secs(1));
    assert_eq!(peer.sent(), topics([1, 3, 4, 5, 6]));
}

#[test]
fn each_refusal_starts_the_second_anew() {
    let mut peer = Peer::connected(unpaced());
    peer.publish_each(0..2);
    let refs = peer.refs();
    peer.too_soon(&refs[0]);
    peer.advance(millis(700));
    peer.too_soon(&refs[1]);
    peer.advance(millis(999));
    assert!(peer.sent().is_empty());
    peer.advance(millis(1));
    assert_eq!(peer.sent(), topics(0..2));
}

#[test]
fn after_ten_retries_a_publish_is_refused() {
    for rate in [Some(50), None] {
        let mut peer = Peer::connected(with(|config| config.publish_rate = rate));
        let op = peer.publish(TOPIC);
        let msg_ref = peer.last_ref();
        for _ in 0..10 {
            assert_eq!(peer.refs().len(), 1);
            peer.too_soon(&msg_ref);
            assert!(peer.is_pending(op));
            peer.advance(secs(1));
        }
        assert_eq!(peer.refs().len(), 1, "the tenth retry");
        peer.too_soon(&msg_ref);
        assert!(is_refused_as_too_soon(&peer.outcome(op)));
        peer.advance(secs(5));
        assert!(peer.sent().is_empty());
        assert_eq!(peer.core.stats().publishes_retried, 10);
    }
}

#[test]
fn the_last_refusal_holds_the_others_back_like_the_first() {
    let mut peer = Peer::connected(unpaced());
    peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    for _ in 0..10 {
        peer.too_soon(&msg_ref);
        peer.advance(secs(1));
    }
    peer.too_soon(&msg_ref);
    peer.sent();
    peer.publish_each(0..1);
    peer.advance(millis(999));
    assert!(peer.sent().is_empty(), "the broker just said that it was too much");
    peer.advance(millis(1));
    assert_eq!(peer.sent(), topics([0]));
}

#[test]
fn the_deadline_of_what_is_sent_again_starts_when_it_leaves_again() {
    let mut peer = Peer::connected(unpaced());
    let op = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    peer.advance(millis(9_500));
    peer.too_soon(&msg_ref);
    peer.advance(millis(10_999));
    assert!(peer.is_pending(op));
    peer.advance(millis(1));
    assert!(is_timeout(&peer.outcome(op), nolag_core::Op::Publish));
}

#[test]
fn what_was_only_ever_refused_is_not_sent_when_the_connection_goes() {
    let mut peer = Peer::connected(unpaced());
    let ops = peer.publish_each(0..2);
    let refs = peer.refs();
    peer.too_soon(&refs[0]);
    peer.advance(secs(1));
    peer.too_soon(&refs[0]);
    peer.close(1006);
    assert!(matches!(peer.outcome(ops[0]), Outcome::NotSent(_)), "the broker has said that it did nothing");
    assert!(matches!(peer.outcome(ops[1]), Outcome::Unknown(_)));
}

#[test]
fn what_was_sent_again_and_not_answered_is_unknown_when_the_connection_goes() {
    let mut peer = Peer::connected(unpaced());
    let op = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    peer.too_soon(&msg_ref);
    peer.advance(secs(1));
    peer.close(1006);
    assert!(matches!(peer.outcome(op), Outcome::Unknown(_)));
}

#[test]
fn an_untracked_publish_that_came_too_soon_is_reported_and_lost() {
    let mut peer = Peer::default_connected();
    let op = peer.publish_as(TOPIC, |publish| publish.tracked = false);
    assert_eq!(peer.outcome(op), Outcome::Sent);
    peer.refuse(TOPIC, "rate_limit_exceeded", Some(42910));
    let Event::ServerError(error) = peer.event() else { panic!("not reported") };
    assert_eq!(error.code, Some(42910));
    peer.sent();
    peer.advance(secs(5));
    assert!(peer.sent().is_empty());
}

#[test]
fn a_confirmation_settles_nothing_while_the_publish_waits_to_be_sent_again() {
    let mut peer = Peer::default_connected();
    let op: OpId = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    peer.too_soon(&msg_ref);
    peer.published(&msg_ref);
    peer.too_soon(&msg_ref);
    assert!(peer.is_pending(op));
    assert_eq!(peer.core.stats().publishes_retried, 1);
    peer.advance(secs(1));
    peer.published(&msg_ref);
    assert_eq!(peer.outcome(op), Outcome::Acked);
}

// ---- answers that do not come in time ----

/// A client with heartbeats that are not echoed by themselves.
fn unechoed(rate: u32) -> Peer {
    let mut peer = Peer::connected(with(|config| {
        config.publish_rate = Some(rate);
        config.heartbeat_interval = Some(secs(30));
        config.heartbeat_timeout = secs(60);
    }));
    peer.echo = false;
    peer
}

#[test]
fn a_publish_that_is_not_answered_in_time_keeps_its_slot_until_a_heartbeat_is_echoed() {
    let mut peer = unechoed(1);
    let ops = peer.publish_each(0..2);
    assert_eq!(peer.sent(), topics([0]));
    peer.advance(secs(29));
    assert!(matches!(peer.outcome(ops[0]), Outcome::Unknown(_)));
    assert!(peer.sent().is_empty(), "the broker may count it only now");
    peer.bytes(Vec::new());
    peer.advance(secs(2));
    assert!(peer.sent().is_empty(), "an echo of nothing that was sent after it");
    peer.bytes(Vec::new());
    peer.advance(millis(999));
    assert!(peer.sent().is_empty());
    peer.advance(millis(1));
    assert_eq!(peer.sent(), topics([1]));
}

#[test]
fn a_late_answer_frees_the_slot_of_a_publish_that_has_ended() {
    for late in [Peer::published, Peer::too_soon] {
        let mut peer = unechoed(1);
        peer.publish_each(0..2);
        let refs = peer.refs();
        peer.advance(secs(15));
        late(&mut peer, &refs[0]);
        peer.advance(millis(999));
        assert!(peer.sent().is_empty());
        peer.advance(millis(1));
        assert_eq!(peer.sent(), topics([1]));
    }
}

#[test]
fn an_answer_to_a_later_publish_shows_that_those_before_it_were_counted() {
    let mut peer = unechoed(2);
    peer.publish_each(0..1);
    peer.advance(secs(5));
    peer.publish_each(1..4);
    let refs = peer.refs();
    peer.advance(secs(6));
    peer.published(&refs[1]);
    peer.sent();
    peer.advance(secs(1));
    assert_eq!(peer.sent(), topics([2, 3]));
}

#[test]
fn a_new_connection_has_all_its_slots() {
    let mut peer = unechoed(1);
    peer.publish_each(0..1);
    peer.advance(secs(11));
    peer.close(None);
    peer.reconnect();
    peer.forget();
    peer.publish_each(5..6);
    assert_eq!(peer.sent(), topics([5]));
}
