//! Persistent memory: every implementation of [`Domain`](crate::memory::Domain), and the crash
//! model.
//!
//! - [`FlushFence`]: CLWB, CLFLUSHOPT or CLFLUSH by CPUID, and SFENCE, on DAX memory or any
//!   mapping;
//! - [`Eadr`]: caches inside the power domain;
//! - [`Msync`]: real durability on any file system;
//! - [`Draft`]: a file of these that is being made;
//! - [`FileCopy`]: a file looked at without changing it;
//! - [`Dram`]: volatile, on the sync shim, for loom and shuttle;
//! - [`Sim`]: recorded, with every crash image enumerable ([`trace`]; for C in `littoral-capi`);
//! - [`Shadow`]: an engine's volatile words beside any of them;
//! - [`AnyDomain`]: one of them, chosen at run time;
//! - [`Counted`] and [`Paced`]: counts, a write-combining model, a part's latency and bandwidth.
//!
//! Byte order on the medium is little-endian; a big-endian build is refused at compile time by the
//! engines that use it. Design page: `docs/design/pmem.md`.

mod any;
mod copy;
mod count;
mod draft;
mod dram;
mod flush;
mod msync;
mod paced;
pub mod raw;
mod shadow;
pub mod sim;
mod sink;
pub mod trace;

pub use any::AnyDomain;
pub use copy::FileCopy;
pub use count::{Counted, MemoryCounts};
pub use draft::Draft;
pub use dram::Dram;
pub use flush::{Eadr, FlushFence, platform_has_eadr};
pub use msync::{Msync, best_promise};
pub use paced::Paced;
pub use raw::flush::{Flush, SharedLines};
pub use shadow::Shadow;
pub use sim::Sim;
