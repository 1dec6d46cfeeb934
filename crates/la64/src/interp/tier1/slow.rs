//! Instructions that tier 0 runs when the common way does not apply.

use super::super::{Cpu, Inst};

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
