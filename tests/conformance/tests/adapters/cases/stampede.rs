//! Many clients that lose their broker together do not come back together.

use std::time::Duration;

use nolag::{Client, Options};
use nolag_broker::{Expected, Limits, RecordedFrame};

use super::{Case, case};
use crate::world::{World, channel};

pub(super) const CASES: &[Case] = &[case!(One, a_thousand_clients_come_back_one_by_one, slow)];

/// What is counted together.
const BUCKET: Duration = Duration::from_millis(100);

/// The first attempt after a loss comes within a second.
const BUCKETS: usize = 10;

/// How long one connection may take to open.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many of these fall into each bucket.
fn spread(delays: impl Iterator<Item = Duration>) -> Vec<usize> {
    let mut counts = vec![0; BUCKETS];
    for delay in delays {
        let bucket = (delay.as_micros() / BUCKET.as_micros()) as usize;
        counts.resize(counts.len().max(bucket + 1), 0);
        counts[bucket] += 1;
    }
    counts
}

fn a_thousand_clients_come_back_one_by_one(w: &World) {
    let count = w.adapter.many_clients();
    let broker = w.broker_with(|broker| broker.limits(Limits::NONE));
    let (tell, told) = channel();
    let clients: Vec<Client> = (0..count)
        .map(|n| {
            // As a user has it: the delays are those of the defaults. Only patience is not: others use the processors too.
            let options = w.adapter.choose(Options::new(broker.url()).connect_timeout(PATIENCE));
            let client = Client::new(broker.token(&format!("actor-{n}")), options);
            let tell = tell.clone();
            client.on_disconnect(move |event| tell.send(event.retry_in));
            w.wait(client.connect()).unwrap();
            client
        })
        .collect();
    let auths = Expected::from_client("auth");
    assert_eq!(w.frames(&broker, &auths, count).len(), count);

    broker.block_on(broker.restart());
    // What the clients plan: each tenth of the second gets its share. Five standard deviations are allowed for.
    let planned = spread((0..count).map(|_| w.receive(&told).expect("it reconnects")));
    assert_eq!(planned.len(), BUCKETS, "all within a second: {planned:?}");
    let share = count as f64 / BUCKETS as f64;
    let slack = 5.0 * (share * (1.0 - 1.0 / BUCKETS as f64)).sqrt();
    for bucket in &planned {
        assert!((*bucket as f64 - share).abs() <= slack, "{planned:?}, where {share} ± {slack:.0} are due");
    }

    // What the broker sees: all come back, and no faster than planned. It may well be slower, when the processors are
    // busy with other cases.
    let frames = w.frames(&broker, &auths, 2 * count);
    assert_eq!(frames.len(), 2 * count);
    let since = |frame: &RecordedFrame| frame.at.saturating_since(frames[count].at);
    let seen = spread(frames[count..].iter().map(since));
    assert!(seen.len() + 3 >= BUCKETS, "in a rush: {seen:?}");
    w.until("all stand again", || clients.iter().all(Client::is_connected));
}
