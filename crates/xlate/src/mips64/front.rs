//! MIPS64 programs for an owner that knows their Linux ABI: the translator behind the seam of
//! `littoral_la64::front`.
//!
//! Invariants
//! - Each register that the seam names has one place in the LA64 state. Checked by
//!   `registers_are_read_back`.

use super::isa::Inst;
use super::registers::{COUNTS, SCR_HI, SCR_LO, SCR_THREAD, float, la64, set_float};
use super::{Conventions, Mips64};
use crate::engine::{Engine, Guest};
use crate::event::Event;
use crate::layout::{AREA_BYTES, Layout};
use littoral_la64::elf::Machine;
use littoral_la64::front::{
    Architecture, Executed, Figures, Front, Settings, Translator, mips64 as number,
};
use littoral_la64::interp::{Cache, Cpu, Epoch, Fetch};
use littoral_la64::memory::Window;
use littoral_la64::state::State;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Translates MIPS64 programs, as the paper's LATM.
#[derive(Clone, Copy, Debug)]
pub struct Latm;

/// The translated code of a MIPS64 program.
#[derive(Debug)]
struct Program {
    engine: Engine<Mips64>,
    layout: Layout,
}

/// Guest memory that can be executed, as the owner says.
struct Executable<'a>(&'a dyn Fetch);

impl Guest for Executable<'_> {
    fn is_executable(&self, pc: u64) -> bool {
        self.0.text(pc).is_some()
    }
}

impl Front for Latm {
    fn architecture(&self) -> Architecture {
        Architecture::Mips64
    }

    fn machine(&self) -> Machine {
        Machine { number: 8, name: "MIPS64" }
    }

    fn window_len(&self, guest_end: u64) -> u64 {
        2 * guest_end
    }

    fn translator(&self, guest_end: u64, settings: Settings) -> Arc<dyn Translator> {
        let layout = Layout::linux(guest_end);
        // What the N64 ABI says of calls, and C compilers rely on.
        let conventions = Conventions { calls_lose_products: true };
        let architecture = Mips64 { conventions, counts: settings.counts };
        let engine = Engine::new(layout.clone(), architecture).with(settings);
        Arc::new(Program { engine, layout })
    }

    fn runs_on(&self, has_lbt: bool) -> bool {
        has_lbt
    }

    fn text(&self, pc: u64, bytes: &[u8]) -> Option<(String, usize)> {
        let word = u32::from_le_bytes(*bytes.first_chunk()?);
        Inst::decode(pc, word).map(|inst| (inst.text(), 4))
    }
}

/// Where a guest register is.
enum Place {
    General(usize),
    Scratch(usize),
    Float(u8),
    Control,
    Nowhere,
}

fn place(register: u8) -> Place {
    const FLOAT_END: u8 = number::FLOAT + 32;
    match register {
        0..32 => match la64(register) {
            0 => Place::Nowhere,
            x => Place::General(x.into()),
        },
        number::HI => Place::Scratch(SCR_HI.into()),
        number::LO => Place::Scratch(SCR_LO.into()),
        number::THREAD => Place::Scratch(SCR_THREAD.into()),
        number::FLOAT..FLOAT_END => Place::Float(register - number::FLOAT),
        number::FCSR => Place::Control,
        68.. => Place::Nowhere,
    }
}

impl Translator for Program {
    fn places(&self) -> Vec<Range<u64>> {
        self.layout.places()
    }

    fn executed_places(&self) -> Vec<Range<u64>> {
        self.layout.begins().map(|begin| begin..begin + AREA_BYTES).collect()
    }

    fn prepare(&self, state: &mut State) {
        self.engine.prepare(state);
        state.v[COUNTS].0[2..].fill(0);
    }

    fn get(&self, state: &State, register: u8) -> u64 {
        match place(register) {
            Place::General(n) => state.x[n],
            Place::Scratch(n) => state.lbt.scratch[n],
            Place::Float(n) => float(state, n),
            Place::Control => super::float::guest_fcsr(state).into(),
            Place::Nowhere => 0,
        }
    }

    fn set(&self, state: &mut State, register: u8, value: u64) {
        match place(register) {
            Place::General(n) => state.x[n] = value,
            Place::Scratch(n) => state.lbt.scratch[n] = value,
            Place::Float(n) => set_float(state, n, value),
            Place::Control => super::float::set_guest_fcsr(state, value as u32),
            Place::Nowhere => {}
        }
    }

    fn run(
        &self,
        thread: (&mut Cpu, &mut Cache),
        fetch: &dyn Fetch,
        attention: &AtomicBool,
        budget: u64,
    ) -> Event {
        self.engine.run(thread, &Executable(fetch), attention, budget)
    }

    fn drop_pages(&self, window: &Window, epoch: &Epoch, addresses: Range<u64>) {
        self.engine.drop_pages(window, epoch, addresses);
    }

    fn renew(&self, window: &Window, epoch: &Epoch, interrupt: &dyn Fn()) {
        self.engine.renew(window, epoch, interrupt);
    }

    fn still(&self, f: &mut dyn FnMut()) {
        self.engine.still(f);
    }

    fn survive_alone(&self) {
        self.engine.survive_alone();
    }

    fn is_outside(&self, cpu: &Cpu) {
        self.engine.is_outside(cpu);
    }

    fn figures(&self) -> Figures {
        self.engine.figures()
    }

    fn executed(&self, state: &State) -> Executed {
        let [.., counting_count, guest_count] = state.v[COUNTS].0;
        Executed { guest_count, counting_count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_read_back() {
        let program = Latm.translator(1 << 40, Settings::default());
        let mut state = State::default();
        for register in 0..=number::THREAD {
            if ![0, 26, 27, number::FCSR].contains(&register) {
                program.set(&mut state, register, 1000 + u64::from(register));
            }
        }
        program.set(&mut state, 0, 7);
        for register in 1..=number::THREAD {
            let held = 1000 + u64::from(register);
            let expected = if [26, 27, number::FCSR].contains(&register) { 0 } else { held };
            assert_eq!(program.get(&state, register), expected, "{register}");
        }
        assert_eq!(program.get(&state, 0), 0);
    }
}
