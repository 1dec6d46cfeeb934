//! The system call table, by the kernel's generic numbers: one row says everything about a call,
//! and one row adds a call. Calls that the generic table has no more stand in a table of their own,
//! by the host's numbers, for guests that have them.
//!
//! A row: number, name, the kinds of its arguments, what a signal does to it while it waits
//! ([`Waits`]), and how it is done ([`Done`]). `older` is the host's call where its kernel has one
//! of this name, which that of x86-64 has, and [`older`](super::older) elsewhere.
//!
//! Argument kinds, one letter each:
//!
//! - `i`: a number.
//! - `p`: a guest address, 0 for none.
//! - `s`: a path, looked up in the sysroot.
//! - `l`: a path as `s`, whose last component is not followed if it is a symbolic link.
//! - `f`: a path as `l` if the last argument has AT_SYMLINK_NOFOLLOW, else as `s`.
//! - `m`: the address of a set of signals, 0 for none.
//! - `n`: the length of a set of signals.
//! - `a`: a number or an address, as another argument says; only for calls done here.
//!
//! Invariants
//! - A row with a host call bears that call's name; a row that does not is not compiled. Checked by
//!   `names_of_host_calls_are_compared_whole`.
//! - Numbers ascend, names are unique, kinds are among those above; numbers are the kernel's where
//!   its header is installed. Checked by `every_row_is_consistent_with_itself_and_the_others`,
//!   `numbers_are_those_of_the_kernels_generic_table`.
//! - A call that is marked `Never` does not wait, so it need not look for a signal before it
//!   begins. Checked by `every_row_is_consistent_with_itself_and_the_others`.
//!
//! `rseq` says ENOSYS: a restartable sequence must be aborted when its thread is interrupted, and
//! the processor number kept up to date, neither of which a process can do for its guest. C
//! libraries then register nothing and ask the kernel where they would have read it.

use super::super::thread::Thread;
use super::{Args, Own, exec, files, ipc, limits, memory, stat, tasks};
use Waits::{Chooses, Fails, ForSignals, Never, Receives, Restarts, Sends};

/// How a call is done.
#[derive(Clone, Copy)]
pub(super) enum Done {
    /// By the host's call of this number.
    Host(i64),
    /// Here; what the function returns is the call's result.
    Own(Own),
    /// Here, and the function sets the registers itself.
    Registers(fn(&mut Thread)),
    /// Not at all: the call returns this error, for which libraries fall back.
    Refused(i32),
    /// Not at all, and the call is named on standard error the first time: it returns ENOSYS.
    Absent,
}

/// What happens to a call that has begun when a signal with a handler arrives.
#[derive(Clone, Copy)]
pub(super) enum Waits {
    /// It does not wait.
    Never,
    /// It begins again if the handler says `SA_RESTART`.
    Restarts,
    /// As `Restarts`, unless its first argument is a socket on which what is received has a time
    /// limit.
    Receives,
    /// As `Receives`, for what is sent.
    Sends,
    /// It fails with EINTR, whatever the handler says.
    Fails,
    /// By its arguments: true for `Restarts`, false for `Fails`.
    Chooses(fn(&Args) -> bool),
    /// It waits for the signal itself and fails with EINTR, even if it had not begun.
    ForSignals,
}

/// One system call.
pub(super) struct Call {
    number: u64,
    pub(super) name: &'static str,
    pub(super) shape: &'static str,
    pub(super) waits: Waits,
    pub(super) done: Done,
}

/// The call with this number in the generic table.
pub(super) fn generic(number: u64) -> Option<&'static Call> {
    TABLE.binary_search_by_key(&number, |c| c.number).ok().map(|n| &TABLE[n])
}

/// The call with this name.
pub(super) fn named(name: &str) -> Option<&'static Call> {
    TABLE.iter().chain(OLDER).chain(MACHINES).find(|call| call.name == name)
}

/// Whether the host call's constant is `SYS_` and the row's name.
const fn is_named(constant: &str, name: &str) -> bool {
    let (constant, name) = (constant.as_bytes(), name.as_bytes());
    let mut n = 0;
    while n < name.len() && n + 4 < constant.len() && constant[n + 4] == name[n] {
        n += 1;
    }
    n == name.len() && n + 4 == constant.len()
}

macro_rules! done {
    ($name:ident host $host:ident) => {{
        const { assert!(is_named(stringify!($host), stringify!($name)), "another call's host call") };
        Done::Host(libc::$host)
    }};
    ($name:ident older $host:ident) => {{
        const { assert!(is_named(stringify!($host), stringify!($name)), "another call's host call") };
        #[cfg(target_arch = "x86_64")]
        let done = Done::Host(libc::$host);
        #[cfg(not(target_arch = "x86_64"))]
        let done = Done::Own(super::older::$name);
        done
    }};
    ($name:ident own $own:path) => {
        Done::Own($own)
    };
    ($name:ident registers $own:path) => {
        Done::Registers($own)
    };
    ($name:ident refused $error:ident) => {
        Done::Refused(libc::$error)
    };
    ($name:ident absent) => {
        Done::Absent
    };
}

macro_rules! calls {
    ($table:ident: $($number:literal $name:ident $shape:literal $waits:expr, $how:ident $($($what:ident)::+)?;)*) => {
        pub(super) static $table: &[Call] = &[$(Call {
            number: $number,
            name: stringify!($name),
            shape: $shape,
            waits: $waits,
            done: done!($name $how $($($what)::+)?),
        }),*];
    };
}

calls! { TABLE:
    0 io_setup "ip" Never, absent;
    1 io_destroy "p" Never, absent;
    2 io_submit "pip" Never, absent;
    3 io_cancel "ppp" Never, absent;
    4 io_getevents "piipp" Never, absent;
    5 setxattr "sppii" Restarts, host SYS_setxattr;
    6 lsetxattr "lppii" Restarts, host SYS_lsetxattr;
    7 fsetxattr "ippii" Restarts, host SYS_fsetxattr;
    8 getxattr "sppi" Restarts, host SYS_getxattr;
    9 lgetxattr "lppi" Restarts, host SYS_lgetxattr;
    10 fgetxattr "ippi" Restarts, host SYS_fgetxattr;
    11 listxattr "spi" Restarts, host SYS_listxattr;
    12 llistxattr "lpi" Restarts, host SYS_llistxattr;
    13 flistxattr "ipi" Restarts, host SYS_flistxattr;
    14 removexattr "sp" Restarts, host SYS_removexattr;
    15 lremovexattr "lp" Restarts, host SYS_lremovexattr;
    16 fremovexattr "ip" Restarts, host SYS_fremovexattr;
    17 getcwd "pi" Never, host SYS_getcwd;
    18 lookup_dcookie "ipi" Never, refused ENOSYS;
    19 eventfd2 "ii" Never, host SYS_eventfd2;
    20 epoll_create1 "i" Never, host SYS_epoll_create1;
    21 epoll_ctl "iiip" Never, own files::epoll_ctl;
    22 epoll_pwait "ipiipi" Fails, own files::epoll_pwait;
    23 dup "i" Never, host SYS_dup;
    24 dup3 "iii" Restarts, host SYS_dup3;
    25 fcntl "iia" Restarts, own files::fcntl;
    26 inotify_init1 "i" Never, host SYS_inotify_init1;
    27 inotify_add_watch "isi" Restarts, host SYS_inotify_add_watch;
    28 inotify_rm_watch "ii" Never, host SYS_inotify_rm_watch;
    29 ioctl "iia" Restarts, own files::ioctl;
    30 ioprio_set "iii" Never, host SYS_ioprio_set;
    31 ioprio_get "ii" Never, host SYS_ioprio_get;
    32 flock "ii" Restarts, host SYS_flock;
    33 mknodat "isii" Restarts, host SYS_mknodat;
    34 mkdirat "isi" Restarts, host SYS_mkdirat;
    35 unlinkat "ili" Restarts, host SYS_unlinkat;
    36 symlinkat "pil" Restarts, host SYS_symlinkat;
    37 linkat "ilili" Restarts, host SYS_linkat;
    38 renameat "ilil" Restarts, older SYS_renameat;
    39 umount2 "si" Restarts, host SYS_umount2;
    40 mount "sspip" Restarts, host SYS_mount;
    41 pivot_root "ss" Restarts, host SYS_pivot_root;
    42 nfsservctl "ipp" Never, refused ENOSYS;
    43 statfs "sp" Restarts, host SYS_statfs;
    44 fstatfs "ip" Restarts, host SYS_fstatfs;
    45 truncate "si" Restarts, host SYS_truncate;
    46 ftruncate "ii" Restarts, host SYS_ftruncate;
    47 fallocate "iiii" Restarts, host SYS_fallocate;
    48 faccessat "isi" Restarts, host SYS_faccessat;
    49 chdir "s" Restarts, host SYS_chdir;
    50 fchdir "i" Restarts, host SYS_fchdir;
    51 chroot "s" Never, refused EPERM;
    52 fchmod "ii" Restarts, host SYS_fchmod;
    53 fchmodat "isi" Restarts, host SYS_fchmodat;
    54 fchownat "ifiii" Restarts, host SYS_fchownat;
    55 fchown "iii" Restarts, host SYS_fchown;
    56 openat "isii" Restarts, own files::openat;
    57 close "i" Fails, host SYS_close;
    58 vhangup "" Never, host SYS_vhangup;
    59 pipe2 "pi" Never, host SYS_pipe2;
    60 quotactl "isip" Restarts, host SYS_quotactl;
    61 getdents64 "ipi" Restarts, host SYS_getdents64;
    62 lseek "iii" Never, host SYS_lseek;
    63 read "ipi" Receives, host SYS_read;
    64 write "ipi" Sends, host SYS_write;
    65 readv "ipi" Receives, own files::readv;
    66 writev "ipi" Sends, own files::writev;
    67 pread64 "ipii" Restarts, host SYS_pread64;
    68 pwrite64 "ipii" Restarts, host SYS_pwrite64;
    69 preadv "ipiii" Restarts, own files::preadv;
    70 pwritev "ipiii" Restarts, own files::pwritev;
    71 sendfile "iipi" Restarts, host SYS_sendfile;
    72 pselect6 "ippppp" Fails, own files::pselect6;
    73 ppoll "pipmn" Fails, host SYS_ppoll;
    74 signalfd4 "imni" Never, host SYS_signalfd4;
    75 vmsplice "ipii" Restarts, own files::vmsplice;
    76 splice "ipipii" Restarts, host SYS_splice;
    77 tee "iiii" Restarts, host SYS_tee;
    78 readlinkat "ilpi" Restarts, own files::readlinkat;
    79 newfstatat "ispi" Restarts, own stat::newfstatat;
    80 fstat "ip" Restarts, own stat::fstat;
    81 sync "" Restarts, host SYS_sync;
    82 fsync "i" Restarts, host SYS_fsync;
    83 fdatasync "i" Restarts, host SYS_fdatasync;
    84 sync_file_range "iiii" Restarts, host SYS_sync_file_range;
    85 timerfd_create "ii" Never, host SYS_timerfd_create;
    86 timerfd_settime "iipp" Never, host SYS_timerfd_settime;
    87 timerfd_gettime "ip" Never, host SYS_timerfd_gettime;
    88 utimensat "ifpi" Restarts, host SYS_utimensat;
    89 acct "s" Restarts, host SYS_acct;
    90 capget "pp" Never, host SYS_capget;
    91 capset "pp" Never, host SYS_capset;
    92 personality "i" Never, host SYS_personality;
    93 exit "i" Never, own tasks::exit;
    94 exit_group "i" Never, own tasks::exit_group;
    95 waitid "iipip" Restarts, own tasks::waitid;
    96 set_tid_address "p" Never, own tasks::set_tid_address;
    97 unshare "i" Never, host SYS_unshare;
    98 futex "piiapi" Chooses(tasks::futex_restarts), own tasks::futex;
    99 set_robust_list "pi" Never, own tasks::set_robust_list;
    100 get_robust_list "ipp" Never, own tasks::get_robust_list;
    101 nanosleep "pp" Fails, host SYS_nanosleep;
    102 getitimer "ip" Never, host SYS_getitimer;
    103 setitimer "ipp" Never, host SYS_setitimer;
    104 kexec_load "iipi" Never, refused EPERM;
    105 init_module "pip" Never, refused EPERM;
    106 delete_module "pi" Never, refused EPERM;
    107 timer_create "ipp" Never, host SYS_timer_create;
    108 timer_gettime "ip" Never, host SYS_timer_gettime;
    109 timer_getoverrun "i" Never, host SYS_timer_getoverrun;
    110 timer_settime "iipp" Never, host SYS_timer_settime;
    111 timer_delete "i" Never, host SYS_timer_delete;
    112 clock_settime "ip" Never, host SYS_clock_settime;
    113 clock_gettime "ip" Never, host SYS_clock_gettime;
    114 clock_getres "ip" Never, host SYS_clock_getres;
    115 clock_nanosleep "iipp" Fails, host SYS_clock_nanosleep;
    116 syslog "ipi" Never, refused EPERM;
    117 ptrace "iiaa" Never, refused EPERM;
    118 sched_setparam "ip" Never, host SYS_sched_setparam;
    119 sched_setscheduler "iip" Never, host SYS_sched_setscheduler;
    120 sched_getscheduler "i" Never, host SYS_sched_getscheduler;
    121 sched_getparam "ip" Never, host SYS_sched_getparam;
    122 sched_setaffinity "iip" Never, host SYS_sched_setaffinity;
    123 sched_getaffinity "iip" Never, host SYS_sched_getaffinity;
    124 sched_yield "" Never, host SYS_sched_yield;
    125 sched_get_priority_max "i" Never, host SYS_sched_get_priority_max;
    126 sched_get_priority_min "i" Never, host SYS_sched_get_priority_min;
    127 sched_rr_get_interval "ip" Never, host SYS_sched_rr_get_interval;
    128 restart_syscall "" Never, refused EINTR;
    129 kill "ii" Never, host SYS_kill;
    130 tkill "ii" Never, host SYS_tkill;
    131 tgkill "iii" Never, host SYS_tgkill;
    132 sigaltstack "pp" Never, own tasks::sigaltstack;
    133 rt_sigsuspend "mn" ForSignals, host SYS_rt_sigsuspend;
    134 rt_sigaction "ippi" Never, own tasks::rt_sigaction;
    135 rt_sigprocmask "ippi" Never, own tasks::rt_sigprocmask;
    136 rt_sigpending "pi" Never, own tasks::rt_sigpending;
    137 rt_sigtimedwait "mppn" ForSignals, host SYS_rt_sigtimedwait;
    138 rt_sigqueueinfo "iip" Never, host SYS_rt_sigqueueinfo;
    139 rt_sigreturn "" Never, registers tasks::rt_sigreturn;
    140 setpriority "iii" Never, host SYS_setpriority;
    141 getpriority "ii" Never, host SYS_getpriority;
    142 reboot "iiip" Never, refused EPERM;
    143 setregid "ii" Never, host SYS_setregid;
    144 setgid "i" Never, host SYS_setgid;
    145 setreuid "ii" Never, host SYS_setreuid;
    146 setuid "i" Never, host SYS_setuid;
    147 setresuid "iii" Never, host SYS_setresuid;
    148 getresuid "ppp" Never, host SYS_getresuid;
    149 setresgid "iii" Never, host SYS_setresgid;
    150 getresgid "ppp" Never, host SYS_getresgid;
    151 setfsuid "i" Never, host SYS_setfsuid;
    152 setfsgid "i" Never, host SYS_setfsgid;
    153 times "p" Never, host SYS_times;
    154 setpgid "ii" Never, host SYS_setpgid;
    155 getpgid "i" Never, host SYS_getpgid;
    156 getsid "i" Never, host SYS_getsid;
    157 setsid "" Never, host SYS_setsid;
    158 getgroups "ip" Never, host SYS_getgroups;
    159 setgroups "ip" Never, host SYS_setgroups;
    160 uname "p" Never, own tasks::uname;
    161 sethostname "pi" Never, host SYS_sethostname;
    162 setdomainname "pi" Never, host SYS_setdomainname;
    163 getrlimit "ip" Never, own limits::getrlimit;
    164 setrlimit "ip" Never, own limits::setrlimit;
    165 getrusage "ip" Never, host SYS_getrusage;
    166 umask "i" Never, host SYS_umask;
    167 prctl "iaaaa" Never, own tasks::prctl;
    168 getcpu "ppp" Never, host SYS_getcpu;
    169 gettimeofday "pp" Never, host SYS_gettimeofday;
    170 settimeofday "pp" Never, host SYS_settimeofday;
    171 adjtimex "p" Never, host SYS_adjtimex;
    172 getpid "" Never, host SYS_getpid;
    173 getppid "" Never, host SYS_getppid;
    174 getuid "" Never, host SYS_getuid;
    175 geteuid "" Never, host SYS_geteuid;
    176 getgid "" Never, host SYS_getgid;
    177 getegid "" Never, host SYS_getegid;
    178 gettid "" Never, host SYS_gettid;
    179 sysinfo "p" Never, host SYS_sysinfo;
    180 mq_open "piip" Never, host SYS_mq_open;
    181 mq_unlink "p" Never, host SYS_mq_unlink;
    182 mq_timedsend "ipiip" Restarts, host SYS_mq_timedsend;
    183 mq_timedreceive "ipipp" Restarts, host SYS_mq_timedreceive;
    184 mq_notify "ip" Never, own ipc::mq_notify;
    185 mq_getsetattr "ipp" Never, host SYS_mq_getsetattr;
    186 msgget "ii" Never, host SYS_msgget;
    187 msgctl "iip" Never, host SYS_msgctl;
    188 msgrcv "ipiii" Fails, host SYS_msgrcv;
    189 msgsnd "ipii" Fails, host SYS_msgsnd;
    190 semget "iii" Never, host SYS_semget;
    191 semctl "iiia" Never, own ipc::semctl;
    192 semtimedop "ipip" Fails, host SYS_semtimedop;
    193 semop "ipi" Fails, host SYS_semop;
    194 shmget "iii" Never, host SYS_shmget;
    195 shmctl "iip" Never, host SYS_shmctl;
    196 shmat "ipi" Never, own ipc::shmat;
    197 shmdt "p" Never, own ipc::shmdt;
    198 socket "iii" Never, host SYS_socket;
    199 socketpair "iiip" Never, host SYS_socketpair;
    200 bind "ipi" Never, host SYS_bind;
    201 listen "ii" Never, host SYS_listen;
    202 accept "ipp" Receives, host SYS_accept;
    203 connect "ipi" Sends, host SYS_connect;
    204 getsockname "ipp" Never, host SYS_getsockname;
    205 getpeername "ipp" Never, host SYS_getpeername;
    206 sendto "ipiipi" Sends, host SYS_sendto;
    207 recvfrom "ipiipp" Receives, host SYS_recvfrom;
    208 setsockopt "iiipi" Never, own files::setsockopt;
    209 getsockopt "iiipp" Never, host SYS_getsockopt;
    210 shutdown "ii" Never, host SYS_shutdown;
    211 sendmsg "ipi" Sends, own files::sendmsg;
    212 recvmsg "ipi" Receives, own files::recvmsg;
    213 readahead "iii" Restarts, host SYS_readahead;
    214 brk "p" Never, own memory::brk;
    215 munmap "pi" Never, own memory::munmap;
    216 mremap "piiip" Never, own memory::mremap;
    217 add_key "pppii" Never, absent;
    218 request_key "pppi" Never, absent;
    219 keyctl "iaaaa" Never, absent;
    220 clone "ipppp" Never, own tasks::clone;
    221 execve "spp" Restarts, own exec::execve;
    222 mmap "piiiii" Never, own memory::mmap;
    223 fadvise64 "iiii" Restarts, host SYS_fadvise64;
    224 swapon "si" Restarts, host SYS_swapon;
    225 swapoff "s" Restarts, host SYS_swapoff;
    226 mprotect "pii" Never, own memory::mprotect;
    227 msync "pii" Restarts, own memory::msync;
    228 mlock "pi" Restarts, own memory::mlock;
    229 munlock "pi" Never, own memory::munlock;
    230 mlockall "i" Never, own memory::mlockall;
    231 munlockall "" Never, host SYS_munlockall;
    232 mincore "pip" Never, own memory::mincore;
    233 madvise "pii" Never, own memory::madvise;
    234 remap_file_pages "piiii" Never, absent;
    235 mbind "piipii" Never, own memory::mbind;
    236 get_mempolicy "ppipi" Never, host SYS_get_mempolicy;
    237 set_mempolicy "ipi" Never, host SYS_set_mempolicy;
    238 migrate_pages "iipp" Restarts, host SYS_migrate_pages;
    239 move_pages "iipppi" Never, absent;
    240 rt_tgsigqueueinfo "iiip" Never, host SYS_rt_tgsigqueueinfo;
    241 perf_event_open "piiii" Never, absent;
    242 accept4 "ippi" Receives, host SYS_accept4;
    243 recvmmsg "ipiip" Receives, own files::recvmmsg;
    260 wait4 "ipip" Restarts, own tasks::wait4;
    261 prlimit64 "iipp" Never, own limits::prlimit64;
    262 fanotify_init "ii" Never, host SYS_fanotify_init;
    263 fanotify_mark "iiiis" Restarts, host SYS_fanotify_mark;
    264 name_to_handle_at "isppi" Restarts, host SYS_name_to_handle_at;
    265 open_by_handle_at "ipi" Restarts, host SYS_open_by_handle_at;
    266 clock_adjtime "ip" Never, host SYS_clock_adjtime;
    267 syncfs "i" Restarts, host SYS_syncfs;
    268 setns "ii" Never, host SYS_setns;
    269 sendmmsg "ipii" Sends, own files::sendmmsg;
    270 process_vm_readv "ipipii" Restarts, own files::process_vm_readv;
    271 process_vm_writev "ipipii" Restarts, own files::process_vm_writev;
    272 kcmp "iiiia" Never, own files::kcmp;
    273 finit_module "ipi" Never, refused EPERM;
    274 sched_setattr "ipi" Never, host SYS_sched_setattr;
    275 sched_getattr "ipii" Never, host SYS_sched_getattr;
    276 renameat2 "ililii" Restarts, host SYS_renameat2;
    277 seccomp "iip" Never, refused ENOSYS;
    278 getrandom "pii" Restarts, host SYS_getrandom;
    279 memfd_create "pi" Never, host SYS_memfd_create;
    280 bpf "ipi" Never, refused EPERM;
    281 execveat "isppi" Restarts, own exec::execveat;
    282 userfaultfd "i" Never, refused ENOSYS;
    283 membarrier "iii" Never, own memory::membarrier;
    284 mlock2 "pii" Restarts, own memory::mlock2;
    285 copy_file_range "ipipii" Restarts, host SYS_copy_file_range;
    286 preadv2 "ipiiii" Restarts, own files::preadv2;
    287 pwritev2 "ipiiii" Restarts, own files::pwritev2;
    288 pkey_mprotect "piii" Never, own memory::pkey_mprotect;
    289 pkey_alloc "ii" Never, refused ENOSPC;
    290 pkey_free "i" Never, refused EINVAL;
    291 statx "isiip" Restarts, own stat::statx;
    292 io_pgetevents "piippp" Never, absent;
    293 rseq "piii" Never, refused ENOSYS;
    294 kexec_file_load "iiipi" Never, refused EPERM;
    424 pidfd_send_signal "iipi" Never, host SYS_pidfd_send_signal;
    425 io_uring_setup "ip" Never, refused ENOSYS;
    426 io_uring_enter "iiiipi" Never, refused ENOSYS;
    427 io_uring_register "iipi" Never, refused ENOSYS;
    428 open_tree "isi" Restarts, host SYS_open_tree;
    429 move_mount "isisi" Restarts, host SYS_move_mount;
    430 fsopen "pi" Restarts, host SYS_fsopen;
    431 fsconfig "iippi" Restarts, host SYS_fsconfig;
    432 fsmount "iii" Restarts, host SYS_fsmount;
    433 fspick "isi" Restarts, host SYS_fspick;
    434 pidfd_open "ii" Never, host SYS_pidfd_open;
    435 clone3 "pi" Never, own tasks::clone3;
    436 close_range "iii" Restarts, host SYS_close_range;
    437 openat2 "ispi" Restarts, own files::openat2;
    438 pidfd_getfd "iii" Never, host SYS_pidfd_getfd;
    439 faccessat2 "ifii" Restarts, host SYS_faccessat2;
    440 process_madvise "ipiii" Never, absent;
    441 epoll_pwait2 "ipippi" Fails, own files::epoll_pwait2;
    442 mount_setattr "isipi" Restarts, host SYS_mount_setattr;
    443 quotactl_fd "iiip" Restarts, host SYS_quotactl_fd;
    444 landlock_create_ruleset "pii" Never, refused ENOSYS;
    445 landlock_add_rule "iipi" Never, refused ENOSYS;
    446 landlock_restrict_self "ii" Never, refused ENOSYS;
    447 memfd_secret "i" Never, older SYS_memfd_secret;
    448 process_mrelease "ii" Never, host SYS_process_mrelease;
    449 futex_waitv "piipi" Restarts, own files::futex_waitv;
    450 set_mempolicy_home_node "piii" Never, host SYS_set_mempolicy_home_node;
    451 cachestat "ippi" Never, absent;
    452 fchmodat2 "ifii" Restarts, older SYS_fchmodat2;
    453 map_shadow_stack "pii" Never, refused ENOSYS;
    454 futex_wake "piii" Never, absent;
    455 futex_wait "piiipi" Never, absent;
    456 futex_requeue "piii" Never, absent;
    457 statmount "ppii" Never, absent;
    458 listmount "ppii" Never, absent;
    459 lsm_get_self_attr "ippi" Never, absent;
    460 lsm_set_self_attr "ipii" Never, absent;
    461 lsm_list_modules "ppi" Never, absent;
    462 mseal "pii" Never, refused ENOSYS;
    463 setxattrat "isippi" Never, refused ENOSYS;
    464 getxattrat "isippi" Never, refused ENOSYS;
    465 listxattrat "isipi" Never, refused ENOSYS;
    466 removexattrat "isip" Never, refused ENOSYS;
    467 open_tree_attr "isipi" Never, refused ENOSYS;
}

calls! { OLDER:
    2 open "sii" Restarts, own files::open;
    4 stat "sp" Restarts, own stat::stat;
    6 lstat "lp" Restarts, own stat::lstat;
    7 poll "pii" Fails, older SYS_poll;
    21 access "si" Restarts, older SYS_access;
    22 pipe "p" Never, older SYS_pipe;
    23 select "ipppp" Fails, older SYS_select;
    33 dup2 "ii" Restarts, older SYS_dup2;
    34 pause "" ForSignals, older SYS_pause;
    37 alarm "i" Never, older SYS_alarm;
    57 fork "" Never, own tasks::fork_alone;
    58 vfork "" Never, own tasks::vfork_alone;
    78 getdents "ipi" Restarts, older SYS_getdents;
    82 rename "ll" Restarts, older SYS_rename;
    83 mkdir "si" Restarts, older SYS_mkdir;
    84 rmdir "l" Restarts, older SYS_rmdir;
    85 creat "si" Restarts, older SYS_creat;
    86 link "ll" Restarts, older SYS_link;
    87 unlink "l" Restarts, older SYS_unlink;
    88 symlink "pl" Restarts, older SYS_symlink;
    89 readlink "lpi" Restarts, own files::readlink;
    90 chmod "si" Restarts, older SYS_chmod;
    92 chown "sii" Restarts, older SYS_chown;
    94 lchown "lii" Restarts, older SYS_lchown;
    111 getpgrp "" Never, older SYS_getpgrp;
    132 utime "sp" Restarts, older SYS_utime;
    133 mknod "sii" Restarts, older SYS_mknod;
    136 ustat "ip" Never, refused ENOSYS;
    139 sysfs "iaa" Never, refused ENOSYS;
    201 time "p" Never, older SYS_time;
    213 epoll_create "i" Never, older SYS_epoll_create;
    232 epoll_wait "ipii" Fails, own files::epoll_wait_plain;
    235 utimes "sp" Restarts, older SYS_utimes;
    253 inotify_init "" Never, older SYS_inotify_init;
    261 futimesat "isp" Restarts, older SYS_futimesat;
    282 signalfd "imn" Never, older SYS_signalfd;
    284 eventfd "i" Never, older SYS_eventfd;
}

// Calls that only some architectures have; the ABI of a guest that has one does it.
calls! { MACHINES:
    154 modify_ldt "iai" Never, refused ENOSYS;
    158 arch_prctl "ia" Never, refused EINVAL;
    172 iopl "i" Never, refused EPERM;
    173 ioperm "iii" Never, refused EPERM;
    5197 cacheflush "pii" Never, refused EINVAL;
    5242 set_thread_area "p" Never, refused ENOSYS;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::io::Write as _;

    #[test]
    fn every_row_is_consistent_with_itself_and_the_others() {
        for table in [TABLE, OLDER, MACHINES] {
            assert!(table.windows(2).all(|w| w[0].number < w[1].number), "numbers ascend");
        }
        let all = || TABLE.iter().chain(OLDER).chain(MACHINES);
        let names: BTreeSet<_> = all().map(|c| c.name).collect();
        assert_eq!(names.len(), all().count(), "names are unique");
        for call in all() {
            let kinds = match call.done {
                Done::Host(_) => "ipslfmn",
                _ => "ipslfmna",
            };
            let known = call.shape.chars().all(|kind| kinds.contains(kind));
            assert!(known && call.shape.len() <= 6, "{}: {}", call.name, call.shape);
            let waits = !matches!(call.waits, Never);
            let (at_once, chooses) = match call.done {
                Done::Refused(error) => (error > 0, false),
                Done::Registers(_) | Done::Absent => (true, false),
                Done::Host(_) => (false, false),
                Done::Own(_) => (false, true),
            };
            assert!(!(waits && at_once), "{} is done at once and waits", call.name);
            let chosen = matches!(call.waits, Chooses(_));
            assert!(chooses || !chosen, "{}: nothing here chooses", call.name);
            assert!(std::ptr::eq(named(call.name).unwrap(), call), "{}", call.name);
        }
    }

    /// The lists of calls in the page: names between backquotes in the line that begins so.
    fn listed(page: &str, line: &str) -> BTreeSet<String> {
        let line = page.lines().find(|l| l.starts_with(line)).expect("the page has the line");
        line.split('`').skip(1).step_by(2).map(String::from).collect()
    }

    #[test]
    fn the_page_lists_the_calls_that_stay_out() {
        let page = include_str!("../../../../../docs/design/la64-linux.md");
        let named = |f: fn(&Done) -> bool| {
            let calls = TABLE.iter().filter(|c| f(&c.done));
            calls.map(|c| String::from(c.name)).collect::<BTreeSet<_>>()
        };
        assert_eq!(listed(page, "| absent |"), named(|d| matches!(d, Done::Absent)));
        for (line, error) in
            [("| ENOSYS |", libc::ENOSYS), ("| EPERM |", libc::EPERM), ("| other |", 0)]
        {
            let is_listed = |d: &Done| match *d {
                Done::Refused(e) if [libc::ENOSYS, libc::EPERM].contains(&e) => e == error,
                Done::Refused(_) => error == 0,
                _ => false,
            };
            let calls = TABLE.iter().filter(|c| is_listed(&c.done));
            let calls: BTreeSet<_> = calls.map(|c| String::from(c.name)).collect();
            assert_eq!(listed(page, line), calls, "{line}");
        }
    }

    /// Numbers that no version of the kernel's table for LoongArch has: reserved for architectures,
    /// for x86, and for 32-bit times.
    #[test]
    fn every_number_of_the_kernels_table_has_a_row() {
        let has_none = |n: &u64| {
            matches!(n, 38 | 163 | 164 | 244..=259 | 295..=423 | 452 | 463)
                && !(291..=293).contains(n)
        };
        let missing: Vec<_> = (0..=467).filter(|n| generic(*n).is_none() && !has_none(n)).collect();
        assert!(missing.is_empty(), "numbers without a row: {missing:?}");
    }

    /// The descriptor is gone when `close` says EINTR, and may be another thread's again.
    #[test]
    fn a_descriptor_is_closed_once() {
        assert!(matches!(named("close").unwrap().waits, Fails));
    }

    #[test]
    fn names_of_host_calls_are_compared_whole() {
        assert!(is_named("SYS_read", "read"));
        for (constant, name) in [("SYS_readv", "read"), ("SYS_read", "readv"), ("SYS_dup", "tee")] {
            assert!(!is_named(constant, name), "{constant} {name}");
        }
    }

    /// Numbers of the kernel's generic table, by name.
    fn defined(header: &str) -> Vec<(&str, u64)> {
        let defined = header.lines().filter_map(|l| {
            let rest = l.strip_prefix("#define __NR_").or(l.strip_prefix("#define __NR3264_"))?;
            let (name, number) = rest.split_once(char::is_whitespace)?;
            let name = if name == "fstatat" { "newfstatat" } else { name };
            Some((name, number.trim().parse().ok()?))
        });
        defined.collect()
    }

    #[test]
    fn numbers_are_those_of_the_kernels_generic_table() {
        const HEADER: &str = "/usr/include/asm-generic/unistd.h";
        let Ok(header) = std::fs::read_to_string(HEADER) else {
            let why = format!("NOT COMPARED: {HEADER} is missing (package linux-libc-dev)");
            return writeln!(std::io::stderr(), "{why}").unwrap();
        };
        let generic = defined(&header);
        assert!(generic.len() > 300, "{HEADER} was read: {} numbers", generic.len());
        let last = generic.iter().map(|g| g.1).max().unwrap();
        for call in TABLE {
            let number = generic.iter().find(|(name, _)| *name == call.name).map(|g| g.1);
            // A header older than the call has no number for it.
            let newer = number.is_none() && call.number >= last;
            assert!(newer || number == Some(call.number), "{}: {number:?}", call.name);
        }
    }
}
