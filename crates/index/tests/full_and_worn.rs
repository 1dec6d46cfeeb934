//! A full device, worn zones and tight limits, on the model: refused by name or served, nothing
//! lost.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_base::rng::Rng;
use littoral_base::units::ZoneId;
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_device::zoned::{ZoneState, ZonedDevice};
use littoral_index::Kind;
use littoral_index::index::{Engine, Index};
use littoral_index::layout::Shape;
use littoral_store::store::Durability;

fn geometry(conventional_zones: u32) -> Geometry {
    Geometry {
        block_bytes: 512,
        conventional_zones,
        sequential_zones: 9,
        zone_blocks: 130,
        capacity_blocks: 101,
        open_zones_max: 2,
        active_zones_max: 4,
        append_blocks_max: 0,
    }
}

fn create(engine: Engine) -> Index<ModelDevice> {
    create_on(engine, 9)
}

fn create_on(engine: Engine, sequential_zones: u32) -> Index<ModelDevice> {
    let device = ModelDevice::new(Geometry { sequential_zones, ..geometry(1) }).unwrap();
    let shape = Shape::fitting(512, 8, 8).unwrap();
    let mut index = Index::create(device, engine, shape, 7).unwrap();
    index.store_mut().set_durability(Durability::Batch);
    index
}

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
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
            let limits = Geometry { open_zones_max, active_zones_max, ..geometry(1) };
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
    for i in 0..20_000u64 {
        index.put(&key(i % 1500), &i.to_be_bytes()).unwrap();
    }
    assert!(index.store_ref().counts().gc_resets > 100, "{:?}", index.store_ref().counts());
    index.check().unwrap();
}

#[test]
fn devices_that_cannot_serve_are_refused_by_name_and_untouched() {
    let shape = Shape::fitting(512, 8, 8).unwrap();
    let device = ModelDevice::new(geometry(0)).unwrap();
    let e = Index::create(device, Engine::Zb, shape, 1).unwrap_err();
    assert!(e.kind() == Kind::Unsupported && e.to_string().contains("conventional"), "{e}");
    let mut device = ModelDevice::new(Geometry { active_zones_max: 2, ..geometry(1) }).unwrap();
    let e = Index::create(&mut device, Engine::Zb, shape, 1).unwrap_err();
    assert!(e.kind() == Kind::Unsupported && e.to_string().contains("active"), "{e}");
    assert_eq!(device.counts().sequential_writes_count, 0);
    let mut device = ModelDevice::new(geometry(1)).unwrap();
    let ticket = device.write(littoral_base::units::Lba(130), &[1; 512]).unwrap();
    device.wait(ticket).unwrap();
    assert_eq!(
        Index::create(&mut device, Engine::Cow, shape, 1).unwrap_err().kind(),
        Kind::Foreign
    );
    assert_eq!(Index::open(&mut device).unwrap_err().kind(), Kind::Foreign);
    assert_eq!(device.counts().sequential_writes_count, 1);
}
