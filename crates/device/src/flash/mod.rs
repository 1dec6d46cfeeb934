//! Flash and its stand-ins behind [`ReadDevice`](crate::read::ReadDevice).
//!
//! - [`dram`]: the medium everything is compared with; data by prefetch, complete at issue.
//! - [`paced`]: an analytic flash device behind the paper's lightweight interface.
//! - [`pacer`]: its timing: latency, rates and link on the time-stamp counter.
//! - [`file`]: how a file or block device is opened for small reads.
//! - [`pread`]: a pool of threads over a file, the fallback everywhere.
//! - [`uring`]: io_uring over a file or block device.

pub mod dram;
pub mod file;
pub mod paced;
pub mod pacer;
pub mod pread;
mod slots;
pub mod uring;
