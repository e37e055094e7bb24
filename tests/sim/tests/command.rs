//! The command `nolag-sim`.

use std::process::{Command, Output};

fn run(args: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_nolag-sim")).args(args).output().expect("the command runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn it_sums_up_and_ends_with_how_many_passed() {
    let (output, text) = run(&["--seeds", "9..10", "--hours", "0.05", "--profile", "hostile"]);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for row in [
        "virtual time",
        "faults",
        "published",
        "acked",
        "reported",
        "delivered",
        "reconnects",
        "longest outage",
    ] {
        assert!(text.contains(row), "{row}: {text}");
    }
    assert_eq!(text.lines().last(), Some("2 passed, 0 failed"));
}

#[test]
fn the_same_seed_prints_the_same() {
    let args = ["--seeds", "3", "--hours", "0.05"];
    assert_eq!(run(&args).1, run(&args).1);
}

#[test]
fn wrong_usage_is_refused() {
    for args in
        [["--seeds", "5..1"], ["--seeds", "x"], ["--hours", "0"], ["--profile", "moon"], ["--clients", "0"]]
    {
        let (output, _) = run(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty());
    }
}
