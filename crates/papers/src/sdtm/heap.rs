//! The baselines' object heap: one version an object, a header word in front, bump and free lists.
//!
//! - An object is {header, payload words}, rounded up to 32 bytes, so that three words of payload
//!   take half a line: half of what two versions take.
//! - What the header means is the engine's; an engine that walks its heap after a crash has the
//!   headers of a new batch written before any of its objects is used. Free lists are
//!   volatile; a restart would find free objects by their headers, as ours does by its stamps.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::sync::atomic::Ordering::Relaxed;

use littoral_device::memory::Domain;
use littoral_stm::{Error, Kind, Look, Record, Ref, Result, Words};

const BATCH: usize = 64;

/// Copies the payload at `payload`.
#[inline(always)]
pub(super) fn read_at<T: Record>(domain: &impl Domain, payload: usize) -> T {
    match domain.words(payload, T::WORDS) {
        Some(words) => T::load(|i| words[i].load(Relaxed)),
        None => T::load(|i| domain.word(payload + 8 * i, Relaxed)),
    }
}

/// Calls `look` with an object's payload, in place where the domain can.
#[inline(always)]
pub(super) fn look_at<T: Record, L: Look>(domain: &impl Domain, at: Ref<T>, mut look: L) -> L::Out {
    let payload = at.offset() as usize + 8;
    if let Some(words) = domain.words(payload, T::WORDS) {
        return look.look(Words::in_place(words));
    }
    let mut copy = vec![0; T::WORDS];
    domain.load_words(payload, &mut copy);
    look.look(Words::copied(&copy))
}

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
    bytes_of: fn(usize) -> usize,
    /// What a new object's header is set to, durably.
    head_of: Option<fn(usize) -> u64>,
}

/// A fence as the engines' errors have it.
pub(super) fn durable<D: Domain>(domain: &D) -> Result<()> {
    domain.fence().map_err(|e| Error::with_source(Kind::Device, "fence", e))
}

/// A checksum of log words under `salt` that tells a torn record from a whole one: one
/// multiplication a word, since a log's checksum is on every baseline's path.
pub(super) fn checksum(salt: u64, words: &[u64]) -> u64 {
    words.iter().fold(salt ^ 0x9e37_79b9_7f4a_7c15, |sum, &word| {
        let wide = u128::from(sum ^ word | 1) * 0xd6e8_feb8_6659_fd93;
        (wide as u64 ^ (wide >> 64) as u64).wrapping_add(word)
    })
}

/// A thread's free objects, by words of payload.
#[derive(Debug, Default)]
pub(super) struct Local {
    lists: Vec<(usize, Vec<u64>)>,
}

fn list(lists: &mut Vec<(usize, Vec<u64>)>, words: usize) -> &mut Vec<u64> {
    let at = lists.iter().position(|(w, _)| *w == words).unwrap_or(lists.len());
    if at == lists.len() {
        lists.push((words, Vec::new()));
    }
    &mut lists[at].1
}

impl<D: Domain> Heap<D> {
    pub(super) fn new(domain: D, from: usize) -> Self {
        let space = Mutex::new(Space { next: from, end: domain.len(), free: Vec::new() });
        Heap { domain, space, bytes_of: object_bytes, head_of: None }
    }

    /// A heap of objects of the engine's own sizes, whose headers are durable from the start.
    pub(super) fn with_heads(
        domain: D,
        from: usize,
        bytes_of: fn(usize) -> usize,
        head_of: fn(usize) -> u64,
    ) -> Self {
        Heap { bytes_of, head_of: Some(head_of), ..Heap::new(domain, from) }
    }

    fn write_heads(&self, words: usize, at: usize, count: usize) -> Result<()> {
        let Some(head_of) = self.head_of else { return Ok(()) };
        for i in 0..count {
            let head = at + i * (self.bytes_of)(words);
            self.domain.store(head, head_of(words), Ordering::Relaxed);
            self.domain.write_back(head, 8);
        }
        durable(&self.domain)
    }

    /// A free object for `words` of payload.
    pub(super) fn take(&self, local: &mut Local, words: usize) -> Result<u64> {
        let bytes = (self.bytes_of)(words);
        let mine = list(&mut local.lists, words);
        if let Some(at) = mine.pop() {
            return Ok(at);
        }
        let mut space = self.space.lock().expect("invariant: no panic inside");
        let shared = list(&mut space.free, words);
        mine.extend(shared.drain(shared.len().saturating_sub(BATCH)..));
        if mine.is_empty() {
            let batch = BATCH.min((space.end - space.next) / bytes);
            self.write_heads(words, space.next, batch)?;
            mine.extend((0..batch).rev().map(|i| (space.next + i * bytes) as u64));
            space.next += batch * bytes;
        }
        mine.pop().ok_or_else(|| Error::new(Kind::Full, "the baseline's heap is full"))
    }

    /// Gives an object back.
    pub(super) fn give(&self, local: &mut Local, at: u64, words: usize) {
        let mine = list(&mut local.lists, words);
        mine.push(at);
        if mine.len() >= 4 * BATCH {
            let mut space = self.space.lock().expect("invariant: no panic inside");
            list(&mut space.free, words).extend(mine.drain(..2 * BATCH));
        }
    }
}
