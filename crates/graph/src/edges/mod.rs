//! The seam between kernels and media: three ways of reading edges, each given the kernel's work.
//!
//! - [`HeadWork`]: the fronts of lists, unit after unit of a block, for as long as the kernel
//!   wants;
//! - [`ListWork`]: whole lists, or as much of each as the kernel needs;
//! - [`PageWork`]: every page once, in about the order of vertices.
//!
//! A kernel is written once against these. [`Edges`] is implemented by the resident form
//! ([`resident`]: slices and prefetches) and by the ring over any device
//! ([`ringed`]).
//!
//! Work is pulled, one item at a time, by the context that has room for it; items end in any order.
//!
//! Invariants
//! - Words handed over may be forged: a kernel answers [`Verdict::Forged`] for an id that is no
//!   vertex, and the step ends with an error that names the place. Nothing indexes unchecked.
//!   Checked by `forged_neighbours_are_an_error_on_every_road`.

pub(crate) mod hint;
pub(crate) mod paged;
pub(crate) mod phase;
pub(crate) mod raw;
pub(crate) mod resident;
pub(crate) mod ringed;
pub(crate) mod verified;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hint::Hint;
use phase::Phase;

use crate::error::{Error, Kind, Result};
use crate::format::file::{GraphFile, Lists};
use crate::format::page::PageView;
use crate::format::{Direction, HEAD_BLOCK_VERTICES, HEAD_UNIT_BYTES, Layout};

/// What a kernel says to the words it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Go on.
    More,
    /// Enough of this item.
    Enough,
    /// A word is no vertex: the medium is corrupt.
    Forged,
}

/// A run of vertices inside one head block; start and length are multiples of 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: u32,
    pub(crate) len: u32,
}

impl Span {
    /// The words of a bitmap that stand for the span.
    #[inline(always)]
    pub(crate) fn words(self) -> std::ops::Range<usize> {
        let first = self.first as usize / 64;
        first..first + self.len as usize / 64
    }

    /// The span's vertices as indexes.
    #[inline(always)]
    pub(crate) fn vertices(self) -> std::ops::Range<usize> {
        self.first as usize..(self.first + self.len) as usize
    }

    /// The head block the span lies in.
    #[inline(always)]
    pub(crate) fn block(self) -> usize {
        self.first as usize / HEAD_BLOCK_VERTICES
    }

    /// The part from bitmap word `from` to `to` (counted in the whole set).
    #[inline(always)]
    pub(crate) fn part(from: usize, to: usize) -> Span {
        Span { first: from as u32 * 64, len: (to - from) as u32 * 64 }
    }
}

/// A kernel's wishes for the fronts of lists.
pub(crate) trait HeadWork {
    /// Which of several pieces of work a span belongs to; `()` where there is one.
    type Tag: Copy;
    /// The next span to look at.
    fn next(&self) -> Option<(Self::Tag, Span)>;
    /// The part of `span` for which unit `k` is wanted; `None` ends the span.
    fn want(&self, tag: Self::Tag, span: Span, k: u32) -> Option<Span>;
    /// Unit `k` of `part`: the `k`-th neighbour of each of its vertices.
    fn unit(&self, tag: Self::Tag, part: Span, k: u32, words: &[u32]) -> Verdict;
    /// The span is finished; its block has `units` units.
    fn done(&self, tag: Self::Tag, span: Span, units: u32);
}

/// A list to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Whose list.
    pub(crate) vertex: u32,
    /// How many neighbours at its front to leave out.
    pub(crate) skip: u32,
}

/// A run of whole pieces of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Whose list.
    pub(crate) vertex: u32,
    /// How many neighbours lie before it: those of whole pieces, where `len` is not unlimited.
    pub(crate) skip: u32,
    /// How many neighbours it has at most.
    pub(crate) len: u32,
}

impl From<Item> for Part {
    #[inline(always)]
    fn from(item: Item) -> Part {
        Part { vertex: item.vertex, skip: item.skip, len: u32::MAX }
    }
}

/// A kernel's wishes for lists.
pub(crate) trait ListWork {
    /// Which of several pieces of work a list belongs to; `()` where there is one.
    type Tag: Copy + Default;
    /// Whether the kernel may say [`Verdict::Enough`] before a list ends: it is then read in order,
    /// little by little. Otherwise its pieces are read all at once, by several contexts.
    const FROM_THE_FRONT: bool;
    /// Whether the weights that the file stores are handed over too: by [`ListWork::arcs`] then,
    /// never by [`ListWork::words`]. Such work reads whole lists of a graph with weights.
    const WEIGHTS: bool = false;
    /// Whether the work grows while it is done; see [`ListWork::waiting`].
    const GROWS: bool = false;
    /// The next list.
    fn next(&self) -> Option<(Self::Tag, Item)>;
    /// The next part of a list that several threads share; asked before [`ListWork::next`].
    fn next_part(&self) -> Option<(Self::Tag, Part)> {
        None
    }
    /// The most reads still to come, where that is known: the sum of `reads` over the vertices
    /// whose lists are read, or `most` as soon as it exceeds that. More contexts than reads are
    /// useless.
    fn reads_max(&self, most: u64, reads: &dyn Fn(u32) -> u64) -> Option<u64>;
    /// Items that could be taken now, where the work grows while it is done; 0 where it does not.
    /// Never more than are there, and 0 once [`ListWork::next`] gives none: a run goes on while
    /// items wait.
    fn waiting(&self) -> u64 {
        0
    }
    /// Whether the list of `vertex`, of `degree` neighbours, tells nothing new: it is not read
    /// then. Asked once per list or part that was handed out.
    fn is_idle(&self, _tag: Self::Tag, _vertex: u32, _degree: u32) -> bool {
        false
    }
    /// Hands the vertices of the first items to `each`, at most `most`, where they are known before
    /// one is taken.
    fn first(&self, _most: usize, _each: impl FnMut(u32)) {}
    /// The vertex `ahead` items later, if that is known.
    fn peek(&self, ahead: u64) -> Option<u32>;
    /// Says that `words` will be handed over soon: what they point to may be prefetched.
    fn warm(&self, words: &[u32]);
    /// Some neighbours of `vertex`.
    fn words(&self, tag: Self::Tag, vertex: u32, words: &[u32]) -> Verdict;
    /// Some neighbours of `vertex` and as many weights, as bits of f32 that may be forged.
    fn arcs(&self, _tag: Self::Tag, _vertex: u32, _words: &[u32], _weights: &[u32]) -> Verdict {
        unreachable!("invariant: work without weights gets words")
    }
}

/// The sum of `reads` over `vertices`, or `most` as soon as it exceeds that.
pub(crate) fn reads_of(
    vertices: impl ExactSizeIterator<Item = u32>,
    most: u64,
    reads: &dyn Fn(u32) -> u64,
) -> u64 {
    if vertices.len() as u64 >= most {
        return most;
    }
    vertices.map(reads).sum::<u64>().min(most)
}

/// A kernel's wishes for pages.
pub(crate) trait PageWork {
    /// The next page.
    fn next(&self) -> Option<u32>;
    /// A page's lists. `upcoming` are words that will be handed over later, for prefetching.
    fn page(&self, page: PageView<'_>) -> Verdict;
}

/// One thread's access to a graph's edges.
pub(crate) trait Edges {
    /// Whether kernels are compiled for one thread as well: an atomic step beside a system call or
    /// a queue pair is not worth the code.
    const FAST: bool = true;

    /// Reads fronts of lists.
    ///
    /// # Errors
    /// `Kind::Device`, `Kind::Corrupt`.
    fn heads<W: HeadWork>(&self, direction: Direction, work: &W) -> Result<()>;
    /// Reads lists.
    ///
    /// # Errors
    /// `Kind::Device`, `Kind::Corrupt`.
    fn lists<W: ListWork>(&self, direction: Direction, work: &W) -> Result<()>;
    /// Reads pages.
    ///
    /// # Errors
    /// `Kind::Device`, `Kind::Corrupt`.
    fn pages<W: PageWork>(&self, direction: Direction, work: &W) -> Result<()>;
    /// The longest span worth asking for, in vertices: a power of two, at least 64.
    fn span_vertices(&self) -> u32;
    /// Reads and bytes so far.
    fn traffic(&self) -> Traffic;
    /// Whether phases are recorded from now on; what was recorded before is forgotten.
    fn record(&self, _on: bool) {}
    /// The phases recorded since then.
    fn phases(&self) -> Vec<Phase> {
        Vec::new()
    }
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Read requests; for DRAM, runs of words handed to the kernel.
    pub reads_count: u64,
    /// Bytes asked for.
    pub read_bytes: u64,
    /// Whole pages that were verified against their trailers because nothing had read them before.
    pub pages_verified_count: u64,
    /// Parts of lists that a cache of pages served, or a read that was under way for another list.
    pub cache_hits_count: u64,
    /// Times a context was polled; zero for DRAM.
    pub polls_count: u64,
    /// Contexts of the ring at the end; zero for DRAM.
    pub contexts: u32,
    /// The hint with which pages in DRAM are prefetched, once it is chosen.
    pub page_hint: Option<Hint>,
    /// The hint with which lists in DRAM are prefetched, once it is chosen.
    pub list_hint: Option<Hint>,
}

impl Traffic {
    /// What happened since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Traffic) -> Traffic {
        Traffic {
            reads_count: self.reads_count - earlier.reads_count,
            read_bytes: self.read_bytes - earlier.read_bytes,
            pages_verified_count: self.pages_verified_count - earlier.pages_verified_count,
            cache_hits_count: self.cache_hits_count - earlier.cache_hits_count,
            polls_count: self.polls_count - earlier.polls_count,
            contexts: self.contexts,
            page_hint: self.page_hint,
            list_hint: self.list_hint,
        }
    }

    /// The sum over two threads.
    #[must_use]
    pub fn plus(self, other: Traffic) -> Traffic {
        Traffic {
            reads_count: self.reads_count + other.reads_count,
            read_bytes: self.read_bytes + other.read_bytes,
            pages_verified_count: self.pages_verified_count + other.pages_verified_count,
            cache_hits_count: self.cache_hits_count + other.cache_hits_count,
            polls_count: self.polls_count + other.polls_count,
            contexts: self.contexts.max(other.contexts),
            page_hint: self.page_hint.or(other.page_hint),
            list_hint: self.list_hint.or(other.list_hint),
        }
    }
}

/// Where one direction of a graph lies in its file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'g> {
    pub(crate) lists: &'g Lists,
    pub(crate) layout: Layout,
    pub(crate) direction: Direction,
    /// The file, for messages.
    path: &'g Path,
}

impl<'g> Place<'g> {
    pub(crate) fn new(graph: &'g GraphFile, direction: Direction) -> Self {
        let (lists, layout) = (graph.lists(direction), graph.layout());
        Place { lists, layout, direction, path: graph.path() }
    }

    /// The direction whose lists are stored: an undirected graph has outgoing ones alone.
    pub(crate) fn stored(self, graph: &GraphFile) -> Direction {
        if graph.is_directed() { self.direction } else { Direction::Out }
    }

    /// How many pages.
    pub(crate) fn page_count(self) -> u32 {
        (self.lists.pages().bytes / self.layout.page_bytes() as u64) as u32
    }

    /// Units of the block that `span` lies in.
    #[inline(always)]
    pub(crate) fn units(self, span: Span) -> u32 {
        let index = self.lists.head_index();
        index[span.block() + 1] - index[span.block()]
    }

    /// Byte address in the file of unit `k` of `part`.
    #[inline(always)]
    pub(crate) fn unit_addr(self, part: Span, k: u32) -> u64 {
        let unit = u64::from(self.lists.head_index()[part.block()] + k);
        let at = part.first as usize % HEAD_BLOCK_VERTICES * 4;
        self.lists.heads().offset + unit * HEAD_UNIT_BYTES as u64 + at as u64
    }

    /// Byte address in the file of word `addr` of PAGES.
    #[inline(always)]
    pub(crate) fn word_addr(self, addr: u64) -> u64 {
        self.lists.pages().offset + addr * 4
    }

    /// Byte address in the file of the weight of the neighbour at word `addr` of PAGES, in a piece
    /// of `piece` neighbours: as many words behind it, or in files of version 1 at the same word of
    /// WEIGHTS.
    #[inline(always)]
    pub(crate) fn weight_addr(self, addr: u64, piece: u32) -> u64 {
        match self.lists.weight_pages() {
            Some(weights) => weights.offset + addr * 4,
            None => self.word_addr(addr + u64::from(piece)),
        }
    }

    #[cold]
    pub(crate) fn forged(self, what: &str, number: u64) -> Error {
        let context = format!(
            "{what} {number} of direction {:?} names a neighbour that is no vertex: the graph file \
             is damaged; run `littoral graph check {}` or import it again",
            self.direction,
            self.path.display()
        );
        Error::new(Kind::Corrupt, context).at_path(self.path)
    }
}

/// Degrees as kernels need them often: whether a vertex has any arc at all.
pub(crate) fn without_arcs(lists: &Lists, words: &[AtomicU64]) {
    let mut entries = lists.table().entries().chunks(64);
    for word in words {
        let chunk = entries.next().unwrap_or(&[]);
        let set = (0..64).filter(|&i| chunk.get(i).is_none_or(|e| e >> 40 == 0));
        word.store(set.fold(0, |w, i| w | 1 << i), Relaxed);
    }
}
