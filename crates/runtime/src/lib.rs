//! The coroutine ring: hundreds of stackless coroutines a core hide microseconds of read latency.
//!
//! A [`Ring`] owns a [`ReadDevice`](littoral_device::read::ReadDevice) and runs many copies of one
//! `async` function, its *contexts*. A context that reads is suspended until its data are there;
//! the others run meanwhile. There is no waker, no `Arc`, no queue: contexts lie side by side in
//! one allocation and are polled in turn (paper 003, "Hiding latency using stackless coroutines").
//!
//! The ring knows bytes and addresses, not graphs: an ANN index, a hash table or a B-tree on a
//! medium with microseconds of latency is as good a user (`crates/runtime/examples/chains.rs`).
//!
//! ```
//! use std::cell::Cell;
//! use littoral_device::{flash::dram::Dram, region::Region};
//! use littoral_runtime::{Contexts, Error, Ring, RingOptions};
//!
//! // A table of 1000 little-endian words on the medium; sum the even-numbered ones.
//! let words: Vec<u8> = (0..1000u64).flat_map(u64::to_le_bytes).collect();
//! let device = Dram::new(Region::from_bytes(&words).unwrap());
//! let ring = Ring::new(device, RingOptions::with_contexts(Contexts::Fixed(64)))?;
//!
//! let next = Cell::new(0u64); // the shared source of work
//! let sum = Cell::new(0u64);
//! ring.run(async |cx| {
//!     while next.get() < 1000 {
//!         let index = next.replace(next.get() + 2);
//!         let bytes = cx.read(index * 8, 8).await?;
//!         sum.set(sum.get() + u64::from_le_bytes(bytes[..].try_into().unwrap()));
//!     }
//!     Ok::<(), Error>(())
//! })?;
//! assert_eq!(sum.get(), (0..1000).step_by(2).sum::<u64>());
//! # Ok::<(), Error>(())
//! ```
//!
//! Rules for what runs on a ring
//! - A context may wait only for the ring's own futures ([`Cx::read`], [`Reader::read`],
//!   [`Cx::yield_now`]); one that
//!   waits for anything else ends the run with [`Kind::ForeignFuture`] instead of hanging.
//! - The guard of a read keeps its slot; drop it before the next read where that is possible.
//! - Dropping a read under way is allowed: its slot stays reserved until the device has answered.
//!
//! Design: `docs/design/ring.md`.

mod cores;
mod counters;
mod cx;
mod error;
mod options;
mod raw;
mod ring;
mod tune;

pub use cores::{Pinning, run_on_cores};
pub use counters::RingCounts;
pub use cx::{Cx, FixedRead, Read, ReadGuard, Reader, YieldNow};
pub use error::{Error, Kind, Result};
pub use options::{Contexts, RingOptions};
pub use ring::Ring;
