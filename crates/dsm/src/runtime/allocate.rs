//! Room for shared pages: every rank allocates the same in the same order.
//!
//! Invariants
//! - Rank 0 compares what the ranks allocate; a difference fails the job in words. Ranks that
//!   depart from barriers without a manager all compare, since each may depart before rank 0 has
//!   (mutants `dsm_exchange_rank_0_compares`, `dsm_gather_compares_nothing`). Checked by
//!   `ranks_that_allocate_differently_are_told`,
//!   `each_rank_compares_allocations_before_it_departs`.
//! - Allocating waits for no other rank. A request for a page that its home has not allocated yet
//!   waits there. Checked by `a_request_for_a_page_that_its_home_has_not_allocated_waits`.

use std::sync::PoisonError;

use littoral_base::units::NodeId;

use super::engine::Engine;
use super::{Inside, Node, Own, Run};
use crate::error::{Error, Kind, Result};
use crate::memory::page_bytes;

/// What a rank has allocated: how often, one number for all of it, and how much of it rank 0 knows.
#[derive(Clone, Copy, Default)]
pub(super) struct Made {
    count: u32,
    sum: u64,
    told: u32,
}

impl Node {
    /// Adds room for `bytes` bytes to the job and waits until every rank has; where it begins.
    pub(crate) fn allocate(&self, own: &mut Own, run: Run) -> Result<usize> {
        let start = self.extend(&[run])?;
        self.barrier(own)?;
        Ok(start)
    }

    /// Adds room for runs of pages that follow each other; where the first begins.
    pub(crate) fn extend(&self, runs: &[Run]) -> Result<usize> {
        let _inside = Inside::enter();
        let common = &self.common;
        let lines = u32::try_from(page_bytes() / common.page_bytes).unwrap_or(1);
        let pages = |run: &Run| run.bytes.div_ceil(common.page_bytes) as u64;
        let _alone = common.alone();
        let mut engine = common.locked();
        engine.check()?;
        self.check_room(&engine, runs.iter().map(pages).sum())?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        *made =
            Made { count: made.count + 1, sum: mix(made.sum, fingerprint(runs)), told: made.told };
        let start = engine.rank.pages();
        for run in runs {
            let count = u32::try_from(pages(run)).unwrap_or(u32::MAX);
            engine.rank.extend(count, run.block_pages.saturating_mul(lines), run.first);
        }
        if self.me() == NodeId(0) {
            let end = engine.rank.pages();
            engine.rank.frames_mut().clear_if_used(start..end);
        }
        let answers = engine.rank.answer_early()?;
        engine.absorb(&*common.carrier, answers)?;
        Ok(start as usize * common.page_bytes)
    }

    /// How often this rank has allocated, and one number for all of it.
    pub(super) fn made(&self) -> (u32, u64) {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        (made.count, made.sum)
    }

    /// Tells rank 0, or the other of two ranks, what this rank has allocated since it told so last:
    /// one message a barrier. Where arrivals are gathered they carry it.
    pub(super) fn tell_allocations(&self) -> Result<()> {
        let common = &self.common;
        let mut engine = common.locked();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.told == made.count {
            return Ok(());
        }
        made.told = made.count;
        if engine.rank.gathers_arrivals() {
            engine.rank.has_made(made.count, made.sum);
            return Ok(());
        }
        engine.tell_agreed(&*common.carrier, made.count, made.sum)
    }

    /// Bytes allocated so far.
    pub(crate) fn allocated(&self) -> usize {
        let _inside = Inside::enter();
        self.common.locked().rank.pages() as usize * self.common.page_bytes
    }

    /// Most bytes that can be allocated.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn check_room(&self, engine: &Engine, pages: u64) -> Result<()> {
        let page_bytes = self.common.page_bytes as u64;
        let used = u64::from(engine.rank.pages());
        let left = engine.rank.frames().pages_max() - used;
        let bytes = pages * page_bytes;
        if pages > left {
            let what = format!(
                "{bytes} bytes where {} of {} are left; give the job more with --bytes or \
                 Config::bytes_max",
                left * page_bytes,
                self.bytes_max
            );
            return Err(Error::new(Kind::OutOfRange, what));
        }
        if used + pages > u64::from(u32::MAX) {
            let what = format!("{bytes} bytes more make 2^32 pages or more");
            return Err(Error::new(Kind::OutOfRange, what));
        }
        Ok(())
    }
}

/// One number for an allocation; allocations that differ hardly ever have the same.
fn fingerprint(runs: &[Run]) -> u64 {
    let words = |r: &Run| [r.bytes as u64, u64::from(r.block_pages), u64::from(r.first.0)];
    runs.iter().flat_map(words).fold(runs.len() as u64, mix)
}

fn mix(sum: u64, word: u64) -> u64 {
    (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
