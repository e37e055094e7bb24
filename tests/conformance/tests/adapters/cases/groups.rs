//! Groups that share their messages, and get what they missed.

use std::collections::BTreeMap;

use nolag::ReplayEvent;

use super::{Case, case};
use crate::world::{Log, TOPIC, World};

pub(super) const CASES: &[Case] =
    &[case!(Every, each_message_goes_to_one_member_of_a_group), case!(Every, a_group_gets_what_it_missed)];

fn each_message_goes_to_one_member_of_a_group(w: &World) {
    const MESSAGES: u32 = 20;
    let broker = w.broker();
    let publisher = w.connect(&broker, "alice");
    let log = Log::default();
    let workers = ["one", "two"].map(|name| {
        // In the group by what the client says, and by what the subscription says.
        let options = |options: nolag::Options| options.load_balance(true).load_balance_group("workers");
        let worker = match name {
            "one" => w.connect_with(&broker, name, options),
            _ => w.connect(&broker, name),
        };
        let seen = log.clone();
        worker.on(TOPIC, move |message| seen.add(format!("{name}: {}", message.data::<u32>().unwrap())));
        let subscribe = match name {
            "one" => worker.subscribe(TOPIC),
            _ => worker.subscribe(TOPIC).load_balance(true).group("workers"),
        };
        assert!(w.wait(subscribe).unwrap().load_balanced);
        worker
    });
    for n in 0..MESSAGES {
        w.wait(publisher.emit(TOPIC, &n)).unwrap();
    }
    w.until("all are done", || log.entries().len() == MESSAGES as usize);
    assert!(log.count("one") > 0 && log.count("two") > 0, "{:?}", log.entries());
    let mut seen: Vec<u32> = log.entries().iter().map(|entry| entry[5..].parse().unwrap()).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..MESSAGES).collect::<Vec<_>>());
    drop(workers);
}

fn a_group_gets_what_it_missed(w: &World) {
    let broker = w.broker_with(|broker| broker.durable_delivery(true));
    let publisher = w.connect(&broker, "alice");
    for round in 0..2 {
        let worker = w.client(&broker, "worker");
        let log = Log::default();
        let seen = log.clone();
        worker.on_replay(move |event| {
            if !matches!(event, ReplayEvent::Progress { .. }) {
                seen.add(format!("{event:?}"));
            }
        });
        let seen = log.clone();
        worker.on_any(move |message| {
            seen.add(format!("job {}, replay {}", message.data::<u32>().unwrap(), message.is_replay()));
        });
        w.wait(worker.connect()).unwrap();
        w.wait(worker.subscribe(TOPIC).load_balance(true).group("workers")).unwrap();
        // Persistent presence is what asks for a replay.
        w.wait(worker.set_presence_in("general", &BTreeMap::from([("persistent", true)]))).unwrap();
        w.heard(&log, "Ended");
        let expected: &[&str] = match round {
            0 => &["Started { count: 0 }", "Ended { replayed: 0 }"],
            _ => {
                &["Started { count: 2 }", "job 1, replay true", "job 2, replay true", "Ended { replayed: 2 }"]
            }
        };
        assert_eq!(log.entries(), expected);
        w.wait(worker.close());
        w.connections(&broker, 1);
        for n in [1, 2] {
            w.wait(publisher.emit(TOPIC, &n)).unwrap();
        }
    }
}
