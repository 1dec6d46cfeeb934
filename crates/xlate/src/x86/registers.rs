//! Which LA64 register holds which guest register.
//!
//! | guest | LA64 |
//! |---|---|
//! | rax, rcx, rdx, rbx | r4, r5, r6, r12 |
//! | rsp, rbp, rsi, rdi | r3, r13, r7, r8 |
//! | r8 to r11 | r14, r9, r10, r11 |
//! | r12 to r15 | r23 to r26 |
//! | base of fs | r31 |
//! | base of gs | LBT scratch register 1 |
//! | direction: 1, or -1 where DF is set | LBT scratch register 0 |
//! | trap flag: 1 where TF is set | LBT scratch register 3 of the state; no code uses it |
//! | xmm0 to xmm15 | v0 to v15 |
//! | MXCSR: flags, rounding mode, masks but that of invalid operations | FCSR0 |
//! | MXCSR: the rest, all masks | LBT scratch register 2 |
//! | carry, parity, adjust, zero, sign, overflow | LBT flags |
//!
//! Invariants
//! - No two guest registers share one. Checked by `each_register_has_its_own`.

use super::isa::flag;
use littoral_la64::state::{Lbt, State};

/// Holds [`crate::layout::Layout::entries`].
pub const ENTRIES: u8 = 2;
/// Holds the address behind an indirect jump.
pub const LINK: u8 = 21;
/// Holds the base of fs.
pub const FS: u8 = 31;
/// LBT scratch register of the direction.
pub const SCR_DIRECTION: u8 = 0;
/// LBT scratch register of the base of gs.
pub const SCR_GS: u8 = 1;
/// LBT scratch register of the trap flag. Only the engine reads it.
pub const SCR_TRAP: u8 = 3;
/// Vector register that is scratch within one guest instruction.
pub const VECTOR: u8 = 31;
/// Vector registers that are scratch within one guest instruction.
pub const VECTORS: [u8; 4] = [VECTOR, 28, 27, 26];
/// Vector register whose doublewords 2 and 3 count: LA64 instructions that count, guest
/// instructions. Nothing else uses it.
pub const COUNTS: usize = 16;
/// Vector register whose doubleword 2 is free for what runs the code: the lower half holds a
/// register of x87, which no translated code touches.
pub const THREAD: u8 = 17;
/// Vector register that holds zeros.
pub const ZEROS: u8 = 30;
/// Vector register whose low word is all ones, above zeros.
pub const LOW_WORD: u8 = 29;
/// LBT scratch register of what MXCSR holds beside the FCSR.
pub const SCR_CONTROL: u8 = 2;
/// General registers that are scratch within one guest instruction.
pub const TEMPS: [u8; 13] = [1, 15, 16, 17, 18, 19, 20, 22, LINK, FAR[0], FAR[1], FAR[2], FAR[3]];
/// The last of them keep numbers that displacements begin with, from one instruction of a block to
/// the next, until an instruction takes them as scratch.
pub const FAR: [u8; 4] = [27, 28, 29, 30];

/// The LA64 register of each guest register.
pub const MAP: [u8; 16] = [4, 5, 6, 12, 3, 13, 7, 8, 14, 9, 10, 11, 23, 24, 25, 26];

/// The LA64 register of a guest register.
pub const fn la64(guest: u8) -> u8 {
    MAP[guest as usize & 15]
}

/// The direction flag's bit of RFLAGS.
pub const DIRECTION_BIT: u64 = 1 << 10;
/// The trap flag's bit of RFLAGS.
pub const TRAP_BIT: u64 = 1 << 8;
/// Bits of RFLAGS that always read as one in user mode: bit 1 and the interrupt flag.
pub const FIXED_BITS: u64 = 0x202;

/// The registers of a guest thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// General registers.
    pub gpr: [u64; 16],
    /// Address of the next instruction.
    pub rip: u64,
    /// RFLAGS: arithmetic flags, direction, trap flag.
    pub flags: u64,
    /// Base of fs.
    pub fs: u64,
    /// Base of gs.
    pub gs: u64,
}

/// Bits of RFLAGS that hold the arithmetic flags.
pub fn arithmetic_bits() -> u64 {
    flag::PLACES.iter().fold(0, |bits, &place| bits | 1 << place)
}

/// RFLAGS of a state.
pub fn flags(state: &State) -> u64 {
    let Lbt { scratch, flags, .. } = state.lbt;
    let down = if scratch[usize::from(SCR_DIRECTION)] >> 63 == 1 { DIRECTION_BIT } else { 0 };
    let steps = if scratch[usize::from(SCR_TRAP)] != 0 { TRAP_BIT } else { 0 };
    u64::from(flags) & arithmetic_bits() | down | steps | FIXED_BITS
}

/// Sets a state's flags from RFLAGS.
pub fn set_flags(state: &mut State, flags: u64) {
    let is_down = flags & DIRECTION_BIT != 0;
    state.lbt.flags = (flags & arithmetic_bits()) as u32;
    state.lbt.scratch[usize::from(SCR_DIRECTION)] = if is_down { u64::MAX } else { 1 };
    state.lbt.scratch[usize::from(SCR_TRAP)] = u64::from(flags & TRAP_BIT != 0);
}

impl Machine {
    /// The guest's registers in a state.
    pub fn read(state: &State) -> Machine {
        Machine {
            gpr: std::array::from_fn(|n| state.x[usize::from(MAP[n])]),
            rip: state.pc,
            flags: flags(state),
            fs: state.x[usize::from(FS)],
            gs: state.lbt.scratch[usize::from(SCR_GS)],
        }
    }

    /// Puts the registers into a state.
    pub fn write(&self, state: &mut State) {
        for (n, &value) in self.gpr.iter().enumerate() {
            state.x[usize::from(MAP[n])] = value;
        }
        state.pc = self.rip;
        set_flags(state, self.flags);
        state.x[usize::from(FS)] = self.fs;
        state.lbt.scratch[usize::from(SCR_GS)] = self.gs;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_register_has_its_own() {
        let mut used: Vec<u8> = MAP.iter().chain(&TEMPS).copied().collect();
        used.extend([ENTRIES, FS]);
        used.sort_unstable();
        assert_eq!(used, (1..32).collect::<Vec<u8>>());
    }

    #[test]
    fn a_machine_survives_the_state() {
        let mut machine = Machine { rip: 5, flags: 0xdd7, fs: 6, gs: 7, ..Machine::default() };
        machine.gpr = std::array::from_fn(|n| n as u64 + 100);
        machine.flags |= FIXED_BITS;
        let mut state = State::default();
        machine.write(&mut state);
        assert_eq!(Machine::read(&state), machine);
    }
}
