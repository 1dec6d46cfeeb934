//! Pages moved for the collector: with their ancestors, several zones' pages at once.

use std::collections::BTreeSet;

use littoral_base::units::Lba;
use littoral_device::zoned::ZonedDevice;
use littoral_store::gc::Rank;
use littoral_store::pages::Pages;
use littoral_store::store::Store;

use super::{Cow, child};
use crate::Result;
use crate::layout::{self, ADDRESS_BYTES};

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
            let (page, body) = (self.core.pages.peek(at)?, self.core.body(level));
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

    /// Writes `pages` and their ancestors anew, each once, so that nothing of the tree is left in
    /// them. Ends the operation.
    ///
    /// # Errors
    /// `Kind::Full` when there is no room; those of the store.
    pub fn evacuate(&mut self, pages: &BTreeSet<Lba>) -> Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        self.reload_root();
        if let Some(top) =
            self.evacuate_page(self.core.root.top, self.core.root.height as usize, pages)?
        {
            self.core.root.top = top;
        }
        self.core.finish()
    }

    /// The page's new place, if it or a page below it moved.
    fn evacuate_page(
        &mut self,
        at: Lba,
        level: usize,
        pages: &BTreeSet<Lba>,
    ) -> Result<Option<Lba>> {
        if level == 0 && !pages.contains(&at) {
            return Ok(None);
        }
        let body = self.core.body(level);
        let mut image = self.core.pages.peek(at)?.to_vec();
        let mut changed = pages.contains(&at);
        for i in 0..if level > 0 { layout::count(&image) } else { 0 } {
            if let Some(new) = self.evacuate_page(child(&body, &image, i), level - 1, pages)? {
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
