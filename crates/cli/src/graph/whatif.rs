//! `littoral graph whatif`: the user's graph on a grid of modelled devices, one curve, one
//! sentence.

use std::time::Duration;

use littoral::base::error::Class;
use littoral::base::units::{PerSecond, Picos};
use littoral_bench::report::study::{Point, Study};
use littoral_bench::whatif::{Options, study};
use serde_json::{Value, json};

use crate::args::WhatifArgs;
use crate::failure::{Failure, Outcome};
use crate::graph::open::open_or_import;
use crate::out::{self, Format};
use crate::progress::Share;

/// Columns of the drawn curve.
const CURVE_COLUMNS: f64 = 40.0;
/// Long enough for small graphs to be measured well, short enough to wait for.
const TIME_MAX: Duration = Duration::from_secs(8);

/// Runs the study.
pub(super) fn run(args: &WhatifArgs) -> Outcome {
    let options =
        Options { latency: args.latency, iops: args.iops, dram: args.dram, time_max: TIME_MAX };
    let graph = open_or_import(&args.file)?;
    let bar = Share::new("measuring");
    let name = args.file.display().to_string();
    let study = study(&graph, &name, &options, |share| bar.show(share))?;
    drop(bar);
    match args.shown.format {
        Format::Json => {
            let value = serde_json::to_value(&study).map_err(|e| {
                Failure::new(Class::Environment, format!("cannot show the result: {e}"))
            })?;
            out::show(Format::Json, &value)
        }
        Format::Text => out::show(Format::Text, &text(&study)),
    }
}

/// The study as people read it: the grid as a table, the curve of the best rate, the sentence.
fn text(study: &Study) -> Value {
    let row = |p: &Point| {
        json!({
            "latency_ns": p.latency_ns,
            "reads_per_s": p.reads_per_s,
            "time_ns": p.time_ns,
            "over_dram_ratio": p.time_over_dram_ratio,
            "searches_ratio": p.searches_over_dram_ratio,
            "pagerank_ratio": p.pagerank_over_dram_ratio,
            "components_ratio": p.components_over_dram_ratio,
        })
    };
    json!({
        "graph": study.graph,
        "vertices_count": study.vertices_count,
        "arcs_count": study.arcs_count,
        "job": study.kernel,
        "clock": study.clock,
        "time_in_dram_ns": study.dram_time_ns,
        "dram needed": study.memory,
        "how it was measured": study.notes,
        "the grid, over the same job in DRAM": study.points.iter().map(row).collect::<Vec<_>>(),
        "time over DRAM by latency, at the highest rate": curve(study),
        "sentence": study.sentence,
    })
}

/// One line a latency, a bar as long as its time over DRAM.
fn curve(study: &Study) -> Vec<String> {
    let rate = study.points.iter().map(|p| p.reads_per_s).fold(0.0, f64::max);
    let best: Vec<&Point> = study.points.iter().filter(|p| p.reads_per_s == rate).collect();
    let longest = best.iter().map(|p| p.time_over_dram_ratio).fold(1.0, f64::max);
    let line = |p: &&Point| {
        let bar = "#".repeat((p.time_over_dram_ratio / longest * CURVE_COLUMNS).round() as usize);
        let latency = Picos((p.latency_ns * 1e3) as u64).to_string();
        format!("{latency:>8}  {bar:40}  {:.2}", p.time_over_dram_ratio)
    };
    let head = format!("{} reads", PerSecond(rate));
    std::iter::once(head).chain(best.iter().map(line)).collect()
}
