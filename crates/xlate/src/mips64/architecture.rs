//! MIPS64 as the engine sees it.

use super::isa::Inst;
use super::legacy;
use super::registers::{COUNTS, ENTRIES, SCRATCH, THREAD, UPPER_SPILL, target_place};
use super::translate::{Conventions, WORDS_MAX, translate};
use crate::code::{Fix, Mark, Region, Source};
use crate::event::Event;
use crate::guest::{Architecture, Fetch, Unfetched};
use littoral_base::mutant;
use littoral_la64::interp::Cpu;
use littoral_la64::memory::Window;
use littoral_la64::native::Leaves;
use littoral_la64::state::{State, fcsr};

/// The architecture, with what a program's ABI allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mips64 {
    /// What the program's ABI allows.
    pub conventions: Conventions,
    /// Guest instructions are counted.
    pub counts: bool,
}

impl Architecture for Mips64 {
    const ENTRIES: u8 = ENTRIES;
    const LINK: u8 = SCRATCH;
    const WORDS_MAX: usize = WORDS_MAX;
    const COUNTS: usize = COUNTS;
    const LEAVES: Leaves = Leaves { thread: THREAD, keeps_link: true };

    fn translate(&self, entry: u64, base: u64, fetch: Fetch<'_>) -> Result<Region, Unfetched> {
        let word = |at: u64| {
            let mut bytes = [0; 4];
            (fetch(at, &mut bytes) == 4).then(|| u32::from_le_bytes(bytes))
        };
        translate(entry, base, (self.conventions, self.counts), &word)
    }

    fn prepare(state: &mut State) {
        state.fcsr |= fcsr::ENABLE_INVALID;
    }

    fn text(window: &Window, pc: u64) -> Option<String> {
        Inst::decode(pc, window.load::<u32>(pc)?).map(|inst| inst.text())
    }

    fn complete(state: &mut State, word: u32) -> bool {
        legacy::complete(state, word)
    }

    fn target(state: &State, source: Source) -> u64 {
        match source {
            Source::Register(register) => state.x[usize::from(register)],
            Source::Upper => {
                let (register, doubleword) = target_place();
                state.v[usize::from(register)].0[usize::from(doubleword)]
            }
        }
    }

    fn repair(state: &mut State, mark: &Mark) {
        if mark.spilled[0] != 0 {
            state.x[usize::from(mark.spilled[0])] = state.lbt.scratch[3];
        }
        if mark.spilled[1] != 0 {
            state.x[usize::from(mark.spilled[1])] = state.v[usize::from(UPPER_SPILL)].0[1];
        }
        let saved = mark.spilled_float.filter(|_| !mutant!("mips64_float_lost_at_traps"));
        if let Some(register) = saved {
            state.v[usize::from(register)].0[0] = state.x[usize::from(SCRATCH)];
        }
        let get = |state: &State, register: u8| state.x[usize::from(register)];
        match mark.fix {
            None => {}
            Some(Fix::Sum(to, a, b, amount)) => {
                let sum = get(state, a).wrapping_add(get(state, b) << amount);
                state.x[usize::from(to)] = sum;
            }
            Some(Fix::Less(to, a, b, unsigned)) => {
                let (a, b) = (get(state, a), get(state, b));
                let less = if unsigned { a < b } else { (a as i64) < (b as i64) };
                state.x[usize::from(to)] = u64::from(less);
            }
        }
    }

    fn assist(&self, _: &mut Cpu, pc: u64, _: Fetch<'_>) -> Result<Option<u64>, Event> {
        unreachable!("every MIPS64 instruction is translated, also the one at {pc:#x}")
    }
}
