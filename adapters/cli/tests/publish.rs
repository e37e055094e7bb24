//! `nolag pub`.

#![cfg(unix)]

mod common;

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{ChildStdin, Command, Stdio},
};

use common::{ALICE, BOB, Broker, Running, TOPIC, nolag, on_a_terminal, run, run_with_input, start};
use nolag_broker::{AuthConfig, Fault, TestBroker};

#[test]
fn the_confirmation_is_printed() {
    let broker = Broker::start();
    let mut bob = broker.subscribe(&["--json", "--count", "1"]);
    let ran = run(&mut broker.publish(&[r#"{"text":"hello"}"#])).expect(0);
    assert!(ran.stdout.starts_with("published to demo/general/messages, acked in "), "{}", ran.stdout);
    assert_eq!(ran.stderr, "");
    assert_eq!(bob.event("message")["data"]["text"], "hello");

    let ran = run(&mut broker.publish(&["1", "--json"])).expect(0);
    let line: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&line["event"], &line["acked"], &line["topic"]),
        (&"published".into(), &true.into(), &TOPIC.into())
    );
    assert!(line["ms"].as_f64().unwrap() > 0.0);
    let ran = run(&mut broker.publish(&["1", "--no-ack"])).expect(0);
    assert!(ran.stdout.contains("no confirmation"), "{}", ran.stdout);
}

#[test]
fn what_json_lacks_survives_the_way_through_the_broker() {
    let broker = Broker::start();
    let data = r#"{"bytes":{"$bin":"/wA="},"map":{"$map":[[1,"one"]]},"big":18446744073709551615}"#;
    let bob = broker.subscribe(&["--count", "1"]);
    run(&mut broker.publish(&[data])).expect(0);
    assert_eq!(bob.end().expect(0).stdout, format!("{TOPIC} {data}\n"));
}

#[test]
fn options_reach_the_broker() {
    let broker = Broker::start();
    let mut filtered = broker.subscribe(&["--json", "--filter", "vip"]);
    let mut group = broker.subscribe(&["--json", "--filter", "x", "--filter", "a+b"]);
    run(&mut broker.publish(&["1", "--filter", "other"])).expect(0);
    run(&mut broker.publish(&["2", "--filter", "vip"])).expect(0);
    run(&mut broker.publish(&["3", "--filter", "b+a"])).expect(0);
    run(&mut broker.publish(&["4", "--retain", "--qos", "2"])).expect(0);
    let message = filtered.event("message");
    assert_eq!(
        (&message["data"], &message["filter"], &message["from"]),
        (&2.into(), &"vip".into(), &"alice".into())
    );
    assert_eq!(group.event("message")["data"], 3);
    let mut late = broker.subscribe(&["--json"]);
    assert_eq!(late.event("message")["data"], 4);
}

#[test]
fn invalid_json_is_refused_before_anything_is_connected() {
    let mut command = nolag(["pub", TOPIC, "hello", "--url", "ws://127.0.0.1:1/ws", "--token", "t"]);
    run(&mut command).expect(7).one_error(&["not valid JSON", "--string"]);
}

#[test]
fn a_bad_topic_or_filter_is_refused_before_anything_is_connected_or_read() {
    for (args, words) in [
        (&["bad topic", "-"][..], &["bad topic", "names hold only"][..]),
        (&["a/b", "-"], &["a/b", "app/room/topic"]),
        (&["a/b/+", "-"], &["a/b/+", "wildcards"]),
        (&[TOPIC, "-", "--filter", "a/b"], &["a/b"]),
        (&[TOPIC, "-", "--filter", "a+"], &["filter"]),
        (&[TOPIC, "--lines", "--filter", "a|b"], &["a|b"]),
    ] {
        let mut command = nolag(["pub", "--url", "ws://127.0.0.1:1/ws", "--token", "t"]);
        // Nothing is ever typed.
        let mut running = start(command.args(args).stdin(Stdio::piped()));
        let _stdin = running.child.stdin.take();
        running.end().expect(2).one_error(words);
    }
    let many = vec!["x"; 101].join("+");
    let mut command =
        nolag(["pub", TOPIC, "1", "--url", "ws://127.0.0.1:1/ws", "--token", "t", "--filter", &many]);
    run(&mut command).expect(2).one_error(&["101", "100"]);
}

#[test]
fn what_the_broker_refuses_has_its_code_and_hint() {
    let broker = Broker::start();
    run(&mut broker.nolag(ALICE, &["pub", "demo/elsewhere/messages", "1"])).expect(5).one_error(&[
        "unknown_topic",
        "42940",
        "demo/elsewhere/messages",
        "not configured",
    ]);
    let ran = run(&mut broker.nolag(ALICE, &["pub", "demo/elsewhere/messages", "1", "--lines"])).expect(2);
    ran.one_error(&["--lines"]);
    run(&mut broker.nolag(ALICE, &["pub", "nonsense", "1"])).expect(2).one_error(&["app/room/topic"]);
    let large = format!("\"{}\"", "x".repeat(950_000));
    run_with_input(&mut broker.publish(&["-"]), large.as_bytes()).expect(7).one_error(&["921600"]);
}

#[test]
fn usage_errors_are_2() {
    run(&mut nolag(["pub"])).expect(2);
    run(&mut nolag(["publish", TOPIC, "1"])).expect(2);
    run(&mut nolag(["pub", TOPIC, "1", "--qos", "3", "--token", "t"])).expect(2);
    run(&mut nolag(["pub", TOPIC, "1"])).expect(2).one_error(&["no token", "NOLAG_TOKEN", "--token-file"]);
}

#[test]
fn lines_are_messages() {
    let broker = Broker::start();
    let bob = broker.subscribe(&["--count", "3"]);
    let ran =
        run_with_input(&mut broker.publish(&["--lines", "--json"]), b"1\n\n{\"a\":2}\r\n\"three\"").expect(0);
    assert_eq!(bob.end().expect(0).stdout, format!("{TOPIC} 1\n{TOPIC} {{\"a\":2}}\n{TOPIC} \"three\"\n"));
    let numbers: Vec<_> = ran
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["line"].as_u64())
        .collect();
    assert_eq!(numbers, [1, 3, 4]);
    assert_eq!(ran.stderr, "sent 3, acked 3, failed 0\n");

    let bob = broker.subscribe(&["--count", "2", "--raw"]);
    run_with_input(&mut broker.publish(&["--lines", "--string"]), b"not json\nsecond\n").expect(0);
    assert_eq!(bob.end().expect(0).stdout, "not json\nsecond\n");
}

#[test]
fn a_bad_line_is_named_and_ends_it_unless_told_otherwise() {
    let broker = Broker::start();
    let input = b"1\nnonsense\n3\n";
    let ran = run_with_input(&mut broker.publish(&["--lines"]), input).expect(7);
    assert!(ran.stderr.contains("error: line 2: not valid JSON"), "{}", ran.stderr);
    assert!(ran.stderr.contains("sent 1, acked 1, failed 1"), "{}", ran.stderr);

    let ran = run_with_input(&mut broker.publish(&["--lines", "--keep-going"]), input).expect(8);
    assert!(ran.stderr.contains("error: line 2: not valid JSON"), "{}", ran.stderr);
    assert!(ran.stderr.contains("sent 2, acked 2, failed 1"), "{}", ran.stderr);
}

#[test]
fn many_lines_keep_to_the_brokers_limit() {
    let broker = Broker::start();
    let bob = broker.subscribe(&["--count", "120", "--raw"]);
    let input: String = (0..120).map(|number| format!("{number}\n")).collect();
    let ran = run_with_input(&mut broker.publish(&["--lines"]), input.as_bytes()).expect(0);
    assert!(ran.stderr.contains("sent 120, acked 120, failed 0"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("50 messages a second").count(), 1, "{}", ran.stderr);
    assert_eq!(bob.end().expect(0).stdout, input);
}

#[test]
fn few_lines_are_not_told_about_the_limit() {
    let broker = Broker::start();
    let input = "1\n".repeat(50);
    let ran = run_with_input(&mut broker.publish(&["--lines"]), input.as_bytes()).expect(0);
    assert_eq!(ran.stderr, "sent 50, acked 50, failed 0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_that_wait_for_their_turn_survive_a_lost_connection() {
    let world = World::start().await;
    let mut publisher = world.nolag(ALICE, &["pub", TOPIC, "--lines", "--keep-going"]);
    let mut publisher = start(publisher.stdin(Stdio::piped()));
    let input: String = (1..=70).map(|number| format!("{number}\n")).collect();
    let mut stdin = publisher.child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let mut printed = 0;
    // The limit is reached after the first 50; until their second is over the others wait.
    while printed < 45 {
        assert!(publisher.line().starts_with("published line"));
        printed += 1;
    }
    // The next session comes later than that.
    world.broker.fault(Fault::cut().on("auth").times(1)).await;
    world.broker.cut_all().await;
    let ran = publisher.end();
    printed += ran.stdout.lines().count();
    // Only what was on its way when the connection broke may be unknown.
    let unknown = ran.stderr.matches("sent, and perhaps not delivered").count();
    assert_eq!(printed + unknown, 70, "{ran:?}");
    assert_eq!(ran.stderr.matches("error: line").count(), unknown, "{ran:?}");
    ran.expect(if unknown == 0 { 0 } else { 8 });
}

#[test]
fn a_reader_that_has_seen_enough_does_not_end_publishing() {
    let broker = Broker::start();
    let bob = broker.subscribe(&["--count", "3", "--raw"]);
    for (last, code, words) in [("3\n", 0, "sent 3, acked 3, failed 0"), ("nonsense\n", 7, "error: line 3")] {
        let mut command = broker.publish(&["--lines"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"1\n").unwrap();
        // As `head -1` does.
        let mut head = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        head.read_line(&mut line).unwrap();
        assert!(line.starts_with("published line 1"), "{line}");
        drop(head);
        stdin.write_all(b"2\n").unwrap();
        stdin.write_all(last.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(bob.end().expect(0).stdout, "1\n2\n3\n");
}

#[test]
fn a_refused_message_that_asked_for_no_confirmation_is_5() {
    let broker = Broker::start();
    let mut publisher = broker.nolag(ALICE, &["pub", "demo/elsewhere/messages", "--lines", "--no-ack"]);
    let mut publisher = start(publisher.stdin(Stdio::piped()));
    let mut stdin = publisher.child.stdin.take().unwrap();
    stdin.write_all(b"1\n").unwrap();
    publisher.hears("error: unknown_topic (42940) on demo/elsewhere/messages");
    drop(stdin);
    let ran = publisher.end().expect(5);
    assert!(ran.stderr.contains("sent 1, acked 0, failed 0"), "{}", ran.stderr);
}

#[test]
fn a_file_is_read_like_standard_input() {
    let broker = Broker::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, "{\"from\": \"file\"}\n").unwrap();
    let path = file.path().to_str().unwrap();
    let bob = broker.subscribe(&["--count", "2"]);
    run(&mut broker.publish(&["--file", path])).expect(0);
    run(&mut broker.publish(&["--file", path, "--string"])).expect(0);
    let expected = format!("{TOPIC} {{\"from\":\"file\"}}\n{TOPIC} \"{{\\\"from\\\": \\\"file\\\"}}\\n\"\n");
    assert_eq!(bob.end().expect(0).stdout, expected);
    run(&mut broker.publish(&["--file", "/nonexistent/data"])).expect(7).one_error(&["/nonexistent/data"]);
}

#[test]
fn empty_input_is_an_error_unless_allowed() {
    let broker = Broker::start();
    run(&mut broker.publish(&[])).expect(7).one_error(&["empty", "--allow-empty"]);
    run(&mut broker.publish(&["--lines"])).expect(7);
    let bob = broker.subscribe(&["--count", "2"]);
    run(&mut broker.publish(&["--allow-empty"])).expect(0);
    run(&mut broker.publish(&["--allow-empty", "--string"])).expect(0);
    assert_eq!(bob.end().expect(0).stdout, format!("{TOPIC} null\n{TOPIC} \"\"\n"));
    run(&mut broker.publish(&["--allow-empty", "--lines"])).expect(0);
}

#[test]
fn the_table_of_standard_input_output_and_data() {
    let broker = Broker::start_with(&["--no-limits"]);
    let dir = tempfile::tempdir().unwrap();
    let (input, code) = (dir.path().join("input"), dir.path().join("code"));
    fs::write(&input, "7\n").unwrap();
    let binary = env!("CARGO_BIN_EXE_nolag");
    let terminals = common::has_terminals();
    let mut checked = 0;
    for stdin in ["terminal", "pipe", "file", "/dev/null", "closed"] {
        for stdout in ["terminal", "pipe", "file"] {
            for data in ["7", "-", ""] {
                let on_terminal = stdin == "terminal" || stdout == "terminal";
                if on_terminal && !terminals {
                    continue;
                }
                let command = format!("'{binary}' pub {TOPIC} {data}");
                let command = match stdin {
                    "pipe" => format!("printf '7\\n' | {command}"),
                    "file" => format!("{command} < '{}'", input.display()),
                    "/dev/null" => format!("{command} < /dev/null"),
                    "closed" => format!("{command} <&-"),
                    _ => command,
                };
                let command = format!("{{ {command}; echo $? > '{}'; }}", code.display());
                let command = match stdout {
                    "pipe" => format!("{command} | cat > /dev/null"),
                    "file" => format!("{command} > '{}'", dir.path().join("output").display()),
                    _ => command,
                };
                let mut shell = if on_terminal { on_a_terminal(&command) } else { Command::new("sh") };
                if !on_terminal {
                    shell.args(["-c", &command]);
                }
                shell.env("NOLAG_URL", &broker.url).env("NOLAG_TOKEN", ALICE);
                let ran = match (stdin, data) {
                    // What is typed, and the end of it.
                    ("terminal", "-") => run_with_input(&mut shell, b"7\n\x04"),
                    _ => run(&mut shell),
                };
                let expected = match (data, stdin) {
                    ("7", _) => "0",
                    (_, "/dev/null" | "closed") => "7",
                    ("", "terminal") => "2",
                    _ => "0",
                };
                let seen = fs::read_to_string(&code).unwrap();
                assert_eq!(seen.trim(), expected, "stdin {stdin}, stdout {stdout}, data {data:?}: {ran:?}");
                fs::remove_file(&code).unwrap();
                checked += 1;
            }
        }
    }
    assert_eq!(checked, if terminals { 45 } else { 24 });
}

#[test]
fn standard_input_is_left_alone_when_there_is_data() {
    let broker = Broker::start();
    let mut shell = Command::new("sh");
    let command = format!("'{}' pub {TOPIC} 1 && cat", env!("CARGO_BIN_EXE_nolag"));
    shell.args(["-c", &command]).env("NOLAG_URL", &broker.url).env("NOLAG_TOKEN", ALICE);
    let ran = run_with_input(&mut shell, b"untouched\n").expect(0);
    assert!(ran.stdout.ends_with("untouched\n"), "{ran:?}");
}

#[test]
fn an_interrupt_drains_and_its_counts_are_those_of_the_broker() {
    let broker = Broker::start();
    let mut bob = broker.subscribe(&["--json"]);
    let mut publisher = start(broker.publish(&["--lines"]).stdin(Stdio::piped()));
    let mut stdin = publisher.child.stdin.take().unwrap();
    let endless = std::thread::spawn(move || while stdin.write_all(b"1\n").is_ok() {});
    for _ in 0..60 {
        assert!(publisher.line().starts_with("published line"));
    }
    publisher.signal("INT");
    let ran = publisher.end().expect(130);
    endless.join().unwrap();
    let summary = ran.stderr.lines().find(|line| line.starts_with("sent ")).unwrap();
    assert!(ran.stderr.contains("error: interrupted"), "{}", ran.stderr);

    run(&mut broker.publish(&["\"end\""])).expect(0);
    let arrived =
        std::iter::from_fn(|| Some(bob.event("message"))).take_while(|message| message["data"] == 1).count();
    assert_eq!(summary, format!("sent {arrived}, acked {arrived}, failed 0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_interrupt_leaves_at_once_and_says_what_is_not_confirmed() {
    let world = World::start().await;
    let (mut publisher, _stdin) = world.publisher_without_confirmations(&[]).await;
    publisher.signal("INT");
    publisher.hears("waiting for 1 confirmations");
    publisher.signal("INT");
    let ran = publisher.end().expect(130);
    assert!(ran.stderr.contains("not confirmed: 1"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_waited_out_and_what_is_unknown_counts_as_failed() {
    let world = World::start().await;
    let (mut publisher, mut stdin) = world.publisher_without_confirmations(&["--keep-going"]).await;
    world.broker.cut_all().await;
    publisher.hears("error: line 2: sent, and perhaps not delivered");
    stdin.write_all(b"3\n").unwrap();
    drop(stdin);
    assert!(publisher.line().starts_with("published line 3"));
    let ran = publisher.end().expect(8);
    assert!(ran.stderr.contains("sent 3, acked 2, failed 1"), "{}", ran.stderr);
}

/// A broker inside the test.
struct World {
    broker: TestBroker,
}

impl World {
    async fn start() -> Self {
        Self { broker: TestBroker::builder().auth(AuthConfig::seed_world()).start().await }
    }

    fn nolag(&self, token: &str, args: &[&str]) -> Command {
        let mut command = nolag(args);
        command.env("NOLAG_URL", self.broker.url()).env("NOLAG_TOKEN", token);
        command
    }

    /// `nolag pub --lines`: its first message was confirmed, its second has arrived and will not be.
    async fn publisher_without_confirmations(&self, args: &[&str]) -> (Running, ChildStdin) {
        let mut bob = start(&mut self.nolag(BOB, &["sub", TOPIC]));
        bob.hears("subscribed");
        let mut publisher = self.nolag(ALICE, &["pub", TOPIC, "--lines"]);
        let mut publisher = start(publisher.args(args).stdin(Stdio::piped()));
        let mut stdin = publisher.child.stdin.take().unwrap();
        stdin.write_all(b"1\n").unwrap();
        assert!(publisher.line().starts_with("published line 1"));
        let connections = self.broker.connections().await;
        let alice = connections.iter().find(|open| open.actor_id.as_deref() == Some("alice")).unwrap();
        self.broker.hold(alice.id).await;
        stdin.write_all(b"2\n").unwrap();
        assert_eq!([bob.line(), bob.line()], [format!("{TOPIC} 1"), format!("{TOPIC} 2")]);
        (publisher, stdin)
    }
}
