//! The lock manager as a device in the fabric: queues, notices and the barrier behind a few bytes.
//!
//! A write is {tag u8, fields}, little-endian:
//!
//! | tag | write | fields |
//! |---|---|---|
//! | 1 | acquire | lock u32, seen u64, variable u64 |
//! | 2 | notices of a section to come out of | lock u32, runs |
//! | 3 | arrive | generation u64, variable u64, runs |
//! | 4 | notices of an arrival to come | runs |
//!
//! | tag | read | fields | answer |
//! |---|---|---|---|
//! | 1 | release | lock u32, generation u64, runs | status u8, words |
//! | 2 | who holds | lock u32 | held u8, rank u16 |
//!
//! Runs are {count u32, runs} as in `core::wire`. The variable is [`CELL_BYTES`] of the asker's
//! window and begins at a word; another place is no request that a correct rank makes. A grant is
//! written so that it ends there: the bytes of `Message::Grant` padded to eight, then a word
//! {number u48, length u16}; a barrier's departure is a grant of lock `u32::MAX`. Notices that do
//! not fit become `Everything`.
//!
//! The paper clears the variable before asking. Here the variable is the device's alone and its
//! word is numbered: on a pool a line must have one writer, and a late grant can never be taken for
//! the next one.
//!
//! Invariants
//! - One write of the device per grant, one per departure, and no other. Checked by
//!   `the_board_excludes_on_a_hostile_pool_with_three_operations_a_section`,
//!   `three_operations_a_section_and_no_read_modify_write_in_virtual_time`.
//! - A request that breaks the protocol is answered by a refusal in words and changes nothing.
//!   Checked by `a_request_out_of_order_is_refused_and_changes_nothing`,
//!   `noise_is_refused_and_never_panics`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use littoral_base::codec::{Reader, Writer};
use littoral_base::mutant;
use littoral_base::units::NodeId;
use littoral_fabric::board::{Board, DmaWrite};

use super::CELL_BYTES;
use crate::core::barrier::Barrier;
use crate::core::lock::ManagedLock;
use crate::core::message::{LockId, Message, Notices, PageRun};
use crate::core::wire;
use crate::error::{Error, Kind, Result};

pub(super) const ACQUIRE: u8 = 1;
pub(super) const SECTION_NOTICES: u8 = 2;
pub(super) const ARRIVE: u8 = 3;
pub(super) const ARRIVAL_NOTICES: u8 = 4;
pub(super) const RELEASE: u8 = 1;
pub(super) const WHO_HOLDS: u8 = 2;
pub(super) const REFUSED: u8 = 0xff;

/// The lock whose grants are departures from the barrier.
pub(super) const BARRIER_LOCK: LockId = LockId(u32::MAX);

/// What a board did.
#[derive(Debug, Default)]
pub struct BoardCounters {
    grants: AtomicU64,
    departures: AtomicU64,
    refusals: AtomicU64,
    questions: AtomicU64,
}

impl BoardCounters {
    /// Grants written.
    pub fn grants(&self) -> u64 {
        self.grants.load(Ordering::Relaxed)
    }
    /// Departures written.
    pub fn departures(&self) -> u64 {
        self.departures.load(Ordering::Relaxed)
    }
    /// Requests refused.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }
    /// How often it was asked who holds a lock: by waiters whose patience has run out, since the
    /// holder is slow or dead. No part of a section's three operations.
    pub fn questions(&self) -> u64 {
        self.questions.load(Ordering::Relaxed)
    }
}

/// The device; see the module's page.
#[derive(Debug)]
pub struct LockBoard {
    capacity: usize,
    locks: BTreeMap<LockId, ManagedLock>,
    barrier: Barrier,
    generation: u64,
    /// Where each rank's variables are, and how often each has been written.
    variables: BTreeMap<(NodeId, LockId), u64>,
    numbers: BTreeMap<(NodeId, u64), u64>,
    /// Notices that came ahead of their release or arrival.
    ahead: BTreeMap<(NodeId, Option<LockId>), Vec<PageRun>>,
    counters: Arc<BoardCounters>,
}

impl LockBoard {
    /// The board of a job with `ranks` ranks; each lock's log holds `capacity` notices.
    pub fn new(ranks: u16, capacity: usize) -> Self {
        LockBoard {
            capacity,
            locks: BTreeMap::new(),
            barrier: Barrier::new(ranks),
            generation: 0,
            variables: BTreeMap::new(),
            numbers: BTreeMap::new(),
            ahead: BTreeMap::new(),
            counters: Arc::default(),
        }
    }

    /// What the board does, readable while it runs elsewhere.
    pub fn counters(&self) -> Arc<BoardCounters> {
        Arc::clone(&self.counters)
    }

    fn lock(&mut self, lock: LockId) -> &mut ManagedLock {
        let capacity = self.capacity;
        self.locks.entry(lock).or_insert_with(|| ManagedLock::new(lock, capacity))
    }

    fn take_write(&mut self, from: NodeId, data: &[u8], dma: &mut Vec<DmaWrite>) -> Result<()> {
        let mut r = Reader::new(data);
        let tag = r.u8().ok_or_else(malformed)?;
        match tag {
            ACQUIRE => self.take_acquire(from, &mut r, dma),
            SECTION_NOTICES => {
                let lock = LockId(r.u32().ok_or_else(malformed)?);
                let pages = pages(&mut r)?;
                self.ahead.entry((from, Some(lock))).or_default().extend(pages);
                Ok(())
            }
            ARRIVE => self.take_arrival(from, &mut r, dma),
            ARRIVAL_NOTICES => {
                let pages = pages(&mut r)?;
                self.ahead.entry((from, None)).or_default().extend(pages);
                Ok(())
            }
            _ => Err(malformed()),
        }
    }

    fn take_acquire(
        &mut self,
        from: NodeId,
        r: &mut Reader<'_>,
        dma: &mut Vec<DmaWrite>,
    ) -> Result<()> {
        let mut fields = || Some((LockId(r.u32()?), r.u64()?, variable(r)?));
        let (lock, seen, variable) = fields().ok_or_else(malformed)?;
        self.variables.insert((from, lock), variable);
        match self.lock(lock).acquire(from, seen) {
            Ok(grant) => {
                dma.extend(grant.map(|(to, grant)| self.write_grant(to, lock, &grant)));
                Ok(())
            }
            Err(e) => {
                self.counters.refusals.fetch_add(1, Ordering::Relaxed);
                let mut words = vec![REFUSED];
                words.extend(e.to_string().into_bytes());
                words.truncate(CELL_BYTES - 16);
                dma.push(self.write_cell(from, lock, &words));
                Ok(())
            }
        }
    }

    fn take_arrival(
        &mut self,
        from: NodeId,
        r: &mut Reader<'_>,
        dma: &mut Vec<DmaWrite>,
    ) -> Result<()> {
        let mut fields = || Some((r.u64()?, variable(r)?));
        let (generation, variable) = fields().ok_or_else(malformed)?;
        let mut written = self.ahead.remove(&(from, None)).unwrap_or_default();
        written.extend(pages(r)?);
        self.variables.insert((from, BARRIER_LOCK), variable);
        let departures = self.barrier.arrive(from, generation, &written)?;
        if !departures.is_empty() {
            self.generation = generation + 1;
            self.locks.values_mut().for_each(|l| l.forget_before(generation + 1));
        }
        for (to, message) in departures {
            let Message::Depart { notices, .. } = message else { continue };
            let fresh = notices.into_iter().filter(|n| n.writer != to).collect();
            let notices = Notices::These(fresh);
            let grant = Message::Grant { lock: BARRIER_LOCK, notices, version: generation + 1 };
            dma.push(self.write_grant(to, BARRIER_LOCK, &grant));
        }
        Ok(())
    }

    fn write_grant(&mut self, to: NodeId, lock: LockId, grant: &Message) -> DmaWrite {
        let count = match lock {
            BARRIER_LOCK => &self.counters.departures,
            _ => &self.counters.grants,
        };
        count.fetch_add(1, Ordering::Relaxed);
        let mut bytes = wire::encode(grant);
        if let Message::Grant { lock, version, .. } = grant
            && bytes.len().next_multiple_of(8) > CELL_BYTES - 8
        {
            let (lock, version) = (*lock, *version);
            let notices = Notices::Everything;
            bytes = wire::encode(&Message::Grant { lock, notices, version });
        }
        self.write_cell(to, lock, &bytes)
    }

    fn write_cell(&mut self, to: NodeId, lock: LockId, bytes: &[u8]) -> DmaWrite {
        let variable = self.variables.get(&(to, lock)).copied().unwrap_or(0);
        let number = self.numbers.entry((to, variable)).or_default();
        *number += 1;
        let mut data = bytes.to_vec();
        data.resize(bytes.len().next_multiple_of(8), 0);
        // A variable near the end of all addresses leads out of the window, which is refused.
        let offset = (variable as usize).saturating_add(CELL_BYTES - 8 - data.len()) & !7;
        data.extend((*number << 16 | bytes.len() as u64).to_le_bytes());
        DmaWrite { node: to, offset, data }
    }

    fn take_read(
        &mut self,
        from: NodeId,
        question: &[u8],
        dma: &mut Vec<DmaWrite>,
    ) -> Result<Vec<u8>> {
        let mut r = Reader::new(question);
        let mut fields = || Some((r.u8()?, LockId(r.u32()?)));
        let (tag, lock) = fields().ok_or_else(malformed)?;
        match tag {
            RELEASE => {
                let generation = r.u64().ok_or_else(malformed)?;
                let mut written = self.ahead.remove(&(from, Some(lock))).unwrap_or_default();
                written.extend(pages(&mut r)?);
                let next = self.lock(lock).release(from, generation, &written)?;
                dma.extend(next.map(|(to, grant)| self.write_grant(to, lock, &grant)));
                Ok(vec![0])
            }
            WHO_HOLDS => {
                self.counters.questions.fetch_add(1, Ordering::Relaxed);
                let holder = self.locks.get(&lock).and_then(ManagedLock::holder);
                let mut w = Writer::new();
                w.u8(u8::from(holder.is_some())).u16(holder.map_or(0, |h| h.0));
                Ok(w.finish())
            }
            _ => Err(malformed()),
        }
    }
}

/// Where a variable is: at a word, or no correct rank names it.
fn variable(r: &mut Reader<'_>) -> Option<u64> {
    r.u64().filter(|at| at.is_multiple_of(8) || mutant!("dsm_variable_at_any_byte"))
}

fn malformed() -> Error {
    Error::new(Kind::Protocol, "a request that no correct rank makes of a lock board")
}

fn pages(r: &mut Reader<'_>) -> Result<Vec<PageRun>> {
    wire::runs(r).filter(|_| r.remaining() == 0).ok_or_else(malformed)
}

impl Board for LockBoard {
    fn write(&mut self, from: NodeId, data: &[u8], dma: &mut Vec<DmaWrite>) {
        if self.take_write(from, data, dma).is_err() {
            // A posted write has no answer; the asker's wait ends when it asks who holds the lock.
            self.counters.refusals.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(&mut self, from: NodeId, question: &[u8], dma: &mut Vec<DmaWrite>) -> Vec<u8> {
        self.take_read(from, question, dma).unwrap_or_else(|e| {
            self.counters.refusals.fetch_add(1, Ordering::Relaxed);
            let mut words = vec![REFUSED];
            words.extend(e.to_string().into_bytes());
            words
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire(board: &mut LockBoard, rank: u16, lock: u32) -> Vec<DmaWrite> {
        let mut w = Writer::new();
        w.u8(ACQUIRE).u32(lock).u64(0).u64(1024);
        let mut dma = Vec::new();
        board.write(NodeId(rank), &w.finish(), &mut dma);
        dma
    }

    #[test]
    fn a_grant_ends_at_the_variables_end_and_is_numbered() {
        let mut board = LockBoard::new(2, 8);
        let dma = acquire(&mut board, 1, 5);
        let [write] = &dma[..] else { panic!("one write a grant: {dma:?}") };
        assert_eq!((write.node, write.offset + write.data.len()), (NodeId(1), 1024 + CELL_BYTES));
        let flag = u64::from_le_bytes(write.data[write.data.len() - 8..].try_into().unwrap());
        assert_eq!(flag >> 16, 1);
        let grant = wire::decode(&write.data[..(flag & 0xffff) as usize]).unwrap();
        assert!(matches!(grant, Message::Grant { lock: LockId(5), version: 0, .. }));
        let refused = acquire(&mut board, 1, 5);
        assert_eq!((refused.len(), refused[0].data[0], board.counters.refusals()), (1, REFUSED, 1));
    }

    /// A device writes whole words, so such a write would stop the agent that carries it out.
    #[test]
    fn a_variable_that_is_at_no_word_gets_nothing() {
        let mut board = LockBoard::new(1, 8);
        for (n, variable) in (1..).zip([1u64, 1028, u64::MAX]) {
            let mut dma = Vec::new();
            let (mut acquire, mut arrive) = (Writer::new(), Writer::new());
            acquire.u8(ACQUIRE).u32(0).u64(0).u64(variable);
            arrive.u8(ARRIVE).u64(0).u64(variable).u32(0);
            for request in [acquire, arrive] {
                board.write(NodeId(0), &request.finish(), &mut dma);
            }
            assert_eq!((dma, board.counters.refusals()), (Vec::new(), 2 * n));
        }
        // One at the end of all addresses is a word outside of every window.
        let (mut w, mut dma) = (Writer::new(), Vec::new());
        w.u8(ACQUIRE).u32(0).u64(0).u64(u64::MAX - 7);
        board.write(NodeId(0), &w.finish(), &mut dma);
        let wholes = dma.iter().map(|write| (write.offset % 8, write.data.len() % 8));
        assert!(wholes.eq([(0, 0)]), "{dma:?}");
    }

    #[test]
    fn noise_is_refused_and_never_panics() {
        let mut board = LockBoard::new(2, 8);
        for length in 0..40 {
            for tag in 0..6 {
                let mut bytes = vec![0xee; length];
                bytes.first_mut().into_iter().for_each(|b| *b = tag);
                let mut dma = Vec::new();
                board.write(NodeId(1), &bytes, &mut dma);
                let _ = board.read(NodeId(1), &bytes, &mut dma);
            }
        }
        assert!(board.counters.refusals() > 200);
    }
}
