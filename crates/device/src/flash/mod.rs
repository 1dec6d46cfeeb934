//! Flash and its stand-ins behind [`ReadDevice`](crate::read::ReadDevice).
//!
//! - [`dram`]: the medium everything is compared with; data by prefetch, complete at issue.
//! - [`file`]: how a file or block device is opened for small reads.
//! - [`pread`]: a pool of threads over a file, the fallback everywhere.
//! - [`uring`]: io_uring over a file or block device.

pub mod dram;
pub mod file;
pub mod pread;
mod slots;
pub mod uring;
