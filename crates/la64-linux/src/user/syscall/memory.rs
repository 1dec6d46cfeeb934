//! Address space calls.

use super::super::limits::host_limit;
use super::super::process::Process;
use super::super::raw::{self, Arg};
use super::super::space::{MAP_ANONYMOUS, Move, Request, STACK, Space, page_len};
use super::super::sync::lock;
use super::super::thread::Thread;
use super::limits::is_capable;
use super::{Args, err, pass};
use littoral_base::mutant;
use std::os::unix::ffi::OsStrExt;

/// Runs `f` on the space, and drops the blocks of code that it changed.
pub(super) fn with_space(process: &Process, f: impl FnOnce(&mut Space) -> i64) -> i64 {
    let mut space = lock(&process.space);
    let result = f(&mut space);
    // Under the lock, so that each thread gets the changes that it made.
    let changed = process.changes.take();
    drop(space);
    process.drop_changed(changed);
    result
}

pub(super) fn brk(thread: &mut Thread, args: &Args) -> i64 {
    with_space(&thread.process, |s| s.set_brk(args[0]) as i64)
}

pub(super) fn mmap(thread: &mut Thread, args: &Args) -> i64 {
    let [at, len, prot, flags, fd, offset] = *args;
    let (flags, fd) = (flags as u32, fd as i32);
    let name = match flags & MAP_ANONYMOUS {
        0 => std::fs::read_link(format!("/proc/self/fd/{fd}"))
            .map(|p| thread.process.paths.guest(&p))
            .map(|p| String::from_utf8_lossy(p.as_os_str().as_bytes()).into_owned())
            .unwrap_or_default(),
        _ => String::new(),
    };
    let request =
        Request { at, len, prot: prot as u32 & 7, flags, fd: fd.into(), offset, name: &name };
    with_space(&thread.process, |s| s.map(&request))
}

pub(super) fn munmap(thread: &mut Thread, args: &Args) -> i64 {
    with_space(&thread.process, |s| s.unmap(args[0], args[1]))
}

/// From an address, or from the beginning of the first stack (PROT_GROWSDOWN) if the address is on
/// it: C libraries make the whole stack executable so.
pub(super) fn mprotect(thread: &mut Thread, args: &Args) -> i64 {
    const GROWS_DOWN: u64 = 0x0100_0000;
    let [at, len, prot, ..] = *args;
    let is_whole = prot & GROWS_DOWN != 0 && !mutant!("la64_stack_protected_by_the_page");
    with_space(&thread.process, |s| {
        let below = match s.area(at) {
            _ if !is_whole => 0,
            Some((start, area)) if area.name == STACK => at - start,
            _ => return err(libc::EINVAL),
        };
        s.protect(at - below, len.saturating_add(below), prot as u32 & 7)
    })
}

/// There are no protection keys: -1 means none.
pub(super) fn pkey_mprotect(thread: &mut Thread, args: &Args) -> i64 {
    match args[3] as i32 {
        -1 => mprotect(thread, args),
        _ => err(libc::EINVAL),
    }
}

pub(super) fn mremap(thread: &mut Thread, args: &Args) -> i64 {
    let [old, old_len, new_len, flags, to, _] = *args;
    let flags = flags.try_into().unwrap_or(u32::MAX);
    let request = Move { old, old_len, new_len, flags, to };
    with_space(&thread.process, |s| s.remap(&request))
}

/// Passes a call on if every page of its addresses is mapped, else gives the error `hole`: the
/// reservation around mappings must not change, and what lies behind the window is the host's.
fn on_mapped(thread: &mut Thread, args: &Args, (call, shape): (i64, &str), hole: i32) -> i64 {
    let [at, len, ..] = *args;
    let is_mapped = {
        let (space, end) = (lock(&thread.process.space), at.saturating_add(len));
        let mut covered = at;
        while let Some((_, area)) = space.area(covered).filter(|_| covered < end) {
            covered = area.end;
        }
        covered >= end
    };
    if is_mapped { pass(thread, call, shape, args) } else { err(hole) }
}

/// As `on_mapped`, for calls that take whole pages alone.
fn on_pages(thread: &mut Thread, args: &Args, call: (i64, &str), hole: i32) -> i64 {
    match args[0].is_multiple_of(page_len()) {
        true => on_mapped(thread, args, call, hole),
        false => err(libc::EINVAL),
    }
}

pub(super) fn madvise(thread: &mut Thread, args: &Args) -> i64 {
    let done = on_pages(thread, args, (libc::SYS_madvise, "pii"), libc::ENOMEM);
    if done == 0 && thread.process.abi.coherent {
        // Some kinds of advice empty pages.
        thread.process.code_written(args[0]..args[0].saturating_add(args[1]));
    }
    done
}

/// As the host's. A barrier that synchronizes the fetch of instructions (`SYNC_CORE`) does what
/// `ibar` on each thread would do.
pub(super) fn membarrier(thread: &mut Thread, args: &Args) -> i64 {
    const SYNC_CORE: u64 = 1 << 5;
    let done = pass(thread, libc::SYS_membarrier, "iii", args);
    let is_sync = args[0] & 0xffff_ffff == SYNC_CORE && !mutant!("la64_barrier_fetches_nothing");
    if done == 0 && is_sync && thread.process.translator.is_none() {
        thread.process.changes.epoch.advance();
    }
    done
}

pub(super) fn mincore(thread: &mut Thread, args: &Args) -> i64 {
    on_pages(thread, args, (libc::SYS_mincore, "pip"), libc::ENOMEM)
}

pub(super) fn msync(thread: &mut Thread, args: &Args) -> i64 {
    on_pages(thread, args, (libc::SYS_msync, "pii"), libc::ENOMEM)
}

pub(super) fn mbind(thread: &mut Thread, args: &Args) -> i64 {
    on_pages(thread, args, (libc::SYS_mbind, "piipii"), libc::EFAULT)
}

pub(super) fn mlock(thread: &mut Thread, args: &Args) -> i64 {
    on_mapped(thread, args, (libc::SYS_mlock, "pi"), libc::ENOMEM)
}

pub(super) fn mlock2(thread: &mut Thread, args: &Args) -> i64 {
    on_mapped(thread, args, (libc::SYS_mlock2, "pii"), libc::ENOMEM)
}

pub(super) fn munlock(thread: &mut Thread, args: &Args) -> i64 {
    on_mapped(thread, args, (libc::SYS_munlock, "pi"), libc::ENOMEM)
}

/// Locks each mapping by itself: the host's call would count the reservation, and lock the engine
/// and all that it maps later. Later mappings are left alone (`MCL_FUTURE`), and so is memory
/// without access, and the first stack, of which the kernel counts what has been used.
pub(super) fn mlockall(thread: &mut Thread, args: &Args) -> i64 {
    const CURRENT: u64 = 1;
    const FUTURE: u64 = 2;
    const ON_FAULT: u64 = 4;
    const IPC_LOCK: u32 = 14;
    let flags = args[0] & 0xffff_ffff;
    if flags & !(CURRENT | FUTURE | ON_FAULT) != 0 || flags & (CURRENT | FUTURE) == 0 {
        return err(libc::EINVAL);
    }
    if mutant!("la64_engine_is_locked") {
        return pass(thread, libc::SYS_mlockall, "i", args);
    }
    let most = match is_capable(thread, IPC_LOCK) {
        true => u64::MAX,
        false => host_limit(libc::RLIMIT_MEMLOCK as u64)[0],
    };
    let space = lock(&thread.process.space);
    let areas = space.areas().filter(|(_, area)| area.prot != 0 && area.name != STACK);
    let areas: Vec<(u64, u64)> = areas.map(|(start, area)| (start, area.end - start)).collect();
    let len: u64 = areas.iter().map(|area| area.1).sum();
    match flags & CURRENT {
        _ if most == 0 => return err(libc::EPERM),
        0 => return 0,
        _ if len > most => return err(libc::ENOMEM),
        _ => {}
    }
    for (start, len) in areas {
        let on_fault = u64::from(flags & ON_FAULT != 0);
        let list = &mut [Arg::Guest(start), Arg::Int(len), Arg::Int(on_fault)];
        // Pages that cannot be made, as those behind the end of a file, are no error.
        raw::call_now(&thread.cpu.window, libc::SYS_mlock2, list);
    }
    0
}
