//! Who else is present: lists, differences, actors with several connections, odd events.

mod support;

use nolag_core::{
    Event, Op, Outcome, PresenceKind, TransportErrorKind,
    wire::{PresenceEvent, RawValue, ServerFrame, Text},
};
use support::*;

const ELSEWHERE: &str = "storage";
const P: &str = "actor-2";

#[track_caller]
fn listed(outcome: Outcome) -> Vec<String> {
    match outcome {
        Outcome::Presence(members) => members.iter().map(shown).collect(),
        other => panic!("no list: {other:?}"),
    }
}

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

// ---- asking ----

#[test]
fn a_fetch_is_answered_with_who_is_there() {
    let mut peer = Peer::default_connected();
    let op = peer.fetch_presence(ROOM);
    assert_eq!(peer.sent(), ["getPresence general"]);
    peer.presence_list(ROOM, &[online(P, "x"), offline("agent-1", "job")]);
    let Outcome::Presence(members) = peer.outcome(op) else { panic!("no list") };
    assert_eq!((&*members[0].actor_id, members[0].joined_at), (P, Some(1_796_063_522)));
    assert_eq!(members[0].status.as_deref(), Some("online"));
    assert_eq!((members[1].joined_at, members[1].status.as_deref()), (None, Some("offline")));
    assert!(peer.events().is_empty());
    assert!(peer.members().is_empty(), "we are not there ourselves");
}

#[test]
fn an_unknown_room_is_empty() {
    let mut peer = Peer::default_connected();
    let op = peer.fetch_presence("nowhere");
    peer.presence_list("nowhere", &[]);
    assert!(listed(peer.outcome(op)).is_empty());
}

#[test]
fn answers_are_matched_by_room() {
    let mut peer = Peer::default_connected();
    let here = peer.fetch_presence(ROOM);
    let there = peer.fetch_presence(ELSEWHERE);
    peer.presence_list(ELSEWHERE, &[online("actor-3", "y")]);
    assert!(peer.is_pending(here));
    assert_eq!(listed(peer.outcome(there)), ["actor-3=y"]);
    peer.presence_list(ROOM, &[online(P, "x")]);
    assert_eq!(listed(peer.outcome(here)), ["actor-2=x"]);
}

#[test]
fn two_fetches_of_one_room_have_two_answers() {
    let mut peer = Peer::default_connected();
    let first = peer.fetch_presence(ROOM);
    let second = peer.fetch_presence(ROOM);
    peer.presence_list(ROOM, &[online(P, "x")]);
    assert!(peer.is_pending(second));
    peer.presence_list(ROOM, &[online(P, "y")]);
    assert_eq!(listed(peer.outcome(first)), ["actor-2=x"]);
    assert_eq!(listed(peer.outcome(second)), ["actor-2=y"]);
}

#[test]
fn a_late_list_is_not_the_answer_to_a_later_fetch() {
    let mut peer = Peer::default_connected();
    let first = peer.fetch_presence(ROOM);
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(first), Op::FetchPresence));
    let second = peer.fetch_presence(ROOM);
    peer.presence_list(ROOM, &[online(P, "old")]);
    assert!(peer.is_pending(second));
    peer.presence_list(ROOM, &[online(P, "new")]);
    assert_eq!(listed(peer.outcome(second)), ["actor-2=new"]);
}

#[test]
fn a_fetch_that_is_never_answered_costs_the_next_one_its_answer_and_no_other() {
    let mut peer = Peer::default_connected();
    let never = peer.fetch_presence(ROOM);
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(never), Op::FetchPresence));
    let robbed = peer.fetch_presence(ROOM);
    peer.presence_list(ROOM, &[online(P, "second")]);
    peer.advance(secs(10));
    assert!(
        is_timeout(&peer.outcome(robbed), Op::FetchPresence),
        "its answer was taken for the one that never came"
    );
    let third = peer.fetch_presence(ROOM);
    peer.presence_list(ROOM, &[online(P, "third")]);
    assert_eq!(listed(peer.outcome(third)), ["actor-2=third"]);
}

#[test]
fn lists_that_nobody_asked_for_change_nothing() {
    let mut peer = present();
    peer.presence_list(ROOM, &[]);
    peer.presence_list(ELSEWHERE, &[online(P, "x")]);
    peer.answer(&ServerFrame::PresenceList { room_id: None, data: RawValue::EMPTY_LIST });
    let room_id = Some(Text::Other(RawValue::NIL));
    peer.answer(&ServerFrame::PresenceList { room_id, data: RawValue::EMPTY_LIST });
    assert_eq!(peer.core.stats().frames_unexpected, 4);
    assert_eq!(peer.members(), ["actor-1=me"]);
    assert!(peer.events().is_empty());
}

#[test]
fn a_fetch_of_our_room_refreshes_what_is_known_and_tells_the_differences() {
    let mut peer = present();
    peer.joins(P, "x");
    peer.joins("actor-3", "y");
    peer.forget();
    let op = peer.fetch_presence(ROOM);
    let now_there = [online(ACTOR, "me"), online(P, "x2"), online("actor-4", "z")];
    peer.presence_list(ROOM, &now_there);
    let expected = ["general: Leave actor-3", "general: Update actor-2=x2", "general: Join actor-4=z"];
    assert_eq!(peer.changes(), expected);
    assert_eq!(listed(peer.outcome(op)), ["actor-1=me", "actor-2=x2", "actor-4=z"]);
    assert_eq!(peer.members(), ["actor-1=me", "actor-2=x2", "actor-4=z"]);
    peer.fetch_presence(ROOM);
    peer.presence_list(ROOM, &now_there);
    assert!(peer.changes().is_empty(), "the same again is no news");
}

#[test]
fn a_fetch_of_another_room_leaves_what_is_known_alone() {
    let mut peer = present();
    peer.fetch_presence(ELSEWHERE);
    peer.presence_list(ELSEWHERE, &[online(P, "x")]);
    assert_eq!(peer.members(), ["actor-1=me"]);
    peer.fetch_presence(ROOM);
    peer.set_presence(ELSEWHERE, "moved");
    peer.leaves(ACTOR);
    peer.joins(ACTOR, "moved");
    peer.forget();
    peer.presence_list(ROOM, &[online(P, "x")]);
    assert_eq!(peer.members(), ["actor-1=moved"], "nor does a list of the room that we left");
    assert!(peer.changes().is_empty());
}

#[test]
fn one_member_can_be_looked_up() {
    let peer = present_with(&[online(P, "x")]);
    let member = peer.core.presence_of(P).expect("known");
    assert_eq!((member.presence, member.joined_at), (payload("x"), Some(1_796_063_522)));
    assert_eq!(peer.core.presence_of("nobody"), None);
}

// ---- actors with several connections ----

#[test]
fn a_leave_of_one_of_two_connections_is_not_the_end_of_the_actor() {
    let mut peer = present_with(&[]);
    peer.joins(P, "laptop");
    peer.joins(P, "phone");
    peer.forget();
    peer.leaves(P);
    assert!(peer.changes().is_empty(), "nothing is told before the room was asked");
    assert_eq!(peer.members().len(), 2);
    peer.advance(millis(249));
    assert!(peer.sent().is_empty());
    peer.advance(millis(1));
    assert_eq!(peer.sent(), ["getPresence general"]);
    peer.presence_list(ROOM, &[online(ACTOR, "me"), online(P, "laptop")]);
    assert_eq!(peer.changes(), ["general: Update actor-2=laptop"]);
    peer.leaves(P);
    assert_eq!(peer.changes(), ["general: Leave actor-2"], "now it is the last one");
    assert_eq!(peer.members(), ["actor-1=me"]);
}

#[test]
fn two_entries_of_one_actor_are_counted() {
    let mut peer = present_with(&[online(P, "laptop"), online(P, "phone")]);
    assert_eq!(peer.members(), ["actor-1=me", "actor-2=phone"]);
    peer.leaves(P);
    assert!(peer.changes().is_empty());
    assert_eq!(peer.members().len(), 2);
}

#[test]
fn while_the_room_was_never_listed_a_join_may_be_a_second_connection() {
    let mut peer = present();
    peer.joins(P, "phone");
    peer.forget();
    peer.leaves(P);
    assert!(peer.changes().is_empty(), "a laptop may have been there before us");
    peer.advance(millis(250));
    assert_eq!(peer.sent(), ["getPresence general"]);
    peer.presence_list(ROOM, &[online(ACTOR, "me")]);
    assert_eq!(peer.changes(), ["general: Leave actor-2"]);
    peer.joins(P, "phone");
    peer.leaves(P);
    assert_eq!(peer.changes().last().map(String::as_str), Some("general: Leave actor-2"));
    peer.advance(secs(1));
    assert!(peer.sent().is_empty(), "from now on it is known");
}

#[test]
fn the_room_is_asked_once_for_several_doubts() {
    let mut peer = present();
    for actor in ["a", "b", "c"] {
        peer.leaves(actor);
        peer.advance(millis(80));
    }
    peer.advance(millis(100));
    assert_eq!(peer.sent(), ["getPresence general"]);
    peer.leaves("d");
    peer.advance(secs(1));
    assert!(peer.sent().is_empty(), "an answer that is still to come is young enough");
    peer.presence_list(ROOM, &[online(ACTOR, "me")]);
    peer.leaves("e");
    peer.advance(secs(1));
    assert_eq!(peer.sent(), ["getPresence general"]);
}

#[test]
fn a_list_that_comes_in_time_settles_the_doubt_without_asking() {
    let mut peer = present();
    peer.fetch_presence(ROOM);
    peer.leaves("a");
    peer.presence_list(ROOM, &[online(ACTOR, "me")]);
    peer.sent();
    peer.advance(secs(1));
    assert!(peer.sent().is_empty());
}

#[test]
fn a_leave_of_somebody_never_seen_makes_the_client_ask() {
    let mut peer = present_with(&[]);
    peer.leaves("stranger");
    assert_eq!(peer.changes(), ["general: Leave stranger"]);
    peer.advance(millis(250));
    assert_eq!(peer.sent(), ["getPresence general"]);
    peer.presence_list(ROOM, &[online(ACTOR, "me"), online("stranger", "still here")]);
    assert_eq!(peer.changes(), ["general: Join stranger=still here"]);
}

#[test]
fn nobody_is_asked_about_a_room_that_we_left_meanwhile() {
    let mut peer = present();
    peer.leaves("stranger");
    peer.fail(TransportErrorKind::Io);
    peer.reconnect();
    peer.forget();
    peer.advance(secs(1));
    assert!(peer.sent().is_empty());
}

#[test]
fn another_connection_of_our_own_actor_may_come_and_go() {
    let mut peer = present_with(&[]);
    peer.joins(ACTOR, "phone");
    peer.forget();
    peer.leaves(ACTOR);
    assert!(peer.changes().is_empty(), "we are still here");
    assert_eq!(peer.members().len(), 1);
    peer.advance(millis(250));
    assert_eq!(peer.sent(), ["getPresence general"]);
    peer.presence_list(ROOM, &[online(ACTOR, "me")]);
    assert_eq!(peer.changes(), ["general: Update actor-1=me"]);
    peer.leaves(ACTOR);
    assert!(peer.changes().is_empty(), "even if only one connection is known: it is ours");
    assert_eq!(peer.members(), ["actor-1=me"]);
    let op = peer.set_presence(ROOM, "again");
    peer.updates(ACTOR, "again");
    assert_eq!(peer.outcome(op), Outcome::PresenceSet);
    assert_eq!(peer.changes(), ["general: Update actor-1=again"]);
}

// ---- odd events and entries ----

#[test]
fn an_event_about_nobody_is_counted_and_nothing_more() {
    let mut peer = present();
    peer.answer(&ServerFrame::Presence(PresenceEvent {
        event: "join",
        actor_token_id: None,
        presence: None,
        status: None,
        capabilities: None,
        advertisement_version: None,
    }));
    // `{type: "presence", event: "update", data: nil}`
    peer.bytes(&b"\x83\xa4type\xa8presence\xa5event\xa6update\xa4data\xc0"[..]);
    assert_eq!(peer.core.stats().frames_unexpected, 2);
    assert!(peer.events().is_empty());
    assert_eq!(peer.members(), ["actor-1=me"]);
}

#[test]
fn presence_may_be_nil_or_anything_else() {
    let mut peer = present();
    for (value, words) in [
        (RawValue::NIL, "nil"),
        (RawValue::EMPTY_MAP, "Map"),
        (RawValue::EMPTY_LIST, "List"),
        (RawValue::parse(b"\x07").expect("seven"), "Integer"),
    ] {
        peer.presence_value("update", P, Some(value), None);
        assert_eq!(peer.changes(), [format!("general: Update actor-2={words}")]);
        assert_eq!(peer.members(), ["actor-1=me".to_owned(), format!("actor-2={words}")]);
    }
    peer.presence_event("update", P, None);
    assert_eq!(peer.changes(), ["general: Update actor-2"], "an update without presence keeps it");
    assert_eq!(peer.members()[1], "actor-2=Integer");
}

#[test]
fn our_own_presence_may_be_anything_too() {
    let mut peer = Peer::default_connected();
    let nil = nolag_core::Payload::from_msgpack(vec![0xc0]).expect("nil");
    let op = peer.core.set_presence(peer.now, ROOM, nil).expect("accepted");
    peer.pump();
    assert_eq!(peer.sent(), ["presence general=nil"]);
    peer.presence_value("join", ACTOR, Some(RawValue::NIL), None);
    assert_eq!(peer.outcome(op), Outcome::PresenceSet);
}

#[test]
fn events_of_the_future_are_told_and_bring_nobody_in() {
    let mut peer = present_with(&[offline("agent-1", "job")]);
    peer.presence_value("waking", "agent-1", None, Some("waking"));
    peer.presence_event("teleport", "stranger", Some("x"));
    let kinds: Vec<_> = peer
        .events()
        .into_iter()
        .map(|event| match event {
            Event::Presence(change) => change.kind,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, [PresenceKind::Waking, PresenceKind::Other("teleport".into())]);
    assert_eq!(peer.members(), ["actor-1=me", "agent-1=job (waking)"]);
}

#[test]
fn an_agent_that_goes_offline_is_told_as_a_leave_and_stays_listed() {
    let mut peer = present_with(&[online("agent-1", "job")]);
    peer.fetch_presence(ROOM);
    peer.presence_list(ROOM, &[online(ACTOR, "me"), offline("agent-1", "job")]);
    assert_eq!(peer.changes(), ["general: Leave agent-1 (offline)"]);
    assert_eq!(peer.members(), ["actor-1=me", "agent-1=job (offline)"]);
    peer.leaves("agent-1");
    assert!(peer.changes().is_empty(), "the event that comes after the list is no news");
    peer.joins("agent-1", "job");
    assert_eq!(peer.changes(), ["general: Join agent-1=job", "general: Update agent-1=job"]);
    assert_eq!(peer.members(), ["actor-1=me", "agent-1=job"], "online again");
    peer.leaves("agent-1");
    assert_eq!(peer.changes(), ["general: Leave agent-1"]);
}

#[test]
fn an_agent_found_offline_has_not_joined() {
    let mut peer = present();
    peer.fetch_presence(ROOM);
    peer.presence_list(ROOM, &[online(ACTOR, "me"), offline("agent-1", "job")]);
    assert_eq!(peer.changes(), ["general: Update agent-1=job (offline)"]);
    peer.fetch_presence(ROOM);
    peer.presence_list(ROOM, &[online(ACTOR, "me"), online("agent-1", "job")]);
    assert_eq!(peer.changes(), ["general: Join agent-1=job"]);
}

#[test]
fn entries_that_are_none_are_skipped() {
    let mut peer = present();
    let op = peer.fetch_presence(ROOM);
    let data = RawValue::parse(b"\x92\x07\x81\xacactorTokenId\xa2me").expect("a list");
    peer.answer(&ServerFrame::PresenceList { room_id: Some(Text::Str(ROOM)), data });
    assert_eq!(listed(peer.outcome(op)), ["me=nil"]);
}

#[test]
fn presence_before_the_session_is_not_ours() {
    let mut peer = Peer::new(config());
    peer.connect();
    peer.open();
    peer.joins(P, "x");
    assert_eq!(peer.core.stats().frames_unexpected, 2);
    assert!(peer.events().is_empty() && peer.members().is_empty());
}

#[test]
fn members_are_remembered_up_to_a_bound_and_told_beyond_it() {
    let mut peer = present();
    for n in 0..16_383 {
        peer.presence_event("join", &format!("extra-{n:05}"), Some("x"));
        if n % 1_000 == 0 {
            peer.forget();
        }
    }
    peer.forget();
    assert_eq!(peer.members().len(), 16_384);
    peer.presence_event("join", "one-too-many", Some("x"));
    assert_eq!(peer.changes(), ["general: Join one-too-many=x"]);
    assert_eq!(peer.members().len(), 16_384);
    let names: Vec<_> = (0..16_500).map(|n| format!("m{n:05}")).collect();
    let members: Vec<_> = names.iter().map(|name| online(name, "x")).collect();
    peer.fetch_presence(ROOM);
    peer.presence_list(ROOM, &members);
    assert_eq!(peer.members().len(), 16_384);
}

#[test]
fn large_presence_is_remembered_up_to_a_bound_and_told_beyond_it() {
    let mut peer = present();
    let large = "x".repeat(800_000);
    for n in 0..40 {
        peer.presence_event("join", &format!("large-{n}"), Some(&large));
        let event = peer.event();
        let Event::Presence(change) = event else { panic!("{event:?}") };
        assert_eq!(change.presence.as_ref().and_then(|presence| presence.text()), Some(&*large));
    }
    let remembered: usize = peer.core.presence().map(|member| member.presence.packed_len()).sum();
    assert!((15 << 20..=17 << 20).contains(&remembered), "{remembered} bytes");
    assert_eq!(peer.core.stats().presence_dropped, 20);
    assert_eq!(peer.members().len(), 41, "they are known all the same");
}

#[test]
fn what_persistent_presence_adds_is_passed_on() {
    let mut peer = present();
    let capabilities = payload("crane");
    let version = payload("7");
    peer.answer(&ServerFrame::Presence(PresenceEvent {
        event: "update",
        actor_token_id: Some(P),
        presence: Some(RawValue::NIL),
        status: Some("online"),
        capabilities: Some(capabilities.raw()),
        advertisement_version: Some(version.raw()),
    }));
    let event = peer.event();
    let Event::Presence(change) = event else { panic!("{event:?}") };
    assert_eq!(change.status.as_deref(), Some("online"));
    assert_eq!((change.capabilities, change.advertisement_version), (Some(capabilities), Some(version)));
}
