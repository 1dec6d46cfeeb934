//! kill -9 in the middle of transactions (those of the example `keep`): what was acknowledged is
//! there, nothing is half done.
#![cfg(not(any(loom, shuttle)))]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use littoral_device::pmem::Msync;
use littoral_stm::structures::{HashMap, Map};
use littoral_stm::{Pool, Restart};

const CHILD: &str = "LITTORAL_TEST_POOL";

#[path = "../examples/keep.rs"]
mod keep;

/// The child's part is the example: it counts for ever, printing what was acknowledged.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    keep::count_for_ever(std::path::Path::new(&path)).unwrap();
}

#[test]
fn a_map_survives_kill_9_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let mut acknowledged = 0;
    for round in 0..3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let acks = lines.filter_map(|l| l.unwrap().strip_prefix("ack ")?.parse::<u64>().ok());
        acknowledged = acks.take(20 + round * 7).last().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let pool = Pool::open(Msync::open(&path).unwrap(), Restart::Lazy).unwrap();
        let mut th = pool.thread().unwrap();
        th.read_only(|tx| {
            let at = tx.root("counts")?.expect("the map is there");
            let map = HashMap::open(tx, at)?;
            let n = map.get(tx, 0)?.expect("the count is there");
            assert!(n >= acknowledged, "{n} counted, {acknowledged} acknowledged");
            for i in 1..=n {
                assert_eq!(map.get(tx, i)?, Some(i * i));
            }
            assert_eq!(map.get(tx, n + 1)?, None);
            Ok(())
        })
        .unwrap();
    }
    assert!(acknowledged >= 60, "each round went on where the last ended: {acknowledged}");
}
