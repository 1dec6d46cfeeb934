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
mod limits;
mod memory;
mod mips64;
#[cfg(any(test, not(target_arch = "x86_64")))]
#[cfg_attr(target_arch = "x86_64", expect(dead_code, reason = "this host has the older calls"))]
mod older;
mod stat;
mod table;
mod tasks;
mod x86_64;

use super::abi::Action;
use super::abi::numbers::Kind;
use super::raw::{self, Arg, RESTART};
use super::signal::SA_RESTART;
use super::sync::lock;
use super::thread::Thread;
use littoral_base::mutant;
use littoral_la64::front::Architecture;
use table::{Call, Done, Waits};

/// The handler of a signal that is ignored (SIG_IGN).
const IGNORED: u64 = 1;

/// How often a call is made again that may have met a watched page. Other threads that read code
/// from the same pages watch them again, whether the call has a wrong address or not.
const AGAIN_MAX: u32 = 100;

/// A guest system call's arguments.
pub(super) type Args = [u64; 6];

/// A handler for what the host cannot do unaided.
pub(super) type Own = fn(&mut Thread, &Args) -> i64;

pub(super) fn err(code: i32) -> i64 {
    -i64::from(code)
}

/// A system call as the guest names it.
#[derive(Clone, Copy)]
struct Entry {
    /// How it is done.
    call: &'static Call,
    /// A letter per argument whose number is the guest's own (see `abi::numbers::Kind`).
    letters: &'static str,
    /// What is done instead of the call's own way.
    own: Option<Own>,
}

/// The guest's call of a number.
fn find(thread: &Thread, number: u64) -> Option<Entry> {
    match thread.process.abi.architecture {
        None => Some(Entry { call: table::generic(number)?, letters: "", own: None }),
        Some(Architecture::Mips64) => mips64::find(number),
        Some(Architecture::X86_64) => x86_64::find(number),
    }
}

/// Executes the system call the thread's registers ask for.
pub(super) fn run(thread: &mut Thread) {
    let abi = thread.process.abi;
    let number = thread.register(abi.roles.number);
    let given: Args = abi.roles.args.map(|n| thread.register(n));
    let Some(entry) = find(thread, number) else {
        name_once(thread, number, &format!("system call {number}"));
        let result = err(libc::ENOSYS);
        trace(thread, &format!("syscall_{number}"), given.len(), &given, Some(result));
        return thread.answer(result);
    };
    let (call, mut args) = (entry.call, given);
    for (arg, letter) in args.iter_mut().zip(entry.letters.bytes()) {
        *arg = abi.numbers.argument(Kind::of(letter), *arg);
    }
    let mut done = perform(thread, entry, &args);
    // The host could not write to a watched page. The call is made again from here: the thread
    // would read its own code before, perhaps of that page, which would be watched again.
    for _ in 0..AGAIN_MAX {
        if done != Some(err(libc::EFAULT)) || !thread.process.unwatch_all(&thread.pending) {
            break;
        }
        done = perform(thread, entry, &args);
    }
    let Some(result) = done else {
        return trace(thread, call.name, call.shape.len(), &args, None);
    };
    let has_ended = result == err(libc::EINTR) && !mutant!("la64_wait_forgets_its_mask");
    thread.waited = if has_ended { waited_mask(thread, call, &args) } else { None };
    if begins_again(thread, call, &args, result) {
        return;
    }
    let result = if result == RESTART { err(libc::EINTR) } else { result };
    trace(thread, call.name, call.shape.len(), &args, Some(result));
    thread.answer(result);
}

/// Makes a call: its result, `None` if it sets the registers itself.
fn perform(thread: &mut Thread, entry: Entry, args: &Args) -> Option<i64> {
    let call = entry.call;
    Some(match (entry.own, call.done) {
        (Some(own), _) | (None, Done::Own(own)) => own(thread, args),
        (None, Done::Host(host)) => on_host(thread, call, host, args),
        (None, Done::Refused(error)) => err(error),
        (None, Done::Absent) => {
            let number = thread.register(thread.process.abi.roles.number);
            name_once(thread, number, &format!("system call {} ({number})", call.name));
            err(libc::ENOSYS)
        }
        (None, Done::Registers(set)) => {
            set(thread);
            return None;
        }
    })
}

/// The mask with which a call waits, by the host's numbers, if it has one.
fn waited_mask(thread: &Thread, call: &Call, args: &Args) -> Option<u64> {
    let at = match call.name {
        "rt_sigsuspend" => args[0],
        "ppoll" => args[3],
        "epoll_pwait" | "epoll_pwait2" => args[4],
        "pselect6" if args[5] != 0 => thread.cpu.window.load::<u64>(args[5])?,
        _ => return None,
    };
    let set = signal_set(thread, at).ok()?;
    set.try_into().ok().map(u64::from_le_bytes)
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
        thread.cpu.state.pc -= thread.process.abi.call_len;
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
    thread.uncount_call();
    true
}

/// Whether a call that a signal interrupted runs again after its handler.
fn restarts(thread: &Thread, call: &Call, args: &Args) -> bool {
    let may = match call.waits {
        Waits::Never | Waits::Restarts => true,
        Waits::Receives => !has_limit(thread, args[0], libc::SO_RCVTIMEO),
        Waits::Sends => !has_limit(thread, args[0], libc::SO_SNDTIMEO),
        Waits::Chooses(restarts) => restarts(args),
        Waits::Fails | Waits::ForSignals => false,
    };
    let action = |n: u32| thread.actions()[n as usize - 1];
    // One that is ignored, which the host notes all the same if it is a fault's, interrupts none.
    let goes_on = |a: Action| a.flags & SA_RESTART != 0 || a.handler == IGNORED;
    match thread.pending.first() {
        Some(n) => may && goes_on(action(n)),
        // A signal that is blocked, and held back here, interrupts no call.
        None => thread.pending.held() != 0,
    }
}

/// Whether a descriptor is a socket with a time limit, which would begin again with a call.
fn has_limit(thread: &Thread, descriptor: u64, option: i32) -> bool {
    let (mut limit, mut len) = ([0; 16], 16u32.to_le_bytes());
    let list = &mut [
        Arg::Int(descriptor),
        Arg::Int(libc::SOL_SOCKET as u64),
        Arg::Int(option as u64),
        Arg::Out(&mut limit),
        Arg::Out(&mut len),
    ];
    raw::call_now(&thread.cpu.window, libc::SYS_getsockopt, list) == 0 && limit != [0; 16]
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

/// Bytes of a set of signals on the host.
pub(super) const SET_LEN: u64 = 8;

/// A guest's set of signals as the host has it, empty for none.
pub(super) fn signal_set(thread: &Thread, at: u64) -> Result<Vec<u8>, i64> {
    match at {
        0 => Ok(Vec::new()),
        at => {
            let set = thread.cpu.window.load::<u64>(at).ok_or(err(libc::EFAULT))?;
            Ok(thread.process.abi.numbers.host_set(set).to_le_bytes().into())
        }
    }
}

/// Calls `call` with a guest call's arguments as the host takes them.
fn with_arguments(
    thread: &Thread,
    shape: &str,
    args: &Args,
    call: impl FnOnce(&mut [Arg<'_>]) -> i64,
) -> i64 {
    let mut paths: [Vec<u8>; 6] = Default::default();
    let flags = shape.len().checked_sub(1).map_or(0, |last| args[last]);
    let follows = flags & files::AT_SYMLINK_NOFOLLOW == 0 || mutant!("la64_links_always_followed");
    for (n, letter) in shape.bytes().enumerate() {
        let made = match letter {
            b's' | b'l' => files::path_argument(thread, args[n], letter == b's'),
            b'f' => files::path_argument(thread, args[n], follows),
            b'm' => signal_set(thread, args[n]),
            _ => continue,
        };
        match made {
            Ok(bytes) => paths[n] = bytes,
            Err(code) => return code,
        }
    }
    let mut list: Vec<Arg<'_>> = Vec::with_capacity(6);
    for (n, letter) in shape.bytes().enumerate() {
        list.push(match letter {
            b'i' => Arg::Int(args[n]),
            b'n' if args[n] == thread.process.abi.signals.set_len => Arg::Int(SET_LEN),
            b'n' => Arg::Int(args[n]),
            b'p' => Arg::Guest(args[n]),
            _ if paths[n].is_empty() => Arg::Guest(args[n]),
            _ => Arg::In(&paths[n]),
        });
    }
    call(&mut list)
}
