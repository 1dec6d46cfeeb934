//! x86-64 with x87, MMX and vectors up to SSE4.2: decoder and translator.
//!
//! - [`isa`]: the table of instructions.
//! - [`decode`]: bytes to an instruction with its operands.
//! - [`region`]: the blocks that one entry leads to.
//! - [`float`]: vector registers and MXCSR of a state.
//! - [`completion`]: floating-point operations that LA64 does otherwise.
//! - [`assist`]: vector instructions that run outside translated code.
//! - [`x87`]: x87, outside translated code too.
//! - `mmx`: MMX, on the registers of x87.
//! - `flush`: arithmetic of SSE where denormal numbers count as zeros, outside translated code.
//! - [`registers`]: which LA64 register holds which guest register.
//! - [`architecture`]: the engine's face of it.
//! - [`front`]: the face for the owner of a program.
//! - `memory`: operands in memory of instructions outside translated code.
//! - `lanes`: upper parts of vector registers that are read.
//! - `lower`: LA64 code of one region.
//! - `strings`: pcmpestri and its kin, outside translated code.
//! - `text`: instructions as text.
//! - [`translate`]: from an entry to LA64 code.

pub mod architecture;
pub mod assist;
pub mod completion;
pub mod decode;
pub mod float;
pub mod front;
pub mod isa;
pub mod region;
pub mod registers;
pub mod x87;

mod flush;
mod lanes;
mod lower;
mod memory;
mod mmx;
mod strings;
mod text;
mod translate;

pub use architecture::X86;
pub use region::Conventions;
pub use translate::{WORDS_MAX, translate};

use littoral_la64::state::State;

/// The base of a segment.
fn segment_base(state: &State, segment: decode::Segment) -> u64 {
    match segment {
        decode::Segment::Fs => state.x[usize::from(registers::FS)],
        decode::Segment::Gs => state.lbt.scratch[usize::from(registers::SCR_GS)],
    }
}
