//! `push sweep` and `push whatif`: a scan on modelled devices, in virtual time.

use std::path::Path;

use littoral::Machine;
use littoral::base::error::Class;
use littoral::base::units::{PerSecond, Picos};
use littoral::push::api::{About, DataSet, Device as _, Host};
use littoral::push::command::{Command, Opcode, Status};
use littoral::push::device::{Disposition, Machine as Model, Outcome as Run, Workload};
use littoral::push::device::{profiled, sim};
use littoral::push::oracle::{best_static, set_speed};
use littoral::push::page::Format;
use littoral::push::policy::Policy;
use littoral::push::query::costs_of;
use serde_json::{Value, json};

use super::scan::program;
use super::{QUEUE, about, host, place, table};
use crate::args::{CoresSpan, GridSetArgs, PushGridArgs, PushWhatifArgs};
use crate::failure::{Failure, Outcome};
use crate::out;

/// Internal over link bandwidth.
const RATIOS: [u64; 4] = [1, 2, 4, 8];
/// Core speeds over the profile's.
const SPEEDS: [u32; 5] = [1, 2, 4, 8, 16];

/// A scan's cost on every page, and the device that it is modelled on.
struct Study {
    model: Model,
    workload: Workload,
    profile: String,
    pages: u64,
}

/// Pages of a table that is read for a study.
const MAKING: (Format, usize) = (Format::Columns, 16384);

/// The data set of a study, and the device and queue depth that it is modelled on.
struct Stored {
    about: About,
    pages: Vec<Vec<u8>>,
    model: Model,
    depth: u32,
}

fn stored(set: &GridSetArgs, profile: &str) -> Result<Stored, Failure> {
    if let Some(table) = set.set.as_deref().filter(|name| table::is_table(name)) {
        let made = table::read(Path::new(table), MAKING, |about, records| {
            let set = DataSet::of_records(about, records)?;
            Ok((set.about().clone(), set.pages()?))
        });
        let ((about, pages), (model, depth)) = (made?, profiled(profile)?);
        return Ok(Stored { about, pages, model, depth });
    }
    let (machine, name) = place(set.set.as_deref(), None, &set.on)?;
    let (model, depth) = model(&machine, &name, profile)?;
    let mut host = host(machine.push(&name)?, 1);
    let about = about(&mut host, set.set.as_deref().unwrap_or(&name))?;
    let pages = fetch(host, about.pages)?;
    Ok(Stored { about, pages, model, depth })
}

fn study(args: &PushGridArgs) -> Result<Study, Failure> {
    let profile = args.set.profile.clone().unwrap_or_else(|| "summarizer-board".to_owned());
    let Stored { about, pages, model, depth } = stored(&args.set, &profile)?;
    let (program, _) = program(&args.scan, &about)?;
    let split = littoral::push::api::split_of(&program.function);
    let costs =
        costs_of("scan", &program.function, &split, &program.params, &pages, program.format)?;
    let model = model.on_pages(about.page_bytes as u32);
    let workload = Workload::interleaved(vec![costs], depth);
    Ok(Study { model, workload, profile, pages: about.pages })
}

fn model(machine: &Machine, name: &str, profile: &str) -> Result<(Model, u32), Failure> {
    Ok(match machine.push_model(name)? {
        Some(found) => found,
        None => profiled(profile)?,
    })
}

/// Every page, by plain reads.
fn fetch(
    host: Host<littoral::machine::push::PushDevice>,
    pages: u64,
) -> Result<Vec<Vec<u8>>, Failure> {
    let mut device = host.into_device();
    let mut found = Vec::new();
    for page in 0..pages {
        let command = Command::plain(Opcode::Read, page);
        device.submit(&command, &[])?;
        let (completion, data) = device.wait()?;
        if completion.status != Status::Raw {
            let what = format!("page {page} cannot be read: {:?}", completion.status);
            return Err(Failure::new(Class::Corrupt, what));
        }
        found.push(data);
    }
    Ok(found)
}

fn ratio(a: &Run, b: &Run) -> f64 {
    a.total.0 as f64 / b.total.0 as f64
}

/// Runs `push sweep`.
pub(super) fn sweep(args: &PushGridArgs) -> Outcome {
    let study = study(args)?;
    let run = |policy: &Policy| sim::run(&study.model, &study.workload, policy);
    let host = run(&Policy::Host);
    let best = best_static(&study.model, &study.workload);
    let policies = [
        ("host".to_owned(), Policy::Host),
        ("device".to_owned(), Policy::Device),
        ("filter".to_owned(), Policy::HandCoded),
        ("dynamic".to_owned(), Policy::Dynamic { queue: QUEUE }),
        (format!("best static, {}/40 on the device", best.shares[0]), Policy::Static(best.shares)),
        ("late".to_owned(), Policy::Late),
    ];
    let row = |(name, policy): &(String, Policy)| {
        let run = run(policy);
        json!({
            "policy": name,
            "time_ns": run.total.as_nanos(),
            "time_over_host_ratio": ratio(&run, &host),
            "on_device_share": run.count(Disposition::Processed) as f64 / study.pages as f64,
            "link_bytes": run.link_bytes,
        })
    };
    let value = json!({
        "schema": "littoral.push.sweep/1",
        "profile": study.profile,
        "clock": "virtual",
        "pages_count": study.pages,
        "policies": policies.iter().map(row).collect::<Vec<_>>(),
    });
    out::show(args.shown.format, &value)
}

/// Cores of a modelled device.
#[derive(Clone, Copy)]
enum Cores {
    /// The profile's, this many times as fast.
    Speed(u32),
    /// This many of the profile's clock.
    Count(u32),
}

impl Cores {
    fn set(self, model: &mut Model, own: &Model) {
        match self {
            Cores::Speed(speed) => set_speed(model, own, speed),
            Cores::Count(count) => model.cores = count,
        }
    }

    /// As the second half of a sentence has it.
    fn words(self) -> String {
        match self {
            Cores::Speed(1) => "the profile's cores".to_owned(),
            Cores::Speed(speed) => format!("cores {speed} times as fast"),
            Cores::Count(1) => "one core".to_owned(),
            Cores::Count(count) => format!("{count} cores"),
        }
    }
}

/// From `from` to `to`, each twice the one before; the last may lie nearer.
fn doubled(from: u64, to: u64) -> Vec<u64> {
    let mut all: Vec<u64> =
        std::iter::successors(Some(from), |n| n.checked_mul(2)).take_while(|n| *n < to).collect();
    all.push(to);
    all
}

/// Links and cores of a grid, and the link of the curve: the profile's own unless one is named.
struct Grid {
    links: Vec<u64>,
    cores: Vec<Cores>,
    own: u64,
    own_words: String,
}

/// A link's rate in words.
fn bytes_per_s(link: u64) -> String {
    PerSecond(link as f64).to_string().replace("/s", "B/s")
}

/// The longest that all pages may take over a link, 26 days: the model's clock counts 213.
const LINK_TIME_MAX: Picos = Picos(u64::MAX / 8);

/// Whether `bytes` take longer than that.
fn takes_too_long(bytes: u128, link: u64) -> bool {
    bytes * 1_000_000_000_000 / u128::from(link.max(1)) > u128::from(LINK_TIME_MAX.0)
}

fn grid(args: &PushWhatifArgs, model: &Model) -> Grid {
    let (mut own, mut own_words) = (model.link_bytes_per_s, "the profile's link".to_owned());
    let links = match &args.link {
        None => RATIOS.iter().map(|r| model.bus_bytes_per_s / r).collect(),
        Some(span) => {
            let [from, to] = [span.from, span.to].map(|rate| rate.0.max(1.0) as u64);
            if from == to {
                (own, own_words) = (to, format!("a link of {}", bytes_per_s(to)));
            }
            doubled(from, to)
        }
    };
    let cores = match args.cores {
        None => SPEEDS.iter().map(|&s| Cores::Speed(s)).collect(),
        Some(CoresSpan(from, to)) => doubled(from.into(), to.into())
            .into_iter()
            .map(|n| Cores::Count(u32::try_from(n).unwrap_or(to)))
            .collect(),
    };
    Grid { links, cores, own, own_words }
}

/// Runs `push whatif`.
pub(super) fn whatif(args: &PushWhatifArgs) -> Outcome {
    let study = study(&args.scan)?;
    let grid = grid(args, &study.model);
    let bytes = u128::from(study.pages) * u128::from(study.model.nand.page_bytes);
    if let Some(slow) = grid.links.iter().find(|link| takes_too_long(bytes, **link)) {
        let what = format!(
            "over a link of {} the pages take more than 26 days, beyond the range of the clock; \
             begin --link at more",
            bytes_per_s(*slow)
        );
        return Err(Failure::new(Class::Usage, what));
    }
    let at = |link: u64, cores: Cores| {
        let mut model = study.model;
        model.link_bytes_per_s = link;
        cores.set(&mut model, &study.model);
        let host = sim::run(&model, &study.workload, &Policy::Host);
        (ratio(&sim::run(&model, &study.workload, &Policy::Late), &host), model)
    };
    let mut cells = Vec::new();
    for &link in &grid.links {
        for &cores in &grid.cores {
            let (over, model) = at(link, cores);
            cells.push(json!({
                "link_bytes_per_s": link,
                "cores_count": model.cores,
                "core_mhz_count": model.core_mhz,
                "time_over_host_ratio": over,
            }));
        }
    }
    let speed = |model: &Model| f64::from(model.cores) * model.core_mhz as f64;
    let curve: Vec<(Cores, f64, f64)> = (grid.cores.iter())
        .map(|&cores| {
            let (over, model) = at(grid.own, cores);
            (cores, speed(&model) / speed(&study.model), over)
        })
        .collect();
    let (speed_key, over_key) = ("core_speed_ratio", "time_over_host_ratio");
    let point = |(_, speed, over): &(Cores, f64, f64)| json!({ speed_key: speed, over_key: over });
    let value = json!({
        "schema": "littoral.push.whatif/1",
        "profile": study.profile,
        "clock": "virtual",
        "pages_count": study.pages,
        "cells": cells,
        "curve": curve.iter().map(point).collect::<Vec<Value>>(),
        "sentence": sentence(&grid.own_words, &curve),
    });
    out::show(args.scan.shown.format, &value)
}

/// What the curve says.
fn sentence(link: &str, curve: &[(Cores, f64, f64)]) -> String {
    let ((first, _, from), (last, _, to)) = (curve[0], curve[curve.len() - 1]);
    if curve.len() == 1 {
        return format!(
            "On {link} the scan takes {from:.2} of the host's time with {}.",
            first.words()
        );
    }
    let enough = curve.iter().position(|(_, _, over)| *over <= to * 1.02).unwrap_or(0);
    let words = match enough {
        0 => "faster or more cores gain less than 2 %".to_owned(),
        n => format!("{} come within 2 % of that", curve[n].0.words()),
    };
    format!(
        "On {link} the scan takes {from:.2} of the host's time with {} and {to:.2} with {}; \
         {words}.",
        first.words(),
        last.words()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_refused_before_the_clock_of_the_model_ends() {
        let pages = |count: u128| count * 16_384;
        assert!(!takes_too_long(pages(1_000_000), 1_000_000));
        assert!(takes_too_long(pages(200), 1) && !takes_too_long(pages(100), 1));
        assert!(!takes_too_long(1, 0), "no link is no division by zero");
        assert_eq!([1_500, 100_000_000].map(bytes_per_s), ["1.5 kB/s", "100 MB/s"]);
    }

    #[test]
    fn spans_double_up_to_their_end() {
        assert_eq!(doubled(1, 8), [1, 2, 4, 8]);
        assert_eq!(doubled(3, 10), [3, 6, 10]);
        assert_eq!(doubled(5, 5), [5]);
    }

    #[test]
    fn a_sentence_names_what_comes_near_the_end() {
        let curve = [1, 2, 4].map(Cores::Count).into_iter().zip([0.9, 0.503, 0.5]);
        let curve: Vec<_> = curve.map(|(cores, over)| (cores, 1.0, over)).collect();
        let found = sentence("the profile's link", &curve);
        assert!(
            found.contains("0.90 of the host's time with one core and 0.50 with 4 cores"),
            "{found}"
        );
        assert!(found.ends_with("; 2 cores come within 2 % of that."), "{found}");
        assert!(
            sentence("a link", &curve[2..])
                .ends_with("takes 0.50 of the host's time with 4 cores.")
        );
    }
}
