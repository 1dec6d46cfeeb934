//! Lane-wise integer arithmetic, comparison, logic, and the widening forms.
//!
//! - Division by zero gives 0 in quotient and remainder; the overflowing quotient wraps.

use super::super::operation::VectorEntry;
use super::super::{Cpu, Cursor, Exit, Handler};
use super::lanes::{Lane, build, get};
use super::{both, lane, lanes_of};

/// Lane types for which "all ones" is what a true comparison stores.
macro_rules! truth {
    ($condition:expr) => {
        if $condition { !0 } else { 0 }
    };
}

/// `name [suffixes] |d, a, b, i| expression`: lane n of the result from lane n of vd, vj, vk and
/// the immediate; `T` names the lane type.
macro_rules! lanewise {
    ($($name:literal [$($suffix:ident)*] |$d:ident, $a:ident, $b:ident, $i:ident| $body:expr;)*) => {
        &[$($((concat!($name, ".", stringify!($suffix)), {
            #[allow(dead_code)]
            type T = lane!($suffix);
            lanes_of!(T, |$d: T, $a: T, $b: T, $i: i64| {
                let _ = ($d, $b, $i);
                $body
            })
        }),)*)*]
    };
}

/// As `lanewise`, with the whole 128 bits as one unsigned lane and `.v` for a suffix.
macro_rules! bitwise {
    ($($name:literal |$d:ident, $a:ident, $b:ident, $i:ident| $body:expr;)*) => {
        [$(($name, both!(|$d, $a, $b, $i| {
            let _ = ($d, $b, $i);
            $body
        })),)*]
    };
}

pub(super) static TABLE: &[VectorEntry] = lanewise! {
    "vseq" [b h w d] |d, a, b, i| truth!(a == b);
    "vsle" [b h w d bu hu wu du] |d, a, b, i| truth!(a <= b);
    "vslt" [b h w d bu hu wu du] |d, a, b, i| truth!(a < b);
    "vseqi" [b h w d] |d, a, b, i| truth!(a == i as T);
    "vslei" [b h w d bu hu wu du] |d, a, b, i| truth!(a <= i as T);
    "vslti" [b h w d bu hu wu du] |d, a, b, i| truth!(a < i as T);
    "vadd" [b h w d q] |d, a, b, i| a.wrapping_add(b);
    "vsub" [b h w d q] |d, a, b, i| a.wrapping_sub(b);
    "vaddi" [bu hu wu du] |d, a, b, i| a.wrapping_add(i as T);
    "vsubi" [bu hu wu du] |d, a, b, i| a.wrapping_sub(i as T);
    "vsadd" [b h w d bu hu wu du] |d, a, b, i| a.saturating_add(b);
    "vssub" [b h w d bu hu wu du] |d, a, b, i| a.saturating_sub(b);
    "vadda" [b h w d] |d, a, b, i| a.wrapping_abs().wrapping_add(b.wrapping_abs());
    "vabsd" [b h w d bu hu wu du] |d, a, b, i| (a as i128 - b as i128).unsigned_abs() as T;
    "vavg" [b h w d bu hu wu du] |d, a, b, i| ((a as i128 + b as i128) >> 1) as T;
    "vavgr" [b h w d bu hu wu du] |d, a, b, i| ((a as i128 + b as i128 + 1) >> 1) as T;
    "vmax" [b h w d bu hu wu du] |d, a, b, i| a.max(b);
    "vmin" [b h w d bu hu wu du] |d, a, b, i| a.min(b);
    "vmaxi" [b h w d bu hu wu du] |d, a, b, i| a.max(i as T);
    "vmini" [b h w d bu hu wu du] |d, a, b, i| a.min(i as T);
    "vmul" [b h w d] |d, a, b, i| a.wrapping_mul(b);
    "vmuh" [b h w d bu hu wu du] |d, a, b, i|
        ((a as i128).wrapping_mul(b as i128) >> <T as Lane>::BITS) as T;
    "vmadd" [b h w d] |d, a, b, i| d.wrapping_add(a.wrapping_mul(b));
    "vmsub" [b h w d] |d, a, b, i| d.wrapping_sub(a.wrapping_mul(b));
    "vdiv" [b h w d bu hu wu du] |d, a, b, i| if b == 0 { 0 } else { a.wrapping_div(b) };
    "vmod" [b h w d bu hu wu du] |d, a, b, i| if b == 0 { 0 } else { a.wrapping_rem(b) };
    "vsigncov" [b h w d] |d, a, b, i| b.wrapping_mul(a.signum());
    "vneg" [b h w d] |d, a, b, i| a.wrapping_neg();
    "vclo" [b h w d] |d, a, b, i| a.leading_ones() as T;
    "vclz" [b h w d] |d, a, b, i| a.leading_zeros() as T;
    "vpcnt" [b h w d] |d, a, b, i| a.count_ones() as T;
    "vandi" [b] |d, a, b, i| a & i as T;
    "vori" [b] |d, a, b, i| a | i as T;
    "vxori" [b] |d, a, b, i| a ^ i as T;
    "vnori" [b] |d, a, b, i| !(a | i as T);
    "vbitseli" [b] |d, a, b, i| a & !d | i as T & d;
};

/// The logical operations on all bits at once.
pub(super) static LOGIC_TABLE: [VectorEntry; 6] = bitwise! {
    "vand.v" |d, a, b, i| a & b;
    "vor.v" |d, a, b, i| a | b;
    "vxor.v" |d, a, b, i| a ^ b;
    "vnor.v" |d, a, b, i| !(a | b);
    "vandn.v" |d, a, b, i| !a & b;
    "vorn.v" |d, a, b, i| a | !b;
};

/// `name even|odd [W.N ...] |d, a, b| expression`: lane n (type `W`) of the result, from lane n of
/// vd and lanes 2n or 2n + 1 of vj and vk, widened.
macro_rules! widening {
    ($($name:literal $odd_a:literal $odd_b:literal [$($wide:ident . $narrow:ident)*]
       |$d:ident, $a:ident, $b:ident| $body:expr;)*) => {
        [$($((concat!($name, ".", stringify!($wide), ".", stringify!($narrow)), {
            type W = lane!($wide);
            type N = lane!($narrow);
            both!(|vd, vj, vk, _| build::<W>(|n| {
                let a: N = get(vj, 2 * n + $odd_a);
                let b: N = get(vk, 2 * n + $odd_b);
                let ($d, $a, $b) = (get::<W>(vd, n), a as W, b as W);
                let _ = $d;
                $body
            }))
        }),)*)*]
    };
}

/// As `widening`, vj unsigned and vk signed.
macro_rules! mixed {
    ($($name:literal $odd:literal [$($wide:ident . $narrow:ident . $signed:ident)*]
       |$d:ident, $a:ident, $b:ident| $body:expr;)*) => {
        [$($((concat!($name, ".", stringify!($wide), ".", stringify!($narrow), ".", stringify!($signed)), {
            type W = lane!($wide);
            both!(|vd, vj, vk, _| build::<W>(|n| {
                let a: lane!($narrow) = get(vj, 2 * n + $odd);
                let b: lane!($signed) = get(vk, 2 * n + $odd);
                let ($d, $a, $b) = (get::<W>(vd, n), a as W, b as W);
                let _ = $d;
                $body
            }))
        }),)*)*]
    };
}

pub(super) static WIDENING_TABLE: [VectorEntry; 80] = widening! {
    "vaddwev" 0 0 [h.b w.h d.w q.d h.bu w.hu d.wu q.du] |d, a, b| a.wrapping_add(b);
    "vaddwod" 1 1 [h.b w.h d.w q.d h.bu w.hu d.wu q.du] |d, a, b| a.wrapping_add(b);
    "vsubwev" 0 0 [h.b w.h d.w q.d h.bu w.hu d.wu q.du] |d, a, b| a.wrapping_sub(b);
    "vsubwod" 1 1 [h.b w.h d.w q.d h.bu w.hu d.wu q.du] |d, a, b| a.wrapping_sub(b);
    "vmulwev" 0 0 [h.b w.h d.w q.d h.bu w.hu d.wu q.du] |d, a, b| a.wrapping_mul(b);
    "vmulwod" 1 1 [h.b w.h d.w q.d h.bu w.hu d.wu q.du] |d, a, b| a.wrapping_mul(b);
    "vmaddwev" 0 0 [h.b w.h d.w q.d h.bu w.hu d.wu q.du] |d, a, b| d.wrapping_add(a.wrapping_mul(b));
    "vmaddwod" 1 1 [h.b w.h d.w q.d h.bu w.hu d.wu q.du] |d, a, b| d.wrapping_add(a.wrapping_mul(b));
    "vhaddw" 1 0 [h.b w.h d.w q.d hu.bu wu.hu du.wu qu.du] |d, a, b| a.wrapping_add(b);
    "vhsubw" 1 0 [h.b w.h d.w q.d hu.bu wu.hu du.wu qu.du] |d, a, b| a.wrapping_sub(b);
};

pub(super) static MIXED_TABLE: [VectorEntry; 24] = mixed! {
    "vaddwev" 0 [h.bu.b w.hu.h d.wu.w q.du.d] |d, a, b| a.wrapping_add(b);
    "vaddwod" 1 [h.bu.b w.hu.h d.wu.w q.du.d] |d, a, b| a.wrapping_add(b);
    "vmulwev" 0 [h.bu.b w.hu.h d.wu.w q.du.d] |d, a, b| a.wrapping_mul(b);
    "vmulwod" 1 [h.bu.b w.hu.h d.wu.w q.du.d] |d, a, b| a.wrapping_mul(b);
    "vmaddwev" 0 [h.bu.b w.hu.h d.wu.w q.du.d] |d, a, b| d.wrapping_add(a.wrapping_mul(b));
    "vmaddwod" 1 [h.bu.b w.hu.h d.wu.w q.du.d] |d, a, b| d.wrapping_add(a.wrapping_mul(b));
};
