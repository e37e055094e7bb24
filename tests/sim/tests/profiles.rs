//! Every invariant holds under every profile, whatever the number of clients.

use std::time::Duration;

use nolag_sim::{Profile, Settings, polling_changes_nothing, simulate};

fn check(profile: Profile, clients: usize, seeds: std::ops::RangeInclusive<u64>) {
    let settings = Settings { clients, span: Duration::from_secs(600), profile, ..Settings::default() };
    for seed in seeds {
        let summary = simulate(seed, &settings).unwrap_or_else(|failure| panic!("{failure:#?}"));
        polling_changes_nothing(seed, &settings, &summary).unwrap_or_else(|failure| panic!("{failure:#?}"));
        assert!(summary.counts.acked > 0 && summary.counts.delivered > 0 && summary.counts.reconnects > 0);
    }
}

#[test]
fn everything_holds_on_a_local_network() {
    check(Profile::Lan, 20, 1..=1);
}

#[test]
fn everything_holds_on_telephones() {
    check(Profile::Mobile, 20, 1..=1);
}

#[test]
fn everything_holds_when_everything_goes_wrong() {
    check(Profile::Hostile, 20, 1..=2);
}

#[test]
fn everything_holds_for_one_client_and_for_many() {
    check(Profile::Hostile, 1, 4..=4);
    check(Profile::Hostile, 43, 5..=5);
}
