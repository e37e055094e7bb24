//! `POST /v1/publish`: all of a batch, in order, or nothing.

use std::time::Duration;

use nolag_broker::{BrokerConfig, ConnectionId, Limits, Profile};
use nolag_core::rest::{
    ActorCreate, AppCreate, BatchMessage, RoomCreate, ScopeCreate, ScopeUpdate, actors, apps, publish, rooms,
    scopes,
};
use serde_json::{Value, json};

use crate::world::World;

const KEY: Option<&str> = Some("Bearer nlg_live_dev.secret");

struct Plane {
    world: World,
    app: String,
    room: String,
    subscriber: ConnectionId,
}

/// A room with one subscriber to its topic `messages`.
fn plane(config: BrokerConfig) -> Plane {
    let mut world = World::managed(config);
    let app = world.call(apps::create(&AppCreate::new("chat").topics(["messages"]))).unwrap();
    let room = world.call(rooms::create(&app.app_id, &RoomCreate::new("general"))).unwrap();
    let token = world.call(actors::create(&ActorCreate::new("a", "user"))).unwrap().access_token;
    let subscriber = world.connect_with(token.expose());
    let topic = format!("{}/general/messages", app.slug);
    world.ask(subscriber, json!({"type": "subscribe", "topic": topic}));
    Plane { world, app: app.app_id, room: room.room_id, subscriber }
}

impl Plane {
    fn message(&self, data: impl Into<Value>) -> Value {
        json!({"appId": self.app, "roomId": self.room, "topic": "messages", "data": data.into()})
    }

    fn publish(&mut self, messages: Value) -> (u16, Value) {
        let body = json!({"messages": messages}).to_string();
        self.world.api_with(KEY, "POST", "/v1/publish", body.as_bytes())
    }
}

#[test]
fn a_batch_arrives_in_order_from_the_server() {
    let mut plane = plane(BrokerConfig::default());
    let message = |data: Value| BatchMessage::new(&plane.app, &plane.room, "messages", data);
    let batch =
        [message(json!({"n": 1})), message(json!(null)).filter("vip"), message(json!("x")).retain(true)];
    let ids = plane.world.call(publish::batch(&batch)).unwrap();
    let frames = plane.world.take(plane.subscriber);
    let data: Vec<_> = frames.iter().map(|frame| frame["data"].clone()).collect();
    assert_eq!(data, [json!({"n": 1}), json!(null), json!("x")]);
    for (frame, id) in frames.iter().zip(&ids) {
        assert_eq!((&frame["from"], &frame["fromType"]), (&json!("nlg_live_dev"), &json!("server")));
        assert_eq!((&frame["msgId"], &frame["requiresAck"]), (&json!(id), &json!(true)));
    }
    assert_eq!(frames[1]["filter"], "vip");
    let topic = frames[0]["topic"].clone();
    let again = plane.world.ask(plane.subscriber, json!({"type": "subscribe", "topic": topic}));
    assert_eq!((again.len(), &again[1]["data"]), (2, &json!("x")), "it was retained");
}

#[test]
fn a_scope_is_addressed_by_its_id() {
    let mut plane = plane(BrokerConfig::default());
    let scope = plane.world.call(scopes::create(&ScopeCreate::new("acme", "Acme"))).unwrap().access_scope_id;
    let create = ActorCreate::new("b", "user").access_scope_id(&scope);
    let token = plane.world.call(actors::create(&create)).unwrap().access_token;
    let inside = plane.world.connect_with(token.expose());
    let slug = plane.world.call(apps::get(&plane.app)).unwrap().slug;
    plane.world.ask(inside, json!({"type": "subscribe", "topic": format!("{slug}/general/messages")}));
    let message = BatchMessage::new(&plane.app, &plane.room, "messages", 7).scope_id(&scope);
    plane.world.call(publish::batch(&[message])).unwrap();
    assert_eq!(
        (plane.world.payloads(inside), plane.world.payloads(plane.subscriber)),
        (vec![json!(7)], vec![])
    );

    plane.world.call(scopes::update(&scope, &ScopeUpdate::new().is_active(false))).unwrap();
    let mut message = plane.message(8);
    message["scopeId"] = scope.into();
    let (status, error) = plane.publish(json!([message]));
    assert_eq!((status, &error["error"]["code"]), (404, &json!(42940)));
}

#[test]
fn what_is_wrong_is_refused_in_the_brokers_words_and_nothing_is_published() {
    let mut plane = plane(BrokerConfig::default());
    let good = plane.message(1);
    let with = |key: &str, value: Value| {
        let mut message = good.clone();
        message[key] = value;
        json!([good, message])
    };
    let without_data = json!([{"appId": "a", "roomId": "r", "topic": "t"}]);
    let cases = [
        (json!([]), 400, 40000, None),
        (json!({}), 400, 40000, None),
        (json!(vec![good.clone(); 101]), 400, 40000, None),
        (json!([1]), 400, 40000, Some(0)),
        (without_data, 400, 40000, Some(0)),
        (with("appId", json!("")), 400, 40000, Some(1)),
        (with("topic", json!("a/b")), 400, 40000, Some(1)),
        (with("scopeId", json!(5)), 400, 40000, Some(1)),
        (with("qos", json!(3)), 400, 40000, Some(1)),
        (with("retain", json!("yes")), 400, 40000, Some(1)),
        (with("filter", json!("a/b")), 400, 42960, Some(1)),
        (with("filters", json!(["a", ""])), 400, 42960, Some(1)),
        (with("appId", json!("none")), 404, 42940, Some(1)),
        (with("roomId", json!("none")), 404, 42940, Some(1)),
        (with("topic", json!("other")), 404, 42940, Some(1)),
        (with("scopeId", json!("none")), 404, 42940, Some(1)),
        (with("data", json!("x".repeat(921_600))), 413, 42930, Some(1)),
    ];
    for (messages, status, code, index) in cases {
        let shown = messages.to_string().chars().take(200).collect::<String>();
        let (got, body) = plane.publish(messages);
        let error = &body["error"];
        assert_eq!((got, &error["code"]), (status, &json!(code)), "{shown}: {body}");
        assert_eq!(error.get("index"), index.map(|index: i32| json!(index)).as_ref(), "{shown}");
        assert!(error["message"].is_string());
    }
    let mut raw = |authorization, method, body: &[u8]| {
        let (status, body) = plane.world.api_with(authorization, method, "/v1/publish", body);
        (
            status,
            body["error"]["code"].as_u64().unwrap(),
            body["error"]["message"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(raw(KEY, "POST", b"{"), (400, 40000, "invalid_json".into()));
    assert_eq!(raw(KEY, "GET", b""), (405, 40500, "method_not_allowed".into()));
    assert_eq!(raw(None, "POST", b"{"), (401, 40100, "missing_api_key".into()));
    assert_eq!(raw(Some("Bearer no"), "POST", b"{"), (401, 40100, "invalid_api_key".into()));
    assert_eq!(raw(KEY, "POST", &vec![b' '; (2 << 20) + 1]), (413, 41300, "body_too_large".into()));
    assert_eq!(plane.world.take(plane.subscriber), [] as [Value; 0]);
}

#[test]
fn two_hundred_messages_a_second_are_enough_unless_the_limit_is_lifted() {
    let mut limited = plane(BrokerConfig::default());
    let hundred = json!(vec![limited.message(1); 100]);
    assert_eq!([limited.publish(hundred.clone()).0, limited.publish(hundred.clone()).0], [200, 200]);
    let (status, error) = limited.publish(json!([limited.message(1)]));
    assert_eq!((status, &error["error"]["code"]), (429, &json!(42910)));
    limited.world.pass(Duration::from_secs(1));
    assert_eq!(limited.publish(hundred.clone()).0, 200);
    limited.world.broker.set_quota_exceeded(limited.world.now, true);
    let (status, error) = limited.publish(json!([limited.message(1)]));
    assert_eq!((status, &error["error"]["code"]), (429, &json!(42920)));

    let mut lifted = plane(BrokerConfig { limits: Limits::NONE, ..BrokerConfig::default() });
    for _ in 0..5 {
        let hundred = json!(vec![lifted.message(1); 100]);
        assert_eq!(lifted.publish(hundred).0, 200);
    }
}

#[test]
fn messages_without_ids_still_have_one_in_the_answer() {
    let mut plane = plane(BrokerConfig { record_messages: false, ..BrokerConfig::default() });
    let (status, answer) = plane.publish(json!([plane.message(1)]));
    assert!(status == 200 && answer["messages"][0]["id"].is_string());
    assert!(plane.world.take(plane.subscriber)[0].get("msgId").is_none());
}

#[test]
fn old_brokers_know_no_publishing_over_http() {
    let mut plane = plane(BrokerConfig { profile: Profile::Kraken04, ..BrokerConfig::default() });
    assert_eq!(plane.publish(json!([plane.message(1)])).0, 404);
}
