//! Table 1, figures 4 and 5 and Ocean of paper 002 beside the model's, and counts that repeat.
//!
//! Every figure comes from runs of [`super::model`]; the paper's stand beside it as `paper`.
//!
//! Predictions for platforms and unmeasured numbers of ranks are labelled as modelled.

use littoral_device::profile::Profile;
use littoral_fabric::timing::Timing;

use super::model::{Ended, run};
use super::programs::{Basic, PLATFORMS, PROGRAMS, Program, platform};
use super::{Figures, words};
use littoral_bench::claims::Figure;

/// The seed of every modelled run.
pub const SEED: u64 = 2009;
const PARTS: [&str; 3] = ["data", "syn", "server"];
const MODELLED: &str = "modelled: protocol core in virtual time";

/// The program on so many ranks, in virtual time.
///
/// # Errors
/// When the protocol refuses the workload.
pub fn runs(program: &Program, ranks: u16, timing: Timing) -> Result<Ended, String> {
    let ended = run(&mut program.workload(SEED, ranks), ranks, timing);
    ended.map_err(|e| format!("{}: {e}", program.name))
}

/// Microseconds an iteration of Code 1 (`locks`) or Code 2 on two ranks.
///
/// # Errors
/// As [`runs`].
pub fn per_iteration_us(locks: bool, timing: Timing) -> Result<f64, String> {
    const ITERATIONS: u32 = 500;
    let mut basic = Basic { locks, left: vec![ITERATIONS; 2] };
    Ok(run(&mut basic, 2, timing)?.total.as_secs_f64() * 1e6 / f64::from(ITERATIONS))
}

fn modelled() -> Result<String, String> {
    let profile = Profile::named("loongson-2e").map_err(words)?;
    Ok(format!("{MODELLED}, profile loongson-2e {}", profile.hash()))
}

/// `dsm.fig4.*`.
///
/// # Errors
/// When the model refuses a workload.
pub fn figure4() -> Figures {
    let mut figures = Vec::new();
    for (name, locks) in [("lock", true), ("barrier", false)] {
        let on = |name| per_iteration_us(locks, platform(name)?);
        let (a, b, c) = (on("cluster")?, on("remote")?, on("manager")?);
        let note = format!("{a:.1}, {b:.1} and {c:.1} us an iteration; {}", modelled()?);
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
        let ended = runs(program, 4, platform("cluster")?)?;
        let ours = ended.shares();
        for (part, name) in PARTS.iter().enumerate() {
            let paper = program.shares[part];
            let fitted = if program.is_held_out() { "held out" } else { "fitted" };
            let note = format!(
                "ours {:.1} %, the paper {paper} %, total {:.1} s beside {} s; {fitted}; \
                 {}",
                ours[part],
                ended.total.as_secs_f64(),
                program.total_s,
                modelled()?
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

/// How much sooner the program ends on so many ranks than one processor's computing.
///
/// # Errors
/// As [`runs`].
pub fn speedup(program: &Program, ranks: u16, timing: Timing) -> Result<f64, String> {
    Ok(program.serial_s() / runs(program, ranks, timing)?.total.as_secs_f64())
}

/// `dsm.fig5.*` and `dsm.ocean.*`: speed-ups of four ranks.
///
/// # Errors
/// As [`figure4`].
pub fn figure5() -> Figures {
    let mut figures = Vec::new();
    for program in &PROGRAMS {
        for name in PLATFORMS {
            let ours = speedup(program, 4, platform(name)?)?;
            let id = format!("dsm.fig5.{}.{name}", program.name);
            figures.push((id, Figure::new(ours, modelled()?)));
            if !program.is_held_out() {
                continue;
            }
            let paper = match name {
                "cluster" => 0.288,
                "remote" => 1.734,
                _ => 2.1,
            };
            let off = (ours / paper - 1.0).abs() * 100.0;
            let note = format!("speed-up {ours:.3}, the paper {paper}; held out; {}", modelled()?);
            figures.push((format!("dsm.ocean.{name}"), Figure::new(off, note)));
        }
    }
    Ok(figures)
}

/// Interconnects on which the programs were not measured, in claims and as profiles.
const PREDICTED: [(&str, &str); 3] = [("tcp", "tcp"), ("rdma", "rdma"), ("cxl", "cxl-pool")];

/// `dsm.predict.*`: the held-out program's speed-up on interconnects where it was not measured.
///
/// # Errors
/// As [`figure4`].
pub fn predictions() -> Figures {
    let mut figures = Vec::new();
    for (name, profile) in PREDICTED {
        let (found, _, timing) = Timing::resolve(profile).map_err(words)?;
        for ranks in [4, 8, 16, 32, 64] {
            let ours = speedup(&PROGRAMS[5], ranks, timing)?;
            let note = format!(
                "a prediction, modelled: Loongson 2E computing over profile {profile} {}, whose \
                 figures are typical public ones and not measured",
                found.hash()
            );
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
        let (first, second) = {
            let manager = platform("manager")?;
            (runs(program, 4, manager)?, runs(program, 4, manager)?)
        };
        let (messages, bytes) = (first.traffic.messages, first.traffic.bytes);
        let note = format!("{messages} messages, {bytes} bytes, {} faults", first.faults);
        let differing = f64::from(u8::from(first != second));
        Ok((format!("dsm.counts.{}", program.name), Figure::new(differing, note)))
    };
    Ok(PROGRAMS.iter().map(count).collect::<Result<Vec<_>, String>>()?)
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
            let [a, b, c] =
                PLATFORMS.map(|name| per_iteration_us(locks, platform(name).unwrap()).unwrap());
            assert!(a > 3.0 * b && b > c, "{a} {b} {c}");
        }
    }
}
