//! Counting guest instructions, where each block begins.
//!
//! - Doubleword 3 of vector register [`COUNTS`] counts guest instructions, doubleword 2 the LA64
//!   instructions that count. No other code uses the register.
//! - A block counts all its instructions before the first of them. One that is left early gives
//!   back what it did not execute, by the addresses in [`Counted`].

use super::Lower;
use crate::code::{COUNTING, Counted};
use crate::x86::decode::Inst;
use crate::x86::registers::{COUNTS, LINK};
use std::sync::Arc;

impl Lower {
    /// Counts the instructions of the block at `start`.
    pub(super) fn count_instructions<'a>(
        &mut self,
        start: u64,
        instructions: impl Iterator<Item = &'a Inst>,
    ) {
        if !self.conventions.counts {
            return;
        }
        let pcs: Arc<[u64]> = instructions.map(|inst| inst.at).collect();
        let count = pcs.len() as i64;
        self.counted_already(Arc::default());
        if count > 0 {
            self.mark(start);
            let (scratch, counts) = (i64::from(LINK), COUNTS as i64);
            for (lane, number) in [(3, count), (2, COUNTING)] {
                self.op("xvpickve2gr.d", &[scratch, counts, lane]);
                self.op("addi.d", &[scratch, scratch, number]);
                self.op("xvinsgr2vr.d", &[counts, scratch, lane]);
            }
        }
        self.counted = Arc::clone(&pcs);
        self.counted_already(pcs);
    }

    /// From here on these instructions are counted.
    pub(super) fn counted_already(&mut self, pcs: Arc<[u64]>) {
        if self.conventions.counts {
            let word = self.word();
            self.region.counted.push(Counted { word, pcs });
        }
    }
}
