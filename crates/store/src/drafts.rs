//! Drafts: pages that a batch appended and that are still in memory.
//!
//! An engine that writes a path anew for every change would write the upper pages of a batch once
//! per change. With drafts, a page appended under [`Durability::Batch`] stays in memory under an
//! address of its own; what a later change of the batch replaces is never written. At the end of
//! the batch the drafts that are left are appended, children before parents, each with the
//! addresses of its children on the medium.
//!
//! - An engine asks for drafts by saying where a page names its children ([`Store::use_drafts`]).
//! - Drafts are written by [`Store::sync`], by every checkpoint, before a collection, and when they
//!   reach the limit on changed pages. Until then the state of the medium is the one before the
//!   batch.
//! - Each draft has a block set aside: room is counted as if it were written ([`crate::room`]).
//!
//! Invariants
//! - No page on the medium, no redo group and no superblock names a draft.
//! - A draft has one parent, which is a draft, or it is the root.

use std::collections::BTreeMap;
use std::fmt;

use littoral_base::mutant;
use littoral_base::units::Lba;
use littoral_device::zoned::ZonedDevice;

use crate::error::Result;
use crate::pages::Heat;
use crate::space::Purpose;
use crate::store::{Durability, Store};

/// Marks the address of a draft; no device has so many blocks.
const DRAFT: u64 = 1 << 62;
const ADDRESS_BYTES: usize = 8;

/// The offsets at which a page's image names its children, eight bytes each.
pub type Children = Box<dyn Fn(&[u8]) -> Vec<usize> + Send + Sync>;

#[derive(Debug)]
struct Draft {
    heat: Heat,
    image: Vec<u8>,
}

/// The drafts of a store.
#[derive(Default)]
pub(crate) struct Drafts {
    children: Option<Children>,
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

    /// Forgets a draft; whether there was one.
    pub(crate) fn remove(&mut self, at: Lba) -> bool {
        self.pages.remove(&at.0).is_some()
    }

    /// The offsets at which a draft names other drafts.
    fn drafts_below(&self, image: &[u8]) -> Vec<(usize, Lba)> {
        let Some(children) = &self.children else { return Vec::new() };
        let address = |at: usize| image[at..].first_chunk().map(|b| Lba(u64::from_le_bytes(*b)));
        let all = children(image).into_iter().filter_map(|at| Some((at, address(at)?)));
        all.filter(|(_, child)| self.pages.contains_key(&child.0)).collect()
    }
}

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
        debug_assert!(self.drafts.pages.is_empty(), "a draft that no page names");
        Ok(())
    }

    fn write_draft(&mut self, at: Lba) -> Result<Lba> {
        let mut draft = self.drafts.pages.remove(&at.0).expect("invariant: callers have seen it");
        let result = self.write_with_children(&mut draft);
        if result.is_err() {
            self.drafts.pages.insert(at.0, draft);
        }
        result
    }

    fn write_with_children(&mut self, draft: &mut Draft) -> Result<Lba> {
        for (offset, child) in self.drafts.drafts_below(&draft.image) {
            let landed = self.write_draft(child)?;
            draft.image[offset..offset + ADDRESS_BYTES].copy_from_slice(&landed.0.to_le_bytes());
        }
        self.counts.tree_blocks += 1;
        self.append_for(Purpose::Engine(draft.heat), &draft.image)
    }
}
