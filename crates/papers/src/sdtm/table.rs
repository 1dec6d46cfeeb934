//! `bench heap`: what an operation costs on our engine and on each baseline, as rows.

use littoral_stm::Result;

use super::claims::{Filled, MakeHash, Objects, POOL_BYTES, Sets, Updates};
use super::rivals::{Rivals, Turns, Who};

/// One engine at one kind of work; medians of the rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The work.
    pub work: String,
    /// The engine.
    pub engine: &'static str,
    /// Processor time of the process an operation, in nanoseconds.
    pub cpu_ns: f64,
    /// Operations a second of wall time.
    pub per_s: f64,
    /// Aborts over commits.
    pub aborts_share: f64,
}

const ALL: [(Who, &str); 6] = [
    (Who::Ours, "littoral"),
    (Who::Undo, "undo log, lock"),
    (Who::Tl2, "TL2, redo log"),
    (Who::Dude, "shadow, replay"),
    (Who::Paper, "paper, addresses"),
    (Who::PaperScan, "paper, scan"),
];

const OPS: u64 = 120_000;

fn add(rows: &mut Vec<Row>, work: &str, turns: &Turns) {
    rows.extend(ALL.map(|(who, engine)| Row {
        work: work.to_owned(),
        engine,
        cpu_ns: 1e9 / turns.speed(who),
        per_s: turns.wall_speed(who),
        aborts_share: turns.aborts_percent(who) / 100.0,
    }));
}

/// Updates of 1, 4 and 16 objects, and a hash map at 20 % updates on one and two threads.
///
/// # Errors
/// Errors of the engines.
pub fn rows(rounds: usize) -> Result<Vec<Row>> {
    let (who, mut rows) = (ALL.map(|a| a.0), Vec::new());
    let objects = Rivals::new(&who, POOL_BYTES, &Objects)?;
    for k in [1, 4, 16] {
        let turns = objects.turns(rounds, &Updates { k, ops: OPS })?;
        add(&mut rows, &format!("update {k} objects"), &turns);
    }
    let maps = Rivals::new(&who, POOL_BYTES, &Filled { keys: 20_000, make: MakeHash })?;
    for threads in [1, 2] {
        let load = Sets { keys: 20_000, percent: 20, threads, ops: OPS };
        let turns = maps.turns(rounds, &load)?;
        add(&mut rows, &format!("hash map, 20 % updates, {threads} threads"), &turns);
    }
    Ok(rows)
}
