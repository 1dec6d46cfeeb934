//! Robust futex lists: what the kernel does for a thread that dies while it holds robust locks.
//!
//! The host's kernel cannot walk the guest's list, whose links are guest addresses; so it is walked
//! here when a thread exits and when the process ends by a call or by a fault. A process that a
//! signal of another one kills, and one that calls `execve`, leave their robust locks held.
//!
//! List head: address of the first entry (bit 0: priority inheritance), signed offset from an entry
//! to its futex word, address of the entry being taken or released. The last entry leads back to
//! the head.

use super::raw::{self, Arg};
use littoral_base::mutant;
use littoral_la64::memory::Window;

/// Length of the head, the only one the kernel takes.
pub(super) const HEAD_LEN: u64 = 24;
/// As many entries as the kernel follows.
const ENTRIES_MAX: usize = 2048;
const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const TID: u32 = 0x3fff_ffff;
const FUTEX_WAKE: u64 = 1;

/// Whether there are locks on a list, or one that its thread is taking or releasing.
pub(super) fn holds(window: &Window, head: u64) -> bool {
    let words = if head == 0 { None } else { window.load_words::<3>(head) };
    words.is_some_and(|[first, _, pending]| first & !1 != head || pending & !1 != 0)
}

/// Marks the locks on the list as left by their dead owner and wakes one waiter each. What cannot
/// be read ends the walk, as in the kernel.
pub(super) fn release(window: &Window, head: u64, tid: u32) {
    if head != 0 {
        // The guest's list may lie nowhere; the walk then has done what it could.
        let _ = walk(window, head, tid);
    }
}

fn walk(window: &Window, head: u64, tid: u32) -> Option<()> {
    let [first, offset, pending] = window.load_words::<3>(head)?;
    let mut entry = first;
    for _ in 0..ENTRIES_MAX {
        if entry & !1 == head {
            break;
        }
        // Read before the entry is given away: its new owner may unlink it.
        let next = window.load::<u64>(entry & !1);
        if entry & !1 != pending & !1 {
            die(window, entry, offset, tid, false)?;
        }
        entry = next?;
    }
    match pending & !1 {
        0 => Some(()),
        _ => die(window, pending, offset, tid, true),
    }
}

fn die(window: &Window, entry: u64, offset: u64, tid: u32, is_pending: bool) -> Option<()> {
    let at = (entry & !1).wrapping_add(offset);
    if !at.is_multiple_of(4) {
        return None;
    }
    let inherits = entry & 1 == 1;
    let mut seen = window.load::<u32>(at)?;
    loop {
        // Released already, but perhaps no thread was woken; or the thread was woken, and died
        // before the lock was its own.
        let is_free = seen & TID == 0 && (seen == 0 || !mutant!("la64_lost_owner_wakes_none"));
        if is_pending && !inherits && is_free {
            wake(window, at);
            return Some(());
        }
        if seen & TID != tid {
            return Some(());
        }
        match window.swap_if(at, seen, seen & WAITERS | OWNER_DIED)? {
            now if now == seen => break,
            now => seen = now,
        }
    }
    if !inherits && seen & WAITERS != 0 {
        wake(window, at);
    }
    Some(())
}

fn wake(window: &Window, at: u64) {
    let list = &mut [Arg::Guest(at), Arg::Int(FUTEX_WAKE), Arg::Int(1)];
    raw::call_now(window, libc::SYS_futex, list);
}
