//! The lanes of a queue: keys that are ready to be processed, in order within their lane. Lanes that have keys take turns.

use std::collections::{BTreeMap, VecDeque};

/// The lane of keys that are added without one.
pub(super) const ONLY: usize = 0;

#[derive(Debug)]
pub(super) struct Lanes<K> {
    /// Without empty ones.
    lanes: BTreeMap<usize, VecDeque<K>>,
    /// The lane that had the last turn.
    last: usize,
}

impl<K> Default for Lanes<K> {
    fn default() -> Self {
        Self { lanes: BTreeMap::new(), last: ONLY }
    }
}

impl<K> Lanes<K> {
    pub(super) fn len(&self) -> usize {
        self.lanes.values().map(VecDeque::len).sum()
    }

    pub(super) fn push(&mut self, lane: usize, key: K) {
        self.lanes.entry(lane).or_default().push_back(key);
    }

    /// The first key of the lane whose turn it is, with its lane.
    pub(super) fn pop(&mut self) -> Option<(usize, K)> {
        let following = self.lanes.range(self.last + 1..).next().or_else(|| self.lanes.first_key_value());
        let lane = *following?.0;
        let keys = self.lanes.get_mut(&lane)?;
        let key = keys.pop_front()?;
        if keys.is_empty() {
            self.lanes.remove(&lane);
        }
        self.last = lane;
        Some((lane, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_take_turns_and_each_keeps_its_order() {
        let mut lanes = Lanes::default();
        for (lane, key) in [(1, "a"), (1, "b"), (1, "c"), (1, "d"), (0, "x"), (2, "m"), (2, "n")] {
            lanes.push(lane, key);
        }
        assert_eq!(lanes.len(), 7);
        let order: Vec<_> = std::iter::from_fn(|| lanes.pop()).map(|(_, key)| key).collect();
        assert_eq!(order, ["a", "m", "x", "b", "n", "c", "d"]);
        assert_eq!(lanes.len(), 0);
    }
}
