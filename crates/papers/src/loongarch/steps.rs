//! LoongArch's part of paper 000: instruction table, differential fuzzing, programs, counts, the
//! interpreter's cost, and table 6's method on own kernels.
//!
//! `--quick` fuzzes 10^6 words instead of 10^8 and measures speed fewer times; every size is the
//! same. Table 6 cells are reported as found: the paper's figures belong to SPEC2006, which is not
//! free, so any positive ratio stands.

use crate::loongarch::changed::{self, Round};
use crate::loongarch::kernels::{self, Compiled, Kernel, Target, geometric_mean};
use crate::loongarch::step::{single, tools};
use crate::loongarch::{Found, Tools, fuzz, jobs, speed, table};
use littoral_bench::claims::Figure;
use littoral_bench::repro::{Answer, Options, Step, System};
use littoral_la64::interp::Tier;

/// The system.
pub const SYSTEM: System = System {
    name: "loongarch",
    about: "LoongArch: instruction set, interpreter, Linux programs (paper 000's tables)",
    id: "loongarch",
    targets: include_str!("../../targets/loongarch.toml"),
    profiles: &[],
    has_paper_counts: false,
    steps: || Ok(steps()),
};

const WORDS_QUICK: u64 = 1_000_000;
const WORDS: u64 = 100_000_000;
/// Rounds of a kernel where it runs under an instruction counter.
const ROUNDS_COUNTED: u32 = 4;
/// Rounds where it is timed.
const ROUNDS_TIMED: u32 = 40;
/// Rounds where three architectures are compared; QEMU logs every block.
const ROUNDS_COMPARED: u32 = 2;

/// Every measurement of the system.
fn steps() -> Vec<Step> {
    let table6 = ["mips64.int", "mips64.fp", "x86.int", "x86.fp"];
    let mut steps = vec![
        single("every row of the instruction table", "la64.isa.rows", rows),
        single("random words and blocks beside QEMU", "la64.fuzz.unexplained", unexplained),
        single("fifteen programs beside their amd64 builds", "la64.programs.identical", identical),
        single("counts, twice", "la64.count.tier0", repeated),
        single("host instructions a guest instruction", "la64.interp.host_per_guest", cost),
        single("random programs on all tiers", "la64.jit.fuzz", tiers_differ),
        single("counts on all tiers", "la64.count.equal", unequal_counts),
        single("host instructions a translated instruction", "la64.host_per_guest", translated),
        single("a loop with and without ibar", "la64.ibar.us", ibar),
        Step {
            name: "kernels on three architectures",
            claims: table6.iter().map(|cell| format!("la64.table6.instr.{cell}")).collect(),
            measure: Box::new(|options| table6_cells(&tools(options))),
        },
    ];
    steps.extend(speed::steps());
    steps
}

fn seed() -> u64 {
    SYSTEM.targets().map_or(0, |t| t.seed)
}

fn rows(_: &Options) -> Answer {
    let found = table::rows(seed());
    let note = format!(
        "{} of {} rows that user mode may execute were executed, 200 random words a row",
        found.executed_count, found.unprivileged_count
    );
    let all = found.executed_count == found.unprivileged_count;
    let words = format!("every one does; failed: {:?}", found.failed);
    Ok(Figure::new(found.sound_count as f64, note).provided(all && found.failed.is_empty(), words))
}

fn unexplained(options: &Options) -> Answer {
    let words = if options.quick { WORDS_QUICK } else { WORDS };
    let report = fuzz::beside_qemu(&tools(options), seed(), words)?;
    let note = format!(
        "{} words in {} cases, half of them blocks with branches; {} cases differ as the book \
         explains; LBT is not in QEMU",
        report.words, report.compared, report.explained
    );
    let mut figure = Figure::new(report.unexplained() as f64, note);
    figure.notes.extend(report.describe().into_iter().take(5));
    Ok(figure.provided(report.words >= words, "all words were tried"))
}

/// Blocks of random programs that two tiers run.
const TIER_BLOCKS: u64 = 1_000_000;

fn tiers_differ(_: &Options) -> Answer {
    let compare = |tier| littoral_assure::la64::tiers::compare(tier, seed(), TIER_BLOCKS);
    let outcomes = [Tier::Blocks, Tier::Regions].map(compare);
    let note = |outcome: &littoral_assure::la64::tiers::Outcome| {
        format!(
            "{} random blocks with branches, loops and traps; {} exits compared, {} of them traps, \
             {} by signals at any instruction of the host; {} instructions, {} regions",
            outcome.blocks,
            outcome.exits,
            outcome.traps,
            outcome.interrupted,
            outcome.instructions,
            outcome.regions
        )
    };
    let [blocks, regions] = &outcomes;
    let words = format!(
        "tier 1: {}; tier 2: {}; the cause field of the FCSR is left out",
        note(blocks),
        note(regions)
    );
    let different: usize = outcomes.iter().map(|outcome| outcome.different.len()).sum();
    let mut figure = Figure::new(different as f64, words);
    figure.notes.extend(outcomes.iter().flat_map(|outcome| outcome.different.iter().cloned()));
    let is_complete = outcomes.iter().all(|o| o.blocks >= TIER_BLOCKS && o.interrupted > 0);
    let complete = is_complete && regions.regions > 0;
    Ok(figure.provided(complete, "all blocks were run, some up to a signal, some as regions"))
}

fn unequal_counts(options: &Options) -> Answer {
    let tools = tools(options);
    let guest = Compiled::build(&tools, Target::LoongArch)?;
    let folder = tools.scratch.join("cache-kernels");
    let mut different = Vec::new();
    for kernel in kernels::all() {
        let [first, second, third] = [Tier::Interpreter, Tier::Blocks, Tier::Regions]
            .map(|tier| kernels::run_on(&tools, tier, &guest, kernel, ROUNDS_COUNTED));
        let first = first?;
        let cached = || kernels::run_cached(&tools, &folder, &guest, kernel, ROUNDS_COUNTED);
        for other in [second?, third?, cached()?, cached()?] {
            let same = first.instructions_count == other.instructions_count;
            if !same || first.text != other.text {
                different.push(kernel.name);
            }
        }
    }
    different.dedup();
    let note = format!(
        "18 own C kernels on tiers 0, 1 and 2 and on code from a cache on disk, count and output; \
         not {different:?}"
    );
    Ok(Figure::new(different.len() as f64, note))
}

/// Host instructions per guest instruction on tier 2, with those of tier 1 beside it, by the
/// difference of two lengths of one kernel, so that start-up, translation and the first looks
/// cancel.
fn translated(options: &Options) -> Answer {
    const SHORT: u32 = 40;
    const LONG: u32 = 80;
    let tools = tools(options);
    let guest = Compiled::build(&tools, Target::LoongArch)?;
    let ratio = |tier, kernel| -> Found<f64> {
        let at = |rounds| -> Found<(u64, u64)> {
            let guest_count = kernels::run_on(&tools, tier, &guest, kernel, rounds)?;
            let host = kernels::host_count(&tools, tier, &guest, kernel, rounds)?;
            Ok((guest_count.instructions_count, host))
        };
        let (short, long) = (at(SHORT)?, at(LONG)?);
        Ok((long.1 - short.1) as f64 / (long.0 - short.0) as f64)
    };
    let (mut rows, mut of_blocks) = (Vec::new(), Vec::new());
    for kernel in kernels::of("integer") {
        rows.push((kernel.name, ratio(Tier::Regions, kernel)?));
        of_blocks.push(ratio(Tier::Blocks, kernel)?);
    }
    let values: Vec<f64> = rows.iter().map(|r| r.1).collect();
    let listed: Vec<String> = rows.iter().map(|(name, r)| format!("{name} {r:.2}")).collect();
    let note = format!(
        "tier 2, geometric mean of {}; callgrind, {LONG} rounds less {SHORT}; {:.2} on tier 1",
        listed.join(", "),
        geometric_mean(&of_blocks)
    );
    Ok(Figure::new(geometric_mean(&values), note))
}

fn identical(options: &Options) -> Answer {
    let tools = tools(options);
    let figure = jobs::figure(&jobs::run(&tools, &tools.sysroot()?, &jobs::JOBS)?);
    let (same, words) = own_programs(&tools);
    Ok(figure.provided(same, words))
}

/// Own C programs, LoongArch beside x86-64: whether they agree, in words.
fn own_programs(tools: &Tools) -> (bool, String) {
    let compared = || -> Found<Vec<&'static str>> {
        let guest = Compiled::build(tools, Target::LoongArch)?;
        let native = Compiled::build(tools, Target::X86)?;
        let mut different = Vec::new();
        for kernel in kernels::all() {
            let ours = kernels::interpreted(tools, &guest, kernel, ROUNDS_COMPARED)?.text;
            if ours != kernels::native_text(&native, kernel, ROUNDS_COMPARED)? {
                different.push(kernel.name);
            }
        }
        Ok(different)
    };
    match compared() {
        Ok(different) if different.is_empty() => (true, "18 own C kernels print the same".into()),
        Ok(different) => (false, format!("18 own C kernels print the same; not {different:?}")),
        Err(why) => (false, format!("18 own C kernels print the same: {why}")),
    }
}

fn repeated(options: &Options) -> Answer {
    let tools = tools(options);
    let guest = Compiled::build(&tools, Target::LoongArch)?;
    let (mut different, mut total) = (0, 0);
    for kernel in kernels::all() {
        let [first, second] = [(), ()].map(|()| kernels::interpreted(&tools, &guest, kernel, 1));
        let (first, second) = (first?.instructions_count, second?.instructions_count);
        different += u32::from(first != second);
        total += first;
    }
    let note = format!("18 own C kernels run twice, {total} instructions each time");
    Ok(Figure::new(different.into(), note))
}

/// One kernel's cost.
struct Cost {
    kernel: Kernel,
    host_per_guest: f64,
    million_per_s: f64,
}

fn cost(options: &Options) -> Answer {
    let tools = tools(options);
    let guest = Compiled::build(&tools, Target::LoongArch)?;
    let repetitions = if options.quick { 1 } else { 3 };
    let one = |kernel| one_cost(&tools, &guest, kernel, repetitions);
    let rows: Vec<Cost> = kernels::of("integer").into_iter().map(one).collect::<Found<_>>()?;
    let most = rows.iter().map(|r| r.host_per_guest).fold(0.0, f64::max);
    let ratios: Vec<f64> = rows.iter().map(|r| r.host_per_guest).collect();
    let note = format!(
        "the dearest of ten kernels counts (geometric mean {:.2}); callgrind's count of the whole \
         process over the interpreter's own; beside it millions of instructions a second (wall)",
        geometric_mean(&ratios)
    );
    let mut figure = Figure::new(most, note);
    figure.notes.extend(
        rows.iter().map(|r| {
            format!("{} {:.2}, {:.0} M/s", r.kernel.name, r.host_per_guest, r.million_per_s)
        }),
    );
    Ok(figure)
}

fn one_cost(tools: &Tools, guest: &Compiled, kernel: Kernel, repetitions: u32) -> Found<Cost> {
    let count = kernels::interpreted(tools, guest, kernel, ROUNDS_COUNTED)?.instructions_count;
    let host = kernels::host_count(tools, Tier::Interpreter, guest, kernel, ROUNDS_COUNTED)?;
    let mut million_per_s: f64 = 0.0;
    for _ in 0..repetitions {
        let ran = kernels::interpreted(tools, guest, kernel, ROUNDS_TIMED)?;
        million_per_s = million_per_s.max(ran.instructions_count as f64 / ran.seconds / 1e6);
    }
    Ok(Cost { kernel, host_per_guest: host as f64 / count as f64, million_per_s })
}

/// What `ibar` adds to a round: medians of runs that take turns.
fn ibar(options: &Options) -> Answer {
    const ROUNDS: u32 = 300_000;
    const ROUNDS_REWRITTEN: u32 = 3_000;
    let repetitions = if options.quick { 5 } else { 15 };
    let tools = tools(options);
    let kinds = [Round::Plain, Round::Barrier, Round::Rewritten];
    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..repetitions {
        for (kind, times) in kinds.iter().zip(&mut times) {
            let rounds = if *kind == Round::Rewritten { ROUNDS_REWRITTEN } else { ROUNDS };
            times.push(changed::microseconds(&tools, *kind, rounds)?);
        }
    }
    let [plain, barrier, rewritten] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let note = format!(
        "CPU time a round, medians of {repetitions}: {plain:.4} us without ibar, {barrier:.4} with \
         it, {rewritten:.4} with the called function rewritten before it"
    );
    Ok(Figure::new(barrier - plain, note))
}

/// Cells MIPS64 and x86-64 over LoongArch, integer and floating point each.
fn table6_cells(tools: &Tools) -> Vec<Answer> {
    let guest = Compiled::build(tools, Target::LoongArch);
    let cell = |target: Target, program: &'static str| -> Answer {
        let (guest, other) = (guest.clone()?, Compiled::build(tools, target)?);
        let mut rows = Vec::new();
        for kernel in kernels::of(program) {
            let ours = kernels::interpreted(tools, &guest, kernel, ROUNDS_COMPARED)?;
            let theirs = match target {
                Target::Mips64 => kernels::mips64_count(tools, &other, kernel, ROUNDS_COMPARED)?,
                _ => kernels::x86_count(tools, &other, kernel, ROUNDS_COMPARED)?,
            };
            rows.push((kernel.name, theirs as f64 / ours.instructions_count as f64));
        }
        Ok(ratios(&rows))
    };
    [
        (Target::Mips64, "integer"),
        (Target::Mips64, "float"),
        (Target::X86, "integer"),
        (Target::X86, "float"),
    ]
    .map(|(target, program)| cell(target, program))
    .into()
}

fn ratios(rows: &[(&str, f64)]) -> Figure {
    let values: Vec<f64> = rows.iter().map(|r| r.1).collect();
    let listed: Vec<String> = rows.iter().map(|(name, r)| format!("{name} {r:.3}")).collect();
    let note = format!(
        "geometric mean of {}; own kernels, clang -O2 without contraction, whole programs; the \
         paper's figures are SPEC2006's under GCC",
        listed.join(", ")
    );
    Figure::new(geometric_mean(&values), note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_bench::peers::Peers;
    use littoral_bench::repro::Unanswered;

    #[test]
    fn a_missing_tool_is_named_and_never_passes() {
        let dir = tempfile::tempdir().unwrap();
        // A folder without programs; what PATH holds must not matter, so only absent names count.
        let tools = Tools::new(&dir.path().join("missing"), &Peers::default(), dir.path());
        let why = tools.qemu("no-such-architecture").unwrap_err();
        assert!(why.to_string().starts_with("missing: qemu-no-such"), "{why}");
        assert!(matches!(why, Unanswered::Missing(_)), "{why:?}");
        let answer = jobs::run(&tools, dir.path(), &jobs::JOBS).map(|_| ());
        assert!(answer.is_err(), "no program of ours, no answer");
    }

    #[test]
    fn every_row_of_the_table_is_tried() {
        let found = table::rows(1);
        assert_eq!((found.sound_count, found.unprivileged_count), (2032, 2002));
        assert_eq!(found.executed_count, 2002, "{:?}", found.failed);
    }
}
