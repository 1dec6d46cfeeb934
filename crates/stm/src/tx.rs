//! A transaction: read, write, allocate, free, commit; step by step as in `docs/design/stm.md`.
//!
//! Read: load the record; wait while another commits it; if its clock is beyond what this thread
//! knows, validate the read set, then know it; look at the words; fence(Acquire); the record must
//! be the same and no thread committing it. An intent does not block readers. A settled record of a
//! known clock, the common case, is read without a branch that depends on anything else.
//!
//! Commit, in order:
//! 1. own mark odd; own records INTENT -> COMMITTING; full barrier (paired with every other
//!    committer's: of two that read what the other writes at least one sees the other committing);
//! 2. read the snapshot epoch; no thread has committed since the begin, or validate the read set;
//! 3. clock += 1;
//! 4. store payloads and stamps into the slots that are not newest, write them back; SFENCE 1;
//! 5. frontier := clock, write it back; SFENCE 2: durable;
//! 6. one Release store a record: newest flipped, FREE; then own mark even.
//!
//! A read-only transaction ends without a step: what it read was durable and valid at one moment.
//! Allocation and free are versions like any other (the stamp's live bit), so they cost no fence.
//!
//! [`mutant!`] puts a known defect back, one at a time; the suite must kill each.

use std::hint::cold_path;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use littoral_base::mutant;
use littoral_base::sync::atomic::{AtomicU64, fence};
use littoral_device::memory::{Domain, LINE_BYTES};

use crate::barrier::store_then_fence;
use crate::error::{Abort, Error, Kind, Result};
use crate::format::{object_bytes, slot_bytes};
use crate::peers::mark;
use crate::pool::Pool;
use crate::record::{By, Look, Record, Ref, Whole, Words};
use crate::root::Root;
use crate::table::Place;
use crate::thread::{ReadEntry, Thread, WriteEntry};
use crate::word::{CLOCK_MAX, Orec, Stamp, State};
use standing::Standing;

/// Writes among which one is found by looking at each; more are indexed when one is asked for.
const SCAN_MAX: usize = 16;
/// Reads that are sooner looked at again than the peers.
const LONG: usize = if cfg!(any(loom, shuttle)) { 0 } else { 4 };

/// What a transaction may do and which versions it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Update,
    /// Read-only, noting what it reads.
    ReadOnly,
    /// Read-only, noting nothing: known versions only.
    Glance,
    /// Versions of `epoch` or before; so many slabs had been given back before it was drawn.
    Snapshot {
        epoch: u64,
        recycled: u64,
    },
}

mod access;
mod roots;
mod standing;

pub use access::Access;

/// A running transaction.
///
/// A closure may drop the error of a read that is no conflict. The error ([`Abort`]) of any other
/// operation ends the transaction, also where the closure drops it.
pub struct Tx<'t, 'p, D: Domain> {
    th: &'t mut Thread<'p, D>,
    pool: &'p Pool<D>,
    mode: Mode,
    standing: Standing,
    committed: bool,
    /// Whether this slot's mark is odd.
    marked: bool,
    /// Whether something was read and not noted.
    glanced: bool,
    /// Slabs given back before a snapshot began.
    recycled: u64,
}

impl<D: Domain> std::fmt::Debug for Tx<'_, '_, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tx").field("thread", &self.th).field("mode", &self.mode).finish()
    }
}

impl<'t, 'p, D: Domain> Tx<'t, 'p, D> {
    pub(crate) fn begin(th: &'t mut Thread<'p, D>, mode: Mode) -> Self {
        debug_assert!(th.writes.is_empty() && th.reads.is_empty(), "one transaction at a time");
        let mut recycled = 0;
        if let Mode::Snapshot { recycled: before, .. } = mode {
            th.view.shut();
            let is_late = mutant!("snapshot_slabs_counted_late");
            recycled = if is_late { th.pool.recycled.load(Acquire) } else { before };
        }
        let (standing, committed, marked, glanced) = (Standing::Sound, false, false, false);
        Tx { pool: th.pool, th, mode, standing, committed, marked, glanced, recycled }
    }

    /// Copies a record.
    ///
    /// # Errors
    /// A conflict; `Kind::BadReference` for null, another type or a freed object.
    #[inline(always)]
    pub fn read<T: Record>(&mut self, at: Ref<T>) -> Result<T, Abort> {
        self.see(at, Whole(PhantomData))
    }

    /// Looks at a record's words without copying it all; see [`Access::inspect`].
    ///
    /// # Errors
    /// As `read`.
    #[inline(always)]
    pub fn inspect<T: Record, R>(
        &mut self,
        at: Ref<T>,
        look: impl FnMut(Words<'_>) -> R,
    ) -> Result<R, Abort> {
        self.see(at, By(look))
    }

    /// What a call answers is kept apart from what is made here: it lies in memory, and a load of
    /// two words that were just stored one by one waits for both.
    #[inline(always)]
    fn see<T: Record, L: Look>(&mut self, at: Ref<T>, mut look: L) -> Result<L::Out, Abort> {
        if let Some((place, seen)) = self.sight(at) {
            if let Some(words) = self.words::<T>(place, seen.newest()) {
                let answer = look.look(words);
                if self.stands(place, seen) {
                    return Ok(answer);
                }
            } else if let Some(answer) = self.see_copied(at, seen, &mut look) {
                return Ok(answer);
            }
        }
        cold_path();
        match self.see_slowly(at, &mut look) {
            Ok(answer) => Ok(answer),
            Err(abort) => Err(self.lose(abort)),
        }
    }

    /// Whether what was looked at was `seen` all the while; it is noted then.
    #[inline(always)]
    fn stands(&mut self, place: Place<'p>, seen: Orec) -> bool {
        fence(Acquire);
        let stands = place.orec.load(Relaxed) == seen.0;
        if stands {
            self.note(place, seen);
        }
        stands
    }

    /// The common case on a medium that cannot be looked at in place.
    #[cold]
    #[inline(never)]
    fn see_copied<T: Record, L: Look>(
        &mut self,
        at: Ref<T>,
        seen: Orec,
        look: &mut L,
    ) -> Option<L::Out> {
        let place = self.th.view.locate(at)?;
        let answer = self.look_at::<T, L>(place, seen.newest(), look);
        self.stands(place, seen).then_some(answer)
    }

    /// The common case, a settled record of a known clock; `None` for any other, and whenever a
    /// snapshot is read: then the view is shut.
    #[inline(always)]
    fn sight<T: Record>(&mut self, at: Ref<T>) -> Option<(Place<'p>, Orec)> {
        let (place, tag) = self.th.view.place(at)?;
        if const { object_bytes(T::WORDS) > LINE_BYTES } {
            self.th.view.touch(place, const { slot_bytes(T::WORDS) / LINE_BYTES });
        }
        let seen = Orec(place.orec.load(Acquire));
        if tag.load(Acquire) != T::TAG {
            return None;
        }
        self.th.starts.settle(seen).then_some((place, seen))
    }

    #[cold]
    #[inline(never)]
    fn see_slowly<T: Record, L: Look>(
        &mut self,
        at: Ref<T>,
        look: &mut L,
    ) -> Result<L::Out, Abort> {
        let place = self.pool.locate(at).map_err(|e| self.astray(e))?;
        match self.inspect_slowly::<T, L>(place, look)? {
            Some(answer) => Ok(answer),
            None => Err(self.gone(at)),
        }
    }

    /// What a reference to an object that does not live comes to. Where a snapshot looks, the slab
    /// may have had another type in between and this one again since.
    #[cold]
    #[inline(never)]
    fn gone<T>(&mut self, at: Ref<T>) -> Abort {
        let is_snapshot = matches!(self.mode, Mode::Snapshot { .. });
        if is_snapshot && !mutant!("snapshot_slab_returned") {
            return self.astray(dead(at));
        }
        dangling(at)
    }

    /// What a reference that leads to no object of its type comes to: a conflict if it may have
    /// been good when this transaction read it, because its memory has another type since.
    #[cold]
    #[inline(never)]
    fn astray(&mut self, error: Error) -> Abort {
        let moved = match self.mode {
            Mode::Snapshot { .. } => self.pool.recycled.load(Acquire) != self.recycled,
            _ => self.glanced || !self.reads_stand(),
        };
        if moved { Abort::conflict() } else { error.into() }
    }

    /// Whether the object at `place`, whose record has been loaded, is of type `T`.
    #[inline(always)]
    fn is_of<T: Record>(&self, place: Place<'_>) -> bool {
        self.pool.table.tag_at(place.base) == T::TAG
    }

    #[cold]
    fn of_another_type(&mut self, place: Place<'_>) -> Abort {
        let text = format!("reference @{:#x} leads to an object of another type", place.base);
        self.astray(Error::new(Kind::BadReference, text))
    }

    /// Replaces a record.
    ///
    /// # Errors
    /// As `read`; `Kind::ReadOnly` outside an update transaction.
    #[inline]
    pub fn write<T: Record>(&mut self, at: Ref<T>, value: &T) -> Result<(), Abort> {
        match self.replace(at, value) {
            Ok(()) => Ok(()),
            Err(abort) => Err(self.fail(abort)),
        }
    }

    #[inline(always)]
    fn replace<T: Record>(&mut self, at: Ref<T>, value: &T) -> Result<(), Abort> {
        let place = self.pool.locate(at).map_err(|e| self.astray(e))?;
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
        self.make(value).map_err(|abort| self.fail(abort))
    }

    fn make<T: Record>(&mut self, value: &T) -> Result<Ref<T>, Abort> {
        self.check_update()?;
        let place = self.th.take_free::<T>()?;
        let opened = self.open::<T>(place, true);
        if opened.is_err() {
            self.th.keep_free(T::TAG, place.base);
        }
        self.th.churns = true;
        let entry = opened?;
        if !mutant!("stm_object_lost_beside_dangling") {
            // A dangling reference may have led here before: this transaction fails then, and the
            // object goes back to the free list that it was taken from.
            self.th.writes[entry].fresh = true;
        }
        self.put(entry, value);
        Ok(Ref::from_offset(place.base as u64))
    }

    /// Ends a record, and takes its names back; its memory is reused once the transaction has
    /// committed.
    ///
    /// # Errors
    /// As `write`.
    pub fn free<T: Record>(&mut self, at: Ref<T>) -> Result<(), Abort> {
        self.end_object(at).map_err(|abort| self.fail(abort))
    }

    fn end_object<T: Record>(&mut self, at: Ref<T>) -> Result<(), Abort> {
        let place = self.pool.locate(at).map_err(|e| self.astray(e))?;
        let entry = self.open::<T>(place, false)?;
        let entry = &mut self.th.writes[entry];
        if !entry.live {
            return Err(dangling(at));
        }
        (entry.live, entry.len) = (false, 0);
        self.th.churns = true;
        if self.pool.named.may_have(at.offset()) { self.end_names(at.offset()) } else { Ok(()) }
    }

    /// The payload of a slot, where the domain can be looked at in place.
    #[inline(always)]
    fn words<T: Record>(&self, place: Place<'_>, slot: usize) -> Option<Words<'p>> {
        let all = self.th.view.lines;
        if const { object_bytes(T::WORDS) == LINE_BYTES } {
            return all.get(place.line).map(|line| Words::twin(line, slot));
        }
        let lines = const { slot_bytes(T::WORDS) / LINE_BYTES };
        let from = place.line + slot * lines;
        let lines = all.get(from..from + lines)?;
        Some(Words::in_place(&lines.as_flattened()[1..1 + T::WORDS]))
    }

    /// Calls `look` with the payload of a slot, in place where the domain can.
    fn look_at<T: Record, L: Look>(
        &mut self,
        place: Place<'_>,
        slot: usize,
        look: &mut L,
    ) -> L::Out {
        if let Some(words) = self.words::<T>(place, slot) {
            return look.look(words);
        }
        let mut copy = std::mem::take(&mut self.th.scratch);
        copy.resize(T::WORDS, 0);
        let payload = place.base + slot * const { slot_bytes(T::WORDS) } + 8;
        self.pool.domain.load_words(payload, &mut copy);
        let answer = look.look(Words::copied(&copy));
        self.th.scratch = copy;
        answer
    }

    #[inline(always)]
    fn note(&mut self, place: Place<'p>, seen: Orec) {
        if self.mode == Mode::Glance {
            self.glanced = true;
        } else {
            self.th.reads.push(ReadEntry { orec: place.orec, seen });
        }
    }

    /// A record that is not simply there: `None` when it is not alive in this transaction's view.
    #[inline(never)]
    fn inspect_slowly<T: Record, L: Look>(
        &mut self,
        place: Place<'p>,
        look: &mut L,
    ) -> Result<Option<L::Out>, Abort> {
        if let Mode::Snapshot { epoch, .. } = self.mode {
            return self.inspect_at::<T, L>(place, epoch, look);
        }
        let (me, mut looks) = (self.th.tid, 0);
        loop {
            let seen = Orec(place.orec.load(Acquire));
            if !self.is_of::<T>(place) {
                return Err(self.of_another_type(place));
            }
            if seen.is_mine(me) {
                return Ok(self.inspect_own::<T, L>(place, look));
            }
            if seen.blocks(me) && !mutant!("stm_committing_not_awaited") {
                self.th.look_again(seen, &mut looks, false)?;
                continue;
            }
            if let Err(abort) = self.admit(seen) {
                return self.old_version::<T, L>(place, seen, look).ok_or(abort);
            }
            let answer = self.look_at::<T, L>(place, seen.newest(), look);
            fence(Acquire);
            let again = Orec(place.orec.load(Relaxed));
            let blocked = again.blocks(me) && !mutant!("stm_committing_not_awaited");
            if again.version() == seen.version() && !blocked {
                self.note(place, seen);
                return Ok(seen.live().then_some(answer));
            }
            self.th.look_again(again, &mut looks, false)?;
        }
    }

    fn inspect_own<T: Record, L: Look>(
        &mut self,
        place: Place<'p>,
        look: &mut L,
    ) -> Option<L::Out> {
        let entry = self.find(place).expect("invariant: a record of mine is in the write set");
        let entry = self.th.writes[entry];
        let words = &self.th.words[entry.at as usize + 1..][..T::WORDS];
        entry.live.then(|| look.look(Words::copied(words)))
    }

    /// The version of `epoch`: the newest, or the one before it.
    fn inspect_at<T: Record, L: Look>(
        &mut self,
        place: Place<'p>,
        epoch: u64,
        look: &mut L,
    ) -> Result<Option<L::Out>, Abort> {
        let (step, slot_bytes) = const { (object_bytes(T::WORDS), slot_bytes(T::WORDS)) };
        let mut looks = 0;
        loop {
            let seen = Orec(place.orec.load(Acquire));
            if !self.is_of::<T>(place) {
                return Err(self.of_another_type(place));
            }
            if !seen.is_committing() {
                let (newest, before) = self.pool.table.epochs(place.base, step);
                let slot = if newest <= epoch { seen.newest() } else { 1 - seen.newest() };
                let stamp = self.stamp(place, slot_bytes, slot);
                let answer = self.look_at::<T, L>(place, slot, look);
                fence(Acquire);
                let again = Orec(place.orec.load(Relaxed));
                if again.version() == seen.version() && !again.is_committing() {
                    let known = newest <= epoch || before <= epoch;
                    let alive = stamp.live().then_some(answer);
                    return if known { Ok(alive) } else { Err(Abort::conflict()) };
                }
            }
            self.th.look_again(seen, &mut looks, true)?;
        }
    }

    /// What CE-A and CE-B of the paper's protocol do when an extension fails: read the other
    /// version.
    fn old_version<T: Record, L: Look>(
        &mut self,
        place: Place<'p>,
        seen: Orec,
        look: &mut L,
    ) -> Option<Option<L::Out>> {
        if !(mutant!("stm_clocks_before_validation") || mutant!("stm_old_version_by_clocks")) {
            return None;
        }
        let stamp = self.stamp(place, const { slot_bytes(T::WORDS) }, 1 - seen.newest());
        let answer = self.look_at::<T, L>(place, 1 - seen.newest(), look);
        (!stamp.is_none() && self.th.starts.reach(stamp.tid(), stamp.clock()))
            .then(|| stamp.live().then_some(answer))
    }

    fn stamp(&self, place: Place<'_>, slot_bytes: usize, slot: usize) -> Stamp {
        Stamp(self.pool.domain.word(place.base + slot * slot_bytes, Relaxed))
    }

    /// Makes sure that a version may be read beside everything read so far.
    #[inline(always)]
    fn admit(&mut self, seen: Orec) -> Result<(), Abort> {
        if self.th.starts.know(seen) { Ok(()) } else { self.extend(seen) }
    }

    #[cold]
    #[inline(never)]
    fn extend(&mut self, seen: Orec) -> Result<(), Abort> {
        if mutant!("stm_clocks_before_validation") {
            self.th.starts.learn(seen.tid(), seen.clock());
        }
        // Without extension, as in figure 6 of the paper: know the clock, start again.
        let may = !self.glanced && (self.th.extends || self.th.reads.is_empty());
        if may && self.validate() {
            self.th.starts.learn(seen.tid(), seen.clock());
            self.th.stats.extensions_count += 1;
            return Ok(());
        }
        self.th.lesson = Some((seen.tid(), seen.clock()));
        self.th.lost_to(seen.tid(), seen.clock());
        Err(Abort::conflict())
    }

    /// Whether everything read is still newest and no other thread is committing it: none has
    /// committed anything, or each record says so.
    fn validate(&self) -> bool {
        let long = self.th.reads.len() > LONG;
        (long && self.th.watch.holds()) || self.reads_stand()
    }

    fn reads_stand(&self) -> bool {
        let me = self.th.tid;
        let ceases = |now: Orec| now.blocks(me) && !mutant!("loom_no_lock_check");
        self.th.reads.iter().all(|r| {
            let now = Orec(r.orec.load(Acquire));
            now.version() == r.seen.version() && !ceases(now)
        })
    }

    /// Notes whose version made a validation fail.
    #[cold]
    fn blame(&mut self) {
        let now = |r: &ReadEntry<'_>| Orec(r.orec.load(Acquire));
        let changed = |r: &&ReadEntry<'_>| now(r).version() != r.seen.version();
        if let Some(changed_by) = self.th.reads.iter().find(changed).map(now) {
            self.th.lost_to(changed_by.tid(), changed_by.clock());
        }
    }

    fn check_update(&self) -> Result<(), Abort> {
        if self.mode == Mode::Update {
            return Ok(());
        }
        Err(Error::new(Kind::ReadOnly, "a read-only transaction cannot write").into())
    }

    fn find(&mut self, place: Place<'_>) -> Option<usize> {
        let Thread { writes, index, .. } = &mut *self.th;
        if writes.len() <= SCAN_MAX {
            return writes.iter().rposition(|w| w.base == place.base);
        }
        for (i, w) in writes.iter().enumerate().skip(index.len()) {
            index.insert(w.base, if mutant!("write_index_stale") { 0 } else { i as u32 });
        }
        index.get(&place.base).map(|&i| i as usize)
    }

    /// Locks a record for writing and puts it into the write set, once.
    #[inline(always)]
    fn open<T: Record>(&mut self, place: Place<'p>, fresh: bool) -> Result<usize, Abort> {
        self.check_update()?;
        let seen = Orec(place.orec.load(Acquire));
        let locked = seen.owned(State::Intent, self.th.tid);
        let before = if seen.is_free() && self.exchange(place.orec, seen, locked) {
            seen
        } else {
            match self.open_slowly(place)? {
                Ok(entry) => return Ok(entry),
                Err(before) => before,
            }
        };
        if !self.is_of::<T>(place) {
            // The slab was given to another type since the reference was found good.
            cold_path();
            self.set(place.orec, before.0);
            return Err(self.of_another_type(place));
        }
        self.enlist::<T>(place, before, fresh)
    }

    /// The write set's entry of a record that is ours already, or what it was before it was locked.
    #[inline(never)]
    fn open_slowly(&mut self, place: Place<'p>) -> Result<Result<usize, Orec>, Abort> {
        let (me, mut looks) = (self.th.tid, 0);
        loop {
            let seen = Orec(place.orec.load(Acquire));
            if seen.is_mine(me) {
                return Ok(Ok(self
                    .find(place)
                    .expect("invariant: a record of mine is in the set")));
            }
            let locked = seen.owned(State::Intent, me);
            if seen.is_free() && self.exchange(place.orec, seen, locked) {
                return Ok(Err(seen));
            }
            self.th.look_again(seen, &mut looks, false)?;
        }
    }

    /// Puts a locked record into the write set.
    #[inline(always)]
    fn enlist<T: Record>(
        &mut self,
        place: Place<'p>,
        before: Orec,
        fresh: bool,
    ) -> Result<usize, Abort> {
        if mutant!("stm_lock_leaked_by_write") && !fresh {
            self.admit(before)?;
        }
        let at = self.th.words.len();
        self.th.words.resize(at + 1 + T::WORDS, 0);
        self.th.writes.push(WriteEntry {
            orec: place.orec,
            before,
            base: place.base,
            slot_bytes: const { slot_bytes(T::WORDS) } as u32,
            at: at as u32,
            len: T::WORDS as u32,
            live: fresh || before.live(),
            fresh,
            tag: T::TAG,
        });
        // The record is in the set before anything can fail, so that an abort releases it. What a
        // fresh object held before is not read, so its clock need not be known.
        if !fresh {
            self.admit(before)?;
        }
        Ok(self.th.writes.len() - 1)
    }

    #[inline(always)]
    fn put<T: Record>(&mut self, entry: usize, value: &T) {
        let at = self.th.writes[entry].at as usize + 1;
        let words = &mut self.th.words[at..at + T::WORDS];
        value.store(|i, w| words[i] = w);
    }

    #[inline(always)]
    fn exchange(&self, word: &AtomicU64, from: Orec, to: Orec) -> bool {
        self.wrote(word);
        word.compare_exchange(from.0, to.0, AcqRel, Relaxed).is_ok()
    }

    #[inline(always)]
    fn set(&self, word: &AtomicU64, value: u64) {
        self.wrote(word);
        word.store(value, Release);
    }

    /// Lets a tracing domain see a store to a shared volatile word.
    #[inline(always)]
    fn wrote(&self, word: &AtomicU64) {
        self.pool.domain.shadow_stored(std::ptr::from_ref(word).addr());
    }

    /// Steps 1 to 6; see the module's page.
    #[inline(always)]
    pub(crate) fn commit(&mut self) -> Result<(), Abort> {
        if self.standing != Standing::Sound {
            return Err(self.failed());
        }
        if self.th.writes.is_empty() { Ok(()) } else { self.commit_writes() }
    }

    fn commit_writes(&mut self) -> Result<(), Abort> {
        let pool = self.pool;
        pool.check_owner()?;
        pool.check_poison()?;
        let early = mutant!("snapshot_epoch_early").then(|| pool.calm.epoch.load(SeqCst));
        self.marked = !mutant!("stm_commit_marks_unchanged");
        if self.marked {
            self.set(self.th.mark, mark(self.th.clock, true));
        }
        self.announce();
        let epoch = early.unwrap_or_else(|| pool.calm.epoch.load(SeqCst));
        if !self.validate() {
            self.blame();
            return Err(Abort::conflict());
        }
        self.step_clock()?;
        if mutant!("stm_valid_before_version") {
            self.store_frontier();
        }
        self.store_versions();
        if !mutant!("stm_valid_before_version") {
            pool.fence("make a transaction's versions durable")?;
            self.store_frontier();
        }
        if mutant!("stm_published_before_mark") {
            self.publish(epoch);
        }
        pool.fence("move a frontier")?;
        pool.domain.commit_point();
        if !mutant!("stm_published_before_mark") {
            self.publish(epoch);
        }
        self.committed = true;
        Ok(())
    }

    /// Step 1: own records are COMMITTING before anything is loaded.
    fn announce(&self) {
        let me = self.th.tid;
        let committing = |w: &WriteEntry<'_>| w.before.owned(State::Committing, me).0;
        let (last, others) = self.th.writes.split_last().expect("invariant: writes there are");
        for w in others {
            self.set(w.orec, committing(w));
        }
        self.wrote(last.orec);
        store_then_fence(last.orec, committing(last));
    }

    fn step_clock(&mut self) -> Result<(), Abort> {
        if self.th.clock >= CLOCK_MAX - 1 {
            let text = format!("thread slot {} has used up its clock", self.th.tid);
            return Err(Error::new(Kind::ClockExhausted, text).into());
        }
        self.th.clock += 1;
        Ok(())
    }

    /// Step 4. The order of these stores is free: a stamp means nothing before the frontier.
    fn store_versions(&mut self) {
        let domain = &self.pool.domain;
        let Thread { writes, words, tid, clock, .. } = &mut *self.th;
        let id = Stamp::new(*tid, *clock, false, 0);
        for w in writes.iter() {
            let is_new = w.before.tid() as u32 != *tid || w.before.clock() < *clock;
            debug_assert!(is_new, "a version never repeats");
            let slot = w.base + (1 - w.before.newest()) * w.slot_bytes as usize;
            let image = &mut words[w.at as usize..][..1 + w.len as usize];
            image[0] = id.with(w.live, w.before.count() + 1).0;
            domain.store_words(slot, image);
            domain.write_back(slot, 8 * image.len());
        }
    }

    /// Step 5. No thread reads the line before a restart, so it need not stay cached.
    fn store_frontier(&mut self) {
        let th = &mut *self.th;
        th.raise_frontier();
        th.pool.domain.store_line(th.pool.layout.frontier(th.tid as usize), &th.line);
    }

    fn publish(&self, epoch: u64) {
        let stamp = Stamp::new(self.th.tid, self.th.clock, true, 0);
        let (table, id) = (&self.pool.table, Orec::free(stamp, 0));
        for w in &self.th.writes {
            // A model's schedules would grow by one more load.
            let owner = || Orec(w.orec.load(Relaxed)).is_mine(self.th.tid);
            debug_assert!(
                cfg!(any(loom, shuttle)) || owner(),
                "a record is published by its owner"
            );
            // Before the first snapshot every version has the epoch an untouched record shows.
            if epoch > 0 {
                self.wrote(table.push_epoch(w.base, 2 * w.slot_bytes as usize, epoch));
            }
            self.set(w.orec, w.before.next(id, w.live).0);
        }
    }

    /// Ends the transaction: undone unless it was committed.
    #[inline(always)]
    pub(crate) fn end(&mut self) {
        if !self.th.writes.is_empty() {
            self.end_writes();
        }
        if matches!(self.mode, Mode::Snapshot { .. }) {
            self.th.view = self.pool.places();
        }
        self.th.reads.clear();
    }

    /// Undoes an unfinished transaction; hands freed or unused objects to the free list.
    #[inline(never)]
    fn end_writes(&mut self) {
        if !self.committed {
            self.th.writes.iter().for_each(|w| self.set(w.orec, w.before.0));
        }
        if self.marked {
            self.set(self.th.mark, mark(self.th.clock, false));
        }
        if self.th.churns {
            let mut writes = std::mem::take(&mut self.th.writes);
            for w in writes.drain(..) {
                let unused = if self.committed { !w.live } else { w.fresh };
                // Root records are kept apart from other memory.
                let unused = unused && w.tag != Root::TAG;
                if unused {
                    self.th.keep_free(w.tag, w.base);
                }
            }
            (self.th.writes, self.th.churns) = (writes, false);
        }
        self.th.writes.clear();
        self.th.words.clear();
        self.th.index.clear();
    }
}

#[cold]
fn dangling<T>(at: Ref<T>) -> Abort {
    dead(at).into()
}

#[cold]
fn dead<T>(at: Ref<T>) -> Error {
    Error::new(Kind::BadReference, format!("reference {at:?} leads to a freed object"))
}

impl<D: Domain> Drop for Tx<'_, '_, D> {
    fn drop(&mut self) {
        self.end();
    }
}
