//! Linux user mode: runs a Linux program as a process of the host: a LoongArch one, or one of
//! another architecture that a front translates.
//!
//! The guest lives in a reserved window of 84 TiB of addresses, less where the host grants less; a
//! guest thread is a host thread, a guest process a host process, and its system calls go to the
//! host with addresses translated.
//!
//! Invariants
//! - The guest cannot name host memory outside its window. Checked by
//!   `accesses_stop_at_the_end_of_the_window`, `faults_kill_the_guest_with_linux_signals`.
//! - Every guest fault becomes the signal Linux gives, at the exact instruction. Checked by
//!   `faults_kill_the_guest_with_linux_signals`,
//!   `a_load_half_outside_kills_and_so_does_a_read_only_page`.
//! - A signal is delivered between instructions, never lost between a check and a system call.
//!   Checked by `no_queued_signal_of_another_thread_is_lost`,
//!   `a_futex_wait_with_a_timeout_ends_at_a_signal`.
//!
//! This is the one place of the crate that uses the operating system directly; it needs Linux on
//! x86-64 or LoongArch.

mod abi;
mod code;
mod cycle;
mod debug;
mod disk;
mod dump;
mod executable;
mod limits;
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
mod voice;

use crate::error::Result;
use crate::options::Options;
use littoral_base::mutant;
use littoral_la64::front::Front;
use raw::{Arg, Disposition};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use sync::lock;
use thread::Thread;

/// Runs a program to its end; the process then exits with its status, so this returns only when
/// the program could not be started.
///
/// `command` starts a program when options and its path are added; the guest's own `execve` needs
/// it. `fronts` translate programs of other architectures. `arguments` are those after the
/// program's name.
///
/// # Errors
/// The program or its interpreter cannot be read, has a format that this command does not run, or
/// does not fit into the guest's memory.
pub fn run(
    options: Options,
    (command, fronts): (Vec<OsString>, &'static [&'static dyn Front]),
    program: &Path,
    arguments: &[OsString],
) -> Result<()> {
    let name = options.argv0.clone().unwrap_or_else(|| program.as_os_str().into());
    let argv = std::iter::once(&name).chain(arguments).map(|a| a.as_bytes().to_vec()).collect();
    let environment = process::environment(&options);
    let (process, start) = process::load((options, command, fronts), program, argv, &environment)?;
    inherit_signals(&process);
    name_process(&process, program);
    if let (Some(port), Some(debugger)) = (process.options.gdb, &process.debugger) {
        debug::server::start(debugger, debug::server::wait(port)?)?;
    }
    let mut thread = Thread::new(process, &start, cycle::run);
    thread.mask = raw::mask();
    cycle::run(&mut thread);
    // The first thread ended alone; the last one ends the process.
    loop {
        std::thread::park();
    }
}

/// Gives the process its program's name, as `execve` does: of this command's file it would show
/// that one's. Threads inherit it.
fn name_process(process: &process::Process, program: &Path) {
    let name = program.file_name().unwrap_or_default();
    let name = [name.as_bytes(), b"\0"].concat();
    let list = &mut [Arg::Int(libc::PR_SET_NAME as u64), Arg::In(&name)];
    if !mutant!("la64_process_has_the_engines_name") {
        // The kernel takes what fits.
        raw::call_now(&process.window, libc::SYS_prctl, list);
    }
}

/// Signals ignored before exec stay ignored; SIGPIPE, which Rust's runtime ignores, only if it was
/// so before.
fn inherit_signals(process: &process::Process) {
    let mut actions = lock(&process.actions);
    if !raw::is_pipe_ignored() {
        raw::force_disposition(libc::SIGPIPE as u32, Disposition::Default);
    }
    for signal in 1..=64 {
        if raw::is_ignored(signal) {
            actions[signal as usize - 1].handler = 1;
        }
    }
    raw::note_faults();
}
