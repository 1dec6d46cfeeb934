//! The unchecked steps of the interpreter's hot path: register access by [`Slot`], walking from one
//! pre-decoded instruction to the next, and from one block to the next.
//!
//! - Pointers from block to block ([`Place`]) lead into blocks of one cache; it drops all of them
//!   together, and only while none runs.
//! - Blocks follow each other inside handlers only below `Chain::end`, which the dispatch loop sets
//!   for the time of one call; so the calls nest at most that far even without tail calls.
//!
//! Unsafe because bounds checks on these would cost a third of the interpreter's speed; each is
//! sound by construction of the type it takes.
#![allow(unsafe_code)]

use super::{Cpu, Exit, Inst};
use std::cell::Cell;

/// A pre-decoded instruction of some block, or none.
#[derive(Clone, Copy, Debug)]
pub struct Place(*const Inst);

// SAFETY: a place is followed only inside `Blocks::run`, by the thread that owns the cache; it is
// data when it travels with that cache.
unsafe impl Send for Place {}

impl Place {
    /// Nowhere.
    pub const NONE: Place = Place(std::ptr::null());

    fn is_none(self) -> bool {
        self.0.is_null()
    }
}

/// The first instruction of the block that follows, once known.
pub type Link = Cell<Place>;

/// An entry of the table from guest addresses to blocks.
#[derive(Clone, Copy, Debug)]
struct Jump {
    pc: u64,
    first: Place,
}

const TABLE_BITS: u32 = 14;

#[inline(always)]
fn slot_of(pc: u64) -> usize {
    (pc >> 2) as usize & ((1 << TABLE_BITS) - 1)
}

/// How far blocks may follow each other without the dispatch loop.
#[derive(Debug)]
pub(crate) struct Chain {
    /// No block is entered at or above this instruction count; 0 outside [`Blocks::run`].
    end: u64,
    /// The table of the running blocks.
    jumps: *const Jump,
    /// The instruction that left its block for one that was not linked.
    left: Place,
}

// SAFETY: the pointers are followed only inside `Blocks::run`, which sets them first.
unsafe impl Send for Chain {}

impl Default for Chain {
    fn default() -> Chain {
        Chain { end: 0, jumps: std::ptr::null(), left: Place::NONE }
    }
}

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

impl Cursor<'_> {
    /// Leaves the block for the fixed address in the immediate, `count` instructions retired.
    #[inline(always)]
    pub(crate) fn leave(self, cpu: &mut Cpu, count: u64) -> Exit {
        cpu.state.pc = self.imm as u64;
        cpu.state.instructions += count;
        let next = self.link.get();
        if cpu.state.instructions < cpu.chain.end && !next.is_none() {
            return enter(cpu, next);
        }
        cpu.chain.left = Place(self.0);
        Exit::Direct
    }

    /// Leaves the block for where `pc` points already, `count` instructions retired.
    #[inline(always)]
    pub(crate) fn leave_indirect(self, cpu: &mut Cpu, count: u64) -> Exit {
        cpu.state.instructions += count;
        if cpu.state.instructions < cpu.chain.end {
            // SAFETY: below the end a `Blocks::run` is under way, whose table this is; the index is
            // masked to its length.
            let jump = unsafe { *cpu.chain.jumps.add(slot_of(cpu.state.pc)) };
            if jump.pc == cpu.state.pc && !jump.first.is_none() {
                return enter(cpu, jump.first);
            }
        }
        Exit::Indirect
    }
}

/// Executes the block that begins at `next`.
#[inline(always)]
fn enter(cpu: &mut Cpu, next: Place) -> Exit {
    // SAFETY: not null, and the first instruction of a block of the running cache, which drops no
    // block while one runs.
    let next = unsafe { &*next.0 };
    (next.handler)(cpu, Cursor(next))
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

    /// Executes this block and no other.
    pub(crate) fn run_alone(&self, cpu: &mut Cpu) -> Exit {
        cpu.chain = Chain::default();
        let first = &self.0[0];
        (first.handler)(cpu, Cursor(first))
    }

    /// Guest instructions in the block.
    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64 - 1
    }
}

/// The blocks of one cache, and how they follow each other.
#[derive(Debug)]
pub(crate) struct Blocks {
    codes: Vec<Code>,
    /// Blocks by address, direct-mapped: the latest of each place.
    jumps: Box<[Jump]>,
    /// The instruction by which the latest run left its last block, if it is not linked.
    left: Place,
}

impl Default for Blocks {
    fn default() -> Blocks {
        let none = Jump { pc: 0, first: Place::NONE };
        Blocks { codes: Vec::new(), jumps: vec![none; 1 << TABLE_BITS].into(), left: Place::NONE }
    }
}

impl Blocks {
    /// Drops every block with all that points to one.
    pub(crate) fn clear(&mut self) {
        self.left = Place::NONE;
        self.jumps.fill(Jump { pc: 0, first: Place::NONE });
        self.codes.clear();
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.codes.len()
    }

    /// Adds a block: its number.
    pub(crate) fn push(&mut self, code: Code) -> u32 {
        self.codes.push(code);
        self.codes.len() as u32 - 1
    }

    /// Guest instructions in block `at`.
    pub(crate) fn len(&self, at: u32) -> u64 {
        self.codes[at as usize].len()
    }

    /// Lets indirect branches to `pc` find block `at`.
    pub(crate) fn remember(&mut self, pc: u64, at: u32) {
        let first = Place(&raw const self.codes[at as usize].0[0]);
        self.jumps[slot_of(pc)] = Jump { pc, first };
    }

    /// Executes block `at`, and those that follow while the count is below `end`.
    pub(crate) fn run(&mut self, at: u32, cpu: &mut Cpu, end: u64) -> Exit {
        cpu.chain = Chain { end, jumps: self.jumps.as_ptr(), left: Place::NONE };
        let first = &self.codes[at as usize].0[0];
        let exit = (first.handler)(cpu, Cursor(first));
        self.left = std::mem::take(&mut cpu.chain).left;
        exit
    }

    /// Lets the place that the latest run left lead to block `at` from now on.
    pub(crate) fn link(&mut self, at: u32) {
        let to = Place(&raw const self.codes[at as usize].0[0]);
        // SAFETY: null, or an instruction of a block in `codes`: `run` sets it, `clear` resets it.
        if let Some(left) = unsafe { std::mem::replace(&mut self.left, Place::NONE).0.as_ref() } {
            left.link.set(to);
        }
    }
}
