//! The device crate's unsafe corner: mappings and processor instructions.
//!
//! Everything here has a safe face; each unsafe block is a row of `crates/device/SAFETY.md`.
#![allow(unsafe_code)] // Reason: system calls and processor instructions.

pub(crate) mod cpu;
#[cfg(test)]
pub(crate) mod fork;
pub(crate) mod mapping;
