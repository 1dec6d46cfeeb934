//! Tier 0: the exact interpreter, oracle of any later tier.
//!
//! A block is decoded once into [`Inst`]s (handler, registers, immediate) and then executed by
//! handlers that tail-call each other; branches leave the block. One semantic function exists per
//! operation, generic over lanes where the operation is.
//!
//! Nothing here allocates after a block is built, reads a clock or calls the host's kernel.
//!
//! Invariants
//! - `State::instructions` is exact at every exit, also after a fault in mid-block. Checked by
//!   `instructions_are_counted_exactly_and_reproducibly`,
//!   `a_fault_in_either_half_of_a_pair_is_the_one_of_that_instruction`.
//! - A fault is precise: registers, memory and pc are as before the faulting instruction. Checked
//!   by `a_fault_in_either_half_of_a_pair_is_the_one_of_that_instruction`,
//!   `a_store_half_outside_stores_nothing`.
//!
//! Block boundaries: any unconditional branch, system call, break, `ibar`, an instruction that
//! cannot be decoded, the end of a page (so that page protection is checked once a block) or
//! `BLOCK_MAX` instructions. A conditional branch that is not taken stays in its block. A
//! translator may take the same boundaries and the same [`State`].

mod atomic;
mod bind;
mod block;
mod branch;
mod code;
mod epoch;
mod floating;
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
mod helper;
mod image;
mod integer;
mod jumps;
mod lbt;
mod memory;
mod operation;
mod orders;
mod pairs;
pub(crate) mod raw;
mod record;
mod stored;
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
mod tier1;
mod translation;
mod vector;

pub use crate::config::{Features, Limits, Tier};
pub use block::Cache;
pub use code::{CodeCache, Used};
pub use epoch::{Epoch, Fetch, Origin, Text};
pub(crate) use orders::{Orders, Random};
pub use raw::{Cursor, Link, Place, Slot};
pub use stored::{Identity, Maker, Refused, Store};
pub use translation::{Listing, Placed, Translation};

use crate::memory::Window;
use crate::state::{Frame, State};

/// How a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// To a fixed address, by a branch or straight on; `pc` points there.
    Direct,
    /// To wherever `pc` points.
    Indirect,
    /// [`Cpu::trap`] says why; `pc` is the trapping instruction, or the one after a system call.
    Trap,
}

/// Why the interpreter returned to its caller. Exhaustive, so that an owner who leaves a new trap
/// unanswered does not compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// `syscall`; already retired.
    Syscall,
    /// `break` with its code.
    Break(u32),
    /// No instruction, or one this machine does not announce.
    Illegal(u32),
    /// The instruction at this address cannot be fetched.
    Fetch(u64),
    /// A load that cannot be done.
    Load(u64),
    /// A store that cannot be done.
    Store(u64),
    /// An atomic access off its natural alignment.
    Unaligned(u64),
    /// A bound check failed (`asrtgt`, `ldle` and their kin).
    Bound(u64),
    /// An enabled floating-point exception; the cause field says which.
    Float,
    /// `ibar` on a tier whose blocks do not compare themselves with memory: the owner drops the
    /// blocks of all threads. Tier 0 advances [`Cpu::epoch`] instead.
    CodeChanged,
    /// The instruction budget is used up.
    OutOfBudget,
    /// The caller's attention flag was raised.
    Attention,
}

/// The code of an operation.
pub type Handler = fn(&mut Cpu, Cursor<'_>) -> Exit;

/// A pre-decoded instruction.
#[derive(Clone)]
pub struct Inst {
    /// What to run.
    pub handler: Handler,
    /// First immediate; for direct branches and pc-relative address forms the absolute result.
    pub imm: i64,
    /// Where a branch, or the end of the block, leads.
    pub link: Link,
    /// Instructions of the block up to and including this one.
    pub count: u16,
    /// Second immediate.
    pub imm2: u8,
    /// Register d as a destination: register 0 is the sink.
    pub to: Slot,
    /// Register d as a source.
    pub rd: Slot,
    /// Register j.
    pub rj: Slot,
    /// Register k.
    pub rk: Slot,
    /// Register a.
    pub ra: Slot,
}

impl std::fmt::Debug for Inst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inst({}, imm {})", self.count, self.imm)
    }
}

impl Inst {
    /// What is no operation of the guest.
    fn special(handler: Handler, imm: i64, count: u16) -> Inst {
        let (zero, to) = (Slot::new(0), Slot::new(32));
        let link = Link::new(Place::NONE);
        Inst { handler, imm, link, count, imm2: 0, to, rd: zero, rj: zero, rk: zero, ra: zero }
    }

    /// Holds the address of a block; never executed.
    fn header(pc: u64) -> Inst {
        Inst::special(end_of_block, pc as i64, 0)
    }

    fn stub(target: i64, handler: Handler) -> Inst {
        Inst::special(handler, target, 0)
    }

    /// Stands behind a block's `count` instructions and leads on.
    fn sentinel(next_pc: u64, count: u16) -> Inst {
        Inst::special(end_of_block, next_pc as i64, count)
    }
}

fn end_of_block(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    i.leave(cpu)
}

/// One hardware thread: state, its view of memory, and how the latest block ended.
///
/// The registers come first: their addresses are then the shortest the host has.
#[derive(Debug)]
#[repr(C)]
pub struct Cpu {
    /// Registers.
    pub state: State,
    /// Memory.
    pub window: Window,
    /// Why `Exit::Trap` was returned.
    pub trap: Trap,
    pub(crate) native: Frame,
    pub(crate) chain: raw::Chain,
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    frame: tier1::Frame,
    /// The stable counter `rdtime` reads, in units of 10 ns, set by the owner.
    pub time: fn() -> u64,
    /// What the machine announces.
    pub features: Features,
    /// When code may have changed; one for all threads of a program, set by the owner.
    pub epoch: Epoch,
    /// The owner's handler of SIGFPE goes on at [`landing`](crate::memory::landing) when the host
    /// meets an invalid floating-point operation, so translated code need not test its results.
    pub catches_invalid: bool,
}

/// A counter for machines without a clock: always zero.
pub fn no_time() -> u64 {
    0
}

impl Cpu {
    /// A thread at reset state.
    pub fn new(window: Window, features: Features) -> Cpu {
        let state = State::default();
        let chain = raw::Chain::default();
        Cpu {
            state,
            window,
            trap: Trap::Attention,
            native: Frame::default(),
            chain,
            #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
            frame: tier1::Frame::default(),
            time: no_time,
            features,
            epoch: Epoch::default(),
            catches_invalid: false,
        }
    }

    /// Sets [`Cpu::catches_invalid`] by a handler of this crate, for owners without one.
    pub(crate) fn catch_invalid(&mut self, on: bool) {
        #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
        {
            self.catches_invalid = on && crate::jit::raw::catch_invalid();
            self.frame.forget_invalid();
        }
        #[cfg(not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")))]
        let _ = on;
    }

    /// Calls of slow ways, and of tier 0 for instructions without a translation, since this was
    /// asked last.
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    fn take_calls(&mut self) -> [u64; 2] {
        self.frame.take_calls()
    }

    /// Ends the block at `i`, which is not retired; a system call is.
    #[cold]
    #[inline(never)]
    pub(crate) fn fault(&mut self, i: Cursor<'_>, trap: Trap) -> Exit {
        self.trap = trap;
        i.stop(self, trap == Trap::Syscall)
    }
}
