//! Conversions between registers and what memory holds.

use super::arithmetic::whole;
use super::float80::{C1, Class, Env, F80, INVALID, Limits, Num, OVERFLOW, PRECISION, UNDERFLOW};

/// A format of memory: bits of the fraction, of the whole.
#[derive(Clone, Copy)]
pub(super) struct Format {
    fraction: u32,
    bits: u32,
}

pub(super) const SINGLE: Format = Format { fraction: 23, bits: 32 };
pub(super) const DOUBLE: Format = Format { fraction: 52, bits: 64 };

/// The packed number of an invalid operation.
const BCD_INDEFINITE: u128 = 0xffff_c000_0000_0000_0000;

impl Format {
    fn exp_max(self) -> u64 {
        (1 << (self.bits - 1 - self.fraction)) - 1
    }

    fn bias(self) -> i32 {
        (self.exp_max() >> 1) as i32
    }
}

/// The number in a register's format, a NaN as it is; whether it was denormal.
pub(super) fn widen(bits: u64, format: Format) -> (F80, bool) {
    let neg = bits >> (format.bits - 1) & 1 == 1;
    let exp = bits >> format.fraction & format.exp_max();
    let fraction = bits & ((1 << format.fraction) - 1);
    let high = fraction << (63 - format.fraction);
    if exp == format.exp_max() {
        let se = u16::from(neg) << 15 | 0x7fff;
        return (F80 { se, m: high | 1 << 63 }, false);
    }
    let integer = if exp == 0 { 0 } else { 1 << 63 };
    let n = Num::new(neg, exp.max(1) as i32 - format.bias(), u128::from(high | integer) << 64);
    (F80::exact(n), exp == 0 && fraction != 0)
}

/// A register's number in a format of memory.
pub(super) fn narrow(value: F80, format: Format, env: &mut Env) -> u64 {
    let infinity = format.exp_max() << format.fraction;
    let value = match value.class() {
        Class::Invalid => env.invalid(),
        Class::Signalling => {
            env.flags |= INVALID;
            value.quieted()
        }
        _ => value,
    };
    let sign = u64::from(value.neg()) << (format.bits - 1);
    match value.class() {
        Class::Zero => return sign,
        Class::Infinity => return sign | infinity,
        Class::Quiet => {
            return sign | infinity | (value.m & !(1 << 63)) >> (63 - format.fraction);
        }
        _ => {}
    }
    let bits = format.fraction + 1;
    let limits = Limits { bits, exp_min: 1 - format.bias(), exp_max: format.bias() };
    let rounded = env.round(value.num(), limits, false);
    if env.flags & !env.control & (OVERFLOW | UNDERFLOW) != 0 {
        // Nothing is stored, and nothing is said of what it would have lost.
        env.flags &= !(PRECISION | C1);
        return 0;
    }
    let Some(n) = rounded else { return sign | infinity };
    let significand = (n.m >> (127 - format.fraction)) as u64;
    let is_normal = n.m >> 127 == 1;
    let exp = if is_normal { (n.exp + format.bias()) as u64 } else { 0 };
    sign | exp << format.fraction | significand & !(1 << format.fraction)
}

/// A register's number as an integer of so many bits.
pub(super) fn to_integer(value: F80, bits: u32, env: &mut Env) -> i64 {
    let least = i64::MIN >> (64 - bits);
    let fits = matches!(value.class(), Class::Zero | Class::Normal | Class::Denormal);
    if !fits || value.num().exp > 64 {
        env.flags |= INVALID;
        return least;
    }
    let (size, up, lost) = match value.num() {
        n if n.exp == 64 => (u128::MAX, false, false),
        n => whole(n, env),
    };
    let most = (1u128 << (bits - 1)) - u128::from(!value.neg());
    if size > most {
        env.flags |= INVALID;
        return least;
    }
    if lost {
        env.flags |= PRECISION | if up { C1 } else { 0 };
    }
    if value.neg() { (size as u64).wrapping_neg() as i64 } else { size as i64 }
}

/// A register's number as 18 decimal digits.
pub(super) fn to_decimal(value: F80, env: &mut Env) -> u128 {
    const MOST: i64 = 999_999_999_999_999_999;
    let mut own = Env::new(env.control);
    let integer = to_integer(value, 64, &mut own);
    if own.flags & INVALID != 0 || !(-MOST..=MOST).contains(&integer) {
        env.flags |= INVALID;
        return BCD_INDEFINITE;
    }
    env.flags |= own.flags;
    let (mut rest, mut digits) = (integer.unsigned_abs(), 0u128);
    for n in 0..18 {
        digits |= u128::from(rest % 10) << (4 * n);
        rest /= 10;
    }
    digits | u128::from(value.neg()) << 79
}

/// What 18 decimal digits say.
pub(super) fn from_decimal(bits: u128) -> F80 {
    let digit = |n: u32| (bits >> (4 * n)) as u64 & 15;
    let value = (0..18).rev().fold(0u64, |value, n| value.wrapping_mul(10).wrapping_add(digit(n)));
    F80::exact(Num::new(bits >> 79 & 1 == 1, 63, u128::from(value) << 64))
}
