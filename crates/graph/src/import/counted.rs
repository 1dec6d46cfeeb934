//! Text formats that say how many vertices and edges follow: Matrix Market, METIS, DIMACS.
//!
//! - `mtx`: `%%MatrixMarket matrix coordinate real|integer|pattern general|symmetric`;
//! - `metis`: a list per vertex, each edge named from both ends, with or without weights;
//! - `dimacs`: `p sp` with arcs `a`, or `p edge` with edges `e`.
//!
//! The lines of a Matrix Market or DIMACS file behind its head are parsed by several threads; a
//! METIS file's by one, since each is a list.
//!
//! Invariants
//! - The result, and the error when there is one, do not depend on the number of threads. Checked
//!   by `counted_files_of_many_blocks_are_read_alike_by_any_threads`.
//! - Vertices are called by their numbers in the file, from one; all that the file counts exist.
//!   Checked by `each_format_is_read`.
//! - A count that the file does not keep, and an edge that only one end of a METIS graph names, is
//!   an error with its line. Checked by `files_that_count_wrongly_are_refused_by_line`.
//! - A file cannot take all memory by a count alone: beyond [`VERTICES_FREE`] vertices it has an
//!   edge for each [`VERTICES_PER_EDGE`] of them. Checked by `a_count_alone_takes_no_memory`.

use std::path::Path;

use super::ImportOptions;
use super::dialect::Format;
use super::fault::{Fault, RECORD_BYTES_MAX};
use super::input::{Block, Blocks, Compression, Input};
use super::pool::{AHEAD, parse_in_order, threads_of};
use crate::builder::{EdgeList, EdgeSink, Hooks, Offer, Shape, Stage};
use crate::error::{Error, Kind, Result};
use crate::format::VERTICES_MAX;
use crate::names::Labels;

mod dimacs;
mod metis;
mod mtx;

/// Vertices that a file may count whatever edges it has.
const VERTICES_FREE: u64 = 1 << 22;
/// Edges that are offered to the sink at once, at least.
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
    options: &ImportOptions,
    sink: &mut dyn EdgeSink,
    hooks: &mut Hooks<'_>,
) -> Result<Read> {
    // A vertex of a METIS file has all its neighbours in one line.
    let line_bytes_max = if format == Format::Metis { usize::MAX } else { RECORD_BYTES_MAX };
    let mut lines = Lines::open(path, (options, line_bytes_max), sink, hooks)?;
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
    threads: usize,
    /// Edges, and their weights when there are any, that the sink has not taken.
    edges: Vec<[u32; 2]>,
    weights: Vec<f32>,
    edges_count: u64,
    compression: Compression,
    consumed: super::input::Consumed,
    /// Blocks to come, unless the threads have them.
    blocks: Option<Blocks>,
    block: Vec<u8>,
    at: usize,
    /// The number of the line handed out last, from one.
    number: u64,
}

impl<'a, 'h> Lines<'a, 'h> {
    fn open(
        path: &'a Path,
        (options, line_bytes_max): (&ImportOptions, usize),
        sink: &'a mut dyn EdgeSink,
        hooks: &'a mut Hooks<'h>,
    ) -> Result<Self> {
        let input = Input::open(path)?;
        // Other counted formats are refused by their first line.
        let foreign = input.foreign().filter(|refusal| refusal.kind() == Kind::Unsupported);
        foreign.map_or(Ok(()), Err)?;
        let (compression, consumed) = (input.compression(), input.consumed());
        // A quote has no meaning here, so every line feed ends a record.
        let threads = threads_of(options);
        let block_bytes = sink.block_bytes(threads * AHEAD + 1);
        let blocks = Some(input.into_lines(line_bytes_max).of_bytes(block_bytes));
        Ok(Lines {
            path,
            hooks,
            sink,
            directed: options.directed,
            threads,
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
            return Err(Error::new(Kind::Argument, context).at_path(self.path));
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
            let blocks = self.blocks.as_mut().map_or(Ok(None), Blocks::next)?;
            let Some(block) = blocks else { return Ok(None) };
            if block.is_cut {
                self.number += 1;
                return Err(self.bad(format!("a line longer than {RECORD_BYTES_MAX} bytes")));
            }
            (self.block, self.at) = (block.bytes, 0);
        }
        self.number += 1;
        let (line, len) = first_line(&self.block[self.at..]);
        self.at += len;
        line.map(Some).map_err(|what| bad(self.path, self.number, what))
    }

    /// Reads the rest of the file: the edges that `record` finds in its lines, of which the file
    /// counts `most`, called `noun`.
    fn records(&mut self, record: &Record<'_>, most: u64, noun: &str) -> Result<()> {
        let rest = Block { bytes: self.block.split_off(self.at), is_cut: false };
        self.at = self.block.len();
        self.join(Chunk::parse(rest, record), record, (most, noun))?;
        let Some(blocks) = self.blocks.take() else { return Ok(()) };
        let (threads, parse) = (self.threads, |block| Chunk::parse(block, record));
        parse_in_order(blocks, threads, parse, |chunk| self.join(chunk, record, (most, noun)))
    }

    /// Adds the edges of the next block, or refuses its first line at fault.
    fn join(
        &mut self,
        mut chunk: Chunk,
        record: &Record<'_>,
        (most, noun): (u64, &str),
    ) -> Result<()> {
        let (done, total) = self.consumed.progress();
        self.hooks.step(Stage::Reading, done, total)?;
        let room = most - self.edges_count;
        if chunk.edges.len() as u64 > room {
            let line = self.number + chunk.line_of(room, record);
            return Err(bad(
                self.path,
                line,
                format!("more than the {most} {noun} that are counted"),
            ));
        }
        if let Some(what) = chunk.trouble {
            return Err(bad(self.path, self.number + chunk.lines, what));
        }
        self.number += chunk.lines;
        self.edges_count += chunk.edges.len() as u64;
        self.edges.append(&mut chunk.edges);
        self.weights.append(&mut chunk.weights);
        if self.edges.len() >= EDGES_A_BATCH { self.hand_over() } else { Ok(()) }
    }

    /// A refusal that names the line handed out last.
    fn bad(&self, what: impl std::fmt::Display) -> Error {
        bad(self.path, self.number, what)
    }

    /// A refusal of something that is no fault, but not read.
    fn unsupported(&self, what: impl std::fmt::Display) -> Error {
        let context = format!("{}:{}: {what}", self.path.display(), self.number);
        Error::new(Kind::Unsupported, context).at_path(self.path).at_line(self.number)
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

/// An edge and its weight; nothing for lines that hold none.
type Found = std::result::Result<Option<([u32; 2], Option<f32>)>, String>;

/// What one line behind the head holds.
type Record<'r> = dyn Fn(&str) -> Found + Sync + 'r;

/// The edges of a block, up to its first line at fault.
struct Chunk {
    bytes: Vec<u8>,
    edges: Vec<[u32; 2]>,
    weights: Vec<f32>,
    /// Lines, the one at fault included.
    lines: u64,
    trouble: Option<String>,
}

impl Chunk {
    fn parse(block: Block, record: &Record<'_>) -> Chunk {
        let (bytes, edges, weights) = (block.bytes, Vec::new(), Vec::new());
        let mut chunk = Chunk { bytes, edges, weights, lines: 0, trouble: None };
        if block.is_cut {
            let what = format!("a line longer than {RECORD_BYTES_MAX} bytes");
            return Chunk { lines: 1, trouble: Some(what), ..chunk };
        }
        let mut at = 0;
        while at < chunk.bytes.len() {
            let (line, len) = first_line(&chunk.bytes[at..]);
            at += len;
            chunk.lines += 1;
            match line.and_then(record) {
                Ok(None) => {}
                Ok(Some((edge, weight))) => {
                    chunk.edges.push(edge);
                    chunk.weights.extend(weight);
                }
                Err(what) => {
                    chunk.trouble = Some(what);
                    break;
                }
            }
        }
        chunk
    }

    /// The line in the block, from one, that holds the edge behind `edges` others.
    fn line_of(&self, edges: u64, record: &Record<'_>) -> u64 {
        let (mut at, mut line, mut found) = (0, 0, 0);
        while at < self.bytes.len() && found <= edges {
            let (text, len) = first_line(&self.bytes[at..]);
            at += len;
            line += 1;
            found += u64::from(matches!(text.and_then(record), Ok(Some(_))));
        }
        line
    }
}

/// The first line of `rest` without its end, and its length with it.
fn first_line(rest: &[u8]) -> (std::result::Result<&str, String>, usize) {
    let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    let line = &rest[..end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = std::str::from_utf8(line)
        .map_err(|_| Fault::NotUtf8.describe(&super::columns::Columns::pair()));
    (line, (end + 1).min(rest.len()))
}

fn bad(path: &Path, line: u64, what: impl std::fmt::Display) -> Error {
    Error::new(Kind::Input, format!("{}:{line}: {what}", path.display()))
        .at_path(path)
        .at_line(line)
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
    use proptest::prelude::*;

    use super::*;
    use crate::builder::InMemory;

    fn of(format: Format, text: &str) -> std::result::Result<EdgeList, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let name = file.path().display().to_string();
        let options = ImportOptions::default();
        let read = read(file.path(), format, &options, &mut InMemory, &mut Hooks::none());
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
            (
                Format::Metis,
                "2 9223372036854775808\n\n\n".to_owned(),
                "f:3: 0 neighbours where 18446744073709551616",
            ),
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

    /// Leaves edges with the reader, and has text cut into blocks of a few lines.
    struct ShortBlocks(usize);

    impl EdgeSink for ShortBlocks {
        fn block_bytes(&self, _: usize) -> Option<usize> {
            Some(self.0)
        }
    }

    /// Files of many lines, with comments among them and now and then a fault.
    fn files() -> impl Strategy<Value = (Format, String)> {
        let number = prop_oneof![60 => 1u32..40, 1 => Just(0), 1 => Just(41)];
        let arc = (number.clone(), number, 0u32..9, 0u32..30);
        let arcs = proptest::collection::vec(arc, 1..60);
        (arcs, any::<bool>(), 0u64..3, any::<bool>()).prop_map(|(arcs, is_mtx, more, crlf)| {
            let count = arcs.len() as u64 + 1 - more.min(arcs.len() as u64);
            let end = if crlf { "\r\n" } else { "\n" };
            let arc = |&(a, b, weight, odd): &(u32, u32, u32, u32)| match (is_mtx, odd) {
                (true, 0) => format!("{end}{a} {b} {weight}{end}"),
                (true, 1) => format!("{a} {b}{end}"),
                (true, _) => format!("{a} {b} {weight}{end}"),
                (false, 0) => format!("c {a}{end}a {a} {b} {weight}{end}"),
                (false, 1) => format!("e {a} {b}{end}"),
                (false, _) => format!("a {a} {b} {weight}{end}"),
            };
            let body: String = arcs.iter().map(arc).collect();
            let mtx = "%%MatrixMarket matrix coordinate real general";
            match is_mtx {
                true => (Format::Mtx, format!("{mtx}{end}40 40 {count}{end}{body}")),
                false => (Format::Dimacs, format!("p sp 40 {count}{end}{body}")),
            }
        })
    }

    proptest! {
        #![proptest_config(littoral_testing::cases(80))]

        #[test]
        fn counted_files_of_many_blocks_are_read_alike_by_any_threads(
            (format, text) in files(), block in 8usize..120,
        ) {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &text).unwrap();
            let read_by = |threads: usize, block: usize| {
                let options = ImportOptions { threads: Some(threads), ..ImportOptions::default() };
                let mut sink = ShortBlocks(block);
                read(file.path(), format, &options, &mut sink, &mut Hooks::none())
                    .map(|read| (shown(&read.edges), read.lines))
                    .map_err(|e| e.to_string())
            };
            let wanted = read_by(1, 1 << 20);
            // Line feeds end lines: none is left out of their number.
            if let Ok((_, lines)) = &wanted {
                prop_assert_eq!(*lines, text.matches('\n').count() as u64);
            }
            for threads in 1..=6 {
                prop_assert_eq!(&read_by(threads, block), &wanted, "{} threads", threads);
            }
        }
    }
}
