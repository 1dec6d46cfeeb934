//! What files are: `stat` and its kin. Inside the crate a `struct stat` is that of x86-64 as words;
//! a host with another one is asked by `statx`, which is the same on all of them.

use super::super::raw::{self, Arg};
use super::super::thread::Thread;
use super::files::{AT_CWD, AT_SYMLINK_NOFOLLOW, path_argument};
use super::{Args, err, pass};

/// Words of a `struct stat` of x86-64.
type Stat = [u64; 18];

pub(super) fn statx(thread: &mut Thread, args: &Args) -> i64 {
    let shape = if args[2] & AT_SYMLINK_NOFOLLOW == 0 { "isiip" } else { "iliip" };
    pass(thread, libc::SYS_statx, shape, args)
}

pub(super) fn fstat(thread: &mut Thread, args: &Args) -> i64 {
    store(thread, args[1], of_descriptor(thread, args[0]))
}

pub(super) fn newfstatat(thread: &mut Thread, args: &Args) -> i64 {
    let path = match path_argument(thread, args[1], args[3] & AT_SYMLINK_NOFOLLOW == 0) {
        Ok(path) => path,
        Err(code) => return code,
    };
    let path = if path.is_empty() { Arg::Guest(args[1]) } else { Arg::In(&path) };
    store(thread, args[2], of_path(thread, args[0], path, args[3]))
}

pub(super) fn stat(thread: &mut Thread, args: &Args) -> i64 {
    newfstatat(thread, &[AT_CWD, args[0], args[1], 0, 0, 0])
}

pub(super) fn lstat(thread: &mut Thread, args: &Args) -> i64 {
    newfstatat(thread, &[AT_CWD, args[0], args[1], AT_SYMLINK_NOFOLLOW, 0, 0])
}

/// The guest's `struct stat`.
fn store(thread: &Thread, at: u64, stat: Result<Stat, i64>) -> i64 {
    match stat {
        Ok(words) => {
            let bytes = (thread.process.abi.stat)(&words);
            thread.cpu.window.write(at, &bytes).map_or(err(libc::EFAULT), |()| 0)
        }
        Err(code) => code,
    }
}

#[cfg(target_arch = "x86_64")]
fn words(bytes: &[u8; 144]) -> Stat {
    std::array::from_fn(|n| {
        u64::from_le_bytes(bytes[8 * n..8 * n + 8].try_into().expect("invariant: 8 bytes"))
    })
}

#[cfg(target_arch = "x86_64")]
fn of_descriptor(thread: &Thread, descriptor: u64) -> Result<Stat, i64> {
    let mut bytes = [0; 144];
    let list = &mut [Arg::Int(descriptor), Arg::Out(&mut bytes)];
    match raw::call_now(&thread.cpu.window, libc::SYS_fstat, list) {
        0 => Ok(words(&bytes)),
        code => Err(code),
    }
}

#[cfg(target_arch = "x86_64")]
fn of_path(thread: &Thread, directory: u64, path: Arg<'_>, flags: u64) -> Result<Stat, i64> {
    let mut bytes = [0; 144];
    let list = &mut [Arg::Int(directory), path, Arg::Out(&mut bytes), Arg::Int(flags)];
    match raw::call_now(&thread.cpu.window, libc::SYS_newfstatat, list) {
        0 => Ok(words(&bytes)),
        code => Err(code),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn of_descriptor(thread: &Thread, descriptor: u64) -> Result<Stat, i64> {
    of_path(thread, descriptor, Arg::In(b"\0"), libc::AT_EMPTY_PATH as u64)
}

#[cfg(not(target_arch = "x86_64"))]
fn of_path(thread: &Thread, directory: u64, path: Arg<'_>, flags: u64) -> Result<Stat, i64> {
    let mut bytes = [0; 256];
    let wanted = Arg::Int(libc::STATX_BASIC_STATS.into());
    let list = &mut [Arg::Int(directory), path, Arg::Int(flags), wanted, Arg::Out(&mut bytes)];
    match raw::call_now(&thread.cpu.window, libc::SYS_statx, list) {
        0 => Ok(from_statx(&bytes)),
        code => Err(code),
    }
}

/// The words from a `struct statx`.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn from_statx(bytes: &[u8; 256]) -> Stat {
    let long =
        |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("invariant: 8 bytes"));
    let word = |at: usize| long(at) & 0xffff_ffff;
    // The kernel's new_encode_dev, which is what 32 bits of a device's number have room for.
    let device = |at: usize| {
        let (major, minor) = (word(at), word(at + 4));
        minor & 0xff | major << 8 | (minor & !0xff) << 12
    };
    let (block, links, user, group, mode) =
        (word(4), word(16), word(20), word(24), word(28) & 0xffff);
    let mut stat = [0; 18];
    stat[..9].copy_from_slice(&[
        device(136),
        long(32),
        links,
        mode | user << 32,
        group,
        device(128),
        long(40),
        block,
        long(48),
    ]);
    for (n, at) in [64, 112, 96].into_iter().enumerate() {
        stat[9 + 2 * n] = long(at);
        stat[10 + 2 * n] = word(at + 8);
    }
    stat
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;
    use crate::user::stack::no_window;

    #[test]
    fn a_statx_says_what_a_stat_says() {
        for path in [&b"/\0"[..], b"/dev/null\0", b"/proc/self/exe\0"] {
            let (mut plain, mut extended) = ([0; 144], [0; 256]);
            let (directory, window) = (AT_CWD, no_window());
            let list = &mut [Arg::Int(directory), Arg::In(path), Arg::Out(&mut plain), Arg::Int(0)];
            assert_eq!(raw::call_now(&window, libc::SYS_newfstatat, list), 0);
            let wanted = Arg::Int(libc::STATX_BASIC_STATS.into());
            let list = &mut [
                Arg::Int(directory),
                Arg::In(path),
                Arg::Int(0),
                wanted,
                Arg::Out(&mut extended),
            ];
            assert_eq!(raw::call_now(&window, libc::SYS_statx, list), 0);
            assert_eq!(words(&plain), from_statx(&extended));
        }
    }
}
