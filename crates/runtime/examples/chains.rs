//! Pointer chasing on a ring: what an ANN index, a hash table or a B-tree does with its medium.
//!
//! A search is a chain of 8 to 16 dependent reads of 64 bytes: each record names the next. Searches
//! do not depend on each other, so a ring overlaps hundreds of them. Printed: the time of a plain
//! loop over DRAM, of the ring over DRAM (cache misses hidden), and of the ring over a modelled 4
//! us flash (`paced` clock: our code in real time, deadlines of the model; data handed out by
//! pointer).
//!
//! `cargo run --release -p littoral-runtime --example chains [MEGABYTES]`
#![allow(clippy::print_stdout)] // Reason: an example shows its result.

use std::cell::Cell;
use std::error::Error as StdError;
use std::time::{Duration, Instant};

use littoral_base::rng::mix;
use littoral_device::flash::dram::Dram;
use littoral_device::flash::paced::{PacedOptions, PacedPtr};
use littoral_device::profile::Profile;
use littoral_device::read::ReadDevice;
use littoral_device::region::Region;
use littoral_runtime::{Error, Ring, RingOptions};

const RECORD_BYTES: u64 = 64;
const SEARCHES: u64 = 200_000;

/// The medium: an array of records, and how many there are.
struct Store {
    region: Region,
    records: u64,
}

fn word(record: &[u8]) -> u64 {
    u64::from_le_bytes(record[..8].try_into().expect("invariant: a record has a first word"))
}

/// Reads of search `number`: 8 to 16.
fn hops(number: u64) -> u64 {
    8 + mix(number) % 9
}

/// The record a search goes to after one that holds `found`.
fn next(found: u64, step: u64, records: u64) -> u64 {
    mix(found ^ step) % records
}

fn build(records: u64) -> Result<Store, littoral_device::Error> {
    let bytes = usize::try_from(records * RECORD_BYTES).expect("invariant: the array fits memory");
    let region = Region::build(bytes, |into| {
        for (i, record) in into.chunks_exact_mut(RECORD_BYTES as usize).enumerate() {
            record[..8].copy_from_slice(&mix(i as u64).to_le_bytes());
        }
    })?;
    Ok(Store { region, records })
}

/// One search after the other with plain loads.
fn plain(store: &Store) -> u64 {
    (0..SEARCHES).fold(0, |sum, number| {
        let mut found = number;
        for step in 0..hops(number) {
            let at = (next(found, step, store.records) * RECORD_BYTES) as usize;
            found = word(&store.region[at..at + RECORD_BYTES as usize]);
        }
        sum ^ found
    })
}

/// The same searches on a ring: the code of one search is the loop above with `.await` in it.
fn on_ring<D: ReadDevice>(ring: &Ring<D>, records: u64) -> Result<u64, Error> {
    let (numbers, sum) = (Cell::new(0), Cell::new(0));
    ring.run(async |cx| {
        while numbers.get() < SEARCHES {
            let number = numbers.replace(numbers.get() + 1);
            let mut found = number;
            for step in 0..hops(number) {
                let at = next(found, step, records) * RECORD_BYTES;
                found = word(&cx.read(at, RECORD_BYTES as u32).await?);
            }
            sum.set(sum.get() ^ found);
        }
        Ok::<(), Error>(())
    })?;
    Ok(sum.get())
}

fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    (run(), start.elapsed())
}

fn main() -> Result<(), Box<dyn StdError>> {
    let megabytes: u64 = std::env::args().nth(1).map_or(Ok(512), |text| text.parse())?;
    let store = build((megabytes << 20) / RECORD_BYTES)?;
    let (wanted, alone) = timed(|| plain(&store));
    println!("plain loop over DRAM        {alone:>10.1?}  (wall)");

    let dram = Ring::new(Dram::new(store.region.clone()), RingOptions::default())?;
    let flash = PacedOptions::of(&Profile::named("xlfdd")?.flash()?, None);
    let flash = Ring::new(PacedPtr::new(store.region.clone(), flash), RingOptions::default())?;
    // The first run of a ring finds out how many contexts it needs.
    on_ring(&dram, store.records)?;
    on_ring(&flash, store.records)?;
    let (on_dram, dram_time) = timed(|| on_ring(&dram, store.records));
    let (on_flash, flash_time) = timed(|| on_ring(&flash, store.records));
    assert_eq!((on_dram?, on_flash?), (wanted, wanted), "a search found something else");

    let speedup = |time: Duration| alone.as_secs_f64() / time.as_secs_f64();
    let (few, many) = (dram.contexts(), flash.contexts());
    println!(
        "ring over DRAM              {dram_time:>10.1?}  (wall)   {:.1}x, {few} contexts",
        speedup(dram_time)
    );
    println!(
        "ring over 4 us flash, .ptr  {flash_time:>10.1?}  (paced)  {:.1}x, {many} contexts",
        speedup(flash_time)
    );
    Ok(())
}
