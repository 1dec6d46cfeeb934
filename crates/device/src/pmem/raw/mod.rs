//! The unsafe floor of persistent memory: mapped files, cache-line write-back instructions, the C
//! ABI.
//!
//! - [`map`]: a mapped file or anonymous region seen only as a slice of atomic words.
//! - [`flush`]: CLWB, CLFLUSHOPT, CLFLUSH and SFENCE, chosen by CPUID.
//! - [`c_abi`]: the crash-image enumerator for programs in other languages.
//!
//! Unsafe code is allowed here and nowhere else in `pmem`: a mapping is made from a raw address, a
//! write-back is an instruction the compiler does not know, and a foreign caller hands raw
//! pointers.
#![allow(unsafe_code)]

pub mod c_abi;
pub mod flush;
pub(super) mod map;
