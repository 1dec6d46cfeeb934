//! Lines of a pool that every rank reaches in place: shared memory without copies and without
//! hardware that keeps it coherent.
//!
//! The pool is reached through [`Domain`] alone, by a view that this rank's threads share under the
//! engine's lock.
//!
//! Whole lines of which this rank has no private copy are moved in runs, and stored without being
//! read. Neighbouring lines are written back by one call, at the latest by the next fence. Where
//! the pool is ordinary mapped memory, cells over whole lines are the words of the pool themselves.
//!
//! A fence that fails is kept and reported by the next settling of the rank.
//!
//! Invariants
//! - A line that this rank writes in part and is not the home of has a private copy until its
//!   difference is taken; loads and stores go there first. Checked by
//!   `ranges_agree_with_one_memory`, `a_home_merges_into_the_line_as_it_is`.
//! - Cells on the words of a pool are over whole lines without a private copy, so no other rank may
//!   write a byte of these lines while they live, and no difference is merged into them. Checked by
//!   `cells_of_a_mapped_pool_agree_with_guards`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use littoral_base::mutant;
use littoral_device::memory::{Domain, LINE_BYTES};

use crate::core::diff::Diff;
use crate::core::message::{PageId, PageRun};
use crate::error::{Error, Kind, Result};

const WORD: usize = 8;
/// Words that are moved at a time.
const BUFFER: usize = 64;
const ORDER: Ordering = Ordering::Relaxed;
type Line = [u8; LINE_BYTES];

/// The pool a job shares in place, and where in it.
#[derive(Clone)]
pub struct PoolLines {
    /// This rank's view of the pool.
    pub domain: Arc<dyn Domain>,
    /// The first byte of the job's shared memory, a multiple of 64.
    pub at: usize,
    /// Whether the pool may hold bytes of an earlier job there, which allocations then clear.
    pub used: bool,
}

impl fmt::Debug for PoolLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lines of a pool of {} bytes from {} on", self.domain.len(), self.at)
    }
}

struct Private {
    now: Line,
    twin: Line,
}

/// A rank's side of the lines.
pub(super) struct Pooled {
    pool: PoolLines,
    private: BTreeMap<u32, Private>,
    /// Lines to be written back, by the next fence.
    unwritten: Range<u32>,
    failed: Option<littoral_device::error::Error>,
}

impl Pooled {
    pub(super) fn new(pool: &PoolLines, bytes: usize) -> Result<Self> {
        let end = pool.at.checked_add(bytes);
        let fits = end.is_some_and(|end| end <= pool.domain.len());
        if !fits || !pool.at.is_multiple_of(LINE_BYTES) {
            let what = format!("{bytes} bytes for the job do not fit the {pool:?}");
            return Err(Error::new(Kind::Environment, what));
        }
        Ok(Pooled { pool: pool.clone(), private: BTreeMap::new(), unwritten: 0..0, failed: None })
    }

    /// Copies bytes out, as this rank sees them now.
    pub(super) fn load(&self, offset: usize, into: &mut [u8]) {
        self.each_part(offset, into.len(), |part, done| {
            let into = &mut into[done..done + part.bytes()];
            match part {
                Part::Private(line, within) => {
                    into.copy_from_slice(&self.private[&line].now[within]);
                }
                Part::Shared(line, within) => into.copy_from_slice(&self.line(line)[within]),
                Part::Whole(lines) => self.load_whole(self.place(lines.start), into),
            }
        });
    }

    fn load_whole(&self, at: usize, into: &mut [u8]) {
        let mut words = [0; BUFFER];
        for (n, part) in into.chunks_mut(BUFFER * WORD).enumerate() {
            let words = &mut words[..part.len() / WORD];
            self.pool.domain.load_words(at + n * BUFFER * WORD, words);
            let bytes = part.as_chunks_mut::<WORD>().0.iter_mut();
            bytes.zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        }
    }

    /// Copies bytes in; their lines are writable.
    pub(super) fn store(&mut self, offset: usize, data: &[u8]) {
        let mut private = Vec::new();
        self.each_part(offset, data.len(), |part, done| {
            let from = &data[done..done + part.bytes()];
            match part {
                Part::Private(line, within) => private.push((line, within, from)),
                Part::Shared(line, within) => self.put(line, within.start, from),
                Part::Whole(lines) => self.store_whole(self.place(lines.start), from),
            }
        });
        for (line, within, from) in private {
            let found = self.private.get_mut(&line).expect("invariant: it was found just now");
            found.now[within].copy_from_slice(from);
        }
    }

    fn store_whole(&self, at: usize, data: &[u8]) {
        let mut words = [0; BUFFER];
        for (n, part) in data.chunks(BUFFER * WORD).enumerate() {
            let words = &mut words[..part.len() / WORD];
            let bytes = part.as_chunks::<WORD>().0.iter();
            words.iter_mut().zip(bytes).for_each(|(word, b)| *word = u64::from_le_bytes(*b));
            self.pool.domain.store_words(at + n * BUFFER * WORD, words);
        }
    }

    /// Calls `act` with the parts of a range and the bytes done before each.
    fn each_part(&self, offset: usize, len: usize, mut act: impl FnMut(Part, usize)) {
        let line_of = |at: usize| {
            u32::try_from(at / LINE_BYTES).expect("invariant: lines are counted by u32")
        };
        let mut done = 0;
        while done < len {
            let at = offset + done;
            let (line, within) = (line_of(at), at % LINE_BYTES);
            let end = (within + len - done).min(LINE_BYTES);
            let next = self.private.range(line..).next().map(|(line, _)| *line);
            let part = if next == Some(line) {
                Part::Private(line, within..end)
            } else if within > 0 || end < LINE_BYTES {
                Part::Shared(line, within..end)
            } else {
                let last = line_of(offset + len);
                Part::Whole(line..next.map_or(last, |next| next.min(last)))
            };
            let bytes = part.bytes();
            act(part, done);
            done += bytes;
        }
    }

    /// The words of a range of whole lines, to be loaded and stored where they are, if the pool is
    /// ordinary mapped memory and this rank has no private copy of any of the lines.
    pub(super) fn words(&self, offset: usize, len: usize) -> Option<&[AtomicU64]> {
        let is_whole = offset.is_multiple_of(LINE_BYTES) && len.is_multiple_of(LINE_BYTES);
        let line = |at: usize| u32::try_from(at / LINE_BYTES).ok();
        let lines = line(offset)?..line(offset + len)?;
        let has_private = self.private.range(lines).next().is_some();
        if !is_whole || (has_private && !mutant!("pool_cells_pass_private_copies")) {
            return None;
        }
        self.pool.domain.words(self.pool.at + offset, len / WORD)
    }

    fn place(&self, line: u32) -> usize {
        self.pool.at + line as usize * LINE_BYTES
    }

    fn line(&self, line: u32) -> Line {
        let (mut words, mut bytes) = ([0; LINE_BYTES / WORD], [0; LINE_BYTES]);
        self.pool.domain.load_words(self.place(line), &mut words);
        for (bytes, word) in bytes.as_chunks_mut::<WORD>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        bytes
    }

    /// Stores part of a line; words that do not change are left alone.
    fn put(&self, line: u32, within: usize, part: &[u8]) {
        let before = self.line(line);
        let mut after = before;
        after[within..within + part.len()].copy_from_slice(part);
        let words = before.chunks_exact(WORD).zip(after.chunks_exact(WORD)).enumerate();
        for (i, (_, new)) in words.filter(|(_, (old, new))| old != new) {
            let word = u64::from_le_bytes(new.try_into().expect("invariant: chunks of a word"));
            self.pool.domain.store(self.place(line) + i * WORD, word, ORDER);
        }
    }

    pub(super) fn apply(&self, page: PageId, diff: &Diff) {
        diff.runs().for_each(|(within, bytes)| self.put(page.0, within, bytes));
    }

    pub(super) fn keep_twin(&mut self, page: PageId) {
        let line = self.line(page.0);
        self.private.insert(page.0, Private { now: line, twin: line });
    }

    pub(super) fn take_diff(&mut self, page: PageId) -> Diff {
        let private = self.private.remove(&page.0).expect("invariant: a twin was kept");
        Diff::between(&private.twin, &private.now)
    }

    pub(super) fn write_back(&mut self, run: PageRun) {
        let lines = lines_of(run);
        if self.unwritten.end != lines.start {
            self.write_back_run();
            self.unwritten = lines.start..lines.start;
        }
        self.unwritten.end = lines.end;
    }

    fn write_back_run(&mut self) {
        let mut lines = std::mem::take(&mut self.unwritten);
        if lines.len() > 1 && mutant!("pool_lines_of_a_run_written_back_but_one") {
            lines.end -= 1;
        }
        if !lines.is_empty() && !mutant!("pool_lines_not_written_back") {
            self.pool.domain.write_back(self.place(lines.start), lines.len() * LINE_BYTES);
        }
    }

    pub(super) fn refresh(&mut self, run: PageRun) {
        let mut lines = lines_of(run);
        if self.unwritten.start < lines.end && lines.start < self.unwritten.end {
            self.write_back_run();
        }
        if lines.len() > 1 && mutant!("pool_lines_of_a_run_invalidated_but_one") {
            lines.end -= 1;
        }
        if !mutant!("pool_lines_not_invalidated") {
            self.pool.domain.invalidate(self.place(lines.start), lines.len() * LINE_BYTES);
        }
    }

    pub(super) fn fence(&mut self) {
        self.write_back_run();
        if let Err(e) = self.pool.domain.fence() {
            self.failed.get_or_insert(e);
        }
    }

    /// Whether allocations must be cleared.
    pub(super) fn is_used(&self) -> bool {
        self.pool.used
    }

    /// Clears lines on the medium.
    pub(super) fn clear(&mut self, lines: Range<u32>) {
        for line in lines {
            self.pool.domain.invalidate(self.place(line), LINE_BYTES);
            let zero = [0; LINE_BYTES / WORD];
            self.pool.domain.store_words(self.place(line), &zero);
            self.pool.domain.write_back(self.place(line), LINE_BYTES);
        }
        self.fence();
    }

    /// The failure of a fence, if one failed.
    ///
    /// # Errors
    /// That failure.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.failed.take() {
            Some(e) => Err(Error::with_source(Kind::Environment, "a fence of the pool", e)),
            None => Ok(()),
        }
    }
}

/// The lines that pages of a run are; a segment has fewer than 2^32.
fn lines_of(run: PageRun) -> Range<u32> {
    run.first().0..run.first().0 + run.count()
}

/// A part of a range that is in one place.
enum Part {
    /// In this rank's copy of a line.
    Private(u32, Range<usize>),
    /// Bytes of a line of the pool.
    Shared(u32, Range<usize>),
    /// Lines of the pool, at least one.
    Whole(Range<u32>),
}

impl Part {
    fn bytes(&self) -> usize {
        match self {
            Part::Private(_, within) | Part::Shared(_, within) => within.len(),
            Part::Whole(lines) => lines.len() * LINE_BYTES,
        }
    }
}
