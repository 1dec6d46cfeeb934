//! `push sweep` and `push whatif`: a scan on modelled devices, in virtual time.

use littoral::Machine;
use littoral::push::api::{Device as _, Host};
use littoral::push::command::{Command, Opcode, Status};
use littoral::push::device::{Disposition, Machine as Model, Outcome as Run, Workload};
use littoral::push::device::{profiled, sim};
use littoral::push::oracle::{best_static, set_speed};
use littoral::push::policy::Policy;
use littoral::push::query::costs_of;
use serde_json::{Value, json};

use super::scan::program;
use super::{QUEUE, about, host, place};
use crate::args::PushGridArgs;
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

fn study(args: &PushGridArgs) -> Result<Study, Failure> {
    let set = &args.set;
    let (machine, name) = place(set.set.as_deref(), None, &set.on)?;
    let profile = set.profile.clone().unwrap_or_else(|| "summarizer-board".to_owned());
    let (mut model, depth) = model(&machine, &name, &profile)?;
    let mut host = host(machine.push(&name)?, 1);
    let about = about(&mut host)?;
    let (program, _) = program(&args.scan, &about)?;
    let pages = fetch(host, about.pages)?;
    let split = littoral::push::api::split_of(&program.function);
    let costs =
        costs_of("scan", &program.function, &split, &program.params, &pages, program.format)?;
    model.nand.page_bytes = about.page_bytes as u32;
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
            return Err(Failure::new(littoral::base::error::Class::Corrupt, what));
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

/// Runs `push whatif`.
pub(super) fn whatif(args: &PushGridArgs) -> Outcome {
    let study = study(args)?;
    let at = |link: u64, speed: u32| {
        let mut model = study.model;
        model.link_bytes_per_s = link;
        set_speed(&mut model, &study.model, speed);
        let host = sim::run(&model, &study.workload, &Policy::Host);
        (ratio(&sim::run(&model, &study.workload, &Policy::Late), &host), model)
    };
    let mut cells = Vec::new();
    for link in RATIOS.map(|r| study.model.bus_bytes_per_s / r) {
        for speed in SPEEDS {
            let (over, model) = at(link, speed);
            cells.push(json!({
                "link_bytes_per_s": link,
                "cores_count": model.cores,
                "core_mhz_count": model.core_mhz,
                "time_over_host_ratio": over,
            }));
        }
    }
    let own = study.model.link_bytes_per_s;
    let curve: Vec<(u32, f64)> = SPEEDS.iter().map(|&s| (s, at(own, s).0)).collect();
    let point = |(speed, over): &(u32, f64)| json!({"core_speed_ratio": f64::from(*speed), "time_over_host_ratio": over});
    let value = json!({
        "schema": "littoral.push.whatif/1",
        "profile": study.profile,
        "clock": "virtual",
        "pages_count": study.pages,
        "cells": cells,
        "curve": curve.iter().map(point).collect::<Vec<Value>>(),
        "sentence": sentence(&curve),
    });
    out::show(args.shown.format, &value)
}

/// What the curve says.
fn sentence(curve: &[(u32, f64)]) -> String {
    let (first, last) = (curve[0].1, curve[curve.len() - 1].1);
    let enough = curve.iter().find(|(_, over)| *over <= last * 1.02).map_or(1, |p| p.0);
    let words = match enough {
        1 => "faster cores gain less than 2 %".to_owned(),
        n => format!("cores {n} times as fast come within 2 % of that"),
    };
    format!(
        "On the profile's link the scan takes {first:.2} of the host's time with the profile's \
         cores and {last:.2} with cores 16 times as fast; {words}."
    )
}
