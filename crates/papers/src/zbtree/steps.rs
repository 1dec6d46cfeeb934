//! Paper 000's system: the ZB+-tree beside the copy-on-write tree, and both through power cuts.
//!
//! - Counts are exact under the seed and times are virtual, so no step depends on the host's speed;
//!   only the gets of `zbtree.get` are timed by the wall clock.
//! - `--quick` measures the cells of 500,000 records, tables 7 and 8 and 20,000 power
//!   cuts, at the sizes of the work, and skips the larger cells by name; without it there are
//!   100,000 power cuts, with `--paper` a million.
//! - Steps share one [`Bench`], so a run that two claims need is made once.

use std::cell::RefCell;
use std::rc::Rc;

use crate::zbtree::figures::{Bench, DISTRIBUTIONS, Measured, RESET_SIZES, SIZES};
use crate::zbtree::{fill, full, hostile, readers};
use littoral_bench::error::Result;
use littoral_bench::repro::{Answer, Options, Step, System, Unanswered};

/// The system.
pub const SYSTEM: System = System {
    name: "zbtree",
    about: "The ZB+-tree on zoned flash (paper 000)",
    id: "zbtree",
    targets: include_str!("../../targets/zbtree.toml"),
    profiles: &["zns-paper"],
    has_paper_counts: true,
    steps,
};

/// Power cuts with `--quick`, without it, and with `--paper`.
const CUTS: [u64; 3] = [20_000, 100_000, 1_000_000];

/// Records of the stores whose bits are flipped, with `--quick` and without it.
const FLIPPED: (u32, u32) = (160, 900);

/// Crafted images without `--paper` and with it.
const IMAGES: (u64, u64) = (10_000, 1_000_000);

/// Sessions of each reader and of the writer, with `--quick` and without it.
const SESSIONS: (u64, u64) = (25, 200);

const LEFT_OUT: &str = "too large for --quick; run without it, or with --paper";

type Shared = Rc<RefCell<Bench>>;

/// Every measurement of the system.
///
/// # Errors
/// `Kind::BadResult` when the targets cannot be read.
fn steps() -> Result<Vec<Step>> {
    let bench = Rc::new(RefCell::new(Bench::new(SYSTEM.targets()?.seed)));
    let mut steps = Vec::new();
    for (i, (name, _)) in SIZES.iter().enumerate() {
        steps.push(step(&bench, table_words(i), i > 0, table_ids(name), move |b, _| b.tables(i)));
    }
    steps.push(step(&bench, "tables 7 and 8, figure 20", false, ratio_ids(), |b, _| b.ratios()));
    let count = |b: &mut Bench, _: &Options| b.counts(500_000);
    steps.push(step(&bench, "block writes and reads", false, count_ids(), count));
    for (i, (name, _)) in SIZES.iter().enumerate() {
        for d in DISTRIBUTIONS {
            let ids = (1..=5).map(|w| format!("zbtree.time.w{w}.{}.{name}", d.name())).collect();
            steps.push(step(&bench, "virtual times", i > 0, ids, move |b, _| b.times(i, d)));
        }
    }
    let ids = |n: &u64| [1, 2].map(|w| format!("zbtree.resets.w{w}.{}k", n / 1000));
    let ids = RESET_SIZES.iter().flat_map(ids).collect();
    steps.push(step(&bench, "zone resets", true, ids, |b, _| b.resets()));
    let ids = [1, 2].map(|w| format!("zbtree.fig21.w{w}")).to_vec();
    steps.push(step(&bench, "figure 21", true, ids, |b, _| b.conventional()));
    let ids = vec!["zbtree.hotcold".to_owned()];
    steps.push(step(&bench, "placement by heat", false, ids, |b, _| b.hot_cold()));
    let ids = vec!["zbtree.gc".to_owned()];
    steps.push(step(&bench, "overwrites of a full device", true, ids, |b, _| b.collector()));
    let ids = ["get.large", "get.threads2"].map(|id| format!("zbtree.{id}")).to_vec();
    steps.push(step(&bench, "gets on small and large trees", false, ids, |b, _| b.reads()));
    let ids = vec!["zbtree.cow.batch_bytes".to_owned()];
    steps.push(step(&bench, "batches of updates", false, ids, |b, _| b.cow_batches()));
    let ids = ["lost", "stuck"].map(|n| format!("zbtree.crash.{n}")).to_vec();
    let cuts = |o: &Options| CUTS[if o.paper { 2 } else { usize::from(!o.quick) }];
    steps.push(step(&bench, "power cuts", false, ids, move |b, o| b.crash(cuts(o))));
    let ids = ["wrong", "panics", "repaired"].map(|n| format!("store.flip.{n}")).to_vec();
    let records = |o: &Options| if o.quick { FLIPPED.0 } else { FLIPPED.1 };
    let run = move |b: &mut Bench, o: &Options| hostile::flips(b.seed(), records(o));
    steps.push(step(&bench, "flipped bits", false, ids, run));
    let ids = vec!["store.hostile.panics".to_owned()];
    let images = |o: &Options| if o.paper { IMAGES.1 } else { IMAGES.0 };
    let run = move |b: &mut Bench, o: &Options| hostile::crafted(b.seed(), images(o));
    steps.push(step(&bench, "crafted images", false, ids, run));
    let sessions = |o: &Options| if o.quick { SESSIONS.0 } else { SESSIONS.1 };
    let run = move |b: &mut Bench, o: &Options| readers::claim(b.seed(), sessions(o));
    steps.push(step(&bench, "readers beside a writer", false, vec!["kv.readers".to_owned()], run));
    let run = |b: &mut Bench, _: &Options| full::claim(b.seed());
    steps.push(step(&bench, "a full host", false, vec!["kv.full".to_owned()], run));
    let run = |b: &mut Bench, _: &Options| fill::claim(b.seed());
    steps.push(step(&bench, "pace of filling", false, vec!["zbtree.fill.pace".to_owned()], run));
    Ok(steps)
}

fn table_words(size: usize) -> &'static str {
    ["tables 2 to 6, 500k", "tables 2 to 6, 1500k", "tables 2 to 6, 2500k"][size]
}

fn table_ids(size: &str) -> Vec<String> {
    let both = |t: u32| ["zb", "cow"].map(|e| format!("zbtree.table{t}.{size}.{e}"));
    (2..=6).flat_map(both).collect()
}

fn ratio_ids() -> Vec<String> {
    let cell = |t: u32| [32, 48, 64].map(move |zones| (t, zones));
    let both = |(t, zones)| ["zb", "cow"].map(|e| format!("zbtree.table{t}.{zones}.{e}"));
    let mut ids: Vec<String> = (7..=8).flat_map(cell).flat_map(both).collect();
    ids.push("zbtree.fig20".to_owned());
    ids
}

fn count_ids() -> Vec<String> {
    let writes = (1..=4).flat_map(|w| ["writes", "writes_redo"].map(|k| (k, w)));
    let reads = (1..=5).map(|w| ("reads", w));
    let ids = writes.chain(reads).map(|(kind, w)| format!("zbtree.{kind}.w{w}"));
    ids.chain(["zbtree.cost".to_owned()]).collect()
}

/// A step over the shared bench; a large one is skipped by `--quick`.
fn step(
    bench: &Shared,
    name: &'static str,
    is_large: bool,
    claims: Vec<String>,
    mut run: impl FnMut(&mut Bench, &Options) -> Result<Vec<Measured>> + 'static,
) -> Step {
    let (bench, ids) = (bench.clone(), claims.clone());
    let measure = Box::new(move |options: &Options| {
        if is_large && options.quick {
            return vec![Err(Unanswered::LeftOut(LEFT_OUT.to_owned())); ids.len()];
        }
        answers(&ids, run(&mut bench.borrow_mut(), options))
    });
    Step { name, claims, measure }
}

/// An answer for each of `ids`, in their order.
fn answers(ids: &[String], found: Result<Vec<Measured>>) -> Vec<Answer> {
    let found = found.map_err(Unanswered::from);
    let answer = |id: &String| {
        let found = found.as_ref().map_err(Clone::clone)?;
        let figure = found.iter().find(|(i, _)| i == id).map(|(_, figure)| figure.clone());
        figure.ok_or_else(|| Unanswered::from("the measurement did not answer this claim"))
    };
    ids.iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_bench::claims::Figure;

    #[test]
    fn answers_follow_the_claims_and_failures_are_told() {
        let ids = ["a".to_owned(), "b".to_owned()];
        let found = answers(&ids, Ok(vec![("b".to_owned(), Figure::new(2.0, ""))]));
        assert!(found[0].is_err() && found[1].as_ref().is_ok_and(|f| f.value == 2.0));
        let failed = answers(
            &ids,
            Err(littoral_bench::Error::new(littoral_bench::Kind::BadResult, "no zones")),
        );
        assert!(
            failed.iter().all(|a| a.as_ref().is_err_and(|e| e.to_string().contains("no zones")))
        );
    }
}
