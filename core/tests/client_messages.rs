//! What a received message says, and what it keeps alive.

mod support;

use bytes::BytesMut;
use nolag_core::wire::{RawValue, ServerFrame, write};
use support::*;

#[test]
fn empty_texts_and_missing_data_are_told_as_they_came() {
    let mut peer = Peer::default_connected();
    peer.deliver_with(TOPIC, "", |message| {
        message.msg_id = Some("");
        message.filter = Some("");
        message.from = Some("");
        message.from_type = Some("");
    });
    let message = peer.message().expect("a message");
    assert_eq!((message.msg_id(), message.filter()), (Some(""), Some("")));
    assert_eq!(
        (message.sender(), message.sender_type(), message.payload().text()),
        (Some(""), Some(""), Some(""))
    );
    let mut frame = BytesMut::new();
    write::map_header(&mut frame, 2);
    ["type", "message", "topic", TOPIC].iter().for_each(|text| write::str(&mut frame, text));
    peer.bytes(frame.freeze());
    let message = peer.message().expect("a message");
    assert!(message.payload().raw().is_nil());
    assert_eq!((message.payload().packed_len(), message.topic()), (1, TOPIC));
}

#[test]
fn messages_are_equal_when_they_say_the_same() {
    let mut peer = Peer::default_connected();
    peer.deliver_with(TOPIC, "hello", |message| message.from = Some("actor-2"));
    peer.deliver_with(TOPIC, "hello", |message| message.from = Some("actor-2"));
    peer.deliver_with(TOPIC, "hello", |message| message.from_type = Some("actor-2"));
    peer.deliver_with(TOPIC, "other", |message| message.from = Some("actor-2"));
    let [first, same, sender, data] = peer.messages().try_into().expect("four messages");
    assert_eq!(first, same);
    assert_ne!(first, sender);
    assert_ne!(first, data);
}

#[test]
fn a_message_that_is_kept_does_not_keep_what_it_was_read_with() {
    let mut peer = Peer::default_connected();
    let mut wire = BytesMut::zeroed(1 << 20);
    wire.truncate(0);
    peer.deliver(TOPIC, "warm up");
    let warm = peer.message();
    let frame = message(TOPIC, RawValue::parse(b"\xa5hello").unwrap());
    ServerFrame::Message(frame).encode(&mut wire);
    peer.bytes(wire.split().freeze());
    let kept = peer.message().expect("a message");
    assert!(wire.try_reclaim(1 << 20), "the large buffer is free again");
    assert_eq!((kept.payload().text(), warm.is_some()), (Some("hello"), true));
}
