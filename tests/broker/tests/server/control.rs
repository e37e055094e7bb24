//! The control plane over real HTTP, beside the sockets, and its file.

use std::fs;

use nolag_broker::{AuthConfig, Server, ServerError, ServerOptions, TestBroker};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time,
};

use crate::{Client, PATIENCE};

/// A request and its answer, with nothing in between.
struct Http<'a> {
    /// `http://ADDRESS/v1`
    url: &'a str,
    key: &'a str,
}

struct Answer {
    status: u16,
    head: String,
    body: Value,
}

impl<'a> Http<'a> {
    fn of(url: &'a str, broker: &'a TestBroker) -> Self {
        Self { url, key: broker.api_key() }
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Answer {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.send(method, &format!("/v1{path}"), &body).await
    }

    async fn send(&self, method: &str, target: &str, body: &[u8]) -> Answer {
        let addr = self.url.strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\
             content-type: application/json\r\nconnection: close\r\n\r\n",
            self.key,
            body.len()
        );
        let exchange = async {
            let mut stream = TcpStream::connect(addr).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(body).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            String::from_utf8(answer).unwrap()
        };
        let answer = time::timeout(PATIENCE, exchange).await.expect("no answer in time");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = if body.is_empty() { Value::Null } else { body.parse().unwrap() };
        Answer { status, head: head.to_lowercase(), body }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().into()
}

#[tokio::test]
async fn from_nothing_to_a_conversation() {
    let broker = TestBroker::start().await;
    let url = broker.api_url();
    let http = Http::of(&url, &broker);
    let app = http.ask("POST", "/apps", json!({"name": "chat", "topics": ["messages"]})).await;
    assert_eq!(app.status, 201);
    assert!(app.head.contains("content-type: application/json"), "{}", app.head);
    let app_id = text(&app.body["appId"]);
    let room = http.ask("POST", &format!("/apps/{app_id}/rooms"), json!({"name": "General"})).await;
    let actor = http.ask("POST", "/actors", json!({"name": "web", "actorType": "device"})).await;
    let token = text(&actor.body["accessToken"]);

    let mut client = Client::connect(&broker.url(), &token).await;
    let topic = format!("{}/{}/messages", text(&app.body["slug"]), text(&room.body["slug"]));
    client.send(json!({"type": "subscribe", "topic": topic})).await;
    assert_eq!(client.next().await["type"], "subscribed");
    let message = json!({"appId": app_id, "roomId": room.body["roomId"], "topic": "messages", "data": "hi"});
    let published = http.ask("POST", "/publish", json!({"messages": [message]})).await;
    assert_eq!(published.status, 200);
    let received = client.next().await;
    assert_eq!((&received["data"], &received["fromType"]), (&json!("hi"), &json!("server")));
    assert_eq!(received["msgId"], published.body["messages"][0]["id"]);

    let list = http.ask("GET", "/apps?page=1&limit=5&sortBy=name&sortOrder=desc", Value::Null).await;
    assert_eq!(list.body["pagination"], json!({"total": 1, "page": 1, "pageCount": 1}));
    let path = format!("/actors/{}", text(&actor.body["actorTokenId"]));
    assert_eq!(http.ask("PATCH", &path, json!({"name": "Web"})).await.body["name"], "Web");
    let deleted = http.ask("DELETE", &path, Value::Null).await;
    assert_eq!((deleted.status, deleted.body), (204, Value::Null));
    assert_eq!(client.closed().await.map(u16::from), Some(4001));
    assert_eq!(
        http.ask("DELETE", &format!("/apps/{app_id}"), Value::Null).await.body,
        json!({"success": true})
    );
}

#[tokio::test]
async fn bad_requests_are_answered_in_one_shape() {
    let broker = TestBroker::builder().api_key("nlg_live_mine.secret").start().await;
    let url = broker.api_url();
    let wrong = Http { url: &url, key: "nlg_live_dev.secret" };
    let refused = wrong.ask("GET", "/apps", Value::Null).await;
    assert_eq!(refused.status, 401);
    assert!(refused.head.contains("www-authenticate: bearer"), "{}", refused.head);
    let http = Http::of(&url, &broker);
    for (method, target, body, status) in [
        ("GET", "/v1/apps", b"".as_slice(), 200),
        ("GET", "/v1/apps?x=1", b"", 400),
        ("POST", "/v1/apps", b"<html>", 400),
        ("POST", "/v1/apps", b"", 400),
        ("PUT", "/v1/apps", b"", 405),
        ("GET", "/v1/nothing", b"", 404),
        ("GET", "/v1", b"", 404),
        ("GET", "/elsewhere", b"", 404),
        ("POST", "/v1/apps", &vec![b' '; 3 << 20], 413),
    ] {
        let answer = http.send(method, target, body).await;
        assert_eq!(answer.status, status, "{method} {target}: {}", answer.body);
        let has_shape = ["id", "message", "timestamp"].iter().all(|key| answer.body[*key].is_string());
        assert!(status == 200 || has_shape, "{method} {target}: {}", answer.body);
        assert_eq!(answer.head.contains("allow: get, post"), status == 405, "{}", answer.head);
    }
    for _ in 0..3 {
        let messages =
            json!({"messages": vec![json!({"appId": "a", "roomId": "r", "topic": "t", "data": 1}); 100]});
        let answer = http.ask("POST", "/publish", messages).await;
        assert!(matches!(answer.status, 404 | 429), "{}", answer.body);
        assert_eq!(answer.head.contains("retry-after: 1"), answer.status == 429, "{}", answer.head);
    }
}

#[tokio::test]
async fn a_request_that_breaks_off_does_nothing() {
    let broker = TestBroker::start().await;
    let url = broker.api_url();
    let http = Http::of(&url, &broker);
    let addr = url.strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap();
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let head = format!("POST /v1/apps HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n", broker.api_key());
    stream
        .write_all(format!("{head}content-length: 99\r\n\r\n{{\"name\": \"a\"}}").as_bytes())
        .await
        .unwrap();
    stream.shutdown().await.unwrap();
    // The server has given up on it once it closes.
    let mut rest = Vec::new();
    let _ = time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("the server closes");
    assert_eq!(http.ask("GET", "/apps", Value::Null).await.body["pagination"]["total"], 0);
}

#[tokio::test]
async fn what_was_created_is_there_after_a_new_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.json");
    let (token, slug) = {
        let broker = TestBroker::builder().state_file(&path).start().await;
        assert!(path.exists(), "whether it can be written is seen at the start");
        let url = broker.api_url();
        let http = Http::of(&url, &broker);
        let app = http.ask("POST", "/apps", json!({"name": "chat", "topics": ["messages"]})).await.body;
        http.ask("POST", &format!("/apps/{}/rooms", text(&app["appId"])), json!({"name": "r"})).await;
        let actor = http.ask("POST", "/actors", json!({"name": "a", "actorType": "user"})).await.body;
        (text(&actor["accessToken"]), text(&app["slug"]))
    };
    assert!(!fs::read_to_string(&path).unwrap().contains(&token));
    let broker = TestBroker::builder().auth(AuthConfig::seed_world()).state_file(&path).start().await;
    let mut client = Client::connect(&broker.url(), &token).await;
    client.send(json!({"type": "subscribe", "topic": format!("{slug}/r/messages")})).await;
    assert_eq!(client.next().await["type"], "subscribed");
}

#[tokio::test]
async fn a_file_serves_one_broker_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.json");
    let options = || ServerOptions { addr: ([127, 0, 0, 1], 0).into(), ..ServerOptions::default() };
    let first = Server::bind(options().state_file(&path)).await.unwrap();
    let error = Server::bind(options().state_file(&path)).await.unwrap_err();
    assert!(matches!(error, ServerError::StateFile { .. }), "{error}");
    assert!(
        error.to_string().contains("state.json") && error.to_string().contains("another broker"),
        "{error}"
    );
    drop(first);
    let second = Server::bind(options().state_file(&path)).await.unwrap();
    second.shutdown().await;
    Server::bind(options().state_file(&path)).await.unwrap();
}

#[tokio::test]
async fn a_broken_file_is_an_error_at_the_start_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.json");
    let options = || ServerOptions { addr: ([127, 0, 0, 1], 0).into(), ..ServerOptions::default() };
    for text in ["", "{\"version\": 1", "{\"apps\": []}", "not JSON"] {
        fs::write(&path, text).unwrap();
        let error = Server::bind(options().state_file(&path)).await.unwrap_err();
        assert!(
            matches!(error, ServerError::State { .. }) && error.to_string().contains("state.json"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    let nowhere = dir.path().join("missing/state.json");
    let error = Server::bind(options().state_file(nowhere)).await.unwrap_err();
    assert!(matches!(error, ServerError::StateFile { .. }), "{error}");
}

#[tokio::test]
async fn a_change_that_cannot_be_saved_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("state");
    fs::create_dir(&folder).unwrap();
    let broker = TestBroker::builder().state_file(folder.join("state.json")).start().await;
    let url = broker.api_url();
    let http = Http::of(&url, &broker);
    fs::remove_dir_all(&folder).unwrap();
    let refused = http.ask("POST", "/apps", json!({"name": "a"})).await;
    assert_eq!(refused.status, 500);
    assert!(text(&refused.body["message"]).contains("could not be saved"));
    assert_eq!(http.ask("GET", "/apps", Value::Null).await.body["pagination"]["total"], 0);
    fs::create_dir(&folder).unwrap();
    assert_eq!(http.ask("POST", "/apps", json!({"name": "a"})).await.status, 201);
    assert!(fs::read_to_string(folder.join("state.json")).unwrap().contains("\"name\": \"a\""));
}
