//! Publishing by policy: without a session, over a loss, against a deadline, and on leaving.

mod support;

use nolag_core::{
    Config, Error, Event, OfflinePolicy, OpId, Outcome, Publish, ReconnectPolicy, Rejection, ResendPolicy,
    Status, TransportErrorKind,
};
use support::*;

fn queue(max_messages: usize, max_bytes: usize, max_age: Option<u64>) -> OfflinePolicy {
    OfflinePolicy::Queue { max_messages, max_bytes, max_age: max_age.map(secs) }
}

fn queueing() -> Config {
    with(|config| config.offline = queue(100, 100_000, None))
}

fn at_least_once() -> Config {
    with(|config| config.resend = ResendPolicy::AtLeastOnce)
}

fn both() -> Config {
    changed(queueing(), |config| config.resend = ResendPolicy::AtLeastOnce)
}

fn changed(mut config: Config, change: impl FnOnce(&mut Config)) -> Config {
    change(&mut config);
    config
}

fn paced(rate: u32, config: Config) -> Config {
    changed(config, |config| config.publish_rate = Some(rate))
}

/// A client with this configuration that lost its session a moment ago.
fn reconnecting(config: Config) -> Peer {
    let mut peer = Peer::connected(config);
    peer.close(1006);
    peer.forget();
    assert_eq!(peer.core.status(), Status::Reconnecting);
    peer
}

fn refused(peer: &mut Peer) -> Error {
    let publish = Publish::new(TOPIC, payload("hello"));
    let refused = peer.core.publish(peer.now, publish.clone()).unwrap_err();
    assert_eq!(refused.value, publish, "the message comes back");
    refused.error
}

fn topics(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|n| format!("publish demo/general/t{n}")).collect()
}

fn auth_and(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    std::iter::once("auth".to_owned()).chain(topics(numbers)).collect()
}

fn was_closed(error: &Error, code: u16) -> bool {
    matches!(error, Error::Transport(error) if error.kind == TransportErrorKind::Closed(Some(code)))
}

#[track_caller]
fn assert_unknown(peer: &mut Peer, op: OpId, code: u16) {
    let outcome = peer.outcome(op);
    assert!(matches!(&outcome, Outcome::Unknown(error) if was_closed(error, code)), "{outcome:?}");
}

#[track_caller]
fn assert_not_sent(peer: &mut Peer, op: OpId, code: u16) {
    let outcome = peer.outcome(op);
    assert!(matches!(&outcome, Outcome::NotSent(error) if was_closed(error, code)), "{outcome:?}");
}

// ---- without a session ----

#[test]
fn by_default_a_publish_without_a_session_is_refused() {
    let mut peer = reconnecting(config());
    assert_eq!(refused(&mut peer), Rejection::NotConnected.into());
    let mut peer = reconnecting(at_least_once());
    assert_eq!(
        refused(&mut peer),
        Rejection::NotConnected.into(),
        "what was sent is kept, nothing new is taken"
    );
}

#[test]
fn queued_publishes_leave_in_order_when_the_session_stands_again() {
    let mut peer = reconnecting(queueing());
    let mut ops = peer.publish_each(0..2);
    ops.push(peer.publish_as("demo/general/t2", |publish| publish.tracked = false));
    peer.reopen();
    ops.extend(peer.publish_each(3..4));
    assert_eq!(peer.sent(), ["auth"]);
    peer.accept();
    ops.extend(peer.publish_each(4..5));
    assert_eq!(peer.sent(), topics(0..5));
    assert_eq!(peer.outcome(ops[2]), Outcome::Sent);
    let msg_ref = peer.last_ref();
    peer.published(&msg_ref);
    assert_eq!(peer.outcome(ops[4]), Outcome::Acked);
}

#[test]
fn publishes_are_queued_while_the_client_connects_for_the_first_time() {
    let mut peer = Peer::new(queueing());
    peer.connect();
    peer.publish_each(0..1);
    peer.open();
    peer.publish_each(1..2);
    peer.accept();
    assert_eq!(peer.sent(), auth_and(0..2));
}

#[test]
fn an_idle_client_queues_nothing() {
    let mut peer = Peer::new(queueing());
    assert_eq!(refused(&mut peer), Rejection::NotConnected.into());
    peer.connect();
    peer.fail(TransportErrorKind::Connect);
    let Error::Transport(error) = refused(&mut peer) else { panic!("the reason for having given up") };
    assert_eq!(error.kind, TransportErrorKind::Connect);
    peer.connect();
    peer.open();
    peer.accept();
    peer.disconnect_now();
    assert_eq!(refused(&mut peer), Rejection::NotConnected.into());
}

#[test]
fn the_queue_is_bounded_by_count() {
    let mut peer = reconnecting(with(|config| config.offline = queue(3, 100_000, None)));
    peer.publish_each(0..3);
    assert!(matches!(refused(&mut peer), Error::Rejected(Rejection::Full { pending: 3, .. })));
    peer.reconnect();
    assert_eq!(peer.sent(), auth_and(0..3));
    peer.publish_each(3..10);
    assert_eq!(peer.sent(), topics(3..10), "with a session the bound is another");
}

#[test]
fn the_queue_is_bounded_by_bytes() {
    let mut peer = reconnecting(with(|config| config.offline = queue(100, 1_000, None)));
    let text = "x".repeat(400);
    let big = |publish: &mut Publish| publish.payload = payload(&text);
    peer.publish_as(TOPIC, big);
    peer.publish_as(TOPIC, big);
    let mut third = Publish::new(TOPIC, payload(""));
    big(&mut third);
    let refused = peer.core.publish(peer.now, third).unwrap_err().error;
    assert!(matches!(refused, Error::Rejected(Rejection::Full { pending: 2, bytes: 800..=1_000 })));
    peer.publish(TOPIC);
}

#[test]
fn a_queue_of_nothing_takes_nothing() {
    let mut peer = reconnecting(with(|config| config.offline = queue(0, 1_000, None)));
    assert_eq!(refused(&mut peer), Rejection::Full { pending: 0, bytes: 0 }.into());
}

#[test]
fn what_waits_for_a_session_for_too_long_expires() {
    let mut peer = Peer::new(with(|config| {
        config.offline = queue(100, 100_000, Some(5));
        config.connect_timeout = secs(100);
    }));
    peer.connect();
    let first = peer.publish(TOPIC);
    peer.advance(secs(2));
    let second = peer.publish(TOPIC);
    peer.advance(millis(2_999));
    assert!(peer.is_pending(first));
    peer.advance(millis(1));
    assert_eq!(peer.outcome(first), Outcome::Expired);
    peer.advance(millis(1_999));
    assert!(peer.is_pending(second));
    peer.open();
    peer.accept();
    assert_eq!(peer.sent(), ["auth".to_owned(), format!("publish {TOPIC}")]);
    peer.advance(secs(5));
    assert!(peer.is_pending(second), "once it was sent its age does not count");
}

#[test]
fn age_counts_over_failed_attempts_and_ends_the_wait_while_nothing_else_happens() {
    let mut peer = reconnecting(with(|config| config.offline = queue(100, 100_000, Some(120))));
    let op = peer.publish(TOPIC);
    let accepted = peer.now;
    while peer.is_pending(op) {
        let at = peer.core.poll_timeout().expect("something is due");
        peer.advance_to(at);
        if peer.opened() > 0 {
            peer.fail(TransportErrorKind::Connect);
        }
    }
    assert_eq!(peer.outcome(op), Outcome::Expired);
    assert_eq!(peer.now, accepted + secs(120));
}

#[test]
fn what_was_accepted_with_a_session_ages_from_its_loss() {
    let mut peer = Peer::connected(with(|config| {
        config.offline = queue(100, 100_000, Some(5));
        config.connect_timeout = secs(100);
    }));
    peer.blocked = true;
    let op = peer.publish(TOPIC);
    peer.advance(secs(9));
    peer.close(1006);
    peer.advance(secs(4));
    assert!(peer.is_pending(op));
    peer.advance(secs(2));
    assert_eq!(peer.outcome(op), Outcome::Expired);
}

#[test]
fn what_expired_is_not_sent_by_an_adapter_that_wakes_late() {
    let mut peer = Peer::new(with(|config| config.offline = queue(100, 100_000, Some(5))));
    peer.connect();
    let op = peer.publish(TOPIC);
    peer.open();
    // The machine sleeps; what comes first afterwards is a frame, not the timer.
    peer.sleep(secs(9));
    peer.accept();
    assert_eq!(peer.outcome(op), Outcome::Expired);
    assert_eq!(peer.sent(), ["auth"]);
}

#[test]
fn a_queued_publish_survives_attempts_and_sessions_that_take_nothing() {
    let mut peer = reconnecting(queueing());
    let op = peer.publish_each(0..1)[0];
    peer.reopen();
    peer.close(1006);
    peer.blocked = true;
    peer.reopen();
    peer.accept();
    peer.close(1006);
    peer.blocked = false;
    assert!(peer.is_pending(op));
    peer.forget();
    peer.reconnect();
    assert_eq!(peer.sent(), auth_and(0..1));
}

#[test]
fn with_a_queue_what_was_sent_is_unknown_and_what_was_not_waits() {
    let mut peer = Peer::connected(queueing());
    let sent = peer.publish_each(0..1)[0];
    peer.blocked = true;
    let unsent = peer.publish_each(1..2)[0];
    let untracked = peer.publish_as("demo/general/t2", |publish| publish.tracked = false);
    peer.close(1006);
    assert_unknown(&mut peer, sent, 1006);
    assert!(peer.is_pending(unsent) && peer.is_pending(untracked));
    peer.blocked = false;
    peer.forget();
    peer.reconnect();
    assert_eq!(peer.sent(), auth_and(1..3));
}

#[test]
fn what_is_subscribed_is_restored_before_queued_publishes_leave() {
    let mut peer = Peer::connected(queueing());
    peer.subscription("demo/general/replies");
    peer.close(1006);
    peer.forget();
    peer.publish_each(0..1);
    peer.subscribe("demo/general/more");
    peer.reconnect();
    let expected =
        ["auth", "subscribe demo/general/replies", "subscribe demo/general/more", "publish demo/general/t0"];
    assert_eq!(peer.sent(), expected, "or the answer to what is published would be missed");
}

#[test]
fn what_is_asked_for_before_the_first_session_keeps_its_order() {
    let mut peer = Peer::new(queueing());
    peer.connect();
    peer.subscribe(TOPIC);
    peer.publish(TOPIC);
    peer.open();
    peer.accept();
    assert_eq!(peer.sent(), ["auth".to_owned(), format!("subscribe {TOPIC}"), format!("publish {TOPIC}")]);
}

#[test]
fn when_the_client_gives_up_what_waits_was_not_sent() {
    let mut peer = Peer::new(queueing());
    peer.connect();
    let op = peer.publish(TOPIC);
    peer.open();
    peer.deny("access_denied");
    assert!(matches!(peer.outcome(op), Outcome::NotSent(Error::Server(_))));

    let mut peer = reconnecting(with(|config| {
        config.offline = queue(100, 100_000, None);
        config.reconnect.max_attempts = Some(1);
    }));
    let op = peer.publish(TOPIC);
    peer.reopen();
    peer.close(1006);
    assert_not_sent(&mut peer, op, 1006);
    assert_eq!(peer.core.status(), Status::Disconnected);
}

#[test]
fn leaving_without_a_session_leaves_the_queue_unsent() {
    type Leave = fn(&mut Peer) -> OpId;
    let ways: [Leave; 2] = [Peer::disconnect_now, |peer| peer.drain(secs(5))];
    for leave in ways {
        let mut peer = reconnecting(queueing());
        let op = peer.publish(TOPIC);
        let left = leave(&mut peer);
        assert_eq!(peer.outcome(op), Outcome::NotSent(Rejection::Disconnected.into()));
        assert_eq!(peer.outcome(left), Outcome::Disconnected);
        assert_eq!(peer.core.poll_timeout(), None);
    }
}

// ---- over a loss ----

#[test]
fn by_default_what_was_sent_and_not_confirmed_is_unknown_when_the_connection_goes() {
    let mut peer = Peer::default_connected();
    let sent = peer.publish(TOPIC);
    peer.blocked = true;
    let unsent = peer.publish(TOPIC);
    peer.close(1011);
    assert_unknown(&mut peer, sent, 1011);
    assert_not_sent(&mut peer, unsent, 1011);
}

#[test]
fn at_least_once_what_was_not_confirmed_goes_again_first_and_in_order() {
    let mut peer = Peer::connected(at_least_once());
    let ops = peer.publish_each(0..4);
    let refs = peer.refs();
    peer.published(&refs[1]);
    peer.blocked = true;
    peer.publish_each(4..6);
    peer.close(1006);
    peer.blocked = false;
    peer.reconnect();
    peer.publish_each(6..7);
    assert_eq!(peer.sent(), auth_and([0, 2, 3, 4, 5, 6]));
    peer.published(&refs[0]);
    assert_eq!(peer.outcome(ops[0]), Outcome::Acked, "under the reference that it had");
    assert_eq!(peer.outcome(ops[1]), Outcome::Acked);
}

#[test]
fn what_is_resent_goes_before_what_was_queued_meanwhile() {
    let mut peer = Peer::connected(both());
    peer.publish_each(0..2);
    peer.close(1006);
    peer.publish_each(2..4);
    peer.forget();
    peer.reconnect();
    assert_eq!(peer.sent(), auth_and(0..4));
}

#[test]
fn what_is_resent_is_paced_and_goes_after_what_is_restored() {
    let mut peer = Peer::connected(paced(2, at_least_once()));
    peer.subscription(TOPIC);
    peer.publish_each(0..3);
    peer.close(1006);
    peer.forget();
    peer.reconnect();
    let expected = ["auth".to_owned(), format!("subscribe {TOPIC}")];
    assert_eq!(peer.sent(), expected.into_iter().chain(topics(0..2)).collect::<Vec<_>>());
}

#[test]
fn a_resent_publish_is_resent_again_and_ends_once() {
    let mut peer = Peer::connected(at_least_once());
    let op = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    for _ in 0..3 {
        peer.close(1006);
        assert!(peer.is_pending(op));
        peer.reconnect();
    }
    peer.published(&msg_ref);
    assert_eq!(peer.outcome(op), Outcome::Acked);
    peer.published(&msg_ref);
    assert_eq!(peer.core.stats().frames_unexpected, 1, "the confirmation of the other copy is for nobody");
}

#[test]
fn a_confirmation_on_a_connection_that_is_gone_comes_too_late() {
    let mut peer = Peer::connected(at_least_once());
    let op = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    let gone = peer.transport.expect("there is one");
    peer.close(1006);
    let published = nolag_core::wire::ServerFrame::Published {
        topic: nolag_core::wire::Text::Str(TOPIC),
        msg_ref: nolag_core::wire::Text::Str(&msg_ref),
    };
    let kind = nolag_core::TransportEventKind::Message(encode(&published));
    peer.core.handle_transport(peer.now, nolag_core::TransportEvent { id: gone, kind });
    peer.pump();
    assert!(peer.is_pending(op));
    assert_eq!(peer.core.stats().stale_transport_events, 1);
}

#[test]
fn a_resent_publish_that_is_not_answered_is_unknown_after_its_time() {
    let mut peer = Peer::connected(at_least_once());
    let op = peer.publish(TOPIC);
    peer.advance(secs(9));
    peer.close(1006);
    peer.reconnect();
    peer.advance(millis(9_999));
    assert!(peer.is_pending(op), "its time starts anew");
    peer.advance(millis(1));
    assert!(is_timeout(&peer.outcome(op), nolag_core::Op::Publish));
}

#[test]
fn an_untracked_publish_that_left_is_not_resent() {
    let mut peer = Peer::connected(both());
    let op = peer.publish_as(TOPIC, |publish| publish.tracked = false);
    assert_eq!(peer.outcome(op), Outcome::Sent);
    peer.close(1006);
    peer.forget();
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth"]);
}

#[test]
fn when_the_client_gives_up_what_was_sent_is_unknown_and_the_rest_was_not_sent() {
    let mut peer = Peer::connected(both());
    let sent = peer.publish(TOPIC);
    peer.blocked = true;
    let unsent = peer.publish(TOPIC);
    peer.close(1006);
    peer.blocked = false;
    let queued = peer.publish(TOPIC);
    peer.reopen();
    peer.deny("access_denied");
    assert!(matches!(peer.outcome(sent), Outcome::Unknown(Error::Server(_))));
    assert!(matches!(peer.outcome(unsent), Outcome::NotSent(Error::Server(_))));
    assert!(matches!(peer.outcome(queued), Outcome::NotSent(Error::Server(_))));
}

#[test]
fn without_reconnects_nothing_is_resent() {
    let mut peer = Peer::connected(changed(both(), |config| config.reconnect = ReconnectPolicy::never()));
    let op = peer.publish(TOPIC);
    peer.close(1006);
    assert_unknown(&mut peer, op, 1006);
}

// ---- a message on which the broker closes the connection ----

/// Four sent, two of them unconfirmed, when the broker closes with `code`; up to the next `auth`.
fn poisoned(code: u16) -> (Peer, Vec<OpId>, Vec<String>) {
    let mut peer = Peer::connected(at_least_once());
    let ops = peer.publish_each(0..4);
    let refs = peer.refs();
    peer.published(&refs[0]);
    peer.published(&refs[2]);
    peer.close(code);
    peer.reconnect();
    (peer, ops, refs)
}

#[test]
fn after_a_close_that_a_frame_caused_the_first_unconfirmed_publish_goes_alone() {
    for code in [1009, 1011] {
        let (mut peer, ops, refs) = poisoned(code);
        peer.publish_each(4..5);
        assert_eq!(peer.sent(), auth_and([1]));
        peer.advance(secs(5));
        assert!(peer.sent().is_empty());
        peer.published(&refs[1]);
        assert_eq!(peer.outcome(ops[1]), Outcome::Acked);
        assert_eq!(peer.sent(), topics([3, 4]), "cleared, the rest goes on");
    }
}

#[test]
fn when_it_happens_again_it_is_refused_and_the_rest_goes_on() {
    for code in [1009, 1011] {
        let (mut peer, ops, _) = poisoned(code);
        peer.sent();
        peer.close(code);
        let Outcome::Refused(error) = peer.outcome(ops[1]) else { panic!("not refused") };
        assert_eq!(error.error, "connection_closed");
        assert!(
            error.detail.as_deref().is_some_and(|detail| detail.contains(&code.to_string())),
            "{error:?}"
        );
        peer.reconnect();
        assert_eq!(peer.sent(), auth_and([3]));
        assert!(peer.is_pending(ops[3]));
    }
}

#[test]
fn one_that_is_cleared_clears_no_other() {
    let (mut peer, ops, refs) = poisoned(1011);
    peer.published(&refs[1]);
    peer.publish_each(4..5);
    peer.close(1011);
    peer.forget();
    peer.reconnect();
    assert_eq!(peer.sent(), auth_and([3]), "now the next is suspected, and may try once more");
    assert!(peer.is_pending(ops[3]));
}

#[test]
fn a_suspect_waits_until_everything_else_stands_again() {
    let mut peer = Peer::connected(at_least_once());
    peer.subscription(TOPIC);
    let op = peer.publish_each(0..2)[0];
    peer.close(1011);
    peer.forget();
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth".to_owned(), format!("subscribe {TOPIC}")]);
    peer.close(1011);
    assert!(peer.is_pending(op), "it was not this one");
    peer.forget();
    peer.reconnect();
    peer.sent();
    peer.subscribed(TOPIC);
    assert_eq!(peer.sent(), topics([0]));
}

#[test]
fn another_kind_of_loss_neither_clears_nor_convicts() {
    let (mut peer, ops, _) = poisoned(1011);
    peer.sent();
    peer.close(1006);
    assert!(peer.is_pending(ops[1]));
    peer.reconnect();
    assert_eq!(peer.sent(), auth_and([1]), "still alone");
    peer.close(1011);
    assert!(matches!(peer.outcome(ops[1]), Outcome::Refused(_)));
}

#[test]
fn a_suspect_that_was_not_sent_again_is_not_convicted() {
    let (mut peer, ops, _) = {
        let mut peer = Peer::connected(at_least_once());
        let ops = peer.publish_each(0..2);
        let refs = peer.refs();
        peer.close(1011);
        peer.blocked = true;
        peer.reconnect();
        (peer, ops, refs)
    };
    peer.close(1011);
    peer.blocked = false;
    assert!(peer.is_pending(ops[0]) && peer.is_pending(ops[1]));
    peer.forget();
    peer.reconnect();
    assert_eq!(peer.sent(), auth_and([0]));
}

#[test]
fn a_suspect_that_is_not_answered_is_unknown_and_holds_nothing_back_any_longer() {
    let (mut peer, ops, _) = poisoned(1011);
    peer.sent();
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(ops[1]), nolag_core::Op::Publish));
    assert_eq!(peer.sent(), topics([3]));
}

#[test]
fn a_suspect_that_came_too_soon_is_still_alone_when_it_goes_again() {
    let (mut peer, _, refs) = poisoned(1011);
    peer.sent();
    peer.too_soon(&refs[1]);
    peer.advance(secs(1));
    assert_eq!(peer.sent(), topics([1]));
    peer.published(&refs[1]);
    assert_eq!(peer.sent(), topics([3]));
}

#[test]
fn without_resending_nothing_is_suspected() {
    let mut peer = Peer::connected(queueing());
    let ops = peer.publish_each(0..2);
    peer.close(1011);
    assert_unknown(&mut peer, ops[0], 1011);
    peer.publish_each(2..4);
    peer.forget();
    peer.reconnect();
    assert_eq!(peer.sent(), auth_and(2..4));
}

// ---- against a deadline ----

#[test]
fn a_publish_held_back_beyond_its_deadline_expires() {
    let mut peer = Peer::connected(paced(1, config()));
    let first = peer.publish(TOPIC);
    let second = peer.publish_as(TOPIC, |publish| publish.expires_in = Some(secs(2)));
    peer.advance(millis(1_999));
    assert!(peer.is_pending(second));
    peer.advance(millis(1));
    assert_eq!(peer.outcome(second), Outcome::Expired);
    assert!(peer.is_pending(first));
}

#[test]
fn a_deadline_does_not_concern_what_was_sent() {
    let mut peer = Peer::default_connected();
    let op = peer.publish_as(TOPIC, |publish| publish.expires_in = Some(secs(2)));
    let msg_ref = peer.last_ref();
    peer.advance(secs(5));
    peer.published(&msg_ref);
    assert_eq!(peer.outcome(op), Outcome::Acked);
}

#[test]
fn a_publish_that_may_not_wait_leaves_at_once_or_never() {
    let mut peer = Peer::connected(paced(1, config()));
    let now = |publish: &mut Publish| publish.expires_in = Some(secs(0));
    let first = peer.publish_as(TOPIC, now);
    assert_eq!(peer.sent().len(), 1);
    let second = peer.publish_as(TOPIC, now);
    peer.wake();
    assert_eq!(peer.outcome(second), Outcome::Expired);
    assert!(peer.is_pending(first));
}

#[test]
fn a_deadline_beyond_all_time_never_comes() {
    let mut peer = Peer::connected(paced(1, config()));
    peer.publish(TOPIC);
    let op = peer.publish_as(TOPIC, |publish| publish.expires_in = Some(std::time::Duration::MAX));
    peer.advance(secs(9));
    assert!(peer.is_pending(op));
}

#[test]
fn of_two_deadlines_the_earlier_counts() {
    let mut peer = reconnecting(with(|config| config.offline = queue(100, 100_000, Some(5))));
    let own = peer.publish_as(TOPIC, |publish| publish.expires_in = Some(secs(3)));
    let of_queue = peer.publish_as(TOPIC, |publish| publish.expires_in = Some(secs(7)));
    peer.blocked = true;
    peer.advance(secs(3));
    assert_eq!(peer.outcome(own), Outcome::Expired);
    peer.advance(millis(1_999));
    assert!(peer.is_pending(of_queue));
    peer.advance(millis(1));
    assert_eq!(peer.outcome(of_queue), Outcome::Expired);
}

#[test]
fn what_expires_before_it_is_sent_is_not_sent_by_an_adapter_that_polls_late() {
    let mut peer = Peer::default_connected();
    peer.blocked = true;
    let late = peer.publish_as(TOPIC, |publish| publish.expires_in = Some(secs(2)));
    let other = peer.publish(TOPIC);
    peer.sleep(secs(3));
    peer.blocked = false;
    peer.pump();
    assert_eq!(peer.outcome(late), Outcome::Expired);
    assert_eq!(peer.sent().len(), 1);
    assert!(peer.is_pending(other));
}

#[test]
fn what_expires_last_ends_a_drain_even_if_nothing_is_left_to_send() {
    let mut peer = Peer::default_connected();
    peer.blocked = true;
    let late = peer.publish_as(TOPIC, |publish| publish.expires_in = Some(secs(2)));
    let left = peer.drain(secs(30));
    peer.sleep(secs(3));
    peer.blocked = false;
    peer.pump();
    assert_eq!(peer.outcome(late), Outcome::Expired);
    assert_eq!(peer.outcome(left), Outcome::Disconnected);
    assert_eq!(peer.closed(), [1000]);
}

#[test]
fn what_was_sent_once_and_expires_before_it_is_resent_is_unknown() {
    let mut peer = Peer::connected(at_least_once());
    let op = peer.publish_as(TOPIC, |publish| publish.expires_in = Some(secs(60)));
    peer.close(1006);
    peer.reopen();
    peer.fail(TransportErrorKind::Io);
    while peer.is_pending(op) {
        let at = peer.core.poll_timeout().expect("something is due");
        peer.advance_to(at);
        if peer.opened() > 0 {
            peer.fail(TransportErrorKind::Io);
        }
    }
    assert_eq!(peer.outcome(op), Outcome::Unknown(Rejection::Expired.into()));
}

// ---- on leaving ----

#[test]
fn a_drain_finishes_what_is_held_back_at_its_pace() {
    let mut peer = Peer::connected(paced(2, config()));
    let ops = peer.publish_each(0..5);
    let left = peer.drain(secs(10));
    assert!(matches!(refused(&mut peer), Error::Rejected(Rejection::Closing)));
    for expected in [2, 2, 1] {
        let refs = peer.refs();
        assert_eq!(refs.len(), expected);
        assert!(peer.is_pending(left));
        refs.iter().for_each(|msg_ref| peer.published(msg_ref));
        peer.advance(secs(1));
    }
    assert!(ops.into_iter().all(|op| peer.outcome(op) == Outcome::Acked));
    assert_eq!(peer.outcome(left), Outcome::Disconnected);
    assert_eq!(peer.closed(), [1000]);
}

#[test]
fn at_the_end_of_a_drain_the_rest_is_unknown_or_not_sent() {
    for config in [config(), both()] {
        let mut peer = Peer::connected(paced(2, config));
        let ops = peer.publish_each(0..4);
        let refs = peer.refs();
        peer.published(&refs[0]);
        let left = peer.drain(millis(500));
        peer.advance(millis(499));
        assert!(peer.is_pending(left));
        peer.advance(millis(1));
        assert_eq!(peer.outcome(left), Outcome::Disconnected);
        let gone = || Error::from(Rejection::Disconnected);
        assert_eq!(peer.outcome(ops[0]), Outcome::Acked);
        assert_eq!(peer.outcome(ops[1]), Outcome::Unknown(gone()));
        assert_eq!(peer.outcome(ops[2]), Outcome::NotSent(gone()));
        assert_eq!(peer.outcome(ops[3]), Outcome::NotSent(gone()));
        assert_eq!(peer.core.poll_timeout(), None);
    }
}

#[test]
fn a_drain_waits_for_what_came_too_soon() {
    let mut peer = Peer::default_connected();
    let op = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    let left = peer.drain(secs(10));
    peer.too_soon(&msg_ref);
    assert!(peer.is_pending(left));
    peer.advance(secs(1));
    peer.published(&msg_ref);
    assert_eq!(peer.outcome(op), Outcome::Acked);
    assert_eq!(peer.outcome(left), Outcome::Disconnected);
}

#[test]
fn a_drain_whose_connection_goes_keeps_nothing() {
    let mut peer = Peer::connected(paced(1, both()));
    let ops = peer.publish_each(0..2);
    let left = peer.drain(secs(10));
    peer.close(1011);
    assert_unknown(&mut peer, ops[0], 1011);
    assert_not_sent(&mut peer, ops[1], 1011);
    assert_eq!(peer.outcome(left), Outcome::Disconnected);
    assert_eq!(peer.core.poll_timeout(), None);
}

#[test]
fn leaving_now_leaves_the_rest_undone_at_once() {
    let mut peer = Peer::connected(paced(1, both()));
    let ops = peer.publish_each(0..2);
    let left = peer.disconnect_now();
    assert_eq!(peer.outcome(ops[0]), Outcome::Unknown(Rejection::Disconnected.into()));
    assert_eq!(peer.outcome(ops[1]), Outcome::NotSent(Rejection::Disconnected.into()));
    assert_eq!(peer.outcome(left), Outcome::Disconnected);
    assert!(matches!(peer.events()[..], [Event::Disconnected { retry_in: None, .. }]));
}

#[test]
fn a_publish_with_a_deadline_that_ends_while_draining_ends_the_drain() {
    let mut peer = Peer::connected(paced(1, config()));
    let first = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    let held = peer.publish_as(TOPIC, |publish| publish.expires_in = Some(secs(1)));
    let left = peer.drain(secs(30));
    peer.advance(secs(1));
    assert_eq!(peer.outcome(held), Outcome::Expired);
    peer.published(&msg_ref);
    assert_eq!(peer.outcome(first), Outcome::Acked);
    assert_eq!(peer.outcome(left), Outcome::Disconnected);
}
