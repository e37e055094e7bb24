//! One exchange – connect, subscribe, publish – with the transport cut at every step in turn.

use std::time::Duration;

use nolag_broker::{BrokerConfig, Limits, Profile};
use nolag_core::{Config, Disconnect, Event, OpId, Outcome, Payload, Publish, Status, Subscribe};
use nolag_sim::{ClientId, Cut, World};

const TOPIC: &str = "demo/general/messages";
const PUBLISHES: usize = 4;

/// Alice does the exchange; Bob is never cut. He hears what she says, and asks afterwards whether she still hears him.
struct Exchange {
    world: World,
    alice: ClientId,
    bob: ClientId,
    publishes: Vec<OpId>,
}

impl Exchange {
    fn new(seed: u64, profile: Profile, client_id: Option<&str>) -> Self {
        let broker = BrokerConfig { profile, limits: Limits::default(), ..BrokerConfig::default() };
        let mut world = World::new(seed, broker);
        let bob = world.add_client(Config::new("bob"));
        let op = world.connect(bob);
        world.run_until(|world| world.ledger(bob).outcome(op).is_some());
        let op = world.subscribe(bob, Subscribe::new(TOPIC)).expect("bob is connected");
        world.run_until(|world| world.ledger(bob).outcome(op).is_some());
        let mut config = Config::new("alice");
        config.retry_first_connect = true;
        config.client_id = client_id.map(Into::into);
        let alice = world.add_client(config);
        Self { world, alice, bob, publishes: Vec::new() }
    }

    /// Runs until every accepted command of Alice has ended and she is subscribed. As an application would, she
    /// subscribes again when told that it failed, and publishes while connected until enough publishes were accepted.
    fn run(&mut self) {
        let alice = self.alice;
        self.world.connect(alice);
        let mut subscribe =
            self.world.subscribe(alice, Subscribe::new(TOPIC)).expect("accepted while connecting");
        loop {
            if self.world.ledger(alice).outcome(subscribe).is_some_and(|outcome| outcome.error().is_some()) {
                subscribe =
                    self.world.subscribe(alice, Subscribe::new(TOPIC)).expect("accepted while reconnecting");
            }
            let subscribed = self.world.core(alice).subscriptions().any(|subscription| subscription.live);
            if subscribed && self.publishes.len() < PUBLISHES {
                let number = self.publishes.len() as u64;
                let payload = Payload::encode(&number).expect("a number");
                let accepted = self.world.publish(alice, Publish::new(TOPIC, payload));
                self.publishes.push(accepted.expect("she is connected"));
            }
            let settled = self.world.ledger(alice).open().next().is_none();
            if settled && self.publishes.len() == PUBLISHES && subscribed {
                return;
            }
            assert!(self.world.step(), "stuck: {}", self.world.core(alice).explain());
            assert!(self.world.delivered() < 10_000, "stuck: {}", self.world.explain());
        }
    }

    /// What must hold whatever was cut: Alice hears Bob, and each publish ended once and truthfully.
    fn check(&mut self) {
        let (alice, bob) = (self.alice, self.bob);
        self.world.ledger(alice).assert_settled();
        // The last copies are still on their way to Bob.
        self.world.run_for(Duration::from_secs(1));
        let mut heard = [0; PUBLISHES];
        for message in self.world.take_messages(bob) {
            heard[message.payload().decode::<usize>().expect("a number")] += 1;
        }
        for (number, op) in self.publishes.iter().enumerate() {
            match (self.world.ledger(alice).outcome(*op), heard[number]) {
                (Some(Outcome::Acked), 1)
                | (Some(Outcome::NotSent(_)), 0)
                | (Some(Outcome::Unknown(_)), 0 | 1) => {}
                (other, times) => panic!("publish {number} ended as {other:?} and was heard {times} times"),
            }
        }
        // A cut may be noticed only now; the probe is repeated until the subscription delivers it.
        let _ = self.world.take_messages(alice);
        for probe in 0..40 {
            let payload = Payload::encode(&format!("probe {probe}")).expect("text");
            let op = self.world.publish(bob, Publish::new(TOPIC, payload)).expect("bob is connected");
            self.world.run_for(Duration::from_secs(3));
            assert_eq!(self.world.ledger(bob).outcome(op), Some(&Outcome::Acked));
            let heard = self.world.take_messages(alice);
            if heard.iter().any(|message| message.payload().text() == Some(&format!("probe {probe}"))) {
                assert_eq!(self.world.core(alice).status(), Status::Connected);
                return;
            }
        }
        panic!("the subscription never delivered again:\n{}", self.world.core(alice).explain());
    }

    fn leave(&mut self) {
        for client in [self.alice, self.bob] {
            let op = self.world.disconnect(client, Disconnect::Drain(Duration::from_secs(5)));
            self.world.run_until(|world| world.ledger(client).outcome(op).is_some());
            assert_eq!(self.world.ledger(client).outcome(op), Some(&Outcome::Disconnected));
            self.world.ledger(client).assert_settled();
            assert_eq!(self.world.core(client).poll_timeout(), None, "a client that left waits for nothing");
        }
    }
}

fn steps_of(profile: Profile, client_id: Option<&str>) -> (u64, u64) {
    let mut exchange = Exchange::new(1, profile, client_id);
    let first = exchange.world.delivered();
    exchange.run();
    let last = exchange.world.delivered();
    for op in &exchange.publishes {
        assert_eq!(exchange.world.ledger(exchange.alice).outcome(*op), Some(&Outcome::Acked));
    }
    exchange.check();
    exchange.leave();
    (first, last)
}

fn cut_everywhere(cut: Cut, profile: Profile, client_id: Option<&str>) {
    let (first, last) = steps_of(profile, client_id);
    assert!(last - first > 10, "the exchange has steps");
    for step in first..last {
        let mut exchange = Exchange::new(1, profile, client_id);
        exchange.world.cut_at(step, exchange.alice, cut);
        exchange.run();
        exchange.check();
        let events = exchange.world.take_events(exchange.alice);
        let lost = events
            .iter()
            .any(|event| matches!(event, Event::Disconnected { .. } | Event::AttemptFailed { .. }));
        assert!(lost, "step {step}: the cut was noticed");
        exchange.leave();
    }
}

#[test]
fn a_cut_that_both_sides_notice_is_recovered_from_at_every_step() {
    cut_everywhere(Cut::Noticed, Profile::Kraken010, None);
}

#[test]
fn a_cut_that_only_the_broker_notices_is_recovered_from_at_every_step() {
    cut_everywhere(Cut::ClientBlind, Profile::Kraken010, None);
}

#[test]
fn a_cut_that_only_the_client_notices_is_recovered_from_at_every_step() {
    cut_everywhere(Cut::BrokerBlind, Profile::Kraken010, None);
}

#[test]
fn a_client_with_a_name_of_its_own_recovers_at_every_step() {
    for cut in [Cut::Noticed, Cut::ClientBlind, Cut::BrokerBlind] {
        cut_everywhere(cut, Profile::Kraken010, Some("alice-laptop"));
    }
}

#[test]
fn old_brokers_are_recovered_from_at_every_step() {
    for profile in [Profile::Kraken04, Profile::Cloud] {
        cut_everywhere(Cut::Noticed, profile, None);
    }
}

#[test]
fn a_first_connect_that_is_cut_fails_once_and_can_be_repeated() {
    for step in 0..4 {
        let mut world = World::new(3, BrokerConfig::default());
        let alice = world.add_client(Config::new("alice"));
        world.cut_at(step, alice, Cut::Noticed);
        let first = world.connect(alice);
        world.run_until(|world| world.ledger(alice).outcome(first).is_some());
        assert!(matches!(world.ledger(alice).outcome(first), Some(Outcome::Failed(_))), "step {step}");
        assert_eq!(world.core(alice).status(), Status::Disconnected);
        world.run_for(Duration::from_secs(600));
        assert_eq!(world.core(alice).status(), Status::Disconnected, "no reconnect behind the caller's back");
        let second = world.connect(alice);
        world.run_until(|world| world.ledger(alice).outcome(second).is_some());
        assert!(matches!(world.ledger(alice).outcome(second), Some(Outcome::Connected(_))), "step {step}");
    }
}
