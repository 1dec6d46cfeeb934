//! Narrowing shifts: plain, rounding, saturating, by register (upper half zero) or by immediate
//! (upper half from vd).

use super::super::operation::VectorEntry;
use super::super::{Cpu, Cursor, Exit, Handler};
use super::both;
use super::lanes::{Lane, get};

/// What a lane of `WIDE` bits becomes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// The low bits.
    Cut,
    /// The nearest signed value.
    Signed,
    /// The nearest unsigned value.
    Unsigned,
}

/// Shifts a lane right by `count`, arithmetically or not, with rounding or not, and fits the result
/// into `bits` bits. Both the shifted value and the fit treat the lane as `arithmetic` says.
#[inline(always)]
fn narrow(lane: u128, wide: u32, count: u32, arithmetic: bool, rounding: bool, fit: Fit) -> u128 {
    let signed = (lane << (128 - wide)) as i128 >> (128 - wide);
    let carry = rounding && count > 0 && lane >> (count - 1) & 1 == 1;
    let bits = wide / 2;
    if arithmetic {
        let value = (signed >> count).wrapping_add(carry.into());
        let (least, greatest) = match fit {
            Fit::Cut => return value as u128,
            Fit::Signed => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            Fit::Unsigned => (0, (1i128 << bits) - 1),
        };
        return value.clamp(least, greatest) as u128;
    }
    let value = (lane >> count).wrapping_add(carry.into());
    match fit {
        Fit::Cut => value,
        Fit::Signed => value.min((1 << (bits - 1)) - 1),
        Fit::Unsigned => value.min((1 << bits) - 1),
    }
}

/// All wide lanes of `v` narrowed, in the low 64 bits.
#[inline(always)]
fn pack<W: Lane>(v: u128, f: impl Fn(u128, u32) -> u128) -> u128 {
    let bits = W::BITS / 2;
    let mask = (1u128 << bits) - 1;
    (0..W::COUNT).fold(0, |r, n| r | (f(get::<W>(v, n).bits(), n) & mask) << (n * bits))
}

#[inline(always)]
fn by_register<W: Lane>(vj: u128, vk: u128, arithmetic: bool, rounding: bool, fit: Fit) -> u128 {
    pack::<W>(vj, |lane, n| {
        let count = (get::<W>(vk, n).bits() % u128::from(W::BITS)) as u32;
        narrow(lane, W::BITS, count, arithmetic, rounding, fit)
    })
}

#[inline(always)]
fn by_immediate<W: Lane>(
    vd: u128,
    vj: u128,
    imm: i64,
    arithmetic: bool,
    rounding: bool,
    fit: Fit,
) -> u128 {
    let half =
        |v| pack::<W>(v, |lane, _| narrow(lane, W::BITS, imm as u32, arithmetic, rounding, fit));
    half(vj) | half(vd) << 64
}

/// Entries `name.N.W` for three widths by register, four by immediate (with the `i` of the name).
macro_rules! narrowing {
    ($($name:literal $b:literal $h:literal $w:literal $d:literal $arithmetic:literal $rounding:literal $fit:expr;)*) => {
        [$(
            (concat!($name, $b), both!(|_, j, k, _| by_register::<u16>(j, k, $arithmetic, $rounding, $fit))),
            (concat!($name, $h), both!(|_, j, k, _| by_register::<u32>(j, k, $arithmetic, $rounding, $fit))),
            (concat!($name, $w), both!(|_, j, k, _| by_register::<u64>(j, k, $arithmetic, $rounding, $fit))),
            (concat!($name, "i", $b), both!(|d, j, _, i| by_immediate::<u16>(d, j, i, $arithmetic, $rounding, $fit))),
            (concat!($name, "i", $h), both!(|d, j, _, i| by_immediate::<u32>(d, j, i, $arithmetic, $rounding, $fit))),
            (concat!($name, "i", $w), both!(|d, j, _, i| by_immediate::<u64>(d, j, i, $arithmetic, $rounding, $fit))),
            (concat!($name, "i", $d), both!(|d, j, _, i| by_immediate::<u128>(d, j, i, $arithmetic, $rounding, $fit))),
        )*]
    };
}

pub(super) static TABLE: [VectorEntry; 84] = narrowing! {
    "vsrln" ".b.h" ".h.w" ".w.d" ".d.q" false false Fit::Cut;
    "vsran" ".b.h" ".h.w" ".w.d" ".d.q" true false Fit::Cut;
    "vsrlrn" ".b.h" ".h.w" ".w.d" ".d.q" false true Fit::Cut;
    "vsrarn" ".b.h" ".h.w" ".w.d" ".d.q" true true Fit::Cut;
    "vssrln" ".b.h" ".h.w" ".w.d" ".d.q" false false Fit::Signed;
    "vssran" ".b.h" ".h.w" ".w.d" ".d.q" true false Fit::Signed;
    "vssrlrn" ".b.h" ".h.w" ".w.d" ".d.q" false true Fit::Signed;
    "vssrarn" ".b.h" ".h.w" ".w.d" ".d.q" true true Fit::Signed;
    "vssrln" ".bu.h" ".hu.w" ".wu.d" ".du.q" false false Fit::Unsigned;
    "vssran" ".bu.h" ".hu.w" ".wu.d" ".du.q" true false Fit::Unsigned;
    "vssrlrn" ".bu.h" ".hu.w" ".wu.d" ".du.q" false true Fit::Unsigned;
    "vssrarn" ".bu.h" ".hu.w" ".wu.d" ".du.q" true true Fit::Unsigned;
};
