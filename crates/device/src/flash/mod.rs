//! Flash and its stand-ins behind [`ReadDevice`](crate::read::ReadDevice).
//!
//! - [`dram`]: the medium everything is compared with; data by prefetch, complete at issue.
//! - [`paced`]: an analytic flash device behind the paper's lightweight interface.
//! - [`queue_pair`]: the same timing behind doorbells and a completion queue, as NVMe has them.
//! - [`pacer`]: its timing: latency, rates and link on the time-stamp counter.
//! - [`protocol`]: the shared memory of that interface, atomic by atomic.
//! - [`emulator`]: the same interface on two cores with every fault, for correctness.
//! - [`any`]: a closed enum of the handles, for a device chosen at run time.
//! - [`opened`]: an opened device, which gives every thread its handle.
//! - [`timed`]: a flash profile in virtual time.
//! - [`mod@file`]: how a file or block device is opened for small reads.
//! - [`pread`]: a pool of threads over a file, the fallback everywhere.
//! - [`uring`]: io_uring over a file or block device.

pub mod any;
pub mod cached;
pub mod dram;
pub mod emulator;
pub mod file;
pub mod opened;
pub mod paced;
pub mod pacer;
pub mod pread;
pub mod protocol;
pub mod queue_pair;
mod raw;
mod slots;
pub mod timed;
pub mod uring;
