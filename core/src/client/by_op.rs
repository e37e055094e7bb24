//! What belongs to commands, by their numbers.

use alloc::collections::VecDeque;
use core::fmt;

use super::OpId;

/// Room that is kept when nothing is left; more was for a rush that is over.
const KEPT: usize = 1024;

/// A map from commands to values, in the order of the commands.
///
/// Numbers are given in rising order and most commands end in that order, so this is a queue with gaps: entering, leaving
/// and finding the oldest take no search, and nothing is allocated once it has grown.
pub(super) struct ByOp<T> {
    entries: VecDeque<(OpId, Option<T>)>,
    /// Entries that are no gaps. Neither the first nor the last entry is a gap.
    len: usize,
}

impl<T: fmt::Debug> fmt::Debug for ByOp<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<T> Default for ByOp<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), len: 0 }
    }
}

impl<T> ByOp<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds what belongs to a command, in place of what did.
    pub(super) fn insert(&mut self, op: OpId, value: T) {
        if self.entries.back().is_none_or(|(last, _)| *last < op) {
            self.len += 1;
            return self.entries.push_back((op, Some(value)));
        }
        match self.find(op) {
            Ok(index) => {
                let before = self.entries[index].1.replace(value);
                self.len += usize::from(before.is_none());
            }
            Err(index) => {
                self.len += 1;
                self.entries.insert(index, (op, Some(value)));
            }
        }
    }

    pub(super) fn get(&self, op: OpId) -> Option<&T> {
        self.entries[self.find(op).ok()?].1.as_ref()
    }

    pub(super) fn get_mut(&mut self, op: OpId) -> Option<&mut T> {
        let index = self.find(op).ok()?;
        self.entries[index].1.as_mut()
    }

    pub(super) fn contains(&self, op: OpId) -> bool {
        self.get(op).is_some()
    }

    pub(super) fn remove(&mut self, op: OpId) -> Option<T> {
        let index = self.find(op).ok()?;
        let value = self.entries[index].1.take()?;
        self.len -= 1;
        while self.entries.front().is_some_and(|(_, value)| value.is_none()) {
            self.entries.pop_front();
        }
        while self.entries.back().is_some_and(|(_, value)| value.is_none()) {
            self.entries.pop_back();
        }
        // Few are left between many gaps: so many removals have paid for this.
        if self.entries.len() > 32 + self.len * 2 {
            self.entries.retain(|(_, value)| value.is_some());
        }
        if self.is_empty() && self.entries.capacity() > KEPT {
            self.entries = VecDeque::new();
        }
        Some(value)
    }

    /// The oldest.
    pub(super) fn first(&self) -> Option<(OpId, &T)> {
        let (op, value) = self.entries.front()?;
        Some((*op, value.as_ref()?))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (OpId, &T)> {
        self.entries.iter().filter_map(|(op, value)| Some((*op, value.as_ref()?)))
    }

    pub(super) fn ops(&self) -> impl Iterator<Item = OpId> {
        self.iter().map(|(op, _)| op)
    }

    fn find(&self, op: OpId) -> Result<usize, usize> {
        match self.entries.front() {
            Some((first, _)) if *first == op => Ok(0),
            _ => self.entries.binary_search_by_key(&op, |(known, _)| *known),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, vec::Vec};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever comes and goes, in whatever order.
        #[test]
        fn it_is_a_map_in_order(steps in prop::collection::vec((0..4_u8, 0..120_u64), 0..600)) {
            let (mut ours, mut model) = (ByOp::default(), BTreeMap::new());
            for (step, (kind, number)) in steps.into_iter().enumerate() {
                let op = OpId(number);
                match kind {
                    0 => {
                        ours.insert(op, step);
                        model.insert(op, step);
                    }
                    1 => prop_assert_eq!(ours.remove(op), model.remove(&op)),
                    2 => prop_assert_eq!(ours.get_mut(op), model.get_mut(&op)),
                    _ => prop_assert_eq!(ours.contains(op), model.contains_key(&op)),
                }
                let expected: Vec<_> = model.iter().map(|(op, value)| (*op, value)).collect();
                prop_assert_eq!(ours.iter().collect::<Vec<_>>(), expected);
                prop_assert_eq!(ours.first(), model.first_key_value().map(|(op, value)| (*op, value)));
                prop_assert_eq!((ours.len(), ours.is_empty()), (model.len(), model.is_empty()));
                prop_assert!(ours.entries.len() <= 32 + 2 * ours.len);
            }
        }
    }

    #[test]
    fn one_that_stays_does_not_keep_room_for_all_that_went() {
        let mut map = ByOp::default();
        map.insert(OpId(0), ());
        for number in 1..10_000 {
            map.insert(OpId(number), ());
            map.insert(OpId(number + 1), ());
            map.remove(OpId(number));
        }
        assert!(map.entries.len() <= 32 + 2 * map.len, "{} entries", map.entries.len());
    }
}
