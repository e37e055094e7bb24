//! The token reaches no output.

mod common;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Command, Stdio},
    time::Instant,
};

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
        (0, &["trace", "record", "--help"]),
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
        (2, &["trace", "record", "--url", &user, "-o", &missing]),
        (7, &["trace", "show", &token_file]),
        (7, &["trace", "replay", &token_file]),
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

#[cfg(unix)]
#[test]
fn a_command_can_give_the_token() {
    let broker = Broker::start();
    let publish =
        |command: &str| run(&mut broker.nolag("stranger", &["pub", TOPIC, "1", "--token-cmd", command]));
    let ran = publish(&format!("echo asked >&2; echo {}", common::ALICE)).expect(0);
    assert_eq!(ran.stderr, "asked\n", "it runs once, and can speak");
    publish(&format!("echo {PLANTED} >&1; exit 3")).expect(2).one_error(&["--token-cmd", "exit status: 3"]);
    publish("true").expect(2).one_error(&["--token-cmd", "is empty"]);
    for fault in ["echo {}; exit 3", "echo {} {}", "echo {}; echo {}"] {
        let ran = publish(&fault.replace("{}", PLANTED)).expect(2);
        ran.one_error(&["--token-cmd"]);
        assert!(!ran.stderr.contains(PLANTED), "{ran:?}");
    }
    run(&mut broker.nolag("", &["pub", TOPIC, "1", "--token-cmd", "true", "--token", "x"])).expect(2);
    // It must not take the data.
    let mut command = broker.nolag("", &["pub", TOPIC, "--token-cmd"]);
    let ran = common::run_with_input(command.arg(format!("cat; echo {}", common::ALICE)), b"1");
    ran.expect(0);
}

#[cfg(unix)]
#[test]
fn a_dash_asks_for_the_token_without_showing_it() {
    if !common::has_terminals() {
        return;
    }
    let broker = Broker::start();
    let ask = || {
        let command = format!("tty; '{}' pub {TOPIC} 1 --token -", env!("CARGO_BIN_EXE_nolag"));
        let mut script = common::on_a_terminal(&command);
        script.env("NOLAG_URL", &broker.url).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut terminal = String::new();
        stdout.read_line(&mut terminal).unwrap();
        let mut prompt = Vec::new();
        stdout.read_until(b':', &mut prompt).unwrap();
        assert_eq!(prompt, b"Token:");
        let until = Instant::now() + common::DEADLINE;
        let shows_nothing = || {
            let settings = Command::new("stty").args(["-a", "-F", terminal.trim()]).output().unwrap().stdout;
            String::from_utf8(settings).unwrap().split_whitespace().any(|setting| setting == "-echo")
        };
        while !shows_nothing() {
            assert!(Instant::now() < until, "what is typed is shown");
        }
        (child, stdout)
    };
    let answer = |text: &str| {
        let (mut child, mut stdout) = ask();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        (child.wait().unwrap().code(), rest)
    };
    let (code, shown) = answer(&format!("{}\n", common::ALICE));
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("acked") && !shown.contains(common::ALICE), "{shown}");
    let (code, shown) = answer("\x03");
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("error: interrupted"), "{shown}");
    let (code, shown) = answer("\n");
    assert_eq!(code, Some(2), "{shown}");

    // Without a terminal there is nobody to ask.
    let mut command = Command::new("setsid");
    command.args(["-w", env!("CARGO_BIN_EXE_nolag"), "pub", TOPIC, "1", "--token", "-"]);
    run(command.stdin(Stdio::null())).expect(2).one_error(&["--token -", "terminal", "--token-cmd"]);
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
