//! Floor 4 of littoral: workloads, paper reproductions, what-if studies and reports.
//!
//! - [`claims`]: the schema `littoral.repro/1` and the targets each claim is judged by;
//! - [`repro`]: runs the papers' systems and judges them;
//! - [`whatif`]: the user's graph on a grid of modelled devices;
//! - [`report`]: turns results into one self-contained HTML page;
//! - [`graph`]: flash over DRAM, ours over GAPBS, latency;
//! - [`media`]: fault soak, io_uring beside fio and mmap;
//! - [`host`], [`peers`]: where a number was measured and what stood beside it;
//! - [`jiajia`]: locks and barriers over fabrics beside their rivals, the paper's board modelled;
//! - [`loongarch`]: LoongArch beside QEMU, Debian's amd64 builds and other architectures;
//! - [`sdtm`]: durable transactions beside their baselines;
//! - [`files`]: results are written whole or not at all.
//!
//! Invariants
//! - A figure is measured by the function that returns it or it is absent; nothing is extrapolated
//!   and no expected value is ever printed in place of a measured one.
//! - Every figure carries its clock and unit.

pub mod claims;
pub mod error;
pub mod files;
pub mod graph;
pub mod host;
pub mod jiajia;
pub mod loongarch;
pub mod media;
pub mod peers;
pub mod report;
pub mod repro;
pub mod ring;
pub mod sdtm;
pub mod whatif;
pub mod zbtree;

pub use error::{Error, Kind, Result};
