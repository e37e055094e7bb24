//! What can happen to a core, and in which mixture.

use proptest::{collection::vec, prelude::*};

/// One thing that an application, a network, a broker or time does. Numbers choose among what there is.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    // The application.
    Connect,
    DisconnectNow,
    Drain(u64),
    Subscribe {
        topic: usize,
        filter: usize,
        refresh: bool,
    },
    Unsubscribe(usize),
    /// Adds, removes or sets.
    ChangeFilters {
        topic: usize,
        how: usize,
        filters: usize,
    },
    SetPresence {
        room: usize,
        text: usize,
    },
    SetPresenceNowhere,
    ClearPresence,
    FetchPresence(usize),
    LobbySubscribe(usize),
    LobbyUnsubscribe(usize),
    FetchLobby(usize),
    Publish {
        topic: usize,
        tracked: bool,
    },
    /// With a deadline in microseconds.
    PublishWithin(u64),
    /// Good for so many seconds, if that is known.
    ProvideToken(Option<u64>),
    TokenUnavailable,
    Abandon(usize),
    AbandonUnknown,
    Ack,
    // The network.
    Opened,
    Progress,
    Close(usize),
    Fail,
    Stale(usize),
    Bytes(Vec<u8>),
    // The broker. `usize` chooses a topic or one of the references seen.
    Accept {
        version: Option<u32>,
        restored: usize,
    },
    Deny(usize),
    Subscribed(usize),
    Unsubscribed(usize),
    Published(usize),
    Error {
        error: usize,
        topic: Option<usize>,
        msg_ref: Option<usize>,
    },
    Message {
        topic: usize,
        len: usize,
    },
    /// One of a few recorded messages.
    Recorded {
        topic: usize,
        msg_id: usize,
        is_replay: Option<bool>,
    },
    FiltersUpdated(usize),
    /// Of one of a few actors, the first of whom we are.
    PresenceEvent {
        event: usize,
        actor: usize,
        text: usize,
    },
    PresenceList {
        room: usize,
        members: usize,
    },
    LobbySubscribed {
        lobby: usize,
        rooms: usize,
    },
    LobbyList {
        lobby: usize,
        rooms: usize,
    },
    LobbyUnsubscribed(usize),
    LobbyEvent {
        event: usize,
        lobby: usize,
        room: usize,
        actor: usize,
    },
    LobbyError(usize),
    ReplayStart(u64),
    ReplayEnd(u64),
    Hydration(usize),
    Goodbye,
    /// Whether it succeeded.
    Reauth(bool),
    Heartbeat,
    /// Does what a broker would do with everything sent so far.
    Serve,
    // Time.
    Pass(u64),
    GoBack(u64),
    /// The adapter is busy and does not wake the core.
    Lag(u64),
    Due,
    // The adapter.
    Transmit(usize),
    Actions(usize),
    Events(usize),
    Messages(usize),
}

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    let n = 0..4_usize;
    prop_oneof![
        2 => Just(Connect),
        1 => Just(DisconnectNow),
        1 => (0..20_000_000_u64).prop_map(Drain),
        6 => (n.clone(), 0..3_usize, any::<bool>()).prop_map(|(topic, filter, refresh)| Subscribe { topic, filter, refresh }),
        3 => n.clone().prop_map(Unsubscribe),
        6 => (n.clone(), 0..3_usize, 0..8_usize)
            .prop_map(|(topic, how, filters)| ChangeFilters { topic, how, filters }),
        5 => (n.clone(), n.clone()).prop_map(|(room, text)| SetPresence { room, text }),
        1 => Just(SetPresenceNowhere),
        2 => Just(ClearPresence),
        2 => n.clone().prop_map(FetchPresence),
        4 => n.clone().prop_map(LobbySubscribe),
        2 => n.clone().prop_map(LobbyUnsubscribe),
        2 => n.clone().prop_map(FetchLobby),
        5 => (n.clone(), any::<bool>()).prop_map(|(topic, tracked)| Publish { topic, tracked }),
        2 => (0..5_000_000_u64).prop_map(PublishWithin),
        3 => proptest::option::of(0..100_u64).prop_map(ProvideToken),
        1 => Just(TokenUnavailable),
        3 => any::<usize>().prop_map(Abandon),
        1 => Just(AbandonUnknown),
        3 => Just(Ack),
        3 => Just(Opened),
        1 => Just(Progress),
        1 => any::<usize>().prop_map(Close),
        1 => Just(Fail),
        1 => any::<usize>().prop_map(Stale),
        1 => vec(any::<u8>(), 0..40).prop_map(Bytes),
        3 => (prop_oneof![Just(None), Just(Some(1)), Just(Some(2))], 0..16_usize)
            .prop_map(|(version, restored)| Accept { version, restored }),
        1 => any::<usize>().prop_map(Deny),
        4 => n.clone().prop_map(Subscribed),
        3 => n.clone().prop_map(Unsubscribed),
        3 => any::<usize>().prop_map(Published),
        3 => (any::<usize>(), proptest::option::of(n.clone()), proptest::option::of(any::<usize>()))
            .prop_map(|(error, topic, msg_ref)| Error { error, topic, msg_ref }),
        4 => (n.clone(), 0..3_000_usize).prop_map(|(topic, len)| Message { topic, len }),
        3 => (n.clone(), 0..5_usize, proptest::option::of(any::<bool>()))
            .prop_map(|(topic, msg_id, is_replay)| Recorded { topic, msg_id, is_replay }),
        3 => n.clone().prop_map(FiltersUpdated),
        6 => (0..5_usize, 0..3_usize, n.clone())
            .prop_map(|(event, actor, text)| PresenceEvent { event, actor, text }),
        3 => (n.clone(), 0..64_usize).prop_map(|(room, members)| PresenceList { room, members }),
        3 => (n.clone(), 0..16_usize).prop_map(|(lobby, rooms)| LobbySubscribed { lobby, rooms }),
        3 => (n.clone(), 0..16_usize).prop_map(|(lobby, rooms)| LobbyList { lobby, rooms }),
        2 => n.clone().prop_map(LobbyUnsubscribed),
        4 => (0..5_usize, 0..6_usize, n.clone(), 0..3_usize)
            .prop_map(|(event, lobby, room, actor)| LobbyEvent { event, lobby, room, actor }),
        2 => n.clone().prop_map(LobbyError),
        1 => any::<u64>().prop_map(ReplayStart),
        1 => any::<u64>().prop_map(ReplayEnd),
        1 => n.prop_map(Hydration),
        1 => Just(Goodbye),
        1 => any::<bool>().prop_map(Reauth),
        1 => Just(Heartbeat),
        6 => Just(Serve),
        4 => prop_oneof![0..1_000_u64, 0..1_000_000_u64, 0..100_000_000_u64].prop_map(Pass),
        1 => (0..100_000_000_u64).prop_map(GoBack),
        1 => (0..100_000_000_u64).prop_map(Lag),
        5 => Just(Due),
        5 => (1..6_usize).prop_map(Transmit),
        4 => (1..4_usize).prop_map(Actions),
        3 => (1..9_usize).prop_map(Events),
        2 => (1..9_usize).prop_map(Messages),
    ]
}

/// Mostly a session that stands, because that is where most can happen.
pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let established = || {
        use Step::{Accept, Actions, Connect, Opened, ProvideToken, Transmit};
        let accept = Accept { version: Some(2), restored: 0 };
        vec![Connect, ProvideToken(Some(90)), Actions(2), Opened, Transmit(1), accept]
    };
    (proptest::bool::weighted(0.8), vec(step(), 1..most)).prop_map(move |(ready, random)| {
        let mut steps = if ready { established() } else { Vec::new() };
        steps.extend(random);
        steps
    })
}
