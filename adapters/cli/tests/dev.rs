//! `nolag dev`.

#![cfg(unix)]

mod common;

use std::{fs, net::TcpListener, process::Command};

use common::{ALICE, BOB, Broker, Running, TOPIC, nolag, run, start};

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
    for words in
        ["development", "production", "Kraken", url, "dev-token-alice", "dev-token-bob", "Ctrl-C stops it."]
    {
        assert!(ran.stderr.contains(words), "{words:?} is not in {}", ran.stderr);
    }
    let rest = format!("REST API: http://127.0.0.1:{port}/v1, key {}", common::API_KEY);
    assert!(ran.stderr.lines().any(|line| line == rest), "{rest:?} is not in {}", ran.stderr);
    // Where it is, and the two lines to copy.
    assert_eq!(ran.stderr.matches(url).count(), 3, "{}", ran.stderr);
}

#[test]
fn the_lines_to_copy_start_the_command_as_it_was_started() {
    for (cargo, program) in
        [(Some("nolag-cli"), "cargo run -q -p nolag-cli --"), (None, env!("CARGO_BIN_EXE_nolag"))]
    {
        let mut command = nolag(["dev", "--port", "0", "--json"]);
        match cargo {
            Some(package) => command.env("CARGO_PKG_NAME", package),
            None => command.env_remove("CARGO_PKG_NAME"),
        };
        let mut running = start(&mut command);
        let url = running.event("ready")["url"].as_str().unwrap().to_owned();
        running.signal("INT");
        let said = running.end().expect(0).stderr;
        for args in ["NOLAG_TOKEN=dev-token-bob {} sub ", "NOLAG_TOKEN=dev-token-alice {} pub "] {
            let line = format!("NOLAG_URL={url} {}", args.replace("{}", program));
            assert!(said.contains(&line), "{line:?} is not in {said}");
        }
    }
}

#[test]
fn the_lines_to_copy_work() {
    let mut dev = start(&mut nolag(["dev", "--port", "0", "--json"]));
    dev.event("ready");
    let mut sub = shell(&dev.hears(" sub "));
    sub.hears("subscribed");
    let ran = shell(&dev.hears(" pub ")).end().expect(0);
    assert!(ran.stdout.contains("acked"), "{ran:?}");
    assert_eq!(sub.line(), format!("{TOPIC} {{\"text\":\"hello\"}}"));
    sub.signal("INT");
    sub.end().expect(0);
}

/// A command of the banner. Starting it through cargo would take long.
fn shell(line: &str) -> Running {
    let line = line.trim().replace("cargo run -q -p nolag-cli --", env!("CARGO_BIN_EXE_nolag"));
    start(Command::new("sh").args(["-c", &format!("export {}", line.replacen(" /", " && exec /", 1))]))
}

#[test]
fn faults_can_be_on_from_the_start_and_are_shown() {
    let args = ["--fault", "refuse=broker_unavailable on=publish times=1", "--fault", "cut on=subscribe"];
    let mut broker = Broker::start_with(&args);
    broker.running.hears("Faults are on");
    broker.running.hears("refuse=broker_unavailable on=publish times=1");
    broker.running.hears("cut on=subscribe");
    run(&mut broker.publish(&["1"])).expect(5).one_error(&["broker_unavailable"]);
    run(&mut broker.publish(&["1"])).expect(0);

    let ran = run(&mut nolag(["dev", "--port", "0", "--fault", "explode"])).expect(2);
    assert!(ran.stderr.contains("explode") && ran.stderr.contains("expire-token"), "{}", ran.stderr);
}

#[test]
fn a_ready_file_that_cannot_be_written_is_said_before_anything_else() {
    let ran = run(&mut nolag(["dev", "--port", "0", "--ready-file", "/nonexistent/ready"])).expect(2);
    ran.one_error(&["/nonexistent/ready"]);
    assert_eq!(ran.stdout, "");
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
    ran.one_error(&[&broker.url, "access_denied", "check the token"]);
    run(&mut broker.nolag("stranger", &["sub", TOPIC])).expect(4).one_error(&[&broker.url, "access_denied"]);
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
    broker.running.hears("Ctrl-C stops it.");
    run(&mut broker.nolag("newcomer", &["pub", TOPIC, "1"])).expect(4);

    let grant = r#"{"tokens": {"newcomer": {"actorTokenId": "n", "allowedTopics": [{"pattern": "demo/general/#"}]}}}"#;
    fs::write(&path, grant).unwrap();
    let heard = broker.running.hears("reloaded");
    assert!(!heard.contains("newcomer"), "{heard}");
    run(&mut broker.nolag("newcomer", &["pub", TOPIC, "1"])).expect(0);
}

#[test]
fn a_state_file_outlives_the_broker() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.json");
    let args = ["--state", path.to_str().unwrap()];

    let broker = Broker::start_with(&args);
    let app = broker.api_json(&["apps", "create", "--name", "kept", "--topic", "t"]);
    let app_id = app["appId"].as_str().unwrap();
    broker.api_json(&["rooms", "create", app_id, "--name", "r"]);
    let actor = broker.api_json(&["actors", "create", "--name", "a", "--type", "user"]);
    let token = actor["accessToken"].as_str().unwrap();
    broker.running.signal("TERM");
    broker.running.end().expect(0);
    assert!(!fs::read_to_string(&path).unwrap().contains(token), "the token is in the file");

    let broker = Broker::start_with(&args);
    assert_eq!(broker.api_json(&["apps", "get", app_id]), app);
    let topic = format!("{}/r/t", app["slug"].as_str().unwrap());
    run(&mut broker.nolag(token, &["pub", &topic, "1"])).expect(0);

    // Without a file it is gone with the broker.
    run(&mut Broker::start().api(&["apps", "get", app_id])).expect(5);

    fs::write(&path, "{").unwrap();
    run(nolag(["dev", "--port", "0"]).args(args)).expect(2).one_error(&[args[1]]);
}

#[test]
fn after_a_restart_messages_have_other_ids_than_before() {
    let ids = [(); 2].map(|()| {
        let broker = Broker::start();
        let mut bob = start(&mut broker.nolag(BOB, &["sub", TOPIC, "--json", "--count", "1"]));
        bob.event("subscribed");
        run(&mut broker.publish(&["1"])).expect(0);
        let message = bob.event("message");
        bob.end().expect(0);
        message["msg_id"].as_str().unwrap().to_owned()
    });
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn an_api_key_that_is_given_is_the_only_one_and_stays_a_secret() {
    for by_option in [true, false] {
        let mut command = nolag(["dev", "--port", "0", "--json"]);
        match by_option {
            true => command.args(["--api-key", "planted.key"]),
            false => command.env("NOLAG_DEV_API_KEY", "planted.key"),
        };
        let mut running = start(&mut command);
        let url = running.event("ready")["url"].as_str().unwrap().to_owned();
        let broker = Broker { running, url };
        run(broker.api(&["apps", "list"]).env("NOLAG_API_KEY", "planted.key")).expect(0);
        run(&mut broker.api(&["apps", "list"])).expect(4);
        broker.running.signal("INT");
        let ran = broker.running.end().expect(0);
        let said = ran.stdout + &ran.stderr;
        assert!(said.contains("/v1, with the key that was given"), "{said}");
        assert!(!said.contains("planted") && !said.contains(common::API_KEY), "{said}");
    }
    for key in ["", "two words", "käy", "line\n"] {
        let ran = run(&mut nolag(["dev", "--port", "0", "--api-key", key])).expect(2);
        ran.one_error(&["--api-key", "one word"]);
        assert!(key.is_empty() || !ran.stderr.contains(key), "{ran:?}");
    }
    let help = run(nolag(["dev", "--help"]).env("NOLAG_DEV_API_KEY", "planted")).expect(0).stdout;
    assert!(help.contains("NOLAG_DEV_API_KEY") && !help.contains("planted"), "{help}");
}

#[test]
fn a_state_file_serves_one_broker_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.json");
    let args = ["--state", path.to_str().unwrap()];
    let broker = Broker::start_with(&args);
    run(nolag(["dev", "--port", "0"]).args(args)).expect(2).one_error(&[args[1], "another broker"]);
    broker.running.signal("KILL");
    broker.running.end();
    // However the first one ended.
    Broker::start_with(&args);
}
