//! A broker in virtual time with clients that speak JSON values.

use std::{collections::BTreeMap, time::Duration};

use nolag_broker::{ApiRequest, AuthConfig, BrokerConfig, BrokerCore, ConnectionId, Output, Profile};
use nolag_core::{
    Instant,
    rest::{ApiError, Call, Service},
};
use serde_json::{Value, json};

/// Two harbours: everything, wildcards, one-way grants, presets, a scope, and an organization for one.
const AUTH: &str = r##"{"tokens": {
    "t-ann": {"actorTokenId": "ann", "projectId": "p", "organizationId": "o", "actorType": "user", "allowedTopics": [
        {"pattern": "port/north/messages", "topic": "r1/messages", "permission": "pubSub", "app_id": "app-1",
            "room_id": "r1", "room_slug": "north"},
        {"pattern": "port/north/jobs", "topic": "r1/jobs", "permission": "pubSub", "app_id": "app-1",
            "room_id": "r1", "room_slug": "north"}]},
    "t-ben": {"actorTokenId": "ben", "projectId": "p", "organizationId": "o", "actorType": "user", "allowedTopics": [
        {"pattern": "port/north/messages", "topic": "r1/messages", "permission": "pubSub", "app_id": "app-1",
            "room_id": "r1", "room_slug": "north"},
        {"pattern": "port/north/jobs", "topic": "r1/jobs", "permission": "pubSub", "app_id": "app-1",
            "room_id": "r1", "room_slug": "north"}]},
    "t-wild": {"actorTokenId": "wild", "projectId": "p", "allowedTopics": [
        {"pattern": "yard/gate/#", "permission": "pubSub", "app_id": "app-2"}]},
    "t-eye": {"actorTokenId": "eye", "projectId": "p", "allowedTopics": [
        {"pattern": "port/north/messages", "topic": "r1/messages", "permission": "subscribe", "app_id": "app-1"}]},
    "t-mouth": {"actorTokenId": "mouth", "projectId": "p", "allowedTopics": [
        {"pattern": "port/north/messages", "topic": "r1/messages", "permission": "publish", "app_id": "app-1"}]},
    "t-preset": {"actorTokenId": "preset", "projectId": "p", "allowedTopics": [
        {"pattern": "port/north/messages", "topic": "r1/messages", "permission": "pubSub", "app_id": "app-1",
            "room_id": "r1", "room_slug": "north"},
        {"pattern": "port/north/jobs", "topic": "r1/jobs", "permission": "pubSub", "app_id": "app-1",
            "room_id": "r1", "room_slug": "north"}],
        "activeSubscriptions": ["port/north/messages",
            {"pattern": "port/north/jobs", "topic": "r1/jobs", "load_balance": false, "filters": ["night"]},
            {"name": "port/locked/messages", "loadBalance": false}]},
    "t-scoped": {"actorTokenId": "scoped", "projectId": "p", "scopeSlug": "pier", "allowedTopics": [
        {"pattern": "port/pier/berth/messages", "topic": "r5/messages", "permission": "pubSub", "app_id": "app-1"}]},
    "t-only": {"actorTokenId": "only", "projectId": "p", "organizationId": "solo", "maxConnections": 1,
        "allowedTopics": [{"pattern": "port/north/messages", "topic": "r1/messages", "app_id": "app-1"}]}
}}"##;

pub(crate) const MESSAGES: &str = "port/north/messages";
pub(crate) const JOBS: &str = "port/north/jobs";

pub(crate) struct World {
    pub(crate) broker: BrokerCore,
    pub(crate) now: Instant,
    inbox: BTreeMap<ConnectionId, Vec<Value>>,
    ends: BTreeMap<ConnectionId, String>,
}

impl World {
    pub(crate) fn new(profile: Profile) -> Self {
        Self::with(BrokerConfig { profile, ..BrokerConfig::default() })
    }

    pub(crate) fn with(config: BrokerConfig) -> Self {
        Self::with_auth(config, AUTH)
    }

    /// A broker with an auth file of the test's own.
    pub(crate) fn with_auth(config: BrokerConfig, file: &str) -> Self {
        let auth = AuthConfig::from_json(file).unwrap();
        let broker = BrokerCore::new(BrokerConfig { auth, ..config }, Instant::ZERO);
        Self { broker, now: Instant::ZERO, inbox: BTreeMap::new(), ends: BTreeMap::new() }
    }

    /// A broker with the auth of its configuration, as a control plane is used with.
    pub(crate) fn managed(config: BrokerConfig) -> Self {
        let broker = BrokerCore::new(config, Instant::ZERO);
        Self { broker, now: Instant::ZERO, inbox: BTreeMap::new(), ends: BTreeMap::new() }
    }

    /// Asks the control plane: method and path below `/v1`, with a query if there is one.
    pub(crate) fn api(&mut self, method: &str, target: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.api_with(Some("Bearer nlg_live_dev.secret"), method, &format!("/v1{target}"), body.as_bytes())
    }

    /// The same with a header and a body of the test's own.
    pub(crate) fn api_with(
        &mut self,
        authorization: Option<&str>,
        method: &str,
        target: &str,
        body: &[u8],
    ) -> (u16, Value) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let request = ApiRequest { method, path, query, authorization, body };
        let response = self.broker.handle_api(self.now, &request);
        let body = if response.body.is_empty() { Value::Null } else { response.body.parse().unwrap() };
        (response.status, body)
    }

    /// Asks as our own client does, and has it read the answer.
    pub(crate) fn call<T>(&mut self, call: Result<Call<T>, ApiError>) -> Result<T, ApiError> {
        let call = call?;
        let request = call.request();
        let target = match request.service {
            Service::ControlPlane => format!("/v1{}", request.target()),
            _ => request.target(),
        };
        let body = request.body.clone().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let response = self.broker.handle_api(
            self.now,
            &ApiRequest {
                method: request.method.as_str(),
                path,
                query,
                authorization: Some("bearer nlg_live_dev.secret"),
                body: body.as_bytes(),
            },
        );
        call.parse(response.status, response.body.as_bytes())
    }

    /// A connection that has authenticated with this token.
    pub(crate) fn connect_with(&mut self, token: &str) -> ConnectionId {
        let conn = self.open();
        let reply = self.ask(conn, json!({"type": "auth", "token": token, "protocolVersion": 2}));
        assert_eq!(reply[0]["success"], true, "{reply:?}");
        conn
    }

    /// The auth file without some tokens.
    pub(crate) fn auth_without(token: &str) -> AuthConfig {
        let mut file: Value = serde_json::from_str(AUTH).unwrap();
        file["tokens"].as_object_mut().unwrap().remove(token).unwrap();
        AuthConfig::from_json(&file.to_string()).unwrap()
    }

    pub(crate) fn open(&mut self) -> ConnectionId {
        self.broker.open(self.now)
    }

    /// A connection that has authenticated with `t-NAME`, protocol version 2.
    pub(crate) fn connect(&mut self, name: &str) -> ConnectionId {
        let conn = self.open();
        let reply =
            self.ask(conn, json!({"type": "auth", "token": format!("t-{name}"), "protocolVersion": 2}));
        assert_eq!(reply[0]["success"], true, "{reply:?}");
        conn
    }

    /// A connection of `name` that is subscribed to `topic`.
    pub(crate) fn subscriber(&mut self, name: &str, topic: &str) -> ConnectionId {
        let conn = self.connect(name);
        let reply = self.ask(conn, json!({"type": "subscribe", "topic": topic}));
        assert_eq!(reply[0]["type"], "subscribed", "{reply:?}");
        conn
    }

    pub(crate) fn send(&mut self, conn: ConnectionId, frame: Value) {
        self.send_bytes(conn, &rmp_serde::to_vec(&frame).unwrap());
    }

    pub(crate) fn send_bytes(&mut self, conn: ConnectionId, bytes: &[u8]) {
        self.broker.handle_binary(self.now, conn, bytes);
    }

    /// Sends a frame and takes what comes back on the same connection.
    pub(crate) fn ask(&mut self, conn: ConnectionId, frame: Value) -> Vec<Value> {
        self.take(conn);
        self.send(conn, frame);
        self.take(conn)
    }

    pub(crate) fn publish(&mut self, conn: ConnectionId, topic: &str, data: Value) {
        self.send(conn, json!({"type": "publish", "topic": topic, "data": data}));
    }

    /// Everything sent to a connection since the last look. Heartbeats are the text `heartbeat`.
    pub(crate) fn take(&mut self, conn: ConnectionId) -> Vec<Value> {
        while let Some(output) = self.broker.poll_output() {
            match output {
                Output::Send { conn, frame } if frame.is_empty() => {
                    self.inbox.entry(conn).or_default().push(json!("heartbeat"));
                }
                Output::Send { conn, frame } => {
                    self.inbox.entry(conn).or_default().push(rmp_serde::from_slice(&frame).unwrap());
                }
                Output::Close { conn, code, reason } => {
                    self.ends.insert(conn, format!("{code} {reason}").trim_end().into());
                }
                Output::Cut { conn } => drop(self.ends.insert(conn, "cut".into())),
            }
        }
        self.inbox.remove(&conn).unwrap_or_default()
    }

    /// The payloads of the messages sent to a connection since the last look.
    pub(crate) fn payloads(&mut self, conn: ConnectionId) -> Vec<Value> {
        let frames = self.take(conn).into_iter();
        frames.filter(|frame| frame["type"] == "message").map(|mut frame| frame["data"].take()).collect()
    }

    /// How the broker ended a connection, if it did.
    pub(crate) fn end(&mut self, conn: ConnectionId) -> Option<String> {
        let frames = self.take(conn);
        self.inbox.insert(conn, frames);
        self.ends.get(&conn).cloned()
    }

    /// Lets time pass, with every timer in between.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(due) = self.broker.poll_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.broker.handle_timeout(self.now);
        }
        self.now = until;
        self.broker.handle_timeout(until);
    }

    pub(crate) fn close(&mut self, conn: ConnectionId) {
        self.broker.handle_close(self.now, conn);
    }
}
