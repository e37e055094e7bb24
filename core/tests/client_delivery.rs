//! Messages, their acks, and what happens when the application is behind.

mod support;

use bytes::{Bytes, BytesMut};
use nolag_core::{
    Config, Event, Op, Outcome, OverflowPolicy, SubscriptionId, TransportEvent, TransportEventKind,
    wire::{ClientFrame, RawValue, ServerFrame, Text},
};
use support::*;

fn texts(peer: &mut Peer) -> Vec<String> {
    let text = |message: nolag_core::Message| message.payload().text().expect("text").to_owned();
    peer.messages().into_iter().map(text).collect()
}

fn lagged(peer: &mut Peer) -> Vec<(Option<SubscriptionId>, u64)> {
    let count = |event| match event {
        Event::Lagged { subscription, count } => Some((subscription, count)),
        _ => None,
    };
    peer.events().into_iter().filter_map(count).collect()
}

/// At most four unread messages.
fn small(policy: OverflowPolicy) -> Config {
    with(|config| {
        config.limits.max_inbound_messages = 4;
        config.overflow = policy;
    })
}

fn fill(peer: &mut Peer) {
    for n in 0..4 {
        assert!(peer.core.wants_input(), "before message {n}");
        peer.deliver(TOPIC, &format!("m{n}"));
    }
    assert!(!peer.core.wants_input());
}

// ---- messages ----

#[test]
fn a_message_belongs_to_its_subscription_and_carries_what_the_broker_said() {
    let mut peer = Peer::default_connected();
    let op = peer.subscribe(TOPIC);
    peer.subscribed(TOPIC);
    let Outcome::Subscribed { subscription, .. } = peer.outcome(op) else { panic!("not subscribed") };
    peer.deliver_with(TOPIC, "hello", |message| {
        message.msg_id = Some("m1");
        message.requires_ack = Some(true);
        message.filter = Some("vip");
        message.is_replay = Some(true);
        message.from = Some("actor-2");
        message.from_type = Some("actor");
    });
    let message = peer.message().expect("a message");
    assert_eq!((message.topic(), message.subscription()), (TOPIC, Some(subscription)));
    assert_eq!(message.payload().text(), Some("hello"));
    assert_eq!((message.msg_id(), message.ack_id()), (Some("m1"), Some("m1")));
    assert!(message.is_replay());
    assert_eq!((message.sender(), message.sender_type()), (Some("actor-2"), Some("actor")));
    assert_eq!(message.filter(), Some("vip"));
    assert_eq!(message.clone(), message);
    assert_eq!(peer.message(), None);
    assert_eq!(peer.core.stats().messages_received, 1);
}

#[test]
fn a_bare_message_has_bare_metadata() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    peer.deliver(TOPIC, "hello");
    let message = peer.message().expect("a message");
    assert_eq!((message.msg_id(), message.ack_id(), message.filter()), (None, None, None));
    assert_eq!((message.sender(), message.sender_type(), message.is_replay()), (None, None, false));
}

#[test]
fn the_filter_that_old_brokers_write_for_none_is_none() {
    let mut peer = Peer::default_connected();
    peer.deliver_with(TOPIC, "hello", |message| message.filter = Some("#"));
    assert_eq!(peer.message().expect("a message").filter(), None);
}

#[test]
fn a_message_without_a_name_cannot_be_acked() {
    let mut peer = Peer::default_connected();
    peer.deliver_with(TOPIC, "hello", |message| message.requires_ack = Some(true));
    peer.deliver_with(TOPIC, "hello", |message| message.msg_id = Some("m1"));
    for message in peer.messages() {
        assert_eq!(message.ack_id(), None);
    }
}

#[test]
fn messages_of_topics_never_subscribed_are_delivered_to_nobody_in_particular() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    for topic in ["demo/general/strange", "6f1c/messages/#", "", "ü"] {
        peer.deliver(topic, "hello");
        let message = peer.message().expect("a message");
        assert_eq!((message.topic(), message.subscription()), (topic, None));
    }
    let payload = payload("x");
    let mut message = message(TOPIC, payload.raw());
    message.topic = Text::Other(RawValue::EMPTY_LIST);
    peer.answer(&ServerFrame::Message(message));
    assert_eq!(peer.message(), None, "and a topic that is no text is none");
}

#[test]
fn messages_after_an_unsubscribe_belong_to_nobody() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    peer.unsubscribe(TOPIC);
    peer.deliver(TOPIC, "late");
    assert_eq!(peer.message().expect("a message").subscription(), None);
}

#[test]
fn messages_keep_their_order() {
    let mut peer = Peer::default_connected();
    (0..100).for_each(|n| peer.deliver(TOPIC, &n.to_string()));
    assert_eq!(texts(&mut peer), (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn any_payload_is_delivered_byte_for_byte() {
    let mut deep = vec![0x91; 100_000];
    deep.push(0xc0);
    let large = [&[0xc6, 0, 0x0f, 0, 0][..], &vec![9; 0x000f_0000]].concat();
    for data in
        [&b"\xc0"[..], b"\x82\x01\xa1a\xc2\x80", b"\xc4\x02\xff\xfe", b"\xd6\xff\0\0\0\0", &deep, &large]
    {
        let mut peer = Peer::default_connected();
        let raw = RawValue::parse(data).expect("one value");
        peer.answer(&ServerFrame::Message(message(TOPIC, raw)));
        let message = peer.message().expect("a message");
        assert_eq!(message.payload().as_msgpack(), data);
    }
}

// ---- acks ----

#[test]
fn acks_wait_fifty_milliseconds_for_company() {
    let mut peer = Peer::default_connected();
    peer.ack("m1");
    peer.advance(millis(30));
    peer.ack("m2");
    peer.advance(millis(19));
    assert!(peer.sent().is_empty());
    peer.advance(millis(1));
    assert_eq!(peer.sent(), ["batchAck m1 m2"]);
    peer.advance(secs(10));
    assert!(peer.sent().is_empty());
}

#[test]
fn a_single_ack_is_sent_as_one() {
    let mut peer = Peer::default_connected();
    peer.ack("m1");
    peer.advance(millis(50));
    let frame = peer.frame();
    assert_eq!(decode(&frame), ClientFrame::Ack { msg_id: "m1" });
}

#[test]
fn a_full_batch_leaves_at_once() {
    let mut peer = Peer::connected(with(|config| config.acks.max_batch = 3));
    for id in ["a", "b", "c", "d"] {
        peer.ack(id);
    }
    assert_eq!(peer.sent(), ["batchAck a b c"]);
    peer.advance(millis(50));
    assert_eq!(peer.sent(), ["ack d"]);
}

#[test]
fn batching_can_be_switched_off() {
    for max_batch in [0, 1] {
        let mut peer = Peer::connected(with(|config| config.acks.max_batch = max_batch));
        peer.ack("a");
        peer.ack("b");
        assert_eq!(peer.sent(), ["ack a", "ack b"]);
    }
    let mut peer = Peer::connected(with(|config| config.acks.max_delay = millis(0)));
    peer.ack("a");
    peer.advance(millis(0));
    assert_eq!(peer.sent(), ["ack a"]);
}

#[test]
fn acks_survive_a_reconnect() {
    let mut peer = Peer::default_connected();
    peer.ack("m1");
    peer.close(1006);
    peer.ack("m2");
    peer.forget();
    peer.reopen();
    peer.ack("m3");
    peer.accept();
    assert_eq!(peer.sent(), ["auth", "batchAck m1 m2 m3"]);
}

#[test]
fn acks_for_a_session_that_never_comes_are_bounded_and_dropped() {
    let mut peer = Peer::connected(with(|config| config.reconnect.max_attempts = Some(1)));
    peer.close(1006);
    for n in 0..10_000 {
        peer.ack(&n.to_string());
    }
    assert_eq!(peer.core.stats().acks_dropped, 10_000 - 4096);
    peer.reopen();
    peer.fail(nolag_core::TransportErrorKind::Io);
    assert!(peer.events().iter().any(|event| matches!(event, Event::GaveUp { .. })));
    assert_eq!(peer.core.stats().acks_dropped, 10_000);
    peer.ack("late");
    assert_eq!(peer.core.stats().acks_dropped, 10_001);
    assert_eq!(peer.core.poll_timeout(), None);
}

#[test]
fn thousands_of_kept_acks_leave_in_batches() {
    let mut peer = Peer::default_connected();
    peer.close(1006);
    (0..4096).for_each(|n| peer.ack(&n.to_string()));
    peer.forget();
    peer.reconnect();
    let sent = peer.sent();
    assert_eq!(sent.len(), 1 + 4096 / 64);
    assert!(sent[1..].iter().all(|frame| frame.split(' ').count() == 1 + 64));
}

#[test]
fn acks_do_not_pile_up_behind_a_transport_that_takes_nothing() {
    let mut peer = Peer::connected(with(|config| config.limits.max_outbound_bytes = 10_000));
    peer.blocked = true;
    for n in 0..100_000 {
        peer.ack(&format!("a-message-with-quite-a-long-name-{n}"));
    }
    assert!(peer.core.stats().acks_dropped > 90_000);
    peer.blocked = false;
    peer.pump();
    let bytes: usize = peer.frames().iter().map(Bytes::len).sum();
    assert!((1_000..30_000).contains(&bytes), "{bytes}");
    peer.ack("m1");
    peer.advance(millis(50));
    assert!(peer.sent().last().is_some_and(|frame| frame.ends_with("m1")), "and acks go on");
}

// ---- back-pressure ----

#[test]
fn reading_stops_when_the_application_is_behind_and_goes_on_when_half_is_taken() {
    let mut peer = Peer::connected(small(OverflowPolicy::DropOldest));
    fill(&mut peer);
    peer.message();
    assert!(!peer.core.wants_input(), "three of four are left");
    peer.message();
    assert!(peer.core.wants_input());
    assert_eq!(texts(&mut peer), ["m2", "m3"]);
}

#[test]
fn retained_bytes_count_as_well_as_messages() {
    let mut peer = Peer::connected(with(|config| config.limits.max_inbound_bytes = 100_000));
    let text = "x".repeat(30_000);
    for _ in 0..3 {
        peer.deliver(TOPIC, &text);
        assert!(peer.core.wants_input());
    }
    peer.deliver(TOPIC, &text);
    assert!(!peer.core.wants_input());
    peer.message();
    peer.message();
    peer.message();
    assert!(peer.core.wants_input());
}

#[test]
fn names_count_as_retained_bytes() {
    let fields: [fn(&mut nolag_core::wire::Message<'_>); 5] = [
        |message| message.topic = Text::Str(LONG),
        |message| message.msg_id = Some(LONG),
        |message| message.filter = Some(LONG),
        |message| message.from = Some(LONG),
        |message| message.from_type = Some(LONG),
    ];
    const LONG: &str = match std::str::from_utf8(&[b'x'; 30_000]) {
        Ok(text) => text,
        Err(_) => "",
    };
    for field in fields {
        let mut peer = Peer::connected(with(|config| config.limits.max_inbound_bytes = 100_000));
        for _ in 0..4 {
            assert!(peer.core.wants_input());
            peer.deliver_with("demo/general/strange", "hello", field);
        }
        assert!(!peer.core.wants_input());
    }
}

#[test]
fn messages_that_were_on_their_way_when_reading_stopped_are_kept() {
    let mut peer = Peer::connected(small(OverflowPolicy::DropOldest));
    fill(&mut peer);
    peer.deliver(TOPIC, "m4");
    assert_eq!(texts(&mut peer), ["m0", "m1", "m2", "m3", "m4"]);
    assert!(lagged(&mut peer).is_empty());
}

#[test]
fn acks_and_outcomes_flow_while_messages_are_not_taken() {
    let mut peer = Peer::connected(small(OverflowPolicy::DropOldest));
    let op = peer.publish(TOPIC);
    let msg_ref = peer.last_ref();
    fill(&mut peer);
    peer.published(&msg_ref);
    assert_eq!(peer.outcome(op), Outcome::Acked);
    peer.sent();
    peer.ack("m0");
    peer.advance(millis(50));
    assert_eq!(peer.sent(), ["ack m0"]);
}

#[test]
fn deadlines_of_answers_stand_still_while_reading_is_paused() {
    let mut peer = Peer::connected(small(OverflowPolicy::DropOldest));
    let publish = peer.publish(TOPIC);
    let subscribe = peer.subscribe(TOPIC);
    peer.advance(secs(6));
    fill(&mut peer);
    peer.advance(secs(9));
    assert!(peer.is_pending(publish) && peer.is_pending(subscribe), "the answers may wait unread");
    peer.messages();
    peer.wake();
    peer.advance(millis(3_999));
    assert!(peer.is_pending(publish) && peer.is_pending(subscribe));
    peer.advance(millis(1));
    assert!(is_timeout(&peer.outcome(publish), Op::Publish));
    assert!(is_timeout(&peer.outcome(subscribe), Op::Subscribe));
}

#[test]
fn deadlines_go_on_when_the_pause_has_lasted_its_ten_seconds() {
    let mut peer = Peer::connected(small(OverflowPolicy::DropOldest));
    let publish = peer.publish(TOPIC);
    peer.advance(secs(6));
    fill(&mut peer);
    peer.advance(secs(10));
    assert!(peer.core.wants_input());
    peer.advance(millis(3_999));
    assert!(peer.is_pending(publish));
    peer.advance(millis(1));
    assert!(is_timeout(&peer.outcome(publish), Op::Publish));
}

#[test]
fn heartbeats_leave_while_reading_is_paused_and_their_echo_is_not_missed() {
    let mut peer = Peer::connected(with(|config| {
        config.limits.max_inbound_messages = 4;
        config.limits.max_pause = secs(100);
    }));
    peer.echo = false;
    fill(&mut peer);
    peer.advance(secs(95));
    assert_eq!(peer.heartbeats, 3);
    assert!(peer.closed().is_empty());
    peer.messages();
    peer.wake();
    peer.advance(millis(9_999));
    assert!(peer.closed().is_empty());
    peer.advance(millis(1));
    assert_eq!(peer.closed(), [1000], "now it could have been read");
}

#[test]
fn a_pause_ends_after_ten_seconds_and_then_the_oldest_messages_go() {
    let mut peer = Peer::connected(small(OverflowPolicy::DropOldest));
    let op = peer.subscribe(TOPIC);
    peer.subscribed(TOPIC);
    let Outcome::Subscribed { subscription, .. } = peer.outcome(op) else { panic!("not subscribed") };
    peer.forget();
    fill(&mut peer);
    peer.advance(millis(9_999));
    assert!(!peer.core.wants_input());
    peer.advance(millis(1));
    assert!(peer.core.wants_input(), "brokers cut readers that stall");
    peer.deliver(TOPIC, "m4");
    peer.deliver(TOPIC, "m5");
    assert!(peer.core.wants_input());
    assert_eq!(lagged(&mut peer), [(Some(subscription), 1), (Some(subscription), 1)]);
    assert_eq!(texts(&mut peer), ["m2", "m3", "m4", "m5"]);
    assert_eq!(peer.core.stats().messages_dropped, 2);
    assert_eq!(peer.core.stats().messages_received, 6);

    // The application has caught up, so it has its time again.
    fill(&mut peer);
    peer.advance(millis(9_999));
    assert!(!peer.core.wants_input());
}

#[test]
fn or_the_newest_messages_go() {
    let mut peer = Peer::connected(small(OverflowPolicy::DropNewest));
    fill(&mut peer);
    peer.advance(secs(10));
    peer.deliver(TOPIC, "m4");
    peer.deliver(TOPIC, "m5");
    assert_eq!(lagged(&mut peer), [(None, 1), (None, 1)]);
    assert_eq!(texts(&mut peer), ["m0", "m1", "m2", "m3"]);
}

#[test]
fn drops_are_summed_up_per_subscription_until_they_are_told() {
    let mut peer = Peer::connected(small(OverflowPolicy::DropNewest));
    peer.subscription(TOPIC);
    fill(&mut peer);
    peer.advance(secs(10));
    let id = peer.transport.expect("a transport");
    for topic in [TOPIC, TOPIC, "demo/general/strange"] {
        let payload = payload("x");
        let kind = TransportEventKind::Message(encode(&ServerFrame::Message(message(topic, payload.raw()))));
        peer.core.handle_transport(peer.now, TransportEvent { id, kind });
    }
    peer.pump();
    let mut counts: Vec<u64> = lagged(&mut peer).into_iter().map(|(_, count)| count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 2]);
}

#[test]
fn a_lost_connection_ends_the_pause() {
    let mut peer = Peer::connected(small(OverflowPolicy::DropOldest));
    fill(&mut peer);
    peer.close(1006);
    assert!(peer.core.wants_input());
    peer.reconnect();
    assert!(peer.core.wants_input());
    assert_eq!(texts(&mut peer), ["m0", "m1", "m2", "m3"], "what was read is still there");
}

#[test]
fn leaving_while_reading_is_paused_leaves_no_timer() {
    let mut peer = Peer::connected(small(OverflowPolicy::DropOldest));
    fill(&mut peer);
    peer.disconnect_now();
    assert_eq!(peer.core.poll_timeout(), None);
    assert_eq!(peer.messages().len(), 4);
    assert_eq!(peer.core.poll_timeout(), None);
}

#[test]
fn explain_says_that_the_application_is_behind() {
    let mut peer = Peer::connected(small(OverflowPolicy::DropOldest));
    fill(&mut peer);
    peer.advance(secs(3));
    peer.wake();
    let text = peer.core.explain();
    for words in ["4 messages for the application", "not reading for 3.0 s", "wakes in 7.0 s"] {
        assert!(text.contains(words), "{words:?} is not in {text:?}");
    }
}

#[test]
fn a_budget_of_nothing_still_lets_messages_through_one_by_one() {
    let mut peer = Peer::connected(with(|config| {
        config.limits.max_inbound_messages = 0;
        config.limits.max_inbound_bytes = 0;
    }));
    for n in 0..3 {
        peer.deliver(TOPIC, &n.to_string());
        assert!(!peer.core.wants_input());
        assert!(peer.message().is_some());
        assert!(peer.core.wants_input());
    }
}

// ---- memory ----

fn flood_message(topic: &str, len: usize) -> Bytes {
    let text = "x".repeat(len);
    let payload = payload(&text);
    encode(&ServerFrame::Message(message(topic, payload.raw())))
}

#[test]
fn unread_messages_stay_within_the_budget_whatever_their_sizes() {
    for policy in [OverflowPolicy::DropOldest, OverflowPolicy::DropNewest] {
        let mut peer = Peer::connected(with(|config| {
            config.limits.max_inbound_bytes = 1_000_000;
            config.overflow = policy;
        }));
        let small = flood_message(TOPIC, 1);
        let large = flood_message(TOPIC, 100_000);
        while peer.core.wants_input() {
            peer.bytes(small.clone());
        }
        peer.advance(secs(10));
        for _ in 0..100 {
            peer.bytes(large.clone());
        }
        let held: usize = peer.messages().iter().map(|message| message.payload().packed_len()).sum();
        assert!(held <= 1_100_000, "{policy:?} holds {held} bytes");
    }
}

#[test]
fn a_hundred_thousand_unread_messages_are_bounded_even_if_the_adapter_reads_on() {
    let mut peer = Peer::default_connected();
    let frame = flood_message(TOPIC, 10);
    for n in 0..100_000 {
        if n % 1_000 == 0 {
            peer.advance(millis(100));
        }
        peer.bytes(frame.clone());
    }
    let kept = peer.messages().len() as u64;
    assert!(kept <= 2 * 4096, "{kept}");
    assert_eq!(peer.core.stats().messages_received, 100_000);
    assert_eq!(peer.core.stats().messages_dropped, 100_000 - kept);
}

#[test]
fn reconnects_do_not_let_unread_messages_grow_past_the_budget() {
    let mut peer = Peer::connected(with(|config| {
        config.limits.max_inbound_messages = 4;
        config.reconnect.max_attempts = None;
    }));
    fill(&mut peer);
    for _ in 0..100 {
        peer.close(1006);
        peer.reconnect();
        peer.deliver(TOPIC, "retained");
    }
    assert!(peer.messages().len() <= 8);
}

#[test]
fn reports_that_nobody_takes_are_bounded() {
    let mut peer = Peer::default_connected();
    let id = peer.transport.expect("a transport");
    let error = encode(&ServerFrame::Error(nolag_core::wire::ErrorFrame {
        error: "rate_limit_exceeded",
        code: Some(42910),
        ..Default::default()
    }));
    for n in 0..10_000 {
        let bytes = if n % 2 == 0 { error.clone() } else { Bytes::from_static(b"\xc1") };
        let event = TransportEvent { id, kind: TransportEventKind::Message(bytes) };
        peer.core.handle_transport(peer.now, event);
    }
    peer.pump();
    assert_eq!(peer.events().len(), 1024);
    assert_eq!(peer.core.stats().events_dropped, 10_000 - 1024);
    peer.bytes(error);
    assert!(matches!(peer.event(), Event::ServerError(_)), "and taking them makes room");
}

#[test]
fn unsolicited_replies_leave_nothing_behind() {
    let mut peer = Peer::default_connected();
    let before = format!("{:?}", peer.core).len();
    for n in 0..10_000 {
        let topic = format!("demo/general/t{n}");
        peer.subscribed(&topic);
        peer.unsubscribed(&topic);
        peer.published(&format!("{n:x}"));
    }
    assert_eq!(peer.core.stats().frames_unexpected, 30_000);
    let after = format!("{:?}", peer.core).len();
    assert!(after < before + 100, "{before} became {after}");
    assert!(peer.events().is_empty() && peer.sent().is_empty());
}

#[test]
fn answered_work_leaves_nothing_behind() {
    let mut peer = Peer::connected(unpaced());
    let before = format!("{:?}", peer.core).len();
    for n in 0..1_000 {
        let topic = format!("demo/general/t{n}");
        peer.subscribe(&topic);
        peer.subscribed(&topic);
        peer.publish(&topic);
        let msg_ref = peer.last_ref();
        peer.published(&msg_ref);
        peer.unsubscribe(&topic);
        peer.unsubscribed(&topic);
        peer.forget();
    }
    let after = format!("{:?}", peer.core).len();
    assert!(after < before + 100, "{before} became {after}");
}

#[test]
fn a_small_message_does_not_keep_its_read_buffer_alive() {
    let mut peer = Peer::default_connected();
    let mut buffer = BytesMut::with_capacity(1 << 20);
    let payload = payload("small");
    ServerFrame::Message(message(TOPIC, payload.raw())).encode(&mut buffer);
    let frame = buffer.freeze();
    peer.bytes(frame.clone());
    assert!(frame.is_unique(), "the message was copied out");
    assert_eq!(texts(&mut peer), ["small"]);
}

// ---- before and after a subscription ----

#[test]
fn a_message_before_the_confirmation_is_not_the_new_subscriptions() {
    let mut peer = Peer::default_connected();
    peer.subscribe(TOPIC);
    peer.deliver(TOPIC, "of an earlier one");
    assert_eq!(peer.message().map(|message| message.subscription()), Some(None));
    peer.subscribed(TOPIC);
    peer.deliver(TOPIC, "ours");
    assert!(peer.message().is_some_and(|message| message.subscription().is_some()));
}

#[test]
fn a_message_that_waited_until_its_subscription_ended_is_nobodys() {
    let mut peer = Peer::default_connected();
    peer.subscription(TOPIC);
    peer.deliver(TOPIC, "early");
    peer.deliver(TOPIC, "late");
    assert!(peer.message().is_some_and(|message| message.subscription().is_some()));
    peer.unsubscribe(TOPIC);
    peer.unsubscribed(TOPIC);
    assert_eq!(peer.message().map(|message| message.subscription()), Some(None));
}
