//! A team of threads that run a kernel together, step by step.
//!
//! - Every member runs the same code; [`Member::all`] is one step: each member's share, then a
//!   barrier.
//! - A member that fails lets the others reach the barrier; then all of them stop. The first error
//!   is kept. Checked by `one_failure_stops_all_members_and_is_reported_once`.
//! - A member that leaves, also by a panic, ends the barrier, and those that wait for it stop.
//!   Checked by `a_member_that_leaves_stops_those_that_wait`.
//! - One member needs no barrier and executes no locked instruction.
//! - Barriers sleep: no member reaches one with reads outstanding.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result, interrupted};

/// Said by members that stop because another one failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

/// What a step ends with.
pub(crate) type Stepped = std::result::Result<(), Stopped>;

/// A barrier that a member which leaves ends for all.
#[derive(Debug, Default)]
struct Barrier {
    state: Mutex<Waiting>,
    changed: Condvar,
}

/// Who waits at a barrier.
#[derive(Debug, Default)]
struct Waiting {
    count: usize,
    /// How often all members came.
    rounds: u64,
    has_ended: bool,
}

impl Barrier {
    /// Waits until `members` threads do.
    ///
    /// # Errors
    /// [`Stopped`] when a member has left and they never will.
    fn wait(&self, members: usize) -> Stepped {
        let mut state = self.lock();
        if state.has_ended {
            return Err(Stopped);
        }
        state.count += 1;
        if state.count == members {
            (state.count, state.rounds) = (0, state.rounds + 1);
            self.changed.notify_all();
            return Ok(());
        }
        let round = state.rounds;
        let waits = |s: &mut Waiting| s.rounds == round && !s.has_ended;
        let state = self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        // A member may have left after this round was complete.
        if state.rounds == round { Err(Stopped) } else { Ok(()) }
    }

    fn end(&self) {
        self.lock().has_ended = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a team's barrier when it is dropped.
#[derive(Debug)]
pub(crate) struct Leaving<'t>(&'t Team);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.barrier.end();
    }
}

/// What the members share.
#[derive(Debug)]
pub(crate) struct Team {
    members: usize,
    barrier: Barrier,
    fault: Mutex<Option<Error>>,
    interrupt: Option<Arc<AtomicBool>>,
}

impl Team {
    /// A team of `members` threads.
    pub(crate) fn new(members: usize) -> Self {
        let barrier = Barrier::default();
        Team { members, barrier, fault: Mutex::new(None), interrupt: None }
    }

    /// The same, which stops at the end of a step once `interrupt` is set.
    pub(crate) fn interrupted_by(self, interrupt: Option<Arc<AtomicBool>>) -> Self {
        Team { interrupt, ..self }
    }

    /// The first error, once the team has stopped.
    pub(crate) fn into_result(self) -> Result<()> {
        let fault = self.fault.into_inner().unwrap_or_else(PoisonError::into_inner);
        fault.map_or(Ok(()), Err)
    }

    /// To be held by a thread as long as it is a member: others that still wait for it stop once
    /// it is dropped.
    pub(crate) fn leaving(&self) -> Leaving<'_> {
        Leaving(self)
    }

    fn has_failed(&self) -> bool {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// One thread of a team.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'t> {
    team: &'t Team,
    id: usize,
}

impl<'t> Member<'t> {
    /// Member `id` of `team`.
    pub(crate) fn new(team: &'t Team, id: usize) -> Self {
        assert!(id < team.members, "members are numbered from 0");
        Member { team, id }
    }

    /// Which member this is.
    pub(crate) fn id(self) -> usize {
        self.id
    }

    /// Whether there is no other member.
    pub(crate) fn is_alone(self) -> bool {
        self.team.members == 1
    }

    /// Whether this member decides for all.
    pub(crate) fn leads(self) -> bool {
        self.id == 0
    }

    /// Whether the work is to stop: a long share asks this to end early.
    pub(crate) fn is_interrupted(self) -> bool {
        self.team.interrupt.as_ref().is_some_and(|i| i.load(Ordering::Relaxed))
    }

    /// Does this member's share of a step and waits for the others.
    ///
    /// # Errors
    /// [`Stopped`] when a member's share failed, a member has left, or the work is to stop.
    pub(crate) fn all(self, share: impl FnOnce() -> Result<()>) -> Stepped {
        let done = |()| if self.is_interrupted() { Err(interrupted()) } else { Ok(()) };
        if let Err(e) = share().and_then(done) {
            let mut fault = self.team.fault.lock().unwrap_or_else(PoisonError::into_inner);
            fault.get_or_insert(e);
            if self.team.members == 1 {
                return Err(Stopped);
            }
        }
        if self.team.members == 1 {
            return Ok(());
        }
        self.team.barrier.wait(self.team.members)?;
        let failed = self.team.has_failed();
        // No member starts another step, and fails there, before all have looked.
        self.team.barrier.wait(self.team.members)?;
        if failed { Err(Stopped) } else { Ok(()) }
    }

    /// [`Member::all`] with a share that cannot fail.
    ///
    /// # Errors
    /// [`Stopped`] when a member failed.
    pub(crate) fn each(self, share: impl FnOnce()) -> Stepped {
        self.all(|| {
            share();
            Ok(())
        })
    }

    /// Lets the leader do something while the others wait.
    ///
    /// # Errors
    /// [`Stopped`] when a member failed.
    pub(crate) fn lead(self, work: impl FnOnce()) -> Stepped {
        self.each(|| {
            if self.leads() {
                work();
            }
        })
    }
}

/// Hands out `0..end` in chunks to the members that ask.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    next: AtomicU64,
    end: AtomicU64,
    chunk: AtomicU64,
}

impl Cursor {
    /// Starts over with `0..end` in chunks of `chunk`; only while no member takes.
    pub(crate) fn reset(&self, end: u64, chunk: u64) {
        self.reset_from(0, end, chunk);
    }

    /// As [`Cursor::reset`] with `from..end`.
    pub(crate) fn reset_from(&self, from: u64, end: u64, chunk: u64) {
        self.next.store(from, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.chunk.store(chunk.max(1), Ordering::Relaxed);
    }

    /// Takes one of what several members take, in chunks of one.
    pub(crate) fn take_one(&self) -> Option<u64> {
        self.take::<true>().map(|(from, _)| from)
    }

    fn take<const SHARED: bool>(&self) -> Option<(u64, u64)> {
        let end = self.end.load(Ordering::Relaxed);
        let chunk = self.chunk.load(Ordering::Relaxed);
        let from = self.next.load(Ordering::Relaxed);
        if from >= end {
            return None;
        }
        let from = if SHARED {
            self.next.fetch_add(chunk, Ordering::Relaxed)
        } else {
            self.next.store(from + chunk, Ordering::Relaxed);
            from
        };
        (from < end).then_some((from, end.min(from + chunk)))
    }
}

/// One member's share of a cursor, handed out one by one to its contexts.
#[derive(Debug)]
pub(crate) struct Share<'c, const SHARED: bool> {
    cursor: &'c Cursor,
    at: Cell<(u64, u64)>,
}

impl<'c, const SHARED: bool> Share<'c, SHARED> {
    /// A share of `cursor`.
    pub(crate) fn new(cursor: &'c Cursor) -> Self {
        Share { cursor, at: Cell::new((0, 0)) }
    }

    /// The next index.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<u64> {
        let (mut from, mut to) = self.at.get();
        if from == to {
            (from, to) = self.cursor.take::<SHARED>()?;
        }
        self.at.set((from + 1, to));
        Some(from)
    }

    /// How many indexes are left for this member and others to take.
    pub(crate) fn left(&self) -> u64 {
        let (from, to) = self.at.get();
        let (next, end) = (&self.cursor.next, &self.cursor.end);
        to - from + end.load(Ordering::Relaxed).saturating_sub(next.load(Ordering::Relaxed))
    }

    /// The index `ahead` of the next one, while it is in the chunk at hand.
    #[inline(always)]
    pub(crate) fn peek(&self, ahead: u64) -> Option<u64> {
        let (from, to) = self.at.get();
        (from + ahead < to).then_some(from + ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn share_all<const SHARED: bool>(cursor: &Cursor) -> Vec<u64> {
        let share = Share::<SHARED>::new(cursor);
        std::iter::from_fn(|| share.next()).collect()
    }

    #[test]
    fn every_index_is_handed_out_once() {
        let cursor = Cursor::default();
        cursor.reset(103, 7);
        assert_eq!(share_all::<false>(&cursor), (0..103).collect::<Vec<_>>());
        cursor.reset(1000, 3);
        let mut both: Vec<u64> = std::thread::scope(|s| {
            let other = s.spawn(|| share_all::<true>(&cursor));
            let mut mine = share_all::<true>(&cursor);
            mine.extend(other.join().unwrap());
            mine
        });
        both.sort_unstable();
        assert_eq!(both, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn one_failure_stops_all_members_and_is_reported_once() {
        let team = Team::new(3);
        let steps: Vec<u32> = std::thread::scope(|s| {
            let run = |id: usize| {
                let member = Member::new(&team, id);
                let mut steps = 0;
                while steps < 5 {
                    let share = || match (id, steps) {
                        (1, 2) => Err(Error::new(Kind::Argument, "told to")),
                        _ => Ok(()),
                    };
                    if member.all(share) == Err(Stopped) {
                        break;
                    }
                    steps += 1;
                }
                steps
            };
            let threads: Vec<_> = (0..3).map(|id| s.spawn(move || run(id))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(steps, [2, 2, 2]);
        assert_eq!(team.into_result().unwrap_err().context(), "told to");
    }

    #[test]
    fn a_member_that_leaves_stops_those_that_wait() {
        let team = Team::new(3);
        let run = |id: usize| {
            let _leaving = team.leaving();
            let member = Member::new(&team, id);
            for step in 0..5 {
                assert!((id, step) != (1, 2), "told to");
                if member.each(|| {}) == Err(Stopped) {
                    return step;
                }
            }
            5
        };
        let steps = std::thread::scope(|s| {
            let run = &run;
            let threads: Vec<_> = (0..3).map(|id| s.spawn(move || run(id))).collect();
            threads.into_iter().map(|t| t.join().ok()).collect::<Vec<_>>()
        });
        assert_eq!(steps, [Some(2), None, Some(2)]);
    }

    #[test]
    fn members_leave_after_the_last_step_without_stopping_others() {
        for _ in 0..200 {
            let team = Team::new(3);
            let run = |id: usize| {
                let _leaving = team.leaving();
                (0..3).all(|_| Member::new(&team, id).each(|| {}).is_ok())
            };
            std::thread::scope(|s| {
                let run = &run;
                let threads: Vec<_> = (0..3).map(|id| s.spawn(move || run(id))).collect();
                assert!(threads.into_iter().all(|t| t.join().unwrap()));
            });
        }
    }
}
