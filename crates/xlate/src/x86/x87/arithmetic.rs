//! Arithmetic: the exact result, or enough of it, which is then rounded once.

use super::float80::{Class, Env, F80, INVALID, Num, ZERO_DIVIDE, jam};

/// What comes of a comparison: less, equal, greater, or neither.
pub(super) type Order = Option<std::cmp::Ordering>;

/// The sum of two finite numbers; what is lost sets its lowest bit.
pub(super) fn sum(a: Num, b: Num) -> Num {
    let (a, b) =
        if (a.m == 0, a.exp) < (b.m == 0, b.exp) && b.m != 0 || a.m == 0 { (b, a) } else { (a, b) };
    let (a, b) = if a.exp < b.exp && b.m != 0 { (b, a) } else { (a, b) };
    if b.m == 0 {
        return a;
    }
    let (x, y) = (a.m >> 1 | a.m & 1, jam(b.m, (a.exp - b.exp).min(200) as u32 + 1));
    if a.neg == b.neg {
        return Num::new(a.neg, a.exp + 1, x + y);
    }
    match x >= y {
        true => Num::new(a.neg, a.exp + 1, x - y),
        false => Num::new(b.neg, a.exp + 1, y - x),
    }
}

pub(super) fn add(a: F80, b: F80, env: &mut Env) -> F80 {
    if let Some(nan) = env.special(a, b) {
        return nan;
    }
    match (a.class() == Class::Infinity, b.class() == Class::Infinity) {
        (true, true) if a.neg() != b.neg() => return env.invalid(),
        (true, _) => {
            env.denormal(&[b]);
            return a;
        }
        (_, true) => {
            env.denormal(&[a]);
            return b;
        }
        _ => {}
    }
    env.denormal(&[a, b]);
    let (x, y) = (a.num(), b.num());
    let exact = sum(x, y);
    if exact.m == 0 {
        let both = x.m == 0 && y.m == 0 && a.neg() == b.neg();
        return F80::zero(if both { a.neg() } else { env.is_down() });
    }
    env.result(exact)
}

/// Subtracts; a NaN keeps its sign.
pub(super) fn sub(a: F80, b: F80, env: &mut Env) -> F80 {
    match env.special(a, b) {
        Some(nan) => nan,
        None => add(a, b.negated(), env),
    }
}

pub(super) fn mul(a: F80, b: F80, env: &mut Env) -> F80 {
    if let Some(nan) = env.special(a, b) {
        return nan;
    }
    let neg = a.neg() != b.neg();
    let is = |class| a.class() == class || b.class() == class;
    if is(Class::Infinity) {
        if is(Class::Zero) {
            return env.invalid();
        }
        env.denormal(&[a, b]);
        return F80::infinity(neg);
    }
    env.denormal(&[a, b]);
    let (x, y) = (a.num(), b.num());
    let exact = Num::new(neg, x.exp + y.exp + 1, (x.m >> 64) * (y.m >> 64));
    env.result(exact)
}

pub(super) fn div(a: F80, b: F80, env: &mut Env) -> F80 {
    if let Some(nan) = env.special(a, b) {
        return nan;
    }
    let neg = a.neg() != b.neg();
    match (a.class(), b.class()) {
        (Class::Infinity, Class::Infinity) | (Class::Zero, Class::Zero) => return env.invalid(),
        (Class::Infinity, _) => {
            env.denormal(&[b]);
            return F80::infinity(neg);
        }
        (_, Class::Infinity) => {
            env.denormal(&[a]);
            return F80::zero(neg);
        }
        (_, Class::Zero) => {
            env.flags |= ZERO_DIVIDE;
            return F80::infinity(neg);
        }
        _ => {}
    }
    env.denormal(&[a, b]);
    let (x, y) = (a.num(), b.num());
    let (n, d) = (x.m >> 64, y.m >> 64);
    let (high, rest) = ((n << 64) / d, (n << 64) % d);
    let (low, rest) = ((rest << 62) / d, (rest << 62) % d);
    let quotient = high << 62 | low | u128::from(rest != 0);
    let quotient = Num::new(neg, x.exp - y.exp + 1, quotient);
    env.result(quotient)
}

pub(super) fn sqrt(a: F80, env: &mut Env) -> F80 {
    if let Some(nan) = env.special(a, F80::zero(false)) {
        return nan;
    }
    match a.class() {
        Class::Zero => return a,
        _ if a.neg() => return env.invalid(),
        Class::Infinity => return a,
        _ => env.denormal(&[a]),
    }
    let x = a.num();
    let half = x.exp.div_euclid(2);
    let square = if x.exp & 1 == 0 { x.m >> 1 } else { x.m };
    let root = square.isqrt();
    let rest = square - root * root;
    let bits = root << 64 | u128::from(rest > root) << 63 | u128::from(rest != 0);
    env.result(Num::new(false, half, bits))
}

/// The order of two operands; `quiet` says that a quiet NaN raises nothing.
pub(super) fn compare(a: F80, b: F80, quiet: bool, env: &mut Env) -> Order {
    let (x, y) = (a.class(), b.class());
    let is = |class| x == class || y == class;
    if is(Class::Invalid) || is(Class::Signalling) || is(Class::Quiet) {
        if !quiet || is(Class::Invalid) || is(Class::Signalling) {
            env.flags |= INVALID;
        }
        return None;
    }
    env.denormal(&[a, b]);
    let key = |f: F80, class| {
        let size = match class {
            Class::Zero => (i32::MIN, 0),
            Class::Infinity => (i32::MAX, 0),
            _ => (f.num().exp, f.num().m),
        };
        (class != Class::Zero && f.neg(), size)
    };
    let ((a_neg, a), (b_neg, b)) = (key(a, x), key(b, y));
    Some(match (a_neg, b_neg) {
        (false, false) => a.cmp(&b),
        (true, true) => b.cmp(&a),
        (true, false) => std::cmp::Ordering::Less,
        (false, true) => std::cmp::Ordering::Greater,
    })
}

/// The remainder, the quotient's low bits, and whether it is complete.
pub(super) fn remainder(a: F80, b: F80, nearest: bool, env: &mut Env) -> (F80, Option<u64>) {
    if let Some(nan) = env.special(a, b) {
        return (nan, Some(0));
    }
    if a.class() == Class::Infinity || b.class() == Class::Zero {
        return (env.invalid(), Some(0));
    }
    env.denormal(&[a, b]);
    if a.class() == Class::Zero || b.class() == Class::Infinity {
        if a.class() == Class::Denormal {
            let same = env.full(a.num());
            return (same, Some(0));
        }
        return (a, Some(0));
    }
    let (x, y) = (a.num(), b.num());
    let distance = x.exp - y.exp;
    if distance < if nearest { -1 } else { 0 } {
        return (env.full(x), Some(0));
    }
    let is_whole = distance < 64;
    let steps = if is_whole { distance } else { distance & 31 | 32 };
    let divisor = y.m >> 64;
    let (mut rest, mut quotient) = (x.m >> 64, 0u64);
    if distance >= 0 {
        for n in (0..=steps).rev() {
            quotient <<= 1;
            if rest >= divisor {
                (rest, quotient) = (rest - divisor, quotient | 1);
            }
            if n > 0 {
                rest <<= 1;
            }
        }
    }
    let mut exp = x.exp - steps;
    let mut neg = x.neg;
    if nearest && is_whole {
        // Of a number below the divisor one bit lies below its unit.
        let (twice, unit) = if distance < 0 { (rest, divisor) } else { (rest << 1, divisor) };
        if twice > unit || twice == unit && quotient & 1 == 1 {
            let (from, less) = if distance < 0 { (unit << 1, rest) } else { (unit, rest) };
            (rest, neg, quotient) = (from - less, !neg, quotient.wrapping_add(1));
        }
        exp = if distance < 0 { x.exp } else { exp };
    }
    if rest == 0 {
        return (F80::zero(x.neg), is_whole.then_some(quotient));
    }
    let rest = Num::new(neg, exp + 64, rest);
    (env.full(rest), is_whole.then_some(quotient))
}

/// The nearest integer by the rounding mode.
pub(super) fn integer(a: F80, env: &mut Env) -> F80 {
    if let Some(nan) = env.special(a, F80::zero(false)) {
        return nan;
    }
    if matches!(a.class(), Class::Infinity | Class::Zero) {
        return a;
    }
    env.denormal(&[a]);
    let x = a.num();
    if x.exp >= 63 {
        return a;
    }
    let (value, up, lost) = whole(x, env);
    if lost {
        env.flags |= super::float80::PRECISION | if up { super::float80::C1 } else { 0 };
    }
    F80::exact(Num::new(a.neg(), 63, value << 64))
}

/// A number below 2^64 as an integer without its sign; whether it was rounded up, and bits lost.
pub(super) fn whole(x: Num, env: &Env) -> (u128, bool, bool) {
    if x.m == 0 {
        return (0, false, false);
    }
    // Bit 64 is the unit.
    let m = jam(x.m, (63 - x.exp).clamp(0, 200) as u32);
    let (kept, up, lost) = env.cut(x.neg, m, 64);
    ((kept >> 64) + u128::from(up), up, lost)
}

/// `a * 2^b`, b cut to an integer.
pub(super) fn scale(a: F80, b: F80, env: &mut Env) -> F80 {
    if let Some(nan) = env.special(a, b) {
        return nan;
    }
    match (a.class(), b.class()) {
        (Class::Infinity, Class::Infinity) if b.neg() => return env.invalid(),
        (Class::Zero, Class::Infinity) if !b.neg() => return env.invalid(),
        (Class::Infinity | Class::Zero, _) => {
            env.denormal(&[a, b]);
            return a;
        }
        (_, Class::Infinity) => {
            env.denormal(&[a]);
            return if b.neg() { F80::zero(a.neg()) } else { F80::infinity(a.neg()) };
        }
        _ => env.denormal(&[a, b]),
    }
    let (x, y) = (a.num(), b.num());
    let by = match y {
        Num { m: 0, .. } => 0,
        y if y.exp < 0 => 0,
        y if y.exp > 16 => 1 << 17,
        y => (y.m >> (127 - y.exp)) as i32,
    };
    let by = if b.neg() { -by } else { by };
    env.full(Num { exp: x.exp + by, ..x })
}

/// Exponent and significand.
pub(super) fn extract(a: F80, env: &mut Env) -> (F80, F80) {
    if let Some(nan) = env.special(a, F80::zero(false)) {
        return (nan, nan);
    }
    match a.class() {
        Class::Infinity => (F80::infinity(false), a),
        Class::Zero => {
            env.flags |= ZERO_DIVIDE;
            (F80::infinity(true), a)
        }
        _ => {
            env.denormal(&[a]);
            let x = a.num();
            (F80::exact(Num::integer(x.exp.into())), F80::exact(Num { exp: 0, ..x }))
        }
    }
}
