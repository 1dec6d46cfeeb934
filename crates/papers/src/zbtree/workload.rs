//! The paper's five workloads, run on both trees in figure mode.
//!
//! Load `n` records in hash order, then `n` operations: inserts are new records, searches and
//! deletes ask for records by the distribution; a delete of a record that is gone writes nothing.
//! Table 1 of paper 000 gives the device; n = 100 is the order that explains its tables, and a
//! split that rewrites the path is the cost that does (the paper states neither).

use littoral_base::rng::{self, Rng};
use littoral_base::units::Picos;
use littoral_device::profile::Profile;
use littoral_device::zoned::timing::Timing;
use littoral_index::cow::{Cow, SplitCost};
use littoral_index::index::Engine;
use littoral_index::layout::Shape;
use littoral_index::tree::TreeCore;
use littoral_index::zb::Zb;
use littoral_store::counted::{CountedConfig, CountedPages, PageCounts, Placement};

use littoral_bench::kv::MIXES;
use littoral_bench::ycsb::{self, Distribution, Requests};

/// The order of both trees.
pub const ORDER: usize = 100;

/// One run: which tree on which zones does what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Setup {
    /// The tree.
    pub engine: Engine,
    /// Workload 1 to 5.
    pub workload: usize,
    /// Records loaded, and operations after it.
    pub records: u64,
    /// How records are asked for.
    pub distribution: Distribution,
    /// Sequential zones beside the conventional one.
    pub sequential_zones: u32,
    /// Where appended pages go.
    pub placement: Placement,
    /// Resets that sequential zones have behind them.
    pub worn_resets: Vec<u64>,
    /// Latencies; the profile `zns-paper` where none are given.
    pub timing: Option<Timing>,
    /// The seed.
    pub seed: u64,
}

impl Setup {
    /// The paper's device: 40 sequential zones and a conventional one.
    pub fn paper(engine: Engine, workload: usize, records: u64, seed: u64) -> Setup {
        Setup {
            engine,
            workload,
            records,
            distribution: Distribution::Zipfian,
            sequential_zones: 40,
            placement: Placement::Dynamic,
            worn_resets: Vec::new(),
            timing: None,
            seed,
        }
    }

    fn pages(&self) -> CountedPages {
        let shipped = Profile::named("zns-paper").and_then(|p| p.zoned());
        let profile = shipped.expect("invariant: the profile is shipped");
        let g = profile.geometry;
        // The copy-on-write tree fills the conventional zone as one more sequential zone (section
        // 4.1).
        let (conventional, extra) = match self.engine {
            Engine::Zb => (u64::from(g.conventional_zones) * g.zone_blocks, 0),
            Engine::Cow => (0, g.conventional_zones),
        };
        CountedPages::new(CountedConfig {
            page_bytes: g.block_bytes as usize,
            conventional_blocks: conventional,
            sequential_zones: self.sequential_zones + extra,
            zone_blocks: g.zone_blocks,
            placement: self.placement,
            timing: Some(self.timing.clone().unwrap_or(profile.timing)),
            worn_resets: self.worn_resets.clone(),
        })
    }
}

/// What a run showed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Mean share of the sequential zones behind their write pointers, load and run.
    pub sequential_occupancy: f64,
    /// Share of the conventional zone in use at the end.
    pub conventional_occupancy: f64,
    /// Blocks counted while loading.
    pub load: PageCounts,
    /// Blocks counted while running.
    pub run: PageCounts,
    /// Virtual time of the run.
    pub run_time: Picos,
    /// Fewest and most block reads of a search.
    pub search_reads: (u64, u64),
    /// Fewest and most block writes of an insert.
    pub insert_writes: (u64, u64),
    /// Layers at the end.
    pub layers: u32,
}

/// The face both trees show to a workload.
trait Tree {
    fn upsert(&mut self, key: &[u8]) -> littoral_index::Result<bool>;
    fn delete(&mut self, key: &[u8]) -> littoral_index::Result<bool>;
    fn get(&self, key: &[u8]) -> littoral_index::Result<bool>;
    fn pages(&self) -> &CountedPages;
    fn layers(&self) -> u32;
}

macro_rules! tree {
    ($t:ty) => {
        impl Tree for $t {
            fn upsert(&mut self, key: &[u8]) -> littoral_index::Result<bool> {
                <$t>::upsert(self, key, &[1; 8])
            }
            fn delete(&mut self, key: &[u8]) -> littoral_index::Result<bool> {
                <$t>::delete(self, key)
            }
            fn get(&self, key: &[u8]) -> littoral_index::Result<bool> {
                <$t>::get(self, key).map(|v| v.is_some())
            }
            fn pages(&self) -> &CountedPages {
                TreeCore::pages(self)
            }
            fn layers(&self) -> u32 {
                <$t>::layers(self)
            }
        }
    };
}
tree!(Zb<CountedPages>);
tree!(Cow<CountedPages>);

/// Runs one setup.
///
/// # Errors
/// `Kind::Full` when the zones are too small for it.
pub fn run(setup: &Setup) -> littoral_index::Result<Outcome> {
    let shape = Shape::paper(ORDER, 8, 8);
    match setup.engine {
        Engine::Zb => run_on(&mut Zb::create(setup.pages(), shape)?, setup),
        Engine::Cow => run_on(&mut Cow::create(setup.pages(), shape, SplitCost::WholePath)?, setup),
    }
}

fn run_on(tree: &mut impl Tree, setup: &Setup) -> littoral_index::Result<Outcome> {
    for i in 0..setup.records {
        tree.upsert(&ycsb::key(i))?;
    }
    let (load, begin) = (tree.pages().counts(), tree.pages().now());
    let mut extremes = Extremes::default();
    let mut requests = Requests::new(setup.distribution, setup.records);
    let mut rng = rng::stream(setup.seed, "zbtree workload");
    let mut records = setup.records;
    let [inserts, deletes, _] = MIXES[setup.workload - 1];
    for _ in 0..setup.records {
        let roll: u32 = rng.random_range(0..100);
        let before = tree.pages().counts();
        if roll < inserts {
            tree.upsert(&ycsb::key(records))?;
            records += 1;
            extremes.insert(tree.pages().counts().since(&before).writes_count());
        } else if roll < inserts + deletes {
            tree.delete(&ycsb::key(requests.next(records, &mut rng)))?;
        } else {
            tree.get(&ycsb::key(requests.next(records, &mut rng)))?;
            extremes.search(tree.pages().counts().since(&before).reads_count);
        }
    }
    let pages = tree.pages();
    Ok(Outcome {
        sequential_occupancy: pages.sequential_occupancy(),
        conventional_occupancy: pages.conventional_occupancy(),
        load,
        run: pages.counts().since(&load),
        run_time: pages.now() - begin,
        search_reads: extremes.search_reads,
        insert_writes: extremes.insert_writes,
        layers: tree.layers(),
    })
}

#[derive(Default)]
struct Extremes {
    search_reads: (u64, u64),
    insert_writes: (u64, u64),
}

fn widen(range: &mut (u64, u64), n: u64) {
    *range = if *range == (0, 0) { (n, n) } else { (range.0.min(n), range.1.max(n)) };
}

impl Extremes {
    fn search(&mut self, reads: u64) {
        widen(&mut self.search_reads, reads);
    }
    fn insert(&mut self, writes: u64) {
        widen(&mut self.insert_writes, writes);
    }
}
