//! Publishing against a broker that takes fifty per second of its own clock.

use std::time::Duration;

use nolag_broker::BrokerConfig;
use nolag_core::{Config, OpId, Outcome, Payload, Publish, Subscribe};
use nolag_sim::{ClientId, LinkConfig, World};

const TOPIC: &str = "demo/general/messages";
const PUBLISHES: usize = 2_000;

/// Alice has published everything, Bob has listened, and every outcome is known.
struct Flood {
    world: World,
    alice: ClientId,
    bob: ClientId,
    ops: Vec<OpId>,
    /// From the first publish to the last outcome.
    took: Duration,
}

impl Flood {
    /// Links and the start of the broker's second are random. Of Alice's publishes so many are without an outcome at most.
    fn new(seed: u64, at_once: usize, change: impl FnOnce(&mut Config)) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let wall_clock = Duration::from_micros(rng.u64(0..1_000_000));
        let links = LinkConfig {
            latency: {
                let latency = Duration::from_millis(rng.u64(1..300));
                latency..=latency
            },
            jitter: Duration::from_millis(rng.u64(0..400)),
            bandwidth: None,
        };
        let mut world =
            World::new(seed, BrokerConfig { wall_clock, ..BrokerConfig::default() }).with_links(links);
        let mut config = Config::new("alice");
        change(&mut config);
        let (alice, bob) = (world.add_client(config), world.add_client(Config::new("bob")));
        for client in [alice, bob] {
            let op = world.connect(client);
            world.run_until(|world| world.ledger(client).outcome(op).is_some());
        }
        let op = world.subscribe(bob, Subscribe::new(TOPIC)).expect("bob is connected");
        world.run_until(|world| world.ledger(bob).outcome(op).is_some());
        let started = world.now();
        let mut ops = Vec::new();
        while ops.len() < PUBLISHES {
            world.run_until(|world| world.ledger(alice).open().len() < at_once);
            let payload = Payload::encode(&ops.len()).expect("a number");
            ops.push(world.publish(alice, Publish::new(TOPIC, payload)).expect("alice is connected"));
        }
        world.run_until(|world| world.ledger(alice).open().next().is_none());
        let took = world.now().saturating_since(started);
        // The last copies are still on their way to Bob.
        world.run_for(Duration::from_secs(2));
        Self { world, alice, bob, ops, took }
    }

    fn assert_all_acked(&self) {
        for (number, op) in self.ops.iter().enumerate() {
            assert_eq!(self.world.ledger(self.alice).outcome(*op), Some(&Outcome::Acked), "publish {number}");
        }
    }

    /// What Bob heard, in order.
    fn heard(&mut self) -> Vec<usize> {
        let messages = self.world.take_messages(self.bob);
        messages.iter().map(|message| message.payload().decode().expect("a number")).collect()
    }

    fn refusals(&self) -> u64 {
        self.world.core(self.alice).stats().publishes_retried
    }
}

#[test]
fn paced_publishes_are_never_refused_and_arrive_in_order() {
    for seed in 0..8 {
        let mut flood = Flood::new(seed, PUBLISHES, |_| {});
        flood.assert_all_acked();
        assert_eq!(flood.refusals(), 0, "seed {seed}");
        assert_eq!(flood.heard(), (0..PUBLISHES).collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn a_pace_over_the_brokers_is_refused_and_slows_down() {
    let flood = Flood::new(5, PUBLISHES, |config| config.publish_rate = Some(60));
    flood.assert_all_acked();
    assert!(flood.refusals() > 0, "or the tests here would show nothing");
}

#[test]
fn pacing_costs_a_round_trip_per_second() {
    for seed in 0..4 {
        let flood = Flood::new(seed, PUBLISHES, |_| {});
        // Forty seconds' worth for the broker. The longest round trip here takes 1.4 s.
        let took = flood.took.as_secs_f32();
        assert!((39.0..40.0 * 2.4).contains(&took), "seed {seed}: {took} s");
    }
}

#[test]
fn without_pacing_what_came_too_soon_is_sent_again_until_all_is_acked() {
    for seed in 0..4 {
        // Each second takes fifty, so of so many at once the last is refused six times.
        let mut flood = Flood::new(seed, 300, |config| config.publish_rate = None);
        flood.assert_all_acked();
        assert!(flood.refusals() > 0, "seed {seed}");
        let mut heard = flood.heard();
        heard.sort_unstable();
        assert_eq!(heard, (0..PUBLISHES).collect::<Vec<_>>(), "seed {seed}: each exactly once");
    }
}

#[test]
fn without_pacing_too_much_at_once_is_refused_in_the_end() {
    let flood = Flood::new(1, PUBLISHES, |config| config.publish_rate = None);
    let refused = |op: &&OpId| match flood.world.ledger(flood.alice).outcome(**op) {
        Some(Outcome::Refused(error)) => error.code == Some(42910),
        outcome => {
            assert_eq!(outcome, Some(&Outcome::Acked));
            false
        }
    };
    let count = flood.ops.iter().filter(refused).count();
    assert!((500..PUBLISHES - 500).contains(&count), "{count}");
}
