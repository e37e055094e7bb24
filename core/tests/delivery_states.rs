//! Each state of the client, with each way to publish and each policy: what becomes of a publish and of a received
//! message. `docs/delivery.md` is the table of these tests.

mod support;

use nolag_core::{
    Config, Error, Event, OfflinePolicy, Op, OpId, Outcome, Publish, Rejection, ResendPolicy, Status,
    TransportErrorKind, TransportEvent, TransportEventKind, wire::ServerFrame,
};
use support::*;

fn queueing(config: &mut Config) {
    config.offline = OfflinePolicy::Queue { max_messages: 100, max_bytes: 100_000, max_age: None };
}

fn resending(config: &mut Config) {
    config.resend = ResendPolicy::AtLeastOnce;
}

fn default_policy() -> Config {
    config()
}

fn offline_queue() -> Config {
    with(queueing)
}

fn at_least_once() -> Config {
    with(resending)
}

fn queue_and_at_least_once() -> Config {
    with(|config| {
        queueing(config);
        resending(config);
    })
}

type Policy = fn() -> Config;
const WITHOUT_QUEUE: [Policy; 2] = [default_policy, at_least_once];
const WITH_QUEUE: [Policy; 2] = [offline_queue, queue_and_at_least_once];
const WITHOUT_RESEND: [Policy; 2] = [default_policy, offline_queue];
const WITH_RESEND: [Policy; 2] = [at_least_once, queue_and_at_least_once];
const ALL: [Policy; 4] = [default_policy, offline_queue, at_least_once, queue_and_at_least_once];

const TRACKED: bool = true;
const UNTRACKED: bool = false;

/// A publish in the given mode, accepted.
fn publish(peer: &mut Peer, tracked: bool) -> OpId {
    peer.publish_as(TOPIC, |publish| publish.tracked = tracked)
}

/// Why a publish is refused, in either mode.
#[track_caller]
fn refused(peer: &mut Peer) -> Error {
    let errors = [TRACKED, UNTRACKED].map(|tracked| {
        let mut publish = Publish::new(TOPIC, payload("x"));
        publish.tracked = tracked;
        peer.core.publish(peer.now, publish).expect_err("refused").error
    });
    assert_eq!(errors[0], errors[1]);
    errors[0].clone()
}

fn publishes_sent(peer: &mut Peer) -> usize {
    peer.sent().iter().filter(|frame| frame.starts_with("publish")).count()
}

/// Confirms the publish sent last.
fn confirm(peer: &mut Peer) {
    let msg_ref = peer.last_ref();
    peer.published(&msg_ref);
}

/// A client whose session broke.
fn reconnecting(policy: Policy) -> Peer {
    let mut peer = Peer::connected(policy());
    peer.close(1006);
    peer.forget();
    peer
}

// ---- idle ----

#[test]
fn idle_refuses_every_publish() {
    for policy in ALL {
        let mut peer = Peer::new(policy());
        assert_eq!(refused(&mut peer), Rejection::NotConnected.into());
        peer.connect();
        peer.open();
        peer.accept();
        peer.disconnect_now();
        assert_eq!(refused(&mut peer), Rejection::NotConnected.into());
        peer.connect();
        peer.open();
        peer.deny("access_denied");
        assert!(matches!(refused(&mut peer), Error::Server(_)), "why the client gave up");
    }
}

#[test]
fn idle_receives_nothing() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    peer.disconnect_now();
    peer.deliver(TOPIC, "late");
    assert!(peer.message().is_none());
}

#[test]
fn idle_keeps_what_was_received_before() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    peer.deliver(TOPIC, "hello");
    peer.disconnect_now();
    assert_eq!(peer.messages().len(), 1);
}

// ---- connecting and reconnecting ----

/// A client at each stage of its first connect.
fn connecting(policy: Policy) -> [Peer; 2] {
    let (mut opening, mut authenticating) = (Peer::new(policy()), Peer::new(policy()));
    opening.connect();
    authenticating.connect();
    authenticating.open();
    [opening, authenticating]
}

#[test]
fn connecting_refuses_a_publish_without_a_queue() {
    for policy in WITHOUT_QUEUE {
        for mut peer in connecting(policy) {
            assert_eq!(peer.core.status(), Status::Connecting);
            assert_eq!(refused(&mut peer), Rejection::NotConnected.into());
        }
    }
}

#[test]
fn connecting_queues_a_publish_for_the_session() {
    for policy in WITH_QUEUE {
        let [mut peer, _] = connecting(policy);
        let untracked = publish(&mut peer, UNTRACKED);
        let tracked = publish(&mut peer, TRACKED);
        peer.open();
        peer.accept();
        assert_eq!(publishes_sent(&mut peer), 2);
        confirm(&mut peer);
        assert_eq!(peer.outcome(tracked), Outcome::Acked);
        assert_eq!(peer.outcome(untracked), Outcome::Sent);
    }
}

#[test]
fn connecting_in_vain_leaves_the_queue_unsent() {
    for policy in WITH_QUEUE {
        for mut peer in connecting(policy) {
            let ops = [publish(&mut peer, TRACKED), publish(&mut peer, UNTRACKED)];
            peer.fail(TransportErrorKind::Io);
            assert!(ops.into_iter().all(|op| matches!(peer.outcome(op), Outcome::NotSent(_))));
        }
    }
}

#[test]
fn reconnecting_refuses_a_publish_without_a_queue() {
    for policy in WITHOUT_QUEUE {
        let mut peer = reconnecting(policy);
        assert_eq!(peer.core.status(), Status::Reconnecting);
        assert_eq!(refused(&mut peer), Rejection::NotConnected.into());
        peer.reopen();
        assert_eq!(refused(&mut peer), Rejection::NotConnected.into());
    }
}

#[test]
fn reconnecting_queues_a_publish_for_the_session() {
    for policy in WITH_QUEUE {
        let mut peer = reconnecting(policy);
        let untracked = publish(&mut peer, UNTRACKED);
        peer.reopen();
        peer.close(1006);
        let tracked = publish(&mut peer, TRACKED);
        peer.reconnect();
        assert_eq!(publishes_sent(&mut peer), 2);
        confirm(&mut peer);
        assert_eq!(peer.outcome(tracked), Outcome::Acked);
        assert_eq!(peer.outcome(untracked), Outcome::Sent);
    }
}

#[test]
fn reconnecting_in_vain_leaves_the_queue_unsent() {
    for policy in WITH_QUEUE {
        let mut peer = reconnecting(policy);
        let ops = [publish(&mut peer, TRACKED), publish(&mut peer, UNTRACKED)];
        peer.reopen();
        peer.deny("access_denied");
        assert!(ops.into_iter().all(|op| matches!(peer.outcome(op), Outcome::NotSent(_))));
    }
}

#[test]
fn reconnecting_misses_messages_and_says_that_it_may_have() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    let gone = peer.transport.expect("there is one");
    peer.close(1006);
    let payload = payload("late");
    let frame = encode(&ServerFrame::Message(message(TOPIC, payload.raw())));
    let kind = TransportEventKind::Message(frame);
    peer.core.handle_transport(peer.now, TransportEvent { id: gone, kind });
    assert!(peer.message().is_none());
    peer.reconnect();
    peer.subscribed(TOPIC);
    assert!(matches!(peer.events().last(), Some(Event::Restored { possible_gap: true, .. })));
}

#[test]
fn reconnecting_keeps_what_was_received_before() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    peer.deliver(TOPIC, "hello");
    peer.close(1006);
    assert_eq!(peer.messages().len(), 1);
}

// ---- connected ----

#[test]
fn connected_a_tracked_publish_is_acked() {
    for policy in ALL {
        let mut peer = Peer::connected(policy());
        let op = publish(&mut peer, TRACKED);
        confirm(&mut peer);
        assert_eq!(peer.outcome(op), Outcome::Acked);
    }
}

#[test]
fn connected_a_tracked_publish_without_an_answer_is_unknown() {
    for policy in ALL {
        let mut peer = Peer::connected(policy());
        let op = publish(&mut peer, TRACKED);
        peer.advance(secs(10));
        assert!(is_timeout(&peer.outcome(op), Op::Publish));
    }
}

#[test]
fn connected_an_untracked_publish_is_sent_whatever_comes_then() {
    for policy in ALL {
        let mut peer = Peer::connected(policy());
        let op = publish(&mut peer, UNTRACKED);
        assert_eq!(peer.outcome(op), Outcome::Sent);
        peer.close(1006);
        peer.forget();
        peer.reconnect();
        assert_eq!(publishes_sent(&mut peer), 0);
    }
}

#[test]
fn a_loss_leaves_what_was_sent_unknown() {
    for policy in WITHOUT_RESEND {
        let mut peer = Peer::connected(policy());
        let op = publish(&mut peer, TRACKED);
        peer.close(1006);
        assert!(matches!(peer.outcome(op), Outcome::Unknown(_)));
        peer.forget();
        peer.reconnect();
        assert_eq!(publishes_sent(&mut peer), 0);
    }
}

#[test]
fn a_loss_makes_what_was_sent_go_again() {
    for policy in WITH_RESEND {
        let mut peer = Peer::connected(policy());
        let op = publish(&mut peer, TRACKED);
        peer.close(1006);
        peer.forget();
        peer.reconnect();
        assert_eq!(publishes_sent(&mut peer), 1);
        confirm(&mut peer);
        assert_eq!(peer.outcome(op), Outcome::Acked);
    }
}

/// One publish in each mode that the transport has not taken yet when the connection goes.
fn lost_before_it_left(policy: Policy) -> (Peer, [OpId; 2]) {
    let mut peer = Peer::connected(policy());
    peer.blocked = true;
    let ops = [publish(&mut peer, UNTRACKED), publish(&mut peer, TRACKED)];
    peer.close(1006);
    peer.blocked = false;
    peer.reconnect();
    (peer, ops)
}

#[test]
fn a_loss_leaves_what_waits_unsent() {
    let (mut peer, ops) = lost_before_it_left(default_policy);
    assert!(ops.into_iter().all(|op| matches!(peer.outcome(op), Outcome::NotSent(_))));
    assert_eq!(publishes_sent(&mut peer), 0);
}

#[test]
fn a_loss_leaves_what_waits_waiting() {
    for policy in [offline_queue, at_least_once, queue_and_at_least_once] {
        let (mut peer, [untracked, tracked]) = lost_before_it_left(policy);
        assert_eq!(publishes_sent(&mut peer), 2);
        confirm(&mut peer);
        assert_eq!(peer.outcome(tracked), Outcome::Acked);
        assert_eq!(peer.outcome(untracked), Outcome::Sent);
    }
}

#[test]
fn connected_a_message_is_delivered_once() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    for _ in 0..2 {
        peer.deliver_with(TOPIC, "hello", |message| message.msg_id = Some("m1"));
    }
    assert_eq!(peer.messages().len(), 1);
}

// ---- paused by us ----

/// A client that reads nothing, because its application takes nothing.
fn paused(policy: Policy) -> Peer {
    let mut config = policy();
    config.limits.max_inbound_messages = 1;
    let mut peer = Peer::connected(config);
    peer.subscription(TOPIC);
    peer.deliver(TOPIC, "m0");
    assert!(!peer.core.wants_input());
    peer
}

#[test]
fn paused_a_tracked_publish_leaves_and_its_time_stands_still() {
    for policy in ALL {
        let mut peer = paused(policy);
        let op = publish(&mut peer, TRACKED);
        assert_eq!(publishes_sent(&mut peer), 1);
        peer.advance(secs(9));
        assert_eq!(peer.messages().len(), 1);
        peer.wake();
        peer.advance(millis(9_999));
        assert!(peer.is_pending(op));
        confirm(&mut peer);
        assert_eq!(peer.outcome(op), Outcome::Acked);
    }
}

#[test]
fn paused_no_more_leave_than_the_broker_takes_in_a_second() {
    for policy in ALL {
        let mut peer = paused(policy);
        peer.publish_each(0..60);
        peer.advance(secs(9));
        assert_eq!(publishes_sent(&mut peer), 50, "no reply is read, so no slot is free");
    }
}

#[test]
fn paused_an_untracked_publish_is_sent() {
    for policy in ALL {
        let mut peer = paused(policy);
        let op = publish(&mut peer, UNTRACKED);
        assert_eq!(peer.outcome(op), Outcome::Sent);
    }
}

#[test]
fn paused_for_too_long_messages_are_dropped_and_that_is_told() {
    let mut peer = paused(default_policy);
    peer.advance(secs(10));
    assert!(peer.core.wants_input());
    peer.forget();
    peer.deliver(TOPIC, "m1");
    assert!(matches!(peer.events()[..], [Event::Lagged { count: 1, .. }]));
    assert_eq!(peer.message().expect("the newer one").payload().text(), Some("m1"));
}

// ---- draining ----

/// A client that leaves with one publish sent and one in each mode held back.
fn draining(policy: Policy) -> (Peer, OpId, [OpId; 2]) {
    let mut config = policy();
    config.publish_rate = Some(1);
    let mut peer = Peer::connected(config);
    let sent = publish(&mut peer, TRACKED);
    let waiting = [publish(&mut peer, UNTRACKED), publish(&mut peer, TRACKED)];
    peer.sent();
    peer.drain(secs(8));
    (peer, sent, waiting)
}

#[test]
fn draining_refuses_every_publish() {
    for policy in ALL {
        let (mut peer, ..) = draining(policy);
        assert_eq!(refused(&mut peer), Rejection::Closing.into());
    }
}

#[test]
fn draining_finishes_what_was_accepted() {
    for policy in ALL {
        let (mut peer, sent, [untracked, tracked]) = draining(policy);
        confirm(&mut peer);
        assert_eq!(peer.outcome(sent), Outcome::Acked);
        peer.advance(secs(1));
        assert_eq!(peer.outcome(untracked), Outcome::Sent);
        peer.advance(secs(1));
        confirm(&mut peer);
        assert_eq!(peer.outcome(tracked), Outcome::Acked);
        assert_eq!(peer.core.status(), Status::Disconnected);
    }
}

#[test]
fn draining_in_vain_leaves_the_rest_unknown_or_unsent() {
    type End = fn(&mut Peer);
    let ends: [End; 2] = [|peer| peer.advance(secs(8)), |peer| peer.close(1006)];
    for policy in ALL {
        for end in ends {
            let (mut peer, sent, waiting) = draining(policy);
            end(&mut peer);
            assert!(matches!(peer.outcome(sent), Outcome::Unknown(_)));
            assert!(waiting.into_iter().all(|op| matches!(peer.outcome(op), Outcome::NotSent(_))));
            assert_eq!(peer.core.status(), Status::Disconnected);
        }
    }
}

#[test]
fn draining_still_delivers_messages() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    publish(&mut peer, TRACKED);
    peer.drain(secs(5));
    peer.deliver(TOPIC, "hello");
    confirm(&mut peer);
    assert_eq!(peer.core.status(), Status::Disconnected);
    assert_eq!(peer.messages().len(), 1);
}
