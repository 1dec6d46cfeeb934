//! The baselines' object heap: one version an object, a header word in front, bump and free lists.
//!
//! - An object is {header, payload words}, rounded up to 32 bytes, so that three words of payload
//!   take half a line: half of what two versions take.
//! - The header is zero for a free object; what else it means is the engine's. Free lists are
//!   volatile; a restart would find free objects by their headers, as ours does by its stamps.

use std::sync::Mutex;

use littoral_device::memory::Domain;
use littoral_stm::{Error, Kind, Result};

const BATCH: usize = 64;

/// Bytes of an object with `words` of payload.
pub(super) fn object_bytes(words: usize) -> usize {
    (8 * (words + 1)).next_multiple_of(32)
}

#[derive(Debug)]
struct Space {
    next: usize,
    end: usize,
    free: Vec<(usize, Vec<u64>)>,
}

/// A heap from some offset of a domain to its end.
#[derive(Debug)]
pub(super) struct Heap<D> {
    pub(super) domain: D,
    space: Mutex<Space>,
}

/// A thread's free objects, by size.
#[derive(Debug, Default)]
pub(super) struct Local {
    lists: Vec<(usize, Vec<u64>)>,
}

fn list(lists: &mut Vec<(usize, Vec<u64>)>, bytes: usize) -> &mut Vec<u64> {
    let at = lists.iter().position(|(b, _)| *b == bytes).unwrap_or(lists.len());
    if at == lists.len() {
        lists.push((bytes, Vec::new()));
    }
    &mut lists[at].1
}

impl<D: Domain> Heap<D> {
    pub(super) fn new(domain: D, from: usize) -> Self {
        let end = domain.len();
        Heap { domain, space: Mutex::new(Space { next: from, end, free: Vec::new() }) }
    }

    /// A free object for `words` of payload.
    pub(super) fn take(&self, local: &mut Local, words: usize) -> Result<u64> {
        let bytes = object_bytes(words);
        let mine = list(&mut local.lists, bytes);
        if let Some(at) = mine.pop() {
            return Ok(at);
        }
        let mut space = self.space.lock().expect("invariant: no panic inside");
        let shared = list(&mut space.free, bytes);
        mine.extend(shared.drain(shared.len().saturating_sub(BATCH)..));
        if mine.is_empty() {
            let batch = BATCH.min((space.end - space.next) / bytes);
            mine.extend((0..batch).rev().map(|i| (space.next + i * bytes) as u64));
            space.next += batch * bytes;
        }
        mine.pop().ok_or_else(|| Error::new(Kind::Full, "the baseline's heap is full"))
    }

    /// Gives an object back.
    pub(super) fn give(&self, local: &mut Local, at: u64, words: usize) {
        let bytes = object_bytes(words);
        let mine = list(&mut local.lists, bytes);
        mine.push(at);
        if mine.len() >= 4 * BATCH {
            let mut space = self.space.lock().expect("invariant: no panic inside");
            list(&mut space.free, bytes).extend(mine.drain(..2 * BATCH));
        }
    }
}
