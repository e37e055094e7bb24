//! `nolag-sim`: runs seeds of the simulator and judges them.

use std::{
    collections::BTreeMap,
    io::IsTerminal as _,
    num::NonZero,
    ops::RangeInclusive,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nolag_sim::{Failure, Profile, Settings, Summary, polling_changes_nothing, simulate};

/// Every so many seeds one is run again with other polls.
const POLLS_EVERY: u64 = 10;

/// Runs clients, a broker and a network that fails in virtual time, and checks what must hold.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:\n  nolag-sim --seeds 1..200 --hours 1 --profile hostile\n  nolag-sim --seeds 42     one seed again, for its failure\n\nExit codes: 0 every seed passed, 1 some failed, 2 wrong usage."
)]
struct Args {
    /// Which seeds: one, or a first and a last
    #[arg(long, default_value = "1..20", value_name = "FIRST..LAST", value_parser = seeds)]
    seeds: RangeInclusive<u64>,
    /// How long things go wrong in each, in virtual hours
    #[arg(long, default_value_t = 1.0, value_parser = hours)]
    hours: f64,
    /// How many clients, in rooms of five
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    clients: u64,
    /// The network: lan, mobile or hostile
    #[arg(long, default_value_t = Profile::Hostile)]
    profile: Profile,
    /// Do not look for the faults that a failure needs
    #[arg(long)]
    no_minimise: bool,
    /// Lines of the history that a failure shows
    #[arg(long, default_value_t = 60)]
    lines: usize,
    /// Seeds at once; by default one for each processor
    #[arg(long)]
    jobs: Option<NonZero<usize>>,
}

fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is no whole number"));
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (number(first)?, number(last.trim_start_matches('='))?),
        None => (number(text)?, number(text)?),
    };
    if first > last {
        return Err(format!("the first seed, {first}, is after the last, {last}"));
    }
    Ok(first..=last)
}

fn hours(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(hours) if (0.001..=1000.0).contains(&hours) => Ok(hours),
        _ => Err("a number of hours between 0.001 and 1000 is needed".into()),
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    // A panic is a finding and is reported as one.
    std::panic::set_hook(Box::new(|_| {}));
    let span = Duration::from_secs_f64(args.hours * 3600.0);
    let mut settings = Settings::new(args.clients as usize, span, args.profile);
    settings.minimise = !args.no_minimise;
    settings.lines = args.lines;
    let jobs = args.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
    let (first, last) = args.seeds.into_inner();
    let bar = progress(last - first + 1);
    let next = AtomicU64::new(first);
    let total = Mutex::new(Total::default());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > last {
                        break;
                    }
                    let result = run(seed, &settings);
                    if let Err(failure) = &result {
                        bar.suspend(|| report(failure, &settings));
                    }
                    if let Ok(mut total) = total.lock() {
                        total.add(result.ok());
                        bar.set_message(total.failed_so_far());
                    }
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let total = total.into_inner().unwrap_or_default();
    total.print(args.hours);
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(seed: u64, settings: &Settings) -> Result<Summary, Box<Failure>> {
    let summary = simulate(seed, settings)?;
    if seed.is_multiple_of(POLLS_EVERY) {
        polling_changes_nothing(seed, settings, &summary)?;
    }
    Ok(summary)
}

fn progress(seeds: u64) -> ProgressBar {
    let bar = ProgressBar::new(seeds);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} seeds, {eta} left{msg}") {
        bar.set_style(style);
    }
    bar
}

fn report(failure: &Failure, settings: &Settings) {
    let Failure { seed, violation, faults, faults_before, trace } = failure;
    println!("seed {seed} failed: {violation}");
    if settings.minimise {
        println!("  faults that are needed for it ({} of {faults_before}):", faults.len());
        for (at, fault) in faults {
            println!("    {at:?} {fault}");
        }
    }
    println!("  the last about client {}:", violation.client);
    for line in trace {
        println!("    {line}");
    }
    let hours = settings.span.as_secs_f64() / 3600.0;
    let Settings { clients, profile, .. } = settings;
    println!("  again: nolag-sim --seeds {seed} --hours {hours} --clients {clients} --profile {profile}\n");
}

/// The sum of all seeds.
#[derive(Default)]
struct Total {
    passed: u64,
    failed: u64,
    summary: Summary,
}

impl Total {
    fn add(&mut self, summary: Option<Summary>) {
        let Some(Summary { counts, faults, .. }) = summary else {
            self.failed += 1;
            return;
        };
        self.passed += 1;
        let sum = &mut self.summary.counts;
        sum.published += counts.published;
        sum.acked += counts.acked;
        sum.delivered += counts.delivered;
        sum.reported += counts.reported;
        sum.reconnects += counts.reconnects;
        sum.longest_outage = sum.longest_outage.max(counts.longest_outage);
        for (kind, count) in faults {
            *self.summary.faults.entry(kind).or_default() += count;
        }
    }

    fn failed_so_far(&self) -> String {
        if self.failed == 0 { String::new() } else { format!(", {} failed", self.failed) }
    }

    fn print(&self, hours: f64) {
        let Summary { counts, faults, .. } = &self.summary;
        let rows: BTreeMap<&str, String> =
            faults.iter().map(|(kind, count)| (*kind, count.to_string())).collect();
        let kinds: Vec<String> = rows.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        println!("virtual time    {:.1} h of faults", hours * self.passed as f64);
        println!("faults          {}", kinds.join(", "));
        println!("published       {}", counts.published);
        println!("acked           {}", counts.acked);
        println!("reported        {} not acked, and said so", counts.reported);
        println!("delivered       {} messages", counts.delivered);
        println!("reconnects      {}", counts.reconnects);
        println!("longest outage  {:.1} s", counts.longest_outage as f64 / 1e6);
        println!("{} passed, {} failed", self.passed, self.failed);
    }
}
