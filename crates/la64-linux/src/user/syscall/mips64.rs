//! System calls of the ABI N64: numbers, and what makes a call of the kernel's generic kind of
//! them. A call's number is 5000 plus the place in this list.
//!
//! Invariants
//! - Each name is one of the tables in `syscall::table`. Checked by `every_row_has_its_call`.

use super::super::abi::mips64::convert::{
    self, RECORD_LEN, TERMIOS_GUEST, TERMIOS_HOST, TERMIOS2_GUEST, TERMIOS2_HOST,
};
use super::super::abi::mips64::tables::{FCNTL, IOCTL, NUMBERS, SOCKET_OPTIONS};
use super::super::abi::mips64::{SET_USED_LEN, V1};
use super::super::abi::numbers::{
    flags_to_guest, flags_to_host, flags_without_place, to_guest, to_host,
};
use super::super::raw::{self, Arg};
use super::super::thread::Thread;
use super::{Args, Entry, Own, err, files, ipc, pass, table, tasks};
use littoral_base::mutant;
use littoral_la64::front::mips64::THREAD;
use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

/// What is added to each number.
const BASE: u64 = 5000;

/// Number less 5000, name, letters of arguments (see `numbers::Kind`).
type Row = (u64, &'static str, &'static str);

/// The calls that this ABI does in its own way.
const OWN: &[(&str, Own)] = &[
    ("cacheflush", cacheflush),
    ("fcntl", fcntl),
    ("fstatfs", fstatfs),
    ("getsockopt", getsockopt),
    ("ioctl", ioctl),
    ("mq_getsetattr", mq_getsetattr),
    ("msgctl", msgctl),
    ("pidfd_send_signal", pidfd_send_signal),
    ("pipe", pipe),
    ("read", read),
    ("rt_sigpending", rt_sigpending),
    ("rt_sigqueueinfo", rt_sigqueueinfo),
    ("rt_sigtimedwait", rt_sigtimedwait),
    ("rt_tgsigqueueinfo", rt_tgsigqueueinfo),
    ("semctl", semctl),
    ("set_thread_area", set_thread_area),
    ("setsockopt", setsockopt),
    ("shmctl", shmctl),
    ("signalfd", signalfd),
    ("signalfd4", signalfd4),
    ("statfs", statfs),
    ("timer_create", timer_create),
    ("wait4", wait4),
    ("waitid", waitid),
];

/// The call of a number.
pub(super) fn find(number: u64) -> Option<Entry> {
    static TABLE: LazyLock<HashMap<u64, Entry>> = LazyLock::new(|| {
        let same = (SAME_FROM..SAME_END).filter_map(|n| Some((n, table::generic(n)?.name, "")));
        // A later row of a number replaces the earlier one.
        let rows = same.chain(ROWS.iter().copied());
        rows.filter_map(|(n, name, letters)| Some((BASE + n, entry(name, letters)?))).collect()
    });
    TABLE.get(&number).copied()
}

fn entry(name: &str, letters: &'static str) -> Option<Entry> {
    let own = OWN.iter().find(|row| row.0 == name).map(|row| row.1);
    Some(Entry { call: table::named(name)?, letters, own })
}

/// From here on numbers are those of every architecture.
const SAME_FROM: u64 = 424;
const SAME_END: u64 = 500;

#[rustfmt::skip]
const ROWS: &[Row] = &[
    (0, "read", ""), (1, "write", ""), (2, "open", ".f."), (3, "close", ""), (4, "stat", ""),
    (5, "fstat", ""), (6, "lstat", ""), (7, "poll", ""), (8, "lseek", ""), (9, "mmap", "...m.."),
    (10, "mprotect", ""), (11, "munmap", ""), (12, "brk", ""), (13, "rt_sigaction", "g..."),
    (14, "rt_sigprocmask", "h..."), (15, "ioctl", ""), (16, "pread64", ""), (17, "pwrite64", ""),
    (18, "readv", ""), (19, "writev", ""), (20, "access", ""), (21, "pipe", ""),
    (22, "select", ""), (23, "sched_yield", ""), (24, "mremap", ""), (25, "msync", ""),
    (26, "mincore", ""), (27, "madvise", ""), (28, "shmget", ""), (29, "shmat", ""),
    (30, "shmctl", ""), (31, "dup", ""), (32, "dup2", ""), (33, "pause", ""),
    (34, "nanosleep", ""), (35, "getitimer", ""), (36, "setitimer", ""), (37, "alarm", ""),
    (38, "getpid", ""), (39, "sendfile", ""), (40, "socket", ".t."), (41, "connect", ""),
    (42, "accept", ""), (43, "sendto", ""), (44, "recvfrom", ""), (45, "sendmsg", ""),
    (46, "recvmsg", ""), (47, "shutdown", ""), (48, "bind", ""), (49, "listen", ""),
    (50, "getsockname", ""), (51, "getpeername", ""), (52, "socketpair", ".t.."),
    (53, "setsockopt", ""), (54, "getsockopt", ""), (55, "clone", ""), (56, "fork", ""),
    (57, "execve", ""), (58, "exit", ""), (59, "wait4", ""), (60, "kill", ".g"), (61, "uname", ""),
    (62, "semget", ""), (63, "semop", ""), (64, "semctl", ""), (65, "shmdt", ""),
    (66, "msgget", ""), (67, "msgsnd", ""), (68, "msgrcv", ""), (69, "msgctl", ""),
    (70, "fcntl", ""), (71, "flock", ""), (72, "fsync", ""), (73, "fdatasync", ""),
    (74, "truncate", ""), (75, "ftruncate", ""), (76, "getdents", ""), (77, "getcwd", ""),
    (78, "chdir", ""), (79, "fchdir", ""), (80, "rename", ""), (81, "mkdir", ""),
    (82, "rmdir", ""), (83, "creat", ""), (84, "link", ""), (85, "unlink", ""),
    (86, "symlink", ""), (87, "readlink", ""), (88, "chmod", ""), (89, "fchmod", ""),
    (90, "chown", ""), (91, "fchown", ""), (92, "lchown", ""), (93, "umask", ""),
    (94, "gettimeofday", ""), (95, "getrlimit", "r."), (96, "getrusage", ""), (97, "sysinfo", ""),
    (98, "times", ""), (99, "ptrace", ""), (100, "getuid", ""), (101, "syslog", ""),
    (102, "getgid", ""), (103, "setuid", ""), (104, "setgid", ""), (105, "geteuid", ""),
    (106, "getegid", ""), (107, "setpgid", ""), (108, "getppid", ""), (109, "getpgrp", ""),
    (110, "setsid", ""), (111, "setreuid", ""), (112, "setregid", ""), (113, "getgroups", ""),
    (114, "setgroups", ""), (115, "setresuid", ""), (116, "getresuid", ""), (117, "setresgid", ""),
    (118, "getresgid", ""), (119, "getpgid", ""), (120, "setfsuid", ""), (121, "setfsgid", ""),
    (122, "getsid", ""), (123, "capget", ""), (124, "capset", ""), (125, "rt_sigpending", ""),
    (126, "rt_sigtimedwait", ""), (127, "rt_sigqueueinfo", ".g."), (128, "rt_sigsuspend", ""),
    (129, "sigaltstack", ""), (130, "utime", ""), (131, "mknod", ""), (132, "personality", ""),
    (133, "ustat", ""), (134, "statfs", ""), (135, "fstatfs", ""), (136, "sysfs", ""),
    (137, "getpriority", ""), (138, "setpriority", ""), (139, "sched_setparam", ""),
    (140, "sched_getparam", ""), (141, "sched_setscheduler", ""), (142, "sched_getscheduler", ""),
    (143, "sched_get_priority_max", ""), (144, "sched_get_priority_min", ""),
    (145, "sched_rr_get_interval", ""), (146, "mlock", ""), (147, "munlock", ""),
    (148, "mlockall", ""), (149, "munlockall", ""), (150, "vhangup", ""), (151, "pivot_root", ""),
    (153, "prctl", ""), (154, "adjtimex", ""), (155, "setrlimit", "r."), (156, "chroot", ""),
    (157, "sync", ""), (158, "acct", ""), (159, "settimeofday", ""), (160, "mount", ""),
    (161, "umount2", ""), (162, "swapon", ""), (163, "swapoff", ""), (164, "reboot", ""),
    (165, "sethostname", ""), (166, "setdomainname", ""), (168, "init_module", ""),
    (169, "delete_module", ""), (172, "quotactl", ""), (173, "nfsservctl", ""), (178, "gettid", ""),
    (179, "readahead", ""), (180, "setxattr", ""), (181, "lsetxattr", ""), (182, "fsetxattr", ""),
    (183, "getxattr", ""), (184, "lgetxattr", ""), (185, "fgetxattr", ""), (186, "listxattr", ""),
    (187, "llistxattr", ""), (188, "flistxattr", ""), (189, "removexattr", ""),
    (190, "lremovexattr", ""), (191, "fremovexattr", ""), (192, "tkill", ".g"), (194, "futex", ""),
    (195, "sched_setaffinity", ""), (196, "sched_getaffinity", ""), (197, "cacheflush", ""),
    (200, "io_setup", ""), (201, "io_destroy", ""), (202, "io_getevents", ""),
    (203, "io_submit", ""), (204, "io_cancel", ""), (205, "exit_group", ""),
    (206, "lookup_dcookie", ""), (207, "epoll_create", ""), (208, "epoll_ctl", ""),
    (209, "epoll_wait", ""), (210, "remap_file_pages", ""), (211, "rt_sigreturn", ""),
    (212, "set_tid_address", ""), (213, "restart_syscall", ""), (214, "semtimedop", ""),
    (215, "fadvise64", ""), (216, "timer_create", ""), (217, "timer_settime", ""),
    (218, "timer_gettime", ""), (219, "timer_getoverrun", ""), (220, "timer_delete", ""),
    (221, "clock_settime", ""), (222, "clock_gettime", ""), (223, "clock_getres", ""),
    (224, "clock_nanosleep", ""), (225, "tgkill", "..g"), (226, "utimes", ""), (227, "mbind", ""),
    (228, "get_mempolicy", ""), (229, "set_mempolicy", ""), (230, "mq_open", ".f.."),
    (231, "mq_unlink", ""), (232, "mq_timedsend", ""), (233, "mq_timedreceive", ""),
    (234, "mq_notify", ""), (235, "mq_getsetattr", ""), (237, "waitid", ""), (239, "add_key", ""),
    (240, "request_key", ""), (241, "keyctl", ""), (242, "set_thread_area", ""),
    (243, "inotify_init", ""), (244, "inotify_add_watch", ""), (245, "inotify_rm_watch", ""),
    (246, "migrate_pages", ""), (247, "openat", "..f."), (248, "mkdirat", ""), (249, "mknodat", ""),
    (250, "fchownat", ""), (251, "futimesat", ""), (252, "newfstatat", ""), (253, "unlinkat", ""),
    (254, "renameat", ""), (255, "linkat", ""), (256, "symlinkat", ""), (257, "readlinkat", ""),
    (258, "fchmodat", ""), (259, "faccessat", ""), (260, "pselect6", ""), (261, "ppoll", ""),
    (262, "unshare", ""), (263, "splice", ""), (264, "sync_file_range", ""), (265, "tee", ""),
    (266, "vmsplice", ""), (267, "move_pages", ""), (268, "set_robust_list", ""),
    (269, "get_robust_list", ""), (270, "kexec_load", ""), (271, "getcpu", ""),
    (272, "epoll_pwait", ""), (273, "ioprio_set", ""), (274, "ioprio_get", ""),
    (275, "utimensat", ""), (276, "signalfd", ""), (278, "eventfd", ""), (279, "fallocate", ""),
    (280, "timerfd_create", ".f"), (281, "timerfd_gettime", ""), (282, "timerfd_settime", ""),
    (283, "signalfd4", "...f"), (284, "eventfd2", ".f"), (285, "epoll_create1", ""),
    (286, "dup3", "..f"), (287, "pipe2", ".f"), (288, "inotify_init1", "f"), (289, "preadv", ""),
    (290, "pwritev", ""), (291, "rt_tgsigqueueinfo", "..g."), (292, "perf_event_open", ""),
    (293, "accept4", "...f"), (294, "recvmmsg", ""), (295, "fanotify_init", ".f"),
    (296, "fanotify_mark", ""), (297, "prlimit64", ".r.."), (298, "name_to_handle_at", ""),
    (299, "open_by_handle_at", "..f"), (300, "clock_adjtime", ""), (301, "syncfs", ""),
    (302, "sendmmsg", ""), (303, "setns", ""), (304, "process_vm_readv", ""),
    (305, "process_vm_writev", ""), (306, "kcmp", ""), (307, "finit_module", ""),
    (308, "getdents64", ""), (309, "sched_setattr", ""), (310, "sched_getattr", ""),
    (311, "renameat2", ""), (312, "seccomp", ""), (313, "getrandom", ""), (314, "memfd_create", ""),
    (315, "bpf", ""), (316, "execveat", ""), (317, "userfaultfd", ""), (318, "membarrier", ""),
    (319, "mlock2", ""), (320, "copy_file_range", ""), (321, "preadv2", ""), (322, "pwritev2", ""),
    (323, "pkey_mprotect", ""), (324, "pkey_alloc", ""), (325, "pkey_free", ""), (326, "statx", ""),
    (327, "rseq", ""), (328, "io_pgetevents", ""), (424, "pidfd_send_signal", ".g.."),
    (434, "pidfd_open", ".f"),
];

/// pipe: the two descriptors come in registers.
fn pipe(thread: &mut Thread, _: &Args) -> i64 {
    let mut pair = [0; 8];
    let list = &mut [Arg::Out(&mut pair), Arg::Int(0)];
    let done = raw::call_now(&thread.cpu.window, libc::SYS_pipe2, list);
    if done < 0 {
        return done;
    }
    let pair = u64::from_le_bytes(pair);
    thread.set_register(V1, pair >> 32);
    (pair & 0xffff_ffff) as i64
}

fn set_thread_area(thread: &mut Thread, args: &Args) -> i64 {
    thread.set_register(THREAD, args[0]);
    0
}

/// A command on System V objects without the bit by which libraries ask for the structures of 64
/// bits, the only ones here. The kernel's calls of this ABI take it off too.
fn command(given: u64) -> u64 {
    const IPC_64: u64 = 0x100;
    if mutant!("mips64_ipc_commands_stay") { given } else { given & !IPC_64 }
}

fn msgctl(thread: &mut Thread, args: &Args) -> i64 {
    pass(thread, libc::SYS_msgctl, "iip", &[args[0], command(args[1]), args[2], 0, 0, 0])
}

fn semctl(thread: &mut Thread, args: &Args) -> i64 {
    ipc::semctl(thread, &[args[0], args[1], command(args[2]), args[3], 0, 0])
}

fn shmctl(thread: &mut Thread, args: &Args) -> i64 {
    pass(thread, libc::SYS_shmctl, "iip", &[args[0], command(args[1]), args[2], 0, 0, 0])
}

/// Code was written at these addresses.
fn cacheflush(thread: &mut Thread, args: &Args) -> i64 {
    let [at, len, ..] = *args;
    thread.process.code_written(at..at.saturating_add(len));
    0
}

fn fcntl(thread: &mut Thread, args: &Args) -> i64 {
    const GET_FLAGS: u64 = libc::F_GETFL as u64;
    const SET_FLAGS: u64 = libc::F_SETFL as u64;
    const SET_SIGNAL: u64 = 10;
    const GET_SIGNAL: u64 = 11;
    let mut args = *args;
    args[1] = to_host(FCNTL, args[1]);
    match args[1] {
        SET_FLAGS => args[2] = flags_to_host(NUMBERS.open, args[2]),
        SET_SIGNAL => args[2] = to_host(NUMBERS.signals, args[2]),
        _ => {}
    }
    let done = files::fcntl(thread, &args);
    match args[1] {
        GET_FLAGS if done >= 0 => flags_to_guest(NUMBERS.open, done as u64) as i64,
        GET_SIGNAL if done > 0 => NUMBERS.guest_signal(done as u32).into(),
        _ => done,
    }
}

fn ioctl(thread: &mut Thread, args: &Args) -> i64 {
    /// Requests on `struct termio`, which no C library makes any more.
    const OLD: std::ops::RangeInclusive<u64> = 0x5401..=0x5404;
    const GET: u64 = 0x540d;
    const SET: std::ops::RangeInclusive<u64> = 0x540e..=0x5410;
    /// Requests on `struct termios2`, which has other bytes here: the guest's and the host's.
    const GET_2: [u64; 2] = [0x4030_542a, 0x802c_542a];
    const SET_2: [u64; 2] = [0x8030_542b, 0x402c_542b];
    let number = args[1] & 0xffff_ffff;
    let mut args = *args;
    let named = to_host(IOCTL, number);
    args[1] = if named == number { convert::request(number) } else { named };
    match number {
        GET => terminal(thread, &args),
        n if OLD.contains(&n) => err(libc::ENOTTY),
        n if SET.contains(&n) => set_terminal(thread, &args),
        n if n == GET_2[0] => terminal_2(thread, &[args[0], GET_2[1], args[2], 0, 0, 0]),
        // At once, behind what was written, and without what was not read.
        n if (SET_2[0]..SET_2[0] + 3).contains(&n) => {
            set_terminal_2(thread, &[args[0], SET_2[1] + (n - SET_2[0]), args[2], 0, 0, 0])
        }
        _ => files::ioctl(thread, &args),
    }
}

fn terminal(thread: &mut Thread, args: &Args) -> i64 {
    let window = thread.cpu.window;
    let mut host = [0; TERMIOS_HOST];
    let list = &mut [Arg::Int(args[0]), Arg::Int(args[1]), Arg::Out(&mut host)];
    let done = raw::call_now(&window, libc::SYS_ioctl, list);
    let guest = convert::termios_to_guest(&host);
    let written = if done < 0 { Some(()) } else { window.write(args[2], &guest) };
    written.map_or(err(libc::EFAULT), |()| done)
}

fn set_terminal(thread: &mut Thread, args: &Args) -> i64 {
    let window = thread.cpu.window;
    let mut guest = [0; TERMIOS_GUEST];
    if window.read(args[2], &mut guest).is_none() {
        return err(libc::EFAULT);
    }
    let host = convert::termios_to_host(&guest);
    let list = &mut [Arg::Int(args[0]), Arg::Int(args[1]), Arg::In(&host)];
    raw::call(&window, &thread.pending, libc::SYS_ioctl, list)
}

fn terminal_2(thread: &mut Thread, args: &Args) -> i64 {
    let window = thread.cpu.window;
    let mut host = [0; TERMIOS2_HOST];
    let list = &mut [Arg::Int(args[0]), Arg::Int(args[1]), Arg::Out(&mut host)];
    let done = raw::call_now(&window, libc::SYS_ioctl, list);
    let guest = convert::termios2_to_guest(&host);
    let written = if done < 0 { Some(()) } else { window.write(args[2], &guest) };
    written.map_or(err(libc::EFAULT), |()| done)
}

fn set_terminal_2(thread: &mut Thread, args: &Args) -> i64 {
    let window = thread.cpu.window;
    let mut guest = [0; TERMIOS2_GUEST];
    if window.read(args[2], &mut guest).is_none() {
        return err(libc::EFAULT);
    }
    let host = convert::termios2_to_host(&guest);
    let list = &mut [Arg::Int(args[0]), Arg::Int(args[1]), Arg::In(&host)];
    raw::call(&window, &thread.pending, libc::SYS_ioctl, list)
}

/// Level and option of a socket as the host has them.
fn option(args: &Args) -> Args {
    let mut args = *args;
    args[1] = to_host(NUMBERS.levels, args[1] & 0xffff_ffff);
    if args[1] == libc::SOL_SOCKET as u64 {
        args[2] = to_host(SOCKET_OPTIONS, args[2] & 0xffff_ffff);
    }
    args
}

fn setsockopt(thread: &mut Thread, args: &Args) -> i64 {
    files::setsockopt(thread, &option(args))
}

fn getsockopt(thread: &mut Thread, args: &Args) -> i64 {
    let args = option(args);
    let done = pass(thread, libc::SYS_getsockopt, "iiipp", &args);
    let is_type = args[1] == libc::SOL_SOCKET as u64 && args[2] == libc::SO_TYPE as u64;
    let is_error = args[1] == libc::SOL_SOCKET as u64 && args[2] == libc::SO_ERROR as u64;
    if done == 0 && (is_type || is_error) {
        let pairs = if is_type { NUMBERS.sockets } else { NUMBERS.errors };
        let window = thread.cpu.window;
        let kind = window.load::<u32>(args[3]).map(|kind| to_guest(pairs, kind.into()) as u32);
        return kind.and_then(|kind| window.store(args[3], kind)).map_or(err(libc::EFAULT), |()| 0);
    }
    done
}

fn statfs(thread: &mut Thread, args: &Args) -> i64 {
    let path = match files::path_argument(thread, args[0], true) {
        Ok(path) => path,
        Err(code) => return code,
    };
    let path = if path.is_empty() { Arg::Guest(args[0]) } else { Arg::In(&path) };
    file_system(thread, libc::SYS_statfs, path, args[1])
}

fn fstatfs(thread: &mut Thread, args: &Args) -> i64 {
    file_system(thread, libc::SYS_fstatfs, Arg::Int(args[0]), args[1])
}

fn file_system(thread: &Thread, number: i64, which: Arg<'_>, at: u64) -> i64 {
    let mut bytes = [0; 120];
    let done = raw::call_now(&thread.cpu.window, number, &mut [which, Arg::Out(&mut bytes)]);
    if done < 0 {
        return done;
    }
    let host = std::array::from_fn(|n| {
        u64::from_le_bytes(bytes[8 * n..8 * n + 8].try_into().expect("invariant: eight bytes"))
    });
    let guest = convert::statfs(&host);
    thread.cpu.window.store_words(at, guest).map_or(err(libc::EFAULT), |()| 0)
}

fn wait4(thread: &mut Thread, args: &Args) -> i64 {
    let done = tasks::wait4(thread, args);
    if done > 0 && args[1] != 0 {
        let window = thread.cpu.window;
        let status = window.load::<u32>(args[1]).map(convert::wait_status);
        let stored = status.and_then(|status| window.store(args[1], status));
        return stored.map_or(err(libc::EFAULT), |()| done);
    }
    done
}

fn waitid(thread: &mut Thread, args: &Args) -> i64 {
    let mut host = [0; 128];
    let done = tasks::wait_with_info(thread, args, &mut host);
    match done {
        0 if args[2] != 0 => store_info(thread, args[2], &host).map_or(err(libc::EFAULT), |()| 0),
        _ => done,
    }
}

/// The host's siginfo for the guest's at an address.
fn load_info(thread: &Thread, at: u64) -> Option<Vec<u8>> {
    let guest = thread.cpu.window.load_words::<16>(at)?;
    let stays = mutant!("mips64_queued_siginfo_stays");
    let host = if stays { guest } else { convert::host_info(&guest) };
    Some(host.iter().flat_map(|word| word.to_le_bytes()).collect())
}

/// A call whose last arguments are the address of a siginfo and numbers.
fn with_info(thread: &Thread, number: i64, args: &[u64], info: u64, rest: &[u64]) -> i64 {
    let Some(info) = load_info(thread, info) else { return err(libc::EFAULT) };
    let mut list: Vec<_> = args.iter().map(|&arg| Arg::Int(arg)).collect();
    list.push(Arg::In(&info));
    list.extend(rest.iter().map(|&arg| Arg::Int(arg)));
    raw::call_now(&thread.cpu.window, number, &mut list)
}

fn rt_sigqueueinfo(thread: &mut Thread, args: &Args) -> i64 {
    with_info(thread, libc::SYS_rt_sigqueueinfo, &args[..2], args[2], &[])
}

fn rt_tgsigqueueinfo(thread: &mut Thread, args: &Args) -> i64 {
    with_info(thread, libc::SYS_rt_tgsigqueueinfo, &args[..3], args[3], &[])
}

/// The siginfo may be left out.
fn pidfd_send_signal(thread: &mut Thread, args: &Args) -> i64 {
    match args[2] {
        0 => pass(thread, libc::SYS_pidfd_send_signal, "iiii", args),
        info => with_info(thread, libc::SYS_pidfd_send_signal, &args[..2], info, &args[3..4]),
    }
}

fn timer_create(thread: &mut Thread, args: &Args) -> i64 {
    let event = match args[1] {
        0 => Ok(Vec::new()),
        at => ipc::event(thread, at).map(|event| ipc::event_bytes(&event)),
    };
    let event = match event {
        Ok(event) => event,
        Err(code) => return code,
    };
    let event = if event.is_empty() { Arg::Guest(0) } else { Arg::In(&event) };
    let list = &mut [Arg::Int(args[0]), event, Arg::Guest(args[2])];
    raw::call_now(&thread.cpu.window, libc::SYS_timer_create, list)
}

/// mq_getsetattr: the first word of a `struct mq_attr` is flags.
fn mq_getsetattr(thread: &mut Thread, args: &Args) -> i64 {
    const ATTR_LEN: usize = 64;
    let window = thread.cpu.window;
    let [descriptor, new, old, ..] = *args;
    let (mut given, mut before) = ([0; ATTR_LEN], [0; ATTR_LEN]);
    if new != 0 {
        let Some(mut words) = window.load_words::<{ ATTR_LEN / 8 }>(new) else {
            return err(libc::EFAULT);
        };
        if flags_without_place(NUMBERS.open, words[0]) != 0 {
            return err(libc::EINVAL);
        }
        words[0] = flags_to_host(NUMBERS.open, words[0]);
        words
            .iter()
            .zip(given.chunks_mut(8))
            .for_each(|(w, b)| b.copy_from_slice(&w.to_le_bytes()));
    }
    let given = if new == 0 { Arg::Guest(0) } else { Arg::In(&given) };
    let list = &mut [Arg::Int(descriptor), given, Arg::Out(&mut before)];
    let done = raw::call_now(&window, libc::SYS_mq_getsetattr, list);
    if done < 0 || old == 0 {
        return done;
    }
    let flags = u64::from_le_bytes(before[..8].try_into().expect("invariant: eight bytes"));
    before[..8].copy_from_slice(&flags_to_guest(NUMBERS.open, flags).to_le_bytes());
    window.write(old, &before).map_or(err(libc::EFAULT), |()| done)
}

/// As `signalfd4` without flags.
fn signalfd(thread: &mut Thread, args: &Args) -> i64 {
    signalfd4(thread, &[args[0], args[1], args[2], 0, 0, 0])
}

/// From now on reads may give records of signals.
fn signalfd4(thread: &mut Thread, args: &Args) -> i64 {
    thread.process.reads_signals.store(true, Ordering::Relaxed);
    pass(thread, libc::SYS_signalfd4, "imni", args)
}

fn read(thread: &mut Thread, args: &Args) -> i64 {
    let done = pass(thread, libc::SYS_read, "ipi", args);
    let may_be_records = done > 0
        && !mutant!("mips64_signal_records_stay")
        && (done as usize).is_multiple_of(RECORD_LEN)
        && thread.process.reads_signals.load(Ordering::Relaxed);
    if may_be_records && is_of_signals(args[0]) {
        let window = thread.cpu.window;
        for n in 0..done as usize / RECORD_LEN {
            let (at, mut record) = (args[1] + (n * RECORD_LEN) as u64, [0; RECORD_LEN]);
            let turned = window.read(at, &mut record).and_then(|()| {
                convert::turn_record(&mut record);
                window.write(at, &record)
            });
            if turned.is_none() {
                return err(libc::EFAULT);
            }
        }
    }
    done
}

/// Whether records of signals are read from a descriptor.
fn is_of_signals(descriptor: u64) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", descriptor as i32));
    link.is_ok_and(|target| target == Path::new("anon_inode:[signalfd]"))
}

fn store_info(thread: &Thread, at: u64, host: &[u8; 128]) -> Option<()> {
    let words = std::array::from_fn(|n| {
        u64::from_le_bytes(host[8 * n..8 * n + 8].try_into().expect("invariant: eight bytes"))
    });
    thread.cpu.window.store_words(at, convert::info(&words))
}

fn rt_sigtimedwait(thread: &mut Thread, args: &Args) -> i64 {
    let window = thread.cpu.window;
    let Some(set) = window.load::<u64>(args[0]) else { return err(libc::EFAULT) };
    let set = NUMBERS.host_set(set).to_le_bytes();
    let mut host = [0; 128];
    let list =
        &mut [Arg::In(&set), Arg::Out(&mut host), Arg::Guest(args[2]), Arg::Int(SET_USED_LEN)];
    let done = raw::call(&window, &thread.pending, libc::SYS_rt_sigtimedwait, list);
    if done <= 0 {
        return done;
    }
    match args[1] != 0 && store_info(thread, args[1], &host).is_none() {
        true => err(libc::EFAULT),
        false => NUMBERS.guest_signal(done as u32).into(),
    }
}

fn rt_sigpending(thread: &mut Thread, args: &Args) -> i64 {
    let set = match tasks::pending_set(thread) {
        Ok(set) => NUMBERS.guest_set(set),
        Err(code) => return code,
    };
    thread.cpu.window.store_words(args[0], [set, 0]).map_or(err(libc::EFAULT), |()| 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn every_row_has_its_call() {
        for &(number, name, letters) in ROWS {
            let call = table::named(name).unwrap_or_else(|| panic!("no call is named {name}"));
            assert_eq!(call.name, name);
            assert!(letters.is_empty() || letters.len() == call.shape.len(), "{name}: {letters}");
            assert_eq!(find(BASE + number).expect(name).call.name, name);
        }
        assert!(ROWS.windows(2).all(|w| w[0].0 < w[1].0), "numbers ascend");
        for (name, _) in OWN {
            assert!(ROWS.iter().any(|row| row.1 == *name), "{name} has a number");
        }
        assert!(find(4999).is_none());
        assert_eq!(find(BASE + 439).expect("a later call").call.name, "faccessat2");
    }

    #[test]
    fn numbers_are_those_of_the_kernels_table() {
        const HEADER: &str = "/usr/mips64el-linux-gnuabi64/include/asm/unistd_n64.h";
        let Ok(header) = std::fs::read_to_string(HEADER) else {
            let why = format!("NOT COMPARED: {HEADER} is missing (linux-libc-dev-mips64el-cross)");
            return writeln!(std::io::stderr(), "{why}").unwrap();
        };
        for &(number, name, _) in ROWS {
            let name = if name == "select" { "_newselect" } else { name };
            let line = format!("#define __NR_{name} (__NR_Linux + {number})");
            assert!(header.lines().any(|l| l == line), "{line}");
        }
    }
}
