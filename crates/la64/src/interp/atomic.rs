//! Atomic memory operations, load-linked and store-conditional.
//!
//! - All are sequentially consistent compare-and-swap loops on the host's memory, which is stronger
//!   than the architecture asks, so `_db` and plain forms share code.
//! - Store-conditional compares the value that load-linked saw: another thread's change back to the
//!   same value goes unnoticed, as in QEMU. `sc.q` pairs with loads linked by `ll.d` and `ld.d`: it
//!   compares what the `ld.d` (or `ldptr.d`) read, if that stands at most [`HALVES_APART_MAX`]
//!   instructions behind the `ll.d`, otherwise what followed the value of `ll.d` when that read.
//!   Checked by `a_pair_is_compared_with_what_the_program_read`.
//! - Off its natural alignment an atomic access traps; `am*` with rd equal to rj or rk (other than
//!   register 0) is illegal, except that `amcas` may have rd equal to rk.

use super::operation::{Entry, illegal_operand};
use super::{Cpu, Cursor, Exit, Trap};
use crate::memory::raw::Word;
use littoral_base::mutant;

/// How far the load of a pair's second half may stand behind that of the first, in instructions.
const HALVES_APART_MAX: u64 = 4;

/// An integer that atomics work on.
trait Cell: Word + PartialEq {
    fn down(value: u64) -> Self;
    fn up(self) -> u64;
}

macro_rules! cell {
    ($type:ty, $signed:ty) => {
        impl Cell for $type {
            #[inline(always)]
            fn down(value: u64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn up(self) -> u64 {
                self as $signed as u64
            }
        }
    };
}
cell!(u8, i8);
cell!(u16, i16);
cell!(u32, i32);
cell!(u64, i64);

fn aligned<T>(at: u64) -> bool {
    at.is_multiple_of(size_of::<T>() as u64)
}

fn overlaps(i: Cursor<'_>) -> bool {
    i.rd.number() != 0 && (i.rd == i.rj || i.rd == i.rk)
}

#[inline(always)]
fn modify<T: Cell>(cpu: &mut Cpu, i: Cursor<'_>, f: impl Fn(T, T) -> T) -> Exit {
    let at = cpu.x(i.rj);
    if overlaps(i) {
        return illegal_operand(cpu, i);
    }
    if !aligned::<T>(at) {
        return cpu.fault(i, Trap::Unaligned(at));
    }
    let Some(mut old) = cpu.window.load::<T>(at) else {
        return cpu.fault(i, Trap::Load(at));
    };
    let operand = T::down(cpu.x(i.rk));
    loop {
        match cpu.window.swap_if(at, old, f(old, operand)) {
            None => return cpu.fault(i, Trap::Store(at)),
            Some(seen) if seen == old => break,
            Some(seen) => old = seen,
        }
    }
    cpu.set_x(i.to, old.up());
    i.chain(cpu)
}

macro_rules! am {
    ($type:ty, $f:expr) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            modify::<$type>(cpu, i, $f)
        }
        run
    }};
}

fn amcas<T: Cell>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let at = cpu.x(i.rj);
    if !aligned::<T>(at) {
        return cpu.fault(i, Trap::Unaligned(at));
    }
    match cpu.window.swap_if(at, T::down(cpu.x(i.rd)), T::down(cpu.x(i.rk))) {
        None => cpu.fault(i, Trap::Store(at)),
        Some(seen) => {
            cpu.set_x(i.to, seen.up());
            i.chain(cpu)
        }
    }
}

#[inline(always)]
fn link<T: Cell>(cpu: &mut Cpu, i: Cursor<'_>, at: u64) -> Exit {
    if !aligned::<T>(at) {
        return cpu.fault(i, Trap::Unaligned(at));
    }
    let Some(value) = cpu.window.load::<T>(at) else {
        return cpu.fault(i, Trap::Load(at));
    };
    cpu.state.link_address = at;
    cpu.state.link_value = value.up();
    // For a pair whose other half is not loaded by `second_half`. A failed read only makes `sc.q`
    // fail.
    cpu.state.link_value_high = cpu.window.load::<u64>(at.wrapping_add(8)).unwrap_or(0);
    cpu.set_x(i.to, value.up());
    i.chain(cpu)
}

/// Whether a word may load the second half of a pair: it loads a doubleword close behind a linked
/// one. `read` gives words of code.
pub(super) fn is_second_half(word: u32, pc: u64, read: impl Fn(u64) -> Option<u32>) -> bool {
    const LD_D: u32 = 0xa3;
    const LDPTR_D: u32 = 0x26;
    const LL_D: u32 = 0x22;
    const LLACQ_D: u32 = 0xe_15e2;
    let loads = word >> 22 == LD_D || word >> 24 == LDPTR_D;
    let links = |before: u32| before >> 24 == LL_D || before >> 10 == LLACQ_D;
    let before = |n: u64| read(pc.wrapping_sub(4 * n));
    loads && (1..=HALVES_APART_MAX).any(|n| before(n).is_some_and(links))
}

/// `ld.d` of what may be the second half of a pair.
pub(super) fn second_half(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let at = cpu.x(i.rj).wrapping_add(i.imm as u64);
    let Some(value) = cpu.window.load::<u64>(at) else {
        return cpu.fault(i, Trap::Load(at));
    };
    note_second_half(cpu, at, value);
    cpu.set_x(i.to, value);
    i.chain(cpu)
}

/// A doubleword was read: what `sc.q` compares, if it is the second half of the linked pair.
pub(super) fn note_second_half(cpu: &mut Cpu, at: u64, value: u64) {
    let is_linked = at == cpu.state.link_address.wrapping_add(8);
    if is_linked && !mutant!("la64_second_half_of_the_link") {
        cpu.state.link_value_high = value;
    }
}

#[inline(always)]
fn conditional<T: Cell>(cpu: &mut Cpu, i: Cursor<'_>, at: u64) -> Exit {
    if !aligned::<T>(at) {
        return cpu.fault(i, Trap::Unaligned(at));
    }
    let open = cpu.state.link_address == at;
    let mut stored = false;
    if open {
        let (old, new) = (T::down(cpu.state.link_value), T::down(cpu.x(i.rd)));
        match cpu.window.swap_if(at, old, new) {
            None => return cpu.fault(i, Trap::Store(at)),
            Some(seen) => stored = seen == old,
        }
    }
    cpu.state.link_address = u64::MAX;
    cpu.set_x(i.to, u64::from(stored));
    i.chain(cpu)
}

fn sc_q(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let at = cpu.x(i.rj);
    if !at.is_multiple_of(16) {
        return cpu.fault(i, Trap::Unaligned(at));
    }
    let mut stored = false;
    if cpu.state.link_address == at {
        let old = [cpu.state.link_value, cpu.state.link_value_high];
        let new = [cpu.x(i.rd), cpu.x(i.rk)];
        match cpu.window.swap_if_16(at, old, new) {
            None => return cpu.fault(i, Trap::Store(at)),
            Some(done) => stored = done,
        }
    }
    cpu.state.link_address = u64::MAX;
    cpu.set_x(i.to, u64::from(stored));
    i.chain(cpu)
}

macro_rules! at_offset {
    ($f:ident, $type:ty) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let at = cpu.x(i.rj).wrapping_add(i.imm as u64);
            $f::<$type>(cpu, i, at)
        }
        run
    }};
}

/// Both the plain and the `_db` form of an operation on one type.
macro_rules! pairs {
    ($($name:literal $suffix:literal $type:ty, $f:expr;)*) => {
        &[
            ("ll.w", at_offset!(link, u32)),
            ("ll.d", at_offset!(link, u64)),
            ("llacq.w", at_offset!(link, u32)),
            ("llacq.d", at_offset!(link, u64)),
            ("sc.w", at_offset!(conditional, u32)),
            ("sc.d", at_offset!(conditional, u64)),
            ("screl.w", at_offset!(conditional, u32)),
            ("screl.d", at_offset!(conditional, u64)),
            ("sc.q", sc_q),
            ("amcas.b", amcas::<u8>),
            ("amcas.h", amcas::<u16>),
            ("amcas.w", amcas::<u32>),
            ("amcas.d", amcas::<u64>),
            ("amcas_db.b", amcas::<u8>),
            ("amcas_db.h", amcas::<u16>),
            ("amcas_db.w", amcas::<u32>),
            ("amcas_db.d", amcas::<u64>),
            $((concat!($name, $suffix), am!($type, $f)),
              (concat!($name, "_db", $suffix), am!($type, $f)),)*
        ]
    };
}

pub(super) static TABLE: &[Entry] = pairs! {
    "amswap" ".b" u8, |_, b| b;
    "amswap" ".h" u16, |_, b| b;
    "amswap" ".w" u32, |_, b| b;
    "amswap" ".d" u64, |_, b| b;
    "amadd" ".b" u8, u8::wrapping_add;
    "amadd" ".h" u16, u16::wrapping_add;
    "amadd" ".w" u32, u32::wrapping_add;
    "amadd" ".d" u64, u64::wrapping_add;
    "amand" ".w" u32, |a, b| a & b;
    "amand" ".d" u64, |a, b| a & b;
    "amor" ".w" u32, |a, b| a | b;
    "amor" ".d" u64, |a, b| a | b;
    "amxor" ".w" u32, |a, b| a ^ b;
    "amxor" ".d" u64, |a, b| a ^ b;
    "ammax" ".w" u32, |a, b| (a as i32).max(b as i32) as u32;
    "ammax" ".d" u64, |a, b| (a as i64).max(b as i64) as u64;
    "ammin" ".w" u32, |a, b| (a as i32).min(b as i32) as u32;
    "ammin" ".d" u64, |a, b| (a as i64).min(b as i64) as u64;
    "ammax" ".wu" u32, |a, b| a.max(b);
    "ammax" ".du" u64, |a, b| a.max(b);
    "ammin" ".wu" u32, |a, b| a.min(b);
    "ammin" ".du" u64, |a, b| a.min(b);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::integer::sx;

    #[test]
    fn loads_behind_a_link_are_found_by_their_words() {
        use crate::asm::word;
        let coded = |name: &str, operands: &[i64]| word(name, operands).expect(name);
        let nop = coded("andi", &[0, 0, 0]);
        let links = [coded("ll.d", &[12, 4, 0]), coded("llacq.d", &[12, 4])];
        let loads = [coded("ld.d", &[13, 4, 8]), coded("ldptr.d", &[13, 4, 8])];
        for (link, load) in links.into_iter().flat_map(|link| loads.map(|load| (link, load))) {
            for n in 1..=HALVES_APART_MAX + 1 {
                let read = |at: u64| Some(if at == 0x1000 - 4 * n { link } else { nop });
                assert_eq!(is_second_half(load, 0x1000, read), n <= HALVES_APART_MAX);
                assert!(!is_second_half(nop, 0x1000, read));
            }
            assert!(!is_second_half(load, 0x1000, |_| None));
        }
    }

    #[test]
    fn words_come_back_sign_extended() {
        assert_eq!(Cell::up(0x8000_0000u32), sx(0x8000_0000));
        assert_eq!(Cell::up(0x80u8), 0xffff_ffff_ffff_ff80);
    }
}
