//! A transaction: read, write, allocate, free, commit; spec A5 step by step.
//!
//! Read: load the record; wait while another commits it; if its clock is beyond what this thread
//! knows, validate the read set, then know it; copy the words; fence(Acquire); the record must be
//! the same and nobody committing it. An intent does not block readers.
//!
//! Commit, in order:
//! 1. own records INTENT -> COMMITTING; fence(SeqCst) (paired with every other committer's: of two
//!    that read what the other writes at least one sees the other committing);
//! 2. read the snapshot epoch, validate the read set;
//! 3. clock += 1;
//! 4. store payloads and stamps into the slots that are not newest, write them back; SFENCE 1;
//! 5. frontier := clock, write it back; SFENCE 2: durable;
//! 6. one Release store a record: newest flipped, FREE.
//!
//! A read-only transaction ends without a step: what it read was durable and valid at one moment.
//! Allocation and free are versions like any other (the stamp's live bit), so they cost no fence.
//!
//! [`mutant!`] puts a known defect back, one at a time; the suite must kill each.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use littoral_base::mutant;
use littoral_base::sync::atomic::{AtomicU64, fence};
use littoral_device::memory::Domain;

use crate::error::{Abort, Error, Kind, Result};
use crate::format::{Frontier, slot_bytes};
use crate::pool::Place;
use crate::record::{Record, Ref};
use crate::root::{ROOTS_MAX, Root, packed};
use crate::thread::{ReadEntry, Thread, WriteEntry};
use crate::word::{CLOCK_MAX, Orec, Stamp, State};

/// Writes from which on an index finds them.
const INDEX_FROM: usize = 16;

/// What a transaction may do and which versions it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Update,
    ReadOnly,
    /// Versions of this epoch or before.
    Snapshot(u64),
}

/// What structures need of a transaction; implemented by [`Tx`] and by the baselines measured
/// beside it.
pub trait Access {
    /// Copies a record.
    ///
    /// # Errors
    /// A conflict, or `Kind::BadReference`.
    fn read<T: Record>(&mut self, at: Ref<T>) -> Result<T, Abort>;
    /// Replaces a record.
    ///
    /// # Errors
    /// As `read`; `Kind::ReadOnly`.
    fn write<T: Record>(&mut self, at: Ref<T>, value: &T) -> Result<(), Abort>;
    /// Makes a record.
    ///
    /// # Errors
    /// A conflict, `Kind::Full`, `Kind::ReadOnly`.
    fn alloc<T: Record>(&mut self, value: &T) -> Result<Ref<T>, Abort>;
    /// Ends a record.
    ///
    /// # Errors
    /// As `write`.
    fn free<T: Record>(&mut self, at: Ref<T>) -> Result<(), Abort>;
}

/// A running transaction.
pub struct Tx<'t, 'p, D: Domain> {
    th: &'t mut Thread<'p, D>,
    mode: Mode,
    committed: bool,
}

impl<D: Domain> std::fmt::Debug for Tx<'_, '_, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tx").field("thread", &self.th).field("mode", &self.mode).finish()
    }
}

impl<'t, 'p, D: Domain> Tx<'t, 'p, D> {
    pub(crate) fn begin(th: &'t mut Thread<'p, D>, mode: Mode) -> Self {
        debug_assert!(th.writes.is_empty() && th.reads.is_empty(), "one transaction at a time");
        Tx { th, mode, committed: false }
    }

    /// Copies a record.
    ///
    /// # Errors
    /// A conflict; `Kind::BadReference` for null, another type or a freed object.
    #[inline]
    pub fn read<T: Record>(&mut self, at: Ref<T>) -> Result<T, Abort> {
        let (value, live) = self.fetch(at)?;
        if live { Ok(value) } else { Err(dangling(at)) }
    }

    /// Replaces a record.
    ///
    /// # Errors
    /// As `read`; `Kind::ReadOnly` outside an update transaction.
    #[inline]
    pub fn write<T: Record>(&mut self, at: Ref<T>, value: &T) -> Result<(), Abort> {
        let place = self.th.pool.locate(at)?;
        let entry = self.open::<T>(place, false)?;
        if !self.th.writes[entry].live {
            return Err(dangling(at));
        }
        self.put(entry, value);
        Ok(())
    }

    /// Changes a record in place and answers what `change` answers.
    ///
    /// # Errors
    /// As `write`.
    pub fn update<T: Record, R>(
        &mut self,
        at: Ref<T>,
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Abort> {
        let mut value = self.read(at)?;
        let answer = change(&mut value);
        self.write(at, &value)?;
        Ok(answer)
    }

    /// Makes a record; it exists if and only if the transaction commits.
    ///
    /// # Errors
    /// A conflict; `Kind::Full` when the pool has no room; `Kind::ReadOnly`.
    pub fn alloc<T: Record>(&mut self, value: &T) -> Result<Ref<T>, Abort> {
        self.check_update()?;
        let place = self.th.take_free::<T>()?;
        let opened = self.open::<T>(place, true);
        if opened.is_err() {
            self.th.keep_free(T::TAG, place.base);
        }
        self.put(opened?, value);
        Ok(Ref::from_offset(place.base as u64))
    }

    /// Ends a record; its memory is reused once the transaction has committed.
    ///
    /// # Errors
    /// As `write`.
    pub fn free<T: Record>(&mut self, at: Ref<T>) -> Result<(), Abort> {
        let place = self.th.pool.locate(at)?;
        let entry = self.open::<T>(place, false)?;
        let entry = &mut self.th.writes[entry];
        if !entry.live {
            return Err(dangling(at));
        }
        (entry.live, entry.len) = (false, 0);
        Ok(())
    }

    /// What `name` leads to.
    ///
    /// # Errors
    /// A conflict; `Kind::BadReference` when it is of another type; `Kind::Usage` for a bad name.
    pub fn root<T: Record>(&mut self, name: &str) -> Result<Option<Ref<T>>, Abort> {
        let name = packed(name)?;
        for at in self.roots() {
            let (root, live) = self.fetch(at)?;
            if live && root.is(&name) {
                return root.target().map(Some);
            }
        }
        Ok(None)
    }

    /// Makes `name` lead to `to`, replacing what it led to.
    ///
    /// # Errors
    /// A conflict; `Kind::Full` when there are too many names; `Kind::Usage` for a bad name.
    pub fn set_root<T: Record>(&mut self, name: &str, to: Ref<T>) -> Result<(), Abort> {
        let (value, key) = (Root::new(name, to)?, packed(name)?);
        let mut spare = None;
        for at in self.roots() {
            let (root, live) = self.fetch(at)?;
            if live && root.is(&key) {
                return self.write(at, &value);
            }
            if !live {
                spare = spare.or(Some(at));
            }
        }
        let Some(at) = spare else {
            return Err(Error::new(Kind::Full, "no room for another root name").into());
        };
        let entry = self.open::<Root>(self.th.pool.locate(at)?, true)?;
        self.th.writes[entry].fresh = false;
        self.put(entry, &value);
        Ok(())
    }

    fn roots(&self) -> impl Iterator<Item = Ref<Root>> + use<D> {
        let layout = self.th.pool.layout;
        let step = const { crate::format::object_bytes(Root::WORDS) };
        let n = (layout.slab_bytes() / step).min(ROOTS_MAX);
        (0..n).map(move |i| Ref::from_offset((layout.slab_offset(0) + i * step) as u64))
    }

    /// A record and whether it is alive, in this transaction's view.
    #[inline(always)]
    fn fetch<T: Record>(&mut self, at: Ref<T>) -> Result<(T, bool), Abort> {
        let place = self.th.pool.locate(at)?;
        if let Mode::Snapshot(epoch) = self.mode {
            return self.fetch_at(place, epoch);
        }
        let (me, mut looks) = (self.th.tid, 0);
        loop {
            let seen = Orec(place.cell.word.load(Acquire));
            if seen.is_mine(me) {
                return Ok(self.fetch_own(place));
            }
            if seen.blocks(me) && !mutant!("ce_c") {
                self.th.look_again(&mut looks, false)?;
                continue;
            }
            if let Err(abort) = self.admit(seen) {
                return old_version(self, place, seen).ok_or(abort);
            }
            let value = self.copy::<T>(place, seen.newest());
            fence(Acquire);
            let again = Orec(place.cell.word.load(Relaxed));
            let blocked = again.blocks(me) && !mutant!("ce_c");
            if again.version() == seen.version() && !blocked {
                self.th.reads.push(ReadEntry { cell: place.cell, seen });
                return Ok((value, seen.live()));
            }
            self.th.look_again(&mut looks, false)?;
        }
    }

    #[inline(always)]
    fn copy<T: Record>(&self, place: Place<'_>, slot: usize) -> T {
        let from = place.base + slot * const { slot_bytes(T::WORDS) } + 8;
        T::load(|i| self.th.pool.domain.word(from + 8 * i, Relaxed))
    }

    fn fetch_own<T: Record>(&mut self, place: Place<'p>) -> (T, bool) {
        let entry = self.find(place).expect("invariant: a record of mine is in the write set");
        let entry = self.th.writes[entry];
        if !entry.live {
            return (T::load(|_| 0), false);
        }
        let words = &self.th.words[entry.at as usize..];
        (T::load(|i| words[i]), true)
    }

    /// The version of `epoch`: the newest, or the one before it.
    fn fetch_at<T: Record>(&mut self, place: Place<'p>, epoch: u64) -> Result<(T, bool), Abort> {
        let mut looks = 0;
        loop {
            let seen = Orec(place.cell.word.load(Acquire));
            if !seen.is_committing() {
                let epochs = place.cell.epochs.load(Relaxed);
                let (newest, before) = (epochs & u64::from(u32::MAX), epochs >> 32);
                let slot = if newest <= epoch { seen.newest() } else { 1 - seen.newest() };
                let stamp = self.stamp(place, const { slot_bytes(T::WORDS) }, slot);
                let value = self.copy::<T>(place, slot);
                fence(Acquire);
                let again = Orec(place.cell.word.load(Relaxed));
                if again.version() == seen.version() && !again.is_committing() {
                    let known = newest <= epoch || before <= epoch;
                    return if known { Ok((value, stamp.live())) } else { Err(Abort::conflict()) };
                }
            }
            self.th.look_again(&mut looks, true)?;
        }
    }

    fn stamp(&self, place: Place<'_>, slot_bytes: usize, slot: usize) -> Stamp {
        Stamp(self.th.pool.domain.word(place.base + slot * slot_bytes, Relaxed))
    }

    /// Makes sure that a version may be read beside everything read so far.
    #[inline(always)]
    fn admit(&mut self, seen: Orec) -> Result<(), Abort> {
        if seen.clock() <= self.th.starts[seen.tid()] { Ok(()) } else { self.extend(seen) }
    }

    #[cold]
    #[inline(never)]
    fn extend(&mut self, seen: Orec) -> Result<(), Abort> {
        let poisons = mutant!("ce_a");
        if poisons {
            self.th.starts[seen.tid()] = seen.clock();
        }
        let valid = self.validate();
        if valid && (self.th.extends || self.th.reads.is_empty()) {
            self.th.starts[seen.tid()] = seen.clock();
            self.th.stats.extensions_count += 1;
            return Ok(());
        }
        if !self.th.extends {
            // Figure 6 of the paper: know the clock, start again.
            self.th.starts[seen.tid()] = seen.clock();
        }
        Err(Abort::conflict())
    }

    /// Whether everything read is still newest and nobody else is committing it.
    fn validate(&self) -> bool {
        let me = self.th.tid;
        let ceases = |now: Orec| now.blocks(me) && !mutant!("loom_no_lock_check");
        self.th.reads.iter().all(|r| {
            let now = Orec(r.cell.word.load(Acquire));
            now.version() == r.seen.version() && !ceases(now)
        })
    }

    fn check_update(&self) -> Result<(), Abort> {
        if self.mode == Mode::Update {
            return Ok(());
        }
        Err(Error::new(Kind::ReadOnly, "a read-only transaction cannot write").into())
    }

    fn find(&self, place: Place<'_>) -> Option<usize> {
        if self.th.writes.len() < INDEX_FROM {
            return self.th.writes.iter().rposition(|w| w.base == place.base);
        }
        self.th.index.get(&place.base).map(|&i| i as usize)
    }

    /// Locks a record for writing and puts it into the write set, once.
    fn open<T: Record>(&mut self, place: Place<'p>, fresh: bool) -> Result<usize, Abort> {
        self.check_update()?;
        let (me, mut looks) = (self.th.tid, 0);
        let before = loop {
            let seen = Orec(place.cell.word.load(Acquire));
            if seen.is_mine(me) {
                return Ok(self.find(place).expect("invariant: a record of mine is in the set"));
            }
            let locked = seen.owned(State::Intent, me);
            if seen.is_free() && self.exchange(&place.cell.word, seen, locked) {
                break seen;
            }
            self.th.look_again(&mut looks, false)?;
        };
        if mutant!("row2") && !fresh {
            self.admit(before)?;
        }
        self.enlist::<T>(place, before, fresh);
        // The record is in the set before anything can fail, so that an abort releases it. What a
        // fresh object held before is not read, so its clock need not be known.
        if !fresh {
            self.admit(before)?;
        }
        Ok(self.th.writes.len() - 1)
    }

    fn enlist<T: Record>(&mut self, place: Place<'p>, before: Orec, fresh: bool) {
        let at = self.th.words.len() as u32;
        self.th.words.resize(at as usize + T::WORDS, 0);
        self.th.writes.push(WriteEntry {
            cell: place.cell,
            before,
            base: place.base,
            slot_bytes: const { slot_bytes(T::WORDS) } as u32,
            at,
            len: T::WORDS as u32,
            live: fresh || before.live(),
            fresh,
            tag: T::TAG,
        });
        let n = self.th.writes.len();
        if n == INDEX_FROM {
            let all = self.th.writes.iter().enumerate().map(|(i, w)| (w.base, i as u32));
            self.th.index.extend(all);
        } else if n > INDEX_FROM {
            self.th.index.insert(place.base, n as u32 - 1);
        }
    }

    #[inline(always)]
    fn put<T: Record>(&mut self, entry: usize, value: &T) {
        let at = self.th.writes[entry].at as usize;
        let words = &mut self.th.words[at..at + T::WORDS];
        value.store(|i, w| words[i] = w);
    }

    #[inline(always)]
    fn exchange(&self, word: &AtomicU64, from: Orec, to: Orec) -> bool {
        self.th.pool.domain.shadow_stored(std::ptr::from_ref(word).addr());
        word.compare_exchange(from.0, to.0, Acquire, Relaxed).is_ok()
    }

    #[inline(always)]
    fn set(&self, word: &AtomicU64, value: u64) {
        self.th.pool.domain.shadow_stored(std::ptr::from_ref(word).addr());
        word.store(value, Release);
    }

    /// Steps 1 to 6; see the module's page.
    pub(crate) fn commit(&mut self) -> Result<(), Abort> {
        if self.th.writes.is_empty() {
            return Ok(());
        }
        let pool = self.th.pool;
        pool.check_poison()?;
        let me = self.th.tid;
        for w in &self.th.writes {
            self.set(&w.cell.word, w.before.owned(State::Committing, me).0);
        }
        if !mutant!("loom_row6") {
            fence(SeqCst);
        }
        let epoch = pool.epoch.load(SeqCst);
        if !self.validate() {
            return Err(Abort::conflict());
        }
        self.step_clock()?;
        if mutant!("row10") {
            self.store_frontier();
        }
        self.store_versions();
        if !mutant!("row10") {
            pool.fence("make a transaction's versions durable")?;
            self.store_frontier();
        }
        if mutant!("row11") {
            self.publish(epoch);
        }
        pool.fence("move a frontier")?;
        pool.domain.commit_point();
        if !mutant!("row11") {
            self.publish(epoch);
        }
        self.committed = true;
        Ok(())
    }

    fn step_clock(&mut self) -> Result<(), Abort> {
        if self.th.clock >= CLOCK_MAX - 1 {
            let text = format!("thread slot {} has used up its clock", self.th.tid);
            return Err(Error::new(Kind::ClockExhausted, text).into());
        }
        self.th.clock += 1;
        Ok(())
    }

    fn store_versions(&self) {
        let domain = &self.th.pool.domain;
        for w in &self.th.writes {
            let (newest, bytes) = (w.before.newest(), w.slot_bytes as usize);
            let count = Stamp(domain.word(w.base + newest * bytes, Relaxed)).count() + 1;
            let stamp = Stamp::new(self.th.tid, self.th.clock, w.live, count);
            let slot = w.base + (1 - newest) * bytes;
            let payload = &self.th.words[w.at as usize..(w.at + w.len) as usize];
            domain.store_words(slot + 8, payload);
            domain.store(slot, stamp.0, Relaxed);
            domain.write_back(slot, 8 * (1 + payload.len()));
        }
    }

    fn store_frontier(&self) {
        let (pool, tid) = (self.th.pool, self.th.tid as usize);
        Frontier::write_clock(&pool.domain, &pool.layout, tid, self.th.clock);
    }

    fn publish(&self, epoch: u64) {
        for w in &self.th.writes {
            let before = w.cell.epochs.load(Relaxed) & u64::from(u32::MAX);
            w.cell.epochs.store(epoch | before << 32, Relaxed);
            self.th.pool.domain.shadow_stored(std::ptr::from_ref(&w.cell.epochs).addr());
            let stamp = Stamp::new(self.th.tid, self.th.clock, w.live, 0);
            self.set(&w.cell.word, Orec::free(stamp, 1 - w.before.newest()).0);
        }
    }
}

/// What CE-A and CE-B of the paper's protocol do when an extension fails: read the other version.
fn old_version<T: Record, D: Domain>(
    tx: &Tx<'_, '_, D>,
    place: Place<'_>,
    seen: Orec,
) -> Option<(T, bool)> {
    if !(mutant!("ce_a") || mutant!("ce_b")) {
        return None;
    }
    let stamp = tx.stamp(place, slot_bytes(T::WORDS), 1 - seen.newest());
    let value = tx.copy::<T>(place, 1 - seen.newest());
    (!stamp.is_none() && stamp.clock() <= tx.th.starts[stamp.tid()])
        .then_some((value, stamp.live()))
}

#[cold]
fn dangling<T>(at: Ref<T>) -> Abort {
    Error::new(Kind::BadReference, format!("reference {at:?} leads to a freed object")).into()
}

impl<D: Domain> Drop for Tx<'_, '_, D> {
    /// Undoes an unfinished transaction; hands freed or unused objects to the free list.
    fn drop(&mut self) {
        let mut writes = std::mem::take(&mut self.th.writes);
        for w in writes.drain(..) {
            if !self.committed {
                self.set(&w.cell.word, w.before.0);
            }
            let unused = if self.committed { !w.live } else { w.fresh };
            if unused {
                self.th.keep_free(w.tag, w.base);
            }
        }
        self.th.writes = writes;
        self.th.reads.clear();
        self.th.words.clear();
        self.th.index.clear();
    }
}

impl<D: Domain> Access for Tx<'_, '_, D> {
    #[inline(always)]
    fn read<T: Record>(&mut self, at: Ref<T>) -> Result<T, Abort> {
        Tx::read(self, at)
    }
    #[inline(always)]
    fn write<T: Record>(&mut self, at: Ref<T>, value: &T) -> Result<(), Abort> {
        Tx::write(self, at, value)
    }
    fn alloc<T: Record>(&mut self, value: &T) -> Result<Ref<T>, Abort> {
        Tx::alloc(self, value)
    }
    fn free<T: Record>(&mut self, at: Ref<T>) -> Result<(), Abort> {
        Tx::free(self, at)
    }
}
