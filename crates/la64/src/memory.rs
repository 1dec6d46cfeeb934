//! The guest's address space as the interpreter sees it: a window `[0, len)` onto host memory.
//!
//! Invariants
//! - No access leaves the window, whatever address the guest computes.
//! - An access to a page of the window that the host refuses is a value (`None`), not a crash: the
//!   caller turns it into a precise guest fault. This needs a SIGSEGV handler that goes on at
//!   `landing`; the device core maps its whole window and never meets one.
//! - A store that crosses pages is all or nothing.

pub(crate) mod raw;

#[cfg(target_arch = "x86_64")]
pub use raw::landing;
pub use raw::{Memory, Window};
