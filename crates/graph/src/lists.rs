//! Single lists read from the file: for questions about few vertices, where loading every page
//! would take longer than the answer.
//!
//! Invariants
//! - Every page that is read is verified, so a list names only vertices of the graph. Checked by
//!   `a_page_with_one_flipped_bit_is_refused_by_name_wherever_it_is_read_whole`.
//! - Weights are finite and not negative; a file that says otherwise is refused. Checked by
//!   `weights_lie_behind_the_neighbours_of_each_piece`,
//!   `a_forged_weight_is_an_error_and_no_endless_run`.
//!
//! The page read last is kept: lists that follow each other cost one read per page.

use crate::error::{Error, Kind, Result};
use crate::format::file::GraphFile;
use crate::format::header::SectionKind;
use crate::format::page::PageId;
use crate::format::{Direction, Extent};

/// Pages of one section, the last one kept.
#[derive(Debug)]
struct Pages {
    extent: Extent,
    kind: SectionKind,
    direction: Direction,
    words: Vec<u32>,
    number: Option<u32>,
}

impl Pages {
    fn page(&mut self, graph: &GraphFile, number: u32) -> Result<&[u32]> {
        if self.number != Some(number) {
            self.number = None;
            self.words.resize(graph.layout().page_words(), 0);
            let at = u64::from(number) * graph.layout().page_bytes() as u64;
            graph.read_at(self.extent.offset + at, bytemuck::cast_slice_mut(&mut self.words))?;
            let id = PageId { kind: self.kind, direction: self.direction, number };
            graph.verify_page(id, &self.words)?;
            self.number = Some(number);
        }
        Ok(&self.words)
    }
}

/// Reads lists of one direction one at a time.
#[derive(Debug)]
pub struct ListReader<'g> {
    graph: &'g GraphFile,
    direction: Direction,
    pages: Pages,
    weights: Option<Pages>,
    targets: Vec<u32>,
    list_weights: Vec<f32>,
}

impl<'g> ListReader<'g> {
    /// A reader of the lists of `direction`.
    pub fn new(graph: &'g GraphFile, direction: Direction) -> Self {
        let lists = graph.lists(direction);
        let stored = if graph.is_directed() { direction } else { Direction::Out };
        let pages = |extent, kind| Pages {
            extent,
            kind,
            direction: stored,
            words: Vec::new(),
            number: None,
        };
        ListReader {
            graph,
            direction,
            pages: pages(lists.pages(), SectionKind::Pages),
            weights: lists.weight_pages().map(|w| pages(w, SectionKind::Weights)),
            targets: Vec::new(),
            list_weights: Vec::new(),
        }
    }

    /// The neighbours of `v`, and the weight of each; no weights in a graph without them.
    ///
    /// # Errors
    /// `Kind::Io`; `Kind::Corrupt`, naming the page.
    ///
    /// # Panics
    /// When `v` is no vertex.
    pub fn list(&mut self, v: u32) -> Result<(&[u32], &[f32])> {
        self.targets.clear();
        self.list_weights.clear();
        let list = self.graph.lists(self.direction).locate(v);
        let layout = self.graph.layout();
        let page_words = layout.page_words() as u64;
        for piece in layout.pieces(list.addr, list.degree) {
            let number = (piece.addr / page_words) as u32;
            let from = (piece.addr % page_words) as usize;
            let range = from..from + piece.len as usize;
            let page = self.pages.page(self.graph, number)?;
            let words = &page[range.clone()];
            if words.iter().any(|&to| to >= self.graph.vertices()) {
                return Err(self.corrupt(number, "a list reaches past the lists of its page"));
            }
            self.targets.extend_from_slice(words);
            let weights = match &mut self.weights {
                Some(weights) => &weights.page(self.graph, number)?[range],
                None if layout.is_paired() => &page[range.end..range.end + range.len()],
                None => &[],
            };
            let weights = weights.iter().map(|&w| f32::from_bits(w));
            if weights.clone().any(|w| !(w.is_finite() && w >= 0.0)) {
                return Err(self.corrupt(number, "a weight is not finite or negative"));
            }
            self.list_weights.extend(weights);
        }
        Ok((&self.targets, &self.list_weights))
    }

    #[cold]
    fn corrupt(&self, page: u32, what: &str) -> Error {
        let path = self.graph.path().display();
        let context =
            format!("{path}: {:?} page {page}: {what}; import the graph again", self.direction);
        Error::new(Kind::Corrupt, context).at_path(self.graph.path()).at_page(page)
    }
}
