//! Power cuts at every kind of moment: the enumerator behind the crash tests and
//! `zbtree.crash.lost`.
//!
//! One medium lives through many cuts. Between two cuts random puts and deletions run, durable one
//! by one or in batches; the cut falls at a random device command, also inside recovery, and any
//! legal subset of unflushed writes survives. After each recovery the whole index is checked and
//! read: it must be the state after some prefix of the operations that is not shorter than what was
//! acknowledged.

use std::collections::BTreeMap;

use littoral_base::fault::Plan;
use littoral_base::rng::{self, Generator, Rng};
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_store::store::Durability;

use crate::index::{Engine, Index};
use crate::layout::Shape;
use crate::zb::Direction;
use crate::{Error, Kind, Result};

/// What the cuts showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Power cuts while operations ran.
    pub cuts: u64,
    /// Power cuts inside recoveries.
    pub recovery_cuts: u64,
    /// Cuts after which the contents were no prefix of the operations that holds all acknowledged
    /// ones: a lost update or a deleted key that came back.
    pub lost: u64,
    /// Cuts after which the index did not open or broke an invariant.
    pub broken: u64,
    /// Operations acknowledged in all.
    pub acknowledged: u64,
}

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// The device; on a tight one the ZB+-tree has too few conventional pages for its leaves.
fn geometry(engine: Engine, is_tight: bool) -> Geometry {
    let zone_blocks = if is_tight { 98 } else { 128 };
    Geometry {
        block_bytes: 512,
        conventional_zones: u32::from(engine == Engine::Zb),
        sequential_zones: 12,
        zone_blocks,
        capacity_blocks: zone_blocks.min(120),
        open_zones_max: 4,
        active_zones_max: 6,
        append_blocks_max: 0,
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

/// The states that may be found after a cut: after the last acknowledged operation, and after each
/// one that ran since.
struct History {
    states: Vec<Contents>,
    acknowledged: u64,
}

impl History {
    fn acknowledge(&mut self) {
        self.acknowledged += self.states.len() as u64 - 1;
        self.states.drain(..self.states.len() - 1);
    }

    fn newest(&self) -> &Contents {
        self.states.last().expect("invariant: a history holds at least the acknowledged state")
    }
}

/// Runs random operations until one fails; each attempted one is in the history.
fn run_until_cut(
    index: &mut Cut<'_>,
    history: &mut History,
    rng: &mut Generator,
    batch: u64,
) -> Error {
    let (batch, is_careless) = if batch == CARELESS { (1, true) } else { (batch, false) };
    let policy = if batch == 1 && !is_careless { Durability::Operation } else { Durability::Batch };
    index.store_mut().set_durability(policy);
    for n in 1.. {
        let key = rng.random_range(0..150u32).to_be_bytes();
        let value = rng.random::<u32>().to_be_bytes();
        let mut next = history.newest().clone();
        let is_put = rng.random_range(0..10) < 6;
        if is_put {
            next.insert(key.to_vec(), value.to_vec());
        } else {
            next.remove(&key[..]);
        }
        history.states.push(next);
        let done = if is_put { index.put(&key, &value) } else { index.delete(&key) };
        let done = done
            .map(|_| ())
            .and_then(|()| if n % batch == 0 && !is_careless { index.sync() } else { Ok(()) });
        match done {
            Ok(()) if n % batch == 0 => history.acknowledge(),
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

/// Recovers the index, cutting power inside the recovery now and then, until one succeeds.
fn recover(device: &mut ModelDevice, rng: &mut Generator, report: &mut Report) -> Result<()> {
    loop {
        device.power_cycle(rng.random());
        let inside = rng.random_range(0..3) == 0;
        let cut = rng.random_range(0..40);
        no_faults(device, if inside { Plan::none().cut_at(cut) } else { Plan::none() });
        match Index::open(&mut *device) {
            Ok(_) => return Ok(()),
            Err(e) if e.kind() == Kind::PowerCut => report.recovery_cuts += 1,
            Err(e) => return Err(e),
        }
    }
}

/// A batch that is acknowledged without having been synced.
const CARELESS: u64 = 0;

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
        torment(
            engine,
            cuts.min(report.cuts + 200),
            rng::mix(seed ^ medium),
            batches,
            &mut report,
        )?;
    }
    Ok(report)
}

/// One medium's life.
fn torment(
    engine: Engine,
    until: u64,
    seed: u64,
    batches: &[u64],
    report: &mut Report,
) -> Result<()> {
    let mut rng = rng::stream(seed, "power cuts");
    let device = ModelDevice::new(geometry(engine, seed.is_multiple_of(2)));
    let mut device = device.map_err(|e| Error::with_source(Kind::Usage, "torture", e))?;
    drop(Index::create(&mut device, engine, Shape::paper(6, 4, 4), seed)?);
    let mut history = History { states: vec![Contents::new()], acknowledged: 0 };
    while report.cuts < until {
        report.cuts += 1;
        let batch = batches[rng.random_range(0..batches.len())];
        let cut = rng.random_range(1..400);
        match live_once(&mut device, &mut history, &mut rng, (batch, cut)) {
            Ok(()) => {}
            Err(_) => report.broken += 1,
        }
        let found = recover(&mut device, &mut rng, report).and_then(|()| inspect(&mut device));
        let Ok(found) = found else {
            report.broken += 1;
            break;
        };
        let Some(at) = history.states.iter().rposition(|s| *s == found) else {
            report.lost += 1;
            break;
        };
        history.states = vec![history.states.swap_remove(at)];
    }
    report.acknowledged += history.acknowledged;
    Ok(())
}

/// Opens the index, runs operations until the cut; an error that is no cut is an error.
fn live_once(
    device: &mut ModelDevice,
    history: &mut History,
    rng: &mut Generator,
    (batch, cut): (u64, u64),
) -> Result<()> {
    let mut index: Cut<'_> = Index::open(&mut *device)?;
    no_faults(index.store_mut().device_mut(), Plan::none().cut_at(cut));
    let error = run_until_cut(&mut index, history, rng, batch);
    if error.kind() == Kind::PowerCut { Ok(()) } else { Err(error) }
}

/// The whole contents, after every invariant was checked.
fn inspect(device: &mut ModelDevice) -> Result<Contents> {
    no_faults(device, Plan::none());
    let index: Cut<'_> = Index::open(device)?;
    index.check()?;
    contents(&index)
}
