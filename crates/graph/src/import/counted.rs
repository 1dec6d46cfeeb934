//! Text formats that say how many vertices and edges follow: Matrix Market, METIS, DIMACS.
//!
//! - `mtx`: `%%MatrixMarket matrix coordinate real|integer|pattern general|symmetric`;
//! - `metis`: a list per vertex, each edge named from both ends, with or without weights;
//! - `dimacs`: `p sp` with arcs `a`, or `p edge` with edges `e`.
//!
//! Invariants
//! - Vertices are called by their numbers in the file, from one; all that the file counts exist.
//!   Checked by `each_format_is_read`.
//! - A count that the file does not keep, and an edge that only one end of a METIS graph names, is
//!   an error with its line. Checked by `files_that_count_wrongly_are_refused_by_line`.
//! - A file cannot take all memory by a count alone: beyond [`VERTICES_FREE`] vertices it has an
//!   edge for each [`VERTICES_PER_EDGE`] of them. Checked by `a_count_alone_takes_no_memory`.

use std::path::Path;

use super::dialect::Format;
use super::fault::{Fault, RECORD_BYTES_MAX};
use super::input::{Blocks, Compression, Input};
use crate::builder::{EdgeList, EdgeSink, Hooks, Offer, Shape, Stage};
use crate::error::{Error, Kind, Result};
use crate::format::VERTICES_MAX;
use crate::names::Labels;

mod dimacs;
mod metis;
mod mtx;

/// Vertices that a file may count whatever edges it has.
const VERTICES_FREE: u64 = 1 << 22;
/// Edges that are offered to the sink at once.
const EDGES_A_BATCH: usize = 1 << 14;
/// Vertices that a file may count for each edge.
const VERTICES_PER_EDGE: u64 = 64;

/// What was read besides the edges.
pub(super) struct Read {
    /// The graph.
    pub(super) edges: EdgeList,
    /// How the file was compressed.
    pub(super) compression: Compression,
    /// Lines of the file.
    pub(super) lines: u64,
}

/// Reads a file of a counted format.
///
/// # Errors
/// `Kind::Input` with path and line; `Kind::Unsupported` for complex and dense matrices;
/// `Kind::Io`, `Kind::Interrupted`.
pub(super) fn read(
    path: &Path,
    format: Format,
    directed: Option<bool>,
    sink: &mut dyn EdgeSink,
    hooks: &mut Hooks<'_>,
) -> Result<Read> {
    // A vertex of a METIS file has all its neighbours in one line.
    let line_bytes_max = if format == Format::Metis { usize::MAX } else { RECORD_BYTES_MAX };
    let mut lines = Lines::open(path, (directed, line_bytes_max), sink, hooks)?;
    let counted = match format {
        Format::Mtx => mtx::read(&mut lines)?,
        Format::Metis => metis::read(&mut lines)?,
        Format::Dimacs => dimacs::read(&mut lines)?,
        Format::El
        | Format::Wel
        | Format::Snap
        | Format::Csv
        | Format::Tsv
        | Format::Sg
        | Format::Wsg
        | Format::Parquet
        | Format::Arrow => unreachable!("invariant: the format is a counted one"),
    };
    let bound = VERTICES_FREE.max(VERTICES_PER_EDGE * lines.edges_count);
    if u64::from(counted.vertices) > bound {
        let (vertices, edges) = (counted.vertices, lines.edges_count);
        let what = format!(
            "{vertices} vertices for {edges} edges: most of them have none; write the edges as a \
             list (.el), which names only vertices that have one"
        );
        return Err(lines.bad(what));
    }
    lines.hand_over()?;
    let names = (1..=u64::from(counted.vertices)).collect();
    let edges = EdgeList {
        vertices: counted.vertices,
        directed: counted.directed,
        edges: lines.edges,
        weights: counted.weighted.then_some(lines.weights),
        labels: Labels::Numbers(names),
    };
    Ok(Read { edges, compression: lines.compression, lines: lines.number })
}

/// A graph as its file counts it.
struct Counted {
    vertices: u32,
    directed: bool,
    weighted: bool,
}

/// The lines of a file, one after another, with their numbers, and the edges found in them.
struct Lines<'a, 'h> {
    path: &'a Path,
    hooks: &'a mut Hooks<'h>,
    sink: &'a mut dyn EdgeSink,
    /// What the caller says about directions.
    directed: Option<bool>,
    /// Edges, and their weights when there are any, that the sink has not taken.
    edges: Vec<[u32; 2]>,
    weights: Vec<f32>,
    edges_count: u64,
    compression: Compression,
    consumed: super::input::Consumed,
    blocks: Blocks,
    block: Vec<u8>,
    at: usize,
    /// The number of the line handed out last, from one.
    number: u64,
}

impl<'a, 'h> Lines<'a, 'h> {
    fn open(
        path: &'a Path,
        (directed, line_bytes_max): (Option<bool>, usize),
        sink: &'a mut dyn EdgeSink,
        hooks: &'a mut Hooks<'h>,
    ) -> Result<Self> {
        let input = Input::open(path)?;
        // Other counted formats are refused by their first line.
        let foreign = input.foreign().filter(|refusal| refusal.kind() == Kind::Unsupported);
        foreign.map_or(Ok(()), Err)?;
        let (compression, consumed) = (input.compression(), input.consumed());
        // A quote has no meaning here, so every line feed ends a record.
        let blocks = input.into_lines(line_bytes_max).of_bytes(sink.block_bytes(2));
        Ok(Lines {
            path,
            hooks,
            sink,
            directed,
            edges: Vec::new(),
            weights: Vec::new(),
            edges_count: 0,
            compression,
            consumed,
            blocks,
            block: Vec::new(),
            at: 0,
            number: 0,
        })
    }

    /// Says what edges will come; answers whether they have a direction.
    fn begin(&mut self, directed: bool, weighted: bool, edges_count: u64) -> Result<bool> {
        if self.directed == Some(true) && !directed {
            let what = "--directed: the file says that its edges have no direction";
            let context = format!("{}: {what}", self.path.display());
            return Err(Error::new(Kind::Argument, context));
        }
        let directed = self.directed.unwrap_or(directed);
        self.sink.begin(Shape { directed, weighted, edges_count }, self.hooks)?;
        Ok(directed)
    }

    /// Adds an edge.
    fn push(&mut self, edge: [u32; 2], weight: Option<f32>) -> Result<()> {
        self.edges.push(edge);
        self.weights.extend(weight);
        self.edges_count += 1;
        if self.edges.len() >= EDGES_A_BATCH { self.hand_over() } else { Ok(()) }
    }

    /// Offers the edges to the sink.
    fn hand_over(&mut self) -> Result<()> {
        // A sink of unweighted edges takes no notice of the empty list.
        let weights = Some(&mut self.weights);
        self.sink.take(Offer { edges: &mut self.edges, weights, held_bytes: 0 }, self.hooks)
    }

    /// The next line without its end; `None` behind the last.
    fn next(&mut self) -> Result<Option<&str>> {
        if self.at == self.block.len() {
            let (done, total) = self.consumed.progress();
            self.hooks.step(Stage::Reading, done, total)?;
            let Some(block) = self.blocks.next()? else { return Ok(None) };
            if block.is_cut {
                self.number += 1;
                return Err(self.bad(format!("a line longer than {RECORD_BYTES_MAX} bytes")));
            }
            (self.block, self.at) = (block.bytes, 0);
        }
        self.number += 1;
        let rest = &self.block[self.at..];
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        self.at += (end + 1).min(rest.len());
        let line = &rest[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match std::str::from_utf8(line) {
            Ok(line) => Ok(Some(line)),
            Err(_) => {
                let what = Fault::NotUtf8.describe(&super::columns::Columns::pair());
                Err(bad(self.path, self.number, what))
            }
        }
    }

    /// A refusal that names the line handed out last.
    fn bad(&self, what: impl std::fmt::Display) -> Error {
        bad(self.path, self.number, what)
    }

    /// A refusal of something that is no fault, but not read.
    fn unsupported(&self, what: impl std::fmt::Display) -> Error {
        let context = format!("{}:{}: {what}", self.path.display(), self.number);
        Error::new(Kind::Unsupported, context)
    }

    /// A count of vertices.
    fn vertices(&self, word: Option<&str>) -> Result<u32> {
        let count = word.and_then(|w| w.parse::<u64>().ok());
        let legal = count.filter(|&n| (1..=u64::from(VERTICES_MAX)).contains(&n));
        legal.map(|n| n as u32).ok_or_else(|| {
            let word = word.unwrap_or("");
            self.bad(format!("'{word}' vertices; a graph has 1 to {VERTICES_MAX}"))
        })
    }

    /// A count of edges.
    fn count(&self, word: Option<&str>) -> Result<u64> {
        let word = word.unwrap_or("");
        word.parse().map_err(|_| self.bad(format!("'{word}' is no count of edges")))
    }
}

fn bad(path: &Path, line: u64, what: impl std::fmt::Display) -> Error {
    Error::new(Kind::Input, format!("{}:{line}: {what}", path.display()))
}

/// The vertex with a number from one, as an id.
fn vertex(word: Option<&str>, vertices: u32) -> std::result::Result<u32, String> {
    let word = word.unwrap_or("");
    let number = word.parse::<u32>().ok().filter(|n| (1..=vertices).contains(n));
    number.map(|n| n - 1).ok_or_else(|| format!("'{word}' is no vertex from 1 to {vertices}"))
}

/// A weight.
fn weight(word: Option<&str>) -> std::result::Result<f32, String> {
    let word = word.unwrap_or("");
    let weight = word.parse::<f32>().ok().filter(|w| w.is_finite() && *w >= 0.0);
    // Zero has no sign as a weight.
    weight
        .map(|w| w + 0.0)
        .ok_or_else(|| Fault::Weight(word.to_owned()).describe(&super::columns::Columns::pair()))
}

/// That nothing stands behind a record's last field.
fn nothing(word: Option<&str>) -> std::result::Result<(), String> {
    word.map_or(Ok(()), |word| Err(format!("'{word}' behind the last field")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::InMemory;

    fn of(format: Format, text: &str) -> std::result::Result<EdgeList, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let name = file.path().display().to_string();
        let read = read(file.path(), format, None, &mut InMemory, &mut Hooks::none());
        read.map(|read| read.edges).map_err(|e| e.to_string().replace(&name, "f"))
    }

    fn shown(list: &EdgeList) -> String {
        let weights = list.weights.as_ref().map_or(String::new(), |w| format!(" {w:?}"));
        let kind = if list.directed { "directed" } else { "undirected" };
        format!("{} {kind} {:?}{weights}", list.vertices, list.edges)
    }

    #[test]
    fn each_format_is_read() {
        for (format, text, wanted) in [
            (
                Format::Mtx,
                "%%MatrixMarket matrix coordinate pattern general\n% say\n\n3 3 2\n1 2\n3 1\n",
                "3 directed [[0, 1], [2, 0]]",
            ),
            (
                Format::Mtx,
                "%%matrixmarket MATRIX Coordinate Real Symmetric\r\n2 2 1\r\n2 1 2.5e0\r\n",
                "2 undirected [[1, 0]] [2.5]",
            ),
            (Format::Metis, "% say\n4 2\n2 3\n1\n1\n\n", "4 undirected [[0, 1], [0, 2]]"),
            (Format::Metis, "2 1 001\n2 7\n1 7\n", "2 undirected [[0, 1]] [7.0]"),
            (Format::Metis, "2 1 111 2\n9 5 5 2 7\n9 5 5 1 7", "2 undirected [[0, 1]] [7.0]"),
            (
                Format::Dimacs,
                "c say\np sp 3 2\na 1 2 5\nc more\na 2 3 0\n",
                "3 directed [[0, 1], [1, 2]] [5.0, 0.0]",
            ),
            (Format::Dimacs, "p sp 2 1\na 1 2 -0\n", "2 directed [[0, 1]] [0.0]"),
            (Format::Metis, "2 1 1\n2 -0\n1 0\n", "2 undirected [[0, 1]] [0.0]"),
            (Format::Dimacs, "p edge 3 1\ne 3 1\n", "3 undirected [[2, 0]]"),
        ] {
            assert_eq!(of(format, text).as_ref().map(shown), Ok(wanted.to_owned()), "{text}");
        }
    }

    #[test]
    fn quotes_mean_nothing_in_files_of_several_blocks() {
        let entries = "2 3\n".repeat(700_000);
        let text = format!(
            "%%MatrixMarket matrix coordinate pattern general\n% see \"foo\n3 3 700000\n{entries}"
        );
        assert_eq!(of(Format::Mtx, &text).map(|list| list.edges.len()), Ok(700_000));
    }

    #[test]
    fn a_list_of_a_metis_file_may_be_of_any_length() {
        let leaves = 500_000;
        let hub: String = (2..leaves + 2).map(|v| format!("{v} ")).collect();
        assert!(hub.len() > 3 * RECORD_BYTES_MAX);
        let text = format!("{} {leaves}\n{hub}\n{}", leaves + 1, "1\n".repeat(leaves));
        assert_eq!(of(Format::Metis, &text).map(|list| list.edges.len()), Ok(leaves));
        let entry = format!("p sp 2 1\na 1 2 5{}\n", " ".repeat(4 * RECORD_BYTES_MAX));
        assert!(of(Format::Dimacs, &entry).unwrap_err().contains("a line longer than"));
    }

    #[test]
    fn a_count_alone_takes_no_memory() {
        const MTX: &str = "%%MatrixMarket matrix coordinate pattern general\n";
        let most = VERTICES_FREE + 1;
        for (format, text) in [
            (Format::Mtx, format!("{MTX}{most} {most} 1\n1 2\n")),
            (Format::Dimacs, "p edge 2147483646 0\n".to_owned()),
        ] {
            assert!(of(format, &text).unwrap_err().contains("most of them have none"), "{text}");
        }
    }

    #[test]
    fn files_that_count_wrongly_are_refused_by_line() {
        const MTX: &str = "%%MatrixMarket matrix coordinate pattern general\n";
        for (format, text, words) in [
            (Format::Mtx, format!("{MTX}3 3 2\n1 2\n"), "f:3: 1 entries where 2"),
            (Format::Mtx, format!("{MTX}3 3 1\n1 2\n2 3\n"), "f:4: more than the 1 entries"),
            (Format::Mtx, format!("{MTX}3 4 1\n1 2\n"), "f:2: 3 rows and 4 columns"),
            (Format::Mtx, format!("{MTX}3 3 1\n0 2\n"), "f:3: '0' is no vertex"),
            (Format::Mtx, format!("{MTX}3 3 1\n1 2 7\n"), "f:3: '7' behind"),
            (Format::Mtx, MTX.to_owned(), "f:1: no line of rows"),
            (Format::Mtx, "1 2\n".to_owned(), "f:1: no Matrix Market"),
            (Format::Mtx, MTX.replace("pattern", "complex"), "f:1: complex"),
            (Format::Mtx, MTX.replace("coordinate", "array"), "f:1: a dense matrix"),
            (Format::Mtx, MTX.replace("general", "skew-symmetric"), "f:1: skew-symmetric"),
            (Format::Mtx, MTX.replace("pattern", "real") + "2 2 1\n1 2 -3\n", "f:3: weight '-3'"),
            (Format::Metis, "2 1\n2\n".to_owned(), "f:2: 1 lists where 2"),
            (Format::Metis, "2 1\n2\n1\n1\n".to_owned(), "f:4: more than the 2 lists"),
            (Format::Metis, "3 2\n2\n1\n\n".to_owned(), "f:4: 2 neighbours where 4"),
            (Format::Metis, "3 2\n2 3\n1\n2\n".to_owned(), "f:2: vertex 1 names 3"),
            (Format::Metis, "3 1\n2\n\n1\n".to_owned(), "f:2: vertex 1 names 2"),
            (Format::Metis, "2 1 1\n2 7\n1 8\n".to_owned(), "f:2: vertex 1 names 2"),
            (Format::Metis, "2 1\n1\n2\n".to_owned(), "f:2: vertex 1 names itself"),
            (Format::Metis, "2 1 1\n2\n1 4\n".to_owned(), "f:2: weight ''"),
            (Format::Metis, "2 1 7\n".to_owned(), "f:1: '7' is no METIS format"),
            (Format::Dimacs, "p sp 2 2\na 1 2 5\n".to_owned(), "f:2: 1 arcs where 2"),
            (Format::Dimacs, "p sp 2 1\na 1 2 5\na 2 1 5\n".to_owned(), "f:3: more than the 1"),
            (Format::Dimacs, "p sp 2 1\ne 1 2\n".to_owned(), "f:2: a line of 'e'"),
            (Format::Dimacs, "a 1 2 5\n".to_owned(), "f:1: an arc before"),
            (Format::Dimacs, "c only\n".to_owned(), "f:1: no line of 'p"),
            (Format::Dimacs, "p max 2 1\n".to_owned(), "f:1: a problem of 'max'"),
        ] {
            let refused = of(format, &text).map(|list| shown(&list)).unwrap_err();
            assert!(refused.contains(words), "{text}: {refused}, wanted {words}");
        }
    }
}
