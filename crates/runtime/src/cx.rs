//! What a context holds: its handle on the ring, a read under way, the bytes of a finished read.
//!
//! A read's life: `Fresh -> Waiting -> Taken`, or `Starved -> Fresh` first when no slot was free.
//! - *Fresh*: issued; the first poll always suspends, so that other contexts issue theirs (and, on
//!   DRAM, so that the prefetch has time to work).
//! - *Waiting*: each poll asks the device.
//! - *Taken*: the slot belongs to the guard, which releases it when dropped.
//!
//! Invariants
//! - A slot issued here is released exactly once: by the guard, by an unsuccessful end, or by the
//!   drop of an unfinished read, which abandons it to the device.
//! - A context's usual slot is its own number, so taking one is a test, not a search.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use littoral_base::counters::bump;
use littoral_device::read::{ReadDevice, Slot, Status};

use crate::counters::RingCounters;
use crate::error::{Error, Kind, Result};

/// What all contexts of a ring share; futures reach it by one pointer.
pub(crate) struct Core<D> {
    pub(crate) device: D,
    /// The context being polled now, which is also its usual slot.
    pub(crate) current: Cell<u32>,
    /// Set when a future of this ring returns `Pending`; a `Pending` without it is foreign.
    pub(crate) suspended: Cell<bool>,
    pub(crate) counters: RingCounters,
    /// First slot that is no context's own.
    spare_first: u32,
    slots: u32,
    spare_cursor: Cell<u32>,
    abandoned: RefCell<Vec<Slot>>,
}

impl<D: ReadDevice> Core<D> {
    pub(crate) fn new(device: D, contexts_max: u32) -> Core<D> {
        let slots = device.limits().slots;
        Core {
            device,
            current: Cell::new(0),
            suspended: Cell::new(false),
            counters: RingCounters::default(),
            spare_first: contexts_max,
            slots,
            spare_cursor: Cell::new(0),
            abandoned: RefCell::new(Vec::new()),
        }
    }

    #[inline(always)]
    fn acquire(&self) -> Option<Slot> {
        let own = Slot(self.current.get());
        if self.device.is_free(own) { Some(own) } else { self.acquire_spare() }
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

    /// Gives back a slot whose answer nobody waits for any more.
    fn give_back(&self, slot: Slot) {
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
}

/// A context's handle on its ring.
pub struct Cx<'r, D> {
    pub(crate) core: &'r Core<D>,
}

impl<D> Clone for Cx<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for Cx<'_, D> {}

impl<D> fmt::Debug for Cx<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("context", &self.core.current.get()).finish()
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
        let slot = match self.core.acquire() {
            Some(slot) => {
                self.core.device.issue(slot, addr, len);
                slot.0 | FRESH
            }
            None => STARVED,
        };
        Read { core: self.core, addr, len, slot }
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

    /// Gives way to the other contexts once.
    #[inline(always)]
    pub fn yield_now(self) -> YieldNow<'r, D> {
        YieldNow { core: self.core, done: false }
    }

    /// The number of the context being polled, from zero; also its usual slot.
    #[inline(always)]
    pub fn context(self) -> u32 {
        self.core.current.get()
    }
}

/// Set in `Read::slot` until the first poll.
const FRESH: u32 = 1 << 31;
/// `Read::slot` of a read whose slot belongs to a guard now.
const TAKEN: u32 = 1 << 30;
/// `Read::slot` of a read that found no free slot.
const STARVED: u32 = TAKEN | 1;
/// Most slots a ring can use.
pub(crate) const SLOTS_MAX: u32 = TAKEN;

/// A read under way.
#[must_use = "a read is waited for by awaiting it; dropping it abandons its slot"]
pub struct Read<'r, D: ReadDevice> {
    core: &'r Core<D>,
    addr: u64,
    len: u32,
    slot: u32,
}

impl<'r, D: ReadDevice> Read<'r, D> {
    #[inline(always)]
    fn suspend(&mut self) -> Poll<Result<ReadGuard<'r, D>>> {
        self.slot &= !FRESH;
        bump(&self.core.counters.reads_count, 1);
        self.core.suspended.set(true);
        Poll::Pending
    }

    #[cold]
    fn poll_starved(&mut self) -> Poll<Result<ReadGuard<'r, D>>> {
        assert_ne!(self.slot, TAKEN, "a read was polled after it had completed");
        match self.core.acquire() {
            Some(slot) => {
                self.core.device.issue(slot, self.addr, self.len);
                self.slot = slot.0;
                self.suspend()
            }
            None => {
                bump(&self.core.counters.starved_count, 1);
                self.core.suspended.set(true);
                Poll::Pending
            }
        }
    }

    #[cold]
    fn fail(&mut self, status: Status) -> Poll<Result<ReadGuard<'r, D>>> {
        self.core.device.release(Slot(self.slot));
        self.slot = TAKEN;
        let mut what = format!("read of {} bytes at {} failed: {status}", self.len, self.addr);
        if let (Status::Os, Some(words)) = (status, self.core.device.last_error()) {
            what = format!("{what}: {words}");
        }
        if status == Status::Refused {
            let limits = self.core.device.limits();
            what = format!(
                "{what} (the device has {} bytes, granule {}, reads of at most {})",
                limits.capacity_bytes, limits.granule_bytes, limits.read_bytes_max
            );
        }
        Poll::Ready(Err(Error::new(Kind::Read(status), what)))
    }
}

impl<'r, D: ReadDevice> Future for Read<'r, D> {
    type Output = Result<ReadGuard<'r, D>>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.slot & FRESH != 0 {
            return this.suspend();
        }
        if this.slot >= TAKEN {
            return this.poll_starved();
        }
        let slot = Slot(this.slot);
        match this.core.device.poll(slot) {
            Some(Status::Ok) => {
                this.slot = TAKEN;
                Poll::Ready(Ok(ReadGuard { core: this.core, slot }))
            }
            Some(status) => this.fail(status),
            None => {
                this.core.suspended.set(true);
                Poll::Pending
            }
        }
    }
}

impl<D: ReadDevice> Drop for Read<'_, D> {
    #[inline(always)]
    fn drop(&mut self) {
        let slot = self.slot & !FRESH;
        if slot < TAKEN {
            self.core.give_back(Slot(slot));
        }
    }
}

/// The bytes of a finished read; dropping it releases the slot.
pub struct ReadGuard<'r, D: ReadDevice> {
    core: &'r Core<D>,
    slot: Slot,
}

impl<D: ReadDevice> Deref for ReadGuard<'_, D> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.core.device.data(self.slot)
    }
}

impl<D: ReadDevice> Drop for ReadGuard<'_, D> {
    #[inline(always)]
    fn drop(&mut self) {
        self.core.device.release(self.slot);
    }
}

impl<D: ReadDevice> fmt::Debug for ReadGuard<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadGuard").field("slot", &self.slot).field("bytes", &&**self).finish()
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
        self.core.suspended.set(true);
        Poll::Pending
    }
}
