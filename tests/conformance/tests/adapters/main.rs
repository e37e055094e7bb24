//! One suite for every adapter: what holds on one runtime holds on all, against every broker that we know.
//!
//! A case is a plain function of a [`World`], which has one adapter and one profile of the development broker. What
//! differs between adapters is in `adapter.rs`, and nowhere else.
//!
//! ```text
//! cargo test -p nolag-conformance --test adapters                      # everything, and a table at the end
//! cargo test -p nolag-conformance --test adapters -- blocking::        # one adapter
//! cargo test -p nolag-conformance --test adapters -- presence::        # one theme
//! cargo test -p nolag-conformance --test adapters -- --list
//! ```

mod adapter;
mod cases;
mod fixtures;
mod table;
mod watchdog;
mod world;

use std::{panic, process::ExitCode, sync::Arc, thread};

use libtest_mimic::{Arguments, Trial};

use adapter::Adapter;
use cases::Case;
use fixtures::Bomb;
use table::Table;
use watchdog::Watchdog;
use world::World;

/// Trials at a time for each processor: most of them wait for a clock.
const TRIALS_PER_PROCESSOR: usize = 4;

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    let processors = thread::available_parallelism().map_or(1, Into::into);
    args.test_threads.get_or_insert(processors * TRIALS_PER_PROCESSOR);
    fixtures::allow_many_connections();
    keep_quiet_about_panics_on_purpose();
    let table = Arc::new(Table::new());
    let watchdog = Watchdog::start();
    let conclusion = libtest_mimic::run(&args, trials(&table, &watchdog));
    if !args.list {
        println!("{table}");
    }
    conclusion.exit_code()
}

/// Every case on every adapter, under the profiles that it depends on. The long ones come first, so that none is left
/// alone at the end.
fn trials(table: &Arc<Table>, watchdog: &Watchdog) -> Vec<Trial> {
    let mut cases: Vec<Case> = cases::all().collect();
    cases.sort_by_key(|case| !case.slow);
    let mut trials = Vec::new();
    for case in cases {
        for adapter in Adapter::ALL {
            for &profile in case.profiles.list() {
                let name = format!("{}::{}::{}", adapter.name(), profile.name(), case.name());
                let (table, watchdog) = (table.clone(), watchdog.clone());
                trials.push(Trial::test(name.clone(), move || {
                    let _watched = watchdog.watch(name);
                    let row = table.begin(&case, adapter);
                    World::new(adapter, profile).run(case.run);
                    row.passed();
                    Ok(())
                }));
            }
        }
    }
    trials
}

/// What is in the text of a panic that a case wants to happen.
const ON_PURPOSE: &str = "on purpose";

/// Nothing captures what trials print.
fn keep_quiet_about_panics_on_purpose() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        if !text.is_some_and(|text| text.contains(ON_PURPOSE)) && !payload.is::<Bomb>() {
            report(info);
        }
    }));
}
