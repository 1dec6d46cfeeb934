//! Batches: what a store does with drafts ([`crate::drafts`]), and when it writes them.

use littoral_base::mutant;
use littoral_base::units::Lba;
use littoral_device::zoned::ZonedDevice;

use crate::drafts::{ADDRESS_BYTES, Children, Draft};
use crate::error::Result;
use crate::space::Purpose;
use crate::store::{Durability, Store};

impl<D: ZonedDevice> Store<D> {
    /// Keeps pages appended under [`Durability::Batch`] in memory until the batch ends; `children`
    /// says where a page names its children. The address of the engine's root may change whenever
    /// drafts are written: the engine asks [`crate::pages::Pages::root`] for it.
    pub fn use_drafts(&mut self, children: Children) {
        self.drafts.children = Some(children);
    }

    pub(crate) fn is_drafting(&self) -> bool {
        // While there are drafts, a page that names one of them must be a draft too.
        let is_open = self.drafts.len() > 0 && !mutant!("store_page_names_a_draft");
        let is_batch = self.durability() == Durability::Batch || is_open;
        is_batch && self.drafts.children.is_some() && !mutant!("store_batch_written_per_change")
    }

    /// Appends every draft and gives the root its address on the medium.
    ///
    /// # Errors
    /// `Kind::Full` when the medium lost room that was set aside; those of the device. What was
    /// written stays so, the rest are drafts still.
    pub(crate) fn write_drafts(&mut self) -> Result<()> {
        let top = self.root.top;
        if self.drafts.get(top).is_none() {
            return Ok(());
        }
        let written = self.write_draft(top);
        // Each page appended is named by a draft or by the root: there is nothing to undo.
        self.forget_undo();
        self.root.top = written?;
        debug_assert!(self.drafts.len() == 0, "a draft that no page names");
        Ok(())
    }

    fn write_draft(&mut self, at: Lba) -> Result<Lba> {
        let mut draft = self.drafts.take(at).expect("invariant: callers have seen it");
        let result = self.write_with_children(&mut draft);
        if result.is_err() {
            self.drafts.put_back(at, draft);
        }
        result
    }

    fn write_with_children(&mut self, draft: &mut Draft) -> Result<Lba> {
        for (offset, child) in self.drafts.drafts_below(&draft.image) {
            let landed = self.write_draft(child)?;
            draft.image[offset..offset + ADDRESS_BYTES].copy_from_slice(&landed.0.to_le_bytes());
        }
        let below = self.drafts.drafts_below(&draft.image);
        debug_assert!(below.is_empty(), "a page on the medium names drafts {below:?}");
        let at = self.append_for(Purpose::Engine(draft.heat), &draft.image)?;
        self.counts.tree_blocks += 1;
        Ok(at)
    }
}
