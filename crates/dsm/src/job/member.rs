//! A rank without types: what other languages' interfaces stand on.
//!
//! A [`Member`] is a rank of a job whose shared memory lies at one address on every rank and is
//! reached by raw pointers, from any thread.
//!
//! Invariants
//! - Locks, sections and barriers are the rank's, not a thread's. Threads of a rank that call at
//!   the same time are served one after another, faults included. Checked by
//!   `threads_of_a_rank_share_its_pages`.
//! - A call by a signal's handler whose thread is in a call already ends the process in words, and
//!   waits for nothing. Checked by `bad_input_ends_in_words`.
//! - Allocating waits for no other rank. Checked by
//!   `a_request_for_a_page_that_its_home_has_not_allocated_waits`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use littoral_base::units::NodeId;

use crate::core::message::LockId;
use crate::error::{Error, Kind, Result};
use crate::memory::page_bytes;
pub use crate::runtime::Inside;
use crate::runtime::carrier::Carrier;
use crate::runtime::{Config, Node, Own, RankCounts, Run, without_signals};

/// Mail of `Member::send`; the rest belongs to operations of all ranks.
const LETTERS: u8 = 0;
const EXCHANGED: u8 = 1;
const MET: u8 = 2;

/// Bytes of shared memory that one rank after another keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes in all; whole pages are given.
    pub bytes: usize,
    /// Bytes each rank keeps before the next one's turn; whole pages.
    pub block_bytes: usize,
    /// The rank that keeps the first block.
    pub first: u16,
}

/// See the module's page.
pub struct Member {
    node: Node,
    own: Mutex<Own>,
    base: usize,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {} of {}, memory at {:#x}", self.rank(), self.ranks(), self.base)
    }
}

impl Member {
    /// Joins the job that a launcher started this process for, or one of its own.
    ///
    /// # Errors
    /// As `Job::join`; `Kind::Environment` when something else lies at the job's address,
    /// `Kind::Unsupported` on lines of a pool, which have no pointers.
    pub fn join() -> Result<Member> {
        let (carrier, mut config) = without_signals(crate::launch::joining)?;
        config.base = config.base.or(Some(crate::launch::BASE));
        Member::start(carrier, config)
    }

    /// Joins a job over a carrier of the caller's.
    ///
    /// # Errors
    /// As `join`.
    pub fn start(carrier: Box<dyn Carrier>, config: Config) -> Result<Member> {
        if config.pool.is_some() {
            let what = "lines of a pool have no pointers; start the job with --fabric pool-pages";
            return Err(Error::new(Kind::Unsupported, what).at_rank(carrier.me()));
        }
        let config = Config { many_threads: true, ..config };
        let node = without_signals(|| Node::start(carrier, config))?;
        let base = node.memory().view(0, 0).addr();
        Ok(Member { node, own: Mutex::default(), base })
    }

    /// Held while an operation of the rank is under way.
    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This rank.
    pub fn rank(&self) -> u16 {
        self.node.me().0
    }

    /// Ranks of the job.
    pub fn ranks(&self) -> u16 {
        self.node.ranks()
    }

    /// What this rank has done so far.
    pub fn counts(&self) -> RankCounts {
        let _inside = Inside::call();
        self.node.counts()
    }

    /// Whether the job is in virtual time.
    pub fn is_in_virtual_time(&self) -> bool {
        self.node.is_in_turns()
    }

    /// Time since this rank joined: virtual where the job is.
    pub fn elapsed(&self) -> Duration {
        self.node.elapsed()
    }

    /// The address of the shared memory, the same on every rank of a launched job.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Bytes allocated so far; they lie from `base` on.
    pub fn bytes(&self) -> usize {
        let _inside = Inside::call();
        self.node.allocated()
    }

    /// Most bytes that the job can allocate.
    pub fn bytes_max(&self) -> usize {
        self.node.bytes_max()
    }

    /// Allocates zero bytes, alike on every rank and in the same order, and waits for none; the
    /// offset from `base`.
    ///
    /// # Errors
    /// `Kind::OutOfRange` when the job has not so much left, or for a piece of a rank that the job
    /// has not, `Kind::Misuse` for a block of nothing or when the ranks allocate differently.
    pub fn allocate(&self, pieces: &[Piece]) -> Result<usize> {
        let _inside = Inside::call();
        let runs = pieces.iter().map(|p| self.run(p)).collect::<Result<Vec<_>>>()?;
        self.node.extend(&runs)
    }

    fn run(&self, piece: &Piece) -> Result<Run> {
        if piece.bytes == 0 || piece.block_bytes == 0 {
            let what = "an allocation of 0 bytes, or in blocks of 0 bytes; give it at least one";
            return Err(Error::new(Kind::Misuse, what));
        }
        self.check_rank(piece.first)?;
        let block_pages = u32::try_from(piece.block_bytes.div_ceil(page_bytes()));
        let block_pages = block_pages.unwrap_or(u32::MAX);
        Ok(Run { bytes: piece.bytes, block_pages, first: NodeId(piece.first) })
    }

    fn check_rank(&self, rank: u16) -> Result<()> {
        if rank < self.ranks() {
            return Ok(());
        }
        let what = format!("rank {rank} of a job with {}", self.ranks());
        Err(Error::new(Kind::OutOfRange, what).at_peer(NodeId(rank)))
    }

    /// Enters a section of `lock`.
    ///
    /// # Errors
    /// `Kind::Misuse` when this rank is in one already, or when every other rank waits too or
    /// leaves, `Kind::OutOfRange`, `Kind::PeerLost`.
    pub fn lock(&self, lock: u32) -> Result<()> {
        let _inside = Inside::call();
        self.node.lock(&mut self.own(), LockId(lock))
    }

    /// Leaves the section of `lock`, the innermost.
    ///
    /// # Errors
    /// `Kind::Misuse` when it is not, `Kind::PeerLost`.
    pub fn unlock(&self, lock: u32) -> Result<()> {
        let _inside = Inside::call();
        self.node.unlock(&mut self.own(), LockId(lock))
    }

    /// Waits for every rank and shows everything written to all.
    ///
    /// # Errors
    /// `Kind::Misuse` inside a section, `Kind::PeerLost`.
    pub fn barrier(&self) -> Result<()> {
        let _inside = Inside::call();
        self.node.barrier(&mut self.own())
    }

    /// Waits for every rank and shows nothing; in virtual time a barrier. Where ranks share pages
    /// in place it takes the barrier's words, else letters.
    ///
    /// # Errors
    /// `Kind::PeerLost`.
    pub fn meet(&self) -> Result<()> {
        let _inside = Inside::call();
        if self.node.is_in_turns() {
            return self.node.barrier(&mut self.own());
        }
        if self.node.meet(&mut self.own())? {
            return Ok(());
        }
        let others = (1..self.ranks()).map(NodeId);
        if self.rank() != 0 {
            self.node.send(NodeId(0), MET, 0, &[])?;
            return self.node.receive(NodeId(0), MET, 1).map(drop);
        }
        others.clone().try_for_each(|rank| self.node.receive(rank, MET, 0).map(drop))?;
        others.into_iter().try_for_each(|rank| self.node.send(rank, MET, 1, &[]))
    }

    /// Sends bytes to a rank.
    ///
    /// # Errors
    /// `Kind::OutOfRange` for a rank the job has not, `Kind::PeerLost`, `Kind::Unsupported` in
    /// virtual time.
    pub fn send(&self, to: u16, tag: i32, bytes: &[u8]) -> Result<()> {
        let _inside = Inside::call();
        self.node.send(NodeId(to), LETTERS, tag, bytes)
    }

    /// Waits for the next bytes that a rank has sent with this tag.
    ///
    /// # Errors
    /// As `send`; `Kind::Misuse` when that rank leaves, or every other rank waits too or leaves.
    pub fn receive(&self, from: u16, tag: i32) -> Result<Vec<u8>> {
        self.receive_matching(Some(from), Some(tag))
    }

    /// As `receive`; from any rank, and with any tag, where none is given: of what has come, what
    /// came first.
    ///
    /// # Errors
    /// As `receive`.
    pub fn receive_matching(&self, from: Option<u16>, tag: Option<i32>) -> Result<Vec<u8>> {
        let _inside = Inside::call();
        self.node.receive_matching(from.map(NodeId), LETTERS, tag)
    }

    /// The bytes of rank `root`, on every rank: `mine` are sent by that one alone.
    ///
    /// # Errors
    /// As `send`.
    pub fn broadcast(&self, root: u16, mine: &[u8]) -> Result<Vec<u8>> {
        let _inside = Inside::call();
        self.check_rank(root)?;
        if self.rank() != root {
            return self.node.receive(NodeId(root), EXCHANGED, 0);
        }
        let others = (0..self.ranks()).filter(|rank| *rank != root);
        others.map(NodeId).try_for_each(|rank| self.node.send(rank, EXCHANGED, 0, mine))?;
        Ok(mine.to_vec())
    }

    /// Every rank's bytes in order, at rank `root`; elsewhere nothing.
    ///
    /// # Errors
    /// As `send`.
    pub fn gather(&self, root: u16, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let _inside = Inside::call();
        self.check_rank(root)?;
        self.node.send(NodeId(root), EXCHANGED, 1, mine)?;
        let ranks = if self.rank() == root { self.ranks() } else { 0 };
        (0..ranks).map(|rank| self.node.receive(NodeId(rank), EXCHANGED, 1)).collect()
    }

    /// Sets a condition variable, or resets it; when this returns it is so for every rank.
    ///
    /// # Errors
    /// `Kind::PeerLost`, `Kind::Unsupported` in virtual time.
    pub fn set_flag(&self, cv: u32, on: bool) -> Result<()> {
        let _inside = Inside::call();
        self.node.set_flag(cv, on)
    }

    /// Waits until a condition variable is set.
    ///
    /// # Errors
    /// As `set_flag`; `Kind::Misuse` when every other rank waits too or leaves.
    pub fn wait_flag(&self, cv: u32) -> Result<()> {
        let _inside = Inside::call();
        self.node.wait_flag(cv)
    }

    /// Ends the job for this rank, when every rank has come here.
    ///
    /// # Errors
    /// `Kind::Misuse` inside a section, `Kind::PeerLost`.
    pub fn finish(&self) -> Result<()> {
        let _inside = Inside::call();
        self.node.finish(&mut self.own())
    }

    /// Ends this rank, which has finished, and leaves the value: shared memory is gone, and an
    /// access is a segmentation fault.
    ///
    /// # Errors
    /// `Kind::Environment` when the system does not take the memory back.
    pub fn close(&self) -> Result<()> {
        let _inside = Inside::call();
        self.node.close()
    }

    /// Ends the job for every rank, for this reason.
    pub fn abandon(&self, why: &str) {
        self.node.abandon(why);
    }
}
