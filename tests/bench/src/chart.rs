//! A picture of the ratios.

use std::fmt::Write as _;

use crate::{Goal, Ratio};

const WIDTH: f64 = 760.0;
const ROW: f64 = 26.0;
const LABELS: f64 = 290.0;
const VALUES: f64 = 170.0;
const TOP: f64 = 34.0;

/// An SVG with a bar for each ratio, in parts of its goal where it has one: the line is the goal, or for others what the
/// ratio compares with. Bytes are left out unless they have a goal.
pub fn chart(ratios: &[Ratio]) -> String {
    let bars: Vec<Bar<'_>> = ratios.iter().filter_map(Bar::new).collect();
    let longest = bars.iter().map(|bar| bar.length).fold(1.0, f64::max).min(4.0);
    let scale = (WIDTH - LABELS - VALUES) / longest;
    let height = TOP + ROW * bars.len() as f64 + 12.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\" role=\"img\" aria-label=\"Ratios of nolag bench\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"{LABELS}\" y=\"20\" fill=\"#555\">bars: value; line: goal, or 1 where there is none</text>\n"
    );
    for (row, bar) in bars.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        let width = bar.length.min(longest) * scale;
        let (label, text, color) = (LABELS - 8.0, y + 15.0, bar.color());
        let line = LABELS + bar.mark.min(longest) * scale;
        let value = LABELS + width.max(line - LABELS) + 8.0;
        // Writing to a string cannot fail.
        let _ = write!(
            svg,
            "<text x=\"{label}\" y=\"{text:.1}\" text-anchor=\"end\">{}</text>\n\
             <rect x=\"{LABELS}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"18\" fill=\"{color}\"/>\n\
             <line x1=\"{line:.1}\" y1=\"{:.1}\" x2=\"{line:.1}\" y2=\"{:.1}\" stroke=\"#222\" stroke-width=\"2\"/>\n\
             <text x=\"{value:.1}\" y=\"{text:.1}\">{}</text>\n",
            bar.ratio.name,
            y - 2.0,
            y + 20.0,
            bar.words(),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

struct Bar<'a> {
    ratio: &'a Ratio,
    length: f64,
    mark: f64,
}

impl<'a> Bar<'a> {
    fn new(ratio: &'a Ratio) -> Option<Self> {
        let goal = ratio.goal.map(Goal::value);
        // Bytes have a length as parts of what they may be.
        let (length, mark) = match goal {
            Some(goal) if goal >= 100.0 => (ratio.value / goal, 1.0),
            Some(goal) => (ratio.value, goal),
            None => (ratio.value, 1.0),
        };
        length.is_finite().then_some(Self { ratio, length, mark })
    }

    fn color(&self) -> &'static str {
        match self.ratio.met {
            Some(true) => "#3a8f5c",
            Some(false) => "#c8553d",
            None => "#8a94a6",
        }
    }

    fn words(&self) -> String {
        let value = self.ratio.value_in_words();
        match self.ratio.goal_in_words() {
            Some(goal) => format!("{value} (goal {goal})"),
            None => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ratio_is_a_bar() {
        let ratio =
            |name, value, goal, met| Ratio { name, value, low: value, high: value, goal, met, meaning: "" };
        let svg = chart(&[
            ratio("fast", 0.6, Some(Goal::AtLeast(0.5)), Some(true)),
            ratio("large", 5000.0, Some(Goal::AtMost(4096.0)), Some(false)),
            ratio("huge", 40.0, None, None),
        ]);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<line ").count(), 3);
        for words in ["0.60 (goal ≥ 0.50)", "5000 (goal ≤ 4096)", "#3a8f5c", "#c8553d", ">40.00<"] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
    }
}
