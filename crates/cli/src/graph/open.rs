//! A graph to run on: a graph file, or an edge list taken into memory first, and the device that
//! its edges are read from.

use std::path::Path;

use littoral::base::error::Class;
use littoral::device::flash::opened::FlashDevice;
use littoral::device::profile::DeviceKind;
use littoral::graph::builder::BuildOptions;
use littoral::graph::format::file::GraphFile;
use littoral::graph::import::{ImportOptions, import_in_memory};
use littoral::graph::medium::Store;
use littoral::machine::choice::{Choice, Word};
use serde_json::Value;

use crate::args::{OnArgs, ReadingArgs};
use crate::failure::Failure;
use crate::{interrupt, progress};

/// The file that edges are read from; `-` is standard input.
pub(super) fn input(path: &Path) -> &Path {
    if path == Path::new("-") { Path::new("/dev/stdin") } else { path }
}

/// Opens a graph file, or takes an edge list into memory for a job that needs it once; `args` is
/// what the caller says about the list.
pub(super) fn open_with(path: &Path, args: &ReadingArgs) -> Result<GraphFile, Failure> {
    let path = input(path);
    if GraphFile::is_at(path) {
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
    interrupt::unwatch()?;
    Ok(GraphFile::from_image(image)?)
}

/// The flash device that a command asks for; in DRAM unless it does.
pub(super) fn device(choice: &Choice, file: &Path) -> Result<FlashDevice, Failure> {
    // An edge list is taken into memory, so that no device can read it; a path that leads nowhere
    // is named when the graph is opened.
    let own = (GraphFile::is_at(file) || !file.exists()).then_some(file);
    let (machine, name) = choice.resolve(DeviceKind::Flash, own, Word::Dram)?;
    Ok(machine.flash(&name)?)
}

/// What was read through a device: its name and what is real of it.
pub(super) struct Through(Option<(&'static str, String)>);

impl Through {
    /// Adds the device to a report.
    pub(super) fn add_to(&self, value: &mut Value) {
        if let Some((medium, conditions)) = &self.0 {
            value["medium"] = (*medium).into();
            value["conditions"] = conditions.as_str().into();
        }
    }
}

/// A graph as the device that was asked for delivers it: every byte is read through the device.
pub(super) fn through(
    on: &OnArgs,
    file: &Path,
    graph: GraphFile,
) -> Result<(GraphFile, Through), Failure> {
    let choice = on.choice();
    if !choice.is_given() {
        return Ok((graph, Through(None)));
    }
    let store = Store::new(&graph, device(&choice, file)?)?;
    let bytes = store.device().read_prefix(graph.header().file_bytes)?;
    let words = (store.name(), store.describe());
    Ok((GraphFile::from_image(bytes)?, Through(Some(words))))
}

/// What the caller says about an edge list.
pub(super) fn reading(args: &ReadingArgs) -> Result<ImportOptions, Failure> {
    let either = |yes: bool, no: bool| if yes { Some(true) } else { no.then_some(false) };
    Ok(ImportOptions {
        format: args.from.as_deref().map(str::parse).transpose()?,
        ids: args.ids.map(|ids| ids.0),
        directed: either(args.directed, args.undirected),
        header: either(args.header, args.no_header),
        columns: args.columns.clone(),
        delimiter: args.delimiter.as_deref().map(str::parse).transpose()?,
        comments: args.comment.as_deref().map(str::parse).transpose()?,
        threads: None,
    })
}
