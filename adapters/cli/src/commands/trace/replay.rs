//! `nolag trace replay`: our client in the place of the recorded ones.

use std::fs;

use nolag::Dump;
use nolag_conformance::{
    client::{Cause, Did, Step, live_with},
    mode::Finding,
    trace::{Body, Trace, What},
};

use super::{
    cannot_read,
    redact::Redactor,
    show::{Frame, event_details, event_line},
};
use crate::{
    args::trace::ReplayArgs,
    exit::{Exit, Failure, Outcome},
    output::{Output, say},
};

/// What stands before everything that a step leads to.
const INDENT: &str = "              ";

pub(super) fn run(args: ReplayArgs) -> Outcome {
    let file = args.file.display();
    let content = fs::read(&args.file).map_err(|error| cannot_read(&args.file, &error))?;
    let directory = args.file.parent().map(ToOwned::to_owned).unwrap_or_default();
    let trace = Trace { directory, ..Trace::parse(&content) };
    drop(content);
    let mut redactor = Redactor::default();
    // All tokens are known before anything is said.
    for line in &trace.lines {
        match &line.what {
            What::Event { keys, .. } => drop(event_details(&mut redactor, keys)),
            What::Message(message) => match &message.body {
                Body::Binary(bytes) => drop(redactor.binary(bytes)),
                Body::Text(text) => drop(redactor.text(text)),
            },
        }
    }
    for problem in &trace.problems {
        say(format_args!("{file}:{}: {}", problem.line, redactor.words(&problem.reason)));
    }
    let mut printer = Printer { args: &args, output: Output::new(false), redactor, steps: 0, failure: None };
    let life = live_with(&trace, &mut |step| printer.step(step));
    if let Some(failure) = printer.failure {
        return Err(failure);
    }
    let differences = life.outcome.findings.iter().filter(|finding| finding.failed).count();
    if printer.steps == 0
        && let Some(Finding { text, .. }) = life.outcome.findings.iter().find(|finding| finding.failed)
    {
        return Err(Failure::data(format!("{file}: {text}")));
    }
    for different in &life.different {
        let rule = different.rule();
        say(format_args!("known difference: {}, because {}", rule.what, rule.why));
    }
    if differences > 0 {
        printer.output.line(format_args!("differs from the recording in {differences} places"))?;
        // The documented code of this command for it.
        return Ok(Exit::Internal);
    }
    printer.output.line(format_args!("same as recorded: {} messages", life.outcome.frames))?;
    match trace.problems.len() {
        0 => Ok(Exit::Done),
        bad => Err(Failure::data(format!("{bad} of the lines of {file} could not be replayed"))),
    }
}

struct Printer<'a> {
    args: &'a ReplayArgs,
    output: Output,
    redactor: Redactor,
    steps: usize,
    /// Why there is no use in printing more.
    failure: Option<Failure>,
}

impl Printer<'_> {
    fn step(&mut self, step: &Step<'_>) {
        self.steps += 1;
        if self.failure.is_none() {
            self.failure = self.print(step).err();
        }
    }

    fn print(&mut self, step: &Step<'_>) -> Result<(), Failure> {
        let (at, number) = (step.at, if let Cause::Line(line) = step.cause { line.number } else { 0 });
        match step.cause {
            Cause::End if step.findings.is_empty() => return Ok(()),
            Cause::End => self.output.line(format_args!("{at:>9.3} -- end of the recording"))?,
            Cause::Timer { conn } => self.output.line(format_args!("{at:>9.3} #{conn} -- timer"))?,
            Cause::Line(line) => match &line.what {
                What::Event { name, conn, keys } => {
                    let details = event_details(&mut self.redactor, keys);
                    self.output.line(event_line(at, *conn, name, &details))?;
                }
                What::Message(message) => {
                    let frame = Frame::new(&mut self.redactor, message);
                    self.output.line(frame.line(at, message))?;
                }
            },
        }
        for did in step.did {
            match did {
                Did::Closed { code, reason } => {
                    self.output.line(format_args!("{INDENT}closes {code} {reason:?}"))?;
                }
                Did::Sent(frame) => {
                    let redacted = self.redactor.binary(frame);
                    self.output.line(format_args!("{INDENT}sends {}", Dump::new(&redacted.content)))?;
                }
                Did::Told(text) => {
                    self.output.line(format_args!("{INDENT}tells {}", self.redactor.words(text)))?;
                }
            }
        }
        for finding in step.findings {
            let what = if finding.failed { "DIFFERS: " } else { "" };
            let text = self.redactor.words(&finding.text);
            match finding.line {
                line if line == number => self.output.line(format_args!("{INDENT}{what}{text}"))?,
                line => self.output.line(format_args!("{INDENT}{what}line {line}: {text}"))?,
            }
        }
        match &step.explain {
            Some(explain) if self.args.verbose => self.output.line(format_args!("{INDENT}now {explain}")),
            _ => Ok(()),
        }
    }
}
