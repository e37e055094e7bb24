//! What a broker may say: a small grammar of frames, right and wrong, and the answers of a broker that grants all.

use bytes::{Bytes, BytesMut};
use nolag_core::wire::{
    AuthReply, ClientFrame, ErrorFrame, Filter, LobbyEvent, Message, PresenceEvent, RawValue, ServerFrame,
    Text, write,
};

use super::{
    commands::{FILTERS, LOBBIES, ROOMS, TOPICS},
    input::Input,
};

/// Ids of messages.
pub(super) const MSG_IDS: [&str; 4] = ["m1", "m2", "m3", ""];

/// Codes that a connection may be closed with.
pub(super) const CLOSE_CODES: [Option<u16>; 11] = [
    None,
    Some(1000),
    Some(1001),
    Some(1006),
    Some(1009),
    Some(1011),
    Some(1013),
    Some(4001),
    Some(4002),
    Some(4003),
    Some(u16::MAX),
];

/// Who we are, and others.
const ACTORS: [&str; 3] = ["act-jonas", "act-marta", ""];

const EVENTS: [&str; 5] = ["join", "update", "leave", "waking", "teleport"];

const ERRORS: [(&str, Option<u32>); 8] = [
    ("unknown_topic", Some(42940)),
    ("rate_limit_exceeded", Some(42910)),
    ("quota_exceeded", Some(42920)),
    ("message_too_large", Some(42930)),
    ("invalid_filter", Some(42960)),
    ("not_subscribed", None),
    ("not_authorized", None),
    ("not_authenticated", None),
];

const DENIALS: [&str; 5] =
    ["access_denied", "broker_unavailable", "connection_limit_reached", "token_expired", "odd"];

const VERSIONS: [Option<u32>; 4] = [Some(2), Some(1), None, Some(u32::MAX)];

/// The next frame of a script; `reference` is a `msgRef` that fits.
pub(super) fn any(input: &mut Input<'_>, reference: &str) -> Bytes {
    let kind = input.below(18);
    let topic = Text::Str(input.pick(&TOPICS));
    let data = value(input);
    let data = RawValue::parse(&data).unwrap_or(RawValue::NIL);
    let lobby = Text::Str(input.pick(&LOBBIES));
    let room = Text::Str(input.pick(&ROOMS));
    let actor = input.pick(&ACTORS);
    let event = input.pick(&EVENTS);
    let frame = match kind {
        0 => return auth(input),
        1 => {
            let (error, code) = input.pick(&ERRORS);
            let what = input.byte();
            let given = |bit: u8, text| (what >> bit & 1 == 1).then_some(text);
            ServerFrame::Error(ErrorFrame {
                error,
                code: code.filter(|_| what & 8 == 0),
                topic: given(0, topic),
                msg_ref: given(1, Text::Str(reference)),
                lobby_id: given(2, lobby),
                ..ErrorFrame::default()
            })
        }
        2 => ServerFrame::Published { topic, msg_ref: Text::Str(reference) },
        3 => ServerFrame::Subscribed { topic, load_balance: input.flag() },
        4 => ServerFrame::Unsubscribed { topic },
        5 => ServerFrame::FiltersUpdated { topic, filters: data },
        6 => {
            let how = input.byte();
            ServerFrame::Message(Message {
                topic,
                data,
                msg_id: Some(MSG_IDS[usize::from(how & 3)]).filter(|id| !id.is_empty()),
                requires_ack: Some(how & 4 != 0),
                filter: (how & 8 != 0).then_some("#"),
                is_replay: (how & 16 != 0).then_some(true),
                from: (how & 32 != 0).then_some(actor),
                from_type: None,
            })
        }
        7 => ServerFrame::Presence(PresenceEvent {
            event,
            actor_token_id: Some(actor),
            presence: Some(data).filter(|_| event != "leave"),
            status: None,
            capabilities: None,
            advertisement_version: None,
        }),
        8 => ServerFrame::PresenceList { room_id: Some(room), data },
        9 => ServerFrame::LobbySubscribed { lobby_id: lobby, presence: data },
        10 => ServerFrame::LobbyPresenceList { lobby_id: lobby, presence: data },
        11 => ServerFrame::LobbyUnsubscribed { lobby_id: lobby },
        12 => ServerFrame::LobbyPresence(LobbyEvent {
            event,
            lobby_id: Some(lobby),
            room_id: Some(room),
            actor_id: Some(actor),
            data,
        }),
        13 => ServerFrame::ReplayStart { count: 2, oldest_timestamp: None, newest_timestamp: None },
        14 => ServerFrame::ReplayEnd { replayed: 2 },
        15 => ServerFrame::Hydration { topic, data },
        16 => ServerFrame::Disconnect { reason: Some("token_expired") },
        _ => ServerFrame::Reauth {
            success: input.flag(),
            error: Some("actor_mismatch"),
            auth_expires_at: Some(9),
        },
    };
    encoded(&frame)
}

fn auth(input: &mut Input<'_>) -> Bytes {
    let how = input.byte();
    if how & 1 == 1 {
        let error = Some(input.pick(&DENIALS));
        return encoded(&ServerFrame::Auth(AuthReply { error, ..AuthReply::default() }));
    }
    // What is restored: topics in the form that brokers use for what they did restore, and as plain texts.
    let mut restored = BytesMut::new();
    let topics: Vec<&str> =
        TOPICS.into_iter().enumerate().filter(|(n, _)| how >> (n + 1) & 1 == 1).map(|(_, t)| t).collect();
    write::list_header(&mut restored, topics.len());
    for topic in topics {
        if how & 64 != 0 {
            write::str(&mut restored, topic);
        } else {
            write::map_header(&mut restored, 1);
            write::str(&mut restored, "topic");
            write::str(&mut restored, topic);
        }
    }
    encoded(&ServerFrame::Auth(AuthReply {
        success: true,
        actor_token_id: Some(ACTORS[0]),
        protocol_version: input.pick(&VERSIONS),
        restored_subscriptions: Some(RawValue::parse(&restored).unwrap_or(RawValue::EMPTY_LIST)),
        ..AuthReply::default()
    }))
}

/// A value that some frame carries: a text, a list of filters, members of a room, rooms of a lobby, or any bytes.
fn value(input: &mut Input<'_>) -> BytesMut {
    let mut out = BytesMut::new();
    match input.below(6) {
        0 => write::str(&mut out, &"x".repeat(input.byte().into())),
        1 => Filter::encode_list(
            &input.some_of(&FILTERS).into_iter().map(Filter::from).collect::<Vec<_>>(),
            &mut out,
        ),
        2 => members(&input.some_of(&ACTORS), &mut out),
        3 => rooms(&input.some_of(&ROOMS), &mut out),
        4 => out.extend_from_slice(input.block()),
        _ => write::nil(&mut out),
    }
    out
}

fn members(actors: &[&str], out: &mut BytesMut) {
    write::list_header(out, actors.len());
    actors.iter().for_each(|actor| member(actor, out));
}

fn member(actor: &str, out: &mut BytesMut) {
    write::map_header(out, 2);
    write::str(out, "actorTokenId");
    write::str(out, actor);
    write::str(out, "presence");
    write::str(out, "here");
}

fn rooms(rooms: &[&str], out: &mut BytesMut) {
    write::map_header(out, rooms.len());
    for room in rooms {
        write::str(out, room);
        write::map_header(out, 1);
        write::str(out, ACTORS[1]);
        member(ACTORS[1], out);
    }
}

/// What a broker that grants everything answers.
pub(super) fn answers(frame: &[u8]) -> Vec<Bytes> {
    let Ok(frame) = ClientFrame::decode(frame) else { return Vec::new() };
    let presence = |event, data| {
        ServerFrame::Presence(PresenceEvent {
            event,
            actor_token_id: Some(ACTORS[0]),
            presence: Some(data),
            status: None,
            capabilities: None,
            advertisement_version: None,
        })
    };
    let answers = match frame {
        ClientFrame::Auth(_) => vec![ServerFrame::Auth(AuthReply {
            success: true,
            actor_token_id: Some(ACTORS[0]),
            protocol_version: Some(2),
            ..AuthReply::default()
        })],
        ClientFrame::GetLobbyPresence { lobby_id } => vec![ServerFrame::LobbyPresenceList {
            lobby_id: Text::Str(lobby_id),
            presence: RawValue::EMPTY_MAP,
        }],
        ClientFrame::GetPresence { room_id } => {
            vec![ServerFrame::PresenceList { room_id: room_id.map(Text::Str), data: RawValue::EMPTY_LIST }]
        }
        ClientFrame::Heartbeat => vec![ServerFrame::Heartbeat],
        ClientFrame::LobbySubscribe { lobby_id } => vec![ServerFrame::LobbySubscribed {
            lobby_id: Text::Str(lobby_id),
            presence: RawValue::EMPTY_MAP,
        }],
        ClientFrame::LobbyUnsubscribe { lobby_id } => {
            vec![ServerFrame::LobbyUnsubscribed { lobby_id: Text::Str(lobby_id) }]
        }
        ClientFrame::Presence { room_id: Some(_), data } => {
            vec![presence("join", data), presence("update", data)]
        }
        ClientFrame::Publish(publish) => {
            let topic = Text::Str(publish.topic);
            publish
                .msg_ref
                .map(|text| ServerFrame::Published { topic, msg_ref: Text::Str(text) })
                .into_iter()
                .collect()
        }
        ClientFrame::Reauth { .. } => {
            vec![ServerFrame::Reauth { success: true, error: None, auth_expires_at: None }]
        }
        ClientFrame::SetFilters { topic, .. } => {
            vec![ServerFrame::FiltersUpdated { topic: Text::Str(topic), filters: RawValue::EMPTY_LIST }]
        }
        ClientFrame::Subscribe(subscribe) => vec![ServerFrame::Subscribed {
            topic: Text::Str(subscribe.topic),
            load_balance: subscribe.load_balance,
        }],
        ClientFrame::Unsubscribe { topic } => vec![ServerFrame::Unsubscribed { topic: Text::Str(topic) }],
        _ => Vec::new(),
    };
    answers.iter().map(encoded).collect()
}

fn encoded(frame: &ServerFrame<'_>) -> Bytes {
    let mut out = BytesMut::new();
    frame.encode(&mut out);
    out.freeze()
}
