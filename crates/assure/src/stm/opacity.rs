//! Opacity: is there one order of all transactions, finished or aborted, that explains every read?
//!
//! - A history lists attempts. Each has the places of its begin and end in real time, what it read
//!   of others and what it wrote; written values are unique, so a read names its writer.
//! - The order must keep real time (ended before begun), and every attempt, also an aborted one,
//!   must have read the latest committed values before it (Guerraoui and Kapalka 2008).
//! - [`check`] searches depth first; a set of placed attempts with the memory they leave is visited
//!   once. Histories of a dozen attempts take microseconds.
//!
//! [`run`] makes histories: two or three threads with two transactions each on three objects, at
//! most three attempts per update transaction, with random pauses inside and out. One transaction
//! in four or so only reads, half of those as a snapshot, and one in four is retried by the engine
//! until it commits (or was lost ten times); all their attempts are in the history, also those that
//! noted no read.

use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use littoral_base::rng::{self, Rng};
use littoral_base::sync::{spin_loop, thread::yield_now};
use littoral_device::memory::Domain;

use littoral_stm::{Abort, Pool, Ref, Result, Thread, Tx};

/// Objects of a history.
pub const OBJECTS: usize = 3;
/// Reads of a long transaction, the fewest.
const LONG: usize = 5;
/// Attempts after which a player gives a transaction up, so that six of them can be checked.
const ATTEMPTS_MAX: usize = 10;

littoral_stm::record! {
    /// An object of a history: the value and its complement, so that a torn read shows.
    pub struct Object = "littoral.assure.object/1" {
        /// The value.
        pub value: u64,
        /// Its complement.
        pub check: u64,
    }
}

impl Object {
    /// The object that holds `value`.
    pub fn of(value: u64) -> Object {
        Object { value, check: !value }
    }
}

/// One attempt of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// When it began, in a global order.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
    /// Objects and values read of others, in order.
    pub reads: Vec<(usize, u64)>,
    /// Objects and the last value written to each.
    pub writes: Vec<(usize, u64)>,
    /// Whether it committed.
    pub committed: bool,
}

/// An order of the attempts (indices) that explains the history from `initial`, or `None`.
pub fn check(initial: [u64; OBJECTS], attempts: &[Attempt]) -> Option<Vec<usize>> {
    assert!(attempts.len() < 64, "a history has fewer than 64 attempts");
    let mut search = Search { attempts, refuted: HashSet::new(), order: Vec::new() };
    search.place(0, initial).then_some(search.order)
}

struct Search<'a> {
    attempts: &'a [Attempt],
    refuted: HashSet<(u64, [u64; OBJECTS])>,
    order: Vec<usize>,
}

impl Search<'_> {
    fn place(&mut self, placed: u64, memory: [u64; OBJECTS]) -> bool {
        if self.order.len() == self.attempts.len() {
            return true;
        }
        if self.refuted.contains(&(placed, memory)) {
            return false;
        }
        for i in 0..self.attempts.len() {
            if placed >> i & 1 == 1 || !self.may_come_next(i, placed, &memory) {
                continue;
            }
            let mut after = memory;
            if self.attempts[i].committed {
                self.attempts[i].writes.iter().for_each(|&(object, value)| after[object] = value);
            }
            self.order.push(i);
            if self.place(placed | 1 << i, after) {
                return true;
            }
            self.order.pop();
        }
        self.refuted.insert((placed, memory));
        false
    }

    fn may_come_next(&self, i: usize, placed: u64, memory: &[u64; OBJECTS]) -> bool {
        let me = &self.attempts[i];
        let earlier_waits = self
            .attempts
            .iter()
            .enumerate()
            .any(|(j, other)| j != i && placed >> j & 1 == 0 && other.end < me.begin);
        !earlier_waits && me.reads.iter().all(|&(object, value)| memory[object] == value)
    }
}

/// What a run of histories found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Histories checked.
    pub histories_count: u64,
    /// Attempts in them.
    pub attempts_count: u64,
    /// Attempts that aborted.
    pub aborted_count: u64,
    /// Histories in which attempts of different threads overlapped in time.
    pub overlapping_count: u64,
    /// Attempts that committed a write after many reads.
    pub long_count: u64,
    /// The first history that no order explains.
    pub violation: Option<(u64, [u64; OBJECTS], Vec<Attempt>)>,
}

/// Runs and checks `histories` histories on `threads` real threads under `seed`.
///
/// # Errors
/// Errors of the pool; a violation is no error but a finding.
pub fn run<D: Domain>(
    pool: &Pool<D>,
    threads: usize,
    histories: u64,
    seed: u64,
) -> Result<Findings> {
    let mut main = pool.thread()?;
    let objects: [Ref<Object>; OBJECTS] = main.atomically(|tx| {
        let mut all = [Ref::NULL; OBJECTS];
        for (i, at) in all.iter_mut().enumerate() {
            *at = tx.alloc(&Object::of(i as u64))?;
        }
        Ok(all)
    })?;
    let handles = (0..threads).map(|_| pool.thread()).collect::<Result<Vec<_>>>()?;
    let (time, barrier) = (AtomicU64::new(1), Barrier::new(threads + 1));
    let arrived = AtomicU64::new(0);
    let mut findings = Findings::default();
    std::thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::channel();
        for (t, mut th) in handles.into_iter().enumerate() {
            let (send, barrier, time, arrived) = (send.clone(), &barrier, &time, &arrived);
            scope.spawn(move || {
                let rng = rng::stream(seed, &format!("player-{t}"));
                let mut player = Player { rng, time, objects };
                for number in 0..histories {
                    barrier.wait();
                    // Waking takes longer than a history: no thread begins before all are awake.
                    arrived.fetch_add(1, SeqCst);
                    while arrived.load(SeqCst) < (number + 1) * threads as u64 {
                        std::thread::yield_now();
                    }
                    let sent = send.send((t, player.play(&mut th, 2)));
                    sent.expect("invariant: the receiver outlives the players");
                }
            });
        }
        // Every round is played to its end, also after an error, so that no thread waits for ever.
        let mut outcome = Ok(());
        for number in 0..histories {
            let initial = values(&mut main, &objects);
            barrier.wait();
            let mut parts: Vec<_> = receive.iter().take(threads).collect();
            parts.sort_by_key(|(t, _): &(usize, _)| *t);
            let parts = parts.into_iter().map(|(_, p)| p).collect::<Result<Vec<Vec<Attempt>>>>();
            if outcome.is_ok() && findings.violation.is_none() {
                outcome = initial.and_then(|i| parts.map(|p| findings.add(number, i, p)));
            }
        }
        outcome
    })?;
    Ok(findings)
}

fn values<D: Domain>(
    th: &mut Thread<'_, D>,
    objects: &[Ref<Object>; OBJECTS],
) -> Result<[u64; OBJECTS]> {
    th.read_only(|tx| {
        let mut values = [0; OBJECTS];
        for (v, &at) in values.iter_mut().zip(objects) {
            *v = tx.read(at)?.value;
        }
        Ok(values)
    })
}

impl Findings {
    fn add(&mut self, number: u64, initial: [u64; OBJECTS], parts: Vec<Vec<Attempt>>) {
        let overlap = |a: &Attempt, b: &Attempt| a.begin < b.end && b.begin < a.end;
        let overlapping = parts.iter().enumerate().any(|(i, mine)| {
            let others = parts[i + 1..].iter().flatten();
            others.into_iter().any(|b| mine.iter().any(|a| overlap(a, b)))
        });
        let all: Vec<Attempt> = parts.into_iter().flatten().collect();
        self.histories_count += 1;
        self.attempts_count += all.len() as u64;
        self.aborted_count += all.iter().filter(|a| !a.committed).count() as u64;
        self.overlapping_count += u64::from(overlapping);
        let is_long = |a: &&Attempt| a.committed && a.reads.len() >= LONG && !a.writes.is_empty();
        self.long_count += all.iter().filter(is_long).count() as u64;
        if check(initial, &all).is_none() {
            self.violation = Some((number, initial, all));
        }
    }
}

/// One thread's share of a history.
#[derive(Debug)]
pub struct Player<'a> {
    /// Where its choices come from.
    pub rng: rng::Generator,
    /// The global order of begins and ends; also the source of unique values.
    pub time: &'a AtomicU64,
    /// The objects.
    pub objects: [Ref<Object>; OBJECTS],
}

impl Player<'_> {
    /// Plays `n` random transactions, at most three attempts each.
    ///
    /// # Errors
    /// Errors of the pool.
    pub fn play<D: Domain>(&mut self, th: &mut Thread<'_, D>, n: usize) -> Result<Vec<Attempt>> {
        let mut played = Vec::new();
        for _ in 0..n {
            let steps = self.steps();
            let kind = self.rng.random_range(0..4u32);
            if kind < 2 && steps.len() > 1 {
                played.extend(self.whole(th, &steps, kind == 0)?);
                continue;
            }
            for _ in 0..3 {
                let attempt = self.attempt(th, &steps)?;
                let done = attempt.committed;
                played.push(attempt);
                if done {
                    break;
                }
            }
        }
        Ok(played)
    }

    /// Which objects a transaction reads, and which of them it writes too. One in four is long:
    /// more reads than the engine validates without a look at its peers' marks, and a write at the
    /// end. None is under a model: its schedules would grow, and there the engine always looks.
    fn steps(&mut self) -> Vec<(usize, bool)> {
        let is_long = !cfg!(any(loom, shuttle)) && self.rng.random_range(0..4u32) == 0;
        let n = self.rng.random_range(if is_long { LONG..LONG + 4 } else { 1..4 });
        let step = |i: usize| {
            let writes = self.rng.random_range(0..2u32) == 0;
            (self.rng.random_range(0..OBJECTS), if is_long { i + 1 == n } else { writes })
        };
        (0..n).map(step).collect()
    }

    /// A transaction that the engine retries, each of its attempts on record.
    fn whole<D: Domain>(
        &mut self,
        th: &mut Thread<'_, D>,
        steps: &[(usize, bool)],
        reads_only: bool,
    ) -> Result<Vec<Attempt>> {
        let (time, mut all) = (self.time, Vec::<Attempt>::new());
        let snapshot = self.rng.random_range(0..2u32) == 0;
        let steps: Vec<Step> = self.paced(steps, reads_only);
        // A snapshot's epoch is taken before its body runs: what commits in between may be missing.
        let taken = (reads_only && snapshot).then(|| time.fetch_add(1, SeqCst));
        let mut gave_up = false;
        let body = |tx: &mut Tx<'_, '_, D>| {
            if let Some(lost) = all.last_mut() {
                lost.end = time.fetch_add(1, SeqCst);
            }
            gave_up = all.len() == ATTEMPTS_MAX;
            if gave_up {
                return Err(Abort::cancel("so many attempts are a history too long to be checked"));
            }
            let begin = taken.unwrap_or_else(|| time.fetch_add(1, SeqCst));
            let mut attempt = Attempt { begin, ..Attempt::default() };
            let done = steps.iter().try_for_each(|step| self.step(tx, step, &mut attempt));
            all.push(attempt);
            done
        };
        let ended = match (reads_only, snapshot) {
            (true, true) => th.snapshot(body),
            (true, false) => th.read_only(body),
            (false, _) => th.atomically(body),
        };
        if gave_up {
            return Ok(all);
        }
        ended?;
        let done = all.last_mut().expect("invariant: the closure ran");
        (done.committed, done.end) = (true, time.fetch_add(1, SeqCst));
        Ok(all)
    }

    fn paced(&mut self, steps: &[(usize, bool)], reads_only: bool) -> Vec<Step> {
        let pauses = |&(object, writes): &(usize, bool)| {
            (object, writes && !reads_only, self.rng.random_range(0..60))
        };
        steps.iter().map(pauses).collect()
    }

    /// Reads an object, perhaps writes it, and puts both on record.
    fn step<D: Domain>(
        &self,
        tx: &mut Tx<'_, '_, D>,
        &(object, writes, n): &Step,
        attempt: &mut Attempt,
    ) -> Result<(), Abort> {
        let found = sound(tx.read(self.objects[object])?, object)?;
        let own = attempt.writes.iter().any(|&(o, _)| o == object);
        if !own {
            attempt.reads.push((object, found.value));
        }
        pause(n);
        if writes {
            let value = 1000 + self.time.fetch_add(1, SeqCst);
            tx.write(self.objects[object], &Object::of(value))?;
            attempt.writes.retain(|&(o, _)| o != object);
            attempt.writes.push((object, value));
        }
        Ok(())
    }

    fn attempt<D: Domain>(
        &mut self,
        th: &mut Thread<'_, D>,
        steps: &[(usize, bool)],
    ) -> Result<Attempt> {
        let steps: Vec<Step> = self.paced(steps, false);
        let mut attempt = Attempt { begin: self.time.fetch_add(1, SeqCst), ..Attempt::default() };
        let done =
            th.once(|tx| steps.iter().try_for_each(|step| self.step(tx, step, &mut attempt)))?;
        attempt.committed = done.is_some();
        attempt.end = self.time.fetch_add(1, SeqCst);
        Ok(attempt)
    }
}

/// Which object, whether it is written too, and how long to pause in between.
type Step = (usize, bool, u32);

fn sound(found: Object, object: usize) -> Result<Object, Abort> {
    if found.check == !found.value {
        return Ok(found);
    }
    Err(Abort::cancel(format!("torn read of object {object}: {found:?}")))
}

/// More threads than cores interleave by giving way, others by waiting a little.
fn pause(n: u32) {
    match n {
        0..20 => yield_now(),
        _ => (0..n).for_each(|_| spin_loop()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(
        span: (u64, u64),
        reads: &[(usize, u64)],
        writes: &[(usize, u64)],
        ok: bool,
    ) -> Attempt {
        Attempt {
            begin: span.0,
            end: span.1,
            reads: reads.to_vec(),
            writes: writes.to_vec(),
            committed: ok,
        }
    }

    #[test]
    fn the_checker_refuses_what_is_not_opaque() {
        let writer = attempt((1, 9), &[], &[(0, 10), (1, 11)], true);
        let mixed = |ok| attempt((2, 8), &[(0, 10), (1, 1)], &[], ok);
        assert_eq!(check([0, 1, 2], &[writer.clone(), mixed(true)]), None, "half of a write seen");
        assert_eq!(check([0, 1, 2], &[writer.clone(), mixed(false)]), None, "also by a doomed one");
        let late = attempt((10, 12), &[(0, 0)], &[], true);
        assert_eq!(check([0, 1, 2], &[writer.clone(), late]), None, "real time");
        let fine = attempt((2, 12), &[(0, 0), (1, 1)], &[], true);
        assert_eq!(check([0, 1, 2], &[writer, fine]), Some(vec![1, 0]));
    }

    #[test]
    fn the_checker_refuses_write_skew_and_accepts_an_aborted_half() {
        let one = attempt((1, 9), &[(0, 0)], &[(1, 11)], true);
        let two = |ok| attempt((2, 8), &[(1, 1)], &[(0, 10)], ok);
        assert_eq!(check([0, 1, 2], &[one.clone(), two(true)]), None);
        assert!(check([0, 1, 2], &[one, two(false)]).is_some());
    }
}
