//! Pages moved for the collector: with their ancestors, several zones' pages at once.
//!
//! A page is moved by writing its ancestors anew, so an inner page that cannot be read holds all
//! pages below it where they are. [`Cow::immovable`] finds them, and the collector leaves their
//! zones alone ([`gc::shun`]); from then on the walks here pass over the inner page.
//!
//! [`gc::shun`]: littoral_store::gc::shun

use std::collections::BTreeSet;

use littoral_base::mutant;
use littoral_base::units::Lba;
use littoral_device::zoned::ZonedDevice;
use littoral_store::gc::Rank;
use littoral_store::pages::{PageRef, Pages};
use littoral_store::store::Store;

use super::{Cow, child};
use crate::Result;
use crate::layout::{self, ADDRESS_BYTES};
use crate::tree::{is_damage, wrong};

impl<D: ZonedDevice> Cow<Store<D>> {
    /// Pages that [`Cow::evacuate`] writes to move everything out of the first of `zones` zones,
    /// the first two, ...; `rank` says in which of them a page lies.
    ///
    /// # Errors
    /// Those of the store.
    pub fn costs(&self, zones: usize, rank: Rank<'_>) -> Result<Vec<u64>> {
        let mut costs = vec![0; zones];
        let root = self.core.pages.root();
        self.rank_page(root.top, root.height as usize, rank, &mut costs)?;
        for i in 1..zones {
            costs[i] += costs[i - 1];
        }
        debug_assert!(costs.is_sorted(), "zones whose emptying costs less than nothing");
        Ok(costs)
    }

    /// The first zone whose emptying writes the page at `at` anew, counted in `costs`: its own, or
    /// the first one that a page below it lies in.
    fn rank_page(
        &self,
        at: Lba,
        level: usize,
        rank: Rank<'_>,
        costs: &mut [u64],
    ) -> Result<Option<usize>> {
        let mut first = rank(at);
        if level > 0 {
            let Some(page) = self.peek_unless_shunned(at)? else { return Ok(None) };
            let body = self.core.body(level);
            for i in 0..layout::count(&page) {
                let below = self.rank_page(child(&body, &page, i), level - 1, rank, costs)?;
                first = [first, below].into_iter().flatten().min();
            }
        }
        if let Some(zone) = first {
            costs[zone] += 1;
        }
        Ok(first)
    }

    /// A page; `None` when it cannot be read and the collector leaves its zone alone, as it does
    /// those of all pages below it.
    fn peek_unless_shunned(&self, at: Lba) -> Result<Option<PageRef<'_>>> {
        let is_left = || self.core.pages.is_shunned(at) && !mutant!("cow_lost_inner_page_needed");
        match self.core.pages.peek(at) {
            Err(e) if is_damage(&e) && is_left() => Ok(None),
            page => page.map(Some),
        }
    }

    /// Live pages that cannot be moved: inner pages that cannot be read, all pages below those, and
    /// those of `taken` that cannot be read.
    ///
    /// # Errors
    /// Those of the store, but that a page cannot be read.
    pub fn immovable(&self, taken: &BTreeSet<Lba>) -> Result<BTreeSet<Lba>> {
        let mut fixed = self.core.pages.live_sequential();
        let root = self.core.pages.root();
        self.remove_movable(root.top, root.height as usize, &mut fixed)?;
        let unread = taken.iter().filter(|&&at| self.core.pages.peek(at).is_err());
        fixed.extend(unread);
        Ok(fixed)
    }

    /// Takes the page at `at` and those below it out of `fixed`, as far as they can be reached.
    fn remove_movable(&self, at: Lba, level: usize, fixed: &mut BTreeSet<Lba>) -> Result<()> {
        if level > 0 {
            let page = match self.core.pages.peek(at) {
                Err(e) if is_damage(&e) => return Ok(()),
                page => page?,
            };
            let body = self.core.body(level);
            for i in 0..layout::count(&page) {
                self.remove_movable(child(&body, &page, i), level - 1, fixed)?;
            }
        }
        fixed.remove(&at);
        Ok(())
    }

    /// Writes `pages` and their ancestors anew, each once, so that nothing of the tree is left in
    /// them. Ends the operation.
    ///
    /// # Errors
    /// `Kind::Full` when there is no room; `Kind::Corrupt` when a page is not found; those of the
    /// store.
    pub fn evacuate(&mut self, pages: &BTreeSet<Lba>) -> Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let may_move = |&at: &Lba| !self.core.pages.is_shunned(at);
        debug_assert!(pages.iter().all(may_move), "pages of a zone that is left alone");
        self.reload_root();
        let mut rest = pages.clone();
        let (top, level) = (self.core.root.top, self.core.root.height as usize);
        if let Some(top) = self.evacuate_page(top, level, &mut rest)? {
            self.core.root.top = top;
        }
        // The zone of one that is left would be reset with it.
        if let Some(&at) = rest.first() {
            return Err(wrong(at, "in use, but no page that can be read leads to it"));
        }
        self.core.finish()
    }

    /// The page's new place, if it or a page below it moved; what moved is taken out of `rest`.
    fn evacuate_page(
        &mut self,
        at: Lba,
        level: usize,
        rest: &mut BTreeSet<Lba>,
    ) -> Result<Option<Lba>> {
        if level == 0 && !rest.contains(&at) {
            return Ok(None);
        }
        let body = self.core.body(level);
        let Some(page) = self.peek_unless_shunned(at)? else { return Ok(None) };
        let mut image = page.to_vec();
        drop(page);
        let mut changed = rest.remove(&at);
        for i in 0..if level > 0 { layout::count(&image) } else { 0 } {
            if let Some(new) = self.evacuate_page(child(&body, &image, i), level - 1, rest)? {
                let slot = body.at(i) + body.key;
                image[slot..slot + ADDRESS_BYTES].copy_from_slice(&new.0.to_le_bytes());
                changed = true;
            }
        }
        if !changed {
            return Ok(None);
        }
        self.core.pages.free(at);
        self.core.pages.append_moved(&image).map(Some)
    }
}
