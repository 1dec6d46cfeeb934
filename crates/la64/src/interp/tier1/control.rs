//! FCSR and MXCSR: the host's register holds rounding mode and sticky flags while code runs.
//!
//! - Flags that the host has raised are added to FCSR0 when code leaves, and before an instruction
//!   reads or writes the FCSR.
//! - With a trap enabled, floating point runs on tier 0.

use super::super::Cpu;
use crate::state::fcsr;

/// All exceptions masked.
const MASKED: u32 = 0x1f80;

/// Whether floating point must run on tier 0: a trap is enabled.
pub(super) fn is_trapping(cpu: &Cpu) -> bool {
    cpu.state.fcsr & fcsr::ENABLES != 0
}

/// Sets what MXCSR will be: the rounding mode, no flags.
pub(super) fn prepare(cpu: &mut Cpu) {
    // Nearest, zero, up, down; the host has nearest, down, up, zero.
    let rounding = [0, 3, 2, 1][(cpu.state.fcsr >> 8 & 3) as usize];
    cpu.frame.guest_control = MASKED | rounding << 13;
}

/// Adds the flags of MXCSR to the FCSR's.
pub(super) fn merge(cpu: &mut Cpu) {
    let raised = cpu.frame.guest_control & 0x3d;
    if raised == 0 {
        return;
    }
    // Invalid, (denormal,) division, overflow, underflow, inexact from bit 0 up; the FCSR has them
    // the other way round.
    let bit = |host: u32, guest: u32| (raised >> host & 1) << guest;
    let flags = bit(0, 4) | bit(2, 3) | bit(3, 2) | bit(4, 1) | bit(5, 0);
    cpu.state.fcsr |= flags << 16;
}
