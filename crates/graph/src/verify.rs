//! What serial verifiers share: all lists in DRAM, read again from the file.
//!
//! A verifier checks a kernel's answer by a textbook method that shares no code with the kernel. It
//! stands beside the kernel (`kernels/NAME/verify.rs`), in the style of the GAP benchmark suite's.
//!
//! A verifier reads lists from the file again and checks each page; it never looks at
//! HEADS, so a wrong front of a list shows.

use crate::error::{Error, Kind, Result};
use crate::format::file::{Arcs, GraphFile, Lists};
use crate::format::{Direction, Layout};

/// All lists of one direction, read again from the file and checked page by page.
#[derive(Debug)]
pub(crate) struct Adjacency<'g> {
    lists: &'g Lists,
    layout: Layout,
    arcs: Arcs,
}

impl<'g> Adjacency<'g> {
    /// Reads and checks the lists of `direction`.
    ///
    /// # Errors
    /// `Kind::Io`; `Kind::Corrupt`, naming the page.
    pub(crate) fn load(graph: &'g GraphFile, direction: Direction) -> Result<Self> {
        let (lists, arcs) = (graph.lists(direction), graph.load_arcs(direction)?);
        Ok(Adjacency { lists, layout: graph.layout(), arcs })
    }

    /// The neighbours of `v`.
    ///
    /// # Panics
    /// When `v` is no vertex.
    pub(crate) fn neighbours(&self, v: u32) -> impl Iterator<Item = u32> {
        let list = self.lists.locate(v);
        let pieces = self.layout.pieces(list.addr, list.degree);
        pieces.flat_map(|piece| self.arcs.neighbours(piece).iter().copied())
    }

    /// The weights in the file of the arcs of `v`, in the order of [`Adjacency::neighbours`]; none
    /// in a graph without weights.
    ///
    /// # Panics
    /// When `v` is no vertex.
    pub(crate) fn weights(&self, v: u32) -> impl Iterator<Item = f32> {
        let list = self.lists.locate(v);
        let pieces = self.layout.pieces(list.addr, list.degree);
        pieces.flat_map(|piece| self.arcs.weights(piece).iter().map(|&w| f32::from_bits(w)))
    }
}

#[cold]
pub(crate) fn refuted(what: String) -> Error {
    Error::new(Kind::Refuted, what)
}

pub(crate) fn check_length(answers: usize, graph: &GraphFile) -> Result<()> {
    if answers == graph.vertices() as usize {
        return Ok(());
    }
    Err(refuted(format!("{answers} answers for {} vertices", graph.vertices())))
}
