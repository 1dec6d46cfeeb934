//! Counting what a domain is asked to do, and what a medium with 256-byte lines would write for it.
//!
//! - Fences, lines written back, distinct 256-byte media lines between two fences: deterministic
//!   under one thread, and therefore figures of the clock *count*.
//! - Media bytes come from a write-combining model: a least-recently-used buffer of 256-byte lines
//!   (16 KiB by default, the size measured for the first Optane parts by Yang et al., FAST 2020);
//!   each eviction writes a whole media line.
//!
//! The model sees write-backs, not evictions of the processor's cache; that is its one omission.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::forward_domain;
use crate::memory::{Domain, LINE_BYTES, MEDIA_LINE_BYTES};

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// Words stored.
    pub stores_count: u64,
    /// Lines written back.
    pub lines_count: u64,
    /// Fences.
    pub fences_count: u64,
    /// Distinct media lines written back between fences.
    pub media_lines_count: u64,
    /// Bytes the modelled medium wrote.
    pub media_bytes: u64,
    /// Commit points.
    pub commits_count: u64,
}

impl MemoryCounts {
    /// What happened since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &MemoryCounts) -> MemoryCounts {
        MemoryCounts {
            stores_count: self.stores_count - earlier.stores_count,
            lines_count: self.lines_count - earlier.lines_count,
            fences_count: self.fences_count - earlier.fences_count,
            media_lines_count: self.media_lines_count - earlier.media_lines_count,
            media_bytes: self.media_bytes - earlier.media_bytes,
            commits_count: self.commits_count - earlier.commits_count,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    counts: MemoryCounts,
    since_fence: BTreeSet<usize>,
    buffer: VecDeque<usize>,
    buffer_lines: usize,
}

impl State {
    fn write_back(&mut self, line: usize) {
        self.counts.lines_count += 1;
        let media = line * LINE_BYTES / MEDIA_LINE_BYTES;
        self.since_fence.insert(media);
        if let Some(at) = self.buffer.iter().position(|&m| m == media) {
            self.buffer.remove(at);
        } else if self.buffer.len() == self.buffer_lines {
            self.buffer.pop_front();
            self.counts.media_bytes += MEDIA_LINE_BYTES as u64;
        }
        self.buffer.push_back(media);
    }
}

/// A domain that counts.
#[derive(Debug)]
pub struct Counted<D> {
    inner: D,
    state: Mutex<State>,
}

impl<D: Domain> Counted<D> {
    /// Counts over `inner` with a 16 KiB write-combining buffer.
    pub fn new(inner: D) -> Self {
        let state = State { buffer_lines: (16 << 10) / MEDIA_LINE_BYTES, ..State::default() };
        Counted { inner, state: Mutex::new(state) }
    }

    /// The counts so far; media bytes include what the buffer still holds.
    pub fn counts(&self) -> MemoryCounts {
        let state = self.state.lock().expect("invariant: no panic inside");
        let held = (state.buffer.len() * MEDIA_LINE_BYTES) as u64;
        MemoryCounts { media_bytes: state.counts.media_bytes + held, ..state.counts }
    }

    /// The domain beneath.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.lock().expect("invariant: no panic inside"))
    }
}

macro_rules! inner {
    ($self:ident, $($call:tt)+) => {
        $self.inner.$($call)+
    };
}

impl<D: Domain> Domain for Counted<D> {
    forward_domain!(inner: len owner_before_fork promise word invalidate);

    fn store(&self, offset: usize, value: u64, order: Ordering) {
        self.with(|s| s.counts.stores_count += 1);
        self.inner.store(offset, value, order);
    }
    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> std::result::Result<u64, u64> {
        self.with(|s| s.counts.stores_count += 1);
        self.inner.compare_exchange(offset, current, new, success, failure)
    }
    fn write_back(&self, offset: usize, len: usize) {
        let lines = offset / LINE_BYTES..(offset + len).div_ceil(LINE_BYTES);
        self.with(|s| lines.for_each(|line| s.write_back(line)));
        self.inner.write_back(offset, len);
    }
    fn fence(&self) -> Result<()> {
        self.with(|s| {
            s.counts.fences_count += 1;
            s.counts.media_lines_count += s.since_fence.len() as u64;
            s.since_fence.clear();
        });
        self.inner.fence()
    }
    fn commit_point(&self) {
        self.with(|s| s.counts.commits_count += 1);
        self.inner.commit_point();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmem::Dram;

    #[test]
    fn neighbouring_lines_share_a_media_line_and_far_ones_do_not() {
        let d = Counted::new(Dram::new(1 << 20));
        d.store(0, 1, Ordering::Relaxed);
        d.write_back(0, 128);
        d.write_back(4096, 8);
        d.fence().unwrap();
        let c = d.counts();
        assert_eq!((c.stores_count, c.lines_count, c.fences_count), (1, 3, 1));
        assert_eq!((c.media_lines_count, c.media_bytes), (2, 512));
    }

    #[test]
    fn rewriting_one_line_is_combined_and_streaming_is_not() {
        let hot = Counted::new(Dram::new(1 << 20));
        let cold = Counted::new(Dram::new(1 << 20));
        for i in 0..1000 {
            hot.write_back(0, 64);
            cold.write_back(i * 256, 64);
        }
        assert_eq!((hot.counts().media_bytes, cold.counts().media_bytes), (256, 256_000));
    }
}
