//! System V shared memory and semaphores, and notices of message queues: what attaches memory, and
//! what has pointers or structures of another layout.

use super::super::abi::numbers::Kind;
use super::super::raw::{self, Arg};
use super::super::space::Attach;
use super::super::thread::Thread;
use super::memory::with_space;
use super::{Args, err, pass};
use littoral_base::mutant;
use littoral_la64::front::Architecture;

/// Attached segments begin at multiples of this (SHMLBA), which is more than a page.
const SEGMENT_ALIGN: u64 = 0x1_0000;

/// shmat: at the address given, or at one of our choice.
pub(super) fn shmat(thread: &mut Thread, args: &Args) -> i64 {
    const READ_ONLY: u64 = libc::SHM_RDONLY as u64;
    const ROUND: u64 = libc::SHM_RND as u64;
    const REPLACE: u64 = 0o40000;
    const EXECUTE: u64 = 0o100000;
    let [id, at, flags, ..] = *args;
    let at = if flags & ROUND != 0 { at & !(SEGMENT_ALIGN - 1) } else { at };
    let is_bad = !at.is_multiple_of(SEGMENT_ALIGN) || flags & REPLACE != 0 && at == 0;
    if is_bad || flags & !(READ_ONLY | ROUND | REPLACE | EXECUTE) != 0 {
        return err(libc::EINVAL);
    }
    let len = match segment_len(thread, id) {
        Ok(len) => len,
        Err(code) => return code,
    };
    let write = if flags & READ_ONLY == 0 { 2 } else { 0 };
    let execute = if flags & EXECUTE != 0 { 4 } else { 0 };
    let prot = 1 | write | execute;
    let request = Attach { id, at, len, prot, replaces: flags & REPLACE != 0 };
    with_space(&thread.process, |space| space.attach(&request, SEGMENT_ALIGN))
}

/// The length of a segment in bytes.
fn segment_len(thread: &Thread, id: u64) -> Result<u64, i64> {
    const LEN_AT: usize = 48;
    let mut bytes = [0; 128];
    let list = &mut [Arg::Int(id), Arg::Int(libc::IPC_STAT as u64), Arg::Out(&mut bytes)];
    match raw::call_now(&thread.cpu.window, libc::SYS_shmctl, list) {
        0 => {
            let len = bytes[LEN_AT..LEN_AT + 8].try_into().expect("invariant: eight bytes");
            Ok(u64::from_le_bytes(len))
        }
        code => Err(code),
    }
}

pub(super) fn shmdt(thread: &mut Thread, args: &Args) -> i64 {
    with_space(&thread.process, |space| space.detach(args[0]))
}

/// Bytes of permissions at the head of a `semid64_ds`.
const PERMISSIONS_LEN: usize = 48;

/// A layout of `semid64_ds` behind its permissions: length, places of the times of the latest
/// operation and change and of the count of semaphores.
struct SemaphoresLayout {
    len: usize,
    places: [usize; 3],
}

/// On x86-64 a word of padding follows each time.
const PADDED: SemaphoresLayout = SemaphoresLayout { len: 104, places: [48, 64, 80] };
/// The kernel's generic one.
const PLAIN: SemaphoresLayout = SemaphoresLayout { len: 88, places: [48, 56, 64] };
const HOST: SemaphoresLayout = if cfg!(target_arch = "x86_64") { PADDED } else { PLAIN };

/// semctl: the fourth argument is a number, an array, or a structure of another layout.
pub(super) fn semctl(thread: &mut Thread, args: &Args) -> i64 {
    const GET_ALL: u64 = 13;
    const SET_ALL: u64 = 17;
    const STAT: u64 = 18;
    const INFO: u64 = 19;
    const STAT_ANY: u64 = 20;
    const IPC_SET: u64 = 1;
    const IPC_STAT: u64 = 2;
    const IPC_INFO: u64 = 3;
    match args[2] {
        GET_ALL | SET_ALL | IPC_INFO | INFO => pass(thread, libc::SYS_semctl, "iiip", args),
        IPC_STAT | STAT | STAT_ANY => {
            let mut host = [0; 104];
            let list =
                &mut [Arg::Int(args[0]), Arg::Int(args[1]), Arg::Int(args[2]), Arg::Out(&mut host)];
            let done = raw::call_now(&thread.cpu.window, libc::SYS_semctl, list);
            if done < 0 {
                return done;
            }
            let written = thread.cpu.window.write(args[3], &guest_semaphores(thread, &host));
            written.map_or(err(libc::EFAULT), |()| done)
        }
        // Only the permissions are read, which lie in the same places.
        IPC_SET => {
            let mut host = [0; 104];
            if thread.cpu.window.read(args[3], &mut host[..PERMISSIONS_LEN]).is_none() {
                return err(libc::EFAULT);
            }
            let list =
                &mut [Arg::Int(args[0]), Arg::Int(args[1]), Arg::Int(args[2]), Arg::In(&host)];
            raw::call_now(&thread.cpu.window, libc::SYS_semctl, list)
        }
        _ => pass(thread, libc::SYS_semctl, "iiii", args),
    }
}

fn guest_semaphores(thread: &Thread, host: &[u8; 104]) -> Vec<u8> {
    let is_padded = thread.process.abi.architecture == Some(Architecture::X86_64);
    let layout = if is_padded && !mutant!("x86_semaphores_unpadded") { PADDED } else { PLAIN };
    let mut guest = vec![0; layout.len];
    guest[..PERMISSIONS_LEN].copy_from_slice(&host[..PERMISSIONS_LEN]);
    for (to, from) in layout.places.into_iter().zip(HOST.places) {
        guest[to..to + 8].copy_from_slice(&host[from..from + 8]);
    }
    guest
}

/// The words of a guest's `struct sigevent`, with the host's signal.
pub(super) fn event(thread: &Thread, at: u64) -> Result<[u64; 8], i64> {
    const SIGNAL: u64 = 0xffff_ffff;
    let mut event = thread.cpu.window.load_words::<8>(at).ok_or(err(libc::EFAULT))?;
    let signal = thread.process.abi.numbers.argument(Kind::Signal, event[1] & SIGNAL);
    if !mutant!("mips64_event_signal_stays") {
        event[1] = event[1] & !SIGNAL | signal;
    }
    Ok(event)
}

/// The bytes of an event.
pub(super) fn event_bytes(event: &[u64; 8]) -> Vec<u8> {
    event.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// mq_notify: for a notice by a thread the value is the address of a cookie.
pub(super) fn mq_notify(thread: &mut Thread, args: &Args) -> i64 {
    const BY_THREAD: u64 = libc::SIGEV_THREAD as u64;
    if args[1] == 0 {
        return pass(thread, libc::SYS_mq_notify, "ip", args);
    }
    let window = thread.cpu.window;
    let mut event = match event(thread, args[1]) {
        Ok(event) => event,
        Err(code) => return code,
    };
    if event[1] >> 32 == BY_THREAD {
        let Some(cookie) = window.host(event[0], 32) else { return err(libc::EFAULT) };
        event[0] = cookie as u64;
    }
    let event = event_bytes(&event);
    let list = &mut [Arg::Int(args[0]), Arg::In(&event)];
    raw::call_now(&window, libc::SYS_mq_notify, list)
}
