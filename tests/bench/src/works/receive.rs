//! Receiving as fast as it goes.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::try_join_all;
use nolag::{Client, Message, Payload, Runtime};
use tokio::sync::oneshot;

use super::{Case, START, TOPIC};
use crate::{
    Error, Figures, Result, Settings,
    bare::Bare,
    frames::{self, FIRST},
    meter::{Meter, Sequence},
    ours, python,
};

/// Subscriptions that are made at the same time.
const TOGETHER: usize = 4096;

/// Topics that get messages where few do.
const BUSY: usize = 1000;

/// How long anything but the messages may take.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn cases(settings: &Settings, url: &str) -> Vec<Case> {
    let time = (settings.warmup, settings.duration);
    let many = settings.subscriptions.max(1);
    let case = |name, run: fn(String, Count) -> Result<Figures>| {
        let url = url.to_owned();
        Case::new(name, move || run(url.clone(), Count::start(time)))
    };
    let handlers = |name, subscriptions, topics| {
        let url = url.to_owned();
        Case::new(name, move || {
            ours::on_tokio(by_handler(url.clone(), Count::start(time), subscriptions, topics))
        })
    };
    let mut cases = Vec::new();
    if settings.baseline {
        cases.push(case("bare", |url, count| ours::on_tokio(bare(url, count))));
    }
    cases.push(case("tokio", |url, count| ours::on_tokio(by_stream(url, Runtime::Tokio, count))));
    cases.push(case("blocking", by_iterator));
    cases.push(case("async-std", |url, count| {
        let stream = by_stream(url, Runtime::AsyncStd, count);
        async_std::task::block_on(async_std::task::spawn(stream))
    }));
    cases.push(case("smol", |url, count| smol::block_on(smol::spawn(by_stream(url, Runtime::Smol, count)))));
    cases.push(handlers("handler", 1, 1));
    cases.push(handlers("handler-100k", many, BUSY));
    cases.push(handlers("handler-100k-busy", many, many));
    if let Some(interpreter) = &settings.python {
        cases.push(python::case("python", interpreter, &["receive", url, TOPIC, START], settings));
    }
    cases
}

/// What each received message goes to.
struct Count {
    time: (Duration, Duration),
    meter: Option<Meter>,
    sequence: Sequence,
}

impl Count {
    /// The time runs from the first message.
    fn start(time: (Duration, Duration)) -> Self {
        Self { time, meter: None, sequence: Sequence::default() }
    }

    /// Counts a message. Returns whether to go on.
    fn message(&mut self, data: &[u8]) -> bool {
        let (warmup, duration) = self.time;
        self.sequence.take(data);
        self.meter.get_or_insert_with(|| Meter::start(warmup, duration)).step()
    }

    fn figures(&self) -> Figures {
        let figures = self.meter.as_ref().map_or_else(Figures::default, Meter::figures);
        self.sequence.judge(figures)
    }
}

fn ended() -> Error {
    Error::other("the connection was lost while messages were coming")
}

async fn bare(url: String, mut count: Count) -> Result<Figures> {
    let mut socket = Bare::connect(&url).await?;
    socket.subscribe(TOPIC).await?;
    socket.send(|out| frames::publish(out, START, &[0xc0], None, false)).await?;
    loop {
        let frame = socket.next().await?;
        let fields = frames::read(&frame).filter(|fields| fields.topic == TOPIC.as_bytes());
        if fields.is_some_and(|fields| !count.message(fields.data)) {
            return Ok(count.figures());
        }
    }
}

async fn by_stream(url: String, runtime: Runtime, mut count: Count) -> Result<Figures> {
    let client = ours::connect("bench", ours::options(&url, runtime)).await?;
    let mut stream = client.subscribe(TOPIC).messages().await?;
    client.emit(START, &()).untracked().send()?;
    while let Some(message) = stream.next().await {
        if !take(&mut count, &message) {
            return Ok(count.figures());
        }
    }
    Err(ended())
}

fn by_iterator(url: String, mut count: Count) -> Result<Figures> {
    let client = Client::new("bench", ours::options(&url, Runtime::Blocking).drain_timeout(Duration::ZERO));
    client.connect().wait(PATIENCE).map_err(Error::Connect)?;
    let mut stream = client.subscribe(TOPIC).messages().wait(PATIENCE)?;
    client.emit(START, &()).untracked().send()?;
    for message in stream.iter() {
        if !take(&mut count, &message) {
            return Ok(count.figures());
        }
    }
    Err(ended())
}

/// By a handler for all topics that are subscribed to, some of which get messages.
async fn by_handler(url: String, count: Count, subscriptions: usize, busy: usize) -> Result<Figures> {
    let client = ours::connect("bench", ours::options(&url, Runtime::Tokio)).await?;
    let topics: Vec<String> = (0..subscriptions).map(|n| format!("bench/room/{n:06}")).collect();
    for topics in topics.chunks(TOGETHER) {
        try_join_all(topics.iter().map(|topic| client.subscribe(topic).into_future())).await?;
    }
    let (done, figures) = oneshot::channel();
    let counted = Arc::new(Mutex::new((count, Some(done))));
    client.on_any(move |message: Message| {
        let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, done) = &mut *counted;
        if !take(count, &message)
            && let Some(done) = done.take()
        {
            // Nobody waits when the connection was lost.
            let _ = done.send(count.figures());
        }
    });
    let busy = Payload::from_msgpack(frames::payload("", FIRST + busy as u64)).map_err(nolag::Error::from)?;
    client.emit_payload(START, busy).untracked().send()?;
    figures.await.map_err(|_| ended())
}

fn take(count: &mut Count, message: &Message) -> bool {
    count.message(message.payload().as_msgpack())
}
