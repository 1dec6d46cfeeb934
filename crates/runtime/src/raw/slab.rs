//! Futures of one type in one allocation, pinned where they were put.
//!
//! Lifecycle of a place: empty, filled by [`Slab::push`], polled by [`Slab::poll_range`] until it
//! is ready, dropped in place at once; then vacant, to be filled again by [`Slab::refill`]; or
//! dropped in place with the slab.
//!
//! Invariants
//! - The allocation never moves: `push` refuses to go beyond the capacity it was made with. Checked
//!   by `Slab::push`, `a_full_slab_refuses`.
//! - `order` lists exactly the places that hold a future, except for null entries, whose futures
//!   have ended since the last [`Slab::compact`]. Checked by
//!   `futures_end_in_place_and_the_rest_keep_their_order`.
//! - A place is filled again only after its future was dropped. Checked by
//!   `a_place_is_filled_again_under_its_number`.
//! - A future is dropped exactly once, also when a poll or another drop panics: it leaves `order`
//!   before its drop begins. Checked by `a_panicking_future_is_dropped_once_with_the_rest`.

use std::future::Future;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Pinned futures of one type.
pub(crate) struct Slab<F> {
    places: Vec<MaybeUninit<F>>,
    /// Where each live future lies; null once it has ended.
    order: Vec<*mut F>,
    /// Places whose futures have ended.
    vacant: Vec<*mut F>,
    ended: usize,
}

impl<F: Future> Slab<F> {
    /// Room for `capacity` futures.
    pub(crate) fn with_capacity(capacity: u32) -> Slab<F> {
        let capacity = capacity as usize;
        Slab {
            places: Vec::with_capacity(capacity),
            order: Vec::with_capacity(capacity),
            // A short run, whose futures all end, would grow it several times.
            vacant: Vec::with_capacity(capacity),
            ended: 0,
        }
    }

    /// Puts a future in the next place.
    pub(crate) fn push(&mut self, future: F) {
        assert!(self.places.len() < self.places.capacity(), "a pinned slab must not grow");
        let place = self.places.len();
        self.places.push(MaybeUninit::new(future));
        // Through the vector's own pointer, which later pushes do not invalidate.
        self.order.push(self.places.as_mut_ptr().wrapping_add(place).cast());
    }

    /// The number of the place that [`Slab::refill`] fills: of the latest vacant one, or else of a
    /// new one.
    pub(crate) fn next_place(&self) -> u32 {
        self.vacant.last().map_or(self.pushed(), |&place| self.number(place))
    }

    /// Puts a future in place [`Slab::next_place`].
    pub(crate) fn refill(&mut self, future: F) {
        let Some(place) = self.vacant.pop() else { return self.push(future) };
        // SAFETY: a vacant pointer points at a place of `places`, whose future was dropped before
        // the pointer became vacant; it is vacant no more, so nothing else fills the place.
        unsafe { place.write(future) };
        self.order.push(place);
    }

    /// The number of a place.
    fn number(&self, place: *const F) -> u32 {
        let offset = place.addr() - self.places.as_ptr().addr();
        (offset / size_of::<F>().max(1)) as u32
    }

    /// How many places were ever filled.
    pub(crate) fn pushed(&self) -> u32 {
        self.places.len() as u32
    }

    /// How many entries there are to poll, those ended since the last `compact` included.
    #[inline(always)]
    pub(crate) fn entries(&self) -> usize {
        self.order.len()
    }

    /// The number under which the future of an entry was pushed; `None` once it has ended.
    pub(crate) fn place(&self, entry: usize) -> Option<u32> {
        let place = self.order.get(entry).filter(|place| !place.is_null())?;
        Some(self.number(*place))
    }

    /// Polls the futures of a range of entries, each at most once between two calls of `compact`;
    /// answers how many are pending. A future that is ready is dropped.
    ///
    /// # Errors
    /// The first error that a future is ready with; later entries are not polled then.
    #[inline(never)]
    pub(crate) fn poll_range<E>(
        &mut self,
        entries: Range<usize>,
        cx: &mut Context<'_>,
    ) -> Result<usize, E>
    where
        F: Future<Output = Result<(), E>>,
    {
        let mut pending = entries.len();
        for entry in &mut self.order[entries] {
            let place = *entry;
            assert!(!place.is_null(), "invariant: an ended future is not polled");
            // SAFETY: a listed pointer points at a place of `places` that holds a future; it is
            // never moved, as `places` is private and never reallocates, so pinning it is sound.
            let future = unsafe { Pin::new_unchecked(&mut *place) };
            if let Poll::Ready(answer) = future.poll(cx) {
                *entry = std::ptr::null_mut();
                self.ended += 1;
                pending -= 1;
                // SAFETY: it held a future until now, and being off the list first makes this its
                // only drop.
                unsafe { std::ptr::drop_in_place(place) };
                self.vacant.push(place);
                answer?;
            }
        }
        Ok(pending)
    }

    /// Forgets ended entries, keeping the order of the others; answers whether there were any.
    pub(crate) fn compact(&mut self) -> bool {
        let any = self.ended > 0;
        if any {
            self.order.retain(|place| !place.is_null());
            self.ended = 0;
        }
        any
    }
}

impl<F> Drop for Slab<F> {
    fn drop(&mut self) {
        while let Some(place) = self.order.pop() {
            if !place.is_null() {
                // SAFETY: a listed pointer points at a future; it was taken off the list just now,
                // so this is its only drop.
                unsafe { std::ptr::drop_in_place(place) };
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
        type Output = Result<(), u32>;
        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
            assert!(self.left < 100, "asked to panic");
            let here = (&raw const *self).addr();
            assert!([0, here].contains(&self.home.replace(here)), "a pinned future moved");
            if self.left == 0 {
                return Poll::Ready(Ok(()));
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
        assert_eq!(slab.poll_range(0..3, &mut cx), Ok(2));
        assert_eq!((slab.place(0), slab.place(1), slab.place(2)), (Some(0), None, Some(2)));
        assert!(slab.compact() && !slab.compact());
        assert_eq!((slab.entries(), drops.get()), (2, 1));
        assert_eq!(slab.poll_range(0..2, &mut cx), Ok(1));
        assert_eq!((slab.place(0), slab.place(1)), (Some(0), None));
        assert_eq!(drops.get(), 2);
        drop(slab);
        assert_eq!(drops.get(), 3);
    }

    #[test]
    fn a_panicking_future_is_dropped_once_with_the_rest() {
        let drops = Rc::default();
        let mut slab = slab(&[1, 100, 1], &drops);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut cx = Context::from_waker(Waker::noop());
            slab.poll_range(0..3, &mut cx).unwrap();
        }));
        assert!(outcome.is_err());
        drop(slab);
        assert_eq!(drops.get(), 3);
    }

    #[test]
    fn a_place_is_filled_again_under_its_number() {
        let drops = Rc::default();
        let mut slab = slab(&[3, 0, 3], &drops);
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(slab.next_place(), 3, "none is vacant");
        assert_eq!(slab.poll_range(0..3, &mut cx), Ok(2));
        assert!(slab.compact());
        assert_eq!((slab.next_place(), slab.pushed()), (1, 3));
        slab.refill(Countdown { left: 1, drops: drops.clone(), home: Cell::new(0) });
        assert_eq!((slab.entries(), slab.pushed(), slab.next_place()), (3, 3, 3));
        assert_eq!((0..3).map(|i| slab.place(i)).collect::<Vec<_>>(), [Some(0), Some(2), Some(1)]);
        assert_eq!(slab.poll_range(0..3, &mut cx), Ok(3));
        assert_eq!(slab.poll_range(0..3, &mut cx), Ok(2), "the second in its place has ended");
        assert_eq!(drops.get(), 2);
        drop(slab);
        assert_eq!(drops.get(), 4);
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
