//! What a topic is hydrated with after a subscribe.

use nolag_broker::{BrokerConfig, Profile};
use serde_json::json;

use crate::world::World;

const AUTH: &str = r##"{"tokens": {
    "t-ann": {"actorTokenId": "ann", "allowedTopics": [
        {"pattern": "port/north/messages", "topic": "r1/messages"}, {"pattern": "port/north/jobs", "topic": "r1/jobs"},
        {"pattern": "yard/gate/messages", "topic": "r2/messages"}],
        "activeSubscriptions": ["port/north/jobs"]}},
    "dev": {"hydration": {"port": {"messages": {"last": [1, 2]}, "#": "anything"}}}}"##;

#[test]
fn a_hydrated_topic_gets_its_body_after_the_retained_messages() {
    let mut world = World::with_auth(BrokerConfig::default(), AUTH);
    let ann = world.connect("ann");
    world.send(ann, json!({"type": "publish", "topic": "port/north/messages", "data": 0, "retain": true}));
    let frames = world.ask(ann, json!({"type": "subscribe", "topic": "port/north/messages"}));
    let types: Vec<_> = frames.iter().map(|frame| &frame["type"]).collect();
    assert_eq!(types, ["subscribed", "message", "hydration"]);
    assert_eq!(frames[2], json!({"type": "hydration", "topic": "messages", "data": {"last": [1, 2]}}));
    let again = world.ask(ann, json!({"type": "subscribe", "topic": "port/north/messages"}));
    assert_eq!(again.len(), 3, "each subscribe is hydrated");
}

#[test]
fn topics_without_a_body_take_their_apps_or_none() {
    let mut world = World::with_auth(BrokerConfig::default(), AUTH);
    let ann = world.connect("ann");
    let jobs = world.ask(ann, json!({"type": "subscribe", "topic": "port/north/jobs"}));
    assert_eq!(jobs[1], json!({"type": "hydration", "topic": "jobs", "data": "anything"}));
    assert_eq!(world.ask(ann, json!({"type": "subscribe", "topic": "yard/gate/messages"})).len(), 1);
    let refused = world.ask(ann, json!({"type": "subscribe", "topic": "port/south/messages"}));
    assert_eq!((refused.len(), &refused[0]["code"]), (1, &json!(42940)));
}

#[test]
fn restored_subscriptions_are_hydrated_after_the_auth_reply() {
    for profile in Profile::ALL {
        let mut world = World::with_auth(BrokerConfig { profile, ..BrokerConfig::default() }, AUTH);
        let ann = world.open();
        let frames = world.ask(ann, json!({"type": "auth", "token": "t-ann", "reconnect": true}));
        let types: Vec<_> = frames.iter().map(|frame| &frame["type"]).collect();
        assert_eq!(types, ["auth", "hydration"]);
    }
}
