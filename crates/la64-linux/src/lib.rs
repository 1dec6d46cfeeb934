//! Linux user mode for LoongArch: runs LoongArch Linux programs on x86-64 and LoongArch hosts.
//!
//! - [`command`]: the command line, shared by `la64` and `littoral la64`.
//! - [`options`]: how a program is run.
//! - [`limits`]: limits of resources that are a program's own.
//! - [`tool`]: what the command line shows of a program without running it.
//! - `user` (those hosts): runs a program as a process of the host.
//! - [`error`]: what can go wrong before a program runs.
//!
//! On any other host the crate compiles (`scripts/builds.sh`); running a program is then an error
//! of kind [`Unsupported`](error::Kind::Unsupported).

pub mod command;
pub mod error;
pub mod limits;
pub mod options;
pub mod tool;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "loongarch64")))]
pub mod user;
