//! Files, descriptors and sockets: what needs paths, vectors of pointers, or other structures.

use super::super::abi::numbers::{Pair, flags_to_host, flags_without_place, to_guest, to_host};
use super::super::process::{Process, as_path};
use super::super::raw::{self, Arg};
use super::super::sync::lock;
use super::super::thread::Thread;
use super::{Args, SET_LEN, err, pass, signal_set};
use littoral_base::mutant;
use std::os::unix::ffi::OsStrExt;

const PATH_MAX: u64 = 4096;
const IOV_MAX: u64 = 1024;
/// The most bytes that the kernel transfers by one call.
const TRANSFER_MAX: u64 = 0x7fff_f000;
/// Where addresses of user space end. Buffers behind it are refused before anything is transferred.
const USER_END: u64 = 1 << 47;
pub(super) const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
pub(super) const AT_CWD: u64 = libc::AT_FDCWD as u64;

/// A guest string.
pub(super) fn string(thread: &Thread, at: u64) -> Result<Vec<u8>, i64> {
    let mut bytes = Vec::new();
    for n in 0..PATH_MAX {
        match thread.cpu.window.load::<u8>(at.wrapping_add(n)) {
            None => return Err(err(libc::EFAULT)),
            Some(0) => return Ok(bytes),
            Some(byte) => bytes.push(byte),
        }
    }
    Err(err(libc::ENAMETOOLONG))
}

/// The host path of a guest path argument with its terminator; empty where the guest's own bytes
/// serve (relative paths, null pointers).
pub(super) fn path_argument(thread: &Thread, at: u64, follow: bool) -> Result<Vec<u8>, i64> {
    if at == 0 {
        return Ok(Vec::new());
    }
    let path = string(thread, at)?;
    if !path.starts_with(b"/") {
        return Ok(Vec::new());
    }
    let paths = &thread.process.paths;
    let host = match proc_self(&path) {
        Some(b"exe") if follow => paths.resolve(&thread.process.program),
        _ if follow => paths.resolve(as_path(&path)),
        _ => paths.resolve_link(as_path(&path)),
    };
    Ok([host.as_os_str().as_bytes(), b"\0"].concat())
}

/// What follows `/proc/self/` (or our own pid) in a path; `/proc/thread-self/` where its files are
/// those of the process.
pub(super) fn proc_self(path: &[u8]) -> Option<&[u8]> {
    let rest = path.strip_prefix(b"/proc/")?;
    if let Some(rest) = rest.strip_prefix(b"thread-self/")
        && !mutant!("la64_threads_have_the_engines_maps")
    {
        return matches!(rest, b"exe" | b"maps" | b"auxv" | b"limits" | b"cmdline").then_some(rest);
    }
    let own = std::process::id().to_string();
    let rest = rest.strip_prefix(b"self").or_else(|| rest.strip_prefix(own.as_bytes()))?;
    rest.strip_prefix(b"/")
}

/// Whether a path names the memory of this process as a file. At a guest's addresses it would have
/// the engine's memory.
fn is_own_memory(path: &[u8]) -> bool {
    let rest = proc_self(path).or_else(|| path.strip_prefix(b"/proc/thread-self/"));
    let is_memory =
        |rest: &[u8]| rest == b"mem" || rest.starts_with(b"task/") && rest.ends_with(b"/mem");
    rest.is_some_and(is_memory) && !mutant!("la64_engines_memory_is_a_file")
}

pub(super) fn openat(thread: &mut Thread, args: &Args) -> i64 {
    let path = match string(thread, args[1]) {
        Ok(path) if is_own_memory(&path) => return err(libc::EACCES),
        Ok(path) => path,
        Err(code) => return code,
    };
    let shape = if opens_target(args[2]) { "isii" } else { "ilii" };
    match synthetic(&thread.process, &path) {
        Some(text) => memory_file(thread, &text),
        None => pass(thread, libc::SYS_openat, shape, args),
    }
}

/// Whether flags let a link in the last place be followed. It is not where a file is to be made.
fn opens_target(flags: u64) -> bool {
    const NOFOLLOW: u64 = libc::O_NOFOLLOW as u64;
    const NEW: u64 = (libc::O_CREAT | libc::O_EXCL) as u64;
    flags & NOFOLLOW == 0 && flags & NEW != NEW
}

/// As `openat`, with the rules of resolution that `open_how` names: those that confine the path to
/// the directory apply to the guest's own path, which then is not looked up in the sysroot. Flags
/// that mean nothing are refused.
pub(super) fn openat2(thread: &mut Thread, args: &Args) -> i64 {
    const HOW_LEN: u64 = 24;
    const HOW_LEN_MAX: u64 = 4096;
    const CONFINED: u64 = 0x08 | 0x10;
    let window = thread.cpu.window;
    let how = match args[3] {
        HOW_LEN..=HOW_LEN_MAX => window.load_words::<3>(args[2]),
        0..HOW_LEN => return err(libc::EINVAL),
        _ => return err(libc::E2BIG),
    };
    let Some([flags, _, resolve]) = how else { return err(libc::EFAULT) };
    let mut how = vec![0; args[3] as usize];
    if window.read(args[2], &mut how).is_none() {
        return err(libc::EFAULT);
    }
    let pairs = thread.process.abi.numbers.open;
    if flags_without_place(pairs, flags) != 0 {
        return err(libc::EINVAL);
    }
    let flags = flags_to_host(pairs, flags);
    how[..8].copy_from_slice(&flags.to_le_bytes());
    let own = string(thread, args[1]);
    if let Some(text) = own.as_ref().ok().and_then(|path| synthetic(&thread.process, path)) {
        return memory_file(thread, &text);
    }
    let path = match own {
        Ok(own) if is_own_memory(&own) => Err(err(libc::EACCES)),
        Ok(_) if resolve & CONFINED != 0 => Ok(Vec::new()),
        own => own.and_then(|_| path_argument(thread, args[1], opens_target(flags))),
    };
    let path = match path {
        Ok(path) => path,
        Err(code) => return code,
    };
    let path = if path.is_empty() { Arg::Guest(args[1]) } else { Arg::In(&path) };
    let list = &mut [Arg::Int(args[0]), path, Arg::In(&how), Arg::Int(args[3])];
    raw::call(&window, &thread.pending, libc::SYS_openat2, list)
}

/// Files of /proc that must describe the guest.
fn synthetic(process: &Process, path: &[u8]) -> Option<Vec<u8>> {
    if path == b"/proc/cpuinfo" {
        return Some(cpuinfo(process).into_bytes());
    }
    match proc_self(path)? {
        b"auxv" => Some(process.auxv.clone()),
        b"maps" => Some(lock(&process.space).maps().into_bytes()),
        b"limits" => {
            let host = std::fs::read_to_string("/proc/self/limits").ok()?;
            let limits = lock(&process.space).limits;
            Some(limits.text(&host).into_bytes())
        }
        b"stat" => {
            let host = std::fs::read_to_string("/proc/self/stat").ok()?;
            Some(with_stack(&host, process.stack_start)?.into_bytes())
        }
        b"cmdline" => Some(process.argv.iter().flat_map(|a| [a, &b"\0"[..]].concat()).collect()),
        _ => None,
    }
}

/// The text of /proc/self/stat with the place where the first stack began, from which collectors of
/// garbage look for pointers; `None` for a text that lacks it.
fn with_stack(host: &str, start: u64) -> Option<String> {
    // The first two are a number and a name in parentheses, which may hold anything.
    const FIELD: usize = 28 - 3;
    let (head, fields) = host.rsplit_once(") ")?;
    let mut fields: Vec<String> = fields.split(' ').map(String::from).collect();
    *fields.get_mut(FIELD)? = start.to_string();
    Some(format!("{head}) {}", fields.join(" ")))
}

fn cpuinfo(process: &Process) -> String {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    (process.abi.cpuinfo)(process.features, count)
}

/// A descriptor that reads `text`.
fn memory_file(thread: &Thread, text: &[u8]) -> i64 {
    let args = &mut [Arg::In(b"la64\0"), Arg::Int(1)];
    let fd = raw::call_now(&thread.cpu.window, libc::SYS_memfd_create, args);
    if fd < 0 {
        return fd;
    }
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let args = &mut [
            Arg::Int(fd as u64),
            Arg::In(rest),
            Arg::Int(rest.len() as u64),
            Arg::Int(at as u64),
        ];
        match raw::call_now(&thread.cpu.window, libc::SYS_pwrite64, args) {
            n if n > 0 => at += n as usize,
            n => return n,
        }
    }
    fd
}

pub(super) fn readlinkat(thread: &mut Thread, args: &Args) -> i64 {
    let path = match string(thread, args[1]) {
        Ok(path) => path,
        Err(code) => return code,
    };
    let target = match proc_self(&path) {
        Some(b"exe") => thread.process.program.clone(),
        Some(rest) if rest.starts_with(b"fd/") => match std::fs::read_link(as_path(&path)) {
            Ok(host) => thread.process.paths.guest(&host),
            Err(e) => return err(e.raw_os_error().unwrap_or(libc::EINVAL)),
        },
        _ => return pass(thread, libc::SYS_readlinkat, "ilpi", args),
    };
    let bytes = target.as_os_str().as_bytes();
    let len = bytes.len().min(args[3] as usize);
    match thread.cpu.window.write(args[2], &bytes[..len]) {
        Some(()) => len as i64,
        None => err(libc::EFAULT),
    }
}

pub(super) fn open(thread: &mut Thread, args: &Args) -> i64 {
    openat(thread, &[AT_CWD, args[0], args[1], args[2], 0, 0])
}

pub(super) fn readlink(thread: &mut Thread, args: &Args) -> i64 {
    readlinkat(thread, &[AT_CWD, args[0], args[1], args[2], 0, 0])
}

pub(super) fn fcntl(thread: &mut Thread, args: &Args) -> i64 {
    let pointer = matches!(args[1], 5..=7 | 15..=17 | 36..=38 | 1035..=1038);
    pass(thread, libc::SYS_fcntl, if pointer { "iip" } else { "iii" }, args)
}

pub(super) fn ioctl(thread: &mut Thread, args: &Args) -> i64 {
    const SIOCGIFCONF: u64 = 0x8912;
    if args[1] == SIOCGIFCONF {
        return interfaces(thread, args);
    }
    let number = takes_number(args[1]) && !mutant!("la64_ioctl_numbers_are_addresses");
    pass(thread, libc::SYS_ioctl, if number { "iii" } else { "iip" }, args)
}

/// Requests of `ioctl` whose argument is a number, and no address.
const NUMBERS: &[std::ops::RangeInclusive<u64>] = &[
    // Terminals: TCSBRK, TCXONC, TCFLSH; TIOCSCTTY; TCSBRKP; TIOCGPTPEER; TIOCMIWAIT.
    0x5409..=0x540b,
    0x540e..=0x540e,
    0x5425..=0x5425,
    0x5441..=0x5441,
    0x545c..=0x545c,
    // Consoles: KIOCSOUND, KDMKTONE; KDSETLED; KDSETMODE; KDSKBMODE; KDSIGACCEPT; KDSKBMETA;
    // KDSKBLED; VT_RELDISP to VT_DISALLOCATE.
    0x4b2f..=0x4b30,
    0x4b32..=0x4b32,
    0x4b3a..=0x4b3a,
    0x4b45..=0x4b45,
    0x4b4e..=0x4b4e,
    0x4b63..=0x4b63,
    0x4b65..=0x4b65,
    0x5605..=0x5608,
    // Loop devices: LOOP_SET_FD; LOOP_CHANGE_FD; LOOP_SET_DIRECT_IO, LOOP_SET_BLOCK_SIZE;
    // LOOP_CTL_ADD, LOOP_CTL_REMOVE.
    0x4c00..=0x4c00,
    0x4c06..=0x4c06,
    0x4c08..=0x4c09,
    0x4c80..=0x4c81,
    // BLKRASET; BLKFRASET.
    0x1262..=0x1262,
    0x1264..=0x1264,
    // Drives of discs: CDROMEJECT_SW; options, speed, disc; changes, state; CDROM_LOCKDOOR.
    0x530f..=0x530f,
    0x5320..=0x5323,
    0x5325..=0x5326,
    0x5329..=0x5329,
    // Tunnels: TUNSETNOCSUM, TUNSETDEBUG; TUNSETPERSIST to TUNSETGROUP; TUNSETOFFLOAD.
    0x4004_54c8..=0x4004_54c9,
    0x4004_54cb..=0x4004_54ce,
    0x4004_54d0..=0x4004_54d0,
    // A grab of an input device (EVIOCGRAB); FICLONE.
    0x4004_4590..=0x4004_4590,
    0x4004_9409..=0x4004_9409,
];

/// Whether the argument of a request is a number, of which the kernel has 32 bits.
fn takes_number(request: u64) -> bool {
    NUMBERS.iter().any(|range| range.contains(&(request & 0xffff_ffff)))
}

/// SIOCGIFCONF: a length, and the address of a buffer.
fn interfaces(thread: &mut Thread, args: &Args) -> i64 {
    let window = thread.cpu.window;
    let Some([len, buffer]) = window.load_words::<2>(args[2]) else { return err(libc::EFAULT) };
    let host = if buffer == 0 { Some(0) } else { window.host(buffer, 1).map(|p| p as u64) };
    let Some(host) = host else { return err(libc::EFAULT) };
    let mut bytes = [len.to_le_bytes(), host.to_le_bytes()].concat();
    let list = &mut [Arg::Int(args[0]), Arg::Int(args[1]), Arg::Out(&mut bytes)];
    let result = raw::call_now(&window, libc::SYS_ioctl, list);
    let len = u32::from_le_bytes(bytes[..4].try_into().expect("invariant: four bytes"));
    window.store(args[2], len).map_or(err(libc::EFAULT), |()| result)
}

/// A guest iovec array with host addresses. What lies where no mapping can be has the address of a
/// page that never has one: the kernel transfers what comes before it.
fn vectors(thread: &Thread, at: u64, count: u64) -> Result<Vec<u8>, i64> {
    if count > IOV_MAX {
        return Err(err(libc::EINVAL));
    }
    let window = thread.cpu.window;
    let guest_end = lock(&thread.process.space).end();
    let nowhere = window.host(guest_end - raw::GUARD, 1).ok_or(err(libc::EFAULT))? as u64;
    let mut bytes = Vec::with_capacity(16 * count as usize);
    for n in 0..count {
        let pair = window.load_words::<2>(at.wrapping_add(16 * n));
        let [base, len] = pair.ok_or(err(libc::EFAULT))?;
        // A negative length is refused by the kernel, whatever the address.
        let is_negative = (len as i64) < 0;
        let is_address = is_negative || base.checked_add(len).is_some_and(|end| end <= USER_END);
        let host = match window.host(base, 1).filter(|_| base < guest_end) {
            _ if len == 0 => 0,
            _ if !is_address => return Err(err(libc::EFAULT)),
            None if mutant!("la64_a_bad_buffer_fails_all") => return Err(err(libc::EFAULT)),
            host => host.map_or(nowhere, |p| p as u64),
        };
        // No more is transferred by one call, and more may lead behind the host's addresses.
        let len = if is_negative { len } else { len.min(TRANSFER_MAX) };
        bytes.extend(host.to_le_bytes());
        bytes.extend(len.to_le_bytes());
    }
    Ok(bytes)
}

fn vectored(thread: &mut Thread, number: i64, args: &Args) -> i64 {
    let list = match vectors(thread, args[1], args[2]) {
        Ok(list) => list,
        Err(code) => return code,
    };
    let list = &mut [
        Arg::Int(args[0]),
        Arg::In(&list),
        Arg::Int(args[2]),
        Arg::Int(args[3]),
        Arg::Int(args[4]),
        Arg::Int(args[5]),
    ];
    raw::call(&thread.cpu.window, &thread.pending, number, list)
}

pub(super) fn readv(thread: &mut Thread, args: &Args) -> i64 {
    vectored(thread, libc::SYS_readv, args)
}

pub(super) fn writev(thread: &mut Thread, args: &Args) -> i64 {
    vectored(thread, libc::SYS_writev, args)
}

pub(super) fn preadv(thread: &mut Thread, args: &Args) -> i64 {
    vectored(thread, libc::SYS_preadv, args)
}

pub(super) fn pwritev(thread: &mut Thread, args: &Args) -> i64 {
    vectored(thread, libc::SYS_pwritev, args)
}

pub(super) fn preadv2(thread: &mut Thread, args: &Args) -> i64 {
    vectored(thread, libc::SYS_preadv2, args)
}

pub(super) fn pwritev2(thread: &mut Thread, args: &Args) -> i64 {
    vectored(thread, libc::SYS_pwritev2, args)
}

pub(super) fn vmsplice(thread: &mut Thread, args: &Args) -> i64 {
    vectored(thread, libc::SYS_vmsplice, args)
}

/// process_vm_readv and process_vm_writev, for the own process only: where another guest's window
/// lies is not known here.
fn between_processes(thread: &mut Thread, number: i64, args: &Args) -> i64 {
    let [pid, local, local_count, remote, remote_count, flags] = *args;
    if pid != u64::from(std::process::id()) {
        return err(libc::EPERM);
    }
    let lists = vectors(thread, local, local_count)
        .and_then(|local| Ok((local, vectors(thread, remote, remote_count)?)));
    let (local, remote) = match lists {
        Ok(lists) => lists,
        Err(code) => return code,
    };
    let list = &mut [
        Arg::Int(pid),
        Arg::In(&local),
        Arg::Int(local_count),
        Arg::In(&remote),
        Arg::Int(remote_count),
        Arg::Int(flags),
    ];
    raw::call(&thread.cpu.window, &thread.pending, number, list)
}

pub(super) fn process_vm_readv(thread: &mut Thread, args: &Args) -> i64 {
    between_processes(thread, libc::SYS_process_vm_readv, args)
}

pub(super) fn process_vm_writev(thread: &mut Thread, args: &Args) -> i64 {
    between_processes(thread, libc::SYS_process_vm_writev, args)
}

/// The last argument is an address for one kind of comparison.
pub(super) fn kcmp(thread: &mut Thread, args: &Args) -> i64 {
    const EPOLL_TARGET: u64 = 7;
    let shape = if args[2] == EPOLL_TARGET { "iiiip" } else { "iiiii" };
    pass(thread, libc::SYS_kcmp, shape, args)
}

/// A filter is a length and an address.
pub(super) fn setsockopt(thread: &mut Thread, args: &Args) -> i64 {
    const ATTACH_FILTER: u64 = libc::SO_ATTACH_FILTER as u64;
    const ATTACH_REUSEPORT: u64 = libc::SO_ATTACH_REUSEPORT_CBPF as u64;
    let is_filter = [ATTACH_FILTER, ATTACH_REUSEPORT].contains(&args[2]);
    if args[1] != libc::SOL_SOCKET as u64 || !is_filter || args[4] < 16 {
        return pass(thread, libc::SYS_setsockopt, "iiipi", args);
    }
    let window = thread.cpu.window;
    let Some([count, code]) = window.load_words::<2>(args[3]) else { return err(libc::EFAULT) };
    let Some(code) = window.host(code, 8 * (count & 0xffff)) else { return err(libc::EFAULT) };
    let mut filter = count.to_le_bytes().to_vec();
    filter.extend((code as u64).to_le_bytes());
    let list = &mut [
        Arg::Int(args[0]),
        Arg::Int(args[1]),
        Arg::Int(args[2]),
        Arg::In(&filter),
        Arg::Int(filter.len() as u64),
    ];
    raw::call_now(&window, libc::SYS_setsockopt, list)
}

/// The most bytes of control messages that are passed on.
const CONTROL_MAX: u64 = 1 << 20;

/// Turns the levels of the messages in a control buffer.
fn turn_levels(control: &mut [u8], turn: impl Fn(u64) -> u64) {
    const HEAD_LEN: usize = 16;
    let mut at = 0;
    while let Some(head) = control.get_mut(at..).and_then(|rest| rest.get_mut(..HEAD_LEN)) {
        let len = u64::from_le_bytes(head[..8].try_into().expect("invariant: eight bytes"));
        let level = u32::from_le_bytes(head[8..12].try_into().expect("invariant: four bytes"));
        if len < HEAD_LEN as u64 {
            return;
        }
        head[8..12].copy_from_slice(&(turn(level.into()) as u32).to_le_bytes());
        at = at.saturating_add(usize::try_from(len).unwrap_or(usize::MAX)).saturating_add(7) & !7;
    }
}

/// A guest's control buffer with the host's levels, empty if the guest's are the same: then the
/// buffer itself is passed on.
fn control_messages(
    thread: &Thread,
    levels: &[Pair],
    (at, len): (u64, u64),
    receives: bool,
) -> Result<Vec<u8>, i64> {
    if levels.is_empty() || at == 0 || mutant!("mips64_control_levels_stay") {
        return Ok(Vec::new());
    }
    if len > CONTROL_MAX && !receives {
        return Err(err(libc::ENOBUFS));
    }
    let mut control = vec![0; len.min(CONTROL_MAX) as usize];
    thread.cpu.window.read(at, &mut control).ok_or(err(libc::EFAULT))?;
    if !receives {
        turn_levels(&mut control, |level| to_host(levels, level));
    }
    Ok(control)
}

/// sendmsg or recvmsg: the header's name, vectors and control buffer are translated in a copy; what
/// the kernel writes back into the header of a message that came is copied back.
fn message(thread: &mut Thread, number: i64, args: &Args) -> i64 {
    let Some(mut header) = thread.cpu.window.load_words::<7>(args[1]) else {
        return err(libc::EFAULT);
    };
    if header[3] > IOV_MAX {
        return err(libc::EMSGSIZE);
    }
    let list = match vectors(thread, header[2], header[3]) {
        Ok(list) => list,
        Err(code) => return code,
    };
    let guest = header;
    let window = thread.cpu.window;
    let host = |at: u64| if at == 0 { Some(0) } else { window.host(at, 1).map(|p| p as u64) };
    let (Some(name), Some(control)) = (host(header[0]), host(header[4])) else {
        return err(libc::EFAULT);
    };
    (header[0], header[2], header[4]) = (name, list.as_ptr() as u64, control);
    let (levels, receives) = (thread.process.abi.numbers.levels, number == libc::SYS_recvmsg);
    let mut own = match control_messages(thread, levels, (guest[4], guest[5]), receives) {
        Ok(own) => own,
        Err(code) => return code,
    };
    if !own.is_empty() {
        (header[4], header[5]) = (own.as_mut_ptr() as u64, own.len() as u64);
    }
    let mut bytes: Vec<u8> = header.iter().flat_map(|w| w.to_le_bytes()).collect();
    let call = &mut [Arg::Int(args[0]), Arg::Out(&mut bytes), Arg::Int(args[2])];
    let result = raw::call(&window, &thread.pending, number, call);
    let back = |n: usize| {
        u64::from_le_bytes(bytes[8 * n..8 * n + 8].try_into().expect("invariant: 8 bytes"))
    };
    if !receives || result < 0 {
        // Nothing was written, so the header may be where the guest cannot write.
        return result;
    }
    let words = [guest[0], back(1), guest[2], guest[3], guest[4], back(5), back(6)];
    let mut written = window.store_words(args[1], words);
    if !own.is_empty() {
        own.truncate(back(5) as usize);
        turn_levels(&mut own, |level| to_guest(levels, level));
        written = written.and_then(|()| window.write(guest[4], &own));
    }
    written.map_or(err(libc::EFAULT), |()| result)
}

pub(super) fn sendmsg(thread: &mut Thread, args: &Args) -> i64 {
    message(thread, libc::SYS_sendmsg, args)
}

pub(super) fn recvmsg(thread: &mut Thread, args: &Args) -> i64 {
    message(thread, libc::SYS_recvmsg, args)
}

/// Bytes of a header with the length of its message behind it.
const MESSAGE_LEN: u64 = 64;
const LENGTH_AT: u64 = 56;

/// Several messages, one call each: how many were done, or the error of the first. `flags` are
/// those of message `n`; `enough` says after each whether to stop.
fn messages(
    thread: &mut Thread,
    number: i64,
    args: &Args,
    flags: impl Fn(u64) -> u64,
    enough: impl Fn() -> bool,
) -> i64 {
    let count = args[2].min(IOV_MAX);
    for n in 0..count {
        let at = args[1].wrapping_add(MESSAGE_LEN * n);
        let one = [args[0], at, flags(n), 0, 0, 0];
        let done = message(thread, number, &one);
        if done < 0 {
            // An error after the first message is met again by the next call.
            return if n == 0 { done } else { n as i64 };
        }
        if thread.cpu.window.store(at + LENGTH_AT, done as u32).is_none() {
            return if n == 0 { err(libc::EFAULT) } else { n as i64 };
        }
        if enough() {
            return n as i64 + 1;
        }
    }
    count as i64
}

pub(super) fn sendmmsg(thread: &mut Thread, args: &Args) -> i64 {
    messages(thread, libc::SYS_sendmsg, args, |_| args[3], || false)
}

/// The timeout is looked at after each message, as the kernel does.
pub(super) fn recvmmsg(thread: &mut Thread, args: &Args) -> i64 {
    const WAIT_FOR_ONE: u64 = libc::MSG_WAITFORONE as u64;
    const DONT_WAIT: u64 = libc::MSG_DONTWAIT as u64;
    let limit = match args[4] {
        0 => None,
        at => match thread.cpu.window.load_words::<2>(at) {
            Some([seconds, ns]) => Some(seconds.saturating_mul(1_000_000_000).saturating_add(ns)),
            None => return err(libc::EFAULT),
        },
    };
    let end = limit.map(|ns| raw::monotonic_ns().saturating_add(ns));
    let later = if args[3] & WAIT_FOR_ONE != 0 { DONT_WAIT } else { 0 };
    let flags = |n: u64| args[3] & !WAIT_FOR_ONE | if n > 0 { later } else { 0 };
    let enough = || end.is_some_and(|end| raw::monotonic_ns() >= end);
    let done = messages(thread, libc::SYS_recvmsg, args, flags, enough);
    if let Some(end) = end.filter(|_| done >= 0) {
        let left = end.saturating_sub(raw::monotonic_ns());
        // It was read from there; should it be read-only, the messages have come all the same.
        let _ =
            thread.cpu.window.store_words(args[4], [left / 1_000_000_000, left % 1_000_000_000]);
    }
    done
}

/// A layout of `struct epoll_event`, whose first four bytes are the events.
pub(super) struct EventLayout {
    len: usize,
    data_at: usize,
}

/// That of x86-64.
pub(super) const PACKED: EventLayout = EventLayout { len: 12, data_at: 4 };
/// That of all other architectures: padding comes before the data.
const ALIGNED: EventLayout = EventLayout { len: 16, data_at: 8 };
const HOST: EventLayout = if cfg!(target_arch = "x86_64") { PACKED } else { ALIGNED };

impl EventLayout {
    /// An event of this layout as another has it.
    fn turned(&self, event: &[u8], to: &EventLayout) -> Vec<u8> {
        let mut turned = vec![0; to.len];
        turned[..4].copy_from_slice(&event[..4]);
        turned[to.data_at..].copy_from_slice(&event[self.data_at..]);
        turned
    }
}

pub(super) fn epoll_ctl(thread: &mut Thread, args: &Args) -> i64 {
    epoll_ctl_of(thread, args, &ALIGNED)
}

/// epoll_ctl by a guest whose events have this layout. All operations but a removal read one.
pub(super) fn epoll_ctl_of(thread: &mut Thread, args: &Args, guest: &EventLayout) -> i64 {
    let mut event = vec![0; guest.len];
    let is_removal = args[1] as i32 == libc::EPOLL_CTL_DEL;
    if !is_removal && thread.cpu.window.read(args[3], &mut event).is_none() {
        return err(libc::EFAULT);
    }
    let event = guest.turned(&event, &HOST);
    let list = &mut [Arg::Int(args[0]), Arg::Int(args[1]), Arg::Int(args[2]), Arg::In(&event)];
    raw::call_now(&thread.cpu.window, libc::SYS_epoll_ctl, list)
}

/// As `epoll_pwait` without a set of signals.
pub(super) fn epoll_wait_plain(thread: &mut Thread, args: &Args) -> i64 {
    epoll_pwait(thread, &[args[0], args[1], args[2], args[3], 0, 0])
}

pub(super) fn epoll_pwait(thread: &mut Thread, args: &Args) -> i64 {
    epoll_wait_of(thread, libc::SYS_epoll_pwait, args, Arg::Int(args[3]), &ALIGNED)
}

/// As `epoll_pwait`, with a timeout in nanoseconds at an address.
pub(super) fn epoll_pwait2(thread: &mut Thread, args: &Args) -> i64 {
    epoll_wait_of(thread, libc::SYS_epoll_pwait2, args, Arg::Guest(args[3]), &ALIGNED)
}

/// The host's call `number` for a guest whose events have this layout.
pub(super) fn epoll_wait_of(
    thread: &mut Thread,
    number: i64,
    args: &Args,
    timeout: Arg<'_>,
    guest: &EventLayout,
) -> i64 {
    let count = args[2] as i32;
    if !(1..=i32::MAX / guest.len as i32).contains(&count) {
        return err(libc::EINVAL);
    }
    let count = count.min(4096) as u64;
    let mut events = vec![0; HOST.len * count as usize];
    let set = match signal_set(thread, args[4]) {
        Ok(set) => set,
        Err(code) => return code,
    };
    let list = &mut [
        Arg::Int(args[0]),
        Arg::Out(&mut events),
        Arg::Int(count),
        timeout,
        if set.is_empty() { Arg::Guest(0) } else { Arg::In(&set) },
        Arg::Int(SET_LEN),
    ];
    let result = raw::call(&thread.cpu.window, &thread.pending, number, list);
    let events = events.chunks_exact(HOST.len).take(result.max(0) as usize);
    let turned: Vec<u8> = events.flat_map(|event| HOST.turned(event, guest)).collect();
    thread.cpu.window.write(args[1], &turned).map_or(err(libc::EFAULT), |()| result)
}

/// futex_waitv: the words' addresses are translated in a copy of the list.
pub(super) fn futex_waitv(thread: &mut Thread, args: &Args) -> i64 {
    const WAITERS_MAX: u64 = 128;
    if !(1..=WAITERS_MAX).contains(&args[1]) {
        return err(libc::EINVAL);
    }
    let window = thread.cpu.window;
    let mut waiters = Vec::with_capacity(24 * args[1] as usize);
    for n in 0..args[1] {
        let waiter = window.load_words::<3>(args[0].wrapping_add(24 * n));
        let Some([value, word, flags]) = waiter else { return err(libc::EFAULT) };
        let Some(word) = window.host(word, 4) else { return err(libc::EFAULT) };
        for field in [value, word as u64, flags] {
            waiters.extend(field.to_le_bytes());
        }
    }
    let list = &mut [
        Arg::In(&waiters),
        Arg::Int(args[1]),
        Arg::Int(args[2]),
        Arg::Guest(args[3]),
        Arg::Int(args[4]),
    ];
    raw::call(&window, &thread.pending, libc::SYS_futex_waitv, list)
}

/// The sixth argument points to a pointer to the mask, and its length.
pub(super) fn pselect6(thread: &mut Thread, args: &Args) -> i64 {
    let (mut sixth, mut set) = ([0; 16], Vec::new());
    if args[5] != 0 {
        let Some([mask, _]) = thread.cpu.window.load_words::<2>(args[5]) else {
            return err(libc::EFAULT);
        };
        set = match signal_set(thread, mask) {
            Ok(set) => set,
            Err(code) => return code,
        };
        let host = if set.is_empty() { 0 } else { set.as_ptr() as u64 };
        sixth[..8].copy_from_slice(&host.to_le_bytes());
        sixth[8..].copy_from_slice(&SET_LEN.to_le_bytes());
    }
    let list = &mut [
        Arg::Int(args[0]),
        Arg::Guest(args[1]),
        Arg::Guest(args[2]),
        Arg::Guest(args[3]),
        Arg::Guest(args[4]),
        Arg::In(&sixth),
    ];
    let result = raw::call(&thread.cpu.window, &thread.pending, libc::SYS_pselect6, list);
    // The kernel reads it through the sixth argument.
    drop(set);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_the_stack_is_the_28th_field() {
        let line = |name: &str, start: u64| {
            let rest: Vec<String> = (4..=52).map(|n| n.to_string()).collect();
            let text = format!("1 ({name}) S {}\n", rest.join(" "));
            text.replace(" 28 ", &format!(" {start} "))
        };
        for name in ["a", "a) (b", "1 2 3"] {
            assert_eq!(with_stack(&line(name, 28), 7000), Some(line(name, 7000)));
        }
        assert_eq!(with_stack("1 (a) S 4 5", 7000), None);
    }

    #[test]
    fn requests_take_what_the_kernel_takes() {
        // TIOCSCTTY, VT_ACTIVATE, LOOP_SET_FD, LOOP_CTL_REMOVE, BLKRASET, TUNSETOWNER, FICLONE.
        for number in [0x540e, 0x5606, 0x4c00, 0x4c81, 0x1262, 0x4004_54cc, 0x4004_9409] {
            assert!(takes_number(number), "{number:#x}");
            assert!(takes_number(number | 1 << 32), "{number:#x}");
        }
        // TCGETS, TIOCGWINSZ, FIONREAD, LOOP_GET_STATUS64, LOOP_CONFIGURE, TUNSETIFF, SIOCGIFADDR.
        for address in [0x5401, 0x5413, 0x541b, 0x4c05, 0x4c0a, 0x4004_54ca, 0x8915] {
            assert!(!takes_number(address), "{address:#x}");
        }
    }
}
