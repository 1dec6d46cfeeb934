//! `zbtree.fill.pace`: inserts into a small device until it refuses, timed by tenths.
//!
//! - The device is a model with the latencies of `zns-paper`: the clock is virtual and the figures
//!   replay. Changes are made durable a thousand at a time, as `kv load` does.
//! - The tenths are of the records that the device takes; the pace is the slowest tenth's rate over
//!   the median tenth's. Blocks copied by the collector per insert say where the time goes, and the
//!   longest single insert says what a caller waits for at worst.

use littoral_device::profile::Profile;
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_index::index::{Engine, Index};
use littoral_index::layout::Shape;
use littoral_index::{Error, Kind, Result};
use littoral_store::store::{Durability, StoreCounts};

use super::figures::Measured;
use littoral_bench::claims::Figure;

const BATCH: u64 = 1000;
const PICOS_PER_MS: f64 = 1e9;
const TENTHS: usize = 10;

/// The claim; the note has the rate of each tenth.
///
/// # Errors
/// As [`fill`].
pub fn claim(seed: u64) -> littoral_bench::Result<Vec<Measured>> {
    let failed = |e| {
        littoral_bench::Error::with_source(
            littoral_bench::Kind::BadResult,
            "filling a small device",
            e,
        )
    };
    let found = fill(Engine::Zb, seed).map_err(failed)?;
    let tenths = found.tenths.iter();
    let rates: Vec<String> = tenths.clone().map(|t| format!("{:.0}", t.inserts_per_s)).collect();
    let copied: Vec<String> = tenths.map(|t| format!("{:.2}", t.copied_per_insert)).collect();
    let note = format!(
        "{} records; inserts per second by tenths: {}; blocks copied by the collector per \
         insert: {}; the longest single insert, its sync with it: {:.1} ms; docs/design/store.md \
         computes what bounds the last tenth without any copy",
        found.records,
        rates.join(", "),
        copied.join(", "),
        found.longest as f64 / PICOS_PER_MS
    );
    Ok(vec![("zbtree.fill.pace".to_owned(), Figure::new(found.pace(), note))])
}

/// One tenth of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tenth {
    /// Inserts per second of virtual time.
    pub inserts_per_s: f64,
    /// Blocks that the collector copied per insert.
    pub copied_per_insert: f64,
    /// Blocks written in all per insert.
    pub written_per_insert: f64,
    /// Checkpoints.
    pub checkpoints: u64,
}

/// What filling showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Filled {
    /// Records that the device took.
    pub records: u64,
    /// By tenths of them.
    pub tenths: Vec<Tenth>,
    /// Virtual picoseconds of the longest single insert, with the sync before it if there was one.
    pub longest: u64,
}

impl Filled {
    /// The slowest tenth's rate over the median tenth's.
    pub fn pace(&self) -> f64 {
        let mut rates: Vec<f64> = self.tenths.iter().map(|t| t.inserts_per_s).collect();
        rates.sort_by(f64::total_cmp);
        rates[0] / rates[TENTHS / 2]
    }
}

/// The device of 4.6 MiB: one conventional and eleven sequential zones of 100 blocks.
fn geometry() -> Geometry {
    Geometry {
        block_bytes: 4096,
        conventional_zones: 1,
        sequential_zones: 11,
        zone_blocks: 128,
        capacity_blocks: 100,
        open_zones_max: 2,
        active_zones_max: 0,
        append_blocks_max: 0,
    }
}

fn key(i: u64) -> [u8; 8] {
    format!("{:08}", i.wrapping_mul(48_271) % 99_999_989).into_bytes().try_into().expect("8 digits")
}

/// State after every hundredth record: virtual time in picoseconds, and what was written.
type Mark = (u64, StoreCounts);
const MARK_EVERY: u64 = 100;

/// Fills a device.
///
/// # Errors
/// Those of the store, `Kind::Full` excepted, which ends the filling.
pub fn fill(engine: Engine, seed: u64) -> Result<Filled> {
    let failed = |e| Error::with_source(Kind::Usage, "device", e);
    let mut device = ModelDevice::new(geometry()).map_err(failed)?;
    device.set_timing(Profile::open("zns-paper").and_then(|p| p.zoned()).map_err(failed)?.timing);
    let mut index = Index::create(device, engine, Shape::fitting(4096, 8, 8)?, seed)?;
    index.store_mut().set_durability(Durability::Batch);
    let (mut marks, mut longest): (Vec<Mark>, u64) = (Vec::new(), 0);
    for n in 0u64.. {
        let begun = index.store_ref().device().now().0;
        if n.is_multiple_of(BATCH) {
            index.sync()?;
        }
        if n.is_multiple_of(MARK_EVERY) {
            let store = index.store_ref();
            marks.push((store.device().now().0, store.counts()));
        }
        match index.put(&key(n), &n.to_be_bytes()) {
            Ok(_) => longest = longest.max(index.store_ref().device().now().0 - begun),
            Err(e) if e.kind() == Kind::Full => break,
            Err(e) => return Err(e),
        }
    }
    index.sync()?;
    index.check()?;
    let tenth = |i: usize| (marks.len() - 1) * i / TENTHS;
    let tenths = (0..TENTHS).map(|i| between(&marks, tenth(i), tenth(i + 1))).collect();
    Ok(Filled { records: index.len(), tenths, longest })
}

fn between(marks: &[Mark], from: usize, to: usize) -> Tenth {
    let inserts = ((to - from) as u64 * MARK_EVERY) as f64;
    let seconds = (marks[to].0 - marks[from].0) as f64 / 1e12;
    let c = littoral_bench::kv::since(marks[to].1, marks[from].1);
    let written = c.tree_blocks + c.gc_blocks + c.map_blocks + c.redo_blocks;
    Tenth {
        inserts_per_s: inserts / seconds,
        copied_per_insert: c.gc_blocks as f64 / inserts,
        written_per_insert: written as f64 / inserts,
        checkpoints: c.checkpoints,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock is virtual and the figures replay, so these bounds lie close to what is reached:
    /// the last tenth's share of the median rate, and the longest insert in milliseconds.
    #[test]
    fn a_device_takes_its_last_records_at_a_pace() {
        for (engine, pace, longest_ms) in [(Engine::Zb, 0.30, 100.0), (Engine::Cow, 0.48, 30.0)] {
            let found = fill(engine, 1).unwrap();
            assert!(found.records > 5000 && found.pace() >= pace, "{}: {found:?}", found.pace());
            assert!(found.longest as f64 / PICOS_PER_MS <= longest_ms, "{found:?}");
            assert_eq!(found, fill(engine, 1).unwrap(), "virtual time replays");
        }
    }
}
