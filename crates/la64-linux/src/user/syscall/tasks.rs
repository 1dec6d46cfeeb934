//! Threads, processes, signals and identity.

use super::super::abi::numbers::Kind;
use super::super::perf_map::PerfMap;
use super::super::process::{Action, HOST_STACK, Process};
use super::super::profile::Profile;
use super::super::raw::{self, Arg, Disposition};
use super::super::robust;
use super::super::signal;
use super::super::sync::lock;
use super::super::thread::Thread;
use super::{Args, err, pass};
use crate::options::Memory;
use littoral_base::mutant;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

const CLONE_VM: u64 = 0x100;
/// The caller's parent is the new process's parent too.
const CLONE_PARENT: u64 = 0x8000;
/// Memory, file system data, files, handlers, semaphore adjustments, the parent and the namespaces.
const SHARED: u64 = CLONE_VM | 0xe00 | CLONE_PARENT | 0x4_0000 | 0x7e02_0000;
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
    if thread.lent {
        // A process of one thread, whose lists are the parent's.
        thread.exit_group(args[0] as i32);
    }
    raw::set_mask(u64::MAX);
    if thread.pending.any() {
        // The kernel has given it to this thread, so no other one gets it.
        return raw::RESTART;
    }
    thread.ended = true;
    thread.process.unwatch_all(&thread.pending);
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
    const SET_PDEATHSIG: u64 = 1;
    const GET_PDEATHSIG: u64 = 2;
    const NAMES: [u64; 2] = [15, 16];
    const GET_SUBREAPER: u64 = 37;
    let numbers = thread.process.abi.numbers;
    match args[0] {
        SET_PDEATHSIG => {
            let mut args = *args;
            args[1] = numbers.argument(Kind::Signal, args[1]);
            pass(thread, libc::SYS_prctl, "iiiii", &args)
        }
        GET_PDEATHSIG => {
            let done = pass(thread, libc::SYS_prctl, "ipiii", args);
            let window = thread.cpu.window;
            let signal = (done == 0).then(|| window.load::<u32>(args[1])).flatten();
            let stored = signal.map(|n| window.store(args[1], numbers.guest_signal(n)));
            if stored == Some(None) { err(libc::EFAULT) } else { done }
        }
        o if o == GET_SUBREAPER || NAMES.contains(&o) => {
            pass(thread, libc::SYS_prctl, "ipiii", args)
        }
        // Dumpable, keep capabilities, bounding set, secure bits, timer slack, subreaper, no new
        // privileges, huge pages, ambient set, tracer.
        3 | 4 | 7 | 8 | 23 | 24 | 27..=30 | 36 | 38 | 39 | 41 | 42 | 47 | 0x5961_6d61 => {
            pass(thread, libc::SYS_prctl, "iiiii", args)
        }
        _ => err(libc::EINVAL),
    }
}

pub(super) fn uname(thread: &mut Thread, args: &Args) -> i64 {
    const FIELD: u64 = 65;
    let done = pass(thread, libc::SYS_uname, "p", args);
    let name = thread.process.abi.uname.as_bytes();
    let mut machine = [0; FIELD as usize];
    machine[..name.len()].copy_from_slice(name);
    match done {
        0 => {
            thread.cpu.window.write(args[0] + 4 * FIELD, &machine).map_or(err(libc::EFAULT), |()| 0)
        }
        code => code,
    }
}

pub(super) fn sigaltstack(thread: &mut Thread, args: &Args) -> i64 {
    let window = thread.cpu.window;
    let before = signal::stack_words(thread);
    if args[0] != 0 {
        let Some(words) = window.load_words::<3>(args[0]) else {
            return err(libc::EFAULT);
        };
        if let Err(error) = signal::set_stack(thread, words) {
            return err(error);
        }
    }
    if args[1] != 0 && window.store_words(args[1], before).is_none() {
        return err(libc::EFAULT);
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
        at => (thread.process.abi.signals.load_action)(&window, at).map(Some),
    };
    let Some(read) = read else { return err(libc::EFAULT) };
    let mut actions = thread.actions();
    let before = actions[signal as usize - 1];
    if let Some(action) = read {
        let Action { handler, flags, .. } = action;
        actions[signal as usize - 1] = action;
        let disposition = match handler {
            0 => Disposition::Default,
            1 => Disposition::Ignore,
            _ => Disposition::Note,
        };
        raw::set_disposition(signal as u32, disposition, flags);
    }
    drop(actions);
    let store = thread.process.abi.signals.store_action;
    if old != 0 && store(&window, old, before).is_none() {
        return err(libc::EFAULT);
    }
    0
}

pub(super) fn rt_sigprocmask(thread: &mut Thread, args: &Args) -> i64 {
    let [how, new, old, ..] = *args;
    let window = thread.cpu.window;
    let before = thread.mask;
    let abi = thread.process.abi;
    if new != 0 {
        let Some(set) = window.load::<u64>(new) else { return err(libc::EFAULT) };
        let set = abi.numbers.host_set(set);
        let mask = match how {
            0 => before | set,
            1 => before & !set,
            2 => set,
            _ => return err(libc::EINVAL),
        };
        if mask & !before != 0 {
            raw::set_mask(u64::MAX);
            if thread.pending.any() {
                // It came when it was not blocked, so its handler runs before the call.
                return raw::RESTART;
            }
        }
        signal::set_mask(thread, mask);
    }
    let mut bytes = abi.numbers.guest_set(before).to_le_bytes().to_vec();
    bytes.resize(abi.signals.set_len as usize, 0);
    if old != 0 && window.write(old, &bytes).is_none() {
        return err(libc::EFAULT);
    }
    0
}

/// What is blocked and pending, by the host's numbers: in the kernel, and held back here.
pub(super) fn pending_set(thread: &Thread) -> Result<u64, i64> {
    let mut host = [0; super::SET_LEN as usize];
    let list = &mut [Arg::Out(&mut host), Arg::Int(super::SET_LEN)];
    match raw::call_now(&thread.cpu.window, libc::SYS_rt_sigpending, list) {
        0 => Ok(u64::from_le_bytes(host) | thread.pending.held()),
        code => Err(code),
    }
}

pub(super) fn rt_sigpending(thread: &mut Thread, args: &Args) -> i64 {
    let [at, len, ..] = *args;
    if len > super::SET_LEN {
        return err(libc::EINVAL);
    }
    let set = match pending_set(thread) {
        Ok(set) => set.to_le_bytes(),
        Err(code) => return code,
    };
    thread.cpu.window.write(at, &set[..len as usize]).map_or(err(libc::EFAULT), |()| 0)
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
    /// The parent asks to be told of its end by SIGCHLD.
    tells: bool,
}

/// Whether a guest's signal is SIGCHLD.
fn is_child_signal(thread: &Thread, signal: u64) -> bool {
    signal == u64::from(thread.process.abi.numbers.guest_signal(libc::SIGCHLD as u32))
}

pub(super) fn clone(thread: &mut Thread, args: &Args) -> i64 {
    let [flags, stack, parent_tid, child_tid, tls] = (thread.process.abi.clone)(args);
    // The old call has one place for both.
    let pidfd = parent_tid;
    let tells = is_child_signal(thread, flags & 0xff);
    give_birth(thread, Birth { flags, stack, parent_tid, child_tid, tls, pidfd, tells })
}

/// A process with a copy of the memory.
pub(super) fn fork_alone(thread: &mut Thread, _: &Args) -> i64 {
    give_birth(thread, Birth { tells: true, ..Birth::default() })
}

/// A process that runs in the memory of its parent, which waits.
pub(super) fn vfork_alone(thread: &mut Thread, _: &Args) -> i64 {
    give_birth(thread, Birth { flags: CLONE_VM | CLONE_VFORK, tells: true, ..Birth::default() })
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
    let tells = is_child_signal(thread, signal);
    give_birth(thread, Birth { flags, stack, parent_tid, child_tid, tls, pidfd, tells })
}

fn give_birth(thread: &mut Thread, birth: Birth) -> i64 {
    // Numbers of threads are written to the guest's memory.
    thread.process.unwatch_all(&thread.pending);
    let has = |flags: u64| birth.flags & flags == flags;
    if has(CLONE_THREAD) {
        return match thread.lent {
            // The host's thread would outlive its process's use of this memory.
            true => err(libc::EAGAIN),
            false if has(CLONE_VM) => spawn(thread, birth),
            false => err(libc::EINVAL),
        };
    }
    // A process shares memory with its parent here only while that one waits.
    let shared = SHARED & birth.flags & if has(CLONE_VFORK) { !CLONE_VM } else { u64::MAX };
    if shared != 0 {
        let what = format!("clone: a process that shares what flags {shared:#x} say");
        super::name_once(thread, CLONE << 32 | shared, &what);
        return err(libc::EINVAL);
    }
    // A debugger would see both processes in one memory.
    let lends = has(CLONE_VM | CLONE_VFORK) && thread.process.debugger.is_none();
    match lends && !mutant!("la64_vfork_copies_memory") {
        true => vfork(thread, birth),
        false => fork(thread, birth),
    }
}

/// A process in this one's memory until it runs another program or ends, while this thread waits.
/// It goes on with the thread itself, which gets back what is not the memory's.
fn vfork(thread: &mut Thread, birth: Birth) -> i64 {
    raw::set_mask(u64::MAX);
    if thread.pending.any() {
        signal::apply_mask(thread);
        return raw::RESTART;
    }
    let state = thread.cpu.state.clone();
    let (mask, alternate, clear_tid) = (thread.mask, thread.alternate, thread.clear_tid);
    let robust_list = thread.pending.robust_list.load(Ordering::Acquire);
    let actions = *thread.actions();
    let outer = thread.own_actions.replace(Arc::new(Mutex::new(actions)));
    let limits = thread.limits();
    let outer_limits = thread.own_limits.replace(limits);
    let lent = std::mem::replace(&mut thread.lent, true);
    let pid = raw::vfork(&mut || {
        take_birth(thread, birth);
        thread.answer(0);
        raw::set_mask(thread.mask);
        (thread.body)(thread);
    });
    if let Some(translator) = &thread.process.translator {
        translator.is_outside(&thread.cpu);
    }
    thread.cpu.state = state;
    (thread.mask, thread.alternate, thread.clear_tid) = (mask, alternate, clear_tid);
    thread.lent = lent;
    thread.pending.forget();
    thread.pending.robust_list.store(robust_list, Ordering::Release);
    (thread.own_actions, thread.own_limits) = (outer, outer_limits);
    // Not by a borrow: the child's is never given back.
    thread.left = RefCell::default();
    signal::apply_mask(thread);
    if pid > 0 { told(thread, birth, pid) } else { pid }
}

/// A thread of the same process, on a new host thread.
fn spawn(thread: &mut Thread, birth: Birth) -> i64 {
    if let Some(translator) = &thread.process.translator
        && thread.process.options.memory == Memory::Tso
    {
        translator.begin_threads(&thread.process.window, &thread.process.changes.epoch);
    }
    let mut cpu = littoral_la64::interp::Cpu::new(thread.cpu.window, thread.cpu.features);
    cpu.state = thread.cpu.state.clone();
    cpu.time = thread.cpu.time;
    cpu.state.instructions = 0;
    let process = &thread.process;
    if let Some(translator) = &process.translator {
        translator.prepare(&mut cpu.state);
    }
    let (abi, mut registers) = (process.abi, process.registers(&mut cpu.state));
    registers.set(abi.roles.stack, birth.stack);
    (abi.answer)(&mut registers, 0);
    if birth.flags & CLONE_SETTLS != 0 {
        registers.set(abi.roles.thread, birth.tls);
    }
    // The new host thread starts with signals blocked, until it has a place to note them.
    let mask = thread.mask;
    let before = raw::set_mask(u64::MAX);
    let (process, body) = (thread.process.clone(), thread.body);
    let (send, receive) = std::sync::mpsc::channel();
    // Without a name of its own it inherits this thread's, as in the kernel.
    let builder = std::thread::Builder::new();
    let started = builder.stack_size(HOST_STACK as usize).spawn(move || {
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

/// A new process with a copy of the memory. With `CLONE_VFORK` the parent waits until the child has
/// called `execve` or ended.
fn fork(thread: &mut Thread, birth: Birth) -> i64 {
    let wait = if birth.flags & CLONE_VFORK != 0 { std::io::pipe().ok() } else { None };
    let process = thread.process.clone();
    // The child forgets what was noted for its parent. What is sent to the child itself must wait
    // until then.
    let before = match mutant!("la64_forked_child_loses_signals") {
        true => None,
        false => Some(raw::set_mask(u64::MAX)),
    };
    let pid = while_still(&process, || {
        let _quiet = process.debugger.as_ref().map(|debugger| debugger.quiet());
        // Before the space, which threads lock that compare a record with memory.
        let _kept = process.disk.as_ref().map(|disk| disk.store.hold());
        let _observers = (
            process.profile.as_ref().map(Profile::hold),
            process.perf_map.as_ref().map(PerfMap::hold),
        );
        let _space = lock(&process.space);
        let _actions = thread.actions();
        // Those of a child of vfork are others than its parent's, which the new process takes over.
        let _parents = thread.own_actions.is_some().then(|| lock(&process.actions));
        let mut threads = lock(&process.threads);
        let _unknown = lock(&process.unknown);
        let mut clones = lock(&process.clones);
        // Another thread may be saying something.
        let _said = std::io::stderr().lock();
        let pid = raw::fork();
        if pid == 0 {
            threads.retain(|t| std::sync::Arc::ptr_eq(t, &thread.pending));
            clones.clear();
        }
        pid
    });
    if pid == 0 {
        // The child keeps the writer open, close-on-exec, to its end.
        std::mem::forget(wait);
        born(thread, birth);
        return 0;
    }
    if let Some(before) = before {
        raw::set_mask(before);
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

/// Does something while no thread adds or drops code.
fn while_still(process: &Process, f: impl FnOnce() -> i64) -> i64 {
    process.cache.still(|| match &process.translator {
        None => f(),
        Some(translator) => {
            let (mut f, mut result) = (Some(f), err(libc::EAGAIN));
            translator.still(&mut || result = f.take().map_or(result, |f| f()));
            result
        }
    })
}

/// What the parent learns about its child.
fn told(thread: &Thread, birth: Birth, pid: i64) -> i64 {
    let window = &thread.cpu.window;
    let mut clones = lock(&thread.process.clones);
    // An older process may have had the number.
    let _ = if birth.tells { clones.remove(&pid) } else { clones.insert(pid) };
    drop(clones);
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

/// The options of a wait, which with `__WCLONE` asks for those children alone that tell their end
/// by another signal than SIGCHLD, as no process of the host does. If there are several, or others
/// too, one of all is waited for. `is_known` says whether one of those that are such is asked for.
fn wait_options(
    thread: &Thread,
    options: u64,
    is_known: impl FnOnce(&BTreeSet<i64>) -> bool,
) -> u64 {
    const WALL: u64 = 0x4000_0000;
    const WCLONE: u64 = 0x8000_0000;
    let is_clone = options & (WALL | WCLONE) == WCLONE && !mutant!("la64_clones_are_not_found");
    match is_clone && is_known(&lock(&thread.process.clones)) {
        true => options & !WCLONE,
        false => options,
    }
}

/// As the host's, with `__WCLONE` (see [`wait_options`]).
pub(super) fn wait4(thread: &mut Thread, args: &Args) -> i64 {
    const STOPS: u64 = (libc::WUNTRACED | libc::WCONTINUED) as u64;
    let (mut args, options) = (*args, args[2]);
    let pid = i64::from(args[0] as i32);
    args[2] = wait_options(thread, options, |clones| match pid {
        1.. => clones.contains(&pid),
        _ => !clones.is_empty(),
    });
    let done = pass(thread, libc::SYS_wait4, "ipip", &args);
    if done > 0 && options & STOPS == 0 {
        lock(&thread.process.clones).remove(&done);
    }
    done
}

/// As the host's, with `__WCLONE`; what it says of the child goes to `info`.
pub(super) fn wait_with_info(thread: &Thread, args: &Args, info: &mut [u8; 128]) -> i64 {
    const OF_ONE: u64 = libc::P_PID as u64;
    const NO_WAIT: u64 = libc::WNOWAIT as u64;
    let [kind, id, _, options, usage, _] = *args;
    let pid = i64::from(id as i32);
    let options = wait_options(thread, options, |clones| match kind {
        OF_ONE => clones.contains(&pid),
        _ => !clones.is_empty(),
    });
    let out = Arg::Out(&mut info[..]);
    let list = &mut [Arg::Int(kind), Arg::Int(id), out, Arg::Int(options), Arg::Guest(usage)];
    let done = raw::call(&thread.cpu.window, &thread.pending, libc::SYS_waitid, list);
    let word = |at: usize| i32::from_le_bytes(std::array::from_fn(|n| info[at + n]));
    let has_ended = (libc::CLD_EXITED..=libc::CLD_DUMPED).contains(&word(8));
    if done == 0 && has_ended && options & NO_WAIT == 0 {
        lock(&thread.process.clones).remove(&i64::from(word(16)));
    }
    done
}

/// As the host's, which writes the fields of a child's siginfo alone.
pub(super) fn waitid(thread: &mut Thread, args: &Args) -> i64 {
    let mut info = [0; 128];
    let done = wait_with_info(thread, args, &mut info);
    if done != 0 || args[2] == 0 {
        return done;
    }
    let window = &thread.cpu.window;
    let write = |(start, end): (usize, usize)| {
        window.write(args[2].wrapping_add(start as u64), &info[start..end])
    };
    [(0, 12), (16, 28)].into_iter().try_for_each(write).map_or(err(libc::EFAULT), |()| 0)
}

/// What makes a copy of the parent the child that was asked for.
fn born(thread: &mut Thread, birth: Birth) {
    // The memory is its own, also where its parent's was lent.
    thread.lent = false;
    if let Some(limits) = thread.own_limits.take() {
        lock(&thread.process.space).limits = limits;
    }
    let own = thread.own_actions.take().filter(|_| !mutant!("la64_handlers_stay_lent"));
    if let Some(own) = own {
        *lock(&thread.process.actions) = *lock(&own);
    }
    // Another thread may have been ending the parent, which is no end of the child.
    thread.process.ending.store(false, Ordering::SeqCst);
    let tid = raw::gettid();
    thread.pending.forget();
    thread.forget_the_past();
    if let Some(debugger) = &thread.process.debugger {
        debugger.turn_off();
    }
    thread.pending.tid.store(tid as u64, Ordering::Release);
    take_birth(thread, birth);
    raw::set_mask(thread.mask);
}

/// Registers, addresses and handlers that a child was asked to have.
fn take_birth(thread: &mut Thread, birth: Birth) {
    thread.pending.robust_list.store(0, Ordering::Release);
    let roles = &thread.process.abi.roles;
    if birth.stack != 0 {
        thread.set_register(roles.stack, birth.stack);
    }
    if birth.flags & CLONE_SETTLS != 0 {
        thread.set_register(roles.thread, birth.tls);
    }
    if birth.flags & CLONE_CHILD_SETTID != 0 {
        let _ = thread.cpu.window.store(birth.child_tid, raw::gettid() as u32);
    }
    let clears = birth.flags & CLONE_CHILD_CLEARTID != 0;
    thread.clear_tid = if clears { birth.child_tid } else { 0 };
    if birth.flags & CLONE_CLEAR_SIGHAND != 0 {
        let mut actions = thread.actions();
        for (n, action) in actions.iter_mut().enumerate().filter(|(_, a)| a.handler > 1) {
            *action = Action::default();
            raw::set_disposition(n as u32 + 1, Disposition::Default, 0);
        }
    }
}
