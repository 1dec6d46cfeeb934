//! A graph to run on: a graph file, or an edge list taken into memory first.

use std::io::Read as _;
use std::path::Path;

use littoral::graph::build::BuildOptions;
use littoral::graph::format::file::GraphFile;
use littoral::graph::format::header::MAGIC;
use littoral::graph::import::{ImportOptions, import_in_memory};

use crate::failure::Failure;
use crate::{interrupt, progress};

/// Opens a graph file, or takes an edge list into memory for a job that needs it once.
pub(super) fn open_or_import(path: &Path) -> Result<GraphFile, Failure> {
    if is_graph_file(path) {
        return Ok(GraphFile::open(path)?);
    }
    let mut hooks = progress::hooks();
    let (options, build) = (ImportOptions::default(), BuildOptions::default());
    let (image, _, _) = import_in_memory(path, &options, &build, &mut hooks)?;
    drop(hooks);
    interrupt::unwatch();
    Ok(GraphFile::from_image(image)?)
}

fn is_graph_file(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    let read = std::fs::File::open(path).and_then(|mut f| f.read_exact(&mut magic));
    read.is_ok() && &magic == MAGIC
}
