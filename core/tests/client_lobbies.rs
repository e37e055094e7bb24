//! Lobbies: watching who is present in many rooms.

mod support;

use nolag_core::{
    Error, Event, LobbyChange, Misuse, Op, Outcome, PresenceKind, ProtocolError, Rejection,
    TransportErrorKind,
    wire::{LobbyEvent, RawValue, ServerFrame, Text},
};
use support::*;

const SECOND: &str = "visitors";
const SECOND_ID: &str = "5d0e0000-0000-4000-8000-0000000000c2";
const QUAYS: Rooms<'_> = &[("north", &[("marta", "inspect")]), ("south", &[])];

#[track_caller]
fn snapshot(outcome: Outcome) -> String {
    match outcome {
        Outcome::Lobby(snapshot) => in_words(&snapshot),
        other => panic!("no snapshot: {other:?}"),
    }
}

#[track_caller]
fn refusal(outcome: Outcome) -> (String, Option<Op>, Option<String>) {
    match outcome {
        Outcome::Refused(error) => (error.error, error.op, error.lobby_id),
        other => panic!("not refused: {other:?}"),
    }
}

fn denied(op: Op) -> (String, Option<Op>, Option<String>) {
    ("not_authorized".to_owned(), Some(op), Some(LOBBY.to_owned()))
}

#[track_caller]
fn ended(event: Event) -> (String, Error) {
    match event {
        Event::LobbyEnded { lobby, cause } => (lobby.to_string(), cause),
        other => panic!("not the end of a lobby: {other:?}"),
    }
}

/// A client that watches [`LOBBY`], whose rooms are [`QUAYS`].
fn watching() -> Peer {
    let mut peer = Peer::default_connected();
    peer.watching(LOBBY, QUAYS);
    peer
}

/// A client that watches two lobbies: [`LOBBY`] with [`QUAYS`], [`SECOND`] with a room of its own.
fn watching_two() -> Peer {
    let mut peer = watching();
    peer.watching(SECOND, &[("gate", &[])]);
    peer
}

// ---- watching ----

#[test]
fn a_watched_lobby_tells_who_is_there() {
    let mut peer = Peer::default_connected();
    let op = peer.lobby_subscribe(LOBBY);
    assert_eq!(peer.sent(), ["lobbySubscribe operations"]);
    assert!(peer.is_pending(op));
    assert_eq!(peer.lobby(LOBBY), None, "not watched before the broker says so");
    peer.lobby_subscribed(LOBBY, QUAYS);
    assert_eq!(snapshot(peer.outcome(op)), "north: marta=inspect; south: ");
    assert_eq!(peer.lobby(LOBBY).as_deref(), Some("north: marta=inspect; south: "));
    assert!(peer.sent().is_empty());
    let since = peer.core.lobby(LOBBY).expect("watched")["north"][0].joined_at;
    assert_eq!(since, Some(1_796_063_522));
}

#[test]
fn an_empty_snapshot_is_asked_again_before_anybody_is_told() {
    let mut peer = Peer::default_connected();
    let op = peer.lobby_subscribe(LOBBY);
    peer.lobby_subscribed(LOBBY, &[]);
    assert_eq!(peer.sent(), ["lobbySubscribe operations", "getLobbyPresence operations"]);
    assert!(peer.is_pending(op));
    let joined = peer.lobby_subscribe(LOBBY);
    assert!(peer.is_pending(joined), "nor those that join");
    peer.lobby_list(LOBBY, QUAYS);
    assert_eq!(snapshot(peer.outcome(op)), "north: marta=inspect; south: ");
    assert_eq!(snapshot(peer.outcome(joined)), "north: marta=inspect; south: ");
    assert!(peer.sent().is_empty());
}

#[test]
fn a_lobby_may_really_be_empty() {
    let mut peer = Peer::default_connected();
    let op = peer.lobby_subscribe(LOBBY);
    peer.lobby_subscribed(LOBBY, &[]);
    peer.lobby_list(LOBBY, &[]);
    assert_eq!(snapshot(peer.outcome(op)), "");
    assert_eq!(peer.lobby(LOBBY).as_deref(), Some(""));
}

#[test]
fn a_lobby_that_answers_only_the_subscribe_is_watched_all_the_same() {
    let mut peer = Peer::default_connected();
    let op = peer.lobby_subscribe(LOBBY);
    peer.lobby_subscribed(LOBBY, &[]);
    peer.sent();
    peer.advance(secs(10));
    assert_eq!(snapshot(peer.outcome(op)), "");
    assert!(peer.sent().is_empty());
    peer.lobby_list(LOBBY, QUAYS);
    assert_eq!(peer.lobby(LOBBY).as_deref(), Some("north: marta=inspect; south: "), "late is not never");
}

#[test]
fn a_lobby_that_is_watched_already_is_joined_without_a_frame() {
    let mut peer = watching();
    peer.lobby_event("join", LOBBY_ID, "south", "priya", "lash");
    let op = peer.lobby_subscribe(LOBBY);
    assert!(peer.sent().is_empty());
    assert_eq!(snapshot(peer.outcome(op)), "north: marta=inspect; south: priya=lash");
}

#[test]
fn subscribes_under_way_are_answered_in_order() {
    let mut peer = Peer::default_connected();
    let first = peer.lobby_subscribe(LOBBY);
    let second = peer.lobby_subscribe(LOBBY);
    let other = peer.lobby_subscribe(SECOND);
    peer.lobby_subscribed(SECOND, QUAYS);
    snapshot(peer.outcome(other));
    peer.lobby_subscribed(LOBBY, QUAYS);
    snapshot(peer.outcome(first));
    assert!(peer.is_pending(second));
    peer.lobby_subscribed(LOBBY, QUAYS);
    snapshot(peer.outcome(second));
    assert_eq!(peer.core.stats().frames_unexpected, 0);
}

#[test]
fn watching_while_connecting_waits_for_the_session() {
    let mut peer = Peer::new(config());
    peer.connect();
    let first = peer.lobby_subscribe(LOBBY);
    let second = peer.lobby_subscribe(LOBBY);
    let unwanted = peer.lobby_subscribe(SECOND);
    let unsubscribed = peer.lobby_unsubscribe(SECOND);
    assert_eq!(peer.outcome(unwanted), Outcome::NotSent(Rejection::Superseded.into()));
    assert_eq!(peer.outcome(unsubscribed), Outcome::Unsubscribed);
    peer.open();
    peer.sent();
    peer.accept();
    assert_eq!(peer.sent(), ["lobbySubscribe operations"]);
    peer.lobby_subscribed(LOBBY, QUAYS);
    snapshot(peer.outcome(first));
    snapshot(peer.outcome(second));
}

#[test]
fn mistakes_are_refused_locally() {
    let mut peer = Peer::default_connected();
    for lobby in ["", "a/b", "a b", "+"] {
        for result in [
            peer.core.lobby_subscribe(peer.now, lobby),
            peer.core.lobby_unsubscribe(peer.now, lobby),
            peer.core.fetch_lobby(peer.now, lobby),
        ] {
            assert!(matches!(result, Err(Error::Misuse(Misuse::InvalidTopic { .. }))), "{lobby}");
        }
    }
    let mut idle = Peer::new(config());
    let not_connected = Err(Error::from(Rejection::NotConnected));
    assert_eq!(idle.core.lobby_subscribe(idle.now, LOBBY), not_connected);
    assert_eq!(idle.core.lobby_unsubscribe(idle.now, LOBBY), not_connected);
    assert_eq!(idle.core.fetch_lobby(idle.now, LOBBY), not_connected);
    idle.connect();
    assert_eq!(idle.core.fetch_lobby(idle.now, LOBBY), not_connected, "a fetch does not wait");
}

// ---- refusals and silence ----

#[test]
fn a_denial_settles_at_once() {
    let mut peer = Peer::default_connected();
    let op = peer.lobby_subscribe(LOBBY);
    let other = peer.lobby_subscribe(SECOND);
    peer.lobby_denied(LOBBY);
    assert_eq!(refusal(peer.outcome(op)), denied(Op::LobbySubscribe));
    assert!(peer.is_pending(other), "a denial is about one lobby");
    assert!(peer.events().is_empty());
    peer.lobby_subscribed(SECOND, QUAYS);
    peer.advance(secs(20));
    assert_eq!(peer.lobby(LOBBY), None);
    assert_eq!(peer.sent().iter().filter(|frame| frame.ends_with(LOBBY)).count(), 1, "and is final");
}

#[test]
fn a_denied_fetch_leaves_the_lobby_watched() {
    let mut peer = watching();
    let op = peer.fetch_lobby(LOBBY);
    peer.lobby_denied(LOBBY);
    assert_eq!(refusal(peer.outcome(op)), denied(Op::FetchLobby));
    assert!(peer.lobby(LOBBY).is_some());
}

#[test]
fn a_denial_goes_to_the_oldest_request_about_its_lobby() {
    let mut peer = Peer::default_connected();
    let unsubscribed = peer.lobby_unsubscribe(LOBBY);
    let fetched = peer.fetch_lobby(LOBBY);
    let watched = peer.lobby_subscribe(LOBBY);
    peer.lobby_unsubscribed(LOBBY);
    assert_eq!(peer.outcome(unsubscribed), Outcome::Unsubscribed);
    peer.lobby_denied(LOBBY);
    assert_eq!(refusal(peer.outcome(fetched)), denied(Op::FetchLobby));
    assert!(peer.is_pending(watched));
    peer.lobby_denied(LOBBY);
    assert_eq!(refusal(peer.outcome(watched)), denied(Op::LobbySubscribe));
    peer.lobby_denied(LOBBY);
    assert!(matches!(peer.event(), Event::ServerError(_)), "and what is left over is reported");
}

#[test]
fn a_denial_does_not_end_what_a_later_subscribe_decides() {
    let mut peer = Peer::default_connected();
    let first = peer.lobby_subscribe(LOBBY);
    let second = peer.lobby_subscribe(LOBBY);
    peer.lobby_denied(LOBBY);
    assert_eq!(refusal(peer.outcome(first)), denied(Op::LobbySubscribe));
    peer.lobby_subscribed(LOBBY, QUAYS);
    snapshot(peer.outcome(second));
    assert!(peer.lobby(LOBBY).is_some());
}

#[test]
fn a_subscribe_without_an_answer_is_taken_back() {
    let mut peer = Peer::default_connected();
    let op = peer.lobby_subscribe(LOBBY);
    peer.sent();
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(op), Op::LobbySubscribe));
    assert_eq!(peer.sent(), ["lobbyUnsubscribe operations"]);
    assert_eq!(peer.lobby(LOBBY), None);
    peer.lobby_subscribed(LOBBY, QUAYS);
    peer.lobby_unsubscribed(LOBBY);
    assert_eq!(peer.lobby(LOBBY), None, "the late answer does not bring it back");
    assert_eq!(peer.core.stats().frames_unexpected, 0);
    peer.fail(TransportErrorKind::Io);
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth"], "nor does a reconnect");
}

#[test]
fn a_late_answer_is_not_taken_for_the_answer_to_a_later_subscribe() {
    let mut peer = Peer::default_connected();
    let first = peer.lobby_subscribe(LOBBY);
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(first), Op::LobbySubscribe));
    let second = peer.lobby_subscribe(LOBBY);
    peer.lobby_denied(LOBBY);
    assert!(peer.is_pending(second), "the denial of the first");
    peer.lobby_unsubscribed(LOBBY);
    peer.lobby_subscribed(LOBBY, QUAYS);
    snapshot(peer.outcome(second));
}

#[test]
fn a_fetch_without_an_answer_is_unknown_and_changes_nothing() {
    let mut peer = watching();
    let op = peer.fetch_lobby(LOBBY);
    peer.sent();
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(op), Op::FetchLobby));
    assert!(peer.sent().is_empty() && peer.lobby(LOBBY).is_some());
}

#[test]
fn replies_that_answer_nothing_are_counted_and_change_nothing() {
    let mut peer = watching();
    peer.lobby_subscribed(LOBBY, &[]);
    peer.lobby_list(LOBBY, &[]);
    peer.lobby_unsubscribed(LOBBY);
    let lobby_id = Text::Other(RawValue::NIL);
    peer.answer(&ServerFrame::LobbySubscribed { lobby_id, presence: RawValue::EMPTY_MAP });
    assert_eq!(peer.core.stats().frames_unexpected, 4);
    assert_eq!(peer.lobby(LOBBY).as_deref(), Some("north: marta=inspect; south: "));
    assert!(peer.sent().is_empty());
}

// ---- unsubscribing and fetching ----

#[test]
fn an_unsubscribe_is_confirmed_and_ends_the_watching() {
    let mut peer = watching();
    let op = peer.lobby_unsubscribe(LOBBY);
    assert_eq!(peer.sent(), ["lobbyUnsubscribe operations"]);
    assert!(peer.is_pending(op));
    assert_eq!(peer.lobby(LOBBY), None);
    peer.lobby_unsubscribed(LOBBY);
    assert_eq!(peer.outcome(op), Outcome::Unsubscribed);
    assert!(peer.events().is_empty());
    peer.fail(TransportErrorKind::Io);
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth"]);
}

#[test]
fn unsubscribing_from_what_is_not_watched_is_confirmed_too() {
    let mut peer = Peer::default_connected();
    let op = peer.lobby_unsubscribe(LOBBY);
    peer.lobby_unsubscribed(LOBBY);
    assert_eq!(peer.outcome(op), Outcome::Unsubscribed);
    let op = peer.lobby_unsubscribe(LOBBY);
    peer.advance(secs(10));
    assert!(is_timeout(&peer.outcome(op), Op::LobbyUnsubscribe));
    let op = peer.lobby_unsubscribe(LOBBY);
    peer.fail(TransportErrorKind::Io);
    assert_eq!(peer.outcome(op), Outcome::Unsubscribed, "a lost connection watches nothing");
}

#[test]
fn a_subscribe_that_an_unsubscribe_follows_still_has_its_own_answer() {
    let mut peer = Peer::default_connected();
    let op = peer.lobby_subscribe(LOBBY);
    let unsubscribed = peer.lobby_unsubscribe(LOBBY);
    peer.lobby_subscribed(LOBBY, QUAYS);
    assert_eq!(snapshot(peer.outcome(op)), "north: marta=inspect; south: ");
    peer.lobby_unsubscribed(LOBBY);
    assert_eq!(peer.outcome(unsubscribed), Outcome::Unsubscribed);
    assert_eq!(peer.lobby(LOBBY), None);
}

#[test]
fn a_reply_shows_that_earlier_requests_about_its_lobby_will_not_be_answered() {
    let mut peer = Peer::default_connected();
    let op = peer.lobby_subscribe(LOBBY);
    peer.lobby_unsubscribe(LOBBY);
    peer.lobby_unsubscribed(LOBBY);
    assert_eq!(peer.outcome(op), Outcome::Unknown(ProtocolError::Unanswered.into()));
}

#[test]
fn watching_is_not_needed_to_ask() {
    let mut peer = Peer::default_connected();
    let op = peer.fetch_lobby(LOBBY);
    assert_eq!(peer.sent(), ["getLobbyPresence operations"]);
    peer.lobby_list(LOBBY, QUAYS);
    assert_eq!(snapshot(peer.outcome(op)), "north: marta=inspect; south: ");
    assert_eq!(peer.lobby(LOBBY), None);
}

#[test]
fn fetches_are_matched_by_lobby_and_refresh_what_is_known() {
    let mut peer = watching_two();
    let first = peer.fetch_lobby(LOBBY);
    let second = peer.fetch_lobby(SECOND);
    peer.lobby_list(SECOND, &[("gate", &[("guard", "x")])]);
    assert!(peer.is_pending(first));
    assert_eq!(snapshot(peer.outcome(second)), "gate: guard=x");
    peer.lobby_list(LOBBY, &[("north", &[])]);
    assert_eq!(snapshot(peer.outcome(first)), "north: ");
    assert_eq!(peer.lobby(LOBBY).as_deref(), Some("north: "));
    assert_eq!(peer.lobby(SECOND).as_deref(), Some("gate: guard=x"));
}

// ---- events ----

#[test]
fn events_keep_what_is_known_up_to_date() {
    let mut peer = watching();
    peer.lobby_event("join", LOBBY, "south", "priya", "lash");
    peer.lobby_event("update", LOBBY, "south", "priya", "rest");
    peer.lobby_event("leave", LOBBY, "north", "marta", "");
    peer.lobby_event("join", LOBBY, "west", "marta", "report");
    let expected = [
        "operations/south: Join priya",
        "operations/south: Update priya",
        "operations/north: Leave marta",
        "operations/west: Join marta",
    ];
    assert_eq!(peer.changes(), expected);
    assert_eq!(peer.lobby(LOBBY).as_deref(), Some("north: ; south: priya=rest; west: marta=report"));
}

#[test]
fn an_event_carries_what_the_broker_said() {
    let mut peer = watching();
    peer.lobby_event("update", LOBBY_ID, "north", "marta", "sign off");
    let Event::Lobby(change) = peer.event() else { panic!("no change") };
    let LobbyChange { lobby, lobby_id, room, kind, actor_id, data, .. } = change;
    assert_eq!((lobby.as_deref(), lobby_id.as_deref()), (Some(LOBBY), Some(LOBBY_ID)));
    assert_eq!((room.as_deref(), &*actor_id), (Some("north"), "marta"));
    assert_eq!((kind, data), (PresenceKind::Update, payload("sign off")));
}

#[test]
fn with_one_lobby_every_event_is_its() {
    let mut peer = watching();
    peer.lobby_event("join", LOBBY_ID, "never-heard-of", "priya", "x");
    peer.lobby_event("join", "another id", "south", "priya", "x");
    peer.answer(&ServerFrame::LobbyPresence(LobbyEvent {
        event: "join",
        lobby_id: None,
        room_id: None,
        actor_id: Some("priya"),
        data: RawValue::NIL,
    }));
    let expected =
        ["operations/never-heard-of: Join priya", "operations/south: Join priya", "operations/?: Join priya"];
    assert_eq!(peer.changes(), expected);
}

#[test]
fn events_of_a_lobby_that_was_left_are_not_those_of_the_one_that_is_watched_now() {
    let mut peer = watching();
    peer.lobby_event("join", LOBBY_ID, "north", "priya", "x");
    peer.lobby_unsubscribe(LOBBY);
    let op = peer.lobby_subscribe(SECOND);
    peer.lobby_subscribed(SECOND, &[("north", &[("priya", "x")])]);
    peer.outcome(op);
    peer.forget();
    for late in [LOBBY_ID, LOBBY] {
        peer.lobby_event("update", late, "north", "priya", "y");
    }
    assert_eq!(peer.changes(), ["?/north: Update priya", "?/north: Update priya"]);
    peer.lobby_event("update", "its own id", "north", "priya", "z");
    assert_eq!(peer.changes(), ["visitors/north: Update priya"]);
}

#[test]
fn nothing_is_learned_while_a_lobby_that_was_left_may_still_send() {
    let mut peer = watching();
    peer.lobby_unsubscribe(LOBBY);
    let op = peer.lobby_subscribe(SECOND);
    peer.lobby_subscribed(SECOND, &[("north", &[("priya", "x")])]);
    peer.outcome(op);
    peer.forget();
    peer.lobby_event("update", LOBBY_ID, "south", "priya", "y");
    assert_eq!(peer.changes(), ["?/south: Update priya"], "its lobby was never heard of, and no room tells");
    let again = peer.lobby_subscribe(LOBBY);
    peer.lobby_subscribed(LOBBY, &[("south", &[("priya", "x")])]);
    peer.outcome(again);
    peer.forget();
    peer.lobby_event("update", LOBBY_ID, "south", "priya", "y");
    assert_eq!(peer.changes(), ["operations/south: Update priya"]);
}

#[test]
fn a_lobby_that_is_watched_again_has_its_events_again() {
    for id_was_seen in [true, false] {
        let mut peer = watching();
        if id_was_seen {
            peer.lobby_event("join", LOBBY_ID, "north", "priya", "x");
        }
        peer.lobby_unsubscribe(LOBBY);
        peer.lobby_unsubscribed(LOBBY);
        let again = peer.lobby_subscribe(LOBBY);
        peer.lobby_subscribed(LOBBY, &[("north", &[("priya", "x")])]);
        peer.outcome(again);
        peer.forget();
        peer.lobby_event("join", LOBBY_ID, "a-new-room", "priya", "y");
        assert_eq!(peer.changes(), ["operations/a-new-room: Join priya"], "{id_was_seen}");
    }
}

#[test]
fn with_several_lobbies_the_slug_decides_if_there_is_one() {
    let mut peer = watching_two();
    peer.lobby_event("join", SECOND, "north", "priya", "x");
    assert_eq!(peer.changes(), ["visitors/north: Join priya"]);
}

#[test]
fn with_several_lobbies_an_id_seen_with_one_of_them_decides() {
    let mut peer = watching();
    peer.lobby_event("join", LOBBY_ID, "south", "priya", "x");
    // Right behind it, one about a lobby that another client watches: it does not change what is known.
    peer.lobby_event("join", SECOND_ID, "south", "priya", "x");
    peer.watching(SECOND, QUAYS);
    peer.lobby_event("update", LOBBY_ID, "north", "marta", "x");
    assert_eq!(peer.changes(), ["operations/north: Update marta"]);
}

#[test]
fn with_several_lobbies_the_room_decides_if_only_one_has_it() {
    let mut peer = watching_two();
    peer.lobby_event("join", "some id", "gate", "priya", "x");
    peer.lobby_event("join", "some id", "south", "priya", "x");
    assert_eq!(peer.changes(), ["visitors/gate: Join priya", "operations/south: Join priya"]);
    assert_eq!(peer.lobby(SECOND).as_deref(), Some("gate: priya=x"));
}

#[test]
fn an_event_that_may_be_of_several_lobbies_is_told_with_its_raw_id_and_changes_neither() {
    let mut peer = watching();
    peer.watching(SECOND, QUAYS);
    for room in ["north", "never-heard-of"] {
        peer.lobby_event("leave", LOBBY_ID, room, "marta", "");
        let Event::Lobby(change) = peer.event() else { panic!("no change") };
        assert_eq!((change.lobby, change.lobby_id.as_deref()), (None, Some(LOBBY_ID)), "{room}");
        assert_eq!(change.room.as_deref(), Some(room));
    }
    assert_eq!(peer.lobby(LOBBY).as_deref(), Some("north: marta=inspect; south: "));
    assert_eq!(peer.lobby(SECOND).as_deref(), Some("north: marta=inspect; south: "));
}

#[test]
fn an_event_without_any_lobby_is_told_with_its_raw_id() {
    let mut peer = watching();
    peer.lobby_unsubscribe(LOBBY);
    peer.lobby_event("join", LOBBY_ID, "north", "priya", "x");
    let Event::Lobby(change) = peer.event() else { panic!("no change") };
    assert_eq!((change.lobby, change.lobby_id.as_deref()), (None, Some(LOBBY_ID)));
}

#[test]
fn an_event_about_nobody_is_counted_and_events_of_the_future_bring_nobody_in() {
    let mut peer = watching();
    peer.answer(&ServerFrame::LobbyPresence(LobbyEvent {
        event: "join",
        lobby_id: Some(Text::Str(LOBBY)),
        room_id: Some(Text::Str("north")),
        actor_id: None,
        data: RawValue::NIL,
    }));
    assert_eq!(peer.core.stats().frames_unexpected, 1);
    peer.lobby_event("teleport", LOBBY, "north", "priya", "x");
    assert_eq!(peer.events().len(), 1);
    assert_eq!(peer.lobby(LOBBY).as_deref(), Some("north: marta=inspect; south: "));
}

#[test]
fn rooms_and_members_are_remembered_up_to_a_bound_and_told_beyond_it() {
    let mut peer = watching();
    let names: Vec<_> = (0..8_191).map(|n| format!("room-{n}")).collect();
    let mut rooms: Vec<(&str, &[(&str, &str)])> = vec![("north", &[("marta", "inspect")])];
    rooms.extend(names.iter().map(|name| (name.as_str(), &[("priya", "x")][..])));
    peer.fetch_lobby(LOBBY);
    peer.lobby_list(LOBBY, &rooms[..8_190]);
    peer.forget();
    for n in 0..10 {
        peer.lobby_event("leave", LOBBY, &format!("left-{n}"), "marta", "");
        peer.lobby_event("join", LOBBY, &format!("more-{n}"), "priya", "x");
    }
    assert_eq!(peer.changes().len(), 20);
    let known = peer.core.lobby(LOBBY).expect("watched");
    assert_eq!(known.len() + known.values().map(Vec::len).sum::<usize>(), 16_384);
    assert!(!known.contains_key("left-0"), "a leave makes no room");
    peer.lobby_event("join", LOBBY, "one-too-many", "priya", "x");
    assert_eq!(peer.changes(), ["operations/one-too-many: Join priya"]);
    peer.lobby_event("update", LOBBY, "north", "marta", "still known");
    assert_eq!(peer.core.lobby(LOBBY).expect("watched")["north"][0].presence, payload("still known"));
}

// ---- staying alive ----

#[test]
fn a_watched_lobby_is_subscribed_again_before_brokers_forget_it() {
    let mut peer = watching();
    peer.advance(secs(239));
    assert!(peer.sent().is_empty());
    peer.advance(secs(1));
    assert_eq!(peer.sent(), ["lobbySubscribe operations"]);
    peer.lobby_subscribed(LOBBY, &[("north", &[])]);
    assert!(peer.events().is_empty(), "and nobody is told");
    assert_eq!(peer.lobby(LOBBY).as_deref(), Some("north: "), "but what is known is fresh");
    peer.advance(secs(240));
    assert_eq!(peer.sent(), ["lobbySubscribe operations"]);
}

#[test]
fn all_watched_lobbies_are_kept_alive_together_and_no_others() {
    let mut peer = watching();
    peer.advance(secs(200));
    peer.watching(SECOND, QUAYS);
    let third = "third";
    peer.watching(third, QUAYS);
    peer.lobby_unsubscribe(third);
    peer.lobby_unsubscribed(third);
    peer.forget();
    let mut sent = 0;
    for _ in 0..3600 / 5 {
        peer.advance(secs(5));
        for frame in peer.sent() {
            let lobby = frame.strip_prefix("lobbySubscribe ").expect("nothing else is sent").to_owned();
            assert_ne!(lobby, third);
            peer.lobby_subscribed(&lobby, QUAYS);
            sent += 1;
        }
    }
    assert!((24..=32).contains(&sent), "{sent} frames in an hour for two lobbies");
    peer.lobby_unsubscribe(LOBBY);
    peer.lobby_unsubscribe(SECOND);
    peer.lobby_unsubscribed(LOBBY);
    peer.lobby_unsubscribed(SECOND);
    peer.forget();
    peer.advance(secs(3600));
    assert!(peer.sent().is_empty());
    assert!(!peer.core.explain().contains("lobbies"), "{}", peer.core.explain());
}

#[test]
fn a_lobby_that_is_cold_when_it_is_kept_alive_keeps_what_is_known_until_it_was_asked() {
    let mut peer = watching();
    peer.advance(secs(240));
    peer.lobby_subscribed(LOBBY, &[]);
    assert_eq!(peer.sent(), ["lobbySubscribe operations", "getLobbyPresence operations"]);
    assert_eq!(peer.lobby(LOBBY).as_deref(), Some("north: marta=inspect; south: "));
    peer.lobby_list(LOBBY, &[("north", &[])]);
    assert_eq!(peer.lobby(LOBBY).as_deref(), Some("north: "));
}

#[test]
fn a_lobby_that_may_not_be_watched_any_more_ends() {
    let mut peer = watching();
    peer.advance(secs(240));
    peer.lobby_denied(LOBBY);
    let (lobby, cause) = ended(peer.event());
    assert_eq!(lobby, LOBBY);
    assert!(matches!(cause, Error::Server(error) if error.error == "not_authorized"));
    assert_eq!(peer.lobby(LOBBY), None);
}

#[test]
fn a_broker_that_does_not_answer_to_keeping_alive_is_left_after_three_tries() {
    let mut peer = watching();
    peer.advance(secs(240 + 29));
    assert!(peer.closed().is_empty());
    assert_eq!(peer.sent().len(), 3);
    peer.advance(secs(1));
    assert_eq!(peer.closed(), [1000]);
}

// ---- losing the connection ----

#[test]
fn lobbies_are_watched_again_after_a_reconnect() {
    let mut peer = watching_two();
    peer.fail(TransportErrorKind::Io);
    assert!(peer.lobby(LOBBY).is_some(), "what is known stays known");
    let waiting = peer.lobby_subscribe(LOBBY);
    assert!(peer.is_pending(waiting));
    peer.sent();
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth", "lobbySubscribe operations", "lobbySubscribe visitors"]);
    peer.lobby_subscribed(LOBBY, &[("north", &[("priya", "x")])]);
    assert_eq!(snapshot(peer.outcome(waiting)), "north: priya=x");
    assert_eq!(peer.lobby(LOBBY).as_deref(), Some("north: priya=x"));
    peer.forget();
    peer.lobby_subscribed(SECOND, QUAYS);
    assert!(peer.events().is_empty());
    peer.advance(secs(240));
    assert_eq!(peer.sent().len(), 2, "and are kept alive in the new session");
}

#[test]
fn a_subscribe_under_way_at_the_loss_is_answered_in_the_next_session() {
    let mut peer = Peer::default_connected();
    let op = peer.lobby_subscribe(LOBBY);
    let cold = peer.lobby_subscribe(SECOND);
    peer.lobby_subscribed(SECOND, &[]);
    let fetch = peer.fetch_lobby(LOBBY);
    peer.fail(TransportErrorKind::Io);
    assert!(peer.is_pending(op));
    assert!(peer.is_pending(cold), "also one that was only waiting to hear who is there");
    assert!(matches!(peer.outcome(fetch), Outcome::Unknown(Error::Transport(_))), "but a fetch ends");
    peer.reconnect();
    peer.lobby_subscribed(LOBBY, QUAYS);
    peer.lobby_subscribed(SECOND, QUAYS);
    snapshot(peer.outcome(op));
    snapshot(peer.outcome(cold));
}

#[test]
fn a_lobby_that_is_refused_after_a_reconnect_ends() {
    let mut peer = watching();
    peer.fail(TransportErrorKind::Io);
    let waiting = peer.lobby_subscribe(LOBBY);
    peer.reconnect();
    peer.forget();
    peer.lobby_denied(LOBBY);
    assert_eq!(refusal(peer.outcome(waiting)), denied(Op::LobbySubscribe));
    assert_eq!(ended(peer.event()).0, LOBBY);
    peer.fail(TransportErrorKind::Io);
    peer.sent();
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth"]);
}

#[test]
fn three_restored_lobbies_without_an_answer_mean_a_broken_connection() {
    let mut peer = watching();
    peer.fail(TransportErrorKind::Io);
    peer.reconnect();
    peer.forget();
    peer.advance(secs(30));
    assert_eq!(peer.closed(), [1000]);
    assert_eq!(peer.sent().len(), 2, "asked three times");
}

#[test]
fn lobbies_end_with_the_client() {
    let mut peer = watching();
    let sent = peer.lobby_subscribe(SECOND);
    peer.blocked = true;
    let waiting = peer.lobby_subscribe("third");
    let fetch = peer.fetch_lobby(LOBBY);
    peer.disconnect_now();
    let left = Error::from(Rejection::Disconnected);
    assert_eq!(peer.outcome(sent), Outcome::Unknown(left.clone()));
    assert_eq!(peer.outcome(waiting), Outcome::NotSent(left.clone()));
    assert_eq!(peer.outcome(fetch), Outcome::NotSent(left.clone()));
    let ends: Vec<_> =
        peer.events().into_iter().filter(|event| matches!(event, Event::LobbyEnded { .. })).collect();
    assert_eq!(ends.len(), 1, "only the watched one ends");
    assert_eq!(peer.core.poll_timeout(), None);
    assert_eq!(peer.lobby(LOBBY), None);
}

#[test]
fn what_a_lobby_does_not_remember_of_presence_is_counted() {
    let mut peer = watching();
    peer.lobby_event("update", LOBBY, "north", "priya", "small");
    assert_eq!(peer.core.stats().presence_dropped, 0);
    let large = "x".repeat(800_000);
    for n in 0..40 {
        peer.lobby_event("join", LOBBY, "north", &format!("large-{n}"), &large);
        peer.events();
    }
    let dropped = peer.core.stats().presence_dropped;
    assert!((19..=21).contains(&dropped), "{dropped}");
}
