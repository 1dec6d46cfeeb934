//! Arcs by the page that their list begins in: what one bucket holds fits into memory.
//!
//! Invariants
//! - A bucket is a range of pages, and every list that begins in it ends in it. Checked by
//!   `the_file_is_the_one_made_in_memory`.
//! - Scans of the edges hand out the arcs of one range of buckets each; the arcs of a scan take at
//!   most as much room as the edges, or one bucket.
//!   Checked by `temporary_files_hold_at_most_2_2_times_the_edges`.
//! - Nothing is kept per page: a file of any length is cut into at most [`BUCKETS_MAX`] buckets.
//!   Checked by `cuts_take_no_memory_per_page`.
//! - Nothing is kept per chunk: each chunk of a bucket ends with the place of the one before it.
//!   Checked by `a_bucket_of_many_chunks_comes_back_and_takes_no_memory_per_chunk`.

use std::ops::Range;
use std::rc::Rc;

use super::record::Record;
use super::runs::Run;
use super::spill::{Scratch, Spill};
use crate::builder::csr::Side;
use crate::builder::{Hooks, Stage};
use crate::error::Result;
use crate::format::Layout;
use crate::format::vertices::VertexTable;

/// Records between two reports of progress.
const STEP_RECORDS: u64 = 1 << 20;
/// The most buckets: their numbers take two bytes per vertex.
pub(super) const BUCKETS_MAX: u32 = 1 << 16;

/// Which pages belong to which bucket.
pub(super) struct Cuts {
    /// The first page of each bucket, then the number of pages.
    bounds: Vec<u32>,
    page_shift: u32,
}

impl Cuts {
    /// Buckets of `bucket_pages` pages, longer where a list goes on.
    pub(super) fn new(table: &VertexTable, layout: Layout, pages: u32, bucket_pages: u32) -> Self {
        let page_shift = layout.page_words().trailing_zeros();
        let (mut bounds, mut next) = (vec![0u32], u64::from(bucket_pages));
        let mut cut_before = |goes_on: Range<u64>| {
            debug_assert!(bounds.last().is_none_or(|&b| u64::from(b) < next), "cuts ascend");
            while next < goes_on.start {
                bounds.push(next as u32);
                next += u64::from(bucket_pages);
            }
            next = next.max(goes_on.end);
        };
        // Long lists take new pages one after another, so their pages ascend with their vertices.
        for v in 0..table.len() {
            let list = table.list(v);
            let count = list.degree.div_ceil(layout.piece_arcs() as u32);
            if count > 1 {
                let first = list.addr >> page_shift;
                cut_before(first + 1..first + u64::from(count));
            }
        }
        cut_before(u64::from(pages)..u64::from(pages));
        bounds.push(pages);
        Cuts { bounds, page_shift }
    }

    /// The bucket of each vertex of the edges, by the address of its list.
    pub(super) fn of_vertices(&self, table: &VertexTable, numbering: &Numbering<'_>) -> Vec<u16> {
        assert!(self.count() <= BUCKETS_MAX as usize, "a bucket's number fits two bytes");
        let bucket = |v: u32| {
            let list = table.list(numbering.owner(v));
            if list.degree == 0 { 0 } else { self.of(list.addr) as u16 }
        };
        (0..table.len()).map(bucket).collect()
    }

    /// How many buckets.
    fn count(&self) -> usize {
        self.bounds.len() - 1
    }

    /// The pages of a bucket.
    pub(super) fn pages(&self, bucket: usize) -> Range<u32> {
        self.bounds[bucket]..self.bounds[bucket + 1]
    }

    #[inline(always)]
    fn of(&self, addr: u64) -> usize {
        let page = (addr >> self.page_shift) as u32;
        self.bounds.partition_point(|&first| first <= page) - 1
    }

    /// Ranges of at most `fan_out` buckets with at most `arcs` arcs, or one bucket.
    pub(super) fn scans(
        &self,
        table: &VertexTable,
        fan_out: usize,
        arcs: u64,
    ) -> Vec<Range<usize>> {
        let mut counts = vec![0u64; self.count()];
        for v in 0..table.len() {
            let list = table.list(v);
            if list.degree > 0 {
                counts[self.of(list.addr)] += u64::from(list.degree);
            }
        }
        let (mut scans, mut from, mut sum) = (Vec::new(), 0, 0);
        for (bucket, &count) in counts.iter().enumerate() {
            if bucket > from && (bucket - from == fan_out || sum + count > arcs) {
                scans.push(from..bucket);
                (from, sum) = (bucket, 0);
            }
            sum += count;
        }
        scans.push(from..counts.len());
        scans
    }
}

/// How vertices of the edges are called in the file.
pub(super) struct Numbering<'a> {
    /// The place by degree of each vertex.
    pub(super) rank: &'a [u32],
    /// Whether places are ids; else ids are those of the edges.
    pub(super) by_rank: bool,
}

impl Numbering<'_> {
    #[inline(always)]
    fn owner(&self, v: u32) -> u32 {
        if self.by_rank { self.rank[v as usize] } else { v }
    }
}

/// The arcs of a range of buckets in one temporary file: chunks of one size, and the rest of each.
/// The last record of a chunk and of a rest is a [`link`].
pub(super) struct Buckets<R> {
    spill: Spill,
    /// How many chunks of each bucket are in the file, and where the latest begins.
    chunks: Vec<(u64, u64)>,
    /// Arcs of each bucket that are not in the file.
    rest: Vec<Vec<R>>,
    /// Arcs of a chunk.
    chunk: usize,
}

/// The place in the file of the chunk before, as a record.
fn link<R: Record>(at: u64) -> R {
    R::new([(at >> 32) as u32, at as u32], 0.0)
}

/// The place that a link names.
fn linked<R: Record>(link: R) -> u64 {
    let [high, low] = link.ends();
    u64::from(high) << 32 | u64::from(low)
}

/// What one scan of the edges needs to know.
pub(super) struct Scan<'a> {
    /// The bucket of each vertex.
    pub(super) bucket: &'a [u16],
    pub(super) numbering: Numbering<'a>,
    pub(super) side: Side,
    /// Bytes of all buffers together.
    pub(super) buffer_bytes: usize,
}

impl Scan<'_> {
    /// Reads every edge and keeps the arcs of `range`: {owner's id, neighbour's rank}.
    ///
    /// # Errors
    /// `Kind::Io`, `Kind::Interrupted`.
    pub(super) fn run<R: Record>(
        &self,
        edges: &Run<R>,
        range: Range<usize>,
        scratch: &Rc<Scratch>,
        hooks: &mut Hooks<'_>,
    ) -> Result<Buckets<R>> {
        let share = self.buffer_bytes / (range.len() + 4);
        let records = share.clamp(1 << 10, 1 << 16) / size_of::<R>();
        let mut buckets = Buckets::new(scratch.file()?, range.len(), records);
        let mut reader = edges.reader(4 * records * size_of::<R>());
        let (total, mut done, mut told) = (edges.len(), 0, 0);
        loop {
            let chunk = reader.next_chunk()?;
            if chunk.is_empty() {
                break;
            }
            for &edge in chunk {
                let [a, b] = edge.ends();
                if self.side.source() {
                    self.keep(edge, a, b, &range, &mut buckets)?;
                }
                if self.side.target() {
                    self.keep(edge, b, a, &range, &mut buckets)?;
                }
            }
            done += chunk.len() as u64;
            if done >= told + STEP_RECORDS {
                told = done;
                hooks.step(Stage::Sorting, done, total)?;
            }
        }
        hooks.step(Stage::Sorting, total, total)?;
        Ok(buckets)
    }

    #[inline(always)]
    fn keep<R: Record>(
        &self,
        edge: R,
        from: u32,
        to: u32,
        range: &Range<usize>,
        buckets: &mut Buckets<R>,
    ) -> Result<()> {
        let bucket = usize::from(self.bucket[from as usize]);
        if range.contains(&bucket) {
            let owner = self.numbering.owner(from);
            let arc = edge.between([owner, self.numbering.rank[to as usize]]);
            buckets.push(bucket - range.start, arc)?;
        }
        Ok(())
    }
}

impl<R: Record> Buckets<R> {
    /// `count` buckets, whose chunks are of `records` records, the link included.
    fn new(spill: Spill, count: usize, records: usize) -> Self {
        let rest = (0..count).map(|_| Vec::with_capacity(records)).collect();
        Buckets { spill, chunks: vec![(0, 0); count], rest, chunk: records - 1 }
    }

    #[inline(always)]
    fn push(&mut self, bucket: usize, arc: R) -> Result<()> {
        self.rest[bucket].push(arc);
        if self.rest[bucket].len() == self.chunk { self.flush(bucket) } else { Ok(()) }
    }

    fn flush(&mut self, bucket: usize) -> Result<()> {
        let (count, latest) = self.chunks[bucket];
        self.rest[bucket].push(link(latest));
        let at = self.spill.append(bytemuck::cast_slice(&self.rest[bucket]))?;
        self.chunks[bucket] = (count + 1, at);
        self.rest[bucket].clear();
        Ok(())
    }

    /// The buffers into the file, so that their memory is free for the buckets.
    ///
    /// # Errors
    /// `Kind::Io`.
    pub(super) fn settle(mut self) -> Result<Settled<R>> {
        let rest = std::mem::take(&mut self.rest);
        let mut ends = Vec::with_capacity(rest.len());
        for (mut rest, &(_, latest)) in rest.into_iter().zip(&self.chunks) {
            let arcs = rest.len();
            rest.push(link(latest));
            ends.push((self.spill.append(bytemuck::cast_slice(&rest))?, arcs));
        }
        Ok(Settled { buckets: self, ends })
    }
}

/// Buckets whose arcs are all in the file.
pub(super) struct Settled<R> {
    buckets: Buckets<R>,
    /// Where the rest of each bucket begins, and how many arcs it has.
    ends: Vec<(u64, usize)>,
}

impl<R: Record> Settled<R> {
    /// The arcs of the scan's `bucket`-th bucket, sorted, into `arcs`.
    ///
    /// # Errors
    /// `Kind::Io`.
    pub(super) fn load(&self, bucket: usize, arcs: &mut Vec<R>) -> Result<()> {
        let (chunks, chunk) = (self.buckets.chunks[bucket].0, self.buckets.chunk);
        let (mut at, mut count) = self.ends[bucket];
        let all = chunks as usize * chunk + count;
        arcs.clear();
        // Exactly as many as there are and a link: a buffer that doubles would leave the bound.
        arcs.reserve_exact(all + 1);
        arcs.resize(all + 1, R::zeroed());
        let mut from = 0;
        for _ in 0..=chunks {
            // The link is where the arcs of the chunk before come next.
            let part = &mut arcs[from..=from + count];
            self.buckets.spill.read(at, bytemuck::cast_slice_mut(part))?;
            at = linked(part[count]);
            (from, count) = (from + count, chunk);
        }
        arcs.truncate(all);
        R::sort(arcs);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::pack::addresses;

    #[test]
    fn a_bucket_ends_at_the_first_page_that_no_list_goes_on_in() {
        let layout = Layout::new(512).unwrap();
        // Lists of up to six pages, and short ones behind their ends.
        let degrees: Vec<u32> = (0..400u32).map(|v| v * 7919 % 700).collect();
        let placed = addresses(degrees.iter().copied(), layout, 4).unwrap();
        let (pages, table) = (placed.pages, VertexTable::encode_in(placed.addr, &degrees));
        let page_of = |addr: u64| (addr / layout.page_words() as u64) as u32;
        let goes_on: BTreeSet<u32> = (0..table.len())
            .map(|v| table.list(v))
            .flat_map(|list| layout.pieces(list.addr, list.degree).skip(1))
            .map(|piece| page_of(piece.addr))
            .collect();
        for bucket_pages in [1, 2, 3, 7, 50, pages, u32::MAX] {
            let mut wanted = vec![0u32];
            for page in 1..pages {
                let first = wanted[wanted.len() - 1];
                if page - first >= bucket_pages && !goes_on.contains(&page) {
                    wanted.push(page);
                }
            }
            wanted.push(pages);
            let cuts = Cuts::new(&table, layout, pages, bucket_pages);
            assert_eq!(cuts.bounds, wanted, "buckets of {bucket_pages} pages");
            for list in (0..table.len()).map(|v| table.list(v)).filter(|list| list.degree > 0) {
                assert!(cuts.pages(cuts.of(list.addr)).contains(&page_of(list.addr)));
            }
        }
    }

    /// Pushes arcs of three buckets in turn, as many as `arcs` says of each, and loads them.
    fn come_back<R: Record + std::fmt::Debug>(records: usize, arcs: [u32; 3]) {
        let folder = tempfile::tempdir().unwrap();
        let spill = Scratch::new(folder.path()).file().unwrap();
        let mut buckets = Buckets::<R>::new(spill, arcs.len(), records);
        let arc = |bucket: usize, i: u32| R::new([i ^ 0x55, bucket as u32], i as f32);
        for i in 0..arcs.into_iter().max().unwrap() {
            for bucket in (0..arcs.len()).filter(|&bucket| i < arcs[bucket]) {
                buckets.push(bucket, arc(bucket, i)).unwrap();
            }
        }
        let settled = buckets.settle().unwrap();
        for (bucket, &count) in arcs.iter().enumerate() {
            let mut wanted: Vec<R> = (0..count).map(|i| arc(bucket, i)).collect();
            R::sort(&mut wanted);
            let mut found = Vec::new();
            settled.load(bucket, &mut found).unwrap();
            assert_eq!(found, wanted, "bucket {bucket} by {records} records");
        }
        // What is in memory is of one size per bucket, however many chunks that has.
        let Settled { buckets: Buckets { spill: _, chunks, rest, chunk: _ }, ends } = &settled;
        let (chunks, ends): (&[(_, _)], &[(_, _)]) = (chunks, ends);
        assert_eq!((chunks.len(), ends.len(), rest.capacity()), (3, 3, 0));
    }

    #[test]
    fn a_bucket_of_many_chunks_comes_back_and_takes_no_memory_per_chunk() {
        for records in [2, 3, 8, 85] {
            let chunk = records as u32 - 1;
            for arcs in [[0, 0, 0], [0, 1, 500], [chunk, 3 * chunk, 3 * chunk + 1]] {
                come_back::<u64>(records, arcs);
                come_back::<[u32; 3]>(records, arcs);
            }
        }
        let far = 7 << 40 | 3 << 31 | 5;
        assert_eq!((linked::<u64>(link(far)), linked::<[u32; 3]>(link(far))), (far, far));
    }

    /// 4 TiB of pages: tables of them would take 5 GiB.
    #[test]
    fn cuts_take_no_memory_per_page() {
        let (layout, pages) = (Layout::new(4096).unwrap(), 1u32 << 30);
        let last = u64::from(pages - 1) * layout.page_words() as u64;
        let table = VertexTable::encode(&[0, last], &[1, 1]);
        let cuts = Cuts::new(&table, layout, pages, pages / 4);
        assert_eq!((cuts.count(), cuts.of(0), cuts.of(last)), (4, 0, 3));
    }
}
