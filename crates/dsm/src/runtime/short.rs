//! Locks, unlocks and barriers without a server that make no message (`core::rank::short`): the
//! lock's log, the lists of a barrier and the homes' frames are reached in place.
//!
//! | step | here |
//! |---|---|
//! | differences of a home | written into its frames under its latch |
//! | take a lock | the queue in shared memory, then its log is read in place |
//! | leave a lock | its log is written in place, then the queue |
//! | meet | this rank's list, the barrier, all lists |
//!
//! Invariants
//! - The engine is not locked while this rank waits for another one: what can be done at once is
//!   done under its lock, what cannot is waited for without it. Checked by
//!   `a_rank_that_is_gone_ends_who_waits_for_its_lock`.

use std::sync::MutexGuard;

use super::engine::Engine;
use super::serverless::{Errand, Serverless, Sync};
use super::{Common, TOUCHED};
use crate::core::message::{LockId, Notices};
use crate::core::rank::{Ending, Next, Outcome, Shelf};
use crate::error::Result;

impl Common {
    /// Carries out a lock, unlock or barrier without a server, by the short way where it is open.
    /// The caller has marked the thread as inside.
    pub(super) fn synchronise_alone(
        &self,
        way: &Serverless,
        sync: Sync<'_>,
        ending: Ending,
    ) -> Result<()> {
        let _alone = self.alone();
        let mut engine = self.locked();
        engine.check()?;
        engine.guards.refuse_leaked()?;
        engine.rank.frames_mut().show(TOUCHED);
        let drained = way.drain(&mut engine.rank, sync.own, &*self.carrier);
        drained.inspect_err(|e| self.fail(&mut engine, e))?;
        let done = if engine.rank.begin_short(ending, &mut sync.own.shelf)? {
            self.go_short(way, engine, sync)
        } else {
            let outcome = engine.rank.end_by(ending)?;
            let ran = Errand::new(self, way, outcome).run(engine, &mut Some(sync));
            ran.map(|engine| engine.show_held())
        };
        done.inspect_err(|e| self.fail(&mut self.locked(), e))
    }

    fn go_short<'c>(
        &'c self,
        way: &'c Serverless,
        mut engine: MutexGuard<'c, Engine>,
        mut sync: Sync<'_>,
    ) -> Result<()> {
        let mut shelf = std::mem::take(&mut sync.own.shelf);
        while let Some(home) = engine.rank.next_differences(&mut shelf) {
            if let Some(merged) = way.try_merge(self, home, shelf.differences()) {
                merged?;
                continue;
            }
            drop(engine);
            way.merge(self, home, shelf.differences())?;
            engine = self.relocked()?;
        }
        match engine.rank.end_scope(&mut shelf) {
            Next::Take(lock, seen) => self.enter_short(way, engine, &mut shelf, (lock, seen))?,
            Next::Leave(lock) => self.leave_short(way, engine, &shelf, lock)?,
            Next::Meet(wanted) => {
                let pages = engine.rank.pages();
                drop(engine);
                let Sync { state, made, .. } = &mut sync;
                way.meet(self, state, *made, &shelf.told, pages, &mut shelf.heard)?;
                let mut engine = self.relocked()?;
                way.bring(&mut engine.rank, &wanted, &shelf.heard)?;
                let departed = engine.rank.departed(&shelf.heard)?;
                self.end_short(way, engine, departed)?;
            }
        }
        sync.own.shelf = shelf;
        Ok(())
    }

    fn enter_short<'c>(
        &'c self,
        way: &'c Serverless,
        engine: MutexGuard<'c, Engine>,
        shelf: &mut Shelf,
        (lock, seen): (LockId, u64),
    ) -> Result<()> {
        let mut engine = match way.road().ask(self, lock) {
            Ok(None) => engine,
            asked => {
                drop(engine);
                way.road().wait(self, lock, asked)?;
                self.relocked()?
            }
        };
        let news = std::mem::take(&mut shelf.heard);
        let (notices, version) = way.news(lock, seen, engine.rank.generation(), news);
        let granted = engine.rank.granted(lock, &notices, version);
        if let Notices::These(news) = notices {
            shelf.heard = news;
        }
        self.end_short(way, engine, granted?)
    }

    /// Fetches the pages that are missing now, if any are, and ends the operation.
    fn end_short<'c>(
        &'c self,
        way: &'c Serverless,
        mut engine: MutexGuard<'c, Engine>,
        outcome: Outcome,
    ) -> Result<()> {
        if outcome.done && outcome.send.is_empty() {
            way.end(&mut engine.rank)?;
        } else {
            engine = Errand::new(self, way, outcome).run(engine, &mut None)?;
        }
        engine.show_held();
        Ok(())
    }

    fn leave_short(
        &self,
        way: &Serverless,
        mut engine: MutexGuard<'_, Engine>,
        shelf: &Shelf,
        lock: LockId,
    ) -> Result<()> {
        let generation = engine.rank.generation();
        way.end(&mut engine.rank)?;
        engine.show_held();
        drop(engine);
        way.release(self, lock, generation, &shelf.told)
    }

    fn relocked(&self) -> Result<MutexGuard<'_, Engine>> {
        let engine = self.locked();
        engine.check()?;
        Ok(engine)
    }
}
