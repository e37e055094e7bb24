//! The recordings of this repository pass in every mode.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use nolag_conformance::{
    broker::{Allowed, replay},
    mode::Mode,
    report::{Summary, run},
    trace::{Peer, Trace, What},
};
use serde_json::{Map, Value as Json};

fn directory() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/traces"))
}

fn paths() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory()).expect("traces");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    paths
}

fn passes(mode: Mode) {
    let mut report = Vec::new();
    let summary = run(directory(), &[mode], &mut report).expect("a report");
    let report = String::from_utf8(report).expect("text");
    assert_eq!(summary, Summary { passed: paths().len(), failed: 0 }, "{report}");
}

#[test]
fn every_broker_message_is_read_without_loss() {
    passes(Mode::Decode);
}

#[test]
fn every_client_message_is_encoded_as_recorded() {
    passes(Mode::Encode);
}

#[test]
fn our_broker_answers_every_client_as_recorded() {
    passes(Mode::Broker);
}

#[test]
fn every_allowed_difference_is_needed_and_documented() {
    let mut needed = BTreeSet::new();
    for path in paths() {
        needed.extend(replay(&Trace::load(&path)).allowed);
    }
    assert_eq!(needed, BTreeSet::from(Allowed::ALL));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/broker-differences.md");
    let page = std::fs::read_to_string(page).expect("the page on differences");
    for allowed in Allowed::ALL {
        assert!(page.contains(&format!("| `{}` |", allowed.name())), "{} is not on the page", allowed.name());
    }
}

#[test]
fn no_recorded_answer_can_go_missing_unnoticed() {
    for path in paths() {
        let trace = Trace::load(&path);
        if trace.lines.len() > 60 || trace.header.keys.contains_key("slow") {
            continue;
        }
        for (index, line) in trace.lines.iter().enumerate() {
            let by_broker = |keys: &Map<String, Json>| keys.get("by").is_some_and(|by| by == "broker");
            let is_answer = match &line.what {
                What::Message(message) => message.from == Peer::Broker,
                What::Event { name, keys, .. } => name == "close" && by_broker(keys),
            };
            if is_answer {
                let mut without = trace.clone();
                without.lines.remove(index);
                let outcome = replay(&without).outcome;
                assert!(!outcome.passed(), "{}:{} can be left out", path.display(), line.number);
            }
        }
    }
}

#[test]
fn recorded_answers_cannot_change_places_unnoticed() {
    let mut changed = 0;
    for path in paths() {
        let trace = Trace::load(&path);
        if trace.lines.len() > 60 || trace.header.keys.contains_key("varies") {
            continue;
        }
        for (index, pair) in trace.lines.windows(2).enumerate() {
            let [What::Message(one), What::Message(other)] = [&pair[0].what, &pair[1].what] else { continue };
            let both = one.from == Peer::Broker && other.from == Peer::Broker && one.conn == other.conn;
            if both && one.body != other.body {
                let mut swapped = trace.clone();
                swapped.lines[index].what = pair[1].what.clone();
                swapped.lines[index + 1].what = pair[0].what.clone();
                let outcome = replay(&swapped).outcome;
                assert!(!outcome.passed(), "{}:{} can come later", path.display(), pair[0].number);
                changed += 1;
            }
        }
    }
    assert!(changed > 50, "{changed}");
}

#[test]
fn recordings_are_read_whole() {
    for path in paths() {
        let text = std::fs::read_to_string(&path).expect("text");
        let trace = Trace::load(&path);
        assert!(trace.problems.is_empty(), "{}: {:?}", path.display(), trace.problems);
        assert_eq!(Some(trace.header.scenario.as_str()), path.file_stem().and_then(|name| name.to_str()));
        let of = |peer| trace.messages_from(peer).count();
        let events = trace.lines.iter().filter(|line| matches!(line.what, What::Event { .. })).count();
        let read = (of(Peer::Broker), of(Peer::Client), events);
        let lines_with = |key: &str| text.lines().filter(|line| line.contains(key)).count();
        let written =
            (lines_with(r#""dir":"s2c""#), lines_with(r#""dir":"c2s""#), lines_with(r#""event":""#));
        assert_eq!(read, written, "{}", path.display());
    }
}

#[test]
fn only_ill_formed_client_messages_are_left_out() {
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    for path in paths() {
        let trace = Trace::load(&path);
        let findings = Mode::Encode.check(&trace).findings;
        match findings.iter().filter(|finding| finding.text.starts_with("not ours: ")).count() {
            0 => {}
            n => _ = left_out.insert(trace.header.scenario, n),
        }
    }
    // Recordings that are about what clients must not send.
    let expected = [
        ("ack-and-batch-ack", 1),
        ("auth-field-variants", 6),
        ("filters-errors", 4),
        ("malformed-msgpack", 8),
        ("missing-required-keys", 12),
        ("msgref-variants", 8),
        ("not-authenticated", 3),
        ("publish-echo-false", 1),
        ("subscribe-qos-and-topics", 3),
        ("text-json", 2),
        ("text-json-invalid", 5),
        ("unknown-type-ignored", 13),
        ("wrong-type-crash", 7),
        ("wrong-type-tolerated", 9),
    ];
    assert_eq!(left_out, expected.map(|(scenario, n)| (scenario.to_owned(), n)).into());
}
