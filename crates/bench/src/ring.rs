//! Measurements of the coroutine ring: cost of a step, against a hand-written machine, against a
//! doorbell interface, and how near a slow device comes to its bounds.
//!
//! Every function measures and returns plain figures. Forms that are compared run in turn, `trials`
//! times, in one binary on one pinned core; of each the least counts, in thread processor time and
//! in wall time. They differ where something else had the core: a paced device sees wall time, so
//! its figures are wall; the others mean the same on an idle machine.
//!
//! Modelled: a *paced* device's latency, rate and link ([`pacer`]); its contents are DRAM and its
//! transfer a prefetch. Not modelled: the host's instructions, which all really run.
//!
//! [`pacer`]: littoral_device::flash::pacer

use std::num::NonZeroUsize;
use std::time::Instant;

use littoral_base::units::{PerSecond, Picos};
use littoral_device::flash::dram::Dram;
use littoral_device::flash::paced::{PacedOptions, PacedPtr};
use littoral_device::flash::pacer::Timing;
use littoral_device::flash::queue_pair::{Batching, Doorbell, QueuePair};
use littoral_device::read::ReadDevice;
use littoral_device::region::Region;
use littoral_runtime::{Contexts, Pinning, Ring, RingOptions, run_on_cores};
use rustix::time::{ClockId, clock_gettime};

use crate::error::{Error, Kind, Result};

pub mod chains;

use chains::{
    Chains, LINE_BYTES, contents, run_async, run_by_hand, run_fixed, run_fixed_by_hand, run_plain,
};

/// Contexts of the cache-resident measurements.
pub const CONTEXTS: u32 = 64;
/// Reads of one trial of the cache-resident measurements.
const READS: u64 = 1 << 21;
/// An array that fits a first-level cache beside the contexts.
const L1_BYTES: u64 = 16 << 10;
/// An array that fits a second-level cache and no first-level one.
const L2_BYTES: u64 = 512 << 10;
/// The paper's class of latency, and the profile `xlfdd`'s rate a core.
const LATENCY: Picos = Picos::from_micros(4);
const CAP: PerSecond = PerSecond(44e6);
const STRETCH: usize = 16;

/// Nanoseconds a read, the least of all trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerRead {
    /// Processor time of the measuring thread.
    pub cpu_ns: f64,
    /// Wall time.
    pub wall_ns: f64,
}

impl PerRead {
    const NEVER: PerRead = PerRead { cpu_ns: f64::INFINITY, wall_ns: f64::INFINITY };

    fn least(self, other: PerRead) -> PerRead {
        PerRead { cpu_ns: self.cpu_ns.min(other.cpu_ns), wall_ns: self.wall_ns.min(other.wall_ns) }
    }

    /// Million reads a second by the wall clock.
    pub fn miops(self) -> f64 {
        1e3 / self.wall_ns
    }

    /// Million reads a second of processor time: what [`PerRead::miops`] is on an idle core.
    pub fn miops_of_cpu(self) -> f64 {
        1e3 / self.cpu_ns
    }
}

/// One form of a workload: its name and a run that answers a checksum.
type Form<'f> = (&'static str, Box<dyn FnMut() -> Result<u64> + 'f>);

fn thread_cpu_ns() -> f64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}

fn timed(reads: u64, run: &mut dyn FnMut() -> Result<u64>) -> Result<(PerRead, u64)> {
    let (wall, cpu) = (Instant::now(), thread_cpu_ns());
    let answer = run()?;
    let cpu_ns = (thread_cpu_ns() - cpu) / reads as f64;
    let wall_ns = wall.elapsed().as_nanos() as f64 / reads as f64;
    Ok((PerRead { cpu_ns, wall_ns }, answer))
}

/// Runs the forms in turn, `trials` times; each must answer `wanted`.
fn interleaved(
    trials: u32,
    reads: u64,
    wanted: u64,
    forms: &mut [Form<'_>],
) -> Result<Vec<PerRead>> {
    let mut least = vec![PerRead::NEVER; forms.len()];
    for _ in 0..trials.max(1) {
        for (best, (name, run)) in least.iter_mut().zip(forms.iter_mut()) {
            let (took, answer) = timed(reads, run)?;
            if answer != wanted {
                let what = format!("{name} read wrong bytes: its figure is worthless");
                return Err(Error::new(Kind::Environment, what));
            }
            *best = best.least(took);
        }
    }
    Ok(least)
}

fn failed(e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::with_source(Kind::Environment, "cannot measure the ring", e)
}

/// Runs `measure` on this thread, pinned to one core for the duration.
fn pinned<T: Send>(measure: impl Fn() -> Result<T> + Sync) -> Result<T> {
    let mut answers =
        run_on_cores(NonZeroUsize::MIN, Pinning::Pinned, |_| measure()).map_err(failed)?;
    answers.pop().expect("invariant: one core gives one answer")
}

fn ring_of<D: ReadDevice>(device: D, contexts: u32) -> Result<Ring<D>> {
    Ring::new(device, RingOptions::with_contexts(Contexts::Fixed(contexts))).map_err(failed)
}

fn paced(latency: Picos, cap: Option<PerSecond>, contexts: u32) -> PacedOptions {
    PacedOptions {
        timing: Timing { latency, reads_per_core_max: cap, ..Timing::default() },
        slots: 2 * contexts,
        granule_bytes: 16,
        read_bytes_max: 2048,
    }
}

/// A form under its name.
fn form<'f, E: std::error::Error + Send + Sync + 'static>(
    name: &'static str,
    run: impl Fn() -> std::result::Result<u64, E> + 'f,
) -> Form<'f> {
    (name, Box::new(move || run().map_err(failed)))
}

/// Suspend, resume, issue and detect: async code and the hand-written machine, 64-byte reads.
#[derive(Clone, Copy, Debug)]
pub struct StepFigures {
    /// Async, lightweight interface at zero latency.
    pub async_paced: PerRead,
    /// By hand, the same device.
    pub hand_paced: PerRead,
    /// Async, DRAM device (no timestamps).
    pub async_dram: PerRead,
    /// By hand, DRAM device.
    pub hand_dram: PerRead,
    /// Async with reads of a fixed length, lightweight interface at zero latency.
    pub fixed_paced: PerRead,
    /// By hand with reads of a fixed length, the same device.
    pub fixed_hand_paced: PerRead,
    /// Async with reads of a fixed length, DRAM device.
    pub fixed_dram: PerRead,
    /// Bytes of one context.
    pub future_bytes: usize,
    /// Bytes of one context that reads a fixed length.
    pub fixed_future_bytes: usize,
    /// Contexts.
    pub contexts: u32,
    /// Bytes of the array.
    pub array_bytes: u64,
}

impl StepFigures {
    /// Async over hand on the lightweight interface, by processor time.
    pub fn vs_hand(&self) -> f64 {
        self.async_paced.cpu_ns / self.hand_paced.cpu_ns
    }

    /// The fixed form over the general one, both async.
    pub fn fixed_vs_read(&self) -> f64 {
        self.fixed_paced.cpu_ns / self.async_paced.cpu_ns
    }

    /// The fixed form, async, over the general one by hand.
    pub fn fixed_vs_hand(&self) -> f64 {
        self.fixed_paced.cpu_ns / self.hand_paced.cpu_ns
    }

    /// The fixed form, async, over itself by hand.
    pub fn fixed_vs_fixed_hand(&self) -> f64 {
        self.fixed_paced.cpu_ns / self.fixed_hand_paced.cpu_ns
    }
}

/// Claims `flash.ring.step_ns`, `flash.ring.vs_hand` and `flash.ring.fixed_*`: a cache-resident
/// array.
///
/// # Errors
/// When memory, pinning or a form fails, or a form reads wrong bytes.
pub fn step(trials: u32) -> Result<StepFigures> {
    pinned(|| step_over(trials, L1_BYTES))
}

fn step_over(trials: u32, array_bytes: u64) -> Result<StepFigures> {
    let array = contents(array_bytes, 1).map_err(failed)?;
    let chains = Chains::new(CONTEXTS, READS / u64::from(CONTEXTS), array_bytes);
    let wanted = run_plain(&array, chains);
    let instant = || PacedPtr::new(array.clone(), paced(Picos::ZERO, None, CONTEXTS));
    let dram = || Dram::with_slots(array.clone(), 2 * CONTEXTS);
    let (ring, device) = (ring_of(instant(), CONTEXTS)?, instant());
    let (dram_ring, dram_device) = (ring_of(dram(), CONTEXTS)?, dram());
    let (fixed_ring, fixed_device) = (ring_of(instant(), CONTEXTS)?, instant());
    let fixed_dram_ring = ring_of(dram(), CONTEXTS)?;
    let least = interleaved(
        trials,
        chains.reads(),
        wanted,
        &mut [
            form("async, paced", || run_async(&ring, chains)),
            form("by hand, paced", || run_by_hand(&device, chains, STRETCH)),
            form("async, DRAM", || run_async(&dram_ring, chains)),
            form("by hand, DRAM", || run_by_hand(&dram_device, chains, STRETCH)),
            form("fixed, paced", || run_fixed(&fixed_ring, chains)),
            form("fixed by hand, paced", || run_fixed_by_hand(&fixed_device, chains, STRETCH)),
            form("fixed, DRAM", || run_fixed(&fixed_dram_ring, chains)),
        ],
    )?;
    Ok(StepFigures {
        async_paced: least[0],
        hand_paced: least[1],
        async_dram: least[2],
        hand_dram: least[3],
        fixed_paced: least[4],
        fixed_hand_paced: least[5],
        fixed_dram: least[6],
        future_bytes: ring.future_bytes(),
        fixed_future_bytes: fixed_ring.future_bytes(),
        contexts: CONTEXTS,
        array_bytes,
    })
}

/// Claim `flash.ring.miops.l2`: the step over an array of the second-level cache.
///
/// # Errors
/// As [`step`].
pub fn step_in_l2(trials: u32) -> Result<StepFigures> {
    pinned(|| step_over(trials, L2_BYTES))
}

/// How near the ring comes to its bounds at one number of contexts and one rate.
#[derive(Clone, Copy, Debug)]
pub struct EfficiencyRow {
    /// Contexts.
    pub contexts: u32,
    /// The device's rate a core, if it has one.
    pub cap_miops: Option<f64>,
    /// Measured, million reads a second (paced, wall).
    pub miops: f64,
    /// Little's bound: contexts over latency.
    pub little_miops: f64,
    /// The same ring over the same array on a device without latency or rate (wall).
    pub zero_latency_miops: f64,
    /// Polls for each read.
    pub polls_per_read: f64,
    /// Times the host stood still for more than 20 us, which the device did not get as a present.
    pub pauses_count: u64,
}

impl EfficiencyRow {
    /// The least of the bounds.
    pub fn bound_miops(&self) -> f64 {
        let cap = self.cap_miops.unwrap_or(f64::INFINITY);
        self.little_miops.min(self.zero_latency_miops).min(cap)
    }

    /// Measured over the least of the bounds.
    pub fn efficiency(&self) -> f64 {
        self.miops / self.bound_miops()
    }
}

/// Refuses an array that [`efficiency`] cannot read, before anything is measured.
///
/// # Errors
/// `Kind::Argument` for a length that is no power of two or less than two reads.
pub fn check_array(bytes: u64) -> Result<()> {
    let least = 2 * LINE_BYTES;
    if bytes.is_power_of_two() && bytes >= least {
        return Ok(());
    }
    let what = format!("an array of {bytes} bytes; it must be a power of two, {least} at least");
    Err(Error::new(Kind::Argument, what))
}

/// Claim `flash.ring.efficiency.4gib`: 4 us over `bytes` (4 GiB for the claim), with the cap of
/// profile `xlfdd` and without, at 64 to 512 contexts. The claim is the least row.
///
/// # Errors
/// As [`step`] and [`check_array`].
pub fn efficiency(trials: u32, bytes: u64) -> Result<Vec<EfficiencyRow>> {
    check_array(bytes)?;
    let array = contents(bytes, 1).map_err(failed)?;
    pinned(|| {
        let mut rows = Vec::new();
        for contexts in [64, 128, 256, 512] {
            for cap in [Some(CAP), None] {
                rows.push(efficiency_row(trials, &array, contexts, cap)?);
            }
        }
        Ok(rows)
    })
}

fn efficiency_row(
    trials: u32,
    array: &Region,
    contexts: u32,
    cap: Option<PerSecond>,
) -> Result<EfficiencyRow> {
    let chains = Chains::new(contexts, READS / u64::from(contexts), array.len() as u64);
    let mut slow = ring_of(PacedPtr::new(array.clone(), paced(LATENCY, cap, contexts)), contexts)?;
    let instant = PacedPtr::new(array.clone(), paced(Picos::ZERO, None, contexts));
    let instant = ring_of(instant, contexts)?;
    let wanted = run_async(&instant, chains).map_err(failed)?;
    let least = interleaved(
        trials,
        chains.reads(),
        wanted,
        &mut [
            form("4 us", || run_async(&slow, chains)),
            form("zero latency", || run_async(&instant, chains)),
        ],
    )?;
    Ok(EfficiencyRow {
        contexts,
        cap_miops: cap.map(|c| c.0 / 1e6),
        miops: least[0].miops(),
        little_miops: f64::from(contexts) * 1e6 / LATENCY.0 as f64,
        zero_latency_miops: least[1].miops(),
        polls_per_read: slow.counters().polls_per_read(),
        pauses_count: slow.device().counts().pauses_count,
    })
}

/// A doorbell interface's cost with one stand-in for the doorbell.
#[derive(Clone, Copy, Debug)]
pub struct DoorbellRow {
    /// What stands in for the uncached write.
    pub doorbell: Doorbell,
    /// One doorbell a request, or one a sweep.
    pub batching: Batching,
    /// Processor time a read, the device's side of the model included.
    pub per_read: PerRead,
}

/// Processor time a request of the two interfaces, everything else equal.
#[derive(Clone, Debug)]
pub struct InterfaceFigures {
    /// The lightweight interface.
    pub lightweight: PerRead,
    /// The doorbell-and-queue interface with each stand-in.
    pub doorbells: Vec<DoorbellRow>,
    /// Of each doorbell row, what the model of the device takes and the host would not.
    pub device_side_ns: f64,
}

impl InterfaceFigures {
    /// Lightweight over doorbell-and-queue with the cheapest stand-in for one doorbell a request
    /// (an ordinary cached store), the device's side taken off the latter: the ratio least in our
    /// favour.
    pub fn ratio(&self) -> f64 {
        let plain = |row: &&DoorbellRow| {
            row.doorbell == Doorbell::Plain && row.batching == Batching::PerRequest
        };
        let row = self.doorbells.iter().find(plain).expect("invariant: the plain row is measured");
        self.lightweight.cpu_ns / (row.per_read.cpu_ns - self.device_side_ns)
    }
}

const STAND_INS: [(Doorbell, Batching); 5] = [
    (Doorbell::Plain, Batching::PerRequest),
    (Doorbell::Locked, Batching::PerRequest),
    (Doorbell::Flushed, Batching::PerRequest),
    (Doorbell::BusyNs(100.0), Batching::PerRequest),
    (Doorbell::Plain, Batching::PerKick),
];

/// Claim `flash.interface`: the same chains over both interfaces at zero latency, async.
///
/// # Errors
/// As [`step`].
pub fn interface(trials: u32) -> Result<InterfaceFigures> {
    pinned(|| {
        let array = contents(L2_BYTES, 1).map_err(failed)?;
        let chains = Chains::new(CONTEXTS, READS / 8 / u64::from(CONTEXTS), L2_BYTES);
        let wanted = run_plain(&array, chains);
        let options = || paced(Picos::ZERO, None, CONTEXTS);
        let light = ring_of(PacedPtr::new(array.clone(), options()), CONTEXTS)?;
        let pair = |(doorbell, batching)| {
            let device = QueuePair::new(array.clone(), options(), doorbell, batching);
            ring_of(device.map_err(failed)?, CONTEXTS)
        };
        let mut pairs = STAND_INS.into_iter().map(pair).collect::<Result<Vec<_>>>()?;
        let mut forms = vec![form("lightweight", || run_async(&light, chains))];
        forms.extend(pairs.iter().map(|ring| form("queue pair", move || run_async(ring, chains))));
        let least = interleaved(trials, chains.reads(), wanted, &mut forms)?;
        drop(forms);
        let row = |(&(doorbell, batching), &per_read)| DoorbellRow { doorbell, batching, per_read };
        Ok(InterfaceFigures {
            lightweight: least[0],
            doorbells: STAND_INS.iter().zip(&least[1..]).map(row).collect(),
            device_side_ns: device_side_ns(trials, pairs[0].device())?,
        })
    })
}

fn device_side_ns(trials: u32, device: &QueuePair) -> Result<f64> {
    let (rounds, batch) = (1 << 12, STRETCH as u32);
    let mut least = PerRead::NEVER;
    for _ in 0..trials.max(1) {
        let reads = u64::from(rounds) * u64::from(batch);
        let (took, _) = timed(reads, &mut || {
            device.rehearse_device_side(rounds, batch);
            Ok(0)
        })?;
        least = least.least(took);
    }
    Ok(least.cpu_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_that_reads_wrong_bytes_has_no_figure() {
        let mut wrong: [Form<'_>; 1] = [("wrong", Box::new(|| Ok(1)))];
        let error = interleaved(1, 1, 2, &mut wrong).unwrap_err();
        assert!(error.to_string().contains("wrong bytes"), "{error}");
    }

    #[test]
    fn an_array_that_chains_cannot_cover_is_refused() {
        for bytes in [0, 64, 96, 3 << 20] {
            assert_eq!(efficiency(1, bytes).unwrap_err().kind(), Kind::Argument, "{bytes}");
        }
        check_array(128).unwrap();
    }

    #[test]
    fn small_runs_of_every_measurement_answer_with_figures() {
        let rows = efficiency(1, 1 << 20).unwrap();
        assert_eq!(rows.len(), 8);
        assert!(rows.iter().all(|r| r.miops > 0.0 && r.bound_miops() <= 44.0 + 84.0));
        let figures = interface(1).unwrap();
        assert_eq!(figures.doorbells.len(), STAND_INS.len());
        assert!(figures.lightweight.cpu_ns > 0.0 && figures.device_side_ns > 0.0);
    }
}
