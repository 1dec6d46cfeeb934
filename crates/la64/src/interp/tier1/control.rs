//! FCSR and MXCSR: the host's register holds rounding mode and sticky flags while code runs.
//!
//! - Flags that the host has raised are added to FCSR0 when code leaves, and before an instruction
//!   reads or writes the FCSR.
//! - With a trap enabled, floating point runs on tier 0. The trap on invalid operations alone needs
//!   only the host's fault where that comes before any other flag of the instruction, which is so
//!   for scalars and most vectors.
//! - Otherwise invalid operations fault on the host, if its owner catches that, and tier 0 runs
//!   them again; where they are frequent, code tests results for NaNs instead (see [`Floats`]).

use super::super::Cpu;
use crate::isa::Group;
use crate::state::fcsr;
use littoral_base::mutant;

/// All exceptions masked.
const MASKED: u32 = 0x1f80;
/// The bit of MXCSR that masks invalid operations.
const MASKED_INVALID: u32 = 0x80;

/// Invalid operations that may fault in so many instructions ([`PERIOD`]) before code tests results
/// instead: a fault costs a microsecond or two.
const INVALID_MAX: u32 = 200;
const PERIOD: u64 = 1 << 26;

/// What code relies on in floating point; code for one is not run under another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Floats {
    /// Invalid operations fault on the host before a register is written.
    Faulting,
    /// Nothing faults; results are tested for NaNs.
    Tested,
    /// The trap on invalid operations is enabled, and no other: as [`Floats::Faulting`], but
    /// vector instructions run on tier 0 of which one element may raise a flag before another one
    /// traps.
    Signalling,
    /// A trap is enabled: floating point runs on tier 0.
    Trapping,
}

impl Floats {
    /// How many kinds there are.
    pub(in super::super) const COUNT: usize = 4;

    /// Whether invalid operations fault on the host.
    pub(super) fn faults(self) -> bool {
        matches!(self, Floats::Faulting | Floats::Signalling)
    }

    /// Whether an instruction of a group runs on tier 0; `mixes` is what [`Mixes`] says of it.
    pub(in super::super) fn leaves(self, group: Group, mixes: bool) -> bool {
        match self {
            Floats::Faulting | Floats::Tested => false,
            Floats::Signalling => mixes,
            Floats::Trapping => !matches!(group, Group::Base | Group::Lbt),
        }
    }
}

/// Whether a vector instruction may raise a flag for one element before the host faults for another
/// one's invalid operation.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Mixes {
    /// No: it has one element, or no operation that is invalid.
    Never,
    /// That of 256 bits may, because each half is an instruction of the host. One of 128 bits is a
    /// single one, which divides nothing by zero: the host looks at all elements for invalid
    /// operations before it raises anything else.
    Wide,
    /// It may.
    Always,
}

impl Mixes {
    /// The same of an instruction that has 256 bits if it is `wide`.
    pub(in super::super) fn holds(self, wide: bool) -> bool {
        if mutant!("la64_lanes_raise_before_they_trap") {
            return false;
        }
        match self {
            Mixes::Never => false,
            Mixes::Wide => wide,
            Mixes::Always => true,
        }
    }
}

/// What code for this thread relies on.
pub(in super::super) fn floats(cpu: &Cpu) -> Floats {
    let enabled = cpu.state.fcsr & fcsr::ENABLES;
    if enabled == fcsr::ENABLE_INVALID && cpu.catches_invalid {
        // The host's fault leads to tier 0, which traps.
        Floats::Signalling
    } else if enabled != 0 {
        Floats::Trapping
    } else if cpu.catches_invalid && cpu.frame.invalid < INVALID_MAX {
        Floats::Faulting
    } else {
        Floats::Tested
    }
}

/// Counts an operation that may have been invalid.
pub(super) fn note_slow(cpu: &mut Cpu) {
    if cpu.state.fcsr & fcsr::CAUSE & 0x10 << 24 == 0 || cpu.frame.invalid == INVALID_MAX {
        return;
    }
    // A count that its owner has set back begins a new period.
    if cpu.state.instructions.wrapping_sub(cpu.frame.invalid_since) > PERIOD {
        (cpu.frame.invalid, cpu.frame.invalid_since) = (0, cpu.state.instructions);
    }
    cpu.frame.invalid += 1;
}

/// Sets what MXCSR will be: the rounding mode, no flags.
pub(super) fn prepare(cpu: &mut Cpu) {
    // Nearest, zero, up, down; the host has nearest, down, up, zero.
    let rounding = [0, 3, 2, 1][(cpu.state.fcsr >> 8 & 3) as usize];
    let faults = floats(cpu).faults() && !mutant!("la64_invalid_stays_masked");
    let masks = if faults { MASKED & !MASKED_INVALID } else { MASKED };
    cpu.frame.guest_control = masks | rounding << 13;
}

/// Adds the flags of MXCSR to the FCSR's.
pub(super) fn merge(cpu: &mut Cpu) {
    let mut raised = cpu.frame.guest_control & 0x3d;
    if cpu.state.fcsr & fcsr::ENABLE_INVALID != 0 && !mutant!("la64_trapped_invalid_raised") {
        // The host raises its flag before it faults; a guest that asked for the trap gets that, and
        // no flag.
        raised &= !1;
    }
    if raised == 0 {
        return;
    }
    // Invalid, (denormal,) division, overflow, underflow, inexact from bit 0 up; the FCSR has them
    // the other way round.
    let bit = |host: u32, guest: u32| (raised >> host & 1) << guest;
    let flags = bit(0, 4) | bit(2, 3) | bit(3, 2) | bit(4, 1) | bit(5, 0);
    cpu.state.fcsr |= flags << 16;
}
