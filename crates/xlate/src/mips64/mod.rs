//! MIPS64 release 2, little-endian, N64: decoder, disassembler and translator.
//!
//! - [`isa`]: one table; decoder and disassembler work from it.
//! - [`region`]: the blocks that one entry leads to.
//! - [`registers`]: which LA64 register holds which guest register.
//! - [`front`]: the translator behind the seam of `littoral_la64::front`.
//! - [`legacy`]: NaNs in the legacy encoding.
//! - [`float`]: the control register of floating point.
//! - [`exact`]: an interpreter, the oracle of the translator.
//! - [`architecture`]: the engine's face of it.
//! - `fuse`: groups of instructions that become fewer.
//! - `lower`: LA64 code of one region.
//! - [`translate`]: from an entry to LA64 code.

pub mod architecture;
pub mod isa;
pub mod legacy;
pub mod region;
pub mod registers;

pub mod exact;
pub mod float;
pub mod front;

mod fuse;
mod lower;
mod translate;

pub use architecture::Mips64;
pub use translate::{Conventions, WORDS_MAX, translate};
