//! Scalar floating point: semantics on top of [`crate::float`], FCSR bookkeeping, moves.
//!
//! - Arithmetic clears the cause field, then sets it to what it raised; an enabled exception traps
//!   with the destination untouched, anything else is added to the sticky flags.
//! - What a scalar result leaves above itself in the low 128 bits of its register is open in the
//!   manual. It follows x86's VEX encodings, so that translated code needs one instruction per
//!   operation: results of arithmetic and moves between registers take those bits from fj (fused
//!   operations from fa), everything else clears them. Bits 128 to 255 stay.
//! - Words that `ftint.w` makes are extended to 64 bits.

use super::operation::Entry;
use super::{Cpu, Cursor, Exit, Slot, Trap};
use crate::float::{self, Double, Env, Format, Rounding, Single};
use crate::state::fcsr;
use littoral_base::mutant;
use std::cmp::Ordering;

/// The bit of FCSR0 that is the x87 stack mode (TM); the other FCSRs do not show it.
const STACK_MODE_BIT: u32 = 6;

impl Cpu {
    /// Floating-point register `slot`.
    #[inline(always)]
    pub(super) fn f(&self, slot: Slot) -> u64 {
        self.state.v[self.fpr(slot) & 31].0[0]
    }

    /// The register a floating-point operand names: rotated by the stack top in x87 stack mode.
    #[inline(always)]
    fn fpr(&self, slot: Slot) -> usize {
        match self.state.lbt.stack_mode {
            0 => slot.number() & 31,
            _ => super::lbt::rotated_register(self, slot),
        }
    }

    /// Writes floating-point register `slot` and clears what is above it up to bit 127.
    #[inline(always)]
    pub(super) fn set_f(&mut self, slot: Slot, value: u64) {
        let n = self.fpr(slot);
        self.state.v[n & 31].0[..2].copy_from_slice(&[value, 0]);
    }

    /// As `set_f`, with bits 64 to 127 of register `from`.
    #[inline(always)]
    fn set_f_like(&mut self, slot: Slot, value: u64, from: Slot) {
        let high = self.state.v[self.fpr(from) & 31].0[1];
        let n = self.fpr(slot);
        self.state.v[n & 31].0[..2].copy_from_slice(&[value, high]);
    }

    /// A fresh environment with the current rounding mode.
    pub(super) fn env(&self) -> Env {
        Env::new(Rounding::from_bits(self.state.fcsr >> 8))
    }

    /// Records what an operation raised; false if that traps.
    #[must_use]
    pub(super) fn record(&mut self, flags: u32) -> bool {
        self.state.fcsr = self.state.fcsr & !fcsr::CAUSE | flags << 24;
        if self.state.fcsr & flags & fcsr::ENABLES != 0 {
            return false;
        }
        self.state.fcsr |= flags << 16;
        true
    }
}

/// How a format's values sit in a register.
pub(super) trait Boxed: Format {
    /// `bits` in the register that was `old`.
    fn boxed(bits: u64, old: u64) -> u64;
    fn unboxed(register: u64) -> u64;
}

impl Boxed for Single {
    fn boxed(bits: u64, old: u64) -> u64 {
        bits & 0xffff_ffff | old & !0xffff_ffff
    }
    fn unboxed(register: u64) -> u64 {
        register & 0xffff_ffff
    }
}

impl Boxed for Double {
    fn boxed(bits: u64, _: u64) -> u64 {
        bits
    }
    fn unboxed(register: u64) -> u64 {
        register
    }
}

/// fd = the value `bits` of format `F`, with what stands above it in register `like`.
fn finish<F: Boxed>(cpu: &mut Cpu, i: Cursor<'_>, bits: u64, like: Slot, env: Env) -> Exit {
    if !cpu.record(env.flags) {
        return cpu.fault(i, Trap::Float);
    }
    cpu.set_f_like(i.rd, F::boxed(bits, cpu.f(like)), like);
    i.chain(cpu)
}

/// fd = f(fj, fk, fa) in format `$F`, which `$f` may ignore parts of; above it stands what stands
/// in fj or the register named last.
macro_rules! arith {
    ($F:ty, $f:expr) => {
        arith!($F, $f, rj)
    };
    ($F:ty, $f:expr, $like:ident) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let f: fn(u64, u64, u64, &mut Env) -> u64 = $f;
            let mut env = cpu.env();
            let operand = |slot| <$F>::unboxed(cpu.f(slot));
            let value = f(operand(i.rj), operand(i.rk), operand(i.ra), &mut env);
            finish::<$F>(cpu, i, value, i.$like, env)
        }
        run
    }};
}

/// fd = f(fj, fk) in format `$F`, no flags.
macro_rules! plain {
    ($F:ty, $f:expr) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let f: fn(u64, u64) -> u64 = $f;
            let value = <$F>::boxed(f(cpu.f(i.rj), cpu.f(i.rk)), cpu.f(i.rj));
            cpu.set_f_like(i.rd, value, i.rj);
            i.chain(cpu)
        }
        run
    }};
}

/// fd = integer of `$bits` bits of fj, rounded by `$mode` or as FCSR says.
macro_rules! to_int {
    ($F:ty, $bits:literal, $mode:expr) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let mut env = cpu.env();
            env.rounding = $mode.unwrap_or(env.rounding);
            let value = float::to_int::<$F>(<$F>::unboxed(cpu.f(i.rj)), $bits, true, &mut env);
            if !cpu.record(env.flags) {
                return cpu.fault(i, Trap::Float);
            }
            cpu.set_f(i.rd, value);
            i.chain(cpu)
        }
        run
    }};
}

/// fd = f(fj) in format `$F`, from another one or from an integer.
macro_rules! change {
    ($F:ty, $f:expr) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let f: fn(u64, &mut Env) -> u64 = $f;
            let mut env = cpu.env();
            let value = f(cpu.f(i.rj), &mut env);
            finish::<$F>(cpu, i, value, i.rj, env)
        }
        run
    }};
}

/// Bits of a comparison's outcome that a condition accepts.
pub(super) mod accept {
    pub(in super::super) const LT: u8 = 1;
    pub(in super::super) const EQ: u8 = 2;
    pub(in super::super) const UN: u8 = 4;
    pub(in super::super) const GT: u8 = 8;
}

/// The outcome of a comparison as one of the [`accept`] bits.
pub(super) fn outcome<F: Format>(a: u64, b: u64, signalling: bool, env: &mut Env) -> u8 {
    match float::compare::<F>(a, b, signalling, env) {
        Some(Ordering::Less) => accept::LT,
        Some(Ordering::Equal) => accept::EQ,
        Some(Ordering::Greater) => accept::GT,
        None => accept::UN,
    }
}

fn fcmp<F: Boxed, const ACCEPT: u8, const SIGNALLING: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let mut env = cpu.env();
    let (a, b) = (F::unboxed(cpu.f(i.rj)), F::unboxed(cpu.f(i.rk)));
    let outcome = outcome::<F>(a, b, SIGNALLING, &mut env);
    if !cpu.record(env.flags) {
        return cpu.fault(i, Trap::Float);
    }
    cpu.state.fcc[i.rd.number() & 7] = u8::from(outcome & ACCEPT != 0);
    i.chain(cpu)
}

fn movgr2fcsr(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let (view, value) = (i.rd.number() & 3, cpu.x(i.rj) as u32);
    let mask = fcsr::VIEWS[view];
    cpu.state.fcsr = cpu.state.fcsr & !mask | value & mask;
    // Linux gives a thread its stack mode back by this instruction alone.
    let has_mode = view == 0 && cpu.features.lbt;
    if has_mode && !mutant!("la64_stack_mode_stays_unwritten") {
        cpu.state.lbt.stack_mode = (value >> STACK_MODE_BIT) as u8 & 1;
    }
    i.chain(cpu)
}

fn movfcsr2gr(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let view = i.rj.number() & 3;
    let shown = u32::from(cpu.state.lbt.stack_mode) << STACK_MODE_BIT;
    let mode = if view == 0 { shown } else { 0 };
    let value = cpu.state.fcsr & fcsr::VIEWS[view] | mode;
    cpu.set_x(i.to, u64::from(value));
    i.chain(cpu)
}

fn movfr2cf(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.state.fcc[i.rd.number() & 7] = cpu.f(i.rj) as u8 & 1;
    i.chain(cpu)
}

fn movcf2fr(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let flag = cpu.state.fcc[i.rj.number() & 7];
    cpu.set_f(i.rd, flag.into());
    i.chain(cpu)
}

fn movgr2cf(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.state.fcc[i.rd.number() & 7] = cpu.x(i.rj) as u8 & 1;
    i.chain(cpu)
}

fn movcf2gr(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let flag = cpu.state.fcc[i.rj.number() & 7];
    cpu.set_x(i.to, flag.into());
    i.chain(cpu)
}

fn fsel(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let second = cpu.state.fcc[i.ra.number() & 7] != 0;
    let from = if second { i.rk } else { i.rj };
    cpu.set_f_like(i.rd, cpu.f(from), from);
    i.chain(cpu)
}

fn movgr2fr_w(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let value = Single::boxed(cpu.x(i.rj), cpu.f(i.rd));
    cpu.set_f_like(i.rd, value, i.rd);
    i.chain(cpu)
}

fn movgr2frh_w(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let value = cpu.f(i.rd) & 0xffff_ffff | cpu.x(i.rj) << 32;
    cpu.set_f_like(i.rd, value, i.rd);
    i.chain(cpu)
}

fn movgr2fr_d(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let value = cpu.x(i.rj);
    cpu.set_f(i.rd, value);
    i.chain(cpu)
}

fn movfr2gr_d(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let value = cpu.f(i.rj);
    cpu.set_x(i.to, value);
    i.chain(cpu)
}

fn movfr2gr_s(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let value = cpu.f(i.rj) as i32 as u64;
    cpu.set_x(i.to, value);
    i.chain(cpu)
}

fn movfrh2gr_s(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let value = (cpu.f(i.rj) as i64 >> 32) as u64;
    cpu.set_x(i.to, value);
    i.chain(cpu)
}

/// Entries of one format: `$dot` is its suffix.
macro_rules! format_table {
    ($F:ty, $dot:literal) => {
        &[
            (concat!("fadd", $dot), arith!($F, |a, b, _, e| float::add::<$F>(a, b, e))),
            (concat!("fsub", $dot), arith!($F, |a, b, _, e| float::sub::<$F>(a, b, e))),
            (concat!("fmul", $dot), arith!($F, |a, b, _, e| float::mul::<$F>(a, b, e))),
            (concat!("fdiv", $dot), arith!($F, |a, b, _, e| float::div::<$F>(a, b, e))),
            (
                concat!("fmax", $dot),
                arith!($F, |a, b, _, e| float::max_min::<$F>(a, b, true, false, e)),
            ),
            (
                concat!("fmin", $dot),
                arith!($F, |a, b, _, e| float::max_min::<$F>(a, b, false, false, e)),
            ),
            (
                concat!("fmaxa", $dot),
                arith!($F, |a, b, _, e| float::max_min::<$F>(a, b, true, true, e)),
            ),
            (
                concat!("fmina", $dot),
                arith!($F, |a, b, _, e| float::max_min::<$F>(a, b, false, true, e)),
            ),
            (concat!("fsqrt", $dot), arith!($F, |a, _, _, e| float::sqrt::<$F>(a, e))),
            (concat!("frecip", $dot), arith!($F, |a, _, _, e| float::recip::<$F>(a, e))),
            (concat!("frsqrt", $dot), arith!($F, |a, _, _, e| float::rsqrt::<$F>(a, e))),
            (concat!("frecipe", $dot), arith!($F, |a, _, _, e| float::recip::<$F>(a, e))),
            (concat!("frsqrte", $dot), arith!($F, |a, _, _, e| float::rsqrt::<$F>(a, e))),
            (concat!("flogb", $dot), arith!($F, |a, _, _, e| float::log_b::<$F>(a, e))),
            (
                concat!("frint", $dot),
                change!($F, |a, e| float::round_to_int::<$F>(<$F>::unboxed(a), e)),
            ),
            (
                concat!("fmadd", $dot),
                arith!($F, |a, b, c, e| float::fma::<$F>(a, b, c, (false, false), e), ra),
            ),
            (
                concat!("fmsub", $dot),
                arith!($F, |a, b, c, e| float::fma::<$F>(a, b, c, (true, false), e), ra),
            ),
            (
                concat!("fnmadd", $dot),
                arith!($F, |a, b, c, e| float::fma::<$F>(a, b, c, (false, true), e), ra),
            ),
            (
                concat!("fnmsub", $dot),
                arith!($F, |a, b, c, e| float::fma::<$F>(a, b, c, (true, true), e), ra),
            ),
            (concat!("fclass", $dot), plain!($F, |a, _| float::classify::<$F>(<$F>::unboxed(a)))),
            (concat!("fabs", $dot), plain!($F, |a, _| a & !<$F>::SIGN)),
            (concat!("fneg", $dot), plain!($F, |a, _| a ^ <$F>::SIGN)),
            (concat!("fmov", $dot), plain!($F, |a, _| a)),
            (
                concat!("fcopysign", $dot),
                plain!($F, |a, b| a & (<$F>::SIGN - 1) | b & !(<$F>::SIGN - 1)),
            ),
            (concat!("ftintrm.w", $dot), to_int!($F, 32, Some(Rounding::Down))),
            (concat!("ftintrm.l", $dot), to_int!($F, 64, Some(Rounding::Down))),
            (concat!("ftintrp.w", $dot), to_int!($F, 32, Some(Rounding::Up))),
            (concat!("ftintrp.l", $dot), to_int!($F, 64, Some(Rounding::Up))),
            (concat!("ftintrz.w", $dot), to_int!($F, 32, Some(Rounding::Zero))),
            (concat!("ftintrz.l", $dot), to_int!($F, 64, Some(Rounding::Zero))),
            (concat!("ftintrne.w", $dot), to_int!($F, 32, Some(Rounding::NearestEven))),
            (concat!("ftintrne.l", $dot), to_int!($F, 64, Some(Rounding::NearestEven))),
            (concat!("ftint.w", $dot), to_int!($F, 32, None)),
            (concat!("ftint.l", $dot), to_int!($F, 64, None)),
            (
                concat!("ffint", $dot, ".w"),
                change!($F, |a, e| float::from_int::<$F>((a as i32).into(), e)),
            ),
            (
                concat!("ffint", $dot, ".l"),
                change!($F, |a, e| float::from_int::<$F>((a as i64).into(), e)),
            ),
        ]
    };
}

/// `fcmp` entries: quiet (`c`) and signalling (`s`) forms of each condition in both formats.
macro_rules! compare_table {
    ($($name:literal $accept:expr;)*) => {
        &[$(
            (concat!("fcmp.c", $name, ".s"), fcmp::<Single, { $accept }, false>),
            (concat!("fcmp.s", $name, ".s"), fcmp::<Single, { $accept }, true>),
            (concat!("fcmp.c", $name, ".d"), fcmp::<Double, { $accept }, false>),
            (concat!("fcmp.s", $name, ".d"), fcmp::<Double, { $accept }, true>),
        )*]
    };
}

use accept::{EQ, GT, LT, UN};

pub(super) static COMPARE_TABLE: &[Entry] = compare_table! {
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

pub(super) static SINGLE_TABLE: &[Entry] = format_table!(Single, ".s");
pub(super) static DOUBLE_TABLE: &[Entry] = format_table!(Double, ".d");

pub(super) static TABLE: &[Entry] = &[
    ("fscaleb.s", arith!(Single, |a, b, _, e| float::scalb::<Single>(a, (b as i32).into(), e))),
    ("fscaleb.d", arith!(Double, |a, b, _, e| float::scalb::<Double>(a, b as i64, e))),
    ("fcvt.s.d", change!(Single, |a, e| float::convert::<Double, Single>(a, e))),
    ("fcvt.d.s", change!(Double, |a, e| float::convert::<Single, Double>(Single::unboxed(a), e))),
    ("movgr2fcsr", movgr2fcsr),
    ("movfcsr2gr", movfcsr2gr),
    ("movfr2cf", movfr2cf),
    ("movcf2fr", movcf2fr),
    ("movgr2cf", movgr2cf),
    ("movcf2gr", movcf2gr),
    ("fsel", fsel),
    ("movgr2fr.w", movgr2fr_w),
    ("movgr2frh.w", movgr2frh_w),
    ("movgr2fr.d", movgr2fr_d),
    ("movfr2gr.s", movfr2gr_s),
    ("movfrh2gr.s", movfrh2gr_s),
    ("movfr2gr.d", movfr2gr_d),
];
