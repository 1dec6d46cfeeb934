//! Making host code: what a translator needs that knows nothing of the guest.
//!
//! - [`emit`]: x86-64 instructions as bytes.
//! - [`flags`]: operations of any width, and flags.
//! - [`packed`]: those on vectors.
//! - `raw`: memory that holds code and may be executed.

pub mod emit;
pub mod flags;
pub mod packed;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod raw;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod shelf;
