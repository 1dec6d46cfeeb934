//! What a restart does with the redo logs of TL2 and of the replaying baseline.
//!
//! - A record is whole or it is not there: its checksum says which. A whole record was durable, or
//!   might as well have been, before its transaction was acknowledged.
//! - Records are applied in the order of their versions, and a version no object has got beyond is
//!   stored again: doing it twice changes nothing, and a record that was carried home long ago
//!   undoes nothing newer.
//! - Gaps in the versions are transactions that aborted or were never acknowledged; nothing durable
//!   depends on them, because their locks were held until they were durable.

use std::sync::atomic::Ordering::Relaxed;

use littoral_device::memory::Domain;
use littoral_stm::Result;

use super::heap::{checksum, durable};
use super::replay::LOG_BYTES;
use super::replay::{RING_WORDS, WORKERS_MAX, WRAP, place};

/// Where records lie in a worker's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logs {
    /// One record at the front ([`super::tl2::Tl2::redo`]).
    One,
    /// A ring behind the line that holds its tail ([`super::tl2::Tl2::replaying`]).
    Ring,
}

/// The words of the record whose `i`th word is `word(i)`, if it is whole.
fn record(word: impl Fn(u64) -> u64) -> Option<Vec<u64>> {
    let words = word(1);
    if word(0) == 0 || !(3..=RING_WORDS).contains(&words) {
        return None;
    }
    let all: Vec<u64> = (0..words).map(word).collect();
    (checksum(all[0], &all[3..]) == all[2]).then_some(all)
}

fn ring_records<D: Domain>(domain: &D, worker: usize, into: &mut Vec<Vec<u64>>) {
    let tail = domain.word(worker * LOG_BYTES, Relaxed);
    let mut at = tail;
    while at < tail + RING_WORDS {
        if domain.word(place(worker, at), Relaxed) == WRAP {
            at += RING_WORDS - at % RING_WORDS;
        }
        match record(|i| domain.word(place(worker, at + i), Relaxed)) {
            Some(found) => {
                at += found.len() as u64;
                into.push(found);
            }
            None => return,
        }
    }
}

/// Carries home what is durable in the logs; answers the number of objects stored.
///
/// # Errors
/// When the medium fails.
pub fn recover<D: Domain>(domain: &D, logs: Logs) -> Result<usize> {
    let mut records = Vec::new();
    for worker in 0..WORKERS_MAX {
        match logs {
            Logs::One => {
                let word = |i: u64| domain.word(worker * LOG_BYTES + 8 * i as usize, Relaxed);
                records.extend(record(word));
            }
            Logs::Ring => ring_records(domain, worker, &mut records),
        }
    }
    records.sort();
    let stored = records.iter().map(|r| apply(domain, r)).sum();
    durable(domain)?;
    Ok(stored)
}

fn apply<D: Domain>(domain: &D, record: &[u64]) -> usize {
    let (version, mut rest, mut stored) = (record[0], &record[3..], 0);
    while let [target, head, more @ ..] = rest {
        let (at, count) = (*target as usize, (head >> 1) as usize);
        let (payload, behind) = more.split_at(count);
        if domain.word(at, Relaxed) >> 1 <= version {
            domain.store(at, version << 1 | head & 1, Relaxed);
            domain.store_words(at + 8, payload);
            domain.write_back(at, 8 * (1 + count));
            stored += 1;
        }
        rest = behind;
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::super::engine::{Engine, Worker};
    use super::super::tl2::{HEAP_AT, Tl2};
    use super::super::work::{self, Write};
    use super::*;
    use littoral_device::pmem::Sim;
    use littoral_device::pmem::trace::Enumerate;
    use std::sync::Arc;

    fn survives(logs: Logs) {
        let memory = || Arc::new(Sim::new(HEAP_AT + (16 << 10)));
        let home = memory();
        let engine = match logs {
            Logs::One => Tl2::redo(Arc::clone(&home)),
            Logs::Ring => Tl2::replaying(memory(), Arc::clone(&home)),
        };
        let objects = work::objects(&engine, 4).unwrap();
        let mut worker = engine.worker().unwrap();
        let all = [0, 1, 2, 3];
        worker.update(&mut Write { objects: &objects, picks: &all, value: 1 }).unwrap();
        engine.settle();
        home.settle();
        worker.update(&mut Write { objects: &objects, picks: &all, value: 2 }).unwrap();
        engine.settle();
        let how = Enumerate { images_per_point_max: 8, ..Enumerate::default() };
        let coverage = home.trace().enumerate(&how, |image| {
            let sim = Sim::from_image(image.words);
            recover(&sim, logs).map_err(|e| e.to_string())?;
            let value = |i: usize| sim.word(objects[i].offset() as usize + 8, Relaxed);
            let found = all.map(value);
            let fine = found == [2; 4] || (found == [1; 4] && image.acknowledged == 0);
            if fine { Ok(()) } else { Err(format!("{found:?}")) }
        });
        assert_eq!(coverage.failure, None);
        assert!(coverage.images_count > 30);
    }

    #[test]
    fn a_redo_log_survives_every_power_cut() {
        survives(Logs::One);
    }

    #[test]
    fn rings_survive_every_power_cut() {
        survives(Logs::Ring);
    }
}
