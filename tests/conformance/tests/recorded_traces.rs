//! The recordings of this repository pass in every mode.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use nolag_conformance::{
    broker::{Allowed, replay},
    client::{Different, live},
    mode::Mode,
    report::{Summary, run},
    trace::{Body, Line, Peer, Trace, What},
};
use nolag_core::wire::ServerFrame;
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
fn our_client_sends_and_reports_what_was_recorded() {
    passes(Mode::Client);
}

#[test]
fn everything_that_the_client_does_otherwise_is_needed_and_documented() {
    let mut needed = BTreeSet::new();
    for path in paths() {
        needed.extend(live(&Trace::load(&path)).different);
    }
    assert_eq!(needed, BTreeSet::from(Different::ALL));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/broker-differences.md");
    let page = std::fs::read_to_string(page).expect("the page on differences");
    for different in Different::ALL {
        assert!(page.contains(&format!("| `{}` |", different.name())), "{} is not there", different.name());
    }
}

#[test]
fn the_client_misses_every_recorded_answer_that_is_left_out() {
    let answers = [
        "auth",
        "published",
        "subscribed",
        "unsubscribed",
        "filtersUpdated",
        "presenceList",
        "lobbySubscribed",
        "lobbyUnsubscribed",
        "lobbyPresenceList",
    ];
    let mut missed: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unnoticed = BTreeSet::new();
    for path in paths() {
        let trace = Trace::load(&path);
        // A client whose connection breaks cannot tell what would have come.
        let ends_well = |line: &Line| match &line.what {
            What::Event { name, conn, keys } if name == "close" => {
                conn.filter(|_| keys.get("by").is_some_and(|by| by == "client") && keys["code"] == 1000)
            }
            _ => None,
        };
        let end_well: BTreeSet<u64> = trace.lines.iter().filter_map(ends_well).collect();
        if trace.lines.len() > 100 {
            continue;
        }
        let not_ours: BTreeSet<usize> =
            live(&trace).outcome.findings.iter().map(|finding| finding.line).collect();
        for (index, line) in trace.lines.iter().enumerate() {
            let What::Message(message) = &line.what else { continue };
            let Body::Binary(bytes) = &message.body else { continue };
            let kind = ServerFrame::decode(bytes).ok().map(|frame| frame.type_name());
            let kind = answers.into_iter().find(|answer| kind == Some(answer));
            // What answers a frame that is not ours may come or not.
            let before = trace.lines[..index].iter().rev();
            let asked = before.into_iter().find(|line| {
                matches!(&line.what, What::Message(sent) if sent.from == Peer::Client && sent.conn == message.conn)
            });
            let ours = asked.is_some_and(|line| !not_ours.contains(&line.number));
            let ours = ours && end_well.contains(&message.conn);
            let (Some(kind), true) = (kind.filter(|_| message.from == Peer::Broker), ours) else { continue };
            let mut without = trace.clone();
            without.lines.remove(index);
            match live(&without).outcome.passed() {
                true => _ = unnoticed.insert((trace.header.scenario.clone(), kind)),
                false => *missed.entry(kind).or_default() += 1,
            }
        }
    }
    // A later refusal on the same topic looks like the answer; a lobby that is watched already is joined without a frame.
    let expected = [
        ("filters-errors", "subscribed"),
        ("lobby-map-expiry", "lobbySubscribed"),
        ("lobby-observer", "lobbySubscribed"),
    ];
    let expected = expected.map(|(scenario, kind)| (scenario.to_owned(), kind));
    assert_eq!(unnoticed, BTreeSet::from(expected));
    assert_eq!(missed.keys().copied().collect::<BTreeSet<_>>(), BTreeSet::from(answers));
    assert!(missed.values().sum::<usize>() > 200, "{missed:?}");
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

#[test]
fn only_frames_that_our_client_would_not_send_go_past_it() {
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    for path in paths() {
        let trace = Trace::load(&path);
        let findings = live(&trace).outcome.findings;
        match findings.iter().filter(|finding| finding.text.starts_with("not ours: ")).count() {
            0 => {}
            n => _ = left_out.insert(trace.header.scenario, n),
        }
    }
    // Recordings that are about what clients must not send, or send what ours refuses before it is sent.
    let expected = [
        ("ack-and-batch-ack", 2),
        ("auth-bad-token-then-retry", 2),
        ("auth-field-variants", 11),
        ("auth-twice-same-socket", 1),
        ("connection-limit-reached", 3),
        ("filters-and-group", 2),
        ("filters-errors", 16),
        ("frame-over-1mib", 2),
        ("idle-close", 1),
        ("malformed-msgpack", 10),
        ("message-size-boundary", 1),
        ("message-too-large", 2),
        ("missing-required-keys", 12),
        ("msgref-variants", 8),
        ("not-authenticated", 11),
        ("presence-edge-cases", 1),
        ("publish-echo-false", 1),
        ("subscribe-qos-and-topics", 3),
        ("text-json", 9),
        ("text-json-invalid", 6),
        ("unknown-type-ignored", 14),
        ("wildcard-grant-and-subscription", 2),
        ("wrong-type-crash", 6),
        ("wrong-type-tolerated", 9),
    ];
    assert_eq!(left_out, expected.map(|(scenario, n)| (scenario.to_owned(), n)).into());
}
