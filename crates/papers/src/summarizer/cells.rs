//! Every policy in every cell, beside the best static split and the fluid bound.

use std::time::Instant;

use littoral_bench::claims::Figure;
use littoral_push::oracle::{Cell, Times, cells, triples};

use super::{Figures, board};

/// Pages of a cell's scan.
const PAGES: usize = 2_000;
/// Threads of the sweep; a cell's times do not depend on them.
const THREADS: usize = 2;

/// Sorted values and where the largest is.
struct Spread {
    values: Vec<f64>,
    worst: String,
}

fn spread(all: &[(Cell, Times)], ratio: impl Fn(&Cell, &Times) -> Option<f64>) -> Spread {
    let mut found: Vec<(f64, &Cell)> =
        all.iter().filter_map(|(c, t)| Some((ratio(c, t)?, c))).collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let worst = found.last().map_or_else(String::new, |(_, c)| words(c));
    Spread { values: found.into_iter().map(|(v, _)| v).collect(), worst }
}

impl Spread {
    fn at(&self, share: f64) -> f64 {
        let last = self.values.len().saturating_sub(1) as f64;
        self.values.get((last * share).ceil() as usize).copied().unwrap_or(f64::NAN)
    }
}

fn words(cell: &Cell) -> String {
    let Cell { ratio, speed, depth, tasks, .. } = cell;
    format!("internal:link {ratio}, cores {speed}x, depth {depth}, {}", tasks.join(" and "))
}

fn sweep(all: &[Cell]) -> Result<Vec<(Cell, Times)>, String> {
    let (machine, _) = board()?;
    let worker = |part: usize| {
        let own = all.iter().skip(part).step_by(THREADS);
        own.map(|c| (c.clone(), c.times(&machine, PAGES))).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let worker = &worker;
        let parts: Vec<_> = (0..THREADS).map(|part| scope.spawn(move || worker(part))).collect();
        let joined = parts.into_iter().map(|p| p.join().map_err(|_| "a sweep panicked".to_owned()));
        Ok(joined.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    })
}

/// Three tasks at a time: the split is then looked for two tasks at a time.
///
/// # Errors
/// When the board's profile does not parse.
pub fn three() -> Figures {
    let all = sweep(&triples())?;
    let ours = spread(&all, |_, t| Some(t.ours / t.best.time.0 as f64));
    let note = format!(
        "{} cells of three tasks, 41 points per task; median {:.3}; worst: {}",
        all.len(),
        ours.at(0.5),
        ours.worst
    );
    Ok(vec![("push.oracle3.worst".to_owned(), Figure::new(ours.at(1.0), note))])
}

/// The claims over all cells.
///
/// # Errors
/// When the board's profile does not parse.
pub fn oracle() -> Figures {
    let began = Instant::now();
    let all = sweep(&cells())?;
    let seconds = began.elapsed().as_secs_f64();
    let runs: u32 = all.iter().map(|(_, t)| t.best.runs + 7).sum();
    let best = |t: &Times| t.best.time.0 as f64;
    let ours = spread(&all, |_, t| Some(t.ours / best(t)));
    let host = spread(&all, |_, t| Some(t.ours / t.host));
    let bound = spread(&all, |_, t| Some(t.ours / t.bound));
    let dynamic = spread(&all, |c, t| (c.tasks.len() > 1).then_some(t.dynamic / t.ours));
    let rival = spread(&all, |_, t| Some(t.dynamic / best(t)));
    let pages = f64::from(runs) * PAGES as f64 / 1e6;
    let took = format!("{runs} runs, {pages:.0} M pages in {seconds:.0} s on {THREADS} threads");
    let figure = |id: &str, value: f64, note: String| {
        (format!("push.oracle.{id}"), Figure::new(value, note))
    };
    let beside = format!(
        "dynamic with its best queue: median {:.3}, p90 {:.3}, worst {:.3}",
        rival.at(0.5),
        rival.at(0.9),
        rival.at(1.0)
    );
    let filtered = all.iter().filter(|(_, t)| t.filtered < t.ours).count();
    let filtered = format!("filtering every page on the device is faster in {filtered} cells");
    let counted = Figure::new(all.len() as f64, took)
        .provided(seconds < 120.0, "the sweep takes under two minutes");
    Ok(vec![
        ("push.oracle.cells".to_owned(), counted),
        figure("median", ours.at(0.5), beside),
        figure("p99", ours.at(0.99), filtered),
        figure("worst", ours.at(1.0), ours.worst.clone()),
        figure("vs_host", host.at(1.0), host.worst.clone()),
        figure("vs_bound", bound.at(0.5), format!("worst {:.3}: {}", bound.at(1.0), bound.worst)),
        figure("vs_dyn", dynamic.at(0.9), format!("median {:.3}", dynamic.at(0.5))),
    ])
}
