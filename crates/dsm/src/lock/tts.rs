//! Test-and-test&set over a fabric: the lock the paper counts `O(p^2)` transfers for.
//!
//! The word at the lock's home is read until it is free and then swapped. A fabric keeps no copies
//! coherent, so every test is a remote read; between two of them the waiter pauses.
//!
//! Invariants
//! - At most one rank swaps a zero out; admission is in the order of success, not fair. Checked by
//!   `the_baselines_exclude_too`.

use std::time::Duration;

use littoral_fabric::{Fabric, Rmw};

use super::{LockLayout, Locks, lost, must_live};
use crate::core::message::{LockId, Notices, PageId};
use crate::error::Result;

/// A rank's side.
pub struct TtsLocks<'f, F> {
    fabric: &'f F,
    layout: LockLayout,
    pause: Duration,
}

impl<'f, F: Fabric> TtsLocks<'f, F> {
    /// This rank's side; the layout's words must be zero. A waiter pauses between two tests.
    pub fn new(fabric: &'f F, layout: LockLayout, pause: Duration) -> Self {
        TtsLocks { fabric, layout, pause }
    }
}

impl<F: Fabric> Locks for TtsLocks<'_, F> {
    fn acquire(&mut self, lock: LockId) -> Result<Notices> {
        self.layout.check(lock)?;
        let (home, at) = (self.layout.home(lock), self.layout.word(lock));
        let mine = u64::from(self.fabric.me().0) + 1;
        loop {
            let mut word = [0; 8];
            self.fabric.get(home, at, &mut word).map_err(lost)?;
            if word == [0; 8] && self.fabric.rmw(home, at, Rmw::Swap(mine)).map_err(lost)? == 0 {
                return Ok(Notices::Everything);
            }
            must_live(self.fabric, home, &format!("with lock {}", lock.0))?;
            self.fabric.pause(self.pause);
        }
    }

    fn release(&mut self, lock: LockId, _written: &[PageId]) -> Result<()> {
        self.layout.check(lock)?;
        let (home, at) = (self.layout.home(lock), self.layout.word(lock));
        self.fabric.put(home, at, &[0; 8]).map_err(lost)?;
        self.fabric.flush(home).map_err(lost)
    }
}
