//! The architectural state of one hardware thread.
//!
//! Invariants
//! - The layout is `repr(C)` and fixed: a translator addresses it by offset (see the assertions).
//!   Checked by `State::default`.
//! - `x[0]` is always zero; writes to register 0 land in `x[32]`, which nothing reads, or nowhere.
//!   Checked by `blocks_and_single_steps_agree_in_everything`,
//!   `the_zero_register_reads_zero_whatever_is_written`.
//! - Floating-point register n is the low 64 bits of vector register n. Checked by
//!   `doubles_are_the_low_half_of_vectors`.
//! - `instructions` counts retired instructions exactly: a faulting one is not counted, a system
//!   call is. Checked by `instructions_are_counted_exactly_and_reproducibly`,
//!   `every_budget_stops_at_its_instruction_and_resumes`.

/// One vector register, 256 bits, little-endian lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct Vreg(pub [u64; 4]);

/// Bits of FCSR0: exceptions in the order inexact, underflow, overflow, divide by zero, invalid.
pub mod fcsr {
    /// Enabled traps.
    pub const ENABLES: u32 = 0x1f;
    /// The trap on invalid operations among them.
    pub const ENABLE_INVALID: u32 = 1 << 4;
    /// Rounding mode field.
    pub const RM: u32 = 0x300;
    /// Sticky flags.
    pub const FLAGS: u32 = 0x1f << 16;
    /// What the latest operation raised.
    pub const CAUSE: u32 = 0x1f << 24;
    /// All bits that exist, by register number: FCSR1 to FCSR3 are views of FCSR0.
    pub const VIEWS: [u32; 4] = [ENABLES | RM | FLAGS | CAUSE, ENABLES, FLAGS | CAUSE, RM];
}

/// Registers of the binary translation assists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Lbt {
    /// Scratch registers scr0 to scr3.
    pub scratch: [u64; 4],
    /// x86 EFLAGS (or the Arm NZCV in the same register: see `interp::lbt`).
    pub flags: u32,
    /// x87 stack top, 0 to 7.
    pub top: u8,
    /// x87 stack mode is on.
    pub stack_mode: u8,
    /// Padding, zero.
    pub reserved: [u8; 2],
}

/// What a run on the host's own processor needs beside the registers (see `native`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Frame {
    /// The stack pointer of the caller, behind what the routine has saved.
    pub(crate) sp: u64,
    /// Why code was left.
    pub(crate) reason: u64,
    /// The epoch in which the thread last made its processor fetch anew.
    pub(crate) fetched: u64,
}

/// The registers of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct State {
    /// General registers and the sink.
    pub x: [u64; 33],
    /// Address of the next instruction.
    pub pc: u64,
    /// Retired instructions.
    pub instructions: u64,
    /// Address of the latest load-linked, `u64::MAX` if none is open.
    pub link_address: u64,
    /// What it read.
    pub link_value: u64,
    /// Second half of a 128-bit link (`ll.d` pairs with `sc.q`).
    pub link_value_high: u64,
    /// Condition flags, 0 or 1 each.
    pub fcc: [u8; 8],
    /// Floating-point control and status.
    pub fcsr: u32,
    /// Padding, zero.
    pub reserved: u32,
    /// Binary translation assists.
    pub lbt: Lbt,
    /// Vector registers; the low 64 bits are the floating-point registers.
    pub v: [Vreg; 32],
}

impl Default for State {
    fn default() -> Self {
        const { assert!(core::mem::offset_of!(State, pc) == 264) };
        const { assert!(core::mem::offset_of!(State, v) % 32 == 0) };
        State {
            x: [0; 33],
            pc: 0,
            instructions: 0,
            link_address: u64::MAX,
            link_value: 0,
            link_value_high: 0,
            fcc: [0; 8],
            fcsr: 0,
            reserved: 0,
            lbt: Lbt::default(),
            v: [Vreg::default(); 32],
        }
    }
}
