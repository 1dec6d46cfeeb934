//! Numbers of 80 bits: classes, NaNs, rounding with the exceptions that come of it.

use littoral_base::mutant;

/// Exceptions and the direction of a rounding, where the status word has them.
pub(super) const INVALID: u16 = 1;
pub(super) const DENORMAL: u16 = 2;
pub(super) const ZERO_DIVIDE: u16 = 4;
pub(super) const OVERFLOW: u16 = 8;
pub(super) const UNDERFLOW: u16 = 16;
pub(super) const PRECISION: u16 = 32;
pub(super) const C1: u16 = 0x200;

/// Lowest exponent of a normal number, highest one, and what an unmasked exception adds.
const EXP_MIN: i32 = -16382;
const EXP_MAX: i32 = 16383;
const BIAS: i32 = 16383;
const WRAP: i32 = 24576;

/// A register's bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct F80 {
    /// Sign and exponent.
    pub se: u16,
    /// Significand with its integer bit.
    pub m: u64,
}

/// What a register's bits mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Zero,
    Denormal,
    Normal,
    Infinity,
    Quiet,
    Signalling,
    /// An encoding that the processor does not take.
    Invalid,
}

/// The number `m / 2^127 * 2^exp`; the highest bit of `m` is set unless the number is zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Num {
    pub(super) neg: bool,
    pub(super) exp: i32,
    pub(super) m: u128,
}

impl Num {
    pub(super) const ZERO: Num = Num { neg: false, exp: 0, m: 0 };

    /// The number whose bit 127 stands for `2^exp`.
    pub(super) fn new(neg: bool, exp: i32, m: u128) -> Num {
        if m == 0 {
            return Num { neg, exp: 0, m: 0 };
        }
        let by = m.leading_zeros();
        Num { neg, exp: exp - by as i32, m: m << by }
    }

    pub(super) fn integer(value: i64) -> Num {
        Num::new(value < 0, 63, u128::from(value.unsigned_abs()) << 64)
    }
}

/// Shifts right; what is lost sets the lowest bit.
pub(super) fn jam(m: u128, by: u32) -> u128 {
    match by {
        0 => m,
        1..128 => m >> by | u128::from(m << (128 - by) != 0),
        _ => u128::from(m != 0),
    }
}

impl F80 {
    /// The NaN of an invalid operation.
    pub(super) const INDEFINITE: F80 = F80 { se: 0xffff, m: 0xc000_0000_0000_0000 };
    const INTEGER: u64 = 1 << 63;
    const QUIET: u64 = 1 << 62;

    pub(super) const fn zero(neg: bool) -> F80 {
        F80 { se: (neg as u16) << 15, m: 0 }
    }

    pub(super) const fn infinity(neg: bool) -> F80 {
        F80 { se: (neg as u16) << 15 | 0x7fff, m: F80::INTEGER }
    }

    pub(super) fn neg(self) -> bool {
        self.se >> 15 == 1
    }

    pub(super) fn negated(self) -> F80 {
        F80 { se: self.se ^ 0x8000, ..self }
    }

    pub(super) fn class(self) -> Class {
        let (exp, integer) = (self.se & 0x7fff, self.m & F80::INTEGER != 0);
        match exp {
            0 if self.m == 0 => Class::Zero,
            0 => Class::Denormal,
            _ if !integer => Class::Invalid,
            0x7fff if self.m == F80::INTEGER => Class::Infinity,
            0x7fff if self.m & F80::QUIET != 0 => Class::Quiet,
            0x7fff => Class::Signalling,
            _ => Class::Normal,
        }
    }

    pub(super) fn is_nan(self) -> bool {
        matches!(self.class(), Class::Quiet | Class::Signalling)
    }

    pub(super) fn quieted(self) -> F80 {
        F80 { m: self.m | F80::QUIET, ..self }
    }

    /// The value of a finite number.
    pub(super) fn num(self) -> Num {
        let exp = i32::from(self.se & 0x7fff).max(1) - BIAS;
        Num::new(self.neg(), exp, u128::from(self.m) << 64)
    }

    /// A number that has at most 64 bits and a normal exponent.
    pub(super) fn exact(n: Num) -> F80 {
        if n.m == 0 {
            return F80::zero(n.neg);
        }
        F80 { se: (n.exp + BIAS) as u16 | u16::from(n.neg) << 15, m: (n.m >> 64) as u64 }
    }
}

/// The control word, and what an operation raises.
#[derive(Clone, Copy, Debug)]
pub(super) struct Env {
    pub(super) control: u16,
    pub(super) flags: u16,
}

/// What limits a result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bits of the significand.
    pub(super) bits: u32,
    pub(super) exp_min: i32,
    pub(super) exp_max: i32,
}

impl Env {
    pub(super) fn new(control: u16) -> Env {
        Env { control, flags: 0 }
    }

    pub(super) fn masks(&self, exception: u16) -> bool {
        self.control & exception != 0
    }

    /// Whether the rounding mode is the one towards minus infinity.
    pub(super) fn is_down(&self) -> bool {
        self.control >> 10 & 3 == 1
    }

    pub(super) fn invalid(&mut self) -> F80 {
        self.flags |= INVALID;
        F80::INDEFINITE
    }

    /// The limits that the precision control sets.
    pub(super) fn limits(&self) -> Limits {
        let bits = [24, 64, 53, 64][usize::from(self.control >> 8 & 3)];
        Limits { bits, exp_min: EXP_MIN, exp_max: EXP_MAX }
    }

    /// The significand cut behind `bits` bits, one added to it if it is rounded up; whether bits
    /// were lost.
    pub(super) fn cut(&self, neg: bool, m: u128, bits: u32) -> (u128, bool, bool) {
        let unit = 1u128 << (128 - bits);
        let (kept, rest) = (m & !(unit - 1), m & (unit - 1));
        let up = match self.control >> 10 & 3 {
            0 => rest > unit / 2 || rest == unit / 2 && kept & unit != 0,
            1 => neg && rest != 0,
            2 => !neg && rest != 0,
            _ => false,
        };
        (kept, up, rest != 0)
    }

    /// Rounds without limits of the exponent.
    fn unbounded(&self, n: Num, bits: u32) -> (Num, bool, bool) {
        let (kept, up, lost) = self.cut(n.neg, n.m, bits);
        if !up {
            return (Num { m: kept, ..n }, up, lost);
        }
        let rounded = match kept.checked_add(1u128 << (128 - bits)) {
            Some(m) => Num { m, ..n },
            None => Num { m: 1 << 127, exp: n.exp + 1, ..n },
        };
        (rounded, up, lost)
    }

    fn note(&mut self, up: bool, lost: bool) {
        if lost {
            self.flags = self.flags & !C1 | PRECISION | if up { C1 } else { 0 };
        }
    }

    /// Rounds to the limits. A number below the normal ones comes back with `exp_min` and a
    /// significand whose highest bit is not set; infinity as `None`. An unmasked overflow or
    /// underflow gives `wrapped` numbers.
    pub(super) fn round(&mut self, n: Num, limits: Limits, wraps: bool) -> Option<Num> {
        if n.m == 0 {
            return Some(n);
        }
        let (rounded, up, lost) = self.unbounded(n, limits.bits);
        let before = mutant!("x87_tiny_before_rounding");
        if (if before { n.exp } else { rounded.exp }) < limits.exp_min {
            return Some(self.tiny(n, limits, wraps));
        }
        if rounded.exp <= limits.exp_max {
            self.note(up, lost);
            return Some(rounded);
        }
        self.flags |= OVERFLOW;
        if !self.masks(OVERFLOW) {
            self.note(up, lost);
            return Some(Num { exp: rounded.exp - if wraps { WRAP } else { 0 }, ..rounded });
        }
        let to_infinity = match self.control >> 10 & 3 {
            0 => true,
            1 => n.neg,
            2 => !n.neg,
            _ => false,
        };
        self.note(to_infinity, true);
        let most = Num { exp: limits.exp_max, m: u128::MAX << (128 - limits.bits), ..n };
        (!to_infinity).then_some(most)
    }

    fn tiny(&mut self, n: Num, limits: Limits, wraps: bool) -> Num {
        if !self.masks(UNDERFLOW) {
            let (rounded, up, lost) = self.unbounded(n, limits.bits);
            self.flags |= UNDERFLOW;
            self.note(up, lost);
            return Num { exp: rounded.exp + if wraps { WRAP } else { 0 }, ..rounded };
        }
        let m = jam(n.m, (limits.exp_min - n.exp).clamp(0, 200) as u32);
        let (kept, up, lost) = self.cut(n.neg, m, limits.bits);
        self.note(up, lost);
        self.flags |= if lost { UNDERFLOW } else { 0 };
        let one = if up { 1u128 << (128 - limits.bits) } else { 0 };
        Num { neg: n.neg, exp: limits.exp_min, m: kept.wrapping_add(one) }
    }

    /// A result for a register.
    pub(super) fn pack(&mut self, n: Num, limits: Limits) -> F80 {
        let neg = n.neg;
        let Some(n) = self.round(n, limits, true) else { return F80::infinity(neg) };
        if n.m != 0 && n.m >> 127 == 0 {
            return F80 { se: u16::from(neg) << 15, m: (n.m >> 64) as u64 };
        }
        if n.exp <= -BIAS {
            // Too small even with what an unmasked underflow adds.
            self.note(false, true);
            return F80::zero(neg);
        }
        if n.exp > EXP_MAX {
            // Too large even without what an unmasked overflow takes off.
            self.note(true, true);
            return F80::infinity(neg);
        }
        F80::exact(n)
    }

    /// A result rounded by the precision control.
    pub(super) fn result(&mut self, n: Num) -> F80 {
        let limits = self.limits();
        self.pack(n, limits)
    }

    /// A result of 64 bits whatever the precision control says.
    pub(super) fn full(&mut self, n: Num) -> F80 {
        self.pack(n, Limits { bits: 64, exp_min: EXP_MIN, exp_max: EXP_MAX })
    }

    /// The result where an operand is no number, or is an encoding that does not exist.
    pub(super) fn special(&mut self, a: F80, b: F80) -> Option<F80> {
        if a.class() == Class::Invalid || b.class() == Class::Invalid {
            return Some(self.invalid());
        }
        if !a.is_nan() && !b.is_nan() {
            return None;
        }
        let signals = |f: F80| f.class() == Class::Signalling;
        if signals(a) || signals(b) {
            self.flags |= INVALID;
        }
        let chosen = match (a.is_nan(), b.is_nan()) {
            (true, false) => a,
            (false, _) => b,
            _ if mutant!("x87_first_nan_wins") => a,
            _ if signals(a) != signals(b) => {
                if signals(a) {
                    b
                } else {
                    a
                }
            }
            _ if a.m != b.m => [a, b][usize::from(b.m > a.m)],
            _ => [a, b][usize::from(a.neg())],
        };
        Some(chosen.quieted())
    }

    /// Notes denormal operands.
    pub(super) fn denormal(&mut self, operands: &[F80]) {
        if operands.iter().any(|o| o.class() == Class::Denormal) {
            self.flags |= DENORMAL;
        }
    }
}
