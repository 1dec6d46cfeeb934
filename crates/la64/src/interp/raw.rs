//! The unchecked steps of the interpreter's hot path: register access by [`Slot`], walking from one
//! pre-decoded instruction to the next, and from one block to the next.
//!
//! - Pointers from block to block ([`Place`]) lead into blocks of one cache; it drops all of them
//!   together, and only while none runs.
//! - Blocks follow each other inside handlers only while `Chain::left` is not negative; the
//!   dispatch loop sets it for the time of one call, so the calls nest at most that far even
//!   without tail calls.
//! - A block's array is: check (only in memory that was ever writable), header, instructions,
//!   sentinel, one stub for each exit to a fixed address. Instruction `n` has `count` n + 1, so the
//!   header stands `count` places before it.
//! - The link of a check bears the epoch in which the block was compared last, 0 once it is stale;
//!   the link of its header then leads to the check of the block that took its place, if any.
//!
//! Unsafe because bounds checks on these would cost a third of the interpreter's speed; each is
//! sound by construction of the type it takes.
#![allow(unsafe_code)]

use super::{Cpu, Exit, Inst};
use crate::memory::raw::Extend;
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

    /// A number in the place of a place; never followed.
    fn stamp(epoch: u64) -> Place {
        Place(std::ptr::without_provenance(epoch as usize))
    }

    fn epoch(self) -> u64 {
        self.0.addr() as u64
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
    /// Instructions to retire before the dispatch loop, less one; negative outside
    /// [`Blocks::run`].
    left: i64,
    /// The table of the running blocks.
    jumps: *const Jump,
    /// The instruction that left its block for one that was not linked.
    exit: Place,
}

// SAFETY: the pointers are followed only inside `Blocks::run`, which sets them first.
unsafe impl Send for Chain {}

impl Default for Chain {
    fn default() -> Chain {
        Chain { left: -1, jumps: std::ptr::null(), exit: Place::NONE }
    }
}

impl Chain {
    /// Accounts for instructions; true if another block may follow.
    #[inline(always)]
    fn spend(&mut self, count: u16) -> bool {
        self.left -= i64::from(count);
        self.left >= 0
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

    /// Loads into general register `slot` from an address that is near; false if the host refuses.
    #[inline(always)]
    pub(crate) fn load_x<T: Extend>(&mut self, slot: Slot, at: u64) -> bool {
        assert!(self.window.is_near(at));
        let n = slot.number();
        // SAFETY: near; `Slot::new` admits 0 to 32 only, and `x` has 33 elements.
        unsafe { self.window.load_near::<T>(at, self.state.x.as_mut_ptr(), n) }
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

impl<'a> Cursor<'a> {
    /// The instruction behind this one, or the sentinel.
    ///
    /// Only for instructions: `Code::new` puts the sentinel behind them, whose handler does not
    /// call this.
    #[inline(always)]
    pub(crate) fn next(self) -> Cursor<'a> {
        // SAFETY: a cursor that runs an operation stands on an instruction of a `Code`, so one more
        // element follows.
        Cursor(unsafe { &*std::ptr::from_ref(self.0).add(1) })
    }

    /// Executes the rest of the block. Handlers tail-call this, so a block of n instructions nests
    /// at most n calls even where the compiler does not turn them into jumps.
    #[inline(always)]
    pub(crate) fn chain(self, cpu: &mut Cpu) -> Exit {
        let next = self.next();
        (next.handler)(cpu, next)
    }

    /// The address of the running instruction.
    pub(crate) fn pc(self) -> u64 {
        // SAFETY: the header stands `count` places before an instruction, in the same array.
        let header = unsafe { &*std::ptr::from_ref(self.0).sub(self.count.into()) };
        header.imm as u64 + 4 * u64::from(self.count - 1)
    }

    /// The address behind the running instruction, which is the last of its block.
    #[inline(always)]
    pub(crate) fn pc_behind_block(self) -> u64 {
        self.next().imm as u64
    }

    /// Leaves the block for the fixed address in the immediate, `count` instructions retired.
    #[inline(always)]
    pub(crate) fn leave(self, cpu: &mut Cpu) -> Exit {
        if cpu.chain.spend(self.count) { enter(cpu, self.link.get()) } else { self.pause(cpu) }
    }

    /// Returns to the dispatch loop instead of entering the block that follows.
    #[cold]
    fn pause(self, cpu: &mut Cpu) -> Exit {
        cpu.state.pc = self.imm as u64;
        cpu.chain.exit = Place(self.0);
        Exit::Direct
    }

    /// Leaves the block for `target`, `count` instructions retired.
    #[inline(always)]
    pub(crate) fn leave_for(self, cpu: &mut Cpu, target: u64) -> Exit {
        if cpu.chain.spend(self.count) {
            // SAFETY: not spent, so a `Blocks::run` is under way, whose table this is; the index is
            // masked to its length.
            let jump = unsafe { &*cpu.chain.jumps.add(slot_of(target)) };
            if jump.pc == target {
                return enter(cpu, jump.first);
            }
        }
        cpu.state.pc = target;
        Exit::Indirect
    }

    /// Ends the block before this instruction, or behind it if it is `retired`.
    pub(super) fn stop(self, cpu: &mut Cpu, retired: bool) -> Exit {
        let unretired = u16::from(!retired);
        cpu.state.pc = self.pc() + 4 * u64::from(retired);
        let _ = cpu.chain.spend(self.count - unretired);
        Exit::Trap
    }
}

/// What an exit to a fixed address leads to until that block is linked: says so to the dispatch
/// loop. A stub's link is the exit it belongs to.
fn unlinked(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.state.pc = i.imm as u64;
    cpu.chain.exit = i.link.get();
    Exit::Direct
}

/// Executes the block that begins at `next`.
#[inline(always)]
fn enter(cpu: &mut Cpu, next: Place) -> Exit {
    // SAFETY: the first instruction of a block of the running cache, or a stub of the running
    // block: `Code::new` sets every exit's link, and the cache drops no block while one runs.
    let next = unsafe { &*next.0 };
    (next.handler)(cpu, Cursor(next))
}

/// The first element of a block in memory that was ever writable: goes on if the block was compared
/// with memory in this epoch.
fn check(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    if i.link.get().epoch() != cpu.epoch.now() {
        return stale(cpu, i);
    }
    // SAFETY: a check is followed by a header and at least one instruction.
    let first = unsafe { &*std::ptr::from_ref(i.0).add(2) };
    (first.handler)(cpu, Cursor(first))
}

/// Goes on to the latest successor of a block, or to the dispatch loop to have it compared.
#[cold]
fn stale(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    // SAFETY: a check is followed by its header, whose link leads to another check of the running
    // cache, which drops no block while one runs.
    let header = |check: &Inst| unsafe { &*std::ptr::from_ref(check).add(1) };
    let mut last = i.0;
    // SAFETY: as above.
    while let Some(next) = unsafe { header(last).link.get().0.as_ref() } {
        last = next;
    }
    if std::ptr::eq(last, i.0) {
        cpu.state.pc = i.imm as u64;
        return Exit::Indirect;
    }
    header(i.0).link.set(Place(last));
    enter(cpu, Place(last))
}

/// A non-empty run of instructions with header, sentinel and stubs.
#[derive(Debug)]
pub(crate) struct Code {
    array: Box<[Inst]>,
    /// Guest instructions.
    len: u64,
    /// The instructions' words, if they are to be compared with memory.
    words: Box<[u32]>,
}

impl Code {
    /// The instructions from `pc` on; `exits` are those that may leave for the address in their
    /// immediate. What the sentinel does too.
    pub(crate) fn new(pc: u64, instructions: Vec<Inst>, exits: &[u16]) -> Code {
        Code::build(pc, instructions, exits, None)
    }

    /// As [`Code::new`], of these words, which are to be compared with memory in every epoch but
    /// the given one.
    pub(crate) fn checked(
        pc: u64,
        instructions: Vec<Inst>,
        exits: &[u16],
        (epoch, words): (u64, Vec<u32>),
    ) -> Code {
        assert_eq!(words.len(), instructions.len(), "a word an instruction");
        let mut code = Code::build(pc, instructions, exits, Some(Place::stamp(epoch)));
        code.words = words.into();
        code
    }

    fn build(pc: u64, instructions: Vec<Inst>, exits: &[u16], stamp: Option<Place>) -> Code {
        let count = instructions.len();
        assert!(count > 0 && count < usize::from(u16::MAX), "a block has instructions");
        let sentinel = Inst::sentinel(pc + 4 * count as u64, count as u16);
        let mut array: Vec<Inst> = Vec::with_capacity(count + exits.len() + 4);
        if let Some(stamp) = stamp {
            array.push(Inst::stub(pc as i64, check));
            array[0].link.set(stamp);
        }
        let header = array.len();
        array.push(Inst::header(pc));
        array.extend(instructions);
        array.push(sentinel);
        let sentinel = header + count + 1;
        let exits = || exits.iter().map(|&n| header + usize::from(n) + 1).chain([sentinel]);
        for at in exits() {
            assert!((header + 1..=sentinel).contains(&at), "an exit is code or the sentinel");
            array.push(Inst::stub(array[at].imm, unlinked));
        }
        let array = array.into_boxed_slice();
        for (n, at) in exits().enumerate() {
            let (exit, stub) = (&array[at], &array[sentinel + 1 + n]);
            exit.link.set(Place(stub));
            stub.link.set(Place(exit));
        }
        Code { array, len: count as u64, words: Box::default() }
    }

    /// Where other blocks enter this one.
    fn entry(&self) -> &Inst {
        if self.words.is_empty() { self.first() } else { &self.array[0] }
    }

    /// The first instruction.
    fn first(&self) -> &Inst {
        &self.array[if self.words.is_empty() { 1 } else { 2 }]
    }

    /// The words to compare with memory; none in memory that never was writable.
    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }

    /// The address of the first instruction.
    pub(crate) fn pc(&self) -> u64 {
        Cursor(self.first()).pc()
    }

    /// The epoch in which the words were compared last; `None` if they need not be.
    pub(crate) fn epoch(&self) -> Option<u64> {
        (!self.words.is_empty()).then(|| self.array[0].link.get().epoch())
    }

    /// Says that the words were found in memory in this epoch.
    pub(crate) fn set_epoch(&self, epoch: u64) {
        assert!(!self.words.is_empty(), "only blocks with words are compared");
        self.array[0].link.set(Place::stamp(epoch));
    }

    /// Executes this block and no other.
    pub(crate) fn run_alone(&self, cpu: &mut Cpu) -> Exit {
        run(self.first(), cpu, Chain::default()).0
    }

    /// Guest instructions in the block.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

/// Executes from `first` on and accounts for what retired; the exit taken is in the chain.
fn run(first: &Inst, cpu: &mut Cpu, chain: Chain) -> (Exit, Chain) {
    let before = chain.left;
    cpu.chain = chain;
    let exit = (first.handler)(cpu, Cursor(first));
    let chain = std::mem::take(&mut cpu.chain);
    cpu.state.instructions += (before - chain.left) as u64;
    (exit, chain)
}

/// One instruction that runs alone, wherever it comes from.
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Alone([Inst; 3]);

#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
impl Alone {
    /// The instruction at `pc`, with `before` ones of its block before it.
    pub(crate) fn new(pc: u64, inst: Inst, before: u16) -> Alone {
        let mut header = Inst::header(pc);
        header.count = before;
        let end = Inst::special(|_, _| Exit::Direct, 0, 1);
        Alone([header, Inst { count: 1, ..inst }, end])
    }

    /// Where it is, for generated code.
    pub(crate) fn address(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }

    /// Its guest address.
    pub(crate) fn pc(&self) -> u64 {
        self.0[0].imm as u64
    }

    /// Instructions of its block before it.
    pub(crate) fn before(&self) -> u64 {
        self.0[0].count.into()
    }

    /// Executes it: `Exit::Direct` if the next one follows. Otherwise `pc` is set. With the exit
    /// comes how many instructions of the block have retired.
    pub(crate) fn run(&self, cpu: &mut Cpu) -> (Exit, u64) {
        cpu.chain = Chain::default();
        let exit = (self.0[1].handler)(cpu, Cursor(&self.0[1]));
        let retired = (Chain::default().left - std::mem::take(&mut cpu.chain).left) as u64;
        (exit, self.before() + retired)
    }
}

/// The blocks of one cache, and how they follow each other.
#[derive(Debug)]
pub(crate) struct Blocks {
    codes: Vec<Code>,
    /// Blocks by address, direct-mapped: the latest of each place.
    jumps: Box<[Jump]>,
    /// The instruction by which the latest run left its last block, if it is not linked.
    exit: Place,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { codes: Vec::new(), jumps: empty_table(), exit: Place::NONE }
    }
}

/// A table in which no address finds anything: each entry holds an address of another's place.
fn empty_table() -> Box<[Jump]> {
    let entry = |n: u64| Jump { pc: if n == 0 { 4 } else { 0 }, first: Place::NONE };
    (0..1 << TABLE_BITS).map(entry).collect()
}

impl Blocks {
    /// Drops every block with all that points to one.
    pub(crate) fn clear(&mut self) {
        self.exit = Place::NONE;
        self.jumps = empty_table();
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

    /// Block `at`.
    pub(crate) fn get(&self, at: u32) -> &Code {
        &self.codes[at as usize]
    }

    /// Lets whatever enters the stale block `old` enter `new` instead.
    pub(crate) fn forward(&mut self, old: u32, new: u32) {
        let (old, new) = (self.get(old), self.get(new));
        old.set_epoch(0);
        // Memory that is not compared any more has no check to lead to: the dispatch loop does.
        if !new.words.is_empty() {
            old.array[1].link.set(Place(new.entry()));
        }
    }

    /// Lets indirect branches to `pc` find block `at`.
    pub(crate) fn remember(&mut self, pc: u64, at: u32) {
        let first = Place(self.codes[at as usize].entry());
        self.jumps[slot_of(pc)] = Jump { pc, first };
    }

    /// Executes block `at`, which is current, and those that follow while fewer than `slice`
    /// instructions retired.
    pub(crate) fn run(&mut self, at: u32, cpu: &mut Cpu, slice: u64) -> Exit {
        let left = slice as i64 - 1;
        let chain = Chain { left, jumps: self.jumps.as_ptr(), exit: Place::NONE };
        let (exit, chain) = run(self.codes[at as usize].first(), cpu, chain);
        self.exit = chain.exit;
        exit
    }

    /// Lets the place that the latest run left lead to block `at` from now on.
    pub(crate) fn link(&mut self, at: u32) {
        let to = Place(self.codes[at as usize].entry());
        // SAFETY: null, or an instruction of a block in `codes`: `run` sets it, `clear` resets it.
        if let Some(exit) = unsafe { std::mem::replace(&mut self.exit, Place::NONE).0.as_ref() } {
            exit.link.set(to);
        }
    }
}
