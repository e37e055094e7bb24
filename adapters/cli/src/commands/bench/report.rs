//! What `nolag bench` prints.

use std::{collections::BTreeMap, fs, io::IsTerminal as _, path::Path, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use nolag_bench::{Environment, Figures, Latency, Measurement, PYTHON_SDK, Ratio, Settings, Work};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap as _};

use crate::{
    exit::Failure,
    output::{Output, say},
};

/// Values of an earlier run, by name.
pub(super) type Earlier = BTreeMap<String, f64>;

/// Standard output.
pub(super) struct Report {
    output: Output,
    earlier: Option<Earlier>,
    /// Of the work that is under way.
    measurements: Vec<Measurement>,
    work: Option<Work>,
}

#[derive(Serialize)]
struct Started<'a> {
    #[serde(flatten)]
    environment: &'a Environment,
    #[serde(skip_serializing_if = "Option::is_none")]
    python_sdk: Option<&'a str>,
    duration_ms: f64,
    warmup_ms: f64,
    rounds: usize,
    size: usize,
    seed: u64,
    baseline: bool,
}

#[derive(Serialize)]
struct Change<'a> {
    name: &'a str,
    before: f64,
    now: f64,
    percent: f64,
}

/// The last line. It has nothing else in it.
#[derive(Serialize)]
struct Last<'a> {
    event: &'static str,
    ratios: Values<'a>,
}

struct Values<'a>(&'a [Ratio]);

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for ratio in self.0 {
            map.serialize_entry(ratio.name, &rounded(ratio.value))?;
        }
        map.end()
    }
}

/// No more digits than a measurement has.
fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

impl Report {
    pub(super) fn new(output: Output, earlier: Option<Earlier>) -> Self {
        Self { output, earlier, measurements: Vec::new(), work: None }
    }

    pub(super) fn environment(&self, environment: &Environment, settings: &Settings) -> Result<(), Failure> {
        if environment.build == "debug" {
            say("warning: this is a debug build, whose figures mean little; use cargo run --release");
        }
        let millis = |duration: Duration| duration.as_secs_f64() * 1000.0;
        if self.output.is_json() {
            let started = Started {
                environment,
                python_sdk: settings.python.as_ref().map(|_| PYTHON_SDK),
                duration_ms: millis(settings.duration),
                warmup_ms: millis(settings.warmup),
                rounds: settings.rounds,
                size: settings.size,
                seed: settings.seed,
                baseline: settings.baseline,
            };
            return self.output.event("environment", started);
        }
        let Environment { cpu, cores, os, arch, nolag, rustc, build } = environment;
        self.output
            .line(format_args!("{cpu}, {cores} cores, {os} {arch}; nolag {nolag}, {rustc}, {build}"))?;
        self.output.line(format_args!(
            "{} rounds of {:?} after {:?}; messages of {} bytes",
            settings.rounds, settings.duration, settings.warmup, settings.size
        ))
    }

    pub(super) fn begin(&mut self, work: Work) -> Result<(), Failure> {
        self.end()?;
        self.work = Some(work);
        Ok(())
    }

    pub(super) fn measured(&mut self, measurement: Measurement) -> Result<(), Failure> {
        if self.output.is_json() {
            self.output.event("measured", &measurement)?;
        }
        self.measurements.push(measurement);
        Ok(())
    }

    /// The table of the work that has ended.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        let (Some(work), measurements) = (self.work.take(), std::mem::take(&mut self.measurements)) else {
            return Ok(());
        };
        if self.output.is_json() || measurements.is_empty() {
            return Ok(());
        }
        self.output.line(format_args!("\n{}", work.name()))?;
        let mut cases: Vec<&str> = Vec::new();
        for measurement in &measurements {
            if !cases.contains(&measurement.case) {
                cases.push(measurement.case);
            }
        }
        for case in cases {
            let rounds: Vec<&Figures> = measurements
                .iter()
                .filter(|measurement| measurement.case == case)
                .map(|measurement| &measurement.figures)
                .collect();
            self.output.line(format_args!("  {case:<18} {}", in_words(&rounds)))?;
        }
        Ok(())
    }

    pub(super) fn ratios(&self, ratios: &[Ratio]) -> Result<(), Failure> {
        if self.output.is_json() {
            for ratio in ratios {
                self.output.event("ratio", ratio)?;
            }
            for change in self.changes(ratios) {
                self.output.event("change", change)?;
            }
            return self.output.json(&Last { event: "ratios", ratios: Values(ratios) });
        }
        if ratios.is_empty() {
            return Ok(());
        }
        self.output.line(format_args!("\n{:<32} {:>8}   {:<17} goal", "ratio", "median", "of the rounds"))?;
        for ratio in ratios {
            let goal = match (ratio.goal_in_words(), ratio.met) {
                (Some(goal), Some(true)) => format!("{goal}  met"),
                (Some(goal), _) => format!("{goal}  MISSED"),
                (None, _) => String::new(),
            };
            let range = format!("{} – {}", short(ratio.low), short(ratio.high));
            let line = format!("{:<32} {:>8}   {range:<17} {goal}", ratio.name, ratio.value_in_words());
            self.output.line(line.trim_end())?;
        }
        let mut changes = self.changes(ratios).peekable();
        if changes.peek().is_some() {
            self.output.line(format_args!("\n{:<32} {:>8} {:>8}", "change", "before", "now"))?;
        }
        for Change { name, before, now, percent } in changes {
            self.output.line(format_args!(
                "{name:<32} {:>8} {:>8}  {percent:+.1} %",
                short(before),
                short(now)
            ))?;
        }
        Ok(())
    }

    fn changes<'a>(&'a self, ratios: &'a [Ratio]) -> impl Iterator<Item = Change<'a>> {
        let earlier = self.earlier.as_ref();
        ratios.iter().filter_map(move |ratio| {
            let before = *earlier?.get(ratio.name)?;
            let percent = rounded((ratio.value / before - 1.0) * 100.0);
            Some(Change { name: ratio.name, before, now: rounded(ratio.value), percent })
        })
    }
}

fn short(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// The medians of the rounds, each for itself, and the sums of what went wrong.
fn in_words(rounds: &[&Figures]) -> String {
    let mut words = Vec::new();
    if let Some(rate) = median(rounds.iter().filter_map(|figures| figures.per_second)) {
        words.push(format!("{:>11}/s", thousands(rate)));
    }
    let latency = |pick: fn(&Latency) -> f64| {
        median(rounds.iter().filter_map(|figures| figures.latency.as_ref()).map(pick)).unwrap_or_default()
    };
    if rounds.iter().any(|figures| figures.latency.is_some()) {
        words.push(format!(
            "p50 {:.1}  p90 {:.1}  p99 {:.1}  p99.9 {:.1}  max {:.1} µs",
            latency(|latency| latency.p50_us),
            latency(|latency| latency.p90_us),
            latency(|latency| latency.p99_us),
            latency(|latency| latency.p999_us),
            latency(|latency| latency.max_us)
        ));
    }
    if let Some(bytes) = median(rounds.iter().filter_map(|figures| figures.bytes).map(|bytes| bytes as f64)) {
        words.push(format!("{:>11} bytes", thousands(bytes)));
    }
    let sum = |pick: fn(&Figures) -> u64| rounds.iter().map(|figures| pick(figures)).sum::<u64>();
    for (name, count) in [
        ("lost", sum(|figures| figures.lost)),
        ("double", sum(|figures| figures.duplicates)),
        ("unconfirmed", sum(|figures| figures.failed)),
    ] {
        if count > 0 {
            words.push(format!("{count} {name}"));
        }
    }
    words.join("  ")
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// The values of an earlier run: the last line of what --json printed.
pub(super) fn earlier(path: &Path) -> Result<Earlier, Failure> {
    #[derive(Deserialize)]
    struct Line {
        event: String,
        ratios: Option<Earlier>,
    }
    let shown = path.display();
    let text =
        fs::read_to_string(path).map_err(|error| Failure::usage(format!("cannot read {shown}: {error}")))?;
    let lines = text.lines().rev().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let found = lines.filter(|line| line.event == "ratios").find_map(|line| line.ratios);
    found.ok_or_else(|| {
        Failure::data(format!(
            "{shown} has no ratios: it must be what `nolag bench --json` printed to its end"
        ))
    })
}

/// What is going on: a bar on a terminal, elsewhere a line for each work.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { bar: None }
    }

    pub(super) fn begin(&mut self, work: Work, steps: usize) {
        if !std::io::stderr().is_terminal() {
            return say(format_args!("measuring {}", work.name()));
        }
        // It draws on standard error.
        let bar = ProgressBar::new(steps as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
        self.bar = Some(bar);
    }

    pub(super) fn starting(&self, work: Work, case: &str, round: usize) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} {case}, round {round}", work.name()));
        }
    }

    pub(super) fn step(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    pub(super) fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [thousands(0.0), thousands(999.4), thousands(1000.0), thousands(1_234_567.0)],
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
