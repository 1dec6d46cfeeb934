//! Limits of resources. Those that would limit the engine too stand in an account of the guest's
//! (see `limits`); all others are the host's.

use super::super::limits::of_number;
use super::super::raw::{self, Arg};
use super::super::thread::Thread;
use super::{Args, err, pass};

/// The capability of raising hard limits (CAP_SYS_RESOURCE).
const SYS_RESOURCE: u32 = 24;

pub(super) fn getrlimit(thread: &mut Thread, args: &Args) -> i64 {
    match args[1] {
        0 => err(libc::EFAULT),
        at => prlimit64(thread, &[0, args[0], 0, at, 0, 0]),
    }
}

pub(super) fn setrlimit(thread: &mut Thread, args: &Args) -> i64 {
    match args[1] {
        0 => err(libc::EFAULT),
        at => prlimit64(thread, &[0, args[0], at, 0, 0, 0]),
    }
}

/// Where another process has its account is not known: of such a one the host's limits are read,
/// and none is set.
pub(super) fn prlimit64(thread: &mut Thread, args: &Args) -> i64 {
    let [pid, number, new, old, ..] = *args;
    let Some(resource) = of_number(number) else {
        return pass(thread, libc::SYS_prlimit64, "iipp", args);
    };
    if ![0, std::process::id(), raw::gettid() as u32].contains(&(pid as u32)) {
        return match new {
            0 => pass(thread, libc::SYS_prlimit64, "iipp", args),
            _ => err(libc::EPERM),
        };
    }
    let window = thread.cpu.window;
    let asked = match new {
        0 => None,
        at => match window.load_words::<2>(at) {
            Some([soft, hard]) if soft > hard => return err(libc::EINVAL),
            Some(limit) => Some(limit),
            None => return err(libc::EFAULT),
        },
    };
    let may_raise = asked.is_some() && is_capable(thread, SYS_RESOURCE);
    let before = thread.with_limits(|limits| {
        let before = limits.get(resource);
        match asked {
            Some([_, hard]) if hard > before[1] && !may_raise => return Err(libc::EPERM),
            Some(limit) => limits.set(resource, limit),
            None => {}
        }
        Ok(before)
    });
    match before {
        Err(error) => err(error),
        Ok(limit) if old != 0 => window.store_words(old, limit).map_or(err(libc::EFAULT), |()| 0),
        Ok(_) => 0,
    }
}

/// Whether the thread has one of the first 32 capabilities, by its number.
pub(super) fn is_capable(thread: &Thread, capability: u32) -> bool {
    const VERSION: u32 = 0x2008_0522;
    let (mut head, mut sets) = ([0; 8], [0; 24]);
    head[..4].copy_from_slice(&VERSION.to_le_bytes());
    let list = &mut [Arg::Out(&mut head), Arg::Out(&mut sets)];
    let done = raw::call_now(&thread.cpu.window, libc::SYS_capget, list);
    let effective = u32::from_le_bytes([sets[0], sets[1], sets[2], sets[3]]);
    done == 0 && effective >> capability & 1 == 1
}
