//! The ways of a message through the core: bytes to message, command to bytes, command to outcome; and how their cost
//! grows with what the client holds.
#![allow(missing_docs, unused_crate_dependencies, reason = "a bench")]

mod common;

use common::{Client, TOPIC, message_frame, payload, presence_frame, untracked};
use divan::{Bencher, black_box};
use nolag_core::Publish;

const SIZES: [usize; 3] = [64, 300, 4096];

fn main() {
    divan::main();
}

#[divan::bench(args = SIZES)]
fn receive(bencher: Bencher<'_, '_>, size: usize) {
    let mut client = Client::subscribed(&[TOPIC.into()]);
    let frame = message_frame(TOPIC, size);
    bencher.bench_local(|| client.deliver(black_box(&frame)));
}

/// Of each topic in turn.
#[divan::bench(args = [1, 100, 100_000], sample_count = 20)]
fn receive_with_subscriptions(bencher: Bencher<'_, '_>, subscriptions: usize) {
    let topics: Vec<_> = (0..subscriptions).map(|n| format!("demo/general/topic-{n}")).collect();
    let mut client = Client::subscribed(&topics);
    let frames: Vec<_> = topics.iter().take(100).map(|topic| message_frame(topic, 300)).collect();
    let mut turn = frames.iter().cycle();
    bencher.bench_local(|| client.deliver(black_box(turn.next().expect("endless"))));
}

#[divan::bench(args = SIZES)]
fn publish_untracked(bencher: Bencher<'_, '_>, size: usize) {
    let mut client = Client::connected();
    let payload = payload(size);
    bencher.bench_local(|| {
        client.publish(untracked(black_box(&payload)));
        client.events()
    });
}

#[divan::bench(args = SIZES)]
fn publish_acked(bencher: Bencher<'_, '_>, size: usize) {
    let mut client = Client::connected();
    let payload = payload(size);
    bencher.bench_local(|| client.publish_acked(Publish::new(TOPIC, black_box(&payload).clone())));
}

/// While so many others wait for their answers.
#[divan::bench(args = [1, 10_000], sample_count = 20)]
fn publish_acked_with_pending(bencher: Bencher<'_, '_>, pending: usize) {
    let mut client = Client::connected();
    let payload = payload(300);
    for _ in 0..pending {
        client.publish(Publish::new(TOPIC, payload.clone()));
    }
    bencher.bench_local(|| client.publish_acked(Publish::new(TOPIC, black_box(&payload).clone())));
}

/// A change of presence in a room with so many members.
#[divan::bench(args = [1, 100, 10_000], sample_count = 20)]
fn presence_among_members(bencher: Bencher<'_, '_>, members: usize) {
    let mut client = Client::connected();
    let data = payload(64);
    client.core.set_presence(client.now, "general", data.clone()).expect("accepted");
    client.transmit();
    // The first is ourselves.
    let frames: Vec<_> =
        (1..=members).map(|n| presence_frame("update", &format!("actor-{n}"), &data)).collect();
    frames.iter().for_each(|frame| client.receive(frame.clone()));
    client.events();
    let mut turn = frames.iter().cycle();
    bencher.bench_local(|| {
        client.receive(black_box(turn.next().expect("endless")).clone());
        assert_eq!(client.events(), 1);
    });
}
