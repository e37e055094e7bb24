//! One publisher and many subscribers. Both are bare, so that the broker is what is measured.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::{Case, TOPIC};
use crate::{
    Error, Figures, Result, Settings,
    bare::Bare,
    frames::{self, FIRST},
    meter::{Meter, Sequence},
    ours,
};

/// Messages under way to each subscriber: enough to keep everybody busy, and not so many that they pile up.
const WINDOW: u64 = 32;

pub(super) fn cases(settings: &Settings, broker: &str, bare: Option<&str>) -> Vec<Case> {
    let case = |name, url: &str| {
        let plan = Plan {
            url: url.to_owned(),
            time: (settings.warmup, settings.duration),
            text: frames::padding(frames::payload_for(settings.size, TOPIC)),
            subscribers: settings.fanout_clients.max(1) as u64,
        };
        Case::new(name, move || ours::on_tokio(fan_out(plan.clone())))
    };
    bare.map(|url| case("bare", url)).into_iter().chain([case("broker", broker)]).collect()
}

#[derive(Clone)]
struct Plan {
    url: String,
    time: (Duration, Duration),
    text: String,
    subscribers: u64,
}

/// What publisher and subscribers know of each other.
#[derive(Default)]
struct Shared {
    delivered: AtomicU64,
    /// Told now and then that more was delivered.
    more: Notify,
    lost: AtomicU64,
    duplicates: AtomicU64,
    broken: AtomicBool,
}

async fn fan_out(plan: Plan) -> Result<Figures> {
    let shared = Arc::new(Shared::default());
    let mut subscribers = Vec::new();
    for _ in 0..plan.subscribers {
        let mut socket = Bare::connect(&plan.url).await?;
        socket.subscribe(TOPIC).await?;
        let shared = shared.clone();
        subscribers.push(tokio::spawn(async move {
            if receive(socket, &shared).await.is_err() {
                shared.broken.store(true, Ordering::Relaxed);
                shared.more.notify_one();
            }
        }));
    }
    let figures = publish(&plan, &shared).await;
    for subscriber in subscribers {
        subscriber.abort();
    }
    let mut figures = figures?;
    figures.lost += shared.lost.load(Ordering::Relaxed);
    figures.duplicates += shared.duplicates.load(Ordering::Relaxed);
    Ok(figures)
}

async fn publish(plan: &Plan, shared: &Shared) -> Result<Figures> {
    let mut socket = Bare::connect(&plan.url).await?;
    let mut meter = Meter::start(plan.time.0, plan.time.1);
    let (mut sent, mut delivered, mut going) = (0, 0, true);
    loop {
        while going && sent * plan.subscribers < delivered + WINDOW * plan.subscribers {
            let data = frames::payload(&plan.text, FIRST + sent);
            socket.feed(|out| frames::publish(out, TOPIC, &data, None, false)).await?;
            sent += 1;
        }
        socket.flush().await?;
        if !going && delivered >= sent * plan.subscribers {
            return Ok(meter.figures());
        }
        shared.more.notified().await;
        if shared.broken.load(Ordering::Relaxed) {
            return Err(Error::other("a subscriber lost its connection"));
        }
        let now = shared.delivered.load(Ordering::Relaxed);
        going = meter.add(now - delivered) && going;
        delivered = now;
    }
}

async fn receive(mut socket: Bare, shared: &Shared) -> Result<()> {
    let mut sequence = Sequence::default();
    loop {
        let mut next = Some(socket.next().await?);
        let mut delivered = 0;
        while let Some(frame) = next {
            if let Some(fields) = frames::read(&frame).filter(|fields| fields.kind == b"message") {
                sequence.take(fields.data);
                delivered += 1;
            }
            next = socket.try_next()?;
        }
        let figures = sequence.judge(Figures::default());
        if !figures.is_clean() {
            shared.lost.fetch_add(figures.lost, Ordering::Relaxed);
            shared.duplicates.fetch_add(figures.duplicates, Ordering::Relaxed);
            // What is missing will not come: nobody shall wait for it.
            delivered += figures.lost;
            sequence.forget();
        }
        shared.delivered.fetch_add(delivered, Ordering::Relaxed);
        shared.more.notify_one();
    }
}
