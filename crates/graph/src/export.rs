//! A graph as a file of another format.
//!
//! | format | vertices | edges |
//! |---|---|---|
//! | `.el`, `.wel` | names, which must be numbers | each once; of `.wel` with its weight |
//! | `.csv`, `.tsv` | names | each once, with its weight when there are weights |
//! | `.mtx` | numbers from 1 in order of names | each once; undirected ones below the diagonal |
//! | `.graph` | numbers from 1 in order of names | from both ends; undirected graphs only |
//! | `.gr` | numbers from 1 by names | arcs `a` with weights; undirected ones without as `e` |
//! | `.parquet`, `.arrow` | names | as `.csv`, in typed columns ([`crate::columnar`]) |
//! | `.sg`, `.wsg` | names, which must be numbers | as [`crate::import::export_sg`] writes them |
//!
//! Invariants
//! - What is written is read back as the same graph: names that are 1 to n, or of formats with
//!   names any; vertices without edges apart. Checked by `every_format_gives_the_graph_back`.
//! - Lists of edges alone (`.el`, `.wel`, `.csv`, `.tsv`, `.parquet`, `.arrow`, SNAP's) have no
//!   place for a vertex without edges. Such vertices are left out and counted; others keep them.
//!   Checked by `vertices_without_edges_are_kept_or_counted_as_left_out`.
//! - A graph that a format cannot hold is refused, and no file appears. Checked by
//!   `a_graph_that_a_format_cannot_hold_is_refused_with_another_format`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::Range;
use std::path::Path;

use littoral_base::mutant;

use crate::builder::write::to_file;
use crate::builder::{Existing, Hooks, Stage};
use crate::columnar;
use crate::error::{Error, Kind, Result, io};
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::import::{Format, SgIds, write_sg};
use crate::names::{Labels, Names};
use crate::table::{Cells, Column, Table, vertices};
use crate::verify::Adjacency;

const VERTICES_A_STEP: u32 = 1 << 16;

/// Writes `graph` as `format`. Returns how many vertices were left out: those without edges, in
/// formats that list edges alone.
///
/// # Errors
/// `Kind::Argument` when the format cannot hold the graph, saying why, or the file exists;
/// `Kind::Io`, `Kind::Corrupt`, `Kind::Interrupted`.
pub fn export(
    graph: &GraphFile,
    format: Format,
    path: &Path,
    existing: Existing,
    hooks: &mut Hooks<'_>,
) -> Result<u32> {
    if format.is_serialized() {
        if graph.is_weighted() != (format == Format::Wsg) {
            let other = if graph.is_weighted() { ".wsg, with weights" } else { ".sg, without" };
            return Err(unfit(format, &format!("this graph is one of {other}")));
        }
        write_sg(graph, SgIds::Original, path, existing, hooks)?;
        return Ok(0);
    }
    if format.is_columnar() {
        return export_table(graph, format, path, existing, hooks);
    }
    let form = Form::of(graph, format)?;
    let left_out = form.left_out();
    buffered(path, existing, |out, temporary| {
        let mut text = form.head();
        for row in 0..graph.vertices() {
            if row.is_multiple_of(VERTICES_A_STEP) {
                hooks.step(Stage::Writing, row.into(), graph.vertices().into())?;
            }
            form.list(row, &mut text);
            let written = out.write_all(text.as_bytes());
            written.map_err(|e| io("cannot write", temporary, e))?;
            text.clear();
        }
        Ok(())
    })?;
    Ok(left_out)
}

/// Writes a file through a buffer; `fill` gets the file's temporary name for messages.
fn buffered(
    path: &Path,
    existing: Existing,
    fill: impl FnOnce(&mut BufWriter<&mut File>, &Path) -> Result<()>,
) -> Result<()> {
    to_file(path, existing, |file, temporary| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        fill(&mut out, temporary)?;
        out.flush().map_err(|e| io("cannot write", temporary, e))
    })
}

/// Writes the edges as a table of typed columns, some vertices at a time.
fn export_table(
    graph: &GraphFile,
    format: Format,
    path: &Path,
    existing: Existing,
    hooks: &mut Hooks<'_>,
) -> Result<u32> {
    if !columnar::HAS_ARROW {
        return Err(columnar::without_arrow(&path.display().to_string()).at_path(path));
    }
    let form = Form::of(graph, Format::Csv)?;
    let left_out = form.left_out();
    buffered(path, existing, |out, _| {
        let mut row = 0;
        columnar::write_parts(format, form.names, out, &mut || {
            hooks.step(Stage::Writing, row.into(), graph.vertices().into())?;
            if row == graph.vertices() {
                return Ok(None);
            }
            let rows = row..graph.vertices().min(row.saturating_add(VERTICES_A_STEP));
            row = rows.end;
            Ok(Some(Cow::Owned(form.edges(rows))))
        })
    })?;
    Ok(left_out)
}

/// Writes `graph` as a graph file: the same bytes.
///
/// # Errors
/// `Kind::Argument` when the file exists and `existing` refuses it; `Kind::Io`,
/// `Kind::Interrupted`.
pub fn save(
    graph: &GraphFile,
    path: &Path,
    existing: Existing,
    hooks: &mut Hooks<'_>,
) -> Result<()> {
    const STEP: u64 = 1 << 20;
    to_file(path, existing, |file, temporary| {
        let (bytes, mut at) = (graph.header().file_bytes, 0);
        let mut part = Vec::new();
        while at < bytes {
            hooks.step(Stage::Writing, at, bytes)?;
            part.resize((bytes - at).min(STEP) as usize, 0);
            graph.read_at(at, &mut part)?;
            file.write_all(&part).map_err(|e| io("cannot write", temporary, e))?;
            at += part.len() as u64;
        }
        Ok(())
    })
}

fn unfit(format: Format, why: &str) -> Error {
    Error::new(Kind::Argument, format!("a .{} file cannot hold this graph: {why}", format.name()))
}

/// What is being written.
struct Form<'g> {
    graph: &'g GraphFile,
    format: Format,
    names: &'g Names,
    arcs: Adjacency<'g>,
    /// The number of each vertex, from 0 in order of names, where names are not written.
    rows: Vec<u32>,
}

impl<'g> Form<'g> {
    fn of(graph: &'g GraphFile, format: Format) -> Result<Self> {
        let names = graph.names()?;
        let is_text = matches!(names.labels(), Labels::Text(_));
        let is_list = matches!(format, Format::El | Format::Snap);
        let is_dimacs = format == Format::Dimacs;
        let (directed, weighted) = (graph.is_directed(), graph.is_weighted());
        let reasons = [
            (is_list && weighted, "it has weights; write .wel or .csv"),
            (format == Format::Wel && !weighted, "it has no weights; write .el or .csv"),
            (
                is_text && (is_list || format == Format::Wel),
                "its vertices have text as names; write .csv",
            ),
            (format == Format::Metis && directed, "its edges have directions; write .mtx or .el"),
            (
                is_dimacs && weighted && !directed,
                "its edges have weights and no direction; write .mtx or .wel",
            ),
            (
                is_dimacs && directed && !weighted,
                "its edges have directions and no weights; write .mtx or .el",
            ),
        ];
        if let Some((_, why)) = reasons.into_iter().find(|reason| reason.0) {
            return Err(unfit(format, why));
        }
        let mut rows: Vec<u32> = (0..graph.vertices()).collect();
        (0u32..).zip(names.order()).for_each(|(row, &v)| rows[v as usize] = row);
        let arcs = Adjacency::load(graph, Direction::Out)?;
        Ok(Form { graph, format, names, arcs, rows })
    }

    /// The edges of the vertices in `rows` as a table, in the order of other formats.
    fn edges(&self, rows: Range<u32>) -> Table {
        let (mut sources, mut targets, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            for (to, weight) in self.arcs_of(row) {
                sources.push(self.vertex(row));
                targets.push(self.vertex(to));
                weights.extend(weight);
            }
        }
        let mut columns = vec![vertices("source", sources), vertices("target", targets)];
        if self.graph.is_weighted() {
            columns.push(Column { name: "weight", cells: Cells::Singles(weights) });
        }
        Table::new(columns)
    }

    fn head(&self) -> String {
        let (n, edges) = (self.graph.vertices(), self.graph.header().edges());
        let weighted = self.graph.is_weighted();
        match self.format {
            Format::Csv | Format::Tsv => {
                let columns = if weighted { "source target weight" } else { "source target" };
                columns.replace(' ', self.delimiter()) + "\n"
            }
            Format::Mtx => {
                let field = if weighted { "real" } else { "pattern" };
                let symmetry = if self.graph.is_directed() { "general" } else { "symmetric" };
                format!("%%MatrixMarket matrix coordinate {field} {symmetry}\n{n} {n} {edges}\n")
            }
            Format::Metis => format!("{n} {edges}{}\n", if weighted { " 001" } else { "" }),
            Format::Dimacs => {
                let problem = if self.graph.is_directed() { "sp" } else { "edge" };
                format!("p {problem} {n} {edges}\n")
            }
            Format::Snap if !self.graph.is_directed() => "# Undirected graph\n".to_owned(),
            Format::El
            | Format::Wel
            | Format::Snap
            | Format::Sg
            | Format::Wsg
            | Format::Parquet
            | Format::Arrow => String::new(),
        }
    }

    /// Vertices that the format has no place for: those that no edge has as an end, where edges
    /// are all that is written.
    fn left_out(&self) -> u32 {
        match self.format {
            Format::Mtx | Format::Metis | Format::Dimacs | Format::Sg | Format::Wsg => return 0,
            Format::El
            | Format::Wel
            | Format::Snap
            | Format::Csv
            | Format::Tsv
            | Format::Parquet
            | Format::Arrow => {}
        }
        if mutant!("graph_left_out_uncounted") {
            return 0;
        }
        let mut has_edge = vec![false; self.graph.vertices() as usize];
        for v in 0..self.graph.vertices() {
            for u in self.arcs.neighbours(v) {
                (has_edge[v as usize], has_edge[u as usize]) = (true, true);
            }
        }
        has_edge.iter().filter(|&&has| !has).count() as u32
    }

    fn delimiter(&self) -> &'static str {
        let by_name = [(Format::Csv, ","), (Format::Tsv, "\t")];
        by_name.into_iter().find(|(format, _)| *format == self.format).map_or(" ", |(_, d)| d)
    }

    /// The vertex in `row`.
    fn vertex(&self, row: u32) -> u32 {
        self.names.order().get(row as usize).copied().unwrap_or(row)
    }

    /// The edges that are written with the vertex in `row`: the other end's row, and the weight.
    fn arcs_of(&self, row: u32) -> Vec<(u32, Option<f32>)> {
        let v = self.vertex(row);
        let weights = self.arcs.weights(v).map(Some).chain(std::iter::repeat(None));
        let targets = self.arcs.neighbours(v).map(|u| self.rows[u as usize]);
        let mut arcs: Vec<(u32, Option<f32>)> = targets.zip(weights).collect();
        // An undirected edge is written at its end of higher row; a METIS list has all of them.
        if !self.graph.is_directed() && self.format != Format::Metis {
            arcs.retain(|arc| arc.0 <= row);
        }
        arcs.sort_unstable_by_key(|arc| arc.0);
        arcs
    }

    /// Adds the edges of the vertex in `row`.
    fn list(&self, row: u32, text: &mut String) {
        let arcs = self.arcs_of(row);
        if self.format != Format::Metis {
            return arcs.into_iter().for_each(|(to, weight)| self.edge(row, to, weight, text));
        }
        for (i, (to, weight)) in arcs.into_iter().enumerate() {
            let space = if i == 0 { "" } else { " " };
            let weight = weight.map(|w| format!(" {w}")).unwrap_or_default();
            let _ = write!(text, "{space}{}{weight}", to + 1);
        }
        text.push('\n');
    }

    fn edge(&self, row: u32, to: u32, weight: Option<f32>, text: &mut String) {
        let space = self.delimiter();
        if self.format == Format::Dimacs {
            text.push_str(if weight.is_some() { "a " } else { "e " });
        }
        if self.format.is_counted() {
            let _ = write!(text, "{} {}", row + 1, to + 1);
        } else {
            self.name(row, text);
            text.push_str(space);
            self.name(to, text);
        }
        if let Some(weight) = weight {
            let _ = write!(text, "{space}{weight}");
        }
        text.push('\n');
    }

    /// Adds a name, in quotes where it would not be read back without them.
    fn name(&self, row: u32, text: &mut String) {
        let name = self.names.name(self.vertex(row));
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
        if !name.is_empty() && name.chars().all(is_plain) {
            text.push_str(&name);
        } else {
            let _ = write!(text, "\"{}\"", name.replace('"', "\"\""));
        }
    }
}
