//! pcmpestri, pcmpestrm, pcmpistrm: comparisons of two strings in vector registers, executed
//! outside translated code. pcmpistri is translated.
//!
//! The number that an instruction ends with says: bit 0, words in place of bytes; bit 1, elements
//! with signs; bits 2 and 3, how elements are compared ([`compared`]); bits 4 and 5, what is
//! negated; bit 6, the last place in place of the first, or a mask of elements in place of bits.

use super::decode::{Inst, Operand};
use super::isa::flag;
use super::memory::{address, load};
use super::registers::la64;
use crate::event::Event;
use littoral_base::mutant;
use littoral_la64::interp::Cpu;

/// A string: its elements, extended by their signs or by zeros, and how many of them count.
struct Text {
    elements: Vec<i64>,
    len: usize,
}

impl Text {
    /// Bytes or words of a vector; `len` is given or up to the first zero.
    fn new(vector: u128, control: u8, len: Option<usize>) -> Text {
        let bits = if control & 1 == 1 { 16 } else { 8 };
        let element = |n: u32| {
            let value = (vector >> (bits * n)) as u64 & ((1 << bits) - 1);
            let unused = if control & 2 == 2 { 64 - bits } else { 0 };
            (value << unused) as i64 >> unused
        };
        let elements: Vec<i64> = (0..128 / bits).map(element).collect();
        let first_zero = elements.iter().position(|&e| e == 0);
        let len = len.or(first_zero).unwrap_or(elements.len()).min(elements.len());
        Text { elements, len }
    }

    fn has(&self, n: usize) -> bool {
        n < self.len
    }
}

/// Whether place `n` of the second string fits the first, by the way that `control` names.
fn compared(control: u8, a: &Text, b: &Text, n: usize) -> bool {
    let is_equal = |i: usize, j: usize| a.elements[i] == b.elements[j];
    match control >> 2 & 3 {
        // It is one of the first string's elements.
        0 => b.has(n) && (0..a.len).any(|i| is_equal(i, n)),
        // It lies between two of them.
        1 => {
            let lies = |pair: &[i64]| pair[0] <= b.elements[n] && b.elements[n] <= pair[1];
            b.has(n) && a.elements[..a.len].chunks_exact(2).any(lies)
        }
        // It is the one at the same place, or both have ended.
        2 => match (a.has(n), b.has(n)) {
            (true, true) => is_equal(n, n),
            (first, second) => first == second,
        },
        // The first string begins here, as far as this vector goes.
        _ => {
            let mut places = (0..a.len).take_while(|i| n + i < b.elements.len());
            places.all(|i| b.has(n + i) && is_equal(i, n + i))
        }
    }
}

/// The places that fit, one bit each.
fn places(control: u8, a: &Text, b: &Text) -> u32 {
    let count = b.elements.len();
    assert_eq!(a.elements.len(), count, "invariant: one number says the width of both");
    let bits = (0..count).fold(0u32, |all, n| all | u32::from(compared(control, a, b, n)) << n);
    let ones = |len: usize| (1u32 << len) - 1;
    match control >> 4 & 3 {
        1 => bits ^ ones(count),
        3 if mutant!("x86_strings_negate_past_end") => bits ^ ones(count),
        3 => bits ^ ones(b.len),
        _ => bits,
    }
}

/// The operand that a vector register or memory holds.
fn value(cpu: &Cpu, operand: Operand) -> Result<u128, Event> {
    match operand {
        Operand::Xmm(n) => {
            let [low, high, ..] = cpu.state.v[usize::from(n)].0;
            Ok(u128::from(high) << 64 | u128::from(low))
        }
        Operand::Mem(m) => load(cpu, address(&cpu.state, &m)).map(u128::from_le_bytes),
        _ => Err(Event::Illegal(0)),
    }
}

/// A length in a general register: its magnitude, 32 bits of it unless the instruction is wide.
fn length(cpu: &Cpu, register: u8, is_wide: bool) -> usize {
    const MOST: u64 = 16;
    let value = cpu.state.x[usize::from(la64(register))];
    let magnitude = match is_wide {
        true => (value as i64).unsigned_abs(),
        false => u64::from((value as i32).unsigned_abs()),
    };
    magnitude.min(MOST) as usize
}

/// Executes one of the three.
///
/// # Errors
/// The operand in memory is missing; registers are then as before.
pub(super) fn execute(cpu: &mut Cpu, inst: &Inst) -> Result<(), Event> {
    let Some(Operand::Imm(control)) = inst.operands().last() else {
        return Err(Event::Illegal(0));
    };
    let (control, name) = (control as u8, inst.row.stem);
    let given = |register| name.starts_with("pcmpe").then(|| length(cpu, register, inst.size == 8));
    let a = Text::new(value(cpu, inst.operand(0))?, control, given(0));
    let b = Text::new(value(cpu, inst.operand(1))?, control, given(2));
    let (found, count) = (places(control, &a, &b), b.elements.len());
    let is_far = control >> 6 & 1 == 1;
    if name.ends_with('i') {
        let place = match (found, is_far) {
            (0, _) => count as u32,
            (_, true) => found.ilog2(),
            (_, false) => found.trailing_zeros(),
        };
        cpu.state.x[usize::from(la64(1))] = place.into();
    } else {
        let bits = 128 / count;
        let element = |n: usize| (u128::from(found >> n & 1) * ((1 << bits) - 1)) << (bits * n);
        let mask = match is_far {
            true => (0..count).fold(0, |all, n| all | element(n)),
            false => found.into(),
        };
        cpu.state.v[0].0[..2].copy_from_slice(&[mask as u64, (mask >> 64) as u64]);
    }
    set_flags(cpu, [found != 0, b.len < count, a.len < count, found & 1 == 1]);
    Ok(())
}

/// Sets carry, zero, sign and overflow, and clears the others.
fn set_flags(cpu: &mut Cpu, values: [bool; 4]) {
    let place = |of: u8| flag::PLACES[of.trailing_zeros() as usize];
    let flags = &mut cpu.state.lbt.flags;
    *flags &= !flag::PLACES.iter().fold(0, |bits, &p| bits | 1u32 << p);
    for (of, value) in [flag::C, flag::Z, flag::S, flag::O].into_iter().zip(values) {
        *flags |= u32::from(value) << place(of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &str) -> Text {
        let mut all = [0; 16];
        all[..bytes.len()].copy_from_slice(bytes.as_bytes());
        Text::new(u128::from_le_bytes(all), 0, None)
    }

    #[test]
    fn each_way_finds_its_places() {
        let found = |control, a: &str, b: &str| places(control, &text(a), &text(b));
        assert_eq!(found(0b0000, "aeiou", "translate"), 0b1_0100_0100);
        assert_eq!(found(0b0100, "a09z", "-5"), 0);
        assert_eq!(found(0b0100, "09az", "-5b"), 0b110);
        assert_eq!(found(0b1000, "same", "sane") & 0xf, 0b1011);
        assert_eq!(found(0b1100, "an", "banana"), 0b1010);
        // Negated: all places, and those that count.
        assert_eq!(found(0b01_0000, "b", "abc"), 0xfffd);
        assert_eq!(found(0b11_0000, "b", "abc"), 0b101);
    }

    #[test]
    fn a_string_at_the_end_of_the_vector_may_go_on() {
        let b = "0123456789abcdea";
        assert_eq!(places(0b1100, &text("ab"), &text(b)), 1 << 10 | 1 << 15);
        assert_eq!(places(0b1100, &text("a"), &text("")), 0);
    }
}
