//! Every accepted command, and its one outcome.

use std::collections::{BTreeMap, BTreeSet};

use nolag_core::{OpId, Outcome};

/// What one client accepted, and how it ended.
#[derive(Debug, Default)]
pub struct Ledger {
    accepted: BTreeMap<OpId, Option<Outcome>>,
    open: BTreeSet<OpId>,
    /// Outcomes are kept for those who ask; without, only what is open is known.
    keeps: bool,
}

impl Ledger {
    pub(crate) fn keeping() -> Self {
        Self { keeps: true, ..Self::default() }
    }

    /// Notes that a command was accepted. `Err` says what is wrong with that.
    pub(crate) fn accept(&mut self, op: OpId) -> Result<(), String> {
        let known = !self.open.insert(op) || self.keeps && self.accepted.insert(op, None).is_some();
        if known { Err(format!("{op:?} was accepted twice")) } else { Ok(()) }
    }

    /// Notes that a command ended. `Err` when it had ended before, or was never accepted.
    pub(crate) fn settle(&mut self, op: OpId, outcome: &Outcome) -> Result<(), String> {
        if !self.open.remove(&op) {
            return Err(match self.accepted.get(&op) {
                Some(Some(before)) => format!("{op:?} ended as {before:?} and again as {outcome:?}"),
                _ => format!("{op:?} ended as {outcome:?} and is not open"),
            });
        }
        if self.keeps {
            self.accepted.insert(op, Some(outcome.clone()));
        }
        Ok(())
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
    /// When a command has no outcome.
    pub fn assert_settled(&self) {
        let open: Vec<_> = self.open().collect();
        assert!(open.is_empty(), "without an outcome: {open:?}");
    }
}
