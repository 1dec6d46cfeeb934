//! A set of block numbers kept as runs, so that an empty device of any size costs one entry.
//!
//! Invariants
//! - Runs are disjoint, not empty, and no two of them touch. Checked by `insert_run`,
//!   `a_set_of_runs_equals_a_set_of_blocks`.
//! - `len` is the number of blocks in all runs. Checked by `a_set_of_runs_equals_a_set_of_blocks`.

use std::collections::BTreeMap;

/// A set of block numbers; see the module's page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    /// First block of a run to the block after its last.
    runs: BTreeMap<u64, u64>,
    len: u64,
}

impl Runs {
    /// The blocks of `ranges`, each a first block and the block after the last.
    pub(crate) fn of(ranges: &[(u64, u64)]) -> Runs {
        let mut set = Runs::default();
        ranges.iter().for_each(|&(from, to)| set.insert_run(from, to));
        set
    }

    /// Each run: its first block and the block after its last.
    pub(crate) fn runs(&self) -> Vec<(u64, u64)> {
        self.runs.iter().map(|(&from, &to)| (from, to)).collect()
    }

    /// Blocks in the set.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Adds a block; one that is there already changes nothing.
    pub(crate) fn insert(&mut self, block: u64) {
        if self.run_around(block).is_none() {
            self.insert_run(block, block + 1);
        }
    }

    /// Removes a block; whether it was there.
    pub(crate) fn remove(&mut self, block: u64) -> bool {
        let Some((from, to)) = self.run_around(block) else { return false };
        self.runs.remove(&from);
        if from < block {
            self.runs.insert(from, block);
        }
        if block + 1 < to {
            self.runs.insert(block + 1, to);
        }
        self.len -= 1;
        true
    }

    /// Removes the lowest block.
    pub(crate) fn pop_first(&mut self) -> Option<u64> {
        let block = *self.runs.first_key_value()?.0;
        self.remove(block);
        Some(block)
    }

    fn run_around(&self, block: u64) -> Option<(u64, u64)> {
        let (&from, &to) = self.runs.range(..=block).next_back()?;
        (block < to).then_some((from, to))
    }

    /// Adds blocks of which none is in the set, joined with the runs that they touch.
    fn insert_run(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let before = self.runs.range(..to).next_back();
        debug_assert!(before.is_none_or(|(_, &end)| end <= from), "{from}..{to} is in the set");
        self.len += to - from;
        let end = self.runs.remove(&to).unwrap_or(to);
        match self.runs.range_mut(..from).next_back().filter(|(_, e)| **e == from) {
            Some((_, before)) => *before = end,
            None => drop(self.runs.insert(from, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_base::rng::{self, Rng as _};
    use std::collections::BTreeSet;

    #[test]
    fn a_set_of_runs_equals_a_set_of_blocks() {
        let mut rng = rng::stream(1, "runs of blocks");
        let ranges = [(10, 20), (20, 23), (40, 40), (50, 60)];
        let mut runs = Runs::of(&ranges);
        let mut blocks: BTreeSet<u64> = ranges.iter().flat_map(|&(a, b)| a..b).collect();
        for _ in 0..20_000 {
            let block = rng.random_range(5..65u64);
            match rng.random_range(0..5) {
                0 => assert_eq!(runs.pop_first(), blocks.pop_first()),
                1 => assert_eq!(runs.remove(block), blocks.remove(&block)),
                _ => {
                    runs.insert(block);
                    blocks.insert(block);
                }
            }
            assert_eq!(runs.len(), blocks.len() as u64);
            let listed: Vec<u64> = runs.runs.iter().flat_map(|(&a, &b)| a..b).collect();
            assert!(listed.iter().eq(&blocks), "{runs:?} is not {blocks:?}");
            let apart = runs.runs.iter().zip(runs.runs.keys().skip(1)).all(|((_, e), b)| e < b);
            assert!(apart, "two runs touch: {runs:?}");
        }
    }

    #[test]
    fn an_empty_device_of_any_size_is_one_run() {
        let runs = Runs::of(&[(2, 1 << 50)]);
        assert_eq!((runs.runs.len(), runs.len()), (1, (1 << 50) - 2));
    }
}
