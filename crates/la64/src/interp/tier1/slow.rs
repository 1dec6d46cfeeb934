//! Instructions that tier 0 runs when the common way does not apply.

use super::super::{Cpu, Inst};
use crate::shared::List;

/// Decodes the word at an address for tier 0.
pub(in super::super) type Decode = fn(&Cpu, u32, u64) -> Inst;

/// An instruction that tier 0 runs when the common way does not apply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slow {
    /// Its address.
    pub(super) pc: u64,
    /// Offset behind the call that asks for it.
    pub(super) back: u32,
    /// Itself.
    pub(super) word: u32,
    /// Instructions of the block before it.
    pub(super) before: u16,
}

/// All of one arena.
#[derive(Debug)]
pub(super) struct Slows {
    /// Address of the arena.
    pub(super) base: u64,
    pub(super) decode: Decode,
    /// By the return address of their calls.
    pub(super) list: List<Slow>,
}

impl Slows {
    /// The instruction whose slow way's call returns to address `back`.
    pub(super) fn find(&self, back: u64) -> Slow {
        let offset = (back - self.base) as u32;
        self.list.find(offset, |s| s.back).expect("invariant: every slow way is listed")
    }
}
