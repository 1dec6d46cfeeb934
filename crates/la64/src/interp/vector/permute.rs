//! Moves between lanes: packing, interleaving, picking, shuffling, inserting; masks of lanes.

use super::super::operation::VectorEntry;
use super::super::{Cpu, Cursor, Exit, Handler};
use super::lanes::{Lane, build, get, put};
use super::{both, lane};

/// `name [suffixes] |vd, vj, vk, imm| expression` on whole vectors; `T` is the lane type.
macro_rules! shuffles {
    ($($name:literal [$($suffix:ident)*] |$d:ident, $a:ident, $b:ident, $i:ident| $body:expr;)*) => {
        [$($((concat!($name, ".", stringify!($suffix)), {
            type T = lane!($suffix);
            both!(|$d, $a, $b, $i| {
                let _ = ($d, $b, $i);
                $body
            })
        }),)*)*]
    };
}

const fn count<T: Lane>() -> u32 {
    T::COUNT
}

/// The lane that index lane `index` selects from vk (low) and vj (high).
fn select<T: Lane>(vj: u128, vk: u128, index: u128) -> T {
    let n = (index % u128::from(2 * T::COUNT)) as u32;
    if n < T::COUNT { get(vk, n) } else { get(vj, n - T::COUNT) }
}

/// Alternates lanes: even ones from `low(n)`, odd ones from `high(n)`, n counting pairs.
fn alternate<T: Lane>(low: impl Fn(u32) -> T, high: impl Fn(u32) -> T) -> u128 {
    build(|n| if n % 2 == 0 { low(n / 2) } else { high(n / 2) })
}

/// First half of the lanes from `low(n)`, second from `high(n)`.
fn concatenate<T: Lane>(low: impl Fn(u32) -> T, high: impl Fn(u32) -> T) -> u128 {
    build(|n| if n < T::COUNT / 2 { low(n) } else { high(n - T::COUNT / 2) })
}

/// The index of the first negative lane, or the number of lanes.
fn first_negative<T: Lane>(v: u128) -> u32 {
    let negative = |&n: &u32| get::<T>(v, n).bits() >> (T::BITS - 1) == 1;
    (0..T::COUNT).find(negative).unwrap_or(T::COUNT)
}

/// Bit n of the result says whether lane n satisfies `f`.
fn mask<T: Lane>(v: u128, f: impl Fn(u128) -> bool) -> u128 {
    (0..T::COUNT).fold(0, |m, n| m | u128::from(f(get::<T>(v, n).bits())) << n)
}

fn negative<T: Lane>(bits: u128) -> bool {
    bits >> (T::BITS - 1) == 1
}

pub(super) static LANE_TABLE: [VectorEntry; 53] = shuffles! {
    "vpackev" [b h w d] |d, a, b, i| alternate::<T>(|n| get(b, 2 * n), |n| get(a, 2 * n));
    "vpackod" [b h w d] |d, a, b, i| alternate::<T>(|n| get(b, 2 * n + 1), |n| get(a, 2 * n + 1));
    "vilvl" [b h w d] |d, a, b, i| alternate::<T>(|n| get(b, n), |n| get(a, n));
    "vilvh" [b h w d] |d, a, b, i| alternate::<T>(
        |n| get(b, n + count::<T>() / 2), |n| get(a, n + count::<T>() / 2));
    "vpickev" [b h w d] |d, a, b, i| concatenate::<T>(|n| get(b, 2 * n), |n| get(a, 2 * n));
    "vpickod" [b h w d] |d, a, b, i| concatenate::<T>(|n| get(b, 2 * n + 1), |n| get(a, 2 * n + 1));
    "vreplvei" [b h w d] |d, a, b, i| build::<T>(|_| get(a, i as u32 % count::<T>()));
    "vrepl128vei" [b h w d] |d, a, b, i| build::<T>(|_| get(a, i as u32 % count::<T>()));
    "vshuf" [h w d] |d, a, b, i| build::<T>(|n| select(a, b, get::<T>(d, n).bits()));
    "vshuf4i" [b h w] |d, a, b, i| build::<T>(|n| get(a, n / 4 * 4 + (i as u32 >> (2 * (n % 4)) & 3)));
    "vextrins" [b h w d] |d, a, b, i| {
        let lane = |field: i64| field as u32 % count::<T>();
        put::<T>(d, lane(i >> 4), get(a, lane(i & 15)))
    };
    "vfrstp" [b h] |d, a, b, i| {
        let place = get::<T>(b, 0) as u32 % count::<T>();
        put::<T>(d, place, first_negative::<T>(a) as T)
    };
    "vfrstpi" [b h] |d, a, b, i| {
        put::<T>(d, i as u32 % count::<T>(), first_negative::<T>(a) as T)
    };
    "vmskltz" [b h w d] |d, a, b, i| mask::<T>(a, negative::<T>);
    "vmskgez" [b] |d, a, b, i| mask::<T>(a, |lane| !negative::<T>(lane));
    "vmsknz" [b] |d, a, b, i| mask::<T>(a, |lane| lane != 0);
    "vpermi" [w] |d, a, b, i| build::<T>(|n| {
        let from = if n < 2 { a } else { d };
        get(from, i as u32 >> (2 * n) & 3)
    });
};

/// `vshuf4i.d`: two bits an output lane, the upper choosing vj over vd.
fn shuf4i_d(vd: u128, vj: u128, imm: i64) -> u128 {
    build::<u64>(|n| {
        let field = imm as u32 >> (2 * n) & 3;
        get(if field & 2 != 0 { vj } else { vd }, field & 1)
    })
}

/// The constant of `vldi`, or `None` for the modes that do not exist.
pub(in super::super) fn vldi(imm: i64) -> Option<u64> {
    let t = imm as u64 & 0xff;
    let words = |w: u64| w << 32 | w;
    let halves = |h: u64| words(h << 16 | h);
    let bytes = |b: u64| halves(b << 8 | b);
    if imm & 0x1000 == 0 {
        let value = (imm << 54) >> 54;
        return Some(match imm >> 10 & 3 {
            0 => bytes(t),
            1 => halves(value as u64 & 0xffff),
            2 => words(value as u64 & 0xffff_ffff),
            _ => value as u64,
        });
    }
    let repeat = |bit: u64, width: u32| if bit == 1 { (1u64 << width) - 1 } else { 0 };
    let (sign, six) = (t >> 7, t >> 6 & 1);
    let single = sign << 31 | (six ^ 1) << 30 | repeat(six, 5) << 25 | (t & 63) << 19;
    Some(match imm >> 8 & 15 {
        0 => words(t),
        1 => words(t << 8),
        2 => words(t << 16),
        3 => words(t << 24),
        4 => halves(t),
        5 => halves(t << 8),
        6 => words(t << 8 | 0xff),
        7 => words(t << 16 | 0xffff),
        8 => bytes(t),
        9 => (0..8).fold(0, |v, n| v | repeat(t >> n & 1, 8) << (8 * n)),
        10 => words(single),
        11 => single,
        12 => sign << 63 | (six ^ 1) << 62 | repeat(six, 8) << 54 | (t & 63) << 48,
        _ => return None,
    })
}

fn vldi_run<const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    match vldi(i.imm) {
        Some(value) => {
            super::halves::<WIDE>(cpu, i, |_, _, _, _| u128::from(value) << 64 | u128::from(value))
        }
        None => super::super::operation::illegal_operand(cpu, i),
    }
}

fn vreplve<T: Lane, const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let n = (cpu.x(i.rk) % u64::from(T::COUNT)) as u32;
    super::halves::<WIDE>(cpu, i, |_, vj, _, _| build::<T>(|_| get(vj, n)))
}

fn vreplgr2vr<T: Lane, const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let value = T::cut(cpu.x(i.rj).into());
    super::halves::<WIDE>(cpu, i, |_, _, _, _| build::<T>(|_| value))
}

/// f(vd, vj, vk, va) with a fourth register.
fn with_va<const WIDE: bool>(
    cpu: &mut Cpu,
    i: Cursor<'_>,
    f: fn(u128, u128, u128) -> u128,
) -> Exit {
    for n in 0..1 + usize::from(WIDE) {
        let value = f(cpu.half(i.rj, n), cpu.half(i.rk, n), cpu.half(i.ra, n));
        cpu.set_half(i.rd, n, value);
    }
    i.chain(cpu)
}

fn vbitsel<const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    with_va::<WIDE>(cpu, i, |vj, vk, va| vk & va | vj & !va)
}

fn vshuf_b<const WIDE: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    with_va::<WIDE>(cpu, i, |vj, vk, va| build::<u8>(|n| select(vj, vk, get::<u8>(va, n).into())))
}

macro_rules! pair {
    ($name:literal, $f:ident $(, $type:ty)?) => {
        ($name, [$f::<$($type,)? false> as Handler, $f::<$($type,)? true> as Handler])
    };
}

pub(super) static TABLE: &[VectorEntry] = &[
    ("vshuf4i.d", both!(|d, a, _, i| shuf4i_d(d, a, i))),
    pair!("vldi", vldi_run),
    pair!("vbitsel.v", vbitsel),
    pair!("vshuf.b", vshuf_b),
    pair!("vreplve.b", vreplve, u8),
    pair!("vreplve.h", vreplve, u16),
    pair!("vreplve.w", vreplve, u32),
    pair!("vreplve.d", vreplve, u64),
    pair!("vreplgr2vr.b", vreplgr2vr, u8),
    pair!("vreplgr2vr.h", vreplgr2vr, u16),
    pair!("vreplgr2vr.w", vreplgr2vr, u32),
    pair!("vreplgr2vr.d", vreplgr2vr, u64),
];
