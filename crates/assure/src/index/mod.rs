//! Tests of the index engines on zoned media.
//!
//! - [`power_cuts`]: cuts at every kind of moment, each followed by a recovery.
//! - [`damage`]: flipped bits and crafted images of a store in a file.
//! - [`host_full`]: a store whose host has no room left.

pub mod damage;
pub mod host_full;
pub mod power_cuts;
