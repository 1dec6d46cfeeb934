//! The graph file, byte by byte: header, vertex table, pages (`docs/design/graph-file.md`).
//!
//! - [`header`]: block 0 and the section table;
//! - [`vertices`]: the table of list addresses and degrees;
//! - [`page`]: reading and writing one page of lists;
//! - [`mod@file`]: opening a file, with every check that keeps later code from panicking.
//!
//! Invariants
//! - Little-endian only; a word is four bytes; a list that fits a page never crosses one. Checked
//!   by `placement_never_splits_a_list_that_fits`, `the_builder_writes_the_golden_bytes`.
//! - A list word is never [`RESERVED_WORD`] (`docs/design/graph-file.md`: the format keeps one word
//!   free). Checked by `lists_come_back_and_another_place_does_not_verify`,
//!   `weights_lie_behind_the_neighbours_of_each_piece`.

pub mod file;
pub mod header;
pub mod page;
pub mod vertices;

use crate::error::{Error, Kind, Result};

#[cfg(target_endian = "big")]
compile_error!("graph files are read as little-endian words in place");

/// The word no list contains: readers may use it as a sentinel.
pub const RESERVED_WORD: u32 = u32::MAX;
/// The most vertices of a graph: ids stay below 2^31 - 1.
pub const VERTICES_MAX: u32 = (1 << 31) - 2;
/// Bytes of the header, and the alignment of sections.
pub const BLOCK_BYTES: usize = 4096;
/// Page size when nothing else is asked for.
pub const PAGE_BYTES_DEFAULT: u32 = 4096;
/// Words of a page's trailer.
pub const TRAILER_WORDS: usize = 4;
/// Words of a page's directory entry.
pub const ENTRY_WORDS: usize = 2;

/// Vertices of a block of HEADS.
pub const HEAD_BLOCK_VERTICES: usize = 1024;
/// Bytes of a unit of HEADS: one neighbour for each vertex of a block.
pub const HEAD_UNIT_BYTES: usize = 4 * HEAD_BLOCK_VERTICES;

/// Which arcs a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Direction {
    /// Arcs by their source; of an undirected graph, both arcs of every edge.
    Out = 0,
    /// Arcs of a directed graph by their target.
    In = 1,
}

/// The geometry of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    page_bytes: u32,
    /// Whether the weights of a piece lie behind its neighbours.
    is_paired: bool,
}

impl Layout {
    /// The geometry of pages of `page_bytes` bytes.
    ///
    /// # Errors
    /// `Kind::Argument` unless it is a power of two in 512..=65536.
    pub fn new(page_bytes: u32) -> Result<Self> {
        if page_bytes.is_power_of_two() && (512..=65536).contains(&page_bytes) {
            return Ok(Layout { page_bytes, is_paired: false });
        }
        let context = format!("page size {page_bytes} is not a power of two from 512 to 65536");
        Err(Error::new(Kind::Argument, context))
    }

    /// The same with the weights of a piece behind its neighbours, or without.
    #[must_use]
    pub fn paired(self, is_paired: bool) -> Self {
        Layout { is_paired, ..self }
    }

    /// Whether the weights of a piece lie behind its neighbours (format 2).
    #[inline(always)]
    pub fn is_paired(self) -> bool {
        self.is_paired
    }

    /// Words of an arc: its neighbour, and its weight where they are paired.
    #[inline(always)]
    pub fn arc_words(self) -> usize {
        1 + usize::from(self.is_paired)
    }

    /// Bytes of a page.
    #[inline(always)]
    pub fn page_bytes(self) -> usize {
        self.page_bytes as usize
    }

    /// Words of a page, trailer included.
    #[inline(always)]
    pub fn page_words(self) -> usize {
        self.page_bytes as usize / 4
    }

    /// Words of a page for lists and directory together.
    #[inline(always)]
    pub fn capacity_words(self) -> usize {
        self.page_words() - TRAILER_WORDS
    }

    /// Words of the longest list that fits a page, and of every piece but the last of a longer one.
    #[inline(always)]
    pub fn piece_words(self) -> usize {
        self.capacity_words() - ENTRY_WORDS
    }

    /// Arcs of the longest list that fits a page, and of every piece but the last of a longer one.
    #[inline(always)]
    pub fn piece_arcs(self) -> usize {
        self.piece_words() / self.arc_words()
    }

    /// The pieces of the list at word address `addr` with `degree` neighbours, in list order.
    #[inline]
    pub fn pieces(self, addr: u64, degree: u32) -> impl Iterator<Item = Piece> {
        let (step, piece_arcs) = (self.page_words() as u64, self.piece_arcs() as u32);
        (0..degree.div_ceil(piece_arcs)).map(move |i| Piece {
            addr: addr + u64::from(i) * step,
            first: i * piece_arcs,
            len: piece_arcs.min(degree - i * piece_arcs),
        })
    }
}

/// A run of neighbours in one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Word address of the first neighbour in PAGES.
    pub addr: u64,
    /// Its index in the list.
    pub first: u32,
    /// How many neighbours.
    pub len: u32,
}

/// A run of bytes of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Byte offset in the file, a multiple of [`BLOCK_BYTES`].
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}
