//! LoongArch (LA64) on any host: the instruction table, an exact interpreter, a counted device
//! core, and Linux user mode.
//!
//! - [`isa`]: one table; decoder, encoder and disassembler made from it.
//! - [`interp`]: tier 0, the exact interpreter, oracle of any later tier.
//! - [`float`]: IEEE arithmetic with exact flags, independent of the host's.
//! - [`device`]: a core in bounded memory with an instruction budget.
//! - [`differential`]: random instructions against another implementation.
//! - [`elf`], [`tool`]: reading and showing programs.
//! - `command` (feature `linux`): the command line, shared by `la64` and `littoral la64`.
//! - `linux` (feature `linux`, x86-64 hosts): runs Linux programs.
//! - [`state`], [`memory`]: what a translator shares with the interpreter.

#[cfg(feature = "linux")]
pub mod command;
pub mod config;
pub mod device;
pub mod differential;
pub mod elf;
pub mod error;
pub mod float;
pub mod interp;
pub mod isa;
#[cfg(all(feature = "linux", target_os = "linux", target_arch = "x86_64"))]
pub mod linux;
pub mod memory;
pub mod state;
pub mod tool;
