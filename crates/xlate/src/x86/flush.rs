//! Arithmetic of SSE outside translated code, in processes of which a thread has denormal numbers
//! count as zeros (bits 6 and 15 of MXCSR): LA64 has no such mode. Translated code leaves for here
//! where an operand is denormal or a result may be tiny, and always for some instructions (see
//! `lower::floating`).
//!
//! - Each thread's MXCSR says what becomes of its own denormal numbers; a thread without these bits
//!   gets what translated code would give.
//! - An instruction that is several operations raises what each of them does, one after the other.
//! - Registers are written behind the last operation, so an exception that is not masked finds them
//!   as they were.

use super::completion;
use super::decode::{Inst, Operand};
use super::float::{CONDITIONS, Flushed};
use super::isa::flag;
use super::memory::{address, load};
use super::registers::la64;
use crate::event::Event;
use littoral_la64::float::{self, Double, Env, Format, Rounding, Single, flag as raised};
use littoral_la64::interp::Cpu;
use littoral_la64::state::State;
use std::cmp::Ordering;

/// The rounding modes that `roundps` and its kin name.
const ROUNDINGS: [Rounding; 4] =
    [Rounding::NearestEven, Rounding::Down, Rounding::Up, Rounding::Zero];

/// Executes an instruction.
///
/// # Errors
/// What it raises; registers are then as before.
pub(super) fn execute(cpu: &mut Cpu, inst: &Inst) -> Result<(), Event> {
    let stem = inst.row.stem;
    match &stem[..stem.len() - 2] {
        "comi" | "ucomi" => compare_to_flags(cpu, inst),
        _ if stem.starts_with("cvt") => convert(cpu, inst),
        _ => arithmetic(cpu, inst),
    }
}

/// Bits of an element by its letter.
fn bits_of(letter: &str) -> u32 {
    if matches!(letter, "s" | "w") { 32 } else { 64 }
}

/// A vector register.
fn vector(state: &State, n: u8) -> [u64; 2] {
    let [low, high, ..] = state.v[usize::from(n)].0;
    [low, high]
}

/// The second operand, zeros above what memory gives.
fn source(cpu: &Cpu, inst: &Inst) -> Result<[u64; 2], Event> {
    let wide = |at: u64| load(cpu, at).map(u64::from_le_bytes);
    match inst.operand(1) {
        Operand::Xmm(n) => Ok(vector(&cpu.state, n)),
        Operand::Mem(m) => {
            let at = address(&cpu.state, &m);
            match m.size {
                4 => load(cpu, at).map(|bytes| [u32::from_le_bytes(bytes).into(), 0]),
                8 => Ok([wide(at)?, 0]),
                _ if !at.is_multiple_of(16) => Err(Event::Privileged),
                _ => Ok([wide(at)?, wide(at.wrapping_add(8))?]),
            }
        }
        Operand::Reg(_) | Operand::Mm(_) | Operand::Imm(_) | Operand::Target(_) => {
            Err(Event::Illegal(0))
        }
    }
}

/// The elements of a vector.
fn elements(vector: [u64; 2], bits: u32) -> Vec<u64> {
    match bits {
        32 => vector.iter().flat_map(|word| [word & 0xffff_ffff, word >> 32]).collect(),
        _ => vector.to_vec(),
    }
}

/// Writes elements to a vector register, and zeros above them.
fn write(state: &mut State, register: u8, elements: &[u64], bits: u32) {
    let mut vector = [0; 2];
    for (n, element) in elements.iter().enumerate() {
        match bits {
            32 => vector[n / 2] |= (element & 0xffff_ffff) << (32 * (n % 2)),
            _ => vector[n] = *element,
        }
    }
    state.v[usize::from(register)].0[..2].copy_from_slice(&vector);
}

/// `min` and `max`: the second number unless the first is less, or greater.
fn lesser<F: Format>(name: &str, a: u64, b: u64, env: &mut Env) -> u64 {
    let wanted = if name == "fmin" { Ordering::Less } else { Ordering::Greater };
    match float::compare::<F>(a, b, true, env) {
        Some(order) if order == wanted => a,
        _ => b,
    }
}

/// The operations of one instruction.
struct Step<'a> {
    state: &'a mut State,
    flushed: Flushed,
    rounding: Rounding,
    /// Exceptions that the instruction does not raise.
    hidden: u32,
}

impl<'a> Step<'a> {
    fn new(state: &'a mut State) -> Step<'a> {
        let (flushed, rounding) = (Flushed::of(state), Rounding::from_bits(state.fcsr >> 8));
        Step { state, flushed, rounding, hidden: 0 }
    }

    /// The results of one operation on pairs of elements. Name and suffix are those of LA64's
    /// instruction.
    fn each(&mut self, name: &str, suffix: &str, pairs: &[(u64, u64)]) -> Result<Vec<u64>, Event> {
        let results: Vec<(u64, u32)> =
            pairs.iter().map(|&pair| self.one(name, suffix, pair)).collect();
        self.raise(results.iter().fold(0u32, |all, &(_, flags)| all | flags))?;
        Ok(results.into_iter().map(|(value, _)| value).collect())
    }

    /// Notes what an operation has raised.
    fn raise(&mut self, flags: u32) -> Result<(), Event> {
        match completion::raise(self.state, flags & !self.hidden) {
            true => Err(Event::Float),
            false => Ok(()),
        }
    }

    /// One element of the result, and what it raises.
    fn one(&self, name: &str, suffix: &str, (a, b): (u64, u64)) -> (u64, u32) {
        let (to, from) = match (name, suffix.split_once('.')) {
            // These give no new number.
            ("fcmp", Some((_, from))) => ("", from),
            ("fmin" | "fmax", _) => ("", suffix),
            (_, Some(formats)) => formats,
            (_, None) => (suffix, suffix),
        };
        let operands = (self.flushed.operand(from, a), self.flushed.operand(from, b));
        let mut env = Env::new(self.rounding);
        let value = match (name, from) {
            ("fmin" | "fmax", "s") => lesser::<Single>(name, operands.0, operands.1, &mut env),
            ("fmin" | "fmax", _) => lesser::<Double>(name, operands.0, operands.1, &mut env),
            _ => completion::element(name, suffix, operands, &mut env)
                .expect("invariant: an operation of SSE has a rule"),
        };
        let value = self.flushed.result(to, value, &mut env);
        let traps = env.flags & completion::unmasked(self.state) & raised::OVERFLOW != 0;
        if traps && completion::is_exact_beyond(name, suffix, operands, self.rounding) {
            env.flags &= !raised::INEXACT;
        }
        (value, env.flags)
    }

    /// `cmpps` and its kin, by one of eight conditions.
    fn compare(&mut self, by: u8, suffix: &str, pairs: &[(u64, u64)]) -> Result<Vec<u64>, Event> {
        let (condition, is_swapped) = CONDITIONS[usize::from(by & 7)];
        let ordered = |&(a, b): &(u64, u64)| if is_swapped { (b, a) } else { (a, b) };
        let pairs: Vec<_> = pairs.iter().map(ordered).collect();
        self.each("fcmp", &format!("{condition}.{suffix}"), &pairs)
    }

    /// `roundps` and its kin.
    fn round(&mut self, by: u8, suffix: &str, pairs: &[(u64, u64)]) -> Result<Vec<u64>, Event> {
        if by & 4 == 0 {
            self.rounding = ROUNDINGS[usize::from(by & 3)];
        }
        self.hidden = if by & 8 != 0 { raised::INEXACT } else { 0 };
        self.each("frint", suffix, pairs)
    }

    /// `addsubps` and `addsubpd`: in even elements the second number is negated, but not a NaN.
    fn add_subtract(&mut self, suffix: &str, pairs: &[(u64, u64)]) -> Result<Vec<u64>, Event> {
        let negated = |bits: u64| match suffix {
            "s" if completion::nan::<Single>(bits).is_none() => bits ^ Single::SIGN,
            "d" if completion::nan::<Double>(bits).is_none() => bits ^ Double::SIGN,
            _ => bits,
        };
        let with_sign = |(n, &(a, b)): (usize, &(u64, u64))| {
            if n % 2 == 0 { (a, negated(b)) } else { (a, b) }
        };
        let pairs: Vec<_> = pairs.iter().enumerate().map(with_sign).collect();
        self.each("fadd", suffix, &pairs)
    }

    /// `dpps` and `dppd`: products of the elements that the upper four bits name, their sum in
    /// those that the lower four name. A product that is not asked for raises nothing.
    fn dot_product(
        &mut self,
        by: u8,
        suffix: &str,
        pairs: &[(u64, u64)],
    ) -> Result<Vec<u64>, Event> {
        let taken = |(n, &pair): (usize, &(u64, u64))| {
            if by >> (4 + n) & 1 == 1 { pair } else { (0, 0) }
        };
        let factors: Vec<_> = pairs.iter().enumerate().map(taken).collect();
        let mut sums = self.each("fmul", suffix, &factors)?;
        while sums.len() > 1 {
            sums = self.each("fadd", suffix, &neighbours(&sums))?;
        }
        Ok((0..pairs.len()).map(|n| if by >> n & 1 == 1 { sums[0] } else { 0 }).collect())
    }
}

/// Each two elements that stand side by side.
fn neighbours(elements: &[u64]) -> Vec<(u64, u64)> {
    elements.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// What gives numbers of the format of its operands, and `cmpps` and its kin.
fn arithmetic(cpu: &mut Cpu, inst: &Inst) -> Result<(), Event> {
    let Operand::Xmm(register) = inst.operand(0) else { return Err(Event::Illegal(0)) };
    let (name, kind) = inst.row.stem.split_at(inst.row.stem.len() - 2);
    let suffix = &kind[1..];
    let second = elements(source(cpu, inst)?, bits_of(suffix));
    let mut first = elements(vector(&cpu.state, register), bits_of(suffix));
    let count = if kind.starts_with('p') { first.len() } else { 1 };
    let pairs: Vec<(u64, u64)> =
        first.iter().copied().zip(second.iter().copied()).take(count).collect();
    let alone: Vec<(u64, u64)> = second.iter().take(count).map(|&b| (b, 0)).collect();
    let by = match inst.operands().last() {
        Some(Operand::Imm(value)) => value as u8,
        _ => 0,
    };
    let mut step = Step::new(&mut cpu.state);
    let results = match name {
        "sqrt" => step.each("fsqrt", suffix, &alone),
        "cmp" => step.compare(by, suffix, &pairs),
        "round" => step.round(by, suffix, &alone),
        "addsub" => step.add_subtract(suffix, &pairs),
        "dp" => step.dot_product(by, suffix, &pairs),
        "hadd" | "hsub" => {
            let both = neighbours(&[&first[..], &second[..]].concat());
            step.each(if name == "hadd" { "fadd" } else { "fsub" }, suffix, &both)
        }
        // add, sub, mul, div, min, max.
        _ => step.each(&format!("f{name}"), suffix, &pairs),
    }?;
    first[..results.len()].copy_from_slice(&results);
    write(&mut cpu.state, register, &first, bits_of(suffix));
    Ok(())
}

/// `comiss` and its kin: carry is less or unordered, zero equal or unordered, parity unordered.
fn compare_to_flags(cpu: &mut Cpu, inst: &Inst) -> Result<(), Event> {
    let Operand::Xmm(register) = inst.operand(0) else { return Err(Event::Illegal(0)) };
    let suffix = &inst.row.stem[inst.row.stem.len() - 1..];
    let low = |vector: [u64; 2]| elements(vector, bits_of(suffix))[0];
    let second = low(source(cpu, inst)?);
    let first = low(vector(&cpu.state, register));
    let mut step = Step::new(&mut cpu.state);
    let (a, b) = (step.flushed.operand(suffix, first), step.flushed.operand(suffix, second));
    let (signals, mut env) = (!inst.row.stem.starts_with('u'), Env::new(step.rounding));
    let order = match suffix {
        "s" => float::compare::<Single>(a, b, signals, &mut env),
        _ => float::compare::<Double>(a, b, signals, &mut env),
    };
    step.raise(env.flags)?;
    let holds = match order {
        None => flag::C | flag::P | flag::Z,
        Some(Ordering::Less) => flag::C,
        Some(Ordering::Equal) => flag::Z,
        Some(Ordering::Greater) => 0,
    };
    let places = |set: u8| {
        let chosen = flag::PLACES.iter().enumerate().filter(|(n, _)| set >> n & 1 == 1);
        chosen.fold(0u32, |all, (_, &place)| all | 1 << place)
    };
    let flags = &mut cpu.state.lbt.flags;
    *flags = *flags & !places(flag::ALL) | places(holds);
    Ok(())
}

/// Conversions from one format to another, and to integers.
fn convert(cpu: &mut Cpu, inst: &Inst) -> Result<(), Event> {
    let to = inst.operand(0);
    let is_wide = matches!(to, Operand::Reg(r) if r.size == 8);
    let letter = |kind: &str| match kind {
        "ps" | "ss" => "s",
        "pd" | "sd" => "d",
        _ if is_wide => "l",
        _ => "w",
    };
    let stem = inst.row.stem;
    let truncated = stem.strip_prefix("cvtt");
    let (from, into) = truncated.unwrap_or(&stem[3..]).split_once('2').unwrap_or_default();
    let is_scalar = from.starts_with('s');
    let (from, into) = (letter(from), letter(into));
    let most = 128 / bits_of(from).max(bits_of(into));
    let count = if is_scalar { 1 } else { most as usize };
    let numbers = elements(source(cpu, inst)?, bits_of(from));
    let numbers: Vec<(u64, u64)> = numbers.into_iter().take(count).map(|a| (a, 0)).collect();
    let mut step = Step::new(&mut cpu.state);
    if truncated.is_some() {
        step.rounding = Rounding::Zero;
    }
    let results = step.each("fcvt", &format!("{into}.{from}"), &numbers)?;
    match to {
        Operand::Reg(r) => {
            let mask = if is_wide { u64::MAX } else { 0xffff_ffff };
            cpu.state.x[usize::from(la64(r.number))] = results[0] & mask;
        }
        Operand::Xmm(register) if is_scalar => {
            let mut all = elements(vector(&cpu.state, register), bits_of(into));
            all[0] = results[0];
            write(&mut cpu.state, register, &all, bits_of(into));
        }
        Operand::Xmm(register) => write(&mut cpu.state, register, &results, bits_of(into)),
        Operand::Mem(_) | Operand::Mm(_) | Operand::Imm(_) | Operand::Target(_) => {
            return Err(Event::Illegal(0));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::decode::decode;
    use super::super::float::Vectors;
    use super::*;
    use littoral_la64::interp::Features;
    use littoral_la64::memory::Memory;

    /// MXCSR with denormal operands as zeros, with denormal results as zeros, with both, with none.
    const OPERANDS: u32 = 0x1fc0;
    const RESULTS: u32 = 0x9f80;
    const BOTH: u32 = 0x9fc0;
    const NONE: u32 = 0x1f80;
    /// Flags: invalid, division by zero, underflow with inexact, inexact.
    const INVALID: u32 = 1;
    const BY_ZERO: u32 = 4;
    const TINY: u32 = 0x30;
    const INEXACT: u32 = 0x20;

    const ADDSS: [u8; 4] = [0xf3, 0x0f, 0x58, 0xc1];
    const MULSS: [u8; 4] = [0xf3, 0x0f, 0x59, 0xc1];
    const DIVSS: [u8; 4] = [0xf3, 0x0f, 0x5e, 0xc1];
    const MINSS: [u8; 4] = [0xf3, 0x0f, 0x5d, 0xc1];
    const MAXSS: [u8; 4] = [0xf3, 0x0f, 0x5f, 0xc1];
    const SQRTSS: [u8; 4] = [0xf3, 0x0f, 0x51, 0xc1];
    const MULSD: [u8; 4] = [0xf2, 0x0f, 0x59, 0xc1];

    /// An instruction on xmm0 and xmm1 under an MXCSR; the error, xmm0 and the flags.
    fn ended(
        code: &[u8],
        mxcsr: u32,
        (a, b): ([u64; 2], [u64; 2]),
    ) -> (Result<(), Event>, [u64; 2], u32) {
        let mut cpu = Cpu::new(Memory::leaked(0x1000), Features::ALL);
        let mut vectors = Vectors { mxcsr, ..Vectors::default() };
        (vectors.xmm[0], vectors.xmm[1]) = (a, b);
        vectors.write(&mut cpu.state);
        let result = execute(&mut cpu, &decode(0, code).expect("an instruction"));
        let vectors = Vectors::read(&cpu.state);
        assert_eq!(vectors.mxcsr & !0x3f, mxcsr, "only flags change");
        (result, vectors.xmm[0], vectors.mxcsr & 0x3f)
    }

    /// The same of low parts: what stands above that of xmm0 stays.
    fn low(code: &[u8], mxcsr: u32, a: u64, b: u64) -> (u64, u32) {
        const ABOVE: u64 = 0x1234_5678_9abc_def0;
        let (result, [low, high], flags) = ended(code, mxcsr, ([a, ABOVE], [b, 7]));
        assert_eq!((result, high), (Ok(()), ABOVE), "{code:x?} {mxcsr:x}");
        (low, flags)
    }

    #[test]
    fn denormal_operands_are_zeros_of_their_sign() {
        // The least number and one; the same negative; twice.
        assert_eq!(low(&ADDSS, OPERANDS, 1, 0x3f80_0000), (0x3f80_0000, 0));
        assert_eq!(low(&ADDSS, NONE, 1, 0x3f80_0000), (0x3f80_0000, INEXACT));
        assert_eq!(low(&ADDSS, OPERANDS, 0x8000_0001, 0x807f_ffff), (0x8000_0000, 0));
        assert_eq!(low(&ADDSS, NONE, 1, 1), (2, 0));
        assert_eq!(low(&DIVSS, OPERANDS, 0x3f80_0000, 0x8000_0001), (0xff80_0000, BY_ZERO));
        assert_eq!(low(&DIVSS, OPERANDS, 1, 1), (0xffc0_0000, INVALID));
        assert_eq!(low(&SQRTSS, OPERANDS, 0, 0x8000_0001), (0x8000_0000, 0));
        assert_eq!(low(&SQRTSS, RESULTS, 0, 0x8000_0001), (0xffc0_0000, INVALID));
        // Equal, so the second one, as a zero.
        assert_eq!(low(&MINSS, OPERANDS, 1, 0x8000_0001), (0x8000_0000, 0));
        assert_eq!(low(&MAXSS, OPERANDS, 0x8000_0001, 1), (0, 0));
        // A product of normal numbers may be denormal.
        assert_eq!(low(&MULSS, OPERANDS, 0x0080_0000, 0x3f00_0000), (0x0040_0000, 0));
        let (least, one) = (1, 0x3ff0_0000_0000_0000);
        assert_eq!(low(&MULSD, OPERANDS, least, one), (0, 0));
    }

    #[test]
    fn tiny_results_are_zeros_of_their_sign() {
        // Exact, negative, exact and of doubles; and one that is only denormal as an operand.
        assert_eq!(low(&MULSS, RESULTS, 0x0080_0000, 0x3f00_0000), (0, TINY));
        assert_eq!(low(&MULSS, RESULTS, 0x8080_0001, 0x3f00_0000), (0x8000_0000, TINY));
        let [normal, half] = [0x0010_0000_0000_0000u64, 0x3fe0_0000_0000_0000];
        assert_eq!(low(&MULSD, RESULTS, normal, half | 1 << 63), (1 << 63, TINY));
        assert_eq!(low(&ADDSS, RESULTS, 1, 0), (0, TINY));
        assert_eq!(low(&ADDSS, RESULTS, 0x0080_0001, 0x8080_0000), (0, TINY));
        assert_eq!(low(&MINSS, RESULTS, 0x3f80_0000, 1), (1, 0));
        assert_eq!(low(&ADDSS, BOTH, 1, 0x8080_0000), (0x8080_0000, 0));
    }

    #[test]
    fn a_result_is_tiny_before_its_digits_are_cut() {
        // 24 ones below the least normal number, to which they would be rounded.
        assert_eq!(low(&MULSS, NONE, 0x3f7f_ffff, 0x0080_0000), (0x0080_0000, TINY));
        assert_eq!(low(&MULSS, RESULTS, 0x3f7f_ffff, 0x0080_0000), (0, TINY));
        // More ones than a normal number has: that is rounded to the least one.
        assert_eq!(low(&MULSS, RESULTS, 0x3f7f_fffe, 0x0080_0001), (0x0080_0000, INEXACT));
    }

    #[test]
    fn conversions_and_comparisons_take_denormal_operands_as_zeros() {
        const TO_DOUBLE: [u8; 4] = [0xf3, 0x0f, 0x5a, 0xc1];
        const TO_SINGLE: [u8; 4] = [0xf2, 0x0f, 0x5a, 0xc1];
        const ROUNDSS_UP: [u8; 6] = [0x66, 0x0f, 0x3a, 0x0a, 0xc1, 2];
        const CMPEQSS: [u8; 5] = [0xf3, 0x0f, 0xc2, 0xc1, 0];
        assert_eq!(low(&TO_DOUBLE, OPERANDS, 5, 0x8000_0001), (1 << 63, 0));
        assert_eq!(low(&TO_DOUBLE, RESULTS, 5, 1), (0x36a0_0000_0000_0000, 0));
        let tiny = 0x36a0_0000_0000_0001;
        assert_eq!(low(&TO_SINGLE, RESULTS, 5 << 32, tiny), (5 << 32, TINY));
        assert_eq!(low(&TO_SINGLE, OPERANDS, 5 << 32, tiny), (5 << 32 | 1, TINY));
        assert_eq!(low(&ROUNDSS_UP, OPERANDS, 0, 1), (0, 0));
        assert_eq!(low(&ROUNDSS_UP, RESULTS, 0, 1), (0x3f80_0000, INEXACT));
        assert_eq!(low(&CMPEQSS, OPERANDS, 1, 0x8000_0001), (0xffff_ffff, 0));
        assert_eq!(low(&CMPEQSS, RESULTS, 1, 0x8000_0001), (0, 0));
    }

    #[test]
    fn every_element_of_a_vector_is_flushed() {
        const MULPS: [u8; 3] = [0x0f, 0x59, 0xc1];
        const DPPS: [u8; 6] = [0x66, 0x0f, 0x3a, 0x40, 0xc1, 0xf1];
        let [normal, one, half, least] = [0x0080_0000u64, 0x3f80_0000, 0x3f00_0000, 1];
        let a = [normal << 32 | one, least << 32 | one];
        let b = [half << 32 | one, one << 32 | least];
        let flushed = |mxcsr| ended(&MULPS, mxcsr, (a, b));
        assert_eq!(flushed(BOTH), (Ok(()), [one, 0], TINY));
        assert_eq!(flushed(OPERANDS), (Ok(()), [0x0040_0000 << 32 | one, 0], 0));
        assert_eq!(flushed(RESULTS), (Ok(()), [one, 0], TINY));
        // A tiny product adds nothing to the sum, which is exact then.
        let (a, b) = ([normal << 32 | one, 0], [half << 32 | one, 0]);
        assert_eq!(ended(&DPPS, RESULTS, (a, b)), (Ok(()), [one, 0], TINY));
    }

    #[test]
    fn an_exception_that_is_not_masked_leaves_registers() {
        const INVALID_OPEN: u32 = 0x1f40;
        let (zeros, ones) = ([0, 0], [0x3f80_0000, 0]);
        let (result, xmm, flags) = ended(&DIVSS, INVALID_OPEN, ([1, 9], [1, 0]));
        assert_eq!((result, xmm, flags), (Err(Event::Float), [1, 9], INVALID));
        // Inexact results are not masked: one that becomes zero is one.
        let open = RESULTS & !0x1000;
        let (result, xmm, flags) = ended(&MULSS, open, ([0x0080_0000, 9], [0x3f00_0000, 0]));
        assert_eq!((result, xmm, flags), (Err(Event::Float), [0x0080_0000, 9], TINY));
        assert_eq!(ended(&ADDSS, open, (zeros, ones)), (Ok(()), ones, 0));
    }
}
