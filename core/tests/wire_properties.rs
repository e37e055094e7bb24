//! What holds for every message, found by generating many.

use bytes::BytesMut;
use nolag_core::{
    SecretStr,
    wire::{
        Auth, AuthReply, ClientFrame, ErrorFrame, Filter, FrameMap, Key, LobbyEvent, LobbyMembers, Message,
        PresenceEntry, PresenceEvent, Publish, QoS, RawValue, RestoredSubscription, ServerFrame, Subscribe,
        Text, WireError,
    },
};
use proptest::{collection::vec, prelude::*, sample::Index};
use rmpv::Value;

/// What the fields of a generated frame are taken from.
#[derive(Debug)]
struct Pool {
    texts: Vec<String>,
    /// Encoded values of every kind.
    values: Vec<Vec<u8>>,
    /// Encoded values that are neither text nor nil, as brokers echo them in place of names.
    odd_names: Vec<Vec<u8>>,
    numbers: Vec<u64>,
    picks: Vec<Index>,
}

/// Takes fields from a pool, one after the other.
struct Draw<'a> {
    pool: &'a Pool,
    at: usize,
}

impl<'a> Draw<'a> {
    fn pick(&mut self) -> &'a Index {
        self.at += 1;
        &self.pool.picks[self.at % self.pool.picks.len()]
    }

    fn one<T>(&mut self, from: &'a [T]) -> &'a T {
        self.pick().get(from)
    }

    fn bool(&mut self) -> bool {
        self.pick().index(2) == 0
    }

    fn some<T>(&mut self, value: T) -> Option<T> {
        self.bool().then_some(value)
    }

    fn str(&mut self) -> &'a str {
        self.one(&self.pool.texts).as_str()
    }

    fn strs(&mut self) -> Vec<&'a str> {
        (0..self.pick().index(4)).map(|_| self.str()).collect()
    }

    fn value(&mut self) -> RawValue<'a> {
        RawValue::parse(self.one(&self.pool.values).as_slice()).expect("a value")
    }

    fn present(&mut self) -> Option<RawValue<'a>> {
        let value = self.value();
        self.some(value).filter(|value| !value.is_nil())
    }

    fn name(&mut self) -> Text<'a> {
        match self.bool() {
            true => Text::Str(self.str()),
            false => {
                Text::Other(RawValue::parse(self.one(&self.pool.odd_names).as_slice()).expect("a value"))
            }
        }
    }

    fn number(&mut self) -> u64 {
        *self.one(&self.pool.numbers)
    }

    fn qos(&mut self) -> Option<QoS> {
        QoS::try_from(self.pick().index(4) as u8).ok()
    }

    fn filters(&mut self) -> Vec<Filter> {
        let mut filter = || match self.bool() {
            true => Filter::from(self.str()),
            false => Filter::All((0..2 + self.pick().index(3)).map(|_| self.str().into()).collect()),
        };
        let (first, second) = (filter(), filter());
        match self.pick().index(3) {
            0 => vec![],
            1 => vec![first],
            _ => vec![first, second],
        }
    }

    fn opt_str(&mut self) -> Option<&'a str> {
        let text = self.str();
        self.some(text)
    }

    fn opt_name(&mut self) -> Option<Text<'a>> {
        let name = self.name();
        self.some(name)
    }

    fn opt_bool(&mut self) -> Option<bool> {
        let value = self.bool();
        self.some(value)
    }

    fn opt_number(&mut self) -> Option<u64> {
        let number = self.number();
        self.some(number)
    }

    fn client_frame(&mut self) -> ClientFrame<'a> {
        match self.pick().index(14) {
            0 => ClientFrame::Ack { msg_id: self.str() },
            1 => ClientFrame::Auth(Auth {
                token: SecretStr::new(self.str()),
                protocol_version: self.opt_number().map(|n| (n as u32).max(1)),
                reconnect: self.bool(),
                client_id: self.opt_str(),
                project_id: self.opt_str(),
                load_balance: self.bool(),
                load_balance_group: self.opt_str(),
            }),
            2 => ClientFrame::BatchAck { msg_ids: self.strs() },
            3 => ClientFrame::GetLobbyPresence { lobby_id: self.str() },
            4 => ClientFrame::GetPresence { room_id: self.opt_str() },
            5 => ClientFrame::Heartbeat,
            6 => ClientFrame::LobbySubscribe { lobby_id: self.str() },
            7 => ClientFrame::LobbyUnsubscribe { lobby_id: self.str() },
            8 => ClientFrame::Presence { room_id: self.opt_str(), data: self.value() },
            9 => ClientFrame::Publish(Publish {
                topic: self.str(),
                data: self.value(),
                qos: self.qos(),
                retain: self.bool(),
                echo: self.bool(),
                filter: self.opt_str(),
                filters: self.strs(),
                msg_ref: self.opt_str().filter(|text| !text.is_empty()),
            }),
            10 => ClientFrame::Reauth { token: SecretStr::new(self.str()) },
            11 => ClientFrame::SetFilters { topic: self.str(), filters: self.filters() },
            12 => ClientFrame::Subscribe(Subscribe {
                topic: self.str(),
                qos: self.qos(),
                filters: self.filters(),
                load_balance: self.bool(),
                load_balance_group: self.opt_str(),
            }),
            _ => ClientFrame::Unsubscribe { topic: self.str() },
        }
    }

    fn server_frame(&mut self) -> ServerFrame<'a> {
        match self.pick().index(19) {
            0 => ServerFrame::Auth(AuthReply {
                success: self.bool(),
                error: self.opt_str(),
                actor_token_id: self.opt_str(),
                project_id: self.opt_str(),
                actor_type: self.opt_str(),
                protocol_version: self.opt_number().map(|n| n as u32),
                restored_subscriptions: Some(self.value()),
            }),
            1 => ServerFrame::Disconnect { reason: self.opt_str() },
            2 => ServerFrame::Error(ErrorFrame {
                error: self.str(),
                code: self.opt_number().map(|n| n as u32),
                topic: self.opt_name(),
                hint: self.opt_str(),
                msg_ref: self.opt_name(),
                max_size_bytes: self.opt_number(),
                detail: self.opt_name(),
                lobby_id: self.opt_name(),
            }),
            3 => ServerFrame::FiltersUpdated { topic: self.name(), filters: self.value() },
            4 => ServerFrame::Heartbeat,
            5 => ServerFrame::Hydration { topic: self.name(), data: self.value() },
            6 => ServerFrame::LobbyPresence(LobbyEvent {
                event: self.str(),
                lobby_id: self.opt_name(),
                room_id: self.opt_name(),
                actor_id: self.opt_str(),
                data: self.value(),
            }),
            7 => ServerFrame::LobbyPresenceList { lobby_id: self.name(), presence: self.value() },
            8 => ServerFrame::LobbySubscribed { lobby_id: self.name(), presence: self.value() },
            9 => ServerFrame::LobbyUnsubscribed { lobby_id: self.name() },
            10 => ServerFrame::Message(Message {
                topic: self.name(),
                data: self.value(),
                msg_id: self.opt_str(),
                requires_ack: self.opt_bool(),
                filter: self.opt_str(),
                is_replay: self.opt_bool(),
                from: self.opt_str(),
                from_type: self.opt_str(),
            }),
            11 => ServerFrame::Presence(PresenceEvent {
                event: self.str(),
                actor_token_id: self.opt_str(),
                presence: Some(self.value()),
                status: self.opt_str(),
                capabilities: Some(self.value()),
                advertisement_version: Some(self.value()),
            }),
            12 => ServerFrame::PresenceList { room_id: self.opt_name(), data: self.value() },
            13 => ServerFrame::Published { topic: self.name(), msg_ref: self.name() },
            14 => ServerFrame::Reauth {
                success: self.bool(),
                error: self.opt_str(),
                auth_expires_at: self.opt_number(),
            },
            15 => ServerFrame::ReplayEnd { replayed: self.number() },
            16 => ServerFrame::ReplayStart {
                count: self.number(),
                oldest_timestamp: self.present(),
                newest_timestamp: self.present(),
            },
            17 => ServerFrame::Subscribed { topic: self.name(), load_balance: self.bool() },
            _ => ServerFrame::Unsubscribed { topic: self.name() },
        }
    }
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    rmpv::encode::write_value(&mut out, value).expect("a vector takes everything");
    out
}

/// Text of every length class and with every kind of character, among it what the protocol itself uses.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        vec(any::<char>(), 0..400).prop_map(String::from_iter),
        prop::sample::select(vec!["", "type", "auth", "#", "\0", "a/b/c", "null", "\u{14}", "🚢"])
            .prop_map(String::from),
    ]
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
        vec(any::<u8>(), 0..300).prop_map(Value::from),
        (any::<i8>(), vec(any::<u8>(), 0..40)).prop_map(|(kind, bytes)| Value::Ext(kind, bytes)),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 24, 20, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..20).prop_map(Value::Array),
            vec((inner.clone(), inner), 0..20).prop_map(Value::Map),
        ]
    })
}

fn pool() -> impl Strategy<Value = Pool> {
    let odd = scalar().prop_filter("text and nil are ordinary", |value| !value.is_str() && !value.is_nil());
    (
        vec(text(), 1..8),
        vec(value().prop_map(|value| encoded(&value)), 1..4),
        vec(odd.prop_map(|value| encoded(&value)), 1..4),
        vec(prop_oneof![any::<u64>(), 0..300u64], 1..4),
        vec(any::<Index>(), 30),
    )
        .prop_map(|(texts, values, odd_names, numbers, picks)| Pool {
            texts,
            values,
            odd_names,
            numbers,
            picks,
        })
}

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
