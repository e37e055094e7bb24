//! What documents claim about tests.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const STATES: [&str; 6] = ["Idle", "Connecting", "Connected", "Paused by us", "Reconnecting", "Draining"];
const ACK_MODES: [&str; 2] = ["tracked", "untracked"];
const POLICIES: [&str; 3] = ["default", "offline queue", "at-least-once"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The document, if this is the repository; a published crate comes without.
fn document(name: &str) -> Option<String> {
    let documents = root().join("docs");
    documents.is_dir().then(|| fs::read_to_string(documents.join(name)).expect("the document is there"))
}

/// The tests that a text names in backquotes, as file and function.
fn named_tests(text: &str) -> Vec<(&str, &str)> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|code| code.split_once(".rs::").map(|_| code))
        .map(split)
        .collect()
}

fn split(test: &str) -> (&str, &str) {
    test.split_once("::").expect("a file and a function")
}

/// Whether the file has a test function of that name.
fn has_test(source: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    lines.iter().enumerate().any(|(at, line)| {
        let attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
        line.starts_with(&head) && attributes.copied().any(|attribute| attribute == "#[test]")
    })
}

/// The cells of the tables below a heading.
fn rows<'a>(text: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let start = format!("### {heading}\n");
    let section = text.split_once(&start).unwrap_or_else(|| panic!("no section {heading}")).1;
    let section = section.split("\n#").next().unwrap_or_default();
    let cells = |line: &'a str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    section.lines().filter(|line| line.starts_with("| ")).map(cells).skip(1).collect()
}

/// What a cell such as `a, b` or `any` stands for.
fn chosen<'a>(cell: &'a str, all: &[&'a str]) -> Vec<&'a str> {
    if cell == "any" { all.to_vec() } else { cell.split(", ").collect() }
}

#[test]
fn every_test_that_the_delivery_table_names_exists() {
    let Some(text) = document("delivery.md") else { return };
    let named = named_tests(&text);
    assert!(named.len() > 40, "{} tests", named.len());
    for (file, name) in named {
        let source = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(has_test(&source, name), "there is no test {name} in {file}");
    }
}

#[test]
fn every_state_has_a_line_with_a_test_for_each_ack_mode_and_policy() {
    let Some(text) = document("delivery.md") else { return };
    for state in STATES {
        let mut missing: BTreeSet<_> =
            ACK_MODES.iter().flat_map(|mode| POLICIES.map(|policy| (*mode, policy))).collect();
        for row in rows(&text, state) {
            let [modes, policies, _, shown_by] = row[..] else { panic!("{state}: {row:?}") };
            assert_eq!(named_tests(shown_by).len(), 1, "{state}: {row:?}");
            for mode in chosen(modes, &ACK_MODES) {
                for policy in chosen(policies, &POLICIES) {
                    assert!(ACK_MODES.contains(&mode) && POLICIES.contains(&policy), "{state}: {row:?}");
                    missing.remove(&(mode, policy));
                }
            }
        }
        assert!(missing.is_empty(), "{state} says nothing about {missing:?}");
    }
}

#[test]
fn every_line_about_receiving_names_a_test() {
    let Some(text) = document("delivery.md") else { return };
    let section = text.split_once("## Receiving\n").expect("a section").1;
    let section = section.split("\n#").next().unwrap_or_default();
    for state in STATES {
        let start = format!("| {} |", state.to_lowercase());
        let lines: Vec<_> = section.lines().filter(|line| line.starts_with(&start)).collect();
        assert!(!lines.is_empty(), "{state}");
        assert!(lines.iter().all(|line| named_tests(line).len() == 1), "{state}");
    }
}

#[test]
fn a_missing_test_would_be_found() {
    let source = "#[test]\nfn one() {}\n\n    #[test]\n    #[ignore]\n    fn two() {\nfn three() {}\n";
    assert!(has_test(source, "one") && has_test(source, "two"));
    assert!(!has_test(source, "three") && !has_test(source, "on"));
    assert_eq!(named_tests("`a` b `c/d.rs::e` f.rs::g `h::i`"), [("c/d.rs", "e")]);
}
