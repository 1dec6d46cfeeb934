//! Readers of a store: beside each other, beside a writer, and in turn.

#![cfg(feature = "index")]
#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod small;

use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use littoral::kv::{self, Access, Durability, Engine, Kv, Opening};
use littoral_index::Kind;
use littoral_index::index::Index;

use small::small;

const KEYS: u64 = 300;

fn waiting(access: Access) -> Opening {
    Opening { waits: true, memory_bytes: 1 << 20, ..access.into() }
}

fn made(dir: &Path, engine: Engine) -> (PathBuf, Kv) {
    let at = dir.join(engine.name());
    let mut kv = kv::create_file(&at, &small(engine)).unwrap();
    write(&mut kv, 0);
    (at, kv)
}

/// Gives every key the value `round`, durable together.
fn write(kv: &mut Kv, round: u64) {
    kv.set_durability(Durability::Batch);
    for key in 0..KEYS {
        kv.put(&key.to_be_bytes(), &round.to_be_bytes()).unwrap();
    }
    kv.sync().unwrap();
}

/// As [`write`], in a session that ends as a kill ends it: the records are in the redo log only.
fn write_and_be_killed(at: &Path, round: u64) {
    let device = waiting(Access::Write).file(at, &at.join("zones")).unwrap();
    // An `Index` writes nothing when it is dropped; a `Kv` closes the store.
    let mut index = Index::open(device).unwrap();
    index.store_mut().set_durability(Durability::Batch);
    for key in 0..KEYS {
        index.put(&key.to_be_bytes(), &round.to_be_bytes()).unwrap();
    }
    index.sync().unwrap();
}

/// The one value that every key has.
fn read(kv: &Kv) -> u64 {
    let mut found = Vec::new();
    kv.scan(None, None, |_, value| {
        found.push(u64::from_be_bytes(value.try_into().unwrap()));
        true
    })
    .unwrap();
    assert_eq!(found.len() as u64, KEYS);
    assert!(found.iter().all(|v| *v == found[0]), "parts of different rounds: {found:?}");
    found[0]
}

fn is_busy(at: &Path, access: Access, words: &str) -> bool {
    match kv::open(at, access) {
        Ok(_) => false,
        Err(e) => {
            let text = e.to_string();
            assert!(e.kind() == Kind::Busy && text.contains("--wait"), "{text}");
            assert!(text.contains(at.to_str().unwrap()) && text.contains(words), "{text}");
            true
        }
    }
}

#[test]
fn readers_share_a_store_that_they_may_not_write_and_a_writer_is_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (at, kv) = made(dir.path(), Engine::Zb);
    assert!(is_busy(&at, Access::Read, "writes the store"), "a reader beside a writer");
    drop(kv);
    let before = std::fs::read(at.join("zones")).unwrap();
    std::fs::set_permissions(at.join("zones"), Permissions::from_mode(0o444)).unwrap();
    let readers = [(); 3].map(|()| kv::open(&at, Access::Read).unwrap());
    for reader in &readers {
        assert_eq!(read(reader), 0);
        reader.check().unwrap();
    }
    // Root may write any file, so that the flags of the open files are asked too.
    let flags: Vec<u32> = opened(&at.join("zones"));
    assert!(flags.len() == 3 && flags.iter().all(|f| f & 0o3 == 0), "read only: {flags:?}");
    std::fs::set_permissions(at.join("zones"), Permissions::from_mode(0o644)).unwrap();
    assert!(is_busy(&at, Access::Write, "another process"), "a writer beside readers");
    assert!(before == std::fs::read(at.join("zones")).unwrap(), "reading changes nothing");
    drop(readers);
    assert!(!is_busy(&at, Access::Write, ""));
}

/// The flags of this process's open files at `path`.
fn opened(path: &Path) -> Vec<u32> {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let ours = files.filter(|f| std::fs::read_link(f.path()).is_ok_and(|target| target == path));
    let flags = |f: std::fs::DirEntry| {
        let info = std::fs::read_to_string(Path::new("/proc/self/fdinfo").join(f.file_name()));
        let line = info.unwrap().lines().find_map(|l| l.strip_prefix("flags:").map(str::to_owned));
        u32::from_str_radix(line.unwrap().trim(), 8).unwrap()
    };
    ours.map(flags).collect()
}

/// A writer that waits has an exclusive turn, a reader that waits shares one.
#[test]
fn an_opening_does_not_overtake_one_that_waits() {
    let dir = tempfile::tempdir().unwrap();
    let (at, kv) = made(dir.path(), Engine::Zb);
    drop(kv);
    let turn = File::open(&at).unwrap();
    turn.lock().unwrap();
    assert!(is_busy(&at, Access::Read, "writes the store"), "a writer waits");
    turn.unlock().unwrap();
    turn.lock_shared().unwrap();
    assert!(!is_busy(&at, Access::Read, ""), "a reader waits");
    assert!(is_busy(&at, Access::Write, "another process"), "a reader waits");
    turn.unlock().unwrap();
    // One that waits takes its turn while another has the store, and gives it back.
    let kv = kv::open(&at, Access::Write).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&kv::open(&at, waiting(Access::Read)).unwrap()));
        while turn.try_lock().is_ok() {
            turn.unlock().unwrap();
            std::thread::yield_now();
        }
        drop(kv);
        assert_eq!(reader.join().unwrap(), 0);
    });
    turn.try_lock().unwrap();
}

/// A process that was killed while it opened the store leaves its turn to a child that has not
/// begun its program yet: here this test, which has the descriptor by which `flock` took the turn.
#[test]
fn a_turn_that_a_dead_process_left_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let (at, kv) = made(dir.path(), Engine::Zb);
    drop(kv);
    // The first namespace's number is the same on every Linux.
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if namespace != Path::new("pid:[4026531836]") {
        let why = "a container's system does not list a lock whose owner is gone";
        let _ = writeln!(std::io::stderr(), "NOT RUN: kv_turns: {why}");
        return;
    }
    for access in [Access::Read, Access::Write] {
        let turn = File::open(&at).unwrap();
        let own = turn.try_clone().unwrap();
        let owner = Command::new("flock").args(["-n", "0"]).stdin(own).status().unwrap();
        assert!(owner.success(), "flock takes the turn");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(200));
                drop(turn);
            });
            kv::open(&at, access).unwrap();
        });
    }
}

/// Neither side keeps the other out, and no reader sees part of a batch or an old state, whether
/// the writer closed the store or was killed.
#[test]
fn readers_beside_a_writer_wait_and_see_the_last_synced_state() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [Engine::Zb, Engine::Cow] {
        let (at, kv) = made(dir.path(), engine);
        drop(kv);
        let synced = AtomicU64::new(0);
        let reading = || {
            for _ in 0..20 {
                let earlier = synced.load(Ordering::SeqCst);
                let found = read(&kv::open(&at, waiting(Access::Read)).unwrap());
                assert!(found >= earlier, "{found} after {earlier} was acknowledged");
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(reading);
            }
            for round in 1..=20 {
                if round % 2 == 1 {
                    write_and_be_killed(&at, round);
                    synced.store(round, Ordering::SeqCst);
                    continue;
                }
                let mut kv = kv::open(&at, waiting(Access::Write)).unwrap();
                write(&mut kv, round);
                synced.store(round, Ordering::SeqCst);
                kv.close().unwrap();
            }
        });
        assert_eq!(read(&kv::open(&at, Access::Read).unwrap()), 20);
    }
}

#[test]
fn a_backup_is_not_written_into_one_that_is_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let (_, kv) = made(dir.path(), Engine::Zb);
    let [path, draft] = ["saved", "saved.part"].map(|name| dir.path().join(name));
    std::fs::write(&draft, b"LITKVBAK of another process").unwrap();
    let other = File::open(&draft).unwrap();
    other.lock().unwrap();
    assert_eq!(kv::backup(&kv, &path).unwrap_err().kind(), Kind::Busy);
    assert!(!path.exists());
    assert_eq!(std::fs::read(&draft).unwrap(), b"LITKVBAK of another process");
    // A process that was killed leaves its draft without the lock. Closing the file would leave it
    // to a child that another test is starting.
    other.unlock().unwrap();
    assert_eq!(kv::backup(&kv, &path).unwrap(), KEYS);
    assert!(!draft.exists());
    assert_eq!(kv::backup(&kv, &path).unwrap_err().kind(), Kind::Exists, "it is not overwritten");
}
