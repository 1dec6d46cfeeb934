//! The claims of `repro latx`. All of them are counts, so two runs give equal figures.
//!
//! Random programs are judged by the host processor in the tests of `littoral-xlate`, not here.

use littoral_bench::repro::{Step, System};

use super::counts::{Guest, Way};
use super::steps::{Memo, beside, expansion, native};

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
    steps
}
