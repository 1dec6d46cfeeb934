//! An index in a directory: reopened, killed, filled, and refused what it should refuse.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use std::fs::OpenOptions;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use littoral_device::zoned::zones::Geometry;
use littoral_index::Kind;
use littoral_index::index::Engine;
use littoral_index::kv::{Access, Kv, Options};

fn small(engine: Engine) -> Options {
    let options = Options::new(engine, 7);
    let geometry = Geometry {
        conventional_zones: 1,
        sequential_zones: 7,
        zone_blocks: 130,
        capacity_blocks: 101,
        open_zones_max: 2,
        active_zones_max: 4,
        ..options.geometry
    };
    Options { geometry, ..options }
}

#[test]
fn records_come_back_and_wrong_use_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for engine in [Engine::Zb, Engine::Cow] {
        let at = dir.path().join(engine.name());
        let mut kv = Kv::create(&at, &small(engine)).unwrap();
        assert_eq!(Kv::open(&at, Access::Write).unwrap_err().kind(), Kind::Busy);
        let (mut ack, text) = (Vec::new(), "b\t2\na\t1\n");
        assert_eq!(kv.load(text.as_bytes(), "t.tsv", Some(&mut ack)).unwrap(), 2);
        assert_eq!(ack, b"b\na\n");
        let e = kv.load("c\t3\nno tab\n".as_bytes(), "t.tsv", None).unwrap_err();
        assert!(e.kind() == Kind::Usage && e.to_string().starts_with("t.tsv:2"), "{e}");
        let e = kv.load("a key too long\t3\n".as_bytes(), "t.tsv", None).unwrap_err();
        assert!(e.to_string().contains("takes 8"), "{e}");
        assert!(kv.delete(b"b\0\0\0\0\0\0\0").unwrap());
        drop(kv);
        assert_eq!(Kv::create(&at, &small(engine)).unwrap_err().kind(), Kind::Busy);
        let before = std::fs::read(at.join("zones")).unwrap();
        let mut kv = Kv::open(&at, Access::Read).unwrap();
        assert_eq!(kv.get(b"a\0\0\0\0\0\0\0").unwrap(), Some(b"1\0\0\0\0\0\0\0".to_vec()));
        assert_eq!(kv.put(&[1; 8], &[1; 8]).unwrap_err().kind(), Kind::Usage);
        kv.check().unwrap();
        drop(kv);
        assert!(before == std::fs::read(at.join("zones")).unwrap(), "reading changes nothing");
        let kv = Kv::open(&at, Access::Write).unwrap();
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

/// The victim of `kill_9_loses_nothing_acknowledged`, which runs this test in a process of its own.
#[test]
#[ignore = "runs until it is killed; another test starts it"]
fn load_until_killed() {
    let var = |name: &str| std::env::var(name).unwrap();
    let (dir, engine) = (PathBuf::from(var("KV_DIR")), Engine::named(&var("KV_ENGINE")).unwrap());
    let mut kv = match dir.join("zones").exists() {
        true => Kv::open(&dir, Access::Write).unwrap(),
        false => Kv::create(&dir, &Options::new(engine, 1)).unwrap(),
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
            child.kill().unwrap();
            child.wait().unwrap();
            let acknowledged = std::fs::read_to_string(&ack).unwrap();
            if !at.join("zones").exists() {
                assert!(acknowledged.is_empty());
                continue;
            }
            let kv = Kv::open(&at, Access::Write).unwrap();
            kv.check().unwrap();
            // The last line may have been cut short by the kill.
            for key in acknowledged.lines().filter(|l| l.len() == 8) {
                assert!(kv.get(key.as_bytes()).unwrap().is_some(), "{engine:?}: {key} is gone");
            }
        }
        assert!(!std::fs::read_to_string(&ack).unwrap().is_empty(), "something was acknowledged");
    }
}
