//! Threads, processes, signals and identity.

use super::super::perf_map::PerfMap;
use super::super::process::Action;
use super::super::profile::Profile;
use super::super::raw::{self, Arg, Disposition};
use super::super::robust;
use super::super::signal::{self, SS_DISABLE};
use super::super::sync::lock;
use super::super::thread::Thread;
use super::{Args, err, pass};
use littoral_base::mutant;
use std::io::Read as _;
use std::sync::atomic::Ordering;

const CLONE_VM: u64 = 0x100;
/// Memory, file system data, files, handlers, semaphore adjustments, and the namespaces.
const SHARED: u64 = CLONE_VM | 0xe00 | 0x4_0000 | 0x7e02_0000;
/// Number of the call, for what is named once.
const CLONE: u64 = 220;
const CLONE_PIDFD: u64 = 0x1000;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_SETTLS: u64 = 0x8_0000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
const FUTEX_WAKE: u64 = 1;

pub(super) fn exit(thread: &mut Thread, args: &Args) -> i64 {
    thread.ended = true;
    let head = thread.pending.robust_list.swap(0, Ordering::AcqRel);
    robust::release(&thread.cpu.window, head, raw::gettid() as u32);
    if thread.clear_tid != 0 {
        let at = thread.clear_tid;
        // The joiner may have unmapped it; then no thread waits.
        let _ = thread.cpu.window.store::<u32>(at, 0);
        let list = &mut [Arg::Guest(at), Arg::Int(FUTEX_WAKE), Arg::Int(1)];
        raw::call_now(&thread.cpu.window, libc::SYS_futex, list);
    }
    if raw::gettid() == i64::from(std::process::id()) {
        thread.process.status.store(args[0] as i32, Ordering::Release);
    }
    0
}

pub(super) fn exit_group(thread: &mut Thread, args: &Args) -> i64 {
    thread.exit_group(args[0] as i32)
}

pub(super) fn set_tid_address(thread: &mut Thread, args: &Args) -> i64 {
    thread.clear_tid = args[0];
    raw::gettid()
}

pub(super) fn set_robust_list(thread: &mut Thread, args: &Args) -> i64 {
    if args[1] != robust::HEAD_LEN {
        return err(libc::EINVAL);
    }
    thread.pending.robust_list.store(args[0], Ordering::Release);
    0
}

/// The list of a thread of this process; of another one nothing is known here.
pub(super) fn get_robust_list(thread: &mut Thread, args: &Args) -> i64 {
    let [tid, head_at, len_at, ..] = *args;
    let tid = if tid == 0 { raw::gettid() as u64 } else { tid };
    let is_asked = |t: &&std::sync::Arc<raw::Pending>| t.tid.load(Ordering::Acquire) == tid;
    let found = lock(&thread.process.threads).iter().find(is_asked).cloned();
    let Some(found) = found else { return err(libc::ESRCH) };
    let window = thread.cpu.window;
    let stored = window
        .store(len_at, robust::HEAD_LEN)
        .and_then(|()| window.store(head_at, found.robust_list.load(Ordering::Acquire)));
    stored.map_or(err(libc::EFAULT), |()| 0)
}

/// Whether an operation on a futex begins again after a handler with `SA_RESTART`: a wait with a
/// timeout does not, because its time would begin again too.
pub(super) fn futex_restarts(args: &Args) -> bool {
    const WAIT: u64 = 0;
    const WAIT_BITSET: u64 = 9;
    let waits = [WAIT, WAIT_BITSET].contains(&(args[1] & 0x7f));
    let is_timed = args[3] != 0 && !mutant!("la64_timed_futex_wait_restarts");
    !(waits && is_timed)
}

pub(super) fn futex(thread: &mut Thread, args: &Args) -> i64 {
    // Waiting operations take a timeout, the others a second number, in the same place.
    let timeout = matches!(args[1] & 0x7f, 0 | 6 | 9 | 11 | 13);
    pass(thread, libc::SYS_futex, if timeout { "piippi" } else { "piiipi" }, args)
}

pub(super) fn prctl(thread: &mut Thread, args: &Args) -> i64 {
    const GET_PDEATHSIG: u64 = 2;
    const NAMES: [u64; 2] = [15, 16];
    const GET_SUBREAPER: u64 = 37;
    match args[0] {
        o if o == GET_PDEATHSIG || o == GET_SUBREAPER || NAMES.contains(&o) => {
            pass(thread, libc::SYS_prctl, "ipiii", args)
        }
        // Death signal, dumpable, keep capabilities, bounding set, secure bits, timer slack,
        // subreaper, no new privileges, huge pages, ambient set, tracer.
        1 | 3 | 4 | 7 | 8 | 23 | 24 | 27..=30 | 36 | 38 | 39 | 41 | 42 | 47 | 0x5961_6d61 => {
            pass(thread, libc::SYS_prctl, "iiiii", args)
        }
        _ => err(libc::EINVAL),
    }
}

pub(super) fn uname(thread: &mut Thread, args: &Args) -> i64 {
    const FIELD: u64 = 65;
    let done = pass(thread, libc::SYS_uname, "p", args);
    let mut machine = [0; FIELD as usize];
    machine[..11].copy_from_slice(b"loongarch64");
    match done {
        0 => {
            thread.cpu.window.write(args[0] + 4 * FIELD, &machine).map_or(err(libc::EFAULT), |()| 0)
        }
        code => code,
    }
}

pub(super) fn sigaltstack(thread: &mut Thread, args: &Args) -> i64 {
    let window = thread.cpu.window;
    let [base, len, flags] = thread.alternate;
    if args[1] != 0 && window.store_words(args[1], [base, flags, len]).is_none() {
        return err(libc::EFAULT);
    }
    if args[0] != 0 {
        let Some([base, flags, len]) = window.load_words::<3>(args[0]) else {
            return err(libc::EFAULT);
        };
        if flags & SS_DISABLE == 0 && len < 2048 {
            return err(libc::ENOMEM);
        }
        thread.alternate = [base, len, flags & SS_DISABLE];
    }
    0
}

pub(super) fn rt_sigaction(thread: &mut Thread, args: &Args) -> i64 {
    let [signal, new, old, ..] = *args;
    if !(1..=64).contains(&signal) || new != 0 && [9, 19].contains(&signal) {
        return err(libc::EINVAL);
    }
    let window = thread.cpu.window;
    let read = match new {
        0 => Some(None),
        at => window.load_words::<3>(at).map(Some),
    };
    let Some(read) = read else { return err(libc::EFAULT) };
    let mut actions = lock(&thread.process.actions);
    let before = actions[signal as usize - 1];
    if let Some([handler, flags, mask]) = read {
        actions[signal as usize - 1] = Action { handler, flags, mask };
        let disposition = match handler {
            0 => Disposition::Default,
            1 => Disposition::Ignore,
            _ => Disposition::Note,
        };
        raw::set_disposition(signal as u32, disposition, flags);
    }
    drop(actions);
    if old != 0 && window.store_words(old, [before.handler, before.flags, before.mask]).is_none() {
        return err(libc::EFAULT);
    }
    0
}

pub(super) fn rt_sigprocmask(thread: &mut Thread, args: &Args) -> i64 {
    let [how, new, old, ..] = *args;
    let window = thread.cpu.window;
    let before = thread.mask;
    if new != 0 {
        let Some(set) = window.load::<u64>(new) else { return err(libc::EFAULT) };
        let mask = match how {
            0 => before | set,
            1 => before & !set,
            2 => set,
            _ => return err(libc::EINVAL),
        };
        signal::set_mask(thread, mask);
    }
    if old != 0 && window.store(old, before).is_none() {
        return err(libc::EFAULT);
    }
    0
}

pub(super) fn rt_sigreturn(thread: &mut Thread) {
    signal::sigreturn(thread);
}

/// What `clone` and `clone3` ask for.
#[derive(Clone, Copy, Default)]
struct Birth {
    flags: u64,
    /// The child's stack pointer, 0 for the parent's.
    stack: u64,
    parent_tid: u64,
    child_tid: u64,
    tls: u64,
    /// Where the process descriptor goes, with `CLONE_PIDFD`.
    pidfd: u64,
}

pub(super) fn clone(thread: &mut Thread, args: &Args) -> i64 {
    let [flags, stack, parent_tid, child_tid, tls, _] = *args;
    // The old call has one place for both.
    let pidfd = parent_tid;
    give_birth(thread, Birth { flags, stack, parent_tid, child_tid, tls, pidfd })
}

/// Flags of `clone3` that have a meaning here. Namespaces and control groups are the host's.
const CLONE3_FLAGS: u64 = CLONE_VM
    | 0xe00 // Shared file system data, files, handlers.
    | CLONE_PIDFD
    | CLONE_VFORK
    | CLONE_THREAD
    | 0x4_0000 // Shared semaphore adjustments.
    | CLONE_SETTLS
    | CLONE_PARENT_SETTID
    | CLONE_CHILD_CLEARTID
    | CLONE_CHILD_SETTID
    | CLONE_CLEAR_SIGHAND;

pub(super) fn clone3(thread: &mut Thread, args: &Args) -> i64 {
    const LEN_MIN: u64 = 64;
    const LEN_MAX: u64 = 4096;
    let [at, len, ..] = *args;
    if len < LEN_MIN {
        return err(libc::EINVAL);
    }
    if len > LEN_MAX {
        return err(libc::E2BIG);
    }
    let mut bytes = vec![0; len as usize];
    let Some(()) = thread.cpu.window.read(at, &mut bytes) else { return err(libc::EFAULT) };
    let word = |n: usize| {
        let bytes = bytes.get(8 * n..8 * n + 8).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    };
    // Process ids of one's own choice and control groups, which need privileges, and what later
    // versions may have added.
    if bytes[LEN_MIN as usize..].iter().any(|&b| b != 0) {
        return err(if word(8) != 0 || word(9) != 0 { libc::EPERM } else { libc::E2BIG });
    }
    let [flags, pidfd, child_tid, parent_tid, signal, base, length, tls] =
        std::array::from_fn(word);
    let is_thread = flags & CLONE_THREAD != 0;
    let bad_signal = if is_thread { signal != 0 } else { signal > 64 };
    let bad_stack = (base == 0) != (length == 0);
    let bad_thread = is_thread && flags & (CLONE_PIDFD | CLONE_CLEAR_SIGHAND) != 0;
    if flags & !CLONE3_FLAGS != 0 || bad_signal || bad_stack || bad_thread {
        return err(libc::EINVAL);
    }
    let stack = base.wrapping_add(length);
    give_birth(thread, Birth { flags, stack, parent_tid, child_tid, tls, pidfd })
}

fn give_birth(thread: &mut Thread, birth: Birth) -> i64 {
    let has = |flags: u64| birth.flags & flags == flags;
    if has(CLONE_THREAD) {
        return if has(CLONE_VM) { spawn(thread, birth) } else { err(libc::EINVAL) };
    }
    // A process shares nothing with its parent here; a vfork's need not, for its parent waits.
    let shared = SHARED & birth.flags & if has(CLONE_VFORK) { !CLONE_VM } else { u64::MAX };
    if shared != 0 {
        let what = format!("clone: a process that shares what flags {shared:#x} say");
        super::name_once(thread, CLONE << 32 | shared, &what);
        return err(libc::EINVAL);
    }
    fork(thread, birth)
}

/// A thread of the same process, on a new host thread.
fn spawn(thread: &mut Thread, birth: Birth) -> i64 {
    let mut cpu = littoral_la64::interp::Cpu::new(thread.cpu.window, thread.cpu.features);
    cpu.state = thread.cpu.state.clone();
    cpu.time = thread.cpu.time;
    cpu.state.instructions = 0;
    cpu.state.x[3] = birth.stack;
    cpu.state.x[4] = 0;
    if birth.flags & CLONE_SETTLS != 0 {
        cpu.state.x[2] = birth.tls;
    }
    // The new host thread starts with signals blocked, until it has a place to note them.
    let mask = thread.mask;
    let before = raw::set_mask(u64::MAX);
    let (process, body) = (thread.process.clone(), thread.body);
    let (send, receive) = std::sync::mpsc::channel();
    let started = std::thread::Builder::new().name("guest".into()).spawn(move || {
        let mut child = Thread::with_cpu(process, cpu, mask, body);
        let tid = raw::gettid();
        for (flag, at) in
            [(CLONE_PARENT_SETTID, birth.parent_tid), (CLONE_CHILD_SETTID, birth.child_tid)]
        {
            if birth.flags & flag != 0 {
                let _ = child.cpu.window.store(at, tid as u32);
            }
        }
        if birth.flags & CLONE_CHILD_CLEARTID != 0 {
            child.clear_tid = birth.child_tid;
        }
        // The parent may have been killed meanwhile; the thread runs all the same.
        let _ = send.send(tid);
        body(&mut child);
    });
    let tid = started.ok().and_then(|_| receive.recv().ok());
    raw::set_mask(before);
    tid.unwrap_or(err(libc::EAGAIN))
}

/// A new process. A vfork is a fork whose parent waits until the child has called exec or ended:
/// what the child writes to shared memory in between stays its own.
fn fork(thread: &mut Thread, birth: Birth) -> i64 {
    let wait = if birth.flags & CLONE_VFORK != 0 { std::io::pipe().ok() } else { None };
    let process = thread.process.clone();
    let observers =
        (process.profile.as_ref().map(Profile::hold), process.perf_map.as_ref().map(PerfMap::hold));
    let space = lock(&process.space);
    let actions = lock(&process.actions);
    let mut threads = lock(&process.threads);
    let unknown = lock(&process.unknown);
    let pid = raw::fork();
    if pid == 0 {
        threads.retain(|t| std::sync::Arc::ptr_eq(t, &thread.pending));
    }
    drop((observers, space, actions, threads, unknown));
    if pid == 0 {
        // The child keeps the writer open, close-on-exec, to its end.
        std::mem::forget(wait);
        born(thread, birth);
        return 0;
    }
    if pid > 0 {
        let result = told(thread, birth, pid);
        if let Some((mut reader, writer)) = wait {
            drop(writer);
            // Ends when the last copy of the writer closes, whatever comes first.
            let _ = reader.read(&mut [0]);
        }
        return result;
    }
    pid
}

/// What the parent learns about its child.
fn told(thread: &Thread, birth: Birth, pid: i64) -> i64 {
    let window = &thread.cpu.window;
    if birth.flags & CLONE_PARENT_SETTID != 0 {
        let _ = window.store(birth.parent_tid, pid as u32);
    }
    if birth.flags & CLONE_PIDFD != 0 {
        let list = &mut [Arg::Int(pid as u64), Arg::Int(0)];
        let fd = raw::call_now(window, libc::SYS_pidfd_open, list);
        let _ = window.store(birth.pidfd, fd as u32);
    }
    pid
}

/// What makes a copy of the parent the child that was asked for.
fn born(thread: &mut Thread, birth: Birth) {
    let tid = raw::gettid();
    thread.pending.forget();
    thread.forget_the_past();
    raw::set_mask(thread.mask);
    thread.pending.tid.store(tid as u64, Ordering::Release);
    thread.pending.robust_list.store(0, Ordering::Release);
    if birth.stack != 0 {
        thread.cpu.state.x[3] = birth.stack;
    }
    if birth.flags & CLONE_SETTLS != 0 {
        thread.cpu.state.x[2] = birth.tls;
    }
    if birth.flags & CLONE_CHILD_SETTID != 0 {
        let _ = thread.cpu.window.store(birth.child_tid, tid as u32);
    }
    let clears = birth.flags & CLONE_CHILD_CLEARTID != 0;
    thread.clear_tid = if clears { birth.child_tid } else { 0 };
    if birth.flags & CLONE_CLEAR_SIGHAND != 0 {
        let mut actions = lock(&thread.process.actions);
        for (n, action) in actions.iter_mut().enumerate().filter(|(_, a)| a.handler > 1) {
            *action = Action::default();
            raw::set_disposition(n as u32 + 1, Disposition::Default, 0);
        }
    }
}
