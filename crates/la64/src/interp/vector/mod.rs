//! LSX and LASX: each operation is one function on 128 bits, generic over its lanes.
//!
//! - A 256-bit instruction is its 128-bit namesake on either half; the few that are not have code
//!   of their own in [`whole`].
//! - A 128-bit instruction leaves the upper half of its 256-bit register alone, as QEMU does (the
//!   manual leaves it open, and cores differ).

mod arith;
mod float;
mod lanes;
mod memory;
mod narrow;
mod permute;
mod raw;
mod shift;
mod whole;

#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
pub(super) use permute::vldi;
pub(super) use whole::InsertW;

use super::operation::VectorEntry;
use super::{Cpu, Cursor, Exit, Handler, Slot};

const TABLES: [&[VectorEntry]; 17] = [
    arith::TABLE,
    &arith::LOGIC_TABLE,
    &arith::WIDENING_TABLE,
    &arith::MIXED_TABLE,
    &shift::TABLE,
    &shift::SATURATE_TABLE,
    &shift::EXTEND_TABLE,
    &shift::BYTES_TABLE,
    &narrow::TABLE,
    permute::TABLE,
    &permute::LANE_TABLE,
    memory::TABLE,
    float::TABLE,
    float::COMPARE_TABLE,
    float::CONVERT_TABLE,
    &float::TO_INT_TABLE,
    whole::TABLE,
];

/// The 128-bit and 256-bit code of an LSX mnemonic.
pub(super) fn find(mnemonic: &str) -> Option<[Handler; 2]> {
    TABLES.iter().copied().flatten().find(|e| e.0 == mnemonic).map(|e| e.1)
}

/// The code of a LASX mnemonic.
pub(super) fn find_wide(mnemonic: &str) -> Option<Handler> {
    whole::WIDE_TABLE
        .iter()
        .chain(&whole::EXTEND_TABLE)
        .find(|e| e.0 == mnemonic)
        .map(|e| e.1)
        .or_else(|| find(mnemonic.strip_prefix('x')?).map(|h| h[1]))
}

impl Cpu {
    /// Half `n` (0 or 1) of vector register `slot`.
    #[inline(always)]
    fn half(&self, slot: Slot, n: usize) -> u128 {
        let v = &self.state.v[slot.number() & 31].0;
        <u64 as raw::Array>::join([v[2 * n], v[2 * n + 1]])
    }

    #[inline(always)]
    fn set_half(&mut self, slot: Slot, n: usize, value: u128) {
        let v = &mut self.state.v[slot.number() & 31].0;
        v[2 * n..2 * n + 2].copy_from_slice(&<u64 as raw::Array>::split(value));
    }
}

/// vd = f(vd, vj, vk, immediate) on one half or both.
#[inline(always)]
fn halves<const WIDE: bool>(
    cpu: &mut Cpu,
    i: Cursor<'_>,
    f: impl Fn(u128, u128, u128, i64) -> u128,
) -> Exit {
    for n in 0..1 + usize::from(WIDE) {
        let (d, j, k) = (cpu.half(i.rd, n), cpu.half(i.rj, n), cpu.half(i.rk, n));
        cpu.set_half(i.rd, n, f(d, j, k, i.imm));
    }
    i.chain(cpu)
}

/// Lane n of vd = f(lanes n of vd, vj, vk, immediate) on one half or both. The lanes are read and
/// written where they are, in the shape that the host's vector instructions have.
#[inline(always)]
fn by_lane<T: lanes::Lane, const WIDE: bool>(
    cpu: &mut Cpu,
    i: Cursor<'_>,
    f: impl Fn(T, T, T, i64) -> T,
) -> Exit {
    for half in 0..1 + usize::from(WIDE) {
        let lanes = |slot: Slot| *T::half(&cpu.state.v[slot.number() & 31], half);
        let (mut d, j, k) = (lanes(i.rd), lanes(i.rj), lanes(i.rk));
        for (n, lane) in d.as_mut().iter_mut().enumerate() {
            *lane = f(*lane, j.as_ref()[n], k.as_ref()[n], i.imm);
        }
        *T::half_mut(&mut cpu.state.v[i.rd.number() & 31], half) = d;
    }
    i.chain(cpu)
}

/// The pair of handlers of a function of lanes.
macro_rules! lanes_of {
    ($type:ty, $f:expr) => {{
        fn run<const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            super::by_lane::<$type, WIDE>(cpu, i, $f)
        }
        [run::<false> as Handler, run::<true> as Handler]
    }};
}

/// The pair of handlers of a function (vd, vj, vk, immediate) -> vd on 128 bits.
macro_rules! both {
    ($f:expr) => {{
        fn run<const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let f: fn(u128, u128, u128, i64) -> u128 = $f;
            super::halves::<WIDE>(cpu, i, f)
        }
        [run::<false> as Handler, run::<true> as Handler]
    }};
}

/// The lane type of a suffix.
macro_rules! lane {
    (b) => {
        i8
    };
    (h) => {
        i16
    };
    (w) => {
        i32
    };
    (d) => {
        i64
    };
    (q) => {
        i128
    };
    (l) => {
        i64
    };
    (bu) => {
        u8
    };
    (hu) => {
        u16
    };
    (wu) => {
        u32
    };
    (du) => {
        u64
    };
    (qu) => {
        u128
    };
    (lu) => {
        u64
    };
}

use {both, lane, lanes_of};
