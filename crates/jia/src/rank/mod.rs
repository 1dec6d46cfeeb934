//! This process's rank: its membership, what it has allocated, and how an error ends it.
//!
//! - [`raw`]: where the rank is found.
//!
//! Invariants
//! - There is at most one membership a process; it ends by `jia_exit`, after which calls that need
//!   one end the process in words; a child made by `fork` has none. Checked by
//!   `bad_input_ends_in_words`.
//! - `jia_clock` never goes back, and answers before and after the job too, as the program
//!   `system.c` asks. Checked by `every_program_agrees_over_tcp`.
//!
//! The first page of shared memory is the library's: counters of self-scheduled loops.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use littoral_dsm::job::member::{Inside, Member, Piece};
use littoral_dsm::memory::page_bytes;
use littoral_dsm::runtime::RankCounts;

pub mod raw;

/// Whose rules an ambiguous call follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// JIAJIA 2.1: `jia_alloc` deals pages round from rank 0.
    Original,
    /// The port: `jia_alloc` gives all to the next rank.
    Port,
}

/// What a rank had done when statistics began, and when that was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Since {
    /// What it had done.
    pub counts: RankCounts,
    /// Time since it joined.
    pub begun: Duration,
}

/// A joined rank.
#[derive(Debug)]
pub struct Rank {
    /// The membership.
    pub member: Member,
    /// The rules.
    pub compat: Compat,
    /// What the clock showed when this rank joined.
    before: Duration,
    /// Where statistics begin.
    pub since: Mutex<Since>,
    blocks: Mutex<BTreeMap<usize, usize>>,
    /// Calls whose answer depends on how many there were.
    turns: AtomicU32,
}

/// What the clock showed when the rank left, and since when it runs on from there; before the job
/// it runs from the library's first use.
static CLOCK: Mutex<Option<(Duration, Instant)>> = Mutex::new(None);

/// Bytes of one counter of self-scheduled loops: a line, so that loops do not share one.
const COUNTER_BYTES: usize = 64;
/// Self-scheduled loops that a program may have.
pub const LOOPS_MAX: usize = 64;

impl Rank {
    /// The rank of this process, if it has joined and not left.
    #[inline]
    pub fn current() -> Option<&'static Rank> {
        raw::stored().filter(|(_, is_own)| *is_own).map(|(rank, _)| rank)
    }

    /// Whether this is a child, made by `fork`, of a process that has joined.
    pub fn is_child() -> bool {
        raw::stored().is_some_and(|(_, is_own)| !is_own)
    }

    /// Joins the job that this process was started for, or one of its own.
    ///
    /// # Errors
    /// Words, and the exit code that they deserve.
    pub fn join() -> Result<&'static Rank, (String, i32)> {
        let compat = match std::env::var("JIA_COMPAT").as_deref() {
            Err(_) | Ok("2.1") => Compat::Original,
            Ok("port") => Compat::Port,
            Ok(other) => return Err((format!("JIA_COMPAT={other}; 2.1 or port"), 2)),
        };
        let words = |e: littoral_dsm::Error| (e.to_string(), i32::from(e.class().exit_code()));
        let member = Member::join().map_err(words)?;
        let bytes = LOOPS_MAX * COUNTER_BYTES;
        member.allocate(&[Piece { bytes, block_bytes: bytes, first: 0 }]).map_err(words)?;
        // Virtual time begins with the job.
        let before = match member.is_in_virtual_time() {
            true => Duration::ZERO,
            false => outside().saturating_sub(member.elapsed()),
        };
        let rank = Rank {
            member,
            compat,
            before,
            since: Mutex::default(),
            blocks: Mutex::default(),
            turns: AtomicU32::new(0),
        };
        raw::store(rank).map_err(|e| (format!("a page for this rank's word: {e}"), 3))
    }

    /// Ends the membership: shared memory is gone, and the clock runs on from what it shows.
    ///
    /// # Errors
    /// As `Member::close`.
    pub fn leave(&self) -> littoral_dsm::Result<()> {
        {
            let _inside = Inside::enter();
            let mut clock = CLOCK.lock().unwrap_or_else(PoisonError::into_inner);
            *clock = Some((self.clock(), Instant::now()));
            raw::forget();
        }
        self.member.close()
    }

    /// Time since the library's first use; in virtual time since this rank joined.
    pub fn clock(&self) -> Duration {
        self.before + self.member.elapsed()
    }

    /// How many such calls there were before.
    pub fn turn(&self) -> u32 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// Allocates pieces that follow each other; the address.
    ///
    /// # Errors
    /// As `Member::allocate`.
    pub fn allocate(&self, pieces: &[Piece]) -> littoral_dsm::Result<usize> {
        let start = self.member.base() + self.member.allocate(pieces)?;
        let bytes = pieces.iter().map(|p| p.bytes.next_multiple_of(page_bytes())).sum();
        let _inside = Inside::enter();
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).insert(start, bytes);
        Ok(start)
    }

    /// Takes an allocation off the list; whether there was one at this address.
    pub fn free(&self, address: usize) -> bool {
        let _inside = Inside::call();
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).remove(&address).is_some()
    }

    /// Whether `len` bytes at `address` are shared memory.
    pub fn holds(&self, address: usize, len: usize) -> bool {
        let (base, bytes) = (self.member.base(), self.member.bytes());
        let offset = address.checked_sub(base);
        offset.and_then(|at| at.checked_add(len)).is_some_and(|end| end <= bytes)
    }

    /// The address of a self-scheduled loop's counter.
    pub fn counter(&self, number: usize) -> Option<usize> {
        (number < LOOPS_MAX).then(|| self.member.base() + number * COUNTER_BYTES)
    }
}

/// What the clock shows outside of a job: time since the library's first use, and after the job
/// what the clock of the job came to and the time since then.
pub fn outside() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let _inside = Inside::call();
    match *CLOCK.lock().unwrap_or_else(PoisonError::into_inner) {
        Some((shown, since)) => shown + since.elapsed(),
        None => FIRST.get_or_init(Instant::now).elapsed(),
    }
}
