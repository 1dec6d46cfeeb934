//! Which pages of a store have been verified: whole pages are checked against their trailers the
//! first time that a kernel reads them.
//!
//! Invariants
//! - A page is handed to a kernel as a whole page only after its checksum, its number, its
//!   generation, its directory and its words have been checked once on this store. Checked by
//!   `a_page_with_one_flipped_bit_is_refused_by_name_wherever_it_is_read_whole`.
//! - Reads of parts of pages and of HEADS are not verified: their checksums cover more than what
//!   was read. Kernels check the bounds of every word that they get. Checked by
//!   `forged_neighbours_are_an_error_on_every_road`.
//!
//! One set serves all threads of a store. Two threads that read a page at the same time may both
//! check it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use littoral_base::mutant;

use super::Place;
use crate::error::Result;
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::format::page::{PageId, PageView};

/// The pages of a store that have been verified, a bit each.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    bits: [OnceLock<Vec<AtomicU64>>; 2],
}

impl Verified {
    /// The set of a direction's pages.
    pub(crate) fn of<'v>(&'v self, graph: &'v GraphFile, place: Place<'_>) -> VerifiedPages<'v> {
        let stored = place.stored(graph);
        let words = (place.page_count() as usize).div_ceil(64);
        let make = || (0..words).map(|_| AtomicU64::new(0)).collect();
        let bits = self.bits[stored as usize].get_or_init(make);
        VerifiedPages { graph, stored, bits }
    }
}

/// The verified pages of one direction.
#[derive(Clone, Copy)]
pub(crate) struct VerifiedPages<'v> {
    graph: &'v GraphFile,
    stored: Direction,
    bits: &'v [AtomicU64],
}

impl VerifiedPages<'_> {
    /// Checks page `number` unless that was done before; answers whether it was checked now.
    ///
    /// # Errors
    /// `Kind::Corrupt`, naming the page.
    #[inline(always)]
    pub(crate) fn check(&self, number: u32, page: PageView<'_>) -> Result<bool> {
        let (word, bit) = (&self.bits[number as usize / 64], 1u64 << (number % 64));
        if word.load(Relaxed) & bit != 0 || mutant!("graph_pages_unverified") {
            return Ok(false);
        }
        self.graph.verify_page(PageId::lists(self.stored, number), page.words())?;
        word.fetch_or(bit, Relaxed);
        Ok(true)
    }
}
