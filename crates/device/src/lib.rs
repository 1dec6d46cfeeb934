//! Floor 0.5 of littoral: memory that is not DRAM, real or modelled, behind three small traits.
//!
//! - [`read`]: asynchronous small reads ([`read::ReadDevice`]), the seam of the coroutine ring;
//! - [`zoned`]: zoned storage ([`zoned::ZonedDevice`]);
//! - [`memory`]: persistent and pooled memory ([`memory::Domain`]);
//! - [`pmem`]: domains on flush instructions, msync and eADR, and the crash-image simulator.
//!
//! Other nodes' memory is the crate `littoral-fabric`. [`profile`] holds what a device of any kind
//! can do as data, each figure with its source; [`nand`] is the one
//! timing model of flash chips.
//!
//! Useful alone and without root: someone else's engine can be run against the models, their
//! illegal requests are named, and a [`littoral_base::fault::Plan`] makes them fail on purpose.

pub mod error;
pub mod flash;
pub mod memory;
pub mod naming;
pub mod nand;
mod owned_file;
pub mod pmem;
pub mod profile;
mod raw;
pub mod read;
pub mod region;
pub mod ticks;
pub mod zoned;

pub use error::{Error, Kind, Result};
pub use owned_file::try_lock;
