//! A guest that stops behind each instruction, as an x86-64 program does whose trap flag is set.
//!
//! - Each instruction is translated alone. Its code has no entry in the table, nothing leads to it
//!   but this module, and it leads nowhere: ordinary code is the same whether a program steps or
//!   not. Checked by `programs_that_step_trap_where_the_host_does`.
//! - The engine of `littoral-la64` executes it, also where the host's processor executes ordinary
//!   code, and neither a budget nor a signal stops it: so each run executes one instruction or
//!   raises what it raises. An instruction is a few LA64 instructions, of a string one element.
//!
//! Invariants
//! - A run executes at most one guest instruction. Checked by
//!   `programs_that_step_trap_where_the_host_does`.

use super::{Engine, Guest};
use crate::code::{Behind, Region};
use crate::event::Event;
use crate::guest::{Architecture, Fetch, Unfetched};
use littoral_base::mutant;
use littoral_la64::interp::{Cache, Cpu};
use std::sync::atomic::{AtomicBool, Ordering};

impl<A: Architecture> Engine<A> {
    /// Executes the instruction at `State::pc`: [`Event::Step`], or what it raises.
    pub(super) fn step(
        &self,
        (cpu, cache): (&mut Cpu, &mut Cache),
        guest: &impl Guest,
        attention: &AtomicBool,
    ) -> Event {
        let never = AtomicBool::new(false);
        if attention.load(Ordering::Acquire) {
            return Event::Attention;
        }
        match self.enter_one(cpu, guest, cpu.state.pc) {
            Ok(at) => cpu.state.pc = at,
            Err(event) => return event,
        }
        loop {
            let trap = cache.run(cpu, &self.areas(), &never, u64::MAX);
            if let Some(event) = self.answer(cpu, cache, guest, trap) {
                return event;
            }
        }
    }

    /// The LA64 address of the instruction at a guest address, alone.
    fn enter_one(&self, cpu: &Cpu, guest: &impl Guest, pc: u64) -> Result<u64, Event> {
        if !self.layout.is_guest(pc) {
            return Err(Event::Fetch(pc));
        }
        let mut inner = self.lock();
        if guest.is_executable(pc)
            && let Some(&at) = inner.singles.get(&pc)
        {
            return Ok(at);
        }
        let at = self.make((cpu, guest), &mut inner, pc, without_entries::<A>)?;
        inner.singles.insert(pc, at);
        Ok(at)
    }

    /// An instruction that was translated alone is done, or one repetition of it.
    pub(super) fn behind(&self, cpu: &mut Cpu, behind: Behind) -> Event {
        self.lock().figures.exits_count += 1;
        match behind {
            Behind::Next(pc) => cpu.state.pc = pc,
            Behind::Linked => cpu.state.pc = cpu.state.x[usize::from(A::LINK)],
            // It is counted when it is done.
            Behind::Again(pc) if mutant!("xlate_repetitions_count_each") => cpu.state.pc = pc,
            Behind::Again(pc) => self.leave(cpu, pc),
        }
        if mutant!("xlate_steps_do_not_trap") { Event::OutOfBudget } else { Event::Step }
    }
}

/// As `Architecture::translate_one`, without entries: ordinary code that comes to the address later
/// must not stop behind the instruction.
fn without_entries<A: Architecture>(
    architecture: &A,
    entry: u64,
    base: u64,
    fetch: Fetch<'_>,
) -> Result<Region, Unfetched> {
    let mut region = architecture.translate_one(entry, base, fetch)?;
    if !mutant!("xlate_single_code_has_entries") {
        region.entries.clear();
    }
    Ok(region)
}
