//! Files as persistent memory: creation, ownership, what a fence promises, what is refused.

use std::io::Write as _;
use std::sync::atomic::Ordering;

use littoral_device::Kind;
use littoral_device::memory::{Domain, Promise};
use littoral_device::pmem::{Eadr, FileCopy, Flush, FlushFence, Msync, platform_has_eadr};

const MARK: u64 = 0x1122_3344_5566_7788;

fn write(d: &impl Domain) {
    d.store(4096 + 8, MARK, Ordering::Relaxed);
    d.write_back(4096, 64);
    d.write_back(12_288, 1);
    d.fence().expect("no fault planned");
}

#[test]
fn what_was_fenced_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("msync");
    write(&Msync::create(&path, 1 << 16).unwrap());
    assert_eq!(Msync::open(&path).unwrap().word(4096 + 8, Ordering::Relaxed), MARK);
}

#[test]
fn a_pipe_without_a_writer_and_a_folder_are_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    for refused in [FileCopy::open(&path), FileCopy::beside_owner(&path)] {
        assert_eq!(refused.map(drop).unwrap_err().kind(), Kind::Foreign);
    }
    assert_eq!(Msync::open(&path).map(drop).unwrap_err().kind(), Kind::Foreign);
    let folder = FileCopy::open(dir.path()).map(drop).unwrap_err();
    assert!(folder.kind() == Kind::Foreign && folder.to_string().contains("folder"), "{folder}");
}

/// KiB of the file's mapping in this process that the kernel holds as dirty.
fn dirty_kib(path: &std::path::Path) -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").expect("Linux");
    let name = path.canonicalize().expect("it exists").display().to_string();
    let (mut of_file, mut dirty) = (false, 0);
    for line in smaps.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [key, kib, "kB"] if key.ends_with("_Dirty:") && of_file => {
                dirty += kib.parse::<u64>().expect("a number");
            }
            [range, ..] if !range.ends_with(':') => of_file = line.ends_with(&name),
            _ => {}
        }
    }
    dirty
}

#[test]
fn after_a_fence_the_kernel_holds_no_dirty_page_of_what_was_written_back() {
    // A place on a device: files in memory have no device to be cleaned to.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("msync");
    // The kernel shows a mapping by the name its file had when it was opened.
    drop(Msync::create(&path, 1 << 18).unwrap());
    let file = Msync::open(&path).unwrap();
    let on_device = file.promise() == Promise::DeviceFlush;
    if !on_device {
        // Past the harness, which shows what tests print only when they fail.
        let text = "NOT RUN: pmem_files: the build folder is in memory, where pages stay dirty\n";
        std::io::stderr().write_all(text.as_bytes()).unwrap();
    }
    for ranges in [&[(8192 + 128, 64)][..], &[(4096, 8192)], &[(0, 8), (65_536, 8), (24_584, 8)]] {
        let store = || {
            for &(offset, len) in ranges {
                (offset..offset + len)
                    .step_by(8)
                    .for_each(|at| file.store(at, MARK, Ordering::Relaxed));
            }
        };
        // The kernel may write pages by itself at any time, as it does where memory is short.
        let is_shown = (0..100).any(|_| {
            store();
            dirty_kib(&path) >= 4
        });
        assert!(is_shown, "the kernel shows what was stored");
        store();
        ranges.iter().for_each(|&(offset, len)| file.write_back(offset, len));
        file.fence().unwrap();
        assert!(dirty_kib(&path) == 0 || !on_device, "{ranges:?} {} KiB", dirty_kib(&path));
    }
}

#[test]
fn flush_and_fence_over_a_file_promise_no_more_than_the_page_cache_holds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flush");
    match (Flush::detect(), FlushFence::create(&path, 1 << 16)) {
        (None, made) => assert_eq!(made.unwrap_err().kind(), Kind::Unsupported),
        (Some(flush), made) => {
            let made = made.unwrap();
            write(&made);
            assert_eq!((made.promise(), made.instruction()), (Promise::ProcessDeath, flush));
            drop(made);
            let again = FlushFence::open(&path).unwrap();
            assert_eq!(again.word(4096 + 8, Ordering::Relaxed), MARK);
        }
    }
}

#[test]
fn a_file_has_one_owner_and_is_never_created_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let first = Msync::create(&path, 4096).unwrap();
    assert_eq!(Msync::open(&path).unwrap_err().kind(), Kind::Busy);
    let again = Msync::create(&path, 4096).unwrap_err();
    assert_eq!(again.kind(), Kind::Exists);
    assert!(again.to_string().contains("exists already"), "{again}");
    drop(first);
    Msync::open(&path).unwrap();
}

#[test]
fn a_copy_changes_nothing_and_shares_the_file_with_readers_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let owner = Msync::create(&path, 1 << 16).unwrap();
    write(&owner);
    assert_eq!(FileCopy::open(&path).unwrap_err().kind(), Kind::Busy);
    drop(owner);
    let bytes = std::fs::read(&path).unwrap();
    let (one, two) = (FileCopy::open(&path).unwrap(), FileCopy::open(&path).unwrap());
    one.store(4096 + 8, 1, Ordering::Relaxed);
    one.write_back(4096, 64);
    one.fence().unwrap();
    assert_eq!(one.word(4096 + 8, Ordering::Relaxed), 1);
    assert_eq!(two.word(4096 + 8, Ordering::Relaxed), MARK);
    assert_eq!(Msync::open(&path).unwrap_err().kind(), Kind::Busy, "another owner has it");
    drop((one, two));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn bad_lengths_missing_files_and_missing_platforms_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("odd");
    assert_eq!(Msync::create(&path, 100).unwrap_err().kind(), Kind::IllegalRequest);
    assert!(!path.exists(), "a refused creation leaves nothing");
    std::fs::write(&path, [1; 100]).unwrap();
    assert_eq!(Msync::open(&path).unwrap_err().kind(), Kind::Foreign);
    assert_eq!(std::fs::read(&path).unwrap(), [1; 100]);
    let missing = Msync::open(&dir.path().join("absent")).unwrap_err();
    assert!(missing.to_string().contains("absent"), "{missing}");
    if !platform_has_eadr() {
        assert_eq!(Eadr::open(&path).unwrap_err().kind(), Kind::Unsupported);
    }
}

#[test]
fn a_file_that_may_not_be_written_is_refused_and_left_alone() {
    // A running program's file refuses writers of any rank, also root.
    let path = std::env::current_exe().unwrap();
    let before = std::fs::metadata(&path).unwrap();
    for refused in [Msync::open(&path).map(drop), FlushFence::open(&path).map(drop)] {
        let e = refused.unwrap_err();
        assert!(matches!(e.kind(), Kind::Io | Kind::Unsupported), "{e}");
        assert!(e.kind() == Kind::Unsupported || e.to_string().contains("for reading and writing"));
    }
    let after = std::fs::metadata(&path).unwrap();
    assert_eq!(
        (before.len(), before.modified().unwrap()),
        (after.len(), after.modified().unwrap())
    );
}

/// The kind of file system that holds the temporary files decides what msync may promise.
#[test]
fn msync_promises_what_its_file_system_can_keep() {
    let dir = tempfile::tempdir().unwrap();
    let on = |dir: &std::path::Path| Msync::create(&dir.join("promise"), 4096).unwrap().promise();
    let of_kind = |dir: &std::path::Path| rustix::fs::statfs(dir).unwrap().f_type as u64;
    let wanted = |kind: u64| match kind & 0xffff_ffff {
        0x0102_1994 | 0x8584_58f6 => Promise::ProcessDeath,
        _ => Promise::DeviceFlush,
    };
    assert_eq!(on(dir.path()), wanted(of_kind(dir.path())));
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() && wanted(of_kind(memory)) == Promise::ProcessDeath {
        let dir = tempfile::tempdir_in(memory).unwrap();
        assert_eq!(on(dir.path()), Promise::ProcessDeath, "no device, no flush to wait for");
    }
}
