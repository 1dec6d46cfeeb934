//! The file devices against a plain byte vector: any legal request, in any interleaving, gives the
//! bytes of the file; an illegal one is refused and harms nothing.
//!
//! Where io_uring is forbidden its half of these tests says so on stderr; the pread half always
//! runs.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use littoral_base::rng;
use littoral_device::Kind;
use littoral_device::flash::file::Direct;
use littoral_device::flash::pread::{Pread, PreadOptions};
use littoral_device::flash::uring::{self, Uring, UringOptions};
use littoral_device::read::{ReadDevice, Slot, Status};
use proptest::prelude::*;

struct Sample {
    _dir: tempfile::TempDir,
    path: PathBuf,
    bytes: Vec<u8>,
}

fn sample(len: usize) -> Sample {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sample");
    let bytes: Vec<u8> = (0..len as u64).map(|i| rng::mix(i) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    Sample { _dir: dir, path, bytes }
}

/// One request of a run: where, how long, and whether its asker goes away before the answer.
#[derive(Clone, Copy, Debug)]
struct Ask {
    addr: u64,
    len: u32,
    abandon: bool,
}

fn expected(bytes: &[u8], ask: Ask, longest: u32) -> Option<&[u8]> {
    let start = usize::try_from(ask.addr).ok()?;
    let end = start.checked_add(ask.len as usize)?;
    if ask.len > longest { None } else { bytes.get(start..end) }
}

/// Runs all requests through a device with few slots, checking every answer.
fn check(device: &impl ReadDevice, bytes: &[u8], asks: &[Ask]) {
    let limits = device.limits();
    let mut asks = asks.iter().copied();
    let mut under_way: Vec<Option<Ask>> = vec![None; limits.slots as usize];
    let mut more = true;
    while more || under_way.iter().any(Option::is_some) {
        for s in 0..limits.slots {
            let slot = Slot(s);
            let place = &mut under_way[s as usize];
            if let Some(ask) = *place
                && let Some(status) = device.poll(slot)
            {
                match expected(bytes, ask, limits.read_bytes_max) {
                    Some(wanted) => {
                        assert_eq!(status, Status::Ok, "{ask:?}: {:?}", device.last_error());
                        assert_eq!(device.copy(slot), wanted, "{ask:?}");
                    }
                    None => assert_eq!(status, Status::Refused, "{ask:?}"),
                }
                device.release(slot);
                assert!(device.is_free(slot));
                *place = None;
            }
            if place.is_none() && device.is_free(slot) {
                let Some(ask) = asks.next() else {
                    more = false;
                    continue;
                };
                device.issue(slot, ask.addr, ask.len);
                if ask.abandon {
                    device.release(slot);
                } else {
                    *place = Some(ask);
                }
            }
        }
        device.kick();
        device.reap();
        device.park(Duration::from_millis(200));
    }
}

fn asks(len: u64, granule: u64) -> impl Strategy<Value = Vec<Ask>> {
    let ask = (0..len + 2 * granule, 0u32..9000, prop::bool::weighted(0.1))
        .prop_map(move |(addr, len, abandon)| Ask { addr: addr / granule * granule, len, abandon });
    proptest::collection::vec(ask, 1..120)
}

fn uring_here() -> bool {
    match uring::available() {
        Ok(()) => true,
        Err(why) => {
            // Not `eprintln`, which the test harness keeps to itself when a test passes.
            let _ = writeln!(std::io::stderr(), "NOT RUN: prop_files: {why}");
            false
        }
    }
}

const LEN: usize = 70_001;

proptest! {
    #![proptest_config(littoral_testing::cases(24))]

    #[test]
    fn a_pread_pool_gives_the_bytes_of_the_file(asks in asks(LEN as u64, 1), slots in 1u32..20, threads in 1u32..5) {
        let file = sample(LEN);
        let options = PreadOptions { slots, read_bytes_max: 8000, threads };
        check(&Pread::open(&file.path, options).unwrap(), &file.bytes, &asks);
    }

    #[test]
    fn io_uring_through_the_page_cache_gives_the_bytes_of_the_file(asks in asks(LEN as u64, 1), slots in 1u32..20, park_batch in 1u32..9) {
        if uring_here() {
            let file = sample(LEN);
            let options = UringOptions { slots, read_bytes_max: 8000, direct: Direct::No, park_batch };
            check(&Uring::open(&file.path, options).unwrap(), &file.bytes, &asks);
        }
    }

    #[test]
    fn io_uring_past_the_page_cache_gives_the_bytes_of_the_file(asks in asks(LEN as u64, 4096), slots in 1u32..20, park_batch in 1u32..9) {
        if uring_here() {
            let file = sample(LEN);
            let options = UringOptions { slots, read_bytes_max: 8000, direct: Direct::Auto, park_batch };
            let device = Uring::open(&file.path, options).unwrap();
            prop_assert!(device.limits().granule_bytes <= 4096);
            check(&device, &file.bytes, &asks);
        }
    }
}

#[test]
fn requests_outside_the_medium_are_refused() {
    let file = sample(10_000);
    let pread = Pread::open(&file.path, PreadOptions::default()).unwrap();
    refuse_all(&pread);
    if uring_here() {
        let options = UringOptions { direct: Direct::No, ..UringOptions::default() };
        refuse_all(&Uring::open(&file.path, options).unwrap());
    }
}

fn refuse_all(device: &impl ReadDevice) {
    let longest = device.limits().read_bytes_max;
    for (addr, len) in
        [(10_000, 1), (9_999, 2), (u64::MAX, 1), (u64::MAX, u32::MAX), (0, longest + 1)]
    {
        device.issue(Slot(0), addr, len);
        device.kick();
        device.reap();
        assert_eq!(device.poll(Slot(0)), Some(Status::Refused), "{addr} {len}");
        assert_eq!(device.request(Slot(0)), Some((addr, len)));
        device.release(Slot(0));
        assert!(device.is_free(Slot(0)));
    }
}

#[test]
fn an_unaligned_direct_read_is_refused_and_the_tail_of_the_file_is_not() {
    if !uring_here() {
        return;
    }
    let file = sample(5000);
    let device = Uring::open(&file.path, UringOptions::default()).unwrap();
    let granule = u64::from(device.limits().granule_bytes);
    if granule > 1 {
        device.issue(Slot(0), granule / 2, 16);
        assert_eq!(device.poll(Slot(0)), Some(Status::Refused));
        device.release(Slot(0));
    }
    check(&device, &file.bytes, &[Ask { addr: 4096, len: 904, abandon: false }]);
}

/// A file that shrinks to `len` bytes under the reader: the read past its new end fails with words,
/// others go on.
fn shrink(device: &impl ReadDevice, file: &Sample, len: u64) {
    std::fs::OpenOptions::new().write(true).open(&file.path).unwrap().set_len(len).unwrap();
    device.issue(Slot(0), 12_288, 4096);
    device.issue(Slot(1), 4096, 4096);
    device.kick();
    while device.poll(Slot(0)).is_none() || device.poll(Slot(1)).is_none() {
        device.park(Duration::from_millis(50));
    }
    assert_eq!(device.poll(Slot(0)), Some(Status::Os));
    assert!(device.last_error().is_some());
    assert_eq!(device.request(Slot(0)), Some((12_288, 4096)), "the read that failed has a place");
    assert_eq!(device.poll(Slot(1)), Some(Status::Ok));
    assert_eq!(device.copy(Slot(1)), &file.bytes[4096..8192]);
}

#[test]
fn a_file_that_shrinks_is_an_error_and_not_a_hang() {
    // The new end is before the read, or inside it and between two places where a read may begin.
    for len in [8192, 13_000] {
        let file = sample(20_480);
        shrink(&Pread::open(&file.path, PreadOptions::default()).unwrap(), &file, len);
        if !uring_here() {
            continue;
        }
        for direct in [Direct::No, Direct::Auto] {
            let file = sample(20_480);
            let options = UringOptions { direct, ..UringOptions::default() };
            shrink(&Uring::open(&file.path, options).unwrap(), &file, len);
        }
    }
}

#[test]
fn devices_dropped_with_reads_under_way_end_cleanly() {
    let file = sample(1 << 20);
    for _ in 0..20 {
        let pread = Pread::open(&file.path, PreadOptions::default()).unwrap();
        (0..64).for_each(|s| pread.issue(Slot(s), u64::from(s) * 4096, 4096));
        pread.kick();
        if uring_here() {
            let ring = Uring::open(&file.path, UringOptions::default()).unwrap();
            (0..64).for_each(|s| ring.issue(Slot(s), u64::from(s) * 4096, 4096));
            ring.kick();
        }
    }
}

#[test]
fn bad_options_are_refused() {
    let file = sample(4096);
    let too_many = PreadOptions { slots: 1 << 20, ..PreadOptions::default() };
    let e = Pread::open(&file.path, too_many).map(|_| ()).unwrap_err();
    assert_eq!(e.kind(), Kind::IllegalRequest);
    let none = UringOptions { slots: 0, ..UringOptions::default() };
    let e = Uring::open(&file.path, none).map(|_| ()).unwrap_err();
    assert_eq!(e.kind(), Kind::IllegalRequest);
}
