//! The tour of `docs/from-python.md`.

#[allow(dead_code, reason = "its `main` is for people")]
#[path = "../../examples/from_python.rs"]
mod tour;

use nolag_broker::{AuthConfig, Profile, TestBroker};

use crate::soon;

const DOCUMENT: &str = include_str!("../../../../docs/from-python.md");
const EXAMPLE: &str = include_str!("../../examples/from_python.rs");

#[tokio::test]
async fn the_tour_works_with_every_broker() {
    for profile in Profile::ALL {
        let broker = TestBroker::builder().profile(profile).auth(AuthConfig::seed_world()).start().await;
        soon(tour::tour(&broker.url())).await.unwrap();
    }
}

/// Lines without indentation, and without empty ones.
fn normal(code: &str) -> String {
    code.lines().map(str::trim).filter(|line| !line.is_empty()).flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn all_code_of_the_document_is_code_of_the_tour() {
    let example = normal(EXAMPLE);
    let blocks: Vec<&str> =
        DOCUMENT.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 12, "{} blocks", blocks.len());
    for block in blocks {
        assert!(example.contains(&normal(block)), "this is not in examples/from_python.rs:\n{block}");
    }
}
