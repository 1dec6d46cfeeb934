//! One opened device measured: reads through the ring, or durable transactions.
//!
//! The clock and the words about what is modelled are the device's own. Each figure is the median
//! of the trials.

use std::cell::Cell;
use std::time::Instant;

use littoral_base::rng::mix;
use littoral_device::flash::opened::FlashDevice;
use littoral_device::pmem::AnyDomain;
use littoral_device::read::ReadDevice;
use littoral_runtime::{Contexts, Cx, Ring, RingOptions};
use littoral_stm::structures::{HashMap, Map as _};
use littoral_stm::{Options, Pool};

use crate::error::{Error, Kind, Result};

/// Reads of one trial.
const READS: u64 = 4096;
/// Transactions of one trial.
const TRANSACTIONS: u64 = 200;
/// Keys of the table that transactions change.
const KEYS: u64 = 500;

/// What was measured of a device.
#[derive(Clone, Debug)]
pub struct DeviceRow {
    /// What an operation is.
    pub work: String,
    /// Time per operation.
    pub time_ns: f64,
}

fn failed(e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::with_source(Kind::Environment, "measuring a device", e)
}

/// The median time per operation of `trials` runs of `operations`.
fn median(trials: u32, operations: u64, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..trials.max(1) {
        let began = Instant::now();
        run()?;
        times.push(began.elapsed().as_nanos() as f64 / operations as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// One context: reads at random places until none are left.
async fn read<D: ReadDevice>(
    cx: Cx<'_, D>,
    left: &Cell<u64>,
    (places, piece): (u64, u32),
) -> std::result::Result<(), littoral_runtime::Error> {
    while left.get() > 0 {
        left.set(left.get() - 1);
        cx.read(mix(left.get()) % places * u64::from(piece), piece).await?;
    }
    Ok(())
}

/// Measures random reads of one granule (at least 64 B) with 1, 8 and 64 contexts.
///
/// # Errors
/// `Kind::Environment` when the device is smaller than one read, or a read fails.
pub fn flash(device: &FlashDevice, trials: u32) -> Result<Vec<DeviceRow>> {
    let mut rows = Vec::new();
    for contexts in [1u32, 8, 64] {
        let handle = device.handle(1, 2 * contexts).map_err(failed)?;
        let piece = handle.limits().granule_bytes.max(64);
        let places = handle.limits().capacity_bytes / u64::from(piece);
        if places == 0 {
            let what = format!("the device has {} B, a read takes {piece}", device.len());
            return Err(Error::new(Kind::Environment, what));
        }
        let options = RingOptions::with_contexts(Contexts::Fixed(contexts));
        let ring = Ring::new(handle, options).map_err(failed)?;
        let time_ns = median(trials, READS, || {
            let left = Cell::new(READS);
            ring.run(|cx| read(cx, &left, (places, piece))).map_err(failed)
        })?;
        rows.push(DeviceRow { work: format!("read {piece} B, {contexts} contexts"), time_ns });
    }
    Ok(rows)
}

/// Measures transactions that change 1 and 16 entries of a table, on memory that holds nothing.
///
/// # Errors
/// `Kind::Environment` when no pool fits, or a transaction fails.
pub fn memory(memory: AnyDomain, trials: u32) -> Result<Vec<DeviceRow>> {
    let pool = Pool::create(memory, &Options::default()).map_err(failed)?;
    let mut thread = pool.thread().map_err(failed)?;
    let table = thread.atomically(|tx| HashMap::create(tx, KEYS as usize)).map_err(failed)?;
    let mut rows = Vec::new();
    for entries in [1u64, 16] {
        let time_ns = median(trials, TRANSACTIONS, || {
            for i in 0..TRANSACTIONS {
                let changed = thread.atomically(|tx| {
                    (0..entries).try_for_each(|k| {
                        table.insert(tx, mix(i * entries + k) % KEYS, i).map(drop)
                    })
                });
                changed.map_err(failed)?;
            }
            Ok(())
        })?;
        rows.push(DeviceRow { work: format!("transaction of {entries} entries"), time_ns });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_device::profile::{Profile, Transfer};
    use littoral_device::region::Region;

    #[test]
    fn a_modelled_part_takes_no_less_than_its_latency_over_its_contexts() {
        let region = Region::from_bytes(&[0; 1 << 16]).unwrap();
        let profile = Profile::named("nvme-optane").unwrap();
        let device = FlashDevice::modelled(region, &profile, Transfer::Pointer).unwrap();
        let rows = flash(&device, 1).unwrap();
        let latency = profile.flash().unwrap().latency.as_nanos() as f64;
        assert_eq!(rows.len(), 3);
        for (row, contexts) in rows.iter().zip([1.0, 8.0, 64.0]) {
            assert!(row.time_ns >= 0.9 * latency / contexts, "{row:?}");
        }
    }

    #[test]
    fn transactions_are_measured_on_any_memory() {
        let dram = littoral_device::pmem::Dram::new(1 << 20);
        let rows = memory(AnyDomain::Dram(dram), 2).unwrap();
        assert!(rows.len() == 2 && rows.iter().all(|r| r.time_ns > 0.0), "{rows:?}");
    }
}
