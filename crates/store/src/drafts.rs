//! Drafts: pages that a batch appended and that are still in memory.
//!
//! An engine that writes a path anew for every change would write the upper pages of a batch once
//! per change. With drafts, a page appended under [`Durability::Batch`] stays in memory under an
//! address of its own; what a later change of the batch replaces is never written. At the end of
//! the batch the drafts that are left are appended, children before parents, each with the
//! addresses of its children on the medium (`batch.rs`).
//!
//! - An engine asks for drafts by saying where a page names its children ([`Store::use_drafts`]).
//! - Drafts are written by [`Store::sync`], by every checkpoint, before a collection, and when they
//!   reach the limit on changed pages. Until then the state of the medium is the one before the
//!   batch.
//! - Each draft has a block set aside: room is counted as if it were written ([`crate::room`]).
//!
//! [`Durability::Batch`]: crate::store::Durability::Batch
//! [`Store::use_drafts`]: crate::store::Store::use_drafts
//! [`Store::sync`]: crate::store::Store::sync
//!
//! Invariants
//! - No page on the medium, no redo group and no superblock names a draft. Checked by
//!   `write_with_children`, `sync_group`, `cow_batches`.
//! - A draft has one parent, which is a draft, or it is the root. Checked by `write_drafts`.

use std::collections::BTreeMap;
use std::fmt;

use littoral_base::units::Lba;

use crate::pages::Heat;

/// Marks the address of a draft; no device has so many blocks.
const DRAFT: u64 = 1 << 62;
pub(crate) const ADDRESS_BYTES: usize = 8;

/// The offsets at which a page's image names its children, eight bytes each.
pub type Children = Box<dyn Fn(&[u8]) -> Vec<usize> + Send + Sync>;

/// A page in memory.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) heat: Heat,
    pub(crate) image: Vec<u8>,
}

/// The drafts of a store.
#[derive(Default)]
pub(crate) struct Drafts {
    pub(crate) children: Option<Children>,
    pages: BTreeMap<u64, Draft>,
    next: u64,
}

impl fmt::Debug for Drafts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drafts").field("pages", &self.pages.len()).finish_non_exhaustive()
    }
}

impl Drafts {
    pub(crate) fn len(&self) -> u64 {
        self.pages.len() as u64
    }

    pub(crate) fn get(&self, at: Lba) -> Option<&[u8]> {
        self.pages.get(&at.0).map(|d| &d.image[..])
    }

    pub(crate) fn add(&mut self, heat: Heat, image: &[u8]) -> Lba {
        let at = Lba(DRAFT | self.next);
        self.next += 1;
        self.pages.insert(at.0, Draft { heat, image: image.to_vec() });
        at
    }

    /// Takes a draft out; it is written, or put back.
    pub(crate) fn take(&mut self, at: Lba) -> Option<Draft> {
        self.pages.remove(&at.0)
    }

    pub(crate) fn put_back(&mut self, at: Lba, draft: Draft) {
        self.pages.insert(at.0, draft);
    }

    /// Forgets a draft; whether there was one.
    pub(crate) fn remove(&mut self, at: Lba) -> bool {
        self.take(at).is_some()
    }

    /// The offsets at which a draft names other drafts.
    pub(crate) fn drafts_below(&self, image: &[u8]) -> Vec<(usize, Lba)> {
        let Some(children) = &self.children else { return Vec::new() };
        let address = |at: usize| image[at..].first_chunk().map(|b| Lba(u64::from_le_bytes(*b)));
        let all = children(image).into_iter().filter_map(|at| Some((at, address(at)?)));
        all.filter(|(_, child)| self.pages.contains_key(&child.0)).collect()
    }
}
