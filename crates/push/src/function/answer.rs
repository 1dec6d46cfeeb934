//! Answers: what partial results from any side add up to.
//!
//! Invariants
//! - The order of additions does not matter. Checked by `prop_partitions`.

use super::ir::{Function, Output};
use super::layout::Layout;
use super::scratch::{PageResult, Scratch};
use super::{Compiled, packed};
use crate::error::{Error, Kind, Result};
use std::collections::BTreeMap;

/// A sum of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// The sum of the values that are not NULL.
    pub sum: i128,
    /// Their number; the sum is NULL if it is 0.
    pub present: u64,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its records.
    pub count: u64,
    /// Its sums.
    pub totals: Vec<Total>,
}

impl Group {
    fn add(&mut self, other: &Group) {
        self.count += other.count;
        self.totals.resize(other.totals.len(), Total::default());
        for (mine, more) in self.totals.iter_mut().zip(&other.totals) {
            mine.sum += more.sum;
            mine.present += more.present;
        }
    }
}

/// The answer of a scan, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Groups by their keys; `None` is NULL. A scan without keys has one group with no key, or
    /// none if no record passed.
    pub groups: BTreeMap<Vec<Option<i64>>, Group>,
    /// Packed records, sorted.
    pub rows: Vec<Vec<u8>>,
}

impl Answer {
    /// Adds a page's result.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a page that is spilled: it has no result, compute it with
    /// [`super::reference::answer`].
    pub fn add(&mut self, compiled: &Compiled, result: &PageResult) -> Result<()> {
        match result {
            PageResult::Partial(scratch) => self.add_scratch(compiled, scratch),
            PageResult::Rows(bytes) => {
                self.add_rows(compiled, bytes)?;
                self.rows.sort_unstable();
            }
            PageResult::Spilled => {
                let what = "a spilled page has no result: compute it on the host";
                return Err(Error::new(Kind::Usage, what));
            }
        }
        Ok(())
    }

    /// Adds another part.
    pub fn merge(&mut self, other: &Answer) {
        for (key, group) in &other.groups {
            self.groups.entry(key.clone()).or_default().add(group);
        }
        self.rows.extend(other.rows.iter().cloned());
        self.rows.sort_unstable();
    }

    fn add_scratch(&mut self, compiled: &Compiled, scratch: &Scratch) {
        let layout = &compiled.code.plan.layout;
        for slot in 0..layout.slots {
            let at = slot * layout.scratch_words;
            if scratch.words[at] == 0 {
                continue;
            }
            let total = |n: usize| {
                let (sum, present) = scratch.sum(layout, n, at);
                Total { sum, present }
            };
            let totals = (0..layout.sums.len()).map(total).collect();
            let group = Group { count: scratch.words[at], totals };
            self.groups.entry(key_of(&compiled.function, slot)).or_default().add(&group);
        }
    }

    /// Adds records that are packed one behind the other.
    ///
    /// # Errors
    /// [`Kind::Corrupt`](crate::error::Kind::Corrupt) for bytes that end inside a record.
    pub(crate) fn add_rows(&mut self, compiled: &Compiled, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = packed::packed_len(&compiled.function, rest)?;
            self.rows.push(rest[..len].to_vec());
            rest = &rest[len..];
        }
        Ok(())
    }

    /// Adds a task's totals, as FINAL returns them.
    pub fn add_totals(&mut self, compiled: &Compiled, totals: &[u64]) {
        let layout = &compiled.code.plan.layout;
        assert_eq!(totals.len(), layout.slots * layout.total_words, "a table of this function");
        for (slot, words) in totals.chunks(layout.total_words).enumerate() {
            if words[0] == 0 {
                continue;
            }
            let total = |place: &super::layout::SumPlace| {
                let (low, high) = (words[place.total], words[place.total + 1]);
                let sum = (u128::from(high) << 64 | u128::from(low)) as i128;
                let present = words[if place.is_nullable { Layout::present(place).1 } else { 0 }];
                Total { sum, present }
            };
            let totals = layout.sums.iter().map(total).collect();
            let group = Group { count: words[0], totals };
            self.groups.entry(key_of(&compiled.function, slot)).or_default().add(&group);
        }
    }
}

/// The keys of a slot.
fn key_of(function: &Function, slot: usize) -> Vec<Option<i64>> {
    let Output::Aggregate { keys, .. } = &function.output else { return Vec::new() };
    let (strides, _) = function.group_strides().expect("invariant: validated");
    let mut rest = slot as i64;
    let mut part = |(&_, (low, values, stride)): (&usize, (i64, i64, i64))| {
        let n = rest / stride;
        rest %= stride;
        (n < values).then_some(low + n)
    };
    keys.iter().zip(strides).map(&mut part).collect()
}
