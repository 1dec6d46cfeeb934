//! Pools of persistent memory with changed words: refused, or opened and checked, never a panic.
//!
//! An input is a list of {which word, eight bytes} written over a pool that holds each structure.
//! What opens is walked, and its roots and every structure are checked as `heap check` does.
//!
//! Canary: before the first input the pool must open, be sound, and be refused with a wrong first
//! word.

#![no_main]

use std::sync::LazyLock;
use std::sync::atomic::Ordering::Relaxed;

use libfuzzer_sys::fuzz_target;
use littoral_device::memory::Domain;
use littoral_device::pmem::Dram;
use littoral_stm::structures::{BTree, HashMap, Map, Queue, SearchTree, SortedList};
use littoral_stm::{Abort, Options, Pool, Restart};

/// Bytes of the pool: small, so that edits meet metadata often.
const BYTES: usize = 64 << 10;

static POOL: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let options = Options { threads_max: 3, slab_bytes: Some(2048) };
    let pool = Pool::create(Dram::new(BYTES), &options).expect("a pool");
    let mut th = pool.thread().expect("a thread");
    let filled = th.atomically(|tx| -> Result<(), Abort> {
        let (tree, map) = (BTree::create(tx)?, HashMap::create(tx, 2)?);
        let (bst, list, queue) =
            (SearchTree::create(tx)?, SortedList::create(tx)?, Queue::create(tx)?);
        for key in 0..20u64 {
            tree.insert(tx, key, key)?;
            map.insert(tx, key, key)?;
            bst.insert(tx, key, key)?;
            list.insert(tx, key, key)?;
            queue.push(tx, key)?;
        }
        tx.set_root("tree", tree.at())?;
        tx.set_root("map", map.at())
    });
    filled.expect("room for twenty keys");
    drop(th);
    let domain = pool.into_domain();
    let words: Vec<u64> = (0..BYTES).step_by(8).map(|at| domain.word(at, Relaxed)).collect();
    assert!(read(&words), "canary: the pool is sound");
    let mut foreign = words.clone();
    foreign[0] ^= 1;
    assert!(!read(&foreign), "canary: a foreign pool is refused");
    words
});

/// Whether the pool opens and is sound.
fn read(words: &[u64]) -> bool {
    let domain = Dram::new(BYTES);
    domain.store_words(0, words);
    let Ok(pool) = Pool::open(domain, Restart::Scan) else { return false };
    let walked = pool.walk(|_| true).is_ok() && pool.roots().is_ok();
    pool.check_structures().is_ok() && walked
}

fuzz_target!(|data: &[u8]| {
    let mut words = POOL.clone();
    for edit in data.chunks_exact(10) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % words.len();
        let bytes: [u8; 8] = edit[2..].try_into().expect("eight bytes");
        words[at] ^= u64::from_le_bytes(bytes);
    }
    read(&words);
});
