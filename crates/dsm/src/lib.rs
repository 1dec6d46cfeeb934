//! Shared memory across nodes, kept coherent by locks (paper 002, the protocol of JIAJIA).
//!
//! Scope consistency: what a rank wrote inside a critical section of lock `l` is seen by the next
//! holder of `l`; a barrier publishes everything.
//!
//! - [`core`]: the whole protocol as a state machine without input or output;
//! - [`memory`]: a rank's pages in mapped memory, faults handled in the thread that faults;
//! - [`runtime`]: a rank at work over a fabric, deaths noticed and reported;
//! - [`job`]: the safe interface, and the raw one;
//! - [`launch`]: starting a job's processes and joining them;
//! - [`virtual_time`]: jobs on an interconnect that is modelled;
//! - [`lock`]: the paper's lock manager by itself, and what it is compared with.

pub mod core;
pub mod error;
pub mod job;
pub mod launch;
pub mod lock;
pub mod memory;
pub mod runtime;
pub mod turn;
pub mod virtual_time;

pub use error::{Error, Kind, Result};
