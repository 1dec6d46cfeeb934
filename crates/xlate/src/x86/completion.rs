//! LA64 floating-point instructions that trapped, with the results that x86-64 gives.
//!
//! Translated code runs with the trap on invalid operations enabled. Without it LA64 would give
//! other results: its default NaN is positive, of a signalling and a quiet NaN it takes the
//! signalling one, and an integer that does not fit is the nearest that does. A trap also comes
//! where the program itself has unmasked an exception.

use super::float::{Flushed, mxcsr};
use littoral_base::mutant;
use littoral_la64::float::{self, Double, Env, Format, Rounding, Single, flag};
use littoral_la64::isa;
use littoral_la64::state::{State, fcsr};
use std::cmp::Ordering;

/// Exceptions that are found before a result is computed.
const BEFORE: u32 = flag::INVALID | flag::DIVIDE_BY_ZERO;

/// Whether a value is a NaN, and whether it is a quiet one.
pub(super) fn nan<F: Format>(bits: u64) -> Option<bool> {
    let is_nan = bits & (F::SIGN - 1) > F::INFINITY;
    is_nan.then_some(bits & F::QUIET != 0)
}

/// The result of an operation with NaNs among its operands: the first of them, quiet.
fn first_nan<F: Format>(operands: &[u64], env: &mut Env) -> Option<u64> {
    if operands.iter().any(|&o| nan::<F>(o) == Some(false)) {
        env.flags |= flag::INVALID;
    }
    let from_end = mutant!("x86_last_nan_wins");
    let mut nans = operands.iter().filter(|&&o| nan::<F>(o).is_some());
    let chosen = if from_end { nans.next_back() } else { nans.next() };
    chosen.map(|&n| n | F::QUIET)
}

/// Arithmetic by the stem of an LA64 mnemonic.
fn arithmetic<F: Format>(name: &str, a: u64, b: u64, env: &mut Env) -> Option<u64> {
    let has_one = name == "fsqrt" || name.starts_with("frint");
    let operands = if has_one { &[a][..] } else { &[a, b] };
    if let Some(nan) = first_nan::<F>(operands, env) {
        return Some(nan);
    }
    let value = match name {
        "fadd" => float::add::<F>(a, b, env),
        "fsub" => float::sub::<F>(a, b, env),
        "fmul" => float::mul::<F>(a, b, env),
        "fdiv" => float::div::<F>(a, b, env),
        "fsqrt" => float::sqrt::<F>(a, env),
        _ if name.starts_with("frint") => float::round_to_int::<F>(a, env),
        _ => return None,
    };
    let is_new = nan::<F>(value).is_some() && !mutant!("x86_default_nan_positive");
    Some(if is_new { value | F::SIGN } else { value })
}

/// A comparison under an LA64 condition; all ones if it holds.
fn compare<F: Format>(condition: &str, a: u64, b: u64, env: &mut Env) -> u64 {
    let (kind, accepted) = condition.split_at(1);
    let holds = match float::compare::<F>(a, b, kind == "s", env) {
        None => accepted.starts_with('u'),
        Some(Ordering::Less) => matches!(accepted, "lt" | "le" | "ult" | "ule" | "une" | "or"),
        Some(Ordering::Equal) => matches!(accepted, "eq" | "le" | "ueq" | "ule" | "or"),
        Some(Ordering::Greater) => matches!(accepted, "une" | "or"),
    };
    if holds { u64::MAX } else { 0 }
}

/// To an integer; what has none gives the one with only the sign set.
fn to_int<F: Format>(a: u64, bits: u32, env: &mut Env) -> u64 {
    let mut own = Env::new(env.rounding);
    let value = float::to_int::<F>(a, bits, true, &mut own);
    env.flags |= own.flags;
    let fits = own.flags & flag::INVALID == 0 || mutant!("x86_integers_saturate");
    if fits { value } else { 1 << (bits - 1) }
}

/// Bits of an element by its letter.
fn bits_of(letter: &str) -> u32 {
    if matches!(letter, "s" | "w") { 32 } else { 64 }
}

/// A conversion of one element; letters as in the suffix.
fn convert(to: &str, from: &str, a: u64, env: &mut Env) -> Option<u64> {
    let bits = bits_of(to);
    Some(match (to, from) {
        ("s", "d") => float::convert::<Double, Single>(a, env),
        ("d", "s") => float::convert::<Single, Double>(a, env),
        ("w" | "l", "s") => to_int::<Single>(a, bits, env),
        ("w" | "l", "d") => to_int::<Double>(a, bits, env),
        ("s", "w") => float::from_int::<Single>((a as i32).into(), env),
        ("s", "l") => float::from_int::<Single>((a as i64).into(), env),
        ("d", "w") => float::from_int::<Double>((a as i32).into(), env),
        ("d", "l") => float::from_int::<Double>((a as i64).into(), env),
        _ => return None,
    })
}

/// One element of the result.
pub(super) fn element(name: &str, suffix: &str, (a, b): (u64, u64), env: &mut Env) -> Option<u64> {
    match suffix.split_once('.') {
        None if suffix == "s" => arithmetic::<Single>(name, a, b, env),
        None => arithmetic::<Double>(name, a, b, env),
        Some((condition, "s")) if name == "fcmp" => Some(compare::<Single>(condition, a, b, env)),
        Some((condition, _)) if name == "fcmp" => Some(compare::<Double>(condition, a, b, env)),
        Some((to, from)) => convert(to, from, a, env),
    }
}

/// Whether a result that overflows would be exact with a greater exponent: the program learns that
/// where it has unmasked the overflow.
pub(super) fn is_exact_beyond(
    name: &str,
    suffix: &str,
    (a, b): (u64, u64),
    rounding: Rounding,
) -> bool {
    match suffix {
        "s" => is_exact_scaled::<Single>(name, a, b, rounding),
        "d" => is_exact_scaled::<Double>(name, a, b, rounding),
        // A double becomes a single.
        _ => a & ((1 << (Double::FRACTION - Single::FRACTION)) - 1) == 0,
    }
}

/// The same operation on operands scaled so far that it does not overflow.
fn is_exact_scaled<F: Format>(name: &str, a: u64, b: u64, rounding: Rounding) -> bool {
    let mut env = Env::new(rounding);
    let exponent = |bits: u64| (bits >> F::FRACTION & F::EXPONENT_MAX) as i32 - F::BIAS;
    let far = i64::from(F::BIAS) * 7 / 8;
    let mut scale = |bits: u64, by: i64| float::scalb::<F>(bits, by, &mut env);
    let great = |bits: u64| if exponent(bits) >= F::BIAS / 2 { -far } else { 0 };
    let (a, b) = match name {
        // One of the factors is great, or both.
        "fmul" => (scale(a, great(a)), scale(b, great(b))),
        // The divisor is less than one.
        "fdiv" => {
            let once = mutant!("x86_quotient_scaled_once") && great(a) != 0;
            (scale(a, great(a)), if once { b } else { scale(b, far) })
        }
        // The other operand of a sum may be too small to be scaled; the sum is inexact with it.
        _ if exponent(a).min(exponent(b)) < -F::BIAS / 2 => return a << 1 == 0 || b << 1 == 0,
        _ => (scale(a, -4), scale(b, -4)),
    };
    let mut env = Env::new(rounding);
    arithmetic::<F>(name, a, b, &mut env);
    env.flags & flag::INEXACT == 0
}

/// Element n of a vector.
fn get(vector: &[u64; 4], bits: u32, n: u32) -> u64 {
    match bits {
        32 => vector[n as usize / 2] >> (32 * (n % 2)) & 0xffff_ffff,
        _ => vector[n as usize],
    }
}

/// The rounding mode that an instruction has by its name.
fn own_rounding(name: &str) -> Option<Rounding> {
    let mode = name.strip_prefix("ftint").or_else(|| name.strip_prefix("frint"))?;
    Some(match mode {
        "rne" => Rounding::NearestEven,
        "rm" => Rounding::Down,
        "rp" => Rounding::Up,
        "rz" => Rounding::Zero,
        _ => return None,
    })
}

/// All elements of an instruction's result, each of so many bits.
fn elements(state: &State, word: u32, env: &mut Env) -> Option<(Vec<u64>, u32)> {
    let row = isa::decode(word)?.row();
    let (stem, suffix) = (row.stem(), row.suffix());
    let name = stem.strip_prefix('v').unwrap_or(stem);
    let (to, from) = match suffix.split_once('.') {
        Some((to, from)) if name != "fcmp" => (bits_of(to), bits_of(from)),
        Some((_, format)) => (bits_of(format), bits_of(format)),
        None => (bits_of(suffix), bits_of(suffix)),
    };
    env.rounding = own_rounding(name).unwrap_or(env.rounding);
    let register = |place: u32| &state.v[(word >> place & 31) as usize].0;
    let (j, k) = (register(5), register(10));
    let count = if name == stem { 1 } else { 128 / to };
    let (open, flushed) = (unmasked(state), Flushed::of(state));
    let format = suffix.split_once('.').map_or(suffix, |(to, _)| to);
    let one = |n: u32| {
        let operands = match (from > to && count > 1, n) {
            // Two registers become one; the elements of vk come first.
            (true, 0 | 1) => (get(k, from, n), 0),
            (true, _) => (get(j, from, n - 2), 0),
            (false, _) => (get(j, from, n), get(k, from, n)),
        };
        let mut own = Env::new(env.rounding);
        let value = element(name, suffix, operands, &mut own);
        let value = value.map(|value| flushed.result(format, value, &mut own));
        let traps = own.flags & open & flag::OVERFLOW != 0;
        if traps && is_exact_beyond(name, suffix, operands, env.rounding) {
            own.flags &= !flag::INEXACT;
        }
        env.flags |= own.flags;
        value
    };
    let values: Option<Vec<u64>> = (0..count).map(one).collect();
    Some((values?, to))
}

/// The exceptions that the program has unmasked, in the order of the FCSR; not what the code itself
/// has masked for one instruction.
pub(super) fn unmasked(state: &State) -> u32 {
    let masks = mxcsr(state) >> 7;
    let bit = |ours: u32, theirs: u32| (!masks >> ours & 1) << theirs;
    let open = bit(0, 4) | bit(2, 3) | bit(3, 2) | bit(4, 1) | bit(5, 0);
    open & (state.fcsr | flag::INVALID)
}

/// Two conversions of one instruction that runs outside translated code; letters as in the suffix.
/// `None` if the program has unmasked what they raise; then only flags are written.
pub(super) fn pair(
    state: &mut State,
    (to, from): (&str, &str),
    values: [u64; 2],
    truncates: bool,
) -> Option<[u64; 2]> {
    let rounding = if truncates { Rounding::Zero } else { Rounding::from_bits(state.fcsr >> 8) };
    let mut env = Env::new(rounding);
    let flushed = Flushed::of(state);
    let [a, b] = values.map(|value| convert(to, from, flushed.operand(from, value), &mut env));
    let results = a.zip(b)?;
    (!raise(state, env.flags)).then_some(results.into())
}

/// Notes what was raised. Whether the program has unmasked some of it; the cause is then what the
/// kernel looks at: all flags that are raised and not masked, earlier ones too.
pub(super) fn raise(state: &mut State, flags: u32) -> bool {
    let open = unmasked(state);
    let raised = if flags & BEFORE & open != 0 { flags & BEFORE } else { flags };
    let traps = raised & open != 0;
    state.fcsr = state.fcsr & !fcsr::CAUSE | raised << 16;
    if traps && !mutant!("x86_float_trap_without_cause") {
        state.fcsr |= (state.fcsr >> 16 & open) << 24;
    }
    traps
}

/// Completes a floating-point instruction that trapped, an LA64 `word`. False if the program has
/// unmasked what it raises; then only flags are written.
pub fn complete(state: &mut State, word: u32) -> bool {
    let mut env = Env::new(Rounding::from_bits(state.fcsr >> 8));
    let Some((values, bits)) = elements(state, word, &mut env) else { return false };
    if raise(state, env.flags) {
        return false;
    }
    let d = (word & 31) as usize;
    let is_compare = isa::decode(word).is_some_and(|id| id.row().stem() == "fcmp");
    if is_compare {
        state.fcc[d & 7] = (values[0] != 0).into();
        return true;
    }
    let mut vector = [0u64; 2];
    for (n, value) in values.iter().enumerate() {
        match bits {
            32 => vector[n / 2] |= (value & 0xffff_ffff) << (32 * (n % 2)),
            _ => vector[n] = *value,
        }
    }
    state.v[d].0[..2].copy_from_slice(&vector);
    true
}
