//! The unsafe floor of persistent memory: mapped files, cache-line write-back instructions.
//!
//! - [`map`]: a mapped file or anonymous region seen only as a slice of atomic words.
//! - [`flush`]: CLWB, CLFLUSHOPT, CLFLUSH and SFENCE, chosen by CPUID.
//!
//! Unsafe code is allowed here and nowhere else in `pmem`: a mapping is made from a raw address and
//! a write-back is an instruction the compiler does not know.
#![allow(unsafe_code)]

pub mod flush;
pub(super) mod map;
