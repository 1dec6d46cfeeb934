//! Vector instructions that run outside translated code, because programs execute them rarely:
//! MXCSR, `fxsave` and `fxrstor`, stores under a mask, approximations, comparisons of strings.
//!
//! - `fxsave` and `fxrstor` keep the registers of x87 too.
//! - `rcpps` and its kin give the correctly rounded result of the exact one, which the manual's
//!   bound allows. No exception is raised, and denormal operands and results count as zeros.

use super::decode::{Inst, Mem, Operand};
use super::float::{WRITABLE, mxcsr, set_mxcsr};
use super::memory::{address, load, store};
use super::{strings, x87};
use crate::event::Event;
use littoral_la64::float::{self, Env, Format, Rounding, Single};
use littoral_la64::interp::Cpu;

/// Instructions that this module executes.
pub use super::isa::ASSISTED as NAMES;
/// Bytes of what `fxsave` writes; what follows to 512 stays.
const SAVED: usize = 416;
/// Where it has MXCSR, the registers of x87 and the vector registers.
const MXCSR_AT: usize = 24;
const ST_AT: usize = 32;
const XMM_AT: usize = 160;

/// Executes an instruction of [`NAMES`].
///
/// # Errors
/// What it raises; registers are then as before.
pub(super) fn execute(cpu: &mut Cpu, inst: &Inst) -> Result<(), Event> {
    match inst.row.stem {
        "ldmxcsr" => {
            let at = place(cpu, inst);
            let value = cpu.window.load::<u32>(at).ok_or(Event::Load(at))?;
            checked_mxcsr(cpu, value)
        }
        "stmxcsr" => {
            let (at, value) = (place(cpu, inst), mxcsr(&cpu.state));
            cpu.window.store(at, value).ok_or(Event::Store(at))
        }
        "fxsave" => save(cpu, place(cpu, inst), inst.size == 8),
        "fxrstor" => restore(cpu, place(cpu, inst), inst.size == 8),
        "maskmovdqu" => store_masked_vector(cpu, inst),
        name if name.starts_with("pcmp") => strings::execute(cpu, inst),
        _ => approximate(cpu, inst),
    }
}

fn place(cpu: &Cpu, inst: &Inst) -> u64 {
    inst.memory().map_or(0, |m| address(&cpu.state, &m))
}

/// MXCSR, unless bits are set that do not exist here.
fn checked_mxcsr(cpu: &mut Cpu, value: u32) -> Result<(), Event> {
    if value & !WRITABLE != 0 {
        return Err(Event::Privileged);
    }
    set_mxcsr(&mut cpu.state, value);
    Ok(())
}

fn save(cpu: &Cpu, at: u64, is_wide: bool) -> Result<(), Event> {
    if !at.is_multiple_of(16) {
        return Err(Event::Privileged);
    }
    let (head, registers) = x87::saved(&cpu.state, is_wide);
    let mut bytes: Vec<u8> = head.iter().flat_map(|w| w.to_le_bytes()).collect();
    bytes.extend(mxcsr(&cpu.state).to_le_bytes());
    bytes.extend(WRITABLE.to_le_bytes());
    bytes.extend(registers.as_flattened().iter().flat_map(|w| w.to_le_bytes()));
    for register in &cpu.state.v[..16] {
        bytes.extend(register.0[..2].iter().flat_map(|w| w.to_le_bytes()));
    }
    store(cpu, at, &bytes)
}

fn restore(cpu: &mut Cpu, at: u64, is_wide: bool) -> Result<(), Event> {
    if !at.is_multiple_of(16) {
        return Err(Event::Privileged);
    }
    let bytes: [u8; SAVED] = load(cpu, at)?;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
    checked_mxcsr(cpu, word(MXCSR_AT) as u32)?;
    let registers = std::array::from_fn(|n| [0, 8].map(|half| word(ST_AT + 16 * n + half)));
    x87::set_saved(&mut cpu.state, is_wide, [0, 8, 16].map(word), registers);
    for (n, register) in cpu.state.v[..16].iter_mut().enumerate() {
        for half in 0..2 {
            register.0[half] = word(XMM_AT + 16 * n + 8 * half);
        }
    }
    Ok(())
}

/// maskmovdqu.
fn store_masked_vector(cpu: &Cpu, inst: &Inst) -> Result<(), Event> {
    let (Operand::Xmm(from), Operand::Xmm(mask)) = (inst.operand(0), inst.operand(1)) else {
        return Err(Event::Illegal(0));
    };
    let bytes = |n: u8| {
        let [low, high, ..] = cpu.state.v[usize::from(n)].0;
        (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
    };
    store_masked(cpu, inst, &bytes(from), &bytes(mask))
}

/// The bytes whose mask has its highest bit set, to the address in rdi.
pub(super) fn store_masked(cpu: &Cpu, inst: &Inst, value: &[u8], mask: &[u8]) -> Result<(), Event> {
    let (base, segment, short) = (Some(7), inst.segment, inst.short);
    let (index, relative) = (None, false);
    let place = Mem { base, index, displacement: 0, segment, short, relative, size: 16 };
    let at = address(&cpu.state, &place);
    let chosen = || (0..mask.len()).filter(|&n| mask[n] >> 7 == 1);
    // All are stored again first, so that a fault leaves memory as it is.
    for n in chosen() {
        let at = at.wrapping_add(n as u64);
        let old = cpu.window.load::<u8>(at).ok_or(Event::Store(at))?;
        cpu.window.store(at, old).ok_or(Event::Store(at))?;
    }
    for n in chosen() {
        let at = at.wrapping_add(n as u64);
        cpu.window.store(at, value[n]).ok_or(Event::Store(at))?;
    }
    Ok(())
}

/// One over a single, or over its root.
fn reciprocal(value: u32, of_root: bool) -> u32 {
    let magnitude = u64::from(value) & (Single::SIGN - 1);
    let sign = value & Single::SIGN as u32;
    if magnitude > Single::INFINITY {
        return value | Single::QUIET as u32;
    }
    if magnitude >> Single::FRACTION == 0 {
        return sign | Single::INFINITY as u32;
    }
    if of_root && sign != 0 {
        return (Single::NAN | Single::SIGN) as u32;
    }
    let mut env = Env::new(Rounding::NearestEven);
    let result = match of_root {
        true => float::rsqrt::<Single>(value.into(), &mut env),
        false => float::recip::<Single>(value.into(), &mut env),
    };
    let is_denormal = result as u32 >> Single::FRACTION & Single::EXPONENT_MAX as u32 == 0;
    if is_denormal { sign } else { result as u32 }
}

/// rcpps, rcpss, rsqrtps, rsqrtss.
fn approximate(cpu: &mut Cpu, inst: &Inst) -> Result<(), Event> {
    let is_scalar = inst.row.stem.ends_with("ss");
    let source = match inst.operand(1) {
        Operand::Xmm(n) => {
            let [low, high, ..] = cpu.state.v[usize::from(n)].0;
            u128::from(high) << 64 | u128::from(low)
        }
        _ => {
            let at = place(cpu, inst);
            if is_scalar {
                u128::from(u32::from_le_bytes(load(cpu, at)?))
            } else if at.is_multiple_of(16) {
                u128::from_le_bytes(load(cpu, at)?)
            } else {
                return Err(Event::Privileged);
            }
        }
    };
    let Operand::Xmm(d) = inst.operand(0) else { return Err(Event::Illegal(0)) };
    let of_root = inst.row.stem.starts_with("rsqrt");
    let register = &mut cpu.state.v[usize::from(d)].0;
    for n in 0..if is_scalar { 1 } else { 4 } {
        let result = u64::from(reciprocal((source >> (32 * n)) as u32, of_root));
        let (half, place) = (n as usize / 2, 32 * (n % 2));
        register[half] = register[half] & !(0xffff_ffff << place) | result << place;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::decode::decode;
    use super::super::registers::la64;
    use super::*;
    use littoral_la64::interp::Features;
    use littoral_la64::memory::Memory;

    const LEN: u64 = 0x2000;

    fn cpu(rax: u64) -> Cpu {
        let mut cpu = Cpu::new(Memory::leaked(LEN), Features::ALL);
        super::super::float::prepare(&mut cpu.state);
        cpu.state.x[usize::from(la64(0))] = rax;
        cpu
    }

    fn run(cpu: &mut Cpu, bytes: &[u8]) -> Result<(), Event> {
        execute(cpu, &decode(0, bytes).expect("an instruction"))
    }

    #[test]
    fn bits_beyond_mxcsr_are_refused() {
        const LDMXCSR: [u8; 3] = [0x0f, 0xae, 0x10];
        const FXRSTOR: [u8; 3] = [0x0f, 0xae, 0x08];
        for (value, result) in [
            (0x1f80 | 1 << 16, Err(Event::Privileged)),
            (0x1f80 | 1 << 31, Err(Event::Privileged)),
            (0x1f80 | 1 << 6, Ok(())),
            (0x1f80 | 1 << 15, Ok(())),
            (0xffff, Ok(())),
        ] {
            for (code, at) in [(LDMXCSR, 0x100), (FXRSTOR, 0x118)] {
                let mut cpu = cpu(0x100);
                cpu.window.store::<u32>(at, value).expect("in the window");
                assert_eq!(run(&mut cpu, &code), result, "{value:#x}");
                let expected = if result.is_ok() { value } else { 0x1f80 };
                assert_eq!(mxcsr(&cpu.state), expected);
            }
        }
    }

    #[test]
    fn a_store_that_fails_writes_nothing() {
        // fxsave beyond the end, at an address that is no multiple of 16, and within.
        const FXSAVE: [u8; 3] = [0x0f, 0xae, 0x00];
        for (at, result) in
            [(LEN - 256, Err(Event::Store(LEN))), (0x108, Err(Event::Privileged)), (0x100, Ok(()))]
        {
            let mut cpu = cpu(at);
            assert_eq!(run(&mut cpu, &FXSAVE), result, "{at:#x}");
            let word = cpu.window.load::<u32>(at).expect("in the window");
            assert_eq!(word, if result.is_ok() { 0x37f } else { 0 });
        }
        // maskmovdqu to the last eight bytes, with a mask of all, and of these.
        for (mask, result) in [(u64::MAX, Err(Event::Store(LEN))), (0, Ok(()))] {
            let mut cpu = cpu(0);
            cpu.state.x[usize::from(la64(7))] = LEN - 8;
            cpu.state.v[1].0 = [u64::MAX, mask, 0, 0];
            cpu.state.v[0].0 = [0x1234, 0x5678, 0, 0];
            assert_eq!(run(&mut cpu, &[0x66, 0x0f, 0xf7, 0xc1]), result);
            let word = cpu.window.load::<u64>(LEN - 8).expect("in the window");
            assert_eq!(word, if result.is_ok() { 0x1234 } else { 0 });
        }
    }

    #[test]
    fn reciprocals_have_the_manuals_corners() {
        let cases = [
            (0x8000_0000, 0xff80_0000, 0xff80_0000),
            (0x0000_0001, 0x7f80_0000, 0x7f80_0000),
            (0x8040_0000, 0xff80_0000, 0xff80_0000),
            (0x7f80_0000, 0, 0),
            (0xff80_0000, 0x8000_0000, 0xffc0_0000),
            (0xc080_0000, 0xbe80_0000, 0xffc0_0000),
            (0x4080_0000, 0x3e80_0000, 0x3f00_0000),
            (0x7f80_0001, 0x7fc0_0001, 0x7fc0_0001),
            // Its reciprocal is denormal.
            (0x7f00_0000, 0, 0x1fb5_04f3),
        ];
        for (value, one_over, one_over_root) in cases {
            assert_eq!(reciprocal(value, false), one_over, "{value:#x}");
            assert_eq!(reciprocal(value, true), one_over_root, "root of {value:#x}");
        }
    }
}
