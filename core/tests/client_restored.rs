//! What the application is told when a reconnect is over and everything stands again.

mod support;

use std::time::Duration;

use nolag_core::{Error, Event, Instant, wire::RawValue};
use support::*;

const OTHER: &str = "demo/general/other";

/// A client with these subscriptions whose session broke; and when.
fn broken(topics: &[&str]) -> (Peer, Instant) {
    let mut peer = Peer::default_connected();
    for topic in topics {
        peer.subscription(topic);
    }
    peer.close(1006);
    peer.forget();
    let lost_at = peer.now;
    (peer, lost_at)
}

/// The reports of a restored state since last asked: how long there was no session, and whether something may be missing.
fn restored_events(peer: &mut Peer) -> Vec<(Duration, bool)> {
    let restored = |event| match event {
        Event::Restored { downtime, possible_gap } => Some((downtime, possible_gap)),
        _ => None,
    };
    peer.events().into_iter().filter_map(restored).collect()
}

#[test]
fn it_is_told_when_the_last_subscription_is_confirmed() {
    let (mut peer, lost_at) = broken(&[TOPIC, OTHER]);
    peer.reopen();
    peer.advance(millis(700));
    peer.accept();
    let downtime = peer.now.saturating_since(lost_at);
    assert!(matches!(peer.event(), Event::Connected { downtime: Some(said), .. } if said == downtime));
    peer.advance(secs(1));
    peer.subscribed(OTHER);
    assert!(peer.events().is_empty(), "one is missing");
    peer.subscribed(TOPIC);
    assert_eq!(peer.event(), Event::Restored { downtime, possible_gap: true });
}

#[test]
fn it_is_told_once_for_each_loss() {
    let (mut peer, _) = broken(&[TOPIC]);
    for _ in 0..3 {
        peer.reconnect();
        peer.subscribed(TOPIC);
        assert_eq!(restored_events(&mut peer).len(), 1);
        peer.subscribe_as(TOPIC, |subscribe| subscribe.refresh = true);
        peer.subscribed(TOPIC);
        peer.subscription(OTHER);
        peer.unsubscribe(OTHER);
        assert!(restored_events(&mut peer).is_empty());
        peer.close(1006);
    }
}

#[test]
fn a_first_session_restores_nothing() {
    let mut peer = Peer::new(config());
    peer.connect();
    peer.subscribe(TOPIC);
    peer.open();
    peer.accept();
    peer.subscribed(TOPIC);
    assert!(restored_events(&mut peer).is_empty());
    peer.disconnect_now();
    peer.connect();
    peer.open();
    peer.accept();
    assert!(restored_events(&mut peer).is_empty(), "nor does another connect of the application");
}

#[test]
fn without_subscriptions_nothing_can_be_missing() {
    let (mut peer, lost_at) = broken(&[]);
    peer.reconnect();
    let downtime = peer.now.saturating_since(lost_at);
    assert_eq!(restored_events(&mut peer), [(downtime, false)]);
}

#[test]
fn what_was_subscribed_only_meanwhile_is_not_waited_for_and_has_no_gap() {
    let (mut peer, _) = broken(&[]);
    peer.subscribe(TOPIC);
    peer.reconnect();
    let [(_, possible_gap)] = restored_events(&mut peer)[..] else { panic!("once") };
    assert!(!possible_gap);
    peer.subscribed(TOPIC);
    assert!(peer.events().is_empty());
}

#[test]
fn what_the_broker_restored_by_itself_stands_at_once() {
    let mut peer = Peer::connected(named());
    peer.subscription(TOPIC);
    peer.close(1006);
    peer.forget();
    peer.reopen();
    let list = restored(&[&[("topic", Field::Text(TOPIC))]]);
    peer.accept_with(|reply| reply.restored_subscriptions = Some(RawValue::parse(&list).unwrap()));
    assert!(matches!(
        peer.events()[..],
        [Event::Connected { .. }, Event::Restored { possible_gap: true, .. }]
    ));
}

#[test]
fn a_subscription_that_is_now_refused_is_not_waited_for() {
    let (mut peer, _) = broken(&[TOPIC, OTHER]);
    peer.reconnect();
    peer.subscribed(OTHER);
    peer.refuse(TOPIC, "unknown_topic", Some(42940));
    let events = peer.events();
    assert!(matches!(
        events[..],
        [
            Event::Connected { .. },
            Event::SubscriptionEnded { cause: Error::Server(_), .. },
            Event::Restored { possible_gap: true, .. }
        ]
    ));
}

#[test]
fn a_subscription_that_was_ended_meanwhile_is_not_waited_for() {
    let (mut peer, _) = broken(&[TOPIC, OTHER]);
    peer.unsubscribe(OTHER);
    peer.reconnect();
    assert!(restored_events(&mut peer).is_empty());
    peer.unsubscribe(TOPIC);
    let [(_, possible_gap)] = restored_events(&mut peer)[..] else { panic!("once") };
    assert!(!possible_gap, "nobody listens any more");
}

#[test]
fn ending_the_last_subscription_while_there_is_no_session_tells_nothing() {
    let (mut peer, _) = broken(&[TOPIC]);
    peer.unsubscribe(TOPIC);
    assert!(restored_events(&mut peer).is_empty());
    peer.reconnect();
    assert_eq!(restored_events(&mut peer).len(), 1);
}

#[test]
fn a_subscription_whose_change_was_under_way_is_waited_for() {
    let mut peer = Peer::default_connected();
    peer.filtered(TOPIC, &["a"]);
    // The first is confirmed, the second not yet: it stands, but not as it is wanted.
    peer.filtered(TOPIC, &["b"]);
    peer.subscribed(TOPIC);
    peer.close(1006);
    peer.forget();
    peer.reconnect();
    assert!(restored_events(&mut peer).is_empty(), "it stood before, and does not stand again yet");
    peer.subscribed(TOPIC);
    assert_eq!(restored_events(&mut peer).len(), 1);
}

#[test]
fn a_change_before_it_is_confirmed_does_not_put_it_off() {
    let (mut peer, _) = broken(&[TOPIC]);
    peer.reconnect();
    peer.filtered(TOPIC, &["a"]);
    peer.subscribed(TOPIC);
    assert_eq!(restored_events(&mut peer).len(), 1, "messages come from now on");
    peer.subscribed(TOPIC);
    assert!(restored_events(&mut peer).is_empty());
}

#[test]
fn a_loss_before_everything_stands_makes_one_longer_downtime() {
    let (mut peer, lost_at) = broken(&[TOPIC, OTHER]);
    peer.advance(millis(10));
    peer.reconnect();
    peer.subscribed(OTHER);
    peer.advance(secs(2));
    peer.close(1006);
    assert!(restored_events(&mut peer).is_empty());
    let again = peer.now;
    peer.reopen();
    peer.fail(nolag_core::TransportErrorKind::Io);
    peer.reconnect();
    let session_downtime = peer.now.saturating_since(again);
    assert!(matches!(
        peer.events().iter().find(|event| matches!(event, Event::Connected { .. })),
        Some(Event::Connected { downtime: Some(said), .. }) if *said == session_downtime
    ));
    let downtime = peer.now.saturating_since(lost_at);
    peer.subscribed(TOPIC);
    assert!(restored_events(&mut peer).is_empty(), "all of them, again");
    peer.advance(secs(1));
    peer.subscribed(OTHER);
    let expected = (downtime, true);
    assert_eq!(restored_events(&mut peer), [expected], "something may be missing since the first loss");
    // The next one starts anew.
    peer.close(1006);
    let lost_at = peer.now;
    peer.reconnect();
    let downtime = peer.now.saturating_since(lost_at);
    peer.subscribed(TOPIC);
    peer.subscribed(OTHER);
    assert_eq!(restored_events(&mut peer), [(downtime, true)]);
}

#[test]
fn ending_the_last_missing_one_after_another_loss_tells_nothing_before_the_session() {
    let (mut peer, _) = broken(&[TOPIC]);
    peer.reconnect();
    peer.close(1006);
    peer.unsubscribe(TOPIC);
    assert!(restored_events(&mut peer).is_empty());
    peer.reconnect();
    assert_eq!(restored_events(&mut peer).len(), 1);
}

#[test]
fn leaving_before_everything_stands_tells_nothing() {
    let (mut peer, _) = broken(&[TOPIC]);
    peer.reconnect();
    peer.disconnect_now();
    assert!(restored_events(&mut peer).is_empty());
    peer.connect();
    peer.open();
    peer.accept();
    assert!(restored_events(&mut peer).is_empty());
}

#[test]
fn giving_up_tells_nothing() {
    let (mut peer, _) = broken(&[TOPIC]);
    peer.reconnect();
    peer.close(4001);
    assert!(matches!(peer.events().last(), Some(Event::GaveUp { .. })));
    peer.connect();
    peer.open();
    peer.accept();
    assert!(restored_events(&mut peer).is_empty());
}

#[test]
fn an_unanswered_subscribe_is_sent_again_before_it_is_told() {
    let (mut peer, _) = broken(&[TOPIC]);
    peer.reconnect();
    peer.advance(secs(10));
    assert!(restored_events(&mut peer).is_empty());
    peer.subscribed(TOPIC);
    peer.subscribed(TOPIC);
    assert_eq!(restored_events(&mut peer).len(), 1);
}
