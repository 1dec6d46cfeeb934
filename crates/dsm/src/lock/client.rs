//! A rank's side of a [`super::board::LockBoard`].
//!
//! Life of a section: one write asks; the wait is on this rank's own window, spinning a few
//! microseconds and then asleep; one read releases, its question carrying the notices. Where the
//! fabric's reads are split, the answer of that read is not waited for but looked at when the next
//! grant or departure has come, by which time it has: the board answers in order. Notices that
//! do not fit a request go ahead of it in writes of their own, which are counted as coherence
//! operations and not as lock operations.
//!
//! Invariants
//! - One request at a time; the last number seen in a variable tells an old grant from a new one.
//!   Checked by `grants_come_in_order_of_arrival`,
//!   `a_grant_ends_at_the_variables_end_and_is_numbered`.
//! - A release that this rank has no right to is asked whole, so that the refusal is its result.
//!   Checked by `a_request_out_of_order_is_refused_and_changes_nothing`.

use std::collections::{BTreeMap, BTreeSet};

use littoral_base::codec::{Reader, Writer};
use littoral_base::units::NodeId;
use littoral_fabric::Fabric;
use littoral_fabric::board::BOARD_BYTES_MAX;

use super::board::{
    ACQUIRE, ARRIVAL_NOTICES, ARRIVE, REFUSED, RELEASE, SECTION_NOTICES, WHO_HOLDS,
};
use super::{Barriers, CELL_BYTES, LockLayout, Locks, await_word, lost, must_live};
use crate::core::message::{LockId, Message, Notices, PageId, PageRun};
use crate::core::pages::runs_of;
use crate::core::wire::{self, RUN_BYTES_MAX, put_runs};
use crate::error::{Error, Kind, Result};

/// Runs that fit a request beside its fields.
const RUNS_MAX: usize = (BOARD_BYTES_MAX - 32) / RUN_BYTES_MAX;

/// A rank's side of the board at one node.
pub struct BoardClient<'f, F> {
    fabric: &'f F,
    board: NodeId,
    layout: LockLayout,
    seen: BTreeMap<LockId, u64>,
    held: BTreeSet<LockId>,
    /// The read whose answer has not been looked at.
    unanswered: Option<u64>,
    lock_word: u64,
    barrier_word: u64,
    generation: u64,
    coherence_writes: u64,
}

impl<'f, F: Fabric> BoardClient<'f, F> {
    /// This rank's side of the board at node `board`; the layout's cells must be zero.
    pub fn new(fabric: &'f F, board: NodeId, layout: LockLayout) -> Self {
        BoardClient {
            fabric,
            board,
            layout,
            seen: BTreeMap::new(),
            held: BTreeSet::new(),
            unanswered: None,
            lock_word: 0,
            barrier_word: 0,
            generation: 0,
            coherence_writes: 0,
        }
    }

    /// Writes that carried notices only: none as long as notices fit.
    pub fn coherence_writes(&self) -> u64 {
        self.coherence_writes
    }

    fn tell(&self, w: Writer) -> Result<()> {
        self.fabric.board_write(self.board, &w.finish()).map_err(lost)
    }

    /// Looks at the answer to the last release.
    fn settle(&mut self) -> Result<()> {
        let Some(asked) = self.unanswered.take() else { return Ok(()) };
        refusal(&self.fabric.board_answer(self.board, asked).map_err(lost)?)
    }

    /// Sends notices that do not fit ahead; what is left for the request itself.
    fn send_ahead<'p>(
        &mut self,
        head: impl Fn(&mut Writer),
        written: &'p [PageRun],
    ) -> Result<&'p [PageRun]> {
        let mut rest = written;
        while rest.len() > RUNS_MAX {
            let (now, later) = rest.split_at(RUNS_MAX);
            let mut w = Writer::new();
            head(&mut w);
            put_runs(&mut w, now);
            self.tell(w)?;
            self.coherence_writes += 1;
            rest = later;
        }
        Ok(rest)
    }

    /// Takes the grant out of a variable whose word has become `word`.
    fn take(&self, cell: usize, word: u64) -> Result<(Notices, u64)> {
        let length = (word & 0xffff) as usize;
        let padded = length.next_multiple_of(8);
        if padded > CELL_BYTES - 8 {
            let what = format!("a grant of {length} bytes");
            return Err(Error::new(Kind::Protocol, what).at_rank(self.fabric.me()));
        }
        let mut bytes = vec![0; padded];
        let at = cell + CELL_BYTES - 8 - padded;
        self.fabric.get(self.fabric.me(), at, &mut bytes).map_err(lost)?;
        bytes.truncate(length);
        refusal(&bytes)?;
        match wire::decode(&bytes)? {
            Message::Grant { notices, version, .. } => Ok((notices, version)),
            _ => Err(Error::new(Kind::Protocol, "the board wrote no grant")),
        }
    }

    /// Whether the board and who holds `lock` still live.
    fn check(&self, lock: LockId) -> Result<()> {
        let doing = format!("while rank {} waited for lock {}", self.fabric.me(), lock.0);
        let Some(holder) = self.holder(lock, &doing)? else { return Ok(()) };
        let lives = must_live(self.fabric, holder, &format!("holding lock {}, {doing}", lock.0));
        // It may have released the lock and left between the two questions.
        if lives.is_err() && self.holder(lock, &doing)? != Some(holder) {
            return Ok(());
        }
        lives.map_err(|e| e.at_lock(lock.0))
    }

    /// Who holds `lock`, as the board says. A board may be served on when its node has left the
    /// job.
    fn holder(&self, lock: LockId, doing: &str) -> Result<Option<NodeId>> {
        let mut w = Writer::new();
        w.u8(WHO_HOLDS).u32(lock.0);
        let asked = self.fabric.board_read(self.board, &w.finish());
        let answer = asked.or_else(|e| {
            must_live(self.fabric, self.board, &format!("with the locks, {doing}"))?;
            Err(lost(e))
        })?;
        let mut r = Reader::new(&answer);
        Ok(match (r.u8(), r.u16()) {
            (Some(1), Some(holder)) => Some(NodeId(holder)),
            _ => None,
        })
    }
}

fn refusal(answer: &[u8]) -> Result<()> {
    match answer.split_first() {
        Some((&REFUSED, words)) => {
            Err(Error::new(Kind::Protocol, String::from_utf8_lossy(words).into_owned()))
        }
        _ => Ok(()),
    }
}

impl<F: Fabric> Locks for BoardClient<'_, F> {
    fn acquire(&mut self, lock: LockId) -> Result<Notices> {
        self.layout.check(lock)?;
        let cell = self.layout.lock_cell();
        let seen = self.seen.get(&lock).copied().unwrap_or(0);
        let mut w = Writer::new();
        w.u8(ACQUIRE).u32(lock.0).u64(seen).u64(cell as u64);
        self.tell(w)?;
        let at = cell + CELL_BYTES - 8;
        self.lock_word = await_word(self.fabric, at, self.lock_word, || self.check(lock))?;
        let (notices, version) = self.take(cell, self.lock_word)?;
        self.seen.insert(lock, version);
        self.held.insert(lock);
        self.settle()?;
        Ok(notices)
    }

    fn release(&mut self, lock: LockId, written: &[PageId]) -> Result<()> {
        let head = |w: &mut Writer| _ = w.u8(SECTION_NOTICES).u32(lock.0);
        let runs = runs_of(written);
        let rest = self.send_ahead(head, &runs)?;
        let mut w = Writer::new();
        w.u8(RELEASE).u32(lock.0).u64(self.generation);
        put_runs(&mut w, rest);
        let question = w.finish();
        self.settle()?;
        if self.held.remove(&lock) {
            self.unanswered = self.fabric.board_ask(self.board, &question).map_err(lost)?;
            if self.unanswered.is_some() {
                return Ok(());
            }
        }
        refusal(&self.fabric.board_read(self.board, &question).map_err(lost)?)
    }
}

impl<F: Fabric> Barriers for BoardClient<'_, F> {
    fn barrier(&mut self, written: &[PageId]) -> Result<Notices> {
        let runs = runs_of(written);
        let rest = self.send_ahead(|w| _ = w.u8(ARRIVAL_NOTICES), &runs)?;
        let cell = self.layout.barrier_cell();
        let mut w = Writer::new();
        w.u8(ARRIVE).u64(self.generation).u64(cell as u64);
        put_runs(&mut w, rest);
        self.tell(w)?;
        let at = cell + CELL_BYTES - 8;
        let live = || super::all_must_live(self.fabric, "while others waited at a barrier");
        self.barrier_word = await_word(self.fabric, at, self.barrier_word, live)?;
        let (notices, generation) = self.take(cell, self.barrier_word)?;
        self.generation = generation;
        self.settle()?;
        Ok(notices)
    }
}
