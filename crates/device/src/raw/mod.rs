//! The device crate's unsafe corner: mappings, processor instructions, the slot table, slot
//! buffers, and the promise their readers make.
//!
//! Everything here has a safe face; each unsafe block is a row of `crates/device/SAFETY.md`.
#![allow(unsafe_code)] // Reason: system calls, processor instructions and slot-owned memory.

pub(crate) mod buffers;
pub(crate) mod cpu;
pub(crate) mod lease;
pub(crate) mod mapping;
pub(crate) mod slots;
