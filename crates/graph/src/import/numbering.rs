//! Edges by name to edges by number, part by part in the order of the input, for a sink.
//!
//! Invariant: names are text, all of them, as soon as one part has text. Checked by
//! `every_text_format_yields_the_same_graph`.

use super::dialect::Ids;
use super::intern::{Interner, Numbers, Text};
use super::parse::Edges;
use crate::builder::{EdgeList, EdgeSink, Hooks, Offer};
use crate::error::Result;

/// What has been numbered so far.
pub(super) struct Numbering<'s> {
    names: Option<Interner>,
    sink: &'s mut dyn EdgeSink,
    /// Edges that the sink has not taken.
    edges: Vec<[u32; 2]>,
    edges_count: u64,
    weights: Option<Vec<f32>>,
}

impl<'s> Numbering<'s> {
    /// Numbers edges for `sink`, which has been told their shape.
    pub(super) fn new(sink: &'s mut dyn EdgeSink, weighted: bool) -> Self {
        let weights = weighted.then(Vec::new);
        Numbering { names: None, sink, edges: Vec::new(), edges_count: 0, weights }
    }

    /// Whether names are known to be text.
    pub(super) fn is_text(&self) -> bool {
        matches!(self.names, Some(Interner::Text(_)))
    }

    /// Adds the next edges, with one weight each where edges have weights; answers whether there
    /// were ids for all vertices.
    #[must_use]
    pub(super) fn add(&mut self, edges: Edges, weights: Vec<f32>) -> bool {
        self.edges_count += edges.len() as u64;
        if let Some(all) = &mut self.weights {
            all.extend(weights);
        }
        let names = self.names.take().unwrap_or_else(|| match &edges {
            Edges::Numbers(_) => Interner::Numbers(Numbers::default()),
            Edges::Text(..) => Interner::Text(Text::new()),
        });
        let (names, edges) = match (names, edges) {
            (names @ Interner::Numbers(_), edges @ Edges::Numbers(_)) => (names, edges),
            (names, mut edges) => {
                edges.as_text();
                (names.into_text(), edges)
            }
        };
        let names = self.names.insert(names);
        let out = &mut self.edges;
        match (names, edges) {
            (Interner::Numbers(names), Edges::Numbers(pairs)) => names.ids_of(&pairs, out),
            (Interner::Text(names), Edges::Text(local, pairs)) => {
                let Some(ids) = names.ids_of(local) else { return false };
                out.extend(pairs.iter().map(|e| e.map(|v| ids[v as usize])));
                true
            }
            _ => unreachable!("names and edges are of one kind"),
        }
    }

    /// Where the edges go.
    #[cfg(feature = "arrow")]
    pub(super) fn sink(&self) -> &dyn EdgeSink {
        &*self.sink
    }

    /// Offers the edges added last to the sink; the reader holds `beside` bytes beside the names.
    pub(super) fn hand_over(&mut self, beside: u64, hooks: &mut Hooks<'_>) -> Result<()> {
        let names_bytes = self.names.as_ref().map_or(0, Interner::bytes_held);
        let held_bytes = names_bytes.saturating_add(beside);
        let offer = Offer { edges: &mut self.edges, weights: self.weights.as_mut(), held_bytes };
        self.sink.take(offer, hooks)
    }

    /// The edges that the sink has left, and what ids are; `None` when there was no edge.
    pub(super) fn finish(self, directed: bool) -> Option<(EdgeList, Ids)> {
        let names = self.names.filter(|_| self.edges_count > 0)?;
        let ids = match names {
            Interner::Numbers(_) => Ids::Numbers,
            Interner::Text(_) => Ids::Text,
        };
        let edges = EdgeList {
            vertices: names.len(),
            directed,
            edges: self.edges,
            weights: self.weights,
            labels: names.into_labels(),
        };
        Some((edges, ids))
    }
}
