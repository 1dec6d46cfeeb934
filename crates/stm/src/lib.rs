//! Durable transactions on persistent memory: thread clocks, dual versions, two fences, no log.
//!
//! A [`Pool`] on any [`Domain`](littoral_device::memory::Domain) holds typed records; a [`Thread`]
//! runs closures on them as transactions that are opaque (also a doomed one sees one moment's
//! state) and durable when `atomically` returns.
//!
//! ```
//! use littoral_device::pmem::Dram;
//! use littoral_stm::{Options, Pool};
//! littoral_stm::record! {
//!     /// A bank account.
//!     struct Account = "example.account/1" { balance: i64 }
//! }
//! let pool = Pool::create(Dram::new(1 << 20), &Options::default())?;
//! let mut thread = pool.thread()?;
//! let (a, b) = thread.atomically(|tx| {
//!     Ok((tx.alloc(&Account { balance: 10 })?, tx.alloc(&Account { balance: 0 })?))
//! })?;
//! thread.atomically(|tx| {
//!     tx.update(a, |x| x.balance -= 3)?;
//!     tx.update(b, |x| x.balance += 3)
//! })?;
//! assert_eq!(thread.read_only(|tx| Ok(tx.read(a)?.balance + tx.read(b)?.balance))?, 10);
//! # Ok::<(), littoral_stm::Error>(())
//! ```
//!
//! Protocol: `docs/design/stm.md`. Source: "A Scalable Timestamp-Based Durable Software
//! Transactional Memory" (paper 004), repaired; each module names its deviations. Nothing here is
//! unsafe.

#![forbid(unsafe_code)]

mod barrier;
mod error;
mod format;
mod gate;
mod peers;
mod pool;
pub mod record;
mod recover;
mod root;
mod run;
mod slab;
pub mod structures;
mod table;
mod thread;
mod tx;
mod word;

pub use error::{Abort, Error, Kind, Result};
pub use format::{Options, VERSION};
pub use pool::{Info, ObjectView, Outline, Pool, RootView, TypeInfo, Unfinished};
pub use record::{Look, Record, Ref, Words};
pub use recover::Restart;
pub use root::NAME_BYTES_MAX;
pub use structures::type_name;
pub use thread::{Stats, Thread};
pub use tx::{Access, Tx};
pub use word::THREADS_MAX;
