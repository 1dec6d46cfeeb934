//! IEEE 754 arithmetic in integers, exact in value, rounding and exception flags on every host.
//!
//! Values travel as the low bits of a `u64`; a format is a type ([`Half`], [`Single`], [`Double`]).
//! An operation reads the rounding mode of an [`Env`] and adds to its flags.
//!
//! Rules that IEEE 754 leaves open, as LoongArch has them
//! - Tininess is detected after rounding; underflow is raised only when the result is also inexact.
//! - The default NaN is positive and quiet. Of two NaNs the first signalling one wins, then the
//!   first; a fused multiply-add looks at its addend first. Results are quieted.
//! - Conversion of NaN to an integer gives 0; out of range saturates; both are invalid.
//!
//! Lifecycle: operands are unpacked to [`Number`] (significand with its leading one at bit 126),
//! computed with a sticky lowest bit, and rounded once in [`round`].

mod arith;
mod convert;
mod round;

pub use arith::{add, compare, div, fma, max_min, mul, recip, rsqrt, scalb, sqrt, sub};
pub use convert::{classify, convert, from_int, log_b, round_to_int, to_int};

/// Exception flags, in FCSR order.
pub mod flag {
    /// The result was rounded.
    pub const INEXACT: u32 = 1;
    /// Tiny and inexact.
    pub const UNDERFLOW: u32 = 2;
    /// Too large for the format.
    pub const OVERFLOW: u32 = 4;
    /// A finite operand gave an exact infinity.
    pub const DIVIDE_BY_ZERO: u32 = 8;
    /// No sensible result.
    pub const INVALID: u32 = 16;
}

/// Rounding modes, in FCSR order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To nearest, ties to even.
    NearestEven,
    /// Toward zero.
    Zero,
    /// Toward plus infinity.
    Up,
    /// Toward minus infinity.
    Down,
}

impl Rounding {
    /// The mode of a two-bit field.
    pub const fn from_bits(bits: u32) -> Rounding {
        match bits & 3 {
            0 => Rounding::NearestEven,
            1 => Rounding::Zero,
            2 => Rounding::Up,
            _ => Rounding::Down,
        }
    }
}

/// Rounding mode in, flags out.
#[derive(Clone, Copy, Debug)]
pub struct Env {
    /// How to round.
    pub rounding: Rounding,
    /// What was raised.
    pub flags: u32,
}

impl Env {
    /// No flags raised yet.
    pub const fn new(rounding: Rounding) -> Env {
        Env { rounding, flags: 0 }
    }

    fn raise(&mut self, flag: u32) {
        self.flags |= flag;
    }
}

/// A binary interchange format.
pub trait Format: Copy {
    /// Fraction bits.
    const FRACTION: u32;
    /// Exponent bits.
    const EXPONENT: u32;
    /// Exponent bias, also the largest exponent.
    const BIAS: i32 = (1 << (Self::EXPONENT - 1)) - 1;
    /// The sign bit.
    const SIGN: u64 = 1 << (Self::FRACTION + Self::EXPONENT);
    /// Exponent field of infinities and NaNs.
    const EXPONENT_MAX: u64 = (1 << Self::EXPONENT) - 1;
    /// Plus infinity.
    const INFINITY: u64 = Self::EXPONENT_MAX << Self::FRACTION;
    /// The bit that makes a NaN quiet.
    const QUIET: u64 = 1 << (Self::FRACTION - 1);
    /// The default NaN.
    const NAN: u64 = Self::INFINITY | Self::QUIET;
    /// One.
    const ONE: u64 = (Self::BIAS as u64) << Self::FRACTION;
}

/// binary16.
#[derive(Clone, Copy, Debug)]
pub struct Half;
/// binary32.
#[derive(Clone, Copy, Debug)]
pub struct Single;
/// binary64.
#[derive(Clone, Copy, Debug)]
pub struct Double;

impl Format for Half {
    const FRACTION: u32 = 10;
    const EXPONENT: u32 = 5;
}
impl Format for Single {
    const FRACTION: u32 = 23;
    const EXPONENT: u32 = 8;
}
impl Format for Double {
    const FRACTION: u32 = 52;
    const EXPONENT: u32 = 11;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Zero,
    Finite,
    Infinite,
    Quiet,
    Signalling,
}

/// Place of the leading one in a significand.
const TOP: u32 = 126;

/// An unpacked value: (-1)^negative * significand / 2^126 * 2^exponent when finite.
#[derive(Clone, Copy, Debug)]
struct Number {
    class: Class,
    negative: bool,
    exponent: i32,
    significand: u128,
}

impl Number {
    fn is_nan(&self) -> bool {
        matches!(self.class, Class::Quiet | Class::Signalling)
    }
}

fn unpack<F: Format>(bits: u64) -> Number {
    let negative = bits & F::SIGN != 0;
    let field = bits >> F::FRACTION & F::EXPONENT_MAX;
    let fraction = bits & ((1 << F::FRACTION) - 1);
    let number = |class, exponent, significand| Number { class, negative, exponent, significand };
    if field == F::EXPONENT_MAX {
        let class = match fraction {
            0 => Class::Infinite,
            f if f & F::QUIET != 0 => Class::Quiet,
            _ => Class::Signalling,
        };
        return number(class, 0, 0);
    }
    if field == 0 {
        if fraction == 0 {
            return number(Class::Zero, 0, 0);
        }
        let shift = u128::from(fraction).leading_zeros() - 1;
        let exponent = 1 - F::BIAS - (F::FRACTION as i32) + (TOP as i32 - shift as i32);
        return number(Class::Finite, exponent, u128::from(fraction) << shift);
    }
    let significand = u128::from(fraction | 1 << F::FRACTION) << (TOP - F::FRACTION);
    number(Class::Finite, field as i32 - F::BIAS, significand)
}

fn zero<F: Format>(negative: bool) -> u64 {
    if negative { F::SIGN } else { 0 }
}

fn infinity<F: Format>(negative: bool) -> u64 {
    zero::<F>(negative) | F::INFINITY
}

fn invalid<F: Format>(env: &mut Env) -> u64 {
    env.raise(flag::INVALID);
    F::NAN
}

/// `significand / 2^63 * 2^exponent`, not zero, rounded to a format.
pub fn assemble<F: Format>(negative: bool, exponent: i32, significand: u64, env: &mut Env) -> u64 {
    round::round::<F>(negative, exponent, u128::from(significand) << (TOP - 63), env)
}

/// The NaN result of an operation on `candidates`, in order of precedence, of which one is a NaN.
fn propagate<F: Format>(candidates: &[u64], env: &mut Env) -> u64 {
    let class = |bits: u64| unpack::<F>(bits).class;
    let mut chosen = candidates.iter().find(|&&b| class(b) == Class::Signalling);
    if chosen.is_some() {
        env.raise(flag::INVALID);
    } else {
        chosen = candidates.iter().find(|&&b| class(b) == Class::Quiet);
    }
    chosen.expect("invariant: one operand is a NaN") | F::QUIET
}

#[cfg(test)]
mod tests;
