//! Judges of the translators.
//!
//! - [`mips64`]: random programs on the translator and on an exact interpreter.
//! - `x86`: random programs on the translator and on the host processor; x86-64 Linux hosts only.
//! - [`litmus`]: tests of the order of memory, translated, on threads in weak order.

pub mod litmus;
pub mod mips64;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub mod x86;
