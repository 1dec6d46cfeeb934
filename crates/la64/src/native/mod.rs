//! Code of a window executed by a LoongArch processor itself: what stands between a [`Cpu`] and the
//! processor's registers.
//!
//! - A [`Routine`] is LA64 code of this crate that lies in the window beside the code which it
//!   serves. It takes the registers of a [`Cpu`] into the processor's and jumps; code leaves by
//!   `bl` to [`Routine::leave`], which does the contrary and returns.
//! - A [`Processor`] executes: `raw::host` the one that this program runs on, [`Emulated`] one that
//!   tier 0 plays, by which every host can test the rest.
//! - A signal that interrupts code (a fault, or one that asks for attention) makes it leave at that
//!   instruction, by [`Position`]: registers are then those of the interrupted instruction.
//!
//! What code must keep:
//! - doubleword 2 of one vector register, by which it finds its `Cpu`;
//! - general register 21 is free where code is entered, and register 1 where it leaves, or it saves
//!   that first ([`Leaves`]).
//!
//! Instructions are not counted: `State::instructions` stays as it is.
//!
//! Invariants
//! - A run changes registers of the state and nothing else of its caller's: stack, registers that
//!   the calling convention keeps, FCSR. Checked by
//!   `a_run_takes_registers_to_code_and_back_and_keeps_its_callers`.
//! - An interrupted run leaves the state as it was, or with all registers of the interrupted
//!   instruction. Checked by `a_run_interrupted_anywhere_is_whole`.

mod emulated;
#[cfg(all(target_arch = "loongarch64", target_os = "linux"))]
pub(crate) mod raw;
mod routine;

pub use emulated::Emulated;
#[cfg(all(target_arch = "loongarch64", target_os = "linux"))]
pub use raw::{host, interrupt, is_code, occupy};
pub use routine::{Leaves, Routine};

use crate::interp::Cpu;
use littoral_base::mutant;
use std::fmt::Debug;
use std::sync::atomic::AtomicBool;

/// Why code was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// By [`Routine::leave`]; the pc is the `bl`.
    Exit,
    /// The attention flag was set: the pc is the next instruction.
    Attention,
    /// The instruction at the pc raised an exception, or could not be fetched.
    Fault,
}

/// What executes LA64 code.
pub trait Processor: Debug + Send + Sync {
    /// Whether it has the binary translation assists.
    fn has_lbt(&self) -> bool;

    /// Where routines will lie: the addresses of their first words.
    fn place(&self, routine: &Routine, begins: &[u64]);

    /// Executes from `State::pc` on, by the routine at `begin`, with instructions as they are in
    /// memory.
    fn run(&self, cpu: &mut Cpu, begin: u64, attention: &AtomicBool) -> Left;
}

/// Numbers of reasons in a [`Frame`](crate::state::Frame).
pub(crate) mod reason {
    use super::Left;

    pub(crate) const EXIT: u64 = 0;
    pub(crate) const ATTENTION: u64 = 1;
    pub(crate) const FAULT: u64 = 2;

    pub(crate) fn left(reason: u64) -> Left {
        match reason {
            EXIT => Left::Exit,
            ATTENTION => Left::Attention,
            _ => Left::Fault,
        }
    }
}

/// Where an address lies to which a signal interrupted a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// In the code that is run, or where no code is.
    Code,
    /// In the routine, behind its look at the attention flag and before code: nothing of the state
    /// has changed, and the run ends at the routine's place *abandon*.
    Entering,
    /// Elsewhere in the routine: it looks at the flag later, or ends the run anyway.
    Routine,
}

/// The position of `pc` beside routines at `begins`.
pub(crate) fn position(
    routine: &routine::Places,
    begins: impl IntoIterator<Item = u64>,
    pc: u64,
) -> Position {
    let inside = |begin: u64| pc.checked_sub(begin).filter(|&at| at < routine.len);
    match begins.into_iter().find_map(inside) {
        Some(at) if routine.entering.contains(&at) => match mutant!("la64_native_half_entered") {
            true => Position::Code,
            false => Position::Entering,
        },
        Some(_) => Position::Routine,
        None => Position::Code,
    }
}

#[cfg(test)]
mod tests;
