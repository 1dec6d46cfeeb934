//! Power cuts at every kind of moment: the enumerator behind the crash tests, `zbtree.crash.lost`
//! and `zbtree.crash.stuck`.
//!
//! One medium lives through many cuts. Between two cuts random puts and deletions run, durable one
//! by one or in batches; the cut falls at a random device command, also inside recovery, and any
//! legal subset of unflushed writes survives. After each recovery the whole index is checked and
//! read: it must be the state after some prefix of the operations that is not shorter than what was
//! acknowledged. Crowded media are filled until inserts are refused; a deletion is never refused,
//! and in the end deletions bring back room for inserts.

use std::collections::BTreeMap;

use littoral_base::fault::Plan;
use littoral_base::rng::{self, Generator, Rng};
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_store::store::{Durability, Work};

use littoral_index::index::{Engine, Index};
use littoral_index::layout::Shape;
use littoral_index::zb::Direction;
use littoral_index::{Error, Kind, Result};

/// What the cuts showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Power cuts while operations ran.
    pub cuts: u64,
    /// Of these, cuts inside a collection of zones.
    pub in_collections: u64,
    /// Of these, cuts inside a checkpoint.
    pub in_checkpoints: u64,
    /// Power cuts inside recoveries.
    pub recovery_cuts: u64,
    /// Cuts after which the contents were no prefix of the operations that holds all acknowledged
    /// ones: a lost update or a deleted key that came back.
    pub lost: u64,
    /// Cuts after which the index did not open or broke an invariant.
    pub broken: u64,
    /// Media on which a deletion was refused for want of room, or on which deletions did not bring
    /// back room for inserts.
    pub stuck: u64,
    /// Operations acknowledged in all.
    pub acknowledged: u64,
    /// Puts refused for want of room.
    pub refused: u64,
}

impl Report {
    /// Lost, broken and stuck in all.
    pub fn bad(&self) -> u64 {
        self.lost + self.broken + self.stuck
    }
}

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// How much room a medium has for what runs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Medium {
    /// For all of it, in conventional zones too.
    Roomy,
    /// The ZB+-tree has too few conventional pages for its leaves.
    Tight,
    /// Filled until inserts are refused; they are refused again and again afterwards.
    Crowded,
    /// Four data zones without conventional ones and few records; copy-on-write tree only.
    Small,
    /// As `Small`, filled like `Crowded`.
    SmallCrowded,
    /// Two empty zones are kept, so that collections empty two zones at once; no conventional
    /// zones, filled like `Crowded`; copy-on-write tree only.
    WideCrowded,
}

impl Medium {
    /// The medium of the `n`th life.
    fn of(engine: Engine, n: u64) -> Medium {
        use Medium::{Crowded, Roomy, Small, SmallCrowded, Tight, WideCrowded};
        match engine {
            Engine::Zb => [Crowded, Roomy, Tight][(n % 3) as usize],
            Engine::Cow => {
                [Tight, SmallCrowded, Roomy, Crowded, Small, WideCrowded][(n % 6) as usize]
            }
        }
    }

    fn is_crowded(self) -> bool {
        matches!(self, Medium::Crowded | Medium::SmallCrowded | Medium::WideCrowded)
    }

    fn geometry(self, engine: Engine) -> Geometry {
        let (sequential_zones, zone_blocks) = match self {
            Medium::Roomy => (12, 128),
            Medium::Tight => (12, 98),
            Medium::Crowded => (7, 98),
            Medium::Small | Medium::SmallCrowded => (8, 103),
            Medium::WideCrowded => (36, 98),
        };
        let has_conventional = engine == Engine::Zb || self == Medium::Crowded;
        Geometry {
            block_bytes: 512,
            conventional_zones: u32::from(has_conventional),
            sequential_zones,
            zone_blocks,
            capacity_blocks: zone_blocks.min(120),
            open_zones_max: 4,
            active_zones_max: 6,
            append_blocks_max: 0,
        }
    }

    fn shape(self) -> Result<Shape> {
        let leaf_slots = match self {
            Medium::Roomy | Medium::Tight => 6,
            Medium::Crowded => 8,
            Medium::Small | Medium::SmallCrowded => 9,
            // Wide inner pages: few of them, so that much of the medium can be live.
            Medium::WideCrowded => {
                return Ok(Shape { leaf_slots: 6, ..Shape::fitting(512, 4, 4)? });
            }
        };
        Ok(Shape::paper(leaf_slots, 4, 4))
    }

    /// Distinct keys, and puts among ten changes.
    fn load(self, engine: Engine) -> (u32, u32) {
        match self {
            // More than fit pages that are full.
            Medium::Crowded if engine == Engine::Zb => (6_000, 8),
            Medium::Roomy | Medium::Tight | Medium::Small => (150, 6),
            Medium::Crowded | Medium::SmallCrowded => (3_000, 8),
            Medium::WideCrowded => (16_000, 8),
        }
    }
}

fn contents(index: &Cut<'_>) -> Result<Contents> {
    let mut found = Contents::new();
    index.scan(None, None, Direction::Forward, |k, v| {
        found.insert(k.to_vec(), v.to_vec());
        true
    })?;
    Ok(found)
}

/// One change: a key's new value, or none.
type Change = (Vec<u8>, Option<Vec<u8>>);

fn apply(contents: &mut Contents, (key, value): &Change) {
    match value {
        Some(value) => contents.insert(key.clone(), value.clone()),
        None => contents.remove(key),
    };
}

/// The states that may be found after a cut: after the last acknowledged change, and after each one
/// that ran since.
struct History {
    base: Contents,
    since: Vec<Change>,
    acknowledged: u64,
    refused: u64,
}

impl History {
    fn acknowledge(&mut self) {
        self.acknowledged += self.since.len() as u64;
        for change in self.since.drain(..) {
            apply(&mut self.base, &change);
        }
    }

    /// Goes on from what was found after a cut; whether it is one of the states.
    fn settle(&mut self, found: Contents) -> bool {
        let mut state = std::mem::take(&mut self.base);
        let mut is_known = state == found;
        for change in self.since.drain(..) {
            apply(&mut state, &change);
            is_known |= state == found;
        }
        self.base = found;
        is_known
    }
}

/// Fills a medium until it refuses; what it then holds, durable.
fn fill(index: &mut Cut<'_>, keys: u32) -> Result<Contents> {
    index.store_mut().set_durability(Durability::Batch);
    let mut held = Contents::new();
    for n in 0..keys {
        // Every key once, scattered: the factor has no divisor in common with their number.
        let key = (n.wrapping_mul(1_237) % keys).to_be_bytes();
        match index.put(&key, &n.to_be_bytes()) {
            Ok(_) => held.insert(key.to_vec(), n.to_be_bytes().to_vec()),
            Err(e) if e.kind() == Kind::Full => {
                index.sync()?;
                return Ok(held);
            }
            Err(e) => return Err(e),
        };
    }
    Err(Error::new(Kind::Usage, "power cuts: a crowded medium has room for every key"))
}

/// Deletes a third of what a crowded medium holds, then inserts as many records as were deleted
/// from its first quarter: neither may be refused.
fn drain(device: &mut ModelDevice, held: &Contents) -> Result<()> {
    no_faults(device, Plan::none());
    let mut index: Cut<'_> = Index::open(device)?;
    index.store_mut().set_durability(Durability::Batch);
    let deleted: Vec<&Vec<u8>> = held.keys().step_by(3).collect();
    for (n, key) in deleted.iter().enumerate() {
        index.delete(key)?;
        if n % 17 == 0 {
            index.sync()?;
        }
    }
    for key in &deleted[..deleted.len() / 4] {
        index.put(key, &[0; 4])?;
    }
    index.sync()?;
    index.check().map(|_| ())
}

/// Runs random changes until one fails; each attempted one is in the history, one that was refused
/// for want of room is not.
fn run_until_cut(
    index: &mut Cut<'_>,
    history: &mut History,
    rng: &mut Generator,
    (batch, medium): (u64, Medium),
) -> Error {
    let (batch, is_careless) = if batch == CARELESS { (1, true) } else { (batch, false) };
    let policy = if batch == 1 && !is_careless { Durability::Operation } else { Durability::Batch };
    index.store_mut().set_durability(policy);
    let (keys, puts) = medium.load(index.engine());
    for n in 1.. {
        let key = rng.random_range(0..keys).to_be_bytes();
        let value = rng.random::<u32>().to_be_bytes();
        let is_put = rng.random_range(0..10) < puts;
        history.since.push((key.to_vec(), is_put.then(|| value.to_vec())));
        let done = if is_put { index.put(&key, &value) } else { index.delete(&key) };
        if is_put && done.as_ref().is_err_and(|e| e.kind() == Kind::Full) {
            history.since.pop();
            history.refused += 1;
            continue;
        }
        let is_synced = n % (if is_careless { CARELESS_SYNC } else { batch }) == 0;
        // A checkpoint now and then: the redo log of few operations needs none.
        let is_closed = !is_careless && rng.random_range(0..100) == 0;
        let done = match done {
            Ok(_) if is_closed => index.close(),
            Ok(_) if is_synced => index.sync(),
            other => other.map(|_| ()),
        };
        match done {
            Ok(()) if n % batch == 0 || is_closed => history.acknowledge(),
            Ok(()) => {}
            Err(e) => return e,
        }
    }
    unreachable!("invariant: the plan cuts power")
}

type Cut<'d> = Index<&'d mut ModelDevice>;

fn no_faults(device: &mut ModelDevice, plan: Plan) {
    device.install(plan).expect("invariant: a cut is a verdict that the model acts on");
}

/// Requests of an opening that changes nothing; a recovery makes as many before its first change.
fn requests_of_reading(device: &mut ModelDevice) -> Result<u64> {
    no_faults(device, Plan::none());
    Index::open_to_read(&mut *device).map(drop)?;
    Ok(device.judged())
}

/// Recovers the index, cutting power inside the recovery now and then, until one succeeds. It is
/// cut behind its reads: before its first change the medium stays as it is.
fn recover(device: &mut ModelDevice, rng: &mut Generator, report: &mut Report) -> Result<()> {
    loop {
        device.power_cycle(rng.random());
        let mut plan = Plan::none();
        if rng.random_range(0..3) == 0 {
            // Few changes are made where nothing waits to be written in place, else many.
            let most = 8u64 << rng.random_range(0..4u32);
            plan = plan.cut_at(requests_of_reading(device)? + rng.random_range(0..most));
        }
        no_faults(device, plan);
        match Index::open(&mut *device) {
            Ok(_) => return Ok(()),
            Err(e) if e.kind() == Kind::PowerCut => report.recovery_cuts += 1,
            Err(e) => return Err(e),
        }
    }
}

/// Changes that are acknowledged one by one and synced [`CARELESS_SYNC`] at a time.
const CARELESS: u64 = 0;
const CARELESS_SYNC: u64 = 5;

/// Runs `cuts` power cuts on one engine.
///
/// # Errors
/// Those of creating the index; what cuts break is in the report.
pub fn power_cuts(engine: Engine, cuts: u64, seed: u64) -> Result<Report> {
    enumerate(engine, cuts, seed, &[1, 1, 3, 17])
}

/// The canary: operations are acknowledged before they are durable, so the report must show losses.
///
/// # Errors
/// As [`power_cuts`].
pub fn careless_power_cuts(engine: Engine, cuts: u64, seed: u64) -> Result<Report> {
    enumerate(engine, cuts, seed, &[CARELESS])
}

fn enumerate(engine: Engine, cuts: u64, seed: u64, batches: &[u64]) -> Result<Report> {
    let mut report = Report::default();
    let mut medium = 0;
    while report.cuts < cuts {
        medium += 1;
        let (kind, seed) = (Medium::of(engine, medium), rng::mix(seed ^ medium));
        live((engine, kind), cuts.min(report.cuts + 200), seed, batches, &mut report)?;
    }
    Ok(report)
}

/// One medium's life.
fn live(
    (engine, medium): (Engine, Medium),
    until: u64,
    seed: u64,
    batches: &[u64],
    report: &mut Report,
) -> Result<()> {
    let mut rng = rng::stream(seed, "power cuts");
    let device = ModelDevice::new(medium.geometry(engine));
    let mut device = device.map_err(|e| Error::with_source(Kind::Usage, "power cuts", e))?;
    let mut index = Index::create(&mut device, engine, medium.shape()?, seed)?;
    let keys = medium.load(engine).0;
    let base = if medium.is_crowded() { fill(&mut index, keys)? } else { Contents::new() };
    drop(index);
    let mut history = History { base, since: Vec::new(), acknowledged: 0, refused: 0 };
    while report.cuts < until {
        report.cuts += 1;
        let batch = batches[rng.random_range(0..batches.len())];
        // Making leaves and heads dense comes before a refusal, and takes many commands.
        let is_long =
            (engine, medium) == (Engine::Zb, Medium::Crowded) && report.cuts.is_multiple_of(8);
        let cut = rng.random_range(1..if is_long { 8_000 } else { 400 });
        match live_once(&mut device, &mut history, &mut rng, (batch, medium, cut)) {
            Ok(Work::Operation) => {}
            Ok(Work::Collection) => report.in_collections += 1,
            Ok(Work::Checkpoint) => report.in_checkpoints += 1,
            Err(e) if e.kind() == Kind::Full => {
                report.stuck += 1;
                break;
            }
            Err(_) => report.broken += 1,
        }
        let found = recover(&mut device, &mut rng, report).and_then(|()| inspect(&mut device));
        let Ok(found) = found else {
            report.broken += 1;
            break;
        };
        if !history.settle(found) {
            report.lost += 1;
            break;
        }
    }
    if medium.is_crowded() && report.bad() == 0 {
        match drain(&mut device, &history.base) {
            Ok(()) => {}
            Err(e) if e.kind() == Kind::Full => report.stuck += 1,
            Err(_) => report.broken += 1,
        }
    }
    report.acknowledged += history.acknowledged;
    report.refused += history.refused;
    Ok(())
}

/// Opens the index, runs operations until the cut; what the cut interrupted. An error that is no
/// cut is an error.
fn live_once(
    device: &mut ModelDevice,
    history: &mut History,
    rng: &mut Generator,
    (batch, medium, cut): (u64, Medium, u64),
) -> Result<Work> {
    let mut index: Cut<'_> = Index::open(&mut *device)?;
    no_faults(index.store_mut().device_mut(), Plan::none().cut_at(cut));
    let error = run_until_cut(&mut index, history, rng, (batch, medium));
    if error.kind() == Kind::PowerCut { Ok(index.store_ref().work()) } else { Err(error) }
}

/// The whole contents, after every invariant was checked.
fn inspect(device: &mut ModelDevice) -> Result<Contents> {
    no_faults(device, Plan::none());
    let index: Cut<'_> = Index::open(device)?;
    index.check()?;
    contents(&index)
}
