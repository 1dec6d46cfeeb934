//! The claims of `repro latm`. All of them are counts, so two runs give equal figures.
//!
//! `--quick` runs 20,000 random programs instead of 10^6; kernels and rounds are the same.

use littoral_assure::xlate::mips64::{Verdict, judge};
use littoral_bench::claims::Figure;
use littoral_bench::repro::{Answer, Options, Step, System};

use super::counts::{Guest, Way};
use super::steps::{Memo, beside, expansion, identical, native, table6};
use crate::loongarch::jobs::{JOBS, SIGNALLED};

/// The system.
pub const SYSTEM: System = System {
    name: "latm",
    about: "LATM: MIPS64 programs translated to LoongArch, by count (paper 000's table 8)",
    id: "latm",
    targets: include_str!("../../targets/latm.toml"),
    profiles: &[],
    has_paper_counts: false,
    steps: || Ok(steps()),
};

const PROGRAMS_QUICK: u64 = 20_000;
const PROGRAMS: u64 = 1_000_000;
const GUEST: Guest = Guest::Mips64;
const QEMU: (&str, &str) = (
    "QEMU",
    "geometric mean; QEMU's own LoongArch build, run and counted by our engine; the paper has no \
     such figure for MIPS64",
);

fn steps() -> Vec<Step> {
    let memo = Memo::default();
    let translated =
        |name, claim, program| memo.step(name, claim, move |t, m| expansion(t, m, GUEST, program));
    let on_qemu = |name, claim, program| {
        memo.step(name, claim, move |t, m| {
            beside(t, m, (GUEST, Some(program)), Way::Qemu(GUEST), QEMU)
        })
    };
    vec![
        translated("integer kernels, translated", "latm.expansion.int", "integer"),
        translated("floating-point kernels, translated", "latm.expansion.fp", "float"),
        // MIPS64 has no vectors, so the figure is that of LA64 builds without them.
        memo.step("LoongArch builds of the kernels", "latm.vs_native", |t, m| {
            native(t, m, (GUEST, None), true)
        }),
        on_qemu("integer kernels on QEMU", "latm.vs_qemu.int", "integer"),
        on_qemu("floating-point kernels on QEMU", "latm.vs_qemu.fp", "float"),
        memo.step(
            "fifteen programs beside their amd64 builds",
            "latm.programs.identical",
            |t, _| identical(t, GUEST, &JOBS),
        ),
        memo.step(
            "programs with threads, signals and children beside their amd64 builds",
            "latm.programs.signalled",
            |t, _| identical(t, GUEST, &SIGNALLED),
        ),
        memo.step("integer kernels, MIPS64 and LoongArch builds", "latm.table6.int", |t, m| {
            table6(t, m, GUEST, "integer")
        }),
        memo.step(
            "floating-point kernels, MIPS64 and LoongArch builds",
            "latm.table6.fp",
            |t, m| table6(t, m, GUEST, "float"),
        ),
        Step {
            name: "random programs on translator and exact interpreter",
            claims: vec!["latm.fuzz.unexplained".to_owned()],
            measure: Box::new(|options| vec![unexplained(options)]),
        },
    ]
}

fn unexplained(options: &Options) -> Answer {
    let programs = if options.quick { PROGRAMS_QUICK } else { PROGRAMS };
    let seed = SYSTEM.targets().map_or(0, |t| t.seed);
    let verdict = judge(seed, programs);
    let tried = verdict.programs_count + verdict.set_aside;
    Ok(judged(verdict).provided(tried == programs, "all programs were tried"))
}

fn judged(verdict: Verdict) -> Figure {
    let note = format!(
        "{} programs, {} instructions, each in one go and in slices; {} set aside",
        verdict.programs_count, verdict.instructions_count, verdict.set_aside
    );
    let mut figure = Figure::new(verdict.different as f64, note);
    figure.notes.extend(verdict.first);
    figure.provided(verdict.programs_count > verdict.set_aside, "most programs were compared")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_the_figure_and_is_described() {
        let verdict = Verdict {
            programs_count: 10,
            different: 2,
            first: Some("program 3: r2".into()),
            ..Verdict::default()
        };
        let figure = judged(verdict);
        assert_eq!(figure.value, 2.0);
        assert!(figure.notes.iter().any(|n| n == "program 3: r2"), "{:?}", figure.notes);
        assert!(figure.conditions.iter().all(|c| c.0));
        let aside = Verdict { programs_count: 1, set_aside: 9, ..Verdict::default() };
        assert!(!judged(aside).conditions[0].0, "a judge that compares little does not hold");
    }
}
