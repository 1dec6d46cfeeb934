//! Futures of one type in one allocation, pinned where they were put.
//!
//! Lifecycle of a place: empty, filled by [`Slab::push`], polled by [`Slab::poll`] until it is ready,
//! dropped in place at once; or dropped in place with the slab.
//!
//! Invariants
//! - The allocation never moves: `push` refuses to go beyond the capacity it was made with.
//! - `order` lists exactly the places that hold a future, except entries marked [`ENDED`] since the
//!   last [`Slab::compact`].
//! - A future is dropped exactly once, also when a poll or another drop panics: it leaves `order`
//!   before its drop begins.

use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

/// An entry of `order` whose future has ended.
const ENDED: u32 = u32::MAX;

/// Pinned futures of one type.
pub(crate) struct Slab<F> {
    places: Vec<MaybeUninit<F>>,
    order: Vec<u32>,
    ended: usize,
}

impl<F: Future> Slab<F> {
    /// Room for `capacity` futures.
    pub(crate) fn with_capacity(capacity: u32) -> Slab<F> {
        let capacity = capacity as usize;
        Slab { places: Vec::with_capacity(capacity), order: Vec::with_capacity(capacity), ended: 0 }
    }

    /// Puts a future in the next place.
    pub(crate) fn push(&mut self, future: F) {
        assert!(self.places.len() < self.places.capacity(), "a pinned slab must not grow");
        self.order.push(self.places.len() as u32);
        self.places.push(MaybeUninit::new(future));
    }

    /// How many futures were ever put.
    pub(crate) fn pushed(&self) -> u32 {
        self.places.len() as u32
    }

    /// How many entries there are to poll, those ended since the last `compact` included.
    #[inline(always)]
    pub(crate) fn entries(&self) -> usize {
        self.order.len()
    }

    /// The place of an entry: the number its future was pushed under.
    #[inline(always)]
    pub(crate) fn place(&self, entry: usize) -> u32 {
        self.order[entry]
    }

    /// Polls the future of an entry; one that is ready is dropped.
    #[inline(always)]
    pub(crate) fn poll(&mut self, entry: usize, cx: &mut Context<'_>) -> Poll<F::Output> {
        let place = self.order[entry] as usize;
        assert!(place < self.places.len(), "invariant: an ended future is not polled");
        // SAFETY: `place` is listed in `order`, so it holds a future; it is never moved again, since
        // `places` never reallocates and is private, so pinning it is sound.
        let future = unsafe { Pin::new_unchecked(self.places[place].assume_init_mut()) };
        let poll = future.poll(cx);
        if poll.is_ready() {
            self.end(entry);
        }
        poll
    }

    fn end(&mut self, entry: usize) {
        let place = std::mem::replace(&mut self.order[entry], ENDED) as usize;
        self.ended += 1;
        // SAFETY: the place held a future until now, and taking it out of `order` first makes this
        // its only drop.
        unsafe { self.places[place].assume_init_drop() };
    }

    /// Forgets ended entries, keeping the order of the others; answers whether there were any.
    pub(crate) fn compact(&mut self) -> bool {
        let any = self.ended > 0;
        if any {
            self.order.retain(|&place| place != ENDED);
            self.ended = 0;
        }
        any
    }
}

impl<F> Drop for Slab<F> {
    fn drop(&mut self) {
        while let Some(place) = self.order.pop() {
            if place != ENDED {
                // SAFETY: the place is listed, so it holds a future; it was unlisted just now, so
                // this is its only drop.
                unsafe { self.places[place as usize].assume_init_drop() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;
    use std::task::Waker;

    /// Ready after `left` polls; counts its drops; panics when `left` is huge.
    struct Countdown {
        left: u32,
        drops: Rc<Cell<u32>>,
        home: Cell<usize>,
    }

    impl Future for Countdown {
        type Output = u32;
        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
            assert!(self.left < 100, "asked to panic");
            let here = (&raw const *self).addr();
            assert!([0, here].contains(&self.home.replace(here)), "a pinned future moved");
            if self.left == 0 {
                return Poll::Ready(7);
            }
            self.left -= 1;
            Poll::Pending
        }
    }

    impl Drop for Countdown {
        fn drop(&mut self) {
            self.drops.set(self.drops.get() + 1);
        }
    }

    fn slab(lefts: &[u32], drops: &Rc<Cell<u32>>) -> Slab<Countdown> {
        let mut slab = Slab::with_capacity(lefts.len() as u32);
        for &left in lefts {
            slab.push(Countdown { left, drops: drops.clone(), home: Cell::new(0) });
        }
        slab
    }

    #[test]
    fn futures_end_in_place_and_the_rest_keep_their_order() {
        let drops = Rc::default();
        let mut slab = slab(&[2, 0, 1], &drops);
        let mut cx = Context::from_waker(Waker::noop());
        for entry in 0..3 {
            assert_eq!(slab.poll(entry, &mut cx).is_ready(), entry == 1);
        }
        assert!(slab.compact() && !slab.compact());
        assert_eq!((slab.entries(), slab.place(0), slab.place(1), drops.get()), (2, 0, 2, 1));
        drop(slab);
        assert_eq!(drops.get(), 3);
    }

    #[test]
    fn a_panicking_future_is_dropped_once_with_the_rest() {
        let drops = Rc::default();
        let mut slab = slab(&[1, 100, 1], &drops);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut cx = Context::from_waker(Waker::noop());
            (0..3).for_each(|entry| assert!(slab.poll(entry, &mut cx).is_pending()));
        }));
        assert!(outcome.is_err());
        drop(slab);
        assert_eq!(drops.get(), 3);
    }

    #[test]
    #[should_panic(expected = "must not grow")]
    fn a_full_slab_refuses() {
        let drops = Rc::default();
        let mut slab = slab(&[1], &drops);
        let room = slab.places.capacity();
        for _ in 0..room {
            slab.push(Countdown { left: 0, drops: drops.clone(), home: Cell::new(0) });
        }
    }
}
