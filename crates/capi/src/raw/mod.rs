//! The functions that C calls: raw pointers come in, so this is the crate's unsafe corner.
//!
//! - A null handle, a null pointer where bytes are needed or a range outside the memory is answered
//!   by -1 and changes nothing.
#![allow(unsafe_code)] // Reason: callers in C hand raw pointers.

pub mod pmem;
pub mod pool;

/// Whether `len` bytes from `offset` on lie in memory of `bytes`.
fn in_range(offset: usize, len: usize, bytes: usize) -> Option<()> {
    (offset.checked_add(len)? <= bytes).then_some(())
}
