//! Loads and stores of general and floating-point registers, and the bound-checked forms.
//!
//! - The common access is [`Load`] and [`Store`]: one compare, one host access, no test behind it.
//! - A load that faults leaves its destination alone; a store that faults stores nothing.
//! - A floating-point load clears the rest of the register's low 128 bits; the manual leaves them
//!   open.

use super::integer::sx;
use super::operation::{Entry, Operation, single};
use super::{Cpu, Cursor, Exit, Trap};
use crate::memory::raw::{Extend, Word};
use std::marker::PhantomData;
use std::ops::ControlFlow;

/// How an access finds its address.
pub(super) trait Address {
    fn of(cpu: &Cpu, i: Cursor<'_>) -> u64;
}

/// rj + immediate.
pub(super) struct Offset;

impl Address for Offset {
    #[inline(always)]
    fn of(cpu: &Cpu, i: Cursor<'_>) -> u64 {
        cpu.x(i.rj).wrapping_add(i.imm as u64)
    }
}

/// rj + rk.
pub(super) struct Index;

impl Address for Index {
    #[inline(always)]
    fn of(cpu: &Cpu, i: Cursor<'_>) -> u64 {
        cpu.x(i.rj).wrapping_add(cpu.x(i.rk))
    }
}

/// Loads a `T`, widened.
pub(super) struct Load<T, A>(PhantomData<(T, A)>);

impl<T: Extend, A: Address> Operation for Load<T, A> {
    #[inline(always)]
    fn run(cpu: &mut Cpu, i: Cursor<'_>) -> ControlFlow<Exit> {
        let at = A::of(cpu, i);
        if cpu.window.is_near(at) && cpu.load_x::<T>(i.to, at) {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(load_rarely::<T>(cpu, i, at))
    }
}

/// Stores the low part of rd.
pub(super) struct Store<T, A>(PhantomData<(T, A)>);

impl<T: Extend, A: Address> Operation for Store<T, A> {
    #[inline(always)]
    fn run(cpu: &mut Cpu, i: Cursor<'_>) -> ControlFlow<Exit> {
        let at = A::of(cpu, i);
        if cpu.window.is_near_to_store(at) && cpu.window.store_near::<T>(at, cpu.x(i.rd)) {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(store_rarely::<T>(cpu, i, at))
    }
}

/// A load at the window's end or one that faults, and the rest of the block.
#[cold]
#[inline(never)]
fn load_rarely<T: Extend>(cpu: &mut Cpu, i: Cursor<'_>, at: u64) -> Exit {
    load(cpu, i, at, T::widened)
}

/// As `load_rarely`.
#[cold]
#[inline(never)]
fn store_rarely<T: Extend>(cpu: &mut Cpu, i: Cursor<'_>, at: u64) -> Exit {
    store(cpu, i, at, T::cut)
}

#[inline(always)]
fn load<T: Word>(cpu: &mut Cpu, i: Cursor<'_>, at: u64, widen: fn(T) -> u64) -> Exit {
    match cpu.window.load::<T>(at) {
        Some(value) => {
            cpu.set_x(i.to, widen(value));
            i.chain(cpu)
        }
        None => cpu.fault(i, Trap::Load(at)),
    }
}

#[inline(always)]
fn store<T: Word>(cpu: &mut Cpu, i: Cursor<'_>, at: u64, narrow: fn(u64) -> T) -> Exit {
    match cpu.window.store(at, narrow(cpu.x(i.rd))) {
        Some(()) => i.chain(cpu),
        None => cpu.fault(i, Trap::Store(at)),
    }
}

#[inline(always)]
fn load_float<T: Word>(cpu: &mut Cpu, i: Cursor<'_>, at: u64, widen: fn(T) -> u64) -> Exit {
    match cpu.window.load::<T>(at) {
        Some(value) => {
            cpu.set_f(i.rd, widen(value));
            i.chain(cpu)
        }
        None => cpu.fault(i, Trap::Load(at)),
    }
}

#[inline(always)]
fn store_float<T: Word>(cpu: &mut Cpu, i: Cursor<'_>, at: u64, narrow: fn(u64) -> T) -> Exit {
    match cpu.window.store(at, narrow(cpu.f(i.rd))) {
        Some(()) => i.chain(cpu),
        None => cpu.fault(i, Trap::Store(at)),
    }
}

/// `$access` at rj + immediate.
macro_rules! at_offset {
    ($access:ident, $f:expr) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let at = cpu.x(i.rj).wrapping_add(i.imm as u64);
            $access(cpu, i, at, $f)
        }
        run
    }};
}

/// `$access` at rj + rk.
macro_rules! at_index {
    ($access:ident, $f:expr) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let at = cpu.x(i.rj).wrapping_add(cpu.x(i.rk));
            $access(cpu, i, at, $f)
        }
        run
    }};
}

/// `$access` at rj if rj compares so with rk, unsigned; else a bound-check exception.
macro_rules! if_bound {
    ($access:ident, $op:tt, $f:expr) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let (at, bound) = (cpu.x(i.rj), cpu.x(i.rk));
            if !(at $op bound) {
                return cpu.fault(i, Trap::Bound(at));
            }
            $access(cpu, i, at, $f)
        }
        run
    }};
}

const fn i8_up(v: u8) -> u64 {
    v as i8 as u64
}

const fn i16_up(v: u16) -> u64 {
    v as i16 as u64
}

const fn i32_up(v: u32) -> u64 {
    sx(v as u64)
}

const fn same(v: u64) -> u64 {
    v
}

const fn u32_up(v: u32) -> u64 {
    v as u64
}

const fn to8(v: u64) -> u8 {
    v as u8
}

const fn to16(v: u64) -> u16 {
    v as u16
}

const fn to32(v: u64) -> u32 {
    v as u32
}

/// LBT's `ldl`, `ldr`, `stl`, `str`: the part of an unaligned word on one side of a boundary.
///
/// `ldl` fills the register's upper bytes from the aligned word that holds `at`, `ldr` its lower
/// ones; a pair of them reads an unaligned word (as MIPS's lwl and lwr do, little-endian).
fn load_part<const SIZE: u64, const LEFT: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let at = cpu.x(i.rj).wrapping_add(i.imm as u64);
    let (offset, bits) = (at % SIZE, 8 * SIZE);
    let (from, count) = if LEFT { (at - offset, offset + 1) } else { (at, SIZE - offset) };
    let mut part = 0;
    for n in 0..count {
        match cpu.window.load::<u8>(from.wrapping_add(n)) {
            Some(byte) => part |= u64::from(byte) << (8 * n),
            None => return cpu.fault(i, Trap::Load(at)),
        }
    }
    let ones = u64::MAX >> (64 - 8 * count);
    let shift = if LEFT { bits - 8 * count } else { 0 };
    let value = cpu.x(i.rd) & !(ones << shift) | part << shift;
    cpu.set_x(i.to, if SIZE == 4 { sx(value) } else { value });
    i.chain(cpu)
}

fn store_part<const SIZE: u64, const LEFT: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let at = cpu.x(i.rj).wrapping_add(i.imm as u64);
    let offset = at % SIZE;
    let (from, count) = if LEFT { (at - offset, offset + 1) } else { (at, SIZE - offset) };
    let shift = if LEFT { 8 * (SIZE - count) } else { 0 };
    let value = cpu.x(i.rd) >> shift;
    for n in 0..count {
        if cpu.window.store(from.wrapping_add(n), (value >> (8 * n)) as u8).is_none() {
            return cpu.fault(i, Trap::Store(at));
        }
    }
    i.chain(cpu)
}

pub(super) static TABLE: &[Entry] = &[
    ("ld.d", single::<Load<u64, Offset>>),
    ("st.d", single::<Store<u64, Offset>>),
    ("ld.w", single::<Load<i32, Offset>>),
    ("st.w", single::<Store<u32, Offset>>),
    ("ld.b", single::<Load<i8, Offset>>),
    ("ld.h", single::<Load<i16, Offset>>),
    ("ld.bu", single::<Load<u8, Offset>>),
    ("ld.hu", single::<Load<u16, Offset>>),
    ("ld.wu", single::<Load<u32, Offset>>),
    ("st.b", single::<Store<u8, Offset>>),
    ("st.h", single::<Store<u16, Offset>>),
    ("ldptr.w", single::<Load<i32, Offset>>),
    ("ldptr.d", single::<Load<u64, Offset>>),
    ("stptr.w", single::<Store<u32, Offset>>),
    ("stptr.d", single::<Store<u64, Offset>>),
    ("ldx.b", single::<Load<i8, Index>>),
    ("ldx.h", single::<Load<i16, Index>>),
    ("ldx.w", single::<Load<i32, Index>>),
    ("ldx.d", single::<Load<u64, Index>>),
    ("ldx.bu", single::<Load<u8, Index>>),
    ("ldx.hu", single::<Load<u16, Index>>),
    ("ldx.wu", single::<Load<u32, Index>>),
    ("stx.b", single::<Store<u8, Index>>),
    ("stx.h", single::<Store<u16, Index>>),
    ("stx.w", single::<Store<u32, Index>>),
    ("stx.d", single::<Store<u64, Index>>),
    ("ldgt.b", if_bound!(load, >, i8_up)),
    ("ldgt.h", if_bound!(load, >, i16_up)),
    ("ldgt.w", if_bound!(load, >, i32_up)),
    ("ldgt.d", if_bound!(load, >, same)),
    ("ldle.b", if_bound!(load, <=, i8_up)),
    ("ldle.h", if_bound!(load, <=, i16_up)),
    ("ldle.w", if_bound!(load, <=, i32_up)),
    ("ldle.d", if_bound!(load, <=, same)),
    ("stgt.b", if_bound!(store, >, to8)),
    ("stgt.h", if_bound!(store, >, to16)),
    ("stgt.w", if_bound!(store, >, to32)),
    ("stgt.d", if_bound!(store, >, same)),
    ("stle.b", if_bound!(store, <=, to8)),
    ("stle.h", if_bound!(store, <=, to16)),
    ("stle.w", if_bound!(store, <=, to32)),
    ("stle.d", if_bound!(store, <=, same)),
];

pub(super) static FLOAT_TABLE: &[Entry] = &[
    ("fld.s", at_offset!(load_float, u32_up)),
    ("fld.d", at_offset!(load_float, same)),
    ("fst.s", at_offset!(store_float, to32)),
    ("fst.d", at_offset!(store_float, same)),
    ("fldx.s", at_index!(load_float, u32_up)),
    ("fldx.d", at_index!(load_float, same)),
    ("fstx.s", at_index!(store_float, to32)),
    ("fstx.d", at_index!(store_float, same)),
    ("fldgt.s", if_bound!(load_float, >, u32_up)),
    ("fldgt.d", if_bound!(load_float, >, same)),
    ("fldle.s", if_bound!(load_float, <=, u32_up)),
    ("fldle.d", if_bound!(load_float, <=, same)),
    ("fstgt.s", if_bound!(store_float, >, to32)),
    ("fstgt.d", if_bound!(store_float, >, same)),
    ("fstle.s", if_bound!(store_float, <=, to32)),
    ("fstle.d", if_bound!(store_float, <=, same)),
];

pub(super) static PART_TABLE: &[Entry] = &[
    ("ldl.w", load_part::<4, true>),
    ("ldr.w", load_part::<4, false>),
    ("ldl.d", load_part::<8, true>),
    ("ldr.d", load_part::<8, false>),
    ("stl.w", store_part::<4, true>),
    ("str.w", store_part::<4, false>),
    ("stl.d", store_part::<8, true>),
    ("str.d", store_part::<8, false>),
];
