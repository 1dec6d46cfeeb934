//! The manager's queue in coherent shared memory: the processor's atomics stand for the board.
//!
//! A lock is one word at its home, {released u48, pending u16}, and a slot a rank. To ask is one
//! fetch-add of the word: it tells the ticket and whether any rank is before. Who must wait leaves
//! its name, {ticket u48, rank plus one u16}, in the slot of its ticket and waits on a word of its
//! own window. To release is one more fetch-add; when a rank waits, the slot of the next ticket is
//! read and one write grants.
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
//! - Ranks that wait have slots of their own, also where tickets begin anew. Checked by
//!   `waiters_have_slots_of_their_own_where_tickets_begin_anew`.
//! - A grant is the ticket plus one, so a late one is never taken for the next. Checked by
//!   `the_board_over_tcp_and_the_direct_queue_in_shared_memory_exclude`.

use littoral_base::mutant;
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
/// Below this ticket a slot is the ticket modulo the ranks, for every number of ranks.
const EVEN: u64 = TICKETS - (1 << 32);
const RANK: u64 = 0xffff;

/// The slot of a ticket in a job of `nodes` ranks.
///
/// Tickets begin anew at 2^48, which most numbers of ranks do not divide. At most `nodes - 1` ranks
/// wait at once, so the last rounds are one slot shorter: the last of them ends with the last
/// ticket, and a slot comes again after `nodes - 1` tickets at the earliest.
fn slot_of(ticket: u64, nodes: u64) -> u64 {
    debug_assert!(ticket < TICKETS, "ticket {ticket} of 2^48");
    if ticket < EVEN || mutant!("dsm_tickets_end_within_a_round") {
        return ticket % nodes;
    }
    let short_rounds = (nodes - TICKETS % nodes) % nodes;
    let shorter_from = TICKETS - short_rounds * (nodes - 1);
    if ticket < shorter_from {
        return ticket % nodes;
    }
    (ticket - shorter_from) % (nodes - 1)
}

/// A rank's side of the queues in shared memory.
pub struct DirectLocks<'f, F: ?Sized> {
    fabric: &'f F,
    layout: LockLayout,
    generation: u64,
    /// More ranks than processors.
    is_crowded: bool,
    /// Asked now and then while waiting, in place of the fabric's liveness.
    live: Option<&'f dyn Fn() -> Result<()>>,
    /// Told of the rank that has waited for a lock and gets it, at both ends.
    handed: Option<&'f dyn Fn(NodeId)>,
}

impl<'f, F: Fabric + ?Sized> DirectLocks<'f, F> {
    /// This rank's side; the layout's words must be zero.
    pub fn new(fabric: &'f F, layout: LockLayout) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let is_crowded = usize::from(fabric.nodes()) > cores;
        DirectLocks { fabric, layout, generation: 0, is_crowded, live: None, handed: None }
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
        DirectLocks { fabric, layout, generation, is_crowded, live: Some(live), handed: None }
    }

    /// Tells of each lock that is handed from rank to rank who gets it: the rank that hands it
    /// over, and the one that has waited for it.
    pub(crate) fn telling(self, handed: &'f dyn Fn(NodeId)) -> Self {
        DirectLocks { handed: Some(handed), ..self }
    }

    fn tell(&self, to: NodeId) {
        self.handed.iter().for_each(|handed| handed(to));
    }

    fn check_live(&self, doing: impl Fn() -> String) -> Result<()> {
        self.live.map_or_else(|| all_must_live(self.fabric, &doing()), |live| live())
    }

    fn slot(&self, lock: LockId, ticket: u64) -> usize {
        let nodes = u64::from(self.fabric.nodes());
        self.layout.slots(lock) + 8 * slot_of(ticket, nodes) as usize
    }

    /// The rank that left its name for `ticket`; it does so right after taking it.
    fn name_of(&self, lock: LockId, ticket: u64) -> Result<NodeId> {
        let (home, at) = (self.layout.home(lock), self.slot(lock, ticket));
        let mut turns = 0u32;
        loop {
            let mut bytes = [0; 8];
            self.fabric.get(home, at, &mut bytes).map_err(lost)?;
            let found = u64::from_le_bytes(bytes);
            if found >> 16 == ticket && found & RANK != 0 {
                return Ok(NodeId((found & RANK) as u16 - 1));
            }
            turns += 1;
            if turns.is_multiple_of(1000) {
                std::thread::yield_now();
                self.check_live(|| format!("asking for lock {}", lock.0))?;
            }
        }
    }
}

/// The turn of a rank that waits for a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

impl<F: Fabric + ?Sized> DirectLocks<'_, F> {
    /// Asks for a lock: its ticket, or none where the lock was free and is this rank's.
    pub(crate) fn ask(&self, lock: LockId) -> Result<Option<Ticket>> {
        self.layout.check(lock)?;
        let home = self.layout.home(lock);
        let found = self.fabric.rmw(home, self.layout.word(lock), ASK).map_err(lost)?;
        let ticket = (found >> 16).wrapping_add(found & PENDING) % TICKETS;
        Ok((found & PENDING != 0).then_some(Ticket(ticket)))
    }

    /// Waits for the turn of a ticket.
    pub(crate) fn wait(&self, lock: LockId, Ticket(ticket): Ticket) -> Result<()> {
        let home = self.layout.home(lock);
        let name = ticket << 16 | (u64::from(self.fabric.me().0) + 1);
        let slot = self.slot(lock, ticket);
        self.fabric.put(home, slot, &name.to_le_bytes()).map_err(lost)?;
        let at = self.layout.place(lock) + 8;
        let doing = || format!("while rank {} waited for lock {}", self.fabric.me(), lock.0);
        let mut word = 0;
        while word != ticket + 1 {
            let awaited = await_word(self.fabric, at, word, || self.check_live(doing));
            word = awaited.map_err(|e| e.at_lock(lock.0))?;
        }
        self.tell(self.fabric.me());
        Ok(())
    }
}

impl<F: Fabric + ?Sized> Locks for DirectLocks<'_, F> {
    fn acquire(&mut self, lock: LockId) -> Result<Notices> {
        self.ask(lock)?.map_or(Ok(()), |ticket| self.wait(lock, ticket))?;
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
                let place = self.layout.place(lock) + 8;
                self.fabric.signal(waiter, place, next + 1).map_err(lost)?;
                self.tell(waiter);
                Ok(())
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use littoral_fabric::shm::{ShmFabric, ShmLayout};

    use super::*;

    #[test]
    fn waiters_have_slots_of_their_own_where_tickets_begin_anew() {
        for nodes in 2..=40 {
            for first in [EVEN - 2 * nodes, TICKETS - 2 * nodes * nodes] {
                let tickets = (first..first + 3 * nodes * nodes).map(|t| t % TICKETS);
                let slots: Vec<u64> = tickets.map(|t| slot_of(t, nodes)).collect();
                assert!(slots.iter().all(|&slot| slot < nodes), "{nodes} ranks");
                for waiting in slots.windows(nodes as usize - 1) {
                    let mut apart = waiting.to_vec();
                    apart.sort_unstable();
                    apart.dedup();
                    assert_eq!(apart.len(), waiting.len(), "{nodes} ranks: {waiting:?}");
                }
            }
        }
    }

    /// Two ranks, whose number divides that of the tickets: here names and grants begin anew.
    #[test]
    fn sections_go_on_where_tickets_begin_anew() {
        const LOCK: LockId = LockId(0);
        let layout = LockLayout::new(0, 1, 2);
        let memory = ShmLayout::new(2, layout.bytes());
        let file = tempfile::tempfile().unwrap();
        memory.create(&file).unwrap();
        let job = [0, 1].map(|n| ShmFabric::attach(&file, memory, NodeId(n)).unwrap());
        let word = (TICKETS - 300) << 16;
        job[0].put(layout.home(LOCK), layout.word(LOCK), &word.to_le_bytes()).unwrap();
        let inside = &AtomicU32::new(0);
        std::thread::scope(|s| {
            for fabric in &job {
                s.spawn(move || {
                    let mut locks = DirectLocks::new(fabric, layout);
                    for _ in 0..300 {
                        locks.acquire(LOCK).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        locks.release(LOCK, &[]).unwrap();
                    }
                });
            }
        });
        let mut word = [0; 8];
        job[0].get(layout.home(LOCK), layout.word(LOCK), &mut word).unwrap();
        assert_eq!(u64::from_le_bytes(word), 300 << 16);
    }
}
