//! Which host register is what, and where the parts of a [`Cpu`] are from the state register.
//!
//! | host | holds |
//! |---|---|
//! | rbp | address of the [`Cpu`] + 128: all general registers of the guest are a byte away |
//! | r14 | instructions until the dispatch loop, less one |
//! | r15 | address of the guest's window |
//! | rax, rcx, rdx, xmm0 to xmm2 | scratch |
//! | rsp | below the host addresses that code has pushed: where calls of the guest return to |
//! | [`PINS`] | general registers of the guest |
//! | xmm3 to xmm15 | low halves of vector registers 0 to 12 |

use super::super::Cpu;
use super::frame::Frame;
use super::known::Known;
use crate::jit::emit::{Mem, R8, R9, R10, R11, R12, R13, R14, R15, RBP, RBX, RDI, RSI, Reg};
use crate::memory::raw::Window;
use crate::state::{Lbt, State};
use std::mem::offset_of;

/// Added to the address of the [`Cpu`].
pub(super) const BIAS: i32 = 128;
pub(super) const STATE: Reg = RBP;
pub(super) const COUNT: Reg = R14;
pub(super) const WINDOW: Reg = R15;

/// General registers of the guest with a host register of their own between blocks.
pub(super) const PINS: [(usize, Reg); 9] =
    [(3, RBX), (4, RSI), (5, RDI), (6, R8), (7, R9), (12, R10), (13, R11), (14, R12), (8, R13)];

/// Vector registers with a host register of their own between blocks: the first ones.
pub(super) const VECTOR_PINS: usize = 13;

const fn field(offset: usize) -> Mem {
    Mem::at(STATE, offset as i32 - BIAS)
}

/// General register `n` in memory.
pub(super) const fn x(n: usize) -> Mem {
    field(8 * n)
}

/// Half `half` of vector register `n` in memory.
pub(super) const fn v(n: usize, half: usize) -> Mem {
    field(offset_of!(State, v) + 32 * n + 16 * half)
}

/// Condition flag `n`.
pub(super) const fn fcc(n: usize) -> Mem {
    field(offset_of!(State, fcc) + (n & 7))
}

const LBT: usize = offset_of!(State, lbt);
/// The flags of the binary translation assists, and their second byte.
pub(super) const LBT_FLAGS: Mem = field(LBT + offset_of!(Lbt, flags));
pub(super) const LBT_FLAGS_HIGH: Mem = field(LBT + offset_of!(Lbt, flags) + 1);

/// Scratch register `n` of the binary translation assists.
pub(super) const fn lbt_scratch(n: usize) -> Mem {
    field(LBT + offset_of!(Lbt, scratch) + 8 * (n & 3))
}

const fn frame(offset: usize) -> Mem {
    field(offset_of!(Cpu, frame) + offset)
}

/// Sixteen bytes that code reads.
pub(super) const fn literal(n: usize) -> Mem {
    frame(offset_of!(Frame, literals) + 16 * n)
}

pub(super) const PC: Mem = field(offset_of!(State, pc));
pub(super) const LINK_ADDRESS: Mem = field(offset_of!(State, link_address));
pub(super) const LINK_VALUE: Mem = field(offset_of!(State, link_value));
pub(super) const LINK_HIGH: Mem = field(offset_of!(State, link_value_high));
pub(super) const UPPER: Mem = frame(offset_of!(Frame, upper));
pub(super) const LEFT: Mem = frame(offset_of!(Frame, left));
pub(super) const JUMPS: Mem = frame(offset_of!(Frame, jumps));
pub(super) const EPOCH: Mem = frame(offset_of!(Frame, epoch));
pub(super) const STACK: Mem = frame(offset_of!(Frame, stack));
pub(super) const FLOOR: Mem = frame(offset_of!(Frame, floor));
pub(super) const ATTENTION: Mem = frame(offset_of!(Frame, attention));
/// The address of what routine `n` calls.
pub(super) const fn helper(n: usize) -> Mem {
    frame(offset_of!(Frame, helpers) + 8 * n)
}

pub(super) const CALLED: Mem = frame(offset_of!(Frame, called));
pub(super) const EXIT: Mem = frame(offset_of!(Frame, exit));
pub(super) const GUEST_CONTROL: Mem = frame(offset_of!(Frame, guest_control));
pub(super) const HOST_CONTROL: Mem = frame(offset_of!(Frame, host_control));
pub(super) const WINDOW_BASE: Mem = field(offset_of!(Cpu, window) + Window::BASE);
pub(super) const NEAR: Mem = field(offset_of!(Cpu, window) + Window::NEAR);
/// Bytes of an access, and of what is read beside it.
pub(super) const ACCESS_MAX: u64 = 64;
/// Constant addresses below this, and 32 bytes behind them, are displacements of an access.
pub(super) const ADDRESS_MAX: u64 = (1 << 31) - 32;
/// Largest displacement of an access by rj and an immediate.
const DISP_MAX: u64 = 1 << 15;
/// A window with less slack gets a check per access.
pub(super) const SLACK_MIN: u64 = DISP_MAX + ACCESS_MAX;
/// Entries of the table of jumps are 2 to this power.
pub(super) const TARGET_BITS: u32 = 14;
/// Takes the bits of an address that choose its entry in the table of jumps, times four.
pub(super) const JUMP_MASK: i32 = ((1 << TARGET_BITS) - 1) << 2;
/// Entries of its spare part are 2 to this power.
pub(super) const SPARE_BITS: u32 = 12;
/// Takes the bits that choose an entry there, times four.
pub(super) const SPARE_MASK: i32 = ((1 << SPARE_BITS) - 1) << 2;
/// Where the spare part is.
pub(super) const SPARE: i32 = 8 << TARGET_BITS;
/// The guest address of a block in that table, and the host address of its code.
pub(super) const KNOWN_KEY: i32 = offset_of!(Known, key) as i32;
pub(super) const KNOWN_HOST: i32 = offset_of!(Known, host) as i32;

const _: () = assert!(offset_of!(Cpu, state) == 0, "general registers come first");
