//! Floating point by lane. All lanes are computed before any flag counts: an enabled exception of
//! one lane traps with the register untouched; the cause is the union over lanes.

use super::super::floating::{accept, outcome};
use super::super::operation::VectorEntry;
use super::super::{Cpu, Cursor, Exit, Handler, Slot, Trap};
use super::lanes::{Lane, build, get};
use crate::float::{self, Double, Env, Format, Half, Rounding, Single};
use accept::{EQ, GT, LT, UN};

/// The lane that holds a format.
trait Laned: Format {
    type Bits: Lane;
}
impl Laned for Half {
    type Bits = u16;
}
impl Laned for Single {
    type Bits = u32;
}
impl Laned for Double {
    type Bits = u64;
}

/// vd = f(vj, vk, va) on one half or both, with flags.
#[inline(always)]
fn halves<const WIDE: bool>(
    cpu: &mut Cpu,
    i: Cursor<'_>,
    f: impl Fn(u128, u128, u128, &mut Env) -> u128,
) -> Exit {
    let mut env = cpu.env();
    let mut results = [0; 2];
    for (n, result) in results.iter_mut().enumerate().take(1 + usize::from(WIDE)) {
        let part = |slot: Slot| cpu.half(slot, n);
        *result = f(part(i.rj), part(i.rk), part(i.ra), &mut env);
    }
    if !cpu.record(env.flags) {
        return cpu.fault(i, Trap::Float);
    }
    for (n, &result) in results.iter().enumerate().take(1 + usize::from(WIDE)) {
        cpu.set_half(i.rd, n, result);
    }
    i.chain(cpu)
}

fn each<F: Laned>(f: impl Fn(u32) -> u64) -> u128 {
    build::<F::Bits>(|n| <F::Bits>::cut(f(n).into()))
}

fn at<F: Laned>(v: u128, n: u32) -> u64 {
    get::<F::Bits>(v, n).bits() as u64
}

macro_rules! pair {
    ($f:expr) => {{
        fn run<const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let f: fn(u128, u128, u128, &mut Env) -> u128 = $f;
            halves::<WIDE>(cpu, i, f)
        }
        [run::<false> as Handler, run::<true> as Handler]
    }};
}

/// `build` with a mutable environment, which the closures of the lane helpers cannot share.
fn lanes<T: Lane>(mut f: impl FnMut(u32) -> u64) -> u128 {
    (0..T::COUNT).fold(0, |v, n| v | T::cut(f(n).into()).bits() << (n * T::BITS))
}

/// `name |a, b, c, env| expression` for singles and doubles; `F` is the format.
macro_rules! both_formats {
    ($($name:literal |$a:ident, $b:ident, $c:ident, $e:ident| $body:expr;)*) => {
        &[$(
            both_formats!(@one Single, concat!($name, ".s"), $a $b $c $e $body),
            both_formats!(@one Double, concat!($name, ".d"), $a $b $c $e $body),
        )*]
    };
    (@one $format:ty, $name:expr, $a:ident $b:ident $c:ident $e:ident $body:expr) => {
        ($name, {
            type F = $format;
            pair!(|vj, vk, va, $e| lanes::<<F as Laned>::Bits>(|n| {
                let ($a, $b, $c) = (at::<F>(vj, n), at::<F>(vk, n), at::<F>(va, n));
                let _ = ($b, $c);
                $body
            }))
        })
    };
}

fn rint<F: Format>(a: u64, mode: Rounding, env: &mut Env) -> u64 {
    let mut own = Env::new(mode);
    let value = float::round_to_int::<F>(a, &mut own);
    env.flags |= own.flags;
    value
}

pub(super) static TABLE: &[VectorEntry] = both_formats! {
    "vfadd" |a, b, c, e| float::add::<F>(a, b, e);
    "vfsub" |a, b, c, e| float::sub::<F>(a, b, e);
    "vfmul" |a, b, c, e| float::mul::<F>(a, b, e);
    "vfdiv" |a, b, c, e| float::div::<F>(a, b, e);
    "vfmax" |a, b, c, e| float::max_min::<F>(a, b, true, false, e);
    "vfmin" |a, b, c, e| float::max_min::<F>(a, b, false, false, e);
    "vfmaxa" |a, b, c, e| float::max_min::<F>(a, b, true, true, e);
    "vfmina" |a, b, c, e| float::max_min::<F>(a, b, false, true, e);
    "vfmadd" |a, b, c, e| float::fma::<F>(a, b, c, (false, false), e);
    "vfmsub" |a, b, c, e| float::fma::<F>(a, b, c, (true, false), e);
    "vfnmadd" |a, b, c, e| float::fma::<F>(a, b, c, (false, true), e);
    "vfnmsub" |a, b, c, e| float::fma::<F>(a, b, c, (true, true), e);
    "vfsqrt" |a, b, c, e| float::sqrt::<F>(a, e);
    "vfrecip" |a, b, c, e| float::recip::<F>(a, e);
    "vfrsqrt" |a, b, c, e| float::rsqrt::<F>(a, e);
    "vfrecipe" |a, b, c, e| float::recip::<F>(a, e);
    "vfrsqrte" |a, b, c, e| float::rsqrt::<F>(a, e);
    "vflogb" |a, b, c, e| float::log_b::<F>(a, e);
    "vfrint" |a, b, c, e| float::round_to_int::<F>(a, e);
    "vfrintrm" |a, b, c, e| rint::<F>(a, Rounding::Down, e);
    "vfrintrp" |a, b, c, e| rint::<F>(a, Rounding::Up, e);
    "vfrintrz" |a, b, c, e| rint::<F>(a, Rounding::Zero, e);
    "vfrintrne" |a, b, c, e| rint::<F>(a, Rounding::NearestEven, e);
};

/// `vfcmp`: all ones where the condition holds.
macro_rules! compare_table {
    ($($name:literal $accept:expr;)*) => {
        &[$(
            (concat!("vfcmp.c", $name, ".s"), pair!(|j, k, _, e| compare::<Single>(j, k, $accept, false, e))),
            (concat!("vfcmp.s", $name, ".s"), pair!(|j, k, _, e| compare::<Single>(j, k, $accept, true, e))),
            (concat!("vfcmp.c", $name, ".d"), pair!(|j, k, _, e| compare::<Double>(j, k, $accept, false, e))),
            (concat!("vfcmp.s", $name, ".d"), pair!(|j, k, _, e| compare::<Double>(j, k, $accept, true, e))),
        )*]
    };
}

fn compare<F: Laned>(vj: u128, vk: u128, accepted: u8, signalling: bool, env: &mut Env) -> u128 {
    lanes::<F::Bits>(|n| {
        let outcome = outcome::<F>(at::<F>(vj, n), at::<F>(vk, n), signalling, env);
        if outcome & accepted != 0 { u64::MAX } else { 0 }
    })
}

pub(super) static COMPARE_TABLE: &[VectorEntry] = compare_table! {
    "af" 0;
    "lt" LT;
    "eq" EQ;
    "le" LT | EQ;
    "un" UN;
    "ult" UN | LT;
    "ueq" UN | EQ;
    "ule" UN | LT | EQ;
    "ne" LT | GT;
    "or" LT | GT | EQ;
    "une" LT | GT | UN;
};

/// Lane n as an integer of `bits` bits.
fn to_int<F: Laned>(
    v: u128,
    n: u32,
    bits: u32,
    signed: bool,
    mode: Option<Rounding>,
    env: &mut Env,
) -> u64 {
    let mut own = Env::new(mode.unwrap_or(env.rounding));
    let value = float::to_int::<F>(at::<F>(v, n), bits, signed, &mut own);
    env.flags |= own.flags;
    value
}

/// The six shapes of conversion to integers under one rounding mode.
macro_rules! to_int_table {
    ($($name:literal $mode:expr;)*) => {
        [$(
            (concat!($name, ".w.s"), pair!(|j, _, _, e| lanes::<u32>(|n| to_int::<Single>(j, n, 32, true, $mode, e)))),
            (concat!($name, ".l.d"), pair!(|j, _, _, e| lanes::<u64>(|n| to_int::<Double>(j, n, 64, true, $mode, e)))),
            (concat!($name, ".w.d"), pair!(|j, k, _, e| lanes::<u32>(|n| {
                to_int::<Double>(if n < 2 { k } else { j }, n % 2, 32, true, $mode, e)
            }))),
            (concat!($name, "l.l.s"), pair!(|j, _, _, e| lanes::<u64>(|n| to_int::<Single>(j, n, 64, true, $mode, e)))),
            (concat!($name, "h.l.s"), pair!(|j, _, _, e| lanes::<u64>(|n| to_int::<Single>(j, n + 2, 64, true, $mode, e)))),
        )*]
    };
}

pub(super) static TO_INT_TABLE: [VectorEntry; 25] = to_int_table! {
    "vftint" None;
    "vftintrm" Some(Rounding::Down);
    "vftintrp" Some(Rounding::Up);
    "vftintrz" Some(Rounding::Zero);
    "vftintrne" Some(Rounding::NearestEven);
};

const ZERO: Option<Rounding> = Some(Rounding::Zero);

fn int<F: Format>(value: i128, env: &mut Env) -> u64 {
    float::from_int::<F>(value, env)
}

fn class<F: Laned>(v: u128) -> u128 {
    each::<F>(|n| float::classify::<F>(at::<F>(v, n)))
}

fn vfclass_s<const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    super::halves::<WIDE>(cpu, i, |_, vj, _, _| class::<Single>(vj))
}

fn vfclass_d<const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    super::halves::<WIDE>(cpu, i, |_, vj, _, _| class::<Double>(vj))
}

pub(super) static CONVERT_TABLE: &[VectorEntry] = &[
    ("vfclass.s", [vfclass_s::<false>, vfclass_s::<true>]),
    ("vfclass.d", [vfclass_d::<false>, vfclass_d::<true>]),
    (
        "vftint.wu.s",
        pair!(|j, _, _, e| lanes::<u32>(|n| to_int::<Single>(j, n, 32, false, None, e))),
    ),
    (
        "vftint.lu.d",
        pair!(|j, _, _, e| lanes::<u64>(|n| to_int::<Double>(j, n, 64, false, None, e))),
    ),
    (
        "vftintrz.wu.s",
        pair!(|j, _, _, e| lanes::<u32>(|n| to_int::<Single>(j, n, 32, false, ZERO, e))),
    ),
    (
        "vftintrz.lu.d",
        pair!(|j, _, _, e| lanes::<u64>(|n| to_int::<Double>(j, n, 64, false, ZERO, e))),
    ),
    ("vffint.s.w", pair!(|j, _, _, e| lanes::<u32>(|n| int::<Single>(get::<i32>(j, n).into(), e)))),
    (
        "vffint.s.wu",
        pair!(|j, _, _, e| lanes::<u32>(|n| int::<Single>(get::<u32>(j, n).into(), e))),
    ),
    ("vffint.d.l", pair!(|j, _, _, e| lanes::<u64>(|n| int::<Double>(get::<i64>(j, n).into(), e)))),
    (
        "vffint.d.lu",
        pair!(|j, _, _, e| lanes::<u64>(|n| int::<Double>(get::<u64>(j, n).into(), e))),
    ),
    (
        "vffintl.d.w",
        pair!(|j, _, _, e| lanes::<u64>(|n| int::<Double>(get::<i32>(j, n).into(), e))),
    ),
    (
        "vffinth.d.w",
        pair!(|j, _, _, e| lanes::<u64>(|n| int::<Double>(get::<i32>(j, n + 2).into(), e))),
    ),
    (
        "vffint.s.l",
        pair!(|j, k, _, e| lanes::<u32>(|n| {
            int::<Single>(get::<i64>(if n < 2 { k } else { j }, n % 2).into(), e)
        })),
    ),
    (
        "vfcvt.h.s",
        pair!(|j, k, _, e| lanes::<u16>(|n| {
            float::convert::<Single, Half>(at::<Single>(if n < 4 { k } else { j }, n % 4), e)
        })),
    ),
    (
        "vfcvt.s.d",
        pair!(|j, k, _, e| lanes::<u32>(|n| {
            float::convert::<Double, Single>(at::<Double>(if n < 2 { k } else { j }, n % 2), e)
        })),
    ),
    (
        "vfcvtl.s.h",
        pair!(|j, _, _, e| lanes::<u32>(|n| float::convert::<Half, Single>(at::<Half>(j, n), e))),
    ),
    (
        "vfcvth.s.h",
        pair!(|j, _, _, e| lanes::<u32>(|n| float::convert::<Half, Single>(
            at::<Half>(j, n + 4),
            e
        ))),
    ),
    (
        "vfcvtl.d.s",
        pair!(|j, _, _, e| lanes::<u64>(|n| float::convert::<Single, Double>(
            at::<Single>(j, n),
            e
        ))),
    ),
    (
        "vfcvth.d.s",
        pair!(|j, _, _, e| lanes::<u64>(|n| float::convert::<Single, Double>(
            at::<Single>(j, n + 2),
            e
        ))),
    ),
];
