//! What generated code and the dispatch loop hand each other, inside the [`Cpu`].
//!
//! [`Cpu`]: super::super::Cpu

/// The floating-point literals that code reads, by their place.
pub(super) mod literal {
    pub(in super::super) const SIGN_DOUBLE: usize = 0;
    pub(in super::super) const SIGN_SINGLE: usize = 1;
    pub(in super::super) const ONE_DOUBLE: usize = 2;
    pub(in super::super) const ONE_SINGLE: usize = 3;
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
    pub(super) literals: [[u64; 2]; 4],
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
    /// The host's stack pointer below what code has pushed.
    pub(super) stack: u64,
    /// What code that does not count keeps its stack pointer above.
    pub(super) floor: u64,
    /// Address of the attention flag.
    pub(super) attention: u64,
    /// Addresses of what generated code calls, by the numbers of `routines::Call`.
    pub(super) helpers: [u64; 3],
    /// Calls of slow ways since they were taken last.
    pub(super) slow_calls: u64,
    /// Calls for instructions without a translation.
    pub(super) alone_calls: u64,
    /// The same while tier 0 is called.
    pub(super) called: u64,
    /// Instructions retired when invalid operations were counted from 0 last.
    pub(super) invalid_since: u64,
    /// Invalid operations since then.
    pub(super) invalid: u32,
    /// Which exit was taken.
    pub(super) exit: u32,
    /// MXCSR while guest code runs.
    pub(super) guest_control: u32,
    /// MXCSR of the host.
    pub(super) host_control: u32,
}

impl Frame {
    /// Calls of slow ways, and for instructions without a translation, counted from 0 again.
    pub(in super::super) fn take_calls(&mut self) -> [u64; 2] {
        [&mut self.slow_calls, &mut self.alone_calls].map(std::mem::take)
    }

    /// Counts invalid operations from 0 again.
    pub(in super::super) fn forget_invalid(&mut self) {
        self.invalid = 0;
    }
}

impl Default for Frame {
    fn default() -> Frame {
        Frame {
            literals: [[1 << 63, 0], [1 << 31, 0], [0x3ff0_0000_0000_0000, 0], [0x3f80_0000, 0]],
            upper: [0; 2],
            left: 0,
            jumps: 0,
            slows: 0,
            epoch: 0,
            stack: 0,
            floor: 0,
            attention: 0,
            helpers: [0; 3],
            slow_calls: 0,
            alone_calls: 0,
            called: 0,
            invalid_since: 0,
            invalid: 0,
            exit: 0,
            guest_control: 0x1f80,
            host_control: 0x1f80,
        }
    }
}
