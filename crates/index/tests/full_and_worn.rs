//! A full device, worn zones and tight limits, on the model: refused by name or served, nothing
//! lost.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

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
    let device = ModelDevice::new(geometry(1)).unwrap();
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
