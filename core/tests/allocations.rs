//! How often the core takes memory while messages flow. Counted, so the machine's mood does not matter.

#[path = "../benches/common/mod.rs"]
mod common;

use allocation_counter::measure;
use common::{Client, TOPIC, message_frame, payload, untracked};
use nolag_core::Publish;

const TIMES: u64 = 10_000;

/// Allocations in so many steps, once everything has grown.
fn allocations(mut step: impl FnMut()) -> u64 {
    (0..TIMES).for_each(|_| step());
    measure(|| (0..TIMES).for_each(|_| step())).count_total
}

#[test]
fn receiving_takes_no_memory_while_the_application_keeps_up() {
    let (mut client, frame) = (Client::subscribed(&[TOPIC.into()]), message_frame(TOPIC, 300));
    assert_eq!(allocations(|| drop(client.deliver(&frame))), 0);
}

#[test]
fn messages_that_are_kept_share_their_memory() {
    let (mut client, frame) = (Client::subscribed(&[TOPIC.into()]), message_frame(TOPIC, 300));
    let mut kept = Vec::with_capacity(2 * TIMES as usize);
    let count = allocations(|| kept.push(client.deliver(&frame)));
    assert!(count <= TIMES / 4, "{count} for {TIMES} messages");
}

#[test]
fn an_untracked_publish_takes_no_memory_but_its_topic() {
    let (mut client, payload) = (Client::connected(), payload(300));
    let count = allocations(|| {
        client.publish(untracked(&payload));
        client.events();
    });
    assert!(count <= TIMES + TIMES / 100, "{count} for {TIMES} publishes");
}

#[test]
fn an_acked_publish_takes_no_memory_but_its_topic_and_the_answer() {
    let (mut client, payload) = (Client::connected(), payload(300));
    let count = allocations(|| drop(client.publish_acked(Publish::new(TOPIC, payload.clone()))));
    // The answer is made by this test.
    assert!(count <= 3 * TIMES + TIMES / 100, "{count} for {TIMES} publishes");
}

#[test]
fn an_idle_client_and_a_subscription_are_small() {
    let mut idle = None;
    let heap = measure(|| idle = Some(Client::connected()));
    // The bench's own write buffer is none of the client's.
    let bytes = heap.bytes_current - (1 << 16);
    assert!(bytes <= 4096, "{bytes} bytes for an idle client");
    let topics: Vec<_> = (0..1000).map(|n| format!("demo/general/topic-{n}")).collect();
    let mut more = None;
    let heap = measure(|| more = Some(Client::subscribed(&topics)));
    let each = (heap.bytes_current - (1 << 16) - bytes) / 1000;
    assert!(each <= 400, "{each} bytes for a subscription");
    println!("idle: {bytes} bytes; a subscription: {each} bytes");
}
