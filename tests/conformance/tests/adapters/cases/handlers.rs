//! Functions that the client calls.

use std::{
    future,
    panic::panic_any,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use nolag::{Client, HandlerId, Message};
use nolag_broker::BlockingTestBroker;
use tokio::sync::Semaphore;

use super::{Case, case};
use crate::{
    fixtures::Bomb,
    world::{Log, TOPIC, World},
};

pub(super) const CASES: &[Case] = &[
    case!(One, handlers_need_not_be_async_and_run_in_order),
    case!(One, handlers_can_be_removed_one_by_one_and_all_at_once),
    case!(One, handlers_outlive_the_session),
    case!(One, a_panic_is_reported_and_isolated),
    case!(One, a_panic_that_panics_when_it_is_dropped_is_isolated),
    case!(One, a_panic_in_an_error_handler_does_not_go_round_in_circles),
    case!(One, a_spawned_handler_holds_up_no_other_and_keeps_its_order),
    case!(One, callbacks_come_behind_the_handlers_of_what_was_before),
];

/// A client that is subscribed, and another that can publish to it.
fn pair(w: &World) -> (BlockingTestBroker, Client, Client) {
    let broker = w.broker();
    let (client, publisher) = (w.connect(&broker, "alice"), w.connect(&broker, "bob"));
    w.wait(client.subscribe(TOPIC)).unwrap();
    (broker, client, publisher)
}

fn handlers_need_not_be_async_and_run_in_order(w: &World) {
    let broker = w.broker();
    let client = w.client(&broker, "alice");
    // They may exist before the connection.
    let room = client.app("demo").room("general");
    let log = Log::default();
    let seen = log.clone();
    client.on_any(move |message| seen.add(format!("any {}", message.data::<u32>().unwrap())));
    let seen = log.clone();
    room.on("messages", move |message| seen.add(format!("sync {}", message.data::<u32>().unwrap())));
    let seen = log.clone();
    room.on("messages", move |message| {
        let seen = seen.clone();
        async move {
            tokio::task::yield_now().await;
            seen.add(format!("async {}", message.data::<u32>().unwrap()));
        }
    });
    w.wait(client.connect()).unwrap();
    w.wait(room.subscribe("messages")).unwrap();
    let publisher = w.connect(&broker, "bob");
    for n in 1..=2 {
        w.wait(publisher.emit(TOPIC, &n)).unwrap();
    }
    w.until("all were called", || log.entries().len() == 6);
    assert_eq!(log.entries(), ["sync 1", "async 1", "any 1", "sync 2", "async 2", "any 2"]);
}

fn handlers_can_be_removed_one_by_one_and_all_at_once(w: &World) {
    let (_broker, client, publisher) = pair(w);
    let log = Log::default();
    let add = |name: &'static str| {
        let log = log.clone();
        move |_| log.add(name)
    };
    let room = client.app("demo").room("general");
    let first = room.on("messages", add("first"));
    room.on("messages", add("second"));
    let any = client.on_any(add("any one"));
    client.on_any(add("any two"));
    assert!(room.off(first) && !room.off(first));
    assert!(client.off_any(any) && !client.off_any(any) && !client.off_any(first));
    w.wait(publisher.emit(TOPIC, &1)).unwrap();
    w.heard(&log, "any two");
    assert_eq!(log.entries(), ["second", "any two"]);
    assert_eq!((room.off_all("messages"), client.off_all_any()), (1, 1));
    assert_eq!((room.off_all("messages"), client.off_all_any()), (0, 0));
    w.wait(publisher.emit(TOPIC, &2)).unwrap();
    w.until("nobody hears it", || client.stats().messages_unheard == 1);
    assert_eq!(log.entries().len(), 2);
}

fn handlers_outlive_the_session(w: &World) {
    let (broker, client, publisher) = pair(w);
    let log = Log::default();
    let seen = log.clone();
    client.on(TOPIC, move |message| seen.add(message.payload().text().unwrap()));
    w.wait(client.close());
    w.connections(&broker, 1);
    w.wait(client.connect()).unwrap();
    w.wait(client.subscribe(TOPIC)).unwrap();
    w.wait(publisher.emit(TOPIC, "still here")).unwrap();
    w.heard(&log, "still here");
}

fn a_panic_is_reported_and_isolated(w: &World) {
    let (_broker, client, publisher) = pair(w);
    let log = Log::watch(&client);
    client.on(TOPIC, |message| assert!(message.data() != Ok(1), "on purpose: one is too few"));
    client
        .on(TOPIC, |message| async move { assert!(message.data() != Ok(2), "on purpose: two is too many") });
    client.spawned().on(TOPIC, |message| assert!(message.data() != Ok(3), "on purpose: three is a crowd"));
    let seen = log.clone();
    client.on(TOPIC, move |message| seen.add(format!("got {}", message.data::<u32>().unwrap())));
    for n in 1..=3 {
        w.wait(publisher.emit(TOPIC, &n)).unwrap();
    }
    for text in ["one is too few", "two is too many", "three is a crowd", "got 1", "got 2", "got 3"] {
        w.heard(&log, text);
    }
    assert_eq!(log.count("error: a handler panicked"), 3, "{:?}", log.entries());
    w.wait(client.emit("demo/general/other", "the client goes on")).unwrap();
}

fn a_panic_that_panics_when_it_is_dropped_is_isolated(w: &World) {
    let broker = w.broker();
    let armed = Arc::new(AtomicBool::new(false));
    let dump_armed = armed.clone();
    let client = w.connect_with(&broker, "alice", |options| {
        options.frame_dump(move |_, _| {
            if dump_armed.swap(false, Ordering::Relaxed) {
                panic_any(Bomb);
            }
        })
    });
    let publisher = w.connect(&broker, "bob");
    let log = Log::watch(&client);
    client.on_error(|_| -> () { panic_any(Bomb) });
    armed.store(true, Ordering::Relaxed);
    w.wait(client.subscribe(TOPIC)).unwrap();
    let is = |message: &Message, n: u32| message.data() == Ok(n);
    client.on(TOPIC, move |message| {
        if is(&message, 1) {
            panic_any(Bomb);
        }
    });
    client.on(TOPIC, move |message| async move {
        if is(&message, 2) {
            panic_any(Bomb);
        }
    });
    client.spawned().on(TOPIC, move |message| {
        if is(&message, 3) {
            panic_any(Bomb);
        }
    });
    // Futures and handlers panic when they are dropped.
    client.on(TOPIC, move |message| {
        let bomb = is(&message, 4).then(|| Bomb);
        future::poll_fn(move |_| {
            let _held = &bomb;
            Poll::Ready(())
        })
    });
    let own: Arc<Mutex<Option<HandlerId>>> = Arc::default();
    let (bomb, weak, id) = (Bomb, client.downgrade(), own.clone());
    *own.lock().unwrap() = Some(client.on(TOPIC, move |message| {
        let _held = &bomb;
        if is(&message, 5) {
            weak.upgrade().unwrap().off(id.lock().unwrap().unwrap());
        }
    }));
    let seen = log.clone();
    client.on_any(move |message| seen.add(format!("got {}", message.data::<u32>().unwrap())));
    for n in 1..=5 {
        w.wait(publisher.emit(TOPIC, &n)).unwrap();
    }
    for n in 1..=5 {
        w.heard(&log, &format!("got {n}"));
    }
    client.emit("demo/general/other", &1).callback(|_| panic_any(Bomb)).unwrap();
    // One for the frame, the five messages and the callback.
    w.until("all are told", || log.count("error: a handler panicked") == 7);
    w.wait(client.close());
    assert_eq!(log.count("disconnect: the client was disconnected by the application"), 1);
}

fn a_panic_in_an_error_handler_does_not_go_round_in_circles(w: &World) {
    let (_broker, client, publisher) = pair(w);
    let log = Log::default();
    let seen = log.clone();
    client.on_error(move |error| {
        seen.add(format!("error: {error}"));
        assert!(error.op().is_some(), "on purpose: no errors, please");
    });
    client.on(TOPIC, |message| assert!(message.filter().is_some(), "on purpose: no messages, please"));
    for n in 1..=2 {
        w.wait(publisher.emit(TOPIC, &n)).unwrap();
        w.until("it is told once", || log.entries().len() == n);
    }
    w.wait(client.close());
    assert!(log.entries().iter().all(|entry| entry.ends_with("no messages, please")), "{:?}", log.entries());
}

fn a_spawned_handler_holds_up_no_other_and_keeps_its_order(w: &World) {
    let (_broker, client, publisher) = pair(w);
    let log = Log::default();
    let gate = Arc::new(Semaphore::new(0));
    let (seen, handler_gate) = (log.clone(), gate.clone());
    client.spawned().on(TOPIC, move |message| {
        let (seen, gate) = (seen.clone(), handler_gate.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            seen.add(format!("slow {}", message.data::<u32>().unwrap()));
        }
    });
    let seen = log.clone();
    client.on_any(move |message| seen.add(format!("quick {}", message.data::<u32>().unwrap())));
    for n in 1..=3 {
        w.wait(publisher.emit(TOPIC, &n)).unwrap();
    }
    w.heard(&log, "quick 3");
    assert_eq!(log.count("slow"), 0);
    gate.add_permits(3);
    // Closing waits for it, too.
    w.wait(client.close());
    assert_eq!(log.entries(), ["quick 1", "quick 2", "quick 3", "slow 1", "slow 2", "slow 3"]);
}

fn callbacks_come_behind_the_handlers_of_what_was_before(w: &World) {
    let (_broker, client, _publisher) = pair(w);
    let log = Log::default();
    let gate = Arc::new(Semaphore::new(0));
    let (seen, handler_gate) = (log.clone(), gate.clone());
    client.on(TOPIC, move |_| {
        let (seen, gate) = (seen.clone(), handler_gate.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            seen.add("handler");
        }
    });
    // Its own copy arrives right behind the confirmation, and holds up what is asked after it.
    w.wait(client.emit(TOPIC, &1)).unwrap();
    w.until("the copy arrives", || client.stats().core.messages_received == 1);
    let seen = log.clone();
    client.unsubscribe(TOPIC).callback(move |outcome| seen.add(format!("callback: {outcome:?}"))).unwrap();
    w.wait(client.flush());
    assert!(log.entries().is_empty(), "{:?}", log.entries());
    gate.add_permits(1);
    w.heard(&log, "callback");
    assert_eq!(log.entries(), ["handler", "callback: Ok(())"]);
}
