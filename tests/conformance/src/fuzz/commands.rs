//! What an application may ask of a client.

use nolag_core::{
    ClientCore, Disconnect, Instant, OpId, Payload, Publish, Subscribe,
    wire::{Filter, MAX_DATA_BYTES, QoS},
};

use super::input::Input;

/// Topics that the recordings use, so that their frames mean something to the client.
pub(super) const TOPICS: [&str; 4] = [
    "dispatch/north-quay/messages",
    "dispatch/north-quay/jobs",
    "dispatch/north-quay/telemetry",
    "yard/gate-4/+",
];

/// Rooms of the recordings, and one that no broker knows.
pub(super) const ROOMS: [&str; 4] = ["north-quay", "control-room", "gate-4", "no-such-room"];

/// Lobbies, as rooms.
pub(super) const LOBBIES: [&str; 4] = ["operations", "night", "visitors", "no-such-lobby"];

/// Values of filters.
pub(super) const FILTERS: [&str; 4] = ["x", "y", "A", "z"];

/// Names that no topic, room or lobby has.
const BAD_NAMES: [&str; 4] = ["", "a/b", "a//c", "dispatch/north-quay/#/x"];

/// A command with all that it carries.
#[derive(Debug, Clone)]
pub(super) enum Command {
    AddFilters(&'static str, Vec<Filter>),
    ClearPresence,
    Connect,
    Disconnect(Disconnect),
    FetchLobby(&'static str),
    FetchPresence(&'static str),
    LobbySubscribe(&'static str),
    LobbyUnsubscribe(&'static str),
    Publish(Publish),
    RemoveFilters(&'static str, Vec<Filter>),
    SetFilters(&'static str, Vec<Filter>),
    SetPresence(&'static str, Payload),
    SetPresenceNowhere(Payload),
    Subscribe(Subscribe),
    Unsubscribe(&'static str),
}

/// The first byte after [`Step::Command`](super::client::Step::Command).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    AddFilters,
    ClearPresence,
    Connect,
    Disconnect,
    FetchLobby,
    FetchPresence,
    LobbySubscribe,
    LobbyUnsubscribe,
    Publish,
    RemoveFilters,
    SetFilters,
    SetPresence,
    SetPresenceNowhere,
    Subscribe,
    Unsubscribe,
}

impl Kind {
    const ALL: [Self; 15] = [
        Self::AddFilters,
        Self::ClearPresence,
        Self::Connect,
        Self::Disconnect,
        Self::FetchLobby,
        Self::FetchPresence,
        Self::LobbySubscribe,
        Self::LobbyUnsubscribe,
        Self::Publish,
        Self::RemoveFilters,
        Self::SetFilters,
        Self::SetPresence,
        Self::SetPresenceNowhere,
        Self::Subscribe,
        Self::Unsubscribe,
    ];
}

/// The next command of a script.
pub(super) fn any(input: &mut Input<'_>) -> Command {
    match input.pick(&Kind::ALL) {
        Kind::AddFilters => Command::AddFilters(name(input, &TOPICS), filters(input)),
        Kind::ClearPresence => Command::ClearPresence,
        Kind::Connect => Command::Connect,
        Kind::Disconnect if input.flag() => Command::Disconnect(Disconnect::Drain(input.span())),
        Kind::Disconnect => Command::Disconnect(Disconnect::Now),
        Kind::FetchLobby => Command::FetchLobby(name(input, &LOBBIES)),
        Kind::FetchPresence => Command::FetchPresence(name(input, &ROOMS)),
        Kind::LobbySubscribe => Command::LobbySubscribe(name(input, &LOBBIES)),
        Kind::LobbyUnsubscribe => Command::LobbyUnsubscribe(name(input, &LOBBIES)),
        Kind::Publish => Command::Publish(publish(input)),
        Kind::RemoveFilters => Command::RemoveFilters(name(input, &TOPICS), filters(input)),
        Kind::SetFilters => Command::SetFilters(name(input, &TOPICS), filters(input)),
        Kind::SetPresence => Command::SetPresence(name(input, &ROOMS), payload(input)),
        Kind::SetPresenceNowhere => Command::SetPresenceNowhere(payload(input)),
        Kind::Subscribe => Command::Subscribe(subscribe(input)),
        Kind::Unsubscribe => Command::Unsubscribe(name(input, &TOPICS)),
    }
}

/// Gives a command to a client; what a refusal says and gives back is formatted and dropped.
pub(super) fn give(core: &mut ClientCore, now: Instant, command: Command) -> Result<OpId, String> {
    fn said<E: ToString>(error: E) -> String {
        error.to_string()
    }
    match command {
        Command::AddFilters(topic, filters) => core.add_filters(now, topic, filters).map_err(said),
        Command::ClearPresence => core.clear_presence(now).map_err(said),
        Command::Connect => core.connect(now).map_err(said),
        Command::Disconnect(mode) => Ok(core.disconnect(now, mode)),
        Command::FetchLobby(lobby) => core.fetch_lobby(now, lobby).map_err(said),
        Command::FetchPresence(room) => core.fetch_presence(now, room).map_err(said),
        Command::LobbySubscribe(lobby) => core.lobby_subscribe(now, lobby).map_err(said),
        Command::LobbyUnsubscribe(lobby) => core.lobby_unsubscribe(now, lobby).map_err(said),
        Command::Publish(publish) => core.publish(now, publish).map_err(said),
        Command::RemoveFilters(topic, filters) => core.remove_filters(now, topic, filters).map_err(said),
        Command::SetFilters(topic, filters) => core.set_filters(now, topic, filters).map_err(said),
        Command::SetPresence(room, data) => core.set_presence(now, room, data).map_err(said),
        #[expect(deprecated, reason = "it is there, so it must hold the contract")]
        Command::SetPresenceNowhere(data) => core.set_presence_without_room(now, data).map_err(said),
        Command::Subscribe(subscribe) => core.subscribe(now, subscribe).map_err(said),
        Command::Unsubscribe(topic) => core.unsubscribe(now, topic).map_err(said),
    }
}

/// One of `names`, seldom one that is wrong.
fn name(input: &mut Input<'_>, names: &[&'static str; 4]) -> &'static str {
    let byte = input.byte();
    let names = if byte >= 0xf0 { &BAD_NAMES } else { names };
    names[usize::from(byte & 3)]
}

/// None, some values, or some values as one group.
pub(super) fn filters(input: &mut Input<'_>) -> Vec<Filter> {
    let how = input.byte();
    let chosen: Vec<&str> =
        FILTERS.iter().enumerate().filter(|(n, _)| how >> n & 1 == 1).map(|(_, value)| *value).collect();
    match how >> 4 {
        // Refused: a group of less than two, or a value that no filter has.
        15 => vec![Filter::from("a/b")],
        8..=14 => vec![Filter::All(chosen.into_iter().map(String::from).collect())],
        7 => chosen.iter().cycle().take(101).map(|value| Filter::from(*value)).collect(),
        _ => chosen.into_iter().map(Filter::from).collect(),
    }
}

/// A text of some length, nothing, any MessagePack, or more than a broker takes.
fn payload(input: &mut Input<'_>) -> Payload {
    let text = |len: usize| Payload::encode(&"x".repeat(len)).expect("a text");
    match input.byte() {
        0 => text(0),
        1..=100 => text(10),
        101..=180 => text(200),
        181..=200 => text(5_000),
        201 => text(MAX_DATA_BYTES),
        202 => text(MAX_DATA_BYTES - 5),
        _ => Payload::from_msgpack(input.block().to_vec()).unwrap_or_else(|_| text(1)),
    }
}

fn publish(input: &mut Input<'_>) -> Publish {
    let mut publish = Publish::new(name(input, &TOPICS), payload(input));
    let how = input.byte();
    publish.tracked = how & 1 == 0;
    publish.retain = how & 2 != 0;
    publish.echo = how & 4 == 0;
    publish.qos = (how & 8 != 0).then_some(QoS::ExactlyOnce);
    publish.expires_in = (how & 16 != 0).then(|| input.span());
    publish.filter = (how & 32 != 0).then(|| input.pick(&FILTERS).into());
    if how & 64 != 0 {
        publish.filters = input.some_of(&FILTERS).into_iter().map(String::from).collect();
    }
    publish
}

fn subscribe(input: &mut Input<'_>) -> Subscribe {
    let mut subscribe = Subscribe::new(name(input, &TOPICS));
    subscribe.options.filters = filters(input);
    let how = input.byte();
    subscribe.refresh = how & 1 != 0;
    subscribe.options.load_balance = (how & 2 != 0).then_some(how & 4 != 0);
    subscribe.options.load_balance_group = (how & 8 != 0).then(|| "crew".into());
    subscribe.options.qos = (how & 16 != 0).then_some(QoS::AtMostOnce);
    subscribe
}
