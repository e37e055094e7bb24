//! Publishing: frames and outcomes.

mod support;

use std::collections::BTreeSet;

use bytes::BytesMut;
use nolag_core::{
    Error, Event, Misuse, Op, Outcome, Payload, Publish, Rejection, TransportErrorKind,
    wire::{self, ClientFrame, ErrorFrame, MAX_DATA_BYTES, RawValue, ServerFrame, Text, write},
};
use support::*;

fn sent_publish(peer: &mut Peer, check: impl FnOnce(wire::Publish<'_>)) {
    let frame = peer.frame();
    let ClientFrame::Publish(publish) = decode(&frame) else { panic!("not a publish") };
    check(publish);
}

fn refused_publish(peer: &mut Peer, publish: Publish) -> Error {
    let refused = peer.core.publish(peer.now, publish.clone()).unwrap_err();
    assert_eq!(refused.value, publish, "the message comes back untouched");
    peer.pump();
    assert!(peer.sent().is_empty());
    refused.error
}

fn of_size(len: usize) -> Payload {
    // bin32: five bytes of head.
    let mut bytes = vec![0xc6];
    bytes.extend_from_slice(&u32::try_from(len - 5).expect("small enough").to_be_bytes());
    bytes.resize(len, 7);
    Payload::from_msgpack(bytes).expect("one value")
}

// ---- frames ----

#[test]
fn a_publish_carries_a_reference_and_nothing_that_is_at_its_default() {
    let mut peer = Peer::default_connected();
    peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    assert!(!msg_ref.is_empty());
    let payload = payload("hello");
    sent_publish(&mut peer, |publish| {
        let expected = wire::Publish::new(TOPIC, payload.raw());
        assert_eq!(publish, wire::Publish { msg_ref: Some(&msg_ref), ..expected });
    });
}

#[test]
fn options_go_into_the_frame() {
    let mut peer = Peer::default_connected();
    peer.publish_as(TOPIC, |publish| {
        publish.qos = Some(qos(2));
        publish.retain = true;
        publish.echo = false;
        publish.filter = Some("vip".into());
        publish.filters = vec!["b".into(), "a".into()];
    });
    sent_publish(&mut peer, |publish| {
        assert_eq!(publish.qos, Some(qos(2)));
        assert!(publish.retain);
        assert!(!publish.echo);
        assert_eq!(publish.filter, Some("vip"));
        assert_eq!(publish.filters, ["b", "a"]);
    });
}

#[test]
fn the_configured_qos_holds_where_a_publish_names_none() {
    let mut peer = Peer::connected(with(|config| config.qos = qos(0)));
    peer.publish(TOPIC);
    sent_publish(&mut peer, |publish| assert_eq!(publish.qos, Some(qos(0))));
    peer.publish_as(TOPIC, |publish| publish.qos = Some(qos(1)));
    sent_publish(&mut peer, |publish| assert_eq!(publish.qos, None, "what brokers assume"));
}

#[test]
fn nil_is_sent_as_data() {
    let mut peer = Peer::default_connected();
    peer.publish_as(TOPIC, |publish| publish.payload = Payload::from_msgpack(&b"\xc0"[..]).unwrap());
    sent_publish(&mut peer, |publish| assert_eq!(publish.data, RawValue::NIL));
}

#[test]
fn maps_with_keys_that_are_not_text_are_sent_as_they_are() {
    let mut peer = Peer::default_connected();
    let bytes = &b"\x82\x01\xa1a\xc2\x80"[..];
    peer.publish_as(TOPIC, |publish| publish.payload = Payload::from_msgpack(bytes).unwrap());
    sent_publish(&mut peer, |publish| assert_eq!(publish.data.as_bytes(), bytes));
}

#[test]
fn publishes_leave_in_the_order_of_the_calls_and_each_has_its_own_reference() {
    let mut peer = Peer::connected(unpaced());
    let mut refs = BTreeSet::new();
    for n in 0..200 {
        peer.publish(&format!("demo/general/t{n}"));
        refs.insert(peer.last_ref());
    }
    assert_eq!(refs.len(), 200);
    let expected: Vec<_> = (0..200).map(|n| format!("publish demo/general/t{n}")).collect();
    assert_eq!(peer.sent(), expected);
}

#[test]
fn references_are_not_used_again_after_a_reconnect() {
    let mut peer = Peer::default_connected();
    peer.publish(TOPIC);
    let before = peer.last_ref();
    peer.close(1006);
    peer.reconnect();
    let op = peer.publish(TOPIC);
    assert_ne!(before, peer.last_ref());
    peer.published(&before);
    assert!(peer.is_pending(op));
}

// ---- outcomes ----

#[test]
fn a_confirmed_publish_is_acked() {
    let mut peer = Peer::default_connected();
    let op = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    assert!(peer.is_pending(op), "sent is not confirmed");
    peer.published(&msg_ref);
    assert_eq!(peer.outcome(op), Outcome::Acked);
    peer.published(&msg_ref);
    assert_eq!(peer.core.stats().frames_unexpected, 1, "a second confirmation is for nobody");
}

#[test]
fn confirmations_may_come_in_any_order() {
    let mut peer = Peer::default_connected();
    let mut publishes = Vec::new();
    for _ in 0..5 {
        let op = peer.publish(TOPIC);
        publishes.push((op, peer.last_ref()));
    }
    for (op, msg_ref) in publishes.into_iter().rev() {
        assert!(peer.is_pending(op));
        peer.published(&msg_ref);
        assert_eq!(peer.outcome(op), Outcome::Acked);
    }
}

#[test]
fn an_untracked_publish_asks_for_nothing_and_is_sent_when_it_left() {
    let mut peer = Peer::default_connected();
    peer.blocked = true;
    let op = peer.publish_as(TOPIC, |publish| publish.tracked = false);
    assert!(peer.is_pending(op));
    peer.blocked = false;
    peer.pump();
    assert_eq!(peer.outcome(op), Outcome::Sent);
    sent_publish(&mut peer, |publish| assert_eq!(publish.msg_ref, None));
}

#[test]
fn a_refused_publish_says_all_that_the_broker_said() {
    let mut peer = Peer::default_connected();
    let op = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    peer.answer(&ServerFrame::Error(ErrorFrame {
        error: "message_too_large",
        code: Some(42930),
        topic: Some(Text::Str(TOPIC)),
        hint: Some("a hint"),
        msg_ref: Some(Text::Str(&msg_ref)),
        max_size_bytes: Some(921_600),
        detail: Some(Text::Str("a detail")),
        lobby_id: Some(Text::Str("a lobby")),
    }));
    let Outcome::Refused(error) = peer.outcome(op) else { panic!("not refused") };
    assert_eq!((&*error.error, error.code, error.op), ("message_too_large", Some(42930), Some(Op::Publish)));
    assert_eq!((error.topic.as_deref(), error.msg_ref.as_deref()), (Some(TOPIC), Some(&*msg_ref)));
    assert_eq!((error.hint.as_deref(), error.detail.as_deref()), (Some("a hint"), Some("a detail")));
    assert_eq!((error.max_size_bytes, error.lobby_id.as_deref()), (Some(921_600), Some("a lobby")));
    assert!(peer.events().is_empty());
}

#[test]
fn an_error_settles_the_publish_that_it_names_and_no_other() {
    let mut peer = Peer::default_connected();
    let first = peer.publish(TOPIC);
    let second = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    let third = peer.publish(TOPIC);
    peer.answer(&ServerFrame::Error(ErrorFrame {
        error: "monthly_quota_exceeded",
        code: Some(42920),
        topic: Some(Text::Str(TOPIC)),
        msg_ref: Some(Text::Str(&msg_ref)),
        ..ErrorFrame::default()
    }));
    assert!(matches!(peer.outcome(second), Outcome::Refused(_)));
    assert!(peer.is_pending(first) && peer.is_pending(third));
}

#[test]
fn a_refused_untracked_publish_is_reported() {
    let mut peer = Peer::default_connected();
    peer.publish_as(TOPIC, |publish| publish.tracked = false);
    peer.refuse(TOPIC, "unknown_topic", Some(42940));
    let Event::ServerError(error) = peer.event() else { panic!("not reported") };
    assert_eq!((error.code, error.topic.as_deref()), (Some(42940), Some(TOPIC)));
}

#[test]
fn an_unanswered_publish_is_unknown_after_ten_seconds() {
    let mut peer = Peer::default_connected();
    let op = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    peer.advance(millis(9_999));
    assert!(peer.is_pending(op));
    peer.advance(millis(1));
    assert!(is_timeout(&peer.outcome(op), Op::Publish));

    // What comes later is for nobody, and an error is at least told.
    peer.published(&msg_ref);
    peer.answer(&ServerFrame::Error(ErrorFrame {
        error: "unknown_topic",
        msg_ref: Some(Text::Str(&msg_ref)),
        ..ErrorFrame::default()
    }));
    assert!(matches!(peer.event(), Event::ServerError(_)));
    assert_eq!(peer.core.stats().frames_unexpected, 1);
}

#[test]
fn the_deadline_counts_from_when_the_frame_left() {
    let mut peer = Peer::default_connected();
    peer.blocked = true;
    let op = peer.publish(TOPIC);
    peer.advance(secs(25));
    peer.blocked = false;
    peer.pump();
    peer.advance(millis(9_999));
    assert!(peer.is_pending(op));
    peer.advance(millis(1));
    assert!(is_timeout(&peer.outcome(op), Op::Publish));
}

#[test]
fn on_version_1_a_confirmation_is_taken_if_it_comes_and_not_missed_if_not() {
    let mut peer = Peer::new(config());
    peer.connect();
    peer.open();
    peer.accept_with(|reply| reply.protocol_version = Some(1));
    let confirmed = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    let silent = peer.publish(TOPIC);
    peer.published(&msg_ref);
    assert_eq!(peer.outcome(confirmed), Outcome::Acked);
    peer.advance(secs(10));
    assert_eq!(peer.outcome(silent), Outcome::Sent);
}

#[test]
fn a_lost_connection_leaves_sent_publishes_unknown_and_unsent_ones_not_sent() {
    let mut peer = Peer::default_connected();
    let sent = peer.publish(TOPIC);
    peer.blocked = true;
    let unsent = peer.publish(TOPIC);
    let untracked = peer.publish_as(TOPIC, |publish| publish.tracked = false);
    peer.close(1011);
    let lost = |error: &Error| match error {
        Error::Transport(error) => error.kind == TransportErrorKind::Closed(Some(1011)),
        _ => false,
    };
    assert!(matches!(peer.outcome(sent), Outcome::Unknown(error) if lost(&error)));
    assert!(matches!(peer.outcome(unsent), Outcome::NotSent(error) if lost(&error)));
    assert!(matches!(peer.outcome(untracked), Outcome::NotSent(error) if lost(&error)));
    peer.blocked = false;
    peer.forget();
    peer.reconnect();
    assert_eq!(peer.sent(), ["auth"], "nothing of it is sent later");
}

#[test]
fn a_reply_to_a_publish_that_was_not_sent_is_not_for_it() {
    let mut first = Peer::default_connected();
    first.publish(TOPIC);
    // The same calls give the same references, so this is what the other client would send.
    let msg_ref = first.last_ref();
    let mut peer = Peer::default_connected();
    peer.blocked = true;
    let op = peer.publish(TOPIC);
    peer.published(&msg_ref);
    assert!(peer.is_pending(op));
    assert_eq!(peer.core.stats().frames_unexpected, 1);
}

#[test]
fn references_of_another_kind_change_nothing() {
    let mut peer = Peer::default_connected();
    let subscribe = peer.subscribe(TOPIC);
    let publish = peer.publish(TOPIC);
    for msg_ref in ["", "0", "1", "2", "3", "zz", "ffffffffffffffff", "fffffffffffffffffffff"] {
        if msg_ref != peer.last_ref() {
            peer.published(msg_ref);
        }
    }
    let msg_ref = Text::Other(RawValue::EMPTY_LIST);
    peer.answer(&ServerFrame::Published { topic: Text::Str(TOPIC), msg_ref });
    assert!(peer.is_pending(subscribe) && peer.is_pending(publish));
}

// ---- refused locally ----

#[test]
fn a_publish_without_a_session_is_refused() {
    let mut peer = Peer::new(config());
    let not_connected = Error::Rejected(Rejection::NotConnected);
    let publish = Publish::new(TOPIC, payload("x"));
    assert_eq!(refused_publish(&mut peer, publish.clone()), not_connected);
    peer.connect();
    assert_eq!(refused_publish(&mut peer, publish.clone()), not_connected);
    peer.open();
    peer.sent();
    assert_eq!(refused_publish(&mut peer, publish.clone()), not_connected);
    peer.accept();
    peer.close(1000);
    assert_eq!(refused_publish(&mut peer, publish), not_connected);
}

#[test]
fn topics_that_no_broker_takes_are_refused() {
    let mut peer = Peer::default_connected();
    for topic in ["", "messages", "a/b", "a/b/+", "a/b/#", "a/b/c/d/e", "a//c"] {
        let error = refused_publish(&mut peer, Publish::new(topic, payload("x")));
        assert!(matches!(error, Error::Misuse(Misuse::InvalidTopic { .. })), "{topic}");
    }
}

#[test]
fn filters_that_no_broker_takes_are_refused() {
    let mut peer = Peer::default_connected();
    for bad in ["", "a/b", "#", "+", "a|b"] {
        let mut publish = Publish::new(TOPIC, payload("x"));
        publish.filter = Some(bad.into());
        assert_eq!(refused_publish(&mut peer, publish), Misuse::InvalidFilter(bad.into()).into());
        let mut publish = Publish::new(TOPIC, payload("x"));
        publish.filters = vec!["fine".into(), bad.into()];
        assert_eq!(refused_publish(&mut peer, publish), Misuse::InvalidFilter(bad.into()).into());
    }
    let mut publish = Publish::new(TOPIC, payload("x"));
    publish.filters = (0..101).map(|n| format!("f{n}")).collect();
    assert_eq!(refused_publish(&mut peer, publish), Misuse::TooManyFilters(101).into());
}

#[test]
fn a_payload_over_the_limit_is_refused_and_one_at_the_limit_is_not() {
    let mut peer = Peer::default_connected();
    let too_large = Publish::new(TOPIC, of_size(MAX_DATA_BYTES + 1));
    assert_eq!(
        refused_publish(&mut peer, too_large),
        Misuse::DataTooLarge { len: MAX_DATA_BYTES + 1 }.into()
    );
    peer.publish_as(TOPIC, |publish| publish.payload = of_size(MAX_DATA_BYTES));
    assert_eq!(peer.sent().len(), 1);
}

#[test]
fn extension_values_are_refused_at_any_depth() {
    let mut peer = Peer::default_connected();
    for bytes in [&b"\xd4\x01\x00"[..], b"\x91\xd6\xff\x00\x00\x00\x00", b"\x81\xa1a\x91\xc7\x01\x05\x00"] {
        let payload = Payload::from_msgpack(bytes).expect("one value");
        assert_eq!(refused_publish(&mut peer, Publish::new(TOPIC, payload)), Misuse::Extension.into());
    }
}

#[test]
fn too_much_at_once_is_refused_until_outcomes_come() {
    let mut peer = Peer::connected(with(|config| config.limits.max_pending = 3));
    let first = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    peer.publish(TOPIC);
    peer.publish(TOPIC);
    let bytes = peer.frames().iter().map(|frame| frame.len()).sum();
    let publish = Publish::new(TOPIC, payload("x"));
    let full = refused_publish(&mut peer, publish);
    assert_eq!(
        full,
        Rejection::Full { pending: 3, bytes }.into(),
        "what was sent is held until it is answered"
    );
    peer.published(&msg_ref);
    assert_eq!(peer.outcome(first), Outcome::Acked);
    peer.publish(TOPIC);
}

#[test]
fn bytes_that_wait_for_the_transport_are_bounded() {
    let mut peer = Peer::connected(with(|config| config.limits.max_outbound_bytes = 10_000));
    peer.blocked = true;
    let mut accepted = 0;
    let full = loop {
        let mut publish = Publish::new(TOPIC, of_size(1_000));
        publish.tracked = false;
        match peer.core.publish(peer.now, publish) {
            Ok(_) => accepted += 1,
            Err(refused) => break refused.error,
        }
    };
    assert!((8..10).contains(&accepted), "{accepted}");
    assert!(matches!(full, Error::Rejected(Rejection::Full { bytes: 8_000..=10_000, .. })), "{full:?}");
    peer.blocked = false;
    peer.pump();
    peer.publish(TOPIC);
}

#[test]
fn deep_payloads_are_sent_without_recursion() {
    let mut bytes = vec![0x91; 200_000];
    bytes.push(0xc0);
    let mut peer = Peer::default_connected();
    peer.publish_as(TOPIC, |publish| publish.payload = Payload::from_msgpack(bytes.clone()).unwrap());
    sent_publish(&mut peer, |publish| assert_eq!(publish.data.as_bytes(), bytes));
}

#[test]
fn several_messages_may_share_one_buffer() {
    let mut peer = Peer::default_connected();
    peer.blocked = true;
    peer.publish(TOPIC);
    peer.publish("demo/general/other");
    let mut out = BytesMut::new();
    write::str(&mut out, "what is already there");
    let before = out.len();
    let first = peer.core.poll_transmit(peer.now, &mut out).expect("a frame");
    let second = peer.core.poll_transmit(peer.now, &mut out).expect("a frame");
    assert_eq!(peer.core.poll_transmit(peer.now, &mut out), None);
    assert_eq!(out.len(), before + first.len + second.len);
    let (a, b) = out[before..].split_at(first.len);
    assert_eq!(describe(&decode(a)), format!("publish {TOPIC}"));
    assert_eq!(describe(&decode(b)), "publish demo/general/other");
}

#[test]
fn explain_counts_frames_of_every_kind_that_wait() {
    let mut peer = Peer::default_connected();
    peer.blocked = true;
    peer.subscribe(TOPIC);
    peer.subscribe("demo/general/other");
    peer.publish(TOPIC);
    assert!(peer.core.explain().contains("; 3 frames to send"), "{}", peer.core.explain());
}
