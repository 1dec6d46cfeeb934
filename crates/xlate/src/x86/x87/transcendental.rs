//! Functions that no fraction gives: computed with 128 bits, then rounded to 64.
//!
//! Angles are reduced by the 66 bits of pi that the processor has, so large ones agree with it.

use super::arithmetic::sum;
use super::float80::{Class, Env, F80, Num, PRECISION, ZERO_DIVIDE};

const PI: Num = Num { neg: false, exp: 1, m: 0xc90f_daa2_2168_c234_c4c6_628b_80dc_1cd1 };
pub(super) const LN_2: Num =
    Num { neg: false, exp: -1, m: 0xb172_17f7_d1cf_79ab_c9e3_b398_03f2_f6af };
/// 66 bits of pi, of which 64 stand behind the point.
const PI_66: u128 = 0x3_243f_6a88_85a3_08d3;
const ONE: Num = Num { neg: false, exp: 0, m: 1 << 127 };
/// Terms below the sum by so many bits are left out.
const ENOUGH: i32 = 132;

/// The constants that instructions load: log2 10, log2 e, pi, log10 2, ln 2.
pub(super) fn constant(n: u8) -> Num {
    match n {
        0 => ONE,
        1 => Num { neg: false, exp: 1, m: 0xd49a_784b_cd1b_8afe_492b_f6ff_4daf_db4c },
        2 => Num { neg: false, exp: 0, m: 0xb8aa_3b29_5c17_f0bb_be87_fed0_691d_3e88 },
        3 => PI,
        4 => Num { neg: false, exp: -2, m: 0x9a20_9a84_fbcf_f798_8f89_59ac_0b7c_9178 },
        5 => LN_2,
        _ => Num::ZERO,
    }
}

fn mul(a: Num, b: Num) -> Num {
    let (ah, al) = (a.m >> 64, a.m & u128::from(u64::MAX));
    let (bh, bl) = (b.m >> 64, b.m & u128::from(u64::MAX));
    let middle = ((ah * bl) >> 64) + ((al * bh) >> 64);
    Num::new(a.neg != b.neg, a.exp + b.exp + 1, ah * bh + middle)
}

/// A bit of the quotient at a time.
fn div(a: Num, b: Num) -> Num {
    if a.m == 0 {
        return a;
    }
    let (mut rest, mut quotient, mut carry) = (a.m, 0u128, false);
    for _ in 0..128 {
        let takes = carry || rest >= b.m;
        quotient = quotient << 1 | u128::from(takes);
        rest = if takes { rest.wrapping_sub(b.m) } else { rest };
        carry = rest >> 127 == 1;
        rest <<= 1;
    }
    Num::new(a.neg != b.neg, a.exp - b.exp, quotient)
}

fn small(n: i64) -> Num {
    Num::integer(n)
}

/// Adds terms until they no longer count: `next` makes the n-th of the one before.
fn series(first: Num, next: impl Fn(Num, i64) -> Num) -> Num {
    let (mut all, mut term) = (first, first);
    for n in 1..200 {
        term = next(term, n);
        if term.m == 0 || term.exp < all.exp - ENOUGH {
            break;
        }
        all = sum(all, term);
    }
    all
}

fn negated(n: Num) -> Num {
    Num { neg: !n.neg, ..n }
}

/// The sine of an angle of at most a quarter of pi.
fn sine(x: Num) -> Num {
    let square = negated(mul(x, x));
    series(x, |term, n| div(mul(term, square), small(2 * n * (2 * n + 1))))
}

fn cosine(x: Num) -> Num {
    let square = negated(mul(x, x));
    series(ONE, |term, n| div(mul(term, square), small(2 * n * (2 * n - 1))))
}

/// Sine and cosine; `None` where the angle is too large.
fn both(x: Num) -> Option<(Num, Num)> {
    if x.exp >= 63 {
        return None;
    }
    if x.exp < -1 {
        return Some((sine(x), cosine(x)));
    }
    // Units of 2^-65.
    let units = (x.m >> 64) << (x.exp + 2);
    let (turns, mut rest) = (units / PI_66, units % PI_66);
    let swaps = rest > PI_66 / 2;
    if swaps {
        rest = PI_66 - rest;
    }
    let angle = Num::new(false, 62, rest);
    let (mut s, mut c) = (sine(angle), cosine(angle));
    if swaps {
        std::mem::swap(&mut s, &mut c);
    }
    let (s, c) = match turns & 3 {
        0 => (s, c),
        1 => (c, negated(s)),
        2 => (negated(s), negated(c)),
        _ => (negated(c), s),
    };
    Some((if x.neg { negated(s) } else { s }, c))
}

/// The result, which is never exact.
fn inexact(n: Num, env: &mut Env) -> F80 {
    if n.m == 0 {
        return F80::zero(n.neg);
    }
    let result = env.full(Num { m: n.m | 1, ..n });
    env.flags |= PRECISION;
    result
}

/// What a trigonometric instruction computes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Angle {
    Sine,
    Cosine,
    Tangent,
}

/// `None` where the angle is too large.
pub(super) fn of_angle(x: F80, what: Angle, env: &mut Env) -> Option<F80> {
    if let Some(nan) = env.special(x, F80::zero(false)) {
        return Some(nan);
    }
    match x.class() {
        Class::Infinity => return Some(env.invalid()),
        Class::Zero if what == Angle::Cosine => return Some(F80::exact(ONE)),
        Class::Zero => return Some(x),
        _ => {}
    }
    let (s, c) = both(x.num())?;
    env.denormal(&[x]);
    Some(match what {
        Angle::Sine => inexact(s, env),
        Angle::Cosine => inexact(c, env),
        Angle::Tangent => inexact(div(s, c), env),
    })
}

/// The arc of a tangent of at most one.
fn arc(t: Num) -> Num {
    let square = mul(t, t);
    let below = sum(ONE, square);
    let ratio = div(square, below);
    series(div(t, below), |term, n| div(mul(mul(term, ratio), small(2 * n)), small(2 * n + 1)))
}

/// The angle of the point `(x, y)`.
pub(super) fn angle(y: F80, x: F80, env: &mut Env) -> F80 {
    if let Some(nan) = env.special(x, y) {
        return nan;
    }
    let times_pi = |numerator: i64, exp: i32| {
        let n = mul(PI, small(numerator));
        Num { neg: y.neg(), exp: n.exp + exp, ..n }
    };
    env.denormal(&[x, y]);
    let result = match (y.class(), x.class()) {
        (Class::Infinity, Class::Infinity) if x.neg() => times_pi(3, -2),
        (Class::Infinity, Class::Infinity) => times_pi(1, -2),
        (Class::Infinity, _) => times_pi(1, -1),
        (Class::Zero, _) | (_, Class::Infinity) if x.neg() => times_pi(1, 0),
        (Class::Zero, _) | (_, Class::Infinity) => return F80::zero(y.neg()),
        (_, Class::Zero) => times_pi(1, -1),
        _ => {
            let (a, b) = (Num { neg: false, ..y.num() }, Num { neg: false, ..x.num() });
            let half = times_pi(1, -1);
            let half = Num { neg: false, ..half };
            let is_steep = (a.exp, a.m) > (b.exp, b.m);
            let of = |n, d| arc(div(n, d));
            let first = if is_steep { sum(half, negated(of(b, a))) } else { of(a, b) };
            let all = if x.neg() { sum(PI, negated(first)) } else { first };
            Num { neg: y.neg(), ..all }
        }
    };
    inexact(result, env)
}

/// `2^x - 1`.
pub(super) fn power(x: F80, env: &mut Env) -> F80 {
    if let Some(nan) = env.special(x, F80::zero(false)) {
        return nan;
    }
    match x.class() {
        Class::Zero => return x,
        Class::Infinity if x.neg() => return F80::exact(negated(ONE)),
        Class::Infinity => return x,
        _ => env.denormal(&[x]),
    }
    let n = x.num();
    if n.exp >= 0 {
        // Beyond one the processor's result is not defined; of one it is exact, which it
        // does not tell.
        let half = Num { neg: true, exp: -1, ..ONE };
        env.flags |= PRECISION;
        return match (n.exp, n.m == ONE.m) {
            (0, true) => F80::exact(if n.neg { half } else { ONE }),
            _ => x,
        };
    }
    let z = mul(n, LN_2);
    inexact(series(z, |term, n| div(mul(term, z), small(n + 1))), env)
}

/// Twice the area of a hyperbolic tangent, over ln 2: the logarithm of `(1 + s) / (1 - s)`.
fn logarithm(s: Num) -> Num {
    let square = mul(s, s);
    let mut power = s;
    let mut all = s;
    for n in 1..100 {
        power = mul(power, square);
        let term = div(power, small(2 * n + 1));
        if term.m == 0 || term.exp < all.exp - ENOUGH {
            break;
        }
        all = sum(all, term);
    }
    let all = div(all, LN_2);
    Num { exp: all.exp + 1, ..all }
}

/// The logarithm of a positive number, to the base of two.
fn log2(x: Num) -> Num {
    // The significand lies around one.
    const ROOT: u128 = 0xb504_f333_f9de_6484_597d_89b3_754a_be9f;
    let (exp, m) = if x.m > ROOT { (x.exp + 1, -1) } else { (x.exp, 0) };
    let m = Num { exp: m, ..x };
    let less = sum(m, negated(ONE));
    if less.m == 0 {
        return small(exp.into());
    }
    sum(small(exp.into()), logarithm(div(less, sum(m, ONE))))
}

/// `y` times the logarithm of `x`.
pub(super) fn times_log(y: F80, x: F80, env: &mut Env) -> F80 {
    if let Some(nan) = env.special(x, y) {
        return nan;
    }
    let one = F80::exact(ONE);
    if x.neg() && x.class() != Class::Zero {
        return env.invalid();
    }
    let is_below = matches!(x.class(), Class::Zero | Class::Denormal) || x.num().exp < 0;
    match (x.class(), y.class()) {
        (Class::Zero, Class::Zero) | (Class::Infinity, Class::Zero) => return env.invalid(),
        (Class::Zero, Class::Infinity) => return F80::infinity(!y.neg()),
        (Class::Zero, _) => {
            env.flags |= ZERO_DIVIDE;
            return F80::infinity(!y.neg());
        }
        (Class::Infinity, _) => {
            env.denormal(&[y]);
            return F80::infinity(y.neg());
        }
        (_, Class::Infinity) if x == one => return env.invalid(),
        (_, Class::Infinity) => {
            env.denormal(&[x]);
            return F80::infinity(y.neg() != is_below);
        }
        _ => env.denormal(&[x, y]),
    }
    let log = log2(x.num());
    if log.m == 0 || y.class() == Class::Zero {
        return F80::zero(y.neg() != (is_below && x != one));
    }
    let product = mul(y.num(), log);
    if x.num().m == ONE.m {
        // The processor calls it inexact also where it is exact.
        let result = env.full(product);
        env.flags |= PRECISION;
        return result;
    }
    inexact(product, env)
}

/// `y` times the logarithm of `1 + x`.
pub(super) fn times_log_1(y: F80, x: F80, env: &mut Env) -> F80 {
    if let Some(nan) = env.special(x, y) {
        return nan;
    }
    if x.class() == Class::Infinity {
        return match x.neg() || y.class() == Class::Zero {
            true => env.invalid(),
            false => F80::infinity(y.neg()),
        };
    }
    let neg = x.neg() != y.neg();
    if y.class() == Class::Infinity {
        if x.class() == Class::Zero {
            return env.invalid();
        }
        env.denormal(&[x]);
        return F80::infinity(neg);
    }
    env.denormal(&[x, y]);
    if x.class() == Class::Zero || y.class() == Class::Zero {
        return F80::zero(neg);
    }
    let n = x.num();
    let log = if n.exp < -1 {
        logarithm(div(n, sum(n, small(2))))
    } else {
        let all = sum(ONE, n);
        if all.neg || all.m == 0 {
            return env.invalid();
        }
        log2(all)
    };
    inexact(mul(y.num(), log), env)
}
