//! Paper 004's system: counts, ratios beside baselines, the paper's own figures, restart,
//! assurance.
//!
//! - Each step answers one family of claims with the functions of [`super`]; `--quick` cuts
//!   rounds, operations and the length of the assurance, never a size.
//! - A claim that a step's figures do not hold is an error of this file and reads `failed`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::sdtm::claims::{self, Effort, Named};
use crate::sdtm::{disk, own, pmdk};
use littoral_bench::claims::Figure;
use littoral_bench::peers::Peers;
use littoral_bench::repro::{Answer, Options, Step, System, Unanswered};

/// The system.
pub const SYSTEM: System = System {
    name: "sdtm",
    about: "Durable transactions on persistent memory (paper 004)",
    id: "sdtm",
    targets: include_str!("../../targets/sdtm.toml"),
    profiles: &[],
    has_paper_counts: false,
    steps: || Ok(steps()),
};

type Figures = littoral_stm::Result<Vec<Named>>;

fn effort(options: &Options) -> Effort {
    if options.quick { Effort::QUICK } else { Effort::FULL }
}

/// Every measurement of the system.
fn steps() -> Vec<Step> {
    let seed = SYSTEM.targets().map_or(0, |t| t.seed);
    let is_update = |id: &str| id.starts_with("sdtm.update.") && id.ends_with(".vs_undo");
    let is_peer = |id: &str| id.ends_with(".vs_pmdk");
    vec![
        step("fences, lines, shared writes", &COUNTED, |_| claims::counted()),
        family("updates of k objects", is_update, |o| claims::update_ratios(&effort(o))),
        peer("libpmemobj", is_peer, pmdk::beside),
        peer("redb", |id| id.starts_with("sdtm.disk."), disk::beside),
        step("hash map", &["sdtm.hash."], |o| claims::hash_ratios(&effort(o))),
        step("search tree", &["sdtm.bst."], |o| claims::tree_ratios(&effort(o))),
        step("sorted list", &["sdtm.list."], |o| claims::list_ratios(&effort(o))),
        step("YCSB on a B+-tree", &YCSB, |o| claims::ycsb_ratios(&effort(o))),
        step("clocks", &["sdtm.clock."], |o| Ok(own::clocks(&effort(o)))),
        step("write latency", &["sdtm.write_latency."], |o| own::write_latencies(&effort(o))),
        step("undo and redo", &["sdtm.undo_redo"], |o| own::undo_and_redo(&effort(o))),
        step("dynamic extension", &["sdtm.extend"], |o| own::extension(&effort(o))),
        step("long reads", &["sdtm.readonly"], |o| own::long_reads(&effort(o))),
        step("restart", &["sdtm.restart"], |o| Ok(vec![claims::restarted(&o.scratch)?])),
        step("crash images", &["sdtm.assure.images"], move |o| {
            Ok(vec![claims::crash_images(&effort(o), seed)?])
        }),
        step("flipped bits", &["heap.flip."], move |o| claims::flips(&effort(o), seed)),
        step("histories", &["sdtm.assure.histories"], move |o| {
            Ok(vec![claims::histories(&effort(o), seed)?])
        }),
    ]
}

const COUNTED: [&str; 3] = ["sdtm.fences", "sdtm.shared_writes", "sdtm.lines."];
const YCSB: [&str; 2] = ["sdtm.ycsb.", "sdtm.scale"];

/// Ids of the targets that `wanted` takes.
fn ids(wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let all = SYSTEM.targets().map_or_else(|_| Vec::new(), |t| t.claims);
    all.into_iter().map(|t| t.id).filter(|id| wanted(id)).collect()
}

fn step(
    name: &'static str,
    prefixes: &[&str],
    measure: impl FnMut(&Options) -> Figures + 'static,
) -> Step {
    family(name, |id| prefixes.iter().any(|p| id.starts_with(p)), measure)
}

/// A step that answers the claims `wanted` takes.
fn family(
    name: &'static str,
    wanted: impl Fn(&str) -> bool,
    mut measure: impl FnMut(&Options) -> Figures + 'static,
) -> Step {
    let claims = ids(wanted);
    let asked = claims.clone();
    let measure = move |options: &Options| match measure(options) {
        Ok(figures) => answers(&asked, figures),
        Err(error) => {
            let why = Unanswered::from(error.to_string());
            asked.iter().map(|_| Err(why.clone())).collect()
        }
    };
    Step { name, claims, measure: Box::new(measure) }
}

fn answers(asked: &[String], figures: Vec<Named>) -> Vec<Answer> {
    let mut figures: BTreeMap<String, Figure> = figures.into_iter().collect();
    let answer =
        |id: &String| figures.remove(id).ok_or_else(|| Unanswered::from("was not measured"));
    asked.iter().map(answer).collect()
}

type Beside = fn(&Peers, &Path, &Effort) -> Result<Vec<Named>, Unanswered>;

/// The comparison with a peer, skipped with the reason where it is missing.
fn peer(name: &'static str, wanted: impl Fn(&str) -> bool, beside: Beside) -> Step {
    let claims = ids(wanted);
    let asked = claims.clone();
    let measure =
        move |options: &Options| match beside(&options.peers, &options.scratch, &effort(options)) {
            Ok(figures) => answers(&asked, figures),
            Err(why) => asked.iter().map(|_| Err(why.clone())).collect(),
        };
    Step { name, claims, measure: Box::new(measure) }
}
