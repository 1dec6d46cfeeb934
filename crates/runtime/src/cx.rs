//! What a context holds: its handle on the ring, a read under way, the bytes of a finished read.
//!
//! A read's life: `Fresh -> Waiting -> Taken`, or `Fresh -> Starved -> Waiting` when no slot is
//! free.
//! - *Fresh*: issued; the first poll always suspends, so that other contexts issue theirs (and, on
//!   DRAM, so that the prefetch has time to work).
//! - *Waiting*: each poll asks the device.
//! - *Taken*: the slot belongs to the guard, which releases it when dropped.
//!
//! Invariants
//! - A slot issued here is released exactly once: by the guard, by an unsuccessful end, or by the
//!   drop of an unfinished read, which abandons it to the device. Checked by
//!   `late_data_of_a_dropped_read_reach_no_other`,
//!   `a_read_that_was_polled_and_dropped_gives_the_first_slot_back`,
//!   `holding_every_slot_is_an_error_not_a_hang`.
//! - Every `Pending` returned here has bumped `Core::marks`; that is how the ring tells its own
//!   futures from foreign ones. Checked by `a_foreign_future_is_refused`,
//!   `a_foreign_future_beside_busy_neighbours_is_found`.
//! - A context's usual slot is its own number, so taking one is a test, not a search; no other
//!   context takes it while a spare slot is free. Checked by
//!   `a_busy_spare_slot_is_passed_over_and_none_is_left_untried`.
//!
//! What a read keeps in its context's frame (a pointer and a word) and what it stores on the way
//! are the ring's cost per read; `docs/design/ring.md` has the account.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use littoral_base::counters::bump;
use littoral_device::read::{Lease, ReadDevice, Slot, Status};

use crate::counters::RingCounters;
use crate::error::{Error, Kind, Result};
use crate::raw::lease::lease;

mod reader;

pub use reader::{FixedRead, Reader};

/// How the polls of contexts ended that did not end them; see [`Core::waited`].
#[derive(Clone, Copy)]
pub(crate) struct Waited {
    pub(crate) reads: u64,
    pub(crate) waits: u64,
    pub(crate) yields: u64,
}

/// What all contexts of a ring share; futures reach it by one pointer.
pub(crate) struct Core<D> {
    pub(crate) device: D,
    lease: Lease,
    /// Counts the times a future of this ring returned `Pending`, but for fixed reads; see
    /// [`Core::marks_count`].
    pub(crate) marks: Cell<u64>,
    /// The same of fixed reads.
    pub(crate) fixed_pendings: Cell<u64>,
    /// Fixed reads that the device had counted when the ring was made.
    fixed_before: u64,
    pub(crate) counters: RingCounters,
    /// First slot that is no context's own.
    spare_first: u32,
    slots: u32,
    spare_cursor: Cell<u32>,
    abandoned: RefCell<Vec<Slot>>,
    /// Address and length of each starved read, by its number; free numbers hold `None`.
    starved: RefCell<Vec<Option<(u64, u32)>>>,
}

impl<D: ReadDevice> Core<D> {
    pub(crate) fn new(device: D, contexts_max: u32) -> Core<D> {
        let (slots, fixed_before) = (device.limits().slots, device.fixed_count());
        Core {
            device,
            fixed_before,
            lease: lease(),
            marks: Cell::new(0),
            fixed_pendings: Cell::new(0),
            counters: RingCounters::default(),
            spare_first: contexts_max,
            slots,
            spare_cursor: Cell::new(0),
            abandoned: RefCell::default(),
            starved: RefCell::default(),
        }
    }

    /// How often a future of this ring has returned `Pending`: a `Pending` that leaves it unchanged
    /// is foreign.
    #[inline(always)]
    pub(crate) fn marks_count(&self) -> u64 {
        self.marks.get() + self.fixed_pendings.get()
    }

    /// Fixed reads issued.
    #[inline(always)]
    pub(crate) fn fixed_count(&self) -> u64 {
        self.device.fixed_count() - self.fixed_before
    }

    /// Reads that contexts have waited for, how often they went on waiting, and how often they gave
    /// way. A fixed read waits once at each `Pending` after its first.
    pub(crate) fn waited(&self) -> Waited {
        let (waits, yields) = (self.counters.waits_count.get(), self.counters.yields_count.get());
        let fixed = self.fixed_count();
        Waited {
            reads: self.marks.get() - waits - yields + fixed,
            waits: waits + self.fixed_pendings.get().saturating_sub(fixed),
            yields,
        }
    }

    /// Holds a slot for fixed reads: a spare one, so that a context's own serves its other reads.
    #[cold]
    pub(crate) fn hold(&self, own: Slot) -> Option<Slot> {
        let spares = (self.spare_first..self.slots).map(Slot);
        let mut slots = spares.chain([own]).chain((0..self.spare_first).map(Slot));
        slots.find(|&slot| self.device.hold(slot))
    }

    /// Frees a held slot whose latest read is due at `due`.
    pub(crate) fn release_held(&self, slot: Slot, due: u64) {
        self.device.release_due(slot, due);
        if !self.device.is_free(slot) {
            self.abandoned.borrow_mut().push(slot);
        }
    }

    #[cold]
    fn acquire_spare(&self) -> Option<Slot> {
        let spares = self.slots - self.spare_first;
        let from = self.spare_cursor.get();
        let slot = (0..spares)
            .map(|i| Slot(self.spare_first + (from + i) % spares))
            .find(|&slot| self.device.is_free(slot))?;
        self.spare_cursor.set((slot.0 - self.spare_first + 1) % spares);
        Some(slot)
    }

    /// Issues on a spare slot, or remembers the request as starved; answers the read's word.
    #[cold]
    fn issue_elsewhere(&self, addr: u64, len: u32) -> u64 {
        if let Some(slot) = self.acquire_spare() {
            self.device.issue(slot, addr, len);
            return u64::from(slot.0);
        }
        bump(&self.counters.starved_count, 1);
        let mut starved = self.starved.borrow_mut();
        let number = starved.iter().position(Option::is_none).unwrap_or(starved.len());
        if number == starved.len() {
            starved.push(None);
        }
        starved[number] = Some((addr, len));
        STARVED | number as u64
    }

    /// Tries again to issue a starved read; answers its slot.
    #[cold]
    fn retry(&self, number: u64) -> Option<Slot> {
        let mut starved = self.starved.borrow_mut();
        let request = &mut starved[number as usize];
        let (addr, len) = request.expect("invariant: a starved read has its request noted");
        let slot = self.acquire_spare().or_else(|| self.acquire_any())?;
        *request = None;
        self.device.issue(slot, addr, len);
        Some(slot)
    }

    /// Any context's own slot that happens to be free: only for the starved.
    fn acquire_any(&self) -> Option<Slot> {
        (0..self.spare_first).map(Slot).find(|&slot| self.device.is_free(slot))
    }

    /// Ends a read whose result is no longer wanted.
    #[cold]
    fn give_up(&self, word: u64) {
        if word & STARVED != 0 {
            self.starved.borrow_mut()[(word & !STARVED) as usize] = None;
            return;
        }
        let slot = Slot(word as u32);
        self.device.release(slot);
        if !self.device.is_free(slot) {
            bump(&self.counters.abandoned_count, 1);
            self.abandoned.borrow_mut().push(slot);
        }
    }

    /// Whether some abandoned slot still waits for its answer.
    pub(crate) fn has_abandoned(&self) -> bool {
        let mut abandoned = self.abandoned.borrow_mut();
        abandoned.retain(|&slot| !self.device.is_free(slot));
        !abandoned.is_empty()
    }

    /// The error of a read that ended with `status`, whose slot it releases.
    #[cold]
    fn failure(&self, slot: Slot, status: Status) -> Error {
        let place = match self.device.request(slot) {
            Some((addr, len)) => format!("read of {len} bytes at {addr}"),
            None => format!("read on slot {}", slot.0),
        };
        self.device.release(slot);
        if status == Status::Refused {
            return self.refusal(&place);
        }
        let mut what = format!("{place} failed: {status}");
        if let (Status::Os, Some(words)) = (status, self.device.last_error()) {
            what = format!("{what}: {words}");
        }
        Error::new(Kind::Read(status), what)
    }

    /// The error of a read that the device does not take.
    #[cold]
    pub(crate) fn refusal(&self, place: &str) -> Error {
        let limits = self.device.limits();
        let what = format!(
            "{place} failed: {} (the device has {} bytes, granule {}, reads of at most {})",
            Status::Refused,
            limits.capacity_bytes,
            limits.granule_bytes,
            limits.read_bytes_max
        );
        Error::new(Kind::Read(Status::Refused), what)
    }
}

/// A context's handle on its ring.
pub struct Cx<'r, D> {
    pub(crate) core: &'r Core<D>,
    pub(crate) context: u64,
}

impl<D> Clone for Cx<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for Cx<'_, D> {}

impl<D> fmt::Debug for Cx<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("context", &self.context).finish()
    }
}

impl<'r, D: ReadDevice> Cx<'r, D> {
    /// Starts reading `len` bytes at byte address `addr` and waits for them when awaited.
    ///
    /// The request is issued by this call, not by the first poll: two reads started one after the
    /// other overlap. A request that breaks the device's limits ends with
    /// [`Kind::Read`]`(`[`Status::Refused`]`)`.
    #[inline(always)]
    pub fn read(self, addr: u64, len: u32) -> Read<'r, D> {
        let own = Slot(self.context());
        let word = if self.core.device.try_issue(own, addr, len) {
            self.context
        } else {
            self.core.issue_elsewhere(addr, len)
        };
        Read { core: self.core, word: word | FRESH }
    }

    /// Reads and hands the bytes to `f`.
    ///
    /// # Errors
    /// As [`Cx::read`].
    #[inline(always)]
    pub async fn read_with<R>(self, addr: u64, len: u32, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let bytes = self.read(addr, len).await?;
        Ok(f(&bytes))
    }

    /// A reader of `N` bytes at a time: the form for many reads of one length.
    ///
    /// On a device with fixed reads ([`ReadDevice::has_fixed`]) it takes less of the processor per
    /// read than [`Cx::read`], and holds a slot for as long as it lives; on others it reads as
    /// [`Cx::read`] does.
    ///
    /// ```
    /// # use littoral_device::{flash::dram::Dram, region::Region};
    /// # use littoral_runtime::{Contexts, Error, Ring, RingOptions};
    /// # let words: Vec<u8> = (0..64u64).flat_map(u64::to_le_bytes).collect();
    /// # let device = Dram::new(Region::from_bytes(&words).unwrap());
    /// # let ring = Ring::new(device, RingOptions::with_contexts(Contexts::Fixed(2)))?;
    /// let third = ring.block_on(async |cx| {
    ///     let mut reader = cx.reader::<8>();
    ///     let second = u64::from_le_bytes(*reader.read(8).await?);
    ///     Ok::<u64, Error>(second + u64::from_le_bytes(*reader.read(16).await?))
    /// })?;
    /// assert_eq!(third, 3);
    /// # Ok::<(), Error>(())
    /// ```
    #[inline(always)]
    pub fn reader<const N: usize>(self) -> Reader<'r, D, N> {
        Reader::new(self)
    }

    /// Gives way to the other contexts once.
    #[inline(always)]
    pub fn yield_now(self) -> YieldNow<'r, D> {
        YieldNow { core: self.core, done: false }
    }

    /// The number of this context, from zero; also its usual slot.
    #[inline(always)]
    pub fn context(self) -> u32 {
        self.context as u32
    }
}

/// Set in the word of a read that found no free slot; the rest is its number among the starved.
const STARVED: u64 = 1 << 28;
/// The word of a read whose slot belongs to a guard now.
const TAKEN: u64 = 1 << 29;
/// Set in a read's word until the first poll.
const FRESH: u64 = 1 << 30;
/// Slot numbers below this can be told from the other words, all of which fit an immediate operand.
pub(crate) const SLOTS_MAX: u32 = STARVED as u32;

/// A read under way.
///
/// Its word is a slot number with [`FRESH`] or without, [`TAKEN`], or [`STARVED`] and a number.
#[must_use = "a read is waited for by awaiting it; dropping it abandons its slot"]
pub struct Read<'r, D: ReadDevice> {
    core: &'r Core<D>,
    word: u64,
}

impl<'r, D: ReadDevice> Read<'r, D> {
    /// Notes that this poll ends with `Pending`.
    #[inline(always)]
    fn mark(&self) {
        bump(&self.core.marks, 1);
    }

    /// Polls a read that is not simply waiting; it stays pending.
    #[inline(always)]
    fn poll_special(&mut self) {
        if self.word & FRESH != 0 {
            self.word &= !FRESH;
        } else {
            self.poll_starved();
        }
        self.mark();
    }

    #[cold]
    fn poll_starved(&mut self) {
        assert_ne!(self.word, TAKEN, "a read was polled after it had completed");
        match self.core.retry(self.word & !STARVED) {
            Some(slot) => self.word = u64::from(slot.0),
            None => bump(&self.core.counters.starved_count, 1),
        }
        bump(&self.core.counters.waits_count, 1);
    }
}

impl<'r, D: ReadDevice> Future for Read<'r, D> {
    type Output = Result<ReadGuard<'r, D>>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.word >= STARVED {
            this.poll_special();
            return Poll::Pending;
        }
        let Some(answer) = this.core.device.answer(Slot(this.word as u32), this.core.lease) else {
            bump(&this.core.counters.waits_count, 1);
            this.mark();
            return Poll::Pending;
        };
        let word = std::mem::replace(&mut this.word, TAKEN);
        Poll::Ready(match answer {
            Ok(bytes) => Ok(ReadGuard { core: this.core, word, bytes }),
            Err(status) => Err(this.core.failure(Slot(word as u32), status)),
        })
    }
}

impl<D: ReadDevice> Drop for Read<'_, D> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.word != TAKEN {
            self.core.give_up(self.word & !FRESH);
        }
    }
}

/// The bytes of a finished read; dropping it releases the slot.
///
/// The slot is kept as a whole word: with padding in its place the guard travels through memory as
/// a 4-byte store and an 8-byte load, which the store buffer cannot forward.
pub struct ReadGuard<'r, D: ReadDevice> {
    core: &'r Core<D>,
    word: u64,
    bytes: &'r [u8],
}

impl<'r, D: ReadDevice> ReadGuard<'r, D> {
    /// The bytes for as long as the ring is borrowed: a [`Reader`] lends them on while it keeps the
    /// guard.
    pub(crate) fn lent(&self) -> &'r [u8] {
        self.bytes
    }

    #[inline(always)]
    fn slot(&self) -> Slot {
        Slot(self.word as u32)
    }
}

impl<D: ReadDevice> Deref for ReadGuard<'_, D> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl<D: ReadDevice> Drop for ReadGuard<'_, D> {
    #[inline(always)]
    fn drop(&mut self) {
        self.core.device.release_done(self.slot());
    }
}

impl<D: ReadDevice> fmt::Debug for ReadGuard<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadGuard").field("slot", &self.slot()).field("bytes", &&**self).finish()
    }
}

/// A context giving way once.
#[must_use = "giving way happens when awaited"]
pub struct YieldNow<'r, D> {
    core: &'r Core<D>,
    done: bool,
}

impl<D> Future for YieldNow<'_, D> {
    type Output = ();

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.done, true) {
            return Poll::Ready(());
        }
        bump(&self.core.counters.yields_count, 1);
        bump(&self.core.marks, 1);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use littoral_device::flash::dram::Dram;
    use littoral_device::region::Region;

    use super::*;

    /// Two contexts' own slots and three spare ones.
    fn core() -> Core<Dram> {
        Core::new(Dram::with_slots(Region::from_bytes(&[7; 64]).unwrap(), 5), 2)
    }

    #[test]
    fn spare_slots_are_used_in_turn() {
        let core = core();
        let used: Vec<u32> = (0..5).map(|_| core.acquire_spare().unwrap().0).collect();
        assert_eq!(used, [2, 3, 4, 2, 3]);
    }

    #[test]
    fn a_busy_spare_slot_is_passed_over_and_none_is_left_untried() {
        let core = core();
        for expected in [2, 3, 4] {
            let slot = core.acquire_spare().unwrap();
            assert_eq!(slot.0, expected);
            core.device.issue(slot, 0, 8);
        }
        assert_eq!(core.acquire_spare(), None, "a context's own slot is no spare one");
        assert_eq!(core.acquire_any().unwrap().0, 0);
        core.device.reap();
        assert!(core.device.answer(Slot(3), core.lease).is_some());
        core.device.release_done(Slot(3));
        assert_eq!(core.acquire_spare().unwrap().0, 3);
    }
}
