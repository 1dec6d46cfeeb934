//! Running closures as transactions: attempts, retries, priority.
//!
//! - Before an attempt that may write begins, and for a while after a loss before every other, the
//!   clocks that peers have reached are looked up ([`crate::peers`]).
//! - A read-only transaction first runs without noting what it reads: then a version it does not
//!   know ends the attempt, and the second one notes its reads and extends. (TL2's read-only
//!   transactions never validate either.)
//! - A conflict retries with bounded random backoff; after [`PATIENCE`] losses the transaction
//!   takes a ticket and younger ones wait for it.

use littoral_base::mutant;
use littoral_base::sync::atomic::Ordering::{Acquire, SeqCst};
use littoral_base::sync::atomic::fence;
use littoral_device::memory::Domain;

use crate::error::{Abort, Error, Kind, Reason, Result};
use crate::pool::Pool;
use crate::thread::{PATIENCE, Thread};
use crate::tx::{Mode, Tx};
use crate::word::EPOCHS_MAX;

impl<'p, D: Domain> Thread<'p, D> {
    /// Runs `body` as a transaction, again and again until no other is in the way; durable on
    /// return.
    ///
    /// # Errors
    /// What `body` gave up with; `Kind::Full`, `Kind::Poisoned`, `Kind::Device`; `Kind::Nested`
    /// when another handle of this thread, which waits for this call to return, is in the way;
    /// `Kind::Forked` in a child of the pool's owner. Nothing is changed then, except that after
    /// `Kind::Device` the last transaction may or may not be durable.
    pub fn atomically<R>(
        &mut self,
        body: impl FnMut(&mut Tx<'_, 'p, D>) -> Result<R, Abort>,
    ) -> Result<R> {
        self.retry(true, |_, _| Ok(Mode::Update), body)
    }

    /// Runs `body` as a transaction that writes nothing: no locks, no fences, newest versions.
    ///
    /// # Errors
    /// What `body` gave up with; `Kind::ReadOnly` when it writes.
    pub fn read_only<R>(
        &mut self,
        body: impl FnMut(&mut Tx<'_, 'p, D>) -> Result<R, Abort>,
    ) -> Result<R> {
        let notes = |_: &_, losses| Ok(if losses == 0 { Mode::Glance } else { Mode::ReadOnly });
        self.retry(false, notes, body)
    }

    /// Runs `body` on the state at one moment, reading versions one older where newer ones exist:
    /// long scans are disturbed only by objects overwritten twice while they run.
    ///
    /// # Errors
    /// As `read_only`; `Kind::Usage` after almost 2^32 snapshots of one session (reopen the pool).
    pub fn snapshot<R>(
        &mut self,
        body: impl FnMut(&mut Tx<'_, 'p, D>) -> Result<R, Abort>,
    ) -> Result<R> {
        let at = |pool: &Pool<D>, _| {
            // Counted before the epoch is drawn: an object that the snapshot still finds referred
            // to ends after that, and so does its slab.
            let recycled = pool.recycled.load(Acquire);
            let epoch = pool.calm.epoch.fetch_add(1, SeqCst);
            if epoch >= EPOCHS_MAX {
                pool.calm.epoch.fetch_sub(1, SeqCst);
                let text = "almost 2^32 snapshots were taken in this session; reopen the pool";
                return Err(Error::new(Kind::Usage, text));
            }
            // Paired with the committers' fence: a writer that read an older epoch is seen
            // committing.
            fence(SeqCst);
            Ok(Mode::Snapshot { epoch, recycled })
        };
        self.retry(false, at, body)
    }

    /// Runs `body` once; `None` when another transaction was in the way.
    ///
    /// # Errors
    /// As `atomically`.
    pub fn once<R>(
        &mut self,
        mut body: impl FnMut(&mut Tx<'_, 'p, D>) -> Result<R, Abort>,
    ) -> Result<Option<R>> {
        match self.attempt(Mode::Update, &mut body) {
            Ok(value) => Ok(Some(value)),
            Err(Abort(Reason::Conflict)) => {
                self.rival.2 = 0;
                Ok(None)
            }
            Err(Abort(Reason::Failed(e))) => Err(e),
        }
    }

    #[inline]
    fn retry<R>(
        &mut self,
        updates: bool,
        mode: impl Fn(&Pool<D>, u32) -> Result<Mode>,
        mut body: impl FnMut(&mut Tx<'_, 'p, D>) -> Result<R, Abort>,
    ) -> Result<R> {
        let pool = self.pool;
        let (mut losses, mut ticket) = (0, None);
        if !mutant!("stm_rival_of_former") {
            // A former transaction may have ended otherwise than by a commit.
            self.rival.2 = 0;
        }
        loop {
            if ticket.is_none() {
                pool.calm.gate.pass();
            }
            if updates || self.wary > 0 {
                self.wary = self.wary.saturating_sub(1);
                self.watch.begin(&mut self.starts);
            }
            match self.attempt(mode(pool, losses)?, &mut body) {
                Ok(value) => return Ok(value),
                Err(Abort(Reason::Failed(e))) => return Err(e),
                Err(Abort(Reason::Conflict)) => losses += 1,
            }
            self.check_nesting()?;
            self.back_off(losses);
            if losses == PATIENCE {
                self.stats.elders_count += 1;
                ticket = Some(pool.calm.gate.enter());
            }
            self.elder = ticket.is_some();
        }
    }

    #[inline]
    fn attempt<R>(
        &mut self,
        mode: Mode,
        body: &mut impl FnMut(&mut Tx<'_, 'p, D>) -> Result<R, Abort>,
    ) -> Result<R, Abort> {
        self.pool.check_owner()?;
        if mode == Mode::Update {
            self.pool.calm.marks.begin_here(self.tid as usize);
        }
        self.starts.learn(self.tid as usize, self.clock);
        let mut tx = Tx::begin(self, mode);
        let done = match body(&mut tx) {
            Ok(value) => tx.commit().map(|()| value),
            Err(abort) => Err(abort),
        };
        // What a drop does, in line: a drop is for a body that panics.
        tx.end();
        std::mem::forget(tx);
        match &done {
            Ok(_) => self.stats.commits_count += 1,
            Err(abort) => self.learn(abort),
        }
        self.elder = false;
        done
    }
}
