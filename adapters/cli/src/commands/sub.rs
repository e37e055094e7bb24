//! `nolag sub`: printing messages.

use std::{collections::BTreeSet, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use nolag::{Client, Disconnected, Error, ErrorEvent, Message, Reconnected, Subscribe};
use serde::Serialize;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    args::SubArgs,
    connection::{Connection, interrupted},
    exit::{Exit, Failure, Outcome},
    output::{Output, say},
    payload::Json,
    signals::{Interrupts, at},
};

/// What waits to be printed; then the client stops reading.
const QUEUE: usize = 64;

/// What the client tells, in its order.
enum Event {
    Disconnected(Disconnected),
    Error(ErrorEvent),
    Message(Message),
    Reconnected(Reconnected),
}

#[derive(Serialize)]
struct Connected<'a> {
    url: &'a str,
    actor: &'a str,
    /// How long there was no connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    downtime_ms: Option<u64>,
}

/// Messages of this time may be missing.
#[derive(Serialize)]
struct Gap {
    downtime_ms: u64,
}

#[derive(Serialize)]
struct Lost {
    cause: String,
}

#[derive(Serialize)]
struct Retry {
    attempt: u32,
    in_ms: u64,
}

#[derive(Serialize)]
struct Topic<'a> {
    topic: &'a str,
}

#[derive(Serialize)]
struct Lagged<'a> {
    topic: Option<&'a str>,
    count: u64,
}

#[derive(Serialize)]
struct Received<'a> {
    topic: &'a str,
    data: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg_id: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replay: bool,
}

/// Why it ended, other than by a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Count,
    Idle(Duration),
    Signal,
    Timeout(Duration),
}

pub(crate) async fn run(args: SubArgs) -> Outcome {
    args.check()?;
    let mut interrupts = Interrupts::listen(|| "left at once".into())?;
    let connection = Connection::new(&args.connection)?;
    let deadline = args.timeout.map(|timeout| (timeout, Instant::now() + timeout));
    let mut events = watch(&connection.client);
    let actor = tokio::select! {
        actor = connection.open(&mut interrupts) => actor?,
        () = at(deadline.map(|(_, at)| at)) => {
            return Err(Failure::new(Exit::NotReached, format!("timed out while connecting to {}", connection.url)));
        }
    };
    let output = Output::new(args.json).pretty(args.pretty);
    let mut subscriber = Subscriber { output, connection, actor, args, received: 0 };
    let outcome = subscriber.listen(&mut events, &mut interrupts, deadline).await;
    events.close();
    // What was not printed is not processed.
    while let Ok(event) = events.try_recv() {
        keep_unacknowledged(&event);
    }
    subscriber.connection.client.close().await;
    subscriber.conclude(outcome?)
}

/// Sends everything that the client tells into one queue. A full queue holds the client back.
fn watch(client: &Client) -> mpsc::Receiver<Event> {
    let (queue, events) = mpsc::channel(QUEUE);
    let forward = move |event| {
        let queue = queue.clone();
        async move {
            if let Err(mpsc::error::SendError(event)) = queue.send(event).await {
                keep_unacknowledged(&event);
            }
        }
    };
    let (messages, lost, found, errors) = (forward.clone(), forward.clone(), forward.clone(), forward);
    client.on_any(move |message| messages(Event::Message(message)));
    client.on_disconnect(move |event| lost(Event::Disconnected(event)));
    client.on_reconnect(move |event| found(Event::Reconnected(event)));
    client.on_error(move |event| errors(Event::Error(event)));
    events
}

fn keep_unacknowledged(event: &Event) {
    if let Event::Message(message) = event {
        drop(message.ack_manually());
    }
}

struct Subscriber {
    args: SubArgs,
    output: Output,
    connection: Connection,
    actor: String,
    received: u64,
}

impl Subscriber {
    async fn listen(
        &mut self,
        events: &mut mpsc::Receiver<Event>,
        interrupts: &mut Interrupts,
        deadline: Option<(Duration, Instant)>,
    ) -> Result<End, Failure> {
        self.connected(None)?;
        let topics: BTreeSet<String> = self.args.topics.iter().cloned().collect();
        for topic in topics.iter().filter(|topic| topic.ends_with('#')) {
            say(format_args!(
                "warning: brokers confirm {topic} and deliver nothing; use + for any topic of a room"
            ));
        }
        let mut subscribing: FuturesUnordered<_> = topics
            .into_iter()
            .map(|topic| self.subscribe(&topic).into_future().map(|result| (topic, result)))
            .collect();
        let mut idle_since = Instant::now();
        loop {
            let idle = self.args.idle.map(|idle| (idle, idle_since + idle));
            tokio::select! {
                biased;
                () = interrupts.first() => return Ok(End::Signal),
                Some((topic, result)) = subscribing.next(), if !subscribing.is_empty() => {
                    self.subscribed(&topic, result.err())?;
                    idle_since = Instant::now();
                }
                // Without handlers there would be no client.
                Some(event) = events.recv() => {
                    if let Event::Message(message) = event {
                        self.print(&message)?;
                        idle_since = Instant::now();
                        if self.args.count.is_some_and(|count| self.received >= count.get()) {
                            return Ok(End::Count);
                        }
                    } else {
                        self.happened(event)?;
                    }
                }
                () = at(deadline.map(|(_, at)| at)) => {
                    return Ok(End::Timeout(self.args.timeout.unwrap_or_default()));
                }
                () = at(idle.map(|(_, at)| at)), if subscribing.is_empty() => {
                    return Ok(End::Idle(self.args.idle.unwrap_or_default()));
                }
            }
        }
    }

    fn subscribe(&self, topic: &str) -> Subscribe {
        let mut subscribe = self.connection.client.subscribe(topic).filters(self.args.filters());
        if let Some(qos) = self.args.qos {
            subscribe = subscribe.qos(qos);
        }
        match &self.args.group {
            Some(group) => subscribe.load_balance(true).group(group),
            None => subscribe,
        }
    }

    fn print(&mut self, message: &Message) -> Result<(), Failure> {
        self.received += 1;
        let payload = message.payload();
        let data = Json::from_msgpack(payload.as_msgpack());
        if self.args.raw {
            let end = if self.args.null { "\0" } else { self.args.delimiter.as_deref().unwrap_or("\n") };
            return match payload.binary() {
                Some(bytes) => self.output.raw(bytes, end),
                None => self.output.raw(self.output.to_json(&data)?.as_bytes(), end),
            };
        }
        if self.output.is_json() {
            return self.output.event(
                "message",
                Received {
                    topic: message.topic(),
                    data,
                    filter: message.filter(),
                    from: message.sender(),
                    msg_id: message.msg_id(),
                    replay: message.is_replay(),
                },
            );
        }
        self.output.line(format_args!("{} {}", message.topic(), self.output.to_json(&data)?))
    }

    fn connected(&self, reconnected: Option<Reconnected>) -> Result<(), Failure> {
        let (url, actor) = (&self.connection.url, &self.actor);
        if self.output.is_json() {
            let downtime_ms = reconnected.map(|event| millis(event.downtime));
            self.output.event("connected", Connected { url, actor, downtime_ms })?;
            return downtime_ms.map_or(Ok(()), |downtime_ms| self.output.event("gap", Gap { downtime_ms }));
        }
        match reconnected {
            None => say(format_args!("connected to {url} as {actor}")),
            Some(event) => {
                let downtime = event.downtime.as_secs_f32();
                say(format_args!(
                    "connected again after {downtime:.1} s; messages of that time may be missing"
                ));
            }
        }
        Ok(())
    }

    fn subscribed(&self, topic: &str, error: Option<Error>) -> Result<(), Failure> {
        if let Some(error) = error {
            return Err(Failure::client(&error));
        }
        if self.output.is_json() {
            return self.output.event("subscribed", Topic { topic });
        }
        say(format_args!("subscribed to {topic}"));
        Ok(())
    }

    /// Reports what happens to the connection; what ends the command is a failure.
    fn happened(&self, event: Event) -> Result<(), Failure> {
        match event {
            Event::Message(_) => Ok(()),
            Event::Reconnected(event) => self.connected(Some(event)),
            Event::Disconnected(event) => {
                self.lost(&event)?;
                event.retry_in.map_or(Ok(()), |retry_in| self.reconnecting(1, retry_in))
            }
            Event::Error(ErrorEvent::AttemptFailed { attempt, cause, retry_in, .. }) => {
                say(format_args!("attempt {attempt} failed: {cause}"));
                self.reconnecting(attempt + 1, retry_in)
            }
            Event::Error(ErrorEvent::GaveUp { cause, .. }) => {
                Err(Failure::connect(&cause, &self.connection.url).during("gave up"))
            }
            Event::Error(ErrorEvent::SubscriptionEnded { topic, cause, .. }) => {
                Err(Failure::client(&cause).during(format_args!("the subscription to {topic} ended")))
            }
            Event::Error(ErrorEvent::Lagged { topic, count, .. }) if self.output.is_json() => {
                self.output.event("lagged", Lagged { topic: topic.as_deref(), count })
            }
            Event::Error(event) => {
                say(format_args!("warning: {event}"));
                Ok(())
            }
        }
    }

    fn lost(&self, event: &Disconnected) -> Result<(), Failure> {
        if self.output.is_json() {
            return self.output.event("disconnected", Lost { cause: event.to_string() });
        }
        say(format_args!("disconnected: {event}"));
        Ok(())
    }

    fn reconnecting(&self, attempt: u32, retry_in: Duration) -> Result<(), Failure> {
        if self.output.is_json() {
            return self.output.event("reconnecting", Retry { attempt, in_ms: millis(retry_in) });
        }
        say(format_args!("reconnecting in {:.1} s (attempt {attempt})", retry_in.as_secs_f32()));
        Ok(())
    }

    /// Whether the goal was met.
    fn conclude(&self, end: End) -> Outcome {
        let received = self.received;
        let messages = if received == 1 { "message" } else { "messages" };
        let short = match self.args.count {
            Some(count) if received < count.get() => Some(format!("{received} of {count} messages")),
            None if received == 0 => Some("no message".into()),
            _ => None,
        };
        match end {
            End::Count => Ok(Exit::Done),
            End::Signal if self.args.count.is_none() && self.args.timeout.is_none() => {
                say(format_args!("received {received} {messages}"));
                Ok(Exit::Done)
            }
            End::Signal => Err(interrupted(&format!("interrupted after {received} {messages}"))),
            End::Idle(period) | End::Timeout(period) => {
                let period = humantime::format_duration(period);
                let how = if matches!(end, End::Idle(_)) {
                    format!("idle for {period}")
                } else {
                    format!("{period} are over")
                };
                match short {
                    Some(short) => Err(Failure::new(Exit::NotReached, format!("{short}; {how}"))),
                    None => {
                        say(format_args!("received {received} {messages}; {how}"));
                        Ok(Exit::Done)
                    }
                }
            }
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
