//! What holds for every message, found by generating many.

#[path = "support/frames.rs"]
mod frames;

use bytes::BytesMut;
use frames::{Draw, encoded, pool, scalar, text, value};
use nolag_core::{
    SecretStr,
    wire::{
        Auth, ClientFrame, Filter, FrameMap, Key, LobbyMembers, PresenceEntry, RawValue,
        RestoredSubscription, ServerFrame, WireError,
    },
};
use proptest::{collection::vec, prelude::*, sample::Index};
use rmpv::Value;

/// Some of the keys: of many lengths, and that begin or end alike.
const SOME_KEYS: [Key; 14] = [
    Key::Type,
    Key::Topic,
    Key::Token,
    Key::Data,
    Key::From,
    Key::FromType,
    Key::Filter,
    Key::Filters,
    Key::MsgId,
    Key::MsgIds,
    Key::MsgRef,
    Key::LoadBalance,
    Key::LoadBalanceGroup,
    Key::ActorTokenId,
];

/// Bytes that look like frames more often than chance would have it.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let frame = pool().prop_map(|pool| {
        let mut out = BytesMut::new();
        let mut draw = Draw { pool: &pool, at: 0 };
        match draw.bool() {
            true => draw.client_frame().encode(&mut out),
            false => draw.server_frame().encode(&mut out),
        }
        out.to_vec()
    });
    let damaged = (frame, vec((any::<Index>(), any::<u8>()), 0..4), any::<Index>(), any::<bool>());
    let damaged = damaged.prop_map(|(mut bytes, damage, cut, whole)| {
        for (at, byte) in damage {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        bytes.truncate(if whole { bytes.len() } else { cut.index(bytes.len() + 1) });
        bytes
    });
    prop_oneof![vec(any::<u8>(), 0..200), damaged]
}

/// Walks everything that can be read from a value, and returns how many steps that took.
fn walk(value: RawValue<'_>) -> usize {
    let mut steps = 0;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        steps += 1;
        let _ = (
            value.as_bool(),
            value.as_str(),
            value.as_binary(),
            value.as_i64(),
            value.as_u64(),
            value.as_f64(),
        );
        open.extend(value.items().into_iter().flatten());
        open.extend(value.entries().into_iter().flatten().flat_map(|(key, value)| [key, value]));
        steps += PresenceEntry::parse_list(value).count();
        steps += RestoredSubscription::parse_list(value).count();
        steps += LobbyMembers(value).rooms().count();
        let _ = (Filter::parse_list(value), value.find_extension(), format!("{value:?}"));
    }
    steps
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in message()) {
        let client = ClientFrame::decode(&bytes);
        let server = ServerFrame::decode(&bytes);
        let _ = format!("{client:?} {server:?}");
        if let Ok(value) = RawValue::parse(&bytes) {
            // Every step consumes at least one byte, once as a value and at most thrice as an entry of a view.
            prop_assert!(walk(value) <= 4 * bytes.len());
        }
        if let Ok((value, rest)) = RawValue::split_first(&bytes) {
            prop_assert_eq!(value.as_bytes().len() + rest.len(), bytes.len());
            prop_assert!(!value.as_bytes().is_empty());
        }
    }

    #[test]
    fn what_the_client_side_accepts_it_writes_again(bytes in message()) {
        if let Ok(frame) = ClientFrame::decode(&bytes) {
            let mut out = BytesMut::new();
            frame.encode(&mut out);
            prop_assert_eq!(ClientFrame::decode(&out), Ok(frame));
        }
    }

    /// A frame is read in one go; it is one exactly when its bytes are one value, and that is a map.
    #[test]
    fn a_frame_is_a_value_that_is_a_map(bytes in message()) {
        match (RawValue::parse(&bytes), FrameMap::parse(&bytes)) {
            (Ok(value), Ok(map)) => {
                let again = FrameMap::from_value(value).expect("a map");
                prop_assert_eq!(format!("{map:?}"), format!("{again:?}"));
                for (key, _) in value.entries().into_iter().flatten() {
                    let last = value.entries().into_iter().flatten().filter(|(other, _)| other.as_str() == key.as_str()).last();
                    let known = SOME_KEYS.into_iter().find(|known| Some(known.as_str()) == key.as_str());
                    let expected = last.map(|(_, value)| value);
                    prop_assert!(known.is_none_or(|known| map.get(known) == expected), "{:?}", key.as_str());
                }
            }
            (Ok(value), Err(error)) => {
                prop_assert_eq!((value.entries().is_none(), error), (true, WireError::NotAMap));
            }
            (Err(_), parsed) => prop_assert!(parsed.is_err()),
        }
    }

    #[test]
    fn client_frames_come_back_as_they_were(pool in pool()) {
        let frame = Draw { pool: &pool, at: 0 }.client_frame();
        let mut out = BytesMut::new();
        frame.encode(&mut out);
        prop_assert_eq!(ClientFrame::decode(&out), Ok(frame));
    }

    #[test]
    fn server_frames_come_back_as_they_were(pool in pool()) {
        let frame = Draw { pool: &pool, at: 0 }.server_frame();
        let mut out = BytesMut::new();
        frame.encode(&mut out);
        prop_assert_eq!(ServerFrame::decode(&out), Ok(frame));
    }

    #[test]
    fn frames_are_appended(pool in pool(), before in vec(any::<u8>(), 0..20)) {
        let mut draw = Draw { pool: &pool, at: 0 };
        let (client, server) = (draw.client_frame(), draw.server_frame());
        let (mut alone, mut after) = (BytesMut::new(), BytesMut::from(before.as_slice()));
        client.encode(&mut alone);
        server.encode(&mut alone);
        client.encode(&mut after);
        server.encode(&mut after);
        prop_assert_eq!(&after[before.len()..], &alone[..]);
    }

    #[test]
    fn values_are_accepted_exactly_when_rmpv_accepts_them(
        bytes in prop_oneof![vec(any::<u8>(), 0..40), value().prop_map(|value| encoded(&value))],
        damage in prop::option::of((any::<Index>(), any::<u8>())),
    ) {
        let mut bytes = bytes;
        if let (Some((at, byte)), false) = (damage, bytes.is_empty()) {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut rest = bytes.as_slice();
        let theirs = rmpv::decode::read_value(&mut rest).is_ok() && rest.is_empty();
        match RawValue::parse(&bytes) {
            // rmpv reads the reserved byte as nil.
            Err(WireError::Reserved { offset }) => prop_assert_eq!(bytes[offset], 0xc1),
            ours => prop_assert_eq!(ours.is_ok(), theirs, "{:?}", ours),
        }
    }

    #[test]
    fn a_value_cut_short_or_followed_by_more_is_refused(value in value(), cut in any::<Index>(), more in any::<u8>()) {
        let mut bytes = encoded(&value);
        let short = &bytes[..cut.index(bytes.len())];
        let refused = RawValue::parse(short);
        prop_assert!(matches!(refused, Err(WireError::Truncated { .. })), "{:?}", refused);
        let offset = bytes.len();
        bytes.push(more);
        prop_assert_eq!(RawValue::parse(&bytes), Err(WireError::Trailing { offset }));
        prop_assert_eq!(RawValue::split_first(&bytes).map(|(_, rest)| rest), Ok(&[more][..]));
    }

    #[test]
    fn numbers_and_texts_are_read_as_rmpv_reads_them(value in scalar()) {
        let bytes = encoded(&value);
        let raw = RawValue::parse(&bytes).expect("a value");
        prop_assert_eq!(raw.as_bool(), value.as_bool());
        prop_assert_eq!(raw.as_i64(), value.as_i64());
        prop_assert_eq!(raw.as_u64(), value.as_u64());
        prop_assert_eq!(raw.is_nil(), value.is_nil());
        let float = match value { Value::F32(n) => Some(n.into()), Value::F64(n) => Some(n), _ => None };
        prop_assert_eq!(raw.as_f64().map(f64::to_bits), float.map(f64::to_bits));
        match &value {
            Value::String(text) => prop_assert_eq!(raw.as_str(), text.as_str()),
            Value::Binary(bytes) => {
                prop_assert_eq!(raw.as_binary(), Some(bytes.as_slice()));
                prop_assert_eq!(raw.as_str(), std::str::from_utf8(bytes).ok());
            }
            _ => prop_assert_eq!(raw.as_binary(), None),
        }
    }

    #[test]
    fn extensions_are_found_exactly_when_there_are_any(value in value()) {
        fn holds_extension(value: &Value) -> bool {
            match value {
                Value::Ext(..) => true,
                Value::Array(items) => items.iter().any(holds_extension),
                Value::Map(pairs) => pairs.iter().any(|(key, value)| holds_extension(key) || holds_extension(value)),
                _ => false,
            }
        }
        let bytes = encoded(&value);
        let found = RawValue::parse(&bytes).expect("a value").find_extension();
        prop_assert_eq!(found.is_some(), holds_extension(&value));
    }

    #[test]
    fn of_repeated_keys_the_last_counts(topics in vec(text(), 1..6), unknown in text()) {
        let mut pairs = vec![(Value::from("type"), Value::from("unsubscribe"))];
        for topic in &topics {
            pairs.push(("topic".into(), topic.as_str().into()));
            // A prefix keeps the generated key from being a known one.
            pairs.push((format!("?{unknown}").into(), "x".into()));
        }
        let bytes = encoded(&Value::Map(pairs));
        let topic = topics.last().expect("one").as_str();
        prop_assert_eq!(ClientFrame::decode(&bytes), Ok(ClientFrame::Unsubscribe { topic }));
        prop_assert_eq!(FrameMap::parse(&bytes).expect("a map").str(Key::Topic), Some(topic));
    }

    #[test]
    fn debug_shows_no_token(pool in pool(), secret in "[A-Za-z0-9_-]{16,60}") {
        let draw = || Draw { pool: &pool, at: 0 };
        let token = SecretStr::new(&secret);
        let auth = Auth { token, client_id: draw().opt_str(), reconnect: draw().bool(), ..Auth::default() };
        for frame in [ClientFrame::Auth(auth), ClientFrame::Reauth { token }] {
            let mut out = BytesMut::new();
            frame.encode(&mut out);
            let map = FrameMap::parse(&out).expect("a map");
            let shown = format!("{frame:?} {:?} {map:?} {map:#?} {:?}", ClientFrame::decode(&out), ServerFrame::decode(&out));
            prop_assert!(!shown.contains(&secret), "{}", shown);
        }
        // Nor does a payload that happens to carry one.
        let data = encoded(&Value::from(secret.as_str()));
        let data = RawValue::parse(&data).expect("a value");
        let frame = ClientFrame::Presence { room_id: None, data };
        let shown = format!("{frame:?}");
        prop_assert!(!shown.contains(&secret), "{}", shown);
    }
}

/// A message of type `message` around raw bytes of `data`.
fn message_around(data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x83\xa4type\xa7message\xa5topic\xa1t\xa4data".to_vec();
    bytes.extend_from_slice(data);
    bytes
}

#[test]
fn a_million_levels_of_nesting_are_skipped_without_a_stack() {
    for opening in [&[0x91][..], &[0x81, 0x01], &[0xdd, 0, 0, 0, 1], &[0xde, 0, 1, 0xc0]] {
        let mut data = opening.repeat(1_000_000);
        data.push(0xc0);
        let bytes = message_around(&data);
        let Ok(ServerFrame::Message(message)) = ServerFrame::decode(&bytes) else { panic!("{opening:?}") };
        assert_eq!(message.data.as_bytes(), data);
        assert_eq!(message.data.find_extension(), None);
        assert_eq!(
            RawValue::parse(&data[..data.len() - 1]),
            Err(WireError::Truncated { offset: data.len() - 1 })
        );
        assert!(ClientFrame::decode(&bytes).is_err(), "clients send no messages");
    }
}

#[test]
fn lengths_that_the_message_cannot_hold_are_refused_at_once() {
    let bombs: &[&[u8]] = &[
        &[0xdd, 0xff, 0xff, 0xff, 0xff],
        &[0xdf, 0xff, 0xff, 0xff, 0xff],
        &[0xc6, 0xff, 0xff, 0xff, 0xff],
        &[0xdb, 0xff, 0xff, 0xff, 0xff],
        &[0xc9, 0xff, 0xff, 0xff, 0xff, 0x01],
        &[0xdc, 0xff, 0xff],
        &[0xde, 0xff, 0xff],
        &[0xc5, 0xff, 0xff],
        // Each level alone fits, together they do not.
        &[0xdd, 0x00, 0x00, 0x00, 0x02, 0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0],
    ];
    for bomb in bombs {
        assert!(matches!(RawValue::parse(bomb), Err(WireError::Truncated { .. })), "{bomb:02x?}");
        assert!(matches!(FrameMap::parse(bomb), Err(WireError::Truncated { .. })), "{bomb:02x?}");
        let message = message_around(bomb);
        assert!(matches!(ServerFrame::decode(&message), Err(WireError::Truncated { .. })), "{bomb:02x?}");
    }
    let mut deep = [0xdd, 0xff, 0xff, 0xff, 0xff].repeat(200_000);
    deep.push(0xc0);
    assert!(matches!(RawValue::parse(&deep), Err(WireError::Truncated { .. })));
}
