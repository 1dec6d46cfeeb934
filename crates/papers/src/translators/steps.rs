//! Figures that translators have. All of them are counts, but for that of [`wall`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use littoral_bench::claims::Figure;
use littoral_bench::repro::{Answer, Options, Step};

use super::counts::{self, Counted, Guest, Row, Way, mean};
use crate::loongarch::jobs::{self, Job};
use crate::loongarch::kernels::{self, Compiled, Kernel, Target, geometric_mean};
use crate::loongarch::timing::medians;
use crate::loongarch::{Found, Tools};

/// Counts of kernels on ways that several claims need; counted once.
#[derive(Clone, Default)]
pub(super) struct Memo(Rc<RefCell<BTreeMap<String, Found<Counted>>>>);

impl Memo {
    /// The kernel's counts.
    fn count(&self, tools: &Tools, way: Way, kernel: Kernel) -> Found<Counted> {
        let key = format!("{way:?} {kernel:?}");
        if let Some(known) = self.0.borrow().get(&key) {
            return known.clone();
        }
        let counted = counts::count(tools, way, kernel);
        self.0.borrow_mut().insert(key, counted.clone());
        counted
    }

    /// A step with one claim.
    pub(super) fn step(
        &self,
        name: &'static str,
        claim: &str,
        measure: impl Fn(&Tools, &Memo) -> Answer + 'static,
    ) -> Step {
        let memo = self.clone();
        Step {
            name,
            claims: vec![claim.to_owned()],
            measure: Box::new(move |options| vec![measure(&tools(options), &memo)]),
        }
    }
}

fn tools(options: &Options) -> Tools {
    Tools::new(&options.program, &options.peers, &options.scratch)
}

/// Instructions of the guest's builds over those of LA64 builds with the compiler's vectors: table
/// 6's method.
pub(super) fn table6(tools: &Tools, memo: &Memo, guest: Guest, program: &'static str) -> Answer {
    let rows = counts::rows(Some(program), |kernel| {
        let theirs = memo.count(tools, Way::Translated(guest), kernel)?.guest_count;
        let missing = || format!("no {} instructions were counted", guest.name());
        let below = memo.count(tools, Way::Native(Target::LoongArch), kernel)?.own_count;
        Ok(Row { kernel, above: theirs.ok_or_else(missing)?, below })
    })?;
    let note = "geometric mean; own kernels, the difference of two lengths; the paper's figure is \
                SPEC2006's";
    Ok(figure(&rows, (guest.name(), "LA64"), note.into()))
}

/// LA64 instructions without LBT over those with it: integer kernels, and kernels of what depends
/// on flags, by kind.
pub(super) fn without_lbt(tools: &Tools, memo: &Memo) -> Answer {
    let guest = Guest::X86;
    let mut different = Vec::new();
    let mut rows = |program| {
        counts::rows(Some(program), |kernel| {
            let plain = memo.count(tools, Way::WithoutLbt, kernel)?;
            let with = memo.count(tools, Way::Translated(guest), kernel)?;
            if plain.text != with.text || plain.guest_count != with.guest_count {
                different.push(kernel.name);
            }
            Ok(Row { kernel, above: plain.own_count, below: with.own_count })
        })
    };
    let (integer, kinds) = (rows("integer")?, rows("kinds")?);
    let by_kind: Vec<String> =
        kinds.iter().map(|r| format!("{} {:.3}", r.kernel.name, r.ratio())).collect();
    let note = format!(
        "geometric mean of ten integer kernels; by kind, in kernels of their own: {}",
        by_kind.join(", ")
    );
    let names = ("without LBT", "with");
    let mut figure = figure(&integer, names, note);
    figure.notes.extend(kinds.iter().map(|row| row.text(names)));
    Ok(figure.provided(different.is_empty(), format!("equal results; not {different:?}")))
}

/// CPU time of the translated kernels over that of their LA64 builds, both on our engine.
pub(super) fn wall(tools: &Tools, guest: Guest) -> Answer {
    const ROUNDS: u32 = 200;
    const REPETITIONS: usize = 3;
    let builds = [guest.target(), Target::LoongArch].map(|target| Compiled::build(tools, target));
    let [guest_build, native] = builds;
    let (guest_build, native) = (guest_build?, native?);
    let mut rows = Vec::new();
    for kernel in kernels::all() {
        let commands = [&guest_build, &native].map(|b| b.command(tools.ours(), kernel, ROUNDS));
        let seconds = medians(tools, &commands, 1, REPETITIONS)?;
        rows.push((kernel, seconds[0], seconds[1]));
    }
    let ratios: Vec<f64> = rows.iter().map(|r| r.1 / r.2).collect();
    let note = format!(
        "geometric mean of 18 kernels; user and system time, medians of {REPETITIONS} runs of \
         {ROUNDS} rounds, start-up and translation included"
    );
    let mut figure = Figure::new(geometric_mean(&ratios), note);
    figure.notes.extend(rows.iter().map(|(kernel, translated, native)| {
        let Kernel { program, name } = kernel;
        let ratio = translated / native;
        format!("{program} {name} {ratio:.2} (translated {translated:.3} s, LA64 {native:.3} s)")
    }));
    Ok(figure)
}

/// Jobs of Debian's programs whose output is the amd64 build's.
pub(super) fn identical(tools: &Tools, guest: Guest, jobs: &[Job]) -> Answer {
    let root = tools.guest_root(guest.debian())?;
    Ok(jobs::figure(&jobs::run(tools, &root, jobs)?))
}

fn figure(rows: &[Row], names: (&str, &str), note: String) -> Figure {
    let mut figure = Figure::new(mean(rows), note);
    figure.notes.extend(rows.iter().map(|row| row.text(names)));
    figure
}

/// LA64 instructions per guest instruction in the kernels of `program`.
pub(super) fn expansion(tools: &Tools, memo: &Memo, guest: Guest, program: &'static str) -> Answer {
    let mut unequal = Vec::new();
    let way = Way::Translated(guest);
    let rows = counts::rows(Some(program), |kernel| {
        let counted = memo.count(tools, way, kernel)?;
        let missing = || format!("no {} instructions were counted", guest.name());
        Ok(Row {
            kernel,
            above: counted.own_count,
            below: counted.guest_count.ok_or_else(missing)?,
        })
    })?;
    for row in &rows {
        if counts::count(tools, way, row.kernel)?.own_count != row.above {
            unequal.push(row.kernel.name);
        }
    }
    let note = "geometric mean; own kernels, zig's clang -O2 without contraction";
    let figure = figure(&rows, ("LA64", guest.name()), note.into());
    Ok(figure.provided(unequal.is_empty(), format!("counted twice, the same; not {unequal:?}")))
}

/// Instructions on `peer` over those of the translated kernels of `program` (all without one). That
/// our results are right is a condition of [`native`].
pub(super) fn beside(
    tools: &Tools,
    memo: &Memo,
    (guest, program): (Guest, Option<&'static str>),
    peer: Way,
    (name, note): (&'static str, &str),
) -> Answer {
    let (rows, different) = rows_beside(tools, memo, (guest, program), peer)?;
    let mut figure = figure(&rows, (name, "ours"), note.into());
    if peer == Way::Box64 {
        // It computes x87 with 64 bits, so the digits that a program prints may be others.
        if !different.is_empty() {
            figure.notes.push(format!("{name} prints other digits: {different:?}"));
        }
        return Ok(figure);
    }
    Ok(figure.provided(different.is_empty(), format!("equal results; not {different:?}")))
}

/// The rows of [`beside`], and the kernels that printed something else.
fn rows_beside(
    tools: &Tools,
    memo: &Memo,
    (guest, program): (Guest, Option<&'static str>),
    peer: Way,
) -> Found<(Vec<Row>, Vec<&'static str>)> {
    let mut different = Vec::new();
    let rows = counts::rows(program, |kernel| {
        let theirs = memo.count(tools, peer, kernel)?;
        let ours = memo.count(tools, Way::Translated(guest), kernel)?;
        if ours.text != theirs.text {
            different.push(kernel.name);
        }
        Ok(Row { kernel, above: theirs.own_count, below: ours.own_count })
    })?;
    Ok((rows, different))
}

/// Instructions of LoongArch builds over those of the translated kernels: the build without vectors
/// is the figure if `is_scalar`, else the one with the compiler's vectors; the other is noted.
pub(super) fn native(
    tools: &Tools,
    memo: &Memo,
    (guest, program): (Guest, Option<&'static str>),
    is_scalar: bool,
) -> Answer {
    let builds = |target| rows_beside(tools, memo, (guest, program), Way::Native(target));
    let ((scalar, odd_scalar), (vector, odd_vector)) =
        (builds(Target::LoongArchScalar)?, builds(Target::LoongArch)?);
    let words = |rows: &[Row], name: &str| {
        let of = |program: &str| {
            let rows = rows.iter().filter(|r| r.kernel.program == program).cloned();
            let rows: Vec<Row> = rows.collect();
            (!rows.is_empty()).then(|| format!("{program} {:.3}", mean(&rows)))
        };
        let parts: Vec<String> = ["integer", "float"].into_iter().filter_map(of).collect();
        match &parts[..] {
            [_] => format!("{name}: {:.3}", mean(rows)),
            _ => format!("{name}: {:.3} ({})", mean(rows), parts.join(", ")),
        }
    };
    let note = format!(
        "{}; {}; the paper's figure is of times",
        words(&scalar, "LA64 builds without vectors"),
        words(&vector, "with the compiler's vectors"),
    );
    let (main, other) = if is_scalar { (&scalar, &vector) } else { (&vector, &scalar) };
    let names = ["without vectors", "with vectors"];
    let [main_name, other_name] = if is_scalar { names } else { [names[1], names[0]] };
    let mut figure = figure(main, (main_name, "ours"), note);
    figure.notes.extend(other.iter().map(|r| r.text((other_name, "ours"))));
    let different = [odd_scalar, odd_vector].concat();
    Ok(figure.provided(different.is_empty(), format!("equal results; not {different:?}")))
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
        for guest in [Guest::Mips64, Guest::X86] {
            let of = (guest, Some("float"));
            for answer in [
                expansion(&tools, &memo, guest, "integer"),
                native(&tools, &memo, (guest, None), true),
                beside(&tools, &memo, of, Way::Qemu(guest), ("QEMU", "")),
                beside(&tools, &memo, of, Way::Box64, ("box64", "")),
                identical(&tools, guest, &jobs::JOBS),
                identical(&tools, guest, &jobs::SIGNALLED),
                table6(&tools, &memo, guest, "integer"),
                wall(&tools, guest),
                without_lbt(&tools, &memo),
            ] {
                assert!(answer.is_err(), "{answer:?}");
            }
        }
    }
}
