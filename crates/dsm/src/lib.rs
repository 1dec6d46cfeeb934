//! Shared memory across nodes, kept coherent by locks (paper 002, the protocol of JIAJIA).
//!
//! Scope consistency: what a rank wrote inside a critical section of lock `l` is seen by the next
//! holder of `l`; a barrier publishes everything. [`core`] is the whole protocol as a state machine
//! without input or output; a fabric carries its messages.
//!
//! The crate is under construction: the protocol core is complete and checked exhaustively;
//! fabrics, the fault layer and the programs follow.

#![forbid(unsafe_code)]

pub mod core;
pub mod error;
pub mod lock;

pub use error::{Error, Kind, Result};
