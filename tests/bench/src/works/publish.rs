//! Publishing with so many confirmations under way, and without confirmations.

use std::{collections::VecDeque, time::Duration};

use futures_util::poll;
use nolag::{Client, Emit, Runtime};
use serde::Serialize;

use super::{COUNT, Case, TOPIC};
use crate::{
    Error, Figures, Result, Settings, Target,
    bare::Bare,
    frames::{self, FIRST},
    meter::Meter,
    ours, python,
};

/// Messages without confirmation that leave before the client is asked whether they have left.
const UNTRACKED_TOGETHER: u64 = 1024;

const WINDOWS: [(usize, &str, &str); 3] = [
    (1, "window-1", "bare-window-1"),
    (64, "window-64", "bare-window-64"),
    (1024, "window-1024", "bare-window-1024"),
];

/// What is published, as an application has it.
#[derive(Serialize)]
struct Data<'a> {
    text: &'a str,
    seq: u64,
}

#[derive(Clone)]
struct Plan {
    url: String,
    time: (Duration, Duration),
    text: String,
}

pub(super) fn cases(settings: &Settings, url: &str) -> Vec<Case> {
    let plan = Plan {
        url: url.to_owned(),
        time: (settings.warmup, settings.duration),
        text: frames::padding(frames::payload_for(settings.size, TOPIC)),
    };
    let mut cases = Vec::new();
    for (window, name, bare_name) in WINDOWS {
        if settings.baseline {
            let plan = plan.clone();
            cases.push(Case::new(bare_name, move || ours::on_tokio(bare_acked(plan.clone(), window))));
        }
        let plan = plan.clone();
        cases.push(Case::new(name, move || ours::on_tokio(acked(plan.clone(), window))));
    }
    if settings.baseline {
        let plan = plan.clone();
        cases.push(Case::new("bare-unconfirmed", move || ours::on_tokio(bare_unconfirmed(plan.clone()))));
    }
    cases.push(Case::new("unconfirmed", move || ours::on_tokio(unconfirmed(plan.clone()))));
    if let Some(interpreter) = &settings.python {
        let args = ["publish", url, TOPIC, "1024"];
        cases.push(python::case("python-window-1024", interpreter, &args, settings));
    }
    cases
}

/// Within what a broker takes that runs somewhere.
pub(super) fn cases_with(settings: &Settings, target: &Target) -> Vec<Case> {
    let time = (settings.warmup, settings.duration);
    let text = frames::padding(frames::payload_for(settings.size, &target.topic));
    let case = |name, window| {
        let (target, text) = (target.clone(), text.clone());
        Case::new(name, move || {
            let (target, text) = (target.clone(), text.clone());
            ours::on_tokio(async move {
                let options = ours::options(&target.url, Runtime::Tokio).publish_rate(target.rate);
                let client = ours::connect(target.token.clone(), options).await?;
                let mut window = Window::new(&client, &target.topic, &text, window);
                // A message in 20 ms: each is looked at.
                let mut meter = Meter::precise(time.0, time.1);
                let figures = window.run(&mut meter).await?;
                client.close().await;
                Ok(figures)
            })
        })
    };
    // As many as leave together within the limit.
    vec![case("window-1", 1), case("window-32", 32)]
}

/// Publishes with a number of confirmations under way.
struct Window<'a> {
    client: &'a Client,
    topic: &'a str,
    text: &'a str,
    size: usize,
    sent: u64,
    failed: u64,
}

impl<'a> Window<'a> {
    fn new(client: &'a Client, topic: &'a str, text: &'a str, size: usize) -> Self {
        Self { client, topic, text, size, sent: 0, failed: 0 }
    }

    async fn run(&mut self, meter: &mut Meter) -> Result<Figures> {
        let mut waiting = VecDeque::with_capacity(self.size);
        let mut going = true;
        while going || !waiting.is_empty() {
            while going && waiting.len() < self.size {
                let mut emit = emit(self.client, self.topic, self.text, self.sent).into_future();
                self.sent += 1;
                // Polled once, it is on its way.
                match poll!(&mut emit) {
                    std::task::Poll::Ready(outcome) => outcome.map(drop)?,
                    std::task::Poll::Pending => waiting.push_back(emit),
                }
            }
            let Some(first) = waiting.pop_front() else { continue };
            match first.await {
                Ok(_) => going = meter.step() && going,
                Err(error) => {
                    self.failed += 1;
                    if self.failed == self.sent {
                        return Err(error.into());
                    }
                    going = meter.add(0) && going;
                }
            }
        }
        Ok(Figures { failed: self.failed, ..meter.figures() })
    }
}

fn emit(client: &Client, topic: &str, text: &str, sent: u64) -> Emit {
    client.emit(topic, &Data { text, seq: FIRST + sent }).echo(false)
}

async fn acked(plan: Plan, size: usize) -> Result<Figures> {
    let client = ours::connect("bench", ours::options(&plan.url, Runtime::Tokio)).await?;
    let mut window = Window::new(&client, TOPIC, &plan.text, size);
    let figures = window.run(&mut Meter::start(plan.time.0, plan.time.1)).await?;
    let sent = window.sent;
    check(figures, sent, seen(&client).await?)
}

async fn unconfirmed(plan: Plan) -> Result<Figures> {
    let client = ours::connect("bench", ours::options(&plan.url, Runtime::Tokio)).await?;
    let mut meter = Meter::start(plan.time.0, plan.time.1);
    let mut sent = 0;
    loop {
        for _ in 0..UNTRACKED_TOGETHER {
            emit(&client, TOPIC, &plan.text, sent).untracked().send()?;
            sent += 1;
        }
        client.flush().await;
        if !meter.add(UNTRACKED_TOGETHER) {
            return check(meter.figures(), sent, seen(&client).await?);
        }
    }
}

/// How many publishes the server has seen.
async fn seen(client: &Client) -> Result<u64> {
    let mut stream = client.subscribe(COUNT).messages().await?;
    client.emit(COUNT, &()).await?;
    let message = stream.next().await.ok_or_else(|| Error::other("the connection was lost"))?;
    Ok(frames::number(message.payload().as_msgpack()).saturating_sub(FIRST))
}

fn check(figures: Figures, sent: u64, seen: u64) -> Result<Figures> {
    Ok(Figures { lost: sent.saturating_sub(seen), duplicates: seen.saturating_sub(sent), ..figures })
}

async fn bare_acked(plan: Plan, size: usize) -> Result<Figures> {
    let mut socket = Bare::connect(&plan.url).await?;
    let mut meter = Meter::start(plan.time.0, plan.time.1);
    let (mut sent, mut confirmed, mut going) = (0, 0, true);
    while going || confirmed < sent {
        while going && sent - confirmed < size as u64 {
            let data = frames::payload(&plan.text, FIRST + sent);
            let msg_ref = sent.to_string();
            socket.feed(|out| frames::publish(out, TOPIC, &data, Some(&msg_ref), false)).await?;
            sent += 1;
        }
        socket.flush().await?;
        let mut next = Some(socket.next().await?);
        while let Some(frame) = next {
            if frames::read(&frame).is_some_and(|fields| fields.kind == b"published") {
                confirmed += 1;
                going = meter.step() && going;
            }
            next = socket.try_next()?;
        }
    }
    check(meter.figures(), sent, bare_seen(&mut socket).await?)
}

async fn bare_unconfirmed(plan: Plan) -> Result<Figures> {
    let mut socket = Bare::connect(&plan.url).await?;
    let mut meter = Meter::start(plan.time.0, plan.time.1);
    let mut sent = 0;
    loop {
        for _ in 0..UNTRACKED_TOGETHER {
            let data = frames::payload(&plan.text, FIRST + sent);
            socket.feed(|out| frames::publish(out, TOPIC, &data, None, false)).await?;
            sent += 1;
        }
        socket.flush().await?;
        if !meter.add(UNTRACKED_TOGETHER) {
            return check(meter.figures(), sent, bare_seen(&mut socket).await?);
        }
    }
}

async fn bare_seen(socket: &mut Bare) -> Result<u64> {
    socket.send(|out| frames::publish(out, COUNT, &[0xc0], None, false)).await?;
    let frame = socket.next().await?;
    let fields = frames::read(&frame).ok_or_else(|| Error::other("no count came"))?;
    Ok(frames::number(fields.data).saturating_sub(FIRST))
}
