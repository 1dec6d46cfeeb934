//! Calls that the kernel of x86-64 has and the kernel's generic table has not, by calls of that
//! table: for hosts whose kernel has no others. A row of [`table`](super::table) says `older`.
//!
//! Invariants
//! - A record of a directory keeps its length, and its type comes to the last byte. Checked by
//!   `records_of_a_directory_are_those_of_the_older_call`.
//!
//! On hosts without the older calls the programs of `scripts/loongarch-host.sh` make them. `select`
//! shows the time that is left, as the kernel does.

use super::super::raw::{self, Arg};
use super::super::thread::Thread;
use super::files::{AT_CWD, AT_SYMLINK_NOFOLLOW, path_argument};
use super::{Args, err, pass};

const AT_REMOVEDIR: u64 = 0x200;
const US_PER_S: u64 = 1_000_000;
const NS_PER_US: u64 = 1000;

/// Passes on a call with fewer arguments than the host's.
fn with<const N: usize>(thread: &mut Thread, number: i64, shape: &str, given: [u64; N]) -> i64 {
    let mut args = [0; 6];
    args[..N].copy_from_slice(&given);
    pass(thread, number, shape, &args)
}

pub(super) fn access(thread: &mut Thread, args: &Args) -> i64 {
    with(thread, libc::SYS_faccessat, "isi", [AT_CWD, args[0], args[1]])
}

pub(super) fn pipe(thread: &mut Thread, args: &Args) -> i64 {
    with(thread, libc::SYS_pipe2, "pi", [args[0], 0])
}

/// Of one descriptor twice it says whether that is open.
pub(super) fn dup2(thread: &mut Thread, args: &Args) -> i64 {
    let [from, to, ..] = *args;
    if from as u32 != to as u32 {
        return with(thread, libc::SYS_dup3, "iii", [from, to, 0]);
    }
    match with(thread, libc::SYS_fcntl, "ii", [from, libc::F_GETFD as u64]) {
        0.. => i64::from(from as u32),
        code => code,
    }
}

/// Its milliseconds are a time in host memory, where the kernel writes what is left of it.
pub(super) fn poll(thread: &mut Thread, args: &Args) -> i64 {
    let (list, count) = (Arg::Guest(args[0]), Arg::Int(args[1]));
    let ms = u64::try_from(args[2] as i32).ok();
    let time = [ms.unwrap_or(0) / 1000, ms.unwrap_or(0) % 1000 * 1_000_000];
    let mut time = bytes(&time);
    let time = if ms.is_some() { Arg::Out(&mut time) } else { Arg::Int(0) };
    let list = &mut [list, count, time, Arg::Int(0), Arg::Int(0)];
    raw::call(&thread.cpu.window, &thread.pending, libc::SYS_ppoll, list)
}

pub(super) fn select(thread: &mut Thread, args: &Args) -> i64 {
    let window = thread.cpu.window;
    let mut time = Vec::new();
    if args[4] != 0 {
        let Some([seconds, us]) = window.load_words(args[4]) else { return err(libc::EFAULT) };
        if (seconds | us) >> 63 != 0 {
            return err(libc::EINVAL);
        }
        time = bytes(&[seconds.saturating_add(us / US_PER_S), us % US_PER_S * NS_PER_US]);
    }
    let limit = if time.is_empty() { Arg::Int(0) } else { Arg::Out(&mut time) };
    let [count, read, write, other, ..] = *args;
    let list = &mut [
        Arg::Int(count),
        Arg::Guest(read),
        Arg::Guest(write),
        Arg::Guest(other),
        limit,
        Arg::Int(0),
    ];
    let done = raw::call(&window, &thread.pending, libc::SYS_pselect6, list);
    if let [seconds, ns] = words(&time)[..] {
        // It was read from there; should it be read-only, the answer is the same.
        let _ = window.store_words(args[4], [seconds, ns / NS_PER_US]);
    }
    done
}

pub(super) fn pause(thread: &mut Thread, _: &Args) -> i64 {
    with(thread, libc::SYS_ppoll, "iiiii", [0; 5])
}

/// The seconds that were left of an earlier alarm, rounded, and never to 0.
pub(super) fn alarm(thread: &mut Thread, args: &Args) -> i64 {
    let new = bytes(&[0, 0, u64::from(args[0] as u32), 0]);
    let mut old = bytes(&[0; 4]);
    let list = &mut [Arg::Int(libc::ITIMER_REAL as u64), Arg::In(&new), Arg::Out(&mut old)];
    let done = raw::call_now(&thread.cpu.window, libc::SYS_setitimer, list);
    let [_, _, seconds, us] = words(&old)[..] else { return done };
    let up = us >= US_PER_S / 2 || seconds == 0 && us > 0;
    if done < 0 { done } else { (seconds + u64::from(up)) as i64 }
}

pub(super) fn getdents(thread: &mut Thread, args: &Args) -> i64 {
    const LEN_MAX: u64 = 1 << 20;
    let len = u64::from(args[2] as u32).min(LEN_MAX);
    let mut records = vec![0; len as usize];
    let list = &mut [Arg::Int(args[0]), Arg::Out(&mut records), Arg::Int(len)];
    let done = raw::call(&thread.cpu.window, &thread.pending, libc::SYS_getdents64, list);
    let Ok(len) = usize::try_from(done) else { return done };
    older_records(&mut records[..len]);
    thread.cpu.window.write(args[1], &records[..len]).map_or(err(libc::EFAULT), |()| done)
}

/// Records of `getdents64` become those of `getdents`, which are as long: the type comes from
/// before the name to the last byte.
fn older_records(records: &mut [u8]) {
    const LEN: usize = 16;
    const TYPE: usize = 18;
    let mut rest = records;
    while rest.len() > TYPE {
        let len = usize::from(u16::from_le_bytes([rest[LEN], rest[LEN + 1]]));
        let Some((record, behind)) = rest.split_at_mut_checked(len.max(TYPE + 1)) else { return };
        record[TYPE..].rotate_left(1);
        rest = behind;
    }
}

pub(super) fn rename(thread: &mut Thread, args: &Args) -> i64 {
    with(thread, libc::SYS_renameat2, "ilili", [AT_CWD, args[0], AT_CWD, args[1], 0])
}

pub(super) fn renameat(thread: &mut Thread, args: &Args) -> i64 {
    let [from_dir, from, to_dir, to, ..] = *args;
    with(thread, libc::SYS_renameat2, "ilili", [from_dir, from, to_dir, to, 0])
}

pub(super) fn mkdir(thread: &mut Thread, args: &Args) -> i64 {
    with(thread, libc::SYS_mkdirat, "isi", [AT_CWD, args[0], args[1]])
}

pub(super) fn rmdir(thread: &mut Thread, args: &Args) -> i64 {
    with(thread, libc::SYS_unlinkat, "ili", [AT_CWD, args[0], AT_REMOVEDIR])
}

pub(super) fn creat(thread: &mut Thread, args: &Args) -> i64 {
    const HOW: u64 = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64;
    with(thread, libc::SYS_openat, "isii", [AT_CWD, args[0], HOW, args[1]])
}

pub(super) fn link(thread: &mut Thread, args: &Args) -> i64 {
    with(thread, libc::SYS_linkat, "ilili", [AT_CWD, args[0], AT_CWD, args[1], 0])
}

pub(super) fn unlink(thread: &mut Thread, args: &Args) -> i64 {
    with(thread, libc::SYS_unlinkat, "ili", [AT_CWD, args[0], 0])
}

pub(super) fn symlink(thread: &mut Thread, args: &Args) -> i64 {
    with(thread, libc::SYS_symlinkat, "pil", [args[0], AT_CWD, args[1]])
}

pub(super) fn chmod(thread: &mut Thread, args: &Args) -> i64 {
    with(thread, libc::SYS_fchmodat, "isi", [AT_CWD, args[0], args[1]])
}

pub(super) fn chown(thread: &mut Thread, args: &Args) -> i64 {
    with(thread, libc::SYS_fchownat, "isiii", [AT_CWD, args[0], args[1], args[2], 0])
}

pub(super) fn lchown(thread: &mut Thread, args: &Args) -> i64 {
    let given = [AT_CWD, args[0], args[1], args[2], AT_SYMLINK_NOFOLLOW];
    with(thread, libc::SYS_fchownat, "iliii", given)
}

pub(super) fn mknod(thread: &mut Thread, args: &Args) -> i64 {
    with(thread, libc::SYS_mknodat, "isii", [AT_CWD, args[0], args[1], args[2]])
}

pub(super) fn getpgrp(thread: &mut Thread, _: &Args) -> i64 {
    with(thread, libc::SYS_getpgid, "i", [0])
}

pub(super) fn utime(thread: &mut Thread, args: &Args) -> i64 {
    times(thread, [AT_CWD, args[0], args[1]], |window, at| {
        let [accessed, modified] = window.load_words(at).ok_or(libc::EFAULT)?;
        Ok([accessed, 0, modified, 0])
    })
}

pub(super) fn utimes(thread: &mut Thread, args: &Args) -> i64 {
    futimesat(thread, &[AT_CWD, args[0], args[1], 0, 0, 0])
}

pub(super) fn futimesat(thread: &mut Thread, args: &Args) -> i64 {
    times(thread, [args[0], args[1], args[2]], |window, at| {
        let [accessed, accessed_us, modified, modified_us] =
            window.load_words(at).ok_or(libc::EFAULT)?;
        if accessed_us >= US_PER_S || modified_us >= US_PER_S {
            return Err(libc::EINVAL);
        }
        Ok([accessed, accessed_us * NS_PER_US, modified, modified_us * NS_PER_US])
    })
}

/// Sets a file's times, which `read` finds at an address; without one it is now.
fn times(
    thread: &mut Thread,
    [directory, path, at]: [u64; 3],
    read: impl Fn(&littoral_la64::memory::Window, u64) -> Result<[u64; 4], i32>,
) -> i64 {
    let window = thread.cpu.window;
    let host = match path_argument(thread, path, true) {
        Ok(host) => host,
        Err(code) => return code,
    };
    let times = match at {
        0 => Vec::new(),
        at => match read(&window, at) {
            Ok(times) => bytes(&times),
            Err(code) => return err(code),
        },
    };
    let list = &mut [
        Arg::Int(directory),
        if host.is_empty() { Arg::Guest(path) } else { Arg::In(&host) },
        if times.is_empty() { Arg::Int(0) } else { Arg::In(&times) },
        Arg::Int(0),
    ];
    raw::call(&window, &thread.pending, libc::SYS_utimensat, list)
}

pub(super) fn time(thread: &mut Thread, args: &Args) -> i64 {
    let mut now = bytes(&[0; 2]);
    let list = &mut [Arg::Int(libc::CLOCK_REALTIME as u64), Arg::Out(&mut now)];
    let done = raw::call_now(&thread.cpu.window, libc::SYS_clock_gettime, list);
    let seconds = words(&now)[0];
    match args[0] {
        _ if done < 0 => done,
        0 => seconds as i64,
        at => thread.cpu.window.store(at, seconds).map_or(err(libc::EFAULT), |()| seconds as i64),
    }
}

pub(super) fn epoll_create(thread: &mut Thread, args: &Args) -> i64 {
    match args[0] as i32 {
        1.. => with(thread, libc::SYS_epoll_create1, "i", [0]),
        _ => err(libc::EINVAL),
    }
}

pub(super) fn inotify_init(thread: &mut Thread, _: &Args) -> i64 {
    with(thread, libc::SYS_inotify_init1, "i", [0])
}

pub(super) fn signalfd(thread: &mut Thread, args: &Args) -> i64 {
    with(thread, libc::SYS_signalfd4, "imni", [args[0], args[1], args[2], 0])
}

pub(super) fn eventfd(thread: &mut Thread, args: &Args) -> i64 {
    with(thread, libc::SYS_eventfd2, "ii", [args[0], 0])
}

/// Calls of the generic table that the C library's list of this host lacks.
pub(super) fn fchmodat2(thread: &mut Thread, args: &Args) -> i64 {
    pass(thread, 452, "ifii", args)
}

pub(super) fn memfd_secret(thread: &mut Thread, args: &Args) -> i64 {
    pass(thread, 447, "i", args)
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("invariant: eight bytes"));
    bytes.chunks_exact(8).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_a_directory_are_those_of_the_older_call() {
        let record = |name: &[u8], kind: u8| {
            let len = (19 + name.len() + 1).next_multiple_of(8);
            let mut record = vec![7; 16];
            record.extend((len as u16).to_le_bytes());
            record.push(kind);
            record.extend(name);
            record.resize(len, 0);
            record
        };
        let mut records = [record(b"a", 4), record(b"abcd", 8)].concat();
        let len = records.len();
        older_records(&mut records);
        assert_eq!(&records[18..21], b"a\0\0");
        assert_eq!((records[23], &records[42..47], records[len - 1]), (4, &b"abcd\0"[..], 8));
        older_records(&mut []);
    }
}
