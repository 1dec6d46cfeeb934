//! Locks and barriers over a fabric: the lock manager of paper 002 and what it is compared with.
//!
//! - [`board`]: the manager as a device in the fabric. A request is one write, a grant one write
//!   into the variable that the waiter spins on in its own window, a release one read: three
//!   operations a section whatever the contention, no read-modify-write, notices in the grant.
//! - [`client`]: a rank's side of the board.
//! - [`direct`]: the same queue in coherent shared memory, with the processor's atomics in place of
//!   the board.
//! - [`server`]: the software manager of JIAJIA, a thread that takes messages.
//! - [`tts`], [`mcs`]: test-and-test&set, and the list-based queue lock of Mellor-Crummey and Scott
//!   (1991), over remote atomics.
//!
//! Invariants
//! - At most one rank is in a section of a lock; board, direct, server and MCS admit in order of
//!   arrival. Checked by `the_board_over_tcp_and_the_direct_queue_in_shared_memory_exclude`,
//!   `the_baselines_exclude_too`, `grants_come_in_order_of_arrival`.
//! - A wait ends with `Kind::PeerLost` when the manager or the holder is gone, naming it. Checked
//!   by `a_dead_holder_is_named`.
//! - A lock that carries no notices says `Everything`, which is always safe; in coherent memory
//!   there is nothing to say. Checked by
//!   `a_full_log_says_everything_and_only_to_those_who_missed_it`.

use std::time::Duration;

use littoral_base::units::NodeId;
use littoral_device::error::{Error as DeviceError, Kind as DeviceKind};
use littoral_fabric::{Fabric, Liveness};

use crate::core::message::{LockId, Notices, PageId};
use crate::error::{Error, Kind, Result};

pub mod board;
pub mod client;
pub mod direct;
pub mod mcs;
pub mod server;
pub mod tts;

/// Bytes of the variable a board writes a grant into.
pub const CELL_BYTES: usize = 512;
/// How long a waiter waits before it looks whether the others still live.
pub const PATIENCE: Duration = Duration::from_millis(100);

const LINE_BYTES: usize = 64;
/// Rounds of a dissemination barrier of 65,536 ranks.
const BARRIER_ROUNDS: usize = 16;

/// A manager of locks as one rank sees it.
pub trait Locks {
    /// Enters a section of `lock`; what was written under it since this rank's last.
    ///
    /// # Errors
    /// `Kind::Protocol` when this rank has it already, `Kind::PeerLost` when who is waited for is
    /// gone.
    fn acquire(&mut self, lock: LockId) -> Result<Notices>;

    /// Leaves the section; `written` is what the next holder must be told.
    ///
    /// # Errors
    /// `Kind::Protocol` when this rank does not hold it, `Kind::PeerLost` as above.
    fn release(&mut self, lock: LockId, written: &[PageId]) -> Result<()>;
}

/// A barrier as one rank sees it.
pub trait Barriers {
    /// Waits for every rank; what was written since the last barrier.
    ///
    /// # Errors
    /// `Kind::PeerLost` when a rank is gone.
    fn barrier(&mut self, written: &[PageId]) -> Result<Notices>;
}

/// Where the words of locks lie in every node's window. A lock's home is its number modulo the
/// nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockLayout {
    at: usize,
    locks: usize,
    nodes: u16,
}

impl LockLayout {
    /// `locks` locks of a job with `nodes` nodes, from byte `at` of the windows on.
    ///
    /// # Panics
    /// When `at` is no multiple of 64.
    pub fn new(at: usize, locks: u32, nodes: u16) -> Self {
        assert!(at.is_multiple_of(LINE_BYTES), "lock words begin on a line");
        LockLayout { at, locks: locks as usize, nodes }
    }

    /// Bytes of every window that locks take.
    pub fn bytes(&self) -> usize {
        let names = if self.names_lie_beside_words() { 0 } else { self.locks * self.stride() };
        self.names() + names - self.at
    }

    fn home(&self, lock: LockId) -> NodeId {
        let nodes = u32::from(self.nodes);
        NodeId(u16::try_from(lock.0 % nodes).expect("invariant: below a number of nodes"))
    }

    fn lock_cell(&self) -> usize {
        self.at
    }

    fn barrier_cell(&self) -> usize {
        self.at + CELL_BYTES
    }

    fn barrier_word(&self) -> usize {
        self.at + 2 * CELL_BYTES
    }

    /// The lock's own word, at its home.
    fn word(&self, lock: LockId) -> usize {
        self.at + 2 * CELL_BYTES + (2 + BARRIER_ROUNDS + lock.0 as usize) * LINE_BYTES
    }

    /// A rank's words for a lock, in its own window: {next, granted}.
    fn place(&self, lock: LockId) -> usize {
        self.word(LockId(0)) + (self.locks + lock.0 as usize) * LINE_BYTES
    }

    /// Where waiters of a lock leave their names, at its home: one word a rank, in the line of the
    /// lock's own word where they fit, so that who leaves a section waits for one line and not two.
    fn slots(&self, lock: LockId) -> usize {
        if self.names_lie_beside_words() {
            return self.word(lock) + 8;
        }
        self.names() + lock.0 as usize * self.stride()
    }

    fn names_lie_beside_words(&self) -> bool {
        usize::from(self.nodes) < LINE_BYTES / 8
    }

    /// Where names lie that have no room beside the locks' words.
    fn names(&self) -> usize {
        self.word(LockId(0)) + 2 * self.locks * LINE_BYTES
    }

    fn stride(&self) -> usize {
        (usize::from(self.nodes) * 8).next_multiple_of(LINE_BYTES)
    }

    fn check(&self, lock: LockId) -> Result<()> {
        if (lock.0 as usize) < self.locks {
            return Ok(());
        }
        Err(self.no_such(lock))
    }

    #[cold]
    fn no_such(&self, lock: LockId) -> Error {
        let what = format!("lock {} of a job with {}", lock.0, self.locks);
        Error::new(Kind::OutOfRange, what).at_lock(lock.0)
    }
}

/// A fabric's error as this crate's.
pub(crate) fn lost(e: DeviceError) -> Error {
    let kind = match e.kind() {
        DeviceKind::Io => Kind::PeerLost,
        DeviceKind::Unsupported => Kind::Unsupported,
        DeviceKind::Exists => Kind::Exists,
        DeviceKind::Profile
        | DeviceKind::IllegalRequest
        | DeviceKind::Exhausted
        | DeviceKind::Corrupt
        | DeviceKind::Foreign
        | DeviceKind::Busy
        | DeviceKind::PowerCut
        | DeviceKind::Poisoned => Kind::Environment,
    };
    Error::over(kind, "a lock's words", e)
}

/// Waits until a word of our own window is no longer `unlike`; calls `check` whenever patience has
/// run out.
fn await_word<F: Fabric + ?Sized>(
    fabric: &F,
    offset: usize,
    unlike: u64,
    mut check: impl FnMut() -> Result<()>,
) -> Result<u64> {
    loop {
        if let Some(word) = fabric.wait_word(offset, unlike, PATIENCE).map_err(lost)? {
            return Ok(word);
        }
        check()?;
    }
}

fn must_live<F: Fabric + ?Sized>(fabric: &F, node: NodeId, doing: &str) -> Result<()> {
    match fabric.liveness(node) {
        Liveness::Alive => Ok(()),
        Liveness::Dead(how) => {
            let lost = Error::new(Kind::PeerLost, format!("rank {node} is gone ({how}) {doing}"));
            Err(lost.at_rank(fabric.me()).at_peer(node))
        }
    }
}

fn all_must_live<F: Fabric + ?Sized>(fabric: &F, doing: &str) -> Result<()> {
    (0..fabric.nodes()).try_for_each(|n| must_live(fabric, NodeId(n), doing))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No two of the words that ranks write while others wait lie in each other's place, and all
    /// lie in the layout's bytes.
    #[test]
    fn words_of_locks_do_not_overlap() {
        for nodes in 1..=20 {
            let layout = LockLayout::new(128, 9, nodes);
            let mut taken = vec![
                (layout.lock_cell(), CELL_BYTES),
                (layout.barrier_cell(), CELL_BYTES),
                (layout.barrier_word(), (2 + BARRIER_ROUNDS) * LINE_BYTES),
            ];
            for lock in (0..9).map(LockId) {
                taken.push((layout.word(lock), 8));
                taken.push((layout.slots(lock), usize::from(nodes) * 8));
                taken.push((layout.place(lock), 16));
            }
            taken.sort_unstable();
            let apart = |pair: &[(usize, usize)]| pair[0].0 + pair[0].1 <= pair[1].0;
            assert!(taken.windows(2).all(apart), "{nodes} nodes: {taken:?}");
            assert!(taken[0].0 == 128);
            let end = taken.iter().map(|(at, bytes)| at + bytes).max();
            assert!(end <= Some(128 + layout.bytes()), "{nodes} nodes");
        }
    }

    #[test]
    fn names_share_the_line_of_the_word_up_to_seven_ranks() {
        let line_of = |at: usize| at / LINE_BYTES;
        for nodes in 1..=20 {
            let layout = LockLayout::new(0, 3, nodes);
            let last = layout.slots(LockId(2)) + 8 * usize::from(nodes) - 1;
            assert_eq!(line_of(last) == line_of(layout.word(LockId(2))), nodes <= 7);
        }
    }
}
