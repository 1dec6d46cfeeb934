//! Translators to LoongArch (LA64): code of another architecture becomes LA64 code, which the
//! engine of `littoral-la64` runs like any other.
//!
//! - [`mips64`]: the instruction table of MIPS64, its decoder and its translator.
//! - [`x86`]: the instruction table of x86-64, its decoder and its translator.
//! - [`ir`]: sets of registers and liveness over blocks, for any guest.
//! - [`layout`]: where translated code and the table of entries lie in the window.
//! - [`code`]: translated code: placing it, finding it, linking it.
//! - [`event`]: why a guest stopped.
//! - [`guest`]: what the engine asks of a guest architecture.
//! - [`engine`]: enters translated code and answers its exits.
//!
//! Paper 000 calls the translator from MIPS64 LATM; it gives figures (table 8) and no design. The
//! design is in `docs/design/xlate.md`.

#![forbid(unsafe_code)]

pub mod code;
pub mod engine;
pub mod event;
pub mod guest;
pub mod ir;
pub mod layout;
pub mod mips64;
pub mod x86;
