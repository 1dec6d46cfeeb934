//! A page's partial result.

use super::layout::Layout;

/// Counts and sums of one page, as the code leaves them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scratch {
    pub(super) words: Vec<u64>,
}

/// What a page function gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageResult {
    /// Counts and sums.
    Partial(Scratch),
    /// Records that passed, packed.
    Rows(Vec<u8>),
    /// A group is outside the table: the page goes back raw.
    Spilled,
}

impl Scratch {
    pub(super) fn new(layout: &Layout) -> Scratch {
        Scratch { words: vec![0; layout.slots * layout.scratch_words] }
    }

    /// Adds a value to sum `n` of the slot at word `slot`.
    #[inline]
    pub(super) fn add(&mut self, layout: &Layout, n: usize, slot: usize, value: i64) {
        let place = &layout.sums[n];
        let at = slot + place.scratch;
        let (low, carry) = self.words[at].overflowing_add(value as u64);
        self.words[at] = low;
        if place.is_wide {
            let high = self.words[at + 1].wrapping_add((value >> 63) as u64);
            self.words[at + 1] = high.wrapping_add(u64::from(carry));
        }
        if place.is_nullable {
            self.words[slot + Layout::present(place).0] += 1;
        }
    }

    /// Adds a page's total of values that are not NULL to sum `n` of the slot at word `slot`.
    pub(super) fn add_total(&mut self, layout: &Layout, n: usize, slot: usize, total: i128) {
        let place = &layout.sums[n];
        let at = slot + place.scratch;
        let (low, carry) = self.words[at].overflowing_add(total as u64);
        self.words[at] = low;
        if place.is_wide {
            let high = self.words[at + 1].wrapping_add((total >> 64) as u64);
            self.words[at + 1] = high.wrapping_add(u64::from(carry));
        }
    }

    /// Sum `n` of the slot at word `slot`, and how many values made it.
    pub(super) fn sum(&self, layout: &Layout, n: usize, slot: usize) -> (i128, u64) {
        let place = &layout.sums[n];
        let low = self.words[slot + place.scratch];
        let total = if place.is_wide {
            let high = self.words[slot + place.scratch + 1];
            (u128::from(high) << 64 | u128::from(low)) as i128
        } else {
            i128::from(low as i64)
        };
        let count = self.words[slot];
        let present = place.is_nullable.then(|| self.words[slot + Layout::present(place).0]);
        (total, present.unwrap_or(count))
    }
}
