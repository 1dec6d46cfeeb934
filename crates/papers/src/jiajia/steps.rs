//! Paper 002's system: operations by fabric counters, sections and barriers by the clock, the
//! paper's tables in virtual time.
//!
//! - Each step answers one family of claims with the functions of [`super`]; `--quick` cuts
//!   batches, never a number of ranks.
//! - A step that fails leaves its claims `failed` with its words.

use std::collections::BTreeMap;

use crate::jiajia::stencil::{self, Length};
use crate::jiajia::timed::Effort;
use crate::jiajia::{
    Figures, beside, c_programs, codes, counts, openmpi, stencil_claims, tables, timed,
};
use littoral_bench::claims::Figure;
use littoral_bench::repro::{Answer, Options, Step, System, Unanswered};

/// The system.
pub const SYSTEM: System = System {
    name: "jiajia",
    about: "Shared memory coherent by locks and its lock manager (paper 002)",
    id: "dsm",
    targets: include_str!("../../targets/jiajia.toml"),
    profiles: &["loongson-2e", "tcp", "rdma", "cxl-pool"],
    has_paper_counts: false,
    steps: || Ok(steps()),
};

fn effort(options: &Options) -> Effort {
    if options.quick { Effort::QUICK } else { Effort::FULL }
}

fn length(options: &Options) -> Length {
    if options.quick { Length::QUICK } else { Length::FULL }
}

const IN_MEMORY: &[&str] = &[
    "dsm.job.section.shm",
    "dsm.job.section.pages",
    "dsm.job.barrier.shm",
    "dsm.job.barrier.pages",
];
const OVER_TCP: &[&str] = &["dsm.job.section.tcp", "dsm.job.barrier.tcp"];

/// Every measurement of the system.
fn steps() -> Vec<Step> {
    let start = beside::start;
    let crowd =
        move |o: &Options| -> Figures { Ok(codes::oversubscribed(&start(o), effort(o))?.0) };
    let crowded = &["dsm.oversubscribed.barrier", "dsm.oversubscribed.lock"];
    vec![
        step("operations a section", &["dsm.lock.ops.", "dsm.lock.extra"], |_| {
            counts::operations()
        }),
        step("rivals", &["dsm.lock.peers."], |_| counts::rivals()),
        step("Code 1 and Code 2", &["dsm.code1.", "dsm.code2."], move |o| {
            codes::codes(&start(o), effort(o))
        }),
        step("software manager", &["dsm.hw_vs_sw."], |o| timed::hardware_over_software(effort(o))),
        step("more ranks than processors", crowded, crowd),
        step("figure 4", &["dsm.fig4."], |_| tables::figure4()),
        step("table 1", &["dsm.table1."], |_| tables::table1()),
        step("figure 5 and Ocean", &["dsm.fig5.", "dsm.ocean."], |_| tables::figure5()),
        step("predictions", &["dsm.predict."], |_| tables::predictions()),
        step("counts that repeat", &["dsm.counts."], |_| tables::counts()),
        step("JIAJIA's interface", &["dsm.abi.surface"], |o| c_programs::surface(&o.scratch)),
        step_of(
            "JIAJIA's programs",
            |id| is_of_programs(id) && !is_by_guards(id),
            |o| c_programs::counts(&o.scratch),
        ),
        step_of("JIAJIA's programs by guards", is_by_guards, c_programs::beside_guards),
        step("programs in C on every fabric", &["dsm.equal"], c_programs::equal),
        step("Open MPI's barrier", &["dsm.barrier.vs_openmpi"], move |o| {
            openmpi::barrier(&o.peers, &start(o), effort(o))
        }),
        step("Open MPI's crowded barrier", &["dsm.oversubscribed.vs_openmpi"], move |o| {
            openmpi::crowded(&o.peers, &start(o), effort(o))
        }),
        step("jobs in shared memory", IN_MEMORY, beside::in_memory),
        step("jobs that contend", &["dsm.job.contended."], |o| beside::contended(o, effort(o))),
        step("jobs over TCP", OVER_TCP, beside::over_tcp),
        step("jobs by mpirun", &["dsm.mpi."], beside::by_mpirun),
        step("changes of thread", &["dsm.job.switches."], beside::switches),
        step("jobs of more ranks than processors", &["dsm.job.oversubscribed."], |o| {
            beside::oversubscribed(o)
        }),
        step("memory given back", &["dsm.memory"], beside::memory),
        step("stencil without faults", &["dsm.stencil.safe_faults"], |o| {
            stencil::safe_faults(length(o))
        }),
        step("stencil beside Open MPI", &["dsm.stencil.vs_mpi"], |o| {
            stencil_claims::beside_mpi(o, length(o))
        }),
        step("stencil on a pool", &["dsm.stencil.pool"], stencil_claims::on_a_pool),
    ]
}

fn is_of_programs(id: &str) -> bool {
    id.starts_with("dsm.jiajia.")
}

fn is_by_guards(id: &str) -> bool {
    is_of_programs(id) && id.ends_with(".vs_job")
}

fn step(
    name: &'static str,
    prefixes: &[&str],
    measure: impl FnMut(&Options) -> Figures + 'static,
) -> Step {
    step_of(name, |id| prefixes.iter().any(|p| id.starts_with(p)), measure)
}

/// A step that answers the claims whose ids are `wanted`.
fn step_of(
    name: &'static str,
    wanted: impl Fn(&str) -> bool,
    mut measure: impl FnMut(&Options) -> Figures + 'static,
) -> Step {
    let all = SYSTEM.targets().map_or_else(|_| Vec::new(), |t| t.claims);
    let claims: Vec<String> = all.into_iter().map(|t| t.id).filter(|id| wanted(id)).collect();
    let asked = claims.clone();
    let measure = move |options: &Options| match measure(options) {
        Ok(figures) => answers(&asked, figures),
        Err(error) => asked.iter().map(|_| Err(error.clone())).collect(),
    };
    Step { name, claims, measure: Box::new(measure) }
}

fn answers(asked: &[String], figures: Vec<(String, Figure)>) -> Vec<Answer> {
    let mut figures: BTreeMap<String, Figure> = figures.into_iter().collect();
    let answer =
        |id: &String| figures.remove(id).ok_or_else(|| Unanswered::from("was not measured"));
    asked.iter().map(answer).collect()
}
