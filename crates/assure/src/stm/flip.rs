//! Flipped bits: a pool with one bit of its metadata changed is refused, or holds what it held.
//!
//! - Metadata are the superblock, frontier lines, the slab table, both stamps of every object, and
//!   root records. Payloads are the user's; structures have a check of their own
//!   ([`Pool::check_structures`]).
//! - The pool holds several types, structures, names, freed objects, a slab that was given back,
//!   and what crashes leave: active slots, dead clocks, versions that never committed.
//! - A pool that opens is walked and compared object by object, stamps included. Then one more
//!   transaction runs, and the pool is opened and compared once more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;

use littoral_base::rng::{self, Rng};
use littoral_device::memory::Domain;
use littoral_device::pmem::Dram;

use littoral_stm::structures::{BTree, HashMap, Map, Queue};
use littoral_stm::{Abort, ObjectView, Options, Pool, Ref, Restart, Result, RootView};

littoral_stm::record! {
    struct Small = "littoral.assure.small/1" { value: u64 }
}
littoral_stm::record! {
    struct Large = "littoral.assure.large/1" { words: [u64; 9] }
}

/// What became of pools with one bit changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Bits changed, one at a time.
    pub bits_count: u64,
    /// Pools that were refused with an error.
    pub refused_count: u64,
    /// Pools that held what they had held.
    pub harmless_count: u64,
    /// Pools that opened and held something else.
    pub silent_count: u64,
    /// Pools that ended in a panic.
    pub panics_count: u64,
    /// The first offset and bit that was silent or ended in a panic.
    pub first: Option<(usize, u32)>,
}

/// The living objects of a pool, and its roots.
type Held = (Vec<ObjectView>, Vec<RootView>);

/// What the next transaction writes.
const NEXT: u64 = 77;

/// A pool's image and what it holds.
struct Sample {
    words: Vec<u64>,
    small: Ref<Small>,
    held: Held,
    /// Offsets of words that are metadata.
    metadata: Vec<usize>,
}

fn held<D: Domain>(pool: &Pool<D>) -> Result<Held> {
    let mut objects = Vec::new();
    pool.walk(|o| {
        objects.push(o.clone());
        true
    })?;
    Ok((objects, pool.roots()?))
}

fn image<D: Domain>(domain: &D) -> Vec<u64> {
    (0..domain.len()).step_by(8).map(|at| domain.word(at, Relaxed)).collect()
}

fn from_image(words: &[u64]) -> Dram {
    let domain = Dram::new(8 * words.len());
    domain.store_words(0, words);
    domain
}

impl Sample {
    fn make() -> Result<Sample> {
        let options = Options { threads_max: 5, slab_bytes: Some(2048) };
        let mut pool = Pool::create(Dram::new(64 << 10), &options)?;
        let small = populate(&pool)?;
        for round in 0..3u64 {
            // A session that ends without a word, twice with a slot beside the first.
            let mut th = pool.thread()?;
            let beside = pool.thread()?;
            th.atomically(|tx| tx.write(small, &Small { value: round }))?;
            std::mem::forget((th, beside));
            pool = Pool::open(pool.into_domain(), Restart::Lazy)?;
        }
        std::mem::forget(pool.thread()?);
        let words = image(pool.domain());
        // As the next restart finds it: stamps are compared as they are after that.
        let pool = Pool::open(from_image(&words), Restart::Scan)?;
        let metadata = pool.metadata_words();
        Ok(Sample { small, held: held(&pool)?, metadata, words })
    }

    /// Changes one bit; none where the pool was refused, otherwise whether it held what it should.
    fn judge(&self, at: usize, bit: u32, restart: Restart) -> Option<bool> {
        let mut words = self.words.clone();
        words[at / 8] ^= 1 << bit;
        let pool = Pool::open(from_image(&words), restart).ok()?;
        let found = held(&pool).ok()?;
        if found != self.held {
            return Some(false);
        }
        let next = |pool: &Pool<Dram>| -> Result<u64> {
            let mut th = pool.thread()?;
            th.atomically(|tx| tx.update(self.small, |s| s.value = NEXT))?;
            Ok(th.read_only(|tx| tx.read(self.small))?.value)
        };
        let wrote = next(&pool).ok()?;
        let again = Pool::open(pool.into_domain(), Restart::Scan).and_then(|p| held(&p));
        Some(wrote == NEXT && again.is_ok_and(|again| self.is_followed_by(&again)))
    }

    /// Whether this is what the pool holds after the next transaction: one object has its value,
    /// all others and the roots are as they were.
    fn is_followed_by(&self, (objects, roots): &Held) -> bool {
        let is_next = |found: &ObjectView, before: &ObjectView| match before.offset {
            at if at == self.small.offset() => found.offset == at && found.words == [NEXT],
            _ => found == before,
        };
        let pairs = objects.iter().zip(&self.held.0);
        let is_whole = objects.len() == self.held.0.len() && *roots == self.held.1;
        is_whole && pairs.into_iter().all(|(found, before)| is_next(found, before))
    }
}

/// Objects of every kind; answers one that stays alone.
fn populate(pool: &Pool<Dram>) -> Result<Ref<Small>> {
    let mut th = pool.thread()?;
    // Memory of one type that goes to another.
    let large = std::iter::from_fn(|| th.atomically(|tx| tx.alloc(&Large { words: [3; 9] })).ok());
    let large: Vec<Ref<Large>> = large.collect();
    for some in large.chunks(10).skip(1) {
        th.atomically(|tx| some.iter().try_for_each(|&at| tx.free(at)))?;
    }
    let small = th.atomically(|tx| tx.alloc(&Small { value: 1 }))?;
    th.atomically(|tx| -> Result<(), Abort> {
        let map = HashMap::create(tx, 4)?;
        let tree = BTree::create(tx)?;
        let queue = Queue::create(tx)?;
        for key in 0..20 {
            map.insert(tx, key, key)?;
            tree.insert(tx, key, key)?;
            queue.push(tx, key)?;
        }
        tx.set_root("map", map.at())?;
        tx.set_root("tree", tree.at())?;
        tx.set_root("a queue with a long name, 32 byt", queue.at())
    })?;
    let passing = th.atomically(|tx| tx.alloc(&Small { value: 2 }))?;
    th.atomically(|tx| tx.set_root("passing", passing))?;
    th.atomically(|tx| tx.free(passing))?;
    Ok(small)
}

/// Changes `bits` bits of metadata, each in a copy of the same pool.
///
/// # Errors
/// Errors of the pool before anything was changed; what a changed pool answers is a finding.
pub fn run(bits: u64, seed: u64) -> Result<Findings> {
    let sample = Sample::make()?;
    let mut rng = rng::stream(seed, "flips");
    let mut findings = Findings::default();
    for number in 0..bits {
        let at = sample.metadata[rng.random_range(0..sample.metadata.len())];
        let bit = rng.random_range(0..64u32);
        let restart = if number % 2 == 0 { Restart::Lazy } else { Restart::Scan };
        let judged = catch_unwind(AssertUnwindSafe(|| sample.judge(at, bit, restart)));
        let count = match judged {
            Ok(None) => &mut findings.refused_count,
            Ok(Some(true)) => &mut findings.harmless_count,
            Ok(Some(false)) => &mut findings.silent_count,
            Err(_) => &mut findings.panics_count,
        };
        *count += 1;
        findings.bits_count += 1;
        if findings.silent_count + findings.panics_count > 0 {
            findings.first = findings.first.or(Some((at, bit)));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_next_transaction_is_its_value_and_nothing_else() {
        let sample = Sample::make().unwrap();
        assert!(!sample.is_followed_by(&sample.held), "the transaction is lost");
        let mut next = sample.held.clone();
        let at = next.0.iter().position(|o| o.offset == sample.small.offset()).unwrap();
        next.0[at].words = vec![NEXT];
        assert!(sample.is_followed_by(&next));
        let other = (at + 1) % next.0.len();
        next.0[other].words[0] ^= 1;
        assert!(!sample.is_followed_by(&next), "another object has changed");
        next.0[other].words[0] ^= 1;
        next.1.pop();
        assert!(!sample.is_followed_by(&next), "a name is lost");
    }
}
