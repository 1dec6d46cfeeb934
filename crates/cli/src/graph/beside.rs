//! `littoral bench graph`: kernels on a user's graph, the edges on modelled flash beside the same
//! in DRAM, as the claims of paper 003 measure it.

use littoral::graph::kernels::Kernel;
use littoral_papers::flash::graph::{PROFILE, SOURCES, VersusDram, versus_dram};
use serde_json::{Value, json};

use super::open::open_with;
use crate::args::BenchGraphArgs;
use crate::failure::Failure;

/// Measures each kernel.
pub(crate) fn beside_dram(args: &BenchGraphArgs) -> Result<Value, Failure> {
    let named = |name: &String| Kernel::named(name, &|_| None);
    let kernels = args.kernels.iter().map(named).collect::<Result<Vec<_>, _>>()?;
    let graph = open_with(&args.file, &args.reading)?;
    let mut rows = Vec::new();
    for kernel in kernels {
        rows.push(row(kernel, &versus_dram(&graph, kernel, args.trials.max(1) as usize)?));
    }
    Ok(json!({
        "schema": "littoral.bench.graph/1",
        "file": args.file.display().to_string(),
        "vertices_count": graph.vertices(),
        "edges_count": graph.header().edges(),
        "profile": PROFILE,
        "clock": "paced",
        "trials_count": args.trials.max(1),
        "sources_count": SOURCES,
        "kernels": rows,
    }))
}

fn row(kernel: Kernel, found: &VersusDram) -> Value {
    json!({
        "kernel": kernel.name(),
        "dram_ns": found.dram.total_ns(),
        "plain_dram_ns": found.plain.total_ns(),
        "pointer_ns": found.pointer.total_ns(),
        "copy_ns": found.copy.total_ns(),
        "pointer_over_dram_ratio": found.pointer_ratio(),
        "copy_over_dram_ratio": found.copy_ratio(),
        "pointer_over_plain_ratio": found.plain_ratio(),
        "reads_count": found.pointer.reads_count,
        "read_bytes": found.pointer.read_bytes,
        "dram_form": found.dram.wording,
    })
}
