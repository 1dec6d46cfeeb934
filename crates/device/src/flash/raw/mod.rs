//! The unsafe corner of flash devices: the slot table and the slots' buffers.
//!
//! Everything here has a safe face; each unsafe block is a row of `crates/device/SAFETY.md`.
#![allow(unsafe_code)] // Reason: slot-owned memory.

pub(crate) mod buffers;
pub(crate) mod slots;
