//! Sections and barriers without a server: where all ranks share the pages themselves in coherent
//! memory, the processor's atomics order their accesses and no message is sent.
//!
//! Locks and the barrier are [`DirectLocks`] in the windows of the fabric. In front of their words
//! each window has two lines {allocations u64, one number for them u64, processors u64}. A rank
//! writes line `g % 2` before barrier `g`, when it differs from what stands there, and compares its
//! own with rank 0's after it.
//!
//! Invariants
//! - Rank 0 does not change a line that another rank may still read: line `g % 2` changes again
//!   before barrier `g + 2`, which rank 0 leaves `g + 1` for only when all have come there. Checked
//!   by `a_line_is_not_rewritten_while_it_is_read`.
//! - Every rank takes the same kind of barrier: rank 0's number of processors decides, which the
//!   first barrier, always of one kind, makes known. Checked by `sections_and_barriers_agree`.
//! - A rank that waits learns of the job's failure: the watching thread still runs. Checked by
//!   `a_rank_that_is_gone_ends_who_waits_for_its_lock`.

use std::cell::{Cell, RefCell};
use std::fs::File;

use littoral_base::mutant;
use littoral_base::units::NodeId;
use littoral_device::memory::LINE_BYTES;
use littoral_fabric::Fabric;

use super::board::Board;
use super::carrier::Carrier;
use super::standstill::Awaits;
use super::waiting::Patience;
use super::{Common, environment};
use crate::core::message::LockId;
use crate::core::rank::{allocated_differently, in_section, not_innermost, taken_twice};
use crate::error::{Error, Kind, Result};
use crate::lock::direct::{DirectLocks, Ticket};
use crate::lock::{Barriers as _, LockLayout, Locks as _, lost};

/// {allocations, one number for them, processors}.
type Line = [u64; 3];

/// Bytes of each rank's window that sections and barriers without a server need, in a job of
/// `ranks` ranks with `locks` locks.
pub fn road_bytes(locks: u32, ranks: u16) -> usize {
    2 * LINE_BYTES + layout(locks, ranks).bytes()
}

fn layout(locks: u32, ranks: u16) -> LockLayout {
    LockLayout::new(2 * LINE_BYTES, locks, ranks)
}

/// A rank's side; see the module's page.
pub(super) struct Road {
    layout: LockLayout,
    /// Tells the ranks of this machine who holds what.
    board: Option<Board>,
    processors: u64,
}

/// What an operation of the rank changes.
#[derive(Default)]
pub(super) struct State {
    held: Vec<LockId>,
    generation: u64,
    is_crowded: bool,
    /// What this rank's two lines say.
    lines: [Line; 2],
}

impl State {
    /// The lock of the innermost section.
    pub(super) fn innermost(&self) -> Option<LockId> {
        self.held.last().copied()
    }

    /// Which of a rank's two lines and lists the next barrier is told by.
    pub(super) fn parity(&self) -> usize {
        (self.generation % 2) as usize
    }
}

impl Road {
    /// The road of a rank that shares pages in place, where the fabric's windows are coherent and
    /// have room, which is so for every rank of a job or for none.
    ///
    /// # Errors
    /// `Kind::Environment` when the board cannot be mapped.
    pub(super) fn open(
        carrier: &dyn Carrier,
        locks: u32,
        board: Option<&File>,
    ) -> Result<Option<Road>> {
        let (me, ranks) = (carrier.me(), carrier.ranks());
        let has_room = |f: &dyn Fabric| f.window_bytes() >= road_bytes(locks, ranks);
        if !carrier.coherent().is_some_and(has_room) {
            return Ok(None);
        }
        let board = board.map(|file| Board::open(file, ranks, me)).transpose();
        let board = board.map_err(|e| environment("mapping the job's board", e))?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        Ok(Some(Road { layout: layout(locks, ranks), board, processors }))
    }

    fn show(&self, state: &State) {
        if let Some(board) = &self.board {
            board.show(state.held.iter().copied());
        }
    }

    /// Enters a section.
    pub(super) fn lock(&self, common: &Common, state: &mut State, lock: LockId) -> Result<()> {
        common.check()?;
        if state.held.contains(&lock) {
            return Err(taken_twice(common.carrier.me(), lock));
        }
        self.take(common, lock)?;
        state.held.push(lock);
        self.show(state);
        Ok(())
    }

    /// Takes a lock when its turn comes.
    pub(super) fn take(&self, common: &Common, lock: LockId) -> Result<()> {
        self.wait(common, lock, self.ask(common, lock))
    }

    /// Asks for a lock: its ticket, or none where the lock is this rank's at once. It waits for
    /// nothing, so the caller may have the engine locked.
    pub(super) fn ask(&self, common: &Common, lock: LockId) -> Result<Option<Ticket>> {
        let live = || Ok(());
        DirectLocks::of_job(fabric(common), self.layout, 0, false, &live).ask(lock)
    }

    /// Waits for the turn of a lock that was asked for.
    pub(super) fn wait(
        &self,
        common: &Common,
        lock: LockId,
        asked: Result<Option<Ticket>>,
    ) -> Result<()> {
        let Some(ticket) = asked.map_err(|e| common.explained(e))? else { return Ok(()) };
        let waiting = Waiting::of(common, Some(lock));
        let (live, handed) = (|| waiting.look(), |_: NodeId| common.grants.take());
        let side = DirectLocks::of_job(fabric(common), self.layout, 0, false, &live);
        side.telling(&handed).wait(lock, ticket).map_err(|e| common.explained(e))
    }

    /// Leaves the innermost section.
    pub(super) fn unlock(&self, common: &Common, state: &mut State, lock: LockId) -> Result<()> {
        common.check()?;
        if state.held.last() != Some(&lock) {
            return Err(not_innermost(common.carrier.me(), lock));
        }
        state.held.pop();
        self.show(state);
        self.leave(common, lock)
    }

    /// Gives a lock to the rank whose turn is next.
    pub(super) fn leave(&self, common: &Common, lock: LockId) -> Result<()> {
        let waiting = Waiting::of(common, None);
        let (live, handed) = (|| waiting.look(), |to: NodeId| common.grants.give(to));
        let side = DirectLocks::of_job(fabric(common), self.layout, 0, false, &live);
        side.telling(&handed).release(lock, &[]).map_err(|e| common.explained(e))
    }

    /// Waits for every rank, and compares what this rank has allocated with rank 0.
    pub(super) fn barrier(
        &self,
        common: &Common,
        state: &mut State,
        made: (u32, u64),
    ) -> Result<()> {
        let me = common.carrier.me();
        common.check()?;
        if let Some(lock) = state.held.last() {
            return Err(in_section(me, *lock));
        }
        let theirs = self.wait_for_all(common, state, made)?;
        if theirs == made || mutant!("dsm_road_compares_nothing") {
            return Ok(());
        }
        let e = allocated_differently(me, made.0).at_rank(me);
        common.fail(&mut common.locked(), &e);
        Err(e)
    }

    /// Waits for every rank, in a section too.
    pub(super) fn meet(&self, common: &Common, state: &mut State, made: (u32, u64)) -> Result<()> {
        common.check()?;
        self.wait_for_all(common, state, made).map(drop)
    }

    /// What rank 0 had allocated when it came here.
    fn wait_for_all(
        &self,
        common: &Common,
        state: &mut State,
        (count, sum): (u32, u64),
    ) -> Result<(u32, u64)> {
        let fabric = fabric(common);
        let parity = state.parity();
        let line = [u64::from(count), sum, self.processors];
        if state.lines[parity] != line {
            put_line(fabric, parity, line)?;
            state.lines[parity] = line;
        }
        let waiting = Waiting::of(common, None);
        let live = || waiting.look();
        let is_crowded = state.is_crowded;
        // The first barrier was of the other kind, which has words of its own.
        let generation = state.generation - u64::from(is_crowded);
        let mut side = DirectLocks::of_job(fabric, self.layout, generation, is_crowded, &live);
        side.barrier(&[]).map_err(|e| common.explained(e))?;
        state.generation += 1;
        let [theirs, their_sum, processors] =
            get_line(fabric, parity).map_err(|e| common.explained(e))?;
        state.is_crowded = u64::from(fabric.nodes()) > processors;
        Ok((theirs as u32, their_sum))
    }
}

/// A wait of the program for a word. From when it first asks whether the job runs, letters to this
/// rank get their credit: who is waited for may be sending them.
struct Waiting<'c> {
    common: &'c Common,
    /// The lock that the word stands for, if it does.
    lock: Option<LockId>,
    has_begun: Cell<bool>,
    patience: RefCell<Patience>,
}

impl<'c> Waiting<'c> {
    fn of(common: &'c Common, lock: Option<LockId>) -> Self {
        let patience = RefCell::default();
        Waiting { common, lock, has_begun: Cell::new(false), patience }
    }

    fn look(&self) -> Result<()> {
        if !self.has_begun.replace(true) {
            self.common.locked().begin_waiting(&*self.common.carrier);
        }
        self.common.check()?;
        let Some(lock) = self.lock else { return Ok(()) };
        let mut engine = self.common.locked();
        self.common.pass_round(&mut engine, Awaits::Lock(lock), &mut self.patience.borrow_mut())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.has_begun.get() {
            self.common.locked().mailbox.end_waiting();
        }
    }
}

pub(super) fn fabric(common: &Common) -> &dyn Fabric {
    common.carrier.coherent().expect("invariant: a road is opened over a coherent fabric")
}

fn put_line(fabric: &dyn Fabric, parity: usize, line: Line) -> Result<()> {
    let mut bytes = [0; 24];
    for (word, value) in bytes.chunks_exact_mut(8).zip(line) {
        word.copy_from_slice(&value.to_le_bytes());
    }
    fabric.put(fabric.me(), parity * LINE_BYTES, &bytes).map_err(lost)
}

fn get_line(fabric: &dyn Fabric, parity: usize) -> Result<Line> {
    let mut bytes = [0; 24];
    fabric.get(NodeId(0), parity * LINE_BYTES, &mut bytes).map_err(lost)?;
    let word = |at: usize| bytes[at..].first_chunk().map_or(0, |w| u64::from_le_bytes(*w));
    Ok([word(0), word(8), word(16)])
}

impl Common {
    /// Whether the job still runs.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        if self.lost.load(std::sync::atomic::Ordering::Acquire) {
            return self.check_lost();
        }
        Ok(())
    }

    #[cold]
    fn check_lost(&self) -> Result<()> {
        self.locked().check()
    }

    /// What an error of the windows comes of: the rank's judgement of who is gone, which is due
    /// within a round of the watching thread and the grace period for last words.
    fn explained(&self, e: Error) -> Error {
        if e.kind() != Kind::PeerLost {
            return e;
        }
        let mut engine = self.locked();
        for _ in 0..JUDGED_WITHIN {
            if let Err(judged) = engine.check() {
                return judged;
            }
            engine = self.changed.wait(engine, super::ROUND);
        }
        e
    }
}

/// Rounds of the watching thread within which a loss is judged; afterwards the fabric's own words
/// stand.
const JUDGED_WITHIN: u32 = 500;
