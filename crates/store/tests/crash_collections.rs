//! Collections cut short, on a device with little garbage: an engine of one's own over the store.
//!
//! - The engine is a table of numbered pages; where each lies stands in conventional pages.
//! - It makes a collection durable in pieces, so that a power cut leaves half of one.
//! - However often that happens, nothing is lost and overwrites go on.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;

use std::collections::BTreeSet;

use littoral_base::codec::SEAL_BYTES;
use littoral_base::fault::Plan;
use littoral_base::rng::{self, Rng};
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::ZonedDevice as _;
use littoral_device::zoned::model::ModelDevice;
use littoral_store::error::{Error, Kind, Result};
use littoral_store::gc::{self, Relocate};
use littoral_store::pages::{Heat, Pages, Patch, Root};
use littoral_store::store::{Durability, Store};

use common::{BLOCK_BYTES, geometry};

/// Pages held, of 490 that the data zones have: one zone is the collector's, 12 blocks are garbage.
const PAGES: u64 = 380;
/// Addresses in a page of the table.
const SLOTS: u64 = 48;
/// Moves that become durable together.
const PIECE: usize = 7;

fn device() -> ModelDevice {
    ModelDevice::new(geometry(1)).unwrap()
}

struct Table<'d> {
    store: Store<&'d mut ModelDevice>,
    at: Vec<Lba>,
}

fn number(page: &[u8]) -> usize {
    u64::from_le_bytes(*page.first_chunk().unwrap()) as usize
}

fn image(n: u64, version: u64) -> Vec<u8> {
    [n.to_le_bytes(), version.to_le_bytes()].concat()
}

impl<'d> Table<'d> {
    fn create(device: &'d mut ModelDevice) -> Table<'d> {
        let mut store = Store::create(device, *b"table\0\0\0", &[], 3).unwrap();
        store.set_durability(Durability::Batch);
        let tables: Vec<Lba> =
            (0..PAGES.div_ceil(SLOTS)).map(|_| store.allocate().unwrap()).collect();
        let empty = [0; BLOCK_BYTES - SEAL_BYTES];
        tables.iter().for_each(|&at| store.put(at, &empty).unwrap());
        store.set_root(Root { top: tables[0], height: 0, records: PAGES });
        store.commit().unwrap();
        let mut table = Table { store, at: vec![] };
        for n in 0..PAGES {
            let at = table.store.append(Heat::Hot, &image(n, 0)).unwrap();
            table.at.push(at);
            table.note(n as usize).unwrap();
            table.store.commit().unwrap();
        }
        table.store.sync().unwrap();
        table
    }

    fn open(device: &'d mut ModelDevice) -> Result<Table<'d>> {
        let mut store = Store::open(device)?;
        let top = store.root().top.0;
        let (mut at, mut live) = (vec![], BTreeSet::new());
        for table in (0..PAGES.div_ceil(SLOTS)).map(|i| Lba(top + i)) {
            live.insert(table);
            let page = store.read(table)?;
            let slots = page.chunks_exact(8).take(SLOTS as usize);
            at.extend(slots.map(|b| Lba(u64::from_le_bytes(b.try_into().unwrap()))));
        }
        at.truncate(PAGES as usize);
        live.extend(&at);
        store.recovered(&live)?;
        Ok(Table { store, at })
    }

    /// Writes where page `n` lies into the table.
    fn note(&mut self, n: usize) -> Result<()> {
        let table = Lba(self.store.root().top.0 + n as u64 / SLOTS);
        let (at, bytes) = (n % SLOTS as usize * 8, self.at[n].0.to_le_bytes());
        self.store.patch(table, &[Patch::Put { at, bytes: &bytes }])
    }

    fn overwrite(&mut self, n: u64, version: u64) -> Result<()> {
        for _ in 0..200 {
            if self.store.has_sequential_room(1) {
                let old = self.at[n as usize];
                self.at[n as usize] = self.store.append(Heat::Hot, &image(n, version))?;
                self.note(n as usize)?;
                self.store.free(old);
                return self.store.commit();
            }
            if !gc::step(self, true)? {
                break;
            }
        }
        Err(Error::new(Kind::Full, "no room for an overwrite"))
    }

    fn versions(&self) -> Vec<u64> {
        let version = |(n, &at): (usize, &Lba)| {
            let page = self.store.read(at).unwrap();
            assert_eq!(number(&page), n);
            u64::from_le_bytes(page[8..16].try_into().unwrap())
        };
        self.at.iter().enumerate().map(version).collect()
    }
}

impl<'d> Relocate for Table<'d> {
    type Device = &'d mut ModelDevice;

    fn store(&mut self) -> &mut Store<Self::Device> {
        &mut self.store
    }

    fn moved(&mut self, old: Lba, new: Lba) -> Result<()> {
        let n = number(&self.store.read(new)?);
        assert_eq!(self.at[n], old, "a live page is where the table says");
        self.at[n] = new;
        self.note(n)?;
        self.store.free(old);
        Ok(())
    }

    fn copied(&mut self, at: Lba) -> Result<Option<Lba>> {
        let Ok(copy) = self.store.read(at) else { return Ok(None) };
        let Some(&page) = self.at.get(number(&copy)) else { return Ok(None) };
        let content = ..BLOCK_BYTES - SEAL_BYTES;
        let is_copy = page != at && self.store.read(page)?[content] == copy[content];
        Ok(is_copy.then_some(page))
    }

    fn evacuate(&mut self, pages: &BTreeSet<Lba>) -> Result<()> {
        for (i, &old) in pages.iter().enumerate() {
            gc::move_page(self, old)?;
            if i % PIECE == PIECE - 1 {
                self.store.sync()?;
            }
        }
        Ok(())
    }
}

fn has_no_empty_zone(device: &ModelDevice) -> bool {
    let report = device.report(ZoneId(0), 8).unwrap();
    // One conventional zone, two of the redo log, then pages.
    report[3..].iter().all(|z| z.write_pointer > z.start)
}

#[test]
fn collections_cut_again_and_again_leave_overwrites_their_room() {
    let mut device = device();
    let mut held = Table::create(&mut device).versions();
    let mut rng = rng::stream(29, "collections cut short");
    let (mut version, mut without_empty_zone) = (0, 0);
    for life in 0..400 {
        let mut table = Table::open(&mut device).unwrap();
        let cut = Plan::none().cut_at(rng.random_range(1..250));
        table.store.device_mut().install(cut).unwrap();
        let n = loop {
            version += 1;
            let n = rng.random_range(0..PAGES);
            match table.overwrite(n, version) {
                Ok(()) => held[n as usize] = version,
                Err(e) if e.kind() == Kind::PowerCut => break n as usize,
                Err(e) => panic!("life {life}: {e}"),
            }
        };
        drop(table);
        device.power_cycle(rng.random());
        device.install(Plan::none()).unwrap();
        without_empty_zone += u32::from(has_no_empty_zone(&device));
        let found = Table::open(&mut device).unwrap().versions();
        if found[n] == version {
            held[n] = version;
        }
        assert_eq!(found, held, "life {life}");
    }
    assert!(without_empty_zone > 100, "{without_empty_zone}");
}
