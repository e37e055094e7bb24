//! `nolag demo`.

mod common;

use common::{nolag, run};

#[test]
fn everything_that_was_sent_is_acked_and_received() {
    let ran = run(&mut nolag(["demo"])).expect(0);
    assert!(ran.stdout.contains("Nothing is missing"), "{}", ran.stdout);
    assert_eq!(ran.stderr, "");
}

#[test]
fn json_tells_the_same_story_in_objects() {
    let ran = run(&mut nolag(["demo", "--json"])).expect(0);
    let lines = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    let count = |event: &str, actor: &str| {
        lines.iter().filter(|line| line["event"] == event && line["actor"] == actor).count()
    };
    for actor in ["alice", "bob"] {
        assert_eq!((count("published", actor), count("received", actor)), (6, 6), "{actor}");
    }
    assert_eq!((count("cut", "bob"), count("disconnected", "bob"), count("reconnected", "bob")), (1, 1, 1));
    let summary = lines.last().unwrap();
    assert_eq!((&summary["event"], &summary["ok"]), (&"summary".into(), &true.into()));
    assert_eq!(summary["bob"]["reconnects"], 1);
    assert!(summary["bob"]["downtime_ms"].as_f64().unwrap() > 0.0);
}
