//! System calls, by the kernel's generic table. Most go straight to the host with guest addresses
//! translated; those that involve the address space, threads, signals, paths, or structures that
//! differ between the two architectures are handled here.
//!
//! - A call is one row of [`table`]; everything that differs from call to call is a column there.
//! - A call that never began (a signal was noted, or another thread asked for attention) begins
//!   again and is counted once.
//! - A number without a row, and a call whose row says that it is absent, are named once on stderr
//!   and give ENOSYS.

mod exec;
mod files;
mod ipc;
mod memory;
mod table;
mod tasks;

use super::raw::{self, Arg, RESTART};
use super::signal::SA_RESTART;
use super::sync::lock;
use super::thread::Thread;
use littoral_base::mutant;
use table::{Call, Done, Waits};

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
    let Some(call) = table::find(number) else {
        name_once(thread, number, &format!("system call {number}"));
        let result = err(libc::ENOSYS);
        trace(thread, &format!("syscall_{number}"), args.len(), &args, Some(result));
        thread.cpu.state.x[4] = result as u64;
        return;
    };
    let result = match call.done {
        Done::Own(own) => own(thread, &args),
        Done::Host(host) => on_host(thread, call, host, &args),
        Done::Refused(error) => err(error),
        Done::Absent => {
            name_once(thread, number, &format!("system call {} ({number})", call.name));
            err(libc::ENOSYS)
        }
        Done::Registers(set) => {
            set(thread);
            return trace(thread, call.name, call.shape.len(), &args, None);
        }
    };
    if begins_again(thread, call, &args, result) {
        return;
    }
    let result = if result == RESTART { err(libc::EINTR) } else { result };
    trace(thread, call.name, call.shape.len(), &args, Some(result));
    thread.cpu.state.x[4] = result as u64;
}

/// Says the first time that a call is not there.
fn name_once(thread: &Thread, number: u64, name: &str) {
    if lock(&thread.process.unknown).insert(number) {
        let pc = thread.cpu.state.pc;
        thread.say(&format!("{name} is not supported (at {pc:#x})"));
    }
}

/// `--strace`: the call, its arguments, and its result if it has one.
fn trace(thread: &Thread, name: &str, count: usize, args: &Args, result: Option<i64>) {
    if thread.process.options.strace {
        let list: Vec<_> = args[..count].iter().map(|a| format!("{a:#x}")).collect();
        let result = result.map_or(String::new(), |r| format!(" = {}", show(r)));
        thread.say(&format!("{name}({}){result}", list.join(", ")));
    }
}

fn show(result: i64) -> String {
    match result {
        -4095..=-1 => std::io::Error::from_raw_os_error(-result as i32).to_string(),
        _ => format!("{result:#x}"),
    }
}

/// Arranges that the call runs again, if it never began or the handler of the signal that
/// interrupted it lets it begin anew.
fn begins_again(thread: &mut Thread, call: &Call, args: &Args, result: i64) -> bool {
    let again = match result {
        RESTART => never_began(thread, call),
        _ => result == err(libc::EINTR) && restarts(thread, call, args),
    };
    if again {
        thread.cpu.state.pc -= 4;
    }
    again
}

/// Whether a call that never entered the kernel begins again: always, because there may be no
/// signal at all (other threads raise the attention flag too), unless it waits for the signal that
/// came.
fn never_began(thread: &mut Thread, call: &Call) -> bool {
    if mutant!("la64_call_that_never_began_fails") && !thread.pending.any() {
        return false;
    }
    if matches!(call.waits, Waits::ForSignals) && thread.pending.any() {
        return false;
    }
    // It is counted when it runs.
    thread.cpu.state.instructions -= 1;
    true
}

/// Whether a call that a signal interrupted runs again after its handler.
fn restarts(thread: &Thread, call: &Call, args: &Args) -> bool {
    let may = match call.waits {
        Waits::Never | Waits::Restarts => true,
        Waits::Chooses(restarts) => restarts(args),
        Waits::Fails | Waits::ForSignals => false,
    };
    let flags = |n: u32| lock(&thread.process.actions)[n as usize - 1].flags;
    may && thread.pending.first().is_some_and(|n| flags(n) & SA_RESTART != 0)
}

/// Passes a call on by its row. One that never waits need not look for a signal before it begins.
fn on_host(thread: &mut Thread, call: &Call, host: i64, args: &Args) -> i64 {
    match call.waits {
        Waits::Never => with_arguments(thread, call.shape, args, |list| {
            raw::call_now(&thread.cpu.window, host, list)
        }),
        _ => pass(thread, host, call.shape, args),
    }
}

/// Passes a call on to the host's call `number`, with arguments of these kinds (see [`table`]).
pub(super) fn pass(thread: &mut Thread, number: i64, shape: &str, args: &Args) -> i64 {
    let call = |list: &mut [Arg<'_>]| raw::call(&thread.cpu.window, &thread.pending, number, list);
    with_arguments(thread, shape, args, call)
}

/// Calls `call` with a guest call's arguments as the host takes them.
fn with_arguments(
    thread: &Thread,
    shape: &str,
    args: &Args,
    call: impl FnOnce(&mut [Arg<'_>]) -> i64,
) -> i64 {
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
    call(&mut list)
}
