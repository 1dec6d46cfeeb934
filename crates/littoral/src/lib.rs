//! Floor 3 of littoral, the facade: a machine made of memory devices, and the engines that run on
//! it.
//!
//! The floors below are reached through this crate, so that a program names one dependency.

pub use littoral_base as base;
pub use littoral_device as device;
#[cfg(feature = "dsm")]
pub use littoral_dsm as dsm;
#[cfg(feature = "fabric")]
pub use littoral_fabric as fabric;
#[cfg(feature = "graph")]
pub use littoral_graph as graph;
#[cfg(feature = "index")]
pub use littoral_index as index;
#[cfg(feature = "la64")]
pub use littoral_la64 as la64;
#[cfg(feature = "la64")]
pub use littoral_la64_linux as la64_linux;
#[cfg(feature = "push")]
pub use littoral_push as push;
pub use littoral_runtime as runtime;
#[cfg(feature = "xlate")]
pub use littoral_xlate as xlate;

#[cfg(feature = "heap")]
pub mod heap;
#[cfg(feature = "index")]
pub mod kv;
pub mod machine;

pub use machine::Machine;

/// What a program usually needs.
pub mod prelude {
    pub use littoral_base::units::{Bytes, PerSecond, Picos};
    pub use littoral_device::profile::Profile;
    pub use littoral_device::read::{ReadDevice, Slot, Status};
    pub use littoral_device::region::Region;

    pub use crate::machine::Machine;
}
