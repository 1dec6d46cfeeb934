//! What generated code and the dispatch loop hand each other, inside the [`Cpu`].
//!
//! [`Cpu`]: super::super::Cpu

/// The floating-point literals that code reads, by their place.
pub(super) mod literal {
    pub(in super::super) const SIGN_DOUBLE: usize = 0;
    pub(in super::super) const SIGN_SINGLE: usize = 1;
    /// Ones in the upper half of a register that holds a single.
    pub(in super::super) const BOX: usize = 2;
    pub(in super::super) const ONE_DOUBLE: usize = 3;
    pub(in super::super) const ONE_SINGLE: usize = 4;
}

/// Exits that are not one of a block's.
pub(super) mod exit {
    /// `pc` says where to go on.
    pub(in super::super) const ELSEWHERE: u32 = u32::MAX;
    /// `Cpu::trap` says why.
    pub(in super::super) const TRAP: u32 = u32::MAX - 1;
}

/// Fields that generated code reads and writes.
#[derive(Debug)]
#[repr(C, align(16))]
pub(in super::super) struct Frame {
    pub(super) literals: [[u64; 2]; 5],
    /// The upper half of a result while the lower one is made.
    pub(super) upper: [u64; 2],
    /// Instructions until the dispatch loop, less one.
    pub(super) left: i64,
    /// Address of the table of jumps.
    pub(super) jumps: u64,
    /// Address of the list of slow ways of the running code.
    pub(super) slows: u64,
    /// Address of the epoch.
    pub(super) epoch: u64,
    /// Which exit was taken.
    pub(super) exit: u32,
    /// MXCSR while guest code runs.
    pub(super) guest_control: u32,
    /// MXCSR of the host.
    pub(super) host_control: u32,
}

impl Default for Frame {
    fn default() -> Frame {
        Frame {
            literals: [
                [1 << 63, 0],
                [1 << 31, 0],
                [0xffff_ffff_0000_0000, 0],
                [0x3ff0_0000_0000_0000, 0],
                [0x3f80_0000, 0],
            ],
            upper: [0; 2],
            left: 0,
            jumps: 0,
            slows: 0,
            epoch: 0,
            exit: 0,
            guest_control: 0x1f80,
            host_control: 0x1f80,
        }
    }
}
