//! What a test can ask of its broker: faults, actors, and what was recorded.

use std::time::{Duration, Instant};

use nolag_broker::{Direction, Expected, Fault, NewActor, TestBroker};
use serde_json::json;
use tokio::task::JoinSet;

use crate::{Client, TOPIC, until};

fn publish(reference: &str) -> serde_json::Value {
    json!({"type": "publish", "topic": TOPIC, "data": 1, "msgRef": reference})
}

#[tokio::test]
async fn authentication_fails_twice_and_then_works() {
    let fault = Fault::refuse("broker_unavailable").on("auth").times(2);
    let broker = TestBroker::builder().fault(fault).start().await;
    for expected in [json!(false), json!(false), json!(true)] {
        let mut client = Client::open(&broker.url()).await;
        client.send(json!({"type": "auth", "token": broker.token("alice")})).await;
        assert_eq!(client.next().await["success"], expected);
    }
    let attempts = broker.recorder().expect(Expected::from_client("auth").times(3)).await;
    assert_eq!(attempts[0].fault.as_deref(), Some("refuse=broker_unavailable"));
    assert_eq!(attempts[2].fault, None);
}

#[tokio::test]
async fn connections_are_cut_as_they_open() {
    let broker = TestBroker::builder().fault(Fault::cut().on_open().times(1)).start().await;
    let mut first = Client::open(&broker.url()).await;
    assert_eq!(first.closed().await, None);
    Client::connect(&broker.url(), &broker.token("alice")).await;
}

#[tokio::test]
async fn a_held_reply_comes_when_the_fault_is_removed() {
    let broker = TestBroker::start().await;
    let hold = broker.fault(Fault::hold().on_reply("published").times(1)).await;
    let mut alice = Client::connect(&broker.url(), &broker.token("alice")).await;
    alice.send(publish("first")).await;
    alice.send(publish("second")).await;
    assert_eq!(alice.next().await["msgRef"], "second");
    assert!(broker.remove_fault(hold).await);
    assert_eq!(alice.next().await["msgRef"], "first");
    assert!(!broker.remove_fault(hold).await);
}

#[tokio::test]
async fn a_delayed_reply_comes_later_by_itself() {
    let broker = TestBroker::start().await;
    broker.fault(Fault::delay(Duration::from_millis(100)).on_reply("subscribed")).await;
    let mut alice = Client::connect(&broker.url(), &broker.token("alice")).await;
    let asked = Instant::now();
    alice.send(json!({"type": "subscribe", "topic": TOPIC})).await;
    alice.send(publish("overtakes")).await;
    let types = [alice.next().await["type"].clone(), alice.next().await["type"].clone()];
    assert_eq!(types, ["published", "message"]);
    assert_eq!(alice.next().await["type"], "subscribed");
    assert!(asked.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn a_silent_link_stays_open_until_it_is_cut() {
    let broker = TestBroker::start().await;
    let mut alice = Client::connect(&broker.url(), &broker.token("alice")).await;
    broker.fault(Fault::silence().on("publish").times(1)).await;
    alice.send(publish("lost")).await;
    alice.send(publish("lost too")).await;
    broker.recorder().expect(Expected::from_client("publish").times(1)).await;
    assert_eq!(broker.connections().await.len(), 1);
    broker.cut_all().await;
    assert_eq!(alice.closed().await, None);
}

#[tokio::test]
async fn an_added_actor_may_do_what_it_was_given() {
    let broker = TestBroker::start().await;
    let reader = NewActor::new("reader").of_type("agent").can_subscribe("demo/general/#").can_watch("online");
    let token = broker.add_actor(reader).await;
    let mut client = Client::open(&broker.url()).await;
    client.send(json!({"type": "auth", "token": token, "protocolVersion": 2})).await;
    let reply = client.next().await;
    assert_eq!((&reply["actorTokenId"], &reply["actorType"]), (&json!("reader"), &json!("agent")));
    client.send(json!({"type": "subscribe", "topic": TOPIC})).await;
    assert_eq!(client.next().await["type"], "subscribed");
    client.send(publish("x")).await;
    assert_eq!(client.next().await["code"], 42940);
    client.send(json!({"type": "presence", "roomId": "general", "data": 1})).await;
    assert_eq!(client.next().await["event"], "join");
    client.send(json!({"type": "lobbySubscribe", "lobbyId": "other"})).await;
    assert_eq!(client.next().await["event"], "update");
    assert_eq!(client.next().await["error"], "not_authorized");
    // Others still may do everything, and meet the new actor on the same topics.
    let mut alice = Client::connect(&broker.url(), &broker.token("alice")).await;
    alice.send(publish("y")).await;
    assert_eq!(client.next().await["data"], 1);
}

#[tokio::test]
async fn the_recorder_waits_for_what_is_expected() {
    let broker = TestBroker::start().await;
    let url = broker.url();
    let token = broker.token("alice");
    let late = tokio::spawn(async move {
        let mut alice = Client::connect(&url, &token).await;
        for reference in ["a", "b"] {
            alice.send(publish(reference)).await;
            alice.next().await;
        }
        alice
    });
    let expected = Expected::from_client("publish").topic("demo/+/messages").actor("alice").times(2);
    let seen = broker.recorder().expect(expected.within(crate::PATIENCE)).await;
    assert!(seen.iter().all(|frame| frame.direction == Direction::FromClient && !frame.bytes().is_empty()));
    drop(late.await);
}

#[tokio::test]
async fn a_failed_expectation_lists_what_was_recorded_instead() {
    let broker = TestBroker::start().await;
    let mut alice = Client::connect(&broker.url(), &broker.token("alice")).await;
    alice.send(publish("a")).await;
    alice.next().await;
    let few = Expected::from_client("publish").times(3).within(Duration::from_millis(50));
    let many = Expected::from_client("publish").times(0).within(crate::PATIENCE);
    for (expected, start) in [(few, "expected 3 × `publish`"), (many, "expected 0 × `publish`")] {
        let url = broker.url();
        let failed = {
            let recorder = broker.recorder();
            let attempt = std::panic::AssertUnwindSafe(recorder.expect(expected));
            futures_util::FutureExt::catch_unwind(attempt).await.unwrap_err()
        };
        let text = failed.downcast_ref::<String>().unwrap();
        assert!(text.contains("test_broker.rs:"), "{text}");
        assert!(text.contains(start) && text.contains("recorded 1\n"), "{text}");
        assert!(text.contains(r#"alice -> publish {"data": 1"#), "{text}");
        assert!(text.contains("(a token)") && !text.contains("dev-token") && !text.contains(&url), "{text}");
    }
}

#[tokio::test]
async fn an_expired_token_ends_the_connection_at_the_next_heartbeat() {
    let broker = TestBroker::start().await;
    let mut alice = Client::connect(&broker.url(), &broker.token("alice")).await;
    broker.expire_token(broker.connections().await[0].id).await;
    alice.send_heartbeat().await;
    assert_eq!(alice.next().await, json!({"type": "disconnect", "reason": "token_expired"}));
    assert_eq!(alice.closed().await.map(u16::from), Some(4003));
}

#[tokio::test]
async fn two_hundred_brokers_run_side_by_side() {
    let mut tasks = JoinSet::new();
    for n in 0..200 {
        tasks.spawn(async move {
            let broker = TestBroker::start().await;
            let actor = format!("actor {n}");
            let _client = Client::connect(&broker.url(), &broker.token(&actor)).await;
            until(|| async { broker.connections().await.len() == 1 }).await;
            assert_eq!(broker.connections().await[0].actor_id.as_deref(), Some(actor.as_str()));
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}
