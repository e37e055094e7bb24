//! Frames out of any bytes.

use std::ops::Range;

use bytes::BytesMut;
use nolag_core::{
    Payload,
    wire::{
        ClientFrame, Dump, ErrorFrame, Filter, FrameMap, Kind, LobbyMembers, PresenceEntry, RawValue,
        RestoredSubscription, ServerFrame, Text,
    },
};
use serde::de::IgnoredAny;

use crate::{
    encode,
    mode::Verdict,
    trace::{Body, Message, Peer},
    value::{Value, Values},
};

/// Longest line of a [`Dump`], as its documentation has it.
const LONGEST_LINE: usize = 2048;

/// Reads one WebSocket message of any bytes in both directions.
///
/// # Panics
/// When one of these does not hold:
///
/// * the bytes are one MessagePack value for the codec exactly if they are for [`Values`], which shares no code with it;
/// * a frame is only read out of one such value, and what it borrows lies inside the message;
/// * the views of what a frame carries read any value;
/// * a typed payload is refused when it nests deeper than the limit, and any other is read or refused;
/// * [`Dump`] shows one line of bounded length, which stays the same when a token or the content of a payload changes.
pub fn decode_frame(bytes: &[u8]) {
    let value = RawValue::parse(bytes);
    let second = Values::default().read(bytes).map(drop);
    assert_eq!(value.is_ok(), second.is_ok(), "{value:?} and {second:?}");

    let (server, client) = (ServerFrame::decode(bytes), ClientFrame::decode(bytes));
    if !bytes.is_empty() {
        assert!(value.is_ok() || server.is_err() && client.is_err(), "read out of no value");
    }
    if let Ok(frame) = &server {
        parts_of_server(frame).iter().for_each(|part| assert_inside(bytes, part));
    }
    if let Ok(frame) = &client {
        parts_of_client(frame).iter().for_each(|part| assert_inside(bytes, part));
    }
    if let Ok(value) = value {
        read_views(bytes, value);
        read_payload(value);
    }
    check_dump(bytes, client.as_ref().ok());
    // Formatting reads everything once more.
    drop(format!("{server:?} {client:?}"));
}

/// Writes again what decodes.
///
/// # Panics
/// When a frame that was read is read as another one after it was written, when writing that one gives other bytes, or
/// when a client's frame says something else than the independent reading of `client_fields` does.
pub fn roundtrip_frame(bytes: &[u8]) {
    if let Ok(frame) = ServerFrame::decode(bytes) {
        let written = encoded(|out| frame.encode(out));
        let again = ServerFrame::decode(&written).expect("what was written is a frame");
        assert_eq!(again, frame);
        assert_eq!(encoded(|out| again.encode(out)), written, "written in another way");
    }
    if let Ok(frame) = ClientFrame::decode(bytes) {
        let written = encoded(|out| frame.encode(out));
        let again = ClientFrame::decode(&written).expect("what was written is a frame");
        assert_eq!(again, frame);
        assert_eq!(encoded(|out| again.encode(out)), written, "written in another way");
    }
    let body = Body::Binary(bytes.to_vec());
    let message = Message { conn: 1, from: Peer::Client, body, malformed: false };
    if let Err(Verdict::Wrong(reasons)) = encode::check_message(&message) {
        panic!("{reasons:?}");
    }
}

fn encoded(write: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::new();
    write(&mut out);
    out
}

/// Where `part` lies in `whole`; `None` when it lies elsewhere.
fn place(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let end = start.checked_add(part.len())?;
    (end <= whole.len()).then_some(start..end)
}

fn assert_inside(whole: &[u8], part: &[u8]) {
    // What a frame lacks stands for one of these.
    let default = part.is_empty() || matches!(part, [0x80 | 0x90 | 0xc0] | b"unknown_error");
    assert!(default || place(whole, part).is_some(), "{part:?} is not borrowed from the message");
}

fn parts_of_client<'a>(frame: &ClientFrame<'a>) -> Vec<&'a [u8]> {
    let texts = match frame {
        ClientFrame::Ack { msg_id: text }
        | ClientFrame::GetLobbyPresence { lobby_id: text }
        | ClientFrame::GetPresence { room_id: Some(text) }
        | ClientFrame::LobbySubscribe { lobby_id: text }
        | ClientFrame::LobbyUnsubscribe { lobby_id: text }
        | ClientFrame::SetFilters { topic: text, .. }
        | ClientFrame::Unsubscribe { topic: text } => vec![*text],
        ClientFrame::Auth(auth) => {
            let optional = [auth.client_id, auth.project_id, auth.load_balance_group];
            optional.into_iter().flatten().chain([auth.token.expose()]).collect()
        }
        ClientFrame::BatchAck { msg_ids } => msg_ids.clone(),
        ClientFrame::Presence { room_id, data } => {
            return room_id.map(str::as_bytes).into_iter().chain([data.as_bytes()]).collect();
        }
        ClientFrame::Publish(publish) => {
            let optional = [publish.filter, publish.msg_ref].into_iter().flatten();
            let texts = optional.chain(publish.filters.iter().copied()).chain([publish.topic]);
            return texts.map(str::as_bytes).chain([publish.data.as_bytes()]).collect();
        }
        ClientFrame::Reauth { token } => vec![token.expose()],
        ClientFrame::Subscribe(subscribe) => {
            subscribe.load_balance_group.into_iter().chain([subscribe.topic]).collect()
        }
        _ => Vec::new(),
    };
    texts.into_iter().map(str::as_bytes).collect()
}

fn parts_of_server<'a>(frame: &ServerFrame<'a>) -> Vec<&'a [u8]> {
    fn text(text: Text<'_>) -> &[u8] {
        match text {
            Text::Str(text) => text.as_bytes(),
            Text::Other(value) => value.as_bytes(),
        }
    }
    let strs = |strs: &[Option<&'a str>]| -> Vec<&'a [u8]> {
        strs.iter().copied().flatten().map(str::as_bytes).collect()
    };
    match frame {
        ServerFrame::Auth(reply) => {
            let texts = [reply.error, reply.actor_token_id, reply.project_id, reply.actor_type];
            let restored = reply.restored_subscriptions.map(RawValue::as_bytes);
            strs(&texts).into_iter().chain(restored).collect()
        }
        ServerFrame::Disconnect { reason } => strs(&[*reason]),
        ServerFrame::Error(ErrorFrame { error, topic, hint, msg_ref, detail, lobby_id, .. }) => {
            let texts = [*topic, *msg_ref, *detail, *lobby_id].into_iter().flatten().map(text);
            strs(&[Some(error), *hint]).into_iter().chain(texts).collect()
        }
        ServerFrame::FiltersUpdated { topic, filters: value }
        | ServerFrame::Hydration { topic, data: value }
        | ServerFrame::LobbyPresenceList { lobby_id: topic, presence: value }
        | ServerFrame::LobbySubscribed { lobby_id: topic, presence: value } => {
            vec![text(*topic), value.as_bytes()]
        }
        ServerFrame::LobbyPresence(event) => {
            let texts = [event.lobby_id, event.room_id].into_iter().flatten().map(text);
            strs(&[Some(event.event), event.actor_id])
                .into_iter()
                .chain(texts)
                .chain([event.data.as_bytes()])
                .collect()
        }
        ServerFrame::Message(message) => {
            let texts = [message.msg_id, message.filter, message.from, message.from_type];
            strs(&texts).into_iter().chain([text(message.topic), message.data.as_bytes()]).collect()
        }
        ServerFrame::Presence(event) => {
            let values = [event.presence, event.capabilities, event.advertisement_version];
            let values = values.into_iter().flatten().map(RawValue::as_bytes);
            strs(&[Some(event.event), event.actor_token_id, event.status]).into_iter().chain(values).collect()
        }
        ServerFrame::PresenceList { room_id, data } => {
            room_id.map(text).into_iter().chain([data.as_bytes()]).collect()
        }
        ServerFrame::Published { topic, msg_ref } => vec![text(*topic), text(*msg_ref)],
        ServerFrame::Reauth { error, .. } => strs(&[*error]),
        ServerFrame::ReplayStart { oldest_timestamp, newest_timestamp, .. } => {
            [oldest_timestamp, newest_timestamp].into_iter().flatten().map(|value| value.as_bytes()).collect()
        }
        ServerFrame::Subscribed { topic, .. }
        | ServerFrame::Unsubscribed { topic }
        | ServerFrame::LobbyUnsubscribed { lobby_id: topic } => vec![text(*topic)],
        ServerFrame::Unknown { frame_type } => vec![frame_type.as_bytes()],
        _ => Vec::new(),
    }
}

/// Reads a value, and each field of a map, as everything that a frame can carry.
fn read_views(bytes: &[u8], value: RawValue<'_>) {
    let fields = value.entries().into_iter().flatten().map(|(_, field)| field);
    for value in fields.chain([value]) {
        assert!(place(bytes, value.as_bytes()).is_some());
        for entry in RestoredSubscription::parse_list(value) {
            assert_inside(bytes, entry.topic.as_bytes());
        }
        for entry in PresenceEntry::parse_list(value) {
            assert_inside(bytes, entry.actor_token_id.as_bytes());
        }
        for (room, members) in LobbyMembers(value).rooms() {
            assert_inside(bytes, room.as_bytes());
            members.iter().for_each(|member| assert_inside(bytes, member.presence.as_bytes()));
        }
        for filter in Filter::parse_list(value).into_iter().flatten() {
            drop((filter.invalid_value().map(String::from), filter.canonical()));
        }
        if let Some(items) = value.items() {
            // One more level, as lists of lists are.
            items.for_each(|item| _ = (item.as_i64(), item.as_u64(), item.as_f64(), item.as_bool()));
        }
        drop(FrameMap::from_value(value));
    }
}

/// Reads a value as payloads are, into types that take everything and into some that do not.
fn read_payload(value: RawValue<'_>) {
    const LIMITS: [usize; 2] = [8, nolag_core::DEFAULT_MAX_DEPTH];
    let bytes = value.as_bytes().to_vec();
    let payload = Payload::from_msgpack(bytes).expect("one value");
    let depth = depth(value);
    for limit in LIMITS {
        let read = payload.decode_with_depth::<IgnoredAny>(limit);
        assert!(depth <= limit || read.is_err(), "{depth} levels read with a limit of {limit}");
        drop(payload.decode_with_depth::<serde_json::Value>(limit));
    }
    drop((payload.decode::<String>(), payload.decode::<Vec<u64>>(), payload.decode::<(f64, bool)>()));
    assert_eq!(payload.text().is_some(), payload.decode::<&str>().is_ok(), "text, and not a str");
    let _ = (payload.binary(), payload.raw().find_extension());
}

/// How deep lists and maps nest: 0 for any other value.
fn depth(value: RawValue<'_>) -> usize {
    let mut values = Values::default();
    let whole = values.read(value.as_bytes()).expect("one value");
    // What a value holds was added before it.
    let mut depths: Vec<usize> = Vec::with_capacity(whole + 1);
    for id in 0..=whole {
        let below = |ids: &mut dyn Iterator<Item = usize>| 1 + ids.map(|id| depths[id]).max().unwrap_or(0);
        let depth = match values.get(id) {
            Value::List(items) => below(&mut items.iter().copied()),
            Value::Map(pairs) => below(&mut pairs.iter().flat_map(|(key, value)| [*key, *value])),
            _ => 0,
        };
        depths.push(depth);
    }
    depths[whole]
}

fn check_dump(bytes: &[u8], frame: Option<&ClientFrame<'_>>) {
    let line = Dump::new(bytes).to_string();
    assert!(line.len() <= LONGEST_LINE, "{} bytes", line.len());
    assert!(!line.contains(char::is_control), "{line:?}");
    let secret = match frame {
        Some(ClientFrame::Auth(auth)) => auth.token.expose().as_bytes(),
        Some(ClientFrame::Reauth { token }) => token.expose().as_bytes(),
        Some(ClientFrame::Publish(publish)) => content(publish.data),
        Some(ClientFrame::Presence { data, .. }) => content(*data),
        _ => return,
    };
    // Each byte is one character, so it is text before and after.
    let Some(at) = place(bytes, secret).filter(|_| secret.is_ascii()) else { return };
    let mut other = bytes.to_vec();
    other[at].iter_mut().for_each(|byte| *byte = if *byte == b'x' { b'y' } else { b'x' });
    assert_eq!(Dump::new(&other).to_string(), line, "a secret shows");
}

/// What stands in a text or binary.
fn content(value: RawValue<'_>) -> &[u8] {
    match value.kind() {
        Kind::Text | Kind::Binary => value.as_binary().unwrap_or_default(),
        _ => &[],
    }
}
