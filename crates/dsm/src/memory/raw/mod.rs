//! The unsafe corner of the memory layer: mappings, page protection, the fault handler.
//!
//! - [`map`]: the bytes of a segment, reached as atomics by the protocol and by address by the
//!   program;
//! - [`protect`]: what the program's view permits, by userfaultfd or by mprotect;
//! - [`handler`]: signals of faulting accesses, handled in the thread that faults.
#![allow(unsafe_code)] // Reason: memory mapping, system calls on addresses, signal handlers.

pub(crate) mod handler;
pub(crate) mod map;
pub(crate) mod protect;
