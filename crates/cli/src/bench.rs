//! `littoral bench`: a part measured by itself.

use littoral::base::error::Class;
use littoral_bench::ring::{self, PerRead};
use littoral_bench::sdtm::table::{self, Row};
use littoral_bench::zbtree::open_loop::{self, Asked, Latencies, Medium};
use serde_json::{Value, json};

use crate::args::{BenchCommand, BenchHeapArgs, BenchKvArgs, BenchRingArgs};
use crate::failure::{Failure, Outcome};
use crate::out;

/// Runs one measurement.
pub(crate) fn run(command: &BenchCommand) -> Outcome {
    match command {
        BenchCommand::Ring(args) => out::show(args.shown.format, &ring_figures(args)?),
        BenchCommand::Heap(args) => out::show(args.shown.format, &heap_figures(args)?),
        BenchCommand::Kv(args) => out::show(args.shown.format, &kv_figures(args)?),
    }
}

fn kv_figures(args: &BenchKvArgs) -> Result<Value, Failure> {
    let asked = Asked {
        engine: littoral::index::index::Engine::named(&args.engine)?,
        workload: args.workload,
        distribution: args.distribution.parse().map_err(|e| Failure::new(Class::Usage, e))?,
        records: args.records,
        operations: args.operations,
        rate_per_s: args.rate.0,
        batch: args.batch,
        medium: match &args.dir {
            Some(dir) => Medium::File(dir.clone()),
            None => Medium::Model(args.profile.clone()),
        },
        seed: args.seed,
    };
    let found = open_loop::run(&asked)?;
    let row = |(name, l): &(&'static str, Latencies)| {
        json!({
            "operation": name, "done_count": l.count,
            "latency_ns_mean": l.mean_ns, "latency_ns_p50": l.p50_ns, "latency_ns_p99": l.p99_ns,
            "latency_ns_max": l.max_ns,
        })
    };
    Ok(json!({
        "schema": "littoral.bench.kv/1",
        "engine": args.engine, "workload_id": args.workload, "distribution": args.distribution,
        "records_count": args.records, "operations_count": args.operations,
        "synced_every_count": args.batch, "asked_rate_per_s": args.rate.0,
        "reached_rate_per_s": found.rate_per_s, "seed_id": args.seed,
        "clock": found.clock, "made of": found.made_of,
        "from intended start to answer; a change is answered when it is durable":
            found.rows.iter().map(row).collect::<Vec<_>>(),
        "written": {
            "tree_blocks_count": found.counts.tree_blocks,
            "redo_blocks_count": found.counts.redo_blocks,
            "in_place_blocks_count": found.counts.map_blocks,
            "collected_blocks_count": found.counts.gc_blocks,
        },
    }))
}

fn ring_figures(args: &BenchRingArgs) -> Result<Value, Failure> {
    Ok(json!({
        "schema": "littoral.bench.ring/1",
        "trials_count": args.trials,
        "step, 64 B reads (clock: wall and thread CPU)": steps(args)?,
        "reads at 4 us over the bound (clock: paced)": bounds(args)?,
        "interfaces (clock: paced, zero latency)": interfaces(args)?,
    }))
}

fn heap_figures(args: &BenchHeapArgs) -> Result<Value, Failure> {
    let shown = |row: &Row| {
        json!({
            "work": row.work, "engine": row.engine, "cpu_ns": row.cpu_ns,
            "operations_per_s": row.per_s, "aborts_share": row.aborts_share,
        })
    };
    let rows = table::rows(args.trials.max(1) as usize)?;
    Ok(json!({
        "schema": "littoral.bench.heap/1",
        "trials_count": args.trials.max(1),
        "an operation on DRAM with real flushes, nothing modelled (clock: CPU and wall)":
            rows.iter().map(shown).collect::<Vec<_>>(),
    }))
}

fn row(form: &str, array_bytes: u64, per: PerRead) -> Value {
    json!({
        "form": form, "array_bytes": array_bytes,
        "cpu_ns": per.cpu_ns, "wall_ns": per.wall_ns, "reads_per_s": 1e9 / per.cpu_ns,
    })
}

fn steps(args: &BenchRingArgs) -> Result<Vec<Value>, Failure> {
    let mut rows = Vec::new();
    for found in [ring::step(args.trials)?, ring::step_in_l2(args.trials)?] {
        rows.push(row("async, lightweight", found.array_bytes, found.async_paced));
        rows.push(row("by hand, lightweight", found.array_bytes, found.hand_paced));
        rows.push(row("async, DRAM", found.array_bytes, found.async_dram));
        rows.push(row("by hand, DRAM", found.array_bytes, found.hand_dram));
    }
    Ok(rows)
}

fn bounds(args: &BenchRingArgs) -> Result<Vec<Value>, Failure> {
    let rows = ring::efficiency(args.trials, args.array.0)?;
    let shown = rows.iter().map(|row| {
        json!({
            "contexts_count": row.contexts,
            "cap_per_s": row.cap_miops.map(|m| m * 1e6),
            "reads_per_s": row.miops * 1e6,
            "bound_per_s": row.bound_miops() * 1e6,
            "efficiency_ratio": row.efficiency(),
            "polls_per_read_ratio": row.polls_per_read,
            "pauses_count": row.pauses_count,
        })
    });
    Ok(shown.collect())
}

fn interfaces(args: &BenchRingArgs) -> Result<Vec<Value>, Failure> {
    let found = ring::interface(args.trials)?;
    let light = json!({
        "interface": "lightweight", "doorbell": "none", "cpu_ns": found.lightweight.cpu_ns,
        "of_it_device_side_ns": 0.0,
    });
    let others = found.doorbells.iter().map(|row| {
        json!({
            "interface": "doorbell and queue",
            "doorbell": format!("{:?}, {:?}", row.doorbell, row.batching),
            "cpu_ns": row.per_read.cpu_ns,
            "of_it_device_side_ns": found.device_side_ns,
        })
    });
    Ok(std::iter::once(light).chain(others).collect())
}
