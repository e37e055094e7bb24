//! A broker that is killed under load, again and again.

#![cfg(unix)]

mod common;

use std::{collections::BTreeSet, net::TcpListener, sync::mpsc, time::Duration};

use common::{ALICE, BOB, DEADLINE, Running, TOPIC, nolag, start};
use nolag::{Client, Options, TypedMessages};

/// As often as it is killed.
const ROUNDS: u64 = 10;

/// Published in each round, within the limit of a second; the broker is killed after half of them.
const EACH: u64 = 40;

/// A broker in a process of its own, on a port that stays the same.
fn broker(port: u16) -> Running {
    let mut running = start(&mut nolag(["dev", "--port", &port.to_string(), "--json"]));
    running.event("ready");
    running
}

fn options(port: u16) -> Options {
    Options::new(format!("ws://127.0.0.1:{port}/ws"))
        .reconnect_interval(Duration::from_millis(20))
        .reconnect_stable_after(Duration::ZERO)
        .max_reconnect_attempts(None)
        .resend_unconfirmed(true)
        .offline_queue(10_000, 1 << 20, None)
        .publish_rate(None)
}

/// What is heard up to a number.
async fn heard_until(messages: &mut TypedMessages<u64>, last: u64, heard: &mut Vec<u64>) {
    while heard.last() != Some(&last) {
        let message = tokio::time::timeout(DEADLINE, messages.next()).await.expect("in time");
        heard.push(*message.expect("the stream goes on").expect("a number").data());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_killed_under_load_loses_no_publish_and_no_subscription() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut running = broker(port);
    let (alice, bob) = (Client::new(ALICE, options(port)), Client::new(BOB, options(port)));
    alice.connect().await.unwrap();
    bob.connect().await.unwrap();
    let mut messages = bob.subscribe(TOPIC).stream::<u64>().await.unwrap();
    let (tell, told) = mpsc::channel();
    let (mut accepted, mut heard) = (0, Vec::new());
    for round in 1..=ROUNDS {
        for number in 0..EACH {
            if number == EACH / 2 {
                // SIGKILL, with answers and deliveries under way.
                running.child.kill().unwrap();
                running.child.wait().unwrap();
            }
            let tell = tell.clone();
            alice
                .emit(TOPIC, &(round * 1_000 + number))
                .callback(move |outcome| _ = tell.send(outcome))
                .unwrap();
            accepted += 1;
        }
        running = broker(port);
        // Both come back by themselves; a message goes through when both have.
        let probe = round * 1_000 + 999;
        let mut watch = bob.watch_status();
        assert!(watch.wait_for(nolag::Status::Connected).await);
        while bob.stats().core.sessions <= round {
            tokio::task::yield_now().await;
        }
        while bob.subscriptions().iter().any(|subscription| !subscription.live) {
            tokio::task::yield_now().await;
        }
        alice.emit(TOPIC, &probe).await.unwrap();
        heard_until(&mut messages, probe, &mut heard).await;
    }
    // Every one ended, and every one as confirmed.
    for _ in 0..accepted {
        let outcome = told.recv_timeout(DEADLINE).expect("each publish has an outcome");
        outcome.expect("it was confirmed, by one broker or the next");
    }
    // First copies came in order; what was heard again had been under way when the broker died.
    let mut seen = BTreeSet::new();
    let first: Vec<u64> = heard.into_iter().filter(|number| seen.insert(*number)).collect();
    assert!(first.is_sorted(), "{first:?}");
    assert_eq!(bob.stats().core.sessions, ROUNDS + 1);
}
