//! The vertex table: where each list lies and how long it is, one word of eight bytes a vertex.
//!
//! Invariants after [`VertexTable::new`]
//! - Every list lies inside PAGES; one that fits a page is inside one page; a longer one starts at
//!   the first word of a page. So address arithmetic on a table's answers cannot leave the section.
//!   Checked by `misplaced_lists_and_wrong_sums_are_named`.
//! - Degrees sum to the header's arcs. Checked by `misplaced_lists_and_wrong_sums_are_named`.

use super::{HEAD_BLOCK_VERTICES, Layout, Piece};
use crate::error::{Error, Kind, Result};

/// Bits of a word address of a list.
pub(crate) const ADDR_BITS: u32 = 40;
const ADDR_MASK: u64 = (1 << ADDR_BITS) - 1;
/// The degree field that sends the reader to the overflow table.
pub const DEGREE_OVERFLOW: u32 = (1 << 24) - 1;

/// Where a list lies in PAGES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// Word address of the first neighbour, from the start of PAGES; 0 when the list is empty.
    pub addr: u64,
    /// How many neighbours.
    pub degree: u32,
}

impl List {
    /// Byte address of the first neighbour, from the start of PAGES.
    #[inline(always)]
    pub fn addr_bytes(self) -> u64 {
        self.addr * 4
    }
}

/// The vertex table of one direction, in DRAM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VertexTable {
    entries: Vec<u64>,
    overflow: Vec<[u32; 2]>,
}

impl VertexTable {
    /// The table of lists placed at `addr` with `degrees`.
    ///
    /// # Panics
    /// When an address needs more than 40 bits; the planner refuses such graphs.
    pub fn encode(addr: &[u64], degrees: &[u32]) -> Self {
        Self::encode_in(addr.to_vec(), degrees)
    }

    /// As [`VertexTable::encode`], in the memory of the addresses.
    pub(crate) fn encode_in(mut addr: Vec<u64>, degrees: &[u32]) -> Self {
        debug_assert_eq!(addr.len(), degrees.len(), "each list has an address and a degree");
        for (entry, &d) in addr.iter_mut().zip(degrees) {
            assert!(*entry <= ADDR_MASK, "a word address fits 40 bits");
            *entry |= u64::from(d.min(DEGREE_OVERFLOW)) << ADDR_BITS;
        }
        let large = degrees.iter().zip(0u32..).filter(|&(&d, _)| d >= DEGREE_OVERFLOW);
        VertexTable { entries: addr, overflow: large.map(|(&d, v)| [v, d]).collect() }
    }

    /// A table read from a file, checked against the geometry, the pages and the arcs it must hold.
    ///
    /// # Errors
    /// `Kind::Corrupt`, naming the vertex.
    pub fn new(
        entries: Vec<u64>,
        overflow: Vec<[u32; 2]>,
        layout: Layout,
        pages: u64,
        arcs: u64,
    ) -> Result<Self> {
        let table = VertexTable { entries, overflow };
        table.check_overflow()?;
        let mut sum = 0u64;
        for v in 0..table.len() {
            let list = table.list(v);
            sum += u64::from(list.degree);
            if list.degree != 0 && !inside(list, layout, pages) {
                let context = format!(
                    "vertex {v}: list of {} at word {} is misplaced",
                    list.degree, list.addr
                );
                return Err(Error::new(Kind::Corrupt, context));
            }
        }
        if sum != arcs {
            let context = format!("degrees sum to {sum}, the header says {arcs} arcs");
            return Err(Error::new(Kind::Corrupt, context));
        }
        Ok(table)
    }

    fn check_overflow(&self) -> Result<()> {
        let ascending = self.overflow.windows(2).all(|w| w[0][0] < w[1][0]);
        let marked =
            |v: u32| self.entries.get(v as usize).is_some_and(|&e| field(e) == DEGREE_OVERFLOW);
        let all_marked = self.overflow.iter().all(|&[v, d]| marked(v) && d >= DEGREE_OVERFLOW);
        let count = self.entries.iter().filter(|&&e| field(e) == DEGREE_OVERFLOW).count();
        if ascending && all_marked && count == self.overflow.len() {
            return Ok(());
        }
        Err(Error::new(Kind::Corrupt, "the table of large degrees contradicts the vertex table"))
    }

    /// How many vertices.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Whether there are no vertices.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The list of vertex `v`.
    ///
    /// # Panics
    /// When `v` is out of range.
    #[inline(always)]
    pub fn list(&self, v: u32) -> List {
        let entry = self.entries[v as usize];
        let degree = field(entry);
        let degree = if degree == DEGREE_OVERFLOW { self.large_degree(v) } else { degree };
        List { addr: entry & ADDR_MASK, degree }
    }

    /// The degree of vertex `v`.
    #[inline(always)]
    pub fn degree(&self, v: u32) -> u32 {
        self.list(v).degree
    }

    #[cold]
    fn large_degree(&self, v: u32) -> u32 {
        match self.overflow.binary_search_by_key(&v, |&[w, _]| w) {
            Ok(i) => self.overflow[i][1],
            Err(_) => DEGREE_OVERFLOW,
        }
    }

    /// How many units each block of HEADS has when lists are repeated up to `heads` neighbours: as
    /// many as its longest list has, so that blocks of short lists take little room.
    pub fn head_units(&self, heads: u32) -> impl Iterator<Item = u32> {
        let blocks = self.entries.chunks(HEAD_BLOCK_VERTICES);
        blocks.map(move |b| b.iter().map(|&e| field(e)).max().unwrap_or(0).min(heads))
    }

    /// The raw entries: low 40 bits word address, high 24 bits degree.
    #[inline(always)]
    pub fn entries(&self) -> &[u64] {
        &self.entries
    }

    /// The pairs {vertex, degree} of degrees that the entries cannot hold.
    pub fn overflow(&self) -> &[[u32; 2]] {
        &self.overflow
    }
}

#[inline(always)]
fn field(entry: u64) -> u32 {
    (entry >> ADDR_BITS) as u32
}

fn inside(list: List, layout: Layout, pages: u64) -> bool {
    let w = layout.page_words() as u64;
    let (page, start) = (list.addr / w, list.addr % w);
    let words = |p: Piece| u64::from(p.len) * layout.arc_words() as u64;
    let in_page = |p: Piece| p.addr % w + words(p) <= layout.piece_words() as u64;
    let count = u64::from(list.degree.div_ceil(layout.piece_arcs() as u32));
    page + count <= pages
        && (count == 1 || start == 0)
        && layout.pieces(list.addr, list.degree).next().is_some_and(in_page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_degrees_go_through_the_overflow_table() {
        let degrees = [5, DEGREE_OVERFLOW - 1, DEGREE_OVERFLOW, DEGREE_OVERFLOW + 7];
        let table = VertexTable::encode(&[0, 4096, 1 << 30, 1 << 39], &degrees);
        let got: Vec<_> = (0..4).map(|v| table.list(v)).collect();
        assert_eq!(got.iter().map(|l| l.degree).collect::<Vec<_>>(), degrees);
        assert_eq!(got[3].addr_bytes(), 4 << 39);
        assert_eq!(table.overflow(), [[2, DEGREE_OVERFLOW], [3, DEGREE_OVERFLOW + 7]]);
    }

    #[test]
    fn misplaced_lists_and_wrong_sums_are_named() {
        let layout = Layout::new(512).unwrap();
        let new = |addr: u64, degree: u32, pages, arcs| {
            let t = VertexTable::encode(&[addr], &[degree]);
            VertexTable::new(t.entries, t.overflow, layout, pages, arcs)
        };
        assert!(new(0, 122, 1, 122).is_ok());
        assert!(new(0, 123, 2, 123).is_ok());
        for (addr, degree, pages) in [(1, 122, 1), (128, 4, 1), (3, 123, 9), (0, 123, 1)] {
            let e = new(addr, degree, pages, u64::from(degree)).unwrap_err();
            assert!(e.to_string().contains("vertex 0"), "{e}");
        }
        assert!(new(0, 5, 1, 6).unwrap_err().to_string().contains("sum to 5"));
        let forged = vec![u64::from(DEGREE_OVERFLOW) << ADDR_BITS];
        assert!(VertexTable::new(forged, vec![], layout, 1, 5).is_err());
    }
}
