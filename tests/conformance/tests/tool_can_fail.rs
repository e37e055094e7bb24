//! The command says what is wrong, where, and with the right exit status.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::json;

/// A fresh directory for one test.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a directory");
    path
}

fn command(directory: &Path, mode: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nolag-conformance"));
    command.arg("traces").arg(directory).args(["--mode", mode]);
    command
}

fn check(directory: &Path, mode: &str) -> Output {
    command(directory, mode).output().expect("the command runs")
}

fn message_pack(json: serde_json::Value) -> String {
    let bytes = rmp_serde::to_vec(&json).expect("MessagePack");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn line(dir: &str, hex: &str) -> String {
    json!({"t": 0.1, "conn": 1, "dir": dir, "hex": hex}).to_string()
}

fn from_broker(frame: serde_json::Value) -> String {
    line("s2c", &message_pack(frame))
}

fn from_client(frame: serde_json::Value) -> String {
    line("c2s", &message_pack(frame))
}

/// Writes one recording, whose lines start at 2, and checks it.
fn check_lines(name: &str, mode: &str, lines: &[String]) -> (String, Option<i32>) {
    let directory = directory(name);
    let content = format!("{}\n{}\n", json!({"scenario": "tampered"}), lines.join("\n"));
    fs::write(directory.join("tampered.jsonl"), content).expect("written");
    let output = check(&directory, mode);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8(output.stdout).expect("text"), output.status.code())
}

#[track_caller]
fn fails(name: &str, mode: &str, lines: &[String], expected: &[&str]) {
    let (report, status) = check_lines(name, mode, lines);
    for line in expected {
        assert!(report.contains(line), "{line:?} is not in\n{report}");
    }
    assert!(report.starts_with("FAIL tampered  "), "{report}");
    assert!(report.ends_with("\n0 passed, 1 failed\n"), "{report}");
    assert_eq!(status, Some(1), "{report}");
}

#[track_caller]
fn passes(name: &str, mode: &str, lines: &[String], expected: &[&str]) {
    let (report, status) = check_lines(name, mode, lines);
    for line in expected {
        assert!(report.contains(line), "{line:?} is not in\n{report}");
    }
    assert!(report.starts_with("ok   tampered  "), "{report}");
    assert!(report.ends_with("\n1 passed, 0 failed\n"), "{report}");
    assert_eq!(status, Some(0), "{report}");
}

#[test]
fn unknown_broker_types_fail() {
    let frame = from_broker(json!({"type": "teleported", "to": "quay"}));
    fails("unknown-type", "decode", &[frame], &["tampered.jsonl:2: unknown type \"teleported\""]);
}

#[test]
fn fields_that_the_codec_loses_fail() {
    let frames = [
        from_broker(json!({"type": "unsubscribed", "topic": "a/b/c", "because": "you asked"})),
        from_broker(json!({"type": "message", "topic": "a/b/c", "data": 1, "msgId": 7})),
        from_broker(json!({"type": "unsubscribed"})),
    ];
    fails(
        "lost-field",
        "decode",
        &frames,
        &[
            "tampered.jsonl:2: field \"because\": expected \"you asked\", got nothing",
            "tampered.jsonl:3: field \"msgId\": expected 7, got nothing",
            "tampered.jsonl:4: field \"topic\": expected nothing, got \"\"",
        ],
    );
}

#[test]
fn fields_that_a_typed_view_loses_fail() {
    let frames = [
        from_broker(json!({"type": "presenceList", "roomId": "r", "data": [{"presence": {}}]})),
        from_broker(
            json!({"type": "presenceList", "roomId": "r", "data": [{"actorTokenId": "a", "rank": 3}]}),
        ),
        from_broker(
            json!({"type": "lobbySubscribed", "lobbyId": "l", "presence": {"r": {"a": {"actorTokenId": "b"}}}}),
        ),
        from_broker(json!({"type": "auth", "success": true, "restoredSubscriptions": ["t", {"qos": 1}]})),
        from_broker(json!({"type": "filtersUpdated", "topic": "t", "filters": [["alone"]]})),
    ];
    fails(
        "lost-in-view",
        "decode",
        &frames,
        &[
            "tampered.jsonl:2: data: expected 1 members, got 0",
            "tampered.jsonl:3: data[0]: field \"rank\": expected 3, got nothing",
            "tampered.jsonl:4: presence.\"r\": no key \"b\"",
            "tampered.jsonl:5: restoredSubscriptions[1]: no topic in {\"qos\": 1}",
            "tampered.jsonl:6: field \"filters\": expected [[\"alone\"]], got no filter list",
        ],
    );
}

#[test]
fn undecodable_broker_messages_fail() {
    let lines = [line("s2c", "c1"), line("s2c", "93010203"), line("s2c", "8080")];
    fails(
        "undecodable",
        "decode",
        &lines,
        &["tampered.jsonl:2: refused: ", "tampered.jsonl:3: refused: ", "tampered.jsonl:4: refused: "],
    );
}

#[test]
fn messages_marked_malformed_fail_when_they_decode() {
    let marked = |dir: &str, frame: serde_json::Value| {
        json!({"t": 0, "conn": 1, "dir": dir, "hex": message_pack(frame), "malformed": true}).to_string()
    };
    let client = [marked("c2s", json!({"type": "unsubscribe", "topic": "t"}))];
    fails("malformed-c2s", "encode", &client, &["tampered.jsonl:2: marked malformed, but decoded"]);
    let broker = [marked("s2c", json!({"type": "unsubscribed", "topic": "t"}))];
    fails("malformed-s2c", "decode", &broker, &["tampered.jsonl:2: marked malformed, but decoded"]);
}

#[test]
fn unreadable_lines_fail_in_every_mode() {
    let lines = [
        line("c2s", "8"),
        line("s2c", "xy"),
        "oops".to_owned(),
        json!({"t": 0, "dir": "c2s", "hex": ""}).to_string(),
    ];
    for mode in ["decode", "encode", "client", "broker"] {
        fails(
            &format!("unreadable-{mode}"),
            mode,
            &lines,
            &[
                "tampered.jsonl:2: key \"hex\" is not hex: odd number of digits",
                "tampered.jsonl:3: key \"hex\" is not hex",
                "tampered.jsonl:4: not JSON: ",
                "tampered.jsonl:5: key \"conn\" is missing",
            ],
        );
    }
}

#[test]
fn ill_formed_client_messages_are_left_out_with_a_reason() {
    let lines = [
        from_client(json!({"type": "subscribe", "topic": 7})),
        from_client(json!({"type": "subscribe", "topic": "t", "qos": 3})),
        from_client(json!({"type": "teleport"})),
        line("c2s", "c1"),
        json!({"t": 0, "conn": 1, "dir": "c2s", "text": "not json"}).to_string(),
    ];
    passes(
        "not-ours",
        "encode",
        &lines,
        &[
            "tampered.jsonl:2: not ours: field \"topic\" is 7, not a text",
            "tampered.jsonl:3: not ours: field \"qos\" is 3, not 0, 1 or 2",
            "tampered.jsonl:4: not ours: unknown type \"teleport\"",
            "tampered.jsonl:5: not ours: not MessagePack: byte 0xc1",
            "tampered.jsonl:6: not ours: text is not JSON: ",
        ],
    );
}

#[test]
fn defaults_and_unnamed_fields_are_forgiven() {
    let client = [
        from_client(json!({
            "type": "publish", "topic": "t", "data": null, "qos": 1, "retain": false, "echo": true,
            "filter": null, "filters": [], "msgRef": null, "trace": "x",
        })),
        from_client(json!({"type": "auth", "token": "t", "protocolVersion": 1, "reconnect": false})),
        json!({"t": 0, "conn": 1, "dir": "c2s", "text": "{\"type\":\"getPresence\",\"roomId\":null}"})
            .to_string(),
    ];
    passes("client-defaults", "encode", &client, &["encode 3 frames"]);
    let broker = [
        from_broker(json!({"type": "auth", "success": true, "projectId": null})),
        from_broker(json!({"type": "replayEnd", "count": 3})),
        from_broker(json!({"type": "subscribed", "topic": "t"})),
        from_broker(json!({"type": "presence", "event": "leave", "data": {"actorTokenId": "a"}})),
    ];
    passes("broker-defaults", "decode", &broker, &["decode 4 frames"]);
}

#[test]
fn payloads_of_any_depth_are_compared() {
    let deep = format!("83a474797065a76d657373616765a5746f706963a174a464617461{}c0", "91".repeat(100_000));
    passes("deep", "decode", &[line("s2c", &deep)], &["decode 1 frames"]);
}

/// A recording of one client that subscribes and publishes, with `end` in place of the last answers.
fn session(name: &str, header: serde_json::Value, end: &[String]) -> (String, Option<i32>) {
    session_in("broker", name, header, end)
}

fn session_in(mode: &str, name: &str, header: serde_json::Value, end: &[String]) -> (String, Option<i32>) {
    let directory = directory(name);
    let grant =
        json!({"pattern": "a/r/t", "topic": "r1/t", "app_id": "app", "room_id": "r1", "room_slug": "r"});
    let auth =
        json!({"tokens": {"token": {"actorTokenId": "ann", "projectId": "p", "allowedTopics": [grant]}}});
    fs::write(directory.join("tokens.json"), auth.to_string()).expect("written");
    let mut lines = vec![
        header.to_string(),
        json!({"t": 0, "conn": 1, "event": "open"}).to_string(),
        from_client(json!({"type": "auth", "token": "token", "protocolVersion": 2})),
        from_broker(
            json!({"type": "auth", "success": true, "actorTokenId": "ann", "projectId": "p", "actorType": "user",
            "protocolVersion": 2, "restoredSubscriptions": []}),
        ),
        from_client(json!({"type": "subscribe", "topic": "a/r/t"})),
        from_broker(json!({"type": "subscribed", "topic": "a/r/t", "loadBalance": false})),
        from_client(json!({"type": "publish", "topic": "a/r/t", "data": 7, "msgRef": "x"})),
    ];
    lines.extend_from_slice(end);
    fs::write(directory.join("session.jsonl"), lines.join("\n")).expect("written");
    let output = check(&directory, mode);
    (String::from_utf8(output.stdout).expect("text"), output.status.code())
}

fn acknowledged() -> String {
    from_broker(json!({"type": "published", "topic": "a/r/t", "msgRef": "x"}))
}

fn delivered(data: u8) -> String {
    from_broker(json!({"type": "message", "topic": "a/r/t", "data": data, "filter": "#", "msgId": "id",
        "requiresAck": true}))
}

#[test]
fn a_session_that_our_broker_answers_alike_passes() {
    let header = json!({"scenario": "session", "auth": "tokens.json"});
    let (report, status) = session("session-alike", header, &[acknowledged(), delivered(7)]);
    assert_eq!(status, Some(0), "{report}");
}

#[test]
fn other_answers_of_our_broker_are_explained_by_field() {
    let header = json!({"scenario": "session", "auth": "tokens.json"});
    let cases = [
        (vec![acknowledged(), delivered(8)], "session.jsonl:9: field \"data\": expected 8, got 7"),
        (vec![delivered(7), acknowledged()], "session.jsonl:8: expected {"),
        (vec![acknowledged()], "session.jsonl:8: unexpected answer on connection 1: {"),
        (vec![acknowledged(), delivered(7), delivered(7)], "session.jsonl:10: no answer, expected {"),
        (
            vec![
                acknowledged(),
                json!({"t": 0.1, "conn": 1, "event": "close", "by": "broker", "code": 1011}).to_string(),
            ],
            "session.jsonl:9: expected close 1011 \"\", got {",
        ),
        (
            vec![
                json!({"t": 0.9, "conn": 1, "dir": "s2c", "hex": message_pack(json!({"type": "published",
                "topic": "a/r/t", "msgRef": "x"}))})
                .to_string(),
                delivered(7),
            ],
            "session.jsonl:8: answered 800 ms before the recorded time",
        ),
        (
            vec![acknowledged(), delivered(7), json!({"t": 1, "event": "meteor"}).to_string()],
            "unknown event \"meteor\"",
        ),
    ];
    for (number, (end, expected)) in cases.into_iter().enumerate() {
        let (report, status) = session(&format!("session-other-{number}"), header.clone(), &end);
        assert!(report.contains(expected) && status == Some(1), "{expected:?} is not in\n{report}");
    }
}

fn closed_by_client(code: u16) -> String {
    json!({"t": 0.3, "conn": 1, "event": "close", "by": "client", "code": code, "reason": ""}).to_string()
}

#[test]
fn a_session_that_our_client_lives_alike_passes() {
    let header = json!({"scenario": "session", "auth": "tokens.json"});
    let end = [acknowledged(), delivered(7), closed_by_client(1000)];
    let (report, status) = session_in("client", "life-alike", header, &end);
    assert_eq!(status, Some(0), "{report}");
}

#[test]
fn access_that_is_withdrawn_ends_the_subscription_in_the_client_too() {
    let header = json!({"scenario": "session", "auth": "tokens.json"});
    let denied = from_broker(json!({"type": "error", "error": "unknown_topic", "topic": "a/r/t"}));
    let end = [acknowledged(), denied, closed_by_client(1000)];
    let (report, status) = session_in("client", "life-denied", header, &end);
    assert_eq!(status, Some(0), "{report}");
}

#[test]
fn what_our_client_does_otherwise_is_explained() {
    let header = json!({"scenario": "session", "auth": "tokens.json"});
    let grouped = from_client(json!({"type": "subscribe", "topic": "a/r/u", "loadBalanceGroup": "g"}));
    let error = |name: &str| from_broker(json!({"type": "error", "error": name, "topic": "a/r/t"}));
    let cases = [
        (vec![delivered(7), closed_by_client(1000)], "session.jsonl:9: line 7 was never answered"),
        (vec![delivered(7)], "session.jsonl:7: no outcome"),
        (vec![acknowledged(), acknowledged()], "session.jsonl:9: answers nothing that was asked: {"),
        (
            vec![acknowledged(), error("too_many_filters")],
            "session.jsonl:9: answers nothing that was asked: {",
        ),
        (
            // Access is withdrawn once; then there is no subscription left that could end.
            vec![acknowledged(), error("unknown_topic"), error("unknown_topic")],
            "session.jsonl:10: answers nothing that was asked: {",
        ),
        (vec![acknowledged(), line("s2c", "c1")], "session.jsonl:9: the recorded message is not MessagePack"),
        (
            vec![acknowledged(), from_broker(json!({"type": "teleported"}))],
            "session.jsonl:9: answers nothing that was asked: {\"type\": \"teleported\"}",
        ),
        (
            // Our client names a group only where there is one.
            vec![acknowledged(), grouped],
            "session.jsonl:9: frame of line 9: field \"loadBalanceGroup\": expected \"g\", got nothing",
        ),
        (vec![acknowledged(), closed_by_client(1001)], "session.jsonl:9: expected a close with Some(1001)"),
    ];
    for (number, (end, expected)) in cases.into_iter().enumerate() {
        let name = format!("life-other-{number}");
        let (report, status) = session_in("client", &name, header.clone(), &end);
        assert!(report.contains(expected) && status == Some(1), "{expected:?} is not in\n{report}");
    }
}

#[test]
fn frames_that_go_past_our_client_are_named() {
    let header = json!({"scenario": "session", "auth": "tokens.json"});
    let text = json!({"type": "unsubscribe", "topic": "a/r/t"}).to_string();
    let end = [
        acknowledged(),
        from_client(json!({"type": "unsubscribe", "topic": 7})),
        from_broker(json!({"type": "unsubscribed", "topic": 7})),
        json!({"t": 0.2, "conn": 1, "dir": "c2s", "text": text}).to_string(),
        json!({"t": 0.2, "conn": 1, "dir": "s2c", "hex":
            message_pack(json!({"type": "unsubscribed", "topic": "a/r/t"}))})
        .to_string(),
        closed_by_client(1000),
    ];
    let (report, status) = session_in("client", "life-past", header, &end);
    let reasons = ["9: not ours: field \"topic\" has the wrong type", "11: not ours: text; our client"];
    for expected in reasons {
        assert!(report.contains(expected), "{expected:?} is not in\n{report}");
    }
    assert_eq!(status, Some(0), "{report}");
}

#[test]
fn a_missing_token_file_fails_the_session() {
    let header = json!({"scenario": "session", "auth": "other.json"});
    let (report, status) = session("session-without-tokens", header, &[acknowledged(), delivered(7)]);
    assert!(report.contains("other.json: ") && status == Some(1), "{report}");
}

#[test]
fn tokens_are_not_shown() {
    let frames = [from_client(json!({"type": "auth", "token": "at_live_secret", "reconnect": 1}))];
    let (report, _) = check_lines("token", "encode", &frames);
    assert!(report.contains("not ours") && !report.contains("secret"), "{report}");
}

#[test]
fn files_are_checked_in_the_order_of_their_names() {
    let directory = directory("order");
    for name in ["b.jsonl", "c.jsonl", "a.jsonl"] {
        fs::write(directory.join(name), "{\"scenario\":\"x\"}\n").expect("written");
    }
    fs::write(directory.join("README.md"), "not a recording").expect("written");
    let report = String::from_utf8(check(&directory, "all").stdout).expect("text");
    let names: Vec<&str> = report.lines().map(|line| line.trim_end_matches(" 0 frames")).collect();
    assert_eq!(
        names,
        [
            "ok   a  decode",
            "ok   a  encode",
            "ok   a  client",
            "ok   a  broker",
            "ok   b  decode",
            "ok   b  encode",
            "ok   b  client",
            "ok   b  broker",
            "ok   c  decode",
            "ok   c  encode",
            "ok   c  client",
            "ok   c  broker",
            "12 passed, 0 failed"
        ]
    );
}

#[test]
fn a_directory_without_recordings_is_an_error_of_one_line() {
    let empty = directory("empty");
    let without = directory("without");
    fs::write(without.join("notes.txt"), "").expect("written");
    let file = without.join("notes.txt");
    for path in [&empty, &without, &file, &empty.join("missing")] {
        let output = check(path, "all");
        let error = String::from_utf8(output.stderr).expect("text");
        assert!(error.starts_with("error: ") && error.lines().count() == 1, "{error}");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    }
}

#[test]
fn files_that_cannot_be_read_fail() {
    let directory = directory("odd-files");
    fs::create_dir(directory.join("a-directory.jsonl")).expect("a directory");
    fs::write(directory.join("binary.jsonl"), [0xff, 0x00, b'\n', 0xc1]).expect("written");
    fs::write(directory.join("empty.jsonl"), "").expect("written");
    let output = check(&directory, "decode");
    let report = String::from_utf8(output.stdout).expect("text");
    assert!(report.contains("a-directory.jsonl: cannot be read: "), "{report}");
    assert!(report.contains("binary.jsonl:1: not JSON: "), "{report}");
    assert!(report.contains("empty.jsonl:1: not JSON: "), "{report}");
    assert!(report.ends_with("\n0 passed, 3 failed\n"), "{report}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_reader_that_stops_early_ends_the_command_quietly() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let mut child = command(&traces, "all")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the command ends");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
