//! Machines as users meet them: none described, in a folder, in a file; what is refused and how.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::Ordering;

use littoral::base::clock::ClockKind;
use littoral::base::units::{Lba, Picos, ZoneId};
use littoral::device::Kind;
use littoral::device::memory::Domain as _;
use littoral::device::profile::DeviceKind;
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
    let flash = machine.flash("flash").unwrap().filled(data).unwrap();
    assert!(flash.describe().starts_with("modelled: flash xlfdd ("), "{}", flash.describe());
    assert_eq!(flash.clock(), ClockKind::Paced);
    assert_eq!(read_once(&flash.handle(1, 4).unwrap(), 4096, 64), [7; 64]);
    let mut zoned = machine.zoned("zoned").unwrap();
    assert_eq!(zoned.clock(), ClockKind::Virtual);
    assert_eq!(zoned.limits().zones, 64);
    let ticket = zoned.write(littoral::base::units::Lba(0), &[1; 4096]).unwrap();
    zoned.wait(ticket).unwrap();
    let memory = machine.memory("memory").unwrap();
    memory.store(64, 5, Ordering::Relaxed);
    assert_eq!(memory.word(64, Ordering::Relaxed), 5);
}

#[test]
fn a_folder_keeps_what_was_put_there() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("machine");
    for round in 0..2u64 {
        let machine = Machine::in_folder(&folder).unwrap();
        let memory = machine.memory("memory").unwrap();
        assert_eq!(memory.word(0, Ordering::Relaxed), round);
        memory.store(0, round + 1, Ordering::Relaxed);
        memory.write_back(0, 8);
        memory.fence().unwrap();
        drop(memory);
        let mut zoned = machine.zoned("zoned").unwrap();
        assert_eq!(machine.zoned("zoned").map(|_| ()).unwrap_err().kind(), Kind::Busy);
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
    let mut zoned = machine.zoned("z").unwrap();
    assert_eq!((zoned.limits().zones, zoned.limits().active_zones_max), (8, 14));
    let ticket = zoned.append(ZoneId(3), &[1; 4096]).unwrap();
    zoned.wait(ticket).unwrap();
    assert_eq!(zoned.virtual_now(), Some(Picos::from_nanos(39_868)), "one program");
    let memory = machine.memory("m").unwrap();
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
    let beside = dir.path().join("beside");
    std::fs::write(&beside, vec![4; 10_000]).unwrap();
    let text = format!(
        "schema = \"littoral.machine/1\"\n[device.a]\nkind = \"flash\"\nmedium = \"uring:{0}\"\n\
         [device.b]\nkind = \"flash\"\nmedium = \"file:{0}\"\n[device.m]\nkind = \"flash\"\n\
         medium = \"mmap:{0}\"\n[device.c]\nkind = \"zoned\"\nmedium = \"zbd:{1}\"\n",
        path.display(),
        beside.display()
    );
    let file = dir.path().join("m.toml");
    std::fs::write(&file, text).unwrap();
    let machine = Machine::open(Some(&file)).unwrap();
    for (name, word) in [("a", "uring"), ("b", "pread"), ("m", "mmap")] {
        let opened = machine.flash(name).unwrap();
        assert_eq!((opened.name(), opened.clock()), (word, ClockKind::Wall));
        assert_eq!(read_once(&opened.handle(1, 4).unwrap(), 4096, 512), [3; 512]);
        let e = opened.filled(Region::from_bytes(&[0; 64]).unwrap()).unwrap_err();
        assert_eq!(e.kind(), Kind::IllegalRequest);
    }
    let e = machine.zoned("c").map(|_| ()).unwrap_err();
    assert_eq!(e.kind(), Kind::Unsupported);
    assert!(e.to_string().contains("m.toml:12: device `c`"), "{e}");
    let e = machine.zoned("a").map(|_| ()).unwrap_err();
    assert!(e.to_string().contains("device `a` is flash, wanted zoned"), "{e}");
    assert!(
        e.to_string().contains("m.toml:3") && e.to_string().contains("zoned devices are c"),
        "{e}"
    );
    assert!(Machine::open(Some(Path::new("absent.toml"))).is_err());
}

/// A machine file in a folder of its own, and its machine or the refusal.
fn described(text: &str) -> (tempfile::TempDir, Result<Machine, littoral::device::Error>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("m.toml");
    std::fs::write(&file, format!("schema = \"littoral.machine/1\"\n{text}")).unwrap();
    let machine = Machine::open(Some(&file));
    (dir, machine)
}

#[test]
fn a_file_that_one_device_writes_belongs_to_no_other() {
    let memory = "[device.a]\nkind = \"memory\"\nmedium = \"file:one.img\"\n";
    let flash = "[device.b]\nkind = \"flash\"\nmedium = \"file:./one.img\"\n";
    let (_dir, refused) = described(&format!("{memory}{flash}"));
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), Kind::Profile);
    let text = refused.to_string();
    for words in ["m.toml:6: device `b`", "m.toml:3: device `a`", "one.img", "one owner"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let again = flash.replace("[device.b]", "[device.c]");
    assert!(described(&format!("{flash}{again}")).1.is_ok(), "what is only read is shared");
}

#[test]
fn a_device_is_chosen_by_kind_and_several_need_a_name() {
    let zoned = |name: &str| {
        format!(
            "[device.{name}]\nkind = \"zoned\"\nmedium = \"ram\"\nblock_bytes = 4096\n\
             zones = 8\nzone_size = \"1MiB\"\n"
        )
    };
    let (_dir, machine) = described(&(zoned("left") + &zoned("right")));
    let machine = machine.unwrap();
    let choose = |kind, name| machine.spec().choose(kind, name).map(|d| d.name.clone());
    assert_eq!(choose(DeviceKind::Zoned, Some("left")).unwrap(), "left");
    for (kind, name, words) in [
        (DeviceKind::Zoned, None, vec!["several zoned devices (left, right)", "--device NAME"]),
        (DeviceKind::Zoned, Some("lift"), vec!["m.toml", "no device `lift`; did you mean `left`?"]),
        (DeviceKind::Memory, Some("left"), vec!["m.toml:3", "is zoned, wanted memory"]),
        (DeviceKind::Memory, None, vec!["m.toml", "no device of kind `memory`"]),
    ] {
        let text = choose(kind, name).unwrap_err().to_string();
        assert!(words.iter().all(|w| text.contains(w)), "{text}");
    }
}

#[test]
fn a_profile_with_an_unknown_field_is_refused_with_both_places() {
    let dir = tempfile::tempdir().unwrap();
    let profile = include_str!("../../device/profiles/xlfdd.toml");
    let wrong = profile.replacen("[read]", "[read]\nlatncy = 3", 1);
    assert_ne!(wrong, profile);
    std::fs::write(dir.path().join("mine.toml"), wrong).unwrap();
    let text = "schema = \"littoral.machine/1\"\n[device.f]\nkind = \"flash\"\n\
                medium = \"ram\"\nprofile = \"mine.toml\"\ncapacity = \"1MiB\"\n";
    let file = dir.path().join("m.toml");
    std::fs::write(&file, text).unwrap();
    let refused = Machine::open(Some(&file)).unwrap_err().to_string();
    for words in ["m.toml:5", "mine.toml:", "latncy", "did you mean `latency`?"] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
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

#[test]
fn a_machine_is_opened_without_its_media() {
    let text = "[device.m]\nkind = \"memory\"\nmedium = \"file:m.img\"\ncapacity = \"1MiB\"\n\
                [device.f]\nkind = \"flash\"\nmedium = \"file:absent\"\n";
    let (dir, machine) = described(text);
    let machine = machine.unwrap();
    let names = || std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(names(), 1, "the machine file alone");
    assert_eq!(machine.flash("f").map(|_| ()).unwrap_err().kind(), Kind::Io);
    drop(machine.memory("m").unwrap());
    assert_eq!(names(), 2, "a device is made when it is opened");
}

#[test]
fn what_exists_is_not_overwritten() {
    let text = "[device.z]\nkind = \"zoned\"\nmedium = \"file:z.img\"\nzones = 4\n\
                zone_size = \"1MiB\"\nblock_bytes = 4096\n\
                [device.m]\nkind = \"memory\"\nmedium = \"file:m.img\"\ncapacity = \"1MiB\"\n";
    let (dir, machine) = described(text);
    let machine = machine.unwrap();
    let there = vec![0x5a; 8192];
    for name in ["z.img", "m.img"] {
        std::fs::write(dir.path().join(name), &there).unwrap();
    }
    assert_eq!(machine.zoned("z").map(|_| ()).unwrap_err().kind(), Kind::Foreign);
    drop(machine.memory("m"));
    for name in ["z.img", "m.img"] {
        assert_eq!(std::fs::read(dir.path().join(name)).unwrap(), there, "{name}");
    }
}
