//! `littoral bench`: a part measured by itself.

use littoral::Machine;
use littoral::base::clock::ClockKind;
use littoral::device::profile::DeviceKind;
use littoral::device::profile::machine::{DeviceSpec, MachineSpec, Medium};
use littoral::index::index::Engine;
use littoral::machine::choice::Word;
use littoral_bench::device::{self, DeviceRow};
use littoral_bench::kv::{self, Asked, Latencies};
use littoral_bench::ring::{self, PerRead};
use littoral_papers::sdtm::table::{self, Row};
use serde_json::{Value, json};

use crate::args::{BenchCommand, BenchHeapArgs, BenchKvArgs, BenchRingArgs};
use crate::failure::{Failure, Outcome};
use crate::graph::beside_dram;
use crate::{interrupt, out};

const KV_TITLES: [(&str, &str); 1] = [(
    "operations",
    "from intended start to answer, from memory apart; a change is answered when it is durable",
)];
const HEAP_TITLES: [(&str, &str); 1] =
    [("engines", "one operation on DRAM with real flushes, nothing modelled")];
const GRAPH_TITLES: [(&str, &str); 1] =
    [("kernels", "time over all sources, the least of the rounds for each")];
const RING_TITLES: [(&str, &str); 3] = [
    ("steps", "one step: a read of 64 B"),
    ("bounds", "reads at 4 us, over the bound"),
    ("interfaces", "interfaces at zero latency"),
];

/// Runs one measurement.
pub(crate) fn run(command: &BenchCommand) -> Outcome {
    match command {
        BenchCommand::Ring(args) if args.on.machine.is_some() => {
            out::show(args.shown.format, &flash_figures(args)?)
        }
        BenchCommand::Heap(args) if args.on.machine.is_some() => {
            out::show(args.shown.format, &memory_figures(args)?)
        }
        BenchCommand::Ring(args) => {
            out::show_titled(args.shown.format, &ring_figures(args)?, &RING_TITLES)
        }
        BenchCommand::Heap(args) => {
            out::show_titled(args.shown.format, &heap_figures(args)?, &HEAP_TITLES)
        }
        BenchCommand::Graph(args) => {
            out::show_titled(args.shown.format, &beside_dram(args)?, &GRAPH_TITLES)
        }
        BenchCommand::Kv(args) => {
            out::show_titled(args.shown.format, &kv_figures(args)?, &KV_TITLES)
        }
    }
}

/// What was measured of a machine's device.
fn device_figures(
    (machine, name): (&Machine, &str),
    (clock, conditions): (ClockKind, String),
    trials: u32,
    rows: &[DeviceRow],
) -> Value {
    let row = |r: &DeviceRow| json!({"work": r.work, "time_ns_p50": r.time_ns, "operations_per_s": 1e9 / r.time_ns});
    json!({
        "schema": "littoral.bench.device/1",
        "machine": machine.origin(), "device": name, "conditions": conditions,
        "clock": clock.name(), "trials_count": trials.max(1),
        "operations": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn flash_figures(args: &BenchRingArgs) -> Result<Value, Failure> {
    let (machine, name) = args.on.choice().resolve(DeviceKind::Flash, None, Word::Dram)?;
    let device = machine.flash(&name)?;
    let words = (device.clock(), device.describe());
    let rows = device::flash(&device, args.trials)?;
    Ok(device_figures((&machine, &name), words, args.trials, &rows))
}

fn memory_figures(args: &BenchHeapArgs) -> Result<Value, Failure> {
    let (machine, name) = args.on.choice().resolve(DeviceKind::Memory, None, Word::Dram)?;
    let path = machine.spec().device(&name)?.medium.path().map(std::path::Path::to_path_buf);
    let made = path.filter(|p| !p.exists());
    if let Some(path) = &made {
        interrupt::remove_at_exit(path.clone());
    }
    let memory = machine.new_memory(&name)?;
    let words = (memory.clock(), format!("made durable by {}", memory.name()));
    let rows = device::memory(memory, args.trials);
    if let Some(path) = made {
        // A file that is made for the measurement is removed after it.
        let _ = std::fs::remove_file(path);
    }
    Ok(device_figures((&machine, &name), words, args.trials, &rows?))
}

/// The zoned device that is measured: a model unless another one is asked for.
fn zoned(args: &BenchKvArgs) -> Result<(Machine, String), Failure> {
    let Some(dir) = &args.dir else {
        let mut choice = args.on.choice();
        if !choice.is_given() {
            choice.profile = Some("zns-paper".to_owned());
        }
        return Ok(choice.resolve(DeviceKind::Zoned, None, Word::Exact(Medium::Ram))?);
    };
    let medium = Medium::File(dir.join("bench-kv.zones"));
    let device = DeviceSpec::new("zones", DeviceKind::Zoned, medium);
    let device = device.with_zones(&littoral::index::kv::Options::new(Engine::Zb, 0).geometry)?;
    Ok((Machine::of(MachineSpec::one(device), "options"), "zones".to_owned()))
}

fn kv_figures(args: &BenchKvArgs) -> Result<Value, Failure> {
    let asked = Asked {
        engine: args.engine.0,
        workload: args.workload,
        distribution: args.distribution.0,
        records: args.records,
        operations: args.operations,
        rate_per_s: args.rate.0,
        batch: args.batch,
        seed: args.seed,
    };
    let (machine, name) = zoned(args)?;
    // A file that is made for the measurement is removed after it.
    let file = machine.spec().device(&name)?.medium.path().filter(|p| !p.exists());
    if let Some(path) = file {
        interrupt::remove_at_exit(path.to_path_buf());
    }
    let found = kv::run(&asked, machine.zoned(&name)?);
    if let Some(path) = file {
        // One that stays behind is refused by name next time.
        let _ = std::fs::remove_file(path);
    }
    let found = found?;
    let row = |(name, l): &(&'static str, Latencies)| {
        json!({
            "operation": name, "done_count": l.count,
            "from_memory_share": l.from_memory_count as f64 / l.count as f64,
            "latency_ns_mean": l.times.map(|t| t.mean_ns),
            "latency_ns_p50": l.times.map(|t| t.p50_ns),
            "latency_ns_p99": l.times.map(|t| t.p99_ns),
            "latency_ns_max": l.times.map(|t| t.max_ns),
        })
    };
    let untimed: Vec<&str> =
        found.rows.iter().filter(|(_, l)| l.times.is_none()).map(|(name, _)| *name).collect();
    let sentence = (!untimed.is_empty()).then(|| {
        format!(
            "Every {} was answered from the store's memory: the device was not asked, and virtual \
             time counts the device alone. Measure with --dir, or with more records than memory \
             holds.",
            untimed.join(" and every ")
        )
    });
    Ok(json!({
        "schema": "littoral.bench.kv/2",
        "engine": args.engine.0.name(), "workload_id": args.workload,
        "distribution": args.distribution.0.name(),
        "records_count": args.records, "operations_count": args.operations,
        "synced_every_count": args.batch, "asked_rate_per_s": args.rate.0,
        "reached_rate_per_s": found.rate_per_s, "seed_id": args.seed,
        "clock": found.clock, "made_of": found.made_of,
        "operations": found.rows.iter().map(row).collect::<Vec<_>>(),
        "written": {
            "tree_blocks_count": found.counts.tree_blocks,
            "redo_blocks_count": found.counts.redo_blocks,
            "in_place_blocks_count": found.counts.map_blocks,
            "collected_blocks_count": found.counts.gc_blocks,
        },
        "sentence": sentence,
    }))
}

fn ring_figures(args: &BenchRingArgs) -> Result<Value, Failure> {
    ring::check_array(args.array.0)?;
    Ok(json!({
        "schema": "littoral.bench.ring/2",
        "trials_count": args.trials.max(1),
        "steps": steps(args)?,
        "bounds": bounds(args)?,
        "interfaces": interfaces(args)?,
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
        "schema": "littoral.bench.heap/2",
        "trials_count": args.trials.max(1),
        "clock": "wall",
        "engines": rows.iter().map(shown).collect::<Vec<_>>(),
    }))
}

fn row(form: &str, array_bytes: u64, per: PerRead) -> Value {
    json!({
        "form": form, "clock": "wall", "array_bytes": array_bytes,
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
        rows.push(row("async, fixed length, lightweight", found.array_bytes, found.fixed_paced));
        let by_hand = found.fixed_hand_paced;
        rows.push(row("by hand, fixed length, lightweight", found.array_bytes, by_hand));
        rows.push(row("async, fixed length, DRAM", found.array_bytes, found.fixed_dram));
    }
    Ok(rows)
}

fn bounds(args: &BenchRingArgs) -> Result<Vec<Value>, Failure> {
    let rows = ring::efficiency(args.trials, args.array.0)?;
    let shown = rows.iter().map(|row| {
        json!({
            "contexts_count": row.contexts,
            "clock": "paced",
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
        "interface": "lightweight", "doorbell": "none", "clock": "paced",
        "cpu_ns": found.lightweight.cpu_ns, "device_side_ns": 0.0,
    });
    let others = found.doorbells.iter().map(|row| {
        json!({
            "interface": "doorbell and queue",
            "doorbell": format!("{:?}, {:?}", row.doorbell, row.batching),
            "clock": "paced",
            "cpu_ns": row.per_read.cpu_ns,
            "device_side_ns": found.device_side_ns,
        })
    });
    Ok(std::iter::once(light).chain(others).collect())
}
