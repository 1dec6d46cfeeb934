//! Life, allocation, locks, barriers, condition variables, statistics.
//!
//! Invariants
//! - A program that ends with code 0, by a return from `main` or by `exit`, and has joined and not
//!   left, leaves as by `jia_exit`: programs of JIAJIA 2.1 such as pi never call it. Checked by
//!   `every_program_agrees_over_tcp`.

use std::ffi::{c_char, c_double, c_int, c_uint, c_ulong, c_void};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use littoral_base::mutant;
use littoral_dsm::job::member::Piece;
use littoral_dsm::memory::page_bytes;
use littoral_dsm::runtime::RankCounts;

use super::export;
use super::life::{demand, die, need, refuse_end_in_a_call, settled, tell, warn};
use crate::rank::{Compat, Rank, Since, outside};
use crate::start;

unsafe extern "C" {
    fn on_exit(act: extern "C" fn(c_int, *mut c_void), data: *mut c_void) -> c_int;
}

/// Condition variables.
const CVS: c_int = 16;
/// Locks that a program may use.
pub(super) const LOCKS: c_int = 1 << 16;
/// The names of `jia_config`'s options, whether each is done, and what is done instead.
const OPTIONS: [(&str, Option<&str>); 5] = [
    ("HMIG, home migration,", Some("pages keep their homes")),
    ("ADWD", None),
    ("BROADCAST, the tree of grants,", Some("the barrier's manager tells each rank")),
    ("LOADBAL, load balancing,", Some("jia_divtask gives equal parts")),
    ("WVEC", None),
];

/// This rank's number.
#[unsafe(no_mangle)]
pub static jiapid: AtomicI32 = AtomicI32::new(0);
/// Ranks of the job.
#[unsafe(no_mangle)]
pub static jiahosts: AtomicI32 = AtomicI32::new(1);
/// The next lock that `LOCKINIT` gives.
#[unsafe(no_mangle)]
pub static jia_lock_index: AtomicI32 = AtomicI32::new(0);
/// The next condition variable that `PAUSEINIT` gives.
#[unsafe(no_mangle)]
pub static jia_cv_index: AtomicI32 = AtomicI32::new(0);
/// The next self-scheduled loop that `GSINIT` gives.
#[unsafe(no_mangle)]
pub static jia_gs_index: AtomicI32 = AtomicI32::new(0);

/// `MAIN_INITENV` has joined and `jia_init` was not called since: in JIAJIA the macro is empty, so
/// programs call both, in either order.
pub(super) static JOINED_BY_MACRO: AtomicBool = AtomicBool::new(false);

/// Statistics have ended, and were printed.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// The job was left.
static LEFT: AtomicBool = AtomicBool::new(false);

pub(super) fn join() {
    if Rank::is_child() {
        need("jia_init");
    }
    if Rank::current().is_some() {
        let by_macro = JOINED_BY_MACRO.swap(false, Ordering::AcqRel);
        demand(by_macro, "jia_init", || "called twice; call it once".to_owned());
        return;
    }
    demand(!LEFT.load(Ordering::Acquire), "jia_init", || "called after jia_exit".to_owned());
    if let Some(code) = start::launch().unwrap_or_else(|(what, code)| die(&what, code)) {
        // SAFETY: the launcher is no rank; it has said what there was to say.
        unsafe { libc::_exit(code) }
    }
    let rank = Rank::join().unwrap_or_else(|(what, code)| die(&format!("jia_init: {what}"), code));
    jiapid.store(c_int::from(rank.member.rank()), Ordering::Release);
    jiahosts.store(c_int::from(rank.member.ranks()), Ordering::Release);
    // SAFETY: the function has the signature that the C library asks for and uses no data.
    unsafe { on_exit(at_exit, std::ptr::null_mut()) };
}

/// Leaves the job at the end of a program that has not.
extern "C" fn at_exit(code: c_int, _data: *mut c_void) {
    if code != 0 || Rank::current().is_none() {
        return;
    }
    refuse_end_in_a_call();
    if !mutant!("jia_end_without_leaving") {
        leave("the program's end without jia_exit");
    }
}

/// Leaves the job, unless it was left; an error names `call`.
pub(super) fn leave(call: &str) {
    if LEFT.swap(true, Ordering::AcqRel) {
        return;
    }
    let rank = need(call);
    let counts = rank.member.counts();
    settled(call, rank.member.finish());
    if !STOPPED.load(Ordering::Acquire) {
        tell_counts(rank, counts);
    }
    settled(call, rank.leave());
}

export! {
    /// Joins the job: as the launcher says, or as `.jiahosts` does, or alone.
    fn jia_init(_argc: c_int, _argv: *mut *mut c_char) {
        join();
    }
}

export! {
    /// Waits for every rank and leaves the job; shared memory is gone then. A second call does
    /// nothing. The end of a program with code 0 does the same.
    ///
    /// C sees a function without a value. Before C of 1999, and with a `main` that is `void`, a
    /// program without a last `return` ends with the code that its last call leaves where values
    /// are returned, and that call is this one.
    fn jia_exit() -> c_int {
        leave("jia_exit");
        if mutant!("jia_exit_leaves_a_code") { 5 } else { 0 }
    }
}

fn bytes_of(call: &str, size: c_ulong) -> usize {
    let limit = isize::MAX as c_ulong;
    demand(size > 0 && size <= limit, call, || format!("a size of {size}; give 1 to {limit}"));
    size as usize
}

fn host_of(call: &str, rank: &Rank, host: c_int) -> u16 {
    let ranks = rank.member.ranks();
    let found = u16::try_from(host).ok().filter(|h| *h < ranks);
    found.unwrap_or_else(|| die(&format!("{call}: host {host} of a job with {ranks}"), 2))
}

/// As in JIAJIA every block is whole, the last one too.
fn blocks(call: &str, size: c_ulong, block: c_ulong, host: c_int) -> c_ulong {
    let rank = need(call);
    let (size, block) = (bytes_of(call, size), bytes_of(call, block));
    let block_bytes = block.next_multiple_of(page_bytes());
    let bytes = size.checked_next_multiple_of(block_bytes);
    let bytes = bytes.unwrap_or_else(|| die(&format!("{call}: {size} bytes are too many"), 2));
    let piece = Piece { bytes, block_bytes, first: host_of(call, rank, host) };
    settled(call, rank.allocate(&[piece])) as c_ulong
}

/// One host after another keeps what the list says, and every block is whole: the `i`th block has
/// the `i`th size, round and round; by the port's rules a size serves until it is host 0's turn.
fn listed(
    call: &str,
    size: c_ulong,
    list: *const c_int,
    n: c_int,
    first: c_int,
    port: bool,
) -> c_ulong {
    let rank = need(call);
    let mut left = bytes_of(call, size).next_multiple_of(page_bytes());
    demand(!list.is_null() && n > 0, call, || "no list of sizes; give one of 1 or more".to_owned());
    // SAFETY: the caller promises `n` numbers there.
    let list = unsafe { std::slice::from_raw_parts(list, n as usize) }.to_vec();
    let (ranks, mut host) = (rank.member.ranks(), host_of(call, rank, first));
    let room = rank.member.bytes_max();
    demand(left <= room, call, || format!("{size} bytes; the job has {room} for all"));
    let (mut pieces, mut at) = (Vec::new(), 0);
    while left > 0 {
        let block = list[at];
        demand(block > 0, call, || format!("a block of {block} bytes; give 1 or more"));
        let bytes = (block as usize).next_multiple_of(page_bytes());
        pieces.push(Piece { bytes, block_bytes: bytes, first: host });
        host = (host + 1) % ranks;
        if host == 0 || !port {
            at = (at + 1) % list.len();
        }
        left = left.saturating_sub(bytes);
    }
    settled(call, rank.allocate(&pieces)) as c_ulong
}

export! {
    /// Allocates zero bytes: pages dealt round from rank 0, or all on the next rank as the port
    /// does.
    fn jia_alloc(size: c_ulong) -> c_ulong {
        let rank = need("jia_alloc");
        match rank.compat {
            Compat::Original => blocks("jia_alloc", size, page_bytes() as c_ulong, 0),
            Compat::Port => {
                let host = rank.turn() % u32::from(rank.member.ranks());
                blocks("jia_alloc", size, size, host as c_int)
            }
        }
    }
}

export! {
    /// Allocates zero bytes, all on rank 0.
    fn jia_alloc1(size: c_ulong) -> c_ulong {
        blocks("jia_alloc1", size, size, 0)
    }
}

export! {
    /// Allocates zero bytes in blocks dealt round from rank 0.
    fn jia_alloc2(size: c_ulong, block: c_ulong) -> c_ulong {
        blocks("jia_alloc2", size, block, 0)
    }
}

export! {
    /// Allocates zero bytes, all on one rank.
    fn jia_alloc2p(size: c_ulong, host: c_int) -> c_ulong {
        blocks("jia_alloc2p", size, size, host)
    }
}

export! {
    /// Allocates zero bytes in blocks dealt round from a rank.
    fn jia_alloc3(size: c_ulong, block: c_ulong, host: c_int) -> c_ulong {
        blocks("jia_alloc3", size, block, host)
    }
}

export! {
    /// Allocates zero bytes in blocks of the sizes of a list, dealt round from a rank.
    fn jia_alloc4(size: c_ulong, list: *mut c_int, n: c_int, host: c_int) -> c_ulong {
        let is_port = need("jia_alloc4").compat == Compat::Port;
        listed("jia_alloc4", size, list, n, host, is_port)
    }
}

export! {
    /// Allocates zero bytes: rank `i` keeps the `i`th size of a list.
    fn jia_alloc_array(size: c_ulong, list: *mut c_int, n: c_int) -> c_ulong {
        listed("jia_alloc_array", size, list, n, 0, false)
    }
}

export! {
    /// Allocates zero bytes, all on a rank drawn alike everywhere.
    fn jia_alloc_random(size: c_ulong) -> c_ulong {
        let rank = need("jia_alloc_random");
        let draw = rank.turn().wrapping_add(1).wrapping_mul(0x9e37_79b9).rotate_left(15);
        blocks("jia_alloc_random", size, size, (draw % u32::from(rank.member.ranks())) as c_int)
    }
}

export! {
    /// Gives an allocation back; its addresses are not used again in this job.
    fn jia_free(address: *mut u8) {
        let rank = need("jia_free");
        let what = || format!("{address:p} is no allocation, or was given back already");
        demand(rank.free(address.addr()), "jia_free", what);
    }
}

fn lock_of(call: &str, lock: c_int) -> u32 {
    demand((0..LOCKS).contains(&lock), call, || format!("lock {lock}; 0 to {}", LOCKS - 1));
    lock.cast_unsigned()
}

export! {
    /// Enters a section.
    fn jia_lock(lock: c_int) {
        let rank = need("jia_lock");
        settled("jia_lock", rank.member.lock(lock_of("jia_lock", lock)));
    }
}

export! {
    /// Leaves the innermost section.
    fn jia_unlock(lock: c_int) {
        let rank = need("jia_unlock");
        settled("jia_unlock", rank.member.unlock(lock_of("jia_unlock", lock)));
    }
}

export! {
    /// Waits for every rank and shows every write to all.
    fn jia_barrier() {
        settled("jia_barrier", need("jia_barrier").member.barrier());
    }
}

export! {
    /// Waits for every rank and shows nothing.
    fn jia_wait() {
        settled("jia_wait", need("jia_wait").member.meet());
    }
}

fn cv_of(call: &str, cv: c_int) -> u32 {
    let what = || format!("condition variable {cv}; 0 to {}", CVS - 1);
    demand((0..CVS).contains(&cv), call, what);
    cv.cast_unsigned()
}

export! {
    /// Sets a condition variable; who waits for it goes on.
    fn jia_setcv(cv: c_int) {
        let rank = need("jia_setcv");
        settled("jia_setcv", rank.member.set_flag(cv_of("jia_setcv", cv), true));
    }
}

export! {
    /// Resets a condition variable.
    fn jia_resetcv(cv: c_int) {
        let rank = need("jia_resetcv");
        settled("jia_resetcv", rank.member.set_flag(cv_of("jia_resetcv", cv), false));
    }
}

export! {
    /// Waits until a condition variable is set; for nothing in a job of one rank, as in JIAJIA.
    fn jia_waitcv(cv: c_int) {
        let rank = need("jia_waitcv");
        let cv = cv_of("jia_waitcv", cv);
        if rank.member.ranks() > 1 || mutant!("jia_rank_waits_for_itself") {
            settled("jia_waitcv", rank.member.wait_flag(cv));
        }
    }
}

export! {
    /// Switches an optimisation; one that is not built is named and changes nothing.
    fn jia_config(option: c_int, value: c_int) {
        let rank = need("jia_config");
        let found = usize::try_from(option).ok().and_then(|n| OPTIONS.get(n));
        let what = || format!("option {option}; HMIG, ADWD, BROADCAST, LOADBAL or WVEC");
        demand(found.is_some(), "jia_config", what);
        if let Some((name, Some(instead))) = found.filter(|_| value != 0) {
            warn(rank, &format!("jia_config: {name} is not built; {instead}"));
        }
    }
}

export! {
    /// This rank's part of the numbers from `*begin` to `*end`; the last rank has what is over.
    fn jia_divtask(begin: *mut c_int, end: *mut c_int) {
        let rank = need("jia_divtask");
        let what = || "a null pointer; give two numbers".to_owned();
        demand(!begin.is_null() && !end.is_null(), "jia_divtask", what);
        let (ranks, me) = (i64::from(rank.member.ranks()), i64::from(rank.member.rank()));
        divide(begin, end, |low, high| {
            let part = (high - low + 1) / ranks;
            let first = low + part * me;
            (first, if me == ranks - 1 { high } else { first + part - 1 })
        });
    }
}

/// Replaces the caller's two numbers by a part between them.
fn divide(begin: *mut c_int, end: *mut c_int, part: impl Fn(i64, i64) -> (i64, i64)) {
    // SAFETY: the caller promises two numbers there; both are valid for reads and writes.
    let (low, high) = unsafe { (i64::from(begin.read()), i64::from(end.read())) };
    let (first, last) = part(low, high);
    // SAFETY: as above.
    unsafe { (begin.write(first as c_int), end.write(last as c_int)) };
}

export! {
    /// Does nothing: load balancing is not built.
    fn jia_loadcheck() {
        need("jia_loadcheck");
    }
}

export! {
    /// Seconds since the library's first use, before and after the job too; in virtual time, since
    /// this rank joined.
    fn jia_clock() -> c_double {
        Rank::current().map_or_else(outside, Rank::clock).as_secs_f64()
    }
}

/// With `JIA_STATS`: what this rank has done since `jia_startstat`, or since it joined.
fn tell_counts(rank: &Rank, now: RankCounts) {
    if std::env::var_os("JIA_STATS").is_none() {
        return;
    }
    let Since { counts: since, begun } = *rank.since.lock().unwrap_or_else(PoisonError::into_inner);
    let micros = rank.member.elapsed().saturating_sub(begun).as_micros();
    let faults = now.memory.faults - since.memory.faults;
    tell(format!(
        "jia: rank {} messages {} bytes {} faults {faults} remote {} misses {} diffs {} micros \
         {micros}",
        rank.member.rank(),
        now.messages - since.messages,
        now.message_bytes - since.message_bytes,
        faults - (now.memory.home_faults - since.memory.home_faults),
        now.protocol.misses - since.protocol.misses,
        now.protocol.diffs - since.protocol.diffs
    ));
}

fn micros(rank: &Rank) -> c_uint {
    rank.member.elapsed().as_micros() as c_uint
}

export! {
    /// Begins statistics; microseconds since this rank joined.
    fn jia_startstat() -> c_uint {
        let rank = need("jia_startstat");
        let since = Since { counts: rank.member.counts(), begun: rank.member.elapsed() };
        *rank.since.lock().unwrap_or_else(PoisonError::into_inner) = since;
        STOPPED.store(false, Ordering::Release);
        micros(rank)
    }
}

export! {
    /// Ends statistics and, with `JIA_STATS`, prints them; microseconds since this rank joined.
    fn jia_stopstat() -> c_uint {
        let rank = need("jia_stopstat");
        STOPPED.store(true, Ordering::Release);
        tell_counts(rank, rank.member.counts());
        micros(rank)
    }
}
