//! The claims of `repro latm`. All of them are counts, so two runs give equal figures.
//!
//! `--quick` runs 20,000 random programs instead of 10^6; kernels and rounds are the same.
//!
//! The paper's figures are times of SPEC CPU2000 on one processor; ours are instructions of own
//! kernels, and stand beside them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use littoral_bench::claims::Figure;
use littoral_bench::repro::{Answer, Options, Step, System};
use littoral_xlate::judge::{Verdict, judge};

use super::counts::{self, Counted, Row, Way, mean};
use crate::loongarch::kernels::{Kernel, Target};
use crate::loongarch::{Found, Tools};

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

/// Counts of the translated kernels, which several claims need; counted once.
type Memo = Rc<RefCell<BTreeMap<(&'static str, &'static str), Found<Counted>>>>;

fn steps() -> Vec<Step> {
    let memo = Memo::default();
    let step = |name, claim: &str, memo: &Memo, measure: fn(&Tools, &Memo) -> Answer| {
        let memo = memo.clone();
        Step {
            name,
            claims: vec![claim.to_owned()],
            measure: Box::new(move |options| vec![measure(&tools(options), &memo)]),
        }
    };
    vec![
        step("integer kernels, translated", "latm.expansion.int", &memo, |tools, memo| {
            expansion(tools, memo, "integer")
        }),
        step("floating-point kernels, translated", "latm.expansion.fp", &memo, |tools, memo| {
            expansion(tools, memo, "float")
        }),
        step("LoongArch builds of the kernels", "latm.vs_native", &memo, native),
        step("integer kernels on QEMU", "latm.vs_qemu.int", &memo, |tools, memo| {
            qemu(tools, memo, "integer")
        }),
        step("floating-point kernels on QEMU", "latm.vs_qemu.fp", &memo, |tools, memo| {
            qemu(tools, memo, "float")
        }),
        Step {
            name: "random programs on translator and exact interpreter",
            claims: vec!["latm.fuzz.unexplained".to_owned()],
            measure: Box::new(|options| vec![unexplained(options)]),
        },
    ]
}

fn tools(options: &Options) -> Tools {
    Tools::new(&options.program, &options.peers, &options.scratch)
}

/// The kernel's counts when it is translated.
fn translated(tools: &Tools, memo: &Memo, kernel: Kernel) -> Found<Counted> {
    let key = (kernel.program, kernel.name);
    if let Some(known) = memo.borrow().get(&key) {
        return known.clone();
    }
    let counted = counts::count(tools, Way::Translated, kernel);
    memo.borrow_mut().insert(key, counted.clone());
    counted
}

fn figure(rows: &[Row], names: (&str, &str), note: String) -> Figure {
    let mut figure = Figure::new(mean(rows), note);
    figure.notes.extend(rows.iter().map(|row| row.text(names)));
    figure
}

fn expansion(tools: &Tools, memo: &Memo, program: &'static str) -> Answer {
    let mut unequal = Vec::new();
    let rows = counts::rows(Some(program), |kernel| {
        let counted = translated(tools, memo, kernel)?;
        let guest = counted.guest_count.ok_or("no MIPS64 instructions were counted")?;
        Ok(Row { kernel, above: counted.own_count, below: guest })
    })?;
    for row in &rows {
        if counts::count(tools, Way::Translated, row.kernel)?.own_count != row.above {
            unequal.push(row.kernel.name);
        }
    }
    let note = "geometric mean; own kernels, zig's clang -O2 without contraction";
    let figure = figure(&rows, ("LA64", "MIPS64"), note.into());
    Ok(figure.provided(unequal.is_empty(), format!("counted twice, the same; not {unequal:?}")))
}

fn native(tools: &Tools, memo: &Memo) -> Answer {
    let mut different = Vec::new();
    let [scalar, vector] = [Target::LoongArchScalar, Target::LoongArch].map(|target| {
        counts::rows(None, |kernel| {
            let ours = translated(tools, memo, kernel)?;
            let theirs = counts::count(tools, Way::Native(target), kernel)?;
            if ours.text != theirs.text {
                different.push(kernel.name);
            }
            Ok(Row { kernel, above: theirs.own_count, below: ours.own_count })
        })
    });
    let (scalar, vector) = (scalar?, vector?);
    let of = |rows: &[Row], program: &str| {
        let rows: Vec<Row> = rows.iter().filter(|r| r.kernel.program == program).cloned().collect();
        mean(&rows)
    };
    let note = format!(
        "without vectors, which MIPS64 has not: {:.3} on the integer kernels, {:.3} on the \
         floating-point ones; with the compiler's vectors {:.3} and {:.3}, all {:.3}; the paper's \
         figure is of times",
        of(&scalar, "integer"),
        of(&scalar, "float"),
        of(&vector, "integer"),
        of(&vector, "float"),
        mean(&vector),
    );
    let mut figure = figure(&scalar, ("native", "ours"), note);
    figure.notes.extend(vector.iter().map(|r| r.text(("with vectors", "ours"))));
    Ok(figure.provided(different.is_empty(), format!("equal results; not {different:?}")))
}

fn qemu(tools: &Tools, memo: &Memo, program: &'static str) -> Answer {
    let mut different = Vec::new();
    let rows = counts::rows(Some(program), |kernel| {
        let theirs = counts::count(tools, Way::Qemu, kernel)?;
        let ours = translated(tools, memo, kernel)?;
        if ours.text != theirs.text {
            different.push(kernel.name);
        }
        Ok(Row { kernel, above: theirs.own_count, below: ours.own_count })
    })?;
    let note = "geometric mean; QEMU's own LoongArch build, run and counted by our engine; the \
                paper has no such figure for MIPS64";
    let figure = figure(&rows, ("QEMU", "ours"), note.into());
    Ok(figure.provided(different.is_empty(), format!("equal results; not {different:?}")))
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
    use littoral_bench::peers::Peers;

    #[test]
    fn without_tools_no_claim_has_a_figure() {
        let dir = tempfile::tempdir().unwrap();
        let nowhere = dir.path().join("missing");
        let tools = Tools::new(&nowhere, &Peers::default(), &nowhere);
        let memo = Memo::default();
        for answer in [
            expansion(&tools, &memo, "integer"),
            native(&tools, &memo),
            qemu(&tools, &memo, "float"),
        ] {
            assert!(answer.is_err(), "{answer:?}");
        }
    }

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
