//! Import: a user's edge list becomes a graph file.
//!
//! Lifecycle: format by name ([`dialect`]) -> front of the file through gzip or zstd ([`input`]) ->
//! delimiter, header and columns from the first records ([`sniff`]) -> edges with dense ids in
//! order of first appearance ([`text`]) -> [`crate::builder`].
//!
//! Invariants
//! - A file that can be read in two ways is refused, with the option that decides between them.
//!   Checked by `odd_files_give_the_right_graph_or_a_refusal_in_place`,
//!   `ragged_lists_of_numbers_below_their_count_may_be_metis`.
//! - The output's final name appears only once the whole file is there; the input is never touched.
//!   Checked by `existing_files_are_replaced_only_on_request_and_interrupts_leave_nothing`.
//! - Vertices are those that appear in an edge (in formats that count vertices, all of them).
//!   Checked by `every_text_format_yields_the_same_graph`,
//!   `odd_files_give_the_right_graph_or_a_refusal_in_place`.

pub mod cases;
#[cfg(feature = "arrow")]
mod columnar;
mod columns;
mod counted;
pub mod dialect;
mod fault;
mod foreign;
pub mod input;
mod intern;
mod numbering;
mod parse;
mod pool;
mod record;
mod sg;
mod sniff;
mod text;

use std::path::Path;

pub use dialect::{Comments, Delimiter, Format, Ids};
pub use fault::RECORD_BYTES_MAX;
pub use input::Compression;
pub(crate) use sg::write_sg;
pub use sg::{SgIds, export_sg};

use littoral_base::names::folder_of;

use crate::builder::external::{Budget, Sorter, Vertices};
use crate::builder::write::{self, to_file};
use crate::builder::{
    BuildOptions, BuildReport, EdgeList, EdgeSink, Existing, Hooks, InMemory, build_in_memory,
};
use crate::error::{Error, Kind, Result};
#[cfg(not(feature = "arrow"))]
use crate::feature::without_arrow;

/// What to take for granted instead of finding out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// The input's format.
    pub format: Option<Format>,
    /// What ids are.
    pub ids: Option<Ids>,
    /// Whether edges have a direction.
    pub directed: Option<bool>,
    /// Whether the first record names columns.
    pub header: Option<bool>,
    /// The columns of source, target and perhaps weight, by name or by number from one.
    pub columns: Option<Vec<String>>,
    /// What separates fields.
    pub delimiter: Option<Delimiter>,
    /// Which lines are comments.
    pub comments: Option<Comments>,
    /// Threads that parse; without it as many as there are processors.
    pub threads: Option<usize>,
}

/// What the input turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its format.
    pub format: Format,
    /// How it was compressed.
    pub compression: Compression,
    /// What separates its fields; none in binary formats.
    pub delimiter: Option<Delimiter>,
    /// The names of its columns.
    pub header: Option<Vec<String>>,
    /// Source, target, and weight when there is one: the columns' names, or numbers from one.
    pub columns: Vec<String>,
    /// What its ids are.
    pub ids: Ids,
    /// How many lines; 0 for binary formats.
    pub lines: u64,
}

/// Reads an input file's edges.
///
/// # Errors
/// `Kind::Input` with path and line for whatever is wrong with it, `Kind::Unsupported` for another
/// compression, `Kind::Io`, `Kind::Interrupted`.
pub fn read(
    input: &Path,
    options: &ImportOptions,
    hooks: &mut Hooks<'_>,
) -> Result<(EdgeList, Source)> {
    read_into(input, options, &mut InMemory, hooks)
}

/// As [`read`]; edges that the sink takes are not in the list.
fn read_into(
    input: &Path,
    options: &ImportOptions,
    sink: &mut dyn EdgeSink,
    hooks: &mut Hooks<'_>,
) -> Result<(EdgeList, Source)> {
    let format = options.format.unwrap_or_else(|| Format::of_path(input));
    if format.is_columnar() {
        return read_columnar(input, format, options, sink, hooks);
    }
    if format.is_counted() {
        return read_counted(input, format, options, sink, hooks);
    }
    if !format.is_serialized() {
        let foreign = if options.format.is_none() { foreign::by_name(input) } else { None };
        return foreign.map_or_else(|| text::read(input, format, options, sink, hooks), Err);
    }
    refuse_table_options(input, format, options)?;
    let edges = sg::read(input, format == Format::Wsg, options.directed, sink, hooks)?;
    let source = numbered(format, Compression::None, 0);
    Ok((edges, source))
}

#[cfg(feature = "arrow")]
use columnar::read as read_columnar;

/// Refuses a table of typed columns.
#[cfg(not(feature = "arrow"))]
fn read_columnar(
    input: &Path,
    format: Format,
    _: &ImportOptions,
    _: &mut dyn EdgeSink,
    _: &mut Hooks<'_>,
) -> Result<(EdgeList, Source)> {
    std::fs::File::open(input).map_err(|e| crate::error::io("cannot open", input, e))?;
    let what = if format == Format::Parquet { "a Parquet file" } else { "an Arrow file" };
    Err(without_arrow(&format!("{} is {what}", input.display())).at_path(input))
}

/// A file whose vertices are numbers by its format.
fn numbered(format: Format, compression: Compression, lines: u64) -> Source {
    Source {
        format,
        compression,
        delimiter: None,
        header: None,
        columns: Vec::new(),
        ids: Ids::Numbers,
        lines,
    }
}

/// Refuses options that say how to read a table, for a format that is none.
fn refuse_table_options(input: &Path, format: Format, options: &ImportOptions) -> Result<()> {
    let given = ImportOptions { format: None, directed: None, threads: None, ..options.clone() };
    if given == ImportOptions::default() {
        return Ok(());
    }
    let what = "options about headers, columns, ids, delimiters and comments go with tables";
    let context = format!("{}: {what}; {} has none", input.display(), format.name());
    Err(Error::new(Kind::Argument, context).at_path(input))
}

/// Reads a file that counts its vertices and edges.
fn read_counted(
    input: &Path,
    format: Format,
    options: &ImportOptions,
    sink: &mut dyn EdgeSink,
    hooks: &mut Hooks<'_>,
) -> Result<(EdgeList, Source)> {
    refuse_table_options(input, format, options)?;
    let read = counted::read(input, format, options, sink, hooks)?;
    let counted::Read { edges, compression, lines } = read;
    Ok((edges, numbered(format, compression, lines)))
}

/// Imports `input` as the graph file `output`, which is opened before a byte is read; within
/// [`BuildOptions::memory_bytes`] where that is given.
///
/// # Errors
/// As [`read`] and [`build_file`](crate::builder::build_file); nothing is written then.
pub fn import(
    input: &Path,
    output: &Path,
    existing: Existing,
    options: &ImportOptions,
    build: &BuildOptions,
    hooks: &mut Hooks<'_>,
) -> Result<(BuildReport, Source)> {
    let same =
        input.canonicalize().ok().zip(output.canonicalize().ok()).is_some_and(|(a, b)| a == b);
    if same {
        let context = format!("{} is both input and output", input.display());
        return Err(Error::new(Kind::Argument, context).at_path(input));
    }
    to_file(output, existing, |out, temporary| {
        let Some(memory_bytes) = build.memory_bytes else {
            let (edges, source) = read(input, options, hooks)?;
            return Ok((write::build(edges, build, out, temporary, hooks)?, source));
        };
        let mut sorter = Sorter::new(build, Budget::new(memory_bytes)?, folder_of(output));
        let (rest, source) = read_into(input, options, &mut sorter, hooks)?;
        let vertices = Vertices { count: rest.vertices, labels: rest.labels };
        Ok((sorter.finish(vertices, out, temporary, hooks)?, source))
    })
}

/// Imports `input` as an image in memory, for graphs used once; memory is not bounded.
///
/// # Errors
/// As [`read`] and [`build_in_memory`].
pub fn import_in_memory(
    input: &Path,
    options: &ImportOptions,
    build: &BuildOptions,
    hooks: &mut Hooks<'_>,
) -> Result<(Vec<u8>, BuildReport, Source)> {
    let (edges, source) = read(input, options, hooks)?;
    let (image, report) = build_in_memory(edges, build, hooks)?;
    Ok((image, report, source))
}
