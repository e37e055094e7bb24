//! From publishing a message to receiving its echo, one after the other.

use std::time::{Duration, Instant};

use nolag::{Client, Runtime};
use tokio::time::{MissedTickBehavior, interval};

use super::{Case, TOPIC};
use crate::{
    Error, Figures, Result, Settings, Target,
    bare::Bare,
    figures::Times,
    frames::{self, FIRST},
    meter::{Meter, Sequence},
    ours,
};

pub(super) fn cases(settings: &Settings, url: &str) -> Vec<Case> {
    let time = (settings.warmup, settings.duration);
    let text = frames::padding(frames::payload_for(settings.size, TOPIC));
    let mut cases = Vec::new();
    if settings.baseline {
        let (url, text) = (url.to_owned(), text.clone());
        cases.push(Case::new("bare", move || ours::on_tokio(bare(url.clone(), time, text.clone()))));
    }
    let url = url.to_owned();
    cases.push(Case::new("tokio", move || {
        let (url, text) = (url.clone(), text.clone());
        ours::on_tokio(async move {
            let client = ours::connect("bench", ours::options(&url, Runtime::Tokio)).await?;
            echoes(&client, TOPIC, time, &text, None).await
        })
    }));
    cases
}

pub(super) fn cases_with(settings: &Settings, target: &Target) -> Vec<Case> {
    let time = (settings.warmup, settings.duration);
    let text = frames::padding(frames::payload_for(settings.size, &target.topic));
    let target = target.clone();
    vec![Case::new("tokio", move || {
        let (target, text) = (target.clone(), text.clone());
        ours::on_tokio(async move {
            let options = ours::options(&target.url, Runtime::Tokio).publish_rate(target.rate);
            let client = ours::connect(target.token.clone(), options).await?;
            let pace = target.rate.map(|rate| Duration::from_secs(1) / rate.max(1));
            let figures = echoes(&client, &target.topic, time, &text, pace).await?;
            client.close().await;
            Ok(figures)
        })
    })]
}

/// With a pace, messages leave at fixed times, and what counts is the time since then.
async fn echoes(
    client: &Client,
    topic: &str,
    time: (Duration, Duration),
    text: &str,
    pace: Option<Duration>,
) -> Result<Figures> {
    let mut stream = client.subscribe(topic).messages().await?;
    let mut ticks = pace.map(interval);
    if let Some(ticks) = &mut ticks {
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    }
    let (mut times, mut sequence) = (Times::new()?, Sequence::default());
    let mut meter = Meter::precise(time.0, time.1);
    for number in FIRST.. {
        let begun = match &mut ticks {
            Some(ticks) => ticks.tick().await.into_std(),
            None => Instant::now(),
        };
        let data = nolag::Payload::from_msgpack(frames::payload(text, number)).map_err(nolag::Error::from)?;
        client.emit_payload(topic, data).untracked().send()?;
        loop {
            let message = stream.next().await.ok_or_else(|| Error::other("the connection was lost"))?;
            let payload = message.payload().as_msgpack();
            // Others may publish there, too.
            if frames::number(payload) == number {
                sequence.take(payload);
                break;
            }
        }
        if meter.is_measuring() {
            times.record(begun.elapsed());
        }
        if !meter.step() {
            break;
        }
    }
    Ok(Figures { latency: Some(times.latency()), ..sequence.judge(meter.figures()) })
}

async fn bare(url: String, time: (Duration, Duration), text: String) -> Result<Figures> {
    let mut socket = Bare::connect(&url).await?;
    socket.subscribe(TOPIC).await?;
    let (mut times, mut sequence) = (Times::new()?, Sequence::default());
    let mut meter = Meter::precise(time.0, time.1);
    for number in FIRST.. {
        let begun = Instant::now();
        let data = frames::payload(&text, number);
        socket.send(|out| frames::publish(out, TOPIC, &data, None, true)).await?;
        let frame = socket.next().await?;
        let fields = frames::read(&frame).ok_or_else(|| Error::other("no echo came"))?;
        sequence.take(fields.data);
        if meter.is_measuring() {
            times.record(begun.elapsed());
        }
        if !meter.step() {
            break;
        }
    }
    Ok(Figures { latency: Some(times.latency()), ..sequence.judge(meter.figures()) })
}
