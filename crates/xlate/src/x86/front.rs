//! x86-64 programs for an owner that knows their Linux ABI: the translator behind the seam of
//! `littoral_la64::front`.
//!
//! Invariants
//! - Each register that the seam names has one place in the LA64 state. Checked by
//!   `registers_are_read_back`.
//! - The direction is 1 or -1 in a thread that runs. Checked by `a_new_thread_counts_up`.

use super::architecture::features;
use super::decode::{LEN_MAX, Undecoded, decode};
use super::float::{WRITABLE, mxcsr, set_mxcsr};
use super::memory::{code, decoded};
use super::registers::{COUNTS, FS, SCR_DIRECTION, SCR_GS, flags, la64, set_flags};
use super::text::text;
use super::{Conventions, X86, x87};
use crate::engine::{Engine, Guest};
use crate::event::Event;
use crate::layout::{AREA_BYTES, Layout};
use littoral_base::mutant;
use littoral_la64::elf::Machine;
use littoral_la64::front::{
    Architecture, Executed, Figures, Front, Settings, Translator, x86_64 as number,
};
use littoral_la64::interp::{Cache, Cpu, Epoch, Fetch};
use littoral_la64::memory::Window;
use littoral_la64::state::State;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Translates x86-64 programs, as the paper's LATX.
#[derive(Clone, Copy, Debug)]
pub struct Latx;

/// The translated code of an x86-64 program. Both engines use the same memory, the second from the
/// time on when the program has several threads.
#[derive(Debug)]
struct Program {
    /// Without barriers.
    alone: Engine<X86>,
    /// With barriers.
    ordered: Engine<X86>,
    has_threads: AtomicBool,
    layout: Layout,
    /// Guest instructions are counted.
    counts: bool,
}

impl Program {
    fn engine(&self) -> &Engine<X86> {
        if self.has_threads.load(Ordering::Acquire) { &self.ordered } else { &self.alone }
    }
}

/// Guest memory that can be executed, as the owner says.
struct Executable<'a>(&'a dyn Fetch);

impl Guest for Executable<'_> {
    fn is_executable(&self, pc: u64) -> bool {
        self.0.text(pc).is_some()
    }
}

impl Front for Latx {
    fn architecture(&self) -> Architecture {
        Architecture::X86_64
    }

    fn machine(&self) -> Machine {
        Machine { number: 62, name: "x86-64" }
    }

    /// The table of entries has four bytes per guest address.
    fn window_len(&self, guest_end: u64) -> u64 {
        5 * guest_end
    }

    fn translator(&self, guest_end: u64, settings: Settings) -> Arc<dyn Translator> {
        let layout = Layout::linux_of_bytes(guest_end);
        let Settings { counts, without_lbt, .. } = settings;
        let short_regions = settings.native.is_some();
        // What the System V ABI says of calls, and what C compilers make of flags.
        let engine = |ordered| {
            let (abi_calls, lazy_faults) = (true, true);
            let conventions = Conventions {
                abi_calls,
                lazy_faults,
                ordered,
                counts,
                without_lbt,
                flushes: false,
                short_regions,
                single: false,
            };
            Engine::new(layout.clone(), X86(conventions)).with(settings.clone())
        };
        let (alone, ordered) = (engine(false), engine(true));
        let has_threads = AtomicBool::new(false);
        Arc::new(Program { alone, ordered, has_threads, layout, counts })
    }

    fn runs_on(&self, _: bool) -> bool {
        true
    }

    fn capabilities(&self) -> u64 {
        features().into()
    }

    fn lengths(&self) -> (usize, usize) {
        (LEN_MAX, 1)
    }

    fn text(&self, pc: u64, bytes: &[u8]) -> Option<(String, usize)> {
        decode(pc, bytes).ok().map(|inst| (text(&inst), inst.len.into()))
    }
}

const XMM_END: u8 = number::X87;
const X87_END: u8 = number::X87 + 19;

/// The vector register and its half that hold a half of an xmm register.
fn half(register: u8) -> (usize, usize) {
    let n = usize::from(register - number::XMM);
    (n / 2, n % 2)
}

/// The registers of x87 in the order of `fxsave`.
fn x87_words(state: &State) -> [u64; 19] {
    let (head, registers) = x87::saved(state, true);
    let stack = registers.as_flattened();
    std::array::from_fn(|n| if n < 3 { head[n] } else { stack[n - 3] })
}

fn set_x87_words(state: &mut State, words: [u64; 19]) {
    let registers = std::array::from_fn(|n| [words[3 + 2 * n], words[4 + 2 * n]]);
    x87::set_saved(state, true, [words[0], words[1], words[2]], registers);
}

/// Whether the processor answers bytes that are no instruction here by general protection.
fn is_protected(window: &Window, pc: u64) -> bool {
    let (bytes, len) = code(window, pc);
    match decode(pc, &bytes[..len]) {
        Err(Undecoded::TooLong) => true,
        Err(Undecoded::Unknown) if mutant!("x86_ports_are_unknown") => false,
        Err(Undecoded::Unknown) => is_for_the_system(&bytes[..len]),
        Err(Undecoded::Truncated) | Ok(_) => false,
    }
}

/// Whether bytes that have no row are an instruction that only the system may execute: of ports, or
/// of the processor's own registers. Programs that look for a hypervisor try them.
fn is_for_the_system(bytes: &[u8]) -> bool {
    const PREFIXES: [u8; 10] = [0x66, 0x67, 0xf2, 0xf3, 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65];
    let is_prefix = |byte: &u8| PREFIXES.contains(byte) || byte >> 4 == 4;
    let mut rest = bytes.iter().copied().skip_while(is_prefix);
    match (rest.next(), rest.next()) {
        // ins, outs, in, out.
        (Some(0x6c..=0x6f | 0xe4..=0xe7 | 0xec..=0xef), _) => true,
        // wrmsr, rdmsr, rdpmc.
        (Some(0x0f), Some(0x30 | 0x32 | 0x33)) => true,
        _ => false,
    }
}

impl Translator for Program {
    fn places(&self) -> Vec<Range<u64>> {
        self.layout.places()
    }

    fn executed_places(&self) -> Vec<Range<u64>> {
        self.layout.begins().map(|begin| begin..begin + AREA_BYTES).collect()
    }

    /// A thread has its parent's direction.
    fn prepare(&self, state: &mut State) {
        self.engine().prepare(state);
        state.v[COUNTS].0[2..].fill(0);
        let direction = &mut state.lbt.scratch[usize::from(SCR_DIRECTION)];
        if *direction == 0 {
            *direction = 1;
        }
    }

    fn get(&self, state: &State, register: u8) -> u64 {
        match register {
            0..16 => state.x[usize::from(la64(register))],
            number::FLAGS => flags(state),
            number::FS => state.x[usize::from(FS)],
            number::GS => state.lbt.scratch[usize::from(SCR_GS)],
            number::MXCSR => mxcsr(state).into(),
            number::XMM..XMM_END => {
                let (n, half) = half(register);
                state.v[n].0[half]
            }
            XMM_END..X87_END => x87_words(state)[usize::from(register - XMM_END)],
            X87_END.. => 0,
        }
    }

    fn set(&self, state: &mut State, register: u8, value: u64) {
        match register {
            0..16 => state.x[usize::from(la64(register))] = value,
            number::FLAGS => set_flags(state, value),
            number::FS => state.x[usize::from(FS)] = value,
            number::GS => state.lbt.scratch[usize::from(SCR_GS)] = value,
            number::XMM..XMM_END => {
                let (n, half) = half(register);
                state.v[n].0[half] = value;
            }
            // Bits beyond MXCSR are dropped, as the kernel does with those of a frame.
            number::MXCSR => set_mxcsr(state, value as u32 & WRITABLE),
            XMM_END..X87_END => {
                let mut words = x87_words(state);
                words[usize::from(register - XMM_END)] = value;
                set_x87_words(state, words);
            }
            X87_END.. => {}
        }
    }

    /// Behind a breakpoint instruction, as the processor reports it. Too long an instruction, and
    /// one that only the system may execute, is no unknown one: it is the processor's general
    /// protection.
    fn run(
        &self,
        (cpu, cache): (&mut Cpu, &mut Cache),
        fetch: &dyn Fetch,
        attention: &AtomicBool,
        budget: u64,
    ) -> Event {
        let event = self.engine().run((&mut *cpu, cache), &Executable(fetch), attention, budget);
        let decoded = |cpu: &Cpu| decoded(&cpu.window, cpu.state.pc);
        match event {
            Event::Break(_) if !mutant!("x86_breakpoint_at_itself") => {
                // What another thread has overwritten meanwhile was one byte, most likely.
                let next = cpu.state.pc.wrapping_add(1);
                cpu.state.pc = decoded(cpu).map_or(next, |inst| inst.end());
                // It is executed, unlike instructions that fault.
                cpu.state.v[COUNTS].0[3] += u64::from(self.counts);
            }
            Event::Illegal(_) if is_protected(&cpu.window, cpu.state.pc) => {
                return Event::Privileged;
            }
            _ => {}
        }
        event
    }

    fn drop_pages(&self, window: &Window, epoch: &Epoch, addresses: Range<u64>) {
        self.engine().drop_pages(window, epoch, addresses);
    }

    fn renew(&self, window: &Window, epoch: &Epoch, interrupt: &dyn Fn()) {
        self.engine().renew(window, epoch, interrupt);
    }

    fn still(&self, f: &mut dyn FnMut()) {
        self.engine().still(f);
    }

    fn survive_alone(&self) {
        self.engine().survive_alone();
    }

    fn is_outside(&self, cpu: &Cpu) {
        self.engine().is_outside(cpu);
    }

    /// The code without barriers goes; no thread is in it, because the one that there is calls
    /// this.
    fn begin_threads(&self, window: &Window, epoch: &Epoch) {
        if self.has_threads.load(Ordering::Acquire) || mutant!("x86_threads_without_order") {
            return;
        }
        self.alone.renew(window, epoch, &|| ());
        self.has_threads.store(true, Ordering::Release);
    }

    fn figures(&self) -> Figures {
        let [a, b] = [self.alone.figures(), self.ordered.figures()];
        Figures {
            guest_count: a.guest_count + b.guest_count,
            regions_count: a.regions_count + b.regions_count,
            code_bytes: a.code_bytes + b.code_bytes,
            exits_count: a.exits_count + b.exits_count,
        }
    }

    fn executed(&self, state: &State) -> Executed {
        let [.., counting_count, guest_count] = state.v[COUNTS].0;
        Executed { guest_count, counting_count }
    }
}

#[cfg(test)]
mod tests {
    use super::super::registers::{DIRECTION_BIT, FIXED_BITS, TRAP_BIT};
    use super::*;
    use littoral_la64::memory::Memory;

    #[test]
    fn registers_are_read_back() {
        let program = Latx.translator(1 << 40, Settings::default());
        let mut state = State::default();
        program.prepare(&mut state);
        for register in (0..XMM_END).filter(|&r| r != number::MXCSR) {
            program.set(&mut state, register, 0x1000 + u64::from(register));
        }
        let flags = 0x8d5 | DIRECTION_BIT | TRAP_BIT;
        program.set(&mut state, number::FLAGS, flags);
        program.set(&mut state, number::MXCSR, 0x1_bfbf);
        for register in 0..XMM_END {
            let expected = match register {
                number::FLAGS => flags | FIXED_BITS,
                number::MXCSR => 0xbfbf,
                other => 0x1000 + u64::from(other),
            };
            assert_eq!(program.get(&state, register), expected, "{register}");
        }
    }

    /// The LA64 words of `mov rax, [rdi]; mov [rsi], rax; jmp rax`.
    fn words(ordered: bool) -> Vec<u32> {
        let code = [0x48, 0x8b, 0x07, 0x48, 0x89, 0x06, 0xff, 0xe0];
        let fetch = |at: u64, bytes: &mut [u8]| {
            let rest = code.get(at.wrapping_sub(0x1000) as usize..).unwrap_or_default();
            let len = rest.len().min(bytes.len());
            bytes[..len].copy_from_slice(&rest[..len]);
            len
        };
        let conventions = Conventions { ordered, ..Conventions::default() };
        crate::x86::translate(0x1000, 0xf200_0000, conventions, &fetch).expect("a region").words
    }

    #[test]
    fn loads_and_stores_are_ordered_for_threads() {
        let text = |word: &u32| littoral_la64::isa::disassemble(*word).expect("an instruction");
        let plain: Vec<String> = words(false).iter().map(text).collect();
        let ordered: Vec<String> = words(true).iter().map(text).collect();
        let place =
            |name: &str| ordered.iter().position(|t| t.starts_with(name)).expect("is there");
        assert_eq!(ordered[place("ld.d") + 1], "dbar 0x14");
        assert_eq!(ordered[place("st.d") - 1], "dbar 0x12");
        assert!(ordered[place("ldx.wu") + 1].starts_with("jirl"), "{ordered:?}");
        assert_eq!(ordered.len(), plain.len() + 2);
        assert!(!plain.iter().any(|t| t.starts_with("dbar")), "{plain:?}");
    }

    #[test]
    fn the_second_thread_brings_the_order() {
        let layout = Layout::linux_of_bytes(1 << 12);
        let engine = |ordered| {
            let conventions = Conventions { ordered, ..Conventions::default() };
            Engine::new(layout.clone(), X86(conventions))
        };
        let (alone, ordered) = (engine(false), engine(true));
        let has_threads = AtomicBool::new(false);
        let counts = false;
        let program = Program { alone, ordered, has_threads, layout: layout.clone(), counts };
        let window = Memory::leaked(1 << 16);
        assert!(std::ptr::eq(program.engine(), &raw const program.alone));
        program.begin_threads(&window, &Epoch::default());
        assert!(std::ptr::eq(program.engine(), &raw const program.ordered));
    }

    #[test]
    fn instructions_for_the_system_are_told_from_unknown_ones() {
        let protected: [&[u8]; 8] = [
            &[0xec],
            &[0x66, 0xe5, 0x60],
            &[0xe6, 0x80],
            &[0xf3, 0x6c],
            &[0x48, 0xef],
            &[0x0f, 0x30],
            &[0x0f, 0x32],
            &[0x65, 0x0f, 0x33],
        ];
        // lock in, syscall's neighbour, an unknown opcode, nothing.
        let others: [&[u8]; 5] = [&[0xf0, 0xec], &[0x0f, 0x04], &[0x06], &[0x48], &[]];
        for (list, expected) in [(&protected[..], true), (&others[..], false)] {
            for bytes in list {
                assert_eq!(is_for_the_system(bytes), expected, "{bytes:x?}");
            }
        }
    }

    #[test]
    fn a_new_thread_counts_up() {
        let program = Latx.translator(1 << 40, Settings::default());
        let mut state = State::default();
        program.prepare(&mut state);
        assert_eq!(program.get(&state, number::FLAGS), FIXED_BITS);
        program.set(&mut state, number::FLAGS, DIRECTION_BIT);
        program.prepare(&mut state);
        assert_eq!(program.get(&state, number::FLAGS), FIXED_BITS | DIRECTION_BIT);
    }
}
