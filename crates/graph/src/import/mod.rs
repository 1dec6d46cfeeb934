//! Import: somebody's edge list becomes a graph file.
//!
//! Lifecycle: format by name ([`dialect`]) -> front of the file through gzip or zstd ([`input`]) ->
//! delimiter, header and columns from the first records ([`sniff`]) -> edges with dense ids in
//! order of first appearance ([`text`]) -> [`crate::builder`].
//!
//! Invariants
//! - A file that can be read in two ways is refused, with the option that decides between them.
//! - The output's final name appears only once the whole file is there; the input is never touched.
//! - Vertices are those that appear in an edge (in formats that count vertices, all of them).

pub mod cases;
mod columns;
mod counted;
pub mod dialect;
mod fault;
mod foreign;
pub mod input;
mod intern;
mod parse;
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

use crate::builder::write::{self, to_file};
use crate::builder::{BuildOptions, BuildReport, EdgeList, Existing, Hooks, build_in_memory};
use crate::error::{Error, Kind, Result};

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
    let format = options.format.unwrap_or_else(|| Format::of_path(input));
    if format.is_counted() {
        return read_counted(input, format, options, hooks);
    }
    if !format.is_serialized() {
        let foreign = if options.format.is_none() { foreign::by_name(input) } else { None };
        return foreign.map_or_else(|| text::read(input, format, options, hooks), Err);
    }
    let mut edges = sg::read(input, format == Format::Wsg, hooks)?;
    edges.directed = options.directed.unwrap_or(edges.directed);
    let source = numbered(format, Compression::None, 0);
    Ok((edges, source))
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

/// Reads a file that counts its vertices and edges.
fn read_counted(
    input: &Path,
    format: Format,
    options: &ImportOptions,
    hooks: &mut Hooks<'_>,
) -> Result<(EdgeList, Source)> {
    let given = ImportOptions { format: None, directed: None, threads: None, ..options.clone() };
    if given != ImportOptions::default() {
        let what = "options about headers, columns, ids, delimiters and comments go with tables";
        let context = format!("{}: {what}; {} has none", input.display(), format.name());
        return Err(Error::new(Kind::Argument, context));
    }
    let counted::Read { mut edges, compression, lines } = counted::read(input, format, hooks)?;
    if options.directed == Some(true) && !edges.directed {
        let what = "--directed: the file says that its edges have no direction";
        return Err(Error::new(Kind::Argument, format!("{}: {what}", input.display())));
    }
    edges.directed = options.directed.unwrap_or(edges.directed);
    Ok((edges, numbered(format, compression, lines)))
}

/// Imports `input` as the graph file `output`, which is opened before a byte is read.
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
        return Err(Error::new(Kind::Argument, context));
    }
    to_file(output, existing, |out, temporary| {
        let (edges, source) = read(input, options, hooks)?;
        Ok((write::build(edges, build, out, temporary, hooks)?, source))
    })
}

/// Imports `input` as an image in memory, for graphs used once.
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
