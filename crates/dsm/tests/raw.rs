//! Raw pointers into the view: faults fetch and note, a repeated section takes none, system calls
//! get EFAULT, and any number of pages may alternate; by userfaultfd and by mprotect.

#![allow(unsafe_code)] // Reason: what is tested is the raw side.
#![allow(clippy::unwrap_used)]

mod support;

use littoral_dsm::Kind;
use littoral_dsm::core::message::LockId;
use littoral_dsm::job::{Homes, Job, SharedSlice};
use littoral_dsm::memory::{Mechanism, page_bytes};
use littoral_dsm::runtime::Config;
use support::{COPIES, Over, WITH_POINTERS, run, run_with};

const L: LockId = LockId(3);
const BOTH: [Mechanism; 2] = [Mechanism::Userfaultfd, Mechanism::Mprotect];

/// Whether this kernel lets us have userfaultfd; said aloud when not.
fn is_there(mechanism: Mechanism) -> bool {
    let config = Config { mechanism: Some(mechanism), ..Config::default() };
    let solo = Box::new(littoral_dsm::runtime::carrier::Solo);
    let there = Job::start(solo, config).is_ok();
    if !there {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "SKIPPED: {mechanism:?} is not allowed here");
    }
    there
}

fn load(at: *const u64) -> u64 {
    // SAFETY: tests pass pointers into a live job's slices, on the job's own thread.
    unsafe { at.read_volatile() }
}

fn store(at: *mut u64, value: u64) {
    // SAFETY: as in `load`.
    unsafe { at.write_volatile(value) }
}

fn raw(job: &Job, slice: SharedSlice<u64>) -> *mut u64 {
    // SAFETY: the tests' programs are race-free and stay on their threads and inside their slices.
    unsafe { job.raw(slice) }
}

#[test]
fn a_raw_counter_loses_no_increment_under_either_mechanism() {
    for over in WITH_POINTERS {
        for mechanism in BOTH.into_iter().filter(|m| is_there(*m)) {
            let values = run_with(
                over,
                3,
                |c| c.mechanism = Some(mechanism),
                |mut job| {
                    let counter = job.alloc_slice::<u64>(1, Homes::At(1)).unwrap();
                    let p = raw(&job, counter);
                    for _ in 0..60 {
                        job.lock(L).unwrap();
                        store(p, load(p) + 1);
                        job.unlock(L).unwrap();
                    }
                    job.wait_for_all().unwrap();
                    let value = load(p);
                    assert_eq!(job.mechanism().is_none(), over == Over::Shm);
                    job.finish().unwrap();
                    value
                },
            );
            assert_eq!(values, [180; 3], "{over:?} {mechanism:?}");
        }
    }
}

#[test]
fn a_repeated_section_takes_no_fault() {
    for over in COPIES {
        let counts = run(over, 2, |mut job| {
            let s = job.alloc_slice::<u64>(1024, Homes::At(0)).unwrap();
            let p = raw(&job, s);
            let section = |job: &Job| {
                job.lock(L).unwrap();
                store(p, load(p) + 1);
                store(p.wrapping_add(512), load(p.wrapping_add(512)) + 1);
                let made = load(p);
                job.unlock(L).unwrap();
                made
            };
            for _ in 0..5 {
                section(&job);
            }
            job.wait_for_all().unwrap();
            // Until the other rank has copied the pages since the barrier, their home writes them
            // without noticing, and predicts nothing. Two sections after that both predict.
            let mut own = 1;
            while section(&job) == 10 + own {
                own += 1;
                std::thread::yield_now();
            }
            section(&job);
            section(&job);
            let before = job.counts();
            for _ in 0..40 {
                section(&job);
            }
            let after = job.counts();
            job.wait_for_all().unwrap();
            assert_eq!(load(p), load(p.wrapping_add(512)));
            let seen = load(p);
            job.finish().unwrap();
            (before, after, own + 42, seen)
        });
        let made: u64 = counts.iter().map(|(_, _, own, _)| own).sum();
        assert!(counts.iter().all(|(.., seen)| *seen == 10 + made), "{over:?}: lost increments");
        for (before, after, _, _) in counts {
            assert_eq!(after.memory.faults, before.memory.faults, "{over:?}: predicted pages");
            assert!(before.memory.faults > 0, "{over:?}: nothing ever faulted");
        }
    }
}

/// More than 1 GiB of pages that alternate between readable and absent: some 140,000 changes of
/// protection inside one mapping.
#[test]
fn more_than_one_gib_of_alternating_pages() {
    if !is_there(Mechanism::Userfaultfd) {
        return;
    }
    let pages = (9 << 27) / page_bytes();
    let words = page_bytes() / 8;
    let config =
        Config { bytes_max: 3 << 29, mechanism: Some(Mechanism::Userfaultfd), ..Config::default() };
    let mut job = Job::start(Box::new(littoral_dsm::runtime::carrier::Solo), config).unwrap();
    let s = job.alloc_slice::<u64>(pages * words, Homes::Cyclic).unwrap();
    let p = raw(&job, s);
    for page in (0..pages).step_by(2) {
        assert_eq!(load(p.wrapping_add(page * words)), 0);
    }
    let faults = job.counts().memory.faults;
    assert_eq!(faults, pages as u64 / 2);
    assert!(faults * 2 * page_bytes() as u64 > 1 << 30);
    job.finish().unwrap();
}

/// A page that the kernel drops from the view (as it does under memory pressure) comes back at the
/// next access. The accesses are made by a child with little processor time, which an access that
/// faults for ever would use up.
#[test]
fn a_page_that_the_kernel_drops_from_the_view_comes_back() {
    const CHILD: &str = "DSM_TEST_DROPPED";
    const NAME: &str = "a_page_that_the_kernel_drops_from_the_view_comes_back";
    if std::env::var_os(CHILD).is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let out = child.args(["--exact", NAME, "--nocapture"]).env(CHILD, "1").output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{:?} {said}", out.status);
        return;
    }
    let limit = rustix::process::Rlimit { current: Some(20), maximum: Some(20) };
    rustix::process::setrlimit(rustix::process::Resource::Cpu, limit).unwrap();
    for mechanism in BOTH.into_iter().filter(|m| is_there(*m)) {
        run_with(Over::Tcp, 2, |c| c.mechanism = Some(mechanism), drop_pages_and_look);
    }
}

/// Reads and writes pages homed here and elsewhere, before and after each is dropped.
fn drop_pages_and_look(mut job: Job) {
    let words = page_bytes() / 8;
    let s = job.alloc_slice::<u64>(4 * words, Homes::Cyclic).unwrap();
    let p = raw(&job, s);
    let drop_all = || {
        // SAFETY: the view of a shared file, whose bytes stay in the file.
        let dropped = unsafe {
            rustix::mm::madvise(p.cast(), 4 * page_bytes(), rustix::mm::Advice::LinuxDontNeed)
        };
        dropped.unwrap();
    };
    let mine = usize::from(job.rank()) * 2 * words;
    for round in 1..4 {
        store(p.wrapping_add(mine), round);
        drop_all();
        assert_eq!(load(p.wrapping_add(mine)), round, "a page that is being written");
        drop_all();
        store(p.wrapping_add(mine + 1), round);
        store(p.wrapping_add(mine + words), round);
        job.wait_for_all().unwrap();
        for page in 0..4 {
            assert_eq!(load(p.wrapping_add(page * words)), round);
        }
        drop_all();
        for page in 0..4 {
            assert_eq!(load(p.wrapping_add(page * words)), round, "a page that was read");
        }
        assert_eq!(load(p.wrapping_add(2 * words - mine + 1)), round, "the other rank's word");
        job.wait_for_all().unwrap();
    }
    job.finish().unwrap();
}

/// The same under mprotect ends at the kernel's limit on mappings, with a message that says so; the
/// process is a child, since a raw access has no caller to tell.
#[test]
fn too_many_alternating_pages_under_mprotect_are_reported() {
    const CHILD: &str = "DSM_TEST_ALTERNATE";
    if std::env::var_os(CHILD).is_some() {
        let config = Config {
            bytes_max: 1 << 30,
            mechanism: Some(Mechanism::Mprotect),
            ..Config::default()
        };
        let mut job = Job::start(Box::new(littoral_dsm::runtime::carrier::Solo), config).unwrap();
        let words = page_bytes() / 8;
        let s = job.alloc_slice::<u64>((1 << 30) / 8, Homes::Cyclic).unwrap();
        let p = raw(&job, s);
        (0..s.len() / words).step_by(2).for_each(|page| {
            load(p.wrapping_add(page * words));
        });
        return;
    }
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    let program = std::env::current_exe().unwrap();
    let mut child = std::process::Command::new(program);
    child.args([
        "--exact",
        "too_many_alternating_pages_under_mprotect_are_reported",
        "--nocapture",
    ]);
    let out = child.env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    if limit < (1 << 30) / page_bytes() {
        assert_eq!(out.status.code(), Some(3), "{said}");
        assert!(said.contains("vm.max_map_count"), "{said}");
    } else {
        assert!(out.status.success(), "{said}");
    }
}

#[test]
fn a_system_call_into_an_absent_page_is_efault_and_touch_or_a_guard_helps() {
    use rustix::io::{Errno, read, write};
    for mechanism in BOTH.into_iter().filter(|m| is_there(*m)) {
        run_with(
            Over::Tcp,
            2,
            |c| c.mechanism = Some(mechanism),
            |mut job| {
                let s = job.alloc_slice::<u64>(1024, Homes::At(0)).unwrap();
                let (from, to) = std::io::pipe().unwrap();
                if job.rank() == 1 {
                    let p = raw(&job, s).cast::<u8>();
                    write(&to, &[7; 16]).unwrap();
                    // SAFETY: sixteen bytes of the slice, which no other rank writes in this phase.
                    let into = unsafe { std::slice::from_raw_parts_mut(p, 16) };
                    assert_eq!(read(&from, &mut *into).unwrap_err(), Errno::FAULT);
                    job.touch(s.part(0..2), true).unwrap();
                    assert_eq!(read(&from, &mut *into).unwrap(), 16, "nothing was lost before");
                    let phase = job.phase().unwrap();
                    let mut guard = phase.write(s.part(512..514)).unwrap();
                    write(&to, &[9; 16]).unwrap();
                    let bytes = bytemuck::cast_slice_mut::<u64, u8>(&mut guard);
                    assert_eq!(read(&from, bytes).unwrap(), 16);
                }
                job.barrier().unwrap();
                let phase = job.phase().unwrap();
                assert_eq!(phase.read(s.part(0..2)).unwrap()[..], [u64::from_ne_bytes([7; 8]); 2]);
                assert_eq!(phase.read(s.part(512..514)).unwrap()[1], u64::from_ne_bytes([9; 8]));
                phase.end().unwrap();
                job.finish().unwrap();
            },
        );
    }
}

/// A wild access outside any job still ends the process by the signal it deserves.
#[test]
fn a_fault_that_is_nobodys_goes_where_it_went_before() {
    const CHILD: &str = "DSM_TEST_WILD";
    if std::env::var_os(CHILD).is_some() {
        let job = Job::start(Box::new(littoral_dsm::runtime::carrier::Solo), Config::default());
        let _job = job.unwrap();
        // SAFETY: none; the access is to be stopped by the processor, and the process with it.
        unsafe { std::ptr::without_provenance_mut::<u8>(64).write_volatile(1) };
        return;
    }
    use std::os::unix::process::ExitStatusExt as _;
    let program = std::env::current_exe().unwrap();
    let mut child = std::process::Command::new(program);
    child.args(["--exact", "a_fault_that_is_nobodys_goes_where_it_went_before", "--nocapture"]);
    let out = child.env(CHILD, "1").output().unwrap();
    assert_eq!(out.status.signal(), Some(11));
}

/// A signal that a process sends, which is no fault of an access, ends the process by default.
/// Where it is ignored, shared memory works on.
#[test]
fn a_signal_that_was_sent_does_what_it_did_before() {
    const CHILD: &str = "DSM_TEST_SENT";
    const NAME: &str = "a_signal_that_was_sent_does_what_it_did_before";
    if let Ok(before) = std::env::var(CHILD) {
        let before = if before == "ignored" { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: both are actions that a signal may have.
        unsafe { libc::signal(libc::SIGSEGV, before) };
        let config = Config { mechanism: Some(Mechanism::Mprotect), ..Config::default() };
        let mut job = Job::start(Box::new(littoral_dsm::runtime::carrier::Solo), config).unwrap();
        let s = job.alloc_slice::<u64>(1, Homes::At(0)).unwrap();
        let p = raw(&job, s);
        // SAFETY: the signal's handler is the library's, which waits for it.
        assert_eq!(unsafe { libc::raise(libc::SIGSEGV) }, 0);
        store(p, 5);
        assert_eq!(load(p), 5);
        job.finish().unwrap();
        return;
    }
    use std::os::unix::process::ExitStatusExt as _;
    for (before, ends) in [("ignored", None), ("default", Some(libc::SIGSEGV))] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let out = child.args(["--exact", NAME, "--nocapture"]).env(CHILD, before).output().unwrap();
        let end = (out.status.signal(), out.status.success());
        assert_eq!(end, (ends, ends.is_none()), "{before}: {out:?}");
    }
}

/// A child made by `fork` has no shared memory: its access ends it in words, and its rank goes on.
#[test]
fn a_forked_child_that_touches_shared_memory_ends_in_words() {
    const CHILD: &str = "DSM_TEST_FORK";
    const NAME: &str = "a_forked_child_that_touches_shared_memory_ends_in_words";
    if std::env::var_os(CHILD).is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let out = child.args(["--exact", NAME, "--nocapture"]).env(CHILD, "1").output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{:?} {said}", out.status);
        assert_eq!(said.matches("made by fork").count(), BOTH.len(), "{said}");
        return;
    }
    for mechanism in [None, Some(Mechanism::Mprotect)] {
        let config = Config { mechanism, ..Config::default() };
        let mut job = Job::start(Box::new(littoral_dsm::runtime::carrier::Solo), config).unwrap();
        let s = job.alloc_slice::<u64>(1, Homes::At(0)).unwrap();
        let p = raw(&job, s);
        store(p, 1);
        // SAFETY: the child does nothing but access memory and end.
        match unsafe { libc::fork() } {
            0 => {
                store(p, 2);
                // SAFETY: as above; reached only if the access went unnoticed.
                unsafe { libc::_exit(0) }
            }
            child => {
                let mut status = 0;
                // SAFETY: the status is a variable of this frame.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(libc::WEXITSTATUS(status), 2);
                assert_eq!(load(p), 1);
            }
        }
        job.finish().unwrap();
    }
}

#[test]
fn misuse_of_raw_jobs_has_a_kind() {
    run(Over::ShmPages, 2, |mut job| {
        let s = job.alloc_slice::<u64>(1, Homes::At(0)).unwrap();
        assert_eq!(job.unlock(L).unwrap_err().kind(), Kind::Misuse);
        job.touch(s, true).unwrap();
        job.finish().unwrap();
    });
}
