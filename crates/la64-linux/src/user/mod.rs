//! Linux user mode: runs a LoongArch Linux program as a process of the host.
//!
//! The guest lives in a reserved window of 84 TiB of addresses, less where the host grants less; a
//! guest thread is a host thread, a guest process a host process, and its system calls go to the
//! host with addresses translated.
//!
//! Invariants
//! - The guest cannot name host memory outside its window.
//! - Every guest fault becomes the signal Linux gives, at the exact instruction.
//! - A signal is delivered between instructions, never lost between a check and a system call.
//!
//! This is the one place of the crate that uses the operating system directly; it needs an x86-64
//! Linux host.

mod code;
mod cycle;
mod executable;
mod path;
mod perf_map;
mod process;
mod profile;
mod raw;
mod robust;
mod signal;
mod space;
mod stack;
mod symbols;
mod sync;
mod syscall;
mod thread;

use crate::error::Result;
use crate::options::Options;
use raw::Disposition;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use sync::lock;
use thread::Thread;

/// Runs a program to its end; the process then exits with its status, so this returns only when
/// the program could not be started.
///
/// `command` starts a program when options and its path are added; the guest's own `execve` needs
/// it. `arguments` are those after the program's name.
///
/// # Errors
/// The program or its interpreter cannot be read, is no LoongArch ELF, or does not fit.
pub fn run(
    options: Options,
    command: Vec<OsString>,
    program: &Path,
    arguments: &[OsString],
) -> Result<()> {
    let name = options.argv0.clone().unwrap_or_else(|| program.as_os_str().into());
    let argv = std::iter::once(&name).chain(arguments).map(|a| a.as_bytes().to_vec()).collect();
    let environment = process::environment(&options);
    let (process, start) = process::load((options, command), program, argv, &environment)?;
    inherit_signals(&process);
    let mut thread = Thread::new(process, &start, cycle::run);
    thread.mask = raw::set_mask(0);
    raw::set_mask(thread.mask);
    cycle::run(&mut thread);
    // The first thread ended alone; the last one ends the process.
    loop {
        std::thread::park();
    }
}

/// Signals ignored before exec stay ignored; SIGPIPE, which Rust's runtime ignores, does not.
fn inherit_signals(process: &process::Process) {
    let mut actions = lock(&process.actions);
    raw::force_disposition(libc::SIGPIPE as u32, Disposition::Default);
    for signal in 1..=64 {
        if raw::is_ignored(signal) {
            actions[signal as usize - 1].handler = 1;
        }
    }
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        raw::force_disposition(signal as u32, Disposition::Note);
    }
}
