//! The seam between an engine and its medium: pages that are appended, patched in place, or freed.
//!
//! - *Sequential* pages are written once, at a write pointer, and never change: [`Pages::append`].
//! - *Conventional* pages are written in place: [`Pages::allocate`], then [`Pages::put`] or
//!   [`Pages::patch`]. One call of either is one block write.
//! - An operation of the engine may make several calls; a store makes them durable together or not
//!   at all when the engine calls [`Pages::commit`].
//! - An image may be shorter than the page: the rest of the page is not the engine's.
//!
//! Invariants
//! - An address stays valid until it is freed; a freed address is never read again by the engine.
//!   Checked by `prop_trees`.
//! - The last [`littoral_base::codec::SEAL_BYTES`] of a page are the store's. Checked by
//!   `append_for`.

use std::ops::Deref;
use std::sync::Arc;

use littoral_base::units::Lba;

use crate::error::Result;

/// No page: the null address.
pub const NO_PAGE: Lba = Lba(u64::MAX);

/// How often an appended page is expected to be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heat {
    /// Often: leaves.
    Hot,
    /// Seldom: inner nodes.
    Cold,
}

/// A page as a reader sees it.
#[derive(Debug)]
pub enum PageRef<'a> {
    /// Bytes that the store keeps.
    Borrowed(&'a [u8]),
    /// Bytes shared with a cache.
    Shared(Arc<[u8]>),
}

impl Deref for PageRef<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            PageRef::Borrowed(b) => b,
            PageRef::Shared(b) => b,
        }
    }
}

/// A change of a conventional page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch<'a> {
    /// Bytes at an offset.
    Put {
        /// Offset in the page.
        at: usize,
        /// What is there afterwards.
        bytes: &'a [u8],
    },
    /// A range moved within the page.
    Move {
        /// Where it was.
        from: usize,
        /// Where it is afterwards.
        to: usize,
        /// How many bytes.
        len: usize,
    },
}

impl Patch<'_> {
    /// Applies the patch; `None` when it does not fit the page.
    #[inline]
    pub fn apply(&self, page: &mut [u8]) -> Option<()> {
        match *self {
            Patch::Put { at, bytes } => {
                page.get_mut(at..at.checked_add(bytes.len())?)?.copy_from_slice(bytes);
            }
            Patch::Move { from, to, len } => {
                let fits = |x: usize| x.checked_add(len).is_some_and(|e| e <= page.len());
                if !fits(from) || !fits(to) {
                    return None;
                }
                page.copy_within(from..from + len, to);
            }
        }
        Some(())
    }
}

/// The first bytes of a page.
pub type Opening = [u8; 8];

/// Offsets of the lines of a page that a reader will look at; one may be named more than once.
pub type Look = [u32; 10];

/// What an engine finds again when it is opened: its top page and two numbers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The engine's top page.
    pub top: Lba,
    /// Levels below the top, as the engine counts them.
    pub height: u32,
    /// Records held.
    pub records: u64,
}

impl Default for Root {
    fn default() -> Self {
        Root { top: NO_PAGE, height: 0, records: 0 }
    }
}

/// Pages on some medium; see the module's page for the rules.
pub trait Pages {
    /// Bytes of a page, checksum included.
    fn page_bytes(&self) -> usize;

    /// Whether conventional pages can be allocated at all.
    fn has_conventional(&self) -> bool;

    /// Reads a page; counted as one block read.
    ///
    /// # Errors
    /// `Kind::Io` or `Kind::Corrupt` with the page's address.
    fn read(&self, at: Lba) -> Result<PageRef<'_>>;

    /// [`Pages::read`] for a reader that can tell from the page's first bytes which lines of it it
    /// will look at: a store may fetch them together while it does its own.
    ///
    /// # Errors
    /// As `read`.
    fn read_for(&self, at: Lba, _look: &dyn Fn(Opening) -> Look) -> Result<PageRef<'_>> {
        self.read(at)
    }

    /// A page that the running operation has read or written already; not counted again.
    ///
    /// # Errors
    /// As `read`.
    fn peek(&self, at: Lba) -> Result<PageRef<'_>>;

    /// Appends a page to a sequential zone chosen by heat; counted as one block write.
    ///
    /// # Errors
    /// `Kind::Full` when there is no room.
    fn append(&mut self, heat: Heat, image: &[u8]) -> Result<Lba>;

    /// Reserves a conventional page; its content is undefined until `put`.
    ///
    /// # Errors
    /// `Kind::Full` when there is none, `Kind::Unsupported` on a medium without conventional zones.
    fn allocate(&mut self) -> Result<Lba>;

    /// Replaces a conventional page; counted as one block write.
    ///
    /// # Errors
    /// `Kind::Io`.
    fn put(&mut self, at: Lba, image: &[u8]) -> Result<()>;

    /// Changes a conventional page; counted as one block write, whatever the number of patches.
    ///
    /// # Errors
    /// `Kind::Io`.
    fn patch(&mut self, at: Lba, patches: &[Patch<'_>]) -> Result<()>;

    /// Gives a page back.
    fn free(&mut self, at: Lba);

    /// Whether a page is a conventional one.
    fn is_conventional(&self, at: Lba) -> bool;

    /// The engine's root.
    fn root(&self) -> Root;

    /// Replaces the engine's root.
    fn set_root(&mut self, root: Root);

    /// Ends an operation: what was changed since the last commit belongs together.
    ///
    /// # Errors
    /// `Kind::Io`, `Kind::PowerCut`; the store is then poisoned.
    fn commit(&mut self) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_move_and_put_and_refuse_what_does_not_fit() {
        let mut page = *b"abcdef";
        assert!(Patch::Move { from: 1, to: 2, len: 4 }.apply(&mut page).is_some());
        assert!(Patch::Put { at: 1, bytes: b"X" }.apply(&mut page).is_some());
        assert_eq!(&page, b"aXbcde");
        assert!(Patch::Put { at: 6, bytes: b"Y" }.apply(&mut page).is_none());
        assert!(Patch::Move { from: 3, to: 0, len: 4 }.apply(&mut page).is_none());
        assert!(Patch::Put { at: usize::MAX, bytes: b"Y" }.apply(&mut page).is_none());
    }
}
