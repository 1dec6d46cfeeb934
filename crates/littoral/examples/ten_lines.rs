//! The README's ten lines: a graph in memory, breadth-first search on modelled flash, verified.

use littoral::base::clock::WallClock;
use littoral::device::profile::Profile;
use littoral::graph::builder::{BuildOptions, EdgeList, Hooks, build_in_memory};
use littoral::graph::{format::file::GraphFile, kernels, medium};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let edges = EdgeList::new(4, false, vec![[0, 1], [1, 2], [2, 3]]);
    let (image, _) = build_in_memory(edges, &BuildOptions::default(), &mut Hooks::none())?;
    let graph = GraphFile::from_image(image)?;
    let store = medium::Store::in_dram(&graph)?
        .behind(&Profile::named("xlfdd")?, medium::Transfer::Pointer)?;
    let options = kernels::Options { verify: true, ..Default::default() };
    let (report, _) =
        kernels::run(&graph, &store, kernels::Kernel::Bfs, &options, &WallClock::new())?;
    let mut out = std::io::stdout().lock();
    std::io::Write::write_fmt(
        &mut out,
        format_args!("{} ns, {}\n", report.time_ns_min(), report.wording),
    )?;
    Ok(())
}
