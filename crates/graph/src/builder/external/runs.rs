//! Sorted runs of edges and their merge.
//!
//! Invariants
//! - A run ascends and holds an edge once, with its least weight. Checked by
//!   `the_file_is_the_one_made_in_memory`.
//! - A merge reads at most `fan_in` runs, each through a buffer of its own; more runs are merged in
//!   levels. Checked by `a_merge_reads_no_more_runs_than_its_fan_in`.
//! - Buffers of a merge take at most its share of the memory, and no more than is left beside what
//!   reading and names take. Checked by `a_merge_stays_within_its_share_and_what_is_left`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::marker::PhantomData;
use std::rc::Rc;

use littoral_base::mutant;

use super::record::Record;
use super::spill::{Scratch, Spill};
use crate::builder::{Hooks, Stage};
use crate::error::Result;

/// Records between two reports of progress.
const STEP_RECORDS: u64 = 1 << 20;

/// The fewest bytes of a buffer: those of 512 runs take less than the shortest run.
const BUFFER_MIN: usize = 1 << 8;

/// Sorted records in a temporary file.
pub(super) struct Run<R> {
    spill: Spill,
    /// How often its records were merged.
    level: u32,
    kind: PhantomData<R>,
}

impl<R: Record> Run<R> {
    fn new(scratch: &Rc<Scratch>, level: u32) -> Result<Self> {
        Ok(Run { spill: scratch.file()?, level, kind: PhantomData })
    }

    /// How many records.
    pub(super) fn len(&self) -> u64 {
        self.spill.bytes() / size_of::<R>() as u64
    }

    /// Reads the records from the front, `buffer_bytes` at a time.
    pub(super) fn reader(&self, buffer_bytes: usize) -> Reader<'_, R> {
        let room = (buffer_bytes / size_of::<R>()).max(1);
        Reader { run: self, at: 0, buffer: vec![R::zeroed(); room], next: 0, end: 0 }
    }
}

/// A run being read.
pub(super) struct Reader<'a, R> {
    run: &'a Run<R>,
    /// Records read into the buffer so far.
    at: u64,
    buffer: Vec<R>,
    next: usize,
    end: usize,
}

impl<R: Record> Reader<'_, R> {
    /// The next records, as many as the buffer takes; none behind the last.
    pub(super) fn next_chunk(&mut self) -> Result<&[R]> {
        self.fill()?;
        let chunk = self.next..self.end;
        self.next = self.end;
        Ok(&self.buffer[chunk])
    }

    /// The next record; `None` behind the last.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<R>> {
        if self.next == self.end && !self.fill()? {
            return Ok(None);
        }
        let record = self.buffer[self.next];
        self.next += 1;
        Ok(Some(record))
    }

    #[cold]
    fn fill(&mut self) -> Result<bool> {
        let count = (self.run.len() - self.at).min(self.buffer.len() as u64) as usize;
        let bytes = bytemuck::cast_slice_mut(&mut self.buffer[..count]);
        self.run.spill.read(self.at * size_of::<R>() as u64, bytes)?;
        debug_assert!(do_ascend(&self.buffer[..count]), "records of a run from {}", self.at);
        self.at += count as u64;
        (self.next, self.end) = (0, count);
        Ok(count > 0)
    }
}

/// Writes records to a run through a buffer.
struct Writer<R> {
    run: Run<R>,
    buffer: Vec<R>,
    room: usize,
}

impl<R: Record> Writer<R> {
    fn push(&mut self, record: R) -> Result<()> {
        self.buffer.push(record);
        if self.buffer.len() == self.room { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        debug_assert!(do_ascend(&self.buffer), "records that a merge writes");
        self.run.spill.append(bytemuck::cast_slice(&self.buffer))?;
        self.buffer.clear();
        Ok(())
    }
}

/// How much a merge holds at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct MergeLimits {
    /// Runs that are read at the same time.
    pub(super) fan_in: usize,
    /// Bytes of all buffers together.
    pub(super) bytes: usize,
}

impl MergeLimits {
    /// The same where no more than `bytes` are left.
    pub(super) fn within(self, bytes: usize) -> MergeLimits {
        MergeLimits { bytes: self.bytes.min(bytes), ..self }
    }

    /// Bytes of each buffer of a merge of `runs`, one of them for what is written.
    fn buffer(&self, runs: usize) -> usize {
        (self.bytes / (runs + 1)).clamp(BUFFER_MIN, 1 << 20)
    }
}

/// Runs made of records in any order.
pub(super) struct Runs<R> {
    scratch: Rc<Scratch>,
    limits: MergeLimits,
    runs: Vec<Run<R>>,
    /// Runs made of records as they came, for the report.
    pub(super) made: u64,
}

impl<R: Record> Runs<R> {
    pub(super) fn new(scratch: &Rc<Scratch>, limits: MergeLimits) -> Self {
        Runs { scratch: Rc::clone(scratch), limits, runs: Vec::new(), made: 0 }
    }

    /// Sorts `records` into runs, one per thread, and forgets them. Merges that follow take at most
    /// `left` bytes.
    ///
    /// # Errors
    /// `Kind::Io`, `Kind::Interrupted`.
    pub(super) fn add(
        &mut self,
        records: &mut Vec<R>,
        (threads, left): (usize, usize),
        hooks: &mut Hooks<'_>,
    ) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let share = records.len().div_ceil(threads);
        let mut kept = Vec::new();
        std::thread::scope(|scope| {
            let parts = records.chunks_mut(share).map(|part| scope.spawn(|| sort(part)));
            let parts: Vec<_> = parts.collect();
            kept.extend(parts.into_iter().map(|p| p.join().expect("invariant: sorting ends")));
        });
        for (part, kept) in records.chunks(share).zip(kept) {
            debug_assert!(do_ascend(&part[..kept]), "records of a new run");
            let mut run = Run::new(&self.scratch, 0)?;
            run.spill.append(bytemuck::cast_slice(&part[..kept]))?;
            self.runs.push(run);
            self.made += 1;
        }
        *records = Vec::new();
        self.level(self.limits.within(left), hooks)
    }

    /// Merges runs while `fan_in` of them are of one level, the oldest of a level first. Levels
    /// descend from the oldest run to the newest.
    fn level(&mut self, limits: MergeLimits, hooks: &mut Hooks<'_>) -> Result<()> {
        let fan_in = self.limits.fan_in;
        loop {
            let is_one_level = |w: &[Run<R>]| w[0].level == w[w.len() - 1].level;
            let Some(at) = self.runs.windows(fan_in).position(is_one_level) else { return Ok(()) };
            let level = self.runs[at].level + 1;
            let all = self.runs[at..].iter().take_while(|run| run.level < level).count();
            let some = at..at + if mutant!("graph_merges_a_whole_level") { all } else { fan_in };
            let merged = self.merge(&self.runs[some.clone()], (level, limits), |_| {}, hooks)?;
            self.runs.splice(some, [merged]);
            debug_assert!(self.runs.is_sorted_by(|a, b| a.level >= b.level), "levels descend");
        }
    }

    /// All records in one run, each edge once; `seen` gets every record of it.
    ///
    /// # Errors
    /// `Kind::Io`, `Kind::Interrupted`.
    pub(super) fn into_one(
        mut self,
        mut seen: impl FnMut(R),
        hooks: &mut Hooks<'_>,
    ) -> Result<Run<R>> {
        while self.runs.len() > self.limits.fan_in {
            let newest = self.runs.split_off(self.runs.len() - self.limits.fan_in);
            let merged = self.merge(&newest, (0, self.limits), |_| {}, hooks)?;
            self.runs.push(merged);
        }
        if self.runs.len() > 1 {
            return self.merge(&self.runs, (0, self.limits), seen, hooks);
        }
        let run = match self.runs.pop() {
            Some(run) => run,
            None => Run::new(&self.scratch, 0)?,
        };
        let mut reader = run.reader(self.limits.buffer(1));
        loop {
            let chunk = reader.next_chunk()?;
            if chunk.is_empty() {
                break;
            }
            chunk.iter().for_each(|&record| seen(record));
        }
        drop(reader);
        Ok(run)
    }

    fn merge(
        &self,
        runs: &[Run<R>],
        (level, limits): (u32, MergeLimits),
        mut seen: impl FnMut(R),
        hooks: &mut Hooks<'_>,
    ) -> Result<Run<R>> {
        debug_assert!(runs.len() <= limits.fan_in, "{} runs in a merge", runs.len());
        let buffer = limits.buffer(runs.len());
        let total: u64 = runs.iter().map(Run::len).sum();
        let room = buffer / size_of::<R>();
        let run = Run::new(&self.scratch, level)?;
        let mut out = Writer { run, buffer: Vec::with_capacity(room), room };
        let mut readers: Vec<_> = runs.iter().map(|run| run.reader(buffer)).collect();
        let mut heap = BinaryHeap::with_capacity(readers.len());
        for (i, reader) in readers.iter_mut().enumerate() {
            heap.extend(reader.next()?.map(|record| Reverse((record, i))));
        }
        let (mut last, mut done) = (None, 0);
        while let Some(mut top) = heap.peek_mut() {
            let Reverse((record, i)) = *top;
            match readers[i].next()? {
                Some(next) => top.0.0 = next,
                None => drop(PeekMut::pop(top)),
            }
            if last != Some(record.ends()) || mutant!("graph_run_duplicates_kept") {
                last = Some(record.ends());
                seen(record);
                out.push(record)?;
            }
            done += 1;
            if done % STEP_RECORDS == 0 {
                hooks.step(Stage::Merging, done, total)?;
            }
        }
        out.flush()?;
        hooks.step(Stage::Merging, total, total)?;
        Ok(out.run)
    }
}

/// Whether records are those of a run: edges ascend, none is there twice.
fn do_ascend<R: Record>(records: &[R]) -> bool {
    records.is_sorted_by(|a, b| a.ends() < b.ends())
}

/// Sorts records and moves one of each edge to the front; answers how many.
fn sort<R: Record>(records: &mut [R]) -> usize {
    R::sort(records);
    let mut kept = 0;
    for i in 0..records.len() {
        if kept == 0 || records[kept - 1].ends() != records[i].ends() {
            records[kept] = records[i];
            kept += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each thread makes a run at a time, so a level may get more runs than a merge reads.
    #[test]
    fn a_merge_reads_no_more_runs_than_its_fan_in() {
        let folder = tempfile::tempdir().unwrap();
        let limits = MergeLimits { fan_in: 3, bytes: 1 << 16 };
        let mut runs = Runs::<u64>::new(&Scratch::new(folder.path()), limits);
        let mut hooks = Hooks::none();
        for round in 0..20 {
            let mut records: Vec<u64> =
                (0..50).map(|i| ((i * 7919 + round) % 1000) << 32).collect();
            runs.add(&mut records, (5, 1 << 16), &mut hooks).unwrap();
            let levels: Vec<u32> = runs.runs.iter().map(|run| run.level).collect();
            assert!(levels.is_sorted_by(|a, b| a >= b), "{levels:?}");
            // Merges of three: no level keeps more than two runs.
            assert!(levels.windows(3).all(|w| w[0] > w[2]), "{levels:?}");
        }
        let (mut seen, made) = (0, runs.made);
        let whole = runs.into_one(|_| seen += 1, &mut hooks).unwrap();
        assert_eq!((made, whole.len()), (100, seen));
    }

    #[test]
    fn a_merge_stays_within_its_share_and_what_is_left() {
        for (fan_in, bytes, left) in
            [(32, 2 << 20, 1 << 18), (512, 64 << 20, 1 << 18), (512, 64 << 20, 100 << 20)]
        {
            let limits = MergeLimits { fan_in, bytes }.within(left);
            let taken = limits.buffer(fan_in) * (fan_in + 1);
            assert!(taken <= left.min(bytes), "{taken} of {left} left and a share of {bytes}");
        }
    }
}
