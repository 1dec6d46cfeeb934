//! Messages, one-sided pages, self-scheduling, `CREATE`, and the names of the paper's library.

use std::ffi::{c_char, c_int, c_ulong};
use std::sync::atomic::{AtomicBool, Ordering};

use littoral_dsm::Kind;
use littoral_dsm::memory::page_bytes;

use super::calls::{
    JOINED_BY_MACRO, LOCKS, jia_alloc1, jia_barrier, jia_exit, jia_lock, jia_unlock, jia_wait, join,
};
use super::export;
use super::life::{demand, die, need, settled};
use crate::rank::{LOOPS_MAX, Rank};
use crate::reduce::{combine, element_bytes};

/// Locks of self-scheduled loops lie behind those of programs.
const LOOP_LOCKS: u32 = LOCKS.cast_unsigned();
/// Any sender, or any tag, of a message: JIAJIA's `MSG_PROC_ALL` and `MSG_TAG_ALL`.
const ANY: c_int = -1;

/// The caller's bytes, copied: they may lie in shared memory, which faults.
fn bytes_at(call: &str, from: *const c_char, len: c_int) -> Vec<u8> {
    demand(len >= 0, call, || format!("a length of {len}; give 0 or more"));
    demand(!from.is_null() || len == 0, call, || "a null pointer; give a buffer".to_owned());
    if len == 0 {
        return Vec::new();
    }
    // SAFETY: the caller promises `len` readable bytes there.
    unsafe { std::slice::from_raw_parts(from.cast::<u8>(), len as usize) }.to_vec()
}

fn copy_out(call: &str, bytes: &[u8], into: *mut c_char, room: c_int) {
    demand(room >= 0, call, || format!("a length of {room}; give 0 or more"));
    let what = || format!("{} bytes for a buffer of {room}; give more room", bytes.len());
    demand(bytes.len() <= room as usize, call, what);
    demand(!into.is_null() || bytes.is_empty(), call, || {
        "a null pointer; give a buffer".to_owned()
    });
    if !bytes.is_empty() {
        // SAFETY: the caller promises `room` writable bytes there, and there are not more.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), into.cast::<u8>(), bytes.len()) };
    }
}

fn rank_of(call: &str, rank: &Rank, number: c_int) -> u16 {
    let ranks = rank.member.ranks();
    let found = u16::try_from(number).ok().filter(|n| *n < ranks);
    found.unwrap_or_else(|| die(&format!("{call}: host {number} of a job with {ranks}"), 2))
}

export! {
    /// Sends bytes to a rank.
    fn jia_send(from: *mut c_char, len: c_int, to: c_int, tag: c_int) {
        let rank = need("jia_send");
        let bytes = bytes_at("jia_send", from, len);
        settled("jia_send", rank.member.send(rank_of("jia_send", rank, to), tag, &bytes));
    }
}

export! {
    /// Waits for the next bytes that a rank has sent with this tag, each of them any where it is
    /// -1; how many there were.
    fn jia_recv(into: *mut c_char, len: c_int, from: c_int, tag: c_int) -> c_int {
        let rank = need("jia_recv");
        let from = (from != ANY).then(|| rank_of("jia_recv", rank, from));
        let tag = (tag != ANY).then_some(tag);
        let bytes = settled("jia_recv", rank.member.receive_matching(from, tag));
        copy_out("jia_recv", &bytes, into, len);
        bytes.len() as c_int
    }
}

export! {
    /// Gives every rank the root's bytes.
    fn jia_bcast(buffer: *mut c_char, len: c_int, root: c_int) {
        let rank = need("jia_bcast");
        let root = rank_of("jia_bcast", rank, root);
        let mine = bytes_at("jia_bcast", buffer, len);
        let bytes = settled("jia_bcast", rank.member.broadcast(root, &mine));
        copy_out("jia_bcast", &bytes, buffer, len);
    }
}

export! {
    /// Combines every rank's elements at the root.
    fn jia_reduce(from: *mut c_char, into: *mut c_char, count: c_int, op: c_int, root: c_int) {
        const CALL: &str = "jia_reduce";
        let rank = need(CALL);
        let root = rank_of(CALL, rank, root);
        let size = element_bytes(op).unwrap_or_else(|| {
            die(&format!("{CALL}: operation {op}; 0 to 2, 10 to 12 or 20 to 22"), 2)
        });
        let len = usize::try_from(count).ok().and_then(|n| n.checked_mul(size));
        let len = len.and_then(|len| c_int::try_from(len).ok());
        let len = len.unwrap_or_else(|| die(&format!("{CALL}: {count} elements; give fewer"), 2));
        let mine = bytes_at(CALL, from, len);
        let all = settled(CALL, rank.member.gather(root, &mine));
        let mut parts = all.into_iter();
        let Some(mut sum) = parts.next() else { return };
        for part in parts {
            let what = || "ranks with different numbers of elements; give the same".to_owned();
            demand(part.len() == sum.len(), CALL, what);
            combine(op, &mut sum, &part);
        }
        copy_out(CALL, &sum, into, len);
    }
}

fn page_of(call: &str, rank: &Rank, address: *const u8) {
    let what = || format!("{address:p} is no shared memory; give an address of it");
    demand(rank.holds(address.addr(), 1), call, what);
}

export! {
    /// Makes the page of an address present; the address.
    fn jia_get(address: *mut u8) -> *mut u8 {
        let rank = need("jia_get");
        page_of("jia_get", rank, address);
        touch(address);
        address
    }
}

fn touch(address: *const u8) {
    // SAFETY: the address is in shared memory (checked), where a read may fault and succeeds.
    unsafe { address.read_volatile() };
}

export! {
    /// Copies a page from a buffer to the page that begins at an address.
    fn jia_put(from: *mut c_char, address: *mut u8) {
        let rank = need("jia_put");
        page_of("jia_put", rank, address);
        let bytes = page_bytes();
        let what = || format!("{address:p} is inside a page; give the address of its beginning");
        demand(address.addr().is_multiple_of(bytes), "jia_put", what);
        let data = bytes_at("jia_put", from, bytes as c_int);
        copy_out("jia_put", &data, address.cast(), bytes as c_int);
    }
}

/// The job was given fewer locks than the library needs.
#[cold]
fn few_locks(number: c_int, lock: u32) -> String {
    let least = LOOP_LOCKS as usize + LOOPS_MAX;
    format!(
        "loop {number} takes lock {lock}, which the job does not have; leave LITTORAL_DSM_LOCKS \
         unset, or set it to {least} or more"
    )
}

export! {
    /// The next number of a self-scheduled loop from 0 to `last`, or -1 when all are given; once
    /// `ranks` ranks have been told so the loop begins again.
    fn jia_getsub(number: c_int, last: c_int, ranks: c_int) -> c_int {
        const CALL: &str = "jia_getsub";
        let rank = need(CALL);
        let found = usize::try_from(number).ok().and_then(|n| rank.counter(n));
        let counter = found.unwrap_or_else(|| {
            die(&format!("{CALL}: loop {number}; 0 to {}", LOOPS_MAX - 1), 2)
        });
        let counter = std::ptr::with_exposed_provenance_mut::<i64>(counter);
        let lock = LOOP_LOCKS + number.cast_unsigned();
        let entered = rank.member.lock(lock);
        let is_absent = entered.as_ref().is_err_and(|e| e.kind() == Kind::OutOfRange);
        demand(!is_absent, CALL, || few_locks(number, lock));
        settled(CALL, entered);
        // SAFETY: a word of the library's own page, under its lock.
        let next = unsafe { counter.read_volatile() };
        let given = if next <= i64::from(last) { next as c_int } else { -1 };
        let over = next - i64::from(last);
        let then = if given < 0 && over >= i64::from(ranks) { 0 } else { next + 1 };
        // SAFETY: as above.
        unsafe { counter.write_volatile(then) };
        settled(CALL, rank.member.unlock(lock));
        given
    }
}

/// Rank 0 has let the others go.
static CREATED: AtomicBool = AtomicBool::new(false);

export! {
    /// ANL's `CREATE`: the ranks are processes already. Rank 0 meets the others at its first call
    /// and goes on; every other rank runs `body`, meets all at `WAIT_FOR_END`, and ends.
    fn jia_create(body: Option<extern "C" fn()>) {
        let rank = need("jia_create");
        let body = body.unwrap_or_else(|| die("jia_create: no function to run", 2));
        if rank.member.rank() == 0 {
            if !CREATED.swap(true, Ordering::AcqRel) {
                jia_barrier();
            }
            return;
        }
        jia_barrier();
        body();
        jia_barrier();
        jia_exit();
        // SAFETY: ends the process as a return from its `main` would.
        unsafe { libc::exit(0) }
    }
}

export! {
    /// ANL's `MAIN_INITENV`: joins unless the program has.
    fn jia_initenv() {
        if Rank::current().is_none() {
            join();
            JOINED_BY_MACRO.store(true, Ordering::Release);
        }
    }
}

export! {
    /// The paper's library: joins the job.
    fn jia_numa_init(_argc: c_int, _argv: *mut *mut c_char) {
        join();
    }
}

export! {
    /// The paper's library: allocates zero bytes, all on rank 0.
    fn jia_numa_alloc(size: c_ulong) -> c_ulong {
        jia_alloc1(size)
    }
}

export! {
    /// The paper's library: enters a section.
    fn jia_numa_lock(lock: c_int) {
        jia_lock(lock);
    }
}

export! {
    /// The paper's library: leaves a section.
    fn jia_numa_unlock(lock: c_int) {
        jia_unlock(lock);
    }
}

export! {
    /// The paper's library: a barrier.
    fn jia_numa_barrier() {
        jia_barrier();
    }
}

export! {
    /// The paper's library: waits for every rank and shows nothing.
    fn jia_numa_wait() {
        jia_wait();
    }
}

export! {
    /// The paper's library: leaves the job.
    fn jia_numa_exit() -> c_int {
        jia_exit()
    }
}
