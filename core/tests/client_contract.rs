//! The contract of the core, held against whatever applications, networks and brokers may do.

#[path = "support/steps.rs"]
mod steps;
mod support;
#[path = "support/world.rs"]
mod world;

use nolag_core::{
    ClientCore, Disconnect, Event, FilterChange, Instant, Publish, Status, Subscribe,
    wire::{ErrorFrame, LobbyEvent, PresenceEvent, RawValue, ServerFrame, Text},
};
use proptest::{collection::vec, prelude::*, test_runner::Config as Cases};
use steps::{Step, steps};
use support::*;
use world::*;

fn cases(cases: u32) -> Cases {
    // Cases that failed are written down as tests with a name.
    Cases { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Cases::default() }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn every_accepted_command_ends_exactly_once_and_nothing_is_left(
        steps in steps(120), variant in 0..VARIANTS, dry in any::<bool>(), seed in any::<u64>(),
    ) {
        let polling = if dry { Polling::Dry } else { Polling::AsTold };
        let mut world = World::new(configuration(variant), seed, polling);
        steps.iter().for_each(|step| world.take(step));
        world.leave();
    }
}

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn waking_up_when_asked_makes_progress(
        steps in steps(60), variant in 0..VARIANTS, seed in any::<u64>(),
    ) {
        let mut world = World::new(configuration(variant), seed, Polling::Dry);
        steps.iter().for_each(|step| world.take(step));
        world.let_time_pass(300);
        world.leave();
    }

    #[test]
    fn the_same_seed_and_inputs_give_the_same_outputs(
        steps in steps(80), variant in 0..VARIANTS, seed in any::<u64>(), dry in any::<bool>(),
    ) {
        let run = || {
            let polling = if dry { Polling::Dry } else { Polling::AsTold };
            let mut world = World::new(configuration(variant), seed, polling);
            steps.iter().for_each(|step| world.take(step));
            world.leave();
            (world.trace, format!("{:?}", world.core))
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn spurious_wake_ups_and_repeated_polls_change_nothing(
        steps in steps(80), variant in 0..VARIANTS, seed in any::<u64>(),
    ) {
        let run = |polling| {
            let mut world = World::new(configuration(variant), seed, polling);
            steps.iter().for_each(|step| world.take(step));
            world.leave();
            world.trace
        };
        prop_assert_eq!(run(Polling::Dry), run(Polling::Spurious));
    }

    #[test]
    fn any_bytes_at_any_time_are_survived(
        messages in vec(vec(any::<u8>(), 0..60), 1..20), stage in 0..4_usize,
    ) {
        let mut peer = Peer::new(config());
        let stages: [fn(&mut Peer); 4] =
            [|peer| { peer.connect(); }, Peer::open, Peer::accept, |peer| { peer.subscribe(TOPIC); }];
        stages[..=stage].iter().for_each(|stage| stage(&mut peer));
        for bytes in messages {
            peer.bytes(bytes);
        }
        peer.disconnect_now();
        prop_assert_eq!(peer.core.poll_timeout(), None);
    }

    #[test]
    fn damaged_frames_are_survived(
        topic in 0..4_usize, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let mut peer = Peer::default_connected();
        for topic in TOPICS {
            peer.subscribe(topic);
        }
        peer.subscribe(TOPIC);
        let topic = Text::Str(TOPICS[topic]);
        let payload = payload("hello");
        let error = ErrorFrame { error: "unknown_topic", topic: Some(topic), ..ErrorFrame::default() };
        peer.set_filters(&["x"]);
        peer.set_presence(ROOM, "me");
        peer.fetch_presence(ROOM);
        peer.lobby_subscribe(LOBBY);
        let list = presence_list(&[online(ACTOR, "me"), offline("actor-2", "job")]);
        let list = RawValue::parse(&list).expect("a list");
        let rooms = lobby_snapshot(&[(ROOM, &[(ACTOR, "me")])]);
        let rooms = RawValue::parse(&rooms).expect("a map");
        let (room, lobby_id) = (Text::Str(ROOM), Text::Str(LOBBY));
        let presence = |event| PresenceEvent {
            event,
            actor_token_id: Some(ACTOR),
            presence: Some(payload.raw()),
            status: None,
            capabilities: None,
            advertisement_version: None,
        };
        let lobby_event = LobbyEvent {
            event: "join",
            lobby_id: Some(lobby_id),
            room_id: Some(room),
            actor_id: Some(ACTOR),
            data: payload.raw(),
        };
        for frame in [
            ServerFrame::Subscribed { topic, load_balance: false },
            ServerFrame::Message(message(TOPIC, payload.raw())),
            ServerFrame::FiltersUpdated { topic, filters: RawValue::EMPTY_LIST },
            ServerFrame::Hydration { topic, data: payload.raw() },
            ServerFrame::Presence(presence("join")),
            ServerFrame::Presence(presence("leave")),
            ServerFrame::PresenceList { room_id: Some(room), data: list },
            ServerFrame::LobbySubscribed { lobby_id, presence: rooms },
            ServerFrame::LobbyPresence(lobby_event),
            ServerFrame::LobbyPresenceList { lobby_id, presence: rooms },
            ServerFrame::LobbyUnsubscribed { lobby_id },
            ServerFrame::ReplayStart { count: 2, oldest_timestamp: None, newest_timestamp: None },
            ServerFrame::ReplayEnd { replayed: 2 },
            ServerFrame::Error(error),
            ServerFrame::Published { topic, msg_ref: Text::Str("1") },
        ] {
            let mut bytes = encode(&frame).to_vec();
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            peer.bytes(bytes);
        }
        peer.disconnect_now();
        prop_assert_eq!(peer.core.poll_timeout(), None);
    }
}

/// A broker that answers all and a network that holds: what is accepted succeeds.
#[test]
fn with_a_good_broker_everything_succeeds_in_order() {
    let mut world = World::new(unpaced(), 1, Polling::Dry);
    world.take(&Step::Connect);
    world.take(&Step::Opened);
    world.take(&Step::Serve);
    for n in 0..200 {
        world.take(&Step::Subscribe { topic: n, filter: n % 3, refresh: n % 5 == 0 });
        world.take(&Step::Publish { topic: n % 3, tracked: true });
        world.take(&Step::ChangeFilters { topic: n, how: 2, filters: n % 8 });
        world.take(&Step::SetPresence { room: n / 20 % 3, text: n % 4 });
        world.take(&Step::FetchPresence(n / 10 % 3));
        world.take(&Step::LobbySubscribe(n % 3));
        world.take(&Step::FetchLobby(n % 3));
        if n % 11 == 0 {
            world.take(&Step::LobbyUnsubscribe(n % 3));
        }
        // Not while changes of it wait: they would be superseded.
        if n % 7 == 0 {
            (0..30).for_each(|_| world.take(&Step::Serve));
            world.take(&Step::Unsubscribe(n + 1));
        }
    }
    (0..30).for_each(|_| world.take(&Step::Serve));
    assert_eq!(world.done.len(), world.accepted.len());
    for (op, outcome) in &world.done {
        let good = [
            "Acked",
            "Connected",
            "FiltersUpdated",
            "Lobby(",
            "Presence(",
            "PresenceSet",
            "Subscribed",
            "Superseded",
            "Unsubscribed",
        ];
        assert!(good.iter().any(|word| outcome.contains(word)), "{op:?}: {outcome}");
    }
    assert_eq!(world.core.stats().frames_unexpected, 0);
    world.leave();
}

#[test]
fn an_adapter_that_polls_nothing_for_long_loses_no_outcome() {
    let mut world = World::new(unpaced(), 1, Polling::AsTold);
    for step in [Step::Connect, Step::Actions(1), Step::Opened, Step::Transmit(1), Step::Serve] {
        world.take(&step);
    }
    for n in 0..2_000 {
        world.take(&Step::Publish { topic: n % 3, tracked: true });
        world.take(&Step::Transmit(1));
    }
    world.take(&Step::Serve);
    world.leave();
    assert_eq!(world.done.values().filter(|outcome| outcome.contains("Acked")).count(), 2_000);
}

#[test]
fn commands_give_back_what_they_refuse() {
    let mut core = ClientCore::new(config(), 1, Instant::ZERO).expect("a valid configuration");
    let subscribe = Subscribe::new("not a topic");
    assert_eq!(core.subscribe(Instant::ZERO, subscribe.clone()).unwrap_err().value, subscribe);
    let filters = FilterChange::Add(filter_list(&["a"]));
    let refused = core.add_filters(Instant::ZERO, "not a topic", filter_list(&["a"])).unwrap_err();
    assert_eq!(refused.value, filters);
    assert_eq!(core.set_presence(Instant::ZERO, "not a room", payload("x")).unwrap_err().value, payload("x"));
    let publish = Publish::new("not a topic", payload("x"));
    assert_eq!(core.publish(Instant::ZERO, publish.clone()).unwrap_err().value, publish);
    assert_eq!(core.poll_event(), None, "and are not heard of again");
}

#[test]
fn the_token_shows_nowhere() {
    let mut peer = Peer::new(config());
    let hidden = |peer: &Peer| {
        for text in [format!("{:?}", peer.core), format!("{:#?}", peer.core), peer.core.explain()] {
            assert!(!text.contains("tokenthatmustnotleak"), "{text}");
        }
    };
    assert!(!format!("{:?}", peer.core.config()).contains("tokenthatmustnotleak"));
    hidden(&peer);
    peer.blocked = true;
    peer.connect();
    peer.open();
    hidden(&peer);
    peer.blocked = false;
    peer.pump();
    hidden(&peer);
    peer.deny("access_denied");
    hidden(&peer);
    assert!(!format!("{:?}", peer.events()).contains("tokenthatmustnotleak"));
}

#[test]
fn queued_payloads_do_not_show_in_debug() {
    let mut peer = Peer::default_connected();
    peer.blocked = true;
    peer.publish_as(TOPIC, |publish| publish.payload = payload("confidential"));
    assert!(!format!("{:?}", peer.core).contains("confidential"));
}

#[test]
fn the_attempt_under_way_has_the_number_that_its_failure_is_told_with() {
    let mut peer = Peer::default_connected();
    assert_eq!(peer.core.attempt(), 1);
    peer.close(1006);
    for expected in 1..=3 {
        peer.reopen();
        peer.forget();
        assert_eq!(peer.core.attempt(), expected);
        peer.close(1006);
        let told = peer.event();
        assert!(matches!(told, Event::AttemptFailed { attempt, .. } if attempt == expected), "{told:?}");
    }
    peer.core.disconnect(peer.now, Disconnect::Now);
    assert_eq!(peer.core.attempt(), 0);
}

#[test]
fn an_answer_to_auth_before_auth_has_left_is_no_answer() {
    let mut peer = Peer::new(config());
    peer.connect();
    peer.blocked = true;
    peer.open();
    peer.accept();
    assert_eq!((peer.core.status(), peer.core.stats().frames_unexpected), (Status::Connecting, 1));
    peer.blocked = false;
    peer.pump();
    peer.accept();
    assert_eq!(peer.core.status(), Status::Connected);
}
