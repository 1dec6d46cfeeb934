//! The manager's queue in coherent shared memory: the processor's atomics stand for the board.
//!
//! A lock is one word at its home, {released u48, pending u16}, and a slot a rank. To ask is one
//! fetch-add of the word: it tells the ticket and whether any rank is before. Who must wait leaves
//! its name in the slot of its ticket and waits on a word of its own window. To release is one more
//! fetch-add; when a rank waits, the slot of the next ticket is read and one write grants.
//!
//! Memory is coherent, so no notices travel.
//!
//! Every rank of a barrier chooses the same kind: by the number of processors, which is equal for
//! ranks of one machine, or as the caller says, who has agreed on it with the others.
//!
//! Invariants
//! - Tickets are served in order. The counts never carry into each other: pending is at most the
//!   number of ranks, released wraps at 2^48. Checked by
//!   `the_board_over_tcp_and_the_direct_queue_in_shared_memory_exclude`.
//! - A grant is the ticket plus one, so a late one is never taken for the next. Checked by
//!   `the_board_over_tcp_and_the_direct_queue_in_shared_memory_exclude`.

use littoral_base::units::NodeId;
use littoral_fabric::{Fabric, Rmw};

use super::{Barriers, LockLayout, Locks, all_must_live, await_word, lost};
use crate::core::message::{LockId, Notices, PageId};
use crate::error::{Error, Kind, Result};

const PENDING: u64 = 0xffff;
const ASK: Rmw = Rmw::Add(1);
/// One more released, one fewer pending.
const LEAVE: Rmw = Rmw::Add(0xffff);
const TICKETS: u64 = 1 << 48;

/// A rank's side of the queues in shared memory.
pub struct DirectLocks<'f, F: ?Sized> {
    fabric: &'f F,
    layout: LockLayout,
    generation: u64,
    /// More ranks than processors.
    is_crowded: bool,
    /// Asked now and then while waiting, in place of the fabric's liveness.
    live: Option<&'f dyn Fn() -> Result<()>>,
}

impl<'f, F: Fabric + ?Sized> DirectLocks<'f, F> {
    /// This rank's side; the layout's words must be zero.
    pub fn new(fabric: &'f F, layout: LockLayout) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let is_crowded = usize::from(fabric.nodes()) > cores;
        DirectLocks { fabric, layout, generation: 0, is_crowded, live: None }
    }

    /// Chooses the barrier, as every other rank must: it counts at rank 0 if `is_crowded`, else it
    /// disseminates.
    #[must_use]
    pub fn crowded(self, is_crowded: bool) -> Self {
        DirectLocks { is_crowded, ..self }
    }

    /// This rank's side after `generation` barriers, for one operation of a job that knows itself
    /// whether it still runs.
    pub(crate) fn of_job(
        fabric: &'f F,
        layout: LockLayout,
        generation: u64,
        is_crowded: bool,
        live: &'f dyn Fn() -> Result<()>,
    ) -> Self {
        DirectLocks { fabric, layout, generation, is_crowded, live: Some(live) }
    }

    fn check_live(&self, doing: impl Fn() -> String) -> Result<()> {
        self.live.map_or_else(|| all_must_live(self.fabric, &doing()), |live| live())
    }

    fn slot(&self, lock: LockId, ticket: u64) -> usize {
        let nodes = u64::from(self.fabric.nodes());
        self.layout.slots(lock) + 8 * (ticket % nodes) as usize
    }

    /// The rank that left its name for `ticket`; it does so right after taking it.
    fn name_of(&self, lock: LockId, ticket: u64) -> Result<NodeId> {
        let (home, at) = (self.layout.home(lock), self.slot(lock, ticket));
        let mut turns = 0u32;
        loop {
            let mut bytes = [0; 8];
            self.fabric.get(home, at, &mut bytes).map_err(lost)?;
            let found = u64::from_le_bytes(bytes);
            if found >> 16 == (ticket + 1) % TICKETS {
                return Ok(NodeId((found & 0xffff) as u16));
            }
            turns += 1;
            if turns.is_multiple_of(1000) {
                std::thread::yield_now();
                self.check_live(|| format!("asking for lock {}", lock.0))?;
            }
        }
    }
}

impl<F: Fabric + ?Sized> Locks for DirectLocks<'_, F> {
    fn acquire(&mut self, lock: LockId) -> Result<Notices> {
        self.layout.check(lock)?;
        let home = self.layout.home(lock);
        let found = self.fabric.rmw(home, self.layout.word(lock), ASK).map_err(lost)?;
        let ticket = (found >> 16).wrapping_add(found & PENDING) % TICKETS;
        if found & PENDING == 0 {
            return Ok(Notices::These(Vec::new()));
        }
        let name = ((ticket + 1) % TICKETS) << 16 | u64::from(self.fabric.me().0);
        let slot = self.slot(lock, ticket);
        self.fabric.put(home, slot, &name.to_le_bytes()).map_err(lost)?;
        let at = self.layout.place(lock) + 8;
        let doing = || format!("while rank {} waited for lock {}", self.fabric.me(), lock.0);
        let mut word = 0;
        while word != ticket + 1 {
            let awaited = await_word(self.fabric, at, word, || self.check_live(doing));
            word = awaited.map_err(|e| e.at_lock(lock.0))?;
        }
        Ok(Notices::These(Vec::new()))
    }

    fn release(&mut self, lock: LockId, _written: &[PageId]) -> Result<()> {
        self.layout.check(lock)?;
        let home = self.layout.home(lock);
        let found = self.fabric.rmw(home, self.layout.word(lock), LEAVE).map_err(lost)?;
        match found & PENDING {
            0 => {
                let what = format!("lock {} was free", lock.0);
                Err(Error::new(Kind::Protocol, what).at_rank(self.fabric.me()).at_lock(lock.0))
            }
            1 => Ok(()),
            _ => {
                let next = ((found >> 16) + 1) % TICKETS;
                let waiter = self.name_of(lock, next)?;
                self.fabric.signal(waiter, self.layout.place(lock) + 8, next + 1).map_err(lost)
            }
        }
    }
}

impl<F: Fabric + ?Sized> DirectLocks<'_, F> {
    /// Waits until a word of this rank has another generation than its own.
    fn await_generation(&self, at: usize) -> Result<u64> {
        let awaited = await_word(self.fabric, at, self.generation, || self.check_live(at_barrier));
        awaited.map_err(|e| e.at_generation(self.generation))
    }

    /// A dissemination barrier (Hensgen, Finkel and Manber 1988): in round `k` each rank writes the
    /// generation to the rank `2^k` after it and waits for the one before. The writer is at most
    /// one generation ahead, so a word that has changed at all has changed enough.
    fn disseminate(&mut self) -> Result<()> {
        let (me, nodes) = (u32::from(self.fabric.me().0), u32::from(self.fabric.nodes()));
        let next = self.generation + 1;
        let mut at = self.layout.barrier_word() + 2 * super::LINE_BYTES;
        let mut distance = 1;
        while distance < nodes {
            let other = NodeId(((me + distance) % nodes) as u16);
            self.fabric.signal(other, at, next).map_err(lost)?;
            self.await_generation(at)?;
            distance *= 2;
            at += super::LINE_BYTES;
        }
        self.generation = next;
        Ok(())
    }

    /// One fetch-add an arrival; the last one writes a word to each other rank: fewer wake-ups than
    /// dissemination when ranks sleep.
    fn count_in(&mut self) -> Result<()> {
        let nodes = u64::from(self.fabric.nodes());
        let counter = self.layout.barrier_word();
        let before = self.fabric.rmw(NodeId(0), counter, Rmw::Add(1)).map_err(lost)?;
        let next = self.generation + 1;
        let at = counter + super::LINE_BYTES;
        if before % nodes == nodes - 1 {
            for other in (0..self.fabric.nodes()).filter(|&n| n != self.fabric.me().0) {
                self.fabric.signal(NodeId(other), at, next).map_err(lost)?;
            }
            let mine = next.to_le_bytes();
            self.fabric.put(self.fabric.me(), at, &mine).map_err(lost)?;
        } else {
            self.await_generation(at)?;
        }
        self.generation = next;
        Ok(())
    }
}

fn at_barrier() -> String {
    "while others waited at a barrier".to_owned()
}

impl<F: Fabric + ?Sized> Barriers for DirectLocks<'_, F> {
    /// Disseminates where every rank has a processor, else counts at rank 0.
    fn barrier(&mut self, _written: &[PageId]) -> Result<Notices> {
        if self.is_crowded {
            self.count_in()?;
        } else {
            self.disseminate()?;
        }
        Ok(Notices::These(Vec::new()))
    }
}
