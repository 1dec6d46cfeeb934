//! `littoral graph whatif`: the user's graph on modelled devices, a verdict per kind of job.

use std::fmt::Write as _;
use std::time::Duration;

use littoral::Machine;
use littoral::base::error::Class;
use littoral::base::units::{Bytes, PerSecond, Picos};
use littoral::device::profile::machine::DeviceSpec;
use littoral::device::profile::{DeviceKind, Profile};
use littoral::graph::kernels::Kernel;
use littoral_bench::files;
use littoral_bench::report::{self, Document};
use littoral_bench::whatif::model::Bound;
use littoral_bench::whatif::study::{Cell, DeviceRow, JobStudy, Study};
use littoral_bench::whatif::verdict::Grade;
use littoral_bench::whatif::{Options, Part, study};

use crate::args::WhatifArgs;
use crate::failure::{Failure, Outcome};
use crate::graph::open::open_with;
use crate::out::{self, Format};
use crate::progress::Share;

/// Runs the study.
pub(super) fn run(args: &WhatifArgs) -> Outcome {
    let options = options(args)?;
    if let Some(path) = &args.html {
        out::apart(&args.file, path)?;
        // A study takes its time: a page that cannot be written is an error before it begins.
        files::prove_writable(path)?;
    }
    let graph = open_with(&args.file, &args.reading)?;
    let bar = Share::new("measuring");
    let name = args.file.display().to_string();
    let study = study(&graph, &name, &options, |share| bar.show(share))?;
    drop(bar);
    if let Some(path) = &args.html {
        let page = report::render(&[Document::Study(Box::new(study.clone()))])?;
        files::write_whole(path, page.as_bytes())?;
    }
    match args.shown.format {
        Format::Json => {
            let value = serde_json::to_value(&study).map_err(|e| {
                Failure::new(Class::Environment, format!("cannot show the result: {e}"))
            })?;
            out::show(Format::Json, &value)
        }
        Format::Text => out::bytes(text(&study).as_bytes()),
    }
}

/// The parts that are compared by name, where there are any: profiles, or a machine's devices.
fn parts(args: &WhatifArgs) -> Result<Vec<Part>, Failure> {
    let Some(file) = &args.machine else {
        let profiles = args.profile.iter().map(|name| Profile::open(name));
        return Ok(profiles.map(|p| p.map(Part::from)).collect::<Result<Vec<_>, _>>()?);
    };
    let machine = Machine::open(Some(file))?;
    let devices = &machine.spec().devices;
    let asked: Vec<&DeviceSpec> = match &args.device {
        Some(name) => vec![machine.spec().choose(DeviceKind::Flash, Some(name))?],
        None => devices.iter().filter(|d| d.kind == DeviceKind::Flash).collect(),
    };
    let part = |d: &&DeviceSpec| {
        Some(Part { name: d.name.clone(), profile: d.profile.clone()?, interface: d.interface })
    };
    let found: Vec<Part> = asked.iter().filter_map(part).collect();
    if found.is_empty() {
        let real: Vec<String> = asked.iter().map(|d| d.label()).collect();
        let what = match real.is_empty() {
            true => format!("{}: the machine has no flash device", file.display()),
            false => format!("{}: real, so there is nothing to predict", real.join("; ")),
        };
        let what = what + "; describe a part by `medium = \"ram\"` and a `profile`";
        return Err(Failure::new(Class::Usage, what));
    }
    Ok(found)
}

/// The kernels chosen, each with the library's default options.
fn kernels(args: &WhatifArgs) -> Result<Vec<Kernel>, Failure> {
    let named = |name: &String| Ok(Kernel::named(name, &|_| None)?);
    args.kernels.iter().map(named).collect()
}

fn options(args: &WhatifArgs) -> Result<Options, Failure> {
    Ok(Options {
        latency: args.latency,
        iops: args.iops,
        parts: parts(args)?,
        kernels: kernels(args)?,
        concurrency: args.concurrency.clone(),
        dram: args.dram,
        time: Duration::from_nanos(args.time.as_nanos()),
        reaches_all: false,
    })
}

fn time(ns: f64) -> String {
    let shown = if ns >= 1e3 { 10f64.powf((ns.log10().floor() - 2.0).max(0.0)) } else { 1.0 };
    Picos(((ns / shown).round() * shown * 1e3) as u64).to_string()
}

fn ratio(value: f64) -> String {
    if value >= 9.95 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// The study as people read it: a table per job, the devices, and the answer last.
fn text(study: &Study) -> String {
    let mut text = format!(
        "{}: {} vertices, {} arcs\n{}, {} cores, load {}, revision {}, {}\n",
        study.graph,
        study.vertices_count,
        study.arcs_count,
        study.environment.cpu,
        study.environment.cores_count,
        study.environment.load_average_count,
        study.revision,
        study.date
    );
    for job in &study.jobs {
        text.push_str(&job_text(study, job));
    }
    if !study.is_grid {
        text.push_str(&devices_text(study));
    }
    text.push_str(
        "\ncells: predicted time over DRAM, (measured), the limit that binds: Latency, Reads per\n\
         second, linK, Processor; ~ too close to call whether as good as DRAM (at most 1.1);\n\
         ! differs by more than 15 %; - not run\n",
    );
    for note in &study.notes {
        line(&mut text, &format!("  {note}"));
    }
    text.push('\n');
    for warning in &study.warnings {
        line(&mut text, &format!("note: {warning}"));
    }
    for sentence in &study.answer {
        line(&mut text, sentence);
    }
    text
}

fn line(text: &mut String, words: &str) {
    text.push_str(words);
    text.push('\n');
}

fn job_text(study: &Study, job: &JobStudy) -> String {
    let dram = &job.dram;
    let mut text = format!(
        "\n{} ({}, {})\n  DRAM {} (quartiles {} to {}, {} repetitions, {} measured), {}\n  flash: {} \
         reads, {} in a row, {}, {} of processor time\n",
        job.name,
        job.kind,
        job.kernel,
        time(dram.time_ns),
        time(dram.time_ns_p25),
        time(dram.time_ns_p75),
        dram.repetitions_count,
        time(dram.measured_ns),
        dram.form,
        job.reads_count,
        job.depth_count,
        Bytes(job.read_bytes),
        time(job.processor_ns)
    );
    if study.is_grid {
        text.push_str(&grid(study, job));
    } else {
        for (device, cell) in ranked(study, job) {
            let energy = cell.energy().map_or(String::new(), |e| format!("  {e}"));
            let row = format!("  {:24} {:15}{energy}", device.name, cell_text(cell));
            line(&mut text, row.trim_end());
        }
    }
    line(&mut text, &format!("  -> {}", job.sentence));
    text
}

/// Devices and their cells, the best first.
fn ranked<'s>(study: &'s Study, job: &'s JobStudy) -> Vec<(&'s DeviceRow, &'s Cell)> {
    let mut rows: Vec<(&DeviceRow, &Cell)> = study.devices.iter().zip(&job.cells).collect();
    rows.sort_by(|a, b| a.1.predicted_ratio.total_cmp(&b.1.predicted_ratio));
    rows
}

/// A grid's cells: rates down, latencies across.
fn grid(study: &Study, job: &JobStudy) -> String {
    let different = |figure: fn(&DeviceRow) -> f64| {
        let mut values: Vec<f64> = study.devices.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    };
    let (latencies, rates) = (different(|d| d.latency_ns), different(|d| d.reads_per_s));
    let mut text = format!("  {:>9}", "reads/s");
    for &ns in &latencies {
        write!(text, "  {:>15}", time(ns)).expect("invariant: a string takes all");
    }
    text.push('\n');
    for &rate in rates.iter().rev() {
        write!(text, "  {:>9}", PerSecond(rate).to_string()).expect("invariant: as above");
        for &ns in &latencies {
            let here = |d: &DeviceRow| d.latency_ns == ns && d.reads_per_s == rate;
            let cell = study.devices.iter().position(here).map(|i| &job.cells[i]);
            let words = cell.map_or(String::new(), cell_text);
            write!(text, "  {words:>15}").expect("invariant: as above");
        }
        text.push('\n');
    }
    text
}

fn cell_text(cell: &Cell) -> String {
    let bound = match cell.bound {
        Bound::Latency => "L",
        Bound::Reads => "R",
        Bound::Link => "K",
        Bound::Processor => "P",
    };
    let measured = cell.measured_ratio.map_or("-".to_owned(), ratio);
    let mark = if cell.disagrees { "!" } else { "" };
    let close = if cell.grade == Grade::TooClose { "~" } else { "" };
    format!("{}{close} ({measured}{mark}) {bound}", ratio(cell.predicted_ratio))
}

fn devices_text(study: &Study) -> String {
    let mut rows: Vec<&DeviceRow> = study.devices.iter().collect();
    rows.sort_by(|a, b| a.mean_ratio.total_cmp(&b.mean_ratio));
    let mut text = "\ndevices, by the geometric mean of time over DRAM\n".to_owned();
    for d in rows {
        let price = d.edges_price.map_or(String::new(), |p| format!(", edges cost {p:.2}"));
        let power = d.power_w.map_or(String::new(), |w| format!(", {w:.1} W"));
        let words = format!(
            "  {:24} {:>5}  {}, {} reads per core, link {}, granule {}, longest read {}{price}{power}",
            d.name,
            ratio(d.mean_ratio),
            time(d.latency_ns),
            PerSecond(d.reads_per_s),
            PerSecond(d.link_bytes_per_s).to_string().replace("/s", "B/s"),
            Bytes(d.granule_bytes),
            Bytes(d.read_max_bytes)
        );
        line(&mut text, &words);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_says_its_limit_and_what_to_doubt() {
        let mut cell = Cell {
            predicted_ns: 112.0,
            predicted_ratio: 1.12,
            spread_ratio: 0.0,
            measured_ns: Some(106.0),
            measured_ratio: Some(1.06),
            measured_ratio_p25: None,
            measured_ratio_p75: None,
            bound: Bound::Link,
            grade: Grade::of(1.12, 0.0),
            disagrees: false,
            energy_j: None,
        };
        assert_eq!(cell_text(&cell), "1.12~ (1.06) K");
        (cell.grade, cell.disagrees) = (Grade::Slower, true);
        assert_eq!(cell_text(&cell), "1.12 (1.06!) K");
        cell.measured_ratio = None;
        cell.disagrees = false;
        assert_eq!(cell_text(&cell), "1.12 (-) K");
    }

    #[test]
    fn times_and_ratios_have_three_digits_or_fewer() {
        assert_eq!(
            [1234567.0, 999.4, 4500.0, 20_000.0].map(time),
            ["1.23 ms", "999 ns", "4.5 us", "20 us"]
        );
        assert_eq!([1.0, 9.94, 11.4].map(ratio), ["1.00", "9.94", "11"]);
    }
}
