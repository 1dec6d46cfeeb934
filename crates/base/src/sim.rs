//! The one discrete-event kernel: an event queue in integer picoseconds and a resource server.
//!
//! Invariants
//! - Events leave in time order; events of one time leave in the order they were scheduled (ties
//!   broken by sequence number), so a run is bit-equal on replay. Checked by
//!   `events_leave_by_time_then_by_order_of_scheduling`.
//! - Nothing is ever scheduled in the past. Checked by `the_past_becomes_now`.
//! - A [`Resource`] serves in the order of its `acquire` calls, whatever the times asked for.
//!   Checked by `a_resource_never_overlaps_itself`, `a_resource_serves_in_the_order_of_its_calls`.
//!
//! Callers: `device::nand` (channels, chips), the zoned model, near-storage cores, the simulated
//! fabric. Model behaviour lives with them; this file knows no device.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::units::Picos;

struct Entry<E> {
    at: Picos,
    sequence: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

/// A queue of future events of type `E` and the current virtual time.
pub struct Queue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    now: Picos,
    sequence: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Queue { heap: BinaryHeap::new(), now: Picos::ZERO, sequence: 0 }
    }
}

impl<E> Queue<E> {
    /// An empty queue at time zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// The time of the last event taken.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Schedules `event` at `at`; a time already past means now.
    pub fn schedule(&mut self, at: Picos, event: E) {
        let entry = Entry { at: at.max(self.now), sequence: self.sequence, event };
        self.sequence += 1;
        self.heap.push(Reverse(entry));
    }

    /// Schedules `event` `delay` from now.
    pub fn schedule_in(&mut self, delay: Picos, event: E) {
        self.schedule(self.now + delay, event);
    }

    /// Takes the next event and moves time to it.
    pub fn pop(&mut self) -> Option<(Picos, E)> {
        let Reverse(entry) = self.heap.pop()?;
        debug_assert!(entry.at >= self.now, "time went back");
        self.now = entry.at;
        Some((entry.at, entry.event))
    }

    /// The time of the next event.
    pub fn peek_time(&self) -> Option<Picos> {
        self.heap.peek().map(|Reverse(e)| e.at)
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

/// A server with `width` equal units (channels, chips, cores), each busy until a known time.
#[derive(Clone, Debug)]
pub struct Resource {
    free_at: Vec<Picos>,
    busy: Picos,
}

/// When a resource began and ended one piece of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Which unit served.
    pub unit: usize,
    /// When service began: the later of the request and the unit being free.
    pub begin: Picos,
    /// When service ended.
    pub end: Picos,
}

impl Resource {
    /// A resource of `width` units, all free at time zero.
    ///
    /// # Panics
    /// When `width` is zero.
    pub fn new(width: usize) -> Self {
        assert!(width > 0, "a resource has at least one unit");
        Resource { free_at: vec![Picos::ZERO; width], busy: Picos::ZERO }
    }

    /// Serves on the unit that is free first (lowest index on a tie).
    pub fn acquire(&mut self, at: Picos, length: Picos) -> Service {
        let unit = (0..self.free_at.len())
            .min_by_key(|&u| self.free_at[u].max(at))
            .expect("invariant: a resource has at least one unit");
        self.acquire_unit(unit, at, length)
    }

    /// Serves on one given unit.
    pub fn acquire_unit(&mut self, unit: usize, at: Picos, length: Picos) -> Service {
        let begin = at.max(self.free_at[unit]);
        let end = begin + length;
        self.free_at[unit] = end;
        self.busy += length;
        Service { unit, begin, end }
    }

    /// When `unit` is free next.
    pub fn free_at(&self, unit: usize) -> Picos {
        self.free_at[unit]
    }

    /// Time served in total over all units.
    pub fn busy(&self) -> Picos {
        self.busy
    }

    /// How many units there are.
    pub fn width(&self) -> usize {
        self.free_at.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn events_leave_by_time_then_by_order_of_scheduling(times in proptest::collection::vec(0u64..20, 0..200)) {
            let mut q = Queue::new();
            for (i, &t) in times.iter().enumerate() {
                q.schedule(Picos(t), i);
            }
            let mut expected: Vec<_> = times.iter().copied().enumerate().map(|(i, t)| (Picos(t), i)).collect();
            expected.sort();
            let got: Vec<_> = std::iter::from_fn(|| q.pop()).collect();
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn a_resource_never_overlaps_itself(jobs in proptest::collection::vec((0u64..50, 1u64..9), 1..60), width in 1usize..4) {
            let mut r = Resource::new(width);
            let mut last = vec![Picos::ZERO; width];
            for (at, len) in jobs {
                let s = r.acquire(Picos(at), Picos(len));
                prop_assert!(s.begin >= last[s.unit] && s.begin >= Picos(at));
                prop_assert_eq!(s.end, s.begin + Picos(len));
                last[s.unit] = s.end;
            }
        }
    }

    #[test]
    fn a_resource_serves_in_the_order_of_its_calls() {
        let mut r = Resource::new(1);
        r.acquire(Picos(100), Picos(5));
        let later = r.acquire(Picos(0), Picos(2));
        assert_eq!((later.begin, later.end), (Picos(105), Picos(107)));
        assert_eq!((r.free_at(0), r.busy()), (Picos(107), Picos(7)));
    }

    #[test]
    fn the_past_becomes_now() {
        let mut q = Queue::new();
        q.schedule(Picos(10), "a");
        q.pop();
        q.schedule(Picos(3), "late");
        assert_eq!(q.pop(), Some((Picos(10), "late")));
    }
}
