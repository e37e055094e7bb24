//! Messages that the broker records, and telling it that they were processed.

use std::time::Duration;

use nolag::Client;
use nolag_broker::{BlockingTestBroker, Expected};

use super::{Case, case};
use crate::world::{Log, TOPIC, World};

pub(super) const CASES: &[Case] = &[
    case!(Every, a_message_is_acknowledged_when_its_last_clone_is_dropped),
    case!(Every, a_broker_that_records_nothing_hears_nothing),
    case!(One, acknowledgements_are_sent_together_when_asked),
    case!(One, a_message_whose_handler_panicked_is_not_acknowledged),
    case!(One, a_message_that_nobody_listens_to_is_acknowledged),
];

/// Publishes numbers from another client.
fn publish(w: &World, broker: &BlockingTestBroker, numbers: std::ops::RangeInclusive<u32>) {
    let publisher = w.connect(broker, "publisher");
    for n in numbers {
        w.wait(publisher.emit(TOPIC, &n)).unwrap();
    }
    w.wait(publisher.close());
}

/// Acknowledges each at once, so that frames can be counted.
fn connect(w: &World, broker: &BlockingTestBroker) -> Client {
    w.connect_with(broker, "alice", |options| options.ack_batch(1, Duration::ZERO))
}

fn a_message_is_acknowledged_when_its_last_clone_is_dropped(w: &World) {
    let broker = w.broker();
    let client = connect(w, &broker);
    let mut messages = w.wait(client.subscribe(TOPIC).messages()).unwrap();
    publish(w, &broker, 1..=3);
    let [first, second, third] = [(); 3].map(|()| w.message(&mut messages));
    let ids = [&first, &second, &third].map(|message| message.msg_id().unwrap().to_owned());
    let acks = Expected::from_client("ack");
    let acked = |count| {
        let frames = w.frames(&broker, &acks, count);
        frames
            .iter()
            .map(|frame| ids.iter().position(|id| frame.to_string().contains(id)))
            .collect::<Vec<_>>()
    };
    let handle = first.ack_manually().unwrap();
    drop(first);
    let clone = second.clone();
    drop(second);
    drop(third);
    assert_eq!(acked(1), [Some(2)]);
    drop(clone);
    assert_eq!(acked(2), [Some(2), Some(1)]);
    handle.ack();
    assert_eq!(acked(3), [Some(2), Some(1), Some(0)]);
}

fn a_broker_that_records_nothing_hears_nothing(w: &World) {
    let broker = w.broker_with(|broker| broker.record_messages(false));
    let client = connect(w, &broker);
    let mut messages = w.wait(client.subscribe(TOPIC).messages()).unwrap();
    publish(w, &broker, 1..=1);
    let message = w.message(&mut messages);
    assert!(message.msg_id().is_none() && message.ack_manually().is_none());
    drop(message);
    w.wait(client.close());
    assert!(w.frames(&broker, &Expected::from_client("ack"), 0).is_empty());
}

fn acknowledgements_are_sent_together_when_asked(w: &World) {
    let broker = w.broker();
    let hour = Duration::from_secs(3600);
    let client = w.connect_with(&broker, "alice", |options| options.ack_batch(3, hour));
    let mut messages = w.wait(client.subscribe(TOPIC).messages()).unwrap();
    publish(w, &broker, 1..=4);
    for _ in 0..4 {
        drop(w.message(&mut messages));
    }
    assert_eq!(w.frames(&broker, &Expected::from_client("batchAck"), 1).len(), 1);
    assert!(w.frames(&broker, &Expected::from_client("ack"), 0).is_empty());
    // Leaving holds nothing back.
    w.wait(client.close());
    assert_eq!(w.frames(&broker, &Expected::from_client("ack"), 1).len(), 1);
}

fn a_message_whose_handler_panicked_is_not_acknowledged(w: &World) {
    let broker = w.broker();
    let client = connect(w, &broker);
    let log = Log::watch(&client);
    client.on(TOPIC, |message| assert_ne!(message.data(), Ok(1), "on purpose: one is too few"));
    client
        .on(TOPIC, |message| async move { assert_ne!(message.data(), Ok(2), "on purpose: two is too many") });
    w.wait(client.subscribe(TOPIC)).unwrap();
    publish(w, &broker, 1..=3);
    w.heard(&log, "one is too few");
    w.heard(&log, "two is too many");
    let acks = w.frames(&broker, &Expected::from_client("ack"), 1);
    assert_eq!(acks.len(), 1, "only of the third: {acks:?}");
}

fn a_message_that_nobody_listens_to_is_acknowledged(w: &World) {
    let broker = w.broker();
    let client = connect(w, &broker);
    w.wait(client.subscribe(TOPIC)).unwrap();
    publish(w, &broker, 1..=1);
    w.frames(&broker, &Expected::from_client("ack"), 1);
    assert_eq!(client.stats().messages_unheard, 1);
}
