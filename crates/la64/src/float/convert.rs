//! Conversions between formats and to and from integers; classification.

use super::round::{round, rounds_up, shift_sticky};
use super::{Class, Env, Format, Number, TOP, flag, infinity, invalid, propagate, unpack, zero};

/// From one format to another. A NaN keeps its sign and the top of its payload.
pub fn convert<F: Format, G: Format>(a: u64, env: &mut Env) -> u64 {
    let x = unpack::<F>(a);
    match x.class {
        Class::Quiet | Class::Signalling => {
            let quiet = propagate::<F>(&[a], env) & ((1 << F::FRACTION) - 1);
            let payload = match G::FRACTION.checked_sub(F::FRACTION) {
                Some(wider) => quiet << wider,
                None => quiet >> (F::FRACTION - G::FRACTION),
            };
            infinity::<G>(x.negative) | payload
        }
        Class::Infinite => infinity::<G>(x.negative),
        Class::Zero => zero::<G>(x.negative),
        Class::Finite => round::<G>(x.negative, x.exponent, x.significand, env),
    }
}

/// The magnitude of a finite number rounded to an integer, saturated at 2^127, and whether it was
/// inexact.
fn integer(x: Number, env: &Env) -> (u128, bool) {
    if x.class == Class::Zero {
        return (0, false);
    }
    if x.exponent >= TOP as i32 {
        return (1 << 127, false);
    }
    // One extra bit below the integer so that a sticky bit never stands for a half.
    let drop = TOP as i32 - x.exponent;
    let (value, drop) = match drop {
        1..=126 => (x.significand, drop as u32),
        _ => (shift_sticky(x.significand, (drop - 126).min(200) as u32), 126),
    };
    let (kept, rest) = (value >> drop, value & ((1 << drop) - 1));
    let up = rounds_up(env.rounding, x.negative, kept, rest, drop);
    (kept + u128::from(up), rest != 0)
}

/// To an integer of `bits` bits, as the low bits of the result, sign-extended when signed.
pub fn to_int<F: Format>(a: u64, bits: u32, signed: bool, env: &mut Env) -> u64 {
    let x = unpack::<F>(a);
    let (least, greatest) = match signed {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    if x.is_nan() {
        env.raise(flag::INVALID);
        return 0;
    }
    if x.class == Class::Infinite {
        env.raise(flag::INVALID);
        return if x.negative { least } else { greatest } as u64;
    }
    let (magnitude, inexact) = integer(x, env);
    let magnitude = magnitude.min(1 << 100) as i128;
    let value = if x.negative { -magnitude } else { magnitude };
    if value < least || value > greatest {
        env.raise(flag::INVALID);
    } else if inexact {
        env.raise(flag::INEXACT);
    }
    value.clamp(least, greatest) as u64
}

/// From an integer.
pub fn from_int<F: Format>(value: i128, env: &mut Env) -> u64 {
    match value {
        0 => 0,
        _ => round::<F>(value < 0, TOP as i32, value.unsigned_abs(), env),
    }
}

/// To an integral value in the same format.
pub fn round_to_int<F: Format>(a: u64, env: &mut Env) -> u64 {
    let x = unpack::<F>(a);
    match x.class {
        Class::Quiet | Class::Signalling => propagate::<F>(&[a], env),
        Class::Infinite | Class::Zero => a,
        Class::Finite if x.exponent >= F::FRACTION as i32 => a,
        Class::Finite => {
            let (magnitude, inexact) = integer(x, env);
            if inexact {
                env.raise(flag::INEXACT);
            }
            match magnitude {
                0 => zero::<F>(x.negative),
                _ => round::<F>(x.negative, TOP as i32, magnitude, env),
            }
        }
    }
}

/// The exponent of a as a number.
pub fn log_b<F: Format>(a: u64, env: &mut Env) -> u64 {
    let x = unpack::<F>(a);
    match x.class {
        Class::Quiet | Class::Signalling => propagate::<F>(&[a], env),
        Class::Zero => {
            env.raise(flag::DIVIDE_BY_ZERO);
            infinity::<F>(true)
        }
        _ if x.negative => invalid::<F>(env),
        Class::Infinite => a,
        Class::Finite => from_int::<F>(i128::from(x.exponent), env),
    }
}

/// The class mask of `fclass`: bits 0 and 1 signalling and quiet NaN, then infinity, normal,
/// subnormal and zero, negative in bits 2 to 5, positive in bits 6 to 9.
pub fn classify<F: Format>(a: u64) -> u64 {
    let x = unpack::<F>(a);
    let subnormal = a >> F::FRACTION & F::EXPONENT_MAX == 0;
    let place = match x.class {
        Class::Signalling => return 1,
        Class::Quiet => return 2,
        Class::Infinite => 2,
        Class::Finite if !subnormal => 3,
        Class::Finite => 4,
        Class::Zero => 5,
    };
    1 << (place + if x.negative { 0 } else { 4 })
}
