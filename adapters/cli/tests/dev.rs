//! `nolag dev`.

#![cfg(unix)]

mod common;

use std::{fs, net::TcpListener};

use common::{ALICE, Broker, TOPIC, nolag, run, start};

#[test]
fn the_ready_line_names_the_real_port_and_the_banner_what_it_is_for() {
    let mut running = start(&mut nolag(["dev", "--port", "0", "--json"]));
    let ready = running.event("ready");
    let (url, port) = (ready["url"].as_str().unwrap(), ready["port"].as_u64().unwrap());
    assert_eq!(url, format!("ws://127.0.0.1:{port}/ws"));
    assert_ne!(port, 0);

    running.signal("INT");
    assert_eq!(running.event("stopped")["event"], "stopped");
    let ran = running.end().expect(0);
    for words in [
        "development",
        "production",
        "Kraken",
        url,
        "dev-token-alice",
        "dev-token-bob",
        "nolag sub",
        "nolag pub",
    ] {
        assert!(ran.stderr.contains(words), "{words:?} is not in {}", ran.stderr);
    }
}

#[test]
fn the_ready_file_holds_the_address_as_long_as_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ready");
    let broker = Broker::start_with(&["--ready-file", path.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", broker.url));

    broker.running.signal("TERM");
    broker.running.end().expect(0);
    assert!(!path.exists());
}

#[test]
fn other_tokens_than_those_of_the_examples_are_refused() {
    let broker = Broker::start();
    run(&mut broker.nolag(ALICE, &["pub", TOPIC, "1"])).expect(0);
    let ran = run(&mut broker.nolag("stranger", &["pub", TOPIC, "1"])).expect(4);
    ran.one_error(&["access_denied", "check the token"]);
}

#[test]
fn allow_all_lets_every_token_do_everything() {
    let broker = Broker::start_with(&["--allow-all"]);
    run(&mut broker.nolag("stranger", &["pub", "any/where/at-all", "1"])).expect(0);
}

#[test]
fn it_imitates_the_broker_that_was_asked_for() {
    for profile in ["kraken-0.10", "kraken-0.4", "cloud"] {
        Broker::start_with(&["--broker", profile]).running.hears(&format!("({profile})"));
    }
    run(&mut nolag(["dev", "--broker", "other"])).expect(2);
}

#[test]
fn a_busy_port_is_named_with_the_option_that_changes_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ran = run(&mut nolag(["dev", "--port", &port])).expect(2);
    ran.one_error(&[&port, "--port", "in use"]);
    assert_eq!(ran.stdout, "");
}

#[test]
fn an_address_of_another_machine_is_a_usage_error() {
    run(&mut nolag(["dev", "--host", "192.0.2.1", "--port", "0"]))
        .expect(2)
        .one_error(&["192.0.2.1", "--host"]);
}

#[test]
fn a_malformed_auth_file_is_named_with_place_and_field_but_without_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("auth.json");
    fs::write(
        &path,
        r#"{"tokens": {"planted": {"actorTokenId": "a", "allowedTopics": [{"pattern": "x", "permission": "rw"}]}}}"#,
    )
    .unwrap();
    let path = path.to_str().unwrap();
    let ran = run(&mut nolag(["dev", "--port", "0", "--auth", path])).expect(2);
    ran.one_error(&[path, "entry 1", "allowedTopics[0].permission"]);
    assert!(!ran.stderr.contains("planted"));

    let missing = dir.path().join("missing.json");
    let missing = missing.to_str().unwrap();
    run(&mut nolag(["dev", "--port", "0", "--auth", missing])).expect(2).one_error(&[missing]);
}

#[test]
fn an_auth_file_is_read_again_when_it_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("auth.json");
    fs::write(&path, r#"{"tokens": {}}"#).unwrap();
    let mut broker = Broker::start_with(&["--auth", path.to_str().unwrap()]);
    run(&mut broker.nolag("newcomer", &["pub", TOPIC, "1"])).expect(4);

    let grant = r#"{"tokens": {"newcomer": {"actorTokenId": "n", "allowedTopics": [{"pattern": "demo/general/#"}]}}}"#;
    fs::write(&path, grant).unwrap();
    let heard = broker.running.hears("reloaded");
    assert!(!heard.contains("newcomer"), "{heard}");
    run(&mut broker.nolag("newcomer", &["pub", TOPIC, "1"])).expect(0);
}
