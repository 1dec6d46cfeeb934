//! NaNs in MIPS64's legacy encoding, in which the highest fraction bit marks a signalling NaN; in
//! LA64 it marks a quiet one.
//!
//! Translated code runs LA64's operations with the trap on invalid operations enabled. Each
//! operation that makes a NaN, and each with a quiet NaN of the legacy encoding, traps; the engine
//! completes it here.
//!
//! - A signalling NaN of the legacy encoding that no program has made by arithmetic passes LA64's
//!   operations as a quiet one: it does not trap, so it is not found.
//! - The result of two quiet NaNs is the first.

use super::float::CARRY;
use littoral_la64::float::{self, Double, Env, Format, Rounding, Single, flag};
use littoral_la64::isa;
use littoral_la64::state::{State, fcsr};
use std::cmp::Ordering;

const SINGLE: u64 = 0xffff_ffff;

/// The NaN that an invalid operation gives.
pub const fn default_nan<F: Format>() -> u64 {
    F::INFINITY | (F::QUIET - 1)
}

/// Whether a value is a NaN, and whether it signals.
pub fn nan<F: Format>(bits: u64) -> Option<bool> {
    let is_nan = bits & (F::SIGN - 1) > F::INFINITY;
    is_nan.then_some(bits & F::QUIET != 0)
}

/// An operation on NaNs and numbers: `number` computes what has no NaN among its operands.
fn operate<F: Format>(operands: &[u64], env: &mut Env, number: impl Fn(&mut Env) -> u64) -> u64 {
    let nans = || operands.iter().filter(|&&o| nan::<F>(o).is_some());
    if nans().any(|&o| nan::<F>(o) == Some(true)) {
        env.flags |= flag::INVALID;
        return default_nan::<F>();
    }
    if let Some(&quiet) = nans().next() {
        return quiet;
    }
    let value = number(env);
    if nan::<F>(value).is_some() { default_nan::<F>() } else { value }
}

/// An operation by its LA64 stem on two operands, of which some have one.
fn arithmetic<F: Format>(stem: &str, a: u64, b: u64, env: &mut Env) -> Option<u64> {
    let (one, two) = ([a], [a, b]);
    Some(match stem {
        "fadd" => operate::<F>(&two, env, |e| float::add::<F>(a, b, e)),
        "fsub" => operate::<F>(&two, env, |e| float::sub::<F>(a, b, e)),
        "fmul" => operate::<F>(&two, env, |e| float::mul::<F>(a, b, e)),
        "fdiv" => operate::<F>(&two, env, |e| float::div::<F>(a, b, e)),
        "fsqrt" => operate::<F>(&one, env, |e| float::sqrt::<F>(a, e)),
        "frecip" => operate::<F>(&one, env, |e| float::recip::<F>(a, e)),
        _ => return None,
    })
}

/// To another format.
pub fn convert<F: Format, G: Format>(a: u64, env: &mut Env) -> u64 {
    match nan::<F>(a) {
        None => float::convert::<F, G>(a, env),
        Some(true) => {
            env.flags |= flag::INVALID;
            default_nan::<G>()
        }
        Some(false) => {
            let fraction = a & (F::QUIET - 1);
            let moved = match G::FRACTION.checked_sub(F::FRACTION) {
                Some(wider) => fraction << wider,
                None => fraction >> (F::FRACTION - G::FRACTION),
            };
            let sign = if a & F::SIGN != 0 { G::SIGN } else { 0 };
            if moved == 0 { default_nan::<G>() } else { sign | G::INFINITY | moved }
        }
    }
}

/// To an integer of `bits` bits; what has none gives the greatest.
pub fn to_int<F: Format>(a: u64, bits: u32, env: &mut Env) -> u64 {
    let value = float::to_int::<F>(a, bits, true, env);
    let is_invalid = env.flags & flag::INVALID != 0;
    if is_invalid { (1 << (bits - 1)) - 1 } else { value }
}

/// A comparison: bits of `condition` are signalling, less, equal, unordered.
pub fn compare<F: Format>(a: u64, b: u64, condition: u32, env: &mut Env) -> bool {
    let nans = [nan::<F>(a), nan::<F>(b)];
    if nans != [None, None] {
        if condition & 1 != 0 || nans.contains(&Some(true)) {
            env.flags |= flag::INVALID;
        }
        return condition & 8 != 0;
    }
    match float::compare::<F>(a, b, false, env) {
        Some(Ordering::Less) => condition & 2 != 0,
        Some(Ordering::Equal) => condition & 4 != 0,
        Some(Ordering::Greater) | None => false,
    }
}

/// What an instruction writes.
enum Written {
    Register(u64),
    Flag(bool),
}

fn compute<F: Format>(
    state: &State,
    (stem, suffix): (&str, &str),
    word: u32,
    env: &mut Env,
) -> Option<Written> {
    let mask = F::SIGN | (F::SIGN - 1);
    let register = |n: u32| state.v[(word >> n & 31) as usize].0[0];
    let (a, b) = (register(5) & mask, register(10) & mask);
    let integer = |bits, env: &mut Env| {
        let value = to_int::<F>(a, bits, env);
        if bits == 32 { value as i32 as i64 as u64 } else { value }
    };
    env.rounding = match stem {
        "ftintrm" => Rounding::Down,
        "ftintrp" => Rounding::Up,
        "ftintrz" => Rounding::Zero,
        "ftintrne" => Rounding::NearestEven,
        _ => env.rounding,
    };
    // What stands above a single is what stands above the first operand.
    let above = register(5) & !mask;
    Some(match stem {
        "fcmp" => Written::Flag(compare::<F>(a, b, word >> 15 & 15, env)),
        "fcvt" if suffix == "s.d" => {
            Written::Register(register(5) & !SINGLE | convert::<F, Single>(a, env))
        }
        "fcvt" => Written::Register(convert::<F, Double>(a, env)),
        _ if stem.starts_with("ftint") => {
            Written::Register(integer(if suffix.starts_with('w') { 32 } else { 64 }, env))
        }
        _ => Written::Register(arithmetic::<F>(stem, a, b, env)? | above),
    })
}

/// Completes a floating-point instruction that trapped, an LA64 `word`: its result as the legacy
/// encoding has it. False if the guest has the trap enabled; then only the cause is written.
pub fn complete(state: &mut State, word: u32) -> bool {
    let Some(row) = isa::decode(word).map(|id| id.row()) else { return false };
    let mut env = Env::new(Rounding::from_bits(state.fcsr >> 8));
    let names = (row.stem(), row.suffix());
    let is_single = row.suffix().ends_with('s');
    let written = match is_single {
        true => compute::<Single>(state, names, word, &mut env),
        false => compute::<Double>(state, names, word, &mut env),
    };
    let Some(written) = written else { return false };
    let own = if state.lbt.flags & CARRY != 0 { fcsr::ENABLE_INVALID } else { 0 };
    let enables = state.fcsr & fcsr::ENABLES & !fcsr::ENABLE_INVALID | own;
    state.fcsr = state.fcsr & !fcsr::CAUSE | env.flags << 24;
    if enables & env.flags != 0 {
        return false;
    }
    state.fcsr |= env.flags << 16;
    match written {
        Written::Flag(holds) => state.fcc[(word & 7) as usize] = holds.into(),
        Written::Register(value) => state.v[(word & 31) as usize].0[0] = value,
    }
    true
}
