//! Finds a bug in a small application by letting it live through outages in virtual time.
//!
//! The application sends numbered orders and crosses each off when it is confirmed. Its first version takes "unknown" for
//! "not sent" and sends the order again under a new number, so an order can be carried out twice. The second sends it
//! again under the same number, and whoever carries orders out ignores a number that it has seen.
//!
//! ```sh
//! cargo run -p nolag-sim --example outbox
//! ```

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
    time::Duration,
};

use nolag_broker::BrokerConfig;
use nolag_core::{Config, Event, Instant, Message, OpId, Outcome, Payload, Publish, Subscribe};
use nolag_sim::{Application, Client, Cut, Fault, World};

const TOPIC: &str = "shop/orders/new";
const ORDERS: u64 = 200;

/// What became of the orders, for the test to see.
#[derive(Default)]
struct Ledger {
    confirmed: BTreeSet<u64>,
    /// How often each order was carried out.
    carried_out: BTreeMap<u64, u64>,
}

/// An order, and the number under which it is sent.
type Order = (u64, u64);

/// Sends orders.
struct Outbox {
    careful: bool,
    waiting: VecDeque<Order>,
    sent: BTreeMap<OpId, Order>,
    next_number: u64,
    wakes: Instant,
    ledger: Rc<RefCell<Ledger>>,
}

impl Application for Outbox {
    fn on_event(&mut self, _: &mut Client<'_>, event: &Event) {
        let Event::Done { op, outcome } = event else { return };
        let Some((order, number)) = self.sent.remove(op) else { return };
        match outcome {
            Outcome::Acked => _ = self.ledger.borrow_mut().confirmed.insert(order),
            // It may have been done or not: only the same number tells.
            _ if self.careful => self.waiting.push_back((order, number)),
            // The bug: as if it had never been sent.
            _ => {
                self.next_number += 1;
                self.waiting.push_back((order, self.next_number));
            }
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        Some(self.wakes)
    }

    fn on_wake(&mut self, client: &mut Client<'_>) {
        self.wakes = client.now() + Duration::from_millis(200);
        if let Some(order) = self.waiting.front().copied() {
            let payload = Payload::encode(&order).expect("two numbers");
            if let Ok(op) = client.publish(Publish::new(TOPIC, payload)) {
                self.sent.insert(op, order);
                self.waiting.pop_front();
            }
        }
    }
}

/// Carries orders out.
struct Kitchen {
    seen: BTreeSet<u64>,
    ledger: Rc<RefCell<Ledger>>,
}

impl Application for Kitchen {
    fn on_message(&mut self, _: &mut Client<'_>, message: Message) {
        let Ok((order, number)) = message.payload().decode::<Order>() else { return };
        if self.seen.insert(number) {
            *self.ledger.borrow_mut().carried_out.entry(order).or_default() += 1;
        }
    }
}

/// Runs the shop while the outbox loses its connection again and again. Returns what went wrong.
fn problems(careful: bool, seed: u64) -> Vec<String> {
    let ledger: Rc<RefCell<Ledger>> = Rc::default();
    let mut world = World::new(seed, BrokerConfig::default());
    let kitchen = Kitchen { seen: BTreeSet::new(), ledger: ledger.clone() };
    let kitchen = world.add_application(Config::new("kitchen"), kitchen);
    world
        .with(kitchen, |client| client.connect().and_then(|_| Ok(client.subscribe(Subscribe::new(TOPIC))?)))
        .expect("nothing is wrong yet");
    world.run_for(Duration::from_secs(1));

    let outbox = Outbox {
        careful,
        waiting: (1..=ORDERS).map(|order| (order, order)).collect(),
        sent: BTreeMap::new(),
        next_number: ORDERS,
        wakes: Instant::ZERO,
        ledger: ledger.clone(),
    };
    let outbox = world.add_application(Config::new("outbox"), outbox);
    world.with(outbox, |client| client.connect()).expect("not leaving");
    // Twenty cuts, each in the middle of what is under way.
    let mut rng = fastrand::Rng::with_seed(seed);
    for cut in 1..=20 {
        let at = world.now() + Duration::from_millis(cut * 2_500 + rng.u64(0..=200));
        let keep = [rng.u16(0..=1000), rng.u16(0..=1000)];
        world.plan(at, Fault::Cut { client: outbox, cut: Cut::Noticed, keep });
    }
    world.run_for(Duration::from_secs(300));

    let ledger = ledger.borrow();
    let lost = (1..=ORDERS).filter(|order| !ledger.carried_out.contains_key(order));
    let lost = lost.map(|order| format!("order {order} was lost"));
    let twice = ledger.carried_out.iter().filter(|(_, times)| **times > 1);
    let twice = twice.map(|(order, times)| format!("order {order} was carried out {times} times"));
    let open = (ledger.confirmed.len() as u64 != ORDERS).then(|| "not every order was confirmed".into());
    lost.chain(twice).chain(open).collect()
}

fn main() {
    let found = (1..=20).find_map(|seed| {
        let problems = problems(false, seed);
        (!problems.is_empty()).then_some((seed, problems))
    });
    let (seed, problems_found) = found.expect("twenty seeds find the bug");
    println!("with the bug, seed {seed}: {}", problems_found.join(", "));
    for seed in 1..=20 {
        let left = problems(true, seed);
        assert!(left.is_empty(), "seed {seed}: {left:?}");
    }
    println!("without it, seeds 1 to 20: every order was carried out once");
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_bug_is_found_and_its_fix_holds() {
        super::main();
    }
}
