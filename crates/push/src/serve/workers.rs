//! Threads that compute page functions for a served device.
//!
//! A page function is pure, so that its result may be found out before the modelled core begins it:
//! pages are computed as they are admitted, and the model's times are those of the count alone.
//!
//! Invariants
//! - Each job that was posted is taken or forgotten once; its result is then gone. Checked by
//!   `jobs_are_taken_once_or_forgotten`.
//! - The device's thread computes only functions whose time is bounded, and such a job is not
//!   in the batch of another one. Checked by `functions_without_a_bound_are_left_to_the_threads`,
//!   `functions_of_much_code_are_left_to_the_threads`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use littoral_base::mutant;

use crate::api::{Ran, Work};

/// A job's number; later jobs have greater ones.
pub(super) type Job = u64;

/// Jobs that a thread takes at a time, while as many wait for each thread.
const BATCH_MAX: usize = 4;

#[derive(Default)]
struct Desk {
    /// In the order of their numbers.
    jobs: VecDeque<(Job, Work)>,
    done: Vec<(Job, Ran)>,
    idle: usize,
    is_over: bool,
    /// The device waits for a result and is to be woken.
    is_awaited: bool,
}

impl Desk {
    /// The oldest job, or as many of the oldest whose time is bounded as are one thread's part.
    fn batch(&mut self, threads: usize, batch: &mut Vec<(Job, Work)>) {
        let part = (self.jobs.len() / (threads + 1)).clamp(1, BATCH_MAX);
        let bounded = self.jobs.iter().take(part).take_while(|j| j.1.is_bounded()).count();
        let count = bounded.max(1).min(self.jobs.len());
        batch.extend(self.jobs.drain(..count));
    }

    /// Takes a job out of those that wait.
    fn withdraw(&mut self, job: Job) -> Option<(Job, Work)> {
        let place = self.jobs.binary_search_by_key(&job, |j| j.0).ok()?;
        self.jobs.remove(place)
    }

    /// The oldest of `jobs` that waits and whose time is bounded, else the oldest such job of all.
    fn helpful(&mut self, jobs: &[Job]) -> Option<(Job, Work)> {
        let place = |job| self.jobs.binary_search_by_key(job, |j: &(Job, Work)| j.0).ok();
        let places = jobs.iter().filter_map(place);
        let is_bounded =
            |at: &usize| self.jobs[*at].1.is_bounded() || mutant!("push_server_runs_unbounded");
        let awaited = places.filter(is_bounded).min();
        let at = awaited.or_else(|| (!self.jobs.is_empty()).then_some(0).filter(is_bounded))?;
        self.jobs.remove(at)
    }
}

struct Shared {
    desk: Mutex<Desk>,
    posted: Condvar,
    threads: usize,
    /// Threads that compute functions whose time is bounded: one processor is left to the device's
    /// thread, which computes such functions too.
    bounded: usize,
}

impl Shared {
    /// A page function that panics poisons nothing: the desk is consistent between statements.
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Threads with their desk.
pub(super) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    next: Job,
    /// Jobs that are not at the desk yet.
    posted: Vec<(Job, Work)>,
    /// Results that have left the desk.
    done: BTreeMap<Job, Ran>,
    /// Jobs under way whose results are not wanted any more.
    unwanted: BTreeSet<Job>,
}

impl Workers {
    /// A thread per core and processor at most; they write a byte to `bell` when a result is there
    /// that is awaited.
    pub(super) fn start(
        cores: usize,
        processors: usize,
        bell: &UnixStream,
    ) -> std::io::Result<Workers> {
        let count = cores.min(processors).max(1);
        let bounded = count.min(processors.saturating_sub(1)).max(1);
        let (desk, posted) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { desk, posted, threads: count, bounded });
        let mut threads = Vec::new();
        for n in 0..count {
            let (shared, bell) = (Arc::clone(&shared), bell.try_clone()?);
            let thread = std::thread::Builder::new().name(format!("push-core-{n}"));
            threads.push(thread.spawn(move || work(&shared, &bell))?);
        }
        let (posted, done, unwanted) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        Ok(Workers { shared, threads, next: 0, posted, done, unwanted })
    }

    /// A job for the threads, which see it after the next [`Workers::exchange`].
    pub(super) fn post(&mut self, work: Work) -> Job {
        self.next += 1;
        self.posted.push((self.next, work));
        self.next
    }

    /// Gives the threads what was posted, and takes what they have done: one visit to the desk for
    /// all pages of a turn.
    pub(super) fn exchange(&mut self) {
        let is_bounded = self.posted.iter().all(|j| j.1.is_bounded());
        let most = if is_bounded { self.shared.bounded } else { self.shared.threads };
        let mut desk = self.shared.desk();
        desk.jobs.extend(self.posted.drain(..));
        debug_assert!(desk.jobs.iter().is_sorted_by_key(|j| j.0), "jobs lie by their numbers");
        let done = std::mem::take(&mut desk.done);
        desk.is_awaited = false;
        let active = self.shared.threads - desk.idle;
        let wakes = most.saturating_sub(active).min(desk.jobs.len());
        drop(desk);
        (0..wakes).for_each(|_| self.shared.posted.notify_one());
        self.keep(done);
    }

    fn keep(&mut self, done: Vec<(Job, Ran)>) {
        for (job, ran) in done {
            if !self.unwanted.remove(&job) {
                let before = self.done.insert(job, ran);
                debug_assert!(before.is_none(), "job {job} was done twice");
            }
        }
    }

    /// The result of a job, if it has left the desk.
    pub(super) fn take(&mut self, job: Job) -> Option<Ran> {
        self.done.remove(&job)
    }

    /// The result will not be taken.
    pub(super) fn forget(&mut self, job: Job) {
        if let Ok(place) = self.posted.binary_search_by_key(&job, |j| j.0) {
            self.posted.remove(place);
        } else if self.done.remove(&job).is_none() && self.shared.desk().withdraw(job).is_none() {
            self.unwanted.insert(job);
        }
    }

    /// Computes a page on the calling thread while none of `awaited` is there. False when there is
    /// none to compute: then the next result rings the bell.
    pub(super) fn help(&mut self, awaited: &[Job]) -> bool {
        self.exchange();
        if awaited.iter().any(|job| self.done.contains_key(job)) {
            return true;
        }
        let mut desk = self.shared.desk();
        let Some((job, work)) = desk.helpful(awaited) else {
            desk.is_awaited = desk.done.is_empty();
            return !desk.is_awaited;
        };
        drop(desk);
        self.done.insert(job, guarded(work.fallback(), || work.compute()));
        true
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.desk().is_over = true;
        self.shared.posted.notify_all();
        for thread in self.threads.drain(..) {
            // A panic of a page function has been printed by the thread.
            let _ = thread.join();
        }
    }
}

/// What `run` answers, or `fallback` where it panics: the page is answered either way, or its
/// session would wait for it for ever.
fn guarded(fallback: Ran, run: impl FnOnce() -> Ran) -> Ran {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or(fallback)
}

fn work(shared: &Shared, bell: &UnixStream) {
    let (mut batch, mut done) = (Vec::new(), Vec::new());
    let mut desk = shared.desk();
    loop {
        if desk.is_over {
            return;
        }
        desk.batch(shared.threads, &mut batch);
        if batch.is_empty() {
            desk.idle += 1;
            desk = shared.posted.wait(desk).unwrap_or_else(PoisonError::into_inner);
            desk.idle -= 1;
            continue;
        }
        drop(desk);
        for (job, work) in batch.drain(..) {
            done.push((job, guarded(work.fallback(), || work.compute())));
        }
        desk = shared.desk();
        desk.done.append(&mut done);
        if std::mem::take(&mut desk.is_awaited) {
            // A full pipe has rung already.
            let _ = (&mut &*bell).write(&[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use littoral_base::units::Picos;

    use super::*;
    use crate::api::{About, Begun, Cores, DataSet, Engine, Scan, Settings};
    use crate::command::{Command, Opcode};
    use crate::page::{Column, Format, Schema, Value};
    use crate::policy::Commit;

    /// The jobs of as many pages from job 1 on.
    fn jobs(count: u64, cores: Cores) -> Vec<(Job, Work)> {
        jobs_of(None, count, cores)
    }

    /// The same with a filter.
    fn jobs_of(filter: Option<String>, count: u64, cores: Cores) -> Vec<(Job, Work)> {
        let schema = Schema::new(vec![Column::int("n", 0, 1_000_000)]).unwrap();
        let about = About::new(&schema, Format::Columns, 4096);
        let records = (0..1020 * count as i64).map(|n| Ok(vec![Value::Int(n)]));
        let set = DataSet::of_records(&about, records).unwrap();
        let mut engine = Engine::new(set, Settings { cores, ..Settings::default() });
        let sums = vec!["n".to_owned()];
        let scan = Scan { filter, keys: vec![], sums, columns: vec![] };
        let program = scan.plan(engine.set().about()).unwrap().0;
        let init = Command { session: 1, page: count, ..Command::plain(Opcode::Init, 0) };
        engine.control(Picos(0), &init, &program.to_bytes()).unwrap();
        let mut work = |page| {
            let plain = Command::plain(Opcode::ReadProc, page);
            let ask = Command { session: 1, page, attempt: 1, ..plain };
            let asked = engine.admit(Picos(0), &ask).unwrap();
            match engine.begin(&asked, Commit::Core, u64::MAX).unwrap() {
                Begun::Work(work) => (page + 1, *work),
                Begun::Ended(ran) => panic!("page {page}: {ran:?}"),
            }
        };
        (0..count).map(&mut work).collect()
    }

    #[test]
    fn jobs_are_taken_once_or_forgotten() {
        for threads in [1, 3] {
            let (mut bell, ringer) = UnixStream::pair().unwrap();
            let mut workers = Workers::start(threads, threads, &ringer).unwrap();
            let posted = jobs(60, Cores::Twin).into_iter().map(|(_, work)| workers.post(work));
            let posted: Vec<Job> = posted.collect();
            workers.forget(posted[0]);
            workers.exchange();
            let (gone, mut left): (Vec<Job>, Vec<Job>) =
                posted[1..].iter().partition(|job| **job % 3 == 0);
            gone.iter().for_each(|job| workers.forget(*job));
            while !left.is_empty() {
                if !workers.help(&left) {
                    // The threads compute the rest: one rings.
                    bell.read_exact(&mut [0]).unwrap();
                }
                left.retain(|job| workers.take(*job).is_none_or(|ran| ran.fell_back()));
            }
            while !workers.unwanted.is_empty() {
                workers.exchange();
                std::thread::yield_now();
            }
            assert!(workers.done.is_empty(), "a result is there once: {:?}", workers.done);
            assert!(posted.iter().all(|job| workers.take(*job).is_none()));
        }
    }

    #[test]
    fn functions_of_much_code_are_left_to_the_threads() {
        let values: Vec<String> = (0..1000).map(|n| (5000 + 7 * n).to_string()).collect();
        let filter = format!("n in ({})", values.join(", "));
        let mut desk = Desk::default();
        desk.jobs.extend(jobs_of(Some(filter), 1, Cores::Twin));
        assert!(desk.helpful(&[1]).is_none(), "each record takes thousands of instructions");
        desk.jobs.extend(jobs(2, Cores::Twin).pop());
        assert_eq!(desk.helpful(&[1, 2]).map(|j| j.0), Some(2));
    }

    #[test]
    fn functions_without_a_bound_are_left_to_the_threads() {
        let interpreted = jobs(1, Cores::Interpreter).pop().unwrap().1;
        let mut desk = Desk::default();
        desk.jobs.push_back((0, interpreted));
        desk.jobs.extend(jobs(40, Cores::Twin));
        let helped = |desk: &mut Desk, jobs: &[Job]| desk.helpful(jobs).map(|j| j.0);
        assert_eq!(helped(&mut desk, &[]), None, "the oldest has no bound");
        assert_eq!(helped(&mut desk, &[0]), None);
        assert_eq!(helped(&mut desk, &[0, 9, 5]), Some(5), "the oldest that is awaited");
        assert_eq!(helped(&mut desk, &[5]), None, "it is no longer there");
        let mut batch = Vec::new();
        desk.batch(2, &mut batch);
        assert_eq!(batch.drain(..).map(|j| j.0).collect::<Vec<_>>(), [0], "alone");
        desk.batch(2, &mut batch);
        assert_eq!(batch.drain(..).map(|j| j.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(helped(&mut desk, &[]), Some(6));
        desk.jobs.truncate(3);
        desk.batch(2, &mut batch);
        assert_eq!(batch.len(), 1, "the other threads get theirs");
    }

    #[test]
    fn a_function_that_panics_is_answered_by_its_page() {
        let ran = |instructions| {
            let mut ran = Ran::dropped();
            ran.instructions = instructions;
            ran
        };
        assert_eq!(guarded(ran(7), || panic!("a page function fails")).instructions, 7);
        assert_eq!(guarded(ran(7), || ran(9)).instructions, 9);
    }
}
