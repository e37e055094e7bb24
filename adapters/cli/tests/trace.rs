//! `nolag trace`.

mod common;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream as StdStream,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use common::{Broker, DEADLINE, Ran, Running, TOPIC, nolag, run, start};
use futures_util::{SinkExt as _, StreamExt as _};
use nolag_conformance::trace::{Body, Message as Recorded, Peer, Trace, What};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_tungstenite::{
    WebSocketStream, accept_async, client_async,
    tungstenite::{
        Error, Message,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

const PLANTED: &str = "planted-secret-7f3a";

/// A running `nolag trace record`.
struct Recorder {
    running: Running,
    url: String,
    file: PathBuf,
    _dir: TempDir,
}

impl Recorder {
    fn start(upstream: &str, args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("session.jsonl");
        let mut command = nolag(["trace", "record", "--json", "--url", upstream, "-o"]);
        let mut running = start(command.arg(&file).args(args));
        let url = running.event("ready")["url"].as_str().unwrap().to_owned();
        Self { running, url, file, _dir: dir }
    }

    fn port(&self) -> u16 {
        self.url.trim_start_matches("ws://127.0.0.1:").trim_end_matches("/ws").parse().unwrap()
    }

    fn nolag(&self, token: &str, args: &[&str]) -> Command {
        let mut command = nolag(args);
        command.env("NOLAG_URL", &self.url).env("NOLAG_TOKEN", token);
        command
    }

    async fn connect(&self) -> WebSocketStream<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port())).await.unwrap();
        client_async(&self.url, stream).await.unwrap().0
    }

    /// Ends it as Ctrl-C does. Returns what it said, and the recording, which must be whole.
    #[track_caller]
    fn stop(mut self) -> (Ran, Trace) {
        self.running.signal("INT");
        let stopped = self.running.event("stopped");
        let ran = self.running.end().expect(0);
        let trace = Trace::load(&self.file);
        assert_eq!(trace.problems, []);
        let messages = trace.lines.iter().filter(|line| matches!(line.what, What::Message(_))).count();
        assert_eq!(stopped["messages"], messages);
        assert_eq!(stopped["connections"], events(&trace, "open").len());
        (ran, trace)
    }
}

fn messages(trace: &Trace) -> Vec<&Recorded> {
    let messages = trace.lines.iter().filter_map(|line| match &line.what {
        What::Message(message) => Some(message),
        What::Event { .. } => None,
    });
    messages.collect()
}

/// The keys of all events of this name.
fn events(trace: &Trace, wanted: &str) -> Vec<Json> {
    let events = trace.lines.iter().filter_map(|line| match &line.what {
        What::Event { name, keys, .. } if name == wanted => Some(Json::Object(keys.clone())),
        _ => None,
    });
    events.collect()
}

fn trace_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/traces").join(name)
}

fn show(file: &Path, args: &[&str]) -> Command {
    let mut command = nolag(["trace", "show"]);
    command.arg(file).args(args);
    command
}

fn replay(file: &Path, args: &[&str]) -> Command {
    let mut command = nolag(["trace", "replay"]);
    command.arg(file).args(args);
    command
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[track_caller]
fn holds_no_secret(what: &str) {
    assert!(!what.contains(PLANTED) && !what.contains(&hex(PLANTED)), "{what}");
}

/// Serves every WebSocket that comes with `serve`.
async fn upstream<F>(serve: impl Fn(WebSocketStream<TcpStream>) -> F + Send + Sync + 'static) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let socket = accept_async(stream).await.unwrap();
            tokio::spawn(serve(socket));
        }
    });
    url
}

/// Waits for something that must come soon.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(DEADLINE, what).await.expect("it does not come")
}

fn close(code: u16, reason: &'static str) -> Message {
    Message::Close(Some(CloseFrame { code: code.into(), reason: reason.into() }))
}

#[test]
fn a_session_is_recorded_shown_and_replayed_without_its_token() {
    let broker = Broker::start_with(&["--allow-all"]);
    let mut recorder = Recorder::start(&broker.url, &["--connections", "2"]);
    let mut sub = start(&mut recorder.nolag(PLANTED, &["sub", TOPIC, "--count", "2", "--json"]));
    sub.event("subscribed");
    let mut publish = recorder.nolag(common::ALICE, &["pub", TOPIC, "--lines"]);
    let lines = format!("{{\"text\":\"hello\"}}\n{{\"token\":\"{PLANTED}\",\"n\":[1]}}\n");
    common::run_with_input(&mut publish, lines.as_bytes()).expect(0);
    let received = sub.end().expect(0);
    assert!(received.stdout.contains(PLANTED), "messages go through unchanged: {received:?}");

    assert_eq!(recorder.running.event("stopped")["connections"], 2);
    let Recorder { running, file, _dir, .. } = recorder;
    let ran = running.end().expect(0);
    holds_no_secret(&format!("{ran:?}"));
    holds_no_secret(&fs::read_to_string(&file).unwrap());
    let trace = Trace::load(&file);
    assert_eq!(trace.problems, []);
    assert_eq!((events(&trace, "open").len(), events(&trace, "close").len()), (2, 2));
    assert!(events(&trace, "close").iter().all(|close| close["by"] == "client" && close["code"] == 1000));

    let shown = run(&mut show(&file, &[])).expect(0);
    assert_eq!(shown.stdout.lines().count(), trace.lines.len() + 1, "{shown:?}");
    for words in [
        "#1 -- open",
        "#1 -> auth token=<hidden> protocolVersion=2",
        "#2 <- auth success=true actorTokenId=\"alice\"",
        "#1 <- message topic=\"demo/general/messages\" data=<map, 12 bytes>",
        "#1 -- close by=\"client\" code=1000 reason=\"\"",
    ] {
        assert!(shown.stdout.contains(words), "{words:?}: {}", shown.stdout);
    }
    let raw = run(&mut show(&file, &["--raw"])).expect(0).stdout;
    assert!(raw.contains("{\"token\":\"redacted-1\",\"n\":[1]}") && raw.contains("68 65 6c 6c 6f"));
    let as_json = run(&mut show(&file, &["--json", "--raw"])).expect(0).stdout;
    let replayed = run(&mut replay(&file, &["-v"])).expect(0);
    let last = replayed.stdout.lines().last().unwrap();
    assert_eq!(last, format!("same as recorded: {} messages", messages(&trace).len()));
    for words in
        ["sends subscribe topic=", "tells message data={\"text\": \"hello\"}", "now connected as \"alice\""]
    {
        assert!(replayed.stdout.contains(words), "{words:?}: {}", replayed.stdout);
    }
    for output in [&shown.stdout, &raw, &as_json, &replayed.stdout] {
        holds_no_secret(output);
    }
}

#[test]
fn a_replay_says_where_the_client_does_something_else() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tampered.jsonl");
    fs::copy(trace_of("auth.json"), dir.path().join("auth.json")).unwrap();
    let recorded = fs::read_to_string(trace_of("publish-ack-self-and-other.jsonl")).unwrap();
    fs::write(&file, &recorded).unwrap();
    run(&mut replay(&file, &[])).expect(0);
    // The last confirmation is left out.
    let published = hex("published");
    let (missing, _) =
        recorded.lines().enumerate().filter(|(_, line)| line.contains(&published)).last().unwrap();
    let kept = recorded.lines().enumerate().filter(|(n, _)| *n != missing);
    fs::write(&file, kept.map(|(_, line)| format!("{line}\n")).collect::<String>()).unwrap();
    let ran = run(&mut replay(&file, &[])).expect(1);
    assert!(
        ran.stdout.contains("DIFFERS: line ") && ran.stdout.contains("was never answered"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.lines().last().unwrap().starts_with("differs from the recording in "),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_subscription_that_the_broker_ended_ends_in_the_replay_too() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/access-withdrawn.jsonl");
    let ran = run(&mut replay(&file, &[])).expect(0);
    assert!(ran.stdout.contains("tells subscription ended cause=\"unknown_topic\""), "{}", ran.stdout);
}

#[test]
fn every_recording_of_this_repository_is_shown_and_replayed_without_tokens() {
    let auth: Json = serde_json::from_slice(&fs::read(trace_of("auth.json")).unwrap()).unwrap();
    let tokens: Vec<&String> = auth["tokens"].as_object().unwrap().keys().collect();
    // One of each kind: good tokens, bad ones, JSON texts, undecodable messages, tokens in events.
    for name in [
        "auth-bad-token-then-retry",
        "auth-field-variants",
        "malformed-msgpack",
        "payload-containers",
        "revalidation-close",
        "text-json",
        "text-json-invalid",
    ] {
        let file = trace_of(&format!("{name}.jsonl"));
        for mut command in
            [show(&file, &[]), show(&file, &["--json", "--raw"]), show(&file, &["--raw"]), replay(&file, &[])]
        {
            let ran = run(&mut command).expect(0);
            let leaked =
                tokens.iter().find(|token| ran.stdout.contains(**token) || ran.stdout.contains(&hex(token)));
            assert_eq!(leaked, None, "{name}");
            assert!(ran.stdout.lines().count() > 1, "{name}");
        }
    }
}

#[test]
fn what_is_shown_can_be_chosen() {
    let file = trace_of("publish-ack-self-and-other.jsonl");
    let lines = |args: &[&str]| -> Vec<String> {
        run(&mut show(&file, args)).expect(0).stdout.lines().map(Into::into).collect()
    };
    let all = lines(&[]);
    let published = lines(&["--type", "published"]);
    assert!(
        !published.is_empty() && published.iter().all(|line| line.contains(" <- published ")),
        "{published:?}"
    );
    let out = lines(&["--direction", "out"]);
    let inbound = lines(&["--direction", "in"]);
    assert!(out.iter().all(|line| line.contains(" -> ")) && inbound.iter().all(|line| line.contains(" <- ")));
    let events = lines(&["--type", "open", "--type", "close"]);
    assert_eq!(events.len(), 4);
    assert_eq!(all.len(), 1 + out.len() + inbound.len() + events.len());
    assert_eq!(lines(&["--type", "published", "--direction", "out"]), Vec::<String>::new());

    let json: Vec<Json> = lines(&["--json"]).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(json.len(), all.len());
    assert_eq!(json[0]["event"], "header");
    let publish = json.iter().find(|line| line["type"] == "publish").unwrap();
    assert_eq!(
        (&publish["v"], &publish["event"], &publish["direction"]),
        (&json!(1), &json!("frame"), &json!("out"))
    );
    assert!(publish["frame"]["data"].is_object() && publish["size"].as_u64() > Some(0), "{publish}");
    assert_eq!(publish["hex"], Json::Null);
}

#[test]
fn bad_lines_are_named_and_the_others_shown() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bad.jsonl");
    let good = r#"{"t":1.5,"conn":3,"dir":"s2c","hex":""}"#;
    let cut = r#"{"t":2,"conn":3,"dir":"s2"#;
    fs::write(&file, format!("{{\"scenario\":\"x\"}}\noops\n{good}\n{{\"t\":1}}\n{cut}")).unwrap();
    let ran = run(&mut show(&file, &[])).expect(7);
    assert!(ran.stdout.contains("1.500 #3 <- heartbeat  (0 bytes)"), "{ran:?}");
    for words in
        ["bad.jsonl:2: not JSON", "bad.jsonl:4: key \"dir\" is missing", "bad.jsonl:5: not JSON", "3 lines"]
    {
        assert!(ran.stderr.contains(words), "{words:?}: {}", ran.stderr);
    }
    let ran = run(&mut show(&file, &["--json"])).expect(7);
    let bad: Vec<Json> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(bad.iter().filter(|line| line["event"] == "bad").count(), 3);
    let ran = run(&mut replay(&file, &[])).expect(7);
    assert!(
        ran.stderr.contains("bad.jsonl:2: not JSON") && ran.stdout.contains("same as recorded: 1 message"),
        "{ran:?}"
    );

    for content in ["", "\n", "nonsense"] {
        fs::write(&file, content).unwrap();
        assert!(run(&mut show(&file, &[])).expect(7).stderr.contains("bad.jsonl:1: "), "{content:?}");
        run(&mut replay(&file, &[])).expect(7);
    }
    let missing = dir.path().join("missing");
    run(&mut show(&missing, &[])).expect(2).one_error(&["cannot read", "missing"]);
    run(&mut replay(&missing, &[])).expect(2).one_error(&["cannot read", "missing"]);
}

#[test]
fn wrong_arguments_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kept.jsonl");
    fs::write(&file, "precious").unwrap();
    let record = |args: &[&str]| {
        let mut command = nolag(["trace", "record", "-o"]);
        run(command.arg(&file).args(args)).expect(2)
    };
    let user = format!("ws://user:{PLANTED}@127.0.0.1/ws");
    for url in ["http://127.0.0.1/ws", "127.0.0.1", &user] {
        let ran = record(&["--url", url]);
        ran.one_error(&["--url"]);
        holds_no_secret(&ran.stderr);
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    record(&["--url", "ws://127.0.0.1:1/ws", "--listen", &address]).one_error(&["cannot listen", "--listen"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    let nowhere = dir.path().join("no/such/file");
    let mut command = nolag(["trace", "record", "--url", "ws://127.0.0.1:1/ws", "-o"]);
    run(command.arg(nowhere)).expect(2).one_error(&["cannot write"]);
    let help = run(nolag(["trace", "record", "--help"]).env("NOLAG_URL", &user)).expect(0);
    assert!(help.stdout.contains("NOLAG_URL"));
    holds_no_secret(&help.stdout);
}

#[test]
fn an_interrupt_before_the_wanted_connections_is_not_done() {
    let broker = Broker::start();
    let recorder = Recorder::start(&broker.url, &["--connections", "2"]);
    run(&mut recorder.nolag(common::ALICE, &["pub", TOPIC, "1"])).expect(0);
    recorder.running.signal("INT");
    let ran = recorder.running.end().expect(130);
    assert!(ran.stderr.contains("interrupted after 1 of 2 connections"), "{ran:?}");
    run(&mut replay(&recorder.file, &[])).expect(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn close_codes_and_messages_of_every_kind_pass_in_both_directions() {
    let url = upstream(|mut socket| async move {
        while let Some(Ok(message)) = socket.next().await {
            match message.to_text() {
                Ok("close") => socket.send(close(4001, "token revoked")).await.unwrap(),
                Ok("drop") => return,
                _ if message.is_close() => assert_eq!(message, close(4321, "done")),
                _ if message.is_ping() => {}
                _ => socket.send(message).await.unwrap(),
            }
        }
    })
    .await;
    let recorder = Recorder::start(&url, &[]);
    let sent = [
        Message::binary(vec![0x81, 0xa1, 0x61, 0x01]),
        Message::binary(Vec::new()),
        Message::text("{\"type\": \"ack\",  \"msgId\": \"1\"}"),
        Message::binary(vec![0xc1; 3]),
        Message::binary(vec![b'x'; 3 << 20]),
    ];

    let mut first = recorder.connect().await;
    for message in &sent {
        first.send(message.clone()).await.unwrap();
        assert_eq!(soon(first.next()).await.unwrap().unwrap(), *message);
    }
    first.send(Message::text("close")).await.unwrap();
    assert_eq!(soon(first.next()).await.unwrap().unwrap(), close(4001, "token revoked"));
    assert!(soon(first.next()).await.is_none());

    let mut second = recorder.connect().await;
    second.send(close(4321, "done")).await.unwrap();
    assert_eq!(soon(second.next()).await.unwrap().unwrap(), close(4321, "done"));

    // Without a close frame here, without one there.
    let mut third = recorder.connect().await;
    third.send(Message::text("drop")).await.unwrap();
    let end = soon(third.next()).await;
    assert!(matches!(end, None | Some(Err(_))), "{end:?}");
    drop(third);

    let (_, trace) = recorder.stop();
    let recorded: Vec<_> = messages(&trace).into_iter().filter(|message| message.conn == 1).collect();
    for (n, message) in sent.iter().enumerate() {
        let body = match message {
            Message::Text(text) => Body::Text(text.to_string()),
            message => Body::Binary(message.clone().into_data().to_vec()),
        };
        let [asked, answered] = [recorded[2 * n], recorded[2 * n + 1]];
        assert_eq!((asked.from, answered.from), (Peer::Client, Peer::Broker));
        assert!(asked.body == body && answered.body == body, "message {n}");
        assert_eq!((asked.malformed, answered.malformed), (n >= 3, n >= 3), "message {n}");
    }
    let closes: Vec<_> = events(&trace, "close")
        .iter()
        .map(|key| json!([key["conn"], key["by"], key["code"], key["reason"]]))
        .collect();
    assert_eq!(
        closes,
        [
            json!([1, "broker", 4001, "token revoked"]),
            json!([2, "client", 4321, "done"]),
            json!([3, "broker", 1006, ""]),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn open_connections_are_closed_when_the_recording_ends() {
    let (told, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let url = upstream(move |mut socket| {
        let told = told.clone();
        async move {
            while let Some(Ok(message)) = socket.next().await {
                told.send(message).unwrap();
            }
        }
    })
    .await;
    let recorder = Recorder::start(&url, &[]);
    let mut socket = recorder.connect().await;
    socket.send(Message::Ping("alive".into())).await.unwrap();
    socket.send(Message::binary(vec![0x90])).await.unwrap();
    assert_eq!(
        soon(ends.recv()).await,
        Some(Message::Ping("alive".into())),
        "the broker hears that it lives"
    );
    assert_eq!(soon(ends.recv()).await, Some(Message::binary(vec![0x90])));
    let client = tokio::spawn(async move {
        let mut last = None;
        while let Some(Ok(message)) = socket.next().await {
            last = Some(message);
        }
        last
    });
    let (ran, trace) = recorder.stop();
    let goodbye = close(1001, "the recorder ends");
    assert_eq!(soon(client).await.unwrap(), Some(goodbye.clone()));
    assert_eq!(soon(ends.recv()).await, Some(goodbye));
    assert!(ran.stderr.contains("connection 1 ends with the recording"), "{ran:?}");
    assert_eq!((messages(&trace).len(), events(&trace, "close").len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_survived_and_told() {
    let broker = Broker::start();
    let mut recorder = Recorder::start(&broker.url, &[]);
    // Who speaks no WebSocket is not recorded.
    let mut garbage = StdStream::connect(("127.0.0.1", recorder.port())).unwrap();
    garbage.write_all(b"\x00\x01garbage\r\n\r\n").unwrap();
    garbage.set_read_timeout(Some(DEADLINE)).unwrap();
    let _ = garbage.read_to_end(&mut Vec::new());
    recorder.running.hears("not recorded: ");
    drop(garbage);

    // A truncated auth frame with a token in it, text that is not JSON, and then what WebSocket forbids.
    let mut socket = recorder.connect().await;
    let auth = [b"\x83\xa4type\xa4auth\xa5token\xb3", PLANTED.as_bytes()].concat();
    socket.send(Message::binary(auth.clone())).await.unwrap();
    socket.send(Message::binary(vec![0x91; 200_000])).await.unwrap();
    socket.send(Message::text(format!("{{\"token\": \"{PLANTED}"))).await.unwrap();
    // The broker may have closed already because of the text.
    let _ = socket.get_mut().write_all(&[0xff; 64]).await;
    let mut rest = Vec::new();
    let _ = soon(socket.get_mut().read_to_end(&mut rest)).await;
    drop(socket);
    run(&mut recorder.nolag(common::ALICE, &["pub", TOPIC, "1"])).expect(0);

    let file = recorder.file.clone();
    let kept = fs::read_to_string(&file).unwrap();
    let (ran, trace) = recorder.stop();
    holds_no_secret(&kept);
    holds_no_secret(&format!("{ran:?}"));
    let first = messages(&trace)[0];
    assert_eq!((first.malformed, &first.body), (true, &Body::Binary(vec![0xc1; auth.len()])));
    assert!(kept.contains("may hold a token"), "{kept}");
    assert_eq!(events(&trace, "open").len(), 2, "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_breaks_the_rules_of_websocket_is_told_and_the_broker_loses_the_connection() {
    let url = upstream(|mut socket| async move { while let Some(Ok(_)) = socket.next().await {} }).await;
    let recorder = Recorder::start(&url, &["--connections", "1"]);
    let mut socket = recorder.connect().await;
    socket.get_mut().write_all(&[0xff; 64]).await.unwrap();
    let told = soon(socket.next()).await.unwrap().unwrap();
    assert!(matches!(&told, Message::Close(Some(frame)) if frame.code == CloseCode::Protocol), "{told:?}");
    drop(socket);
    let Recorder { running, file, _dir, .. } = recorder;
    running.end().expect(0);
    let closes = events(&Trace::load(&file), "close");
    assert_eq!((&closes[0]["by"], &closes[0]["code"]), (&json!("client"), &json!(1006)));
    assert!(closes[0]["note"].as_str().is_some_and(|note| note.contains("protocol")), "{closes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_refused_as_the_broker_refuses() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for answer in
            ["HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"]
        {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        // Then there is no broker any more.
    });
    let mut recorder = Recorder::start(&format!("ws://{address}/ws?key={PLANTED}"), &[]);
    for expected in [503, 502, 502] {
        let stream = TcpStream::connect(("127.0.0.1", recorder.port())).await.unwrap();
        let error = soon(client_async(&recorder.url, stream)).await.unwrap_err();
        assert!(
            matches!(&error, Error::Http(response) if response.status() == expected),
            "{expected}: {error}"
        );
        let said = recorder.running.hears("the client is told so");
        assert!(said.starts_with(&format!("ws://{address}/ws: ")), "{said}");
    }
    let kept = fs::read_to_string(&recorder.file).unwrap();
    holds_no_secret(&kept);
    let (ran, trace) = recorder.stop();
    holds_no_secret(&format!("{ran:?}"));
    assert_eq!(trace.lines, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_does_not_read_holds_the_client_back() {
    const COUNT: usize = 48;
    let (go, gone) = tokio::sync::watch::channel(false);
    let read = Arc::new(AtomicUsize::new(0));
    let counter = read.clone();
    let url = upstream(move |mut socket| {
        let (mut gone, counter) = (gone.clone(), counter.clone());
        async move {
            gone.wait_for(|go| *go).await.unwrap();
            while let Some(Ok(message)) = socket.next().await {
                counter.fetch_add(usize::from(message.is_binary()), Ordering::Relaxed);
            }
        }
    })
    .await;
    let recorder = Recorder::start(&url, &[]);
    let mut socket = recorder.connect().await;
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = sent.clone();
    let megabyte = [&[0xc6, 0, 0x10, 0, 0][..], &[7; 1 << 20]].concat();
    let sending = tokio::spawn(async move {
        for _ in 0..COUNT {
            socket.send(Message::binary(megabyte.clone())).await.unwrap();
            counter.fetch_add(1, Ordering::Relaxed);
        }
        socket
    });
    // It stalls: nothing more leaves for a while, whatever the machine does besides.
    let until = Instant::now() + DEADLINE;
    let (mut before, mut since) = (0, Instant::now());
    while since.elapsed() < Duration::from_millis(500) {
        assert!(Instant::now() < until, "it never stalls");
        sleep(Duration::from_millis(5)).await;
        let now = sent.load(Ordering::Relaxed);
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
    go.send_replace(true);
    let mut socket = soon(sending).await.unwrap();
    let most = peak_memory(recorder.running.child.id());
    soon(socket.close(None)).await.unwrap();
    while let Some(Ok(_)) = soon(socket.next()).await {}
    // What was taken and read by nobody waits in the kernel, which has bounds of its own.
    assert!(
        most.map_or(before < COUNT, |most| most < 40 << 20),
        "{before} messages taken, {most:?} bytes used"
    );
    let (_, trace) = recorder.stop();
    assert_eq!(messages(&trace).len(), COUNT);
    assert_eq!(read.load(Ordering::Relaxed), COUNT);
}

/// The most memory that a process has used; `None` where that is not told.
fn peak_memory(pid: u32) -> Option<usize> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()? << 10)
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_recorder_leaves_every_line_but_the_last() {
    let url = upstream(|mut socket| async move {
        while let Some(Ok(message)) = socket.next().await {
            if socket.send(message).await.is_err() {
                return;
            }
        }
    })
    .await;
    let recorder = Recorder::start(&url, &[]);
    let mut socket = recorder.connect().await;
    for n in 0..200_u8 {
        socket.send(Message::binary(vec![0x91, 0xcc, n])).await.unwrap();
        if n < 100 {
            assert!(soon(socket.next()).await.unwrap().is_ok());
        }
    }
    recorder.running.signal("KILL");
    // The connection is gone, whatever was under way.
    while let Some(Ok(_)) = soon(socket.next()).await {}
    let trace = Trace::load(&recorder.file);
    let whole = trace.lines.len() + 1;
    assert!(trace.problems.iter().all(|problem| problem.line == whole + 1), "{:?}", trace.problems);
    assert!(messages(&trace).len() >= 200, "{}", messages(&trace).len());
    let ran = run(&mut show(&recorder.file, &[]));
    assert_eq!(ran.stdout.lines().count(), whole, "{}", ran.stderr);
}
