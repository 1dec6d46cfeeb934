//! The ring itself: contexts polled in turn until all of them have ended.
//!
//! One *sweep* polls every live context once, in order. The device's `reap` (its timestamp) is
//! called once every `polls_per_reap` polls, its `kick` once a sweep. While requests are
//! outstanding a ring gives the processor away only on a device that can be slept on.
//!
//! Invariants
//! - Contexts are pinned in one allocation; context `i` of a run has slot `i` as its own. Checked
//!   by `futures_end_in_place_and_the_rest_keep_their_order`.
//! - No two contexts have one number at a time, and a run does not end while items wait. Checked by
//!   `contexts_begin_while_items_wait_and_end_while_none_do`.
//! - A run that ends, by answer, error or panic, leaves no future behind; slots whose answers were
//!   still under way are abandoned and come back when the device has answered. Checked by
//!   `a_run_that_ends_early_abandons_what_is_under_way`,
//!   `a_panic_in_a_context_leaves_the_ring_whole`,
//!   `an_interrupt_ends_a_run_after_the_sweep_and_the_ring_goes_on`.
//! - A context that returns `Pending` without one of the ring's futures having done so ends the run
//!   with `Kind::ForeignFuture`: there is no waker that could ever resume it. Checked by
//!   `a_foreign_future_is_refused`, `a_foreign_future_beside_busy_neighbours_is_found`.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

use littoral_base::counters::bump;
use littoral_base::mutant;
use littoral_device::read::{Limits, ReadDevice};

use crate::counters::RingCounts;
use crate::cx::{Core, Cx, SLOTS_MAX, Waited};
use crate::error::{Error, Kind, Result};
use crate::options::{Contexts, RingOptions};
use crate::raw::slab::Slab;
use crate::tune::Tuner;

/// A device and the contexts that read it; see the crate's page.
pub struct Ring<D> {
    core: Core<D>,
    options: RingOptions,
    limits: Limits,
    contexts_max: u32,
    tuner: RefCell<Tuner>,
    running: Cell<bool>,
    future_bytes: Cell<usize>,
    /// Whether the next sweep looks at each context alone.
    suspicious: Cell<bool>,
}

/// Marks a ring as running for as long as it lives.
struct Running<'r>(&'r Cell<bool>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// How far the contexts had come at some moment.
#[derive(Clone, Copy)]
struct Progress {
    /// Reads begun and yields.
    moves: u64,
    starved: u64,
}

impl<D: ReadDevice> Ring<D> {
    /// A ring over `device`.
    ///
    /// # Errors
    /// `Kind::Options` when the options do not fit each other or the device's slots.
    pub fn new(device: D, options: RingOptions) -> Result<Ring<D>> {
        let limits = device.limits();
        let contexts_max = options.contexts_max(&limits)?;
        if limits.slots >= SLOTS_MAX {
            let what = format!("a ring can use fewer than {SLOTS_MAX} slots, not {}", limits.slots);
            return Err(Error::new(Kind::Options, what));
        }
        let tuner = match options.contexts {
            Contexts::Fixed(n) => Tuner::fixed(n),
            Contexts::Auto => Tuner::upward(contexts_max),
        };
        Ok(Ring {
            core: Core::new(device, contexts_max),
            options,
            limits,
            contexts_max,
            tuner: RefCell::new(tuner),
            running: Cell::new(false),
            future_bytes: Cell::new(0),
            suspicious: Cell::new(false),
        })
    }

    /// The device, for its counters and limits.
    ///
    /// By `&mut`, so that no guard is alive whose bytes a request of one's own could overwrite.
    pub fn device(&mut self) -> &D {
        &self.core.device
    }

    /// Gives the device back.
    pub fn into_device(self) -> D {
        self.core.device
    }

    /// What has been counted since the ring was made.
    pub fn counters(&self) -> RingCounts {
        let Waited { reads: reads_count, waits: waits_count, .. } = self.core.waited();
        RingCounts { reads_count, waits_count, ..self.core.counters.snapshot() }
    }

    /// How many contexts the next run starts with: the fixed number, or what tuning has found so
    /// far.
    pub fn contexts(&self) -> u32 {
        self.tuner.borrow().contexts()
    }

    /// Whether the number of contexts is final.
    pub fn is_tuned(&self) -> bool {
        self.tuner.borrow().is_settled()
    }

    /// Bytes of one context of the latest run.
    pub fn future_bytes(&self) -> usize {
        self.future_bytes.get()
    }

    /// Runs copies of one future until all have ended: each pulls work from a source the caller
    /// shares among them (a `Cell`, a `RefCell`) until it is dry.
    ///
    /// # Errors
    /// The first error a context ends with; the other contexts are dropped where they are. The
    /// ring's own are `Kind::ForeignFuture`, `Kind::Exhausted`, `Kind::Reentrant`,
    /// `Kind::FutureTooLarge` and `Kind::Interrupted`.
    #[inline]
    pub fn run<'r, F, Fut, E>(&'r self, make: F) -> std::result::Result<(), E>
    where
        F: FnMut(Cx<'r, D>) -> Fut,
        Fut: Future<Output = std::result::Result<(), E>>,
        E: From<Error>,
    {
        self.run_at_most(u32::MAX, make)
    }

    /// [`Ring::run`] with at most `contexts` contexts, for callers who know that there is less
    /// work.
    ///
    /// # Errors
    /// As [`Ring::run`].
    #[inline]
    pub fn run_at_most<'r, F, Fut, E>(
        &'r self,
        contexts: u32,
        make: F,
    ) -> std::result::Result<(), E>
    where
        F: FnMut(Cx<'r, D>) -> Fut,
        Fut: Future<Output = std::result::Result<(), E>>,
        E: From<Error>,
    {
        self.run_within(self.contexts_max.min(contexts), contexts, || 0, make)
    }

    /// [`Ring::run_at_most`] for work that grows while it is done: `contexts` begin, and after each
    /// sweep as many more as there are items `waiting` that no context has taken, up to the ring's
    /// number. A context that finds nothing to do ends; others begin under its number.
    ///
    /// The run ends when no context is left and nothing waits. Items that are counted as waiting
    /// and that no context can take keep it going for ever. `waiting` is called at most once a
    /// sweep, while no context is polled.
    ///
    /// ```
    /// # use littoral_device::{flash::dram::Dram, region::Region};
    /// # use littoral_runtime::{Contexts, Error, Ring, RingOptions};
    /// # use std::cell::{Cell, RefCell};
    /// # let words: Vec<u8> = [3u64, 2, 3, 3].into_iter().flat_map(u64::to_le_bytes).collect();
    /// # let device = Dram::new(Region::from_bytes(&words).unwrap());
    /// # let ring = Ring::new(device, RingOptions::with_contexts(Contexts::Fixed(2)))?;
    /// // Each word read names another one to read, up to word 3.
    /// let (todo, sum) = (RefCell::new(vec![0u64, 1]), Cell::new(0));
    /// let take = || todo.borrow_mut().pop();
    /// ring.run_on_demand(1, || todo.borrow().len() as u64, async |cx| {
    ///     while let Some(at) = take() {
    ///         let word = u64::from_le_bytes(cx.read(8 * at, 8).await?[..].try_into().unwrap());
    ///         sum.set(sum.get() + word);
    ///         todo.borrow_mut().extend((word != 3).then_some(word));
    ///     }
    ///     Ok::<(), Error>(())
    /// })?;
    /// assert_eq!(sum.get(), 3 + 2 + 3);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Ring::run`].
    #[inline]
    pub fn run_on_demand<'r, F, Fut, E>(
        &'r self,
        contexts: u32,
        waiting: impl Fn() -> u64,
        make: F,
    ) -> std::result::Result<(), E>
    where
        F: FnMut(Cx<'r, D>) -> Fut,
        Fut: Future<Output = std::result::Result<(), E>>,
        E: From<Error>,
    {
        self.run_within(self.contexts_max, contexts, waiting, make)
    }

    /// [`Ring::run_on_demand`] with room for so many contexts.
    fn run_within<'r, F, Fut, E>(
        &'r self,
        room: u32,
        contexts: u32,
        waiting: impl Fn() -> u64,
        mut make: F,
    ) -> std::result::Result<(), E>
    where
        F: FnMut(Cx<'r, D>) -> Fut,
        Fut: Future<Output = std::result::Result<(), E>>,
        E: From<Error>,
    {
        let _running = self.begin::<Fut>()?;
        self.tuner.borrow_mut().interrupt();
        let mut slab = Slab::with_capacity(room);
        loop {
            let target = self.contexts();
            while slab.pushed() < target.min(contexts) {
                slab.push(make(self.cx(slab.pushed())));
            }
            self.sweep(&mut slab)?;
            let fewer = target.saturating_sub(slab.entries() as u32);
            if fewer > 0 && !mutant!("runtime_demand_ignored") {
                for _ in 0..waiting().min(u64::from(fewer)) {
                    slab.refill(make(self.cx(slab.next_place())));
                }
            }
            if slab.entries() == 0 {
                return Ok(());
            }
            let is_set = || self.options.interrupt.as_ref().is_some_and(|flag| flag.load(Relaxed));
            if is_set() && !mutant!("runtime_interrupt_ignored") {
                return Err(interrupted().into());
            }
            if slab.entries() == self.contexts() as usize {
                self.tuner.borrow_mut().observe(self.core.waited().reads);
            }
        }
    }

    /// Runs one future to its end, sleeping or spinning while it waits: the form for point reads.
    ///
    /// # Errors
    /// What the future ends with, or the ring's own errors as in [`Ring::run`].
    pub fn block_on<'r, Fut, T, E>(
        &'r self,
        make: impl FnOnce(Cx<'r, D>) -> Fut,
    ) -> std::result::Result<T, E>
    where
        Fut: Future<Output = std::result::Result<T, E>>,
        E: From<Error>,
    {
        let _running = self.begin::<Fut>()?;
        let mut future = pin!(make(self.cx(0)));
        let mut context = Context::from_waker(Waker::noop());
        loop {
            self.core.device.reap();
            let before = self.progress();
            let marks = self.core.marks_count();
            match future.as_mut().poll(&mut context) {
                Poll::Ready(answer) => return answer,
                Poll::Pending if self.core.marks_count() == marks => return Err(foreign(0).into()),
                Poll::Pending => self.end_sweep(before, 1)?,
            }
        }
    }

    fn cx(&self, context: u32) -> Cx<'_, D> {
        Cx { core: &self.core, context: u64::from(context) }
    }

    fn progress(&self) -> Progress {
        let Waited { reads, yields, .. } = self.core.waited();
        Progress { moves: reads + yields, starved: self.core.counters.starved_count.get() }
    }

    fn begin<Fut>(&self) -> Result<Running<'_>> {
        let bytes = size_of::<Fut>();
        if bytes > self.options.future_bytes_max {
            let what = format!(
                "a context takes {bytes} bytes, more than future_bytes_max = {}: keep less across \
                 await points or raise the limit",
                self.options.future_bytes_max
            );
            return Err(Error::new(Kind::FutureTooLarge, what));
        }
        if self.running.replace(true) {
            let what = "a ring cannot be run from inside one of its own contexts: use the Cx there";
            return Err(Error::new(Kind::Reentrant, what));
        }
        self.future_bytes.set(bytes);
        bump(&self.core.counters.runs_count, 1);
        Ok(Running(&self.running))
    }

    /// Polls every live context once.
    ///
    /// Whether a `Pending` was foreign is found out by the stretch: the marks left must be as many
    /// as the contexts pending. They differ when one is foreign, or when one waits for several
    /// reads at once and so leaves several marks; then the next sweep goes in stretches of one. The
    /// two may hide each other, but not for longer than the latter waits.
    #[inline(always)]
    fn sweep<F, E>(&self, slab: &mut Slab<F>) -> std::result::Result<(), E>
    where
        F: Future<Output = std::result::Result<(), E>>,
        E: From<Error>,
    {
        let before = self.progress();
        let entries = slab.entries();
        let alone = self.suspicious.replace(false);
        let stretch = if alone { 1 } else { self.options.polls_per_reap as usize };
        let mut context = Context::from_waker(Waker::noop());
        let mut from = 0;
        while from < entries {
            self.core.device.reap();
            let to = entries.min(from + stretch);
            let marks = self.core.marks_count();
            let pending = slab.poll_range(from..to, &mut context)?;
            if self.core.marks_count() - marks != pending as u64 {
                self.suspect(alone && self.core.marks_count() == marks, slab.place(from))?;
            }
            from = to;
        }
        if slab.compact() {
            // A context got as far as the end.
            self.core.device.kick();
            self.count_sweep(entries as u64);
            return Ok(());
        }
        Ok(self.end_sweep(before, entries as u64)?)
    }

    /// Takes note of marks that do not fit; `caught` when one context left none, and which.
    #[cold]
    fn suspect(&self, caught: bool, context: Option<u32>) -> Result<()> {
        self.suspicious.set(true);
        match context {
            Some(context) if caught && !mutant!("runtime_foreign_ignored") => Err(foreign(context)),
            _ => Ok(()),
        }
    }

    fn count_sweep(&self, polls: u64) {
        bump(&self.core.counters.polls_count, polls);
        bump(&self.core.counters.sweeps_count, 1);
    }

    /// Hands over what was issued; after a sweep of `polls` polls in which no context got further,
    /// makes sure that a context still can, and sleeps where the device allows it.
    #[inline(always)]
    fn end_sweep(&self, before: Progress, polls: u64) -> Result<()> {
        self.core.device.kick();
        self.count_sweep(polls);
        if self.progress().moves == before.moves { self.idle(before, polls) } else { Ok(()) }
    }

    #[inline(never)]
    fn idle(&self, before: Progress, polls: u64) -> Result<()> {
        if polls == 0 {
            // The run begins without a context: none waits for a slot.
            return Ok(());
        }
        bump(&self.core.counters.idle_sweeps_count, 1);
        let all_starved = self.progress().starved - before.starved == polls;
        if all_starved && !self.core.has_abandoned() {
            let what = format!(
                "all {polls} contexts wait for a slot and hold the {} there are: drop guards before \
                 the next read, run fewer contexts or open the device with more slots",
                self.limits.slots
            );
            return Err(Error::new(Kind::Exhausted, what));
        }
        if self.limits.can_park {
            self.core.device.park(self.options.park_max);
        }
        Ok(())
    }
}

#[cold]
fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "interrupted; reads under way are given up")
}

#[cold]
fn foreign(context: u32) -> Error {
    let what = format!(
        "context {context} waits for a future that does not belong to this ring, which nothing here \
         could resume: await only Cx::read and Cx::yield_now"
    );
    Error::new(Kind::ForeignFuture, what)
}
