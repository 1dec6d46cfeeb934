//! The unchecked steps of the interpreter's hot path: register access by [`Slot`], walking from one
//! pre-decoded instruction to the next, and from one block to the next.
//!
//! - Pointers from block to block ([`Place`]) lead into blocks of one generation of code, which
//!   lives while a thread runs any of them. Threads share the blocks and set links at any time.
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

use super::jumps::{self, Jumps};
use super::{Cpu, Exit, Inst};
use crate::memory::raw::Extend;
use crate::shared::{Index, Keyed};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A pre-decoded instruction of some block, or none.
#[derive(Clone, Copy, Debug)]
pub struct Place(*const Inst);

// SAFETY: a place is followed only inside `Blocks::run`, while the generation of its block lives;
// it is data when it travels.
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

    /// As a number, for a table of jumps.
    fn number(self) -> u64 {
        self.0.expose_provenance() as u64
    }

    /// What `number` made.
    #[inline(always)]
    fn of_number(number: u64) -> Place {
        Place(std::ptr::with_exposed_provenance(number as usize))
    }
}

/// The first instruction of the block that follows, once known; threads set it at any time.
#[derive(Debug)]
pub struct Link(AtomicPtr<Inst>);

impl Link {
    /// A link to a place.
    pub const fn new(place: Place) -> Link {
        Link(AtomicPtr::new(place.0.cast_mut()))
    }

    /// Where it leads.
    #[inline(always)]
    pub(crate) fn get(&self) -> Place {
        Place(self.0.load(Ordering::Acquire))
    }

    /// Lets it lead to a place.
    pub(crate) fn set(&self, place: Place) {
        self.0.store(place.0.cast_mut(), Ordering::Release);
    }
}

impl Clone for Link {
    fn clone(&self) -> Link {
        Link::new(self.get())
    }
}

/// How far blocks may follow each other without the dispatch loop.
#[derive(Debug)]
pub(crate) struct Chain {
    /// Instructions to retire before the dispatch loop, less one; negative outside
    /// [`Blocks::run`].
    left: i64,
    /// The table of the running blocks.
    jumps: *const [u64; 2],
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
            let jump = unsafe { &*cpu.chain.jumps.add(jumps::place(target)) };
            if jump[0] == target {
                return enter(cpu, Place::of_number(jump[1]));
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
    // SAFETY: the first instruction of a block of the running generation, or a stub of the running
    // block: `Code::new` sets every exit's link, and a generation keeps its blocks to its end.
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
    // generation, which keeps its blocks to its end.
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

impl Keyed for Code {
    fn key(&self) -> u64 {
        self.pc()
    }
}

/// The blocks of one generation of code, and how they follow each other.
#[derive(Debug, Default)]
pub(crate) struct Blocks(Index<Code>);

/// The instruction by which a run left its last block for one that is not linked, if any.
pub(crate) struct Left<'g>(Option<&'g Inst>);

impl Left<'_> {
    /// Lets that instruction lead to a block of the same generation from now on.
    pub(crate) fn link(self, to: &Code) {
        if let Some(exit) = self.0 {
            exit.link.set(Place(to.entry()));
        }
    }
}

impl Blocks {
    /// Addresses with a block, and blocks in all.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.0.counts()
    }

    /// The latest block at `pc`.
    pub(crate) fn find(&self, pc: u64) -> Option<&Code> {
        self.0.find(pc)
    }

    /// Adds a block. Whatever enters the stale block in whose place it comes enters it instead.
    pub(crate) fn insert(&self, code: Code) -> &Code {
        let (new, old) = self.0.insert(code);
        if let Some(old) = old.filter(|old| !old.words.is_empty()) {
            old.set_epoch(0);
            // Memory that is not compared any more has no check to lead to: the dispatch loop does.
            if !new.words.is_empty() {
                old.array[1].link.set(Place(new.entry()));
            }
        }
        new
    }

    /// Executes a block of these, which is current, and those that follow while fewer than `slice`
    /// instructions retired.
    pub(super) fn run<'g>(
        &'g self,
        code: &'g Code,
        cpu: &mut Cpu,
        jumps: &Jumps,
        slice: u64,
    ) -> (Exit, Left<'g>) {
        let left = slice as i64 - 1;
        let chain = Chain { left, jumps: jumps.address(), exit: Place::NONE };
        let (exit, chain) = run(code.first(), cpu, chain);
        // SAFETY: null, or an instruction of a block of these, which live as long as `self`.
        (exit, Left(unsafe { chain.exit.0.as_ref() }))
    }
}

/// Lets indirect branches to `pc` find a block.
pub(super) fn remember(jumps: &mut Jumps, pc: u64, code: &Code) {
    jumps.set(pc, Place(code.entry()).number());
}

/// Values that are computed once per number and live to the end of the process. A fork finds each
/// of them made or not begun, whatever other threads do.
pub(crate) struct Memo<T: 'static, const N: usize>([AtomicPtr<T>; N]);

impl<T, const N: usize> Memo<T, N> {
    /// No values.
    pub(crate) const fn new() -> Memo<T, N> {
        Memo([const { AtomicPtr::new(std::ptr::null_mut()) }; N])
    }

    /// The value of number `n`, made if there is none.
    pub(crate) fn get(&self, n: usize, make: impl FnOnce() -> Option<T>) -> Option<&'static T> {
        let found = self.0[n].load(Ordering::Acquire);
        // SAFETY: null, or a value that was leaked below.
        if let Some(value) = unsafe { found.as_ref() } {
            return Some(value);
        }
        let made: &'static T = Box::leak(Box::new(make()?));
        self.0[n].store(std::ptr::from_ref(made).cast_mut(), Ordering::Release);
        Some(made)
    }
}
