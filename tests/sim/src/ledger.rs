//! Every accepted command, and its one outcome.

use std::collections::{BTreeMap, BTreeSet};

use nolag_core::{OpId, Outcome};

/// What one client accepted, and how it ended.
#[derive(Debug, Default)]
pub struct Ledger {
    accepted: BTreeMap<OpId, Option<Outcome>>,
    open: BTreeSet<OpId>,
    /// Outcomes that came before the call that accepted the command had returned.
    early: BTreeMap<OpId, Outcome>,
}

impl Ledger {
    /// Notes that a command was accepted.
    pub(crate) fn accept(&mut self, op: OpId) {
        let early = self.early.remove(&op);
        if early.is_none() {
            self.open.insert(op);
        }
        assert!(self.accepted.insert(op, early).is_none(), "{op:?} was accepted twice");
    }

    /// Notes that a command ended.
    ///
    /// # Panics
    /// When it had ended before.
    pub(crate) fn settle(&mut self, op: OpId, outcome: Outcome) {
        match self.accepted.get_mut(&op) {
            Some(slot @ None) => {
                *slot = Some(outcome);
                self.open.remove(&op);
            }
            Some(Some(before)) => panic!("{op:?} ended as {before:?} and again as {outcome:?}"),
            None => {
                let before = self.early.insert(op, outcome);
                assert!(before.is_none(), "{op:?} ended twice before it was accepted");
            }
        }
    }

    /// How a command ended, if it did.
    pub fn outcome(&self, op: OpId) -> Option<&Outcome> {
        self.accepted.get(&op)?.as_ref()
    }

    /// Accepted commands without an outcome.
    pub fn open(&self) -> impl ExactSizeIterator<Item = OpId> {
        self.open.iter().copied()
    }

    /// Checks that nothing is left open.
    ///
    /// # Panics
    /// When a command has no outcome, or an outcome belongs to no command.
    pub fn assert_settled(&self) {
        let open: Vec<_> = self.open().collect();
        assert!(open.is_empty(), "without an outcome: {open:?}");
        assert!(self.early.is_empty(), "outcomes of unknown commands: {:?}", self.early);
    }
}
