//! The two unchecked steps of the interpreter's hot path: register access by [`Slot`] and walking
//! from one pre-decoded instruction to the next.
//!
//! Unsafe because bounds checks on both would cost a third of the interpreter's speed; each is
//! sound by construction of the type it takes.
#![allow(unsafe_code)]

use super::{Cpu, Exit, Inst};

/// A register number below 33, the only kind [`Cpu::x`] and [`Cpu::set_x`] accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u8);

impl Slot {
    /// The slot of a register number; 32 is the sink.
    pub const fn new(n: u8) -> Slot {
        assert!(n < 33, "a general register or the sink");
        Slot(n)
    }

    /// The register number.
    pub const fn number(self) -> usize {
        self.0 as usize
    }
}

impl Cpu {
    /// General register `slot`.
    #[inline(always)]
    pub(crate) fn x(&self, slot: Slot) -> u64 {
        // SAFETY: `Slot::new` admits 0 to 32 only, and `x` has 33 elements.
        unsafe { *self.state.x.get_unchecked(slot.0 as usize) }
    }

    /// Writes general register `slot`.
    #[inline(always)]
    pub(crate) fn set_x(&mut self, slot: Slot, value: u64) {
        // SAFETY: as `x`.
        unsafe { *self.state.x.get_unchecked_mut(slot.0 as usize) = value };
    }
}

/// A place in a [`Code`], from which the next instruction can be reached.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Cursor<'a>(&'a Inst);

impl std::ops::Deref for Cursor<'_> {
    type Target = Inst;
    #[inline(always)]
    fn deref(&self) -> &Inst {
        self.0
    }
}

impl Cursor<'_> {
    /// Executes the rest of the block. Handlers tail-call this, so a block of n instructions nests
    /// at most n calls even where the compiler does not turn them into jumps.
    ///
    /// Only the handler of the sentinel does not call this, and `Code::new` puts one last.
    #[inline(always)]
    pub(crate) fn chain(self, cpu: &mut Cpu) -> Exit {
        // SAFETY: a cursor exists only on elements of a `Code`; the running instruction is not its
        // last one, because the last one's handler (`end_of_block`) never chains.
        let next = unsafe { &*std::ptr::from_ref(self.0).add(1) };
        (next.handler)(cpu, Cursor(next))
    }
}

/// A non-empty run of instructions that ends with the sentinel.
#[derive(Debug)]
pub(crate) struct Code(Box<[Inst]>);

impl Code {
    /// The instructions with the sentinel behind them, which continues at `next_pc`.
    pub(crate) fn new(mut instructions: Vec<Inst>, next_pc: u64) -> Code {
        instructions.push(Inst::sentinel(next_pc, instructions.len() as u16));
        Code(instructions.into_boxed_slice())
    }

    /// Executes from the first instruction to the block's exit.
    #[inline(always)]
    pub(crate) fn run(&self, cpu: &mut Cpu) -> Exit {
        let first = &self.0[0];
        (first.handler)(cpu, Cursor(first))
    }

    /// Guest instructions in the block.
    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64 - 1
    }
}
