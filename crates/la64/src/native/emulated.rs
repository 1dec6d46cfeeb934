//! A LoongArch processor that tier 0 plays: executes routines and code as the processor of a
//! LoongArch host does, signals included, on any host.
//!
//! The `Cpu` of a run lies outside the window, where the played processor reaches nothing. So a run
//! works on an image of it, in memory of the window that nothing else uses.

use super::routine::{Places, Routine};
use super::{Left, Position, Processor, position, reason};
use crate::asm::reg;
use crate::interp::{Cache, Cpu, Features, Fetch, Text, Tier, Trap};
use crate::memory::Window;
use crate::state::{Frame, Lbt, State, fcsr};
use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes of the window for the image, a stack and a flag.
const SPARE_LEN: u64 = 0x2000;
const STACK_AT: u64 = 0x1f00;
const FLAG_AT: u64 = 0x1f80;
/// Where a run returns to: no code is there.
const RETURN: u64 = 4;
const LINK: usize = 21;

/// The played processor.
#[derive(Debug)]
pub struct Emulated {
    features: Features,
    /// Addresses of code, which are executable.
    code: Range<u64>,
    /// Begin of [`Emulated::SPARE_LEN`] bytes of the window.
    spare: u64,
    /// Instructions until a signal comes.
    left: AtomicU64,
    placed: Mutex<(Places, Vec<u64>)>,
}

impl Fetch for Emulated {
    fn text(&self, pc: u64) -> Option<Text> {
        self.code.contains(&pc).then_some(Text { end: self.code.end, written: true })
    }
}

impl Emulated {
    /// Bytes that a run needs in the window.
    pub const SPARE_LEN: u64 = SPARE_LEN;

    /// A processor that executes `code` and may use the window from `spare` on.
    ///
    /// # Panics
    /// If `spare` is no multiple of 32.
    pub fn new(features: Features, code: Range<u64>, spare: u64) -> Emulated {
        assert!(spare.is_multiple_of(32), "registers are aligned");
        let (left, placed) = (AtomicU64::new(u64::MAX), Mutex::default());
        Emulated { features, code, spare, left, placed }
    }

    /// A signal that asks for attention comes after so many instructions, routines included.
    pub fn interrupt_after(&self, instructions: u64) {
        self.left.store(instructions, Ordering::Relaxed);
    }

    /// The run in the played processor; the image is then complete.
    fn play(&self, host: &mut Cpu, begin: u64, epoch_of: &Cpu) {
        host.epoch = epoch_of.epoch.clone();
        let mut cache = Cache::new(Tier::Interpreter);
        let never = AtomicBool::new(false);
        loop {
            let (before, left) = (host.state.instructions, self.left.load(Ordering::Relaxed));
            let trap = cache.run(host, self, &never, left);
            let executed = host.state.instructions - before;
            if left != u64::MAX {
                self.left.store(left - executed, Ordering::Relaxed);
            }
            match trap {
                Trap::Fetch(RETURN) => return,
                Trap::CodeChanged => {}
                Trap::OutOfBudget => {
                    self.signal(host, begin, reason::ATTENTION);
                    self.left.store(u64::MAX, Ordering::Relaxed);
                }
                _ => assert!(
                    self.signal(host, begin, reason::FAULT),
                    "the routine itself raised {trap:?} at {:#x}",
                    host.state.pc
                ),
            }
        }
    }

    /// What the handler of a signal does; whether the run ends by it.
    fn signal(&self, host: &mut Cpu, begin: u64, why: u64) -> bool {
        let placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        let (places, begins) = &*placed;
        let pc = host.state.pc;
        let window = host.window;
        match position(places, begins.iter().copied(), pc) {
            Position::Routine => return false,
            Position::Entering => host.state.pc = begin + places.abandon,
            Position::Code => {
                let image = self.spare;
                let put = |offset: usize, value: u64| window.store(image + offset as u64, value);
                let link = offset_of!(Cpu, state) + offset_of!(State, x) + 8 * LINK;
                let done = put(link, host.state.x[LINK])
                    .and(put(offset_of!(Cpu, state) + offset_of!(State, pc), pc))
                    .and(put(offset_of!(Cpu, native) + offset_of!(Frame, reason), why));
                assert!(done.is_some(), "the image is in the window");
                host.state.pc = begin + places.interrupted;
            }
        }
        host.state.x[LINK] = self.spare;
        true
    }
}

impl Processor for Emulated {
    fn has_lbt(&self) -> bool {
        self.features.lbt
    }

    fn place(&self, routine: &Routine, begins: &[u64]) {
        let placed = (routine.places().clone(), begins.to_vec());
        *self.placed.lock().unwrap_or_else(PoisonError::into_inner) = placed;
    }

    fn run(&self, cpu: &mut Cpu, begin: u64, attention: &AtomicBool) -> Left {
        const KEPT: [usize; 12] = [2, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31];
        let mut host = Cpu::new(cpu.window, self.features);
        let window = cpu.window;
        let flag = u8::from(attention.load(Ordering::Relaxed));
        let written = write(&cpu.state, &window, self.spare);
        let reason_at = self.spare + (offset_of!(Cpu, native) + offset_of!(Frame, reason)) as u64;
        let written = written
            .and(window.store(reason_at, reason::ATTENTION))
            .and(window.store(self.spare + FLAG_AT, flag));
        assert!(written.is_some(), "the image is in the window");
        // What the caller finds again.
        for n in KEPT {
            host.state.x[n] = 0x1111 * n as u64;
        }
        for n in 24..32 {
            host.state.v[n].0[0] = 0x2222 * n as u64;
        }
        host.state.fcsr = 0x300;
        let x = &mut host.state.x;
        (x[usize::from(reg::RA)], x[usize::from(reg::SP)]) = (RETURN, self.spare + STACK_AT);
        (x[usize::from(reg::A0)], x[usize::from(reg::A1)]) = (self.spare, self.spare + FLAG_AT);
        host.state.pc = begin;
        self.play(&mut host, begin, cpu);
        let is_kept = KEPT.iter().all(|&n| host.state.x[n] == 0x1111 * n as u64)
            && (24..32).all(|n| host.state.v[n].0[0] == 0x2222 * n as u64)
            && host.state.x[usize::from(reg::SP)] == self.spare + STACK_AT
            && host.state.fcsr == 0x300;
        assert!(is_kept, "the calling convention: {:?}", host.state);
        let reason = read(&mut cpu.state, &window, self.spare).and(window.load::<u64>(reason_at));
        reason::left(reason.expect("the image is in the window"))
    }
}

/// The parts of a state that a routine reads and writes, at their offsets.
fn write(state: &State, window: &Window, image: u64) -> Option<()> {
    let base = image + offset_of!(Cpu, state) as u64;
    let at = |offset: usize, n: usize| base + (offset + 8 * n) as u64;
    for (n, x) in state.x.iter().enumerate() {
        window.store(at(offset_of!(State, x), n), *x)?;
    }
    window.store(at(offset_of!(State, pc), 0), state.pc)?;
    window.store(at(offset_of!(State, fcc), 0), u64::from_le_bytes(state.fcc))?;
    window.store(at(offset_of!(State, fcsr), 0), state.fcsr)?;
    let lbt = offset_of!(State, lbt);
    for (n, scratch) in state.lbt.scratch.iter().enumerate() {
        window.store(at(lbt + offset_of!(Lbt, scratch), n), *scratch)?;
    }
    window.store(at(lbt + offset_of!(Lbt, flags), 0), state.lbt.flags)?;
    for (n, v) in state.v.iter().flat_map(|v| v.0).enumerate() {
        window.store(at(offset_of!(State, v), n), v)?;
    }
    Some(())
}

/// The contrary of [`write`].
fn read(state: &mut State, window: &Window, image: u64) -> Option<()> {
    let base = image + offset_of!(Cpu, state) as u64;
    let at = |offset: usize, n: usize| base + (offset + 8 * n) as u64;
    for n in 1..32 {
        state.x[n] = window.load(at(offset_of!(State, x), n))?;
    }
    state.pc = window.load(at(offset_of!(State, pc), 0))?;
    state.fcc = window.load::<u64>(at(offset_of!(State, fcc), 0))?.to_le_bytes();
    state.fcsr = window.load::<u32>(at(offset_of!(State, fcsr), 0))? & fcsr::VIEWS[0];
    let lbt = offset_of!(State, lbt);
    for n in 0..4 {
        state.lbt.scratch[n] = window.load(at(lbt + offset_of!(Lbt, scratch), n))?;
    }
    state.lbt.flags = window.load(at(lbt + offset_of!(Lbt, flags), 0))?;
    for n in 0..128 {
        state.v[n / 4].0[n % 4] = window.load(at(offset_of!(State, v), n))?;
    }
    state.link_address = u64::MAX;
    Some(())
}
