//! Ranges of shared memory: bytes copied in and out, pages made accessible by range.
//!
//! Invariants
//! - A range is accessible without a fault when its call has ended, until the next lock, unlock or
//!   barrier. Checked by `the_safe_interface_never_faults`,
//!   `a_system_call_into_an_absent_page_is_efault_and_touch_or_a_guard_helps`.

use std::ops::Range;

use super::turns::MISS;
use super::{Inside, Node, TOUCHED};
use crate::core::message::PageId;
use crate::core::rank::{Outcome, Rank};
use crate::error::{Error, Kind, Result};
use crate::memory::Segment;

/// Pages fetched at once by one range access.
const FETCH_PAGES: u32 = 256;
/// Lines reached at once by one range access: nothing is fetched, but the server waits meanwhile.
const REACH_LINES: u32 = 1 << 14;

impl Node {
    /// Copies bytes out for a guard that is a copy.
    #[inline]
    pub(crate) fn load(&self, offset: usize, into: &mut [u8]) {
        if self.in_place {
            return self.common.locked().rank.frames().load(offset, into);
        }
        self.memory.load(offset, into);
    }

    /// Copies the bytes of such a guard in.
    #[inline]
    pub(crate) fn store(&self, offset: usize, data: &[u8]) {
        if self.in_place {
            return self.common.locked().rank.frames_mut().store(offset, data);
        }
        self.memory.store(offset, data);
    }

    /// Where a range of lines of a pool lies, if this rank may load and store there: for as long as
    /// a guard is on it.
    pub(crate) fn words_in_place(&self, offset: usize, len: usize) -> Option<*const u8> {
        self.common.locked().rank.frames().in_place(offset, len)
    }

    /// Makes a range accessible without faults.
    pub(crate) fn fetch(&self, offset: usize, len: usize, write: bool) -> Result<()> {
        self.common.check()?;
        if self.direct || len == 0 {
            return Ok(());
        }
        let page = |at: usize| u32::try_from(at / self.common.page_bytes).unwrap_or(u32::MAX);
        let (first, end) = (page(offset), page(offset + len - 1) + 1);
        let bytes = self.common.page_bytes;
        let whole = page(offset.next_multiple_of(bytes))..page(offset + len);
        if !write || !self.in_place || whole.is_empty() {
            return self.want(first..end, |r, at, n| r.want(at, n, write));
        }
        self.want(first..whole.start, |r, at, n| r.want(at, n, true))?;
        self.want(whole.clone(), Rank::want_whole)?;
        self.want(whole.end..end, |r, at, n| r.want(at, n, true))
    }

    fn want(
        &self,
        mut pages: Range<u32>,
        op: impl Fn(&mut Rank<Segment>, PageId, u32) -> Result<Outcome>,
    ) -> Result<()> {
        let most = if self.in_place { REACH_LINES } else { FETCH_PAGES };
        while !pages.is_empty() {
            let count = (pages.end - pages.start).min(most);
            self.common.operate(MISS, |r| op(r, PageId(pages.start), count))?;
            pages.start += count;
        }
        Ok(())
    }

    /// As `fetch`, for raw pointers: the pages are put into the view too.
    pub(crate) fn touch(&self, offset: usize, len: usize, write: bool) -> Result<()> {
        if self.in_place {
            let what = "lines of a pool have no raw pointers; use guards, or --fabric pool-pages";
            return Err(Error::new(Kind::Misuse, what));
        }
        if self.direct || len == 0 {
            return self.fetch(offset, len, write);
        }
        let _inside = Inside::enter();
        self.common.locked().rank.frames_mut().pin(TOUCHED, offset..offset + len);
        self.fetch(offset, len, write)?;
        let pages = offset / self.common.page_bytes..=(offset + len - 1) / self.common.page_bytes;
        let mut engine = self.common.locked();
        pages.map(|p| PageId(p as u32)).try_for_each(|p| engine.rank.frames_mut().raise(p))
    }
}
