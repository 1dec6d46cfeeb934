//! System calls, by the kernel's generic table. Most go straight to the host with guest addresses
//! translated; those that involve the address space, threads, signals, paths, or structures that
//! differ between the two architectures are handled here.
//!
//! An unknown number is named once on stderr and gives ENOSYS.

mod files;
mod memory;
mod table;
mod tasks;

use super::process::lock;
use super::raw::{self, Arg, RESTART};
use super::signal::SA_RESTART;
use super::thread::Thread;
use table::{Call, Kind};

/// A guest system call's arguments.
pub(super) type Args = [u64; 6];

/// A handler for what the host cannot do unaided.
pub(super) type Own = fn(&mut Thread, &Args) -> i64;

pub(super) fn err(code: i32) -> i64 {
    -i64::from(code)
}

/// Executes the system call the thread's registers ask for.
pub(super) fn run(thread: &mut Thread) {
    let number = thread.cpu.state.x[11];
    let args: Args = std::array::from_fn(|n| thread.cpu.state.x[4 + n]);
    let call = table::find(number);
    let result = match call {
        None => {
            thread.say(&format!(
                "system call {number} is not supported (at {:#x})",
                thread.cpu.state.pc
            ));
            err(libc::ENOSYS)
        }
        Some(call) => execute(thread, call, &args),
    };
    if thread.process.options.strace {
        let name = call.map_or("unknown", |c| c.name);
        let [a, b, c, d, ..] = args;
        thread.say(&format!("{name}({a:#x}, {b:#x}, {c:#x}, {d:#x}) = {}", show(result)));
    }
    if number != table::SIGRETURN {
        finish(thread, number, result);
    }
}

fn show(result: i64) -> String {
    match result {
        -4095..=-1 => std::io::Error::from_raw_os_error(-result as i32).to_string(),
        _ => format!("{result:#x}"),
    }
}

/// Stores the result, or arranges that an interrupted call runs again.
fn finish(thread: &mut Thread, number: u64, result: i64) {
    let interrupted = result == err(libc::EINTR) || result == RESTART;
    if interrupted && thread.pending.any() && restarts(thread, number, result) {
        thread.cpu.state.pc -= 4;
        return;
    }
    let result = if result == RESTART { err(libc::EINTR) } else { result };
    thread.cpu.state.x[4] = result as u64;
}

/// Whether the next signal's handler lets the call start anew. One that never entered the kernel
/// always does, unless it waits for that very signal.
fn restarts(thread: &Thread, number: u64, result: i64) -> bool {
    if table::WAITS_FOR_SIGNALS.contains(&number) {
        return false;
    }
    if result == RESTART {
        return true;
    }
    let signal = thread.pending.first();
    signal.is_some_and(|n| lock(&thread.process.actions)[n as usize - 1].flags & SA_RESTART != 0)
        && !table::NEVER_RESTARTS.contains(&number)
}

fn execute(thread: &mut Thread, call: &Call, args: &Args) -> i64 {
    match call.kind {
        Kind::Own(own) => own(thread, args),
        Kind::Host(number, shape) => pass(thread, number, shape, args),
    }
}

/// Passes a call on. `shape` has a letter an argument: `i` number, `p` guest address, `s` path
/// looked up in the sysroot, `l` the same without following a last symbolic link.
pub(super) fn pass(thread: &mut Thread, number: i64, shape: &str, args: &Args) -> i64 {
    let mut paths: [Vec<u8>; 6] = Default::default();
    for (n, letter) in shape.bytes().enumerate() {
        if letter == b's' || letter == b'l' {
            match files::path_argument(thread, args[n], letter == b's') {
                Ok(path) => paths[n] = path,
                Err(code) => return code,
            }
        }
    }
    let mut list: Vec<Arg<'_>> = Vec::with_capacity(6);
    for (n, letter) in shape.bytes().enumerate() {
        list.push(match letter {
            b'i' => Arg::Int(args[n]),
            b'p' => Arg::Guest(args[n]),
            _ if paths[n].is_empty() => Arg::Guest(args[n]),
            _ => Arg::In(&paths[n]),
        });
    }
    raw::call(&thread.cpu.window, &thread.pending, number, &mut list)
}
