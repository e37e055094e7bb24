//! Publishers that queue while they are offline and resend after a loss, over links that are cut at random.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use nolag_broker::BrokerConfig;
use nolag_core::{
    Config, Error, OfflinePolicy, Op, OpId, Outcome, Payload, ProtocolError, Publish, ResendPolicy, Status,
    Subscribe,
};
use nolag_sim::{ClientId, Cut, LinkConfig, World};

const TOPIC: &str = "demo/general/messages";
const PUBLISHERS: usize = 3;

/// What happened to one publish.
struct Sent {
    publisher: usize,
    number: u64,
    op: OpId,
}

struct Story {
    world: World,
    publishers: Vec<ClientId>,
    sent: Vec<Sent>,
    /// What the listener heard of each publisher, in order.
    heard: BTreeMap<usize, Vec<u64>>,
}

/// Twenty minutes in which publishers are cut off and publish whether they are connected or not. The listener is never cut off,
/// because what is published while it is away is not kept for it.
fn minutes_of_cuts(seed: u64, operation_timeout: Duration) -> Story {
    let mut faults = fastrand::Rng::with_seed(seed);
    let mut world = World::new(seed, BrokerConfig::default()).with_links(LinkConfig {
        latency: {
            let latency = Duration::from_millis(faults.u64(1..200));
            latency..=latency
        },
        jitter: Duration::from_millis(faults.u64(0..100)),
        bandwidth: None,
    });
    let listener = world.add_client(Config::new("listener"));
    let publishers: Vec<ClientId> = (0..PUBLISHERS)
        .map(|index| {
            let mut config = Config::new(format!("publisher-{index}"));
            config.retry_first_connect = true;
            config.reconnect.max_attempts = None;
            config.operation_timeout = operation_timeout;
            config.resend = ResendPolicy::AtLeastOnce;
            config.offline = OfflinePolicy::Queue { max_messages: 10_000, max_bytes: 1 << 20, max_age: None };
            world.add_client(config)
        })
        .collect();
    world.connect(listener);
    let subscribe = world.subscribe(listener, Subscribe::new(TOPIC)).expect("accepted while connecting");
    world.run_until(|world| world.ledger(listener).outcome(subscribe).is_some());
    for publisher in &publishers {
        world.connect(*publisher);
    }
    let mut numbers = [0; PUBLISHERS];
    let mut sent = Vec::new();
    while world.now().as_micros() < 1_200_000_000 {
        world.run_for(Duration::from_millis(faults.u64(1..5_000)));
        let publisher = faults.usize(0..PUBLISHERS);
        match faults.u8(0..12) {
            0 => world.cut(publishers[publisher], Cut::Noticed),
            1 => world.cut(publishers[publisher], Cut::ClientBlind),
            2 => world.cut(publishers[publisher], Cut::BrokerBlind),
            _ => {
                for _ in 0..faults.u64(1..80) {
                    let number = numbers[publisher];
                    numbers[publisher] += 1;
                    let payload = Payload::encode(&(publisher, number)).expect("two numbers");
                    let op = world
                        .publish(publishers[publisher], Publish::new(TOPIC, payload))
                        .expect("queued while there is no session");
                    sent.push(Sent { publisher, number, op });
                }
            }
        }
    }
    world.run_for(Duration::from_secs(600));
    let mut heard: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for message in world.take_messages(listener) {
        let (publisher, number) = message.payload().decode().expect("two numbers");
        heard.entry(publisher).or_default().push(number);
    }
    assert_eq!(world.core(listener).stats().sessions, 1, "the listener was never away");
    Story { world, publishers, sent, heard }
}

/// Checks what holds in any case, and counts what ended unknown.
fn check(seed: u64, story: &Story) -> usize {
    for publisher in &story.publishers {
        assert_eq!(story.world.core(*publisher).status(), Status::Connected);
        assert!(story.world.core(*publisher).stats().sessions > 10, "the cuts were noticed");
        assert_eq!(
            story.world.core(*publisher).stats().publishes_retried,
            0,
            "seed {seed}: at the broker's pace"
        );
        story.world.ledger(*publisher).assert_settled();
    }
    let heard: BTreeSet<(usize, u64)> = story
        .heard
        .iter()
        .flat_map(|(publisher, numbers)| numbers.iter().map(|number| (*publisher, *number)))
        .collect();
    let mut unknown = 0;
    for Sent { publisher, number, op } in &story.sent {
        match story.world.ledger(story.publishers[*publisher]).outcome(*op) {
            Some(Outcome::Acked) => {
                let heard = heard.contains(&(*publisher, *number));
                assert!(heard, "seed {seed}: {number} of {publisher} was acked and not heard");
            }
            Some(Outcome::Unknown(Error::Protocol(ProtocolError::Timeout { op: Op::Publish, .. }))) => {
                unknown += 1;
            }
            other => panic!("seed {seed}: {number} of {publisher} ended as {other:?}"),
        }
    }
    for (publisher, heard) in &story.heard {
        let mut seen = BTreeSet::new();
        let first: Vec<_> = heard.iter().copied().filter(|number| seen.insert(*number)).collect();
        assert!(first.is_sorted(), "seed {seed}: {publisher} was heard out of order");
    }
    unknown
}

#[test]
fn every_publish_is_acked_and_heard_in_order_or_unknown_after_its_time() {
    let mut repeated = 0;
    let mut unknown = 0;
    for seed in 0..4 {
        let story = minutes_of_cuts(seed, Duration::from_secs(10));
        unknown += check(seed, &story);
        for heard in story.heard.values() {
            repeated += heard.len() - heard.iter().collect::<BTreeSet<_>>().len();
        }
    }
    assert!(repeated > 0, "some were sent again although they had arrived");
    assert!(unknown > 0, "some were sent into a link that was dead already");
}

#[test]
fn with_more_patience_than_heartbeats_every_publish_is_acked() {
    for seed in 0..4 {
        // A dead link is found within heartbeat interval and timeout, 40 s by default.
        let story = minutes_of_cuts(seed, Duration::from_secs(45));
        assert_eq!(check(seed, &story), 0, "seed {seed}");
    }
}
