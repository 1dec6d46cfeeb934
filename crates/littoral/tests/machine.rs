//! Machines as users meet them: none described, in a folder, in a file; what is refused and how.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::Ordering;

use littoral::base::units::{Lba, Picos, ZoneId};
use littoral::device::Kind;
use littoral::device::flash::uring::UringOptions;
use littoral::device::profile::machine::MachineSpec;
use littoral::device::read::{ReadDevice, Slot};
use littoral::device::region::Region;
use littoral::device::zoned::ZonedDevice;
use littoral::machine::Machine;

fn read_once(device: &impl ReadDevice, addr: u64, len: u32) -> Vec<u8> {
    device.issue(Slot(0), addr, len);
    device.kick();
    while device.poll(Slot(0)).is_none() {
        device.reap();
        device.park(std::time::Duration::from_millis(10));
    }
    assert!(device.poll(Slot(0)).unwrap().is_ok());
    let bytes = device.copy(Slot(0));
    device.release(Slot(0));
    bytes
}

#[test]
fn without_a_machine_file_everything_is_modelled_and_says_so() {
    let machine = Machine::of(MachineSpec::emulated(None), "test");
    let data = Region::from_bytes(&[7; 8192]).unwrap();
    let flash = machine.open_flash("flash", Some(data), UringOptions::default()).unwrap();
    assert!(
        flash.description.starts_with("modelled: profile xlfdd (hash "),
        "{}",
        flash.description
    );
    assert_eq!(read_once(&flash.device, 4096, 64), [7; 64]);
    let mut zoned = machine.open_zoned("zoned").unwrap();
    assert_eq!(zoned.limits().zones, 64);
    let ticket = zoned.write(littoral::base::units::Lba(0), &[1; 4096]).unwrap();
    zoned.wait(ticket).unwrap();
    let memory = machine.open_memory("memory").unwrap();
    memory.store(64, 5, Ordering::Relaxed);
    assert_eq!(memory.word(64, Ordering::Relaxed), 5);
}

#[test]
fn a_folder_keeps_what_was_put_there() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("machine");
    for round in 0..2u64 {
        let machine = Machine::in_folder(&folder).unwrap();
        let memory = machine.open_memory("memory").unwrap();
        assert_eq!(memory.word(0, Ordering::Relaxed), round);
        memory.store(0, round + 1, Ordering::Relaxed);
        memory.write_back(0, 8);
        memory.fence().unwrap();
        drop(memory);
        let mut zoned = machine.open_zoned("zoned").unwrap();
        assert_eq!(machine.open_zoned("zoned").map(|_| ()).unwrap_err().kind(), Kind::Busy);
        let ticket = zoned.append(ZoneId(0), &[1; 4096]).unwrap();
        assert_eq!(zoned.wait(ticket).unwrap(), Lba(round));
        zoned.flush().unwrap();
    }
}

#[test]
fn modelled_zones_and_memory_take_the_figures_of_their_profiles() {
    let text = "schema = \"littoral.machine/1\"\n\
                [device.z]\nkind = \"zoned\"\nmedium = \"ram\"\nprofile = \"zns-ssd\"\nzones = 8\n\
                [device.m]\nkind = \"memory\"\nmedium = \"ram\"\nprofile = \"optane-dcpmm\"\n\
                capacity = \"1MiB\"\n";
    let machine = Machine::of(MachineSpec::parse(text, "m.toml").unwrap(), "test");
    let mut zoned = machine.open_zoned("z").unwrap();
    assert_eq!((zoned.limits().zones, zoned.limits().active_zones_max), (8, 14));
    let ticket = zoned.append(ZoneId(3), &[1; 4096]).unwrap();
    zoned.wait(ticket).unwrap();
    assert_eq!(zoned.virtual_now(), Some(Picos::from_nanos(39_868)), "one program");
    let memory = machine.open_memory("m").unwrap();
    memory.store(0, 1, Ordering::Relaxed);
    memory.write_back(0, 8);
    memory.fence().unwrap();
    let words = machine.describe().devices.iter().map(|d| d.words.clone()).collect::<Vec<_>>();
    assert!(words[0].contains("profile optane-dcpmm") && words[0].contains("62 ns"), "{words:?}");
    assert!(words[1].contains("profile zns-ssd") && words[1].contains("63 us"), "{words:?}");
}

#[test]
fn a_file_device_reads_its_file_and_takes_no_data() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, vec![3; 10_000]).unwrap();
    let text = format!(
        "schema = \"littoral.machine/1\"\n[device.a]\nkind = \"flash\"\nmedium = \"uring:{0}\"\n\
         [device.b]\nkind = \"flash\"\nmedium = \"file:{0}\"\n[device.c]\nkind = \"zoned\"\nmedium = \"zbd:{0}\"\n",
        path.display()
    );
    let file = dir.path().join("m.toml");
    std::fs::write(&file, text).unwrap();
    let machine = Machine::open(Some(&file)).unwrap();
    for name in ["a", "b"] {
        let opened = machine.open_flash(name, None, UringOptions::default()).unwrap();
        assert!(opened.description.starts_with("real: "), "{}", opened.description);
        assert_eq!(read_once(&opened.device, 4096, 512), [3; 512]);
        let data = Region::from_bytes(&[0; 64]).unwrap();
        let e = machine.open_flash(name, Some(data), UringOptions::default()).map(|_| ());
        assert_eq!(e.unwrap_err().kind(), Kind::IllegalRequest);
    }
    let e = machine.open_zoned("c").map(|_| ()).unwrap_err();
    assert_eq!(e.kind(), Kind::Unsupported);
    let e = machine.open_zoned("a").map(|_| ()).unwrap_err();
    assert!(e.to_string().contains("device `a` is flash, wanted zoned"), "{e}");
    assert!(Machine::open(Some(Path::new("absent.toml"))).is_err());
}

#[test]
fn a_description_covers_host_and_devices() {
    let d = Machine::of(MachineSpec::emulated(None), "test").describe();
    assert_eq!(d.devices.len(), 3);
    assert!(d.devices.iter().all(|d| d.modelled));
    assert!(d.devices[0].words.contains("profile xlfdd"), "{:?}", d.devices);
    for name in ["cores", "io_uring", "direct access", "zoned block devices", "DAX memory"] {
        let fact = d.host.iter().find(|f| f.name == name).unwrap();
        assert!(!fact.words.is_empty());
    }
}
