//! The claims of `repro latx`. All of them but `latx.host.wall` are counts, so two runs give equal
//! figures.
//!
//! `--quick` runs 20,000 random programs instead of 10^6; the host processor judges them, so that
//! claim has a figure only on an x86-64 host.

use littoral_bench::repro::{Answer, Options, Step, System};

use super::counts::{Guest, Way};
use super::steps::{Memo, beside, expansion, identical, native, wall};

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
    let name = "fifteen programs beside their native runs";
    steps.push(memo.step(name, "latx.programs.identical", |t, _| identical(t, GUEST)));
    let name = "translated kernels beside their LoongArch builds, timed";
    steps.push(memo.step(name, "latx.host.wall", |t, _| wall(t, GUEST)));
    steps.push(Step {
        name: "random programs on translator and host processor",
        claims: vec!["latx.fuzz.unexplained".to_owned()],
        measure: Box::new(|options| vec![unexplained(options)]),
    });
    steps
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn unexplained(_: &Options) -> Answer {
    Err("random x86-64 programs are judged by an x86-64 Linux host".into())
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn unexplained(options: &Options) -> Answer {
    use littoral_xlate::judge::x86::{judge, programs::program};
    const PROGRAMS_QUICK: u64 = 20_000;
    const PROGRAMS: u64 = 1_000_000;
    let programs = if options.quick { PROGRAMS_QUICK } else { PROGRAMS };
    let seed = SYSTEM.targets().map_or(0, |t| t.seed);
    let verdict = judge(seed, programs, program).map_err(|e| format!("the host's process: {e}"))?;
    let note = format!(
        "{} programs, each in one go, in slices, and in slices with barriers and counts; {} set aside",
        verdict.compared, verdict.aside
    );
    let mut figure = littoral_bench::claims::Figure::new(verdict.different as f64, note);
    figure.notes.extend(verdict.first);
    let tried = verdict.compared + verdict.aside;
    let figure = figure.provided(tried == programs, "all programs were tried");
    Ok(figure.provided(verdict.compared > verdict.aside, "most programs were compared"))
}
