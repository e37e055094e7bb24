//! The token reaches no output.

mod common;

use std::fs;

use common::{Broker, TOPIC, nolag, run};

const PLANTED: &str = "planted-secret-7f3a";

#[test]
fn no_command_says_the_token() {
    let broker = Broker::start();
    let open = Broker::start_with(&["--allow-all"]);
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (token_file, two_words, auth) = (path("token"), path("two"), path("auth.json"));
    fs::write(&token_file, PLANTED).unwrap();
    fs::write(&two_words, format!("{PLANTED} {PLANTED}")).unwrap();
    fs::write(&auth, format!(r#"{{"tokens": {{"{PLANTED}": {{"actorTokenId": 5}}}}}}"#)).unwrap();
    let user = format!("ws://user:{PLANTED}@127.0.0.1/ws");
    let query = format!("ws://127.0.0.1:1/ws?token={PLANTED}");
    let missing = path("missing");
    let refused = broker.url.as_str();
    let accepted = open.url.as_str();

    for (code, args) in [
        (0, &["--help"][..]),
        (0, &["--version"]),
        (0, &["help", "pub"]),
        (0, &["demo", "--help"]),
        (0, &["dev", "--help"]),
        (0, &["pub", "--help"]),
        (0, &["sub", "-h"]),
        (0, &["demo"]),
        (2, &["dev", "--auth", &auth, "--port", "0"]),
        (4, &["pub", TOPIC, "1", "--url", refused]),
        (4, &["sub", TOPIC, "--url", refused]),
        (4, &["sub", TOPIC, "--url", refused, "--json"]),
        (4, &["pub", TOPIC, "1", "--url", refused, "--token", PLANTED]),
        (4, &["pub", TOPIC, "1", "--url", refused, "--token-file", &token_file]),
        (0, &["pub", TOPIC, "1", "--url", accepted, "--json"]),
        (6, &["sub", TOPIC, "--url", accepted, "--json", "--idle", "50ms"]),
        (2, &["pub", TOPIC, "1", "--token-file", &two_words]),
        (2, &["pub", TOPIC, "1", "--token-file", &missing]),
        (2, &["pub", TOPIC, "1", "--token-file", &token_file, "--token", PLANTED]),
        (2, &["pub", TOPIC, "1", "--token", PLANTED, "--qos", "9"]),
        (2, &["sub", "--tokn", PLANTED]),
        (2, &["sub", TOPIC, "--url", &user]),
        (3, &["sub", TOPIC, "--url", &query]),
        (7, &["pub", TOPIC, "nonsense", "--url", refused]),
    ] {
        let ran = run(nolag(args).env("NOLAG_TOKEN", PLANTED)).expect(code);
        assert!(!ran.stdout.contains(PLANTED) && !ran.stderr.contains(PLANTED), "{args:?}: {ran:#?}");
    }
    let ran = run(nolag(["sub", "--help"]).env("NOLAG_TOKEN", PLANTED).env("NOLAG_URL", query)).expect(0);
    assert!(!ran.stdout.contains(PLANTED) && ran.stdout.contains("NOLAG_URL"), "{}", ran.stdout);
}

#[test]
fn the_token_of_an_option_wins_over_that_of_the_environment() {
    let broker = Broker::start();
    run(&mut broker.nolag("stranger", &["pub", TOPIC, "1", "--token", common::ALICE])).expect(0);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, format!("{}\n", common::ALICE)).unwrap();
    let path = file.path().to_str().unwrap();
    run(&mut broker.nolag("stranger", &["pub", TOPIC, "1", "--token-file", path])).expect(0);
}

#[test]
fn a_token_on_the_command_line_is_remarked_on_a_terminal() {
    let broker = Broker::start();
    let args = format!("pub {TOPIC} 1 --url {} --token {}", broker.url, common::ALICE);
    let ran = run(&mut nolag(args.split(' '))).expect(0);
    assert_eq!(ran.stderr, "");
    if common::has_terminals() {
        let command = format!("'{}' {args}", env!("CARGO_BIN_EXE_nolag"));
        let ran = run(&mut common::on_a_terminal(&command)).expect(0);
        assert!(ran.stdout.contains("visible in the process list"), "{}", ran.stdout);
    }
}

#[cfg(unix)]
#[test]
fn a_token_file_that_others_can_read_is_remarked() {
    use std::os::unix::fs::PermissionsExt as _;
    let broker = Broker::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, common::ALICE).unwrap();
    let path = file.path().to_str().unwrap();
    let mut publish = broker.nolag("", &["pub", TOPIC, "1", "--token-file", path]);
    assert_eq!(run(&mut publish).expect(0).stderr, "");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(run(&mut publish).expect(0).stderr.contains("chmod 600"));
}
