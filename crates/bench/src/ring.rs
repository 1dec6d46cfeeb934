//! Measurements of the coroutine ring.

pub mod chains;
