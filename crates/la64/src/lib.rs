//! LoongArch (LA64) on any host: the instruction table, an exact interpreter and a counted device
//! core. Linux programs run on it through the crate `littoral-la64-linux`.
//!
//! - [`isa`]: one table; decoder, encoder and disassembler made from it.
//! - [`asm`]: an assembler on that table.
//! - [`interp`]: tier 0, the exact interpreter, oracle of any later tier.
//! - `jit`: making host code (feature `jit`).
//! - [`native`]: code executed by a LoongArch host itself.
//! - [`float`]: IEEE arithmetic with exact flags, independent of the host's.
//! - [`device`]: a core in bounded memory with an instruction budget.
//! - [`bare`]: a core without rights, for differential tests.
//! - [`elf`]: reading programs.
//! - [`front`]: the seam for translators from other architectures.
//! - [`state`], [`memory`]: what a translator shares with the interpreter.
//! - [`weak`]: threads on tier 0 that see memory in weak order.
//! - [`shared`]: what threads read without locks.

pub mod asm;
pub mod bare;
pub mod config;
pub mod device;
pub mod elf;
pub mod error;
pub mod float;
pub mod front;
pub mod interp;
pub mod isa;
#[cfg(feature = "jit")]
pub mod jit;
pub mod memory;
pub mod native;
pub mod shared;
pub mod state;
pub mod weak;
