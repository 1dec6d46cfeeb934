//! x86-64 as the engine sees it, and the instructions that run outside translated code.

use super::decode::{Inst, LEN_MAX, Operand, decode};
use super::lower::plain;
use super::memory::decoded;
use super::region::Conventions;
use super::registers::{COUNTS, ENTRIES, LINK, SCR_TRAP, THREAD, la64, set_flags};
use super::text::text;
use super::translate::{WORDS_MAX, translate};
use super::{assist, completion, float, flush, memory, mmx, x87};
use crate::code::{Mark, Region, Source};
use crate::event::Event;
use crate::guest::{Architecture, Fetch, Unfetched};
use littoral_base::mutant;
use littoral_la64::interp::Cpu;
use littoral_la64::memory::Window;
use littoral_la64::native::Leaves;
use littoral_la64::state::State;

/// The architecture, with what a program's ABI allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct X86(pub Conventions);

impl Architecture for X86 {
    const ENTRIES: u8 = ENTRIES;
    const LINK: u8 = LINK;
    const WORDS_MAX: usize = WORDS_MAX;
    const COUNTS: usize = COUNTS;
    const LEAVES: Leaves = Leaves { thread: THREAD, keeps_link: false };

    fn prepare(state: &mut State) {
        float::prepare(state);
    }

    fn text(window: &Window, pc: u64) -> Option<String> {
        decoded(window, pc).ok().map(|inst| text(&inst))
    }

    fn complete(state: &mut State, word: u32) -> bool {
        completion::complete(state, word)
    }

    fn translate(&self, entry: u64, base: u64, fetch: Fetch<'_>) -> Result<Region, Unfetched> {
        translate(entry, base, self.0, fetch)
    }

    fn steps(state: &State) -> bool {
        state.lbt.scratch[usize::from(SCR_TRAP)] != 0 && !mutant!("x86_trap_flag_ignored")
    }

    /// All flags and upper parts are exact behind the instruction.
    fn translate_one(&self, entry: u64, base: u64, fetch: Fetch<'_>) -> Result<Region, Unfetched> {
        let conventions =
            Conventions { single: true, abi_calls: false, lazy_faults: false, ..self.0 };
        translate(entry, base, conventions, fetch)
    }

    fn flushes(state: &State) -> bool {
        float::flushes(state)
    }

    fn flushing(&self) -> Option<X86> {
        Some(X86(Conventions { flushes: true, ..self.0 }))
    }

    fn target(state: &State, source: Source) -> u64 {
        match source {
            Source::Register(register) => state.x[usize::from(register)],
            Source::Upper => unreachable!("no delay slot comes between a jump and its target"),
        }
    }

    fn open(&self, state: &mut State) {
        if self.0.without_lbt {
            plain::open(state);
        }
    }

    fn close(&self, state: &mut State) {
        if self.0.without_lbt && !mutant!("x86_plain_state_not_moved") {
            plain::close(state);
        }
    }

    /// Nothing: an instruction writes guest registers behind its last access.
    fn repair(_: &mut State, _: &Mark) {}

    fn assist(&self, cpu: &mut Cpu, pc: u64, fetch: Fetch<'_>) -> Result<Option<u64>, Event> {
        let mut bytes = [0; LEN_MAX];
        let len = fetch(pc, &mut bytes);
        let Ok(inst) = decode(pc, &bytes[..len]) else { return Ok(None) };
        match inst.row.stem {
            "div" | "idiv" if inst.size_of_first() < 8 => return Ok(None),
            "div" => divide(cpu, &inst, false)?,
            "idiv" => divide(cpu, &inst, true)?,
            "cpuid" => identify(&mut cpu.state),
            "popf" => pop_flags(cpu, inst.size)?,
            _ if inst.row.x87 => x87::execute(cpu, &inst)?,
            _ if inst.row.mmx => mmx::execute(cpu, &inst)?,
            _ if inst.row.traits.meets_denormals => flush::execute(cpu, &inst)?,
            name if assist::NAMES.contains(&name) => assist::execute(cpu, &inst)?,
            name if mutant!("x86_replaced_code_panics") => unreachable!("{name} is translated"),
            _ => return Ok(None),
        }
        Ok(Some(inst.end()))
    }
}

/// The address of an operand in memory of 64 bits.
fn load(cpu: &Cpu, operand: Operand) -> Result<u64, Event> {
    let state = &cpu.state;
    match operand {
        Operand::Reg(r) => Ok(state.x[usize::from(la64(r.number))]),
        Operand::Mem(m) => {
            let at = memory::address(state, &m);
            cpu.window.load::<u64>(at).ok_or(Event::Load(at))
        }
        Operand::Xmm(_) | Operand::Mm(_) | Operand::Imm(_) | Operand::Target(_) => {
            unreachable!("a division has a variable divisor")
        }
    }
}

/// `popf` where the trap flag is set, before or behind it. One of 16 bits leaves no other flag of
/// ours as it was.
fn pop_flags(cpu: &mut Cpu, size: u8) -> Result<(), Event> {
    let rsp = usize::from(la64(4));
    let at = cpu.state.x[rsp];
    let value = match size {
        2 => cpu.window.load::<u16>(at).map(u64::from),
        _ => cpu.window.load::<u64>(at),
    };
    let value = value.ok_or(Event::Load(at))?;
    cpu.state.x[rsp] = at.wrapping_add(size.into());
    set_flags(&mut cpu.state, value);
    Ok(())
}

/// A division of rdx and rax by 64 bits.
fn divide(cpu: &mut Cpu, inst: &Inst, signed: bool) -> Result<(), Event> {
    let divisor = load(cpu, inst.operand(0))?;
    let (rax, rdx) = (usize::from(la64(0)), usize::from(la64(2)));
    let dividend = u128::from(cpu.state.x[rdx]) << 64 | u128::from(cpu.state.x[rax]);
    let result = if signed {
        let (a, b) = (dividend as i128, i128::from(divisor as i64));
        let quotient = a.checked_div(b).and_then(|q| i64::try_from(q).ok());
        quotient.map(|q| (q as u64, (a % b) as u64))
    } else {
        let b = u128::from(divisor);
        let quotient = dividend.checked_div(b).and_then(|q| u64::try_from(q).ok());
        quotient.map(|q| (q, (dividend % b) as u64))
    };
    let (quotient, remainder) = result.ok_or(Event::Divide)?;
    (cpu.state.x[rax], cpu.state.x[rdx]) = (quotient, remainder);
    Ok(())
}

/// What `cpuid` says of the processor's features in edx.
pub(super) fn features() -> u32 {
    let mut state = State::default();
    state.x[usize::from(la64(0))] = 1;
    identify(&mut state);
    state.x[usize::from(la64(2))] as u32
}

/// `cpuid`: what this translator has, and nothing else.
fn identify(state: &mut State) {
    let leaf = state.x[usize::from(la64(0))] as u32;
    let word = |text: &[u8], at: usize| {
        u32::from_le_bytes(std::array::from_fn(|n| text.get(at + n).copied().unwrap_or(0)))
    };
    // glibc reads the features only of makers that it knows. The name is in the brand.
    let vendor = |at| word(b"AuthenticAMD", at);
    let brand = |at| word(b"littoral-xlate translator", at);
    // FPU, time-stamp counter, cmpxchg8b, conditional moves, clflush of 64 bytes, MMX, fxsave, SSE,
    // SSE2.
    const EDX: u32 =
        1 | 1 << 4 | 1 << 8 | 1 << 15 | 1 << 19 | 1 << 23 | 1 << 24 | 1 << 25 | 1 << 26;
    // Family 15.
    const FAMILY: u32 = 0xf00;
    // SSE3, SSSE3, cmpxchg16b, SSE4.1, SSE4.2, popcnt: with lahf what x86-64-v2 asks for.
    const ECX: u32 = 1 | 1 << 9 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 23;
    let [a, b, c, d] = match leaf {
        0 => [1, vendor(0), vendor(8), vendor(4)],
        1 => [FAMILY, 8 << 8, ECX, EDX],
        0x8000_0000 => [0x8000_0004, vendor(0), vendor(8), vendor(4)],
        // lahf, lzcnt, prefetchw; syscall, 64 bits.
        0x8000_0001 => [0, 0, 1 | 1 << 5 | 1 << 8, 1 << 11 | 1 << 29],
        0x8000_0002..=0x8000_0004 => {
            let at = 16 * (leaf as usize - 0x8000_0002);
            [0, 4, 8, 12].map(|n| brand(at + n))
        }
        _ => [0; 4],
    };
    for (register, value) in [(0, a), (3, b), (1, c), (2, d)] {
        state.x[usize::from(la64(register))] = value.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_la64::interp::Features;
    use littoral_la64::memory::Memory;

    #[test]
    fn an_instruction_that_was_replaced_is_left_to_its_translation() {
        // nop; div cl; no byte; cpuid.
        const CASES: [(&[u8], Option<u64>); 4] =
            [(&[0x90], None), (&[0xf6, 0xf1], None), (&[], None), (&[0x0f, 0xa2], Some(0x102))];
        let mut cpu = Cpu::new(Memory::leaked(0x1000), Features::ALL);
        for (code, next) in CASES {
            let fetch = |_: u64, bytes: &mut [u8]| {
                bytes[..code.len()].copy_from_slice(code);
                code.len()
            };
            assert_eq!(X86::default().assist(&mut cpu, 0x100, &fetch), Ok(next), "{code:x?}");
        }
    }

    #[test]
    fn cpuid_announces_the_second_level_and_not_what_is_missing() {
        let mut state = State::default();
        let mut leaf = |number: u64| {
            state.x[usize::from(la64(0))] = number;
            identify(&mut state);
            (state.x[usize::from(la64(2))], state.x[usize::from(la64(1))])
        };
        let ((edx, ecx), (_, extended)) = (leaf(1), leaf(0x8000_0001));
        let has = |bits: u64, n: u32| bits >> n & 1 == 1;
        assert!([23, 24, 25, 26].iter().all(|&n| has(edx, n)), "{edx:x}");
        assert!(has(edx, 0), "x87");
        // SSE3, SSSE3, cmpxchg16b, SSE4.1, SSE4.2, popcnt; lahf.
        assert!([0, 9, 13, 19, 20, 23].iter().all(|&n| has(ecx, n)), "{ecx:x}");
        assert!(has(extended, 0), "lahf");
        // pclmulqdq, monitor, FMA, movbe, AES, XSAVE, AVX, F16C.
        assert!(![1, 3, 12, 22, 25, 26, 28, 29].iter().any(|&n| has(ecx, n)), "{ecx:x}");
    }
}
