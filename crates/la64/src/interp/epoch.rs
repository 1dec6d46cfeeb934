//! Changed code: which instructions may change, and when they may have done so last.
//!
//! The architecture promises nothing about instructions that a program writes until `ibar` has
//! run. So `ibar` only advances the [`Epoch`] that all threads of a program share, and a block in
//! memory that was ever writable compares its words with memory the first time it is entered in a
//! new epoch. Blocks in other memory are never compared.
//!
//! Invariants
//! - The epoch is read before the words that are compared, so that a block is current at least up
//!   to the epoch it bears. Checked by `another_thread_executes_what_was_written_before_ibar`.
//! - The owner of the memory advances the epoch after it has taken the right to execute from
//!   memory that was ever writable. For memory that never was, the owner drops all blocks of all
//!   threads instead, also before that memory becomes writable. Checked by
//!   `code_that_lost_its_right_or_its_memory_is_not_executed`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count of the instants at which code may have changed, shared by the threads of a program.
#[derive(Clone, Debug)]
pub struct Epoch(Arc<AtomicU64>);

impl Default for Epoch {
    /// Begins at 1: 0 is no epoch.
    fn default() -> Epoch {
        Epoch(Arc::new(AtomicU64::new(1)))
    }
}

impl Epoch {
    /// The current epoch.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Where the count is, for generated code.
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    pub(super) fn address(&self) -> u64 {
        Arc::as_ptr(&self.0) as u64
    }

    /// Begins a new epoch: what was written before is seen by every block entered after.
    pub fn advance(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Executable memory from an address up to `end`, or a part of it that holds the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// The first address that cannot be executed, or that differs in `written`.
    pub end: u64,
    /// The memory is or ever was writable, so blocks are compared with it.
    pub written: bool,
}

/// Where in a guest file an instruction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file's number in its [`Store`](super::Store).
    pub file: usize,
    /// The instruction's offset in it.
    pub offset: u64,
}

/// Which memory can be executed. The words are read through the window.
pub trait Fetch {
    /// The executable memory at `pc`; `None` if there is none.
    fn text(&self, pc: u64) -> Option<Text>;

    /// Where in which file an instruction is whose code may be kept between processes: memory of a
    /// file, mapped privately, that never was writable.
    fn origin(&self, pc: u64) -> Option<Origin> {
        let _ = pc;
        None
    }
}
