//! An index in a directory: reopened, killed, filled, and refused what it should refuse.

#![cfg(feature = "index")]
#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

mod small;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use littoral::kv::{self, Access, Durability, Engine, Kv, Options};
use littoral_base::rng::{self, Rng};
use littoral_index::Kind;

use small::small;

/// A library's user may forget to close a store; a batch that waits for its sync is not lost.
#[test]
fn a_store_that_is_dropped_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [Engine::Zb, Engine::Cow] {
        let at = dir.path().join(engine.name());
        let mut kv = kv::create_file(&at, &small(engine)).unwrap();
        kv.set_durability(Durability::Batch);
        for i in 0..50u64 {
            kv.put(&i.to_be_bytes(), &i.to_le_bytes()).unwrap();
        }
        drop(kv);
        let closed = std::fs::read(at.join("zones")).unwrap();
        let kv = kv::open(&at, Access::Read).unwrap();
        assert_eq!(kv.stats().records_count, 50, "{engine:?}");
        kv.check().unwrap();
        drop(kv);
        assert!(closed == std::fs::read(at.join("zones")).unwrap(), "a reader closes nothing");
    }
}

/// Nothing takes so long unless it hangs.
const HANG: Duration = Duration::from_secs(300);

#[test]
fn records_come_back_and_wrong_use_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [Engine::Zb, Engine::Cow] {
        let at = dir.path().join(engine.name());
        let mut kv = kv::create_file(&at, &small(engine)).unwrap();
        assert_eq!(kv::open(&at, Access::Write).unwrap_err().kind(), Kind::Busy);
        let (mut ack, text) = (Vec::new(), "b\t2\na\t1\n");
        assert_eq!(kv.load(text.as_bytes(), "t.tsv", Some(&mut ack)).unwrap(), 2);
        assert_eq!(ack, b"b\na\n");
        let e = kv.load("c\t3\nno tab\n".as_bytes(), "t.tsv", None).unwrap_err();
        assert!(e.kind() == Kind::Usage && e.to_string().starts_with("t.tsv:2"), "{e}");
        let e = kv.load("a key too long\t3\n".as_bytes(), "t.tsv", None).unwrap_err();
        assert!(e.to_string().contains("takes 8"), "{e}");
        assert!(kv.delete(b"b\0\0\0\0\0\0\0").unwrap());
        drop(kv);
        assert_eq!(kv::create_file(&at, &small(engine)).unwrap_err().kind(), Kind::Exists);
        let before = std::fs::read(at.join("zones")).unwrap();
        let mut kv = kv::open(&at, Access::Read).unwrap();
        assert_eq!(kv.get(b"a\0\0\0\0\0\0\0").unwrap(), Some(b"1\0\0\0\0\0\0\0".to_vec()));
        assert_eq!(kv.put(&[1; 8], &[1; 8]).unwrap_err().kind(), Kind::Usage);
        kv.check().unwrap();
        drop(kv);
        assert!(before == std::fs::read(at.join("zones")).unwrap(), "reading changes nothing");
        let kv = kv::open(&at, Access::Write).unwrap();
        let mut keys = vec![];
        kv.scan(None, None, |k, _| {
            keys.push(k[0]);
            true
        })
        .unwrap();
        assert_eq!(keys, b"ac");
        assert_eq!(kv.stats().records_count, 2);
        kv.check().unwrap();
    }
}

/// Endless lines of `number TAB number`.
struct Lines {
    next: u64,
    left: Vec<u8>,
}

impl Read for Lines {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.left.is_empty() {
            // Scattered keys: the product with an odd number is a bijection of eight digits.
            let key = self.next.wrapping_mul(48_271) % 99_999_989;
            self.left = format!("{key:08}\t{:08}\n", self.next).into_bytes();
            self.next += 1;
        }
        let n = self.left.len().min(into.len());
        into[..n].copy_from_slice(&self.left[..n]);
        self.left.drain(..n);
        Ok(n)
    }
}

/// Waits until something is acknowledged, however slow the machine is.
fn until_written(ack: &Path) {
    let begun = Instant::now();
    while std::fs::metadata(ack).unwrap().len() == 0 {
        assert!(begun.elapsed() < HANG, "nothing is acknowledged");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The victim of `kill_9_loses_nothing_acknowledged`, which runs this test in a process of its own.
#[test]
#[ignore = "runs until it is killed; another test starts it"]
fn load_until_killed() {
    let var = |name: &str| std::env::var(name).unwrap();
    let (dir, engine) = (PathBuf::from(var("KV_DIR")), Engine::named(&var("KV_ENGINE")).unwrap());
    let mut kv = match dir.join("zones").exists() {
        true => kv::open(&dir, Access::Write).unwrap(),
        false => kv::create_file(&dir, &Options::new(engine, 1)).unwrap(),
    };
    let lines = Lines { next: kv.index().len(), left: Vec::new() };
    let mut ack = OpenOptions::new().append(true).open(var("KV_ACK")).unwrap();
    kv.load(BufReader::new(lines), "generated", Some(&mut ack)).unwrap();
}

#[test]
fn kill_9_loses_nothing_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [Engine::Zb, Engine::Cow] {
        let at = dir.path().join(engine.name());
        let ack = dir.path().join(format!("{}.ack", engine.name()));
        std::fs::write(&ack, "").unwrap();
        for round in 0..8 {
            let mut victim = Command::new(std::env::current_exe().unwrap());
            victim.args(["load_until_killed", "--exact", "--ignored"]);
            victim.env("KV_DIR", &at).env("KV_ENGINE", engine.name()).env("KV_ACK", &ack);
            let mut child = victim.stdout(std::process::Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(120 + 67 * round));
            if round == 7 {
                until_written(&ack);
            }
            child.kill().unwrap();
            child.wait().unwrap();
            let acknowledged = std::fs::read_to_string(&ack).unwrap();
            if !at.join("zones").exists() {
                assert!(acknowledged.is_empty());
                continue;
            }
            let kv = kv::open(&at, Access::Write).unwrap();
            kv.check().unwrap();
            // The last line may have been cut short by the kill.
            for key in acknowledged.lines().filter(|l| l.len() == 8) {
                assert!(kv.get(key.as_bytes()).unwrap().is_some(), "{engine:?}: {key} is gone");
            }
        }
        assert!(!std::fs::read_to_string(&ack).unwrap().is_empty(), "something was acknowledged");
    }
}

/// Random changes of a small store that is nearly full, each written to the acknowledgement file
/// once it is durable: `put`, key and value, or `del` and key.
#[test]
#[ignore = "runs until it is killed; another test starts it"]
fn change_until_killed() {
    let var = |name: &str| std::env::var(name).unwrap();
    let mut kv = kv::open(&PathBuf::from(var("KV_DIR")), Access::Write).unwrap();
    let mut ack = OpenOptions::new().append(true).open(var("KV_ACK")).unwrap();
    let mut rng = rng::stream(var("KV_ROUND").parse().unwrap(), "changes");
    loop {
        let (key, value) = (rng.random_range(0..KEYS), rng.random::<u32>());
        let bytes = format!("{key:08}").into_bytes();
        let line = if rng.random_range(0..10) < 7 {
            match kv.put(&bytes, format!("{value:08x}").as_bytes()) {
                Err(e) if e.kind() == Kind::Full => continue,
                other => other.unwrap(),
            };
            format!("put {key:08} {value:08x}\n")
        } else {
            kv.delete(&bytes).unwrap();
            format!("del {key:08}\n")
        };
        ack.write_all(line.as_bytes()).unwrap();
    }
}

const KEYS: u32 = 20_000;

type Contents = BTreeMap<String, String>;

fn apply(contents: &mut Contents, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["put", key, value] => contents.insert(key.to_owned(), value.to_owned()),
        ["del", key] => contents.remove(key),
        _ => panic!("not a change: {line}"),
    };
}

fn held(kv: &Kv) -> Contents {
    let mut found = Contents::new();
    let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
    kv.scan(None, None, |k, v| found.insert(text(k), text(v)).is_none()).unwrap();
    found
}

/// Overwrites, deletions, sealing and collecting: whatever runs when the process is killed, the
/// store holds every acknowledged change and at most the one that was under way besides.
#[test]
fn kill_9_during_deletions_sealing_and_collecting_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [Engine::Zb, Engine::Cow] {
        let (at, ack) = (dir.path().join(engine.name()), dir.path().join("ack"));
        let mut kv = kv::create_file(&at, &small(engine)).unwrap();
        let lines = (0..KEYS / 2).map(|i| format!("{:08}\t{i:08x}\n", 2 * i)).collect::<String>();
        kv.load(lines.as_bytes(), "first", None).unwrap();
        let mut known = held(&kv);
        drop(kv);
        let mut changes = 0;
        for round in 0..6u64 {
            std::fs::write(&ack, "").unwrap();
            let mut victim = Command::new(std::env::current_exe().unwrap());
            victim.args(["change_until_killed", "--exact", "--ignored"]);
            victim.env("KV_DIR", &at).env("KV_ACK", &ack).env("KV_ROUND", round.to_string());
            let mut child = victim.stdout(std::process::Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(250 + 83 * round));
            if round == 5 {
                until_written(&ack);
            }
            child.kill().unwrap();
            child.wait().unwrap();
            let kv = kv::open(&at, Access::Write).unwrap();
            kv.check().unwrap();
            let acknowledged = std::fs::read_to_string(&ack).unwrap();
            // The last line may have been cut short by the kill; its change is durable.
            let whole = acknowledged.rfind('\n').map_or(0, |end| end + 1);
            for line in acknowledged[..whole].lines() {
                apply(&mut known, line);
                changes += 1;
            }
            let found = held(&kv);
            let differ = known.iter().filter(|&(k, v)| found.get(k) != Some(v)).count();
            let new = found.keys().filter(|&k| !known.contains_key(k)).count();
            assert!(differ + new <= 1, "{engine:?}, round {round}: {differ} and {new} differ");
            known = found;
        }
        assert!(changes > 0, "{engine:?}: something was acknowledged");
    }
}

#[test]
fn a_full_store_keeps_what_it_acknowledged_and_takes_overwrites_and_deletions() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = small(Engine::Zb);
    options.geometry.sequential_zones = 5;
    let mut kv = kv::create_file(&dir.path().join("full"), &options).unwrap();
    let (mut ack, lines) = (Vec::new(), BufReader::new(Lines { next: 0, left: Vec::new() }));
    let e = kv.load(lines, "endless", Some(&mut ack)).unwrap_err();
    assert!(e.kind() == Kind::Full && e.to_string().starts_with("endless:"), "{e}");
    let acknowledged = String::from_utf8(ack).unwrap();
    let keys: Vec<&[u8]> = acknowledged.lines().map(str::as_bytes).collect();
    assert_eq!(keys.len() as u64, kv.index().len());
    kv.set_durability(Durability::Batch);
    for key in keys.iter().step_by(5) {
        assert!(!kv.put(key, b"overlaid").unwrap());
    }
    for key in keys.iter().step_by(15) {
        assert!(kv.delete(key).unwrap());
    }
    kv.sync().unwrap();
    kv.check().unwrap();
    drop(kv);
    let kv = kv::open(&dir.path().join("full"), Access::Read).unwrap();
    for (i, key) in keys.iter().enumerate() {
        let value = kv.get(key).unwrap();
        match i % 15 {
            0 => assert_eq!(value, None, "record {i}"),
            5 | 10 => assert_eq!(value, Some(b"overlaid".to_vec()), "record {i}"),
            _ => assert!(value.is_some_and(|v| v != b"overlaid"), "record {i}"),
        }
    }
}
