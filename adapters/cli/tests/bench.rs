//! `nolag bench`, for a moment: shapes and exit codes are checked, never speed.

mod common;

use std::{fs, net::TcpListener, process::Command};

use common::{ALICE, Broker, Ran, has_terminals, nolag, on_a_terminal, run};
use serde_json::{Value as Json, json};

/// A run that takes a moment.
fn bench(args: &[&str]) -> Command {
    let mut command = nolag(["bench"]);
    command.args(["--duration", "30ms", "--warmup", "5ms", "--rounds", "2", "--clients", "5"]).args(args);
    command
}

#[track_caller]
fn lines(ran: &Ran) -> Vec<Json> {
    let lines: Vec<Json> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, others) = lines.split_last().unwrap();
    assert!(others.iter().all(|line| line["v"] == 1 && line["at"].is_string()), "{ran:#?}");
    // Exactly this, for scripts that read the last line only.
    assert_eq!(last.as_object().unwrap().keys().collect::<Vec<_>>(), ["event", "ratios"]);
    assert_eq!(last["event"], "ratios");
    lines
}

fn of<'a>(lines: &'a [Json], event: &str) -> Vec<&'a Json> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

#[test]
fn json_ends_with_the_ratios() {
    let dir = tempfile::tempdir().unwrap();
    let (chart, earlier) = (dir.path().join("ratios.svg"), dir.path().join("earlier.jsonl"));
    let args = ["rtt", "fanout", "--baseline", "--json", "--chart"];
    let ran = run(bench(&args).arg(&chart)).expect(0);
    let all = lines(&ran);
    let environment = of(&all, "environment")[0];
    for key in ["cpu", "os", "arch", "nolag", "rustc", "build"] {
        assert!(environment[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {environment}");
    }
    assert!(environment["cores"].as_u64() > Some(0));
    assert_eq!(
        [&environment["rounds"], &environment["size"], &environment["baseline"]],
        [&json!(2), &json!(300), &json!(true)]
    );

    let measured = of(&all, "measured");
    assert_eq!(measured.len(), 2 * 4, "{ran:#?}");
    for line in measured {
        assert!(line["count"].as_u64() > Some(0) && line["per_second"].as_f64() > Some(0.0), "{line}");
        assert_eq!([&line["lost"], &line["duplicates"], &line["failed"]], [&json!(0); 3]);
        assert!(line["work"] != "rtt" || line["latency"]["p999_us"].as_f64() > Some(0.0), "{line}");
    }
    let names = ["rtt_p50_vs_bare", "rtt_p99_vs_bare", "fanout_200_vs_bare"];
    let ratios = of(&all, "ratio");
    assert_eq!(ratios.iter().map(|ratio| &ratio["name"]).collect::<Vec<_>>(), names);
    assert_eq!(ratios[0]["goal"], json!({ "at_most": 1.25 }));
    assert!(ratios[0]["met"].is_boolean() && ratios[1].get("met").is_none());
    let values = all.last().unwrap()["ratios"].as_object().unwrap();
    assert!(values.len() == names.len() && values.values().all(|value| value.as_f64() > Some(0.0)));
    let svg = fs::read_to_string(chart).unwrap();
    assert!(svg.starts_with("<svg ") && names.iter().all(|name| svg.contains(name)), "{svg}");

    // And what another run makes of it.
    fs::write(&earlier, &ran.stdout).unwrap();
    let ran = run(bench(&["rtt", "--baseline", "--json", "--compare"]).arg(&earlier)).expect(0);
    let all = lines(&ran);
    let changes = of(&all, "change");
    assert_eq!(changes.iter().map(|change| &change["name"]).collect::<Vec<_>>(), names[..2]);
    assert_eq!(changes[0]["before"], values[names[0]]);
    let ran = run(bench(&["rtt", "--baseline", "--compare"]).arg(&earlier)).expect(0);
    assert!(ran.stdout.contains("before") && ran.stdout.contains(" %"), "{ran:#?}");
}

#[test]
fn people_get_a_table_with_the_goals() {
    let ran = run(&mut bench(&["publish", "connect", "--baseline"])).expect(0);
    for words in ["\npublish\n  bare-window-1 ", "\nconnect\n", "/s", "publish_1024_vs_bare", " – "] {
        assert!(ran.stdout.contains(words), "{words:?}: {}", ran.stdout);
    }
    let ran = run(&mut bench(&["memory"]));
    if cfg!(target_os = "linux") {
        let ran = ran.expect(0);
        assert!(ran.stdout.contains("idle_core_heap_bytes") && ran.stdout.contains("≤ 4096"), "{ran:#?}");
    }
}

#[test]
fn a_broker_that_runs_is_measured_within_reason() {
    let broker = Broker::start_with(&["--no-limits"]);
    let mut command = bench(&["--json", "--url", &broker.url]);
    let ran = run(command.env("NOLAG_TOKEN", ALICE)).expect(0);
    let all = lines(&ran);
    let works: Vec<_> = of(&all, "measured").iter().map(|line| line["work"].clone()).collect();
    assert!(["publish", "rtt", "connect"].iter().all(|work| works.contains(&json!(work))), "{ran:#?}");
    // Nothing to compare with.
    assert_eq!(all.last().unwrap()["ratios"], json!({}));
    assert!(ran.stderr.contains("--no-limits"), "{ran:#?}");
}

#[test]
fn what_cannot_be_measured_has_an_exit_code() {
    let url = "ws://127.0.0.1:9/ws";
    let usage: [(&[&str], &[&str]); 10] = [
        (&["nonsense"], &["nonsense", "receive"]),
        (&["--duration", "soon"], &["--duration"]),
        (&["--duration", "0s"], &["--duration"]),
        (&["--size", "10"], &["--size"]),
        (&["--baseline", "--url", url], &["--baseline", "--url"]),
        (&["--token", ALICE], &["--url"]),
        (&["memory", "--url", url, "--token", ALICE], &["memory", "--url"]),
        (&["--url", url], &["NOLAG_TOKEN"]),
        (&["receive", "--official-python=/nowhere/python"], &["/nowhere/python", "import nolag"]),
        (&["rtt", "--chart", "/nowhere/at/all.svg"], &["/nowhere/at/all.svg"]),
    ];
    for (args, words) in usage {
        let ran = run(nolag(["bench"]).args(args)).expect(2);
        assert!(words.iter().all(|word| ran.stderr.contains(word)), "{ran:#?}");
        assert_eq!(ran.stdout, "");
    }
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("ws://127.0.0.1:{port}/ws");
    let ran = run(&mut bench(&["rtt", "--url", &url, "--token", ALICE])).expect(3);
    assert!(ran.stderr.contains(&url), "{ran:#?}");
    let broker = Broker::start();
    run(&mut bench(&["rtt", "--url", &broker.url, "--token", "nobody"])).expect(4);
    let topic = "elsewhere/general/messages";
    run(&mut bench(&["rtt", "--url", &broker.url, "--token", ALICE, "--topic", topic])).expect(5);

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("earlier.jsonl");
    run(bench(&["rtt", "--compare"]).arg(&file)).expect(2).one_error(&["earlier.jsonl"]);
    fs::write(&file, "{\"event\":\"environment\"}\n").unwrap();
    run(bench(&["rtt", "--compare"]).arg(&file)).expect(7).one_error(&["earlier.jsonl", "--json"]);
}

#[test]
fn an_interrupt_ends_it_at_once_with_its_servers() {
    let mut running = common::start(&mut nolag(["bench", "rtt", "--duration", "1h", "--json"]));
    running.event("environment");
    running.hears("measuring rtt");
    running.signal("INT");
    running.end().expect(130).one_error(&["interrupted"]);
}

#[test]
fn a_terminal_shows_a_bar() {
    if !has_terminals() {
        return;
    }
    let command =
        format!("{} bench rtt --duration 30ms --warmup 5ms --rounds 2", env!("CARGO_BIN_EXE_nolag"));
    let ran = run(&mut on_a_terminal(&command)).expect(0);
    assert!(ran.stdout.contains("2/2") || ran.stdout.contains("1/2"), "{ran:#?}");
    assert!(ran.stdout.contains("p99.9"), "{ran:#?}");
}

#[test]
fn nobody_need_read_it() {
    let command = format!("{} bench rtt --duration 30ms | head -1", env!("CARGO_BIN_EXE_nolag"));
    let ran = run(Command::new("bash").args(["-c", &format!("set -o pipefail; {command}")])).expect(0);
    assert_eq!(ran.stdout.lines().count(), 1, "{ran:#?}");
}
