//! A full device, worn zones and tight limits, on the model: refused by name or served, nothing
//! lost.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod common;

use littoral_base::codec::seal;
use littoral_base::rng::Rng;
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_device::zoned::{ZoneKind, ZoneReport, ZoneState, ZonedDevice};
use littoral_index::Kind;
use littoral_index::index::{Engine, Index};
use littoral_index::layout::{self, Shape};
use littoral_index::zb::Zb;
use littoral_store::MEMORY_BYTES;
use littoral_store::gc::{self, Relocate as _};
use littoral_store::pages::Pages as _;
use littoral_store::store::{Durability, Store};

use common::{GEOMETRY, key};

fn create(engine: Engine) -> Index<ModelDevice> {
    create_on(engine, 9)
}

fn create_on(engine: Engine, sequential_zones: u32) -> Index<ModelDevice> {
    let device = ModelDevice::new(Geometry { sequential_zones, ..GEOMETRY }).unwrap();
    let shape = Shape::fitting(512, 8, 8).unwrap();
    let mut index = Index::create(device, engine, shape, 7).unwrap();
    index.store_mut().set_durability(Durability::Batch);
    index
}

#[test]
fn a_full_device_says_so_first_and_deletions_bring_room_back() {
    for engine in [Engine::Zb, Engine::Cow] {
        let mut index = create(engine);
        let mut n = 0;
        let error = loop {
            match index.put(&key(n), &n.to_be_bytes()) {
                Ok(_) => n += 1,
                Err(e) => break e,
            }
        };
        assert!(error.kind() == Kind::Full && n > 500, "{engine:?} {n}: {error}");
        index.check().unwrap();
        for i in 0..n {
            assert_eq!(
                index.get(&key(i)).unwrap(),
                Some(i.to_be_bytes().to_vec()),
                "{engine:?} {i}"
            );
        }
        for i in 0..n - 100 {
            let deleted = index.delete(&key(i));
            let blocks =
                (index.store_ref().conventional_blocks(), index.store_ref().sequential_blocks());
            assert!(deleted.unwrap_or_else(|e| panic!("{engine:?} {i} of {n}, {blocks:?}: {e}")));
        }
        for i in 0..n / 2 {
            index.put(&key(i), &i.to_be_bytes()).unwrap();
        }
        index.check().unwrap();
        index.sync().unwrap();
        let index = Index::open(index.into_device()).unwrap();
        assert_eq!(index.len(), 100 + n / 2, "{engine:?}");
        index.check().unwrap();
    }
}

/// Emptying a zone before its room is needed copies pages that would have been replaced meanwhile.
#[test]
fn no_page_is_copied_while_the_zones_have_garbage_enough() {
    let mut index = create(Engine::Zb);
    let key = |i: u64| (i.wrapping_mul(48_271) % 99_999_989).to_be_bytes();
    let mut n = 0;
    while index.store_ref().sequential_blocks().0 < 400 {
        index.put(&key(n), &[0; 8]).unwrap();
        n += 1;
    }
    let counts = index.store_ref().counts();
    assert!(counts.gc_resets > 5, "{counts:?}");
    assert!(counts.gc_blocks * 20 < counts.tree_blocks, "after {n} records: {counts:?}");
}

#[test]
fn a_page_that_cannot_be_read_has_no_copy() {
    let device = ModelDevice::new(GEOMETRY).unwrap();
    let store = Store::create(device, *b"copies\0\0", &[], 7).unwrap();
    let mut tree = Zb::create(store, Shape::paper(6, 8, 8)).unwrap();
    for n in 0..200 {
        tree.upsert(&key(n), &[0; 8]).unwrap();
    }
    let pages = tree.check().unwrap().pages;
    let body = *pages.iter().find(|&&at| !tree.pages().is_conventional(at)).unwrap();
    let image = tree.pages().peek(body).unwrap().to_vec();
    let copy = tree.pages_mut().append_moved(&image).unwrap();
    assert_eq!(tree.copied(copy).unwrap(), Some(body));
    // What is in memory is dropped.
    tree.pages_mut().set_memory(MEMORY_BYTES);
    tree.pages_mut().device_mut().fail_reads([body.0]);
    assert_eq!(tree.copied(copy).unwrap(), None);
}

/// Pages that cannot be read, in zones that would be emptied, cost their own keys and the room of
/// their zones, and no more.
#[test]
fn a_zone_with_an_unreadable_page_is_left_and_others_are_emptied() {
    for engine in [Engine::Zb, Engine::Cow] {
        let mut index = create_on(engine, 12);
        for i in 0..4000u64 {
            index.put(&key(i), &i.to_be_bytes()).unwrap();
        }
        index.sync().unwrap();
        let zones = index.store_mut().device().report(ZoneId(1), 12).unwrap();
        let full: Vec<_> = zones.iter().filter(|z| z.state == ZoneState::Full).collect();
        let mut leaf = |z: &&ZoneReport| {
            (z.start.0..z.write_pointer.0).find(|&at| {
                let is_live = index.is_live(Lba(at));
                is_live && layout::level(&index.store_ref().peek(Lba(at)).unwrap()) == 0
            })
        };
        let lost: Vec<u64> = full.iter().filter_map(&mut leaf).take(2).collect();
        assert_eq!(lost.len(), 2, "{engine:?}");
        // What is in memory is dropped.
        let mut index = reopened(index);
        index.store_mut().set_durability(Durability::Batch);
        index.store_mut().device_mut().fail_reads(lost);
        // Zones hold what is written again and what is not.
        let hot: Vec<u64> = (0..4000u64).filter(|&i| key(i)[0] < 192).collect();
        let (mut served, mut missed) = (0, 0);
        for n in 0..40_000u64 {
            match index.put(&key(hot[(n * 7919) as usize % hot.len()]), &n.to_be_bytes()) {
                Ok(_) => served += 1,
                Err(e) => {
                    assert_eq!(e.kind(), Kind::Io, "{e}");
                    missed += 1;
                }
            }
            if n % 40 == 0 {
                index.sync().unwrap();
            }
        }
        let counts = index.store_ref().counts();
        let text = format!("{engine:?}: {served} served, {missed} missed, {counts:?}");
        assert!(counts.gc_resets > 20 && missed < 4000, "{text}");
    }
}

#[test]
fn a_collection_for_a_reader_is_refused_and_finishes_no_zone() {
    let mut index = create(Engine::Zb);
    (0..500).for_each(|n| _ = index.put(&key(n), &n.to_be_bytes()).unwrap());
    index.sync().unwrap();
    let zones = |device: &ModelDevice| device.report(ZoneId(0), device.limits().zones).unwrap();
    let device = index.into_device();
    let before = zones(&device);
    let mut index = Index::open_to_read(device).unwrap();
    let error = gc::step(&mut index, true).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage, "{error}");
    assert_eq!(zones(&index.into_device()), before);
}

#[test]
fn a_zone_that_goes_read_only_is_left_and_its_pages_stay() {
    for engine in [Engine::Zb, Engine::Cow] {
        let mut index = create(engine);
        for i in 0..600 {
            index.put(&key(i), &i.to_be_bytes()).unwrap();
            if i == 300 {
                let device = index.store_mut().device_mut();
                let report = device.report(ZoneId(3), 3).unwrap();
                let open = report.iter().find(|z| z.state == ZoneState::ImplicitOpen).unwrap();
                device.fail_zone(open.zone, ZoneState::ReadOnly).unwrap();
            }
        }
        index.sync().unwrap();
        let index = Index::open(index.into_device()).unwrap();
        index.check().unwrap();
        for i in 0..600 {
            assert!(index.get(&key(i)).unwrap().is_some(), "{engine:?} {i}");
        }
    }
}

#[test]
fn zones_that_wear_out_under_load_lose_nothing() {
    for engine in [Engine::Zb, Engine::Cow] {
        let mut index = create_on(engine, 24);
        let mut rng = littoral_base::rng::seeded(9);
        for i in 0..6000u64 {
            index.put(&key(i % 700), &i.to_be_bytes()).unwrap();
            if i % 1500 == 700 {
                // Zones 0 to 2 are the superblock's and the redo log's.
                let worn = ZoneId(rng.random_range(3..25));
                index.store_mut().device_mut().fail_zone(worn, ZoneState::ReadOnly).unwrap();
            }
        }
        index.check().unwrap();
        index.sync().unwrap();
        let index = Index::open(index.into_device()).unwrap();
        index.check().unwrap();
        for i in 5300..6000u64 {
            let found = index.get(&key(i % 700)).unwrap();
            assert_eq!(found, Some(i.to_be_bytes().to_vec()), "{engine:?} {i}");
        }
    }
}

#[test]
fn a_lost_zone_is_missed_by_name_and_only_where_it_is_needed() {
    for engine in [Engine::Zb, Engine::Cow] {
        let mut index = create_on(engine, 24);
        for i in 0..3000u64 {
            index.put(&key(i), &i.to_be_bytes()).unwrap();
        }
        index.sync().unwrap();
        let mut device = index.into_device();
        let report = device.report(ZoneId(0), 25).unwrap();
        let empty = report.iter().rfind(|z| z.state == ZoneState::Empty).unwrap().zone;
        device.fail_zone(empty, ZoneState::Offline).unwrap();
        let mut index = Index::open(device).unwrap();
        index.check().unwrap();
        index.put(&key(1), &7u64.to_be_bytes()).unwrap();
        index.sync().unwrap();
        // A zone with leaves in it.
        let store = index.store_ref();
        let lost = (3..25).rev().map(ZoneId).find(|z| {
            let z = store.device().report(*z, 1).unwrap()[0];
            z.write_pointer > z.start && z.state != ZoneState::Offline
        });
        let mut device = index.into_device();
        device.fail_zone(lost.unwrap(), ZoneState::Offline).unwrap();
        let (mut held, mut missed) = (0, 0);
        match Index::open_to_read(device) {
            Ok(index) => {
                for i in 0..3000u64 {
                    match index.get(&key(i)) {
                        Ok(v) => {
                            held += 1;
                            let wanted = if i == 1 { 7 } else { i };
                            assert_eq!(v, Some(wanted.to_be_bytes().to_vec()), "{engine:?} {i}");
                        }
                        Err(e) => {
                            missed += 1;
                            assert!(e.to_string().contains("OFFLINE"), "{e}");
                        }
                    }
                }
                assert!(missed > 0 && index.check().is_err(), "{engine:?}");
            }
            // The copy-on-write tree's top may have been in it.
            Err(e) => assert!(e.to_string().contains("OFFLINE"), "{engine:?}: {e}"),
        }
        assert!(held > 0 || engine == Engine::Cow);
    }
}

#[test]
fn leaves_are_sealed_when_conventional_pages_run_out() {
    let mut index = create_on(Engine::Zb, 24);
    // 130 pages are written in place and each leaf holds 20 records or so: most of these leaves
    // cannot be there.
    let n = 6000u64;
    for i in 0..n {
        index.put(&key(i), &i.to_be_bytes()).unwrap_or_else(|e| panic!("{i}: {e}"));
    }
    index.check().unwrap();
    let (live, ..) = index.store_ref().sequential_blocks();
    assert!(live > 130, "{live} pages are sealed");
    for i in (0..n).step_by(3) {
        assert!(index.delete(&key(i)).unwrap());
    }
    for i in (1..n).step_by(3) {
        index.put(&key(i), &(i + 1).to_be_bytes()).unwrap();
    }
    index.check().unwrap();
    index.sync().unwrap();
    let index = Index::open(index.into_device()).unwrap();
    index.check().unwrap();
    for i in 0..n {
        let wanted = [None, Some(i + 1), Some(i)][(i % 3) as usize];
        assert_eq!(index.get(&key(i)).unwrap(), wanted.map(|v| v.to_be_bytes().to_vec()), "{i}");
    }
}

#[test]
fn every_limit_of_open_zones_that_can_serve_does() {
    for (open_zones_max, active_zones_max) in [(0, 0), (2, 0), (2, 3), (3, 3), (2, 4), (1, 3)] {
        for engine in [Engine::Zb, Engine::Cow] {
            let limits = Geometry { open_zones_max, active_zones_max, ..GEOMETRY };
            let device = ModelDevice::new(limits).unwrap();
            let shape = Shape::fitting(512, 8, 8).unwrap();
            let mut index = Index::create(device, engine, shape, 7).unwrap();
            index.store_mut().set_durability(Durability::Batch);
            for i in 0..3000u64 {
                index.put(&key(i % 500), &i.to_be_bytes()).unwrap();
                if i % 100 == 0 {
                    index.sync().unwrap();
                }
            }
            let at = format!("{engine:?}, {open_zones_max} open, {active_zones_max} active");
            index.check().unwrap_or_else(|e| panic!("{at}: {e}"));
            index.sync().unwrap();
            let index = Index::open(index.into_device()).unwrap();
            assert_eq!(index.len(), 500, "{at}");
            index.check().unwrap();
        }
    }
}

#[test]
fn overwrites_of_many_times_the_capacity_find_room() {
    let mut index = create(Engine::Cow);
    index.store_mut().set_durability(Durability::Operation);
    for i in 0..20_000u64 {
        index.put(&key(i % 1500), &i.to_be_bytes()).unwrap();
    }
    assert!(index.store_ref().counts().gc_resets > 100, "{:?}", index.store_ref().counts());
    index.check().unwrap();
}

#[test]
fn devices_that_cannot_serve_are_refused_by_name_and_untouched() {
    let shape = Shape::fitting(512, 8, 8).unwrap();
    let device = ModelDevice::new(Geometry { conventional_zones: 0, ..GEOMETRY }).unwrap();
    let e = Index::create(device, Engine::Zb, shape, 1).unwrap_err();
    assert!(e.kind() == Kind::Unsupported && e.to_string().contains("conventional"), "{e}");
    let mut device = ModelDevice::new(Geometry { active_zones_max: 2, ..GEOMETRY }).unwrap();
    let e = Index::create(&mut device, Engine::Zb, shape, 1).unwrap_err();
    assert!(e.kind() == Kind::Unsupported && e.to_string().contains("active"), "{e}");
    assert_eq!(device.counts().sequential_writes_count, 0);
    let mut device = ModelDevice::new(GEOMETRY).unwrap();
    let ticket = device.write(Lba(130), &[1; 512]).unwrap();
    device.wait(ticket).unwrap();
    assert_eq!(
        Index::create(&mut device, Engine::Cow, shape, 1).unwrap_err().kind(),
        Kind::Foreign
    );
    assert_eq!(Index::open(&mut device).unwrap_err().kind(), Kind::Foreign);
    assert_eq!(device.counts().sequential_writes_count, 1);
}

fn write_block(device: &mut ModelDevice, block: u64, bytes: &[u8]) {
    let ticket = device.write(Lba(block), bytes).unwrap();
    device.wait(ticket).unwrap();
}

/// Makes a superblock one of another format, as a build of that format would have sealed it.
fn sealed_as_format(device: &mut ModelDevice, block: u64, version: u8) {
    let mut bytes = [0; 512];
    device.read(Lba(block), &mut bytes).unwrap();
    bytes[8] = version;
    seal(&mut bytes, littoral_store::superblock::SALT);
    write_block(device, block, &bytes);
}

/// Format 1 had one copy of each generation and named no zones.
#[test]
fn a_store_of_format_1_is_refused_by_name_with_what_to_do_and_untouched() {
    let mut block = b"LITSTORE\x01\0\0\0zb\0\0\0\0\0\0".to_vec();
    // Generation, id, epoch; the label's length; layout 1 of keys and values of 8 bytes.
    for number in [3u64, 7, 3] {
        block.extend(number.to_le_bytes());
    }
    block.extend([22, 0, 1, 0]);
    for size in [8u32, 8, 28, 28, 19] {
        block.extend(size.to_le_bytes());
    }
    block.resize(512, 0);
    seal(&mut block, 0x5355_5045_5242_4c4b);
    let mut device = ModelDevice::new(GEOMETRY).unwrap();
    write_block(&mut device, 1, &block);
    let before = contents(&device);
    let e = Index::open(&mut device).unwrap_err();
    assert!(e.kind() == Kind::Foreign && e.to_string().contains("store format 1;"), "{e}");
    assert!(e.to_string().contains("kv dump"), "{e}");
    assert!(contents(&device) == before, "untouched");
}

fn contents(device: &ModelDevice) -> Vec<u8> {
    let mut all = Vec::new();
    for zone in device.report(ZoneId(0), device.limits().zones).unwrap() {
        let mut bytes = vec![0; 512 * (zone.write_pointer.0 - zone.start.0) as usize];
        if zone.kind == ZoneKind::Conventional {
            bytes.resize(512 * zone.capacity_blocks as usize, 0);
        }
        if !bytes.is_empty() {
            device.read(zone.start, &mut bytes).unwrap();
        }
        all.append(&mut bytes);
    }
    all
}

#[test]
fn other_formats_layouts_and_engines_are_refused_by_name_and_untouched() {
    // A store of another format in any superblock: it may be the newer one.
    for blocks in [&[0][..], &[1], &[2], &[3], &[0, 1, 2, 3]] {
        // The second checkpoint writes the other generation's two copies.
        let mut device = reopened(create(Engine::Zb)).into_device();
        for &block in blocks {
            sealed_as_format(&mut device, block, 9);
        }
        let before = contents(&device);
        let e = Index::open(&mut device).unwrap_err();
        assert!(e.kind() == Kind::Foreign && e.to_string().contains("store format 9"), "{e}");
        let shape = Shape::fitting(512, 8, 8).unwrap();
        let e = Index::create(&mut device, Engine::Zb, shape, 1).unwrap_err();
        assert_eq!(e.kind(), Kind::Foreign, "{e}");
        assert!(contents(&device) == before, "untouched");
    }
    // A store of ours whose engine, or whose engine's layout, is another.
    let label = [&2u16.to_le_bytes()[..], &[8; 20]].concat();
    let others =
        [(*b"zb\0\0\0\0\0\0", &label[..], "page layout 2"), (*b"heap\0\0\0\0", b"", "heap")];
    for (engine, label, word) in others {
        let device = ModelDevice::new(GEOMETRY).unwrap();
        let mut device = Store::create(device, engine, label, 3).unwrap().into_device();
        let before = contents(&device);
        let e = Index::open(&mut device).unwrap_err();
        assert!(e.to_string().contains(word), "{word}: {e}");
        assert!(contents(&device) == before, "untouched");
    }
}

#[test]
fn wrong_sizes_are_refused_and_change_nothing() {
    for engine in [Engine::Zb, Engine::Cow] {
        let mut index = create(engine);
        index.put(&key(1), &key(2)).unwrap();
        assert_eq!(index.put(b"short", &key(3)).unwrap_err().kind(), Kind::Usage);
        assert_eq!(index.put(&key(1), b"a value too long").unwrap_err().kind(), Kind::Usage);
        assert_eq!(index.delete(b"a key too long").unwrap_err().kind(), Kind::Usage);
        assert_eq!(index.get(b"").unwrap_err().kind(), Kind::Usage);
        assert_eq!(index.get(&key(1)).unwrap(), Some(key(2).to_vec()));
        let index = reopened(index);
        assert_eq!((index.len(), index.get(&key(1)).unwrap()), (1, Some(key(2).to_vec())));
    }
}

fn reopened(mut index: Index<ModelDevice>) -> Index<ModelDevice> {
    index.sync().unwrap();
    Index::open(index.into_device()).unwrap()
}

/// A zone with pages in it goes OFFLINE while changes run: they go on, also where zones must be
/// collected, and what was in the zone is missed by name.
#[test]
fn a_zone_that_goes_offline_under_load_is_named_and_the_rest_is_served() {
    let mut index = create_on(Engine::Zb, 24);
    for i in 0..8000u64 {
        index.put(&key(i), &i.to_be_bytes()).unwrap();
    }
    // Nothing is in memory any more.
    let mut index = reopened(index);
    index.store_mut().set_durability(Durability::Batch);
    let zones = index.store_mut().device().report(ZoneId(3), 21).unwrap();
    let mut live = |z: &&ZoneReport| {
        (z.start.0..z.write_pointer.0).filter(|&at| index.is_live(Lba(at))).count()
    };
    let full = zones.iter().filter(|z| z.state == ZoneState::Full);
    let lost = full.max_by_key(|z| live(z)).unwrap().zone;
    index.store_mut().device_mut().fail_zone(lost, ZoneState::Offline).unwrap();
    let (mut served, mut missed) = (0, 0);
    // Half of the leaves; the others are not written anew.
    let changed = (0..8000u64).filter(|&i| key(i)[0] < 128);
    for i in changed {
        match index.put(&key(i), &(i + 1).to_be_bytes()) {
            Ok(is_new) => {
                assert!(!is_new);
                served += 1;
                assert_eq!(index.get(&key(i)).unwrap(), Some((i + 1).to_be_bytes().to_vec()));
            }
            Err(e) => {
                missed += 1;
                assert!(e.to_string().contains("OFFLINE"), "{i}: {e}");
            }
        }
    }
    assert!(missed > 0 && served > 3000, "{served} served, {missed} missed");
    index.sync().unwrap();
    let index = Index::open_to_read(index.into_device()).unwrap();
    let found = (0..8000u64).map(|i| index.get(&key(i)));
    let (held, lost): (Vec<_>, Vec<_>) = found.partition(Result::is_ok);
    assert!(held.len() > 6000 && !lost.is_empty(), "{} held", held.len());
    assert!(lost.iter().all(|e| e.as_ref().is_err_and(|e| e.to_string().contains("OFFLINE"))));
}

/// Redo zones that wear out are left for empty ones, whenever it happens, and are not needed at the
/// next opening.
#[test]
fn redo_zones_that_wear_out_are_left_for_empty_ones() {
    for engine in [Engine::Zb, Engine::Cow] {
        for conventional_zones in [1, 0] {
            if engine == Engine::Zb && conventional_zones == 0 {
                continue;
            }
            let geometry = Geometry { conventional_zones, sequential_zones: 24, ..GEOMETRY };
            let device = ModelDevice::new(geometry).unwrap();
            let shape = Shape::fitting(512, 8, 8).unwrap();
            let mut index = Index::create(device, engine, shape, 7).unwrap();
            let at = format!("{engine:?}, {conventional_zones} conventional");
            for i in 0..900u64 {
                if i % 100 == 50 {
                    let state = [ZoneState::ReadOnly, ZoneState::Offline][(i / 100 % 2) as usize];
                    let [now, other] = index.store_ref().redo_zone_ids();
                    let worn = if i < 400 { now } else { other };
                    index.store_mut().device_mut().fail_zone(worn, state).unwrap();
                }
                index.put(&key(i), &i.to_be_bytes()).unwrap_or_else(|e| panic!("{at} {i}: {e}"));
                if i % 100 == 80 {
                    let before = index.store_ref().redo_zone_ids();
                    index = Index::open(index.into_device()).unwrap();
                    assert_ne!(before, index.store_ref().redo_zone_ids(), "{at}, {i}: it moved");
                }
            }
            index.check().unwrap();
            for i in 0..900u64 {
                assert_eq!(index.get(&key(i)).unwrap(), Some(i.to_be_bytes().to_vec()), "{at} {i}");
            }
        }
    }
}

/// When no empty zone is left for the redo log writing ends, by name; reading does not.
#[test]
fn without_an_empty_zone_a_worn_redo_zone_ends_writing_and_loses_nothing() {
    for engine in [Engine::Zb, Engine::Cow] {
        let mut index = create(engine);
        for i in 0..300 {
            index.put(&key(i), &i.to_be_bytes()).unwrap();
        }
        index.sync().unwrap();
        let report = index.store_ref().device().report(ZoneId(1), 9).unwrap();
        for z in report.iter().filter(|z| z.state == ZoneState::Empty || z.zone.0 < 3) {
            index.store_mut().device_mut().fail_zone(z.zone, ZoneState::ReadOnly).unwrap();
        }
        // The next opening finds that no zone is empty.
        let mut device = index.into_device();
        let e = Index::open(&mut device).unwrap_err();
        assert!(e.place().zone.is_some_and(|z| z < 3), "a redo zone: {e}");
        assert!(e.to_string().contains("READ_ONLY"), "{e}");
        let index = Index::open_to_read(&mut device).unwrap();
        for i in 0..300u64 {
            assert_eq!(index.get(&key(i)).unwrap(), Some(i.to_be_bytes().to_vec()), "{i}");
        }
    }
}

/// A superblock zone that wears out is left for another one, conventional or sequential.
#[test]
fn superblock_zones_that_wear_out_are_left_for_others() {
    for conventional_zones in [0, 3] {
        let geometry = Geometry { conventional_zones, sequential_zones: 24, ..GEOMETRY };
        let device = ModelDevice::new(geometry).unwrap();
        let shape = Shape::fitting(512, 8, 8).unwrap();
        let mut index = Index::create(device, Engine::Cow, shape, 7).unwrap();
        for i in 0..60u64 {
            if i % 10 == 5 {
                let worn = ZoneId((i / 10) as u32);
                index.store_mut().device_mut().fail_zone(worn, ZoneState::ReadOnly).unwrap();
            }
            index.put(&key(i), &i.to_be_bytes()).unwrap_or_else(|e| panic!("{i}: {e}"));
            index.store_mut().checkpoint().unwrap_or_else(|e| panic!("{i}: {e}"));
            index = Index::open(index.into_device()).unwrap_or_else(|e| panic!("{i}: {e}"));
        }
        for i in 0..60u64 {
            assert_eq!(index.get(&key(i)).unwrap(), Some(i.to_be_bytes().to_vec()), "{i}");
        }
    }
}

/// Pages of a conventional zone that went READ_ONLY stay readable; what lies elsewhere can change.
#[test]
fn a_read_only_conventional_zone_is_named_and_its_pages_stay() {
    let device =
        ModelDevice::new(Geometry { conventional_zones: 3, sequential_zones: 12, ..GEOMETRY })
            .unwrap();
    let shape = Shape::fitting(512, 8, 8).unwrap();
    let mut index = Index::create(device, Engine::Zb, shape, 7).unwrap();
    for i in 0..2000u64 {
        index.put(&key(i), &i.to_be_bytes()).unwrap();
    }
    index.store_mut().close().unwrap();
    let mut device = index.into_device();
    device.fail_zone(ZoneId(0), ZoneState::ReadOnly).unwrap();
    let mut index = Index::open(device).unwrap();
    let (mut changed, mut refused) = (0, 0);
    for i in 0..2000u64 {
        match index.put(&key(i), &(i + 1).to_be_bytes()) {
            Ok(_) => changed += 1,
            Err(e) => {
                refused += 1;
                assert_eq!(e.place().zone, Some(0), "{e}");
            }
        }
        let found = index.get(&key(i)).unwrap().unwrap();
        assert!(found == i.to_be_bytes() || found == (i + 1).to_be_bytes());
    }
    assert!(refused > 0 && changed > 0, "{refused} refused, {changed} changed");
    index.check().unwrap();
    index.store_mut().close().unwrap();
    let index = Index::open(index.into_device()).unwrap();
    index.check().unwrap();
    assert_eq!(index.len(), 2000);
}
