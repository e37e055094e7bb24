//! What is bounded stays within its bounds, however an adapter polls and whatever a broker sends.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/steps.rs"]
mod steps;
mod support;
#[allow(dead_code, reason = "the rest is for other test binaries")]
#[path = "support/world.rs"]
mod world;

use std::collections::BTreeMap;

use cases::cases;
use proptest::prelude::*;
use steps::steps;
use world::{Polling, VARIANTS, World, configuration};

/// The bit of a configuration that makes its limits small.
const SMALL_LIMITS: u16 = 16;
/// Acks kept for the next session.
const MAX_ACKS: usize = 4096;

/// What the core says that it has: how many of each.
fn counts(explained: &str) -> BTreeMap<&str, usize> {
    let count = |part| {
        let (number, what) = str::split_once(part, ' ')?;
        Some((what, number.parse().ok()?))
    };
    explained.split("; ").filter_map(count).collect()
}

#[test]
fn what_is_counted_is_found_in_the_explanation() {
    let text =
        "connected as \"a b\", 2 subscriptions; 3 publishes; 12 frames to send; wakes in 1.0 s to rest";
    assert_eq!(counts(text), BTreeMap::from([("publishes", 3), ("frames to send", 12)]));
}

proptest! {
    #![proptest_config(cases(60))]

    /// Commands without an outcome, messages that nobody takes and acks that cannot leave each keep to their limit after
    /// every step.
    #[test]
    fn queues_keep_to_their_limits(steps in steps(150), variant in 0..VARIANTS, seed in any::<u64>()) {
        let config = configuration(variant | SMALL_LIMITS);
        let limits = config.limits.clone();
        let mut world = World::new(config, seed, Polling::AsTold);
        for step in &steps {
            world.take(step);
            let explained = world.core.explain();
            let counts = counts(&explained);
            // Connecting and leaving are always possible.
            let others = ["connects", "disconnects", "overdue replies", "frames to send", "message acks to send",
                "messages for the application"];
            let pending: usize = counts.iter().filter(|(what, _)| !others.contains(what)).map(|(_, n)| n).sum();
            prop_assert!(pending <= limits.max_pending, "{} of {}: {}", pending, limits.max_pending, explained);
            let count = |what| counts.get(what).copied().unwrap_or(0);
            // What is on its way when reading stops is kept, up to as much again.
            prop_assert!(count("messages for the application") <= 2 * limits.max_inbound_messages, "{}", explained);
            prop_assert!(count("message acks to send") <= MAX_ACKS, "{}", explained);
            // Reading stops as soon as there is more than is taken, and starts again when half of it is.
            if count("messages for the application") == 0 {
                prop_assert!(world.core.wants_input(), "{}", explained);
            }
        }
    }
}
