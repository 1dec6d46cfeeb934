//! Faults, limits and foreign files: what a zoned device says when something is wrong.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the lint does not take for tests.

use littoral_base::units::{Lba, Picos, ZoneId};
use littoral_device::Kind;
use littoral_device::profile::Profile;
use littoral_device::zoned::file::FileDevice;
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::refusal::Refusal;
use littoral_device::zoned::zones::Geometry;
use littoral_device::zoned::{ZoneKind, ZoneState, ZonedDevice};

fn geometry() -> Geometry {
    Geometry {
        block_bytes: 512,
        conventional_zones: 1,
        sequential_zones: 3,
        zone_blocks: 6,
        capacity_blocks: 5,
        open_zones_max: 1,
        active_zones_max: 2,
        append_blocks_max: 0,
    }
}

#[test]
fn limits_and_worn_zones_are_named() {
    let mut dev = ModelDevice::new(geometry()).unwrap();
    let one = [1u8; 512];
    dev.open(ZoneId(1)).unwrap();
    let e = dev.write(Lba(12), &one).unwrap_err();
    assert_eq!((Refusal::of(&e), e.kind()), (Some(Refusal::OpenLimit), Kind::Exhausted));
    dev.close(ZoneId(1)).unwrap();
    for z in [1u64, 2] {
        let t = dev.write(Lba(z * 6), &one).unwrap();
        assert_eq!(dev.wait(t).unwrap(), Lba(z * 6));
    }
    let e = dev.write(Lba(18), &one).unwrap_err();
    assert_eq!(Refusal::of(&e), Some(Refusal::ActiveLimit));
    let e = dev.append(ZoneId(1), &one).unwrap_err();
    assert_eq!((Refusal::of(&e), e.kind()), (Some(Refusal::NoAppend), Kind::Unsupported));
    dev.fail_zone(ZoneId(1), ZoneState::ReadOnly).unwrap();
    assert_eq!(Refusal::of(&dev.write(Lba(7), &one).unwrap_err()), Some(Refusal::ReadOnly));
    let mut back = [0u8; 512];
    dev.read(Lba(6), &mut back).unwrap();
    assert_eq!(back, one);
    dev.fail_zone(ZoneId(1), ZoneState::Offline).unwrap();
    assert_eq!(Refusal::of(&dev.read(Lba(6), &mut back).unwrap_err()), Some(Refusal::Offline));
    assert!(dev.fail_zone(ZoneId(9), ZoneState::Offline).is_err());
}

#[test]
fn a_read_over_an_unreadable_block_fails_and_names_it() {
    let mut dev = ModelDevice::new(geometry()).unwrap();
    let ticket = dev.write(Lba(6), &[7; 512 * 3]).unwrap();
    dev.wait(ticket).unwrap();
    dev.fail_reads([7]);
    let mut two = [0u8; 512 * 2];
    for at in [6, 7] {
        let e = dev.read(Lba(at), &mut two).unwrap_err();
        assert_eq!(e.kind(), Kind::Io);
        assert!(e.to_string().contains("block 7 cannot be read"), "{e}");
    }
    assert_eq!(two, [0; 512 * 2], "a read that fails gives no data");
    let mut one = [0u8; 512];
    for at in [6, 8] {
        dev.read(Lba(at), &mut one).unwrap();
        assert_eq!(one, [7; 512]);
    }
    dev.fail_reads([]);
    dev.read(Lba(7), &mut one).unwrap();
    assert_eq!(one, [7; 512]);
}

#[test]
fn plans_fail_tear_and_cut_and_others_are_refused() {
    let mut dev = ModelDevice::new(geometry()).unwrap();
    assert_eq!(
        dev.install("write:misdirect=1/2".parse().unwrap()).unwrap_err().kind(),
        Kind::Unsupported
    );
    dev.install("seed=1 @0=fail @1=torn".parse().unwrap()).unwrap();
    let data = [7u8; 512 * 4];
    assert_eq!(dev.write(Lba(6), &data).unwrap_err().kind(), Kind::Io);
    assert_eq!(dev.write(Lba(6), &data).unwrap_err().kind(), Kind::PowerCut);
    assert_eq!(dev.flush().unwrap_err().kind(), Kind::PowerCut);
    dev.power_cycle(3);
    let kept = dev.report(ZoneId(1), 1).unwrap()[0].write_pointer.0 - 6;
    assert!(kept <= 4);
    dev.install("seed=1 flush:fail=1/1".parse().unwrap()).unwrap();
    assert_eq!(dev.flush().unwrap_err().kind(), Kind::Io);
    assert_eq!(dev.write(Lba(12), &data).unwrap_err().kind(), Kind::Poisoned);
}

#[test]
fn virtual_time_is_charged_by_the_profile() {
    let profile = Profile::named("zns-paper").unwrap().zoned().unwrap();
    let mut dev = ModelDevice::new(geometry()).unwrap();
    dev.set_timing(profile.timing);
    let t = dev.write(Lba(6), &[1; 1024]).unwrap();
    dev.wait(t).unwrap();
    assert_eq!(dev.now(), Picos::from_micros(400));
    dev.read(Lba(6), &mut [0; 512]).unwrap();
    assert_eq!(dev.now(), Picos::from_micros(440));
}

#[test]
fn files_that_are_foreign_damaged_or_in_use_are_refused_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zones");
    std::fs::write(&path, vec![9u8; 8192]).unwrap();
    assert_eq!(FileDevice::open(&path).unwrap_err().kind(), Kind::Foreign);
    assert_eq!(FileDevice::create(&path, geometry()).unwrap_err().kind(), Kind::Exists);
    assert_eq!(std::fs::read(&path).unwrap(), vec![9u8; 8192]);
    std::fs::remove_file(&path).unwrap();
    let dev = FileDevice::create(&path, geometry()).unwrap();
    assert_eq!(FileDevice::open(&path).unwrap_err().kind(), Kind::Busy);
    drop(dev);
    let mut bytes = std::fs::read(&path).unwrap();
    (0..8).for_each(|copy| bytes[copy * 512 + 8] = 9);
    std::fs::write(&path, &bytes).unwrap();
    let e = FileDevice::open(&path).unwrap_err();
    assert!(e.kind() == Kind::Foreign && e.to_string().contains("version 9"), "{e}");
    (0..8).for_each(|copy| bytes[copy * 512 + 8] = 2);
    bytes[4096 + 9] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let e = FileDevice::open(&path).unwrap_err();
    let at = (e.kind(), e.place().zone, e.place().offset);
    assert_eq!(at, (Kind::Corrupt, Some(0), Some(4096)), "{e}");
    let mut bad = geometry();
    bad.capacity_blocks = 7;
    let e = ModelDevice::new(bad).unwrap_err();
    assert!(e.kind() == Kind::Profile && e.to_string().contains("capacity_blocks = 7"), "{e}");
}

/// What a drive keeps of a worn zone: its data, of both kinds of zone, and the name of its state.
#[test]
fn read_only_zones_of_a_file_keep_their_data() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zones");
    let mut dev = FileDevice::create(&path, geometry()).unwrap();
    let block = dev.limits().block_bytes as usize;
    let zones = dev.report(ZoneId(0), dev.limits().zones).unwrap();
    for kind in [ZoneKind::Conventional, ZoneKind::Sequential] {
        let z = zones.iter().find(|z| z.kind == kind).unwrap();
        let ticket = dev.write(z.start, &vec![7; block]).unwrap();
        dev.wait(ticket).unwrap();
        dev.fail_zone(z.zone, ZoneState::ReadOnly).unwrap();
    }
    drop(dev);
    let mut dev = FileDevice::open(&path).unwrap();
    for kind in [ZoneKind::Conventional, ZoneKind::Sequential] {
        let z = zones.iter().find(|z| z.kind == kind).unwrap();
        let mut read = vec![0; block];
        dev.read(z.start, &mut read).unwrap();
        assert!(read == vec![7; block], "{kind:?}");
        let e = dev.write(z.start, &vec![8; block]).unwrap_err();
        assert!(e.to_string().contains("READ_ONLY"), "{e}");
    }
}

/// A file cut short, grown, or with a damaged header or record: refused by name or read right.
#[test]
fn files_cut_short_are_refused_and_one_damaged_header_copy_is_not_needed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zones");
    drop(FileDevice::create(&path, geometry()).unwrap());
    let whole = std::fs::metadata(&path).unwrap().len();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    for len in [0, 100, 4096, 4200, whole - 1] {
        file.set_len(whole).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..len as usize]).unwrap();
        let e = FileDevice::open(&path).unwrap_err();
        assert!(matches!(e.kind(), Kind::Foreign | Kind::Corrupt), "{len}: {e}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), len, "untouched");
        std::fs::write(&path, bytes).unwrap();
    }
    file.set_len(whole + 4096).unwrap();
    drop(FileDevice::open(&path).unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 4;
    std::fs::write(&path, &bytes).unwrap();
    drop(FileDevice::open(&path).unwrap());
    bytes[4096 + 32 + 9] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let e = FileDevice::open(&path).unwrap_err();
    let at = (e.kind(), e.place().zone, e.place().offset);
    assert_eq!(at, (Kind::Corrupt, Some(1), Some(4096 + 32)), "{e}");
    let (_, notes) = FileDevice::open_damaged(&path).unwrap();
    assert!(notes.len() == 1 && notes[0].contains("record of zone 1"), "{notes:?}");
}

/// Zones of eight blocks of 4 KiB: one conventional, four sequential.
fn device_on_a_small_host(path: &std::path::Path, blocks: u64) -> FileDevice {
    let geometry = Geometry {
        block_bytes: 4096,
        conventional_zones: 1,
        sequential_zones: 4,
        zone_blocks: 8,
        capacity_blocks: 8,
        open_zones_max: 0,
        active_zones_max: 0,
        append_blocks_max: 8,
    };
    let mut device = FileDevice::create(path, geometry).unwrap();
    device.limit_host(blocks * 4096);
    device
}

#[test]
fn a_zone_whose_room_is_kept_has_it_after_a_reset_on_a_full_host_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut device = device_on_a_small_host(&folder.path().join("d"), 18);
    device.keep_room(&[ZoneId(1)], 0).unwrap();
    let zone = vec![1; 8 * 4096];
    let fill = |device: &mut FileDevice, n: u32| {
        device.append(ZoneId(n), &zone).and_then(|ticket| device.wait(ticket))
    };
    fill(&mut device, 1).unwrap();
    device.reset(ZoneId(1)).unwrap();
    // The other zones take all that is left.
    fill(&mut device, 2).unwrap();
    let full = fill(&mut device, 3).unwrap_err();
    assert!(full.to_string().contains("No space left"), "{full}");
    fill(&mut device, 1).unwrap();
    let mut back = vec![0; zone.len()];
    device.read(Lba(8), &mut back).unwrap();
    assert_eq!(back, zone);
}

#[test]
fn blocks_that_are_not_needed_give_their_room_to_other_zones() {
    let folder = tempfile::tempdir().unwrap();
    let mut device = device_on_a_small_host(&folder.path().join("d"), 8);
    assert!(device.shares_room());
    let append = |device: &mut FileDevice, zone: u32, blocks: usize| {
        let ticket = device.append(ZoneId(zone), &vec![zone as u8; blocks * 4096])?;
        device.wait(ticket)
    };
    append(&mut device, 1, 8).unwrap();
    let full = append(&mut device, 2, 3).unwrap_err();
    assert!(full.to_string().contains("No space left"), "{full}");
    device.discard(Lba(10), 3).unwrap();
    append(&mut device, 2, 3).unwrap();
    let mut read = [0; 4096];
    for (at, byte) in [(9, 1), (13, 1), (16, 2), (18, 2)] {
        device.read(Lba(at), &mut read).unwrap();
        assert_eq!(read, [byte; 4096], "block {at}");
    }
    // Conventional blocks and those behind a pointer, zone after zone; no others.
    device.discard(Lba(0), 8).unwrap();
    device.discard(Lba(14), 5).unwrap();
    for (at, blocks) in [(18, 2), (24, 1), (0, 0), (39, 2)] {
        let e = device.discard(Lba(at), blocks).unwrap_err();
        assert_eq!(e.kind(), Kind::IllegalRequest, "{blocks} blocks at {at}: {e}");
    }
}
