//! Where counts and sums lie in a page's scratch and in a task's totals.
//!
//! A slot of the scratch is the number of records, then per sum its low word, its high word if a
//! page's sum may exceed 64 bits, and the number of values that are not NULL if there may be NULLs;
//! all words of 64 bits. A slot of the totals is the same with two words for every sum. Both tables
//! have one slot per group. A page function finds its scratch zero; the merge leaves it so.

use super::ir::{Function, Output};

/// One sum of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SumPlace {
    /// Its word in a slot of the scratch.
    pub scratch: usize,
    /// Its word in a slot of the totals.
    pub total: usize,
    /// Whether the scratch has two words for it.
    pub is_wide: bool,
    /// Whether values that are not NULL are counted.
    pub is_nullable: bool,
}

/// The tables of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub slots: usize,
    pub sums: Vec<SumPlace>,
    pub scratch_words: usize,
    pub total_words: usize,
}

impl Layout {
    pub(super) fn of(function: &Function) -> Layout {
        let sums = match &function.output {
            Output::Aggregate { sums, .. } => sums.as_slice(),
            Output::Rows(_) => &[],
        };
        let (mut scratch, mut total) = (1, 1);
        let mut places = Vec::new();
        for sum in sums {
            let is_wide = function.is_wide(sum);
            let is_nullable = !sum.nullable(&function.schema).is_empty();
            places.push(SumPlace { scratch, total, is_wide, is_nullable });
            scratch += 1 + usize::from(is_wide) + usize::from(is_nullable);
            total += 2 + usize::from(is_nullable);
        }
        Layout { slots: function.slots(), sums: places, scratch_words: scratch, total_words: total }
    }

    /// Adds a scratch to totals.
    pub(super) fn merge(&self, scratch: &[u64], totals: &mut [u64]) {
        assert_eq!(totals.len(), self.slots * self.total_words, "a table of this function");
        let slots = scratch.chunks(self.scratch_words).zip(totals.chunks_mut(self.total_words));
        for (from, to) in slots.filter(|(from, _)| from[0] != 0) {
            to[0] = to[0].wrapping_add(from[0]);
            for place in &self.sums {
                let low = from[place.scratch];
                let sign = (low as i64 >> 63) as u64;
                let high = if place.is_wide { from[place.scratch + 1] } else { sign };
                let (sum, carry) = to[place.total].overflowing_add(low);
                to[place.total] = sum;
                let carried = to[place.total + 1].wrapping_add(high);
                to[place.total + 1] = carried.wrapping_add(u64::from(carry));
                if place.is_nullable {
                    let (present, total) = Layout::present(place);
                    to[total] = to[total].wrapping_add(from[present]);
                }
            }
        }
    }

    /// Word of the count of values that are not NULL.
    pub(super) fn present(place: &SumPlace) -> (usize, usize) {
        (place.scratch + 1 + usize::from(place.is_wide), place.total + 2)
    }
}
