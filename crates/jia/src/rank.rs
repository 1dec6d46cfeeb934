//! This process's rank: its membership, what it has allocated, and how an error ends it.
//!
//! Invariants
//! - There is at most one membership a process; it is dropped by `jia_exit`, after which calls that
//!   need one end the process in words; a child made by `fork` has none. Checked by
//!   `bad_input_ends_in_words`.
//!
//! The first page of shared memory is the library's: counters of self-scheduled loops.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use littoral_dsm::job::member::{Member, Piece};
use littoral_dsm::memory::page_bytes;
use littoral_dsm::runtime::RankCounts;

/// Whose rules an ambiguous call follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// JIAJIA 2.1: `jia_alloc` deals pages round from rank 0.
    Original,
    /// The port: `jia_alloc` gives all to the next rank.
    Port,
}

/// A joined rank.
#[derive(Debug)]
pub struct Rank {
    /// The membership.
    pub member: Member,
    /// The rules.
    pub compat: Compat,
    /// When this rank joined.
    pub joined: Instant,
    /// Where statistics begin.
    pub since: Mutex<RankCounts>,
    process: u32,
    blocks: Mutex<BTreeMap<usize, usize>>,
    /// Calls whose answer depends on how many there were.
    turns: AtomicU32,
}

/// The membership of this process; `jia_exit` takes it away.
static RANK: RwLock<Option<Arc<Rank>>> = RwLock::new(None);

/// Bytes of one counter of self-scheduled loops: a line, so that loops do not share one.
const COUNTER_BYTES: usize = 64;
/// Self-scheduled loops that a program may have.
pub const LOOPS_MAX: usize = 64;

fn stored() -> Option<Arc<Rank>> {
    RANK.read().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Rank {
    /// The rank of this process, if it has joined and not left.
    pub fn current() -> Option<Arc<Rank>> {
        stored().filter(|rank| rank.process == std::process::id())
    }

    /// Whether this is a child, made by `fork`, of a process that has joined.
    pub fn is_child() -> bool {
        stored().is_some_and(|rank| rank.process != std::process::id())
    }

    /// Joins the job that this process was started for, or one of its own.
    ///
    /// # Errors
    /// Words, and the exit code that they deserve.
    pub fn join() -> Result<Arc<Rank>, (String, i32)> {
        let compat = match std::env::var("JIA_COMPAT").as_deref() {
            Err(_) | Ok("2.1") => Compat::Original,
            Ok("port") => Compat::Port,
            Ok(other) => return Err((format!("JIA_COMPAT={other}; 2.1 or port"), 2)),
        };
        let words = |e: littoral_dsm::Error| (e.to_string(), i32::from(e.class().exit_code()));
        let member = Member::join().map_err(words)?;
        let bytes = LOOPS_MAX * COUNTER_BYTES;
        member.allocate(&[Piece { bytes, block_bytes: bytes, first: 0 }]).map_err(words)?;
        let rank = Arc::new(Rank {
            member,
            compat,
            joined: Instant::now(),
            since: Mutex::default(),
            process: std::process::id(),
            blocks: Mutex::default(),
            turns: AtomicU32::new(0),
        });
        *RANK.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&rank));
        Ok(rank)
    }

    /// Ends the membership; the memory goes when the last call that is under way has returned.
    pub fn forget() {
        RANK.write().unwrap_or_else(PoisonError::into_inner).take();
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
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).insert(start, bytes);
        Ok(start)
    }

    /// Takes an allocation off the list; whether there was one at this address.
    pub fn free(&self, address: usize) -> bool {
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
