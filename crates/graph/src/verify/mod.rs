//! Serial verifiers: each answer is checked by a textbook method that shares no code with the
//! kernels.
//!
//! - [`bfs`]: levels by a plain queue search; every tree edge is an arc and climbs one level.
//! - [`pagerank`]: one textbook iteration in double precision must change almost nothing.
//! - [`components`]: union-find over every arc gives the same partition.
//!
//! Style of the verifiers in the GAP benchmark suite; own code. They hold all lists in DRAM
//! ([`Adjacency`]), whatever the medium was: they are for trust, not for speed.
//!
//! Invariant: a verifier reads lists from the file again and checks each page; it never looks at
//! HEADS, so a wrong front of a list shows.

mod bfs;
mod components;
mod pagerank;

pub use bfs::{bfs, levels};
pub use components::components;
pub use pagerank::{pagerank, residual};

use crate::error::{Error, Kind, Result};
use crate::format::file::{GraphFile, Lists};
use crate::format::{Direction, Layout};

/// All lists of one direction, read again from the file and checked page by page.
#[derive(Debug)]
pub struct Adjacency<'g> {
    lists: &'g Lists,
    layout: Layout,
    words: Vec<u32>,
}

impl<'g> Adjacency<'g> {
    /// Reads and checks the lists of `direction`.
    ///
    /// # Errors
    /// `Kind::Io`; `Kind::Corrupt`, naming the page.
    pub fn load(graph: &'g GraphFile, direction: Direction) -> Result<Self> {
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
    pub fn neighbours(&self, v: u32) -> impl Iterator<Item = u32> {
        let list = self.lists.locate(v);
        self.layout.pieces(list.addr, list.degree).flat_map(|piece| {
            let from = piece.addr as usize;
            self.words[from..from + piece.len as usize].iter().copied()
        })
    }
}

#[cold]
fn refuted(what: String) -> Error {
    Error::new(Kind::Refuted, what)
}

fn check_length(answers: usize, graph: &GraphFile) -> Result<()> {
    if answers == graph.vertices() as usize {
        return Ok(());
    }
    Err(refuted(format!("{answers} answers for {} vertices", graph.vertices())))
}
