//! Each invariant finds the fault that is planted for it.

use std::{collections::BTreeSet, time::Duration};

use nolag_sim::{Planted, Profile, Settings, invariants, polling_changes_nothing, simulate};

/// What the first of some seeds finds. Clients that come back together are told apart on fast links only.
fn found(planted: Planted) -> Option<&'static str> {
    [(Profile::Hostile, 900), (Profile::Lan, 3600)].into_iter().find_map(|(profile, seconds)| {
        let span = Duration::from_secs(seconds);
        let settings = Settings {
            span,
            profile,
            minimise: false,
            lines: 0,
            planted: Some(planted),
            ..Settings::default()
        };
        (1..=3).find_map(|seed| {
            let failure = match simulate(seed, &settings) {
                Ok(summary) => polling_changes_nothing(seed, &settings, &summary).err()?,
                Err(failure) => failure,
            };
            Some(failure.violation.invariant)
        })
    })
}

#[test]
fn every_planted_fault_is_found_by_the_invariant_that_is_meant_for_it() {
    let mut missed = Vec::new();
    for (planted, invariant) in Planted::ALL {
        let found = found(planted);
        if found != Some(invariant) {
            missed.push(format!("{planted:?} is for {invariant}, and {found:?} found it"));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn every_invariant_has_its_fault() {
    let planted: BTreeSet<_> = Planted::ALL.iter().map(|(_, invariant)| *invariant).collect();
    assert_eq!(planted, invariants::NAMES.into_iter().collect());
}
