//! Edges behind a read device: the same work, done by the contexts of a ring.
//!
//! - Fronts of lists: a context takes a span and reads its units one after the other, only between
//!   the first and last vertex that still wants one.
//! - Lists: pieces of one list go to any free context, so a hub is read by many contexts at once,
//!   and contexts begin again where the work grows while it is done;
//!   or, where the kernel may stop early, one context reads a list from its front, 16 words first
//!   and four times as many each time after.
//! - Pages: one read a page where the device allows, else all parts at once and a copy.
//!
//! Reads are widened to the device's granule and never longer than it takes.
//!
//! A context holds no borrow of a kernel's state across an await point; it calls the
//! work between two of its own reads.

use std::cell::Cell;

use littoral_base::mutant;
use littoral_device::flash::cached::Hits;
use littoral_device::read::{Limits, ReadDevice};
use littoral_runtime::{Contexts, Cx, Ring, RingOptions};

use super::phase::{Counted, Phase, Recorder};
use super::raw::prefetch;
use super::verified::{Verified, VerifiedPages};
use super::{Edges, HeadWork, ListWork, PageWork, Part, Place, Traffic, Verdict};
use crate::error::{Error, Kind, Result, interrupted};
use crate::format::file::GraphFile;
use crate::format::page::PageView;
use crate::format::{Direction, HEAD_BLOCK_VERTICES, Layout};

/// Words of the first read of a list that may end early; later ones are [`GROWTH`] times longer.
const FIRST_WORDS: u32 = 16;
const GROWTH: u32 = 4;
/// Bytes of a first read of a fixed length: the words and what widens them to a granule.
const FIRST_BYTES: usize = FIRST_WORDS as usize * 4 + FIRST_GRANULE_MAX as usize;
/// Larger granules are read as they are.
const FIRST_GRANULE_MAX: u32 = 16;
/// Bytes under way while streaming from a device that is polled. Little's law asks for the link's
/// rate times the latency, 50 KiB for 12.8 GB/s and 4 us; far more would push the frontier out of
/// the second-level cache. A device that is slept on has its own queue to keep full and is not
/// limited.
const STREAM_BYTES: u32 = 128 << 10;
/// How many items ahead the vertex table's line is fetched.
const AHEAD_ENTRY: u64 = 32;

/// Why a context ends the run.
pub(super) struct Halt(pub(super) Error);

impl From<littoral_runtime::Error> for Halt {
    #[cold]
    fn from(e: littoral_runtime::Error) -> Self {
        Halt(device_error(e))
    }
}

#[cold]
fn device_error(e: littoral_runtime::Error) -> Error {
    if e.kind() == littoral_runtime::Kind::Interrupted {
        return interrupted();
    }
    Error::with_source(Kind::Device, "reading the graph", e)
}

/// One thread's ring over a device that holds the graph's file.
pub(crate) struct Ringed<'g, D> {
    graph: &'g GraphFile,
    ring: Ring<D>,
    limits: Limits,
    bytes: Cell<u64>,
    recorder: Recorder,
    hits: Hits,
    verified: &'g Verified,
    pages_verified: Cell<u64>,
    /// Whether first reads of lists are of a fixed length.
    reads_fixed: bool,
}

impl<'g, D: ReadDevice> Ringed<'g, D> {
    /// A ring over `device`, whose bytes are the graph's file.
    ///
    /// # Errors
    /// `Kind::Device` when the device is too small for the file or cannot deliver a span of words.
    pub(crate) fn new(
        graph: &'g GraphFile,
        device: D,
        options: RingOptions,
        verified: &'g Verified,
    ) -> Result<Self> {
        let limits = device.limits();
        let refuse = |what: String| Err(Error::new(Kind::Device, what));
        if limits.capacity_bytes < graph.header().file_bytes {
            return refuse(format!(
                "the device holds {} bytes, the graph has {}",
                limits.capacity_bytes,
                graph.header().file_bytes
            ));
        }
        if limits.read_bytes_max < 256 || limits.granule_bytes > limits.read_bytes_max.min(4096) {
            return refuse(format!(
                "reads of at most {} bytes by {}: a graph needs 256 or more, by 4096 or less",
                limits.read_bytes_max, limits.granule_bytes
            ));
        }
        // A context then holds a slot for its reader beside the one of its other reads.
        let has_room = matches!(options.contexts, Contexts::Fixed(n) if limits.slots / 2 >= n);
        let reads_fixed = device.has_fixed()
            && has_room
            && limits.granule_bytes <= FIRST_GRANULE_MAX
            && limits.read_bytes_max as usize >= FIRST_BYTES;
        let ring = Ring::new(device, options).map_err(device_error)?;
        Ok(Ringed {
            graph,
            ring,
            limits,
            bytes: Cell::new(0),
            recorder: Recorder::default(),
            hits: Hits::default(),
            verified,
            pages_verified: Cell::new(0),
            reads_fixed,
        })
    }

    /// The same with the hits of a device that holds some of its contents in DRAM.
    pub(crate) fn with_hits(mut self, hits: Hits) -> Self {
        self.hits = hits;
        self
    }

    /// Runs at most `contexts` copies of a context that has `reads_at_once` reads under way.
    pub(super) fn run<'r, F, Fut>(
        &'r self,
        contexts: u32,
        reads_at_once: u32,
        make: F,
    ) -> Result<()>
    where
        F: FnMut(Cx<'r, D>) -> Fut,
        Fut: Future<Output = std::result::Result<(), Halt>>,
    {
        let run = || self.ring.run_at_most(contexts, make).map_err(|Halt(e)| e);
        self.phase(contexts, reads_at_once, run)
    }

    /// Runs `contexts` copies of a context, and more where `work` grows: without them the few
    /// contexts of a small step would read all that it turns into, each read after the other.
    pub(super) fn run_lists<'r, W, F, Fut>(
        &'r self,
        contexts: u32,
        reads_at_once: u32,
        work: &W,
        left: impl Fn() -> u64,
        make: F,
    ) -> Result<()>
    where
        W: ListWork,
        F: FnMut(Cx<'r, D>) -> Fut,
        Fut: Future<Output = std::result::Result<(), Halt>>,
    {
        if !W::GROWS || mutant!("graph_step_keeps_its_contexts") {
            return self.run(contexts, reads_at_once, make);
        }
        let waiting = || work.waiting() + left();
        let run = || self.ring.run_on_demand(contexts, waiting, make).map_err(|Halt(e)| e);
        self.phase(u32::MAX, reads_at_once, run)
    }

    /// Runs a phase of at most `contexts` contexts.
    fn phase(
        &self,
        contexts: u32,
        reads_at_once: u32,
        run: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let counted = || Counted {
            reads: self.ring.counters().reads_count,
            bytes: self.bytes.get(),
            held: self.hits.get(),
        };
        self.recorder.phase(contexts, reads_at_once, counted, run)
    }

    /// How many contexts can have `bytes` each under way, no more than [`STREAM_BYTES`] in all.
    fn streams(&self, bytes: u32) -> u32 {
        if self.limits.can_park { u32::MAX } else { (STREAM_BYTES / bytes).max(4) }
    }

    /// How many contexts lists can keep busy. A step over a few vertices needs as many as it has
    /// reads: making a thousand more to find nothing to do takes longer than a read.
    pub(super) fn busy<W: ListWork>(&self, place: Place<'_>, work: &W, read_words: u32) -> u32 {
        let words = read_words.min(place.layout.piece_arcs() as u32);
        let reads = |v: u32| u64::from(place.lists.locate(v).degree / words) + 1;
        let most = u64::from(self.ring.contexts());
        match work.reads_max(most, &reads) {
            Some(reads) if reads < most => reads.max(1) as u32,
            _ => u32::MAX,
        }
    }

    /// The granule-aligned range around `words` words at byte `addr`: start, length, bytes to skip.
    #[inline(always)]
    fn widen(&self, addr: u64, words: u32) -> (u64, u32, usize) {
        let mask = u64::from(self.limits.granule_bytes) - 1;
        let start = addr & !mask;
        let end = (addr + u64::from(words) * 4 + mask) & !mask;
        let len = (end - start) as u32;
        self.bytes.set(self.bytes.get() + u64::from(len));
        (start, len, (addr - start) as usize)
    }

    /// Whether a first read of the fixed length fits before the end of the device.
    #[inline(always)]
    fn has_first(&self, addr: u64) -> bool {
        addr + FIRST_BYTES as u64 <= self.limits.capacity_bytes
    }

    /// The first read of a list at byte `addr`: its start, and the bytes to skip.
    #[inline(always)]
    fn first(&self, addr: u64) -> (u64, usize) {
        let mask = u64::from(self.limits.granule_bytes) - 1;
        self.bytes.set(self.bytes.get() + FIRST_BYTES as u64);
        (addr & !mask, (addr & mask) as usize)
    }

    /// How many words from byte `addr` on one read can bring.
    #[inline(always)]
    fn reach(&self, addr: u64) -> u32 {
        let mask = u64::from(self.limits.granule_bytes) - 1;
        (self.limits.read_bytes_max - (addr & mask) as u32) / 4
    }

    /// Contexts take pieces of lists, in list order, as they become free.
    fn whole_lists<W: ListWork>(&self, place: Place<'_>, work: &W) -> Result<()> {
        assert!(!W::WEIGHTS, "weights are handed over with the neighbours");
        let rest = Rest::default();
        let contexts = self.begin_whole(place, work);
        let left = || u64::from(rest.words().div_ceil(self.limits.read_bytes_max / 4));
        self.run_lists(contexts, 1, work, left, async |cx| {
            while let Some(part) = self.next_whole(place, work, &rest) {
                let Whole { tag, vertex, words, addr, .. } = part;
                let (start, len, skip) = self.widen(addr, words);
                let bytes = cx.read(start, len).await?;
                if work.words(tag, vertex, slice(&bytes, skip, words)?) == Verdict::Forged {
                    return Err(Halt(place.forged("the list of vertex", vertex.into())));
                }
            }
            Ok(())
        })
    }

    /// The same with weights. A form of its own: a context that may read weights apart takes
    /// several times the memory, all of which is copied as it begins.
    fn weighted_lists<W: ListWork>(&self, place: Place<'_>, work: &W) -> Result<()> {
        let rest = Rest::default();
        let contexts = self.begin_whole(place, work);
        let left = || u64::from(rest.words().div_ceil(self.limits.read_bytes_max / 4));
        self.run_lists(contexts, 1, work, left, async |cx| {
            while let Some(part) = self.next_whole(place, work, &rest) {
                let Whole { tag, vertex, words, addr, weights } = part;
                let verdict = if let Some(weights) = weights {
                    self.apart(&cx, (words, addr, weights), |words, weights| {
                        work.arcs(tag, vertex, words, weights)
                    })
                    .await?
                } else {
                    let (start, len, skip) = self.widen(addr, 2 * words);
                    let bytes = cx.read(start, len).await?;
                    let both = slice(&bytes, skip, 2 * words)?;
                    let (words, weights) = both.split_at(words as usize);
                    work.arcs(tag, vertex, words, weights)
                };
                if verdict == Verdict::Forged {
                    return Err(Halt(place.forged("the list of vertex", vertex.into())));
                }
            }
            Ok(())
        })
    }

    /// Fetches the vertex table's lines of the first lists, which no list before them does; answers
    /// how many contexts all lists keep busy.
    fn begin_whole<W: ListWork>(&self, place: Place<'_>, work: &W) -> u32 {
        let entries = place.lists.table().entries();
        work.first(AHEAD_ENTRY as usize + 1, |v| prefetch(entries, v as usize));
        self.busy(place, work, self.limits.read_bytes_max / 4)
    }

    /// The next part of a list. A function finds it: whatever a context borrows lives in its frame,
    /// and a word stored there is slow to load as part of a larger one.
    #[inline(always)]
    fn next_whole<W: ListWork>(
        &self,
        place: Place<'_>,
        work: &W,
        rest: &Rest<W::Tag>,
    ) -> Option<Whole<W::Tag>> {
        let (tag, mut run) = match rest.take() {
            Some(rest) => rest,
            None => self.next_run(place, work)?,
        };
        let addr = place.word_addr(run.addr);
        let (vertex, mut weights) = (run.vertex, None);
        let words = if W::WEIGHTS {
            let apart = place.weight_addr(run.addr, run.piece);
            let is_whole = run.in_page == run.piece && place.layout.is_paired();
            if is_whole && 2 * run.in_page <= self.reach(addr) {
                run.in_page
            } else {
                weights = Some(apart);
                self.reach(addr).min(self.reach(apart))
            }
        } else {
            self.reach(addr)
        };
        let words = run.take(words, place.layout);
        rest.leave(tag, run);
        Some(Whole { tag, vertex, words, addr, weights })
    }

    /// Reads neighbours and the weights that lie apart from them, and hands both over.
    async fn apart<'r>(
        &'r self,
        cx: &Cx<'r, D>,
        (words, addr, weights): (u32, u64, u64),
        hand_over: impl FnOnce(&[u32], &[u32]) -> Verdict,
    ) -> std::result::Result<Verdict, Halt> {
        // Both are under way at once.
        let (start, len, skip) = self.widen(addr, words);
        let (weights_start, weights_len, weights_skip) = self.widen(weights, words);
        let first = cx.read(start, len);
        let second = cx.read(weights_start, weights_len);
        let (first, second) = (first.await?, second.await?);
        Ok(hand_over(slice(&first, skip, words)?, slice(&second, weights_skip, words)?))
    }

    /// Each context takes a list and reads it from its front until the kernel has enough.
    fn fronts_of_lists<W: ListWork>(&self, place: Place<'_>, work: &W) -> Result<()> {
        assert!(!W::WEIGHTS, "work with weights reads whole lists");
        let contexts = self.busy(place, work, u32::MAX);
        self.run(contexts, 1, async |cx| {
            let mut reader = self.reads_fixed.then(|| cx.reader::<FIRST_BYTES>());
            while let Some((tag, mut run)) = self.next_run(place, work) {
                let mut wanted = FIRST_WORDS;
                let mut depth = 0;
                while run.left > 0 {
                    depth += 1;
                    let addr = place.word_addr(run.addr);
                    let words = run.take(wanted.min(self.reach(addr)), place.layout);
                    let verdict = match &mut reader {
                        Some(reader) if depth == 1 && self.has_first(addr) => {
                            let (start, skip) = self.first(addr);
                            let bytes = reader.read(start).await?;
                            work.words(tag, run.vertex, slice(bytes, skip, words)?)
                        }
                        _ => {
                            let (start, len, skip) = self.widen(addr, words);
                            let bytes = cx.read(start, len).await?;
                            work.words(tag, run.vertex, slice(&bytes, skip, words)?)
                        }
                    };
                    match verdict {
                        Verdict::More => wanted = wanted.saturating_mul(GROWTH),
                        Verdict::Enough => break,
                        Verdict::Forged => {
                            let error = place.forged("the list of vertex", run.vertex.into());
                            return Err(Halt(error));
                        }
                    }
                }
                self.recorder.chain(depth);
            }
            Ok(())
        })
    }

    /// Reads that a context has under way while it reads a page.
    pub(super) fn parts_at_once(&self, place: Place<'_>) -> u32 {
        if self.limits.read_bytes_max >= place.layout.page_bytes() as u32 { 1 } else { 2 }
    }

    /// Reads a page into `words`: at once, or by two parts at a time.
    pub(super) async fn page_words<'r>(
        &'r self,
        cx: &Cx<'r, D>,
        place: Place<'_>,
        page: u32,
        words: &mut Vec<u32>,
    ) -> std::result::Result<(), Halt> {
        let page_bytes = place.layout.page_bytes() as u32;
        let part = self.limits.read_bytes_max.min(page_bytes);
        let addr = place.lists.pages().offset + u64::from(page) * u64::from(page_bytes);
        self.bytes.set(self.bytes.get() + u64::from(page_bytes));
        if part == page_bytes {
            words.extend_from_slice(slice(&cx.read(addr, page_bytes).await?, 0, part / 4)?);
        } else {
            // Two parts are under way at once, as many as a context has slots for.
            for from in (0..page_bytes).step_by(2 * part as usize) {
                let first = cx.read(addr + u64::from(from), part);
                let second = cx.read(addr + u64::from(from + part), part);
                words.extend_from_slice(slice(&first.await?, 0, part / 4)?);
                words.extend_from_slice(slice(&second.await?, 0, part / 4)?);
            }
        }
        self.recorder.chain(page_bytes / part / self.parts_at_once(place));
        Ok(())
    }

    /// Verifies a page on its first use; answers whether this was it.
    pub(super) fn verify(
        &self,
        place: Place<'_>,
        number: u32,
        page: PageView<'_>,
    ) -> std::result::Result<bool, Halt> {
        let is_new = self.verified.of(self.graph, place).check(number, page).map_err(Halt)?;
        self.pages_verified.set(self.pages_verified.get() + u64::from(is_new));
        Ok(is_new)
    }

    /// Hands a whole page over, verified on its first use.
    #[inline(always)]
    fn whole_page<W: PageWork>(
        &self,
        verified: VerifiedPages<'_>,
        number: u32,
        page: PageView<'_>,
        work: &W,
    ) -> std::result::Result<Verdict, Halt> {
        let is_new = verified.check(number, page).map_err(Halt)?;
        self.pages_verified.set(self.pages_verified.get() + u64::from(is_new));
        Ok(work.page(page))
    }

    /// The next part of a shared list, or else the next list.
    #[inline(always)]
    fn next_part<W: ListWork>(&self, place: Place<'_>, work: &W) -> Option<(W::Tag, Part)> {
        if let Some(part) = work.next_part() {
            return Some(part);
        }
        let (tag, item) = work.next()?;
        if let Some(v) = work.peek(AHEAD_ENTRY) {
            prefetch(place.lists.table().entries(), v as usize);
        }
        Some((tag, item.into()))
    }

    /// The next list with something to read.
    #[inline(always)]
    pub(super) fn next_run<W: ListWork>(
        &self,
        place: Place<'_>,
        work: &W,
    ) -> Option<(W::Tag, Run)> {
        loop {
            let (tag, item) = self.next_part(place, work)?;
            let list = place.lists.locate(item.vertex);
            if list.degree > item.skip && !work.is_idle(tag, item.vertex, list.degree) {
                let piece = place.layout.piece_arcs() as u32;
                // Nearly every list begins at its front, where no read waits for a division.
                let (before, offset) = match item.skip {
                    0 => (0, 0),
                    skip => (skip / piece, skip % piece),
                };
                let pages = u64::from(before) * place.layout.page_words() as u64;
                let left = (list.degree - item.skip).min(item.len);
                let run = Run {
                    vertex: item.vertex,
                    left,
                    in_page: left.min(piece - offset),
                    piece: (left + offset).min(piece),
                    addr: list.addr + pages + u64::from(offset),
                };
                return Some((tag, run));
            }
        }
    }
}

/// What is left to read of a list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) vertex: u32,
    pub(super) left: u32,
    /// How much of it lies in the page of `addr`.
    pub(super) in_page: u32,
    /// How long the whole piece in that page is.
    pub(super) piece: u32,
    /// Word address in PAGES.
    pub(super) addr: u64,
}

impl Run {
    /// Takes at most `words` words off the front, not past the page.
    #[inline(always)]
    pub(super) fn take(&mut self, words: u32, layout: Layout) -> u32 {
        let taken = words.min(self.in_page);
        self.left -= taken;
        self.in_page -= taken;
        self.addr += u64::from(taken);
        // Behind the end of a list there is no next page to find.
        if self.in_page == 0 && self.left > 0 {
            self.addr = self.addr.next_multiple_of(layout.page_words() as u64);
            self.in_page = self.left.min(layout.piece_arcs() as u32);
            self.piece = self.in_page;
        }
        taken
    }
}

/// A part of a list that is read whole, to be read at once.
struct Whole<T> {
    tag: T,
    vertex: u32,
    words: u32,
    /// Byte address of its neighbours.
    addr: u64,
    /// Byte address of its weights, where one read does not bring both.
    weights: Option<u64>,
}

/// What is left of the list that contexts take pieces of.
struct Rest<T> {
    /// Whether there is any: most lists are one piece, and copying nothing for them is quicker.
    is_some: Cell<bool>,
    list: Cell<(T, Run)>,
}

impl<T: Copy + Default> Default for Rest<T> {
    fn default() -> Self {
        Rest { is_some: Cell::new(false), list: Cell::default() }
    }
}

impl<T: Copy> Rest<T> {
    #[inline(always)]
    fn take(&self) -> Option<(T, Run)> {
        self.is_some.replace(false).then(|| self.list.get())
    }

    #[inline(always)]
    fn leave(&self, tag: T, run: Run) {
        if run.left > 0 && !mutant!("graph_rest_of_list_lost") {
            self.is_some.set(true);
            self.list.set((tag, run));
        }
    }

    /// How many neighbours are left.
    fn words(&self) -> u32 {
        if self.is_some.get() { self.list.get().1.left } else { 0 }
    }
}

/// `words` words of a delivery, after `skip` bytes.
#[inline(always)]
fn slice(bytes: &[u8], skip: usize, words: u32) -> std::result::Result<&[u32], Halt> {
    let bytes = bytes.get(skip..skip + words as usize * 4);
    bytes.and_then(|b| bytemuck::try_cast_slice(b).ok()).ok_or_else(misdelivered)
}

#[cold]
fn misdelivered() -> Halt {
    Halt(Error::new(
        Kind::Device,
        "the device delivered fewer bytes than asked, or misaligned ones",
    ))
}

impl<D: ReadDevice> Edges for Ringed<'_, D> {
    const FAST: bool = D::FAST;

    fn heads<W: HeadWork>(&self, direction: Direction, work: &W) -> Result<()> {
        let place = Place::new(self.graph, direction);
        self.run(self.streams(4 * self.span_vertices()), 1, async |cx| {
            while let Some((tag, span)) = work.next() {
                let units = place.units(span);
                let mut depth = 0;
                for k in 0..units {
                    let Some(part) = work.want(tag, span, k) else { break };
                    if part.len == 0 {
                        continue;
                    }
                    depth += 1;
                    let (start, len, skip) = self.widen(place.unit_addr(part, k), part.len);
                    let bytes = cx.read(start, len).await?;
                    match work.unit(tag, part, k, slice(&bytes, skip, part.len)?) {
                        Verdict::More => {}
                        Verdict::Enough => break,
                        Verdict::Forged => {
                            let error = place.forged("the block of vertex", span.first.into());
                            return Err(Halt(error));
                        }
                    }
                }
                work.done(tag, span, units);
                self.recorder.chain(depth);
            }
            Ok(())
        })
    }

    fn lists<W: ListWork>(&self, direction: Direction, work: &W) -> Result<()> {
        let place = Place::new(self.graph, direction);
        if W::FROM_THE_FRONT {
            self.fronts_of_lists(place, work)
        } else if W::WEIGHTS {
            self.weighted_lists(place, work)
        } else {
            self.whole_lists(place, work)
        }
    }

    fn pages<W: PageWork>(&self, direction: Direction, work: &W) -> Result<()> {
        let place = Place::new(self.graph, direction);
        let page_bytes = place.layout.page_bytes() as u32;
        let part = self.limits.read_bytes_max.min(page_bytes);
        let verified = self.verified.of(self.graph, place);
        self.run(self.streams(page_bytes), self.parts_at_once(place), async |cx| {
            let mut whole = Vec::new();
            while let Some(number) = work.next() {
                let verdict = if part == page_bytes {
                    let offset = u64::from(number) * u64::from(page_bytes);
                    self.bytes.set(self.bytes.get() + u64::from(page_bytes));
                    let bytes = cx.read(place.lists.pages().offset + offset, page_bytes).await?;
                    self.recorder.chain(1);
                    let page = PageView::new(&bytes).ok_or_else(misdelivered)?;
                    self.whole_page(verified, number, page, work)?
                } else {
                    whole.clear();
                    self.page_words(&cx, place, number, &mut whole).await?;
                    self.whole_page(verified, number, PageView::from_words(&whole), work)?
                };
                if verdict == Verdict::Forged {
                    return Err(Halt(place.forged("page", number.into())));
                }
            }
            Ok(())
        })
    }

    fn span_vertices(&self) -> u32 {
        let words = self.limits.read_bytes_max / 4;
        (1 << words.ilog2()).min(HEAD_BLOCK_VERTICES as u32)
    }

    fn traffic(&self) -> Traffic {
        let counts = self.ring.counters();
        Traffic {
            reads_count: counts.reads_count,
            read_bytes: self.bytes.get(),
            pages_verified_count: self.pages_verified.get(),
            cache_hits_count: 0,
            polls_count: counts.polls_count,
            contexts: self.ring.contexts(),
            page_hint: None,
            list_hint: None,
        }
    }

    fn record(&self, on: bool) {
        self.recorder.switch(on);
    }

    fn phases(&self) -> Vec<Phase> {
        self.recorder.phases()
    }
}
