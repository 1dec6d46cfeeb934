//! A simulated domain: real threads, every store recorded, every crash image reachable from the
//! record.
//!
//! - A store and its record happen under one lock, so the record is a legal order of the stores.
//! - [`as_actor`] lets one thread play several: write-backs and fences belong to the actor.
//! - [`Sim::on_fence`] runs a closure inside a chosen fence, before it takes effect: the place
//!   where a second transaction is slipped between another's steps, deterministically.
//! - A fault plan's cut makes the record end there; a failed fence answers an I/O error.
//!
//! Callers: the crash tests of every engine on persistent memory, and the C ABI.

use std::cell::Cell;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use littoral_base::fault::{Adapter, Op, Plan, Verdict};

use super::trace::{Actor, Trace};
use crate::error::{Error, Kind, Result};
use crate::memory::{Domain, LINE_BYTES, Promise, is_within};

static ACTORS: AtomicU32 = AtomicU32::new(1 << 16);

thread_local! {
    static ACTOR: Cell<Actor> = Cell::new(ACTORS.fetch_add(1, Ordering::Relaxed));
}

/// Runs `body` with this thread acting as `actor` (use small numbers).
pub fn as_actor<R>(actor: Actor, body: impl FnOnce() -> R) -> R {
    struct Restore(Actor);
    impl Drop for Restore {
        fn drop(&mut self) {
            ACTOR.set(self.0);
        }
    }
    let _restore = Restore(ACTOR.replace(actor));
    body()
}

type Hook = Box<dyn FnMut(u64) + Send>;

struct Log {
    trace: Trace,
    plan: Plan,
    fences: u64,
}

/// A recorded domain; see the module's page.
pub struct Sim {
    words: Box<[AtomicU64]>,
    log: Mutex<Log>,
    hook: Mutex<Option<Hook>>,
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("bytes", &self.len()).finish_non_exhaustive()
    }
}

impl Sim {
    /// `len` zero bytes, rounded up to whole lines, all durable.
    pub fn new(len: usize) -> Self {
        Self::from_image(&vec![0; len.div_ceil(LINE_BYTES) * LINE_BYTES / 8])
    }

    /// A domain that starts from a crash image.
    pub fn from_image(words: &[u64]) -> Self {
        let log = Log { trace: Trace::new(words.to_vec()), plan: Plan::none(), fences: 0 };
        Sim {
            words: words.iter().map(|&w| AtomicU64::new(w)).collect(),
            log: Mutex::new(log),
            hook: Mutex::new(None),
        }
    }

    /// The same domain under a fault plan.
    ///
    /// # Errors
    /// `Kind::Unsupported` for a verdict other than fail (fences only) and cut.
    pub fn with_plan(self, plan: Plan) -> Result<Self> {
        MemoryFaults.check(&plan).map_err(|refused| {
            let text = format!("memory cannot act out {refused}; use cut or fence:fail");
            Error::new(Kind::Unsupported, text)
        })?;
        self.log.lock().expect("invariant: no panic inside").plan = plan;
        Ok(self)
    }

    /// Runs `hook` with the fence's number (from zero) inside each fence, before it takes effect;
    /// fences made by the hook itself do not call it.
    pub fn on_fence(&self, hook: impl FnMut(u64) + Send + 'static) {
        *self.hook.lock().expect("invariant: no panic inside") = Some(Box::new(hook));
    }

    /// A copy of the record so far.
    pub fn trace(&self) -> Trace {
        self.log.lock().expect("invariant: no panic inside").trace.clone()
    }

    /// Forgets the record: what is in memory now counts as durable.
    pub fn settle(&self) {
        let mut log = self.log.lock().expect("invariant: no panic inside");
        let current = log.trace.current().to_vec();
        log.trace = Trace::new(current);
        log.fences = 0;
    }

    fn record(&self, op: Op, act: impl FnOnce(&mut Trace)) -> Verdict {
        let mut log = self.log.lock().expect("invariant: no panic inside");
        let verdict = if log.plan.is_active() { log.plan.judge(op) } else { Verdict::Pass };
        if verdict == Verdict::Pass {
            act(&mut log.trace);
        }
        verdict
    }

    fn run_hook(&self) {
        let number = {
            let mut log = self.log.lock().expect("invariant: no panic inside");
            log.fences += 1;
            log.fences - 1
        };
        let taken = self.hook.lock().expect("invariant: no panic inside").take();
        if let Some(mut hook) = taken {
            hook(number);
            self.hook.lock().expect("invariant: no panic inside").get_or_insert(hook);
        }
    }
}

/// The adapter of the fault plan for persistent memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryFaults;

impl Adapter for MemoryFaults {
    fn ops(&self) -> &'static [Op] {
        &[Op::Store, Op::WriteBack, Op::Fence]
    }

    fn refusal(&self, op: Op, verdict: Verdict) -> Option<&'static str> {
        match verdict {
            Verdict::Pass | Verdict::Cut => None,
            Verdict::Fail if op == Op::Fence => None,
            Verdict::Fail => Some("a store or write-back has no status"),
            Verdict::Drop
            | Verdict::Duplicate
            | Verdict::Delay(_)
            | Verdict::Shuffle(_)
            | Verdict::Misdirect(_)
            | Verdict::Corrupt(_)
            | Verdict::Alias(_)
            | Verdict::Torn(_) => Some("the states of a cut contain what memory can do"),
        }
    }
}

impl Domain for Sim {
    fn len(&self) -> usize {
        self.words.len() * 8
    }

    fn promise(&self) -> Promise {
        Promise::PowerLoss
    }

    fn word(&self, offset: usize, order: Ordering) -> u64 {
        assert!(offset.is_multiple_of(8), "aligned word");
        self.words[offset / 8].load(order)
    }

    fn store(&self, offset: usize, value: u64, order: Ordering) {
        assert!(offset.is_multiple_of(8), "aligned word");
        self.record(Op::Store, |trace| {
            trace.store_word(offset / 8, value);
            self.words[offset / 8].store(value, order);
        });
    }

    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> std::result::Result<u64, u64> {
        assert!(offset.is_multiple_of(8), "aligned word");
        let mut answer = Err(current);
        self.record(Op::Store, |trace| {
            answer = self.words[offset / 8].compare_exchange(current, new, success, failure);
            if answer.is_ok() {
                trace.store_word(offset / 8, new);
            }
        });
        answer
    }

    fn write_back(&self, offset: usize, len: usize) {
        assert!(is_within(offset, len, self.len()), "range in the domain");
        self.record(Op::WriteBack, |trace| trace.write_back(ACTOR.get(), offset, len));
    }

    fn invalidate(&self, offset: usize, len: usize) {
        assert!(is_within(offset, len, self.len()), "range in the domain");
    }

    fn fence(&self) -> Result<()> {
        self.run_hook();
        match self.record(Op::Fence, |trace| trace.fence(ACTOR.get())) {
            Verdict::Fail => Err(Error::new(Kind::Io, "the fault plan failed a fence")),
            Verdict::Cut => Err(Error::new(Kind::PowerCut, "the fault plan cut power")),
            Verdict::Pass => Ok(()),
            other => unreachable!("invariant: the adapter refuses {other:?}"),
        }
    }

    fn commit_point(&self) {
        let mut log = self.log.lock().expect("invariant: no panic inside");
        if !log.plan.is_dark() {
            log.trace.commit_point(ACTOR.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmem::trace::Event;

    #[test]
    fn a_cut_ends_the_record_and_fences_say_so() {
        let plan: Plan = "cut=2".parse().unwrap();
        let sim = Sim::new(64).with_plan(plan).unwrap();
        sim.store(0, 1, Ordering::Relaxed);
        sim.write_back(0, 8);
        assert_eq!(sim.fence().unwrap_err().kind(), Kind::PowerCut);
        sim.store(8, 1, Ordering::Relaxed);
        assert_eq!(sim.trace().events().len(), 2);
        let refused = Sim::new(64).with_plan("store:torn=1/2".parse().unwrap()).unwrap_err();
        assert_eq!(refused.kind(), Kind::Unsupported);
    }

    #[test]
    fn a_hook_acts_inside_the_fence_and_as_another_actor() {
        let sim = std::sync::Arc::new(Sim::new(64));
        let inner = std::sync::Arc::downgrade(&sim);
        sim.on_fence(move |n| {
            let sim = inner.upgrade().unwrap();
            as_actor(9, || sim.store(8, n + 5, Ordering::Relaxed));
            as_actor(9, || sim.fence().unwrap());
        });
        as_actor(1, || sim.fence().unwrap());
        let fences: Vec<Event> = sim.trace().events().to_vec();
        assert_eq!(
            fences,
            [
                Event::Store { word: 1, value: 5 },
                Event::Fence { actor: 9 },
                Event::Fence { actor: 1 }
            ]
        );
    }
}
