//! The guest's address space as the interpreter sees it: a window `[0, len)` onto host memory.
//!
//! Invariants
//! - No access leaves the window, whatever address the guest computes. Checked by
//!   `accesses_stop_at_the_end_of_the_window`.
//! - An access to a page of the window that the host refuses is a value (`None`), not a crash: the
//!   caller turns it into a precise guest fault. This needs a SIGSEGV handler that goes on at
//!   `landing`; the device core maps its whole window and never meets one. Checked by
//!   `every_entry_of_the_table_lands_and_nothing_else_does`,
//!   `faults_kill_the_guest_with_linux_signals`.
//! - A store that crosses pages is all or nothing. Checked by
//!   `a_store_half_outside_stores_nothing`, `a_guard_refuses_whole_stores_and_gives_pages_back`.

pub(crate) mod raw;

#[cfg(target_arch = "x86_64")]
pub use raw::hurry;
#[cfg(any(target_arch = "x86_64", target_arch = "loongarch64"))]
pub use raw::landing;
pub use raw::{Memory, Window};
