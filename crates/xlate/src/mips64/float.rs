//! The control register of floating point, FCSR, in LA64 terms.
//!
//! | MIPS64 FCSR | LA64 |
//! |---|---|
//! | bits 0 to 1, rounding mode | FCSR0 bits 8 to 9, the same modes |
//! | bits 2 to 6, flags | FCSR0 bits 16 to 20 |
//! | bits 7 to 10, traps on all but invalid operations | FCSR0 bits 0 to 3 |
//! | bit 11, trap on invalid operations | LBT flag CF |
//! | bits 12 to 16, cause | FCSR0 bits 24 to 28 |
//! | bits 23, 25 to 31, condition flags | fcc0 to fcc7 |
//!
//! The trap on invalid operations is always on in FCSR0: such an operation, and each one with a
//! quiet NaN of the legacy encoding, reaches the engine, which gives it the guest's result.
//! Flushing of denormal numbers (bit 24) is not kept.
//!
//! Invariants
//! - What a program writes it reads back. Checked by `what_is_written_is_read_back`.

use littoral_la64::state::{State, fcsr};

/// The LBT flag that holds the guest's own bit for it: CF.
pub(super) const CARRY: u32 = 1;

/// The bit of FCSR that condition flag `n` is.
pub const fn condition_bit(n: u32) -> u32 {
    if n == 0 { 23 } else { 24 + n }
}

/// The guest's FCSR.
pub fn guest_fcsr(state: &State) -> u32 {
    let own = state.fcsr;
    let enables = own & 0xf | (state.lbt.flags & CARRY) << 4;
    let plain = own >> 8 & 3 | (own >> 16 & 0x1f) << 2 | enables << 7 | (own >> 24 & 0x1f) << 12;
    (0..8).fold(plain, |word, n| word | u32::from(state.fcc[n as usize]) << condition_bit(n))
}

/// Sets the guest's FCSR.
pub fn set_guest_fcsr(state: &mut State, word: u32) {
    let enables = word >> 7 & 0xf | fcsr::ENABLE_INVALID;
    let (mode, flags, cause) = (word & 3, word >> 2 & 0x1f, word >> 12 & 0x1f);
    state.fcsr = enables | mode << 8 | flags << 16 | cause << 24;
    state.lbt.flags = state.lbt.flags & !CARRY | word >> 11 & 1;
    for n in 0..8 {
        state.fcc[n as usize] = (word >> condition_bit(n) & 1) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut state = State::default();
        for bit in 0..32 {
            let kept = !matches!(bit, 17..=22 | 24);
            set_guest_fcsr(&mut state, 1 << bit);
            assert_eq!(guest_fcsr(&state), if kept { 1 << bit } else { 0 }, "bit {bit}");
            assert_eq!(state.fcsr & fcsr::ENABLE_INVALID, fcsr::ENABLE_INVALID);
        }
    }
}
