//! Pages that the program may write now and that this rank tells of, and which have a twin.
//!
//! A written copy has a twin. A home page has one only when it was made writable by prediction, to
//! see whether it was written at all, and a line in place only where a part of it is written
//! elsewhere than at its home.
//!
//! Invariants
//! - A page with a twin is among the pages. Checked by `untwinned`.

use super::PageId;
use crate::core::message::PageRun;
use crate::core::pages::PageSet;

/// See the module's page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Open {
    pages: PageSet,
    twins: PageSet,
}

impl Open {
    pub(super) fn insert(&mut self, page: PageId, has_twin: bool) {
        self.pages.insert(page);
        if has_twin {
            self.twins.insert(page);
        } else {
            self.twins.remove(page);
        }
    }

    /// Pages without twins.
    pub(super) fn insert_run(&mut self, run: PageRun) {
        self.pages.insert_run(run);
        self.twins.remove_run(run);
    }

    pub(super) fn remove(&mut self, page: PageId) {
        self.pages.remove(page);
        self.twins.remove(page);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    pub(super) fn contains(&self, page: PageId) -> bool {
        self.pages.contains(page)
    }

    /// Whether the page has a twin, if it is open.
    pub(super) fn twin_of(&self, page: PageId) -> Option<bool> {
        self.contains(page).then(|| self.twins.contains(page))
    }

    pub(super) fn pages(&self) -> &PageSet {
        &self.pages
    }

    /// Those with a twin.
    pub(super) fn twinned(&self) -> impl Iterator<Item = PageId> + '_ {
        self.twins.iter()
    }

    /// Those without a twin, as runs; `all` are the runs of all of them.
    pub(super) fn untwinned(&self, all: Vec<PageRun>) -> Vec<PageRun> {
        debug_assert!(self.twins.without(&self.pages).is_empty(), "a twin of a page that is shut");
        if self.twins.is_empty() { all } else { self.pages.without(&self.twins).runs() }
    }
}
