//! Arithmetic and comparison.

use super::round::{round, shift_sticky};
use super::{
    Class, Double, Env, Format, Number, Rounding, TOP, flag, infinity, invalid, propagate, unpack,
    zero,
};
use std::cmp::Ordering;

/// a + b.
pub fn add<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    let (x, y) = (unpack::<F>(a), unpack::<F>(b));
    if x.is_nan() || y.is_nan() {
        return propagate::<F>(&[a, b], env);
    }
    match (x.class, y.class) {
        (Class::Infinite, Class::Infinite) if x.negative != y.negative => invalid::<F>(env),
        (Class::Infinite, _) => a,
        (_, Class::Infinite) => b,
        (Class::Zero, Class::Zero) => zero::<F>(sum_of_zeros(x.negative, y.negative, env)),
        (Class::Zero, _) => b,
        (_, Class::Zero) => a,
        _ => add_finite::<F>(x, y, env),
    }
}

/// a - b.
pub fn sub<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    let nan = unpack::<F>(b).is_nan();
    add::<F>(a, if nan { b } else { b ^ F::SIGN }, env)
}

/// The sign of an exact zero sum.
fn sum_of_zeros(a: bool, b: bool, env: &Env) -> bool {
    if a == b { a } else { env.rounding == Rounding::Down }
}

/// Sum of two finite non-zero numbers, significands with their leading ones at `TOP`.
fn add_finite<F: Format>(x: Number, y: Number, env: &mut Env) -> u64 {
    let larger_first = (x.exponent, x.significand) >= (y.exponent, y.significand);
    let (big, small) = if larger_first { (x, y) } else { (y, x) };
    let shifted = shift_sticky(small.significand, (big.exponent - small.exponent) as u32);
    if big.negative == small.negative {
        return round::<F>(big.negative, big.exponent, big.significand + shifted, env);
    }
    match big.significand - shifted {
        0 => zero::<F>(sum_of_zeros(x.negative, y.negative, env)),
        difference => round::<F>(big.negative, big.exponent, difference, env),
    }
}

/// Exact product of two finite non-zero numbers of at most 53 significant bits.
fn product(x: Number, y: Number) -> Number {
    let (a, b) = (x.significand >> (TOP - 52), y.significand >> (TOP - 52));
    let raw = a * b;
    let lift = raw.leading_zeros() - 1;
    // raw / 2^104 is in [1, 4).
    let exponent = x.exponent + y.exponent + (TOP as i32 - lift as i32) - 104;
    Number {
        class: Class::Finite,
        negative: x.negative != y.negative,
        exponent,
        significand: raw << lift,
    }
}

/// a * b.
pub fn mul<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    let (x, y) = (unpack::<F>(a), unpack::<F>(b));
    if x.is_nan() || y.is_nan() {
        return propagate::<F>(&[a, b], env);
    }
    let negative = x.negative != y.negative;
    match (x.class, y.class) {
        (Class::Infinite, Class::Zero) | (Class::Zero, Class::Infinite) => invalid::<F>(env),
        (Class::Infinite, _) | (_, Class::Infinite) => infinity::<F>(negative),
        (Class::Zero, _) | (_, Class::Zero) => zero::<F>(negative),
        _ => {
            let p = product(x, y);
            round::<F>(negative, p.exponent, p.significand, env)
        }
    }
}

/// a / b.
pub fn div<F: Format>(a: u64, b: u64, env: &mut Env) -> u64 {
    let (x, y) = (unpack::<F>(a), unpack::<F>(b));
    if x.is_nan() || y.is_nan() {
        return propagate::<F>(&[a, b], env);
    }
    let negative = x.negative != y.negative;
    match (x.class, y.class) {
        (Class::Infinite, Class::Infinite) | (Class::Zero, Class::Zero) => invalid::<F>(env),
        (Class::Infinite, _) => infinity::<F>(negative),
        (_, Class::Infinite) | (Class::Zero, _) => zero::<F>(negative),
        (_, Class::Zero) => {
            env.raise(flag::DIVIDE_BY_ZERO);
            infinity::<F>(negative)
        }
        _ => {
            let (n, d) = (x.significand >> (TOP - 52) << 66, y.significand >> (TOP - 52));
            // n / d is in (2^65, 2^67); a sticky bit below stands for the remainder.
            let quotient = ((n / d) << 1) | u128::from(n % d != 0);
            let exponent = x.exponent - y.exponent + TOP as i32 - 67;
            round::<F>(negative, exponent, quotient, env)
        }
    }
}

/// Square root.
pub fn sqrt<F: Format>(a: u64, env: &mut Env) -> u64 {
    let x = unpack::<F>(a);
    match x.class {
        Class::Quiet | Class::Signalling => propagate::<F>(&[a], env),
        Class::Zero => a,
        _ if x.negative => invalid::<F>(env),
        Class::Infinite => a,
        Class::Finite => {
            let odd = x.exponent & 1;
            let radicand = x.significand >> (TOP - 120 - odd as u32);
            let root = radicand.isqrt();
            // The root of a number in [2^120, 2^122) is in [2^60, 2^61).
            let sticky = root << 1 | u128::from(root * root != radicand);
            round::<F>(false, (x.exponent - odd) / 2 + TOP as i32 - 61, sticky, env)
        }
    }
}

/// 1 / a.
pub fn recip<F: Format>(a: u64, env: &mut Env) -> u64 {
    div::<F>(F::ONE, a, env)
}

/// 1 / sqrt(a), rounded twice.
pub fn rsqrt<F: Format>(a: u64, env: &mut Env) -> u64 {
    let root = sqrt::<F>(a, env);
    div::<F>(F::ONE, root, env)
}

/// (a * b + c), c negated first and the result last where asked; NaNs are never negated.
pub fn fma<F: Format>(a: u64, b: u64, c: u64, negate: (bool, bool), env: &mut Env) -> u64 {
    let (x, y, mut z) = (unpack::<F>(a), unpack::<F>(b), unpack::<F>(c));
    let no_product = matches!(
        (x.class, y.class),
        (Class::Infinite, Class::Zero) | (Class::Zero, Class::Infinite)
    );
    if no_product {
        env.raise(flag::INVALID);
    }
    if x.is_nan() || y.is_nan() || z.is_nan() {
        return propagate::<F>(&[c, a, b], env);
    }
    if no_product {
        return F::NAN;
    }
    z.negative ^= negate.0;
    let flip = |bits: u64| if negate.1 { bits ^ F::SIGN } else { bits };
    let negative = x.negative != y.negative;
    let infinite = x.class == Class::Infinite || y.class == Class::Infinite;
    if infinite && z.class == Class::Infinite && negative != z.negative {
        return invalid::<F>(env);
    }
    if infinite {
        return flip(infinity::<F>(negative));
    }
    if z.class == Class::Infinite {
        return flip(infinity::<F>(z.negative));
    }
    flip(fma_finite::<F>(x, y, z, env))
}

/// The rounding direction is that of the value before the final negation.
fn fma_finite<F: Format>(x: Number, y: Number, z: Number, env: &mut Env) -> u64 {
    let negative = x.negative != y.negative;
    let no_product = x.class == Class::Zero || y.class == Class::Zero;
    match (no_product, z.class == Class::Zero) {
        (true, true) => zero::<F>(sum_of_zeros(negative, z.negative, env)),
        (true, false) => round::<F>(z.negative, z.exponent, z.significand, env),
        (false, true) => {
            let p = product(x, y);
            round::<F>(negative, p.exponent, p.significand, env)
        }
        (false, false) => add_finite::<F>(product(x, y), z, env),
    }
}

/// How a compares with b; `None` is unordered. A signalling comparison finds any NaN invalid, a
/// quiet one only signalling NaNs.
pub fn compare<F: Format>(a: u64, b: u64, signalling: bool, env: &mut Env) -> Option<Ordering> {
    let (x, y) = (unpack::<F>(a), unpack::<F>(b));
    if x.is_nan() || y.is_nan() {
        let loud = x.class == Class::Signalling || y.class == Class::Signalling;
        if signalling || loud {
            env.raise(flag::INVALID);
        }
        return None;
    }
    Some(order::<F>(a, b))
}

/// Order of two numbers as integers of sign and magnitude; zeros are equal.
fn order<F: Format>(a: u64, b: u64) -> Ordering {
    let key = |bits: u64| {
        let magnitude = (bits & (F::SIGN - 1)) as i64;
        if bits & F::SIGN != 0 { -magnitude } else { magnitude }
    };
    key(a).cmp(&key(b))
}

/// maxNum, minNum and their by-magnitude forms: a quiet NaN loses against a number.
pub fn max_min<F: Format>(a: u64, b: u64, max: bool, magnitude: bool, env: &mut Env) -> u64 {
    let (x, y) = (unpack::<F>(a), unpack::<F>(b));
    if x.is_nan() || y.is_nan() {
        let signalling = x.class == Class::Signalling || y.class == Class::Signalling;
        if signalling || x.is_nan() && y.is_nan() {
            return propagate::<F>(&[a, b], env);
        }
        return if x.is_nan() { b } else { a };
    }
    let by_magnitude = match magnitude {
        true => order::<F>(a & !F::SIGN, b & !F::SIGN),
        false => Ordering::Equal,
    };
    // Minus zero is below plus zero here.
    let by_sign = y.negative.cmp(&x.negative);
    let ordering = by_magnitude.then(order::<F>(a, b)).then(by_sign);
    if (ordering == Ordering::Less) == max { b } else { a }
}

/// a * 2^n, n limited to what can matter.
pub fn scalb<F: Format>(a: u64, n: i64, env: &mut Env) -> u64 {
    let x = unpack::<F>(a);
    match x.class {
        Class::Quiet | Class::Signalling => propagate::<F>(&[a], env),
        Class::Zero | Class::Infinite => a,
        Class::Finite => {
            let limit = 4 * i64::from(Double::BIAS);
            let exponent = x.exponent + n.clamp(-limit, limit) as i32;
            round::<F>(x.negative, exponent, x.significand, env)
        }
    }
}
