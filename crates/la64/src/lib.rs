//! LoongArch (LA64) on any host: the instruction table, an exact interpreter, a counted device
//! core, and Linux user mode.
//!
//! - [`isa`]: one table; decoder, encoder and disassembler made from it.

pub mod isa;
