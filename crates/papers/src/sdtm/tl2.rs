//! Baselines (ii) and (iv): TL2 with a global clock, durable by a redo log.
//!
//! - Concurrency: Dice, Shalev, Shavit (DISC 2006): versioned locks by address, reads no newer
//!   than the clock at the start, locks taken at commit, one fetch-and-add on the global clock an
//!   update.
//! - [`Tl2::redo`]: the write set goes to the thread's log under a checksum, fence, durable; then
//!   home, fence; then the locks are released. An object's header holds the version that wrote it,
//!   so replaying an old log never undoes a newer transaction and the log needs no third fence to
//!   end it.
//! - [`Tl2::replaying`]: transactions run on a copy in DRAM; the log is fenced at commit, and one
//!   background thread carries logs home in clock order (DudeTM's scheme, with durable
//!   acknowledgements).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*, fence};

use littoral_device::memory::Domain;
use littoral_stm::{Abort, Access, Error, Kind, Look, Record, Ref, Result, Words};

use super::engine::{Engine, Job, Worker, back_off};
use super::heap::{Heap, Local, checksum, durable, look_at, read_at};
use super::replay::{LOG_BYTES, Ring, Rings, WORKERS_MAX};

/// Where the heap begins.
pub(super) const HEAP_AT: usize = WORKERS_MAX * LOG_BYTES;
const LOCKS_BITS: u32 = 20;

/// A TL2 engine.
#[derive(Debug)]
pub struct Tl2<D: Domain + 'static> {
    heap: Heap<D>,
    clock: AtomicU64,
    /// Version << 1 | locked.
    locks: Box<[AtomicU64]>,
    workers: AtomicU64,
    /// The rings and the thread that empties them, when replaying.
    rings: Option<Arc<Rings<D>>>,
    stop: Arc<AtomicBool>,
    replayer: Option<std::thread::JoinHandle<()>>,
}

impl<D: Domain + 'static> Tl2<D> {
    /// Redo logging: `domain` holds logs and objects.
    pub fn redo(domain: D) -> Self {
        Self::over(Heap::new(domain, HEAP_AT), None)
    }

    /// Replaying: objects are worked on in `shadow` (plain memory), `home` holds logs and objects.
    pub fn replaying(shadow: D, home: D) -> Self {
        Self::over(Heap::new(shadow, HEAP_AT), Some(Arc::new(Rings::new(home))))
    }

    fn over(heap: Heap<D>, rings: Option<Arc<Rings<D>>>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let replayer = rings.clone().map(|rings| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || rings.replay(&stop))
        });
        let locks = (0..1 << LOCKS_BITS).map(|_| AtomicU64::new(0)).collect();
        let (clock, workers) = (AtomicU64::new(0), AtomicU64::new(0));
        Tl2 { heap, clock, locks, workers, rings, stop, replayer }
    }

    fn lock_of(&self, offset: u64) -> &AtomicU64 {
        // Neighbours share a line of locks, as in TL2's per-stripe form.
        &self.locks[(offset >> 5) as usize & ((1 << LOCKS_BITS) - 1)]
    }
}

impl<D: Domain + 'static> Drop for Tl2<D> {
    fn drop(&mut self) {
        self.stop.store(true, Release);
        if let Some(thread) = self.replayer.take() {
            drop(thread.join());
        }
    }
}

struct Write {
    at: u64,
    words: usize,
    /// Where the payload is in the worker's words; the header is made at commit.
    from: usize,
    live: bool,
    fresh: bool,
}

/// A thread's handle.
pub struct Tl2Worker<'e, D: Domain + 'static> {
    engine: &'e Tl2<D>,
    number: usize,
    ring: Option<Ring>,
    local: Local,
    reads: Vec<(&'e AtomicU64, u64)>,
    writes: Vec<Write>,
    words: Vec<u64>,
    locked: Vec<(&'e AtomicU64, u64)>,
    record: Vec<u64>,
    aborts: u64,
}

/// A running transaction.
pub struct Tl2Tx<'w, 'e, D: Domain + 'static> {
    worker: &'w mut Tl2Worker<'e, D>,
    start: u64,
    updates: bool,
}

impl<D: Domain + 'static> Access for Tl2Tx<'_, '_, D> {
    #[inline(always)]
    fn read<T: Record>(&mut self, at: Ref<T>) -> std::result::Result<T, Abort> {
        if let Some(w) = self.own(at) {
            let words = &self.worker.words[w..];
            return Ok(T::load(|i| words[i]));
        }
        let seen = self.begin_read(at)?;
        let payload = at.offset() as usize + 8;
        let value = read_at(&self.worker.engine.heap.domain, payload);
        self.end_read(seen).map(|()| value)
    }

    #[inline(always)]
    fn look<T: Record, L: Look>(
        &mut self,
        at: Ref<T>,
        mut look: L,
    ) -> std::result::Result<L::Out, Abort> {
        if let Some(w) = self.own(at) {
            return Ok(look.look(Words::copied(&self.worker.words[w..])));
        }
        let seen = self.begin_read(at)?;
        let answer = look_at(&self.worker.engine.heap.domain, at, look);
        self.end_read(seen).map(|()| answer)
    }

    fn write<T: Record>(&mut self, at: Ref<T>, value: &T) -> std::result::Result<(), Abort> {
        if !self.updates {
            return Err(Error::new(Kind::ReadOnly, "a read-only transaction cannot write").into());
        }
        let known = self.worker.writes.iter().position(|w| w.at == at.offset());
        let entry = known.unwrap_or_else(|| self.enlist(at.offset(), T::WORDS, true, false));
        let words = &mut self.worker.words[self.worker.writes[entry].from..];
        value.store(|i, w| words[i] = w);
        Ok(())
    }

    fn alloc<T: Record>(&mut self, value: &T) -> std::result::Result<Ref<T>, Abort> {
        let at = self.worker.engine.heap.take(&mut self.worker.local, T::WORDS)?;
        let entry = self.enlist(at, T::WORDS, true, true);
        let words = &mut self.worker.words[self.worker.writes[entry].from..];
        value.store(|i, w| words[i] = w);
        Ok(Ref::from_offset(at))
    }

    fn free<T: Record>(&mut self, at: Ref<T>) -> std::result::Result<(), Abort> {
        let known = self.worker.writes.iter().position(|w| w.at == at.offset());
        match known {
            Some(entry) => self.worker.writes[entry].live = false,
            None => {
                self.enlist(at.offset(), T::WORDS, false, false);
            }
        }
        Ok(())
    }
}

impl<'e, D: Domain + 'static> Tl2Tx<'_, 'e, D> {
    /// Where in the worker's words this transaction's own version is.
    #[inline(always)]
    fn own<T>(&self, at: Ref<T>) -> Option<usize> {
        self.worker.writes.iter().rev().find(|w| w.at == at.offset()).map(|w| w.from)
    }

    #[inline(always)]
    fn begin_read<T>(&self, at: Ref<T>) -> std::result::Result<(&'e AtomicU64, u64), Abort> {
        let lock = self.worker.engine.lock_of(at.offset());
        let before = lock.load(Acquire);
        if before & 1 == 1 || before >> 1 > self.start {
            return Err(Abort::conflict());
        }
        Ok((lock, before))
    }

    #[inline(always)]
    fn end_read(&mut self, seen: (&'e AtomicU64, u64)) -> std::result::Result<(), Abort> {
        fence(Acquire);
        if seen.0.load(Relaxed) != seen.1 {
            return Err(Abort::conflict());
        }
        if self.updates {
            self.worker.reads.push(seen);
        }
        Ok(())
    }

    fn enlist(&mut self, at: u64, words: usize, live: bool, fresh: bool) -> usize {
        let from = self.worker.words.len();
        self.worker.words.resize(from + words, 0);
        self.worker.writes.push(Write { at, words, from, live, fresh });
        self.worker.writes.len() - 1
    }
}

impl<'e, D: Domain + 'static> Tl2Worker<'e, D> {
    fn attempt<J: Job>(
        &mut self,
        job: &mut J,
        updates: bool,
    ) -> std::result::Result<J::Out, Abort> {
        self.reads.clear();
        self.words.clear();
        let start = self.engine.clock.load(Acquire);
        let mut tx = Tl2Tx { worker: self, start, updates };
        let done = job.run(&mut tx).and_then(|out| self.commit(start).map(|()| out));
        for w in self.writes.drain(..) {
            let unused = if done.is_ok() { !w.live } else { w.fresh };
            if unused {
                self.engine.heap.give(&mut self.local, w.at, w.words);
            }
        }
        done
    }

    fn commit(&mut self, start: u64) -> std::result::Result<(), Abort> {
        if self.writes.is_empty() {
            return Ok(());
        }
        if !self.lock_writes() {
            self.unlock(None);
            return Err(Abort::conflict());
        }
        let version = self.engine.clock.fetch_add(1, AcqRel) + 1;
        let valid = version == start + 1 || self.reads_are_valid();
        if !valid {
            if let (Some(ring), Some(rings)) = (&mut self.ring, &self.engine.rings) {
                // The replayer goes by versions without gaps.
                rings.append(ring, &[version, 3, checksum(version, &[])], false)?;
                rings.publish(ring);
            }
            self.unlock(None);
            return Err(Abort::conflict());
        }
        let durable = self.persist(version);
        self.unlock(durable.is_ok().then_some(version));
        durable.map_err(Abort::from)
    }

    fn lock_writes(&mut self) -> bool {
        for w in &self.writes {
            let lock = self.engine.lock_of(w.at);
            let seen = lock.load(Relaxed);
            if seen & 1 == 1 && self.locked.iter().any(|l| std::ptr::eq(l.0, lock)) {
                continue;
            }
            if seen & 1 == 1 || lock.compare_exchange(seen, seen | 1, AcqRel, Relaxed).is_err() {
                return false;
            }
            self.locked.push((lock, seen));
        }
        true
    }

    fn reads_are_valid(&self) -> bool {
        let mine = |lock: &AtomicU64| self.locked.iter().find(|l| std::ptr::eq(l.0, lock));
        self.reads.iter().all(|&(lock, seen)| match lock.load(Acquire) {
            now if now == seen => true,
            now if now == seen | 1 => mine(lock).is_some(),
            _ => false,
        })
    }

    fn unlock(&mut self, version: Option<u64>) {
        for (lock, before) in self.locked.drain(..) {
            lock.store(version.map_or(before, |v| v << 1), Release);
        }
    }

    fn persist(&mut self, version: u64) -> Result<()> {
        self.make_record(version);
        if let (Some(mut ring), Some(rings)) = (self.ring.take(), &self.engine.rings) {
            let appended = rings.append(&mut ring, &self.record, true);
            if appended.is_ok() {
                // No locked word may be seen changing by a reader that saw no lock.
                fence(SeqCst);
                self.store_home();
                rings.publish(&ring);
            }
            self.ring = Some(ring);
            return appended;
        }
        let domain = &self.engine.heap.domain;
        if 8 * self.record.len() > LOG_BYTES {
            return Err(Error::new(Kind::Full, "the redo log is full"));
        }
        let log = self.number * LOG_BYTES;
        domain.store_words(log, &self.record);
        domain.write_back(log, 8 * self.record.len());
        durable(domain)?;
        domain.commit_point();
        // No locked word may be seen changing by a reader that saw no lock.
        fence(SeqCst);
        self.store_home();
        for w in &self.writes {
            domain.write_back(w.at as usize, 8 * (1 + if w.live { w.words } else { 0 }));
        }
        durable(domain)
    }

    /// {version, words, checksum} and for each write {offset, count << 1 | live, payload}.
    fn make_record(&mut self, version: u64) {
        self.record.clear();
        self.record.extend([version, 0, 0]);
        for w in &self.writes {
            let count = if w.live { w.words } else { 0 };
            self.record.extend([w.at, (count as u64) << 1 | u64::from(w.live)]);
            self.record.extend_from_slice(&self.words[w.from..w.from + count]);
        }
        self.record[1] = self.record.len() as u64;
        self.record[2] = checksum(version, &self.record[3..]);
    }

    fn store_home(&self) {
        let (domain, version) = (&self.engine.heap.domain, self.record[0]);
        for w in &self.writes {
            domain.store(w.at as usize, version << 1 | u64::from(w.live), Relaxed);
            if w.live {
                domain.store_words(w.at as usize + 8, &self.words[w.from..w.from + w.words]);
            }
        }
    }
}

impl<D: Domain + 'static> Worker for Tl2Worker<'_, D> {
    fn update<J: Job>(&mut self, job: &mut J) -> Result<J::Out> {
        let mut losses = 0u32;
        loop {
            match self.attempt(job, true) {
                Err(abort) if abort.is_conflict() => {
                    self.aborts += 1;
                    losses += 1;
                    back_off(losses);
                }
                done => return done.map_err(Abort::into_error),
            }
        }
    }
    fn read<J: Job>(&mut self, job: &mut J) -> Result<J::Out> {
        let mut losses = 0u32;
        loop {
            match self.attempt(job, false) {
                Err(abort) if abort.is_conflict() => {
                    self.aborts += 1;
                    losses += 1;
                    back_off(losses);
                }
                done => return done.map_err(Abort::into_error),
            }
        }
    }
    fn aborts_count(&self) -> u64 {
        self.aborts
    }
}

impl<D: Domain + 'static> Engine for Tl2<D> {
    type Worker<'e>
        = Tl2Worker<'e, D>
    where
        Self: 'e;
    fn settle(&self) {
        if let Some(rings) = &self.rings {
            rings.settle_all();
        }
    }
    fn worker(&self) -> Result<Tl2Worker<'_, D>> {
        let number = self.workers.fetch_add(1, Relaxed) as usize % WORKERS_MAX;
        let ring = self.rings.as_ref().map(|r| r.ring(number));
        let (local, reads, writes, words, locked, record) = Default::default();
        Ok(Tl2Worker {
            engine: self,
            number,
            ring,
            local,
            reads,
            writes,
            words,
            locked,
            record,
            aborts: 0,
        })
    }
}
