//! A frame as one line: what shows, and what never does.

use bytes::BytesMut;
use nolag_core::{
    SecretStr,
    wire::{
        Auth, AuthReply, ClientFrame, Dump, ErrorFrame, Filter, LobbyEvent, Message, PresenceEvent, Publish,
        QoS, RawValue, ServerFrame, Subscribe, Text,
    },
};
use proptest::{collection::vec, prelude::*, sample::Index, test_runner::Config as Cases};
use rmpv::Value;

const TOKEN: &str = "at_live_0123456789ab.5ecret5ecret5ecret5ecret";
const PAYLOAD: &str = "confidential";

/// Most bytes of a line, as documented.
const MAX_LINE: usize = 2048;

fn bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    rmpv::encode::write_value(&mut out, value).expect("a vector takes everything");
    out
}

fn map(pairs: &[(&str, Value)]) -> Value {
    Value::Map(pairs.iter().map(|(key, value)| (Value::from(*key), value.clone())).collect())
}

fn list(items: &[&str]) -> Value {
    Value::Array(items.iter().map(|item| Value::from(*item)).collect())
}

fn shown(value: &Value) -> String {
    Dump::new(&bytes(value)).to_string()
}

/// `{"text": "confidential"}`, 19 bytes.
fn payload() -> Vec<u8> {
    bytes(&map(&[("text", PAYLOAD.into())]))
}

/// Every frame that clients send, with every field, and its line.
fn client_frames(payload: RawValue<'_>) -> Vec<(ClientFrame<'_>, &'static str)> {
    let topic = "demo/general/chat";
    let filters = vec![Filter::from("vip"), Filter::All(vec!["b".into(), "A".into()])];
    let auth = Auth {
        token: SecretStr::new(TOKEN),
        protocol_version: Some(2),
        reconnect: true,
        client_id: Some("crane-7"),
        project_id: Some("prj"),
        load_balance: true,
        load_balance_group: Some("movers"),
    };
    let publish = Publish {
        qos: Some(QoS::AtMostOnce),
        retain: true,
        echo: false,
        filter: Some("vip"),
        filters: vec!["a", "b"],
        msg_ref: Some("7"),
        ..Publish::new(topic, payload)
    };
    let subscribe = Subscribe {
        topic,
        qos: Some(QoS::ExactlyOnce),
        filters: filters.clone(),
        load_balance: true,
        load_balance_group: Some("movers"),
    };
    vec![
        (ClientFrame::Ack { msg_id: "m-1" }, r#"ack msgId="m-1""#),
        (
            ClientFrame::Auth(auth),
            r#"auth token=<hidden> protocolVersion=2 reconnect=true clientId="crane-7" projectId="prj" loadBalance=true loadBalanceGroup="movers""#,
        ),
        (
            ClientFrame::BatchAck { msg_ids: vec!["1", "2", "3", "4", "5", "6"] },
            r#"batchAck msgIds=["1", "2", "3", "4", … 2 more]"#,
        ),
        (ClientFrame::GetLobbyPresence { lobby_id: "yard" }, r#"getLobbyPresence lobbyId="yard""#),
        (ClientFrame::GetPresence { room_id: Some("quay") }, r#"getPresence roomId="quay""#),
        (ClientFrame::Heartbeat, "heartbeat"),
        (ClientFrame::LobbySubscribe { lobby_id: "yard" }, r#"lobbySubscribe lobbyId="yard""#),
        (ClientFrame::LobbyUnsubscribe { lobby_id: "yard" }, r#"lobbyUnsubscribe lobbyId="yard""#),
        (
            ClientFrame::Presence { room_id: Some("quay"), data: payload },
            r#"presence roomId="quay" data=<map, 19 bytes>"#,
        ),
        (
            ClientFrame::Publish(publish),
            r#"publish topic="demo/general/chat" data=<map, 19 bytes> qos=0 retain=true echo=false filter="vip" filters=["a", "b"] msgRef="7""#,
        ),
        (ClientFrame::Reauth { token: SecretStr::new(TOKEN) }, "reauth token=<hidden>"),
        (
            ClientFrame::SetFilters { topic, filters },
            r#"setFilters topic="demo/general/chat" filters=["vip", ["b", "A"]]"#,
        ),
        (
            ClientFrame::Subscribe(subscribe),
            r#"subscribe topic="demo/general/chat" qos=2 filters=["vip", ["b", "A"]] loadBalance=true loadBalanceGroup="movers""#,
        ),
        (ClientFrame::Unsubscribe { topic }, r#"unsubscribe topic="demo/general/chat""#),
    ]
}

/// Every frame that brokers send, with every field, and its line.
fn server_frames<'a>(payload: RawValue<'a>, restored: RawValue<'a>) -> Vec<(ServerFrame<'a>, &'static str)> {
    let topic = Text::Str("demo/general/chat");
    let lobby_id = Text::Str("yard");
    let auth = AuthReply {
        success: true,
        error: Some("none"),
        actor_token_id: Some("alice"),
        project_id: Some("prj"),
        actor_type: Some("user"),
        protocol_version: Some(2),
        restored_subscriptions: Some(restored),
    };
    let error = ErrorFrame {
        error: "unknown_topic",
        code: Some(42940),
        topic: Some(topic),
        hint: Some("ask \u{14} first"),
        msg_ref: Some(Text::Str("7")),
        max_size_bytes: Some(921_600),
        detail: Some(Text::Str("what")),
        lobby_id: Some(lobby_id),
    };
    let message = Message {
        topic,
        data: payload,
        msg_id: Some("m-1"),
        requires_ack: Some(true),
        filter: Some("#"),
        is_replay: Some(false),
        from: Some("bob"),
        from_type: Some("actor"),
    };
    let presence = PresenceEvent {
        event: "join",
        actor_token_id: Some("alice"),
        presence: Some(payload),
        status: Some("online"),
        capabilities: Some(payload),
        advertisement_version: Some(payload),
    };
    let lobby_event = LobbyEvent {
        event: "update",
        lobby_id: Some(lobby_id),
        room_id: Some(Text::Str("quay")),
        actor_id: Some("alice"),
        data: payload,
    };
    vec![
        (
            ServerFrame::Auth(auth),
            r#"auth success=true error="none" actorTokenId="alice" projectId="prj" actorType="user" protocolVersion=2 restoredSubscriptions=["a/b/c", <map, 13 bytes>]"#,
        ),
        (ServerFrame::Disconnect { reason: Some("token_expired") }, r#"disconnect reason="token_expired""#),
        (
            ServerFrame::Error(error),
            r#"error error="unknown_topic" code=42940 topic="demo/general/chat" hint="ask \u{14} first" msgRef="7" maxSizeBytes=921600 detail="what" lobbyId="yard""#,
        ),
        (
            ServerFrame::FiltersUpdated { topic, filters: RawValue::EMPTY_LIST },
            r#"filtersUpdated topic="demo/general/chat" filters=[]"#,
        ),
        (ServerFrame::Heartbeat, "heartbeat"),
        (
            ServerFrame::Hydration { topic: Text::Str("chat"), data: payload },
            r#"hydration topic="chat" data=<map, 19 bytes>"#,
        ),
        (
            ServerFrame::LobbyPresence(lobby_event),
            r#"lobbyPresence event="update" lobbyId="yard" roomId="quay" actorId="alice" data=<map, 19 bytes>"#,
        ),
        (
            ServerFrame::LobbyPresenceList { lobby_id, presence: payload },
            r#"lobbyPresenceList lobbyId="yard" presence=<map, 19 bytes>"#,
        ),
        (
            ServerFrame::LobbySubscribed { lobby_id, presence: payload },
            r#"lobbySubscribed lobbyId="yard" presence=<map, 19 bytes>"#,
        ),
        (ServerFrame::LobbyUnsubscribed { lobby_id }, r#"lobbyUnsubscribed lobbyId="yard""#),
        (
            ServerFrame::Message(message),
            r##"message topic="demo/general/chat" data=<map, 19 bytes> msgId="m-1" requiresAck=true filter="#" isReplay=false from="bob" fromType="actor""##,
        ),
        (ServerFrame::Presence(presence), r#"presence event="join" data=<map, 136 bytes>"#),
        (
            ServerFrame::PresenceList { room_id: Some(Text::Str("quay")), data: payload },
            r#"presenceList roomId="quay" data=<map, 19 bytes>"#,
        ),
        (
            ServerFrame::Published { topic, msg_ref: Text::Str("7") },
            r#"published topic="demo/general/chat" msgRef="7""#,
        ),
        (
            ServerFrame::Reauth { success: false, error: Some("actor_mismatch"), auth_expires_at: Some(9) },
            r#"reauth success=false error="actor_mismatch" authExpiresAt=9"#,
        ),
        (ServerFrame::ReplayEnd { replayed: 3 }, "replayEnd replayed=3"),
        (
            ServerFrame::ReplayStart {
                count: 3,
                oldest_timestamp: Some(RawValue::NIL),
                newest_timestamp: Some(payload),
            },
            "replayStart count=3 oldestTimestamp=nil newestTimestamp=<map, 19 bytes>",
        ),
        (
            ServerFrame::Subscribed { topic, load_balance: false },
            r#"subscribed topic="demo/general/chat" loadBalance=false"#,
        ),
        (ServerFrame::Unknown { frame_type: "novelty" }, "novelty"),
        (ServerFrame::Unsubscribed { topic }, r#"unsubscribed topic="demo/general/chat""#),
    ]
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

/// `["a/b/c", {"topic": "a/b/d"}]`.
fn restored() -> Vec<u8> {
    bytes(&Value::Array(vec!["a/b/c".into(), map(&[("topic", "a/b/d".into())])]))
}

#[test]
fn every_frame_of_a_client_has_its_line() {
    let payload = payload();
    for (frame, line) in client_frames(RawValue::parse(&payload).unwrap()) {
        assert_eq!(Dump::new(&encode_client(&frame)).to_string(), line);
    }
}

#[test]
fn every_frame_of_a_broker_has_its_line() {
    let (payload, restored) = (payload(), restored());
    let frames = server_frames(RawValue::parse(&payload).unwrap(), RawValue::parse(&restored).unwrap());
    for (frame, line) in frames {
        assert_eq!(Dump::new(&encode_server(&frame)).to_string(), line);
    }
}

#[test]
fn what_is_no_frame_is_said_to_be_none() {
    for (bytes, line) in [
        (&[0xc0][..], "undecodable, 1 byte: the message is not a MessagePack map"),
        (&[0xc1, 0x00], "undecodable, 2 bytes: byte 0xc1 at offset 0 is not MessagePack"),
        (&[0x80], "undecodable, 1 byte: the message has no text under \"type\""),
        (b"\x81\xa4type\x07", "undecodable, 7 bytes: the message has no text under \"type\""),
        (b"\x81\xa4type", "undecodable, 6 bytes: the message is cut short at offset 6"),
        (b"\x81\xa4type\xa1x!", "undecodable, 9 bytes: bytes after the end of the message at offset 8"),
        (b"{\"type\": \"auth\"}", "undecodable, 16 bytes: bytes after the end of the message at offset 1"),
    ] {
        assert_eq!(Dump::new(bytes).to_string(), line, "{bytes:02x?}");
    }
}

#[test]
fn debug_is_the_same_line() {
    let frame = bytes(&map(&[("type", "auth".into()), ("token", TOKEN.into())]));
    assert_eq!(
        format!("{:?} {:#?}", Dump::new(&frame), Dump::new(&frame)),
        "auth token=<hidden> auth token=<hidden>"
    );
}

#[test]
fn unknown_fields_show_kind_and_size_and_only_names_that_can_be_names() {
    let frame = Value::Map(vec![
        ("type".into(), "subscribed".into()),
        ("priority_2".into(), 300.into()),
        ("secret".into(), TOKEN.into()),
        ("Token".into(), TOKEN.into()),
        (TOKEN.into(), true.into()),
        ("two words".into(), 1.5.into()),
        ("".into(), Value::Nil),
        (7.into(), list(&[PAYLOAD])),
        (list(&[PAYLOAD]), Value::Binary(vec![0; 10])),
        ("ext".into(), Value::Ext(1, vec![0; 3])),
    ]);
    assert_eq!(
        shown(&frame),
        "subscribed priority_2=<integer, 3 bytes> secret=<text, 47 bytes> Token=<text, 47 bytes> \
         <text, 47 bytes>=<bool, 1 byte> <text, 10 bytes>=<float, 9 bytes> <text, 1 byte>=<nil, 1 byte> \
         <integer, 1 byte>=<list, 14 bytes> <list, 14 bytes>=<binary, 12 bytes> ext=<extension, 6 bytes>"
    );
    assert_eq!(shown(&map(&[("type", TOKEN.into())])), "<text, 47 bytes>");
}

#[test]
fn a_token_is_hidden_whatever_it_is_and_however_often() {
    let binary = |text: &str| Value::Binary(text.as_bytes().to_vec());
    let frame = Value::Map(vec![
        ("token".into(), TOKEN.into()),
        (binary("token"), binary(TOKEN)),
        (binary("type"), binary("auth")),
        ("token".into(), list(&[TOKEN])),
        ("token".into(), Value::Nil),
    ]);
    assert_eq!(shown(&frame), "auth token=<hidden> token=<hidden> token=<hidden> token=<hidden>");
}

#[test]
fn of_several_types_the_last_counts_as_in_the_codec() {
    let twice = Value::Map(vec![("type".into(), "ack".into()), ("type".into(), "publish".into())]);
    assert_eq!(shown(&twice), "publish");
    assert_eq!(ServerFrame::decode(&bytes(&twice)), Ok(ServerFrame::Unknown { frame_type: "publish" }));
}

#[test]
fn scalars_of_any_kind_show_under_known_names() {
    let frame = map(&[
        ("type", "error".into()),
        ("topic", 7.into()),
        ("code", (-3).into()),
        ("count", u64::MAX.into()),
        ("msgRef", f64::MAX.into()),
        ("echo", Value::F32(0.5)),
        ("detail", map(&[("text", PAYLOAD.into())])),
        ("hint", Value::Nil),
        ("reason", Value::Binary(b"text".to_vec())),
        ("error", Value::Binary(vec![0xff; 4])),
    ]);
    assert_eq!(
        shown(&frame),
        "error topic=7 code=-3 count=18446744073709551615 msgRef=1.7976931348623157e308 echo=0.5 \
         detail=<map, 19 bytes> hint=nil reason=\"text\" error=<binary, 6 bytes>"
    );
    let text = b"\x82\xa4type\xa3ack\xa5msgId\xa2o\xff";
    assert_eq!(Dump::new(text).to_string(), "ack msgId=<text, 3 bytes>", "text that is not UTF-8");
}

#[test]
fn long_texts_are_cut_between_characters_and_what_is_not_printable_is_escaped() {
    let line = shown(&map(&[("type", "ack".into()), ("msgId", "é".repeat(65).into())]));
    assert_eq!(line, format!("ack msgId=\"{}\"…", "é".repeat(64)));
    let line = shown(&map(&[("type", "ack".into()), ("msgId", "é".repeat(64).into())]));
    assert_eq!(line, format!("ack msgId=\"{}\"", "é".repeat(64)));
    let line = shown(&map(&[("type", "ack".into()), ("msgId", "a\n\u{1b}[31m\u{202e}\"".into())]));
    assert_eq!(line, r#"ack msgId="a\n\u{1b}[31m\u{202e}\"""#);
}

#[test]
fn lists_show_some_texts_and_one_level_of_groups() {
    let deep = Value::Array(vec![list(&["a"]), Value::Array(vec![list(&["b"])]), 7.into()]);
    let line = shown(&map(&[("type", "subscribe".into()), ("filters", deep)]));
    assert_eq!(line, r#"subscribe filters=[["a"], [<list, 3 bytes>], 7]"#);
    let line = shown(&map(&[("type", "subscribe".into()), ("filters", Value::Nil)]));
    assert_eq!(line, "subscribe filters=<nil, 1 byte>");
    let line = shown(&map(&[("type", "subscribe".into()), ("topic", list(&[PAYLOAD]))]));
    assert_eq!(line, "subscribe topic=<list, 14 bytes>", "only where lists belong");
}

#[test]
fn many_fields_are_counted_and_a_line_that_is_too_long_is_cut() {
    let many: Vec<_> = (0..100).map(|n| (format!("key{n}").into(), 1.into())).collect();
    let mut pairs = vec![("type".into(), "ack".into())];
    pairs.extend(many);
    let line = shown(&Value::Map(pairs));
    assert!(line.ends_with("key23=<integer, 1 byte> … 76 more"), "{line}");

    // Every character takes eight bytes when escaped.
    let item = "\u{e000}".repeat(64);
    let filters: Vec<Value> = (0..4).map(|_| list(&[item.as_str(); 4])).collect();
    let line = shown(&map(&[("type", "setFilters".into()), ("filters", Value::Array(filters))]));
    assert!(line.ends_with('…') && line.len() <= MAX_LINE && line.len() > MAX_LINE - 8, "{}", line.len());
}

#[test]
fn a_million_levels_of_nesting_need_no_stack() {
    for opening in [&[0x91][..], &[0x81, 0x01]] {
        let mut value = opening.repeat(1_000_000);
        value.push(0xc0);
        for key in ["data", "filters", "topic", "novelty"] {
            let mut frame = b"\x82\xa4type\xa7message".to_vec();
            frame.extend(bytes(&key.into()));
            frame.extend(&value);
            let line = Dump::new(&frame).to_string();
            assert!(line.starts_with(&format!("message {key}=")) && line.len() < 100, "{line}");
        }
    }
}

fn cases() -> Cases {
    Cases { cases: 300, failure_persistence: None, ..Cases::default() }
}

/// What holds for the line of any bytes.
fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let line = Dump::new(bytes).to_string();
    prop_assert!(line.len() <= MAX_LINE && !line.is_empty(), "{} bytes", line.len());
    prop_assert!(!line.chars().any(char::is_control), "{line:?}");
    prop_assert!(!line.contains(TOKEN) && !line.contains(PAYLOAD), "{line}");
    let is_frame = bytes.is_empty() || ServerFrame::decode(bytes).is_ok();
    prop_assert_eq!(is_frame, !line.starts_with("undecodable, "), "as the codec sees it: {}", line);
    Ok(())
}

/// All frames of the tables.
fn all_frames() -> Vec<Vec<u8>> {
    let (payload, restored) = (payload(), restored());
    let (payload, restored) = (RawValue::parse(&payload).unwrap(), RawValue::parse(&restored).unwrap());
    let client = client_frames(payload).into_iter().map(|(frame, _)| encode_client(&frame));
    client.chain(server_frames(payload, restored).iter().map(|(frame, _)| encode_server(frame))).collect()
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        vec(any::<char>(), 0..120).prop_map(|text| Value::from(String::from_iter(text))),
        vec(any::<u8>(), 0..100).prop_map(Value::from),
        (any::<i8>(), vec(any::<u8>(), 0..40)).prop_map(|(kind, bytes)| Value::Ext(kind, bytes)),
    ];
    scalar.prop_recursive(3, 24, 12, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..12).prop_map(Value::Array),
            vec((inner.clone(), inner), 0..12).prop_map(Value::Map),
        ]
    })
}

/// Names that the protocol knows and others.
fn key() -> impl Strategy<Value = Value> {
    let known =
        vec!["type", "topic", "filters", "msgIds", "restoredSubscriptions", "error", "hint", "msgRef"];
    prop_oneof![3 => prop::sample::select(known).prop_map(Value::from), 1 => value()]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_bytes_give_a_line(bytes in vec(any::<u8>(), 0..300)) {
        check(&bytes)?;
    }

    #[test]
    fn any_map_gives_a_line(pairs in vec((key(), value()), 0..30), frame_type in any::<String>()) {
        let mut pairs = pairs;
        pairs.push(("type".into(), frame_type.into()));
        check(&bytes(&Value::Map(pairs)))?;
    }

    #[test]
    fn damaged_frames_give_a_line_without_secrets(
        which in any::<Index>(), damage in vec((any::<Index>(), any::<u8>()), 0..4), cut in prop::option::of(any::<Index>()),
    ) {
        let frames = all_frames();
        let mut bytes = which.get(&frames).clone();
        for (at, byte) in damage {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        check(&bytes)?;
    }

    #[test]
    fn payloads_and_tokens_show_nowhere(data in value(), secret in "[A-Za-z0-9_-]{16,60}") {
        let hidden = [
            "advertisementVersion", "capabilities", "data", "joinedAt", "novelty", "presence", "status", "token",
        ];
        let carriers = [Value::from(secret.as_str()), Value::Array(vec![secret.as_str().into(), data.clone()])];
        for carrier in carriers {
            let mut pairs = vec![("type", "message".into()), ("topic", "a/b/c".into())];
            pairs.extend(hidden.map(|key| (key, carrier.clone())));
            let line = shown(&map(&pairs));
            prop_assert!(!line.contains(&secret), "{}", line);
        }
    }
}
