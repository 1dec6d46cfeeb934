//! The rules of `ReadDevice` that every device keeps, tested through the trait alone.
//!
//! Where io_uring is forbidden its part says so on stderr; every other device always runs.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::io::Write as _;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use littoral_base::rng;
use littoral_base::units::Picos;
use littoral_device::flash::cached::{Cached, Frames};
use littoral_device::flash::dram::Dram;
use littoral_device::flash::emulator::{Emulator, EmulatorOptions, RegionContent};
use littoral_device::flash::file::Direct;
use littoral_device::flash::paced::{PacedCopy, PacedOptions, PacedPtr};
use littoral_device::flash::pacer::Timing;
use littoral_device::flash::pread::{Pread, PreadOptions};
use littoral_device::flash::queue_pair::{Batching, Doorbell, QueuePair};
use littoral_device::flash::uring::{self, Uring, UringOptions};
use littoral_device::read::{ReadDevice, Slot, Status};
use littoral_device::region::Region;

const LEN: usize = 1 << 14;
const SLOTS: u32 = 8;

fn contents() -> Vec<u8> {
    (0..LEN as u64).map(|i| rng::mix(i) as u8).collect()
}

/// Calls `$check` on every device over the same contents, with its name.
macro_rules! on_every_device {
    ($check:ident) => {{
        let bytes = contents();
        let region = Region::from_bytes(&bytes).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let timing =
            Timing { latency: Picos::from_micros(20), pause_min: Picos::MAX, ..Timing::default() };
        let paced =
            || PacedOptions { timing: timing.clone(), slots: SLOTS, ..PacedOptions::default() };
        $check("dram", &Dram::with_slots(region.clone(), SLOTS), &bytes);
        $check("paced", &PacedPtr::new(region.clone(), paced()), &bytes);
        $check("paced copies", &PacedCopy::new(region.clone(), paced()), &bytes);
        for batching in [Batching::PerRequest, Batching::PerKick] {
            let pair = QueuePair::new(region.clone(), paced(), Doorbell::Plain, batching).unwrap();
            $check("queue pair", &pair, &bytes);
        }
        let mut frames = Frames::none(LEN as u64);
        (0..LEN as u64 / 2).for_each(|at| _ = frames.hold(at));
        let device = PacedPtr::new(region.clone(), paced());
        $check("cached", &Cached::new(device, region.clone(), Arc::new(frames)), &bytes);
        let options = EmulatorOptions { slots: SLOTS, ..EmulatorOptions::default() };
        let content = Arc::new(RegionContent(region.clone()));
        $check("emulator", &Emulator::new(content, options).unwrap(), &bytes);
        let options = PreadOptions { slots: SLOTS, ..PreadOptions::default() };
        $check("pread", &Pread::open(file.path(), options).unwrap(), &bytes);
        match uring::available() {
            Ok(()) => {
                let options =
                    UringOptions { slots: SLOTS, direct: Direct::No, ..UringOptions::default() };
                $check("uring", &Uring::open(file.path(), options).unwrap(), &bytes);
            }
            Err(why) => _ = writeln!(std::io::stderr(), "NOT RUN: read_contract: {why}"),
        }
    }};
}

fn wait(device: &impl ReadDevice, slot: Slot) -> Status {
    loop {
        device.kick();
        device.reap();
        if let Some(status) = device.poll(slot) {
            return status;
        }
        device.park(Duration::from_millis(50));
    }
}

fn answers(name: &str, device: &impl ReadDevice, bytes: &[u8]) {
    assert_eq!(device.limits().slots, SLOTS, "{name}");
    for round in 0..50u64 {
        let place = |s: u32| {
            let word = rng::mix(round << 8 | u64::from(s));
            let (addr, len) = (word % 200 * 64, 64 * (1 + (word >> 32) % 8));
            (addr as usize, len as u32)
        };
        for s in 0..SLOTS {
            let (addr, len) = place(s);
            assert!(device.try_issue(Slot(s), addr as u64, len), "{name}");
            assert!(!device.is_free(Slot(s)), "{name}");
            assert!(!device.try_issue(Slot(s), 0, 64), "{name}: a slot in use is issued on");
        }
        for s in (0..SLOTS).rev() {
            let (addr, len) = place(s);
            assert_eq!(wait(device, Slot(s)), Status::Ok, "{name}");
            assert_eq!(device.copy(Slot(s)), bytes[addr..addr + len as usize], "{name}");
            device.release_done(Slot(s));
            assert!(device.is_free(Slot(s)), "{name}");
        }
    }
}

#[test]
fn every_device_answers_with_the_bytes_asked_for() {
    on_every_device!(answers);
}

fn remembers_a_refused_read(name: &str, device: &impl ReadDevice, bytes: &[u8]) {
    let beyond = LEN as u64 * 4;
    device.issue(Slot(1), beyond, 64);
    assert_eq!(wait(device, Slot(1)), Status::Refused, "{name}");
    assert_eq!(device.request(Slot(1)), Some((beyond, 64)), "{name}");
    assert!(device.copy(Slot(1)).is_empty(), "{name}: a refused read has bytes");
    device.release(Slot(1));
    assert_eq!(device.request(Slot(1)), None, "{name}: a free slot has a request");
    device.issue(Slot(1), 64, 64);
    assert_eq!(wait(device, Slot(1)), Status::Ok, "{name}");
    assert_eq!(device.copy(Slot(1)), bytes[64..128], "{name}");
}

#[test]
fn every_device_remembers_the_place_of_a_refused_read() {
    on_every_device!(remembers_a_refused_read);
}

fn refuses_a_second_issue(name: &str, device: &impl ReadDevice, _: &[u8]) {
    device.issue(Slot(1), 0, 64);
    for again in [0, LEN as u64 - 64] {
        let second = catch_unwind(AssertUnwindSafe(|| device.issue(Slot(1), again, 64)));
        assert!(second.is_err(), "{name}: a second request on a slot in use");
    }
}

#[test]
#[cfg(debug_assertions)]
fn an_issue_on_a_slot_in_use_panics_in_debug_builds() {
    on_every_device!(refuses_a_second_issue);
}

/// Tells by method resolution whether a type is `Sync` or `Send`.
struct Probe<T>(PhantomData<T>);

trait Otherwise {
    const IS_SYNC: bool = false;
    const IS_SEND: bool = false;
}

impl<T> Otherwise for Probe<T> {}

struct SendProbe<T>(PhantomData<T>);

impl<T> Otherwise for SendProbe<T> {}

impl<T: Sync> Probe<T> {
    const IS_SYNC: bool = true;
}

impl<T: Send> SendProbe<T> {
    const IS_SEND: bool = true;
}

#[test]
fn no_read_device_is_shared_by_threads() {
    let probed = [Probe::<Region>::IS_SYNC, SendProbe::<Region>::IS_SEND];
    assert_eq!(probed, [true; 2], "the probe sees both");
    let shared = [
        Probe::<Dram>::IS_SYNC,
        Probe::<PacedPtr>::IS_SYNC,
        Probe::<PacedCopy>::IS_SYNC,
        Probe::<QueuePair>::IS_SYNC,
        Probe::<Cached<PacedPtr>>::IS_SYNC,
        Probe::<Pread>::IS_SYNC,
        Probe::<Uring>::IS_SYNC,
        Probe::<Emulator>::IS_SYNC,
    ];
    assert_eq!(shared, [false; 8]);
    let sent = [SendProbe::<Uring>::IS_SEND];
    assert_eq!(sent, [false], "an io_uring stays with the thread that made it");
}
