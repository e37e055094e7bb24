//! What may differ between two runs of the same session.

use crate::leniency::Rule;

/// A difference that is no difference in behaviour. `docs/broker-differences.md` lists them for readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Allowed {
    /// Order between messages of different publishers.
    Interleaving,
    /// `joinedAt`.
    JoinTimes,
    /// Which member of a load-balanced group gets a message.
    LoadBalanceChoice,
    /// `msgId`.
    MessageIds,
    /// When an answer comes.
    Times,
}

impl Allowed {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Interleaving, Self::JoinTimes, Self::LoadBalanceChoice, Self::MessageIds, Self::Times];

    /// The short name. Where the header of a recording has to permit the difference, it is what stands in `varies`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interleaving => "interleaving",
            Self::JoinTimes => "join-times",
            Self::LoadBalanceChoice => "lb-choice",
            Self::MessageIds => "message-ids",
            Self::Times => "times",
        }
    }

    /// What may differ, and why.
    pub fn rule(self) -> Rule {
        let (what, why) = match self {
            Self::Interleaving => (
                "interleaving: messages of different publishers come in any order, if the header says so; each \
                 publisher's own order counts",
                "publishers race",
            ),
            Self::JoinTimes => (
                "join-times: joinedAt differs by the same amount everywhere, give or take one second",
                "it is the time of the run, cut to whole seconds",
            ),
            Self::LoadBalanceChoice => (
                "lb-choice: a load-balanced message goes to another member, if the header says so; exactly one \
                 gets it",
                "Kraken chooses at random, we take turns",
            ),
            Self::MessageIds => (
                "message-ids: msgId differs, one recorded id always standing for the same id of ours",
                "message ids are random",
            ),
            Self::Times => (
                "times: an answer comes up to 100 ms (after messages of 64 KiB and more 400 ms) before its recorded \
                 time, never after it",
                "a recorded broker and the recorder take time, the core does not",
            ),
        };
        Rule { mode: "broker", what, why }
    }
}
