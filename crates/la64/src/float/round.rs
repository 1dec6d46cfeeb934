//! The one place where a result is rounded to its format.

use super::{Env, Format, Rounding, TOP, flag, infinity, zero};

/// Shifts right and keeps a trace of what falls off in the lowest bit.
pub(super) fn shift_sticky(value: u128, by: u32) -> u128 {
    match by {
        0 => value,
        1..=127 => value >> by | u128::from(value << (128 - by) != 0),
        _ => u128::from(value != 0),
    }
}

/// Whether to round the magnitude `kept` up, when `rest` of `1 << bits` is cut off.
pub(super) fn rounds_up(
    rounding: Rounding,
    negative: bool,
    kept: u128,
    rest: u128,
    bits: u32,
) -> bool {
    if rest == 0 || bits == 0 {
        return false;
    }
    let half = 1 << (bits - 1);
    match rounding {
        Rounding::NearestEven => rest > half || rest == half && kept & 1 == 1,
        Rounding::Zero => false,
        Rounding::Up => !negative,
        Rounding::Down => negative,
    }
}

/// Cuts `significand` (leading one at `TOP`) by `drop` bits with rounding; the result and whether
/// it was inexact.
fn cut(significand: u128, drop: u32, negative: bool, rounding: Rounding) -> (u128, bool) {
    let (value, drop) = if drop > TOP + 1 { (1, 2) } else { (significand, drop) };
    let (kept, rest) = (value >> drop, value & ((1 << drop) - 1));
    let up = rounds_up(rounding, negative, kept, rest, drop);
    (kept + u128::from(up), rest != 0)
}

/// Rounds `significand / 2^126 * 2^exponent`, significand not zero, and packs it.
pub(super) fn round<F: Format>(
    negative: bool,
    exponent: i32,
    significand: u128,
    env: &mut Env,
) -> u64 {
    let lift = significand.leading_zeros() as i32 - 1;
    if lift < 0 {
        return round::<F>(negative, exponent + 1, shift_sticky(significand, 1), env);
    }
    let (significand, exponent) = (significand << lift, exponent - lift);
    let biased = exponent + F::BIAS;
    let normal_drop = TOP - F::FRACTION;
    if biased <= 0 {
        return subnormal::<F>(negative, biased, significand, env);
    }
    if biased as u64 >= F::EXPONENT_MAX {
        return overflow::<F>(negative, env);
    }
    let (kept, inexact) = cut(significand, normal_drop, negative, env.rounding);
    // A carry out of the fraction lands in the exponent field, as it should.
    let packed = kept as u64 + ((biased as u64 - 1) << F::FRACTION);
    if packed >= F::INFINITY {
        return overflow::<F>(negative, env);
    }
    if inexact {
        env.raise(flag::INEXACT);
    }
    packed | zero::<F>(negative)
}

fn subnormal<F: Format>(negative: bool, biased: i32, significand: u128, env: &mut Env) -> u64 {
    let normal_drop = TOP - F::FRACTION;
    let drop = normal_drop.saturating_add((1 - biased) as u32);
    let (kept, inexact) = cut(significand, drop, negative, env.rounding);
    let full = cut(significand, normal_drop, negative, env.rounding).0;
    let tiny = biased < 0 || full >> (F::FRACTION + 1) == 0;
    if inexact {
        env.raise(flag::INEXACT | if tiny { flag::UNDERFLOW } else { 0 });
    }
    kept as u64 | zero::<F>(negative)
}

fn overflow<F: Format>(negative: bool, env: &mut Env) -> u64 {
    env.raise(flag::OVERFLOW | flag::INEXACT);
    let to_infinity = match env.rounding {
        Rounding::NearestEven => true,
        Rounding::Zero => false,
        Rounding::Up => !negative,
        Rounding::Down => negative,
    };
    infinity::<F>(negative) - u64::from(!to_infinity)
}
