//! What holds in every history, each a function of its own.
//!
//! | invariant | where |
//! |---|---|
//! | every accepted command has exactly one outcome | `one_outcome_per_command` in [`Ledger`](crate::Ledger), and `nothing_is_left_open` |
//! | `acked_means_accepted` | `publishing` |
//! | `at_least_once_loses_nothing` | `publishing` |
//! | `repeats_are_bounded` | `publishing` |
//! | `first_copies_keep_their_order` | `publishing` |
//! | `paced_publishes_are_never_refused` | `publishing` |
//! | `messages_belong_to_confirmed_subscriptions` | `receiving` |
//! | `whatever_arrives_is_told` | `receiving` |
//! | `attempts_keep_to_their_policy` | `connecting` |
//! | `attempts_are_spread` | `connecting` |
//! | `silence_is_noticed` | `connecting` |
//! | `everything_is_bounded` | `holding` |
//! | `no_secret_is_told` | `holding` |
//! | `what_was_asked_for_stands` | `standing` |
//! | `polling_changes_nothing` | compares two runs |

mod connecting;
mod holding;
mod publishing;
mod receiving;
mod standing;

use nolag_core::Config;

use crate::{ClientId, Moment, Observation, Observer, Violation, World};

use connecting::{attempts_are_spread, attempts_keep_to_their_policy, silence_is_noticed};
use holding::{everything_is_bounded, no_secret_is_told};
use publishing::{
    acked_means_accepted, at_least_once_loses_nothing, first_copies_keep_their_order,
    paced_publishes_are_never_refused, repeats_are_bounded,
};
use receiving::{messages_belong_to_confirmed_subscriptions, whatever_arrives_is_told};
pub(crate) use standing::{Expected, what_was_asked_for_stands};

/// The names of all invariants.
pub const NAMES: [&str; 16] = [
    "one_outcome_per_command",
    "nothing_is_left_open",
    "acked_means_accepted",
    "at_least_once_loses_nothing",
    "repeats_are_bounded",
    "first_copies_keep_their_order",
    "paced_publishes_are_never_refused",
    "messages_belong_to_confirmed_subscriptions",
    "whatever_arrives_is_told",
    "attempts_keep_to_their_policy",
    "attempts_are_spread",
    "silence_is_noticed",
    "everything_is_bounded",
    "no_secret_is_told",
    "what_was_asked_for_stands",
    "polling_changes_nothing",
];

/// What holds for one client: its policy, and what was seen of it.
pub(crate) struct Known {
    /// What it was made with.
    config: Config,
    /// Its publishes.
    publishing: publishing::Publishing,
    /// Its subscriptions and messages.
    receiving: receiving::Receiving,
    /// Its attempts to connect.
    connecting: connecting::Connecting,
}

/// Totals of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Publishes that clients accepted.
    pub published: u64,
    /// Publishes that ended as acked.
    pub acked: u64,
    /// Messages handed to applications.
    pub delivered: u64,
    /// Publishes that ended otherwise, and said so.
    pub reported: u64,
    /// Sessions after the first of each client.
    pub reconnects: u64,
    /// The longest time that a client was without a session and wanted one, in microseconds.
    pub longest_outage: u64,
}

/// Checks every invariant that can be checked while a world runs.
pub struct Invariants {
    known: Vec<Known>,
    attempts: connecting::Attempts,
    secrets: holding::Secrets,
}

impl Invariants {
    /// For clients with these configurations, in the order of adding. No event may show a text that holds one of `secrets`.
    pub fn new(configs: Vec<Config>, secrets: Vec<String>) -> Self {
        let clients = configs.len();
        let known = |config| Known {
            config,
            publishing: publishing::Publishing::default(),
            receiving: receiving::Receiving::default(),
            connecting: connecting::Connecting::default(),
        };
        Self {
            known: configs.into_iter().map(known).collect(),
            attempts: connecting::Attempts::new(clients),
            secrets: holding::Secrets::new(secrets),
        }
    }

    /// Totals so far.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        for Known { publishing, receiving, connecting, .. } in &self.known {
            all.published += publishing.published;
            all.acked += publishing.acked;
            all.reported += publishing.reported;
            all.delivered += receiving.delivered;
            all.reconnects += connecting.sessions.saturating_sub(1);
            all.longest_outage = all.longest_outage.max(connecting.longest_outage);
        }
        all
    }
}

impl Observer for Invariants {
    fn observe(&mut self, moment: &Moment<'_>, what: &Observation<'_>) -> Result<(), Violation> {
        let Some(known) = self.known.get_mut(moment.client.index()) else { return Ok(()) };
        let violation =
            |invariant| move |detail| Violation { invariant, client: moment.client, at: moment.now, detail };
        match what {
            Observation::Accepted(op, command) => {
                known.publishing.accepted(moment, *op, command);
                known.receiving.accepted(*op, command);
                known.connecting.accepted(moment, command);
            }
            Observation::Told(event) => {
                no_secret_is_told(&mut self.secrets, event).map_err(violation("no_secret_is_told"))?;
                acked_means_accepted(&known.publishing, event).map_err(violation("acked_means_accepted"))?;
                attempts_keep_to_their_policy(known, moment, Some(event))
                    .map_err(violation("attempts_keep_to_their_policy"))?;
                known.publishing.told(event);
                known.receiving.told(event);
                known.connecting.told(moment, event);
            }
            Observation::Received(message) => {
                messages_belong_to_confirmed_subscriptions(&mut known.receiving, message)
                    .map_err(violation("messages_belong_to_confirmed_subscriptions"))?;
            }
            Observation::Acted(action) => {
                known.publishing.acted(action);
                if known.connecting.acted(moment, action) {
                    attempts_keep_to_their_policy(known, moment, None)
                        .map_err(violation("attempts_keep_to_their_policy"))?;
                    attempts_are_spread(&mut self.attempts, moment)
                        .map_err(violation("attempts_are_spread"))?;
                }
            }
            Observation::Transmitted(frame) => known.publishing.transmitted(frame),
            Observation::Transport(kind) => {
                known.receiving.arrived(moment, kind);
                known.connecting.arrived();
            }
            Observation::BrokerReceived(frame) => known.publishing.broker_received(frame),
            Observation::BrokerSent(frame) => {
                let publishing = &mut known.publishing;
                let answer = publishing.broker_sent(moment, frame);
                paced_publishes_are_never_refused(known, moment, &answer)
                    .map_err(violation("paced_publishes_are_never_refused"))?;
                first_copies_keep_their_order(&mut known.publishing, &answer)
                    .map_err(violation("first_copies_keep_their_order"))?;
                repeats_are_bounded(&known.publishing).map_err(violation("repeats_are_bounded"))?;
            }
            Observation::Fault(fault) => {
                known.publishing.fault(moment, fault);
                known.connecting.fault(moment, fault);
            }
            Observation::Settled => {
                at_least_once_loses_nothing(known).map_err(violation("at_least_once_loses_nothing"))?;
                whatever_arrives_is_told(&known.receiving, moment.core)
                    .map_err(violation("whatever_arrives_is_told"))?;
                everything_is_bounded(&known.config, moment.core)
                    .map_err(violation("everything_is_bounded"))?;
                silence_is_noticed(known, moment).map_err(violation("silence_is_noticed"))?;
            }
        }
        Ok(())
    }
}

/// Every accepted command of every client has ended, and no client waits for anything: checked at the end of a run.
pub(crate) fn nothing_is_left_open(world: &World) -> Result<(), Violation> {
    for client in world.clients() {
        let open: Vec<_> = world.ledger(client).open().collect();
        let wakes = world.core(client).poll_timeout();
        if !open.is_empty() || wakes.is_some() {
            let detail = format!("open {open:?}, wakes at {wakes:?}: {}", world.core(client).explain());
            let invariant = "nothing_is_left_open";
            return Err(Violation { invariant, client, at: world.now(), detail });
        }
    }
    Ok(())
}

/// The violation of an invariant about the end of a run.
pub(crate) fn at_end(invariant: &'static str, world: &World, client: ClientId, detail: String) -> Violation {
    Violation { invariant, client, at: world.now(), detail }
}
