//! A device core: LoongArch code beside modelled storage, in bounded memory, without system calls,
//! with an exact instruction count and a budget.
//!
//! Invariants
//! - The code reaches its own memory only, and stores only to pages that a writable segment, the
//!   heap or the stack has; everything else is a [`Trap`] at the exact instruction. Checked by
//!   `code_cannot_leave_its_memory`, `code_and_constants_cannot_be_stored_to`,
//!   `jumps_into_nowhere_trap_where_they_land`.
//! - Every run begins with the memory that the program's file and the owner's [`Core::write`] made:
//!   what an earlier run stored is undone, so a result depends on nothing but the arguments and
//!   that memory. Checked by `a_run_begins_with_the_memory_of_the_file`,
//!   `code_that_changes_itself_starts_again_as_it_was`.
//! - A run retires at most its budget, to the instruction; it can be continued. Checked by
//!   `every_budget_stops_at_its_instruction_and_resumes`.
//! - Runs are deterministic: the stable counter reads zero, nothing of the host is visible. Checked
//!   by `instructions_are_counted_exactly_and_reproducibly`.
//!
//! Lifecycle: [`Core::load`], then any number of [`Core::run`]. After a run [`Core::read`] shows
//! what it stored; the next `write` or `run` undoes it first. [`Core::resume`] continues after
//! `OutOfBudget`, and after a system call that the owner has served ([`Core::state_mut`],
//! [`Core::store`]).

use crate::elf::relocate::{Relative, relatives};
use crate::elf::symbols::symbols;
use crate::elf::{self, Elf, Segment};
use crate::error::{Error, Kind, Result};
use crate::interp::{Cache, Cpu, Features, Fetch, Text, Tier, Trap};
use crate::memory::Memory;
use crate::state::State;
use littoral_base::mutant;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// Where a position-independent program is loaded.
const BIAS: u64 = 0x1_0000;
/// The return address of the entry function: returning to it ends the run.
const RETURN: u64 = u64::MAX - 3;
/// Most segments of a program, whose pages are looked up among all of them. Linkers make fewer than
/// ten.
const SEGMENTS_MAX: usize = 64;
/// Lowest address given to the program: address 0 stays a fault for code.
const PAGE: u64 = 4096;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The entry function returned this value.
    Done(u64),
    /// The code did what it may not.
    Trap {
        /// What it did.
        trap: Trap,
        /// At which address.
        pc: u64,
    },
    /// The budget is used up; [`Core::resume`] continues.
    OutOfBudget,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// Instructions this call retired.
    pub instructions: u64,
}

/// Address ranges that may be executed.
#[derive(Debug)]
struct Executable(Vec<Range>);

/// A range of addresses, and whether the program may write there.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    written: bool,
}

impl Executable {
    fn overlaps(&self, start: u64, len: u64) -> bool {
        self.0.iter().any(|r| start < r.end && r.start < start.saturating_add(len))
    }
}

impl Fetch for Executable {
    fn text(&self, pc: u64) -> Option<Text> {
        let range = self.0.iter().find(|r| r.start <= pc && pc < r.end)?;
        Some(Text { end: range.end, written: range.written })
    }
}

/// A core with a program.
#[derive(Debug)]
pub struct Core {
    cpu: Cpu,
    cache: Cache,
    code: Executable,
    entry: u64,
    heap: u64,
    symbols: BTreeMap<String, u64>,
    /// Whether memory shows the stores of a run.
    ran: bool,
    /// Behind the window of `cpu`, which it outlives.
    memory: Memory,
}

impl Core {
    /// Loads a program into `memory_len` bytes of memory of its own.
    ///
    /// # Errors
    /// [`Kind::BadElf`] for a file that is no LoongArch ELF, [`Kind::Memory`] for one that needs an
    /// interpreter, has more than 64 segments or does not fit.
    ///
    /// ```
    /// use littoral_la64::{device::{Core, End}, elf, isa};
    /// // add.d $a0, $a0, $a1; jirl $zero, $ra, 0
    /// let add = isa::encode(isa::find("add.d").unwrap(), &[4, 4, 5]).unwrap();
    /// let ret = isa::encode(isa::find("jirl").unwrap(), &[0, 1, 0]).unwrap();
    /// let mut core = Core::load(&elf::executable(0x10000, &[add, ret]), 1 << 20)?;
    /// let outcome = core.run(core.entry(), &[40, 2], 1000);
    /// assert_eq!((outcome.end, outcome.instructions), (End::Done(42), 2));
    /// # Ok::<(), littoral_la64::error::Error>(())
    /// ```
    pub fn load(file: &[u8], memory_len: u64) -> Result<Core> {
        Core::load_for(file, memory_len, Features::ALL)
    }

    /// As [`Core::load`], on a core that announces `features`: other instructions are illegal.
    ///
    /// # Errors
    /// As [`Core::load`].
    pub fn load_for(file: &[u8], memory_len: u64, features: Features) -> Result<Core> {
        let program = elf::parse(file)?;
        if let Some(name) = &program.interpreter {
            let what = format!("the program asks for interpreter {name}; link it statically");
            return Err(Error::new(Kind::Memory, what));
        }
        let segments = program.segments.len();
        if segments > SEGMENTS_MAX && !mutant!("la64_segments_without_bound") {
            let what = format!("{segments} segments to load: a core takes {SEGMENTS_MAX}");
            return Err(Error::new(Kind::Memory, what));
        }
        let bias = if program.position_independent { BIAS } else { 0 };
        let (relative, symbols) = (relatives(file, &program)?, symbols(file)?);
        let memory = Memory::guarded(memory_len, |first, last| {
            first >= PAGE && writable(&program.segments, bias, first, last)
        });
        let cpu = Cpu::new(memory.window(), features);
        let code = place(&program, bias, file, &cpu, memory_len)?;
        relocate(&relative, bias, &cpu)?;
        let last = program.segments.iter().map(|s| s.address + s.memory_len).max().unwrap_or(0);
        Ok(Core {
            cpu,
            cache: Cache::new(Tier::Blocks),
            code,
            entry: program.entry.wrapping_add(bias),
            heap: (last + bias).next_multiple_of(PAGE),
            symbols: symbols.into_iter().map(|(n, at)| (n, at.wrapping_add(bias))).collect(),
            ran: false,
            memory,
        })
    }

    /// The program's entry address.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// The first page behind the program, free for the owner's buffers; the stack grows down from
    /// the end of memory.
    pub fn heap(&self) -> u64 {
        self.heap
    }

    /// The address of a function or object by its name in the program's symbol table; `None` if
    /// there is none of this name, as in a stripped program.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        self.symbols.get(name).copied()
    }

    /// Names and addresses of the program's functions and objects, by name.
    pub fn symbols(&self) -> impl Iterator<Item = (&str, u64)> {
        self.symbols.iter().map(|(name, &at)| (name.as_str(), at))
    }

    /// Registers, for inspection.
    pub fn state(&self) -> &State {
        &self.cpu.state
    }

    /// Registers, for an owner who answers a system call before [`Core::resume`].
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.cpu.state
    }

    /// Copies bytes out of the core's memory; `None` if they are not all inside.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        self.memory.window().read(address, bytes)
    }

    /// Copies bytes into the core's memory, where every later run finds them; `None`, and nothing
    /// is copied, if they do not fit. Undoes what the latest run stored. Code may be replaced too.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        self.memory.window().host(address, bytes.len() as u64)?;
        self.undo();
        if self.code.overlaps(address, bytes.len() as u64) {
            self.cache.clear();
        }
        self.memory.window().write(address, bytes)
    }

    /// Copies bytes in on behalf of the program, as the answer to a system call: only where it
    /// could store them itself, and the next run does not find them. `None`, and nothing is copied,
    /// otherwise.
    pub fn store(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        self.memory.window().write_as_guest(address, bytes)
    }

    /// Gives memory back the contents it had before the latest run.
    fn undo(&mut self) {
        if !std::mem::take(&mut self.ran) || mutant!("la64_run_keeps_stores") {
            return;
        }
        let pages = self.memory.restore();
        if pages.into_iter().any(|page| self.code.overlaps(page, PAGE)) {
            self.cpu.epoch.advance();
        }
    }

    /// Calls the function at `entry` with up to eight arguments.
    ///
    /// # Panics
    /// With more than eight arguments.
    pub fn run(&mut self, entry: u64, arguments: &[u64], budget: u64) -> Outcome {
        assert!(arguments.len() <= 8, "arguments travel in a0 to a7");
        self.undo();
        self.cpu.state = State::default();
        self.cpu.state.pc = entry;
        self.cpu.state.x[1] = RETURN;
        self.cpu.state.x[3] = self.cpu.window.len() & !15;
        self.cpu.state.x[4..4 + arguments.len()].copy_from_slice(arguments);
        self.resume(budget)
    }

    /// Continues where the latest run stopped.
    pub fn resume(&mut self, budget: u64) -> Outcome {
        static NEVER: AtomicBool = AtomicBool::new(false);
        self.ran = true;
        let before = self.cpu.state.instructions;
        let end = loop {
            let left = budget - (self.cpu.state.instructions - before);
            let trap = self.cache.run(&mut self.cpu, &self.code, &NEVER, left);
            match trap {
                Trap::CodeChanged => self.cache.clear(),
                Trap::OutOfBudget => break End::OutOfBudget,
                Trap::Fetch(RETURN) => break End::Done(self.cpu.state.x[4]),
                trap => break End::Trap { trap, pc: self.cpu.state.pc },
            }
        };
        Outcome { end, instructions: self.cpu.state.instructions - before }
    }
}

/// Whether the program may store to a page: it has a writable segment's bytes, or none at all.
fn writable(segments: &[Segment], bias: u64, first: u64, last: u64) -> bool {
    let on_page = |s: &&Segment| {
        s.address.wrapping_add(bias) <= last
            && s.address.wrapping_add(bias).wrapping_add(s.memory_len) > first
    };
    let mut here = segments.iter().filter(on_page).peekable();
    here.peek().is_none() || mutant!("la64_constants_writable") || here.any(|s| s.prot & 2 != 0)
}

/// Writes the addresses that depend on where the program is loaded.
fn relocate(relative: &[Relative], bias: u64, cpu: &Cpu) -> Result<()> {
    for r in relative.iter().filter(|_| !mutant!("la64_relative_unapplied")) {
        let at = r.at.wrapping_add(bias);
        let own = || cpu.window.load::<u64>(at);
        let target = r.target.or_else(own).map(|t| t.wrapping_add(bias).to_le_bytes());
        if target.and_then(|bytes| cpu.window.write(at, &bytes)).is_none() {
            let what = format!("a relocation at {at:#x} is outside the core's memory");
            return Err(Error::new(Kind::Memory, what));
        }
    }
    Ok(())
}

/// Copies the segments; the ranges that may be executed.
fn place(program: &Elf, bias: u64, file: &[u8], cpu: &Cpu, len: u64) -> Result<Executable> {
    let mut code = Vec::new();
    for s in &program.segments {
        let (start, end) = (s.address + bias, s.address + bias + s.memory_len);
        let bytes = &file[s.offset as usize..(s.offset + s.file_len) as usize];
        let room = start >= PAGE && end < len && cpu.window.write(start, bytes).is_some();
        if !room {
            let what = format!("segment {start:#x}..{end:#x} is outside {PAGE:#x}..{len:#x}");
            return Err(Error::new(Kind::Memory, what));
        }
        if s.prot & 4 != 0 {
            let (first, last) = (start & !(PAGE - 1), end.next_multiple_of(PAGE));
            let mut pages = (first..last).step_by(PAGE as usize);
            let written =
                pages.any(|page| writable(&program.segments, bias, page, page + PAGE - 1));
            code.push(Range { start, end, written });
        }
    }
    Ok(Executable(code))
}
