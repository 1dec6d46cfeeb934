//! What serial verifiers share: all lists in DRAM, read again from the file.
//!
//! A verifier checks a kernel's answer by a textbook method that shares no code with the kernel. It
//! stands beside the kernel (`kernels/NAME/verify.rs`), in the style of the GAP benchmark suite's.
//!
//! Invariant: a verifier reads lists from the file again and checks each page; it never looks at
//! HEADS, so a wrong front of a list shows.

use crate::error::{Error, Kind, Result};
use crate::format::file::{GraphFile, Lists};
use crate::format::{Direction, Layout};

/// All lists of one direction, read again from the file and checked page by page.
#[derive(Debug)]
pub(crate) struct Adjacency<'g> {
    lists: &'g Lists,
    layout: Layout,
    words: Vec<u32>,
}

impl<'g> Adjacency<'g> {
    /// Reads and checks the lists of `direction`.
    ///
    /// # Errors
    /// `Kind::Io`; `Kind::Corrupt`, naming the page.
    pub(crate) fn load(graph: &'g GraphFile, direction: Direction) -> Result<Self> {
        let lists = graph.lists(direction);
        let mut words = vec![0u32; (lists.pages().bytes / 4) as usize];
        graph.read_extent(lists.pages(), bytemuck::cast_slice_mut(&mut words))?;
        let stored = if graph.is_directed() { direction } else { Direction::Out };
        graph.verify_pages(stored, &words)?;
        Ok(Adjacency { lists, layout: graph.layout(), words })
    }

    /// The neighbours of `v`.
    ///
    /// # Panics
    /// When `v` is no vertex.
    pub(crate) fn neighbours(&self, v: u32) -> impl Iterator<Item = u32> {
        let list = self.lists.locate(v);
        self.layout.pieces(list.addr, list.degree).flat_map(|piece| {
            let from = piece.addr as usize;
            self.words[from..from + piece.len as usize].iter().copied()
        })
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
