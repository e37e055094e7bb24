//! `nolag sub`.

#![cfg(unix)]

mod common;

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use common::{ALICE, BOB, Broker, TOPIC, nolag, on_a_terminal, run, start};
use nolag_broker::{AuthConfig, TestBroker};

#[test]
fn count_ends_it() {
    let broker = Broker::start();
    let bob = broker.subscribe(&["--count", "2"]);
    for data in ["1", "\"two\"", "3"] {
        run(&mut broker.publish(&[data])).expect(0);
    }
    let ran = bob.end().expect(0);
    assert_eq!(ran.stdout, format!("{TOPIC} 1\n{TOPIC} \"two\"\n"));
}

#[test]
fn raw_is_the_data_alone() {
    let broker = Broker::start();
    let bob = broker.subscribe(&["--count", "3", "--raw"]);
    for data in ["\"text\"", r#"{"$bin":"Ynl0ZXM="}"#, r#"{"a": [1]}"#] {
        run(&mut broker.publish(&[data])).expect(0);
    }
    assert_eq!(bob.end().expect(0).stdout, "text\nbytes\n{\"a\":[1]}\n");
}

#[test]
fn raw_has_the_delimiter_that_was_asked_for() {
    let broker = Broker::start();
    let delimiters: [&[&str]; 4] =
        [&["-0"], &["--delimiter", ", "], &["--delimiter", ""], &["--delimiter", "\n"]];
    let subscribers = delimiters.map(|args| broker.subscribe(&[&["--raw", "--count", "2"], args].concat()));
    for data in ["\"a\"", r#"{"b": 1}"#] {
        run(&mut broker.publish(&[data])).expect(0);
    }
    let expected = ["a\0{\"b\":1}\0", "a, {\"b\":1}, ", "a{\"b\":1}", "a\n{\"b\":1}\n"];
    for (bob, expected) in subscribers.into_iter().zip(expected) {
        // Reading by lines adds the last line feed.
        let stdout = bob.end().expect(0).stdout;
        assert_eq!(stdout.trim_end_matches('\n'), expected.trim_end_matches('\n'));
    }
    for args in [&["-0"][..], &["--delimiter", ","], &["--raw", "-0", "--delimiter", ","]] {
        run(nolag(["sub", TOPIC, "--token", "t"]).args(args)).expect(2);
    }
}

#[test]
fn pretty_is_json_over_several_lines() {
    let broker = Broker::start();
    let mut plain = broker.subscribe(&["--pretty", "--count", "1"]);
    let raw = broker.subscribe(&["--pretty", "--raw", "--count", "1"]);
    let mut json = start(&mut broker.nolag(BOB, &["sub", TOPIC, "--pretty", "--json", "--count", "1"]));
    while json.line() != "  \"event\": \"subscribed\"," {}
    run(&mut broker.publish(&[r#"{"a":[1]}"#])).expect(0);
    let pretty = "{\n  \"a\": [\n    1\n  ]\n}";
    assert_eq!(plain.line(), format!("{TOPIC} {{"));
    assert_eq!(plain.end().expect(0).stdout, pretty[2..].to_owned() + "\n");
    assert_eq!(raw.end().expect(0).stdout, pretty.to_owned() + "\n");
    let stdout = json.end().expect(0).stdout;
    assert!(stdout.contains("{\n  \"v\": 1,\n  \"event\": \"message\""), "{stdout}");
}

#[test]
fn json_tells_the_connection_from_the_messages() {
    let broker = Broker::start();
    let mut bob = start(&mut broker.nolag(BOB, &["sub", TOPIC, "--json", "--count", "1"]));
    let connected = bob.event("connected");
    assert_eq!((&connected["actor"], &connected["url"]), (&"bob".into(), &broker.url.as_str().into()));
    assert_eq!(bob.event("subscribed")["topic"], TOPIC);
    run(&mut broker.publish(&[r#"{"n":1}"#])).expect(0);
    let message = bob.event("message");
    assert_eq!((&message["topic"], &message["data"]["n"]), (&TOPIC.into(), &1.into()));
    assert!(message["msg_id"].is_string(), "{message}");
    assert_eq!(bob.end().expect(0).stderr, "");
}

#[test]
fn times_end_it_and_tell_whether_the_goal_was_met() {
    let broker = Broker::start();
    let sub = |args: &[&str]| run(broker.nolag(BOB, &["sub", TOPIC]).args(args));
    for times in [["--timeout", "300ms"], ["--idle", "100ms"]] {
        let ran = sub(&times).expect(6);
        assert!(ran.stderr.contains("error: no message"), "{}", ran.stderr);
    }
    run(&mut broker.publish(&["1", "--retain"])).expect(0);
    for times in [["--timeout", "2s"], ["--idle", "500ms"]] {
        let ran = sub(&times).expect(0);
        assert_eq!(ran.stdout, format!("{TOPIC} 1\n"));
        let ran = sub(&[&times[..], &["--count", "2"]].concat()).expect(6);
        assert!(ran.stderr.contains("error: 1 of 2 messages"), "{}", ran.stderr);
    }
}

#[test]
fn what_the_broker_refuses_ends_it() {
    let broker = Broker::start();
    let ran = run(&mut broker.nolag(BOB, &["sub", TOPIC, "demo/elsewhere/messages"])).expect(5);
    assert!(ran.stderr.contains("error: subscribe refused: unknown_topic (42940)"), "{}", ran.stderr);
    run(&mut broker.nolag(BOB, &["sub", "nonsense"])).expect(2);
    run(&mut broker.nolag(BOB, &["sub", TOPIC, "--filter", "a/b"])).expect(2);
}

#[test]
fn a_bad_topic_or_filter_is_refused_before_anything_is_connected() {
    let many: Vec<String> = (0..101).map(|n| format!("--filter={n}")).collect();
    let many: Vec<&str> = [TOPIC].into_iter().chain(many.iter().map(String::as_str)).collect();
    for (args, words) in [
        (&["bad topic"][..], &["bad topic", "names hold only"][..]),
        (&[TOPIC, "demo/#/messages"], &["demo/#/messages", "#"]),
        (&[TOPIC, "--filter", "a/b"], &["a/b"]),
        (&[TOPIC, "--filter", "a", "--filter", "b+"], &["filter"]),
        (&many, &["101", "100"]),
    ] {
        let mut command = nolag(["sub", "--url", "ws://127.0.0.1:1/ws", "--token", "t"]);
        run(command.args(args)).expect(2).one_error(words);
    }
}

#[test]
fn several_topics_and_wildcards() {
    let broker = Broker::start();
    let mut bob = start(&mut broker.nolag(BOB, &["sub", "demo/general/a", "demo/general/b", "--json"]));
    bob.event("subscribed");
    bob.event("subscribed");
    let mut all = start(&mut broker.nolag(BOB, &["sub", "demo/general/+", "--json"]));
    all.event("subscribed");
    for topic in ["demo/general/a", "demo/general/b"] {
        run(&mut broker.nolag(ALICE, &["pub", topic, "1"])).expect(0);
        assert_eq!(bob.event("message")["topic"], topic);
        assert_eq!(all.event("message")["topic"], "demo/general/+");
    }
}

#[test]
fn a_group_shares_its_messages() {
    let broker = Broker::start();
    let first = broker.subscribe(&["--group", "workers", "--count", "2"]);
    let second = broker.subscribe(&["--group", "workers", "--count", "2"]);
    for _ in 0..4 {
        run(&mut broker.publish(&["1"])).expect(0);
    }
    first.end().expect(0);
    second.end().expect(0);
}

#[test]
fn a_signal_ends_an_endless_one_well() {
    let broker = Broker::start();
    for signal in ["INT", "TERM"] {
        let mut bob = broker.subscribe(&["--json"]);
        run(&mut broker.publish(&["1"])).expect(0);
        bob.event("message");
        bob.signal(signal);
        let ran = bob.end().expect(0);
        assert!(ran.stderr.contains("received 1 message"), "{}", ran.stderr);
    }
}

#[test]
fn a_signal_before_the_goal_is_130() {
    let broker = Broker::start();
    for goal in [["--count", "2"], ["--timeout", "1h"]] {
        let bob = broker.subscribe(&goal);
        bob.signal("INT");
        let ran = bob.end().expect(130);
        assert!(ran.stderr.contains("error: interrupted after 0 messages"), "{}", ran.stderr);
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_success() {
    let broker = Broker::start();
    let mut command = broker.nolag(BOB, &["sub", TOPIC]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = stderr.lines();
    assert!(said.by_ref().any(|line| line.unwrap().contains("subscribed")));
    // As `head -1` does.
    let mut head = BufReader::new(child.stdout.take().unwrap());
    run(&mut broker.publish(&["1"])).expect(0);
    let mut line = String::new();
    head.read_line(&mut line).unwrap();
    assert_eq!(line, format!("{TOPIC} 1\n"));
    drop(head);
    run(&mut broker.publish(&["2"])).expect(0);
    assert!(child.wait().unwrap().success());
    assert_eq!(said.map(Result::unwrap).collect::<Vec<_>>(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_shown_and_survived() {
    let broker = TestBroker::builder().auth(AuthConfig::seed_world()).start().await;
    let mut command = nolag(["sub", TOPIC, "--json", "--count", "1"]);
    let mut bob = start(command.env("NOLAG_URL", broker.url()).env("NOLAG_TOKEN", BOB));
    assert!(bob.event("connected")["downtime_ms"].is_null());
    bob.event("subscribed");
    broker.cut_all().await;
    assert!(bob.event("disconnected")["cause"].is_string());
    assert_eq!(bob.event("reconnecting")["attempt"], 1);
    let connected = bob.event("connected");
    let gap = bob.event("gap");
    assert!(gap["downtime_ms"].is_u64());
    assert_eq!(gap["downtime_ms"], connected["downtime_ms"]);
    let subscribed = async || {
        let connections = broker.connections().await;
        connections.iter().any(|open| !open.subscriptions.is_empty())
    };
    let restored = async {
        while !subscribed().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(common::DEADLINE, restored).await.unwrap();
    run(nolag(["pub", TOPIC, "1"]).env("NOLAG_URL", broker.url()).env("NOLAG_TOKEN", ALICE)).expect(0);
    bob.event("message");
    bob.end().expect(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_session_has_a_token_of_its_own_from_the_command() {
    let broker = TestBroker::builder().auth(AuthConfig::seed_world()).start().await;
    let asked = tempfile::NamedTempFile::new().unwrap();
    let token = format!("echo asked >> '{}'; echo {BOB}", asked.path().display());
    let mut command = nolag(["sub", TOPIC, "--json", "--token-cmd", &token]);
    let mut bob = start(command.env("NOLAG_URL", broker.url()));
    bob.event("subscribed");
    assert_eq!(std::fs::read_to_string(&asked).unwrap(), "asked\n");
    broker.cut_all().await;
    bob.event("gap");
    assert_eq!(std::fs::read_to_string(&asked).unwrap(), "asked\nasked\n");
}

#[test]
fn a_terminal_is_not_repainted_by_a_message() {
    if !common::has_terminals() {
        return;
    }
    let broker = Broker::start();
    run(&mut broker.publish(&["\"a\\u001b[2J\\u009bz\"", "--retain"])).expect(0);
    for (mode, shown) in
        [("--raw", "a\\u{1b}[2J\\u{9b}z"), ("--json", "a\\u001b[2J\\u009bz"), ("", "a\\u001b[2J")]
    {
        let command = format!("'{}' sub {TOPIC} --count 1 {mode}", env!("CARGO_BIN_EXE_nolag"));
        let mut script = on_a_terminal(&command);
        script.env("NOLAG_URL", &broker.url).env("NOLAG_TOKEN", BOB);
        let ran = run(&mut script).expect(0);
        assert!(ran.stdout.contains(shown) && !ran.stdout.contains('\u{1b}'), "{mode}: {ran:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_cannot_be_written_is_an_internal_fault() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = nolag(["demo"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("error: ") && said.contains("standard output"), "{said}");
}
