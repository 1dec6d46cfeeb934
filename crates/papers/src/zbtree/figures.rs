//! What is claimed of system `zbtree`: each table and figure of paper 000 that has numbers.
//!
//! - Counts are exact under the seed. Figure mode: each update of a conventional page is one block
//!   write, nothing is cached; redo blocks (group commit, packed) are counted apart.
//! - Times are the virtual clock of profile `zns-paper`: one client, one request at a time.
//! - Occupancies are compared with the paper's table by their distance in per cent; the note has
//!   both.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use littoral_assure::index::power_cuts::power_cuts;
use littoral_index::index::Engine;
use littoral_store::counted::{PageCounts, Placement};

use super::batches;
use super::collect::{Load, Overwritten, overwrite};
use super::reads;
use super::workload::{Outcome, Setup, run};
use littoral_bench::claims::Figure;
use littoral_bench::error::{Error, Kind, Result};
use littoral_bench::ycsb::Distribution;

/// A claim's id and its figure.
pub type Measured = (String, Figure);

/// The record counts of tables 2 to 6.
pub const SIZES: [(&str, u64); 3] = [("500k", 500_000), ("1500k", 1_500_000), ("2500k", 2_500_000)];

/// Tables 2 to 6: occupancy by workload and size, ZB+-tree and copy-on-write.
const TABLES: [[(f64, f64); 3]; 5] = [
    [(0.000469, 0.120431), (0.001543, 0.402918), (0.002439, 0.678303)],
    [(0.000385, 0.086633), (0.001161, 0.300859), (0.001882, 0.513317)],
    [(0.000417, 0.103262), (0.001371, 0.353144), (0.002141, 0.599624)],
    [(0.000498, 0.132233), (0.001617, 0.432777), (0.002613, 0.739822)],
    [(0.000363, 0.073475), (0.001025, 0.262106), (0.001729, 0.450943)],
];

/// Tables 7 and 8: sequential zones, ZB+-tree and copy-on-write.
const RATIOS: [[(u32, f64, f64); 3]; 2] = [
    [(32, 0.001125, 0.321145), (48, 0.000751, 0.216282), (64, 0.000562, 0.163043)],
    [(32, 0.000959, 0.240339), (48, 0.000638, 0.161861), (64, 0.000478, 0.122018)],
];

/// Section 4.2.5: resets of the copy-on-write tree at 2.5, 5 and 7.5 million records.
const RESETS: [[u64; 3]; 2] = [[10, 22, 37], [2, 6, 9]];

/// Sequential zones of `zbtree.gc`.
const COLLECTED_ZONES: u32 = 128;

/// The record counts of [`RESETS`].
pub const RESET_SIZES: [u64; 3] = [2_500_000, 5_000_000, 7_500_000];

/// The distributions of `zbtree.time`.
pub const DISTRIBUTIONS: [Distribution; 3] =
    [Distribution::Zipfian, Distribution::Uniform, Distribution::Latest];

/// Runs set-ups, each once, and turns them into figures.
#[derive(Debug)]
pub struct Bench {
    seed: u64,
    done: HashMap<Setup, Outcome>,
}

/// Runs set-ups side by side, one a core; each is deterministic by itself.
fn run_all(setups: &[Setup]) -> Result<Vec<Outcome>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(vec![None; setups.len()]));
    std::thread::scope(|scope| {
        for _ in 0..cores.min(setups.len()) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(setup) = setups.get(i) else { break };
                    let outcome = measure(setup).map_err(|e| e.to_string());
                    outcomes.lock().expect("invariant: nothing panics with the lock held")[i] =
                        Some(outcome);
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().expect("invariant: nothing panics with the lock held");
    let outcome = |o: Option<std::result::Result<Outcome, String>>| {
        o.expect("invariant: every set-up was run").map_err(|e| Error::new(Kind::BadResult, e))
    };
    outcomes.into_iter().map(outcome).collect()
}

fn measure(setup: &Setup) -> Result<Outcome> {
    let what = || format!("{} workload {}", setup.engine.name(), setup.workload);
    run(setup).map_err(|e| Error::with_source(Kind::BadResult, what(), e))
}

fn distance_percent(ours: f64, paper: f64) -> f64 {
    (ours / paper - 1.0).abs() * 100.0
}

fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

impl Bench {
    /// A bench under the system's seed.
    pub fn new(seed: u64) -> Bench {
        Bench { seed, done: HashMap::new() }
    }

    /// The system's seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Runs what has not been run yet, as many at once as there are cores.
    fn prepare(&mut self, setups: impl IntoIterator<Item = Setup>) -> Result<()> {
        let mut wanted: Vec<Setup> = Vec::new();
        for setup in setups {
            if !self.done.contains_key(&setup) && !wanted.contains(&setup) {
                wanted.push(setup);
            }
        }
        let outcomes = run_all(&wanted)?;
        self.done.extend(wanted.into_iter().zip(outcomes));
        Ok(())
    }

    fn of(&self, setup: &Setup) -> Outcome {
        self.done[setup]
    }

    fn cells(&self, workload: usize, n: u64, distribution: Distribution) -> [Setup; 2] {
        [Engine::Zb, Engine::Cow]
            .map(|engine| Setup { distribution, ..Setup::paper(engine, workload, n, self.seed) })
    }

    /// Outcomes of a cell that was prepared.
    fn both(&self, workload: usize, n: u64, d: Distribution) -> (Outcome, Outcome) {
        let [z, c] = self.cells(workload, n, d);
        (self.of(&z), self.of(&c))
    }

    fn prepare_cells(&mut self, n: u64, d: Distribution) -> Result<()> {
        let setups: Vec<Setup> = (1..=5).flat_map(|w| self.cells(w, n, d)).collect();
        self.prepare(setups)
    }

    /// Tables 2 to 6 for the record count `SIZES[size]`.
    ///
    /// # Errors
    /// `Kind::BadResult` when a run fails.
    pub fn tables(&mut self, size: usize) -> Result<Vec<Measured>> {
        let (name, n) = SIZES[size];
        self.prepare_cells(n, Distribution::Zipfian)?;
        let mut found = Vec::new();
        for (w, row) in TABLES.iter().enumerate() {
            let (zb, cow) = row[size];
            let (z, c) = self.both(w + 1, n, Distribution::Zipfian);
            let id = |engine: &str| format!("zbtree.table{}.{name}.{engine}", w + 2);
            let mut z_figure = occupancy(z.sequential_occupancy, zb);
            if size == 1 {
                z_figure.notes.push(off_its_neighbours(row, z.sequential_occupancy));
            }
            let low = z.sequential_occupancy < 0.0027;
            found.push((id("zb"), z_figure.provided(low, "occupancy below 0.0027")));
            found.push((id("cow"), occupancy(c.sequential_occupancy, cow)));
        }
        Ok(found)
    }

    /// Tables 7 and 8 and figure 20: one million records on 32, 48 and 64 sequential zones.
    ///
    /// # Errors
    /// `Kind::BadResult` when a run fails.
    pub fn ratios(&mut self) -> Result<Vec<Measured>> {
        let seed = self.seed;
        let setup = |w: usize, zones: u32, engine| Setup {
            sequential_zones: zones,
            ..Setup::paper(engine, w + 1, 1_000_000, seed)
        };
        let cells = (0..2).flat_map(|w| RATIOS[w].map(|(zones, ..)| (w, zones)));
        let both = |(w, zones)| [setup(w, zones, Engine::Zb), setup(w, zones, Engine::Cow)];
        self.prepare(cells.flat_map(both))?;
        let mut found = Vec::new();
        let mut spread = 0;
        for (w, row) in RATIOS.iter().enumerate() {
            let mut counts: Vec<[PageCounts; 2]> = Vec::new();
            for (zones, zb, cow) in row {
                let of = |engine| self.of(&setup(w, *zones, engine));
                let (z, c) = (of(Engine::Zb), of(Engine::Cow));
                let id = |engine: &str| format!("zbtree.table{}.{zones}.{engine}", w + 7);
                found.push((id("zb"), occupancy(z.sequential_occupancy, *zb)));
                found.push((id("cow"), occupancy(c.sequential_occupancy, *cow)));
                counts.push([z.run, c.run]);
            }
            spread = spread.max(counts.iter().map(|c| differ(c, &counts[0])).max().unwrap_or(0));
        }
        let note = "read and write counts of both trees at 1:32, 1:48 and 1:64, workloads 1 and 2";
        found.push(("zbtree.fig20".to_owned(), Figure::new(spread as f64, note)));
        Ok(found)
    }

    /// Writes, reads and costs of the run phase at `n` records.
    ///
    /// # Errors
    /// `Kind::BadResult` when a run fails.
    pub fn counts(&mut self, n: u64) -> Result<Vec<Measured>> {
        self.prepare_cells(n, Distribution::Zipfian)?;
        let mut found = Vec::new();
        let (mut most, mut least, mut reads) = (0, u64::MAX, (u64::MAX, 0));
        for w in 1..=5 {
            let (z, c) = self.both(w, n, Distribution::Zipfian);
            if w < 5 {
                let (zw, cw, redo) =
                    (z.run.writes_count(), c.run.writes_count(), z.run.redo_blocks(4096));
                let note =
                    format!("{n} records: {zw} blocks against {cw}; {redo} redo blocks apart");
                found.push((
                    format!("zbtree.writes.w{w}"),
                    Figure::new(ratio(zw, cw), note.clone()),
                ));
                let with = ratio(zw + redo, cw + c.run.redo_blocks(4096));
                found.push((format!("zbtree.writes_redo.w{w}"), Figure::new(with, note)));
                (least, most) = (least.min(z.insert_writes.0), most.max(z.insert_writes.1));
            }
            let note = format!("{n} records: {} against {}", z.run.reads_count, c.run.reads_count);
            let r = ratio(z.run.reads_count, c.run.reads_count);
            found.push((format!("zbtree.reads.w{w}"), Figure::new(r, note)));
            if z.search_reads.1 > 0 {
                reads = (reads.0.min(z.search_reads.0), reads.1.max(z.search_reads.1));
            }
        }
        let cost = Figure::new(most as f64, format!("{} to {} reads a search", reads.0, reads.1))
            .provided(least == 1, "an insert without a split is one write")
            .provided(reads.0 >= 4 && reads.1 <= 6, "a search takes four to six reads");
        found.push(("zbtree.cost".to_owned(), cost));
        Ok(found)
    }

    /// Virtual run times of all workloads at the record count `SIZES[size]`.
    ///
    /// # Errors
    /// `Kind::BadResult` when a run fails.
    pub fn times(&mut self, size: usize, d: Distribution) -> Result<Vec<Measured>> {
        let (name, n) = SIZES[size];
        self.prepare_cells(n, d)?;
        let figure = |w| {
            let (z, c) = self.both(w, n, d);
            let note = format!("{} against {}, profile zns-paper", z.run_time, c.run_time);
            let figure = Figure::new(ratio(z.run_time.0, c.run_time.0), note);
            (format!("zbtree.time.w{w}.{}.{name}", d.name()), figure)
        };
        Ok((1..=5).map(figure).collect())
    }

    /// Section 4.2.5: resets without dynamic placement.
    ///
    /// # Errors
    /// `Kind::BadResult` when a run fails.
    pub fn resets(&mut self) -> Result<Vec<Measured>> {
        let seed = self.seed;
        let setup = |w: usize, n: u64, engine| Setup {
            sequential_zones: 1,
            placement: Placement::Fixed,
            ..Setup::paper(engine, w + 1, n, seed)
        };
        let both = |(w, n)| [setup(w, n, Engine::Zb), setup(w, n, Engine::Cow)];
        // The longest first, so that no core is left with it alone at the end.
        let cells = RESET_SIZES.iter().rev().flat_map(|&n| [(0, n), (1, n)]);
        self.prepare(cells.flat_map(both))?;
        let mut found = Vec::new();
        for (w, row) in RESETS.iter().enumerate() {
            for (paper, n) in row.iter().zip(RESET_SIZES) {
                let of = |engine| self.of(&setup(w, n, engine));
                let (z, c) = (of(Engine::Zb), of(Engine::Cow));
                let (zr, cr) = (z.load.resets_count + z.run.resets_count, c.run.resets_count);
                let figure =
                    Figure::new(cr.abs_diff(*paper) as f64, format!("{cr} against {paper}"))
                        .provided(zr == 0, "the ZB+-tree resets no zone");
                found.push((format!("zbtree.resets.w{}.{}k", w + 1, n / 1000), figure));
            }
        }
        Ok(found)
    }

    /// Figure 21: the conventional zone's share in use.
    ///
    /// # Errors
    /// `Kind::BadResult` when a run fails.
    pub fn conventional(&mut self) -> Result<Vec<Measured>> {
        const MILLIONS: [f64; 5] = [1.0, 2.5, 5.0, 7.5, 10.0];
        let seed = self.seed;
        let setup = |w: usize, m: f64| Setup::paper(Engine::Zb, w, (m * 1e6) as u64, seed);
        let sizes = MILLIONS.iter().rev();
        self.prepare(sizes.flat_map(|&m| [setup(1, m), setup(2, m)]))?;
        let mut found = Vec::new();
        for w in [1, 2] {
            let shares = MILLIONS.map(|m| self.of(&setup(w, m)).conventional_occupancy);
            let per_million: Vec<f64> = shares.iter().zip(MILLIONS).map(|(s, m)| s / m).collect();
            let (low, high) =
                per_million.iter().fold((f64::MAX, 0f64), |(l, h), &x| (l.min(x), h.max(x)));
            let listed: Vec<_> = shares.iter().map(|s| format!("{s:.4}")).collect();
            let note = format!("at 1, 2.5, 5, 7.5, 10 M: {}", listed.join(", "));
            let figure = Figure::new(shares[4], note)
                .provided(high / low < 1.1, "shares per million records within 10 % of each other");
            found.push((format!("zbtree.fig21.w{w}"), figure));
        }
        Ok(found)
    }

    /// Placement by heat on zones of unequal wear, against placement by room alone.
    ///
    /// # Errors
    /// `Kind::BadResult` when a run fails.
    pub fn hot_cold(&mut self) -> Result<Vec<Measured>> {
        let worn_resets: Vec<u64> = (0..40).map(|z| 1000 - 25 * z).collect();
        let paper = Setup::paper(Engine::Zb, 1, 500_000, self.seed);
        let setup =
            |placement| Setup { placement, worn_resets: worn_resets.clone(), ..paper.clone() };
        let (dynamic, uniform) = (setup(Placement::Dynamic), setup(Placement::Uniform));
        self.prepare([dynamic.clone(), uniform.clone()])?;
        let (with, without) = (self.of(&dynamic), self.of(&uniform));
        let note = format!(
            "{} against {}; zones worn by 25 to 1000 resets, 10 % slower for each 100; {} of {} \
             appended pages are cold",
            with.run_time,
            without.run_time,
            with.load.cold_writes_count + with.run.cold_writes_count,
            with.load.sequential_writes_count + with.run.sequential_writes_count
        );
        let figure = Figure::new(ratio(with.run_time.0, without.run_time.0), note);
        Ok(vec![("zbtree.hotcold".to_owned(), figure)])
    }

    /// The collector: a device filled to nine tenths and overwritten ten times; the copy-on-write
    /// tree beside it on one filled to three quarters.
    ///
    /// # Errors
    /// `Kind::BadResult` when the ZB+-tree's store fails otherwise than by finding no room.
    pub fn collector(&self) -> Result<Vec<Measured>> {
        let run = |engine, filled| {
            let load = Load { zones: COLLECTED_ZONES, filled, times: 10 };
            let found = overwrite(engine, load, self.seed);
            found.map_err(|e| Error::with_source(Kind::BadResult, "overwriting", e))
        };
        let (z, c) = std::thread::scope(|scope| {
            let z = scope.spawn(|| run(Engine::Zb, 0.9));
            let c = run(Engine::Cow, 0.75);
            (z.join().expect("invariant: a run returns its errors"), c)
        });
        let z = z?;
        let mut figure = Figure::new(z.refused as f64, "model, 128 zones of 512 KiB");
        figure.notes.push(format!("ZB+-tree: {}", overwritten_words(&z)));
        figure.notes.push(match c {
            Ok(c) => format!("copy-on-write beside it: {}", overwritten_words(&c)),
            Err(e) => format!("copy-on-write beside it: {e}"),
        });
        let figure = figure.provided(z.live_share >= 0.9, "nine tenths are live");
        Ok(vec![("zbtree.gc".to_owned(), figure)])
    }

    /// Bytes that the copy-on-write tree writes per update of 32 bytes in batches of a thousand.
    ///
    /// # Errors
    /// `Kind::BadResult` when the store fails.
    pub fn cow_batches(&self) -> Result<Vec<Measured>> {
        let run = |batch| {
            let found = batches::bytes_per_update(batch, batches::UPDATES, self.seed);
            found.map_err(|e| Error::with_source(Kind::BadResult, "batches", e))
        };
        let (one, hundred, thousand) = (run(1)?, run(100)?, run(1000)?);
        let note = format!(
            "{} records of 8 and 24 bytes, uniform updates, every block counted; durable one by one \
             {one:.0}, 100 at a time {hundred:.0}",
            batches::RECORDS
        );
        Ok(vec![("zbtree.cow.batch_bytes".to_owned(), Figure::new(thousand, note))])
    }

    /// Power cuts on both trees, half of `cuts` each: cuts after which something acknowledged was
    /// lost, a deleted key was back, or the index was broken; media on which deletions found no
    /// room or brought none back.
    ///
    /// # Errors
    /// `Kind::BadResult` when an index cannot be created.
    pub fn crash(&self, cuts: u64) -> Result<Vec<Measured>> {
        let run = |engine| {
            let report = power_cuts(engine, cuts / 2, self.seed);
            report.map_err(|e| Error::with_source(Kind::BadResult, "power cuts", e))
        };
        let (z, c) = std::thread::scope(|scope| {
            let z = scope.spawn(|| run(Engine::Zb));
            let c = run(Engine::Cow);
            (z.join().expect("invariant: the enumerator returns its errors"), c)
        });
        let (z, c) = (z?, c?);
        let bad = z.lost + z.broken + c.lost + c.broken;
        let note = format!(
            "{} cuts, of these {} inside collections and {} inside checkpoints, {} more inside \
             recoveries; {} operations acknowledged; lost and broken: zb {} and {}, cow {} and {}",
            z.cuts + c.cuts,
            z.in_collections + c.in_collections,
            z.in_checkpoints + c.in_checkpoints,
            z.recovery_cuts + c.recovery_cuts,
            z.acknowledged + c.acknowledged,
            z.lost,
            z.broken,
            c.lost,
            c.broken
        );
        let lost = ("zbtree.crash.lost".to_owned(), Figure::new(bad as f64, note));
        let note = format!(
            "inserts refused on crowded media: zb {}, cow {}; stuck: zb {}, cow {}",
            z.refused, c.refused, z.stuck, c.stuck
        );
        let stuck = Figure::new((z.stuck + c.stuck) as f64, note);
        let stuck = stuck.provided(z.refused > 0 && c.refused > 0, "inserts were refused");
        Ok(vec![lost, ("zbtree.crash.stuck".to_owned(), stuck)])
    }

    /// Gets per second on a tree of 4 million records over one of half a million, and of two
    /// threads over one.
    ///
    /// # Errors
    /// As [`reads::run`].
    pub fn reads(&self) -> Result<Vec<Measured>> {
        let found = reads::run(self.seed, reads::RECORDS)?;
        let memory = format!(
            "uniform keys; limit of memory {} MiB, {} MiB used",
            littoral_store::MEMORY_BYTES >> 20,
            found.memory_used_bytes >> 20
        );
        let [small, large] = found.gets_per_s;
        let sizes = format!("{small:.0} and {large:.0} gets per second, one thread, {memory}");
        let threads = format!(
            "one thread {large:.0} and two {:.0} gets per second on the larger tree, {memory}",
            found.threads2_per_s
        );
        Ok(vec![
            ("zbtree.get.large".to_owned(), Figure::new(found.large_ratio, sizes)),
            ("zbtree.get.threads2".to_owned(), Figure::new(found.threads2_ratio, threads)),
        ])
    }
}

fn overwritten_words(found: &Overwritten) -> String {
    format!(
        "{} records, {:.1} % live, {} overwrites, {} refused; write amplification {:.1}, the \
         collector's {:.2}; {} zones reset",
        found.records,
        found.live_share * 100.0,
        found.overwrites,
        found.refused,
        found.write_amplification(),
        found.collector_amplification(),
        found.counts.gc_resets
    )
}

/// How far the paper's middle cell, and ours, lie from the mean of the paper's other two: occupancy
/// grows with the records.
fn off_its_neighbours(row: &[(f64, f64); 3], ours: f64) -> String {
    let mean = (row[0].0 + row[2].0) / 2.0;
    format!(
        "the mean of the paper's cells beside it is {mean:.6}: its own is {:+.1} % off, ours {:+.1} %",
        (row[1].0 / mean - 1.0) * 100.0,
        (ours / mean - 1.0) * 100.0
    )
}

fn occupancy(ours: f64, paper: f64) -> Figure {
    Figure::new(distance_percent(ours, paper), format!("{ours:.6} against {paper:.6}"))
}

fn differ(a: &[PageCounts; 2], b: &[PageCounts; 2]) -> u64 {
    let one = |x: &PageCounts, y: &PageCounts| {
        x.reads_count.abs_diff(y.reads_count).max(x.writes_count().abs_diff(y.writes_count()))
    };
    one(&a[0], &b[0]).max(one(&a[1], &b[1]))
}
