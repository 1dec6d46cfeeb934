//! Files of earlier versions of this crate's formats, committed small: this build reads them, value
//! by value, or refuses them by name.
//!
//! - `tests/fixtures/v2/zones.blocks`: a zoned device in a sparse file with a zone in each state,
//!   packed (`littoral_testing::fixtures`). `v1/zones.blocks` is synthesised: no build of version 1
//!   wrote it. It is the same file with the header that `docs/design/zoned.md` gives version 1.
//! - `tests/fixtures/v1/*.toml`: a machine file with devices on every medium, and a profile of each
//!   kind.
//! - `LITTORAL_FIXTURES=DIR cargo test -p littoral-device --test old_files` writes the zoned
//!   devices to `DIR`. A new version gets a new folder; the old ones stay.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::path::Path;

use littoral_base::codec::seal;
use littoral_base::units::{Lba, Picos, ZoneId};
use littoral_device::Kind;
use littoral_device::profile::machine::{MachineSpec, Medium};
use littoral_device::profile::{Basis, DeviceKind, Interface, Profile, Transfer};
use littoral_device::zoned::file::FileDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_device::zoned::{ZoneState, ZonedDevice};
use littoral_testing::fixtures::{Fixtures, offer, pack};

const BLOCK: usize = 512;
const ZONE_BLOCKS: u64 = 4;
const HEADER_BYTES: usize = 4096;
/// Bytes of a header of version 1 in front of its zeros and its checksum.
const FIELDS_BYTES: usize = 56;

fn fixtures(version: &str) -> Fixtures {
    Fixtures::of(env!("CARGO_MANIFEST_DIR"), version)
}

fn geometry() -> Geometry {
    Geometry {
        block_bytes: BLOCK as u32,
        conventional_zones: 1,
        sequential_zones: 8,
        zone_blocks: ZONE_BLOCKS,
        capacity_blocks: 3,
        open_zones_max: 3,
        active_zones_max: 5,
        append_blocks_max: 2,
    }
}

/// What every zone of the fixture holds when it is opened: state, blocks written, resets. A zone
/// that was open is closed, or empty if nothing was written.
const ZONES: [(ZoneState, u64, u64); 9] = [
    (ZoneState::NotWritePointer, 0, 0),
    (ZoneState::Empty, 0, 0),
    (ZoneState::Closed, 1, 0),
    (ZoneState::Empty, 0, 0),
    (ZoneState::Closed, 2, 0),
    (ZoneState::Full, 3, 1),
    (ZoneState::ReadOnly, 2, 0),
    (ZoneState::Offline, 1, 0),
    (ZoneState::Empty, 0, 2),
];

/// The content of a block: its number in every word, so that no block equals another.
fn block(at: u64) -> Vec<u8> {
    (0..BLOCK as u64 / 8).flat_map(|i| (at << 32 | i | 1 << 16).to_le_bytes()).collect()
}

fn write(device: &mut FileDevice, zone: u64, blocks: u64) {
    for at in (zone * ZONE_BLOCKS..).take(blocks as usize) {
        let ticket = device.write(Lba(at), &block(at)).unwrap();
        device.wait(ticket).unwrap();
    }
}

/// Leaves zones as [`ZONES`] says, zone 2 implicitly and zone 3 explicitly open.
fn make(path: &Path) -> FileDevice {
    let mut device = FileDevice::create(path, geometry()).unwrap();
    write(&mut device, 0, 3);
    write(&mut device, 5, 2);
    device.reset(ZoneId(5)).unwrap();
    write(&mut device, 5, 3);
    write(&mut device, 6, 2);
    device.fail_zone(ZoneId(6), ZoneState::ReadOnly).unwrap();
    write(&mut device, 7, 1);
    device.fail_zone(ZoneId(7), ZoneState::Offline).unwrap();
    for _ in 0..2 {
        write(&mut device, 8, 1);
        device.reset(ZoneId(8)).unwrap();
    }
    write(&mut device, 4, 2);
    device.close(ZoneId(4)).unwrap();
    write(&mut device, 2, 1);
    device.open(ZoneId(3)).unwrap();
    device.flush().unwrap();
    device
}

fn check(device: &mut FileDevice) {
    assert_eq!(*device.geometry(), geometry());
    let mut found = vec![0; BLOCK];
    for (zone, (state, written, resets)) in (0..).zip(ZONES) {
        let report = device.report(ZoneId(zone), 1).unwrap()[0];
        assert_eq!((report.state, device.resets(ZoneId(zone))), (state, resets), "zone {zone}");
        let start = u64::from(zone) * ZONE_BLOCKS;
        assert_eq!(report.start, Lba(start));
        if state == ZoneState::Offline {
            assert!(device.read(Lba(start), &mut found).is_err(), "zone {zone}");
            continue;
        }
        let written = if zone == 0 { 3 } else { written };
        if zone > 0 {
            assert_eq!(report.write_pointer, Lba(start + written), "zone {zone}");
        }
        for at in start..start + ZONE_BLOCKS - 1 {
            device.read(Lba(at), &mut found).unwrap();
            let wanted = if at < start + written { block(at) } else { vec![0; BLOCK] };
            assert!(found == wanted, "block {at} of zone {zone}");
        }
    }
}

/// The file with a header of version 1, as the format's page has it: one copy, its checksum at the
/// end of 4096 bytes. It shows that this build reads what the page says, not what a build wrote.
fn of_version_1(file: &[u8]) -> Vec<u8> {
    let mut old = file.to_vec();
    old[FIELDS_BYTES..HEADER_BYTES].fill(0);
    old[8..12].copy_from_slice(&1u32.to_le_bytes());
    seal(&mut old[..HEADER_BYTES], 0);
    old
}

#[test]
fn zoned_files_of_each_version_are_read_and_written() {
    let dir = tempfile::tempdir().unwrap();
    for version in ["v1", "v2"] {
        let path = dir.path().join(version);
        std::fs::write(&path, fixtures(version).unpacked("zones.blocks")).unwrap();
        check(&mut FileDevice::open_to_read(&path).unwrap());
        let mut device = FileDevice::open(&path).unwrap();
        check(&mut device);
        let end = 4 * ZONE_BLOCKS + 2;
        let ticket = device.write(Lba(end), &block(end)).unwrap();
        device.wait(ticket).unwrap();
        device.flush().unwrap();
        drop(device);
        let mut found = vec![0; BLOCK];
        FileDevice::open(&path).unwrap().read(Lba(end), &mut found).unwrap();
        assert!(found == block(end), "{version}");
    }
}

#[test]
fn a_zoned_file_is_written_as_its_page_says_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zones");
    drop(make(&path));
    let file = std::fs::read(&path).unwrap();
    offer("zones.blocks", &pack(&file));
    offer("zones-v1.blocks", &pack(&of_version_1(&file)));
    assert!(file == fixtures("v2").unpacked("zones.blocks"), "the bytes of version 2 changed");
    assert!(of_version_1(&file) == fixtures("v1").unpacked("zones.blocks"));
}

#[test]
fn a_zoned_file_of_a_later_version_is_refused_by_name_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zones");
    let mut file = fixtures("v2").unpacked("zones.blocks");
    for copy in file[..HEADER_BYTES].chunks_mut(512) {
        copy[8..12].copy_from_slice(&3u32.to_le_bytes());
        seal(copy, 0);
    }
    std::fs::write(&path, &file).unwrap();
    for opened in [FileDevice::open(&path), FileDevice::open_to_read(&path)] {
        let e = opened.unwrap_err();
        assert!(e.kind() == Kind::Foreign && e.to_string().contains("version 3"), "{e}");
    }
    assert!(std::fs::read(&path).unwrap() == file);
}

fn profile(name: &str) -> Profile {
    let path = fixtures("v1").path(name);
    Profile::open(path.to_str().unwrap()).unwrap()
}

#[test]
fn profiles_of_version_1_are_read_value_by_value() {
    let flash = profile("flash.toml").flash().unwrap();
    assert_eq!(flash.latency, Picos(4_500_000));
    assert_eq!((flash.reads_per_core_max, flash.reads_total_max), (1_500_000, 3_000_000));
    assert_eq!((flash.granule_bytes, flash.read_bytes_max), (512, 128 << 10));
    assert_eq!((flash.link_bytes_per_s, flash.queue_depth), (6_400_000_000, 1023));
    assert_eq!((flash.doorbell, flash.interface), (Some(Picos(90_000)), Interface::Doorbell));
    let nand = flash.nand.unwrap();
    assert_eq!((nand.channels, nand.chips_per_channel, nand.pages_per_block), (8, 4, 768));
    assert_eq!((nand.read, nand.erase), (Picos(45_000_000), Picos(3_500_000_000)));
    let zoned = profile("zoned.toml").zoned().unwrap();
    let wanted = Geometry {
        block_bytes: 4096,
        conventional_zones: 2,
        sequential_zones: 62,
        zone_blocks: 4096,
        capacity_blocks: 3072,
        open_zones_max: 6,
        active_zones_max: 8,
        append_blocks_max: 32,
    };
    assert_eq!(zoned.geometry, wanted);
    assert_eq!((zoned.timing.read, zoned.timing.reset), (Picos(70_000_000), Picos(2_250_000_000)));
    assert_eq!((zoned.timing.wear_step_resets, zoned.timing.wear_step_percent), (100, 10));
    let memory = profile("memory.toml").memory().unwrap();
    assert_eq!((memory.write_latency, memory.read_latency), (Picos(62_000), Picos(305_000)));
    assert_eq!((memory.line_bytes, memory.buffer_bytes), (256, 16 << 10));
    assert_eq!(memory.write_bytes_per_s, 2_300_000_000);
    let push = profile("push.toml").push().unwrap();
    assert_eq!((push.cores, push.core_mhz, push.cpi_milli), (2, 400, 1250));
    assert_eq!((push.budget, push.firmware), (1_000_000, [300, 1000, 500]));
    assert_eq!((push.dram_pages, push.host_cores, push.queue_depth), (4096, 4, 64));
    let fabric = profile("fabric.toml");
    assert_eq!(fabric.configurations(), ["board", "cluster"]);
    let found = ["cluster.latency", "cluster.byte", "board.board", "board.trap", "cluster.board"]
        .map(|key| fabric.value(key));
    assert_eq!(found, [Some(8_500_000), Some(80), Some(300_000), Some(0), None]);
}

/// Results carry a profile's hash, so a build must not compute another one.
#[test]
fn profiles_of_version_1_keep_their_hashes_sources_and_costs() {
    let found = ["fabric", "flash", "memory", "push", "zoned"].map(|name| {
        let profile = profile(&format!("{name}.toml"));
        (profile.kind(), profile.hash())
    });
    let wanted = [
        (DeviceKind::Fabric, "1dbe4d0196e9bed3"),
        (DeviceKind::Flash, "cf5b48232fd46079"),
        (DeviceKind::Memory, "ceaafedc05036ab1"),
        (DeviceKind::Push, "4cbeb9e03feeec0f"),
        (DeviceKind::Zoned, "47fa559e20c2ea5e"),
    ];
    assert_eq!(found, wanted.map(|(kind, hash)| (kind, hash.to_owned())));
    let flash = profile("flash.toml");
    assert_eq!((flash.price_per_gb(), flash.power_w()), (Some(0.085), Some(9.5)));
    let (_, _, latency) = flash.figures().find(|(key, ..)| key == "read.latency").unwrap();
    assert_eq!((latency.basis, latency.source.as_str()), (Basis::Measured, "a fixture"));
}

#[test]
fn a_machine_file_of_version_1_is_read_value_by_value() {
    let path = fixtures("v1").path("machine.toml");
    let folder = path.parent().unwrap();
    let machine = MachineSpec::load(&path).unwrap();
    let names: Vec<&str> = machine.devices.iter().map(|d| d.name.as_str()).collect();
    let wanted = [
        "ask", "cores", "drive", "fast", "heap", "mapped", "nodes", "peers", "pool", "ring",
        "shared", "smr", "zones",
    ];
    assert_eq!(names, wanted);
    let device = |name: &str| machine.device(name).unwrap();
    for (name, kind, medium) in [
        ("fast", DeviceKind::Flash, Medium::Ram),
        ("ring", DeviceKind::Flash, Medium::Uring(folder.join("graph.lg"))),
        ("mapped", DeviceKind::Flash, Medium::Mmap("/data/graph.lg".into())),
        ("zones", DeviceKind::Zoned, Medium::Ram),
        ("smr", DeviceKind::Zoned, Medium::File(folder.join("smr.img"))),
        ("drive", DeviceKind::Zoned, Medium::Zbd("/dev/nvme0n2".into())),
        ("heap", DeviceKind::Memory, Medium::Dax("/dev/dax0.0".into())),
        ("nodes", DeviceKind::Fabric, Medium::Ram),
        ("peers", DeviceKind::Fabric, Medium::Tcp("10.0.0.1:7001,10.0.0.2:7001".into())),
        ("pool", DeviceKind::Fabric, Medium::Pool(Some("/dev/dax1.0".into()))),
        ("shared", DeviceKind::Fabric, Medium::Pool(None)),
        ("cores", DeviceKind::Push, Medium::Ram),
        ("ask", DeviceKind::Push, Medium::Unix("/run/push.sock".into())),
    ] {
        assert_eq!((device(name).kind, &device(name).medium), (kind, &medium), "{name}");
    }
    let fast = device("fast");
    assert_eq!(fast.profile.as_ref().unwrap().name(), "fixture-flash");
    assert_eq!((fast.interface, fast.transfer), (Some(Interface::Load), Transfer::Copy));
    assert_eq!(fast.geometry("capacity"), Some(4 << 30));
    let zones = device("zones").zones();
    assert_eq!((zones.conventional_zones, zones.sequential_zones), (2, 14));
    assert_eq!((zones.zone_blocks, zones.capacity_blocks), (4096, 3072));
    let smr = device("smr").zones();
    assert_eq!((smr.block_bytes, smr.sequential_zones, smr.open_zones_max), (512, 31, 5));
    assert_eq!(device("drive").conventional, Some("/dev/nvme0n1".into()));
    assert_eq!(device("nodes").configuration.as_deref(), Some("cluster"));
    assert_eq!(device("pool").geometry("window"), Some(3 << 20));
    let own = ["pool", "shared"].map(|name| device(name).has_own_pages);
    assert_eq!(own, [true, false]);
}
