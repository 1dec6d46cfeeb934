//! Instructions that tier 0 runs when the common way does not apply.

use super::super::Inst;

/// An instruction that tier 0 runs when the common way does not apply.
#[derive(Debug)]
pub(super) struct Slow {
    /// Offset behind the call that asks for it.
    pub(super) back: u32,
    /// Instructions of the block before it.
    pub(super) before: u16,
    /// Its address.
    pub(super) pc: u64,
    /// What tier 0 has.
    pub(super) inst: Inst,
}

/// All of one arena.
#[derive(Debug, Default)]
pub(super) struct Slows {
    /// Address of the arena.
    pub(super) base: u64,
    /// By the return address of their calls.
    pub(super) list: Vec<Slow>,
}

impl Slows {
    /// The instruction whose slow way's call returns to address `back`.
    pub(super) fn find(&self, back: u64) -> &Slow {
        let offset = (back - self.base) as u32;
        let at = self.list.binary_search_by_key(&offset, |s| s.back);
        &self.list[at.expect("invariant: every slow way is listed")]
    }
}
