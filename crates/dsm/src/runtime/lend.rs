//! Guards on a rank's memory: what is noted of one when it is made and forgotten when it ends.
//!
//! Invariants
//! - A page with a guard is not evicted, and bytes that a guard may write are not sent. Checked by
//!   `pages_under_guards_stay_when_the_cache_is_full`, `a_data_race_with_a_guard_is_reported`.
//! - Without a server a guard on a page at home here is shown to the other ranks (mutant
//!   `dsm_guard_at_home_unshown`). Checked by `a_data_race_with_a_guard_is_reported`.

use std::ops::Range;

use littoral_base::mutant;

use super::guards::Guards;
use super::serverless::OwnPages;
use super::{Inside, Node, road};
use crate::core::message::PageId;
use crate::core::rank::Rank;
use crate::error::Result;
use crate::memory::Segment;

/// What the operations of a rank change where no server takes part in them. Operations of one rank
/// take turns, so one thread has it at a time.
#[derive(Default)]
pub(crate) struct Own {
    pub(super) road: road::State,
    /// Guards on a direct segment.
    pub(super) guards: Guards,
    pub(super) pages: OwnPages,
}

/// A guard that was noted.
pub(crate) struct Lent {
    pub(crate) id: u64,
    /// The program may use its pages already.
    pub(crate) is_ready: bool,
}

/// Most pages of a guard whose homes are looked up one by one.
const FEW_PAGES: usize = 8;

impl Node {
    /// Notes a guard on a range, which must not overlap a guard that excludes it.
    pub(crate) fn borrow(
        &self,
        own: &mut Own,
        offset: usize,
        len: usize,
        write: bool,
    ) -> Result<Lent> {
        let (start, end) = (offset, offset + len);
        if self.direct {
            let id = own.guards.add(start, end, write)?;
            return Ok(Lent { id, is_ready: false });
        }
        let _inside = Inside::enter();
        let mut engine = self.common.locked();
        let id = engine.guards.add(start, end, write)?;
        if !self.in_place {
            engine.rank.frames_mut().pin(id, start..end);
            if write {
                engine.rank.frames_mut().hide(id, start..end);
            }
        }
        let Some(alone) = &self.common.alone else { return Ok(Lent { id, is_ready: false }) };
        let pages = self.pages_of(start, end);
        let is_ready = engine.failed.is_none() && engine.rank.has(pages, write);
        let lent = Lent { id, is_ready };
        if !self.is_shown(&engine.rank, start, end) {
            return Ok(lent);
        }
        drop(engine);
        let shown = alone.show(&self.common, start, end);
        shown.map(|()| lent).inspect_err(|_| _ = self.forget(id))
    }

    fn pages_of(&self, start: usize, end: usize) -> Range<u32> {
        let bytes = self.common.page_bytes;
        (start / bytes) as u32..end.div_ceil(bytes) as u32
    }

    /// Whether other ranks must see a guard: they write differences into home pages alone. Homes
    /// stay, so the answer is the same when the guard ends.
    fn is_shown(&self, rank: &Rank<Segment>, start: usize, end: usize) -> bool {
        let (me, mut pages) = (self.me(), self.pages_of(start, end));
        let at_home = pages.len() > FEW_PAGES || pages.any(|page| rank.home(PageId(page)) == me);
        at_home && !mutant!("dsm_guard_at_home_unshown")
    }

    /// Takes a guard out of the rank's own tables; its bytes, and whether other ranks see it.
    fn forget(&self, id: u64) -> Option<(usize, usize, bool)> {
        let mut engine = self.common.locked();
        engine.rank.frames_mut().show(id);
        let (start, end) = engine.guards.remove(id)?;
        let is_shown = self.common.alone.is_some() && self.is_shown(&engine.rank, start, end);
        Some((start, end, is_shown))
    }

    pub(crate) fn give_back(&self, own: &mut Own, id: u64) {
        if self.direct {
            _ = own.guards.remove(id);
            return;
        }
        let _inside = Inside::enter();
        let range = self.forget(id);
        if let (Some(alone), Some((start, end, true))) = (&self.common.alone, range) {
            // A job that is lost needs no table of guards.
            let _ = alone.unshow(&self.common, start, end);
        }
    }
}
