//! The tricky places of the wire format, one example each.

use bytes::BytesMut;
use nolag_core::{
    SecretStr,
    wire::{
        Auth, ClientFrame, ErrorFrame, Filter, FrameError, FrameMap, Key, LobbyMembers, Message,
        PresenceEntry, PresenceEvent, Publish, QoS, RawValue, RestoredFrom, RestoredSubscription,
        ServerFrame, Subscribe, Text, WireError, canonical_group,
    },
};
use rmpv::Value;

/// A map from text keys.
fn map(pairs: &[(&str, Value)]) -> Value {
    Value::Map(pairs.iter().map(|(key, value)| (Value::from(*key), value.clone())).collect())
}

fn list(items: &[Value]) -> Value {
    Value::Array(items.to_vec())
}

fn binary(bytes: &[u8]) -> Value {
    Value::Binary(bytes.to_vec())
}

fn bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    rmpv::encode::write_value(&mut out, value).expect("a vector takes everything");
    out
}

fn frame(frame_type: &str, pairs: &[(&str, Value)]) -> Vec<u8> {
    let mut all = vec![("type", Value::from(frame_type))];
    all.extend_from_slice(pairs);
    bytes(&map(&all))
}

fn encode_client(frame: &ClientFrame<'_>) -> Vec<u8> {
    let mut out = BytesMut::new();
    frame.encode(&mut out);
    out.to_vec()
}

fn encode_server(frame: &ServerFrame<'_>) -> Vec<u8> {
    let mut out = BytesMut::new();
    frame.encode(&mut out);
    out.to_vec()
}

#[test]
fn the_empty_message_is_the_heartbeat_in_both_directions() {
    assert_eq!(ServerFrame::decode(&[]), Ok(ServerFrame::Heartbeat));
    assert_eq!(ClientFrame::decode(&[]), Ok(ClientFrame::Heartbeat));
    assert!(encode_server(&ServerFrame::Heartbeat).is_empty());
    assert!(encode_client(&ClientFrame::Heartbeat).is_empty());
}

#[test]
fn replay_end_is_read_in_both_spellings_and_written_as_brokers_do() {
    let replayed = frame("replayEnd", &[("replayed", 3.into())]);
    let count = frame("replayEnd", &[("count", 3.into())]);
    let both = frame("replayEnd", &[("count", 9.into()), ("replayed", 3.into())]);
    for message in [&replayed, &count, &both] {
        assert_eq!(ServerFrame::decode(message), Ok(ServerFrame::ReplayEnd { replayed: 3 }));
    }
    assert_eq!(encode_server(&ServerFrame::ReplayEnd { replayed: 3 }), replayed);
}

#[test]
fn presence_events_are_read_in_both_spellings() {
    for spelling in ["actor_token_id", "actorTokenId"] {
        let data = map(&[(spelling, "act-1".into()), ("presence", Value::Nil)]);
        let message = frame("presence", &[("event", "update".into()), ("data", data)]);
        let Ok(ServerFrame::Presence(event)) = ServerFrame::decode(&message) else { panic!("{spelling}") };
        assert_eq!((event.event, event.actor_token_id), ("update", Some("act-1")));
        assert_eq!(event.presence, Some(RawValue::NIL), "a nil presence is not an absent one");
    }
}

#[test]
fn a_leave_has_no_presence_and_odd_event_data_is_survived() {
    let data = map(&[("actor_token_id", "act-1".into())]);
    let message = frame("presence", &[("event", "leave".into()), ("data", data)]);
    let Ok(ServerFrame::Presence(event)) = ServerFrame::decode(&message) else { panic!() };
    assert_eq!((event.actor_token_id, event.presence), (Some("act-1"), None));
    assert_eq!(encode_server(&ServerFrame::Presence(event)), message);

    for data in [Value::Nil, "text".into(), list(&[1.into()])] {
        let message = frame("presence", &[("event", "join".into()), ("data", data)]);
        let nobody = PresenceEvent {
            event: "join",
            actor_token_id: None,
            presence: None,
            status: None,
            capabilities: None,
            advertisement_version: None,
        };
        assert_eq!(ServerFrame::decode(&message), Ok(ServerFrame::Presence(nobody)));
    }
}

#[test]
fn presence_lists_hold_online_and_offline_members_in_both_spellings() {
    let data = bytes(&list(&[
        map(&[
            ("actorTokenId", "a".into()),
            ("presence", map(&[("on", true.into())])),
            ("joinedAt", 1_796_063_538.into()),
            ("status", "online".into()),
        ]),
        map(&[("actor_token_id", "b".into()), ("status", "offline".into())]),
        "not a member".into(),
        map(&[("presence", "of nobody".into())]),
    ]));
    let members: Vec<PresenceEntry<'_>> =
        PresenceEntry::parse_list(RawValue::parse(&data).unwrap()).collect();
    let [a, b] = members.as_slice() else { panic!("{members:?}") };
    assert_eq!((a.actor_token_id, a.joined_at, a.status), ("a", Some(1_796_063_538), Some("online")));
    assert_eq!(a.presence.as_bytes(), bytes(&map(&[("on", true.into())])));
    assert_eq!((b.actor_token_id, b.joined_at, b.status), ("b", None, Some("offline")));
    assert!(b.presence.is_nil());
}

#[test]
fn lobby_snapshots_are_rooms_of_members() {
    let entry =
        |actor: &str| map(&[("actorTokenId", actor.into()), ("presence", 1.into()), ("joinedAt", 2.into())]);
    let presence = bytes(&map(&[
        ("empty", map(&[])),
        ("quay", map(&[("a", entry("a")), ("b", entry("b"))])),
        ("odd", 5.into()),
    ]));
    let rooms: Vec<_> = LobbyMembers(RawValue::parse(&presence).unwrap()).rooms().collect();
    let names: Vec<_> = rooms
        .iter()
        .map(|(room, members)| {
            (*room, members.iter().map(|member| member.actor_token_id).collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(names, [("empty", vec![]), ("quay", vec!["a", "b"])]);
}

#[test]
fn restored_subscriptions_are_read_in_every_shape() {
    let restored = bytes(&list(&[
        // A plain string.
        "app/room/plain".into(),
        // What a broker remembered.
        map(&[
            ("topic", "app/room/remembered".into()),
            ("filters", list(&["vip".into(), list(&["b".into(), "A".into()])])),
            ("qos", 2.into()),
            ("loadBalance", true.into()),
            ("loadBalanceGroup", "movers".into()),
        ]),
        // A control plane: `topic` is internal.
        map(&[
            ("pattern", "app/room/pattern".into()),
            ("topic", "id-1/id-2/id-3".into()),
            ("load_balance", true.into()),
            ("load_balance_group", "prj_app_movers".into()),
            ("filters", list(&["crane-07".into()])),
        ]),
        // The old form.
        map(&[("name", "app/room/name".into()), ("loadBalance", false.into())]),
        // Nothing is the same as nothing.
        map(&[
            ("pattern", Value::Nil),
            ("topic", "app/room/nil".into()),
            ("filters", Value::Nil),
            ("qos", 9.into()),
        ]),
        // Filters that are none cannot be compared with ours.
        map(&[("topic", "app/room/odd".into()), ("filters", list(&[7.into()]))]),
        // No topic at all.
        map(&[("filters", list(&[]))]),
        7.into(),
    ]));
    let message = |topic, origin| RestoredSubscription {
        topic,
        qos: None,
        filters: vec![],
        load_balance: false,
        load_balance_group: None,
        origin,
    };
    let expected = [
        message("app/room/plain", RestoredFrom::Plain),
        RestoredSubscription {
            qos: Some(QoS::ExactlyOnce),
            filters: vec!["vip".into(), Filter::All(vec!["b".into(), "A".into()])],
            load_balance: true,
            load_balance_group: Some("movers"),
            ..message("app/room/remembered", RestoredFrom::Topic)
        },
        RestoredSubscription {
            filters: vec!["crane-07".into()],
            load_balance: true,
            load_balance_group: Some("prj_app_movers"),
            ..message("app/room/pattern", RestoredFrom::Pattern)
        },
        message("app/room/name", RestoredFrom::Name),
        message("app/room/nil", RestoredFrom::Topic),
    ];
    let read: Vec<_> = RestoredSubscription::parse_list(RawValue::parse(&restored).unwrap()).collect();
    assert_eq!(read, expected);
}

#[test]
fn integers_echoed_in_place_of_names_are_kept() {
    let seven = RawValue::parse(&[7]).unwrap();
    let frames = [
        (
            frame("unsubscribed", &[("topic", 7.into())]),
            ServerFrame::Unsubscribed { topic: Text::Other(seven) },
        ),
        (
            frame("error", &[("error", "not_subscribed".into()), ("topic", 7.into())]),
            ServerFrame::Error(ErrorFrame {
                error: "not_subscribed",
                topic: Some(Text::Other(seven)),
                ..ErrorFrame::default()
            }),
        ),
        (
            frame("lobbyUnsubscribed", &[("lobbyId", 7.into())]),
            ServerFrame::LobbyUnsubscribed { lobby_id: Text::Other(seven) },
        ),
        (
            frame("presenceList", &[("roomId", 7.into()), ("data", list(&[]))]),
            ServerFrame::PresenceList { room_id: Some(Text::Other(seven)), data: RawValue::EMPTY_LIST },
        ),
    ];
    for (message, expected) in &frames {
        assert_eq!(ServerFrame::decode(message).as_ref(), Ok(expected));
        assert_eq!(&encode_server(expected), message);
    }
}

#[test]
fn bin_is_read_as_text_where_text_belongs() {
    let message = bytes(&Value::Map(vec![
        (binary(b"type"), binary(b"subscribe")),
        ("topic".into(), binary(b"a/b/c")),
        ("filters".into(), list(&[binary(b"vip")])),
    ]));
    let expected = Subscribe { topic: "a/b/c", filters: vec!["vip".into()], ..Subscribe::default() };
    assert_eq!(ClientFrame::decode(&message), Ok(ClientFrame::Subscribe(expected)));

    let message =
        frame("message", &[("topic", binary(b"a/b/c")), ("data", binary(b"x")), ("msgId", binary(b"m"))]);
    let Ok(ServerFrame::Message(message)) = ServerFrame::decode(&message) else { panic!() };
    assert_eq!((message.topic.as_str(), message.msg_id), (Some("a/b/c"), Some("m")));
    assert_eq!(message.data.as_bytes(), bytes(&binary(b"x")), "payloads keep their kind");
}

#[test]
fn bytes_that_are_not_utf8_never_become_text() {
    let message = frame("subscribe", &[("topic", binary(&[0xff]))]);
    assert_eq!(ClientFrame::decode(&message), Err(FrameError::WrongType(Key::Topic)));
    let message = frame("unsubscribed", &[("topic", binary(&[0xff]))]);
    let Ok(ServerFrame::Unsubscribed { topic }) = ServerFrame::decode(&message) else { panic!() };
    assert_eq!(topic.as_str(), None);
    let payload = b"\x83\xa4type\xa7message\xa5topic\xa1t\xa4data\xa2o\xff";
    let Ok(ServerFrame::Message(message)) = ServerFrame::decode(payload) else { panic!() };
    assert_eq!((message.data.as_str(), message.data.as_binary()), (None, Some(&b"o\xff"[..])));
}

#[test]
fn extensions_are_found_at_any_depth() {
    let extension = || Value::Ext(-1, vec![0, 0, 0, 1]);
    let find = |value: &Value| RawValue::parse(&bytes(value)).unwrap().find_extension();
    assert_eq!(find(&extension()), Some(0));
    assert_eq!(find(&list(&["a".into(), list(&[extension()])])), Some(4));
    assert_eq!(find(&Value::Map(vec![(extension(), 1.into())])), Some(1), "also as a key");
    assert_eq!(
        find(&list(&[binary(&[0xd6; 40]), "\u{00d6}".into()])),
        None,
        "bytes inside bin are not markers"
    );
    for (len, head) in [(1, 2), (2, 2), (4, 2), (8, 2), (16, 2), (3, 3), (300, 4), (70_000, 6)] {
        let value = bytes(&list(&[Value::Ext(5, vec![0xc1; len])]));
        assert_eq!(value.len(), 1 + head + len);
        assert_eq!(RawValue::parse(&value).unwrap().find_extension(), Some(1), "ext of {len} bytes");
    }
    let mut deep = vec![0x91; 10_000];
    deep.extend_from_slice(&[0xd4, 0x05, 0x00]);
    assert_eq!(RawValue::parse(&deep).unwrap().find_extension(), Some(10_000));
}

#[test]
fn groups_are_lower_cased_sorted_and_joined_and_values_are_not() {
    let group = |values: &[&str]| Filter::All(values.iter().map(|value| (*value).into()).collect());
    assert_eq!(group(&["B", "a"]).canonical(), "a|b");
    assert_eq!(group(&["b", "A"]).canonical(), group(&["B", "a"]).canonical());
    assert_eq!(group(&["a", "a"]).canonical(), "a|a", "repeated members stay");
    assert_eq!(group(&["é", "z", "Ä"]).canonical(), "z|ä|é", "sorted by bytes");
    assert_eq!(Filter::from("Vip").canonical(), "Vip");
    assert_eq!(canonical_group(["Vip"].into_iter()), "vip", "a publish with one of `filters`");
    assert_eq!(canonical_group(["ΟΔΟΣ"].into_iter()), "οδοσ", "no final sigma, as in Erlang");
}

#[test]
fn filter_lists_keep_case_order_and_groups() {
    let filters = vec![Filter::from("Vip"), Filter::All(vec!["B".into(), "a".into()])];
    let message = encode_client(&ClientFrame::SetFilters { topic: "t", filters: filters.clone() });
    let written = list(&["Vip".into(), list(&["B".into(), "a".into()])]);
    assert_eq!(message, frame("setFilters", &[("topic", "t".into()), ("filters", written)]));
    assert_eq!(ClientFrame::decode(&message), Ok(ClientFrame::SetFilters { topic: "t", filters }));
    for bad in [list(&[list(&["alone".into()])]), list(&[7.into()]), "fog".into()] {
        let message = frame("subscribe", &[("topic", "t".into()), ("filters", bad)]);
        assert_eq!(ClientFrame::decode(&message), Err(FrameError::WrongType(Key::Filters)));
    }
}

#[test]
fn invalid_filters_are_found_inside_groups() {
    let group = |values: &[&str]| Filter::All(values.iter().map(|value| (*value).into()).collect());
    assert_eq!(Filter::from("berth 4:b").invalid_value(), None);
    assert_eq!(Filter::from("").invalid_value(), Some(""));
    assert_eq!(group(&["a", "b"]).invalid_value(), None);
    assert_eq!(group(&["a"]).invalid_value(), Some("a"));
    for bad in ["a/b", "#", "+", "a|b"] {
        assert_eq!(Filter::from(bad).invalid_value(), Some(bad));
        assert_eq!(group(&["ok", bad]).invalid_value(), Some(bad));
    }
}

#[test]
fn defaults_are_not_written() {
    let publish = ClientFrame::Publish(Publish::new("t", RawValue::NIL));
    assert_eq!(encode_client(&publish), frame("publish", &[("topic", "t".into()), ("data", Value::Nil)]));
    let subscribe = ClientFrame::Subscribe(Subscribe { topic: "t", ..Subscribe::default() });
    assert_eq!(encode_client(&subscribe), frame("subscribe", &[("topic", "t".into())]));
    let auth = ClientFrame::Auth(Auth { token: SecretStr::new("s"), ..Auth::default() });
    assert_eq!(encode_client(&auth), frame("auth", &[("token", "s".into())]));
    let presence = ClientFrame::GetPresence { room_id: None };
    assert_eq!(encode_client(&presence), frame("getPresence", &[]));
    let clear = ClientFrame::SetFilters { topic: "t", filters: vec![] };
    let written = frame("setFilters", &[("topic", "t".into()), ("filters", list(&[]))]);
    assert_eq!(encode_client(&clear), written, "an empty list is what setFilters is about");
}

#[test]
fn written_out_defaults_mean_the_same_as_absent_fields() {
    let message = frame(
        "publish",
        &[
            ("topic", "t".into()),
            ("data", 1.into()),
            ("retain", false.into()),
            ("echo", true.into()),
            ("filter", Value::Nil),
            ("filters", list(&[])),
            ("msgRef", Value::Nil),
            ("qos", Value::Nil),
            ("unknown", 1.into()),
        ],
    );
    let one = RawValue::parse(&[1]).unwrap();
    assert_eq!(ClientFrame::decode(&message), Ok(ClientFrame::Publish(Publish::new("t", one))));
}

#[test]
fn client_fields_of_the_wrong_type_or_range_are_refused_by_name() {
    let refused =
        |frame_type, pairs: &[(&str, Value)]| ClientFrame::decode(&frame(frame_type, pairs)).unwrap_err();
    let topic = ("topic", Value::from("t"));
    assert_eq!(refused("subscribe", &[]), FrameError::Missing(Key::Topic));
    assert_eq!(refused("subscribe", &[("topic", 7.into())]), FrameError::WrongType(Key::Topic));
    assert_eq!(refused("subscribe", &[topic.clone(), ("qos", 3.into())]), FrameError::OutOfRange(Key::Qos));
    assert_eq!(
        refused("subscribe", &[topic.clone(), ("qos", (-1).into())]),
        FrameError::OutOfRange(Key::Qos)
    );
    assert_eq!(refused("subscribe", &[topic.clone(), ("qos", 1.0.into())]), FrameError::WrongType(Key::Qos));
    assert_eq!(refused("publish", std::slice::from_ref(&topic)), FrameError::Missing(Key::Data));
    let data = ("data", Value::Nil);
    let publish = |field: (&str, Value)| refused("publish", &[topic.clone(), data.clone(), field]);
    assert_eq!(publish(("msgRef", "".into())), FrameError::OutOfRange(Key::MsgRef));
    assert_eq!(publish(("msgRef", 1.into())), FrameError::WrongType(Key::MsgRef));
    assert_eq!(publish(("echo", 0.into())), FrameError::WrongType(Key::Echo));
    let token = ("token", Value::from("s"));
    let version = |n: Value| refused("auth", &[token.clone(), ("protocolVersion", n)]);
    assert_eq!(version(0.into()), FrameError::OutOfRange(Key::ProtocolVersion));
    assert_eq!(version("2".into()), FrameError::WrongType(Key::ProtocolVersion));
    assert_eq!(refused("setFilters", std::slice::from_ref(&topic)), FrameError::Missing(Key::Filters));
    assert_eq!(refused("batchAck", &[("msgIds", Value::Nil)]), FrameError::WrongType(Key::MsgIds));
    assert_eq!(refused("SUBSCRIBE", &[topic]), FrameError::UnknownType("SUBSCRIBE".into()));
}

#[test]
fn broker_frames_with_odd_fields_are_still_read() {
    let message = frame(
        "message",
        &[
            ("topic", "t".into()),
            ("data", 1.into()),
            ("msgId", 5.into()),
            ("filter", Value::Nil),
            ("new", 1.into()),
        ],
    );
    let expected = Message {
        topic: "t".into(),
        data: RawValue::parse(&[1]).unwrap(),
        msg_id: None,
        requires_ack: None,
        filter: None,
        is_replay: None,
        from: None,
        from_type: None,
    };
    assert_eq!(ServerFrame::decode(&message), Ok(ServerFrame::Message(expected)));
    let message = frame("from-the-future", &[("x", 1.into())]);
    assert_eq!(ServerFrame::decode(&message), Ok(ServerFrame::Unknown { frame_type: "from-the-future" }));
}

#[test]
fn messages_that_are_not_one_map_with_a_type_are_refused() {
    let refused = |bytes: &[u8]| ServerFrame::decode(bytes).unwrap_err();
    assert_eq!(refused(&[0xc1]), WireError::Reserved { offset: 0 });
    assert_eq!(refused(&[0x80, 0x80]), WireError::Trailing { offset: 1 });
    assert_eq!(refused(b"\x82\xa4type"), WireError::Truncated { offset: 6 });
    assert_eq!(refused(&[0xdf, 0xff, 0xff, 0xff, 0xff]), WireError::Truncated { offset: 5 });
    assert_eq!(refused(&[0x93, 1, 2, 3]), WireError::NotAMap);
    assert_eq!(refused(&[0x80]), WireError::NoType);
    assert_eq!(refused(b"\x81\xa4type\x07"), WireError::NoType);
}

#[test]
fn of_repeated_keys_the_last_counts() {
    let message = b"\x84\xa5topic\xa1a\xa4type\xa9subscribe\xc4\x04type\xabunsubscribe\xa5topic\xa1b";
    assert_eq!(ClientFrame::decode(message), Ok(ClientFrame::Unsubscribe { topic: "b" }));
    let map = FrameMap::parse(message).unwrap();
    assert_eq!((map.str(Key::Type), map.str(Key::Topic)), (Some("unsubscribe"), Some("b")));
}

#[test]
fn payload_maps_with_any_kind_of_key_are_kept() {
    let payload = Value::Map(vec![
        (1.into(), "integer".into()),
        (Value::Nil, "nil".into()),
        ("".into(), "empty".into()),
        (list(&[]), "list".into()),
    ]);
    let message = frame("message", &[("topic", "t".into()), ("data", payload.clone())]);
    let Ok(ServerFrame::Message(message)) = ServerFrame::decode(&message) else { panic!() };
    assert_eq!(message.data.as_bytes(), bytes(&payload));
    assert_eq!(message.data.entries().unwrap().count(), 4);
}
