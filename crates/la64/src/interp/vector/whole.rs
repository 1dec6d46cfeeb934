//! Operations that are not the same on both halves: moves to and from general registers, tests into
//! condition flags, and LASX permutations across the halves.

use super::super::operation::{Entry, Operation, VectorEntry, single};
use super::super::{Cpu, Cursor, Exit, Handler};
use super::lanes::{Lane, get, put};
use super::{lane, raw};
use crate::state::Vreg;
use std::ops::ControlFlow;

/// The whole register as bytes-in-lanes of one type.
fn lane_of<T: Lane>(v: Vreg, n: u32) -> T {
    let bit = n * T::BITS;
    let half = (bit / 128) as usize * 2;
    get::<T>(u128::from(v.0[half]) | u128::from(v.0[half + 1]) << 64, n % T::COUNT)
}

fn with_lane<T: Lane>(mut v: Vreg, n: u32, lane: T) -> Vreg {
    let half = (n / T::COUNT) as usize * 2;
    let old = u128::from(v.0[half]) | u128::from(v.0[half + 1]) << 64;
    let new = put::<T>(old, n % T::COUNT, lane);
    (v.0[half], v.0[half + 1]) = (new as u64, (new >> 64) as u64);
    v
}

fn build<T: Lane>(f: impl Fn(u32) -> T) -> Vreg {
    (0..2 * T::COUNT).fold(Vreg::default(), |v, n| with_lane(v, n, f(n)))
}

/// xd = f(xd, xj, xk, immediate) on 256 bits.
macro_rules! xd {
    ($f:expr) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let f: fn(Vreg, Vreg, Vreg, u32) -> Vreg = $f;
            let register = |slot: super::super::Slot| cpu.state.v[slot.number() & 31];
            let value = f(register(i.rd), register(i.rj), register(i.rk), i.imm as u32);
            cpu.state.v[i.rd.number() & 31] = value;
            i.chain(cpu)
        }
        run
    }};
}

macro_rules! ext2xv {
    ($($wide:ident . $narrow:ident)*) => {
        [$((concat!("vext2xv.", stringify!($wide), ".", stringify!($narrow)),
            xd!(|_, j, _, _| build::<lane!($wide)>(|n| lane_of::<lane!($narrow)>(j, n) as lane!($wide))) as Handler),)*]
    };
}

pub(super) static EXTEND_TABLE: [Entry; 12] = ext2xv! {
    h.b w.b d.b w.h d.h d.w hu.bu wu.bu du.bu wu.hu du.hu du.wu
};

fn quad(field: u32, xd: Vreg, xj: Vreg) -> u128 {
    lane_of(if field & 2 != 0 { xd } else { xj }, field & 1)
}

pub(super) static WIDE_TABLE: &[Entry] = &[
    ("xvinsgr2vr.w", single::<InsertW>),
    ("xvinsgr2vr.d", insert_d),
    ("xvpickve2gr.w", pick::<i32, 7>),
    ("xvpickve2gr.d", pick::<i64, 3>),
    ("xvpickve2gr.wu", pick::<u32, 7>),
    ("xvpickve2gr.du", pick::<u64, 3>),
    ("xvinsve0.w", xd!(|d, j, _, i| with_lane(d, i, lane_of::<u32>(j, 0)))),
    ("xvinsve0.d", xd!(|d, j, _, i| with_lane(d, i, lane_of::<u64>(j, 0)))),
    ("xvpickve.w", xd!(|_, j, _, i| with_lane(Vreg::default(), 0, lane_of::<u32>(j, i)))),
    ("xvpickve.d", xd!(|_, j, _, i| with_lane(Vreg::default(), 0, lane_of::<u64>(j, i)))),
    ("xvperm.w", xd!(|_, j, k, _| build::<u32>(|n| lane_of(j, lane_of::<u32>(k, n) & 7)))),
    ("xvpermi.d", xd!(|_, j, _, i| build::<u64>(|n| lane_of(j, i >> (2 * n) & 3)))),
    ("xvpermi.q", xd!(|d, j, _, i| build::<u128>(|n| quad(i >> (4 * n) & 3, d, j)))),
    ("xvreplve0.b", xd!(|_, j, _, _| build::<u8>(|_| lane_of(j, 0)))),
    ("xvreplve0.h", xd!(|_, j, _, _| build::<u16>(|_| lane_of(j, 0)))),
    ("xvreplve0.w", xd!(|_, j, _, _| build::<u32>(|_| lane_of(j, 0)))),
    ("xvreplve0.d", xd!(|_, j, _, _| build::<u64>(|_| lane_of(j, 0)))),
    ("xvreplve0.q", xd!(|_, j, _, _| build::<u128>(|_| lane_of(j, 0)))),
];

fn insert<T: Lane, const LAST: u32>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let lane = T::cut(cpu.x(i.rj).into());
    let register = &mut cpu.state.v[i.rd.number() & 31];
    *register = with_lane(*register, i.imm as u32 & LAST, lane);
    i.chain(cpu)
}

/// `vinsgr2vr.w`. The immediate is the word's place among all of the register file (see
/// `bind::adjust`).
pub(in super::super) struct InsertW;

impl Operation for InsertW {
    #[inline(always)]
    fn run(cpu: &mut Cpu, i: Cursor<'_>) -> ControlFlow<Exit> {
        let value = cpu.x(i.rj) as u32;
        raw::words(&mut cpu.state.v)[usize::from(i.imm as u8)] = value;
        ControlFlow::Continue(())
    }
}

/// As [`InsertW`], a doubleword.
fn insert_d(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let value = cpu.x(i.rj);
    raw::doublewords(&mut cpu.state.v)[usize::from(i.imm as u8 & 127)] = value;
    i.chain(cpu)
}

/// A lane as a general register holds it.
trait Widen {
    fn widen(self) -> u64;
}

macro_rules! widen {
    ($($type:ty)*) => {
        $(impl Widen for $type {
            fn widen(self) -> u64 {
                self as u64
            }
        })*
    };
}
widen!(i8 i16 i32 i64 u8 u16 u32 u64);

fn pick<T: Lane + Widen, const LAST: u32>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let value = lane_of::<T>(cpu.state.v[i.rj.number() & 31], i.imm as u32 & LAST).widen();
    cpu.set_x(i.to, value);
    i.chain(cpu)
}

/// Sets a condition flag from the lanes that the register's width covers: f(zero lanes, lanes).
fn test<T: Lane, const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>, f: fn(u32, u32) -> bool) -> Exit {
    let v = cpu.state.v[i.rj.number() & 31];
    let count = T::COUNT * if WIDE { 2 } else { 1 };
    let zeros = (0..count).filter(|&n| lane_of::<T>(v, n).bits() == 0).count() as u32;
    cpu.state.fcc[i.rd.number() & 7] = u8::from(f(zeros, count));
    i.chain(cpu)
}

/// Entries of one test for both widths.
macro_rules! tests {
    ($($name:literal $type:ty, $f:expr;)*) => {
        &[
            $(($name, {
                fn run<const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
                    test::<$type, WIDE>(cpu, i, $f)
                }
                [run::<false> as Handler, run::<true> as Handler]
            }),)*
            ("vinsgr2vr.b", [insert::<u8, 15>, insert::<u8, 15>]),
            ("vinsgr2vr.h", [insert::<u16, 7>, insert::<u16, 7>]),
            ("vinsgr2vr.w", [single::<InsertW>, single::<InsertW>]),
            ("vinsgr2vr.d", [insert_d, insert_d]),
            ("vpickve2gr.b", [pick::<i8, 15>, pick::<i8, 15>]),
            ("vpickve2gr.h", [pick::<i16, 7>, pick::<i16, 7>]),
            ("vpickve2gr.w", [pick::<i32, 3>, pick::<i32, 7>]),
            ("vpickve2gr.d", [pick::<i64, 1>, pick::<i64, 3>]),
            ("vpickve2gr.bu", [pick::<u8, 15>, pick::<u8, 15>]),
            ("vpickve2gr.hu", [pick::<u16, 7>, pick::<u16, 7>]),
            ("vpickve2gr.wu", [pick::<u32, 3>, pick::<u32, 7>]),
            ("vpickve2gr.du", [pick::<u64, 1>, pick::<u64, 3>]),
        ]
    };
}

pub(super) static TABLE: &[VectorEntry] = tests! {
    "vseteqz.v" u64, |zeros, lanes| zeros == lanes;
    "vsetnez.v" u64, |zeros, lanes| zeros != lanes;
    "vsetanyeqz.b" u8, |zeros, _| zeros > 0;
    "vsetanyeqz.h" u16, |zeros, _| zeros > 0;
    "vsetanyeqz.w" u32, |zeros, _| zeros > 0;
    "vsetanyeqz.d" u64, |zeros, _| zeros > 0;
    "vsetallnez.b" u8, |zeros, _| zeros == 0;
    "vsetallnez.h" u16, |zeros, _| zeros == 0;
    "vsetallnez.w" u32, |zeros, _| zeros == 0;
    "vsetallnez.d" u64, |zeros, _| zeros == 0;
};
