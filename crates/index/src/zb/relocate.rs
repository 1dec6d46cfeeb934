//! Where a body went: the store's garbage collector moves a page and the tree follows.

use littoral_base::codec::SEAL_BYTES;
use littoral_base::mutant;
use littoral_base::units::Lba;
use littoral_store::pages::Pages;

use super::Zb;
use super::state::Ptr;
use crate::layout::{self, PageKind};
use crate::tree::{is_damage, wrong};
use crate::{Kind, Result};

impl<P: Pages> Zb<P> {
    /// Takes note that the live sequential page `old` now lies at `new`, and frees `old`. Does not
    /// end the operation: the collector commits what it moved.
    ///
    /// # Errors
    /// `Kind::Corrupt` naming `old` when it is no body or its own key leads to another page; those
    /// of the store. The operation is to be undone then.
    pub fn moved(&mut self, old: Lba, new: Lba) -> Result<()> {
        let place = self.place_of_body(&self.core.pages.peek(new)?);
        let (level, key) = place.ok_or_else(|| wrong(old, "is no body of this tree"))?;
        let mut path = self.descend(&key)?;
        let found = path[level].ptr.body;
        if found != old {
            if mutant!("zb_misplaced_page_unused") {
                self.core.pages.free(new);
                self.core.pages.free(old);
                return Ok(());
            }
            let text = format!("in use, but its first key {key:02x?} leads to page {found}");
            return Err(wrong(old, text));
        }
        let ptr = Ptr { body: new, ..path[level].ptr };
        self.set_ptr(&mut path, level, ptr)?;
        self.core.pages.free(old);
        Ok(())
    }

    /// The head that names the sequential page at `at`; `None` when its own key leads elsewhere.
    ///
    /// # Errors
    /// Those of the store: the page, or one that leads to it, cannot be read.
    pub fn head_of(&self, at: Lba) -> Result<Option<Lba>> {
        debug_assert!(!self.core.pages.is_conventional(at), "page {at} stays where it is");
        let page = self.core.pages.peek(at)?;
        let Some((level, key)) = self.place_of_body(&page) else { return Ok(None) };
        let step = self.descend(&key)?[level];
        Ok((step.ptr.body == at).then_some(step.head))
    }

    /// The live sequential page that the page at `at`, which the tree does not use, is a copy of;
    /// a page that cannot be read, or to which no page that can be leads, is none and has none.
    ///
    /// # Errors
    /// Those of the store.
    pub fn copied(&self, at: Lba) -> Result<Option<Lba>> {
        let copy = match self.core.pages.peek(at) {
            Err(e) if e.kind() == Kind::PowerCut => return Err(e),
            Err(_) => return Ok(None),
            Ok(page) => page,
        };
        let Some((level, key)) = self.place_of_body(&copy) else { return Ok(None) };
        let body = match self.descend(&key) {
            Err(e) if is_damage(&e) => return Ok(None),
            path => path?[level].ptr.body,
        };
        if body == at || self.core.pages.is_conventional(body) {
            return Ok(None);
        }
        let content = |page: &[u8]| page.len() - SEAL_BYTES;
        let page = match self.core.pages.peek(body) {
            // The search for other pages' copies goes on.
            Err(e) if e.kind() != Kind::PowerCut && !mutant!("zb_lost_page_ends_search") => {
                return Ok(None);
            }
            page => page?,
        };
        let is_copy = page[..content(&page)] == copy[..content(&copy)];
        Ok(is_copy.then_some(body))
    }

    /// The level of a body and a key by which the tree finds it.
    fn place_of_body(&self, page: &[u8]) -> Option<(usize, Vec<u8>)> {
        let level = layout::level(page) as usize;
        let is_body = matches!(layout::kind(page), Some(PageKind::Leaf | PageKind::Interior));
        let is_ours = is_body && level <= self.core.root.height as usize;
        is_ours.then(|| (level, self.core.body(level).key(page, 0).to_vec()))
    }
}
