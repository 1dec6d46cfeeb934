//! Where a body went: the store's garbage collector moves a page and the tree follows.

use littoral_base::units::Lba;
use littoral_store::pages::Pages;

use super::Zb;
use super::state::Ptr;
use crate::layout::{self, PageKind};
use crate::{Error, Kind, Result};

impl<P: Pages> Zb<P> {
    /// Takes note that the sequential page `old` now lies at `new`; whether the tree uses it. Does
    /// not end the operation: the collector commits what it moved.
    ///
    /// # Errors
    /// `Kind::Corrupt` when the page is no body; those of the store.
    pub fn moved(&mut self, old: Lba, new: Lba) -> Result<bool> {
        let page = self.pages.peek(new)?;
        let level = layout::level(&page) as usize;
        let is_body = matches!(layout::kind(&page), Some(PageKind::Leaf | PageKind::Interior));
        if !is_body || level > self.root.height as usize {
            return Err(Error::new(Kind::Corrupt, format!("page {old} is no body of this tree")));
        }
        let key = self.body(level).key(&page, 0).to_vec();
        drop(page);
        let mut path = self.descend(&key)?;
        if path[level].ptr.body != old {
            return Ok(false);
        }
        let ptr = Ptr { body: new, ..path[level].ptr };
        self.set_ptr(&mut path, level, ptr)?;
        Ok(true)
    }
}
