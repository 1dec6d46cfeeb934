//! Table 1, figures 4 and 5 and Ocean of paper 002 beside the model's, and counts that repeat.
//!
//! Invariants
//! - Every figure comes from runs of [`super::model`]; the paper's stand beside it as `paper`.
//! - Predictions for platforms and numbers of ranks nobody measured are labelled as modelled.

use littoral_base::units::Picos;

use super::Figures;
use super::model::{Costs, Ended, run};
use super::programs::{Basic, CLUSTER, MANAGER, PLATFORMS, PROGRAMS, Program, REMOTE};
use crate::claims::Figure;

const SEED: u64 = 2009;
const PARTS: [&str; 3] = ["data", "syn", "server"];
const MODELLED: &str = "modelled: protocol core in virtual time";

fn runs(program: &Program, ranks: u16, costs: Costs) -> Result<Ended, String> {
    let ended = run(&mut program.workload(SEED), ranks, costs);
    ended.map_err(|e| format!("{}: {e}", program.name))
}

fn per_iteration(locks: bool, costs: Costs) -> Result<f64, String> {
    const ITERATIONS: u32 = 500;
    let mut basic = Basic { locks, left: vec![ITERATIONS; 2] };
    Ok(run(&mut basic, 2, costs)?.total.as_secs_f64() * 1e6 / f64::from(ITERATIONS))
}

/// `dsm.fig4.*`.
///
/// # Errors
/// When the model refuses a workload.
pub fn figure4() -> Figures {
    let mut figures = Vec::new();
    for (name, locks) in [("lock", true), ("barrier", false)] {
        let [cluster, remote, manager] = [CLUSTER, REMOTE, MANAGER];
        let [a, b, c] = [
            per_iteration(locks, cluster)?,
            per_iteration(locks, remote)?,
            per_iteration(locks, manager)?,
        ];
        let note = format!("{a:.1}, {b:.1} and {c:.1} us an iteration; {MODELLED}");
        figures.push((format!("dsm.fig4.{name}.remote"), Figure::new(a / b, note.clone())));
        figures.push((format!("dsm.fig4.{name}.manager"), Figure::new(b / c, note)));
    }
    Ok(figures)
}

/// Pairs of programs that the model puts into the paper's order, of all pairs that differ.
fn ordered(paper: &[f64], ours: &[f64]) -> (u32, u32) {
    let (mut equal, mut all) = (0, 0);
    for i in 0..paper.len() {
        for j in 0..i {
            if paper[i] != paper[j] {
                all += 1;
                equal += u32::from((paper[i] > paper[j]) == (ours[i] > ours[j]));
            }
        }
    }
    (equal, all)
}

/// `dsm.table1.*`: four ranks on the cluster.
///
/// # Errors
/// As [`figure4`].
pub fn table1() -> Figures {
    let mut figures = Vec::new();
    let mut shares = Vec::new();
    for program in &PROGRAMS {
        let ended = runs(program, 4, CLUSTER)?;
        let ours = ended.shares();
        for (part, name) in PARTS.iter().enumerate() {
            let paper = program.shares[part];
            let fitted = if program.name == "ocean" { "held out" } else { "used for the estimate" };
            let note = format!(
                "ours {:.1} %, the paper {paper} %, total {:.1} s beside {} s; {fitted}; \
                 {MODELLED}",
                ours[part],
                ended.total.as_secs_f64(),
                program.total_s
            );
            let id = format!("dsm.table1.{}.{name}", program.name);
            figures.push((id, Figure::new((ours[part] - paper).abs(), note)));
        }
        shares.push(ours);
    }
    let (mut equal, mut all) = (0, 0);
    for part in 0..PARTS.len() {
        let paper: Vec<f64> = PROGRAMS.iter().map(|p| p.shares[part]).collect();
        let ours: Vec<f64> = shares.iter().map(|s| s[part]).collect();
        let (e, a) = ordered(&paper, &ours);
        (equal, all) = (equal + e, all + a);
    }
    let note = format!("{equal} of {all} pairs of programs in the paper's order, three parts");
    figures.push(("dsm.table1.order".into(), Figure::new(f64::from(equal) / f64::from(all), note)));
    Ok(figures)
}

fn speedup(program: &Program, ranks: u16, costs: Costs) -> Result<f64, String> {
    Ok(program.serial_s() / runs(program, ranks, costs)?.total.as_secs_f64())
}

/// `dsm.fig5.*` and `dsm.ocean.*`: speed-ups of four ranks.
///
/// # Errors
/// As [`figure4`].
pub fn figure5() -> Figures {
    let mut figures = Vec::new();
    for program in &PROGRAMS {
        for (platform, costs) in PLATFORMS {
            let ours = speedup(program, 4, costs)?;
            let id = format!("dsm.fig5.{}.{platform}", program.name);
            figures.push((id, Figure::new(ours, MODELLED)));
            if program.name != "ocean" {
                continue;
            }
            let paper = match platform {
                "cluster" => 0.288,
                "remote" => 1.734,
                _ => 2.1,
            };
            let off = (ours / paper - 1.0).abs() * 100.0;
            let note = format!("speed-up {ours:.3}, the paper {paper}; held out; {MODELLED}");
            figures.push((format!("dsm.ocean.{platform}"), Figure::new(off, note)));
        }
    }
    Ok(figures)
}

/// Interconnects of today, from public figures of their classes and from memory of them.
const PREDICTED: [(&str, Costs); 3] = [
    ("tcp", fast(5, 8, 1, 3, None)),
    ("rdma", fast(1, 1, 1, 0, Some(2))),
    ("cxl", fast(0, 0, 1, 0, Some(1))),
];

const fn fast(send: u64, latency: u64, fault: u64, trap: u64, board: Option<u64>) -> Costs {
    const US: u64 = 1_000_000;
    let board = match board {
        Some(us) => Some(Picos(us * US)),
        None => None,
    };
    Costs {
        send: Picos(send * US),
        latency: Picos(latency * US + US / 2),
        byte: Picos(80),
        trap: Picos(trap * US),
        fault: Picos(fault * US),
        board,
    }
}

/// `dsm.predict.*`: the held-out program's speed-up on interconnects nobody measured it on.
///
/// # Errors
/// As [`figure4`].
pub fn predictions() -> Figures {
    let mut figures = Vec::new();
    for (name, costs) in PREDICTED {
        for ranks in [4, 16, 64] {
            let ours = speedup(&PROGRAMS[5], ranks, costs)?;
            let note = "a prediction, modelled: Loongson 2E computing over another interconnect, \
                whose costs are typical public ones and not measured";
            figures.push((format!("dsm.predict.{name}.n{ranks}"), Figure::new(ours, note)));
        }
    }
    Ok(figures)
}

/// `dsm.counts.*`: messages of two equal runs, which must be equal bit by bit.
///
/// # Errors
/// As [`figure4`].
pub fn counts() -> Figures {
    let count = |program: &Program| -> Result<(String, Figure), String> {
        let (first, second) = (runs(program, 4, MANAGER)?, runs(program, 4, MANAGER)?);
        let note =
            format!("{} messages, {} bytes, {} faults", first.messages, first.bytes, first.faults);
        let differing = f64::from(u8::from(first != second));
        Ok((format!("dsm.counts.{}", program.name), Figure::new(differing, note)))
    };
    PROGRAMS.iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_compared_pair_by_pair() {
        assert_eq!(ordered(&[1.0, 2.0, 2.0], &[5.0, 6.0, 1.0]), (1, 2));
    }

    #[test]
    fn a_faster_interconnect_and_the_manager_speed_the_basic_codes_up() {
        for locks in [true, false] {
            let [a, b, c] = [CLUSTER, REMOTE, MANAGER].map(|c| per_iteration(locks, c).unwrap());
            assert!(a > 3.0 * b && b > c, "{a} {b} {c}");
        }
    }
}
