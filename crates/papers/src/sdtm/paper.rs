//! Baseline (i): the protocol of paper 004 as its authors describe it, mended where it is broken.
//!
//! Kept from the paper: a clock a thread and start clocks learned from data (scs), dynamic
//! extension, two versions in an object's wrapper, written in turn, a `new` bit on the medium, a
//! lock in the same word taken at the first write, and both recoveries: the address write-back that
//! the paper makes its default ([`Recovery::Addresses`]) and the scan of the heap
//! ([`Recovery::Scan`]).
//!
//! Mended, and no more than correctness asks for:
//! - start clocks are raised after a validation that succeeded, only newest versions are read, and
//!   readers give way to a writer past its validation;
//! - one typed word holds lock and `new`; a lock joins the write set before anything can fail; a
//!   foreign commit fails validation; fence(SeqCst) between locking and validating; words are
//!   copied by relaxed atomics and rechecked;
//! - the address log holds each object's former `new` bit and a checksum; the scan mode fences
//!   between the versions and the `new` bits: 3 and 4 fences a transaction;
//! - locks are released when the end of the log is durable; a lock names its session, so
//!   that one found after a crash is free.
//!
//! In the paper's favour: objects are aligned to a 64-byte line where the paper takes 256, which on
//! DRAM would only cost cache; an object that is written whole is not copied first.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

use littoral_device::memory::Domain;
use littoral_stm::{Abort, Access, Error, Kind, Look, Record, Ref, Result, Words};

use super::engine::{Engine, Job, Worker, back_off};
use super::heap::{Heap, Local, checksum, durable, read_at};

/// Workers alive at once.
const WORKERS_MAX: usize = 8;
const LOG_BYTES: usize = 1 << 20;
/// The session's number stands at offset zero, the logs behind it.
const LOGS_AT: usize = 64;
/// Where the heap begins.
const HEAP_AT: usize = LOGS_AT + WORKERS_MAX * LOG_BYTES;
/// A record of addresses begins a line behind the clock that ended last.
const RECORD_AT: usize = 64;
/// {clock, count, checksum} in front of a record's addresses.
const RECORD_HEAD: usize = 3;
/// Looks at an object that another commits before giving way.
const LOOKS_MAX: u32 = 64;

/// How a restart finds what to put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The log names the objects: 3 fences, a restart reads the logs.
    Addresses,
    /// The log names the clock: 4 fences, a restart reads the heap.
    Scan,
}

/// An object's first word: session | words | owner | state | new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head(u64);

const FREE: u64 = 0;
const INTENT: u64 = 1;
const COMMITTING: u64 = 2;

impl Head {
    fn unused(words: usize) -> Head {
        Head((words as u64) << 16)
    }
    fn newest(self) -> usize {
        (self.0 & 1) as usize
    }
    fn words(self) -> usize {
        (self.0 >> 16 & 0xffff) as usize
    }
    fn state(self) -> u64 {
        self.0 >> 1 & 3
    }
    fn key(self) -> u64 {
        self.0 >> 32 << 32 | self.0 & 0xff00
    }
    fn is_free(self, me: u64) -> bool {
        self.state() == FREE || self.0 >> 32 != me >> 32
    }
    fn is_mine(self, me: u64) -> bool {
        self.state() != FREE && self.key() == me
    }
    fn blocks(self, me: u64) -> bool {
        self.state() == COMMITTING && self.key() != me && !self.is_free(me)
    }
    fn locked(self, state: u64, me: u64) -> Head {
        Head(self.0 & 0xffff_0001 | state << 1 | me)
    }
    fn released(self, newest: usize) -> Head {
        Head(self.0 & 0xffff_0000 | newest as u64)
    }
}

/// Clock << 16 | thread << 1 | live.
fn stamp(clock: u64, tid: usize, live: bool) -> u64 {
    clock << 16 | (tid as u64) << 1 | u64::from(live)
}

fn slot_at(base: usize, words: usize, slot: usize) -> usize {
    base + 8 + slot * 8 * (words + 1)
}

fn object_bytes(words: usize) -> usize {
    (8 + 16 * (words + 1)).next_multiple_of(64)
}

fn log_at(tid: usize) -> usize {
    LOGS_AT + tid * LOG_BYTES
}

fn unused_head(words: usize) -> u64 {
    Head::unused(words).0
}

/// The paper's engine.
#[derive(Debug)]
pub struct Paper<D> {
    heap: Heap<D>,
    recovery: Recovery,
    session: u64,
    tids: AtomicU64,
    /// A thread slot's clock while the slot is free: ids are recycled with their clocks.
    clocks: Vec<AtomicU64>,
}

impl<D: Domain> Paper<D> {
    /// An engine over zeroed memory.
    ///
    /// # Errors
    /// `Kind::Device`.
    pub fn new(domain: D, recovery: Recovery) -> Result<Self> {
        let session = 1;
        domain.store(0, session, Relaxed);
        domain.write_back(0, 8);
        durable(&domain)?;
        let heap = Heap::with_heads(domain, HEAP_AT, object_bytes, unused_head);
        let clocks = (0..WORKERS_MAX).map(|_| AtomicU64::new(0)).collect();
        Ok(Paper { heap, recovery, session, tids: AtomicU64::new(0), clocks })
    }

    /// Puts back what a crash left unfinished; answers the number of objects put back.
    ///
    /// # Errors
    /// `Kind::Device`.
    pub fn recover(domain: &D, recovery: Recovery) -> Result<usize> {
        let mut count = 0;
        for tid in 0..WORKERS_MAX {
            count += match recovery {
                Recovery::Addresses => undo_addresses(domain, tid)?,
                Recovery::Scan => undo_by_scan(domain, tid)?,
            };
        }
        domain.store(0, domain.word(0, Relaxed) + 1, Relaxed);
        domain.write_back(0, 8);
        durable(domain)?;
        Ok(count)
    }
}

fn set_newest<D: Domain>(domain: &D, base: usize, newest: usize) {
    let head = Head(domain.word(base, Relaxed));
    domain.store(base, head.released(newest).0, Relaxed);
    domain.write_back(base, 8);
}

fn undo_addresses<D: Domain>(domain: &D, tid: usize) -> Result<usize> {
    let at = log_at(tid);
    let word = |i: usize| domain.word(at + RECORD_AT + 8 * i, Relaxed);
    let (ended, clock, count) = (domain.word(at, Relaxed), word(0), word(1) as usize);
    if clock <= ended || RECORD_AT + 8 * (RECORD_HEAD + count) > LOG_BYTES {
        return Ok(0);
    }
    let all: Vec<u64> = (0..count).map(|i| word(RECORD_HEAD + i)).collect();
    if checksum(clock, &all) != word(2) {
        return Ok(0);
    }
    all.iter().for_each(|a| set_newest(domain, (a & !1) as usize, (a & 1) as usize));
    durable(domain)?;
    domain.store(at, clock, Relaxed);
    domain.write_back(at, 8);
    durable(domain)?;
    Ok(count)
}

fn undo_by_scan<D: Domain>(domain: &D, tid: usize) -> Result<usize> {
    let clock = domain.word(log_at(tid), Relaxed);
    if clock == 0 {
        return Ok(0);
    }
    let (mut at, mut count) = (HEAP_AT, 0);
    while at + 8 <= domain.len() {
        let head = Head(domain.word(at, Relaxed));
        if head.words() == 0 {
            break;
        }
        let found = domain.word(slot_at(at, head.words(), head.newest()), Relaxed);
        if found & !1 == stamp(clock, tid, false) {
            set_newest(domain, at, 1 - head.newest());
            count += 1;
        }
        at += object_bytes(head.words());
    }
    durable(domain)?;
    domain.store(log_at(tid), 0, Relaxed);
    domain.write_back(log_at(tid), 8);
    durable(domain)?;
    Ok(count)
}

struct Write {
    base: usize,
    words: usize,
    /// Where the payload is in the worker's words.
    from: usize,
    before: Head,
    live: bool,
    fresh: bool,
}

struct Read {
    base: usize,
    slot: usize,
    stamp: u64,
}

/// A thread's handle.
pub struct PaperWorker<'e, D: Domain> {
    engine: &'e Paper<D>,
    tid: usize,
    /// Session and thread as a lock carries them.
    me: u64,
    /// The paper's tc.
    clock: u64,
    /// The paper's scs.
    starts: [u64; WORKERS_MAX],
    local: Local,
    reads: Vec<Read>,
    writes: Vec<Write>,
    words: Vec<u64>,
    record: Vec<u64>,
    /// An object looked at.
    copy: Vec<u64>,
    aborts: u64,
}

/// A running transaction.
pub struct PaperTx<'w, 'e, D: Domain> {
    worker: &'w mut PaperWorker<'e, D>,
    updates: bool,
}

impl<D: Domain> PaperTx<'_, '_, D> {
    /// The paper's OpenWithWrite: the lock first, then the time.
    fn open(&mut self, base: usize, words: usize, fresh: bool) -> Result<usize, Abort> {
        if !self.updates {
            return Err(Error::new(Kind::ReadOnly, "a read-only transaction cannot write").into());
        }
        let w = &mut *self.worker;
        let (domain, mut looks) = (&w.engine.heap.domain, 0);
        let before = loop {
            let head = Head(domain.word(base, Acquire));
            if head.is_mine(w.me) {
                return Ok(w.find(base));
            }
            let locked = head.locked(INTENT, w.me);
            if head.is_free(w.me)
                && domain.compare_exchange(base, head.0, locked.0, Acquire, Relaxed).is_ok()
            {
                break head;
            }
            look_again(&mut looks)?;
        };
        let from = w.words.len();
        w.words.resize(from + words, 0);
        w.writes.push(Write { base, words, from, before, live: true, fresh });
        if !fresh {
            w.admit(domain.word(slot_at(base, words, before.newest()), Relaxed))?;
        }
        Ok(w.writes.len() - 1)
    }

    fn put<T: Record>(&mut self, entry: usize, value: &T) {
        let words = &mut self.worker.words[self.worker.writes[entry].from..];
        value.store(|i, w| words[i] = w);
    }
}

fn look_again(looks: &mut u32) -> Result<(), Abort> {
    *looks += 1;
    if *looks > LOOKS_MAX {
        return Err(Abort::conflict());
    }
    std::hint::spin_loop();
    Ok(())
}

impl<D: Domain> Access for PaperTx<'_, '_, D> {
    #[inline(always)]
    fn read<T: Record>(&mut self, at: Ref<T>) -> Result<T, Abort> {
        let w = &mut *self.worker;
        let (domain, base, mut looks) = (&w.engine.heap.domain, at.offset() as usize, 0);
        loop {
            let head = Head(domain.word(base, Acquire));
            if head.is_mine(w.me) {
                let words = &w.words[w.writes[w.find(base)].from..];
                return Ok(T::load(|i| words[i]));
            }
            if !head.blocks(w.me) {
                let slot = slot_at(base, T::WORDS, head.newest());
                let stamp = domain.word(slot, Relaxed);
                w.admit(stamp)?;
                let value = read_at(domain, slot + 8);
                fence(Acquire);
                let again = Head(domain.word(base, Relaxed));
                let same = again.newest() == head.newest() && domain.word(slot, Relaxed) == stamp;
                if same && !again.blocks(w.me) {
                    w.reads.push(Read { base, slot, stamp });
                    return Ok(value);
                }
            }
            look_again(&mut looks)?;
        }
    }

    /// An access copies the object, as the paper's does.
    #[inline(always)]
    fn look<T: Record, L: Look>(&mut self, at: Ref<T>, mut look: L) -> Result<L::Out, Abort> {
        let value = self.read(at)?;
        let copy = &mut self.worker.copy;
        copy.resize(T::WORDS, 0);
        value.store(|i, w| copy[i] = w);
        Ok(look.look(Words::copied(copy)))
    }

    fn write<T: Record>(&mut self, at: Ref<T>, value: &T) -> Result<(), Abort> {
        let entry = self.open(at.offset() as usize, T::WORDS, false)?;
        self.put(entry, value);
        Ok(())
    }

    fn alloc<T: Record>(&mut self, value: &T) -> Result<Ref<T>, Abort> {
        let at = self.worker.engine.heap.take(&mut self.worker.local, T::WORDS)?;
        let opened = self.open(at as usize, T::WORDS, true);
        if opened.is_err() {
            self.worker.engine.heap.give(&mut self.worker.local, at, T::WORDS);
        }
        self.put(opened?, value);
        Ok(Ref::from_offset(at))
    }

    fn free<T: Record>(&mut self, at: Ref<T>) -> Result<(), Abort> {
        let entry = self.open(at.offset() as usize, T::WORDS, false)?;
        self.worker.writes[entry].live = false;
        Ok(())
    }
}

impl<D: Domain> PaperWorker<'_, D> {
    fn find(&self, base: usize) -> usize {
        let found = self.writes.iter().rposition(|w| w.base == base);
        found.expect("invariant: an object of mine is in the write set")
    }

    /// The paper's cmp_time, with the start clock raised only after a validation.
    #[inline(always)]
    fn admit(&mut self, stamp: u64) -> Result<(), Abort> {
        let (tid, clock) = ((stamp >> 1 & 0x7fff) as usize % WORKERS_MAX, stamp >> 16);
        if clock <= self.starts[tid] { Ok(()) } else { self.extend(tid, clock) }
    }

    #[cold]
    #[inline(never)]
    fn extend(&mut self, tid: usize, clock: u64) -> Result<(), Abort> {
        if !self.is_valid() {
            return Err(Abort::conflict());
        }
        self.starts[tid] = clock;
        Ok(())
    }

    fn is_valid(&self) -> bool {
        let domain = &self.engine.heap.domain;
        self.reads.iter().all(|r| {
            let head = Head(domain.word(r.base, Acquire));
            let newest = slot_at(r.base, head.words(), head.newest());
            newest == r.slot && domain.word(r.slot, Relaxed) == r.stamp && !head.blocks(self.me)
        })
    }

    fn attempt<J: Job>(&mut self, job: &mut J, updates: bool) -> Result<J::Out, Abort> {
        self.starts[self.tid] = self.clock;
        self.reads.clear();
        self.words.clear();
        let mut tx = PaperTx { worker: self, updates };
        let done = job.run(&mut tx).and_then(|out| self.commit().map(|()| out));
        let domain = &self.engine.heap.domain;
        for w in self.writes.drain(..) {
            let newest = if done.is_ok() { 1 - w.before.newest() } else { w.before.newest() };
            domain.store(w.base, w.before.released(newest).0, Release);
            if if done.is_ok() { !w.live } else { w.fresh } {
                self.engine.heap.give(&mut self.local, w.base as u64, w.words);
            }
        }
        done
    }

    fn commit(&mut self) -> Result<(), Abort> {
        if self.writes.is_empty() {
            return Ok(());
        }
        let domain = &self.engine.heap.domain;
        for w in &self.writes {
            domain.store(w.base, w.before.locked(COMMITTING, self.me).0, Release);
        }
        fence(SeqCst);
        if !self.is_valid() {
            return Err(Abort::conflict());
        }
        self.clock += 1;
        self.write_log()?;
        match self.engine.recovery {
            Recovery::Addresses => self.store_together(),
            Recovery::Scan => self.store_in_order()?,
        }
        durable(domain)?;
        self.end_log()?;
        domain.commit_point();
        Ok(())
    }

    /// Says durably what is about to be overwritten.
    fn write_log(&mut self) -> Result<()> {
        let (domain, at) = (&self.engine.heap.domain, log_at(self.tid));
        if self.engine.recovery == Recovery::Scan {
            domain.store(at, self.clock, Relaxed);
            domain.write_back(at, 8);
            return durable(domain);
        }
        self.record.clear();
        self.record.extend([self.clock, self.writes.len() as u64, 0]);
        let address = |w: &Write| w.base as u64 | w.before.newest() as u64;
        self.record.extend(self.writes.iter().map(address));
        self.record[2] = checksum(self.clock, &self.record[RECORD_HEAD..]);
        if RECORD_AT + 8 * self.record.len() > LOG_BYTES {
            return Err(Error::new(Kind::Full, "the address log is full"));
        }
        domain.store_words(at + RECORD_AT, &self.record);
        domain.write_back(at + RECORD_AT, 8 * self.record.len());
        durable(domain)
    }

    fn end_log(&self) -> Result<()> {
        let (domain, at) = (&self.engine.heap.domain, log_at(self.tid));
        let ended = if self.engine.recovery == Recovery::Scan { 0 } else { self.clock };
        domain.store(at, ended, Relaxed);
        domain.write_back(at, 8);
        durable(domain)
    }

    /// Stores a write's version; answers its slot and the bytes to write back.
    fn store_version(&self, w: &Write) -> (usize, usize) {
        let domain = &self.engine.heap.domain;
        let slot = slot_at(w.base, w.words, 1 - w.before.newest());
        let payload = &self.words[w.from..w.from + if w.live { w.words } else { 0 }];
        domain.store(slot, stamp(self.clock, self.tid, w.live), Relaxed);
        domain.store_words(slot + 8, payload);
        (slot, 8 * (1 + payload.len()))
    }

    /// Still locked: a reader goes by the state until the end of the log is durable.
    fn store_new(&self, w: &Write) {
        let committing = w.before.locked(COMMITTING, self.me).0 ^ 1;
        self.engine.heap.domain.store(w.base, committing, Release);
    }

    /// Versions and `new` bits in any order: the log has the former bits.
    fn store_together(&self) {
        let domain = &self.engine.heap.domain;
        for w in &self.writes {
            let (slot, bytes) = self.store_version(w);
            self.store_new(w);
            if slot / 64 == w.base / 64 {
                domain.write_back(w.base, slot + bytes - w.base);
            } else {
                domain.write_back(slot, bytes);
                domain.write_back(w.base, 8);
            }
        }
    }

    /// Versions, a fence, then `new` bits: a bit that is durable leads to a whole version.
    fn store_in_order(&self) -> Result<()> {
        let domain = &self.engine.heap.domain;
        for w in &self.writes {
            let (slot, bytes) = self.store_version(w);
            domain.write_back(slot, bytes);
        }
        durable(domain)?;
        for w in &self.writes {
            self.store_new(w);
            domain.write_back(w.base, 8);
        }
        Ok(())
    }

    fn until_done<J: Job>(&mut self, job: &mut J, updates: bool) -> Result<J::Out> {
        let mut losses = 0;
        loop {
            match self.attempt(job, updates) {
                Err(abort) if abort.is_conflict() => {
                    self.aborts += 1;
                    losses += 1;
                    back_off(losses);
                }
                done => return done.map_err(Abort::into_error),
            }
        }
    }
}

impl<D: Domain> Drop for PaperWorker<'_, D> {
    fn drop(&mut self) {
        self.engine.clocks[self.tid].store(self.clock, Release);
        self.engine.tids.fetch_and(!(1 << self.tid), AcqRel);
    }
}

impl<D: Domain> Worker for PaperWorker<'_, D> {
    fn update<J: Job>(&mut self, job: &mut J) -> Result<J::Out> {
        self.until_done(job, true)
    }
    #[inline]
    fn read<J: Job>(&mut self, job: &mut J) -> Result<J::Out> {
        self.until_done(job, false)
    }
    fn aborts_count(&self) -> u64 {
        self.aborts
    }
}

impl<D: Domain> Engine for Paper<D> {
    type Worker<'e>
        = PaperWorker<'e, D>
    where
        Self: 'e;
    fn worker(&self) -> Result<PaperWorker<'_, D>> {
        let free =
            |taken: u64| (taken.trailing_ones() < WORKERS_MAX as u32).then(|| taken | (taken + 1));
        let taken = self.tids.fetch_update(AcqRel, Acquire, free);
        let taken = taken.map_err(|_| Error::new(Kind::Threads, "all thread ids are taken"))?;
        let tid = taken.trailing_ones() as usize;
        let (local, reads, writes, words, record, copy) = Default::default();
        Ok(PaperWorker {
            engine: self,
            tid,
            me: self.session << 32 | (tid as u64) << 8,
            clock: self.clocks[tid].load(Acquire),
            starts: [0; WORKERS_MAX],
            local,
            reads,
            writes,
            words,
            record,
            copy,
            aborts: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdtm::work::{self, Write as WriteJob};
    use littoral_device::pmem::trace::Enumerate;
    use littoral_device::pmem::{Counted, Dram, Sim};
    use std::sync::Arc;

    fn values(domain: &Sim, objects: &[Ref<work::Object>]) -> Vec<u64> {
        let value = |o: &Ref<work::Object>| {
            let base = o.offset() as usize;
            let newest = Head(domain.word(base, Relaxed)).newest();
            domain.word(slot_at(base, 3, newest) + 8, Relaxed)
        };
        objects.iter().map(value).collect()
    }

    fn survives(recovery: Recovery) {
        let domain = Arc::new(Sim::new(HEAP_AT + (32 << 10)));
        let engine = Paper::new(Arc::clone(&domain), recovery).unwrap();
        let objects = work::objects(&engine, 4).unwrap();
        let mut worker = engine.worker().unwrap();
        let all = [0, 1, 2, 3];
        for value in 1..3 {
            worker.update(&mut WriteJob { objects: &objects, picks: &all, value }).unwrap();
        }
        domain.settle();
        worker.update(&mut WriteJob { objects: &objects, picks: &all, value: 3 }).unwrap();
        let how = Enumerate { images_per_point_max: 8, ..Enumerate::default() };
        let coverage = domain.trace().enumerate(&how, |image| {
            let sim = Sim::from_image(image.words);
            Paper::recover(&sim, recovery).map_err(|e| e.to_string())?;
            let all = values(&sim, &objects);
            let fine = all == [3; 4] || (all == [2; 4] && image.acknowledged == 0);
            if fine { Ok(()) } else { Err(format!("{all:?}")) }
        });
        assert_eq!(coverage.failure, None);
        assert!(coverage.images_count > 30);
    }

    #[test]
    fn both_recoveries_survive_every_power_cut() {
        survives(Recovery::Addresses);
        survives(Recovery::Scan);
    }

    #[test]
    fn three_fences_by_addresses_and_four_by_scan() {
        for (recovery, fences) in [(Recovery::Addresses, 3), (Recovery::Scan, 4)] {
            let domain = Arc::new(Counted::new(Dram::new(HEAP_AT + (64 << 10))));
            let engine = Paper::new(Arc::clone(&domain), recovery).unwrap();
            let objects = work::objects(&engine, 16).unwrap();
            let mut worker = engine.worker().unwrap();
            let before = domain.counts();
            let picks: Vec<usize> = (0..16).collect();
            worker.update(&mut WriteJob { objects: &objects, picks: &picks, value: 1 }).unwrap();
            assert_eq!(domain.counts().since(&before).fences_count, fences);
        }
    }
}
