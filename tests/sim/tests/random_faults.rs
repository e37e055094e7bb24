//! Many clients, random links, random cuts: what holds in every history.

use std::{collections::BTreeMap, time::Duration};

use nolag_broker::{BrokerConfig, Limits};
use nolag_core::{Config, Disconnect, OpId, Outcome, Payload, Publish, Status, Subscribe};
use nolag_sim::{ClientId, Cut, LinkConfig, World};

const TOPIC: &str = "demo/general/messages";

/// Runs an hour with faults and returns the history.
fn hour_of_faults(seed: u64) -> String {
    let mut faults = fastrand::Rng::with_seed(seed);
    let limits = Limits { publishes_per_second: None, ..Limits::default() };
    let mut world =
        World::new(seed, BrokerConfig { limits, ..BrokerConfig::default() }).with_links(LinkConfig {
            latency: {
                let latency = Duration::from_millis(faults.u64(1..200));
                latency..=latency
            },
            jitter: Duration::from_millis(faults.u64(0..100)),
            bandwidth: None,
        });
    let clients: Vec<ClientId> = (0..3)
        .map(|index| {
            let mut config = Config::new(format!("client-{index}"));
            config.retry_first_connect = true;
            config.reconnect.max_attempts = None;
            config.client_id = (index == 0).then(|| "named".into());
            world.add_client(config)
        })
        .collect();
    for client in &clients {
        world.connect(*client);
        world.subscribe(*client, Subscribe::new(TOPIC)).expect("accepted while connecting");
    }
    let mut numbers = [0u64; 3];
    let mut heard: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    let mut published: Vec<(ClientId, OpId)> = Vec::new();
    while world.now().as_micros() < 3_600_000_000 {
        world.run_for(Duration::from_millis(faults.u64(1..20_000)));
        let index = faults.usize(0..3);
        match faults.u8(0..10) {
            0 => world.cut(clients[index], Cut::Noticed),
            1 => world.cut(clients[index], Cut::ClientBlind),
            2 => world.cut(clients[index], Cut::BrokerBlind),
            3 => {
                world.stop_broker();
                world.run_for(Duration::from_secs(faults.u64(1..60)));
                world.start_broker();
            }
            _ => {
                let number = numbers[index];
                let payload = Payload::encode(&(index, number)).expect("two numbers");
                if let Ok(op) = world.publish(clients[index], Publish::new(TOPIC, payload)) {
                    numbers[index] += 1;
                    published.push((clients[index], op));
                }
            }
        }
        for (listener, client) in clients.iter().enumerate() {
            for message in world.take_messages(*client) {
                let (sender, number): (usize, u64) = message.payload().decode().expect("two numbers");
                let last = heard.insert((listener, sender), number);
                assert!(
                    last.is_none_or(|last| last < number),
                    "seed {seed}: {listener} heard {sender} out of order"
                );
            }
        }
    }
    world.run_for(Duration::from_secs(300));
    for client in &clients {
        assert_eq!(
            world.core(*client).status(),
            Status::Connected,
            "seed {seed}: {}",
            world.core(*client).explain()
        );
        world.ledger(*client).assert_settled();
    }
    for (client, op) in published {
        let outcome = world.ledger(client).outcome(op);
        let truthful = matches!(outcome, Some(Outcome::Acked | Outcome::NotSent(_) | Outcome::Unknown(_)));
        assert!(truthful, "seed {seed}: {outcome:?}");
    }
    for client in clients {
        let op = world.disconnect(client, Disconnect::Now);
        assert_eq!(world.ledger(client).outcome(op), Some(&Outcome::Disconnected));
    }
    world.history().to_owned()
}

#[test]
fn whatever_fails_every_command_ends_once_and_order_is_kept() {
    for seed in 0..30 {
        hour_of_faults(seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in [1, 99] {
        assert_eq!(hour_of_faults(seed), hour_of_faults(seed));
    }
    assert_ne!(hour_of_faults(1), hour_of_faults(2));
}

#[test]
fn an_idle_client_stays_connected_and_a_dead_link_is_found_by_the_heartbeat() {
    let mut world = World::new(5, BrokerConfig::default());
    let alice = world.add_client(Config::new("alice"));
    world.connect(alice);
    world.run_for(Duration::from_secs(600));
    assert_eq!(world.core(alice).stats().sessions, 1, "ten idle minutes need no reconnect");
    world.cut(alice, Cut::ClientBlind);
    world.run_for(Duration::from_secs(42));
    assert_eq!(world.core(alice).stats().sessions, 2, "{}", world.core(alice).explain());
}
