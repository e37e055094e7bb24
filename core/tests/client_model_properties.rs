//! A whole client against a small model of one: after every step the model says which commands are open, which topics
//! are wanted and where the client stands.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/machine.rs"]
mod machine;
#[path = "support/model.rs"]
mod model;
mod support;

use cases::cases;
use machine::{LOBBIES, Machine, ROOMS, TOPICS};
use model::{Link, Model, Step};
use nolag_core::{Status, wire::Filter};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

/// Two copies of one client: the second is polled in another order and woken when there is no reason to.
struct Pair {
    orderly: Machine,
    restless: Machine,
}

struct ClientTest;

impl StateMachineTest for ClientTest {
    type SystemUnderTest = Pair;
    type Reference = Model;

    fn init_test(model: &Model) -> Pair {
        Pair { orderly: Machine::orderly(&model.setup), restless: Machine::restless(&model.setup) }
    }

    fn apply(mut pair: Pair, _: &Model, step: Step) -> Pair {
        pair.orderly.take(&step);
        pair.restless.take(&step);
        pair
    }

    fn check_invariants(pair: &Pair, model: &Model) {
        let Machine { core, ops, done, .. } = &pair.orderly;
        assert_eq!(core.status(), status(model), "{}", core.explain());
        // What was accepted and what was refused, and of what was accepted, what has ended.
        assert_eq!(ops.len(), model.accepted, "accepted commands: {}", core.explain());
        let open: Vec<usize> = (0..ops.len()).filter(|n| !done.contains(&ops[*n])).collect();
        let expected: Vec<usize> = model.open.keys().copied().collect();
        assert_eq!(open, expected, "open: {:?}; {}", model.open, core.explain());
        assert_eq!(done.len(), ops.len() - open.len(), "nothing ends that was never accepted");
        // What is wanted.
        let mut topics: Vec<(String, Vec<String>)> = core
            .subscriptions()
            .map(|info| {
                (info.topic.to_string(), info.options.filters.iter().map(Filter::canonical).collect())
            })
            .collect();
        topics.sort_by_key(|(topic, _)| TOPICS.iter().position(|known| known == topic));
        let wanted: Vec<(String, Vec<String>)> = model
            .desired()
            .into_iter()
            .map(|(topic, filters)| (TOPICS[topic].into(), filters.into_iter().map(String::from).collect()))
            .collect();
        assert_eq!(topics, wanted);
        assert_eq!(core.presence_room(), model.wanted_room.map(|room| ROOMS[room]));
        if model.link == Link::Idle {
            assert_eq!(core.poll_timeout(), None, "nothing to wake up for: {}", core.explain());
            assert!(LOBBIES.iter().all(|lobby| core.lobby(lobby).is_none()));
        }
        // Nothing of the noise was too much to report, and nobody lost anything.
        assert_eq!((core.stats().events_dropped, core.stats().messages_dropped), (0, 0));
        // The same seed and the same inputs: the same outputs, byte for byte.
        assert!(
            pair.orderly.trace == pair.restless.trace,
            "polling made a difference:\n{:#?}\n{:#?}",
            pair.orderly.trace,
            pair.restless.trace
        );
    }

    fn teardown(mut pair: Pair, mut model: Model) {
        // Whatever is under way: leaving ends it all.
        let leave = if model.setup.seed % 2 == 0 { Step::Disconnect } else { Step::Drain };
        for step in [leave, Step::Serve { refuse: None }] {
            model = Model::apply(model, &step);
            pair = Self::apply(pair, &model, step);
            Self::check_invariants(&pair, &model);
        }
        assert!(model.open.is_empty() && model.link == Link::Idle);
    }
}

fn status(model: &Model) -> Status {
    match model.link {
        Link::Idle => Status::Disconnected,
        Link::Ready | Link::Draining => Status::Connected,
        _ if model.is_reconnecting() => Status::Reconnecting,
        _ => Status::Connecting,
    }
}

prop_state_machine! {
    #![proptest_config(cases(300))]

    /// Whatever the application, the network and the broker do: each accepted command has exactly one outcome, at the
    /// moment that the model says; refusals give back what they were given and change nothing; frames go to the one
    /// transport that is open; leaving settles everything; and polling differently changes no byte.
    #[test]
    fn a_client_behaves_as_its_model(sequential 1..100 => ClientTest);
}
