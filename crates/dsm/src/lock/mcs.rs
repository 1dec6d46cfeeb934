//! The list-based queue lock (Mellor-Crummey and Scott 1991) over a fabric's remote atomics.
//!
//! The word at the lock's home names the last in the queue (rank plus one). A newcomer swaps its
//! name in and, if there was one, writes its name into that rank's window and waits on its
//! own. A holder without a successor takes its name out by compare-and-swap. The paper counts
//! `3p - 1` transfers for `p` that contend, `p + 1` of them read-modify-writes.
//!
//! Invariants
//! - First come, first served in order of the swaps. Checked by `the_baselines_exclude_too`,
//!   `rivals_cost_what_their_formulas_say`.
//! - A grant is a running number of the waiter's, told to the predecessor with the name, so a late
//!   one is never taken for the next. Checked by `the_baselines_exclude_too`.

use std::collections::BTreeMap;

use littoral_base::units::NodeId;
use littoral_fabric::{Fabric, Rmw};

use super::{LockLayout, Locks, all_must_live, await_word, lost};
use crate::core::message::{LockId, Notices, PageId};
use crate::error::Result;

/// A rank's side.
pub struct McsLocks<'f, F> {
    fabric: &'f F,
    layout: LockLayout,
    /// The last word seen in `next` of each lock, and the number of the last wait.
    last: BTreeMap<LockId, (u64, u64)>,
}

impl<'f, F: Fabric> McsLocks<'f, F> {
    /// This rank's side; the layout's words must be zero.
    pub fn new(fabric: &'f F, layout: LockLayout) -> Self {
        McsLocks { fabric, layout, last: BTreeMap::new() }
    }

    fn name(&self) -> u64 {
        u64::from(self.fabric.me().0) + 1
    }

    fn own_next(&self, lock: LockId) -> Result<u64> {
        let mut word = [0; 8];
        let at = self.layout.place(lock);
        self.fabric.get(self.fabric.me(), at, &mut word).map_err(lost)?;
        Ok(u64::from_le_bytes(word))
    }
}

fn rank_of(name: u64) -> NodeId {
    NodeId((name & 0xffff) as u16 - 1)
}

impl<F: Fabric> Locks for McsLocks<'_, F> {
    fn acquire(&mut self, lock: LockId) -> Result<Notices> {
        self.layout.check(lock)?;
        let (home, word) = (self.layout.home(lock), self.layout.word(lock));
        let (_, wait) = *self.last.entry(lock).or_default();
        let before = self.fabric.rmw(home, word, Rmw::Swap(self.name())).map_err(lost)?;
        if before == 0 {
            return Ok(Notices::Everything);
        }
        let place = self.layout.place(lock);
        let link = (wait + 1) << 16 | self.name();
        self.fabric.signal(rank_of(before), place, link).map_err(lost)?;
        let doing = format!("while rank {} waited for lock {}", self.fabric.me(), lock.0);
        await_word(self.fabric, place + 8, wait, || all_must_live(self.fabric, &doing))?;
        self.last.entry(lock).or_default().1 = wait + 1;
        Ok(Notices::Everything)
    }

    fn release(&mut self, lock: LockId, _written: &[PageId]) -> Result<()> {
        self.layout.check(lock)?;
        let (seen, wait) = *self.last.entry(lock).or_default();
        let mut next = self.own_next(lock)?;
        if next == seen {
            let leave = Rmw::CompareSwap { current: self.name(), new: 0 };
            let (home, word) = (self.layout.home(lock), self.layout.word(lock));
            if self.fabric.rmw(home, word, leave).map_err(lost)? == self.name() {
                return Ok(());
            }
            let doing = format!("joining the queue of lock {}", lock.0);
            let live = || all_must_live(self.fabric, &doing);
            next = await_word(self.fabric, self.layout.place(lock), seen, live)?;
        }
        self.last.insert(lock, (next, wait));
        let at = self.layout.place(lock) + 8;
        self.fabric.signal(rank_of(next), at, next >> 16).map_err(lost)
    }
}
