//! The merge: adds a page's scratch to the totals and leaves the scratch zero.
//!
//! Its cost depends on the slots that the page used and on nothing in the totals.

use super::{Emitter, PAGE, PARAMS, TEMPS};
use crate::function::ir::Output;
use crate::function::layout::Layout;

impl Emitter<'_> {
    /// The blocks of the merge: once, per slot, per slot in use; `None` for rows, which are
    /// appended.
    pub(super) fn merge_function(&mut self, layout: &Layout) -> Option<[usize; 3]> {
        if matches!(self.function.output, Output::Rows(_)) {
            return None;
        }
        let (scratch, totals) = (PARAMS, PAGE);
        let [count, left, t, low, high, scratch_step, total_step] = TEMPS;
        let once = self.block();
        self.li(left, layout.slots as i64);
        self.li(scratch_step, 8 * layout.scratch_words as i64);
        self.li(total_step, 8 * layout.total_words as i64);
        let (again, skip) = (self.asm.here(), self.asm.label());
        let slot = self.block();
        self.imm("ld.d", count, scratch, 0);
        self.branch("beqz", &[count], skip);
        let used = self.block();
        self.merge_word(count, scratch, 0, totals, 0, t);
        for place in &layout.sums {
            let (from, to) = (8 * place.scratch as i64, 8 * place.total as i64);
            self.imm("ld.d", low, scratch, from);
            self.imm("st.d", 0, scratch, from);
            if place.is_wide {
                self.imm("ld.d", high, scratch, from + 8);
                self.imm("st.d", 0, scratch, from + 8);
            } else {
                self.imm("srai.d", high, low, 63);
            }
            self.imm("ld.d", t, totals, to);
            self.reg("add.d", [t, t, low]);
            self.imm("st.d", t, totals, to);
            self.reg("sltu", [t, t, low]);
            self.reg("add.d", [high, high, t]);
            self.imm("ld.d", t, totals, to + 8);
            self.reg("add.d", [t, t, high]);
            self.imm("st.d", t, totals, to + 8);
            if place.is_nullable {
                let (from, to) = Layout::present(place);
                self.imm("ld.d", low, scratch, 8 * from as i64);
                self.merge_word(low, scratch, from, totals, to, t);
            }
        }
        self.asm.bind(skip);
        // The step to the next slot is part of `slot`: every slot makes it.
        let step = self.block();
        self.reg("add.d", [scratch, scratch, scratch_step]);
        self.reg("add.d", [totals, totals, total_step]);
        self.imm("addi.d", left, left, -1);
        self.branch("bnez", &[left], again);
        self.costs[slot] += std::mem::take(&mut self.costs[step]);
        let end = self.block();
        self.ret();
        self.costs[once] += std::mem::take(&mut self.costs[end]);
        Some([once, slot, used])
    }

    /// Adds the word in `value`, which came from the scratch, to one of the totals.
    fn merge_word(&mut self, value: u8, scratch: u8, from: usize, totals: u8, to: usize, t: u8) {
        self.imm("st.d", 0, scratch, 8 * from as i64);
        self.imm("ld.d", t, totals, 8 * to as i64);
        self.reg("add.d", [t, t, value]);
        self.imm("st.d", t, totals, 8 * to as i64);
    }
}
