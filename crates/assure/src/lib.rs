//! Floor 2.5 of littoral: code that tests the engines from outside. Tests, fuzz targets and `repro`
//! share it, and each run is repeated by its seed.
//!
//! - [`index`]: power cuts, damaged and crafted images, a host without room.
//! - [`stm`]: crash images, flipped bits, opacity of histories.
//! - [`la64`]: random instructions against another implementation of LoongArch.
//! - [`push`]: DuckDB on the same tables and queries; tenants that misbehave.
//! - [`graph`]: graph files whose checksums are made good after damage.
//! - [`flash`]: reads of an emulated flash medium under faults.
//! - [`xlate`]: random MIPS64 and x86-64 programs on the translators and on another processor.
//!
//! It uses the engines' public interfaces alone. No engine depends on it: an engine's test that
//! needs a judge stands in this crate's `tests`.

#![forbid(unsafe_code)]

pub mod flash;
pub mod graph;
pub mod index;
pub mod la64;
pub mod push;
pub mod stm;
pub mod xlate;
