//! `nolag pub`: publishing.

use std::{
    collections::VecDeque,
    io::{self, IsTerminal},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use nolag::{Client, Emit, EmitError, Emitted, Error, ErrorEvent, Filter, Payload};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::{
    args::{PubArgs, filter},
    connection::{Connection, MAX_WAITING, RATE, interrupted},
    exit::{Exit, Failure, Outcome},
    input::{Format, Line, Source},
    output::{Output, say},
    signals::{Interrupts, at},
};

/// How long an interrupted command waits for confirmations.
const DRAIN: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct Published<'a> {
    topic: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// Whether the broker confirmed it.
    acked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<f64>,
}

#[derive(Serialize)]
struct NotPublished<'a> {
    topic: &'a str,
    line: u64,
    error: &'a str,
}

/// How many messages met which end.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Tally {
    sent: u64,
    acked: u64,
    failed: u64,
}

pub(crate) async fn run(args: PubArgs) -> Outcome {
    args.check()?;
    let source = Source::choose(&args, io::stdin().is_terminal())?;
    let unconfirmed = Arc::new(AtomicU64::new(0));
    let waiting = unconfirmed.clone();
    let last_words = move || format!("left at once; not confirmed: {}", waiting.load(Ordering::Relaxed));
    let mut interrupts = Interrupts::listen(last_words)?;
    let connection = Connection::new(&args.connection)?;
    let output = Output::new(args.json);
    let format = if args.string { Format::Text } else { Format::Json };
    let publisher =
        Publisher { args, output, format, unconfirmed, refusals: watch_errors(&connection.client) };

    if publisher.args.lines {
        connection.open(&mut interrupts).await?;
        let mut tally = Tally::default();
        let ended = publisher.publish_lines(&connection.client, source, &mut interrupts, &mut tally).await;
        connection.client.close().await;
        publisher.conclude(ended, tally)
    } else {
        let payload = tokio::select! {
            () = interrupts.first() => return Err(interrupted("interrupted; nothing was published")),
            text = source.whole() => publisher.payload(&text?)?,
        };
        connection.open(&mut interrupts).await?;
        let ended = publisher.publish_one(&connection.client, payload, &mut interrupts).await;
        connection.client.close().await;
        ended?;
        publisher.no_refusals()
    }
}

/// Says, and counts, what the broker reports about messages that nobody waits for.
fn watch_errors(client: &Client) -> Arc<AtomicU64> {
    let refusals = Arc::new(AtomicU64::new(0));
    let counter = refusals.clone();
    client.on_error(move |event| match event {
        ErrorEvent::Server(error) => {
            counter.fetch_add(1, Ordering::Relaxed);
            say(format_args!("error: {error}"));
        }
        // The message that waited for it reports the same.
        ErrorEvent::GaveUp { .. } => {}
        event => say(format_args!("warning: {event}")),
    });
    client.on_disconnect(|event| {
        if event.retry_in.is_some() {
            say(format_args!("disconnected: {event}; reconnecting"));
        }
    });
    refusals
}

struct Publisher {
    args: PubArgs,
    output: Output,
    format: Format,
    /// Messages that wait for the broker's word.
    unconfirmed: Arc<AtomicU64>,
    /// What the broker refused of messages that nobody waits for.
    refusals: Arc<AtomicU64>,
}

/// The end of one message of many.
struct Finished {
    line: u64,
    took: Duration,
    result: Result<Emitted, EmitError>,
}

impl Publisher {
    fn payload(&self, text: &[u8]) -> Result<Payload, Failure> {
        if !text.is_empty() {
            return self.format.payload(text);
        }
        if !self.args.allow_empty {
            return Err(empty_input());
        }
        self.format.payload(self.format.empty())
    }

    /// Publishes a single message.
    async fn publish_one(
        &self,
        client: &Client,
        payload: Payload,
        interrupts: &mut Interrupts,
    ) -> Result<(), Failure> {
        let started = Instant::now();
        self.unconfirmed.store(1, Ordering::Relaxed);
        let result = tokio::select! {
            result = self.emit(client, payload).into_future() => result,
            // What was sent is worth waiting a little for.
            () = async { interrupts.first().await; sleep(DRAIN).await } => {
                return Err(interrupted("interrupted; the broker has not confirmed the message"));
            }
        };
        self.unconfirmed.store(0, Ordering::Relaxed);
        let emitted = result.map_err(|error| failure(&error))?;
        self.report(None, emitted, started.elapsed())
    }

    /// Publishes each line. Confirmations are waited for while later lines are on their way.
    async fn publish_lines(
        &self,
        client: &Client,
        source: Source,
        interrupts: &mut Interrupts,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let mut lines = source.lines();
        let mut pacing = Pacing::default();
        let mut pending = FuturesUnordered::new();
        let mut empty = !self.args.allow_empty;
        let mut reading = true;
        let mut stop: Option<Failure> = None;
        let mut drain_until = None;

        while reading || !pending.is_empty() {
            tokio::select! {
                biased;
                () = interrupts.first(), if drain_until.is_none() => {
                    drain_until = Some(Instant::now() + DRAIN);
                    if reading {
                        stop.get_or_insert_with(|| interrupted("interrupted before the end of the input"));
                    }
                    (reading, empty) = (false, false);
                    if !pending.is_empty() {
                        say(format_args!("waiting for {} confirmations; again to leave at once", pending.len()));
                    }
                }
                () = at(drain_until) => {
                    stop.get_or_insert_with(|| interrupted("interrupted before all messages were confirmed"));
                    tally.failed += pending.len() as u64;
                    break;
                }
                Some(finished) = pending.next(), if !pending.is_empty() => {
                    self.unconfirmed.fetch_sub(1, Ordering::Relaxed);
                    if let Some(failure) = self.finished(finished, tally)? {
                        self.fail(failure, &mut stop);
                    }
                }
                line = lines.recv(), if reading && pending.len() < MAX_WAITING => match line {
                    None => reading = false,
                    Some(Line { number, text }) => {
                        empty = false;
                        // What cannot be read ends the input, whatever else is wanted.
                        reading = text.is_ok();
                        match text.and_then(|text| self.format.line(&text)) {
                            Ok(None) => {}
                            Ok(Some(payload)) => {
                                pacing.notice();
                                tally.sent += 1;
                                self.unconfirmed.fetch_add(1, Ordering::Relaxed);
                                let emit = self.emit(client, payload);
                                let started = Instant::now();
                                pending.push(async move {
                                    let result = emit.await;
                                    Finished { line: number, took: started.elapsed(), result }
                                });
                            }
                            Err(failure) => {
                                tally.failed += 1;
                                let failure = failure.during(format_args!("line {number}"));
                                self.report_failed(number, &failure)?;
                                self.fail(failure, &mut stop);
                            }
                        }
                    }
                },
            }
            if stop.is_some() {
                reading = false;
            }
        }
        match stop {
            Some(failure) => Err(failure),
            None if empty => Err(empty_input()),
            None => Ok(()),
        }
    }

    /// The summary, and what follows from it.
    fn conclude(&self, ended: Result<(), Failure>, tally: Tally) -> Outcome {
        let Tally { sent, acked, failed } = tally;
        say(format_args!("sent {sent}, acked {acked}, failed {failed}"));
        if self.output.is_json() {
            shown(self.output.event("summary", tally))?;
        }
        ended?;
        if failed > 0 {
            return Err(Failure { exit: Exit::SomeFailed, message: None });
        }
        self.no_refusals()
    }

    fn no_refusals(&self) -> Outcome {
        match self.refusals.load(Ordering::Relaxed) {
            0 => Ok(Exit::Done),
            // They were said when they came.
            _ => Err(Failure { exit: Exit::Refused, message: None }),
        }
    }

    /// One message of many ended; its failure, if it failed.
    fn finished(&self, finished: Finished, tally: &mut Tally) -> Result<Option<Failure>, Failure> {
        let Finished { line, took, result } = finished;
        match result {
            Ok(emitted) => {
                tally.acked += u64::from(emitted == Emitted::Acked);
                self.report(Some(line), emitted, took)?;
                Ok(None)
            }
            Err(error) => {
                tally.failed += 1;
                if matches!(error, EmitError::NotSent(_)) {
                    tally.sent -= 1;
                }
                let failure = failure(&error).during(format_args!("line {line}"));
                self.report_failed(line, &failure)?;
                Ok(Some(failure))
            }
        }
    }

    /// A message failed: stops, or says so and goes on.
    fn fail(&self, failure: Failure, stop: &mut Option<Failure>) {
        if !self.args.keep_going {
            stop.get_or_insert(failure);
        } else if let Some(message) = failure.message {
            say(format_args!("error: {message}"));
        }
    }

    fn emit(&self, client: &Client, payload: Payload) -> Emit {
        let mut emit = client.emit_payload(self.args.topic.as_str(), payload).echo(!self.args.no_echo);
        if self.args.retain {
            emit = emit.retain();
        }
        if self.args.no_ack {
            emit = emit.untracked();
        }
        if let Some(qos) = self.args.qos {
            emit = emit.qos(qos);
        }
        match self.args.filter.as_deref().map(filter) {
            None => emit,
            Some(Filter::Value(value)) => emit.filter(value),
            Some(Filter::All(group)) => emit.filters(group),
        }
    }

    fn report(&self, line: Option<u64>, emitted: Emitted, took: Duration) -> Result<(), Failure> {
        let topic = &self.args.topic;
        let acked = emitted == Emitted::Acked;
        let ms = took.as_secs_f64() * 1000.0;
        if self.output.is_json() {
            let ms = acked.then(|| (ms * 1000.0).round() / 1000.0);
            return shown(self.output.event("published", Published { topic, line, acked, ms }));
        }
        let end = if acked { format!("acked in {ms:.1} ms") } else { "no confirmation".into() };
        shown(match line {
            None => self.output.line(format_args!("published to {topic}, {end}")),
            Some(line) => self.output.line(format_args!("published line {line}, {end}")),
        })
    }

    fn report_failed(&self, line: u64, failure: &Failure) -> Result<(), Failure> {
        if !self.output.is_json() {
            return Ok(());
        }
        let error = failure.message.as_deref().unwrap_or_default();
        shown(self.output.event("failed", NotPublished { topic: &self.args.topic, line, error }))
    }
}

fn failure(error: &EmitError) -> Failure {
    let failure = Failure::client(&Error::from(error.clone()));
    match error {
        EmitError::Unknown(_) => failure.during("sent, and perhaps not delivered"),
        _ => failure,
    }
}

/// A reader that has seen enough of the confirmations does not end publishing.
fn shown(written: Result<(), Failure>) -> Result<(), Failure> {
    match written {
        Err(Failure { exit: Exit::Done, .. }) => Ok(()),
        written => written,
    }
}

fn empty_input() -> Failure {
    Failure::data("the input is empty, nothing was published; --allow-empty permits that")
}

/// Notices when there is more than the client sends in a second, and says so once.
#[derive(Debug, Default)]
struct Pacing {
    /// The latest messages.
    latest: VecDeque<Instant>,
    told: bool,
}

impl Pacing {
    /// Another message is handed to the client.
    fn notice(&mut self) {
        let now = Instant::now();
        if self.latest.len() == RATE as usize
            && self.latest.pop_front().is_some_and(|first| now < first + Duration::from_secs(1))
            && !self.told
        {
            self.told = true;
            say(format_args!("note: at most {RATE} messages a second are sent, the limit of brokers"));
        }
        self.latest.push_back(now);
    }
}
