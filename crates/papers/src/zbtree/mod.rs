//! The ZB+-tree of paper 000: its workloads and what is claimed of it.

pub mod batches;
pub mod collect;
pub mod figures;
pub mod fill;
pub mod full;
pub mod hostile;
pub mod readers;
pub mod reads;
mod steps;
pub mod workload;

pub use steps::SYSTEM;
