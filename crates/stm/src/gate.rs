//! Eldest-wins: a transaction that keeps losing takes a ticket, and younger ones let it pass.
//!
//! - The gate is open while no thread holds a ticket; passing it costs two loads of a line that
//!   none writes then, so disjoint transactions share no written line.
//! - Tickets are served in order. A waiter gives up after a bound and goes on, so that two handles
//!   of one thread, one inside the other's closure, cannot wait for each other for ever.

use littoral_base::sync::atomic::{AtomicU64, Ordering::Relaxed};
use littoral_base::sync::thread::yield_now;

/// Yields after which a waiter goes on regardless.
const PATIENCE: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 256 };

#[derive(Debug)]
pub(crate) struct Gate {
    taken: AtomicU64,
    done: AtomicU64,
}

/// An elder's right to go first, given up on drop.
#[derive(Debug)]
pub(crate) struct Ticket<'g> {
    gate: &'g Gate,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate { taken: AtomicU64::new(0), done: AtomicU64::new(0) }
    }

    /// Lets elders finish first.
    #[inline]
    pub(crate) fn pass(&self) {
        let taken = self.taken.load(Relaxed);
        if taken != self.done.load(Relaxed) {
            self.wait_for(taken);
        }
    }

    #[cold]
    fn wait_for(&self, ticket: u64) {
        for _ in 0..PATIENCE {
            if self.done.load(Relaxed) >= ticket {
                return;
            }
            yield_now();
        }
    }

    /// Takes a ticket and waits for earlier ones.
    pub(crate) fn enter(&self) -> Ticket<'_> {
        let ticket = self.taken.fetch_add(1, Relaxed);
        self.wait_for(ticket);
        Ticket { gate: self }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.gate.done.fetch_add(1, Relaxed);
    }
}
