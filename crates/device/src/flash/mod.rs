//! Flash and its stand-ins behind [`ReadDevice`](crate::read::ReadDevice).
//!
//! - [`dram`]: the medium everything is compared with; data by prefetch, complete at issue.

pub mod dram;
