//! Baseline (iii): undo log and reader-writer lock, in the manner of a single-writer transaction
//! library.
//!
//! - Before the first store to an object its old words go to the log, are written back and fenced.
//!   An entry carries its transaction's number and a checksum, so that no second fence admits it.
//! - Headers of allocated and freed objects are logged together at commit: one fence for all.
//! - Commit writes back what was stored, fences, then ends the log by its number and fences.
//! - [`Undo::recover`] undoes the log's entries, last first.
//!
//! Without durability (`durable` false) the same code is the volatile map behind a reader-writer
//! lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

use littoral_device::memory::Domain;
use littoral_stm::{Abort, Access, Error, Kind, Look, Record, Ref, Result};

use super::engine::{Engine, Job, Worker};
use super::heap::{Heap, Local, checksum, durable as fence, look_at, read_at};

const LOG_AT: usize = 64;
const LOG_BYTES: usize = 1 << 20;
/// Where the heap begins.
const HEAP_AT: usize = LOG_AT + LOG_BYTES;
const LIVE: u64 = 1;

/// An undo-logging engine.
#[derive(Debug)]
pub struct Undo<D> {
    heap: Heap<D>,
    lock: RwLock<()>,
    number: AtomicU64,
    durable: bool,
}

/// A thread's handle.
#[derive(Debug)]
pub struct UndoWorker<'e, D> {
    engine: &'e Undo<D>,
    local: Local,
    log: Vec<u64>,
    dirty: Vec<(u64, usize)>,
    headers: Vec<(u64, usize, u64)>,
}

/// A running transaction.
#[derive(Debug)]
pub struct UndoTx<'w, 'e, D> {
    worker: &'w mut UndoWorker<'e, D>,
    log_end: usize,
    updates: bool,
}

impl<D: Domain> Undo<D> {
    /// An engine over zeroed memory; `durable` false leaves out the log and every flush.
    pub fn new(domain: D, durable: bool) -> Self {
        let lock = RwLock::new(());
        Undo { heap: Heap::new(domain, HEAP_AT), lock, number: AtomicU64::new(1), durable }
    }

    /// Undoes what a crash left unfinished; answers the number of entries undone.
    ///
    /// # Errors
    /// When the medium fails.
    pub fn recover(domain: &D) -> Result<usize> {
        let number = domain.word(0, Relaxed) + 1;
        let (mut at, mut entries) = (LOG_AT, Vec::new());
        while let Some((target, words)) = read_entry(domain, at, number) {
            at += 8 * (words.len() + 3);
            entries.push((target, words));
        }
        for (target, words) in entries.iter().rev() {
            domain.store_words(*target as usize, words);
            domain.write_back(*target as usize, 8 * words.len());
        }
        fence(domain)?;
        domain.store(0, number, Relaxed);
        domain.write_back(0, 8);
        fence(domain)?;
        Ok(entries.len())
    }
}

/// What tells a whole entry from a torn one, in 32 bits.
fn entry_sum(number: u64, target: u64, words: &[u64]) -> u64 {
    checksum(number ^ target.rotate_left(32), words) >> 32
}

/// An entry is {target, count << 32 | checksum, number, words}.
fn read_entry<D: Domain>(domain: &D, at: usize, number: u64) -> Option<(u64, Vec<u64>)> {
    if at + 24 > HEAP_AT {
        return None;
    }
    let word = |i: usize| domain.word(at + 8 * i, Relaxed);
    let (target, count) = (word(0), (word(1) >> 32) as usize);
    let fits = at + 8 * (3 + count) <= HEAP_AT && target as usize + 8 * count <= domain.len();
    if word(2) != number || count == 0 || count > 256 || !fits {
        return None;
    }
    let words: Vec<u64> = (0..count).map(|i| word(3 + i)).collect();
    (word(1) & 0xffff_ffff == entry_sum(number, target, &words)).then_some((target, words))
}

impl<'e, D: Domain> UndoTx<'_, 'e, D> {
    fn domain(&self) -> &'e D {
        &self.worker.engine.heap.domain
    }

    fn log(&mut self, target: u64, count: usize) -> Result<()> {
        let domain = self.domain();
        let words = 3 + count;
        if self.log_end + 8 * words > HEAP_AT {
            return Err(Error::new(Kind::Full, "the undo log is full"));
        }
        let start = self.worker.log.len();
        self.worker.log.resize(start + words, 0);
        let entry = &mut self.worker.log[start..];
        domain.load_words(target as usize, &mut entry[3..]);
        let number = self.worker.engine.number.load(Relaxed);
        entry[0] = target;
        entry[1] = (count as u64) << 32 | entry_sum(number, target, &entry[3..]);
        entry[2] = number;
        domain.store_words(self.log_end, entry);
        domain.write_back(self.log_end, 8 * words);
        self.log_end += 8 * words;
        Ok(())
    }

    fn store<T: Record>(&self, at: Ref<T>, value: &T) {
        let payload = at.offset() as usize + 8;
        value.store(|i, w| self.domain().store(payload + 8 * i, w, Relaxed));
    }

    fn finish(&mut self) -> Result<()> {
        let (domain, engine) = (self.domain(), self.worker.engine);
        if engine.durable {
            for i in 0..self.worker.headers.len() {
                self.log(self.worker.headers[i].0, 1)?;
            }
            if !self.worker.headers.is_empty() {
                fence(domain)?;
            }
        }
        for &(at, _, header) in &self.worker.headers {
            domain.store(at as usize, header, Relaxed);
        }
        if engine.durable && !(self.worker.dirty.is_empty() && self.worker.headers.is_empty()) {
            for &(at, bytes) in &self.worker.dirty {
                domain.write_back(at as usize, bytes);
            }
            for &(at, ..) in &self.worker.headers {
                domain.write_back(at as usize, 8);
            }
            fence(domain)?;
            let number = engine.number.load(Relaxed);
            domain.store(0, number, Relaxed);
            domain.write_back(0, 8);
            fence(domain)?;
            domain.commit_point();
            engine.number.store(number + 1, Relaxed);
        }
        for (at, words, header) in self.worker.headers.drain(..) {
            if header == 0 {
                engine.heap.give(&mut self.worker.local, at, words);
            }
        }
        Ok(())
    }

    /// Puts everything back from the log's copy in memory.
    fn undo(&mut self) {
        let (mut at, mut entries) = (0, Vec::new());
        while at < self.worker.log.len() {
            let count = (self.worker.log[at + 1] >> 32) as usize;
            entries.push(at..at + 3 + count);
            at += 3 + count;
        }
        for range in entries.into_iter().rev() {
            let entry = &self.worker.log[range];
            self.domain().store_words(entry[0] as usize, &entry[3..]);
        }
        for (at, words, header) in self.worker.headers.drain(..) {
            if header == LIVE {
                self.worker.engine.heap.give(&mut self.worker.local, at, words);
            }
        }
    }
}

impl<D: Domain> Access for UndoTx<'_, '_, D> {
    #[inline(always)]
    fn read<T: Record>(&mut self, at: Ref<T>) -> std::result::Result<T, Abort> {
        Ok(read_at(self.domain(), at.offset() as usize + 8))
    }

    #[inline(always)]
    fn look<T: Record, L: Look>(
        &mut self,
        at: Ref<T>,
        look: L,
    ) -> std::result::Result<L::Out, Abort> {
        Ok(look_at(self.domain(), at, look))
    }

    fn write<T: Record>(&mut self, at: Ref<T>, value: &T) -> std::result::Result<(), Abort> {
        if !self.updates {
            return Err(Error::new(Kind::ReadOnly, "a read-only transaction cannot write").into());
        }
        let target = at.offset() + 8;
        let known = self.worker.dirty.iter().any(|d| d.0 == target);
        if self.worker.engine.durable && !known {
            self.log(target, T::WORDS)?;
            fence(self.domain())?;
            self.worker.dirty.push((target, 8 * T::WORDS));
        }
        self.store(at, value);
        Ok(())
    }

    fn alloc<T: Record>(&mut self, value: &T) -> std::result::Result<Ref<T>, Abort> {
        let at = self.worker.engine.heap.take(&mut self.worker.local, T::WORDS)?;
        self.worker.headers.push((at, T::WORDS, LIVE));
        self.worker.dirty.push((at + 8, 8 * T::WORDS));
        self.store(Ref::<T>::from_offset(at), value);
        Ok(Ref::from_offset(at))
    }

    fn free<T: Record>(&mut self, at: Ref<T>) -> std::result::Result<(), Abort> {
        self.worker.headers.push((at.offset(), T::WORDS, 0));
        Ok(())
    }
}

impl<D: Domain> Worker for UndoWorker<'_, D> {
    fn update<J: Job>(&mut self, job: &mut J) -> Result<J::Out> {
        let _alone = self.engine.lock.write().unwrap_or_else(PoisonError::into_inner);
        self.log.clear();
        self.dirty.clear();
        let mut tx = UndoTx { worker: self, log_end: LOG_AT, updates: true };
        match job.run(&mut tx) {
            Ok(out) => tx.finish().map(|()| out),
            Err(abort) => {
                tx.undo();
                Err(abort.into_error())
            }
        }
    }

    #[inline]
    fn read<J: Job>(&mut self, job: &mut J) -> Result<J::Out> {
        let _shared = self.engine.lock.read().unwrap_or_else(PoisonError::into_inner);
        let mut tx = UndoTx { worker: self, log_end: LOG_AT, updates: false };
        job.run(&mut tx).map_err(Abort::into_error)
    }

    fn aborts_count(&self) -> u64 {
        0
    }
}

impl<D: Domain> Engine for Undo<D> {
    type Worker<'e>
        = UndoWorker<'e, D>
    where
        Self: 'e;
    fn worker(&self) -> Result<UndoWorker<'_, D>> {
        let (local, log, dirty, headers) = Default::default();
        Ok(UndoWorker { engine: self, local, log, dirty, headers })
    }
}
