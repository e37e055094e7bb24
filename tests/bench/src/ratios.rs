//! Ratios between cases of one run, and the goals for them.

use serde::Serialize;

use crate::{Measurement, Work};

/// What a ratio should be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Not less.
    AtLeast(f64),
    /// Not more.
    AtMost(f64),
}

impl Goal {
    /// The number.
    pub fn value(self) -> f64 {
        match self {
            Self::AtLeast(goal) | Self::AtMost(goal) => goal,
        }
    }

    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtLeast(goal) => value >= goal,
            Self::AtMost(goal) => value <= goal,
        }
    }
}

/// One figure that can be compared between machines: a ratio, or bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratio {
    /// Its name.
    pub name: &'static str,
    /// The median of the rounds.
    pub value: f64,
    /// The least of the rounds.
    pub low: f64,
    /// The most of the rounds.
    pub high: f64,
    /// What it should be, if there is a goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// Whether it is, if there is a goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
    /// What it says.
    pub meaning: &'static str,
}

impl Ratio {
    /// The value for people.
    pub fn value_in_words(&self) -> String {
        in_words(self.value)
    }

    /// The goal for people.
    pub fn goal_in_words(&self) -> Option<String> {
        self.goal.map(|goal| {
            let sign = if matches!(goal, Goal::AtLeast(_)) { '≥' } else { '≤' };
            format!("{sign} {}", in_words(goal.value()))
        })
    }
}

/// Bytes are whole.
fn in_words(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[derive(Clone, Copy)]
enum What {
    Bytes,
    /// Half of the round trips take no longer.
    P50,
    P99,
    PerSecond,
}

struct Definition {
    name: &'static str,
    work: Work,
    what: What,
    /// What is divided.
    over: &'static str,
    /// By what; nothing for bytes.
    under: Option<&'static str>,
    goal: Option<Goal>,
    meaning: &'static str,
}

const fn speed(
    name: &'static str,
    work: Work,
    over: &'static str,
    under: &'static str,
    goal: Option<Goal>,
    meaning: &'static str,
) -> Definition {
    Definition { name, work, what: What::PerSecond, over, under: Some(under), goal, meaning }
}

const fn bytes(name: &'static str, over: &'static str, goal: f64, meaning: &'static str) -> Definition {
    let goal = Some(Goal::AtMost(goal));
    Definition { name, work: Work::Memory, what: What::Bytes, over, under: None, goal, meaning }
}

const SPEED: &str = "messages per second of our client, divided by those of a bare WebSocket loop";
const BROKER_SPEED: &str =
    "deliveries per second of our broker, divided by those of a bare broadcasting server";
const RUNTIME: &str = "messages per second on this runtime, divided by those on tokio";
const PYTHON: &str = "messages per second of our client, divided by those of the official Python SDK";

const AT_LEAST_HALF: Option<Goal> = Some(Goal::AtLeast(0.5));
const AT_LEAST_MOST: Option<Goal> = Some(Goal::AtLeast(0.7));

const DEFINITIONS: [Definition; 20] = [
    speed("receive_tokio_vs_bare", Work::Receive, "tokio", "bare", AT_LEAST_HALF, SPEED),
    speed("receive_handler_vs_bare", Work::Receive, "handler", "bare", None, SPEED),
    speed("receive_blocking_vs_tokio", Work::Receive, "blocking", "tokio", AT_LEAST_MOST, RUNTIME),
    speed("receive_async_std_vs_tokio", Work::Receive, "async-std", "tokio", AT_LEAST_MOST, RUNTIME),
    speed("receive_smol_vs_tokio", Work::Receive, "smol", "tokio", None, RUNTIME),
    speed(
        "receive_100k_subscriptions_vs_1",
        Work::Receive,
        "handler",
        "handler-100k",
        Some(Goal::AtMost(1.3)),
        "time per message with 100,000 subscriptions, 1,000 of which get messages, divided by that with one",
    ),
    speed(
        "receive_100k_topics_vs_1",
        Work::Receive,
        "handler",
        "handler-100k-busy",
        None,
        "time per message with 100,000 subscriptions, all of which get messages, divided by that with one",
    ),
    speed("receive_vs_python", Work::Receive, "tokio", "python", None, PYTHON),
    speed("publish_1_vs_bare", Work::Publish, "window-1", "bare-window-1", None, SPEED),
    speed("publish_64_vs_bare", Work::Publish, "window-64", "bare-window-64", None, SPEED),
    speed("publish_1024_vs_bare", Work::Publish, "window-1024", "bare-window-1024", None, SPEED),
    speed("publish_unconfirmed_vs_bare", Work::Publish, "unconfirmed", "bare-unconfirmed", None, SPEED),
    speed("publish_1024_vs_python", Work::Publish, "window-1024", "python-window-1024", None, PYTHON),
    Definition {
        name: "rtt_p50_vs_bare",
        work: Work::Rtt,
        what: What::P50,
        over: "tokio",
        under: Some("bare"),
        goal: Some(Goal::AtMost(1.25)),
        meaning: "median round trip of our client, divided by that of a bare WebSocket loop",
    },
    Definition {
        name: "rtt_p99_vs_bare",
        work: Work::Rtt,
        what: What::P99,
        over: "tokio",
        under: Some("bare"),
        goal: None,
        meaning: "99th percentile of round trips of our client, divided by that of a bare WebSocket loop",
    },
    speed("fanout_200_vs_bare", Work::Fanout, "broker", "bare", AT_LEAST_HALF, BROKER_SPEED),
    speed(
        "connect_vs_bare",
        Work::Connect,
        "tokio",
        "bare",
        None,
        "connections per second of our client, divided by those of a bare WebSocket client",
    ),
    bytes("idle_core_heap_bytes", "idle-core", 4096.0, "resident bytes of a connected core"),
    bytes(
        "subscription_heap_bytes",
        "subscription",
        400.0,
        "resident bytes that one of 100,000 subscriptions adds to a core",
    ),
    bytes("idle_client_bytes", "idle-client", 24_576.0, "resident bytes of an idle client, without TLS"),
];

/// The ratios for which there are measurements, in a fixed order. Numbers in their names are the defaults of the settings,
/// and stay with other ones.
pub fn ratios(measurements: &[Measurement]) -> Vec<Ratio> {
    DEFINITIONS.iter().filter_map(|definition| definition.of(measurements)).collect()
}

impl Definition {
    /// Each round is compared with itself: what disturbs it disturbs both.
    fn of(&self, measurements: &[Measurement]) -> Option<Ratio> {
        let of_case = |case: &str, round: usize| {
            let found =
                measurements.iter().find(|m| m.work == self.work && m.case == case && m.round == round);
            found.and_then(|m| self.value(m)).filter(|value| *value > 0.0)
        };
        let rounds = measurements.iter().map(|m| m.round).max().unwrap_or_default();
        let mut values: Vec<f64> = (1..=rounds)
            .filter_map(|round| {
                let over = of_case(self.over, round)?;
                match self.under {
                    Some(under) => Some(over / of_case(under, round)?),
                    None => Some(over),
                }
            })
            .collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let value = median(&values);
        let met = self.goal.map(|goal| goal.is_met_by(value));
        Some(Ratio { name: self.name, value, low, high, goal: self.goal, met, meaning: self.meaning })
    }

    fn value(&self, measurement: &Measurement) -> Option<f64> {
        let figures = &measurement.figures;
        match self.what {
            What::Bytes => figures.bytes.map(|bytes| bytes as f64),
            What::P50 => figures.latency.map(|latency| latency.p50_us),
            What::P99 => figures.latency.map(|latency| latency.p99_us),
            What::PerSecond => figures.per_second,
        }
    }
}

/// Of sorted values.
fn median(values: &[f64]) -> f64 {
    let middle = values.len() / 2;
    let at = |index: usize| values.get(index).copied().unwrap_or_default();
    if values.len().is_multiple_of(2) && middle > 0 {
        f64::midpoint(at(middle - 1), at(middle))
    } else {
        at(middle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Figures;

    fn measured(case: &'static str, round: usize, per_second: f64) -> Measurement {
        let figures = Figures { per_second: Some(per_second), ..Figures::default() };
        Measurement { work: Work::Receive, case, round, figures }
    }

    #[test]
    fn a_ratio_is_the_median_of_the_rounds_each_compared_with_itself() {
        let measurements = [
            measured("bare", 1, 100.0),
            measured("tokio", 1, 60.0),
            measured("bare", 2, 10.0), // Somebody else needed the machine.
            measured("tokio", 2, 5.0),
            measured("bare", 3, 100.0),
            measured("tokio", 3, 10.0),
            measured("bare", 4, 100.0), // Its counterpart is missing.
        ];
        let ratios = ratios(&measurements);
        let [ratio] = ratios.as_slice() else { panic!("{ratios:?}") };
        assert_eq!((ratio.name, ratio.value), ("receive_tokio_vs_bare", 0.5));
        assert_eq!((ratio.low, ratio.high, ratio.met), (0.1, 0.6, Some(true)));
    }

    #[test]
    fn medians_of_even_and_odd_numbers() {
        assert_eq!(median(&[1.0]), 1.0);
        assert_eq!(median(&[1.0, 3.0]), 2.0);
        assert_eq!(median(&[1.0, 3.0, 9.0]), 3.0);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = DEFINITIONS.iter().map(|definition| definition.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DEFINITIONS.len());
    }
}
