//! Which LA64 register holds which guest register, one to one.
//!
//! k0 and k1 (26 and 27) have no LA64 register: the kernel may overwrite them at any time, so a
//! program that reads them reads zero. The translator uses r2 and r21 for itself.
//!
//! | guest | LA64 |
//! |---|---|
//! | 0 | r0 |
//! | 31 (ra), 29 (sp) | r1, r3 |
//! | 4 to 11 (arguments) | r4 to r11 |
//! | 2, 3 (results), 25, 28, 1 | r12, r13, r14, r15, r16 |
//! | 12 to 15, 24 | r17 to r20, r22 |
//! | 16 to 23, 30 | r23 to r30, r31 |
//! | HI, LO, thread pointer | scr0, scr1, scr2 |
//! | f0 to f30, condition flags | f0 to f30, fcc0 to fcc7 |
//! | f31 | doubleword 2 of v1 |
//!
//! Invariants
//! - No two guest registers share one. Checked by `each_register_has_its_own`.

use littoral_base::mutant;
use littoral_la64::state::State;

/// Holds [`crate::layout::Layout::entries`].
pub const ENTRIES: u8 = 2;
/// Scratch within the code of one guest instruction.
pub const SCRATCH: u8 = 21;
/// LBT scratch register of HI.
pub const SCR_HI: u8 = 0;
/// LBT scratch register of LO.
pub const SCR_LO: u8 = 1;
/// LBT scratch register of the thread pointer (`rdhwr $29`).
pub const SCR_THREAD: u8 = 2;
/// LBT scratch register that saves a general register within one guest instruction.
pub const SCR_SPILL: u8 = 3;
/// Vector register whose upper half saves a second general register within one guest instruction.
pub const UPPER_SPILL: u8 = 30;
/// LA64 register of floating point that is scratch within the code of one guest instruction.
pub const FLOAT_SCRATCH: u8 = 31;
/// Vector register whose doublewords 2 and 3 are the translator's: scalar code leaves them as they
/// are, whereas it may change doubleword 1 of what it writes.
pub const UPPER: u8 = 1;
/// Doubleword of [`UPPER`] that holds the guest's f31: compilers use that register least.
pub const UPPER_F31: u8 = 2;

/// Vector register whose doublewords 2 and 3 count: executions of counting code, guest
/// instructions.
pub const COUNTS: usize = 0;

/// Vector register whose doublewords 2 and 3 are for what runs the code.
pub const THREAD: u8 = 3;

/// The LA64 register of each guest register; k0 and k1 have none and read as zero.
pub const MAP: [u8; 32] = [
    0, 16, 12, 13, 4, 5, 6, 7, 8, 9, 10, 11, 17, 18, 19, 20, 23, 24, 25, 26, 27, 28, 29, 30, 22,
    14, 0, 0, 15, 3, 31, 1,
];

/// The LA64 register of a guest register.
pub fn la64(guest: u8) -> u8 {
    MAP[usize::from(guest)]
}

/// Vector register and doubleword that save the target of a jump across its delay slot.
pub fn target_place() -> (u8, u8) {
    if mutant!("mips64_target_beside_f31") { (FLOAT_SCRATCH, 1) } else { (UPPER, 3) }
}

/// Where a guest register of floating point is: vector register and doubleword.
fn float_place(guest: u8) -> (usize, usize) {
    match guest {
        FLOAT_SCRATCH => (UPPER.into(), UPPER_F31.into()),
        other => (other.into(), 0),
    }
}

/// A guest register of floating point.
pub fn float(state: &State, guest: u8) -> u64 {
    let (register, doubleword) = float_place(guest);
    state.v[register].0[doubleword]
}

/// Sets a guest register of floating point.
pub fn set_float(state: &mut State, guest: u8, value: u64) {
    let (register, doubleword) = float_place(guest);
    state.v[register].0[doubleword] = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_register_has_its_own() {
        let mut used: Vec<u8> = (1..32).filter(|n| ![26, 27].contains(n)).map(la64).collect();
        used.extend([ENTRIES, SCRATCH]);
        used.sort_unstable();
        assert_eq!(used, (1..32).collect::<Vec<u8>>());
    }
}
