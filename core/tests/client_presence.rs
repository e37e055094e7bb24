//! Presence: where we are, and who else is there.

mod support;

use nolag_core::{Error, Misuse, Op, Outcome, Rejection, TransportErrorKind, wire::RawValue};
use support::*;

const ELSEWHERE: &str = "storage";
const P: &str = "actor-2";

/// A client that is present in [`ROOM`].
fn present() -> Peer {
    let mut peer = Peer::default_connected();
    peer.present_in(ROOM);
    peer
}

/// As [`present`], and the broker has just listed who else is there.
fn present_with(others: &[Listed<'_>]) -> Peer {
    let mut peer = present();
    let members = [&[online(ACTOR, "me")], others].concat();
    peer.fetch_presence(ROOM);
    peer.presence_list(ROOM, &members);
    peer.forget();
    peer
}

// ---- setting ----

#[test]
fn presence_is_set_when_the_broker_shows_us_our_own() {
    let mut peer = Peer::default_connected();
    let op = peer.set_presence(ROOM, "desk");
    assert_eq!(peer.sent(), ["presence general=desk"]);
    assert!(peer.is_pending(op), "sent is not set");
    assert_eq!(peer.core.presence_room(), Some(ROOM));
    peer.presence_event("join", ACTOR, Some("desk"));
    assert_eq!(peer.outcome(op), Outcome::PresenceSet);
    assert_eq!(peer.changes(), ["general: Join actor-1=desk"]);
    assert_eq!(peer.members(), ["actor-1=desk"]);
}

#[test]
fn somebody_elses_event_does_not_confirm_ours() {
    let mut peer = Peer::default_connected();
    let op = peer.set_presence(ROOM, "desk");
    peer.joins(P, "desk");
    assert!(peer.is_pending(op));
    peer.joins(ACTOR, "desk");
    assert_eq!(peer.outcome(op), Outcome::PresenceSet);
}

#[test]
fn the_update_after_the_join_confirms_nothing_more() {
    let mut peer = Peer::default_connected();
    let first = peer.set_presence(ROOM, "desk");
    let second = peer.set_presence(ROOM, "door");
    assert_eq!(peer.sent(), ["presence general=desk", "presence general=door"]);
    peer.joins(ACTOR, "desk");
    assert_eq!(peer.outcome(first), Outcome::PresenceSet);
    assert!(peer.is_pending(second), "the second event is still about the first");
    peer.updates(ACTOR, "door");
    assert_eq!(peer.outcome(second), Outcome::PresenceSet);
    assert_eq!(peer.members(), ["actor-1=door"]);
}

#[test]
fn later_sets_are_confirmed_by_one_update_each() {
    let mut peer = present();
    let first = peer.set_presence(ROOM, "a");
    let second = peer.set_presence(ROOM, "b");
    peer.updates(ACTOR, "a");
    assert_eq!(peer.outcome(first), Outcome::PresenceSet);
    assert!(peer.is_pending(second));
    peer.updates(ACTOR, "b");
    assert_eq!(peer.outcome(second), Outcome::PresenceSet);
    assert_eq!(peer.changes(), ["general: Update actor-1=a", "general: Update actor-1=b"]);
}

#[test]
fn a_broker_that_sends_no_update_after_the_join_is_understood_too() {
    let mut peer = Peer::default_connected();
    peer.set_presence(ROOM, "desk");
    peer.presence_event("join", ACTOR, Some("desk"));
    let other = peer.set_presence(ROOM, "door");
    peer.updates(ACTOR, "door");
    assert_eq!(peer.outcome(other), Outcome::PresenceSet, "another value is not the same news again");
    let mut peer = Peer::default_connected();
    peer.set_presence(ROOM, "desk");
    peer.presence_event("join", ACTOR, Some("desk"));
    peer.advance(secs(1));
    let same = peer.set_presence(ROOM, "desk");
    peer.updates(ACTOR, "desk");
    assert_eq!(peer.outcome(same), Outcome::PresenceSet, "nor is the same value much later");
}

#[test]
fn set_presence_before_the_session_waits_for_it_and_the_last_one_counts() {
    let mut peer = Peer::new(config());
    peer.connect();
    let first = peer.set_presence(ROOM, "a");
    let second = peer.set_presence(ELSEWHERE, "b");
    peer.open();
    peer.sent();
    peer.accept();
    assert_eq!(peer.sent(), ["presence storage=b"]);
    peer.joins(ACTOR, "b");
    assert_eq!(peer.outcome(first), Outcome::PresenceSet);
    assert_eq!(peer.outcome(second), Outcome::PresenceSet);
}

#[test]
fn mistakes_are_refused_and_the_data_comes_back() {
    let mut peer = Peer::default_connected();
    for room in ["", "a/b", "a b", "+", "#"] {
        let refused = peer.core.set_presence(peer.now, room, payload("me")).unwrap_err();
        assert!(matches!(refused.error, Error::Misuse(Misuse::InvalidTopic { .. })), "{room}");
        assert_eq!(refused.value, payload("me"));
        assert!(matches!(
            peer.core.fetch_presence(peer.now, room),
            Err(Error::Misuse(Misuse::InvalidTopic { .. }))
        ));
    }
    let mut idle = Peer::new(config());
    let refused = idle.core.set_presence(idle.now, ROOM, payload("me")).unwrap_err();
    assert_eq!((refused.error, refused.value), (Rejection::NotConnected.into(), payload("me")));
    assert_eq!(idle.core.clear_presence(idle.now), Err(Rejection::NotConnected.into()));
    idle.connect();
    assert_eq!(idle.core.fetch_presence(idle.now, ROOM), Err(Rejection::NotConnected.into()));
    assert_eq!(idle.core.presence_room(), None);
}

#[test]
fn a_room_that_the_broker_does_not_know_is_answered_by_silence() {
    let mut peer = Peer::default_connected();
    let op = peer.set_presence("nowhere", "me");
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(op), Op::SetPresence));
    assert!(peer.closed().is_empty(), "which is no reason to leave");
}

#[test]
fn after_an_unknown_room_the_next_one_is_confirmed_and_attributed_right() {
    let mut peer = Peer::default_connected();
    let unknown = peer.set_presence("nowhere", "me");
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(unknown), Op::SetPresence));
    let known = peer.set_presence(ROOM, "me");
    peer.joins(ACTOR, "me");
    assert_eq!(peer.outcome(known), Outcome::PresenceSet);
    peer.joins(P, "x");
    let rooms: Vec<_> = peer.changes();
    assert_eq!(rooms.len(), 4);
    assert!(rooms.iter().all(|change| change.starts_with("general: ")), "{rooms:?}");
    let update = peer.set_presence(ROOM, "again");
    peer.updates(ACTOR, "again");
    assert_eq!(peer.outcome(update), Outcome::PresenceSet);
}

#[test]
fn a_move_waits_for_the_one_before_it_because_events_do_not_say_which_they_confirm() {
    let mut peer = Peer::default_connected();
    let unknown = peer.set_presence("nowhere", "me");
    let second = peer.set_presence(ROOM, "me");
    let third = peer.set_presence(ELSEWHERE, "me");
    assert_eq!(peer.sent(), ["presence nowhere=me"]);
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(unknown), Op::SetPresence));
    assert_eq!(peer.sent(), ["presence storage=me"], "and then only the last one is made");
    peer.joins(ACTOR, "me");
    assert_eq!(peer.outcome(second), Outcome::PresenceSet);
    assert_eq!(peer.outcome(third), Outcome::PresenceSet);
    assert!(peer.changes().iter().all(|change| change.starts_with("storage: ")));
}

#[test]
fn a_move_to_an_unknown_room_leaves_us_where_we_are() {
    let mut peer = present();
    let op = peer.set_presence("nowhere", "me");
    peer.joins(P, "x");
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(op), Op::SetPresence));
    peer.updates(P, "y");
    assert!(peer.changes().iter().all(|change| change.starts_with("general: ")));
    assert_eq!(peer.members(), ["actor-1=me", "actor-2=y"]);
}

#[test]
fn a_join_that_comes_late_is_attributed_to_the_room_that_we_want() {
    let mut peer = Peer::default_connected();
    let op = peer.set_presence(ROOM, "me");
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(op), Op::SetPresence));
    peer.joins(ACTOR, "me");
    assert_eq!(peer.changes(), ["general: Join actor-1=me", "general: Update actor-1=me"]);
    assert_eq!(peer.members(), ["actor-1=me"]);
}

// ---- moving ----

#[test]
fn setting_presence_in_another_room_moves_there() {
    let mut peer = present();
    peer.joins(P, "x");
    peer.forget();
    let op = peer.set_presence(ELSEWHERE, "moved");
    assert_eq!(peer.sent(), ["presence storage=moved"]);
    peer.updates(P, "still here");
    peer.leaves(ACTOR);
    assert_eq!(peer.changes(), ["general: Update actor-2=still here", "general: Leave actor-1"]);
    assert!(peer.members().is_empty(), "who is in the old room is not our business any more");
    assert!(peer.is_pending(op));
    peer.joins(ACTOR, "moved");
    assert_eq!(peer.outcome(op), Outcome::PresenceSet);
    peer.joins("actor-3", "z");
    let expected = [
        "storage: Join actor-1=moved",
        "storage: Update actor-1=moved",
        "storage: Join actor-3=z",
        "storage: Update actor-3=z",
    ];
    assert_eq!(peer.changes(), expected);
    assert_eq!(peer.members(), ["actor-1=moved", "actor-3=z"]);
    assert!(peer.sent().is_empty(), "nothing of this is in doubt");
}

#[test]
fn events_between_leaving_one_room_and_joining_the_next_belong_to_the_next() {
    let mut peer = present();
    peer.set_presence(ELSEWHERE, "moved");
    peer.leaves(ACTOR);
    peer.changes();
    peer.updates(P, "x");
    assert_eq!(peer.changes(), ["storage: Update actor-2=x"]);
}

#[test]
fn moving_there_and_back_ends_where_it_was_asked_to_end() {
    let mut peer = present();
    let there = peer.set_presence(ELSEWHERE, "b");
    let back = peer.set_presence(ROOM, "c");
    assert_eq!(peer.sent(), ["presence storage=b"]);
    peer.leaves(ACTOR);
    peer.joins(ACTOR, "b");
    assert_eq!(peer.outcome(there), Outcome::PresenceSet);
    assert_eq!(peer.sent(), ["presence general=c"]);
    peer.leaves(ACTOR);
    peer.joins(ACTOR, "c");
    assert_eq!(peer.outcome(back), Outcome::PresenceSet);
    let expected = [
        "general: Leave actor-1",
        "storage: Join actor-1=b",
        "storage: Update actor-1=b",
        "storage: Leave actor-1",
        "general: Join actor-1=c",
        "general: Update actor-1=c",
    ];
    assert_eq!(peer.changes(), expected);
}

#[test]
fn a_set_and_a_move_right_after_it_are_confirmed_in_order() {
    let mut peer = present();
    let set = peer.set_presence(ROOM, "last words");
    let moved = peer.set_presence(ELSEWHERE, "moved");
    assert_eq!(peer.sent(), ["presence general=last words", "presence storage=moved"]);
    peer.updates(ACTOR, "last words");
    assert_eq!(peer.outcome(set), Outcome::PresenceSet);
    assert!(peer.is_pending(moved));
    peer.leaves(ACTOR);
    peer.joins(ACTOR, "moved");
    assert_eq!(peer.outcome(moved), Outcome::PresenceSet);
}

// ---- losing the connection ----

#[test]
fn presence_is_set_again_once_after_a_reconnect() {
    let mut peer = present();
    peer.set_presence(ROOM, "second");
    peer.updates(ACTOR, "second");
    peer.forget();
    peer.fail(TransportErrorKind::Io);
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth", "presence general=second"]);
    peer.joins(ACTOR, "second");
    peer.advance(secs(20));
    assert!(!peer.sent().contains(&"presence general=second".to_owned()));
}

#[test]
fn only_the_last_room_is_restored() {
    let mut peer = present();
    let lost = peer.set_presence(ELSEWHERE, "moved");
    peer.fail(TransportErrorKind::Io);
    assert!(peer.is_pending(lost));
    let meanwhile = peer.set_presence("third", "now here");
    peer.sent();
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth", "presence third=now here"]);
    peer.joins(ACTOR, "now here");
    assert_eq!(peer.outcome(lost), Outcome::PresenceSet);
    assert_eq!(peer.outcome(meanwhile), Outcome::PresenceSet);
}

#[test]
fn who_came_and_went_meanwhile_is_found_out_after_a_reconnect() {
    let mut peer = present_with(&[online(P, "x"), online("actor-3", "y")]);
    peer.fail(TransportErrorKind::Io);
    assert_eq!(peer.members().len(), 3, "nobody knows better");
    peer.reconnect();
    peer.joins(ACTOR, "me");
    peer.forget();
    peer.advance(millis(250));
    assert_eq!(peer.sent(), ["getPresence general"]);
    peer.presence_list(ROOM, &[online(ACTOR, "me"), online("actor-3", "y2"), online("actor-4", "z")]);
    let expected = ["general: Leave actor-2", "general: Update actor-3=y2", "general: Join actor-4=z"];
    assert_eq!(peer.changes(), expected);
    assert_eq!(peer.members(), ["actor-1=me", "actor-3=y2", "actor-4=z"]);
}

#[test]
fn members_of_the_old_room_are_not_those_of_another_room_after_a_reconnect() {
    let mut peer = present_with(&[online(P, "x")]);
    peer.fail(TransportErrorKind::Io);
    peer.set_presence(ELSEWHERE, "me");
    peer.reconnect();
    peer.forget();
    peer.joins(ACTOR, "me");
    assert_eq!(peer.members(), ["actor-1=me"]);
    peer.advance(secs(1));
    assert_eq!(peer.changes(), ["storage: Join actor-1=me", "storage: Update actor-1=me"]);
    assert!(peer.sent().is_empty());
}

#[test]
fn nobody_is_known_after_a_reconnect_without_presence() {
    let mut peer = present_with(&[online(P, "x")]);
    peer.clear_presence();
    peer.fail(TransportErrorKind::Io);
    peer.sent();
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth"]);
    assert!(peer.members().is_empty());
}

#[test]
fn presence_ends_with_the_client() {
    let mut peer = present_with(&[online(P, "x")]);
    let sent = peer.set_presence(ELSEWHERE, "x");
    let waiting = peer.set_presence("third", "x");
    let fetched = peer.fetch_presence(ROOM);
    peer.disconnect_now();
    let left = Error::from(Rejection::Disconnected);
    assert_eq!(peer.outcome(sent), Outcome::Unknown(left.clone()));
    assert_eq!(peer.outcome(waiting), Outcome::NotSent(left.clone()));
    assert_eq!(peer.outcome(fetched), Outcome::Unknown(left));
    assert_eq!(peer.core.presence_room(), None);
    assert!(peer.members().is_empty());
    peer.connect();
    peer.open();
    peer.sent();
    peer.accept();
    assert!(peer.sent().is_empty(), "and is not restored later");
}

// ---- clearing ----

#[test]
fn clearing_sets_nil_where_we_are_and_restores_nothing() {
    let mut peer = present();
    let op = peer.clear_presence();
    assert_eq!(peer.sent(), ["presence general=nil"]);
    assert!(peer.is_pending(op));
    peer.presence_value("update", ACTOR, Some(RawValue::NIL), None);
    assert_eq!(peer.outcome(op), Outcome::PresenceSet);
    assert_eq!(peer.changes(), ["general: Update actor-1=nil"]);
    assert_eq!(peer.core.presence_room(), None);
    peer.updates(P, "x");
    assert_eq!(peer.changes(), ["general: Update actor-2=x"], "brokers know no leaving");
    let again = peer.clear_presence();
    assert_eq!(peer.outcome(again), Outcome::PresenceSet);
    assert!(peer.sent().is_empty());
}

#[test]
fn clearing_what_only_waits_sends_nothing() {
    let mut peer = Peer::new(config());
    peer.connect();
    let set = peer.set_presence(ROOM, "me");
    let cleared = peer.clear_presence();
    assert_eq!(peer.outcome(set), Outcome::NotSent(Rejection::Superseded.into()));
    assert_eq!(peer.outcome(cleared), Outcome::PresenceSet);
    peer.open();
    peer.sent();
    peer.accept();
    assert!(peer.sent().is_empty());
}

#[test]
fn clearing_goes_to_the_room_where_we_are_and_not_to_the_one_where_we_wanted_to_be() {
    let mut peer = present();
    peer.set_presence("nowhere", "me");
    let waiting = peer.set_presence(ELSEWHERE, "me");
    peer.advance(secs(9));
    peer.sent();
    peer.clear_presence();
    assert_eq!(peer.outcome(waiting), Outcome::NotSent(Rejection::Superseded.into()));
    assert_eq!(peer.sent(), ["presence nowhere=nil"], "the move under way may still succeed");
    peer.advance(secs(10));
    let mut peer = present();
    peer.set_presence("nowhere", "me");
    peer.advance(secs(10));
    peer.sent();
    peer.clear_presence();
    assert_eq!(peer.sent(), ["presence general=nil"]);
}

#[test]
fn a_clear_that_the_loss_interrupted_is_done() {
    let mut peer = present();
    let op = peer.clear_presence();
    peer.fail(TransportErrorKind::Io);
    assert_eq!(peer.outcome(op), Outcome::PresenceSet, "a lost connection is present nowhere");
}

#[test]
#[expect(deprecated, reason = "what the deprecated form does is tested here")]
fn presence_without_a_room_is_sent_and_nothing_more() {
    let mut peer = Peer::default_connected();
    peer.blocked = true;
    let op = peer.core.set_presence_without_room(peer.now, payload("me")).expect("accepted");
    assert!(peer.is_pending(op));
    peer.blocked = false;
    peer.pump();
    assert_eq!(peer.sent(), ["presence nowhere=me"]);
    assert_eq!(peer.outcome(op), Outcome::Sent);
    assert_eq!(peer.core.presence_room(), None);
    peer.fail(TransportErrorKind::Io);
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth"], "it is not restored");
    peer.blocked = true;
    let op = peer.core.set_presence_without_room(peer.now, payload("me")).expect("accepted");
    peer.fail(TransportErrorKind::Io);
    assert!(matches!(peer.outcome(op), Outcome::NotSent(Error::Transport(_))));
    let refused = peer.core.set_presence_without_room(peer.now, payload("me")).unwrap_err();
    assert_eq!((refused.error, refused.value), (Rejection::NotConnected.into(), payload("me")));
}

#[test]
fn a_move_that_is_confirmed_too_late_is_found_out_by_asking() {
    let mut peer = Peer::default_connected();
    peer.present_in(ROOM);
    let op = peer.set_presence(ELSEWHERE, "moved");
    peer.advance(secs(11));
    assert!(is_timeout(&peer.outcome(op), Op::SetPresence));
    peer.forget();
    peer.leaves(ACTOR);
    peer.joins(ACTOR, "moved");
    peer.advance(millis(250));
    assert_eq!(peer.sent(), ["getPresence general"], "was that we, or another connection of ours?");
    peer.presence_list(ROOM, &[online("actor-3", "z")]);
    assert_eq!(peer.sent(), ["presence storage=moved"], "we are not here: where we want to be is said again");
    peer.updates(ACTOR, "moved");
    peer.advance(millis(250));
    assert_eq!(peer.sent(), ["getPresence storage"]);
    peer.presence_list(ELSEWHERE, &[online(ACTOR, "moved"), online("actor-4", "w")]);
    peer.forget();
    peer.joins("actor-5", "v");
    assert_eq!(peer.changes(), ["storage: Join actor-5=v", "storage: Update actor-5=v"]);
    assert_eq!(peer.members(), ["actor-1=moved", "actor-4=w", "actor-5=v"]);
}

#[test]
fn presence_on_which_the_broker_closes_twice_is_refused_and_not_restored() {
    for code in [1009, 1011] {
        let mut peer = Peer::connected(with(|config| config.reconnect.max_attempts = None));
        let op = peer.set_presence(ROOM, "poison");
        peer.close(code);
        peer.reconnect();
        assert!(peer.is_pending(op), "once may have had another cause");
        peer.close(code);
        let Outcome::Refused(error) = peer.outcome(op) else { panic!("not refused") };
        assert_eq!(error.op, Some(Op::SetPresence));
        peer.forget();
        peer.reconnect();
        assert!(peer.sent().iter().all(|frame| !frame.starts_with("presence")), "not a third time");
        assert_eq!(peer.core.presence_room(), None);
    }
}

#[test]
fn presence_that_was_shown_before_is_restored_although_the_broker_closes_with_1011() {
    let mut peer = Peer::connected(with(|config| config.reconnect.max_attempts = None));
    peer.present_in(ROOM);
    for _ in 0..3 {
        peer.close(1011);
        peer.reconnect();
        peer.joins(ACTOR, "me");
    }
    assert_eq!(peer.core.presence_room(), Some(ROOM));
}

#[test]
fn another_presence_is_not_blamed_for_the_one_before_it() {
    let mut peer = Peer::connected(with(|config| config.reconnect.max_attempts = None));
    peer.set_presence(ROOM, "poison");
    peer.close(1011);
    peer.reconnect();
    let op = peer.set_presence(ROOM, "fine");
    peer.close(1011);
    peer.reconnect();
    peer.joins(ACTOR, "fine");
    assert_eq!(peer.outcome(op), Outcome::PresenceSet);
}
