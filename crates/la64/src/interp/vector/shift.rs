//! Shifts, rotates and single-bit operations by lane, by register or immediate; counts are taken
//! modulo the lane width.

use super::super::operation::VectorEntry;
use super::super::{Cpu, Cursor, Exit, Handler};
use super::lanes::{Lane, build, get};
use super::{both, lane, lanes_of};

/// `name [suffixes] |d, a, n| expression`, with `n` the count from vk (first name) or from the
/// immediate (second name), already modulo the width; `T` is the lane type, `U` its unsigned twin.
macro_rules! by_count {
    ($($name:literal $immediate:literal |$a:ident, $n:ident| $body:expr;)*) => {
        [$(
            by_count!(@one $name false b bu $a $n $body), by_count!(@one $immediate true b bu $a $n $body),
            by_count!(@one $name false h hu $a $n $body), by_count!(@one $immediate true h hu $a $n $body),
            by_count!(@one $name false w wu $a $n $body), by_count!(@one $immediate true w wu $a $n $body),
            by_count!(@one $name false d du $a $n $body), by_count!(@one $immediate true d du $a $n $body),
        )*]
    };
    (@one $name:literal $fixed:literal $suffix:ident $unsigned:ident $a:ident $n:ident $body:expr) => {
        (concat!($name, ".", stringify!($suffix)), {
            type T = lane!($suffix);
            #[allow(dead_code)]
            type U = lane!($unsigned);
            lanes_of!(T, |_: T, $a: T, count: T, imm: i64| {
                let count = if $fixed { imm as T } else { count };
                let $n: u32 = count as u32 % <T as Lane>::BITS;
                $body
            })
        })
    };
}

/// Shifts right by n and rounds half up.
macro_rules! rounded {
    ($a:expr, $n:expr) => {
        match $n {
            0 => $a,
            n => ($a >> n).wrapping_add($a >> (n - 1) & 1),
        }
    };
}

pub(super) static TABLE: [VectorEntry; 72] = by_count! {
    "vsll" "vslli" |a, n| a << n;
    "vsrl" "vsrli" |a, n| (a as U >> n) as T;
    "vsra" "vsrai" |a, n| a >> n;
    "vrotr" "vrotri" |a, n| a.rotate_right(n);
    "vsrlr" "vsrlri" |a, n| rounded!(a as U, n) as T;
    "vsrar" "vsrari" |a, n| rounded!(a, n);
    "vbitclr" "vbitclri" |a, n| a & !(1 << n);
    "vbitset" "vbitseti" |a, n| a | 1 << n;
    "vbitrev" "vbitrevi" |a, n| a ^ 1 << n;
};

/// Saturation of a lane to imm + 1 bits, and shifts that widen.
macro_rules! by_immediate {
    ($($name:literal [$($suffix:ident)*] |$a:ident, $i:ident| $body:expr;)*) => {
        [$($((concat!($name, ".", stringify!($suffix)), {
            type T = lane!($suffix);
            both!(|_, vj, _, $i| build::<T>(|n| {
                let $a: T = get(vj, n);
                $body
            }))
        }),)*)*]
    };
}

pub(super) static SATURATE_TABLE: [VectorEntry; 8] = by_immediate! {
    "vsat" [b h w d] |a, i| a.clamp(((-1i128) << i) as T, ((1i128 << i) - 1) as T);
    "vsat" [bu hu wu du] |a, i| a.min(((1u128 << (i + 1)) - 1) as T);
};

/// `vsllwil`, `vextl`, `vexth`: lane n from narrow lane n, or n + COUNT for the high half.
macro_rules! extend {
    ($($name:literal $high:literal [$($wide:ident . $narrow:ident)*] |$a:ident, $i:ident| $body:expr;)*) => {
        [$($((concat!($name, ".", stringify!($wide), ".", stringify!($narrow)), {
            type W = lane!($wide);
            both!(|_, vj, _, imm| build::<W>(|n| {
                let narrow: lane!($narrow) = get(vj, n + $high * <W as Lane>::COUNT);
                let ($a, $i) = (narrow as W, imm as u32);
                let _ = $i;
                $body
            }))
        }),)*)*]
    };
}

pub(super) static EXTEND_TABLE: [VectorEntry; 16] = extend! {
    "vsllwil" 0 [h.b w.h d.w hu.bu wu.hu du.wu] |a, i| a << i;
    "vextl" 0 [q.d qu.du] |a, i| a;
    "vexth" 1 [h.b w.h d.w q.d hu.bu wu.hu du.wu qu.du] |a, i| a;
};

/// Byte shifts of the whole 128 bits.
pub(super) static BYTES_TABLE: [VectorEntry; 2] = [
    ("vbsll.v", both!(|_, a, _, i| a << (8 * (i & 15)))),
    ("vbsrl.v", both!(|_, a, _, i| a >> (8 * (i & 15)))),
];
