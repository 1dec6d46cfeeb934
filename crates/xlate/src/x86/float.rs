//! Vector registers and MXCSR.
//!
//! The FCSR holds the sticky flags, the rounding mode and the traps; LBT scratch register 2 holds
//! the rest of MXCSR and a mark that it was set. LA64 has no mode in which denormal numbers count
//! as zeros: see `flush`.

use super::registers::{LOW_WORD, SCR_CONTROL, ZEROS};
use littoral_base::mutant;
use littoral_la64::float::{Double, Env, Format, Single, flag};
use littoral_la64::state::{State, Vreg, fcsr};

/// MXCSR of a new process: nothing raised, all exceptions masked, rounding to the nearest.
pub const INITIAL: u32 = 0x1f80;
/// Bits that may be set in MXCSR.
pub const WRITABLE: u32 = 0xffff;
/// Denormal operands count as zeros.
const ZERO_OPERANDS: u32 = 1 << 6;
/// Denormal results become zeros, where underflow is masked.
const ZERO_RESULTS: u32 = 1 << 15;
const UNDERFLOW_MASKED: u32 = 1 << 11;
/// The flag of a denormal operand; only the program sets it.
const DENORMAL: u32 = 1 << 1;
/// The mark of a register that was set.
const SET: u64 = 1 << 32;
/// Bit of MXCSR and bit of the FCSR's flags: invalid, zero, overflow, underflow, inexact.
const PAIRS: [(u32, u32); 5] = [(0, 4), (2, 3), (3, 2), (4, 1), (5, 0)];
/// Rounding modes of the FCSR in the order of MXCSR's, and the other way round.
const ROUNDINGS: [u32; 4] = [0, 3, 2, 1];
/// LA64's condition for each of the eight of `cmpps` and its kin, and whether the operands are
/// swapped.
pub(super) const CONDITIONS: [(&str, bool); 8] = [
    ("ceq", false),
    ("slt", false),
    ("sle", false),
    ("cun", false),
    ("cune", false),
    ("sule", true),
    ("sult", true),
    ("cor", false),
];

/// The vector registers of a guest thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vectors {
    /// xmm0 to xmm15, low doubleword first.
    pub xmm: [[u64; 2]; 16],
    /// MXCSR.
    pub mxcsr: u32,
}

impl Default for Vectors {
    fn default() -> Vectors {
        Vectors { xmm: [[0; 2]; 16], mxcsr: INITIAL }
    }
}

impl Vectors {
    /// The registers in a state.
    pub fn read(state: &State) -> Vectors {
        let xmm = std::array::from_fn(|n| [state.v[n].0[0], state.v[n].0[1]]);
        Vectors { xmm, mxcsr: mxcsr(state) }
    }

    /// Puts the registers into a state.
    pub fn write(&self, state: &mut State) {
        for (register, value) in state.v.iter_mut().zip(&self.xmm) {
            register.0[..2].copy_from_slice(value);
        }
        set_mxcsr(state, self.mxcsr);
    }
}

/// Constants of translated code, and MXCSR unless it was set before.
pub fn prepare(state: &mut State) {
    state.v[usize::from(ZEROS)] = Vreg::default();
    state.v[usize::from(LOW_WORD)] = Vreg([0xffff_ffff, 0, 0, 0]);
    if state.lbt.scratch[usize::from(SCR_CONTROL)] & SET == 0 {
        set_mxcsr(state, INITIAL);
    }
}

/// MXCSR of a state.
pub fn mxcsr(state: &State) -> u32 {
    let rest = state.lbt.scratch[usize::from(SCR_CONTROL)] as u32;
    PAIRS.iter().fold(rest, |all, &(ours, theirs)| all | (state.fcsr >> (16 + theirs) & 1) << ours)
}

/// Sets MXCSR.
pub fn set_mxcsr(state: &mut State, value: u32) {
    let value = value & WRITABLE;
    let flags = 0x3f & !DENORMAL;
    state.lbt.scratch[usize::from(SCR_CONTROL)] = u64::from(value & !flags) | SET;
    let rounding = ROUNDINGS[(value >> 13 & 3) as usize];
    let mut bits = rounding << 8 | fcsr::ENABLE_INVALID;
    for (ours, theirs) in PAIRS {
        let (raised, masked) = (value >> ours & 1, value >> (ours + 7) & 1);
        bits |= raised << (16 + theirs) | (1 - masked) << theirs;
    }
    state.fcsr = bits;
}

/// Whether denormal numbers count as zeros in a state, as operands or as results.
pub fn flushes(state: &State) -> bool {
    mxcsr(state) & (ZERO_OPERANDS | ZERO_RESULTS) != 0
}

fn is_denormal<F: Format>(bits: u64) -> bool {
    bits >> F::FRACTION & F::EXPONENT_MAX == 0 && bits & (F::SIGN - 1) != 0
}

fn operand<F: Format>(bits: u64) -> u64 {
    if is_denormal::<F>(bits) { bits & F::SIGN } else { bits }
}

/// The result of an operation whose tiny results become zeros. One is tiny that would be denormal
/// with as many digits as a normal number has: rounded to fewer it may be the least normal number.
fn result<F: Format>(bits: u64, env: &mut Env) -> u64 {
    let underflows = env.flags & flag::UNDERFLOW != 0 && !mutant!("x86_tiny_made_normal_stays");
    if !underflows && !is_denormal::<F>(bits) {
        return bits;
    }
    if !mutant!("x86_flushed_results_raise_nothing") {
        env.flags |= flag::UNDERFLOW | flag::INEXACT;
    }
    bits & F::SIGN
}

/// Which denormal numbers count as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flushed {
    operands: bool,
    results: bool,
}

impl Flushed {
    /// As the MXCSR of a state says. Where the program has unmasked underflow, results stay.
    pub(super) fn of(state: &State) -> Flushed {
        let control = mxcsr(state);
        let is_masked = control & UNDERFLOW_MASKED != 0;
        Flushed {
            operands: control & ZERO_OPERANDS != 0,
            results: control & ZERO_RESULTS != 0 && is_masked,
        }
    }

    /// An operand of the format that a letter of LA64 names: `s` or `d`, others are integers.
    pub(super) fn operand(self, format: &str, bits: u64) -> u64 {
        match format {
            _ if !self.operands || mutant!("x86_denormal_operands_count") => bits,
            "s" => operand::<Single>(bits),
            "d" => operand::<Double>(bits),
            _ => bits,
        }
    }

    /// The result of one operation, which has raised what `env` says.
    pub(super) fn result(self, format: &str, bits: u64, env: &mut Env) -> u64 {
        match format {
            _ if !self.results => bits,
            "s" => result::<Single>(bits, env),
            "d" => result::<Double>(bits, env),
            _ => bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_survive_the_state() {
        for mxcsr in [INITIAL, 0, 0x3fbf, 0x5f81, 0x7fa0, 0x1f00, 0x9fc0, 0xffff] {
            let xmm = std::array::from_fn(|n| [n as u64, !(n as u64)]);
            let vectors = Vectors { xmm, mxcsr };
            let mut state = State::default();
            vectors.write(&mut state);
            prepare(&mut state);
            assert_eq!(Vectors::read(&state), vectors);
        }
        let mut state = State::default();
        prepare(&mut state);
        assert_eq!(Vectors::read(&state), Vectors::default());
    }
}
