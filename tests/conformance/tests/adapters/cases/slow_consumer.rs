//! An application that is slower than the broker.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nolag::{Client, ErrorEvent, Options, OverflowPolicy};
use nolag_broker::{BlockingTestBroker, Limits};
use tokio::sync::Semaphore;

use super::{Case, case};
use crate::world::{TOPIC, World, channel};

pub(super) const CASES: &[Case] = &[
    case!(One, a_slow_stream_stops_the_reading_and_loses_nothing),
    case!(One, a_slow_handler_stops_the_reading_and_loses_nothing),
    case!(One, behind_for_too_long_the_oldest_go),
    case!(One, behind_for_too_long_the_newest_go_when_asked),
    case!(One, a_dropped_stream_does_not_hold_back_the_others),
];

const MESSAGES: u32 = 2000;

/// Messages that wait for the application before the client stops reading, and those that its stream holds.
const LIMIT: usize = 64;
const BUFFER: usize = 8;

/// Messages that wait for handlers.
const HANDLER_QUEUE: usize = 256;

fn broker(w: &World) -> BlockingTestBroker {
    w.broker_with(|broker| broker.limits(Limits::NONE))
}

fn small(options: Options) -> Options {
    options.inbound_limits(LIMIT, 1 << 20)
}

/// Publishes numbers that take some room, without waiting.
fn publish(w: &World, broker: &BlockingTestBroker) -> Client {
    let publisher = w.connect_with(broker, "publisher", |options| options.publish_rate(None));
    for n in 0..MESSAGES {
        publisher.emit(TOPIC, &(n, "x".repeat(500))).send().unwrap();
    }
    publisher
}

fn a_slow_stream_stops_the_reading_and_loses_nothing(w: &World) {
    let broker = broker(w);
    let client = w.connect_with(&broker, "alice", small);
    let mut messages = w.wait(client.subscribe(TOPIC).buffer(BUFFER).stream::<(u32, String)>()).unwrap();
    let publisher = publish(w, &broker);
    w.wait(publisher.flush());
    w.until("it stops reading", || client.explain().contains("not reading"));
    // What was already on its way when the limit was reached is kept, but no more than as much again.
    let held = client.stats().core.messages_received as usize;
    assert!(held <= 2 * LIMIT + BUFFER, "{held} messages held");
    // Nothing else is held back.
    w.wait(client.emit("demo/general/other", "meanwhile").untracked()).unwrap();
    let numbers: Vec<u32> = w.take(&mut messages, MESSAGES as usize).into_iter().map(|(n, _)| n).collect();
    assert_eq!(numbers, (0..MESSAGES).collect::<Vec<_>>());
    assert_eq!(client.stats().core.messages_dropped, 0);
}

fn a_slow_handler_stops_the_reading_and_loses_nothing(w: &World) {
    let broker = broker(w);
    let client = w.connect_with(&broker, "alice", small);
    let gate = Arc::new(Semaphore::new(0));
    let (tell, told) = channel();
    let handler_gate = gate.clone();
    client.on(TOPIC, move |message| {
        let (gate, tell) = (handler_gate.clone(), tell.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            tell.send(message.data::<(u32, String)>().unwrap().0);
        }
    });
    w.wait(client.subscribe(TOPIC)).unwrap();
    let _publisher = publish(w, &broker);
    w.until("it stops reading", || client.explain().contains("not reading"));
    let held = client.stats().core.messages_received as usize;
    assert!(held <= 2 * LIMIT + HANDLER_QUEUE + 1, "{held} messages held");
    gate.add_permits(MESSAGES as usize);
    for n in 0..MESSAGES {
        assert_eq!(w.receive(&told), n);
    }
    assert_eq!(client.stats().core.messages_dropped, 0);
}

/// Lets a reader stay behind for longer than allowed. Returns what it still gets; what it does not get was told to be
/// lost.
fn stay_behind(w: &World, policy: OverflowPolicy) -> Vec<u32> {
    let broker = broker(w);
    let pause = Duration::from_millis(20);
    let client = w.connect_with(&broker, "alice", |options| small(options).max_pause(pause).overflow(policy));
    let lost = Arc::new(AtomicU64::new(0));
    let counter = lost.clone();
    client.on_error(move |event| match event {
        ErrorEvent::Lagged { topic, count } => {
            assert_eq!(topic.as_deref(), Some(TOPIC));
            counter.fetch_add(count, Ordering::SeqCst);
        }
        other => panic!("{other}"),
    });
    let messages = w.wait(client.subscribe(TOPIC).buffer(BUFFER).stream::<(u32, String)>()).unwrap();
    let publisher = publish(w, &broker);
    w.wait(publisher.flush());
    w.until("all arrive", || client.stats().core.messages_received == u64::from(MESSAGES));
    let (tell, told) = channel();
    w.start(client.close(), tell);
    let numbers: Vec<u32> = w.rest(messages).into_iter().map(|(n, _)| n).collect();
    w.receive(&told);
    let missing = u64::from(MESSAGES) - numbers.len() as u64;
    assert_eq!((lost.load(Ordering::SeqCst), client.stats().core.messages_dropped), (missing, missing));
    assert!(missing > 0 && numbers.is_sorted(), "{} of {MESSAGES} came", numbers.len());
    numbers
}

fn behind_for_too_long_the_oldest_go(w: &World) {
    let numbers = stay_behind(w, OverflowPolicy::DropOldest);
    assert_eq!(numbers.last(), Some(&(MESSAGES - 1)));
}

fn behind_for_too_long_the_newest_go_when_asked(w: &World) {
    let numbers = stay_behind(w, OverflowPolicy::DropNewest);
    assert_eq!(numbers, (0..numbers.len() as u32).collect::<Vec<_>>());
}

fn a_dropped_stream_does_not_hold_back_the_others(w: &World) {
    let broker = broker(w);
    let (client, publisher) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    let slow = w.wait(client.subscribe(TOPIC).buffer(1).messages()).unwrap();
    let mut quick = w.wait(client.subscribe("demo/general/quick").messages()).unwrap();
    for n in 0..3 {
        w.wait(publisher.emit(TOPIC, &n)).unwrap();
    }
    w.wait(publisher.emit("demo/general/quick", "at last")).unwrap();
    // The quick one waits behind the slow one, until that is gone.
    w.until("all arrive", || client.stats().core.messages_received == 4);
    drop(slow);
    assert_eq!(w.message(&mut quick).payload().text(), Some("at last"));
}
