//! A thread a core, each with its own ring and its own device queue.
//!
//! Nothing here is shared between cores but what the caller's closure captures; that is the point:
//! the ring has no locked instructions because it never meets another thread.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{Error, Kind, Result};

/// Where the threads of [`run_on_cores`] may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    /// Wherever the scheduler likes.
    #[default]
    Free,
    /// Thread `i` on the `i`-th processor this process may use, going round when there are fewer.
    Pinned,
}

/// Runs `work(core)` for `core` in `0..cores`, each in its own thread; answers in core order.
///
/// `work` opens its own device and ring: neither crosses threads. It runs in every thread or, when
/// one of them cannot be started or pinned, in none: threads may wait for each other. With one core
/// it runs on the calling thread, pinned (when asked) only for the duration.
///
/// ```
/// use littoral_device::{flash::dram::Dram, region::Region};
/// use littoral_runtime::{Pinning, Ring, RingOptions, run_on_cores, Error};
/// use std::num::NonZeroUsize;
///
/// let region = Region::from_bytes(&[1; 256]).unwrap();
/// let sums = run_on_cores(NonZeroUsize::new(2).unwrap(), Pinning::Free, |core| {
///     let ring = Ring::new(Dram::new(region.clone()), RingOptions::default())?;
///     ring.block_on(async |cx| {
///         let bytes = cx.read(core as u64 * 128, 128).await?;
///         Ok::<_, Error>(bytes.iter().map(|&b| u32::from(b)).sum::<u32>())
///     })
/// })?;
/// assert_eq!(sums.into_iter().collect::<Result<Vec<_>, _>>()?, [128, 128]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// `Kind::Thread` when a thread cannot be started or pinned. A panic of `work` is passed on once
/// every thread has ended.
pub fn run_on_cores<T: Send>(
    cores: NonZeroUsize,
    pinning: Pinning,
    work: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>> {
    if pinning == Pinning::Free {
        // Which processors there are is not asked: with more than a set holds, no answer fits.
        return match cores.get() {
            1 => Ok(vec![work(0)]),
            cores => run_threads(cores, Builder::new, |_| Ok(()), work),
        };
    }
    let allowed = affinity()?;
    let processors = processors_of(&allowed);
    let place = |core: usize| pin(processors[core % processors.len()]);
    if cores.get() > 1 {
        return run_threads(cores.get(), Builder::new, place, work);
    }
    place(0)?;
    let answer = catch_unwind(AssertUnwindSafe(|| work(0)));
    let left = set_affinity(&allowed);
    let answer = answer.unwrap_or_else(|panic| resume_unwind(panic));
    left.map(|()| vec![answer])
}

/// Runs `work` in `cores` threads of `builder` once all of them are started and placed.
fn run_threads<T: Send>(
    cores: usize,
    builder: impl Fn() -> Builder,
    place: impl Fn(usize) -> Result<()> + Sync,
    work: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>> {
    let start = Start { cores, state: Mutex::default(), changed: Condvar::new() };
    let (start, place, work) = (&start, &place, &work);
    let run = move |core| -> Result<Option<T>> {
        place(core).inspect_err(|_| start.cancel())?;
        Ok(start.is_complete().then(|| work(core)))
    };
    let ended = std::thread::scope(|scope| {
        let spawn = |core: usize| {
            builder()
                .name(format!("core-{core}"))
                .spawn_scoped(scope, move || run(core))
                .inspect_err(|_| start.cancel())
                .map_err(|e| Error::with_source(Kind::Thread, "cannot start a thread", e))
        };
        let threads = (0..cores).map(spawn).collect::<Result<Vec<_>>>()?;
        let joined: Vec<_> = threads.into_iter().map(|t| t.join()).collect();
        let ended = joined.into_iter().map(|t| t.unwrap_or_else(|panic| resume_unwind(panic)));
        ended.collect::<Result<Vec<Option<T>>>>()
    })?;
    Ok(ended.into_iter().map(|t| t.expect("invariant: all threads were placed")).collect())
}

/// Holds threads back until all of them are placed, or one never will be.
struct Start {
    cores: usize,
    /// How many are placed, and whether one never will be.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Start {
    /// Says that this thread is placed, waits for the others, and answers whether all are.
    fn is_complete(&self) -> bool {
        let mut state = self.lock();
        state.0 += 1;
        if state.0 == self.cores {
            self.changed.notify_all();
        }
        let waits = |s: &mut (usize, bool)| s.0 < self.cores && !s.1;
        let state = self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        !state.1
    }

    fn cancel(&self) {
        self.lock().1 = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, (usize, bool)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn affinity() -> Result<CpuSet> {
    sched_getaffinity(None)
        .map_err(|e| Error::with_source(Kind::Thread, "cannot ask for this thread's processors", e))
}

fn set_affinity(set: &CpuSet) -> Result<()> {
    sched_setaffinity(None, set)
        .map_err(|e| Error::with_source(Kind::Thread, "cannot choose this thread's processors", e))
}

fn processors_of(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

fn pin(processor: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    set_affinity(&set).map_err(|e| e.in_context(format!("processor {processor}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

    #[test]
    fn pinned_threads_each_have_one_processor_and_answer_in_order() {
        let seen =
            run_on_cores(TWO, Pinning::Pinned, |core| (core, affinity().unwrap().count())).unwrap();
        assert_eq!(seen, [(0, 1), (1, 1)]);
    }

    #[test]
    fn pinned_threads_take_the_processors_in_turn_and_go_round() {
        let allowed = affinity().unwrap();
        let processors = processors_of(&allowed);
        assert_eq!(processors.len(), allowed.count() as usize);
        assert!(processors.iter().all(|&p| allowed.is_set(p)));
        let cores = NonZeroUsize::new(processors.len() + 1).unwrap();
        let seen =
            run_on_cores(cores, Pinning::Pinned, |_| processors_of(&affinity().unwrap())).unwrap();
        let expected = processors.iter().chain([&processors[0]]).map(|&p| vec![p]);
        assert_eq!(seen, expected.collect::<Vec<_>>());
    }

    #[test]
    fn one_core_runs_here_and_leaves_the_affinity_as_it_was() {
        let before = processors_of(&affinity().unwrap());
        let here = std::thread::current().id();
        let same = run_on_cores(NonZeroUsize::MIN, Pinning::Pinned, |_| {
            std::thread::current().id() == here
        });
        assert_eq!(same.unwrap(), [true]);
        assert_eq!(processors_of(&affinity().unwrap()), before);
    }

    #[test]
    fn a_panic_on_one_core_leaves_the_affinity_as_it_was() {
        let before = processors_of(&affinity().unwrap());
        let outcome = catch_unwind(|| {
            run_on_cores(NonZeroUsize::MIN, Pinning::Pinned, |core| assert_ne!(core, 0, "told to"))
        });
        assert!(outcome.is_err());
        assert_eq!(processors_of(&affinity().unwrap()), before);
    }

    #[test]
    fn work_that_waits_for_all_threads_runs_in_all_or_in_none() {
        let meeting = std::sync::Barrier::new(3);
        let place = |core| match core {
            1 => Err(Error::new(Kind::Thread, "told to")),
            _ => Ok(()),
        };
        let work = |_| meeting.wait();
        let unplaced = run_threads(3, Builder::new, place, work).unwrap_err();
        assert_eq!((unplaced.kind(), unplaced.context()), (Kind::Thread, "told to"));
        let made = std::cell::Cell::new(0);
        // No system has room for the stack of the third.
        let builder = || match made.replace(made.get() + 1) {
            2 => Builder::new().stack_size(1 << 60),
            _ => Builder::new(),
        };
        let unstarted = run_threads(3, builder, |_| Ok(()), work).unwrap_err();
        assert!(unstarted.to_string().contains("cannot start a thread"), "{unstarted}");
        assert_eq!(run_threads(3, Builder::new, |_| Ok(()), work).unwrap().len(), 3);
    }

    #[test]
    fn a_panic_is_passed_on() {
        let outcome = std::panic::catch_unwind(|| {
            run_on_cores(TWO, Pinning::Free, |core| assert_eq!(core, 0, "told to"))
        });
        assert!(outcome.is_err());
    }
}
