//! Where a rank's pages are: what the protocol asks of memory.
//!
//! The state machine decides, the frames hold bytes: [`PlainFrames`] for models and simulations,
//! mapped memory with page protection in `crate::memory`.
//!
//! `allow` speaks about the program's view alone; the protocol reads and writes at any time.
//!
//! Invariants
//! - A frame's bytes change only through the protocol (`fill`, `apply`) or, while its page is
//!   writable, through the program. Checked by `misuse_is_named_and_changes_nothing`,
//!   `race_free_programs_read_what_they_should`.

use std::collections::BTreeMap;

use super::diff::Diff;
use super::message::{PageId, PageRun};
use crate::error::Result;

/// What the program may do with a page without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Any access is a miss.
    Nothing,
    /// A write is to be noticed.
    Read,
    /// Everything.
    Write,
}

/// The bytes of a rank's copies and home pages.
pub trait Frames {
    /// Adds `pages` zero pages at the end.
    fn extend(&mut self, pages: u32);
    /// A page's bytes now.
    fn bytes(&self, page: PageId) -> Vec<u8>;
    /// Replaces a page's bytes.
    fn fill(&mut self, page: PageId, bytes: &[u8]);
    /// Writes the bytes a diff names.
    fn apply(&mut self, page: PageId, diff: &Diff);
    /// Remembers a page as it is.
    fn keep_twin(&mut self, page: PageId);
    /// What has changed since `keep_twin`, which is forgotten.
    fn take_diff(&mut self, page: PageId) -> Diff;
    /// As `take_diff`, in place of what is in `diff`.
    fn take_diff_into(&mut self, page: PageId, diff: &mut Diff) {
        *diff = self.take_diff(page);
    }
    /// Whether `bytes` are what `keep_twin` remembered of a page.
    fn is_twin(&mut self, page: PageId, bytes: &[u8]) -> bool;
    /// Twins there are.
    fn twins(&self) -> usize {
        0
    }
    /// Whether bytes of a page are left out of what is sent, because the program may be writing
    /// them.
    fn is_hidden(&self, _page: PageId) -> bool {
        false
    }
    /// Whether the program may be looking at a page without asking, so that it must stay.
    fn is_pinned(&self, _page: PageId) -> bool {
        false
    }
    /// Gives the memory of copies back; the pages, in ascending order, are filled again before they
    /// are used.
    fn drop_pages(&mut self, _pages: &[PageId]) {}
    /// Sets what the program may do with a page.
    fn allow(&mut self, page: PageId, permission: Permission);
    /// As `allow`, for a run of pages.
    fn allow_run(&mut self, run: PageRun, permission: Permission) {
        run.pages().for_each(|page| self.allow(page, permission));
    }
    /// Makes what `allow` has lowered hold for every thread of the program, before differences are
    /// taken; frames whose program has one thread, which waits here, need not.
    ///
    /// # Errors
    /// When the system refuses.
    fn lower(&mut self) -> Result<()> {
        Ok(())
    }
    /// Starts moving pages' bytes to the medium; only frames that are shared in place have one.
    fn write_back(&mut self, _run: PageRun) {}
    /// Waits until what was written back is on the medium.
    fn fence(&mut self) {}
    /// Drops what this rank has cached of pages.
    fn refresh(&mut self, _run: PageRun) {}
}

/// Frames in ordinary vectors: no protection, every access asks the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlainFrames {
    page_bytes: usize,
    pages: Vec<Vec<u8>>,
    twins: BTreeMap<PageId, Vec<u8>>,
}

impl PlainFrames {
    /// No pages yet, of `page_bytes` each.
    pub fn new(page_bytes: usize) -> Self {
        PlainFrames { page_bytes, pages: Vec::new(), twins: BTreeMap::new() }
    }

    pub(super) fn page(&self, page: PageId) -> &[u8] {
        &self.pages[page.0 as usize]
    }

    pub(super) fn page_mut(&mut self, page: PageId) -> &mut [u8] {
        &mut self.pages[page.0 as usize]
    }
}

impl Frames for PlainFrames {
    fn extend(&mut self, pages: u32) {
        let zero = || vec![0; self.page_bytes];
        self.pages.extend((0..pages).map(|_| zero()));
    }

    fn bytes(&self, page: PageId) -> Vec<u8> {
        self.page(page).to_vec()
    }

    fn fill(&mut self, page: PageId, bytes: &[u8]) {
        self.page_mut(page).copy_from_slice(bytes);
    }

    fn apply(&mut self, page: PageId, diff: &Diff) {
        diff.apply(self.page_mut(page));
    }

    fn keep_twin(&mut self, page: PageId) {
        let before = self.twins.insert(page, self.page(page).to_vec());
        debug_assert!(before.is_none(), "page {} has a twin already", page.0);
    }

    fn take_diff(&mut self, page: PageId) -> Diff {
        let twin = self.twins.remove(&page).expect("invariant: a twin was kept");
        Diff::between(&twin, self.page(page))
    }

    fn is_twin(&mut self, page: PageId, bytes: &[u8]) -> bool {
        self.twins.get(&page).is_some_and(|twin| twin == bytes)
    }

    fn twins(&self) -> usize {
        self.twins.len()
    }

    fn drop_pages(&mut self, pages: &[PageId]) {
        debug_assert!(pages.is_sorted(), "pages are dropped in ascending order");
        let has_twin = |page: &PageId| self.twins.contains_key(page);
        debug_assert!(!pages.iter().any(has_twin), "a dropped page has a twin");
        pages.iter().for_each(|page| self.page_mut(*page).fill(0));
    }

    fn allow(&mut self, _page: PageId, _permission: Permission) {}

    fn allow_run(&mut self, _run: PageRun, _permission: Permission) {}
}
