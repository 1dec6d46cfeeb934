//! The runtime's unsafe corner: pinned futures side by side in one allocation, and
//! the promise behind read guards.
//!
//! Every unsafe block is a row of `crates/runtime/SAFETY.md`.
#![allow(unsafe_code)] // Reason: pinning inside one allocation needs raw access to it.

pub(crate) mod lease;
pub(crate) mod slab;
