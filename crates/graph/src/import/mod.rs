//! Import: somebody's edge list becomes a graph file.
//!
//! Lifecycle: format by name ([`dialect`]) -> lines through gzip or zstd ([`input`]) -> edges with
//! dense ids in order of first appearance -> [`crate::build`].
//!
//! Invariants
//! - The output's final name appears only once the whole file is there; the input is never touched.
//! - Vertices are those that appear in an edge (in `.sg`, all that the file counts).

pub mod dialect;
pub mod input;
mod intern;
mod sg;
mod text;

use std::path::Path;

pub use dialect::{Format, Ids};
pub use input::Compression;
pub use sg::{SgIds, export_sg};

use crate::build::{BuildOptions, BuildReport, EdgeList, Hooks, build_file, build_in_memory};
use crate::error::{Error, Kind, Result};

/// What to take for granted instead of finding out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// The input's format.
    pub format: Option<Format>,
    /// What ids are.
    pub ids: Option<Ids>,
    /// Whether edges have a direction.
    pub directed: Option<bool>,
    /// Whether the first line names columns.
    pub header: Option<bool>,
}

/// What the input turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its format.
    pub format: Format,
    /// How it was compressed.
    pub compression: Compression,
    /// The names of its columns.
    pub header: Option<Vec<String>>,
    /// What its ids are.
    pub ids: Ids,
    /// How many lines; 0 for binary formats.
    pub lines: u64,
}

impl Source {
    fn new(format: Format, compression: Compression) -> Self {
        Source { format, compression, header: None, ids: Ids::Numbers, lines: 0 }
    }
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
    if !format.is_serialized() {
        return text::read(input, format, options, hooks);
    }
    let mut edges = sg::read(input, format == Format::Wsg, hooks)?;
    edges.directed = options.directed.unwrap_or(edges.directed);
    Ok((edges, Source::new(format, Compression::None)))
}

/// Imports `input` as the graph file `output`.
///
/// # Errors
/// As [`read`] and [`build_file`]; nothing is written then.
pub fn import(
    input: &Path,
    output: &Path,
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
    let (edges, source) = read(input, options, hooks)?;
    Ok((build_file(edges, build, output, hooks)?, source))
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
