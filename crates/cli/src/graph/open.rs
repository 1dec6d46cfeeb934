//! A graph to run on: a graph file, or an edge list taken into memory first.

use std::io::Read as _;
use std::path::Path;

use littoral::base::error::Class;
use littoral::graph::builder::BuildOptions;
use littoral::graph::format::file::GraphFile;
use littoral::graph::format::header::MAGIC;
use littoral::graph::import::{Ids, ImportOptions, import_in_memory};

use crate::args::ReadingArgs;
use crate::failure::Failure;
use crate::{interrupt, progress};

/// Opens a graph file, or takes an edge list into memory for a job that needs it once; `args` is
/// what the caller says about the list.
pub(super) fn open_with(path: &Path, args: &ReadingArgs) -> Result<GraphFile, Failure> {
    if is_graph_file(path) {
        if *args != ReadingArgs::default() {
            let what = format!(
                "{} is a graph file; options for edge lists go with its import",
                path.display()
            );
            return Err(Failure::new(Class::Usage, what));
        }
        return Ok(GraphFile::open(path)?);
    }
    let options = reading(args)?;
    let mut hooks = progress::hooks();
    let (image, _, _) = import_in_memory(path, &options, &BuildOptions::default(), &mut hooks)?;
    drop(hooks);
    interrupt::unwatch();
    Ok(GraphFile::from_image(image)?)
}

/// What the caller says about an edge list.
pub(super) fn reading(args: &ReadingArgs) -> Result<ImportOptions, Failure> {
    let either = |yes: bool, no: bool| if yes { Some(true) } else { no.then_some(false) };
    let ids = args.ids.as_deref().map(|i| if i == "text" { Ids::Text } else { Ids::Numbers });
    Ok(ImportOptions {
        format: args.from.as_deref().map(str::parse).transpose()?,
        ids,
        directed: either(args.directed, args.undirected),
        header: either(args.header, args.no_header),
        columns: args.columns.clone(),
        delimiter: args.delimiter.as_deref().map(str::parse).transpose()?,
        comments: args.comment.as_deref().map(str::parse).transpose()?,
        threads: None,
    })
}

fn is_graph_file(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    let read = std::fs::File::open(path).and_then(|mut f| f.read_exact(&mut magic));
    read.is_ok() && &magic == MAGIC
}
