//! Floor 0 of littoral: what every other crate stands on.
//!
//! - [`units`]: newtypes and parsers for sizes, times, rates and places on a medium.
//! - [`error`]: the one shape of error, `Error { kind, context, source }`, each crate with its own
//!   kinds.
//! - [`codec`]: little-endian readers and writers, CRC32C, checksummed blocks.
//! - [`clock`]: virtual, paced and wall time, and the name of the clock behind every number.
//! - [`sim`]: the only discrete-event queue and resource server.
//! - [`fault`]: the only fault plan, seeded, with a replay string.
//! - [`mod@counters`]: named counts with units.
//! - [`mod@mutant`]: known defects, off, that the suites must notice when they are on.
//! - [`rng`]: the seeded generator that engines are given.
//! - [`sync`]: std, loom or shuttle behind one name.
//!
//! Nothing here does I/O, prints, or reads an operating-system clock except through
//! [`clock::Clock`]; everything is deterministic under its seed.

#![forbid(unsafe_code)]

pub mod clock;
pub mod codec;
pub mod counters;
pub mod error;
pub mod fault;
pub mod mutant;
pub mod names;
pub mod rng;
pub mod sim;
pub mod sync;
pub mod units;
