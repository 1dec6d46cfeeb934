//! Address space calls.

use super::super::process::Process;
use super::super::raw::{self, Arg};
use super::super::space::{MAP_ANONYMOUS, Move, Request};
use super::super::sync::lock;
use super::super::thread::Thread;
use super::{Args, err};
use std::os::unix::ffi::OsStrExt;

/// Runs `f` on the space, and tells all threads if it changed fixed code.
pub(super) fn with_space(
    process: &Process,
    f: impl FnOnce(&mut super::super::space::Space) -> i64,
) -> i64 {
    let mut space = lock(&process.space);
    let before = process.changes.fixed();
    let result = f(&mut space);
    let changed = process.changes.fixed() != before;
    drop(space);
    if changed {
        process.code_changed();
    }
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

pub(super) fn mprotect(thread: &mut Thread, args: &Args) -> i64 {
    with_space(&thread.process, |s| s.protect(args[0], args[1], args[2] as u32 & 7))
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

/// Advice goes to the host only where it concerns mapped pages: the reservation around them must
/// not change.
pub(super) fn madvise(thread: &mut Thread, args: &Args) -> i64 {
    let [at, len, advice, ..] = *args;
    let covered = {
        let space = lock(&thread.process.space);
        let mut covered = at;
        while let Some((_, area)) = space.area(covered).filter(|_| covered < at.saturating_add(len))
        {
            covered = area.end;
        }
        covered >= at.saturating_add(len)
    };
    if !covered {
        return err(libc::ENOMEM);
    }
    let list = &mut [Arg::Guest(at), Arg::Int(len), Arg::Int(advice)];
    raw::call_now(&thread.cpu.window, libc::SYS_madvise, list)
}
