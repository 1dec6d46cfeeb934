//! Damaged media: one flipped bit anywhere is refused with its place or harmless, never a wrong
//! answer; what a closed or killed store acknowledged is there or is missed by name.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;

use std::path::Path;

use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::file::FileDevice;
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::{ZoneState, ZonedDevice as _};
use littoral_index::Kind;
use littoral_index::index::{Engine, Index};
use littoral_index::kv::{Access, Kv, Options};
use littoral_index::layout::Shape;
use littoral_index::salvage::salvage;

use common::{GEOMETRY, key};

fn killed(records: u64) -> ModelDevice {
    let device = ModelDevice::new(GEOMETRY).unwrap();
    let shape = Shape::fitting(512, 8, 8).unwrap();
    let mut index = Index::create(device, Engine::Zb, shape, 7).unwrap();
    for i in 0..records {
        index.put(&key(i), &i.to_be_bytes()).unwrap();
    }
    index.into_device()
}

/// A copy of a device, its blocks changed by `damage` (block number, bytes).
fn damaged(device: &ModelDevice, damage: impl Fn(u64, &mut [u8])) -> ModelDevice {
    let mut copy = ModelDevice::new(GEOMETRY).unwrap();
    for z in device.report(ZoneId(0), 10).unwrap() {
        let is_conventional = z.write_pointer == z.start && z.zone == ZoneId(0);
        let end = if is_conventional { z.start.0 + z.capacity_blocks } else { z.write_pointer.0 };
        for at in z.start.0..end {
            let mut block = [0; 512];
            device.read(Lba(at), &mut block).unwrap();
            damage(at, &mut block);
            let ticket = copy.write(Lba(at), &block).unwrap();
            copy.wait(ticket).unwrap();
        }
    }
    copy
}

fn redo_blocks(device: &ModelDevice) -> std::ops::Range<u64> {
    let zones = device.report(ZoneId(1), 2).unwrap();
    let z = zones.iter().find(|z| z.write_pointer > z.start).unwrap();
    z.start.0..z.write_pointer.0
}

#[test]
fn a_lost_group_with_later_ones_behind_it_is_refused_with_zone_and_block() {
    let device = killed(40);
    let redo = redo_blocks(&device);
    let index = Index::open_to_read(damaged(&device, |_, _| ())).unwrap();
    assert_eq!(index.len(), 40);
    let mut refused = 0;
    for lost in redo.start + 4..redo.end - 1 {
        let e = Index::open_to_read(damaged(&device, |at, block| {
            if at == lost {
                block.fill(0);
            }
        }));
        // A block of a group of several is made good, a group of one block is not.
        let e = match e {
            Err(e) => e,
            Ok(index) => {
                assert_eq!(index.len(), 40, "block {lost}: nothing is lost silently");
                continue;
            }
        };
        refused += 1;
        assert_eq!(e.kind(), Kind::Corrupt, "{e}");
        // The group that is lost begins at the block or, if it has several, before it.
        let is_there = |at: u64| redo.contains(&at) && at <= lost;
        assert!(e.place().page.is_some_and(is_there), "block {lost}: {e}");
        let zones = device.report(ZoneId(0), 10).unwrap();
        let zone = zones.iter().find(|z| z.start.0 == redo.start).unwrap();
        assert_eq!(e.place().zone, Some(zone.zone.0), "{e}");
        let text = e.to_string();
        assert!(text.contains("kv repair"), "{text}");
    }
    assert!(refused > 10, "{refused} blocks of {redo:?}");
}

/// What a power cut leaves: the log without its last blocks is the state before the last group.
#[test]
fn a_torn_tail_is_the_end_of_the_log() {
    let device = killed(40);
    let redo = redo_blocks(&device);
    let index = Index::open(damaged(&device, |at, block| {
        if at + 1 == redo.end {
            block.fill(0);
        }
    }));
    let index = index.unwrap();
    assert!((38..=40).contains(&index.len()), "{}", index.len());
    index.check().unwrap();
}

#[test]
fn one_damaged_copy_is_noted_and_written_anew() {
    let device = killed(40);
    let redo = redo_blocks(&device);
    for (lost, word) in [(0, "superblock"), (1, "superblock"), (redo.start, "redo zone")] {
        let hurt = damaged(&device, |at, block| {
            if at == lost || at == lost + 2 && lost < 4 {
                block[77] ^= 16;
            }
        });
        let index = Index::open_to_read(hurt).unwrap();
        assert_eq!(index.len(), 40);
        let notes = index.store_ref().notes().to_vec();
        assert!(notes.iter().any(|n| n.contains(word)), "{lost}: {notes:?}");
        let index = Index::open(index.into_device()).unwrap();
        let index = Index::open_to_read(index.into_device()).unwrap();
        assert_eq!((index.len(), index.store_ref().notes().len()), (40, 0), "healed");
    }
}

/// Without the newest superblock the one before it names an epoch that was reset: that is said, and
/// the newer epoch's log saves every record.
#[test]
fn a_store_without_its_newest_superblock_is_refused_by_that_word_and_saved() {
    // Enough for several checkpoints.
    const RECORDS: u64 = 300;
    let device = killed(RECORDS);
    let mut refused = 0;
    for slot in [0, 2] {
        let hurt = || {
            damaged(&device, |at, block| {
                if at == slot || at == slot + 1 {
                    block.fill(0);
                }
            })
        };
        match Index::open_to_read(hurt()) {
            Ok(index) => assert_eq!(index.len(), RECORDS, "the older one is not needed"),
            Err(e) => {
                refused += 1;
                let text = e.to_string();
                let words = ["superblock", "both copies", "kv repair"];
                assert_eq!(e.kind(), Kind::Corrupt, "{text}");
                assert!(words.iter().all(|w| text.contains(w)), "{text}");
                // The zone of the newer epoch's log.
                assert!(e.place().zone.is_some_and(|zone| zone > 0), "{text}");
            }
        }
        let mut saved = 0;
        let found = salvage(hurt(), |_, _| {
            saved += 1;
            Ok(())
        });
        let found = found.unwrap();
        assert_eq!(
            (saved, found.counted, found.missing.len()),
            (RECORDS, RECORDS, 0),
            "{:?}",
            found.notes
        );
    }
    assert_eq!(refused, 1);
}

fn open_to_read(dir: &Path) -> Kv {
    let device = FileDevice::open_to_read(&dir.join("zones")).unwrap();
    Kv::open_on(Box::new(device), Access::Read).unwrap()
}

/// A conventional zone of the file that turns READ_ONLY keeps its pages and its superblocks: every
/// record is read, and a change is served or refused with the zone's state.
#[test]
fn a_file_whose_conventional_zone_turns_read_only_is_read_as_before() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [Engine::Zb, Engine::Cow] {
        let at = dir.path().join(engine.name());
        let options = Options { geometry: GEOMETRY, ..Options::new(engine, 3) };
        std::fs::create_dir(&at).unwrap();
        let device = FileDevice::create(&at.join("zones"), options.geometry).unwrap();
        let mut kv = Kv::create_on(Box::new(device), &options).unwrap();
        for i in 0..200u64 {
            kv.put(&key(i), &i.to_be_bytes()).unwrap();
        }
        kv.close().unwrap();
        let mut device = FileDevice::open(&at.join("zones")).unwrap();
        device.fail_zone(ZoneId(0), ZoneState::ReadOnly).unwrap();
        drop(device);
        let kv = open_to_read(&at);
        kv.check().unwrap();
        for i in 0..200u64 {
            assert_eq!(kv.get(&key(i)).unwrap(), Some(i.to_be_bytes().to_vec()), "{engine:?}");
        }
        drop(kv);
        let changed =
            Kv::open_on(Box::new(FileDevice::open(&at.join("zones")).unwrap()), Access::Write)
                .and_then(|mut kv| {
                    kv.put(&key(1), &[7; 8])?;
                    kv.close()
                });
        match (engine, changed) {
            (Engine::Zb, Err(e)) => assert!(e.to_string().contains("READ_ONLY"), "{e}"),
            // The superblock has moved; this tree writes nothing in place.
            (Engine::Cow, changed) => changed.unwrap(),
            (Engine::Zb, Ok(())) => panic!("a page of a READ_ONLY zone was changed"),
        }
        let kv = open_to_read(&at);
        assert_eq!(kv.stats().records_count, 200);
        kv.check().unwrap();
    }
}
