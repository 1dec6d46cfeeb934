//! The claims of `repro latx`. All of them but `latx.host.wall` are counts, so two runs give equal
//! figures.
//!
//! `--quick` runs 20,000 random programs and litmus tests instead of 10^6. The host processor
//! judges random programs, so their claim has a figure only on an x86-64 host.

use littoral_assure::xlate::litmus::{self, Litmus, Rule};
use littoral_bench::claims::Figure;
use littoral_bench::repro::{Answer, Options, Step, System};

use super::counts::{Guest, Way};
use super::selfhosted::selfhosted;
use super::steps::{Memo, beside, expansion, identical, native, wall, without_lbt};
use crate::loongarch::jobs::{JOBS, SIGNALLED};

/// The system.
pub const SYSTEM: System = System {
    name: "latx",
    about: "LATX: x86-64 programs translated to LoongArch, by count (paper 000's table 9)",
    id: "latx",
    targets: include_str!("../../targets/latx.toml"),
    profiles: &[],
    has_paper_counts: false,
    steps: || Ok(steps()),
};

const GUEST: Guest = Guest::X86;
const QEMU: (&str, &str) =
    ("QEMU", "geometric mean; QEMU's own LoongArch build, run and counted by our engine");
const BOX64: (&str, &str) =
    ("box64", "geometric mean; box64's own LoongArch build, run and counted by our engine");

fn steps() -> Vec<Step> {
    let memo = Memo::default();
    let mut steps = Vec::new();
    let programs: [(&'static str, [&str; 4], [&'static str; 4]); 2] = [
        (
            "integer",
            ["latx.expansion.int", "latx.int.vs_native", "latx.int.vs_qemu", "latx.vs_box64.int"],
            [
                "integer kernels, translated",
                "integer kernels, LoongArch builds",
                "integer kernels on QEMU",
                "integer kernels on box64",
            ],
        ),
        (
            "float",
            ["latx.expansion.fp", "latx.fp.vs_native", "latx.fp.vs_qemu", "latx.vs_box64.fp"],
            [
                "floating-point kernels, translated",
                "floating-point kernels, LoongArch builds",
                "floating-point kernels on QEMU",
                "floating-point kernels on box64",
            ],
        ),
    ];
    for (program, claims, names) in programs {
        let of = (GUEST, Some(program));
        steps.extend([
            memo.step(names[0], claims[0], move |t, m| expansion(t, m, GUEST, program)),
            memo.step(names[1], claims[1], move |t, m| native(t, m, of, false)),
            memo.step(names[2], claims[2], move |t, m| beside(t, m, of, Way::Qemu(GUEST), QEMU)),
            memo.step(names[3], claims[3], move |t, m| beside(t, m, of, Way::Box64, BOX64)),
        ]);
    }
    let name = "kernels translated without the binary translation assists";
    steps.push(memo.step(name, "latx.lbt.gain.int", without_lbt));
    let name = "fifteen programs beside their native runs";
    steps.push(memo.step(name, "latx.programs.identical", |t, _| identical(t, GUEST, &JOBS)));
    let name = "programs with threads, signals and children beside their native runs";
    steps.push(memo.step(name, "latx.programs.signalled", |t, _| identical(t, GUEST, &SIGNALLED)));
    let name = "fifteen programs on the translator's LoongArch build beside QEMU's";
    steps.push(memo.step(name, "latx.selfhosted", |t, _| selfhosted(t)));
    let name = "translated kernels beside their LoongArch builds, timed";
    steps.push(memo.step(name, "latx.host.wall", |t, _| wall(t, GUEST)));
    steps.push(Step {
        name: "litmus tests of the order of memory",
        claims: vec!["latx.litmus".to_owned()],
        measure: Box::new(|options| vec![forbidden(options)]),
    });
    steps.push(Step {
        name: "random programs on translator and host processor",
        claims: vec!["latx.fuzz.unexplained".to_owned()],
        measure: Box::new(|options| vec![unexplained(options)]),
    });
    steps
}

/// Runs of litmus tests in which an outcome was seen that x86-64 forbids.
fn forbidden(options: &Options) -> Answer {
    const RUNS_QUICK: u64 = 20_000;
    const RUNS: u64 = 1_000_000;
    let seed = SYSTEM.targets().map_or(0, |t| t.seed);
    let of_each = if options.quick { RUNS_QUICK } else { RUNS } / litmus::TESTS.len() as u64;
    let ordered = litmus::count(seed, of_each, true);
    let open = litmus::count(seed, of_each, false);
    let words = |all: &[(Litmus, u64)]| {
        let words = all.iter().map(|(litmus, seen)| format!("{} {seen}", litmus.name));
        words.collect::<Vec<_>>().join(", ")
    };
    let note = format!(
        "{of_each} weak runs of each of {} tests; outcomes seen with barriers: {}; without: {}",
        ordered.len(),
        words(&ordered),
        words(&open)
    );
    let seen = |all: &[(Litmus, u64)], rule: Rule| {
        let of_rule = all.iter().filter(|(litmus, _)| litmus.rule == rule);
        of_rule.map(|(_, seen)| *seen).collect::<Vec<u64>>()
    };
    let bad = [Rule::Forbidden, Rule::Fenced].map(|rule| seen(&ordered, rule).iter().sum::<u64>());
    let figure = Figure::new(bad.iter().sum::<u64>() as f64, note);
    let are_needed = seen(&open, Rule::Forbidden).iter().all(|&n| n > 0);
    let figure = figure.provided(are_needed, "each forbidden outcome is seen without barriers");
    let is_weak = seen(&ordered, Rule::Allowed).iter().all(|&n| n > 0);
    Ok(figure.provided(is_weak, "what x86-64 allows is seen with barriers"))
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn unexplained(_: &Options) -> Answer {
    let what = "an x86-64 Linux host, which judges random x86-64 programs";
    Err(littoral_bench::repro::missing(what))
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn unexplained(options: &Options) -> Answer {
    use littoral_assure::xlate::x86::{judge, programs::program};
    const PROGRAMS_QUICK: u64 = 20_000;
    const PROGRAMS: u64 = 1_000_000;
    let programs = if options.quick { PROGRAMS_QUICK } else { PROGRAMS };
    let seed = SYSTEM.targets().map_or(0, |t| t.seed);
    let verdict = judge(seed, programs, program).map_err(|e| format!("the host's process: {e}"))?;
    let note = format!(
        "{} programs, each in one go, in slices, and in slices with barriers and counts; {} set aside",
        verdict.compared, verdict.aside
    );
    let mut figure = Figure::new(verdict.different as f64, note);
    figure.notes.extend(verdict.first);
    let tried = verdict.compared + verdict.aside;
    let figure = figure.provided(tried == programs, "all programs were tried");
    Ok(figure.provided(verdict.compared > verdict.aside, "most programs were compared"))
}
