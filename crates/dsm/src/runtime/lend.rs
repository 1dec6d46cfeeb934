//! Guards on a rank's memory: what is noted of one when it is made and forgotten when it ends.
//!
//! Invariants
//! - A page with a guard is not evicted, and bytes that a guard may write are not sent. Checked by
//!   `pages_under_guards_stay_when_the_cache_is_full`, `a_data_race_with_a_guard_is_reported`.

use super::guards::Guards;
use super::{Inside, Node, road};
use crate::error::Result;

/// What the operations of a rank change where no server takes part in them. Operations of one rank
/// take turns, so one thread has it at a time.
#[derive(Default)]
pub(crate) struct Own {
    pub(super) road: road::State,
    /// Guards on a direct segment.
    pub(super) guards: Guards,
}

impl Node {
    /// Notes a guard on a range, which must not overlap a guard that excludes it.
    pub(crate) fn borrow(
        &self,
        own: &mut Own,
        offset: usize,
        len: usize,
        write: bool,
    ) -> Result<u64> {
        let (start, end) = (offset, offset + len);
        if self.direct {
            return own.guards.add(start, end, write);
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
        let Some(alone) = &self.common.alone else { return Ok(id) };
        drop(engine);
        let shown = alone.show(&self.common, start, end);
        shown.map(|()| id).inspect_err(|_| _ = self.forget(id))
    }

    /// Takes a guard out of the rank's own tables.
    fn forget(&self, id: u64) -> Option<(usize, usize)> {
        let mut engine = self.common.locked();
        engine.rank.frames_mut().show(id);
        engine.guards.remove(id)
    }

    pub(crate) fn give_back(&self, own: &mut Own, id: u64) {
        if self.direct {
            _ = own.guards.remove(id);
            return;
        }
        let _inside = Inside::enter();
        let range = self.forget(id);
        if let (Some(alone), Some((start, end))) = (&self.common.alone, range) {
            // A job that is lost needs no table of guards.
            let _ = alone.unshow(&self.common, start, end);
        }
    }
}
